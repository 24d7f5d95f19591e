"""Answers in one piece, and nothing held back that a client waits for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from helpers import PATIENCE
from service_process import KEY, Server
from umab_service.protocol import Joining


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


def test_answers_in_a_stream_and_before_the_end_are_whole(server: Server) -> None:
    found = said(server, head("GET", "/v1/experiments/x/events"), until=b"0\r\n\r\n")
    assert b"transfer-encoding: chunked" in found and b'"kind":"created"' in found.replace(b" ", b"")
    found = said(server, head("GET", "/healthz", "Connection: close"), until=b"never")
    assert b"connection: close" in found and found.endswith(b'{"status":"ok"}')


def test_several_requests_at_once_are_answered_in_their_order(server: Server) -> None:
    request = head("POST", "/v1/experiments/x/decisions", "Content-Length: 2") + b"{}"
    found = said(server, request * 3 + head("GET", "/healthz", "Connection: close"), until=b"never")
    assert found.count(b"HTTP/1.1 201") == 3 and found.endswith(b'{"status":"ok"}')
