"""UMAB-S, which learns at a rate set by the stability that was really paid, and starts from no scale at all."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from umab import checks, simplex
from umab.algorithms.base import Policy
from umab.algorithms.sf_mab import stability
from umab.checks import LARGEST
from umab.numerics import FINEST_UNIT, fit_unit, importance_weighted, rescale, unit_of
from umab.simplex import Vector, explore, likeliest, log_barrier, raise_to

Exploration = Literal["floor", "added", "none"]
Learning = Literal["stability", "squares"]
Clipping = Literal["charged", "none"]

_FLOOR, _ADDED, _NONE = 0.0, 1.0, 2.0
_STABILITY, _SQUARES = 0.0, 1.0

LIMIT = 2.0
"""A negative estimate is clipped where η_t |ℓ̂_{t,k}| p_{t,k} is this; from 1 on a step makes its arm the likeliest."""

CHARGE = 1.0 / 8.0
"""The share of what is clipped from a loss that 1/η grows by, for an arm that is hardly ever drawn."""

_RATES = 2.0**-100, 2.0**100  # beyond them 1/η is no double


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p'_t, with the exploration
    iterate: Vector  # p_t
    loss_sums: Vector  # Σ ℓ̂_s, what FTRL minimises
    scratch: Vector  # room to work in
    paid: float  # A_t = Σ (M_s + G_s), in the learning rate
    square_sum: float  # Σ ℓ²_{s,k_s}, in the learning rate by squares
    unit: float  # multiplier from losses to the unit of the sums
    exploration_rate: float  # ρ_t
    round: float  # t


class Parameters(NamedTuple):
    """Those of `UMABS`, as numbers."""

    rate: float  # the 3 of the learning rate
    initial_scale: float  # what A_1 is, in units of the losses
    learning: float  # which learning rate, by its code
    exploration: float  # which exploration, by its code
    clipping: float  # 1 if large steps are clipped


@dataclass(frozen=True, kw_only=True)
class UMABS(Policy):
    """UMAB-S, for losses of any size and sign; strictly scale-free, anytime.

    `umab.recommended` is this policy on centred losses. It follows the regularised leader with a log-barrier, at a rate
    that falls with the stability M that its steps have cost,

        p_t = argmin_p Σ_{s<t} ⟨ℓ̂_s, p⟩ + (1/η_t) Σ_k log(1/p_k),    η_t = rate · n / Σ_{s<t} (M_s + G_s),
        M_t = sup_q ⟨ℓ̂_t, p_t − q⟩ − Breg(q‖p_t) / η_t,

    where Breg is the Bregman divergence of the log-barrier. The arm k is drawn from p'_t, in which no arm is below
    ρ_t = 1/(n² + 2√((n − 1)t)); what these lack is taken from the others, in proportion to what they have above ρ_t.

    The estimate is ℓ̂_{t,k} = max(ℓ_t / p'_{t,k}, −2/(η_t p_{t,k})), and 0 for the other arms. So a large negative loss
    makes any arm the likeliest at once, but does not ruin the rate. What is clipped from it, d_t in the units of the
    losses, is charged, G_t = rate · n (1 − p'_{t,k}) d_t / 8, so that the rate falls until such a loss is nothing
    unusual. Until the first loss that is not 0, p_t is uniform and nothing is clipped.

    Parameters
    ----------
    rate
        The constant of the learning rate.
    learning
        ``"stability"``, or for study ``"squares"``: η_t = rate · √(n / Σ_{s<t} ℓ²_s), by the losses in place of what
        they have cost.
    exploration
        ``"floor"``, or for study ``"added"``, where an arm below ρ_t gets ρ_t more, as in UMAB-G, and ``"none"``.
    clipping
        ``"charged"``, or for study ``"none"``: every loss counts in full.
    initial_scale
        What the sum of M_s (or the root of that of ℓ²_s) starts from, in the units of the losses: 0, or for study a
        scale of which much smaller losses are learned slowly.

    Guarantee
    ---------
    Expected regret of order L√(nT) ln T + √(n Σ ℓ²_{t,k_t}) ln T, where L is the largest loss in size, and terms that
    do not grow with T but for logarithms, against an oblivious adversary; docs/recommended.md has the constants and the
    proof. The bound does not cover late feedback, nor what is here for study.

    References
    ----------
    Of this project. The log-barrier and the clipping come from Chen and Zhang, Improved Algorithms for Adversarial
    Bandits with Unbounded Losses; the rate from stability comes from Putta and Agrawal, Scale-Free Adversarial Multi
    Armed Bandits, ALT 2022.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABS(), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.probabilities().round(4)
    array([0.0769, 0.4615, 0.4615])
    """

    rate: float = 3.0
    learning: Learning = "stability"
    exploration: Exploration = "floor"
    clipping: Clipping = "charged"
    initial_scale: float = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        checks.one_of("learning", self.learning, get_args(Learning))
        checks.one_of("exploration", self.exploration, get_args(Exploration))
        checks.one_of("clipping", self.clipping, get_args(Clipping))
        if not _RATES[0] <= checks.positive("rate", self.rate) <= _RATES[1]:
            raise ValueError(f"rate must be from {_RATES[0]:.2g} to {_RATES[1]:.2g}, but got rate={self.rate}")
        scale = self.initial_scale
        self._set(
            rate=checks.positive("rate", self.rate),
            initial_scale=0.0 if scale == 0 else checks.positive("initial_scale", scale),
        )

    scale_free: ClassVar[bool] = True
    reference: ClassVar[str] = "umab, docs/recommended.md"
    theorem: ClassVar[str] = "Theorem R"
    page: ClassVar[str] = "algorithms/umab-s.md"
    colour: ClassVar[str] = "#7b3294"
    dash: ClassVar[tuple[int, ...]] = (7, 2)
    summary = "losses of any size and sign; strictly scale-free, learns as fast as it can pay for"

    @property
    def guarantee(self) -> str:
        """Without the terms that do not grow with time; see docs/recommended.md."""
        return "" if self.for_study else "ℓ∞ √(nT) + √(n Σ ℓ²_{t,k_t})"

    @property
    def for_study(self) -> bool:
        """With anything but the defaults, other than the rate."""
        usual = "stability", "floor", "charged", 0.0
        return (self.learning, self.exploration, self.clipping, self.initial_scale) != usual

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            iterate=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            scratch=[0.0] * n_arms,
            paid=0.0,
            square_sum=0.0,
            unit=unit_of(self.initial_scale) if self.initial_scale else FINEST_UNIT,
            exploration_rate=exploration_rate(float(n_arms), 1.0),
            round=1.0,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the parameters, with a code for each word."""
        return Parameters(
            rate=self.rate,
            initial_scale=self.initial_scale,
            learning=_STABILITY if self.learning == "stability" else _SQUARES,
            exploration={"floor": _FLOOR, "added": _ADDED, "none": _NONE}[self.exploration],
            clipping=1.0 if self.clipping == "charged" else 0.0,
        )

    def rates(self, state: State) -> dict[str, float]:
        """Return η, once there was a loss, and ρ."""
        n_arms = len(state.probabilities)
        inverse = inverse_rate(self.parameters_for(n_arms), n_arms, state.unit, state.paid, state.square_sum)
        return {"ρ": state.exploration_rate} | ({"η": state.unit / inverse} if inverse > 0.0 else {})

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Take in one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        n = float(n_arms)
        unit, shrink = fit_unit(state.unit, loss)
        rescale(state.loss_sums, shrink)
        paid, square_sum = state.paid * shrink, state.square_sum * shrink * shrink
        scaled = loss * unit
        estimate = importance_weighted(scaled, probability)
        inverse = inverse_rate(parameters, n_arms, unit, paid, square_sum)
        if parameters.clipping == 1.0 and inverse > 0.0 and estimate * state.iterate[arm] < -LIMIT * inverse:
            clipped = -LIMIT * inverse / state.iterate[arm]
            paid += parameters.rate * n * CHARGE * (1.0 - probability) * ((clipped - estimate) * probability)
            estimate = clipped
        paid += stability(state.iterate, arm, estimate, rate_of(inverse), state.scratch)
        square_sum += scaled * scaled
        state.loss_sums[arm] += estimate

        inverse = inverse_rate(parameters, n_arms, unit, paid, square_sum)
        if inverse > 0.0:
            log_barrier(state.loss_sums, rate_of(inverse), state.iterate)
        for k in range(n_arms):
            state.probabilities[k] = state.iterate[k]
        t = state.round + 1.0
        floor = exploration_rate(n, t)
        if parameters.exploration == _FLOOR:
            raise_to(state.probabilities, floor)
        elif parameters.exploration == _ADDED:
            explore(state.probabilities, likeliest(state.probabilities), floor, state.scratch)
        return State(
            probabilities=state.probabilities,
            iterate=state.iterate,
            loss_sums=state.loss_sums,
            scratch=state.scratch,
            paid=paid,
            square_sum=square_sum,
            unit=unit,
            exploration_rate=floor,
            round=t,
        )


def inverse_rate(parameters: Parameters, n_arms: int, unit: float, paid: float, square_sum: float) -> float:
    """Return 1/η for these sums, which are in units; 0 before the first loss that is not 0."""
    n = float(n_arms)
    initial = parameters.initial_scale * unit
    if parameters.learning == _STABILITY:
        return (initial + paid) / (parameters.rate * n)
    return math.sqrt((initial * initial + square_sum) / n) / parameters.rate


def rate_of(inverse: float) -> float:
    """Return η, as good as infinite where 1/η is 0."""
    return min(1.0 / inverse, LARGEST) if inverse > 0.0 else LARGEST


def exploration_rate(n: float, t: float) -> float:
    """Return ρ_t, below which no probability falls."""
    return 1.0 / (n * n + 2.0 * math.sqrt((n - 1.0) * t))
