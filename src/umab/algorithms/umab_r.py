"""UMAB-R, an optimist on the means of its draws, which pauses an arm that fails and looks whether it returns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from umab._support.checks import LARGEST
from umab.algorithms.base import NoParameters, Pause, Policy
from umab.algorithms.limits import ANY, COUNT, FLAG, LEVEL, POSITIVE_SUMS, RATE, ROUND, SUMS, UNIT, Limits, within
from umab.algorithms.umab_s import exploration_rate
from umab.maths import simplex
from umab.maths.level import Level, above, followed, moves, no_level
from umab.maths.level import within as as_loss
from umab.maths.numerics import FINEST_UNIT, fit_unit
from umab.maths.ranks import n_cells, note, ranked
from umab.maths.simplex import FixedVector, Rows, Vector

OPTIMISM, UNKNOWN = 0.4, 2.0
"""The bonus of an arm is `OPTIMISM` · s √(2u ln t) (1 + `UNKNOWN` · u), where u is 1 after its first loss."""
FORGETTING = 10.0**-3.75
"""By how much u grows in every round in the memory that forgets."""
CLEARLY = 3.0
"""The memory that forgets is used if its predictions have been likelier by this, in logarithms."""

CURIOSITY, CURIOUS = 4.0 / 3.0, 2000.0
"""No probability is below `CURIOSITY` · ρ_t t/(t + `CURIOUS`), unless the arm is far worse."""
LEAST_SHARE = 1.0 / 8.0
"""The floor of an arm that is far worse falls with the gap, down to this share of it."""

FAR = 8.0
"""A loss so many standard deviations above the mean of its arm begins a suspicion."""
EXTREMES = 0.2
"""The bet on ranks: a rank p among the earlier losses of an arm counts `EXTREMES` · p^(`EXTREMES` − 1)."""
SURE = 3.0
"""The logarithm of the evidence at which a suspicion is taken for a change."""
LEAST_SEEN = 8.0
"""Ranks are looked at from so many losses on."""
MOST_SUSPECTED = 4
"""A suspicion that is not sure after so many losses is dropped."""
WAIT = 64.0
"""A probe comes at the latest after as many rounds as the pause has lasted, and so many more."""
USUAL = 0.05
"""A probe ends a pause if at least this share of the earlier losses is as large."""
LATEST = 16.0
"""The mean of an arm that fails is that of so many latest losses, roughly."""

LOW = 0.2
"""A loss gives an arm `LOOKS` more draws if it is below the best mean, and below most of its own earlier losses."""
LOOKS = 2.0

PATIENCE = 32.0
"""For how many rounds in a row the level must move, or not move, before losses are measured from it, or no longer."""
CLIPPED = 3.0
"""A loss that is measured from the level counts as at most so many standard deviations away from it."""

N_MARKS = 64
N_EARLY, PATIENT = 64, 1.25
"""How many losses of an arm wait, at most, for those of its earlier draws, and for how many rounds, as a multiple of
the number of open draws, which is what losses are late by on average."""

KEPT, RECENT, FAILING, SUSPECT, BETTER, HELD = range(6)
LOGARITHMS, EVIDENCE = HELD + MOST_SUSPECTED, HELD + MOST_SUSPECTED + 1
"""What `State.values` holds for each arm: the means of both memories, that of its failure, those of a suspected
failure and of a suspected improvement, the losses held back; Σ ln((1 + u')/(1 + u)), for u' and u of both memories, and
by how much the memory that forgets was less likely."""
(
    SEEN,
    N,
    KEPT_U,
    RECENT_U,
    KEPT_SQUARES,
    RECENT_SQUARES,
    UP,
    N_UP,
    DOWN,
    N_DOWN,
    TO_LOOK,
    N_FAILED,
    SINCE,
    PROBE,
    TRIED,
    DRAWN,
    NEXT,
    WAITING,
    THINNED,
    N_RANKED,
    OPEN,
) = range(21)
"""What `State.records` holds for each arm: the size of its history; the number of losses in its means; for each memory
u and Σ r²/(1 + u); evidence and number of losses of a suspected failure, and of an improvement; how many looks are
left; how many losses its pause has seen, 0 if there is none, since when, and the round of the next probe; 1 if it was
drawn since the start; how often it was drawn; the draw whose turn is next, how many later ones wait, and how often
they were too many; how many losses are in Σ r²/(1 + u); how many draws are open."""
NO_LOSS = -1.0
"""In place of the round of a draw: it was closed."""
SQUARES, NUMBER = 0, 1
"""What `State.noise` holds: Σ r²/(1 + u) of all arms, and the number of its terms."""


class State(NamedTuple):
    """What is known of each arm. Means are in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector
    level: Level
    values: Rows
    records: Rows
    marks: Rows  # the history of each arm, see `umab.maths.ranks`
    counts: Rows
    early: Rows  # losses that wait for their turn, the one with the last turn first
    turns: Rows  # which draw each is of
    rounds: Rows  # in which round; −1 if the draw was closed
    noise: FixedVector
    unit: float  # multiplier from losses to the unit of the means
    round: float  # t
    forgets: float  # 1 if the memory that forgets is used
    local: float  # 1 if losses are measured from the moving level
    waited: float  # for how many rounds in a row it should have been otherwise


class Ticket(NamedTuple):
    """What is remembered about a draw."""

    turn: float  # how often the arm had been drawn before; −1 in a blank ticket
    round: float  # t


@dataclass(frozen=True, kw_only=True)
class UMABR(Policy[State, NoParameters]):
    """UMAB-R ("returns"), for losses of any size, sign and offset in services, where arms fail and return; scale-free.

    It has no bound by itself. It draws the arm with the smallest index

        m_k − 0.4 s √(2 u_k ln t) (1 + 2 u_k),

    where m_k is a mean of the arm's own losses, s² the variance around such means, and u_k = 1/number of losses.

    - Two memories. In the second one u grows by 10^−3.75 in every round, so that the mean forgets, and arms that were
      not drawn for long become unknown again. That one is used if its predictions have clearly been likelier.
    - Failures. Losses far above the mean are held back from it. If several in a row are also large among the earlier
      losses of the arm, it is paused: its mean stays as it was, and its index has the mean of the failing losses. It is
      probed after min(√(2Ec/g), E + 64) rounds, E rounds after the beginning, if a failing loss costs c more than the
      best other mean, and the arm cost g less before. A loss like those before ends the pause.
    - Looks. No arm has a smaller probability than (4/3) ρ_t t/(t + 2000) min(1, √(s/gap)), where ρ_t is that of
      `UMABS`, and the last factor is at least 1/8. A loss that is low for its arm and below the best mean gives two
      more draws; if they are low too, their mean replaces the one of the arm.
    - The level. Where all losses move together, they are measured from a moving mean, as in `LocallyCentred`.

    With late feedback, losses of an arm count in the order of its draws, so that the order of arrival is not taken for
    a change: one that arrives early waits for earlier ones, for 1.25 times as many rounds as draws are open, and one
    that comes after its turn is only averaged. At most 64 losses of an arm wait; if they are more, only every second
    draw of it counts. In the bonus, open draws count as if their losses were there.

    Guarantee
    ---------
    None. That it is good where services are is measured: docs/suite-service.md.

    References
    ----------
    From this project. The index is that of UCB (Auer, Cesa-Bianchi and Fischer, Finite-time Analysis of the Multiarmed
    Bandit Problem, Machine Learning 2002), with a smaller bonus; the memory that forgets is a Kalman filter.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABR(), arms=3)
    >>> for arm, loss in [(0, 1000.5), (1, 999.0), (2, 1001.0)]:
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0., 1., 0.])
    """

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True
    needs_ticket: ClassVar[bool] = False

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing known."""
        return State(
            probabilities=simplex.uniform(n_arms),
            level=no_level(),
            values=[[0.0] * (EVIDENCE + 1) for _ in range(n_arms)],
            records=[[0.0] * (OPEN + 1) for _ in range(n_arms)],
            marks=[[0.0] * N_MARKS for _ in range(n_arms)],
            counts=[[0.0] * n_cells(N_MARKS) for _ in range(n_arms)],
            early=[[0.0] * (N_EARLY + 2) for _ in range(n_arms)],
            turns=[[0.0] * (N_EARLY + 2) for _ in range(n_arms)],
            rounds=[[0.0] * (N_EARLY + 2) for _ in range(n_arms)],
            noise=[0.0, 0.0],
            unit=FINEST_UNIT,
            round=1.0,
            forgets=0.0,
            local=0.0,
            waited=0.0,
        )

    def ticket(self, n_arms: int) -> Ticket:
        """Return a blank ticket."""
        return Ticket(turn=-1.0, round=0.0)

    @staticmethod
    def remember(parameters: NoParameters, state: State, arm: int, ticket: Ticket) -> Ticket:
        """Remember the turn of a draw."""
        return Ticket(turn=state.records[arm][DRAWN], round=state.round)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`; losses that are only compared may be any numbers."""
        return {
            **within("level", LEVEL),
            "values": SUMS,
            "records": RATE,
            "marks": ANY,
            "counts": COUNT,
            "early": ANY,
            "turns": Limits(-1.0, 2.0**53, whole=True),
            "rounds": Limits(-1.0, 2.0**53, whole=True),
            "noise": POSITIVE_SUMS,
            "unit": UNIT,
            "round": ROUND,
            "forgets": FLAG,
            "local": FLAG,
            "waited": COUNT,
        }

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """Of the fields of `Ticket`."""
        return {"turn": Limits(-1.0, 2.0**53, whole=True), "round": COUNT}

    def fault(self, state: State, tickets: Sequence[Any]) -> str | None:
        """Find counts that no run leaves, by which code would look for what is not there."""
        broken = {KEPT_U, RECENT_U, KEPT_SQUARES, RECENT_SQUARES, UP, DOWN}
        most = {N_UP: MOST_SUSPECTED + 1.0, TO_LOOK: LOOKS, TRIED: 1.0, WAITING: N_EARLY, THINNED: 52.0, KEPT_U: 1.0}
        for counts, record, values, turns in zip(state.counts, state.records, state.values, state.turns, strict=True):
            if any(COUNT.fault("", [record[each]], 0.0) for each in range(len(record)) if each not in broken):
                return f"records must hold whole numbers where they count, but got {record!r}"
            if any(record[at] > highest for at, highest in most.items()):
                return f"records must hold counts up to their limits, but got {record!r}"
            waiting = turns[: int(record[WAITING])]
            if min(waiting, default=0.0) < 0.0 or any(one <= other for one, other in pairwise(waiting)):
                return f"turns must fall where losses wait, but got {waiting!r}"
            if max(record) > 2.0**100 or max(map(abs, values[:LOGARITHMS])) > 8.0:
                return f"records and values must not be that large, but got {record!r} and {values!r}"
            if record[SEEN] >= N_MARKS and math.fsum(counts) != record[SEEN]:
                return f"counts must sum to the {record[SEEN]:.0f} losses in records, but got {math.fsum(counts):.0f}"
        return None

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Resize the rows; a new arm is unknown, so it is drawn next."""
        resized: State = super().resized(state, arms)
        _choose(resized.probabilities, resized, resized.unit, resized.round, resized.forgets)
        return resized

    def pauses(self, state: State) -> list[Pause]:
        """Return the arms that are paused."""
        return [
            Pause(arm=arm, round=int(record[SINCE]), probe_in=max(0, int(record[PROBE] - state.round)))
            for arm, record in enumerate(state.records)
            if record[N_FAILED] > 0.0
        ]

    @staticmethod
    def selected(parameters: NoParameters, state: State, arm: int) -> State:
        """Count a draw; if it was a look, find the next distribution, as its loss may not arrive before it."""
        record = state.records[arm]
        record[DRAWN] += 1.0
        record[OPEN] += 1.0
        due = record[N_FAILED] > 0.0 and record[PROBE] <= state.round
        if due:
            _schedule(state, arm, state.round, state.forgets)
        if due or record[TO_LOOK] > 0.0 or record[TRIED] == 0.0:
            record[TO_LOOK], record[TRIED] = max(0.0, record[TO_LOOK] - 1.0), 1.0
            _choose(state.probabilities, state, state.unit, state.round, state.forgets)
        return state

    @staticmethod
    def update(  # type: ignore[override]
        parameters: NoParameters, state: State, arm: int, loss: float, probability: float, ticket: Ticket
    ) -> State:
        """Learn from one loss and find the next distribution."""
        return _learned(state, arm, loss, ticket.turn, ticket.round)

    @staticmethod
    def credited(
        parameters: NoParameters,
        state: State,
        account: int,
        loss: float,
        probability: float,
        arm: int,
        ticket: Ticket,
    ) -> State:
        """Learn from a loss of the arm that was drawn, which is not the one that was counted as drawn."""
        _close(state, account, ticket.turn)
        return _learned(state, arm, loss, -1.0, 0.0) if arm >= 0 else state

    @staticmethod
    def closed(parameters: NoParameters, state: State, arm: int, probability: float, ticket: Ticket) -> State:
        """Wait no longer for the loss of a draw."""
        _close(state, arm, ticket.turn)
        return state


def _learned(state: State, arm: int, loss: float, turn: float, drawn_in: float) -> State:
    """Return the state after a loss of an arm whose draw had this turn, −1 if that is not known, in this round."""
    level, round = state.level, state.round
    moving, local, waited = moves(level), state.local, state.waited
    waited = waited + 1.0 if (local == 1.0) != moving else 0.0
    if waited >= PATIENCE:
        local, waited = 1.0 - local, 0.0
        _start_again(state)
    noise = state.noise
    unit = state.unit
    if local == 1.0:
        distance = above(level, loss, True)
        if noise[NUMBER] > LEAST_SEEN and noise[SQUARES] > 0.0:
            most = CLIPPED * math.sqrt(noise[SQUARES] / noise[NUMBER]) / unit
            distance = max(-most, min(most, distance))
    else:
        distance = as_loss(loss - level.origin) if level.n_losses > 0.0 else 0.0
    unit, shrink = fit_unit(unit, distance)
    if shrink != 1.0:
        _rescale(state, shrink)
    for record in state.records:
        if record[N] > 0.0:
            record[RECENT_U] += FORGETTING
    record, at_once = state.records[arm], turn < 0.0
    if not at_once:
        record[OPEN] = max(0.0, record[OPEN] - 1.0)
        if record[N_FAILED] > 0.0 and turn > record[NEXT]:  # it tells whether the arm is back
            at_once = True
            if _counts(record, turn):
                _insert(state, arm, 0.0, turn, NO_LOSS)
    if at_once or _counts(record, turn):
        _insert(state, arm, distance, -1.0 if at_once else turn, round if at_once else drawn_in)
    n_open = 0.0
    for each in state.records:
        n_open += each[OPEN]
    for k in range(len(state.records)):
        if state.records[k][WAITING] > 0.0:
            _proceed(state, k, unit, PATIENT * n_open)
    evidence = CLEARLY
    for values in state.values:
        evidence += values[EVIDENCE]
    forgets = 1.0 if evidence < 0.0 else 0.0
    t = round + 1.0
    _choose(state.probabilities, state, unit, t, forgets)
    return State(
        probabilities=state.probabilities,
        level=followed(level, loss),
        values=state.values,
        records=state.records,
        marks=state.marks,
        counts=state.counts,
        early=state.early,
        turns=state.turns,
        rounds=state.rounds,
        noise=noise,
        unit=unit,
        round=t,
        forgets=forgets,
        local=local,
        waited=waited,
    )


def _rescale(state: State, shrink: float) -> None:
    """Convert means and sums of squares to a new unit."""
    for k in range(len(state.values)):
        values, record = state.values[k], state.records[k]
        for at in range(LOGARITHMS):
            values[at] *= shrink
        record[KEPT_SQUARES] *= shrink * shrink
        record[RECENT_SQUARES] *= shrink * shrink
    state.noise[SQUARES] *= shrink * shrink


def _start_again(state: State) -> None:
    """Forget all arms, as losses are measured from another origin; but not which memory is better, nor the noise."""
    for k in range(len(state.values)):
        values, record = state.values[k], state.records[k]
        drawn, n_open = record[DRAWN], record[OPEN]
        for at in range(LOGARITHMS):
            values[at] = 0.0
        values[LOGARITHMS] = values[EVIDENCE]
        for at in range(len(record)):
            record[at] = 0.0
        record[DRAWN], record[NEXT], record[OPEN] = drawn, drawn, n_open
    if state.noise[NUMBER] > 0.0:
        state.noise[SQUARES], state.noise[NUMBER] = state.noise[SQUARES] / state.noise[NUMBER], 1.0


# In which order losses count.


def _counts(record: Vector, turn: float) -> bool:
    """Whether the loss of this draw counts: not all do while too many wait."""
    return turn < 0.0 or turn % 2.0 ** record[THINNED] == 0.0


def _insert(state: State, arm: int, distance: float, turn: float, drawn_in: float) -> None:
    """Add a draw to those that wait; if they are too many, only every second draw counts from now on."""
    record, early, turns, rounds = state.records[arm], state.early[arm], state.turns[arm], state.rounds[arm]
    at = min(int(record[WAITING]), len(early) - 1)
    while at > 0 and turns[at - 1] < turn:
        early[at], turns[at], rounds[at] = early[at - 1], turns[at - 1], rounds[at - 1]
        at -= 1
    early[at], turns[at], rounds[at] = distance, turn, drawn_in
    record[WAITING] += 1.0
    while record[WAITING] > N_EARLY:
        record[THINNED] += 1.0
        record[NEXT] = math.ceil(record[NEXT] / 2.0 ** record[THINNED]) * 2.0 ** record[THINNED]
        left = 0
        for each in range(int(record[WAITING])):
            if _counts(record, turns[each]):
                early[left], turns[left], rounds[left] = early[each], turns[each], rounds[each]
                left += 1
        record[WAITING] = float(left)


def _proceed(state: State, arm: int, unit: float, patience: float) -> None:
    """Consider the losses whose turn it is, or that have waited long enough."""
    record, early, turns, rounds = state.records[arm], state.early[arm], state.turns[arm], state.rounds[arm]
    waits = record[WAITING] > 0.0
    while waits:
        at = int(record[WAITING]) - 1
        waits = turns[at] <= record[NEXT] or (rounds[at] != NO_LOSS and state.round - rounds[at] > patience)
        if waits:
            in_turn = turns[at] < 0.0 or turns[at] == record[NEXT]
            record[WAITING], record[NEXT] = float(at), max(record[NEXT], turns[at] + 2.0 ** record[THINNED])
            if rounds[at] != NO_LOSS:
                _consider(state, arm, early[at], unit, in_turn)
            waits = record[WAITING] > 0.0
            if not waits:
                record[THINNED] = max(0.0, record[THINNED] - 1.0)


def _close(state: State, arm: int, turn: float) -> None:
    """Wait no longer for the loss of a draw; what waits for it is considered with the next loss."""
    if turn >= 0.0:
        state.records[arm][OPEN] = max(0.0, state.records[arm][OPEN] - 1.0)
    if turn >= state.records[arm][NEXT] and _counts(state.records[arm], turn):
        _insert(state, arm, 0.0, turn, NO_LOSS)


# What a loss says.


def _consider(state: State, arm: int, distance: float, unit: float, in_turn: bool) -> None:
    """Look whether an arm has failed, returned or improved, and learn from its loss."""
    values, record, marks, counts = state.values[arm], state.records[arm], state.marks[arm], state.counts[arm]
    x, now = distance * unit, RECENT if state.forgets == 1.0 else KEPT
    if record[N] == 0.0:
        _average(state, arm, x, in_turn)
        note(marks, counts, record, distance)
        return
    other, seen = _best_other(state, arm, now), record[SEEN]
    below, over = ranked(marks, counts, record, distance) if seen > 0.0 else (0.0, 0.0)
    tied = 0.5 * (seen - below - over) + 0.5
    rank_up, rank_down = (over + tied) / (seen + 1.0), (below + tied) / (seen + 1.0)

    if record[N_FAILED] > 0.0:
        better = x < values[now]
        if better or abs(x - values[now]) < abs(x - values[FAILING]):
            if not better and rank_up < USUAL:
                record[PROBE] = state.round + 1.0
                return
            record[N_FAILED], record[UP], record[DOWN] = 0.0, 0.0, 0.0
        else:
            record[N_FAILED] += 1.0
            values[FAILING] += (x - values[FAILING]) / min(record[N_FAILED], LATEST)
            if record[PROBE] <= state.round:
                _schedule(state, arm, state.round, state.forgets)
            return

    if not in_turn and record[N_FAILED] == 0.0:
        _average(state, arm, x, in_turn)
        return
    if seen >= LEAST_SEEN:
        if record[UP] <= 0.0:
            values[SUSPECT], record[N_UP] = 0.0, 0.0
        if record[UP] > 0.0 or x - values[now] > FAR * _deviation(state):
            record[UP] = max(0.0, record[UP] + _bet(rank_up))
        if record[UP] > 0.0:
            record[N_UP] += 1.0
            values[SUSPECT] += (x - values[SUSPECT]) / record[N_UP]
            if record[UP] >= SURE and values[SUSPECT] > other:
                values[FAILING], record[N_FAILED] = values[SUSPECT], record[N_UP]
                record[SINCE] = state.round
                _schedule(state, arm, state.round, state.forgets)
                return
            if record[N_UP] <= MOST_SUSPECTED:
                values[HELD + int(record[N_UP]) - 1] = x
                note(marks, counts, record, distance)
                return
        if record[DOWN] <= 0.0:
            values[BETTER], record[N_DOWN] = 0.0, 0.0
        record[DOWN] = max(0.0, record[DOWN] + _bet(rank_down))
        if record[DOWN] > 0.0:
            record[N_DOWN] += 1.0
            values[BETTER] += (x - values[BETTER]) / record[N_DOWN]
        if record[DOWN] > 0.0 and values[BETTER] < other < values[now]:
            if record[DOWN] >= SURE:
                values[KEPT], values[RECENT] = values[BETTER], values[BETTER]
                record[KEPT_U], record[RECENT_U] = 1.0 / record[N_DOWN], 1.0 / record[N_DOWN]
                record[SEEN], record[UP], record[DOWN], record[N_UP], record[TO_LOOK] = 0.0, 0.0, 0.0, 0.0, 0.0
                note(marks, counts, record, distance)
                return
            if rank_down <= LOW:
                record[TO_LOOK] = LOOKS
        else:
            record[TO_LOOK] = 0.0

    if record[N_UP] > 0.0:  # nothing was the matter
        for at in range(min(int(record[N_UP]), MOST_SUSPECTED)):
            _average(state, arm, values[HELD + at], True)
        record[N_UP], record[UP] = 0.0, 0.0
    _average(state, arm, x, in_turn)
    note(marks, counts, record, distance)


def _bet(rank: float) -> float:
    """Return the logarithm of a bet on a rank, from 0 to 1; small ranks win."""
    return math.log(EXTREMES) - (1.0 - EXTREMES) * math.log(rank)


def _average(state: State, arm: int, x: float, in_turn: bool) -> None:
    """Learn from a loss in both memories, and compare how likely it was."""
    values, record = state.values[arm], state.records[arm]
    record[N] += 1.0
    if record[N] == 1.0:
        values[KEPT], values[RECENT], record[KEPT_U], record[RECENT_U] = x, x, 1.0, 1.0
        return
    off, off_recent = x - values[KEPT], x - values[RECENT]
    kept, recent = 1.0 + record[KEPT_U], 1.0 + record[RECENT_U]
    square = off * off / kept
    state.noise[SQUARES] += square
    state.noise[NUMBER] += 1.0
    if in_turn:
        record[N_RANKED] += 1.0
        record[KEPT_SQUARES] += square
        record[RECENT_SQUARES] += off_recent * off_recent / recent
        values[LOGARITHMS] += math.log(recent / kept)
    if record[KEPT_SQUARES] > 0.0 and record[RECENT_SQUARES] > 0.0:
        values[EVIDENCE] = values[LOGARITHMS] + (record[N_RANKED] + 1.0) * math.log(
            record[RECENT_SQUARES] / record[KEPT_SQUARES]
        )
    record[KEPT_U] /= kept
    record[RECENT_U] /= recent
    values[KEPT] += record[KEPT_U] * off
    values[RECENT] += record[RECENT_U] * off_recent


def _schedule(state: State, arm: int, round: float, forgets: float) -> None:
    """Say when an arm that is paused is probed next."""
    values, record = state.values[arm], state.records[arm]
    now = RECENT if forgets == 1.0 else KEPT
    other, lasted = _best_other(state, arm, now), max(0.0, round - record[SINCE]) + 1.0
    gain, cost = other - values[now], max(0.0, values[FAILING] - other)
    gap = lasted + WAIT
    if gain > 0.0:
        gap = min(gap, math.sqrt(2.0 * lasted * min(cost / gain, LARGEST / 4.0 / lasted)))
    record[PROBE] = round + 1.0 + math.floor(gap)


# What is played.


def _deviation(state: State) -> float:
    """Return s, what losses differ by from the means of their arms."""
    return math.sqrt(state.noise[SQUARES] / state.noise[NUMBER]) if state.noise[NUMBER] > 0.0 else 0.0


def _mean(values: Vector, record: Vector, now: int) -> float:
    """Return the mean by which an arm is judged."""
    return values[FAILING] if record[N_FAILED] > 0.0 else values[now]


def _best_other(state: State, arm: int, now: int) -> float:
    """Return the smallest mean of the other arms."""
    best = LARGEST
    for k in range(len(state.values)):
        if k != arm and state.records[k][N] > 0.0:
            best = min(best, _mean(state.values[k], state.records[k], now))
    return best


def _choose(q: Vector, state: State, unit: float, t: float, forgets: float) -> None:
    """Fill `q` with the distribution of round t."""
    n_arms = len(q)
    n, now, now_u = float(n_arms), RECENT if forgets == 1.0 else KEPT, RECENT_U if forgets == 1.0 else KEPT_U
    n_new, n_waiting = 0.0, 0.0
    for record in state.records:
        if record[N] == 0.0:
            if record[TRIED] == 0.0:
                n_new += 1.0
            else:
                n_waiting += 1.0
    floor = CURIOSITY * exploration_rate(n, t) * t / (t + CURIOUS)
    if n_new > 0.0:
        for k in range(n_arms):
            new = state.records[k][N] == 0.0 and state.records[k][TRIED] == 0.0
            q[k] = (1.0 - (n - n_new) * floor) / n_new if new else floor
        return
    if n_waiting == n:
        for k in range(n_arms):
            q[k] = 1.0 / n
        return

    s = _deviation(state)
    wide = OPTIMISM * s * math.sqrt(2.0 * math.log(t))
    least, n_top, mean_top = LARGEST, 0.0, LARGEST
    for k in range(n_arms):
        values, record = state.values[k], state.records[k]
        if record[N] > 0.0:
            mean, u = _mean(values, record, now), 1.0 / record[N_FAILED] if record[N_FAILED] > 0.0 else record[now_u]
            u /= 1.0 + u * record[OPEN]
            index = mean - wide * math.sqrt(u) * (1.0 + UNKNOWN * u)
            q[k] = index
            if index < least:
                least, n_top, mean_top = index, 1.0, mean
            elif index == least:
                n_top, mean_top = n_top + 1.0, min(mean_top, mean)
    n_due, rest = 0.0, 1.0
    for k in range(n_arms):
        values, record = state.values[k], state.records[k]
        if record[N] == 0.0:
            q[k] = 1.0 / n
        elif q[k] == least:
            q[k] = 2.0  # to be filled in
            continue
        else:
            gap = _mean(values, record, now) - mean_top
            q[k] = floor * (max(LEAST_SHARE, math.sqrt(s / gap)) if gap > s else 1.0)
            n_due += 1.0 if _is_due(values, record, now, t, mean_top) else 0.0
        rest -= q[k]
    for k in range(n_arms):
        values, record = state.values[k], state.records[k]
        top = q[k] == 2.0
        if top:
            q[k] = rest / n_top
        if n_due > 0.0:
            q[k] *= 0.5
            if not top and record[N] > 0.0 and _is_due(values, record, now, t, mean_top):
                q[k] += 0.5 / n_due


def _is_due(values: Vector, record: Vector, now: int, t: float, mean_top: float) -> bool:
    """Whether an arm is to be looked at: it may have improved, or its probe is due."""
    if record[N_FAILED] > 0.0:
        return record[PROBE] <= t and values[now] < mean_top
    return record[TO_LOOK] > 0.0
