"""Keys: who may do what. Only digests of keys are stored."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from umab_service import statements as sql
from umab_service.schema import ShownKey
from umab_service.statements import Statement

Role = Literal["read", "decide", "admin"]
ROLES: tuple[Role, ...] = ("read", "decide", "admin")
"""Each role may do what the ones before it may."""

ALL_KEYS = "SELECT id, digest, role, prefix, note, created, revoked FROM keys ORDER BY created"

_FORM = re.compile(r"umab_([A-Za-z0-9]{8,32})_([A-Za-z0-9_-]{32,128})")


@dataclass(frozen=True)
class Key:
    """A key, without its secret."""

    id: str
    digest: bytes
    role: Role
    prefix: str
    note: str
    created: float
    revoked: float | None = None

    def may(self, role: Role, experiment: str | None) -> bool:
        """Whether it may do what a role may, to an experiment."""
        return ROLES.index(self.role) >= ROLES.index(role) and (experiment or "").startswith(
            self.prefix if experiment is not None else ""
        )

    def shown(self) -> ShownKey:
        """Return the key as answers show it."""
        return ShownKey(self.id, self.role, self.prefix, self.note, self.revoked is not None)


def new_key(role: Role, prefix: str, note: str, now: float, text: str | None = None) -> tuple[str, Key]:
    """Return a new key: its text, which is shown once, and what is stored of it."""
    if text is None:
        text = f"umab_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(
            "a key must be like umab_ID_SECRET, where ID has 8 to 32 letters and digits, and SECRET at least 32 "
            f"letters, digits, dashes and underscores, but got one of {len(text)} characters that is not"
        )
    return text, Key(found[1], _digest(found[2]), role, prefix, note, now)


def _digest(secret: str) -> bytes:
    # The secret has 256 bits of chance, so a slow hash would add nothing but time.
    return hashlib.sha256(secret.encode()).digest()


class Keys:
    """The keys of a server, in memory."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._keys: dict[str, Key] = {}
        self.update(rows)

    def update(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take in the keys of the database, which other servers may have changed."""
        for row in rows:
            known = self._keys.get(row[0])
            if known is None or known.revoked is None:  # what was read may be older than a revocation here
                self._keys[row[0]] = Key(*row)

    def __len__(self) -> int:
        """Return how many keys are valid."""
        return sum(key.revoked is None for key in self._keys.values())

    def all(self) -> list[Key]:
        """Return all keys, also those that were revoked."""
        return list(self._keys.values())

    def find(self, text: str) -> Key | None:
        """Return the key with this text, if it is valid; the time that it takes says nothing about the secret."""
        found = _FORM.fullmatch(text)
        key = None if found is None else self._keys.get(found[1])
        digest = _digest(found[2] if found is not None else "")
        if key is None or not hmac.compare_digest(digest, key.digest) or key.revoked is not None:
            return None
        return key

    def get(self, identity: str) -> Key | None:
        """Return the key with this id, if it is valid."""
        key = self._keys.get(identity)
        return None if key is None or key.revoked is not None else key

    def put(self, key: Key) -> None:
        """Take in a key that was added to the database, or changed there."""
        self._keys[key.id] = key


def added(key: Key) -> Statement:
    """Return the statement that adds a key to the database."""
    return sql.NEW_KEY, (key.id, key.digest, key.role, key.prefix, key.note, key.created)


def revoked(key: Key, now: float) -> tuple[Key, Statement]:
    """Return a key that is revoked, and the statement that revokes it in the database."""
    return dataclasses.replace(key, revoked=key.revoked or now), (sql.REVOKE_KEY, (now, key.id))
