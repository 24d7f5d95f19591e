"""UMAB-W with arms that come and go, above all during a trial."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import umab
from helpers import state_of
from umab.algorithms.base import Change
from umab.algorithms.umab_w import SHORTEST_TRIAL, TRIAL_PER_ARM


def on_trial(n_rounds: int = 0, seed: int = 0) -> umab.Learner:
    """Return a learner of arms a, b and c whose leader, a, has just become bad: it is on trial for so many rounds."""
    learner = umab.Learner("umab-w", ["a", "b", "c"], seed=seed)
    random = np.random.default_rng(seed)
    cost = {"a": 0.0, "b": 3.0, "c": 6.0}
    for t in range(1000):
        if t == 200:
            cost["a"] = 9.0
        choice = learner.select()
        learner.update(choice, random.normal(cost[str(choice.arm)]))
        if learner.changes():
            n_rounds -= 1
            if n_rounds < 0:
                return learner
    raise AssertionError("nothing was noticed")


def play_on(learner: umab.Learner, cost: dict[str, float], n_rounds: int) -> None:
    random = np.random.default_rng(9)
    for _ in range(n_rounds):
        choice = learner.select()
        learner.update(choice, random.normal(cost[str(choice.arm)]))


def test_changes_name_arms_by_their_new_index_or_none() -> None:
    learner = on_trial()
    policy = learner.policy
    ((round, arm, kept),) = policy.changes(state_of(learner))
    assert 200 < round < 215 and arm == 0 and kept is None
    learner.remove_arm("b")
    learner.add_arm("d")
    assert policy.changes(state_of(learner)) == [Change(round, 0, None)]
    moved = policy.resized(state_of(learner), [2, None, 0, 1])
    assert policy.changes(moved) == [Change(round, 2, None)]
    learner.remove_arm("a")
    assert policy.changes(state_of(learner)) == [Change(round, None, None)]
    play_on(learner, {"c": 6.0, "d": 0.0}, 200)
    assert policy.changes(state_of(learner))[0] == Change(round, None, True)
    assert learner.probabilities().argmax() == 1


@pytest.mark.parametrize("gone", ["a", "b", "c"])
@pytest.mark.parametrize("n_rounds", [0, 10, 50])
def test_an_arm_may_go_during_a_trial(gone: str, n_rounds: int) -> None:
    learner = on_trial(n_rounds)
    left = [arm for arm in "abc" if arm != gone]
    learner.remove_arm(gone)
    state = state_of(learner)
    assert state.former == likeliest_of(state.replaced.iterate)
    assert state.leader in (-1, likeliest_of(state.current.iterate))
    play_on(learner, {"a": 9.0, "b": 3.0, "c": 6.0}, int(SHORTEST_TRIAL + TRIAL_PER_ARM * 3 + 100))
    state = state_of(learner)
    assert state.former == -1.0 and learner.changes()[0].kept is not None
    assert left[int(learner.probabilities().argmax())] == ("b" if gone != "b" else "c")


def likeliest_of(p: Any) -> int:
    return int(np.argmax(p))


def test_a_new_arm_has_no_history() -> None:
    learner = on_trial(20)
    before = state_of(learner)
    learner.add_arm("d")
    after = state_of(learner)
    blank = learner.policy.init(1)
    for field in ("marks", "counts", "records", "attention"):
        rows = getattr(after, field)
        assert [list(row) for row in rows[:3]] == [list(row) for row in getattr(before, field)]
        assert list(rows[3]) == getattr(blank, field)[0]
    for old, new in ((before.current, after.current), (before.replaced, after.replaced)):
        assert new.iterate[3] == 0.25 and list(new.loss_sums[:3]) == list(old.loss_sums)
    assert (after.level, after.former, after.leader, after.age) == (
        before.level,
        before.former,
        before.leader,
        before.age,
    )
    play_on(learner, {"a": 9.0, "b": 3.0, "c": 6.0, "d": 0.0}, 200)
    assert learner.probabilities().argmax() == 3


def test_attention_ends_when_the_leader_goes() -> None:
    """It is for arms that were better than the leader; one that leads now would keep it for ever."""
    learner = umab.Learner("umab-w", ["a", "b", "c"], seed=0)
    play_on(learner, {"a": 0.0, "b": 3.0, "c": 9.0}, 300)
    for below in (1, 2):
        learner.update("a", 0.0)
        learner.update("b", -0.01 * below, probability=1.0)
    state = state_of(learner)
    assert state.leader == 0 and state.attention[1][2] == 1.0 and learner.probabilities()[1] >= 1 / 6 - 1e-12
    other = umab.Learner.from_json(learner.to_json())
    other.remove_arm("c")
    kept = state_of(other)
    assert kept.leader == 0 and kept.attention[1][2] == 1.0 and kept.settled == state.settled < state.age
    learner.remove_arm("a")
    state = state_of(learner)
    assert state.leader == 0 and not np.any(state.attention) and state.settled == state.age
    play_on(learner, {"b": 0.0, "c": 9.0}, 50)
    assert state_of(learner).n_bursts == state.n_bursts
