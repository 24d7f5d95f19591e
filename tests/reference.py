"""The algorithms once more, straight from their definition, in 40 digits: no units, no tricks, no speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np

from umab.testing import Array

mpf: Any = mpmath.mpf


def log_barrier(loss_sums: Sequence[Any], rate: Any) -> list[Any]:
    """Return argmin ⟨L, p⟩ + (1/η) Σ log(1/p_k), by Newton from the left until nothing changes."""
    lowest = min(loss_sums)
    x = [rate * (loss - lowest) for loss in loss_sums]
    shift = max(mpf(1), len(x) - mpmath.fsum(x) / len(x))
    for _ in range(1000):
        p = [1 / (each + shift) for each in x]
        total = mpmath.fsum(p)
        step = total * (total - 1) / mpmath.fsum(each * each for each in p)
        shift += step
        if abs(step) < shift * mpf(10) ** (10 - mpmath.mp.dps):
            return [1 / (each + shift) for each in x]
    raise AssertionError("no convergence")


def umab_nn(arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of UMAB-NN (Algorithm 1), one row a round."""
    with mpmath.workdps(40):
        sums, squares = [mpf(0)] * n, mpf(0)
        p = [mpf(1) / n] * n
        rows = [p]
        for arm, loss in zip(arms, losses, strict=True):
            sums[arm] += mpf(loss) / p[arm]
            squares += mpf(loss) ** 2
            p = log_barrier(sums, 2 * mpmath.sqrt(n / squares)) if squares else p
            rows.append(p)
        return np.array(rows, dtype=float)


def umab_g(
    arms: Sequence[int],
    losses: Sequence[float],
    n: int,
    *,
    rate: float,
    exploration: str,
    initial_scale: float = 1.0,
    horizon: int = 0,
) -> Array:
    """Return the distributions of UMAB-G (Algorithms 2 and 3, the adaptive rate of the appendix)."""
    with mpmath.workdps(40):
        sums, squares, cost, clip = [mpf(0)] * n, mpf(0), mpf(0), -mpf(initial_scale)
        p, c = [mpf(1) / n] * n, [0] * n
        rows = [p]
        for t, (arm, loss) in enumerate(zip(arms, losses, strict=True), start=1):
            clipped = max(2 * clip, mpf(loss))
            estimate = clipped / p[arm]
            sums[arm] += estimate
            clip = min(clip, clipped)
            squares += clipped**2
            cost += abs(estimate * c[arm])
            p = log_barrier(sums, rate * mpmath.sqrt(n / (n * clip**2 + squares)))
            rho = {
                "adaptive": 1 / (2 * n**2 + mpmath.sqrt(2 * cost)),
                "fixed": 1 / (2 * n**2 + mpmath.sqrt(mpf(n) * horizon)),
                "anytime": 1 / (2 * n**2 + mpmath.sqrt(mpf(n) * (t + 1))),
                "none": mpf(0),
            }[exploration]
            c = [1 if each < rho else 0 for each in p]
            c[p.index(max(p))] = -sum(c)
            p = [each + rho * offset for each, offset in zip(p, c, strict=True)]
            rows.append(p)
        return np.array(rows, dtype=float)
