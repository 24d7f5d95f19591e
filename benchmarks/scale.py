"""One simulation of UMAB-G-A in its own process: its time and its memory.

`python -m benchmarks.scale TRIALS ROUNDS ARMS` prints both as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import NamedTuple


class Cost(NamedTuple):
    """The time and the memory of a simulation."""

    seconds: float
    memory: float
    """The peak of the whole process, in bytes."""


def measure(n_trials: int, n_rounds: int, n_arms: int) -> Cost:
    """Return the cost of `n_trials` trials in a fresh process, on all cores, with a summary of sampled regret."""
    command = [sys.executable, "-m", "benchmarks.scale", *map(str, (n_trials, n_rounds, n_arms))]
    return Cost(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main(n_trials: int, n_rounds: int, n_arms: int) -> None:
    """Run the simulation, and print its seconds and its peak memory as JSON."""
    import numpy as np

    import umab
    from umab._support.memory import peak

    losses = umab.Losses.of(np.random.default_rng(0).normal(size=(n_rounds, n_arms)))
    umab.simulate(umab.UMABGA(), losses.table[:10], n_trials=2)  # compiles, or loads machine code
    start = time.perf_counter()
    umab.simulate(umab.UMABGA(), losses, n_trials=n_trials, expected=False, keep="summary")
    print(json.dumps([time.perf_counter() - start, peak()]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
