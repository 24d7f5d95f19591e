"""What the learner, each arm and every other policy spend on the recorded losses."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from examples.charts import Total
from examples.demonstration import Record
from umab.research.experiments.experiment import comparison

Array = npt.NDArray[np.float64]

N_TRIALS = 500


class Replay(NamedTuple):
    """What a policy spent on the recorded losses, in many trials."""

    policy: str
    totals: Array
    """The total of every trial."""
    curve: Total
    """What was spent up to each round: the mean, and the 5% and 95% quantiles of the trials."""

    @property
    def mean(self) -> float:
        """The mean total."""
        return float(self.totals.mean())

    @property
    def se(self) -> float:
        """The standard error of the mean total."""
        return float(self.totals.std(ddof=1) / math.sqrt(len(self.totals)))


class Spent:
    """What follows from a record without replays: how much the learner spent, and what others would have spent."""

    def __init__(self, record: Record) -> None:
        self.record = record

    @functools.cached_property
    def arm_totals(self) -> dict[str, float]:
        """What each arm alone would have spent."""
        return dict(zip(self.record.losses.arms, map(float, self.record.losses.table.sum(axis=0)), strict=True))

    @property
    def best_arm(self) -> str:
        """The arm with the smallest total."""
        return min(self.arm_totals, key=self.arm_totals.__getitem__)

    @property
    def worst_arm(self) -> str:
        """The arm with the largest total."""
        return max(self.arm_totals, key=self.arm_totals.__getitem__)

    @property
    def best(self) -> float:
        """The total of the best arm."""
        return self.arm_totals[self.best_arm]

    @property
    def worst(self) -> float:
        """The total of the worst arm."""
        return self.arm_totals[self.worst_arm]

    @property
    def at_random(self) -> float:
        """What choosing at random spends on average: computed exactly, without trials."""
        return float(self.record.losses.table.mean(axis=1).sum())

    @property
    def live(self) -> float:
        """What the learner really spent."""
        return float(self.chosen.sum())

    @functools.cached_property
    def chosen(self) -> Array:
        """What the learner spent in each round."""
        losses = self.record.losses
        arms = [losses.arms.index(each) for each in self.record.choices]
        return losses.table[np.arange(losses.n_rounds), arms]

    @functools.cached_property
    def best_of_situation(self) -> dict[str, str]:
        """The arm that was best in each situation."""
        losses = self.record.losses
        return {
            name: losses.arms[int(losses.table[rounds].sum(axis=0).argmin())]
            for name, rounds in self.record.in_situation.items()
        }

    @functools.cached_property
    def told(self) -> Array:
        """What is spent in each round by choosing the arm that was best in the situation of the round."""
        losses = self.record.losses
        arms = [losses.arms.index(self.best_of_situation[each]) for each in self.record.situations]
        return losses.table[np.arange(losses.n_rounds), arms]


class Findings(Spent):
    """What follows from a record, with replays of every policy that needs no range of losses."""

    def __init__(self, record: Record, *, n_trials: int = N_TRIALS, progress: bool | None = None) -> None:
        super().__init__(record)
        self.n_trials = n_trials
        losses = record.losses
        policies = comparison("", losses).settings[0].policies
        wanted = dict(sorted(policies.items(), key=lambda each: each[0] != record.about["policy"]))
        # Trial 0 has the draws of the live learner, so it repeats the live run.
        results = umab.simulate(
            list(wanted.values()), losses, n_trials=n_trials, seed=record.about["seed"], keep="arms", progress=progress
        )
        self.replays = {
            name: _replay(name, losses.table, result.arms) for name, result in zip(wanted, results, strict=True)
        }

    @property
    def of_policy(self) -> Replay:
        """The replays of the learner's policy."""
        return self.replays[self.record.about["policy"]]

    @property
    def ranked(self) -> list[Replay]:
        """The replays, ordered by their mean, smallest first."""
        return sorted(self.replays.values(), key=lambda each: each.mean)


def _replay(name: str, losses: Array, arms: npt.NDArray[Any]) -> Replay:
    spent = np.cumsum(losses[np.arange(len(losses)), arms], axis=1)
    low, high = np.quantile(spent, [0.05, 0.95], axis=0)
    return Replay(name, spent[:, -1], Total(spent.mean(axis=0), low, high))
