"""Theorem W, on UMAB-W: the steps of its proof in docs/changing.md, W1 to W10.

An instance is a run of UMAB-S on the rounds in which it plays. Its steps W4 to W10 are S4 to S10 of Theorem R with
another constant, since bursts may take up to half of an arm's probability. All symbols are those of Theorem R, for the
instance that plays: s is the number of its round, ρ_s its floor. f_t are the floors with bursts, N_t is the number of
starts and B_t the number of rounds with bursts up to round t. A statement about all rounds of an instance is shown at
the last of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from umab.algorithms.watch import MOST_ATTENTION
from umab.theory.constants import SHARE_WITH_BURSTS, most_bursts, most_starts
from umab.theory.path import Precise
from umab.theory.statements import theorem_r
from umab.theory.statements.common import Sides, Steps, exploration_at_most_floor, only_where, plain, statement
from umab.theory.theorems import PROVED_IN, THEOREM_W
from umab.theory.watching import WatchedTrajectory

MOST_FLOORS = np.longdouble(11) / 24
"""The sum of the floors of all arms is at most this, if there are at least two arms."""

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_W], form="as proved", of=(THEOREM_W,))
"""Declares a statement of this proof."""


def _path(steps: Steps) -> WatchedTrajectory:
    path = steps.of
    if not isinstance(path, WatchedTrajectory):
        raise TypeError(f"the statements of Theorem W are about runs of UMAB-W, but got {path.policy.name}")
    return path


def _rounds(steps: Steps) -> Precise:
    """Return t = 1, …, T for every run."""
    return np.tile(np.arange(1, steps.horizon + 1, dtype=np.longdouble), (len(steps.of.arms), 1))


def _of_instances(steps: Steps, says: Callable[[Steps], Sides]) -> Sides:
    """Return what a statement about a run of UMAB-S says about every instance, in the rounds of the whole run."""
    path = _path(steps)
    sides = np.full((3, *path.arms.shape), np.nan, dtype=np.longdouble)
    for instance in path.instances:
        found = says(Steps(instance.path))
        rounds = instance.rounds if found.left.ndim > 1 else instance.rounds[-1:]
        for side, values in zip(sides, found, strict=True):
            side[instance.run, rounds] = values[0]
    return Sides(*sides)


def _most_that_jumps_cost(instance: Steps) -> Precise:
    return theorem_r.most_that_jumps_cost(instance, SHARE_WITH_BURSTS)


@_proved(id="W1, floor", text="ρ_s ≤ f_{t,k} ≤ p'_{t,k} for every arm")
def _no_arm_below_its_floor(steps: Steps) -> Sides:
    path = _path(steps)
    shares = [path.exploration[:, :-1, None] / path.floors, path.floors / path.drawn_from[:, :-1]]
    most = np.maximum(*shares).max(axis=2)
    return plain(most, 1 + 0 * most)


@_proved(id="W1, floors", text="Σ_k f_{t,k} ≤ 11/24, for at least two arms")
def _sum_of_the_floors(steps: Steps) -> Sides:
    total = _path(steps).floors.sum(axis=2)
    return only_where(np.full(total.shape, steps.of.n_arms > 1), plain(total, MOST_FLOORS + 0 * total))


@_proved(id="W2, share", text="p_{t,k} ≤ 2p'_{t,k} for every arm")
def _share_that_the_floors_cost(steps: Steps) -> Sides:
    return theorem_r.share_at_most(steps, SHARE_WITH_BURSTS)


@_proved(id="W2, rest", text=theorem_r.share_of_the_rest_that_the_floor_costs.text)
def _share_of_the_rest_that_the_floors_cost(steps: Steps) -> Sides:
    return theorem_r.share_of_the_rest_that_the_floor_costs.says(steps)


@_proved(
    id="W3, exploration",
    text="|⟨ℓ_t, p'_t − p_t⟩| ≤ ((n − 1)ρ_s + ⅓·1[burst])(max_k ℓ_{t,k} − min_k ℓ_{t,k}), and 0 for s = 1",
)
def _cost_of_exploration(steps: Steps) -> Sides:
    path = _path(steps)
    sides = exploration_at_most_floor(steps, np.longdouble(MOST_ATTENTION) * path.bursts)
    starts = np.zeros(path.arms.shape, dtype=np.bool_)
    for instance in path.instances:
        starts[instance.run, instance.rounds[0]] = True
    return sides._replace(right=np.where(starts, np.longdouble(0), sides.right))


@_proved(id="W3, bursts", text="B_t ≤ 8√(nt) + 1")
def _number_of_bursts(steps: Steps) -> Sides:
    path = _path(steps)
    return plain(np.cumsum(path.bursts, axis=1), most_bursts(path.n_arms, _rounds(steps)))


@_proved(id="W4, starts", text="N_t ≤ √(t/n) + 2")
def _number_of_starts(steps: Steps) -> Sides:
    path = _path(steps)
    return plain(1 + np.maximum.accumulate(path.instance[:, :-1], axis=1), most_starts(path.n_arms, _rounds(steps)))


@_proved(id="W4, step", text=theorem_r.step_at_most_stability.text)
def _step_at_most_stability(steps: Steps) -> Sides:
    return _of_instances(steps, theorem_r.step_at_most_stability.says)


@_proved(id="W4, FTRL", text="Σ⟨ℓ̂_t, p_t − u⟩ ≤ Ψ(u)/η + ΣM_t for every instance and u, with its last η")
def _regret_at_most_regulariser_and_stability(steps: Steps) -> Sides:
    return _of_instances(steps, theorem_r.regret_at_most_regulariser_and_stability.says)


@_proved(id="W5, small step", text=theorem_r.stability_of_a_small_step.text)
def _stability_of_a_small_step(steps: Steps) -> Sides:
    return _of_instances(steps, theorem_r.stability_of_a_small_step.says)


@_proved(id="W6, jump", text="for a jump, M_t ≤ |y'_t|/ρ_s")
def _stability_of_a_jump(steps: Steps) -> Sides:
    return _of_instances(steps, theorem_r.stability_of_a_jump.says)


@_proved(id="W7, growth", text="A² grows by at most (1 + 2κcn)w²_t, except for jumps")
def _growth_of_what_is_paid(steps: Steps) -> Sides:
    return _of_instances(steps, theorem_r.growth_of_what_is_paid.says)


@_proved(id="W8, jumps", text="Σ(M_t + G_t) over the jumps of an instance ≤ (4cn + 1/ρ)L⁻, with its last ρ")
def _cost_of_all_jumps(steps: Steps) -> Sides:
    return _of_instances(steps, lambda each: theorem_r.jumps_at_most(each, _most_that_jumps_cost(each)))


@_proved(
    id="W9, total",
    text="the A of an instance ≤ √((1 + 2κcn)Σw²_t) + (4cn + 1/ρ)L⁻, with the sum over its rounds but jumps",
)
def _all_that_is_paid(steps: Steps) -> Sides:
    return _of_instances(steps, lambda each: theorem_r.paid_at_most(each, _most_that_jumps_cost(each)))


@_proved(
    id="W10, clipping",
    text="Σ(1 − p'_{t,k_t})d_t over the rounds of an instance ≤ (2/(gK))L⁻, where g = 1/8 and K = 2",
)
def _all_that_is_clipped(steps: Steps) -> Sides:
    return _of_instances(steps, lambda each: theorem_r.clipped_at_most(each, SHARE_WITH_BURSTS))
