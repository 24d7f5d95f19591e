"""UMAB-W, which watches the losses of every arm and starts afresh when they change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from umab._support import checks
from umab.algorithms.base import Change, Policy
from umab.algorithms.limits import (
    ANY,
    COUNT,
    DISTRIBUTION,
    FLAG,
    LEVEL,
    POSITIVE_SUMS,
    RATE,
    ROUND,
    SUMS,
    UNIT,
    Limits,
    within,
)
from umab.algorithms.umab_s import UMABS, exploration_rate, learned
from umab.algorithms.umab_s import Parameters as RateParameters
from umab.algorithms.watch import MOST_DOUBT, MOST_EVIDENCE, N_LATEST, calm, compared, raised, watched
from umab.maths import simplex
from umab.maths.level import Level, above, followed, moves, no_level
from umab.maths.numerics import FINEST_UNIT
from umab.maths.ranks import ROOTS, SEEN, blank_record, forget, n_cells
from umab.maths.simplex import FixedVector, Rows, Vector, likeliest

Attention = Literal["bursts", "none"]
Restarts = Literal["tried", "kept", "none"]
Centre = Literal["level", "mean"]

_NO_RESTARTS, _RESTARTS_ARE_KEPT, _RESTARTS_ARE_TRIED = 0.0, 1.0, 2.0

SHORTEST_TRIAL = 32.0
"""A trial has at least this many rounds, and `TRIAL_PER_ARM` more for each arm."""
TRIAL_PER_ARM = 8.0
SETTLED = 1.5
"""A trial does not end before it has lasted this many times as long as it had when its leader last changed."""

PATIENCE = 32.0
"""For how many rounds in a row the level must move, or not move, before the watch does the same: a sudden change is
noticed sooner than that."""

MOST_BURSTS = 8.0
"""A round t has no burst if this many times √(nt) of the rounds before it had one."""

N_CHANGES = 16
"""How many changes are remembered."""
ON_TRIAL, KEPT, UNDONE = 0.0, 1.0, 2.0
"""The outcome of a change."""


class Instance(NamedTuple):
    """A run of UMAB-S. Sums are kept in units of a power of two, see `umab.numerics.fit_unit`."""

    iterate: Vector  # p_t
    loss_sums: Vector  # Σ ℓ̂_s
    paid: float  # A_t
    unit: float  # multiplier from losses to the unit of the sums
    round: float  # the number of its next round


class State(NamedTuple):
    """The instance that plays, the one that it replaced on trial, and what the watch and the bursts need."""

    probabilities: Vector  # p'_t, with the floor and the bursts
    current: Instance
    replaced: Instance
    level: Level
    marks: Rows  # the watch: for each arm its history and its record, see `umab.maths.ranks`
    counts: Rows
    records: Rows
    attention: Rows  # for each arm: the leader's losses since its own last one, its excess, 1 if it has attention
    latest: FixedVector  # the leader's latest losses, as a ring, whose next place is `place`
    changes: FixedVector  # round, arm and outcome of each change, as a ring
    scratch: Vector
    place: float
    round: float  # t
    age: float  # the rounds since the last start, whether or not it was undone
    settled: float  # the age at which the leader last changed
    leader: float  # the likeliest arm, −1 if there are several
    former: float  # the leader that was replaced, −1 if there is no trial
    doubt: float  # 1.5 to this power multiplies the logarithm of the evidence that is asked for
    n_changes: float
    n_bursts: float
    watch_local: float  # 1 if the watch sees distances from a moving mean
    waited: float  # for how many rounds in a row it should have been otherwise


class Parameters(NamedTuple):
    """The parameters of `UMABW`, as numbers."""

    inner: RateParameters  # the parameters of UMAB-S
    bursts: float  # 1 if there are bursts
    restarts: float  # which restarts, by their code
    local: float  # 1 if the centre may be a moving mean


@dataclass(frozen=True, kw_only=True)
class UMABW(Policy[State, Parameters]):
    """UMAB-W ("watch"), for losses of any size, sign and offset in a world that may change; strictly scale-free.

    It is UMAB-S on losses minus their level (see `umab.LocallyCentred`), with three additions.

    - A watch. Each loss of an arm is ranked among the earlier losses of that arm, and the ranks are bet on. If the
      losses of the leader, the likeliest arm, have become larger, or the losses of another arm smaller, a change is
      noticed.
    - Trials. After a change, a fresh UMAB-S takes over. If it ends at the same leader, then the change did not matter:
      the old UMAB-S is put back, and the logarithm of the evidence that the watch asks for grows by half. Otherwise the
      fresh one is kept, and the last of these increases, if there was one, is taken back.
    - Bursts. An arm whose losses are below almost all of its own earlier losses, and below almost all of the leader's
      latest ones, is drawn with a probability of at least 1/6 as long as this goes on (more than two such arms share at
      least 1/3). So an improvement of an arm that is hardly ever drawn is noticed too.

    The watch and the bursts use only the order of the losses, or of their distances from the level while it moves.
    There are fewer than √(t/n) + 1 restarts, and fewer than 8√(nt) + 1 rounds with bursts, in the first t rounds.

    Parameters
    ----------
    attention
        ``"bursts"``, or for study ``"none"``.
    restarts
        ``"tried"``, or for study ``"kept"``, where no restart is undone, and ``"none"``.
    centre
        ``"level"``, or for study ``"mean"``: the mean of all losses so far, as in `umab.Centred`.
    marks
        How many losses of each arm the watch keeps, 2 to 1024. Later losses are only counted between them. Numbers
        other than 64 are for study.

    Guarantee
    ---------
    Against the best single arm, the order of the guarantee of UMAB-S times the square root of the number of starts,
    whatever the losses are; at worst, for many rounds, of order L n^¼ T^¾ ln T, where L is the range of the losses.
    docs/changing.md has the constants and the proof. That it follows changes is measured, not proved; `umab.UMABSh` has
    a bound for every number of changes. The bound does not cover late feedback.

    References
    ----------
    From this project. The watch is a test by betting, as in Vovk, Gammerman and Shafer, Algorithmic Learning in a
    Random World, 2nd edition 2022.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABW(), arms=3)
    >>> for arm, loss in [(0, 1000.5), (1, 999.0)]:
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.0719, 0.8561, 0.0719])
    """

    attention: Attention = "bursts"
    restarts: Restarts = "tried"
    centre: Centre = "level"
    marks: int = 64

    def __post_init__(self) -> None:
        """Check the parameters."""
        checks.one_of("attention", self.attention, get_args(Attention))
        checks.one_of("restarts", self.restarts, get_args(Restarts))
        checks.one_of("centre", self.centre, get_args(Centre))
        self._set(marks=checks.whole("marks", self.marks, least=2, most=1024))

    scale_free: ClassVar[bool] = True
    shift_free: ClassVar[bool] = True

    @property
    def guarantee(self) -> str:
        """Without the terms that do not grow with time; see docs/changing.md."""
        return "" if self.for_study else "√(1 + restarts) · (ℓ∞ √(nT) + √(n Σ ℓ²_{t,k_t})), of ℓ_t − b_t"

    @property
    def for_study(self) -> bool:
        """Whether any parameter differs from its default."""
        return self != UMABW()

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing learned yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            current=_fresh(n_arms),
            replaced=_fresh(n_arms),
            level=no_level(),
            marks=[[0.0] * self.marks for _ in range(n_arms)],
            counts=[[0.0] * n_cells(self.marks) for _ in range(n_arms)],
            records=[blank_record() for _ in range(n_arms)],
            attention=[[0.0] * 3 for _ in range(n_arms)],
            latest=[0.0] * N_LATEST,
            changes=[0.0] * (3 * N_CHANGES),
            scratch=[0.0] * n_arms,
            place=0.0,
            round=1.0,
            age=0.0,
            settled=0.0,
            leader=-1.0,
            former=-1.0,
            doubt=0.0,
            n_changes=0.0,
            n_bursts=0.0,
            watch_local=0.0,
            waited=0.0,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the parameters of UMAB-S, and a code for each option."""
        codes = {"none": _NO_RESTARTS, "kept": _RESTARTS_ARE_KEPT, "tried": _RESTARTS_ARE_TRIED}
        return Parameters(
            inner=UMABS().parameters_for(n_arms),
            bursts=1.0 if self.attention == "bursts" else 0.0,
            restarts=codes[self.restarts],
            local=1.0 if self.centre == "level" else 0.0,
        )

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`; losses that are only compared may be any numbers."""
        instance = {"iterate": DISTRIBUTION, "loss_sums": SUMS, "paid": POSITIVE_SUMS, "unit": UNIT, "round": ROUND}
        return {
            **within("current", instance),
            **within("replaced", instance),
            **within("level", LEVEL),
            "marks": ANY,
            "counts": COUNT,
            "records": RATE,
            "attention": RATE,
            "latest": ANY,
            "changes": ANY,
            "scratch": ANY,
            "place": Limits(0.0, N_LATEST - 1.0, whole=True),
            "round": ROUND,
            "age": COUNT,
            "settled": COUNT,
            "leader": Limits(-1.0, 2.0**53, whole=True),
            "former": Limits(-1.0, 2.0**53, whole=True),
            "doubt": Limits(0.0, MOST_DOUBT),
            "n_changes": COUNT,
            "n_bursts": COUNT,
            "watch_local": FLAG,
            "waited": COUNT,
        }

    def fault(self, state: State, tickets: Sequence[object]) -> str | None:
        """Find what the watch cannot know about an arm, so that its bets would not be finite."""
        for counts, record, attention in zip(state.counts, state.records, state.attention, strict=True):
            seen, (since, _, active) = record[SEEN], attention
            if COUNT.fault("", [seen], 0.0) or record[ROOTS] < 1.0 or max(record) > MOST_EVIDENCE:
                return f"records must hold a count, a sum from 1 and evidence below {MOST_EVIDENCE}, but got {record!r}"
            if seen >= self.marks and math.fsum(counts) != seen:
                return f"counts must sum to the {seen:.0f} losses in records, but got {math.fsum(counts):.0f}"
            if since not in range(N_LATEST + 1) or active not in (0.0, 1.0):
                return f"attention must begin with a count up to {N_LATEST} and end with 0 or 1, but got {attention!r}"
        return None

    def solved(self, state: State) -> Vector:
        """Return the distribution of the instance that plays."""
        return state.current.iterate

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Resize both instances. A new arm has no history, and a change shown by an arm that is gone names no arm."""
        resized: State = super().resized(state, arms)
        replaced = super().resized(state._replace(current=state.replaced), arms).current
        changes = list(state.changes)
        places = {old: new for new, old in enumerate(arms) if old is not None}
        for at in range(min(int(state.n_changes), N_CHANGES)):
            changes[3 * at + 1] = float(places.get(int(changes[3 * at + 1]), -1))
        leader = float(_sole_leader(resized.current.iterate))
        if leader != float(places.get(int(state.leader), -1)):  # as in a round whose loss changes the leader
            resized = resized._replace(settled=state.age, attention=self.init(len(arms)).attention)
        return resized._replace(
            replaced=replaced,
            changes=changes,
            leader=leader,
            former=float(likeliest(replaced.iterate)) if state.former >= 0.0 else -1.0,
        )

    def changes(self, state: State) -> list[Change]:
        """Return the latest changes, at most `N_CHANGES`."""
        n_changes = int(state.n_changes)
        found = []
        for number in range(max(0, n_changes - N_CHANGES), n_changes):
            at = 3 * (number % N_CHANGES)
            round, arm, outcome = state.changes[at : at + 3]
            kept = None if outcome == ON_TRIAL else outcome == KEPT
            there = 0.0 <= arm < len(state.probabilities)
            found.append(Change(round=int(round), arm=int(arm) if there else None, kept=kept))
        return found

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss, watch it, and prepare the next distribution."""
        return _learned(parameters, state, arm, loss, probability, arm)

    @staticmethod
    def credited(
        parameters: Parameters, state: State, account: int, loss: float, probability: float, arm: int
    ) -> State:
        """Learn from a loss on the account of an arm that is away, and watch the arm that was drawn."""
        return _learned(parameters, state, account, loss, probability, arm)


def _fresh(n_arms: int) -> Instance:
    return Instance(iterate=simplex.uniform(n_arms), loss_sums=[0.0] * n_arms, paid=0.0, unit=FINEST_UNIT, round=1.0)


def _learned(parameters: Parameters, state: State, account: int, loss: float, probability: float, arm: int) -> State:
    """Return the state after a loss of `arm`, from which UMAB-S learns as from a loss of `account`."""
    n_arms = len(state.probabilities)
    n = float(n_arms)
    current, replaced, level = state.current, state.replaced, state.level
    leader, t = int(state.leader), state.round + 1.0
    local = parameters.local == 1.0 and moves(level)
    distance = above(level, loss, local)
    paid, _, unit = learned(
        parameters.inner,
        current.iterate,
        current.loss_sums,
        state.scratch,
        current.paid,
        0.0,
        current.unit,
        account,
        distance,
        probability,
        0.0,
    )
    instance_round, age, settled = current.round + 1.0, state.age + 1.0, state.settled
    watch_local = state.watch_local
    waited = state.waited + 1.0 if (watch_local == 1.0) != local else 0.0
    if waited >= PATIENCE:  # the histories hold numbers of the other kind
        watch_local, waited = 1.0 - watch_local, 0.0
        for k in range(n_arms):
            forget(state.records[k])

    noticed, place = False, state.place
    if arm >= 0:
        seen = above(level, loss, True) if watch_local == 1.0 else loss
        noticed, rank = watched(
            state.marks[arm], state.counts[arm], state.records[arm], seen, arm == leader, n, state.doubt
        )
        if parameters.bursts == 1.0:
            place = compared(state.attention, state.latest, arm, loss, rank, arm == leader, int(place))

    former, doubt, n_changes = state.former, state.doubt, state.n_changes
    kept_paid, kept_unit, kept_round = replaced.paid, replaced.unit, replaced.round
    if former >= 0.0:
        if age >= SHORTEST_TRIAL + TRIAL_PER_ARM * n and age >= SETTLED * settled:
            undone = leader == int(former) and parameters.restarts == _RESTARTS_ARE_TRIED
            if undone:
                _copy(replaced, current)
                paid, unit, instance_round = kept_paid, kept_unit, kept_round
            doubt = min(doubt + 1.0, MOST_DOUBT) if undone else max(0.0, doubt - 1.0)
            former = -1.0
            state.changes[_place_of(n_changes) + 2] = UNDONE if undone else KEPT
    elif noticed and leader >= 0 and parameters.restarts != _NO_RESTARTS and n_changes < math.sqrt(t / n):
        n_changes += 1.0
        at = _place_of(n_changes)
        state.changes[at], state.changes[at + 1], state.changes[at + 2] = state.round, float(arm), ON_TRIAL
        _copy(current, replaced)
        kept_paid, kept_unit, kept_round, former = paid, unit, instance_round, float(leader)
        for k in range(n_arms):
            current.iterate[k] = 1.0 / n
            current.loss_sums[k] = 0.0
            forget(state.records[k])
        paid, unit, instance_round, age, settled = 0.0, FINEST_UNIT, 1.0, 0.0, 0.0

    ahead = _sole_leader(current.iterate)
    if ahead != leader:
        leader, settled = ahead, age
        for k in range(n_arms):
            calm(state.attention[k])
    floor, may_burst = exploration_rate(n, instance_round), state.n_bursts < MOST_BURSTS * math.sqrt(n * t)
    n_bursts = state.n_bursts + raised(state.probabilities, current.iterate, state.attention, floor, may_burst)
    return State(
        probabilities=state.probabilities,
        current=Instance(
            iterate=current.iterate, loss_sums=current.loss_sums, paid=paid, unit=unit, round=instance_round
        ),
        replaced=Instance(
            iterate=replaced.iterate, loss_sums=replaced.loss_sums, paid=kept_paid, unit=kept_unit, round=kept_round
        ),
        level=followed(level, loss),
        marks=state.marks,
        counts=state.counts,
        records=state.records,
        attention=state.attention,
        latest=state.latest,
        changes=state.changes,
        scratch=state.scratch,
        place=place,
        round=t,
        age=age,
        settled=settled,
        leader=float(leader),
        former=former,
        doubt=doubt,
        n_changes=n_changes,
        n_bursts=n_bursts,
        watch_local=watch_local,
        waited=waited,
    )


def _sole_leader(p: Vector) -> int:
    """Return the likeliest arm, −1 if there are several: which of them comes first must not matter."""
    top = likeliest(p)
    for k in range(top + 1, len(p)):
        if p[k] == p[top]:
            return -1
    return top


def _copy(source: Instance, target: Instance) -> None:
    for k in range(len(source.iterate)):
        target.iterate[k] = source.iterate[k]
        target.loss_sums[k] = source.loss_sums[k]


def _place_of(n_changes: float) -> int:
    """Return where the latest of `n_changes` changes is in the ring."""
    return 3 * ((int(n_changes) - 1) % N_CHANGES)
