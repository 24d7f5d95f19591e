"""Policies with a guard, for tests: two simple optimists, which lose all there is to lose against an adversary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from umab import simplex
from umab.algorithms.guard import Guard, Guarded, GuardParameters, guard_parameters, judged, mixed, new_guard
from umab.algorithms.limits import ANY, COUNT, POSITIVE_SUMS, UNIT, Limits
from umab.maths.level import within
from umab.maths.numerics import FINEST_UNIT, fit_unit
from umab.simplex import Vector


class OptimistState(NamedTuple):
    probabilities: Vector
    guard: Guard
    means: Vector  # measured from the first loss
    counts: Vector
    squares: float  # of losses, each minus the mean of its arm before it, in units
    unit: float


class OptimistParameters(NamedTuple):
    guard: GuardParameters
    bonus: float


@dataclass(frozen=True, kw_only=True)
class Optimist(Guarded):
    """Takes the arm with the smallest mean, minus a bonus of so many standard deviations of all; or the greedy one."""

    bonus: float = 0.0
    guarded: bool = True

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"optimist:bonus={self.bonus:g},guarded={self.guarded}"

    def init(self, n_arms: int) -> OptimistState:
        guard = new_guard(guard_parameters(n_arms, self.guarded), n_arms)
        zeros = [0.0] * n_arms
        return OptimistState(simplex.uniform(n_arms), guard, zeros, list(zeros), 0.0, FINEST_UNIT)

    def parameters_for(self, n_arms: int) -> OptimistParameters:
        return OptimistParameters(guard_parameters(n_arms, self.guarded), self.bonus)

    @property
    def limits(self) -> Mapping[str, Limits]:
        own = {"means": ANY, "counts": COUNT, "squares": POSITIVE_SUMS, "unit": UNIT}
        return {**super().limits, **own}

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: OptimistState, arm: int, loss: float, probability: float, ticket: Any
    ) -> OptimistState:
        return learned(parameters, state, arm, loss, probability, arm, ticket)

    @staticmethod
    def credited(
        parameters: Any, state: OptimistState, account: int, loss: float, probability: float, arm: int, ticket: Any
    ) -> OptimistState:
        return learned(parameters, state, account, loss, probability, arm, ticket)


def learned(
    parameters: Any, state: OptimistState, account: int, loss: float, probability: float, arm: int, ticket: Any
) -> OptimistState:
    guard = judged(parameters.guard, state.guard, state.probabilities, account, loss, probability, ticket)
    squares, unit = state.squares, state.unit
    if arm >= 0:
        off = within(within(loss - guard.origin) - state.means[arm])
        unit, shrink = fit_unit(unit, off)
        squares *= shrink * shrink
        if state.counts[arm] > 0.0:
            squares += (off * unit) * (off * unit)
        state.counts[arm] += 1.0
        state.means[arm] += off / state.counts[arm]
    spread = math.sqrt(squares / max(guard.n_losses, 1.0)) / unit
    least, n_best = math.inf, 0.0
    for k in range(len(state.means)):
        value = optimistic(parameters.bonus, spread, state.means[k], state.counts[k], guard.round)
        n_best = n_best + 1.0 if value == least else (1.0 if value < least else n_best)
        least = min(least, value)
    for k in range(len(state.means)):
        value = optimistic(parameters.bonus, spread, state.means[k], state.counts[k], guard.round)
        guard.chosen[k] = 1.0 / n_best if value == least else 0.0
    mixed(guard, state.probabilities)
    return OptimistState(state.probabilities, guard, state.means, state.counts, squares, unit)


def optimistic(bonus: float, spread: float, mean: float, count: float, t: float) -> float:
    if count == 0.0:
        return -math.inf
    return within(mean - bonus * spread * math.sqrt(2.0 * math.log(t) / count)) if bonus > 0.0 else mean


GREEDY = Optimist()
UCB = Optimist(bonus=0.55)
UNGUARDED = Optimist(bonus=0.55, guarded=False)
