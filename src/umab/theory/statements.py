"""The numbered statements of the paper, each as two sides of an inequality along a trajectory.

Lemmas 6 to 10 are those of the appendix, in their order: Orabona's lemma, the two on the steps of the log-barrier, and
the two on the adaptive exploration rate. A statement that the text gets wrong is here twice, as printed and as
repaired.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from umab.algorithms.base import Policy
from umab.algorithms.umab_g import UMABG
from umab.algorithms.umab_nn import UMABNN
from umab.theory.trajectory import Precise, Trajectory, log_barrier

Form = Literal["as printed", "as repaired", "as proved"]


class Sides(NamedTuple):
    """left ≤ right, run by run or run by run and round by round; where it is not said, both are nan."""

    left: Precise
    right: Precise
    size: Precise
    """The size of what was added and subtracted to get there: rounding is a share of it."""


class Statement(NamedTuple):
    """One inequality of the paper."""

    id: str
    where: str
    """Where the paper has it."""
    text: str
    form: Form
    says: Callable[[Steps], Sides]
    of: tuple[str, ...] = (UMABNN.theorem, UMABG.theorem)
    """The theorems in whose proofs it stands."""
    exploration: tuple[str, ...] = ()
    """For UMAB-G, the exploration rates that it is about; empty for all."""

    def is_about(self, policy: Policy) -> bool:
        """Whether it is a statement about this policy."""
        if policy.theorem not in self.of:
            return False
        return not (self.exploration and isinstance(policy, UMABG)) or policy.exploration in self.exploration


class Steps:
    """The quantities that several statements share, worked out once along a trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.of = trajectory
        self.n = np.longdouble(trajectory.n_arms)
        self.horizon = trajectory.n_rounds

    @functools.cached_property
    def largest(self) -> Precise:
        """ℓ∞, run by run."""
        return np.asarray(np.abs(self.of.losses).max(axis=(1, 2)))

    @functools.cached_property
    def most_negative(self) -> Precise:
        """ℓ⁻∞, run by run."""
        return np.asarray(np.maximum(0, -self.of.losses.min(axis=(1, 2))))

    @functools.cached_property
    def norms(self) -> Precise:
        """‖ℓ_t‖∞, round by round."""
        return np.asarray(np.abs(self.of.losses).max(axis=2))

    @functools.cached_property
    def squares_seen(self) -> Precise:
        """Σ_t ℓ'²_{t,k_t}."""
        total: Precise = (self.of.clipped**2).sum(axis=1)
        return total

    @functools.cached_property
    def rate(self) -> Precise:
        """η_t of the rounds 1 to T; infinite where 1/η is 0."""
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
        """p† for every arm in the place of the best: arms × arms."""
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
        # What Ψ loses to rounding is a share of its terms, not of their difference.
        size = size + np.abs(np.log(path.p[:, :-1])).sum(axis=2) * path.inverse_rate[:, :-1]
        return moved + along + curved, size

    @functools.cached_property
    def stable(self) -> Precise:
        """min(½η_t ℓ²_t, |ℓ_t|), round by round."""
        loss = self.of.clipped
        return np.asarray(np.minimum(product(self.rate / 2, loss * loss), np.abs(loss)))

    @functools.cached_property
    def exploration_cost(self) -> Precise:
        """|⟨ℓ̂'_t, c_t⟩|, round by round."""
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
    """Return the product, in which infinity times 0 is 0: a loss of 0 moves nothing, whatever the rate."""
    with np.errstate(invalid="ignore"):
        return np.where((first == 0) | (second == 0), np.longdouble(0), first * second)


def plain(left: Precise, right: Precise) -> Sides:
    """Return sides that are sums of terms of one sign, so that rounding is a share of themselves."""
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(right), np.abs(right), np.longdouble(0))
    return Sides(left, right, np.maximum(np.abs(left), finite))


def only_where(mask: Precise, sides: Sides) -> Sides:
    """Return the sides where the mask is, and nothing elsewhere."""
    return Sides(*(np.where(mask, side, np.longdouble(np.nan)) for side in sides))


def _ftrl(steps: Steps) -> Sides:
    """Say Lemma 1."""
    return regret_of_ftrl(steps, *steps.step)


def regret_of_ftrl(steps: Steps, gained: Precise, size: Precise) -> Sides:
    """Say Σ⟨ℓ̂'_t, p_t − u⟩ ≤ Ψ(u)/η_{T+1} + Σ `gained`, for the u for which it is closest to failing."""
    path = steps.of
    paid = (path.estimate * steps.p_of_arm).sum(axis=1)
    # The worst comparator of all is p_{T+1}, which minimises what is left of the bound; p† of every arm is tried too.
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


def _local_norm(steps: Steps) -> Sides:
    gained, size = steps.step
    farthest = np.maximum(steps.p_of_arm, steps.next_p_of_arm)
    return Sides(gained, product(steps.rate / 2, (steps.of.estimate * farthest) ** 2), size)


def _local_norm_of_positive(steps: Steps) -> Sides:
    gained, size = steps.step
    right = product(steps.rate / 2, (steps.of.estimate * steps.p_of_arm) ** 2)
    return only_where(steps.of.seen >= 0, Sides(gained, right, size))


def _step_at_most_its_loss(steps: Steps) -> Sides:
    gained, size = steps.step
    return only_where(steps.of.seen >= 0, Sides(gained, np.abs(steps.of.clipped), size))


def _step_of_positive(steps: Steps) -> Sides:
    gained, size = steps.step
    return only_where(steps.of.seen >= 0, Sides(gained, steps.stable, size))


def _step_of_positive_repaired(steps: Steps) -> Sides:
    gained, size = steps.step
    loss, times = steps.of.clipped, steps.p_of_arm / steps.drawn_with
    right = np.minimum(product(steps.rate / 2, (loss * times) ** 2), np.abs(loss) * times)
    return only_where(steps.of.seen >= 0, Sides(gained, right, size))


def _step_of_any(steps: Steps) -> Sides:
    gained, size = steps.step
    loss = steps.of.clipped
    right = 18 * np.minimum(product(4 * steps.rate, loss * loss), np.abs(loss))
    return Sides(gained, right, size)


def _step_of_negative(steps: Steps) -> Sides:
    gained, size = steps.step
    loss = steps.of.clipped
    right = np.minimum(72 * steps.rate * loss * loss, 10 * np.abs(loss))
    return only_where(steps.negative, Sides(gained, right, size))


def _bound3(steps: Steps) -> Sides:
    """Take the regret of the estimates against p† of the best arm."""
    path = steps.of
    paid = path.estimate * steps.p_of_arm
    left = paid.sum(axis=1) - (path.sums[:, -1] * steps.best).sum(axis=1)
    right = steps.regulariser(steps.best) * path.inverse_rate[:, -1] + steps.stable.sum(axis=1)
    return Sides(left, right, np.abs(paid).sum(axis=1) + np.abs(path.sums[:, -1]).sum(axis=1))


def _regulariser_printed(steps: Steps) -> Sides:
    printed = -np.log(steps.best / steps.n).sum(axis=1)
    return plain(printed, steps.n * np.log(steps.n * steps.horizon) + 0 * printed)


def _regulariser_repaired(steps: Steps) -> Sides:
    value = steps.regulariser(steps.best)
    # Terms of both signs: log n goes in and out.
    right = steps.n * np.log(np.longdouble(steps.horizon)) + 0 * value
    return Sides(value, right, steps.n * np.log(steps.n * steps.horizon) + 0 * value)


def _comparator_gap(times: int) -> Callable[[Steps], Sides]:
    def says(steps: Steps) -> Sides:
        totals = steps.of.losses.sum(axis=1)
        gap = (totals.mean(axis=1) - totals.min(axis=1)) / steps.horizon
        return Sides(gap, times * steps.largest, steps.largest)

    return says


def _orabona(steps: Steps) -> Sides:
    """Lemma 6 for a_t = |ℓ'_{t,k_t}|."""
    sizes = np.abs(steps.of.clipped)
    before = np.sqrt(np.cumsum(sizes**2, axis=1) - sizes**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(before > 0, np.minimum(sizes**2 / before, sizes), sizes)
    right = np.sqrt((sizes**2).sum(axis=1)) + sizes.max(axis=1)
    return plain(terms.sum(axis=1), np.longdouble(3.5) * right)


def _end_of_theorem_1(factor: Callable[[Steps], np.longdouble]) -> Callable[[Steps], Sides]:
    """½log(nT) + 3.5 ≤ the factor of √(nS)."""

    def says(steps: Steps) -> Sides:
        nothing = 0 * steps.largest
        logarithm = np.log(steps.n * steps.horizon)
        return plain(logarithm / 2 + np.longdouble(3.5) + nothing, factor(steps) + nothing)

    return says


def _p_at_most(times: float) -> Callable[[Steps], Sides]:
    def says(steps: Steps) -> Sides:
        return only_where(steps.negative, plain(steps.p_of_arm, np.longdouble(times) * steps.drawn_with))

    return says


def _next_p(steps: Steps) -> Sides:
    return only_where(steps.negative, plain(steps.next_p_of_arm, 6 * steps.p_of_arm))


def _rate_shrinks_at_most_by_3(steps: Steps) -> Sides:
    path = steps.of
    return only_where(steps.negative, plain(path.inverse_rate[:, 1:], 3 * path.inverse_rate[:, :-1]))


def _loss_against_rate(over: Literal["p", "p'"]) -> Callable[[Steps], Sides]:
    """2η_t|l| ≤ 1 with l = ℓ'_t as the proof has it, or l = ℓ̂'_t p_t as the algorithm has it."""

    def says(steps: Steps) -> Sides:
        loss = np.abs(steps.of.clipped)
        left = loss if over == "p" else loss * steps.p_of_arm / steps.drawn_with
        return only_where(steps.negative, plain(left, steps.of.inverse_rate[:, :-1] / 2))

    return says


def _clip_squared(of: Callable[[Precise, Precise], Precise]) -> Callable[[Steps], Sides]:
    """C²_{t+1} ≤ min or max of C²_t and ℓ'²_t."""

    def says(steps: Steps) -> Sides:
        clip = steps.of.clip**2
        right = of(clip[:, :-1], steps.of.clipped**2)
        return only_where(steps.negative, plain(clip[:, 1:], right))

    return says


def _half_step(steps: Steps) -> tuple[Precise, Precise, Precise, Precise]:
    """Return p_t, p̃_t (the new loss, the old rate), p_{t+1} of the arm drawn, and l = ℓ̂'_t p_t."""
    path = steps.of
    runs, rounds = path.arms.shape
    sums = path.sums[:, 1:].reshape(runs * rounds, -1)
    between = log_barrier(sums, path.inverse_rate[:, :-1].reshape(-1)).reshape(runs, rounds, -1)
    return steps.p_of_arm, path.of_arm(between), steps.next_p_of_arm, path.estimate * steps.p_of_arm


def _lemma_7(steps: Steps) -> Sides:
    old, between, _, loss = _half_step(steps)
    applies = (loss <= 0) & (2 * np.abs(loss) <= steps.of.inverse_rate[:, :-1])
    return only_where(applies, plain(between, 2 * old))


def _lemma_8(steps: Steps) -> Sides:
    _, between, new, _ = _half_step(steps)
    inverse = steps.of.inverse_rate
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = inverse[:, 1:] / inverse[:, :-1]
        return only_where(np.isfinite(ratio), plain(new, ratio * between))


def _expected_exploration(steps: Steps) -> Precise:
    """Σ_t ρ_t ⟨|ℓ_t|, |c_t|⟩, which bounds what exploration is expected to cost."""
    path = steps.of
    cost: Precise = (np.abs(path.losses * path.offsets[:, :-1]).sum(axis=2) * path.exploration[:, :-1]).sum(axis=1)
    return cost


def _lemma_4_fixed(steps: Steps) -> Sides:
    right = 2 * np.sqrt(steps.n * (steps.norms**2).sum(axis=1))
    return plain(_expected_exploration(steps), right)


def _lemma_4_adaptive(steps: Steps) -> Sides:
    """Take the last line of the proof before expectations are taken."""
    total = steps.exploration_cost.sum(axis=1)
    left = (steps.exploration_cost * steps.of.exploration[:, :-1]).sum(axis=1)
    right = 2 * np.sqrt(1 + 2 * total) + steps.largest * (2 * steps.n**2 + np.sqrt(2 * total))
    return plain(left, right)


def _lemma_9(steps: Steps) -> Sides:
    cost = steps.exploration_cost
    before = np.cumsum(cost, axis=1) - cost
    left = (cost / np.sqrt(2 * before + 1)).sum(axis=1)
    return plain(left, 2 * np.sqrt(cost.sum(axis=1) + 1) + cost.max(axis=1))


def _lemma_10(steps: Steps) -> Sides:
    total = steps.exploration_cost.sum(axis=1)
    right = steps.largest * (2 * steps.n**2 + np.sqrt(2 * total))
    return plain(steps.exploration_cost.max(axis=1), right)


def _clips(steps: Steps) -> Sides:
    return plain(steps.was_clipped.sum(axis=1), np.log2(1 + steps.largest))


def _clips_repaired(steps: Steps) -> Sides:
    scale = -steps.of.clip[:, 0]
    return plain(steps.was_clipped.sum(axis=1), np.log2(np.maximum(1, steps.most_negative / scale)))


def _clipping_error(steps: Steps) -> Sides:
    path = steps.of
    left = (np.abs(path.seen - path.clipped) / steps.drawn_with).sum(axis=1)
    with np.errstate(divide="ignore"):
        least = 1 / path.exploration[:, -1]
    return plain(left, product(steps.most_negative * steps.was_clipped.sum(axis=1), least))


def _clip_size(steps: Steps) -> Sides:
    return plain(np.abs(steps.of.clip[:, -1]), 1 + steps.largest)


def _clip_in_the_rate(steps: Steps) -> Sides:
    """Say that n C²_{T+1} ≤ 2n ℓ²∞, which the text uses when it bounds 1/η_{T+1}."""
    return plain(steps.of.clip[:, -1] ** 2, 2 * steps.largest**2)


def _clip_in_the_rate_repaired(steps: Steps) -> Sides:
    scale = -steps.of.clip[:, 0]
    return plain(steps.of.clip[:, -1] ** 2, np.maximum(scale, steps.most_negative) ** 2)


def _bound6(steps: Steps) -> Sides:
    """Take the first of the three terms of the decomposition, with repaired constants."""
    path = steps.of
    paid = path.estimate * steps.p_of_arm
    left = paid.sum(axis=1) - (path.sums[:, -1] * steps.best).sum(axis=1)
    seen = np.sqrt(steps.squares_seen)
    right = steps.n * np.log(np.longdouble(steps.horizon)) * path.inverse_rate[:, -1]
    right = right + 63 * np.sqrt(steps.n) * (seen + np.abs(path.clipped).max(axis=1))
    return Sides(left, right, np.abs(paid).sum(axis=1) + np.abs(path.sums[:, -1]).sum(axis=1))


def _decomposition(steps: Steps) -> Sides:
    """Say that the three terms sum to ⟨ℓ̂_t, p'_t − p†⟩, as |difference| ≤ 0."""
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


def _never_grows(of: Callable[[Trajectory], Precise]) -> Callable[[Steps], Sides]:
    def says(steps: Steps) -> Sides:
        values = of(steps.of)
        return plain(values[:, 1:], values[:, :-1])

    return says


def _rate_falls(steps: Steps) -> Sides:
    """η_{t+1} ≤ η_t, said of their inverses."""
    inverse = steps.of.inverse_rate
    return plain(inverse[:, :-1], inverse[:, 1:])


_G = (UMABG.theorem,)
_NN = (UMABNN.theorem,)

STATEMENTS = (
    Statement(
        "Lemma 1",
        "main text",
        "the regret of FTRL ≤ Ψ(p†)/η_{T+1} + Σ steps, for every comparator",
        "as printed",
        _ftrl,
    ),
    Statement(
        "Lemma 2", "main text", "a step ≤ ½η_t‖ℓ̂'_t‖² at some ξ between p_t and p_{t+1}", "as printed", _local_norm
    ),
    Statement("Lemma 2, ℓ ≥ 0", "main text", "for ℓ̂_t ≥ 0, ξ may be p_t", "as printed", _local_norm_of_positive),
    Statement("(4)", "main text", "for ℓ̂_t ≥ 0, a step ≤ |ℓ_{t,k_t}|", "as printed", _step_at_most_its_loss, _NN),
    Statement(
        "(5)", "main text", "the regret of FTRL ≤ Ψ(p†)/η_{T+1} + Σ min(½η_tℓ²_t, |ℓ_t|)", "as printed", _bound3, _NN
    ),
    Statement(
        "Ψ", "main text", "Ψ(p†) ≤ n log(nT) for Ψ(p) = Σ (log(1/p_k) − log(1/n))", "as printed", _regulariser_printed
    ),
    Statement(
        "Ψ", "main text", "Ψ(p†) ≤ n log T for Ψ(p) = Σ (log(1/p_k) − log n)", "as repaired", _regulariser_repaired
    ),
    Statement("comparator", "proof of Theorem 1", "Σ⟨ℓ_t, p† − p⋆⟩ ≤ ℓ∞", "as printed", _comparator_gap(1), _NN),
    Statement("comparator", "proof of Theorem 2", "Σ⟨ℓ_t, p† − p⋆⟩ ≤ ℓ∞", "as printed", _comparator_gap(1), _G),
    Statement("comparator", "proof of Theorem 2", "Σ⟨ℓ_t, p† − p⋆⟩ ≤ 2ℓ∞", "as repaired", _comparator_gap(2), _G),
    Statement(
        "Lemma 6",
        "proof of Theorem 1",
        "Σ min(a²_t/√Σ_{s<t}a²_s, a_t) ≤ 3.5√Σa²_t + 3.5 max a_t",
        "as printed",
        _orabona,
    ),
    Statement(
        "last step",
        "proof of Theorem 1",
        "½log(nT) + 3.5 ≤ 4log(nT)",
        "as printed",
        _end_of_theorem_1(lambda steps: 4 * np.log(steps.n * steps.horizon)),
        _NN,
    ),
    Statement(
        "last step",
        "proof of Theorem 1",
        "½log(nT) + 3.5 ≤ 4max(1, log(nT))",
        "as repaired",
        _end_of_theorem_1(lambda steps: 4 * max(np.longdouble(1), np.log(steps.n * steps.horizon))),
        _NN,
    ),
    Statement(
        "decomposition", "main text", "terms ①, ② and ③ sum to ⟨ℓ̂_t, p'_t − p†⟩", "as printed", _decomposition, _G
    ),
    Statement("Lemma 3, p", "main text", "for ℓ_t ≤ 0, p_{t,k} ≤ 2p'_{t,k}", "as printed", _p_at_most(2.0), _G),
    Statement(
        "Lemma 3, p", "sharper", "for ℓ_t ≤ 0, p_{t,k} ≤ (7/6)p'_{t,k}", "as repaired", _p_at_most(7.0 / 6.0), _G
    ),
    Statement("Lemma 3, next p", "main text", "for ℓ_t ≤ 0, p_{t+1,k} ≤ 6p_{t,k}", "as printed", _next_p, _G),
    Statement(
        "2η_t|ℓ'_t| ≤ 1",
        "proof of Lemma 3",
        "for ℓ_t ≤ 0, as if estimates were over p_t",
        "as printed",
        _loss_against_rate("p"),
        _G,
    ),
    Statement(
        "2η_t|ℓ'_t|p_t/p'_t ≤ 1",
        "proof of Lemma 3",
        "the same for estimates over p'_t, which it needs",
        "as printed",
        _loss_against_rate("p'"),
        _G,
    ),
    Statement("η_t ≤ 3η_{t+1}", "proof of Lemma 3", "for ℓ_t ≤ 0", "as printed", _rate_shrinks_at_most_by_3, _G),
    Statement(
        "C²_{t+1}",
        "proof of Lemma 3",
        "for ℓ_t ≤ 0, C²_{t+1} ≤ min(C²_t, ℓ'²_t)",
        "as printed",
        _clip_squared(np.minimum),
        _G,
    ),
    Statement(
        "C²_{t+1}",
        "proof of Lemma 3",
        "for ℓ_t ≤ 0, C²_{t+1} ≤ max(C²_t, ℓ'²_t)",
        "as repaired",
        _clip_squared(np.maximum),
        _G,
    ),
    Statement("Lemma 7", "proof of Lemma 3", "x̃_k ≤ 2x_k if −1/(2η) ≤ l ≤ 0", "as printed", _lemma_7, _G),
    Statement("Lemma 8", "proof of Lemma 3", "x'_k ≤ (η/η')x_k for η' ≤ η", "as printed", _lemma_8),
    Statement(
        "step, ℓ ≥ 0", "proof of Theorem 2", "a step ≤ min(½η_tℓ'²_t, |ℓ'_t|)", "as printed", _step_of_positive, _G
    ),
    Statement(
        "step, ℓ ≥ 0",
        "proof of Theorem 2",
        "a step ≤ min(½η_tℓ'²_t(p_t/p'_t)², |ℓ'_t|p_t/p'_t)",
        "as repaired",
        _step_of_positive_repaired,
        _G,
    ),
    Statement(
        "step, ℓ < 0", "proof of Theorem 2", "a step ≤ min(72η_tℓ'²_t, 10|ℓ'_t|)", "as printed", _step_of_negative, _G
    ),
    Statement("step", "proof of Theorem 2", "a step ≤ 18min(4η_tℓ'²_t, |ℓ'_t|)", "as printed", _step_of_any, _G),
    Statement("C²_{T+1} ≤ 2ℓ²∞", "proof of Theorem 2", "used to bound 1/η_{T+1}", "as printed", _clip_in_the_rate, _G),
    Statement(
        "C²_{T+1} ≤ max(|C_1|, ℓ⁻∞)²",
        "proof of Theorem 2",
        "used to bound 1/η_{T+1}",
        "as repaired",
        _clip_in_the_rate_repaired,
        _G,
    ),
    Statement(
        "(10)", "proof of Theorem 2", "term ① ≤ n log T/η_{T+1} + 63√n(√Σℓ'²_t + max|ℓ'_t|)", "as repaired", _bound6, _G
    ),
    Statement(
        "Lemma 4",
        "main text",
        "what exploration is expected to cost ≤ 2√(nΣ‖ℓ_t‖²∞)",
        "as printed",
        _lemma_4_fixed,
        _G,
        ("fixed",),
    ),
    Statement(
        "Lemma 4",
        "main text",
        "what exploration costs, before expectations are taken",
        "as printed",
        _lemma_4_adaptive,
        _G,
        ("adaptive", "maintext"),
    ),
    Statement(
        "Lemma 9", "proof of Lemma 4", "Σ a_t/√(2Σ_{s<t}a_s + 1) ≤ 2√(Σa_t + 1) + max a_t", "as printed", _lemma_9, _G
    ),
    Statement(
        "Lemma 10",
        "proof of Lemma 4",
        "|⟨ℓ̂'_t, c_t⟩| ≤ ℓ∞(2n² + √(2Σ|⟨ℓ̂'_s, c_s⟩|))",
        "as printed",
        _lemma_10,
        _G,
        ("adaptive", "maintext"),
    ),
    Statement("Lemma 5, clips", "main text", "at most log₂(1 + ℓ∞) clips", "as printed", _clips, _G),
    Statement(
        "Lemma 5, clips", "main text", "at most log₂ max(1, ℓ⁻∞/|C_1|) clips", "as repaired", _clips_repaired, _G
    ),
    Statement(
        "Lemma 5, error",
        "main text",
        "Σ‖ℓ̂_t − ℓ̂'_t‖₁ ≤ ℓ⁻∞/ρ_{T+1} a clip",
        "as printed",
        _clipping_error,
        _G,
        ("fixed", "adaptive", "anytime", "maintext"),
    ),
    Statement("|C_T| ≤ 1 + ℓ∞", "proof of Lemma 5", "", "as printed", _clip_size, _G),
    Statement("η never grows", "Algorithms 1 and 2", "", "as printed", _rate_falls),
    Statement("ρ never grows", "Algorithm 2", "", "as printed", _never_grows(lambda path: path.exploration), _G),
    Statement("C never grows", "Algorithm 2", "", "as printed", _never_grows(lambda path: path.clip), _G),
)
"""The statements that hold, or should, along every sequence of arms."""
