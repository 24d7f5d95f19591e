"""Tsallis-INF, best of both worlds, for losses in a known range."""

import math
from dataclasses import dataclass

from umab.algorithms.known_range import Range, Summed, SummedLosses, scaled
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import tsallis, tsallis_link


@dataclass(frozen=True, kw_only=True)
class TsallisINF(SummedLosses):
    """Tsallis-INF with importance weighting, for losses in a known range [low, high]; without a horizon.

    With u = (ℓ − low)/(high − low) and û = u/p_k for the arm k that was drawn,

        p_t = argmin_p Σ_{s<t} ⟨û_s, p⟩ − 2√t Σ √p_k,

    which in the paper's notation is the learning rate 2/√t.

    Parameters
    ----------
    low
        The smallest possible loss; a smaller one is refused.
    high
        The largest possible loss; a larger one is refused.

    Guarantee
    ---------
    Expected regret of order (high − low) √(nT) against an oblivious adversary, and of order ln T if the losses are
    stochastic. The bound does not cover late feedback.

    References
    ----------
    Zimmert and Seldin, Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial Bandits, JMLR 2021.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.TsallisINF(low=0, high=10), arms=2)
    >>> learner.update(0, loss=2.5)
    >>> learner.probabilities().round(4)
    array([0.3796, 0.6204])
    """

    link = staticmethod(tsallis_link)

    @property
    def guarantee(self) -> str:
        """As published."""
        return "(high − low) √(nT); ln T if stochastic"

    def rates(self, state: Summed) -> dict[str, float]:
        """Return η."""
        return {"η": 2.0 / math.sqrt(state.round)}

    @staticmethod
    def update(parameters: Range, state: Summed, arm: int, loss: float, probability: float) -> Summed:
        """Learn from one loss."""
        u = scaled(loss, parameters.low, parameters.high)
        state.loss_sums[arm] += importance_weighted(u, probability)
        t = state.round + 1.0
        tsallis(state.loss_sums, 1.0 / math.sqrt(t), state.probabilities)
        return Summed(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            round=t,
        )
