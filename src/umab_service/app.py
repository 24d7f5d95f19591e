"""The ASGI application: it lets requests in, and turns what happens into responses."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from umab_service.bodies import Bodies
from umab_service.keys import Key, Keys
from umab_service.metrics import CONTENT_TYPE, Metrics
from umab_service.openapi import description
from umab_service.problems import Problem, unavailable
from umab_service.routes import ROUTES
from umab_service.routing import Call, JSONResponse, Route, decoded
from umab_service.schema import encoded
from umab_service.service import Service
from umab_service.throttle import Throttle

MOST_BODY = 1 << 20
"""The largest body of a request, in bytes."""
MOST_IMPORTED = 32 << 20
"""The largest learner to import, in bytes."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer."""
_RAW_HEADERS = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in HEADERS.items()]
_ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")

logger = logging.getLogger("umab_service")


class Application:
    """The routes behind a guard: keys, limits, headers, metrics and errors.

    Starlette reads requests and writes responses. Its router and its middleware are left out: with as many routes as
    here they would take as long as the decision itself.
    """

    def __init__(self, service: Service, keys: Keys, *, tls: bool = False) -> None:
        self.service, self.keys = service, keys
        self._headers = [*_RAW_HEADERS, _ONLY_TLS] if tls else _RAW_HEADERS
        self.metrics, self.throttle, self.bodies = Metrics(service), Throttle(), Bodies()
        described = encoded(description(ROUTES))
        self._open: dict[str, Callable[[], Response]] = {
            "/openapi.json": lambda: JSONResponse(described),
            "/healthz": lambda: JSONResponse(b'{"status":"ok"}'),
            "/readyz": lambda: _ready(service),
        }
        self._paths = _patterns([*ROUTES, Route("GET", "/metrics", "read", "Metrics.", self._metrics)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = time.perf_counter()
        method, path = scope["method"], scope["path"]
        label = "other"
        try:
            if path in self._open and method in ("GET", "HEAD"):
                label, response = f"GET {path}", self._open[path]()
            else:
                key = self._key(scope)
                label, route, parts = self._route(method, path)
                if not key.may(route.role, parts.get("name")):
                    raise Problem(
                        403, f"a key must have the role {route.role!r} and cover the experiment, but this one does not"
                    )
                content = await self.bodies.read(receive, MOST_IMPORTED if route.raw else MOST_BODY)
                body = decoded(route, content)
                response = await route.handler(Call(self.service, self.keys, key, scope["query_string"], parts, body))
        except Problem as problem:
            response = _problem(problem)
        except ClientDisconnect:
            response = Response(status_code=400)
        except Exception:
            logger.exception("a request failed: %s", label)
            if method != "GET":
                self.service.discard()
            response = _problem(Problem(500, "the server failed; its log says why"))
        response.raw_headers.extend(self._headers)
        self.metrics.answered(label, response.status_code, time.perf_counter() - started)
        await response(scope, receive, send)

    def _key(self, scope: Scope) -> Key:
        """Return the key of a request; refuse it if it has none, before it learns anything else."""
        client, now = scope["client"][0] if scope["client"] else "", time.monotonic()
        found = self.keys.find(_shown_key(scope))
        if wait := self.throttle.wait(client, None if found is None else found.id, now):
            raise Problem(
                429,
                f"a client must wait after many wrong keys, but {client} came {wait:.0f} s too soon",
                {"Retry-After": str(int(wait) + 1)},
            )
        if found is None:
            self.throttle.failed(client, now)
            raise Problem(
                401,
                "a request must carry a valid key, as Authorization: Bearer KEY or X-API-Key: KEY",
                {"WWW-Authenticate": "Bearer"},
            )
        self.throttle.passed(client, found.id)
        return found

    def _route(self, method: str, path: str) -> tuple[str, Route, dict[str, str]]:
        """Return a route with its label and the variable parts of its path."""
        for pattern, routes in self._paths:
            found = pattern.fullmatch(path)
            if found is not None:
                if method not in routes:
                    allowed = ", ".join(sorted(routes))
                    raise Problem(405, f"the method must be one of {allowed}, but got {method}", {"Allow": allowed})
                label, route = routes[method]
                return label, route, found.groupdict()
        raise Problem(404, f"a path must be one that /openapi.json describes, but got {path[:100]!r}")

    async def _metrics(self, call: Call) -> Response:
        """Return the metrics, which are about all experiments."""
        if call.key.prefix:
            raise Problem(
                403, f"a key must cover all experiments to read metrics, but this one covers {call.key.prefix!r}"
            )
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)


_Patterns = list[tuple[re.Pattern[str], dict[str, tuple[str, Route]]]]


def _patterns(routes: Sequence[Route]) -> _Patterns:
    """Return a pattern for each path, with the labels and routes of its methods."""
    found: dict[str, dict[str, tuple[str, Route]]] = {}
    for each in routes:
        found.setdefault(each.path, {})[each.method] = f"{each.method} {each.path.replace(':path', '')}", each
    return [(re.compile(_pattern(path)), methods) for path, methods in found.items()]


def _pattern(path: str) -> str:
    return re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", re.sub(r"{(\w+):path}", r"(?P<\1>(?s:.+))", path))


def _shown_key(scope: Scope) -> str:
    """Return the text of the key that a request carries."""
    found = b""
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return bytes(value[7:]).decode("latin-1").strip()
        if name == b"x-api-key":
            found = value
    return found.decode("latin-1").strip()


def _ready(service: Service) -> Response:
    if service.ready:
        return JSONResponse(b'{"status":"ready"}')
    return _problem(unavailable("the server is reading its log"))


def _problem(problem: Problem) -> Response:
    return JSONResponse(encoded(problem.body()), problem.status, problem.headers)
