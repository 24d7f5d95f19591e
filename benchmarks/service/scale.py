"""Many experiments, many open choices, a long log: memory, the time to start, and what a snapshot does to others."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from benchmarks.service.load import DECIDE, Load, Server, serving
from umab_service import administration, decisions, feedback, service, silence
from umab_service.schema import Feedback, NewDecision, NewExperiment
from umab_service.sqlite import SQLite

N_EXPERIMENTS = 10_000
N_OPEN = 1_000_000
N_EVENTS = 1_000_000
TOGETHER = 500
"""How many requests are committed together while a database is made."""


class Sizes(NamedTuple):
    """What many experiments and open choices need."""

    memory: float
    """In gigabytes."""
    start: float
    """In seconds."""


def many_experiments() -> Sizes:
    """Return what 10,000 experiments with a million open choices need."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "umab.db"
        asyncio.run(_fill(path, N_EXPERIMENTS, N_OPEN))
        with serving(path) as (server, seconds):
            _ask_each(server)
            return Sizes(server.memory(), seconds)


async def _fill(path: Path, n_experiments: int, n_open: int) -> None:
    found = service.Service(SQLite(path))
    await found.start()
    names = [f"x{number}" for number in range(n_experiments)]
    for at, name in enumerate(names):
        given = NewExperiment(name, ["a", "b", "c"], wait="P30D", forget=True)
        administration.create(found, given)
        if at % TOGETHER == 0:
            await found.stored()
    for at in range(n_open):
        decisions.decide(found, names[at % n_experiments], NewDecision())
        if at % TOGETHER == 0:
            await found.stored()
    await found.stored()
    await found.stop()


def _ask_each(server: Server) -> None:
    """Use every experiment once, so that nothing is counted that was not needed yet."""
    for number in range(0, N_EXPERIMENTS, 1000):
        operations = [{"experiment": f"x{number + k}", "decide": {}} for k in range(1000)]
        for each in server.ask("POST", "/v1/batch", {"operations": operations})["results"]:
            assert each["status"] == 201, each


def long_log(*, snapshots: bool) -> float:
    """Return how long a start takes with a million events, after the last snapshot or with snapshots as usual."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / "umab.db"
        if not snapshots:
            stack.enter_context(mock.patch.object(service, "SNAPSHOT_EVERY", 10 * N_EVENTS))
        asyncio.run(_learn(path, N_EVENTS // 2))
        with serving(path) as (_, seconds):
            return seconds


async def _learn(path: Path, n_rounds: int) -> None:
    found = service.Service(SQLite(path))
    await found.start()
    administration.create(found, NewExperiment("x", ["a", "b", "c", "d", "e"]))
    for first in range(0, n_rounds, TOGETHER):
        ids = [f"{first + k:08d}" for k in range(TOGETHER)]
        for identity in ids:
            decisions.decide(found, "x", NewDecision(id=identity))
        await found.stored()
        for number, identity in enumerate(ids):
            feedback.feedback(found, "x", identity, Feedback(loss=float(number % 17)))
        await found.stored()
        while await silence.expire(found):
            pass
    await found.stop()


class Histories(NamedTuple):
    """Decisions per second early and late in the life of an experiment, by turns."""

    early: list[Load]
    late: list[Load]


def histories(turns: int = 7, seconds: int = 2) -> Histories:
    """Return how fast a new experiment decides, and one with half a million rounds behind it."""
    found = Histories([], [])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "umab.db"
        asyncio.run(_learn(path, N_EVENTS // 2))
        with serving(path) as (server, _):
            for turn in range(turns):
                server.ask("POST", "/v1/experiments", {"name": f"new{turn}", "arms": ["a", "b", "c", "d", "e"]})
                found.late.append(server.load(DECIDE, seconds))
                found.early.append(server.load(DECIDE.replace("/x/", f"/new{turn}/"), seconds))
    return found


def during_snapshots(n_arms: int, seconds: int = 5) -> Load:
    """Return the latencies of one experiment while another, with many arms, is snapshotted again and again."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "umab.db") as (server, _):
        server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b", "c"]})
        arms = [f"arm {number}" for number in range(n_arms)]
        server.ask("POST", "/v1/experiments", {"name": "large", "arms": arms})
        with _busy(server):
            return server.load(DECIDE, seconds)


@contextlib.contextmanager
def _busy(server: Server) -> Iterator[None]:
    """Make decisions in the other experiment, 100 at a time, so that a snapshot of it comes every 10,000 events."""
    going = threading.Event()

    def decide() -> None:
        operations = [{"experiment": "large", "decide": {}} for _ in range(100)]
        while not going.is_set():
            server.ask("POST", "/v1/batch", {"operations": operations})

    thread = threading.Thread(target=decide)
    thread.start()
    try:
        yield
    finally:
        going.set()
        thread.join()
