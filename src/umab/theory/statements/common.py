"""What the statements of all proofs share: how they are declared, and the quantities in them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from umab.algorithms.base import Policy
from umab.algorithms.umab_g import ExtraExploration
from umab.theory.path import Precise, Trajectory
from umab.theory.theorems import THEOREM_1, THEOREM_2, theorem_of

Form = Literal["as printed", "as repaired", "as proved"]

OF_1, OF_2 = (THEOREM_1,), (THEOREM_2,)
BOTH = (*OF_1, *OF_2)


class Sides(NamedTuple):
    """left ≤ right, for each run or for each run and round; both are nan where nothing is stated."""

    left: Precise
    right: Precise
    size: Precise
    """The size of the terms that were added and subtracted: the rounding error is a share of it."""


class Statement(NamedTuple):
    """One inequality of a proof."""

    id: str
    where: str
    """Where it is in the paper or the proof."""
    text: str
    form: Form
    says: Callable[[Any], Sides]
    """What it says along a path: of `Steps`, or of `AdvisedSteps` for a policy over experts."""
    of: tuple[str, ...] = BOTH
    """The theorems whose proofs contain it."""
    exploration: tuple[str, ...] = ()
    """For UMAB-G, the exploration rates to which it applies; empty for all."""

    def is_about(self, policy: Policy) -> bool:
        """Whether it is a statement about this policy."""
        if theorem_of(policy) not in self.of:
            return False
        return not (self.exploration and isinstance(policy, ExtraExploration)) or policy.exploration in self.exploration


def statement(
    *, id: str, where: str, text: str, form: Form, of: tuple[str, ...] = BOTH, exploration: tuple[str, ...] = ()
) -> Callable[[Callable[[Any], Sides]], Statement]:
    """Return a decorator that turns a function into the statement whose sides it returns."""
    return lambda says: Statement(id, where, text, form, says, of, exploration)


class Steps:
    """The quantities that several statements share, computed once along a trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.of = trajectory
        self.n = np.longdouble(trajectory.n_arms)
        self.horizon = trajectory.n_rounds

    @functools.cached_property
    def largest(self) -> Precise:
        """ℓ∞ of each run."""
        return np.asarray(np.abs(self.of.losses).max(axis=(1, 2)))

    @functools.cached_property
    def most_negative(self) -> Precise:
        """ℓ⁻∞ of each run."""
        return np.asarray(np.maximum(0, -self.of.losses.min(axis=(1, 2))))

    @functools.cached_property
    def norms(self) -> Precise:
        """‖ℓ_t‖∞ of each round."""
        return np.asarray(np.abs(self.of.losses).max(axis=2))

    @functools.cached_property
    def squares_seen(self) -> Precise:
        """Σ_t ℓ'²_{t,k_t}."""
        total: Precise = (self.of.clipped**2).sum(axis=1)
        return total

    @functools.cached_property
    def rate(self) -> Precise:
        """η_t for rounds 1 to T; infinite where 1/η is 0."""
        with np.errstate(divide="ignore"):
            rate: Precise = 1 / self.of.inverse_rate[:, :-1]
        return rate

    @functools.cached_property
    def p_of_arm(self) -> Precise:
        """p_{t,k_t}."""
        return self.of.of_arm(self.of.p)

    @functools.cached_property
    def next_p_of_arm(self) -> Precise:
        """p_{t+1,k_t}."""
        return self.of.of_arm(self.of.p[:, 1:])

    @functools.cached_property
    def drawn_with(self) -> Precise:
        """p'_{t,k_t}."""
        return self.of.of_arm(self.of.drawn_from)

    @functools.cached_property
    def comparators(self) -> Precise:
        """p† with each arm in place of the best arm: arms × arms."""
        horizon = np.longdouble(self.horizon)
        return (1 - 1 / horizon) * np.eye(self.of.n_arms, dtype=np.longdouble) + 1 / (self.n * horizon)

    @functools.cached_property
    def best(self) -> Precise:
        """p† of the best arm of each run: runs × arms."""
        return np.asarray(self.comparators[self.of.losses.sum(axis=1).argmin(axis=1)])

    def regulariser(self, p: Precise) -> Precise:
        """Ψ, 0 at the uniform distribution."""
        value: Precise = -np.log(self.n * p).sum(axis=-1)
        return value

    @functools.cached_property
    def step(self) -> tuple[Precise, Precise]:
        """⟨ℓ̂'_t, p_t − p_{t+1}⟩ + F_t(p_t) − F_t(p_{t+1}), and the size of its terms."""
        path = self.of
        change = path.p[:, :-1] - path.p[:, 1:]
        gaps = path.sums - path.sums.min(axis=2, keepdims=True)  # a constant changes nothing, as p sums to 1
        moved = path.estimate * (self.p_of_arm - self.next_p_of_arm)
        along = (gaps[:, :-1] * change).sum(axis=2)
        bent = self.regulariser(path.p)
        curved = (bent[:, :-1] - bent[:, 1:]) * path.inverse_rate[:, :-1]
        size = np.abs(moved) + (gaps[:, :-1] * np.abs(change)).sum(axis=2) + np.abs(curved)
        # The rounding error of Ψ is a share of its terms, not of their difference.
        size = size + np.abs(np.log(path.p[:, :-1])).sum(axis=2) * path.inverse_rate[:, :-1]
        return moved + along + curved, size

    @functools.cached_property
    def stable(self) -> Precise:
        """min(½η_t ℓ²_t, |ℓ_t|) of each round."""
        loss = self.of.clipped
        return np.asarray(np.minimum(product(self.rate / 2, loss * loss), np.abs(loss)))

    @functools.cached_property
    def exploration_cost(self) -> Precise:
        """|⟨ℓ̂'_t, c_t⟩| of each round."""
        return np.asarray(np.abs(self.of.estimate * self.of.of_arm(self.of.offsets)))

    @functools.cached_property
    def was_clipped(self) -> Precise:
        """Whether ℓ'_t is not ℓ_t, as 0 or 1."""
        return np.asarray(self.of.clipped != self.of.seen).astype(np.longdouble)

    @functools.cached_property
    def negative(self) -> Precise:
        """Whether ℓ_{t,k_t} ≤ 0, as a mask."""
        return self.of.seen <= 0


def product(first: Precise, second: Precise) -> Precise:
    """Return the product, with infinity times 0 as 0: a loss of 0 has no effect, whatever the rate."""
    with np.errstate(invalid="ignore"):
        return np.where((first == 0) | (second == 0), np.longdouble(0), first * second)


def plain(left: Precise, right: Precise) -> Sides:
    """Return sides that are sums of terms of one sign, so that the rounding error is a share of the sides."""
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(right), np.abs(right), np.longdouble(0))
    return Sides(left, right, np.maximum(np.abs(left), finite))


def only_where(mask: Precise, sides: Sides) -> Sides:
    """Return the sides where the mask is true, and nan elsewhere."""
    return Sides(*(np.where(mask, side, np.longdouble(np.nan)) for side in sides))


def step_at_most(steps: Steps, right: Precise) -> Sides:
    """State that each step is at most `right`."""
    gained, size = steps.step
    return Sides(gained, right, size)


def exploration_at_most_floor(steps: Steps, more: Precise | int = 0) -> Sides:
    """State |⟨ℓ_t, p'_t − p_t⟩| ≤ ((n − 1)ρ_t + more)(max_k ℓ_{t,k} − min_k ℓ_{t,k}).

    With nothing more, it holds if p'_t is p_t raised to ρ_t.
    """
    path = steps.of
    p, drawn_from = path.p[:, :-1], path.drawn_from[:, :-1]
    cost = np.abs((path.losses * (drawn_from - p)).sum(axis=2))
    spread = path.losses.max(axis=2) - path.losses.min(axis=2)
    size = (np.abs(path.losses) * (drawn_from + p)).sum(axis=2)
    return Sides(cost, ((steps.n - 1) * path.exploration[:, :-1] + more) * spread, size)
