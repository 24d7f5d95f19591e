"""Regret against several comparators, each counted over some rounds: the largest of them.

If arms are sometimes away, an arm is compared over the rounds in which it was there. If experts give advice, an expert
is compared over the rounds in which it did.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.results.regret import Costs, pieces, room_for_differences
from umab.tables.advice import Advice
from umab.tables.losses import Losses, Mask, Table


class CostsAmong(NamedTuple):
    """Losses as regret counts them, like `Costs`, if arms are sometimes away, or if experts give advice.

    The regret up to round t against an arm k is Σ (cost of the choice − loss of k), over the rounds up to t in which k
    was there. The regret is the largest of these, over the arms that have been there. If all arms always are, this is
    the usual one, bit for bit. With advice, experts take the place of arms, and what an expert would have drawn costs
    what it does on average.
    """

    table: Table
    """Each loss minus the smallest of its round, in multiples of a power of two; nan for an arm that is away."""
    eligible: Mask
    """Which arms, or experts, count in which rounds."""
    against: Table
    """What each arm, or expert, has cost up to each round, over the rounds in which it counts; inf before the first."""
    exponent: int
    """Costs are in multiples of 2 to this power."""

    @classmethod
    def of(cls, losses: Losses, advice: Advice | None = None) -> CostsAmong:
        """Return the costs of a loss table in which arms may be away, or for which there is advice."""
        there = np.ones(losses.table.shape, dtype=np.bool_) if losses.eligible is None else losses.eligible
        if advice is not None:
            there = advice.awake
        room = room_for_differences(losses)
        costs = np.ldexp(losses.table, -room)
        costs -= np.fmin.reduce(costs, axis=1, keepdims=True)
        exponent = math.frexp(float(np.fmax.reduce(costs, axis=None)))[1]
        np.ldexp(costs, -exponent, out=costs)
        against = np.empty(there.shape)
        sums, seen = np.zeros(there.shape[1]), np.zeros(there.shape[1], dtype=np.bool_)
        for piece in pieces(losses.n_rounds):
            own = np.where(there[piece], costs[piece], 0.0) if advice is None else advice.of_costs(costs, piece)
            running = np.cumsum(np.vstack([sums, own]), axis=0)[1:]
            seen_by = np.logical_or.accumulate(np.vstack([seen, there[piece]]), axis=0)[1:]
            against[piece] = np.where(seen_by, running, np.inf)
            sums, seen = running[-1], seen_by[-1]
        return cls(costs, there, against, exponent + room)

    def in_losses(self, counted: Table) -> Table:
        """Convert from the unit of the costs to the unit of the losses, in place."""
        with np.errstate(over="ignore"):
            return np.ldexp(counted, self.exponent, out=counted)

    def regret(self, arms: npt.NDArray[np.integer]) -> Table:
        """Return R_t of every trial, for the arms drawn in its rounds (n_trials × T)."""
        paid = self.table[np.arange(len(self.table)), arms]
        largest = np.full(paid.shape, -np.inf)
        for k in range(self.eligible.shape[1]):
            spent = np.cumsum(np.where(self.eligible[:, k], paid, 0.0), axis=1)
            np.maximum(largest, spent - self.against[:, k], out=largest)
        return self.in_losses(largest)

    def final_regret(self, arms: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Return R_T of every trial, up to rounding, without storing the rounds before it."""
        return self.in_losses((self.spent(arms, self.eligible) - self.against[-1]).max(axis=1))

    def spent(self, arms: npt.NDArray[np.integer], counted: Mask) -> Table:
        """Return what the arms of every trial cost, over the rounds that each column counts, in units of costs."""
        spent = np.zeros((len(arms), counted.shape[1]))
        for piece in pieces(len(self.table)):
            paid = self.table[np.arange(piece.start, piece.stop), arms[:, piece]]
            spent += paid @ counted[piece].astype(np.float64)
        return spent


def costs_of(losses: Losses, advice: Advice | None = None) -> Costs | CostsAmong:
    """Return the costs of a loss table, for which there may be advice."""
    return Costs.of(losses) if losses.eligible is None and advice is None else CostsAmong.of(losses, advice)
