"""Advice: a checked table of what every expert advised in every round."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support.checks import shown

SUMS_TO_1 = 1e-6
"""How far from 1 the sum of a row may be, as it is for numbers of single precision."""
EXACT = 1e-10
"""Rows whose sum is further from 1 are divided by it."""


class Advice(NamedTuple):
    """The advice of experts in every round.

    Attributes
    ----------
    table
        Rounds × experts × arms, float64, where the row of an expert who abstains is all nan; or, if every expert
        advises a single arm, rounds × experts of arms, int64, where −1 stands for an expert who abstains.
    awake
        Which experts gave advice in which rounds, rounds × experts.
    """

    table: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    awake: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, data: object, n_rounds: int, n_arms: int) -> Advice:
        """Return advice, checked: distributions (rounds × experts × arms) or arms (rounds × experts)."""
        given = np.asarray(data)
        if given.ndim not in (2, 3) or given.shape[0] != n_rounds or given.shape[-1] < 1:
            raise ValueError(
                f"advice must be {n_rounds} rounds × experts × {n_arms} arms, or {n_rounds} rounds × experts, but got "
                f"shape {given.shape}"
            )
        table, awake = _of_arms(given, n_arms) if given.ndim == 2 else _of_rows(given, n_arms)
        alone = ~awake.any(axis=1)
        if alone.any():
            raise ValueError(
                f"at least one expert must give advice in every round, but none does in round {alone.argmax()}"
            )
        table.flags.writeable = awake.flags.writeable = False
        return cls(table, awake)

    @property
    def n_experts(self) -> int:
        """The number of experts."""
        return int(self.awake.shape[1])

    @property
    def is_sure(self) -> bool:
        """Whether every expert advises a single arm."""
        return self.table.ndim == 2

    @property
    def digest(self) -> str:
        """A digest of the table."""
        return hashlib.sha256(self.table.tobytes()).hexdigest()

    def of_costs(self, costs: npt.NDArray[np.float64], rounds: slice) -> npt.NDArray[np.float64]:
        """Return what the advice of each expert costs on average in some rounds, 0 where it abstains."""
        table = self.table[rounds]
        if self.is_sure:
            found = np.take_along_axis(costs[rounds], np.maximum(table, 0), axis=1)
        else:
            found = np.einsum("tik,tk->ti", np.where(self.awake[rounds][:, :, None], table, 0.0), costs[rounds])
        return np.where(self.awake[rounds], found, 0.0)


def _of_arms(given: npt.NDArray[np.number], n_arms: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    if given.dtype.kind not in "iu":
        raise TypeError(f"advice of arms must be whole numbers, −1 for an expert who abstains, but got {given.dtype}")
    wrong = (given < -1) | (given >= n_arms)
    if wrong.any():
        t, i = np.argwhere(wrong)[0]
        raise ValueError(
            f"advice of arms must be from 0 to {n_arms - 1}, or −1, but got {given[t, i]} from expert {i} in round {t}"
        )
    table = np.array(given, dtype=np.int64, order="C")
    return table, table >= 0


def _of_rows(given: npt.NDArray[np.number], n_arms: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    if given.shape[2] != n_arms:
        raise ValueError(f"advice must have a probability for each of {n_arms} arms, but got shape {given.shape}")
    if given.dtype.kind not in "fiu":
        raise TypeError(f"advice must be numbers, but got {given.dtype}")
    table = np.array(given, dtype=np.float64, order="C")
    awake = np.asarray(~np.isnan(table).all(axis=2))
    with np.errstate(invalid="ignore"):
        good = (table >= 0.0).all(axis=2) & (np.abs(table.sum(axis=2) - 1.0) <= SUMS_TO_1)
    wrong = awake & ~good
    if wrong.any():
        t, i = np.argwhere(wrong)[0]
        raise bad_row(table[t, i], f"expert {i} in round {t}")
    return normalised(table), awake


def normalised(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return rows that sum to 1: those that do not are divided by their sums."""
    sums = rows.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(sums - 1.0) > EXACT, rows / sums, rows)


def bad_row(row: npt.NDArray[np.float64], whose: str) -> ValueError:
    """Return the error for a row that is no distribution."""
    return ValueError(
        f"the advice of an expert must be probabilities that sum to 1, up to {SUMS_TO_1:g}, but got "
        f"{shown(row.tolist())}, whose sum is {row.sum():.17g}, from {whose}"
    )
