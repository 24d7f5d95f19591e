"""Writing: requests that come together are committed together."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from umab_service.statements import Statement, in_order

LONGEST_WAIT = 0.003
"""How long a commit waits for more requests at most, in seconds."""


class Job(NamedTuple):
    """Statements that are committed together, and who waits for it."""

    statements: Sequence[Statement]
    done: asyncio.Future[None]


class NotStored(Exception):
    """A commit has failed, so that nothing of it is on disk; the message says why."""


class Writer:
    """Commits jobs in the order in which they come, as many at a time as there are.

    A commit waits as long as every turn of the loop brings another job. Then it runs in the loop itself, which waits
    for the disk. A thread that committed while the loop takes requests would be slower: both would take turns with the
    interpreter, which costs more than the disk, and commits would be smaller.

    If a commit fails, all of its jobs fail, since they were made from a state that does not exist on disk;
    `on_failure` is called, and nothing is written until `resume`.
    """

    def __init__(
        self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._on_failure = on_failure
        self._waiting: list[Job] = []
        self._n_seen, self._since = 0, 0.0
        self._stuck = False
        self.n_commits = 0

    def submit(self, statements: Sequence[Statement]) -> asyncio.Future[None]:
        """Return a future that is done when the statements are on disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        if self._stuck:
            done.set_exception(NotStored("the database is not available"))
            return done
        if not self._waiting:
            self._n_seen, self._since = 0, time.perf_counter()
            self._loop.call_soon(self._gather)
        self._waiting.append(Job(statements, done))
        return done

    def resume(self) -> None:
        """Write again, after a failure."""
        self._stuck = False

    def flush(self) -> None:
        """Commit what waits."""
        jobs, self._waiting = self._waiting, []
        if jobs:
            self._finish(jobs)

    def _gather(self) -> None:
        """Commit what waits, unless more may come."""
        n_jobs = len(self._waiting)
        if n_jobs > self._n_seen and time.perf_counter() - self._since < LONGEST_WAIT:
            self._n_seen = n_jobs
            self._loop.call_soon(self._gather)
        else:
            self.flush()

    def refuse(self, why: str) -> None:
        """Let what waits fail, and everything from now on, until `resume`."""
        jobs, self._waiting = self._waiting, []
        self._stuck = True
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(NotStored(why))

    def _finish(self, jobs: list[Job]) -> None:
        try:
            self._commit([statement for job in jobs for statement in job.statements])
        except sqlite3.Error as error:
            self._waiting = jobs
            self.refuse(str(error))
            self._on_failure()
        else:
            for job in jobs:
                if not job.done.done():
                    job.done.set_result(None)

    def _commit(self, statements: Sequence[Statement]) -> None:
        if not statements:
            return
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for text, rows in in_order(statements):
                connection.executemany(text, rows)
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.n_commits += 1
