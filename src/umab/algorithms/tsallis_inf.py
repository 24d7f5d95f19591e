"""Tsallis-INF, best of both worlds, for losses in a known range."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from umab.algorithms.exp3_ix import EXP3IX, State
from umab.algorithms.known_range import KnownRange, Range
from umab.algorithms.limits import ROUND, SUMS, Limits
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import tsallis, tsallis_link


@dataclass(frozen=True, kw_only=True)
class TsallisINF(KnownRange):
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

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return EXP3IX(low=self.low, high=self.high).init(n_arms)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "round": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η."""
        return {"η": 2.0 / math.sqrt(state.round)}

    @staticmethod
    def update(parameters: Range, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss."""
        scaled = (loss - parameters.low) / (parameters.high - parameters.low)
        state.loss_sums[arm] += importance_weighted(scaled, probability)
        t = state.round + 1.0
        tsallis(state.loss_sums, 1.0 / math.sqrt(t), state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            round=t,
        )
