"""Theorem 1, on UMAB-NN: how the steps sum up, and the end of its proof. `ftrl.py` has the start of the proof.

Lemma 6 is Orabona's; the proof of Theorem 2 uses it too.
"""

from __future__ import annotations

import numpy as np

from umab.theory.statements.common import OF_1, Sides, Steps, plain, statement


@statement(
    id="Lemma 6",
    where="proof of Theorem 1",
    text="Σ min(a²_t/√Σ_{s<t}a²_s, a_t) ≤ 3.5√Σa²_t + 3.5 max a_t",
    form="as printed",
)
def _sum_of_steps_at_most_root_of_squares(steps: Steps) -> Sides:
    """Take a_t = |ℓ'_{t,k_t}|."""
    sizes = np.abs(steps.of.clipped)
    before = np.sqrt(np.cumsum(sizes**2, axis=1) - sizes**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(before > 0, np.minimum(sizes**2 / before, sizes), sizes)
    right = np.sqrt((sizes**2).sum(axis=1)) + sizes.max(axis=1)
    return plain(terms.sum(axis=1), np.longdouble(3.5) * right)


def _factor_at_most(steps: Steps, right: np.longdouble) -> Sides:
    """State that the factor of √(nS) at the end of the proof, ½log(nT) + 3.5, is at most `right`, in each run."""
    nothing = 0 * steps.largest
    return plain(_logarithm(steps) / 2 + np.longdouble(3.5) + nothing, right + nothing)


def _logarithm(steps: Steps) -> np.longdouble:
    """Return log(nT)."""
    logarithm: np.longdouble = np.log(steps.n * steps.horizon)
    return logarithm


@statement(
    id="last step",
    where="proof of Theorem 1",
    text="½log(nT) + 3.5 ≤ 4log(nT)",
    form="as printed",
    of=OF_1,
)
def _factor_at_most_4_logarithms(steps: Steps) -> Sides:
    return _factor_at_most(steps, 4 * _logarithm(steps))


@statement(
    id="last step",
    where="proof of Theorem 1",
    text="½log(nT) + 3.5 ≤ 4max(1, log(nT))",
    form="as repaired",
    of=OF_1,
)
def _repaired_factor_at_most_4_logarithms(steps: Steps) -> Sides:
    return _factor_at_most(steps, 4 * max(np.longdouble(1), _logarithm(steps)))
