"""Experts: they turn a context into advice, and learn from every choice, whoever advised it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import umab.online.learner as online
from umab._support import checks
from umab._support.checks import LARGEST
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.algorithms.registry import recommended
from umab.contextual.context import Known, checked
from umab.online.choice import Label

Advice: TypeAlias = "Label | Iterable[float] | Mapping[Any, float] | None"
"""What an expert advises: the label of an arm, a probability for each arm, or None to abstain."""


class Expert(ABC):
    """What turns a context into advice; subclass it for experts of your own.

    A learner makes a copy of each expert that it is given, and calls `begin` first.

    Examples
    --------
    >>> import umab
    >>> class Cautious(umab.contextual.Expert):
    ...     def advise(self, context):
    ...         return "large" if context.get("words", 0.0) > 500 else "small"
    >>> learner = umab.contextual.Learner(["small", "large"], experts=[Cautious(), umab.contextual.ContextFree()])
    >>> learner.experts
    ('Cautious', 'context-free')
    """

    arms: tuple[Label, ...]

    def begin(self, arms: tuple[Label, ...]) -> None:
        """Start for these arms."""
        self.arms = arms

    @property
    def name(self) -> str:
        """The name of the expert."""
        return type(self).__name__

    @abstractmethod
    def advise(self, context: Known) -> Advice:
        """Return the label of an arm, a probability for each arm, or None to abstain.

        The context has only what is known: floats and strings. It must not be changed.
        """

    def learn(self, context: Known, arm: Label, loss: float, probability: float) -> None:
        """Learn from a loss. The arm was drawn with this probability, given the advice of all experts."""
        return

    def saved(self) -> object:
        """Return what was learned, as JSON can hold it; an expert that learns must have this and `load`."""
        return None

    def load(self, saved: Any) -> None:
        """Continue from what `saved` returned."""
        return

    def parameters(self) -> Mapping[str, object]:
        """Return what the expert was made with, as JSON can hold it."""
        return {}

    def names(self) -> list[str]:
        """Return a name for each of them."""
        return [self.name]

    def advice(self, context: Known) -> list[Advice]:
        """Return the advice of each of them."""
        return [self.advise(context)]

    def copied(self) -> Self:
        """Return a copy that shares nothing."""
        return copy.deepcopy(self)


class Rule(Expert):
    """A function of the context that returns an arm, a distribution, or None."""

    def __init__(self, function: Callable[[Known], Advice]) -> None:
        self.function = function

    @property
    def name(self) -> str:
        """The name of the function."""
        function = getattr(self.function, "func", self.function)  # of a partial, the function inside
        return str(getattr(function, "__name__", type(function).__name__))

    def advise(self, context: Known) -> Advice:
        """Ask the function."""
        return self.function(context)


class SingleArms(Expert):
    """Every single arm as an expert of its own, so that the learner competes with the best of them.

    `ContextFree` does nearly the same with one expert in place of n: the more experts, the more it takes to tell which
    is best.
    """

    def advise(self, context: Known) -> Advice:
        """Not used: `advice` answers for all arms."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the names."""
        return [f"always {arm}" for arm in self.arms]

    def advice(self, context: Known) -> list[Advice]:
        """Return the arms."""
        return list(self.arms)


class ContextFree(Expert):
    """A policy that does not look at the context; by default `umab.recommended`.

    It advises the distribution from which it would draw, and learns from every choice by its probability.

    Parameters
    ----------
    policy
        A policy or its name.
    """

    def __init__(self, policy: Policy | str | None = None) -> None:
        self.policy = policy_for(policy)

    @property
    def name(self) -> str:
        """Say what it is."""
        return "context-free" if self.policy == recommended() else self.policy.name

    def parameters(self) -> Mapping[str, object]:
        """Return the name of the policy."""
        return {"policy": self.policy.name}

    def begin(self, arms: tuple[Label, ...]) -> None:
        """Start a learner, which never draws."""
        super().begin(arms)
        self._learner = online.Learner(self.policy, arms)

    def advise(self, context: Known) -> Advice:
        """Return the distribution of the policy."""
        return self._learner.probabilities()

    def learn(self, context: Known, arm: Label, loss: float, probability: float) -> None:
        """Learn from a loss."""
        self._learner.update(arm, loss, probability=probability)

    def saved(self) -> object:
        """Return the learner."""
        return self._learner.to_json(indent=None)

    def load(self, saved: object) -> None:
        """Continue with a learner."""
        self._learner = read_learner(saved, self.policy, self.arms)


class ByKey(Expert):
    """A table: a policy for each value of a key, or for each combination of values of several keys.

    It abstains where a key is not known. Of the values, those that were used least recently are forgotten once there
    are more than `most`. Numbers are compared as they are: a key should have few values.

    Parameters
    ----------
    keys
        The names of the keys.
    policy
        The policy for each value; by default `umab.recommended`.
    most
        For how many values something is remembered.
    """

    def __init__(self, *keys: str, policy: Policy | str | None = None, most: int = 1000) -> None:
        if not keys or not all(isinstance(each, str) for each in keys):
            raise TypeError(f"keys must be names in the context, at least one, but got {checks.shown(keys)}")
        self.keys = keys
        self.policy = policy_for(policy)
        self.most = checks.whole("most", most, least=1)

    @property
    def name(self) -> str:
        """Name the keys."""
        return f"by {', '.join(self.keys)}"

    def parameters(self) -> Mapping[str, object]:
        """Return the keys and the options."""
        return {"keys": list(self.keys), "policy": self.policy.name, "most": self.most}

    def begin(self, arms: tuple[Label, ...]) -> None:
        """Start with an empty table."""
        super().begin(arms)
        self._table: dict[tuple[float | str, ...], online.Learner] = {}

    def _place(self, context: Known) -> tuple[float | str, ...] | None:
        found = tuple(context[key] for key in self.keys if key in context)
        return found if len(found) == len(self.keys) else None

    def advise(self, context: Known) -> Advice:
        """Return the distribution for this value, uniform for a new one; abstain if it is not known."""
        place = self._place(context)
        if place is None:
            return None
        known = self._table.get(place)
        return [1.0 / len(self.arms)] * len(self.arms) if known is None else known.probabilities()

    def learn(self, context: Known, arm: Label, loss: float, probability: float) -> None:
        """Learn from a loss, for this value."""
        place = self._place(context)
        if place is None:
            return
        learner = self._table.pop(place, None) or online.Learner(self.policy, self.arms)
        self._table[place] = learner  # last, so that the first one is the least recently used
        if len(self._table) > self.most:
            del self._table[next(iter(self._table))]
        learner.update(arm, loss, probability=probability)

    def saved(self) -> object:
        """Return all learners, with their values."""
        return [[list(place), learner.to_json(indent=None)] for place, learner in self._table.items()]

    def load(self, saved: Iterable[tuple[Sequence[float | str], object]]) -> None:
        """Continue with these learners."""
        table = {tuple(place): read_learner(text, self.policy, self.arms) for place, text in saved}
        fits = all(
            len(place) == len(self.keys) and checked(dict(zip(self.keys, place, strict=True))) for place in table
        )
        if not fits or len(table) > self.most:
            raise ValueError(f"a saved table must have at most {self.most} values of {self.keys}")
        self._table = table


def policy_for(policy: Policy | str | None) -> Policy:
    """Return the policy of an expert, which must take any loss: nobody can say how large the losses are."""
    found = recommended() if policy is None else as_policy(policy)
    if found.loss_range != (-LARGEST, LARGEST) or found.full_information or found.takes_advice or found.needs_horizon:
        raise ValueError(
            "the policy of an expert must take losses of any size and sign, one per round, without a horizon, but got "
            f"{found.name}"
        )
    return found


def read_learner(text: object, policy: Policy, arms: tuple[Label, ...]) -> online.Learner:
    """Return the learner of an expert that was saved."""
    if not isinstance(text, str):
        raise TypeError(f"a saved expert must be text, but got {text!r:.60}")
    learner = online.Learner.from_json(text, policy=policy)
    if learner.arms != arms or learner.maximize:
        raise ValueError(f"a saved expert must be for losses of the arms {arms}, but got one for {learner.arms}")
    return learner


def as_expert(expert: object) -> Expert:
    """Return an expert: a copy of one, or a function as one."""
    if isinstance(expert, Expert):
        return expert.copied()
    if isinstance(expert, type) or not callable(expert):
        raise TypeError(
            f"an expert must be a umab.contextual.Expert or a function of a context, but got {checks.shown(expert)}"
        )
    return Rule(expert)


def names_of(experts: Sequence[Expert]) -> list[str]:
    """Return a name for each expert, all different: a second one of a name gets a number."""
    names: list[str] = []
    for expert in experts:
        for name in expert.names():
            number, unique = 2, name
            while unique in names:
                unique, number = f"{name} {number}", number + 1
            names.append(unique)
    return names


BUILT_IN: Mapping[str, type[Expert]] = {"single-arms": SingleArms, "context-free": ContextFree, "by-key": ByKey}
