"""The contest of policies on the suite of loss tables, and how it is scored.

A policy's score on a table is its mean final regret, divided by the regret of choosing at random. A score below 5%
counts as 5%: there is nothing left to win, and regret against a fixed arm may be negative. A table is not scored if the
regret of choosing at random is less than five standard errors. A policy's mean score on a half of the suite is the
geometric mean of its scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.names import policy_as_written as policy_of
from umab.algorithms.registry import recommended, registered
from umab.datasets.suite_tables import Entry, Half, entries
from umab.engine.simulate import simulate, takes
from umab.research.experiments.runner import Summary
from umab.tables.losses import Losses

RECOMMENDED = recommended().name
AT_RANDOM = "uniform"

ABLATIONS = {
    "centring": "umab-s",
    "the start without a scale": "centred(umab-s:initial_scale=1)",
    "the learning rate from stability": "centred(umab-s:learning=squares)",
    "the floor: exploration is added": "centred(umab-s:exploration=added)",
    "clipping": "centred(umab-s:clipping=none)",
    "all exploration": "centred(umab-s:exploration=none)",
    "all except centring: UMAB-G-A inside": "centred(umab-g-a:rate=4)",
}
"""The recommended policy with one ingredient off, by what is off."""

FLOOR = 0.05
"""The smallest score, as a share of the regret of choosing at random; a lower one counts as this."""
SURE = 5.0
"""How many standard errors the regret of choosing at random must have for a table to be scored."""
MEAN_WANTED, WORST_WANTED = 0.75, 2.0
"""The targets: the mean score relative to the best competitor's, and the worst multiple on a table."""

_RESAMPLED = 1000

Array = npt.NDArray[np.float64]


def competitors() -> tuple[str, ...]:
    """Return the published policies that need no range; some run only on tables without negative losses."""
    published = [
        each for each in registered().values() if each.published and not each.needs_range and not each.full_information
    ]
    others = [each.with_parameters(**values) for each in published for values in each.also_compared]
    return tuple(dict.fromkeys(each.name for each in (*published, *others)))


class Estimate(NamedTuple):
    """A number with its standard error, which comes from the trials; the tables are fixed."""

    value: float
    se: float


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

    @cached_property
    def scored(self) -> tuple[Played, ...]:
        """The tables that have a score."""
        return tuple(table for table in self.tables if table.scored)

    @property
    def shown(self) -> tuple[str, ...]:
        """The policies that are compared: all except choosing at random and those with an ingredient off."""
        return tuple(name for name in self.policies if name != AT_RANDOM and name not in ABLATIONS.values())

    @cached_property
    def relative(self) -> Array:
        """The scores."""
        return np.asarray(self._relative(np.ones((1, self.n_trials)))[0])

    @cached_property
    def _resampled(self) -> Array:
        """The scores with resampled trials, which are the same for all policies: samples × tables × policies."""
        rng = np.random.default_rng(0)
        return self._relative(rng.multinomial(self.n_trials, [1 / self.n_trials] * self.n_trials, _RESAMPLED))

    def _relative(self, weights: npt.NDArray[np.number]) -> Array:
        """Return the scores if each trial counts as often as `weights` says: samples × tables × policies."""
        found = np.full((len(weights), len(self.scored), len(self.policies)), np.nan)
        for row, table in enumerate(self.scored):
            at_random = float(table.regrets[AT_RANDOM].mean())
            for column, name in enumerate(self.policies):
                if name in table.regrets:
                    means = weights @ (table.regrets[name] / at_random) / self.n_trials
                    found[:, row, column] = np.maximum(means, FLOOR)
        return found

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
        (column,) = self.columns([name])
        return _estimate(_geometric(self.relative[:, column]), _geometric(self._resampled[:, :, column]))

    def ratio(self, name: str, *, without: int = 0) -> Estimate:
        """Return the mean score of a policy, divided by the best competitor's.

        `without` is how many tables to leave out: those on which the policy gains most against that competitor.
        """
        if self.best_competitor is None:
            return Estimate(math.nan, math.nan)
        (own,), (other,) = self.columns([name]), self.columns([self.best_competitor])
        quotients = self.relative[:, own] / self.relative[:, other]
        kept = np.argsort(quotients)[without:]
        resampled = self._resampled[:, :, own] / self._resampled[:, :, other]
        return _estimate(_geometric(quotients[kept]), _geometric(resampled[:, kept]))

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
        multiples = self._to_best(name, self.relative)
        if np.isnan(multiples).all():
            return Estimate(math.nan, math.nan), "–"
        at = int(np.nanargmax(multiples))
        resampled = self._to_best(name, self._resampled[:, at])
        return _estimate(multiples[at], resampled), self.scored[at].entry.name

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
    n_threads: int | None = None,
    progress: bool | None = None,
) -> list[Standings]:
    """Run the recommended policy, its competitors and others on the suite.

    Parameters
    ----------
    halves
        Which halves of the suite.
    policies
        Names of further policies to run.
    ablations
        Whether also to run the recommended policy with each ingredient off.
    n_trials, seed, n_threads, progress
        As for `umab.simulate`.
    data_seed, real
        As `seed` and `real` of `umab.datasets.suite`.
    """
    more = tuple(ABLATIONS.values()) if ablations else ()
    names = tuple(dict.fromkeys((RECOMMENDED, *competitors(), AT_RANDOM, *more, *policies)))
    for name in names:
        which = policy_of(name)  # refuses an unknown name
        if which.full_information or which.needs_range:
            raise ValueError(f"policies on the suite must see one arm per round and need no range, but got {name}")
    n_trials = checks.whole("n_trials", n_trials, least=2)
    chosen = {half: [(entry, entry.losses(real, data_seed)) for entry in entries(half)] for half in halves}
    n_rounds = sum(losses.n_rounds for found in chosen.values() for _, losses in found)
    work = n_rounds * n_trials * (len(names) + 1)
    with Progress(work, "running the suite", progress, unit="rounds") as bar:
        return [
            Standings(
                half,
                tuple(_play(entry, losses, names, n_trials, seed, n_threads, bar) for entry, losses in found),
                names,
                n_trials,
                seed,
                data_seed,
            )
            for half, found in chosen.items()
        ]


def _play(
    entry: Entry, losses: Losses, names: Sequence[str], n_trials: int, seed: int, n_threads: int | None, bar: Progress
) -> Played:
    taken = [name for name in names if takes(policy_of(name), losses)]

    def final(policies: list[str], expected: bool) -> list[Array]:
        results = simulate(
            [policy_of(name) for name in policies],
            losses,
            n_trials=n_trials,
            seed=seed,
            expected=expected,
            keep="summary",
            n_threads=n_threads,
            progress=bar,
        )
        return [result.final_regret for result in results]

    regrets = dict(zip(taken, final(taken, True), strict=True))
    bar.skip(n_trials * losses.n_rounds * (len(names) - len(taken)))
    return Played(entry, losses, regrets, Summary.of(final([AT_RANDOM], False)[0]))


def _geometric(values: Array) -> Array:
    """Return the geometric means along the last axis."""
    return np.asarray(np.exp(np.log(values).mean(axis=-1)))


def _estimate(value: Array, resampled: Array) -> Estimate:
    return Estimate(float(value), float(resampled.std(ddof=1)))
