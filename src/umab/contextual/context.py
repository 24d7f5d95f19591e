"""Contexts: what is known about a request before the choice, by names; and as the numbers that models take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from umab._support.checks import shown

if TYPE_CHECKING:
    import pandas
    import polars

Context: TypeAlias = (
    "Mapping[str, object] | tuple[object, ...] | pandas.Series[Any] | pandas.DataFrame | polars.DataFrame"
)
"""From names to numbers, strings, booleans or None, which says that the value is not known, as a missing name does.

A row of a frame is one too: a pandas Series, a named tuple of `itertuples`, or a frame of one row. In a row, nan and
the NA of pandas say that a value is not known.
"""

Known = Mapping[str, float | str]
"""A context that was checked: only what is known, as floats and strings."""

Vector = npt.NDArray[np.float64]

MOST_NAMES = 10_000
"""Of how many names it is remembered whether they have numbers or strings."""
LARGEST = 1e100
"""The largest number in a context: squares of such numbers, and sums of these, are finite."""


def checked(context: object) -> Known:
    """Return a context without what is not known."""
    known: dict[str, float | str] = {}
    for name, value in (context if isinstance(context, Mapping) else _of_row(context)).items():
        if not isinstance(name, str):
            raise TypeError(f"the names in a context must be strings, but got {shown(name)}")
        plain = value.item() if isinstance(value, np.generic) else value
        if plain is None:
            continue
        if isinstance(plain, str):
            known[name] = plain
        elif isinstance(plain, (bool, int, float)):
            known[name] = _number(name, plain)
        else:
            raise TypeError(f"a value in a context must be a number, a string or None, but got {name}={shown(value)}")
    return MappingProxyType(known)  # experts share it, and must not change it


def _of_row(row: Any) -> dict[object, object]:
    """Return a row of a frame by the names of its columns, with None for what is not known; refuse anything else.

    Rows are recognised by what they can do, so pandas and polars need not be imported.
    """
    fields = getattr(row, "_fields", None)
    if isinstance(row, tuple) and fields is not None:
        pairs = list(zip(fields, row, strict=True))
        if fields[:1] == ("Index",) and type(row).__module__.partition(".")[0] == "pandas":
            del pairs[0]  # itertuples puts the label of the row first, which iterrows does not have among its values
        for name, _ in pairs:
            if name.startswith("_"):  # as no field may, unless itertuples had to rename it
                raise ValueError(
                    "a named tuple must have the names of the columns, but itertuples has renamed one that is no "
                    f"identifier to {name}; use frame.iterrows(), or rename the column"
                )
    elif hasattr(row, "shape") and hasattr(row, "columns"):  # a LazyFrame has no shape, and would read its file
        if row.shape[0] != 1:
            raise ValueError(f"a context must be one row of a frame, but got {shown(row)}; pass one row at a time")
        cells = next(row.itertuples(index=False, name=None)) if hasattr(row, "iloc") else row.row(0)
        pairs = list(zip(row.columns, cells, strict=True))
    elif hasattr(row, "iloc"):
        pairs = list(row.items())
    else:
        raise TypeError(f"a context must be a dict or a row of a frame, with names, but got {shown(row)}")
    found = {name: None if _is_unknown(value) else value for name, value in pairs}
    if len(found) < len(pairs):
        twice, times = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the names in a context must differ, but {shown(twice)} appears {times} times")
    return found


def _is_unknown(value: object) -> bool:
    """Whether a cell of a frame is missing: None, nan, or the NA or NaT of pandas."""
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:  # nan is not either
        rule = f"a number in a context must be from {-LARGEST:g} to {LARGEST:g}, or None if unknown"
        raise ValueError(f"{rule}, but got {name}={value!r}")
    return number


class Kinds:
    """Which names have numbers and which have strings: what a name had first, it keeps."""

    def __init__(self, strings: Mapping[str, bool] | None = None) -> None:
        self.has_string = dict(strings or {})

    def check(self, known: Known) -> None:
        """Raise an error if a name that had numbers has a string now, or the other way round."""
        for name, value in known.items():
            was = self.has_string.get(name, isinstance(value, str))
            if was != isinstance(value, str):
                kinds = ("a string", "a number")
                rule = f"{name} must be {kinds[not was]}, as it was before"
                raise TypeError(f"{rule}, but got {kinds[was]}: {name}={value!r}")

    def note(self, known: Known) -> None:
        """Remember the names that are new."""
        for name, value in known.items():
            if name in self.has_string or len(self.has_string) < MOST_NAMES:
                self.has_string.setdefault(name, isinstance(value, str))


class Features:
    """Contexts as vectors: a column for each name of a number, and one for each value of a string.

    Numbers are measured from their mean, in multiples of their standard deviation, both of the contexts that were
    learned from so far, so that neither unit nor offset of a number matters. A number that is not known counts as the
    mean, and a string that is not known, or new, has no column that is 1. A new name or value gets a column when it is
    first learned from, up to `most` columns; what comes later is ignored. The last column is always 1.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.columns: dict[tuple[str, str | None], int] = {}
        self.counts, self.means, self.squares = np.zeros(0), np.zeros(0), np.zeros(0)

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.columns) + 1

    def vector(self, known: Known) -> Vector:
        """Return a context as a vector."""
        found = np.zeros(self.size)
        found[-1] = 1.0
        for name, value in known.items():
            if isinstance(value, str):
                at = self.columns.get((name, value))
                if at is not None:
                    found[at] = 1.0
                continue
            at = self.columns.get((name, None))
            if at is not None and self.squares[at] > 0.0:
                found[at] = (value - self.means[at]) / math.sqrt(self.squares[at] / self.counts[at])
        return found

    def learn(self, known: Known) -> None:
        """Add columns for what is new, and learn the means and deviations of the numbers."""
        for name, value in known.items():
            key = (name, value if isinstance(value, str) else None)
            at = self.columns.get(key)
            if at is None:
                if len(self.columns) >= self.most:
                    continue
                at = self.columns[key] = len(self.columns)
                self.counts, self.means, self.squares = (
                    np.append(each, 0.0) for each in (self.counts, self.means, self.squares)
                )
            if not isinstance(value, str):
                self.counts[at] += 1.0
                gap = value - self.means[at]
                self.means[at] += gap / self.counts[at]
                self.squares[at] += gap * (value - self.means[at])

    def saved(self) -> dict[str, object]:
        """Return all of it, as JSON can hold it."""
        return {
            "columns": [list(key) for key in self.columns],
            "counts": self.counts.tolist(),
            "means": self.means.tolist(),
            "squares": self.squares.tolist(),
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from what `saved` returned."""
        keys = [(name, value) for name, value in saved["columns"]]
        texts = all(isinstance(name, str) and (value is None or isinstance(value, str)) for name, value in keys)
        if not texts or len(set(keys)) < len(keys) or len(keys) > self.most:
            raise ValueError(f"the columns of features must be at most {self.most} different names and values")
        self.columns = {key: at for at, key in enumerate(keys)}
        self.counts, self.means, self.squares = (
            finite_numbers(f"the {key} of features", saved[key], (len(keys),)) for key in ("counts", "means", "squares")
        )
        if (self.counts < 0.0).any() or (self.squares < 0.0).any():
            raise ValueError("the counts and squares of features must be at least 0")


def finite_numbers(name: str, values: object, shape: tuple[int, ...], largest: float = 1e250) -> Vector:
    """Return numbers that were read from a file, checked."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if isinstance(values, str) or numbers.shape != shape or not (np.abs(numbers) <= largest).all():
        raise ValueError(f"{name} must be finite numbers of shape {shape}")
    return numbers
