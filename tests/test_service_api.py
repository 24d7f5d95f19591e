"""What the API promises, sentence by sentence. Each answer is also compared with the description of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jsonschema")

import jsonschema  # type: ignore[import-untyped]

import umab
from service_app import Client, Reply
from umab import offpolicy
from umab_service import metrics

X = "/v1/experiments/x"
HUGE = [1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 1.7976931348623157e308, 1.5, 2.2250738585072014e-308]


class Described(Client):
    """A client that compares each answer with the description of the API."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.description: dict[str, Any] = {}
        super().__init__(folder, **options)
        self.description = self.ask("GET", "/openapi.json").json

    def ask_all(self, requests: Sequence[tuple[str, str, Any]], **options: Any) -> list[Reply]:
        found = super().ask_all(requests, **options)
        for (method, path, _), reply in zip(requests, found, strict=True):
            self._check(method.lower(), path.partition("?")[0], reply)
        return found

    def _check(self, method: str, path: str, reply: Reply) -> None:
        for pattern, operations in self.description.get("paths", {}).items():
            last = r"(?P<\1>.+)" if pattern.count("{decision}") or pattern.endswith("{arm}") else r"(?P<\1>[^/]+)"
            if re.fullmatch(re.sub(r"{(\w+)}", last, pattern), path) and method in operations:
                described = operations[method]["responses"][str(reply.status)]
                kind = reply.headers["content-type"].partition(";")[0]
                schema = {**described["content"][kind]["schema"], "components": self.description["components"]}
                jsonschema.validate(reply.json, schema, cls=jsonschema.Draft202012Validator)
                if reply.status >= 400:
                    assert reply.json["status"] == reply.status and reply.json["detail"]
                break


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Described(tmp_path) as found:
        yield found


def feedback(client: Client, identity: str, **body: Any) -> tuple[int, Any]:
    """Return the status and the state, or the detail of the problem."""
    name = body.pop("name", "x")
    reply = client.ask("PUT", f"/v1/experiments/{name}/decisions/{identity}/feedback", body)
    return reply.status, reply.json["state" if reply.status == 200 else "detail"]


def status(client: Client, method: str, path: str, body: Any = None) -> int:
    return client.ask(method, path, body).status


# Experiments.


def test_an_experiment_is_created_with_201_found_again_with_200_and_refused_with_409_if_it_differs(
    client: Client,
) -> None:
    body = {"name": "x", "arms": ["a", "b"], "wait": "PT15M", "default_loss": 2.5, "seed": 7}
    reply = client.ask("POST", "/v1/experiments", body)
    assert reply.status == 201
    assert reply.json == {
        "name": "x",
        "arms": ["a", "b"],
        "policy": "umab-w",
        "maximize": False,
        "seed": 7,
        "wait": "PT900S",
        "forget": False,
        "aggregation": "first",
        "late": "log",
        "state": "active",
        "created_at": "2027-01-15T08:00:00Z",
        "open": 0,
        "default_loss": 2.5,
    }
    assert client.ask("GET", X).json == reply.json
    for same in (body, {**body, "arms": ["b", "a"]}, {**body, "wait": "PT900S"}, {**body, "policy": "umab-w"}):
        again = client.ask("POST", "/v1/experiments", same)
        assert (again.status, again.json) == (200, reply.json)
    for other in (
        {"arms": ["a", "c"]},
        {"wait": "PT16M"},
        {"default_loss": 3.0},
        {"seed": 8},
        {"policy": "umab-s"},
        {"default_loss": None, "forget": True},
    ):
        refused = client.ask("POST", "/v1/experiments", {**body, **other})
        assert refused.status == 409 and "'x' must not exist with other settings" in refused.json["detail"]
    assert client.ask("GET", X).json == reply.json


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("no-such-policy", "a policy must be one of"),
        ("os.system", "a policy must be one of"),
        ("umab-g", "need no horizon"),
        ("adahedge", "learn from one arm per round"),
        ({"name": "umab-w"}, "Expected `str`"),
    ],
)
def test_policies_are_taken_by_registered_name_only(client: Client, policy: Any, reason: str) -> None:
    reply = client.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a"], "policy": policy})
    assert reply.status == 422 and reason in reply.json["detail"]
    assert status(client, "GET", X) == 404


@pytest.mark.parametrize(
    "policy", ["recommended", "umab-l", "centred(umab-s)", "sf-mab-a", "exp3-ix:high=9.5", "uniform"]
)
def test_policies_that_learn_online_are_taken(client: Client, policy: str) -> None:
    client.experiment(policy=policy)
    assert client.decide("d")["arm"] in ("a", "b") and feedback(client, "d", loss=0.5) == (200, "learned")
    assert client.ask("GET", X).json["policy"] == umab.policy(policy).name


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"wait": "15 minutes"}, "a duration must be like PT30S"),
        ({"wait": "P1Y", "forget": True}, "a duration must be like PT30S"),
        ({"wait": "PT0S", "forget": True}, "at least 1 ms"),
        ({"wait": "P9999D", "forget": True}, "at most ten years"),
        ({"wait": "PT1S"}, "exactly one of default_loss and forget=true"),
        ({"wait": "PT1S", "forget": True, "default_loss": 1.0}, "exactly one of default_loss and forget=true"),
        ({"wait": "PT1S", "default_reward": 1.0}, "takes default_loss, but got default_reward=1.0"),
        ({"wait": "PT1S", "default_loss": 1.0, "maximize": True}, "takes default_reward, but got default_loss=1.0"),
        ({"default_loss": 1.0}, "wait must be given"),
        ({"forget": True}, "wait must be given"),
        ({"aggregation": "sum"}, "wait must be given"),
        ({"wait": "PT1S", "default_loss": 1.0, "late": "learn"}, "late=learn must come with forget=true"),
        ({"late": "learn"}, "late=learn must come with forget=true"),
        ({"wait": "PT1S", "default_loss": 2.0, "policy": "exp3-ix"}, "at most 1.0 for exp3-ix"),
        ({"aggregation": "mean"}, "mean"),
        ({"arms": []}, "length >= 1"),
        ({"arms": ["a", "a"]}, "must differ"),
        ({"arms": [1, 2]}, "Expected `str`"),
        ({"seed": -1}, ">= 0"),
        ({"name": "a/b"}, "regex"),
        ({"color": "red"}, "color"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_rule_and_the_value(
    client: Client, settings: dict[str, Any], rule: str
) -> None:
    reply = client.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"], **settings})
    assert reply.status == 422 and rule in reply.json["detail"], reply.json
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json.keys() == {"type", "title", "status", "detail"} and reply.json["title"] == "Unprocessable Entity"


def test_experiments_are_listed_in_pages(client: Client) -> None:
    for name in ("c", "a", "d", "b"):
        client.experiment(name)
    first = client.ask("GET", "/v1/experiments?limit=3").json
    assert [each["name"] for each in first["experiments"]] == ["a", "b", "c"] and first["next"] == "c"
    second = client.ask("GET", f"/v1/experiments?limit=3&after={first['next']}").json
    assert [each["name"] for each in second["experiments"]] == ["d"] and second["next"] is None
    assert [status(client, "GET", f"/v1/experiments?limit={limit}") for limit in ("0", "1001", "x", "-1")] == [422] * 4


def test_settings_are_changed_for_choices_to_come(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=1.0)
    before = client.decide("before")
    reply = client.ask("PATCH", X, {"wait": "PT1M"})
    assert reply.status == 200 and reply.json["wait"] == "PT60S" and reply.json["default_loss"] == 1.0
    after = client.decide("after")
    assert (before["expires_at"], after["expires_at"]) == ("2027-01-15T08:00:10Z", "2027-01-15T08:01:00Z")
    assert client.ask("PATCH", X, {"forget": True, "late": "learn"}).json["forget"] is True
    assert status(client, "PATCH", X, {"default_loss": 1.0}) == 422  # late=learn needs forget
    assert client.ask("PATCH", X, {"default_loss": 2.0, "late": "log"}).json["default_loss"] == 2.0
    assert client.ask("PATCH", X, {"wait": None}).json["wait"] is None
    assert client.decide("unlimited")["expires_at"] is None
    assert status(client, "PATCH", X, {"policy": "umab-s"}) == 422
    assert status(client, "PATCH", "/v1/experiments/y", {}) == 404
    client.sleep(10.0)
    assert feedback(client, "before", loss=1.0)[0] == 410


def test_arms_are_added_and_removed(client: Client) -> None:
    client.experiment()
    assert client.ask("PUT", f"{X}/arms/c").json["arms"] == ["a", "b", "c"]
    assert [status(client, "PUT", f"{X}/arms/{arm}") for arm in ("c", "d%2Fe", "x" * 200, "x" * 201)] == [
        200,
        201,
        201,
        422,
    ]
    assert "d/e" in client.ask("GET", X).json["arms"]
    while client.decide(f"c{client.ask('GET', X).json['open']}")["arm"] != "c":
        pass
    of_c = f"c{client.ask('GET', X).json['open'] - 1}"
    assert client.ask("DELETE", f"{X}/arms/c").json["arms"] == ["a", "b", "d/e", "x" * 200]
    assert status(client, "DELETE", f"{X}/arms/c") == 404
    assert feedback(client, of_c, loss=1.0) == (200, "learned")  # it is accepted, and teaches nothing about it
    for arm in ("d%2Fe", "x" * 200, "b"):
        assert status(client, "DELETE", f"{X}/arms/{arm}") == 200
    last = client.ask("DELETE", f"{X}/arms/a")
    assert last.status == 409 and "must keep at least one arm, but 'a' is its last" in last.json["detail"]


def test_an_archived_experiment_decides_no_more_and_still_learns(client: Client) -> None:
    client.experiment()
    decision = client.decide("d")
    assert client.ask("POST", f"{X}/archive").json["state"] == "archived"
    assert status(client, "POST", f"{X}/archive") == 200
    refused = client.ask("POST", f"{X}/decisions", {"id": "e"})
    assert refused.status == 409 and "'x' is archived" in refused.json["detail"]
    assert client.ask("POST", f"{X}/decisions", {"id": "d"}).json == decision
    assert feedback(client, "d", loss=1.0) == (200, "learned")


# Decisions.


def test_a_decision_has_an_id_an_arm_its_probability_a_state_and_an_end_of_the_wait(client: Client) -> None:
    client.experiment(wait="PT1H30M", forget=True)
    reply = client.ask("POST", f"{X}/decisions", {"id": "d"})
    assert reply.status == 201
    assert reply.json == {
        "id": "d",
        "arm": reply.json["arm"],
        "probability": 0.5,
        "state": "open",
        "expires_at": "2027-01-15T09:30:00Z",
    }
    given = [client.ask("POST", f"{X}/decisions", {}).json["id"] for _ in range(50)]
    assert len(set(given)) == 50 and client.ask("GET", X).json["open"] == 51
    assert client.ask("POST", f"{X}/decisions").status == 201  # no body is an empty one


def test_the_same_request_again_gets_the_same_answer_and_another_one_with_its_id_is_refused(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=1.0)
    body = {"id": "d", "among": ["a", "b"], "metadata": {"page": 1, "user": "u"}}
    first = client.ask("POST", f"{X}/decisions", body)
    assert first.status == 201
    n_events = client.service.experiments["x"].seq

    def again() -> None:
        for same in (body, {**body, "among": ["b", "a"]}, {**body, "metadata": {"user": "u", "page": 1}}):
            repeated = client.ask("POST", f"{X}/decisions", same)
            assert (repeated.status, repeated.json) == (200, first.json)
        for other in (
            {"id": "d"},
            {**body, "among": ["a"]},
            {**body, "metadata": {"page": 2}},
            {**body, "defer": True},
            {**body, "n": 1},
        ):
            refused = client.ask("POST", f"{X}/decisions", other)
            assert refused.status == 422 and "'d' must be asked for as it was before" in refused.json["detail"]

    again()
    client.restart()
    again()
    client.sleep(20.0)  # also when its wait has ended
    again()
    assert client.service.experiments["x"].seq == n_events + 1  # the end of the wait
    client.experiment("y")
    assert client.decide("d", "y")["id"] == "d"  # ids are those of an experiment


def test_requests_with_one_id_that_come_at_once_draw_once(client: Client) -> None:
    client.experiment()
    replies = client.ask_all([("POST", f"{X}/decisions", {"id": "d"})] * 6)
    assert [reply.status for reply in replies] == [201, *[200] * 5]
    assert {json.dumps(reply.json) for reply in replies} == {json.dumps(replies[0].json)}
    counters = client.service.experiments["x"].learner.counters()
    assert sum(each.selected for each in counters.values()) == 1
    replies = client.ask_all([("PUT", f"{X}/decisions/d/feedback", {"loss": 1.0})] * 6)
    assert [reply.json["state"] for reply in replies] == ["learned", *["duplicate"] * 5]


def test_several_decisions_have_numbered_ids(client: Client) -> None:
    client.experiment()
    first = client.ask("POST", f"{X}/decisions", {"id": "d", "n": 3})
    assert first.status == 201 and [each["id"] for each in first.json["decisions"]] == ["d/0", "d/1", "d/2"]
    again = client.ask("POST", f"{X}/decisions", {"id": "d", "n": 3})
    assert (again.status, again.json) == (200, first.json)
    assert [status(client, "POST", f"{X}/decisions", {"id": "d", "n": n}) for n in (None, 1, 2, 4)] == [422] * 4
    assert [feedback(client, f"d/{k}", loss=1.0) for k in range(3)] == [(200, "learned")] * 3
    assert feedback(client, "d%2F0", loss=1.0) == (200, "duplicate")
    assert feedback(client, "d", loss=1.0)[0] == feedback(client, "d/3", loss=1.0)[0] == 404
    one = client.ask("POST", f"{X}/decisions", {"n": 1}).json["decisions"]
    assert len(one) == 1 and one[0]["id"].endswith("/0")
    assert [status(client, "POST", f"{X}/decisions", {"n": n}) for n in (0, -1, 101, 1.5, "2")] == [422] * 5
    assert status(client, "POST", f"{X}/decisions", {"n": 100}) == 201


def test_a_decision_is_made_among_the_arms_that_are_eligible(client: Client) -> None:
    client.experiment(arms=["a", "b", "c"])
    for number in range(20):
        answer = client.decide(f"d{number}", among=["a", "c"])
        assert answer["arm"] in ("a", "c") and answer["probability"] == pytest.approx(0.5)
    assert client.decide("one", among=["b"])["probability"] == 1.0
    refused = client.ask("POST", f"{X}/decisions", {"among": ["a", "z"]})
    assert refused.status == 422 and "arm must be one of 'a', 'b', 'c', but got arm='z'" in refused.json["detail"]
    assert status(client, "POST", f"{X}/decisions", {"among": []}) == 422
    assert client.ask("GET", X).json["open"] == 21


def test_the_wait_of_a_deferred_decision_starts_when_it_is_activated(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=9.0)
    deferred = client.decide("d", defer=True)
    assert (deferred["state"], deferred["expires_at"]) == ("deferred", None)
    client.sleep(6.0)
    activated = client.ask("POST", f"{X}/decisions/d/activate")
    assert activated.status == 200
    assert activated.json == {"id": "d", "state": "open", "expires_at": "2027-01-15T08:00:16Z"}
    client.sleep(6.0)
    again = client.ask("POST", f"{X}/decisions/d/activate")
    assert (again.status, again.json) == (200, activated.json)
    assert feedback(client, "d", loss=1.0) == (200, "learned")
    assert status(client, "POST", f"{X}/decisions/nobody/activate") == 404


def test_a_choice_that_is_never_activated_is_forgotten_after_the_wait(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=9.0)
    client.decide("d", defer=True)
    client.sleep(10.0)
    refused = client.ask("POST", f"{X}/decisions/d/activate")
    assert refused.status == 410 and "must be activated in time, but 'd' is forgotten" in refused.json["detail"]
    assert all(each["updates"] == 0 for each in client.ask("GET", f"{X}/report").json["arms"])
    assert feedback(client, "d", loss=1.0)[0] == 410


# Feedback.


def test_feedback_is_learned_once(client: Client) -> None:
    client.experiment()
    client.decide("d")
    assert feedback(client, "d", loss=2.5, at="2026-01-31T12:00:00+01:00") == (200, "learned")
    before = client.service.experiments["x"].learner.to_json()
    assert feedback(client, "d", loss=2.5) == (200, "duplicate")
    assert feedback(client, "d", loss=2.6) == (409, "feedback for 'd' must not change, but it was 2.5 and is 2.6")
    client.restart()
    assert feedback(client, "d", loss=2.5) == (200, "duplicate")
    assert client.service.experiments["x"].learner.to_json() == before
    assert feedback(client, "nobody", loss=1.0)[0] == feedback(client, "d", name="nowhere", loss=1.0)[0] == 404


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"loss": NaN}', 400),
        (b'{"loss": Infinity}', 400),
        (b'{"loss": 1e999}', 422),
        (b'{"loss": -1e999}', 422),
        (b'{"loss": "1"}', 422),
        (b'{"loss": null}', 422),
        (b"{}", 422),
        (b'{"reward": 1}', 422),
        (b'{"loss": 1, "reward": 1}', 422),
        (b'{"loss": 1, "key": "k"}', 422),
        (b'{"loss": 1, "at": "yesterday"}', 422),
        (b'{"loss": 1, "at": "2026-01-31T12:00:00"}', 422),
        (b'{"loss": 1, "weight": 2}', 422),
        (b'{"loss": 1', 400),
        (b"[1]", 422),
    ],
)
def test_feedback_that_is_no_finite_loss_is_refused(client: Client, content: bytes, expected: int) -> None:
    client.experiment()
    client.decide("d")
    assert status(client, "PUT", f"{X}/decisions/d/feedback", content) == expected
    assert feedback(client, "d", loss=1.0) == (200, "learned")


@pytest.mark.parametrize(
    ("policy", "loss", "rule"), [("exp3-ix", 1.5, "at most 1.0"), ("umab-nn", -1.0, "at least 0.0")]
)
def test_feedback_outside_the_range_of_the_policy_is_refused(
    client: Client, policy: str, loss: float, rule: str
) -> None:
    client.experiment(policy=policy)
    client.decide("d")
    code, detail = feedback(client, "d", loss=loss)
    assert code == 422 and rule in detail and str(loss) in detail
    assert feedback(client, "d", loss=0.5) == (200, "learned")


def test_rewards_take_the_place_of_losses_where_more_is_better(client: Client) -> None:
    client.experiment(maximize=True, wait="PT10S", default_reward=-1.0)
    client.decide("d")
    assert feedback(client, "d", loss=1.0)[0] == 422
    assert feedback(client, "d", reward=5.0) == (200, "learned")
    client.decide("e")
    client.sleep(10.0)
    learned = [each["mean"] for each in client.ask("GET", f"{X}/report").json["arms"] if each["mean"] is not None]
    assert sorted(learned) in ([-1.0, 5.0], [2.0])


@pytest.mark.parametrize("loss", HUGE)
def test_losses_of_any_size_are_learned_exactly(client: Client, loss: float) -> None:
    client.experiment()
    plain = umab.Learner("recommended", ["a", "b"], seed=1)
    for number, value in enumerate([loss, 1.0, loss, -loss, loss]):
        answer, choice = client.decide(f"d{number}"), plain.select()
        assert (answer["arm"], answer["probability"]) == (choice.arm, choice.probability)
        assert feedback(client, f"d{number}", loss=value) == (200, "learned")
        assert feedback(client, f"d{number}", loss=value) == (200, "duplicate")
        plain.update(choice, loss=value)
    assert without_ids(client.ask("GET", f"{X}/export").json) == without_ids(json.loads(plain.to_json()))
    client.restart()
    assert without_ids(client.ask("GET", f"{X}/export").json) == without_ids(json.loads(plain.to_json()))
    assert status(client, "GET", f"{X}/report") == 200
    assert status(client, "POST", f"{X}/evaluations", {"probabilities": {"a": 0.5, "b": 0.5}}) == 200
    assert status(client, "GET", "/metrics") == 200


def without_ids(learner: dict[str, Any]) -> dict[str, Any]:
    """Return a learner without the ids of its choices, which always differ."""
    return {name: value for name, value in learner.items() if name != "ids"}


def test_parts_of_a_sum_carry_keys_and_the_sum_is_learned_when_the_wait_ends(client: Client) -> None:
    client.experiment(wait="PT10S", forget=True, aggregation="sum")
    for identity in ("d", "silent"):
        client.decide(identity)
    assert feedback(client, "d", loss=1.0)[0] == 422  # without a key
    assert feedback(client, "d", loss=0.1, key="x") == (200, "accepted")
    assert feedback(client, "d", loss=0.2, key="y") == (200, "accepted")
    assert feedback(client, "d", loss=0.2, key="y") == (200, "duplicate")
    assert feedback(client, "d", loss=0.3, key="y")[0] == 409
    client.restart()
    assert feedback(client, "d", loss=0.2, key="y") == (200, "duplicate")
    assert feedback(client, "d", loss=0.3, key="z") == (200, "accepted")
    assert all(each["updates"] == 0 for each in client.ask("GET", f"{X}/report").json["arms"])
    client.sleep(10.0)
    (event,) = [each for each in client.ask("GET", f"{X}/events").json if each["kind"] == "expired"]
    ((identity, _, total),) = event["body"]["learned"]
    assert (identity, total, [each for each, _ in event["body"]["forgotten"]]) == (
        "d",
        0.6,
        ["silent"],
    )  # not 0.6000000000000001
    assert feedback(client, "d", loss=0.3, key="z") == (200, "duplicate")
    assert feedback(client, "d", loss=0.4, key="late")[0] == feedback(client, "d", loss=0.4, key="late")[0] == 410
    assert feedback(client, "d", loss=0.5, key="late")[0] == 409


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([1e308, 1e308, -1e308, -1e308], 0.0),
        ([1e308, 1e308], 1.7976931348623157e308),
        ([-1e308, -1e308], -1.7976931348623157e308),
        ([1e16, 1.0, -1e16], 1.0),
        ([5e-324, 5e-324], 1e-323),
    ],
)
def test_a_sum_is_exact_and_stays_finite(client: Client, parts: list[float], total: float) -> None:
    client.experiment(wait="PT10S", default_loss=3.0, aggregation="sum")
    client.decide("d")
    for number, part in enumerate(parts):
        assert feedback(client, "d", loss=part, key=str(number)) == (200, "accepted")
    client.sleep(10.0)
    (event,) = [each for each in client.ask("GET", f"{X}/events").json if each["kind"] == "expired"]
    assert event["body"]["learned"][0][2] == total


def test_a_sum_without_parts_is_the_default_and_one_out_of_range_is_forgotten(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=0.5, aggregation="sum", policy="exp3-ix")
    for identity in ("silent", "large"):
        client.decide(identity)
    for key in ("x", "y"):
        assert feedback(client, "large", loss=0.75, key=key) == (200, "accepted")
    client.sleep(10.0)
    (event,) = [each for each in client.ask("GET", f"{X}/events").json if each["kind"] == "expired"]
    assert [(identity, value) for identity, _, value in event["body"]["learned"]] == [("silent", 0.5)]
    assert [each for each, _ in event["body"]["forgotten"]] == ["large"]


# Silence.


def test_silence_is_learned_as_the_default_loss(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=9.0)
    plain = umab.Learner("recommended", ["a", "b"], seed=1)
    for number in range(10):
        client.decide(f"d{number}")
        choice = plain.select()
        client.sleep(10.0)
        plain.update(choice, loss=9.0)
    assert without_ids(client.ask("GET", f"{X}/export").json) == without_ids(json.loads(plain.to_json()))
    code, detail = feedback(client, "d0", loss=1.0)
    assert code == 410 and "'d0' is too late; it was logged" in detail
    assert feedback(client, "d0", loss=1.0)[0] == 410 and feedback(client, "d0", loss=2.0)[0] == 409
    assert [each["kind"] for each in client.ask("GET", f"{X}/events").json].count("late") == 1
    assert without_ids(client.ask("GET", f"{X}/export").json) == without_ids(json.loads(plain.to_json()))


@pytest.mark.parametrize("late", ["log", "learn"])
def test_silence_is_forgotten_and_late_feedback_is_logged_or_learned(client: Client, late: str) -> None:
    client.experiment(wait="PT10S", forget=True, late=late)
    plain = umab.Learner("recommended", ["a", "b"], seed=1)
    client.decide("d")
    choice = plain.select()
    client.sleep(10.0)
    assert client.ask("GET", X).json["open"] == 0
    assert (
        feedback(client, "d", loss=2.0) == (200, "late")
        if late == "learn"
        else feedback(client, "d", loss=2.0)[0] == 410
    )
    if late == "learn":
        plain.update(choice, loss=2.0)
        assert feedback(client, "d", loss=2.0) == (200, "duplicate") and feedback(client, "d", loss=3.0)[0] == 409
    else:
        plain.forget(choice)
    assert without_ids(client.ask("GET", f"{X}/export").json) == without_ids(json.loads(plain.to_json()))


def test_a_late_part_is_learned_once_where_late_feedback_is_learned(client: Client) -> None:
    client.experiment(wait="PT10S", forget=True, late="learn", aggregation="sum")
    client.decide("d")
    client.sleep(10.0)
    assert feedback(client, "d", loss=2.0, key="x") == (200, "late")
    assert feedback(client, "d", loss=2.0, key="x") == (200, "duplicate")
    assert feedback(client, "d", loss=3.0, key="x")[0] == 409
    assert feedback(client, "d", loss=3.0, key="y")[0] == 410
    client.restart()
    assert feedback(client, "d", loss=2.0, key="x") == (200, "duplicate")
    assert [each["mean"] for each in client.ask("GET", f"{X}/report").json["arms"] if each["updates"]] == [2.0]


# Learners.


@pytest.mark.parametrize("policy", ["recommended", "umab-l", "umab-g-a", "sf-mab", "exp3-ix", "uniform"])
@pytest.mark.parametrize("maximize", [False, True])
def test_an_experiment_learns_as_a_learner_with_the_same_seed_does(client: Client, policy: str, maximize: bool) -> None:
    """Late, repeated and missing feedback, eligible arms, several choices at once, and changes of arms."""
    client.experiment(arms=["a", "b", "c"], policy=policy, maximize=maximize, seed=11)
    plain = umab.Learner(policy, ["a", "b", "c"], maximize=maximize, seed=11)
    unit = "reward" if maximize else "loss"
    waiting: list[tuple[str, umab.Choice]] = []
    for number in range(60):
        among, n = (["a", "c"] if number % 7 == 3 else None), (3 if number % 5 == 4 else None)
        body = {"id": f"d{number}", "n": n, "among": among}
        answer = client.ask(
            "POST", f"{X}/decisions", {name: value for name, value in body.items() if value is not None}
        )
        assert answer.status == 201
        choices = plain.select(n, among=among) if n else [plain.select(among=among)]
        answers = answer.json["decisions"] if n else [answer.json]
        assert [(each["arm"], each["probability"]) for each in answers] == [
            (each.arm, each.probability) for each in choices
        ]
        waiting += zip([each["id"] for each in answers], choices, strict=True)
        if number % 3:  # the latest first, the others later or never
            identity, choice = waiting.pop(-1 if number % 2 else 0)
            value = {"a": 0.25, "b": 0.5, "c": 0.75}[str(choice.arm)] + 0.01 * (number % 5)
            value = -value if maximize and policy == "exp3-ix" else value
            given: dict[str, Any] = {unit: value}
            assert feedback(client, identity, **given) == (200, "learned")
            assert feedback(client, identity, **given) == (200, "duplicate")
            plain.update(choice, **given)
        if number % 20 == 19:
            client.restart()
    for _, choice in waiting:
        plain.forget(choice)
    assert without_ids(client.ask("GET", f"{X}/export").json) == without_ids(json.loads(plain.to_json()))


def test_what_is_exported_is_a_learner_that_goes_on_bit_for_bit(client: Client, tmp_path: Path) -> None:
    client.experiment()
    for number in range(30):
        client.decide(f"d{number}")
        feedback(client, f"d{number}", loss=0.1 * number)
    reply = client.ask("GET", f"{X}/export")
    assert reply.headers["content-type"] == "application/json"
    (tmp_path / "learner.json").write_text(json.dumps(reply.json))
    loaded = umab.Learner.load(tmp_path / "learner.json")
    for number in range(30, 60):
        answer, choice = client.decide(f"d{number}"), loaded.select()
        assert (answer["arm"], answer["probability"]) == (choice.arm, choice.probability)
        feedback(client, f"d{number}", loss=0.1 * number)
        loaded.update(choice, loss=0.1 * number)
    assert client.ask("GET", f"{X}/export").json == json.loads(loaded.to_json())


def test_a_learner_is_imported_with_what_it_has_learned_and_its_arms(client: Client) -> None:
    plain = umab.Learner("recommended", ["a", "b", "c"], seed=3)
    for number in range(40):
        choice = plain.select()
        plain.update(choice, loss={"a": 1.0, "b": 2.0, "c": 3.0}[str(choice.arm)] + 0.01 * number)
    plain.select()  # its open choice stays where it was made
    client.experiment()
    client.decide("before")
    reply = client.ask("POST", f"{X}/import", plain.to_json().encode())
    assert reply.status == 200 and reply.json["arms"] == ["a", "b", "c"] and reply.json["open"] == 1
    found = {each["arm"]: each for each in client.ask("GET", f"{X}/report").json["arms"]}
    for arm, counter in plain.counters().items():
        assert found[str(arm)]["probability"] == counter.probability
        assert (found[str(arm)]["updates"], found[str(arm)]["mean"]) == (counter.updates, counter.mean)
    taken_in, given = client.ask("GET", f"{X}/export").json, json.loads(plain.to_json())
    assert taken_in["ids"]["space"] != given["ids"]["space"] and taken_in["random"] != given["random"]
    assert (taken_in["open"]["n"], given["open"]["n"]) == (0, 1) and taken_in["state"] == given["state"]
    client.restart()
    assert client.decide("after")["probability"] in list(plain.probabilities())
    assert feedback(client, "before", loss=1.0) == (200, "learned")
    assert feedback(client, "after", loss=1.0) == (200, "learned")


def test_what_is_no_learner_for_the_experiment_is_not_imported(client: Client) -> None:
    client.experiment()
    before = client.ask("GET", f"{X}/export").json
    good = umab.Learner("recommended", ["a", "b"], seed=3)
    for learner, expected in (
        (umab.Learner("umab-s", ["a", "b"]).to_json(), 409),
        (umab.Learner("recommended", ["a", "b"], maximize=True).to_json(), 409),
        (umab.Learner(umab.UMABW(marks=32), ["a", "b"]).to_json(), 409),
        (umab.Learner("recommended", 2).to_json(), 422),
        (good.to_json()[:-10], 422),
        (good.to_json().replace("umab.Learner", "pickle"), 422),
        ("", 422),
        ("[]", 422),
        ("null", 422),
    ):
        assert status(client, "POST", f"{X}/import", learner.encode()) == expected, learner[:100]
    assert status(client, "POST", f"{X}/import", b"\xff\xfe") == 422
    assert status(client, "POST", "/v1/experiments/y/import", good.to_json().encode()) == 404
    assert client.ask("GET", f"{X}/export").json == before


# Batches.


def test_a_batch_answers_each_operation_as_it_would_be_answered_alone(client: Client) -> None:
    client.experiment()
    client.experiment("y", maximize=True)
    operations = [
        {"experiment": "x", "decide": {"id": "d"}},
        {"experiment": "x", "decide": {"id": "d"}},
        {"experiment": "x", "decision": "d", "feedback": {"loss": 2.0}},
        {"experiment": "x", "decision": "d", "feedback": {"loss": 2.0}},
        {"experiment": "x", "decision": "d", "feedback": {"loss": 3.0}},
        {"experiment": "x", "decision": "nobody", "feedback": {"loss": 3.0}},
        {"experiment": "nowhere", "decide": {}},
        {"experiment": "y", "decide": {"id": "e", "n": 2}},
        {"experiment": "y", "decision": "e/1", "feedback": {"reward": 2.0}},
        {"experiment": "y", "decision": "e/0", "feedback": {"loss": 2.0}},
        {"experiment": "x"},
        {"experiment": "x", "decide": {}, "feedback": {"loss": 1.0}},
        {"experiment": "x", "feedback": {"loss": 1.0}},
        {"experiment": "x", "decide": {"among": ["z"]}},
    ]
    reply = client.ask("POST", "/v1/batch", {"operations": operations})
    assert reply.status == 200
    results = reply.json["results"]
    expected = [201, 200, 200, 200, 409, 404, 404, 201, 200, 422, 422, 422, 422, 422]
    assert [each["status"] for each in results] == expected
    assert results[0]["body"] == results[1]["body"] == client.ask("POST", f"{X}/decisions", {"id": "d"}).json
    assert [each["body"]["state"] for each in results[2:4]] == ["learned", "duplicate"]
    assert [each["id"] for each in results[7]["body"]["decisions"]] == ["e/0", "e/1"]
    for each in results:
        if each["status"] >= 400:
            assert each["body"]["status"] == each["status"] and each["body"]["detail"]


def test_a_batch_has_at_most_1000_decisions_and_feedbacks_and_is_one_commit(client: Client) -> None:
    client.experiment()
    before = client.service.writer.n_commits
    operation = {"experiment": "x", "decide": {}}
    reply = client.ask("POST", "/v1/batch", {"operations": [operation] * 1000})
    assert reply.status == 200 and {each["status"] for each in reply.json["results"]} == {201}
    assert client.service.writer.n_commits == before + 1 and client.ask("GET", X).json["open"] == 1000
    assert status(client, "POST", "/v1/batch", {"operations": [operation] * 1001}) == 422
    assert status(client, "POST", "/v1/batch", {"operations": [{"experiment": "x", "decide": {"n": 100}}] * 11}) == 422
    assert status(client, "POST", "/v1/batch", {"operations": []}) == 422
    assert client.ask("GET", X).json["open"] == 1000


def test_requests_that_come_at_once_share_a_commit(client: Client) -> None:
    client.experiment()
    before = client.service.writer.n_commits
    replies = client.ask_all([("POST", f"{X}/decisions", {})] * 20)
    assert [reply.status for reply in replies] == [201] * 20
    assert client.service.writer.n_commits == before + 1


# Reading.


def used(client: Client, n_rounds: int = 80) -> list[tuple[str, float, float]]:
    """Use an experiment with late and missing feedback; return its rounds: arm, probability and loss."""
    client.experiment(arms=["a", "b", "c"], wait="PT10S", default_loss=4.0)
    rounds = []
    for number in range(n_rounds):
        answer = client.decide(f"d{number}")
        loss = {"a": 1.0, "b": 2.0, "c": 3.0}[answer["arm"]] + 0.1 * (number % 4)
        if number % 10 == 9:
            client.sleep(10.0)
            loss = 4.0
        else:
            assert feedback(client, f"d{number}", loss=loss) == (200, "learned")
        rounds.append((answer["arm"], answer["probability"], loss))
    return rounds


def test_an_evaluation_is_what_offpolicy_estimates_from_the_same_rounds(client: Client) -> None:
    rounds = used(client)
    uniform = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    for body, target in (
        ({"arm": "a"}, "a"),
        ({"probabilities": uniform}, uniform),
        ({"probabilities": {"b": 0.25, "c": 0.75}}, {"b": 0.25, "c": 0.75}),
    ):
        reply, expected = client.ask("POST", f"{X}/evaluations", body), offpolicy.estimate(rounds, target)
        assert reply.status == 200 and reply.json["rounds"] == len(rounds)
        assert reply.json["estimate"] == {
            "mean": expected.mean,
            "low": expected.low,
            "high": expected.high,
            "confidence": expected.confidence,
            "effective_rounds": expected.n_effective,
            "doubts": list(expected.doubts),
        }
    # What came late is real, though it was not learned: it takes the place of the default.
    assert feedback(client, "d9", loss=0.5)[0] == 410
    rounds[9] = (*rounds[9][:2], 0.5)
    found = client.ask("POST", f"{X}/evaluations", {"probabilities": uniform}).json["estimate"]["mean"]
    assert found == pytest.approx(offpolicy.estimate(rounds, uniform).mean, rel=1e-12)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"arm": "a", "probabilities": {"a": 1.0}},
        {"arm": "z"},
        {"probabilities": {"a": 0.5}},
        {"probabilities": {"a": 2.0, "b": -1.0}},
        {"probabilities": {}},
    ],
)
def test_an_evaluation_of_what_is_no_target_is_refused(client: Client, body: Any) -> None:
    client.experiment()
    assert status(client, "POST", f"{X}/evaluations", {"arm": "a"}) == 422  # there is no feedback yet
    client.decide("d")
    feedback(client, "d", loss=1.0)
    assert status(client, "POST", f"{X}/evaluations", body) == 422


@pytest.mark.parametrize("maximize", [False, True])
def test_a_report_has_counters_probabilities_estimates_and_changes(client: Client, maximize: bool) -> None:
    client.experiment(arms=["a", "b", "c"], maximize=maximize, seed=5)
    rounds = []
    for number in range(60):
        answer = client.decide(f"d{number}")
        value = {"a": 1.0, "b": 2.0, "c": 3.0}[answer["arm"]] + 0.1 * (number % 4)
        given: dict[str, Any] = {"reward" if maximize else "loss": value}
        assert feedback(client, f"d{number}", **given) == (200, "learned")
        rounds.append((answer["arm"], answer["probability"], value))
    client.decide("open")
    report = client.ask("GET", f"{X}/report").json
    assert report["experiment"] == client.ask("GET", X).json and report["changes"] == []
    assert [each["arm"] for each in report["arms"]] == ["a", "b", "c"]
    assert sum(each["selected"] for each in report["arms"]) == 61
    assert sum(each["probability"] for each in report["arms"]) == pytest.approx(1.0)
    for each in report["arms"]:
        values = [value for arm, _, value in rounds if arm == each["arm"]]
        assert each["updates"] == len(values) and each["mean"] == pytest.approx(sum(values) / len(values))
    found, uniform = report["estimates"], dict.fromkeys("abc", 1 / 3)
    assert found["rounds"] == 60 and found["paid"] == pytest.approx(sum(value for *_, value in rounds) / 60)
    expected = {arm: offpolicy.estimate(rounds, arm) for arm in "abc"}
    for arm, estimate in expected.items():
        assert (found["always"][arm]["mean"], found["always"][arm]["low"]) == (estimate.mean, estimate.low)
    assert found["at_random"]["mean"] == offpolicy.estimate(rounds, uniform).mean
    sign, best = (-1, "c") if maximize else (1, "a")
    assert found["best"] == best
    assert found["regret"]["mean"] == pytest.approx(sign * (found["paid"] - expected[best].mean))
    ends = sorted(sign * (found["paid"] - end) for end in (expected[best].low, expected[best].high))
    assert [found["regret"]["low"], found["regret"]["high"]] == pytest.approx(ends)
    assert found["saved"]["mean"] == pytest.approx(sign * (found["at_random"]["mean"] - found["paid"]))
    assert found["saved"]["low"] <= found["saved"]["mean"] <= found["saved"]["high"]


def test_a_report_without_feedback_has_no_estimates_and_one_of_a_changed_world_has_the_change(client: Client) -> None:
    client.experiment()
    assert client.ask("GET", f"{X}/report").json["estimates"] == {"rounds": 0}
    plain = umab.Learner("recommended", ["a", "b"], seed=1)
    operations: list[dict[str, Any]] = []
    for number in range(400):
        choice = plain.select()
        loss = float((choice.arm == "a") == (number < 200)) + 0.1 * (number % 2)
        plain.update(choice, loss=loss)
        operations.append({"experiment": "x", "decide": {"id": f"d{number}"}})
        operations.append({"experiment": "x", "decision": f"d{number}", "feedback": {"loss": loss}})
    assert status(client, "POST", "/v1/batch", {"operations": operations}) == 200
    changes = client.ask("GET", f"{X}/report").json["changes"]
    assert [(each["round"], each["arm"]) for each in changes] == [(each.round, each.arm) for each in plain.changes()]
    assert changes and {each["state"] for each in changes} <= {"kept", "undone", "on trial"}


def test_events_are_read_as_ndjson_from_a_cursor(client: Client) -> None:
    used(client, 12)
    reply = client.ask("GET", f"{X}/events")
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    events = reply.json
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1)) and events[0]["kind"] == "created"
    assert events[0].keys() == {"seq", "at", "kind", "body"} and events[0]["at"] == "2027-01-15T08:00:00Z"
    after, pages = "0", []
    while True:
        page = client.ask("GET", f"{X}/events?after={after}&limit=5")
        after = page.headers["x-next-after"]
        if not page.json:
            break
        assert len(page.json) <= 5 and int(after) == page.json[-1]["seq"]
        pages += page.json
    assert pages == events and after == str(len(events))
    client.decide("new")
    (new,) = client.ask("GET", f"{X}/events?after={after}").json
    assert new["kind"] == "decided" and new["body"]["draws"][0][0] == "new"
    for query in ("after=-1", "after=x", "limit=0", "limit=10001", "after=99999999999999999999"):
        assert status(client, "GET", f"{X}/events?{query}") == 422


# The server.


def test_health_and_readiness_need_no_key(client: Client) -> None:
    assert client.ask("GET", "/healthz", key=None).json == {"status": "ok"}
    assert client.ask("GET", "/readyz", key=None).json == {"status": "ready"}
    client.service.recovering = True
    assert client.ask("GET", "/healthz", key=None).status == 200
    reply = client.ask("GET", "/readyz", key=None)
    assert reply.status == 503 and reply.headers["content-type"] == "application/problem+json"
    client.service.recovering = False


def series(client: Client) -> dict[str, float]:
    """Return the metrics, by name and labels."""
    reply = client.ask("GET", "/metrics")
    assert reply.status == 200 and "openmetrics-text" in reply.headers["content-type"]
    lines = [line for line in reply.json.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_metrics_count_requests_choices_learned_and_expired_and_sums_by_arm(client: Client) -> None:
    client.experiment(wait="PT10S", default_loss=4.0)
    drawn = [client.decide(f"d{number}")["arm"] for number in range(6)]
    for number, loss in enumerate((1.5, 2.5, 3.5)):
        feedback(client, f"d{number}", loss=loss)
    assert series(client)["umab_open_choices"] == 3
    client.sleep(10.0)
    found = series(client)
    assert found["umab_open_choices"] == 0 and found["umab_experiments"] == 1
    assert found["umab_learned_total"] == 3 and found["umab_expired_total"] == 3
    route = "POST /v1/experiments/{name}/decisions"
    assert found[f'umab_requests_total{{route="{route}",status="201"}}'] == 6
    assert found[f'umab_request_seconds_count{{route="{route}"}}'] == 6
    assert found[f'umab_request_seconds_bucket{{le="+Inf",route="{route}"}}'] == 6
    for arm in "ab":
        labels = f'{{arm="{arm}",experiment="x"}}'
        losses = [loss for each, loss in zip(drawn, (1.5, 2.5, 3.5, 4.0, 4.0, 4.0), strict=True) if each == arm]
        assert found[f"umab_draws_total{labels}"] == found[f"umab_feedback_total{labels}"] == len(losses)
        assert found[f"umab_feedback_sum{labels}"] == pytest.approx(sum(losses))


def test_the_number_of_series_is_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 7)
    for number in range(5):
        client.experiment(f"x{number}", arms=["a", "b"])
        client.decide(f"d{number}", f"x{number}")
    for number in range(30):  # whatever is asked for has no label of its own
        client.ask("GET", f"/nowhere/{number}")
        client.ask("GET", f"/v1/experiments/none{number}")
        client.ask(f"METHOD{number}", "/v1/experiments")
    found = series(client)
    assert sum(name.startswith("umab_draws_total") for name in found) == 6
    routes = {name for name in found if name.startswith("umab_requests_total")}
    assert len(routes) < 12
    assert found['umab_requests_total{route="other",status="404"}'] == 30
    assert found['umab_requests_total{route="GET /v1/experiments/{name}",status="404"}'] == 30


def test_the_description_is_openapi_3_1_and_covers_all_routes(client: Client) -> None:
    described = client.ask("GET", "/openapi.json", key=None).json
    definitions = pytest.importorskip("schemathesis.specs.openapi.definitions")
    definitions.OPENAPI_31_VALIDATOR.validate(described)
    assert described["openapi"].startswith("3.1.")
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    found = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    name = "/v1/experiments/{name}"
    assert found >= {
        "POST /v1/experiments",
        "GET /v1/experiments",
        f"GET {name}",
        f"PATCH {name}",
        f"PUT {name}/arms/{{arm}}",
        f"DELETE {name}/arms/{{arm}}",
        f"POST {name}/archive",
        f"POST {name}/decisions",
        f"POST {name}/decisions/{{decision}}/activate",
        f"PUT {name}/decisions/{{decision}}/feedback",
        "POST /v1/batch",
        f"GET {name}/report",
        f"GET {name}/events",
        f"POST {name}/evaluations",
        f"GET {name}/export",
        f"POST {name}/import",
    }
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)


def test_errors_are_problem_details(client: Client) -> None:
    client.experiment()
    for method, path, body, expected, title in (
        ("GET", "/v1/experiments/nowhere", None, 404, "Not Found"),
        ("GET", "/nowhere", None, 404, "Not Found"),
        ("DELETE", "/v1/experiments", None, 405, "Method Not Allowed"),
        ("POST", f"{X}/decisions", b"{", 400, "Bad Request"),
        ("POST", f"{X}/decisions", {"n": 0}, 422, "Unprocessable Entity"),
        ("POST", "/v1/experiments", {"name": "x", "arms": ["c"]}, 409, "Conflict"),
    ):
        reply = client.ask(method, path, body)
        assert reply.status == expected and reply.headers["content-type"] == "application/problem+json"
        assert reply.json.keys() == {"type", "title", "status", "detail"}
        assert (reply.json["type"], reply.json["title"], reply.json["status"]) == ("about:blank", title, expected)
