"""What happens by itself: waits end, snapshots are made, and what is old is deleted."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Raw

from umab_service import history, log
from umab_service import statements as sql
from umab_service.experiment import Experiment, Row
from umab_service.problems import Problem
from umab_service.service import ROW, Service
from umab_service.storage import DatabaseError, Found, Storage

EXPIRED_AT_ONCE = 500
LONGEST_REST = 60.0
"""How long an experiment rests at most, in seconds, whose waits could not be ended."""
TICK = 0.25
"""How often to look for waits that have ended, in seconds."""
PRUNE_EVERY = 3600.0
"""How often what is older than the retention is deleted, in seconds."""
BELIEVED_AFTER = 86400.0
"""For how long the clock must show a time, in seconds, before what is older than the retention is deleted by it."""
JUMP = 60.0
"""By how much the clock must jump to be reported, in seconds."""
PRUNED_AT_ONCE = 500
"""How many rows one commit deletes: requests wait for it."""
MOST_SINCE_SNAPSHOTS = 500_000
"""How many events of all experiments may lie after their snapshots: about how many a start has to replay."""

logger = logging.getLogger("umab_service")


class Believed:
    """The time by which the retention goes: the clock's, but a clock may jump, and what is deleted is gone.

    It goes on as steadily as this machine does. Where the clock shows an earlier time, it goes back with it at once.
    Where the clock shows a later one, it follows only when the clock has done so for `BELIEVED_AFTER`. At a start, when
    nothing is known about the clock, the time of the newest event is believed.
    """

    def __init__(
        self, clock: Callable[[], float], newest: float | None, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._steady = clock, steady
        self._since = steady()
        self._last = self._lowest = clock() - self._since
        self._believed = self._last if newest is None else min(self._last, newest - self._since)
        """What the clock is ahead of the steady one: as believed, and the lowest value and the last one seen."""

    def now(self) -> float:
        """Look at the clock, which must be done often, and return the time."""
        steady = self._steady()
        ahead = self._clock() - steady
        if abs(ahead - self._last) > JUMP:
            logger.warning(
                "the clock has jumped by %.0f s; the retention follows a jump ahead after %.0f hours",
                ahead - self._last,
                BELIEVED_AFTER / 3600.0,
            )
        self._last, self._lowest = ahead, min(self._lowest, ahead)
        if steady - self._since >= BELIEVED_AFTER:
            self._believed, self._lowest, self._since = self._lowest, ahead, steady
        self._believed = min(self._believed, ahead)
        return steady + self._believed


async def _believed(service: Service) -> Believed:
    newest = "SELECT at FROM events WHERE experiment = experiments.id ORDER BY seq DESC LIMIT 1"
    ((at,),) = await service.read(f"SELECT max(({newest})) FROM experiments")
    return Believed(service.clock, at)


async def watch(service: Service) -> None:
    """Close the choices whose wait has ended, again and again."""
    believed: Believed | None = None
    next_prune = 0.0

    async def prune_sometimes(service: Service) -> None:
        nonlocal believed, next_prune
        if service.retention is not None:
            believed = believed or await _believed(service)
            now = believed.now()
            if time.monotonic() >= next_prune:
                next_prune = time.monotonic() + PRUNE_EVERY
                await prune(service, now - service.retention)

    jobs: dict[str, Callable[[Service], Awaitable[None]]] = {
        "waits could not be ended": _expire_all,
        "snapshots could not be made": _bounded,
        "points of history could not be noted": history.note,
        "what is old could not be deleted": prune_sometimes,
    }
    while True:
        await asyncio.sleep(TICK)
        for what, job in jobs.items():  # each for itself
            try:
                if not service.recovering:
                    await job(service)
            except (Problem, DatabaseError) as problem:
                logger.warning("%s: %s", what, problem)
                await asyncio.sleep(1.0)
            except Exception:
                logger.exception(what)
                service.abandon()
                await asyncio.sleep(1.0)


async def _expire_all(service: Service) -> None:
    while await expire(service):
        pass


async def prune(service: Service, cutoff: float) -> None:
    """Delete what is from before a time and no longer needed, a little at a time.

    That is events behind the last snapshot but one, decisions that are closed, and what callers told about them.
    """
    for found in list(service.experiments.values()):
        closed, first, end = await asyncio.to_thread(_old, service.storage, found.id, cutoff)
        for at in range(0, len(closed), PRUNED_AT_ONCE):
            some = [(found.id, each) for each in closed[at : at + PRUNED_AT_ONCE]]
            await service.store([(text, row) for text in sql.PRUNE_DECISION for row in some])
        for seq in range(first, end, PRUNED_AT_ONCE):
            await service.store([(sql.PRUNE_EVENTS, (found.id, seq, min(seq + PRUNED_AT_ONCE, end)))])
        await service.store([(sql.ERASE_METADATA, (found.id, cutoff))])
        if found.n_since and service.by_id.get(found.id) is found:
            # So that after two rounds everything that is old lies behind the last snapshot but one.
            service.snapshot(found)
            await service.stored()
    service.forget_rows(0)


def _old(storage: Storage, experiment: int, cutoff: float) -> tuple[list[str], int, int]:
    """Return the decisions to delete, the first event to delete, and the first to keep."""
    with storage.reader() as reader:
        query = "SELECT id FROM decisions WHERE experiment = ? AND state NOT IN ('open', 'deferred') AND made < ?"
        closed = [identity for (identity,) in reader.execute(query, (experiment, cutoff)).fetchall()]
        # Decisions that were made at once go at once, the first of them last: it tells that they were made.
        query = "SELECT id FROM decisions WHERE experiment = ? AND state IN ('open', 'deferred') AND id LIKE '%/%'"
        held = {identity.rpartition("/")[0] for (identity,) in reader.execute(query, (experiment,)).fetchall()}
        closed = [identity for identity in closed if identity.rpartition("/")[0] not in held]
        closed.sort(key=lambda identity: identity.endswith("/0"))
        query = "SELECT seq FROM snapshots WHERE experiment = ? ORDER BY seq DESC LIMIT 1 OFFSET 1"
        (kept,) = reader.execute(query, (experiment,)).fetchone() or (0,)
        (first,) = reader.execute("SELECT min(seq) FROM events WHERE experiment = ?", (experiment,)).fetchone()
        # All up to the first that is not old: if the clock went back, one that seems old may lie behind it.
        query = "SELECT min(seq) FROM events WHERE experiment = ? AND seq <= ? AND at >= ?"
        (end,) = reader.execute(query, (experiment, kept, cutoff)).fetchone()
        return closed, first or 0, end or kept + 1


async def _bounded(service: Service) -> None:
    """Make snapshots where most events lie after the last one, if there are too many in all."""
    if sum(each.n_since for each in service.experiments.values()) > MOST_SINCE_SNAPSHOTS:
        most = max(service.experiments.values(), key=lambda each: each.n_since)
        service.snapshot(most)
        await service.stored()


async def expire(service: Service) -> bool:
    """Close some choices whose wait has ended; return whether there may be more."""
    with service.loading():
        before = dict(service.by_id)
        return await _expired(service, before, await _overdue(service))


async def _expired(service: Service, before: dict[int, Experiment], rows: list[Found]) -> bool:
    due: dict[int, list[Row]] = {}
    for row in rows:
        found = service.by_id.get(row[0])
        if (
            found is not None and not found.failed and found is before.get(row[0])
        ):  # else the rows may be older than what was read since
            known = service.rows.get((found.token, row[1])) or Row(found, *row[1:])
            if known.due is not None and known.due <= service.clock():
                due.setdefault(found.id, []).append(known)
    for number, some in due.items():
        try:
            _expire(service, service.by_id[number], some)
            service.resting.pop(number, None)
        except Exception:  # of this experiment: the waits of the others end all the same
            _, before_that = service.resting.get(number, (0.0, 0.5))
            rest = min(2.0 * before_that, LONGEST_REST)
            service.resting[number] = time.monotonic() + rest, rest
            logger.exception("waits of %r could not be ended; trying again in %g s", service.by_id[number].name, rest)
    if due:
        await service.stored()
    return len(rows) == EXPIRED_AT_ONCE and bool(due)


def _others(service: Service) -> str:
    """Return what leaves out the experiments whose waits cannot be ended now: they must not fill what is found."""
    now = time.monotonic()
    resting = {number for number, (until, _) in service.resting.items() if until > now}
    resting |= {each.id for each in service.failed}
    return f"AND experiment NOT IN ({', '.join(map(str, sorted(resting)))})" if resting else ""


async def _overdue(service: Service) -> list[Found]:
    """Return decisions whose wait has ended; of a shared database, those of this server, with parts in memory."""
    if not service.storage.shared:
        return await service.storage.soon(
            f"{ROW} WHERE due <= ? {_others(service)} ORDER BY due LIMIT ?", (service.clock(), EXPIRED_AT_ONCE)
        )
    mine, now = "experiment IN (SELECT id FROM experiments WHERE owner = ?)", service.clock()
    rows = await service.storage.soon(
        f"{ROW} WHERE due <= ? AND {mine} {_others(service)} ORDER BY due LIMIT ?",
        (now, service.storage.server, EXPIRED_AT_ONCE),
    )
    if len(rows) == EXPIRED_AT_ONCE and any(row[0] not in service.by_id for row in rows):
        # Those that could not be loaded, or not yet, must not take the places of the others.
        rows = await service.storage.soon(
            f"{ROW} WHERE due <= ? AND experiment = ANY(?) {_others(service)} ORDER BY due LIMIT ?",
            (now, list(service.by_id), EXPIRED_AT_ONCE),
        )
    while missing := _without_parts(service, rows):
        for found, keys in missing:
            await service.load_rows(found, keys, with_parts=True)
    return rows


def _without_parts(service: Service, rows: list[Found]) -> list[tuple[Experiment, list[tuple[int, str]]]]:
    """Return the decisions that are sums and whose parts are not in memory, by their experiments."""
    missing: dict[int, tuple[Experiment, list[tuple[int, str]]]] = {}
    for number, identity, *_ in rows:
        found = service.by_id.get(number)
        if found is not None and found.settings.aggregation == "sum" and (found.token, identity) not in service.rows:
            missing.setdefault(number, (found, []))[1].append((number, identity))
    return list(missing.values())


def _expire(service: Service, found: Experiment, rows: Iterable[Row]) -> None:
    learned, forgotten = [], []
    with service.changing(found):
        for row in rows:
            value = _silence(service, found, row)
            if value is None:
                forgotten.append((row.id, Raw(row.draw)))
                service.set(row, "forgotten", None, None)
            else:
                log.settle(found.learner, msgspec.json.decode(row.draw), value)
                learned.append((row.id, Raw(row.draw), value))
                service.set(row, log.EXPIRED, None, value)
            found.n_open -= 1
        for _, draw in forgotten:  # after what is learned, as when the event is replayed
            log.forget(found.learner, msgspec.json.decode(draw))
        service.event(found, log.EXPIRED, {"learned": learned, "forgotten": forgotten})
    service.counts["expired"] += len(learned)
    service.counts["forgotten"] += len(forgotten)


def _silence(service: Service, found: Experiment, row: Row) -> float | None:
    """Return what is learned when the wait of a choice ends; None to forget it."""
    if found.settings.aggregation == "sum":
        parts = [part.value for part in service.parts(row).values()]
        if parts:
            # Sorted, so that the sum does not depend on the order in which the parts came.
            value = max(-sys.float_info.max, min(sys.float_info.max, _sum(sorted(parts))))
            refused = found.learner.policy.refusal(-value if found.settings.maximize else value, "a sum")
            if refused is None:
                return value
            logger.warning("a sum was not learned in %s: %s", found.name, refused)
            return None
    return None if row.state == "deferred" else found.settings.default


def _sum(values: list[float]) -> float:
    """Return a sum, which is inf if it is too large."""
    try:
        return math.fsum(values)
    except OverflowError:  # of something in between; the sum itself may be small
        return math.fsum(value / 1024.0 for value in values) * 1024.0
