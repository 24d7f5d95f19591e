"""AHB, AdaHedge for bandits: blind to the units of the losses and to a constant added to all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab.algorithms.base import NoParameters, Policy
from umab.algorithms.limits import COUNT, DISTRIBUTION, POSITIVE_SUMS, SUMS, UNIT, Limits
from umab.maths.numerics import FINEST_UNIT, fit_unit, importance_weighted, rescale
from umab.maths.simplex import Vector, entropy_link, mix, soft_minimum, softmin, sum_of_others, uniform


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p_t, with the exploration mixed in; in the first n draws, all on one arm
    weights: Vector  # q_t
    loss_sums: Vector  # Σ (ℓ̂_s − C), which is Σ ℓ̂_s up to a constant that all arms share
    centre: float  # the mean of the first n losses; until all have arrived, their sum divided by n
    gap_sum: float  # Σ δ_s
    unit: float  # multiplier from losses to the unit of the sums
    n_selected: float  # how often an arm was drawn
    n_updates: float  # t − 1


@dataclass(frozen=True, kw_only=True)
class AHB(Policy[State, NoParameters]):
    """AHB, for losses of any size, sign and offset.

    Every arm is played once, and the mean C of the n losses centres all that follow: with payoffs y = −ℓ,
    ŷ_a = C + (y − C)/p_k for the arm a = k that was drawn and C for the others. AdaHedge runs on these estimates,

        q_t = softmax(η_t Σ_s ŷ_s),    η_t = ln n / Σ_s δ_s,
        δ_s = −⟨q_s, ŷ_s⟩ + (1/η_s) ln Σ_a q_{s,a} exp(η_s ŷ_{s,a}),

    and the arm is drawn from p_t = (1 − γ_t) q_t + γ_t / n with γ_t = min(1/2, √(2.5 n ln n / t)).

    Guarantee
    ---------
    Expected regret of order (M − m) √(nT ln n) for losses in [m, M], both unknown, against an oblivious adversary.
    Multiplying all losses by a positive number, or adding any number to them, changes no distribution. The bound does
    not cover late feedback; there too, the m-th draw plays arm m for m ≤ n, and C is the mean of the first n losses to
    arrive.

    References
    ----------
    Hadiji and Stoltz, Adaptation to the Range in K-Armed Bandits, JMLR 2023.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.AHB(), arms=3)
    >>> for arm, loss in enumerate([0.5, -1.0, 5.0]):
    ...     learner.update(arm, loss)
    >>> learner.update(0, loss=-0.25)
    >>> learner.probabilities().round(4)
    array([0.5277, 0.2361, 0.2361])
    """

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True
    plays_each_arm_first: ClassVar[bool] = True

    link = staticmethod(entropy_link)

    @property
    def guarantee(self) -> str:
        """As published."""
        return "(max ℓ − min ℓ) √(nT ln n)"

    def init(self, n_arms: int) -> State:
        """Return all probability on the first arm."""
        return State(
            probabilities=[1.0] + [0.0] * (n_arms - 1),
            weights=uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            centre=0.0,
            gap_sum=0.0,
            unit=FINEST_UNIT,
            n_selected=0.0,
            n_updates=0.0,
        )

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Resize; the centre becomes a mean over the new number of losses, and new arms need not be played first."""
        resized: State = super().resized(state, arms)
        before, now = float(len(state.probabilities)), float(len(arms))
        if state.n_updates > 0.0:  # the centre has one part in n for each of the first n losses that arrived
            there = min(state.n_updates, before) / before
            resized = resized._replace(centre=state.centre / there * (min(state.n_updates, now) / now))
        if now <= state.n_selected < before:  # the first draws are over now
            resized = resized._replace(probabilities=uniform(len(arms)))
        return resized

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "weights": DISTRIBUTION,
            "loss_sums": SUMS,
            "centre": Limits(-2.0, 2.0),
            "gap_sum": POSITIVE_SUMS,
            "unit": UNIT,
            "n_selected": COUNT,
            "n_updates": COUNT,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η and γ, once they matter."""
        n_arms = len(state.probabilities)
        if state.n_updates < n_arms or state.gap_sum == 0.0:
            return {}
        return {"η": math.log(n_arms) / state.gap_sum * state.unit, "γ": exploration_share(n_arms, state.n_updates)}

    def solved(self, state: State) -> Vector:
        """Return the weights, which sum to 1."""
        return state.weights

    @staticmethod
    def selected(parameters: NoParameters, state: State, arm: int) -> State:
        """Move on to the next arm until every arm was drawn."""
        n_arms = len(state.probabilities)
        n_selected = state.n_selected + 1.0
        if n_selected <= n_arms:
            for k in range(n_arms):
                state.probabilities[k] = 1.0 if k == n_selected else 0.0
            if n_selected == n_arms:
                mix(state.weights, 1.0, state.probabilities)
        return State(
            probabilities=state.probabilities,
            weights=state.weights,
            loss_sums=state.loss_sums,
            centre=state.centre,
            gap_sum=state.gap_sum,
            unit=state.unit,
            n_selected=n_selected,
            n_updates=state.n_updates,
        )

    @staticmethod
    def update(parameters: NoParameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        unit, shrink = fit_unit(state.unit, loss)
        rescale(state.loss_sums, shrink)
        centre, gap_sum = state.centre * shrink, state.gap_sum * shrink
        if state.n_updates < n_arms:
            centre += loss * unit / n_arms
        elif n_arms > 1:
            estimate = importance_weighted(loss * unit - centre, probability)
            gap_sum += take_in(state.loss_sums, state.weights, arm, estimate, gap_sum / math.log(n_arms))
            if gap_sum > 0.0:
                softmin(state.loss_sums, math.log(n_arms) / gap_sum, state.weights)
        n_updates = state.n_updates + 1.0
        if n_updates >= n_arms:  # by then every arm was drawn too
            mix(state.weights, exploration_share(n_arms, n_updates), state.probabilities)
        return State(
            probabilities=state.probabilities,
            weights=state.weights,
            loss_sums=state.loss_sums,
            centre=centre,
            gap_sum=gap_sum,
            unit=unit,
            n_selected=state.n_selected,
            n_updates=n_updates,
        )


def exploration_share(n_arms: int, n_updates: float) -> float:
    """Return γ_t for t = n_updates + 1."""
    return min(0.5, math.sqrt(2.5 * n_arms * math.log(n_arms) / (n_updates + 1.0)))


def take_in(loss_sums: Vector, weights: Vector, arm: int, estimate: float, temperature: float) -> float:
    """Add the estimate of a loss to the sums; return the mixability gap δ of the step, for 1/η = `temperature`.

    Let z = −`estimate` be the payoff of the arm and q its weight: δ = −qz + (1/η) ln(1 − q + q e^{ηz}). Measured from
    the better of that arm and the others, the worse loses |z|, so no exponent is positive and none overflows.
    """
    q = weights[arm]
    worse = sum_of_others(weights, arm) if estimate < 0.0 else q
    shrunk = worse * math.expm1(-min(abs(estimate) / temperature, 800.0)) if temperature > 0.0 else -1.0
    if shrunk > -0.5:
        loss_sums[arm] += estimate
        return max(0.0, worse * abs(estimate) + temperature * math.log1p(shrunk))
    # Little is left of the weights. How little is computed from the sums, as weights may be at their floor.
    origin = loss_sums[arm]
    before = soft_minimum(loss_sums, temperature, origin)
    loss_sums[arm] += estimate
    return max(0.0, q * estimate - (soft_minimum(loss_sums, temperature, origin) - before))
