"""Hostile input: too large, too long, too deep, malformed, of the wrong type. It is refused, and changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette")

import umab
from service_app import ADMIN, Client, Reply
from umab.engine.layout import layout_of
from umab_service import administration, app, bodies, feedback, maintenance, reports
from umab_service import experiment as experiments
from umab_service.app import MOST_BODY, MOST_IMPORTED
from umab_service.experiment import MOST_VALUES
from umab_service.schema import MOST_ARMS, MOST_LEVELS
from umab_service.service import MOST_METADATA
from umab_service.sqlite import SQLite
from umab_service.storage import MOST_READ

NEW = "POST", "/v1/experiments"
DECIDE = "POST", "/v1/experiments/x/decisions"
TELL = "PUT", "/v1/experiments/x/decisions/d1/feedback"
TELL_SUM = "PUT", "/v1/experiments/s/decisions/d1/feedback"
CHANGE = "PATCH", "/v1/experiments/x"
BATCH = "POST", "/v1/batch"
EVALUATE = "POST", "/v1/experiments/x/evaluations"
IMPORT = "POST", "/v1/experiments/x/import"
KEY = "POST", "/v1/keys"
EVENTS = "/v1/experiments/x/events"

LONG = "a" * 100_000
HUGE = "9" * 5_000


def experiment(**changed: Any) -> dict[str, Any]:
    return {"name": "new", "arms": ["a", "b"], **changed}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service with an experiment, one that learns sums, and one of rewards in a known range."""
    with Client(tmp_path_factory.mktemp("limits")) as found:
        found.experiment("x")
        found.experiment("s", aggregation="sum", wait="PT1H", forget=True)
        found.experiment("r", policy="exp3-ix:low=-1,high=0", maximize=True)
        for name in ("x", "s", "r"):
            found.decide("d1", name)
        yield found


def refuses(client: Client, request: tuple[str, str], body: Any, rule: str, status: int = 422, **options: Any) -> Reply:
    """Check that a request is refused with a reason that states the rule, and that nothing changes."""
    before = client.state()
    reply = client.ask(*request, body, **options)
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json.keys() == {"type", "title", "status", "detail"} and reply.json["status"] == status
    assert rule in reply.json["detail"]
    assert len(reply.json["detail"]) < 1000  # the value is shown, but not all of it
    assert client.state() == before
    return reply


# Sizes.


def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    rule = f"the body must have at most {MOST_BODY} bytes"
    large = b'{"metadata": {"a": "' + b"a" * MOST_BODY + b'"}}'
    reply = refuses(client, DECIDE, large, rule, 413)
    assert reply.headers["connection"] == "close"
    chunks = [large[at : at + 65536] for at in range(0, len(large), 65536)]
    refuses(client, DECIDE, None, rule, 413, chunks=chunks)  # with no content-length
    refuses(client, DECIDE, None, rule, 413, chunks=chunks, headers={"Content-Length": "2"})
    refuses(client, DECIDE, None, rule, 413, chunks=[b" "] * 10 + [large])
    refuses(client, ("GET", EVENTS), large, rule, 413)  # also where no body is wanted


def test_a_large_body_is_not_read_to_its_end(client: Client) -> None:
    n_read = [0]

    async def endless() -> Any:
        n_read[0] += 1
        return {"type": "http.request", "body": b" " * 65536, "more_body": True}

    assert answer_to(client, endless).startswith(b"413")
    assert n_read[0] == MOST_BODY // 65536 + 1


def test_a_body_in_small_chunks_is_read_as_one(client: Client) -> None:
    content = json.dumps({"loss": "no number"}).encode()
    whole = refuses(client, TELL, content, "Expected `float | null`, got `str`")
    chunked = refuses(client, TELL, None, "Expected", chunks=[bytes([byte]) for byte in content])
    assert chunked.json == whole.json


def test_a_body_that_does_not_arrive_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.02)
    client.app.bodies = bodies.Bodies()  # whose timer has not started yet

    async def silent() -> Any:
        await asyncio.Event().wait()

    begun: list[Any] = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def stuck() -> Any:
        return begun.pop() if begun else await silent()

    for receive in (silent, stuck):
        assert b"must arrive within" in answer_to(client, receive)


def test_a_client_that_leaves_changes_nothing(client: Client) -> None:
    before = client.state()
    begun: list[Any] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"{}", "more_body": True}]

    async def leaves() -> Any:
        return begun.pop()

    assert answer_to(client, leaves).startswith(b"400")
    assert client.state() == before


def answer_to(client: Client, receive: Callable[[], Awaitable[Any]]) -> bytes:
    """Return status and content of the answer to a decision whose body comes in a way of its own."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", b"Bearer " + ADMIN.encode()), (b"content-length", b"9")]
    scope = {"type": "http", "method": DECIDE[0], "path": DECIDE[1], "query_string": b"", "client": None}
    client.run(asyncio.wait_for(client.app({**scope, "headers": headers}, receive, send), 20))
    return b"%d %s" % (sent[0]["status"], sent[1]["body"])


def test_a_learner_to_import_may_be_larger_but_not_as_large_as_it_likes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses(client, IMPORT, b"[" + b" " * (2 * MOST_BODY) + b"]", "a saved learner must be")
    monkeypatch.setattr(app, "MOST_IMPORTED", 3 * MOST_BODY)
    refuses(client, IMPORT, b" " * (3 * MOST_BODY + 1), f"at most {3 * MOST_BODY} bytes", 413)


# What is read of a log.


def logged(client: Client, kind: str, bodies: Iterable[Any]) -> None:
    """Append events to the log, which nothing but reports and readers of the log will see."""
    found = client.service.experiments["x"]
    for body in bodies:
        client.service.event(found, kind, body)
    client.run(client.service.stored())


def test_a_page_of_the_log_ends_before_it_is_too_large_and_no_event_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_PAGE", 10_000)
    with Client(tmp_path) as client:
        client.experiment("x")
        sizes = [100] * 200 + [9_000, 9_000, 50_000, 50_000, 10] + [4_000] * 5
        logged(client, "late", ({"key": "a" * size} for size in sizes))
        found, after = [], "0"
        while True:
            page = client.ask("GET", f"{EVENTS}?after={after}&limit=10000")
            assert len(page.content) < 20_000 or len(page.json) == 1  # what is around each body is not counted
            after = page.headers["x-next-after"]
            if not page.json:
                break
            assert int(after) == page.json[-1]["seq"]
            found += page.json
        assert [each["seq"] for each in found] == list(range(1, len(sizes) + 2))
        assert [len(each["body"]["key"]) for each in found[1:]] == sizes
        assert client.ask("GET", f"{EVENTS}?after={after}").headers["x-next-after"] == after


def test_the_log_and_reports_are_read_outside_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        client.decide("d1")
        assert client.ask(*TELL, {"loss": 1.0}).status == 200
        storage, threads = client.service.storage, []
        reader = storage.reader

        def watched() -> Any:
            threads.append(threading.get_ident())
            return reader()

        monkeypatch.setattr(storage, "reader", watched)
        monkeypatch.setattr(storage, "soon", None)  # it reads in the loop
        assert len(client.ask("GET", EVENTS).json) == 3
        assert client.ask("GET", "/v1/experiments/x/report").json["estimates"]["rounds"] == 1
        assert client.ask(*EVALUATE, {"arm": "a"}).status in (200, 422)
        assert len(threads) == 3 and threading.get_ident() not in threads


def expired(number: int, n_rounds: int) -> dict[str, Any]:
    """Return what the log says if so many choices expire together."""
    return {"learned": [[f"{number}-{k}", ["ab"[k % 2], k % 2, 0.5, "x"], float(k % 2)] for k in range(n_rounds)]}


def test_estimates_stop_at_the_limit_of_rounds_and_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One event holds up to 500 rounds, so that a limit of events is none."""
    monkeypatch.setattr(reports, "MOST_ROUNDS", 1200)
    with Client(tmp_path) as client:
        client.experiment("x")
        logged(client, "expired", (expired(number, 500) for number in range(1500)))
        tracemalloc.start()
        try:
            rounds = client.ask("GET", "/v1/experiments/x/report").json["estimates"]["rounds"]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert rounds == 1200
        assert peak < 60 << 20  # all 1,200 events that the limit once stood for hold 600,000 rounds
        logged(client, "learned", ({"decision": f"d{k}", "draw": ["b", 1, 0.5], "value": 7.0} for k in range(1199)))
        reply = client.ask(*EVALUATE, {"arm": "b"}).json
        assert (reply["rounds"], reply["estimate"]["mean"]) == (1200, 7.0)  # the latest ones; one is of the arm a


@pytest.mark.parametrize("n_events", [0, 1, 2, 499, 500, 501, 1000, 1001])
def test_estimates_miss_no_event(tmp_path: Path, n_events: int) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        logged(client, "learned", ({"decision": f"d{k}", "draw": ["a", 0, 0.5], "value": 1.0} for k in range(n_events)))
        logged(client, "late", [{"decision": "d0", "draw": ["a", 0, 0.5], "value": 3.0}] if n_events else [])
        estimates = client.ask("GET", "/v1/experiments/x/report").json["estimates"]
        assert estimates["rounds"] == n_events
        if n_events:
            assert estimates["paid"] == pytest.approx((n_events + 2) / n_events)  # the latest outcome counts


def test_large_rows_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a start, in checks and in copies; a number of rows alone is no bound of memory."""
    read = []

    class Watched:
        def __init__(self, reader: Any) -> None:
            self.reader = reader

        def execute(self, *given: Any) -> Any:
            found = self.reader.execute(*given).fetchall()
            read.append(sum(len(each) for row in found for each in row if isinstance(each, bytes)))
            waiting = iter(found)
            return SimpleNamespace(fetchall=lambda: list(waiting), fetchone=lambda: next(waiting, None))

    reader = SQLite.reader

    @contextlib.contextmanager
    def watched(storage: SQLite) -> Iterator[Any]:
        with reader(storage) as found:
            yield Watched(found)

    with Client(tmp_path) as client:
        client.experiment("x")
        sizes = [3_000_000] * 15 + [10] * 30_000 + [20_000_000, 10]
        logged(client, "late", ({"key": "a" * size} for size in sizes))
        before = client.ask("GET", "/v1/experiments/x/export").json
        monkeypatch.setattr(SQLite, "reader", watched)
        client.storage.connection.execute("DELETE FROM snapshots")
        client.restart()
        assert client.ask("GET", "/v1/experiments/x/export").json == before
        bounded(read, sizes)
        copy = SQLite(tmp_path / "copy.db")
        copy.open()
        read.clear()
        maintenance.check(client.storage, print)
        bounded(read, sizes)
        read.clear()
        maintenance.copy(client.storage, copy, print)
        bounded(read, sizes)
        assert maintenance.n_rows(copy, "events") == len(sizes) + 1
        copy.close()


def bounded(read: list[int], sizes: list[int]) -> None:
    """Check how much was read at once: little, or a single event that is larger than that."""
    assert sum(read) > sum(sizes) and max(read) < max(sizes) + 1000
    assert max(size for size in read if size < max(sizes)) <= MOST_READ


# Learners that are imported.


def test_what_the_service_never_needs_of_a_learner_is_not_kept(tmp_path: Path) -> None:
    """It is written with every snapshot and read at every start: 20 MB of it took seconds."""
    with Client(tmp_path) as client:
        client.experiment("x")
        learner = client.ask("GET", "/v1/experiments/x/export").json
        learner["ids"]["absorbed"] = {f"{k:016x}": [[1, 2], [5, 9]] for k in range(20_000)}
        assert client.ask(*IMPORT, learner).status == 200
        exported = client.ask("GET", "/v1/experiments/x/export")
        assert exported.json["ids"]["absorbed"] == {} and len(exported.content) < 10_000
        assert client.decide("d1") and client.ask(*TELL, {"loss": 1.0}).status == 200
        assert client.ask("PUT", "/v1/experiments/x/arms/new").status == 201
        client.run(client.service.snapshot_all())
        ((largest,),) = client.run(client.service.read("SELECT max(length(body)) FROM events"))
        assert largest < 20_000
        client.restart()
        assert client.ask("GET", "/v1/experiments/x/export").json["arms"][-1] == "new"


def test_a_learner_is_read_outside_of_the_event_loop(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, read = [], administration._learner_in

    def watched(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return read(*given)

    monkeypatch.setattr(administration, "_learner_in", watched)
    assert client.ask(*IMPORT, client.ask("GET", "/v1/experiments/x/export").json).status == 200
    assert threads and threading.get_ident() not in threads


def test_a_learner_with_too_many_arms_is_refused_before_it_is_made(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = client.ask("GET", "/v1/experiments/x/export").json
    monkeypatch.setattr(administration, "Learner", None)
    learner["arms"] = [str(k) for k in range(MOST_ARMS + 1)]
    refuses(client, IMPORT, learner, f"at most {MOST_ARMS}, but it has {MOST_ARMS + 1}")


def test_a_learner_with_a_large_state_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(tmp_path) as client:
        client.experiment("x", arms=["a", "b", "c"], policy="umab-w:marks=2")
        client.experiment("larger", arms=["a", "b", "c", "d"], policy="umab-w:marks=2")
        larger = client.ask("GET", "/v1/experiments/larger/export").json
        layout = layout_of(umab.policy("umab-w:marks=2"))
        n_values = layout.state.size(3) - len(layout.state.sizes)
        monkeypatch.setattr(experiments, "MOST_VALUES", n_values)
        rule = f"at most {n_values} values, but that of umab-w:marks=2 for 4 arms has "
        for request, body in (
            (NEW, experiment(arms=["a", "b", "c", "d"], policy="umab-w:marks=2")),
            (("PUT", "/v1/experiments/x/arms/d"), None),
            (IMPORT, larger),
        ):
            reply = refuses(client, request, body, rule)
            assert reply.json["detail"].endswith("take at most 3 arms, or a policy with a smaller state")
        client.experiment("new", arms=["a", "b", "c"], policy="umab-w:marks=2")
        # What is too large already, since an older version took it, may shrink and go on.
        assert client.ask("DELETE", "/v1/experiments/larger/arms/d").status == 200
        assert client.ask("PUT", "/v1/experiments/larger/arms/d").status == 422


def test_every_export_can_be_imported(tmp_path: Path) -> None:
    """Also that of the largest learner, with the longest names and the longest numbers."""
    arms = [chr(0x1F600) * 197 + f"{k:03}" for k in range(MOST_ARMS)]
    with Client(tmp_path) as client:
        new = experiment(name="x", arms=arms)
        assert client.ask(*NEW, json.dumps(new, ensure_ascii=False).encode()).status == 201
        exported = client.ask("GET", "/v1/experiments/x/export")
        assert client.ask(*IMPORT, exported.content).status == 200
        learner = exported.json
        values = n_numbers(learner["state"])
        assert values <= MOST_VALUES < 1.02 * values  # the recommended policy may have as many arms as any
        longest = [-1.1125369292536007e-308 for _ in range(MOST_VALUES)]
        assert len(repr(longest[0])) == 24
        learner["state"] = {"values": longest}
        learner["counters"] = [[2**53] * 3 + longest[:4]] * MOST_ARMS
        assert len(json.dumps(learner)) + 10_000 < MOST_IMPORTED  # with the names of the fields


def n_numbers(value: Any) -> int:
    """Return how many numbers a saved state has."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if inside is None else sum(map(n_numbers, inside))


LIMITS: dict[str, tuple[tuple[str, str], Any, str]] = {
    "a long name": (NEW, experiment(name="a" * 129), "$.name"),
    "no name": (NEW, experiment(name=""), "$.name"),
    "a name that begins with a dot": (NEW, experiment(name=".a"), "$.name"),
    "a name with a slash": (NEW, experiment(name="a/b"), "$.name"),
    "a name that ends a line": (NEW, experiment(name="a\n"), "$.name"),
    "a name with NUL": (NEW, experiment(name="a\0"), "$.name"),
    "a name with letters of other scripts": (NEW, experiment(name="ä"), "$.name"),
    "a long arm": (NEW, experiment(arms=["a", "b" * 201]), "length <= 200"),
    "an empty arm": (NEW, experiment(arms=["a", ""]), "length >= 1"),
    "an arm twice": (NEW, experiment(arms=["a", "a"]), "must differ"),
    "no arms": (NEW, experiment(arms=[]), "length >= 1"),
    "too many arms": (NEW, experiment(arms=[str(k) for k in range(MOST_ARMS + 1)]), f"length <= {MOST_ARMS}"),
    "a long policy": (NEW, experiment(policy=LONG), "length <= 200"),
    "a policy that nobody knows": (NEW, experiment(policy="nobody"), "nobody"),
    "a policy that is code": (NEW, experiment(policy="os:system"), "must be registered"),
    "a policy that is a path": (NEW, experiment(policy="../../x.py:X"), "a policy must be one of"),
    "a policy that takes all memory": (NEW, experiment(policy="umab-w:marks=99999999999"), "at most 1024"),
    "a policy with a huge state": (
        NEW,
        experiment(policy="umab-w:marks=1024", arms=[str(k) for k in range(MOST_ARMS)]),
        f"at most {MOST_VALUES} values",
    ),
    "a policy that sees all arms": (NEW, experiment(policy="adahedge"), "must learn from one arm"),
    "a policy that needs a horizon": (NEW, experiment(policy="exp3"), "need no horizon"),
    "a negative seed": (NEW, experiment(seed=-1), ">= 0"),
    "a large seed": (NEW, experiment(seed=2**53 + 1), f"<= {2**53}"),
    "a huge seed": (NEW, experiment(seed=10**100), "$.seed"),
    "a seed with a fraction": (NEW, experiment(seed=1.5), "Expected `int | null`, got `float`"),
    "a wait of no time": (NEW, experiment(wait="PT0S", forget=True), "at least 1 ms"),
    "a negative wait": (NEW, experiment(wait="-PT1S", forget=True), "a duration must be like"),
    "a wait of a century": (NEW, experiment(wait="P36500D", forget=True), "at most ten years"),
    "a long wait": (NEW, experiment(wait="PT" + "1" * 100 + "S", forget=True), "length <= 40"),
    "a wait in months": (NEW, experiment(wait="P1M", forget=True), "a duration must be like"),
    "a wait in digits of other scripts": (NEW, experiment(wait="PT٣S", forget=True), "a duration must be like"),
    "a wait with nothing at its end": (NEW, experiment(wait="PT1S"), "what silence means"),
    "a default with no wait": (NEW, experiment(default_loss=1.0), "wait must be given"),
    "a default of the wrong kind": (NEW, experiment(wait="PT1S", default_reward=1.0), "takes default_loss"),
    "a default and forget": (NEW, experiment(wait="PT1S", default_loss=1.0, forget=True), "exactly one of"),
    "late with a default": (NEW, experiment(wait="PT1S", default_loss=1.0, late="learn"), "late=learn must come"),
    "an aggregation that nobody knows": (NEW, experiment(aggregation="mean"), "$.aggregation"),
    "an unknown field": (NEW, experiment(nonsense=1), "unknown field `nonsense`"),
    "a field of an answer": (NEW, experiment(state="archived"), "unknown field `state`"),
    "no fields": (NEW, {}, "missing required field"),
    "an unknown change": (CHANGE, {"policy": "uniform"}, "unknown field `policy`"),
    "a change of the wrong type": (CHANGE, {"forget": 1}, "Expected `bool`"),
    "a change that does not fit": (CHANGE, {"default_loss": 1.0}, "wait must be given"),
    "a long id": (DECIDE, {"id": "a" * 129}, "$.id"),
    "an empty id": (DECIDE, {"id": ""}, "$.id"),
    "an id with a slash": (DECIDE, {"id": "a/0"}, "$.id"),
    "an id that ends a line": (DECIDE, {"id": "a\n"}, "$.id"),
    "an id that is a number": (DECIDE, {"id": 1}, "Expected `str | null`, got `int`"),
    "no decisions at once": (DECIDE, {"n": 0}, ">= 1"),
    "101 decisions at once": (DECIDE, {"n": 101}, "<= 100"),
    "true decisions at once": (DECIDE, {"n": True}, "got `bool`"),
    "among nothing": (DECIDE, {"among": []}, "length >= 1"),
    "among a stranger": (DECIDE, {"among": ["a", "z"]}, "'z'"),
    "among too many": (DECIDE, {"among": ["a"] * (MOST_ARMS + 1)}, f"length <= {MOST_ARMS}"),
    "metadata that is a list": (DECIDE, {"metadata": []}, "Expected `object | null`"),
    "large metadata": (DECIDE, {"metadata": {"a": "a" * MOST_METADATA}}, f"at most {MOST_METADATA} bytes"),
    "large metadata with an id": (DECIDE, {"id": "m", "metadata": {"a": LONG}}, f"at most {MOST_METADATA} bytes"),
    "large metadata in few characters": (DECIDE, {"metadata": {"a": "\0" * 700}}, f"at most {MOST_METADATA} bytes"),
    "no feedback": (TELL, {}, "feedback must be a loss"),
    "a reward for a loss": (TELL, {"reward": 1.0}, "feedback must be a loss"),
    "a loss and a reward": (TELL, {"loss": 1.0, "reward": 1.0}, "feedback must be a loss"),
    "a loss in words": (TELL, {"loss": "1"}, "Expected `float | null`, got `str`"),
    "a loss that is true": (TELL, {"loss": True}, "Expected `float | null`, got `bool`"),
    "a huge loss": (TELL, {"loss": 10**400}, "out of range"),
    "a part of no sum": (TELL, {"loss": 1.0, "key": "k"}, "key must not be given"),
    "a sum without parts": (TELL_SUM, {"loss": 1.0}, "key must be given"),
    "a long key of a part": (TELL_SUM, {"loss": 1.0, "key": "k" * 129}, "length <= 128"),
    "an empty key of a part": (TELL_SUM, {"loss": 1.0, "key": ""}, "length >= 1"),
    "a time that is none": (TELL, {"loss": 1.0, "at": "yesterday"}, "a time must be like"),
    "a time without a zone": (TELL, {"loss": 1.0, "at": "2026-01-31T12:00:00"}, "must say its zone"),
    "a time before all years": (TELL, {"loss": 1.0, "at": "0001-01-01T00:00:00+23:59"}, "the years 1 to 9999"),
    "a time after all years": (TELL, {"loss": 1.0, "at": "9999-12-31T23:59:59.999999-23:59"}, "the years 1 to 9999"),
    "a long time": (TELL, {"loss": 1.0, "at": "2" * 41}, "length <= 40"),
    "an empty batch": (BATCH, {"operations": []}, "length >= 1"),
    "a batch of 1001": (BATCH, {"operations": [{"experiment": "x", "decide": {}}] * 1001}, "length <= 1000"),
    "a batch of 11 times 100": (
        BATCH,
        {"operations": [{"experiment": "x", "decide": {"n": 100}}] * 11},
        "at most 1000",
    ),
    "an operation on no experiment": (BATCH, {"operations": [{"decide": {}}]}, "missing required field `experiment`"),
    "a batch that is a list": (BATCH, [], "Expected `object`, got `array`"),
    "an evaluation of nothing": (EVALUATE, {}, "exactly one of"),
    "an evaluation of two": (EVALUATE, {"arm": "a", "probabilities": {"a": 1.0}}, "exactly one of"),
    "a negative probability": (EVALUATE, {"probabilities": {"a": -0.5, "b": 1.5}}, "$.probabilities"),
    "a huge probability": (EVALUATE, {"probabilities": {"a": 1e308, "b": 1e308}}, "<= 1.0"),
    "an evaluation of no log": (EVALUATE, {"arm": "a"}, "needs a log with feedback"),
    "a key with no role": (KEY, {}, "missing required field `role`"),
    "a key with a role that nobody knows": (KEY, {"role": "root"}, "$.role"),
    "a key with a long prefix": (KEY, {"role": "read", "prefix": "a" * 129}, "length <= 128"),
    "a key with a long note": (KEY, {"role": "read", "note": "a" * 201}, "length <= 200"),
    "a key with a secret of its own": (KEY, {"role": "read", "key": "umab_x"}, "unknown field `key`"),
    "a learner that is none": (IMPORT, b"{}", "a saved learner must be"),
    "a learner that is not text": (IMPORT, b"\xff\xfe", "JSON in UTF-8"),
    "no learner": (IMPORT, b"", "a saved learner must be"),
    "a deep learner": (IMPORT, b"[" * 100_000, "a saved learner must be"),
    "a learner with a huge number": (IMPORT, HUGE.encode(), "a saved learner must be"),
    "a long arm in the path": (("PUT", f"/v1/experiments/x/arms/{'a' * 201}"), None, "1 to 200 characters"),
    "a limit of nothing": (("GET", f"{EVENTS}?limit=0"), None, "limit must be a whole number from 1 to 10000"),
    "a limit of too much": (("GET", f"{EVENTS}?limit=10001"), None, "limit must be a whole number"),
    "a limit in words": (("GET", "/v1/experiments?limit=all"), None, "limit must be a whole number from 1 to 1000"),
    "a limit with a sign": (("GET", "/v1/experiments?limit=%2B5"), None, "limit must be a whole number"),
    "a limit with an underscore": (("GET", "/v1/experiments?limit=1_0"), None, "limit must be a whole number"),
    "a limit in digits of other scripts": (("GET", "/v1/experiments?limit=%D9%A3"), None, "limit must be"),
    "a huge limit": (("GET", f"{EVENTS}?limit={HUGE}"), None, "limit must be a whole number"),
    "a negative cursor": (("GET", f"{EVENTS}?after=-1"), None, "after must be a whole number"),
    "a cursor that is not finite": (("GET", f"{EVENTS}?after=inf"), None, "after must be a whole number"),
    "metadata before no time": (("DELETE", "/v1/experiments/x/metadata?before="), None, "a time must be like"),
    "metadata before a long time": (("DELETE", f"/v1/experiments/x/metadata?before={LONG}"), None, "a time must be"),
    "metadata before all years": (
        ("DELETE", "/v1/experiments/x/metadata?before=0001-01-01T00:00:00%2B23:59"),
        None,
        "the years 1 to 9999",
    ),
}


@pytest.mark.parametrize("case", LIMITS)
def test_what_breaks_a_rule_is_refused_with_the_rule(client: Client, case: str) -> None:
    request, body, rule = LIMITS[case]
    refuses(client, request, body, rule)


@pytest.mark.parametrize("value", [-1.5, 1.0000001, 1e308, -1e308])
def test_a_reward_outside_the_range_of_the_policy_is_refused(client: Client, value: float) -> None:
    refuses(
        client,
        ("PUT", "/v1/experiments/r/decisions/d1/feedback"),
        {"reward": value},
        "a reward is the negative of a loss, and loss must be at least -1.0 and at most 0.0",
    )


# JSON.

MALFORMED = {
    "no end": b"{",
    "two": b"{} {}",
    "a comma too many": b'{"id": "a",}',
    "single quotes": b"{'id': 'a'}",
    "a comment": b"{} // {}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"id": "a"}'.encode("utf-16"),
    "bytes that are no UTF-8": b'{"metadata": {"a": "\xff"}}',
    "a name that is no UTF-8": b'{"metadata": {"\xc3": 1}}',
    "an unknown field that is no UTF-8": b'{"\xff": 1}',
    "an overlong encoding": b'{"metadata": {"a": "\xc0\xaf"}}',
    "a surrogate in UTF-8": b'{"metadata": {"a": "\xed\xa0\x80"}}',
    "a high surrogate alone": b'{"metadata": {"a": "\\ud800"}}',
    "a high surrogate before a letter": b'{"metadata": {"a": "\\ud800abcdef"}}',
    "two high surrogates": b'{"metadata": {"a": "\\ud800\\ud800"}}',
    "a low surrogate alone": b'{"metadata": {"a": "\\udc00"}}',
    "a surrogate in a name": b'{"metadata": {"\\udc00": 1}}',
    "a surrogate in an arm": b'{"among": ["a", "\\ud800 "]}',
    "a control character": b'{"metadata": {"a": "\n"}}',
    "NUL": b"{}\0",
    "NaN": b'{"metadata": {"a": NaN}}',
    "Infinity": b'{"metadata": {"a": -Infinity}}',
    "a number with a zero too many": b'{"metadata": {"a": 01}}',
    "a number in hexadecimal": b'{"metadata": {"a": 0x10}}',
    "nothing but a space": b" ",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_body_that_is_no_json_is_refused(client: Client, case: str) -> None:
    refuses(client, DECIDE, MALFORMED[case], "the body must be JSON", 400)


@pytest.mark.parametrize("body", [b"null", b"true", b"1", b'"x"', b"[]", b"[{}]", b"1e999"])
@pytest.mark.parametrize("request_", [NEW, CHANGE, DECIDE, TELL, BATCH, EVALUATE, KEY])
def test_a_body_that_is_no_object_is_refused(client: Client, request_: tuple[str, str], body: bytes) -> None:
    refuses(client, request_, body, "the body must be as described")


@pytest.mark.parametrize("number", ["1e999", "-1e999", HUGE, "-" + HUGE, "1e99999999999999999999"])
def test_a_number_that_is_too_large_is_refused(client: Client, number: str) -> None:
    refuses(client, TELL, f'{{"loss": {number}}}'.encode(), "out of range")
    refuses(client, DECIDE, f'{{"metadata": {{"a": {number}}}}}'.encode(), "out of range")
    refuses(client, EVALUATE, f'{{"probabilities": {{"a": {number}}}}}'.encode(), "out of range")
    refuses(client, NEW, f'{{"name": "n", "arms": ["a"], "seed": {number}}}'.encode(), "$.seed")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "nan", "inf"])
def test_a_number_that_is_none_is_refused(client: Client, number: str) -> None:
    refuses(client, TELL, f'{{"loss": {number}}}'.encode(), "the body must be JSON", 400)


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 900, 950, 990, 1000, 1100, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_metadata_that_is_nested_deep_is_refused(client: Client, levels: int, begin: str, end: str) -> None:
    deep = f'{{"metadata":{{"a":{begin * (levels - 1)}1{end * (levels - 1)}}}}}'
    for body in (deep, deep.replace("{", '{"id":"deep",', 1)):
        refuses(client, DECIDE, body.encode(), f"at most {MOST_LEVELS} levels" if levels < 40 else "at most")
    before = client.state()
    reply = client.ask(*BATCH, f'{{"operations":[{{"experiment":"x","decide":{deep}}}]}}'.encode())
    assert (reply.json["results"][0]["status"] if reply.status == 200 else reply.status) == 422
    assert client.state() == before


def test_an_unknown_field_may_be_nested_as_deep_as_it_likes_and_is_refused(client: Client) -> None:
    for request in (NEW, DECIDE, TELL, EVALUATE, KEY):
        refuses(client, request, b'{"nonsense":' + b"[" * 400_000 + b"]" * 400_000 + b"}", "")


def test_what_is_within_the_limits_is_taken(tmp_path: Path) -> None:
    """The limits are where they are said to be: the largest of everything works, and is found again after a restart."""
    arms = [f"{number:0200}" for number in range(MOST_ARMS)]
    metadata: Any = 1
    for _ in range(MOST_LEVELS - 1):
        metadata = [metadata]
    with Client(tmp_path) as client:
        client.experiment("n" * 128, arms, seed=2**53, policy="uniform")
        path = f"/v1/experiments/{'n' * 128}"
        deep = client.ask("POST", f"{path}/decisions", {"id": "d" * 128, "n": 100, "metadata": {"a": metadata}})
        assert deep.status == 201 and len(deep.json["decisions"]) == 100
        large = {"a": "a" * (MOST_METADATA - len('{"a":""}'))}
        assert client.ask("POST", f"{path}/decisions", {"metadata": large, "among": arms}).status == 201
        told = client.ask("PUT", f"{path}/decisions/{'d' * 128}/99/feedback", {"loss": 1.7e308})
        assert told.status == 200
        operations = [{"experiment": "n" * 128, "decide": {"n": 100}}] * 10
        assert client.ask(*BATCH, {"operations": operations}).status == 200
        assert client.ask("PUT", f"{path}/arms/new").status == 409  # one more than there may be
        assert client.ask(*BATCH, b'{"operations": []' + b" " * (MOST_BODY - 18) + b"}").status == 422
        learner = client.service.experiments["n" * 128].learner.to_json()
        client.restart()
        assert client.service.experiments["n" * 128].learner.to_json() == learner


def test_an_arm_may_have_any_characters(tmp_path: Path) -> None:
    strange = [
        "a/b",
        "a b",
        "\0",
        "\n",
        "%",
        "..",
        "ä",
        "😀",
        "'; DROP TABLE keys; --",
        '"',
        "\\",
        "\u202e",
        "\ufeff",
        "{}",
    ]
    with Client(tmp_path) as client:
        client.experiment("x", strange)
        for arm in strange:
            made = client.decide(f"d{strange.index(arm)}", among=[arm])
            assert made["arm"] == arm
            assert client.ask("PUT", f"/v1/experiments/x/decisions/{made['id']}/feedback", {"loss": 1}).status == 200
        client.restart()
        assert client.ask("GET", "/v1/experiments/x").json["arms"] == strange
        assert {each["arm"] for each in client.ask("GET", "/v1/experiments/x/report").json["arms"]} == set(strange)
        assert client.ask("GET", "/metrics").status == 200
        for number in (0, 1):
            arm = "new%2Farm" if number else "%22%5C%00%C3%A4"
            assert client.ask("PUT", f"/v1/experiments/x/arms/{arm}").status == 201
            assert client.ask("DELETE", f"/v1/experiments/x/arms/{arm}").status == 200


def test_strange_ids_and_names_in_a_path_find_nothing(client: Client) -> None:
    before = client.state()
    for name in ("%00", "x%00", "x%0A", "%20x", "X", "..", "%2e%2e", "x%FF", LONG, "'%20OR%201=1--", "%25", "x;y"):
        for method, end in (("GET", ""), ("POST", "/decisions"), ("GET", "/report"), ("POST", "/archive")):
            reply = client.ask(method, f"/v1/experiments/{name}{end}", {} if method == "POST" else None)
            assert reply.status == 404 and len(reply.json["detail"]) < 1000, reply
        for end in ("feedback", "activate"):
            method = "PUT" if end == "feedback" else "POST"
            path = f"/v1/experiments/x/decisions/{name}/{end}"
            assert client.ask(method, path, {"loss": 1.0} if end == "feedback" else None).status == 404
        assert client.ask("DELETE", f"/v1/keys/{name}").status == 404
        assert client.ask("DELETE", f"/v1/experiments/x/arms/{name}").status == 404
    assert client.state() == before


def test_a_sum_has_a_limit_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "MOST_PARTS", 3)
    with Client(tmp_path) as client:
        client.experiment("s", aggregation="sum", wait="PT1H", forget=True)
        client.decide("d1", "s")
        for number in range(3):
            assert client.ask(*TELL_SUM, {"loss": 1.0, "key": f"k{number}"}).status == 200
        refuses(client, TELL_SUM, {"loss": 1.0, "key": "k3"}, "at most 3 parts")
        assert client.ask(*TELL_SUM, {"loss": 1.0, "key": "k0"}).json == {"state": "duplicate"}


def test_a_failure_inside_tells_nothing_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that fails in its middle is as if it had never come, whatever it had begun to do."""
    with Client(tmp_path) as client:
        client.experiment("x")
        before = client.state()

        def half(*arguments: Any) -> Any:
            client.service.experiments["x"].learner.select()
            client.service.event(client.service.experiments["x"], "nonsense", {})
            raise RuntimeError("the password is swordfish")

        with monkeypatch.context() as patched:
            patched.setattr("umab_service.decisions.decide", half)
            reply = client.ask(*DECIDE, {})
        assert reply.status == 500 and "swordfish" not in repr(reply) and "swordfish" in caplog.text
        for _ in range(1000):
            if client.service.ready and not client.service.failed:
                break
            client.run(asyncio.sleep(0.01))
        assert client.state() == before
        assert client.decide("after")
        client.restart()
        assert client.ask(*DECIDE, {"id": "after"}).status == 200


def test_a_learner_that_cannot_be_saved_harms_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No policy of this package comes to a state that is not finite, but one from elsewhere may."""
    with Client(tmp_path) as client:
        for name in ("x", "y"):
            client.experiment(name)
        learner = client.ask("GET", "/v1/experiments/x/export").json
        client.service.experiments["x"].learner._core.tallies[0].latest = math.nan
        refused = client.ask("GET", "/v1/experiments/x/export")
        assert refused.status == 409
        assert "must be" in refused.json["detail"]
        client.decide("d1", "y")
        client.now += 1.0
        client.prune(0.0)
        client.run(client.service.snapshot_all())
        assert client.service.experiments["x"].id not in [row[0] for row in client.dump()["snapshots"]]
        assert "cannot be saved" in caplog.text
        client.restart()
        assert client.ask("GET", "/v1/experiments/x/report").status == 200
        assert client.ask(*IMPORT, learner).status == 200
        assert client.ask("GET", "/v1/experiments/x/export").status == 200


def test_a_learner_in_an_impossible_state_is_not_imported(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        client.experiment("ix", policy="exp3-ix")
        for name, field, value in (("x", "level.n_losses", -1.0), ("ix", "round", -1.0)):
            learner = client.ask("GET", f"/v1/experiments/{name}/export").json
            learner["state"][field] = value
            method, path = IMPORT[0], IMPORT[1].replace("/x/", f"/{name}/")
            refuses(client, (method, path), learner, f"{field} must be from")


def test_a_learner_with_an_arm_that_has_no_utf8_is_refused(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        client.experiment("x")
        learner = client.ask("GET", "/v1/experiments/x/export").json
        arms = ["\ud800", *learner["arms"][1:]]
        refuses(client, IMPORT, json.dumps({**learner, "arms": arms}).encode(), "must be as those of an experiment")


def test_a_learner_that_is_broken_never_reaches_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log with a draw that has no probability cannot be replayed."""
    with Client(tmp_path) as client:
        client.experiment("x")
        learner = client.ask("GET", "/v1/experiments/x/export").json
        learner["state"]["current.iterate"][1] = -1e308
        refuses(client, IMPORT, learner, "current.iterate must be from")
        client.service.experiments["x"].learner._core.probabilities[:] = math.nan
        assert client.ask(*DECIDE, {"id": "d"}).status == 500 and "is broken" in caplog.text
        client.restart()
        assert client.ask("GET", "/v1/experiments/x").status == 200
