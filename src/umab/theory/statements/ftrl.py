"""The start of both proofs of the paper: the regret of FTRL with a log-barrier, and its comparator p†.

(4) and (5) need losses that are never negative, so they are only in the proof of Theorem 1.
"""

from __future__ import annotations

import numpy as np

from umab.theory.path import Precise
from umab.theory.statements.common import (
    OF_1,
    OF_2,
    Sides,
    Steps,
    only_where,
    plain,
    product,
    statement,
    step_at_most,
)


def regret_of_ftrl(steps: Steps, gained: Precise, size: Precise) -> Sides:
    """State Σ⟨ℓ̂'_t, p_t − u⟩ ≤ Ψ(u)/η_{T+1} + Σ `gained`, for the u for which it is closest to failing."""
    path = steps.of
    paid = (path.estimate * steps.p_of_arm).sum(axis=1)
    # The worst comparator of all is p_{T+1}, which minimizes the slack of the bound; p† of every arm is tried too.
    last = path.p[:, -1]
    regularised = np.column_stack(
        [np.tile(steps.regulariser(steps.comparators), (len(last), 1)), steps.regulariser(last)]
    )
    regularised = regularised * path.inverse_rate[:, -1:]  # runs × comparators
    compared = np.column_stack([path.sums[:, -1] @ steps.comparators.T, (path.sums[:, -1] * last).sum(axis=1)])
    left = paid[:, None] - compared
    right = regularised + gained.sum(axis=1)[:, None]
    sizes = np.abs(path.estimate * steps.p_of_arm).sum(axis=1) + np.abs(path.sums[:, -1]).max(axis=1) + size.sum(axis=1)
    worst = (left - right).argmax(axis=1)[:, None]
    return Sides(
        np.take_along_axis(left, worst, axis=1)[:, 0],
        np.take_along_axis(right, worst, axis=1)[:, 0],
        sizes + np.take_along_axis(np.abs(regularised), worst, axis=1)[:, 0],
    )


def regret_against_best_at_most(steps: Steps, right: Precise) -> Sides:
    """State Σ⟨ℓ̂'_t, p_t − p†⟩ ≤ `right`, for p† of the best arm."""
    path = steps.of
    paid = path.estimate * steps.p_of_arm
    left = paid.sum(axis=1) - (path.sums[:, -1] * steps.best).sum(axis=1)
    return Sides(left, right, np.abs(paid).sum(axis=1) + np.abs(path.sums[:, -1]).sum(axis=1))


@statement(
    id="Lemma 1",
    where="main text",
    text="the regret of FTRL ≤ Ψ(p†)/η_{T+1} + Σ steps, for every comparator",
    form="as printed",
)
def _regret_at_most_regulariser_and_steps(steps: Steps) -> Sides:
    return regret_of_ftrl(steps, *steps.step)


@statement(
    id="Lemma 2",
    where="main text",
    text="a step ≤ ½η_t‖ℓ̂'_t‖² at some ξ between p_t and p_{t+1}",
    form="as printed",
)
def _step_at_most_local_norm(steps: Steps) -> Sides:
    farthest = np.maximum(steps.p_of_arm, steps.next_p_of_arm)
    return step_at_most(steps, product(steps.rate / 2, (steps.of.estimate * farthest) ** 2))


@statement(id="Lemma 2, ℓ ≥ 0", where="main text", text="for ℓ̂_t ≥ 0, ξ may be p_t", form="as printed")
def _positive_step_at_most_local_norm_at_p(steps: Steps) -> Sides:
    right = product(steps.rate / 2, (steps.of.estimate * steps.p_of_arm) ** 2)
    return only_where(steps.of.seen >= 0, step_at_most(steps, right))


@statement(id="(4)", where="main text", text="for ℓ̂_t ≥ 0, a step ≤ |ℓ_{t,k_t}|", form="as printed", of=OF_1)
def _positive_step_at_most_its_loss(steps: Steps) -> Sides:
    return only_where(steps.of.seen >= 0, step_at_most(steps, np.abs(steps.of.clipped)))


@statement(
    id="(5)",
    where="main text",
    text="the regret of FTRL ≤ Ψ(p†)/η_{T+1} + Σ min(½η_tℓ²_t, |ℓ_t|)",
    form="as printed",
    of=OF_1,
)
def _regret_at_most_regulariser_and_losses(steps: Steps) -> Sides:
    right = steps.regulariser(steps.best) * steps.of.inverse_rate[:, -1] + steps.stable.sum(axis=1)
    return regret_against_best_at_most(steps, right)


@statement(id="Ψ", where="main text", text="Ψ(p†) ≤ n log(nT) for Ψ(p) = Σ (log(1/p_k) − log(1/n))", form="as printed")
def _regulariser_of_comparator(steps: Steps) -> Sides:
    printed = -np.log(steps.best / steps.n).sum(axis=1)
    return plain(printed, steps.n * np.log(steps.n * steps.horizon) + 0 * printed)


@statement(id="Ψ", where="main text", text="Ψ(p†) ≤ n log T for Ψ(p) = Σ (log(1/p_k) − log n)", form="as repaired")
def _repaired_regulariser_of_comparator(steps: Steps) -> Sides:
    value = steps.regulariser(steps.best)
    # Terms of both signs: log n is added and subtracted.
    right = steps.n * np.log(np.longdouble(steps.horizon)) + 0 * value
    return Sides(value, right, steps.n * np.log(steps.n * steps.horizon) + 0 * value)


def _comparator_gap_at_most(steps: Steps, times: int) -> Sides:
    """State that p† loses at most `times` ℓ∞ more than the best arm."""
    totals = steps.of.losses.sum(axis=1)
    gap = (totals.mean(axis=1) - totals.min(axis=1)) / steps.horizon
    return Sides(gap, times * steps.largest, steps.largest)


@statement(id="comparator", where="proof of Theorem 1", text="Σ⟨ℓ_t, p† − p⋆⟩ ≤ ℓ∞", form="as printed", of=OF_1)
def _comparator_gap_of_theorem_1(steps: Steps) -> Sides:
    return _comparator_gap_at_most(steps, 1)


@statement(id="comparator", where="proof of Theorem 2", text="Σ⟨ℓ_t, p† − p⋆⟩ ≤ ℓ∞", form="as printed", of=OF_2)
def _comparator_gap_of_theorem_2(steps: Steps) -> Sides:
    return _comparator_gap_at_most(steps, 1)


@statement(id="comparator", where="proof of Theorem 2", text="Σ⟨ℓ_t, p† − p⋆⟩ ≤ 2ℓ∞", form="as repaired", of=OF_2)
def _repaired_comparator_gap_of_theorem_2(steps: Steps) -> Sides:
    return _comparator_gap_at_most(steps, 2)
