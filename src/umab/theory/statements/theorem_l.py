"""Theorem L, on UMAB-S with late feedback: the steps of its proof in docs/late.md that hold along every run.

s is a round, and what belongs to the arrival of its loss has its index too: P_s, η_s and A_s are the iterate, the rate
and the sum before the loss is learned. y_s is the loss seen and y'_s the clipped loss; for k = k_s,
w_s = |y'_s| p_{s,k}/p'_{s,k} and v_s = |y'_s| P_{s,k}/p'_{s,k}. M_s is the stability cost,
δ_s = ℓ̂_{s,k}(p_{s,k} − P_{s,k}), and C_s is by how much A grows, without G_s. r is in the flight of s if its loss
arrives after the draw of s and before the loss of s. For a centred policy, all losses are centred.
"""

from __future__ import annotations

import functools

import numpy as np

from umab.algorithms.umab_s import DRIFT, UMABS
from umab.theory.constants import KAPPA, SHARE, clipping
from umab.theory.late_barrier import ArrivalPath, fall_of_rate
from umab.theory.path import PRECISION, Precise
from umab.theory.statements.common import Sides, only_where, plain, product, statement
from umab.theory.theorems import LATE, THEOREM_R, core_of

_proved = functools.partial(statement, where=LATE, form="as proved", of=(THEOREM_R,))
"""Declares a statement of this proof."""

_RISE = np.log(np.longdouble(3))
"""An arm counts as risen if its logarithm grew by more than this, apart from the change of the rate."""


class ArrivalSteps:
    """The quantities that several statements share, computed once along runs."""

    def __init__(self, path: ArrivalPath) -> None:
        self.of = path
        self.n = np.longdouble(path.n_arms)
        core = core_of(path.policy, UMABS)
        self.times = np.longdouble(core.rate) * self.n
        self.negative = path.seen < 0

    @functools.cached_property
    def rate(self) -> Precise:
        """η_s, infinite while A_s is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.times / self.of.paid)

    @functools.cached_property
    def weight(self) -> Precise:
        """w_s."""
        return np.asarray(np.abs(self.of.estimate) * self.of.of_arm(self.of.p))

    @functools.cached_property
    def force(self) -> Precise:
        """v_s."""
        return np.asarray(np.abs(self.of.estimate) * self.of.of_arm(self.of.at_arrival))

    @functools.cached_property
    def step(self) -> Precise:
        """η_s v_s."""
        return product(self.rate, self.force)

    @functools.cached_property
    def gained(self) -> Precise:
        """δ_s, if it is positive, else 0."""
        return np.asarray(np.maximum(0, self.of.drift))

    @functools.cached_property
    def growth(self) -> Precise:
        """ln(A⁺/A), where A⁺ is the sum after the loss of s; infinite if only A is 0, and 0 if both are."""
        return _log_ratio(self.of.paid + self.of.cost + self.of.charge, self.of.paid)

    @functools.cached_property
    def growth_in_flight(self) -> Precise:
        """The logarithm of A at the arrival over A at the draw."""
        return _log_ratio(self.of.paid, self.of.paid_at_draw)

    @functools.cached_property
    def pushed(self) -> Precise:
        """η_s ℓ̂_s P²_{s,k}/Σ_j P²_{s,j}, by which the loss of s raises the other arms at most, in logarithms."""
        path = self.of
        share = path.of_arm(path.at_arrival) / (path.at_arrival**2).sum(axis=2)
        return np.asarray(product(self.step, share))

    @functools.cached_property
    def rounding(self) -> Precise:
        """A size of which the rounding errors of M_s and C_s are shares."""
        path = self.of
        return np.asarray(self.weight + self.force + path.stability + path.cost + PRECISION * path.paid)


def _log_ratio(above: Precise, below: Precise) -> Precise:
    """Return ln(above/below), 0 where they are equal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above == below, np.longdouble(0), np.log(above) - np.log(below))


def _log_moves(after: Precise, before: Precise) -> Precise:
    """Return the change of the logarithm of each arm; runs × T × n."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(after) - np.log(before))


def _distance(after: Precise, before: Precise) -> Precise:
    """Return how much probability has moved."""
    return np.asarray(np.maximum(0, after - before).sum(axis=2))


@_proved(id="L1, FTRL", text="Σ⟨ℓ̂_s, p_s − u⟩ ≤ Ψ(u)/η_end + Σ(M_s + δ_s), for every comparator u")
def _regret_in_the_order_of_arrival(steps: ArrivalSteps) -> Sides:
    """Take the comparator for which it is closest to failing: the last iterate, or almost a single arm."""
    path, horizon = steps.of, np.longdouble(steps.of.n_rounds)
    paid = path.estimate * path.of_arm(path.p)
    arms = (1 - 1 / horizon) * np.eye(path.n_arms, dtype=np.longdouble) + 1 / (steps.n * horizon)
    last = np.take_along_axis(path.after, path.order[:, -1:, None], axis=1)
    others = np.concatenate([np.broadcast_to(arms, (len(last), *arms.shape)), last], axis=1)
    with np.errstate(divide="ignore"):
        bent = -np.log(steps.n * others).sum(axis=2)
    bent = product(bent, (path.paid_in_all / steps.times)[:, None] + 0 * bent)
    compared = (others * path.sums[:, None, :]).sum(axis=2)
    left = paid.sum(axis=1)[:, None] - compared
    right = bent + (path.stability + path.drift).sum(axis=1)[:, None]
    worst = (left - right).argmax(axis=1)[:, None]
    left, right, bent = (np.take_along_axis(each, worst, axis=1)[:, 0] for each in (left, right, bent))
    size = (np.abs(paid) + np.abs(path.estimate)).sum(axis=1) + np.abs(bent) + steps.rounding.sum(axis=1)
    return Sides(left, right, size)


@_proved(id="L1, charge", text="M_s + δ_s ≤ C_s/λ, where λ = 1/8")
def _charge_is_a_share_of_the_cost(steps: ArrivalSteps) -> Sides:
    path = steps.of
    return Sides(path.stability + path.drift, path.cost / DRIFT, steps.rounding)


@_proved(id="L2, loss", text="if y_s ≥ 0, C_s ≤ w_s")
def _cost_at_most_the_loss(steps: ArrivalSteps) -> Sides:
    return only_where(~steps.negative, Sides(steps.of.cost, steps.weight, steps.rounding))


@_proved(id="L2, step", text="if y_s ≥ 0, C_s ≤ ½η_s w²_s + λδ⁺_s")
def _cost_of_a_step_up(steps: ArrivalSteps) -> Sides:
    right = product(steps.rate, steps.weight**2) / 2 + DRIFT * steps.gained
    return only_where(~steps.negative, Sides(steps.of.cost, right, steps.rounding))


@_proved(id="L3, step", text="if y_s < 0 and η_s v_s ≤ ½, C_s ≤ κη_s w²_s + (κ + λ)δ⁺_s")
def _cost_of_a_step_down(steps: ArrivalSteps) -> Sides:
    right = product(KAPPA * steps.rate, steps.weight**2) + (KAPPA + DRIFT) * steps.gained
    return only_where(steps.negative & (steps.step <= 0.5), Sides(steps.of.cost, right, steps.rounding))


@_proved(id="L3, jump", text="if y_s < 0, C_s ≤ |y'_s|/p'_{s,k}")
def _cost_of_a_jump(steps: ArrivalSteps) -> Sides:
    return only_where(steps.negative, plain(steps.of.cost, np.abs(steps.of.estimate)))


@_proved(id="L4, fall", text="if y_s ≥ 0, the loss alone lowers ln P_k by ln(1 + η_s v_s) at most")
def _fall_of_one_arm(steps: ArrivalSteps) -> Sides:
    falls = -steps.of.of_arm(_log_moves(steps.of.moved, steps.of.at_arrival))
    finite = np.isfinite(steps.step) & ~steps.negative
    return only_where(finite, Sides(falls, np.log1p(steps.step), 1 + np.abs(falls)))


@_proved(id="L4, others", text="if y_s ≥ 0, the loss alone lowers no P_j but P_k; if y_s < 0, it raises none but P_k")
def _others_move_the_other_way(steps: ArrivalSteps) -> Sides:
    path = steps.of
    moves = np.where(steps.negative[:, :, None], 1, -1) * (path.moved - path.at_arrival)
    worst = np.where(np.arange(path.n_arms) == path.arms[:, :, None], np.longdouble(0), moves).max(axis=2)
    return Sides(worst, 0 * worst, 1 + 0 * worst)


@_proved(
    id="L4, rises",
    text="if y_s ≥ 0, the loss alone raises the logarithms of the other arms by η_s ℓ̂_s P²_k/ΣP² at most",
)
def _rise_of_the_other_arms(steps: ArrivalSteps) -> Sides:
    path = steps.of
    rises = np.maximum(0, _log_moves(path.moved, path.at_arrival)).sum(axis=2)
    finite = np.isfinite(steps.pushed) & ~steps.negative
    return only_where(finite, Sides(rises, steps.pushed, steps.n + rises))


@_proved(id="L4, rise", text="if y_s < 0 and η_s v_s ≤ ½, the loss alone moves ln P_k by −ln(1 − η_s v_s) at most")
def _rise_of_one_arm(steps: ArrivalSteps) -> Sides:
    path = steps.of
    rise = path.of_arm(_log_moves(path.moved, path.at_arrival))
    small = steps.negative & (steps.step <= 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        return only_where(small, Sides(rise, -np.log1p(-steps.step), 1 + rise))


@_proved(id="L4, distance", text="the loss alone moves a probability of 2η_s v_s at most")
def _probability_moved_by_a_loss(steps: ArrivalSteps) -> Sides:
    moved = _distance(steps.of.moved, steps.of.at_arrival)
    return only_where(np.isfinite(steps.step), Sides(moved, 2 * steps.step, 1 + moved))


@_proved(
    id="L5, rate", text="the change of the rate moves each ln P_k by at most ln(A⁺/A) up and ((√n − 1)/2)ln(A⁺/A) down"
)
def _moves_of_the_rate(steps: ArrivalSteps) -> Sides:
    path = steps.of
    moves = _log_moves(path.after, path.moved)
    finite = np.isfinite(steps.growth) & np.isfinite(moves).all(axis=2)
    moves = np.where(finite[:, :, None], moves, 0)
    fall = fall_of_rate(steps.n)
    left = np.maximum(moves.max(axis=2), -moves.min(axis=2) / (fall if fall > 0 else 1))
    return only_where(finite, Sides(left, steps.growth, 1 + left))


@_proved(id="L5, distance", text="the change of the rate moves a probability of ln(A⁺/A) at most")
def _probability_moved_by_the_rate(steps: ArrivalSteps) -> Sides:
    moved = _distance(steps.of.after, steps.of.moved)
    return only_where(np.isfinite(steps.growth), Sides(moved, steps.growth, 1 + moved))


@_proved(
    id="L6, fall",
    text="if no loss is negative, ln(p_{s,k}/P_{s,k}) ≤ Σ ln(1 + η_r v_r) + ((√n − 1)/2)ln(A_s/A at the draw), over "
    "the r in the flight of s with k_r = k_s",
)
def _fall_in_flight(steps: ArrivalSteps) -> Sides:
    path = steps.of
    fell = path.of_arm(_log_moves(path.p, path.at_arrival))
    right = path.in_flight(np.log1p(steps.step), same_arm=True)
    right = right + product(np.full_like(right, fall_of_rate(steps.n)), steps.growth_in_flight)
    never = ~np.asarray(steps.negative.any(axis=1))[:, None] & np.isfinite(right)
    return only_where(never, Sides(fell, right, steps.n + np.abs(fell)))


@_proved(
    id="L6, distance",
    text="Σ_k(P_{s,k} − p_{s,k})⁺ ≤ Σ min(1, 2η_r v_r) + ln(A_s/A at the draw), over the flight of s",
)
def _probability_moved_in_flight(steps: ArrivalSteps) -> Sides:
    moved = _distance(steps.of.at_arrival, steps.of.p)
    right = steps.of.in_flight(np.minimum(1, 2 * steps.step)) + steps.growth_in_flight
    return only_where(np.isfinite(right), Sides(moved, right, steps.n + moved))


@_proved(
    id="L6, risen",
    text="the number of arms with ln(P_{s,k}/p_{s,k}) > ln 3 + ln(A_s/A at the draw) is at most Σ 2η_r v_r over the "
    "negative losses and Σ η_r ℓ̂_r P²_k/(ln 3 ΣP²) over the others in the flight of s",
)
def _arms_risen_in_flight(steps: ArrivalSteps) -> Sides:
    path = steps.of
    rises = _log_moves(path.at_arrival, path.p)
    with np.errstate(invalid="ignore"):
        risen = (rises > (_RISE + steps.growth_in_flight)[:, :, None] * (1 + 1e-12)).sum(axis=2)
    # There are n arms, so no term need be larger.
    right = path.in_flight(np.minimum(steps.n, np.where(steps.negative, 2 * steps.step, steps.pushed / _RISE)))
    known = np.isfinite(right) & np.isfinite(steps.growth_in_flight)
    return only_where(known, plain(risen.astype(np.longdouble), right))


@_proved(id="L7, clipping", text="Σ(1 − p'_{s,k_s})e_s ≤ (4/(3gK))L⁻, where e_s = y'_s − y_s, g = 1/8 and K = 2")
def _all_that_is_clipped(steps: ArrivalSteps) -> Sides:
    path = steps.of
    clipped = ((1 - path.of_arm(path.drawn_from)) * (path.clipped - path.seen)).sum(axis=1)
    return plain(clipped, clipping(SHARE) * np.maximum(0, -path.seen).max(axis=1))


@_proved(id="L7, unclipped", text="a loss is clipped only if A_s < (4/(3K))cnL⁻")
def _where_nothing_is_clipped(steps: ArrivalSteps) -> Sides:
    path = steps.of
    limit = SHARE / 2 * steps.times * np.maximum(0, -path.seen).max(axis=1)[:, None]
    return only_where(path.clipped > path.seen, plain(path.paid, limit + 0 * path.paid))


@_proved(id="L8, pairs", text="the flights contain D losses in all, and ½σ(σ + 1) ≤ D")
def _pairs_in_all(steps: ArrivalSteps) -> Sides:
    path = steps.of
    waited, most = path.outstanding.sum(axis=1), path.outstanding.max(axis=1)
    pairs = path.in_flight(np.ones_like(path.paid)).sum(axis=1)
    return plain(np.maximum(pairs, most * (most + 1) / 2), waited)


@_proved(
    id="L9, total",
    text="if no loss is negative, A_end ≤ 2√Q + (4/3)(σ + 1)max y_s, where Q = ½cnΣw²_s + λΣw_s(cn v_r 1[k_r = k_s] + "
    "½(√n − 1)w_r) over all s and all r in their flights",
)
def _all_that_is_paid(steps: ArrivalSteps) -> Sides:
    path = steps.of
    never = ~np.asarray(steps.negative.any(axis=1))
    same, any_arm = path.in_flight(steps.force, same_arm=True), path.in_flight(steps.weight)
    late = DRIFT * steps.weight * (steps.times * same + fall_of_rate(steps.n) * any_arm)
    squares = (steps.times / 2 * steps.weight**2 + late).sum(axis=1)
    most = SHARE * (path.outstanding.max(axis=1) + 1) * np.abs(path.seen).max(axis=1)
    return only_where(never, plain(path.paid_in_all, 2 * np.sqrt(squares) + most))


@_proved(
    id="L10, exploration", text="|⟨ℓ_s, p'_s − p_s⟩| ≤ (n − 1)ρ(max_k ℓ_{s,k} − min_k ℓ_{s,k}), with the ρ of the draw"
)
def _cost_of_exploration(steps: ArrivalSteps) -> Sides:
    path = steps.of
    cost = np.abs((path.losses * (path.drawn_from - path.p)).sum(axis=2))
    spread: Precise = path.losses.max(axis=2) - path.losses.min(axis=2)
    size = (np.abs(path.losses) * (path.drawn_from + path.p)).sum(axis=2)
    return Sides(cost, (steps.n - 1) * path.exploration * spread, size)
