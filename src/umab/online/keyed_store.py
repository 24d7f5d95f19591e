"""Where the learners of many keys are while they are not in memory: a temporary SQLite database.

It always holds all keys. A saved file is a copy of it, and a loaded one is copied into it, so that nothing but a save
changes what is saved. The database is in a file without a name, which is gone with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple, TypedDict

from umab._support.files import write_atomically
from umab.online import forks
from umab.online.choice import Label
from umab.online.guarded import Guarded
from umab.online.saved import read_labels

FORMAT, VERSION = "umab.Learners", 1
FORKED, FRESH = 1, 2
"""Why a learner on disk becomes a learner of its own when it comes back: a fork, or a load with ``fresh=True``."""

_SCHEMA = """
CREATE TABLE about (content TEXT NOT NULL);
CREATE TABLE changes (version INTEGER PRIMARY KEY, arms TEXT NOT NULL);
CREATE TABLE learners (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, n_open INTEGER NOT NULL,
    parts INTEGER NOT NULL, core TEXT
);
CREATE INDEX learners_open ON learners (n_open) WHERE n_open > 0;
"""
_COLUMNS = {"about": 1, "changes": 2, "learners": 6}


def _schema_of(database: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Return what is defined in a database."""
    return database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


def _schema_of_ours() -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCHEMA)
        return _schema_of(database)


class About(TypedDict):
    """What a file says about all learners in it."""

    format: str
    version: int
    policy: Mapping[str, object]
    maximize: bool
    seed: int | None


class Row(NamedTuple):
    """A learner on disk."""

    version: int
    """The latest change of arms that it has made."""
    n_open: int
    parts: int
    """0, `FORKED` or `FRESH`."""
    core: str | None
    """The learner as JSON; None if it was never evicted or saved."""


class Store:
    """The database, the changes of arms, and the path of the file that is saved."""

    def __init__(self, database: sqlite3.Connection, path: str | os.PathLike[str] | None) -> None:
        self.path = path
        self._handed_on: IO[str] | None = None  # all rows, for a child that is about to be forked
        self._renew()
        self._use(database)
        _all.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._loading, self._saving = Guarded(), Guarded()
        self._is_closed = self.is_forking = False

    def _use(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._release = weakref.finalize(self, _close, database)
        version, arms = database.execute("SELECT version, arms FROM changes ORDER BY version DESC LIMIT 1").fetchone()
        self.version: int = version
        """The number of changes of arms."""
        self.arms = read_labels(json.loads(arms))
        self.n_keys: int = database.execute("SELECT COUNT(*) FROM learners").fetchone()[0]

    @classmethod
    def new(cls, about: About, arms: tuple[Label, ...], path: str | os.PathLike[str] | None) -> Store:
        """Return a store without keys."""
        content = json.dumps(about, allow_nan=False)
        with forks.databases:
            database = _temporary()
            database.executescript(_SCHEMA)
            database.execute("INSERT INTO about VALUES (?)", (content,))
            database.execute("INSERT INTO changes VALUES (0, ?)", (json.dumps(arms),))
            return cls(database, path)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, fresh: bool) -> tuple[Store, About]:
        """Return a copy of a file, and what it says about all learners."""
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {os.fspath(path)!r} to load learners from")
        with forks.databases:
            database = _temporary()
            try:
                with contextlib.closing(
                    sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
                ) as source:
                    source.backup(database)
                if _schema_of(database) != _schema_of_ours():  # a file may hold triggers, which would run here
                    raise ValueError("its tables must be those of Learners")
                about: About = json.loads(database.execute("SELECT content FROM about").fetchone()[0])
                if about["format"] != FORMAT or about["version"] != VERSION:
                    raise ValueError(f"version must be {VERSION}, but got version={about['version']!r}")
                if fresh:
                    about["seed"] = None
                    database.execute("UPDATE about SET content = ?", (json.dumps(about),))
                    database.execute("UPDATE learners SET n_open = 0, parts = ?", (FRESH,))
                return cls(database, None if fresh else path), about
            except (sqlite3.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                database.close()
                raise ValueError(f"a file of learners must be as Learners.save wrote it: {error}") from None

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock, and return the database."""
        with self._lock, forks.databases:
            if self._is_closed:
                raise ValueError("learners must not be used after close(), nor in a child if the fork had no space")
            yield self._database

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Hold the lock while learners come and go; a signal handler that comes in between is refused."""
        with self.opened(), self._loading._changing():
            yield

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Let one save end before the next begins, so that an older state never replaces a newer one."""
        with self._saving._changing():
            yield

    def add(self, key: str) -> None:
        """Add a key, if it is new."""
        with self.opened() as database:
            text = "INSERT OR IGNORE INTO learners (key, version, n_open, parts) VALUES (?, ?, 0, 0)"
            self.n_keys += database.execute(text, (key, self.version)).rowcount

    def remove(self, key: str) -> None:
        """Remove a key."""
        with self.opened() as database:
            self.n_keys -= database.execute("DELETE FROM learners WHERE key = ?", (key,)).rowcount

    def get(self, key: str) -> Row | None:
        """Return what is stored for a key."""
        with self.opened() as database:
            query = "SELECT version, n_open, parts, core FROM learners WHERE key = ?"
            row = database.execute(query, (key,)).fetchone()
            return None if row is None else Row(*row)

    def put(self, key: str, version: int, n_open: int, core: str) -> None:
        """Store a learner."""
        with self.opened() as database:
            text = "UPDATE learners SET version = ?, n_open = ?, parts = 0, core = ? WHERE key = ?"
            database.execute(text, (version, n_open, core, key))

    def keys(self, after: int) -> list[tuple[int, str]]:
        """Return the next keys in the order of creation, with their numbers."""
        with self.opened() as database:
            query = "SELECT id, key FROM learners WHERE id > ? ORDER BY id LIMIT 500"
            return database.execute(query, (after,)).fetchall()

    def n_open(self) -> int:
        """Return the number of open choices that are stored."""
        with self.opened() as database:
            return int(database.execute("SELECT TOTAL(n_open) FROM learners WHERE n_open > 0").fetchone()[0])

    def change_arms(self, arms: tuple[Label, ...]) -> None:
        """Note a change of arms."""
        with self.opened() as database:
            database.execute("INSERT INTO changes VALUES (?, ?)", (self.version + 1, json.dumps(arms)))
            self.version, self.arms = self.version + 1, arms

    def changes(self, after: int) -> list[tuple[int, tuple[Label, ...]]]:
        """Return the changes of arms after a version, and the version that each leads to."""
        with self.opened() as database:
            query = "SELECT version, arms FROM changes WHERE version > ? ORDER BY version"
            found = database.execute(query, (after,)).fetchall() if after < self.version else []
            return [(version, read_labels(json.loads(arms))) for version, arms in found]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace a file by a copy of the database. Others may go on as soon as there is a first copy."""
        folder = tempfile.mkdtemp(prefix="umab-")  # not a TemporaryDirectory, which a forked child would remove
        try:
            copy = Path(folder, "copy")
            with self.opened() as database, contextlib.closing(sqlite3.connect(copy)) as copied:
                copied.execute("PRAGMA synchronous = OFF")
                database.backup(copied)
            with open(copy, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                write_atomically(path, content)  # type: ignore[arg-type]  # it is only written, and not read as a whole
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove the database."""
        with self._lock:
            self._is_closed = True
            self._release()

    def before_fork(self) -> None:
        """Copy all rows for the child. Nothing is evicted until it has its memory, so both fit together."""
        with self._lock, forks.databases:
            self.is_forking = True
            if self._is_closed:
                return
            handed_on = tempfile.TemporaryFile("w+", encoding="utf-8")
            for table in _COLUMNS:
                for row in self._database.execute(f"SELECT * FROM {table}"):
                    handed_on.write(json.dumps([table, *row]) + "\n")
            handed_on.flush()
            self._handed_on = handed_on

    def after_fork_in_parent(self) -> None:
        """Go on."""
        rows, self._handed_on, self.is_forking = self._handed_on, None, False
        if rows is not None:
            rows.close()

    def after_fork_in_child(self) -> None:
        """Start a database of its own. The file that is saved belongs to the parent."""
        rows, self._handed_on, self.path = self._handed_on, None, None
        self._release.detach()
        _of_parents.append(self._database)
        self._renew()
        if rows is None:  # it was closed, or the disk is full
            self._is_closed = True
            return
        database = _temporary()
        database.executescript(_SCHEMA)
        with rows:
            rows.seek(0)
            for table, *row in map(json.loads, rows):
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * _COLUMNS[table])})", row)
        database.execute("UPDATE learners SET n_open = 0, parts = MAX(parts, ?)", (FORKED,))
        self._use(database)


def _close(database: sqlite3.Connection) -> None:
    with forks.databases:
        database.close()


def _temporary() -> sqlite3.Connection:
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = MEMORY")
    database.execute("PRAGMA synchronous = OFF")
    return database


_all: weakref.WeakSet[Store] = weakref.WeakSet()
_of_parents: list[sqlite3.Connection] = []
"""Connections that belong to a parent process. A child must neither use nor close them."""


def _before_fork() -> None:
    for store in list(_all):
        store.before_fork()


def _after_fork_in_parent() -> None:
    for store in list(_all):
        store.after_fork_in_parent()


def _after_fork_in_child() -> None:
    for store in list(_all):
        store.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    # `forks` has registered before. So this copies first, and then all learners are held; no thread waits for both.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
