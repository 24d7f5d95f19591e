"""umab: adversarial multi-armed bandits with unbounded losses.

`Learner` makes one decision at a time; `simulate` runs policies on a loss table many times, and `compare` says which of
them would have done best. All run the same policies: `policies` lists them, and a policy's docstring says what it is
good for. `umab.datasets`, `umab.offpolicy`, `umab.testing` and `umab.theory` are imported when they are first used.
"""

from typing import TYPE_CHECKING

from umab._version import __version__
from umab.algorithms.ada_hedge import AdaHedge
from umab.algorithms.ada_tinf import AdaTINF
from umab.algorithms.ahb import AHB
from umab.algorithms.banker_late import BankerSFLBINF, BankerSFTINF
from umab.algorithms.banker_omd import BankerOMD
from umab.algorithms.base import FullInformation, Policy
from umab.algorithms.centred import Centred
from umab.algorithms.exp3 import EXP3
from umab.algorithms.exp3_ix import EXP3IX
from umab.algorithms.exp3_p import EXP3P
from umab.algorithms.exp3_s import EXP3S
from umab.algorithms.guard import Guarded
from umab.algorithms.htinf import HTINF
from umab.algorithms.local import LocallyCentred
from umab.algorithms.names import policy
from umab.algorithms.registry import Record, policies, recommended, register
from umab.algorithms.scb import SCB
from umab.algorithms.scb_d import SCBD
from umab.algorithms.scb_ix import SCBIX
from umab.algorithms.sf_mab import SFMAB
from umab.algorithms.solo_ftrl import SOLOFTRL
from umab.algorithms.tsallis_inf import TsallisINF
from umab.algorithms.tsallis_inf_d import TsallisINFD
from umab.algorithms.umab_e import UMABE
from umab.algorithms.umab_g import UMABG, UMABGA
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_r import UMABR
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.uniform import Uniform
from umab.algorithms.wrapper import Wrapper
from umab.engine.simulate import simulate
from umab.online.choice import Choice, Draw
from umab.online.choosing import Attempt, choose
from umab.online.counters import Counter
from umab.online.hints import LearnerWarning
from umab.online.keyed import Learners
from umab.online.learner import Learner
from umab.results.result import Result, plot
from umab.results.tracking import BestSequence, best_sequence
from umab.tables.losses import Losses, TableWarning

if TYPE_CHECKING:
    from umab import contextual as contextual
    from umab import datasets as datasets
    from umab import errors as errors
    from umab import offpolicy as offpolicy
    from umab import testing as testing
    from umab import theory as theory
    from umab.research.comparison import Comparison, compare
    from umab.research.experiments.frames import read_sweep

__all__ = [
    "AHB",
    "EXP3",
    "EXP3IX",
    "EXP3P",
    "EXP3S",
    "HTINF",
    "SCB",
    "SCBD",
    "SCBIX",
    "SFMAB",
    "SOLOFTRL",
    "UMABE",
    "UMABG",
    "UMABGA",
    "UMABNN",
    "UMABR",
    "UMABS",
    "UMABW",
    "AdaHedge",
    "AdaTINF",
    "Attempt",
    "BankerOMD",
    "BankerSFLBINF",
    "BankerSFTINF",
    "BestSequence",
    "Centred",
    "Choice",
    "Comparison",
    "Counter",
    "Draw",
    "FullInformation",
    "Guarded",
    "Learner",
    "LearnerWarning",
    "Learners",
    "LocallyCentred",
    "Losses",
    "Policy",
    "Record",
    "Result",
    "TableWarning",
    "TsallisINF",
    "TsallisINFD",
    "UMABSh",
    "Uniform",
    "Wrapper",
    "__version__",
    "best_sequence",
    "choose",
    "compare",
    "plot",
    "policies",
    "policy",
    "read_sweep",
    "recommended",
    "register",
    "simulate",
]

_LATER = ("contextual", "datasets", "errors", "offpolicy", "testing", "theory")
"""Modules that are imported when they are first used: not everybody needs them, and `import umab` should be quick."""

_NAMES = {
    "Comparison": "umab.research.comparison",
    "compare": "umab.research.comparison",
    "read_sweep": "umab.research.experiments.frames",
}
"""Names whose modules are imported when they are first used, for the same reason."""

if not TYPE_CHECKING:  # type checkers should still report names that do not exist

    def __getattr__(name: str) -> object:
        """Import a module, or the module of a name, when it is first used."""
        from importlib import import_module

        if name in _LATER:
            return import_module(f"umab.{name}")
        if name in _NAMES:
            return getattr(import_module(_NAMES[name]), name)
        raise AttributeError(f"module 'umab' has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Return all names, including those that are not imported yet."""
        return sorted({*globals(), *_LATER, *_NAMES})
