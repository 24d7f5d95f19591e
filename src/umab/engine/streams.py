"""Where random numbers come from, and how many: one stream per trial, the same for every policy."""

from __future__ import annotations

import numpy as np

from umab.tables.losses import Losses


def stream(seed: int | None, trial: int, *, of_delays: bool = False) -> np.random.PCG64:
    """Return the random numbers of a trial, for its draws or for its delays; a seed of None gives fresh ones."""
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(trial, 1) if of_delays else (trial,)))


def numbers_needed(losses: Losses, rounds: slice) -> int:
    """Return how many uniform numbers a trial draws in some rounds: two where an arm is away, otherwise one."""
    n_rounds: int = rounds.stop - rounds.start
    return n_rounds if losses.eligible is None else n_rounds + int((~losses.eligible[rounds].all(axis=1)).sum())
