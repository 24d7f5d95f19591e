"""The contest of policies on the heavy group of the suite, and how it is scored.

The losses have no variance, so a few outliers decide which arm of a table has the smallest sum. Hence the regret is by
the known means: the sum of the means of the arms drawn, minus the smallest mean in every round. A table drawn once is
only one sample of such losses, so every trial has a table of its own, the same for all policies. Otherwise the scores
are those of the general group; standard errors are here also over tables drawn anew.

HTINF is told a moment of each table. The policies for heavy tails, `FOR_TAILS`, also play on the general group, without
such help, since the rule for recommending a policy is about the tables there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.base import Policy
from umab.algorithms.htinf import HTINF
from umab.algorithms.names import policy_as_written as policy_of
from umab.datasets.heavy_tables import HeavyEntry
from umab.datasets.suite_parts import Half
from umab.datasets.suite_tables import entries
from umab.engine.simulate import simulate, takes
from umab.research.experiments.contest import (
    AT_RANDOM,
    RECOMMENDED,
    STEADY,
    Played,
    Standings,
    Trials,
    competitors,
    made,
    n_rounds,
    play,
    seed_of_part,
    without_range,
)
from umab.research.experiments.runner import Summary

TOLD = "htinf"
"""The policy that is told a moment of each heavy table."""
FOR_TAILS = (TOLD, "opttinf", "adatinf", "adatinf-anytime")
"""The policies for losses with heavy tails."""

Where: TypeAlias = Literal["all", "home", "away"]
"""Which heavy tables: those with a best arm that is truncated non-negative are at home, the others away."""


@dataclass(frozen=True, eq=False)
class Tails:
    """What policies did on the tables of one half."""

    heavy: Standings
    """The scores on the heavy tables, by the means."""
    general: Standings
    """The scores of `FOR_TAILS` and both recommended policies on the general tables."""

    @property
    def half(self) -> Half:
        """The half."""
        return self.heavy.half

    def on(self, where: Where) -> Standings:
        """Return the scores on the heavy tables that are there."""
        at_home = {"all": (True, False), "home": (True,), "away": (False,)}[where]
        return on_tables(self.heavy, [table for table in self.heavy.tables if entry_of(table).at_home in at_home])

    @property
    def stationary(self) -> Standings:
        """The scores on the general tables in which nothing changes, for the price."""
        return on_tables(self.general, [table for table in self.general.tables if table.entry.world == "stationary"])


def on_tables(standings: Standings, tables: Iterable[Played]) -> Standings:
    """Return the scores on some of the tables only."""
    return replace(standings, tables=tuple(tables))


def entry_of(table: Played) -> HeavyEntry:
    """Return the entry of a heavy table."""
    assert isinstance(table.entry, HeavyEntry)
    return table.entry


def tails(
    halves: Sequence[Half] = get_args(Half),
    policies: Sequence[str] = (),
    *,
    n_trials: int = 200,
    seed: int = 0,
    data_seed: int = 0,
    real: bool | None = None,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> list[Tails]:
    """Run both recommended policies, their competitors and those for heavy tails on the heavy tables.

    Parameters
    ----------
    halves
        Which halves of the suite.
    policies
        Names of further policies to run on the heavy tables.
    n_trials, seed, n_threads, progress
        As for `umab.simulate`.
    data_seed, real
        As `seed` and `real` of `umab.datasets.suite`. Trial i has the heavy tables of the seed
        `data_seed` · `n_trials` + i.
    """
    names = tuple(dict.fromkeys((RECOMMENDED, STEADY, *FOR_TAILS, *competitors(), *policies)))
    run = without_range(name for name in names if name != AT_RANDOM)
    basic = without_range((RECOMMENDED, STEADY, *FOR_TAILS, AT_RANDOM))
    n_trials = checks.whole("n_trials", n_trials, least=2)
    heavy = {half: entries(half, group="heavy") for half in halves}
    general = {half: made(entries(half), real, data_seed) for half in halves}
    work = n_trials * (
        sum(entry.n_rounds for found in heavy.values() for entry in found) * len(run)
        + sum(map(n_rounds, general.values())) * (len(basic) + 1)
    )
    with Progress(work, "running the suite", progress, unit="rounds") as bar:
        trials = Trials(n_trials, seed, n_threads, bar)
        return [
            Tails(
                Standings.of(
                    half,
                    (play_by_means(entry, run, trials, data_seed) for entry in heavy[half]),
                    (*run, AT_RANDOM),
                    trials,
                    data_seed,
                ),
                Standings.of(half, (play(*each, basic, trials) for each in general[half]), basic, trials, data_seed),
            )
            for half in halves
        ]


def told(policy: Policy, entry: HeavyEntry) -> Policy:
    """Return HTINF with a moment of the table, and any other policy as it is."""
    return HTINF(**entry.moment._asdict()) if policy == policy_of(TOLD) else policy


def play_by_means(entry: HeavyEntry, policies: Mapping[str, Policy], trials: Trials, data_seed: int = 0) -> Played:
    """Run policies on a heavy table, drawn anew for each trial; regrets are by the means, and exact at random."""
    first = data_seed * trials.n_trials
    tables = (entry.losses(None, first + trial) for trial in range(trials.n_trials))
    losses = entry.losses(None, first)
    taken = {name: told(policy, entry) for name, policy in policies.items() if takes(policy, losses)}
    trials.bar.skip(trials.n_trials * entry.n_rounds * (len(policies) - len(taken)))
    regrets = np.empty((len(taken), trials.n_trials))
    for trial, table in enumerate(tables):
        results = simulate(
            taken.values(),
            table,
            n_trials=1,
            seed=seed_of_part(trials.seed, trial),
            keep="arms",
            n_threads=1,
            progress=trials.bar,
        )
        regrets[:, trial] = [result.regret_by_means(entry.means)[0] for result in results]
    at_random = np.full(trials.n_trials, entry.at_random)
    return Played(
        entry, losses, {**dict(zip(taken, regrets, strict=True)), AT_RANDOM: at_random}, Summary.of(at_random)
    )
