"""The costs that regret counts, and the regret of the arms that were drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.tables.losses import Losses, Table, refuse_away

TRIALS_A_BLOCK = 32
"""How many trials are summed up together. It is fixed, because blocks are merged one after the other: it determines the
last bits of a mean, on every device. On a GPU, as many threads run in step with each other."""

# Rounds are processed in pieces, so that the memory needed beside a table does not grow with it.
_ROUNDS_A_PIECE = 4096


class Costs(NamedTuple):
    """Losses as regret counts them: minus the smallest of their round, in multiples of a power of two.

    Subtracting the smallest loss of each round changes no regret, but keeps its digits if all losses share a large
    offset. Counting in multiples of a power of two near the largest cost rounds nothing and keeps sums and squares from
    overflowing or vanishing; a regret that is itself too large for a double comes out as inf.
    """

    table: Table
    best: npt.NDArray[np.float64]
    """The cost of the best arm up to each round."""
    exponent: int
    """Costs are in multiples of 2 to this power."""

    @classmethod
    def of(cls, losses: Losses) -> Costs:
        """Return the costs of a loss table."""
        refuse_away(losses, "this regret")
        room = room_for_differences(losses)
        costs = np.ldexp(losses.table, -room)
        costs -= costs.min(axis=1, keepdims=True)
        exponent = math.frexp(float(costs.max()))[1]
        np.ldexp(costs, -exponent, out=costs)
        best = np.empty(losses.n_rounds)
        sums = np.zeros(losses.n_arms)
        for piece in pieces(losses.n_rounds):
            running = np.cumsum(np.vstack([sums, costs[piece]]), axis=0)[1:]
            best[piece] = running.min(axis=1)
            sums = running[-1]
        return cls(costs, best, exponent + room)

    def in_losses(self, counted: Table) -> Table:
        """Convert from the unit of the costs to the unit of the losses, in place."""
        with np.errstate(over="ignore"):
            return np.ldexp(counted, self.exponent, out=counted)

    def regret(self, arms: npt.NDArray[np.integer]) -> Table:
        """Return R_t of every trial, for the arms drawn in its rounds (n_trials × T)."""
        spent = np.cumsum(self.table[np.arange(len(self.best)), arms], axis=1)
        return self.in_losses(spent - self.best)

    def spent(self, arms: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Return what the arms of every trial cost together, up to rounding, in the unit of the costs."""
        spent = np.zeros(len(arms))
        for piece in pieces(len(self.best)):
            table, drawn = self.table[piece], arms[:, piece]
            # Positions in the flat table take half the time of a pair of indices.
            flat = drawn + np.arange(len(table)) * table.shape[1]
            spent += table.ravel().take(flat).sum(axis=1)
        return spent

    def final_regret(self, arms: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Return R_T of every trial, up to rounding, without storing the rounds before it."""
        return self.in_losses(self.spent(arms) - self.best[-1])


def room_for_differences(losses: Losses) -> int:
    """Return by which power of two losses must be divided so that no difference of two overflows."""
    return 2 if max(losses.present.max(), -losses.present.min()) > 2.0**1022 else 0


ROUNDING = 1e-12
"""A spread that is a smaller share of its mean comes from rounding."""


def without_rounding(mean: float, spread: float) -> float:
    """Return a standard error or deviation as texts show it: 0 if it comes from rounding.

    Equal trials have no spread at all. This is for numbers that were rounded in different ways, as after delays that
    change the order of a policy's sums.
    """
    return 0.0 if spread <= ROUNDING * abs(mean) else spread


def mean_and_squares(rows: Table) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the mean of each column, and the sum of squared deviations from it.

    They are computed from the differences from the first row, so that equal numbers have exactly this mean and no
    spread, of which the rounding of their sum would leave something like 3e-14.
    """
    gaps = rows - rows[0]
    above = gaps.mean(axis=0)
    gaps -= above
    gaps *= gaps
    return rows[0] + above, gaps.sum(axis=0)


def mean_and_sd(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean and the standard deviation (of a sample) of numbers of any size.

    They are computed in multiples of a power of two, so that squares neither overflow nor vanish. The standard
    deviation is exactly 0 if all numbers are equal, and nan if there is a single number, or if one of them is inf.
    """
    largest = float(np.abs(values).max())
    if not math.isfinite(largest):
        with np.errstate(invalid="ignore"):
            return float(values.mean()), math.nan
    exponent = math.frexp(largest)[1]
    (mean,), (squares,) = mean_and_squares(np.ldexp(values, -exponent)[:, None])
    sd = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else math.nan
    with np.errstate(over="ignore"):
        return float(np.ldexp(mean, exponent)), float(np.ldexp(sd, exponent))


def pieces(n_rounds: int) -> Iterator[slice]:
    """Yield the pieces in which rounds are processed."""
    for first in range(0, n_rounds, _ROUNDS_A_PIECE):
        yield slice(first, min(first + _ROUNDS_A_PIECE, n_rounds))
