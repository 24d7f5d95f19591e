"""What is shared by policies that must be told the range of the losses."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.limits import ROUND, SUMS, Limits
from umab.maths import simplex
from umab.maths.simplex import Vector


class Range(NamedTuple):
    """The parameters of a policy that must know the range and nothing else."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class KnownRange(Policy):
    """A policy for losses in [low, high], a range that must be known in advance.

    A loss outside it is refused. Adding a number to the losses and to the range, or multiplying both, changes nothing.
    The other policies are for losses of unknown range.
    """

    low: float = 0.0
    high: float = 1.0
    instead: ClassVar[str] = (
        "; if the range is unknown, use a scale-free policy: UMABNN for losses of at least 0, AHB or SCB for any"
    )

    def __post_init__(self) -> None:
        """Check the range."""
        low, high = checks.finite("low", self.low), checks.finite("high", self.high)
        if not low < high or math.isinf(high - low):
            raise ValueError(f"high must be above low by a finite difference, but got low={low} and high={high}")
        self._set(low=low, high=high)

    def parameters_for(self, n_arms: int) -> NamedTuple:
        """Return the range."""
        return Range(self.low, self.high)

    @property
    def loss_range(self) -> tuple[float, float]:
        """From low to high."""
        return self.low, self.high


class Summed(NamedTuple):
    """What a policy knows that sums estimates of losses, scaled to run from 0 for `low` to 1 for `high`."""

    probabilities: Vector  # p_t
    loss_sums: Vector  # Σ û_s
    round: float  # t


@dataclass(frozen=True, kw_only=True)
class SummedLosses(KnownRange):
    """A policy for losses in [low, high] whose distribution follows from the sums of estimates and the round."""

    def init(self, n_arms: int) -> Summed:
        """Return the uniform distribution."""
        return Summed(probabilities=simplex.uniform(n_arms), loss_sums=[0.0] * n_arms, round=1.0)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `Summed`."""
        return {"loss_sums": SUMS, "round": ROUND}


@dataclass(frozen=True, kw_only=True)
class KnownHorizon(KnownRange):
    """A policy for losses in [low, high] that must know the number of rounds too."""

    horizon: int | None = None

    def __post_init__(self) -> None:
        """Check the range and the horizon."""
        super().__post_init__()
        self._set(horizon=checks.optional_horizon(self.horizon))

    @property
    def needs_horizon(self) -> bool:
        """Whether the horizon is still missing."""
        return self.horizon is None


@dataclass(frozen=True, kw_only=True)
class ExponentialWeights(KnownHorizon):
    """A policy whose arms have weights that are exponentials of sums of gains, and which sum to 1."""

    link = staticmethod(simplex.entropy_link)

    def solved(self, state: Any) -> Vector:
        """Return the weights."""
        weights: Vector = state.weights
        return weights


def scaled(loss: float, low: float, high: float) -> float:
    """Return a loss on the scale from 0 for `low` to 1 for `high`."""
    return (loss - low) / (high - low)


def gain(loss: float, low: float, high: float) -> float:
    """Return a loss as a gain, from 0 for `high` to 1 for `low`."""
    return (high - loss) / (high - low)
