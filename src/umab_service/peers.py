"""Another server, and the requests that are passed on to it.

Both ends are ours and only POST one kind of body, so a connection takes few lines; a general client would take as long
as all the rest of a request that is passed on.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from umab_service.problems import unavailable

PATH = "/relay"
RELAY_SECONDS = 30.0
"""How long another server may take to answer."""
CONNECT_SECONDS = 1.0
"""How long it may take to reach it."""
IDLE_SECONDS = 30.0
"""How long a connection that nobody needs stays open; servers close theirs later."""
MOST_TOGETHER = 4 << 20
"""How large requests may be that are passed on together, in bytes; one that is larger goes alone."""
MOST_TOLD = 256 << 20
"""The largest answer, in bytes."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SHORT = re.compile(r"/v1/experiments/[^/]+/decisions(/.*)?|/v1/batch|/ofrep/.*")


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


_answers = msgspec.msgpack.Decoder(list[Told])
_Waiting = tuple[Asked, "asyncio.Future[Told]"]


class Away(Exception):
    """Another server cannot be reached, so that it has not got the request."""


class Peer:
    """Another server. Requests that come while others are on their way go together when those are answered.

    Reports and the like may take their time, and go alone.
    """

    def __init__(self, address: str, secret: bytes, trusted: ssl.SSLContext) -> None:
        self._address, self._secret, self._trusted = address, secret, trusted
        self._waiting: list[_Waiting] = []
        self._line = self._new_line()
        self._busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    def _new_line(self) -> _Line:
        return _Line(self._address, self._secret, self._trusted)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    async def ask(self, asked: Asked) -> Told:
        """Return the answer to a request."""
        if not _SHORT.fullmatch(asked.path):
            line = self._new_line()
            try:
                (told,) = await _sent(line, [asked])
                return told
            finally:
                line.close()
        done: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, done))
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._start)
        return await done

    def _start(self) -> None:
        task = asyncio.get_running_loop().create_task(self._send())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self) -> None:
        """Send what waits, until nothing does."""
        try:
            while self._waiting:
                n_together = _fitting([asked for asked, _ in self._waiting])
                some, self._waiting = self._waiting[:n_together], self._waiting[n_together:]
                await self._send_some(some)
        finally:
            self._busy = False

    async def _send_some(self, some: Sequence[_Waiting]) -> None:
        try:
            told = await _sent(self._line, [asked for asked, _ in some])
        except BaseException as error:
            self._line.close()
            failure = error if isinstance(error, Exception) else Away("this server stops")
            for _, done in some:
                if not done.done():
                    done.set_exception(failure)
            if not isinstance(error, Exception):
                raise
            return
        for (_, done), each in zip(some, told, strict=True):
            if not done.done():
                done.set_result(each)


def _fitting(asked: Sequence[Asked]) -> int:
    """Return how many requests go together, at least one."""
    size = 0
    for number, each in enumerate(asked):
        size += len(each.body) + len(each.path) + len(each.query) + sum(len(k) + len(v) for k, v in each.headers)
        if size > MOST_TOGETHER and number:
            return number
    return len(asked)


async def _sent(line: _Line, asked: list[Asked]) -> list[Told]:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await line.connect()
    except (OSError, TimeoutError) as error:  # TLS errors are among them
        raise Away(str(error)) from None
    try:
        async with asyncio.timeout(RELAY_SECONDS):
            status, content = await line.post(msgspec.msgpack.encode(asked))
        if status in (400, 404, 413):  # it did nothing: it is of another version, or knows another secret
            raise Away(f"it answered {status}")
        if status != 200:
            raise ValueError(f"it answered {status}")
        told = _answers.decode(content)
        if len(told) != len(asked):
            raise ValueError(f"{len(asked)} requests must have as many answers, but got {len(told)}")
        return told
    except (OSError, TimeoutError, EOFError, ValueError, asyncio.LimitOverrunError, msgspec.MsgspecError) as error:
        line.close()
        raise unavailable(f"the server that owns the experiment did not answer: {type(error).__name__}") from None


class _Line:
    """A connection to another server."""

    def __init__(self, address: str, secret: bytes, trusted: ssl.SSLContext) -> None:
        parts = urlsplit(address)
        self._host, secure = parts.hostname or "", parts.scheme == "https"
        self._port, self._tls = parts.port or (443 if secure else 80), trusted if secure else None
        self._head = (
            f"POST {parts.path.rstrip('/')}{PATH} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"x-umab-relay: {secret.decode()}\r\ncontent-length: "
        ).encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def connect(self) -> None:
        """Connect, unless there is a connection that was used not long ago."""
        if self._streams is not None and (self._streams[0].at_eof() or time.monotonic() - self._used > IDLE_SECONDS):
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls)

    async def post(self, content: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(b"%b%d\r\n\r\n%b" % (self._head, len(content), content))
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or int(length[1]) > MOST_TOLD:
            raise ValueError("an answer must say how long it is, and not be too long")
        found = await reader.readexactly(int(length[1]))
        self._used = time.monotonic()
        return int(head[9:12]), found

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
