"""The contest of policies on the changing group of the suite, and how it is scored.

Regret on such a table is the expected loss of the draws minus the smallest loss of a sequence of arms that may change
where the law does: the sum, over the true segments, of the smallest total of one arm. A policy's score is its share of
the gain: how much less it loses than choosing at random, divided by how much less `STEADY` loses if it is restarted at
the right times, where `STEADY` is the policy that is recommended if nothing changes. So 1 is as good as true restarts,
and 0 is choosing at random. A share below 1% counts as 1%, and a policy's mean share on a half of the suite is the
geometric mean of its shares.

The right times are the starts of the true segments. Where the law changes all the time, `STEADY` is restarted every P
rounds instead, with the P that is the best one on the development table of the same kind.

What a policy pays for this where nothing changes is its price: its scores on the stationary tables of the general
group, divided by those of `STEADY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.base import Policy
from umab.algorithms.names import policy_as_written as policy_of
from umab.datasets.changing_tables import ChangingEntry
from umab.datasets.suite_parts import Entry, Half
from umab.datasets.suite_tables import entries
from umab.engine.work import Device
from umab.research.experiments.alarms import Alarms, count_alarms
from umab.research.experiments.contest import (
    AT_RANDOM,
    RECOMMENDED,
    STEADY,
    Array,
    Estimate,
    Grid,
    Standings,
    Trials,
    Weights,
    made,
    n_rounds,
    play,
    seed_of_part,
)
from umab.tables.losses import Losses, Table

SHOWN = (RECOMMENDED, STEADY, "umab-l", "centred(umab-sh)", "umab-g-a", "exp3-s")
"""The policies that are compared."""

ABLATIONS = {
    "bursts of attention": "umab-w:attention=none",
    "trials: restarts are kept": "umab-w:restarts=kept",
    "the watch and the bursts: UMAB-L": "umab-w:restarts=none,attention=none",
    "the local level: the mean of all losses": "umab-w:centre=mean",
    "half of the memory: 32 marks": "umab-w:marks=32",
    "nothing, but twice the memory: 128 marks": "umab-w:marks=128",
}
"""UMAB-W with one ingredient off, or with another memory of ranks, by what is off."""

PERIODS = (125, 250, 500, 1000, 2000, 4000)
"""After how many rounds the yardstick may restart where the law changes all the time; or never."""

SMALLEST_SHARE = 0.01
"""A smaller share counts as this."""

MEAN_SHARE_WANTED = 0.85
"""The target for the mean share."""
SHARE_WANTED, HIDDEN_SHARE_WANTED = 0.75, 0.6
"""The targets for the share on every table; where an arm that is not drawn becomes better, the second."""
PRICE_OF_A_DEFAULT, PRICE_WANTED, HIGHEST_PRICE_WANTED = 1.05, 1.2, 1.5
"""The targets for the mean price, of a policy to be recommended and of any other, and for the price on every table."""


def share_wanted(entry: ChangingEntry) -> float:
    """Return the target for the share on a table."""
    return HIDDEN_SHARE_WANTED if entry.kind in ("hidden", "hidden-often") else SHARE_WANTED


@dataclass(frozen=True, eq=False)
class Tracked:
    """What all policies did on one table of the changing group. Regrets are final and expected."""

    entry: ChangingEntry
    losses: Losses
    starts: list[int]
    """The first rounds of the true segments."""
    period: int | None
    """After how many rounds the yardstick was restarted; None if this was at the true starts, or never."""
    regrets: dict[str, Array]
    """The regrets of the trials, by policy."""
    restarted: Array
    """The regrets of the trials of `STEADY`, restarted at the right times."""
    at_random: float
    """The regret of choosing at random, exactly."""

    @property
    def restarts(self) -> list[int]:
        """The rounds in which the yardstick starts anew."""
        return _right_times(self.entry, self.losses, self.starts, self.period)

    def score(self, name: str, weights: Weights) -> Array:
        """Return the share of the gain, `SMALLEST_SHARE` or more: one for each sample of trials."""
        gained = weights @ (self.at_random - self.regrets[name])
        possible = weights @ (self.at_random - self.restarted)
        return np.asarray(np.maximum(gained / possible, SMALLEST_SHARE))


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of policies on the changing tables of one half; the axes of arrays are tables × policies.

    A policy that does not accept the losses of a table has no number there.
    """

    half: Half
    tables: tuple[Tracked, ...]
    policies: tuple[str, ...]
    stationary: Standings
    """The scores of the same policies on the stationary tables of the general group, for the price."""
    alarms: tuple[Alarms, ...]
    """How often UMAB-W started afresh on the same stationary tables."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The policies that are compared: all except those with an ingredient off."""
        return tuple(name for name in self.policies if name not in ABLATIONS.values())

    @cached_property
    def _grid(self) -> Grid:
        return Grid(self.tables, self.policies, self.stationary.n_trials)

    @property
    def shares(self) -> Array:
        """The shares."""
        return self._grid.values

    def mean(self, name: str) -> Estimate:
        """Return the mean share of a policy; not a number if it does not accept all tables."""
        return self._grid.mean(name)

    @property
    def resampled(self) -> Array:
        """The shares with resampled trials, which are the same for all policies: samples × tables × policies."""
        return self._grid.resampled

    def worst(self, name: str) -> tuple[Estimate, str]:
        """Return the smallest share of a policy, and the name of its table."""
        column = self.policies.index(name)
        negative, table = self._grid.largest(-self.shares[:, column], -self._grid.resampled[:, :, column])
        return Estimate(-negative.value, negative.se), table

    def below(self, name: str) -> list[str]:
        """Return the tables on which the share of a policy is below the target."""
        of_tables = zip(self.tables, self.shares[:, self.policies.index(name)], strict=True)
        return [table.entry.name for table, share in of_tables if share < share_wanted(table.entry)]

    def meets_targets(self, name: str, price: float = PRICE_WANTED) -> bool:
        """Whether the shares of a policy, its price of at most `price` and its highest price meet the targets."""
        return (
            self.mean(name).value >= MEAN_SHARE_WANTED
            and not self.below(name)
            and self.stationary.price(name).value <= price
            and self.stationary.highest_price(name)[0].value <= HIGHEST_PRICE_WANTED
        )


def by_rule(found: Sequence[Shares]) -> str:
    """Return the policy that the rule recommends.

    It must need no range, and meet all targets in all halves, with the mean price of a default. Of several such
    policies it is the one with the largest mean share, and if there is none it is `STEADY`.
    """
    able = [
        name
        for name in found[0].shown
        if not policy_of(name).needs_range and all(each.meets_targets(name, PRICE_OF_A_DEFAULT) for each in found)
    ]
    return max(able, key=lambda name: sum(each.mean(name).value for each in found), default=STEADY)


def track(
    halves: Sequence[Half] = ("development", "validation"),
    policies: Sequence[str] = (),
    *,
    shown: Sequence[str] = SHOWN,
    ablations: bool = True,
    names: Sequence[str] | None = None,
    n_trials: int = 200,
    seed: int = 0,
    data_seed: int = 0,
    real: bool | None = None,
    device: Device = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
) -> list[Shares]:
    """Run both recommended policies and others on the changing tables, and for the price on the stationary ones.

    Parameters
    ----------
    halves
        Which halves of the suite.
    policies
        Names of further policies to run. One that needs a range is told the range of each table, and the number of
        its segments if it has a parameter for that.
    shown
        Those that always run.
    ablations
        Whether also to run UMAB-W with each ingredient off.
    names
        The tables to run on, of both groups; by default, all.
    n_trials, seed, device, n_threads, progress
        As for `umab.simulate`.
    data_seed, real
        As `seed` and `real` of `umab.datasets.suite`.
    """
    run = _policies([*shown, *(ABLATIONS.values() if ablations else ()), *policies])
    n_trials = checks.whole("n_trials", n_trials, least=2)
    known = tuple(each.name for half in halves for each in (*entries(half, group="changing"), *_stationary(half)))
    for name in names or ():
        checks.one_of("a name", name, known)
    chosen = {half: _Tables.of(half, names, data_seed, real) for half in halves}
    searched = _searched([entry for found in chosen.values() for entry, _ in found.changing], data_seed)
    work = (
        sum(losses.n_rounds for losses in searched.values()) * (len(PERIODS) + 1)
        + sum(n_rounds(found.changing) for found in chosen.values()) * (len(run) + 1)
        + sum(n_rounds(found.stationary) for found in chosen.values()) * (len(run) + 3)
    )
    with Progress(n_trials * work, "running the suite", progress, unit="rounds") as bar:
        trials = Trials(n_trials, seed, n_threads, bar, device)
        periods = {kind: best_period(losses, trials) for kind, losses in searched.items()}
        return [
            Shares(
                half,
                tuple(
                    _track(entry, losses, run, periods.get(entry.kind), data_seed, trials)
                    for entry, losses in found.changing
                ),
                tuple(run),
                _on_stationary(half, found.stationary, run, data_seed, trials),
                tuple(count_alarms(entry, losses, trials) for entry, losses in found.stationary),
            )
            for half, found in chosen.items()
        ]


class _Tables(NamedTuple):
    """The tables of one half on which policies run."""

    changing: list[tuple[ChangingEntry, Losses]]
    stationary: list[tuple[Entry, Losses]]

    @classmethod
    def of(cls, half: Half, names: Sequence[str] | None, data_seed: int, real: bool | None) -> _Tables:
        def wanted(entry: Entry) -> bool:
            return names is None or entry.name in names

        return cls(
            made(filter(wanted, entries(half, group="changing")), real, data_seed),
            made(filter(wanted, _stationary(half)), real, data_seed),
        )


def _stationary(half: Half) -> list[Entry]:
    return [each for each in entries(half) if each.world == "stationary"]


def _searched(changing: Sequence[ChangingEntry], data_seed: int) -> dict[str, Losses]:
    """Return, for each kind of which the law changes all the time, the table on which its period is found."""
    kinds = {entry.kind for entry in changing if entry.by_period}
    development = entries("development", group="changing")
    return {each.kind: each.losses(None, data_seed) for each in development if each.kind in kinds}


def _policies(names: Sequence[str]) -> dict[str, Policy]:
    """Return the policies of these names."""
    found = {name: policy_of(name) for name in names}
    for name, policy in found.items():
        if policy.full_information:
            raise ValueError(f"policies on the suite must see one arm per round, but got {name}")
    return found


def told(policy: Policy, losses: Losses, n_segments: int) -> Policy:
    """Return a policy that needs a range with that of the table, and with the number of segments if it takes one."""
    if not policy.needs_range:
        return policy
    facts = {"low": float(losses.table.min()), "high": float(losses.table.max()), "segments": n_segments}
    return policy.with_parameters(**{key: fact for key, fact in facts.items() if key in policy.parameters()})


def _track(
    entry: ChangingEntry,
    losses: Losses,
    policies: Mapping[str, Policy],
    period: int | None,
    data_seed: int,
    trials: Trials,
) -> Tracked:
    """Run policies and the yardstick on a table."""
    starts = entry.starts(data_seed)
    costs = _costs(losses)
    least = smallest_cost(costs, starts)
    ready = {name: told(policy, losses, len(starts)) for name, policy in policies.items()}
    more = smallest_cost(costs, [0]) - least  # by which the best arm of all rounds is worse
    return Tracked(
        entry,
        losses,
        starts,
        period,
        {name: regrets + more for name, regrets in trials.accepted(ready, losses).items()},
        restarted_cost(losses, _right_times(entry, losses, starts, period), trials) - least,
        float(costs.mean(axis=1).sum()) - least,
    )


def _on_stationary(
    half: Half,
    tables: Sequence[tuple[Entry, Losses]],
    policies: Mapping[str, Policy],
    data_seed: int,
    trials: Trials,
) -> Standings:
    every = {**policies, AT_RANDOM: policy_of(AT_RANDOM)}
    played = (
        play(entry, losses, {name: told(policy, losses, 1) for name, policy in every.items()}, trials)
        for entry, losses in tables
    )
    return Standings.of(half, played, every, trials, data_seed)


def _costs(losses: Losses) -> Table:
    """Return the losses minus the smallest of their round: no regret changes, and a large offset costs no digits."""
    costs: Table = losses.table - losses.table.min(axis=1, keepdims=True)
    return costs


def smallest_cost(costs: Table, starts: Sequence[int]) -> float:
    """Return the sum, over the segments with these starts, of the smallest total of one arm."""
    return float(np.add.reduceat(costs, starts, axis=0).min(axis=1).sum())


def restarts_of(n_rounds: int, period: int | None) -> list[int]:
    """Return the rounds in which a policy starts anew every `period` rounds, or only once."""
    return list(range(0, n_rounds, period or n_rounds))


def _right_times(entry: ChangingEntry, losses: Losses, starts: list[int], period: int | None) -> list[int]:
    """Return the rounds in which the yardstick starts anew: in each segment, or after each period."""
    return restarts_of(losses.n_rounds, period) if entry.by_period else starts


def best_period(losses: Losses, trials: Trials) -> int | None:
    """Return after how many rounds `STEADY` is best restarted, or None for never."""
    costs = {
        period: float(restarted_cost(losses, restarts_of(losses.n_rounds, period), trials).mean())
        for period in (None, *PERIODS)  # a period that is longer than the table is no better than never
    }
    return min(costs, key=costs.__getitem__)


def restarted_cost(losses: Losses, restarts: Sequence[int], trials: Trials) -> Array:
    """Return the expected cost, in each trial, of `STEADY` if it starts anew in these rounds.

    Each run has its own draws; the first has the seed of the trials.
    """
    total = np.zeros(trials.n_trials)
    costs = _costs(losses)
    for start, end in pairwise((*restarts, losses.n_rounds)):
        seed = seed_of_part(trials.seed, start)
        (regrets,) = trials._replace(seed=seed).final_regrets([policy_of(STEADY)], losses.table[start:end])
        total += regrets + smallest_cost(costs[start:end], [0])
    return total
