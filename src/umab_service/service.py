"""What the service does, without HTTP: every change is an event, and is answered once the event is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from umab_service import statements as sql
from umab_service.database import connect, migrate
from umab_service.durations import text_of
from umab_service.experiment import Experiment, Part, Row, instant
from umab_service.problems import Problem, not_found, unavailable
from umab_service.recovery import recovered
from umab_service.schema import ShownExperiment, encoded
from umab_service.statements import Statement
from umab_service.writer import NotStored, Writer

SNAPSHOT_EVERY = 10_000
"""After how many events of an experiment a snapshot of its learner is made."""
MOST_ROWS = 50_000
"""How many of the latest decisions are kept in memory, where feedback finds them sooner than in the database."""
MOST_METADATA = 4096
"""The size of the metadata of a decision, in bytes of JSON."""

logger = logging.getLogger("umab_service")


class Answer(NamedTuple):
    """What to answer once everything up to now is on disk."""

    status: int
    body: Any


class Service:
    """Experiments, their learners and their log. All methods run in the event loop; one thread writes."""

    def __init__(self, path: Path, *, retention: float | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path, self.retention, self.clock = path, retention, clock
        self.next_prune = 0.0
        self.experiments: dict[str, Experiment] = {}
        self.rows: OrderedDict[tuple[int, str], Row] = OrderedDict()
        self.recovering = False
        self._task: asyncio.Task[None] | None = None
        self._started = False
        self.statements: list[Statement] = []
        self._touched: list[Row] = []
        self.n_failed = 0
        self.counts = {"learned": 0, "accepted": 0, "late": 0, "expired": 0, "forgotten": 0}
        """What became of feedback and of choices since the start."""

    async def start(self, *, check: bool = True) -> None:
        """Open the database and bring all learners up to its log."""
        # One connection reads and writes: another one would read each page again after every commit.
        self.database = connect(self.path)
        migrate(self.database)
        await self._recover(check=check)
        self.writer = Writer(self.database, asyncio.get_running_loop(), self._on_failure)
        self._started = True

    async def snapshot_all(self) -> None:
        """Store all learners, so that the next start replays nothing: it is quick, also with another version."""
        if self.ready:
            for experiment in self.experiments.values():
                if experiment.n_since:
                    self.snapshot(experiment)
            with contextlib.suppress(Problem):
                await self.stored()

    async def stop(self) -> None:
        """Commit what waits, and close the database."""
        self._started = False
        self.writer.flush()
        self.database.close()

    @property
    def ready(self) -> bool:
        """Whether everything that was acknowledged is in memory and more can be stored."""
        return self._started and not self.recovering

    # The log.

    async def _recover(self, *, check: bool = False) -> None:
        """Make all learners anew from their snapshots and the log."""
        (last_id,) = self.database.execute("SELECT max(id) FROM experiments").fetchone()
        self.next_id = (last_id or 0) + 1
        found = await asyncio.to_thread(recovered, self.path, check)
        self.experiments = {each.name: each for each in found}
        self.by_id = {each.id: each for each in found}
        self.rows.clear()

    def _on_failure(self) -> None:
        """Discard what is in memory: it is ahead of the log."""
        self.n_failed += 1
        if not self.recovering:
            self.recovering = True
            self._task = asyncio.create_task(self._start_again())

    def discard(self) -> None:
        """Give up what a request has begun, after a failure in its middle: the log says what there is."""
        self.statements, self._touched = [], []
        self.writer.refuse("another request has failed in its middle")
        self._on_failure()

    async def _start_again(self) -> None:
        while True:
            try:
                await self._recover()
                break
            except Exception:
                logger.exception("the database cannot be read; trying again")
                await asyncio.sleep(1.0)
        self.writer.resume()
        self.recovering = False

    def event(self, experiment: Experiment, kind: str, body: Any) -> None:
        """Append an event to the log."""
        experiment.seq += 1
        self.statements.append((sql.NEW_EVENT, (experiment.id, experiment.seq, self.clock(), kind, encoded(body))))
        if experiment.n_since >= SNAPSHOT_EVERY:
            self.snapshot(experiment)

    def snapshot(self, experiment: Experiment) -> None:
        """Store the learner as it is after the last event, and keep the snapshot before, but none that is older."""
        try:
            learner = experiment.learner.to_json(indent=None).encode()
        except ValueError as error:  # only after the import of a learner that no policy would come to
            logger.error("no snapshot of %r was made, since its learner cannot be saved: %s", experiment.name, error)
            return
        self.statements.append((sql.NEW_SNAPSHOT, (experiment.id, experiment.seq, learner)))
        self.statements.append((sql.PRUNE_SNAPSHOTS, (experiment.id, experiment.snapshot_at)))
        experiment.snapshot_at = experiment.seq

    def set(self, row: Row, state: str, due: float | None, value: float | None) -> None:
        """Change a decision."""
        row.state, row.due, row.value = state, due, value
        self.statements.append((sql.SET_DECISION, (state, due, value, row.experiment, row.id)))
        self.touch(row)

    def touch(self, row: Row) -> None:
        """Note that a decision is changed by this request: until that is on disk, it must be read from memory."""
        row.pending += 1
        self.rows[row.experiment, row.id] = row
        self._touched.append(row)

    async def stored(self) -> None:
        """Wait until everything that was done up to now is on disk.

        Called after each request, with nothing awaited since its work: so what waits here is of this request only.
        """
        jobs, touched = self.statements, self._touched
        self.statements, self._touched = [], []
        try:
            await self.writer.submit(jobs)
        except NotStored as error:
            raise unavailable(f"nothing was stored: {error}") from None
        finally:
            for row in touched:
                row.pending -= 1
            self.forget_rows(MOST_ROWS)

    def forget_rows(self, most: int) -> None:
        """Keep at most so many decisions in memory, besides those that are not on disk yet."""
        rows = self.rows
        while len(rows) > most:
            first = next(iter(rows))  # the oldest; a plain dict would look for it through all that were deleted
            if rows[first].pending:
                break
            del rows[first]

    async def store(self, statements: Sequence[Statement]) -> None:
        """Store something that is no event."""
        self.statements.extend(statements)
        await self.stored()

    # Experiments.

    def experiment(self, name: str) -> Experiment:
        """Return an experiment by its name."""
        if self.recovering:
            raise unavailable("the server is reading its log again after a failure of the database")
        found = self.experiments.get(name)
        if found is None:
            raise not_found("an experiment", name)
        return found

    def described(self, experiment: Experiment) -> ShownExperiment:
        """Return an experiment as answers show it."""
        settings = experiment.settings
        return ShownExperiment(
            name=experiment.name,
            arms=[str(arm) for arm in experiment.learner.arms],
            policy=settings.policy,
            maximize=settings.maximize,
            seed=settings.seed,
            wait=None if settings.wait is None else text_of(settings.wait),
            forget=settings.wait is not None and settings.default is None,
            aggregation=settings.aggregation,
            late=settings.late,
            state="archived" if settings.archived else "active",
            created_at=instant(experiment.created),
            open=experiment.n_open,
            default_loss=None if settings.maximize else settings.default,
            default_reward=settings.default if settings.maximize else None,
        )

    def row(self, found: Experiment, identity: str) -> Row | None:
        """Return a decision: as it will be on disk, or as it is there."""
        known = self.rows.get((found.id, identity))
        if known is not None:
            return known
        row = self.database.execute(
            "SELECT experiment, id, made, request, answer, draw, state, due, value FROM decisions "
            "WHERE experiment = ? AND id = ?",
            (found.id, identity),
        ).fetchone()
        return None if row is None else Row(*row)

    def parts(self, row: Row) -> dict[str, Part]:
        """Return the parts of the sum of a decision."""
        if row.parts is None:
            rows = self.database.execute(
                "SELECT key, value, late FROM parts WHERE experiment = ? AND decision = ?", (row.experiment, row.id)
            )
            row.parts = {key: Part(value, bool(late)) for key, value, late in rows}
        return row.parts

    def existing(self, found: Experiment, identity: str) -> Row:
        """Return a decision that must exist."""
        row = self.row(found, identity)
        if row is None:
            raise not_found("a decision", identity)
        return row
