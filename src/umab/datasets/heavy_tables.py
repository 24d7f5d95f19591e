"""The heavy group of the suite: losses without a variance, of which the mean of every arm is known.

A few outliers decide which arm of such a table has the smallest sum, so policies are scored by the means: see
`Result.regret_by_means`. Each kind has two tables, one in each half, with other arms, rounds, tails and units.

The kinds are at home or away for HTINF and its relatives. At home, the best arm is truncated non-negative: what is left
of its losses beyond any size, E[ℓ; |ℓ| > M], is at least 0, so that skipping large losses never makes it look worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np

from umab.datasets.suite_parts import Entry, Half, Rng, drawn_losses, stream
from umab.tables.losses import Losses, Table

SHARES_OF_INDEX = tuple(share / 100.0 for share in range(85, 96))
"""The orders α that HTINF may be told, as shares of the smallest tail index, below which moments are finite."""


@dataclass(frozen=True)
class Arm:
    """The law of an arm's losses: offset + scale · X, where X is Pareto, from 1 on, or Student's, about 0."""

    shape: Literal["Pareto", "Student"]
    index: float
    """The tail index, or the degrees of freedom, above 1 and below 2: only moments of smaller order are finite."""
    scale: float
    """Below 0 if the heavy tail of a Pareto law is one of gains."""
    offset: float = 0.0

    @property
    def mean(self) -> float:
        """The mean."""
        return self.offset + (self.scale * self.index / (self.index - 1.0) if self.shape == "Pareto" else 0.0)

    def draw(self, rng: Rng, n_rounds: int) -> Table:
        """Return losses of this law."""
        if self.shape == "Pareto":
            return self.offset + self.scale * (1.0 + rng.pareto(self.index, n_rounds))
        return self.offset + self.scale * rng.standard_t(self.index, n_rounds)

    def moment(self, order: float) -> float:
        """Return E|ℓ|^order, for an order from 1 up to 95% of the index.

        It is the trapezoidal rule, to about four digits, over a variable in which tails are exponential.
        """
        if self.shape == "Pareto":
            at = np.arange(0.0, 300.0, 0.02)
            x, weight = np.exp(at / self.index), np.exp(-at)
        else:
            df = self.index
            at = np.arange(-200.0, 200.0, 0.02)
            x = np.sinh(at)
            peak = math.gamma((df + 1.0) / 2.0) / math.sqrt(df * math.pi) / math.gamma(df / 2.0)
            weight = peak * (1.0 + x * x / df) ** (-(df + 1.0) / 2.0) * np.cosh(at)
        return float(np.trapezoid(np.abs(self.offset + self.scale * x) ** order * weight, at))


class Moment(NamedTuple):
    """E|ℓ|^α ≤ σ^α, for the losses of all arms of a table."""

    alpha: float
    sigma: float


@dataclass(frozen=True, kw_only=True)
class HeavyEntry(Entry):
    """A table of the heavy group, which knows the laws of its arms."""

    kind: str
    """What the tables of the same kind share: the name of the one in the development half."""
    at_home: bool
    """Whether the best arm is truncated non-negative."""
    n_rounds: int
    arms: tuple[Arm, ...]

    @property
    def means(self) -> Table:
        """The means of the arms."""
        return np.array([arm.mean for arm in self.arms])

    @property
    def at_random(self) -> float:
        """The regret of choosing at random, exactly."""
        return self.n_rounds * float((self.means - self.means.min()).mean())

    @cached_property
    def moment(self) -> Moment:
        """What HTINF is told: the order of `SHARES_OF_INDEX` with the smallest bound σ n^(1−1/α) T^(1/α), and its σ."""
        index = min(arm.index for arm in self.arms)

        def bound(moment: Moment) -> float:
            return moment.sigma * len(self.arms) * math.pow(self.n_rounds / len(self.arms), 1.0 / moment.alpha)

        return min((self.moment_of(share * index) for share in SHARES_OF_INDEX), key=bound)

    def moment_of(self, alpha: float) -> Moment:
        """Return the moment of this order, with the smallest σ for which it holds."""
        return Moment(alpha, math.pow(max(arm.moment(alpha) for arm in set(self.arms)), 1.0 / alpha))


class _Recipe(NamedTuple):
    n_rounds: int
    arms: Sequence[Arm]


def _paretos(index: float, means: Iterable[float], offset: float = 0.0) -> list[Arm]:
    """Return arms with Pareto losses of these means, to which `offset` is added; for means below 0, gains."""
    return [Arm("Pareto", index, float(mean) * (index - 1.0) / index, offset) for mean in means]


def _students(df: float, means: Iterable[float], scale: float = 1.0) -> list[Arm]:
    return [Arm("Student", df, scale, float(mean)) for mean in means]


_line = partial(np.linspace, dtype=np.float64)


def _pair(kind: str, about: str, development: _Recipe, validation: _Recipe, *, at_home: bool) -> list[HeavyEntry]:
    """Return both tables of a kind."""
    return [
        _entry(kind, kind, "development", about, development, at_home),
        _entry(kind, f"{kind}-again", "validation", about, validation, at_home),
    ]


def _entry(kind: str, name: str, half: Half, about: str, recipe: _Recipe, at_home: bool) -> HeavyEntry:
    def losses(real: bool | None, seed: int) -> Losses:
        rng = stream(name, seed)
        table = np.stack([arm.draw(rng, recipe.n_rounds) for arm in recipe.arms], axis=1)
        return drawn_losses(name, about, table, seed)

    return HeavyEntry(
        name, half, about, losses, kind=kind, at_home=at_home, n_rounds=recipe.n_rounds, arms=tuple(recipe.arms)
    )


HEAVY: list[HeavyEntry] = [
    # At home.
    *_pair(
        "long-waits",
        "Pareto costs",
        _Recipe(4000, _paretos(1.5, _line(1.0, 3.0, 5))),
        _Recipe(6000, _paretos(1.2, _line(10.0, 40.0, 8))),
        at_home=True,
    ),
    *_pair(
        "waits-and-toll",
        "Pareto costs, to which a number is added",
        _Recipe(4000, _paretos(1.8, _line(1.0, 3.0, 4), offset=20.0)),
        _Recipe(6000, _paretos(1.5, _line(1.0, 4.0, 6), offset=5.0)),
        at_home=True,
    ),
    *_pair(
        "one-is-good",
        "Pareto costs, one of many arms is better",
        _Recipe(5000, _paretos(1.8, [0.4] + [1.0] * 19)),
        _Recipe(8000, _paretos(1.5, [0.003] + [0.01] * 29)),
        at_home=True,
    ),
    *_pair(
        "tempting",
        "Pareto costs, the best arm has a lighter tail but larger typical costs",
        _Recipe(5000, _paretos(1.8, [1.0]) + _paretos(1.2, [2.0] * 3)),
        _Recipe(8000, _paretos(1.8, [10.0]) + _paretos(1.2, _line(15.0, 20.0, 5))),
        at_home=True,
    ),
    *_pair(
        "symmetric",
        "Student, the best mean is 0",
        _Recipe(4000, _students(1.5, _line(0.0, 2.0, 6))),
        _Recipe(6000, _students(1.8, _line(0.0, 1.5, 4))),
        at_home=True,
    ),
    *_pair(
        "symmetric-wild",
        "Student with 1.2 degrees of freedom, the best mean is above 0",
        _Recipe(4000, _students(1.2, [1.0, 3.0, 3.0, 3.0])),
        _Recipe(8000, _students(1.2, _line(2.0, 8.0, 8), scale=2.0)),
        at_home=True,
    ),
    # Away.
    *_pair(
        "long-gains",
        "Pareto gains",
        _Recipe(4000, _paretos(1.8, _line(-3.0, -1.0, 5))),
        _Recipe(6000, _paretos(1.5, _line(-40.0, -10.0, 8))),
        at_home=False,
    ),
    *_pair(
        "symmetric-below",
        "Student, the best mean is below 0",
        _Recipe(4000, _students(1.8, _line(-1.5, 0.0, 5))),
        _Recipe(6000, _students(1.5, _line(-1.0, -0.7, 6), scale=0.1)),
        at_home=False,
    ),
    *_pair(
        "waits-and-credit",
        "Pareto costs, from which so much is taken away that the best mean is below 0",
        _Recipe(4000, _paretos(1.5, _line(1.0, 3.0, 4), offset=-5.0)),
        _Recipe(6000, _paretos(1.8, _line(1.0, 4.0, 6), offset=-20.0)),
        at_home=False,
    ),
    *_pair(
        "refunds",
        "a cost minus Pareto refunds; all means are above 0",
        _Recipe(4000, _paretos(1.2, _line(-4.0, -1.0, 5), offset=10.0)),
        _Recipe(6000, _paretos(1.8, _line(-3.0, -1.0, 8), offset=6.0)),
        at_home=False,
    ),
]
