"""Arithmetic that survives any double, for authors of policies. The code is in `umab.maths.numerics`."""

from umab.maths.numerics import (
    FINEST_UNIT,
    FLOOR,
    SMALLEST_PROPENSITY,
    add,
    add_square,
    fit_unit,
    importance_weighted,
    rescale,
    unit_of,
)

__all__ = [
    "FINEST_UNIT",
    "FLOOR",
    "SMALLEST_PROPENSITY",
    "add",
    "add_square",
    "fit_unit",
    "importance_weighted",
    "rescale",
    "unit_of",
]
