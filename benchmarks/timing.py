"""Timing that is robust on a noisy machine: the contenders take turns, and only ratios are reported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Ratio(NamedTuple):
    """The time of one thing divided by the time of another, over repeats that took turns."""

    median: float
    low: float
    high: float
    seconds: float
    """The median time of the first thing."""

    def __str__(self) -> str:
        return f"{self.median:5.2f}  ({self.low:.2f}–{self.high:.2f})"


def take_turns(first: Callable[[], object], second: Callable[[], object], *, repeats: int = 15) -> Ratio:
    """Return the time of `first` divided by the time of `second`: the median and the middle half over the turns."""
    first(), second()
    return ratio_of_turns(lambda: seconds(first), lambda: seconds(second), repeats=repeats)


def ratio_of_turns(first: Callable[[], float], second: Callable[[], float], *, repeats: int) -> Ratio:
    """Do what `take_turns` does, with functions that are already warm and return their own seconds."""
    times = np.array([(first(), second()) for _ in range(repeats)])
    ratios = times[:, 0] / times[:, 1]
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return Ratio(float(median), float(low), float(high), float(np.median(times[:, 0])))


def seconds(run: Callable[[], object]) -> float:
    """Return how long `run` takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def fresh_process(code: str, python: str | Path = sys.executable, *, repeats: int = 9) -> list[float]:
    """Return the seconds that `code` takes in new processes, without the start of Python; the first one is dropped."""
    program = f"import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    # Users keep byte code on disk, so these processes do too, whatever this shell says. The first may have to write it.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = [str(python), "-c", program]
    times = [
        float(subprocess.run(run, check=True, capture_output=True, text=True, env=settings).stdout)
        for _ in range(repeats)
    ]
    return times[1:] or times
