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
import numpy.typing as npt

from umab._support import checks, display
from umab.tables import sheet
from umab.tables.cells import is_missing
from umab.tables.missing import Missing, as_missing, ways_out, without_gaps
from umab.tables.reading import read_arms
from umab.tables.wording import IN_PYTHON, Wording

Table = sheet.Table
Mask = npt.NDArray[np.bool_]


class TableWarning(UserWarning):
    """A decision about a table of losses, such as to set a column of dates aside."""


@dataclass(frozen=True, eq=False)
class Losses:
    """A loss table: one row per round, one column per arm.

    Make one with `Losses.of`, which checks its input.

    Attributes
    ----------
    table
        Rounds × arms, float64, C-order, read-only. All numbers are finite, and an arm that is away in a round has nan.
    arms
        The names of the columns.
    source
        Where the table comes from, in words.
    provenance
        What the table depends on, for data sets of `umab.datasets`: files and their digests, parameters, seeds.
    eligible
        Which arms are there in which rounds, rounds × arms; None if all arms always are.
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
        missing: Missing = "refuse",
        eligible: Any = None,
    ) -> Losses:
        """Return `data` as Losses: an array, nested lists, a pandas or polars frame, or the path of a file.

        The columns of a frame or file name the arms, unless `arms` does. A file is read as by `read`, with the same
        options; that needs the extra ``[data]``.

        With ``missing="away"``, a missing loss (nan, None, a masked entry) means that the arm was not there in this
        round. `eligible`, rounds × arms of booleans, says the same without marks in the data: where it is false, the
        arm was not there, and the number in its place has no effect. In every round, at least one arm must be there.
        With ``missing="drop"``, rounds with a missing loss are left out. With a number, it takes the place of each
        missing loss.

        Examples
        --------
        >>> from umab import Losses
        >>> Losses.of([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        Losses of 3 rounds, 2 arms, from 0.1 to 0.6
        >>> Losses.of([[0.1, 0.2], [0.3, None], [0.5, 0.6]], missing="away").eligible.tolist()
        [[True, True], [True, False], [True, True]]
        """
        missing = as_missing(missing)
        found: tuple[Any, Iterable[str] | None, str, Mapping[str, Any]]
        is_path = isinstance(data, (str, os.PathLike))
        if not is_path and (reward or drop or suspicious != "refuse"):
            raise TypeError(
                f"reward, drop and suspicious are only for the path of a file, but got them for {type(data).__name__}"
            )
        if isinstance(data, Losses):
            missing = "away" if missing == "refuse" else missing
            if missing == "away" and arms is None and source is None and provenance is None and eligible is None:
                return data
            found = data.table, data.arms, data.source, data.provenance
        elif is_path:
            read = read_file(data, IN_PYTHON, reward=reward, drop=drop, suspicious=suspicious, missing=missing)
            found = read.table, read.arms, read.source, read.provenance
            missing = "away" if read.n_away else "refuse"
        else:
            # Anything with columns counts as a frame, so pandas and polars need not be imported.
            found = data, getattr(data, "columns", None), type(data).__name__, {}
        table, names, origin, about = found
        return cls._checked(
            table,
            names if arms is None else arms,
            origin if source is None else source,
            about if provenance is None else provenance,
            missing=missing,
            eligible=eligible,
        )

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        reward: bool = False,
        drop: Sequence[str] = (),
        suspicious: Literal["refuse", "allow"] = "refuse",
        missing: Missing = "refuse",
    ) -> Losses:
        r"""Return the table in a file; if it has a mistake, the error names the row, column and line.

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
        missing
            What to do about a missing cell: an empty one, nan, NA, null or a dash, or in a long table an arm without a
            row in some round. "refuse" it; read it as an arm that was "away" in this round; "drop" the round; or a
            number to put in its place, which is a reward if the others are. If arms may be away, at least one arm must
            be there in every round, and two in some round. Every arm must have a number in some round.

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
        return read_file(path, IN_PYTHON, reward=reward, drop=drop, suspicious=suspicious, missing=missing)

    @classmethod
    def _checked(
        cls,
        data: Any,
        names: Iterable[str] | None,
        source: str,
        provenance: Mapping[str, Any],
        *,
        missing: Missing,
        eligible: Any = None,
    ) -> Losses:
        arms = None if names is None else tuple(str(name) for name in names)
        if hasattr(data, "columns"):
            _refuse_times(data)
            data = data.to_numpy()
        table = _as_floats(data, arms, refuse=missing == "refuse")
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
        there = None if eligible is None else _as_mask(eligible, table.shape, arms)
        gaps = np.isnan(table) if there is None else np.isnan(table) & there
        if gaps.any() and missing not in ("refuse", "away"):
            table, left = without_gaps(table, gaps, missing)
            there = None if there is None else there[left]
        if there is not None or not np.isfinite(table).all():
            _mark_away(table, arms, there, nan_is_away=missing == "away")
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
    def eligible(self) -> Mask | None:
        """Which arms are there in which rounds, rounds × arms, read-only; None if all arms always are."""
        if not np.isnan(self.table.min()):
            return None
        there = ~np.isnan(self.table)
        there.setflags(write=False)
        return there

    @property
    def n_away(self) -> int:
        """In how many cells, pairs of a round and an arm, the arm is away."""
        return 0 if self.eligible is None else int(self.eligible.size - self.eligible.sum())

    @property
    def present(self) -> Table:
        """The losses of the arms that are there: the table itself, or a vector if some arms are away."""
        return self.table if self.eligible is None else self.table[self.eligible]

    @functools.cached_property
    def digest(self) -> str:
        """A sha256 of the shape, the numbers, and which arms are away."""
        content = hashlib.sha256(f"{self.n_rounds}x{self.n_arms} float64 ".encode())
        content.update(np.ascontiguousarray(self.table, dtype="<f8").data)
        return content.hexdigest()

    def _repr_html_(self) -> str:
        return display.losses_html(self.arms, self.table)

    def __repr__(self) -> str:
        """Show the numbers of rounds and arms, the range of the losses, and how many cells are away."""
        low, high = self.present.min(), self.present.max()
        away = f", {self.n_away} cells away" if self.n_away else ""
        return f"Losses of {self.n_rounds} rounds, {self.n_arms} arms, from {low:g} to {high:g}{away}"


_WAYS_OUT = ways_out(IN_PYTHON)


def _refuse_times(frame: Any) -> None:
    """Refuse a polars frame with a column of dates or times, which would become numbers; pandas says so by itself."""
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if getattr(dtype, "is_temporal", bool)():
            raise TypeError(f"losses must be numbers, but column {name!r} holds {dtype}; pass the frame without it")


def refuse_away(losses: Losses, what: str) -> None:
    """Refuse a table in which some arms are away; `what` is what needs all losses."""
    if losses.eligible is None:
        return
    row, column = (int(at) for at in np.argwhere(~losses.eligible)[0])
    raise ValueError(
        f"{what} needs the losses of all arms in all rounds, but {losses.n_away} of {losses.eligible.size} cells are "
        f"away, the first in row {row} of arm {losses.arms[column]!r}"
    )


def _mark_away(table: Table, arms: tuple[str, ...], there: Mask | None, *, nan_is_away: bool) -> None:
    """Put nan where an arm is away, by the mask or, if it means that, by nan; refuse other losses that are not finite.

    There are many nans, and digests must not depend on which one it is, so all of them become the same.
    """
    away = np.isnan(table) if nan_is_away else np.zeros(table.shape, dtype=np.bool_)
    if there is not None:
        away |= ~there
    bad = ~(np.isfinite(table) | away)
    if bad.any():
        row, column = (int(at) for at in np.argwhere(bad)[0])
        loss = table[row, column]
        hint = f"; {_WAYS_OUT}" if np.isnan(loss) else ""
        raise ValueError(f"losses must be finite, but got loss={loss} in row {row} of arm {arms[column]!r}{hint}")
    empty = away.all(axis=1)
    if empty.any():
        raise ValueError(f"every round must have an arm that is there, but row {int(empty.argmax())} has none")
    table[away] = np.nan


def _as_mask(eligible: Any, shape: tuple[int, ...], arms: tuple[str, ...]) -> Mask:
    """Return `eligible` as booleans, rounds × arms."""
    names = getattr(eligible, "columns", None)
    if names is not None and tuple(str(name) for name in names) != arms:
        raise ValueError(f"the columns of eligible must be the arms, {list(arms)}, but got {list(map(str, names))}")
    try:
        mask = np.asarray(eligible.to_numpy() if names is not None else eligible)
    except ValueError:
        raise ValueError("eligible must be a table with rows of equal length, but the lengths differ") from None
    if mask.dtype != np.bool_:
        raise TypeError(f"eligible must be booleans, but got {type(eligible).__name__} of {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"eligible must have the shape of the losses, {shape}, but got {mask.shape}")
    return mask


def _as_floats(data: Any, arms: Sequence[str] | None, *, refuse: bool) -> Table:
    """Return a copy of `data` as float64 in C-order; a copy, so that later changes to `data` have no effect.

    Missing values become nan, unless they are to be refused.
    """
    if np.ma.isMaskedArray(data) and np.ma.getmaskarray(data).any():
        if refuse:
            raise ValueError(f"losses must not be missing, but the array has masked entries; {_WAYS_OUT}")
        data = np.ma.filled(data.astype(object), np.nan)
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
            if is_missing(value) and not refuse:
                array[row, column] = np.nan
            elif not _is_number(value):
                where = f"row {row} of arm {named[column]!r}" if named else f"row {row}, column {column}"
                hint = f"; {_WAYS_OUT}" if is_missing(value) else ""
                raise TypeError(f"losses must be numbers, but got {checks.shown(value)} in {where}{hint}")
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
    missing: Missing = "refuse",
) -> Losses:
    """Return the table in a file, as `Losses.read` does; `wording` is how error messages name the options."""
    if isinstance(drop, str):
        raise TypeError(f"drop must be a list of names, but got drop={drop!r}; write drop=[{drop!r}]")
    allow = checks.one_of("suspicious", suspicious, ("refuse", "allow")) == "allow"
    missing = as_missing(missing)
    dropped = list(drop)
    read = read_arms(Path(path), reward=reward, drop=dropped, allow=allow, missing=missing, wording=wording)
    for name in read.set_aside:
        told = f"column {name!r} of {str(path)!r} holds dates and was set aside, as with {wording.drop([name])}"
        warnings.warn(told, TableWarning, stacklevel=3)
    about: dict[str, Any] = {"reward": bool(reward), "drop": dropped, "set_aside": list(read.set_aside)}
    about |= {"unit": read.unit} if read.unit else {}
    about |= {"missing": missing} if missing != "refuse" else {}
    if read.n_missing and missing != "away":
        about |= {"n_missing": read.n_missing, "n_left_out": read.n_left_out}
    return Losses._checked(read.table, read.arms, str(Path(path)), about, missing=missing)
