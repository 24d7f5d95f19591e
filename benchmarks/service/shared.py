"""PostgreSQL beside SQLite, a second server beside one, and requests that are passed on."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.service.load import CONNECTIONS, DECIDE, Load, Server, serving, started

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # where a PostgreSQL for tests is started, too

from postgres import postgres

TURNS, SECONDS = 21, 1
NAMES = "x", "y"


class Found(NamedTuple):
    """For each turn, decisions per second as a part of others, or processor time."""

    postgres: list[float]
    """On PostgreSQL, as a part of those on SQLite."""
    p99: list[float]
    """In milliseconds, on PostgreSQL."""
    both: list[float]
    """Of two servers, each asked for its own experiment, as a part of those of one server with both experiments."""
    mixed: list[float]
    """The same, but each server is asked for both experiments, so that half of the requests are passed on."""
    passed_on: list[float]
    """Processor time per decision that is passed on, as a multiple of that of one that is not."""
    rate: float
    """Decisions per second on PostgreSQL."""


def measured(turns: int = TURNS) -> Found:
    """Return what turns gave."""
    found = Found([], [], [], [], [], 0.0)
    rates: list[float] = []
    with tempfile.TemporaryDirectory() as folder, postgres() as database:
        url = database.url()
        with serving(Path(folder) / "umab.db") as (sqlite, _), _on(url) as one:
            for name in NAMES:
                for server in (sqlite, one):
                    server.ask("POST", "/v1/experiments", _experiment(name))
            for turn in range(-1, turns):  # the first one warms up
                here, alone = sqlite.load(_decide("x"), SECONDS), one.load(_decide("x"), SECONDS)
                together = _sum(_at_once((one, "x"), (one, "y")))
                with _on(url) as other:
                    places = _places(url, one, other)
                    apart = _sum(_at_once(*places))
                    mixed = _sum(_at_once(*((server, name) for server in (one, other) for name in NAMES)))
                    (owner, name), (foreign, _) = places
                    direct = _seconds_each(owner, name, owner, foreign)
                    passed = _seconds_each(foreign, name, owner, foreign)
                if turn >= 0:
                    rates.append(alone.per_second)
                    found.postgres.append(alone.per_second / here.per_second)
                    found.p99.append(alone.p99)
                    found.both.append(apart / together)
                    found.mixed.append(mixed / together)
                    found.passed_on.append(passed / direct)
    return found._replace(rate=sorted(rates)[len(rates) // 2])


def _experiment(name: str) -> dict[str, object]:
    return {"name": name, "arms": ["a", "b", "c"], "wait": "PT1H", "forget": True}


def _decide(name: str) -> str:
    return DECIDE.replace("/experiments/x/", f"/experiments/{name}/")


@contextlib.contextmanager
def _on(url: str) -> Iterator[Server]:
    """Start a server on a PostgreSQL database."""
    with started("umab.cli", "serve", "--port", "PORT", "--database", url, ready="/readyz", quiet=True) as (server, _):
        yield server


def _at_once(*pairs: tuple[Server, str]) -> list[Load]:
    """Return what each of several loads at the same time gives, with the usual number of connections in all."""
    found: list[Load] = []

    def load(server: Server, name: str) -> None:
        found.append(server.load(_decide(name), SECONDS, connections=CONNECTIONS // len(pairs)))

    threads = [threading.Thread(target=load, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _sum(loads: list[Load]) -> float:
    return sum(each.per_second for each in loads)


def _places(url: str, *servers: Server) -> list[tuple[Server, str]]:
    """Wait until each server owns one of the experiments; return which."""
    import psycopg

    query = "SELECT address, name FROM experiments JOIN servers ON servers.id = owner"
    by_port = {str(server.port): server for server in servers}
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            rows = connection.execute(query).fetchall()
            found = [(by_port[address.rpartition(":")[2]], name) for address, name in rows]
            if len({server.port for server, _ in found}) == len(servers):
                return found
            time.sleep(0.1)


def _seconds_each(asked: Server, name: str, *servers: Server) -> float:
    """Return the processor time of all servers per decision."""
    before = sum(server.cpu() for server in servers)
    load = asked.load(_decide(name), SECONDS)
    return (sum(server.cpu() for server in servers) - before) / (load.per_second * SECONDS)
