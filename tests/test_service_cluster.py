"""Several servers on one PostgreSQL database: killed, paused, without their database, and moving experiments."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest

pytest.importorskip("starlette")
pytest.importorskip("psycopg")

from helpers import PATIENCE
from postgres import Postgres, needs_postgres, postgres
from service_cluster import Cluster, Reply, Silent, ask, cluster, compare, exported, load, until
from service_process import KEY, Client, Server
from umab_service.peers import Asked, Told
from umab_service.postgres import PostgreSQL
from umab_service.routes import ROUTES
from umab_service.server import ensure_key

pytestmark = needs_postgres()

SILENT = {"wait": "PT0.3S", "default_loss": 5.0}


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


def clients_of(found: Cluster) -> list[Client]:
    """Return clients of two experiments, and one that never gives feedback; each begins at another server."""
    found.create("x", "y")
    found.create("silent", **SILENT)
    there = found.servers
    return [
        Client(there[0], 0, *there[1:]),
        Client(there[-1], 1, *there[:-1]),
        Client(there[0], 2, *there[1:], experiment="y"),
        Silent(there[-1], 3, *there[:-1], experiment="silent"),
    ]


def works(server: Server, name: str = "x") -> bool:
    """Whether a server makes decisions."""
    return ask(server, "POST", f"/v1/experiments/{name}/decisions", {"id": f"w{time.monotonic_ns()}"}).status == 201


# The owner is killed.


def killed(database: Postgres, n_times: int, seed: int) -> int:
    """Kill the owner of an experiment again and again; return how much was learned."""
    moments = random.Random(seed)
    with cluster(database) as found:
        clients = clients_of(found)
        with load(found, *clients):
            for _ in range(n_times):
                time.sleep(moments.uniform(0.1, 1.0))
                owner = until(lambda: found.owner("x"))
                (other,) = found.others(owner)
                owner.kill()
                until(lambda: works(other))  # noqa: B023
                owner.start()
            time.sleep(0.5)
        live = exported(found, "x", "y", "silent")
        compare(found, clients, live)
        assert all(server.stop() == 0 for server in found.servers)
        compare(found, clients, live)
    return sum(len(client.learned) for client in clients)


def test_nothing_acknowledged_is_lost_if_owners_are_killed(database: Postgres) -> None:
    assert killed(database, 2, seed=1) > 20


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_if_owners_are_killed_many_times(database: Postgres) -> None:
    assert killed(database, 15, seed=2) > 500


# The owner is paused.


def paused(database: Postgres, n_times: int, seed: int) -> None:
    """Pause the owner of an experiment, and let it wake after another server has taken over."""
    moments = random.Random(seed)
    with ThreadPoolExecutor(8) as threads, cluster(database) as found:
        clients = clients_of(found)
        with load(found, *clients):
            for turn in range(n_times):
                time.sleep(moments.uniform(0.1, 1.0))
                owner = until(lambda: found.owner("x"))
                (other,) = found.others(owner)
                before = found.number(owner) or 0
                assert owner.process is not None
                owner.process.send_signal(signal.SIGSTOP)
                names = [f"late-{turn}-{number}" for number in range(6)]
                path = "/v1/experiments/x/decisions"
                late = [threads.submit(ask, owner, "POST", path, {"id": each}, timeout=PATIENCE) for each in names]
                until(lambda: found.owner("x") is other)  # noqa: B023
                until(lambda: works(other))  # noqa: B023
                owner.process.send_signal(signal.SIGCONT)
                for name, each in zip(names, late, strict=True):
                    reply = each.result()
                    stored = found.query("SELECT answer FROM decisions WHERE id = %s", (name,))
                    assert reply.status in (201, 503), reply
                    assert [bytes(answer) for (answer,) in stored] == ([reply.content] if reply.status == 201 else [])
                until(lambda: (found.number(owner) or 0) > before)  # noqa: B023
                until(lambda: works(owner))  # noqa: B023
        live = exported(found, "x", "y", "silent")
        compare(found, clients, live)


def test_an_owner_that_wakes_after_its_lease_commits_nothing_and_starts_anew(database: Postgres) -> None:
    paused(database, 2, seed=1)


@pytest.mark.slow
def test_owners_that_are_paused_many_times(database: Postgres) -> None:
    paused(database, 15, seed=2)


# The database is away.


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_servers_outlive_a_restart_of_the_database_and_lose_nothing(database: Postgres, mode: str) -> None:
    with cluster(database) as found:
        clients = clients_of(found)
        with load(found, *clients):
            time.sleep(0.5)
            database.stop(mode)
            for server in found.servers:
                path = "/v1/experiments/x/decisions"
                reply = until(lambda: (it := ask(server, "POST", path, {})).status == 503 and it)  # noqa: B023
                assert reply.header("retry-after") == "1" and "detail" in reply.json
                assert ask(server, "GET", "/healthz").status == 200
            database.start()
            for server in found.servers:
                until(lambda: works(server) and ask(server, "GET", "/readyz").status == 200)  # noqa: B023
            time.sleep(0.5)
        live = exported(found, "x", "y", "silent")
        compare(found, clients, live)
        assert min(len(client.decided) for client in clients) > 0


@contextlib.contextmanager
def taken(url: str) -> Iterator[list[Any]]:
    """Take all connections that a database has left."""
    held: list[Any] = []
    try:
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            while True:
                held.append(psycopg.connect(url))
        yield held
    finally:
        for each in held:
            each.close()


def test_a_database_without_connections_is_answered_and_outlived() -> None:
    with postgres(max_connections="12", superuser_reserved_connections="0") as small:
        url = small.url("few")
        server = Server(url)
        with taken(url), pytest.raises(RuntimeError) as refused:
            server.start()
        (line,) = str(refused.value).strip().splitlines()
        assert line.startswith("umab: the database") and "too many clients" in line
        try:
            server.start()
            assert ask(server, "POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]}).status == 201
            with taken(url):
                assert works(server)  # it has what it needs
            with psycopg.connect(url, autocommit=True) as connection, contextlib.ExitStack() as others:
                its = "FROM pg_stat_activity WHERE pid <> ALL(%s) AND backend_type = 'client backend'"
                mine = [connection.info.backend_pid]

                def has_none() -> bool:
                    """End its connections, and take them."""
                    connection.execute(f"SELECT pg_terminate_backend(pid) {its}", (mine,))
                    mine.extend(each.info.backend_pid for each in others.enter_context(taken(url)))
                    return connection.execute(f"SELECT count(*) {its}", (mine,)).fetchone() == (0,)

                until(has_none)
                reply = ask(server, "POST", "/v1/experiments/x/decisions", {})
                assert reply.status == 503 and reply.header("retry-after") == "1"
                assert ask(server, "GET", "/healthz").status == 200
            until(lambda: works(server))
            until(lambda: ask(server, "GET", "/v1/experiments/x/report").status == 200)
            assert server.stop() == 0
        finally:
            if server.process is not None and server.process.poll() is None:
                server.kill()


def test_reports_that_wait_for_a_connection_are_told_to_come_again_and_decisions_go_on(
    database: Postgres, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service_app import Client as InProcess
    from umab_service import postgres as storage_module

    monkeypatch.setattr("service_app.url_of", lambda folder: database.url("pool"))
    monkeypatch.setattr(storage_module, "POOL_SECONDS", 0.2)
    with InProcess(tmp_path) as client:
        client.experiment()
        with contextlib.ExitStack() as slow:
            for _ in range(storage_module.MOST_READERS):
                slow.enter_context(client.service.storage.reader())
            reply = client.ask("GET", "/v1/experiments/x/report")
            assert reply.status == 503 and reply.headers["retry-after"] == "1" and reply.json["detail"]
            assert client.decide("d1")["id"] == "d1"
        assert client.ask("GET", "/v1/experiments/x/report").status == 200


# Experiments move.


def failed_commits(server: Server) -> float:
    found = re.search(rb"^umab_failed_commits_total (\S+)$", ask(server, "GET", "/metrics").content, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_servers_that_join_and_leave_under_load_share_the_work_and_no_commit_fails(database: Postgres) -> None:
    with cluster(database, 1, lease=20.0) as found:
        (first,) = found.servers
        second = found.another()
        clients = clients_of(found)
        for client in clients:
            client.servers.append(second)
        with load(found, *clients):
            found.servers.append(second)
            second.start()
            until(lambda: len({id(found.owner(name)) for name in ("x", "y", "silent")} - {id(None)}) == 2)
            time.sleep(0.5)
            assert failed_commits(first) == 0 and failed_commits(second) == 0
            began = time.monotonic()
            assert first.stop() == 0
            until(lambda: all(works(second, name) for name in ("x", "y")))
            until(lambda: found.owner("silent") is second)
            assert time.monotonic() - began < found.lease / 2  # nobody has waited for the lease
            assert failed_commits(second) == 0
        live = exported(found, "x", "y", "silent")
        compare(found, clients, live)
        assert second.stop() == 0
        kept = dict(found.query("SELECT experiment, max(seq) FROM snapshots GROUP BY experiment"))
        assert kept == dict(found.query("SELECT experiment, max(seq) FROM events GROUP BY experiment"))
        assert found.query("SELECT id FROM servers") == []


def test_an_experiment_that_two_servers_create_at_once_is_created_once(database: Postgres) -> None:
    with ThreadPoolExecutor(4) as threads, cluster(database) as found:
        for number in range(10):
            barrier, given = threading.Barrier(4), {"name": f"e{number}", "arms": ["a", "b"], "seed": 1}

            def create(server: Server) -> int:
                barrier.wait()  # noqa: B023
                return ask(server, "POST", "/v1/experiments", given).status  # noqa: B023

            assert sorted(threads.map(create, found.servers * 2)) == [200, 200, 200, 201]
        assert found.query("SELECT count(*) FROM events WHERE kind = 'created'") == [(10,)]
        assert found.query("SELECT count(*), count(settings) FROM experiments") == [(10, 10)]
        assert all(failed_commits(server) == 0 for server in found.servers)


def test_servers_that_start_at_once_run_each_migration_once_and_make_one_key(database: Postgres) -> None:
    with cluster(database, 3) as found:
        assert len(found.query("SELECT version FROM umab_version")) == 1
        assert found.query("SELECT id FROM keys") == [("testadmin",)]
        assert len(found.query("SELECT id FROM servers")) == 3


def test_tables_and_the_first_key_are_made_once_however_many_servers_make_them(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UMAB_ADMIN_KEY", KEY)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            url, barrier = database.url(f"t{uuid.uuid4().hex}"), threading.Barrier(4)

            def start(_: int) -> str | None:
                barrier.wait()  # noqa: B023
                return ensure_key(PostgreSQL(url), "127.0.0.1", url)  # noqa: B023

            assert list(threads.map(start, range(4))) == [None] * 4
            with psycopg.connect(url) as connection:
                assert connection.execute("SELECT count(*) FROM umab_version").fetchone() == (1,)
                assert connection.execute("SELECT id FROM keys").fetchall() == [("testadmin",)]


# Any server answers for all of them.

DIFFERS = re.compile(rb'"(created_at|expires_at|erased_before)":"[^"]*"|sticky-[0-9a-f]+')
"""Times, and ids that depend on the name of the experiment."""


def calls() -> Iterator[tuple[str, str, str, Any]]:
    """Yield for each route about one experiment its method and path, a path to ask for, and a body."""
    it, flag = "/v1/experiments/{name}", "/ofrep/v1/evaluate/flags/{name}"
    feedback, sticky = f"{it}/decisions/{{decision:path}}/feedback", {"targetingKey": "me", "umabSticky": "P1D"}
    yield "POST", f"{it}/decisions", f"{it}/decisions", {"id": "d1", "defer": True}
    yield "POST", f"{it}/decisions", f"{it}/decisions", {"id": "d2", "n": 3, "metadata": {"for": "whom"}}
    yield "POST", f"{it}/decisions", f"{it}/decisions", {"id": "d2"}
    yield "POST", f"{it}/decisions", f"{it}/decisions", b"{"
    yield "POST", f"{it}/decisions/{{decision:path}}/activate", f"{it}/decisions/d1/activate", None
    yield "PUT", feedback, f"{it}/decisions/d1/feedback", {"loss": 1.5}
    yield "PUT", feedback, f"{it}/decisions/d2/0/feedback", {"loss": 0.5}
    yield "PUT", feedback, f"{it}/decisions/d2/0/feedback", {"loss": 0.7}
    yield "PUT", feedback, f"{it}/decisions/none/feedback", {"loss": 0.7}
    yield "PATCH", it, it, {"wait": "PT1H", "default_loss": 2.0}
    yield "PUT", f"{it}/arms/{{arm:path}}", f"{it}/arms/c%2Fd", None
    yield "DELETE", f"{it}/arms/{{arm:path}}", f"{it}/arms/c%2Fd", None
    yield "POST", f"{it}/evaluations", f"{it}/evaluations", {"arm": "a"}
    yield "GET", f"{it}/events", f"{it}/events?after=1", None
    yield "GET", f"{it}/report", f"{it}/report", None
    yield "GET", f"{it}/export", f"{it}/export", None
    yield "POST", f"{it}/import", f"{it}/import", b"{}"
    yield "DELETE", f"{it}/metadata", f"{it}/metadata", None
    yield "POST", flag, flag, {"context": sticky}
    yield "POST", f"{it}/archive", f"{it}/archive", None
    yield "GET", it, it, None
    yield "POST", flag, flag, {"context": sticky}


def test_every_route_about_an_experiment_answers_the_same_wherever_it_is_asked(database: Postgres) -> None:
    known = {(each.method, each.path) for each in ROUTES if "{name}" in each.path}
    assert {(method, path) for method, path, *_ in calls()} == known
    with cluster(database, lease=20.0) as found:
        names = "t1", "t2", "t3", "t4"
        found.create(*names)
        first, second = found.servers
        here, there = (name for name in names if found.owner(name) is first)
        for method, _, path, body in calls():
            told = []
            for server, name in ((first, there if method == "GET" else here), (second, there)):
                reply = ask(server, method, path.replace("{name}", name), body)
                assert len(dict(reply.headers)) == len(reply.headers), "a header came twice"
                content = DIFFERS.sub(b"", reply.content).replace(name.encode(), b"NAME")
                told.append(reply if method == "GET" else Reply(reply.status, reply.headers, content))
            assert told[0] == told[1]
        assert found.owner(here) is found.owner(there) is first


def test_requests_about_several_experiments_answer_the_same_on_every_server(database: Postgres) -> None:
    with cluster(database, lease=20.0) as found:
        found.create("a", "b", "c")
        first, second = found.servers
        assert {id(found.owner(name)) for name in "abc"} == {id(first), id(second)}

        def same(method: str, path: str, body: Any = None) -> Any:
            told, again = (ask(server, method, path, body) for server in (first, second))
            assert told == again
            return told.json

        operations = [
            *({"experiment": each, "decide": {"id": f"d{each}"}} for each in "cab"),
            {"experiment": "b", "decision": "db", "feedback": {"loss": 1.0}},
            {"experiment": "none", "decide": {}},
            {"experiment": "a"},
        ]
        told = [
            ask(server, "POST", "/v1/batch", {"operations": operations}).json["results"] for server in found.servers
        ]
        assert [each["status"] for each in told[0]] == [201, 201, 201, 200, 404, 422]
        assert [each["status"] for each in told[1]] == [200, 200, 200, 200, 404, 422]
        bodies = [[each["body"] for each in one] for one in told]
        assert [each["id"] for each in bodies[0][:3]] == ["dc", "da", "db"]
        assert bodies[0].pop(3) == {"state": "learned"} and bodies[1].pop(3) == {"state": "duplicate"}
        assert bodies[0] == bodies[1]
        same("POST", "/v1/batch", {"operations": operations})
        assert [each["name"] for each in same("GET", "/v1/experiments")["experiments"]] == ["a", "b", "c"]
        assert same("GET", "/v1/experiments?limit=2")["next"] == "b"
        context = {"context": {"targetingKey": "me", "umabSticky": "P1D"}}
        assert [each["key"] for each in same("POST", "/ofrep/v1/evaluate/flags", context)["flags"]] == ["a", "b", "c"]
        assert len(same("GET", "/v1/keys")["keys"]) == 1


def test_a_session_of_one_server_is_known_to_all_and_its_forms_reach_the_owner(database: Postgres) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with cluster(database, lease=20.0) as found:
        found.create("a", "b")
        for server in found.servers:
            login = ask(server, "POST", "/login", f"key={KEY}".encode(), form)
            assert login.status == 303
            cookie = {"Cookie": (login.header("set-cookie") or "").partition(";")[0]}
            for other in found.servers:
                assert b"Experiments" in ask(other, "GET", "/", None, cookie).content
                assert ask(other, "GET", "/experiments/none", None, cookie).status == 404
                for name in ("a", "b"):
                    path, arm = f"/experiments/{name}", f"{server.port}-{other.port}"
                    page = ask(other, "GET", path, None, cookie)
                    assert page.status == 200 and len(dict(page.headers)) == len(page.headers)
                    token = re.search(rb'name="token" value="([^"]+)"', page.content)
                    assert token is not None
                    body = b"token=%b&arm=%b" % (token[1], arm.encode())
                    assert ask(other, "POST", f"{path}/arms", body, {**cookie, **form}).status == 303
                    assert ask(other, "POST", f"{path}/arms", b"arm=no", {**cookie, **form}).status == 403
                    assert arm in ask(server, "GET", f"/v1{path}").json["arms"]


def test_the_way_between_servers_is_closed_to_strangers_and_keys_hold_on_it(database: Postgres) -> None:
    names = "a-1", "b-1", "a-2", "b-2"
    with cluster(database, lease=20.0) as found:
        found.create(*names)
        first, second = found.servers
        ((secret,),) = found.query("SELECT value FROM secrets WHERE name = 'relay'")
        server = {"x-umab-relay": bytes(secret).hex()}

        def relayed(headers: dict[str, str], key: str, path: str, body: bytes = b"{}", client: str = "10.1.1.1") -> int:
            asked = [Asked("POST", path, b"", [(b"authorization", f"Bearer {key}".encode())], client, body)]
            reply = ask(first, "POST", "/relay", msgspec.msgpack.encode(asked), headers)
            return msgspec.msgpack.decode(reply.content, type=list[Told])[0].status if reply.status == 200 else 0

        new = b'{"name": "new", "arms": ["a", "b"]}'
        for headers in ({}, {"x-umab-relay": ""}, {"x-umab-relay": bytes(32).hex()}, {"x-umab-relay": KEY}):
            assert relayed(headers, KEY, "/v1/experiments", new) == 0
        assert ask(second, "GET", "/v1/experiments/new").status == 404
        assert relayed(server, KEY, "/v1/experiments", new) == 201

        def key(role: str, prefix: str) -> tuple[dict[str, str], Any]:
            made = ask(first, "POST", "/v1/keys", {"role": role, "prefix": prefix, "note": ""}).json
            return {"X-API-Key": made["key"]}, made

        (reads, reading), (decides, deciding) = key("read", ""), key("decide", "a-")
        until(lambda: ask(second, "GET", "/v1/experiments/b-1", None, reads).status == 200, 5)
        until(lambda: ask(second, "GET", "/v1/experiments/a-1", None, decides).status == 200, 5)
        for each in found.servers:
            for name in names:
                path = f"/v1/experiments/{name}/decisions"
                assert ask(each, "POST", path, {}, decides).status == (201 if name.startswith("a") else 403)
                assert ask(each, "GET", f"/v1/experiments/{name}", None, reads).status == 200
                assert ask(each, "POST", path, {}, reads).status == 403
            batch = {"operations": [{"experiment": name, "decide": {}} for name in names]}
            told = ask(each, "POST", "/v1/batch", batch, decides).json["results"]
            assert [result["status"] for result in told] == [201, 403, 201, 403]
            assert ask(each, "POST", "/v1/batch", batch, reads).status == 403
            flags = ask(each, "POST", "/ofrep/v1/evaluate/flags", {}, decides).json["flags"]
            assert [flag["key"] for flag in flags] == ["a-1", "a-2"]
            shown = ask(each, "GET", "/v1/experiments", None, decides).json["experiments"]
            assert [experiment["name"] for experiment in shown] == ["a-1", "a-2"]
        a, b = (f"/v1/experiments/{name}/decisions" for name in names[:2])
        assert relayed(server, reading["key"], a) == relayed(server, deciding["key"], b) == 403
        assert ask(first, "DELETE", f"/v1/keys/{deciding['id']}").status == 200
        until(lambda: ask(second, "POST", a, {}, decides).status == 401, 5)
        guess = "umab_testadmin_" + "b" * 40
        statuses = [relayed(server, guess, a, client="10.9.9.9") for _ in range(8)]
        assert statuses[0] == 401 and statuses[-1] == 429  # whoever guesses is slowed down, and nobody else
        assert relayed(server, guess, a, client="10.9.9.8") == 401
        assert ask(first, "GET", "/v1/experiments/none").status == 404
