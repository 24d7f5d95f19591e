"""What trajectories are made of: the arrays of a run, in extended precision, and steps that several policies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy

Precise = npt.NDArray[Any]
"""An array of long doubles, or of numbers that are compared with them."""

Floats: TypeAlias = npt.NDArray[np.float64]
"""Numbers of runs that are not long doubles any more."""

Number: TypeAlias = np.longdouble | Precise
"""A long double, or an array of them."""

Whole = npt.NDArray[np.intp]
"""An array of whole numbers, such as arms."""

PRECISION = float(np.finfo(np.longdouble).eps)
"""The gap between 1 and the next long double."""


class Runs:
    """What the paths of all policies share, over runs and rounds."""

    losses: Precise
    arms: Whole
    drawn_from: Precise
    clipped: Precise
    coins: Whole | None = None
    heads: Precise | None = None

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self.losses.shape[2])

    @property
    def n_rounds(self) -> int:
        """The number of rounds, T."""
        return int(self.losses.shape[1])

    def of_arm(self, values: Precise) -> Precise:
        """Return the entries of the arms that were drawn: runs × T, from runs × T × n or more rounds."""
        drawn = np.take_along_axis(values[:, : self.n_rounds], self.arms[:, :, None], axis=2)
        return np.asarray(drawn[:, :, 0])

    @property
    def seen(self) -> Precise:
        """The loss of the arm that was drawn, centred if losses are; runs × T."""
        return self.of_arm(self.losses)

    @property
    def estimate(self) -> Precise:
        """The only entry of the estimate that is not 0, that of the arm that was drawn; runs × T."""
        return np.asarray(self.clipped / self.of_arm(self.drawn_from))

    @property
    def of_draw(self) -> Precise:
        """The probability of each draw: of its arm and, if the policy has a coin, of what it showed; runs × T."""
        if self.coins is None or self.heads is None:
            return self.of_arm(self.drawn_from)
        return self.of_arm(self.drawn_from) * np.where(self.coins == 1, self.heads, 1 - self.heads)

    @property
    def probability(self) -> Precise:
        """The probability that the policy draws these arms, and that its coins show this; one number per run."""
        return np.asarray(self.of_draw.prod(axis=1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Trajectory(Runs):
    """Runs of a policy: arrays over runs, rounds and arms. Those of T + 1 rounds include what follows the last one."""

    policy: Policy
    losses: Precise
    """ℓ_t, runs × T × n; for a policy that centres them, ℓ_t − b_t."""
    arms: Whole
    """k_t, runs × T."""
    p: Precise
    """p_t, which follows the regularized leader, or w_t of UMAB-Sh; runs × (T + 1) × n."""
    drawn_from: Precise
    """p'_t, with extra exploration; runs × (T + 1) × n."""
    offsets: Precise
    """c_t = (p'_t − p_t)/ρ_t; runs × (T + 1) × n."""
    inverse_rate: Precise
    """1/η_t, as η_1 of all but UMAB-G is infinite; runs × (T + 1)."""
    exploration: Precise
    """ρ_t; runs × (T + 1)."""
    clip: Precise
    """C_t of UMAB-G, 0 for the others; runs × (T + 1)."""
    sums: Precise
    """Σ_{s<t} ℓ̂'_s; runs × (T + 1) × n."""
    clipped: Precise
    """ℓ'_{t,k_t}, the loss seen after clipping by UMAB-G, UMAB-S or UMAB-W; runs × T."""
    stability: Precise
    """M_t of UMAB-S, UMAB-W and UMAB-Sh, nan for the others; runs × T."""
    charge: Precise
    """G_t of UMAB-S and UMAB-W, for what they clip; nan for the others; runs × T."""
    coins: Whole | None = None
    """What the coin of each draw showed, 0 or 1; None for a policy without a coin; runs × T."""
    heads: Precise | None = None
    """How likely each coin was to show 1; None for a policy without a coin; runs × T."""

    @property
    def expected_regret(self) -> Precise:
        """Σ_t ⟨ℓ_t, p'_t⟩ − min_k Σ_t ℓ_{t,k}; one number per run."""
        spent = (self.losses * self.drawn_from[:, :-1]).sum(axis=(1, 2))
        return np.asarray(spent - self.losses.sum(axis=1).min(axis=1))

    @property
    def log_probability(self) -> Precise:
        """The logarithm of `probability`, −inf where a coin cannot show what it is said to; one number per run."""
        with np.errstate(divide="ignore"):
            found = np.log(self.of_draw).sum(axis=1)
        return np.where((self.of_draw == 0).any(axis=1), -np.inf, found)


def room(table: Precise) -> dict[str, Precise]:
    """Return empty arrays for a trajectory; M_t and G_t are nan until a policy sets them."""
    n_runs, n_rounds, n_arms = table.shape
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("p", "drawn_from", "offsets", "sums"), (n_rounds + 1, n_arms)),
        **dict.fromkeys(("inverse_rate", "exploration", "clip"), (n_rounds + 1,)),
        **dict.fromkeys(("clipped", "stability", "charge"), (n_rounds,)),
    }
    kept = {name: np.zeros((n_runs, *shape), dtype=np.longdouble) for name, shape in shapes.items()}
    kept["stability"][:] = kept["charge"][:] = np.nan
    return kept


def keep(kept: dict[str, Precise], at: int, **values: Precise) -> None:
    """Store the values of a round."""
    for name, value in values.items():
        kept[name][:, at] = value


def raised(p: Precise, floor: Precise) -> Precise:
    """Return p with every entry below its floor raised to it, at the cost of what the others have above theirs.

    The floor is a number for all entries, or one for each. As Σ p = 1, what is above the floors is 1 − (their sum) more
    than what is missing below them.
    """
    missing = np.maximum(0, floor - p).sum(axis=1, keepdims=True)
    spare = 1 - np.broadcast_to(floor, p.shape).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a single arm has nothing to spare, and lacks nothing
        left = spare / (spare + missing)
    return np.where(missing > 0, floor + np.maximum(0, p - floor) * left, p)
