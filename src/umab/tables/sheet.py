"""A sheet: the cells of a file, as text or as numbers, and where a cell is that is not a number."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from umab.tables.cells import MISSING, PLAIN_NUMBERS, is_date, is_decorated, is_total, shown
from umab.tables.missing import ways_out
from umab.tables.wording import IN_PYTHON, Wording

if TYPE_CHECKING:
    import polars

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sheet:
    """The cells of a file, in rows of the same length.

    Attributes
    ----------
    path
        The file.
    names
        The names of the columns.
    cells
        The cells: as text, or with the types of a Parquet file.
    content
        The text of the file; empty for Parquet.
    delimiter
        What separates the cells of the text.
    wording
        How error messages name the options.
    gaps
        Whether a missing cell is read as nan, and not refused.
    reward
        Whether the numbers are rewards.
    """

    path: Path
    names: tuple[str, ...]
    cells: polars.DataFrame
    content: bytes = b""
    delimiter: str = ","
    wording: Wording = IN_PYTHON
    gaps: bool = False
    reward: bool = False

    def select(self, columns: Sequence[int]) -> Sheet:
        """Return the sheet with these columns only."""
        cells = self.cells.select([self.cells.columns[column] for column in columns])
        return replace(self, names=tuple(self.names[column] for column in columns), cells=cells)

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

    def texts(self, column: int) -> polars.Series:
        """Return a column as text, without spaces around it."""
        import polars

        return self.cells.to_series(column).cast(polars.String).fill_null("").str.strip_chars()

    def times(self, column: int) -> list[Any]:
        """Return a column of dates or times: as texts, or with the types of a Parquet file."""
        series = self.cells.to_series(column)
        return (series if series.dtype.is_temporal() else self.texts(column)).to_list()

    def holds_dates(self, column: int) -> bool:
        """Whether a column holds only dates or times. The last row may be a total without a date."""
        import polars

        dtype = self.cells.dtypes[column]
        if dtype in (polars.Date, polars.Datetime, polars.Time):
            return True
        if dtype != polars.String:
            return False
        texts = self.texts(column)
        if not is_date(texts[0]):
            return False
        last = texts[-1]
        return all(map(is_date, texts[:-1].unique())) and (is_date(last) or last == "" or is_total(last))

    def numbers(self, kind: str = "arm") -> Table:
        """Return the cells as finite numbers, or nan for gaps; `kind` is what messages call a column."""
        import polars

        if self.content:
            floats = self.cells.select(polars.all().str.strip_chars().cast(polars.Float64, strict=False))
        else:
            # Texts and dates in a Parquet file are meant as such, even if they could be read as numbers.
            dtypes = self.cells.schema.items()
            others = [name for name, dtype in dtypes if not (dtype.is_numeric() or dtype == polars.Boolean)]
            floats = self.cells.with_columns(polars.lit(None).alias(name) for name in others).cast(polars.Float64)
        table = floats.to_numpy()
        finite = np.isfinite(table)
        bad = ~finite
        if self.gaps:
            bad &= ~self._missing(table)
            if kind == "arm":
                bad |= ~finite.any(axis=0)  # a column without numbers is not an arm
        if bad.any():
            row, column = divmod(int(bad.argmax()), len(self.names))
            numberless, n_arms = not finite[:, column].any(), int(finite.any(axis=0).sum())
            infinite = bool(np.isinf(table[row, column]))
            n_missing = int(self._missing(table).sum())
            self._refuse(
                row, column, kind, infinite=infinite, numberless=numberless, n_arms=n_arms, n_missing=n_missing
            )
        return table

    def _missing(self, table: Table) -> npt.NDArray[np.bool_]:
        """Return which cells are missing; `table` has them as numbers, and nan for everything else."""
        import polars

        if self.content:
            texts = self.cells.select(polars.all().fill_null("").str.strip_chars().str.to_lowercase())
            missing: npt.NDArray[np.bool_] = texts.select(polars.all().is_in(list(MISSING))).to_numpy()
            return missing
        numeric = [dtype.is_numeric() or dtype == polars.Boolean for dtype in self.cells.dtypes]
        return np.asarray(np.isnan(table) & np.array(numeric))

    def _refuse(
        self, row: int, column: int, kind: str, *, infinite: bool, numberless: bool, n_arms: int, n_missing: int
    ) -> NoReturn:
        """Say what is wrong with a cell that is not a finite number.

        `numberless` says that its whole column has none, and `n_arms` how many columns have one.
        """
        cell, name = self.cells.row(row)[column], self.names[column]
        text = "" if cell is None else str(cell).strip()
        where = f"{self.where(row)} of {kind} {name!r}"
        missing = text.lower() in MISSING
        if infinite:
            raise ValueError(f"losses must be finite, but got {text!r} in {where}; replace it with a finite number")
        if numberless and kind == "arm" and (missing or not is_decorated(text)):
            not_arm = f"if it is not an arm, {self.leave_out(name)}"
            one_each = "if each row is the loss of one arm in one round, name its columns round, arm and loss"
            ways = [one_each, not_arm] if n_arms < 2 else [not_arm, one_each]
            advice = f"no cell of the column is a number: {'; '.join(ways)}"
        elif missing:
            n_cells = self.cells.height * len(self.names)
            advice = f"missing cells: {n_missing} of {n_cells}; {ways_out(self.wording, reward=self.reward)}"
        elif is_total(text):
            advice = "if the row is a total, delete it"
        else:
            advice = PLAIN_NUMBERS if self.content else "store the column as numbers"
        if missing:
            what = "rewards" if self.reward else "losses"
            raise ValueError(f"{what} must not be missing, but got {shown(text)} in {where}; {advice}")
        raise TypeError(f"losses must be numbers, but got {text!r} in {where}; {advice}")


def check_names(names: Sequence[str]) -> None:
    """Refuse names of arms that are empty or not all different."""
    if "" in names:
        raise ValueError(
            f"every arm must have a name, but column {names.index('')} has none; "
            "if it holds row numbers, write the table without them (pandas: to_csv(..., index=False))"
        )
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"the names of the arms must be distinct, but {twice!r} appears {names.count(twice)} times")


def records(path: Path, content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
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


def unreadable(path: Path, reason: str) -> ValueError:
    """Return the error for a file in which no cells can be found."""
    return ValueError(f"cannot read losses from {str(path)!r}: {reason}")
