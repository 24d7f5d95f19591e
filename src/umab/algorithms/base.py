"""What a policy is: the contract that every algorithm keeps and every runtime relies on.

A policy is a frozen dataclass of parameters with two functions:

``init(n_arms)``
    returns the state before the first round. It is plain Python and runs once. It must work for a single arm.

``update(parameters, state, arm, loss, probability)``
    learns that `arm` was drawn with `probability` and cost `loss`, and returns the state for the next round. It is a
    static method and knows only its arguments.

The rest is optional:

``parameters_for(n_arms)``
    returns the `parameters` that are passed to the other functions: a NamedTuple of numbers that do not change from
    round to round. They may depend on the number of arms. It is plain Python and runs once. Parameters are not part of
    the state, so every trial of one compiled call may have its own.

``selected(parameters, state, arm)``
    notes that `arm` was drawn, before its loss is known; for a policy whose next draw depends on that (AHB plays every
    arm once first, however late the losses arrive).

``ticket(n_arms)`` and ``remember(parameters, state, arm, ticket)``
    for a policy that must remember something about a draw until its loss arrives, such as the scale at that time.
    `ticket` returns a blank ticket; `remember` fills it in when `arm` is drawn, before `selected`, and returns it. The
    ticket comes back with the loss, however late: ``update(parameters, state, arm, loss, probability, ticket)``. If
    `needs_ticket` is false, a blank one may come instead.

``credited(parameters, state, account, loss, probability, arm)``
    replaces `update` where `arm` was drawn but the loss goes to the account of another arm, because that one is away
    (see `umab.maths.eligible`); for a policy that looks at the losses of an arm, besides learning from them. `arm` is
    −1 if the arm that was drawn is gone. The ticket follows, if the policy has tickets.

``closed(parameters, state, arm, probability)``
    notes that a draw was closed without a loss, because it expired or was forgotten; for a policy that waits for the
    losses of its draws. `arm` and `probability` are those that `update` would have had; the ticket follows, if the
    policy has tickets. The loss may come all the same, later. Without this function such draws are just forgotten.

``coin(parameters, state, arm)``
    returns how likely a coin shows 1 that is flipped when `arm` is drawn, before `remember` and `selected`; for a
    policy that needs randomness of its own. The coin is independent of the arm: it is what is left of the uniform
    number of the draw. It comes back with the loss, as the last argument of `update`, `credited` and `closed`: 1 or 0,
    or −1 where there is none, as for an arm that was not drawn, or that another learner drew.

``resized(state, arms)`` and ``resized_ticket(ticket, arms)``
    return the state, or a ticket, for other arms, for example after one was added or removed. They are plain Python.
    The versions in `Policy` are right for distributions and for sums over the rounds.

``update_full(parameters, state, losses)``
    replaces `update` in a `FullInformation` policy, which sees the losses of all arms. Such policies are yardsticks
    and run in simulations only.

A state and a ticket are NamedTuples. Each field has one of these types, or is another such NamedTuple:

- ``float``: a number;
- ``Vector``: one float for each arm;
- ``Rows``: a fixed number of floats for each arm, as in ``state.history[arm][i]``;
- ``FixedVector``: as many floats as `init` returns, whatever the number of arms; for example, one for each expert.

Numbers are replaced by returning a new tuple; vectors and rows are changed in place. One vector of the state is called
``probabilities``: the distribution from which the next arm is drawn. So `update` ends by solving for the next
distribution, which can be read from the state at any time. A comment beside a field gives the paper's symbol.

`update`, `selected`, `remember`, `credited`, `closed`, `coin` and `update_full` are compiled as they are written, and
the uncompiled functions remain the reference. Hence their rules:

- no random numbers, no input or output, no decorators; the engine draws, and checks the input before the call;
- only ``math``, the built-ins that take numbers (``min``, ``max``, ``abs``, ``len``, ``range``, ``float``), constants,
  and functions that follow these rules too (from `umab.simplex`, from `umab.numerics`, or your own);
- nothing is allocated: working vectors are part of the state; ``_replace`` does not compile, so write ``State(...)``;
- every index is valid: compiled code does not check it (`umab.testing.check_policy` does);
- nothing divides by zero or takes the logarithm of zero (Python raises an error, compiled code goes on);
- any finite loss is handled, and no probability is ever 0.

A state may come from a file that was damaged, or made up. ``limits`` and ``ticket_limits`` declare what the fields of
every state and ticket satisfy (see `umab.algorithms.limits`), and ``fault(state, tickets)`` finds what no run leaves
although each field is within its limits. Loading a learner refuses that; anything else must be survived, as any loss.

What runtimes and laws need to know of a policy are attributes of its class. What is said of it elsewhere (its summary,
where it was published, with whom it is compared) is in its record in the registry, how its curves are drawn in
`umab.results.styles`, and which theorem is about it in `umab.theory.theorems`. A policy knows none of these.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast, get_type_hints

from umab._support.checks import LARGEST
from umab.algorithms.limits import Limits
from umab.maths.simplex import Rows, Vector, beside_fair_share, shared_out

if TYPE_CHECKING:  # a policy without types, as in `policy: umab.Policy`, may have any; its changes name arms by index
    import typing_extensions

    S = typing_extensions.TypeVar("S", bound="HasProbabilities", default=Any)
    P = typing_extensions.TypeVar("P", default=Any)
    A = typing_extensions.TypeVar("A", default=int)
else:
    S, P, A = TypeVar("S"), TypeVar("P"), TypeVar("A")
F = TypeVar("F")
V = TypeVar("V")


class Change(NamedTuple, Generic[A]):
    """A change of the losses that a policy has noticed, and answered by starting afresh."""

    round: int
    """How many losses the policy had learned from when it noticed the change, this one included."""
    arm: A | None
    """The arm whose losses showed it: its index, or its label if a learner says so; None if that arm is gone."""
    kept: bool | None
    """Whether the restart was kept; False if it was undone, None while it is on trial."""


class Pause(NamedTuple, Generic[A]):
    """An arm that a policy leaves alone because it seems to fail, except for a probe now and then."""

    arm: A
    """Its index, or its label if a learner says so."""
    round: int
    """How many losses the policy had learned from when the pause began, the last one included."""
    probe_in: int
    """After how many more losses of any arm the policy means to draw it again; 0 if a probe is due."""

    def in_words(self, since: str = "") -> str:
        """Return this for whoever runs the arms; `since` is the time at which the pause began, if it is known.

        Examples
        --------
        >>> from umab.algorithms.base import Pause
        >>> Pause("east", 307, 40).in_words(), Pause("east", 307, 0).in_words(since="12:03")
        ('east: paused after 307 losses, next probe in 40 requests', 'east: paused since 12:03, next probe is due')
        """
        began = f"since {since}" if since else f"after {self.round} losses"
        probe = f"in {self.probe_in} request{'s' * (self.probe_in > 1)}" if self.probe_in else "is due"
        return f"{self.arm}: paused {began}, next probe {probe}"


class Naming(Protocol):
    """What knows the names of policies. It knows the policies too, so they are given it, and do not import it."""

    def name_of(self, policy: Policy) -> str:
        """Return the name of a policy."""

    def policy(self, text: str) -> Policy:
        """Return the policy with a name."""


_naming: list[Naming] = []


def name_by(given: Naming) -> None:
    """Let policies be named by `given` from now on."""
    _naming[:] = [given]


def naming() -> Naming:
    """Return what knows the names of policies."""
    return _naming[0]


class HasProbabilities(Protocol):
    """A state: it holds the distribution from which the next arm is drawn."""

    @property
    def probabilities(self) -> Vector:
        """The distribution."""


Learns = Callable[..., HasProbabilities]
"""What learns from a loss and returns the state after it: `update`, `credited` or `closed`. What follows its first
arguments depends on the policy: a ticket, a coin, both or neither."""
Coin = Callable[..., float]
"""The function `coin` of a policy: how likely the coin of a draw shows 1."""


class NoParameters(NamedTuple):
    """The parameters of a policy that has none."""


@dataclass(frozen=True, kw_only=True)
class Policy(ABC, Generic[S, P]):
    """A bandit algorithm with its parameters; the docstring of this module is the contract."""

    scale_free: ClassVar[bool] = False
    """Whether multiplying all losses by the same positive number changes no distribution. The laws test it."""

    shift_free: ClassVar[bool] = False
    """Whether adding the same number to all losses changes no distribution. The laws test it."""

    plays_each_arm_first: ClassVar[bool] = False
    """Whether the first draws take the arms in their order, each with probability 1."""

    full_information: ClassVar[bool] = False
    """Whether the policy sees the losses of all arms; see `FullInformation`."""

    takes_advice: ClassVar[bool] = False
    """Whether the policy is told in every round what experts advise; see `umab.algorithms.advised`."""

    instead: ClassVar[str] = ""
    """What to use when a loss is outside `loss_range`; it ends the message."""

    @abstractmethod
    def init(self, n_arms: int) -> S:
        """Return the state before the first round, with a list for each vector."""

    def parameters_for(self, n_arms: int) -> P:
        """Return the parameters that are passed to the compiled functions."""
        return cast(P, NoParameters())

    @staticmethod
    @abstractmethod
    def update(parameters: P, state: S, arm: int, loss: float, probability: float) -> S:
        """Return the state after `arm`, drawn with `probability`, cost `loss`."""

    @staticmethod
    def selected(parameters: P, state: S, arm: int) -> S:
        """Return the state after `arm` was drawn and before its loss is known."""
        return state

    credited: ClassVar[Learns | None] = None
    """What replaces `update` if a loss goes to the account of another arm than the one drawn; None for `update`."""

    closed: ClassVar[Learns | None] = None
    """What notes that a draw was closed without a loss; None for a policy that need not know."""

    coin: ClassVar[Coin | None] = None
    """How likely the coin of a draw shows 1; None for a policy without a coin."""

    needs_ticket: ClassVar[bool] = True
    """Whether a policy that has tickets needs them. If not, it can learn with a blank ticket from a choice whose ticket
    was not kept: of another learner, or of an older version, in which the policy had none."""

    def ticket(self, n_arms: int) -> Any:
        """Return a blank ticket, or None if the policy remembers nothing about a draw."""
        return None

    @staticmethod
    def remember(parameters: P, state: S, arm: int, ticket: Any) -> Any:
        """Return the ticket of a draw of `arm`."""
        return ticket

    def resized(self, state: S, arms: Sequence[int | None]) -> S:
        """Return `state` for other arms, each given as the index of an old arm, or as None if it is new.

        A new arm gets a fair share of every distribution, 1/n. Its sums are the ones that would have given it that
        share: they lie between the sums of the two arms whose probabilities are just above and just below 1/n. The old
        arms keep their sums, and share the rest of the probability in proportion. A new arm gets the rows that `init`
        returns. A number that still has the value that `init` gave it for the old arms gets the one for the new arms.
        """
        before, start = self.init(len(state.probabilities)), self.init(len(arms))
        likelier, rarer, part = beside_fair_share(self.solved(state), self.link)

        def fair(values: Vector) -> float:
            return (1.0 - part) * values[likelier] + part * values[rarer]

        two = self.init(2)  # with two arms, only distributions sum to 1

        def resize(kind: object, value: Any, before: Any, start: Any, two: Any) -> object:
            if kind is float:
                return start if value == before else value
            if kind == Vector and math.fsum(two) == 1.0:
                return shared_out(value, arms)
            if kind == Vector:
                return [fair(value) if arm is None else value[arm] for arm in arms]
            return moved(kind, value, start, arms)

        return _field_by_field(resize, state, before, start, two)

    def resized_ticket(self, ticket: Any, arms: Sequence[int | None]) -> Any:
        """Return a ticket for other arms: old arms keep their values, a new one gets those of a blank ticket."""
        return _field_by_field(lambda kind, value, new: moved(kind, value, new, arms), ticket, self.ticket(len(arms)))

    @property
    def limits(self) -> Mapping[str, Limits]:
        """What the fields of every state satisfy, by name, or by way, as in ``inner.clip``; others are any numbers."""
        return {}

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """The same for the fields of tickets."""
        return {}

    def fault(self, state: S, tickets: Sequence[Any]) -> str | None:
        """Return what is wrong with a state or the tickets of its open choices, all within their limits, or None."""
        return None

    def solved(self, state: S) -> Vector:
        """Return the distribution that follows from the sums of `state`, before exploration is added."""
        found: Vector = getattr(state, "iterate", state.probabilities)
        return found

    @staticmethod
    def link(probability: float) -> float:
        """Return the function of an arm's probability that is linear in its sum; for a log-barrier, 1/p."""
        return 1.0 / probability

    @property
    def guarantee(self) -> str:
        """The order of the regret bound, in short; empty if none is known."""
        return ""

    def changes(self, state: S) -> list[Change]:
        """Return the latest changes of the losses that the policy has noticed; a policy that watches for none, none."""
        return []

    def pauses(self, state: S) -> list[Pause]:
        """Return the arms that are paused now, in the order of the arms; a policy that pauses none has none."""
        return []

    def rates(self, state: S) -> dict[str, float]:
        """Return the learning and exploration rates in `state`, by name. The laws test that they never grow."""
        return {}

    @property
    def loss_range(self) -> tuple[float, float]:
        """The smallest and the largest loss that the policy accepts."""
        return -LARGEST, LARGEST

    @property
    def needs_range(self) -> bool:
        """Whether the policy must be told both ends of the range of the losses."""
        lowest, highest = self.loss_range
        return lowest > -LARGEST and highest < LARGEST

    @property
    def for_study(self) -> bool:
        """Whether the policy is for study: it lacks a part that users need, to show what that part is good for."""
        return False

    @property
    def needs_horizon(self) -> bool:
        """Whether the policy cannot start before it knows the number of rounds."""
        return False

    @property
    def horizon_advice(self) -> str:
        """What to do about the horizon, for a policy that needs one."""
        return f"pass horizon=..., the number of rounds, to {type(self).__name__}"

    @property
    def name(self) -> str:
        """The name from which `umab.policy` makes this policy, parameters included."""
        return naming().name_of(self)

    def for_horizon(self, horizon: int) -> Self:
        """Return this policy, with the number of rounds filled in if it needs one."""
        return self.with_parameters(horizon=horizon) if self.needs_horizon else self

    def parameters(self) -> dict[str, object]:
        """Return the parameters by name, in the order of their declaration."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def with_parameters(self, **values: object) -> Self:
        """Return this policy with these parameters in place of its own."""
        return dataclasses.replace(self, **values)

    def refusal(self, loss: float, where: str) -> str | None:
        """Return why `loss`, seen at `where`, is refused, or None if it is accepted."""
        lowest, highest = self.loss_range
        if lowest <= loss <= highest:
            return None
        if not -LARGEST <= loss <= LARGEST:
            return f"loss must be finite, but got loss={loss} for {where}"
        limits = [f"at least {lowest!r}"] * (lowest > -LARGEST) + [f"at most {highest!r}"] * (highest < LARGEST)
        rule = f"loss must be {' and '.join(limits)} for {self.name}"
        return f"{rule}, but got loss={loss} for {where}{self.instead}"

    def _set(self, **values: object) -> None:
        """Store checked values; for `__post_init__` of frozen policies."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _field_by_field(resize: Callable[..., object], first: F, *others: F) -> F:
    """Return a NamedTuple whose fields are made by `resize`, from the type of a field and its value in each tuple."""
    parts = {}
    for name, kind in get_type_hints(type(first), include_extras=True).items():
        values = [getattr(each, name) for each in (first, *others)]
        nested = hasattr(values[0], "_fields")
        parts[name] = _field_by_field(resize, *values) if nested else resize(kind, *values)
    return type(first)(**parts)


def moved(kind: object, value: V, new: V, arms: Sequence[int | None]) -> V:
    """Return values for each arm in the order of `arms`, a new arm's from `new`; return other values as they are."""
    if kind not in (Vector, Rows):
        return value
    old, fresh = cast(Rows, value), cast(Rows, new)  # or vectors
    return cast(V, [fresh[k] if arm is None else old[arm] for k, arm in enumerate(arms)])


class FullInformation(Policy[S, P]):
    """A policy that sees the losses of all arms, not only of the one that was drawn.

    It shows what other policies pay for seeing only one loss. It has `update_full` in place of `update`.
    """

    full_information: ClassVar[bool] = True

    @staticmethod
    def update(parameters: P, state: S, arm: int, loss: float, probability: float) -> S:
        """Raise an error: one loss is not enough."""
        raise TypeError("a policy with full information needs the losses of all arms")

    @staticmethod
    @abstractmethod
    def update_full(parameters: P, state: S, losses: Vector) -> S:
        """Return the state after a round in which the arms cost `losses`, which must not be changed."""
