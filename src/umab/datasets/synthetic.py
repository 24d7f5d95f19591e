"""Losses that are made to show one thing: what extra exploration is good for, and what it costs."""

from __future__ import annotations

import numpy as np

from umab.datasets.common import HORIZON, Setting, parameters
from umab.tables.losses import Losses

_ARMS = ("arm 1", "arm 2")


def bad_losses() -> Losses:
    """Return 1258 rounds in which the arm that looks worse at first is by far the better one later.

    The losses of the two arms are (0, −0.5) before round 100, (−10, 0) before round 150 and (−0.05, 0) from then on.
    Rounds count from 1. The paper's definition stops short of round 1258; here that round is like the one before.

    Examples
    --------
    >>> import umab.datasets
    >>> umab.datasets.bad_losses().table[[98, 99, 148, 149]].tolist()
    [[0.0, -0.5], [-10.0, 0.0], [-10.0, 0.0], [-0.05, 0.0]]
    """
    t = np.arange(1, HORIZON + 1)
    first = np.select([t < 100, t < 150], [0.0, -10.0], -0.05)
    second = np.where(t < 100, -0.5, 0.0)
    return Losses.of(
        np.column_stack([first, second]),
        arms=_ARMS,
        source="losses by definition: the arm that looks worse before round 100 is the better one from there on",
        provenance={"dataset": "bad_losses", "stand_in": False, "parameters": {}},
    )


def stochastic(setting: Setting = "printed", *, seed: int = 0) -> Losses:
    """Return 1258 rounds of independent normal losses of standard deviation 1, with one arm better by 1.

    Parameters
    ----------
    setting
        ``"printed"`` for means of (1, 0), or ``"figure"`` for (−1, 0): there, the better arm has rewards of mean 1.
    seed
        The seed of the draw.

    Examples
    --------
    >>> import umab.datasets
    >>> umab.datasets.stochastic().table.mean(axis=0).round(2).tolist()
    [0.97, -0.03]
    """
    given = parameters(setting, seed)
    means = (1.0, 0.0) if setting == "printed" else (-1.0, 0.0)
    noise = np.random.default_rng(seed).standard_normal((HORIZON, 2))
    return Losses.of(
        np.array(means) + noise,
        arms=_ARMS,
        source=f"normal losses of means {means[0]:g} and {means[1]:g} and standard deviation 1, drawn with seed {seed}",
        provenance={"dataset": "stochastic", "stand_in": False, "parameters": given},
    )
