"""Losses: a checked table of what every arm would have cost in every round."""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from umab._support import checks, display
from umab.tables import columns
from umab.tables.cells import is_missing, listed
from umab.tables.checking import checked
from umab.tables.frames import is_frame
from umab.tables.missing import Missing, as_missing, ways_out, without_gaps
from umab.tables.reading import read, refuse_decimal
from umab.tables.roles import Named
from umab.tables.sheet import check_names
from umab.tables.wording import IN_PYTHON, Wording

Table = columns.Table
Mask = columns.Mask


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
        data: object,
        *,
        arms: Iterable[str] | None = None,
        source: str | None = None,
        provenance: Mapping[str, object] | None = None,
        reward: bool | str = False,
        drop: Sequence[str] = (),
        suspicious: Literal["refuse", "allow"] = "refuse",
        missing: Missing = "refuse",
        decimal: Literal[".", ","] = ".",
        round: str | None = None,
        arm: str | None = None,
        loss: str | None = None,
        eligible: object = None,
    ) -> Losses:
        r"""Return `data` as Losses, checked; if it has a mistake, the error names the row and the column.

        Everything that takes losses reads them this way: `simulate`, commands, experiments, sweeps.

        `data` is an array or nested lists, rounds × arms; a pandas or polars frame, or an Arrow table; or the path of a
        file. A file is CSV (.csv, .csv.gz; cells separated by commas, semicolons or tabs), TSV (.tsv, .tsv.gz) or
        Parquet, and needs the extra ``[data]``. A frame or a file has at least two arms, and is

        - wide: the columns are named after the arms, and every row is a round; or
        - long: the columns are round, arm and loss, in any order, and every row is the loss of one arm in one round.
          Every round has every arm once. Rounds are sorted if all of them are numbers; other rounds, such as dates,
          and arms stay in the order in which they first appear.

        A column of dates or times is not an arm, and neither is a first column without a name that counts the rows.
        Such a column is set aside, and a `TableWarning` says so unless `drop` names it. The index of a pandas frame is
        not a column.

        Parameters
        ----------
        data
            The table. `Losses` stay as they are.
        arms
            The names of the arms, in place of those in `data`.
        source, provenance
            Where the table comes from; by default, what is known about `data`.
        reward
            Whether the numbers are rewards. Their signs are flipped to make them losses, and the values of a long
            table may then also be called reward. A text is the column of a long table that has the rewards.
        drop
            The names of columns to leave out, such as a column of dates.
        suspicious
            Whether to "refuse" or "allow" what looks like a mistake in a frame or a file but may be right: numbers
            instead of names in the first line; a column that counts up in equal whole steps, as row numbers do; a last
            row that is called Total or Mean, or that holds the sums or means of all rows above it.
        missing
            What to do about a missing loss: nan, None, a masked entry, in a file an empty cell, nan, NA, null or a
            dash, or in a long table an arm without a row in some round. "refuse" it; read it as an arm that was "away"
            in this round; "drop" the round; or a number to put in its place, which is a reward if the others are. If
            arms may be away, at least one arm must be there in every round, and in a frame or a file two in some round
            and every arm in some round.
        decimal
            The decimal sign of the numbers in a file of text: with ",", cells are separated by semicolons or tabs.
        round, arm, loss
            The columns of a long table, if they have other names; columns that are not named are then ignored. If only
            one is left for the rounds, it need not be named.
        eligible
            Booleans, rounds × arms: where they are false, the arm was not there, and the number in its place has no
            effect. In every round, at least one arm must be there.

        Examples
        --------
        >>> from umab import Losses
        >>> Losses.of([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        Losses of 3 rounds, 2 arms, from 0.1 to 0.6
        >>> Losses.of([[0.1, 0.2], [0.3, None], [0.5, 0.6]], missing="away").eligible.tolist()
        [[True, True], [True, False], [True, True]]
        >>> import pandas
        >>> log = pandas.DataFrame({"day": [1, 1, 2, 2], "via": ["bus", "train"] * 2, "minutes": [3, 5, 4.5, 1]})
        >>> Losses.of(log, arm="via", loss="minutes")
        Losses of 2 rounds, 2 arms, from 1 to 5
        """
        return losses_of(
            data,
            IN_PYTHON,
            arms=arms,
            source=source,
            provenance=provenance,
            reward=reward,
            drop=drop,
            suspicious=suspicious,
            missing=missing,
            decimal=decimal,
            round=round,
            arm=arm,
            loss=loss,
            eligible=eligible,
        )

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        reward: bool | str = False,
        drop: Sequence[str] = (),
        suspicious: Literal["refuse", "allow"] = "refuse",
        missing: Missing = "refuse",
        decimal: Literal[".", ","] = ".",
        round: str | None = None,
        arm: str | None = None,
        loss: str | None = None,
    ) -> Losses:
        r"""Return the table in a file, as `of` does; the error for a mistake also names its line.

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
        return losses_of(
            Path(path),
            IN_PYTHON,
            reward=reward,
            drop=drop,
            suspicious=suspicious,
            missing=missing,
            decimal=decimal,
            round=round,
            arm=arm,
            loss=loss,
        )

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

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the table, read-only unless it is copied."""
        return np.array(self.table, dtype=dtype, copy=copy)

    def _repr_html_(self) -> str:
        return display.losses_html(self.arms, self.table)

    def __repr__(self) -> str:
        """Show the numbers of rounds and arms, the range of the losses, and how many cells are away."""
        low, high = self.present.min(), self.present.max()
        away = f", {self.n_away} cells away" if self.n_away else ""
        return f"Losses of {self.n_rounds} rounds, {self.n_arms} arms, from {low:g} to {high:g}{away}"


_WAYS_OUT = ways_out(IN_PYTHON)


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


def _as_mask(eligible: object, shape: tuple[int, ...], arms: tuple[str, ...]) -> Mask:
    """Return `eligible` as booleans, rounds × arms."""
    names = getattr(eligible, "columns", None)
    if names is not None and tuple(str(name) for name in names) != arms:
        raise ValueError(
            f"the columns of eligible must be the arms, {listed(arms)}, but got {listed([str(name) for name in names])}"
        )
    try:
        mask = np.asarray(cast(Any, eligible).to_numpy() if names is not None else eligible)
    except ValueError:
        raise ValueError("eligible must be a table with rows of equal length, but the lengths differ") from None
    if mask.dtype != np.bool_:
        raise TypeError(f"eligible must be booleans, but got {type(eligible).__name__} of {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"eligible must have the shape of the losses, {shape}, but got {mask.shape}")
    return mask


def _as_floats(data: object, arms: Sequence[str] | None, *, refuse: bool) -> Table:
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


def _is_number(value: object) -> bool:
    try:
        checks.real("loss", value)
    except (TypeError, ValueError):
        return False
    return True


def losses_of(
    data: object,
    wording: Wording,
    *,
    arms: Iterable[str] | None = None,
    source: str | None = None,
    provenance: Mapping[str, object] | None = None,
    reward: bool | str = False,
    drop: Sequence[str] = (),
    suspicious: str = "refuse",
    missing: Missing = "refuse",
    decimal: str = ".",
    round: str | None = None,
    arm: str | None = None,
    loss: str | None = None,
    eligible: object = None,
) -> Losses:
    """Return `data` as `Losses.of` does; `wording` is how error messages name the options."""
    if isinstance(drop, str):
        raise TypeError(f"drop must be a list of names, but got drop={drop!r}; write drop=[{drop!r}]")
    allow = checks.one_of("suspicious", suspicious, ("refuse", "allow")) == "allow"
    missing, dropped = as_missing(missing), [str(name) for name in drop]
    named, are_rewards = Named.of(reward=reward, loss=loss, round=round, arm=arm)
    names = None if arms is None else tuple(str(name) for name in arms)
    about: dict[str, object]
    if isinstance(data, Losses) or not (is_frame(data) or isinstance(data, (str, os.PathLike))):
        _check_options(data, decimal, named, reward=are_rewards)
        if isinstance(data, Losses):
            missing = "away" if missing == "refuse" else missing
            if missing == "away" and not dropped and all(each is None for each in (arms, source, provenance, eligible)):
                return data
        table, names, origin, about = _of_an_array(data, names, refuse=missing == "refuse", reward=are_rewards)
        table, names = _without(table, names, dropped)
    else:
        read_in = read(data, wording, decimal)
        found = checked(
            read_in,
            named=named,
            reward=are_rewards,
            drop=dropped,
            allow=allow,
            missing=missing,
            masked=eligible is not None,
        )
        for name, why in found.set_aside.items():
            which = f"column {name!r}" if name else "the first column"
            told = f"{which} of {read_in.origin} {why} and was set aside, as with {wording.drop([name])}"
            warnings.warn(told, TableWarning, stacklevel=3)
        table, names = found.table, found.arms if names is None else names
        origin = type(data).__name__ if read_in.path is None else str(read_in.path)
        about = {"reward": are_rewards, "drop": dropped, "set_aside": list(found.set_aside)}
        about |= {"columns": named.options} if named.options else {}
        about |= {"unit": found.unit} if found.unit else {}
        about |= {"missing": missing} if missing != "refuse" else {}
    _check_length(table, names)
    check_names(names)
    there = None if eligible is None else _as_mask(eligible, table.shape, names)
    gaps = np.isnan(table) if there is None else np.isnan(table) & there
    if gaps.any() and missing not in ("refuse", "away"):
        table, left = without_gaps(table, gaps, missing)
        there = None if there is None else there[left]
        about = {"reward": are_rewards, **about, "missing": missing, "n_missing": int(gaps.sum())}
        about["n_left_out"] = len(gaps) - len(table)
    if there is not None or not np.isfinite(table).all():
        _mark_away(table, names, there, nan_is_away=missing == "away")
    if are_rewards:
        table = 0.0 - table  # not -table: a reward of 0 is a loss of 0, and not of -0
    table.setflags(write=False)
    return Losses(
        table=table,
        arms=names,
        source=origin if source is None else source,
        provenance=about if provenance is None else provenance,
    )


def _check_options(data: object, decimal: str, named: Named, *, reward: bool) -> None:
    """Refuse options that have no meaning for data without texts and columns, or for losses."""
    what = "Losses" if isinstance(data, Losses) else f"data of type {type(data).__name__}"
    if checks.one_of("decimal", decimal, (".", ",")) != ".":
        refuse_decimal(what)
    if named.options:
        key, name = next(iter(named.options.items()))
        raise ValueError(f"{key} must name a column of a frame or a file, but got {key}={name!r} for {what}")
    if isinstance(data, Losses) and reward:
        raise ValueError(
            "reward must be for numbers that are rewards, but got reward=True for Losses, which are losses already; "
            "pass reward=True where the numbers are read"
        )


def _of_an_array(
    data: object, arms: tuple[str, ...] | None, *, refuse: bool, reward: bool
) -> tuple[Table, tuple[str, ...], str, dict[str, object]]:
    """Return the table in an array, in nested lists or in Losses, its arms, and what is known about it."""
    if isinstance(data, Losses):
        return data.table.copy(), data.arms if arms is None else arms, data.source, dict(data.provenance)
    table = _as_floats(data, arms, refuse=refuse)
    if table.ndim != 2:
        raise ValueError(f"losses must be a table of rounds × arms, but got {table.ndim} dimension(s)")
    n_rounds, n_arms = table.shape
    if n_rounds == 0 or n_arms == 0:
        raise ValueError(f"losses must have at least one round and one arm, but got {n_rounds} rounds of {n_arms} arms")
    names = tuple(str(k) for k in range(n_arms)) if arms is None else arms
    return table, names, type(data).__name__, {"reward": True} if reward else {}


def _check_length(table: Table, arms: tuple[str, ...]) -> None:
    if len(arms) != table.shape[1]:
        raise ValueError(f"every column must have one name, but got {len(arms)} names for {table.shape[1]} columns")


def _without(table: Table, arms: tuple[str, ...], drop: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """Return an array and its arms without some of them."""
    if not drop:
        return table, arms
    _check_length(table, arms)
    unknown = next((name for name in drop if name not in arms), None)
    if unknown is not None:
        raise ValueError(f"drop must name arms, but got {unknown!r}; the arms are {listed(arms)}")
    left = [at for at, name in enumerate(arms) if name not in drop]
    if not left:
        raise ValueError("some arm must be left, but drop names all of them")
    return np.ascontiguousarray(table[:, left]), tuple(arms[at] for at in left)
