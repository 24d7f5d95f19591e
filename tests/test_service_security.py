"""Nobody in without a key: every route, with no key, a wrong one, too low a role, and a foreign prefix."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import itertools
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from helpers import PATIENCE
from service_app import ADMIN, Client, Reply, identity_of
from service_process import KEY, running
from umab.cli import main
from umab_service import decisions, throttle
from umab_service.keys import ROLES, Key
from umab_service.ofrep import EvaluationRequest
from umab_service.problems import HEADERS
from umab_service.routes import ROUTES
from umab_service.routing import Route
from umab_service.schema import (
    Batch,
    ChangedExperiment,
    Feedback,
    NewDecision,
    NewExperiment,
    NewKey,
    Target,
)
from umab_service.throttle import Throttle


async def _nothing(call: Any) -> Any:
    raise AssertionError("only its path and its role are looked at")


Command = Callable[..., tuple[int, str, str]]

ALL = [*ROUTES, Route("GET", "/metrics", "read", "Metrics.", _nothing)]
"""All routes that need a key. A route that is added is tested too, once `BODIES` has a body that it takes."""

BODIES: dict[Any, Any] = {
    NewDecision: {"id": "new"},
    Feedback: {"loss": 1.0},
    NewExperiment: {"name": "shop-new", "arms": ["a", "b"]},
    ChangedExperiment: {"wait": "PT5S", "forget": True},
    Batch: {"operations": [{"experiment": "shop-x", "decide": {"id": "new"}}]},
    Target: {"arm": "a"},
    NewKey: {"role": "read", "prefix": "shop-", "note": "new"},
    EvaluationRequest: {"context": {"targetingKey": "visitor"}},
}
PLACES = {"name": "shop-x", "decision": "d1", "arm": "c", "key": "victim00"}

_addresses = (f"10.{a}.{b}.{c}" for a, b, c in itertools.product(range(256), repeat=3))
"""A new address for each request, so that wrong keys are not slowed down."""


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


every_route = pytest.mark.parametrize("route", ALL, ids=name_of)


def furnished(folder: Path) -> Client:
    """Return a client whose service has something for every route to show or to change."""
    client = Client(folder)
    client.experiment("shop-x", ["a", "b", "c"])
    for identity in ("d0", "d2"):  # an evaluation needs two rounds
        client.decide(identity, "shop-x", among=["a"])
        assert client.ask("PUT", f"/v1/experiments/shop-x/decisions/{identity}/feedback", {"loss": 2.0}).status == 200
    client.decide("d1", "shop-x", defer=True, metadata={"who": "somebody"})
    client.key("read", "shop-", text="umab_victim00_" + "v" * 40)
    client.now += 1.0
    return client


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service that no test of this module may change."""
    with furnished(tmp_path_factory.mktemp("guarded")) as client:
        before = client.state()
        yield client
        after = client.state()
        assert {**before, "keys": [], "known keys": []} == {**after, "keys": [], "known keys": []}


def sample(client: Client, route: Route, *, key: str | None, headers: dict[str, str] | None = None) -> Reply:
    """Return the answer to a request that does what the route is for, if the key lets it in."""
    path = route.path.replace(":path", "")
    for place, value in PLACES.items():
        path = path.replace("{" + place + "}", value)
    if (route.method, place_of(route)) == ("PUT", "arm"):
        path = path.removesuffix("/c") + "/new"
    body = None
    if route.raw:
        body = client.service.experiments["shop-x"].learner.to_json().encode()
    elif route.takes is not None:
        body = BODIES[route.takes]
    return client.ask(route.method, path, body, key=key, headers=headers, client=next(_addresses))


def place_of(route: Route) -> str:
    """Return the last variable part of a path, or nothing."""
    return route.path.rpartition("{")[2].partition("}")[0].partition(":")[0]


def refused_at(reply: Reply, status: int) -> None:
    """Check that a request was refused as RFC 9457 wants it, with a reason."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == status and reply.json["title"] and " must " in reply.json["detail"]


# Every route.


@every_route
def test_the_right_key_is_let_in(tmp_path: Path, route: Route) -> None:
    """Else the tests below would say nothing: the samples are requests that work."""
    with furnished(tmp_path) as client:
        # Metrics are about all experiments, so that no prefix covers them.
        key = client.key(route.role, "" if route.path == "/metrics" else "shop-")
        before = client.state()
        reply = sample(client, route, key=key)
        assert reply.status in (200, 201), reply
        assert all(each["status"] == 201 for each in reply.json.get("results", [])) if route.takes is Batch else True
        reads = route.method == "GET" or route.takes is Target
        assert (client.state() == before) is reads


@every_route
def test_each_route_asks_for_the_lowest_role_that_should_do(route: Route) -> None:
    """Who reads changes nothing; who decides makes decisions and tells what came of them; the rest is for admins."""
    deciding = {
        "POST /v1/experiments/{name}/decisions",
        "POST /v1/experiments/{name}/decisions/{decision:path}/activate",
        "PUT /v1/experiments/{name}/decisions/{decision:path}/feedback",
        "POST /v1/batch",
        "POST /ofrep/v1/evaluate/flags/{name}",
        "POST /ofrep/v1/evaluate/flags",
    }
    reading = route.method == "GET" or route.takes is Target
    telling_too_much = route.path.startswith("/v1/keys") or route.path.endswith("/export")  # it holds what comes next
    expected = "decide" if name_of(route) in deciding else "read" if reading and not telling_too_much else "admin"
    assert route.role == expected


@every_route
def test_without_a_valid_key_nothing_is_answered_and_nothing_changes(guarded: Client, route: Route) -> None:
    revoked = guarded.key("admin")
    guarded.revoke(revoked)
    other = guarded.key("admin")
    identity, secret = identity_of(other), other.partition("_")[2].partition("_")[2]
    wrong = [
        None,
        "",
        "x",
        "umab_",
        secret,
        identity,
        f"umab_{identity}_",
        f"umab__{secret}",
        f"umab_{identity}_{secret[:-1]}",
        f"umab_{identity}_{secret}a",
        f"umab_{identity}_{secret[:-1]}{'a' if secret[-1] != 'a' else 'b'}",  # only the last character differs
        f"umab_{identity}_{secret.swapcase()}",
        f"umab_nobody00_{secret}",
        f"umab_{identity}_{hashlib.sha256(secret.encode()).hexdigest()}",
        f"{other} {other}",
        f"{other},",
        f"Bearer {other}",
        "umab_" + "a" * 100_000,
        "ümäb_\xff\x00",
        revoked,
    ]
    before = guarded.state()
    for text in wrong:
        for reply in (
            sample(guarded, route, key=text),
            sample(guarded, route, key=None, headers={} if text is None else {"X-API-Key": text}),
        ):
            refused_at(reply, 401)
            assert reply.headers["www-authenticate"] == "Bearer"
    for headers in (
        {"Authorization": f"Basic {other}"},
        {"Authorization": other},
        {"Authorization": f"Bearer{other}"},
        {"Cookie": f"key={other}"},
        {"X-Api-Token": other},
    ):
        refused_at(sample(guarded, route, key=None, headers=headers), 401)
    assert guarded.state() == before
    assert other in guarded


@every_route
@pytest.mark.parametrize("header", ["Authorization", "X-API-Key"])
def test_a_lower_role_is_refused_and_changes_nothing(guarded: Client, route: Route, header: str) -> None:
    lower = [role for role in ROLES if ROLES.index(role) < ROLES.index(route.role)]
    keys = [guarded.key(role) for role in lower]
    before = guarded.state()
    for key in keys:
        text = f"Bearer {key}" if header == "Authorization" else key
        reply = sample(guarded, route, key=None, headers={header: text})
        refused_at(reply, 403)
        assert repr(route.role) in reply.json["detail"]
    assert guarded.state() == before


@every_route
@pytest.mark.parametrize("prefix", ["other-", "shop-x2", "Shop-", "hop-", "shop-x "])
def test_a_foreign_prefix_sees_and_changes_nothing(guarded: Client, route: Route, prefix: str) -> None:
    key = guarded.key(route.role, prefix)
    before = guarded.state()
    reply = sample(guarded, route, key=key)
    if "{name}" in route.path:
        refused_at(reply, 403)
    elif reply.status == 200:  # a list, or a batch whose operations are refused one by one
        for each in reply.json.get("results", []):
            assert each["status"] == 403 and "must begin with" in each["body"]["detail"]
        shown = {list_name: items for list_name, items in reply.json.items() if list_name != "results"}
        names = [item.get("name", item.get("prefix")) for items in shown.values() for item in items or ()]
        assert all(name.startswith(prefix) for name in names)
    else:
        refused_at(reply, 404 if route.path == "/v1/keys/{key}" else 403)
    assert guarded.state() == before


def test_a_batch_does_what_the_key_covers_and_refuses_the_rest(tmp_path: Path) -> None:
    with furnished(tmp_path) as client:
        client.experiment("other-y")
        operations = [
            {"experiment": "shop-x", "decide": {"id": "mine"}},
            {"experiment": "other-y", "decide": {"id": "mine"}},
            {"experiment": "nowhere", "decide": {"id": "mine"}},
            {"experiment": "other-y", "decision": "d1", "feedback": {"loss": 1.0}},
            {"experiment": "other-y"},
            {"experiment": "shop-x", "decision": "mine", "feedback": {"loss": 1.0}},
        ]
        foreign = client.service.experiments["other-y"].learner.to_json()
        reply = client.ask("POST", "/v1/batch", {"operations": operations}, key=client.key("decide", "shop-"))
        assert [each["status"] for each in reply.json["results"]] == [201, 403, 403, 403, 403, 200]
        assert client.service.experiments["other-y"].learner.to_json() == foreign
        assert {row[1] for row in client.dump()["decisions"]} == {"d0", "d1", "d2", "mine"}


@pytest.mark.parametrize(
    "path", ["other-/../shop-x", "other-%2F..%2Fshop-x", "other-/%2e%2e/shop-x", "./shop-x", "/shop-x"]
)
@pytest.mark.parametrize("end", ["", "/decisions", "/report", "/export"])
def test_no_path_leads_around_a_prefix(guarded: Client, path: str, end: str) -> None:
    key = guarded.key("admin", "other-")
    before = guarded.state()
    for method in ("GET", "POST", "PATCH"):
        assert guarded.ask(method, f"/v1/experiments/{path}{end}", {}, key=key).status in (403, 404, 405)
    assert guarded.state() == before


@pytest.mark.parametrize("query", ["key", "api_key", "apikey", "access_token", "token", "Authorization", "X-API-Key"])
def test_a_key_in_the_address_is_not_accepted(guarded: Client, query: str) -> None:
    for value in (ADMIN, f"Bearer%20{ADMIN}"):
        path = f"/v1/experiments?{query}={value}"
        refused_at(guarded.ask("GET", path, key=None, client=next(_addresses)), 401)


def test_a_stranger_learns_nothing_about_what_is_there(guarded: Client) -> None:
    """Paths, methods and bodies that are wrong are answered as those that are right."""
    answers = {
        (reply.status, reply.json["detail"])
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
        for path in (
            "/v1",
            "/v1/experiments/shop-x",
            "/v1/experiments/none",
            "/v1/nowhere",
            "/docs",
            "/v1/keys/victim00",
        )
        for body in (None, b"{", b"x" * (2 << 20))
        if (reply := guarded.ask(method, path, body, key=None, client=next(_addresses)))
    }
    assert len(answers) == 1 and answers.pop()[0] == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_what_is_open_is_open_only_to_be_read(guarded: Client, path: str) -> None:
    assert guarded.ask("GET", path, key=None).status == 200
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        refused_at(guarded.ask(method, path, key=None, client=next(_addresses)), 401)


def test_a_wrong_method_is_told_the_right_ones(guarded: Client) -> None:
    reply = guarded.ask("DELETE", "/v1/experiments")
    refused_at(reply, 405)
    assert reply.headers["allow"] == "GET, POST"


# Keys.


def test_a_key_makes_shows_and_revokes_keys_only_within_its_prefix(tmp_path: Path) -> None:
    with furnished(tmp_path) as client:
        limited = client.key("admin", "shop-")
        foreign = client.key("read", "other-")
        for prefix in ("", "s", "shop", "other-", " shop-", "Shop-"):
            before = client.state()
            refused_at(client.ask("POST", "/v1/keys", {"role": "read", "prefix": prefix}, key=limited), 403)
            assert client.state() == before
        made = client.ask("POST", "/v1/keys", {"role": "admin", "prefix": "shop-eu-"}, key=limited)
        assert made.status == 201
        assert client.ask("GET", "/v1/experiments/shop-x", key=made.json["key"]).status == 403
        shown = client.ask("GET", "/v1/keys", key=limited)
        assert {each["id"] for each in shown.json["keys"]} == {"victim00", identity_of(limited), made.json["id"]}
        assert {each["id"] for each in client.ask("GET", "/v1/keys", key=made.json["key"]).json["keys"]} == {
            made.json["id"]
        }
        for key in (ADMIN, foreign):
            before = client.state()
            refused_at(client.ask("DELETE", f"/v1/keys/{identity_of(key)}", key=limited), 404)
            assert client.state() == before
        refused_at(client.ask("DELETE", f"/v1/keys/{identity_of(limited)}", key=made.json["key"]), 404)
        assert client.ask("DELETE", f"/v1/keys/{made.json['id']}", key=limited).json["revoked"] is True
        assert made.json["key"] not in client
        assert all(key in client for key in (ADMIN, foreign, limited))


def test_a_revoked_key_stays_revoked(tmp_path: Path) -> None:
    with furnished(tmp_path) as client:
        key = client.key("read")
        assert client.ask("GET", "/v1/experiments", key=key).status == 200
        first = client.ask("DELETE", f"/v1/keys/{identity_of(key)}").json
        (when,) = [row[-1] for row in client.dump()["keys"] if row[0] == identity_of(key)]
        client.now += 100.0
        assert client.ask("DELETE", f"/v1/keys/{identity_of(key)}").json == first  # again, with no effect
        assert [row[-1] for row in client.dump()["keys"] if row[0] == identity_of(key)] == [when]
        for _ in range(2):
            refused_at(client.ask("GET", "/v1/experiments", key=key, client=next(_addresses)), 401)
            client.restart()


def test_two_keys_never_share_a_secret_or_an_id(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        texts = [client.ask("POST", "/v1/keys", {"role": "read"}).json["key"] for _ in range(20)]
        assert len({identity_of(text) for text in texts}) == len({text[-43:] for text in texts}) == 20


def test_only_digests_of_keys_are_stored_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with furnished(tmp_path) as client:
        texts = [client.ask("POST", "/v1/keys", {"role": role, "note": "n"}).json["key"] for role in ROLES]
        for text in texts:
            assert client.ask("GET", "/v1/experiments", key=text).status == 200
        refused = client.ask("GET", "/v1/experiments", key=texts[0][:-1] + "-", client=next(_addresses))
        assert client.ask("DELETE", f"/v1/keys/{identity_of(texts[0])}").status == 200
        secrets = [text.split("_", 2)[2].encode() for text in (*texts, ADMIN)]
        told = [
            client.ask(method, path).json
            for method, path in (("GET", "/v1/keys"), ("GET", "/metrics"), ("GET", "/v1/experiments/shop-x/events"))
        ]
        files = [tmp_path / name for name in ("umab.db", "umab.db-wal")]
        stored = b"".join(path.read_bytes() for path in files)
        client.restart()  # which moves the log of SQLite into the database
        stored += b"".join(path.read_bytes() for path in tmp_path.iterdir())
    stored += (tmp_path / "umab.db").read_bytes()
    for secret in secrets:
        digest = hashlib.sha256(secret).digest()
        assert digest in stored  # so the search would have found what is there
        assert secret not in stored and secret[4:-4] not in stored
        assert secret.decode() not in repr(told) + refused.json["detail"] + caplog.text
        assert digest.hex() not in repr(told)


def test_keys_are_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret is compared in any other way than by the function that takes as long whatever it finds."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    class Secret(bytes):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a digest was compared with ==")

        __hash__ = bytes.__hash__

    with Client(tmp_path) as client:
        (key,) = client.keys.all()
        client.keys.put(Key(key.id, Secret(key.digest), key.role, key.prefix, key.note, key.created))
        monkeypatch.setattr("umab_service.keys.hmac.compare_digest", lambda one, other: compare(bytes(one), other[:]))
        assert client.keys.find(ADMIN) is not None and client.keys.find(ADMIN[:-1] + "b") is None
        assert len(compared) == 2 and {len(each) for pair in compared for each in pair} == {32}


# Clients that keep failing.


def test_failures_double_the_wait_up_to_a_minute() -> None:
    slow, now, waits = Throttle(), 1000.0, []
    for _ in range(throttle.FREE + 10):
        waits.append(slow.wait("a", None, now))
        now += waits[-1]
        assert slow.wait("a", None, now) == 0.0  # once it has waited
        slow.failed("a", now)
    assert waits[: throttle.FREE + 1] == [0.0] * (throttle.FREE + 1)
    assert waits[throttle.FREE + 1 :] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    assert slow.wait("b", None, now) == 0.0  # others need not wait


def test_failures_are_forgotten_after_ten_minutes_without_one() -> None:
    slow, now = Throttle(), 1000.0
    for _ in range(20):
        slow.failed("a", now)
    now += 11 * throttle.LONGEST + 1.0
    slow.failed("a", now)
    assert slow.wait("a", None, now) == 0.0


def test_a_known_key_goes_on_and_a_new_one_waits() -> None:
    slow = Throttle()
    slow.passed("a", "known")
    for _ in range(10):
        slow.failed("a", 0.0)
    assert slow.wait("a", "known", 0.0) == 0.0
    assert slow.wait("a", "new", 0.0) > 0.0  # a guess that happens to be right is slowed down as well
    assert slow.wait("b", "known", 0.0) == 0.0
    slow.passed("a", "known")  # a known key does not help those who guess from the same address
    assert slow.wait("a", None, 0.0) > 0.0


def test_the_memory_of_failures_is_bounded() -> None:
    slow = Throttle()
    for number in range(throttle.MOST + 100):
        slow.failed(f"c{number}", 0.0)
        slow.passed(f"c{number}", f"k{number}")
    assert len(slow._failures) <= throttle.MOST and len(slow._known) <= throttle.MOST
    for number in range(throttle.MOST + 100):
        slow.failed(f"c{number}", 0.0)
    assert len(slow._failures) == throttle.MOST


def test_a_client_that_keeps_failing_is_told_when_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [5000.0]
    with Client(tmp_path) as client:
        monkeypatch.setattr("umab_service.app.time.monotonic", lambda: now[0])
        new = client.key("read")
        assert client.ask("GET", "/v1/experiments").status == 200
        statuses = [client.ask("GET", "/v1/experiments", key="wrong").status for _ in range(throttle.FREE + 1)]
        assert statuses == [401] * (throttle.FREE + 1)
        slowed = client.ask("GET", "/v1/experiments", key="wrong")
        refused_at(slowed, 429)
        seconds = int(slowed.headers["retry-after"])
        assert 0 < seconds <= 4
        refused_at(client.ask("GET", "/v1/experiments", key=new), 429)
        assert client.ask("GET", "/v1/experiments").status == 200  # known before
        assert client.ask("GET", "/v1/experiments", key=new, client="192.0.2.1").status == 200
        assert client.ask("GET", "/healthz", key=None).status == 200
        now[0] += seconds
        assert client.ask("GET", "/v1/experiments", key=new).status == 200
        refused_at(client.ask("GET", "/v1/experiments", key="wrong"), 401)  # a right key begins anew


# Headers.


def answers_of_all_kinds(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Reply]]:
    """Yield an answer of each kind, with the status that it should have."""
    client.experiment("x")
    decide = "POST", "/v1/experiments/x/decisions"
    yield 201, client.ask(*decide, {"id": "d"})
    yield 200, client.ask(*decide, {"id": "d"})
    for path in ("/healthz", "/readyz", "/openapi.json"):
        yield 200, client.ask("GET", path, key=None)
    for path in ("/v1/experiments/x/events", "/v1/experiments/x/export", "/v1/experiments/x/report", "/metrics"):
        yield 200, client.ask("GET", path)
    yield 400, client.ask(*decide, b"{")
    yield 401, client.ask(*decide, {}, key=None)
    yield 403, client.ask(*decide, {}, key=client.key("read"))
    yield 404, client.ask("GET", "/nowhere")
    yield 405, client.ask("PUT", "/v1/experiments", {})
    yield 409, client.ask("POST", "/v1/experiments", {"name": "x", "arms": ["z"]})
    yield 413, client.ask(*decide, b" " * ((1 << 20) + 1))
    yield 422, client.ask(*decide, {"n": 0})
    for _ in range(9):
        slowed = client.ask(*decide, {}, key="wrong", client="192.0.2.9")
    yield 429, slowed
    monkeypatch.setattr(client.service, "recovering", True)
    yield 503, client.ask("GET", "/readyz")
    yield 503, client.ask(*decide, {})
    monkeypatch.setattr(client.service, "recovering", False)

    def broken(*_: Any) -> Any:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(decisions, "decide", broken)
    yield 500, client.ask(*decide, {})


@pytest.mark.parametrize("tls", [False, True])
def test_every_answer_carries_the_security_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    with Client(tmp_path, tls=tls) as client:
        for status, reply in answers_of_all_kinds(client, monkeypatch):
            assert reply.status == status, reply
            assert {name.lower(): value for name, value in HEADERS.items()}.items() <= reply.headers.items()
            assert reply.headers["cache-control"] == "no-store"
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in reply.headers["content-security-policy"]
            assert ("strict-transport-security" in reply.headers) is tls
            assert not {"server", "access-control-allow-origin", "set-cookie"} & set(reply.headers)
            if status >= 400:
                refused = reply.json["status"], reply.headers["content-type"]
                assert refused == (status, "application/problem+json")
        assert reply.status == 500 and "swordfish" not in repr(reply)


# The command line, and the process.


@pytest.fixture
def umab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `umab` in an empty folder; return its exit code, its output and its complaint."""
    for name in [name for name in os.environ if name.startswith("UMAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name in ("logging.basicConfig", "logging.captureWarnings", "_settle_memory"):  # they are for a whole process
        monkeypatch.setattr(f"umab_service.server.{name}", lambda *_, **__: None)

    def serve(*_: Any, **__: Any) -> None:
        pytest.fail("the server has started")

    monkeypatch.setattr("umab_service.server._Server.serve", serve)

    def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            code = main(arguments)
        said = capsys.readouterr()
        return code, said.out.strip(), said.err.strip()

    return run


def complaint(done: tuple[int, str, str]) -> str:
    """Return the one line that a command fails with."""
    code, output, said = done
    assert code == 2 and not output and len(said.splitlines()) == 1, done
    return said


@contextlib.contextmanager
def served(folder: Path, *options: str, **environment: str) -> Iterator[list[str]]:
    """Serve on a free port; yield what the server says until it is there."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("UMAB_")}
    command = [sys.executable, "-m", "umab.cli", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, cwd=folder, env={**inherited, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line.strip())
            if "umab is serving" in line:
                break
        yield said
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def got(said: list[str], path: str, key: str, **options: Any) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Return what a server that said where it is answers: status, headers and content."""
    kind = http.client.HTTPSConnection if options else http.client.HTTPConnection
    connection = kind("127.0.0.1", int(said[-1].rpartition(":")[2]), timeout=PATIENCE, **options)
    try:
        connection.request("GET", path, headers={"X-API-Key": key})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.invalid"])
def test_nobody_else_can_reach_a_server_without_keys(umab: Command, tmp_path: Path, host: str) -> None:
    said = complaint(umab("serve", "--host", host, "--port", "0"))
    assert "a server that others can reach must have a key" in said
    assert umab("keys", "list")[1].count("\n") == 1  # no key was made: only the head of the table


def test_a_server_whose_keys_are_all_revoked_has_none(umab: Command) -> None:
    key = umab("keys", "create", "--role", "admin")[1]
    assert umab("keys", "revoke", identity_of(key))[0] == 0
    assert "must have a key" in complaint(umab("serve", "--host", "0.0.0.0", "--port", "0"))


@pytest.mark.parametrize("text", ["secret", "", "umab_admin_password", "umab_testadmin_" + "a" * 31])
def test_a_first_key_that_is_easily_guessed_is_refused(umab: Command, text: str) -> None:
    said = complaint(umab("serve", "--port", "0", UMAB_ADMIN_KEY=text))
    assert "a key must be like umab_ID_SECRET" in said
    assert not text or text not in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--port", "99999"], "a port must be from 0 to 65535, but got 99999"),
        (["--host", "localhost.invalid", "--port", "0"], "cannot listen"),
        (["--database", "mysql://x"], "sqlite:///path or postgresql://…, but got 'mysql://x'"),
        (["--retention", "5"], "a duration must be like"),
        (["--tls-certificate", "a.pem"], "--tls-certificate and --tls-key must be given together"),
        (["--tls-key", "a.pem"], "--tls-certificate and --tls-key must be given together"),
        (["--port", "0", "--tls-certificate", "none.pem", "--tls-key", "none.pem"], "none.pem: file not found"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(umab: Command, options: list[str], reason: str) -> None:
    assert reason in complaint(umab("serve", *options, UMAB_ADMIN_KEY=KEY))


def test_a_port_in_use_is_told_in_one_line(umab: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = complaint(umab("serve", "--port", str(port), UMAB_ADMIN_KEY=KEY))
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said


def test_keys_from_the_command_line(umab: Command, tmp_path: Path) -> None:
    code, key, said = umab("keys", "create", "--role", "decide", "--prefix", "shop-", "--note", "the shop")
    assert (code, said) == (0, "")
    other = umab("keys", "create", "--role", "read")[1]
    table = umab("keys", "list")[1]
    (row,) = [line.split() for line in table.splitlines() if "shop-" in line]
    assert row == [identity_of(key), "decide", "shop-", "the", "shop"]
    assert key.split("_", 2)[2] not in table
    assert "must exist" in complaint(umab("keys", "revoke", "nobody00"))
    assert umab("keys", "revoke", identity_of(key))[0] == 0
    assert "revoked" in next(line for line in umab("keys", "list")[1].splitlines() if "shop-" in line)
    with Client(tmp_path) as client:
        assert key not in client and other in client
        assert (tmp_path / "umab.db.lock").stat().st_mode & 0o077 == 0


def test_keys_through_a_server_that_runs(umab: Command, tmp_path: Path) -> None:
    admin = umab("keys", "create", "--role", "admin")[1]
    decide = umab("keys", "create", "--role", "decide")[1]
    with running(tmp_path / "umab.db") as server:
        there = "--server", f"http://127.0.0.1:{server.port}/"
        assert "another one uses" in (said := complaint(umab("keys", "create", "--role", "read")))
        assert "pass --server URL and set UMAB_KEY" in said
        assert "UMAB_KEY must hold an admin key" in complaint(umab("keys", "list", *there))
        assert "the server refused: a request must carry" in complaint(umab("keys", "list", *there, UMAB_KEY="x"))
        refused = complaint(umab("keys", "create", "--role", "read", *there, UMAB_KEY=decide))
        assert "the server refused: a key must have the role 'admin'" in refused
        new = umab("keys", "create", "--role", "read", "--prefix", "p-", *there, UMAB_KEY=admin)[1]
        assert server.ask("GET", "/v1/experiments", key=new)[0] == 200
        assert identity_of(new) in umab("keys", "list", *there, UMAB_KEY=admin)[1]
        assert umab("keys", "revoke", identity_of(new), *there, UMAB_KEY=admin)[0] == 0
        assert server.ask("GET", "/v1/experiments", key=new)[0] == 401
        assert "must exist" in complaint(umab("keys", "revoke", "nobody00", *there, UMAB_KEY=admin))
        assert "the server refused" in complaint(umab("keys", "revoke", "../x", *there, UMAB_KEY=admin))
        # The environment named an admin key, but the database has keys already: it opens nothing.
        assert server.ask("GET", "/v1/experiments", key=KEY)[0] == 401
        assert server.stop() == 0
    assert "cannot be reached" in complaint(umab("keys", "list", *there, UMAB_KEY=admin))


def test_the_first_key_is_shown_once(tmp_path: Path) -> None:
    with served(tmp_path) as said:
        (key,) = re.findall(r"umab_\w+_[\w-]+", "\n".join(said))
        status, _, content = got(said, "/v1/keys", key)
        assert status == 200 and key.split("_", 2)[2].encode() not in content
    with served(tmp_path) as said:
        assert "umab_" not in "".join(said)
        assert got(said, "/v1/keys", key)[0] == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem".split(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    options = "--tls-certificate", "cert.pem", "--tls-key", "key.pem"
    with served(tmp_path, *options, UMAB_ADMIN_KEY=KEY) as said:
        assert said[-1].startswith("umab is serving umab.db on https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        status, headers, _ = got(said, "/v1/experiments", KEY, context=trusting)
        assert (status, headers["Strict-Transport-Security"]) == (200, "max-age=31536000")
        with pytest.raises((http.client.HTTPException, OSError)):
            got(said, "/healthz", KEY)
        with pytest.raises(ssl.SSLCertVerificationError):
            got(said, "/healthz", KEY, context=ssl.create_default_context())


def test_a_server_outlives_what_is_no_request(tmp_path: Path) -> None:
    """Real bytes through the real parser: garbage, and requests that two parsers could read in two ways."""
    begin, end = b"POST /v1/batch HTTP/1.1\r\nHost: x\r\n", b"\r\n\r\n"
    let_in = begin + b"Authorization: Bearer " + KEY.encode() + b"\r\n"
    refused = {
        b"garbage" + end: b"400",
        b"\0" * 100 + end: b"400",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9: b"400",  # TLS, where there is none
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x" + end: b"400",
        b"GET /%00%ff%ed%a0%80 HTTP/1.1\r\nHost: x" + end: b"401",
        b"GET http://elsewhere/v1/experiments HTTP/1.1\r\nHost: x" + end: b"401",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b" + end: b"400",
        begin + b"Content-Length: 5\r\nTransfer-Encoding: chunked" + end + b"0" + end: b"400",
        begin + b"Content-Length: 5\r\nContent-Length: 6" + end + b"hello": b"400",
        begin + b"Content-Length: -5" + end + b"hello": b"400",
        let_in + b"Transfer-Encoding: chunked" + end + b"ZZ\r\nhello" + end: b"400",
        let_in + b"Content-Length: 99999999999999999999999" + end: b"400",
        let_in + b"Content-Length: 2000000" + end + b" " * 1_100_000: b"413",
        let_in + b"Transfer-Encoding: chunked" + end + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 17: b"413",
        let_in + b"Content-Length: 2" + end + b"[]": b"422",
    }
    with running(tmp_path / "umab.db") as server:
        for content, status in refused.items():
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
                connection.sendall(content)
                assert connection.recv(12) == b"HTTP/1.1 " + status, content[:100]
        assert server.ask("GET", "/readyz")[0] == 200
        assert server.ask("GET", "/v1/experiments")[1] == {"experiments": [], "next": None}
        statuses = []
        for number in range(throttle.FREE + 2):  # whoever says that others ask through it is not believed
            forwarded = f"GET /v1/keys HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.{number}".encode() + end
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
                connection.sendall(forwarded)
                statuses.append(connection.recv(12))
        assert statuses[-1] == b"HTTP/1.1 429"
        assert server.ask("GET", "/v1/experiments")[0] == 200
        assert server.stop() == 0
