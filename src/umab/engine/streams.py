"""Where random numbers come from: one stream per trial, the same for every policy."""

from __future__ import annotations

import numpy as np


def stream(seed: int | None, trial: int, *, of_delays: bool = False) -> np.random.PCG64:
    """Return the random numbers of a trial, for its draws or for its delays; a seed of None gives fresh ones."""
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(trial, 1) if of_delays else (trial,)))
