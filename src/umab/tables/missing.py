"""Missing losses: what they may mean, and the ways out that an error names."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab.tables.wording import Wording

_Word: TypeAlias = Literal["refuse", "away", "drop"]
Missing: TypeAlias = _Word | float
_WORDS: tuple[_Word, ...] = get_args(_Word)


def as_missing(missing: object) -> Missing:
    """Return what missing losses mean, if it is one of the words or a number."""
    if not isinstance(missing, (str, bool)):
        return checks.finite("missing", missing)
    for word in _WORDS:
        if missing == word:
            return word
    raise ValueError(f"missing must be 'refuse', 'away', 'drop' or a number, but got missing={missing!r}")


def ways_out(wording: Wording, *, reward: bool = False) -> str:
    """Say what to do about missing losses or rewards, with the options as they are written in one place."""
    what, brings, number = ("reward", "brings", 0) if reward else ("loss", "costs", 30)
    return (
        f"to leave out the rounds with a missing {what}, {wording.missing('drop')}; if it was a failure or a timeout, "
        f"to put in what that {brings}, say {number}, {wording.missing(number)}; if the arm was not there in this "
        f"round, {wording.missing('away')}"
    )


def without_gaps(
    table: npt.NDArray[np.float64], gaps: npt.NDArray[np.bool_], missing: Missing
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the table without its gaps, and which rounds are left; `missing` is "drop" or a number."""
    if missing != "drop":
        return np.where(gaps, missing, table), np.ones(len(table), dtype=np.bool_)
    left: npt.NDArray[np.bool_] = np.logical_not(gaps.any(axis=1))
    if not left.any():
        raise ValueError("some round must have all its losses if the others are left out, but every round misses one")
    return table[left], left
