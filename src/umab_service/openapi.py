"""The description of the API, from the types that validate requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from umab import __version__
from umab_service.routing import Route
from umab_service.schema import PYTHON_END, Arm, Name

_PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
_PARTS = {
    "name": msgspec.json.schema(Name),
    "arm": msgspec.json.schema(Arm),
    "decision": {"type": "string", "minLength": 1, "maxLength": 140},
    "key": {"type": "string", "minLength": 1, "maxLength": 40},
}
_NOT_MODIFIED = {"description": "the answer is the one that If-None-Match names"}
_ERRORS = (400, 401, 403, 404, 405, 408, 409, 410, 413, 422, 429, 503)


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the API as OpenAPI 3.1 describes it."""
    kinds = [each.takes for each in routes if each.takes is not None]
    kinds += [kind for each in routes for _, answer in each.answers for kind in _kinds(answer)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        path = re.sub(r"{(\w+):path}", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, schema_of)
    found = {
        "openapi": "3.1.0",
        "info": {"title": "umab decision service", "version": __version__},
        "security": [{"bearer": []}, {"header": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }
    return cast(dict[str, Any], _plain(found))


def _plain(schema: object) -> object:
    """Return a schema whose patterns end with $ alone: in JSON Schema that is the end of the text."""
    if isinstance(schema, list | tuple):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value.removesuffix(PYTHON_END) if key == "pattern" else _plain(value) for key, value in schema.items()}


def _operation(route: Route, path: str, schema_of: Mapping[str, object]) -> dict[str, object]:
    names = re.findall(r"{(\w+)}", path)
    found: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.about,
        "description": f"Needs a key with the role {route.role!r} or a higher one.",
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _PARTS[name]} for name in names),
            *({"name": name, "in": "query", "schema": schema} for name, schema in route.query.items()),
        ],
        "responses": {
            str(status): _NOT_MODIFIED if status == 304 else _response(kind, route.media, schema_of)
            for status, kind in route.answers
        },
    }
    for status in _ERRORS:
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        found["responses"].setdefault(str(status), {"description": "a problem", "content": content})
    if route.raw:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    elif route.takes is not None:
        schema = schema_of[repr(route.takes)]
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def _response(kind: object, media: str, schema_of: Mapping[str, object]) -> dict[str, object]:
    found = [schema_of[repr(each)] for each in _kinds(kind)]
    schema = {} if not found else found[0] if len(found) == 1 else {"anyOf": found}
    return {"description": "done", "content": {media: {"schema": schema}}}


def _kinds(answer: object) -> tuple[object, ...]:
    """Return the types that an answer may have."""
    return answer if isinstance(answer, tuple) else () if answer is None else (answer,)
