"""Learner: one decision at a time, for as long as the program lives and beyond."""

from __future__ import annotations

import collections
import datetime
import functools
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._support.display import learner_html
from umab._support.files import write_atomically
from umab.algorithms.base import Change, Pause, Policy
from umab.algorithms.names import as_policy
from umab.errors import ForeignChoiceError
from umab.online import advised, forks
from umab.online.advised import AdvisedCore, start
from umab.online.arguments import Clock, clock_of, seed_of
from umab.online.choice import Choice, Draw, L, Label, checked_draw, labels_of
from umab.online.core import CheckedAdvice, Core
from umab.online.counters import Counter
from umab.online.feedback import as_loss, both_shown, refusal
from umab.online.guarded import Guarded, changing, nested
from umab.online.hints import QUIET, Hints
from umab.online.logs import Row, learnable, rows_of
from umab.online.logs import foreign as foreign_choice
from umab.online.metrics import as_text
from umab.online.saved import SavedLearner, read_file, read_text


class Learner(Guarded, Generic[L]):
    """Choose among arms, learn what each choice cost, and choose better.

    Parameters
    ----------
    policy
        A policy, or the name of one, as `umab.policy` accepts it.
    arms
        The number of arms, or their labels: strings or numbers, all different. They must be given.
    experts
        The names of those who give advice in every round, or their number, for a policy over experts such as
        ``"umab-e"``.
    seed
        A whole number, at least 0, makes the draws repeatable: they are the same as in trial 0 of `umab.simulate` with
        the same seed. None takes fresh randomness from the system.
    maximize
        Whether larger is better. If so, `update` and `expire` take ``reward=`` in place of ``loss=``. A reward is a
        loss with its sign flipped; the learner flips it.
    clock
        A function that returns the time in seconds, for the ages of open choices; by default the system clock.

    Notes
    -----
    Threads may share a learner: every call is atomic. After a fork, the learner of the child has its own ids, no open
    choices, and fresh randomness unless a seed was given. A copy made with `copy`, `pickle` or `to_json` is independent
    of the original from then on, and has the same draws to come; `load` with ``fresh=True`` makes one that does not.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABGA(), arms=["small", "large", "remote"], seed=7)
    >>> choice = learner.select()
    >>> choice.arm, choice.probability
    ('remote', 0.3333333333333333)
    >>> learner.update(choice, loss=312.5)
    """

    @overload
    def __init__(
        self: Learner[int],
        policy: Policy | str,
        arms: int,
        *,
        experts: int | Sequence[Label] | None = ...,
        seed: int | None = ...,
        maximize: bool = ...,
        clock: Clock = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        policy: Policy | str,
        arms: Sequence[L],
        *,
        experts: int | Sequence[Label] | None = ...,
        seed: int | None = ...,
        maximize: bool = ...,
        clock: Clock = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: Learner[Any],
        policy: Policy | str,
        arms: Sequence[Label],
        *,
        experts: int | Sequence[Label] | None = ...,
        seed: int | None = ...,
        maximize: bool = ...,
        clock: Clock = ...,
    ) -> None: ...

    def __init__(
        self,
        policy: Policy | str,
        arms: int | Sequence[L] | Sequence[Label] | None = None,
        *,
        experts: int | Sequence[Label] | None = None,
        seed: int | None = None,
        maximize: bool = False,
        clock: Clock = time.time,
    ) -> None:
        # Without a default for the arms, Learner(["a", "b"]) would miss them, when what it lacks is the policy.
        which = as_policy(policy, "umab.Learner(umab.recommended(), {})")
        self._begin(start(which, labels_of(arms), maximize, seed_of(seed), clock_of(clock), experts))

    def _begin(self, core: Core) -> None:
        self._core = core
        self._maximize = core.maximize
        self._lowest, self._highest = core.policy.loss_range
        self._guard()
        self._n_quiet = 0  # calls of select since the last feedback
        self._hints = Hints()
        forks.watch(self)

    def _after_fork(self) -> bool:
        """Become a learner of its own, in the child; return whether it draws as the parent's does, as seeds ask for."""
        self._guard()
        self._core.part(None, keep_numbers=self._core.seeded)
        return self._core.seeded

    def warm_up(self) -> None:
        """Compile now what a later call would otherwise compile, such as the first one with `among`.

        The compiler takes seconds for a policy that is not in its cache on disk. Most is compiled when a learner is
        made; after this call, no other call of this learner waits for the compiler. Nothing about the learner changes.
        """
        self._core.warm_up()

    @overload
    def select(self, *, among: Iterable[L] | None = None, advice: object = None) -> Choice[L]: ...

    @overload
    def select(self, k: int, *, among: Iterable[L] | None = None, advice: object = None) -> list[Choice[L]]: ...

    def select(
        self, k: int | None = None, *, among: Iterable[L] | None = None, advice: object = None
    ) -> Choice[L] | list[Choice[L]]:
        """Draw an arm. Selecting again before the loss is known is fine.

        Parameters
        ----------
        k
            How many choices to make at once; they are returned as a list. They are drawn independently from the same
            distribution, so an arm may appear more than once.
        among
            The arms that are eligible this time; None means all. The choice carries the probability of the draw that
            was actually made. docs/arms.md says what happens to a guarantee.
        advice
            For a policy over experts: what they advise this time. A dict from experts to their advice, in which those
            who abstain are missing or None; or a list with an entry for each expert. The advice of an expert is the
            label of an arm, a list with a probability for each arm, or a dict from labels to probabilities. Fastest is
            an array: experts × arms of float64, where a row of nan says that an expert abstains; or the index of an arm
            for each expert, as whole numbers, −1 for one who abstains.
        """
        with self._lock:  # as `changing`, without the cost of its call
            if self._busy:
                raise nested()
            self._busy = True
            try:
                eligible = None if among is None else self._eligible(among)
                n_choices = 1 if k is None else checks.whole("k", k, least=1)
                self._n_quiet += 1
                core = self._core
                if self._n_quiet == QUIET:
                    self._hints.on_silence(len(core.open))
                # Now and then, even if every draw takes two numbers.
                if len(core.uniforms.waiting) < 2 and not core.policy.takes_advice:
                    self._hints.on_certainty(core.labels, core.probabilities)
                given = None if advice is None and not core.experts else self._advised(advice, among)
                if k is None:
                    return core.draw(eligible, given)
                return [core.draw(eligible, given) for _ in range(n_choices)]
            finally:
                self._busy = False

    def _advised(self, advice: object, among: Iterable[L] | None) -> CheckedAdvice:
        """Return advice, checked."""
        core = self._core
        if not isinstance(core, AdvisedCore):
            raise ValueError(f"advice must be for a policy over experts, such as umab-e, but got {core.policy.name}")
        if among is not None:
            raise ValueError("among must not be given with advice: an arm that nobody advises is never drawn")
        if advice is None:
            raise ValueError(f"advice must be given in every round, by {list(core.experts)}, but got none")
        return core.array_of(advice)

    def _eligible(self, among: Iterable[L]) -> npt.NDArray[np.bool_] | None:
        """Return which arms are eligible, or None if all are."""
        if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a collection of labels, but got among={checks.shown(among)}")
        indices = {self._core.index_of(label) for label in among}
        if not indices:
            raise ValueError("among must have at least one arm, but got none")
        if len(indices) == len(self._core.labels):
            return None
        eligible = np.zeros(len(self._core.labels), dtype=np.bool_)
        eligible[list(indices)] = True
        return eligible

    def update(
        self,
        choice: Choice[L] | L,
        loss: float | None = None,
        *,
        reward: float | None = None,
        probability: float | None = None,
        foreign: Literal["refuse", "learn"] = "refuse",
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
        foreign
            What to do with a choice that another learner made: raise a `umab.errors.ForeignChoiceError`, or learn from
            it, once. Its probability is right, but this learner's state is not the one that it was drawn from: to the
            guarantee it is late feedback. A choice that was drawn with `among`, or by a policy that needs its tickets,
            is refused, because it does not hold all that is needed.
        """
        with self._lock:  # as `changing`, without the cost of its call
            if self._busy:
                raise nested()
            self._busy = True
            try:
                if type(loss) is float and reward is None and not self._maximize:  # as `as_loss`, without the call
                    value = loss
                else:
                    value, loss = as_loss(self._maximize, loss, reward)
                if foreign != "refuse":
                    checks.one_of("foreign", foreign, ("refuse", "learn"))
                core = self._core
                index: int | None
                if isinstance(choice, (tuple, list)):
                    if probability is not None:
                        raise ValueError(
                            "probability must not be given with a Choice, which has its own, but got "
                            f"probability={checks.shown(probability)}"
                        )
                    try:
                        known = core.open.get(choice[3]) if type(choice) is Choice else None
                        if known is None or known[0] is not choice:  # else it is known, and need not be compared
                            known = core.known(choice)
                    except TypeError:  # the id is a list
                        known = core.known(choice)
                    except ForeignChoiceError:
                        if foreign == "refuse":
                            self._hints.foreign_feedback = True
                            raise
                        index, propensity = foreign_choice(core, choice)
                        self._check_range(loss, choice[0], reward)
                        core.learn_foreign(choice[3], index, loss, propensity)
                    else:
                        index = known[1]
                        if not self._lowest <= loss <= self._highest:
                            raise refusal(core.policy, loss, choice[0], reward)
                        core.close(known, loss)
                else:
                    index = self._core.index_of(choice)
                    propensity = self._propensity(index, probability)
                    self._check_range(loss, choice, reward)
                    if self._hints.may_warn_of_labels and probability is None and core.open:
                        self._hints.on_label(core.labels[index], index, core.open.values())
                    core.learn(index, loss, propensity)
                if index is not None:
                    core.tallies[index].take_in(value)
                self._n_quiet = 0
            finally:
                self._busy = False

    def _check_range(self, loss: float, arm: object, reward: float | None) -> None:
        if not self._lowest <= loss <= self._highest:
            raise refusal(self._core.policy, loss, arm, reward)

    def absorb(self, log: object) -> int:
        """Learn what other learners logged, in order, each choice once; return how many rows were learned.

        A row that was learned before is skipped. So is a row of a choice of this learner that is closed; one that is
        still open is closed by it. To the guarantee, all of this is late feedback. If a row is refused, nothing is
        learned.

        Parameters
        ----------
        log
            Pairs of a choice and its loss (or reward, if the learner maximizes), which are learned once for ever; or
            triples of arm, probability and loss, or a frame with these columns, which are learned at every call.

        Examples
        --------
        >>> import umab
        >>> ours, theirs = (umab.Learner("umab-g-a", arms=["a", "b"]) for _ in range(2))
        >>> log = [(theirs.select(), 3.5), (theirs.select(), 2.5)]
        >>> ours.absorb(log), ours.absorb(log)
        (2, 0)
        """
        # Before the lock: it may have to wait for them.
        return self._absorb(rows_of(log, "reward" if self._maximize else "loss"))

    @changing
    def _absorb(self, rows: list[Row]) -> int:
        core = self._core
        learned = learnable(core, rows)
        for event in learned:
            if event.known is not None:
                core.close(event.known, event.loss)
            elif event.index is not None and event.identity is not None:
                core.learn_foreign(event.identity, event.index, event.loss, event.probability)
            elif event.index is not None:
                core.learn(event.index, event.loss, event.probability)
            if event.index is not None:
                core.tallies[event.index].take_in(event.value)
            self._n_quiet = 0
        return len(learned)

    @changing
    def replay(self, draw: Draw[L] | Sequence[object]) -> Choice[L]:
        """Repeat a draw that was logged, and return its choice, which is open again.

        Repeat all calls in their order, and a learner comes to the state of the one that wrote the log, bit for bit:
        `replay` for each draw, and `update`, `forget`, `expire` and changes of arms as they were. It must start as that
        one did, with the same policy, arms and seed, or from a file. The first draw brings the ids with it.

        Examples
        --------
        >>> import umab
        >>> first, second = (umab.Learner("umab-g-a", arms=["a", "b"], seed=1) for _ in range(2))
        >>> choice = first.select()
        >>> again = second.replay(first.draw_of(choice))
        >>> first.update(choice, 2.5)
        >>> second.update(again, 2.5)
        >>> first.to_json() == second.to_json()
        True
        """
        draw = checked_draw(draw)
        choice = self._core.redraw(draw)
        self._n_quiet += 1
        return choice

    @changing
    def release(self, choice: Choice[L]) -> Draw[L]:
        """Let go of an open choice, and return its draw, with which `settle` can learn from it at any later time.

        The learner no longer knows the choice: it neither saves it nor lets it expire. It is up to you to settle the
        draw at most once.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("umab-w", arms=["a", "b"], seed=0)
        >>> draw = learner.release(learner.select())
        >>> learner.n_open
        0
        >>> learner.settle(draw, loss=2.5)
        """
        known = self._core.known(choice)
        draw = self._core.draw_of(known)
        self._core.let_go(known)
        self._n_quiet = 0  # the keeper of the draw knows whether its feedback is missing
        return draw

    @changing
    def settle(
        self, draw: Draw[L] | Sequence[object], loss: float | None = None, *, reward: float | None = None
    ) -> None:
        """Learn from the loss, or the reward, of a draw that this learner, or an earlier copy of it, has released.

        If its account's arm is gone, the policy learns nothing; if that arm was removed and added again, it learns.
        """
        draw = checked_draw(draw)
        value, loss = as_loss(self._maximize, loss, reward)
        core = self._core
        if not self._lowest <= loss <= self._highest:
            raise refusal(core.policy, loss, draw.arm, reward)
        index = core.index.get(draw.arm)
        core.settle(draw, index, loss)
        if index is not None:
            core.tallies[index].take_in(value)
        self._n_quiet = 0

    @changing
    def forget(self, choice: Choice[L] | Draw[L]) -> None:
        """Close a choice whose feedback will never be known, and learn nothing from it.

        A failure is better reported as a loss: an arm whose failures are forgotten looks good. A draw that was released
        may be forgotten too, at most once, and still be settled later. Policies that wait for losses are told.
        """
        if isinstance(choice, (tuple, list)) and len(choice) > len(Choice._fields):
            self._core.give_up(checked_draw(choice))
        else:
            self._core.close(self._core.known(choice), None)

    @changing
    def expire(
        self,
        after: int | datetime.timedelta,
        *,
        loss: float | None = None,
        reward: float | None = None,
        forget: bool = False,
    ) -> list[Choice[L]]:
        """Close the choices whose feedback has not arrived in time, and return them.

        Parameters
        ----------
        after
            How old a choice must be to expire. An int counts choices, not seconds: at least that many others were made
            after it. A timedelta is a time: the choice was made at least that long ago, by the learner's clock.
        loss
            The loss to assume for each of them. If feedback may have gone to another process, this punishes arms
            that are not to blame: forget the choices instead.
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
            raise TypeError(f"loss and reward must not be given with forget=True, but got {both_shown(loss, reward)}")
        assumed = None if forget else as_loss(self._maximize, loss, reward)[1]
        core = self._core
        if assumed is not None:
            self._check_range(assumed, "any", reward)
        if isinstance(after, datetime.timedelta):
            if after < datetime.timedelta():
                raise ValueError(f"after must be at least 0, but got after={checks.shown(after)}")
            latest = core.clock() - after.total_seconds()
            expired = [each for each in core.open.values() if each[5] <= latest]
        else:
            try:
                n_later = checks.whole("after", after, least=0)
            except TypeError as error:
                raise TypeError(f"{error}; it counts choices; for a time, pass a datetime.timedelta") from None
            expired = [each for each in core.open.values() if each[6] < core.n_drawn - n_later]
        if expired and assumed is not None:
            self._hints.on_expiry(len(expired))
            self._hints.on_changes(core.tallies, self.changes)
        for each in expired:
            core.close(each, assumed)
            if each[1] is not None:
                core.tallies[each[1]].expired += 1
        return [choice for choice, *_ in expired]

    @changing
    def set_arms(self, arms: Sequence[L]) -> None:
        """Continue with these arms, in this order: one change for any difference.

        Arms that are not among them are removed first; then the new ones are added. A new arm starts with a fair share
        of the draws, one in n. The arms that stay share the rest in proportion, and keep what was learned about them.
        If none stays, the policy keeps its scale and its rates. docs/arms.md says what happens to a guarantee.
        """
        if not isinstance(arms, Iterable):
            raise TypeError(f"arms must be a sequence of labels, but got arms={checks.shown(arms)}")
        self._core.change_arms(labels_of(arms))

    @changing
    def add_arm(self, arm: L) -> None:
        """Add an arm as the last one. It starts with a fair share of the draws, one in n.

        Changes of arms without a draw, feedback or a save between them act as one, so their order does not matter: see
        `set_arms`.
        """
        self._core.change_arms(labels_of([*self._core.labels, arm]))

    @changing
    def remove_arm(self, arm: L) -> None:
        """Remove an arm. The others share its probability in proportion, and keep what was learned about them.

        The arms after it move up by one. Feedback for its open choices is still accepted, and teaches nothing about it.
        If that feedback was to count for an arm that was away at the draw (docs/arms.md), it still does.
        """
        self._core.index_of(arm)
        if len(self._core.labels) == 1:
            raise ValueError(f"a learner must keep at least one arm, but {arm!r} is its last")
        self._core.change_arms(tuple(label for label in self._core.labels if label != arm))

    def _propensity(self, index: int, probability: float | None) -> float:
        if probability is not None:
            return checks.probability("probability", probability)
        return float(self._core.probabilities[index])

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._core.policy

    @property
    def arms(self) -> tuple[L, ...]:
        """The labels of the arms."""
        return self._core.labels

    @property
    def experts(self) -> tuple[Label, ...]:
        """The names of the experts; empty for a policy without them."""
        return self._core.experts

    def weights(self) -> dict[Label, float]:
        """Return how much each expert counts now; the weights sum to 1. Empty for a policy without experts.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("umab-e", arms=["a", "b"], experts=["good", "bad"], seed=0)
        >>> for _ in range(100):
        ...     choice = learner.select(advice={"good": "a", "bad": "b"})
        ...     learner.update(choice, 1.0 if choice.arm == "a" else 2.0)
        >>> learner.weights()["good"] > 0.9
        True
        """
        with self._lock:
            core = self._core
            if not core.policy.takes_advice:
                return {}
            return dict(zip(self.experts, core.layout.fields(core.buffer)["weights"], strict=True))

    @property
    def maximize(self) -> bool:
        """Whether feedback is a reward, where higher is better."""
        return self._core.maximize

    @property
    def outstanding(self) -> tuple[Choice[L], ...]:
        """The open choices, whose losses have not arrived yet, oldest first."""
        with self._lock:
            return tuple(choice for choice, *_ in self._core.open.values())

    @property
    def n_open(self) -> int:
        """The number of open choices."""
        return len(self._core.open)

    def is_open(self, choice: Choice[L]) -> bool:
        """Return whether a choice is one of this learner's open choices, unchanged; takes constant time."""
        with self._lock:
            try:
                known = self._core.open.get(choice[3])
                return known is not None and tuple(choice) == known[0]
            except (TypeError, IndexError, KeyError, ValueError):
                return False

    def draw_of(self, choice: Choice[L]) -> Draw[L]:
        """Return an open choice with all that it takes to repeat its draw: what to log for `replay`.

        Call it before the arms change.
        """
        with self._lock:
            return self._core.draw_of(self._core.known(choice))

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Return the distribution from which the next arm is drawn, in the order of `arms`.

        With experts, it is the one of the latest draw: the next one depends on their advice.
        """
        with self._lock:
            return self._core.probabilities.copy()

    def counters(self) -> dict[L, Counter]:
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

    def changes(self) -> list[Change[L]]:
        """Return the latest changes that the policy has noticed, oldest first, at most 16.

        Each has the number of losses learned when it was noticed, the arm whose losses showed it, and whether the fresh
        start was kept: True, False if it was undone because it led to the same arm, or None while it is on trial. The
        arm is None if it was removed. The list is empty for a policy that does not watch for changes, such as
        ``"centred(umab-s)"``.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner(umab.recommended(), arms=["a", "b"], seed=0)
        >>> for number in range(600):
        ...     choice = learner.select()
        ...     learner.update(choice, 1.0 if (choice.arm == "a") == (number < 300) else 2.0 + 0.01 * (number % 7))
        >>> learner.changes()
        [Change(round=307, arm='a', kept=True)]
        """
        with self._lock:
            core = self._core
            found = core.policy.changes(core.layout.unpack(core.buffer))
            arms = [None if each.arm is None else core.labels[each.arm] for each in found]
            return [Change(each.round, arm, each.kept) for each, arm in zip(found, arms, strict=True)]

    def pauses(self) -> list[Pause[L]]:
        """Return the arms that the policy leaves alone now because they seem to fail, except for probes.

        Each has the arm, the number of losses learned when its pause began, and after how many more losses of any arm
        it is probed next; `in_words` says so in words. A loss that comes earlier, as from a probe, may end the pause.
        The list is empty for a policy that pauses no arms.

        Examples
        --------
        >>> import umab
        >>> umab.Learner("centred(umab-s)", arms=["east", "west"]).pauses()
        []
        """
        with self._lock:
            core = self._core
            found = core.policy.pauses(core.layout.unpack(core.buffer))
            return [Pause(core.labels[each.arm], each.round, each.probe_in) for each in found]

    def metrics(self, labels: Mapping[str, str] | None = None) -> str:
        """Return the counters in the text format of Prometheus, with more labels such as ``{"service": "search"}``.

        `umab.adapters.prometheus` registers a learner with Prometheus' own library.
        """
        return as_text(self.counters(), labels or {}, self.maximize)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the whole learner as JSON; `from_json` reads it back.

        With ``indent=None`` it is on one line, which takes a third of the time and of the space.
        """
        try:
            return json.dumps(self._snapshot(), indent=indent, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the parameters of a saved policy must be strings, finite numbers, True, False or None, but got "
                f"{self._core.policy!r}: {error}"
            ) from None

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        policy: Policy | None = None,
        seed: int | None = None,
        fresh: bool = False,
        clock: Clock = time.time,
    ) -> Self:
        """Return the learner that `to_json` wrote; it continues as if it had never stopped.

        Parameters
        ----------
        text
            What `to_json` returned.
        policy
            The policy, if it is not registered. It must have the parameters that were saved. Reading a text never
            imports a module.
        seed
            Start a learner of its own, as `fresh` does, whose draws follow from this seed.
        fresh
            Start a learner of its own from what was learned: with new ids, fresh randomness and no open choices.
            Without it, two processes that load one file make the same draws with the same ids.
        clock
            As for `Learner`; a clock is not saved.
        """
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a umab.Policy, but got policy={checks.shown(policy)}")
        core = advised.read(read_text(text), policy, clock_of(clock))
        if fresh or seed is not None:
            core.part(seed_of(seed))
        learner = cls.__new__(cls)
        learner._begin(core)
        return learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file. At every moment the file is complete: the old one or the new one."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: Policy | None = None,
        seed: int | None = None,
        fresh: bool = False,
        clock: Clock = time.time,
    ) -> Self:
        """Return the learner that `save` wrote to a file; the options are those of `from_json`."""
        return read_file(path, functools.partial(cls.from_json, policy=policy, seed=seed, fresh=fresh, clock=clock))

    def __getstate__(self) -> tuple[SavedLearner, Policy]:
        """Return a snapshot, and the policy, which need not be registered."""
        return self._snapshot(), self._core.policy

    def __setstate__(self, state: tuple[SavedLearner, Policy]) -> None:
        """Continue from a snapshot, so that a copy shares nothing with the original."""
        self._begin(advised.read(*state))

    def __copy__(self) -> Self:
        """Return a copy with the same clock, which a pickle cannot hold."""
        copied = type(self).__new__(type(self))
        copied._begin(advised.read(self._snapshot(), self._core.policy, self._core.clock))
        return copied

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return a copy; it shares nothing with the original but the clock."""
        return self.__copy__()

    def _snapshot(self) -> SavedLearner:
        with self._lock:
            return self._core.snapshot()

    def _repr_html_(self) -> str:
        """Return the probabilities and the counters as a table, and the changes noticed, for notebooks."""
        return learner_html(self)

    def __repr__(self) -> str:
        """Name the policy and the arms."""
        maximize = ", maximize=True" if self.maximize else ""
        return f"Learner({self.policy.name!r}, arms={list(self.arms)!r}{maximize})"
