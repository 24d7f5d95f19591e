"""Banker-OMD with late feedback once more, as published: a vault for each round, in 40 digits, with no tricks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mpf

import reference
from umab.testing import Array


class Round(NamedTuple):
    """What was fixed when a round was drawn."""

    arm: int
    x: list[Any]
    sigma: Any
    bound: Any  # L̂
    late: int  # d
    arrives: int


class Run(NamedTuple):
    """What happened, by round."""

    rows: Array  # x_t, and one more
    skipped: list[bool]
    sigma: list[float]
    invested: list[float]  # b_t, what was paid from outside the bank
    savings: list[float]  # Σ v_s after the arrivals of the round
    at_work: list[float]  # Σ σ_s of the draws that are open then


def banker(
    signed: bool,
    arms: Sequence[int],
    losses: Sequence[float],
    delays: Sequence[int],
    n: int,
    *,
    horizon: int = 2,
    lost: bool = False,
) -> Run:
    """Return a run of Banker-SFLBINF if `signed`, else of Banker-SFTINF; if `lost`, skipped rounds lose their savings.

    The dual points ∇Ψ(z_s) are kept as such, one for each round, and what is taken is taken from each vault.
    """
    with mpmath.workdps(40):
        rounds: list[Round] = []
        vaults: dict[int, Any] = {}  # v_s
        duals: dict[int, list[Any]] = {}  # ∇Ψ(z_s)
        skipped: dict[int, bool] = {}
        bound, rows, at_work, savings, invested, sigmas = mpf(1), [], [], [], [], []
        centre = gradient(signed, [mpf(1) / n] * n)
        for t in range(len(arms) + 1):
            still_open = [s for s, each in enumerate(rounds) if s not in skipped]
            late = len(still_open)
            total = (late + 1) * bound**2
            for s, each in enumerate(rounds):
                if s in still_open or not signed:
                    total += (each.late + 1) * each.bound**2
                elif not skipped[s]:
                    total += (each.late + 1) * mpf(losses[s]) ** 2
            sigma = 1 / ((late + 1) * mpmath.sqrt(mpmath.log(3 + total / bound**2) / (3 + total)))
            if signed:
                sigma /= mpmath.sqrt(n * mpmath.log(horizon))
                if late <= mpmath.sqrt(mpf(1 + late + sum(each.late for each in rounds)) / n):
                    sigma = max(sigma, 2 * bound)
            saved = mpmath.fsum(vaults.values())
            taken = {s: min(saved, sigma) * v / saved for s, v in vaults.items() if v > 0}
            from_outside = sigma - mpmath.fsum(taken.values())
            dual = [from_outside / sigma * each for each in centre]
            for s, part in taken.items():
                dual = [a + part / sigma * b for a, b in zip(dual, duals[s], strict=True)]
                vaults[s] = max(mpf(0), vaults[s] - part)
            costs = [-each for each in dual]
            x = reference.log_barrier(costs, mpf(1)) if signed else reference.tsallis(costs, mpf(1))
            rows.append(x)
            if t == len(arms):
                break
            rounds.append(Round(arms[t], x, sigma, bound, late, t + delays[t]))
            for s, each in enumerate(rounds):
                if each.arrives == t:
                    loss = mpf(losses[s])
                    skipped[s] = bool(abs(loss) > each.bound or (signed and loss < -each.sigma / 2))
                    vaults[s] = each.sigma if not (lost and skipped[s]) else mpf(0)
                    duals[s] = gradient(signed, each.x)
                    if not skipped[s]:
                        duals[s][each.arm] -= loss / each.x[each.arm] / each.sigma
                    bound = max(bound, 2 * abs(loss))
            sigmas.append(float(sigma))
            invested.append(float(from_outside))
            savings.append(float(mpmath.fsum(vaults.values())))
            at_work.append(float(mpmath.fsum(each.sigma for s, each in enumerate(rounds) if s not in skipped)))
        happened = [skipped.get(s, False) for s in range(len(rounds))]
        return Run(np.array(rows, dtype=float), happened, sigmas, invested, savings, at_work)


def gradient(signed: bool, x: list[Any]) -> list[Any]:
    """Return ∇Ψ(x), of −Σ ln x_k or of −2Σ√x_k."""
    return [-1 / each if signed else -1 / mpmath.sqrt(each) for each in x]
