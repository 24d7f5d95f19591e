"""Theorem 2, on UMAB-G: the three terms of its regret, and their bounds. `ftrl.py` has the start of the proof.

Term ① is the regret of FTRL (Lemmas 3, 7 and 8, the steps, and (10)), term ② the cost of exploration (Lemmas 4, 9 and
10), term ③ the error of clipping (Lemma 5).
"""

from __future__ import annotations

import numpy as np

from umab.theory.barrier import log_barrier
from umab.theory.path import Precise
from umab.theory.statements.common import (
    OF_2,
    Sides,
    Steps,
    only_where,
    plain,
    product,
    statement,
    step_at_most,
)
from umab.theory.statements.ftrl import regret_against_best_at_most


@statement(
    id="decomposition",
    where="main text",
    text="terms ①, ② and ③ sum to ⟨ℓ̂_t, p'_t − p†⟩",
    form="as printed",
    of=OF_2,
)
def _three_terms_sum_to_the_regret(steps: Steps) -> Sides:
    """State it as |difference| ≤ 0."""
    path = steps.of
    unclipped = path.seen / steps.drawn_with
    at_best = np.take_along_axis(
        np.broadcast_to(steps.best[:, None], path.losses.shape), path.arms[:, :, None], axis=2
    )[:, :, 0]
    whole = unclipped * (steps.drawn_with - at_best)
    first = path.estimate * (steps.p_of_arm - at_best)
    second = path.estimate * (steps.drawn_with - steps.p_of_arm)
    third = (unclipped - path.estimate) * (steps.drawn_with - at_best)
    gap = np.abs(whole - first - second - third).sum(axis=1)
    return Sides(gap, 0 * gap, (np.abs(whole) + np.abs(first) + np.abs(second) + np.abs(third)).sum(axis=1))


# Term ①: Lemma 3.


def _p_at_most(steps: Steps, times: float) -> Sides:
    """State that p_{t,k_t} is at most `times` p'_{t,k_t}, for ℓ_t ≤ 0."""
    return only_where(steps.negative, plain(steps.p_of_arm, np.longdouble(times) * steps.drawn_with))


@statement(id="Lemma 3, p", where="main text", text="for ℓ_t ≤ 0, p_{t,k} ≤ 2p'_{t,k}", form="as printed", of=OF_2)
def _p_at_most_twice_what_is_drawn_from(steps: Steps) -> Sides:
    return _p_at_most(steps, 2.0)


@statement(id="Lemma 3, p", where="sharper", text="for ℓ_t ≤ 0, p_{t,k} ≤ (7/6)p'_{t,k}", form="as repaired", of=OF_2)
def _p_at_most_seven_sixths_of_what_is_drawn_from(steps: Steps) -> Sides:
    return _p_at_most(steps, 7.0 / 6.0)


@statement(
    id="Lemma 3, next p", where="main text", text="for ℓ_t ≤ 0, p_{t+1,k} ≤ 6p_{t,k}", form="as printed", of=OF_2
)
def _next_p_at_most_6_times_p(steps: Steps) -> Sides:
    return only_where(steps.negative, plain(steps.next_p_of_arm, 6 * steps.p_of_arm))


def _twice_rate_times_at_most_1(steps: Steps, size: Precise) -> Sides:
    """State 2η_t `size` ≤ 1 for ℓ_t ≤ 0."""
    return only_where(steps.negative, plain(size, steps.of.inverse_rate[:, :-1] / 2))


@statement(
    id="2η_t|ℓ'_t| ≤ 1",
    where="proof of Lemma 3",
    text="for ℓ_t ≤ 0, as if estimates were divided by p_t",
    form="as printed",
    of=OF_2,
)
def _twice_rate_times_loss_at_most_1(steps: Steps) -> Sides:
    return _twice_rate_times_at_most_1(steps, np.abs(steps.of.clipped))


@statement(
    id="2η_t|ℓ'_t|p_t/p'_t ≤ 1",
    where="proof of Lemma 3",
    text="the same for estimates divided by p'_t, which the proof needs",
    form="as printed",
    of=OF_2,
)
def _twice_rate_times_estimate_at_most_1(steps: Steps) -> Sides:
    return _twice_rate_times_at_most_1(steps, np.abs(steps.of.clipped) * steps.p_of_arm / steps.drawn_with)


@statement(id="η_t ≤ 3η_{t+1}", where="proof of Lemma 3", text="for ℓ_t ≤ 0", form="as printed", of=OF_2)
def _rate_at_most_3_times_the_next(steps: Steps) -> Sides:
    inverse = steps.of.inverse_rate
    return only_where(steps.negative, plain(inverse[:, 1:], 3 * inverse[:, :-1]))


@statement(
    id="C²_{t+1}",
    where="proof of Lemma 3",
    text="for ℓ_t ≤ 0, C²_{t+1} ≤ min(C²_t, ℓ'²_t)",
    form="as printed",
    of=OF_2,
)
def _next_clip_at_most_the_smaller(steps: Steps) -> Sides:
    clip = steps.of.clip**2
    return only_where(steps.negative, plain(clip[:, 1:], np.minimum(clip[:, :-1], steps.of.clipped**2)))


@statement(
    id="C²_{t+1}",
    where="proof of Lemma 3",
    text="for ℓ_t ≤ 0, C²_{t+1} ≤ max(C²_t, ℓ'²_t)",
    form="as repaired",
    of=OF_2,
)
def _next_clip_at_most_the_larger(steps: Steps) -> Sides:
    clip = steps.of.clip**2
    return only_where(steps.negative, plain(clip[:, 1:], np.maximum(clip[:, :-1], steps.of.clipped**2)))


def _p_at_the_old_rate(steps: Steps) -> Precise:
    """Return p̃_{t,k_t}, between p_t and p_{t+1}: with the new loss, but still at the old rate."""
    path = steps.of
    runs, rounds = path.arms.shape
    sums = path.sums[:, 1:].reshape(runs * rounds, -1)
    return path.of_arm(log_barrier(sums, path.inverse_rate[:, :-1].reshape(-1)).reshape(runs, rounds, -1))


@statement(
    id="Lemma 7",
    where="proof of Lemma 3",
    text="x̃_k ≤ 2x_k if −1/(2η) ≤ l ≤ 0",
    form="as printed",
    of=OF_2,
)
def _new_loss_at_most_doubles_p(steps: Steps) -> Sides:
    """Take l = ℓ̂'_t p_t."""
    loss = steps.of.estimate * steps.p_of_arm
    applies = (loss <= 0) & (2 * np.abs(loss) <= steps.of.inverse_rate[:, :-1])
    return only_where(applies, plain(_p_at_the_old_rate(steps), 2 * steps.p_of_arm))


@statement(id="Lemma 8", where="proof of Lemma 3", text="x'_k ≤ (η/η')x_k for η' ≤ η", form="as printed")
def _new_rate_raises_p_at_most_as_much_as_it_falls(steps: Steps) -> Sides:
    inverse = steps.of.inverse_rate
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = inverse[:, 1:] / inverse[:, :-1]
        return only_where(np.isfinite(ratio), plain(steps.next_p_of_arm, ratio * _p_at_the_old_rate(steps)))


# Term ①: the steps, and their sum.


@statement(
    id="step, ℓ ≥ 0",
    where="proof of Theorem 2",
    text="a step ≤ min(½η_tℓ'²_t, |ℓ'_t|)",
    form="as printed",
    of=OF_2,
)
def _positive_step(steps: Steps) -> Sides:
    return only_where(steps.of.seen >= 0, step_at_most(steps, steps.stable))


@statement(
    id="step, ℓ ≥ 0",
    where="proof of Theorem 2",
    text="a step ≤ min(½η_tℓ'²_t(p_t/p'_t)², |ℓ'_t|p_t/p'_t)",
    form="as repaired",
    of=OF_2,
)
def _repaired_positive_step(steps: Steps) -> Sides:
    loss, times = steps.of.clipped, steps.p_of_arm / steps.drawn_with
    right = np.minimum(product(steps.rate / 2, (loss * times) ** 2), np.abs(loss) * times)
    return only_where(steps.of.seen >= 0, step_at_most(steps, right))


@statement(
    id="step, ℓ < 0",
    where="proof of Theorem 2",
    text="a step ≤ min(72η_tℓ'²_t, 10|ℓ'_t|)",
    form="as printed",
    of=OF_2,
)
def _negative_step(steps: Steps) -> Sides:
    loss = steps.of.clipped
    right = np.minimum(72 * steps.rate * loss * loss, 10 * np.abs(loss))
    return only_where(steps.negative, step_at_most(steps, right))


@statement(
    id="step",
    where="proof of Theorem 2",
    text="a step ≤ 18min(4η_tℓ'²_t, |ℓ'_t|)",
    form="as printed",
    of=OF_2,
)
def _any_step(steps: Steps) -> Sides:
    loss = steps.of.clipped
    return step_at_most(steps, 18 * np.minimum(product(4 * steps.rate, loss * loss), np.abs(loss)))


@statement(id="C²_{T+1} ≤ 2ℓ²∞", where="proof of Theorem 2", text="used to bound 1/η_{T+1}", form="as printed", of=OF_2)
def _last_clip_at_most_largest_loss(steps: Steps) -> Sides:
    return plain(steps.of.clip[:, -1] ** 2, 2 * steps.largest**2)


def _initial_scale(steps: Steps) -> Precise:
    """Return |C_1|."""
    return np.asarray(-steps.of.clip[:, 0])


@statement(
    id="C²_{T+1} ≤ max(|C_1|, ℓ⁻∞)²",
    where="proof of Theorem 2",
    text="used to bound 1/η_{T+1}",
    form="as repaired",
    of=OF_2,
)
def _last_clip_at_most_scale_or_most_negative_loss(steps: Steps) -> Sides:
    return plain(steps.of.clip[:, -1] ** 2, np.maximum(_initial_scale(steps), steps.most_negative) ** 2)


@statement(
    id="(10)",
    where="proof of Theorem 2",
    text="term ① ≤ n log T/η_{T+1} + 63√n(√Σℓ'²_t + max|ℓ'_t|)",
    form="as repaired",
    of=OF_2,
)
def _first_term(steps: Steps) -> Sides:
    path = steps.of
    right = steps.n * np.log(np.longdouble(steps.horizon)) * path.inverse_rate[:, -1]
    seen = np.sqrt(steps.squares_seen)
    right = right + 63 * np.sqrt(steps.n) * (seen + np.abs(path.clipped).max(axis=1))
    return regret_against_best_at_most(steps, right)


# Term ②: exploration.


@statement(
    id="Lemma 4",
    where="main text",
    text="the expected cost of exploration ≤ 2√(nΣ‖ℓ_t‖²∞)",
    form="as printed",
    of=OF_2,
    exploration=("fixed",),
)
def _expected_cost_of_fixed_exploration(steps: Steps) -> Sides:
    """Take Σ_t ρ_t ⟨|ℓ_t|, |c_t|⟩, which bounds that cost."""
    path = steps.of
    cost = (np.abs(path.losses * path.offsets[:, :-1]).sum(axis=2) * path.exploration[:, :-1]).sum(axis=1)
    return plain(cost, 2 * np.sqrt(steps.n * (steps.norms**2).sum(axis=1)))


def _most_that_a_round_costs(steps: Steps) -> Precise:
    """Return ℓ∞(2n² + √(2Σ|⟨ℓ̂'_s, c_s⟩|)) of each run, which bounds the cost of exploration in any round."""
    total = steps.exploration_cost.sum(axis=1)
    return np.asarray(steps.largest * (2 * steps.n**2 + np.sqrt(2 * total)))


@statement(
    id="Lemma 4",
    where="main text",
    text="the cost of exploration, before expectations are taken",
    form="as printed",
    of=OF_2,
    exploration=("adaptive", "maintext"),
)
def _cost_of_adaptive_exploration(steps: Steps) -> Sides:
    """Take the last line of the proof before expectations are taken."""
    left = (steps.exploration_cost * steps.of.exploration[:, :-1]).sum(axis=1)
    right = 2 * np.sqrt(1 + 2 * steps.exploration_cost.sum(axis=1)) + _most_that_a_round_costs(steps)
    return plain(left, right)


@statement(
    id="Lemma 9",
    where="proof of Lemma 4",
    text="Σ a_t/√(2Σ_{s<t}a_s + 1) ≤ 2√(Σa_t + 1) + max a_t",
    form="as printed",
    of=OF_2,
)
def _sum_of_costs_over_roots(steps: Steps) -> Sides:
    """Take a_t = |⟨ℓ̂'_t, c_t⟩|."""
    cost = steps.exploration_cost
    before = np.cumsum(cost, axis=1) - cost
    left = (cost / np.sqrt(2 * before + 1)).sum(axis=1)
    return plain(left, 2 * np.sqrt(cost.sum(axis=1) + 1) + cost.max(axis=1))


@statement(
    id="Lemma 10",
    where="proof of Lemma 4",
    text="|⟨ℓ̂'_t, c_t⟩| ≤ ℓ∞(2n² + √(2Σ|⟨ℓ̂'_s, c_s⟩|))",
    form="as printed",
    of=OF_2,
    exploration=("adaptive", "maintext"),
)
def _largest_cost_of_a_round(steps: Steps) -> Sides:
    return plain(steps.exploration_cost.max(axis=1), _most_that_a_round_costs(steps))


# Term ③: clipping.


@statement(id="Lemma 5, clips", where="main text", text="at most log₂(1 + ℓ∞) clips", form="as printed", of=OF_2)
def _number_of_clips(steps: Steps) -> Sides:
    return plain(steps.was_clipped.sum(axis=1), np.log2(1 + steps.largest))


@statement(
    id="Lemma 5, clips",
    where="main text",
    text="at most log₂ max(1, ℓ⁻∞/|C_1|) clips",
    form="as repaired",
    of=OF_2,
)
def _repaired_number_of_clips(steps: Steps) -> Sides:
    doublings = np.log2(np.maximum(1, steps.most_negative / _initial_scale(steps)))
    return plain(steps.was_clipped.sum(axis=1), doublings)


@statement(
    id="Lemma 5, error",
    where="main text",
    text="Σ‖ℓ̂_t − ℓ̂'_t‖₁ ≤ ℓ⁻∞/ρ_{T+1} per clip",
    form="as printed",
    of=OF_2,
    exploration=("fixed", "adaptive", "anytime", "maintext"),
)
def _error_of_clipping(steps: Steps) -> Sides:
    path = steps.of
    left = (np.abs(path.seen - path.clipped) / steps.drawn_with).sum(axis=1)
    with np.errstate(divide="ignore"):
        least = 1 / path.exploration[:, -1]
    return plain(left, product(steps.most_negative * steps.was_clipped.sum(axis=1), least))


@statement(id="|C_T| ≤ 1 + ℓ∞", where="proof of Lemma 5", text="", form="as printed", of=OF_2)
def _last_clip_at_most_1_and_largest_loss(steps: Steps) -> Sides:
    return plain(np.abs(steps.of.clip[:, -1]), 1 + steps.largest)
