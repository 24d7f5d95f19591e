"""The level of losses that may move, in extended precision: what `umab.maths.level` computes, from its definition."""

from __future__ import annotations

import numpy as np

from umab.maths.level import CLEARLY, FAST, FIRST, SLOW
from umab.theory.path import Precise


def predictions(losses: Precise) -> Precise:
    """Return the mean and the two moving means of the losses before each one: 3 × rows × T, from losses rows × T.

    In the first round, where there are none, they are 0.
    """
    n_rows, n_rounds = losses.shape
    found = np.zeros((3, n_rows, n_rounds + 1), dtype=np.longdouble)
    least_rates = np.array([0, FAST, SLOW], dtype=np.longdouble)[:, None]
    for t in range(n_rounds):
        rates = np.maximum(1 / np.longdouble(t + 1), least_rates)
        found[:, :, t + 1] = found[:, :, t] + rates * (losses[:, t] - found[:, :, t])
    return found[:, :, :-1]


def levels(losses: Precise) -> Precise:
    """Return the level of each round, rows × T: the mean of the losses before, or the moving mean that is taken."""
    predicted = predictions(losses)
    errors = np.cumsum((losses - predicted) ** 2, axis=2)
    of_mean, of_fast, of_slow = np.concatenate([0 * errors[:, :, :1], errors[:, :, :-1]], axis=2)
    mean, fast, slow = predicted
    local = (np.arange(losses.shape[1]) >= FIRST) & (np.minimum(of_fast, of_slow) < CLEARLY * of_mean)
    return np.asarray(np.where(local, np.where(of_fast < of_slow, fast, slow), mean))
