"""Theorem E, on the entropy form of UMAB-E: the steps of its proof in docs/algorithms/umab-e.md, E1 to E9.

y_t = ℓ_{t,k_t} − b_t is the centred loss seen, w_t = |y_t| p_{t,k_t}/p'_{t,k_t}, and A_t = Σ_{s<t} M_s = ln N/η_t. A
round is a jump if y_t < 0 and η_t max_i |ℓ̂_{t,i}| > 1. L⁻ is the size of the most negative y_t.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.theory.bounds_advised import growth_of_gaps, jumps_of_gaps
from umab.theory.constants import FLOOR_SHARE, GAP
from umab.theory.path import Precise
from umab.theory.statements import advised
from umab.theory.statements.advised import AdvisedSteps
from umab.theory.statements.common import Sides, only_where, plain, product, statement
from umab.theory.theorems import PROVED_IN, THEOREM_E

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_E], form="as proved", of=(THEOREM_E,))
"""Declares a statement of this proof."""


def _is_jump(steps: AdvisedSteps) -> Precise:
    """Return which rounds are jumps, computed with 1/η_t, as η_t may be infinite."""
    return np.asarray((steps.of.seen < 0) & (steps.largest > steps.of.inverse_rate[:, :-1]))


def _grown(steps: AdvisedSteps) -> Precise:
    """Return A²_{t+1} − A²_t as a product, so that a small step is not lost next to a large sum."""
    return np.asarray(steps.of.stability * (2 * steps.of.paid[:, :-1] + steps.of.stability))


def _growth(steps: AdvisedSteps) -> Precise:
    """Return 2(e − 2) ln N · w_t|y_t|/p'_{t,k_t} + w²_t."""
    return np.asarray(2 * GAP * steps.log_n * steps.weight * steps.size + steps.weight**2)


def _in_jumps(steps: AdvisedSteps) -> Precise:
    """Return ΣM_t over the jumps."""
    return np.asarray(np.where(_is_jump(steps), steps.of.stability, np.longdouble(0)).sum(axis=1))


@_proved(
    id="E1, floor",
    text="ρ_t ≤ p'_{t,k} for every arm that somebody advises; if experts have the floor, "
    "ρ_t max_i E_{t,i,k} ≤ p'_{t,k}",
)
def _no_arm_below_the_floor(steps: AdvisedSteps) -> Sides:
    return advised.floor_holds(steps)


@_proved(id="E2, share", text="p_{t,k} ≤ 2p'_{t,k} for every arm that somebody advises")
def _share_that_the_floor_costs(steps: AdvisedSteps) -> Sides:
    return advised.share_at_most(steps, FLOOR_SHARE)


@_proved(
    id="E3, moved",
    text="Σ_k max(0, p'_{t,k} − p_{t,k}) ≤ (m_t − 1)ρ_t for m_t arms that somebody advises; if experts have the floor, "
    "m_t = N",
)
def _probability_that_is_moved(steps: AdvisedSteps) -> Sides:
    return advised.moved_at_most_floor(steps)


@_proved(
    id="E3, exploration", text="⟨ℓ_t, p'_t − p_t⟩ ≤ (m_t − 1)ρ_t D_t, with the spread of the arms that somebody advises"
)
def _cost_of_exploration(steps: AdvisedSteps) -> Sides:
    return advised.exploration_at_most_floor(steps)


@_proved(id="E4, regret", text="Σ_{s≤t}⟨ℓ̂_s, P_s⟩ − min_i L_{t+1,i} ≤ A_t + A_{t+1}")
def _regret_against_every_expert(steps: AdvisedSteps) -> Sides:
    path = steps.of
    left = np.cumsum(steps.charged, axis=1) - path.sums[:, 1:].min(axis=2)
    return Sides(left, path.paid[:, :-1] + path.paid[:, 1:], np.cumsum(steps.largest, axis=1) + path.paid[:, 1:])


@_proved(id="E5, small step", text="M_t ≤ (e − 2)η_t w_t|y_t|/p'_{t,k_t}, except for jumps")
def _gap_of_a_small_step(steps: AdvisedSteps) -> Sides:
    right = product(GAP * steps.rate, steps.weight * steps.size)
    return only_where(~_is_jump(steps), Sides(steps.of.stability, right, steps.size))


@_proved(id="E5, step", text="M_t ≤ w_t, except for jumps")
def _gap_at_most_what_is_charged(steps: AdvisedSteps) -> Sides:
    return only_where(~_is_jump(steps), Sides(steps.of.stability, steps.weight, steps.size))


@_proved(id="E6, growth", text="A²_{t+1} − A²_t ≤ 2(e − 2) ln N · w_t|y_t|/p'_{t,k_t} + w²_t, except for jumps")
def _growth_without_a_jump(steps: AdvisedSteps) -> Sides:
    right = _growth(steps)
    size = steps.size * (2 * steps.of.paid[:, :-1] + steps.of.stability) + right
    return only_where(~_is_jump(steps), Sides(_grown(steps), right, size))


@_proved(
    id="E6, losses",
    text="2(e − 2) ln N · w_t|y_t|/p'_{t,k_t} + w²_t ≤ 4(e − 2) ln N · y²_t/p'_{t,k_t} + 4y²_t",
)
def _growth_in_terms_of_the_losses(steps: AdvisedSteps) -> Sides:
    square = steps.of.seen**2
    return plain(_growth(steps), np.asarray(growth_of_gaps(steps.log_n, square / steps.drawn_with, square)))


@_proved(id="E7, jump", text="for a jump, M_t ≤ |y_t|/ρ_t")
def _gap_of_a_jump(steps: AdvisedSteps) -> Sides:
    most = np.abs(steps.of.seen) / steps.of.exploration
    return only_where(_is_jump(steps), plain(steps.of.stability, most))


@_proved(id="E7, before a jump", text="for a jump, A_t ≤ ln N · |y_t|/ρ_t")
def _paid_before_a_jump(steps: AdvisedSteps) -> Sides:
    most = steps.log_n * np.abs(steps.of.seen) / steps.of.exploration
    return only_where(_is_jump(steps), plain(steps.of.paid[:, :-1], most))


@_proved(id="E7, jumps", text="ΣM_t over the jumps ≤ (1 + ln N)L⁻/ρ_T")
def _cost_of_all_jumps(steps: AdvisedSteps) -> Sides:
    times = jumps_of_gaps(steps.log_n, 1 / steps.of.exploration[-1])
    return plain(_in_jumps(steps), times * steps.most_negative)


@_proved(
    id="E8, total",
    text="A_{T+1} ≤ √Σ(2(e − 2) ln N · w_t|y_t|/p'_{t,k_t} + w²_t) + ΣM_t, the first sum over all rounds but jumps "
    "and the second over the jumps",
)
def _all_that_is_paid(steps: AdvisedSteps) -> Sides:
    squares = np.where(_is_jump(steps), np.longdouble(0), _growth(steps)).sum(axis=1)
    return plain(steps.of.paid[:, -1], np.sqrt(squares) + _in_jumps(steps))


@_proved(id="E9, estimates", text="E[ℓ̂_{t,i} | past] = ⟨E_{t,i}, ℓ_t − b_t⟩ for every expert, for t ≥ 2")
def _estimates_are_unbiased(steps: AdvisedSteps) -> Sides:
    return advised.estimates_are_unbiased(steps)


@_proved(id="E9, squares", text="E[y²_t/p'_{t,k_t} | past] = V_t, for t ≥ 2")
def _mean_of_the_weighted_squares(steps: AdvisedSteps) -> Sides:
    """Sum over the arms that may be drawn, and compare with V_t, which is over the arms that somebody advises."""
    path = steps.of
    squares = path.losses**2
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(path.drawn_from > 0, path.drawn_from * (squares / path.drawn_from), np.longdouble(0))
    total = np.where(path.advised, squares, np.longdouble(0)).sum(axis=2)
    left = np.abs(each.sum(axis=2) - total)
    return advised.after_the_first(Sides(left, 0 * left, total))
