"""A sheet: the columns of a file or of a frame, and where a cell is that is not a number."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from umab.tables.cells import PLAIN_NUMBERS, has_comma, is_decorated, is_missing, is_total, shown
from umab.tables.columns import Column, Mask, Table
from umab.tables.missing import ways_out
from umab.tables.wording import IN_PYTHON, Wording


@dataclass(frozen=True, eq=False)
class Sheet:
    """The cells of a file or of a frame, in columns of the same length.

    Attributes
    ----------
    path
        The file; None for a frame.
    names
        The names of the columns.
    columns
        The columns.
    n_rows
        The number of rows.
    named_in_text
        Whether the names are texts. Those of a frame may be numbers.
    index
        The labels of the rows of a frame, which are not a column of it.
    content
        The text of the file; empty for Parquet and for a frame.
    delimiter
        What separates the cells of the text.
    decimal
        The decimal sign of the numbers in the text.
    wording
        How error messages name the options.
    gaps
        Whether a missing cell is read as nan, and not refused.
    reward
        Whether the numbers are rewards.
    """

    path: Path | None
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    n_rows: int
    named_in_text: bool = True
    index: Column | None = None
    content: bytes = b""
    delimiter: str = ","
    decimal: str = "."
    wording: Wording = IN_PYTHON
    gaps: bool = False
    reward: bool = False

    @property
    def kind(self) -> str:
        """What the sheet is."""
        return "the frame" if self.path is None else "the file"

    @property
    def origin(self) -> str:
        """Where the cells come from: the path of the file, or the frame."""
        return "the frame" if self.path is None else repr(str(self.path))

    def select(self, columns: Sequence[int]) -> Sheet:
        """Return the sheet with these columns only."""
        names, found = tuple(self.names[at] for at in columns), tuple(self.columns[at] for at in columns)
        return replace(self, names=names, columns=found)

    def without(self, names: Sequence[str]) -> Sheet:
        """Return the sheet without the columns of these names."""
        return self.select([at for at, name in enumerate(self.names) if name not in names])

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield, for each row of the text, the line in which it begins and its cells."""
        return itertools.islice(records(self.path, self.content, self.delimiter), 1, None)

    def where(self, row: int) -> str:
        """Say where a row is: rows count from 0 below the names, lines from 1."""
        if not self.content:
            return f"row {row}"
        line, _ = next(itertools.islice(self.rows(), row, None))
        return f"row {row} (line {line} of the file)"

    def leave_out(self, *names: str) -> str:
        """Say how to leave columns out."""
        return f"leave {'it' if len(names) == 1 else 'them'} out with {self.wording.drop(names)}"

    def last_labels(self) -> list[str]:
        """Return the cells of the last row as text, with its label."""
        columns = self.columns if self.index is None else (self.index, *self.columns)
        return [str(column.cell(self.n_rows - 1)) for column in columns]

    def numbers(self, kind: str = "arm") -> Table:
        """Return the cells as finite numbers, or nan for gaps; `kind` is what messages call a column."""
        table = np.empty((self.n_rows, len(self.columns)))
        for at, column in enumerate(self.columns):
            table[:, at] = column.numbers()
        finite = np.isfinite(table)
        bad = ~finite
        if self.gaps:
            bad &= ~self._missing()
            if kind == "arm":
                bad |= ~finite.any(axis=0)  # a column without numbers is not an arm
        if bad.any():
            row, column_at = divmod(int(bad.argmax()), len(self.names))
            self._refuse(row, column_at, kind, table)
        return table

    def _missing(self) -> Mask:
        """Return which cells are missing."""
        return np.column_stack([column.missing() for column in self.columns])

    def not_a_number(self, text: str) -> str:
        """Say how to write a cell that is not a number."""
        if not self.content:
            how = " (pandas: read_csv(..., decimal=','); polars: read_csv(..., decimal_comma=True))"
            return f"store the column as numbers{how if has_comma(text) else ''}"
        comma = self.decimal == "." and has_comma(text)
        return PLAIN_NUMBERS[self.decimal] + (f"; if these are decimal commas, {self.decimal_commas}" if comma else "")

    @property
    def decimal_commas(self) -> str:
        """Say how to read decimal commas."""
        return self.wording.option("decimal", ",")

    def _refuse(self, row: int, column: int, kind: str, table: Table) -> NoReturn:
        """Say what is wrong with a cell that is not a finite number; `table` has all cells as numbers."""
        cell, name = self.columns[column].cell(row), self.names[column]
        text = "" if cell is None else str(cell).strip()
        where = f"{self.where(row)} of {kind} {name!r}"
        missing, finite = is_missing(cell), np.isfinite(table)
        if np.isinf(table[row, column]):
            raise ValueError(f"losses must be finite, but got {text!r} in {where}; replace it with a finite number")
        if isinstance(cell, datetime.timedelta) and not missing:
            advice = f"store durations as numbers, such as seconds; if it is not an arm, {self.leave_out(name)}"
        elif not finite[:, column].any() and kind == "arm" and (missing or not is_decorated(text)):
            not_arm = f"if it is not an arm, {self.leave_out(name)}"
            one_each = f"if each row is the loss of one arm in one round, name its columns with {self.wording.long}"
            ways = [one_each, not_arm] if finite.any(axis=0).sum() < 2 else [not_arm, one_each]
            advice = f"no cell of the column is a number: {'; '.join(ways)}"
        elif missing:
            n_missing, n_cells = int(self._missing().sum()), table.size
            advice = f"missing cells: {n_missing} of {n_cells}; {ways_out(self.wording, reward=self.reward)}"
        elif is_total(text):
            advice = "if the row is a total, delete it"
        else:
            advice = self.not_a_number(text)
        if missing:
            what = "rewards" if self.reward else "losses"
            raise ValueError(f"{what} must not be missing, but got {shown(text)} in {where}; {advice}")
        raise TypeError(f"losses must be numbers, but got {shown(text)} in {where}; {advice}")


def check_names(names: Sequence[str], *, nameless: int = 0) -> None:
    """Refuse names of arms that are empty or not all different; so many at the beginning may be empty."""
    if "" in names[nameless:]:
        raise ValueError(
            f"every arm must have a name, but column {names.index('', nameless)} has none; "
            "if it holds row numbers, write the table without them (pandas: to_csv(..., index=False))"
        )
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"the names of the arms must be distinct, but {twice!r} appears {names.count(twice)} times")


def records(path: Path | None, content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield, for each row of a text, the line in which it begins and its cells; the first row holds the names."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error:
        reason = f"the row that begins in line {line} has double quotes that are not in pairs around a cell"
        raise unreadable(path, reason) from None


def unreadable(path: Path | None, reason: str) -> ValueError:
    """Return the error for a file in which no cells can be found."""
    return ValueError(f"cannot read losses from {str(path)!r}: {reason}")
