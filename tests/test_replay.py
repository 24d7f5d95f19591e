"""Logs: replaying one gives the learner that wrote it, and absorbing one learns each choice once."""

from __future__ import annotations

import copy
import itertools
import json
import math
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import POLICIES, at_moment, state_of, twins
from toys import LastEight, ScaleAtDraw, TwoMinds
from umab.algorithms.base import Policy
from umab.errors import AlteredChoiceError, ClosedChoiceError, ForeignChoiceError
from umab.online.ids import Numbers

BANDITS = {name: policy for name, policy in POLICIES.items() if not policy.full_information}
TOYS: dict[str, Policy] = {"tickets": ScaleAtDraw(), "history": LastEight(), "nested": TwoMinds()}
BANDITS |= TOYS


@pytest.mark.parametrize("name", BANDITS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_replaying_a_log_gives_the_learner_that_wrote_it(name: str, data: st.DataObject) -> None:
    """Bit for bit, with late feedback, arms that are away, come and go, and choices that expire or are forgotten."""
    policy: Policy = BANDITS[name]
    seed, now = data.draw(st.integers(0, 99)), 0.0
    low, high = max(policy.loss_range[0], -1e3), min(policy.loss_range[1], 1e3)
    learner = umab.Learner(policy, ["a", "b", "c"], seed=seed, clock=lambda: now)
    log: list[Any] = []
    steps = data.draw(st.lists(st.sampled_from(["draw", "among", "feedback", "forget", "expire", "arms"]), max_size=30))
    for at, step in enumerate(steps):
        now += 1.5
        if step in ("draw", "among"):
            choice = learner.select(among=learner.arms[: 1 + at % len(learner.arms)] if step == "among" else None)
            log.append(["draw", learner.draw_of(choice)])
        elif step == "arms":
            log.append(["arms", [*learner.arms[1 + at % 2 - (len(learner.arms) < 3) :], f"new {at}"]])
            learner.set_arms(log[-1][1])
        elif step == "expire":
            learner.expire(after=2, loss=low)
            log.append(["expire"])
        elif learner.n_open:
            choice = learner.outstanding[at % learner.n_open]
            loss = data.draw(st.floats(low, high))
            if step == "forget":
                learner.forget(choice)
                log.append(["forget", choice])
            else:
                learner.update(choice, loss)
                log.append(["feedback", choice, loss])
    again = umab.Learner(policy, ["a", "b", "c"], seed=seed)
    for kind, *what in json.loads(json.dumps(log)):
        if kind == "draw":
            again.replay(what[0])
        elif kind == "arms":
            again.set_arms(what[0])
        elif kind == "forget":
            again.forget(what[0])
        elif kind == "expire":
            again.expire(after=2, loss=low)
        else:
            again.update(what[0], what[1])
    first, second = (json.loads(json.dumps(each._core.snapshot())) for each in (learner, again))
    if not any(kind == "draw" for kind, *_ in log):  # without a draw there is no id to go by
        del first["ids"]["space"], second["ids"]["space"]
    assert first == second


def test_a_draw_that_does_not_fit_changes_nothing() -> None:
    writer, reader = (umab.Learner("umab-g-a", ["a", "b"], seed=0) for _ in range(2))
    first, second = (writer.draw_of(writer.select()) for _ in range(2))
    before = reader.to_json()
    for draw, error, message in [
        (first._replace(probability=0.25), AlteredChoiceError, r"0\.25"),
        (first._replace(account_probability=0.25), AlteredChoiceError, r"0\.25"),
        (first._replace(index=1 - first.index), AlteredChoiceError, "index"),
        (first._replace(account="b" if first.arm == "a" else "a"), AlteredChoiceError, "does not"),
        (first._replace(ticket={"scale": 1.0}), AlteredChoiceError, "scale"),
        (first._replace(id="7"), AlteredChoiceError, "id='7'"),
        (first._replace(arm="c"), ValueError, "arm='c'"),
        (first._replace(time=float("nan")), ValueError, "time=nan"),
        (second, ValueError, "number 1 .*0 is next"),
        (first[:7], ValueError, "nine values"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            reader.replay(draw)
        assert caught.type is error
    assert reader.to_json() == before
    reader.replay(first)
    stranger = umab.Learner("umab-g-a", ["a", "b"])
    with pytest.raises(ForeignChoiceError, match="another"):
        reader.replay(stranger.draw_of(stranger.select()))


def test_a_log_is_absorbed_once_and_all_or_nothing() -> None:
    ours, theirs = (umab.Learner("umab-g-a", ["a", "b"], seed=seed) for seed in (0, 1))
    mine, other, third = ours.select(), theirs.select(), theirs.select()
    log = [(mine, 1.0), (other, 2.0), (other, 5.0), ("a", 0.5, 3.0), (json.loads(json.dumps(third)), 4.0)]
    before = ours.to_json()
    for row, error, message in [
        (("c", 0.5, 1.0), ValueError, "row 5.*arm='c'"),
        (("a", 1.5, 1.0), ValueError, "row 5.*probability=1.5"),
        (("a", 0.5, "much"), TypeError, "row 5.*'much'"),
        (("a", 0.5, float("inf")), ValueError, "row 5.*inf"),
        ((other._replace(id="x"), 1.0), ForeignChoiceError, "row 5.*'x'"),
        ((theirs.select(among=["a"]), 1.0), ForeignChoiceError, "row 5.*among="),
        (("a", 0.5), ValueError, "row 5 is"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message) as caught:
            ours.absorb([*log, row])
        assert caught.type is error
    assert ours.to_json() == before
    by_hand = copy.copy(ours)
    assert ours.absorb(log) == 4  # the second row of the same choice teaches nothing
    by_hand.update(mine, 1.0)
    for arm, probability, loss in ((other.arm, other.probability, 2.0), ("a", 0.5, 3.0), (*third[::2], 4.0)):
        by_hand.update(arm, loss, probability=probability)
    assert state_of(ours) == state_of(by_hand) and ours.counters() == by_hand.counters()
    with pytest.raises(ClosedChoiceError):
        ours.update(other, 2.0, foreign="learn")


def test_a_log_may_be_a_frame_of_rewards() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"arm": ["a", "b"], "probability": [0.5, 0.25], "reward": [3.0, 4.0]}
    learners = [umab.Learner("umab-g-a", ["a", "b"], maximize=True) for _ in range(3)]
    for learner, log in zip(learners, (columns, pandas.DataFrame(columns), polars.DataFrame(columns)), strict=True):
        assert learner.absorb(log) == 2
        assert learner.counters()["b"].mean == 4.0
    assert state_of(learners[0]) == state_of(learners[1]) == state_of(learners[2])
    with pytest.raises(ValueError, match="'reward' is missing"):
        learners[0].absorb({"arm": ["a"], "probability": [0.5], "loss": [1.0]})
    with pytest.raises(TypeError, match="int"):
        learners[0].absorb(5)


def test_a_choice_of_another_learner_teaches_what_its_arm_and_probability_do() -> None:
    ours, theirs = (umab.Learner("umab-g-a:rate=4", 3, seed=seed) for seed in (0, 1))
    by_hand = copy.copy(ours)
    for t in range(30):
        choice = theirs.select()
        ours.update(choice, float(t % 5), foreign="learn")
        by_hand.update(choice.arm, float(t % 5), probability=choice.probability)
        theirs.update(choice, float(t % 5))
    assert state_of(ours) == state_of(by_hand)
    with pytest.raises(ValueError, match="foreign='accept'"):
        ours.update(theirs.select(), 1.0, foreign="accept")  # type: ignore[arg-type]


def test_a_policy_with_tickets_refuses_choices_of_others() -> None:
    policy = next(each for each in TOYS.values() if each.ticket(2) is not None)
    ours, theirs = (umab.Learner(policy, 2, seed=seed) for seed in (0, 1))
    with pytest.raises(ForeignChoiceError, match="ticket"):
        ours.update(theirs.select(), 1.0, foreign="learn")
    with pytest.raises(ForeignChoiceError, match="among="):
        umab.Learner("uniform", 2).update(umab.Learner("uniform", 2).select(among=[0]), 1.0, foreign="learn")


def test_open_choices_are_told_from_others_in_constant_time() -> None:
    learner, copied = twins("uniform", ["a", "b"], seed=0)
    choice = learner.select()
    assert learner.is_open(choice) and learner.is_open(json.loads(json.dumps(choice))) and learner.n_open == 1
    assert not copied.is_open(choice)
    others: list[Any] = [choice._replace(probability=0.1), choice[:3], (1, 2, 3, []), None, 5]
    assert not any(learner.is_open(each) for each in others)
    learner.update(choice, 1.0)
    assert not learner.is_open(choice) and learner.n_open == 0


def test_expiry_warns_if_feedback_goes_astray() -> None:
    ours, theirs = (umab.Learner("uniform", 2, seed=seed) for seed in (0, 1))
    ours.select(2)
    ours.expire(after=1, loss=9.0)
    with pytest.raises(ForeignChoiceError):
        ours.update(theirs.select(), 1.0)
    with pytest.warns(umab.LearnerWarning, match="1 choices expired.*forget=True"):
        ours.expire(after=0, loss=9.0)
    ours.select()
    ours.expire(after=0, loss=9.0)  # once


@pytest.mark.parametrize("name", ["umab-w", "centred(umab-s)", "umab-g-a:rate=4", "exp3-ix:high=3", "ahb", "sf-mab"])
def test_the_order_of_changes_does_not_matter(name: str) -> None:
    learner = umab.Learner(name, ["a", "b", "c", "d"], seed=0)
    for _ in range(400):
        choice = learner.select()
        learner.update(choice, 0.1 if choice.arm == "b" else 1.0)
    waiting = learner.select()
    orders: list[list[Any]] = [
        [("add", "e"), ("remove", "b")],
        [("remove", "b"), ("add", "e")],
        [("set", ["a", "c", "d", "e"])],
        [("add", "x"), ("remove", "b"), ("add", "e"), ("remove", "x")],
    ]
    states = []
    for order in orders:
        changed = copy.copy(learner)
        for kind, what in order:
            getattr(changed, {"add": "add_arm", "remove": "remove_arm", "set": "set_arms"}[kind])(what)
        assert changed.arms == ("a", "c", "d", "e")
        assert changed.probabilities()[-1] == pytest.approx(0.25, rel=1e-12)
        changed.update(waiting, 0.5)
        states.append(state_of(changed))
    assert all(each == states[0] for each in states)
    returned = copy.copy(learner)  # an arm that leaves and comes back within one change is a new one
    returned.remove_arm("b")
    returned.add_arm("b")
    assert returned.arms == ("a", "c", "d", "b")
    assert returned.probabilities()[-1] == pytest.approx(0.25, rel=1e-12)


def test_a_draw_or_feedback_ends_a_change() -> None:
    learner = umab.Learner("umab-g-a:rate=4", ["a", "b", "c"], seed=0)
    for _ in range(500):
        choice = learner.select()
        learner.update(choice, 0.1 if choice.arm == "b" else 1.0)
    together, apart = twins_of(learner)
    for each in (together, apart):
        each.add_arm("d")
    apart.update(apart.select(), 0.5)
    for each in (together, apart):
        each.remove_arm("b")
    assert together.probabilities()[-1] == pytest.approx(1 / 3, rel=1e-12)
    assert apart.probabilities()[-1] > 0.6  # it was there for a round, and the others were known to be bad


def twins_of(learner: umab.Learner) -> tuple[umab.Learner, umab.Learner]:
    return copy.copy(learner), copy.copy(learner)


@pytest.mark.parametrize("name", BANDITS)
def test_any_arms_may_follow_any_arms(name: str) -> None:
    policy = BANDITS[name]
    losses = np.clip(np.random.default_rng(0).random(30), *np.clip(policy.loss_range, -1e3, 1e3))
    learner = umab.Learner(policy, ["a", "b", "c"], seed=0)
    waiting = learner.select()
    for loss in losses:
        learner.update(learner.select(), float(loss))
    learner.set_arms(["c", "a", "b"])
    moved = learner.probabilities()
    learner.set_arms(["a", "b", "c"])
    assert moved[[1, 2, 0]] == pytest.approx(learner.probabilities(), rel=1e-14)
    learner.set_arms(["x", "y"])
    assert learner.probabilities() == pytest.approx([0.5, 0.5], rel=1e-12)
    learner.update(waiting, float(losses[0]))
    learner.update(learner.select(), float(losses[1]))
    loaded = umab.Learner.from_json(learner.to_json()) if name in POLICIES else copy.copy(learner)
    assert loaded.arms == ("x", "y") and state_of(loaded) == state_of(learner)
    for arms, error in (([], ValueError), (["a", "a"], ValueError), ("ab", TypeError)):
        with pytest.raises(error):
            learner.set_arms(arms)


@given(numbers=st.lists(st.integers(0, 40), max_size=60), stop=st.integers(0, 30), gaps=st.sets(st.integers(0, 30)))
def test_numbers_are_a_set(numbers: list[int], stop: int, gaps: set[int]) -> None:
    """And are kept as intervals that neither touch nor overlap."""
    held, expected = Numbers.below(stop, gaps), set(range(stop)) - gaps
    for number in numbers:
        held.add(number)
        expected.add(number)
    assert {each for each in range(50) if each in held} == expected
    intervals = held.intervals()
    assert Numbers(intervals).intervals() == intervals
    assert sum(end - start for start, end in intervals) == len(expected)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(intervals))


def test_a_choice_that_was_lost_in_a_crash_is_learned_once() -> None:
    """A process dies after `select`, before it saves; the one that follows loads the older file."""
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0)
    saved = learner.to_json()
    lost, later = learner.select(2)
    learner = umab.Learner.from_json(saved)
    with pytest.raises(ForeignChoiceError):
        learner.update(later, 5.0)
    learner.update(later, 5.0, foreign="learn")
    learner = umab.Learner.from_json(learner.to_json())
    for again in (later, later):
        with pytest.raises(ClosedChoiceError):
            learner.update(again, 5.0, foreign="learn")
    assert learner.select().id not in (lost.id, later.id)
    assert learner.absorb([(lost, 4.0), (later, 5.0)]) == 1
    assert learner.absorb([(lost, 4.0)]) == 0


def test_forgetting_does_not_end_a_change_but_saving_does() -> None:
    learner = umab.Learner("umab-g-a:rate=4", ["a", "b", "c"], seed=0)
    for _ in range(400):
        choice = learner.select()
        learner.update(choice, 0.1 if choice.arm == "b" else 1.0)
    waiting = learner.select()
    forgetting, saving = twins_of(learner)
    for each in (forgetting, saving):
        each.add_arm("d")
    forgetting.forget(waiting)
    loaded = umab.Learner.from_json(saving.to_json())
    for each in (forgetting, saving, loaded):
        each.remove_arm("b")
    assert forgetting.probabilities()[-1] == pytest.approx(1 / 3, rel=1e-12) and not forgetting.n_open
    assert np.array_equal(saving.probabilities(), loaded.probabilities())


def test_labels_in_a_log_keep_their_types() -> None:
    learner = umab.Learner("uniform", ["1", 1])
    learner.absorb({"arm": ["1", 1], "probability": [0.5, 0.5], "loss": [1.0, 2.0]})
    assert [each.mean for each in learner.counters().values()] == [1.0, 2.0]


def test_a_log_that_waits_holds_nobody_up() -> None:
    learner = umab.Learner("uniform", ["a", "b"])

    def rows() -> Any:
        thread = threading.Thread(target=lambda: learner.update(learner.select(), 1.0))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        yield "a", 0.5, 1.0

    assert learner.absorb(rows()) == 1


def test_a_learner_is_not_changed_in_the_middle_of_a_change() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0, clock=lambda: clock())

    def clock() -> float:
        with pytest.raises(RuntimeError, match="signal handler"):
            learner.set_arms(["a"])
        with pytest.raises(RuntimeError, match="signal handler"):
            learner.select()
        assert learner.to_json()  # reading is fine
        return 1.0

    learner.update(learner.select(), 1.0)
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0, clock=lambda: math.nan)
    before = learner.to_json()
    with pytest.raises(ValueError, match=r"clock.*nan"):
        learner.select()
    assert learner.to_json() == before


class Interrupted(Exception):
    """What a signal handler raises."""


@pytest.mark.parametrize("kind", ["foreign", "absorb", "replay"])
def test_a_signal_finds_it_done_or_not_begun(kind: str) -> None:
    """At each moment at which Python looks for signals, what was begun is finished, or can be done again."""
    moment = 1
    while interrupted(kind, moment):
        moment += 1
    assert moment > 20


def interrupted(kind: str, moment: int) -> bool:
    """Interrupt a call at a moment, and check what it leaves; return whether there was that moment."""
    ours, theirs = (umab.Learner("umab-g-a", ["a", "b"], seed=0) for _ in range(2))
    choice = theirs.select()
    draw, before = theirs.draw_of(choice), state_of(ours)
    work: dict[str, Any] = {
        "foreign": lambda: ours.update(choice, 3.0, foreign="learn"),
        "absorb": lambda: ours.absorb([(choice, 3.0)]),
        "replay": lambda: ours.replay(draw),
    }
    try:
        at_moment(moment, interrupt, work[kind])
        return False
    except Interrupted:
        pass
    # A trace may leave a `with` statement where a signal would not.
    ours._lock, ours._busy = threading.RLock(), False
    if kind == "replay":
        if not ours.n_open:
            assert ours.replay(draw) == choice
        assert ours.is_open(choice) and ours.select()[:3] == theirs.select()[:3]
    else:
        learned = state_of(ours) != before
        assert ours._core.was_closed(choice.id) == learned
        assert ours.absorb([(choice, 3.0)]) == (0 if learned else 1)
    return True


def interrupt() -> None:
    raise Interrupted


@pytest.mark.parametrize("n_before", [254, 255, 256, 511])
def test_a_draw_that_takes_two_numbers_is_replayed_where_numbers_run_out(n_before: int) -> None:
    """Uniform numbers are drawn 256 at a time."""
    writer, reader = (umab.Learner("uniform", ["a", "b", "c"], seed=0) for _ in range(2))
    for at in range(n_before + 3):
        choice = writer.select(among=["a", "b"] if at == n_before else None)
        reader.replay(writer.draw_of(choice))
    assert reader.to_json() == writer.to_json()
    assert [each[:3] for each in reader.select(300)] == [each[:3] for each in writer.select(300)]
