"""The round, written once: a simulation plays it in rounds of trials, on a processor and on a GPU.

Every round of every kind of simulation is `play_round`. What differs between kinds is filled in for its open names:
how an arm is picked, how regret is charged, and when the loss arrives; `KINDS` has them, and `umab.engine.kernels` says
how names are filled in. A processor plays many trials one after the other (`run`, or `run_in_pairs`, which is faster
if feedback is never late), and a thread of a GPU plays one (`play_trial`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from umab.engine.kernels import (
    OPEN,
    Advice,
    Drawn,
    Parameters,
    State,
    advised,
    close,
    distribution,
    flip,
    learn,
    load,
    load_parameters,
    note,
    store,
)
from umab.engine.layout import Buffer
from umab.engine.pcg import next_uniform
from umab.maths.eligible import drawn_among
from umab.maths.simplex import Vector, draw, rest_of

Kind = Literal["plain", "late", "among", "rows", "arms"]
"""What a simulation has beside losses: nothing; late feedback; arms that are away; or the advice of experts, as rows of
probabilities or as arms. The last three may have late feedback too."""

Whole: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Uniforms: TypeAlias = Buffer | Whole
"""Uniform numbers that were drawn in advance, or a generator."""


class Table(NamedTuple):
    """What all trials play on, in some rounds. A row belongs to a round."""

    losses: Buffer
    """What the policy sees, in all rounds."""
    costs: Buffer
    """What regret counts, in these rounds."""
    there: Bools
    """Which arms, or experts, count in these rounds, if not all do."""
    against: Buffer
    """What each has cost so far, inf before its first round; one column, of the best arm, if all always count."""
    advice: Buffer | Whole
    """What experts advise in these rounds."""
    first: int
    """The number of the first of these rounds."""
    expected: bool
    """Whether a round costs what its draw costs on average."""

    @classmethod
    def of(
        cls,
        losses: Buffer,
        costs: Buffer,
        against: Buffer,
        *,
        there: Bools | None = None,
        advice: Buffer | Whole | None = None,
        expected: bool = False,
    ) -> Table:
        """Return the table of all rounds, in arrays as compiled code expects them."""
        there = np.ones((1, 1), dtype=np.bool_) if there is None else there
        advice = np.zeros((1, 1), dtype=np.int64) if advice is None else advice
        arrays = losses, costs, there, np.asarray(against).reshape(len(costs), -1), advice
        return cls._make([*map(_readable, arrays), 0, bool(expected)])

    def rounds(self, piece: slice) -> Table:
        """Return the same for some of the rounds."""
        parts = (each[piece] for each in (self.costs, self.there, self.against, self.advice))
        return Table._make([self.losses, *parts, piece.start, self.expected])


class Rings(NamedTuple):
    """The open choices of trials, in rings with more places than the longest delay; they carry on to the next call.

    Round s has place s modulo their size. The rounds that fall due together form a list.
    """

    delays: Whole
    """Trials, or one for all, × rounds × arms, or one for all: by how many rounds a loss is late; −1 for ever."""
    probabilities: Buffer
    """Trials × places: the probability that the policy is told."""
    links: Whole
    """Trials × `N_LINKS` × places: what the constants below name."""
    tickets: Buffer
    """Trials × places × the size of a ticket."""
    blank: Buffer
    """A blank ticket."""

    @classmethod
    def of(cls, n_trials: int, blank: Buffer, delays: Whole) -> Rings:
        """Return empty rings."""
        size = max(0, int(delays.max())) + 1
        links = np.full((n_trials, N_LINKS, size), -1)
        return cls(_readable(delays), np.zeros((n_trials, size)), links, np.zeros((n_trials, size, len(blank))), blank)

    def rounds(self, piece: slice) -> Rings:
        """Return the same with the delays of some of the rounds."""
        return self._replace(delays=_readable(self.delays[:, piece]))


ARM, ACCOUNT, COIN, NEXT, FIRST, LAST, N_LINKS = range(7)
"""The arm that was drawn at a place, or `GONE` if its loss never comes; the one whose loss is learned; the coin; and
the next round of the same list (−1 for none). The first and last round of the list that is due when the place is next.
"""
GONE = -1


class Record(NamedTuple):
    """What trials leave: a row for each, and but for `spent` a column for each round."""

    spent: Buffer
    """What their choices have cost in the rounds in which each column of `Table.against` counts; it carries on."""
    regret: Buffer
    arms: npt.NDArray[np.int32]
    coins: npt.NDArray[np.int8]
    """No more than one column if the policy has no coin."""

    @classmethod
    def of(cls, spent: Buffer, n_rounds: int, *, coins: bool = False) -> Record:
        """Return a record to be filled in, after what was spent before."""
        shape = len(spent), n_rounds
        of_coins = np.empty((len(spent), n_rounds if coins else 1), dtype=np.int8)
        return cls(spent, np.empty(shape), np.empty(shape, dtype=np.int32), of_coins)


def _readable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that compiled code takes without being compiled anew."""
    found = np.ascontiguousarray(array).view()
    found.flags.writeable = False
    return found


# The open names of this file.
uniform_of: Callable[..., float] = OPEN  # `given_uniform` or `drawn_uniform`
advice_of: Callable[[Table, int], Advice] = OPEN  # `no_advice` or `advice_of_round`
pick: Callable[..., tuple[int, int, float, float, int]] = OPEN  # draws an arm
keep_coin: Callable[[Record, int, int], None] = OPEN  # `keep_no_coin` or `keep_each_coin`
charge: Callable[[Buffer, Vector, Table, int, int], float] = OPEN  # counts what a round costs; returns the regret
wait: Callable[..., State] = OPEN  # learns the loss of a round, at once or when it is due
due: Callable[[Parameters, State, int, int, Table, Rings], State] = OPEN  # learns the loss of a round that is due
play: Callable[..., tuple[State, int]] = OPEN  # `play_round`


def play_round(
    given: Parameters, state: State, t: int, used: int, uniforms: Uniforms, table: Table, rings: Rings, out: Record
) -> tuple[State, int]:
    """Play a round of a trial; return the next state, and how many uniform numbers were used so far.

    `rings` and `out` have the rows of the trial.
    """
    advice = advice_of(table, t)
    state = advised(given, state, *advice)
    (probabilities,) = distribution(state)
    arm, account, probability, rest, used = pick(probabilities, table, t, uniforms, used)
    drawn = Drawn(arm, account, probability, flip(given, state, account, rest))
    out.arms[t] = arm
    keep_coin(out, t, drawn.coin)
    out.regret[t] = charge(out.spent, probabilities, table, t, arm)
    return wait(given, state, t, drawn, advice, table, rings), used


def play_trial(
    n_arms: int, n_rounds: int, buffer: Buffer, uniforms: Uniforms, table: Table, rings: Rings, record: Record
) -> None:
    """Play some rounds of one trial.

    The state goes from round to round through its buffer, and not in a variable: else the compiler of a GPU loses track
    of where the vectors are and how long, and the loop takes twice as long.
    """
    given, used = load_parameters(buffer), 0
    for t in range(n_rounds):
        state, used = play(given, load(buffer, n_arms), t, used, uniforms, table, rings, record)
        store(state, buffer)


def run(buffers: Buffer, uniforms: Buffer, table: Table, rings: Rings, record: Record) -> None:
    """Play some rounds of some trials, one trial after the other; `buffers`, `rings` and `record.spent` carry on.

    A buffer holds the parameters of its trial, so trials may have different parameters.
    """
    n_rounds, n_arms = table.costs.shape
    for trial in range(buffers.shape[0]):
        own = of_trial(rings, trial), of_record(record, trial)
        play_trial(n_arms, n_rounds, buffers[trial], uniforms[trial], table, own[0], own[1])


def run_in_pairs(buffers: Buffer, uniforms: Buffer, table: Table, rings: Rings, record: Record) -> None:
    """Do what `run` does, with two trials that take turns, round by round.

    A round is a chain of divisions and roots that wait for each other; while one trial waits, the processor works on
    the other, which does not depend on it.
    """
    n_rounds, n_arms = table.costs.shape
    n_trials = buffers.shape[0]
    for trial in range(0, n_trials, 2):
        paired = trial + 1 < n_trials
        beside = trial + 1 if paired else trial
        given, other_given = load_parameters(buffers[trial]), load_parameters(buffers[beside])
        state, other = load(buffers[trial], n_arms), load(buffers[beside], n_arms)
        own, others = of_trial(rings, trial), of_trial(rings, beside)
        record_of, record_beside = of_record(record, trial), of_record(record, beside)
        for t in range(n_rounds):
            state, _ = play(given, state, t, t, uniforms[trial], table, own, record_of)
            if paired:
                other, _ = play(other_given, other, t, t, uniforms[beside], table, others, record_beside)
        store(state, buffers[trial])
        if paired:
            store(other, buffers[beside])


def of_trial(rings: Rings, trial: int) -> Rings:
    """Return the rings of a trial."""
    shared = rings.delays.shape[0] == 1
    delays = rings.delays[0 if shared else trial]
    return Rings(delays, rings.probabilities[trial], rings.links[trial], rings.tickets[trial], rings.blank)


def of_record(record: Record, trial: int) -> Record:
    """Return the rows of a trial."""
    return Record(record.spent[trial], record.regret[trial], record.arms[trial], record.coins[trial])


# What the open names stand for.


def given_uniform(uniforms: Buffer, at: int) -> float:
    """Return a uniform number that was drawn in advance."""
    return float(uniforms[at])


def drawn_uniform(generator: Whole, at: int) -> float:
    """Return the next uniform number of a generator."""
    return next_uniform(generator)


def no_advice(table: Table, t: int) -> Advice:
    """Return that nobody advises."""
    return ()


def unadvised(given: Parameters, state: State) -> State:
    """Leave the state as it is."""
    return state


def advice_of_round(table: Table, t: int) -> Advice:
    """Return the advice of a round."""
    return (table.advice[t],)


def keep_no_coin(record: Record, t: int, flipped: int) -> None:
    """Keep nothing."""


def keep_each_coin(record: Record, t: int, flipped: int) -> None:
    """Keep the coin of a round."""
    record.coins[t] = flipped


def draw_any(
    probabilities: Vector, table: Table, t: int, uniforms: Uniforms, used: int
) -> tuple[int, int, float, float, int]:
    """Draw one of all arms.

    Return it, the account of its loss, the probability of that account, what is left of the uniform number, and how
    many such numbers are used.
    """
    uniform = uniform_of(uniforms, used)
    arm = draw(probabilities, uniform)
    return arm, arm, probabilities[arm], rest_of(probabilities, uniform, arm), used + 1


def draw_there(
    probabilities: Vector, table: Table, t: int, uniforms: Uniforms, used: int
) -> tuple[int, int, float, float, int]:
    """Draw one of the arms that are there, with two uniform numbers if they are not all."""
    n_arms, n_there = len(probabilities), 0
    for k in range(n_arms):
        n_there += 1 if table.there[t, k] else 0
    if n_there == n_arms:
        return draw_any(probabilities, table, t, uniforms, used)
    uniform, other = uniform_of(uniforms, used), uniform_of(uniforms, used + 1)
    arm, _, account, probability, rest = drawn_among(probabilities, table.there[t], uniform, other)
    return arm, account, probability, rest, used + 2


def cost_of(total: float, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Return the total plus the cost of a round: the cost of the arm, or the expected cost."""
    if table.expected:
        for k in range(len(probabilities)):
            total += probabilities[k] * table.costs[t, k]
        return total
    return float(total + table.costs[t, arm])


def cost_among(probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Return what a draw among the arms that are there costs: the arm, or on average."""
    if not table.expected:
        return float(table.costs[t, arm])
    n_arms, n_there, there = len(probabilities), 0, 0.0
    for k in range(n_arms):
        if table.there[t, k]:
            n_there += 1
            there += probabilities[k]
    cost = 0.0
    for k in range(n_arms):
        if table.there[t, k]:
            if n_there == n_arms:
                share = probabilities[k]
            else:
                share = probabilities[k] / there if there > 0.0 else 1.0 / n_there
            cost += share * table.costs[t, k]
    return cost


def charge_best(spent: Buffer, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Count the cost of a round; return the regret against the best arm."""
    spent[0] = cost_of(spent[0], probabilities, table, t, arm)
    return float(spent[0] - table.against[t, 0])


def charge_there(spent: Buffer, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Count the cost of a round for the arms that are there; return the largest regret against one."""
    return charge_each(spent, cost_among(probabilities, table, t, arm), table, t)


def charge_awake(spent: Buffer, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Count the cost of a round for the experts who give advice; return the largest regret against one."""
    return charge_each(spent, cost_of(0.0, probabilities, table, t, arm), table, t)


def charge_each(spent: Buffer, cost: float, table: Table, t: int) -> float:
    """Add a cost to what was spent while each of those who count now did; return the largest regret against one."""
    largest = -math.inf
    for k in range(len(spent)):
        if table.there[t, k]:
            spent[k] += cost
        largest = max(largest, spent[k] - table.against[t, k])
    return largest


def learn_at_once(
    given: Parameters, state: State, t: int, drawn: Drawn, advice: Advice, table: Table, rings: Rings
) -> State:
    """Learn the loss of a round in that round."""
    room = rings.tickets[0]
    state = note(given, state, drawn.account, advice, room, rings.blank)
    return learn(given, state, drawn, table.losses[table.first + t], room)


def learn_when_due(
    given: Parameters, state: State, t: int, drawn: Drawn, advice: Advice, table: Table, rings: Rings
) -> State:
    """Keep an open choice until its loss is due, and learn all losses that are due now."""
    links, size, now = rings.links, rings.links.shape[1], table.first + t
    place = now % size
    rings.probabilities[place] = drawn.probability
    state = note(given, state, drawn.account, advice, rings.tickets[place], rings.blank)
    delay = rings.delays[t, min(drawn.arm, rings.delays.shape[1] - 1)]
    links[ARM, place] = drawn.arm if delay >= 0 else GONE
    links[ACCOUNT, place], links[COIN, place] = drawn.account, drawn.coin
    s = line_up(links, now, max(delay, 0))
    while s >= 0:
        state = due(given, state, s, s % size, table, rings)
        s = links[NEXT, s % size]
    return state


def learn_due(given: Parameters, state: State, s: int, at: int, table: Table, rings: Rings) -> State:
    """Learn the loss of round `s`, whose choice is at this place, or close that choice without one."""
    links, room = rings.links, rings.tickets[at]
    drawn = Drawn(links[ARM, at], links[ACCOUNT, at], rings.probabilities[at], links[COIN, at])
    if drawn.arm == GONE:
        return close(given, state, drawn, room)
    return learn(given, state, drawn, table.losses[s], room)


def line_up(links: Whole, now: int, delay: int) -> int:
    """Let the round `now` fall due after a delay; return the first round of the list that falls due now, −1 for none.

    The list is emptied; the links from round to round in it stay.
    """
    size = links.shape[1]
    place, at = now % size, (now + delay) % size
    links[NEXT, place] = -1
    if links[FIRST, at] < 0:
        links[FIRST, at] = now
    else:
        links[NEXT, links[LAST, at] % size] = now
    links[LAST, at] = now
    first = links[FIRST, place]
    links[FIRST, place] = -1
    return int(first)


KINDS: dict[Kind, tuple[Callable[..., object], ...]] = {
    "plain": (draw_any, charge_best, learn_at_once),
    "late": (draw_any, charge_best, learn_when_due),
    "among": (draw_there, charge_there, learn_when_due),
    "rows": (draw_any, charge_awake, learn_when_due),
    "arms": (draw_any, charge_awake, learn_when_due),
}
"""How a kind of simulation picks arms, charges regret and waits for losses."""
