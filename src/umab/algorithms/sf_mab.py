"""SF-MAB and SF-MAB-A, whose learning rate follows the stability cost that was really paid."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.limits import DISTRIBUTION, POSITIVE_SUMS, ROUND, SUMS, UNIT, Limits
from umab.maths import simplex
from umab.maths.numerics import fit_unit, importance_weighted, rescale, unit_of
from umab.maths.simplex import Vector, log_barrier, mix, power_shift, sum_of_others

Exploration = Literal["adaptive", "anytime"]

_ADAPTIVE, _ANYTIME = 0.0, 1.0


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p'_t, with the exploration mixed in
    iterate: Vector  # p_t
    loss_sums: Vector  # Σ ℓ̂_s
    stability_sum: float  # Σ M_s
    exploration_cost: float  # Σ γ_s |ℓ̂_s|
    unit: float  # multiplier from losses to the unit of the sums
    exploration_rate: float  # γ_t
    round: float  # t


class Parameters(NamedTuple):
    """The parameters of `SFMAB`, as numbers."""

    exploration: float  # which exploration rate, by its code


@dataclass(frozen=True, kw_only=True)
class SFMAB(Policy[State, Parameters]):
    """SF-MAB, for losses of any size and sign; with adaptive exploration, SF-MAB-A.

    It follows the regularized leader with a log-barrier on estimates ℓ̂_{t,k} = ℓ_t / p'_{t,k} and mixes in uniform
    exploration, p'_t = (1 − γ_t) p_t + γ_t / n. The learning rate is η_t = n / (1 + Σ_{s<t} M_s), where

        M_t = sup_q ⟨ℓ̂_t, p_t − q⟩ − Breg(q‖p_t) / η_t

    is the stability cost of the step of round t; Breg is the Bregman divergence of the log-barrier.

    Parameters
    ----------
    exploration
        The rate γ_{t+1}: ``"adaptive"`` (SF-MAB-A), n / (2n + Σ_{s≤t} γ_s |ℓ̂_s|); ``"anytime"`` (SF-MAB),
        min(1/2, √(n/t)).

    Guarantee
    ---------
    Expected regret, up to logarithms and against an oblivious adversary, of order ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²₂)
    (anytime) and ℓ∞ √(n Σ‖ℓ_t‖₁) + √(n Σ‖ℓ_t‖²₂) (adaptive). It is not strictly scale-free, because the 1
    in the learning rate is a loss: losses far below it are learned late. The bounds do not cover late feedback.

    References
    ----------
    Putta and Agrawal, Scale-Free Adversarial Multi Armed Bandits, ALT 2022.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.SFMAB(), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.probabilities().round(4)
    array([0.2374, 0.3813, 0.3813])
    """

    exploration: Exploration = "adaptive"

    def __post_init__(self) -> None:
        """Check the parameters."""
        checks.one_of("exploration", self.exploration, get_args(Exploration))

    @property
    def guarantee(self) -> str:
        """As published."""
        bound = "√(nT)" if self.exploration == "anytime" else "√(n Σ‖ℓ_t‖₁)"
        return f"ℓ∞ {bound} + √(n Σ‖ℓ_t‖²₂)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            iterate=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            stability_sum=0.0,
            exploration_cost=0.0,
            unit=unit_of(1.0),
            exploration_rate=0.5,
            round=1.0,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return a code for the exploration."""
        return Parameters(exploration=_ADAPTIVE if self.exploration == "adaptive" else _ANYTIME)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "iterate": DISTRIBUTION,
            "loss_sums": SUMS,
            "stability_sum": POSITIVE_SUMS,
            "exploration_cost": POSITIVE_SUMS,
            "unit": UNIT,
            "exploration_rate": Limits(0.0, 0.5),
            "round": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η and γ."""
        n_arms = len(state.probabilities)
        return {"η": n_arms / (1.0 + state.stability_sum / state.unit), "γ": state.exploration_rate}

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        n = float(n_arms)
        unit, shrink = fit_unit(state.unit, loss)
        rescale(state.loss_sums, shrink)
        estimate = importance_weighted(loss * unit, probability)
        exploration_cost = state.exploration_cost * shrink + state.exploration_rate * abs(estimate)
        # The 1 of 1 + ΣM is a loss, so in units it is `unit`.
        stability_sum = state.stability_sum * shrink
        stability_sum += stability(state.iterate, arm, estimate, n / (unit + stability_sum), state.probabilities)
        state.loss_sums[arm] += estimate

        if parameters.exploration == _ADAPTIVE:
            exploration_rate = n / (2.0 * n + exploration_cost / unit)
        else:
            exploration_rate = min(0.5, math.sqrt(n / state.round))
        log_barrier(state.loss_sums, n / (unit + stability_sum), state.iterate)
        mix(state.iterate, exploration_rate, state.probabilities)
        return State(
            probabilities=state.probabilities,
            iterate=state.iterate,
            loss_sums=state.loss_sums,
            stability_sum=stability_sum,
            exploration_cost=exploration_cost,
            unit=unit,
            exploration_rate=exploration_rate,
            round=state.round + 1.0,
        )


def stability(p: Vector, arm: int, estimate: float, rate: float, scratch: Vector) -> float:
    """Return M = sup_q v(p_k − q_k) − Breg(q‖p)/η for k = `arm`, v = `estimate`, η = `rate`; `scratch` is overwritten.

    The supremum is at 1/q_j = 1/p_j + ηv[j = k] + μ with μ such that the q_j sum to 1. With d_j = p_j/q_j − 1 =
    p_j(ηv[j = k] + μ), it is (1/η) Σ (d_j − log(1 + d_j)), in which no term is negative and none cancels another.
    """
    if estimate == 0.0:
        return 0.0
    n_arms = len(p)
    force = rate * estimate
    if abs(force) > 2.0**1000:  # the divergence is negligible next to the gain: q_k is 0 or 1
        return abs(estimate) * (p[arm] if estimate > 0.0 else sum_of_others(p, arm))
    lowest = 1.0 / p[arm] + force
    for j in range(n_arms):
        scratch[j] = 1.0 / p[j] + (force if j == arm else 0.0)
        lowest = min(lowest, scratch[j])
    for j in range(n_arms):
        scratch[j] -= lowest
    shift = power_shift(scratch, 1, lowest)  # the guess is exact if there is no step: then q is p
    total = 0.0
    for j in range(n_arms):
        ratio = p[j] * (scratch[j] + shift)
        # For a small step d is computed directly, as ratio − 1 would round it; for a large one, that sum would cancel.
        small_step = p[j] * ((force if j == arm else 0.0) + (shift - lowest))
        total += log_gap(small_step if abs(force) < 1.0 else ratio - 1.0, ratio)
    # Rounding may push it out of the bounds that hold in exact arithmetic.
    return max(0.0, min(total / rate, 0.5 * force * estimate * p[arm]))


def log_gap(change: float, ratio: float) -> float:
    """Return d − log(1 + d) for d = `change`, where 1 + d = `ratio` is known separately."""
    if abs(change) < 1e-3:
        return change * change * (0.5 - change * (1.0 / 3.0 - change * (0.25 - change * (0.2 - change / 6.0))))
    if abs(change) < 0.5:
        return change - math.log1p(change)
    return change - math.log(ratio)
