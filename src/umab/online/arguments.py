"""Arguments of learners, checked."""

from __future__ import annotations

import time
from collections.abc import Callable

from umab._support import checks

Clock = Callable[[], float]


def seed_of(seed: int | None) -> int | None:
    """Return a seed, checked."""
    return None if seed is None else checks.whole("seed", seed, least=0)


def clock_of(clock: object) -> Clock:
    """Return a clock, checked."""
    if not callable(clock):
        raise TypeError(f"clock must be a function that returns seconds, but got clock={checks.shown(clock)}")
    if clock is time.time:
        return clock
    return lambda: checks.finite("the time of the clock", clock())
