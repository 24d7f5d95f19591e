"""The steps of the proof of docs/recommended.md, each as two sides of an inequality along a trajectory of UMAB-S.

y_t is the loss seen and y'_t what clipping leaves of it, d_t = y'_t − y_t, w_t = |y'_t| p_{t,k_t}/p'_{t,k_t}, and
A_t = Σ_{s<t} (M_s + G_s) = cn/η_t. A round is a jump if y_t < 0 and η_t w_t > ½. So is every round in which a loss is
clipped, as η_t w_t is 2 there. L⁻ is the size of the most negative loss seen. Of a centred policy all losses are
centred.
"""

from __future__ import annotations

import numpy as np

from umab.algorithms.umab_s import UMABS
from umab.theory.bounds import CLIPPED, KAPPA, REST, SHARE, growth, jumps
from umab.theory.statements import Sides, Statement, Steps, only_where, plain, product, regret_of_ftrl
from umab.theory.trajectory import OURS, PRECISION, Precise, core_of

_PAGE = "docs/recommended.md"


def _core(steps: Steps) -> UMABS:
    core: UMABS = core_of(steps.of.policy)
    return core


def _weight(steps: Steps) -> Precise:
    """Return w_t."""
    return np.asarray(np.abs(steps.of.clipped) * steps.p_of_arm / steps.drawn_with)


def _most_negative(steps: Steps) -> Precise:
    """Return L⁻ of each run."""
    return np.asarray(np.maximum(0, -steps.of.seen).max(axis=1))


def _jumps(steps: Steps) -> Precise:
    """Return which rounds are jumps, said with 1/η_t, as η_t may be infinite."""
    return np.asarray((steps.of.seen < 0) & (2 * _weight(steps) > steps.of.inverse_rate[:, :-1]))


def _size_of_cost(steps: Steps) -> Precise:
    """Return what rounding of M_t is a share of: it is small by the square of steps that are rounded by themselves."""
    return np.asarray(_weight(steps) + steps.of.stability + PRECISION * steps.of.inverse_rate[:, :-1])


def _paid(steps: Steps) -> Precise:
    """Return A_t, runs × (T + 1), as the learning rate has it."""
    return np.asarray(steps.of.inverse_rate * np.longdouble(_core(steps).rate) * steps.n)


def _floor(steps: Steps) -> Sides:
    path = steps.of
    return plain(path.exploration[:, :-1], path.drawn_from[:, :-1].min(axis=2))


def _share(steps: Steps) -> Sides:
    path = steps.of
    with np.errstate(divide="ignore"):
        most = (path.p / path.drawn_from)[:, :-1].max(axis=2)
    return plain(most, SHARE + 0 * most)


def _rest(steps: Steps) -> Sides:
    path = steps.of
    p, drawn_from = path.p[:, :-1], path.drawn_from[:, :-1]
    worst = (REST * drawn_from - p).argmax(axis=2)[:, :, None]
    left, right = (1 - np.take_along_axis(each, worst, axis=2)[:, :, 0] for each in (p, drawn_from))
    return Sides(left, REST * right, np.ones_like(left))


def _exploration(steps: Steps) -> Sides:
    path = steps.of
    p, drawn_from = path.p[:, :-1], path.drawn_from[:, :-1]
    cost = np.abs((path.losses * (drawn_from - p)).sum(axis=2))
    spread = path.losses.max(axis=2) - path.losses.min(axis=2)
    size = (np.abs(path.losses) * (drawn_from + p)).sum(axis=2)
    return Sides(cost, (steps.n - 1) * path.exploration[:, :-1] * spread, size)


def _step(steps: Steps) -> Sides:
    gained, size = steps.step
    return Sides(gained, steps.of.stability, size)


def _ftrl(steps: Steps) -> Sides:
    _, size = steps.step
    return regret_of_ftrl(steps, steps.of.stability, size + steps.of.stability)


def _small_step(steps: Steps) -> Sides:
    weight = _weight(steps)
    right = np.minimum(product(KAPPA * steps.rate, weight * weight), weight)
    return only_where(~_jumps(steps), Sides(steps.of.stability, right, _size_of_cost(steps)))


def _jump(steps: Steps) -> Sides:
    path = steps.of
    return only_where(_jumps(steps), plain(path.stability, np.abs(path.clipped) / path.exploration[:, :-1]))


def _growth(steps: Steps) -> Sides:
    """Take A²_{t+1} − A²_t as a product, so that a small step shows next to a large sum."""
    cost, paid, weight = steps.of.stability, _paid(steps), _weight(steps)
    both = paid[:, :-1] + paid[:, 1:]
    right = growth(_core(steps), steps.of.n_arms) * weight * weight
    return only_where(~_jumps(steps), Sides(cost * both, right, _size_of_cost(steps) * both + right))


def _cost_of_jumps(steps: Steps) -> Precise:
    """Return ((8/3)cn + 1/ρ_T)L⁻."""
    path = steps.of
    return np.asarray(jumps(_core(steps), path.n_arms, 1 / path.exploration[:, -2]) * _most_negative(steps))


def _all_jumps(steps: Steps) -> Sides:
    added = steps.of.stability + steps.of.charge
    return plain(np.where(_jumps(steps), added, np.longdouble(0)).sum(axis=1), _cost_of_jumps(steps))


def _total(steps: Steps) -> Sides:
    squares = np.where(_jumps(steps), np.longdouble(0), _weight(steps) ** 2).sum(axis=1)
    root = np.sqrt(growth(_core(steps), steps.of.n_arms) * squares)
    return plain(_paid(steps)[:, -1], root + _cost_of_jumps(steps))


def _clipping(steps: Steps) -> Sides:
    path = steps.of
    clipped = ((1 - steps.drawn_with) * (path.clipped - path.seen)).sum(axis=1)
    return plain(clipped, CLIPPED * _most_negative(steps))


OF_UMAB_S = tuple(
    Statement(id, _PAGE, text, "as proved", says, (OURS,))
    for id, text, says in (
        ("S1, floor", "ρ_t ≤ p'_{t,k} for every arm", _floor),
        ("S2, share", "p_{t,k} ≤ (4/3)p'_{t,k} for every arm", _share),
        ("S2, rest", "1 − p_{t,k} ≤ (6/5)(1 − p'_{t,k}) for every arm", _rest),
        (
            "S3, exploration",
            "|⟨ℓ_t, p'_t − p_t⟩| ≤ (n − 1)ρ_t(max_k ℓ_{t,k} − min_k ℓ_{t,k}), so at most 2(n − 1)ρ_t‖ℓ_t‖∞",
            _exploration,
        ),
        ("S4, step", "what FTRL gains by knowing ℓ̂_t ≤ M_t", _step),
        ("S4, FTRL", "Σ⟨ℓ̂_t, p_t − u⟩ ≤ Ψ(u)/η_{T+1} + ΣM_t, for every comparator u", _ftrl),
        ("S5, small step", "M_t ≤ min(κη_tw²_t, w_t), but for jumps", _small_step),
        ("S6, jump", "for a jump, M_t ≤ |y'_t|/ρ_t", _jump),
        ("S7, growth", "A²_{t+1} ≤ A²_t + (1 + 2κcn)w²_t, but for jumps", _growth),
        ("S8, jumps", "Σ(M_t + G_t) over the jumps ≤ ((8/3)cn + 1/ρ_T)L⁻", _all_jumps),
        ("S9, total", "A_{T+1} ≤ √((1 + 2κcn)Σw²_t but for jumps) + ((8/3)cn + 1/ρ_T)L⁻", _total),
        ("S10, clipping", "Σ(1 − p'_{t,k_t})d_t ≤ (4/(3gK))L⁻, where g = 1/8 and K = 2", _clipping),
    )
)
"""The statements about UMAB-S, bare or centred, that hold along every sequence of arms."""
