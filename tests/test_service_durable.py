"""Nothing is lost: syncs before replies, disks that cannot be written, snapshots, retention, and ends of waits."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")

import umab
from helpers import PATIENCE
from service_app import START, Client
from service_process import KEY, Server, running
from toys import Patient
from umab.algorithms import registry
from umab_service import decisions, log, service, silence, storage
from umab_service.recovery import recovered
from umab_service.schema import NewDecision
from umab_service.service import Service
from umab_service.sqlite import SQLite

SHIM = Path(__file__).with_name("sync_shim.c")
DECIDE = "/v1/experiments/x/decisions"


def learners(client: Client) -> dict[str, str]:
    """Return what is in memory."""
    return {name: each.learner.to_json() for name, each in client.service.experiments.items()}


def in_log(path: Path, check: bool = True) -> dict[str, str]:
    """Return what the log gives."""
    return {each.name: each.learner.to_json() for each in recovered(SQLite(path), check)}


def rows(client: Client, query: str, *parameters: Any) -> list[Any]:
    return client.storage.connection.execute(query, parameters).fetchall()


def learn(client: Client, n_decisions: int, begin: str = "d", name: str = "x") -> None:
    """Decide so many times, and give feedback at once."""
    for number in range(n_decisions):
        answer = client.decide(f"{begin}{number}", name)
        loss = {"a": 1.0, "b": 2.0, "c": 3.0}[answer["arm"]] + 0.1 * (number % 3)
        path = f"/v1/experiments/{name}/decisions/{begin}{number}/feedback"
        assert client.ask("PUT", path, {"loss": loss}).status == 200


# A sync before each reply. A killed process cannot show that one is missing: the system still writes what it was given.


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that writes down what a process does with its sockets and its log."""
    gcc = shutil.which("gcc")
    if gcc is None or sys.platform != "linux":
        pytest.skip("the order of syncs and replies is seen through a library that gcc makes, on Linux")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([gcc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SHIM, "-ldl"], check=True)
    return library


class Seen(NamedTuple):
    """What a trace shows: how many changes were answered, and which of them before they were on disk."""

    n_answered: int
    too_soon: list[str]


def seen(trace: Path) -> Seen:
    """Check that each change was written to the log and synced after its request came, before it was answered."""
    waiting: dict[str, dict[str, Any]] = {}
    n_answered, too_soon = 0, []
    is_written = True  # whether all of the log was synced
    before_sync: list[dict[str, Any]] = []
    for line in trace.read_text().splitlines():
        what, _, detail = line.partition(" ")
        place, _, content = detail.partition(" ")
        if what == "received" and content.startswith(("POST", "PUT")):
            waiting[place] = {"request": content, "in": ""}
        elif what == "received" and place in waiting:
            waiting[place]["in"] = ""  # its body came after its head
        elif what == "wrote":
            is_written, before_sync = False, []
            for each in waiting.values():
                each["in"] = each["in"] or "log"
        elif what == "syncing":
            before_sync = [each for each in waiting.values() if each["in"]]
        elif what == "synced":
            is_written = True
            for each in before_sync:
                each["in"] = "disk"
        elif what == "answered" and place in waiting:
            request = waiting.pop(place)
            n_answered += 1
            if request["in"] != "disk" or not is_written:
                too_soon.append(f"{request['request']} was answered with {content}")
    return Seen(n_answered, too_soon)


def traced(folder: Path, shim: Path, *, n_clients: int, n_decisions: int, fault: str | None = None) -> Seen:
    """Decide and give feedback on connections that stay open; return the order in which it was done."""
    trace = folder / "trace"
    environment = {"LD_PRELOAD": str(shim), "UMAB_TRACE": str(trace)}
    if fault is not None:
        (folder / "sitecustomize.py").write_text(fault)
        environment["PYTHONPATH"] = str(folder)
    failures: list[Any] = []

    def client(port: int, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for count in range(n_decisions):
            identity = f"c{number}-{count}"
            for method, path, body in (
                ("POST", DECIDE, {"id": identity}),
                ("PUT", f"{DECIDE}/{identity}/feedback", {"loss": 1.5}),
            ):
                connection.request(method, path, json.dumps(body), {"X-API-Key": KEY})
                response = connection.getresponse()
                response.read()
                if response.status not in (200, 201):
                    failures.append((response.status, method, path))
        connection.close()

    with running(folder / "umab.db", environment=environment) as server:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        threads = [threading.Thread(target=client, args=(server.port, number)) for number in range(n_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.stop() == 0
    assert not failures
    return seen(trace)


@pytest.mark.parametrize(("n_clients", "n_decisions"), [(1, 20), (8, 10)])
def test_a_change_is_synced_after_its_request_and_before_its_reply(
    tmp_path: Path, shim: Path, n_clients: int, n_decisions: int
) -> None:
    found = traced(tmp_path, shim, n_clients=n_clients, n_decisions=n_decisions)
    assert found.n_answered == 1 + 2 * n_clients * n_decisions and not found.too_soon


PRAGMA = """
from umab_service import sqlite
connect = sqlite.connect
def connected(*arguments, **options):
    found = connect(*arguments, **options)
    found.execute("PRAGMA synchronous = {}")
    return found
sqlite.connect = connected
"""
EARLY = """
import asyncio
from umab_service.service import Service
stored = Service.stored
tasks = set()
async def not_waiting(self):
    tasks.add(asyncio.ensure_future(stored(self)))
Service.stored = not_waiting
"""


@pytest.mark.parametrize(
    "fault", [PRAGMA.format("OFF"), PRAGMA.format("NORMAL"), EARLY], ids=["off", "normal", "early"]
)
def test_a_missing_sync_and_an_early_reply_are_seen(tmp_path: Path, shim: Path, fault: str) -> None:
    """The test above can fail."""
    found = traced(tmp_path, shim, n_clients=1, n_decisions=3, fault=fault)
    # A reply that waits for nothing may still lose the race against the disk, on a busy machine.
    assert found.n_answered == 7 and len(found.too_soon) >= (1 if fault == EARLY else 6)


@pytest.mark.slow
def test_a_change_is_synced_before_its_reply_under_load(tmp_path: Path, shim: Path) -> None:
    found = traced(tmp_path, shim, n_clients=32, n_decisions=400)
    assert found.n_answered == 1 + 2 * 32 * 400 and not found.too_soon


# A database that cannot be written.


def test_a_disk_that_becomes_read_only_is_answered_and_outlived(tmp_path: Path, shim: Path) -> None:
    flag = tmp_path / "readonly"
    path, environment = tmp_path / "umab.db", {"LD_PRELOAD": str(shim), "UMAB_READONLY": str(flag)}
    with running(path, environment=environment) as server:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        known = []
        for number in range(10):
            known.append(server.ask("POST", DECIDE, {"id": f"d{number}"})[1])
            assert server.ask("PUT", f"{DECIDE}/d{number}/feedback", {"loss": 0.1 * number})[0] == 200
        before = server.ask("GET", "/v1/experiments/x/export")
        flag.touch()
        for number in range(5):
            status, answer = server.ask("POST", DECIDE, {"id": f"lost{number}"})
            assert status == 503 and answer["status"] == 503 and answer["title"] == "Service Unavailable"
            assert "nothing was stored" in answer["detail"] or "reading its log" in answer["detail"]
        assert server.ask("GET", "/healthz")[0] == 200
        flag.unlink()
        until(lambda: server.ask("GET", "/v1/experiments/x/export") == before)
        until(lambda: server.ask("POST", DECIDE, {"id": "after"})[0] in (200, 201))
        for answer in known:
            assert server.ask("POST", DECIDE, {"id": answer["id"]}) == (200, answer)
            assert server.ask("PUT", f"{DECIDE}/lost0/feedback", {"loss": 1.0})[0] == 404
        exported = server.ask("GET", "/v1/experiments/x/export")[1]
        assert server.stop() == 0
    assert json.loads(in_log(path)["x"]) == exported


def until(done: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def mounted(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, which the test may mount read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or not mounted("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)):
        pytest.skip("a read-only disk needs the right to mount one")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def refused(path: Path, *options: str) -> str:
    """Return what a server says that does not start: one line, and an exit status that is not 0."""
    url = f"sqlite:///{path}"
    command = [sys.executable, "-m", "umab.cli", "serve", "--port", "0", "--database", url, *options]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "UMAB_ADMIN_KEY": KEY}, timeout=PATIENCE
    )
    assert found.returncode != 0 and found.stdout == ""
    lines = found.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("umab: "), found.stderr
    return lines[0]


@pytest.mark.parametrize("what", ["disk", "file"])
def test_a_read_only_database_is_refused_at_the_start(disk: Path, what: str) -> None:
    path = disk / "umab.db"
    with Client(disk) as client:
        client.experiment()
    before = path.read_bytes()
    if what == "disk":
        assert mounted("-o", "remount,ro", str(disk))
    else:
        assert mounted("--bind", str(path), str(path)) and mounted("-o", "remount,bind,ro", str(path))
    try:
        said = refused(path)
        assert str(path) in said and "Read-only file system" in said
    finally:
        if what == "file":
            subprocess.run(["umount", "--lazy", path], check=True)
    assert path.read_bytes() == before


# Commits that fail.


class Faulty:
    """A connection whose next commit fails: before it begins, in its middle, at its end, or only as it seems."""

    def __init__(self, real: sqlite3.Connection, where: str) -> None:
        self._real, self._where = real, where

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, text: str, *more: Any) -> Any:
        if (text, self._where) in (("BEGIN IMMEDIATE", "begin"), ("COMMIT", "end")):
            self._fail()
        found = self._real.execute(text, *more)
        if (text, self._where) == ("COMMIT", "seeming"):
            self._fail()
        return found

    def executemany(self, text: str, rows: Any) -> Any:
        found = self._real.executemany(text, rows)
        if self._where == "middle":
            self._fail()
        return found

    def _fail(self) -> None:
        self._where = ""
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("where", ["begin", "middle", "end", "seeming"])
def test_a_failed_commit_fails_all_its_requests_and_leaves_nothing_in_memory(tmp_path: Path, where: str) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", default_loss=9.0)
        learn(client, 20)
        client.decide("open")
        before, log_before = learners(client), client.dump()
        client.storage.connection = Faulty(client.storage.connection, where)  # type: ignore[assignment]
        asked = [
            *(("POST", DECIDE, {"id": f"n{number}", "metadata": {"of": number}}) for number in range(10)),
            ("PUT", f"{DECIDE}/open/feedback", {"loss": 4.0}),
            ("POST", "/v1/experiments", {"name": "y", "arms": ["c"]}),
            ("PUT", "/v1/experiments/x/arms/c", None),
            ("POST", "/v1/batch", {"operations": [{"experiment": "x", "decide": {}}]}),
            ("POST", DECIDE, {"id": "n0", "metadata": {"of": 0}}),  # the same again, answered from memory
        ]
        replies = client.ask_all(asked)
        assert {reply.status for reply in replies} == {503}
        for reply in replies:
            known = "nothing was stored" if where in ("begin", "middle") else "whether this was stored is not known"
            assert reply.json["detail"] == f"{known}: disk I/O error" and reply.headers["retry-after"] == "1"
        recover(client)
        assert learners(client) == in_log(client.path)
        if where != "seeming":  # then the log has it all, though nobody could know: clients ask again
            assert learners(client) == before and client.dump() == log_before
        statuses = [client.ask(*request).status for request in asked]
        again = 200 if where == "seeming" else 201
        assert statuses == [*[again] * 10, 200, again, again, 200, 200]
        learn(client, 10, "e")
        assert learners(client) == in_log(client.path)
        after = learners(client)
        client.restart()
        assert learners(client) == after


def recover(client: Client) -> None:
    """Wait until the service has read its log again."""
    assert client.service._task is not None
    client.run(client.service._task)
    assert client.service.ready


def test_a_service_that_reads_its_log_again_answers_503_and_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        released = threading.Event()
        monkeypatch.setattr(service, "recovered", lambda *arguments: released.wait(20) and recovered(*arguments))
        client.storage.connection = Faulty(client.storage.connection, "end")  # type: ignore[assignment]
        assert client.ask("POST", DECIDE, {}).status == 503
        new = "POST", "/v1/experiments", {"name": "y", "arms": ["a"]}
        asked = [("POST", DECIDE, {}), new, ("GET", "/readyz", None), ("GET", "/healthz", None)]
        assert [reply.status for reply in client.ask_all(asked)] == [503, 503, 503, 200]
        released.set()
        recover(client)
        assert [reply.status for reply in client.ask_all(asked)] == [201, 201, 200, 200]


def test_a_failed_end_of_waits_is_done_again_once(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", default_loss=9.0)
        for number in range(5):
            client.decide(f"d{number}")
        before = learners(client)
        client.storage.connection = Faulty(client.storage.connection, "end")  # type: ignore[assignment]
        client.now += 11.0
        with pytest.raises(Exception, match="stored is not known"):
            client.expire()
        recover(client)
        assert learners(client) == before and client.service.experiments["x"].n_open == 5
        client.expire()
        client.expire()
        assert learners(client) == in_log(client.path)
        ((body,),) = rows(client, "SELECT body FROM events WHERE kind = 'expired'")
        assert [identity for identity, *_ in json.loads(body)["learned"]] == [f"d{number}" for number in range(5)]


@pytest.mark.parametrize("sums", [False, True])
def test_a_policy_is_told_of_draws_that_expire_now_and_when_the_log_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: bool
) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    umab.register("patient", Patient())
    with Client(tmp_path) as client:
        client.experiment(
            policy="patient", wait="PT10S", forget=True, late="learn", aggregation="sum" if sums else "first"
        )
        for number in range(6):
            client.decide(f"d{number}", among=["a"] if number % 2 else None)
        if sums:  # those that have a part are learned, between others that are forgotten
            for number in (1, 4):
                path = f"{DECIDE}/d{number}/feedback"
                assert client.ask("PUT", path, {"loss": 1.0, "key": "k"}).status == 200
        client.sleep(11.0)
        state = json.loads(learners(client)["x"])["state"]
        assert sum(state["given_up"]) > 0.0 and sum(state["n_open"]) == 0.0
        late = {"loss": 2.0, "key": "k"} if sums else {"loss": 2.0}
        assert client.ask("PUT", f"{DECIDE}/d0/feedback", late).status == 200
        state = json.loads(learners(client)["x"])["state"]
        assert sum(state["n_open"]) == -1.0  # a closed draw was settled all the same
        assert learners(client) == in_log(client.path)
        ((body,),) = rows(client, "SELECT body FROM events WHERE kind = 'expired'")
        forgotten = [identity for identity, _ in json.loads(body)["forgotten"]]
        assert forgotten == [f"d{number}" for number in range(6) if not sums or number not in (1, 4)]


def test_ids_alone_of_forgotten_decisions_are_read_from_older_logs() -> None:
    learner = umab.Learner("uniform", ["a"], seed=0)
    before = learner.to_json()
    assert log.replayed(learner, log.EXPIRED, b'{"learned": [], "forgotten": ["d1"]}') is learner
    assert learner.to_json() == before and log.id_of("d1") == log.id_of(["d1", []]) == "d1"


@pytest.mark.parametrize("path", ["", "/export", "/report"])
def test_nothing_is_shown_that_is_not_on_disk(tmp_path: Path, path: str) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        client.storage.connection = Faulty(client.storage.connection, "end")  # type: ignore[assignment]
        replies = client.ask_all([("POST", DECIDE, {}), ("GET", f"/v1/experiments/x{path}", None)])
        assert replies[0].status == 503
        recover(client)
        shown = replies[1]
        assert shown.status == 503 or shown.json == client.ask("GET", f"/v1/experiments/x{path}").json


def test_a_request_that_fails_in_its_middle_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 5)
        client.decide("open")
        before, log_before = learners(client), client.dump()
        with monkeypatch.context() as patch:
            patch.setattr(Service, "event", lambda *_: 1 / 0)
            reply = client.ask("PUT", f"{DECIDE}/open/feedback", {"loss": 4.0})  # the learner has changed already
        assert reply.status == 500 and "ZeroDivisionError" in caplog.text
        recover(client)
        assert learners(client) == before and client.dump() == log_before
        assert client.ask("PUT", f"{DECIDE}/open/feedback", {"loss": 4.0}).json == {"state": "learned"}
        assert learners(client) == in_log(client.path)


def test_waits_end_by_themselves_and_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", default_loss=9.0)
        for number in range(3):
            client.decide(f"d{number}")
        client.now += 10.0
        n_failures = 0

        def failing(*arguments: Any) -> None:
            nonlocal n_failures
            n_failures += 1
            monkeypatch.undo()
            log.settle(*arguments)
            raise RuntimeError("for once")

        async def watched() -> None:
            watching = asyncio.create_task(silence.watch(client.service))
            while client.service.recovering or client.service.experiments["x"].n_open:
                await asyncio.sleep(0.01)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

        monkeypatch.setattr(log, "settle", failing)
        client.run(asyncio.wait_for(watched(), 30))
        assert n_failures == 1 and "for once" in caplog.text
        counters = client.service.experiments["x"].learner.counters().values()
        assert sum(each.updates for each in counters) == 3
        assert learners(client) == in_log(client.path)


def test_a_log_that_cannot_be_read_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 3)
        before, failures = learners(client), [sqlite3.OperationalError("disk I/O error")]

        def failing(*arguments: Any) -> Any:
            if failures:
                raise failures.pop()
            return recovered(*arguments)

        monkeypatch.setattr(service, "recovered", failing)
        client.storage.connection = Faulty(client.storage.connection, "end")  # type: ignore[assignment]
        assert client.ask("POST", DECIDE, {}).status == 503
        recover(client)
        assert not failures and "trying again" in caplog.text and learners(client) == before


# The database.


def test_commits_are_synced_and_duplicates_are_excluded_by_the_tables(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", forget=True, aggregation="sum")
        client.decide("d", metadata={"a": 1})
        assert client.ask("PUT", f"{DECIDE}/d/feedback", {"loss": 1.0, "key": "k"}).status == 200
        assert rows(client, "PRAGMA journal_mode") == [("wal",)] and rows(client, "PRAGMA synchronous") == [(2,)]
        for table in ("events", "decisions", "parts", "metadata", "experiments", "keys"):
            with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
                client.storage.connection.execute(f"INSERT INTO {table} SELECT * FROM {table}")


def test_a_backup_of_a_database_in_use_is_a_database(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 5)
        copy = sqlite3.connect(tmp_path / "copy.db")
        client.storage.connection.backup(copy)
        copy.close()
        before = learners(client)
        learn(client, 5, "e")
        assert in_log(tmp_path / "copy.db") == before != learners(client)


# Snapshots.


def test_a_snapshot_does_not_grow_with_open_choices(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment(policy="uniform")
        learn(client, 5)
        sizes = []
        for number in range(2):
            client.service.snapshot(client.service.experiments["x"])
            client.run(client.service.stored())
            sizes.append(rows(client, "SELECT max(length(learner)) FROM snapshots")[0][0])
            for _ in range(5):
                assert client.ask("POST", DECIDE, {"n": 100}).status == 201
            assert client.service.experiments["x"].n_open == 500 * (number + 1)
        assert sizes[1] < sizes[0] + 100


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> int:
    """A snapshot after each ten events."""
    monkeypatch.setattr(service, "SNAPSHOT_EVERY", 10)
    return 10


@pytest.fixture
def n_replayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kinds of the events that were replayed."""
    found: list[str] = []
    replayed = log.replayed

    def counted(learner: Any, kind: str, content: bytes) -> Any:
        found.append(kind)
        return replayed(learner, kind, content)

    monkeypatch.setattr(log, "replayed", counted)
    yield found


def test_a_start_replays_what_came_after_the_last_snapshot_and_checks_that_one(
    tmp_path: Path, often: int, n_replayed: list[str]
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 22)  # with the creation, 45 events
        assert [seq for (seq,) in rows(client, "SELECT seq FROM snapshots ORDER BY seq")] == [30, 40]  # the last two
        before = learners(client)
        client.restart()
        assert learners(client) == before
        assert len(n_replayed) == 10 + 5  # from the last snapshot but one to the last, and from there to the end
        n_replayed.clear()
        assert in_log(client.path, check=False) == before and len(n_replayed) == 5
        client.storage.connection.execute("DELETE FROM snapshots")
        n_replayed.clear()
        assert in_log(client.path) == before and len(n_replayed) == 45  # the log alone gives the same


TAMPERED = {
    "event": """UPDATE events SET body = CAST(replace(body, '"value":1', '"value":3') AS BLOB) WHERE seq = 35""",
    "snapshot": "UPDATE snapshots SET learner = CAST(replace(learner, '0.', '0.1') AS BLOB) WHERE seq = 40",
    "earlier snapshot": "UPDATE snapshots SET learner = CAST(replace(learner, '0.', '0.1') AS BLOB) WHERE seq = 30",
    "snapshot that is no JSON": "UPDATE snapshots SET learner = CAST('{' AS BLOB) WHERE seq = 40",
    "no event": "DELETE FROM events WHERE seq = 35",
    "no JSON": "UPDATE events SET body = '{' WHERE seq = 35",
    "no draw": 'UPDATE events SET body = \'{"draws": [["d", [1]]]}\' WHERE seq = 36',
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_log_or_snapshot_that_was_changed_is_refused(tmp_path: Path, often: int, what: str) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 22)
        before = learners(client)
    with sqlite3.connect(tmp_path / "umab.db") as connection:
        assert connection.execute(TAMPERED[what]).rowcount > 0
    connection.close()
    with pytest.raises(storage.DatabaseError, match="experiment 'x'"):
        in_log(tmp_path / "umab.db")
    if what == "snapshot that is no JSON":
        with pytest.raises(storage.DatabaseError, match="snapshot of the experiment 'x' at event 40 cannot be read"):
            in_log(tmp_path / "umab.db", check=False)
    elif what != "snapshot":
        assert in_log(tmp_path / "umab.db", check=False) == before


def test_the_server_says_in_one_line_that_a_log_was_changed_and_goes_on_without_the_check(
    tmp_path: Path, often: int
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 22)
        client.storage.connection.execute(TAMPERED["event"])
    said = refused(client.path)
    assert (
        "the log of the experiment 'x' must give its snapshot at event 40, bit for bit" in said and "--no-check" in said
    )
    with running(client.path, command=("sh", "-c", 'exec "$@" --no-check', "sh")) as server:
        assert server.ask("POST", DECIDE, {})[0] == 201


@pytest.mark.parametrize("change", ["DELETE FROM events WHERE seq = 1", "DELETE FROM events"])
def test_a_log_that_does_not_begin_with_the_creation_is_refused(tmp_path: Path, change: str) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 3)
        client.storage.connection.execute(change)
    for check in (True, False):
        with pytest.raises(storage.DatabaseError, match=r"experiment 'x'.*begin"):
            in_log(client.path, check)


def test_a_log_in_which_an_event_is_missing_is_refused(tmp_path: Path, often: int) -> None:
    """Also one that the learner does not need: the next event would have a number that is taken."""
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 7)
        client.decide("d", defer=True)
        assert client.ask("POST", f"{DECIDE}/d/activate").status == 200
        client.decide("e")
        client.storage.connection.execute("DELETE FROM events WHERE kind = 'activated'")
    for check in (True, False):
        with pytest.raises(storage.DatabaseError, match=r"the experiment 'x' fails at event 18: event 17 is missing"):
            in_log(client.path, check)


@pytest.mark.parametrize("change", ["/export", "snapshot", ""])
def test_what_a_change_of_arms_does_depends_on_no_read_and_no_snapshot(tmp_path: Path, change: str) -> None:
    """A learner takes changes of arms as one until it is saved, and the log does not say when it was saved."""
    with Client(tmp_path) as client:
        for name in ("x", "y"):
            client.experiment(name, ["a", "b"])
        learn(client, 10)
        learn(client, 10, name="y")
        for name in ("x", "y"):
            assert client.ask("PUT", f"/v1/experiments/{name}/arms/c").status == 201
            if name == "x" and change == "/export":
                assert client.ask("GET", "/v1/experiments/x/export").status == 200
            elif name == "x" and change == "snapshot":
                client.service.snapshot(client.service.experiments["x"])
                client.run(client.service.stored())
            assert client.ask("DELETE", f"/v1/experiments/{name}/arms/b").status == 200
            client.decide("after", name)
        assert learners(client) == in_log(client.path)
        first, second = (json.loads(each) for each in learners(client).values())
        assert first["state"] == second["state"] and first["counters"] == second["counters"]
        before = learners(client)
        client.restart()
        assert learners(client) == before


# Retention.


def test_pruning_deletes_what_is_old_and_closed_and_keeps_what_a_start_needs(tmp_path: Path, often: int) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT100H", forget=True, aggregation="sum")
        client.experiment("y")
        for number in range(12):
            client.decide(f"old{number}", metadata={"of": "old"})
            assert client.ask("PUT", f"{DECIDE}/old{number}/feedback", {"loss": 1.0, "key": "part"}).status == 200
        client.decide("closed", "y")
        assert client.ask("PUT", "/v1/experiments/y/decisions/closed/feedback", {"loss": 1.0}).status == 200
        client.decide("open", "y")
        client.sleep(101 * 3600.0)  # the sums are learned
        client.decide("kept", metadata={"of": "new"})
        assert client.ask("PUT", f"{DECIDE}/kept/feedback", {"loss": 1.0, "key": "part"}).status == 200
        before, n_events = learners(client), client.service.experiments["x"].seq
        client.prune(100 * 3600.0)
        assert rows(client, "SELECT id FROM decisions ORDER BY id") == [("kept",), ("open",)]
        assert (
            rows(client, "SELECT decision FROM parts") == rows(client, "SELECT decision FROM metadata") == [("kept",)]
        )
        kept = [seq for (seq,) in rows(client, "SELECT seq FROM events WHERE experiment = 1 ORDER BY seq")]
        assert kept == list(range(11, n_events + 1))  # the snapshots were at 10 and 20
        assert learners(client) == before == in_log(client.path)
        for round_number in range(2):
            client.prune(0.0 if round_number else 100 * 3600.0)
            client.restart()
            assert learners(client) == before
        (n_snapshots,) = rows(client, "SELECT count(*) FROM snapshots WHERE experiment = 1")[0]
        assert n_snapshots == 2
        assert client.ask("PUT", "/v1/experiments/y/decisions/open/feedback", {"loss": 5.0}).json == {
            "state": "learned"
        }
        assert client.ask("PUT", "/v1/experiments/y/decisions/closed/feedback", {"loss": 1.0}).status == 404
        learn_sum = client.ask("PUT", f"{DECIDE}/kept/feedback", {"loss": 2.0, "key": "other"})
        assert learn_sum.json == {"state": "accepted"}
        client.sleep(101 * 3600.0)
        assert learners(client) == in_log(client.path)


def test_nothing_that_is_younger_than_the_retention_is_pruned(tmp_path: Path, often: int) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        client.decide("told", metadata={"a": 1})
        learn(client, 30)
        client.sleep(99.0)
        before = client.dump()
        client.prune(100.0)
        after = client.dump()
        del before["snapshots"], after["snapshots"]
        assert after == before
        client.sleep(2.0)
        client.prune(100.0)
        assert len(client.dump()["events"]) < len(before["events"]) and len(client.dump()["decisions"]) == 1


def test_a_decision_of_several_stays_whole_until_all_of_it_is_closed(tmp_path: Path) -> None:
    """Otherwise asking for it again would draw again, and meet the rows that are left."""
    with Client(tmp_path) as client:
        client.experiment()
        request = "POST", DECIDE, {"id": "several", "n": 3}
        first = client.ask(*request)
        assert client.ask("PUT", f"{DECIDE}/several/0/feedback", {"loss": 1.0}).status == 200
        client.sleep(1000.0)
        client.prune(100.0)
        again = client.ask(*request)
        assert (again.status, again.json) == (200, first.json)
        for number in (1, 2):
            assert client.ask("PUT", f"{DECIDE}/several/{number}/feedback", {"loss": 1.0}).status == 200
        client.prune(100.0)
        assert client.ask(*request).status == 201
        assert learners(client) == in_log(client.path)


def test_pruning_makes_no_snapshot_of_a_learner_that_was_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 5)
        old, released = silence._old, threading.Event()

        def slow(*arguments: Any) -> Any:
            found = old(*arguments)
            assert released.wait(20)
            return found

        async def meanwhile() -> None:
            """Prune while a commit fails and the log is read again."""
            pruning = asyncio.create_task(silence.prune(client.service, client.now - 1e9))
            await asyncio.sleep(0)
            client.storage.connection = Faulty(client.storage.connection, "end")  # type: ignore[assignment]
            with pytest.raises(Exception, match="stored is not known"):
                decisions.decide(client.service, "x", NewDecision(id="lost"))
                await client.service.stored()
            assert client.service._task is not None
            await client.service._task
            released.set()
            await pruning

        monkeypatch.setattr(silence, "_old", slow)
        client.run(meanwhile())
        assert learners(client) == in_log(client.path)
        learn(client, 2, "e")
        assert learners(client) == in_log(client.path)


@contextlib.contextmanager
def pruning(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Let a server with a retention of 30 days delete what is older, as often as it can; yield what waits for that."""
    monkeypatch.setattr(silence, "TICK", 0.0)
    monkeypatch.setattr(silence, "PRUNE_EVERY", 0.0)
    n_pruned, prune = 0, silence.prune

    async def counted(*arguments: Any) -> None:
        nonlocal n_pruned
        await prune(*arguments)
        n_pruned += 1

    async def some() -> None:
        end = n_pruned + 3
        while n_pruned < end:
            await asyncio.sleep(0.001)

    monkeypatch.setattr(silence, "prune", counted)
    client.service.retention = 30 * 86400.0
    watching = client.loop.create_task(silence.watch(client.service))
    try:
        yield lambda: client.run(asyncio.wait_for(some(), PATIENCE))
    finally:
        watching.cancel()
        client.run(asyncio.wait([watching]))


def test_a_clock_that_jumps_ahead_for_a_while_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 30)
        with pruning(client, monkeypatch) as pruned:
            pruned()
            before = client.dump()
            client.now += 40 * 86400.0
            pruned()
            client.decide("meanwhile")
            assert client.ask("PUT", f"{DECIDE}/meanwhile/feedback", {"loss": 1.0}).status == 200
            client.now -= 40 * 86400.0
            pruned()
        after = client.dump()
        for table in ("decisions", "events"):
            assert set(before[table]) <= set(after[table])
        assert "the clock has jumped by 3456000 s" in caplog.text


def test_a_clock_that_is_wrong_at_a_start_deletes_nothing_until_it_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 30)
        before = client.dump()
    with Client(tmp_path, now=client.now + 40 * 86400.0) as client:
        with pruning(client, monkeypatch) as pruned:
            pruned()
            assert client.dump()["decisions"] == before["decisions"]
            monkeypatch.setattr(silence, "BELIEVED_AFTER", 0.0)
            pruned()
            assert client.dump()["decisions"] == []


DAY = 86400.0


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 3 * DAY),
            st.floats(-1000 * DAY, 1000 * DAY),
            st.floats(0.0, 0.99 * DAY),
        ),
        max_size=20,
    ),
    st.floats(-1000 * DAY, 1000 * DAY),
)
def test_the_time_of_the_retention_follows_jumps_that_last_and_no_others(
    episodes: list[tuple[float, float, float]], newest: float
) -> None:
    """Each episode is a time with the right clock, then a jump, which does not last."""
    right, jump = START, 0.0
    believed = silence.Believed(lambda: right + jump, START + newest, lambda: right - START)

    def looked(seconds: float, lasting: float = 0.0) -> float:
        nonlocal right
        end = right + seconds
        while right < end:
            right = min(right + DAY / 7.3, end)
            found = believed.now()
            assert found <= right + jump + 1e-3
            assert found <= right + lasting + 1e-3
        return believed.now()

    for well, ahead, badly in episodes:
        looked(well)
        jump = ahead
        looked(badly)
        jump = 0.0
    assert looked(3 * DAY) == pytest.approx(right, abs=1e-3)
    jump = 40 * DAY
    assert looked(3 * DAY, jump) == pytest.approx(right + jump, abs=1e-3)


def test_events_are_pruned_up_to_the_first_that_is_young_though_a_later_one_seems_old(
    tmp_path: Path, often: int
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 15)
        client.now -= 1000.0
        learn(client, 15, "e")
        client.now += 1000.0
        before = client.dump()["events"]
        client.prune(100.0)
        assert client.dump()["events"] == before


def test_metadata_is_erased_by_request_and_decisions_are_kept(tmp_path: Path) -> None:
    with Client(tmp_path, now=1_000_000.0) as client:
        client.experiment()
        client.experiment("y")
        for number in range(3):
            client.decide(f"d{number}", metadata={"user": f"u{number}"})
            client.now += 10.0
        client.decide("d0", "y", metadata={"user": "u0"})
        client.now += 10.0
        erase = "/v1/experiments/x/metadata"
        reply = client.ask("DELETE", f"{erase}?before=1970-01-12T13:46:55Z")
        assert (reply.status, reply.json) == (200, {"erased_before": "1970-01-12T13:46:55Z"})
        query = "SELECT experiment, decision FROM metadata ORDER BY 1, 2"
        assert rows(client, query) == [(1, "d2"), (2, "d0")]
        assert client.ask("DELETE", erase).status == 200
        assert rows(client, query) == [(2, "d0")]
        assert b"u1" not in b"".join(body for (body,) in rows(client, "SELECT body FROM events"))
        again = client.ask("POST", DECIDE, {"id": "d1", "metadata": {"user": "u1"}})
        assert again.status == 200
        assert client.ask("PUT", f"{DECIDE}/d1/feedback", {"loss": 1.0}).status == 200


# The end of a process, and of waits.


def test_sigterm_finishes_open_requests_and_exits_with_0(tmp_path: Path) -> None:
    path = tmp_path / "umab.db"
    with running(path) as server:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        body = json.dumps({"id": "slow"}).encode()
        head = f"POST {DECIDE} HTTP/1.1\r\nHost: here\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(head.encode() + body[:5])
            assert server.ask("GET", "/healthz")[0] == 200  # the server has seen what came before
            assert server.process is not None
            server.process.send_signal(signal.SIGTERM)
            until(lambda: not listens(server.port))
            assert server.process.poll() is None
            connection.sendall(body[5:])
            response = b""
            while more := connection.recv(4096):
                response += more
        assert response.startswith(b"HTTP/1.1 201") and b'"id":"slow"' in response
        assert server.process.wait(20) == 0
        server.ended()
        assert server.said == ""
    connected = sqlite3.connect(path)
    assert connected.execute("SELECT id FROM decisions").fetchall() == [("slow",)]
    connected.close()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def test_an_expiry_is_one_event_with_the_ids_that_it_closed(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", default_loss=9.0)
        drawn = {f"d{number}": client.decide(f"d{number}", defer=number == 2)["arm"] for number in range(4)}
        assert client.ask("PUT", f"{DECIDE}/d1/feedback", {"loss": 1.0}).status == 200
        client.sleep(9.0)
        assert not rows(client, "SELECT * FROM events WHERE kind = 'expired'")
        client.sleep(1.0)
        ((body,),) = rows(client, "SELECT body FROM events WHERE kind = 'expired'")
        found = json.loads(body)
        assert [(identity, draw[0], value) for identity, draw, value in found["learned"]] == [
            ("d0", drawn["d0"], 9.0),
            ("d3", drawn["d3"], 9.0),
        ]
        assert [(identity, draw[0]) for identity, draw in found["forgotten"]] == [("d2", drawn["d2"])]
        client.sleep(100.0)
        assert len(rows(client, "SELECT * FROM events WHERE kind = 'expired'")) == 1


@pytest.mark.parametrize("n_restarts", [1, 2])
def test_a_wait_that_ends_while_the_server_is_down_ends_once(tmp_path: Path, n_restarts: int) -> None:
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", default_loss=9.0)
        for number in range(3):
            client.decide(f"d{number}")
        client.restart()
        client.now += 60.0
        for _ in range(n_restarts):
            client.restart()
            client.expire()
        client.expire()
        expired = rows(client, "SELECT body FROM events WHERE kind = 'expired'")
        assert len(expired) == 1 and len(json.loads(expired[0][0])["learned"]) == 3
        counters = client.service.experiments["x"].learner.counters().values()
        assert sum(each.updates for each in counters) == 3 and client.service.experiments["x"].n_open == 0
        assert learners(client) == in_log(client.path)


def test_more_waits_end_at_once_than_one_commit_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "EXPIRED_AT_ONCE", 7)
    with Client(tmp_path) as client:
        client.experiment(wait="PT10S", default_loss=9.0)
        for number in range(20):
            client.decide(f"d{number}")
        client.sleep(10.0)
        bodies = [json.loads(body) for (body,) in rows(client, "SELECT body FROM events WHERE kind = 'expired'")]
        closed = [identity for body in bodies for identity, *_ in body["learned"]]
        assert sorted(closed) == sorted(f"d{number}" for number in range(20))
        assert [len(each["learned"]) for each in bodies] == [7, 7, 6]
        assert learners(client) == in_log(client.path)


# Migrations.


def test_migrations_run_once_each_in_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = storage.migrations("sqlite")
    with Client(tmp_path) as client:
        client.experiment()
        learn(client, 3)
        before = client.dump()
        broken = "CREATE TABLE extra (x); INSERT INTO nowhere VALUES (1);"
        monkeypatch.setattr(storage, "migrations", lambda _: [*known, broken])
        with pytest.raises(storage.DatabaseError, match=f"migration {len(known) + 1} of the database failed.*nowhere"):
            client.restart()
        with contextlib.closing(sqlite3.connect(client.path)) as there:
            assert there.execute("PRAGMA user_version").fetchone() == (len(known),)
            assert there.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchone() is None
        more = "CREATE TABLE extra (x); INSERT INTO extra VALUES (1);"
        monkeypatch.setattr(storage, "migrations", lambda _: [*known, more])
        client._start()
        assert client.dump() == before
        assert client.query("SELECT * FROM extra") == [(1,)]
        client.restart()  # it is not run again
        assert client.query("SELECT * FROM extra") == [(1,)]


def test_two_servers_that_start_at_once_run_each_migration_once(tmp_path: Path) -> None:
    path = tmp_path / "umab.db"
    servers = [Server(path), Server(path)]
    outcomes: list[Any] = []

    def start(server: Server) -> None:
        try:
            server.start()
            outcomes.append(server)
        except RuntimeError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=start, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (started,) = [each for each in outcomes if isinstance(each, Server)]
    (said,) = [each for each in outcomes if isinstance(each, str)]
    assert "one process at a time" in said and len(said.splitlines()) == 1
    assert started.stop() == 0
