"""UMAB-G with the simple search for the next distribution: what the fast one is compared with, in the same loop."""

from __future__ import annotations

from types import FunctionType

from umab.algorithms.umab_g import UMABG
from umab.numerics import FLOOR
from umab.simplex import Vector, reciprocal_sums, scaled_gaps, smallest


def log_barrier(loss_sums: Vector, rate: float, p: Vector) -> None:
    """Fill `p` as `umab.simplex.log_barrier` does, by Newton's method from a start that needs no past."""
    n = float(len(p))
    shift = max(1.0, n - scaled_gaps(loss_sums, smallest(loss_sums), rate, p) / n)
    for _ in range(100):
        total, slope, _curve = reciprocal_sums(p, shift, 1)
        step = total * (total - 1.0) / slope
        shift += step
        if step <= 1e-8 * shift:
            break
    for k in range(len(p)):
        p[k] = max(1.0 / (p[k] + shift), FLOOR)


class SimpleUMABG(UMABG):
    """UMAB-G with this search in the place of its own."""

    update = staticmethod(FunctionType(UMABG.update.__code__, {**UMABG.update.__globals__, "log_barrier": log_barrier}))
