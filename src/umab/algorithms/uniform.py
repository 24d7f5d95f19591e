"""Uniform choice, the yardstick that learns nothing."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab.algorithms.base import NoParameters, Policy
from umab.maths import simplex
from umab.maths.simplex import Vector


class State(NamedTuple):
    """The distribution, which never changes."""

    probabilities: Vector


@dataclass(frozen=True, kw_only=True)
class Uniform(Policy[State, NoParameters]):
    """Draw every arm with the same probability in every round.

    Guarantee
    ---------
    None: the regret grows linearly with the gap between the best arm and the average one.

    Examples
    --------
    >>> import umab
    >>> umab.Learner(umab.Uniform(), arms=4).probabilities()
    array([0.25, 0.25, 0.25, 0.25])
    """

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(probabilities=simplex.uniform(n_arms))

    @staticmethod
    def update(parameters: NoParameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Return the state unchanged."""
        return state
