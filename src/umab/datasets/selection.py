"""Model selection: ten learners of a linear regression that differ in their learning rate."""

from __future__ import annotations

import numpy as np

from umab.datasets.common import HORIZON, Setting, parameters
from umab.tables.losses import Losses, Table

_RATES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 0.0025, 0.025)
_TRUTH = np.arange(1.0, 6.0)
_NOISE = 5.0
_N_ROWS, _BATCH = 100, 32


def selection(setting: Setting = "printed", *, seed: int = 0) -> Losses:
    """Return 1258 rounds of training errors of ten learners; each arm is a learning rate.

    All learn y = ⟨x, (1, 2, 3, 4, 5)⟩ + 5·N(0, 1) by stochastic gradient descent on squared errors. An error that is
    too large for a double is replaced by the learner's last finite one.

    Parameters
    ----------
    setting
        ``"printed"``: one stream of 1258 rows, of which each learner sees one per round. A row x is a normal vector
        scaled to length 1, and all learners start from one point θ ~ N(0, 1)⁵, so that only their rates differ. The
        loss of round t is the root of the mean squared error on the first t rows, after the t-th was learned.

        ``"figure"``: each learner has 100 rows x ~ N(0, 1)⁵ and a start θ ~ N(0, 1)⁵ of its own. A round is a pass
        over its rows, shuffled anew, in batches of 32 and a last one of 4. The loss is the length of the vector of
        its 100 errors before the pass.
    seed
        The seed for the rows, the starts and the shuffles.

    Examples
    --------
    >>> import umab.datasets
    >>> losses = umab.datasets.selection()
    >>> losses.n_rounds, losses.arms[:3]
    (1258, ('rate 0.001', 'rate 0.005', 'rate 0.01'))
    """
    given = parameters(setting, seed)
    rng = np.random.default_rng(seed)
    # A learner with a large rate may diverge until its errors overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        table = _one_stream(rng) if setting == "printed" else _passes(rng)
    return Losses.of(
        _last_finite(table),
        arms=[f"rate {rate:g}" for rate in _RATES],
        source=f"training errors of ten linear regressions in the setting {setting!r}, drawn with seed {seed}",
        provenance={"dataset": "selection", "stand_in": False, "parameters": given},
    )


# Products are summed with multiply and sum, not with a matrix product, whose order of summation and thus last bits
# depend on the processor. Features come first in all shapes, because sums along the first axis are the fastest.


def _one_stream(rng: np.random.Generator) -> Table:
    """Return the errors of learners that see one row per round, the same for all."""
    rates = np.array(_RATES)
    rows = rng.standard_normal((len(_TRUTH), HORIZON))
    rows /= np.sqrt((rows * rows).sum(axis=0))
    y = (_TRUTH[:, None] * rows).sum(axis=0) + _NOISE * rng.standard_normal(HORIZON)
    theta = np.repeat(rng.standard_normal((len(_TRUTH), 1)), len(rates), axis=1)
    table = np.empty((HORIZON, len(rates)))
    for t in range(HORIZON):
        x = rows[:, t, None]
        theta = theta - rates * x * ((x * theta).sum(axis=0) - y[t])
        seen = rows[:, : t + 1, None]
        errors = (seen * theta[:, None, :]).sum(axis=0) - y[: t + 1, None]
        table[t] = np.sqrt((errors * errors).mean(axis=0))
    return table


def _passes(rng: np.random.Generator) -> Table:
    """Return the errors of learners that each pass over rows of their own, once per round."""
    rates = np.array(_RATES)
    n_learners = len(rates)
    rows = rng.standard_normal((len(_TRUTH), n_learners, _N_ROWS))
    y = (_TRUTH[:, None, None] * rows).sum(axis=0) + _NOISE * rng.standard_normal((n_learners, _N_ROWS))
    theta = rng.standard_normal((len(_TRUTH), n_learners))
    order = np.tile(np.arange(_N_ROWS), (n_learners, 1))
    learner = np.arange(n_learners)[:, None]
    table = np.empty((HORIZON, n_learners))
    for t in range(HORIZON):
        errors = (rows * theta[:, :, None]).sum(axis=0) - y
        table[t] = np.sqrt((errors * errors).sum(axis=1))
        shuffled = rng.permuted(order, axis=1)
        x_of_pass, y_of_pass = rows[:, learner, shuffled], y[learner, shuffled]
        for start in range(0, _N_ROWS, _BATCH):
            x, y_of_batch = x_of_pass[:, :, start : start + _BATCH], y_of_pass[:, start : start + _BATCH]
            errors = (x * theta[:, :, None]).sum(axis=0) - y_of_batch
            theta = theta - rates * (x * errors).mean(axis=2)
    return table


def _last_finite(table: Table) -> Table:
    """Return the table with every entry that is not finite replaced by the last finite one above it."""
    row = np.where(np.isfinite(table), np.arange(len(table))[:, None], 0)
    return np.take_along_axis(table, np.maximum.accumulate(row, axis=0), axis=0)
