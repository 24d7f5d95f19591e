"""A learner's draw among the arms that are eligible now; `umab.maths.eligible` says how it is made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.engine.compiled import drawing_kernel


class DrawAmong(NamedTuple):
    """An arm that was drawn, and the arm to whose account its loss goes."""

    arm: int
    probability: float
    account: int
    account_probability: float
    rest: float
    """What is left of the uniform number that decided on the account."""


def draw_among(p: npt.NDArray[np.float64], eligible: npt.NDArray[np.bool_], uniforms: tuple[float, float]) -> DrawAmong:
    """Draw one of the arms for which `eligible` is true, from the distribution `p` over all arms."""
    return DrawAmong(*drawing_kernel()(p, eligible, *uniforms))
