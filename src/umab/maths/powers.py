"""The step on the simplex for Tsallis entropies other than ½: probabilities that are any power of the sums."""

import math

from umab.maths.numerics import FLOOR, add
from umab.maths.simplex import Vector, scaled_gaps, where_smallest

_BLOCK = 64
_STEPS = 100
_LARGEST_POWER = 64.0


def tsallis_power(loss_sums: Vector, rate: float, power: float, p: Vector) -> None:
    """Fill `p` with argmin ⟨L, p⟩ − (α/η) Σ p_k^(1/α) on the simplex; L = `loss_sums`, η = `rate`, α/(α − 1) = `power`.

    The minimum is at p_k = 1/(1 + x_k + m)^a, a = `power`, x_k = η(L_k − min L), with m ≥ 0 such that the p_k sum to 1.
    For a = 2, `umab.simplex.tsallis` does the same faster. No p_k is below `FLOOR`. The search for m starts from the
    p_k of the k with the smallest sum.
    """
    best = where_smallest(loss_sums)
    guess = math.expm1(-math.log(max(p[best], FLOOR)) / power)
    scaled_gaps(loss_sums, loss_sums[best], rate, p)
    excess = power_excess(p, power, guess)
    for k in range(len(p)):
        p[k] = max(falling_power(p[k] + excess, power), FLOOR)


def falling_power(y: float, power: float) -> float:
    """Return 1/(1 + y)^a for a = `power` and y ≥ 0.

    The rounding of 1 + y is multiplied by a, so the logarithm of 1 + y is taken from y itself if a is large. Its own
    rounding is multiplied by the logarithm of the result, which weighs more if a is small.
    """
    return math.pow(1.0 + y, -power) if power <= _LARGEST_POWER else math.exp(-power * math.log1p(y))


def power_excess(x: Vector, power: float, guess: float) -> float:
    """Return the root m of Σ 1/(1 + x_k + m)^a = 1 for a = `power` > 1, and x ≥ 0 with minimum 0.

    It is Newton's method of `umab.simplex.power_shift`, with its correction by the curvature, for any power. The root
    is that of μ = 1 + m there. It lies in [0, n^(1/a) − 1], which is a short way if a is large: so it is m that is
    found to the last digits, and steps are measured by what they change in p, about a times as much as in μ.
    """
    highest = math.expm1(math.log(len(x)) / power)
    excess = max(0.0, min(guess, highest))
    for _ in range(_STEPS):
        total, slope, curve = falling_sums(x, excess, power)
        step = total * math.expm1(math.log(total) / power) / slope
        if (power + 1.0) * abs(step) < 0.5 * (1.0 + excess):
            step += (0.5 + 0.5 * power) * (curve / slope - slope / total) * step * step
        excess = max(0.0, excess + step)
        if (power + 1.0) * abs(step) <= 1e-5 * (1.0 + excess):
            break
    return excess


def falling_sums(x: Vector, excess: float, power: float) -> tuple[float, float, float]:
    """Return Σ 1/(1 + x_k + m)^b for b = a, a + 1 and a + 2, where m = `excess` and a = `power`.

    The first sum is added up in blocks, with compensation, because its error is that of all probabilities.
    """
    total, error = 0.0, 0.0
    slope, curve = 0.0, 0.0
    for start in range(0, len(x), _BLOCK):
        part = 0.0
        for k in range(start, min(start + _BLOCK, len(x))):
            y = x[k] + excess
            term = falling_power(y, power)
            part += term
            slope += term / (1.0 + y)
            curve += term / (1.0 + y) / (1.0 + y)
        total, error = add(total, error, part)
    return total, slope, curve
