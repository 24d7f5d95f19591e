"""Banker-SFTINF and Banker-SFLBINF: Banker-OMD with its bank, for late feedback."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from umab._support import checks
from umab._support.checks import LARGEST
from umab.algorithms.banker_omd import BOUND, WEIGHT, investment
from umab.algorithms.base import Policy, moved
from umab.algorithms.limits import COUNT, DISTRIBUTION, POSITIVE_SUMS, SHARE, SUMS, UNIT, WAITED, Limits
from umab.maths import simplex
from umab.maths.numerics import fit_unit, importance_weighted, rescale, unit_of
from umab.maths.simplex import Vector, beside_fair_share, log_barrier, tsallis

_ROUNDING = 1e-12  # σ may fall by rounding alone; a draw that is short by so little takes all savings


class State(NamedTuple):
    """Sums, savings and weights are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # x_t
    start: Vector  # the latest distribution that had to be solved for, from where the next search starts
    loss_sums: Vector  # S, the sums of losses that belong to the savings
    savings: float  # v
    share: float  # min(v, σ_t)/v, the part of both that the next draw takes
    weight: float  # σ_t
    bound: float  # L̂_t, twice the size of the largest loss that has arrived, at least 1
    open_sum: float  # Σ (d_s + 1) L̂_s² over the draws whose losses have not arrived
    square_sum: float  # the part of D_t from the losses that have arrived
    unit: float  # multiplier from losses to the unit of the sums
    outstanding: float  # d_t, how many losses have not arrived
    waited: float  # Σ_{s<t} d_s


class Ticket(NamedTuple):
    """What is remembered about a draw, in the unit of that time."""

    taken: Vector  # G_s, the sums of losses that were taken out of the bank
    weight: float  # σ_s
    bound: float  # L̂_s
    unit: float
    outstanding: float  # d_s


class Parameters(NamedTuple):
    """The parameters of both policies, as numbers."""

    signed: float  # 1 for Banker-SFLBINF, which has the log-barrier; 0 for Banker-SFTINF, which has a Tsallis entropy
    log_horizon: float  # ln T, for Banker-SFLBINF


@dataclass(frozen=True, kw_only=True)
class LateBanker(Policy[State, Parameters]):
    """What both policies share: the bank, in the form that needs memory for the arms and the open draws only.

    The published bank keeps a dual point and savings for each round. For these regularizers, a dual point times its
    savings is the negative of a sum of losses, up to a number that is the same for all arms and has no effect. So the
    bank can be two things: savings v, and a vector S of loss sums. A draw with weight σ takes the share min(v, σ)/v of
    both and plays the leader of the sums G that it got. What is missing to σ is the default investment, whose dual
    point is the same for all arms. When its loss arrives, the draw pays back σ and G plus the estimate of the loss.
    """

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with an empty bank."""
        unit = unit_of(1.0)
        empty = State(
            probabilities=simplex.uniform(n_arms),
            start=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            savings=0.0,
            share=1.0,
            weight=0.0,
            bound=unit,
            open_sum=0.0,
            square_sum=0.0,
            unit=unit,
            outstanding=0.0,
            waited=0.0,
        )
        return solved(self.parameters_for(n_arms), empty)

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return which of the two it is."""
        return Parameters(signed=0.0, log_horizon=0.0)

    def ticket(self, n_arms: int) -> Ticket:
        """Return a blank ticket."""
        return Ticket(taken=[0.0] * n_arms, weight=0.0, bound=0.0, unit=unit_of(1.0), outstanding=0.0)

    @staticmethod
    def remember(parameters: Parameters, state: State, arm: int, ticket: Ticket) -> Ticket:
        """Remember what the draw takes out of the bank, and by which rule its loss will be skipped."""
        for k in range(len(state.loss_sums)):
            ticket.taken[k] = state.share * state.loss_sums[k]
        return Ticket(
            taken=ticket.taken,
            weight=state.weight,
            bound=state.bound,
            unit=state.unit,
            outstanding=state.outstanding,
        )

    def resized_ticket(self, ticket: Ticket, arms: Sequence[int | None]) -> Ticket:
        """Return a ticket for other arms; a new one gets the sum that would have given it a fair share in the draw."""
        p = simplex.uniform(len(ticket.taken))
        if ticket.weight > 0.0:
            solve(self.parameters_for(len(p)), ticket.taken, 1.0 / ticket.weight, p)
        likelier, rarer, part = beside_fair_share(p, self.link)
        fair = (1.0 - part) * ticket.taken[likelier] + part * ticket.taken[rarer]
        return ticket._replace(taken=moved(Vector, ticket.taken, [fair] * len(arms), arms))

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "start": DISTRIBUTION,
            "loss_sums": SUMS,
            "savings": POSITIVE_SUMS,
            "share": SHARE,
            "weight": WEIGHT,
            "bound": BOUND,
            "open_sum": POSITIVE_SUMS,
            "square_sum": POSITIVE_SUMS,
            "unit": UNIT,
            "outstanding": COUNT,
            "waited": WAITED,
        }

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """Of the fields of `Ticket`."""
        return {
            "taken": SUMS,
            "weight": POSITIVE_SUMS,
            "bound": Limits(0.0, 2.0),
            "unit": Limits(2.0**-1074, 0.5),
            "outstanding": COUNT,
        }

    def fault(self, state: State, tickets: Sequence[Ticket]) -> str | None:
        """Find a draw in a smaller unit than that of the state, which came after it."""
        units = [each.unit for each in tickets if each.unit < state.unit]
        if units:
            return f"the unit of a ticket must be at least unit={state.unit!r}, but got unit={units[0]!r}"
        return None

    def rates(self, state: State) -> dict[str, float]:
        """Return 1/σ. It grows with the number of losses that have not arrived."""
        return {"1/σ": state.unit / state.weight}

    @staticmethod
    def selected(parameters: Parameters, state: State, arm: int) -> State:
        """Take the share of the draw out of the bank, and solve for the next distribution."""
        for k in range(len(state.loss_sums)):
            state.loss_sums[k] -= state.share * state.loss_sums[k]
        after = State(
            probabilities=state.probabilities,
            start=state.start,
            loss_sums=state.loss_sums,
            savings=0.0 if state.share == 1.0 else state.savings - state.weight,
            share=1.0,
            weight=state.weight,
            bound=state.bound,
            open_sum=state.open_sum + (state.outstanding + 1.0) * (state.bound * state.bound),
            square_sum=state.square_sum,
            unit=state.unit,
            outstanding=state.outstanding + 1.0,
            waited=state.waited + state.outstanding,
        )
        return solved(parameters, after)

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Parameters, state: State, arm: int, loss: float, probability: float, ticket: Ticket
    ) -> State:
        """Pay what the draw took back into the bank, with its loss, and solve for the next distribution."""
        fitted, _ = fit_unit(state.unit, loss)
        # The ticket's own unit and bound matter only if this state is older than the draw: then, they are news.
        unit = min(fitted, ticket.unit)
        shrink, back = unit / state.unit, unit / ticket.unit
        scaled, limit = loss * unit, ticket.bound * back
        rescale(state.loss_sums, shrink)
        for k in range(len(state.loss_sums)):
            state.loss_sums[k] += ticket.taken[k] * back
        outstanding = max(0.0, state.outstanding - 1.0)  # a choice of another learner was not counted here
        counted = (ticket.outstanding + 1.0) * (limit * limit)
        open_sum = max(0.0, state.open_sum * shrink * shrink - counted) if outstanding > 0.0 else 0.0
        skipped = abs(scaled) > limit or scaled < -0.5 * ticket.weight * back
        if not skipped:
            state.loss_sums[arm] += importance_weighted(scaled, probability)
        if parameters.signed == 1.0:
            counted = 0.0 if skipped else (ticket.outstanding + 1.0) * (scaled * scaled)
        after = State(
            probabilities=state.probabilities,
            start=state.start,
            loss_sums=state.loss_sums,
            savings=state.savings * shrink + ticket.weight * back,
            share=1.0,
            weight=state.weight * shrink,
            bound=max(state.bound * shrink, limit, 2.0 * abs(scaled)),
            open_sum=open_sum,
            square_sum=state.square_sum * shrink * shrink + counted,
            unit=unit,
            outstanding=outstanding,
            waited=state.waited,
        )
        return solved(parameters, after)


def solved(parameters: Parameters, state: State) -> State:
    """Return the state with the weight, the share and the distribution of the next draw."""
    n_arms, late = len(state.probabilities), state.outstanding
    total = (late + 1.0) * (state.bound * state.bound) + (state.open_sum + state.square_sum)
    divisor = n_arms * parameters.log_horizon if parameters.signed == 1.0 else 1.0
    weight = investment(state.bound, total, state.unit, late, divisor)
    if parameters.signed == 1.0 and late <= math.sqrt((1.0 + state.waited + late) / n_arms):
        weight = max(weight, 2.0 * state.bound)
    share = 1.0
    if state.savings > weight * (1.0 + _ROUNDING):
        share = weight / state.savings
    # Nothing is solved for an empty bank, as after each draw without delays; `start` stays near what comes next.
    empty = state.savings == 0.0
    if not empty:
        solve(parameters, state.loss_sums, share / weight, state.start)
    for k in range(n_arms):
        state.probabilities[k] = 1.0 / n_arms if empty else state.start[k]
    return State(
        probabilities=state.probabilities,
        start=state.start,
        loss_sums=state.loss_sums,
        savings=state.savings,
        share=share,
        weight=weight,
        bound=state.bound,
        open_sum=state.open_sum,
        square_sum=state.square_sum,
        unit=state.unit,
        outstanding=state.outstanding,
        waited=state.waited,
    )


def solve(parameters: Parameters, loss_sums: Vector, rate: float, p: Vector) -> None:
    """Fill `p` with the leader for the regularizer of the policy."""
    if parameters.signed == 1.0:
        log_barrier(loss_sums, rate, p)
    else:
        tsallis(loss_sums, rate, p)


@dataclass(frozen=True, kw_only=True)
class BankerSFTINF(LateBanker):
    """Banker-SFTINF, for losses of any size that are never negative and arrive late; without a horizon.

    A bank holds savings v and sums of losses S. Round t takes the share min(v, σ_t)/v of both out of it; with the sums
    G_t that it gets,

        x_t = argmin_x ⟨G_t, x⟩ − 2σ_t Σ √x_k,    σ_t = √((3 + D_t) / ln(3 + D_t/L̂_t²)) / (d_t + 1),

    where D_t = Σ_{s≤t} (d_s + 1) L̂_s², d_s is the number of losses that were outstanding in round s, and L̂_s is 1 or
    twice the largest loss that had arrived. When its loss arrives, the round pays back σ_t and G_t plus the estimate
    ℓ_t/x_{t,k} of the drawn arm; if ℓ_t > L̂_t, the loss is skipped, and its estimate is 0. A choice that is given up
    never pays back.

    Guarantee
    ---------
    Expected regret of order ℓ∞ √(n(T + D)) up to logarithms, where D is the sum of the delays, as published. L̂ starts
    at 1, so the ℓ∞ of small losses is to be read as 1. That a round whose loss is skipped pays back is our reading.

    References
    ----------
    Huang, Dai and Huang, Banker Online Mirror Descent, ICML 2023.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.BankerSFTINF(), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.probabilities().round(4)
    array([0.1728, 0.4136, 0.4136])
    """

    instead: ClassVar[str] = "; BankerSFLBINF and SCBD take losses of any sign"

    link = staticmethod(simplex.tsallis_link)

    @property
    def guarantee(self) -> str:
        """As published; D is the sum of the delays."""
        return "ℓ∞ √(n(T + D)) if ℓ∞ ≥ 1"

    @property
    def loss_range(self) -> tuple[float, float]:
        """At least 0, as the bound requires."""
        return 0.0, LARGEST


@dataclass(frozen=True, kw_only=True)
class BankerSFLBINF(LateBanker):
    """Banker-SFLBINF, for losses of any size and sign that arrive late; without delays, it is `BankerOMD`.

    It has the bank of `BankerSFTINF`, with a log-barrier in place of −2Σ√x_k, and

        σ_t = √((3 + D_t) / ln(3 + D_t/L̂_t²)) / √(n ln T) / (d_t + 1),

    which is raised to 2L̂_t in rounds with d_t ≤ √((1 + Σ_{s≤t} d_s)/n). In D_t, a round counts (d_s + 1) L̂_s² until its
    loss arrives and (d_s + 1) ℓ_s² from then on, or 0 if it is skipped: if |ℓ_s| > L̂_s or ℓ_s < −σ_s/2.

    Parameters
    ----------
    horizon
        T, the number of rounds. `umab.simulate` fills it in.

    Guarantee
    ---------
    None that holds, as for `BankerOMD`.

    References
    ----------
    Huang, Dai and Huang, Banker Online Mirror Descent, ICML 2023.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.BankerSFLBINF(horizon=1258), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.probabilities().round(4)
    array([0.2826, 0.3587, 0.3587])
    """

    horizon: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        self._set(horizon=checks.optional_horizon(self.horizon))

    @property
    def needs_horizon(self) -> bool:
        """Whether the horizon is still missing."""
        return self.horizon is None

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return ln T."""
        return Parameters(signed=1.0, log_horizon=math.log(max(self.horizon or 2, 2)))
