"""From the log to the learners: what a start does, and what happens after a commit has failed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from umab import Learner, __version__
from umab_service import log
from umab_service.experiment import Experiment
from umab_service.schema import Settings
from umab_service.storage import READ_AT_ONCE, DatabaseError, Reader, Storage, n_fitting

MOST_CHECKED = 200_000
"""How many events are replayed at a start to check snapshots that are not needed for the start itself."""

logger = logging.getLogger("umab_service")


def recovered(storage: Storage, check: bool, only: Sequence[int] | None = None) -> list[Experiment]:
    """Return experiments with their learners, brought up to the end of the log from their last snapshots.

    That is all of them, or only those with the given numbers. With `check`, also replay the log from the last snapshot
    but one to the last, and compare, bit for bit.
    """
    with storage.reader() as reader:
        found, left = [], MOST_CHECKED if check else 0
        for identity, name, settings, created, n_open in _experiments(reader, only):
            snapshots = reader.execute(
                "SELECT seq, learner FROM snapshots WHERE experiment = ? ORDER BY seq DESC LIMIT 2", (identity,)
            ).fetchall()
            if left > 0 and snapshots and version_of(snapshots[0][1]) == __version__:
                left -= _check(reader, identity, name, snapshots)
            seq, learner = (snapshots[0][0], read_snapshot(name, *snapshots[0])) if snapshots else (0, None)
            learner, n_since = replay(reader, identity, name, learner, seq, None)
            if learner is None:
                raise DatabaseError(f"the log of the experiment {name!r} must begin with its creation, but it does not")
            learner.warm_up()  # here, in a thread, and not later, in the event loop
            settled = msgspec.json.decode(settings, type=Settings)
            found.append(Experiment(identity, name, created, settled, learner, seq + n_since, seq, n_open))
        return found


def _experiments(reader: Reader, only: Sequence[int] | None) -> list[tuple[int, str, bytes, float, int]]:
    """Return number, name, settings, time of creation and number of open choices of experiments."""
    query = "SELECT id, name, settings, created FROM experiments WHERE settings IS NOT NULL"
    waiting = "FROM decisions WHERE state IN ('open', 'deferred')"
    if only is None:
        rows = reader.execute(f"{query} ORDER BY id").fetchall()
        n_open = dict(reader.execute(f"SELECT experiment, count(*) {waiting} GROUP BY experiment").fetchall())
    else:
        rows = [row for each in only for row in reader.execute(f"{query} AND id = ?", (each,)).fetchall()]
        counted = f"SELECT count(*) {waiting} AND experiment = ?"
        n_open = {each: reader.execute(counted, (each,)).fetchone()[0] for each in only}
    return [(*row, n_open.get(row[0], 0)) for row in rows]


def version_of(snapshot: bytes) -> str:
    """Return the version that made a snapshot: another one may compute another last bit, and its log is not checked."""
    try:
        return str(msgspec.json.decode(snapshot, type=dict[str, Any]).get("umab"))
    except msgspec.MsgspecError:
        return __version__  # what it holds is no learner, as the check will say


def read_snapshot(name: str, seq: int, content: bytes) -> Learner:
    """Return the learner of a snapshot."""
    try:
        return Learner.from_json(content.decode())
    except ValueError as error:
        raise DatabaseError(f"the snapshot of the experiment {name!r} at event {seq} cannot be read: {error}") from None


def replay(
    reader: Reader, experiment: int, name: str, learner: Learner | None, after: int, to: int | None
) -> tuple[Learner | None, int]:
    """Return the learner after the events from `after` to `to`, and how many they were."""
    end = "" if to is None else f" AND seq <= {to}"
    rest = f"FROM events WHERE experiment = ? AND seq > ?{end} ORDER BY seq LIMIT ?"
    n_events = 0
    while sizes := reader.execute(
        f"SELECT length(body) {rest}", (experiment, after + n_events, READ_AT_ONCE)
    ).fetchall():
        some = experiment, after + n_events, n_fitting(size for (size,) in sizes)
        for seq, kind, body in reader.execute(f"SELECT seq, kind, body {rest}", some).fetchall():
            n_events += 1
            try:
                learner = log.replayed(learner, kind, body)
                if seq != after + n_events:
                    raise ValueError(f"event {after + n_events} is missing")
            except (ValueError, TypeError, KeyError, ArithmeticError, msgspec.MsgspecError) as error:
                raise DatabaseError(f"the log of the experiment {name!r} fails at event {seq}: {error}") from error
    return learner, n_events


def _check(reader: Reader, experiment: int, name: str, snapshots: list[tuple[int, bytes]]) -> int:
    """Raise unless the log gives the last snapshot, bit for bit; return how many events were replayed.

    A log that was pruned up to the last snapshot but one gives it from there.
    """
    last, learner = snapshots[0]
    why = "it gives another learner"
    try:
        before, start = (snapshots[1][0], read_snapshot(name, *snapshots[1])) if len(snapshots) > 1 else (0, None)
        replayed, n_events = replay(reader, experiment, name, start, before, last)
    except DatabaseError as error:
        replayed, n_events, why = None, 0, str(error)
    if replayed is None or replayed.to_json(indent=None).encode() != learner:
        raise DatabaseError(
            f"the log of the experiment {name!r} must give its snapshot at event {last}, bit for bit, but {why}; "
            "restore a backup, or start with --no-check to go on from the snapshot"
        )
    return n_events
