"""Banker-OMD for general losses, in its form without late feedback, which is log-barrier FTRL."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.limits import POSITIVE_SUMS, SUMS, UNIT, Limits
from umab.maths import simplex
from umab.maths.numerics import fit_unit, importance_weighted, rescale, unit_of
from umab.maths.simplex import Vector, log_barrier

Skipped = Literal["usable", "lost"]


BOUND = Limits(0.5, 2.0)
"""What L̂ is in units, which never exceed it by more."""
WEIGHT = Limits(2.0**-200, 2.0**1000)
"""What σ is in units."""


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # x_t
    loss_sums: Vector  # Σ ℓ̂_s over the rounds that were not skipped
    bound: float  # L̂, twice the size of the largest loss seen, at least 1
    square_sum: float  # Σ ℓ²_{s,k_s} over the rounds that were not skipped
    unit: float  # multiplier from losses to the unit of the sums
    weight: float  # σ_t, in units


class Parameters(NamedTuple):
    """The parameters of `BankerOMD`, as numbers."""

    log_horizon: float  # ln T
    savings_lost: float  # 1 if a skipped round returns to the uniform distribution


@dataclass(frozen=True, kw_only=True)
class BankerOMD(Policy[State, Parameters]):
    """Banker-OMD (Banker-SFLBINF), for losses of any size and sign.

    Without late feedback, the bank of the published algorithm is log-barrier FTRL with weight σ_t, which needs memory
    for the arms only. A round is skipped if |ℓ_t| > L̂ or ℓ_t < −σ_t/2; other rounds count in D = L̂² + Σ ℓ²_s and

        σ_t = max(√((3 + D) / ln(3 + D/L̂²)) / √(n ln T), 2L̂),    L̂ = max(1, twice the largest |ℓ_s| so far).

    Parameters
    ----------
    horizon
        T, the number of rounds. `umab.simulate` fills it in.
    skipped
        Whether the investment of a skipped round is ``"usable"`` again or ``"lost"``. The latter is for study: it
        follows a literal reading of the paper, by which the distribution after every skip is uniform.

    Guarantee
    ---------
    None that holds. The proof of the published bound for general losses lacks explicit exploration (Chen and Zhang,
    appendix). With late feedback, this form goes on adding up what arrives; `BankerSFLBINF` is the form with a bank,
    which is the same without delays.

    References
    ----------
    Huang, Dai and Huang, Banker Online Mirror Descent, ICML 2023, Algorithm 4.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.BankerOMD(horizon=1258), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.probabilities().round(4)
    array([0.2826, 0.3587, 0.3587])
    """

    horizon: int | None = None
    skipped: Skipped = "usable"

    def __post_init__(self) -> None:
        """Check the parameters."""
        checks.one_of("skipped", self.skipped, get_args(Skipped))
        self._set(horizon=checks.optional_horizon(self.horizon))

    @property
    def needs_horizon(self) -> bool:
        """Whether the horizon is still missing."""
        return self.horizon is None

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        unit = unit_of(1.0)
        log_horizon = self.parameters_for(n_arms).log_horizon
        return State(
            probabilities=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            bound=unit,
            square_sum=0.0,
            unit=unit,
            weight=max(investment(unit, unit * unit, unit, 0.0, n_arms * log_horizon), 2.0 * unit),
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return ln T, and what happens to a skipped round."""
        return Parameters(
            log_horizon=math.log(max(self.horizon or 2, 2)), savings_lost=1.0 if self.skipped == "lost" else 0.0
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "bound": BOUND,
            "square_sum": POSITIVE_SUMS,
            "unit": UNIT,
            "weight": WEIGHT,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return 1/σ."""
        return {"1/σ": state.unit / state.weight}

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        unit, shrink = fit_unit(state.unit, loss)
        rescale(state.loss_sums, shrink)
        bound = state.bound * shrink
        square_sum = state.square_sum * shrink * shrink
        scaled = loss * unit
        # As σ ≥ 2L̂, the second condition holds only where the first does; it is here because the paper has it.
        if abs(scaled) > bound or scaled < -0.5 * state.weight * shrink:
            if parameters.savings_lost == 1.0:
                for k in range(n_arms):
                    state.loss_sums[k] = 0.0
        else:
            state.loss_sums[arm] += importance_weighted(scaled, probability)
            square_sum += scaled * scaled
        bound = max(bound, 2.0 * abs(scaled))
        total = bound * bound + square_sum
        weight = max(investment(bound, total, unit, 0.0, n_arms * parameters.log_horizon), 2.0 * bound)
        log_barrier(state.loss_sums, 1.0 / weight, state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            bound=bound,
            square_sum=square_sum,
            unit=unit,
            weight=weight,
        )


def investment(bound: float, total: float, unit: float, outstanding: float, divisor: float) -> float:
    """Return √((3 + D) / ln(3 + D/L̂²) / `divisor`) / (d + 1) in units, where D is `total`, and 3 is 3 unit² in them."""
    share = (3.0 * unit * unit + total) / math.log(3.0 + total / (bound * bound))
    return math.sqrt(share / divisor) / (outstanding + 1.0)
