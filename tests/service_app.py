"""The application in this process: a client that speaks ASGI, a clock that stands still, and keys at hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import unquote

from umab_service import silence
from umab_service.app import Application
from umab_service.databases import opened
from umab_service.keys import ALL_KEYS, Keys, Role, added, new_key, revoked
from umab_service.relay import Relay
from umab_service.service import Service
from umab_service.sqlite import SQLite

ADMIN = "umab_testadmin_" + "a" * 40
"""The admin key that every client has."""
START = 1_800_000_000.0
"""What the clock shows at first."""


TABLES = ("experiments", "events", "snapshots", "decisions", "parts", "metadata", "keys")
"""The tables that requests change."""

url_of: Callable[[Path], str] = lambda folder: f"sqlite:///{folder / 'umab.db'}"  # noqa: E731
"""Where the database for a folder is; tests with another kind of database put another function here."""


class Reply(NamedTuple):
    """An answer: JSON as what it holds, NDJSON as a list of that, anything else as bytes."""

    status: int
    headers: dict[str, str]
    json: Any
    content: bytes = b""


class Client:
    """A service on `folder/umab.db` with its application. Requests run to their end in a loop of its own.

    Time stands still: set `now`, or call `sleep`. Nothing expires by itself: call `expire`.
    """

    def __init__(self, folder: Path, *, now: float = START, tls: bool = False) -> None:
        self.path, self.now, self._tls = folder / "umab.db", now, tls
        self.url = url_of(folder)
        self.loop = asyncio.new_event_loop()
        self._start()
        if ADMIN not in self:
            self.key("admin", text=ADMIN)

    def _start(self) -> None:
        self.service = Service(opened(self.url), clock=lambda: self.now)
        self.run(self.service.start())
        self.keys = Keys(self.run(self.service.storage.soon(ALL_KEYS)))
        ownership = self.service.ownership
        relay = None if ownership is None else Relay(ownership, bytes(32))
        self.app = Application(self.service, self.keys, tls=self._tls, relay=relay)

    def run(self, awaitable: Any) -> Any:
        """Return what a coroutine of the service returns."""
        return self.loop.run_until_complete(awaitable)

    def restart(self) -> None:
        """Stop the service, and start another one on the same database."""
        self.run(self.service.stop())
        self._start()

    def close(self) -> None:
        if hasattr(self.service, "writer"):  # else it could not start
            self.run(self.service.stop())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def storage(self) -> SQLite:
        """The database, which must be one of SQLite."""
        assert isinstance(self.service.storage, SQLite)
        return self.service.storage

    # Requests.

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = ADMIN,
        headers: dict[str, str] | None = None,
        chunks: Iterable[bytes] | None = None,
        client: str = "127.0.0.1",
    ) -> Reply:
        """Return the answer to a request. Bytes are sent as they are, anything else as JSON; `chunks` one by one."""
        return self.ask_all([(method, path, body)], key=key, headers=headers, chunks=chunks, client=client)[0]

    def ask_all(
        self,
        requests: Sequence[tuple[str, str, Any]],
        *,
        key: str | None = ADMIN,
        headers: dict[str, str] | None = None,
        chunks: Iterable[bytes] | None = None,
        client: str = "127.0.0.1",
    ) -> list[Reply]:
        """Return the answers to requests that come at the same time."""
        pairs = [*(headers or {}).items(), *([("Authorization", f"Bearer {key}")] if key is not None else [])]
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]

        async def all_at_once() -> list[Reply]:
            one_by_one = None if chunks is None else list(chunks)
            return await asyncio.gather(*(self._ask(*each, raw, one_by_one, client) for each in requests))

        return list(self.run(all_at_once()))

    async def reply(self, method: str, path: str, body: Any = None) -> Reply:
        """Return the answer to a request, in a loop where other requests are on their way."""
        return await self._ask(method, path, body, [(b"authorization", f"Bearer {ADMIN}".encode())], None, "127.0.0.1")

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any,
        headers: list[tuple[bytes, bytes]],
        chunks: list[bytes] | None,
        client: str,
    ) -> Reply:
        if chunks is None:
            content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            headers, chunks = [*headers, (b"content-length", b"%d" % len(content))], [content]
        waiting = [
            {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
            for number, chunk in enumerate(chunks, 1)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            if not waiting:
                await asyncio.Event().wait()  # a client that says no more, and stays
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        raw_path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "https" if self._tls else "http",
            "method": method,
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": (client, 50000),
            "server": ("127.0.0.1", 8080),
        }
        await self.app(scope, receive, send)
        start, *parts = sent
        found = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
        assert len(found) == len(start["headers"]), "a header came twice"
        content = b"".join(part.get("body", b"") for part in parts)
        return Reply(start["status"], found, _read(content, found.get("content-type", "")), content)

    # The rest of the service.

    def sleep(self, seconds: float) -> None:
        """Let time pass, and close the choices whose wait has ended."""
        self.now += seconds
        self.expire()

    def expire(self) -> None:
        """Close the choices whose wait has ended."""
        while self.run(silence.expire(self.service)):
            pass

    def prune(self, older_than: float) -> None:
        """Delete what is older than so many seconds."""
        self.run(silence.prune(self.service, self.now - older_than))

    def key(self, role: Role, prefix: str = "", *, note: str = "", text: str | None = None) -> str:
        """Return the text of a new key, made without a request."""
        found, key = new_key(role, prefix, note, self.now, text)
        self.run(self.service.store([added(key)]))
        self.keys.put(key)
        return found

    def revoke(self, key: str) -> None:
        """Revoke a key by its text, without a request."""
        found = next(each for each in self.keys.all() if each.id == identity_of(key))
        gone, statement = revoked(found, self.now)
        self.run(self.service.store([statement]))
        self.keys.put(gone)

    def __contains__(self, key: str) -> bool:
        """Whether the text of a key is valid."""
        return self.keys.find(key) is not None

    def dump(self) -> dict[str, list[Any]]:
        """Return all rows of all tables."""
        return {name: sorted(self.query(f"SELECT * FROM {name}"), key=repr) for name in TABLES}

    def query(self, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        return list(self.run(self.service.storage.soon(text, parameters)))

    def state(self) -> dict[str, Any]:
        """Return all that a request could change: on disk, on its way there, and in memory."""
        memory = {
            name: (each.settings, each.seq, each.n_open, each.learner.to_json())
            for name, each in self.service.experiments.items()
        }
        waiting = list(self.service.statements)
        return {**self.dump(), "on its way": waiting, "memory": memory, "known keys": self.keys.all()}

    def experiment(self, name: str = "x", arms: Sequence[str] = ("a", "b"), **settings: Any) -> None:
        """Create an experiment."""
        reply = self.ask("POST", "/v1/experiments", {"name": name, "arms": list(arms), "seed": 1, **settings})
        assert reply.status == 201, reply

    def decide(self, identity: str, name: str = "x", **more: Any) -> Any:
        """Return a new decision."""
        reply = self.ask("POST", f"/v1/experiments/{name}/decisions", {"id": identity, **more})
        assert reply.status == 201, reply
        return reply.json


def identity_of(key: str) -> str:
    """Return the id of a key by its text."""
    return key.split("_")[1]


def _read(content: bytes, kind: str) -> Any:
    if "ndjson" in kind:
        return [json.loads(line) for line in content.splitlines()]
    return json.loads(content) if content and "json" in kind else content
