"""Theorem E, on the log-barrier form of UMAB-E: B1 to B11 of docs/algorithms/umab-e.md, which follow S1 to S10.

y_t is the centred loss seen and y'_t the clipped loss, d_t = y'_t − y_t, w_t = |y'_t| p_{t,k_t}/p'_{t,k_t}, and
A_t = Σ_{s<t} (M_s + G_s) = cN/η_t. A round is a jump if y_t < 0 and η_t w_t > ½. L⁻ is the size of the most negative
y_t.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.algorithms.umab_s import CHARGE, LIMIT
from umab.theory.bounds_advised import growth_over_experts, jumps_over_experts
from umab.theory.constants import KAPPA, REST, SHARE
from umab.theory.path import PRECISION, Precise
from umab.theory.statements import advised
from umab.theory.statements.advised import AdvisedSteps
from umab.theory.statements.common import Sides, only_where, plain, product, statement
from umab.theory.theorems import PROVED_IN, THEOREM_E

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_E], form="as proved", of=(THEOREM_E,))
"""Declares a statement of this proof."""


def _is_jump(steps: AdvisedSteps) -> Precise:
    """Return which rounds are jumps, computed with 1/η_t, as η_t may be infinite."""
    return np.asarray((steps.of.seen < 0) & (2 * steps.weight > steps.of.inverse_rate[:, :-1]))


def _size_of_stability(steps: AdvisedSteps) -> Precise:
    """Return a size of which the rounding error of M_t is a share: M_t is quadratic in steps that are rounded too."""
    path = steps.of
    return np.asarray(steps.size + path.stability + PRECISION * path.n_experts * path.inverse_rate[:, :-1])


def _most_that_jumps_cost(steps: AdvisedSteps) -> Precise:
    times = jumps_over_experts(steps.of.n_experts, 1 / steps.of.exploration[-1])
    return np.asarray(times * steps.most_negative)


@_proved(id="B1, floor", text="ρ_t ≤ p'_{t,k} for every arm that somebody advises")
def _no_arm_below_the_floor(steps: AdvisedSteps) -> Sides:
    return advised.floor_holds(steps)


@_proved(id="B2, share", text="p_{t,k} ≤ (4/3)p'_{t,k} for every arm that somebody advises")
def _share_that_the_floor_costs(steps: AdvisedSteps) -> Sides:
    return advised.share_at_most(steps, SHARE)


@_proved(id="B2, rest", text="1 − p_{t,k} ≤ (6/5)(1 − p'_{t,k}) for every arm that somebody advises")
def _share_of_the_rest_that_the_floor_costs(steps: AdvisedSteps) -> Sides:
    """Take the arm for which it is closest to failing."""
    path = steps.of
    worst = steps.among_advised(REST * path.drawn_from - path.p, -np.inf).argmax(axis=2)[:, :, None]
    left, right = (1 - np.take_along_axis(each, worst, axis=2)[:, :, 0] for each in (path.p, path.drawn_from))
    return Sides(left, REST * right, np.ones_like(left))


@_proved(id="B3, moved", text="Σ_k max(0, p'_{t,k} − p_{t,k}) ≤ (m_t − 1)ρ_t for m_t arms that somebody advises")
def _probability_that_is_moved(steps: AdvisedSteps) -> Sides:
    return advised.moved_at_most_floor(steps)


@_proved(
    id="B3, exploration", text="⟨ℓ_t, p'_t − p_t⟩ ≤ (m_t − 1)ρ_t D_t, with the spread of the arms that somebody advises"
)
def _cost_of_exploration(steps: AdvisedSteps) -> Sides:
    return advised.exploration_at_most_floor(steps)


@_proved(id="B4, FTRL", text="Σ⟨ℓ̂_t, P_t − u⟩ ≤ Ψ(u)/η_{T+1} + ΣM_t, for every law u on the experts")
def _regret_at_most_regulariser_and_stability(steps: AdvisedSteps) -> Sides:
    """Take P_{T+1}, which minimizes the slack, or the u of the proof, (1 − 1/T)e_i + 1/(NT) for some expert i."""
    path = steps.of
    n_experts, horizon = np.longdouble(path.n_experts), np.longdouble(path.n_rounds)
    of_proof = (1 - 1 / horizon) * np.eye(path.n_experts, dtype=np.longdouble) + 1 / (n_experts * horizon)
    tried = np.concatenate(
        [np.broadcast_to(of_proof, (len(path.arms), *of_proof.shape)), path.weights[:, -1:]], axis=1
    )  # runs × comparators × experts
    last = path.sums[:, -1] - path.sums[:, -1].min(axis=1, keepdims=True)
    lowest = path.sums[:, -1].min(axis=1)
    left = (steps.charged.sum(axis=1) - lowest)[:, None] - (last[:, None] * tried).sum(axis=2)
    logarithms = np.log(n_experts * tried)
    right = -logarithms.sum(axis=2) * path.inverse_rate[:, -1:] + path.stability.sum(axis=1)[:, None]
    sizes = np.abs(logarithms).sum(axis=2) * path.inverse_rate[:, -1:]
    sizes = sizes + (steps.largest + _size_of_stability(steps)).sum(axis=1)[:, None]
    at = (left - right).argmax(axis=1)[:, None]
    return Sides(*(np.take_along_axis(each, at, axis=1)[:, 0] for each in (left, right, sizes)))


@_proved(id="B5, small step", text="M_t ≤ min(κη_tw²_t, w_t), except for jumps")
def _stability_of_a_small_step(steps: AdvisedSteps) -> Sides:
    right = np.minimum(product(KAPPA * steps.rate, steps.weight**2), steps.weight)
    return only_where(~_is_jump(steps), Sides(steps.of.stability, right, _size_of_stability(steps)))


@_proved(id="B6, jump", text="for a jump, M_t ≤ |y'_t|/ρ_t")
def _stability_of_a_jump(steps: AdvisedSteps) -> Sides:
    path = steps.of
    return only_where(_is_jump(steps), plain(path.stability, np.abs(path.clipped) / path.exploration))


@_proved(id="B7, growth", text="A²_{t+1} ≤ A²_t + (1 + 2κcN)w²_t, except for jumps")
def _growth_of_what_is_paid(steps: AdvisedSteps) -> Sides:
    """Take A²_{t+1} − A²_t as a product, so that a small step is not lost next to a large sum."""
    path = steps.of
    both = path.paid[:, :-1] + path.paid[:, 1:]
    right = growth_over_experts(path.n_experts) * steps.weight**2
    size = _size_of_stability(steps) * both + right
    return only_where(~_is_jump(steps), Sides(path.stability * both, right, size))


@_proved(id="B8, jumps", text="Σ(M_t + G_t) over the jumps ≤ ((8/3)cN + 1/ρ_T)L⁻")
def _cost_of_all_jumps(steps: AdvisedSteps) -> Sides:
    added = np.where(_is_jump(steps), steps.of.stability + steps.of.charge, np.longdouble(0))
    return plain(added.sum(axis=1), _most_that_jumps_cost(steps))


@_proved(
    id="B9, total", text="A_{T+1} ≤ √((1 + 2κcN)Σw²_t) + ((8/3)cN + 1/ρ_T)L⁻, with the sum over all rounds but jumps"
)
def _all_that_is_paid(steps: AdvisedSteps) -> Sides:
    squares = np.where(_is_jump(steps), np.longdouble(0), steps.weight**2).sum(axis=1)
    root = np.sqrt(growth_over_experts(steps.of.n_experts) * squares)
    return plain(steps.of.paid[:, -1], root + _most_that_jumps_cost(steps))


@_proved(id="B10, clipping", text="Σ(1 − p'_{t,k_t})d_t ≤ (4/(3gK))L⁻, where g = 1/8 and K = 2")
def _all_that_is_clipped(steps: AdvisedSteps) -> Sides:
    clipped = ((1 - steps.drawn_with) * (steps.of.clipped - steps.of.seen)).sum(axis=1)
    return plain(clipped, SHARE / (LIMIT * CHARGE) * steps.most_negative)


@_proved(
    id="B11, clipped",
    text="Σ_k E_{t,i,k}(1 − p_{t,k})d_{t,k} ≤ (6/(5ρ_t)) Σ_k p'_{t,k}(1 − p'_{t,k})d_{t,k} for every expert",
)
def _what_clipping_hides_from_an_expert(steps: AdvisedSteps) -> Sides:
    path = steps.of
    hidden = steps.learned_from - path.losses
    left = (path.rows * ((1 - path.p) * hidden)[:, :, None]).sum(axis=3)
    right = REST / path.exploration * (path.drawn_from * (1 - path.drawn_from) * hidden).sum(axis=2)
    size = (hidden * path.advised).sum(axis=2) / path.exploration  # as 1 − p has the rounding error of 1
    every = np.broadcast_to(right[:, :, None], left.shape)
    return steps.worst_expert(left, every, np.broadcast_to(size[:, :, None], left.shape))


@_proved(id="B12, estimates", text="E[ℓ̂_{t,i} | past] = ⟨E_{t,i}, ℓ'_t⟩ for every expert, for t ≥ 2")
def _estimates_are_unbiased(steps: AdvisedSteps) -> Sides:
    return advised.estimates_are_unbiased(steps)
