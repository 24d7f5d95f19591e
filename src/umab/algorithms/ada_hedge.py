"""AdaHedge, which sees all losses: scale-free and shift-free."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab._support.checks import LARGEST
from umab.algorithms.base import FullInformation, NoParameters
from umab.maths.numerics import FINEST_UNIT, fit_unit
from umab.maths.simplex import Vector, largest_size, soft_minimum, softmin, uniform


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # w_t
    loss_sums: Vector  # L_t
    gap_sum: float  # Δ_t
    unit: float  # multiplier from losses to the unit of the sums


@dataclass(frozen=True, kw_only=True)
class AdaHedge(FullInformation):
    """AdaHedge, which sees the losses of all arms; a yardstick for what bandits pay for seeing one.

    w_t = softmin(η_t L_t) with η_t = ln n / Δ_t, where Δ grows by the mixability gap ⟨w, ℓ⟩ + (1/η) ln Σ w_k e^{−ηℓ_k}
    of each round. While Δ is 0 it would follow the leader; Δ stays 0 only while all arms have cost the same, so that
    means the uniform distribution.

    Guarantee
    ---------
    Regret of order √(Σ (max ℓ_t − min ℓ_t)² ln n). Multiplying all losses by a positive number, or adding a number to
    all, changes no distribution.

    References
    ----------
    De Rooij, van Erven, Grünwald and Koolen, Follow the Leader If You Can, Hedge If You Must, JMLR 2014.

    Examples
    --------
    >>> import umab
    >>> umab.simulate(umab.AdaHedge(), [[0.0, 1.0]] * 100, n_trials=10)
    Result(adahedge: expected regret 0.836411 ± 0 after 100 rounds, 10 trials)
    """

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True

    @property
    def guarantee(self) -> str:
        """As published."""
        return "√(Σ(max ℓ_t − min ℓ_t)² ln n)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(
            probabilities=uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            gap_sum=0.0,
            unit=FINEST_UNIT,
        )

    def rates(self, state: State) -> dict[str, float]:
        """Return η, once it is finite."""
        return {"η": math.log(len(state.probabilities)) / state.gap_sum * state.unit} if state.gap_sum else {}

    @staticmethod
    def update_full(parameters: NoParameters, state: State, losses: Vector) -> State:
        """Learn from the losses of a round."""
        n_arms = len(state.probabilities)
        unit, shrink = fit_unit(state.unit, largest_size(losses))
        gap_sum = state.gap_sum * shrink
        temperature = gap_sum / math.log(n_arms) if n_arms > 1 else 0.0  # 1/η
        lowest, lowest_sum, heaviest = losses[0] * unit, state.loss_sums[0] * shrink, 0.0
        for k in range(n_arms):
            state.loss_sums[k] *= shrink
            lowest = min(lowest, losses[k] * unit)
            lowest_sum = min(lowest_sum, state.loss_sums[k])
            heaviest = max(heaviest, state.probabilities[k])
        # Losses are measured from the smallest one, so no exponent is positive and none overflows.
        mean, shrunk = 0.0, 0.0
        for k in range(n_arms):
            above = losses[k] * unit - lowest
            mean += state.probabilities[k] * above
            if temperature > 0.0:
                shrunk += state.probabilities[k] * math.expm1(-min(above / temperature, 800.0))
            state.loss_sums[k] += above
        if temperature > 0.0 and shrunk > -0.5:
            mix_loss = -temperature * math.log1p(shrunk)
        else:
            # Little is left of the weights. How little is computed from the sums, as weights may be at their floor.
            # Measured from the smallest sum, the soft minimum before was τ ln(heaviest).
            mix_loss = soft_minimum(state.loss_sums, temperature, lowest_sum) - temperature * math.log(heaviest)
        gap_sum += max(0.0, mean - mix_loss)
        if n_arms > 1:
            softmin(state.loss_sums, math.log(n_arms) / gap_sum if gap_sum > 0.0 else LARGEST, state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            gap_sum=gap_sum,
            unit=unit,
        )
