"""Learner: one decision at a time, for as long as the program lives and beyond."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import os
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab import checks
from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.registry import as_policy, can_be_named
from umab.engine.compiled import online_kernels
from umab.engine.layout import Buffer, check_distribution, layout_of
from umab.engine.streams import stream
from umab.files import write_atomically

Label = str | int | float

FORMAT = "umab.Learner"
VERSION = 1
_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a version of the saved form to the next: what was saved years ago still loads."""

_UNIFORMS_AT_ONCE = 256


class Choice(NamedTuple):
    """An arm that was drawn; hand it back with its loss. All four values survive JSON.

    Attributes
    ----------
    arm
        The label of the arm.
    index
        The position of the arm.
    probability
        With which probability it was drawn; needed to learn from it, now or later.
    id
        Which draw of this learner it is.
    """

    arm: Label
    index: int  # type: ignore[assignment]  # a tuple has a method of this name, which nobody needs here
    probability: float
    id: int


class Learner:
    """Choose among arms, hear what the choice cost, and choose better.

    Parameters
    ----------
    policy
        One of umab's policies, or its name as `umab.policy` takes it.
    arms
        How many arms there are, or their labels: strings or numbers, all different.
    seed
        A whole number from 0 on makes the draws repeatable: they are those of trial 0 of `umab.simulate` with the same
        seed. None takes fresh randomness from the system.

    Notes
    -----
    Threads may share a learner: every call is atomic. A copy, made with `copy`, `pickle` or `to_json`, goes its own way
    from there, with the same draws to come.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABG(), arms=["small", "large", "remote"], seed=7)
    >>> choice = learner.select()
    >>> choice
    Choice(arm='remote', index=2, probability=0.3333333333333333, id=81832011890688)
    >>> learner.update(choice, loss=312.5)
    """

    def __init__(self, policy: Policy | str, arms: int | Sequence[Label], *, seed: int | None = None) -> None:
        if seed is not None:
            seed = checks.whole("seed", seed, least=0)
        self._set_up(policy, arms)
        self._random = stream(seed, trial=0)
        self._start_from(self._layout.pack(self._policy.init(len(self._labels))))
        self._outstanding: dict[int, Choice] = {}
        # Learners count from different numbers, so that the choice of one is not taken for that of another.
        origin = repr((self._random.state, self._policy.name, self._labels)).encode()
        self._first_id = int.from_bytes(hashlib.sha256(origin).digest()[:2]) * 2**32
        self._next_id = self._first_id
        self._refill()

    def _set_up(self, policy: Policy | str, arms: int | Sequence[Label]) -> None:
        """Set all that never changes."""
        policy = as_policy(policy)
        if policy.full_information:
            raise ValueError(
                f"a learner sees one loss a round, but {policy.name} needs those of all arms; use simulate"
            )
        if policy.needs_horizon:
            raise ValueError(f"{policy.name} must know the horizon before it starts; {policy.horizon_advice}")
        self._policy = policy
        self._labels = _labels(arms)
        self._index = {label: index for index, label in enumerate(self._labels)}
        self._lowest, self._highest = policy.loss_range
        self._layout = layout_of(policy)
        self._kernels = online_kernels(policy)
        self._lock = threading.RLock()  # a signal handler may save a learner that is in the middle of a call

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._policy

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self._labels

    @property
    def outstanding(self) -> tuple[Choice, ...]:
        """The choices whose loss has not come yet, oldest first."""
        with self._lock:
            return tuple(self._outstanding.values())

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Return the distribution from which the next arm is drawn, in the order of `arms`."""
        with self._lock:
            return self._probabilities.copy()

    def select(self) -> Choice:
        """Draw an arm. Selecting again before the loss is known is fine."""
        with self._lock:
            if not self._uniforms:
                self._refill()
            index, probability = self._kernels.select(self._buffer, len(self._labels), self._uniforms.pop())
            choice = Choice(self._labels[index], index, probability, self._next_id)
            self._outstanding[self._next_id] = choice
            self._next_id += 1
        return choice

    def update(self, choice: Choice | Label, loss: float, *, probability: float | None = None) -> None:
        """Take in what a choice has cost.

        Parameters
        ----------
        choice
            What `select` returned, at any later time and in any order, also as the list that JSON makes of it; or the
            label of an arm that was chosen without `select`, which counts as a select and an update. After a `select`
            pass the choice, not its arm: only the choice knows with which probability it was drawn.
        loss
            Any finite number, in any unit; lower is better.
        probability
            With a label only: the probability with which the arm was chosen, if it was not the current one.
        """
        loss = checks.real("loss", loss)
        with self._lock:
            if isinstance(choice, (tuple, list)):
                known = self._known(choice, probability)
                index, propensity = known.index, known.probability
            else:
                known = None
                index = self._index_of(choice)
                propensity = self._propensity(index, probability)
            if not self._lowest <= loss <= self._highest:
                raise ValueError(self._policy.refusal(loss, f"arm={self._labels[index]!r}"))
            # Closing the choice and taking in its loss are next to each other, so that Ctrl-C finds both done or none.
            if known is not None:
                del self._outstanding[known.id]
            self._kernels.update(self._buffer, len(self._labels), index, loss, propensity, known is None)

    def _known(self, choice: Sequence[Any], probability: float | None) -> Choice:
        """Return the outstanding choice that `choice` is."""
        if len(choice) != 4:
            raise ValueError(f"a choice must have four values (arm, index, probability, id), but got {choice!r}")
        if probability is not None:
            raise ValueError(
                f"probability must be left out with a Choice, which carries its own, but got {probability=!r}"
            )
        identity = choice[3]
        number = identity if type(identity) is int else _whole_or(identity, -1)
        known = self._outstanding.get(number)
        if known is None:
            used = self._first_id <= number < self._next_id
            why = "it was used before" if used else "this learner has not made it"
            raise ValueError(f"a choice must be one whose loss is outstanding, but for id={identity!r} {why}")
        if tuple(choice) != known:
            raise ValueError(f"a choice must come back unchanged, but got {tuple(choice)!r} for {tuple(known)!r}")
        return known

    def _index_of(self, label: Any) -> int:
        try:
            return self._index[label]
        except (KeyError, TypeError):
            shown = ", ".join(repr(each) for each in self._labels[:10])
            more = f", … ({len(self._labels)} arms)" if len(self._labels) > 10 else ""
            raise ValueError(f"arm must be one of {shown}{more}, but got arm={label!r}") from None

    def _propensity(self, index: int, probability: float | None) -> float:
        if probability is not None:
            return checks.probability("probability", probability)
        return float(self._probabilities[index])

    def _start_from(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._probabilities = self._layout.probabilities(self._buffer)

    def _refill(self) -> None:
        """Draw uniform numbers in advance; one at a time costs more than the rest of a selection."""
        self._random_before = self._random.state
        self._uniforms = np.random.Generator(self._random).random(_UNIFORMS_AT_ONCE).tolist()[::-1]

    def to_json(self) -> str:
        """Return all there is to know about the learner as JSON; `from_json` takes it from there."""
        if not can_be_named(self._policy):
            raise ValueError(f"a saved policy must have a name: call umab.register with {self._policy!r} first")
        return json.dumps(self._snapshot(), indent=2, allow_nan=False)

    def _snapshot(self) -> dict[str, Any]:
        with self._lock:
            # The saved random state is that of the next draw; how many are drawn in advance is nobody's business.
            random = np.random.PCG64()
            random.state = self._random_before
            random.advance(_UNIFORMS_AT_ONCE - len(self._uniforms))
            return {
                "format": FORMAT,
                "version": VERSION,
                "umab": __version__,
                "policy": self._policy.name,
                "arms": list(self._labels),
                "state": self._layout.fields(self._buffer),
                "random": _plain(random.state),
                "first_id": self._first_id,
                "next_id": self._next_id,
                "outstanding": [list(choice) for choice in self._outstanding.values()],
            }

    @classmethod
    def from_json(cls, text: str) -> Learner:
        """Return the learner of which `to_json` made `text`; it goes on as if it had never stopped."""
        try:
            saved = json.loads(text)
        except ValueError as error:
            raise ValueError(f"a saved learner must be complete JSON, but {error}") from None
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise ValueError(f"a saved learner must be JSON with format={FORMAT!r}, but got {text[:60]!r}")
        learner = cls.__new__(cls)
        learner._restore(_migrated(saved), None)
        return learner

    def _restore(self, saved: dict[str, Any], policy: Policy | None) -> None:
        try:
            self._set_up(saved["policy"] if policy is None else policy, saved["arms"])
            state = saved["state"]
            if set(state) != {*self._layout.scalars, *self._layout.vectors}:
                raise ValueError(f"state has {sorted(state)}")
            if any(len(state[name]) != len(self._labels) for name in self._layout.vectors):
                raise ValueError("a vector of the state has not one number an arm")
            self._start_from(self._layout.pack_fields(state))
            if not np.isfinite(self._buffer).all():
                raise ValueError("the state holds a value that is not finite")
            check_distribution(self._policy, self._probabilities)
            self._random = np.random.PCG64()
            self._random.state = saved["random"]
            self._first_id = checks.whole("first_id", saved["first_id"], least=0)
            self._next_id = checks.whole("next_id", saved["next_id"], least=self._first_id)
            self._outstanding = {}
            for each in saved["outstanding"]:
                choice = self._checked_choice(each)
                self._outstanding[choice.id] = choice
        except KeyError as error:
            raise ValueError(f"a saved learner must be complete, but {error} is missing") from None
        except (TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as error:
            raise ValueError(f"a saved learner must be as it was written, but {error}") from None
        self._refill()

    def _checked_choice(self, saved: Sequence[Any]) -> Choice:
        """Return an open choice from its saved form. Compiled code trusts its index, so it must be right."""
        arm, index, probability, identity = saved
        index = checks.whole("index", index, least=0, most=len(self._labels) - 1)
        identity = checks.whole("id", identity, least=self._first_id, most=self._next_id - 1)
        if self._labels[index] != arm or identity in self._outstanding:
            raise ValueError(f"the open choice {list(saved)!r} cannot be")
        return Choice(self._labels[index], index, checks.probability("probability", probability), identity)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file; at every moment the file is the old one or the new one, whole."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Learner:
        """Return the learner that `save` wrote to a file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"cannot load {os.fspath(path)!r}: {error}") from None

    def __getstate__(self) -> tuple[dict[str, Any], Policy]:
        """Return a snapshot and the policy, which need not be registered."""
        return self._snapshot(), self._policy

    def __setstate__(self, state: tuple[dict[str, Any], Policy]) -> None:
        """Go on from a snapshot; so a copy shares nothing with the original."""
        self._restore(*state)

    def __repr__(self) -> str:
        """Say which policy and which arms."""
        return f"Learner({self._policy.name!r}, arms={list(self._labels)!r})"


def _labels(arms: Any) -> tuple[Label, ...]:
    """Return the labels of the arms, checked."""
    if isinstance(arms, (str, bytes, Mapping, Set)) or not (hasattr(arms, "__iter__") or hasattr(arms, "__index__")):
        raise TypeError(f"arms must be a number or a sequence of labels, but got arms={arms!r}")
    if not hasattr(arms, "__iter__"):
        return tuple(range(checks.whole("arms", arms, least=1)))
    labels = tuple(each.item() if isinstance(each, np.generic) else each for each in arms)
    if not labels:
        raise ValueError("arms must have at least one label, but got none")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int, float)):
            raise TypeError(f"the label of an arm must be a string or a number, but got {label!r}")
        if isinstance(label, float) and not math.isfinite(label):
            raise ValueError(f"the label of an arm must be finite if it is a number, but got {label!r}")
    if len(set(labels)) < len(labels):
        twice = next(label for at, label in enumerate(labels) if label in labels[:at])
        raise ValueError(f"the labels of arms must differ, but {twice!r} is there {labels.count(twice)} times")
    return labels


def _migrated(saved: dict[str, Any]) -> dict[str, Any]:
    """Return what was saved in the form of today."""
    version = saved.get("version")
    if type(version) is not int or version > VERSION:
        raise ValueError(f"a saved learner must be of version {VERSION} or older, but got version={version!r}")
    for older in range(version, VERSION):
        if older not in _MIGRATIONS:
            raise ValueError(f"a saved learner of version {older} cannot be read any more")
        saved = _MIGRATIONS[older](saved)
    return saved


def _whole_or(value: Any, otherwise: int) -> int:
    return int(value) if isinstance(value, numbers.Integral) else otherwise


def _plain(value: Any) -> Any:
    """Return a nested dict with plain numbers in place of NumPy's."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
