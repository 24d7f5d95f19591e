"""Simple optimists for tests, which lose all there is to lose against an adversary, bare and with a guard."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import umab
from umab import simplex
from umab.algorithms.limits import ANY, COUNT, POSITIVE_SUMS, UNIT, Limits
from umab.maths.level import within
from umab.maths.numerics import FINEST_UNIT, FLOOR, fit_unit
from umab.simplex import Vector


class OptimistState(NamedTuple):
    probabilities: Vector
    means: Vector  # measured from the first loss
    counts: Vector
    origin: float
    squares: float  # of losses, each minus the mean of its arm before it, in units
    unit: float
    round: float


class OptimistParameters(NamedTuple):
    bonus: float


@dataclass(frozen=True, kw_only=True)
class Optimist(umab.Policy):
    """Takes the arm with the smallest mean, minus a bonus of so many standard deviations of all; or the greedy one."""

    bonus: float = 0.0

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"optimist:bonus={self.bonus:g}"

    def init(self, n_arms: int) -> OptimistState:
        zeros = [0.0] * n_arms
        return OptimistState(simplex.uniform(n_arms), zeros, list(zeros), 0.0, 0.0, FINEST_UNIT, 1.0)

    def parameters_for(self, n_arms: int) -> OptimistParameters:
        return OptimistParameters(self.bonus)

    @property
    def limits(self) -> Mapping[str, Limits]:
        return {"means": ANY, "counts": COUNT, "origin": ANY, "squares": POSITIVE_SUMS, "unit": UNIT}

    @staticmethod
    def update(parameters: Any, state: OptimistState, arm: int, loss: float, probability: float) -> OptimistState:
        return learned(parameters, state, loss, arm)

    @staticmethod
    def credited(
        parameters: Any, state: OptimistState, account: int, loss: float, probability: float, arm: int
    ) -> OptimistState:
        return learned(parameters, state, loss, arm)


def learned(parameters: Any, state: OptimistState, loss: float, arm: int) -> OptimistState:
    squares, unit, t = state.squares, state.unit, state.round + 1.0
    origin = loss if state.round == 1.0 else state.origin
    if arm >= 0:
        off = within(within(loss - origin) - state.means[arm])
        unit, shrink = fit_unit(unit, off)
        squares *= shrink * shrink
        if state.counts[arm] > 0.0:
            squares += (off * unit) * (off * unit)
        state.counts[arm] += 1.0
        state.means[arm] += off / state.counts[arm]
    spread = math.sqrt(squares / state.round) / unit
    least, n_best = math.inf, 0.0
    for k in range(len(state.means)):
        value = optimistic(parameters.bonus, spread, state.means[k], state.counts[k], t)
        n_best = n_best + 1.0 if value == least else (1.0 if value < least else n_best)
        least = min(least, value)
    for k in range(len(state.means)):
        value = optimistic(parameters.bonus, spread, state.means[k], state.counts[k], t)
        state.probabilities[k] = 1.0 / n_best if value == least else FLOOR
    return OptimistState(state.probabilities, state.means, state.counts, origin, squares, unit, t)


def optimistic(bonus: float, spread: float, mean: float, count: float, t: float) -> float:
    if count == 0.0:
        return -math.inf
    return within(mean - bonus * spread * math.sqrt(2.0 * math.log(t) / count)) if bonus > 0.0 else mean


GREEDY = umab.Guarded(Optimist())
UCB = umab.Guarded(Optimist(bonus=0.55))
UNGUARDED = Optimist(bonus=0.55)
