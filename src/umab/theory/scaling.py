"""How regret grows with rounds, arms, the scale of the losses and their delay: fits on log-log axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._support.extras import extra
from umab._support.progress import Progress
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.engine.simulate import simulate
from umab.results.regret import mean_and_sd
from umab.tables.losses import Losses

Over = Literal["rounds", "arms", "scale", "delay"]
Family = Literal["hard", "turn", "small"]

LEVEL = 0.99
"""The level of the intervals of exponents."""

_VALUES: dict[Over, tuple[float, ...]] = {
    "rounds": (1000, 2000, 4000, 8000, 16000, 32000),
    "arms": (2, 4, 8, 16, 32, 64),
    "scale": tuple(2.0**power for power in (-20, -10, 0, 10, 20)),
    "delay": (10, 20, 40, 80, 160, 320),
}
_USUAL = {"rounds": 4000, "arms": 5, "scale": 1.0, "delay": 0}

_GAPS = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
"""By how much one arm is better, in the hard family."""

Table = npt.NDArray[np.float64]


class Point(NamedTuple):
    """The regret at one value of the quantity that varies."""

    value: float
    mean: float
    se: float


class Scaling(NamedTuple):
    """Regret ∝ value^exponent, as far as the points show it."""

    policy: str
    over: Over
    family: Family
    points: list[Point]
    exponent: float
    low: float
    high: float
    """The interval of the exponent, at `LEVEL`."""


def scaling(
    policy: Policy | str,
    *,
    over: Over = "rounds",
    family: Family = "hard",
    values: Sequence[float] | None = None,
    n_tables: int = 20,
    n_trials: int = 5,
    seed: int = 0,
    progress: bool | None = None,
) -> Scaling:
    """Fit the exponent with which the expected regret of a policy grows.

    Parameters
    ----------
    policy
        A policy or its name.
    over
        What varies: the number of ``"rounds"`` or ``"arms"``, the ``"scale"`` of the losses, or their ``"delay"``,
        where every loss arrives so many rounds late. Over delays, the exponent is that of the whole regret, and not
        only of what the delay adds to it; small delays add little.
    family
        The losses. ``"hard"``: 0 or 1 at random, with one arm better by a gap. Of six gaps, the one with the largest
        mean regret counts, so that neither a gap that is found at once nor one that does not matter hides what a policy
        is worth. The regret of a policy that does not learn is linear there. ``"turn"``: two arms, (1, 0) for half the
        rounds and (−10, 0) from then on, so that a policy that has stopped trying the first arm misses the turn.
        ``"small"``: two arms, always (1e-8, 0).
    values
        The values of the quantity that varies; there is a default for each quantity.
    n_tables
        How many tables for each value. Standard errors are of means over tables, so they include the variation of both
        tables and trials.
    n_trials
        How many trials on each table.
    seed
        The seed of the tables and trials.
    progress
        As for `umab.simulate`.

    Returns
    -------
    Scaling
        The points and the exponent, by least squares on logarithms, weighted by the errors of the points. Its interval
        comes from a t-distribution, and is wider if the points scatter more than their errors allow.
    """
    checks.one_of("over", over, get_args(Over))
    checks.one_of("family", family, get_args(Family))
    which = as_policy(policy)
    chosen = _VALUES[over] if values is None else tuple(values)
    if len(chosen) < 3 or min(chosen) <= 0:
        raise ValueError(f"values must be at least 3 numbers above 0, but got values={list(chosen)}")
    if over == "arms" and family != "hard":
        raise ValueError(
            f"family must be 'hard' for over='arms', as the others have two arms, but got family={family!r}"
        )
    with extra("data", "the interval of an exponent"):  # before the work rather than after it
        import scipy.special  # noqa: F401
    kinds = _FAMILIES[family]
    points = []
    n_rounds = sum(int({**_USUAL, over: value}["rounds"]) for value in chosen)
    work = n_rounds * len(kinds) * n_tables * n_trials
    with Progress(work, f"{which.name} over {over}", progress, unit="rounds") as bar:
        for value in chosen:
            usual = {**_USUAL, over: value}
            shape = int(usual["rounds"]), int(usual["arms"])
            worst = Point(float(value), -math.inf, math.nan)
            for kind, make in enumerate(kinds):
                finals = []
                for at in range(n_tables):
                    rng = np.random.default_rng([seed, at, kind, *shape])
                    result = simulate(
                        which,
                        Losses.of(usual["scale"] * make(rng, *shape)),
                        n_trials=n_trials,
                        delays=int(usual["delay"]) or None,
                        seed=int(rng.integers(2**63)),
                        expected=True,
                        keep="summary",
                        progress=bar,
                    )
                    finals.append(float(result.mean[-1]))
                mean, sd = mean_and_sd(np.array(finals))
                worst = max(worst, Point(float(value), mean, sd / math.sqrt(n_tables)), key=lambda point: point.mean)
            points.append(worst)
    return Scaling(which.name, over, family, points, *_exponent(points))


def _hard(gap: float) -> Callable[[np.random.Generator, int, int], Table]:
    def make(rng: np.random.Generator, n_rounds: int, n_arms: int) -> Table:
        chances = np.full(n_arms, 0.5)
        chances[rng.integers(n_arms)] -= gap
        return (rng.random((n_rounds, n_arms)) < chances).astype(np.float64)

    return make


def _turn(rng: np.random.Generator, n_rounds: int, n_arms: int) -> Table:
    table = np.zeros((n_rounds, 2))
    table[: n_rounds // 2, 0], table[n_rounds // 2 :, 0] = 1.0, -10.0
    return table


def _small(rng: np.random.Generator, n_rounds: int, n_arms: int) -> Table:
    table = np.zeros((n_rounds, 2))
    table[:, 0] = 1e-8
    return table


_FAMILIES: dict[Family, tuple[Callable[[np.random.Generator, int, int], Table], ...]] = {
    "hard": tuple(map(_hard, _GAPS)),
    "turn": (_turn,),
    "small": (_small,),
}


def _exponent(points: Sequence[Point]) -> tuple[float, float, float]:
    """Return the slope of log mean against log value, and the ends of its interval."""
    from scipy.special import stdtrit

    if any(not point.mean > 0.0 for point in points):
        return math.nan, math.nan, math.nan  # a regret that is not above 0 has no logarithm
    x = np.log([point.value for point in points])
    y = np.log([point.mean for point in points])
    # Points without any error still have a rounding error.
    errors = np.array([max(point.se / point.mean, 1e-12) for point in points])
    weights = errors**-2
    centre = (weights * x).sum() / weights.sum()
    spread = (weights * (x - centre) ** 2).sum()
    slope = float((weights * (x - centre) * y).sum() / spread)
    level = (weights * (y - slope * x)).sum() / weights.sum()
    freedom = len(points) - 2
    scatter = float((weights * (y - level - slope * x) ** 2).sum() / freedom)
    half = float(stdtrit(freedom, 0.5 + 0.5 * LEVEL)) * math.sqrt(max(1.0, scatter) / spread)
    return slope, slope - half, slope + half
