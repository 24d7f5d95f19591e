"""Where the server is and how to reach it, and what happens to clients when a process forks."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, TypeVar, cast

import httpx

from umab._version import __version__
from umab.client.wire import Conversation, Limits, Lost, Pause, Reply, Request

T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """A server, and what it takes to talk to it."""

    url: str
    key: str = field(repr=False)
    limits: Limits
    options: Mapping[str, Any]
    verify: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the values, and load the certificates.

        Once, and not for each connection: a process that forks while another thread loads them would leave its child
        waiting for a lock of that library for ever.
        """
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url must start with http:// or https://, but got url={self.url!r}")
        if not self.key or not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise ValueError("key must be the text of a key, as umab keys create prints it, but got another text")
        told = "verify" in self.options
        object.__setattr__(self, "verify", self.options["verify"] if told else httpx.create_ssl_context())

    def connect(self) -> httpx.Client:
        """Return a way to send requests."""
        return httpx.Client(**self._common())

    def connect_async(self) -> httpx.AsyncClient:
        """Return a way to send requests in an event loop."""
        return httpx.AsyncClient(**self._common())

    def _common(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}", "User-Agent": f"umab/{__version__}"}
        own = {"verify": self.verify, "base_url": self.url}
        return {**self.options, **own, "headers": {**(self.options.get("headers") or {}), **headers}}


class Parts(TypedDict):
    """A request as httpx takes it."""

    method: str
    url: str
    content: bytes | None
    timeout: float
    headers: dict[str, str] | None


def parts_of(request: Request) -> Parts:
    """Return a request as httpx takes it."""
    return {
        "method": request.method,
        "url": request.path,
        "content": request.content or None,
        "timeout": request.timeout,
        "headers": {"Content-Type": "application/json"} if request.content else None,
    }


def reply_of(response: httpx.Response) -> Reply:
    """Return a response as plain data."""
    return Reply(response.status_code, response.content, response.headers.get("Retry-After"))


def lost(error: httpx.RequestError) -> Lost:
    """Return an error of the network as plain data."""
    return Lost(f"{type(error).__name__}: {error}".rstrip(": "))


def send(http: httpx.Client, request: Request) -> Reply | Lost:
    """Send a request; return the reply, or that there is none."""
    try:
        return reply_of(http.request(**parts_of(request)))
    except httpx.RequestError as error:
        return lost(error)


async def send_async(http: httpx.AsyncClient, request: Request) -> Reply | Lost:
    """Do the same in an event loop."""
    try:
        return reply_of(await http.request(**parts_of(request)))
    except httpx.RequestError as error:
        return lost(error)


def carried_out(
    conversation: Conversation[T], send: Callable[[Request], Reply | Lost], pause: Callable[[float], None]
) -> T:
    """Carry out a conversation; return its outcome."""
    reply: Reply | Lost | None = None
    try:
        while True:
            step = conversation.send(reply)
            if isinstance(step, Pause):
                pause(step.seconds)
                reply = None
            else:
                reply = send(step)
    except StopIteration as end:
        return cast(T, end.value)


class _Forkable(Protocol):
    def _after_fork(self) -> object: ...


_clients: weakref.WeakSet[_Forkable] = weakref.WeakSet()
_abandoned: list[object] = []
"""What belongs to the parent process. It is kept: closing it here could end connections that the parent still uses."""


def watch(client: _Forkable) -> None:
    """Give a client connections and a queue of its own when this process forks."""
    _clients.add(client)


def _part() -> None:
    for client in list(_clients):
        _abandoned.append(client._after_fork())


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_part)
