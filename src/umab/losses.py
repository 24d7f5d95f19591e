"""Losses: a checked table of what every arm would have cost in every round."""

from __future__ import annotations

import csv
import functools
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umab import checks

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Losses:
    """A table of losses: one row a round, one column an arm.

    Make one with `Losses.of`, which checks its input.

    Attributes
    ----------
    table
        Rounds × arms, float64, C-order, all finite, read-only.
    arms
        The names of the columns.
    source
        Where the table comes from, in words.
    """

    table: Table
    arms: tuple[str, ...]
    source: str

    @classmethod
    def of(cls, data: Any) -> Losses:
        """Return `data` as Losses: an array, nested lists, a pandas or polars frame, or the path of a file.

        Columns of a frame or file name the arms. A file is CSV, with the names in its first line, or Parquet; reading
        files needs the extra ``[data]``.

        Examples
        --------
        >>> from umab import Losses
        >>> Losses.of([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        Losses of 3 rounds, 2 arms, from 0.1 to 0.6
        """
        if isinstance(data, Losses):
            return data
        if isinstance(data, (str, os.PathLike)):
            path = Path(data)
            return cls._checked(_read_frame(path), source=str(path))
        return cls._checked(data, source=type(data).__name__)

    @classmethod
    def _checked(cls, data: Any, *, source: str) -> Losses:
        # A frame is what has columns: pandas and polars are not imported to find out.
        arms = tuple(str(name) for name in data.columns) if hasattr(data, "columns") else None
        table = _as_floats(data.to_numpy() if arms is not None else data, arms)
        if table.ndim != 2:
            raise ValueError(f"losses must be a table of rounds × arms, but got {table.ndim} dimension(s)")
        n_rounds, n_arms = table.shape
        if n_rounds == 0 or n_arms == 0:
            raise ValueError(f"losses must have a round and an arm, but got {n_rounds} rounds of {n_arms} arms")
        if arms is None:
            arms = tuple(str(k) for k in range(n_arms))
        _check_names(arms)
        finite = np.isfinite(table)
        if not finite.all():
            row, column = (int(at) for at in np.argwhere(~finite)[0])
            raise ValueError(
                f"losses must be finite, but got loss={table[row, column]} in row {row} of arm {arms[column]!r}"
            )
        table.setflags(write=False)
        return cls(table=table, arms=arms, source=source)

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return int(self.table.shape[0])

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self.table.shape[1])

    @functools.cached_property
    def digest(self) -> str:
        """A sha256 of the shape and the numbers."""
        content = hashlib.sha256(f"{self.n_rounds}x{self.n_arms} float64 ".encode())
        content.update(np.ascontiguousarray(self.table, dtype="<f8").data)
        return content.hexdigest()

    def __repr__(self) -> str:
        """Say how large it is, in rounds, arms and losses."""
        low, high = self.table.min(), self.table.max()
        return f"Losses of {self.n_rounds} rounds, {self.n_arms} arms, from {low:g} to {high:g}"


def _check_names(arms: Sequence[str]) -> None:
    if "" in arms:
        raise ValueError(
            f"every arm must have a name, but column {arms.index('')} has none; "
            "if it holds row numbers, write the table without them (pandas: to_csv(..., index=False))"
        )
    if len(set(arms)) < len(arms):
        twice = next(name for at, name in enumerate(arms) if name in arms[:at])
        raise ValueError(f"the names of arms must differ, but {twice!r} is there {arms.count(twice)} times")


def _as_floats(data: Any, arms: Sequence[str] | None) -> Table:
    """Return a copy of `data` as float64 in C-order; a copy, so that nobody changes it behind our back."""
    if np.ma.isMaskedArray(data) and np.ma.getmaskarray(data).any():
        raise ValueError("losses must all be there, but the table is an array with masked entries")
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError("losses must be a table with rows of equal length, but the rows differ") from None
    if array.dtype.kind in "fiub":
        return np.array(array, dtype=np.float64, order="C")
    if array.ndim == 2 and array.dtype.kind in "OUSc":
        # One string among numbers has made strings of all: look at what was there before, so as to name the culprit.
        array = np.array(data, dtype=object)
        for (row, column), value in np.ndenumerate(array):
            if not _is_number(value):
                where = f"row {row} of arm {arms[column]!r}" if arms else f"row {row}, column {column}"
                raise TypeError(f"losses must be numbers, but got {value!r} in {where}")
        return np.array(array, dtype=np.float64, order="C")
    raise TypeError(f"losses must be a table of numbers, but got {type(data).__name__} of {array.dtype}")


def _is_number(value: Any) -> bool:
    try:
        checks.real("loss", value)
    except (TypeError, ValueError):
        return False
    return True


def _read_frame(path: Path) -> Any:
    """Return a CSV or Parquet file as a polars frame."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"a file of losses must end in .csv or .parquet, but got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of losses at {str(path)!r}")
    try:
        import polars
    except ImportError:
        raise ImportError("reading files of losses needs polars; in a checkout run: pip install -e '.[data]'") from None
    try:
        if path.suffix.lower() == ".parquet":
            return polars.read_parquet(path)
        with open(path, newline="", encoding="utf-8-sig") as file:
            names = next(csv.reader(file), [])
        texts = polars.read_csv(path, infer_schema_length=0)  # a guess at the types of columns might be wrong
    except (polars.exceptions.PolarsError, UnicodeDecodeError) as error:
        # The first line says what is wrong; the rest is advice on arguments that nobody here can pass.
        raise ValueError(f"cannot read losses from {str(path)!r}: {str(error).splitlines()[0]}") from None
    if all(_is_decimal(name) for name in names):
        raise ValueError(
            f"the first line of a file of losses must name the arms, but that of {str(path)!r} holds numbers: "
            f"{', '.join(names[:3])}"
        )
    _check_names(names)  # polars gives the second of two columns of one name another name
    frame = texts.select(polars.all().str.strip_chars().cast(polars.Float64, strict=False))
    for name in frame.columns:
        unread = frame[name].is_null() & texts[name].is_not_null()
        if unread.any():
            row = unread.arg_max() or 0
            raise TypeError(f"losses must be numbers, but got {texts[name][row]!r} in row {row} of arm {name!r}")
    return frame


def _is_decimal(name: str) -> bool:
    """Whether a name is a number that nobody would call an arm: 0.68, but not 7, the seventh store."""
    try:
        float(name)
    except ValueError:
        return False
    return not name.strip().isdigit()
