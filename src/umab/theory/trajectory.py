"""Every quantity of the proofs along runs of UMAB-NN, UMAB-G, UMAB-S, UMAB-W and UMAB-Sh, in extended precision.

This is a second implementation of the algorithms, for many runs at a time and straight from their definitions: no
units, no compensated sums, no speed. The arms are given, as lemmas hold for any sequence of them. Numbers are NumPy's
long doubles: 64 bits of mantissa on x86, so the relative rounding error is about 1e-19, and squares of doubles cannot
overflow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.algorithms.guard import Guarded
from umab.algorithms.local import LocallyCentred
from umab.algorithms.umab_g import ExtraExploration
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.wrapper import Wrapper
from umab.theory.barrier import centred, learned, least_probability, log_barrier
from umab.theory.guarding import follow_guarded
from umab.theory.path import Precise, Trajectory, Whole, keep, raised, room
from umab.theory.rerun import rerun
from umab.theory.sharing import follow_sharing
from umab.theory.theorems import THEOREM_D, THEOREM_R, theorem_of
from umab.theory.watching import follow_watching


def follow(
    policy: Policy, losses: npt.ArrayLike, arms: npt.ArrayLike, coins: npt.ArrayLike | None = None
) -> Trajectory:
    """Return what a policy does when it draws these arms.

    Parameters
    ----------
    policy
        A `UMABNN`, a `UMABG` with its horizon, a `UMABGA`, a `UMABW`, a policy with a guard, or a `UMABS` or `UMABSh`,
        bare or centred. Or any policy with a coin; its own code is run, as `umab.theory.rerun` says.
    losses
        Rounds × arms, or a table for each run: runs × rounds × arms.
    arms
        The arms of each run: runs × rounds.
    coins
        What the coins of each run show, 1 or 0: runs × rounds. For a policy with a coin, and only then.
    """
    drawn = np.asarray(arms, dtype=np.intp)
    table = np.asarray(losses, dtype=np.longdouble)
    table = np.broadcast_to(table, (len(drawn), *table.shape[-2:]))
    if policy.coin is not None:
        return rerun(policy.for_horizon(table.shape[1]), table, drawn, _shown(policy, coins, drawn))
    if coins is not None:
        raise ValueError(f"coins are of policies that have them, but {policy.name} has none")
    if why := refusal(policy):
        raise TypeError(why)
    if theorem_of(policy) == THEOREM_D:
        raise TypeError(f"SCB-D has late feedback, which umab.theory.late.follow_late takes, but got {policy.name}")
    if isinstance(policy, Guarded):
        return follow_guarded(policy, table, drawn)
    if isinstance(policy, Wrapper):  # of the wrappers only those that centre have a theorem
        local = isinstance(policy, LocallyCentred)
        return replace(follow(policy.policy, centred(table, drawn, local=local), drawn), policy=policy)
    if isinstance(policy, UMABW):
        return follow_watching(policy, table, drawn)
    ready = policy.for_horizon(table.shape[1])
    if isinstance(ready, UMABSh):
        return follow_sharing(ready, table, drawn)
    if isinstance(ready, UMABS):
        return _of_umab_s(ready, table, drawn)
    assert isinstance(ready, UMABNN | ExtraExploration)  # no other policy has a theorem
    return _of_the_paper(ready, table, drawn)


def _shown(policy: Policy, coins: npt.ArrayLike | None, arms: Whole) -> Whole:
    """Return the coins of each draw, or raise an error that says what is wrong with them."""
    if coins is None:
        raise ValueError(f"what {policy.name} does follows from its arms and its coins, so coins must be given too")
    shown = np.asarray(coins, dtype=np.intp)
    if shown.shape != arms.shape or not np.isin(shown, (0, 1)).all():
        raise ValueError(
            f"coins must be 0 or 1 for each of {arms.shape[0]} runs × {arms.shape[1]} rounds, but got {shown!r}"
        )
    return shown


def refusal(policy: Policy) -> str:
    """Return why there are no proofs about a policy, or an empty text if there are."""
    if theorem_of(policy) == THEOREM_R and policy.for_study:
        return (
            "the statements about UMAB-S are for learning='stability', exploration='floor', clipping='charged' and "
            f"initial_scale=0, but got {policy.name}"
        )
    if isinstance(policy, Guarded) and policy.shadow != "always":
        return f"the statements about policies with a guard are for a guard that is on, but got {policy.name}"
    if policy.takes_advice:
        return (
            "the statements about a policy over experts need their advice, which umab.theory.certify takes as "
            f"advice=..., but got {policy.name} without any"
        )
    if not theorem_of(policy) or (theorem_of(policy) == THEOREM_D and isinstance(policy, LocallyCentred)):
        return (
            "the statements are about UMAB-NN, UMAB-G, UMAB-S (also centred), UMAB-Sh (also centred), SCB-D (also "
            f"centred), UMAB-W and policies with a guard, but got {policy.name}"
        )
    return ""


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
