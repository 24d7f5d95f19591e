"""What every state of a policy satisfies, declared field by field, so that a state from elsewhere can be checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from umab._support.checks import LARGEST
from umab.maths.numerics import FLOOR

_TOLERANCE = 1e-9
"""By how much rounding may change a sum of probabilities."""


class Limits(NamedTuple):
    """What the numbers of a field are in every state that a run can reach, whatever the losses."""

    lowest: float = -LARGEST
    highest: float = LARGEST
    whole: bool = False
    """Whether they are whole numbers."""
    sums_to_1: bool = False
    """Whether they are a distribution."""
    never_grows: bool = False
    """Whether the number is never above the one that `init` returns."""

    def fault(self, name: str, values: Iterable[float], at_first: float) -> str | None:
        """Return what is wrong with the values of the field `name`, which started as `at_first`, or None."""
        values = list(values)
        highest = min(self.highest, at_first) if self.never_grows else self.highest
        for value in values:
            if not self.lowest <= value <= highest:
                return f"{name} must be from {self.lowest:.16g} to {highest:.16g}, but got {name}={value!r}"
            if self.whole and value != math.floor(value):
                return f"{name} must be a whole number, but got {name}={value!r}"
        if self.sums_to_1 and abs(math.fsum(values) - 1.0) >= _TOLERANCE:
            return f"{name} must sum to 1, but got a sum of {math.fsum(values)!r}"
        return None


ANY = Limits()
"""Any finite number, for example a loss."""
DISTRIBUTION = Limits(FLOOR, 1.0 + _TOLERANCE, sums_to_1=True)
SUMS = Limits(-(2.0**1000), 2.0**1000)
"""Sums of estimates, in units of a power of two: see `umab.numerics.importance_weighted`."""
POSITIVE_SUMS = Limits(0.0, 2.0**1000)
UNIT = Limits(2.0**-1074, LARGEST, never_grows=True)
"""See `umab.numerics.fit_unit`."""
COUNT = Limits(0.0, 2.0**53, whole=True)
ROUND = Limits(1.0, 2.0**53, whole=True)
RATE = Limits(0.0, LARGEST)
SHARE = Limits(0.0, 1.0)
MIXTURE = Limits(0.0, 1.0 + _TOLERANCE)
"""Sums of weights that sum to 1, or one of several numbers that do: rounding may put them above 1."""
FLAG = Limits(0.0, 1.0, whole=True)
WAITED = Limits(0.0, 2.0**106)
"""Sums of as many counts as there are rounds."""
LEVEL = {
    "origin": ANY,
    "n_losses": COUNT,
    "mean": ANY,
    "fast": ANY,
    "slow": ANY,
    "mean_errors": POSITIVE_SUMS,
    "fast_errors": POSITIVE_SUMS,
    "slow_errors": POSITIVE_SUMS,
    "unit": UNIT,
}
"""The fields of `umab.maths.level.Level`."""


def within(name: str, limits: Mapping[str, Limits]) -> dict[str, Limits]:
    """Return the limits of a tuple that is the field `name` of a state."""
    return {f"{name}.{field}": each for field, each in limits.items()}


def too_much_rounding(total: float, error: float) -> str | None:
    """Return what is wrong with a compensated sum of squares: its error is never as large as the sum."""
    if abs(error) <= total:
        return None
    return f"square_sum_error must be at most square_sum in size, but got {error!r} for square_sum={total!r}"
