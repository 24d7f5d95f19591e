"""Policies and a wrapper that show what the contract can carry; none of them is good for anything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import umab
from umab import checks, simplex
from umab.algorithms.base import Pause
from umab.simplex import FixedVector, Rows, Vector, softmin


def umab_g(exploration: Any, **parameters: Any) -> umab.Policy:
    """Return UMAB-G or UMAB-G-A, whichever has this exploration; only the former has a horizon."""
    if exploration in ("adaptive", "maintext"):
        parameters.pop("horizon", None)
        return umab.UMABGA(exploration=exploration, **parameters)
    return umab.UMABG(exploration=exploration, **parameters)


class ScaleState(NamedTuple):
    probabilities: Vector
    loss_sums: Vector
    scale: float  # the largest loss so far, in size


class ScaleTicket(NamedTuple):
    scale: float  # that at the time of the draw
    drawn_from: Vector  # the whole distribution then
    both: Rows  # the sum and the probability of each arm then


class ScaleParameters(NamedTuple):
    rate: float


@dataclass(frozen=True, kw_only=True)
class ScaleAtDraw(umab.Policy):
    """Divides a loss by the scale at the time of its draw."""

    rate: float = 0.5

    def init(self, n_arms: int) -> ScaleState:
        return ScaleState(simplex.uniform(n_arms), [0.0] * n_arms, 1.0)

    def parameters_for(self, n_arms: int) -> ScaleParameters:
        return ScaleParameters(self.rate)

    def ticket(self, n_arms: int) -> ScaleTicket:
        return ScaleTicket(0.0, [0.0] * n_arms, [[0.0, 0.0] for _ in range(n_arms)])

    @staticmethod
    def remember(parameters: Any, state: ScaleState, arm: int, ticket: ScaleTicket) -> ScaleTicket:
        for k in range(len(state.probabilities)):
            ticket.drawn_from[k] = state.probabilities[k]
            ticket.both[k][0] = state.loss_sums[k]
            ticket.both[k][1] = state.probabilities[k]
        return ScaleTicket(state.scale, ticket.drawn_from, ticket.both)

    @staticmethod
    def update(  # type: ignore[override]
        parameters: ScaleParameters, state: ScaleState, arm: int, loss: float, probability: float, ticket: ScaleTicket
    ) -> ScaleState:
        clipped = max(-1.0, min(1.0, loss / ticket.scale))
        state.loss_sums[arm] += clipped / max(ticket.drawn_from[arm], 1e-9) + 1e-3 * ticket.both[arm][0]
        state.loss_sums[arm] = max(-1e9, min(1e9, state.loss_sums[arm]))
        softmin(state.loss_sums, parameters.rate, state.probabilities)
        return ScaleState(state.probabilities, state.loss_sums, max(state.scale, min(abs(loss), 1e300)))


class PatientState(NamedTuple):
    probabilities: Vector
    n_open: Vector
    given_up: Vector  # the numbers of the draws of each arm that were closed, summed
    apart: Vector  # the same for losses of other arms
    n_drawn: float


class PatientTicket(NamedTuple):
    number: float  # of the draw, 0 if the ticket is blank


@dataclass(frozen=True, kw_only=True)
class Patient(umab.Policy):
    """Counts the draws of each arm that are open, closed, and on another account, and goes by these numbers."""

    needs_ticket: ClassVar[bool] = False

    def init(self, n_arms: int) -> PatientState:
        return PatientState(simplex.uniform(n_arms), [0.0] * n_arms, [0.0] * n_arms, [0.0] * n_arms, 0.0)

    def ticket(self, n_arms: int) -> PatientTicket:
        return PatientTicket(0.0)

    @staticmethod
    def selected(parameters: Any, state: PatientState, arm: int) -> PatientState:
        state.n_open[arm] += 1.0
        return PatientState(state.probabilities, state.n_open, state.given_up, state.apart, state.n_drawn + 1.0)

    @staticmethod
    def remember(parameters: Any, state: PatientState, arm: int, ticket: PatientTicket) -> PatientTicket:
        return PatientTicket(state.n_drawn + 1.0)

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: PatientState, arm: int, loss: float, probability: float, ticket: PatientTicket
    ) -> PatientState:
        state.n_open[arm] -= 1.0
        return patient(state)

    @staticmethod
    def credited(
        parameters: Any,
        state: PatientState,
        account: int,
        loss: float,
        probability: float,
        arm: int,
        ticket: PatientTicket,
    ) -> PatientState:
        state.n_open[account] -= 1.0
        state.apart[account] += ticket.number + 0.25 * arm
        return patient(state)

    @staticmethod
    def closed(
        parameters: Any, state: PatientState, arm: int, probability: float, ticket: PatientTicket
    ) -> PatientState:
        state.n_open[arm] -= 1.0
        state.given_up[arm] += ticket.number + probability
        return patient(state)


def patient(state: PatientState) -> PatientState:
    total = 0.0
    for k in range(len(state.probabilities)):
        waits = abs(state.n_open[k]) + abs(state.given_up[k]) + abs(state.apart[k])
        state.probabilities[k] = 1.0 + waits / (1.0 + waits)
        total += state.probabilities[k]
    for k in range(len(state.probabilities)):
        state.probabilities[k] /= total
    return state


class CoinState(NamedTuple):
    probabilities: Vector
    tails: Vector
    heads: Vector
    n_without: float  # losses without a coin


@dataclass(frozen=True, kw_only=True)
class Tosser(umab.Policy):
    """Goes by how often the coins of each arm showed what."""

    def init(self, n_arms: int) -> CoinState:
        return CoinState(simplex.uniform(n_arms), [0.0] * n_arms, [0.0] * n_arms, 0.0)

    @staticmethod
    def coin(parameters: Any, state: CoinState, arm: int) -> float:
        return 0.25 + 0.5 * state.probabilities[arm]

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: CoinState, arm: int, loss: float, probability: float, coin: int
    ) -> CoinState:
        if coin == 1:
            state.heads[arm] += 1.0
        elif coin == 0:
            state.tails[arm] += 1.0
        total = 0.0
        for k in range(len(state.probabilities)):
            state.probabilities[k] = (1.0 + state.heads[k]) / (2.0 + state.heads[k] + state.tails[k])
            total += state.probabilities[k]
        for k in range(len(state.probabilities)):
            state.probabilities[k] /= total
        return CoinState(state.probabilities, state.tails, state.heads, state.n_without + (1.0 if coin == -1 else 0.0))


@dataclass(frozen=True, kw_only=True)
class PatientTosser(Patient):
    """The same with a ticket, and told of losses of other arms and of draws that are closed."""

    @staticmethod
    def coin(parameters: Any, state: PatientState, arm: int) -> float:
        return 0.125 + 0.75 * state.probabilities[arm] + 0.5 * (state.n_drawn % 2.0 - 0.25)  # as before `selected`

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any,
        state: PatientState,
        arm: int,
        loss: float,
        probability: float,
        ticket: PatientTicket,
        coin: int,
    ) -> PatientState:
        state.n_open[arm] -= 1.0 + 0.5 * coin
        return patient(state)

    @staticmethod
    def credited(  # type: ignore[override]
        parameters: Any,
        state: PatientState,
        account: int,
        loss: float,
        probability: float,
        arm: int,
        ticket: PatientTicket,
        coin: int,
    ) -> PatientState:
        state.apart[account] += ticket.number + 0.25 * arm + 0.125 * coin
        return patient(state)

    @staticmethod
    def closed(  # type: ignore[override]
        parameters: Any, state: PatientState, arm: int, probability: float, ticket: PatientTicket, coin: int
    ) -> PatientState:
        state.given_up[arm] += ticket.number + probability + 0.125 * coin
        return patient(state)


class BreakerState(NamedTuple):
    probabilities: Vector
    since: Vector  # the round in which the pause of each arm began; 0 if there is none
    round: float


@dataclass(frozen=True, kw_only=True)
class Breaker(umab.Policy):
    """Pauses an arm that costs more than 100: it is probed after 50 rounds, and a smaller loss ends the pause."""

    def init(self, n_arms: int) -> BreakerState:
        return BreakerState(simplex.uniform(n_arms), [0.0] * n_arms, 0.0)

    def pauses(self, state: BreakerState) -> list[Pause]:
        return [
            Pause(arm, int(since), max(0, 50 - int(state.round - since)))
            for arm, since in enumerate(state.since)
            if since
        ]

    def resized(self, state: BreakerState, arms: Sequence[int | None]) -> BreakerState:
        since = [0.0 if arm is None else state.since[arm] for arm in arms]
        resized: BreakerState = super().resized(state, arms)._replace(since=since)
        return resized

    @staticmethod
    def update(parameters: Any, state: BreakerState, arm: int, loss: float, probability: float) -> BreakerState:
        round = state.round + 1.0
        if loss <= 100.0:
            state.since[arm] = 0.0
        elif state.since[arm] == 0.0:
            state.since[arm] = round
        total = 0.0
        for k in range(len(state.probabilities)):
            state.probabilities[k] = 1e-3 if state.since[k] > 0.0 and round < state.since[k] + 50.0 else 1.0
            total += state.probabilities[k]
        for k in range(len(state.probabilities)):
            state.probabilities[k] /= total
        return BreakerState(state.probabilities, state.since, round)


N_LAST = 8


class HistoryState(NamedTuple):
    probabilities: Vector
    latest: Rows  # the last eight losses of each arm, the newest at `n_seen` modulo 8
    n_seen: Vector


@dataclass(frozen=True, kw_only=True)
class LastEight(umab.Policy):
    """Goes by the mean of the last eight losses of each arm."""

    def init(self, n_arms: int) -> HistoryState:
        return HistoryState(simplex.uniform(n_arms), [[0.0] * N_LAST for _ in range(n_arms)], [0.0] * n_arms)

    @staticmethod
    def update(parameters: Any, state: HistoryState, arm: int, loss: float, probability: float) -> HistoryState:
        state.latest[arm][int(state.n_seen[arm]) % N_LAST] = max(-1e9, min(1e9, loss))
        state.n_seen[arm] += 1.0
        for k in range(len(state.probabilities)):
            state.probabilities[k] = mean_of(state.latest[k])
        by_mean(state.probabilities)
        return state


def mean_of(row: Vector) -> float:
    total = 0.0
    for i in range(len(row)):
        total += row[i]
    return total / len(row)


def by_mean(values: Vector) -> None:
    """Replace means by probabilities that fall with them."""
    total = 0.0
    for k in range(len(values)):
        values[k] = 1.0 / (2.0 + values[k] / (1.0 + abs(values[k])))
        total += values[k]
    for k in range(len(values)):
        values[k] /= total


class ExpertState(NamedTuple):
    probabilities: Vector
    trust: FixedVector  # one number for each expert


@dataclass(frozen=True, kw_only=True)
class TwoMinds(umab.Policy):
    """Experts of which number e likes the arms whose index is e modulo their number; trust is lost with losses."""

    n_experts: int = 2

    def __post_init__(self) -> None:
        self._set(n_experts=checks.whole("n_experts", self.n_experts, least=1))

    def init(self, n_arms: int) -> ExpertState:
        return ExpertState(simplex.uniform(n_arms), [1.0] * self.n_experts)

    @staticmethod
    def update(parameters: Any, state: ExpertState, arm: int, loss: float, probability: float) -> ExpertState:
        n_experts = len(state.trust)
        expert = arm % n_experts
        state.trust[expert] = max(0.01, state.trust[expert] * (0.5 if loss > 0.0 else 0.9))
        total = 0.0
        for k in range(len(state.probabilities)):
            state.probabilities[k] = state.trust[k % n_experts]
            total += state.probabilities[k]
        for k in range(len(state.probabilities)):
            state.probabilities[k] /= total
        return state


class CappedState(NamedTuple):
    inner: Any
    n_capped: float

    @property
    def probabilities(self) -> Any:
        return self.inner.probabilities


class CappedParameters(NamedTuple):
    inner: Any
    limit: float


@dataclass(frozen=True, kw_only=True)
class Capped(umab.Wrapper):
    """A policy on losses that are capped at a limit, in size."""

    limit: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(limit=checks.positive("limit", self.limit))

    def init(self, n_arms: int) -> CappedState:
        return CappedState(self.policy.init(n_arms), 0.0)

    def parameters_for(self, n_arms: int) -> CappedParameters:
        return CappedParameters(self.policy.parameters_for(n_arms), self.limit)

    @staticmethod
    def around(inner_update: Callable[..., Any]) -> Callable[..., Any]:
        def update(
            parameters: Any, state: CappedState, arm: int, loss: float, probability: float, *ticket: Any
        ) -> CappedState:
            capped = max(-parameters.limit, min(parameters.limit, loss))
            return CappedState(
                inner=inner_update(parameters.inner, state.inner, arm, capped, probability, *ticket),
                n_capped=state.n_capped + (1.0 if capped != loss else 0.0),
            )

        return update
