"""The clients: whatever gets lost on the way, nothing is decided twice, and nothing is learned twice."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import inspect
import itertools
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

import service_app
from helpers import PATIENCE
from service_process import KEY, Server, running
from umab.client import AsyncClient, Client, Decision, FeedbackCounts, Refused, Unavailable, asynchronous, queue, wire
from umab.client import synchronous as synchronous

URL = "http://umab.test"
Handler = Callable[[httpx.Request], httpx.Response]
ONE_BY_ONE = ThreadPoolExecutor(1)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service_app.Client]:
    with service_app.Client(tmp_path_factory.mktemp("client")) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server") / "umab.db") as found:
        yield found


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Pauses of a client in the foreground take no time; those of the queue do."""
    found = Clock()
    monkeypatch.setattr(wire, "monotonic", lambda: found.now)
    monkeypatch.setattr(synchronous, "sleep", found.sleep)
    monkeypatch.setattr(asynchronous, "sleep", found.asleep)
    monkeypatch.setattr(wire, "FIRST_PAUSE", 0.001)
    return found


class Clock:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0.0
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


class Network:
    """The way to a service in this process, on which each request meets the next fault; after the last one, none."""

    def __init__(self, app: service_app.Client, faults: Sequence[str] = ()) -> None:
        self.app, self.faults, self.requests = app, list(faults), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        # In a thread of its own: one request at a time, also if an event loop runs in this one.
        return ONE_BY_ONE.submit(self._met, request).result()

    def _met(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else "none"
        return FAULTS[fault](self._answered, request)

    def _answered(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.raw_path.decode(), request.content or None
        reply = self.app.ask(request.method, path, body)
        return httpx.Response(reply.status, headers=reply.headers, content=reply.content)


def _never_came(go_on: Handler, request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused by the fault", request=request)


def _reply_lost(go_on: Handler, request: httpx.Request) -> httpx.Response:
    go_on(request)
    raise httpx.ReadTimeout("lost by the fault", request=request)


def _connection_cut(go_on: Handler, request: httpx.Request) -> httpx.Response:
    go_on(request)
    raise httpx.RemoteProtocolError("cut by the fault", request=request)


def _came_twice(go_on: Handler, request: httpx.Request) -> httpx.Response:
    go_on(request)
    return go_on(request)


def _status(status: int, **headers: str) -> Callable[[Handler, httpx.Request], httpx.Response]:
    return lambda go_on, request: httpx.Response(status, headers=headers, text="from the fault")


def _done_but_502(go_on: Handler, request: httpx.Request) -> httpx.Response:
    go_on(request)
    return httpx.Response(502, text="<html>bad gateway</html>")


FAULTS: dict[str, Callable[[Handler, httpx.Request], httpx.Response]] = {
    "none": lambda go_on, request: go_on(request),
    "never came": _never_came,
    "reply lost": _reply_lost,
    "connection cut": _connection_cut,
    "came twice": _came_twice,
    "done but 502": _done_but_502,
    "408": _status(408),
    "429": _status(429, **{"Retry-After": "0"}),
    "500": _status(500),
    "502": _status(502),
    "503": _status(503, **{"Retry-After": "0"}),
    "504": _status(504, **{"Retry-After": "soon"}),
}
HARMFUL = sorted(set(FAULTS) - {"none"})

numbers = itertools.count()


def fresh(app: service_app.Client, **settings: Any) -> str:
    """Return the name of a new experiment."""
    name = f"x{next(numbers)}"
    app.experiment(name, ("a", "b", "c"), **settings)
    return name


def log_of(app: service_app.Client, name: str) -> tuple[dict[str, str], dict[str, float]]:
    """Return the arms of all decisions in the log and the losses that were learned, each by id; all of them once."""
    events = app.ask("GET", f"/v1/experiments/{name}/events?limit=10000").json
    drawn = [
        (identity, draw[0]) for each in events if each["kind"] == "decided" for identity, draw in each["body"]["draws"]
    ]
    learned = [(each["body"]["decision"], each["body"]["value"]) for each in events if each["kind"] == "learned"]
    assert len(dict(drawn)) == len(drawn) and len(dict(learned)) == len(learned)
    return dict(drawn), dict(learned)


def connected(handler: Handler, **options: Any) -> Client:
    options = {"deadline": 1000.0, **options}
    return Client(URL, service_app.ADMIN, transport=httpx.MockTransport(handler), **options)


# Faults.

actions = st.lists(
    st.tuples(st.sampled_from(["one", "three", "none"]), st.sampled_from(["now", "background", "not"])),
    min_size=1,
    max_size=6,
)
# 500 is not among them: the queue takes it for a refusal.
faults = st.lists(st.sampled_from(sorted(set(FAULTS) - {"500"})), max_size=25)


@settings(max_examples=60, deadline=None)
@given(actions, faults)
def test_whatever_gets_lost_all_is_decided_once_and_learned_once(
    app: service_app.Client, chosen: list[tuple[str, str]], faults: list[str]
) -> None:
    name, network = fresh(app), Network(app, faults)
    told: dict[str, str] = {}
    given: dict[str, float] = {}
    open_ones: list[Decision] = []
    with connected(network) as client:
        experiment = client.experiment(name)
        for n_selected, feedback in chosen:
            if n_selected == "one":
                open_ones.append(experiment.select())
            elif n_selected == "three":
                open_ones += experiment.select(3, among=["a", "b"])
            for decision in open_ones if feedback != "not" else []:
                assert decision.id is not None and decision.probability is not None and not decision.fallback
                told[decision.id], given[decision.id] = decision.arm, len(given) + 0.5
                state = experiment.update(decision, loss=given[decision.id], background=feedback == "background")
                assert state in ((None,) if feedback == "background" else ("learned", "duplicate"))
            if feedback != "not":
                open_ones = []
        told |= {str(each.id): each.arm for each in open_ones}
        assert client.flush(PATIENCE)
        n_background = client.feedback().sent
    drawn, learned = log_of(app, name)
    assert drawn == told and learned == given
    assert client.feedback() == FeedbackCounts(0, n_background, 0, 0)


@settings(max_examples=30, deadline=None)
@given(faults)
def test_the_async_client_is_as_careful(app: service_app.Client, faults: list[str]) -> None:
    name, network = fresh(app), Network(app, faults)

    async def use() -> tuple[dict[str, str], dict[str, float]]:
        options: Any = {"deadline": 1000.0, "transport": httpx.MockTransport(network)}
        async with AsyncClient(URL, service_app.ADMIN, **options) as client:
            experiment = await client.experiment(name)
            found = [await experiment.select(), *await experiment.select(2)]
            assert await experiment.update(found[0], loss=1.0) in ("learned", "duplicate")
            await experiment.update(found[1], loss=2.0, background=True)
            assert await client.flush(PATIENCE) and client.feedback().sent == 1
            return {str(each.id): each.arm for each in found}, {str(found[0].id): 1.0, str(found[1].id): 2.0}

    assert asyncio.run(use()) == log_of(app, name)


@pytest.mark.parametrize("fault", HARMFUL)
def test_each_fault_is_survived_and_the_same_request_is_sent_again(app: service_app.Client, fault: str) -> None:
    network = Network(app, [fault, fault])
    with connected(network) as client:
        decision = client.experiment(fresh(app)).select(metadata={"page": 3})
    assert decision.arm in "abc"
    sent = {(each.method, str(each.url), each.content) for each in network.requests}
    assert len(sent) == 1 and len(network.requests) == (1 if fault == "came twice" else 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422])
def test_what_is_refused_is_not_sent_again(status: int) -> None:
    sent = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(status, json={"status": status, "detail": "a rule, but got a value"})

    with connected(refuse) as client:
        with pytest.raises(Refused) as caught:
            client.experiment("x").update("d", loss=1.0)
        assert (caught.value.status, caught.value.detail) == (status, "a rule, but got a value")
        assert str(caught.value) == f"a rule, but got a value (HTTP {status})"
        assert len(sent) == 1


def test_problems_of_the_server_state_the_rule_and_the_value(app: service_app.Client) -> None:
    with connected(Network(app)) as client:
        experiment = client.experiment(fresh(app))
        with pytest.raises(Refused, match=r"feedback must be a loss, since maximize=false \(HTTP 422\)"):
            experiment.update(experiment.select(), reward=1.0)
        with pytest.raises(Refused, match=r"a decision must exist, but there is none named 'nobody/0' \(HTTP 404\)"):
            experiment.update("nobody/0", loss=1.0)
        with pytest.raises(Refused, match="an experiment must exist") as caught:
            client.experiment("no such").select()
        assert caught.value.status == 404


def test_an_answer_that_is_no_json_names_the_url() -> None:
    with connected(lambda request: httpx.Response(200, text="<html>")) as client:
        with pytest.raises(Refused, match=r"must be JSON, but got b'<html>'; is the url right\?"):
            client.experiment("x").select()


# How long to try.


def test_pauses_grow_differ_and_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FIRST_PAUSE", 0.05)
    with connected(lambda request: httpx.Response(503), deadline=60.0) as client:
        with pytest.raises(Unavailable, match=r"within 60 s, but it did not in \d+ tries: no reason .* \(HTTP 503\)"):
            client.experiment("x").select()
    assert len(clock.slept) > 10 and sum(clock.slept) < 60.0
    for number, pause in enumerate(clock.slept):
        longest = min(5.0, 0.05 * 2**number)
        assert longest / 2 <= pause <= longest
    assert len({pause / min(5.0, 0.05 * 2**number) for number, pause in enumerate(clock.slept)}) > 5


def test_a_pause_is_as_long_as_the_server_asks_for(clock: Clock) -> None:
    in_a_minute = email.utils.format_datetime(
        datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60), usegmt=True
    )
    for asked, least, most in (("7", 7.0, 7.1), (in_a_minute, 50.0, 60.1), ("nonsense", 0.0, 0.1), ("-3", 0.0, 0.1)):
        replies = iter(
            [httpx.Response(429, headers={"Retry-After": asked}), httpx.Response(200, json={"state": "learned"})]
        )
        with connected(lambda request: next(replies)) as client:  # noqa: B023
            assert client.experiment("x").update("d", loss=1.0) == "learned"
        assert least <= clock.slept[-1] <= most, asked


def test_nobody_sleeps_for_a_server_that_comes_back_after_the_deadline(clock: Clock) -> None:
    with connected(lambda request: httpx.Response(503, headers={"Retry-After": "9"}), deadline=5.0) as client:
        with pytest.raises(Unavailable):
            client.experiment("x").select()
    assert clock.slept == []


def test_a_try_waits_as_long_as_it_may_and_no_longer_than_the_deadline(clock: Clock) -> None:
    timeouts = []

    def hang(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        clock.now += timeouts[-1]
        raise httpx.ReadTimeout("slow", request=request)

    with connected(hang, timeout=2.0, deadline=5.0) as client:
        with pytest.raises(Unavailable, match="ReadTimeout: slow"):
            client.experiment("x").select()
    assert timeouts[:2] == [2.0, 2.0] and 0.0 < timeouts[2] < 1.0
    assert Client(URL, "key")._address.limits == wire.Limits(1.0, 5.0)


# Fallback.


def test_without_a_server_the_fallback_is_returned_and_nothing_is_told_about_it(clock: Clock) -> None:
    sent = []

    def away(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        raise httpx.ConnectError("nobody there", request=request)

    with connected(away, deadline=5.0) as client:
        experiment = client.experiment("x", fallback="b")
        decision = experiment.select()
        assert decision == Decision("b", None, None, True)
        assert sum(clock.slept) <= 5.0 and experiment.select(2) == [decision, decision]
        del sent[:]
        assert experiment.update(decision, loss=3.0) is None
        assert experiment.update(decision.id, loss=3.0) is None
        assert experiment.update(decision, loss=3.0, background=True) is None
        experiment.activate(decision)
        assert sent == [] and client.feedback() == FeedbackCounts(0, 0, 0, 0)
        with pytest.raises(Unavailable, match=r"the fallback must be among \['a', 'c'\], but it is 'b'"):
            experiment.select(among=["a", "c"])
        with pytest.raises(Unavailable, match="nobody there"):
            client.experiment("x").select()


def test_the_fallback_is_for_a_server_that_fails_and_not_for_one_that_refuses() -> None:
    with connected(lambda request: httpx.Response(500, json={"detail": "a bug"})) as client:
        assert client.experiment("x", fallback="b").select().fallback
        with pytest.raises(Unavailable, match=r"a bug \(HTTP 500\)"):
            client.experiment("x").select()
    with connected(lambda request: httpx.Response(404, json={"detail": "none"})) as client:
        with pytest.raises(Refused):
            client.experiment("x", fallback="b").select()


# Both kinds.

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("select", (), {"id": "d1"}),
    ("select", (), {"id": "d2", "among": ["a", "b"], "defer": True, "metadata": {"page": 3}}),
    ("select", (2,), {"id": "d3"}),
    ("update", ("d/1",), {"loss": 1.0}),
    ("update", ("d2",), {"reward": 2.0, "key": "part", "at": "2026-01-31T12:00:00Z"}),
    ("update", ("d3",), {"loss": 3.0, "background": True}),
    ("update", (None,), {"loss": 4.0}),
    ("activate", ("d2",), {}),
    ("report", (), {}),
]


@pytest.mark.parametrize("fails", [False, True])
def test_both_kinds_ask_for_the_same_and_return_the_same(fails: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.add((request.method, request.url.raw_path, request.content))
        if fails and request.url.path != "/v1/batch":
            return httpx.Response(503)
        drawn = {"arm": "b", "probability": 0.25, "id": "i"}
        results = [{"status": 200, "body": {}}]
        return httpx.Response(200, json={**drawn, "decisions": [drawn] * 2, "state": "learned", "results": results})

    async def use(kind: type[Client | AsyncClient]) -> list[Any]:
        async def waited(found: Any) -> Any:
            return await found if inspect.isawaitable(found) else found

        client, found = kind(URL, "key", transport=httpx.MockTransport(answer)), []
        experiment = await waited(client.experiment("x", fallback="a", create=None if fails else {"arms": ["a"]}))
        for name, args, options in CALLS:
            try:
                found.append(await waited(getattr(experiment, name)(*args, **options)))
            except Unavailable as error:
                found.append(type(error))
        await waited((client.close if isinstance(client, Client) else client.aclose)())
        return found

    both = []
    for kind in (Client, AsyncClient):
        asked = set[tuple[str, bytes, bytes]]()
        both.append((asyncio.run(use(kind)), asked))
    (found, asked), others = both
    assert (found, asked) == others and len(asked) == (8 if fails else 9)
    assert found[5:7] == [None, None] and (found[2] == [Decision("a", None, None, True)] * 2) is fails


# Arguments.


def test_wrong_arguments_are_refused_with_the_rule_and_the_value() -> None:
    with pytest.raises(ValueError, match=r"url must start with http:// or https://, but got url='localhost:80'"):
        Client("localhost:80", "key")
    for key in ("", "two\nlines", "ключ", "with space"):
        with pytest.raises(ValueError, match="key must be the text of a key") as caught:
            Client(URL, key)
        assert not key or key not in str(caught.value)
    with pytest.raises(ValueError, match=r"timeout must be a number of seconds above 0, but got timeout=0"):
        Client(URL, "key", timeout=0)
    with pytest.raises(ValueError, match=r"queue must be a whole number of at least 1, but got queue=0"):
        Client(URL, "key", queue=0)
    with connected(lambda request: pytest.fail("sent")) as client:
        experiment = client.experiment("x")
        for both in ({}, {"loss": 1.0, "reward": 1.0}):
            with pytest.raises(TypeError, match="feedback must be one of loss and reward"):
                experiment.update("d", **both)  # type: ignore[arg-type]
        for wrong in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=f"loss must be finite, but got loss={wrong}"):
                experiment.update("d", loss=wrong, background=True)
        with pytest.raises(TypeError, match=r"a decision must be one that select has returned, or its id, but got 7"):
            experiment.update(7, loss=1.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"among must be several arms, such as \['a'\], but got among='a'"):
            experiment.select(among="a")


UNSENDABLE: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"at": datetime.datetime(2026, 1, 31)}, ValueError, r"at must have a time zone, .*datetime\(2026.*astimezone"),
    ({"at": datetime.date(2026, 1, 31)}, TypeError, r"at must be a datetime with a time zone, .*date\(2026"),
    ({"at": "\ud800"}, ValueError, r"must be text without lone surrogates, but got .*\\ud800.*errors='replace'"),
    ({"key": "order \udcff"}, ValueError, r"must be text without lone surrogates, but got .*order \\udcff"),
    ({"key": 7}, TypeError, r"key must be text, but got key=7; str\(key\)"),
    ({"loss": 10**400}, ValueError, r"loss must be finite, but got loss=1000"),
]
"""Feedback that cannot be sent, the error, and what it says."""


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize(("feedback", "error", "message"), UNSENDABLE)
def test_feedback_that_cannot_be_sent_is_refused_at_the_call(
    feedback: dict[str, Any], error: type[Exception], message: str, background: bool
) -> None:
    given = {"loss": 1.0, **feedback}

    def never(request: httpx.Request) -> httpx.Response:
        pytest.fail("sent")

    async def use() -> None:
        async with AsyncClient(URL, "key", transport=httpx.MockTransport(never)) as client:
            with pytest.raises(error, match=message):
                await (await client.experiment("x")).update("d", background=background, **given)
            assert client.feedback() == FeedbackCounts(0, 0, 0, 0)

    with connected(never) as client:
        with pytest.raises(error, match=message):
            client.experiment("x").update("d", background=background, **given)
        with pytest.raises(ValueError, match="must be text without lone surrogates"):
            client.experiment("x").update("d\ud800", loss=1.0, background=background)
        with pytest.raises(ValueError, match="must be text without lone surrogates"):
            client.experiment("x\ud800").update("d", loss=1.0, background=background)
        assert client.feedback() == FeedbackCounts(0, 0, 0, 0) and client._queue._thread is None
    asyncio.run(use())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"metadata": {"at": datetime.datetime(2026, 1, 31)}}, TypeError, r"made of text.*datetime\(2026.*isoformat"),
        ({"metadata": {"page": "\ud800"}}, ValueError, "without lone surrogates"),
        ({"metadata": {"price": float("nan")}}, ValueError, "finite numbers only"),
        ({"metadata": {7j: 1}}, TypeError, "keys must be"),
        ({"id": "\ud800"}, ValueError, "without lone surrogates"),
        ({"id": b"order"}, TypeError, "made of text.*b'order' of type bytes"),
        ({"among": ["a", "\ud800"]}, ValueError, "without lone surrogates"),
        ({"among": [object]}, TypeError, "made of text.*class 'object'"),
    ],
)
def test_a_choice_that_cannot_be_sent_is_refused_at_the_call(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Also with a fallback, which is for a server that is away and not for a mistake."""

    def never(request: httpx.Request) -> httpx.Response:
        pytest.fail("sent")

    async def use() -> None:
        async with AsyncClient(URL, "key", transport=httpx.MockTransport(never)) as client:
            with pytest.raises(error, match=message):
                await (await client.experiment("x", fallback="a")).select(**arguments)

    with connected(never) as client:
        with pytest.raises(error, match=message):
            client.experiment("x", fallback="a").select(**arguments)
        with pytest.raises(TypeError, match=r"made of text.*timedelta"):
            client.experiment("x", create={"arms": ["a", "b"], "wait": datetime.timedelta(1)})
        with pytest.raises(ValueError, match="without lone surrogates"):
            client.experiment("\ud800").activate("d")
        with pytest.raises(TypeError, match="a name must be text, but got 7"):
            client.experiment(7).report()  # type: ignore[arg-type]
    asyncio.run(use())


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.text(st.characters(codec="utf-8"))
    | st.binary(max_size=3)
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(anything)
def test_what_is_sent_says_what_was_given_or_the_caller_hears_why_not(value: Any) -> None:
    try:
        content = wire.encoded(value)
    except (ValueError, TypeError) as error:
        assert str(error).startswith("what is sent must ") and "but got" in str(error)
        with pytest.raises((ValueError, TypeError)):
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    else:
        assert json.loads(content) == value


def test_times_are_sent_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=1, seconds=30))  # as cities had before there were time zones
    at = datetime.datetime(2026, 1, 31, 12, 0, 0, 250, zone)
    expected = {"loss": 1.0, "at": "2026-01-31T10:59:30.000250+00:00"}
    assert wire.feedback_of(1.0, None, None, at) == expected
    assert wire.feedback_of(1.0, None, None, "2026-01-31T12:00:00Z")["at"] == "2026-01-31T12:00:00Z"
    import pandas

    assert wire.feedback_of(1.0, None, None, pandas.Timestamp(at)) == expected


def test_the_key_is_shown_nowhere(app: service_app.Client) -> None:
    client = connected(Network(app))
    with client:
        assert service_app.ADMIN not in repr(client) + repr(client._address) + repr(vars(client))


# Feedback in the background.


def batches(network: list[httpx.Request]) -> list[list[str]]:
    return [[each["decision"] for each in json.loads(request.content)["operations"]] for request in network]


class Held:
    """A server that answers batches when it is let, with a status for each decision; 200 unless said otherwise."""

    def __init__(self, statuses: dict[str, int] | None = None) -> None:
        self.statuses, self.requests, self.open = statuses or {}, list[httpx.Request](), threading.Event()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        assert self.open.wait(PATIENCE)
        ids = batches([request])[0]
        results = [{"status": self.statuses.get(each, 200), "body": {"detail": f"no {each}"}} for each in ids]
        return httpx.Response(200, json={"results": results})


def test_a_full_queue_drops_the_oldest_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    held = Held()
    with connected(held, queue=3) as client:
        experiment = client.experiment("x")
        experiment.update("first", loss=0.0, background=True)
        while not held.requests:
            time.sleep(0.001)
        for number in range(8):
            experiment.update(f"d{number}", loss=0.0, background=True)
        assert client.feedback() == FeedbackCounts(4, 0, 0, 5)
        assert not client.flush(0.01)
        held.open.set()
        assert client.flush(PATIENCE)
        assert client.feedback() == FeedbackCounts(0, 4, 0, 5)
    assert batches(held.requests) == [["first"], ["d5", "d6", "d7"]]
    assert [each.message for each in caplog.records if each.levelno == logging.WARNING] == [
        "the oldest feedback was dropped: the queue must hold at most 3, and is full; this is said once, and counted"
    ]


def test_feedback_that_is_refused_for_good_is_counted_and_the_rest_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    held = Held({"d1": 404, "d3": 409, "d4": 503})
    held.open.set()
    with connected(held) as client:
        experiment = client.experiment("x")
        for number in range(6):
            experiment.update(f"d{number}", loss=0.0, background=True)
        end = time.monotonic() + PATIENCE
        while client.feedback()[:3] != (1, 3, 2) and time.monotonic() < end:
            time.sleep(0.001)
        held.statuses.clear()
        assert client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 4, 2, 0)
    sent = [each for batch in batches(held.requests) for each in batch]
    assert sent.count("d1") == sent.count("d3") == 1 and sent.count("d4") > 1 and sent.count("d0") == 1
    refused = [each.message for each in caplog.records if "refused" in each.message]
    assert refused == ["feedback was refused: no d1 (HTTP 404); this is said once, and counted"]


@pytest.mark.parametrize(("status", "is_found"), [(422, True), (400, True), (413, True), (500, True), (401, False)])
def test_one_wrong_feedback_takes_no_others_with_it(status: int, is_found: bool) -> None:
    sent: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        (ids,) = batches([request])
        if "d5" in ids:
            return httpx.Response(status, json={"detail": "all of it"})
        return httpx.Response(200, json={"results": [{"status": 200, "body": {}}] * len(ids)})

    with connected(refuse) as client:
        with client._queue._changed:  # so that all are in one batch
            for number in range(20):
                client.experiment("x").update(f"d{number}", loss=0.0, background=True)
        assert client.flush(PATIENCE)
        assert client.feedback() == (FeedbackCounts(0, 19, 1, 0) if is_found else FeedbackCounts(0, 0, 20, 0))
        assert len(sent) < 16 if is_found else len(sent) == 1


def test_the_real_server_refuses_a_whole_batch_for_one_wrong_name(app: service_app.Client) -> None:
    name, network = fresh(app), Network(app)
    with connected(network) as client:
        decisions = client.experiment(name).select(5)
        with client._queue._changed:
            for decision in decisions:
                client.experiment(name).update(decision, loss=1.0, background=True)
            client.experiment("no/name").update("d", loss=1.0, background=True)
        assert client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 5, 1, 0)
    assert len(log_of(app, name)[1]) == 5


def test_a_batch_is_bounded() -> None:
    held = Held()
    held.open.set()
    with connected(held) as client:
        with client._queue._changed:
            for number in range(queue.BATCH * 2 + 1):
                client.experiment("x").update(f"d{number}", loss=0.0, background=True)
        assert client.flush(PATIENCE)
    assert [len(each) for each in batches(held.requests)] == [queue.BATCH, queue.BATCH, 1]


def test_closing_gives_up_in_time_and_counts_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    client = connected(lambda request: httpx.Response(503, headers={"Retry-After": "1000"}))
    for number in range(3):
        client.experiment("x").update(f"d{number}", loss=0.0, background=True)
    started = time.monotonic()
    client.close(0.2)
    assert time.monotonic() - started < 500.0  # and not the 1000 s that the server asks for
    assert client.feedback() == FeedbackCounts(0, 0, 0, 3)
    assert "3 feedbacks were dropped: the server did not take them within 0.2 s" in caplog.text
    with pytest.raises(RuntimeError, match="a client must be open to send feedback, but this one is closed"):
        client.experiment("x").update("d", loss=0.0, background=True)
    client.close()


def test_feedback_goes_out_in_its_order_also_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "BATCH", 1)
    sent: list[httpx.Request] = []

    def fail_first(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        answer = httpx.Response(200, json={"results": [{"status": 200, "body": {}}]})
        return httpx.Response(503) if len(sent) == 1 else answer

    with connected(fail_first) as client:
        with client._queue._changed:
            for number in range(3):
                client.experiment("x").update(f"d{number}", loss=0.0, background=True)
        assert client.flush(PATIENCE)
    assert batches(sent) == [["d0"], ["d0"], ["d1"], ["d2"]]


def test_an_answer_that_comes_after_closing_is_not_counted_again() -> None:
    held = Held()
    client = connected(held)
    client.experiment("x").update("d", loss=0.0, background=True)
    while not held.requests:
        time.sleep(0.001)
    client.close(0.05)
    assert client.feedback() == FeedbackCounts(0, 0, 0, 1)
    held.open.set()
    assert client._queue._thread is not None
    client._queue._thread.join(PATIENCE)
    assert client.feedback() == FeedbackCounts(0, 0, 0, 1)


def test_flushing_does_not_wait_for_a_long_pause() -> None:
    replies = iter([httpx.Response(503, headers={"Retry-After": "1000"})])
    answer = httpx.Response(200, json={"results": [{"status": 200, "body": {}}]})
    with connected(lambda request: next(replies, answer)) as client:
        client.experiment("x").update("d", loss=0.0, background=True)
        assert client.flush(PATIENCE) and client.feedback().sent == 1


def test_an_answer_to_a_batch_from_somebody_else_counts_for_nothing() -> None:
    strange = iter(
        [
            httpx.Response(200, text="<html>welcome to this network</html>"),
            httpx.Response(200, json={"results": []}),
            httpx.Response(200, json=[]),
        ]
    )
    answer = httpx.Response(200, json={"results": [{"status": 200, "body": {}}]})
    with connected(lambda request: next(strange, answer)) as client:
        client.experiment("x").update("d", loss=0.0, background=True)
        assert client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 1, 0, 0)


def test_the_thread_survives_what_nobody_expects_and_counts_it(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        if "bad" in batches([request])[0]:
            raise ArithmeticError("on purpose")
        return httpx.Response(200, json={"results": [{"status": 200, "body": {}}] * len(batches([request])[0])})

    with connected(fail) as client:
        for name in ("bad", "good", "bad", "good"):
            client.experiment("x").update(name, loss=0.0, background=True)
            assert client.flush(PATIENCE)
        assert client.feedback() == FeedbackCounts(0, 2, 0, 2)
    (record,) = [each for each in caplog.records if "dropped" in each.message]
    assert record.message == (
        "1 feedbacks were dropped, and the others are sent: ArithmeticError('on purpose'); "
        "this is said once, and counted"
    )
    assert record.exc_info is not None


def test_a_thread_that_cannot_connect_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held, failures = Held(), [OSError("on purpose"), MemoryError("on purpose")]
    held.open.set()
    with connected(held) as client:
        connect = client._queue._connect

        def fail_first() -> httpx.Client:
            if failures:
                raise failures.pop()
            return connect()

        monkeypatch.setattr(client._queue, "_connect", fail_first)
        client.experiment("x").update("d", loss=0.0, background=True)
        assert client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 1, 0, 0) and not failures


@pytest.mark.parametrize("status", ["200", None, [200], True, float("inf")])
def test_a_strange_status_takes_no_feedback_with_it(status: Any) -> None:
    """The thread goes on, and all that was given is waiting, sent, refused or dropped."""
    content = json.dumps({"results": [{"status": status, "body": {}}]})
    strange = iter([httpx.Response(200, content=content)])
    answer = httpx.Response(200, json={"results": [{"status": 200, "body": {}}]})
    with connected(lambda request: next(strange, answer)) as client:
        client.experiment("x").update("d", loss=0.0, background=True)
        assert client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 1, 0, 0)


# A real server.


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def learned_of(server: Server, name: str) -> dict[str, float]:
    content = server.ask("GET", f"/v1/experiments/{name}/events?limit=10000")[1]
    events = [json.loads(line) for line in content.splitlines()]
    drawn = [identity for each in events if each["kind"] == "decided" for identity, _ in each["body"]["draws"]]
    assert len(set(drawn)) == len(drawn)
    found = [(each["body"]["decision"], each["body"]["value"]) for each in events if each["kind"] == "learned"]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_a_client_has_the_feel_of_a_learner(server: Server) -> None:
    with Client(url_of(server), KEY) as client:
        experiment = client.experiment("shop", create={"arms": ["a", "b"], "seed": 1, "wait": "PT1H", "forget": True})
        again = {"arms": ["b", "a"], "seed": 1, "wait": "PT1H", "forget": True}
        assert client.experiment("shop", create=again).name == "shop"
        with pytest.raises(Refused, match="must not exist with other settings"):
            client.experiment("shop", create={"arms": ["a", "c"]})
        first = experiment.select(among=["b"], metadata={"page": 1})
        assert first.arm == "b" and first.probability == 1.0 and not first.fallback
        assert experiment.update(first, loss=2.0) == "learned"
        assert experiment.update(first.id, loss=2.0) == "duplicate"
        named = experiment.select(id="order-7")
        assert named.id == "order-7" and experiment.select(id="order-7") == named
        later = experiment.select(defer=True)
        experiment.activate(later)
        assert experiment.update(later, loss=1.0, at="2026-01-31T12:00:00Z") == "learned"
        several = experiment.select(3)
        for decision in several:
            experiment.update(decision, loss=1.5, background=True)
        assert client.flush() and client.feedback() == FeedbackCounts(0, 3, 0, 0)
        report = experiment.report()
        assert sum(each["updates"] for each in report["arms"]) == 5 and report["experiment"]["open"] == 1


def test_the_async_client_does_the_same(server: Server) -> None:
    async def use() -> None:
        async with AsyncClient(url_of(server), KEY) as client:
            create = {"arms": ["a", "b"], "maximize": True, "aggregation": "sum", "wait": "PT1H"}
            experiment = await client.experiment("async", create={**create, "default_reward": 0})
            several = await asyncio.gather(*(experiment.select() for _ in range(20)))
            assert len({each.id for each in several}) == 20
            assert await experiment.update(several[0], reward=2.0, key="k") == "accepted"
            later = await experiment.select(1, defer=True)
            await experiment.activate(later[0])
            await experiment.update(several[1], reward=2.0, key="k", background=True)
            assert await client.flush() and client.feedback().sent == 1
            assert (await experiment.report())["experiment"]["open"] == 21

    asyncio.run(use())


SIZES = (100, 100, 100, 100, 100, 1)


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_feedback_that_cannot_be_sent_loses_no_other(server: Server, kind: str) -> None:
    """The program may go on after the error; all other feedback is learned, and the counts are right."""
    at = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    wrong: list[dict[str, Any]] = [{"at": at.replace(tzinfo=None)}, {"key": "\ud800"}]
    create = {"arms": ["a", "b"], "wait": "PT1H", "forget": True}

    async def use() -> dict[str, float]:
        async with AsyncClient(url_of(server), KEY) as client:
            experiment = await client.experiment(f"unsendable-{kind}", create=create)
            decisions = [each for n in SIZES for each in await experiment.select(n)]
            for number, decision in enumerate(decisions):
                if number in (4, 300):
                    with pytest.raises(ValueError, match=r"time zone|surrogates"):
                        await experiment.update(decision, loss=7.0, background=True, **wrong[number == 300])
                await experiment.update(decision, loss=1.0, at=at, background=True)
            assert await client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 501, 0, 0)
            return {str(each.id): 1.0 for each in decisions}

    def use_threads() -> dict[str, float]:
        with Client(url_of(server), KEY) as client:
            experiment = client.experiment(f"unsendable-{kind}", create=create)
            decisions = [each for n in SIZES for each in experiment.select(n)]
            for number, decision in enumerate(decisions):
                if number in (4, 300):
                    with pytest.raises(ValueError, match=r"time zone|surrogates"):
                        experiment.update(decision, loss=7.0, background=True, **wrong[number == 300])
                experiment.update(decision, loss=1.0, at=at, background=True)
            assert client.flush(PATIENCE) and client.feedback() == FeedbackCounts(0, 501, 0, 0)
            return {str(each.id): 1.0 for each in decisions}

    given = use_threads() if kind == "threads" else asyncio.run(use())
    assert learned_of(server, f"unsendable-{kind}") == given
    content = server.ask("GET", f"/v1/experiments/unsendable-{kind}/events?limit=10000")[1]
    bodies = [each["body"] for each in map(json.loads, content.splitlines()) if each["kind"] == "learned"]
    assert {each["at"] for each in bodies} == {"2026-01-31T11:00:00+00:00"}


def test_a_server_that_is_killed_in_the_middle_decides_and_learns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # in real time
    told: dict[str, float] = {}
    wrong: list[Exception] = []
    with running(tmp_path / "umab.db") as server:
        going = threading.Event()
        with Client(url_of(server), KEY, deadline=120.0) as client:
            experiment = client.experiment("x", create={"arms": ["a", "b"]})

            def use(number: int) -> None:
                try:
                    for count in itertools.count():
                        decision, loss = experiment.select(), float(count)
                        told[str(decision.id)] = loss
                        experiment.update(decision, loss=loss, background=bool(number))
                        if going.is_set():
                            return
                except Exception as error:
                    wrong.append(error)

            threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            for _ in range(2):
                before = len(told)
                while len(told) < before + 20 and not wrong:
                    time.sleep(0.005)
                server.kill()
                server.start()
            going.set()
            for thread in threads:
                thread.join()
            assert not wrong and client.flush(PATIENCE)
            assert client.feedback().refused == client.feedback().dropped == 0
        assert learned_of(server, "x") == told


def script(server: Server, text: str) -> str:
    """Run a program with a client of the server; return what it prints."""
    prelude = f"import asyncio, os, sys\nfrom umab.client import *\nurl, key = {url_of(server)!r}, {KEY!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr or "on purpose" in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise Exception('on purpose')"])
def test_feedback_is_sent_when_the_program_ends(server: Server, ending: str) -> None:
    name = f"exit{len(ending)}"
    program = f"""
        client = Client(url, key)
        experiment = client.experiment({name!r}, create={{"arms": ["a", "b"]}})
        for decision in experiment.select(100):
            experiment.update(decision, loss=1.0, background=True)
        {ending}
    """
    script(server, program)
    assert len(learned_of(server, name)) == 100


def test_feedback_of_an_async_client_is_sent_when_the_program_ends(server: Server) -> None:
    program = """
        async def use():
            client = AsyncClient(url, key)
            experiment = await client.experiment("async-exit", create={"arms": ["a", "b"]})
            for decision in await experiment.select(100):
                await experiment.update(decision, loss=1.0, background=True)
        asyncio.run(use())
    """
    script(server, program)
    assert len(learned_of(server, "async-exit")) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork_both_processes_decide_and_learn_for_themselves(server: Server) -> None:
    program = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        client = Client(url, key)
        experiment = client.experiment("fork", create={"arms": ["a", "b"]})
        for decision in experiment.select(50):
            experiment.update(decision, loss=1.0, background=True)
        child = os.fork()
        for decision in experiment.select(50):
            experiment.update(decision, loss=2.0, background=True)
        client.flush()
        counts = client.feedback()
        if not child:
            print("child", *counts, flush=True)
            sys.exit()
        os.waitpid(child, 0)
        print("parent", *counts, flush=True)
    """
    assert sorted(script(server, program).splitlines()) == ["child 0 50 0 0", "parent 0 100 0 0"]
    assert sorted(learned_of(server, "fork").values()) == [1.0] * 50 + [2.0] * 100


def test_without_httpx_the_error_names_the_extra_and_umab_works() -> None:
    program = """
        import sys
        import umab
        assert not [name for name in sys.modules if name.startswith(("httpx", "umab.client"))]
        sys.modules["httpx"] = None
        try:
            import umab.client
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("umab.client needs httpx; run pip install 'umab[client]'")
