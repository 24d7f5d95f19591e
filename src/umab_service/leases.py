"""Which server owns which experiment, where several share a PostgreSQL database.

Each start of a server gets a number, which is its epoch, and a lease that ends unless it is renewed. Every commit
checks that the lease of its server has not ended, and holds it until the commit is done. So whoever has ended the lease
of another server knows that nothing of it is committed any more, and may own its experiments. All times are the
database's: clocks of servers may differ.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from umab_service.storage import DatabaseError, Found

if TYPE_CHECKING:
    import psycopg  # a server on SQLite does not need it


def _lease_seconds(text: str) -> float:
    """Return how long a lease lasts, as the environment says."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) or not 1.0 <= float(text) <= 3600.0:
        raise DatabaseError(f"UMAB_LEASE must be a number of seconds from 1 to 3600, but got {text!r:.40}")
    return float(text)


LEASE_SECONDS = _lease_seconds(os.environ.get("UMAB_LEASE", "10"))
"""How long the lease of a server lasts, unless it renews it."""

CONNECTION = "'umab ' || 'servers'::regclass::oid || '/' || {}"
"""What the connection is called on which a server commits, by the number of the server."""
_NOW = "extract(epoch FROM clock_timestamp())"
_HELD = f"WITH held AS MATERIALIZED (SELECT id FROM servers WHERE id = %(me)s AND until > {_NOW} FOR SHARE) "
"""What begins a statement that only the holder of a lease may run; nobody can end the lease before it is done."""


class Owner(NamedTuple):
    """Who owns an experiment."""

    experiment: int
    server: int | None
    address: str | None
    alive: bool
    created: bool


class _Line:
    """A connection for short questions, one after the other."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection]]) -> None:
        self._connect = connect
        self._connection: psycopg.AsyncConnection | None = None
        self._lock = asyncio.Lock()

    async def ask(self, query: str, parameters: Sequence[object] | Mapping[str, object]) -> list[Found]:
        """Return the rows of a question."""
        import psycopg

        try:
            async with self._lock:
                try:
                    return await self._ask(query, parameters)
                except psycopg.OperationalError:
                    if self._connection is None or not self._connection.closed:
                        raise
                    return await self._ask(query, parameters)  # the database may have started anew
        except psycopg.Error as error:
            raise DatabaseError(f"the database does not answer: {error}") from None

    async def _ask(self, query: str, parameters: Sequence[object] | Mapping[str, object]) -> list[Found]:
        if self._connection is None or self._connection.closed:
            self._connection = await self._connect()
        cursor = await self._connection.execute(query, parameters)
        return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            await self._connection.close()


class Leases:
    """The lease of this server, and what it takes to own experiments."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection]]) -> None:
        # Two lines: a lease must not end because many questions wait.
        self._questions, self._renewals = _Line(connect), _Line(connect)
        self.me = 0
        self.until = 0.0
        """Until when the lease lasts at least, by this machine's own steady clock."""

    async def ask(self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[Found]:
        """Return the rows of a short question, asked on a connection for that."""
        return await self._questions.ask(query, parameters)

    async def register(self, address: str) -> int:
        """Begin a new lease, and return its number."""
        query = f"INSERT INTO servers (address, until) VALUES (%s, {_NOW} + %s) RETURNING id"
        await self._forget_reserved()  # what servers that were killed have left
        began = time.monotonic()
        ((self.me,),) = await self.ask(query, (address, LEASE_SECONDS))
        self.until = began + LEASE_SECONDS
        return self.me

    async def renew(self) -> bool:
        """Renew the lease; return whether it had not ended."""
        query = f"UPDATE servers SET until = {_NOW} + %s WHERE id = %s AND until > {_NOW} RETURNING id"
        began = time.monotonic()
        held = bool(await self._renewals.ask(query, (LEASE_SECONDS, self.me)))
        if held:
            self.until = began + LEASE_SECONDS
        return held

    async def leave(self) -> None:
        """End the lease, so that others need not wait for its end."""
        try:
            await self.ask("UPDATE experiments SET owner = NULL WHERE owner = %s", (self.me,))
            await self._forget_reserved()
            await self.ask("DELETE FROM servers WHERE id = %s", (self.me,))
        finally:
            await self._questions.close()
            await self._renewals.close()

    async def announce(self, address: str) -> None:
        """Tell other servers where this one is; before, they give it no experiments and pass nothing on to it."""
        await self.ask("UPDATE servers SET address = %s WHERE id = %s", (address, self.me))

    async def owner(self, name: str) -> Owner | None:
        """Return who owns an experiment; None if there is none with this name."""
        rows = await self.ask(
            f"SELECT experiments.id, owner, address, coalesce(until > {_NOW}, false), settings IS NOT NULL "
            "FROM experiments LEFT JOIN servers ON servers.id = owner WHERE name = %s",
            (name,),
        )
        return Owner(*rows[0]) if rows else None

    async def reserve(self, name: str) -> int | None:
        """Reserve a name, and return the number of the experiment; None if the name is taken."""
        rows = await self.ask(
            f"{_HELD} INSERT INTO experiments (name, owner) SELECT %(name)s, id FROM held "
            "ON CONFLICT (name) DO NOTHING RETURNING id",
            {"name": name, "me": self.me},
        )
        return rows[0][0] if rows else None

    async def end_overdue(self) -> None:
        """End the leases that were not renewed, and let nobody own their experiments.

        Commits that hold a lease are ended; later ones fail. One that waits for a server that was stopped in its middle
        would never end by itself. A server owns nothing before it has a lease, and its number never comes back: so one
        that owns something and has none is gone for good.
        """
        await self.ask(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN servers ON until <= {_NOW} "
            f"AND application_name = {CONNECTION.format('servers.id')} "
            "WHERE usename = current_user AND datname = current_database()"  # a copy of a database has the same numbers
        )
        await self.ask(f"DELETE FROM servers WHERE until <= {_NOW}")
        gone = await self.ask(
            "SELECT DISTINCT owner FROM experiments WHERE owner IS NOT NULL "
            "AND NOT EXISTS (SELECT FROM servers WHERE servers.id = owner)"
        )
        if gone:
            ids = [number for (number,) in gone]
            await self.ask("UPDATE experiments SET owner = NULL WHERE owner = ANY(%s)", (ids,))
            await self._forget_reserved()

    async def _forget_reserved(self) -> None:
        """Let go of names that were reserved by servers that are gone, and never became experiments."""
        await self.ask("DELETE FROM experiments WHERE owner IS NULL AND settings IS NULL")

    async def release_reserved(self) -> None:
        """Let go of names that this server has reserved, while nothing of it is on its way to the database."""
        await self.ask("DELETE FROM experiments WHERE owner = %s AND settings IS NULL", (self.me,))

    async def claim(self, most: int, name: str | None = None) -> list[int]:
        """Own experiments that nobody owns, or a name that is only reserved; return their numbers."""
        only = "AND settings IS NOT NULL" if name is None else "AND name = %(name)s"
        rows = await self.ask(
            f"{_HELD} UPDATE experiments SET owner = held.id FROM held WHERE owner IS NULL AND experiments.id IN "
            f"(SELECT id FROM experiments WHERE owner IS NULL {only} ORDER BY id LIMIT %(most)s "
            "FOR UPDATE SKIP LOCKED) RETURNING experiments.id",
            {"me": self.me, "most": most, "name": name},
        )
        return sorted(number for (number,) in rows)

    async def servers(self) -> dict[int | None, int]:
        """Return how many experiments each server that answers owns, and under None how many nobody owns."""
        rows = await self.ask(
            "SELECT servers.id, count(settings) FROM servers LEFT JOIN experiments ON owner = servers.id "
            f"WHERE until > {_NOW} AND (address <> '' OR servers.id = %s) GROUP BY servers.id "
            "UNION ALL SELECT NULL, count(settings) FROM experiments WHERE owner IS NULL",
            (self.me,),
        )
        return dict(rows)

    async def owned(self) -> list[tuple[int, str]]:
        """Return number and name of the experiments that this server owns."""
        query = "SELECT id, name FROM experiments WHERE owner = %s AND settings IS NOT NULL ORDER BY id"
        return [(number, name) for number, name in await self.ask(query, (self.me,))]
