"""SCB-D, scale-clipping for late feedback: a bound for losses of unknown scale and delays of unknown length."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from umab.algorithms.base import NoParameters
from umab.algorithms.limits import COUNT, RATE, WAITED, Limits
from umab.algorithms.scb import ScaleClipping, clipped, exploration_share, first_state
from umab.algorithms.tsallis_inf_d import entropy_weight
from umab.maths import simplex
from umab.maths.hybrid import hybrid
from umab.maths.numerics import fit_unit, importance_weighted, rescale
from umab.maths.simplex import Vector, mix


class State(NamedTuple):
    """The sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # q_t, with the exploration mixed in
    iterate: Vector  # x_t
    loss_sums: Vector  # L, the sums of the estimates that have arrived
    scale: float  # C_t, the size of the largest loss that has arrived; not in units
    unit: float  # multiplier from losses to the unit of the sums
    outstanding: float  # 𝔡_t, how many losses have not arrived
    waited: float  # Σ_{s<t} 𝔡_s
    round: float  # t


class Ticket(NamedTuple):
    """What is remembered about a draw."""

    scale: float  # C_s


@dataclass(frozen=True, kw_only=True)
class SCBD(ScaleClipping[State]):
    """SCB-D, for losses of any size and sign that arrive late; strictly scale-free, anytime.

    As `SCB`, losses are clipped to [−C, C] and moved up by C, where C is the size of the largest loss that has arrived.
    The C of the draw counts, however late its loss arrives. FTRL with two regularizers runs on what has arrived,

        x_t = argmin_x ⟨L, x⟩ + 2C(h_t Σ x_k ln x_k − 2√t Σ √x_k),    q_t = (1 − β_t) x_t + β_t/n,

    with h_t = √(2𝔇_t/ln n) and β_t = n/(2n + √(nt)). 𝔇_t is the sum, over the rounds up to t, of the number of losses
    that were outstanding there. x_t is uniform until a loss that is not 0 arrives.

    Guarantee
    ---------
    Expected regret of at most ℓ∞ (18√(nT) + 4√(2D ln n) + 2√(2D) + 4n), where D is the sum of the delays, if neither
    losses nor delays depend on draws whose losses have not arrived. A delay that depends on the arm or on the loss is
    not covered. docs/algorithms/scb-d.md has the proof, and measurements: other policies do much better.

    References
    ----------
    From this project. The clipping comes from Chen and Zhang, Scale-free Adversarial Reinforcement Learning, COLT 2024;
    the regularizer comes from Zimmert and Seldin, An Optimal Algorithm for Adversarial Bandits with Arbitrary Delays,
    AISTATS 2020.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.SCBD(), arms=3)
    >>> for arm, loss in enumerate([0.5, -1.0, 5.0]):
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.3572, 0.3572, 0.2857])
    """

    link = staticmethod(simplex.tsallis_link)

    @property
    def guarantee(self) -> str:
        """As proved in docs/algorithms/scb-d.md; D is the sum of the delays."""
        return "ℓ∞ (√(nT) + √D)"

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(**first_state(n_arms)._asdict(), outstanding=0.0, waited=0.0)

    def ticket(self, n_arms: int) -> Ticket:
        """Return a blank ticket."""
        return Ticket(scale=0.0)

    @staticmethod
    def remember(parameters: NoParameters, state: State, arm: int, ticket: Ticket) -> Ticket:
        """Remember the scale at the draw."""
        return Ticket(scale=state.scale)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {**super().limits, "scale": RATE, "outstanding": COUNT, "waited": WAITED}

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """Of the fields of `Ticket`."""
        return {"scale": RATE}

    def fault(self, state: State, tickets: Sequence[Ticket]) -> str | None:
        """Find a scale that is not what the unit is for."""
        if state.scale == 0.0 or 2.0**-60 <= state.scale * state.unit < 1.0:
            return None
        return f"scale must be below 1/unit and close to it, but got scale={state.scale!r} and unit={state.unit!r}"

    def rates(self, state: State) -> dict[str, float]:
        """Return β and, once there was a loss, η = 1/(2C√t)."""
        rates = {"β": exploration_share(len(state.probabilities), state.round)}
        if state.scale > 0.0:
            rates["η"] = 1.0 / (2.0 * state.scale) / math.sqrt(state.round)
        return rates

    @staticmethod
    def selected(parameters: NoParameters, state: State, arm: int) -> State:
        """Count the draw as outstanding, and solve for the next distribution: its loss may not arrive before it."""
        return solved(
            state,
            scale=state.scale,
            unit=state.unit,
            outstanding=state.outstanding + 1.0,
            waited=state.waited + state.outstanding,
            t=state.round + 1.0,
        )

    @staticmethod
    def update(  # type: ignore[override]
        parameters: NoParameters, state: State, arm: int, loss: float, probability: float, ticket: Ticket
    ) -> State:
        """Learn from one loss and solve for the next distribution."""
        # The ticket's scale matters only if this state is older than the draw: then, it is news.
        largest = max(abs(loss), ticket.scale)
        unit, shrink = fit_unit(state.unit, largest)
        rescale(state.loss_sums, shrink)
        limit = ticket.scale * unit
        state.loss_sums[arm] += importance_weighted(clipped(loss * unit, limit), probability)
        return solved(
            state,
            scale=max(state.scale, largest),
            unit=unit,
            outstanding=max(0.0, state.outstanding - 1.0),  # a choice of another learner was not counted here
            waited=state.waited,
            t=state.round,
        )


def solved(state: State, scale: float, unit: float, outstanding: float, waited: float, t: float) -> State:
    """Return the state with these numbers, and with the distribution for round `t` that follows from them."""
    n_arms = len(state.probabilities)
    if scale > 0.0 and n_arms > 1:
        size = 2.0 * (scale * unit)
        h = entropy_weight(waited + outstanding, n_arms)
        hybrid(state.loss_sums, size * math.sqrt(t), size * h, state.iterate)
    mix(state.iterate, exploration_share(n_arms, t), state.probabilities)
    return State(
        probabilities=state.probabilities,
        iterate=state.iterate,
        loss_sums=state.loss_sums,
        scale=scale,
        unit=unit,
        outstanding=outstanding,
        waited=waited,
        round=t,
    )
