"""The peak of the memory of a process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from umab._support.memory import peak


def test_the_peak_is_that_of_this_process_alone() -> None:
    large = np.ones(40_000_000)  # 320 MB here, which a child must not count as its own
    here = peak()
    assert here >= large.nbytes
    script = "from umab._support.memory import peak; before = peak(); b'1' * 100_000_000; print(before, peak())"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    before, after = map(int, printed.split())
    assert 1e6 < before < 100e6 and 90e6 < after - before < 120e6
