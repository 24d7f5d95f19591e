"""Long tables: every row is the loss of one arm in one round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umab.tables.cells import MISSING, shown
from umab.tables.logs import refuse_log, with_probabilities
from umab.tables.missing import ways_out
from umab.tables.sheet import Sheet, Table

if TYPE_CHECKING:
    import polars


def key_columns(names: Sequence[str], *, reward: bool) -> tuple[str, ...]:
    """Return the names of the round and arm columns of a long table; an empty tuple if the table is wide."""
    if _value_column(names, reward=reward) is None:
        return ()
    return tuple(name for name in names if _key(name) in ("round", "arm"))


def long_columns(sheet: Sheet, *, reward: bool) -> tuple[int, int, int] | None:
    """Return the positions of the round, arm and value columns of a long table; None if the table is wide."""
    refuse_log(sheet)
    value = _value_column(sheet.names, reward=reward)
    if value is None:
        return None
    lower = [_key(name) for name in sheet.names]
    columns = lower.index("round"), lower.index("arm"), lower.index(value)
    others = [name for at, name in enumerate(sheet.names) if at not in columns]
    if others:
        raise ValueError(
            f"a long table must have only the columns round, arm and {value}, but it also has "
            f"{', '.join(map(repr, others))}; {sheet.leave_out(*others)}"
        )
    if value == "reward" and not reward:
        raise ValueError(
            f"a long table must have a column of losses, but got {sheet.names[columns[2]]!r}; to flip the signs of "
            f"the rewards, {sheet.wording.reward}"
        )
    return columns


def _value_column(names: Sequence[str], *, reward: bool) -> str | None:
    """Return whether the values of a long table are its "loss" or "reward" column; None if the table is wide."""
    lower = {_key(name) for name in names}
    value = "reward" if "reward" in lower and (reward or "loss" not in lower) else "loss"
    return value if {"round", "arm", value} <= lower else None


def _key(name: str) -> str:
    return name.strip().lower()


def pivot(sheet: Sheet, round_at: int, arm_at: int, value_at: int) -> tuple[tuple[str, ...], list[str], Table]:
    """Return the arms, the rounds and the losses of a long table; nan is a gap."""
    round_of, rounds = _places(_keys(sheet, round_at, MISSING), sort=True)
    arm_of, arms = _places(_keys(sheet, arm_at, [""]), sort=False)  # an arm may be called none
    pair_of = round_of * len(arms) + arm_of
    pairs, counts = np.unique(pair_of, return_counts=True)
    n_pairs = len(rounds) * len(arms)
    rule = "every round must have one value for each arm, but round"
    if len(pairs) < len(pair_of):
        at = int((counts > 1).argmax())
        round, arm = divmod(int(pairs[at]), len(arms))
        first, second = (sheet.where(int(row)) for row in np.flatnonzero(pair_of == pairs[at])[:2])
        raise ValueError(
            f"{rule} {rounds[round]!r} has {counts[at]} for arm {arms[arm]!r}, the first two in {first} and "
            f"{second}; keep one (pairs of round and arm with more than one value: {int((counts > 1).sum())})"
        )

    def gap(advice: str) -> ValueError:
        gaps = pairs != np.arange(len(pairs))
        round, arm = divmod(int(gaps.argmax()) if gaps.any() else len(pairs), len(arms))
        return ValueError(
            f"{rule} {rounds[round]!r} has none for arm {arms[arm]!r} (missing pairs of round and arm: "
            f"{n_pairs - len(pairs)} of {n_pairs}); {advice}"
        )

    # Before any loss is read: if this is a log, no way out for a missing loss helps.
    if len(pairs) < n_pairs and len(pairs) == len(rounds):
        raise gap(f"every round has only one arm, as in a log: if it is one, {with_probabilities(sheet)}")
    values = sheet.select([value_at]).numbers("column")[:, 0]
    if len(pairs) < n_pairs and not sheet.gaps:
        raise gap(ways_out(sheet.wording, reward=sheet.reward))
    table = np.full(n_pairs, np.nan)
    table[pair_of] = values
    return tuple(arms), rounds, table.reshape(len(rounds), len(arms))


def _keys(sheet: Sheet, column: int, marks: Sequence[str]) -> polars.Series:
    """Return the round or the arm of each row of a long table; `marks` stand for a missing one."""
    keys = sheet.texts(column)
    missing = keys.str.to_lowercase().is_in(marks)
    if missing.any():
        row = int(missing.to_numpy().argmax())
        raise ValueError(
            f"every row must have a round and an arm, but got {shown(keys[row])} in {sheet.where(row)} of column "
            f"{sheet.names[column]!r}; fill it in, or delete the row"
        )
    return keys


def _places(keys: polars.Series, *, sort: bool) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the index of each key among the distinct keys, and these, as they appear or, with `sort`, as numbers."""
    numbers = _as_numbers(keys) if sort else None
    ranks = (keys if numbers is None else numbers).rank("dense").to_numpy().astype(np.int64) - 1
    _, first = np.unique(ranks, return_index=True)
    if numbers is None:
        order = np.argsort(first)
        ranks, first = np.argsort(order)[ranks], first[order]
    return ranks, keys.gather(first).to_list()


def _as_numbers(keys: polars.Series) -> polars.Series | None:
    """Return keys as numbers, if all are. Integers are tried first: a double is too short for a time in nanoseconds."""
    import polars

    for dtype in (polars.Int64, polars.Float64):
        numbers = keys.cast(dtype, strict=False)
        if numbers.null_count() == 0 and numbers.is_finite().all():
            return numbers
    return None
