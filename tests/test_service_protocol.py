"""Answers in one piece, nothing held back that a client waits for, and bounds on what comes without a key."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

import uvicorn
from uvicorn.server import ServerState

from helpers import PATIENCE
from service_process import KEY, Server, resident
from umab_service import protocol
from umab_service.protocol import MOST_HEAD, MOST_PIPELINED, Joining, Protocol


class Recorded:
    """A transport that notes what reaches it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("closed")

    def pause_reading(self) -> None:
        self.calls.append("paused")

    def resume_reading(self) -> None:
        self.calls.append("resumed")

    def is_closing(self) -> bool:
        return "closed" in self.calls

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def written(*steps: bytes | None) -> list[Any]:
    """Return what reaches the transport if pieces are written, with a turn of the loop for each None."""

    async def play() -> list[Any]:
        below = Recorded()
        joining = Joining(below, asyncio.get_running_loop())  # type: ignore[arg-type]
        for step in steps:
            if step is None:
                await asyncio.sleep(0)
            else:
                joining.write(step)
        joining.close()
        await asyncio.sleep(0)
        return below.calls

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((b"head", b"body"), [b"headbody"]),
        ((b"head", b"body", None, None), [b"headbody"]),
        ((b"head", None), [b"head"]),
        ((b"head",), [b"head"]),
        ((b"head", b""), [b"head"]),
        ((b"head", None, b"body"), [b"head", b"body"]),
        ((b"1", b"2", b"3", b"4", b"5"), [b"12", b"34", b"5"]),
        ((b"1", b"2", b"3", None, b"4"), [b"12", b"3", b"4"]),
        ((), []),
    ],
)
def test_two_pieces_are_written_at_once_and_one_is_not_held_back(
    steps: tuple[bytes | None, ...], expected: list[bytes]
) -> None:
    assert written(*steps) == [*expected, "closed"]


def test_everything_else_is_passed_on() -> None:
    async def play() -> None:
        below = Recorded()
        joining = Joining(below, asyncio.get_running_loop())  # type: ignore[arg-type]
        joining.pause_reading()
        joining.resume_reading()
        assert not joining.is_closing()
        joining.close()
        assert joining.is_closing() and below.calls == ["paused", "resumed", "closed"]
        assert joining.get_extra_info("peername") == "the peername"

    asyncio.run(play())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(Path(tmp_path_factory.mktemp("protocol")) / "umab.db")
    found.start()
    found.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})
    yield found
    found.stop()


def said(server: Server, *parts: bytes, until: bytes) -> bytes:
    """Return what a server says to each part of a request, all in all; it is asked for the next part when it pauses."""
    found = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        for k, part in enumerate(parts):
            connection.sendall(part)
            end = until if k == len(parts) - 1 else b"\r\n\r\n"
            while not found.endswith(end):
                piece = connection.recv(65536)
                if not piece:
                    return found
                found += piece
    return found


def head(method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"X-API-Key: {KEY}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_an_answer_is_one_piece(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        for _ in range(20):
            connection.sendall(head("POST", "/v1/experiments/x/decisions", "Content-Length: 2") + b"{}")
            piece = connection.recv(65536)
            assert piece.startswith(b"HTTP/1.1 201") and piece.endswith(b"}")


def test_a_client_that_waits_for_100_is_told_to_continue(server: Server) -> None:
    begin = head("POST", "/v1/experiments/x/decisions", "Content-Length: 2", "Expect: 100-continue")
    found = said(server, begin, b"{}", until=b"}")
    assert found.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201")


def test_an_answer_without_a_body_comes_at_once(server: Server) -> None:
    found = said(server, head("HEAD", "/healthz"), until=b"\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200") and b"content-length: 15" in found


def test_answers_of_any_kind_and_before_the_end_are_whole(server: Server) -> None:
    found = said(server, head("GET", "/v1/experiments/x/events?limit=1"), until=b"}\n")
    assert b'"kind":"created"' in found
    found = said(server, head("GET", "/healthz", "Connection: close"), until=b"never")
    assert b"connection: close" in found and found.endswith(b'{"status":"ok"}')


def test_several_requests_at_once_are_answered_in_their_order(server: Server) -> None:
    request = head("POST", "/v1/experiments/x/decisions", "Content-Length: 2") + b"{}"
    found = said(server, request * 3 + head("GET", "/healthz", "Connection: close"), until=b"never")
    assert found.count(b"HTTP/1.1 201") == 3 and found.endswith(b'{"status":"ok"}')


# What comes before a key is checked.


@pytest.fixture(autouse=True)
def _no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "LINGER_SECONDS", 0.2)


class Spoken:
    """The protocol on a socket of this process, and a client that says what it likes."""

    def __init__(self, app: Any, *, certificate: Path | None = None, connections: int = 1000) -> None:
        self._app, self._certificate, self._connections = app, certificate, connections

    async def __aenter__(self) -> Spoken:
        class Limited(Protocol):
            most_connections = self._connections

        config, self.state = uvicorn.Config(self._app, lifespan="off", log_level="critical"), ServerState()
        config.load()
        inside = outside = None
        if self._certificate is not None:
            inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            inside.load_cert_chain(self._certificate)
            outside = ssl.create_default_context(cafile=self._certificate)
        made = lambda: Limited(config=config, server_state=self.state, app_state={})  # noqa: E731
        self._server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0, ssl=inside)
        self._port, self._trusted = self._server.sockets[0].getsockname()[1], outside
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trusted)

    async def told(self, *parts: bytes) -> bytes:
        """Return all that comes back until the connection is closed."""
        reader, writer = await self.connect()
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.001)
        return await rest(reader, writer)


async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    found = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    return found


async def fine(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads a body and is content."""
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def play(
    game: Callable[[Spoken], Awaitable[None]], app: Any = fine, *, certificate: Path | None = None, connections: int = 9
) -> None:
    async def playing() -> None:
        async with Spoken(app, certificate=certificate, connections=connections) as spoken:
            await game(spoken)

    asyncio.run(playing())


@pytest.fixture(scope="module", params=["plain", "tls"])
def certificate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    if request.param == "plain":
        return None
    if shutil.which("openssl") is None:
        pytest.skip("a certificate is made with openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout both.pem -out cert.pem".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    with (folder / "both.pem").open("a") as both:
        both.write((folder / "cert.pem").read_text())
    return folder / "both.pem"


BEGIN, END = b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"

TOO_LARGE = {
    "many headers": [BEGIN + b"a: b\r\n" * 3000],
    "many headers one by one": [BEGIN, *[b"a: b\r\n" * 100] * 30],
    "a large header": [BEGIN + b"a: " + b"b" * 66_000 + END + END],
    "a large header that does not end": [BEGIN + b"a: ", *[b"b" * 8000] * 40],
    "a large name of a header": [BEGIN, *[b"a" * 8000] * 40],
    "a large path": [b"GET /", *[b"a" * 8000] * 9],
    "headers after a body": [CHUNKED + b"a: b\r\n" * 3000],
    "a large header after a body": [CHUNKED + b"a: ", *[b"b" * 8000] * 40],
    "empty lines": [b"\r\n" * 4000] * 40,
}


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("case", TOO_LARGE)
def test_a_head_that_is_too_large_is_refused(case: str, later: bool, certificate: Path | None) -> None:
    async def game(spoken: Spoken) -> None:
        parts = TOO_LARGE[case]
        found = await spoken.told(*([BEGIN + END] if later else []), *parts)
        if later:
            assert found.startswith(b"HTTP/1.1 204")
            found = found[found.index(b"\r\n\r\n") + 4 :]
        assert found.startswith(b"HTTP/1.1 431"), found
        top, _, body = found.partition(b"\r\n\r\n")
        assert b"connection: close" in top and b"cache-control: no-store" in top
        assert (b"strict-transport-security" in top) == (certificate is not None)
        assert json.loads(body)["detail"].startswith(f"the head of a request must have at most {MOST_HEAD} bytes")
        assert len(body) == int(top.partition(b"content-length: ")[2].split()[0])

    play(game, certificate=certificate)


def test_what_is_below_the_limits_is_let_in(certificate: Path | None) -> None:
    large = BEGIN + b"a: " + b"b" * 60_000 + END + END
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 1_000_000

    async def game(spoken: Spoken) -> None:
        last = BEGIN + b"Connection: close" + END + END
        slices = [large[at : at + 4096] for at in range(0, len(large), 4096)]
        found = await spoken.told(large, *slices, body, body + large[:70], large[70:], CHUNKED + b"a: b\r\n\r\n", last)
        assert found.count(b"HTTP/1.1 204") == 7 and found.count(b"HTTP/1.1") == 7

    play(game, certificate=certificate)


@pytest.mark.parametrize("begun", [b"G", BEGIN, BEGIN + b"a: bbb", b"\r\n"])
def test_a_head_that_does_not_arrive_is_given_up(
    begun: bytes, certificate: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)

    async def game(spoken: Spoken) -> None:
        for before in ([], [BEGIN + END]):
            found = await spoken.told(*before, begun)
            assert found.count(b"HTTP/1.1 204") == len(before)
            assert b"HTTP/1.1 408" in found and b"must arrive within 0.05 seconds" in found

    play(game, certificate=certificate)


def test_a_head_that_trickles_is_given_up_and_one_that_never_begins_is_closed(
    certificate: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)

    async def game(spoken: Spoken) -> None:
        assert await spoken.told() == b""
        reader, writer = await spoken.connect()
        writer.write(BEGIN)
        answer = asyncio.ensure_future(reader.read())
        while not answer.done():  # it never pauses for as long as a head may take
            writer.write(b"a: b\r\n")
            await asyncio.sleep(0.02)
        assert answer.result().startswith(b"HTTP/1.1 408")
        writer.close()

    play(game, certificate=certificate)


def test_a_request_may_take_longer_than_its_head_and_so_may_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for a head is over when it is there: neither a slow answer nor a pause between requests counts."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.2)
        await fine(scope, receive, send)

    async def game(spoken: Spoken) -> None:
        reader, writer = await spoken.connect()
        for _ in range(2):
            writer.write(BEGIN + END)
            assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).startswith(b"HTTP/1.1 204")
            await asyncio.sleep(0.2)
        writer.write(BEGIN + END + BEGIN)  # the second one stays unfinished, while the first one is answered
        found = await rest(reader, writer)
        assert found.startswith(b"HTTP/1.1 204") and found.count(b"HTTP/1.1") == 1

    play(game, slow)


def test_requests_that_wait_on_a_connection_are_bounded() -> None:
    n_asked = [0]

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        n_asked[0] += 1
        await fine(scope, receive, send)

    async def game(spoken: Spoken) -> None:
        found = await spoken.told((BEGIN + END) * 1000)
        assert found.count(b"HTTP/1.1 204") == n_asked[0] == MOST_PIPELINED + 1

    play(game, counted)


def test_beyond_the_limit_connections_are_closed_and_those_that_are_open_are_served_on(
    certificate: Path | None,
) -> None:
    async def game(spoken: Spoken) -> None:
        pairs = [await spoken.connect() for _ in range(3)]
        for _ in range(2):
            found = await spoken.told()
            assert found.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in found
            assert b"at most 3 open connections" in found
            for reader, writer in pairs:
                writer.write(BEGIN + END)
                assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).startswith(b"HTTP/1.1 204")
        pairs.pop()[1].close()
        while len(spoken.state.connections) == 3:
            await asyncio.sleep(0.01)
        pairs.append(await spoken.connect())
        pairs[-1][1].write(BEGIN + END)
        assert (await pairs[-1][0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        for _, writer in pairs:
            writer.close()

    play(game, certificate=certificate, connections=3)


def test_headers_without_end_take_no_memory(server: Server) -> None:
    """150 MB of small headers took 1,800 MB."""
    before = resident(server)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            for _ in range(1000):
                connection.sendall(b"a: b\r\n" * 10_000)
    assert resident(server) - before < 100 << 20
    assert server.ask("GET", "/readyz")[0] == 200
