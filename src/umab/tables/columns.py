"""A column of a table: its cells as numbers, as texts and as times. Files of text and frames have their own kinds."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab.tables.cells import MISSING, is_date, is_missing, is_null, is_total
from umab.tables.units import Time

if TYPE_CHECKING:
    import polars

Table = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Column(Protocol):
    """What is asked of a column, wherever it comes from."""

    def cell(self, row: int) -> object:
        """Return one cell as it is."""

    def numbers(self) -> Table:
        """Return the cells as numbers; nan for those that are none."""

    def missing(self) -> Mask:
        """Return which cells are missing."""

    def texts(self) -> list[str]:
        """Return the cells as text, without spaces around it; "" for those that are empty."""

    def times(self) -> Sequence[Time] | None:
        """Return the dates or times, if the column holds nothing else. The last row may be a total without a date."""


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of a file of text, whose numbers have this decimal sign."""

    cells: polars.Series
    decimal: str = "."

    def cell(self, row: int) -> object:
        """Return one cell as it is."""
        return self.cells[row]

    def numbers(self) -> Table:
        """Return the cells as numbers; nan for those that are none."""
        import polars

        cells = self.cells.str.strip_chars()
        if self.decimal == ",":  # a point may then only separate thousands, so a cell with one is not a number
            cells = cells.str.replace_all(".", "?", literal=True).str.replace_all(",", ".", literal=True)
        return cells.cast(polars.Float64, strict=False).to_numpy()

    def missing(self) -> Mask:
        """Return which cells are missing."""
        found: Mask = self._stripped().str.to_lowercase().is_in(list(MISSING)).to_numpy()
        return found

    def texts(self) -> list[str]:
        """Return the cells as text, without spaces around it."""
        return self._stripped().to_list()

    def times(self) -> Sequence[Time] | None:
        """Return the dates or times, if the column holds nothing else."""
        texts = self.texts() if is_date(str(self.cells[0] or "").strip()) else None
        return texts if texts and _are_dates(texts) else None

    def _stripped(self) -> polars.Series:
        return self.cells.fill_null("").str.strip_chars()


@dataclass(frozen=True, eq=False)
class Values:
    """A column of a frame, with the types of its cells: a text in it is meant as such, even if it looks like a number.

    Attributes
    ----------
    cell
        Returns one cell as it is.
    cells
        Returns all cells.
    floats
        The cells as numbers, if the type of the column is one of numbers; nan for those that are missing.
    """

    cell: Callable[[int], object]
    cells: Callable[[], list[object]]
    floats: Table | None = None

    def numbers(self) -> Table:
        """Return the cells as numbers; nan for those that are none."""
        return np.array([_number(cell) for cell in self.cells()]) if self.floats is None else self.floats

    def missing(self) -> Mask:
        """Return which cells are missing."""
        if self.floats is None:
            return np.array([is_missing(cell) for cell in self.cells()])
        return np.asarray(np.isnan(self.floats))

    def texts(self) -> list[str]:
        """Return the cells as text, without spaces around it; "" for those that are empty."""
        return ["" if is_null(cell) else str(cell).strip() for cell in self.cells()]

    def times(self) -> Sequence[Time] | None:
        """Return the dates or times, if the column holds nothing else."""
        if self.floats is not None:
            return None
        cells = self.cells()
        known = [cell for cell in cells if not is_null(cell)]
        if known and all(isinstance(cell, (datetime.date, datetime.time)) for cell in known):
            return cast("list[Time]", cells)
        if not all(isinstance(cell, str) for cell in known):
            return None
        texts = self.texts()
        return texts if _are_dates(texts) else None


def _are_dates(texts: list[str]) -> bool:
    """Whether all texts are dates or times; the last one may be missing or the label of a total."""
    last = texts[-1]
    return is_date(texts[0]) and all(map(is_date, set(texts[:-1]))) and (is_date(last) or last == "" or is_total(last))


def _number(cell: object) -> float:
    try:
        return checks.real("cell", cell)
    except (TypeError, ValueError):
        return float("nan")
