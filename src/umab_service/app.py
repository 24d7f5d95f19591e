"""The ASGI application: it lets requests in, and turns what happens into responses."""

from __future__ import annotations

import functools
import logging
import re
import time
from collections.abc import Callable, Sequence

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from umab_service import administration, ofrep
from umab_service.bodies import Bodies
from umab_service.dashboard import MOST_FORM, Dashboard
from umab_service.keys import Key, Keys
from umab_service.metrics import CONTENT_TYPE, Metrics
from umab_service.openapi import description
from umab_service.peers import PATH as RELAY
from umab_service.problems import ONLY_TLS, RAW_HEADERS, Problem, failure, unavailable
from umab_service.relay import MISDIRECTED, MOST_RELAYED, Relay, asked_for
from umab_service.routes import ROUTES
from umab_service.routing import Call, JSONResponse, Route, decoded
from umab_service.schema import NewExperiment, encoded
from umab_service.service import Service
from umab_service.storage import DatabaseError
from umab_service.throttle import Throttle

MOST_BODY = 1 << 20
"""The largest body of a request, in bytes."""
MOST_IMPORTED = 8 << 20
"""The largest learner to import, in bytes."""

logger = logging.getLogger("umab_service")


class Application:
    """The routes behind a guard: keys, limits, headers, metrics and errors.

    Starlette reads requests and writes responses. Its router and its middleware are left out: with as many routes as
    here they would take as long as the decision itself.
    """

    def __init__(self, service: Service, keys: Keys, *, tls: bool = False, relay: Relay | None = None) -> None:
        self.service, self.keys, self._relay = service, keys, relay
        self._headers = [*RAW_HEADERS, ONLY_TLS] if tls else RAW_HEADERS
        self.metrics, self.throttle, self.bodies = Metrics(service), Throttle(), Bodies()
        self.dashboard = Dashboard(service, keys, self._admit)
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
        label, headers = "other", self._headers
        try:
            if path in self._open and method in ("GET", "HEAD"):
                label, response = f"GET {path}", self._open[path]()
            elif path == RELAY and self._relay is not None:
                label = RELAY
                self._relay.check(scope)  # before its body, which may be large, is read
                content = await self.bodies.read(receive, MOST_RELAYED)
                response = await self._relay.taken_in(self, scope, content)
            elif self.dashboard.covers(path):
                label, response = await self._page(scope, receive)
                headers = [each for each in headers if each[0] not in dict(response.raw_headers)]
            else:
                key = self._key(scope)
                label, route, parts = self._route(method, path)
                if not key.may(route.role, parts.get("name")):
                    raise Problem(
                        403, f"a key must have the role {route.role!r} and cover the experiment, but this one does not"
                    )
                content = await self.bodies.read(receive, MOST_IMPORTED if route.raw else MOST_BODY)
                body = decoded(route, content)
                call = Call(self.service, self.keys, key, scope["query_string"], parts, body, scope["headers"])
                if self._relay is None:
                    response = await _handled(route, call)
                else:
                    response = await self._placed(route, call, scope, content)
        except Problem as problem:
            response = ofrep.failed(problem, path) or _problem(problem)
        except DatabaseError as error:  # it may name hosts and users, which callers need not know
            logger.warning("a request failed: %s: %s", label, error)
            response = _problem(unavailable("the database cannot be used at the moment; the server's log says why"))
        except ClientDisconnect:
            response = Response(status_code=400)
        except Exception:
            logger.exception("a request failed: %s", label)
            response = _problem(failure())
        if "relayed" not in scope:  # else the server that passed it on will add them
            response.raw_headers.extend(headers)
        self.metrics.answered(label, response.status_code, time.perf_counter() - started)
        await response(scope, receive, send)

    def _key(self, scope: Scope) -> Key:
        """Return the key of a request; refuse it if it has none, before it learns anything else."""
        return self._admit(scope, _shown_key(scope))

    def _admit(self, scope: Scope, text: str) -> Key:
        """Return the key with this text; slow down who guesses."""
        client, now = scope["client"][0] if scope["client"] else "", time.monotonic()
        found = self.keys.find(text)
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

    async def _placed(self, route: Route, call: Call, scope: Scope, content: bytes) -> Response:
        """Answer a request where its experiment is: on this server, or on another one."""
        assert self._relay is not None
        asked = asked_for(scope, content)
        call.relay, call.headers, call.client, call.relayed = (
            self._relay,
            asked.headers,
            asked.client,
            "relayed" in scope,
        )
        creates = route.takes is NewExperiment
        name = call.body.name if creates else call.parts.get("name")
        if name is None or (creates and not call.key.may("admin", name)):
            return await _handled(route, call)
        here = functools.partial(_handled, route, call)
        create = functools.partial(administration.check_new, self.service, call.body) if creates else None
        return await self._relay.answered(name, asked, here, create=create, relayed=call.relayed)

    async def _page(self, scope: Scope, receive: Receive) -> tuple[str, Response]:
        """Return the label and the answer of a request for a page, from the server that has the experiment."""
        name = self.dashboard.experiment_in(scope["path"])
        # Who has no session goes to the login, whether there is such an experiment or not.
        if self._relay is None or name is None or await self.dashboard.sessions.find(scope) is None:
            return await self.dashboard.answer(scope, lambda: self.bodies.read(receive, MOST_FORM))
        content = await self.bodies.read(receive, MOST_FORM)
        label = "page"

        async def read() -> bytes:
            return content

        async def here() -> Response:
            nonlocal label
            label, response = await self.dashboard.answer(scope, read)
            return response

        try:
            asked = asked_for(scope, content)
            return label, await self._relay.answered(name, asked, here, relayed="relayed" in scope)
        except Problem as problem:
            if problem.status == MISDIRECTED:
                raise
            return label, self.dashboard.failed(problem)

    async def _metrics(self, call: Call) -> Response:
        """Return the metrics, which are about all experiments."""
        if call.key.prefix:
            raise Problem(
                403, f"a key must cover all experiments to read metrics, but this one covers {call.key.prefix!r}"
            )
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)


async def _handled(route: Route, call: Call) -> Response:
    """Return the answer of a route. A refusal may rest on what another request has done: it must be stored."""
    try:
        return await route.handler(call)
    except BaseException as error:
        call.service.abandon()
        if isinstance(error, Problem) and error.status < 500:
            await call.service.stored()
        raise


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
