"""What the service does, without HTTP: every change is an event, and is answered once the event is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from umab import Learner
from umab_service import log
from umab_service import statements as sql
from umab_service.durations import text_of
from umab_service.experiment import Experiment, Part, Row, instant
from umab_service.ownership import Elsewhere, Ownership
from umab_service.problems import Problem, not_found, unavailable
from umab_service.recovery import recovered
from umab_service.schema import ShownExperiment, encoded
from umab_service.statements import Statement
from umab_service.storage import Found, InDoubt, NotStored, Storage
from umab_service.writer import Writer

SNAPSHOT_EVERY = 10_000
"""After how many events of an experiment a snapshot of its learner is made."""
MOST_ROWS = 50_000
"""How many of the latest decisions are kept in memory, where feedback finds them sooner than in the database."""
MOST_ID = 140
"""How long the id of a decision may be, with its number among those that were made at once."""
MOST_COMPILED = 1000
"""How many policies are remembered to be compiled; for any other one, a thread looks."""
READ_AGAIN_EVERY = 1.0
"""How often an experiment whose changes keep failing is read from the log again at most, in seconds."""
MOST_METADATA = 4096
"""The size of the metadata of a decision, in bytes of JSON."""

ROW = "SELECT experiment, id, made, request, answer, draw, state, due, value FROM decisions"

logger = logging.getLogger("umab_service")


class Answer(NamedTuple):
    """What to answer once everything up to now is on disk."""

    status: int
    body: Any


class Service:
    """Experiments, their learners and their log. All methods run in the event loop.

    What changes an experiment runs without waiting: it finds the decisions that it needs in memory, where `load` has
    brought them, or at once in a database that is not shared.
    """

    def __init__(
        self, storage: Storage, *, retention: float | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.storage, self.retention, self.clock = storage, retention, clock
        self.experiments: dict[str, Experiment] = {}
        self.by_id: dict[int, Experiment] = {}
        self.rows: OrderedDict[tuple[int, str], Row | None] = OrderedDict()
        """The latest decisions; None for one that is known not to exist."""
        self.ownership: Ownership | None = None
        """Which experiments are here, if the database is shared; else all are."""
        self.recovering = False
        self.resting: dict[int, tuple[float, float]] = {}
        """Whose waits could not be ended: until when they rest, by the monotonic clock, and for how long."""
        self._task: asyncio.Task[None] | None = None
        self._started = False
        self.statements: list[Statement] = []
        self._touched: list[Row] = []
        self._changed: list[Experiment] = []
        self.failed: list[Experiment] = []
        """What is to be read from the log again."""
        self._n_touches = 0
        self._loads: list[int] = []
        self.n_failed = 0
        self.one_at_a_time = asyncio.Lock()
        """Held by what keeps a thread busy for seconds, so that there is always another one for short questions."""
        self._compiled: set[str] = set()
        self.counts = {"learned": 0, "accepted": 0, "late": 0, "expired": 0, "forgotten": 0}
        """What became of feedback and of choices since the start."""

    async def start(self, *, check: bool = True, address: str = "") -> None:
        """Open the database and bring the learners up to its log; other servers find this one at the address."""
        self.storage.open()
        self.writer = Writer(self.storage, asyncio.get_running_loop(), self._on_failure)
        if self.storage.shared:
            self.ownership = Ownership(self, self.storage, address)
            await self.ownership.begin()
        else:
            await self._recover(check=check)
        self._started = True

    async def snapshot_all(self) -> None:
        """Store all learners, so that the next start replays nothing: it is quick, also with another version."""
        if self.ready:
            for experiment in self.experiments.values():
                if experiment.n_since:
                    self.snapshot(experiment)
            await self.stored()

    async def stop(self) -> None:
        """Commit what waits, and close the database."""
        self._started = False
        if self._task is not None and not self._task.done():  # it would read the database for ever
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.writer.flush()
        if self.ownership is not None:
            await self.ownership.end()
        self.storage.close()

    @property
    def ready(self) -> bool:
        """Whether everything that was acknowledged is in memory and more can be stored."""
        return self._started and not self.recovering

    # The log.

    async def _recover(self, *, check: bool = False) -> None:
        """Make all learners anew from their snapshots and the log."""
        self.forget_experiments()
        for each in await asyncio.to_thread(recovered, self.storage, check):
            self.put(each)
        self.next_id = max(self.by_id, default=0) + 1

    def put(self, experiment: Experiment) -> None:
        """Take in an experiment that was read from the log, or created."""
        self.experiments[experiment.name] = self.by_id[experiment.id] = experiment

    def take_out(self, experiment: Experiment) -> None:
        """Let go of an experiment, which another server will own."""
        del self.experiments[experiment.name], self.by_id[experiment.id]

    def forget_experiments(self) -> None:
        """Forget everything that is in memory."""
        self.experiments, self.by_id, self.failed = {}, {}, []
        self.rows.clear()

    def _on_failure(self) -> None:
        """Discard what is in memory: it is ahead of the log."""
        self.n_failed += 1
        self.recovering = True
        self._begin_to_read()

    def lose_lease(self) -> None:
        """Give up everything: others may own it by now."""
        self.writer.refuse("this server has lost its lease")
        self._on_failure()

    @contextlib.contextmanager
    def changing(self, found: Experiment) -> Iterator[None]:
        """Change an experiment as a whole: what fails in its middle is undone, and no other experiment notices.

        A `Problem` is an answer and no failure: whoever raises one has changed nothing yet.
        """
        n_statements, n_touched = len(self.statements), len(self._touched)
        try:
            yield
        except Problem:
            raise
        except BaseException:
            del self.statements[n_statements:]
            self._release_rows(self._touched[n_touched:])
            del self._touched[n_touched:]
            self._read_again(found)
            raise

    def abandon(self) -> None:
        """Undo all that a request has done and not stored yet, after a failure."""
        changed = self._changed if self.statements else []
        self._release_rows(self._touched)
        self.statements, self._touched, self._changed = [], [], []
        for found in changed:
            self._read_again(found)

    def _release_rows(self, rows: Iterable[Row]) -> None:
        """Let go of decisions that were changed and will not be stored; their experiment is read again."""
        for row in rows:
            row.pending -= 1

    def _read_again(self, found: Experiment) -> None:
        """Make an experiment anew from the log; until then, it answers nothing."""
        if not found.failed and self.by_id.get(found.id) is found:
            found.failed = True
            self.failed.append(found)
            self._begin_to_read()

    def _begin_to_read(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_what_failed())

    async def _read_what_failed(self) -> None:
        while self.recovering or self.failed:
            if self.recovering:
                await self._start_again()
            else:
                await self._read_one()

    async def _read_one(self) -> None:
        """Read the experiment from the log that may be read next."""
        now = asyncio.get_running_loop().time()
        found = min(self.failed, key=lambda each: each.read_at)
        # Whoever makes it fail again and again must not keep all others busy.
        if now < found.read_at + READ_AGAIN_EVERY:
            await asyncio.sleep(0.05)
            return
        try:
            await self.writer.submit([])  # the log must have what came before the failure
            read = await asyncio.to_thread(recovered, self.storage, False, [found.id])
        except NotStored:
            return  # so that everything is read again
        except Exception:
            logger.exception("the experiment %r cannot be read; trying again", found.name)
            found.read_at = now
            return
        if found in self.failed:
            self.failed.remove(found)
        if not self.recovering and self.by_id.get(found.id) is found:
            self.take_out(found)
            for each in read:
                each.read_at = now
                self.put(each)

    async def _start_again(self) -> None:
        await self.writer.flush()  # what is on its way was made before the failure
        while True:
            try:
                if self.ownership is None:
                    await self._recover()
                else:
                    await self.ownership.begin_again()
                break
            except Exception:
                logger.exception("the database cannot be read; trying again")
                await asyncio.sleep(1.0)
        self.writer.resume()
        self.recovering = False

    def event(self, experiment: Experiment, kind: str, body: object) -> None:
        """Append an event to the log."""
        experiment.seq += 1
        self._changed.append(experiment)
        self.statements.append((sql.NEW_EVENT, (experiment.id, experiment.seq, self.clock(), kind, encoded(body))))
        if experiment.n_since >= SNAPSHOT_EVERY:
            self.snapshot(experiment)

    def snapshot(self, experiment: Experiment) -> None:
        """Store the learner as it is after the last event, and keep the snapshot before, but none that is older."""
        if experiment.failed:
            return
        try:
            learner = experiment.learner.to_json(indent=None).encode()
        except ValueError as error:  # only after the import of a learner that no policy would come to
            logger.error("no snapshot of %r was made, since its learner cannot be saved: %s", experiment.name, error)
            return
        self.statements.append((sql.NEW_SNAPSHOT, (experiment.id, experiment.seq, learner)))
        self.statements.append((sql.PRUNE_SNAPSHOTS, (experiment.id, experiment.snapshot_at)))
        experiment.snapshot_at = experiment.seq

    async def stored(self) -> None:
        """Wait until everything that was done up to now is on disk.

        Called after each request, with nothing awaited since its work: so what waits here is of this request only.
        """
        jobs, touched = self.statements, self._touched
        self.statements, self._touched, self._changed = [], [], []
        try:
            await self.writer.submit(jobs)
        except NotStored as error:
            known = "whether this was stored is not known" if isinstance(error, InDoubt) else "nothing was stored"
            raise unavailable(f"{known}: {error}") from None
        finally:
            self._n_touches += 1  # what began to be read before the commit may be older than it
            for row in touched:
                row.pending -= 1
                row.touched = self._n_touches
            self.forget_rows(MOST_ROWS)

    async def store(self, statements: Sequence[Statement]) -> None:
        """Store something that is no event."""
        self.statements.extend(statements)
        await self.stored()

    # Decisions.

    def set(self, row: Row, state: str, due: float | None, value: float | None) -> None:
        """Change a decision."""
        row.state, row.due, row.value = state, due, value
        self.statements.append((sql.SET_DECISION, (state, due, value, row.experiment.id, row.id)))
        self.touch(row)

    def start_wait(self, row: Row) -> None:
        """Let the wait of a decision begin that was deferred."""
        wait = row.experiment.settings.wait
        due = None if wait is None else self.clock() + wait
        self.set(row, "open", due, None)
        self.event(row.experiment, log.ACTIVATED, {"decision": row.id, "due": due})

    def touch(self, row: Row) -> None:
        """Note that a decision is changed by this request: until that is on disk, it must be read from memory."""
        row.pending += 1
        self._n_touches += 1
        row.touched = self._n_touches
        key = row.experiment.token, row.id
        self.rows[key] = row
        self.rows.move_to_end(key)
        self._touched.append(row)

    def forget_rows(self, most: int) -> None:
        """Keep at most so many decisions in memory.

        Besides, keep those that are not on disk yet, and those that were changed while others are being loaded: what is
        loaded may be older than the change.
        """
        rows = self.rows
        while len(rows) > most:
            first = next(iter(rows))  # the oldest; a plain dict would look for it through all that were deleted
            row = rows[first]
            if row is not None and (row.pending or (self._loads and row.touched > self._loads[0])):
                break
            del rows[first]

    async def load(self, name: str, ids: Iterable[str]) -> None:
        """Bring decisions into memory, unless they can be read at once. Use them before anything else is awaited."""
        if not self.storage.shared:
            return
        found = self.experiment(name)
        ids = list(ids)
        if too_long := next((each for each in ids if len(each) > MOST_ID), None):
            raise not_found("a decision", too_long)
        self.forget_rows(MOST_ROWS)  # also if nothing is ever stored
        # Again, as long as others have been forgotten meanwhile.
        while missing := [(found.id, each) for each in ids if (found.token, each) not in self.rows]:
            await self.load_rows(found, missing, found.settings.aggregation == "sum")
            if self.experiments.get(name) is not found:  # it was let go of, and may have been read again
                raise Elsewhere(name)

    async def load_rows(self, found: Experiment, keys: Sequence[tuple[int, str]], with_parts: bool) -> None:
        """Read decisions from a shared database into memory."""
        asked = [key for key in keys if "\0" not in key[1]]  # which PostgreSQL does not take, so that none has it
        with self.loading():
            rows = [Row(found, *row[1:]) for row in await self.storage.decisions(asked)]
            parts = await self.storage.parts(asked) if with_parts else []
        loaded = {row.id: row for row in rows}
        for row in rows:
            row.parts = {} if with_parts else None
        for _, decision, key, value, late in parts:
            loaded[decision].parts[key] = Part(value, bool(late))  # type: ignore[index]
        for _, identity in keys:
            self.rows.setdefault((found.token, identity), loaded.get(identity))

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Keep in memory what changes while something is read, so that the change is seen, and not what was read."""
        began = self._n_touches
        self._loads.append(began)
        try:
            yield
        finally:
            self._loads.remove(began)

    def row(self, found: Experiment, identity: str) -> Row | None:
        """Return a decision: as it will be on disk, or as it is there."""
        known = self.rows.get((found.token, identity), _UNKNOWN)
        if known is not _UNKNOWN:
            return known  # type: ignore[return-value]
        row = self.storage.now().execute(f"{ROW} WHERE experiment = ? AND id = ?", (found.id, identity)).fetchone()
        return None if row is None else Row(found, *row[1:])

    def parts(self, row: Row) -> dict[str, Part]:
        """Return the parts of the sum of a decision."""
        if row.parts is None:
            query = "SELECT key, value, late FROM parts WHERE experiment = ? AND decision = ?"
            rows = self.storage.now().execute(query, (row.experiment.id, row.id)).fetchall()
            row.parts = {key: Part(value, bool(late)) for key, value, late in rows}
        return row.parts

    def existing(self, found: Experiment, identity: str) -> Row:
        """Return a decision that must exist."""
        row = self.row(found, identity)
        if row is None:
            raise not_found("a decision", identity)
        return row

    # Experiments.

    def experiment(self, name: str) -> Experiment:
        """Return an experiment by its name."""
        self.check_recovered()
        found = self.experiments.get(name)
        if found is None:
            raise not_found("an experiment", name) if self.ownership is None else Elsewhere(name)
        if found.failed:
            raise unavailable(f"the experiment {name!r} is being read from the log again after a failure")
        return found

    def check_recovered(self) -> None:
        """Raise while the log is being read again."""
        if self.recovering:
            raise unavailable("the server is reading its log again after a failure of the database")
        if self.ownership is not None and not self.ownership.held:
            raise unavailable("the server has not reached its database for so long that others may own its experiments")

    def new_number(self, name: str) -> int:
        """Return the number of a new experiment."""
        if self.ownership is not None:
            return self.ownership.reserved(name)
        self.next_id += 1
        return self.next_id - 1

    async def compile(self, policy: str) -> None:
        """Compile a policy in a thread, before a learner of it is made in the event loop: it may take seconds."""
        if policy in self._compiled:
            return
        async with self.one_at_a_time:
            if policy not in self._compiled:
                await asyncio.to_thread(_compile, policy)
                if len(self._compiled) >= MOST_COMPILED:
                    self._compiled.clear()
                self._compiled.add(policy)

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

    async def secret(self, name: str) -> bytes:
        """Return a secret that all servers on a database share; the first one that needs it makes it."""
        query = "SELECT value FROM secrets WHERE name = ?"
        if not await self.storage.soon(query, (name,)):
            # Of servers that do this at the same time, one wins, and all read what it has written.
            await self.store([(sql.NEW_SECRET, (name, secrets.token_bytes(32)))])
        ((value,),) = await self.storage.soon(query, (name,))
        return bytes(value)

    async def read(self, query: str, parameters: Sequence[object] = ()) -> list[Found]:
        """Return the rows of a query, which may take its time: requests go on meanwhile."""
        return await asyncio.to_thread(_read, self.storage, query, parameters)


_UNKNOWN = object()


def _compile(policy: str) -> None:
    Learner(policy, arms=2).warm_up()


def _read(storage: Storage, query: str, parameters: Sequence[object]) -> list[Found]:
    with storage.reader() as reader:
        return reader.execute(query, parameters).fetchall()
