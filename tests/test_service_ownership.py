"""Servers that share a database, in one process: what happens while an experiment moves or a lease ends.

Nothing happens by itself here: a test lets a server look around or renew its lease when it wants that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import httpx
import msgspec
import pytest

pytest.importorskip("starlette")
pytest.importorskip("psycopg")

import psycopg

from helpers import PATIENCE
from postgres import Postgres, needs_postgres, postgres
from service_app import ADMIN
from umab_service import leases, recovery, silence
from umab_service import ownership as ownership_module
from umab_service import service as service_module
from umab_service import statements as sql
from umab_service.app import Application
from umab_service.databases import opened
from umab_service.keys import ALL_KEYS, Keys, added, new_key
from umab_service.peers import PATH, Asked, Away, Told
from umab_service.postgres import PostgreSQL
from umab_service.relay import Relay
from umab_service.service import Service
from umab_service.storage import DatabaseError, LeaseLost, NotStored
from umab_service.writer import Writer

pytestmark = needs_postgres()


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture
def url(database: Postgres) -> str:
    return database.url(f"t{uuid.uuid4().hex}")


class Network:
    """Brings requests from one server to another."""

    def __init__(self) -> None:
        self.apps: dict[str, Application] = {}

    async def ask(self, address: str, asked: Asked) -> Told:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.apps[address])) as client:
            headers = {"x-umab-relay": bytes(32).hex()}
            reply = await client.post(address + PATH, content=msgspec.msgpack.encode([asked]), headers=headers)
        if reply.status_code != 200:
            raise Away(reply.text)
        (told,) = msgspec.msgpack.decode(reply.content, type=list[Told])
        return told


class Server:
    """A server and what asks it."""

    def __init__(self, url: str, name: str, network: Network) -> None:
        self.now = 1_800_000_000.0
        self.service = Service(opened(url), clock=lambda: self.now)
        self.name, self._network = name, network

    async def start(self) -> None:
        await self.service.start(address=f"http://{self.name}")
        assert self.service.ownership is not None
        self.ownership = self.service.ownership
        for task in self.ownership.tasks:
            task.cancel()
        self.keys = Keys(await self.service.storage.soon(ALL_KEYS))
        self.relay = Relay(self.ownership, bytes(32))
        self.relay.ask = self._network.ask  # type: ignore[method-assign]
        self.app = Application(self.service, self.keys, relay=self.relay)
        self._network.apps[f"http://{self.name}"] = self.app
        transport = httpx.ASGITransport(app=self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url=f"http://{self.name}")

    async def ask(self, method: str, path: str, body: Any = None, key: str = ADMIN) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await self.client.request(method, path, json=body, headers=headers)

    async def create(self, name: str, **more: Any) -> None:
        reply = await self.ask("POST", "/v1/experiments", {"name": name, "arms": ["a", "b"], "seed": 1, **more})
        assert reply.status_code == 201, reply.text

    async def decide(self, name: str, identity: str) -> httpx.Response:
        return await self.ask("POST", f"/v1/experiments/{name}/decisions", {"id": identity})

    async def learn(self, name: str, identity: str, **more: Any) -> httpx.Response:
        body = {"loss": 1.0, **more}
        return await self.ask("PUT", f"/v1/experiments/{name}/decisions/{identity}/feedback", body)

    async def recovered(self) -> None:
        while self.service.recovering:
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def servers(url: str, n_servers: int = 2) -> AsyncIterator[list[Server]]:
    network, found = Network(), list[Server]()
    for number in range(n_servers):
        found.append(Server(url, f"server{number}", network))
        await found[-1].start()
        if not number and not len(found[0].keys):
            _, key = new_key("admin", "", "", 0.0, ADMIN)
            await found[0].service.store([added(key)])
            found[0].keys.put(key)
    try:
        yield found
    finally:
        for each in found:
            await each.recovered()
            await each.service.stop()


def run_soon(test: Coroutine[Any, Any, None]) -> None:
    """Run a test; one that hangs fails."""
    asyncio.run(asyncio.wait_for(test, PATIENCE))


async def owner(server: Server, name: str) -> int:
    found = await server.ownership._leases.owner(name)
    assert found is not None and found.server is not None
    return found.server


def held(server: Server) -> tuple[asyncio.Event, asyncio.Event]:
    """Let the next commit of a server wait; return what tells that it waits, and what lets it go on."""
    commit, reached, go_on = server.service.storage.commit, asyncio.Event(), asyncio.Event()

    async def slow(statements: Any) -> None:
        reached.set()
        await go_on.wait()
        server.service.storage.commit = commit  # type: ignore[method-assign]
        await commit(statements)  # type: ignore[misc]

    server.service.storage.commit = slow  # type: ignore[method-assign]
    return reached, go_on


def test_an_experiment_on_its_way_to_another_server_is_not_loaded_again_by_the_one_that_gives_it(url: str) -> None:
    async def run() -> None:
        async with servers(url) as (first, second):
            for name in ("x", "y"):
                await first.create(name)
            reached, go_on = held(first)
            giving = asyncio.create_task(first.ownership.look_around())
            await reached.wait()
            (moving,) = {"x", "y"} - first.service.experiments.keys()
            asking = asyncio.create_task(first.decide(moving, "d"))
            await asyncio.sleep(0.3)  # long enough to load it
            go_on.set()
            await giving
            assert (await asking).status_code == 201
            assert await owner(first, moving) == second.service.storage.server
            assert moving not in first.service.experiments and moving in second.service.experiments

    run_soon(run())


def test_a_commit_to_an_experiment_that_the_server_does_not_own_fails(url: str) -> None:
    """However it came that it is still in memory: the one that owns it must be asked."""

    async def run() -> None:
        async with servers(url) as (first, second):
            await first.create("x")
            await first.create("y")
            number = second.service.storage.server
            await first.ownership._leases.ask("UPDATE experiments SET owner = %s WHERE name = 'x'", (number,))
            assert (await first.decide("x", "d")).status_code == 503
            await first.recovered()
            assert (await first.decide("x", "d")).status_code == 201
            assert "x" in second.service.experiments and "x" not in first.service.experiments
            assert (await first.decide("y", "d")).status_code == 201
            assert await owner(first, "y") == first.service.storage.server, "the lease must stay"

    run_soon(run())


def test_a_creation_whose_commit_fails_leaves_no_name_reserved(url: str) -> None:
    async def run() -> None:
        async with servers(url) as (first, second):
            await first.create("kept")
            commit = first.service.storage.commit

            async def failing(statements: Any) -> None:
                raise NotStored("as on a full disk")

            first.service.storage.commit = failing  # type: ignore[method-assign]
            new = {"name": "x", "arms": ["a", "b"]}
            assert (await first.ask("POST", "/v1/experiments", new)).status_code == 503
            first.service.storage.commit = commit  # type: ignore[method-assign]
            await first.recovered()
            names = await first.ownership._leases.ask("SELECT name FROM experiments")
            assert names == [("kept",)]
            assert (await second.ask("POST", "/v1/experiments", new)).status_code == 201
            assert await owner(first, "x") == second.service.storage.server
            assert (await first.decide("kept", "d")).status_code == 201

    run_soon(run())


def test_a_lease_is_renewed_while_experiments_are_loaded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: Any) -> Any:
        time.sleep(0.8)
        return recovery.recovered(*arguments)

    async def run() -> None:
        async with servers(url, 1) as (first,):
            for name in "wxyz":
                await first.create(name)
        monkeypatch.setattr(leases, "LEASE_SECONDS", 3.0)
        monkeypatch.setattr(ownership_module, "RENEW_EVERY", 0.05)
        monkeypatch.setattr(ownership_module, "recovered", slow)
        service = Service(opened(url))
        await service.start(address="http://late")
        number = service.storage.server
        try:
            assert len(service.experiments) == 4
            assert service.ownership is not None and service.ownership.held
            assert await service.ownership._leases.renew(), "the lease must not have ended meanwhile"
            assert not service.recovering and service.storage.server == number
        finally:
            await service.stop()

    run_soon(run())


def test_a_decision_that_memory_forgets_while_others_are_loaded_is_loaded_too(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            service = server.service
            await server.create("x")
            assert (await server.decide("x", "d")).status_code == 201
            del service.rows[service.experiments["x"].token, "d/0"]
            decisions = service.storage.decisions

            async def crowded(keys: Any) -> Any:
                found = await decisions(keys)
                service.storage.decisions = decisions  # type: ignore[method-assign]
                service.forget_rows(0)
                return found

            service.storage.decisions = crowded  # type: ignore[method-assign]
            assert (await server.decide("x", "d")).status_code == 200
            assert service.n_failed == 0

    run_soon(run())


def test_decisions_that_do_not_exist_do_not_fill_memory(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MOST_ROWS", 10)

    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x")
            for number in range(50):
                assert (await server.learn("x", f"d{number}")).status_code == 404
            assert (await server.learn("x", "d" * 10_000)).status_code == 404
            rows = server.service.rows
            assert len(rows) <= 11 and max(len(identity) for _, identity in rows) < 1000

    run_soon(run())


def test_what_was_learned_while_ends_of_waits_are_looked_up_is_not_learned_again(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            service = server.service
            await server.create("x", wait="PT1S", default_loss=5.0)
            assert (await server.decide("x", "d")).status_code == 201
            server.now += 2.0
            reached, go_on = held(server)
            learning = asyncio.create_task(server.learn("x", "d"))
            await reached.wait()
            soon = service.storage.soon

            async def late(*given: Any) -> Any:
                rows = await soon(*given)
                go_on.set()
                assert (await learning).status_code == 200
                service.forget_rows(0)  # as if many others had come meanwhile
                return rows

            service.storage.soon = late  # type: ignore[method-assign, assignment]
            await silence.expire(service)
            service.storage.soon = soon  # type: ignore[method-assign]
            kinds = await soon("SELECT kind FROM events ORDER BY seq")
            assert [kind for (kind,) in kinds] == ["created", "decided", "learned"]

    run_soon(run())


def test_texts_that_postgresql_cannot_hold_are_refused_and_harm_nobody(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x", wait="PT1S", aggregation="sum", default_loss=1.0)
            assert (await server.decide("x", "d")).status_code == 201
            assert (await server.learn("x", "d", key="a\0b")).status_code == 422
            assert (await server.ask("POST", "/v1/keys", {"role": "read", "note": "a\0b"})).status_code == 422
            assert (await server.ask("POST", "/v1/keys", {"role": "read", "prefix": "a\0b"})).status_code == 422
            assert (await server.ask("GET", "/v1/experiments/a%00b")).status_code == 404
            assert (await server.ask("GET", "/v1/experiments?after=a%00b")).status_code == 200
            assert server.service.n_failed == 0

    run_soon(run())


def test_a_commit_that_fails_before_it_is_sent_leaves_nothing_for_the_next_one(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            _, key = new_key("read", "", "half", 0.0)
            with contextlib.suppress(Exception):
                await server.service.storage.commit([added(key), ("no statement", ())])  # type: ignore[misc]
            _, other = new_key("read", "", "whole", 0.0)
            await server.service.store([added(other)])
            notes = await server.service.storage.soon("SELECT note FROM keys ORDER BY note")
            assert notes == [("",), ("whole",)]

    run_soon(run())


def test_strangers_cannot_find_out_which_experiments_exist(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x")
            for path in ("/experiments/x", "/experiments/y"):
                assert (await server.client.get(path)).status_code == 303
                assert (await server.client.post(f"{path}/archive")).status_code == 303

    run_soon(run())


def test_what_the_database_says_is_for_the_log_only(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def away() -> Any:
        raise psycopg.OperationalError('connection to server at "10.9.8.7", user "secret" failed')

    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x")
            storage, lines = server.service.storage, server.ownership._leases._questions
            assert isinstance(storage, PostgreSQL) and storage._writing is not None and lines._connection is not None
            connect = lines._connect
            storage._connected = lines._connect = away  # type: ignore[method-assign]
            await storage._writing.close()
            await lines._connection.close()
            try:
                replies = [
                    await server.ask("GET", "/v1/experiments/y"),
                    await server.client.get("/experiments/y"),
                    await server.ask("POST", "/v1/experiments/x/decisions", {}),
                    await server.ask("POST", "/v1/experiments/x/decisions", {}),
                ]
            finally:
                storage._connected = lines._connect = connect  # type: ignore[method-assign, assignment]
            assert [reply.status_code for reply in replies] == [503, 303, 503, 503]
            assert not any(word in reply.text for word in ("10.9.8.7", "secret") for reply in replies)
            assert "10.9.8.7" in caplog.text

    run_soon(run())


def test_answers_that_come_in_parts_are_passed_on(url: str) -> None:
    async def run() -> None:
        async with servers(url) as (first, second):
            await first.create("x")
            reply = await second.ask("GET", "/v1/experiments/x/events")
            assert reply.status_code == 200 and b"created" in reply.content
            names = [name for name, _ in reply.headers.raw]
            assert len(names) == len(set(names)), "a header came twice"

    run_soon(run())


def test_what_is_no_request_of_another_server_does_no_harm(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            headers = {"x-umab-relay": bytes(32).hex()}
            reply = await server.client.post(PATH, content=b"of another version", headers=headers)
            assert reply.status_code == 400 and server.service.n_failed == 0
            assert (await server.client.post(PATH, content=b"", headers={})).status_code == 404

    run_soon(run())


def test_nothing_is_read_from_memory_once_the_lease_may_have_ended(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x")
            assert (await server.ask("GET", "/v1/experiments/x")).status_code == 200
            server.ownership._leases.until = time.monotonic() - 1.0
            for path in ("", "/report", "/export"):
                assert (await server.ask("GET", f"/v1/experiments/x{path}")).status_code == 503
            assert (await server.decide("x", "d")).status_code == 503
            assert await server.ownership._leases.renew()
            assert (await server.ask("GET", "/v1/experiments/x")).status_code == 200

    run_soon(run())


def test_an_experiment_that_cannot_be_loaded_keeps_no_other_from_it(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x")
            await server.create("y")
            await server.service.storage.soon("UPDATE events SET body = 'x' WHERE experiment = 1")
        async with servers(url, 1) as (server,):
            assert set(server.service.experiments) == {"y"}
            assert (await server.decide("x", "d")).status_code == 503
            assert (await server.decide("y", "d")).status_code == 201

    run_soon(run())


def test_a_server_stops_even_if_the_database_is_away(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            await server.create("x")
            lines, ask = server.ownership._leases, server.ownership._leases.ask

            async def away(*_: Any) -> Any:
                raise DatabaseError("the database is away")

            lines.ask = away  # type: ignore[method-assign, assignment]
            await server.service.stop()
            lines.ask = ask  # type: ignore[method-assign]
            await server.start()

    run_soon(run())


def test_commits_never_overlap() -> None:
    class Slow:
        def __init__(self) -> None:
            self.n_open = self.most = 0

        async def commit(self, statements: Any) -> None:
            self.n_open += 1
            self.most = max(self.most, self.n_open)
            await asyncio.sleep(0.01)
            self.n_open -= 1

    async def run() -> None:
        storage: Any = Slow()
        writer = Writer(storage, asyncio.get_running_loop(), lambda: None)
        jobs = [writer.submit([(sql.NEW_SECRET, ("a", b""))])]
        flushing = asyncio.create_task(writer.flush())
        asyncio.get_running_loop().call_soon(lambda: jobs.append(writer.submit([(sql.NEW_SECRET, ("b", b""))])))
        writer._commit()
        jobs.append(writer.submit([(sql.NEW_SECRET, ("c", b""))]))
        await flushing
        await asyncio.gather(*jobs)
        assert storage.most == 1

    run_soon(run())


REFUSED: tuple[dict[str, Any], ...] = (
    {"arms": ["a", "b"], "policy": "unknown"},
    {"arms": ["a", "b"], "wait": "PT1S"},
    {"arms": ["a", "a"]},
    {"arms": []},
    {"arms": ["a", "b"], "policy": "exp3", "seed": -1},
)


def test_what_is_not_created_reserves_no_name(url: str) -> None:
    async def run() -> None:
        async with servers(url) as (first, second):
            for number, settings in enumerate(REFUSED):
                for each in (first, second):
                    reply = await each.ask("POST", "/v1/experiments", {"name": f"refused{number}", **settings})
                    assert reply.status_code == 422, reply.text
            assert await first.ownership._leases.ask("SELECT name FROM experiments") == []
            await first.create("refused0")
            known = await second.ask("POST", "/v1/experiments", {"name": "refused0", "arms": ["a", "a"]})
            assert known.status_code == 409, "who owns it answers, as if nobody else were there"

    run_soon(run())


def test_names_that_are_only_reserved_do_not_count_and_go_with_their_server(url: str) -> None:
    async def run() -> None:
        async with servers(url) as (first, second):
            for number in range(4):
                await first.create(f"x{number}")
            for number in range(10):
                assert await first.ownership._leases.reserve(f"reserved{number}") is not None
            for each in (first, second, first):
                await each.ownership.look_around()
            mine = [len(each.service.experiments) for each in (first, second)]
            assert mine == [2, 2], "each has its share of what exists"
            ask = first.ownership._leases.ask
            await ask("UPDATE servers SET until = 0 WHERE id = %s", (second.service.storage.server,))
            assert await second.ownership._leases.reserve("late") is None, "a server without a lease reserves nothing"
            await first.ownership.look_around()
            assert len(await ask("SELECT id FROM experiments WHERE settings IS NULL")) == 10
        async with servers(url, 1) as (third,):
            assert len(third.service.experiments) == 4
            assert await third.ownership._leases.ask("SELECT id FROM experiments WHERE settings IS NULL") == []
            await third.create("reserved0")

    run_soon(run())


def test_an_event_of_an_experiment_that_is_not_there_is_not_committed(url: str) -> None:
    async def run() -> None:
        async with servers(url, 1) as (server,):
            number = await server.ownership._leases.reserve("x")
            await server.ownership._leases.ask("DELETE FROM experiments")
            with pytest.raises(LeaseLost):
                await server.service.storage.commit([(sql.NEW_EVENT, (number, 1, 0.0, "created", b"{}"))])  # type: ignore[misc]
            assert await server.ownership._leases.ask("SELECT seq FROM events") == []

    run_soon(run())


def test_waits_end_beside_an_experiment_that_cannot_be_loaded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "EXPIRED_AT_ONCE", 5)

    async def run() -> None:
        async with servers(url, 1) as (server,):
            for name in ("damaged", "x", "y"):
                await server.create(name, wait="PT1S", default_loss=1.0)
                for number in range(7):
                    assert (await server.decide(name, f"d{number}")).status_code == 201
            await server.ownership._leases.ask("DELETE FROM events WHERE experiment = 1")
        async with servers(url, 1) as (server,):
            service = server.service
            assert service.experiments.keys() == {"x", "y"}
            server.now += 60.0
            while await silence.expire(service):
                pass
            assert [each.n_open for each in service.experiments.values()] == [0, 0]
            assert len(await service.storage.soon("SELECT id FROM decisions WHERE due IS NOT NULL")) == 7

    run_soon(run())
