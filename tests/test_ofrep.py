"""Experiments as feature flags: what the OpenFeature Remote Evaluation Protocol asks for, and what sticks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from service_app import START, Client, Reply
from umab_service import decisions, ofrep
from umab_service.problems import Problem

FLAGS = "/ofrep/v1/evaluate/flags"
DAY = 86400.0


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path) as found:
        yield found


def evaluate(client: Client, name: str = "x", context: Any = None, **more: Any) -> Reply:
    return client.ask("POST", f"{FLAGS}/{name}", {} if context is None else {"context": context}, **more)


def bulk(client: Client, context: Any = None, **more: Any) -> Reply:
    return client.ask("POST", FLAGS, {} if context is None else {"context": context}, **more)


def sticky(target: str = "visitor", time: str = "P1D") -> dict[str, str]:
    return {"targetingKey": target, "umabSticky": time}


def rows(client: Client, state: str | None = None) -> list[str]:
    """Return the ids of all decisions."""
    found = client.run(client.service.read("SELECT id, state FROM decisions ORDER BY made, id"))
    return [identity for identity, its in found if state in (None, its)]


def feedback(client: Client, identity: str, value: float, name: str = "x") -> Reply:
    return client.ask("PUT", f"/v1/experiments/{name}/decisions/{identity}/feedback", {"loss": value})


def test_an_evaluation_is_a_decision(client: Client) -> None:
    client.experiment()
    for context in (None, {}, {"targetingKey": "visitor"}, {"plan": "free", "age": 30, "deep": {"er": [1]}}):
        reply = evaluate(client, context=context)
        assert reply.status == 200 and reply.headers["content-type"] == "application/json"
        assert list(reply.json) == ["key", "value", "variant", "reason", "metadata"]
        assert reply.json["key"] == "x" and reply.json["reason"] == "SPLIT"
        assert reply.json["value"] == reply.json["variant"] and reply.json["value"] in ("a", "b")
        metadata = reply.json["metadata"]
        assert metadata["experiment"] == "x" and 0.0 < metadata["probability"] <= 1.0 and metadata["maximize"] is False
        assert rows(client, "open")[-1] == metadata["decisionId"]
        assert feedback(client, metadata["decisionId"], 1.0).json == {"state": "learned"}
    assert len(rows(client)) == 4


def test_the_metadata_say_whether_feedback_is_a_reward(client: Client) -> None:
    client.experiment("gain", maximize=True)
    assert evaluate(client, "gain").json["metadata"]["maximize"] is True


def test_a_sticky_choice_stays_for_its_time_and_no_longer(client: Client) -> None:
    client.experiment(arms=[f"arm {number}" for number in range(50)])
    client.now = START - START % DAY
    first = evaluate(client, context=sticky()).json
    client.now += DAY - 1.0
    assert evaluate(client, context=sticky()).json == first
    assert evaluate(client, context={**sticky(), "plan": "free"}).json == first
    client.restart()
    assert evaluate(client, context=sticky()).json == first and len(rows(client)) == 1
    client.now += 1.0
    assert evaluate(client, context=sticky()).json["metadata"]["decisionId"] != first["metadata"]["decisionId"]
    assert len(rows(client)) == 2


def test_each_experiment_target_and_time_has_a_sticky_choice_of_its_own(client: Client) -> None:
    client.experiment("x")
    client.experiment("y")
    contexts = [sticky(), sticky("other"), sticky(time="PT12H"), sticky("visitor1", "PT1S"), sticky("visitor", "PT11S")]
    ids = [evaluate(client, name, each).json["metadata"]["decisionId"] for name in "xy" for each in contexts]
    assert len(set(ids)) == len(ids) == 10
    assert evaluate(client, "x", sticky(time="PT24H")).json["metadata"]["decisionId"] == ids[0]  # the same time


def test_a_sticky_choice_stays_when_arms_change_and_when_it_was_learned(client: Client) -> None:
    client.experiment()
    first = evaluate(client, context=sticky()).json
    assert client.ask("PUT", "/v1/experiments/x/arms/c").status == 201
    assert client.ask("DELETE", f"/v1/experiments/x/arms/{first['value']}").status == 200
    assert evaluate(client, context=sticky()).json == first
    assert feedback(client, first["metadata"]["decisionId"], 2.0).json == {"state": "learned"}
    assert evaluate(client, context=sticky()).json == first
    assert feedback(client, first["metadata"]["decisionId"], 2.0).json == {"state": "duplicate"}


def test_without_a_time_nothing_sticks(client: Client) -> None:
    client.experiment()
    ids = {evaluate(client, context={"targetingKey": "visitor"}).json["metadata"]["decisionId"] for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("context", "code", "detail"),
    [
        ({"umabSticky": "P1D"}, "TARGETING_KEY_MISSING", "umabSticky must come with a targetingKey, but there is none"),
        ({"umabSticky": "P1D", "targetingKey": ""}, "TARGETING_KEY_MISSING", "umabSticky must come with"),
        (sticky(time="a day"), "INVALID_CONTEXT", "such as PT30M or P1D, but got 'a day'"),
        ({"targetingKey": "v", "umabSticky": 60}, "INVALID_CONTEXT", "such as PT30M or P1D, but got 60"),
        (sticky(time="PT0S"), "INVALID_CONTEXT", "but got 'PT0S'"),
        ({"targetingKey": 7}, "INVALID_CONTEXT", "targetingKey must be a text of at most 1000 characters, but got 7"),
        ({"targetingKey": "v" * 1001}, "INVALID_CONTEXT", "at most 1000 characters, but got 'vvv"),
        (["targetingKey"], "INVALID_CONTEXT", "Expected `object`, got `array` - at `$.context`"),
    ],
)
@pytest.mark.parametrize("name", ["x", None])
def test_wrong_contexts_are_refused_as_the_protocol_says(
    client: Client, context: Any, code: str, detail: str, name: str | None
) -> None:
    client.experiment()
    reply = bulk(client, context) if name is None else evaluate(client, name, context)
    assert reply.status == 400 and reply.headers["content-type"] == "application/json"
    assert reply.json["errorCode"] == code and reply.json.get("key") == name
    assert detail in reply.json["errorDetails"] and reply.json["detail"] == reply.json["errorDetails"]
    assert (reply.json["status"], reply.json["title"]) == (400, "Bad Request")
    assert rows(client) == []


def test_errors_have_the_codes_of_the_protocol(client: Client) -> None:
    client.experiment()
    client.experiment("old")
    assert client.ask("POST", "/v1/experiments/old/archive").status == 200
    for body in (b"{", b"\xff", b'{"context": '):
        reply = client.ask("POST", f"{FLAGS}/x", body)
        assert (reply.status, reply.json["errorCode"], reply.json["key"]) == (400, "PARSE_ERROR", "x")
    for name in ("none", "old"):
        reply = evaluate(client, name)
        assert (reply.status, reply.json["errorCode"], reply.json["key"]) == (404, "FLAG_NOT_FOUND", name)
        assert name in reply.json["errorDetails"]
    for key, status in ((None, 401), (client.key("read"), 403), (client.key("decide", "shop-"), 403)):
        reply = evaluate(client, key=key)
        assert reply.status == reply.json["status"] == status  # for these the protocol asks for no body
    reply = client.ask("GET", f"{FLAGS}/x")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    client.service.recovering = True
    for reply in (evaluate(client), bulk(client)):
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    client.service.recovering = False
    assert rows(client) == []


def test_an_archived_experiment_is_no_flag_even_if_a_choice_sticks(client: Client) -> None:
    client.experiment()
    assert evaluate(client, context=sticky()).status == 200 and len(bulk(client, sticky()).json["flags"]) == 1
    assert client.ask("POST", "/v1/experiments/x/archive").status == 200
    assert evaluate(client, context=sticky()).status == 404 and bulk(client, sticky()).json == {"flags": []}


# Bulk evaluations.


def test_a_bulk_evaluation_has_the_active_experiments_that_the_key_covers(client: Client) -> None:
    for name in ("shop-b", "shop-a", "shop-old", "other"):
        client.experiment(name)
    client.ask("POST", "/v1/experiments/shop-old/archive")
    key = client.key("decide", "shop-")
    reply = bulk(client, {"targetingKey": "visitor"}, key=key)
    assert reply.status == 200 and [each["key"] for each in reply.json["flags"]] == ["shop-a", "shop-b"]
    assert [list(each) for each in reply.json["flags"]] == [["key", "value", "variant", "reason", "metadata"]] * 2
    assert len(bulk(client).json["flags"]) == 3
    assert bulk(client, key=client.key("decide", "none-")).json == {"flags": []}
    assert bulk(client, key=client.key("read")).status == 403


def test_bulk_evaluations_are_deferred_until_they_are_activated_or_have_feedback(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=5)
    ids = [bulk(client).json["flags"][0]["metadata"]["decisionId"] for _ in range(3)]
    assert rows(client, "deferred") == sorted(ids)
    assert client.ask("POST", f"/v1/experiments/x/decisions/{ids[0]}/activate").json["state"] == "open"
    assert feedback(client, ids[1], 1.0).json == {"state": "learned"}
    client.sleep(11.0)
    states = dict(client.run(client.service.read("SELECT id, state FROM decisions")))
    assert states == {ids[0]: "expired", ids[1]: "learned", ids[2]: "forgotten"}


def test_what_sticks_sticks_across_both_kinds_of_evaluation(client: Client) -> None:
    client.experiment()
    (first,) = bulk(client, sticky()).json["flags"]
    assert rows(client, "deferred") == [first["metadata"]["decisionId"]]
    assert evaluate(client, context=sticky()).json == first
    assert rows(client, "open") == [first["metadata"]["decisionId"]]  # it is used now, so its wait has started
    assert bulk(client, sticky()).json["flags"] == [first]
    other = evaluate(client, context=sticky("other")).json
    assert bulk(client, sticky("other")).json["flags"] == [other]
    assert len(rows(client, "open")) == 2 and rows(client, "deferred") == []


def test_a_choice_that_was_forgotten_sticks_all_the_same(client: Client) -> None:
    client.experiment(wait="PT10S", forget=True)
    (first,) = bulk(client, sticky()).json["flags"]
    client.sleep(11.0)
    assert rows(client, "forgotten") == [first["metadata"]["decisionId"]]
    assert evaluate(client, context=sticky()).json == first


def test_a_client_that_has_the_answer_gets_304(client: Client) -> None:
    client.experiment("x")
    client.experiment("y")
    first = bulk(client, sticky())
    etag = first.headers["etag"]
    assert etag.startswith('"') and etag.endswith('"')
    before = client.state()
    for value in (etag, etag.strip('"'), f"W/{etag}", f'"other", {etag}'):
        reply = bulk(client, sticky(), headers={"If-None-Match": value})
        assert (reply.status, reply.content, reply.headers["etag"]) == (304, b"", etag)
    assert client.state() == before
    assert bulk(client, sticky("other"), headers={"If-None-Match": etag}).status == 200
    client.experiment("z")
    reply = bulk(client, sticky(), headers={"If-None-Match": etag})
    assert reply.status == 200 and reply.headers["etag"] != etag and len(reply.json["flags"]) == 3


def test_without_a_sticky_time_each_bulk_evaluation_decides_anew(client: Client) -> None:
    client.experiment()
    first = bulk(client, {"targetingKey": "visitor"})
    reply = bulk(client, {"targetingKey": "visitor"}, headers={"If-None-Match": first.headers["etag"]})
    assert reply.status == 200 and len(rows(client, "deferred")) == 2


def test_flags_beyond_the_limit_fail_one_by_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ofrep, "MOST_FLAGS", 2)
    for name in "edcba":
        client.experiment(name)
    flags = bulk(client, sticky()).json["flags"]
    assert [each["key"] for each in flags] == list("abcde") and len(rows(client)) == 2
    assert [each.get("errorCode") for each in flags] == [None, None, "GENERAL", "GENERAL", "GENERAL"]
    assert "at most 2 flags, but this key covers 5; use a prefix" in flags[-1]["errorDetails"]
    assert all(set(each) == {"key", "errorCode", "errorDetails"} for each in flags[2:])
    assert len(bulk(client, key=client.key("decide", "e")).json["flags"]) == 1


def test_a_flag_that_fails_takes_no_others_with_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.experiment("x")
    client.experiment("y")
    decide = decisions.decide

    def fail(service: Any, name: str, given: Any) -> Any:
        if name == "x":
            raise Problem(503, "its server is away")
        return decide(service, name, given)

    monkeypatch.setattr(decisions, "decide", fail)
    x, y = bulk(client).json["flags"]
    assert x == {"key": "x", "errorCode": "GENERAL", "errorDetails": "its server is away"} and y["variant"] in "ab"


def test_hostile_targeting_keys_are_only_hashed(client: Client) -> None:
    client.experiment()
    for target in ("../../x", "a/0", "'; DROP TABLE decisions --", "\x00", "\ud83d\ude00", "<script>"):
        reply = client.ask("POST", f"{FLAGS}/x", json.dumps({"context": sticky(target)}).encode())
        assert reply.status == 200
        identity = reply.json["metadata"]["decisionId"]
        assert identity.startswith("sticky-") and identity.removeprefix("sticky-").isalnum() and len(identity) == 39
        assert feedback(client, identity, 1.0).status == 200
    reply = client.ask("POST", f"{FLAGS}/x", b'{"context": {"targetingKey": "\\ud800", "umabSticky": "P1D"}}')
    assert reply.status == 400 and reply.json["errorCode"] in ("PARSE_ERROR", "INVALID_CONTEXT")
