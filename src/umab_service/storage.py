"""What the service asks of a database, whichever it is."""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from importlib import resources
from typing import Any, ClassVar, Protocol, TypeAlias

from umab_service.statements import Statement

READ_AT_ONCE = 20_000
"""How many rows are in memory at a time."""
MOST_READ = 16 << 20
"""How large they may be together, in bytes; a single one may be larger."""

UNFINISHED = -1
"""The version of a copy that is not complete."""


class DatabaseError(OSError):
    """The database cannot be used; the message says why."""


class NotStored(Exception):
    """A commit has failed, so that nothing of it is on disk; the message says why."""


class InDoubt(NotStored):
    """A commit has failed at its end: after a crash, it may turn out to be on disk."""


class LeaseLost(NotStored):
    """The lease of this server has ended, so that others may own its experiments now."""


Found: TypeAlias = tuple[Any, ...]
"""A row that a query has found; its types are those of the columns that were asked for."""


class Rows(Protocol):
    """What a query has found."""

    def fetchone(self) -> Any:
        """Return the next row; None if there is none."""

    def fetchall(self) -> list[Found]:
        """Return all rows."""


class Reader(Protocol):
    """Something that runs queries, which have a ``?`` for each parameter."""

    def execute(self, query: str, parameters: Sequence[object] = ..., /) -> Rows:
        """Run a query."""


class Storage(ABC):
    """A database with its log. Queries are the same for all of them: plain SQL, with ``?`` for each parameter."""

    name: str
    """What to call it in messages; no password is in it."""
    shared: ClassVar[bool]
    """Whether several servers may use it, each with experiments of its own, and commits take their time."""
    server: int = 0
    """The number of this server among all that ever used the database, if it is shared."""

    @abstractmethod
    def open(self, *, to_write: bool = True) -> None:
        """Connect, and bring the tables up to date; to read only, refuse a database that would need that."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    @abstractmethod
    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of a database that only one process may use at a time; nothing to hold if it is shared."""

    @abstractmethod
    def reader(self) -> contextlib.AbstractContextManager[Reader]:
        """Return something that reads, for a thread of its own."""

    @abstractmethod
    def consistent(self) -> contextlib.AbstractContextManager[Reader]:
        """Return something that reads all of it as it is at one moment, whatever is written meanwhile."""

    @abstractmethod
    def fill(self, tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[object]]]]) -> None:
        """Store the rows of tables, with their columns, all of them or none."""

    @abstractmethod
    def n_servers(self) -> int:
        """Return how many servers use it now; of one that is not shared, whoever holds its lock knows."""

    @abstractmethod
    def version(self) -> int:
        """Return how many migrations it has had."""

    @abstractmethod
    def now(self) -> Reader:
        """Return something that reads at once, in the event loop; a shared database cannot do that."""

    @abstractmethod
    async def soon(self, query: str, parameters: Sequence[object] = ()) -> list[Found]:
        """Return the rows of a short query."""

    async def decisions(self, keys: Sequence[tuple[int, str]]) -> list[Found]:
        """Return decisions of a shared database, by the numbers of their experiments and their ids."""
        raise NotImplementedError

    async def parts(self, keys: Sequence[tuple[int, str]]) -> list[Found]:
        """Return the parts of the sums of decisions of a shared database."""
        raise NotImplementedError

    @abstractmethod
    def commit(self, statements: Sequence[Statement]) -> Awaitable[None] | None:
        """Store statements together, on disk when it is done; raise `NotStored` if nothing of them is stored.

        `InDoubt` if nobody knows, because the failure came when the database was told to commit.
        """

    @abstractmethod
    def write(self, statements: Iterable[Statement]) -> None:
        """Store statements before the server starts, or without it."""


def n_fitting(sizes: Iterable[int], most: int = MOST_READ) -> int:
    """Return how many of the first rows can be read at once: at least one, else as many as the bound allows."""
    return max(1, sum(1 for total in itertools.accumulate(sizes) if total <= most))


def migrations(kind: str) -> list[str]:
    """Return the migrations of a kind of database in their order; number 1 comes first."""
    folder = resources.files(__package__) / "migrations" / kind
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def to_run(kind: str, version: int) -> list[tuple[int, str]]:
    """Return the migrations that a database still needs; refuse one that a newer server has written."""
    known = migrations(kind)
    if version == UNFINISHED:
        raise DatabaseError(
            "a database must be complete, but this one is a copy that was stopped before its end: make it again"
        )
    if version > len(known):
        raise DatabaseError(
            f"the database must be of version {len(known)} or older, but it is of version {version}: a newer server "
            "has written it"
        )
    return [(number, known[number - 1]) for number in range(version + 1, len(known) + 1)]


def check_version(kind: str, version: int) -> None:
    """Refuse a database that is not up to date."""
    if to_run(kind, version):
        raise DatabaseError(
            f"the database must be of version {len(migrations(kind))} to be read, but it is of version {version}: run "
            "umab db migrate, or start a server"
        )
