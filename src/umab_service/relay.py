"""Passing requests on to the server that owns their experiment, and taking in those that others pass on.

Requests that come together go to another server together: that costs it a fraction of what single requests would. Each
of them carries the key that it came with, and is checked where it is answered.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from umab_service.ownership import Elsewhere, Ownership
from umab_service.problems import Problem, unavailable

PATH = "/relay"
MOST_RELAYED = 64 << 20
"""The largest body of requests that are passed on together, in bytes."""
RELAY_SECONDS = 30.0
"""How long another server may take to answer."""
TRIES_SECONDS = 2.0
"""For how long the owner of an experiment is looked for, before the client is told to come again."""
MOST_FLYING = 8
"""How many requests to another server are open at a time."""
MISDIRECTED = 421
_SECRET = b"x-umab-relay"


class Asked(msgspec.Struct, array_like=True):
    """A request, as one server passes it on to another."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    client: str
    body: bytes


class Told(msgspec.Struct, array_like=True):
    """The answer to it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


_requests, _answers = msgspec.msgpack.Decoder(list[Asked]), msgspec.msgpack.Decoder(list[Told])


class Away(Exception):
    """Another server cannot be reached, so that it has not got the request."""


class Relay:
    """The other servers."""

    def __init__(self, ownership: Ownership, secret: bytes) -> None:
        self._ownership, self._secret = ownership, secret.hex().encode()
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(RELAY_SECONDS, connect=1.0), headers={"x-umab-relay": secret.hex()}, trust_env=False
        )
        self._peers: dict[str, _Peer] = {}

    async def close(self) -> None:
        """Close the connections to other servers."""
        await self._client.aclose()

    async def answered(
        self, name: str, asked: Asked, here: Callable[[], Awaitable[Response]], *, create: bool, relayed: bool
    ) -> Response:
        """Return the answer to a request about an experiment: made here, or where it is.

        While the experiment moves from one server to another, try again for a while.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + TRIES_SECONDS
        while True:
            try:
                address = await self._ownership.locate(name, create=create)
                if address is None:
                    return await here()
                if relayed:  # whoever has passed it on must look again
                    raise Problem(MISDIRECTED, f"the experiment {name!r} must be on this server, but it is not")
                told = await self.ask(address, asked)
                if told.status != MISDIRECTED:
                    return _response(told)
            except (Elsewhere, Away):
                pass
            self._ownership.misplaced(name)
            if loop.time() > until:
                raise unavailable(f"the experiment {name!r} is moving from one server to another")
            await asyncio.sleep(0.05)

    async def ask(self, address: str, asked: Asked) -> Told:
        """Return the answer of another server."""
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = _Peer(self._client, address)
        return await peer.ask(asked)

    # What others pass on.

    async def taken_in(self, app: Any, scope: Scope, content: bytes) -> Response:
        """Answer requests that another server has passed on."""
        shown = next((value for header, value in scope["headers"] if header == _SECRET), b"")
        if not hmac.compare_digest(shown, self._secret):
            raise Problem(404, f"a path must be one that /openapi.json describes, but got {PATH!r}")
        told = await asyncio.gather(*(_asked_here(app, scope, each) for each in _requests.decode(content)))
        return Response(msgspec.msgpack.encode(told), media_type="application/msgpack")


def asked_for(scope: Scope, body: bytes) -> Asked:
    """Return a request as it is passed on."""
    client = scope["client"][0] if scope["client"] else ""
    return Asked(scope["method"], scope["path"], scope["query_string"], list(scope["headers"]), client, body)


async def _asked_here(app: Any, scope: Scope, asked: Asked) -> Told:
    """Return the answer of the application to a request that was passed on."""
    told = Told(500, [], b"")
    parts: list[bytes] = []
    inner = {
        **scope,
        "method": asked.method,
        "path": asked.path,
        "query_string": asked.query,
        "headers": asked.headers,
        "client": (asked.client, 0) if asked.client else None,
        "relayed": True,
    }
    bodies = [{"type": "http.request", "body": asked.body, "more_body": False}]

    async def receive() -> Any:
        if not bodies:
            raise ClientDisconnect
        return bodies.pop()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            told.status, told.headers = message["status"], list(message["headers"])
        else:
            parts.append(message.get("body", b""))

    await app(inner, receive, send)
    told.body = b"".join(parts)
    return told


def _response(told: Told) -> Response:
    found = Response(told.body, told.status)
    found.raw_headers = [(bytes(name), bytes(value)) for name, value in told.headers]
    return found


class _Peer:
    """Another server, and the requests that wait to be passed on to it."""

    def __init__(self, client: httpx.AsyncClient, address: str) -> None:
        self._client, self._url = client, address + PATH
        self._waiting: list[tuple[Asked, asyncio.Future[Told]]] = []
        self._n_flying = 0
        self._scheduled = False

    async def ask(self, asked: Asked) -> Told:
        """Return the answer to a request, which goes with others that come at the same time."""
        done: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, done))
        self._schedule()
        return await done

    def _schedule(self) -> None:
        if not self._scheduled and self._waiting and self._n_flying < MOST_FLYING:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        some, self._waiting, self._scheduled = self._waiting, [], False
        if some:
            self._n_flying += 1
            sending = asyncio.create_task(self._send(some))
            sending.add_done_callback(lambda _: self._landed())

    def _landed(self) -> None:
        self._n_flying -= 1
        self._schedule()

    async def _send(self, some: Sequence[tuple[Asked, asyncio.Future[Told]]]) -> None:
        try:
            told = await self._sent([asked for asked, _ in some])
        except Exception as error:
            for _, done in some:
                if not done.done():
                    done.set_exception(error)
            return
        for (_, done), each in zip(some, told, strict=True):
            if not done.done():
                done.set_result(each)

    async def _sent(self, asked: list[Asked]) -> list[Told]:
        try:
            response = await self._client.post(self._url, content=msgspec.msgpack.encode(asked))
        except httpx.ConnectError as error:
            raise Away(str(error)) from None
        except httpx.HTTPError as error:
            raise unavailable(f"the server that owns the experiment did not answer: {error}") from None
        if response.status_code != 200:
            raise Away(f"it answered {response.status_code}")
        return _answers.decode(response.content)
