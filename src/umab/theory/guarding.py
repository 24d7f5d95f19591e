"""A policy with a guard along given arms, in extended precision: the shadow, its share and the balance.

The distributions of the optimist are taken from the policy itself: the proof holds for any that are known before the
draw. Everything else is computed again from its definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umab.algorithms.guard import CALM, LEAST_SHARE, SURE, Guarded
from umab.algorithms.umab_s import UMABS
from umab.theory.barrier import centred, learned, log_barrier
from umab.theory.constants import least_floor
from umab.theory.path import Precise, Trajectory, keep, raised, room


@dataclass(frozen=True, eq=False)
class GuardedTrajectory(Trajectory):
    """Runs of a policy with a guard. p_t, η_t, ρ_t and the sums are those of the shadow, which learns z_t."""

    shadow: Trajectory
    """The shadow: a run of UMAB-S on the losses z_t, which draws from π_t."""
    share: Precise
    """γ_t; runs × (T + 1)."""
    chosen: Precise
    """q_t; runs × (T + 1) × n."""
    balance: Precise
    """B_t after each round, from round 0; runs × (T + 1)."""
    squares: Precise
    """V_t, likewise."""

    @property
    def played(self) -> Precise:
        """π_t, from which the shadow draws; runs × (T + 1) × n."""
        return self.shadow.drawn_from

    @property
    def weights(self) -> Precise:
        """r_t = π_t/p'_t; runs × T × n."""
        return np.asarray(self.played[:, :-1] / self.drawn_from[:, :-1])


def follow_guarded(policy: Guarded, table: Precise, arms: npt.NDArray[np.intp]) -> GuardedTrajectory:
    """Return what a policy with a guard does on these losses when it draws these arms."""
    n_runs, n_rounds, n_arms = table.shape
    run, kept, times = np.arange(n_runs), room(table), np.longdouble(UMABS().rate) * n_arms
    losses, chosen = centred(table, arms), _chosen(policy, table, arms)

    def zeros(*shape: int) -> Precise:
        return np.zeros((n_runs, *shape), dtype=np.longdouble)

    sums, paid, balance, squares = zeros(n_arms), zeros(), zeros(), zeros()
    mixed, told, seen_by_shadow = zeros(n_rounds + 1, n_arms), zeros(n_rounds + 1), zeros(n_rounds, n_arms)
    balances, all_squares = zeros(n_rounds + 1), zeros(n_rounds + 1)
    for t in range(n_rounds + 1):
        share = _share(balance, squares)
        inverse_rate = paid / times
        p = log_barrier(sums, inverse_rate)
        rho = least_floor(n_arms, t + 1, share)
        played = raised(p, rho[:, None])
        drawn_from = (1 - share)[:, None] * chosen[:, t] + share[:, None] * played
        keep(kept, t, p=p, drawn_from=played, offsets=(played - p) / rho[:, None], sums=sums)
        keep(kept, t, inverse_rate=inverse_rate, exploration=rho)
        mixed[:, t], told[:, t], balances[:, t], all_squares[:, t] = drawn_from, share, balance, squares
        if t == n_rounds:
            break
        arm, weights = arms[:, t], played / drawn_from
        seen_by_shadow[:, t] = weights * losses[:, t]
        step = learned(p, played, sums, inverse_rate, arm, seen_by_shadow[run, t, arm], times)
        keep(kept, t, clipped=step.clipped, stability=step.cost, charge=step.charge)
        sums, paid = step.sums, paid + (step.cost + step.charge)
        seen, plays_alone = losses[run, t, arm], share == 1
        change = np.where(plays_alone, np.longdouble(0), seen * (1 - weights[run, arm]))
        balance = balance + change
        squares = squares + np.where(plays_alone, seen * seen, change * change)
    shadow = Trajectory(policy=UMABS(), losses=seen_by_shadow, arms=arms, **kept)
    return GuardedTrajectory(
        policy=policy,
        losses=losses,
        arms=arms,
        shadow=shadow,
        share=told,
        chosen=chosen,
        balance=balances,
        squares=all_squares,
        **{**kept, "drawn_from": mixed},
    )


def _share(balance: Precise, squares: Precise) -> Precise:
    """Return γ_t."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ramp = (balance / np.sqrt(squares) - CALM) / (SURE - CALM)
    return np.where(squares > 0, np.clip(ramp, LEAST_SHARE, 1), np.longdouble(1))


def _chosen(policy: Guarded, table: Precise, arms: npt.NDArray[np.intp]) -> Precise:
    """Return q_t of every run; runs × (T + 1) × n. It is what the policy inside would draw from by itself."""
    n_runs, n_rounds, n_arms = table.shape
    chosen = np.zeros((n_runs, n_rounds + 1, n_arms), dtype=np.longdouble)
    parameters = policy.parameters_for(n_arms)
    for run in range(n_runs):
        state: Any = policy.init(n_arms)
        for t, arm in enumerate(arms[run].tolist()):
            chosen[run, t] = state.inner.probabilities
            ticket = policy.remember(parameters, state, arm, policy.ticket(n_arms))
            chance, state = state.probabilities[arm], policy.selected(parameters, state, arm)
            loss = float(table[run, t, arm])
            state = policy.update(parameters, state, arm, loss, chance, ticket)
        chosen[run, n_rounds] = state.inner.probabilities
    return np.asarray(chosen / chosen.sum(axis=2, keepdims=True))
