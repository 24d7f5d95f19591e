"""Where random numbers come from: one stream a trial, the same for every policy."""

from __future__ import annotations

import numpy as np


def stream(seed: int | None, trial: int) -> np.random.PCG64:
    """Return the random numbers of a trial; a seed of None takes fresh ones from the system."""
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(trial,)))
