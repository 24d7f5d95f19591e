"""A bound on a loss table, and the terms that it consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from umab.theory.path import Number


class Bound(NamedTuple):
    """What is promised for a policy on a loss table."""

    policy: str
    rate: float
    """The order of the regret, without constants and logarithms."""
    formula: str
    """That order, as a formula."""
    printed: float | None
    """The bound with the constants of the paper's proof; None if there are none."""
    repaired: float | None
    """The bound with constants for which the proof is right; None if there are none. For own policies, as proved."""
    terms: Mapping[str, float]
    """The repaired bound, term by term."""
    source: str
    """Where it comes from."""


def in_doubles(
    policy: str,
    rate: Number,
    formula: str,
    printed: Number | None,
    repaired: Number | float | None,
    terms: Mapping[str, Number],
    source: str,
) -> Bound:
    """Return a bound that was computed in long doubles; a number that is too large for a double becomes inf."""
    with np.errstate(over="ignore"):
        return Bound(
            policy,
            float(rate),
            formula,
            None if printed is None else float(printed),
            None if repaired is None else float(repaired),
            {name: float(term) for name, term in terms.items()},
            source,
        )
