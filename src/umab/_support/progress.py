"""A progress bar for work that takes more than a second, shown only if somebody can watch it."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

_WIDTH = 30

_AT_LEAST = 10.0
"""A rate is taken over this many seconds, or over a third of the time so far if that is longer."""

_SAMPLES = 100
"""About how many samples are kept for a rate at most."""


class Progress:
    """Show progress on standard error: a bar, the share done, the rate, and the time left.

    The rate is taken over the last third of the time, but not from before the first step: compiling, for example, says
    nothing about the steps. Until two steps are half a second apart, neither rate nor time left is shown.

    Parameters
    ----------
    total
        The number of steps.
    label
        What is being done.
    shown
        True or False; None shows the bar if standard error is a terminal. It appears after a second in any case.
    unit
        What a step is, in the plural.

    Attributes
    ----------
    stopped
        Set this event to ask the work that advances this bar to stop.
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
        self._samples: deque[tuple[float, int]] = deque()  # times and steps done by then, without skipped ones
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
        """Note that `steps` more need not be done, such as the steps of an earlier run; the rate ignores them."""
        self._done += steps
        self._skipped += steps

    def advance(self, steps: int) -> None:
        """Note that `steps` more are done; 0 only shows the bar."""
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
        self._drawn = True  # first, since a signal may come when the line is there
        print(line, end="", file=sys.stderr, flush=True)

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
    """Return a number in about three digits: 1.23M.

    Examples
    --------
    >>> from umab._support.progress import short
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
    >>> from umab._support.progress import duration
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
