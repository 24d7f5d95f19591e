"""What a policy is: the contract that every algorithm keeps and that every runtime relies on.

A policy is a frozen dataclass of parameters with two functions:

``init(n_arms)``
    returns the state before the first round. It is plain Python and runs once. One arm must be enough for it.

``update(state, arm, loss, probability)``
    takes in that `arm` was drawn with `probability` and cost `loss`, and returns the state of the next round. It is a
    static method: all it knows is the state, so `init` puts the parameters it needs there.

Three more are optional:

``selected(state, arm)``
    notes that `arm` was drawn, before its loss is known; for a policy whose next draw depends on it (AHB plays every
    arm once first, however late the losses come).

``resized(state, arms)``
    returns the state for other arms, as when one is added or removed. It is plain Python; what `Policy` has for it is
    right for a state of distributions and of sums over the rounds.

``update_full(state, losses)``
    in place of `update`, for a `FullInformation` policy, which sees what every arm has cost. Such policies are
    yardsticks and run in simulations only.

The state is a NamedTuple whose fields are either ``float`` (a scalar) or ``Vector`` (one float an arm). Scalars are
replaced by returning a new tuple; vectors are changed in place. One vector is called ``probabilities``: the
distribution from which the next arm is drawn. So `update` ends by solving for the next distribution, and whoever holds
the state can always look at it. A comment beside a field gives the paper's symbol.

`update` is compiled as it is written, and the uncompiled function remains the reference. Hence its rules:

- no random numbers, no input or output, no decorators; the engine draws and checks the input before the call;
- only ``math``, the built-ins that take numbers (``min``, ``max``, ``abs``, ``len``, ``range``, ``float``), constants,
  and functions that keep these rules too (those of `umab.simplex` and `umab.numerics`, and your own);
- nothing is allocated: vectors that are needed are in the state; ``_replace`` does not compile, write ``State(...)``;
- an index is right: compiled code does not check it (`umab.testing.check_policy` does);
- nothing divides by zero or takes a logarithm of it (Python raises there, compiled code goes on);
- any finite loss is survived, and no probability is ever 0.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from umab.checks import LARGEST
from umab.simplex import Vector, beside_fair_share, shared_out


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

    @abstractmethod
    def init(self, n_arms: int) -> Any:
        """Return the state before the first round, with a list for each vector."""

    @staticmethod
    @abstractmethod
    def update(state: Any, arm: int, loss: float, probability: float) -> Any:
        """Return the state after `arm`, drawn with `probability`, has cost `loss`."""

    @staticmethod
    def selected(state: Any, arm: int) -> Any:
        """Return the state after `arm` was drawn and before its loss is known."""
        return state

    def resized(self, state: Any, arms: Sequence[int | None]) -> Any:
        """Return `state` for other arms: each is one of the old arms, by its index there, or a new one, None.

        A new arm gets a fair share of every distribution, one part in n. What is summed for each arm is for it what
        would have given it that share: between the two arms whose probabilities are next to 1/n. The old arms keep
        their sums, and share what is left in proportion. A scalar that is still what it was at the start is set to what
        it is at the start with this number of arms.
        """
        before, start = self.init(len(state.probabilities)), self.init(len(arms))
        two = self.init(2)  # which vectors are distributions can be seen from two arms on
        likelier, rarer, part = beside_fair_share(self.solved(state), self.link)
        parts: dict[str, Any] = {}
        for name, value in state._asdict().items():
            if isinstance(value, float):
                parts[name] = getattr(start, name) if value == getattr(before, name) else value
            elif math.fsum(getattr(two, name)) == 1.0:
                parts[name] = shared_out(value, arms)
            else:
                fair = (1.0 - part) * value[likelier] + part * value[rarer]
                parts[name] = [fair if arm is None else value[arm] for arm in arms]
        return type(state)(**parts)

    def solved(self, state: Any) -> Vector:
        """Return the distribution that follows from the sums of `state`, before exploration is added to it."""
        found: Vector = getattr(state, "iterate", state.probabilities)
        return found

    @staticmethod
    def link(probability: float) -> float:
        """Return what falls with the probability of an arm in proportion to its sum; for a log-barrier, 1/p."""
        return 1.0 / probability

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
        return dataclasses.replace(self, **{"horizon": horizon}) if self.needs_horizon else self

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name, in the order of their declaration."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

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


class FullInformation(Policy):
    """A policy that sees what every arm has cost, not only the one that was drawn.

    It shows what it costs to see so little as a bandit does. It has `update_full` in place of `update`.
    """

    full_information: ClassVar[bool] = True

    @staticmethod
    def update(state: Any, arm: int, loss: float, probability: float) -> Any:
        """Refuse: one loss is not enough."""
        raise TypeError("a policy with full information needs the losses of all arms")

    @staticmethod
    @abstractmethod
    def update_full(state: Any, losses: Vector) -> Any:
        """Return the state after a round in which the arms have cost `losses`, which must not be changed."""
