"""SCB, scale-clipping with a Tsallis regularizer: optimal in the worst case."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab.algorithms.base import NoParameters, Policy, S
from umab.algorithms.limits import DISTRIBUTION, ROUND, SUMS, UNIT, Limits
from umab.maths import simplex
from umab.maths.numerics import FINEST_UNIT, fit_unit, importance_weighted, rescale
from umab.maths.simplex import Vector, mix, tsallis


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # q_t, with the exploration mixed in
    iterate: Vector  # p_t
    loss_sums: Vector  # Σ of the estimates of clipped losses, moved up by C
    scale: float  # C_t, in units; twice the size of the last loss that exceeded it
    unit: float  # multiplier from losses to the unit of the sums
    round: float  # t


def first_state(n_arms: int) -> State:
    """Return the uniform distribution, with nothing summed yet."""
    return State(
        probabilities=simplex.uniform(n_arms),
        iterate=simplex.uniform(n_arms),
        loss_sums=[0.0] * n_arms,
        scale=0.0,
        unit=FINEST_UNIT,
        round=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class ScaleClipping(Policy[S, NoParameters]):
    """What all SCB share: losses are clipped to a scale that grows with them, and moved up by it."""

    scale_free: ClassVar[bool] = True

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "iterate": DISTRIBUTION,
            "loss_sums": SUMS,
            "scale": Limits(0.0, 2.0),
            "unit": UNIT,
            "round": ROUND,
        }


@dataclass(frozen=True, kw_only=True)
class SCB(ScaleClipping[State]):
    """SCB, for losses of any size and sign; strictly scale-free.

    Losses are clipped to [−C, C] and moved up by C, so that estimates (clip(ℓ) + C)/q_k are never negative; C becomes
    2|ℓ| whenever |ℓ| exceeds it. FTRL with the ½-Tsallis regularizer runs on these estimates,

        p_t = argmin_p ⟨L, p⟩ + (1/η_t)(4√n − 4 Σ √p_k),    η_t = 1/(2C√t),    q_t = (1 − β_t) p_t + β_t/n,

    with β_t = n/(2n + √(nt)); p_t is uniform until the first loss that is not 0.

    Guarantee
    ---------
    Expected regret of order ℓ∞ √(nT), without logarithms in T, against an oblivious adversary. The bound does not
    cover late feedback.

    References
    ----------
    Chen and Zhang, Scale-free Adversarial Reinforcement Learning, COLT 2024, Algorithm 1.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.SCB(), arms=3)
    >>> for arm, loss in enumerate([0.5, -1.0, 5.0]):
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.3398, 0.3398, 0.3205])
    """

    link = staticmethod(simplex.tsallis_link)

    @property
    def guarantee(self) -> str:
        """As published."""
        return "ℓ∞ √(nT)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return first_state(n_arms)

    def rates(self, state: State) -> dict[str, float]:
        """Return β, and η once there was a loss."""
        rates = {"β": exploration_share(len(state.probabilities), state.round)}
        if state.scale > 0.0:
            rates["η"] = 1.0 / (2.0 * state.scale / state.unit * math.sqrt(state.round))
        return rates

    @staticmethod
    def update(parameters: NoParameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        scale, unit = add_clipped(state, arm, loss, probability)
        t = state.round + 1.0
        if scale > 0.0:
            tsallis(state.loss_sums, 1.0 / (4.0 * scale * math.sqrt(t)), state.iterate)
        return explored(state, exploration_share(n_arms, t), scale, unit, t)


def add_clipped(state: State, arm: int, loss: float, probability: float) -> tuple[float, float]:
    """Add the estimate of a loss, clipped to [−C, C] and moved up by C; return the next C, and the unit it is in."""
    unit, shrink = fit_unit(state.unit, loss)
    rescale(state.loss_sums, shrink)
    scaled = loss * unit
    scale = state.scale * shrink
    state.loss_sums[arm] += importance_weighted(clipped(scaled, scale), probability)
    return (2.0 * abs(scaled) if abs(scaled) > scale else scale), unit


def clipped(loss: float, scale: float) -> float:
    """Return a loss, clipped to [−C, C] and moved up by C."""
    return max(-scale, min(scale, loss)) + scale


def explored(state: State, share: float, scale: float, unit: float, t: float) -> State:
    """Return the state for round t, with this share of exploration mixed into the iterate."""
    mix(state.iterate, share, state.probabilities)
    return State(
        probabilities=state.probabilities,
        iterate=state.iterate,
        loss_sums=state.loss_sums,
        scale=scale,
        unit=unit,
        round=t,
    )


def exploration_share(n_arms: int, t: float) -> float:
    """Return β_t."""
    return n_arms / (2.0 * n_arms + math.sqrt(n_arms * t))
