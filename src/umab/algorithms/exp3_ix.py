"""EXP3-IX, with implicit exploration, for losses in a known range."""

import math
from dataclasses import dataclass

from umab.algorithms.known_range import Range, Summed, SummedLosses, scaled
from umab.maths import simplex
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import softmin


@dataclass(frozen=True, kw_only=True)
class EXP3IX(SummedLosses):
    """EXP3-IX, for losses in a known range [low, high]; without a horizon.

    With u = (ℓ − low)/(high − low), p_t = softmin(η_t Σ_s û_s), û_s = u_s/(p_{s,k} + γ_s) for the arm k that was drawn,
    and η_t = 2γ_t = √(ln n/(nt)).

    Parameters
    ----------
    low
        The smallest possible loss; a smaller one is refused.
    high
        The largest possible loss; a larger one is refused.

    Guarantee
    ---------
    Regret of order (high − low) √(nT ln n), with high probability. The bound does not cover late feedback.

    References
    ----------
    Neu, Explore No More: Improved High-Probability Regret Bounds for Non-Stochastic Bandits, NeurIPS 2015.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.EXP3IX(low=0, high=10), arms=2)
    >>> learner.update(0, loss=2.5)
    >>> learner.probabilities().round(4)
    array([0.4673, 0.5327])
    """

    link = staticmethod(simplex.entropy_link)

    @property
    def guarantee(self) -> str:
        """As published."""
        return "(high − low) √(nT ln n), w.h.p."

    def rates(self, state: Summed) -> dict[str, float]:
        """Return η."""
        return {"η": learning_rate(len(state.probabilities), state.round)}

    @staticmethod
    def update(parameters: Range, state: Summed, arm: int, loss: float, probability: float) -> Summed:
        """Learn from one loss."""
        n_arms = len(state.probabilities)
        bias = 0.5 * learning_rate(n_arms, state.round)
        u = scaled(loss, parameters.low, parameters.high)
        state.loss_sums[arm] += importance_weighted(u, probability + bias)
        t = state.round + 1.0
        softmin(state.loss_sums, learning_rate(n_arms, t), state.probabilities)
        return Summed(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            round=t,
        )


def learning_rate(n_arms: int, t: float) -> float:
    """Return η_t."""
    return math.sqrt(math.log(n_arms) / (n_arms * t))
