"""Arms that are not always there, and arms that come and go."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import PACKAGE, POLICIES, state_of, traced, twins
from umab.algorithms.base import Policy
from umab.engine.layout import layout_of
from umab.online.eligible import draw_among
from umab.simplex import Vector


class Noted(NamedTuple):
    probabilities: Vector
    last: float


BANDITS = {name: policy for name, policy in POLICIES.items() if not policy.full_information}
FAIR = [name for name in BANDITS if name != "umab-r"]
"""Those with which a new arm gets a fair share; an optimist draws it first."""


@pytest.mark.parametrize(
    ("here", "told"),
    [
        # Little is eligible: half of the losses go to the arms that are away, which are told half of what is drawn.
        ([0, 1, 2], [1 / 4, 1 / 8, 1 / 8, 1 / 4, 1 / 4]),
        # Much is: every account has the probability that the policy has for it.
        ([3, 4], [2 / 16, 1 / 16, 1 / 16, 6 / 16, 6 / 16]),
    ],
)
def test_estimates_are_unbiased_for_the_completed_losses(here: list[int], told: list[float]) -> None:
    """Exactly: all probabilities are multiples of 1/64, so a grid of uniform numbers is a complete enumeration."""
    p = np.array([2, 1, 1, 6, 6]) / 16
    losses = np.array([3.0, -1.0, 10.0, 4.0, 5.0])
    eligible = np.isin(np.arange(5), here)
    grid = (np.arange(64) + 0.5) / 64
    drawn, estimates = np.zeros(5), np.zeros(5)
    probabilities: dict[int, float] = {}
    for first in grid:
        for second in grid:
            draw = draw_among(p, eligible, (first, second))
            assert probabilities.setdefault(draw.account, draw.account_probability) == draw.account_probability
            drawn[draw.arm] += 1 / 64**2
            estimates[draw.account] += losses[draw.arm] / draw.account_probability / 64**2
            assert draw.probability == p[draw.arm] / p[eligible].sum()
    share = np.where(eligible, p, 0.0) / p[eligible].sum()
    np.testing.assert_allclose(drawn, share, rtol=1e-12)
    np.testing.assert_allclose(estimates, np.where(eligible, losses, share @ losses), rtol=1e-12)
    np.testing.assert_allclose([probabilities[arm] for arm in range(5)], told, rtol=1e-12)


def test_an_arm_may_be_all_there_is() -> None:
    p = np.array([2.0**-1000, 1.0 - 2.0**-53])
    draw = draw_among(p, np.array([True, False]), (0.7, 0.2))
    assert draw.arm == draw.account == 0 and draw.probability == 1.0
    draw = draw_among(np.array([0.0, 1.0, 0.0]), np.array([True, False, True]), (0.7, 0.2))
    assert draw[:4] == (2, 0.5, 1, 1.0)  # the policy has to hear of the arm that it plays first


def test_all_arms_are_a_choice_as_always() -> None:
    plain, among = twins("recommended", ["a", "b", "c"], seed=0)
    for t in range(50):
        choice = plain.select()
        assert among.select(among=["c", "a", "b"]) == choice
        for learner in (plain, among):
            learner.update(choice, float(t % 3))
    assert state_of(plain) == state_of(among)


def test_only_eligible_arms_are_drawn_with_the_probability_that_is_said() -> None:
    learner = umab.Learner("umab-g-a:rate=4", ["a", "b", "c", "d"], seed=0)
    for arm, loss in (("a", 2.0), ("b", 1.0), ("c", -1.0)):
        learner.update(arm, loss)
    p = dict(zip(learner.arms, learner.probabilities(), strict=True))
    total = p["a"] + p["c"]
    choices = learner.select(20_000, among=("c", "a"))
    assert {(choice.arm, choice.probability) for choice in choices} == {(arm, p[arm] / total) for arm in "ac"}
    n_a = sum(choice.arm == "a" for choice in choices)
    assert abs(n_a - 20_000 * p["a"] / total) < 5 * np.sqrt(20_000 * p["a"] * p["c"]) / total
    assert learner.counters()["b"].selected == 0


@pytest.mark.parametrize(
    ("among", "message"),
    [
        ([], "among .*none"),
        (["z"], "'a', 'b'.*arm='z'"),
        ("a", "among='a'"),
        (3, "among=3"),
    ],
)
def test_bad_eligible_arms_are_refused(among: Any, message: str) -> None:
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0)
    before = learner.to_json()
    with pytest.raises((ValueError, TypeError), match=message):
        learner.select(among=among)
    assert learner.to_json() == before


@pytest.mark.parametrize("name", BANDITS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_policy_survives_arms_that_come_and_go(name: str, data: st.DataObject) -> None:
    """With losses of any size, late feedback, saves, and anything eligible."""
    policy = BANDITS[name]
    lowest, highest = policy.loss_range
    sizes = st.floats(max(lowest, -1.7e308), min(highest, 1.7e308), allow_nan=False)
    learner = umab.Learner(policy, ["a", "b"], seed=data.draw(st.integers(0, 99)))
    open_choices: list[umab.Choice] = []
    steps = data.draw(st.lists(st.sampled_from(["add", "remove", "among", "play", "late", "save"]), max_size=40))
    for at, step in enumerate(steps):
        if step == "add":
            learner.add_arm(f"new {at}")
            fair = 1.0 / len(learner.arms)
            new = learner.probabilities()[-1]
            assert new == pytest.approx(fair, rel=1e-12) if name in FAIR else new >= 0.99 * fair
        elif step == "remove" and len(learner.arms) > 1:
            learner.remove_arm(data.draw(st.sampled_from(learner.arms)))
        elif step == "among":
            some = data.draw(st.lists(st.sampled_from(learner.arms), min_size=1, unique=True))
            choice = learner.select(among=some)
            assert choice.arm in some
            learner.update(choice, data.draw(sizes))
        elif step == "play":
            open_choices.append(learner.select())
        elif step == "late" and open_choices:
            learner.update(open_choices.pop(0), data.draw(sizes))
        elif step == "save":
            text = learner.to_json()
            learner = umab.Learner.from_json(text)
            assert learner.to_json() == text
        p = learner.probabilities()
        assert len(p) == len(learner.arms) == len(learner.counters())
        assert (p >= 0.0).all() and (policy.plays_each_arm_first or (p > 0.0).all())
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
        assert np.isfinite(learner._core.buffer).all()
    assert len(learner.outstanding) == len(open_choices)


def played(policy: Policy, n_rounds: int) -> Any:
    learner = umab.Learner(policy, 4, seed=1)
    for t in range(n_rounds):
        choice = learner.select()
        learner.update(choice, 0.1 * choice.index + 0.5 * (t % 2))
    return state_of(learner)


@pytest.mark.parametrize("name", BANDITS)
def test_the_same_arms_in_the_same_order_are_the_same_state(name: str) -> None:
    policy = BANDITS[name]
    layout = layout_of(policy)
    state = played(policy, 60)
    again = layout.state.fields(layout.state.pack(policy.resized(state, [0, 1, 2, 3])))
    for key, value in layout.state.fields(layout.state.pack(state)).items():
        if name != "exp3" or key not in ("origin", "weights"):  # there, the weights are counted from a new origin
            np.testing.assert_allclose(again[key], value, rtol=1e-12)
    start = policy.init(4)
    for n_arms, arms in ((5, [0, 1, 2, 3, None]), (3, [0, 1, 3])):
        if not policy.plays_each_arm_first:
            fresh = layout.state.pack(policy.init(n_arms))
            np.testing.assert_allclose(layout.state.pack(policy.resized(start, arms)), fresh, rtol=1e-12)


@pytest.mark.parametrize("name", FAIR)
def test_old_arms_keep_their_proportions_and_sums(name: str) -> None:
    policy = BANDITS[name]
    record = layout_of(policy).state
    before, grown, shrunk = (
        record.fields(record.pack(state))
        for state in (
            played(policy, 60),
            policy.resized(played(policy, 60), [3, None, 0, 1, 2]),
            policy.resized(played(policy, 60), [3, 1]),
        )
    )
    for key in record.vectors:
        old = np.array(before[key])
        if "sums" in key or key == "log_weights":
            np.testing.assert_array_equal(np.array(grown[key])[[2, 3, 4, 0]], old)
            assert old.min() <= grown[key][1] <= old.max()
            np.testing.assert_array_equal(shrunk[key], old[[3, 1]])
        if "probabilities" in key or "iterate" in key:
            np.testing.assert_allclose(np.array(grown[key])[[2, 3, 4, 0]], 0.8 * old / old.sum(), rtol=1e-12)
            np.testing.assert_allclose(shrunk[key], old[[3, 1]] / old[[3, 1]].sum(), rtol=1e-12)


def test_an_optimist_draws_a_new_arm_first_and_keeps_what_it_knows_of_the_others() -> None:
    state = played(BANDITS["umab-r"], 60)
    grown = BANDITS["umab-r"].resized(state, [3, None, 0, 1, 2])
    assert grown.probabilities[1] > 0.99 and min(grown.probabilities) > 0.0
    assert [grown.values[k] for k in (2, 3, 4, 0)] == state.values
    assert [grown.records[k] for k in (2, 3, 4, 0)] == state.records


@pytest.mark.parametrize("name", FAIR)
def test_the_fair_share_of_a_new_arm_lasts(name: str) -> None:
    """What is summed for it fits the share: when the next distribution is solved for, it is still about 1/n."""
    learner: umab.Learner = umab.Learner(BANDITS[name], 10, seed=0)
    noise = np.random.default_rng(0).normal(scale=0.1, size=2000)
    for t in range(2000):
        choice = learner.select()
        learner.update(choice, float(np.clip(0.3 + 0.05 * choice.index + noise[t], 0.0, 1.0)))
    learner.add_arm("new")
    likeliest = int(learner.probabilities()[:10].argmax())
    learner.update(likeliest, 0.3 + 0.05 * likeliest)
    assert 0.75 / 11 < learner.probabilities()[-1] < 1.2 / 11


def test_feedback_for_an_arm_that_is_gone_teaches_nothing() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0)
    choices = {choice.arm: choice for choice in learner.select(20)}
    assert set(choices) == {"a", "b", "c"}
    learner.remove_arm("a")
    learner = umab.Learner.from_json(learner.to_json())
    learner.add_arm("a")  # of the same name, but another one
    before = state_of(learner)
    learner.update(choices["a"], 100.0)
    assert state_of(learner) == before
    assert learner.counters()["a"].updates == learner.counters()["a"].open == 0
    learner.update(choices["c"], 100.0)  # has moved from place 2 to 1
    assert learner.counters()["c"].updates == 1
    assert learner.probabilities().argmin() == 1


def test_arms_that_cannot_be_added_or_removed_are_refused() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0)
    before = learner.to_json()
    refused: list[tuple[Any, str]] = [("a", "labels .*'a' .*2 times"), (None, "label .*None")]
    for arm, message in refused:
        with pytest.raises((ValueError, TypeError), match=message):
            learner.add_arm(arm)
    with pytest.raises(ValueError, match=r"'a', 'b'.*arm='c'"):
        learner.remove_arm("c")
    assert learner.to_json() == before
    learner.remove_arm("a")
    with pytest.raises(ValueError, match=r"at least one arm.*'b'"):
        learner.remove_arm("b")
    assert json.loads(learner.to_json())["arms"] == ["b"]


def with_changes(policy: Policy, scale: float, offset: float) -> list[tuple[Any, Any]]:
    """Arms come in the first rounds and go later, some between a draw and its loss; what was drawn, and from what."""
    learner = umab.Learner(policy, ["a", "b", "c"], seed=2)
    seen: list[tuple[Any, Any]] = []
    for t in range(60):
        choice = learner.select()
        if t in (0, 4, 5, 20):
            learner.add_arm(f"new {t}")
        if t in (1, 40, 41):
            learner.remove_arm(learner.arms[-1])
        learner.update(choice, scale * (offset + 0.25 * ((3 * choice.index + t) % 5)))
        seen.append((choice.arm, learner.probabilities()))
    return seen


@pytest.mark.parametrize("name", [name for name, policy in BANDITS.items() if policy.scale_free or policy.shift_free])
def test_units_and_offsets_do_not_matter_when_arms_come_and_go(name: str) -> None:
    policy = BANDITS[name]
    plain = with_changes(policy, 1.0, 0.0)
    other = with_changes(policy, 2.0**40 if policy.scale_free else 1.0, 1024.0 if policy.shift_free else 0.0)
    for (arm, p), (other_arm, other_p) in zip(plain, other, strict=True):
        assert arm == other_arm
        np.testing.assert_allclose(p, other_p, rtol=1e-9)


def test_a_policy_notes_the_arm_that_it_will_hear_of() -> None:
    """AHB plays each arm first; a draw among others counts as the one that it wanted."""
    learner = umab.Learner("ahb", ["a", "b", "c"], seed=0)
    for expected in ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1 / 3] * 3):
        assert learner.select(among=["b", "c"]).arm in ("b", "c")
        np.testing.assert_allclose(learner.probabilities(), expected)


@dataclass(frozen=True, kw_only=True)
class NotesDraws(umab.Uniform):
    """Remembers, as a scalar, the last arm of which it was told that it was drawn."""

    def init(self, n_arms: int) -> Any:
        return Noted(probabilities=[0.9] + [0.1 / max(1, n_arms - 1)] * (n_arms - 1), last=-1.0)

    @staticmethod
    def selected(parameters: Any, state: Any, arm: int) -> Any:
        return Noted(probabilities=state.probabilities, last=float(arm))

    @staticmethod
    def update(parameters: Any, state: Any, arm: int, loss: float, probability: float) -> Any:
        return state

    def resized(self, state: Any, arms: Any) -> Any:
        return Noted(probabilities=[1.0] * len(arms), last=-1.0)  # no distribution


def test_the_account_is_what_a_policy_notes_and_what_it_makes_of_other_arms_is_checked() -> None:
    learner = umab.Learner(NotesDraws(), ["a", "b", "c"], seed=0)
    noted = set()
    for _ in range(40):
        choice = learner.select(among=["b", "c"])
        _, _, account, *_ = learner._core.open[choice.id]
        assert state_of(learner).last == account
        noted.add(account)
    assert noted == {0, 1, 2}
    before = learner.probabilities()
    with pytest.raises(ArithmeticError, match=r"probabilities.*\[1\. 1\. 1\. 1\.\]"):
        learner.add_arm("d")
    assert learner.arms == ("a", "b", "c") and (learner.probabilities() == before).all()


def test_ahb_waits_for_no_arm_that_is_gone() -> None:
    learner = umab.Learner("ahb", ["a", "b", "c"], seed=0)
    assert [choice.arm for choice in learner.select(2)] == ["a", "b"]
    learner.remove_arm("a")  # two were drawn, and there are two
    assert learner.probabilities().tolist() == [0.5, 0.5]


def test_the_account_of_a_loss_moves_with_its_arm() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0)
    choices = learner.select(40, among=["b"])
    account = {choice.id: account for choice, _, account, *_ in learner._core.open.values()}
    learner.remove_arm("a")
    moved = {choice.id: account for choice, _, account, *_ in learner._core.open.values()}
    assert set(account.values()) == {0, 1, 2}
    assert moved == {key: {0: None, 1: 0, 2: 1}[place] for key, place in account.items() if place is not None}
    before = state_of(learner)
    learner.update(next(choice for choice in choices if account[choice.id] == 0), 5.0)
    assert state_of(learner) == before


@pytest.mark.parametrize("change", [lambda learner: learner.add_arm("d"), lambda learner: learner.remove_arm("a")])
def test_a_signal_finds_the_old_arms_or_the_new_ones(change: Any) -> None:
    """Whatever a handler saves at any line loads again, and what Ctrl-C leaves behind can be used."""
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0)
    learner.select(20)
    saved = []

    def at_each_line(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != f"{PACKAGE}online/learner.py":
            return None
        sys.settrace(None)
        saved.append(learner.to_json())
        sys.settrace(at_each_line)
        return at_each_line

    with traced(at_each_line):
        change(learner)
    n_arms = [len(umab.Learner.from_json(text).arms) for text in saved]
    assert n_arms[0] == 3 and n_arms[-1] == len(learner.arms) != 3


def regret_while_there(learner: umab.Learner, naive: bool, n_rounds: int) -> float:
    """Regret against an arm in the rounds in which it is there, by day; all is dear by day, and it is the best then."""
    regret = 0.0
    for t in range(n_rounds):
        day = t // 20 % 2 == 1
        cost = {"always": 100.0, "by day": 90.0} if day else {"always": 10.0}
        if naive:  # what one would do without `among`: draw from what is left, and learn as if it were all
            p = dict(zip(learner.arms, learner.probabilities(), strict=True))
            arm = learner.select(among=list(cost)).arm
            learner.expire(0, forget=True)
            learner.update(arm, cost[str(arm)], probability=p[arm] / sum(p[each] for each in cost))
        else:
            choice = learner.select(among=list(cost))
            arm = choice.arm
            learner.update(choice, cost[str(arm)])
        regret += cost[str(arm)] - 90.0 if day else 0.0
    return regret


def test_an_arm_that_is_away_is_no_worse_for_it() -> None:
    """The regret against it where it is there is below that of Uniform; learning from its loss as it is, far above.

    Means of 12 runs, with five standard errors to spare.
    """
    n_rounds = 3000
    honest, naive = (
        [
            regret_while_there(umab.Learner("recommended", ["always", "by day"], seed=seed), way, n_rounds)
            for seed in range(12)
        ]
        for way in (False, True)
    )
    uniform = 5.0 * n_rounds / 2
    assert np.mean(honest) + 5 * np.std(honest, ddof=1) / np.sqrt(12) < uniform
    assert np.mean(naive) - 5 * np.std(naive, ddof=1) / np.sqrt(12) > uniform


def cost_after_a_change(seed: int, restart: bool, new: float) -> float:
    """What 500 rounds cost, over the best arm, after an arm was added to ten of which one is good."""
    losses = {"good": 1.0, "new": new} | {f"bad {k}": 2.0 + 0.1 * k for k in range(9)}
    learner = umab.Learner("recommended", [arm for arm in losses if arm != "new"], seed=seed)
    noise = np.random.default_rng(seed).normal(size=3500)
    total = 0.0
    for t in range(3500):
        if t == 3000:
            learner = umab.Learner("recommended", learner.arms, seed=seed) if restart else learner
            learner.add_arm("new")
        choice = learner.select()
        loss = losses[str(choice.arm)] + float(noise[t])
        learner.update(choice, loss)
        total += losses[str(choice.arm)] - min(1.0, new) if t >= 3000 else 0.0
    return total


@pytest.mark.parametrize("new", [3.0, 0.0])
def test_what_was_learned_is_kept_when_an_arm_is_added(new: float) -> None:
    """A bad one, and the best one: in both cases it costs less than to start anew, with five errors to spare."""
    kept, restarted = ([cost_after_a_change(seed, restart, new) for seed in range(12)] for restart in (False, True))
    difference = np.subtract(restarted, kept)
    assert difference.mean() > 5 * difference.std(ddof=1) / np.sqrt(12)
