"""A database in one SQLite file, for one server."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from umab_service.statements import Statement, in_order
from umab_service.storage import (
    UNFINISHED,
    DatabaseError,
    Found,
    InDoubt,
    NotStored,
    Reader,
    Storage,
    check_version,
    migrations,
    to_run,
)

BUSY_SECONDS = 5.0
NOT_WRITTEN = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR_WRITE}
"""Errors of a commit whose last frame is not in the write-ahead log, so that it cannot come back after a crash."""


class InUse(DatabaseError):
    """Another process uses the database."""


class SQLite(Storage):
    """A file. One connection reads and writes: another one would read each page again after every commit."""

    shared = False

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self.connection: sqlite3.Connection
        self._sealed = False
        self._held = contextlib.ExitStack()

    @classmethod
    def of(cls, url: str) -> SQLite:
        """Return the database of a URL."""
        return cls(path_of(url))

    def open(self, *, to_write: bool = True) -> None:
        """Open the file; to write, it is made if it is not there."""
        self._sealed = not to_write and is_sealed(self.path)
        if not to_write and not self._sealed:
            check_name(self.path)
        self.connection = connect(self.path, readonly=not to_write, sealed=self._sealed)
        try:
            if self._sealed:  # so that it is not written meanwhile, under another name
                self._held.enter_context(_held(self.path, self.path, shared=True))
            if to_write:
                migrate(self.connection)
            else:
                check_version("sqlite", self.version())
        except (DatabaseError, sqlite3.Error):
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._held.close()

    def begin_copy(self) -> None:
        """Have the file refused by everybody until it is made whole."""
        self.connection.execute(f"PRAGMA user_version = {UNFINISHED}")

    def make_whole(self) -> None:
        """Leave one file that has everything, and needs no write-ahead log beside it to be read."""
        try:
            self.connection.execute(f"PRAGMA user_version = {len(migrations('sqlite'))}")
            (mode,) = self.connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.Error as error:
            mode = error
        if mode != "delete":
            raise DatabaseError(f"the database {self.name!r} cannot be completed: {mode}")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock file beside the database, and the database itself."""
        return locked(self.path)

    @contextlib.contextmanager
    def reader(self) -> Iterator[Reader]:
        """Open the file once more, to read it."""
        reader = connect(self.path, readonly=True, sealed=self._sealed)
        try:
            yield reader
        except sqlite3.Error as error:
            advice = "" if isinstance(error, sqlite3.OperationalError) else "; restore a backup"  # it is damaged
            raise DatabaseError(f"the database {self.name!r} cannot be read: {error}{advice}") from None
        finally:
            reader.close()

    @contextlib.contextmanager
    def consistent(self) -> Iterator[Reader]:
        """Read in one transaction."""
        with self.reader() as reader:
            reader.execute("BEGIN")
            yield reader

    def fill(self, tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[object]]]]) -> None:
        """Insert in one transaction."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            for table, columns, rows in tables:
                text = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
                self.connection.executemany(text, rows)
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise DatabaseError(f"the database {self.name!r} cannot be written: {error}") from None
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def n_servers(self) -> int:
        """Return none: whoever asks holds the lock."""
        return 0

    def version(self) -> int:
        """Read it from the head of the file."""
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def now(self) -> Reader:
        """Return the connection that writes, too."""
        return self.connection

    async def soon(self, query: str, parameters: Sequence[object] = ()) -> list[Found]:
        """Read at once."""
        return self.connection.execute(query, parameters).fetchall()

    def commit(self, statements: Sequence[Statement]) -> None:
        """Commit at once, and wait for the disk."""
        connection, ending = self.connection, False
        try:
            connection.execute("BEGIN IMMEDIATE")
            for text, rows in in_order(statements):
                connection.executemany(text, rows)
            ending = True
            connection.execute("COMMIT")
        except BaseException as error:  # also a number that SQLite cannot hold: the transaction is open
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                in_doubt = ending and getattr(error, "sqlite_errorcode", None) not in NOT_WRITTEN
                raise (InDoubt if in_doubt else NotStored)(str(error)) from None
            raise

    def write(self, statements: Iterable[Statement]) -> None:
        """Commit, too."""
        try:
            self.commit(list(statements))
        except NotStored as error:
            raise DatabaseError(f"the database {self.name!r} cannot be written: {error}") from None


def path_of(url: str) -> Path:
    """Return the file of a database, ``sqlite:///relative`` or ``sqlite:////absolute``."""
    prefix = "sqlite:///"
    if not url.startswith(prefix) or len(url) == len(prefix):
        raise DatabaseError(f"a database must be given as sqlite:///path or postgresql://…, but got {url!r}")
    return Path(url[len(prefix) :])


def is_sealed(path: Path) -> bool:
    """Whether a database cannot be written here, nor anything beside it, and has no write-ahead log.

    SQLite reads such a file only if it is told that nobody changes it: else it would write an index of the log.
    """
    path = path.resolve()
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return not writable and not log_of(path).exists()


def log_of(path: Path) -> Path:
    """Return the write-ahead log of a database."""
    return path.with_name(path.name + "-wal")


def connect(path: Path, *, readonly: bool = False, sealed: bool = False) -> sqlite3.Connection:
    """Return a connection; one that writes has its commits on disk before they return."""
    try:
        if not readonly:
            with contextlib.suppress(FileExistsError):  # SQLite would let others read a new file
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        found = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}{'&immutable=1' if sealed else ''}",
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
    """Hold the locks of a database: one process may use it at a time, since learners live in memory.

    The lock file keeps out who has the same path, even where no database is yet. The file itself is locked too, since
    it may have other names: links and mounts.
    """
    with name_locked(path), _held(path, path):
        yield


def name_locked(path: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the lock file beside a database, whether there is a database or not."""
    return _held(lock_of(path), path)


def check_name(path: Path) -> None:
    """Refuse a database that a server has opened under another name, such as a hard link or a mount.

    Its newest commits are in the write-ahead log beside that name, where nobody who comes by this name finds them.
    """
    if _is_held(path) and not _is_held(lock_of(path)):
        raise DatabaseError(
            f"a database that is in use must be read under the name under which it is in use, but {str(path)!r} is "
            "another one, such as a hard link or a mount: its newest changes are not beside it"
        )


def _is_held(file: Path) -> bool:
    """Whether somebody holds a file of a database alone. Ask before it is opened: see `_held`."""
    try:
        with _held(file, file, shared=True):
            return False
    except InUse:
        return True
    except DatabaseError:  # it is not there, or may not be read
        return False


def lock_of(path: Path) -> Path:
    """Return the lock file of a database; where a symbolic link leads to the database, it is beside the database."""
    path = path.resolve()
    return path.with_name(path.name + ".lock")


@contextlib.contextmanager
def _held(file: Path, path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a file of a database by `flock`, which SQLite does not use.

    Keep the descriptor open for as long as the database: to close it drops the locks of SQLite, too.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DatabaseError(
            f"the {'database' if file is path else 'lock'} {str(file)!r} cannot be opened: {error}"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), os.stat(file)):
                raise BlockingIOError  # whoever had it has put another file in its place
        except (BlockingIOError, FileNotFoundError):
            raise InUse(
                f"a database must be used by one process at a time, but another one uses {str(path)!r}"
            ) from None
        except OSError as error:
            raise DatabaseError(f"{str(file)!r} cannot be locked: {error}") from None
        yield
    finally:
        os.close(descriptor)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database up to date, each migration in a transaction; refuse one that a newer server has written."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, script in to_run("sqlite", version):
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise DatabaseError(f"migration {number} of the database failed: {error}") from None
