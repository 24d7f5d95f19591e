"""A server as a process, and wrk as its load."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

KEY = "umab_benchmark0_" + "a" * 43
CONNECTIONS = 32

DECIDE = f"""
wrk.method = "POST"
wrk.path = "/v1/experiments/x/decisions"
wrk.body = "{{}}"
wrk.headers["Authorization"] = "Bearer {KEY}"
"""
LEARN = f"""
local headers = {{["Authorization"] = "Bearer {KEY}"}}
local number = FIRST - 1
request = function()
  number = number + 1
  local path = "/v1/experiments/x/decisions/PREFIX" .. math.floor(number / 100) .. "/" .. (number % 100) .. "/feedback"
  return wrk.format("PUT", path, headers, '{{"loss": ' .. (1 + number % 7) .. '}}')
end
"""
BOTH = f"""
local headers = {{["Authorization"] = "Bearer {KEY}"}}
local waiting, first, last = {{}}, 1, 0
request = function()
  if first <= last then
    local path = "/v1/experiments/x/decisions/" .. waiting[first] .. "/feedback"
    waiting[first] = nil
    first = first + 1
    return wrk.format("PUT", path, headers, '{{"loss": ' .. (1 + first % 7) .. '}}')
  end
  return wrk.format("POST", "/v1/experiments/x/decisions", headers, "{{}}")
end
response = function(status, headers, body)
  if status == 201 then
    last = last + 1
    waiting[last] = string.sub(body, 8, 39)
  end
end
"""


class Load(NamedTuple):
    """What wrk measured."""

    per_second: float
    p50: float
    p99: float
    """In milliseconds."""
    longest: float


class Server:
    """A server that listens on a port of this machine."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port

    def ask(self, method: str, path: str, body: Any = None, timeout: float = 120.0) -> Any:
        """Return the answer to a request."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as response:
            content = response.read()
        return json.loads(content) if content else None

    def load(self, script: str, seconds: int, connections: int = CONNECTIONS) -> Load:
        """Return what wrk measures with a script; every answer must be a good one."""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write(script)
            file.flush()
            command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", file.name]
            told = subprocess.run(
                [*command, f"http://127.0.0.1:{self.port}"], capture_output=True, text=True, check=True
            ).stdout
        if "Non-2xx" in told or "Socket errors" in told:
            raise RuntimeError(told)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", told)
        latency = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)", told)
        assert rate and latency, told
        return Load(float(rate[1]), _percentile(told, 50), _percentile(told, 99), _milliseconds(latency[1]))

    def cpu(self) -> float:
        """Return the processor time of the process up to now, in seconds."""
        *_, rest = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")
        user, system = rest.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Return the memory of the process, in gigabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024 / 1e9


def _percentile(told: str, percent: int) -> float:
    found = re.search(rf"^\s+{percent}%\s+(\S+)", told, re.MULTILINE)
    assert found, told
    return _milliseconds(found[1])


def _milliseconds(text: str) -> float:
    number, unit = float(text.rstrip("mus")), text.lstrip("0123456789.")
    return number * {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}[unit]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def started(*command: str, ready: str, seconds: float = 300.0, quiet: bool = False) -> Iterator[tuple[Server, float]]:
    """Start a Python module with a port; yield it once a path answers, and how long that took."""
    port = _free_port()
    began = time.perf_counter()
    arguments = [each.replace("PORT", str(port)) for each in command]
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "UMAB_ADMIN_KEY": KEY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
    )
    server = Server(process, port)
    try:
        while True:
            if process.poll() is not None or time.perf_counter() - began > seconds:
                raise RuntimeError(f"the server did not start: {' '.join(arguments)}")
            try:
                server.ask("GET", ready, timeout=5.0)
                break
            except urllib.error.HTTPError:
                break
            except (OSError, urllib.error.URLError):
                time.sleep(0.02)
        yield server, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()


def serving(database: Path, *more: str) -> contextlib.AbstractContextManager[tuple[Server, float]]:
    """Start the service on a database."""
    return started("umab.cli", "serve", "--port", "PORT", "--database", f"sqlite:///{database}", *more, ready="/readyz")


def bare() -> contextlib.AbstractContextManager[tuple[Server, float]]:
    """Start the bare endpoint."""
    return started("benchmarks.service.bare", "PORT", ready="/")
