"""The service group of the suite: worlds as services meet them, drawn anew for each trial, at several horizons.

A world is a law of tables. What lasts as long whatever the horizon, such as a stall, has its length in rounds; what
there is once, such as an outage, has its place as a part of the horizon. Kinds of both halves differ in arms, unit and
in what exactly happens; some kinds are in one half only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from umab.datasets.suite_parts import Entry, Half, Rng, drawn_losses, stream
from umab.tables.losses import Losses, Table

HORIZONS = (1_000, 10_000, 100_000)
"""The horizons of the contest on this group. `umab.datasets.suite` gives tables of the second one."""

Mask: TypeAlias = npt.NDArray[np.bool_]


class Drawn(NamedTuple):
    """Losses, and the mean that each had when it was drawn; both rounds × arms."""

    table: Table
    means: Table


@dataclass(frozen=True, kw_only=True)
class ServiceEntry(Entry):
    """A world of the service group."""

    kind: str
    """What the worlds of the same kind share."""
    n_arms: int
    law: Callable[[Rng, int], Drawn]

    def draw(self, n_rounds: int, seed: int) -> Drawn:
        """Return the table of this horizon and this seed, and its means."""
        return self.law(stream(f"{self.name} {n_rounds}", seed), n_rounds)


# Building blocks.


def _during(n_rounds: int, starts: npt.ArrayLike, lengths: npt.ArrayLike) -> Mask:
    """Return the rounds in which something is going on that starts here and lasts so long."""
    change = np.zeros(n_rounds + 1, dtype=np.int64)
    first = np.minimum(np.atleast_1d(np.asarray(starts)).astype(np.int64), n_rounds)
    last = np.minimum(first + np.maximum(1, np.atleast_1d(np.asarray(lengths)).astype(np.int64)), n_rounds)
    np.add.at(change, first, 1)
    np.add.at(change, last, -1)
    return np.asarray(np.cumsum(change)[:n_rounds] > 0)


def _now_and_then(rng: Rng, n_rounds: int, every: float, length: float) -> Mask:
    """Return rounds of episodes of this mean length, which start once in so many rounds on average."""
    n_starts = int(rng.poisson(n_rounds / every))
    return _during(n_rounds, rng.integers(0, n_rounds, n_starts), rng.exponential(length, n_starts))


def _by_turns(rng: Rng, n_rounds: int, length: float, least: int = 20) -> npt.NDArray[np.int64]:
    """Return the number of the episode of each round; episodes follow each other, with this mean length."""
    n_most = int(n_rounds / length * 2) + 50
    lengths = least + rng.exponential(max(length - least, 1.0), n_most)
    return np.searchsorted(np.cumsum(lengths), np.arange(n_rounds), side="right")


def _once(rng: Rng, n_rounds: int, n_arms: int, least: float, most: float) -> Table:
    """Return a row of sizes between two, evenly spread by their ratio and in random order, for all rounds."""
    sizes = rng.permutation(np.geomspace(least, most, n_arms)) * rng.uniform(0.95, 1.05, n_arms)
    return np.tile(sizes, (n_rounds, 1))


def _latencies(rng: Rng, means: Table, shape: float) -> Drawn:
    """Return gamma losses of these means; a small shape gives long tails."""
    return Drawn(means * rng.gamma(shape, 1.0 / shape, means.shape), means)


def _best(means: Table) -> int:
    return int(means[0].argmin())


# The worlds. Each is a law of tables for a generator and a number of rounds.


def _stalls(rng: Rng, n_rounds: int, arms: int, unit: float, every: float, length: float, factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 2.5 * unit)
    means[_now_and_then(rng, n_rounds, every, length), _best(means)] *= factor
    return _latencies(rng, means, 4.0)


def _stalls_at_all(rng: Rng, n_rounds: int, arms: int, unit: float, every: float, length: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 2.0 * unit)
    means[_now_and_then(rng, n_rounds, every, length)] *= 20.0
    return _latencies(rng, means, 3.0)


def _overload(rng: Rng, n_rounds: int, arms: int, unit: float, length: float, factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 1.3 * unit)
    turn = _by_turns(rng, n_rounds, length)
    where = rng.integers(0, arms, int(turn[-1]) + 1)[turn]
    means[np.arange(n_rounds), where] *= factor
    return _latencies(rng, means, 3.0)


def _outage(rng: Rng, n_rounds: int, arms: int, unit: float, lasts: tuple[float, float], factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 3.0 * unit)
    start = int(n_rounds * rng.uniform(0.2, 0.5))
    gone = _during(n_rounds, start, n_rounds * rng.uniform(*lasts))
    means[gone, _best(means)] *= factor
    return _latencies(rng, means, 5.0)


def _restarts(rng: Rng, n_rounds: int, arms: int, unit: float, every: int, factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 1.4 * unit)
    t, gap = np.arange(n_rounds), every // (6 * arms)
    for place, arm in enumerate(rng.permutation(arms)):
        since = (t - place * gap - every // 4) % every
        down = (since < gap) & (t >= place * gap + every // 4)
        means[:, arm] *= np.where(down, 1.0 + (factor - 1.0) * np.exp(-3.0 * since / gap), 1.0)
    return _latencies(rng, means, 4.0)


def _flapping(rng: Rng, n_rounds: int, arms: int, unit: float, up: float, down: float, factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 2.0 * unit)
    n_most = int(n_rounds / (up + down) * 2) + 50
    ends = np.cumsum(rng.exponential([up, down], (n_most, 2)).ravel())
    failing = np.searchsorted(ends, np.arange(n_rounds), side="right") % 2 == 1
    means[failing, _best(means)] *= factor
    return _latencies(rng, means, 4.0)


def _timeouts(rng: Rng, n_rounds: int, arms: int, typical: float, limit: float, most: float) -> Drawn:
    fast = _once(rng, n_rounds, arms, typical, 3.0 * typical)
    share = _once(rng, n_rounds, arms, most / 30.0, most)
    lost = rng.random((n_rounds, arms)) < share
    table = np.where(lost, limit, np.minimum(limit, fast * rng.lognormal(-0.5, 1.0, (n_rounds, arms))))
    return Drawn(table, share * limit + (1.0 - share) * fast)


def _daily_load(rng: Rng, n_rounds: int, arms: int, unit: float, days: float) -> Drawn:
    base, feels = _once(rng, n_rounds, arms, unit, 1.6 * unit), _once(rng, n_rounds, arms, 0.3, 3.0)
    clock = 2.0 * np.pi * (days * np.arange(n_rounds) / n_rounds + rng.random())
    return _latencies(rng, base * (1.0 + feels * (0.5 + 0.5 * np.sin(clock))[:, None]), 4.0)


def _drifts(rng: Rng, n_rounds: int, arms: int, unit: float, spread: float, shape: float) -> Drawn:
    steps = spread / np.sqrt(n_rounds) * rng.standard_normal((n_rounds, arms))
    return _latencies(rng, _once(rng, n_rounds, arms, unit, 1.5 * unit) * np.exp(np.cumsum(steps, axis=0)), shape)


def _cold_starts(rng: Rng, n_rounds: int, arms: int, unit: float, every: float, warm: float, factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 1.7 * unit)
    t = np.arange(n_rounds)
    for arm in range(arms):
        starts = np.unique(np.append(0, rng.integers(0, n_rounds, rng.poisson(n_rounds / every))))
        since = t - starts[np.searchsorted(starts, t, side="right") - 1]
        means[:, arm] *= 1.0 + (factor - 1.0) * np.exp(-since / warm)
    return _latencies(rng, means, 4.0)


def _plans(rng: Rng, n_rounds: int, arms: int, unit: float, orders: float, spread: float) -> Drawn:
    typical = _once(rng, n_rounds, arms, unit, unit * 10.0**orders)
    size = rng.lognormal(-0.5 * spread**2, spread, (n_rounds, 1))
    return Drawn(typical * size * rng.lognormal(-0.08, 0.4, (n_rounds, arms)), typical)


def _revenue(rng: Rng, n_rounds: int, arms: int, order: float, share: float, spread: float) -> Drawn:
    buys = _once(rng, n_rounds, arms, share, 1.8 * share)
    worth = rng.lognormal(np.log(order) - 0.5 * spread**2, spread, (n_rounds, arms))
    return Drawn(np.where(rng.random((n_rounds, arms)) < buys, -worth, 0.0), -order * buys)


def _returns(rng: Rng, n_rounds: int, arms: int, unit: float, edge: float, length: float) -> Drawn:
    turn = _by_turns(rng, n_rounds, length)
    sd = unit * rng.lognormal(0.0, 0.8, int(turn[-1]) + 1)[turn][:, None]
    together = 0.5 * rng.standard_normal((n_rounds, 1))
    means = np.tile(unit * edge * rng.permutation(np.linspace(-1.0, 1.0, arms)), (n_rounds, 1))
    return Drawn(means + sd * (together + rng.standard_t(4.0, (n_rounds, arms))), means)


def _canary(rng: Rng, n_rounds: int, arms: int, unit: float, worse: float) -> Drawn:
    means = np.full((n_rounds, arms), unit)
    means[:, rng.integers(arms)] *= 1.0 + worse
    return _latencies(rng, means, 2.0)


def _autoscaling(rng: Rng, n_rounds: int, arms: int, unit: float, length: float) -> Drawn:
    turn = _by_turns(rng, n_rounds, length)
    load = rng.uniform(0.3, 1.6, int(turn[-1]) + 1)[turn]
    since = np.arange(n_rounds) - np.searchsorted(turn, turn, side="left")
    base, lag = _once(rng, n_rounds, arms, unit, 1.8 * unit), _once(rng, n_rounds, arms, length / 15, length / 2)
    excess = np.maximum(0.0, load[:, None] - 0.8) * np.exp(-since[:, None] / lag)
    return _latencies(rng, base * (1.0 + 10.0 * excess), 4.0)


def _failures(rng: Rng, n_rounds: int, arms: int, every: float, length: float, cost: float) -> Drawn:
    fails = np.stack([_now_and_then(rng, n_rounds, every, length) for _ in range(arms)], axis=1)
    share = np.where(fails, 0.9, _once(rng, n_rounds, arms, 0.005, 0.1))
    slow = _once(rng, n_rounds, arms, 0.1, 0.2)
    failed = rng.random((n_rounds, arms)) < share
    table = np.where(failed, cost + 0.05 * slow, slow * rng.gamma(4.0, 0.25, (n_rounds, arms)))
    return Drawn(table, share * (cost + 0.05 * slow) + (1.0 - share) * slow)


def _needle(rng: Rng, n_rounds: int, arms: int, unit: float, better: float) -> Drawn:
    means = np.full((n_rounds, arms), unit)
    means[:, rng.integers(arms)] *= better
    return _latencies(rng, means, 3.0)


def _caches(rng: Rng, n_rounds: int, arms: int, unit: float, factor: float) -> Drawn:
    warm = _once(rng, n_rounds, arms, unit, 2.0 * unit)
    hurry = _once(rng, n_rounds, arms, n_rounds / 50, n_rounds / 6)
    cold = _once(rng, n_rounds, arms, 0.2, factor - 1.0)
    return _latencies(rng, warm * (1.0 + cold * np.exp(-np.arange(n_rounds)[:, None] / hurry)), 4.0)


def _quotas(rng: Rng, n_rounds: int, arms: int, unit: float, window: int, factor: float) -> Drawn:
    means = _once(rng, n_rounds, arms, unit, 2.0 * unit)
    place = (np.arange(n_rounds) + rng.integers(window)) % window
    for arm in np.argsort(means[0])[: arms // 2]:
        means[place >= rng.uniform(0.5, 0.9) * window, arm] *= factor
    return _latencies(rng, means, 6.0)


def _weeks(rng: Rng, n_rounds: int, arms: int, unit: float, week: int) -> Drawn:
    weekday, weekend = _once(rng, n_rounds, arms, unit, 2.0 * unit), _once(rng, n_rounds, arms, unit, 2.0 * unit)
    free = ((np.arange(n_rounds) + rng.integers(week)) % week >= week * 5 // 7)[:, None]
    return _latencies(rng, np.where(free, weekend, weekday), 4.0)


def _noises(rng: Rng, n_rounds: int, arms: int, unit: float, gap: float) -> Drawn:
    means = np.tile(unit * (10.0 + gap * rng.permutation(np.arange(arms))), (n_rounds, 1))
    sd = _once(rng, n_rounds, arms, 0.1 * unit, 5.0 * unit)
    return Drawn(means + sd * rng.standard_normal((n_rounds, arms)), means)


def _world(name: str, kind: str, half: Half, about: str, law: Callable[..., Drawn], **details: object) -> ServiceEntry:
    arms = details["arms"]
    assert isinstance(arms, int)
    drawn: Callable[[Rng, int], Drawn] = partial(law, **details)

    def losses(real: bool | None, seed: int) -> Losses:
        table = drawn(stream(f"{name} {HORIZONS[1]}", seed), HORIZONS[1]).table
        return drawn_losses(name, about, table, seed)

    return ServiceEntry(name, half, about, losses, "changing", kind=kind, n_arms=arms, law=drawn)


def _pair(
    kind: str, about: str, law: Callable[..., Drawn], development: dict[str, object], validation: dict[str, object]
) -> list[ServiceEntry]:
    """Return both worlds of a kind."""
    return [
        _world(kind, kind, "development", about, law, **development),
        _world(f"{kind}-again", kind, "validation", about, law, **validation),
    ]


def _only(half: Half, kind: str, about: str, law: Callable[..., Drawn], **details: object) -> ServiceEntry:
    """Return the world of a kind that is in one half only."""
    return _world(kind, kind, half, about, law, **details)


SERVICE: list[ServiceEntry] = [
    *_pair(
        "stalls",
        "latencies, the best option stalls now and then",
        _stalls,
        {"arms": 5, "unit": 20.0, "every": 900.0, "length": 30.0, "factor": 30.0},
        {"arms": 7, "unit": 0.8, "every": 2500.0, "length": 60.0, "factor": 12.0},
    ),
    *_pair(
        "stalls-at-all",
        "latencies, all options stall together now and then",
        _stalls_at_all,
        {"arms": 6, "unit": 10.0, "every": 1500.0, "length": 40.0},
        {"arms": 4, "unit": 300.0, "every": 500.0, "length": 15.0},
    ),
    *_pair(
        "overload",
        "latencies, an overload moves from one option to another",
        _overload,
        {"arms": 4, "unit": 40.0, "length": 700.0, "factor": 6.0},
        {"arms": 6, "unit": 5.0, "length": 1500.0, "factor": 15.0},
    ),
    *_pair(
        "one-outage",
        "latencies, the best option fails and comes back",
        _outage,
        {"arms": 5, "unit": 30.0, "lasts": (0.05, 0.15), "factor": 40.0},
        {"arms": 8, "unit": 0.05, "lasts": (0.02, 0.1), "factor": 150.0},
    ),
    *_pair(
        "failed-for-good",
        "latencies, the best option fails and stays away",
        _outage,
        {"arms": 5, "unit": 100.0, "lasts": (1.0, 1.0), "factor": 25.0},
        {"arms": 4, "unit": 7.0, "lasts": (1.0, 1.0), "factor": 300.0},
    ),
    *_pair(
        "rolling-restarts",
        "latencies, replicas restart one after the other",
        _restarts,
        {"arms": 6, "unit": 15.0, "every": 1500, "factor": 10.0},
        {"arms": 8, "unit": 120.0, "every": 4000, "factor": 30.0},
    ),
    *_pair(
        "flapping",
        "latencies, the best option fails again and again",
        _flapping,
        {"arms": 4, "unit": 25.0, "up": 250.0, "down": 40.0, "factor": 15.0},
        {"arms": 6, "unit": 2.0, "up": 600.0, "down": 150.0, "factor": 8.0},
    ),
    *_pair(
        "timeouts",
        "latencies in seconds, some requests end at a limit",
        _timeouts,
        {"arms": 6, "typical": 0.1, "limit": 30.0, "most": 0.03},
        {"arms": 4, "typical": 0.5, "limit": 10.0, "most": 0.08},
    ),
    *_pair(
        "daily-load",
        "latencies, a daily load that options bear differently",
        _daily_load,
        {"arms": 5, "unit": 50.0, "days": 4.0},
        {"arms": 8, "unit": 6.0, "days": 9.0},
    ),
    *_pair(
        "slow-drifts",
        "latencies, all options drift slowly",
        _drifts,
        {"arms": 5, "unit": 80.0, "spread": 0.6, "shape": 4.0},
        {"arms": 8, "unit": 3.0, "spread": 1.0, "shape": 2.0},
    ),
    *_pair(
        "cold-starts",
        "latencies, options start anew at times and are slow at first",
        _cold_starts,
        {"arms": 6, "unit": 12.0, "every": 1200.0, "warm": 60.0, "factor": 10.0},
        {"arms": 4, "unit": 90.0, "every": 4000.0, "warm": 250.0, "factor": 5.0},
    ),
    *_pair(
        "plans",
        "run times of query plans over orders of magnitude",
        _plans,
        {"arms": 6, "unit": 0.01, "orders": 5.0, "spread": 1.0},
        {"arms": 8, "unit": 1.0, "orders": 3.0, "spread": 1.5},
    ),
    *_pair(
        "sales-per-visit",
        "revenue, most visits bring nothing",
        _revenue,
        {"arms": 4, "order": 50.0, "share": 0.03, "spread": 0.6},
        {"arms": 6, "order": 8.0, "share": 0.08, "spread": 1.0},
    ),
    *_pair(
        "volatile-returns",
        "returns, their volatility changes",
        _returns,
        {"arms": 5, "unit": 0.01, "edge": 0.15, "length": 400.0},
        {"arms": 8, "unit": 2.0, "edge": 0.25, "length": 1500.0},
    ),
    _only("development", "canary", "latencies, one of three is slightly worse", _canary, arms=3, unit=40.0, worse=0.1),
    _only(
        "development",
        "autoscaling",
        "latencies, load comes in steps and options scale at different speeds",
        _autoscaling,
        arms=5,
        unit=30.0,
        length=800.0,
    ),
    _only(
        "development",
        "fast-failures",
        "costs of errors, which come fast and in bursts at one option or another",
        _failures,
        arms=5,
        every=4000.0,
        length=100.0,
        cost=2.0,
    ),
    _only("development", "one-in-fifty", "latencies, one of fifty is better", _needle, arms=50, unit=200.0, better=0.4),
    _only(
        "validation",
        "cache-warming",
        "latencies, caches warm at different speeds",
        _caches,
        arms=5,
        unit=9.0,
        factor=8.0,
    ),
    _only(
        "validation",
        "quota-steps",
        "costs, the cheaper options have quotas for each window",
        _quotas,
        arms=6,
        unit=1.0,
        window=1200,
        factor=4.0,
    ),
    _only(
        "validation",
        "weekly-seasons",
        "latencies, the best option differs at weekends",
        _weeks,
        arms=5,
        unit=60.0,
        week=1400,
    ),
    _only(
        "validation", "unequal-noise", "normal costs, options with different noise", _noises, arms=6, unit=0.5, gap=0.4
    ),
]
