"""Learner: one decision at a time, for as long as the program lives and beyond."""

from __future__ import annotations

import collections
import datetime
import json
import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._support.display import learner_html
from umab._support.files import write_atomically
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.online.advice import QUIET, Advice
from umab.online.choice import Choice, Label, labels_of, unknown_arm
from umab.online.core import Core
from umab.online.counters import Counter
from umab.online.saved import read_text


class Learner:
    """Choose among arms, learn what each choice cost, and choose better.

    Parameters
    ----------
    policy
        A policy, or the name of one, as `umab.policy` accepts it.
    arms
        The number of arms, or their labels: strings or numbers, all different.
    seed
        A whole number, at least 0, makes the draws repeatable: they are the same as in trial 0 of `umab.simulate` with
        the same seed. None takes fresh randomness from the system.
    maximize
        Whether larger is better. If so, `update` and `expire` take ``reward=`` in place of ``loss=``. A reward is a
        loss with its sign flipped; the learner flips it.

    Notes
    -----
    Threads may share a learner: every call is atomic. A copy made with `copy`, `pickle` or `to_json` is independent of
    the original from then on, and has the same draws to come.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABG(), arms=["small", "large", "remote"], seed=7)
    >>> choice = learner.select()
    >>> choice
    Choice(arm='remote', index=2, probability=0.3333333333333333, id=81832011890688)
    >>> learner.update(choice, loss=312.5)
    """

    def __init__(
        self, policy: Policy | str, arms: int | Sequence[Label], *, seed: int | None = None, maximize: bool = False
    ) -> None:
        if seed is not None:
            seed = checks.whole("seed", seed, least=0)
        self._begin(Core.start(as_policy(policy), labels_of(arms), maximize, seed))

    def _begin(self, core: Core) -> None:
        self._core = core
        self._maximize = core.maximize
        self._lowest, self._highest = core.policy.loss_range
        self._lock = threading.RLock()  # a signal handler may save a learner that is in the middle of a call
        self._n_quiet = 0  # calls of select since the last feedback
        self._advice = Advice()

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._core.policy

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self._core.labels

    @property
    def maximize(self) -> bool:
        """Whether feedback is a reward, where higher is better."""
        return self._maximize

    @property
    def outstanding(self) -> tuple[Choice, ...]:
        """The open choices, whose losses have not arrived yet, oldest first."""
        with self._lock:
            return tuple(choice for choice, *_ in self._core.open.values())

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Return the distribution from which the next arm is drawn, in the order of `arms`."""
        with self._lock:
            return self._core.probabilities.copy()

    def counters(self) -> dict[Label, Counter]:
        """Return what was counted for each arm: draws, feedback, open choices, and a summary of the losses or rewards.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("uniform", arms=["a", "b"], seed=0)
        >>> for loss in (3.0, 5.0, 4.0):
        ...     learner.update(learner.select(), loss)
        >>> for arm, counter in learner.counters().items():
        ...     print(arm, counter.selected, counter.mean)
        a 1 5.0
        b 2 3.5
        """
        with self._lock:
            n_open = collections.Counter(arm for _, arm, *_ in self._core.open.values())
            return {
                label: self._core.tallies[index].counter(n_open[index], float(self._core.probabilities[index]))
                for label, index in self._core.index.items()
            }

    @overload
    def select(self, *, among: Iterable[Label] | None = None) -> Choice: ...

    @overload
    def select(self, k: int, *, among: Iterable[Label] | None = None) -> list[Choice]: ...

    def select(self, k: int | None = None, *, among: Iterable[Label] | None = None) -> Choice | list[Choice]:
        """Draw an arm. Selecting again before the loss is known is fine.

        Parameters
        ----------
        k
            How many choices to make at once; they are returned as a list. They are drawn independently from the same
            distribution, so an arm may appear more than once.
        among
            The arms that are eligible this time; None means all. The choice carries the probability of the draw that
            was actually made. docs/arms.md says what happens to a guarantee.
        """
        with self._lock:
            eligible = None if among is None else self._eligible(among)
            n_choices = 1 if k is None else checks.whole("k", k, least=1)
            self._n_quiet += 1
            core = self._core
            if self._n_quiet == QUIET:
                self._advice.on_silence(len(core.open))
            if len(core.uniforms.waiting) < 2:  # now and then, even if every draw takes two numbers
                self._advice.on_certainty(core.labels, core.probabilities)
            if k is None:
                return core.draw(eligible)
            return [core.draw(eligible) for _ in range(n_choices)]

    def _eligible(self, among: Iterable[Label]) -> npt.NDArray[np.bool_] | None:
        """Return which arms are eligible, or None if all are."""
        if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a collection of labels, but got among={among!r}")
        indices = {self._index_of(label) for label in among}
        if not indices:
            raise ValueError("among must have at least one arm, but got none")
        if len(indices) == len(self._core.labels):
            return None
        eligible = np.zeros(len(self._core.labels), dtype=np.bool_)
        eligible[list(indices)] = True
        return eligible

    def update(
        self,
        choice: Choice | Label,
        loss: float | None = None,
        *,
        reward: float | None = None,
        probability: float | None = None,
    ) -> None:
        """Learn from what a choice cost.

        Parameters
        ----------
        choice
            What `select` returned, or the list that JSON turns it into, at any later time and in any order. Or the
            label of an arm that was chosen without `select`, which counts as a select and an update. After a `select`,
            pass the choice, not its arm: only the choice has the probability with which it was drawn.
        loss
            Any finite number, in any unit; lower is better.
        reward
            In place of the loss, if the learner maximizes; higher is better.
        probability
            Only with a label: the probability with which the arm was chosen, if it is not the current one.
        """
        if type(loss) is float and reward is None and not self._maximize:  # as `_feedback`, without the call
            value = loss
        else:
            value, loss = self._feedback(loss, reward)
        with self._lock:
            if isinstance(choice, (tuple, list)):
                if probability is not None:
                    raise ValueError(
                        f"probability must not be given with a Choice, which has its own, but got {probability=!r}"
                    )
                known = self._core.known(choice)
                index = known[1]
                if not self._lowest <= loss <= self._highest:
                    raise self._refusal(loss, choice[0], reward)
                self._core.close(known, loss)
            else:
                index = self._index_of(choice)
                propensity = self._propensity(index, probability)
                if not self._lowest <= loss <= self._highest:
                    raise self._refusal(loss, choice, reward)
                if self._advice.may_warn_of_labels and probability is None and self._core.open:
                    self._advice.on_label(self._core.labels[index], index, self._core.open.values())
                self._core.learn(index, loss, propensity)
            if index is not None:
                self._core.tallies[index].take_in(value)
            self._n_quiet = 0

    def _feedback(self, loss: float | None, reward: float | None) -> tuple[float, float]:
        """Return the feedback as given, and as a loss. Only here does a reward become a loss."""
        if self._maximize:
            if loss is not None or reward is None:
                raise TypeError(f"reward must be given, and not loss, if maximize=True, but got {loss=!r}, {reward=!r}")
            value = checks.real("reward", reward)
            return value, 0.0 - value  # not -value: a reward of 0 is a loss of 0, and not of -0
        if reward is not None or loss is None:
            raise TypeError(f"loss must be given, and reward only if maximize=True, but got {loss=!r}, {reward=!r}")
        value = checks.real("loss", loss)
        return value, value

    def _refusal(self, loss: float, arm: Any, reward: float | None) -> ValueError:
        """Return the error for a loss that the policy refuses."""
        flipped = "" if reward is None else f"{reward=!r} is a loss of {loss!r}: "
        return ValueError(f"{flipped}{self._core.policy.refusal(loss, f'arm={arm!r}')}")

    def forget(self, choice: Choice) -> None:
        """Close a choice whose feedback will never be known, and learn nothing from it.

        A failure is better reported as a loss: an arm whose failures are forgotten looks good.
        """
        with self._lock:
            self._core.close(self._core.known(choice), None)

    def expire(
        self,
        after: int | datetime.timedelta,
        *,
        loss: float | None = None,
        reward: float | None = None,
        forget: bool = False,
    ) -> list[Choice]:
        """Close the choices whose feedback has not arrived in time, and return them.

        Parameters
        ----------
        after
            How old a choice must be to expire. An int counts choices, not seconds: at least that many others were made
            after it. A timedelta is a time: the choice was made at least that long ago, by the system clock.
        loss
            The loss to assume for each of them.
        reward
            In place of the loss, if the learner maximizes.
        forget
            In place of both: close them and learn nothing. An arm that does not answer because it is bad then looks
            better than it is.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("umab-g-a", arms=["a", "b"], seed=0)
        >>> lost, late = learner.select(2)
        >>> learner.expire(after=1, loss=30.0) == [lost]
        True
        >>> learner.outstanding == (late,)
        True
        """
        if forget and (loss is not None or reward is not None):
            raise TypeError(f"loss and reward must not be given with forget=True, but got {loss=!r}, {reward=!r}")
        assumed = None if forget else self._feedback(loss, reward)[1]
        with self._lock:
            if assumed is not None and not self._lowest <= assumed <= self._highest:
                raise self._refusal(assumed, "any", reward)
            if isinstance(after, datetime.timedelta):
                if after < datetime.timedelta():
                    raise ValueError(f"after must be at least 0, but got {after=!r}")
                latest = time.time() - after.total_seconds()
                expired = [each for each in self._core.open.values() if each[-1] <= latest]
            else:
                try:
                    n_later = checks.whole("after", after, least=0)
                except TypeError as error:
                    raise TypeError(f"{error}; it counts choices; for a time, pass a datetime.timedelta") from None
                last_id = self._core.next_id - 1 - n_later
                expired = [each for each in self._core.open.values() if each[0].id <= last_id]
            for each in expired:
                self._core.close(each, assumed)
                _, index, *_ = each
                if index is not None:
                    self._core.tallies[index].expired += 1
            return [choice for choice, *_ in expired]

    def add_arm(self, arm: Label) -> None:
        """Add an arm as the last one. It starts with a fair share of the draws, one in n.

        The other arms keep what was learned about them, and share the rest in proportion. docs/arms.md says what
        happens to a guarantee.
        """
        with self._lock:
            self._core.change_arms([*range(len(self._core.labels)), None], labels_of([*self._core.labels, arm]))

    def remove_arm(self, arm: Label) -> None:
        """Remove an arm. The others share its probability in proportion, and keep what was learned about them.

        The arms after it move up by one. Feedback for its open choices is still accepted, and teaches nothing about it.
        If an arm that was away at the draw was to learn from that feedback, it still does.
        """
        with self._lock:
            gone = self._index_of(arm)
            if len(self._core.labels) == 1:
                raise ValueError(f"a learner must keep at least one arm, but {arm!r} is its last")
            kept = [index for index in range(len(self._core.labels)) if index != gone]
            self._core.change_arms(kept, tuple(self._core.labels[index] for index in kept))

    def _index_of(self, label: Any) -> int:
        try:
            return self._core.index[label]
        except (KeyError, TypeError):
            raise unknown_arm(self._core.labels, label) from None

    def _propensity(self, index: int, probability: float | None) -> float:
        if probability is not None:
            return checks.probability("probability", probability)
        return float(self._core.probabilities[index])

    def to_json(self) -> str:
        """Return the whole learner as JSON; `from_json` reads it back."""
        try:
            return json.dumps(self._snapshot(), indent=2, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the parameters of a saved policy must be strings, finite numbers, True, False or None, but got "
                f"{self._core.policy!r}: {error}"
            ) from None

    def _snapshot(self) -> dict[str, Any]:
        with self._lock:
            return self._core.snapshot()

    @classmethod
    def from_json(cls, text: str, *, policy: Policy | None = None) -> Learner:
        """Return the learner that `to_json` wrote; it continues as if it had never stopped.

        Parameters
        ----------
        text
            What `to_json` returned.
        policy
            The policy, if it is not registered. It must have the parameters that were saved. Reading a text never
            imports a module.
        """
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a umab.Policy, but got policy={policy!r}")
        saved = read_text(text)
        learner = cls.__new__(cls)
        learner._begin(Core.from_snapshot(saved, policy))
        return learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file. At every moment the file is complete: the old one or the new one."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Policy | None = None) -> Learner:
        """Return the learner that `save` wrote to a file; `policy` as for `from_json`."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"), policy=policy)
        except ValueError as error:
            raise ValueError(f"cannot load {os.fspath(path)!r}: {error}") from None

    def __getstate__(self) -> tuple[dict[str, Any], Policy]:
        """Return a snapshot and the policy, which need not be registered."""
        return self._snapshot(), self._core.policy

    def __setstate__(self, state: tuple[dict[str, Any], Policy]) -> None:
        """Continue from a snapshot, so that a copy shares nothing with the original."""
        self._begin(Core.from_snapshot(*state))

    def _repr_html_(self) -> str:
        """Return the probabilities and the counters as a table, for notebooks."""
        return learner_html(self)

    def __repr__(self) -> str:
        """Name the policy and the arms."""
        maximize = ", maximize=True" if self._maximize else ""
        return f"Learner({self._core.policy.name!r}, arms={list(self._core.labels)!r}{maximize})"
