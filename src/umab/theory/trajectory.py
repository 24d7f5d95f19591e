"""Every quantity of the proofs along runs of UMAB-NN, UMAB-G, UMAB-S, UMAB-W and UMAB-Sh, in extended precision.

This is a second implementation of the algorithms, for many runs at a time and straight from their definitions: no
units, no compensated sums, no speed. The arms are given, as lemmas hold for any sequence of them. Numbers are NumPy's
long doubles: 64 bits of mantissa on x86, so the relative rounding error is about 1e-19, and squares of doubles cannot
overflow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.algorithms.local import LocallyCentred
from umab.algorithms.scb_d import SCBD
from umab.algorithms.umab_e import UMABE
from umab.algorithms.umab_g import ExtraExploration
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import CHARGE, LIMIT, UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.wrapper import Wrapper, layers
from umab.theory.levels import levels
from umab.theory.path import PRECISION, Precise, Trajectory, keep, raised, room
from umab.theory.sharing import follow_sharing

PROVED_IN = {
    UMABS.theorem: "docs/recommended.md",
    UMABW.theorem: "docs/changing.md",
    UMABSh.theorem: "docs/algorithms/umab-sh.md",
    UMABE.theorem: "docs/algorithms/umab-e.md",
    SCBD.theorem: "docs/algorithms/scb-d.md",
}
"""The theorems of this project, and where their proofs are; the others are the paper's."""


def follow(policy: Policy, losses: npt.ArrayLike, arms: npt.ArrayLike) -> Trajectory:
    """Return what a policy does when it draws these arms.

    Parameters
    ----------
    policy
        A `UMABNN`, a `UMABG` with its horizon, a `UMABGA`, a `UMABW`, or a `UMABS` or `UMABSh`, bare or centred.
    losses
        Rounds × arms, or a table for each run: runs × rounds × arms.
    arms
        The arms of each run: runs × rounds.
    """
    if why := refusal(policy):
        raise TypeError(why)
    if policy.theorem == SCBD.theorem:
        raise TypeError(f"SCB-D has late feedback, which umab.theory.late.follow_late takes, but got {policy.name}")
    drawn = np.asarray(arms, dtype=np.intp)
    table = np.asarray(losses, dtype=np.longdouble)
    table = np.broadcast_to(table, (len(drawn), *table.shape[-2:]))
    if isinstance(policy, Wrapper):  # of the wrappers only those that centre have a theorem
        local = isinstance(policy, LocallyCentred)
        return replace(follow(policy.policy, centred(table, drawn, local=local), drawn), policy=policy)
    if isinstance(policy, UMABW):
        from umab.theory.watching import follow_watching  # it imports this module

        return follow_watching(policy, table, drawn)
    ready: Any = policy.for_horizon(table.shape[1])
    if policy.theorem == UMABSh.theorem:
        return follow_sharing(ready, table, drawn)
    return (_of_umab_s if policy.theorem == UMABS.theorem else _of_the_paper)(ready, table, drawn)


def refusal(policy: Policy) -> str:
    """Return why there are no proofs about a policy, or an empty text if there are."""
    if policy.theorem == UMABS.theorem and policy.for_study:
        return (
            "the statements about UMAB-S are for learning='stability', exploration='floor', clipping='charged' and "
            f"initial_scale=0, but got {policy.name}"
        )
    if policy.takes_advice:
        return (
            "the statements about a policy over experts need their advice, which umab.theory.certify takes as "
            f"advice=..., but got {policy.name} without any"
        )
    if not policy.theorem or (policy.theorem == SCBD.theorem and isinstance(policy, LocallyCentred)):
        return (
            "the statements are about UMAB-NN, UMAB-G, UMAB-S (also centred), UMAB-Sh (also centred), SCB-D (also "
            f"centred) and UMAB-W, but got {policy.name}"
        )
    return ""


def core_of(policy: Policy) -> Any:
    """Return the policy that a proof is about: the one inside all wrappers."""
    return layers(policy)[-1]


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


def _of_umab_s(policy: UMABS, table: Precise, arms: npt.NDArray[np.intp]) -> Trajectory:
    """Return what UMAB-S does on these losses."""
    n_runs, n_rounds, n_arms = table.shape
    run, kept = np.arange(n_runs), room(table)
    sums = np.zeros((n_runs, n_arms), dtype=np.longdouble)
    paid = np.zeros(n_runs, dtype=np.longdouble)
    times = np.longdouble(policy.rate) * n_arms
    for t in range(n_rounds + 1):
        inverse_rate = paid / times
        p = log_barrier(sums, inverse_rate)
        rho = least_probability(n_arms, t + 1)
        drawn_from = raised(p, rho)
        offsets = (drawn_from - p) / rho
        keep(
            kept,
            t,
            p=p,
            drawn_from=drawn_from,
            offsets=offsets,
            sums=sums,
            inverse_rate=inverse_rate,
            exploration=rho,
        )
        if t == n_rounds:
            break
        arm = arms[:, t]
        step = learned(p, drawn_from, sums, inverse_rate, arm, table[run, t, arm], times)
        keep(kept, t, clipped=step.clipped, stability=step.cost, charge=step.charge)
        sums, paid = step.sums, paid + (step.cost + step.charge)
    return Trajectory(policy=policy, losses=table, arms=arms, **kept)


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
    times: Any,
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


def _of_the_paper(policy: UMABNN | ExtraExploration, table: Precise, drawn: npt.NDArray[np.intp]) -> Trajectory:
    """Return what UMAB-NN or UMAB-G does on these losses."""
    n_runs, n_rounds, n_arms = table.shape
    known_sign = isinstance(policy, UMABNN)

    def zeros(*shape: int) -> Precise:
        return np.zeros((n_runs, *shape), dtype=np.longdouble)

    kept = room(table)
    run = np.arange(n_runs)
    sums, sizes, offsets = zeros(n_arms), zeros(n_arms), zeros(n_arms)
    squares, cost = zeros(), zeros()
    if isinstance(policy, ExtraExploration):
        clip = zeros() - policy.initial_scale
        inverse_rate = zeros() + np.longdouble(policy.initial_scale) / np.longdouble(policy.rate)
        rho = zeros() + (0 if policy.exploration == "none" else np.longdouble(0.5) / n_arms**2)
    else:
        clip, inverse_rate, rho = zeros(), zeros(), zeros()
    for t in range(n_rounds + 1):
        p = log_barrier(sums, inverse_rate)
        offsets = zeros(n_arms) if known_sign else _offsets(p, rho)
        drawn_from = p + rho[:, None] * offsets
        keep(
            kept,
            t,
            p=p,
            drawn_from=drawn_from,
            offsets=offsets,
            sums=sums,
            inverse_rate=inverse_rate,
            exploration=rho,
            clip=clip,
        )
        if t == n_rounds:
            break
        arm = drawn[:, t]
        seen = table[run, t, arm]
        clipped = seen if known_sign else np.maximum(2 * clip, seen)
        estimate = clipped / drawn_from[run, arm]
        kept["clipped"][:, t] = clipped
        sums = sums.copy()
        sums[run, arm] += estimate
        squares = squares + clipped * clipped
        if isinstance(policy, ExtraExploration):
            clip = np.minimum(clip, clipped)
            inverse_rate = np.sqrt((n_arms * clip * clip + squares) / n_arms) / np.longdouble(policy.rate)
            cost = cost + np.abs(estimate * offsets[run, arm])
            sizes[run, arm] += np.abs(seen / drawn_from[run, arm])
            rho = _exploration(policy, n_arms, t + 2, cost, (sizes * np.abs(offsets)).sum(axis=1))
        else:
            inverse_rate = np.sqrt(squares / n_arms) / 2
    return Trajectory(policy=policy, losses=table, arms=drawn, **kept)


def _exploration(policy: ExtraExploration, n_arms: int, t: int, cost: Precise, size: Precise) -> Precise:
    """Return ρ_t: `cost` is the appendix's Σ |⟨ℓ̂'_s, c_s⟩|, `size` the main text's Σ |⟨ℓ̂_s, c_{t−1}⟩|."""
    if policy.exploration == "none":
        return np.zeros_like(cost)
    n = np.longdouble(n_arms)
    more = {
        "adaptive": np.sqrt(2 * cost),
        "fixed": np.sqrt(n * policy.parameters_for(n_arms).horizon) + 0 * cost,
        "anytime": np.sqrt(n * t) + 0 * cost,
        "maintext": 2 * np.sqrt(size),
    }[policy.exploration]
    rate: Precise = 1 / (2 * n * n + more)
    return rate


def _offsets(p: Precise, rho: Precise) -> Precise:
    """Return c_t of Algorithm 3."""
    offsets = (p < rho[:, None]).astype(np.longdouble)
    best = p.argmax(axis=1)
    run = np.arange(len(p))
    offsets[run, best] = 0
    offsets[run, best] = -offsets.sum(axis=1)
    return offsets


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
