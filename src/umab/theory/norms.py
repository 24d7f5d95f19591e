"""The norms of a table of losses in which the bounds are written."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umab.losses import Losses


class Norms(NamedTuple):
    """What the bounds depend on."""

    n_arms: int
    n_rounds: int
    largest: Any
    """ℓ∞, the largest loss in size."""
    most_negative: Any
    """ℓ⁻∞, the size of the most negative loss; 0 if there is none."""
    sum_of_sizes: Any
    """Σ_t ‖ℓ_t‖∞."""
    sum_of_squares: Any
    """Σ_t ‖ℓ_t‖²∞."""
    sum_of_1_norms: Any
    """Σ_t ‖ℓ_t‖₁."""
    sum_of_2_norms: Any
    """Σ_t ‖ℓ_t‖²₂."""

    @classmethod
    def of(cls, losses: Losses) -> Norms:
        """Return the norms of a table, in long doubles: squares of doubles neither overflow nor vanish in them."""
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
