"""Connections: how many there are, what a request may send before its key is checked, and answers in one piece."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from umab_service.problems import ONLY_TLS, RAW_HEADERS, Problem, unavailable
from umab_service.schema import encoded

MOST_HEAD = 64 << 10
"""The largest head of a request, in bytes, with what follows a body in chunks."""
PER_HEADER = 32
"""How many bytes each header counts for besides its own, as in HTTP/2: so much it takes in memory at least."""
HEAD_SECONDS = 30.0
"""How long the head of a request may take to arrive."""
LINGER_SECONDS = 1.0
"""How long what a client goes on sending is thrown away, so that it can read why it was refused."""
MOST_PIPELINED = 100
"""How many requests may wait on a connection for the answer to an earlier one."""


class Joining:
    """A transport that passes on what is written: two pieces at once, or a single one when the loop comes around.

    uvicorn writes the head of an answer and then its body. Each write is a call of the system and a packet of its own,
    and takes as long as drawing an arm.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: bytes | None = None
        # These are asked for in every request.
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write, or wait a moment for a second piece."""
        held = self._held
        if held is None:
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._held = None
            self._transport.write(held + data)

    def _flush(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._transport.write(held)

    def close(self) -> None:
        """Close, after what was written."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return whatever else a transport has."""
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with answers in one piece, and bounds on what comes without a key.

    The parser keeps what it has read of a header or a path until it is whole, so bytes are counted twice: in what it
    hands over, and in what it has handed over nothing of yet.
    """

    most_connections = 1000
    """How many connections there may be at a time."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._size = 0
        self._withheld = 0
        self._in_head = self._too_large = self._refused = False
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take in a connection, unless there are too many."""
        joining: Any = Joining(transport, self.loop)
        if len(self.connections) >= self.most_connections:
            self.transport, self._refused = joining, True
            self._answer(
                unavailable(f"a server must have at most {self.most_connections} open connections, but it has as many")
            )
            joining.close()
            return
        super().connection_made(joining)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what a client has sent."""
        if self._refused:
            return
        self._withheld += len(data)
        super().data_received(data)
        if self._refused:
            return
        if self._size + self._withheld > MOST_HEAD:
            self._too_large = True
            self.send_400_response("")
        elif self._late is None and (self._in_head or (self._withheld and self._between())):
            self._expect_head()

    def _between(self) -> bool:
        """Whether no request is being read or answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Begin with a request."""
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests wait for an answer")
        self._size, self._in_head = 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Read a path, or a part of it."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header, in the head or after a body in chunks."""
        self._count(len(name) + len(value) + PER_HEADER)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._size += size
        self._withheld = 0
        if self._size > MOST_HEAD:
            self._too_large = True
            raise ValueError("the head of a request is too large")  # the parser then stops

    def on_headers_complete(self) -> None:
        """Begin with the answer."""
        self._withheld, self._in_head = 0, False
        self._head_came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Read a part of a body."""
        self._withheld = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._withheld = self._size = 0
        super().on_message_complete()

    # Requests that are refused before there is anything to answer.

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _head_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        """Refuse a head that takes too long; a client that has said nothing is told nothing."""
        self._late = None
        if self._in_head or self._withheld:
            self._refuse(
                Problem(408, f"the head of a request must arrive within {HEAD_SECONDS:g} seconds, but it did not")
            )
        elif not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser could not read, or was stopped from reading."""
        if self._too_large:
            detail = f"the head of a request must have at most {MOST_HEAD} bytes, but got more"
            self._refuse(Problem(431, detail))
        else:
            self._refuse(Problem(400, "a request must be as HTTP/1.1 wants it, but this one is not"))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless an earlier request is being answered, and read no more."""
        self._refused = True
        self._head_came()
        cycle = self.cycle
        if not self._between() and not cycle.more_body:
            self.shutdown()  # after the answers that are due
        elif not self._between() and (cycle.response_started or self.pipeline):
            self.transport.close()
        elif not self.transport.is_closing():
            if cycle is not None:  # whoever waits for the rest of a body
                cycle.disconnected = True
                cycle.message_event.set()
            self._answer(problem)
            self._unset_keepalive_if_required()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _answer(self, problem: Problem) -> None:
        content = encoded(problem.body())
        headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        headers += [
            (b"content-type", b"application/problem+json"),
            (b"content-length", b"%d" % len(content)),
            (b"connection", b"close"),
            *RAW_HEADERS,
            *([ONLY_TLS] if self.transport.get_extra_info("sslcontext") else []),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + content)
