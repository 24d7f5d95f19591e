"""A failure in one experiment is felt by no other one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

pytest.importorskip("starlette")

import service_app
from helpers import PATIENCE
from postgres import needs_postgres, postgres
from service_app import Client
from umab.engine import compiled
from umab_service import feedback, log, silence
from umab_service import statements as sql
from umab_service.durations import LONGEST, seconds_of
from umab_service.recovery import recovered
from umab_service.service import Service
from umab_service.storage import DatabaseError, NotStored
from umab_service.throttle import LONGEST as LONGEST_THROTTLE
from umab_service.throttle import Throttle

X, Y = ("/v1/experiments/x/decisions", "/v1/experiments/y/decisions")


_schemas = itertools.count()


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with postgres() as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres())])
def client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A service on each kind of database."""
    if request.param == "postgres":
        found = request.getfixturevalue("database")
        schema = f"isolation_{next(_schemas)}"
        monkeypatch.setattr(service_app, "url_of", lambda folder: found.url(schema))
    with Client(tmp_path) as client:
        yield client


def learner(client: Client, name: str) -> Any:
    return client.service.experiments[name].learner


def in_log(client: Client) -> dict[str, str]:
    return {each.name: each.learner.to_json() for each in recovered(client.service.storage, False)}


def settle(client: Client) -> None:
    """Wait until what has failed was read again."""

    async def read() -> None:
        while client.service.failed or client.service.recovering:
            await asyncio.sleep(0.01)

    client.run(asyncio.wait_for(read(), PATIENCE))


def fails_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, experiment: str) -> None:
    """Let a function fail, after its work, when it first works for an experiment."""
    real = getattr(owner, name)

    def failing(*arguments: Any) -> Any:
        found = real(*arguments)
        if any(getattr(each, "name", None) == experiment for each in arguments):
            monkeypatch.setattr(owner, name, real)
            raise RuntimeError("for once")
        return found

    monkeypatch.setattr(owner, name, failing)


def test_a_failure_in_one_experiment_leaves_the_others_as_they_are(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.experiment("x")
    client.experiment("y")
    client.decide("open", "x")
    client.decide("open", "y")
    of_y, before = learner(client, "y"), learner(client, "x").to_json()
    fails_once(monkeypatch, Service, "event", "x")
    asked = [
        ("PUT", f"{X}/open/feedback", {"loss": 4.0}),  # fails when the learner has changed
        ("PUT", f"{Y}/open/feedback", {"loss": 4.0}),
        ("POST", X, {"id": "next"}),
        ("POST", Y, {"id": "next"}),
        ("GET", "/v1/experiments", None),
        ("GET", "/readyz", None),
    ]
    assert [reply.status for reply in client.ask_all(asked)] == [500, 200, 503, 201, 200, 200]
    assert "for once" in caplog.text and client.service.n_failed == 0
    settle(client)
    assert learner(client, "y") is of_y and learner(client, "x").to_json() == before
    assert client.ask("PUT", f"{X}/open/feedback", {"loss": 4.0}).json == {"state": "learned"}
    assert in_log(client) == {name: learner(client, name).to_json() for name in ("x", "y")}


def test_a_failure_before_anything_has_changed_makes_nothing_anew(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.experiment("x")
    of_x = learner(client, "x")
    monkeypatch.setattr(feedback, "_value", lambda *_: 1 / 0)
    client.decide("open", "x")
    assert client.ask("PUT", f"{X}/open/feedback", {"loss": 4.0}).status == 500
    monkeypatch.undo()
    assert client.ask("PUT", f"{X}/open/feedback", {"loss": 4.0}).status == 200
    assert learner(client, "x") is of_x


def test_a_failure_in_a_batch_is_the_answer_to_one_operation(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("x", "y"):
        client.experiment(name)
    client.decide("open", "x")
    real = log.settle

    def failing(*arguments: Any) -> None:
        real(*arguments)
        raise RuntimeError("for once")

    monkeypatch.setattr(log, "settle", failing)
    operations = [
        {"experiment": "x", "decide": {"id": "first"}},
        {"experiment": "x", "decision": "open", "feedback": {"loss": 1.0}},
        {"experiment": "x", "decide": {"id": "second"}},
        {"experiment": "y", "decide": {"id": "first"}},
    ]
    reply = client.ask("POST", "/v1/batch", {"operations": operations})
    assert [each["status"] for each in reply.json["results"]] == [201, 500, 503, 201]
    settle(client)
    assert client.ask("POST", X, {"id": "first"}).status == 200  # what was answered is stored
    assert in_log(client) == {name: learner(client, name).to_json() for name in ("x", "y")}


def test_a_creation_that_fails_leaves_no_experiment(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    new = "POST", "/v1/experiments", {"name": "x", "arms": ["a"]}
    fails_once(monkeypatch, Service, "event", "x")
    assert client.ask(*new).status == 500
    settle(client)
    assert client.ask("GET", "/v1/experiments/x").status == 404
    assert client.ask(*new).status == 201


def test_one_experiment_whose_waits_cannot_be_ended_does_not_stop_the_others(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "EXPIRED_AT_ONCE", 3)
    for name in ("x", "y"):
        client.experiment(name, wait="PT1S", default_loss=1.0)
        for number in range(5):
            client.decide(f"d{number}", name)
    real = silence._silence

    def failing(service: Service, found: Any, row: Any) -> Any:
        if found.name == "x":
            raise RuntimeError("again and again")
        return real(service, found, row)

    monkeypatch.setattr(silence, "_silence", failing)

    async def watched(name: str) -> None:
        watching = asyncio.create_task(silence.watch(client.service))
        while client.service.failed or client.service.experiments[name].n_open:
            await asyncio.sleep(0.01)
        await client.service.writer.flush()  # a job that is stopped before its commit leaves nothing in the log
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching

    client.now += 2.0
    client.run(asyncio.wait_for(watched("y"), PATIENCE))
    assert client.service.experiments["x"].n_open == 5
    monkeypatch.setattr(silence, "_silence", real)
    client.run(asyncio.wait_for(watched("x"), PATIENCE))
    assert in_log(client) == {name: learner(client, name).to_json() for name in ("x", "y")}


def test_a_log_with_an_impossible_event_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        monkeypatch.setattr(log, "replayed", lambda *_: 1 / 0)
        with pytest.raises(DatabaseError, match="the log of the experiment 'x' fails at event 1"):
            recovered(client.storage, False)


# Numbers that are too large.


@pytest.mark.parametrize(
    "duration",
    ["PT0." + "0" * 320 + "1S", "PT0.0000000001S", "P" + "9" * 400 + "D", "P" + "9" * 30 + "W", "PT0S", "P" * 9],
)
def test_durations_are_bounded(tmp_path: Path, duration: str) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        of_x = learner(client, "x")
        context = {"targetingKey": "a", "umabSticky": duration}
        for path in ("/ofrep/v1/evaluate/flags/x", "/ofrep/v1/evaluate/flags"):
            reply = client.ask("POST", path, {"context": context})
            assert reply.status == 400 and reply.json["errorCode"] == "INVALID_CONTEXT"
        new = {"name": "y", "arms": ["a"], "wait": duration, "forget": True}
        assert client.ask("POST", "/v1/experiments", new).status == 422
        assert client.ask("PATCH", "/v1/experiments/x", {"wait": duration, "forget": True}).status == 422
        assert learner(client, "x") is of_x
    with pytest.raises(ValueError, match="a duration must"):
        seconds_of(duration)


def test_the_longest_and_the_shortest_duration_are_taken(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        for number, duration in enumerate(("PT0.001S", "P3660D", f"PT{LONGEST:.0f}S")):
            client.experiment(f"x{number}", wait=duration, forget=True)
            client.decide("d", f"x{number}")
            context = {"targetingKey": "a", "umabSticky": duration}
            assert client.ask("POST", f"/ofrep/v1/evaluate/flags/x{number}", {"context": context}).status == 200


def test_failures_without_end_are_counted() -> None:
    throttle, now = Throttle(), 0.0
    for _ in range(3000):
        throttle.failed("client", now)
        now += throttle.wait("client", None, now)
        assert throttle.wait("client", None, now) == 0.0
    throttle.failed("client", now)
    assert throttle.wait("client", None, now) == LONGEST_THROTTLE


# Arms that change while choices are open.


@pytest.mark.parametrize("policy", ["banker-sftinf", "umab-s"])
@pytest.mark.parametrize(
    "change", [[("PUT", "c")], [("DELETE", "b")], [("PUT", "c"), ("DELETE", "b"), ("DELETE", "a")]]
)
def test_feedback_and_waits_outlive_a_change_of_arms(
    client: Client, policy: str, change: list[tuple[str, str]]
) -> None:
    client.experiment("x", policy=policy, wait="PT10S", default_loss=1.0)
    for number in range(6):
        client.decide(f"d{number}", "x")
    for method, arm in change:
        assert client.ask(method, f"/v1/experiments/x/arms/{arm}").status in (200, 201)
    for number in range(3):
        assert client.ask("PUT", f"{X}/d{number}/feedback", {"loss": 2.0}).json == {"state": "learned"}
    client.sleep(11.0)
    assert client.service.experiments["x"].n_open == 0 and not client.service.failed
    after = learner(client, "x").to_json()
    assert in_log(client) == {"x": after}
    client.restart()
    assert client.ask("GET", "/v1/experiments/x").json["open"] == 0
    assert learner(client, "x").to_json() == after
    assert client.ask("POST", X, {}).status == 201


# Deferred sums.


@pytest.mark.parametrize("late", ["log", "learn"])
def test_the_first_part_of_a_deferred_sum_begins_its_wait(client: Client, late: str) -> None:
    client.experiment("x", wait="PT10S", forget=True, aggregation="sum", late=late)
    made = client.decide("d", "x", defer=True)
    client.sleep(6.0)
    part = {"key": "first", "loss": 3.0}
    assert client.ask("PUT", f"{X}/d/feedback", part).json == {"state": "accepted"}
    client.sleep(6.0)  # the decision itself is 12 s old
    assert client.ask("PUT", f"{X}/d/feedback", {"key": "second", "loss": 4.0}).json == {"state": "accepted"}
    assert client.ask("POST", f"{X}/d/activate").json["state"] == "open"
    assert client.ask("PUT", f"{X}/d/feedback", part).json == {"state": "duplicate"}
    client.sleep(6.0)
    assert learner(client, "x").counters()[made["arm"]].mean == 7.0
    assert client.ask("PUT", f"{X}/d/feedback", {"key": "third", "loss": 5.0}).status == 410
    after = learner(client, "x").to_json()
    kinds = [kind for (kind,) in client.query("SELECT kind FROM events ORDER BY seq")]
    assert kinds == ["created", "decided", "activated", "accepted", "accepted", "expired", "late"]
    client.restart()
    assert client.ask("GET", "/v1/experiments/x").json["open"] == 0 and learner(client, "x").to_json() == after


def test_a_deferred_sum_without_parts_is_forgotten(client: Client) -> None:
    client.experiment("x", wait="PT10S", default_loss=9.0, aggregation="sum")
    client.decide("d", "x", defer=True)
    client.sleep(11.0)
    assert client.query("SELECT state FROM decisions") == [("forgotten",)]


def test_parts_that_an_older_version_has_accepted_without_an_activation_are_learned(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment("x", wait="PT10S", forget=True, aggregation="sum")
        made = client.decide("d", "x", defer=True)
        assert client.ask("PUT", f"{X}/d/feedback", {"key": "first", "loss": 3.0}).status == 200
        client.storage.connection.execute("UPDATE decisions SET state = 'deferred'")
        client.restart()
        client.sleep(11.0)
        assert learner(client, "x").counters()[made["arm"]].mean == 3.0


def test_a_number_that_the_database_cannot_hold_leaves_no_transaction_open(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        with pytest.raises(OverflowError):
            client.storage.commit([(sql.PRUNE_EVENTS, (2**70, 0, 0))])
        assert client.ask("POST", X, {}).status == 201


def test_a_refusal_that_rests_on_what_was_not_stored_is_not_given(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.experiment("x")
    client.decide("open", "x")
    path = f"{X}/open/feedback"

    def failing(*_: Any) -> None:
        raise NotStored("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(type(client.service.storage), "commit", failing)
        replies = client.ask_all([("PUT", path, {"loss": 1.0}), ("PUT", path, {"loss": 2.0})])
    assert [reply.status for reply in replies] == [503, 503]
    settle(client)
    assert [each.status for each in client.ask_all([("PUT", path, {"loss": 2.0}), ("PUT", path, {"loss": 1.0})])] == [
        200,
        409,
    ]


@needs_postgres()
@pytest.mark.parametrize(
    ("failure", "known"),
    [
        (psycopg.errors.DiskFull, "nothing was stored"),
        (psycopg.errors.AdminShutdown, "whether this was stored is not known"),
        (psycopg.OperationalError, "whether this was stored is not known"),
    ],
)
def test_a_503_says_that_nothing_was_stored_only_where_that_is_certain(
    database: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: type[psycopg.Error],
    known: str,
) -> None:
    """The commit is sent with all statements: a lost connection may be one that has taken it."""
    schema = f"isolation_{next(_schemas)}"
    monkeypatch.setattr(service_app, "url_of", lambda folder: database.url(schema))
    with Client(tmp_path) as client:
        client.experiment("x")
        real = psycopg.AsyncConnection.execute

        async def execute(self: Any, query: Any, *more: Any) -> Any:
            if query == "COMMIT":
                raise failure("host=secret is gone")
            return await real(self, query, *more)

        with monkeypatch.context() as patched:
            patched.setattr(psycopg.AsyncConnection, "execute", execute)
            reply = client.ask("POST", X, {})
        assert (reply.status, reply.json["detail"].split(":")[0]) == (503, known)
        assert "secret" not in reply.json["detail"] and "a commit failed: host=secret is gone" in caplog.text


# The compiler.


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything that is compiled from now on is compiled anew; what learners have already stays."""
    monkeypatch.setattr(compiled, "_kernels", {})
    compiled.drawing_kernel.cache_clear()
    yield
    compiled.drawing_kernel.cache_clear()


@pytest.fixture
def compiling(uncompiled: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let the compiler be as slow as `released` says, and fail in the thread of the event loop."""
    real, loop_thread = compiled._machine_code, threading.current_thread()
    found = SimpleNamespace(begun=threading.Event(), released=threading.Event())

    def slow(*arguments: Any) -> Any:
        assert threading.current_thread() is not loop_thread, "the event loop must not compile"
        found.begun.set()
        assert found.released.wait(PATIENCE)
        return real(*arguments)

    monkeypatch.setattr(compiled, "_machine_code", slow)
    yield found
    found.released.set()


async def until(condition: Callable[[], bool]) -> None:
    async def look() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), PATIENCE)


def test_while_a_policy_is_compiled_the_others_go_on(client: Client, compiling: Any) -> None:
    compiling.released.set()
    client.experiment("x")
    client.decide("open", "x")
    compiling.released.clear()
    compiling.begun.clear()
    service, new = client.service, {"name": "y", "arms": ["a", "b"], "policy": "banker-sftinf"}

    async def asked() -> list[int]:
        creating = [asyncio.create_task(client.reply("POST", "/v1/experiments", new)) for _ in range(2)]
        await until(compiling.begun.is_set)
        others = [
            await client.reply("POST", X, {"id": "next"}),
            await client.reply("POST", X, {"among": ["b"]}),
            await client.reply("PUT", f"{X}/open/feedback", {"loss": 4.0}),
            await client.reply("PUT", "/v1/experiments/x/arms/c"),
            await client.reply("POST", "/v1/experiments", {"name": "z", "arms": ["a", "b"], "seed": 1}),
        ]
        for _ in range(2):  # leases are renewed meanwhile
            if service.ownership is not None:
                before = service.ownership._leases.until
                await until(lambda before=before: service.ownership._leases.until > before)  # type: ignore[misc]
        assert not any(each.done() for each in creating)
        compiling.released.set()
        created = [await each for each in creating]
        return [*(each.status for each in others), *sorted(each.status for each in created)]

    assert client.run(asked()) == [201, 201, 200, 201, 201, 200, 201]
    assert service.n_failed == 0 and not service.failed


def test_an_experiment_that_comes_while_its_policy_is_compiled_is_found(client: Client, compiling: Any) -> None:
    asked = {"arms": ["a", "b"], "policy": "banker-sftinf"}

    async def both() -> list[int]:
        first = asyncio.create_task(client.reply("POST", "/v1/experiments", {"name": "x", **asked}))
        await until(compiling.begun.is_set)
        other = asyncio.create_task(client.reply("POST", "/v1/experiments", {"name": "x", **asked, "arms": ["c"]}))
        compiling.released.set()
        return sorted([(await first).status, (await other).status])

    assert client.run(both()) == [201, 409]


@pytest.mark.parametrize("policy", ["umab-w", "centred(umab-w)"])
def test_the_event_loop_never_compiles(client: Client, compiling: Any, policy: str) -> None:
    """Also not what only a loss on the account of another arm needs."""
    compiling.released.set()

    def use() -> None:
        for number in range(20):
            made = client.ask("POST", X, {"among": ["a", "b"]}).json
            feedback = client.ask("PUT", f"{X}/{made['id']}/feedback", {"loss": float(number)})
            assert feedback.json == {"state": "learned"}

    def forget() -> None:
        compiled._kernels.clear()
        compiled.drawing_kernel.cache_clear()

    client.experiment("x", arms=("a", "b", "c", "d", "e"), policy=policy)
    use()
    client.ask("PUT", "/v1/experiments/x/arms/f")
    exported = client.ask("GET", "/v1/experiments/x/export").content
    forget()
    assert client.ask("POST", "/v1/experiments/x/import", exported).status == 200
    use()
    forget()
    client.restart()
    client.ask("GET", "/v1/experiments/x")
    use()
    forget()
    before = client.service.experiments["x"]

    async def read_again() -> None:
        client.service._read_again(before)

    client.run(read_again())
    settle(client)
    assert client.service.experiments["x"] is not before
    use()
