"""The statements that write. In a commit they run in the order of `IN_ORDER`, each for all of its rows.

So a row is inserted before it is updated, whichever request came first, and of two updates the later one stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Statement = tuple[str, tuple[object, ...]]
"""One of the statements of this module, and its parameters."""

IN_BULK: dict[str, tuple[str, tuple[str, ...]]] = {}
"""For PostgreSQL: statements that store all of their rows at once, and the kinds of the arrays that they take."""


def _insert(table: str, **kinds: str) -> str:
    """Return a statement that inserts a row with these columns of these kinds."""
    columns = ", ".join(kinds)
    text = f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(kinds))})"
    _in_bulk(text, f"INSERT INTO {table} ({columns}) SELECT * FROM ARRAYS", *kinds.values())
    return text


def _in_bulk(text: str, bulk: str, *kinds: str) -> None:
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
    IN_BULK[text] = bulk.replace("ARRAYS", f"unnest({arrays})"), kinds


NEW_EXPERIMENT = "INSERT INTO experiments (id, name, settings, created) VALUES (?, ?, ?, ?)"
# Where several servers create experiments, a name is reserved first, so that it is created once.
_in_bulk(
    NEW_EXPERIMENT,
    "UPDATE experiments AS known SET settings = new.settings, created = new.created "
    "FROM ARRAYS AS new (id, name, settings, created) WHERE known.id = new.id AND known.name = new.name",
    *("bigint", "text", "bytea", "float8"),
)
NEW_EVENT = _insert("events", experiment="bigint", seq="bigint", at="float8", kind="text", body="bytea")
NEW_SNAPSHOT = _insert("snapshots", experiment="bigint", seq="bigint", learner="bytea")
NEW_DECISION = _insert(
    "decisions",
    experiment="bigint",
    id="text",
    made="float8",
    request="bytea",
    answer="bytea",
    draw="bytea",
    state="text",
    due="float8",
)
NEW_METADATA = _insert("metadata", experiment="bigint", decision="text", at="float8", body="bytea")
NEW_PART = _insert("parts", experiment="bigint", decision="text", key="text", value="float8", late="int")
NEW_KEY = "INSERT INTO keys (id, digest, role, prefix, note, created) VALUES (?, ?, ?, ?, ?, ?)"
SET_SETTINGS = "UPDATE experiments SET settings = ? WHERE id = ?"
SET_DECISION = "UPDATE decisions SET state = ?, due = ?, value = ? WHERE experiment = ? AND id = ?"
_in_bulk(
    SET_DECISION,
    "UPDATE decisions AS known SET state = new.state, due = new.due, value = new.value "
    "FROM ARRAYS AS new (state, due, value, experiment, id) "
    "WHERE known.experiment = new.experiment AND known.id = new.id",
    *("text", "float8", "float8", "bigint", "text"),
)
REVOKE_KEY = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
ERASE_METADATA = "DELETE FROM metadata WHERE experiment = ? AND at < ?"
PRUNE_EVENTS = "DELETE FROM events WHERE experiment = ? AND seq >= ? AND seq < ?"
PRUNE_DECISION = (
    "DELETE FROM decisions WHERE experiment = ? AND id = ?",
    "DELETE FROM parts WHERE experiment = ? AND decision = ?",
    "DELETE FROM metadata WHERE experiment = ? AND decision = ?",
)
PRUNE_SNAPSHOTS = "DELETE FROM snapshots WHERE experiment = ? AND seq < ?"
NEW_SECRET = "INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
ENDED = "ended "
"""What the names of ended sessions begin with, among secrets; the time at which they would have ended follows."""
FORGET_ENDED = f"DELETE FROM secrets WHERE substr(name, 1, {len(ENDED)}) = '{ENDED}' AND name < ?"
NEW_HISTORY = (
    "INSERT INTO history (experiment, span, at, draws, open, changed, probabilities) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
PRUNE_HISTORY = "DELETE FROM history WHERE experiment = ? AND span = ? AND at < ?"
THIN_HISTORY = "DELETE FROM history WHERE experiment = ? AND span = ? AND at = ?"
HAND_OVER = "UPDATE experiments SET owner = ? WHERE id = ? AND owner = ?"
"""Let another server own an experiment; only where several servers share a database."""

IN_ORDER = (
    NEW_EXPERIMENT,
    NEW_EVENT,
    NEW_SNAPSHOT,
    NEW_DECISION,
    NEW_METADATA,
    NEW_PART,
    NEW_KEY,
    SET_SETTINGS,
    SET_DECISION,
    REVOKE_KEY,
    ERASE_METADATA,
    PRUNE_EVENTS,
    *PRUNE_DECISION,
    PRUNE_SNAPSHOTS,
    NEW_SECRET,
    FORGET_ENDED,
    NEW_HISTORY,
    PRUNE_HISTORY,
    THIN_HISTORY,
    HAND_OVER,
)


def in_order(statements: Iterable[Statement]) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Yield each statement with the parameters of all of its rows."""
    gathered: dict[str, list[tuple[object, ...]]] = {}
    for text, parameters in statements:
        gathered.setdefault(text, []).append(parameters)
    for text in IN_ORDER:
        if text in gathered:
            yield text, gathered.pop(text)
    if gathered:
        raise ValueError(f"a statement must be one of those in order, but got {next(iter(gathered))!r}")


def last_of_each(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return the parameters of `SET_DECISION` without those that later ones overwrite: in bulk, none comes first."""
    return list({row[3:]: row for row in rows}.values())
