"""Keys from the command line: in the database itself, or through a server that runs."""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from umab_service.databases import opened
from umab_service.keys import ALL_KEYS, Keys, Role, added, new_key, revoked
from umab_service.storage import DatabaseError, Storage


class Keyring(ABC):
    """The keys of a service."""

    @staticmethod
    @contextlib.contextmanager
    def open(database: str, server: str | None) -> Iterator[Keyring]:
        """Open the keys of a server, or those of a database that no server uses."""
        if server is not None:
            key = os.environ.get("UMAB_KEY")
            if not key:
                raise ValueError("UMAB_KEY must hold an admin key of the server, but it is not set")
            yield _Remote(server.rstrip("/"), key)
            return
        storage = opened(database)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(storage.locked())
            except DatabaseError as error:
                raise ValueError(f"{error}; if a server runs, pass --server URL and set UMAB_KEY") from None
            storage.open()
            stack.callback(storage.close)
            yield _Local(storage)

    @abstractmethod
    def create(self, role: Role, prefix: str, note: str) -> str:
        """Create a key and return its text."""

    @abstractmethod
    def all(self) -> list[dict[str, Any]]:
        """Return all keys, without their secrets."""

    @abstractmethod
    def revoke(self, identity: str) -> None:
        """Revoke a key."""


class _Local(Keyring):
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        with storage.reader() as reader:
            self._keys = Keys(reader.execute(ALL_KEYS).fetchall())

    def create(self, role: Role, prefix: str, note: str) -> str:
        text, key = new_key(role, prefix, note, time.time())
        self._storage.write([added(key)])
        return text

    def all(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(key.shown()) for key in self._keys.all()]

    def revoke(self, identity: str) -> None:
        key = next((each for each in self._keys.all() if each.id == identity), None)
        if key is None:
            raise ValueError(f"a key must exist, but there is none with the id {identity!r}")
        self._storage.write([revoked(key, time.time())[1]])


class _Remote(Keyring):
    def __init__(self, server: str, key: str) -> None:
        self._server, self._key = server, key

    def create(self, role: Role, prefix: str, note: str) -> str:
        return str(self._ask("POST", "/v1/keys", {"role": role, "prefix": prefix, "note": note})["key"])

    def all(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/v1/keys")["keys"])

    def revoke(self, identity: str) -> None:
        self._ask("DELETE", f"/v1/keys/{quote(identity, safe='')}")

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return dict(json.load(response))
        except urllib.error.HTTPError as error:
            detail = json.load(error).get("detail", error.reason)
            raise ValueError(f"the server refused: {detail}") from None
        except urllib.error.URLError as error:
            raise ValueError(f"the server {self._server!r} cannot be reached: {error.reason}") from None
