"""Theorem G, on policies with a guard: the steps of its proof in docs/guard.md, G1 to G13.

The shadow is a run of UMAB-S on the losses z_t = r_t(ℓ_t − b_t), which draws from π_t; its steps are those of Theorem
R. γ_t is its share, γ° the least one, F_t is 1/ρ_t at the least share, and L⁻ the size of the most negative ℓ_t − b_t
that was seen. B_t is the balance, and V_t the sum of the squares of its changes x_t.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.algorithms.guard import LEAST_SHARE
from umab.algorithms.umab_s import UMABS
from umab.theory.constants import BALANCE, clipping, clipping_of_shadow, jumps_of_shadow, least_floor
from umab.theory.guarding import GuardedTrajectory
from umab.theory.path import Precise
from umab.theory.statements import theorem_r
from umab.theory.statements.common import Sides, Steps, only_where, plain, statement
from umab.theory.theorems import PROVED_IN, THEOREM_G

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_G], form="as proved", of=(THEOREM_G,))
"""Declares a statement of this proof."""


def _path(steps: Steps) -> GuardedTrajectory:
    path = steps.of
    if not isinstance(path, GuardedTrajectory):
        raise TypeError(
            f"the statements of Theorem G are about runs of policies with a guard, but got {path.policy.name}"
        )
    return path


def _shadow(steps: Steps) -> Steps:
    return Steps(_path(steps).shadow)


def _share(steps: Steps) -> Precise:
    """Return γ_t, runs × T."""
    return _path(steps).share[:, :-1]


def _most_negative(steps: Steps) -> Precise:
    """Return L⁻ of each run."""
    return np.asarray(np.maximum(0, -steps.of.seen).max(axis=1))


def _most_that_jumps_cost(steps: Steps) -> Precise:
    return np.asarray(jumps_of_shadow(UMABS(), steps.of.n_arms, steps.horizon) * _most_negative(steps))


def _squares(steps: Steps) -> Precise:
    """Return the largest square of ℓ_{t,k} − b_t of each round."""
    return np.asarray((steps.of.losses**2).max(axis=2))


def _spread(steps: Steps) -> Precise:
    """Return X_t = Σ_k p'_{t,k}(1 − r_{t,k})²."""
    path = _path(steps)
    return np.asarray((path.drawn_from[:, :-1] * (1 - path.weights) ** 2).sum(axis=2))


def _clipped(steps: Steps) -> Precise:
    """Return (1 − π_{t,k_t})d_t."""
    path = _path(steps)
    shadow = path.shadow
    return np.asarray((1 - path.of_arm(path.played)) * (shadow.clipped - shadow.seen))


@_proved(id="G1, share", text="γ° ≤ γ_t and r_{t,k} ≤ 1/γ_t for every arm")
def _share_of_the_shadow(steps: Steps) -> Sides:
    most = _path(steps).weights.max(axis=2) * _share(steps)
    return plain(np.maximum(most, LEAST_SHARE / _share(steps)), 1 + 0 * most)


@_proved(id="G2, spread", text="X_t ≤ 1/γ_t − 1")
def _spread_of_the_weights(steps: Steps) -> Sides:
    inverse = 1 / _share(steps)
    return Sides(_spread(steps), inverse - 1, inverse)


@_proved(id="G3, floor", text="ρ_t ≤ π_{t,k} for every arm")
def _no_arm_below_the_floor(steps: Steps) -> Sides:
    path = _path(steps)
    return plain(path.exploration[:, :-1], path.played[:, :-1].min(axis=2))


@_proved(id="G3, share", text="p_{t,k} ≤ (4/3)π_{t,k} for every arm")
def _share_that_the_floor_costs(steps: Steps) -> Sides:
    return theorem_r.share_that_the_floor_costs.says(_shadow(steps))


@_proved(id="G3, rest", text="1 − p_{t,k} ≤ (6/5)(1 − π_{t,k}) for every arm")
def _share_of_the_rest_that_the_floor_costs(steps: Steps) -> Sides:
    return theorem_r.share_of_the_rest_that_the_floor_costs.says(_shadow(steps))


@_proved(
    id="G3, exploration",
    text="|⟨ℓ_t, π_t − p_t⟩| ≤ ((n − 1)/F_t)(max_k ℓ_{t,k} − min_k ℓ_{t,k}), and 0 for t = 1",
)
def _cost_of_exploration(steps: Steps) -> Sides:
    path = _path(steps)
    p, played = path.p[:, :-1], path.played[:, :-1]
    floors = least_floor(path.n_arms, np.arange(1, path.n_rounds + 1))
    floors[0] = 0
    spread = path.losses.max(axis=2) - path.losses.min(axis=2)
    size = (np.abs(path.losses) * (played + p)).sum(axis=2)
    return Sides(np.abs((path.losses * (played - p)).sum(axis=2)), (path.n_arms - 1) * floors * spread, size)


@_proved(id="G4, step", text="what FTRL gains by knowing ẑ_t is at most M_t")
def _step_at_most_stability(steps: Steps) -> Sides:
    return theorem_r.step_at_most_stability.says(_shadow(steps))


@_proved(id="G4, FTRL", text="Σ⟨ẑ_t, p_t − u⟩ ≤ Ψ(u)/η_{T+1} + ΣM_t, for every comparator u")
def _regret_at_most_regulariser_and_stability(steps: Steps) -> Sides:
    return theorem_r.regret_at_most_regulariser_and_stability.says(_shadow(steps))


@_proved(id="G5, small step", text=theorem_r.stability_of_a_small_step.text)
def _stability_of_a_small_step(steps: Steps) -> Sides:
    return theorem_r.stability_of_a_small_step.says(_shadow(steps))


@_proved(id="G5, growth", text=theorem_r.growth_of_what_is_paid.text)
def _growth_of_what_is_paid(steps: Steps) -> Sides:
    return theorem_r.growth_of_what_is_paid.says(_shadow(steps))


@_proved(id="G6, jump", text="for a jump, M_t ≤ |z'_t|/ρ_t")
def _stability_of_a_jump(steps: Steps) -> Sides:
    return theorem_r.stability_of_a_jump.says(_shadow(steps))


@_proved(id="G7, jumps", text="Σ(M_t + G_t) over the jumps ≤ ((8/3)cn + F_T)L⁻/γ°")
def _cost_of_all_jumps(steps: Steps) -> Sides:
    return theorem_r.jumps_at_most(_shadow(steps), _most_that_jumps_cost(steps))


@_proved(
    id="G8, total", text="A_{T+1} ≤ √((1 + 2κcn)Σw²_t) + ((8/3)cn + F_T)L⁻/γ°, with the sum over all rounds but jumps"
)
def _all_that_is_paid(steps: Steps) -> Sides:
    return theorem_r.paid_at_most(_shadow(steps), _most_that_jumps_cost(steps))


@_proved(
    id="G9, clipping", text="γΣ(1 − π_{t,k_t})d_t over the rounds with γ_t ≥ γ is at most (4/(3gK))L⁻, for every γ"
)
def _all_that_is_clipped(steps: Steps) -> Sides:
    """Take the γ, one of the γ_t, for which it is closest to failing."""
    clipped, share = _clipped(steps), _share(steps)
    order = np.argsort(-share, axis=1, kind="stable")
    most = (np.take_along_axis(clipped, order, 1).cumsum(axis=1) * np.take_along_axis(share, order, 1)).max(axis=1)
    return plain(most, clipping() * _most_negative(steps))


@_proved(id="G10, clipping", text="Σ(1 − π_{t,k_t})d_t/ρ_t ≤ (8/(3gK))F_T L⁻/γ°")
def _all_that_is_clipped_and_explored(steps: Steps) -> Sides:
    weighted = (_clipped(steps) / steps.of.exploration[:, :-1]).sum(axis=1)
    return plain(weighted, clipping_of_shadow(steps.of.n_arms, steps.horizon) * _most_negative(steps))


@_proved(id="G11, balance", text="B_t ≤ √(10V_t)")
def _balance_at_most_its_deviation(steps: Steps) -> Sides:
    path = _path(steps)
    return plain(path.balance[:, 1:], np.sqrt(BALANCE * path.squares[:, 1:]))


@_proved(id="G12, mean", text="E x_t = ⟨ℓ_t, p'_t − π_t⟩, so the first is at most the second")
def _mean_of_the_change(steps: Steps) -> Sides:
    path = _path(steps)
    drawn_from, played = path.drawn_from[:, :-1], path.played[:, :-1]
    mean = np.where(_share(steps) < 1, (drawn_from * path.losses * (1 - path.weights)).sum(axis=2), np.longdouble(0))
    largest = np.sqrt(_squares(steps))
    losses = path.losses + largest[:, :, None]  # what is added to all of them must not matter
    return Sides((losses * (drawn_from - played)).sum(axis=2), mean, largest)


@_proved(id="G12, squares", text="E[V_t − V_{t−1}] ≤ max_k(ℓ_{t,k} − b_t)²/γ_t, and so is E z²_t")
def _mean_of_the_squares(steps: Steps) -> Sides:
    path = _path(steps)
    squares = path.losses**2
    counted = np.where(_share(steps)[:, :, None] < 1, squares * (1 - path.weights) ** 2, squares)
    drawn_from = path.drawn_from[:, :-1]
    both = [(drawn_from * each).sum(axis=2) for each in (counted, squares * path.weights**2)]
    return plain(np.maximum(*both), _squares(steps) / _share(steps))


@_proved(id="G13, spread", text="X_t ≤ ((1 − γ_t)/γ°)((1 − q_{t,i}) + (1 − π_{t,i})) for every arm i")
def _spread_beside_the_best_arm(steps: Steps) -> Sides:
    path = _path(steps)
    others = (2 - path.chosen[:, :-1] - path.played[:, :-1]).min(axis=2)
    share = _share(steps)
    right = (1 - share) / LEAST_SHARE * others
    return only_where(share < 1, Sides(_spread(steps), right, right + 1 / share))
