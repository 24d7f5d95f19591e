"""umab: adversarial multi-armed bandits with unbounded losses.

`Learner` makes one decision at a time; `simulate` runs policies on a table of losses many times. Both run the same
policies: `policies` lists them, and a policy's docstring says what it is good for.
"""

from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.registry import policies, policy, register
from umab.algorithms.umab_g import UMABG
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.uniform import Uniform
from umab.engine.simulate import simulate
from umab.learner import Choice, Learner
from umab.losses import Losses
from umab.results import Result

__all__ = [
    "UMABG",
    "UMABNN",
    "Choice",
    "Learner",
    "Losses",
    "Policy",
    "Result",
    "Uniform",
    "__version__",
    "policies",
    "policy",
    "register",
    "simulate",
]
