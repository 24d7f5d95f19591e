"""A real server as a process, and clients that remember what they were told."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from helpers import PATIENCE

KEY = "umab_testadmin_" + "a" * 40


PORTS = range(18_000, 32_000)
"""Below those that Linux gives to outgoing connections, which could take the port of a server that restarts."""

_taken: set[int] = set()
"""The ports of this process."""


@functools.cache
def _locks() -> IO[bytes]:
    """Return a file with one byte for each port, which is locked by the process of the tests that has the port."""
    return Path(tempfile.gettempdir(), f"umab-test-ports-{os.getuid()}").open("ab")


def free_port() -> int:
    """Return a port on which nobody listens; it stays that of this process until the end."""
    for port in random.Random().sample(PORTS, len(PORTS)):
        if port in _taken:
            continue
        try:
            fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            with socket.socket() as found:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                found.bind(("127.0.0.1", port))
        except OSError:
            continue
        _taken.add(port)
        return port
    raise RuntimeError(f"all ports from {PORTS.start} to {PORTS.stop - 1} are in use")


class Server:
    """A server on a database, which can be killed and started again."""

    def __init__(
        self, database: Path | str, *, command: tuple[str, ...] = (), environment: dict[str, str] | None = None
    ) -> None:
        self.database, self.url = database, database if isinstance(database, str) else f"sqlite:///{database}"
        self.port, self._command = free_port(), command
        self._environment = {**os.environ, "UMAB_ADMIN_KEY": KEY, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self.said = ""
        """What the last process has written to its standard error, once it has ended."""

    def start(self, seconds: float = PATIENCE) -> None:
        self.launch()
        self.wait(seconds)

    def launch(self) -> None:
        """Start the process, and do not wait for it."""
        self._errors = tempfile.TemporaryFile()  # a pipe that nobody reads would stop a server that says much
        options = "serve", "--port", str(self.port), "--database", self.url
        self.process = subprocess.Popen(
            [*self._command, sys.executable, "-m", "umab.cli", *options],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait until it is ready."""
        assert self.process is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.ended()
                raise RuntimeError(self.said)
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            time.sleep(0.05)
        raise TimeoutError("the server did not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.ended()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE)
        self.ended()
        return status

    def ended(self) -> None:
        """Take in what the process has written, now that it has ended."""
        if not self._errors.closed:
            self._errors.seek(0)
            self.said = self._errors.read().decode()
            self._errors.close()

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = KEY, timeout: float = PATIENCE
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
            is_json = (
                "json" in response.headers.get("content-type", "") and "ndjson" not in response.headers["content-type"]
            )
            return response.status, json.loads(content) if content and is_json else content
        finally:
            connection.close()


def resident(server: Server) -> int:
    """Return how much memory the process of a server has, in bytes."""
    assert server.process is not None
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(database: Path | str, **options: Any) -> Iterator[Server]:
    server = Server(database, **options)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()
        else:
            server.ended()


class Client(threading.Thread):
    """Makes decisions and gives feedback, repeats what was not answered, and remembers what was.

    If a server is away, it moves on to the next one of those that it knows.
    """

    def __init__(self, server: Server, number: int, *others: Server, experiment: str = "x") -> None:
        super().__init__(daemon=True)
        self.servers, self.number, self.path = [server, *others], number, f"/v1/experiments/{experiment}"
        self.decided: dict[str, Any] = {}
        self.learned: dict[str, float] = {}
        self.going = True
        self.wrong: list[Any] = []

    def run(self) -> None:
        count = 0
        while self.going:
            identity = f"c{self.number}-{count}"
            count += 1
            answer = self._until_answered("POST", f"{self.path}/decisions", {"id": identity}, (200, 201))
            if answer is None:
                return
            self.decided[identity] = answer
            loss = {"a": 1.0, "b": 2.0}[answer["arm"]] + 0.01 * (count % 7)
            path = f"{self.path}/decisions/{identity}/feedback"
            answer = self._until_answered("PUT", path, {"loss": loss}, (200,))
            if answer is None:
                return
            self.learned[identity] = loss

    def _until_answered(self, method: str, path: str, body: Any, expected: tuple[int, ...]) -> Any:
        while self.going:
            try:
                status, answer = self.servers[0].ask(method, path, body, timeout=5.0)
            except (OSError, http.client.HTTPException):
                self.servers.append(self.servers.pop(0))
                time.sleep(0.02)
                continue
            if status in expected:
                return answer
            if status != 503:
                self.wrong.append((status, answer))
                return None
            time.sleep(0.05)
        return None
