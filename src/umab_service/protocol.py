"""Answers in one piece: the head and the body of an answer go to the socket together."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


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
    """HTTP as uvicorn speaks it, with answers in one piece."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take in a connection."""
        super().connection_made(Joining(transport, self.loop))  # type: ignore[arg-type]
