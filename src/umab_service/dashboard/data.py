"""What the pages show, read with few queries whatever there is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from umab_service import history, log, reports
from umab_service.dashboard import charts, words
from umab_service.dashboard.charts import Mark
from umab_service.experiment import Experiment
from umab_service.history import LIFE, SPANS, Point
from umab_service.keys import Key
from umab_service.problems import Problem
from umab_service.schema import Report, Settings
from umab_service.service import Service

A_PAGE = 25
"""How many experiments are on a page of the list."""
EVERY = 6
"""Of how many points of its life the small chart of an experiment has one."""
MOST_ROWS = 50
"""How many arms the table of an experiment has; the report of the API has all."""
MOST_EVENTS = 12
MOST_SUMMARIES = 100
"""How many experiments have their estimates kept in memory."""
_NEW_EVERY, _SHARE, _PATIENCE = 10.0, 20.0, 0.02
"""Estimates read up to 100,000 rounds. They are made again after ten seconds and after twenty times what they took, so
that they take a twentieth of a processor at most; a page waits for them only a little."""


class Row(NamedTuple):
    """An experiment in the list."""

    name: str
    archived: bool
    leader: str
    share: str
    per_minute: str
    open: str
    seen: str
    spark: Markup


class Listed(NamedTuple):
    """A page of the list."""

    rows: list[Row]
    n_found: int
    search: str
    page: int

    @property
    def n_pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.n_found // A_PAGE))


async def listed(service: Service, key: Key, search: str, page: int) -> Listed:
    """Return a page of the experiments that a key covers and whose names contain a text."""
    pattern = "".join(f"\\{each}" if each in "\\%_" else each for each in search.lower())
    which = "settings IS NOT NULL AND substr(name, 1, ?) = ? AND lower(name) LIKE ? ESCAPE '\\'"
    given = (len(key.prefix), key.prefix, f"%{pattern}%")
    ((n_found,),) = await service.read(f"SELECT count(*) FROM experiments WHERE {which}", given)
    page = min(page, max(1, -(-n_found // A_PAGE)))
    found = await service.read(
        f"SELECT id, name, settings FROM experiments WHERE {which} ORDER BY name LIMIT ? OFFSET ?",
        (*given, A_PAGE, A_PAGE * (page - 1)),
    )
    ids, now = [identity for identity, *_ in found], service.clock()
    life = await history.points(service, ids, LIFE, 0.0, EVERY)
    minutes = await _traffic(service, ids, now)
    rows = []
    for identity, name, settings in found:
        known, points = service.by_id.get(identity), life[identity]
        if known is not None:
            points = [*points, current(known, now)]
        rows.append(_row(name, _settings.decode(settings), points, minutes.get(identity), now, known))
    return Listed(rows, n_found, search, page)


_settings = msgspec.json.Decoder(Settings)


class _Minute(NamedTuple):
    """What the points of the last minute say."""

    draws: int
    seconds: float
    last: float


async def _traffic(service: Service, experiments: Sequence[int], now: float) -> dict[int, _Minute]:
    if not experiments:
        return {}
    rows = await service.read(
        "SELECT experiment, max(draws) - min(draws), max(at) - min(at), max(at) FROM history "
        f"WHERE experiment IN ({history.marks(experiments)}) AND span = 0 AND at >= ? GROUP BY experiment",
        (*experiments, now - 60.0),
    )
    return {experiment: _Minute(*rest) for experiment, *rest in rows}


def _row(
    name: str, settings: Settings, points: list[Point], minute: _Minute | None, now: float, known: Experiment | None
) -> Row:
    last = points[-1] if points else None
    leader = max(last.shares, key=lambda arm: last.shares[arm], default=None) if last is not None else None
    rate = 60.0 * minute.draws / minute.seconds if minute is not None and minute.seconds else 0.0
    drawn = [point for point in points if point.at < now]
    seen = minute.last if minute is not None else drawn[-1].at if drawn else None
    arms = [str(arm) for arm in known.learner.arms] if known is not None else list(last.shares) if last else []
    return Row(
        name,
        settings.archived,
        "" if leader is None else words.short(leader, 28),
        "" if last is None or leader is None else words.percent(last.shares[leader]),
        words.count(rate),
        "–" if last is None else words.count(last.open),
        "never" if last is None or last.draws == 0 else words.ago(0.0 if seen is None else now - seen),
        charts.sparkline(points, arms),
    )


def current(found: Experiment, now: float) -> Point:
    """Return an experiment as it is now."""
    counters = found.learner.counters()
    shares = {str(arm): each.probability for arm, each in counters.items()}
    return Point(now, sum(each.selected for each in counters.values()), found.n_open, history.noticed(found), shares)


class Summary(NamedTuple):
    """What takes its time: estimates from the log, and what became of decisions."""

    report: Report
    states: dict[str, int]


class Summaries:
    """The latest summaries of experiments, made in the background when somebody looks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made: OrderedDict[int, tuple[Summary, float]] = OrderedDict()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def get(self, found: Experiment) -> Summary | None:
        """Return a summary, the one from before while a new one is made, or None if there is none yet."""
        summary, until = self._made.get(found.id, (None, 0.0))
        if time.monotonic() >= until:
            task = self._tasks.get(found.id)
            if task is None:
                task = self._tasks[found.id] = asyncio.create_task(self._make(found))
            await asyncio.wait({task}, timeout=_PATIENCE)
            summary, _ = self._made.get(found.id, (None, 0.0))
        return summary

    async def _make(self, found: Experiment) -> None:
        try:
            started = time.monotonic()
            with contextlib.suppress(Problem):  # the database is away; the page says so by itself
                report = await reports.report(self._service, found)
                rows = await self._service.read(
                    "SELECT state, count(*) FROM decisions WHERE experiment = ? GROUP BY state", (found.id,)
                )
                now = time.monotonic()
                until = now + max(_NEW_EVERY, _SHARE * (now - started))
                self._made.pop(found.id, None)
                self._made[found.id] = Summary(report, dict(rows)), until
                if len(self._made) > MOST_SUMMARIES:
                    self._made.popitem(last=False)
        finally:
            self._tasks.pop(found.id, None)


class ArmRow(NamedTuple):
    """An arm in the table of an experiment."""

    name: str
    color: int
    share: str
    bar: Markup
    draws: str
    mean: str
    interval: str
    picture: Markup
    doubts: str


class ChangeRow(NamedTuple):
    """A noticed change in the table of an experiment."""

    when: str
    round: str
    arm: str
    state: str


@dataclass(frozen=True)
class Shown:
    """All that the page of an experiment shows."""

    name: str
    archived: bool
    unit: str
    policy: str
    created: str
    arms: list[str]
    span: int
    chart: Markup
    saving: words.Saving
    rows: list[ArmRow]
    n_more: int
    per_minute: str
    draws: str
    open: str
    expired: str
    forgotten: str
    changes: list[ChangeRow]
    pauses: list[str]
    events: list[words.Event]
    spans: Sequence[history.Span] = SPANS


async def shown(service: Service, summaries: Summaries, found: Experiment, span: int | None) -> Shown:
    """Return all that the page of an experiment shows."""
    now, settings = service.clock(), found.settings
    by_span = await history.points(service, [found.id], 0 if span is None else span, _since(span or 0, now))
    points = by_span[found.id]
    minute = (await _traffic(service, [found.id], now)).get(found.id)
    if span is None:  # the last minutes if something happened in them, else the whole life
        span = 0 if len(points) > 1 else LIFE
        if span == LIFE:
            points = (await history.points(service, [found.id], LIFE, 0.0))[found.id]
    events = await service.read(
        "SELECT seq, at, kind, body FROM events WHERE experiment = ? ORDER BY seq DESC LIMIT ?", (found.id, MOST_EVENTS)
    )
    summary = await summaries.get(found)
    last, arms = current(found, now), [str(arm) for arm in found.learner.arms]
    before = points
    points = [*(points or [last._replace(at=max(found.created, _since(span, now)))]), last]
    start = max(found.created, _since(span, now)) if SPANS[span].back is not None else points[0].at
    changes = _changes(found, before)
    marks = [Mark(at, f"{words.clock(at)} UTC: change noticed{text}") for at, text, *_ in changes if at is not None]
    color = charts.colors(arms, points)
    rows = _arm_rows(found, color, summary)
    states = {} if summary is None else summary.states
    unknown = "…" if summary is None else "0"
    return Shown(
        found.name,
        settings.archived,
        "reward" if settings.maximize else "loss",
        settings.policy,
        words.day(found.created),
        arms,
        span,
        charts.shares_chart(points, arms, start, now, [mark for mark in marks if mark.at >= start]),
        words.saving(None if summary is None else summary.report.estimates, settings.maximize),
        rows[:MOST_ROWS],
        max(0, len(arms) - MOST_ROWS),
        words.count(60.0 * minute.draws / minute.seconds if minute is not None and minute.seconds else 0.0),
        words.count(last.draws),
        words.count(found.n_open),
        words.count(states[log.EXPIRED]) if log.EXPIRED in states else unknown,
        words.count(states["forgotten"]) if "forgotten" in states else unknown,
        [row for *_, row in reversed(changes)],
        _pauses(found, before),
        [words.event(seq, at, kind, body, settings.maximize) for seq, at, kind, body in events],
    )


def _since(span: int, now: float) -> float:
    back = SPANS[span].back
    return 0.0 if back is None else now - back


def _changes(found: Experiment, points: Sequence[Point]) -> list[tuple[float | None, str, ChangeRow]]:
    """Return the noticed changes with the time of the first point that knows of them, if it is in this span."""
    rows = []
    for each in found.learner.changes():
        at = _noticed_at(each.round, points)
        arm = "" if each.arm is None else words.short(each.arm)
        state = {True: "kept", False: "undone", None: "on trial"}[each.kept]
        when = "earlier" if at is None else words.clock(at)
        text = f": {words.plain(each.arm)}" if each.arm is not None else ""
        rows.append((at, text, ChangeRow(when, words.count(each.round), arm, state)))
    return rows


def _pauses(found: Experiment, points: Sequence[Point]) -> list[str]:
    """Return in words which arms are paused."""
    texts = []
    for each in found.learner.pauses()[:MOST_ROWS]:
        at = _noticed_at(each.round, points)
        since = "" if at is None else f"{words.clock(at)} UTC"
        texts.append(each._replace(arm=words.short(each.arm)).in_words(since))
    return texts


def _noticed_at(round: int, points: Sequence[Point]) -> float | None:
    """Return the time of the first point that knows of something of that round; None if all do, or none."""
    if points and points[0].changed >= round:
        return None  # it was known before the first point
    return next((point.at for point in points if point.changed >= round), None)


def _arm_rows(found: Experiment, color: dict[str, int], summary: Summary | None) -> list[ArmRow]:
    """Return the arms: in their order, or the most probable ones first if they do not all fit."""
    always = {} if summary is None else summary.report.estimates.always
    known = [each for each in always.values() if each is not None]
    ends = [end for each in known for end in (each.low, each.mean, each.high) if end is not None]
    least, most = min(ends, default=0.0), max(ends, default=1.0)
    counters = list(found.learner.counters().items())
    if len(counters) > MOST_ROWS:
        counters.sort(key=lambda pair: -pair[1].probability)
    rows = []
    for arm, counter in counters[:MOST_ROWS]:
        number, each = color.get(str(arm), charts.MOST_SERIES - 1), always.get(str(arm))
        rows.append(
            ArmRow(
                words.plain(arm),
                number,
                words.percent(counter.probability),
                charts.bar(counter.probability, number),
                words.count(counter.selected),
                words.figure(counter.mean if each is None else each.mean),
                "" if each is None else f"{words.figure(each.low)} to {words.figure(each.high)}",
                Markup("") if each is None else charts.interval(each.mean, each.low, each.high, least, most, number),
                "" if each is None else "; ".join(each.doubts),
            )
        )
    return rows
