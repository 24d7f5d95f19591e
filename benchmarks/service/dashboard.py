"""The pages of the dashboard and its data calls with many experiments, each of which has a full history."""

from __future__ import annotations

import asyncio
import http.client
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from benchmarks.service.load import KEY, serving
from benchmarks.service.scale import N_EXPERIMENTS, TOGETHER
from umab_service import administration, decisions, feedback, history, statements
from umab_service.databases import opened
from umab_service.schema import Feedback, NewDecision, NewExperiment
from umab_service.service import Service

N_CALLS = 50
CALLS = {
    "the list": "/live",
    "the last page of the list": "/live?page=400",
    "a search": "/live?search=99",
    "an experiment": "/experiments/x5000/live?span=2",
    "an experiment with much in its log": "/experiments/x0/live?span=0",
}
N_ROUNDS = 20_000
"""How many rounds the first experiment has behind it."""


class Call(NamedTuple):
    """How long a data call takes, in milliseconds, and what it weighs in bytes."""

    name: str
    median: float
    longest: float
    weight: int


class Found(NamedTuple):
    """What was measured."""

    calls: list[Call]
    pages: dict[str, int]
    """The weight of each page with its files, in bytes."""


def measured(n_experiments: int = N_EXPERIMENTS, n_rounds: int = N_ROUNDS) -> Found:
    """Return what the dashboard takes with so many experiments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "umab.db"
        asyncio.run(_fill(path, n_experiments, n_rounds))
        _add_history(path)
        with serving(path, "--no-check") as (server, _):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            headers = {"Cookie": _login(connection)}
            calls = [_call(connection, headers, name, call) for name, call in CALLS.items()]
            files = sum(len(_get(connection, headers, each)) for each in _files(_get(connection, headers, "/")))
            pages = {page: len(_get(connection, headers, page)) + files for page in ("/", "/experiments/x0")}
            connection.close()
    return Found(calls, pages)


async def _fill(path: Path, n_experiments: int, n_rounds: int) -> None:
    found = Service(opened(f"sqlite:///{path}"))
    await found.start()
    for at in range(n_experiments):
        administration.create(found, NewExperiment(f"x{at}", ["a", "b", "c", "d"]))
        if at % TOGETHER == 0:
            await found.stored()
    for first in range(0, n_rounds, TOGETHER):
        for number in range(first, first + TOGETHER):
            decisions.decide(found, "x0", NewDecision(id=str(number)))
            feedback.feedback(found, "x0", str(number), Feedback(loss=float(number % 17)))
        await found.stored()
    await found.snapshot_all()
    await found.stop()


def _add_history(path: Path) -> None:
    """Give every experiment as many points as it may have of its life, and some of its last minutes."""
    content = json.dumps([[arm, 0.25] for arm in "abcd"]).encode()
    connection = sqlite3.connect(path)
    with connection:
        ids = [identity for (identity,) in connection.execute("SELECT id FROM experiments")]
        connection.executemany(statements.NEW_HISTORY, _points(ids, time.time(), content))
    connection.close()


def _points(ids: list[int], now: float, content: bytes) -> Iterator[tuple[Any, ...]]:
    for identity in ids:
        for number in range(history.MOST_OF_LIFE):
            yield identity, history.LIFE, now - 3600.0 * number, 1_000_000 - number, 3, 0, content
        for number in range(30):
            yield identity, 0, now - 2.0 * number, 1_000_000 - number, 3, 0, content


def _login(connection: http.client.HTTPConnection) -> str:
    connection.request("POST", "/login", urlencode({"key": KEY}))
    response = connection.getresponse()
    response.read()
    assert response.status == 303, response.status
    return str(response.headers["set-cookie"]).partition(";")[0]


def _get(connection: http.client.HTTPConnection, headers: dict[str, str], path: str) -> bytes:
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    content = response.read()
    assert response.status == 200, (path, response.status)
    return content


def _files(page: bytes) -> set[str]:
    return {part.decode() for part in page.split(b'"') if part.startswith(b"/static/")}


def _call(connection: http.client.HTTPConnection, headers: dict[str, str], name: str, path: str) -> Call:
    times, content = [], _get(connection, headers, path)  # the first one warms up
    for _ in range(N_CALLS):
        started = time.perf_counter()
        content = _get(connection, headers, path)
        times.append(1000.0 * (time.perf_counter() - started))
    return Call(name, statistics.median(times), max(times), len(content))


if __name__ == "__main__":
    found = measured()
    for each in found.calls:
        print(f"{each.name}: {each.median:.1f} ms, at most {each.longest:.1f} ms, {each.weight:,} bytes")
    print(found.pages)
