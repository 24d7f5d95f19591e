"""The contest of policies on the service group of the suite, and how it is scored.

Every trial has a table of its own, the same for all policies and for the yardsticks, which are rules that practitioners
write. The score of a policy in a world, at a horizon, is its mean loss minus that of the best single arm of each table,
divided by the same for choosing at random: 0 is the best single arm, 1 is choosing at random, and who follows changes
may be below 0. Nothing is floored or clipped, and both means are over the trials, so that a table on which all arms are
alike does no harm. A second score compares with the best arm of each moment, by the means of that round. A mean score
is the arithmetic mean over worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from umab._support import checks
from umab._support.progress import Progress
from umab.datasets.service_worlds import HORIZONS, ServiceEntry
from umab.datasets.suite_parts import Half
from umab.datasets.suite_tables import entries
from umab.engine.simulate import simulate
from umab.research.experiments.contest import (
    RECOMMENDED,
    STEADY,
    Array,
    Estimate,
    Weights,
    estimate,
    resampled_trials,
    seed_of_part,
    without_range,
)
from umab.research.experiments.yardsticks import YARDSTICKS, cost

POLICIES = (RECOMMENDED, "umab-r", STEADY, "centred(umab-sh)")
"""The policies of this library that always take part."""

Against: TypeAlias = Literal["arm", "moment"]
"""What a score compares with: the best single arm of a table, or the best arm of each moment."""


@dataclass(frozen=True, eq=False)
class Served:
    """What everybody lost in one world, at one horizon: one number for each trial."""

    entry: ServiceEntry
    n_rounds: int
    costs: dict[str, Array]
    at_random: Array
    """What choosing at random costs, exactly."""
    best: dict[Against, Array]

    def score(self, name: str, against: Against = "arm") -> Estimate:
        """Return the score of a policy or a yardstick, with its standard error, which is over tables too."""
        return estimate(self.scores(name, against, np.ones((1, len(self.at_random))))[0], self.resampled(name, against))

    def resampled(self, name: str, against: Against = "arm") -> Array:
        """Return the score with resampled trials, which are the same for all worlds and policies."""
        return self.scores(name, against, resampled_trials(len(self.at_random)))

    def scores(self, name: str, against: Against, weights: Weights) -> Array:
        """Return the score if each trial counts as often as `weights` says: one for each row of them."""
        best = self.best[against]
        return np.asarray((weights @ (self.costs[name] - best)) / (weights @ (self.at_random - best)))


@dataclass(frozen=True, eq=False)
class Standing:
    """What everybody lost in the worlds of one half, at one horizon."""

    half: Half
    n_rounds: int
    worlds: tuple[Served, ...]
    policies: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The policies, then the yardsticks."""
        return (*self.policies, *YARDSTICKS)

    def mean(self, name: str, against: Against = "arm") -> Estimate:
        """Return the mean score."""
        values = [world.score(name, against).value for world in self.worlds]
        resampled = np.mean([world.resampled(name, against) for world in self.worlds], axis=0)
        return estimate(np.asarray(np.mean(values)), np.asarray(resampled))

    def excess(self, name: str) -> tuple[float, str]:
        """Return by how much the score is above the best yardstick's, at most, and the name of that world."""
        above = {
            world.entry.name: world.score(name).value - min(world.score(each).value for each in YARDSTICKS)
            for world in self.worlds
        }
        worst = max(above, key=above.__getitem__)
        return above[worst], worst


def serve(
    halves: Sequence[Half] = get_args(Half),
    policies: Sequence[str] = (),
    *,
    horizons: Sequence[int] | None = None,
    n_trials: int = 200,
    seed: int = 0,
    data_seed: int = 0,
    progress: bool | None = None,
) -> list[Standing]:
    """Run the recommended policies, others and the yardsticks in the worlds of the service group.

    Parameters
    ----------
    halves
        Which halves of the suite.
    policies
        Names of further policies to run.
    horizons
        The numbers of rounds, by default `HORIZONS`.
    n_trials, seed, progress
        As for `umab.simulate`.
    data_seed
        Trial i has the tables of the seed `data_seed` · `n_trials` + i.
    """
    names = tuple(dict.fromkeys((*POLICIES, *policies)))
    run = without_range(names)
    n_trials = checks.whole("n_trials", n_trials, least=2)
    horizons = HORIZONS if horizons is None else horizons
    worlds = {half: entries(half, group="service") for half in halves}
    work = sum(horizons) * n_trials * sum(map(len, worlds.values())) * (len(run) + len(YARDSTICKS))

    def served(entry: ServiceEntry, n_rounds: int, bar: Progress) -> Served:
        costs = {name: np.empty(n_trials) for name in (*names, *YARDSTICKS)}
        at_random, best, of_moment = np.empty(n_trials), np.empty(n_trials), np.empty(n_trials)
        for trial in range(n_trials):
            table, means = entry.draw(n_rounds, data_seed * n_trials + trial)
            at_random[trial], best[trial] = table.mean(axis=1).sum(), table.sum(axis=0).min()
            of_moment[trial] = table[np.arange(n_rounds), means.argmin(axis=1)].sum()
            own = seed_of_part(seed, trial)
            results = simulate(run.values(), table, n_trials=1, seed=own, keep="summary", n_threads=1, progress=bar)
            for name, result in zip(names, results, strict=True):
                costs[name][trial] = best[trial] + result.final_regret[0]
            for name in YARDSTICKS:
                costs[name][trial] = cost(name, table, [own, *name.encode()])
                bar.advance(n_rounds)
        return Served(entry, n_rounds, costs, at_random, {"arm": best, "moment": of_moment})

    with Progress(work, "running the worlds", progress, unit="rounds") as bar:
        return [
            Standing(half, n_rounds, tuple(served(entry, n_rounds, bar) for entry in found), names)
            for half, found in worlds.items()
            for n_rounds in horizons
        ]
