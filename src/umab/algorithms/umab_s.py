"""UMAB-S, whose learning rate follows the stability cost that was really paid, and which starts without a scale."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from umab._support import checks
from umab._support.checks import LARGEST
from umab.algorithms.base import Policy
from umab.algorithms.limits import ANY, DISTRIBUTION, POSITIVE_SUMS, ROUND, SHARE, SUMS, UNIT, Limits
from umab.algorithms.sf_mab import stability
from umab.maths import simplex
from umab.maths.numerics import FINEST_UNIT, fit_unit, importance_weighted, rescale, unit_of
from umab.maths.simplex import Vector, explore, likeliest, log_barrier, raise_to

Exploration = Literal["floor", "added", "none"]
Learning = Literal["stability", "squares"]
Clipping = Literal["charged", "none"]

_FLOOR, _ADDED, _NONE = 0.0, 1.0, 2.0
_STABILITY, _SQUARES = 0.0, 1.0

LIMIT = 2.0
"""A negative estimate is clipped where η_t |ℓ̂_{t,k}| p_{t,k} exceeds this. Where it is 1 or more, the arm becomes the
likeliest."""

CHARGE = 1.0 / 8.0
"""The share of the clipped part of a loss by which 1/η grows, for an arm that is hardly ever drawn."""

DRIFT = 1.0 / 8.0
"""The share of what the drift of an arm has cost while its loss was on its way by which the sum in the rate grows."""

_RATES = 2.0**-100, 2.0**100  # beyond them, 1/η may not be a double


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p'_t, with the exploration
    iterate: Vector  # p_t
    loss_sums: Vector  # Σ ℓ̂_s, what FTRL minimizes
    scratch: Vector  # working space
    paid: float  # A_t = Σ (M_s + G_s), in the learning rate
    square_sum: float  # Σ ℓ²_{s,k_s}, in the learning rate by squares
    unit: float  # multiplier from losses to the unit of the sums
    exploration_rate: float  # ρ_t
    round: float  # t


class Ticket(NamedTuple):
    """What is remembered about a draw; blank if the draw is not known, as for a loss without a choice."""

    iterate: float  # p_{s,k}; 0 in a blank ticket


class Parameters(NamedTuple):
    """The parameters of `UMABS`, as numbers."""

    rate: float  # the 3 of the learning rate
    initial_scale: float  # A_1, in units of the losses
    learning: float  # which learning rate, by its code
    exploration: float  # which exploration, by its code
    clipping: float  # 1 if large steps are clipped


@dataclass(frozen=True, kw_only=True)
class UMABS(Policy[State, Parameters]):
    """UMAB-S, for losses of any size and sign; strictly scale-free, anytime.

    `umab.recommended(changing=False)` is this policy on centred losses, and `UMABW` is built from it. It follows
    the regularized leader with a log-barrier, at a rate that falls with the stability cost M of its steps,

        p_t = argmin_p Σ_{s<t} ⟨ℓ̂_s, p⟩ + (1/η_t) Σ_k log(1/p_k),    η_t = rate · n / Σ_{s<t} (M_s + G_s),
        M_t = sup_q ⟨ℓ̂_t, p_t − q⟩ − Breg(q‖p_t) / η_t,

    where Breg is the Bregman divergence of the log-barrier. The arm k is drawn from p'_t, in which no arm is below
    ρ_t = 1/(n² + 2√((n − 1)t)). What rare arms lack is taken from the others, in proportion to their excess over ρ_t.

    The estimate is ℓ̂_{t,k} = max(ℓ_t / p'_{t,k}, −2/(η_t p_{t,k})), and 0 for the other arms. So a large negative loss
    makes any arm the likeliest at once, but does not ruin the rate. The clipped part of the loss, d_t in the units of
    the losses, is charged, G_t = rate · n (1 − p'_{t,k}) d_t / 8, so that the rate falls until such a loss is no longer
    unusual. Until the first loss that is not 0, p_t is uniform and nothing is clipped.

    A loss that arrives late counts with the probabilities of its draw, p_s and p'_s, but FTRL learns it at the current
    p_t and η_t. The smaller one of p_{s,k} and p_{t,k} is in the clipping. The drift of the arm in between has a price,
    ℓ̂_{s,k}(p_{s,k} − p_{t,k}). If that is positive, an eighth of it is added to M. If it is negative, all of it is, but
    no sum is below 0.

    Parameters
    ----------
    rate
        The constant of the learning rate.
    learning
        ``"stability"``, or for study ``"squares"``: η_t = rate · √(n / Σ_{s<t} ℓ²_s), from the losses in place of
        their stability cost.
    exploration
        ``"floor"``, or for study ``"added"``, where an arm below ρ_t gets ρ_t more, as in UMAB-G, and ``"none"``.
    clipping
        ``"charged"``, or for study ``"none"``: every loss counts in full.
    initial_scale
        Where the sum of M_s (or the root of the sum of ℓ²_s) starts, in the units of the losses: 0, or for study a
        scale; losses much smaller than it are learned slowly.

    Guarantee
    ---------
    Expected regret of order L√(nT) ln T + √(n Σ ℓ²_{t,k_t}) ln T, where L is the size of the largest loss, plus terms
    that grow at most logarithmically with T, against an oblivious adversary; docs/recommended.md has the constants and
    the proof. For late feedback, docs/late.md has a bound with √(n(T + D)) ln T in place of √(nT) ln T, where D is the
    sum of the delays, plus the size of the most negative loss times n√D ln T; losses that are never negative may have
    delays that depend on the arm. The bounds do not cover the options for study.

    References
    ----------
    From this project. The log-barrier and the clipping come from Chen and Zhang, Improved Algorithms for Adversarial
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

    @property
    def guarantee(self) -> str:
        """Without the terms that do not grow with time; see docs/recommended.md."""
        return "" if self.for_study else "ℓ∞ √(nT) + √(n Σ ℓ²_{t,k_t})"

    @property
    def for_study(self) -> bool:
        """Whether any parameter but the rate differs from its default."""
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

    needs_ticket: ClassVar[bool] = False

    def ticket(self, n_arms: int) -> Ticket:
        """Return a blank ticket."""
        return Ticket(iterate=0.0)

    @staticmethod
    def remember(parameters: Parameters, state: State, arm: int, ticket: Ticket) -> Ticket:
        """Remember p_{s,k}: the probability of the draw itself may be that of a draw among some arms."""
        return Ticket(iterate=state.iterate[arm])

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the parameters, with a code for each option."""
        return Parameters(
            rate=self.rate,
            initial_scale=self.initial_scale,
            learning=_STABILITY if self.learning == "stability" else _SQUARES,
            exploration={"floor": _FLOOR, "added": _ADDED, "none": _NONE}[self.exploration],
            clipping=1.0 if self.clipping == "charged" else 0.0,
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "iterate": DISTRIBUTION,
            "loss_sums": SUMS,
            "scratch": ANY,
            "paid": POSITIVE_SUMS,
            "square_sum": POSITIVE_SUMS,
            "unit": UNIT,
            "exploration_rate": SHARE,
            "round": ROUND,
        }

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """Of the fields of `Ticket`."""
        return {
            "iterate": Limits(0.0, 2.0),
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return ρ, and η once there was a loss."""
        n_arms = len(state.probabilities)
        inverse = inverse_rate(self.parameters_for(n_arms), n_arms, state.unit, state.paid, state.square_sum)
        return {"ρ": state.exploration_rate} | ({"η": state.unit / inverse} if inverse > 0.0 else {})

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Parameters, state: State, arm: int, loss: float, probability: float, ticket: Ticket
    ) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        n = float(n_arms)
        paid, square_sum, unit = learned(
            parameters,
            state.iterate,
            state.loss_sums,
            state.scratch,
            state.paid,
            state.square_sum,
            state.unit,
            arm,
            loss,
            probability,
            ticket.iterate,
        )
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


def learned(
    parameters: Parameters,
    iterate: Vector,
    loss_sums: Vector,
    scratch: Vector,
    paid: float,
    square_sum: float,
    unit: float,
    arm: int,
    loss: float,
    probability: float,
    at_draw: float,
) -> tuple[float, float, float]:
    """Learn from one loss: add its estimate to the sums and solve for p; return A, Σ ℓ² and the unit of the sums.

    `at_draw` is what `iterate[arm]` was at the draw; if it is 0, it is not known, and taken to be the same.
    """
    n_arms = len(iterate)
    n = float(n_arms)
    unit, shrink = fit_unit(unit, loss)
    rescale(loss_sums, shrink)
    paid, square_sum = paid * shrink, square_sum * shrink * shrink
    scaled = loss * unit
    estimate = importance_weighted(scaled, probability)
    inverse = inverse_rate(parameters, n_arms, unit, paid, square_sum)
    late = at_draw > 0.0
    rarer = min(at_draw, iterate[arm]) if late else iterate[arm]
    if parameters.clipping == 1.0 and inverse > 0.0 and estimate * rarer < -LIMIT * inverse:
        clipped = -LIMIT * inverse / rarer
        paid += parameters.rate * n * CHARGE * (1.0 - probability) * ((clipped - estimate) * probability)
        estimate = clipped
    cost = stability(iterate, arm, estimate, rate_of(inverse), scratch)
    if late:
        drift = estimate * (at_draw - iterate[arm])  # 0 if no other loss has arrived since the draw
        cost = max(0.0, cost + (DRIFT if drift > 0.0 else 1.0) * drift)
    paid += cost
    square_sum += scaled * scaled
    loss_sums[arm] += estimate
    inverse = inverse_rate(parameters, n_arms, unit, paid, square_sum)
    if inverse > 0.0:
        log_barrier(loss_sums, rate_of(inverse), iterate)
    return paid, square_sum, unit


def inverse_rate(parameters: Parameters, n_arms: int, unit: float, paid: float, square_sum: float) -> float:
    """Return 1/η for these sums, which are in units; 0 before the first loss that is not 0."""
    n = float(n_arms)
    initial = parameters.initial_scale * unit
    if parameters.learning == _STABILITY:
        return (initial + paid) / (parameters.rate * n)
    return math.sqrt((initial * initial + square_sum) / n) / parameters.rate


def rate_of(inverse: float) -> float:
    """Return η; where 1/η is 0, the largest double."""
    return min(1.0 / inverse, LARGEST) if inverse > 0.0 else LARGEST


def exploration_rate(n: float, t: float) -> float:
    """Return ρ_t, below which no probability falls."""
    return 1.0 / (n * n + 2.0 * math.sqrt((n - 1.0) * t))
