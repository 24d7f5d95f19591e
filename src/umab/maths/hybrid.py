"""The leader on the simplex with two regularizers at once, Tsallis and entropy, for late feedback."""

import math

from umab._support.checks import LARGEST
from umab.maths.numerics import FLOOR, add
from umab.maths.simplex import Vector, where_smallest

_STEPS = 100
_CLOSE = 1e-8  # an error of this size is squared by the step that it is found with
_FURTHEST = 350.0  # e^(−2·350) is below `FLOOR`


def hybrid(loss_sums: Vector, root_weight: float, entropy_weight: float, p: Vector) -> None:
    """Fill `p` with argmin ⟨L, p⟩ − 2A Σ √p_k + B Σ p_k ln p_k on the simplex, where L = `loss_sums`.

    A is `root_weight` and B is `entropy_weight`; neither is negative, and one is above 0. With a = A/(A + 2B) and
    c = 1 − a, the minimum is at p_k = exp(−2s_k), where s_k ≥ 0 solves

        a exp(s_k) + c s_k = x_k + μ,    x_k = (L_k − min L)/(A + 2B),

    and μ, which is from a to a√n + ½ c ln n, is such that the p_k sum to 1. Every p_k has a relative error of at most
    about 1e-13. No p_k is below `FLOOR`.

    ln Σ p_k is convex and decreasing in μ, as ln p_k is. So a step of Newton's method from anywhere leads to the left
    of the root, and from there the iterates climb. The closer the values in `p` are to the solution, the faster it is
    found. Any values will do.
    """
    n_arms = len(p)
    best = where_smallest(loss_sums)
    lowest = loss_sums[best]
    whole = root_weight + 2.0 * entropy_weight
    a, c = root_weight / whole, 2.0 * entropy_weight / whole
    rate = min(1.0 / whole, LARGEST)
    for k in range(n_arms):
        p[k] = max(0.0, -0.5 * math.log(max(p[k], FLOOR)))
    start = min(p[best], 0.5 * math.log(float(n_arms)))
    shift = a * math.exp(start) + c * start
    for _ in range(_STEPS):
        total, error, slope = 0.0, 0.0, 0.0
        for k in range(n_arms):
            p[k] = log_of_root(a, c, rate * (loss_sums[k] - lowest) + shift, p[k])
            share = math.exp(-2.0 * p[k])
            total, error = add(total, error, share)
            slope += share / (a * math.exp(p[k]) + c)
        step = 0.5 * math.log(total) * total / slope
        shift = max(a, shift + step)
        if abs(step) <= _CLOSE:
            break
    for k in range(n_arms):
        s = log_of_root(a, c, rate * (loss_sums[k] - lowest) + shift, p[k])
        p[k] = max(math.exp(-2.0 * s), FLOOR)


def log_of_root(a: float, c: float, y: float, guess: float) -> float:
    """Return the s in [0, 350] with a·exp(s) + c·s = y, or the nearer end, for a + c = 1 and y ≥ a.

    The left side is convex and increasing in s, so Newton's method descends to s from anything above it, such as
    y/c or ln(y/a). A step from below may lead too far, but not beyond these.
    """
    most = _FURTHEST
    if a > 0.0:
        most = min(most, math.log(max(1.0, y / a)))
    if c > 0.0:
        most = min(most, y / c)
    s = min(guess, most)
    for _ in range(_STEPS):
        of_root = a * math.exp(s)
        step = (of_root + c * s - y) / (of_root + c)
        found = max(0.0, min(most, s - step))
        moved, s = abs(found - s), found
        if moved <= _CLOSE:
            break
    return s
