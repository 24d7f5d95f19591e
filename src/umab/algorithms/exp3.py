"""EXP3, the classic of adversarial bandits, for losses in a known range."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from umab._support import checks
from umab.algorithms.known_range import ExponentialWeights, gain
from umab.algorithms.limits import RATE, SUMS, Limits
from umab.maths import simplex
from umab.maths.numerics import importance_weighted
from umab.maths.simplex import Vector, sum_of

_LARGEST_LOG = 32.0
"""No weight exceeds e to this power; beyond it, all are computed anew with the largest at 1, and lose no digits."""


class State(NamedTuple):
    """What EXP3 knows; gains run from 0 for a loss of `high` to 1 for a loss of `low`."""

    probabilities: Vector  # p_t, with the exploration mixed in
    weights: Vector  # w_t exp(origin)
    log_weights: Vector  # −ln w_t
    origin: float  # moves with the largest weight, so that none overflows


class Parameters(NamedTuple):
    """The parameters of `EXP3`, with γ for the number of arms."""

    gamma: float  # γ
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class EXP3(ExponentialWeights):
    """EXP3, for losses in a known range [low, high].

    With the gain x = (high − ℓ)/(high − low) of the arm k that was drawn, its weight is multiplied by exp(γ x/(n p_k)),
    and arms are drawn from p = (1 − γ) w/Σw + γ/n.

    Parameters
    ----------
    low
        The smallest possible loss; a smaller one is refused.
    high
        The largest possible loss; a larger one is refused.
    gamma
        γ; by default min(1, √(n ln n / ((e − 1) T))).
    horizon
        T, the number of rounds, from which γ follows if it is not given. `umab.simulate` fills it in.

    Guarantee
    ---------
    Expected regret of order (high − low) √(nT ln n) against an oblivious adversary; for a given γ,
    (high − low) (γT + n ln n / γ). The bound does not cover late feedback.

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, The Nonstochastic Multiarmed Bandit Problem, SIAM J. Comput. 2002.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.EXP3(low=0, high=10, gamma=0.1), arms=2)
    >>> learner.update(0, loss=2.5)
    >>> learner.probabilities().round(4)
    array([0.5169, 0.4831])
    """

    gamma: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        if self.gamma is not None:
            self._set(gamma=checks.probability("gamma", self.gamma))

    @property
    def needs_horizon(self) -> bool:
        """Whether both γ and the horizon are still missing."""
        return self.gamma is None and self.horizon is None

    @property
    def guarantee(self) -> str:
        """As published, for the given γ or for the best one."""
        return "(high − low) √(nT ln n)" if self.gamma is None else "(high − low) (γT + n ln n / γ)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution."""
        return State(
            probabilities=simplex.uniform(n_arms),
            weights=[1.0] * n_arms,
            log_weights=[0.0] * n_arms,
            origin=0.0,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return γ, as given or for the horizon, and the range."""
        gamma = self.gamma
        if gamma is None:
            gamma = min(1.0, math.sqrt(n_arms * math.log(n_arms) / ((math.e - 1.0) * (self.horizon or 1))))
        return Parameters(gamma=gamma, low=self.low, high=self.high)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "weights": RATE,
            "log_weights": SUMS,
            "origin": SUMS,
        }

    def fault(self, state: State, tickets: Sequence[object]) -> str | None:
        """Find weights that are not those of their logarithms."""
        origin = state.origin
        for weight, log_weight in zip(state.weights, state.log_weights, strict=True):
            if log_weight < origin - _LARGEST_LOG or not math.isclose(weight, math.exp(origin - log_weight)):
                return f"weights must be exp(origin − log_weights), but got {weight} for {origin} − {log_weight}"
        return None if max(state.weights) >= 0.5 else f"weights must be 1 or more, but got {state.weights!r}"

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Resize, and compute the weights from their logarithms."""
        resized: State = super().resized(state, arms)
        origin = min(resized.log_weights)
        weights = [math.exp(origin - each) for each in resized.log_weights]
        return resized._replace(origin=origin, weights=weights)

    def solved(self, state: State) -> Vector:
        """Return the weights, scaled to sum to 1."""
        total = sum_of(state.weights)
        return [each / total for each in state.weights]

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss."""
        n_arms = len(state.probabilities)
        x = gain(loss, parameters.low, parameters.high)
        state.log_weights[arm] -= parameters.gamma / n_arms * importance_weighted(x, probability)
        origin = state.origin
        if state.log_weights[arm] > origin - _LARGEST_LOG:
            # All other weights stay as they are, so one exponential is enough.
            state.weights[arm] = math.exp(origin - state.log_weights[arm])
        else:
            origin = state.log_weights[arm]
            for k in range(n_arms):
                state.weights[k] = math.exp(origin - state.log_weights[k])
        share = (1.0 - parameters.gamma) / sum_of(state.weights)
        for k in range(n_arms):
            state.probabilities[k] = share * state.weights[k] + parameters.gamma / n_arms
        return State(
            probabilities=state.probabilities,
            weights=state.weights,
            log_weights=state.log_weights,
            origin=origin,
        )
