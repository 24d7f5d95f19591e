"""Losses: a checked table of what every arm would have cost in every round."""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from umab._support import checks, display
from umab.tables import sheet
from umab.tables.reading import read_arms
from umab.tables.wording import IN_PYTHON, Wording

Table = sheet.Table


class TableWarning(UserWarning):
    """A decision made while reading a file of losses, such as to set a column of dates aside."""


@dataclass(frozen=True, eq=False)
class Losses:
    """A loss table: one row per round, one column per arm.

    Make one with `Losses.of`, which checks its input.

    Attributes
    ----------
    table
        Rounds × arms, float64, C-order, all finite, read-only.
    arms
        The names of the columns.
    source
        Where the table comes from, in words.
    provenance
        What the table depends on, for data sets of `umab.datasets`: files and their digests, parameters, seeds.
    """

    table: Table
    arms: tuple[str, ...]
    source: str
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        data: Any,
        *,
        arms: Iterable[str] | None = None,
        source: str | None = None,
        provenance: Mapping[str, Any] | None = None,
        reward: bool = False,
        drop: Sequence[str] = (),
        suspicious: Literal["refuse", "allow"] = "refuse",
    ) -> Losses:
        """Return `data` as Losses: an array, nested lists, a pandas or polars frame, or the path of a file.

        The columns of a frame or file name the arms, unless `arms` does. A file is read as by `read`, with the same
        options; that needs the extra ``[data]``.

        Examples
        --------
        >>> from umab import Losses
        >>> Losses.of([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        Losses of 3 rounds, 2 arms, from 0.1 to 0.6
        """
        found: tuple[Any, Iterable[str] | None, str, Mapping[str, Any]]
        is_path = isinstance(data, (str, os.PathLike))
        if not is_path and (reward or drop or suspicious != "refuse"):
            raise TypeError(
                f"reward, drop and suspicious are only for the path of a file, but got them for {type(data).__name__}"
            )
        if isinstance(data, Losses):
            if arms is None and source is None and provenance is None:
                return data
            found = data.table, data.arms, data.source, data.provenance
        elif is_path:
            read = read_file(data, IN_PYTHON, reward=reward, drop=drop, suspicious=suspicious)
            found = read.table, read.arms, read.source, read.provenance
        else:
            # Anything with columns counts as a frame, so pandas and polars need not be imported.
            found = data, getattr(data, "columns", None), type(data).__name__, {}
        table, names, origin, about = found
        return cls._checked(
            table,
            names if arms is None else arms,
            origin if source is None else source,
            about if provenance is None else provenance,
        )

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        reward: bool = False,
        drop: Sequence[str] = (),
        suspicious: Literal["refuse", "allow"] = "refuse",
    ) -> Losses:
        r"""Return the table in a file, or name the row, column and line of a mistake in it.

        Everything that takes the path of a file reads it this way: `simulate`, commands, experiments, sweeps.

        The file is CSV (.csv, .csv.gz; cells separated by commas, semicolons or tabs), TSV (.tsv, .tsv.gz) or Parquet.
        Numbers have a decimal point. There are at least two arms, and the table is

        - wide: the first line names the arms, and every row is a round; or
        - long: the columns are round, arm and loss, in any order, and every row is the loss of one arm in one round.
          Every round has every arm once. Rounds are sorted if all of them are numbers; other rounds, such as dates,
          and arms stay in the order in which they first appear.

        A column of dates or times is not an arm. It is set aside, and a `TableWarning` says so unless `drop` names it.

        Parameters
        ----------
        path
            The file.
        reward
            Whether the numbers are rewards. Their signs are flipped to make them losses, and the values of a long
            table may then also be called reward.
        drop
            The names of columns to leave out, such as a column of dates.
        suspicious
            Whether to "refuse" or "allow" what looks like a mistake but may be right: numbers instead of names in the
            first line; a column that counts up in equal whole steps, as row numbers do; a last row that is called
            Total or Mean, or that holds the sums or means of all rows above it.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from umab import Losses
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "delays.csv")
        ...     _ = path.write_text("day,bus,train\nMon,3,5\nTue,4.5,1\n")
        ...     Losses.read(path, drop=["day"])
        Losses of 2 rounds, 2 arms, from 1 to 5
        """
        return read_file(path, IN_PYTHON, reward=reward, drop=drop, suspicious=suspicious)

    @classmethod
    def _checked(cls, data: Any, names: Iterable[str] | None, source: str, provenance: Mapping[str, Any]) -> Losses:
        arms = None if names is None else tuple(str(name) for name in names)
        table = _as_floats(data.to_numpy() if hasattr(data, "columns") else data, arms)
        if table.ndim != 2:
            raise ValueError(f"losses must be a table of rounds × arms, but got {table.ndim} dimension(s)")
        n_rounds, n_arms = table.shape
        if n_rounds == 0 or n_arms == 0:
            raise ValueError(
                f"losses must have at least one round and one arm, but got {n_rounds} rounds of {n_arms} arms"
            )
        if arms is None:
            arms = tuple(str(k) for k in range(n_arms))
        if len(arms) != n_arms:
            raise ValueError(f"every column must have one name, but got {len(arms)} names for {n_arms} columns")
        sheet.check_names(arms)
        finite = np.isfinite(table)
        if not finite.all():
            row, column = (int(at) for at in np.argwhere(~finite)[0])
            raise ValueError(
                f"losses must be finite, but got loss={table[row, column]} in row {row} of arm {arms[column]!r}"
            )
        table.setflags(write=False)
        return cls(table=table, arms=arms, source=source, provenance=provenance)

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

    def _repr_html_(self) -> str:
        return display.losses_html(self.arms, self.table)

    def __repr__(self) -> str:
        """Show the numbers of rounds and arms, and the range of the losses."""
        low, high = self.table.min(), self.table.max()
        return f"Losses of {self.n_rounds} rounds, {self.n_arms} arms, from {low:g} to {high:g}"


def _as_floats(data: Any, arms: Sequence[str] | None) -> Table:
    """Return a copy of `data` as float64 in C-order; a copy, so that later changes to `data` have no effect."""
    if np.ma.isMaskedArray(data) and np.ma.getmaskarray(data).any():
        raise ValueError("losses must not be missing, but the array has masked entries")
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError("losses must be a table with rows of equal length, but the lengths differ") from None
    if array.dtype.kind in "fiub":
        return np.array(array, dtype=np.float64, order="C")
    if array.ndim == 2 and array.dtype.kind in "OUSc":
        # One string among numbers turns them all into strings, so look for the culprit in the original data.
        array = np.array(data, dtype=object)
        named = arms if arms and len(arms) == array.shape[1] else None
        for (row, column), value in np.ndenumerate(array):
            if not _is_number(value):
                where = f"row {row} of arm {named[column]!r}" if named else f"row {row}, column {column}"
                raise TypeError(f"losses must be numbers, but got {value!r} in {where}")
        return np.array(array, dtype=np.float64, order="C")
    raise TypeError(f"losses must be a table of numbers, but got {type(data).__name__} of {array.dtype}")


def _is_number(value: Any) -> bool:
    try:
        checks.real("loss", value)
    except (TypeError, ValueError):
        return False
    return True


def read_file(
    path: str | os.PathLike[str],
    wording: Wording,
    *,
    reward: bool = False,
    drop: Sequence[str] = (),
    suspicious: str = "refuse",
) -> Losses:
    """Return the table in a file, as `Losses.read` does; `wording` is how error messages name the options."""
    if isinstance(drop, str):
        raise TypeError(f"drop must be a list of names, but got drop={drop!r}; write drop=[{drop!r}]")
    allow = checks.one_of("suspicious", suspicious, ("refuse", "allow")) == "allow"
    dropped = list(drop)
    read = read_arms(Path(path), reward=reward, drop=dropped, allow=allow, wording=wording)
    for name in read.set_aside:
        told = f"column {name!r} of {str(path)!r} holds dates and was set aside, as with {wording.drop([name])}"
        warnings.warn(told, TableWarning, stacklevel=3)
    about = {"reward": bool(reward), "drop": dropped, "set_aside": list(read.set_aside)}
    return Losses._checked(read.table, read.arms, str(Path(path)), about)
