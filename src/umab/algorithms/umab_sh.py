"""UMAB-Sh, which shares weight among the arms in every round, so that it can follow a best arm that changes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.limits import DISTRIBUTION, POSITIVE_SUMS, ROUND, SHARE, UNIT, Limits
from umab.maths import simplex
from umab.maths.numerics import FINEST_UNIT, fit_unit, importance_weighted
from umab.maths.simplex import Vector, entropy_link, raise_to, sum_of_others

_SWITCHES = 2.0**-100, 2.0**100  # beyond them, 1/η may not be a double

_FAR = 30.0  # from here on, M is large beside its rounding error without the series, which would overflow further on


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p'_t, with the exploration
    weights: Vector  # w_t
    paid: float  # A_t = Σ M_s
    inverse_rate: float  # a_t = 1/η_t
    unit: float  # multiplier from losses to the unit of the sums
    exploration_rate: float  # ρ_t
    round: float  # t


class Parameters(NamedTuple):
    """The parameters of `UMABSh`, as numbers."""

    switches: float  # S̄


@dataclass(frozen=True, kw_only=True)
class UMABSh(Policy[State, Parameters]):
    """UMAB-Sh, for losses of any size and sign whose best arm changes; strictly scale-free, anytime.

    Exponential weights w_t with a fixed share: in every round, a part of the weight that falls with time goes to all
    arms alike, so no weight is below 1/(nt) and a new best arm is found again,

        v_{t+1,k} ∝ w_{t,k} exp(−η_t ℓ̂_{t,k}),    w_{t+1} = (1 − 1/(t + 1)) v_{t+1} + 1/(n(t + 1)).

    The rate is 1/η_t = max_{s≤t} A_s / (switches · ln(n(s + 1))), where A_s is the sum of the mixability gaps
    M = ⟨w, ℓ̂⟩ + (1/η) ln Σ_k w_k exp(−η ℓ̂_k) before round s. The arm k is drawn from p'_t: weights below
    ρ_t = 1/(2n + √(nt / (switches · ln(n(t + 1))))) are raised to it. What rare arms lack is taken from the others, in
    proportion to their excess over ρ_t. The estimate is ℓ̂_{t,k} = ℓ_t / p'_{t,k}, and 0 for the other arms. Until the
    first loss that is not 0, w_t is uniform.

    Parameters
    ----------
    switches
        How many changes of the best arm the rates are made for. The bound holds for every number of changes, and is
        smallest for about this one.

    Guarantee
    ---------
    Expected regret of order (S + 1) L √(nT ln(nT)) against every sequence of arms that changes S times, for every S,
    where L is the size of the largest loss; with `switches` = S ≥ 1, of order L √(S n T ln(nT)). The adversary is
    oblivious. docs/algorithms/umab-sh.md has the constants and the proof. The bound does not cover late feedback.

    References
    ----------
    From this project. The fixed share comes from Herbster and Warmuth, Tracking the Best Expert, Machine Learning 1998;
    the rate from the mixability gap comes from de Rooij, van Erven, Grünwald and Koolen, Follow the Leader If You Can,
    Hedge If You Must, JMLR 2014.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.Centred(umab.UMABSh()), arms=3)
    >>> for arm, loss in [(0, 1000.5), (1, 999.0), (2, 1005.0)]:
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.4383, 0.4383, 0.1234])
    """

    switches: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameter."""
        switches = checks.positive("switches", self.switches)
        if not _SWITCHES[0] <= switches <= _SWITCHES[1]:
            rule = f"switches must be from {_SWITCHES[0]:.2g} to {_SWITCHES[1]:.2g}"
            raise ValueError(f"{rule}, but got switches={self.switches}")
        self._set(switches=switches)

    scale_free: ClassVar[bool] = True

    link = staticmethod(entropy_link)

    @property
    def guarantee(self) -> str:
        """Against the best sequence of arms with S changes; see docs/algorithms/umab-sh.md."""
        divided = f"/{self.switches:g}" if self.switches != 1.0 else ""
        return f"(S + {self.switches:g}) ℓ∞ √(nT{divided})"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            weights=simplex.uniform(n_arms),
            paid=0.0,
            inverse_rate=0.0,
            unit=FINEST_UNIT,
            exploration_rate=exploration_rate(self.switches, float(n_arms), 1.0),
            round=1.0,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the number of changes that the rates are made for."""
        return Parameters(switches=self.switches)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "weights": DISTRIBUTION,
            "paid": POSITIVE_SUMS,
            "inverse_rate": POSITIVE_SUMS,
            "unit": UNIT,
            "exploration_rate": SHARE,
            "round": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return ρ, and η once there was a loss."""
        learning = {"η": state.unit / state.inverse_rate} if state.inverse_rate > 0.0 else {}
        return {"ρ": state.exploration_rate} | learning

    def solved(self, state: State) -> Vector:
        """Return the weights."""
        return state.weights

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss, share, and raise the rare arms."""
        n_arms = len(state.probabilities)
        n, t = float(n_arms), state.round + 1.0
        unit, shrink = fit_unit(state.unit, loss)
        inverse = state.inverse_rate * shrink
        estimate = importance_weighted(loss * unit, probability)
        weight, others = state.weights[arm], sum_of_others(state.weights, arm)
        worse, better = (weight, others) if estimate > 0.0 else (others, weight)
        paid = state.paid * shrink + mixability_gap(worse, better, abs(estimate), inverse)

        # Measured from the better of the drawn arm and the others, no exponent is positive and none overflows.
        # A single arm has no others, so that nothing would be left of the weights after a large loss.
        left = math.exp(-abs(estimate) / inverse) if inverse > 0.0 and n_arms > 1 else 1.0
        total = better + worse * left
        of_arm, of_others = (left / total, 1.0 / total) if estimate > 0.0 else (1.0 / total, left / total)
        share = 1.0 / t
        for k in range(n_arms):
            stepped = state.weights[k] * (of_arm if k == arm else of_others)
            state.weights[k] = (1.0 - share) * stepped + share / n
            state.probabilities[k] = state.weights[k]
        floor = exploration_rate(parameters.switches, n, t)
        raise_to(state.probabilities, floor)
        return State(
            probabilities=state.probabilities,
            weights=state.weights,
            paid=paid,
            inverse_rate=max(inverse, paid / (parameters.switches * complexity(n, t))),
            unit=unit,
            exploration_rate=floor,
            round=t,
        )


def complexity(n: float, t: float) -> float:
    """Return λ_t = ln(n(t + 1)); in round t + 1, no weight is below exp(−λ_t)."""
    return math.log(n * (t + 1.0))


def exploration_rate(switches: float, n: float, t: float) -> float:
    """Return ρ_t, below which no probability falls."""
    return 1.0 / (2.0 * n + math.sqrt(n * t / (switches * complexity(n, t))))


def mixability_gap(worse: float, better: float, size: float, inverse: float) -> float:
    """Return M = ⟨w, ℓ̂⟩ + a ln Σ_k w_k exp(−ℓ̂_k/a), where arms of weight `worse` lose `size` more than the others.

    a is `inverse`; for a = 0, M is ⟨w, ℓ̂⟩ − min ℓ̂. With u = `worse`, 1 − u = `better` and x = `size`/a, it is
    a ln(1 + (1 − u)φ(ux) + uφ(−(1 − u)x)), where φ(z) = eᶻ − 1 − z is never negative, so nothing cancels.
    """
    if better == 0.0:  # a single arm
        return 0.0
    if inverse == 0.0:
        return worse * size
    x = size / inverse
    if x > _FAR:
        left = math.exp(-x)
        logarithm = math.log1p(worse * (left - 1.0)) if worse < better else math.log(better + worse * left)
        return worse * size + inverse * logarithm
    return inverse * math.log1p(better * above_tangent(worse * x) + worse * above_tangent(-better * x))


def above_tangent(z: float) -> float:
    """Return φ(z) = eᶻ − 1 − z with all digits."""
    if abs(z) >= 0.5:
        return math.expm1(z) - z
    # z²/2 · (1 + z/3 · (1 + z/4 · (…))); for |z| < ½, what follows z¹⁶/16! is below rounding.
    series = 1.0
    for j in range(16, 2, -1):
        series = 1.0 + z * series / j
    return 0.5 * z * z * series
