"""The contest of policies on the suite of loss tables, and how it is scored.

A policy's score on a table is its mean final regret, divided by the regret of choosing at random. A score below 5%
counts as 5%: there is nothing left to win, and regret against a fixed arm may be negative. A table is not scored if the
regret of choosing at random is less than five standard errors. A policy's mean score on a half of the suite is the
geometric mean of its scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.base import P, Policy, S
from umab.algorithms.names import policy_as_written as policy_of
from umab.algorithms.registry import recommended, records
from umab.datasets.suite_parts import Entry, Half
from umab.datasets.suite_tables import entries
from umab.engine.simulate import final_states, simulate, takes
from umab.engine.work import Device
from umab.research.experiments.runner import Summary
from umab.results.regret import mean_and_sd
from umab.tables.losses import Losses

RECOMMENDED = recommended().name
STEADY = recommended(changing=False).name
"""The policy that is recommended if nothing changes; prices are relative to it."""
AT_RANDOM = "uniform"

STEADY_ABLATIONS = {
    "centring": "umab-s",
    "the start without a scale": "centred(umab-s:initial_scale=1)",
    "the learning rate from stability": "centred(umab-s:learning=squares)",
    "the floor: exploration is added": "centred(umab-s:exploration=added)",
    "clipping": "centred(umab-s:clipping=none)",
    "all exploration": "centred(umab-s:exploration=none)",
    "all except centring: UMAB-G-A inside": "centred(umab-g-a:rate=4)",
}
"""The policy `STEADY` with one ingredient off, by what is off."""

FLOOR = 0.05
"""The smallest score, as a share of the regret of choosing at random; a lower one counts as this."""
SURE = 5.0
"""How many standard errors the regret of choosing at random must have for a table to be scored."""
MEAN_WANTED, WORST_WANTED = 0.75, 2.0
"""The targets: the mean score relative to the best competitor's, and the worst multiple on a table."""

_RESAMPLED = 1000

Array = npt.NDArray[np.float64]
Weights = npt.NDArray[np.number]
"""How often each trial counts: samples × trials."""

E = TypeVar("E", bound=Entry)


def competitors() -> tuple[str, ...]:
    """Return the published policies that need no range; some run only on tables without negative losses."""
    found = [each for each in records().values() if each.published]
    found = [each for each in found if not each.policy.needs_range and not each.policy.full_information]
    others = [each.policy.with_parameters(**values) for each in found for values in each.also_compared]
    return tuple(dict.fromkeys(each.name for each in (*(each.policy for each in found), *others)))


class Estimate(NamedTuple):
    """A number with its standard error, which comes from the trials; the tables are fixed."""

    value: float
    se: float


class Trials(NamedTuple):
    """How trials are run, on any table."""

    n_trials: int
    seed: int
    n_threads: int | None
    bar: Progress
    device: Device = "cpu"

    def final_regrets(
        self, policies: Iterable[Policy], losses: Losses | Array, *, expected: bool = True
    ) -> list[Array]:
        """Return the final regrets of the trials of each policy."""
        results = simulate(
            policies,
            losses,
            n_trials=self.n_trials,
            seed=self.seed,
            expected=expected,
            keep="summary",
            n_threads=self.n_threads,
            device=self.device,
            progress=self.bar,
        )
        return [result.final_regret for result in results]

    def final_states(self, policy: Policy[S, P], losses: Losses) -> Iterator[S]:
        """Yield the final states of the trials of a policy."""
        return final_states(
            policy, losses, n_trials=self.n_trials, seed=self.seed, n_threads=self.n_threads, progress=self.bar
        )

    def accepted(self, policies: Mapping[str, Policy], losses: Losses) -> dict[str, Array]:
        """Return the final expected regrets of the policies that accept all losses of the table."""
        taken = {name: policy for name, policy in policies.items() if takes(policy, losses)}
        self.bar.skip(self.n_trials * losses.n_rounds * (len(policies) - len(taken)))
        return dict(zip(taken, self.final_regrets(taken.values(), losses), strict=True))


class Scored(Protocol):
    """What all policies did on a table, and what that is worth."""

    @property
    def entry(self) -> Entry:
        """The table before it was made."""

    @property
    def regrets(self) -> dict[str, Array]:
        """The final regrets of the trials, by policy."""

    def score(self, name: str, weights: Weights) -> Array:
        """Return the score of a policy if each trial counts as often as `weights` says: one for each sample."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Scores on tables; a policy that does not accept the losses of a table has no number there."""

    tables: Sequence[Scored]
    policies: tuple[str, ...]
    n_trials: int

    @cached_property
    def values(self) -> Array:
        """The scores: tables × policies."""
        return np.asarray(self._weighted(np.ones((1, self.n_trials)))[0])

    @cached_property
    def resampled(self) -> Array:
        """The scores with resampled trials, which are the same for all policies: samples × tables × policies."""
        return self._weighted(resampled_trials(self.n_trials))

    def _weighted(self, weights: Weights) -> Array:
        found = np.full((len(weights), len(self.tables), len(self.policies)), np.nan)
        for row, table in enumerate(self.tables):
            for column, name in enumerate(self.policies):
                if name in table.regrets:
                    found[:, row, column] = table.score(name, weights)
        return found

    def mean(self, name: str) -> Estimate:
        """Return the geometric mean of the scores of a policy; not a number if it does not accept all tables."""
        column = self.policies.index(name)
        return estimate(geometric(self.values[:, column]), geometric(self.resampled[:, :, column]))

    def largest(self, values: Array, resampled: Array) -> tuple[Estimate, str]:
        """Return the largest of one value per table, and the name of its table; `resampled` has samples × tables."""
        if np.isnan(values).all():
            return Estimate(math.nan, math.nan), "–"
        at = int(np.nanargmax(values))
        return estimate(values[at], resampled[:, at]), self.tables[at].entry.name


@dataclass(frozen=True, eq=False)
class Played:
    """What all policies did on one table."""

    entry: Entry
    losses: Losses
    regrets: dict[str, Array]
    """The final expected regrets of the trials, by policy."""
    at_random: Summary
    """The final sampled regret of choosing at random."""

    @property
    def stand_in(self) -> bool:
        """Whether the losses stand in for a public table that is not available."""
        return bool(self.losses.provenance.get("stand_in"))

    @property
    def scored(self) -> bool:
        """Whether the regret of choosing at random is large enough for a score."""
        return self.at_random.mean > 0.0 and self.at_random.mean >= SURE * self.at_random.se

    def score(self, name: str, weights: Weights) -> Array:
        """Return the regret relative to that of choosing at random, `FLOOR` or more: one for each sample of trials."""
        each = self.regrets[name] / float(self.regrets[AT_RANDOM].mean())
        means = each[0] + weights @ (each - each[0]) / len(each)  # exact if all trials are equal
        return np.asarray(np.maximum(means, FLOOR))


@dataclass(frozen=True, eq=False)
class Standings:
    """The scores of one half of the suite; the axes of arrays are scored tables × policies.

    A policy that does not accept the losses of a table has no number there.
    """

    half: Half
    tables: tuple[Played, ...]
    policies: tuple[str, ...]
    n_trials: int
    seed: int
    data_seed: int

    @classmethod
    def of(
        cls, half: Half, tables: Iterable[Played], policies: Iterable[str], trials: Trials, data_seed: int
    ) -> Standings:
        """Return the scores of these policies on tables that were played."""
        return cls(half, tuple(tables), tuple(policies), trials.n_trials, trials.seed, data_seed)

    @cached_property
    def scored(self) -> tuple[Played, ...]:
        """The tables that have a score."""
        return tuple(table for table in self.tables if table.scored)

    @property
    def shown(self) -> tuple[str, ...]:
        """The policies that are compared: all except choosing at random and those with an ingredient off."""
        return tuple(name for name in self.policies if name != AT_RANDOM and name not in STEADY_ABLATIONS.values())

    @cached_property
    def _grid(self) -> Grid:
        return Grid(self.scored, self.policies, self.n_trials)

    @property
    def relative(self) -> Array:
        """The scores."""
        return self._grid.values

    def columns(self, names: Iterable[str]) -> list[int]:
        """Return the columns of these policies, leaving out policies that were not run."""
        return [self.policies.index(name) for name in names if name in self.policies]

    @cached_property
    def best_competitor(self) -> str | None:
        """The competitor with the smallest mean score, of those that accept all tables; None if there is none."""
        ran = [name for name in competitors() if name in self.policies]
        means = {name: self.mean(name).value for name in ran}
        whole = [name for name in ran if not math.isnan(means[name])]
        return min(whole, key=means.__getitem__) if whole else None

    def mean(self, name: str) -> Estimate:
        """Return the mean score of a policy; not a number if it does not accept all tables."""
        return self._grid.mean(name)

    def ratio(self, name: str, *, without: int = 0) -> Estimate:
        """Return the mean score of a policy, divided by the best competitor's.

        `without` is how many tables to leave out: those on which the policy gains most against that competitor.
        """
        if self.best_competitor is None:
            return Estimate(math.nan, math.nan)
        (own,), (other,) = self.columns([name]), self.columns([self.best_competitor])
        quotients = self.relative[:, own] / self.relative[:, other]
        kept = np.argsort(quotients)[without:]
        resampled = self._grid.resampled[:, :, own] / self._grid.resampled[:, :, other]
        return estimate(geometric(quotients[kept]), geometric(resampled[:, kept]))

    def quotient(self, name: str, other: str) -> Estimate:
        """Return the mean score of a policy, divided by that of another; not a number if one has none."""
        resampled = self._quotients(name, other, self._grid.resampled)
        return estimate(geometric(self._quotients(name, other, self.relative)), geometric(resampled))

    def price(self, name: str) -> Estimate:
        """Return the mean score of a policy, divided by that of `STEADY`."""
        return self.quotient(name, STEADY)

    def highest_price(self, name: str) -> tuple[Estimate, str]:
        """Return the largest quotient of these scores on one table, and the name of the table."""
        resampled = self._quotients(name, STEADY, self._grid.resampled)
        return self._grid.largest(self._quotients(name, STEADY, self.relative), resampled)

    def _quotients(self, name: str, other: str, relative: Array) -> Array:
        (above,), (below,) = self.columns([name]), self.columns([other])
        return np.asarray(relative[..., above] / relative[..., below])

    def to_best(self, name: str) -> Array:
        """Return, for each table, the score of a policy as a multiple of the best competitor's there."""
        return self._to_best(name, self.relative)

    def _to_best(self, name: str, relative: Array) -> Array:
        """Return the same from these scores, whose last axis is the policies."""
        (column,) = self.columns([name])
        others = self.columns(each for each in competitors() if each != name)
        best = np.nanmin(relative[..., others], axis=-1) if others else np.nan
        return np.asarray(relative[..., column] / best)

    def worst(self, name: str) -> tuple[Estimate, str]:
        """Return the largest of these multiples, and the name of its table."""
        resampled = self._to_best(name, self._grid.resampled)
        return self._grid.largest(self._to_best(name, self.relative), resampled)

    def n_played(self, name: str) -> int:
        """Return on how many of the scored tables a policy was run: those whose losses it accepts."""
        return sum(name in table.regrets for table in self.scored)

    def profile(self, name: str) -> Array:
        """Return, sorted, by which factor a policy is above the best of those shown: one number for each table."""
        (column,) = self.columns([name])
        factors = self.relative[:, column] / np.nanmin(self.relative[:, self.columns(self.shown)], axis=1)
        return np.sort(np.where(np.isnan(factors), np.inf, factors))


def contest(
    halves: Sequence[Half] = ("development", "validation"),
    policies: Sequence[str] = (),
    *,
    ablations: bool = True,
    n_trials: int = 200,
    seed: int = 0,
    data_seed: int = 0,
    real: bool | None = None,
    device: Device = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
) -> list[Standings]:
    """Run both recommended policies, their competitors and others on the suite.

    Parameters
    ----------
    halves
        Which halves of the suite.
    policies
        Names of further policies to run.
    ablations
        Whether also to run `STEADY` with each ingredient off.
    n_trials, seed, device, n_threads, progress
        As for `umab.simulate`.
    data_seed, real
        As `seed` and `real` of `umab.datasets.suite`.
    """
    more = tuple(STEADY_ABLATIONS.values()) if ablations else ()
    names = tuple(dict.fromkeys((RECOMMENDED, STEADY, *competitors(), AT_RANDOM, *more, *policies)))
    run = without_range(names)
    n_trials = checks.whole("n_trials", n_trials, least=2)
    chosen = {half: made(entries(half), real, data_seed) for half in halves}
    work = sum(map(n_rounds, chosen.values())) * n_trials * (len(names) + 1)
    with Progress(work, "running the suite", progress, unit="rounds") as bar:
        trials = Trials(n_trials, seed, n_threads, bar, device)
        return [
            Standings.of(half, (play(*each, run, trials) for each in found), names, trials, data_seed)
            for half, found in chosen.items()
        ]


def without_range(names: Iterable[str]) -> dict[str, Policy]:
    """Return the policies of these names, which must see one arm per round and need no range."""
    found = {name: policy_of(name) for name in names}  # refuses an unknown name
    for name, policy in found.items():
        if policy.full_information or policy.needs_range:
            raise ValueError(f"policies on the suite must see one arm per round and need no range, but got {name}")
    return found


def made(chosen: Iterable[E], real: bool | None, data_seed: int) -> list[tuple[E, Losses]]:
    """Return tables of the suite with their losses."""
    return [(entry, entry.losses(real, data_seed)) for entry in chosen]


def n_rounds(tables: Iterable[tuple[Entry, Losses]]) -> int:
    """Return how many rounds tables have in all."""
    return sum(losses.n_rounds for _, losses in tables)


def play(entry: Entry, losses: Losses, policies: Mapping[str, Policy], trials: Trials) -> Played:
    """Run policies on a table; choosing at random, `AT_RANDOM`, must be one of them."""
    regrets = trials.accepted(policies, losses)
    (sampled,) = trials.final_regrets([policies[AT_RANDOM]], losses, expected=False)
    return Played(entry, losses, regrets, Summary.of(sampled))


def seed_of_part(seed: int, part: int) -> int:
    """Return the seed of a part of a run, so that parts have their own draws; the first has the seed of the run."""
    return int(np.random.SeedSequence([seed, part]).generate_state(1)[0]) if part else seed


def resampled_trials(n_trials: int) -> npt.NDArray[np.int64]:
    """Return how often each trial counts in each of many samples of the trials, which are the same in all tables."""
    return np.random.default_rng(0).multinomial(n_trials, [1 / n_trials] * n_trials, _RESAMPLED)


def geometric(values: Array) -> Array:
    """Return the geometric means along the last axis."""
    return np.asarray(np.exp(np.log(values).mean(axis=-1)))


def estimate(value: Array, resampled: Array) -> Estimate:
    """Return a number, with the error that it has if the trials are resampled."""
    return Estimate(float(value), mean_and_sd(resampled)[1])
