"""UMAB-Sh along given arms, in extended precision, and the rates in its proof."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from umab.algorithms.umab_sh import UMABSh
from umab.theory.path import Precise, Trajectory, keep, raised, room


def scaled_complexity(policy: UMABSh, n_arms: int, t: Precise | int) -> Precise:
    """Return S̄λ_t, where λ_t = ln(n(t + 1)): by what A_t is divided in 1/η_t."""
    return np.asarray(np.longdouble(policy.switches) * np.log(np.longdouble(n_arms) * (t + 1)))


def least_probability_of_sharing(policy: UMABSh, n_arms: int, t: Precise | int) -> Precise:
    """Return ρ_t = 1/(2n + √(nt/(S̄λ_t))), below which UMAB-Sh lets no arm fall.

    The proof needs that it is at most 1/(2n) and never grows.
    """
    n = np.longdouble(n_arms)
    return np.asarray(1 / (2 * n + np.sqrt(n * t / scaled_complexity(policy, n_arms, t))))


def follow_sharing(policy: UMABSh, table: Precise, arms: npt.NDArray[np.intp]) -> Trajectory:
    """Return what UMAB-Sh does on these losses when it draws these arms."""
    n_runs, n_rounds, n_arms = table.shape
    run, kept = np.arange(n_runs), room(table)
    weights = np.full((n_runs, n_arms), 1 / np.longdouble(n_arms))
    sums = np.zeros_like(weights)
    paid, inverse_rate = np.zeros((2, n_runs), dtype=np.longdouble)
    for t in range(n_rounds + 1):
        rho = least_probability_of_sharing(policy, n_arms, t + 1)
        drawn_from = raised(weights, rho)
        keep(kept, t, p=weights, drawn_from=drawn_from, offsets=(drawn_from - weights) / rho)
        keep(kept, t, sums=sums, inverse_rate=inverse_rate, exploration=rho)
        if t == n_rounds:
            break
        arm = arms[:, t]
        seen = table[run, t, arm]
        estimate = np.zeros_like(weights)
        estimate[run, arm] = seen / drawn_from[run, arm]
        cost, stepped = _step(weights, estimate, inverse_rate[:, None])
        keep(kept, t, clipped=seen, stability=cost)
        sums, paid = sums + estimate, paid + cost
        weights = ((t + 1) * stepped + 1 / np.longdouble(n_arms)) / (t + 2)
        inverse_rate = np.maximum(inverse_rate, paid / scaled_complexity(policy, n_arms, t + 2))
    return Trajectory(policy=policy, losses=table, arms=arms, **kept)


def _step(weights: Precise, estimate: Precise, inverse_rate: Precise) -> tuple[Precise, Precise]:
    """Return M_t = ⟨w_t, ℓ̂_t⟩ − m_t and v_{t+1} of every run; without a rate, m_t = min ℓ̂_t and v_{t+1} = w_t."""
    above = estimate - estimate.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        x = np.divide(above, inverse_rate, out=np.zeros_like(above), where=above > 0)
    stepped = weights * np.exp(-x)
    total, lost = stepped.sum(axis=1), (weights * np.expm1(-x)).sum(axis=1)
    # ln Σ w e⁻ˣ; a sum near 1 loses no digits as 1 + (its distance from 1), and a sum near 0 none as it is.
    logarithm = np.where(total < 0.5, np.log(total), np.log1p(np.maximum(lost, -0.75)))
    cost = (weights * above).sum(axis=1) + inverse_rate[:, 0] * logarithm
    return cost, np.where(inverse_rate > 0, stepped / total[:, None], weights)
