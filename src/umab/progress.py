"""A progress bar for work of more than a second, shown only where somebody can watch it."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

_WIDTH = 30

_AT_LEAST = 10.0
"""Seconds over which a rate is taken at least, if there are so many; else a third of the time that has gone by."""

_SAMPLES = 100
"""How many moments a rate is taken from at most, about."""


class Progress:
    """Counts steps on standard error: a bar, the share done, the rate, and the time left.

    The rate is that of the last third of the time, from the first step on: what comes before it, such as compiling,
    is no measure of the steps. Until two steps lie half a second apart, nothing is said of rate and time.

    Parameters
    ----------
    total
        The number of steps.
    label
        What is being done.
    shown
        True or False, or None for: when standard error is a terminal. The bar appears after a second in any case.
    unit
        What a step is, in the plural.

    Attributes
    ----------
    stopped
        Whoever sets it asks the work that advances this bar to stop.
    """

    def __init__(self, total: int, label: str, shown: bool | None = None, *, unit: str = "steps") -> None:
        self.stopped = threading.Event()
        self._total = total
        self._label = label
        self._unit = unit
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._done = 0
        self._skipped = 0
        self._start = self._last = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque()  # when how many steps were done, the skipped ones apart
        self._drawn = False

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the line clean."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def skip(self, steps: int) -> None:
        """Note that `steps` more need not be done, such as those of an earlier run: they say nothing about the rate."""
        self._done += steps
        self._skipped += steps

    def advance(self, steps: int) -> None:
        """Note that `steps` more are done; 0 shows the bar without any."""
        self._done += steps
        now = time.monotonic()
        if steps:
            self._sample(now)
        if not self._shown or now - self._start < 1.0 or now - self._last < 0.1:
            return
        self._last = now
        share = self._done / self._total if self._total else 1.0
        bar = "█" * round(_WIDTH * share)
        line = f"\r\x1b[K{self._label} {bar:░<{_WIDTH}} {share:4.0%}{self._pace()}"
        print(line, end="", file=sys.stderr, flush=True)
        self._drawn = True

    def _sample(self, now: float) -> None:
        span = max(_AT_LEAST, (now - self._start) / 3.0)
        samples = self._samples
        # The newest sample is always the present one; the one before it stays if it is not too close to its neighbour.
        if len(samples) > 2 and samples[-1][0] - samples[-2][0] < span / _SAMPLES:
            samples.pop()
        samples.append((now, self._done - self._skipped))
        while len(samples) > 2 and now - samples[1][0] >= span:
            samples.popleft()

    def _pace(self) -> str:
        """Return the rate and the time left in words, as far as they are known."""
        if len(self._samples) < 2:
            return ""
        (begin, before), (end, after) = self._samples[0], self._samples[-1]
        if end - begin < 0.5:
            return ""
        rate = (after - before) / (end - begin)
        return f" {short(rate)} {self._unit}/s {duration((self._total - self._done) / rate)} left"


def short(number: float) -> str:
    """Return a number in three digits or so: 1.23M.

    Examples
    --------
    >>> from umab.progress import short
    >>> short(1234567), short(950.4), short(0.123456), short(25e9)
    ('1.23M', '950', '0.123', '25G')
    """
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * power:
            return f"{number / power:.3g}{letter}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Return a time in a unit that suits it.

    Examples
    --------
    >>> from umab.progress import duration
    >>> duration(5.2), duration(200), duration(7800), duration(1e6)
    ('5 s', '3 min', '2 h 10 min', '277 h')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 and minutes else f"{hours} h"
