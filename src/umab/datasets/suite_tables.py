"""A suite of loss tables of different kinds, to see how a policy does in general.

It has two halves. The development half is for making and tuning policies; claims about a policy are then measured on
the validation half. Both have the same kinds of losses, in tables that differ in everything else: arms, rounds, scale,
seed, and what exactly happens. Every table is seeded, and names, order and contents are fixed: with a changed table it
would be another suite.

This is the general group. changing_tables.py has a second one, of tables in which the law of the losses changes,
heavy_tables.py a third, of losses without a variance, and service_worlds.py a fourth, of what services meet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import Literal, TypeAlias, get_args, overload

import numpy as np

from umab._support import checks
from umab.algorithms.exp3 import EXP3
from umab.datasets.changing_tables import CHANGING, ChangingEntry
from umab.datasets.heavy_tables import HEAVY, HeavyEntry
from umab.datasets.sales import other_stores, sales
from umab.datasets.selection import selection
from umab.datasets.service_worlds import SERVICE, ServiceEntry
from umab.datasets.stocks import other_stocks, stocks
from umab.datasets.suite_parts import Entry, Half, Rng, World, by_turns, drawn_losses, normal, stream, walks, waves
from umab.datasets.synthetic import bad_losses, stochastic
from umab.maths.simplex import draw, likeliest
from umab.tables.losses import Losses, Table

__all__ = ["Entry", "Group", "Half", "entries", "suite"]

Group: TypeAlias = Literal["general", "changing", "heavy", "service"]


def suite(
    half: Half | None = None,
    *,
    group: Group = "general",
    names: Iterable[str] | None = None,
    seed: int = 0,
    real: bool | None = None,
) -> dict[str, Losses]:
    """Return the loss tables of the suite by name, from one half or from both.

    Parameters
    ----------
    half
        ``"development"``, ``"validation"``, or None for both.
    group
        ``"general"`` for losses of many kinds; ``"changing"`` for tables in which the best arm or the level of all
        arms changes, in many ways; ``"heavy"`` for losses without a variance; ``"service"`` for what services meet,
        such as outages and stalls, over 10,000 rounds.
    names
        The tables to make, by default all. What the others need may be missing.
    seed
        0 for the suite itself. With another number, random tables are drawn anew: the same kinds, other losses.
        Tables that are defined, measured or taken from a public table as a whole stay as they are.
    real
        As in `umab.datasets.load`, for the tables of stocks and sales.

    Examples
    --------
    >>> import umab.datasets
    >>> umab.datasets.suite(names=["outliers"])["outliers"]
    Losses of 3000 rounds, 6 arms, from -267.26 to 248.44
    """
    known = {entry.name: entry for entry in entries(half, group=group)}
    wanted = list(known if names is None else names)
    for name in wanted:
        checks.one_of("a name", name, tuple(known))
    seed = checks.whole("seed", seed, least=0)
    return {name: known[name].losses(real, seed) for name in wanted}


@overload
def entries(half: Half | None = None, group: Literal["general"] = "general") -> list[Entry]: ...


@overload
def entries(half: Half | None = None, *, group: Literal["changing"]) -> list[ChangingEntry]: ...


@overload
def entries(half: Half | None = None, *, group: Literal["heavy"]) -> list[HeavyEntry]: ...


@overload
def entries(half: Half | None = None, *, group: Literal["service"]) -> list[ServiceEntry]: ...


@overload
def entries(half: Half | None = None, *, group: Group) -> Sequence[Entry]: ...


def entries(half: Half | None = None, group: Group = "general") -> Sequence[Entry]:
    """Return the entries of a group of the suite, without making the tables."""
    if half is not None:
        checks.one_of("half", half, get_args(Half))
    checks.one_of("group", group, get_args(Group))
    known: dict[Group, Sequence[Entry]] = {
        "general": _GENERAL,
        "changing": CHANGING,
        "heavy": HEAVY,
        "service": SERVICE,
    }
    return [entry for entry in known[group] if half in (None, entry.half)]


def _drawn(name: str, half: Half, about: str, make: Callable[[Rng], Table], world: World = "stationary") -> Entry:
    """Return an entry whose table is drawn, from a stream of its own."""

    def losses(real: bool | None, seed: int) -> Losses:
        return drawn_losses(name, about, make(stream(name, seed)), seed)

    return Entry(name, half, about, losses, world)


def _run_times(name: str, half: Half, about: str, file: str, world: World = "stationary") -> Entry:
    """Return an entry whose table was measured once and comes with this package."""

    def losses(real: bool | None, seed: int) -> Losses:
        folder = resources.files(__package__) / "run_times"
        lines = (folder / file).read_text(encoding="utf-8").splitlines()
        measured = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        return Losses.of(
            np.loadtxt(lines[1:], delimiter=","),
            arms=lines[0].split(","),
            source=f"run times in microseconds: {measured['tables'][file]}",
            provenance={"dataset": "suite", "stand_in": False, "parameters": {"name": name}, "measured": measured},
        )

    return Entry(name, half, about, losses, world)


# Building blocks.


def _line(n_arms: int, gap: float) -> Table:
    """Return means that grow from 0 to `gap`."""
    return np.linspace(0.0, gap, n_arms)


def _against_exp3(rng: Rng, n_rounds: int, n_arms: int, low: float, high: float) -> Table:
    """Return losses made against a run of EXP3: its likeliest arm costs `high`, the others `low`."""
    policy = EXP3(low=low, high=high, horizon=n_rounds)
    parameters, state = policy.parameters_for(n_arms), policy.init(n_arms)
    table = np.full((n_rounds, n_arms), low)
    for t, uniform in enumerate(rng.random(n_rounds).tolist()):
        table[t, likeliest(state.probabilities)] = high
        arm = draw(state.probabilities, uniform)
        state = policy.update(parameters, state, arm, float(table[t, arm]), state.probabilities[arm])
    return table


_DEV: Half = "development"
_VAL: Half = "validation"

_GENERAL: list[Entry] = [
    # The paper's.
    Entry("stocks", _DEV, "ten stocks, the paper's", lambda real, seed: stocks(real=real), "changing"),
    Entry(
        "sales", _VAL, "departments of ten stores, the paper's", lambda real, seed: sales(seed=3 + 10 * seed, real=real)
    ),
    Entry(
        "sales-in-order",
        _DEV,
        "departments of ten stores, one after the other",
        lambda real, seed: sales("figure", real=real),
        "changing",
    ),
    Entry(
        "selection",
        _DEV,
        "ten learning rates on one stream, the paper's",
        lambda real, seed: selection(seed=3 + 10 * seed),
        "changing",
    ),
    Entry(
        "selection-passes",
        _VAL,
        "ten learning rates by passes, some diverge",
        lambda real, seed: selection("figure", seed=4 + 10 * seed),
        "changing",
    ),
    Entry(
        "bad-losses",
        _DEV,
        "the arm that looks worse becomes the better one, the paper's",
        lambda real, seed: bad_losses(),
        "changing",
    ),
    Entry(
        "stochastic",
        _DEV,
        "normal, two arms, means 1 and 0, the paper's",
        lambda real, seed: stochastic("printed", seed=2 + 10 * seed),
    ),
    Entry(
        "stochastic-figure",
        _VAL,
        "normal, two arms, means -1 and 0, the paper's",
        lambda real, seed: stochastic("figure", seed=5 + 10 * seed),
    ),
    # Other stocks and stores.
    Entry(
        "other-stocks",
        _DEV,
        "10 other stocks",
        lambda real, seed: other_stocks(10, seed=1 + 10 * seed, real=real),
        "changing",
    ),
    Entry(
        "many-stocks",
        _VAL,
        "40 other stocks",
        lambda real, seed: other_stocks(40, seed=2 + 10 * seed, real=real),
        "changing",
    ),
    Entry(
        "other-stores",
        _DEV,
        "departments of stores 11 to 18",
        lambda real, seed: other_stores(range(11, 19), seed=1 + 10 * seed, real=real),
    ),
    Entry(
        "many-stores",
        _VAL,
        "departments of stores 19 to 45",
        lambda real, seed: other_stores(range(19, 46), seed=2 + 10 * seed, real=real),
    ),
    # Run times.
    _run_times("colouring", _DEV, "run times of six searches for a colouring", "colouring.csv"),
    _run_times("sorting", _VAL, "run times of six sorting programs, the input changes", "sorting.csv", "changing"),
    # Stochastic.
    _drawn("normal", _DEV, "normal, 10 arms", lambda rng: normal(rng, 2000, _line(10, 1.0))),
    _drawn("coins", _VAL, "0 or 1, 5 arms", lambda rng: (rng.random((3000, 5)) < 0.4 + _line(5, 0.3)).astype(float)),
    _drawn("long", _DEV, "normal, 5 arms, many rounds", lambda rng: normal(rng, 20000, _line(5, 0.5))),
    _drawn(
        "long-coins",
        _VAL,
        "0 or 1, 8 arms, many rounds",
        lambda rng: (rng.random((20000, 8)) < 0.1 + _line(8, 0.2)).astype(float),
    ),
    _drawn("short", _DEV, "normal, 4 arms, 100 rounds", lambda rng: normal(rng, 100, _line(4, 3.0))),
    _drawn(
        "short-waits",
        _VAL,
        "exponential, 5 arms, 150 rounds",
        lambda rng: rng.exponential(1.0 + _line(5, 4.0), (150, 5)),
    ),
    # Few arms, many arms.
    _drawn("two-close", _DEV, "normal, two arms that are close", lambda rng: normal(rng, 5000, [0.0, 0.2])),
    _drawn(
        "two-gains", _VAL, "two arms with gains, uniform", lambda rng: -rng.random((4000, 2)) * np.array([1.0, 0.8])
    ),
    _drawn(
        "two-hundred", _DEV, "normal, 200 arms", lambda rng: normal(rng, 5000, rng.permutation(_line(200, 2.0)), 0.5)
    ),
    _drawn(
        "one-in-two-hundred",
        _VAL,
        "exponential, one of 200 arms is better",
        lambda rng: rng.exponential([0.3] + [1.0] * 199, (8000, 200)),
    ),
    # Heavy tails and outliers.
    _drawn(
        "heavy",
        _DEV,
        "Student with 2 degrees of freedom, 8 arms",
        lambda rng: _line(8, 1.5) + rng.standard_t(2.0, (3000, 8)),
    ),
    _drawn(
        "pareto",
        _VAL,
        "Pareto with index 1.7, 5 arms",
        lambda rng: (1.0 + _line(5, 1.0)) * (1.0 + rng.pareto(1.7, (3000, 5))),
    ),
    _drawn(
        "outliers",
        _DEV,
        "normal, one loss in 500 is 100 times as large",
        lambda rng: normal(rng, 3000, _line(6, 1.5)) * np.where(rng.random((3000, 6)) < 0.002, 100.0, 1.0),
    ),
    _drawn(
        "spikes",
        _VAL,
        "costs, one in 300 is 50 times as large",
        lambda rng: (
            rng.gamma(2.0, 0.5 + _line(6, 0.5), (3000, 6)) * np.where(rng.random((3000, 6)) < 1 / 300, 50.0, 1.0)
        ),
    ),
    # The best arm changes, or drifts.
    _drawn(
        "switch",
        _DEV,
        "normal, the best of 5 arms changes three times",
        lambda rng: normal(
            rng,
            3000,
            by_turns(3000, [0, 700, 1400, 2400], [[0, 1, 1, 1, 1], [1, 1, 0, 1, 1], [0, 1, 1, 1, 1], [1, 0, 1, 1, 1]]),
            0.5,
        ),
        "changing",
    ),
    _drawn(
        "late-turn",
        _VAL,
        "normal, one arm becomes far better at 40% of the rounds",
        lambda rng: normal(rng, 2500, by_turns(2500, [0, 1000], [[0.5, 0, 0.5, 0.5], [-1.0, 0, 0.5, 0.5]]), 0.5),
        "changing",
    ),
    _drawn(
        "walks",
        _DEV,
        "means walk at random, 6 arms",
        lambda rng: walks(rng, 4000, 6, 0.05) + normal(rng, 4000, [0.0] * 6),
        "changing",
    ),
    _drawn(
        "waves",
        _VAL,
        "means go up and down, 4 arms",
        lambda rng: normal(rng, 4000, waves(4000, 4, 2.5) + _line(4, 0.6), 0.5),
        "changing",
    ),
    # Sparse losses.
    _drawn(
        "sparse",
        _DEV,
        "losses are 0 but for some, 20 arms",
        lambda rng: np.where(rng.random((4000, 20)) < 0.01 + _line(20, 0.08), rng.exponential(1.0, (4000, 20)), 0.0),
    ),
    _drawn(
        "sparse-gains",
        _VAL,
        "gains are 0 but for some, 10 arms",
        lambda rng: np.where(rng.random((5000, 10)) < 0.06 - _line(10, 0.05), -rng.exponential(2.0, (5000, 10)), 0.0),
    ),
    # Arms that are equal.
    _drawn("equal", _DEV, "all arms cost the same", lambda rng: np.repeat(normal(rng, 1000, [0.0]), 5, axis=1)),
    _drawn("alike", _VAL, "normal, all arms alike", lambda rng: normal(rng, 2000, [0.0] * 8)),
    # Offset and scale.
    _drawn("offset", _DEV, "normal, a million is added", lambda rng: 1e6 + normal(rng, 2000, _line(5, 1.0))),
    _drawn(
        "deep-offset",
        _VAL,
        "costs, 1e9 is taken away",
        lambda rng: -1e9 + rng.gamma(2.0, 10.0 + _line(8, 10.0), (2500, 8)),
    ),
    _drawn("tiny", _DEV, "normal, of the size of 1e-6", lambda rng: 1e-6 * normal(rng, 2000, _line(5, 1.0))),
    _drawn(
        "tinier",
        _VAL,
        "costs of the size of 1e-12",
        lambda rng: 1e-12 * rng.exponential(1.0 + _line(6, 1.0), (2500, 6)),
    ),
    _drawn(
        "growing",
        _DEV,
        "normal, the scale grows a thousandfold",
        lambda rng: normal(rng, 2500, _line(5, 1.0)) * np.geomspace(1.0, 1000.0, 2500)[:, None],
    ),
    _drawn(
        "jump",
        _VAL,
        "normal, the scale and the offset jump twice",
        lambda rng: (
            normal(rng, 3000, _line(6, 1.5)) * by_turns(3000, [0, 1000, 2000], [[1.0], [30.0], [0.5]])
            + by_turns(3000, [0, 1000, 2000], [[0.0], [-50.0], [10.0]])
        ),
    ),
    # Adversarial.
    _drawn(
        "against-exp3",
        _DEV,
        "made against a run of EXP3, 10 arms, 0 or 1",
        lambda rng: _against_exp3(rng, 3000, 10, 0.0, 1.0),
        "changing",
    ),
    _drawn(
        "against-exp3-gains",
        _VAL,
        "made against a run of EXP3, 4 arms, -1 or 1, one arm is a little better",
        lambda rng: _against_exp3(rng, 3000, 4, -1.0, 1.0) - np.array([0.3, 0.0, 0.0, 0.0]),
        "changing",
    ),
    _drawn(
        "lure",
        _DEV,
        "3 arms, one lures for a third of the rounds",
        lambda rng: normal(rng, 2400, by_turns(2400, [0, 800], [[0.5, 0.0, 0.6], [0.0, 1.0, 0.6]]), 0.1),
        "changing",
    ),
    _drawn(
        "lure-down",
        _VAL,
        "5 arms, one lures and then costs most",
        lambda rng: normal(
            rng, 2000, by_turns(2000, [0, 600], [[0.2, 0.0, 0.4, 0.6, 0.8], [0.2, 20.0, 0.4, 0.6, 0.8]]), 0.2
        ),
        "changing",
    ),
]
