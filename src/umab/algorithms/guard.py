"""A guard for policies that trust their means: a shadow that could play instead, and a balance of what each would cost.

A policy with a guard, an optimist, says in every round from which distribution q it would draw. A shadow, UMAB-S on
losses minus their mean, has its own distribution p. Draws are from (1 − γ)q + γp, so both can be judged by every loss:
with r = p_k/p'_k, the shadow would have drawn the arm k so many times as often, so it learns the loss times r, and the
balance of optimist against shadow grows by the loss times 1 − r. Where the balance is clearly above 0, the share γ of
the shadow grows, up to 1. docs/guard.md has the theorem and its proof.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from umab._support import checks
from umab.algorithms.base import Learns, Policy
from umab.algorithms.centred import centred_loss
from umab.algorithms.limits import ANY, COUNT, DISTRIBUTION, POSITIVE_SUMS, ROUND, SHARE, SUMS, UNIT, Limits
from umab.algorithms.limits import within as inside_of
from umab.algorithms.umab_s import UMABS, learned
from umab.algorithms.umab_s import Parameters as RateParameters
from umab.algorithms.wrapper import Wrapper, layers
from umab.maths import simplex
from umab.maths.level import within
from umab.maths.numerics import FINEST_UNIT, FLOOR, fit_unit
from umab.maths.simplex import Vector, raise_to

LEAST_SHARE = 1.0 / 64.0
"""The share of the shadow in a round is never smaller, so no weight r is above its inverse."""

CALM, SURE = 0.5, 3.0
"""The share grows from its least where the balance is so many standard deviations above 0, up to 1 at so many. It is 1
too as long as all losses are equal: then nothing speaks for an optimist."""


class Guard(NamedTuple):
    """The shadow, and the balance, which is kept in units of a power of two, see `umab.numerics.fit_unit`."""

    played: Vector  # the shadow's distribution, with its floor
    iterate: Vector  # the shadow's distribution before the floor
    loss_sums: Vector  # the sums that it minimizes
    scratch: Vector
    paid: float  # A_t, in its learning rate
    shadow_unit: float  # multiplier from losses to the unit of its sums
    share: float  # γ_t
    balance: float  # B_t
    squares: float  # V_t
    unit: float  # multiplier from losses to the unit of the balance
    origin: float  # the mean of the losses, as in `umab.Centred`
    mean: float
    n_losses: float
    round: float  # t


class GuardTicket(NamedTuple):
    """What the guard remembers about a draw; blank if the draw is not known, as for a loss without a choice."""

    iterate: float  # the probabilities of the arm: of the shadow without its floor, with it, and of the draw
    played: float
    drawn_with: float
    share: float  # γ at the draw; 0 in a blank ticket


class GuardParameters(NamedTuple):
    """What the guard needs to know."""

    shadow: RateParameters  # the parameters of UMAB-S
    least_share: float  # 0 if there is no guard


LIMITS: Mapping[str, Limits] = {
    "played": DISTRIBUTION,
    "iterate": DISTRIBUTION,
    "loss_sums": SUMS,
    "scratch": ANY,
    "paid": POSITIVE_SUMS,
    "shadow_unit": UNIT,
    "share": SHARE,
    "balance": SUMS,
    "squares": POSITIVE_SUMS,
    "unit": UNIT,
    "origin": ANY,
    "mean": ANY,
    "n_losses": COUNT,
    "round": ROUND,
}
"""Of the fields of `Guard`."""

TICKET_LIMITS: Mapping[str, Limits] = {
    "iterate": Limits(0.0, 2.0),
    "played": Limits(0.0, 2.0),
    "drawn_with": Limits(0.0, 2.0),
    "share": SHARE,
}
"""Of the fields of `GuardTicket`."""


def guard_parameters(n_arms: int, guarded: bool = True) -> GuardParameters:
    """Return the parameters of the guard; it may be off, for study."""
    return GuardParameters(shadow=UMABS().parameters_for(n_arms), least_share=LEAST_SHARE if guarded else 0.0)


def new_guard(parameters: GuardParameters, n_arms: int) -> Guard:
    """Return the guard before the first round."""
    return Guard(
        played=simplex.uniform(n_arms),
        iterate=simplex.uniform(n_arms),
        loss_sums=[0.0] * n_arms,
        scratch=[0.0] * n_arms,
        paid=0.0,
        shadow_unit=FINEST_UNIT,
        share=share_of_shadow(0.0, 0.0, parameters.least_share),
        balance=0.0,
        squares=0.0,
        unit=FINEST_UNIT,
        origin=0.0,
        mean=0.0,
        n_losses=0.0,
        round=1.0,
    )


def blank_guard_ticket() -> GuardTicket:
    """Return a blank ticket."""
    return GuardTicket(iterate=0.0, played=0.0, drawn_with=0.0, share=0.0)


def guard_ticket(guard: Guard, probabilities: Vector, arm: int) -> GuardTicket:
    """Return what the guard remembers about a draw of an arm, or of one to whose account the loss goes."""
    return GuardTicket(
        iterate=guard.iterate[arm], played=guard.played[arm], drawn_with=probabilities[arm], share=guard.share
    )


def mix(guard: Guard, chosen: Vector, probabilities: Vector) -> None:
    """Fill `probabilities` with what the optimist has chosen and what the shadow plays, each with its share."""
    for k in range(len(probabilities)):
        both = (1.0 - guard.share) * chosen[k] + guard.share * guard.played[k]
        probabilities[k] = max(both, FLOOR)  # without a guard, an optimist may leave an arm out


def judged(
    parameters: GuardParameters,
    guard: Guard,
    probabilities: Vector,
    account: int,
    loss: float,
    probability: float,
    ticket: GuardTicket,
) -> Guard:
    """Return the guard after a loss on the account of an arm, of which it was told with this probability.

    The shadow learns from it, the balance counts it, and the share of the next round follows.
    """
    n, t = float(len(guard.played)), guard.round + 1.0
    if ticket.share == 0.0:  # the draw is not known: take it to be one of now
        ticket = guard_ticket(guard, probabilities, account)
    distance, origin, mean, n_losses = centred_loss(loss, guard.origin, guard.mean, guard.n_losses)
    unit, shrink = fit_unit(guard.unit, distance)
    balance, squares = guard.balance * shrink, guard.squares * shrink * shrink
    paid, shadow_unit = guard.paid, guard.shadow_unit
    share = parameters.least_share
    if share > 0.0:
        weight = min(ticket.played / max(ticket.drawn_with, FLOOR), 1.0 / share)
        paid, _, shadow_unit = learned(
            parameters.shadow,
            guard.iterate,
            guard.loss_sums,
            guard.scratch,
            paid,
            0.0,
            shadow_unit,
            account,
            within(distance * weight),
            min(1.0, probability * weight),
            ticket.iterate,
        )
        seen = distance * unit
        if ticket.share < 1.0:  # on an account, the loss stands for more or fewer draws than its arm has
            difference = seen * (1.0 - weight) * min(ticket.drawn_with / probability, 2.0)
            balance += difference
            squares += difference * difference
        else:
            squares += seen * seen
        share = share_of_shadow(balance, squares, share)
        for k in range(len(guard.played)):
            guard.played[k] = guard.iterate[k]
        raise_to(guard.played, least_of_shadow(n, t, share))
    return Guard(
        played=guard.played,
        iterate=guard.iterate,
        loss_sums=guard.loss_sums,
        scratch=guard.scratch,
        paid=paid,
        shadow_unit=shadow_unit,
        share=share,
        balance=balance,
        squares=squares,
        unit=unit,
        origin=origin,
        mean=mean,
        n_losses=n_losses,
        round=t,
    )


def share_of_shadow(balance: float, squares: float, least: float) -> float:
    """Return γ_t for this balance and this sum of its squared changes; 0 if there is no guard."""
    if least == 0.0:
        return 0.0
    if squares <= 0.0:
        return 1.0
    return max(least, min(1.0, (balance / math.sqrt(squares) - CALM) / (SURE - CALM)))


def least_of_shadow(n: float, t: float, share: float) -> float:
    """Return ρ_t, below which the shadow lets no arm fall: that of UMAB-S after as many rounds as its share makes."""
    return 1.0 / (n * n + 2.0 * math.sqrt((n - 1.0) * (1.0 + share * t)))


class State(NamedTuple):
    """The state of the optimist, the guard, and what both play."""

    inner: Any
    probabilities: Vector  # p'_t
    guard: Guard


class Parameters(NamedTuple):
    """The parameters of `Guarded`, as numbers."""

    inner: Any
    guard: GuardParameters


class Ticket(NamedTuple):
    """What the guard remembers about a draw, and what the optimist does."""

    inner: Any
    guard: GuardTicket


@dataclass(frozen=True)
class Guarded(Wrapper):
    """Any policy, with a guard that bounds its regret against the best single arm whatever the losses are.

    The policy inside is the optimist. In every round a shadow, UMAB-S on losses minus their mean, owns a share of the
    draw, at least 1/64. What the optimist costs more than the shadow would have is added up, and as soon as that is
    clearly above 0, the share grows, up to 1.

    Parameters
    ----------
    policy
        A policy, or its name: any but one over experts, one that sees all losses, or one with a coin.
    shadow
        ``"always"``, or for study ``"never"``: the policy inside, as it is.

    Guarantee
    ---------
    Against the best single arm, whatever the policy inside is: of order √(nT) ln T times the size of the losses, 8
    times that of UMAB-S, besides terms that do not grow with √T. docs/guard.md has the constants and the proof. It does
    not cover late feedback.

    References
    ----------
    From this project.

    Examples
    --------
    >>> import umab
    >>> umab.Guarded("umab-r") == umab.Guarded(umab.UMABR())
    True
    >>> learner = umab.Learner(umab.Guarded("umab-r"), arms=3)
    >>> for arm, loss in [(0, 1000.5), (1, 999.0), (2, 1001.0)]:
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.0035, 0.9929, 0.0035])
    """

    shadow: Literal["always", "never"] = "always"

    if TYPE_CHECKING:

        def __init__(self, policy: Policy | str, *, shadow: Literal["always", "never"] = "always") -> None: ...

    def __post_init__(self) -> None:
        """Check the policy."""
        super().__post_init__()
        checks.one_of("shadow", self.shadow, ("always", "never"))
        inside = self.policy
        if inside.coin is not None or inside.takes_advice or any(isinstance(each, Guarded) for each in layers(inside)):
            raise ValueError(
                f"{self._what} must have no coin, no experts and no guard of its own, but got {self.policy.name}"
            )

    @property
    def for_study(self) -> bool:
        """Whether there is no guard, or the policy inside is for study."""
        return self.shadow == "never" or self.policy.for_study

    @property
    def plays_each_arm_first(self) -> bool:  # type: ignore[override]
        """Never: the shadow may play another arm."""
        return False

    @property
    def guarantee(self) -> str:
        """Without the terms that do not grow with time; see docs/guard.md."""
        return "" if self.for_study else "8 · (ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²∞)), of ℓ_t − b_t"

    def init(self, n_arms: int) -> State:
        """Return the start of the policy inside; the shadow plays as long as all losses are equal."""
        guard = new_guard(guard_parameters(n_arms, self.shadow == "always"), n_arms)
        state = State(inner=self.policy.init(n_arms), probabilities=simplex.uniform(n_arms), guard=guard)
        mix(guard, state.inner.probabilities, state.probabilities)
        return state

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the parameters of the policy inside and of the guard."""
        return Parameters(
            inner=self.policy.parameters_for(n_arms), guard=guard_parameters(n_arms, self.shadow == "always")
        )

    def ticket(self, n_arms: int) -> Ticket | GuardTicket:
        """Return a blank ticket."""
        inner = self.policy.ticket(n_arms)
        return blank_guard_ticket() if inner is None else Ticket(inner=inner, guard=blank_guard_ticket())

    @property
    def needs_ticket(self) -> bool:  # type: ignore[override]
        """As the policy inside, if that has tickets."""
        return self._has_tickets and self.policy.needs_ticket

    @property
    def _has_tickets(self) -> bool:
        return self.policy.ticket(1) is not None

    @property
    def remember(self) -> Callable[..., Ticket | GuardTicket]:  # type: ignore[override]
        """What the guard and the policy inside remember about a draw."""
        return _remembering(self.policy.remember) if self._has_tickets else _remember_guard

    @staticmethod
    def around(inner_update: Learns) -> Learns:
        """Return the update with a guard, for a policy inside without tickets."""

        def update(
            parameters: Parameters, state: State, arm: int, loss: float, probability: float, ticket: GuardTicket
        ) -> State:
            guard = judged(parameters.guard, state.guard, state.probabilities, arm, loss, probability, ticket)
            inner = inner_update(parameters.inner, state.inner, arm, loss, probability)
            mix(guard, inner.probabilities, state.probabilities)
            return State(inner=inner, probabilities=state.probabilities, guard=guard)

        return update

    @property
    def update(self) -> Learns:  # type: ignore[override]
        """What the guard and the policy inside learn from a loss."""
        return _updating(self.policy.update, self._has_tickets)

    @property
    def credited(self) -> Learns | None:  # type: ignore[override]
        """The same where the loss goes to the account of an arm that is away, if the policy inside has it."""
        inner = self.policy.credited
        return None if inner is None else _crediting(inner, self._has_tickets)

    @property
    def selected(self) -> Callable[..., State]:  # type: ignore[override]
        """What the policy inside notes when an arm is drawn."""
        inner = self.policy.selected
        return inner if inner is Policy.selected else _selecting(inner)

    @property
    def closed(self) -> Learns | None:  # type: ignore[override]
        """What the policy inside notes when a draw is closed without a loss, if it does."""
        inner = self.policy.closed
        return None if inner is None else _closing(inner, self._has_tickets)

    def solved(self, state: State) -> Vector:
        """Return the shadow's distribution, which follows from its sums."""
        return state.guard.iterate

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Resize the policy inside and the shadow, in which a new arm gets a fair share."""
        guard, inner = state.guard, self.policy.resized(state.inner, arms)
        likelier, rarer, part = simplex.beside_fair_share(guard.iterate, self.link)
        fair = (1.0 - part) * guard.loss_sums[likelier] + part * guard.loss_sums[rarer]
        guard = guard._replace(
            played=simplex.shared_out(guard.played, arms),
            iterate=simplex.shared_out(guard.iterate, arms),
            loss_sums=[fair if arm is None else guard.loss_sums[arm] for arm in arms],
            scratch=[0.0] * len(arms),
        )
        probabilities = simplex.uniform(len(arms))
        mix(guard, inner.probabilities, probabilities)
        return State(inner=inner, probabilities=probabilities, guard=guard)

    def resized_ticket(self, ticket: Any, arms: Sequence[int | None]) -> Any:
        """Resize as the policy inside does; the guard remembers numbers only."""
        return ticket._replace(inner=self.policy.resized_ticket(ticket.inner, arms)) if self._has_tickets else ticket

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Those of the policy inside, and of the guard."""
        return {**super().limits, **inside_of("guard", LIMITS)}

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """Those of the policy inside, and of the guard."""
        if not self._has_tickets:
            return TICKET_LIMITS
        return {**inside_of("inner", self.policy.ticket_limits), **inside_of("guard", TICKET_LIMITS)}

    def fault(self, state: State, tickets: Sequence[Any]) -> str | None:
        """Return what is wrong in the policy inside."""
        return self.policy.fault(state.inner, [each.inner for each in tickets] if self._has_tickets else [])


# Each function is made once for each function inside, as in `umab.algorithms.wrapper`.


def _remember_guard(parameters: Parameters, state: State, arm: int, ticket: GuardTicket) -> GuardTicket:
    return guard_ticket(state.guard, state.probabilities, arm)


@functools.cache
def _remembering(inner_remember: Callable[..., Any]) -> Callable[..., Ticket]:
    def remember(parameters: Parameters, state: State, arm: int, ticket: Ticket) -> Ticket:
        return Ticket(
            inner=inner_remember(parameters.inner, state.inner, arm, ticket.inner),
            guard=guard_ticket(state.guard, state.probabilities, arm),
        )

    return remember


@functools.cache
def _updating(inner_update: Learns, has_tickets: bool) -> Learns:
    def update(
        parameters: Parameters, state: State, arm: int, loss: float, probability: float, ticket: Ticket
    ) -> State:
        guard = judged(parameters.guard, state.guard, state.probabilities, arm, loss, probability, ticket.guard)
        inner = inner_update(parameters.inner, state.inner, arm, loss, probability, ticket.inner)
        mix(guard, inner.probabilities, state.probabilities)
        return State(inner=inner, probabilities=state.probabilities, guard=guard)

    return update if has_tickets else Guarded.around(inner_update)


@functools.cache
def _crediting(inner_credited: Learns, has_tickets: bool) -> Learns:
    def credited(
        parameters: Parameters, state: State, account: int, loss: float, probability: float, arm: int, ticket: Ticket
    ) -> State:
        guard = judged(parameters.guard, state.guard, state.probabilities, account, loss, probability, ticket.guard)
        inner = inner_credited(parameters.inner, state.inner, account, loss, probability, arm, ticket.inner)
        mix(guard, inner.probabilities, state.probabilities)
        return State(inner=inner, probabilities=state.probabilities, guard=guard)

    def credited_without(
        parameters: Parameters,
        state: State,
        account: int,
        loss: float,
        probability: float,
        arm: int,
        ticket: GuardTicket,
    ) -> State:
        guard = judged(parameters.guard, state.guard, state.probabilities, account, loss, probability, ticket)
        inner = inner_credited(parameters.inner, state.inner, account, loss, probability, arm)
        mix(guard, inner.probabilities, state.probabilities)
        return State(inner=inner, probabilities=state.probabilities, guard=guard)

    return credited if has_tickets else credited_without


@functools.cache
def _selecting(inner_selected: Callable[..., Any]) -> Callable[..., State]:
    def selected(parameters: Parameters, state: State, arm: int) -> State:
        inner = inner_selected(parameters.inner, state.inner, arm)
        mix(state.guard, inner.probabilities, state.probabilities)
        return State(inner=inner, probabilities=state.probabilities, guard=state.guard)

    return selected


@functools.cache
def _closing(inner_closed: Learns, has_tickets: bool) -> Learns:
    def closed(parameters: Parameters, state: State, arm: int, probability: float, ticket: Ticket) -> State:
        inner = inner_closed(parameters.inner, state.inner, arm, probability, ticket.inner)
        mix(state.guard, inner.probabilities, state.probabilities)
        return State(inner=inner, probabilities=state.probabilities, guard=state.guard)

    def closed_without(
        parameters: Parameters, state: State, arm: int, probability: float, ticket: GuardTicket
    ) -> State:
        inner = inner_closed(parameters.inner, state.inner, arm, probability)
        mix(state.guard, inner.probabilities, state.probabilities)
        return State(inner=inner, probabilities=state.probabilities, guard=state.guard)

    return closed if has_tickets else closed_without
