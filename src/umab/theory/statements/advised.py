"""What the statements about UMAB-E share: the quantities in both of its proofs."""

from __future__ import annotations

import functools

import numpy as np

from umab.algorithms.umab_s import LIMIT
from umab.theory.advice import AdvisedPath
from umab.theory.path import Precise
from umab.theory.statements.common import Sides


class AdvisedSteps:
    """The quantities that several statements share, computed once along runs of a policy over experts."""

    def __init__(self, path: AdvisedPath) -> None:
        self.of = path
        self.log_n = np.log(np.longdouble(path.n_experts))

    @functools.cached_property
    def rate(self) -> Precise:
        """η_t for rounds 1 to T; infinite where 1/η is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / self.of.inverse_rate[:, :-1])

    @functools.cached_property
    def drawn_with(self) -> Precise:
        """p'_{t,k_t}."""
        return self.of.of_arm(self.of.drawn_from)

    @functools.cached_property
    def size(self) -> Precise:
        """|y'_t|/p'_{t,k_t}."""
        return np.asarray(np.abs(self.of.clipped) / self.drawn_with)

    @functools.cached_property
    def weight(self) -> Precise:
        """w_t = |y'_t| p_{t,k_t}/p'_{t,k_t}."""
        return np.asarray(self.size * self.of.of_arm(self.of.p))

    @functools.cached_property
    def largest(self) -> Precise:
        """max_i |ℓ̂_{t,i}|."""
        return np.asarray(np.abs(self.of.estimates).max(axis=2))

    @functools.cached_property
    def charged(self) -> Precise:
        """⟨P_t, ℓ̂_t⟩."""
        return np.asarray((self.of.weights[:, :-1] * self.of.estimates).sum(axis=2))

    @functools.cached_property
    def most_negative(self) -> Precise:
        """L⁻ of each run: the size of the most negative y_t."""
        return np.asarray(np.maximum(0, -self.of.seen).max(axis=1))

    @functools.cached_property
    def learned_from(self) -> Precise:
        """ℓ'_t, the losses of all arms after clipping, runs × T × n: what ℓ̂_t is an estimate of, from round 2 on."""
        path = self.of
        if path.form == "entropy":
            return path.losses
        inverse = path.inverse_rate[:, :-1, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where((inverse > 0) & (path.p > 0), LIMIT * path.drawn_from / path.p * inverse, np.inf)
        return np.asarray(np.maximum(path.losses, -limits))

    def among_advised(self, values: Precise, otherwise: float) -> Precise:
        """Return values, runs × T × n, with another one for arms that nobody advises."""
        return np.where(self.of.advised, values, np.longdouble(otherwise))

    def worst_expert(self, left: Precise, right: Precise, size: Precise) -> Sides:
        """Return the sides for the expert for which they are closest to failing; all are runs × T × N."""
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(size > 0, (left - right) / size, -np.inf)
        at = excess.argmax(axis=2)[:, :, None]
        return Sides(*(np.take_along_axis(each, at, axis=2)[:, :, 0] for each in (left, right, size)))


def floor_holds(steps: AdvisedSteps) -> Sides:
    """State ρ_t ≤ p'_{t,k} for every arm that somebody advises; if experts have the floor, ρ_t max_i E_{t,i,k}."""
    path = steps.of
    least = path.exploration[:, None] * (1 if path.floor_on_arms else path.rows.max(axis=2))
    with np.errstate(divide="ignore", invalid="ignore"):
        most = steps.among_advised(least / path.drawn_from, 0.0).max(axis=2)
    return Sides(most, np.ones_like(most), np.ones_like(most))


def share_at_most(steps: AdvisedSteps, share: np.longdouble) -> Sides:
    """State that p_{t,k} is at most so many times p'_{t,k} for every arm that somebody advises."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = steps.among_advised(steps.of.p / steps.of.drawn_from, 0.0).max(axis=2)
    return Sides(most, np.full_like(most, share), np.full_like(most, share))


def most_moved(steps: AdvisedSteps) -> Precise:
    """Return (m_t − 1)ρ_t for m_t arms that somebody advises; if experts have the floor, m_t is their number."""
    path = steps.of
    number = path.advised.sum(axis=1) if path.floor_on_arms else path.n_experts
    return np.asarray((number - 1) * path.exploration)


def moved_at_most_floor(steps: AdvisedSteps) -> Sides:
    """State Σ_k max(0, p'_{t,k} − p_{t,k}) ≤ (m_t − 1)ρ_t."""
    moved = np.maximum(0, steps.of.drawn_from - steps.of.p).sum(axis=2)
    return Sides(moved, most_moved(steps) + 0 * moved, np.ones_like(moved))


def exploration_at_most_floor(steps: AdvisedSteps) -> Sides:
    """State ⟨ℓ_t, p'_t − p_t⟩ ≤ (m_t − 1)ρ_t D_t, where D_t is the spread of the losses that somebody advises."""
    path = steps.of
    low, high = (steps.among_advised(path.losses, end) for end in (np.inf, -np.inf))
    spread = high.max(axis=2) - low.min(axis=2)
    cost = (path.losses * (path.drawn_from - path.p)).sum(axis=2)
    size = (np.abs(path.losses) * (path.drawn_from + path.p)).sum(axis=2)
    return Sides(cost, most_moved(steps) * spread, size)


def estimates_are_unbiased(steps: AdvisedSteps) -> Sides:
    """State that |E[ℓ̂_{t,i}] − ⟨E_{t,i}, ℓ'_t⟩| is 0 for every expert, from round 2 on, where b_t is known."""
    path, losses = steps.of, steps.learned_from
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(path.drawn_from > 0, path.drawn_from * (losses / path.drawn_from), np.longdouble(0))
    expected = (path.rows * each[:, :, None]).sum(axis=3)
    left = np.abs(expected - (path.rows * losses[:, :, None]).sum(axis=3))
    size = (path.rows * np.abs(losses)[:, :, None]).sum(axis=3)
    return after_the_first(steps.worst_expert(left, 0 * left, size))


def after_the_first(sides: Sides) -> Sides:
    """Return the sides without round 1."""
    return Sides(*(np.concatenate([np.full_like(each[:, :1], np.nan), each[:, 1:]], axis=1) for each in sides))
