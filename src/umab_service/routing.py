"""What a route is, and what all of them share: a request that was let in, short answers, and checked bodies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from umab_service.keys import Key, Keys, Role
from umab_service.problems import Problem, invalid
from umab_service.relay import Relay
from umab_service.schema import NOT_SO_DEEP, encoded
from umab_service.service import Answer, Service


@dataclass(slots=True)
class Call:
    """A request that was let in."""

    service: Service
    keys: Keys
    key: Key
    query: bytes
    parts: dict[str, str]
    """The variable parts of the path."""
    body: Any
    headers: Sequence[tuple[bytes, bytes]] = ()
    relay: Relay | None = None
    """The other servers, if there may be any."""
    client: str = ""
    relayed: bool = False
    """Whether another server has passed it on, so that it must not go any further."""

    @property
    def name(self) -> str:
        """The name of the experiment in the path."""
        return self.parts["name"]

    @property
    def decision(self) -> str:
        """The id of the decision in the path."""
        return self.parts["decision"]

    @property
    def arm(self) -> str:
        """The arm in the path."""
        return self.parts["arm"]

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the query, if it is there."""
        return QueryParams(self.query).get(name)

    def header(self, name: bytes) -> str:
        """Return a header by its name in lower case; an empty text if it is not there."""
        return next((value.decode("latin-1") for each, value in self.headers if each == name), "")

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a number in the query."""
        text = self.parameter(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
            raise invalid(f"{name} must be a whole number from {least} to {most}, but got {text[:40]!r}")
        return int(text)


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """A route of the API."""

    method: str
    path: str
    role: Role
    about: str
    handler: Handler
    takes: object = None
    answers: tuple[tuple[int, object], ...] = ((200, dict[str, Any]),)
    raw: bool = False
    """Whether the body is passed on as it is."""
    query: dict[str, dict[str, object]] = field(default_factory=dict)
    """The parameters of the query, with their schemas."""
    media: str = "application/json"


NAME_PARAMETER = {"type": "string"}


def limit_parameter(most: int) -> dict[str, object]:
    """Return the schema of the parameter that says how many to return."""
    return {"type": "integer", "minimum": 1, "maximum": most}


ROUTES: list[Route] = []


def route(method: str, path: str, role: Role, about: str, **more: Any) -> Callable[[Handler], Handler]:
    """Return a decorator that adds a handler to the routes."""

    def add(handler: Handler) -> Handler:
        ROUTES.append(Route(method, path, role, about, handler, **more))
        return handler

    return add


class JSONResponse(Response):
    """A short answer in JSON; making the general one takes three times as long."""

    def __init__(self, content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.body, self.status_code, self.background = content, status, None
        kind = _PROBLEM if status >= 400 else _JSON
        self.raw_headers = [(b"content-length", b"%d" % len(content)), kind]
        for name, value in (headers or {}).items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


_JSON, _PROBLEM = (b"content-type", b"application/json"), (b"content-type", b"application/problem+json")


def answered(answer: Answer) -> Response:
    """Return an answer as a response."""
    return JSONResponse(encoded(answer.body), answer.status)


def decoded(route: Route, content: bytes) -> Any:
    """Return the body of a request, checked."""
    if route.raw:
        return content
    if route.takes is None:
        return None
    try:
        return _decoder(route.takes).decode(content or b"{}")
    except msgspec.ValidationError as error:
        raise invalid(f"the body must be as described: {error}") from None
    except RecursionError:
        raise invalid(NOT_SO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body must be JSON: {error}") from None


_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: object) -> msgspec.json.Decoder[Any]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]
