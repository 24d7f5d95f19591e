"""The statements that write. In a commit they run in the order of `IN_ORDER`, each for all of its rows.

So a row is inserted before it is updated, whichever request came first, and of two updates the later one stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Statement = tuple[str, tuple[Any, ...]]
"""One of the statements of this module, and its parameters."""

NEW_EXPERIMENT = "INSERT INTO experiments (id, name, settings, created) VALUES (?, ?, ?, ?)"
NEW_EVENT = "INSERT INTO events (experiment, seq, at, kind, body) VALUES (?, ?, ?, ?, ?)"
NEW_SNAPSHOT = "INSERT INTO snapshots (experiment, seq, learner) VALUES (?, ?, ?)"
NEW_DECISION = (
    "INSERT INTO decisions (experiment, id, made, request, answer, draw, state, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
NEW_METADATA = "INSERT INTO metadata (experiment, decision, at, body) VALUES (?, ?, ?, ?)"
NEW_PART = "INSERT INTO parts (experiment, decision, key, value, late) VALUES (?, ?, ?, ?, ?)"
NEW_KEY = "INSERT INTO keys (id, digest, role, prefix, note, created) VALUES (?, ?, ?, ?, ?, ?)"
SET_SETTINGS = "UPDATE experiments SET settings = ? WHERE id = ?"
SET_DECISION = "UPDATE decisions SET state = ?, due = ?, value = ? WHERE experiment = ? AND id = ?"
REVOKE_KEY = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
ERASE_METADATA = "DELETE FROM metadata WHERE experiment = ? AND at < ?"
PRUNE_EVENTS = "DELETE FROM events WHERE experiment = ? AND seq >= ? AND seq < ?"
PRUNE_DECISION = (
    "DELETE FROM decisions WHERE experiment = ? AND id = ?",
    "DELETE FROM parts WHERE experiment = ? AND decision = ?",
    "DELETE FROM metadata WHERE experiment = ? AND decision = ?",
)
PRUNE_SNAPSHOTS = "DELETE FROM snapshots WHERE experiment = ? AND seq < ?"

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
)


def in_order(statements: Iterable[Statement]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Yield each statement with the parameters of all of its rows."""
    gathered: dict[str, list[tuple[Any, ...]]] = {}
    for text, parameters in statements:
        gathered.setdefault(text, []).append(parameters)
    for text in IN_ORDER:
        if text in gathered:
            yield text, gathered.pop(text)
    if gathered:
        raise ValueError(f"a statement must be one of those in order, but got {next(iter(gathered))!r}")
