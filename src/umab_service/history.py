"""Probabilities over time: for each experiment a bounded number of points, of its last minutes and of its whole life.

They are no part of the log. If they were lost, only a picture would be.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from umab_service import statements as sql
from umab_service.experiment import Experiment
from umab_service.schema import encoded
from umab_service.service import Service
from umab_service.statements import Statement


class Span(NamedTuple):
    """How far back points go, and how far apart they are at least, in seconds."""

    title: str
    every: float
    back: float | None
    """None: the whole life; then points lie the farther apart the longer it is."""


SPANS = (Span("4 minutes", 2.0, 240.0), Span("2 hours", 60.0, 7200.0), Span("whole life", 2.0, None))
LIFE = len(SPANS) - 1
MOST_OF_LIFE = 160
"""How many points of its whole life an experiment keeps; with those of minutes and hours, about 400."""
MOST_LABELS = 20
"""How many arms of a point are kept, the most probable ones; the others are what is missing to 1."""
LOOK_EVERY = 1.0
"""How often to look for experiments that had events, in seconds."""
AT_ONCE = 100
"""How many points are made in one go: requests wait meanwhile."""


class Point(NamedTuple):
    """An experiment at some time."""

    at: float
    draws: int
    open: int
    changed: int
    """The round of the last change, or pause, that was noticed up to then; 0 if there was none."""
    shares: dict[str, float]
    """The probabilities of the arms, or of the most probable ones."""


@dataclass(slots=True)
class _Noted:
    """What is known about the points of an experiment without asking the database."""

    seq: int = -1
    drawn: int = 0
    """What the counters of its arms said the last time; it falls when an arm is removed."""
    draws: int = 0
    """What its points say; it never falls."""
    last: list[float] = field(default_factory=lambda: [-1e18] * len(SPANS))
    born: float = 0.0
    n_of_life: int = 0


class _State:
    """What was noted of all experiments of a service, and what is to be noted next."""

    def __init__(self) -> None:
        self.noted: dict[int, _Noted] = {}
        self.due: list[int] = []
        self.looked = -1e18

    def look(self, experiments: dict[int, Experiment], now: float) -> None:
        """Find the experiments that had events since their last point, the longest ago first."""
        for gone in self.noted.keys() - experiments.keys():
            del self.noted[gone]
        found = []
        for each in experiments.values():
            known = self.noted.get(each.id)
            if known is None:
                found.append((-1e18, each.id))
            elif known.seq != each.seq and not 0.0 <= now - known.last[0] < SPANS[0].every:
                found.append((known.last[0], each.id))
        found.sort()
        self.due, self.looked = [identity for _, identity in found], now


_STATES: weakref.WeakKeyDictionary[Service, _State] = weakref.WeakKeyDictionary()


async def note(service: Service) -> None:
    """Store a point for some experiments that had events since their last one. Call it again and again."""
    state, now = _STATES.setdefault(service, _State()), service.clock()
    if not state.due and not 0.0 <= now - state.looked < LOOK_EVERY:
        state.look(service.by_id, now)
    some, state.due = state.due[:AT_ONCE], state.due[AT_ONCE:]
    if not some:
        return
    await _recall(service, state, [each for each in some if each not in state.noted])
    full = [each for each in some if each in state.noted and state.noted[each].n_of_life >= MOST_OF_LIFE]
    jobs: list[Statement] = []
    for each in full:
        rows = await service.read("SELECT at FROM history WHERE experiment = ? AND span = ?", (each, LIFE))
        gone = thinned([at for (at,) in rows], now)
        jobs += [(sql.THIN_HISTORY, (each, LIFE, at)) for at in gone]
        state.noted[each].n_of_life = len(rows) - len(gone)
    for each in some:
        if each in service.by_id and each in state.noted:
            jobs += _points(service.by_id[each], state.noted[each], now)
    await service.store(jobs)


async def _recall(service: Service, state: _State, unknown: Sequence[int]) -> None:
    """Learn from the database what earlier processes have noted."""
    if not unknown:
        return
    rows = await service.read(
        "SELECT experiment, span, count(*), min(at), max(at), max(draws) FROM history "
        f"WHERE experiment IN ({marks(unknown)}) GROUP BY experiment, span",
        unknown,
    )
    for each in unknown:
        state.noted[each] = _Noted()
    for experiment, span, count, first, last, draws in rows:
        known = state.noted[experiment]
        known.last[span], known.draws = last, max(draws, known.draws)
        if span == LIFE:
            known.n_of_life, known.born = count, first


def noticed(found: Experiment) -> int:
    """Return the round of the last change or of the last pause that lasts; 0 if there is none."""
    rounds = [each.round for each in found.learner.changes()]
    return max(rounds + [each.round for each in found.learner.pauses()], default=0)


def _points(found: Experiment, known: _Noted, now: float) -> list[Statement]:
    """Return what stores a point, in each of the spans in which it is time for one."""
    counters = found.learner.counters()
    drawn = sum(each.selected for each in counters.values())
    known.draws = max(known.draws, drawn) if known.seq < 0 else known.draws + max(0, drawn - known.drawn)
    known.drawn, known.seq = drawn, found.seq
    changed = noticed(found)
    shares = [(str(arm), round(each.probability, 4)) for arm, each in counters.items() if each.probability >= 0.0]
    content = encoded(sorted(shares, key=lambda pair: -pair[1])[:MOST_LABELS])
    jobs: list[Statement] = []
    for number, span in enumerate(SPANS):
        every = span.every if span.back is not None else max(span.every, (now - known.born) / MOST_OF_LIFE)
        if not 0.0 <= now - known.last[number] < every or (number == LIFE and not known.n_of_life):
            jobs.append((sql.NEW_HISTORY, (found.id, number, now, known.draws, found.n_open, changed, content)))
            known.last[number] = now
            if span.back is not None:
                jobs.append((sql.PRUNE_HISTORY, (found.id, number, now - span.back)))
            else:
                known.born = known.born if known.n_of_life else now
                known.n_of_life += 1
    return jobs


def thinned(ats: Iterable[float], now: float) -> list[float]:
    """Return the times of points to delete, so that at most half as many as are allowed stay, evenly over the life."""
    ordered = sorted(ats)
    if not ordered:
        return []
    gap, kept, gone = 2.0 * (now - ordered[0]) / MOST_OF_LIFE, ordered[0], []
    for at in ordered[1:]:
        if at - kept < gap:
            gone.append(at)
        else:
            kept = at
    return gone


async def points(
    service: Service, experiments: Sequence[int], span: int, since: float, every: int = 1
) -> dict[int, list[Point]]:
    """Return the points of some experiments after a time, oldest first; of so many only one, but always the last."""
    found: dict[int, list[Point]] = {each: [] for each in experiments}
    if experiments:
        rows = await service.read(
            "SELECT experiment, at, draws, open, changed, probabilities FROM (SELECT history.*, "
            "row_number() OVER (PARTITION BY experiment ORDER BY at DESC) AS place FROM history "
            f"WHERE experiment IN ({marks(experiments)}) AND span = ? AND at >= ?) AS placed "
            "WHERE (place - 1) / ? * ? = place - 1 ORDER BY experiment, at",
            (*experiments, span, since, every, every),
        )
        for experiment, at, draws, n_open, changed, content in rows:
            found[experiment].append(Point(at, draws, n_open, changed, dict(_decoder.decode(content))))
    return found


_decoder = msgspec.json.Decoder(list[tuple[str, float]])


def marks(values: Sequence[object]) -> str:
    """Return as many question marks, with commas between them."""
    return ", ".join("?" * len(values))
