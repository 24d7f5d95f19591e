"""All that is compiled beside a policy: the steps of a round, and the loops and kernels that take them.

A kernel is compiled once for each type of policy: the compiler copies it and fills in its open names with functions.
`umab.engine.assembly` says with which: functions of the policy itself, steps in this file, and those for buffers that
`umab.engine.buffers` makes. Nothing here depends on the compiler.

Every round of every kind of simulation is `play_round`. What differs between kinds is how an arm is picked, how regret
is charged, and when the loss arrives; `KINDS` has that. A processor plays many trials one after the other (`run`, or
`run_in_pairs`, which is faster if feedback is never late), and a thread of a GPU plays one (`play_trial`). A learner
calls a kernel for each draw and for each loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import HasProbabilities
from umab.engine.layout import Buffer
from umab.engine.pcg import next_uniform
from umab.maths.eligible import drawn_among
from umab.maths.simplex import Vector, draw, rest_of

State: TypeAlias = HasProbabilities
Parameters: TypeAlias = object
Ticket: TypeAlias = object
"""Parameters and tickets belong to the policy; here they are only passed on."""
Advice: TypeAlias = tuple[npt.NDArray[np.float64] | npt.NDArray[np.int64], ...]
"""What experts advise in a round, for a policy over experts; empty for any other."""

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


class Drawn(NamedTuple):
    """A draw whose loss is not learned yet."""

    arm: int
    account: int
    """The arm whose loss is learned, which need not be the one that was drawn."""
    probability: float
    """That of the account."""
    coin: int


OPEN: Any = None
"""The value of an open name, until a function takes its place."""

update: Callable[..., State] = OPEN  # the update of the policy
credited: Callable[..., State] = OPEN  # replaces `update` if a loss goes to the account of another arm than that drawn
update_full: Callable[..., State] = OPEN  # the update of a policy with full information
selected: Callable[[Parameters, State, int], State] = OPEN  # what the policy notes when an arm is drawn
remember: Callable[..., Ticket] = OPEN  # what the policy puts into the ticket of a draw
advised: Callable[..., State] = OPEN  # what a policy over experts makes of the advice of a round
closed: Callable[..., State] = OPEN  # what the policy makes of a draw that is closed without a loss
coin: Callable[[Parameters, State, int], float] = OPEN  # how likely the coin of a draw shows 1
# The probabilities in a state, as a tuple: without reference counts no vector can be returned.
distribution: Callable[[State], tuple[Vector]] = OPEN
load_parameters: Callable[[Buffer], Parameters] = OPEN  # reads the parameters from a buffer
load: Callable[[Buffer, int], State] = OPEN  # reads a state from a buffer; its vectors are views of the buffer
store: Callable[[State, Buffer], None] = OPEN  # writes the scalars of a state back to its buffer
load_ticket: Callable[[Buffer, int], Ticket] = OPEN  # the same two for tickets
store_ticket: Callable[[Ticket, Buffer], None] = OPEN
told: Callable[[Buffer, int, int], tuple[object, ...]] = OPEN  # `nothing_told`, `ticket_told`, `coin_told`, `both_told`
flip: Callable[[Parameters, State, int, float], int] = OPEN  # `no_coin` or `flip_coin`
note: Callable[[Parameters, State, int, Advice, Buffer, Buffer], State] = OPEN  # `note_draw` or `note_in_ticket`
learn: Callable[..., State] = OPEN  # `learn_loss`, `learn_loss_apart` or `learn_all_losses`
close: Callable[..., State] = OPEN  # `close_draw` or `close_nothing`
uniform_of: Callable[..., float] = OPEN  # `given_uniform` or `drawn_uniform`
heed: Callable[[Parameters, State, Table, int], tuple[State, Advice]] = OPEN  # `heed_nobody` or `heed_experts`
pick: Callable[..., tuple[int, int, float, float, int]] = OPEN  # draws an arm
cost_of: Callable[[float, Vector, Table, int, int], float] = OPEN  # adds what a round costs to a total
charge: Callable[[Buffer, Vector, Table, int, int], float] = OPEN  # counts what a round costs; returns the regret
wait: Callable[..., State] = OPEN  # learns the loss of a round, at once or when it is due


# The steps of a round. If the policy has tickets, `room` is the place for the ticket of a draw, and `blank` is what the
# place holds before the draw.


def note_draw(given: Parameters, state: State, arm: int, advice: Advice, room: Buffer, blank: Buffer) -> State:
    """Note that an arm was drawn."""
    return selected(given, state, arm)


def note_in_ticket(given: Parameters, state: State, arm: int, advice: Advice, room: Buffer, blank: Buffer) -> State:
    """Note that an arm was drawn, and fill in the ticket of the draw."""
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(given, state, arm, *advice, load_ticket(room, len(probabilities))), room)
    return selected(given, state, arm)


# What the policy is told beside a loss.


def nothing_told(room: Buffer, n_arms: int, flipped: int) -> tuple[()]:
    """Return nothing."""
    return ()


def ticket_told(room: Buffer, n_arms: int, flipped: int) -> tuple[Ticket]:
    """Return the ticket of the draw."""
    return (load_ticket(room, n_arms),)


def coin_told(room: Buffer, n_arms: int, flipped: int) -> tuple[int]:
    """Return the coin of the draw."""
    return (flipped,)


def both_told(room: Buffer, n_arms: int, flipped: int) -> tuple[Ticket, int]:
    """Return both."""
    return load_ticket(room, n_arms), flipped


def no_coin(given: Parameters, state: State, account: int, rest: float) -> int:
    """Return that there is no coin."""
    return -1


def flip_coin(given: Parameters, state: State, account: int, rest: float) -> int:
    """Return the coin of a draw, from what is left of its uniform number."""
    return 1 if rest < coin(given, state, account) else 0


def learn_loss(given: Parameters, state: State, drawn: Drawn, losses: Vector, room: Buffer) -> State:
    """Learn from the loss of the arm that was drawn, in a round in which the arms cost `losses`."""
    (probabilities,) = distribution(state)
    more = told(room, len(probabilities), drawn.coin)
    return update(given, state, drawn.account, losses[drawn.arm], drawn.probability, *more)


def learn_loss_apart(given: Parameters, state: State, drawn: Drawn, losses: Vector, room: Buffer) -> State:
    """Do the same, and tell the policy if the arm that was drawn is not the account."""
    (probabilities,) = distribution(state)
    more = told(room, len(probabilities), drawn.coin)
    if drawn.account == drawn.arm:
        return update(given, state, drawn.account, losses[drawn.arm], drawn.probability, *more)
    return credited(given, state, drawn.account, losses[drawn.arm], drawn.probability, drawn.arm, *more)


def learn_all_losses(given: Parameters, state: State, drawn: Drawn, losses: Vector, room: Buffer) -> State:
    """Learn from the losses of all arms."""
    return update_full(given, state, losses)


def close_nothing(given: Parameters, state: State, drawn: Drawn, room: Buffer) -> State:
    """Leave the state as it is: the policy need not know which draws were closed without a loss."""
    return state


def close_draw(given: Parameters, state: State, drawn: Drawn, room: Buffer) -> State:
    """Tell the policy that a draw was closed without a loss."""
    (probabilities,) = distribution(state)
    return closed(given, state, drawn.account, drawn.probability, *told(room, len(probabilities), drawn.coin))


def given_uniform(uniforms: Buffer, at: int) -> float:
    """Return a uniform number that was drawn in advance."""
    return float(uniforms[at])


def drawn_uniform(generator: Whole, at: int) -> float:
    """Return the next uniform number of a generator."""
    return next_uniform(generator)


def heed_nobody(given: Parameters, state: State, table: Table, t: int) -> tuple[State, Advice]:
    """Leave the state as it is: nobody advises."""
    return state, ()


def heed_experts(given: Parameters, state: State, table: Table, t: int) -> tuple[State, Advice]:
    """Return the state after the advice of a round, and the advice."""
    advice = table.advice[t]
    return advised(given, state, advice), (advice,)


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


def cost_of_any(total: float, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Return the total plus the cost of a round: the cost of the arm, or the expected cost."""
    if table.expected:
        for k in range(len(probabilities)):
            total += probabilities[k] * table.costs[t, k]
        return total
    return float(total + table.costs[t, arm])


def cost_of_there(total: float, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Do the same for a draw among the arms that are there."""
    if not table.expected:
        return float(total + table.costs[t, arm])
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
    return total + cost


def charge_best(spent: Buffer, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Count the cost of a round; return the regret against the best arm."""
    spent[0] = cost_of(spent[0], probabilities, table, t, arm)
    return float(spent[0] - table.against[t, 0])


def charge_each(spent: Buffer, probabilities: Vector, table: Table, t: int, arm: int) -> float:
    """Count the cost of a round for those who count now, arms or experts; return the largest regret against one."""
    cost, largest = cost_of(0.0, probabilities, table, t, arm), -math.inf
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
    delay = rings.delays[now, min(drawn.arm, rings.delays.shape[1] - 1)]
    links[ARM, place] = drawn.arm if delay >= 0 else GONE
    links[ACCOUNT, place], links[COIN, place] = drawn.account, drawn.coin
    s = line_up(links, now, max(delay, 0))
    while s >= 0:
        state = learn_due(given, state, s, s % size, table, rings)
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
    "plain": (draw_any, cost_of_any, charge_best, learn_at_once),
    "late": (draw_any, cost_of_any, charge_best, learn_when_due),
    "among": (draw_there, cost_of_there, charge_each, learn_when_due),
    "rows": (draw_any, cost_of_any, charge_each, learn_when_due),
    "arms": (draw_any, cost_of_any, charge_each, learn_when_due),
}
"""How a kind of simulation picks arms, what a round costs, how regret is charged, and when losses are learned."""


def play_round(
    given: Parameters, state: State, t: int, used: int, uniforms: Uniforms, table: Table, rings: Rings, out: Record
) -> tuple[State, int]:
    """Play a round of a trial; return the next state, and how many uniform numbers were used so far.

    `rings` and `out` have the rows of the trial.
    """
    state, advice = heed(given, state, table, t)
    (probabilities,) = distribution(state)
    arm, account, probability, rest, used = pick(probabilities, table, t, uniforms, used)
    drawn = Drawn(arm, account, probability, flip(given, state, account, rest))
    out.arms[t] = arm
    if drawn.coin >= 0:
        out.coins[t] = drawn.coin
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
        state, used = play_round(given, load(buffer, n_arms), t, used, uniforms, table, rings, record)
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
            state, _ = play_round(given, state, t, t, uniforms[trial], table, own, record_of)
            if paired:
                other, _ = play_round(other_given, other, t, t, uniforms[beside], table, others, record_beside)
        store(state, buffers[trial])
        if paired:
            store(other, buffers[beside])


def of_trial(rings: Rings, trial: int) -> Rings:
    """Return the rings of a trial. If all trials have the same delays, they are there once."""
    shared = rings.delays.shape[0] == 1
    delays = rings.delays[0 if shared else trial]
    return Rings(delays, rings.probabilities[trial], rings.links[trial], rings.tickets[trial], rings.blank)


def of_record(record: Record, trial: int) -> Record:
    """Return the rows of a trial."""
    return Record(record.spent[trial], record.regret[trial], record.arms[trial], record.coins[trial])


# The kernels for one decision at a time. Their types are what compiled code is made for. Most policies have neither
# tickets nor coins, and a call with fewer arguments is faster.


def select(buffer: Buffer, n_arms: int, uniform: float, arm: int) -> tuple[int, float]:
    """Draw an arm, unless one is given; return it and its probability."""
    state = load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(selected(load_parameters(buffer), state, arm), buffer)
    return arm, probability


def take_in(buffer: Buffer, n_arms: int, arm: int, loss: float, probability: float, select_first: bool) -> None:
    """Learn from the loss of an arm, which is selected first if asked for."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = selected(given, state, arm)
    store(update(given, state, arm, loss, probability), buffer)


def select_noted(buffer: Buffer, n_arms: int, uniform: float, arm: int, room: Buffer) -> tuple[int, float, int]:
    """Select as `select` does, fill in the ticket, and flip a coin; `room` is empty if the policy has no tickets.

    If an arm is given, `uniform` is what is left of the number that it was drawn with.
    """
    given, state = load_parameters(buffer), load(buffer, n_arms)
    (probabilities,) = distribution(state)
    rest = uniform
    if arm < 0:
        arm = draw(probabilities, uniform)
        rest = rest_of(probabilities, uniform, arm)
    probability, flipped = probabilities[arm], flip(given, state, arm, rest)
    store(note(given, state, arm, (), room, room), buffer)
    return arm, probability, flipped


def take_in_noted(
    buffer: Buffer, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Buffer, coin: int
) -> None:
    """Learn as `take_in` does, with the ticket and the coin of the draw."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = note(given, state, arm, (), room, room)
    store(update(given, state, arm, loss, probability, *told(room, n_arms, coin)), buffer)


def select_advised(buffer: Buffer, n_arms: int, uniform: float, advice: Buffer, room: Buffer) -> tuple[int, float]:
    """Draw an arm by the advice of experts, and fill in the ticket of the draw."""
    given = load_parameters(buffer)
    state = advised(given, load(buffer, n_arms), advice)
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(note(given, state, arm, (advice,), room, room), buffer)
    return arm, probability


def take_in_apart(
    buffer: Buffer, n_arms: int, account: int, loss: float, probability: float, arm: int, room: Buffer, coin: int
) -> None:
    """Learn from the loss of an arm on the account of another one; `room` is empty if the policy has no tickets."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    store(credited(given, state, account, loss, probability, arm, *told(room, n_arms, coin)), buffer)


def give_up(buffer: Buffer, n_arms: int, account: int, probability: float, room: Buffer, coin: int) -> None:
    """Close a draw without a loss; `room` is empty if the policy has no tickets."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    store(closed(given, state, account, probability, *told(room, n_arms, coin)), buffer)
