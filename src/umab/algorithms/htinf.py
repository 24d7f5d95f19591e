"""HTINF and OptTINF, for losses with heavy tails of which a moment is known."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.limits import ROUND, SUMS, Limits
from umab.maths import simplex
from umab.maths.numerics import importance_weighted
from umab.maths.powers import tsallis_power
from umab.maths.simplex import Vector, tsallis


class State(NamedTuple):
    """Sums are in units of σ. They need no other: a loss that is far above σ is skipped."""

    probabilities: Vector  # q_t
    loss_sums: Vector  # Σ ℓ̂_s / σ over the rounds that were not skipped
    round: float  # t


class Parameters(NamedTuple):
    """The parameters of `HTINF`, as numbers."""

    sigma: float  # σ
    root: float  # 1/α
    power: float  # α/(α − 1)
    threshold: float  # Θ_α


@dataclass(frozen=True, kw_only=True)
class HTINF(Policy[State, Parameters]):
    """HTINF, for losses with heavy tails; with α = 2 and σ = 1, OptTINF.

    It follows the regularized leader with a Tsallis entropy, on estimates ℓ̂_{t,k} = ℓ_t / q_{t,k} of the drawn arm k:

        q_t = argmin_q Σ_{s<t} ⟨ℓ̂_s, q⟩ − (1/η_t) α Σ q_k^(1/α),    1/η_t = σ t^(1/α).

    A loss is skipped, so that its estimate is 0, if |ℓ_t| > Θ (1/η_t) q_{t,k}^(1/α), where Θ is the smaller of
    1 − 2^(−(α − 1)/(2α − 1)) and (2 − 2/α)^(1/(2 − α)).

    Parameters
    ----------
    alpha
        α, above 1 and at most 2: the losses have a finite moment of this order.
    sigma
        σ, in the unit of the losses: E|ℓ|^α is at most σ^α.

    Guarantee
    ---------
    Expected regret of order σ n^(1−1/α) T^(1/α), and of order ln T if the losses are stochastic. The losses are drawn
    from distributions with E|ℓ|^α ≤ σ^α, and the best arm is *truncated non-negative*: for every M ≥ 0, the part
    E[ℓ; |ℓ| > M] of its mean is at least 0, so that skipping large losses never makes it look worse. For other losses
    it is a yardstick. The bound does not cover late feedback: there, q is that of the draw, and t counts the losses
    that have arrived.

    References
    ----------
    Huang, Dai and Huang, Adaptive Best-of-Both-Worlds Algorithm for Heavy-Tailed Multi-Armed Bandits, ICML 2022.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.HTINF(alpha=1.5, sigma=4.0), arms=3)
    >>> learner.update(0, loss=0.25)
    >>> learner.probabilities().round(4)
    array([0.2819, 0.359 , 0.359 ])
    """

    alpha: float = 1.5
    sigma: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        alpha = checks.finite("alpha", self.alpha)
        if not 1.0 < alpha <= 2.0:
            raise ValueError(f"alpha must be above 1 and at most 2, but got alpha={self.alpha!r}")
        self._set(alpha=alpha, sigma=checks.positive("sigma", self.sigma))

    @property
    def guarantee(self) -> str:
        """As published."""
        order = "√(nT) if E ℓ² ≤ 1" if self.is_optimistic else "σ n^(1−1/α) T^(1/α)"
        return f"{order}; ln T if stochastic"

    @property
    def is_optimistic(self) -> bool:
        """Whether it is OptTINF."""
        return self.alpha == 2.0 and self.sigma == 1.0

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(probabilities=simplex.uniform(n_arms), loss_sums=[0.0] * n_arms, round=1.0)

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return σ and what follows from α."""
        power = self.alpha / (self.alpha - 1.0)
        return Parameters(sigma=self.sigma, root=1.0 / self.alpha, power=power, threshold=threshold_for(self.alpha))

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "round": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η."""
        return {"η": 1.0 / self.sigma / math.pow(state.round, 1.0 / self.alpha)}

    def link(self, probability: float) -> float:  # type: ignore[override]
        """Return p^(1/α − 1), which is linear in the sums."""
        return math.pow(probability, 1.0 / self.alpha - 1.0)

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        scaled = loss / parameters.sigma  # may be infinite, and is skipped then
        if abs(scaled) <= parameters.threshold * math.pow(state.round * probability, parameters.root):
            state.loss_sums[arm] += importance_weighted(scaled, probability)
        t = state.round + 1.0
        rate = 1.0 / math.pow(t, parameters.root)
        if parameters.power == 2.0:
            tsallis(state.loss_sums, rate, state.probabilities)
        else:
            tsallis_power(state.loss_sums, rate, parameters.power, state.probabilities)
        return State(probabilities=state.probabilities, loss_sums=state.loss_sums, round=t)


def threshold_for(alpha: float) -> float:
    """Return Θ_α: the smaller of two numbers, the second of which is its limit 1/√e if α is 2."""
    first = -math.expm1(-(alpha - 1.0) / (2.0 * alpha - 1.0) * math.log(2.0))
    second = math.pow(2.0 - 2.0 / alpha, 1.0 / (2.0 - alpha)) if alpha < 2.0 else math.exp(-0.5)
    return min(first, second)
