"""Theorem Sh, on UMAB-Sh: the steps of its proof in docs/algorithms/umab-sh.md, Sh1 to Sh10.

y_t is the loss seen, u_t = |y_t| w_{t,k_t}/p'_{t,k_t}, a_t = 1/η_t, A_t = Σ_{s<t} M_s, and m_t = ⟨w_t, ℓ̂_t⟩ − M_t is
the mix loss. A round is a jump if y_t < 0 and |y_t|/p'_{t,k_t} > a_t. L⁻ is the size of the most negative loss seen.
For a centred policy, all losses are centred.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.algorithms.umab_sh import UMABSh
from umab.theory.constants import FLOOR_SHARE, GAP, growth_of_sharing, jump_of_sharing, price_of_switches
from umab.theory.path import Precise
from umab.theory.sharing import scaled_complexity
from umab.theory.statements.common import (
    Sides,
    Steps,
    exploration_at_most_floor,
    only_where,
    plain,
    product,
    statement,
)
from umab.theory.theorems import PROVED_IN, THEOREM_SH, core_of

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_SH], form="as proved", of=(THEOREM_SH,))
"""Declares a statement of this proof."""


def _rounds(steps: Steps) -> Precise:
    """Return t = 1, …, T."""
    return np.arange(1, steps.horizon + 1, dtype=np.longdouble)


def _complexity(steps: Steps, t: Precise) -> Precise:
    """Return S̄λ_t."""
    return scaled_complexity(core_of(steps.of.policy, UMABSh), steps.of.n_arms, t)


def _weight(steps: Steps) -> Precise:
    """Return u_t."""
    return np.asarray(np.abs(steps.of.seen) * steps.p_of_arm / steps.drawn_with)


def _is_jump(steps: Steps) -> Precise:
    """Return which rounds are jumps."""
    return np.asarray((steps.of.seen < 0) & (-steps.of.estimate > steps.of.inverse_rate[:, :-1]))


def _growth(steps: Steps) -> Precise:
    """Return by how much a² may grow in each round that is not a jump."""
    square = steps.of.seen**2
    return np.asarray(growth_of_sharing(_complexity(steps, _rounds(steps) + 1), square / steps.drawn_with, square))


@_proved(id="Sh1, weights", text="1/(nt) ≤ w_{t,k} for every arm")
def _no_weight_below_what_is_shared(steps: Steps) -> Sides:
    least = steps.of.p[:, :-1].min(axis=2)
    return plain(1 / (steps.n * _rounds(steps)) + 0 * least, least)


@_proved(id="Sh2, floor", text="ρ_t ≤ p'_{t,k} for every arm")
def _no_arm_below_the_floor(steps: Steps) -> Sides:
    path = steps.of
    return plain(path.exploration[:, :-1], path.drawn_from[:, :-1].min(axis=2))


@_proved(id="Sh2, share", text="w_{t,k} ≤ 2p'_{t,k} for every arm")
def _share_that_the_floor_costs(steps: Steps) -> Sides:
    most = (steps.of.p / steps.of.drawn_from)[:, :-1].max(axis=2)
    return plain(most, FLOOR_SHARE + 0 * most)


@_proved(id="Sh3, exploration", text="|⟨ℓ_t, p'_t − w_t⟩| ≤ (n − 1)ρ_t(max_k ℓ_{t,k} − min_k ℓ_{t,k})")
def _cost_of_exploration(steps: Steps) -> Sides:
    return exploration_at_most_floor(steps)


@_proved(id="Sh4, step", text="m_t − ℓ̂_{t,k} ≤ a_t ln((t + 1)w_{t+1,k}/(t w_{t,k})) for every arm")
def _mix_loss_by_the_weights(steps: Steps) -> Sides:
    path, t = steps.of, _rounds(steps)[:, None]
    gained = _gained(steps) - path.stability[:, :, None]
    scale = path.inverse_rate[:, :-1, None]
    right = scale * np.log((t + 1) * path.p[:, 1:] / (t * path.p[:, :-1]))
    worst = (gained - right).argmax(axis=2)[:, :, None]
    left, right = (np.take_along_axis(side, worst, axis=2)[:, :, 0] for side in (gained, right))
    return Sides(left, right, np.abs(path.estimate) + path.inverse_rate[:, :-1])


def _gained(steps: Steps) -> Precise:
    """Return ⟨w_t, ℓ̂_t⟩ − ℓ̂_{t,k} for every arm."""
    path = steps.of
    estimates = np.zeros_like(path.losses)
    np.put_along_axis(estimates, path.arms[:, :, None], path.estimate[:, :, None], axis=2)
    return np.asarray((path.estimate * steps.p_of_arm)[:, :, None] - estimates)


@_proved(
    id="Sh5, sequences",
    text="Σ⟨ℓ̂_t, w_t⟩ − Σℓ̂_{t,i_t} ≤ A_{T+1} + a_T((S + 1)ln(nT) + ln(T + 1)), for every S and every i with S switches",
)
def _regret_against_every_sequence(steps: Steps) -> Sides:
    """Find the sequence for which it is closest to failing: every switch costs it a_T ln(nT)."""
    path, gained = steps.of, _gained(steps)
    last = path.inverse_rate[:, -2]
    without, with_one = (last * price_of_switches(path.n_arms, steps.horizon, switches) for switches in (0, 1))
    best = gained[:, 0]
    for t in range(1, steps.horizon):
        best = np.maximum(best, (best.max(axis=1) - (with_one - without))[:, None]) + gained[:, t]
    right = path.stability.sum(axis=1) + without
    return Sides(best.max(axis=1), right, np.abs(path.estimate).sum(axis=1) + right)


@_proved(id="Sh6, rate", text="A_t ≤ S̄λ_t a_t")
def _paid_at_most_the_rate(steps: Steps) -> Sides:
    path = steps.of
    t = np.arange(2, steps.horizon + 2, dtype=np.longdouble)
    return plain(np.cumsum(path.stability, axis=1), _complexity(steps, t) * path.inverse_rate[:, 1:])


@_proved(id="Sh6, growth", text="a_{t+1} ≤ a_t + M_t/(S̄λ_{t+1})")
def _growth_of_the_rate(steps: Steps) -> Sides:
    inverse = steps.of.inverse_rate
    return plain(inverse[:, 1:], inverse[:, :-1] + steps.of.stability / _complexity(steps, _rounds(steps) + 1))


@_proved(id="Sh7, small step", text="M_t ≤ min((e − 2)η_t u_t|y_t|/p'_{t,k_t}, u_t), except for jumps")
def _gap_of_a_small_step(steps: Steps) -> Sides:
    weight, estimate = _weight(steps), np.abs(steps.of.estimate)
    right = np.minimum(product(GAP * steps.rate, weight * estimate), weight)
    return only_where(~_is_jump(steps), Sides(steps.of.stability, right, estimate))


@_proved(
    id="Sh8, growth",
    text="(a_t + M_t/(S̄λ_{t+1}))² ≤ a_t² + 4(e − 2)y_t²/(S̄λ_{t+1}p'_{t,k_t}) + 4(y_t/(S̄λ_{t+1}))², except for jumps",
)
def _growth_without_a_jump(steps: Steps) -> Sides:
    """Take the difference of the squares as a product, so that a small step is not lost next to a large sum."""
    path = steps.of
    step = path.stability / _complexity(steps, _rounds(steps) + 1)
    both = 2 * path.inverse_rate[:, :-1] + step
    size = np.abs(path.estimate) / _complexity(steps, _rounds(steps) + 1) * both
    return only_where(~_is_jump(steps), Sides(step * both, _growth(steps), size + _growth(steps)))


@_proved(id="Sh9, jump", text="for a jump, a_{t+1} ≤ (1 + 1/(S̄λ_{t+1}))|y_t|/ρ_t")
def _rate_after_a_jump(steps: Steps) -> Sides:
    path = steps.of
    most = jump_of_sharing(_complexity(steps, _rounds(steps) + 1), np.abs(path.seen) / path.exploration[:, :-1])
    return only_where(_is_jump(steps), plain(path.inverse_rate[:, 1:], most))


@_proved(
    id="Sh10, total",
    text="a²_{T+1} ≤ ((1 + 1/(S̄λ_2))L⁻/ρ_T)² + Σ(4(e − 2)y_t²/(S̄λ_{t+1}p'_{t,k_t}) + 4(y_t/(S̄λ_{t+1}))²), with the sum "
    "over all rounds but jumps",
)
def _all_of_the_rate(steps: Steps) -> Sides:
    path = steps.of
    most_negative = np.maximum(0, -path.seen).max(axis=1)
    jump = jump_of_sharing(_complexity(steps, np.asarray(2)), most_negative / path.exploration[:, -2])
    squares = np.where(_is_jump(steps), np.longdouble(0), _growth(steps)).sum(axis=1)
    return plain(path.inverse_rate[:, -1] ** 2, jump**2 + squares)
