"""Several services in one loop on one PostgreSQL database: who may commit, and what they have in memory."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
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
from service_cluster import recovered_from
from umab_service import leases, ownership, relay, silence
from umab_service import postgres as postgres_module
from umab_service.app import Application
from umab_service.databases import opened
from umab_service.keys import ALL_KEYS, Keys, added, new_key
from umab_service.ownership import Elsewhere
from umab_service.peers import PATH, Asked, Away, Told
from umab_service.postgres import PostgreSQL
from umab_service.problems import Problem, unavailable
from umab_service.recovery import recovered
from umab_service.relay import Relay
from umab_service.service import Service

pytestmark = needs_postgres()

ADMIN = "umab_testadmin_" + "a" * 40


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look for the owner of an experiment for long, and let leases be renewed by hand."""
    monkeypatch.setattr(relay, "TRIES_SECONDS", 0.1)
    monkeypatch.setattr(ownership, "RENEW_EVERY", 1e6)


class Node:
    """A service with its application, which may be paused or dead."""

    def __init__(self, world: World, number: int) -> None:
        self.address, self.paused, self.dead = f"http://n{number}", False, False
        self._world = world
        self.service = Service(opened(world.url), clock=lambda: world.now)
        assert isinstance(self.service.storage, PostgreSQL)
        self.storage = self.service.storage
        self._connect, self._connections = self.storage._connected, list[psycopg.AsyncConnection[Any]]()
        self.storage._connected = self._connected  # type: ignore[method-assign]
        self.storage.leases = leases.Leases(self._connected)

    async def _connected(self) -> psycopg.AsyncConnection[Any]:
        """Connect, if it is not dead, and remember the connection, also if nobody waits for it any more."""
        return await asyncio.shield(asyncio.ensure_future(self._connected_for_sure()))

    async def _connected_for_sure(self) -> psycopg.AsyncConnection[Any]:
        found = await self._connect()
        self._connections.append(found)
        if self.dead:
            await found.close()
            raise psycopg.OperationalError("this server is dead")
        return found

    async def start(self) -> None:
        await self.service.start(address=self.address)
        assert self.service.ownership is not None
        self.ownership = self.service.ownership
        keys = Keys(await self.storage.soon(ALL_KEYS))
        passing = Relay(self.ownership, bytes(32))
        passing.ask = self._world.pass_on  # type: ignore[method-assign]
        self.app = Application(self.service, keys, relay=passing)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.app),
            base_url=self.address,
            headers={"Authorization": f"Bearer {ADMIN}"},
        )

    @property
    def leases(self) -> leases.Leases:
        return self.storage.leases

    async def turn(self) -> None:
        """Do what a server does by itself every second."""
        if not await self.leases.renew():
            self.service.lose_lease()
        elif not self.service.recovering:
            await self.ownership.look_around()

    async def settle(self) -> None:
        """Wait until a failure is over."""
        while self.service.recovering:
            await asyncio.sleep(0.005)

    async def kill(self) -> None:
        """End as a process that is killed would: its connections close, and that is all."""
        self.dead = True
        self.service.recovering = True
        for task in (self.service._task, *self.ownership.tasks):
            if task is not None:
                task.cancel()
        for connection in self._connections:
            await connection.close()
        await asyncio.to_thread(self.storage.close)

    async def leave(self) -> None:
        """End as a server that is told to stop."""
        await self.settle()
        with contextlib.suppress(Problem):  # the database may be away
            await self.service.snapshot_all()
        await self.service.stop()
        self.dead = True
        for connection in self._connections:
            await connection.close()


class World:
    """Nodes on one database, and what their clients were told. It carries requests from one node to another."""

    def __init__(self, url: str, seed: int = 0) -> None:
        self.url, self.random, self.now = url, random.Random(seed), 1_800_000_000.0
        self.nodes: list[Node] = []
        self.gone: list[Node] = []
        """Nodes that were killed, whose leases have not ended."""
        self.n_nodes = self.n_ids = 0
        self.decided: dict[tuple[str, str], Any] = {}
        self.learned: dict[tuple[str, str], float] = {}
        self.tried: set[tuple[str, str]] = set()
        self.created: set[str] = set()
        self.statuses: dict[int, int] = {}

    async def pass_on(self, address: str, asked: Asked) -> Told:
        """Bring a request from one node to another."""
        node = next((each for each in self.nodes if each.address == address and not each.dead), None)
        if node is None:
            raise Away("it is gone")
        if node.paused:
            raise unavailable("it does not answer")
        headers = {"x-umab-relay": bytes(32).hex()}
        reply = await node.client.post(PATH, content=msgspec.msgpack.encode([asked]), headers=headers)
        assert reply.status_code == 200, reply
        (told,) = msgspec.msgpack.decode(reply.content, type=list[Told])
        return told

    async def join(self) -> Node:
        self.n_nodes += 1
        node = Node(self, self.n_nodes)
        await node.start()
        self.nodes.append(node)
        return node

    async def query(self, text: str, parameters: Any = ()) -> list[Any]:
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            cursor = await connection.execute(text, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def end_lease(self, node: Node) -> None:
        """Let the time pass at which the lease of a node ends."""
        await self.query("UPDATE servers SET until = 0 WHERE id = %s", (node.leases.me,))

    async def ask(self, node: Node, method: str, path: str, body: Any = None) -> httpx.Response:
        reply = await node.client.request(method, path, json=body)
        self.statuses[reply.status_code] = self.statuses.get(reply.status_code, 0) + 1
        return reply

    async def create(self, node: Node, name: str) -> None:
        more = {"wait": "PT10S", "default_loss": 3.0} if name.endswith("w") else {}
        reply = await self.ask(node, "POST", "/v1/experiments", {"name": name, "arms": ["a", "b"], "seed": 1, **more})
        assert reply.status_code in (200, 201, 503), reply.text
        assert reply.status_code != 201 or name not in self.created, "it was created twice"
        if reply.status_code != 503:
            self.created.add(name)

    async def decide(self, node: Node, name: str, identity: str) -> None:
        reply = await self.ask(node, "POST", f"/v1/experiments/{name}/decisions", {"id": identity})
        assert reply.status_code in (200, 201, 503), reply.text
        if reply.status_code != 503:
            assert self.decided.setdefault((name, identity), reply.content) == reply.content

    async def feedback(self, node: Node, name: str, identity: str, loss: float) -> None:
        key = name, identity
        known = key in self.learned
        path = f"/v1/experiments/{name}/decisions/{identity}/feedback"
        reply = await self.ask(node, "PUT", path, {"loss": loss})
        assert reply.status_code in (200, 503, *([410] if name.endswith("w") else [])), reply.text
        if reply.status_code == 200:
            assert not (known and reply.json()["state"] == "learned"), "it was learned twice"
            self.learned[key] = loss

    async def check(self) -> None:
        """Check all laws. Nothing may be on its way."""
        for node in self.nodes:
            await node.settle()
        events = await self.query("SELECT experiment, min(seq), max(seq), count(*) FROM events GROUP BY experiment")
        assert all(first == 1 and last == count for _, first, last, count in events)
        names = dict(await self.query("SELECT id, name FROM experiments"))
        rows = await self.query("SELECT experiment, id, answer, state, value FROM decisions")
        stored = {(names[each], identity): row for each, identity, *row in rows}
        for key, answer in self.decided.items():
            assert bytes(stored[key][0]) == answer, "a decision that was acknowledged is lost"
        for key, loss in self.learned.items():
            assert stored[key][1:] == ["learned", loss], "feedback that was acknowledged is lost"
        replayed = await asyncio.to_thread(recovered_from, self.url)
        alive = {number for (number,) in await self.query("SELECT id FROM servers WHERE until > 0")}
        owners = dict(await self.query("SELECT name, owner FROM experiments"))
        for node in self.nodes:
            if node.leases.me in alive:  # else its next commit fails
                for name, each in node.service.experiments.items():
                    assert owners[name] == node.leases.me, "a server has what another one owns"
                    assert each.seq == replayed[name].seq
                    assert each.learner.to_json() == replayed[name].learner.to_json()

    # A random walk.

    def request(self) -> Coroutine[Any, Any, None]:
        """Return a request of some client to some node."""
        node = self.random.choice([each for each in self.nodes if not each.paused])
        kind = self.random.random()
        if kind < 0.1 or not self.created:
            return self.create(node, self.random.choice(["x", "yw", "z", "uw", "v"]))
        if kind < 0.5 or not self.decided:
            name = self.random.choice(sorted(self.created))
            self.n_ids += self.random.random() < 0.8  # else the same again
            return self.decide(node, name, f"d{self.n_ids}")
        name, identity = self.random.choice(sorted(self.decided)[-20:])
        return self.feedback(node, name, identity, 1.0 + int(identity[1:]) % 7 / 8)

    async def step(self) -> None:
        """Let some requests and one event come at the same time."""
        awake = [each for each in self.nodes if not each.paused]
        node = self.random.choice(awake)
        asleep = [each for each in self.nodes if each.paused]
        what = self.random.random()
        happens: list[Any] = []
        if what < 0.4:
            happens += [each.turn() for each in awake]
        elif what < 0.45:
            happens.append(self.end_lease(node))
        elif what < 0.52 and len(awake) > 1:
            node.paused = True
            await self.end_lease(node)
        elif what < 0.77 and asleep:
            asleep[0].paused = False
        elif what < 0.8 and len(awake) > 1:
            self.nodes.remove(node)
            self.gone.append(node)
            happens.append(node.kill())
        elif what < 0.85 and len(awake) > 1:
            self.nodes.remove(node)
            happens.append(node.leave())
        elif what < 0.92 and len(self.nodes) < 4:
            happens.append(self.join())
        elif what < 0.96:
            self.now += self.random.choice([1.0, 6.0])
            happens.append(silence.expire(node.service))
        if self.gone and self.random.random() < 0.5:
            happens.append(self.end_lease(self.gone.pop(0)))
        requests = [self.request() for _ in range(self.random.randrange(6))]
        done = await asyncio.gather(*requests, *happens, return_exceptions=True)
        for each in done[: len(requests)]:
            if each is not None:
                raise each


@contextlib.asynccontextmanager
async def world(database: Postgres, n_nodes: int, seed: int = 0) -> AsyncIterator[World]:
    found = World(database.url(f"t{uuid.uuid4().hex}"), seed)
    storage = PostgreSQL(found.url)
    storage.open()
    storage.write([added(new_key("admin", "", "", 0.0, ADMIN)[1])])
    storage.close()
    for _ in range(n_nodes):
        await found.join()
    try:
        yield found
    finally:
        for node in found.nodes:
            await node.kill()


def walked(database: Postgres, seed: int, n_steps: int) -> dict[int, int]:
    """Walk at random, and return how often each status was answered."""

    async def walk() -> dict[int, int]:
        async with world(database, 2, seed) as found:
            for number in range(n_steps):
                await found.step()
                if number % 5 == 4:
                    await found.check()
            await found.check()
            for node in found.nodes:
                node.paused = False
                await node.turn()
                await node.settle()
            return found.statuses

    return asyncio.run(walk())


@pytest.mark.parametrize("seed", range(2))
def test_random_pauses_kills_and_joins_lose_nothing_that_was_acknowledged(database: Postgres, seed: int) -> None:
    statuses = walked(database, seed, 60)
    assert statuses[201] > 15 and statuses[200] > 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_long_random_walks_lose_nothing_that_was_acknowledged(database: Postgres, seed: int) -> None:
    walked(database, seed, 500)


def test_what_is_handed_over_while_it_is_read_once_more_is_not_kept(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        found = recovered(*arguments)
        reading.set()
        assert go_on.wait(20)
        return found

    async def run() -> None:
        async with world(database, 2) as found:
            first, second = found.nodes
            for name in ("x", "z"):
                await found.create(first, name)
            kept = first.service.experiments["z"]
            with monkeypatch.context() as patched:
                patched.setattr("umab_service.ownership.recovered", slowly)
                loading = asyncio.create_task(first.ownership._loaded(kept.id, "z"))
                assert await asyncio.to_thread(reading.wait, PATIENCE)
                await first.ownership._hand_over(1, {first.leases.me: 2, second.leases.me: 0}, 1)
                go_on.set()
                with pytest.raises(Elsewhere):
                    await loading
            assert first.service.experiments.keys() == {"x"}
            await second.turn()
            assert second.service.experiments.keys() == {"z"}
            await found.check()

    asyncio.run(run())


# A server that is stopped in the middle of a commit.


def stopped(node: Node) -> tuple[asyncio.Event, asyncio.Event]:
    """Let the next commit of a node stop before its end; return what tells that it has, and what lets it go on."""
    connection, reached, go_on = node.storage._writing, asyncio.Event(), asyncio.Event()
    assert connection is not None
    execute = connection.execute

    async def stops(query: Any, *more: Any) -> Any:
        if query == "COMMIT":
            reached.set()
            await go_on.wait()
        return await execute(query, *more)

    connection.execute = stops  # type: ignore[method-assign, assignment]
    return reached, go_on


async def stops_until_its_lease_ends(found: World, node: Node) -> tuple[asyncio.Task[httpx.Response], asyncio.Event]:
    """Let a node stop in the middle of a commit; return what it was asked, and what lets it go on."""
    reached, go_on = stopped(node)
    soon = "UPDATE servers SET until = extract(epoch FROM clock_timestamp()) + 8 WHERE id = %s"
    await found.query(soon, (node.leases.me,))
    asking = asyncio.create_task(found.ask(node, "POST", "/v1/experiments/x/decisions", {"id": "d2"}))
    await asyncio.wait_for(reached.wait(), PATIENCE)
    await asyncio.sleep(8.1)
    return asking, go_on


def test_a_server_that_stops_in_the_middle_of_a_commit_keeps_nobody_waiting(database: Postgres) -> None:
    async def run() -> None:
        async with world(database, 2) as found:
            first, second = found.nodes
            await found.create(first, "x")
            await found.decide(first, "x", "d1")
            asking, go_on = await stops_until_its_lease_ends(found, first)
            await asyncio.wait_for(second.turn(), PATIENCE)
            await found.decide(second, "x", "d3")
            assert found.statuses[201] == 3 and "x" in second.service.experiments
            go_on.set()
            reply = await asking
            assert reply.status_code == 503 and reply.headers["retry-after"] == "1"
            await found.check()
            assert not await found.query("SELECT FROM decisions WHERE id = 'd2'")
            await found.decide(first, "x", "d2")  # as a new server
            assert found.statuses[201] == 4

    asyncio.run(run())


def test_nobody_owns_what_a_commit_of_another_server_may_still_change(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the connection of the other server cannot be ended, its commit is waited for."""
    monkeypatch.setattr("umab_service.postgres.NAMED", "SELECT %s::bigint")

    async def run() -> None:
        async with world(database, 2) as found:
            first, second = found.nodes
            await found.create(first, "x")
            await found.decide(first, "x", "d1")
            asking, go_on = await stops_until_its_lease_ends(found, first)
            turning = asyncio.create_task(second.turn())
            await asyncio.sleep(0.5)
            assert not turning.done() and not second.service.experiments
            go_on.set()
            assert (await asking).status_code == 201
            await asyncio.wait_for(turning, PATIENCE)
            assert second.service.experiments["x"].seq == 3
            await found.check()

    asyncio.run(run())


def test_what_failed_in_the_middle_of_a_commit_is_no_part_of_the_next_one(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(statements: Any) -> Iterator[Any]:
        yield from together(statements)
        raise RuntimeError

    together = postgres_module._together

    async def run() -> None:
        async with world(database, 1) as found:
            (node,) = found.nodes
            await found.create(node, "x")
            with monkeypatch.context() as patched:
                patched.setattr(postgres_module, "_together", fails)
                await found.decide(node, "x", "d1")
            await node.settle()
            await node.turn()
            await found.decide(node, "x", "d2")
            assert found.decided.keys() == {("x", "d2")} and found.statuses == {201: 2, 503: 1}
            await found.check()
            assert await found.query("SELECT id FROM decisions") == [("d2",)]

    asyncio.run(run())


# Experiments that move.


async def owners_of(found: World) -> dict[str, int]:
    return dict(await found.query("SELECT name, owner FROM experiments"))


def test_an_experiment_changes_hands_after_everything_that_was_done_before(database: Postgres) -> None:
    async def run() -> None:
        async with world(database, 1) as found:
            (first,) = found.nodes
            for name in ("x", "y"):
                await found.create(first, name)
            second = await found.join()
            reached, go_on = stopped(first)
            deciding = [asyncio.create_task(found.decide(first, name, "d1")) for name in ("x", "y")]
            await asyncio.wait_for(reached.wait(), PATIENCE)
            giving = asyncio.create_task(first.ownership.look_around())
            await asyncio.sleep(0.3)
            assert set((await owners_of(found)).values()) == {first.leases.me}
            go_on.set()
            await asyncio.gather(*deciding, giving)
            assert set((await owners_of(found)).values()) == {first.leases.me, second.leases.me}
            await second.turn()
            assert [each.seq for each in second.service.experiments.values()] == [2]
            assert first.service.n_failed == second.service.n_failed == 0 and len(found.decided) == 2
            await found.check()

    asyncio.run(run())


def test_what_a_server_knew_of_decisions_is_forgotten_when_their_experiment_was_elsewhere(database: Postgres) -> None:
    async def run() -> None:
        async with world(database, 1) as found:
            (first,) = found.nodes
            for name in ("x", "y"):
                await found.create(first, name)
                await found.decide(first, name, "d1")
            second = await found.join()
            await first.turn()
            await second.turn()
            (moved,) = second.service.experiments
            await found.feedback(second, moved, "d1", 1.5)
            await second.leave()
            found.nodes.remove(second)
            await first.turn()
            assert moved in first.service.experiments
            await found.feedback(first, moved, "d1", 1.5)  # which must not learn it again
            assert found.statuses == {201: 4, 200: 2}
            await found.check()

    asyncio.run(run())


def test_where_an_experiment_was_is_believed_no_longer_than_the_server_there_has_it(database: Postgres) -> None:
    async def run() -> None:
        async with world(database, 3) as found:
            first, second, third = found.nodes
            await found.create(first, "x")
            await found.decide(third, "x", "d1")
            await found.end_lease(first)
            await second.turn()
            await first.turn()
            await first.settle()
            await found.decide(third, "x", "d2")  # the first server lives, and tells that it does not have it
            await second.leave()
            found.nodes.remove(second)
            await first.turn()
            await found.decide(third, "x", "d3")  # the second one is gone
            assert found.statuses == {201: 4}
            await found.check()

    asyncio.run(run())
