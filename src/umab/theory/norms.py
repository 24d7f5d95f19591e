"""The norms of a loss table in which the bounds are written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.maths.level import FIRST
from umab.tables.losses import Losses, refuse_away
from umab.theory.levels import predictions
from umab.theory.path import Precise


class Norms(NamedTuple):
    """What the bounds depend on."""

    n_arms: int
    n_rounds: int
    largest: np.longdouble
    """ℓ∞, the size of the largest loss."""
    most_negative: np.longdouble
    """ℓ⁻∞, the size of the most negative loss; 0 if there is none."""
    sum_of_sizes: np.longdouble
    """Σ_t ‖ℓ_t‖∞."""
    sum_of_squares: np.longdouble
    """Σ_t ‖ℓ_t‖²∞."""
    sum_of_1_norms: np.longdouble
    """Σ_t ‖ℓ_t‖₁."""
    sum_of_2_norms: np.longdouble
    """Σ_t ‖ℓ_t‖²₂."""

    @classmethod
    def of(cls, losses: Losses) -> Norms:
        """Return the norms of a table, in long doubles, in which squares of doubles neither overflow nor vanish."""
        refuse_away(losses, "a bound")
        sizes = np.abs(losses.table.astype(np.longdouble))
        largest = sizes.max(axis=1)
        return cls(
            n_arms=losses.n_arms,
            n_rounds=losses.n_rounds,
            largest=largest.max(),
            most_negative=np.maximum(np.longdouble(0), -losses.table.min().astype(np.longdouble)),
            sum_of_sizes=largest.sum(),
            sum_of_squares=(largest * largest).sum(),
            sum_of_1_norms=sizes.sum(),
            sum_of_2_norms=(sizes * sizes).sum(),
        )


class Sizes(NamedTuple):
    """What the bound of UMAB-S depends on: the sizes of its losses."""

    largest: np.longdouble
    """L, the size of the largest loss."""
    most_negative: np.longdouble
    """L⁻, the size of the most negative loss; 0 if there is none."""
    sum_of_squares: np.longdouble
    """Σ_t ‖ℓ_t‖²∞."""
    spread: np.longdouble
    """D, the largest difference of two arms in one round."""

    @classmethod
    def of(cls, losses: Losses) -> Sizes:
        """Return the sizes of the losses of a table."""
        low, high = _ends(losses)
        return cls._of_rounds(-low, high, high - low)

    @classmethod
    def centred(cls, losses: Losses, *, local: bool = False, among: npt.NDArray[np.bool_] | None = None) -> Sizes:
        """Return bounds on the sizes of ℓ_t − b_t from round 2 on, whatever arms are drawn.

        As b_t is a mean of one loss from each round before, it lies between the mean of their smallest losses and the
        mean of their largest. If `local`, it may also be a moving mean. The spread is over all rounds. `among` says
        which arms may be drawn in each round, rounds × arms; only these count.
        """
        low, high = _ends(losses, among)
        low, high = low - low[0], high - low[0]  # so that an offset costs no digits
        least, most = _centres(low, high, local)
        return cls._of_rounds(most - low[1:], high[1:] - least, high - low)

    @classmethod
    def _of_rounds(cls, below: Precise, above: Precise, spreads: Precise) -> Sizes:
        """Return the sizes of losses that are at most `below` under 0 and at most `above` over it."""
        nothing = np.longdouble(0)
        sizes = np.maximum(below, above)
        return cls(sizes.max(initial=nothing), below.max(initial=nothing), (sizes * sizes).sum(), spreads.max())


class Squares(NamedTuple):
    """What the bound of UMAB-Sh depends on: the squares of the losses of each round."""

    total: Precise
    """V_t = Σ_k ℓ²_{t,k}."""
    largest: Precise
    """‖ℓ_t‖²∞."""

    @classmethod
    def of(cls, losses: Losses) -> Squares:
        """Return the squares of the losses of a table."""
        squares = losses.table.astype(np.longdouble) ** 2
        return cls(squares.sum(axis=1), squares.max(axis=1))

    @classmethod
    def centred(cls, losses: Losses, *, local: bool = False, among: npt.NDArray[np.bool_] | None = None) -> Squares:
        """Return bounds on the squares of ℓ_t − b_t, whatever arms are drawn; 0 in round 1, which teaches nothing.

        They are convex in b_t, so they are largest at an end of the interval in which it lies; see `Sizes.centred`.
        """
        low, high = _ends(losses, among)
        table = losses.table.astype(np.longdouble) - low[0]
        squares = [(table[1:] - centre[:, None]) ** 2 for centre in _centres(low - low[0], high - low[0], local)]
        if among is not None:
            squares = [np.where(among[1:], each, np.longdouble(0)) for each in squares]
        first = np.zeros(1, dtype=np.longdouble)
        return cls(
            np.concatenate([first, np.maximum(*(each.sum(axis=1) for each in squares))]),
            np.concatenate([first, np.maximum(*(each.max(axis=1) for each in squares))]),
        )


def _centres(low: Precise, high: Precise, local: bool) -> tuple[Precise, Precise]:
    """Return the smallest and the largest mean of one loss from each round before, from round 2 on.

    If `local`, a moving mean counts too, from the round on in which the level may be one.
    """
    count = np.arange(1, len(low))
    least, most = np.cumsum(low[:-1]) / count, np.cumsum(high[:-1]) / count
    if local:
        moving = predictions(np.stack([low, high]))[:, :, 1:]
        moving = np.where(count >= FIRST, moving, np.stack([least, most]))
        least, most = moving[:, 0].min(axis=0), moving[:, 1].max(axis=0)
    return least, most


def _ends(losses: Losses, among: npt.NDArray[np.bool_] | None = None) -> tuple[Precise, Precise]:
    """Return the smallest and the largest loss of each round among some arms, or all, in long doubles."""
    refuse_away(losses, "a bound")
    table = losses.table.astype(np.longdouble)
    if among is None:
        return table.min(axis=1), table.max(axis=1)
    return np.where(among, table, np.inf).min(axis=1), np.where(among, table, -np.inf).max(axis=1)
