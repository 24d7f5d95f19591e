"""UMAB-NN, for losses of unknown size that are never negative."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab._support.checks import LARGEST
from umab.algorithms.base import NoParameters, Policy
from umab.algorithms.limits import POSITIVE_SUMS, RATE, SUMS, UNIT, Limits, too_much_rounding
from umab.maths import simplex
from umab.maths.numerics import FINEST_UNIT, add_square, fit_unit, importance_weighted, rescale
from umab.maths.simplex import Vector, log_barrier


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p_t
    loss_sums: Vector  # Σ ℓ̂_s, what FTRL minimizes
    square_sum: float  # Σ ℓ²_{s,k_s}, in the learning rate
    square_sum_error: float  # what rounding has added to square_sum
    unit: float  # multiplier from losses to the unit of the sums
    learning_rate: float  # η_t, per unit; 0 before the first loss that is not 0


@dataclass(frozen=True, kw_only=True)
class UMABNN(Policy[State, NoParameters]):
    """UMAB-NN, for losses of any size that are never negative: times, errors, costs.

    It has no parameters and needs neither a range nor a horizon, and units do not matter: seconds or milliseconds give
    the same choices. It follows the regularized leader with a log-barrier,

        p_t = argmin_p Σ_{s<t} ⟨ℓ̂_s, p⟩ + (1/η_t) Σ_k log(1/p_k),    η_t = 2 √(n / Σ_{s<t} ℓ²_{s,k_s}),

    with the estimate ℓ̂_{t,k} = ℓ_{t,k} / p_{t,k} for the arm k that was drawn and 0 for the others. Until the first
    loss that is not 0, p_t is uniform.

    Guarantee
    ---------
    Expected regret of order sqrt(n Σ‖ℓ_t‖²∞) up to logarithms, against an oblivious adversary. Strictly scale-free:
    multiplying all losses by the same positive number changes no distribution; if it is a power of two, not even a bit.

    References
    ----------
    Chen and Zhang, Improved Algorithms for Adversarial Bandits with Unbounded Losses, Algorithm 1 and Theorem 1.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABNN(), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.probabilities().round(4)
    array([0.0796, 0.4602, 0.4602])
    """

    scale_free: ClassVar[bool] = True
    instead: ClassVar[str] = "; umab.recommended() takes losses of any sign"

    @property
    def guarantee(self) -> str:
        """Theorem 1."""
        return "√(n Σ‖ℓ_t‖²∞)"

    @property
    def loss_range(self) -> tuple[float, float]:
        """At least 0, as Theorem 1 requires."""
        return 0.0, LARGEST

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            square_sum=0.0,
            square_sum_error=0.0,
            unit=FINEST_UNIT,
            learning_rate=0.0,
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "square_sum": POSITIVE_SUMS,
            "square_sum_error": SUMS,
            "unit": UNIT,
            "learning_rate": RATE,
        }

    def fault(self, state: State, tickets: Sequence[object]) -> str | None:
        """Find a sum with more rounding than sum."""
        return too_much_rounding(state.square_sum, state.square_sum_error)

    def rates(self, state: State) -> dict[str, float]:
        """Return η."""
        return {"η": state.learning_rate * state.unit} if state.learning_rate else {}

    @staticmethod
    def update(parameters: NoParameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        unit, shrink = fit_unit(state.unit, loss)
        rescale(state.loss_sums, shrink)
        loss *= unit
        square_sum, square_sum_error = add_square(state.square_sum, state.square_sum_error, shrink, loss)
        state.loss_sums[arm] += importance_weighted(loss, probability)
        learning_rate = 0.0
        if square_sum > 0.0:
            learning_rate = 2.0 * math.sqrt(n_arms / square_sum)
            log_barrier(state.loss_sums, learning_rate, state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            square_sum=square_sum,
            square_sum_error=square_sum_error,
            unit=unit,
            learning_rate=learning_rate,
        )
