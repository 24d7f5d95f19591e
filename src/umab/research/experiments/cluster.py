"""Running the cells of a sweep through joblib: on threads, processes, a Dask cluster or a Ray cluster.

Workers write parts and return almost nothing. So for every backend, the folder of a sweep is all that is known about
it: its progress, what is left after a worker died, and where the next run continues.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from umab._support import checks
from umab._support.display import counted
from umab._support.extras import extra
from umab._support.progress import Progress
from umab.engine.simulate import n_cores
from umab.research.experiments.on_gpu import run_on_gpu
from umab.research.experiments.parts import done, rounds_of, run_cell
from umab.research.experiments.sweep import Cell

Backend = Literal["threads", "processes", "dask", "ray"]

_TRIES = 2
"""How often a cell may bring down a worker that has nothing else to do, before the cell is given up."""

_HOPELESS = 3
"""After how many such cells in a row all cells are given up."""

_SECONDS_TO_CONNECT = 20

_IGNORE_INTERRUPTS = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
"""What a Dask worker runs first: a terminal sends Ctrl-C to all processes, and the client ends its workers."""


class Crew(NamedTuple):
    """Workers that are ready."""

    n_workers: int
    parallel: Callable[[Iterable[object]], list[tuple[str, str | None]]]
    """Runs calls made by `joblib.delayed`, and returns their results."""
    threads: bool = False
    """Whether the workers are threads of this process."""
    here: bool = False
    """Whether the workers run on this machine, with all its cores."""
    lost: Callable[[], bool] = lambda: False
    """Whether the connection to the workers is lost."""
    started: str = ""
    """What was started for them, in a sentence; nothing if they were there, or are threads or plain processes."""


def check_options(backend: str, n_workers: int | None, address: str | None) -> None:
    """Refuse options that do not go together."""
    checks.one_of("backend", backend, get_args(Backend))
    if backend == "dask" and address and not re.fullmatch(r"(\w+://)?.+:\d+/?", address):
        raise ValueError(f"the address of a Dask scheduler must look like tcp://HOST:8786, but got {address!r}")
    if address and backend not in ("dask", "ray"):
        raise ValueError(f"only the backends dask and ray take an address, but got {backend}; add --backend dask")
    if n_workers is not None and address and backend == "dask":
        raise ValueError("the backend dask uses all workers of a cluster with an address, so --workers cannot be given")


@contextlib.contextmanager
def crew(
    backend: Backend, n_workers: int | None = None, address: str | None = None, *, idle: bool = False
) -> Iterator[Crew]:
    """Yield workers, and release them at the end.

    Parameters
    ----------
    backend
        The kind of workers.
    n_workers
        How many; None for one per core, or all that a cluster has.
    address
        The address of a Dask scheduler or of a Ray cluster; ``"auto"`` for the Ray cluster that runs on this machine.
        None starts a cluster on this machine, which is closed at the end.
    idle
        Whether they will run nothing. Then workers of this machine are only counted, and joblib is not needed.
    """
    check_options(backend, n_workers, address)
    if idle and not address:
        yield Crew(n_workers or _n_cores(), _refuse_to_work, threads=backend == "threads", here=True)
        return
    with extra(backend if backend in ("dask", "ray") else "sweep", "a sweep"):
        import joblib
        import polars  # noqa: F401  # writes the parts
    if backend == "dask":
        with _dask(n_workers, address) as found:
            yield found
        return
    if backend == "ray":
        with _ray(n_workers, address) as found:
            yield found
        return
    number = n_workers or joblib.cpu_count()
    if backend == "threads":
        yield Crew(number, joblib.Parallel(number, backend="threading", batch_size=1), threads=True, here=True)
    else:
        # With a single job joblib would run everything in this process, which must outlive its cells.
        parallel = joblib.Parallel(
            max(2, number), backend="loky", batch_size=1, pre_dispatch=number, initializer=_leave_signals_to_the_client
        )
        yield Crew(number, parallel, here=True)


def _n_cores() -> int:
    """Return how many workers there would be; joblib, if it is installed, knows the limits of containers."""
    with contextlib.suppress(ImportError):
        import joblib

        return int(joblib.cpu_count())
    return n_cores()


def _refuse_to_work(calls: Iterable[object]) -> list[tuple[str, str | None]]:
    raise RuntimeError("idle workers run nothing")


def run(
    cells: Sequence[Cell], out: Path, workers: Crew, *, n_skipped: int = 0, progress: bool | None = None
) -> dict[str, str]:
    """Run cells that are not done yet; return the errors by the ids of the cells.

    A cell that fails does not stop the others. If a worker dies, its cells are run again; a cell that brings down its
    worker repeatedly is given up. Ctrl-C, or a signal to terminate, raises KeyboardInterrupt.

    Parameters
    ----------
    cells
        What to run.
    out
        The folder of the sweep, with the tables in it; all workers must see it under its full name.
    workers
        What runs them.
    n_skipped
        How many rounds were done before, for the progress bar.
    progress
        As for `umab.simulate`.
    """
    stop = threading.Event()
    total = rounds_of(cells) + n_skipped
    with (
        Progress(total, "sweeping", progress, unit="rounds") as bar,
        _watched(cells, out, bar),
        _stopped_by_signals(stop),
    ):
        bar.skip(n_skipped)
        return _Attempts(cells, out.resolve(), workers, stop).run()


class _Attempts:
    """Runs cells until all are done or given up, whatever happens to the workers."""

    def __init__(self, cells: Sequence[Cell], out: Path, workers: Crew, stop: threading.Event) -> None:
        self._waiting = list(cells)
        self._out = out
        self._workers = workers
        self._stop = stop
        self._failed: dict[str, str] = {}
        self._tries: dict[str, int] = {}

    def run(self) -> dict[str, str]:
        """Return the errors by the ids of the cells."""
        together, hopeless = True, 0
        while self._waiting:
            now = self._waiting if together else self._waiting[:1]
            problem = self._attempt(now)
            if problem is None:
                together, hopeless = True, 0
                continue
            if self._workers.lost():
                raise OSError(f"the connection to the workers is lost ({problem}); the cells that are done are kept")
            ready = done(self._out)
            left = [cell for cell in self._waiting if cell.id not in ready]
            came_on = len(left) < len(self._waiting)
            self._waiting = left
            if came_on:
                hopeless = 0
            elif not together:
                hopeless += self._count(now[0], problem)
                if hopeless == _HOPELESS:
                    self._failed |= {cell.id: problem for cell in self._waiting}
                    break
            # If the cells got nowhere together, run them one by one: this shows which of them brings workers down.
            together = came_on
        return self._failed

    def _attempt(self, cells: Sequence[Cell]) -> str | None:
        """Run cells; return why the workers could not continue, or None."""
        from joblib import delayed

        # Threads inside a cell help if there are fewer cells than cores; no bit depends on them.
        n_threads = max(1, self._workers.n_workers // len(cells)) if self._workers.here else 1
        stop = self._stop if self._workers.threads else None
        if cells[0].device == "gpu" and self._workers.here:
            self._note(run_on_gpu(cells, self._out, self._stop))
            return None
        calls = (delayed(run_cell)(cell, self._out, n_threads, stop) for cell in cells)
        try:
            outcomes = self._workers.parallel(calls)
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        self._note(outcomes)
        return None

    def _note(self, outcomes: list[tuple[str, str | None]]) -> None:
        self._failed |= {id: error for id, error in outcomes if error is not None}
        ended = {id for id, _ in outcomes}
        self._waiting = [cell for cell in self._waiting if cell.id not in ended]

    def _count(self, cell: Cell, problem: str) -> int:
        """Note that a cell has brought down its worker on its own; return 1 if it is now given up."""
        self._tries[cell.id] = self._tries.get(cell.id, 0) + 1
        if self._tries[cell.id] < _TRIES:
            return 0
        self._failed[cell.id] = f"its worker died {_TRIES} times ({problem})"
        left = [each for each in self._waiting if each.id != cell.id]
        # Other policies first: if they run, the fault is not in the workers.
        self._waiting = sorted(left, key=lambda each: each.policy == cell.policy)
        return 1


@contextlib.contextmanager
def _watched(cells: Sequence[Cell], out: Path, bar: Progress) -> Iterator[None]:
    """Advance a bar as parts appear."""
    waiting = {cell.id: cell for cell in cells}
    over = threading.Event()

    def watch() -> None:
        pause = 0.2
        while not over.wait(pause):
            start = time.monotonic()
            new = [waiting.pop(id) for id in done(out) if id in waiting]
            bar.advance(rounds_of(new))
            pause = max(0.2, 20.0 * (time.monotonic() - start))  # a folder of many parts on a slow disk

    thread = threading.Thread(target=watch, name="umab-sweep-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Turn Ctrl-C and a signal to terminate into KeyboardInterrupt, and tell threads to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        stop.set()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_signals_to_the_client() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes: the client ends this worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _dask(n_workers: int | None, address: str | None) -> Iterator[Crew]:
    with extra("dask", "a sweep on Dask"):
        import distributed
    from joblib import Parallel
    from joblib._dask import DaskDistributedBackend

    class Dask(DaskDistributedBackend):  # type: ignore[misc]
        """Joblib's backend, which alone would wait for ever for a task that has brought down too many workers."""

        def submit(self, func: object, callback: Any = None) -> object:
            """Return the future of a call, and make sure that `callback` is told when it ends, even if it fails."""
            future: Future[object] = super().submit(func, callback)
            future.add_done_callback(lambda ended: callback(ended) if ended.exception() else None)
            return future

        def retrieve_result_callback(self, out: object) -> object:
            """Return the result of a call, or raise its error."""
            if isinstance(out, Future):
                return out.result()
            if isinstance(out, BaseException):  # the task was cancelled
                raise out
            return super().retrieve_result_callback(out)

        def effective_n_jobs(self, n_jobs: int) -> int:
            """Return the number of workers, but at least 2: joblib takes a single one to be this process."""
            return max(2, int(super().effective_n_jobs(n_jobs)))

    with contextlib.ExitStack() as stack:
        cluster = None
        if not address:
            number = n_workers or _n_cores()
            has_page = importlib.util.find_spec("bokeh") is not None
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=number,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0" if has_page else None,
                    silence_logs=logging.CRITICAL,
                    preload=_IGNORE_INTERRUPTS,
                )
            )
        try:
            client = distributed.Client(cluster or address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise OSError(f"there must be a Dask scheduler at {address!r}, but: {error}") from None
        stack.enter_context(client)
        if not client.ncores():
            try:
                client.wait_for_workers(1, timeout=_SECONDS_TO_CONNECT)
            except TimeoutError:
                raise OSError(f"a sweep needs a worker, but the Dask scheduler at {address!r} has none") from None
        # All cells are sent at once, so that workers that join later find something to do.
        parallel = Parallel(-1, backend=Dask(client=client), batch_size=1, pre_dispatch="all")
        yield Crew(
            sum(client.ncores().values()),
            parallel,
            here=cluster is not None,
            lost=lambda: client.status != "running",
            started="" if cluster is None else _started("Dask", number, cluster.dashboard_link if has_page else ""),
        )


def _started(kind: str, n_workers: int, dashboard: str) -> str:
    """Say that a cluster was started here."""
    where = f"; its dashboard is at {dashboard}" if dashboard else ""
    return f"No --address is given: started a local {kind} cluster with {counted(n_workers, 'worker')}{where}."


@contextlib.contextmanager
def _ray(n_workers: int | None, address: str | None) -> Iterator[Crew]:
    with extra("ray", "a sweep on Ray"):
        import ray
    from joblib import Parallel
    from ray.util.joblib import register_ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns about it
    register_ray()
    here: dict[str, object] = {} if address else {"num_cpus": n_workers or _n_cores()}
    ready = ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **here)
    try:
        number = n_workers or int(ray.cluster_resources().get("CPU", 1))
        # Ray itself leaves out http://.
        page = f"http://{ready.dashboard_url}" if ready.dashboard_url else ""
        started = "" if address else _started("Ray", number, page)
        yield Crew(number, Parallel(number, backend="ray", batch_size=1), here=not address, started=started)
    finally:
        ray.shutdown()
