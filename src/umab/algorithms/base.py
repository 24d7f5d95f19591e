"""What a policy is: the contract that every algorithm keeps and that every runtime relies on.

A policy is a frozen dataclass of parameters with two functions:

``init(n_arms)``
    returns the state before the first round. It is plain Python and runs once. One arm must be enough for it.

``update(parameters, state, arm, loss, probability)``
    learns that `arm` was drawn with `probability` and cost `loss`, and returns the state of the next round. It is a
    static method: it knows only what it is given.

The rest is optional:

``parameters_for(n_arms)``
    returns the `parameters` that the other functions are given: a NamedTuple of numbers that stay the same from round
    to round, as they are or worked out from the number of arms. It is plain Python and runs once. Parameters are no
    part of the state, so every trial of one compiled call may have its own.

``selected(parameters, state, arm)``
    notes that `arm` was drawn, before its loss is known; for a policy whose next draw depends on it (AHB plays every
    arm once first, however late the losses come).

``ticket(n_arms)`` and ``remember(parameters, state, arm, ticket)``
    for a policy that must remember something about a draw until its loss comes, such as the scale at that time.
    `ticket` returns a blank ticket; `remember` fills it in when `arm` is drawn, before `selected`, and returns it. It
    comes back with the loss, however late that is: ``update(parameters, state, arm, loss, probability, ticket)``.

``resized(state, arms)`` and ``resized_ticket(ticket, arms)``
    return the state, or a ticket, for other arms, as when one is added or removed. They are plain Python; what `Policy`
    has for them is right for distributions and for sums over the rounds.

``update_full(parameters, state, losses)``
    in place of `update`, for a `FullInformation` policy, which sees what every arm has cost. Such policies are
    yardsticks and run in simulations only.

A state and a ticket are NamedTuples. Each field has one of these types, or is another such NamedTuple:

- ``float``: a number;
- ``Vector``: one float for each arm;
- ``Rows``: a fixed number of floats for each arm, as in ``state.history[arm][i]``;
- ``FixedVector``: as many floats as `init` says, whatever the number of arms; one for each expert, for example.

Numbers are replaced by returning a new tuple; vectors and rows are changed in place. One vector of the state is called
``probabilities``: the distribution from which the next arm is drawn. So `update` ends by solving for the next
distribution, and whoever holds the state can always look at it. A comment beside a field gives the paper's symbol.

`update`, `selected`, `remember` and `update_full` are compiled as they are written, and the uncompiled functions remain
the reference. Hence their rules:

- no random numbers, no input or output, no decorators; the engine draws and checks the input before the call;
- only ``math``, the built-ins that take numbers (``min``, ``max``, ``abs``, ``len``, ``range``, ``float``), constants,
  and functions that keep these rules too (those of `umab.simplex` and `umab.numerics`, and your own);
- nothing is allocated: vectors that are needed are in the state; ``_replace`` does not compile, write ``State(...)``;
- an index is right: compiled code does not check it (`umab.testing.check_policy` does);
- nothing divides by zero or takes a logarithm of it (Python raises there, compiled code goes on);
- any finite loss is survived, and no probability is ever 0.

What there is to know about a policy stands with it, as attributes that the command line, charts, reports and pages
read: `summary`, `reference`, `guarantee`, `theorem`, `rate_in_norms`, `page`, `colour`, `dash`, `published` and
`also_compared`.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

from umab.checks import LARGEST
from umab.simplex import Rows, Vector, beside_fair_share, shared_out


class NoParameters(NamedTuple):
    """What `update` is given by a policy that has no parameters."""


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A bandit algorithm with its parameters; see the text of this module for the contract."""

    scale_free: ClassVar[bool] = False
    """Whether multiplying all losses by the same positive number changes no distribution. The laws test it."""

    shift_free: ClassVar[bool] = False
    """Whether adding the same number to all losses changes no distribution. The laws test it."""

    plays_each_arm_first: ClassVar[bool] = False
    """Whether the first draws take the arms in their order, each with probability 1."""

    full_information: ClassVar[bool] = False
    """Whether the policy sees the losses of all arms; see `FullInformation`."""

    instead: ClassVar[str] = ""
    """What to use when a loss is outside `loss_range`, as the end of a message."""

    reference: ClassVar[str] = ""
    """Where the policy was published."""

    theorem: ClassVar[str] = ""
    """The theorem behind the guarantee whose bound and proof `umab.theory` has as code."""

    page: ClassVar[str] = ""
    """The page of the documentation that is about the policy, as a path below docs/."""

    published: ClassVar[bool] = False
    """Whether it is a published policy with which the recommended one is compared on the suite."""

    colour: ClassVar[str] = ""
    """The colour of its curves, as #rrggbb; empty for one that no other curve of the chart has."""

    dash: ClassVar[tuple[int, ...]] = ()
    """The lengths of the strokes and gaps of its curves; empty for a solid line."""

    rate_in_norms: ClassVar[str] = ""
    """The order of its bound in the norms of the paper's Table 1, as one of the formulas of `umab.theory.bounds`."""

    also_compared: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """Other parameters with which the policy is compared, beside its own."""

    @abstractmethod
    def init(self, n_arms: int) -> Any:
        """Return the state before the first round, with a list for each vector."""

    def parameters_for(self, n_arms: int) -> Any:
        """Return what the compiled functions are given as their parameters."""
        return NoParameters()

    @staticmethod
    @abstractmethod
    def update(parameters: Any, state: Any, arm: int, loss: float, probability: float) -> Any:
        """Return the state after `arm`, drawn with `probability`, has cost `loss`."""

    @staticmethod
    def selected(parameters: Any, state: Any, arm: int) -> Any:
        """Return the state after `arm` was drawn and before its loss is known."""
        return state

    def ticket(self, n_arms: int) -> Any:
        """Return a blank ticket, or None if the policy remembers nothing about a draw."""
        return None

    @staticmethod
    def remember(parameters: Any, state: Any, arm: int, ticket: Any) -> Any:
        """Return the ticket of a draw of `arm`."""
        return ticket

    def resized(self, state: Any, arms: Sequence[int | None]) -> Any:
        """Return `state` for other arms: each is one of the old arms, by its index there, or a new one, None.

        A new arm gets a fair share of every distribution, one part in n. What is summed for each arm is for it what
        would have given it that share: between the two arms whose probabilities are next to 1/n. The old arms keep
        their sums, and share what is left in proportion. A new arm's rows are what they are at the start, and so is a
        number that is still what it was at the start with the old arms.
        """
        before, start = self.init(len(state.probabilities)), self.init(len(arms))
        likelier, rarer, part = beside_fair_share(self.solved(state), self.link)

        def fair(values: Vector) -> float:
            return (1.0 - part) * values[likelier] + part * values[rarer]

        two = self.init(2)  # which vectors are distributions can be seen from two arms on

        def resize(kind: Any, value: Any, before: Any, start: Any, two: Any) -> Any:
            if kind is float:
                return start if value == before else value
            if kind == Vector and math.fsum(two) == 1.0:
                return shared_out(value, arms)
            if kind == Vector:
                return [fair(value) if arm is None else value[arm] for arm in arms]
            return moved(kind, value, start, arms)

        return _field_by_field(resize, state, before, start, two)

    def resized_ticket(self, ticket: Any, arms: Sequence[int | None]) -> Any:
        """Return a ticket for other arms: old arms keep what they have, a new one gets what a blank ticket has."""
        return _field_by_field(lambda kind, value, new: moved(kind, value, new, arms), ticket, self.ticket(len(arms)))

    def solved(self, state: Any) -> Vector:
        """Return the distribution that follows from the sums of `state`, before exploration is added to it."""
        found: Vector = getattr(state, "iterate", state.probabilities)
        return found

    @staticmethod
    def link(probability: float) -> float:
        """Return what falls with the probability of an arm in proportion to its sum; for a log-barrier, 1/p."""
        return 1.0 / probability

    @property
    def summary(self) -> str:
        """What the policy is for, in one line; the first one of its docstring, unless the class says otherwise."""
        return (type(self).__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def guarantee(self) -> str:
        """The order of the regret bound, in short; empty if none is known."""
        return ""

    def rates(self, state: Any) -> dict[str, float]:
        """Return the learning and exploration rates in `state`, by name. The laws test that they never grow."""
        return {}

    @property
    def loss_range(self) -> tuple[float, float]:
        """The smallest and the largest loss that the policy takes."""
        return -LARGEST, LARGEST

    @property
    def needs_range(self) -> bool:
        """Whether the policy must be told both ends of the range of the losses."""
        lowest, highest = self.loss_range
        return lowest > -LARGEST and highest < LARGEST

    @property
    def for_study(self) -> bool:
        """Whether the policy lacks something that a user would miss, and is here to show what that is good for."""
        return False

    @property
    def needs_horizon(self) -> bool:
        """Whether the policy cannot start before it knows the number of rounds."""
        return False

    @property
    def horizon_advice(self) -> str:
        """What a user who has no horizon can do, for a policy that needs one."""
        return f"pass horizon=..., the number of rounds, to {type(self).__name__}"

    @property
    def name(self) -> str:
        """The name under which `umab.policy` gives this policy back, parameters included."""
        from umab.algorithms.registry import name_of  # the registry imports all policies, which import this module

        return name_of(self)

    def for_horizon(self, horizon: int) -> Self:
        """Return this policy, with the number of rounds filled in if it needs to know it."""
        return self.with_parameters(horizon=horizon) if self.needs_horizon else self

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name, in the order of their declaration."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def with_parameters(self, **values: Any) -> Self:
        """Return this policy with these parameters in place of its own."""
        return dataclasses.replace(self, **values)

    def refusal(self, loss: float, where: str) -> str | None:
        """Return why `loss`, seen at `where`, is not taken, or None when it is."""
        lowest, highest = self.loss_range
        if lowest <= loss <= highest:
            return None
        if not -LARGEST <= loss <= LARGEST:
            return f"loss must be finite, but got loss={loss} for {where}"
        limits = [f"at least {lowest!r}"] * (lowest > -LARGEST) + [f"at most {highest!r}"] * (highest < LARGEST)
        rule = f"loss must be {' and '.join(limits)} for {self.name}"
        return f"{rule}, but got loss={loss} for {where}{self.instead}"

    def _set(self, **values: Any) -> None:
        """Store checked values; for `__post_init__` of frozen policies."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _field_by_field(resize: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Return a NamedTuple of what `resize` makes of each field, from its type and its value in each of the tuples."""
    parts = {}
    for name, kind in get_type_hints(type(first), include_extras=True).items():
        values = [getattr(each, name) for each in (first, *others)]
        nested = hasattr(values[0], "_fields")
        parts[name] = _field_by_field(resize, *values) if nested else resize(kind, *values)
    return type(first)(**parts)


def moved(kind: Any, value: Any, new: Any, arms: Sequence[int | None]) -> Any:
    """Return what is kept for each arm, in the order of `arms`, with that of `new` for a new one; all else as it is."""
    if kind not in (Vector, Rows):
        return value
    return [new[k] if arm is None else value[arm] for k, arm in enumerate(arms)]


class FullInformation(Policy):
    """A policy that sees what every arm has cost, not only the one that was drawn.

    It shows what it costs to see so little as a bandit does. It has `update_full` in place of `update`.
    """

    full_information: ClassVar[bool] = True

    @staticmethod
    def update(parameters: Any, state: Any, arm: int, loss: float, probability: float) -> Any:
        """Refuse: one loss is not enough."""
        raise TypeError("a policy with full information needs the losses of all arms")

    @staticmethod
    @abstractmethod
    def update_full(parameters: Any, state: Any, losses: Vector) -> Any:
        """Return the state after a round in which the arms have cost `losses`, which must not be changed."""
