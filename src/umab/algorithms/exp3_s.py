"""EXP3.S, which follows a best arm that changes, for losses in a known range."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab._support import checks
from umab.algorithms.known_range import ExponentialWeights, gain
from umab.algorithms.limits import DISTRIBUTION, Limits
from umab.maths import simplex
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import Vector, mix, sum_of


class State(NamedTuple):
    """What EXP3.S knows; gains run from 0 for a loss of `high` to 1 for a loss of `low`."""

    probabilities: Vector  # p_t, with the exploration mixed in
    weights: Vector  # w_t / Σ w_t


class Parameters(NamedTuple):
    """The parameters of `EXP3S`, for the number of arms."""

    gamma: float  # γ
    shared: float  # eα/n, the part of the sum of all weights that every arm gets in every round
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class EXP3S(ExponentialWeights):
    """EXP3.S, for losses in a known range [low, high] and a best arm that changes.

    With the gain x = (high − ℓ)/(high − low) of the arm that was drawn, and x̂ = x/p for it and 0 for the others, the
    weight of every arm k becomes w_k exp(γ x̂_k/n) + (eα/n) Σw, so that no weight is ever far behind. Arms are drawn
    from p = (1 − γ) w/Σw + γ/n, where α = 1/T and γ = min(1, √(n (S ln(nT) + e) / ((e − 1) T))).

    Parameters
    ----------
    low
        The smallest possible loss; a smaller one is refused.
    high
        The largest possible loss; a larger one is refused.
    segments
        S, the number of segments in each of which one arm is the best: one more than the number of changes.
    horizon
        T, the number of rounds. `umab.simulate` fills it in.

    Guarantee
    ---------
    Expected regret of order (high − low) √(S nT ln(nT)) against every sequence of arms with at most S segments. The
    bound does not cover late feedback.

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, The Nonstochastic Multiarmed Bandit Problem, SIAM J. Comput. 2002.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.EXP3S(low=0, high=10, segments=3, horizon=1000), arms=2)
    >>> learner.update(0, loss=2.5)
    >>> learner.probabilities().round(4)
    array([0.5266, 0.4734])
    """

    segments: int = 1

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        self._set(segments=checks.whole("segments", self.segments, least=1, most=2**53))

    @property
    def guarantee(self) -> str:
        """As published, against a sequence of arms with S segments."""
        return "(high − low) √(S nT ln(nT)), S segments"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(probabilities=simplex.uniform(n_arms), weights=simplex.uniform(n_arms))

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "weights": DISTRIBUTION,
        }

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return γ and the shared part for the horizon, and the range."""
        horizon = self.horizon or 1
        hardness = n_arms * (self.segments * math.log(n_arms * horizon) + math.e)
        return Parameters(
            gamma=min(1.0, math.sqrt(hardness / ((math.e - 1.0) * horizon))),
            shared=math.e / (n_arms * horizon),
            low=self.low,
            high=self.high,
        )

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss. Weights are divided by their sum in every round, so that none overflows."""
        n_arms = len(state.probabilities)
        x = gain(loss, parameters.low, parameters.high)
        # No arm is drawn with a probability below γ/n, so the exponent is at most 1, except for an arm that was forced
        # or a loss that comes after arms were removed.
        exponent = min(1.0, parameters.gamma / n_arms * importance_weighted(x, probability))
        state.weights[arm] *= math.exp(exponent)
        for k in range(n_arms):
            state.weights[k] += parameters.shared
        total = sum_of(state.weights)
        for k in range(n_arms):
            state.weights[k] /= total
        mix(state.weights, parameters.gamma, state.probabilities)
        return state
