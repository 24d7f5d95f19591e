"""A guard for policies that trust their means: a shadow that could play instead, and a balance of what each would cost.

A policy with a guard, an optimist, says in every round from which distribution q it would draw. A shadow, UMAB-S on
losses minus their mean, has its own distribution p. Draws are from (1 − γ)q + γp, so both can be judged by every loss:
with r = p_k/p'_k, the shadow would have drawn the arm k so many times as often, so it learns the loss times r, and the
balance of optimist against shadow grows by the loss times 1 − r. Where the balance is clearly above 0, the share γ of
the shadow grows, up to 1. docs/guard.md has the theorem and its proof.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from umab.algorithms.base import Policy
from umab.algorithms.centred import centred_loss
from umab.algorithms.limits import ANY, COUNT, DISTRIBUTION, POSITIVE_SUMS, ROUND, SHARE, SUMS, UNIT, Limits
from umab.algorithms.limits import within as inside
from umab.algorithms.umab_s import UMABS, learned
from umab.algorithms.umab_s import Parameters as RateParameters
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

    chosen: Vector  # q_t, the optimist's distribution
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
    "chosen": Limits(0.0, DISTRIBUTION.highest, sums_to_1=True),
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
    """Return the guard before the first round; the optimist's distribution is uniform."""
    return Guard(
        chosen=simplex.uniform(n_arms),
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


def mixed(guard: Guard, probabilities: Vector) -> None:
    """Fill `probabilities` with the shares of the optimist and of the shadow."""
    for k in range(len(probabilities)):
        both = (1.0 - guard.share) * guard.chosen[k] + guard.share * guard.played[k]
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

    The shadow learns from it, the balance counts it, and the share of the next round follows. `chosen` stays as it is:
    the optimist fills it in, and then calls `mixed`.
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
        chosen=guard.chosen,
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


class Guarded(Policy):
    """A policy with a guard: its state has it as `guard`, its parameters have those of the guard as `guard`.

    `init` starts with `new_guard`. `update` and `credited` call `judged`, fill in `guard.chosen` with what the policy
    would draw from by itself, and call `mixed` to fill in the probabilities.
    """

    guarded: bool = True
    """Whether the guard is on; off is for study. A policy may have this as a parameter."""

    needs_ticket: ClassVar[bool] = False

    def ticket(self, n_arms: int) -> GuardTicket:
        """Return a blank ticket."""
        return blank_guard_ticket()

    @staticmethod
    @abstractmethod
    def update(  # type: ignore[override]
        parameters: Any, state: Any, arm: int, loss: float, probability: float, ticket: GuardTicket
    ) -> Any:
        """Return the state after a loss, with the ticket of its draw."""

    @staticmethod
    def remember(parameters: Any, state: Any, arm: int, ticket: GuardTicket) -> GuardTicket:
        """Remember the probabilities of the shadow and of the draw."""
        return guard_ticket(state.guard, state.probabilities, arm)

    def solved(self, state: Any) -> Vector:
        """Return the shadow's distribution, which follows from its sums."""
        found: Vector = state.guard.iterate
        return found

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `Guard`."""
        return inside("guard", LIMITS)

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """Of the fields of `GuardTicket`."""
        return TICKET_LIMITS
