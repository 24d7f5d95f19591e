"""Centred: any policy for general losses, on losses less the mean of those before."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from umab.algorithms.base import Policy
from umab.checks import LARGEST
from umab.simplex import Vector


class State(NamedTuple):
    """The state of the policy inside, and the mean of the losses, counted from the first one."""

    inner: Any
    origin: float  # the first loss: counted from it, an offset costs the mean no digits
    mean: float  # of the losses so far, less the origin
    n_losses: float

    @property
    def probabilities(self) -> Vector:
        """Those of the policy inside."""
        probabilities: Vector = self.inner.probabilities
        return probabilities


@dataclass(frozen=True)
class Centred(Policy):
    """A policy on centred losses: a number that is added to all losses makes no difference to it.

    From every loss the mean b_t of all losses seen before is taken away, and from the first one itself.

    Parameters
    ----------
    policy
        A policy for losses of any size and sign, or its name.

    Guarantee
    ---------
    That of the policy inside, with ℓ_t − b_t in place of ℓ_t: sizes become distances from the middle. For b_t is known
    before the arm is drawn, and what is taken from all arms of a round changes no regret. The first round, in which b_t
    is the loss itself, teaches the policy inside nothing, and counts besides.

    References
    ----------
    Of this project; AHB (Hadiji and Stoltz, Adaptation to the Range in K-Armed Bandits, JMLR 2023) centres by the mean
    of the first losses.

    Examples
    --------
    >>> import umab
    >>> umab.Centred("umab-s") == umab.Centred(umab.UMABS())
    True
    >>> learner = umab.Learner(umab.Centred(umab.UMABS()), arms=3)
    >>> for arm, loss in [(0, 1000.5), (1, 999.0)]:
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.0719, 0.8561, 0.0719])
    """

    policy: Policy

    if TYPE_CHECKING:

        def __init__(self, policy: Policy | str) -> None: ...

    shift_free: ClassVar[bool] = True

    # What is compiled depends on the policy inside, so that each type of policy has a type of Centred of its own.
    def __new__(cls, policy: Policy | str) -> Centred:
        """Return an instance of the type that is for this type of policy."""
        policy = _by_name(policy)
        if not isinstance(policy, Policy):
            raise TypeError(f"what is centred must be a umab.Policy or the name of one, but got {policy!r}")
        kind = type(policy)
        if cls is Centred:
            cls = _around(kind, kind.update, kind.selected)
        elif getattr(cls, "_inside", None) is not kind:
            raise TypeError("a centred policy must be made by Centred(policy), neither by a subclass nor by replacing")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Check the policy."""
        self._set(policy=_by_name(self.policy))
        if isinstance(self.policy, Centred):
            raise ValueError(f"what is centred must not be centred already, but got {self.policy.name}")
        if self.policy.full_information or self.policy.loss_range != (-LARGEST, LARGEST):
            raise ValueError(
                "what is centred must take losses of any size and sign, of one arm a round, as centred losses have "
                f"both signs, but got {self.policy.name}"
            )

    def __reduce__(self) -> Any:
        """Pickle as a call, because types that are made at run time cannot be found by name."""
        return Centred, (self.policy,)

    @property
    def guarantee(self) -> str:
        """That of the policy inside, for centred losses."""
        return self.policy.guarantee and f"{self.policy.guarantee}, of ℓ_t − b_t"

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

    def for_horizon(self, horizon: int) -> Self:
        """Fill in the number of rounds if the policy inside needs it."""
        return dataclasses.replace(self, policy=self.policy.for_horizon(horizon))

    def parameters(self) -> dict[str, Any]:
        """Return the policy inside, by name, and its parameters."""
        return {"policy": self.policy.name, **self.policy.parameters()}

    def init(self, n_arms: int) -> State:
        """Return the start of the policy inside."""
        return State(inner=self.policy.init(n_arms), origin=0.0, mean=0.0, n_losses=0.0)

    def resized(self, state: State, arms: Sequence[int | None]) -> State:
        """Resize the state of the policy inside; the mean is that of all losses."""
        return state._replace(inner=self.policy.resized(state.inner, arms))

    def rates(self, state: State) -> dict[str, float]:
        """Return those of the policy inside."""
        return self.policy.rates(state.inner)

    @staticmethod
    def update(state: State, arm: int, loss: float, probability: float) -> State:
        """Refuse: each type of policy has an update of its own, which `_around` makes."""
        raise TypeError("what a centred policy does depends on the policy inside; make one with Centred(policy)")


def _by_name(given: Any) -> Any:
    """Return the policy of a name, and anything else as it is."""
    if not isinstance(given, str):
        return given
    from umab.algorithms.registry import policy  # the registry imports all policies, which import this module

    return policy(given)


@functools.cache
def _around(inside: type[Policy], inner_update: Any, inner_selected: Any) -> type[Centred]:
    """Return the Centred of a type of policy with these functions, which a notebook may have changed."""

    def update(state: State, arm: int, loss: float, probability: float) -> State:
        origin = loss if state.n_losses == 0.0 else state.origin
        centred = within(within(loss - origin) - state.mean)
        n_losses = state.n_losses + 1.0
        return State(
            inner=inner_update(state.inner, arm, centred, probability),
            origin=origin,
            mean=state.mean + centred / n_losses,
            n_losses=n_losses,
        )

    def selected(state: State, arm: int) -> State:
        return State(
            inner=inner_selected(state.inner, arm), origin=state.origin, mean=state.mean, n_losses=state.n_losses
        )

    own = {
        "__doc__": Centred.__doc__,
        "__module__": __name__,
        "_inside": inside,
        "update": staticmethod(update),
        "selected": staticmethod(selected),
        "scale_free": inside.scale_free,
        "plays_each_arm_first": inside.plays_each_arm_first,
        "reference": inside.reference,
    }
    return type("Centred", (Centred,), own)


def within(difference: float) -> float:
    """Return a difference of two losses as a loss: where it is too large for a double, the largest one."""
    return max(-LARGEST, min(LARGEST, difference))
