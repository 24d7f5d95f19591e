"""umab: adversarial multi-armed bandits with unbounded losses.

`Learner` makes one decision at a time; `simulate` runs policies on a table of losses many times. Both run the same
policies: `policies` lists them, and a policy's docstring says what it is good for. `umab.datasets`, `umab.testing` and
`umab.theory` are imported when they are first asked for.
"""

from typing import TYPE_CHECKING

from umab._version import __version__
from umab.algorithms.ada_hedge import AdaHedge
from umab.algorithms.ahb import AHB
from umab.algorithms.banker_omd import BankerOMD
from umab.algorithms.base import FullInformation, Policy
from umab.algorithms.centred import Centred
from umab.algorithms.exp3 import EXP3
from umab.algorithms.exp3_ix import EXP3IX
from umab.algorithms.exp3_p import EXP3P
from umab.algorithms.registry import policies, policy, recommended, register
from umab.algorithms.scb import SCB
from umab.algorithms.scb_ix import SCBIX
from umab.algorithms.sf_mab import SFMAB
from umab.algorithms.solo_ftrl import SOLOFTRL
from umab.algorithms.tsallis_inf import TsallisINF
from umab.algorithms.umab_g import UMABG
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import UMABS
from umab.algorithms.uniform import Uniform
from umab.algorithms.wrapper import Wrapper
from umab.choosing import Attempt, choose
from umab.counters import Counter
from umab.engine.simulate import simulate
from umab.learner import Choice, Learner, LearnerWarning
from umab.losses import Losses, TableWarning
from umab.results import Result, plot

if TYPE_CHECKING:
    from umab import datasets as datasets
    from umab import offpolicy as offpolicy
    from umab import testing as testing
    from umab import theory as theory

__all__ = [
    "AHB",
    "EXP3",
    "EXP3IX",
    "EXP3P",
    "SCB",
    "SCBIX",
    "SFMAB",
    "SOLOFTRL",
    "UMABG",
    "UMABNN",
    "UMABS",
    "AdaHedge",
    "Attempt",
    "BankerOMD",
    "Centred",
    "Choice",
    "Counter",
    "FullInformation",
    "Learner",
    "LearnerWarning",
    "Losses",
    "Policy",
    "Result",
    "TableWarning",
    "TsallisINF",
    "Uniform",
    "Wrapper",
    "__version__",
    "choose",
    "plot",
    "policies",
    "policy",
    "recommended",
    "register",
    "simulate",
]

_LATER = ("datasets", "offpolicy", "testing", "theory")
"""What is imported when it is first asked for: not everybody needs it, and `import umab` should not wait for it."""

if not TYPE_CHECKING:  # who checks types should still hear of names that are not there

    def __getattr__(name: str) -> object:
        """Import what is imported later."""
        if name not in _LATER:
            raise AttributeError(f"module 'umab' has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"umab.{name}")

    def __dir__() -> list[str]:
        """Return all names, also of what is not imported yet."""
        return sorted({*globals(), *_LATER})
