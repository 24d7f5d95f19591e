"""Theorem R, on UMAB-S: the steps of its proof in docs/recommended.md, S1 to S10.

y_t is the loss seen and y'_t the clipped loss, d_t = y'_t − y_t, w_t = |y'_t| p_{t,k_t}/p'_{t,k_t}, and
A_t = Σ_{s<t} (M_s + G_s) = cn/η_t. A round is a jump if y_t < 0 and η_t w_t > ½. So is every round in which a loss is
clipped, as η_t w_t is 2 there. L⁻ is the size of the most negative loss seen. For a centred policy, all losses are
centred.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.algorithms.umab_s import UMABS
from umab.theory.constants import KAPPA, REST, SHARE, clipping, growth, jumps
from umab.theory.path import PRECISION, Precise
from umab.theory.statements.common import (
    Sides,
    Steps,
    exploration_at_most_floor,
    only_where,
    plain,
    product,
    statement,
    step_at_most,
)
from umab.theory.statements.ftrl import regret_of_ftrl
from umab.theory.theorems import PROVED_IN, THEOREM_R, core_of

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_R], form="as proved", of=(THEOREM_R,))
"""Declares a statement of this proof."""


def _core(steps: Steps) -> UMABS:
    core = core_of(steps.of.policy, UMABS)
    return core


def _weight(steps: Steps) -> Precise:
    """Return w_t."""
    return np.asarray(np.abs(steps.of.clipped) * steps.p_of_arm / steps.drawn_with)


def _most_negative_seen(steps: Steps) -> Precise:
    """Return L⁻ of each run."""
    return np.asarray(np.maximum(0, -steps.of.seen).max(axis=1))


def _is_jump(steps: Steps) -> Precise:
    """Return which rounds are jumps, computed with 1/η_t, as η_t may be infinite."""
    return np.asarray((steps.of.seen < 0) & (2 * _weight(steps) > steps.of.inverse_rate[:, :-1]))


def _size_of_stability(steps: Steps) -> Precise:
    """Return a size of which the rounding error of M_t is a share: M_t is quadratic in steps that are rounded too."""
    return np.asarray(_weight(steps) + steps.of.stability + PRECISION * steps.of.inverse_rate[:, :-1])


def _paid(steps: Steps) -> Precise:
    """Return A_t, runs × (T + 1), from the learning rate."""
    return np.asarray(steps.of.inverse_rate * np.longdouble(_core(steps).rate) * steps.n)


def most_that_jumps_cost(steps: Steps, share: np.longdouble) -> Precise:
    """Return (2·share·cn + 1/ρ_T)L⁻."""
    path = steps.of
    times = jumps(_core(steps), path.n_arms, 1 / path.exploration[:, -2], share)
    return np.asarray(times * _most_negative_seen(steps))


# What follows if p_{t,k} ≤ share · p'_{t,k} for every arm.


def share_at_most(steps: Steps, share: np.longdouble) -> Sides:
    """State that p_{t,k} is at most so many times p'_{t,k} for every arm."""
    path = steps.of
    with np.errstate(divide="ignore"):
        most = (path.p / path.drawn_from)[:, :-1].max(axis=2)
    return plain(most, share + 0 * most)


def jumps_at_most(steps: Steps, most: Precise) -> Sides:
    """State Σ(M_t + G_t) over the jumps ≤ `most`."""
    added = np.where(_is_jump(steps), steps.of.stability + steps.of.charge, np.longdouble(0))
    return plain(added.sum(axis=1), most)


def paid_at_most(steps: Steps, most: Precise) -> Sides:
    """State A_{T+1} ≤ √((1 + 2κcn)Σw²_t) + `most`, with the sum over all rounds but jumps."""
    squares = np.where(_is_jump(steps), np.longdouble(0), _weight(steps) ** 2).sum(axis=1)
    root = np.sqrt(growth(_core(steps), steps.of.n_arms) * squares)
    return plain(_paid(steps)[:, -1], root + most)


def clipped_at_most(steps: Steps, share: np.longdouble) -> Sides:
    """State Σ(1 − p'_{t,k_t})d_t ≤ (share/(gK))L⁻."""
    path = steps.of
    clipped = ((1 - steps.drawn_with) * (path.clipped - path.seen)).sum(axis=1)
    return plain(clipped, clipping(share) * _most_negative_seen(steps))


@_proved(id="S1, floor", text="ρ_t ≤ p'_{t,k} for every arm")
def _no_arm_below_the_floor(steps: Steps) -> Sides:
    path = steps.of
    return plain(path.exploration[:, :-1], path.drawn_from[:, :-1].min(axis=2))


@_proved(id="S2, share", text="p_{t,k} ≤ (4/3)p'_{t,k} for every arm")
def share_that_the_floor_costs(steps: Steps) -> Sides:
    """Take the arm for which it is closest to failing."""
    return share_at_most(steps, SHARE)


@_proved(id="S2, rest", text="1 − p_{t,k} ≤ (6/5)(1 − p'_{t,k}) for every arm")
def share_of_the_rest_that_the_floor_costs(steps: Steps) -> Sides:
    """Take the arm for which it is closest to failing."""
    path = steps.of
    p, drawn_from = path.p[:, :-1], path.drawn_from[:, :-1]
    worst = (REST * drawn_from - p).argmax(axis=2)[:, :, None]
    left, right = (1 - np.take_along_axis(each, worst, axis=2)[:, :, 0] for each in (p, drawn_from))
    return Sides(left, REST * right, np.ones_like(left))


@_proved(
    id="S3, exploration",
    text="|⟨ℓ_t, p'_t − p_t⟩| ≤ (n − 1)ρ_t(max_k ℓ_{t,k} − min_k ℓ_{t,k}), so at most 2(n − 1)ρ_t‖ℓ_t‖∞",
)
def _cost_of_exploration(steps: Steps) -> Sides:
    return exploration_at_most_floor(steps)


@_proved(id="S4, step", text="what FTRL gains by knowing ℓ̂_t is at most M_t")
def step_at_most_stability(steps: Steps) -> Sides:
    """Compare with the gain at p_{t+1}, for which the rate has already fallen."""
    return step_at_most(steps, steps.of.stability)


@_proved(id="S4, FTRL", text="Σ⟨ℓ̂_t, p_t − u⟩ ≤ Ψ(u)/η_{T+1} + ΣM_t, for every comparator u")
def regret_at_most_regulariser_and_stability(steps: Steps) -> Sides:
    """Take the comparator for which it is closest to failing."""
    _, size = steps.step
    return regret_of_ftrl(steps, steps.of.stability, size + steps.of.stability)


@_proved(id="S5, small step", text="M_t ≤ min(κη_tw²_t, w_t), except for jumps")
def stability_of_a_small_step(steps: Steps) -> Sides:
    """Say nothing about jumps."""
    weight = _weight(steps)
    right = np.minimum(product(KAPPA * steps.rate, weight * weight), weight)
    return only_where(~_is_jump(steps), Sides(steps.of.stability, right, _size_of_stability(steps)))


@_proved(id="S6, jump", text="for a jump, M_t ≤ |y'_t|/ρ_t")
def stability_of_a_jump(steps: Steps) -> Sides:
    """Say nothing about other rounds."""
    path = steps.of
    return only_where(_is_jump(steps), plain(path.stability, np.abs(path.clipped) / path.exploration[:, :-1]))


@_proved(id="S7, growth", text="A²_{t+1} ≤ A²_t + (1 + 2κcn)w²_t, except for jumps")
def growth_of_what_is_paid(steps: Steps) -> Sides:
    """Take A²_{t+1} − A²_t as a product, so that a small step is not lost next to a large sum."""
    cost, paid, weight = steps.of.stability, _paid(steps), _weight(steps)
    both = paid[:, :-1] + paid[:, 1:]
    right = growth(_core(steps), steps.of.n_arms) * weight * weight
    return only_where(~_is_jump(steps), Sides(cost * both, right, _size_of_stability(steps) * both + right))


@_proved(id="S8, jumps", text="Σ(M_t + G_t) over the jumps ≤ ((8/3)cn + 1/ρ_T)L⁻")
def _cost_of_all_jumps(steps: Steps) -> Sides:
    return jumps_at_most(steps, most_that_jumps_cost(steps, SHARE))


@_proved(
    id="S9, total", text="A_{T+1} ≤ √((1 + 2κcn)Σw²_t) + ((8/3)cn + 1/ρ_T)L⁻, with the sum over all rounds but jumps"
)
def _all_that_is_paid(steps: Steps) -> Sides:
    return paid_at_most(steps, most_that_jumps_cost(steps, SHARE))


@_proved(id="S10, clipping", text="Σ(1 − p'_{t,k_t})d_t ≤ (4/(3gK))L⁻, where g = 1/8 and K = 2")
def _all_that_is_clipped(steps: Steps) -> Sides:
    return clipped_at_most(steps, SHARE)
