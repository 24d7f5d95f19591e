"""Tsallis-INF for late feedback: Zimmert and Seldin's algorithm for losses in a known range and arbitrary delays."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab.algorithms.known_range import KnownRange, Range, scaled
from umab.algorithms.limits import COUNT, ROUND, SUMS, WAITED, Limits
from umab.maths import simplex
from umab.maths.hybrid import hybrid
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import Vector, tsallis_link


class State(NamedTuple):
    """What it knows; losses are scaled to run from 0 for `low` to 1 for `high`."""

    probabilities: Vector  # p_t
    loss_sums: Vector  # Σ û_s over the losses that have arrived
    outstanding: float  # 𝔡_t, how many losses have not arrived
    waited: float  # Σ_{s<t} 𝔡_s
    round: float  # t


@dataclass(frozen=True, kw_only=True)
class TsallisINFD(KnownRange):
    """Tsallis-INF-D, for losses in a known range [low, high] that arrive late; without a horizon.

    With u = (ℓ − low)/(high − low) and û = u/p_k for the arm k that was drawn, it is FTRL with two regularizers on what
    has arrived,

        p_t = argmin_p Σ ⟨û_s, p⟩ − 2√t Σ √p_k + h_t Σ p_k ln p_k,    h_t = √(2𝔇_t/ln n),

    where 𝔇_t is the sum, over the rounds up to t, of the number of losses that were outstanding there. Without delays
    it is `TsallisINF`.

    Parameters
    ----------
    low
        The smallest possible loss; a smaller one is refused.
    high
        The largest possible loss; a larger one is refused.

    Guarantee
    ---------
    Expected regret of at most (high − low) (4√(nT) + √(8D ln n)), where D is the sum of the delays, if neither losses
    nor delays depend on the draws.

    References
    ----------
    Zimmert and Seldin, An Optimal Algorithm for Adversarial Bandits with Arbitrary Delays, AISTATS 2020.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.TsallisINFD(low=0, high=10), arms=2)
    >>> learner.update(0, loss=2.5)
    >>> learner.probabilities().round(4)
    array([0.3796, 0.6204])
    """

    link = staticmethod(tsallis_link)

    @property
    def guarantee(self) -> str:
        """As published; D is the sum of the delays."""
        return "(high − low) (√(nT) + √D)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(
            probabilities=simplex.uniform(n_arms), loss_sums=[0.0] * n_arms, outstanding=0.0, waited=0.0, round=1.0
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "outstanding": COUNT,
            "waited": WAITED,
            "round": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η of the Tsallis part."""
        return {"η": 2.0 / math.sqrt(state.round)}

    @staticmethod
    def selected(parameters: Range, state: State, arm: int) -> State:
        """Count the draw as outstanding, and solve for the next distribution: its loss may not arrive before it."""
        after = State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            outstanding=state.outstanding + 1.0,
            waited=state.waited + state.outstanding,
            round=state.round + 1.0,
        )
        return solved(after)

    @staticmethod
    def update(parameters: Range, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        u = scaled(loss, parameters.low, parameters.high)
        state.loss_sums[arm] += importance_weighted(u, probability)
        after = State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            outstanding=max(0.0, state.outstanding - 1.0),  # a choice of another learner was not counted here
            waited=state.waited,
            round=state.round,
        )
        return solved(after)


def solved(state: State) -> State:
    """Return the state with the distribution that follows from its numbers; a single arm has probability 1 anyway."""
    n_arms = len(state.probabilities)
    if n_arms > 1:
        h = entropy_weight(state.waited + state.outstanding, n_arms)
        hybrid(state.loss_sums, math.sqrt(state.round), h, state.probabilities)
    return state


def entropy_weight(waited: float, n_arms: int) -> float:
    """Return h = √(2𝔇/ln n), where 𝔇 is `waited`, for two arms or more."""
    return math.sqrt(2.0 * waited / math.log(float(n_arms)))
