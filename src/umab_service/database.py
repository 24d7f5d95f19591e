"""The database: one SQLite file, its migrations, and its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

BUSY_SECONDS = 5.0


class DatabaseError(OSError):
    """The database cannot be used; the message says why."""


def path_of(url: str) -> Path:
    """Return the file of a database, ``sqlite:///relative`` or ``sqlite:////absolute``."""
    prefix = "sqlite:///"
    if not url.startswith(prefix) or len(url) == len(prefix):
        raise DatabaseError(f"a database must be given as sqlite:///path, but got {url!r}")
    return Path(url[len(prefix) :])


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Return a connection; one that writes has its commits on disk before they return."""
    try:
        if not readonly:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let others read a new file
        found = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        found.execute("PRAGMA query_only = 1" if readonly else "PRAGMA journal_mode = WAL")
        found.execute("PRAGMA synchronous = FULL")
        # In pages, 16 MB in all: those that change often are then copied once for many commits.
        found.execute("PRAGMA wal_autocheckpoint = 4000")
        found.execute("PRAGMA cache_size = -65536")  # 64 MB, so that decisions of the last hours are found in memory
        found.execute("PRAGMA foreign_keys = OFF")  # the log's order keeps them; checking them would double the time
    except (sqlite3.Error, OSError) as error:
        raise DatabaseError(f"the database {str(path)!r} cannot be opened: {error}") from None
    return found


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a database: one process may use it at a time, since learners live in memory."""
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DatabaseError(f"the lock {str(lock)!r} cannot be opened: {error}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DatabaseError(
                f"a database must be used by one process at a time, but another one uses {str(path)!r}"
            ) from None
        yield
    finally:
        os.close(descriptor)


def migrations() -> list[str]:
    """Return the migrations in their order; number 1 comes first."""
    folder = resources.files(__package__) / "migrations"
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database up to date, each migration in a transaction; refuse one that a newer server has written."""
    known = migrations()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(known):
        raise DatabaseError(
            f"the database must be of version {len(known)} or older, but it is of version {version}: a newer server "
            "has written it"
        )
    for number in range(version + 1, len(known) + 1):
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{known[number - 1]}\nPRAGMA user_version = {number};\nCOMMIT;")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise DatabaseError(f"migration {number} of the database failed: {error}") from None
