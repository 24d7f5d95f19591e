"""EXP3.P, with upper confidence bounds on the gains, for losses in a known range."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab._support import checks
from umab.algorithms.known_range import ExponentialWeights, gain
from umab.algorithms.limits import DISTRIBUTION, SUMS, Limits
from umab.maths import simplex
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import Vector, mix, softmin


class State(NamedTuple):
    """What EXP3.P knows; gains run from 0 for a loss of `high` to 1 for a loss of `low`."""

    probabilities: Vector  # p_t, with the exploration mixed in
    weights: Vector  # w_t / Σ w_t
    log_weights: Vector  # −ln w_t, without the weight that all arms start with


class Parameters(NamedTuple):
    """The parameters of `EXP3P`, for the number of arms."""

    gamma: float  # γ
    bonus: float  # α/√(nT), which every arm gets, divided by its probability
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class EXP3P(ExponentialWeights):
    """EXP3.P, for losses in a known range [low, high].

    With the gain x = (high − ℓ)/(high − low) of the arm that was drawn, x̂ = x/p for it and 0 for the others, the
    weight of every arm k is multiplied by exp(γ/(3n) · (x̂_k + α/(p_k √(nT)))), and arms are drawn from p = (1 − γ)
    w/Σw + γ/n, where γ = min(3/5, 2 √(3/5 · n ln n/T)) and α = 2 √(ln(nT/δ)).

    Parameters
    ----------
    low
        The smallest possible loss; a smaller one is refused.
    high
        The largest possible loss; a larger one is refused.
    delta
        δ, the probability with which the bound may fail.
    horizon
        T, the number of rounds. `umab.simulate` fills it in.

    Guarantee
    ---------
    Regret of order (high − low) √(nT ln(nT/δ)), with probability 1 − δ. The bound does not cover late feedback.

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, The Nonstochastic Multiarmed Bandit Problem, SIAM J. Comput. 2002.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.EXP3P(low=0, high=10, horizon=1000), arms=2)
    >>> learner.update(0, loss=2.5)
    >>> learner.probabilities().round(4)
    array([0.5034, 0.4966])
    """

    delta: float = 0.01

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        self._set(delta=checks.probability("delta", self.delta))

    @property
    def guarantee(self) -> str:
        """As published."""
        return "(high − low) √(nT ln(nT/δ)), w.h.p."

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution; all weights start equal, so their size does not matter."""
        return State(
            probabilities=simplex.uniform(n_arms),
            weights=simplex.uniform(n_arms),
            log_weights=[0.0] * n_arms,
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "weights": DISTRIBUTION,
            "log_weights": SUMS,
        }

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return γ and the bonus for the horizon, and the range."""
        horizon = self.horizon or 1
        alpha = 2.0 * math.sqrt(math.log(n_arms * horizon / self.delta))
        return Parameters(
            gamma=min(0.6, 2.0 * math.sqrt(0.6 * n_arms * math.log(n_arms) / horizon)),
            bonus=alpha / math.sqrt(n_arms * horizon),
            low=self.low,
            high=self.high,
        )

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss. The drawn arm's bonus uses its probability at the draw, all others their current one."""
        n_arms = len(state.probabilities)
        step = parameters.gamma / (3.0 * n_arms)
        x = gain(loss, parameters.low, parameters.high)
        for k in range(n_arms):
            if k == arm:
                state.log_weights[k] -= step * importance_weighted(x + parameters.bonus, probability)
            else:
                state.log_weights[k] -= step * importance_weighted(parameters.bonus, state.probabilities[k])
        softmin(state.log_weights, 1.0, state.weights)
        mix(state.weights, parameters.gamma, state.probabilities)
        return state
