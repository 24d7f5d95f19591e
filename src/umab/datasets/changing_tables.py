"""The changing group of the suite: tables in which the law of the losses changes, and where it does.

Each kind of change has two tables, one in each half, with other arms, rounds, gaps, noise and units. Where changes
happen is drawn too, with `seed` as in `umab.datasets.suite`. Means and gaps are in standard deviations of the noise,
unless a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from umab.datasets.suite_parts import Entry, Half, Rng, by_turns, drawn_losses, normal, stream, walks, waves
from umab.tables.losses import Losses, Table


class Drawn(NamedTuple):
    """A table of the changing group and the law behind it."""

    means: Table
    """The mean of each arm in each round, up to an offset and a positive scale of the round, which all arms share."""
    table: Table


@dataclass(frozen=True, kw_only=True)
class ChangingEntry(Entry):
    """A table of the changing group, which knows where its law changes."""

    kind: str
    """What the tables of the same kind share: the name of the one in the development half."""
    by_period: bool
    """Whether the law changes all the time, so that no rounds are the right ones to start anew.

    Otherwise it changes at `starts` only.
    """
    slack: float
    """By how much the arm of a segment may be behind the best one; means that walk at random cross again and again."""
    drawn: Callable[[int], Drawn]
    """The table and its law, for the `seed` of `suite`."""

    def starts(self, seed: int) -> list[int]:
        """Return the first rounds of the segments: where another arm becomes the best by its mean."""
        return segments(self.drawn(seed).means, self.slack)


def segments(means: Table, slack: float = 0.0) -> list[int]:
    """Return the first rounds of the segments: in each, one arm has the smallest mean, up to `slack`."""
    starts = [0]
    while True:
        rest = means[starts[-1] :]
        behind = rest[:, rest[0].argmin()] - rest.min(axis=1) > slack
        if not behind.any():
            return starts
        starts.append(starts[-1] + int(behind.argmax()))


# Means: which arm is the best, and when. The arms that play a part are drawn.


def _change_points(rng: Rng, n_rounds: int, n_changes: int, shortest: int) -> list[int]:
    """Return the first rounds of segments of random length, each at least `shortest`."""
    spare = n_rounds - (n_changes + 1) * shortest
    cuts = np.sort(rng.integers(0, spare + 1, n_changes)) + shortest * np.arange(1, n_changes + 1)
    return [0, *cuts.tolist()]


def _changes(
    rng: Rng, *, rounds: int, arms: int, changes: int, shortest: int, gap: float, spread: float = 1.0
) -> Table:
    """Return means that are drawn anew at each change; the best arm, always another, is better by `gap` or more."""
    means = gap * (1.0 + spread * rng.random((changes + 1, arms)))
    best = (rng.integers(arms) + np.cumsum(rng.integers(1, arms, changes + 1))) % arms
    means[np.arange(changes + 1), best] = 0.0
    return by_turns(rounds, _change_points(rng, rounds, changes, shortest), means)


def _drift(rng: Rng, *, rounds: int, arms: int, periods: float, depth: float) -> Table:
    """Return waves, one arm after the other, in a drawn order and from a drawn moment on."""
    first = int(rng.integers(rounds))
    later = waves(2 * rounds, arms, 2.0 * periods)[first : first + rounds]
    return depth * later[:, rng.permutation(arms)]


def _outages(rng: Rng, *, rounds: int, arms: int, outages: int, shortest: int, factor: float) -> Table:
    """Return latencies: the best arm's is 1, the others' are 1.5 to 2.5; in an outage the best arm's is `factor`."""
    means = np.tile(1.5 + rng.random(arms), (2 * outages + 1, 1))
    best = rng.integers(arms)
    means[::2, best], means[1::2, best] = 1.0, factor
    return by_turns(rounds, _change_points(rng, rounds, 2 * outages, shortest), means)


def _turn(rng: Rng, *, rounds: int, arms: int, gap: float) -> Table:
    """Return means of which the best becomes the worst, and another the best, after 60 to 85 percent of the rounds."""
    one, other = rng.permutation(arms)[:2]
    means = np.full((2, arms), gap)
    means[0, one], means[1, other], means[1, one] = 0.0, 0.0, 2.0 * gap
    return by_turns(rounds, [0, int(rounds * rng.uniform(0.6, 0.85))], means)


def _hidden(rng: Rng, *, rounds: int, arms: int, changes: int, shortest: int, gap: float) -> Table:
    """Return means of which at each change one that was `gap` behind the first leader becomes the best by `gap`."""
    means = np.full((changes + 1, arms), gap)
    for at, arm in enumerate(rng.permutation(arms)[: changes + 1]):
        means[at:, arm] = -gap * at
    return by_turns(rounds, _change_points(rng, rounds, changes, shortest), means)


def _seasons(rng: Rng, *, rounds: int, arms: int, changes: int, shortest: int, gap: float) -> Table:
    """Return means of which two are the best by turns."""
    pair = rng.permutation(arms)[:2]
    means = np.full((changes + 1, arms), gap)
    means[np.arange(changes + 1), pair[np.arange(changes + 1) % 2]] = 0.0
    return by_turns(rounds, _change_points(rng, rounds, changes, shortest), means)


def _walk(rng: Rng, *, rounds: int, arms: int, step: float) -> Table:
    return walks(rng, rounds, arms, step)


# Losses: noise around the means, and what all arms share.


def _normal(rng: Rng, means: Table, *, unit: float = 1.0) -> Table:
    return unit * normal(rng, len(means), means)


def _student(rng: Rng, means: Table, *, unit: float = 1.0) -> Table:
    return unit * (means + rng.standard_t(2.2, means.shape))


def _coins(rng: Rng, means: Table, *, least: float) -> Table:
    """Return 0 or 1; the means, plus `least`, are the probabilities of 1."""
    return (rng.random(means.shape) < least + means).astype(float)


def _lognormal(rng: Rng, means: Table, *, shape: float) -> Table:
    return means * rng.lognormal(-0.5 * shape * shape, shape, means.shape)


def _gamma(rng: Rng, means: Table, *, shape: float, unit: float) -> Table:
    return unit * rng.gamma(shape, means / shape)


def _on_a_wave(rng: Rng, means: Table, *, height: float, periods: float) -> Table:
    return _normal(rng, means) + height * waves(len(means), 1, periods)


def _on_a_trend(rng: Rng, means: Table, *, rise: float) -> Table:
    return _normal(rng, means) + np.linspace(0.0, rise, len(means))[:, None]


def _inflated(rng: Rng, means: Table, *, level: float, factor: float) -> Table:
    return (level + _normal(rng, means)) * np.geomspace(1.0, factor, len(means))[:, None]


class _Recipe(NamedTuple):
    """How to draw a table: first its means, then its losses."""

    means: Callable[[Rng], Table]
    losses: Callable[[Rng, Table], Table]


def _pair(
    kind: str,
    about: str,
    development: _Recipe,
    validation: _Recipe,
    *,
    by_period: bool = False,
    slack: float = 0.0,
) -> list[ChangingEntry]:
    """Return both tables of a kind."""
    return [
        _entry(kind, kind, "development", about, development, by_period, slack),
        _entry(kind, f"{kind}-again", "validation", about, validation, by_period, slack),
    ]


def _entry(
    kind: str, name: str, half: Half, about: str, recipe: _Recipe, by_period: bool, slack: float
) -> ChangingEntry:
    def drawn(seed: int) -> Drawn:
        rng = stream(name, seed)
        means = recipe.means(rng)
        return Drawn(means, recipe.losses(rng, means))

    def losses(real: bool | None, seed: int) -> Losses:
        return drawn_losses(name, about, drawn(seed).table, seed)

    return ChangingEntry(
        name, half, about, losses, "changing", kind=kind, by_period=by_period, slack=slack, drawn=drawn
    )


CHANGING: list[ChangingEntry] = [
    *_pair(
        "two-changes",
        "normal, the best arm changes twice",
        _Recipe(partial(_changes, rounds=5000, arms=5, changes=2, shortest=800, gap=1.5), _normal),
        _Recipe(
            partial(_changes, rounds=9000, arms=12, changes=2, shortest=1500, gap=3.0), partial(_normal, unit=0.01)
        ),
    ),
    *_pair(
        "six-changes",
        "normal, the best arm changes six times",
        _Recipe(partial(_changes, rounds=8000, arms=4, changes=6, shortest=500, gap=2.0), _normal),
        _Recipe(partial(_changes, rounds=14000, arms=8, changes=6, shortest=800, gap=1.5), partial(_normal, unit=50.0)),
    ),
    *_pair(
        "many-changes",
        "normal, the best arm changes 25 times",
        _Recipe(partial(_changes, rounds=15000, arms=4, changes=25, shortest=200, gap=2.5), _normal),
        _Recipe(partial(_changes, rounds=20000, arms=6, changes=25, shortest=300, gap=3.5), _normal),
    ),
    *_pair(
        "drift",
        "normal, means go up and down, one arm after the other",
        _Recipe(partial(_drift, rounds=6000, arms=3, periods=2.0, depth=1.5), _normal),
        _Recipe(partial(_drift, rounds=12000, arms=5, periods=3.0, depth=2.5), partial(_normal, unit=7.0)),
        by_period=True,
    ),
    *_pair(
        "mean-walks",
        "normal, means walk at random",
        _Recipe(partial(_walk, rounds=6000, arms=5, step=0.05), _normal),
        _Recipe(partial(_walk, rounds=12000, arms=10, step=0.04), partial(_normal, unit=0.2)),
        by_period=True,
        slack=1.0,
    ),
    *_pair(
        "outage",
        "latencies, the best arm becomes terrible for a while",
        _Recipe(
            partial(_outages, rounds=6000, arms=4, outages=1, shortest=1000, factor=10.0),
            partial(_lognormal, shape=0.5),
        ),
        _Recipe(
            partial(_outages, rounds=12000, arms=8, outages=2, shortest=1200, factor=6.0),
            partial(_gamma, shape=3.0, unit=20.0),
        ),
    ),
    *_pair(
        "turn",
        "normal, late, another arm becomes the best and the best becomes the worst",
        _Recipe(partial(_turn, rounds=4000, arms=3, gap=1.5), _normal),
        _Recipe(partial(_turn, rounds=10000, arms=7, gap=2.5), partial(_normal, unit=300.0)),
    ),
    *_pair(
        "hidden",
        "normal, the leader stays as it is and another arm becomes better",
        _Recipe(partial(_hidden, rounds=6000, arms=3, changes=1, shortest=2000, gap=1.5), _normal),
        _Recipe(partial(_hidden, rounds=12000, arms=6, changes=1, shortest=4000, gap=2.0), partial(_normal, unit=1e-3)),
    ),
    *_pair(
        "hidden-often",
        "normal, the leader stays as it is and another arm becomes better, several times",
        _Recipe(partial(_hidden, rounds=10000, arms=5, changes=3, shortest=1500, gap=1.5), _normal),
        _Recipe(partial(_hidden, rounds=18000, arms=8, changes=4, shortest=2500, gap=2.0), partial(_normal, unit=12.0)),
    ),
    *_pair(
        "seasons",
        "normal, two arms are the best by turns, in long seasons",
        _Recipe(partial(_seasons, rounds=10000, arms=4, changes=5, shortest=1200, gap=2.0), _normal),
        _Recipe(
            partial(_seasons, rounds=20000, arms=10, changes=7, shortest=1800, gap=1.5), partial(_normal, unit=4.0)
        ),
    ),
    *_pair(
        "common-wave",
        "normal, the level of all arms goes up and down, and the best arm changes once",
        _Recipe(
            partial(_changes, rounds=5000, arms=4, changes=1, shortest=2000, gap=1.5),
            partial(_on_a_wave, height=20.0, periods=3.0),
        ),
        _Recipe(
            partial(_changes, rounds=10000, arms=8, changes=1, shortest=4000, gap=2.0),
            partial(_on_a_wave, height=10.0, periods=5.0),
        ),
        by_period=True,
    ),
    *_pair(
        "trend",
        "normal, the level of all arms moves in one direction; the best arm stays the best",
        _Recipe(
            partial(_changes, rounds=4000, arms=4, changes=0, shortest=4000, gap=1.0), partial(_on_a_trend, rise=30.0)
        ),
        _Recipe(
            partial(_changes, rounds=9000, arms=10, changes=0, shortest=9000, gap=1.5),
            partial(_on_a_trend, rise=-100.0),
        ),
        by_period=True,
    ),
    *_pair(
        "inflation",
        "normal, the level and the scale of all arms grow, and the best arm changes twice",
        _Recipe(
            partial(_changes, rounds=6000, arms=4, changes=2, shortest=1500, gap=2.0),
            partial(_inflated, level=10.0, factor=100.0),
        ),
        _Recipe(
            partial(_changes, rounds=12000, arms=6, changes=2, shortest=3000, gap=3.0),
            partial(_inflated, level=5.0, factor=1000.0),
        ),
        by_period=True,
    ),
    *_pair(
        "small-swaps",
        "normal, two arms that are close swap a few times",
        _Recipe(partial(_changes, rounds=10000, arms=2, changes=3, shortest=1500, gap=0.8, spread=0.0), _normal),
        _Recipe(
            partial(_changes, rounds=18000, arms=2, changes=2, shortest=4000, gap=0.5, spread=0.0),
            partial(_normal, unit=9.0),
        ),
    ),
    *_pair(
        "coin-changes",
        "0 or 1, the best arm changes six times",
        _Recipe(
            partial(_changes, rounds=9000, arms=3, changes=6, shortest=600, gap=0.4, spread=0.5),
            partial(_coins, least=0.1),
        ),
        _Recipe(
            partial(_changes, rounds=16000, arms=5, changes=6, shortest=1000, gap=0.5, spread=0.2),
            partial(_coins, least=0.3),
        ),
    ),
    *_pair(
        "heavy-changes",
        "Student with 2.2 degrees of freedom, the best arm changes some times",
        _Recipe(partial(_changes, rounds=8000, arms=4, changes=3, shortest=1000, gap=3.0), _student),
        _Recipe(
            partial(_changes, rounds=16000, arms=8, changes=4, shortest=2000, gap=4.0), partial(_student, unit=0.1)
        ),
    ),
]
