"""Sessions: a signed cookie says which key its owner has shown. It holds the key's id, never its secret.

The database has those that somebody has logged out of, until they would have ended by themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from starlette.types import Scope

from umab_service import statements as sql
from umab_service.keys import Key, Keys
from umab_service.service import Service

COOKIE = "umab_session"
SECONDS = 12 * 3600
"""How long a session lasts."""


@dataclass(frozen=True)
class Session:
    """Who looks at a page."""

    key: Key
    token: str
    cookie: str
    end: int
    """When it ends by itself."""
    """What every form of this session must carry, so that no other site can send one."""


class Sessions:
    """Makes cookies and checks them. Their secret is in the database, so that all servers share it."""

    def __init__(self, service: Service, keys: Keys) -> None:
        self._service, self._keys = service, keys
        self._secret = b""

    async def begin(self, key: Key) -> tuple[str, Session]:
        """Return the value of a new cookie, and its session."""
        end = int(self._service.clock()) + SECONDS
        signed = f"{key.id}.{end}.{secrets.token_hex(8)}"  # so that logging out ends no other one
        value = f"{signed}.{await self._mac('session', signed)}"
        return value, Session(key, await self._mac("form", value), value, end)

    async def finish(self, session: Session) -> None:
        """End a session on all servers: its cookie is worth nothing from now on, wherever it was copied to."""
        now = int(self._service.clock())
        await self._service.store(
            [(sql.NEW_SECRET, (_ended(session.cookie, session.end), b"")), (sql.FORGET_ENDED, (_ended("", now),))]
        )

    async def find(self, scope: Scope) -> Session | None:
        """Return the session of a request; None if it has none, if that has ended, or if its key was revoked."""
        for value in _cookies(scope):
            signed, _, mac = value.rpartition(".")
            if hmac.compare_digest(mac.encode(), (await self._mac("session", signed)).encode()):
                identity, end, *_ = signed.split(".")
                key = self._keys.get(identity)
                if key is not None and self._service.clock() < int(end) and not await self._has_ended(value, int(end)):
                    return Session(key, await self._mac("form", value), value, int(end))
        return None

    async def _has_ended(self, cookie: str, end: int) -> bool:
        """Whether somebody has logged out of a session, here or on another server."""
        return bool(await self._service.storage.soon("SELECT 1 FROM secrets WHERE name = ?", (_ended(cookie, end),)))

    async def _mac(self, purpose: str, text: str) -> str:
        if not self._secret:
            self._secret = await self._service.secret("session")
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def _ended(cookie: str, end: int) -> str:
    """Return the name under which the database keeps that a session was ended, for as long as it would have lasted."""
    return f"{sql.ENDED}{end:012d} {hashlib.sha256(cookie.encode()).hexdigest()}"


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request; nothing if it is not there."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _cookies(scope: Scope) -> list[str]:
    """Return the values of all cookies with the name of ours: a neighbouring site may have set another one."""
    pairs = [
        part.strip().partition("=")
        for name, line in scope["headers"]
        if name == b"cookie"
        for part in line.decode("latin-1").split(";")
    ]
    return [value for name, _, value in pairs if name == COOKIE]


def set_cookie(scope: Scope, value: str) -> str:
    """Return the header that sets the cookie, or removes it if the value is empty."""
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"{COOKIE}={value}; Path=/; Max-Age={SECONDS if value else 0}; HttpOnly; SameSite=Strict{secure}"


def is_own_origin(scope: Scope) -> bool:
    """Whether a request comes from a page of this server, as far as the browser tells."""
    origin = header(scope, b"origin")
    return not origin or origin.partition("://")[2] == header(scope, b"host")
