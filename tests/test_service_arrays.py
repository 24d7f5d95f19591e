"""Columns arrive in PostgreSQL as they are."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres import needs_postgres, postgres

pytest.importorskip("psycopg")

import psycopg

from umab_service.arrays import KINDS, Column, ColumnDumper

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "float8": st.floats(),
    "text": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    "bytea": st.binary(),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    with postgres() as database, psycopg.connect(database.url(), autocommit=True) as found:
        found.adapters.register_dumper(Column, ColumnDumper)
        yield found


def test_every_kind_has_values_to_try() -> None:
    assert VALUES.keys() == KINDS.keys()


@needs_postgres()
@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
def test_columns_arrive_bit_for_bit(connection: psycopg.Connection[Any], data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(0, 5))
    columns = {
        kind: data.draw(st.lists(st.none() | values, min_size=n_rows, max_size=n_rows))
        for kind, values in VALUES.items()
    }
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns)
    given_ = [Column(kind, values) for kind, values in columns.items()]
    found = connection.execute(f"SELECT * FROM unnest({arrays})", given_).fetchall()
    assert [_bits(row) for row in found] == [_bits(row) for row in zip(*columns.values(), strict=True)]


def _bits(row: tuple[Any, ...]) -> list[Any]:
    """Return a row with its floats as their bits, but for those that are no number: PostgreSQL has one."""
    return [(struct.pack("d", each) if each == each else "nan") if isinstance(each, float) else each for each in row]
