"""AdaTINF, for losses with heavy tails of which nothing is known, and its form without a horizon."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.htinf import threshold_for
from umab.algorithms.limits import ROUND, SUMS, UNIT, Limits
from umab.maths import simplex
from umab.maths.numerics import importance_weighted, rescale
from umab.maths.simplex import Vector, tsallis

_THRESHOLD = threshold_for(2.0)
_COST_UNIT = 2.0**-64


class State(NamedTuple):
    """Sums are kept in units of λ, a power of two which grows with the losses.

    J does not follow losses below 0, but S sums those that are skipped. Hence its unit is 2⁶⁴ λ: then it cannot
    overflow in as many rounds.
    """

    probabilities: Vector  # q_t
    loss_sums: Vector  # Σ ℓ̂_s over the rounds that were not skipped
    cost_sum: float  # S, in units of 2⁶⁴ λ
    unit: float  # multiplier from losses to the unit of the sums, 1/λ = 2^−J
    round: float  # t, in this epoch
    epoch_length: float  # T; a policy with a horizon has one epoch


class Parameters(NamedTuple):
    """The parameters of `AdaTINF`, as numbers."""

    anytime: float  # 1 if there are epochs


@dataclass(frozen=True, kw_only=True)
class AdaTINF(Policy[State, Parameters]):
    """AdaTINF, for losses with heavy tails of which nothing is known.

    It is OptTINF with a scale λ = 2^J, which starts from 1 and grows when the losses have cost too much:

        q_t = argmin_q Σ_{s<t} ⟨ℓ̂_s, q⟩ − λ√t · 2 Σ √q_k.

    A loss is skipped, so that its estimate is 0, if |ℓ_t| > (1 − 2^(−1/3)) λ √(t q_{t,k}). It costs c = ℓ_t if it is
    skipped, and c = 2ℓ_t²/(λ √(t q_{t,k})) if not. S sums the costs; if it exceeds λ √(n(T + 1)), it becomes c, and J
    becomes J + 1 or ⌈log₂(c/√(n(T + 1)))⌉ + 1, whichever is larger.

    Parameters
    ----------
    horizon
        T, the number of rounds. `umab.simulate` fills it in.
    anytime
        Whether to do without a horizon (Ada²TINF): all starts afresh in epochs of 1, 3, 7, 15, … rounds, each with its
        length as T.

    Guarantee
    ---------
    Expected regret of order σ n^(1−1/α) T^(1/α) + √(nT), for all α and σ at once. The losses are drawn from
    distributions with E|ℓ|^α ≤ σ^α, and the best arm is *truncated non-negative*, as for `HTINF`. For other losses it
    is a yardstick. The bound does not cover late feedback: there, q is that of the draw, and λ and t are those of the
    time when the loss arrives, and so is the epoch.

    References
    ----------
    Huang, Dai and Huang, Adaptive Best-of-Both-Worlds Algorithm for Heavy-Tailed Multi-Armed Bandits, ICML 2022.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.AdaTINF(horizon=1000), arms=3)
    >>> learner.update(0, loss=0.1)
    >>> learner.probabilities().round(4)
    array([0.2824, 0.3588, 0.3588])
    """

    horizon: int | None = None
    anytime: bool = False

    link = staticmethod(simplex.tsallis_link)

    def __post_init__(self) -> None:
        """Check the parameters."""
        anytime = checks.true_or_false("anytime", self.anytime)
        self._set(horizon=checks.optional_horizon(self.horizon))
        if anytime and self.horizon is not None:
            raise ValueError(f"horizon must be None if anytime is True, but got horizon={self.horizon}")

    @property
    def needs_horizon(self) -> bool:
        """Whether the horizon is still missing."""
        return self.horizon is None and not self.anytime

    @property
    def horizon_advice(self) -> str:
        """The policy has a form without a horizon."""
        return "pass horizon=..., the number of rounds, to AdaTINF, or use adatinf-anytime"

    @property
    def guarantee(self) -> str:
        """As published."""
        return "σ n^(1−1/α) T^(1/α) + √(nT)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            loss_sums=[0.0] * n_arms,
            cost_sum=0.0,
            unit=1.0,
            round=1.0,
            epoch_length=float(self.horizon or 1),
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return whether there are epochs."""
        return Parameters(anytime=1.0 if self.anytime else 0.0)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "loss_sums": SUMS,
            "cost_sum": SUMS,
            "unit": UNIT,
            "round": ROUND,
            "epoch_length": ROUND,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return η; it starts afresh in each epoch, so its name has the length of the epoch in it."""
        name = f"η in the epoch of {state.epoch_length:.0f} rounds" if self.anytime else "η"
        return {name: state.unit / math.sqrt(state.round)}

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        scaled = loss * state.unit
        width = math.sqrt(state.round * probability)
        if abs(scaled) > _THRESHOLD * width:
            cost = scaled
        else:
            cost = 2.0 * scaled * (scaled / width)
            state.loss_sums[arm] += importance_weighted(scaled, probability)
        cost_sum = state.cost_sum + cost * _COST_UNIT
        unit, t, epoch_length = state.unit, state.round + 1.0, state.epoch_length
        limit = math.sqrt(len(state.probabilities) * (epoch_length + 1.0))
        if cost_sum > limit * _COST_UNIT:
            shrink = shrinkage(cost / limit)
            rescale(state.loss_sums, shrink)
            cost_sum = cost * shrink * _COST_UNIT
            unit *= shrink
        if parameters.anytime == 1.0 and t > epoch_length:
            rescale(state.loss_sums, 0.0)
            cost_sum, unit, t, epoch_length = 0.0, 1.0, 1.0, 2.0 * epoch_length + 1.0
        tsallis(state.loss_sums, 1.0 / math.sqrt(t), state.probabilities)
        return State(
            probabilities=state.probabilities,
            loss_sums=state.loss_sums,
            cost_sum=cost_sum,
            unit=unit,
            round=t,
            epoch_length=epoch_length,
        )


def shrinkage(excess: float) -> float:
    """Return 2^−j for the j ≥ 1 by which J grows: the larger of 1 and ⌈log₂ x⌉ + 1, x = `excess` = c/(λ √(n(T + 1))).

    The exponent of x gives it without a logarithm: x = f·2^e with f in [½, 1), and ⌈log₂ x⌉ = e unless f = ½.
    """
    if excess <= 1.0:
        return 0.5
    fraction, exponent = math.frexp(excess)
    return math.ldexp(2.0 if fraction == 0.5 else 1.0, -exponent - 1)
