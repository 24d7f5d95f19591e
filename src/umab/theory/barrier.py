"""The log-barrier and the steps of UMAB-S, for many runs at a time, in extended precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.umab_s import CHARGE, LIMIT
from umab.theory.levels import levels
from umab.theory.path import PRECISION, Precise


def log_barrier(sums: Precise, inverse_rate: Precise) -> Precise:
    """Return argmin ⟨L, p⟩ + (1/η) Σ log(1/p_k) for each row of `sums` and entry of `inverse_rate`, by Newton's method.

    p_k = 1/(x_k + μ) with x = η(L − min L). The start, n − mean(x), is left of μ by Jensen's inequality; from there the
    iterates climb to μ, as `umab.simplex.power_shift` shows.
    """
    n_arms = sums.shape[1]
    gaps = sums - sums.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(gaps == 0, np.longdouble(0), gaps / inverse_rate[:, None])
    shift = np.maximum(1, n_arms - x.mean(axis=1))
    for _ in range(200):
        p = 1 / (x + shift[:, None])
        total = p.sum(axis=1)
        step = total * (total - 1) / (p * p).sum(axis=1)
        shift = shift + step
        if (np.abs(step) <= 4 * PRECISION * shift).all():
            break
    p = 1 / (x + shift[:, None])
    normalised: Precise = p / p.sum(axis=1, keepdims=True)
    return normalised


def centred(losses: Precise, arms: npt.NDArray[np.intp], *, local: bool = False) -> Precise:
    """Return ℓ_t − b_t, runs × T × n, where b_t is the mean of the losses seen before t, and b_1 the first one seen.

    If `local`, b_t may be a moving mean of the losses seen before, see `umab.theory.levels`. All are measured from the
    first loss seen, so that an offset of the losses costs no digits.
    """
    seen = np.take_along_axis(losses, arms[:, :, None], axis=2)
    origin = seen[:, :1]
    if local:
        return np.asarray((losses - origin) - levels((seen - origin)[:, :, 0])[:, :, None])
    before = np.cumsum(np.concatenate([0 * origin, (seen - origin)[:, :-1]], axis=1), axis=1)
    count = np.maximum(1, np.arange(losses.shape[1]))[:, None]
    return np.asarray((losses - origin) - before / count)


def least_probability(n_arms: int, t: Precise | int) -> Precise:
    """Return ρ_t = 1/(n² + 2√((n − 1)t)), below which UMAB-S lets no arm fall.

    The proof needs that it is at most 1/n² and never grows.
    """
    n = np.longdouble(n_arms)
    return np.asarray(1 / (n * n + 2 * np.sqrt((n - 1) * t)))


class Step(NamedTuple):
    """What UMAB-S makes of a loss in every run."""

    clipped: Precise
    """y'_t."""
    cost: Precise
    """M_t."""
    charge: Precise
    """G_t."""
    sums: Precise
    """Σ_{s≤t} ℓ̂_s, runs × n."""


def learned(
    p: Precise,
    drawn_from: Precise,
    sums: Precise,
    inverse_rate: Precise,
    arm: npt.NDArray[np.intp],
    seen: Precise,
    times: np.longdouble,
    at_draw: Precise | None = None,
) -> Step:
    """Return the step of UMAB-S from a loss in every run, where `times` is cn.

    If the loss is late, `drawn_from` and `at_draw` are p' and p at the draw.
    """
    run = np.arange(len(p))
    drawn_with = drawn_from[run, arm]
    rarer = p[run, arm] if at_draw is None else np.minimum(p, at_draw)[run, arm]
    clipped = np.maximum(seen, -clipped_at(rarer, drawn_with, inverse_rate))
    charge = times * CHARGE * (1 - drawn_with) * (clipped - seen)
    estimate = clipped / drawn_with
    sums = sums.copy()
    sums[run, arm] += estimate
    cost = _stability(p, arm, estimate, log_barrier(sums, inverse_rate), inverse_rate)
    return Step(clipped=clipped, cost=cost, charge=charge, sums=sums)


def clipped_at(p: Precise, drawn_from: Precise, inverse_rate: Precise) -> Precise:
    """Return θ_{t,k} = 2p'_{t,k}/(p_{t,k} η_t), the size at which UMAB-S clips a negative loss.

    It is infinite until there is a learning rate.
    """
    return np.where(inverse_rate > 0, LIMIT * drawn_from / p * inverse_rate, np.longdouble(np.inf))


def _stability(
    p: Precise, arm: npt.NDArray[np.intp], estimate: Precise, best: Precise, inverse_rate: Precise
) -> Precise:
    """Return M_t = sup_q ⟨ℓ̂_t, p_t − q⟩ − D(q, p_t)/η_t, which is attained at q = `best`: new sums, old rate.

    There 1/q_j − 1/p_j is η_t ℓ̂_{t,j} up to a constant, so that the gain is Σ (d_j − log(1 + d_j))/η_t, where
    d_j = p_j/q_j − 1. Its rounding error is about `PRECISION`, however small it is.
    """
    p_of_arm = p[np.arange(len(p)), arm]
    # Without a divergence q_k is 0 or 1, except for a single arm, which has nowhere to go.
    without_rate = np.abs(estimate) * np.where(estimate > 0, p_of_arm, 1 - p_of_arm) * (p.shape[1] > 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = p / best - 1
        gain = (change - np.log1p(change)).sum(axis=1) * inverse_rate
    return np.where(estimate == 0, np.longdouble(0), np.where(inverse_rate > 0, gain, without_rate))
