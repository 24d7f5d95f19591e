"""UMAB-E, which follows the advice of experts, for losses of any size, sign and offset."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from umab._support import checks
from umab._support.checks import LARGEST
from umab.algorithms.advised import Advised, SureAdvice
from umab.algorithms.centred import centred_loss
from umab.algorithms.expert_costs import have_agreed, mixability_gap, stability
from umab.algorithms.limits import (
    ANY,
    COUNT,
    DISTRIBUTION,
    FLAG,
    MIXTURE,
    POSITIVE_SUMS,
    ROUND,
    SHARE,
    SUMS,
    UNIT,
    Limits,
)
from umab.algorithms.umab_s import CHARGE, LIMIT, rate_of
from umab.algorithms.umab_s import exploration_rate as floor_of_umab_s
from umab.maths import simplex
from umab.maths.numerics import FINEST_UNIT, FLOOR, fit_unit, importance_weighted, rescale
from umab.maths.simplex import (
    FixedVector,
    Rows,
    Vector,
    log_barrier,
    raise_among,
    raise_to,
    shared_out,
    softmin,
)

Form = Literal["auto", "entropy", "barrier"]

RATE = 3.0
"""The constant of the learning rate of the log-barrier form, as in UMAB-S."""
EXPLORATION = 2.0
"""The c of the floor of the entropy form: measured with one expert for each arm, it was never bad."""

_BARRIER, _ENTROPY = 0.0, 1.0


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    probabilities: Vector  # p'_t, from the advice of the latest round
    mixture: Vector  # p_t, the mean of the experts' rows
    advised: Vector  # the largest probability that an expert who is awake gives to each arm
    weights: FixedVector  # P_t
    loss_sums: FixedVector  # L_t = Σ ℓ̂_s
    scratch: FixedVector  # working space
    paid: float  # A_t
    unit: float  # multiplier from losses to the unit of the sums
    origin: float  # the first loss
    mean: float  # b_t, minus the origin
    n_losses: float
    exploration_rate: float  # ρ_t
    round: float  # t
    form: float  # which form, by its code; it stays when arms come and go


class Ticket(NamedTuple):
    """What learning from a draw needs."""

    column: FixedVector  # E[i, k] for the arm k that was drawn, and p_k for an expert who abstained


class Parameters(NamedTuple):
    """ln N, which does not change."""

    complexity: float


@dataclass(frozen=True, kw_only=True)
class UMABE(Advised[State, Parameters]):
    """UMAB-E, for advice from experts, with losses of any size, sign and offset; strictly scale-free, anytime.

    In every round, expert i advises a distribution E_{t,i} over the arms. Experts have weights P_t, and the arm is
    drawn from the mean of their advice, p_t = Σ_i P_{t,i} E_{t,i}, in which arms that somebody advises are raised to
    ρ_t; the others of these arms pay in proportion to what they have above it. An arm that nobody advises is never
    drawn. From the loss of arm k, centred by the mean of the losses before it, comes an estimate for every expert,

        ℓ̂_{t,i} = E_{t,i,k} (ℓ_t − b_t) / p'_{t,k},    L_{t+1} = L_t + ℓ̂_t.

    There are two forms. The **log-barrier** form is UMAB-S over experts: P_t = argmin ⟨L_t, P⟩ + (1/η_t) Σ log(1/P_i)
    with η_t = 3N/A_t, where A_t sums the stability cost of its steps and the charge for clipped gains, and
    ρ_t = 1/(n² + 2√((n − 1)t)). With one constant expert for each arm it is ``centred(umab-s)``, bit for bit if nothing
    is late. The **entropy** form has P_t ∝ exp(−η_t L_t) with η_t = ln N / A_t, where A_t sums the mixability gaps, and
    ρ_t = 1/(2n + 2√(nt/ln N)). If there are fewer experts than arms, its floor is on the weights of the experts, with
    N in place of n.

    If all experts gave the arm the same probability, its loss says nothing about them, and the estimates are 0. An
    expert may abstain: the others share its weight for that round, and it is charged as if it had advised what they
    did. A single expert is followed, and nothing is learned.

    Parameters
    ----------
    form
        ``"barrier"``, ``"entropy"``, or ``"auto"``: the log-barrier for at most two experts per arm, and the entropy
        for more. The log-barrier survives a huge single gain of an unlikely arm; the entropy has ln N where the
        log-barrier has N.
    experts
        The number of experts, N; `simulate` and `Learner` fill it in.

    Guarantee
    ---------
    Expected regret against every single expert, on the advice that was given, of order L√(nT ln N) for the entropy and
    L√(NT) ln T for the log-barrier, where L is the largest distance of a loss from the mean before it;
    docs/algorithms/umab-e.md has the constants and the proof. Losses and advice may depend on the past. The bound does
    not cover late feedback.

    References
    ----------
    From this project. Advice by importance weighting comes from Auer, Cesa-Bianchi, Freund and Schapire, The
    Nonstochastic Multiarmed Bandit Problem, SIAM Journal on Computing 2002; the rate from the mixability gap comes from
    de Rooij, van Erven, Grünwald and Koolen, Follow the Leader If You Can, Hedge If You Must, JMLR 2014.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner("umab-e", arms=["a", "b"], experts=["always a", "coin"], seed=0)
    >>> choice = learner.select(advice={"always a": "a", "coin": [0.5, 0.5]})
    >>> choice.arm, choice.probability
    ('b', 0.25)
    >>> learner.update(choice, loss=312.5)
    """

    form: Form = "auto"
    experts: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        checks.one_of("form", self.form, get_args(Form))
        self._set(experts=self.checked_number(self.experts))

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True

    @property
    def guarantee(self) -> str:
        """Against every single expert; see docs/algorithms/umab-e.md."""
        return "ℓ∞ √(nT ln N), or ℓ∞ √(NT) ln T, of ℓ_t − b_t"

    def form_for(self, n_arms: int) -> Literal["entropy", "barrier"]:
        """Return the form for so many arms at the start."""
        if self.form == "auto":
            return "barrier" if self.n_experts <= 2 * n_arms else "entropy"
        return self.form

    def init(self, n_arms: int) -> State:
        """Return equal weights, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            mixture=simplex.uniform(n_arms),
            advised=[1.0] * n_arms,
            weights=simplex.uniform(self.n_experts),
            loss_sums=[0.0] * self.n_experts,
            scratch=[0.0] * self.n_experts,
            paid=0.0,
            unit=FINEST_UNIT,
            origin=0.0,
            mean=0.0,
            n_losses=0.0,
            exploration_rate=0.0,
            round=1.0,
            form=_BARRIER if self.form_for(n_arms) == "barrier" else _ENTROPY,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return ln N."""
        return Parameters(complexity=math.log(self.n_experts))

    def ticket(self, n_arms: int) -> Ticket:
        """Return a blank ticket."""
        return Ticket(column=[0.0] * self.n_experts)

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Keep all that was learned, which is about experts; the probabilities follow from the next advice."""
        start = self.init(len(arms))
        shares = shared_out([max(each, FLOOR) for each in state.probabilities], arms)
        return state._replace(probabilities=shares, mixture=start.mixture, advised=start.advised)

    def resized_ticket(self, ticket: Ticket, arms: Sequence[int | None]) -> Ticket:
        """Return the ticket as it is: it is about experts."""
        return ticket

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "mixture": MIXTURE,
            "advised": MIXTURE,
            "weights": DISTRIBUTION,
            "loss_sums": SUMS,
            "scratch": ANY,
            "paid": POSITIVE_SUMS,
            "unit": UNIT,
            "origin": ANY,
            "mean": ANY,
            "n_losses": COUNT,
            "exploration_rate": SHARE,
            "round": ROUND,
            "form": FLAG,
        }

    def rates(self, state: State) -> dict[str, float]:
        """Return ρ, and η once there was a loss that differed from the first."""
        number = RATE * len(state.weights) if state.form == _BARRIER else math.log(len(state.weights))
        learning = {"η": number * state.unit / state.paid} if state.paid > 0.0 else {}
        return ({"ρ": state.exploration_rate} if state.exploration_rate > 0.0 else {}) | learning

    @staticmethod
    def advised(parameters: Parameters, state: State, advice: Rows) -> State:
        """Mix the rows of the experts, and raise what is rarely drawn."""
        n_arms, n_experts = len(state.probabilities), len(state.weights)
        for i in range(n_experts):
            state.scratch[i] = 1.0 if advice[i][0] == advice[i][0] else 0.0
        weigh_awake(parameters, state)
        for k in range(n_arms):
            state.mixture[k] = 0.0
            state.advised[k] = 0.0
        for i in range(n_experts):
            if state.scratch[i] > 0.0:
                row, weight = advice[i], state.scratch[i]
                for k in range(n_arms):
                    state.mixture[k] += weight * row[k]
                    state.advised[k] = max(state.advised[k], row[k])
        floor = exploration_rate(parameters, state)
        if is_floor_on_arms(state):
            raise_arms(state, floor)
        else:
            raise_experts(state, floor)
            for i in range(n_experts):
                row, weight = advice[i], state.scratch[i]
                awake = row[0] == row[0]
                for k in range(n_arms):
                    state.probabilities[k] += weight * (row[k] if awake else state.mixture[k])
        return explored(state, floor)

    @staticmethod
    def advised_arms(parameters: Parameters, state: State, advice: SureAdvice) -> State:
        """Do the same for experts who each advise one arm, without looking at the other arms."""
        n_arms, n_experts = len(state.probabilities), len(state.weights)
        for i in range(n_experts):
            state.scratch[i] = 1.0 if advice[i] >= 0 else 0.0
        weigh_awake(parameters, state)
        for k in range(n_arms):
            state.mixture[k] = 0.0
            state.advised[k] = 0.0
        for i in range(n_experts):
            if state.scratch[i] > 0.0:
                state.mixture[advice[i]] += state.scratch[i]
                state.advised[advice[i]] = 1.0
        floor = exploration_rate(parameters, state)
        if is_floor_on_arms(state):
            raise_arms(state, floor)
        else:
            raise_experts(state, floor)
            for i in range(n_experts):
                if advice[i] >= 0:
                    state.probabilities[advice[i]] += state.scratch[i]
                else:
                    for k in range(n_arms):
                        state.probabilities[k] += state.scratch[i] * state.mixture[k]
        return explored(state, floor)

    @staticmethod
    def remember(  # type: ignore[override]
        parameters: Parameters, state: State, arm: int, advice: Rows, ticket: Ticket
    ) -> Ticket:
        """Keep the column of the arm."""
        for i in range(len(state.weights)):
            ticket.column[i] = advice[i][arm] if advice[i][0] == advice[i][0] else state.mixture[arm]
        return ticket

    @staticmethod
    def remember_arms(parameters: Parameters, state: State, arm: int, advice: SureAdvice, ticket: Ticket) -> Ticket:
        """Keep the column of the arm."""
        for i in range(len(state.weights)):
            sure = 1.0 if advice[i] == arm else 0.0
            ticket.column[i] = sure if advice[i] >= 0 else state.mixture[arm]
        return ticket

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Parameters, state: State, arm: int, loss: float, probability: float, ticket: Ticket
    ) -> State:
        """Learn from one loss and solve for the next weights."""
        weights, loss_sums, column = state.weights, state.loss_sums, ticket.column
        n_experts = len(weights)
        centred, origin, mean, n_losses = centred_loss(loss, state.origin, state.mean, state.n_losses)
        unit, shrink = fit_unit(state.unit, centred)
        rescale(loss_sums, shrink)
        paid = state.paid * shrink
        estimate = importance_weighted(centred * unit, probability)
        if have_agreed(column):
            estimate = 0.0
        if n_experts > 1 and state.form == _BARRIER:
            times = RATE * float(n_experts)
            inverse, mixed = paid / times, 0.0
            for i in range(n_experts):
                mixed += weights[i] * column[i]
            if inverse > 0.0 and estimate * mixed < -LIMIT * inverse:
                clipped = -LIMIT * inverse / mixed
                paid += times * CHARGE * (1.0 - probability) * ((clipped - estimate) * probability)
                estimate = clipped
            paid += stability(weights, column, estimate, rate_of(inverse), state.scratch)
            for i in range(n_experts):
                loss_sums[i] += estimate * column[i]
            if paid > 0.0:
                log_barrier(loss_sums, rate_of(paid / times), weights)
        elif n_experts > 1:
            paid += mixability_gap(weights, loss_sums, column, estimate, paid / parameters.complexity, state.scratch)
            for i in range(n_experts):
                loss_sums[i] += estimate * column[i]
            if paid > 0.0:
                softmin(loss_sums, rate_of(paid / parameters.complexity), weights)
        return State(
            probabilities=state.probabilities,
            mixture=state.mixture,
            advised=state.advised,
            weights=weights,
            loss_sums=loss_sums,
            scratch=state.scratch,
            paid=paid,
            unit=unit,
            origin=origin,
            mean=mean,
            n_losses=n_losses,
            exploration_rate=state.exploration_rate,
            round=state.round + 1.0,
            form=state.form,
        )


def weigh_awake(parameters: Parameters, state: State) -> None:
    """Turn `scratch` from who is awake, 1 or 0, into the weights of those who are, which sum to 1."""
    scratch, lowest, total, n_awake = state.scratch, LARGEST, 0.0, 0
    for i in range(len(scratch)):
        if scratch[i] > 0.0:
            n_awake += 1
            lowest = min(lowest, state.loss_sums[i])
    inverse = state.paid / parameters.complexity if parameters.complexity > 0.0 else 0.0
    for i in range(len(scratch)):
        if scratch[i] > 0.0:
            scratch[i] = state.weights[i]
            if n_awake < len(scratch) and state.form == _ENTROPY and inverse > 0.0:
                # Not from the weights: all of those who are awake may have underflowed.
                scratch[i] = max(math.exp(-min((state.loss_sums[i] - lowest) / inverse, 800.0)), FLOOR)
            total += scratch[i]
    if n_awake < len(scratch):
        for i in range(len(scratch)):
            scratch[i] /= total


def is_floor_on_arms(state: State) -> bool:
    """Whether arms have a floor; else the weights of experts have one."""
    return state.form == _BARRIER or len(state.probabilities) <= len(state.weights)


def exploration_rate(parameters: Parameters, state: State) -> float:
    """Return ρ_t, 0 for a single expert."""
    if len(state.weights) == 1:
        return 0.0
    if state.form == _BARRIER:
        return floor_of_umab_s(float(len(state.probabilities)), state.round)
    number = float(min(len(state.probabilities), len(state.weights)))
    return 1.0 / (2.0 * number + EXPLORATION * math.sqrt(number * state.round / parameters.complexity))


def raise_arms(state: State, floor: float) -> None:
    """Fill in p': p, raised to the floor on the arms that somebody advises."""
    for k in range(len(state.mixture)):
        state.probabilities[k] = state.mixture[k]
    raise_among(state.probabilities, state.advised, floor)


def raise_experts(state: State, floor: float) -> None:
    """Fill in `scratch` with the weights of all experts, raised to the floor; p' is to be summed up from 0."""
    for i in range(len(state.scratch)):
        state.scratch[i] = state.weights[i]
    raise_to(state.scratch, floor)
    for k in range(len(state.probabilities)):
        state.probabilities[k] = 0.0


def explored(state: State, floor: float) -> State:
    """Return the state with this ρ_t, and with no probability above 1, as rounding may leave it."""
    for k in range(len(state.probabilities)):
        state.probabilities[k] = min(state.probabilities[k], 1.0)
    return State(
        probabilities=state.probabilities,
        mixture=state.mixture,
        advised=state.advised,
        weights=state.weights,
        loss_sums=state.loss_sums,
        scratch=state.scratch,
        paid=state.paid,
        unit=state.unit,
        origin=state.origin,
        mean=state.mean,
        n_losses=state.n_losses,
        exploration_rate=floor,
        round=state.round,
        form=state.form,
    )
