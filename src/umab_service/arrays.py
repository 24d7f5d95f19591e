"""Columns as PostgreSQL reads arrays. The driver's own way takes longer than all the rest of a commit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import pq
from psycopg.adapt import Dumper, PyFormat

_HEAD = struct.Struct("!iiIii")
_EMPTY = struct.Struct("!iiI")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
_INTEGER = struct.Struct("!iq")
_SMALL = struct.Struct("!ii")
_FLOAT = struct.Struct("!id")


def _bytes(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _text(value: str) -> bytes:
    return _bytes(value.encode())


KINDS: dict[str, tuple[int, int, Callable[[Any], bytes]]] = {
    "bigint": (20, 1016, lambda value: _INTEGER.pack(8, value)),
    "int": (23, 1007, lambda value: _SMALL.pack(4, value)),
    "float8": (701, 1022, lambda value: _FLOAT.pack(8, value)),
    "text": (25, 1009, _text),
    "bytea": (17, 1001, _bytes),
}
"""For each kind of column: what PostgreSQL calls it, what it calls an array of it, and how a value is written."""


class Column:
    """The values of a column, of one kind, as an array in PostgreSQL's binary form."""

    __slots__ = ("content", "oid")

    def __init__(self, kind: str, values: Sequence[object]) -> None:
        element, self.oid, written = KINDS[kind]
        parts = [_NULL if value is None else written(value) for value in values]
        head = _HEAD.pack(1, _NULL in parts, element, len(values), 1) if values else _EMPTY.pack(0, 0, element)
        self.content = head + b"".join(parts)


class ColumnDumper(Dumper):
    """Hands a column to the driver as it is."""

    format = pq.Format.BINARY

    def dump(self, obj: Column) -> bytes:
        """Return the array."""
        return obj.content

    def get_key(self, obj: Column, format: PyFormat) -> Any:
        """Tell columns of different kinds apart."""
        return (Column, obj.oid)

    def upgrade(self, obj: Column, format: PyFormat) -> Dumper:
        """Return what hands over columns of this kind."""
        found = ColumnDumper(Column)
        found.oid = obj.oid
        return found
