"""The results of a sweep: the trials of all seeds pooled, and which policy is best on which table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.names import policy_as_written as policy_of
from umab.research.experiments.parts import Measured, Row
from umab.research.experiments.runner import Summary
from umab.research.experiments.sweep import Entry, Grid, column
from umab.results.regret import mean_and_squares

Array = npt.NDArray[np.float64]


class Pooled(NamedTuple):
    """A policy on a table with a delay: the trials of all seeds that are done."""

    final: Summary
    rounds: npt.NDArray[np.int64]
    mean: Array
    sd: Array
    n_seeds: int

    @classmethod
    def of(cls, rows: Sequence[Measured]) -> Pooled:
        """Pool the rows of one policy on one table with one delay; each seed has its own stream of draws."""
        final = Summary.of(np.concatenate([np.array(row["final_regret"]) for row in rows]))
        curves = np.array([[row["mean_curve"], row["sd_curve"]] for row in rows])
        # Scaled by a power of two, so that squares neither overflow nor vanish.
        largest = np.abs(curves[np.isfinite(curves)]).max(initial=0.0)
        exponent = math.frexp(float(largest))[1]
        means, sds = np.ldexp(curves, -exponent).swapaxes(0, 1)
        a_seed = rows[0]["n_trials"]  # the same for all
        n_trials = a_seed * len(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, between = mean_and_squares(means)
            squares = (np.nan_to_num(sds) ** 2 * (a_seed - 1)).sum(axis=0) + a_seed * between
            sd = np.sqrt(squares / (n_trials - 1)) if n_trials > 1 else np.full(len(mean), np.nan)
            mean, sd = np.ldexp(mean, exponent), np.ldexp(sd, exponent)
        return cls(final, np.array(rows[0]["round"]), mean, sd, len(rows))


@dataclass(frozen=True)
class Found:
    """The pooled results of a grid, as far as its cells are done."""

    grid: Grid
    n_done: int
    pooled: Mapping[tuple[str, str], Pooled]
    """By policy, with its parameters, and by column, which is a table with a delay."""

    @classmethod
    def of(cls, grid: Grid, rows: Iterable[Row]) -> Found:
        """Return the pooled rows of the cells of a grid."""
        groups: dict[tuple[str, str], list[Row]] = {}
        n_done = 0
        for row in rows:
            cell = grid.cells[row["id"]]
            groups.setdefault((cell.policy, column(cell.table.label, cell.delay)), []).append(row)
            n_done += 1
        # Summed in the order of the seeds, so that the last bits do not depend on the order of the files.
        in_order = {key: sorted(of, key=lambda row: row["seed"]) for key, of in groups.items()}
        return cls(grid, n_done, {key: Pooled.of(of) for key, of in in_order.items()})

    @cached_property
    def columns(self) -> list[str]:
        """The tables, with their delays, on which some cell is done."""
        every = (column(table.label, delay) for table in self.grid.tables for delay in self.grid.sweep.delays)
        there = {key for _, key in self.pooled}
        return [each for each in every if each in there]

    @cached_property
    def best(self) -> dict[str, str]:
        """The policy with the smallest mean regret on each column.

        A policy that sees the losses of all arms counts only if there is no other.
        """
        found = {}
        for place in self.columns:
            here = [policy for policy, at in self.pooled if at == place]
            ranked = [policy for policy in here if not policy_of(policy).full_information] or here
            found[place] = min(ranked, key=lambda policy: self.pooled[policy, place].final.mean)
        return found

    def relative(self, policy: str, place: str) -> float:
        """Return the regret as a multiple of the best one there; not a number if the best is not above 0."""
        best = self.pooled[self.best[place], place].final.mean
        if (policy, place) not in self.pooled or not 0.0 < best < math.inf:
            return math.nan
        return self.pooled[policy, place].final.mean / best

    def score(self, policy: str, places: Iterable[str]) -> float:
        """Return the geometric mean of the multiples on these columns, as far as they have one."""
        multiples = np.array([self.relative(policy, place) for place in places])
        multiples = multiples[~np.isnan(multiples)]
        if not len(multiples):
            return math.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.exp(np.log(np.maximum(multiples, 0.0)).mean()))

    def chosen(self, entry: Entry) -> str | None:
        """Return the best point of a grid, over the columns on which all points are done; None if no point is done."""
        places = self.common(entry)
        if not places:
            return next(
                (policy for policy in entry.points.values() if any(policy == key for key, _ in self.pooled)), None
            )
        return min(entry.points.values(), key=lambda policy: self.rank(policy, places))

    def rank(self, policy: str, places: Sequence[str]) -> float:
        """Return a number that sorts policies by how they do on some columns, the best first.

        It is the score. If no column has a multiple, it is the regret on the first column that is done, or inf if none
        is.
        """
        score = self.score(policy, places)
        if not math.isnan(score):
            return score
        return next(
            (self.pooled[policy, place].final.mean for place in places if (policy, place) in self.pooled), math.inf
        )

    def common(self, entry: Entry) -> list[str]:
        """Return the columns on which all points of a grid are done."""
        texts = entry.points.values()
        return [place for place in self.columns if all((policy, place) in self.pooled for policy in texts)]
