"""The API against its own description: requests that schemathesis makes from it, valid and not, in long sequences."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("schemathesis")

import requests
import schemathesis
from schemathesis import GenerationMode, checks
from schemathesis import Response as Checked

from service_app import ADMIN, Client
from umab_service.openapi import description
from umab_service.problems import HEADERS
from umab_service.recovery import recovered
from umab_service.routes import ROUTES
from umab_service.schema import encoded

DESCRIPTION = json.loads(encoded(description(ROUTES)))

KNOWN: dict[str, list[str]] = {
    "the name of an experiment": ["plain", "default", "forget", "sum", "rewards", "new", "newer"],
    "the name of an arm": ["a", "b", "c", "d/e"],
    "chosen by the caller": ["d0", "d1", "d2", "d3", "many", "new"],
    "as in ISO 8601: PT30S, PT15M, P1DT12H": ["PT1S", "PT10S", "PT1H"],
    "as in RFC 3339: 2026-01-31T12:00:00Z": ["2027-01-15T08:00:00Z"],
    "which part of a sum this is": ["k", "l"],
}
"""For the fields with these descriptions, what there is: so that requests find something to work on."""
PARTS = {
    "name": ["plain", "default", "forget", "sum", "rewards", "new"],
    "arm": KNOWN["the name of an arm"],
    "decision": ["d0", "d1", "d2", "d3", "many/0", "many/2", "none"],
    "key": ["victim00", "nobody00"],
}


def one_of_these(*fields: str) -> dict[str, Any]:
    """Return the schema of feedback that has these fields."""
    number, key = {"enum": [0.0, 1.0, -2.5, 1e300]}, {"enum": KNOWN["which part of a sum this is"]}
    properties = {name: key if name == "key" else number for name in fields}
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}


def narrowed(schema: Any, *, all_of_it: bool) -> Any:
    """Return a schema with values that there are: in all of it, or only in paths, where arms may be new."""
    if isinstance(schema, list):
        return [narrowed(each, all_of_it=all_of_it) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("in") == "path" and (all_of_it or schema["name"] != "arm"):
        return {**schema, "schema": {"enum": PARTS[schema["name"]]}}
    if all_of_it and schema.get("description") in KNOWN:
        return {"enum": KNOWN[schema["description"]]}
    if all_of_it and schema.get("title") == "Feedback":
        return {"anyOf": [one_of_these("loss"), one_of_these("loss", "key"), one_of_these("reward")]}
    return {key: narrowed(value, all_of_it=all_of_it) for key, value in schema.items()}


def operations(schema: Any) -> dict[str, Any]:
    """Return the operations of a description, by their labels."""
    without_keys = {key: value for key, value in copy.deepcopy(schema).items() if key != "security"}
    loaded: Any = schemathesis.openapi.from_dict(without_keys)
    return {operation.label: operation for operation in (found.ok() for found in loaded.get_all_operations())}


DESCRIBED = operations(DESCRIPTION)
PLACED = operations(narrowed(DESCRIPTION, all_of_it=False))
NARROW = operations(narrowed(DESCRIPTION, all_of_it=True))

every_operation = pytest.mark.parametrize("label", DESCRIBED)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A service with experiments of all kinds, and decisions in all states."""
    with Client(tmp_path) as found:
        kinds: dict[str, dict[str, Any]] = {
            "plain": {},
            "default": {"wait": "PT10S", "default_loss": 7.0},
            "forget": {"wait": "PT10S", "forget": True, "late": "learn"},
            "sum": {"wait": "PT10S", "forget": True, "aggregation": "sum"},
            "rewards": {"maximize": True, "wait": "PT10S", "default_reward": 0.0},
        }
        for name, more in kinds.items():
            found.experiment(name, ["a", "b", "c"], **more)
            found.decide("d0", name)  # expired
            found.sleep(20.0)
            found.decide("d1", name, metadata={"who": "somebody"})
            found.decide("d2", name, defer=True)
            found.decide("many", name, n=3)
            unit = "reward" if name == "rewards" else "loss"
            for identity in ("d3", "d4", "d5"):
                found.decide(identity, name)
                body = {unit: 1.0, **({"key": "k"} if name == "sum" else {})}
                assert found.ask("PUT", f"/v1/experiments/{name}/decisions/{identity}/feedback", body).status == 200
        found.key("read", text="umab_victim00_" + "v" * 40)
        yield found


def answer(client: Client, case: Any) -> Any:
    """Return the answer to a request of schemathesis, in the form in which it checks answers."""
    prepared = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    reply = client.ask(str(prepared.method), prepared.path_url, body or b"")
    headers = {name: [value] for name, value in reply.headers.items()}
    return Checked(reply.status, headers, reply.content, prepared, 0.0, False)


ALWAYS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


def check(client: Client, operation: Any, mode: GenerationMode, data: st.DataObject) -> None:
    """Ask as the description says, or in a way that it does not allow, and check the answer against it."""
    case = data.draw(operation.as_strategy(generation_mode=mode))
    before = client.state()
    found = answer(client, case)
    case.validate_response(found, checks=ALWAYS)
    assert {(name.lower(), value) for name, value in HEADERS.items()} <= {
        (name, value) for name, (value,) in found.headers.items()
    }
    if found.status_code >= 400:
        problem = json.loads(found.content)
        assert problem["status"] == found.status_code and problem["title"]
        assert " must " in problem["detail"] or "takes" in problem["detail"], problem
        if found.status_code != 410:  # late feedback is logged
            assert client.state() == before
    if mode is GenerationMode.NEGATIVE:
        case.validate_response(found, checks=[checks.negative_data_rejection])
    client.sleep(data.draw(st.sampled_from([0.0, 0.0, 0.0, 6.0])))


def run(client: Client, operation: Any, mode: GenerationMode, n_examples: int) -> None:
    """Send requests to an operation. What fails is not made smaller: the state has moved on."""

    @settings(
        max_examples=n_examples,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(st.data())
    def one(data: st.DataObject) -> None:
        check(client, operation, mode, data)

    one()


def fuzzed(client: Client, label: str, n_examples: int) -> None:
    """Send many requests to an operation; then restart, and find everything as it was."""
    run(client, NARROW[label], GenerationMode.POSITIVE, 2 * n_examples)
    run(client, PLACED[label], GenerationMode.POSITIVE, n_examples)
    run(client, DESCRIBED[label], GenerationMode.POSITIVE, n_examples // 2)
    if can_be_wrong(label):
        run(client, PLACED[label], GenerationMode.NEGATIVE, n_examples)
        run(client, DESCRIBED[label], GenerationMode.NEGATIVE, n_examples // 2)
    everything_is_found_again(client)


def everything_is_found_again(client: Client) -> None:
    assert ADMIN in client
    before = {name: each.learner.to_json() for name, each in client.service.experiments.items()}
    assert {each.name: each.learner.to_json() for each in recovered(client.service.storage, True)} == before


def can_be_wrong(label: str) -> bool:
    """Whether an operation has a part that can be other than described."""
    method, path = label.split(" ")
    operation = DESCRIPTION["paths"][path][method.lower()]
    return bool(operation["parameters"] or "requestBody" in operation)


@every_operation
def test_answers_are_as_described(client: Client, label: str) -> None:
    fuzzed(client, label, 4)


@pytest.mark.slow
@every_operation
def test_many_answers_are_as_described(client: Client, label: str) -> None:
    fuzzed(client, label, 100)


# Learners to import: a file may come from anywhere.

STRANGE: list[Any] = [
    *(None, True, -1, 0, 1, 3.0, -3.0, 2**70, -0.0, 1e308, -1e308, 1e200, 1e16, 1e-16, 5e-324),
    *(float("nan"), float("inf"), "", "x", "\ud800", "a" * 300, [], {}, [[]], [None], ["a", "a"], ["a"] * 3, {"a": 1}),
    *([1e308, 1e308], [0.5, 0.5], [1, 0], ["a", "b\0"]),
]


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each part of a value; in long lists, to the first parts."""
    yield way
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else list(enumerate(value))[:3]
        for key, part in parts:
            yield from ways(part, (*way, key))


def replaced(value: Any, way: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """Return a copy of a value in which one part is changed."""
    found = {"": copy.deepcopy(value)}
    place: Any = found
    for key in ("", *way)[:-1]:
        place = place[key]
    change(place, ("", *way)[-1])
    return found.get("")


def import_anything(client: Client, n_examples: int, caplog: pytest.LogCaptureFixture) -> None:
    """Import learners with something wrong in them, and use those that are taken."""
    learner = client.ask("GET", "/v1/experiments/plain/export").json
    fitting, numbers = json.dumps(learner).encode(), itertools.count()
    strange = st.sampled_from(STRANGE) | st.floats() | st.text(max_size=5)

    @settings(max_examples=n_examples, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(list(ways(learner))), st.none() | strange.map(lambda value: (value,)))
    def one(way: tuple[Any, ...], value: tuple[Any] | None) -> None:
        def change(place: Any, key: Any) -> None:
            if value is None:
                del place[key]
            else:
                place[key] = value[0]

        before = client.state()
        reply = client.ask("POST", "/v1/experiments/plain/import", json.dumps(replaced(learner, way, change)).encode())
        assert reply.status in (200, 409, 422), reply
        if reply.status != 200:
            assert client.state() == before
            return
        for _ in range(3):
            path = f"/v1/experiments/plain/decisions/i{next(numbers)}"
            decided = client.ask("POST", path.rpartition("/")[0], {"id": path.rpartition("/")[2]})
            told = client.ask("PUT", f"{path}/feedback", {"loss": 1.5})
            if decided.status != 201:  # it took the learner for broken, and nothing of it is stored
                assert decided.status == 500 and "is broken" in caplog.text
                wait_until_ready(client)
            else:
                assert told.status == 200
            for end in ("", "/report"):
                assert client.ask("GET", f"/v1/experiments/plain{end}").status == 200
            assert client.ask("GET", "/v1/experiments/plain/export").status in (200, 409)
        assert client.ask("POST", "/v1/experiments/plain/import", fitting).status == 200

    one()
    everything_is_found_again(client)
    client.restart()


def wait_until_ready(client: Client) -> None:
    while not client.service.ready:
        client.run(asyncio.sleep(0.005))


def test_a_learner_from_anywhere_is_refused_or_works(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    import_anything(client, 60, caplog)


@pytest.mark.slow
def test_many_learners_from_anywhere_are_refused_or_work(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    import_anything(client, 2000, caplog)


def test_reading_a_learner_does_not_change_what_becomes_of_it(client: Client) -> None:
    """A learner takes changes of its arms with nothing between them as one; to save it is no reason not to."""
    for name in ("plain", "rewards"):
        path = f"/v1/experiments/{name}"
        for method, arm in (("PUT", "x"), ("PUT", "y"), ("DELETE", "x"), ("DELETE", "a"), ("PUT", "a")):
            assert client.ask("GET", f"{path}/export").status == 200
            assert client.ask(method, f"{path}/arms/{arm}").status in (200, 201)
            everything_is_found_again(client)
    client.now += 1.0
    client.prune(0.0)  # which makes a snapshot, against which the start checks the log
    client.restart()


# The description itself.


def patterns(schema: Any) -> Iterator[Any]:
    """Yield the schemas that have a pattern."""
    if isinstance(schema, dict | list):
        if "pattern" in schema:
            yield schema
        for each in schema.values() if isinstance(schema, dict) else schema:
            yield from patterns(each)


def test_the_description_is_what_the_server_shows_and_covers_every_route(client: Client) -> None:
    assert client.ask("GET", "/openapi.json", key=None).json == DESCRIPTION
    assert DESCRIPTION["openapi"].startswith("3.1.")
    described = {(method.upper(), path) for path, found in DESCRIPTION["paths"].items() for method in found}
    assert described == {(route.method, route.path.replace(":path", "")) for route in ROUTES}
    found = [operation for path in DESCRIPTION["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in found}) == len(found)
    for operation in found:
        assert operation["summary"] and "401" in operation["responses"] and "429" in operation["responses"]
    assert all(schema["pattern"].endswith(("}$", "]*$")) for schema in patterns(DESCRIPTION))
    for scheme in DESCRIPTION["components"]["securitySchemes"].values():
        assert scheme.get("in", "header") == "header"  # never in addresses
