"""A PostgreSQL database, which several servers may share."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from umab_service.arrays import Column, ColumnDumper
from umab_service.leases import CONNECTION, LEASE_SECONDS, Leases
from umab_service.statements import IN_BULK, NEW_EVENT, SET_DECISION, Statement, in_order, last_of_each
from umab_service.storage import (
    DatabaseError,
    Found,
    InDoubt,
    LeaseLost,
    NotStored,
    Reader,
    Storage,
    check_version,
    to_run,
)

MOST_READERS = 4
"""How many connections read reports, exports and the log, besides the three that each server holds."""
POOL_SECONDS = 5.0
"""How long a report waits for a connection."""

FENCE = (
    "SELECT 1 / count(*) FROM (SELECT FROM servers WHERE id = %s AND until > extract(epoch FROM clock_timestamp()) "
    "FOR SHARE) AS held WHERE (SELECT count(*) FROM experiments WHERE id = ANY(%s) AND owner = %s) = %s"
)
"""Fails by a division by 0 unless the server holds its lease and owns the experiments that have events, and lets nobody
end it before the commit."""
NAMED = f"SELECT set_config('application_name', {CONNECTION.format('%s::bigint')}, false)"
"""Names the connection for commits, so that others find it once the lease has ended."""

logger = logging.getLogger("umab_service")


class PostgreSQL(Storage):
    """A database, with connections for commits, for short questions and for the lease, and a pool for threads."""

    shared = True

    def __init__(self, url: str) -> None:
        try:
            self._given = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise DatabaseError(
                f"a database must be like postgresql://user@host/name, but it is not: {error}"
            ) from None
        self.name = "postgresql://{}/{}".format(self._given.get("host", ""), self._given.get("dbname", ""))
        self._writing: psycopg.AsyncConnection | None = None
        self.leases = Leases(self._connected)

    # Connections.

    def _parameters(self) -> dict[str, Any]:
        # If a server stops in the middle of a commit, its lock on its lease goes before the lease ends.
        idle = f"-c idle_in_transaction_session_timeout={int(LEASE_SECONDS * 500)}"
        found = {
            "connect_timeout": 5,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "tcp_user_timeout": int(LEASE_SECONDS * 1000),
        }
        return {**found, **self._given, "options": f"{idle} {self._given.get('options', '')}", "autocommit": True}

    async def _connected(self) -> psycopg.AsyncConnection:
        found = await psycopg.AsyncConnection.connect(**self._parameters())
        try:
            _know_columns(found)
            cursor = await found.execute("SHOW synchronous_commit")
            (setting,) = await cursor.fetchone() or ("",)
            if setting in ("off", "local"):  # the others wait for the disk here, and for standbys as asked
                await found.execute("SET synchronous_commit = on")
        except BaseException:  # also if a server stops meanwhile
            await found.close()
            raise
        return found

    def open(self, *, to_write: bool = True) -> None:
        """Bring the tables up to date, and open the pool."""
        try:
            with psycopg.connect(**self._parameters()) as connection:
                if to_write:
                    _migrate(connection)
                else:
                    check_version("postgres", _version(connection))
                if connection.execute("SHOW fsync").fetchone() == ("off",):
                    logger.warning("the database runs with fsync=off: what it has acknowledged may be lost in a crash")
            self._pool = ConnectionPool(
                kwargs=self._parameters(),
                min_size=1,
                max_size=MOST_READERS,
                timeout=POOL_SECONDS,
                open=True,
                configure=_know_columns,
            )
        except psycopg.Error as error:
            raise DatabaseError(f"the database {self.name!r} cannot be opened: {error}") from None

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()

    async def start(self, address: str) -> None:
        """Connect for commits, and become a server with a lease."""
        try:
            if self._writing is not None:  # of a life before
                await self._writing.close()
            self._writing = await self._connected()
            self.server = await self.leases.register(address)
            await self._writing.execute(NAMED, (self.server,))
        except psycopg.Error as error:
            raise DatabaseError(f"the database {self.name!r} cannot be used: {error}") from None

    async def reconnect(self) -> None:
        """Connect for commits again, before learners are read: they must not be ahead of what is committed to."""
        if self._writing is None or self._writing.closed:
            self._writing = await self._connected()
            await self._writing.execute(NAMED, (self.server,))

    async def stop(self) -> None:
        """Give the lease back, and disconnect."""
        try:
            await self.leases.leave()
        except DatabaseError as error:
            logger.warning("the lease could not be given back, and ends by itself: %s", error)
        if self._writing is not None:
            await self._writing.close()

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold nothing: leases keep servers apart."""
        return contextlib.nullcontext()

    # Reading.

    @contextlib.contextmanager
    def reader(self) -> Iterator[Reader]:
        """Return a connection of the pool; wait for one if all are in use, but not for long."""
        try:
            with self._pool.connection() as connection:
                yield _Reader(connection)
        except PoolTimeout:
            raise DatabaseError(f"the database {self.name!r} has no connection left; try again") from None
        except psycopg.Error as error:
            raise DatabaseError(f"the database {self.name!r} cannot be read: {error}") from None

    @contextlib.contextmanager
    def consistent(self) -> Iterator[Reader]:
        """Read in one transaction that sees one moment."""
        with self.reader() as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # who writes the copy may be slow
            yield reader
            reader.execute("COMMIT")

    def fill(self, tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[object]]]]) -> None:
        """Copy in one transaction; numbers of experiments go on after those that were copied."""
        try:
            with self._pool.connection() as connection, connection.transaction():
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                for table, columns, rows in tables:
                    with connection.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
                        for row in rows:
                            copy.write_row(row)
                connection.execute(
                    "SELECT setval(pg_get_serial_sequence('experiments', 'id'), greatest(1, max(id))) FROM experiments"
                )
        except psycopg.Error as error:
            raise DatabaseError(f"the database {self.name!r} cannot be written: {error}") from None

    def n_servers(self) -> int:
        """Count the leases that have not ended."""
        with self.reader() as reader:
            query = "SELECT count(*) FROM servers WHERE until > extract(epoch FROM clock_timestamp())"
            return int(reader.execute(query).fetchone()[0])

    def version(self) -> int:
        """Read it from its table."""
        with self.reader() as reader:
            return int(reader.execute("SELECT version FROM umab_version").fetchone()[0])

    def now(self) -> Reader:
        """Refuse: the event loop must not wait for another process."""
        raise NotImplementedError("a shared database cannot be read at once")

    async def soon(self, query: str, parameters: Sequence[object] = ()) -> list[Found]:
        """Ask on the connection for short questions."""
        return await self.leases.ask(translated(query), parameters)

    async def decisions(self, keys: Sequence[tuple[int, str]]) -> list[Found]:
        """Return decisions, by the numbers of their experiments and their ids."""
        return await self.leases.ask(_DECISIONS, _columns(_KEY, keys))

    async def parts(self, keys: Sequence[tuple[int, str]]) -> list[Found]:
        """Return the parts of the sums of decisions."""
        return await self.leases.ask(_PARTS, _columns(_KEY, keys))

    # Writing.

    async def commit(self, statements: Sequence[Statement]) -> None:
        """Commit, if the server still has its lease."""
        try:
            connection = self._writing
            if connection is None or connection.closed:
                raise NotStored("the connection to the database is lost")
            changed = list({row[0] for text, row in statements if text == NEW_EVENT})
            try:
                async with connection.pipeline():  # one round trip for all of it
                    await connection.execute("BEGIN")
                    await connection.execute(FENCE, (self.server, Column("bigint", changed), self.server, len(changed)))
                    for text, parameters in _together(statements):
                        await connection.execute(text, parameters)
                    await connection.execute("COMMIT")
            except BaseException:  # also a row that could not be written as an array: the transaction is open
                await self._rollback(connection)
                raise
        except psycopg.errors.DivisionByZero:
            raise LeaseLost("this server has lost its lease") from None
        except psycopg.Error as error:  # it may name hosts and users, which callers need not know
            # COMMIT is sent with the rest: if no statement was refused, it may have been done, and its answer lost.
            refused = error.sqlstate is not None and error.sqlstate[:2] not in ("08", "57")
            raise (NotStored if refused else InDoubt)("the database failed; the server's log says how") from error

    async def _rollback(self, connection: psycopg.AsyncConnection) -> None:
        """End a transaction that has failed. A connection that is in doubt is given up."""
        try:
            await connection.execute("ROLLBACK")
        except psycopg.Error:
            await connection.close()

    def write(self, statements: Iterable[Statement]) -> None:
        """Commit without a lease: what no experiment depends on."""
        try:
            with self._pool.connection() as connection, connection.transaction():
                for text, parameters in _together(list(statements)):
                    connection.execute(text, parameters)
        except psycopg.Error as error:
            raise DatabaseError(f"the database {self.name!r} cannot be written: {error}") from None


_DECISIONS = (
    "SELECT experiment, id, made, request, answer, draw, state, due, value FROM decisions "
    "JOIN unnest(%s::bigint[], %s::text[]) AS asked (number, identity) ON experiment = number AND id = identity"
)
_PARTS = (
    "SELECT experiment, decision, key, value, late FROM parts "
    "JOIN unnest(%s::bigint[], %s::text[]) AS asked (number, identity) ON experiment = number AND decision = identity"
)


_KEY = "bigint", "text"


def _columns(kinds: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Column]:
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return [Column(kind, values) for kind, values in zip(kinds, columns, strict=True)]


def _together(statements: Sequence[Statement]) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield what to run, with many rows at once where that can be done."""
    for text, rows in in_order(statements):
        if text in IN_BULK:
            bulk, kinds = IN_BULK[text]
            yield bulk, _columns(kinds, last_of_each(rows) if text == SET_DECISION else rows)
        else:
            for row in rows:
                yield translated(text), row


@functools.lru_cache(maxsize=1000)
def translated(query: str) -> str:
    """Return a query as PostgreSQL's driver wants it."""
    return query.replace("%", "%%").replace("?", "%s")


def _know_columns(connection: psycopg.Connection | psycopg.AsyncConnection) -> None:
    connection.adapters.register_dumper(Column, ColumnDumper)


class _Reader:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, query: str, parameters: Sequence[object] = (), /) -> psycopg.Cursor:
        return self._connection.execute(translated(query), parameters)


def _version(connection: psycopg.Connection) -> int:
    """Return the version of the tables; 0 if there are none."""
    if connection.execute("SELECT to_regclass('umab_version')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT version FROM umab_version").fetchone()
    return 0 if row is None else int(row[0])


def _migrate(connection: psycopg.Connection) -> None:
    """Bring a database up to date. A lock keeps other servers waiting, and all of it happens or nothing.

    If nothing is to be done, no right to create tables is needed.
    """
    if not to_run("postgres", _version(connection)):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('umab migrations'))")
        connection.execute("CREATE TABLE IF NOT EXISTS umab_version (version INTEGER NOT NULL)")
        row = connection.execute("SELECT version FROM umab_version").fetchone()
        if row is None:
            connection.execute("INSERT INTO umab_version VALUES (0)")
        for number, script in to_run("postgres", 0 if row is None else row[0]):
            connection.execute(script)
            connection.execute("UPDATE umab_version SET version = %s", (number,))
