"""A simple version of the engine, to compare the fast one with.

It plays one trial after another. It searches for the next distribution by Newton's method, from a start that does not
depend on the past, and then searches for the likeliest arm separately.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from umab.algorithms.base import Policy
from umab.algorithms.umab_g import UMABGA
from umab.engine import compiled, loops
from umab.numerics import FLOOR
from umab.simplex import Vector, likeliest, reciprocal_sums, scaled_gaps, smallest


def log_barrier(loss_sums: Vector, rate: float, p: Vector) -> int:
    """Fill `p` as `umab.simplex.log_barrier` does."""
    scaled_gaps(loss_sums, smallest(loss_sums), rate, p)
    x_sum = 0.0
    for k in range(len(p)):
        x_sum += p[k]
    shift = max(1.0, len(p) - x_sum / len(p))
    for _ in range(100):
        total, slope, _curve = reciprocal_sums(p, shift, 1)
        step = total * (total - 1.0) / slope
        shift += step
        if step <= 1e-8 * shift:
            break
    for k in range(len(p)):
        p[k] = max(1.0 / (p[k] + shift), FLOOR)
    return likeliest(p)


class SimpleUMABGA(UMABGA):
    """UMAB-G-A with this search in place of its own."""

    update = staticmethod(
        FunctionType(UMABGA.update.__code__, {**UMABGA.update.__globals__, "log_barrier": log_barrier})
    )


def simulation_kernel(policy: Policy) -> Callable[..., None]:
    """Return the loop that plays one trial after the other, compiled for policies of this type."""
    return compiled.compiled_loop(loops.run, policy, "plain")
