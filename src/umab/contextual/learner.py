"""Learner: one decision at a time, for a context."""

from __future__ import annotations

import datetime
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias

from umab._support import checks
from umab._support.files import write_atomically
from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.umab_e import UMABE, Form
from umab.contextual.context import Context, Kinds, Known, checked
from umab.contextual.experts import Advice, ContextFree, Expert, as_expert, names_of
from umab.contextual.models import KINDS, Linear, Regressor
from umab.online import forks
from umab.online.choice import Choice, Label, labels_of
from umab.online.feedback import as_loss
from umab.online.guarded import Guarded
from umab.online.learner import Learner as OnlineLearner
from umab.online.saved import as_written, read_file

FORMAT, VERSION = "umab.contextual.Learner", 1

Experts: TypeAlias = Sequence[Expert | Callable[[Known], Advice]]
"""Experts, and functions of a context that advise as an expert does."""

_Contents: TypeAlias = tuple[OnlineLearner, list[Expert], dict[str, dict[str, float | str]], Kinds]
"""A learner without its lock: the learner inside, the experts, the contexts of open choices and the kinds of names."""


class Learner(Guarded):
    """Choose among arms for a context, learn what each choice cost, and choose better.

    Experts turn the context into advice, and UMAB-E draws an arm by their advice and learns whom to follow. So the
    whole is never much worse than the best of them, whatever the unit of the losses: that is against the advice as it
    was given. Experts that learn from the choices would have learned more had they been followed; docs/context.md says
    what this means.

    Parameters
    ----------
    arms
        The number of arms, or their labels.
    experts
        Experts of `umab.contextual`, or functions of a context that return an arm, a probability for each arm, or None
        to abstain. They are copied. None stands for ``[ContextFree(), Linear()]``.
    seed
        A whole number, at least 0, makes the draws repeatable.
    maximize
        Whether larger is better. If so, `update` takes ``reward=`` in place of ``loss=``.
    form
        The form of UMAB-E, see `umab.UMABE`.

    Notes
    -----
    A context is a dict from names to numbers, strings or None, or a row of a pandas or polars frame, whose columns are
    the names. A name may be missing at times, and new names may come later: models take a missing value as one that is
    not known. A name that had numbers must not have strings later. Threads may share a learner.

    Examples
    --------
    >>> import umab
    >>> learner = umab.contextual.Learner(["small", "large"], seed=0)
    >>> for words in [10, 900, 20, 1200, 15, 800] * 50:
    ...     choice = learner.select({"words": words})
    ...     learner.update(choice, loss=words / 100 if choice.arm == "small" else 5.0)
    >>> learner.select({"words": 1000}).arm, learner.select({"words": 12}).arm
    ('large', 'small')
    """

    def __init__(
        self,
        arms: int | Sequence[Label],
        experts: Experts | None = None,
        *,
        seed: int | None = None,
        maximize: bool = False,
        form: Form = "auto",
    ) -> None:
        if isinstance(arms, (Policy, str)):
            rule = "arms must be a number or a sequence of labels, and the policy is always UMAB-E"
            raise TypeError(f"{rule}, but got arms={arms!r}; write umab.contextual.Learner(['a', 'b'])")
        labels = labels_of(arms)
        given = [ContextFree(), Linear()] if experts is None else experts
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise TypeError(f"experts must be a list, but got experts={checks.shown(experts)}")
        if not given:
            raise ValueError("experts must have at least one expert, but got none")
        self._experts = [as_expert(each) for each in given]
        for each in self._experts:
            each.begin(labels)
        names = names_of(self._experts)
        self._learner = OnlineLearner(UMABE(form=form), labels, experts=names, seed=seed, maximize=maximize)
        self._start({}, Kinds())

    def _start(self, contexts: dict[str, Known], kinds: Kinds) -> None:
        self._contexts, self._kinds = contexts, kinds
        self._guard()
        forks.watch(self)

    def _after_fork(self) -> bool:
        """Go on in the child of a fork, where the learner inside has no open choices."""
        self._guard()
        self._contexts = {}
        return False  # the learner inside counts itself

    def __getstate__(self) -> _Contents:
        """Return all but the lock, for `pickle` and `copy`."""
        with self._changing():
            return self._learner, self._experts, dict(self._open_contexts()), self._kinds

    def __setstate__(self, state: _Contents) -> None:
        """Continue from it."""
        self._learner, self._experts, contexts, kinds = state
        self._start({identity: checked(known) for identity, known in contexts.items()}, kinds)

    def _open_contexts(self) -> Iterator[tuple[str, dict[str, float | str]]]:
        """Yield the contexts of open choices; an interrupt may have left others."""
        for choice in self._learner.outstanding:
            if choice.id in self._contexts:
                yield choice.id, dict(self._contexts[choice.id])

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self._learner.arms

    @property
    def experts(self) -> tuple[str, ...]:
        """The names of the experts."""
        return tuple(str(each) for each in self._learner.experts)

    @property
    def maximize(self) -> bool:
        """Whether feedback is a reward, where higher is better."""
        return self._learner.maximize

    @property
    def outstanding(self) -> tuple[Choice, ...]:
        """The open choices, whose losses have not arrived yet, oldest first."""
        return self._learner.outstanding

    def weights(self) -> dict[str, float]:
        """Return how much each expert counts now; the weights sum to 1."""
        return {str(name): weight for name, weight in self._learner.weights().items()}

    def select(self, context: Context) -> Choice:
        """Draw an arm for a context: a dict, or a row of a frame. Selecting again before the loss is known is fine."""
        known = checked(context)
        with self._changing():
            self._kinds.check(known)
            advice = [row for each in self._experts for row in self._advice_of(each, known)]
            choice = self._learner.select(advice=advice)
            self._kinds.note(known)
            self._contexts[choice.id] = known
            return choice

    def _advice_of(self, expert: Expert, known: Known) -> list[Advice]:
        try:
            return expert.advice(known)
        except Exception as error:
            error.add_note(f"the expert {expert.name!r} could not advise; nothing has changed")
            raise

    def update(self, choice: Choice, loss: float | None = None, *, reward: float | None = None) -> None:
        """Learn from what a choice cost, at any later time and in any order.

        UMAB-E learns first, then every expert. If an expert raises an error, the others still learn, and the error is
        raised at the end: the choice is closed.
        """
        _, cost = as_loss(self.maximize, loss, reward)
        with self._changing():
            self._learner.update(_as_choice(choice), loss, reward=reward)
            self._teach([choice], cost)

    def _teach(self, choices: Sequence[Choice], cost: float) -> None:
        """Let all experts learn the loss of choices that were closed."""
        failed: BaseException | None = None
        for choice in choices:
            known = self._contexts.pop(choice[3], None)
            if known is None:  # an interrupt came between the draw and its context
                continue
            for each in self._experts:
                try:
                    each.learn(known, choice[0], cost, choice[2])
                except Exception as error:
                    error.add_note(f"the expert {each.name!r} could not learn from {choice!r}; the others have")
                    failed = failed or error
        if failed is not None:
            raise failed

    def forget(self, choice: Choice) -> None:
        """Close a choice whose feedback will never be known, and learn nothing from it."""
        with self._changing():
            self._learner.forget(_as_choice(choice))
            self._contexts.pop(choice[3], None)

    def expire(
        self,
        after: int | datetime.timedelta,
        *,
        loss: float | None = None,
        reward: float | None = None,
        forget: bool = False,
    ) -> list[Choice]:
        """Close the choices whose feedback has not arrived in time, and return them, as `umab.Learner.expire` does."""
        with self._changing():
            expired = self._learner.expire(after, loss=loss, reward=reward, forget=forget)
            if forget:
                for choice in expired:
                    self._contexts.pop(choice.id, None)
            else:
                self._teach(expired, as_loss(self.maximize, loss, reward)[1])
            return expired

    def to_json(self) -> str:
        """Return the whole learner as JSON; `from_json` reads it back."""
        with self._changing():
            content = {
                "format": FORMAT,
                "version": VERSION,
                "umab": __version__,
                "learner": self._learner.to_json(indent=None),
                "kinds": self._kinds.has_string,
                "contexts": dict(self._open_contexts()),
                "experts": [
                    {"kind": _kind_of(each), "parameters": each.parameters(), "state": each.saved()}
                    for each in self._experts
                ],
            }
            return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        experts: Experts | None = None,
        unpickle: bool = False,
        seed: int | None = None,
        fresh: bool = False,
    ) -> Self:
        """Return the learner that `to_json` wrote; it continues as if it had never stopped.

        Parameters
        ----------
        text
            What `to_json` returned.
        experts
            The experts that the learner was made with, in the same order, if some of them are your own.
        unpickle
            Whether to read the pickles in which models of other libraries are saved. A pickle can run any code: read it
            only if you wrote it. Without this, a learner with such models is refused.
        seed, fresh
            As for `umab.Learner.from_json`: start a learner of its own from what was learned.
        """
        try:
            saved = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"a saved learner must be complete JSON: {error}") from None
        if not isinstance(saved, dict) or (saved.get("format"), repr(saved.get("version"))) != (FORMAT, repr(VERSION)):
            raise ValueError(f"a saved learner must be JSON with format={FORMAT!r} and version={VERSION}")
        learner = cls.__new__(cls)
        with as_written():
            learner._learner = OnlineLearner.from_json(saved["learner"], seed=seed, fresh=fresh)
            learner._experts = _read_experts(saved["experts"], experts, unpickle, learner._learner)
            names = names_of(learner._experts)
            if tuple(names) != learner._learner.experts:
                raise ValueError(f"the experts must be {list(learner._learner.experts)}, but got {names}")
            kinds = Kinds({name: checks.true_or_false("kinds", value) for name, value in saved["kinds"].items()})
            contexts = {identity: checked(known) for identity, known in saved["contexts"].items()}
            for known in contexts.values():
                kinds.check(known)
            is_new = fresh or seed is not None
            if not is_new and not set(contexts) <= {choice.id for choice in learner._learner.outstanding}:
                raise ValueError("contexts must be of open choices")
            learner._start({} if is_new else contexts, kinds)
        return learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file. At every moment the file is complete: the old one or the new one."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        experts: Experts | None = None,
        unpickle: bool = False,
        seed: int | None = None,
        fresh: bool = False,
    ) -> Self:
        """Return the learner that `save` wrote to a file; the options are those of `from_json`."""
        return read_file(
            path, functools.partial(cls.from_json, experts=experts, unpickle=unpickle, seed=seed, fresh=fresh)
        )

    def __repr__(self) -> str:
        """Name the arms and the experts."""
        return f"umab.contextual.Learner({list(self.arms)!r}, experts={list(self.experts)!r})"


def _as_choice(choice: object) -> Choice:
    """Return a choice, or the list that JSON turns one into, but no label, from which nothing can be learned here."""
    if not isinstance(choice, (tuple, list)):
        raise TypeError(f"a choice must be what select returned, but got {checks.shown(choice)}")
    return choice  # type: ignore[return-value]


def _kind_of(expert: Expert) -> str | None:
    """Return the name of a kind of expert that is here, None for others."""
    return next((kind for kind, known in KINDS.items() if type(expert) is known), None)


def _read_experts(
    saved: Sequence[Mapping[str, Any]], given: object, unpickle: bool, learner: OnlineLearner
) -> list[Expert]:
    """Return the experts of a saved learner: made anew, or those that were given, with what they had learned."""
    if given is not None and not isinstance(given, Sequence):
        raise TypeError(f"experts must be a list, but got experts={checks.shown(given)}")
    if given is not None and len(given) != len(saved):
        raise ValueError(f"experts must be the {len(saved)} that were saved, but got {len(given)}")
    found = []
    for at, about in enumerate(saved):
        kind = KINDS.get(about["kind"])
        if not isinstance(about["parameters"], dict):
            raise TypeError(f"the parameters of an expert must be a dict, but got {about['parameters']!r:.60}")
        if kind is Regressor and not unpickle:
            raise ValueError(
                "a saved learner must not hold models of other libraries, which are saved as pickles and can run any "
                "code, unless you trust it: pass unpickle=True"
            )
        if given is not None:
            expert = as_expert(given[at])
            if _kind_of(expert) != about["kind"] or (kind is not None and expert.parameters() != about["parameters"]):
                was = about["kind"] or "one of your own"
                raise ValueError(f"expert {at} must be the one that was saved, {was} with {about['parameters']}")
        elif kind is None:
            raise ValueError("a saved learner has experts of your own; pass experts=[...], in the same order")
        elif kind is Regressor:
            expert = Regressor(_Placeholder(), **about["parameters"])
        else:
            parameters = dict(about["parameters"])
            expert = kind(*parameters.pop("keys", ()), **parameters)
        expert.begin(learner.arms)
        expert.load(about["state"])
        found.append(expert)
    return found


class _Placeholder:
    """Stands in for a model until the saved ones are read."""

    def partial_fit(self) -> None: ...

    def predict(self) -> None: ...
