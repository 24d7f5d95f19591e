"""SOLO-FTRL with the negative entropy, which sees all losses: scale-free."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab.algorithms.base import FullInformation, NoParameters
from umab.maths.numerics import FINEST_UNIT, add_square, fit_unit
from umab.maths.simplex import Vector, largest_size, softmin, uniform


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # w_t
    loss_sums: Vector  # L_t
    square_sum: float  # Σ ‖ℓ_s‖²∞
    square_sum_error: float  # what rounding has added to square_sum
    unit: float  # multiplier from losses to the unit of the sums


@dataclass(frozen=True, kw_only=True)
class SOLOFTRL(FullInformation):
    """SOLO-FTRL, which sees the losses of all arms; a yardstick for what bandits pay for seeing one.

    w_t = softmin(L_t / √(Σ_{s<t} ‖ℓ_s‖²∞)), and uniform while all losses are 0.

    Guarantee
    ---------
    Regret of order √(Σ‖ℓ_t‖²∞) ln n. Multiplying all losses by a positive number changes no distribution.

    References
    ----------
    Orabona and Pál, Scale-Free Online Learning, Theoretical Computer Science 2018.

    Examples
    --------
    >>> import umab
    >>> umab.simulate(umab.SOLOFTRL(), [[0.0, 1.0]] * 100, n_trials=10)
    Result(solo-ftrl: expected regret 1.94534 ± 0 after 100 rounds, 10 trials)
    """

    scale_free: ClassVar[bool] = True

    @property
    def guarantee(self) -> str:
        """As published, for the entropy with this constant."""
        return "√(Σ‖ℓ_t‖²∞) ln n"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(
            probabilities=uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            square_sum=0.0,
            square_sum_error=0.0,
            unit=FINEST_UNIT,
        )

    def rates(self, state: State) -> dict[str, float]:
        """Return the learning rate, once there is a loss."""
        return {"η": state.unit / math.sqrt(state.square_sum)} if state.square_sum else {}

    @staticmethod
    def update_full(parameters: NoParameters, state: State, losses: Vector) -> State:
        """Learn from the losses of a round."""
        n_arms = len(state.probabilities)
        size = largest_size(losses)
        unit, shrink = fit_unit(state.unit, size)
        for k in range(n_arms):
            state.loss_sums[k] = state.loss_sums[k] * shrink + losses[k] * unit
        square_sum, square_sum_error = add_square(state.square_sum, state.square_sum_error, shrink, size * unit)
        if square_sum > 0.0:
            softmin(state.loss_sums, 1.0 / math.sqrt(square_sum), state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            square_sum=square_sum,
            square_sum_error=square_sum_error,
            unit=unit,
        )
