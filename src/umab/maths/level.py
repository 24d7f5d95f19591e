"""The level of the losses, which may move: what to subtract from a loss before a policy learns from it.

The level of a round is known before its arm is drawn. It is the mean of all losses so far or, where the losses wander,
a moving mean, which follows them. A moving mean is taken when its predictions have been clearly better: when the sum of
its squared errors is below `CLEARLY` times the same sum for the mean.
"""

from typing import NamedTuple

from umab._support.checks import LARGEST
from umab.maths.numerics import FINEST_UNIT, fit_unit

FAST, SLOW = 1.0 / 8.0, 1.0 / 64.0
"""The rates of the two moving means."""

CLEARLY = 0.6
"""A moving mean is taken if the sum of its squared errors is below this share of the same sum for the mean."""

FIRST = 32.0
"""As long as there are fewer losses than this, the level is their mean."""


class Level(NamedTuple):
    """Three predictions of the next loss, measured from the first loss, and the sums of their squared errors."""

    origin: float  # the first loss; measured from it, a mean loses no digits to an offset
    n_losses: float
    mean: float
    fast: float
    slow: float
    mean_errors: float  # sums of squared errors, in units of a power of two; see `umab.numerics.fit_unit`
    fast_errors: float
    slow_errors: float
    unit: float


def no_level() -> Level:
    """Return the level before the first loss."""
    return Level(
        origin=0.0,
        n_losses=0.0,
        mean=0.0,
        fast=0.0,
        slow=0.0,
        mean_errors=0.0,
        fast_errors=0.0,
        slow_errors=0.0,
        unit=FINEST_UNIT,
    )


def moves(level: Level) -> bool:
    """Whether a moving mean has predicted the losses clearly better than their mean."""
    return level.n_losses >= FIRST and min(level.fast_errors, level.slow_errors) < CLEARLY * level.mean_errors


def above(level: Level, loss: float, local: bool) -> float:
    """Return a loss minus the level, which is a moving mean if `local`; the first loss is its own level."""
    if level.n_losses == 0.0:
        return 0.0
    centre = level.mean
    if local:
        centre = level.fast if level.fast_errors < level.slow_errors else level.slow
    return within(within(loss - level.origin) - centre)


def followed(level: Level, loss: float) -> Level:
    """Return the level after a loss."""
    origin = loss if level.n_losses == 0.0 else level.origin
    distance = within(loss - origin)
    off_mean, off_fast, off_slow = (
        within(distance - level.mean),
        within(distance - level.fast),
        within(distance - level.slow),
    )
    n_losses = level.n_losses + 1.0
    unit, shrink = fit_unit(level.unit, max(abs(off_mean), abs(off_fast), abs(off_slow)))
    squared = shrink * shrink
    return Level(
        origin=origin,
        n_losses=n_losses,
        mean=level.mean + off_mean / n_losses,
        fast=level.fast + off_fast * max(1.0 / n_losses, FAST),
        slow=level.slow + off_slow * max(1.0 / n_losses, SLOW),
        mean_errors=level.mean_errors * squared + (off_mean * unit) * (off_mean * unit),
        fast_errors=level.fast_errors * squared + (off_fast * unit) * (off_fast * unit),
        slow_errors=level.slow_errors * squared + (off_slow * unit) * (off_slow * unit),
        unit=unit,
    )


def within(difference: float) -> float:
    """Return a difference of two losses as a loss: if it is too large for a double, the largest double."""
    return max(-LARGEST, min(LARGEST, difference))
