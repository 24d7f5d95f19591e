"""Theorem D, on SCB-D: the steps of its proof in docs/algorithms/scb-d.md that hold along every sequence of arms.

F_t(x) = 2C_t(h_t Σ x_k ln x_k − 2√t Σ √x_k), F*_t(−L) = −min_x(⟨L, x⟩ + F_t(x)), L^obs_t is the sum of the estimates
that have arrived and L_t of all, M_t = L_t − L^obs_t, and
A_t = ⟨ℓ̂_t, x_t⟩ + F*_t(−L^obs_t − ℓ̂_t) − F*_t(−L^obs_t),
B_t = F*_t(−L^obs_t) − F*_t(−L^obs_t − ℓ̂_t) − F*_t(−L_t) + F*_t(−L_{t+1}). For a centred policy, all losses are centred.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.theory.late import LatePath, leader
from umab.theory.path import Precise
from umab.theory.statements.common import Sides, only_where, plain, statement
from umab.theory.theorems import PROVED_IN, THEOREM_D

_proved = functools.partial(statement, where=PROVED_IN[THEOREM_D], form="as proved", of=(THEOREM_D,))
"""Declares a statement of this proof."""


class LateSteps:
    """The quantities that several statements share, computed once along runs."""

    def __init__(self, path: LatePath) -> None:
        self.of = path
        self.n = np.longdouble(path.n_arms)
        self.t = np.arange(1, path.n_rounds + 1, dtype=np.longdouble)

    def conjugate(self, sums: Precise) -> Precise:
        """Return F*_t(−L) for L = `sums`, runs × T × n."""
        path = self.of
        root, entropy = 2 * path.scale * np.sqrt(self.t), 2 * path.scale * path.weight
        x = leader(sums.reshape(-1, path.n_arms), root.ravel(), entropy.ravel()).reshape(sums.shape)
        lowest = sums.min(axis=2, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropies = np.where(x > 0, x * np.log(x), np.longdouble(0)).sum(axis=2)
        bent = entropy * entropies - 2 * root * np.sqrt(x).sum(axis=2)
        # Without a scale there is no regularizer, and no estimate that is not 0.
        straight = np.where(path.scale > 0, ((sums - lowest) * x).sum(axis=2), np.longdouble(0))
        return np.asarray(-(lowest[:, :, 0] + straight + bent))

    @functools.cached_property
    def estimates(self) -> Precise:
        """ℓ̂_t, runs × T × n."""
        found = np.zeros_like(self.of.losses)
        np.put_along_axis(found, self.of.arms[:, :, None], self.of.estimate[:, :, None], axis=2)
        return found

    @functools.cached_property
    def seen_before(self) -> Precise:
        """F*_t(−L^obs_t)."""
        return self.conjugate(self.of.arrived)

    @functools.cached_property
    def seen_after(self) -> Precise:
        """F*_t(−L^obs_t − ℓ̂_t)."""
        return self.conjugate(self.of.arrived + self.estimates)

    @functools.cached_property
    def before(self) -> Precise:
        """F*_t(−L_t)."""
        return self.conjugate(self.of.sums[:, :-1])

    @functools.cached_property
    def after(self) -> Precise:
        """F*_t(−L_{t+1})."""
        return self.conjugate(self.of.sums[:, 1:])

    @functools.cached_property
    def step(self) -> Precise:
        """A_t."""
        return np.asarray(self.of.estimate * self.of.of_arm(self.of.p) + self.seen_after - self.seen_before)

    @functools.cached_property
    def late_step(self) -> Precise:
        """B_t."""
        return np.asarray((self.seen_before - self.seen_after) - (self.before - self.after))

    @functools.cached_property
    def size(self) -> Precise:
        """The size of the terms of A_t and B_t."""
        values = (self.seen_before, self.seen_after, self.before, self.after)
        return np.asarray(self.of.estimate + sum(np.abs(each) for each in values))


@_proved(
    id="D1, regulariser",
    text="Σ(F*_t(−L_t) − F*_t(−L_{t+1})) − L_{T+1,i} ≤ 2C_T(2√(nT) − 2√T + h_T ln n) for every arm i",
)
def _cost_of_the_regulariser(steps: LateSteps) -> Sides:
    path, last = steps.of, steps.t[-1]
    lowest = path.sums[:, -1].min(axis=1)
    left = (steps.before - steps.after).sum(axis=1) - lowest
    width = 2 * np.sqrt(steps.n * last) - 2 * np.sqrt(last) + path.weight[:, -1] * np.log(steps.n)
    size = (np.abs(steps.before) + np.abs(steps.after)).sum(axis=1) + lowest
    return Sides(left, 2 * path.scale[:, -1] * width, size)


@_proved(id="D2, step", text="A_t ≤ ½ℓ̂²_{t,k_t} x_{t,k_t}^{3/2}/(C_t√t)")
def _cost_of_a_step(steps: LateSteps) -> Sides:
    path = steps.of
    squares = path.estimate**2 * path.of_arm(path.p) ** 1.5
    return only_where(path.scale > 0, Sides(steps.step, _over(squares, 2 * path.scale * np.sqrt(steps.t)), steps.size))


@_proved(id="D2, share", text="c_t ≤ 2C_t and x_{t,k_t} ≤ 2q_{t,k_t}, so that ℓ̂_{t,k_t}x_{t,k_t} ≤ 4C_t")
def _share_that_exploration_costs(steps: LateSteps) -> Sides:
    path = steps.of
    return plain(path.estimate * path.of_arm(path.p), 4 * path.scale)


@_proved(id="D3, late step", text="B_t ≤ ℓ̂_{t,k_t}x_{t,k_t}M_{t,k_t}/(2C_t h_t)")
def _cost_of_what_is_outstanding(steps: LateSteps) -> Sides:
    path = steps.of
    waiting = path.of_arm(path.sums[:, :-1] - path.arrived)
    right = _over(path.estimate * path.of_arm(path.p) * waiting, 2 * path.scale * path.weight)
    size = steps.size + _over(4 * path.of_arm(path.sums[:, :-1]), path.weight)
    return only_where((path.scale > 0) & (path.weight > 0), Sides(steps.late_step, right, size))


@_proved(id="D4, outstanding", text="½𝔡_t(𝔡_t + 1) ≤ D")
def _how_many_can_be_outstanding(steps: LateSteps) -> Sides:
    number = steps.of.outstanding
    return plain(number * (number + 1) / 2, steps.of.waited[:, -1:] + 0 * number)


@_proved(id="D5, exploration", text="|⟨ℓ_t, q_t − x_t⟩| ≤ 2β_t‖ℓ_t‖∞")
def _cost_of_exploration(steps: LateSteps) -> Sides:
    path = steps.of
    cost = np.abs((path.losses * (path.drawn_from - path.p)).sum(axis=2))
    norms = np.abs(path.losses).max(axis=2)
    return Sides(cost, 2 * path.exploration * norms, norms)


def _over(above: Precise, below: Precise) -> Precise:
    """Return a quotient, 0 where both are 0."""
    return np.asarray(np.divide(above, below, out=np.zeros_like(above + below), where=below > 0))
