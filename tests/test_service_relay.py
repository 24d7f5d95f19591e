"""What the pages say about servers that talk to each other, and to their database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("psycopg")

import psycopg

from helpers import PATIENCE
from pages import service_servers
from postgres import Postgres, needs_postgres, postgres
from service_process import KEY, free_port, running
from umab_service import administration, decisions, peers
from umab_service.peers import Asked, Told
from umab_service.postgres import MOST_READERS, PostgreSQL
from umab_service.problems import Problem, unavailable
from umab_service.relay import Relay
from umab_service.schema import NewDecision, NewExperiment
from umab_service.service import Service
from umab_service.storage import DatabaseError


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine, which is its own authority, with its key beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here")
    path = tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key.pem"), "-out", str(path)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return path


class Secure:
    """A server with a certificate."""

    def __init__(self, url: str, certificate: Path, **environment: str) -> None:
        self._port, self._trusting = free_port(), ssl.create_default_context(cafile=certificate)
        tls = ["--tls-certificate", str(certificate), "--tls-key", str(certificate.with_name("key.pem"))]
        options = ["serve", "--port", str(self._port), "--database", url, *tls]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "umab.cli", *options],
            env={**os.environ, "UMAB_ADMIN_KEY": KEY, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, path: str, body: Any = None) -> int:
        """Return the status of the answer."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self._port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"X-API-Key": KEY},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=self._trusting) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def wait(self) -> None:
        for _ in range(600):
            with contextlib.suppress(OSError):
                if self.ask("/readyz") == 200:
                    return
            time.sleep(0.1)
        raise TimeoutError("the server did not start")


@needs_postgres()
def test_servers_trust_each_other_by_an_authority_of_ones_own(database: Postgres, certificate: Path) -> None:
    url, trusting = database.url("secure"), {"SSL_CERT_FILE": str(certificate)}
    servers = [Secure(url, certificate, **trusting), Secure(url, certificate)]
    try:
        for each in servers:
            each.wait()
        trusts, distrusts = servers
        # Of two experiments that each server has created, the other one must ask it.
        assert trusts.ask("/v1/experiments", {"name": "a", "arms": ["x", "y"]}) == 201
        assert distrusts.ask("/v1/experiments", {"name": "b", "arms": ["x", "y"]}) == 201
        assert trusts.ask("/v1/experiments/b/decisions", {}) == 201
        assert distrusts.ask("/v1/experiments/a/decisions", {}) == 503
    finally:
        for each in servers:
            each.process.kill()
            each.process.wait()


@needs_postgres()
def test_a_server_reads_no_body_of_a_stranger_that_plays_a_server(database: Postgres) -> None:
    with (
        running(database.url("stranger")) as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as asking,
    ):
        asking.sendall(b"POST /relay HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
        assert asking.recv(100).startswith(b"HTTP/1.1 404 ")


@needs_postgres()
def test_a_server_has_as_many_connections_as_the_page_says_and_no_more(database: Postgres) -> None:
    url, most = database.url("counted"), 0
    with running(url) as server, psycopg.connect(url, autocommit=True) as watching:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        operations = [{"experiment": "x", "decide": {"id": f"{number}"}} for number in range(1000)]
        for _ in range(5):
            assert server.ask("POST", "/v1/batch", {"operations": operations})[0] == 200
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                server.ask("GET", "/v1/experiments/x/report")

        readers = [threading.Thread(target=read) for _ in range(8)]
        for each in readers:
            each.start()
        mine = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        end = time.monotonic() + 10
        while (most < MOST_READERS and time.monotonic() < end) or time.monotonic() < end - 9:
            most = max(most, (watching.execute(mine).fetchone() or (0,))[0])
            time.sleep(0.02)
        done.set()
        for each in readers:
            each.join()
    assert MOST_READERS <= most <= service_servers.OWN_CONNECTIONS + MOST_READERS


def test_the_place_of_an_experiment_is_looked_up_again_after_its_server_did_not_answer() -> None:
    """Else a third server would never learn that another one has taken over."""
    forgotten: list[str] = []

    class Places:
        async def locate(self, name: str, *, create: object) -> str:
            return "http://silent"

        def misplaced(self, name: str) -> None:
            forgotten.append(name)

    async def asked() -> None:
        relay = Relay(Places(), bytes(32))  # type: ignore[arg-type]

        async def silent(address: str, asked: Asked) -> Told:
            raise unavailable("it did not answer")

        relay.ask = silent  # type: ignore[method-assign]
        with pytest.raises(Problem, match="it did not answer"):
            await relay.answered("x", Asked("GET", "/", b"", [], "", b""), None, relayed=False)  # type: ignore[arg-type]

    asyncio.run(asked())
    assert forgotten == ["x"]


@needs_postgres()
def test_a_server_commits_nothing_to_a_database_that_has_lost_what_its_learners_know(database: Postgres) -> None:
    """As after a failover to an asynchronous replica, even right after another failure: else the log had a gap."""
    url = database.url("lagging")

    def ask(query: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else None

    def break_connections() -> None:
        ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    async def located(service: Service) -> None:
        """Bring the experiment into memory; a connection that was broken is noticed when it is used."""
        while "x" not in service.experiments:
            with contextlib.suppress(DatabaseError, Problem):
                await service.ownership.locate("x")  # type: ignore[union-attr]

    async def decided(service: Service, identity: str) -> bool:
        """Whether a decision was stored; if not, wait until the server has started over."""
        await located(service)
        given = NewDecision(id=identity)
        await service.load("x", decisions.needed(given))
        decisions.decide(service, "x", given)
        try:
            await service.stored()
        except Problem:
            while service.recovering:
                await asyncio.sleep(0.01)
            return False
        return True

    async def nothing() -> None:
        pass

    async def run() -> None:
        service = Service(PostgreSQL(url))
        await service.start(address="http://127.0.0.1:1")
        await service.ownership.locate("x", create=nothing)  # type: ignore[union-attr]
        administration.create(service, NewExperiment("x", ["a", "b"]))
        await service.stored()
        assert await decided(service, "lost")
        break_connections()
        assert not await decided(service, "refused")
        await located(service)
        ask("DELETE FROM events WHERE seq = 2")
        ask("DELETE FROM decisions")
        break_connections()
        assert not await decided(service, "on what is lost")
        assert await decided(service, "afterwards")
        await service.stop()

    asyncio.run(run())
    assert ask("SELECT seq, kind FROM events ORDER BY seq") == [(1, "created"), (2, "decided")]
    assert ask("SELECT id FROM decisions") == [("afterwards",)]


@given(st.lists(st.integers(0, 3 * peers.MOST_TOGETHER // 2), min_size=1, max_size=12))
def test_requests_that_go_together_are_bounded_in_bytes(sizes: list[int]) -> None:
    waiting = [Asked("POST", "/v1/batch", b"", [], "", _Sized(size)) for size in sizes]  # type: ignore[arg-type]
    sent = []
    while waiting:
        n_together = peers._fitting(waiting)
        assert n_together >= 1
        some, waiting = waiting[:n_together], waiting[n_together:]
        assert n_together == 1 or sum(len(each.body) + len(each.path) for each in some) <= peers.MOST_TOGETHER
        if waiting:  # no more would have fitted
            assert sum(len(each.body) + len(each.path) for each in [*some, waiting[0]]) > peers.MOST_TOGETHER
        sent += [len(each.body) for each in some]
    assert sent == sizes


class _Sized:
    """A body of which only the size matters."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size
