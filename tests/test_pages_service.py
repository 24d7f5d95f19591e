"""The reference of the decision service is what its code says, and what it says about errors is true."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette")

from pages import service, service_words
from service_app import Client
from umab import Learner
from umab_service import log

SERVE = Path(__file__).parent.parent / "docs" / service.FOLDER
AGAIN = "the page is old: run python -m pages.service docs"


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return service.described()


@pytest.fixture(scope="module")
def measured() -> service.Measured:
    return asyncio.run(service.measured())


def page(name: str) -> str:
    return (SERVE / name).read_text(encoding="utf-8")


def test_the_reference_is_what_the_code_describes(api: dict[str, Any]) -> None:
    assert page(service.PAGE) == service.text(api), AGAIN


def test_limits_metrics_and_sizes_on_other_pages_are_those_of_the_code(
    api: dict[str, Any], measured: service.Measured
) -> None:
    found = re.search(r"about ([\d.]+) kB, with three arms", page("operations.md"))
    assert found, AGAIN
    shown = 1000 * float(found[1])
    assert abs(shown - measured.decision) < 0.2 * measured.decision, AGAIN
    made = service.marked(api, measured._replace(decision=shown))
    assert set(made) == set(service.MARKED)
    for mark, name in service.MARKED.items():
        assert service.filled(page(name), mark, made[mark]) == page(name), AGAIN


def test_the_text_follows_the_description(api: dict[str, Any]) -> None:
    changed = copy.deepcopy(api)
    schemas = changed["components"]["schemas"]
    schemas["NewDecision"]["properties"]["n"]["anyOf"][0]["maximum"] = 12_345
    schemas["Decision"]["properties"]["colour"] = {"enum": ["red", "blue"]}
    post = changed["paths"]["/v1/experiments"]["post"]
    post["summary"], post["description"] = "Begin something.", post["description"].replace("admin", "read")
    text = service.text(changed)
    assert "| `n` | whole number from 1 to 12,345 or null |" in text and "| decisions at once (`n`) | 12,345 |" in text
    assert "| `colour`, may be absent | `red` or `blue` |" in text
    assert "`POST /v1/experiments`, for the role `read`. Begin something." in text


def test_a_route_without_words_is_found(api: dict[str, Any]) -> None:
    changed = copy.deepcopy(api)
    changed["paths"]["/v1/new"] = {"get": {**changed["paths"]["/v1/keys"]["get"], "operationId": "new"}}
    with pytest.raises(ValueError, match="each route must be in one group"):
        service.text(changed)
    changed = copy.deepcopy(api)
    del changed["components"]["schemas"]["NewKey"]["properties"]["note"]
    with pytest.raises(ValueError, match=r"fields of NewKey, but got \['note'\]"):
        service.text(changed)


def test_values_in_words() -> None:
    text = {"type": "string", "minLength": 1, "maxLength": 2000}
    for schema, words in (
        (text, "text of 1 to 2,000 characters"),
        ({"type": "string", "maxLength": 40, "default": "x"}, "text of up to 40 characters, default `x`"),
        ({"type": "string", "pattern": "^a$"}, "text like `^a$`"),
        ({"type": "string", "pattern": "^a$", "maxLength": 9}, "text of up to 9 characters like `^a$`"),
        ({"type": "string", "format": "date-time"}, "time"),
        (
            {"type": "array", "items": text, "minItems": 1, "maxItems": 9},
            "list of 1 to 9, each " + service.value_of(text),
        ),
        ({"type": "array", "items": {"type": "string"}}, "list of text"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}, "number or null"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        ({"type": "boolean", "default": False}, "true or false, default `false`"),
        ({"$ref": "#/components/schemas/Key"}, "[Key](#Key)"),
        ({}, "anything"),
    ):
        assert service.value_of(schema) == words


def test_every_field_of_a_request_and_every_kind_of_event_has_words(api: dict[str, Any]) -> None:
    bodies = {service._body_of(each) for path in api["paths"].values() for each in path.values()} - {None}
    for name in (*bodies, "Operation"):
        assert set(service_words.FIELDS[str(name)]) == set(api["components"]["schemas"][str(name)]["properties"])
    kinds = {value for name, value in vars(log).items() if name.isupper() and isinstance(value, str)}
    assert set(service_words.EVENTS) == kinds


def test_text_is_put_between_the_marks() -> None:
    once = service.filled("a\n<!-- x -->\nold\n<!-- /x -->\nb\n", "x", "new\n")
    assert once == "a\n<!-- x -->\n\nnew\n\n<!-- /x -->\nb\n" == service.filled(once, "x", "new\n")
    with pytest.raises(ValueError, match="<!-- y -->"):
        service.filled(once, "y", "new\n")


class Wrong(NamedTuple):
    """A request that has the error that the page lists for a route."""

    route: str
    status: int
    method: str
    path: str
    body: Any = None
    key: str = "admin"


NO, X = "/v1/experiments/no", "/v1/experiments/x"
EXPERIMENT = {"name": "x", "arms": ["a", "b"], "seed": 1}
WRONG = [
    Wrong("decide", 404, "POST", f"{NO}/decisions"),
    Wrong("decide", 409, "POST", "/v1/experiments/old/decisions"),
    Wrong("decide", 422, "POST", f"{X}/decisions", {"id": "open", "defer": True}),
    Wrong("decide", 422, "POST", f"{X}/decisions", {"among": ["z"]}),
    Wrong("decide", 422, "POST", f"{X}/decisions", {"metadata": {"a": 5000 * "b"}}),
    Wrong("feedback", 404, "PUT", f"{NO}/decisions/open/feedback", {"loss": 1}),
    Wrong("feedback", 404, "PUT", f"{X}/decisions/no/feedback", {"loss": 1}),
    Wrong("feedback", 409, "PUT", f"{X}/decisions/learned/feedback", {"loss": 2}),
    Wrong("feedback", 410, "PUT", "/v1/experiments/short/decisions/expired/feedback", {"loss": 2}),
    Wrong("feedback", 422, "PUT", f"{X}/decisions/open/feedback", {"reward": 1}),
    Wrong("feedback", 422, "PUT", f"{X}/decisions/open/feedback", b'{"loss": 1e999}'),
    Wrong("feedback", 422, "PUT", f"{X}/decisions/open/feedback", {"loss": 1, "key": "part"}),
    Wrong("feedback", 422, "PUT", "/v1/experiments/sum/decisions/open/feedback", {"loss": 1}),
    Wrong("feedback", 422, "PUT", "/v1/experiments/positive/decisions/open/feedback", {"loss": -1}),
    Wrong("activate", 404, "POST", f"{X}/decisions/no/activate"),
    Wrong("activate", 410, "POST", "/v1/experiments/short/decisions/expired/activate"),
    Wrong("batch", 422, "POST", "/v1/batch", {"operations": [{"experiment": "x", "decide": {"n": 100}}] * 11}),
    Wrong("create", 403, "POST", "/v1/experiments", EXPERIMENT, "shop"),
    Wrong("create", 409, "POST", "/v1/experiments", {**EXPERIMENT, "seed": 2}),
    Wrong("create", 409, "POST", "/v1/experiments", {**EXPERIMENT, "arms": ["a"]}),
    Wrong("create", 422, "POST", "/v1/experiments", {"name": "y", "arms": ["a"], "wait": "PT1S"}),
    Wrong("create", 422, "POST", "/v1/experiments", {"name": "y", "arms": ["a"], "policy": "exp3"}),
    Wrong("shown", 404, "GET", NO),
    Wrong("change", 404, "PATCH", NO, {}),
    Wrong("change", 422, "PATCH", X, {"forget": True}),
    Wrong("archive", 404, "POST", f"{NO}/archive"),
    Wrong("add_arm", 404, "PUT", f"{NO}/arms/c"),
    Wrong("add_arm", 409, "PUT", "/v1/experiments/many/arms/c"),
    Wrong("add_arm", 422, "PUT", f"{X}/arms/{201 * 'c'}"),
    Wrong("remove_arm", 404, "DELETE", f"{X}/arms/c"),
    Wrong("remove_arm", 409, "DELETE", "/v1/experiments/single/arms/a"),
    Wrong("report", 404, "GET", f"{NO}/report"),
    Wrong("evaluate", 404, "POST", f"{NO}/evaluations", {"arm": "a"}),
    Wrong("evaluate", 422, "POST", f"{X}/evaluations", {}),
    Wrong("evaluate", 422, "POST", f"{X}/evaluations", {"probabilities": {"a": 0.5, "b": 0.6}}),
    Wrong("evaluate", 422, "POST", f"{X}/evaluations", {"arm": "z"}),
    Wrong("events", 404, "GET", f"{NO}/events"),
    Wrong("export", 404, "GET", f"{NO}/export"),
    Wrong("imported", 404, "POST", f"{NO}/import", b"{}"),
    Wrong("imported", 409, "POST", f"{X}/import", Learner("uniform", ["a"]).to_json().encode()),
    Wrong("imported", 422, "POST", f"{X}/import", b"{}"),
    Wrong("imported", 422, "POST", f"{X}/import", Learner("recommended", [1, 2]).to_json().encode()),
    Wrong("erase", 404, "DELETE", f"{NO}/metadata"),
    Wrong("erase", 422, "DELETE", f"{X}/metadata?before=2026-01-31"),
    Wrong("create_key", 403, "POST", "/v1/keys", {"role": "read"}, "shop"),
    Wrong("revoke_key", 404, "DELETE", "/v1/keys/no"),
    Wrong("evaluate_flag", 400, "POST", "/ofrep/v1/evaluate/flags/x", {"context": {"umabSticky": "PT1H"}}),
    Wrong("evaluate_flag", 404, "POST", "/ofrep/v1/evaluate/flags/no"),
    Wrong("evaluate_flag", 404, "POST", "/ofrep/v1/evaluate/flags/old"),
    Wrong("evaluate_flags", 400, "POST", "/ofrep/v1/evaluate/flags", {"context": []}),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Client(tmp_path_factory.mktemp("pages")) as found:
        found.experiment("x")
        found.experiment("old")
        found.experiment("short", wait="PT1S", default_loss=1.0)
        found.experiment("sum", wait="PT1H", aggregation="sum")
        found.experiment("positive", policy="umab-nn")
        found.experiment("many", [f"arm {number}" for number in range(1000)])
        found.experiment("single", ["a"])
        for name in ("x", "short", "sum", "positive"):
            found.decide("open", name)
        found.decide("learned")
        found.decide("expired", "short")
        assert found.ask("PUT", f"{X}/decisions/learned/feedback", {"loss": 1}).status == 200
        assert found.ask("POST", "/v1/experiments/old/archive").status == 200
        found.sleep(2.0)
        yield found


def test_every_error_of_a_route_that_the_page_lists_is_shown_here(api: dict[str, Any]) -> None:
    listed = {(name, status) for name, about in service_words.ROUTES.items() for status in about.errors}
    assert listed == {(each.route, each.status) for each in WRONG}
    for path in api["paths"].values():
        for each in path.values():
            assert {str(status) for status in service_words.ROUTES[each["operationId"]].errors} <= set(
                each["responses"]
            )


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{each.route}-{each.status}-{at}" for at, each in enumerate(WRONG)])
def test_a_route_has_the_error_that_the_page_lists(wrong: Wrong, client: Client) -> None:
    key: dict[str, Callable[[], str]] = {
        "admin": lambda: client.key("admin"),
        "shop": lambda: client.key("admin", "shop-"),
    }
    reply = client.ask(wrong.method, wrong.path, wrong.body, key=key[wrong.key]())
    assert reply.status == wrong.status == reply.json["status"], reply
    assert ("errorCode" in reply.json) is wrong.path.startswith("/ofrep/")
