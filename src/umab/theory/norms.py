"""The norms of a table of losses in which the bounds are written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from umab.losses import Losses


class Norms(NamedTuple):
    """What the bounds depend on."""

    n_arms: int
    n_rounds: int
    largest: float
    """ℓ∞, the largest loss in size."""
    most_negative: float
    """ℓ⁻∞, the size of the most negative loss; 0 if there is none."""
    sum_of_sizes: float
    """Σ_t ‖ℓ_t‖∞."""
    sum_of_squares: float
    """Σ_t ‖ℓ_t‖²∞."""
    sum_of_1_norms: float
    """Σ_t ‖ℓ_t‖₁."""
    sum_of_2_norms: float
    """Σ_t ‖ℓ_t‖²₂."""

    @classmethod
    def of(cls, losses: Losses) -> Norms:
        """Return the norms of a table; a sum of squares that is too large for a double comes out as inf."""
        sizes = np.abs(losses.table)
        largest = sizes.max(axis=1)
        with np.errstate(over="ignore"):
            return cls(
                n_arms=losses.n_arms,
                n_rounds=losses.n_rounds,
                largest=float(largest.max()),
                most_negative=float(max(0.0, -losses.table.min())),
                sum_of_sizes=float(largest.sum()),
                sum_of_squares=float((largest * largest).sum()),
                sum_of_1_norms=float(sizes.sum()),
                sum_of_2_norms=float((sizes * sizes).sum()),
            )
