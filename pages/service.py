"""The reference of the decision service, `docs/serve/api.md`, and what other pages have of its code.

`python -m pages.service docs` writes the page from the OpenAPI description, and puts limits, metrics, sizes and times
that are in the code between the marks of other pages.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from markdown.extensions.toc import slugify

from pages import service_servers
from pages import service_words as words
from umab._support.files import write_atomically
from umab.research.report import shell
from umab_service import (
    administration,
    app,
    bodies,
    decisions,
    durations,
    experiment,
    feedback,
    ofrep,
    protocol,
    recovery,
    reports,
    service,
    silence,
    throttle,
)
from umab_service.metrics import MOST_SERIES, Metrics
from umab_service.openapi import description
from umab_service.protocol import Protocol
from umab_service.routes import MOST_AT_ONCE, ROUTES
from umab_service.schema import MOST_LEVELS, Feedback, NewDecision, NewExperiment
from umab_service.sqlite import SQLite

FOLDER, PAGE = "serve", "api.md"
MARKED = {
    "limits": "security.md",
    "metrics": "operations.md",
    "sizes": "operations.md",
    "connections": "operations.md",
    "times": "availability.md",
}
"""The marks, and the pages that they are on."""


class Field(NamedTuple):
    """A field of a request or an answer."""

    name: str
    value: str
    required: bool
    about: str


class Shown(NamedTuple):
    """A route, as the page shows it."""

    title: str
    method: str
    path: str
    role: str
    summary: str
    text: str
    parameters: list[tuple[str, str, str]]
    body: list[Field]
    answers: str
    errors: list[tuple[int, str]]

    @property
    def anchor(self) -> str:
        """What a link leads to."""
        return str(slugify(self.title, "-"))


class Type(NamedTuple):
    """A type of answers, or of what is inside a request."""

    name: str
    about: str
    fields: list[Field]


def described() -> dict[str, Any]:
    """Return the OpenAPI description as a server sends it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(description(ROUTES)))
    return found


def text(api: dict[str, Any]) -> str:
    """Return the page."""
    operations = {each["operationId"]: each for path in api["paths"].values() for each in path.values()}
    if set(operations) != {name for group in words.GROUPS.values() for name in group}:
        raise ValueError(f"each route must be in one group of pages/service_words.py, but got {sorted(operations)}")
    by_name = {
        operation["operationId"]: _shown(method.upper(), path, operation, api["components"]["schemas"])
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    }
    groups = [(group, [by_name[name] for name in names]) for group, names in words.GROUPS.items()]
    content = {
        "errors": [(status, *about) for status, about in words.ERRORS.items()],
        "all_routes": [route for _, routes in groups for route in routes],
        "groups": groups,
        "events": list(words.EVENTS.items()),
        "types": list(_types(api, operations)),
        "limits": limits(api),
    }
    made = re.sub(r"\n{3,}", "\n\n", shell.markdown("service.md", content, "pages"))
    anchors = {body: by_name[name].anchor for name, each in operations.items() if (body := _body_of(each))}
    return re.sub(r"\]\(#(\w+)\)", lambda found: f"](#{_anchor(found[1], anchors)})", made).rstrip("\n") + "\n"


def _anchor(type_name: str, anchors: dict[str, str]) -> str:
    """Return where a type is described: with its route if it is the body of a request, else by itself."""
    return anchors.get(type_name, type_name.lower())


def _body_of(operation: dict[str, Any]) -> str | None:
    """Return the name of the type of the body of a request."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return _name(schema) if "$ref" in schema else None


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _shown(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Shown:
    about = words.ROUTES[operation["operationId"]]
    role = re.search(r"the role '(\w+)'", operation["description"])
    if role is None:
        raise ValueError(f"the description of a route must name a role, but got {operation['description']!r}")
    body = _body_of(operation)
    return Shown(
        about.title,
        method,
        path,
        role[1],
        operation["summary"],
        textwrap.fill(about.text, 120, break_long_words=False, break_on_hyphens=False),
        [(each["name"], each["in"], value_of(each["schema"])) for each in operation["parameters"]],
        [] if body is None else list(_fields(body, schemas[body])),
        ", ".join(_answers(operation)),
        list(about.errors.items()),
    )


def _answers(operation: dict[str, Any]) -> Iterator[str]:
    for status, response in operation["responses"].items():
        if int(status) < 400 and "content" in response:
            (media, content), *_ = response["content"].items()
            yield f"{status} with {value_of(content['schema']) if content['schema'] else f'`{media}`'}"


def _fields(name: str, schema: dict[str, Any]) -> Iterator[Field]:
    notes = words.FIELDS.get(name, {})
    if unknown := set(notes) - set(schema["properties"]):
        raise ValueError(f"notes must be about fields of {name}, but got {sorted(unknown)}")
    for field, value in schema["properties"].items():
        yield Field(field, value_of(value), field in schema["required"], notes.get(field, ""))


def _types(api: dict[str, Any], operations: dict[str, Any]) -> Iterator[Type]:
    """Yield the types that are not bodies of requests, which are with their routes."""
    bodies = {_body_of(each) for each in operations.values()}
    for name, schema in sorted(api["components"]["schemas"].items()):
        if name not in bodies:
            about = schema.get("description", "What is wrong with a request.")
            yield Type(name, about, list(_fields(name, schema)))


def value_of(schema: dict[str, Any]) -> str:
    """Return in words what a value must be."""
    if "$ref" in schema:
        return f"[{_name(schema)}](#{_name(schema)})"
    if "anyOf" in schema:
        either = " or ".join("null" if each == {"type": "null"} else value_of(each) for each in schema["anyOf"])
        return either + _default(schema)
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"]) + _default(schema)
    kind = schema.get("type")
    if kind is None:
        return "anything"
    if kind == "array":
        bounds = _bounds(schema, "minItems", "maxItems").rstrip()
        return f"list of {f'{bounds}, each ' if bounds else ''}{value_of(schema['items'])}"
    if kind == "object":
        values = schema.get("additionalProperties")
        bounds = _bounds(schema, "minProperties", "maxProperties").rstrip()
        return (
            f"object of {f'{bounds}, each ' if bounds else ''}{value_of(values)}"
            if isinstance(values, dict)
            else "object"
        )
    if kind == "string":
        return _string(schema) + _default(schema)
    names = {"number": "number", "integer": "whole number", "boolean": "true or false"}
    return f"{names[kind]} {_range(schema)}".rstrip() + _default(schema)


def _string(schema: dict[str, Any]) -> str:
    form = {"date-time": "time"}.get(schema.get("format", ""), "text")
    bounds = _bounds(schema, "minLength", "maxLength")
    if "pattern" not in schema:
        return f"{form} of {bounds}characters" if bounds else form
    return f"text of {bounds}characters like `{_pattern(schema)}`" if bounds else f"text like `{_pattern(schema)}`"


def _pattern(schema: dict[str, Any]) -> str:
    """Return a pattern without what only Python needs to see the end of a text."""
    return str(schema["pattern"]).replace(r"$(?!\n)", "$")


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    return "" if default in (None, "", {}) else f", default `{msgspec.json.encode(default).decode()}`".replace('"', "")


def _bounds(schema: dict[str, Any], least: str, most: str) -> str:
    if most not in schema:
        return ""
    return f"{schema[least]} to {schema[most]:,} " if least in schema else f"up to {schema[most]:,} "


def _range(schema: dict[str, Any]) -> str:
    return f"from {schema['minimum']} to {schema['maximum']:,}" if "maximum" in schema else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def limits(api: dict[str, Any]) -> str:
    """Return the table of limits, each from the constant that the server has."""
    schemas = {name: schema["properties"] for name, schema in api["components"]["schemas"].items() if name != "Problem"}
    arms, decision = schemas["NewExperiment"]["arms"], schemas["NewDecision"]
    queries = {
        each["operationId"]: {one["name"]: one["schema"] for one in each["parameters"]}
        for path in api["paths"].values()
        for each in path.values()
    }
    rows = [
        ("connections at a time", f"{Protocol.most_connections:,}, or `--connections`", "503, and closed"),
        (
            "head of a request",
            f"{_bytes(protocol.MOST_HEAD)}, each header with {protocol.PER_HEADER} bytes more",
            "431, and closed",
        ),
        ("time that a head may take to arrive", f"{protocol.HEAD_SECONDS:g} s", "408, and closed"),
        ("requests that wait on a connection", f"{protocol.MOST_PIPELINED}", "closed after their answers"),
        ("body of a request", _bytes(app.MOST_BODY), "413"),
        ("learner that is imported", _bytes(app.MOST_IMPORTED), "413"),
        ("values in the state of a learner", f"{experiment.MOST_VALUES:,}", "422"),
        ("time that a body may take to arrive", f"{bodies.BODY_SECONDS:g} s", "408"),
        ("name of an experiment", f"`{_pattern(schemas['NewExperiment']['name'])}`", "422"),
        ("arms of an experiment", f"{arms['maxItems']:,}", "422, or 409 for an arm that is added"),
        ("name of an arm", f"{arms['items']['maxLength']} characters", "422"),
        ("id of a decision", f"`{_pattern(decision['id']['anyOf'][0])}`", "422"),
        ("decisions at once (`n`)", f"{decision['n']['anyOf'][0]['maximum']:,}", "422"),
        ("decisions and feedback in a batch", f"{MOST_AT_ONCE:,}", "422"),
        ("metadata of a decision", f"{_bytes(service.MOST_METADATA)} of JSON", "422"),
        ("levels of lists and objects in metadata", f"{MOST_LEVELS}", "422"),
        ("parts of a sum", f"{feedback.MOST_PARTS:,}", "422"),
        ("key of a part", f"{schemas['Feedback']['key']['anyOf'][0]['maxLength']} characters", "422"),
        ("wait", f"{durations.LONGEST / 86400:,.0f} days", "422"),
        ("flags that a bulk evaluation decides", f"{ofrep.MOST_FLAGS:,}", "`GENERAL` for each of the others"),
        ("targetingKey", f"{ofrep.MOST_TARGETING_KEY:,} characters", "400"),
        ("experiments in a list", f"{queries['listed']['limit']['maximum']:,}", "422"),
        ("events that are read at once", f"{queries['events']['limit']['maximum']:,}", "422"),
        ("events that are read at once, together", _bytes(reports.MOST_PAGE), "the page ends early"),
        ("rounds that estimates are made from", f"the latest {reports.MOST_ROUNDS:,}", "older ones are not used"),
        ("pairs of experiment and arm with metrics of their own", f"{MOST_SERIES:,}", "others are left out"),
        ("wrong keys from one address that are answered at once", f"{throttle.FREE}", "429 afterwards"),
        ("time that such an address has to wait", f"{throttle.LONGEST:g} s at most", "429"),
    ]
    return table(("what", "at most", "beyond it"), rows)


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


class Measured(NamedTuple):
    """What was asked of a server that has made decisions."""

    metrics: list[tuple[str, str, str]]
    """The name, the kind and the help of each."""
    decision: float
    """How many bytes a decision with its feedback takes on disk."""
    write_ahead_log: int
    """In bytes."""
    cache: int
    """In bytes."""


async def measured(n_decisions: int = 2000) -> Measured:
    """Return what a server says about itself, and what decisions take."""
    with tempfile.TemporaryDirectory() as folder:
        storage = SQLite(Path(folder) / "umab.db")
        found = service.Service(storage)
        await found.start()
        try:
            administration.create(found, NewExperiment("x", ["a", "b", "c"]))
            await found.stored()
            before = _size(storage)
            for number in range(n_decisions):
                decisions.decide(found, "x", NewDecision(id=f"{number:032d}"))
                feedback.feedback(found, "x", f"{number:032d}", Feedback(loss=1.0 + number % 7))
            await found.stored()
            metrics = Metrics(found)
            metrics.answered("GET /healthz", 200, 0.001)
            return Measured(
                [(_metric(each), each.type, each.documentation) for each in metrics.collect()],
                (_size(storage) - before) / n_decisions,
                _pragma(storage, "wal_autocheckpoint") * _pragma(storage, "page_size"),
                -1024 * _pragma(storage, "cache_size"),
            )
        finally:
            await found.stop()


def _metric(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def _pragma(found: SQLite, name: str) -> int:
    (value,) = found.connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _size(found: SQLite) -> int:
    found.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return found.path.stat().st_size


def sizes(found: Measured) -> str:
    """Return the table of sizes and times; that of a decision is measured, the others are constants of the server."""
    rows = [
        (
            "a decision with its feedback, on disk",
            f"about {found.decision / 1000:.1f} kB, with three arms, an id of 32 characters and no metadata",
        ),
        ("the write-ahead log, `umab.db-wal`", f"about {found.write_ahead_log / 1e6:.0f} MB; more during a backup"),
        ("the cache of the database, in memory", f"up to {found.cache / 1e6:.0f} MB"),
        ("the latest decisions, in memory", f"{service.MOST_ROWS:,} of them"),
        (
            "a snapshot of an experiment",
            f"after {service.SNAPSHOT_EVERY:,} of its events; also when all experiments together have more than "
            f"{silence.MOST_SINCE_SNAPSHOTS:,} events after their snapshots; and when the server is told to stop",
        ),
        ("events that a start replays only to check snapshots", f"about {recovery.MOST_CHECKED:,} at most"),
        ("looking for waits that have ended", f"every {silence.TICK:g} s"),
        ("deleting what is older than the retention", f"every {silence.PRUNE_EVERY / 60:g} minutes"),
    ]
    return table(("what", "how much, or when"), rows)


def marked(api: dict[str, Any], found: Measured) -> dict[str, str]:
    """Return what stands between the marks of pages."""
    return {
        "limits": limits(api),
        "metrics": table(("metric", "kind", "what it is"), found.metrics),
        "sizes": sizes(found),
        "connections": table(("for", "connections"), service_servers.connections()),
        "times": table(("what", "how long, or how many"), service_servers.times()),
    }


def filled(page: str, mark: str, made: str) -> str:
    """Return a page with this text between its marks."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"the page must have the lines {begin.strip()} and {end.strip()}")
    return f"{before}{begin}\n{made}\n{end}{rest.partition(end)[2]}"


def write(docs: Path) -> None:
    """Write the page, and what is between marks on others."""
    api, found, folder = described(), asyncio.run(measured()), docs / FOLDER
    write_atomically(folder / PAGE, text(api).encode())
    for mark, made in marked(api, found).items():
        path = folder / MARKED[mark]
        write_atomically(path, filled(path.read_text(encoding="utf-8"), mark, made).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
