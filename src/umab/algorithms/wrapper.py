"""Wrappers: policies around another policy, which see its losses first."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, cast, get_type_hints

from umab._support.checks import shown
from umab.algorithms.base import Change, Coin, HasProbabilities, Learns, P, Pause, Policy, moved, naming
from umab.algorithms.limits import Limits, within
from umab.maths.simplex import Vector


class Inside(NamedTuple):
    """The parameters of a wrapper that has none of its own: the parameters of the policy inside."""

    inner: object


class Around(Protocol):
    """The state of a wrapper: a NamedTuple with the state of the policy inside."""

    @property
    def inner(self) -> HasProbabilities:
        """The state of the policy inside."""

    @property
    def probabilities(self) -> Vector:
        """The probabilities of `inner`."""

    _fields: ClassVar[tuple[str, ...]]

    def _replace(self, **values: Any) -> Self:
        """Return a state with other values."""


if TYPE_CHECKING:  # a wrapper without types may have any
    import typing_extensions

    W = typing_extensions.TypeVar("W", bound=Around, default=Any)
else:
    W = TypeVar("W")
T = TypeVar("T")


@dataclass(frozen=True)
class Wrapper(Policy[W, P]):
    """A policy around another one, named ``name(inner)`` or ``name(inner):key=value``.

    A subclass defines its state at the start, and how it learns. Its state holds the state of the policy inside as
    `inner`, and has a property `probabilities` that returns the probabilities of `inner`, from which arms are drawn. A
    wrapper with parameters of its own overrides `parameters_for`, and holds the parameters of the policy inside as
    `inner` too. Tickets are made by the policy inside. Everything else is taken from the policy inside, unless a
    subclass overrides it.

    Parameters
    ----------
    policy
        The policy inside, or its name.
    """

    policy: Policy

    def __post_init__(self) -> None:
        """Look up the policy inside if it is given by name, and check it."""
        if isinstance(self.policy, str):
            self._set(policy=naming().policy(self.policy))
        if not isinstance(self.policy, Policy):
            raise TypeError(f"{self._what} must be a umab.Policy or the name of one, but got {shown(self.policy)}")
        if self.policy.full_information:
            raise ValueError(f"{self._what} must learn from one arm per round, but got {self.policy.name}")

    @property
    def _what(self) -> str:
        """What messages call the policy inside."""
        return f"the policy inside {type(self).__name__}"

    @abstractmethod
    def init(self, n_arms: int) -> W:
        """Return the state before the first round; `inner` in it is ``self.policy.init(n_arms)``."""

    @staticmethod
    @abstractmethod
    def around(inner_update: Learns) -> Learns:
        """Return the wrapper's `update`, around the `update` of the policy inside.

        It passes `*ticket` on: the ticket and the coin of the policy inside, if it has them::

            def update(parameters, state, arm, loss, probability, *ticket):
                inner = inner_update(parameters.inner, state.inner, arm, loss, probability, *ticket)
                return State(inner=inner)
        """

    def parameters_for(self, n_arms: int) -> P:
        """Return the parameters of the policy inside."""
        return cast(P, Inside(self.policy.parameters_for(n_arms)))

    @property
    def update(self) -> Learns:  # type: ignore[override]
        """The wrapper's update, around the update of the policy inside."""
        return _around(type(self).around, self.policy.update)

    @property
    def credited(self) -> Learns | None:  # type: ignore[override]
        """The same around `credited` of the policy inside, if that has it; `arm` comes before its ticket."""
        inner = self.policy.credited
        return None if inner is None else _around(type(self).around, inner)

    def changes(self, state: W) -> list[Change]:
        """Return the changes that the policy inside has noticed."""
        return self.policy.changes(state.inner)

    def pauses(self, state: W) -> list[Pause]:
        """Return the arms that the policy inside has paused."""
        return self.policy.pauses(state.inner)

    @property
    def selected(self) -> Callable[..., W]:  # type: ignore[override]
        """What the policy inside notes when an arm is drawn."""
        inner = self.policy.selected
        return inner if inner is Policy.selected else _passed_on(type(self.init(1)), inner, "selected", "arm")

    @property
    def closed(self) -> Learns | None:  # type: ignore[override]
        """What the policy inside notes when a draw is closed without a loss, if it does."""
        inner = self.policy.closed
        return None if inner is None else _passed_on(type(self.init(1)), inner, "closed", "arm, probability, *ticket")

    @property
    def coin(self) -> Coin | None:  # type: ignore[override]
        """How likely the coin of the policy inside shows 1, if it has one."""
        return None if self.policy.coin is None else _coin(self.policy.coin)

    def ticket(self, n_arms: int) -> Any:
        """Return a blank ticket of the policy inside."""
        return self.policy.ticket(n_arms)

    @property
    def needs_ticket(self) -> bool:  # type: ignore[override]
        """As the policy inside."""
        return self.policy.needs_ticket

    @property
    def remember(self) -> Callable[..., object]:  # type: ignore[override]
        """What the policy inside remembers about a draw."""
        return _remember(self.policy.remember)

    def resized(self, state: W, arms: Sequence[int | None]) -> W:
        """Resize the state of the policy inside; in the wrapper's own vectors, a new arm starts afresh."""
        start = self.init(len(arms))
        own = {name: getattr(state, name) for name in state._fields if name != "inner"}
        hints = get_type_hints(type(state), include_extras=True)
        kept = {name: moved(hints[name], value, getattr(start, name), arms) for name, value in own.items()}
        return state._replace(inner=self.policy.resized(state.inner, arms), **kept)

    def resized_ticket(self, ticket: Any, arms: Sequence[int | None]) -> Any:
        """Resize as the policy inside does."""
        return self.policy.resized_ticket(ticket, arms)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Those of the policy inside; a subclass adds those of its own fields."""
        return within("inner", self.policy.limits)

    @property
    def ticket_limits(self) -> Mapping[str, Limits]:
        """As the policy inside."""
        return self.policy.ticket_limits

    def fault(self, state: W, tickets: Sequence[Any]) -> str | None:
        """Return what is wrong in the policy inside."""
        return self.policy.fault(state.inner, tickets)

    def rates(self, state: W) -> dict[str, float]:
        """Return the rates of the policy inside."""
        return self.policy.rates(state.inner)

    def own_parameters(self) -> dict[str, object]:
        """Return the parameters of the wrapper itself."""
        return {name: value for name, value in super().parameters().items() if name != "policy"}

    def parameters(self) -> dict[str, object]:
        """Return the name of the policy inside, its parameters, and the wrapper's own."""
        return {"policy": self.policy.name, **self.policy.parameters(), **self.own_parameters()}

    def with_parameters(self, **values: object) -> Self:
        """Return this policy with other parameters: its own by their names, all others for the policy inside."""
        own = {name: value for name, value in values.items() if name in ("policy", *self.own_parameters())}
        rest = {name: value for name, value in values.items() if name not in own}
        inside = cast(Policy, own.pop("policy", self.policy))
        inside = dataclasses.replace(self, policy=inside).policy  # which may be given by name
        return dataclasses.replace(self, policy=inside.with_parameters(**rest) if rest else inside, **own)

    def for_horizon(self, horizon: int) -> Self:
        """Fill in the number of rounds if the policy inside needs it."""
        return dataclasses.replace(self, policy=self.policy.for_horizon(horizon))

    @property
    def scale_free(self) -> bool:  # type: ignore[override]
        """As the policy inside."""
        return self.policy.scale_free

    @property
    def shift_free(self) -> bool:  # type: ignore[override]
        """As the policy inside."""
        return self.policy.shift_free

    @property
    def plays_each_arm_first(self) -> bool:  # type: ignore[override]
        """As the policy inside."""
        return self.policy.plays_each_arm_first

    @property
    def loss_range(self) -> tuple[float, float]:
        """As the policy inside."""
        return self.policy.loss_range

    @property
    def guarantee(self) -> str:
        """Empty unless the wrapper states one: what is proved for the policy inside need not hold for the wrapper."""
        return ""

    @property
    def for_study(self) -> bool:
        """As the policy inside."""
        return self.policy.for_study

    @property
    def needs_horizon(self) -> bool:
        """As the policy inside."""
        return self.policy.needs_horizon

    @property
    def horizon_advice(self) -> str:
        """As the policy inside."""
        return self.policy.horizon_advice


# Each function is made once for each function inside, because compiled code is looked up by function.


@functools.cache
def _around(around: Callable[[Learns], Learns], inner_update: Learns) -> Learns:
    return around(inner_update)


@functools.cache
def _passed_on(state_type: type[W], inner: Callable[..., W], name: str, arguments: str) -> Callable[..., W]:
    """Return a function that passes the state inside to `inner` and keeps everything else.

    It is written as text because compiled code can build a NamedTuple only if its fields are spelled out.
    """
    kept = ", ".join(f"{field}=state.{field}" for field in state_type._fields if field != "inner")
    text = (
        f"def {name}(parameters, state, {arguments}):\n"
        f"    return State(inner=inner(parameters.inner, state.inner, {arguments}), {kept})\n"
    )
    names: dict[str, object] = {"__name__": __name__, "State": state_type, "inner": inner}
    exec(compile(text, f"<{name} of {state_type.__qualname__}>", "exec"), names)
    return cast(Callable[..., W], names[name])


@functools.cache
def _remember(inner_remember: Callable[..., T]) -> Callable[..., T]:
    def remember(parameters: Inside, state: Around, arm: int, ticket: T) -> T:
        return inner_remember(parameters.inner, state.inner, arm, ticket)

    return remember


@functools.cache
def _coin(inner_coin: Coin) -> Coin:
    def coin(parameters: Inside, state: Around, arm: int) -> float:
        return inner_coin(parameters.inner, state.inner, arm)

    return coin


def layers(policy: Policy) -> tuple[Policy, ...]:
    """Return a policy, the one inside it, and so on to the innermost."""
    found = [policy]
    while isinstance(found[-1], Wrapper):
        found.append(found[-1].policy)
    return tuple(found)


def own_parameters(policy: Policy) -> dict[str, object]:
    """Return the parameters of a policy itself, without those of a policy inside."""
    return policy.own_parameters() if isinstance(policy, Wrapper) else policy.parameters()


def flat_parameters(policy: Policy) -> Mapping[str, object]:
    """Return the parameters of all layers of a policy, from the innermost to the outermost."""
    flat: dict[str, object] = {}
    for layer in reversed(layers(policy)):
        flat |= own_parameters(layer)
    return flat
