"""What looks like a mistake in a table but may be right: numbers as names, a column that counts up, a row of totals."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np

from umab.tables.cells import is_decimal, is_total, is_value
from umab.tables.columns import Table
from umab.tables.sheet import Sheet

LEAST_ROWS = 4
"""Fewer rows may well count up, or add up to the next one, by chance."""


def check_header(sheet: Sheet) -> None:
    """Refuse names that look like the first round of a file without names."""
    names = sheet.names
    counted = any(names == tuple(str(start + at) for at in range(len(names))) for start in (0, 1))
    if sheet.path is not None and sheet.content:
        if any(map(is_decimal, names)) or (all(map(is_value, names)) and not counted):
            raise ValueError(f"{nameless(sheet.path, names)}; if these are names, {sheet.wording.allow}")
    elif sheet.named_in_text and any(map(is_decimal, names)):  # names such as 7 and 12 are likely to be meant
        raise ValueError(
            f"the names of the columns must name the arms, but they are numbers in {sheet.origin}: "
            f"{', '.join(names[:3])}; if they were the first line of a file without names, read it without a header; "
            f"if these are names, {sheet.wording.allow}"
        )


def nameless(path: Path, names: Sequence[str]) -> str:
    """Say that the first line of a file holds numbers instead of names."""
    return (
        f"the first line of a file of losses must name the arms, but it holds numbers in {str(path)!r}: "
        f"{', '.join(names[:3])}; add a line of names above it"
    )


def check_counting(sheet: Sheet, table: Table) -> None:
    """Refuse a column that looks like row numbers, whatever their start and step, such as years or times."""
    if len(table) < LEAST_ROWS:
        return
    first, step = table[0], table[1] / 2 - table[0] / 2  # halved, so that no difference overflows
    even = (table[1:] / 2 - table[:-1] / 2 == step).all(axis=0) & (step > 0)
    whole = (np.abs(table[-1]) < 2**53) & (first == np.floor(first)) & (2 * step == np.floor(2 * step))
    counting = even & whole
    if counting.any():
        at = int(counting.argmax())
        name = sheet.names[at]
        raise ValueError(
            f"losses must not be row numbers, but column {name!r} counts from {first[at]:.0f} to {table[-1, at]:.0f}; "
            f"if it is not an arm, {sheet.leave_out(name)}; if it is, {sheet.wording.allow}"
        )


def why_total(table: Table, labels: Sequence[str]) -> str:
    """Say why the last row looks like a total or a mean of the rows above it; return "" if it does not."""
    called = next((label for label in labels if is_total(label)), None)
    if called is not None:
        return f"is called {called.strip()!r}"
    above, last = np.nan_to_num(table[:-1], nan=0.0), table[-1]
    if len(above) < LEAST_ROWS or not above.any() or np.isnan(last).any():
        return ""
    n_there = np.maximum(1, (~np.isnan(table[:-1])).sum(axis=0))  # arms that are away add nothing to a total
    peak = np.fmax.reduce(np.abs(table), axis=None)  # in units of the largest number, sums cannot overflow
    sums, sizes = (above / peak).sum(axis=0), np.abs(above / peak).sum(axis=0)
    # Means are often rounded to a few decimals. Rounding to whole numbers is not considered: too many tables would fit.
    decimals = max(-int(Decimal(repr(float(number))).normalize().as_tuple().exponent) for number in last)
    rounding = 0.5 * 10.0**-decimals / peak if decimals > 0 else 0.0
    for what, n in (("sums", 1), ("means", n_there)):
        constant = what == "means" and (above == above[0]).all()
        if not constant and (np.abs(last / peak - sums / n) <= rounding + 1e-9 * sizes / n).all():
            return f"holds the {what} of the rows above it"
    return ""
