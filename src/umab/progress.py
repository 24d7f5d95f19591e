"""A progress bar for work of more than a second, shown only where somebody can watch it."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_WIDTH = 30


class Progress:
    """Counts steps on standard error: a bar, the share done, and the time left.

    Parameters
    ----------
    total
        The number of steps.
    label
        What is being done.
    shown
        True or False, or None for: when standard error is a terminal. The bar appears after a second in any case.
    """

    def __init__(self, total: int, label: str, shown: bool | None = None) -> None:
        self._total = total
        self._label = label
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._done = 0
        self._start = self._last = time.monotonic()
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

    def advance(self, steps: int) -> None:
        """Note that `steps` more are done."""
        self._done += steps
        now = time.monotonic()
        if not self._shown or now - self._start < 1.0 or now - self._last < 0.1:
            return
        self._last = now
        share = self._done / self._total
        bar = "█" * round(_WIDTH * share)
        left = (now - self._start) * (1.0 - share) / share
        line = f"\r\x1b[K{self._label} {bar:░<{_WIDTH}} {share:4.0%} {left:.0f} s left"
        print(line, end="", file=sys.stderr, flush=True)
        self._drawn = True
