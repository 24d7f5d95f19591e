"""Passing requests on to the server that owns their experiment, and taking in those that others pass on.

Requests that come together go to another server together: that costs it a fraction of what single requests would. Each
of them carries the key that it came with, and is checked where it is answered.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from umab_service.ownership import Elsewhere, Ownership
from umab_service.peers import PATH, Asked, Away, Peer, Told
from umab_service.problems import Problem, unavailable

MOST_RELAYED = 64 << 20
"""The largest body of requests that are passed on together, in bytes."""
TRIES_SECONDS = 2.0
"""For how long the owner of an experiment is looked for, before the client is told to come again."""
MISDIRECTED = 421
_SECRET = b"x-umab-relay"


logger = logging.getLogger("umab_service")

_requests = msgspec.msgpack.Decoder(list[Asked])


class Relay:
    """The other servers."""

    def __init__(self, ownership: Ownership, secret: bytes) -> None:
        self._ownership, self._secret = ownership, secret.hex().encode()
        self._trusted = ssl.create_default_context()  # whom the system trusts, or SSL_CERT_FILE says
        self._peers: dict[str, Peer] = {}

    async def close(self) -> None:
        """Close the connections to other servers."""
        for peer in self._peers.values():
            peer.close()

    async def answered(
        self,
        name: str,
        asked: Asked,
        here: Callable[[], Awaitable[Response]],
        *,
        create: Callable[[], Awaitable[None]] | None = None,
        relayed: bool,
    ) -> Response:
        """Return the answer to a request about an experiment: made here, or where it is.

        With `create`, which raises unless that can be done, the request may be to create it.
        While the experiment moves from one server to another, try again for a while.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + TRIES_SECONDS

        async def checked() -> None:
            nonlocal until
            assert create is not None
            await create()
            until = loop.time() + TRIES_SECONDS  # that may have taken longer: a policy may have been compiled

        while True:
            address = None
            try:
                address = await self._ownership.locate(name, create=None if create is None else checked)
                if address is None:
                    return await here()
                if relayed:  # whoever has passed it on must look again
                    raise Problem(MISDIRECTED, f"the experiment {name!r} must be on this server, but it is not")
                told = await self._told(name, address, asked)
                if told.status != MISDIRECTED:
                    return _Passed(told)
                why = f"{address} does not own it any more"
            except Elsewhere:
                why = "nobody owns it yet"
            except Away as error:
                why = f"{address} cannot be reached: {error}"
            self._ownership.misplaced(name)
            if loop.time() > until:
                logger.warning("the owner of %r was not found: %s", name, why)
                raise unavailable(f"the experiment {name!r} is moving from one server to another")
            await asyncio.sleep(0.05)

    async def _told(self, name: str, address: str, asked: Asked) -> Told:
        try:
            return await self.ask(address, asked)
        except Problem:
            self._ownership.misplaced(name)  # a server that does not answer may not be its owner for long
            raise

    async def ask(self, address: str, asked: Asked) -> Told:
        """Return the answer of another server."""
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(address, self._secret, self._trusted)
        return await peer.ask(asked)

    # What others pass on.

    def check(self, scope: Scope) -> None:
        """Raise unless it is another server that asks."""
        shown = next((value for header, value in scope["headers"] if header == _SECRET), b"")
        if not hmac.compare_digest(shown, self._secret):
            raise Problem(404, f"a path must be one that /openapi.json describes, but got {PATH!r}")

    async def taken_in(self, app: ASGIApp, scope: Scope, content: bytes) -> Response:
        """Answer requests that another server has passed on."""
        try:
            asked = _requests.decode(content)
        except msgspec.MsgspecError as error:
            raise Problem(400, f"requests must be as this version passes them on: {error}") from None
        told = await asyncio.gather(*(_asked_here(app, scope, each) for each in asked))
        return Response(msgspec.msgpack.encode(told), media_type="application/msgpack")


def asked_for(scope: Scope, body: bytes) -> Asked:
    """Return a request as it is passed on."""
    client = scope["client"][0] if scope["client"] else ""
    return Asked(scope["method"], scope["path"], scope["query_string"], list(scope["headers"]), client, body)


async def _asked_here(app: ASGIApp, scope: Scope, asked: Asked) -> Told:
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

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()  # who waits for the client to go away waits until all is sent
        return bodies.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.status, told.headers = message["status"], list(message["headers"])
        else:
            parts.append(message.get("body", b""))

    await app(inner, receive, send)
    told.body = b"".join(parts)
    return told


class _Passed(Response):
    """The answer of another server."""

    def __init__(self, told: Told) -> None:
        self.body, self.status_code, self.background, self.raw_headers = told.body, told.status, None, told.headers
