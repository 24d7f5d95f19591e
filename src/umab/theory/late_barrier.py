"""UMAB-S along given arms, with late feedback, in extended precision, and the bound of Theorem L."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.algorithms.umab_s import DRIFT, UMABS
from umab.engine.delays import Rounds
from umab.tables.losses import Losses
from umab.theory.barrier import learned, least_probability, log_barrier
from umab.theory.constants import KAPPA, REST, SHARE, clipping
from umab.theory.path import Precise, Runs, raised
from umab.theory.theorems import core_of


@dataclass(frozen=True, eq=False)
class ArrivalPath(Runs):
    """Runs of UMAB-S with late feedback: arrays over runs, rounds and arms.

    What belongs to the arrival of a loss is in the place of the round in which its arm was drawn. Losses that would
    arrive after the end arrive there, in the order in which they would.
    """

    policy: Policy
    losses: Precise
    """ℓ_s, runs × T × n; if they are centred, ℓ_s − b_s, where b_s is the mean of what arrived before, and 0 for
    the loss that arrives first."""
    arms: npt.NDArray[np.intp]
    """k_s, runs × T."""
    order: npt.NDArray[np.intp]
    """The rounds in the order in which their losses arrive; runs × T."""
    n_before: npt.NDArray[np.intp]
    """How many losses had arrived before the draw; runs × T."""
    p: Precise
    """p_s, of the draw; runs × T × n."""
    drawn_from: Precise
    """p'_s, of the draw; runs × T × n."""
    exploration: Precise
    """ρ of the draw; runs × T."""
    paid_at_draw: Precise
    """A at the draw; runs × T."""
    at_arrival: Precise
    """P_s, the iterate before the loss is learned; runs × T × n."""
    moved: Precise
    """The iterate with the loss, but at the rate before it; runs × T × n."""
    after: Precise
    """The iterate after the loss is learned; runs × T × n."""
    paid: Precise
    """A before the loss is learned; runs × T."""
    clipped: Precise
    """y'_s; runs × T."""
    stability: Precise
    """M_s; runs × T."""
    cost: Precise
    """C_s, by which A grows, without G_s; runs × T."""
    charge: Precise
    """G_s; runs × T."""
    sums: Precise
    """Σ ℓ̂_s over all rounds; runs × n."""

    @property
    def drift(self) -> Precise:
        """δ_s = ℓ̂_{s,k}(p_{s,k} − P_{s,k})."""
        return np.asarray(self.estimate * (self.of_arm(self.p) - self.of_arm(self.at_arrival)))

    @property
    def outstanding(self) -> Precise:
        """How many losses were on their way at the draw; runs × T."""
        return np.asarray(np.arange(self.n_rounds) - self.n_before, dtype=np.longdouble)

    @property
    def paid_in_all(self) -> Precise:
        """A after all losses; one number per run."""
        return np.asarray((self.cost + self.charge).sum(axis=1))

    def in_flight(self, values: Precise, same_arm: bool = False) -> Precise:
        """Return the sum of values over the rounds in the flight of each round s; with `same_arm`, of the same arm.

        Their losses arrive after the draw of s and before its loss. They are neighbours in the order of arrival, so the
        sum is a difference of two sums. Values that are infinite are counted apart.
        """
        place = np.argsort(self.order, axis=1)

        def between(values: Precise) -> Precise:
            sums = np.cumsum(np.take_along_axis(values, self.order, axis=1), axis=1, dtype=np.longdouble)
            sums = np.concatenate([0 * sums[:, :1], sums], axis=1)
            return np.take_along_axis(sums, place, axis=1) - np.take_along_axis(sums, self.n_before, axis=1)

        def in_all(values: Precise) -> Precise:
            endless = np.isinf(values)
            total = between(np.where(endless, 0, values))
            return np.where(between(endless) > 0, np.inf, np.maximum(0, total))

        if not same_arm:
            return in_all(values)
        found = np.zeros_like(values)
        for arm in range(self.n_arms):
            mine = self.arms == arm
            found = np.where(mine, in_all(np.where(mine, values, 0)), found)
        return found


def follow_arrivals(
    policy: Policy, losses: npt.ArrayLike, arms: npt.ArrayLike, delays: npt.ArrayLike = 0
) -> ArrivalPath:
    """Return what UMAB-S does when it draws these arms.

    Parameters
    ----------
    policy
        A `UMABS`, bare or centred.
    losses
        Rounds × arms.
    arms
        The arms of each run: runs × rounds.
    delays
        The delays of the losses that were drawn: one for each run and round, or what can be spread over them.
    """
    drawn = np.asarray(arms, dtype=np.intp)
    given = np.asarray(losses, dtype=np.longdouble)
    late = np.broadcast_to(np.asarray(delays, dtype=np.int64), drawn.shape)
    # Runs with the same delays are followed together.
    kinds, kind_of = np.unique(late, axis=0, return_inverse=True)
    parts = [np.flatnonzero(kind_of.ravel() == kind) for kind in range(len(kinds))]
    paths = [_follow(policy, given, drawn[runs], kinds[kind]) for kind, runs in enumerate(parts)]
    back = np.argsort(np.concatenate(parts))
    every = {
        field.name: np.concatenate([getattr(path, field.name) for path in paths])[back]
        for field in fields(ArrivalPath)
        if field.name != "policy"
    }
    return ArrivalPath(policy=policy, **every)


def _follow(policy: Policy, losses: Precise, arms: npt.NDArray[np.intp], delays: Rounds) -> ArrivalPath:
    """Do it for runs with the same delays, one for each round."""
    (n_runs, n_rounds), n_arms, run = arms.shape, losses.shape[1], np.arange(len(arms))
    core = core_of(policy, UMABS)
    times = np.longdouble(core.rate) * n_arms
    due = np.arange(n_rounds) + delays
    order = np.argsort(due, kind="stable")
    n_before = np.searchsorted(due[order], np.arange(n_rounds))  # what is due in an earlier round
    table = np.array(np.broadcast_to(losses, (n_runs, n_rounds, n_arms)))
    p, drawn_from, at_arrival, moved, after = np.zeros((5, n_runs, n_rounds, n_arms), dtype=np.longdouble)
    exploration, paid_at_draw, paid, clipped, stability, cost, charge = np.zeros(
        (7, n_runs, n_rounds), dtype=np.longdouble
    )
    sums, total = np.zeros((n_runs, n_arms), dtype=np.longdouble), np.zeros(n_runs, dtype=np.longdouble)
    now = np.full((n_runs, n_arms), 1 / np.longdouble(n_arms))
    origin = table[run, order[0], arms[:, order[0]]][:, None]
    above = np.zeros((n_runs, 1), dtype=np.longdouble)
    n_drawn = 0
    for place, s in enumerate([*order, None]):
        while n_drawn < n_rounds and n_before[n_drawn] == place:
            rho = least_probability(n_arms, place + 1)
            p[:, n_drawn], drawn_from[:, n_drawn], exploration[:, n_drawn] = now, raised(now, rho), rho
            paid_at_draw[:, n_drawn] = total
            n_drawn += 1
        if s is None:
            break
        arm = arms[:, s]
        if isinstance(policy, Centred):  # measured from some loss, so that an offset costs no digits
            row = table[:, s] - origin
            table[:, s] = row - above / place if place else 0
            above = above + row[run, arm][:, None]
        rate = total / times
        at_arrival[:, s], paid[:, s] = now, total
        step = learned(now, drawn_from[:, s], sums, rate, arm, table[run, s, arm], times, p[:, s])
        drift = step.clipped / drawn_from[run, s, arm] * (p[run, s, arm] - now[run, arm])
        cost[:, s] = np.maximum(0, step.cost + np.where(drift > 0, DRIFT, 1) * drift)
        clipped[:, s], stability[:, s], charge[:, s], sums = step.clipped, step.cost, step.charge, step.sums
        total = total + cost[:, s] + charge[:, s]
        moved[:, s] = log_barrier(sums, rate)
        now = log_barrier(sums, total / times)
        after[:, s] = now
    return ArrivalPath(
        policy=policy,
        losses=table,
        arms=arms,
        order=np.broadcast_to(order, arms.shape),
        n_before=np.broadcast_to(n_before, arms.shape),
        p=p,
        drawn_from=drawn_from,
        exploration=exploration,
        paid_at_draw=paid_at_draw,
        at_arrival=at_arrival,
        moved=moved,
        after=after,
        paid=paid,
        clipped=clipped,
        stability=stability,
        cost=cost,
        charge=charge,
        sums=sums,
    )


def fall_of_rate(n: np.longdouble) -> np.longdouble:
    """Return (√n − 1)/2: how far the logarithm of an arm may fall, for each unit by which ln A grows."""
    fall: np.longdouble = (np.sqrt(n) - 1) / 2
    return fall


class LateSizes(NamedTuple):
    """What the bound depends on, of losses."""

    heights: Precise
    """H_t, the largest difference of two numbers of a round that are losses or 0; T."""
    most_negative: np.longdouble
    """L⁻."""
    sum_of_squares: np.longdouble
    """Σ_t ‖ℓ_t‖²∞."""
    spread: np.longdouble
    """B, the largest difference of two arms in one round."""

    @classmethod
    def of(cls, policy: Policy, losses: Losses, delays: Rounds) -> LateSizes:
        """Return the sizes of the losses; for centred losses, what they are at most.

        What is subtracted from the losses of a round is a mean of one loss from each round whose loss arrives before,
        so it lies between the means of the smallest and of the largest losses of these rounds. All sizes are convex in
        it. For the round whose loss arrives first, they are 0.
        """
        table = losses.table.astype(np.longdouble)
        low, high = table.min(axis=1), table.max(axis=1)
        ends = np.zeros((2, len(table)), dtype=np.longdouble)
        counted = np.ones(len(table), dtype=bool)
        if isinstance(policy, Centred):
            order = np.argsort(np.arange(len(table)) + delays, kind="stable")
            before = np.arange(1, len(table))
            offset = low[order[0]]  # so that an offset costs no digits
            low, high = low - offset, high - offset
            ends[:, order[1:]] = [np.cumsum(each[order[:-1]]) / before for each in (low, high)]
            counted[order[0]] = False
        above, below = np.maximum(0, high - ends) * counted, np.maximum(0, ends - low) * counted
        sizes = np.maximum(above, below).max(axis=0)
        return cls((above + below).max(axis=0), below.max(), (sizes * sizes).sum(), (high - low).max())


class Flights(NamedTuple):
    """What the bound depends on, of delays."""

    total: np.longdouble
    """D, the sum of the delays, which count up to the last round at most."""
    most: np.longdouble
    """σ, the largest number of losses that are outstanding at a draw."""
    floors: np.longdouble
    """The sum of the least probabilities ρ of the draws, from round 2 on."""
    weighted: np.longdouble
    """W, the sum of H_s H_t over all rounds t and the rounds s whose losses are outstanding when t is drawn."""

    @classmethod
    def of(cls, delays: Rounds, n_arms: int, heights: Precise) -> Flights:
        """Return these numbers for the delays of all rounds.

        Until a loss has arrived the distribution is uniform and needs no floor, so that ρ_2 is the largest that counts.
        """
        t = np.arange(len(delays))
        there = t + delays < len(delays) - 1  # it arrives before a draw
        arrived, come = np.zeros((2, len(delays)), dtype=np.longdouble)
        np.add.at(arrived, (t + delays)[there] + 1, 1)
        np.add.at(come, (t + delays)[there] + 1, heights[there])
        outstanding = t - np.cumsum(arrived)
        waiting = np.where(outstanding > 0, np.cumsum(heights) - heights - np.cumsum(come), 0)
        floors = least_probability(n_arms, np.maximum(2, t + 1 - outstanding))
        return cls(outstanding.sum(), outstanding.max(), floors[1:].sum(), (waiting * heights).sum())


class LateBound(NamedTuple):
    """Theorem L, evaluated."""

    terms: dict[str, np.longdouble]
    paid: np.longdouble
    """What E A_end is at most."""
    flights: Flights


def late_bound(policy: Policy, losses: Losses, delays: Rounds, *, by_arm: bool = False) -> LateBound:
    """Return the bound of Theorem L for the delays of all rounds.

    With `by_arm`, delays depend on the arm, and these are the longest ones of each round. Either of two losses of one
    arm may then arrive first, depending on the arm, so a pair of rounds counts twice in what they do to each other.
    Only part (b) covers that: UMAB-S, and no loss is negative.
    """
    core = core_of(policy, UMABS)
    n, horizon, sizes = np.longdouble(losses.n_arms), losses.n_rounds, LateSizes.of(policy, losses, delays)
    flights = Flights.of(delays, losses.n_arms, sizes.heights)
    cn, most, squares = np.longdouble(core.rate) * n, flights.most, sizes.sum_of_squares
    rarest, below, height = 1 / least_probability(losses.n_arms, horizon), sizes.most_negative, sizes.heights.max()
    if below == 0:
        orders = 2 if by_arm else 1
        late = DRIFT * (orders * SHARE * cn + SHARE**2 * fall_of_rate(n)) * flights.weighted
        paid = {
            "steps": 2 * np.sqrt(SHARE / 2 * cn * squares + late),
            "open draws": SHARE * (most + 1) * height,
        }
    else:
        late = 2 * (1 + DRIFT + KAPPA) * flights.weighted
        paid = {
            "steps": 2 * np.sqrt(2 * cn * (SHARE * KAPPA * squares + late)),
            "open draws": (4 * most + SHARE) * height + 2 * n * most * below,
            "jumps": (9 * cn + rarest) * below,
        }
    times = 1 / np.longdouble(DRIFT) + np.log(np.longdouble(horizon)) / np.longdouble(core.rate)
    terms = {name: times * each for name, each in paid.items()}
    if below > 0:
        terms["clipping"] = REST * clipping() * rarest * below
    terms |= {"exploration": (n - 1) * sizes.spread * flights.floors, "comparator": sizes.spread}
    if isinstance(policy, Centred):
        terms["first arrival"] = sizes.spread
    return LateBound(terms, sum(paid.values()), flights)
