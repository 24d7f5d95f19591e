"""Checking a sheet: which of its columns are arms, what looks like a mistake, and the losses in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from umab.tables.cells import is_total, listed
from umab.tables.columns import Column, Table
from umab.tables.logs import refuse_log
from umab.tables.long import check_alone, long_columns, pivot
from umab.tables.missing import Missing
from umab.tables.roles import Named
from umab.tables.sheet import Sheet
from umab.tables.suspicion import check_counting, check_header, why_total
from umab.tables.units import unit_of

NAMELESS = ("", "Unnamed: 0")
"""The names of a first column without a name, as it is and as pandas calls it."""


class Checked(NamedTuple):
    """The arms and losses of a sheet."""

    arms: tuple[str, ...]
    table: Table
    """The losses, or rewards; nan for those that are missing."""
    set_aside: dict[str, str]
    """The columns that are certainly not arms, and what they hold."""
    unit: str | None
    """What a round is, such as an hour, if dates say so."""


def checked(
    sheet: Sheet,
    *,
    named: Named,
    reward: bool,
    drop: Sequence[str],
    allow: bool,
    missing: Missing = "refuse",
    masked: bool = False,
) -> Checked:
    """Return the arms and losses of a wide or long table.

    Refuse what looks suspicious, unless `allow`, and missing cells, unless `missing` says what they mean or the table
    is `masked`: then another table says which arms are there.
    """
    sheet = replace(sheet, gaps=missing != "refuse" or masked, reward=reward)
    if not allow:
        check_header(sheet)
    for name in drop:
        if name not in sheet.names:
            raise ValueError(
                f"drop must name columns of {sheet.kind}, but got {name!r}; the columns are {listed(sheet.names)}"
            )
    kept, aside = sheet.without(drop), dict[str, str]()
    if kept.names and kept.names[0] in NAMELESS and _counts_rows(kept.columns[0]):
        aside[kept.names[0]] = "counts the rows"
        kept = kept.without([*aside])
    columns = long_columns(kept, named, reward=reward)
    keys = () if columns is None else tuple(kept.names[at] for at in columns[:2])  # these may well be dates
    times = {name: column.times() for name, column in zip(sheet.names, sheet.columns, strict=True) if name not in keys}
    if not named.options:  # otherwise, the columns that no option names are not looked at
        aside |= {name: "holds dates" for name in kept.names if times.get(name) is not None}
        kept = kept.without([*aside])
        refuse_log(kept, named)
        columns = long_columns(kept, named, reward=reward)
        if columns is not None:
            check_alone(kept, columns, reward=reward)
    if columns is None:
        if kept.names[:1] == ("",):
            raise ValueError(
                f"every arm must have a name, but the first column of {sheet.origin} has none; if it is not an arm, "
                f"{kept.leave_out('')} (pandas writes its index there, unless it is told to_csv(..., index=False))"
            )
        few = "; columns are separated by commas, semicolons or tabs, in a .tsv file by tabs" if sheet.content else ""
        _check_choice(sheet, kept.names, few)
        arms, table = kept.names, kept.numbers()
        rounds, labels = None, sheet.last_labels()
        index = None if sheet.index is None else sheet.index.times()
        not_arms = [times[name] for name in sheet.names if name in aside or name in drop]
        units = [unit_of(each) for each in (index, *not_arms) if each is not None]
    else:
        arms, rounds, table = pivot(kept, *columns, named=named)
        _check_choice(sheet, arms)
        labels, units = rounds[-1:], [unit_of(rounds)]

    def where(row: int) -> str:
        return sheet.where(row) if rounds is None else f"round {rounds[row]!r}"

    if missing == "away" and not masked:
        _check_rounds(sheet, table, where)
    if not allow:
        if columns is None:
            check_counting(kept, table)
        why = why_total(table, labels)
        if why:
            raise ValueError(
                f"the last row must be a round, but {where(len(table) - 1)} {why}; if it is a total, delete it; if "
                f"not, {sheet.wording.allow}"
            )
    return Checked(arms, table, aside, unit=next(filter(None, units), None))


def _counts_rows(column: Column) -> bool:
    """Whether a column counts from 0 or 1, as row numbers do; the last row may be a total."""
    numbers, texts = column.numbers(), column.texts()
    if len(texts) > 1 and (texts[-1] == "" or is_total(texts[-1])):
        numbers = numbers[:-1]
    return any(np.array_equal(numbers, np.arange(first, first + len(numbers))) for first in (0, 1))


def _check_choice(sheet: Sheet, arms: Sequence[str], advice: str = "") -> None:
    if len(arms) < 2:
        got = "".join(f": {name!r}" for name in arms)
        raise ValueError(f"a choice needs at least two arms, but got {len(arms)} from {sheet.origin}{got}{advice}")


def _check_rounds(sheet: Sheet, table: Table, where: Callable[[int], str]) -> None:
    """Refuse a round without any arm, and a table in which there is never a choice."""
    n_there = np.isfinite(table).sum(axis=1)
    if n_there.min() == 0:
        raise ValueError(
            f"every round must have an arm that is there, but {where(int(n_there.argmin()))} has none; delete it"
        )
    if n_there.max() < 2:
        raise ValueError(
            f"a choice needs at least two arms, but no round of {sheet.origin} has more than one that is there"
        )
