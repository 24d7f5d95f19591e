"""Arithmetic that keeps any finite double safe: units of a power of two, compensated sums, limits.

Everything here is plain Python over floats, which runs interpreted and, unchanged, compiled. Both give the same
bits, because only correctly rounded operations (+ − × ÷ √) and exact powers of two are used.
"""

import math
from collections.abc import MutableSequence

FLOOR = 2.0**-1000
"""No probability is smaller; otherwise, a forced arm could drive its probability to 0."""

SMALLEST_PROPENSITY = 2.0**-900
"""A loss of an arm with a smaller probability is weighted as if the probability had been this one."""

FINEST_UNIT = 2.0**1021
"""The multiplier a policy starts with before it has seen a loss (see `fit_unit`)."""


def unit_of(size: float) -> float:
    """Return the multiplier 2⁻ᵉ that brings `size` ≠ 0 into [½, 1).

    The exponent stops where the smallest normal double has it, because 2¹⁰⁷⁴ is not a double. Smaller sizes, which are
    subnormal, end below ½, which does no harm.
    """
    _, exponent = math.frexp(size)
    return math.ldexp(1.0, min(-exponent, 1021))


def fit_unit(unit: float, loss: float) -> tuple[float, float]:
    """Return the unit in which `loss` is below 1 in size, and the factor that converts sums from the old unit to it.

    Sums of losses are kept as multiples of a power of two near the largest loss seen, so neither squares nor
    loss ÷ probability overflow or vanish: losses around 1e-170 and around 1e307 behave like losses around 1.
    `unit` is the multiplier that converts a loss to that unit. The factor is 1 if the unit does not change. Both
    are powers of two, so nothing is rounded, and a policy that keeps all sums in units is scale-free bit for bit.
    """
    if abs(loss * unit) < 1.0:
        return unit, 1.0
    fitted = unit_of(loss)
    return fitted, fitted / unit


def rescale(sums: MutableSequence[float], factor: float) -> None:
    """Multiply all sums by the factor of `fit_unit`, which is usually 1."""
    if factor != 1.0:
        for k in range(len(sums)):
            sums[k] *= factor


def add(total: float, error: float, value: float) -> tuple[float, float]:
    """Add `value` to a compensated sum (Kahan 1965); return the new total and its new error."""
    corrected = value - error
    raised = total + corrected
    return raised, (raised - total) - corrected


def add_square(total: float, error: float, shrink: float, value: float) -> tuple[float, float]:
    """Convert a compensated sum of squares to a new unit by the factor of `fit_unit`, and add the square of `value`."""
    return add(total * shrink * shrink, error * shrink * shrink, value * value)


def importance_weighted(loss: float, probability: float) -> float:
    """Return loss ÷ probability, the unbiased estimate of a loss that is seen with this probability.

    With |loss| ≤ 1 it is at most 2⁹⁰⁰ in size, so sums of estimates do not overflow in 2¹⁰⁰ rounds. Probabilities
    that small come only from arms that were forced.
    """
    return loss / max(probability, SMALLEST_PROPENSITY)
