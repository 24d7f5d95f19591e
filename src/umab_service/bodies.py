"""Reading the bodies of requests, none of which may be too large or take too long."""

from __future__ import annotations

import asyncio
import time

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from umab_service.problems import Problem

BODY_SECONDS = 30.0
"""How long the body of a request may take to arrive."""

_CLOSE = {"Connection": "close"}


class Bodies:
    """Reads bodies. One timer watches over all of them: a timer for each would take as long as reading it."""

    def __init__(self) -> None:
        self._began: dict[asyncio.Task[object], float] = {}  # in the order in which they began
        self._late: set[asyncio.Task[object]] = set()
        self._watched = False

    async def read(self, receive: Receive, most: int) -> bytes:
        """Return the body of a request, if it is not too large and does not take too long."""
        task = asyncio.current_task()
        assert task is not None
        self._began[task] = time.monotonic()
        if not self._watched:
            self._watch(BODY_SECONDS)
        try:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                content = message.get("body", b"")
                return bytes(content) if len(content) <= most else _too_large(most)
            return await _rest(receive, message, most)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            raise Problem(
                408, f"the body must arrive within {BODY_SECONDS:g} seconds, but it did not", _CLOSE
            ) from None
        finally:
            self._began.pop(task, None)

    def _watch(self, seconds: float) -> None:
        self._watched = True
        asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        """Stop reading the bodies that take too long, and look again when the next one would."""
        self._watched = False
        now = time.monotonic()
        for task, began in list(self._began.items()):
            left = began + BODY_SECONDS - now
            if left > 0.0:
                self._watch(left)
                break
            del self._began[task]
            self._late.add(task)
            task.cancel()


async def _rest(receive: Receive, message: Message, most: int) -> bytes:
    """Return a body that comes in parts, of which this message is the first."""
    parts, size = [], 0
    while True:
        if message["type"] != "http.request":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            return _too_large(most)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()


def _too_large(most: int) -> bytes:
    raise Problem(413, f"the body must have at most {most} bytes, but got more", _CLOSE)
