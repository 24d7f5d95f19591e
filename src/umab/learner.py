"""Learner: one decision at a time, for as long as the program lives and beyond."""

from __future__ import annotations

import collections
import contextlib
import datetime
import hashlib
import json
import math
import numbers
import os
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from umab import checks
from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.registry import as_policy, described, from_description
from umab.counters import Counter, Tally
from umab.display import learner_html
from umab.eligible import draw_among
from umab.engine.compiled import online_kernels
from umab.engine.layout import Buffer, blank_ticket, check_distribution, layout_of
from umab.engine.streams import stream
from umab.files import write_atomically
from umab.saved import FORMAT, VERSION, check_version, migrated

Label = str | int | float

_UNIFORMS_AT_ONCE = 256

_QUIET = 1000
"""Calls of `select` without any feedback after which a warning is due."""

_SURE = 0.999
"""The probability of an arm above which a warning is due: the others are tried once in a thousand rounds."""


class LearnerWarning(UserWarning):
    """Something about how a learner is used, or where it has come to, that its owner may want to know."""


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


_new = tuple.__new__

_Open = tuple[Choice, int | None, int | None, float, Buffer | None, float]
"""A choice whose loss has not come yet: where its arm is now, the arm that the policy will hear of, as `umab.eligible`
says, and with which probability, each None if the arm is gone; its ticket, if the policy has tickets; and when it was
drawn, in seconds since 1970. It is a plain tuple because one is made in every round."""


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
    maximize
        Whether larger is better: `update` and `expire` then take ``reward=`` in place of ``loss=``. A reward is a loss
        with its sign flipped, here and nowhere else.

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

    def __init__(
        self, policy: Policy | str, arms: int | Sequence[Label], *, seed: int | None = None, maximize: bool = False
    ) -> None:
        if seed is not None:
            seed = checks.whole("seed", seed, least=0)
        self._set_up(policy, _labels(arms), maximize)
        self._random = stream(seed, trial=0)
        self._start_from(self._layout.start(self._policy, len(self._labels)))
        self._open: dict[int, _Open] = {}
        self._tallies = [Tally() for _ in self._labels]
        # Learners count from different numbers, so that the choice of one is not taken for that of another.
        origin = repr((self._random.state, self._policy.name, self._labels)).encode()
        self._first_id = int.from_bytes(hashlib.sha256(origin).digest()[:2]) * 2**32
        self._next_id = self._first_id
        self._refill()

    def _set_up(self, policy: Policy | str, labels: tuple[Label, ...], maximize: bool) -> None:
        """Set all that does not change with the rounds."""
        policy = as_policy(policy)
        if policy.full_information:
            raise ValueError(
                f"a learner sees one loss per round, but {policy.name} needs those of all arms; use simulate"
            )
        if policy.needs_horizon:
            raise ValueError(f"{policy.name} must know the horizon before it starts; {policy.horizon_advice}")
        if not isinstance(maximize, bool):
            raise TypeError(f"maximize must be True or False, but got maximize={maximize!r}")
        self._policy = policy
        self._maximize = maximize
        self._labels, self._index = labels, _indices(labels)
        self._lowest, self._highest = policy.loss_range
        self._layout = layout_of(policy)
        self._select, self._update = online_kernels(policy)
        self._blank_ticket = None if self._layout.ticket is None else self._blank
        self._lock = threading.RLock()  # a signal handler may save a learner that is in the middle of a call
        self._n_quiet = 0  # calls of select since the last feedback
        self._may_warn_of_certainty = True
        self._may_warn_of_labels = True

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._policy

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self._labels

    @property
    def maximize(self) -> bool:
        """Whether feedback is a reward, of which more is better."""
        return self._maximize

    @property
    def outstanding(self) -> tuple[Choice, ...]:
        """The choices whose loss has not come yet, oldest first."""
        with self._lock:
            return tuple(choice for choice, *_ in self._open.values())

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Return the distribution from which the next arm is drawn, in the order of `arms`."""
        with self._lock:
            return self._probabilities.copy()

    def counters(self) -> dict[Label, Counter]:
        """Return what was counted of each arm: draws, feedback, open choices, and the losses or rewards in short.

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
            n_open = collections.Counter(arm for _, arm, *_ in self._open.values())
            return {
                label: self._tallies[index].counter(n_open[index], float(self._probabilities[index]))
                for label, index in self._index.items()
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
            How many choices to make at once, from the same distribution and independently, so that an arm may come
            more than once; they are returned as a list.
        among
            The arms that may be drawn this time, if not all may. The probability of the choice is that of what was
            really drawn. docs/arms.md says what becomes of a guarantee.
        """
        with self._lock:
            eligible = None if among is None else self._eligible(among)
            n_choices = 1 if k is None else checks.whole("k", k, least=1)
            self._n_quiet += 1
            if self._n_quiet == _QUIET:
                self._warn_of_silence()
            if len(self._uniforms) < 2:  # now and then, also where every draw takes two
                self._warn_of_certainty()
            if k is None:
                return self._draw(eligible)
            return [self._draw(eligible) for _ in range(n_choices)]

    def _draw(self, eligible: npt.NDArray[np.bool_] | None) -> Choice:
        if not self._uniforms:
            self._refill()
        uniform = self._uniforms.pop()
        ticket = None
        if eligible is None:
            if self._blank_ticket is None:
                index, probability = self._select(self._buffer, len(self._labels), uniform, -1)
            else:
                ticket = self._blank_ticket()
                index, probability = self._select(self._buffer, len(self._labels), uniform, -1, ticket)
            account, account_probability = index, probability
        else:
            if not self._uniforms:
                self._refill()
            uniforms = uniform, self._uniforms.pop()
            index, probability, account, account_probability = draw_among(self._probabilities, eligible, uniforms)
            if self._blank_ticket is not None:
                ticket = self._blank_ticket()
            # The policy notes the arm that it will hear of.
            self._select(self._buffer, len(self._labels), 0.0, account, *(() if ticket is None else (ticket,)))
        identity = self._next_id
        # As Choice(...), without the call of a function in Python: one is made in every round.
        choice = _new(Choice, (self._labels[index], index, probability, identity))
        self._open[identity] = (choice, index, account, account_probability, ticket, time.time())
        self._next_id = identity + 1
        self._tallies[index].selected += 1
        return choice

    def _warn_of_silence(self) -> None:
        _warn(
            f"no feedback has come for {_QUIET} calls of select, and {len(self._open)} choices are open; without "
            "feedback nothing is learned, and for what never comes there is learner.expire"
        )

    def _warn_of_certainty(self) -> None:
        likeliest = int(self._probabilities.argmax())
        probability = self._probabilities[likeliest]
        # The probability of an only arm, or while a policy plays each arm first, is no outcome of learning.
        learned = len(self._labels) > 1 and self._probabilities.min() > 0.0
        if self._may_warn_of_certainty and learned and probability > _SURE:
            self._may_warn_of_certainty = False
            _warn(
                f"the draw has become almost deterministic: arm={self._labels[likeliest]!r} has probability "
                f"{probability:.6f}; if another arm becomes better, that will be noticed late"
            )

    def _warn_of_labels(self, index: int) -> None:
        if any(where == index for _, where, *_ in self._open.values()):
            self._may_warn_of_labels = False
            _warn(
                f"update got arm={self._labels[index]!r}, of which a choice is open; pass what select returned, not "
                "its arm: else the choice stays open for ever, and the probability of its draw is not used"
            )

    def _eligible(self, among: Iterable[Label]) -> npt.NDArray[np.bool_] | None:
        """Return which arms may be drawn, or None if all may."""
        if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a collection of labels, but got among={among!r}")
        indices = {self._index_of(label) for label in among}
        if not indices:
            raise ValueError("among must have at least one arm, but got none")
        if len(indices) == len(self._labels):
            return None
        eligible = np.zeros(len(self._labels), dtype=np.bool_)
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
        """Take in what a choice has cost.

        Parameters
        ----------
        choice
            What `select` returned, at any later time and in any order, also as the list that JSON makes of it; or the
            label of an arm that was chosen without `select`: to the policy that is a select and an update. After a
            `select` pass the choice, not its arm: only the choice knows with which probability it was drawn.
        loss
            Any finite number, in any unit; lower is better.
        reward
            In place of the loss, if the learner maximises; higher is better.
        probability
            With a label only: the probability with which the arm was chosen, if it was not the current one.
        """
        if type(loss) is float and reward is None and not self._maximize:  # as `_feedback`, without the call
            value = loss
        else:
            value, loss = self._feedback(loss, reward)
        with self._lock:
            if isinstance(choice, (tuple, list)):
                known = self._known(choice, probability)
                index = known[1]
                if not self._lowest <= loss <= self._highest:
                    raise self._refusal(loss, choice[0], reward)
                self._close(known, loss)
            else:
                index = self._index_of(choice)
                propensity = self._propensity(index, probability)
                if not self._lowest <= loss <= self._highest:
                    raise self._refusal(loss, choice, reward)
                if self._may_warn_of_labels and probability is None and self._open:
                    self._warn_of_labels(index)
                ticket = () if self._blank_ticket is None else (self._blank_ticket(),)
                self._update(self._buffer, len(self._labels), index, loss, propensity, True, *ticket)
            if index is not None:
                self._tallies[index].take_in(value)
            self._n_quiet = 0

    def _feedback(self, loss: float | None, reward: float | None) -> tuple[float, float]:
        """Return what was said, and the loss that it is. The only place where a reward becomes a loss."""
        if self._maximize:
            if loss is not None or reward is None:
                raise TypeError(
                    f"reward must be given, and no loss, to a learner that maximises, but got {loss=!r}, {reward=!r}"
                )
            value = checks.real("reward", reward)
            return value, 0.0 - value  # not -value: a reward of 0 is a loss of 0, and not of -0
        if reward is not None or loss is None:
            raise TypeError(
                f"loss must be given, or reward to a learner with maximize=True, but got {loss=!r}, {reward=!r}"
            )
        value = checks.real("loss", loss)
        return value, value

    def _refusal(self, loss: float, arm: Any, reward: float | None) -> ValueError:
        """Return why the policy does not take this loss."""
        flipped = "" if reward is None else f"{reward=!r} is a loss of {loss!r}: "
        return ValueError(f"{flipped}{self._policy.refusal(loss, f'arm={arm!r}')}")

    def _close(self, known: _Open, loss: float | None) -> None:
        choice, _, account, probability, ticket, _ = known
        n_arms = len(self._labels)
        # Closing the choice and taking in its loss are next to each other, without a call between them after which
        # Python looks for signals, so that Ctrl-C finds both done or none.
        del self._open[choice.id]
        if account is not None and loss is not None:
            if ticket is None:
                self._update(self._buffer, n_arms, account, loss, probability, False)
            else:
                self._update(self._buffer, n_arms, account, loss, probability, False, ticket)

    def forget(self, choice: Choice) -> None:
        """Close a choice whose feedback will never be known, and learn nothing from it.

        A failure is better reported as a loss: an arm whose failures are forgotten looks good.
        """
        with self._lock:
            self._close(self._known(choice, None), None)

    def expire(
        self,
        after: int | datetime.timedelta,
        *,
        loss: float | None = None,
        reward: float | None = None,
        forget: bool = False,
    ) -> list[Choice]:
        """Close the choices whose feedback has not come in time, and return them.

        Parameters
        ----------
        after
            Which choices those are: an int for choices after which at least that many others were made, which is not a
            number of seconds; or a timedelta for choices that were made at least that long ago, by the clock of the
            system.
        loss
            What each of them is taken to have cost.
        reward
            In place of the loss, if the learner maximises.
        forget
            In place of both: close them without learning from them. An arm that does not answer because it is bad then
            looks better than it is.

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
            raise TypeError(f"with forget=True no feedback must be given, but got {loss=!r}, {reward=!r}")
        assumed = None if forget else self._feedback(loss, reward)[1]
        with self._lock:
            if assumed is not None and not self._lowest <= assumed <= self._highest:
                raise self._refusal(assumed, "any", reward)
            if isinstance(after, datetime.timedelta):
                if after < datetime.timedelta():
                    raise ValueError(f"after must be at least 0, but got {after=!r}")
                latest = time.time() - after.total_seconds()
                expired = [each for each in self._open.values() if each[-1] <= latest]
            else:
                try:
                    n_later = checks.whole("after", after, least=0)
                except TypeError as error:
                    raise TypeError(f"{error}; it counts choices, and a time is a datetime.timedelta") from None
                last_id = self._next_id - 1 - n_later
                expired = [each for each in self._open.values() if each[0].id <= last_id]
            for each in expired:
                self._close(each, assumed)
                _, index, *_ = each
                if index is not None:
                    self._tallies[index].expired += 1
            return [choice for choice, *_ in expired]

    def add_arm(self, arm: Label) -> None:
        """Add an arm, the last one in order. It starts with a fair share of the draws, one in n.

        What is known of the others is kept, and they share the rest in proportion. docs/arms.md says what becomes of a
        guarantee.
        """
        with self._lock:
            self._change_arms([*range(len(self._labels)), None], _labels([*self._labels, arm]))

    def remove_arm(self, arm: Label) -> None:
        """Remove an arm; the others share its probability in proportion, and keep what is known of them.

        Those behind it move up by one. Feedback that still comes for its open choices is taken, and teaches nothing of
        it; what an arm that was away was to learn from it, it still learns.
        """
        with self._lock:
            gone = self._index_of(arm)
            if len(self._labels) == 1:
                raise ValueError(f"a learner must keep at least one arm, but {arm!r} is its last")
            kept = [index for index in range(len(self._labels)) if index != gone]
            self._change_arms(kept, tuple(self._labels[index] for index in kept))

    def _change_arms(self, arms: Sequence[int | None], labels: tuple[Label, ...]) -> None:
        """Go on with other arms: each is one of those before, by its index there, or a new one, None."""
        state = self._policy.resized(self._layout.unpack(self._buffer), arms)
        buffer = self._layout.sized(self._layout.pack(self._policy.parameters_for(len(arms)), state), len(arms))
        probabilities = self._layout.probabilities(buffer)
        check_distribution(self._policy, probabilities)
        moved: dict[int | None, int] = {before: now for now, before in enumerate(arms) if before is not None}
        still_open = self._open
        if len(moved) < len(self._labels) or self._layout.ticket:  # an arm is gone, and those behind it have moved up
            still_open = {
                choice.id: (choice, moved.get(index), moved.get(account), chance, self._resized(ticket, arms), drawn_at)
                for choice, index, account, chance, ticket, drawn_at in self._open.values()
            }
        # All at once: between two statements a signal may come, and then nothing must be of the old arms and something
        # of the new ones. Compiled code trusts the number of arms, and what a signal handler saves must load again.
        vars(self).update(
            _buffer=buffer,
            _probabilities=probabilities,
            _labels=labels,
            _index=_indices(labels),
            _tallies=[Tally() if before is None else self._tallies[before] for before in arms],
            _open=still_open,
        )

    def _resized(self, ticket: Buffer | None, arms: Sequence[int | None]) -> Buffer | None:
        """Return a ticket for other arms."""
        record = self._layout.ticket
        if record is None or ticket is None:
            return None
        resized = record.pack(self._policy.resized_ticket(record.unpack(ticket), arms))
        if len(resized) != record.size(len(arms)):
            raise ValueError(f"a ticket must be one for {len(arms)} arms, but that of {self._policy.name} is not")
        return resized

    def _known(self, choice: Sequence[Any], probability: float | None) -> _Open:
        """Return the outstanding choice that `choice` is."""
        if len(choice) != 4:
            raise ValueError(f"a choice must have four values (arm, index, probability, id), but got {choice!r}")
        if probability is not None:
            raise ValueError(
                f"probability must be left out with a Choice, which carries its own, but got {probability=!r}"
            )
        identity = choice[3]
        number = identity if type(identity) is int else _whole_or(identity, -1)
        known = self._open.get(number)
        if known is None:
            used = self._first_id <= number < self._next_id
            why = "it was used before, or has expired" if used else "this learner has not made it"
            raise ValueError(f"a choice must be one whose loss is outstanding, but for id={identity!r} {why}")
        if tuple(choice) != known[0]:
            raise ValueError(f"a choice must come back unchanged, but got {tuple(choice)!r} for {tuple(known[0])!r}")
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

    def _blank(self) -> Buffer:
        """Return a ticket to be filled in."""
        return blank_ticket(self._policy, self._layout, len(self._labels))

    def _refill(self) -> None:
        """Draw uniform numbers in advance; one at a time costs more than the rest of a selection."""
        before = self._random.state
        uniforms = np.random.Generator(self._random).random(_UNIFORMS_AT_ONCE).tolist()[::-1]
        self._random_before, self._uniforms = before, uniforms  # together: a signal handler may save a learner

    def to_json(self) -> str:
        """Return all there is to know about the learner as JSON; `from_json` takes it from there."""
        try:
            return json.dumps(self._snapshot(), indent=2, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the parameters of a saved policy must be texts, finite numbers, true, false or None, but got "
                f"{self._policy!r}: {error}"
            ) from None

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
                "policy": described(self._policy),
                "arms": list(self._labels),
                "maximize": self._maximize,
                "state": self._layout.fields(self._buffer),
                "random": _plain(random.state),
                "first_id": self._first_id,
                "next_id": self._next_id,
                "outstanding": [
                    [*choice, *accounts, self._saved_ticket(ticket), drawn_at]
                    for choice, *accounts, ticket, drawn_at in self._open.values()
                ],
                "counters": [each.saved() for each in self._tallies],
            }

    def _saved_ticket(self, ticket: Buffer | None) -> dict[str, Any] | None:
        record = self._layout.ticket
        return None if record is None or ticket is None else record.fields(ticket)

    @classmethod
    def from_json(cls, text: str, *, policy: Policy | None = None) -> Learner:
        """Return the learner of which `to_json` made `text`; it goes on as if it had never stopped.

        Parameters
        ----------
        text
            What `to_json` returned.
        policy
            The policy, if it is not a registered one. It must have the parameters that were saved. A text never makes
            this program import a module.
        """
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a umab.Policy, but got policy={policy!r}")
        try:
            saved = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a saved learner must be complete JSON, but {error}") from None
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise ValueError(f"a saved learner must be JSON with format={FORMAT!r}, but got {text[:60]!r}")
        learner = cls.__new__(cls)
        learner._restore(saved, policy)
        return learner

    def _restore(self, saved: dict[str, Any], policy: Policy | None) -> None:
        check_version(saved.get("version"))
        try:
            saved = migrated(saved)
            chosen = _saved_policy(saved["policy"], policy)
            if not isinstance(saved["arms"], list):
                raise TypeError(f"arms must be a list of labels, but got {saved['arms']!r}")
            self._set_up(chosen, _labels(saved["arms"]), saved["maximize"])
            state, record = saved["state"], self._layout.state
            if set(state) != set(record.names):
                raise ValueError(f"state has {sorted(state)}")
            if any(len(state[name]) != len(self._labels) for name in (*record.vectors, *record.rows)):
                raise ValueError("a vector of the state does not have one number for each arm")
            n_arms = len(self._labels)
            self._start_from(self._layout.sized(self._layout.pack_fields(chosen.parameters_for(n_arms), state), n_arms))
            if not np.isfinite(self._buffer).all():
                raise ValueError("the state holds a value that is not finite")
            check_distribution(self._policy, self._probabilities)
            self._random = np.random.PCG64()
            self._random.state = saved["random"]
            self._first_id = checks.whole("first_id", saved["first_id"], least=0)
            self._next_id = checks.whole("next_id", saved["next_id"], least=self._first_id)
            self._open = {}
            for each in saved["outstanding"]:
                checked = self._checked_open(each)
                self._open[checked[0].id] = checked
            self._tallies = [Tally.of(each) for each in saved["counters"]]
            if len(self._tallies) != len(self._labels):
                raise ValueError(f"there are {len(self._tallies)} counters for {len(self._labels)} arms")
        except KeyError as error:
            raise ValueError(f"a saved learner must be complete, but {error} is missing") from None
        except (TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as error:
            raise ValueError(f"a saved learner must be as it was written, but {error}") from None
        self._refill()

    def _checked_open(self, saved: Sequence[Any]) -> _Open:
        """Return an open choice from its saved form. Compiled code trusts the index of an account: it must be right."""
        label, index, probability, identity, arm, account, account_probability, ticket, drawn_at = saved
        (label,) = _labels([label])
        arm, account = self._checked_index("arm", arm), self._checked_index("account", account)
        identity = checks.whole("id", identity, least=self._first_id, most=self._next_id - 1)
        if identity in self._open or (arm is not None and self._labels[arm] != label):
            raise ValueError(f"the open choice {list(saved)!r} cannot be")
        choice = Choice(
            label, checks.whole("index", index, least=0), checks.probability("probability", probability), identity
        )
        account_probability = checks.probability("account_probability", account_probability)
        drawn_at = checks.finite("drawn_at", drawn_at)
        return choice, arm, account, account_probability, self._checked_ticket(ticket), drawn_at

    def _checked_ticket(self, fields: Any) -> Buffer | None:
        """Return a ticket from its saved form."""
        record = self._layout.ticket
        if (record is None) != (fields is None) or (record is not None and set(fields) != set(record.names)):
            raise ValueError(f"the ticket {fields!r} cannot be")
        if record is None:
            return None
        ticket = record.pack_fields(fields)
        if len(ticket) != record.size(len(self._labels)) or not np.isfinite(ticket).all():
            raise ValueError(f"the ticket {fields!r} cannot be")
        return ticket

    def _checked_index(self, name: str, index: Any) -> int | None:
        return None if index is None else checks.whole(name, index, least=0, most=len(self._labels) - 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file; at every moment the file is the old one or the new one, whole."""
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
        return self._snapshot(), self._policy

    def __setstate__(self, state: tuple[dict[str, Any], Policy]) -> None:
        """Go on from a snapshot; so a copy shares nothing with the original."""
        self._restore(*state)

    def _repr_html_(self) -> str:
        """Return the probabilities and the counters as a table, for notebooks."""
        return learner_html(self)

    def __repr__(self) -> str:
        """Say which policy and which arms."""
        maximize = ", maximize=True" if self._maximize else ""
        return f"Learner({self._policy.name!r}, arms={list(self._labels)!r}{maximize})"


def _labels(arms: Any) -> tuple[Label, ...]:
    """Return the labels of the arms, checked."""
    if isinstance(arms, (str, bytes, Mapping, Set)) or not (hasattr(arms, "__iter__") or hasattr(arms, "__index__")):
        hint = "; a list of them has an order" if isinstance(arms, (Mapping, Set)) else ""
        raise TypeError(f"arms must be a number or a sequence of labels, but got arms={arms!r}{hint}")
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


def _indices(labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return where each arm is."""
    return {label: index for index, label in enumerate(labels)}


def _saved_policy(about: Any, given: Policy | None) -> Policy:
    """Return the policy that was saved: a registered one, or the one that is given if its parameters are the same."""
    if given is None:
        try:
            return from_description(about)
        except ValueError as error:
            raise ValueError(
                f"{error}; a policy that is not registered is passed on: Learner.load(path, policy=...)"
            ) from None
    with contextlib.suppress(ValueError):  # it need not be registered
        if type(from_description(about)) is not type(given):
            raise TypeError(f"policy must be the one that was saved, {about!r}, but got policy={given!r}")
    saved, passed = _all_parameters(about), _all_parameters(described(given))
    # Before version 3 the parameters of an unregistered policy were not saved.
    if len(saved) != len(passed) or any(a != b for a, b in zip(saved, passed, strict=True) if a is not None):
        raise ValueError(f"policy must be the one that was saved, {about!r}, but got policy={given!r}")
    return given


def _all_parameters(about: Any) -> list[Any]:
    """Return the parameters in the description of a policy, and those of the policies inside."""
    inner = about.get("inner")
    parameters = about["parameters"]
    as_saved = None if parameters is None else json.loads(json.dumps(parameters, default=repr))
    return [as_saved, *([] if inner is None else _all_parameters(inner))]


def _warn(message: str) -> None:
    warnings.warn(message, LearnerWarning, stacklevel=4)  # the line that called `select` or `update`


def _whole_or(value: Any, otherwise: int) -> int:
    return int(value) if isinstance(value, numbers.Integral) else otherwise


def _plain(value: Any) -> Any:
    """Return a nested dict with plain numbers in place of NumPy's."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
