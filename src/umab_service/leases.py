"""Which server owns which experiment, where several share a PostgreSQL database.

Each start of a server gets a number, which is its epoch, and a lease that ends unless it is renewed. Every commit
checks that the lease of its server has not ended, and holds it until the commit is done. So whoever has ended the lease
of another server knows that nothing of it is committed any more, and may own its experiments. All times are the
database's: clocks of servers may differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import psycopg

from umab_service.storage import DatabaseError

LEASE_SECONDS = 10.0
"""How long the lease of a server lasts, unless it renews it."""

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


class Leases:
    """The lease of this server, and what it takes to own experiments."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()
        self.me = 0

    async def ask(self, query: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short question, asked on a connection of its own."""
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

    async def _ask(self, query: str, parameters: Any) -> list[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = await self._connect()
        cursor = await self._connection.execute(query, parameters)
        return await cursor.fetchall() if cursor.description else []

    async def register(self, address: str) -> int:
        """Begin a new lease, and return its number."""
        query = f"INSERT INTO servers (address, until) VALUES (%s, {_NOW} + %s) RETURNING id"
        ((self.me,),) = await self.ask(query, (address, LEASE_SECONDS))
        return self.me

    async def renew(self) -> bool:
        """Renew the lease; return whether it had not ended."""
        query = f"UPDATE servers SET until = {_NOW} + %s WHERE id = %s AND until > {_NOW} RETURNING id"
        return bool(await self.ask(query, (LEASE_SECONDS, self.me)))

    async def leave(self) -> None:
        """End the lease, so that others need not wait for its end."""
        if self._connection is not None and not self._connection.closed:
            await self.ask("UPDATE experiments SET owner = NULL WHERE owner = %s", (self.me,))
            await self.ask("DELETE FROM servers WHERE id = %s", (self.me,))
            await self._connection.close()

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

        Commits that hold a lease go first; later ones fail. A server owns nothing before it has a lease, and its number
        never comes back: so one that owns something and has none is gone for good.
        """
        await self.ask(f"DELETE FROM servers WHERE until <= {_NOW}")
        gone = await self.ask(
            "SELECT DISTINCT owner FROM experiments WHERE owner IS NOT NULL "
            "AND NOT EXISTS (SELECT FROM servers WHERE servers.id = owner)"
        )
        if gone:
            ids = [number for (number,) in gone]
            await self.ask("UPDATE experiments SET owner = NULL WHERE owner = ANY(%s)", (ids,))

    async def claim(self, most: int, name: str | None = None) -> list[int]:
        """Own experiments that nobody owns; return their numbers."""
        only = "" if name is None else "AND name = %(name)s"
        rows = await self.ask(
            f"{_HELD} UPDATE experiments SET owner = held.id FROM held WHERE owner IS NULL AND experiments.id IN "
            f"(SELECT id FROM experiments WHERE owner IS NULL {only} ORDER BY id LIMIT %(most)s "
            "FOR UPDATE SKIP LOCKED) RETURNING experiments.id",
            {"me": self.me, "most": most, "name": name},
        )
        return sorted(number for (number,) in rows)

    async def servers(self) -> dict[int | None, int]:
        """Return how many experiments each living server owns, and under None how many nobody owns."""
        rows = await self.ask(
            f"SELECT id, 0 FROM servers WHERE until > {_NOW} "
            "UNION ALL SELECT owner, count(*) FROM experiments GROUP BY owner"
        )
        found: dict[int | None, int] = {}
        for server, count in rows:
            found[server] = found.get(server, 0) + count
        return found

    async def owned(self) -> list[tuple[int, str]]:
        """Return number and name of the experiments that this server owns."""
        query = "SELECT id, name FROM experiments WHERE owner = %s AND settings IS NOT NULL ORDER BY id"
        return [(number, name) for number, name in await self.ask(query, (self.me,))]
