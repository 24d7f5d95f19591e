"""EXP3-IX, with implicit exploration, for losses in a known range."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab.algorithms.known_range import KnownRange, Range
from umab.algorithms.limits import ROUND, SUMS, Limits
from umab.maths import simplex
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import Vector, softmin


class State(NamedTuple):
    """What EXP3-IX knows; losses are scaled to run from 0 for `low` to 1 for `high`."""

    probabilities: Vector  # p_t
    loss_sums: Vector  # Σ û_s
    round: float  # t


@dataclass(frozen=True, kw_only=True)
class EXP3IX(KnownRange):
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

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(
            probabilities=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            round=1.0,
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "round": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η."""
        return {"η": learning_rate(len(state.probabilities), state.round)}

    @staticmethod
    def update(parameters: Range, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss."""
        n_arms = len(state.probabilities)
        bias = 0.5 * learning_rate(n_arms, state.round)
        scaled = (loss - parameters.low) / (parameters.high - parameters.low)
        state.loss_sums[arm] += importance_weighted(scaled, probability + bias)
        t = state.round + 1.0
        softmin(state.loss_sums, learning_rate(n_arms, t), state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            round=t,
        )


def learning_rate(n_arms: int, t: float) -> float:
    """Return η_t."""
    return math.sqrt(math.log(n_arms) / (n_arms * t))
