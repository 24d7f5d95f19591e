"""Looking after a database: is everything in it as the log says, and copies of it, in the same or another kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from umab import Learner, __version__
from umab_service import log
from umab_service.recovery import read_snapshot, replay, version_of
from umab_service.storage import READ_AT_ONCE, DatabaseError, Found, Reader, Storage, n_fitting

Note = Callable[[int], None]
"""Told how many rows or events were done since the last time."""

TABLES: dict[str, tuple[tuple[str, ...], int]] = {
    "experiments": (("id", "name", "settings", "created"), 1),
    "events": (("experiment", "seq", "at", "kind", "body"), 2),
    "snapshots": (("experiment", "seq", "learner"), 2),
    "decisions": (("experiment", "id", "made", "request", "answer", "draw", "state", "due", "value"), 2),
    "parts": (("experiment", "decision", "key", "value", "late"), 3),
    "metadata": (("experiment", "decision", "at", "body"), 2),
    "keys": (("id", "digest", "role", "prefix", "note", "created", "revoked"), 1),
    "secrets": (("name", "value"), 1),
    "history": (("experiment", "span", "at", "draws", "open", "changed", "probabilities"), 3),
}
"""The columns of all tables, and how many of the first ones are their key."""

LARGE = {
    "events": ("body",),
    "snapshots": ("learner",),
    "decisions": ("answer", "draw"),
    "metadata": ("body",),
    "history": ("probabilities",),
}
"""The columns that may be large."""


class Checked(NamedTuple):
    """What was checked."""

    experiments: int
    events: int
    snapshots: int
    decisions: int


def n_rows(storage: Storage, *tables: str) -> int:
    """Return how many rows tables have."""
    with storage.reader() as reader:
        return sum(reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)


def copy(source: Storage, target: Storage, note: Note) -> dict[str, int]:
    """Copy everything into an empty database, all of it or nothing; return how many rows each table has.

    The copy is of one moment, also while servers write to the source. Who owns which experiment is not copied.
    """
    used = n_rows(target, *TABLES)
    if used:
        raise DatabaseError(f"a database to copy into must be empty, but {target.name!r} has {used} rows")
    counts = dict.fromkeys(TABLES, 0)

    def rows(reader: Reader, table: str) -> Iterator[Sequence[object]]:
        for some in _pages(reader, table, "settings IS NOT NULL" if table == "experiments" else ""):
            counts[table] += len(some)
            yield from some
            note(len(some))

    with source.consistent() as reader:
        target.fill((table, columns, rows(reader, table)) for table, (columns, _) in TABLES.items())
    return counts


def _pages(reader: Reader, table: str, where: str = "", given: Sequence[object] = ()) -> Iterator[list[Found]]:
    """Yield the rows of a table in the order of their keys, a part at a time."""
    columns, n_key = TABLES[table]
    key = ", ".join(columns[:n_key])
    last: Found = ()
    while True:
        after = f"({key}) > ({', '.join('?' * n_key)})" if last else ""
        conditions = " AND ".join(each for each in (where, after) if each)
        rest = f"FROM {table} {'WHERE ' + conditions if conditions else ''} ORDER BY {key} LIMIT ?"
        size = " + ".join(f"coalesce(length({column}), 0)" for column in LARGE.get(table, ())) or "0"
        sizes = reader.execute(f"SELECT {size} {rest}", (*given, *last, READ_AT_ONCE)).fetchall()
        if not sizes:
            return
        n_rows = n_fitting(size for (size,) in sizes)
        some = reader.execute(f"SELECT {', '.join(columns)} {rest}", (*given, *last, n_rows)).fetchall()
        yield some
        last = tuple(some[-1][:n_key])


def check(storage: Storage, note: Note) -> Checked:
    """Raise unless the log of every experiment gives its snapshots, bit for bit, and the states of its decisions."""
    found = Checked(0, 0, 0, 0)
    with storage.consistent() as reader:
        rows = reader.execute("SELECT id, name FROM experiments WHERE settings IS NOT NULL ORDER BY id").fetchall()
        for number, name in rows:
            n_events, n_snapshots = _check_learner(reader, number, name, note)
            n_decisions = _check_decisions(reader, number, name)
            more = Checked(1, n_events, n_snapshots, n_decisions)
            found = Checked(*(one + other for one, other in zip(found, more, strict=True)))
    return found


def _check_learner(reader: Reader, number: int, name: str, note: Note) -> tuple[int, int]:
    """Replay a log from its beginning, or from the first snapshot if the log was pruned; compare at each snapshot."""
    query = "SELECT seq, learner FROM snapshots WHERE experiment = ? ORDER BY seq"
    snapshots = [(seq, bytes(learner)) for seq, learner in reader.execute(query, (number,)).fetchall()]
    (first,) = reader.execute("SELECT min(seq) FROM events WHERE experiment = ?", (number,)).fetchone()
    at, n_events, n_compared = 0, 0, 0
    learner: Learner | None = None
    if first != 1:
        if not snapshots:
            raise DatabaseError(f"the log of the experiment {name!r} must begin with its creation, but it does not")
        (at, content), *snapshots = snapshots
        learner = read_snapshot(name, at, content)
    for seq, content in [*snapshots, (None, b"")]:
        learner, n_new = replay(reader, number, name, learner, at, seq)
        at, n_events = at + n_new, n_events + n_new
        note(n_new)
        if seq is not None and version_of(content) == __version__:
            if learner is None or at != seq or learner.to_json(indent=None).encode() != content:
                raise DatabaseError(
                    f"the log of the experiment {name!r} must give its snapshot at event {seq}, bit for bit, but it "
                    "does not"
                )
            n_compared += 1
    return n_events, n_compared


def _check_decisions(reader: Reader, number: int, name: str) -> int:
    """Compare the states of decisions with those that the log tells of; return how many there are."""
    told, is_whole = _told(reader, number)
    n_decisions = 0
    for some in _pages(reader, "decisions", "experiment = ?", (number,)):
        for _, identity, *_, state, _, value in some:
            n_decisions += 1
            expected = told.pop(identity, None if is_whole else (state, value))
            if expected != (state, value):
                raise DatabaseError(
                    f"the decision {identity!r} of the experiment {name!r} must be {expected!r} by the log, but it is "
                    f"{(state, value)!r}"
                )
    lost = next((identity for identity, (state, _) in told.items() if state in ("open", "deferred")), None)
    if lost is not None:
        raise DatabaseError(f"the decision {lost!r} of the experiment {name!r} must be there, since it is open")
    return n_decisions


def _told(reader: Reader, number: int) -> tuple[dict[str, tuple[str, float | None]], bool]:
    """Return the states of decisions with their values as the log tells, and whether the log is whole."""
    found: dict[str, tuple[str, float | None]] = {}
    is_whole = False
    for some in _pages(reader, "events", "experiment = ?", (number,)):
        for _, seq, _, kind, content in some:
            is_whole = is_whole or seq == 1
            if kind in _TELLS:
                found.update(_TELLS[kind](msgspec.json.decode(content)))
    return found, is_whole


_TELLS: dict[str, Callable[[Any], dict[str, tuple[str, float | None]]]] = {
    log.DECIDED: lambda body: {each: ("deferred" if body.get("defer") else "open", None) for each, _ in body["draws"]},
    log.ACTIVATED: lambda body: {body["decision"]: ("open", None)},
    log.LEARNED: lambda body: {body["decision"]: (log.LEARNED, body["value"])},
    log.LATE: lambda body: {} if "key" in body else {body["decision"]: (log.LATE, body["value"])},
    log.EXPIRED: lambda body: {
        **{each: (log.EXPIRED, value) for each, _, value in body["learned"]},
        **{log.id_of(each): ("forgotten", None) for each in body["forgotten"]},
    },
}
"""What events tell about decisions."""
