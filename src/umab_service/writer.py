"""Writing: requests that come together are committed together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from umab_service.statements import Statement
from umab_service.storage import InDoubt, NotStored, Storage

LONGEST_WAIT = 0.003
"""How long a commit waits for more requests at most, in seconds."""

logger = logging.getLogger("umab_service")


class Job(NamedTuple):
    """Statements that are committed together, and who waits for it."""

    statements: Sequence[Statement]
    done: asyncio.Future[None]


class Writer:
    """Commits jobs in the order in which they come, as many at a time as there are.

    A commit waits as long as every turn of the loop brings another job. With SQLite it then runs in the loop itself,
    which waits for the disk. A thread that committed while the loop takes requests would be slower: both would take
    turns with the interpreter, which costs more than the disk, and commits would be smaller. With a database that is a
    process of its own, the loop goes on while it works, and the next commit gathers meanwhile.

    If a commit fails, all of its jobs fail, and those that wait, since they were made from a state that does not exist
    on disk; `on_failure` is called, and nothing is written until `resume`.
    """

    def __init__(self, storage: Storage, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], None]) -> None:
        self._storage = storage
        self._loop = loop
        self._on_failure = on_failure
        self._waiting: list[Job] = []
        self._n_seen, self._since = 0, 0.0
        self._stuck = False
        self._silent_until = 0.0
        self._task: asyncio.Task[None] | None = None
        self.n_commits = 0

    def submit(self, statements: Sequence[Statement]) -> asyncio.Future[None]:
        """Return a future that is done when the statements are on disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        if self._stuck:
            done.set_exception(NotStored("the database is not available"))
            return done
        if not self._waiting and self._task is None:
            self._n_seen, self._since = 0, time.perf_counter()
            self._loop.call_soon(self._gather)
        self._waiting.append(Job(statements, done))
        return done

    def resume(self) -> None:
        """Write again, after a failure."""
        self._stuck = False

    async def flush(self) -> None:
        """Commit what waits."""
        if self._task is None:
            self._commit()
        while self._task is not None:
            await asyncio.wait([self._task])

    def refuse(self, why: str) -> None:
        """Let what waits fail, and everything from now on, until `resume`."""
        jobs, self._waiting = self._waiting, []
        self._stuck = True
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(NotStored(why))

    def _gather(self) -> None:
        """Commit what waits, unless more may come."""
        n_jobs = len(self._waiting)
        if n_jobs > self._n_seen and time.perf_counter() - self._since < LONGEST_WAIT:
            self._n_seen = n_jobs
            self._loop.call_soon(self._gather)
        elif self._task is None:  # else it will commit what waits when it is done
            self._commit()

    def _commit(self) -> None:
        """Commit what waits, now or, if the database takes its time, in a task."""
        jobs, self._waiting = self._waiting, []
        if not jobs:
            return
        statements = [statement for job in jobs for statement in job.statements]
        try:
            working = self._storage.commit(statements) if statements else None
        except Exception as error:
            self._fail(jobs, error)
            return
        if working is None:
            self._succeed(jobs, bool(statements))
        else:
            self._task = self._loop.create_task(self._finish(jobs, working))

    async def _finish(self, jobs: list[Job], working: Awaitable[None]) -> None:
        """Wait for a commit, and for those that have gathered meanwhile."""
        try:
            await working
        except Exception as error:
            self._task = None
            self._fail(jobs, error)
            return
        self._task = None
        self._succeed(jobs, True)
        self._commit()

    def _succeed(self, jobs: list[Job], written: bool) -> None:
        self.n_commits += written
        for job in jobs:
            if not job.done.done():
                job.done.set_result(None)

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        if not isinstance(error, NotStored):
            logger.error("a commit failed", exc_info=error)
            error = InDoubt("the commit failed; the server's log says how")
        elif time.monotonic() >= self._silent_until:  # on a full disk, every request fails
            self._silent_until = time.monotonic() + 1.0
            logger.error("a commit failed: %s", str(error.__cause__ or error).strip())
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(type(error)(str(error)))
        self.refuse(str(error))
        self._on_failure()
