"""Policies over experts: laws, runtimes, learners and bad input; tests/test_theorem_e.py has numbers and the proof."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import same_bits, state_of
from umab.engine.interpreted import play

FORMS = ("barrier", "entropy")
Array = npt.NDArray[np.float64]
any_double = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def worlds(draw: st.DrawFn, *, abstain: bool = True) -> tuple[Array, Array]:
    """Return losses, and advice of experts who may abstain, advise surely or not at all."""
    n_rounds, n_arms, n_experts = draw(st.integers(1, 25)), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([1.0, 1e-200, 1e200, 1e-310, 1.7e308]))
    losses = np.clip(random.standard_t(1.5, size=(n_rounds, n_arms)), -1e4, 1e4) / 1e4 * size
    if draw(st.booleans()):
        losses[random.integers(n_rounds)] = draw(any_double)
    advice = random.dirichlet(np.full(n_arms, draw(st.sampled_from([0.05, 1.0]))), size=(n_rounds, n_experts))
    advice[random.random((n_rounds, n_experts)) < 0.3] = np.eye(n_arms)[random.integers(n_arms)]
    if abstain:
        advice[random.random((n_rounds, n_experts)) < 0.3] = np.nan
        advice[:, random.integers(n_experts)] = np.eye(n_arms)[random.integers(n_arms)]
    return losses, advice


def distributions(policy: Any, losses: Any, advice: Any, **options: Any) -> Array:
    """Return the distribution of every round, from the reference."""
    found = []
    for each in play(policy, losses, advice=advice, **options):
        # The distribution of a round is in the state until the next advice.
        found.append(list(each.state.probabilities))
    return np.array(found)


@given(
    seed=st.integers(0, 1000),
    n_arms=st.integers(1, 6),
    size=st.sampled_from([1.0, 1e-300, 1e300]),
)
@settings(max_examples=25)
def test_a_constant_expert_for_each_arm_is_the_plain_policy_bit_for_bit(seed: int, n_arms: int, size: float) -> None:
    """If nothing is late: UMAB-S charges what lateness costs to its rate, and UMAB-E does not."""
    n = 30
    losses = np.clip(np.random.default_rng(seed).standard_t(1.2, size=(n, n_arms)) * size, -1e308, 1e308)
    ours = distributions("umab-e", losses, np.broadcast_to(np.eye(n_arms), (n, n_arms, n_arms)))
    rounds = list(play("centred(umab-s)", losses))
    # A plain policy solves for the next distribution at the end of a round, one over experts at the start.
    assert ours[0].tolist() == [1.0 / n_arms] * n_arms
    plain = umab.simulate("centred(umab-s)", losses, n_trials=3, progress=False)
    arms = np.tile(np.arange(n_arms), (n, 1))
    advised = umab.simulate("umab-e", losses, n_trials=3, advice=arms, progress=False)
    assert (plain.arms == advised.arms).all()
    drawn = [each.arm for each in rounds]
    assert drawn == plain.arms[0].tolist()
    for t in range(n - 1):
        assert ours[t + 1][rounds[t + 1].arm] == rounds[t + 1].probability


@pytest.mark.parametrize("form", FORMS)
@given(world=worlds(), delay=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_both_runtimes_agree_bit_for_bit(form: str, world: tuple[Array, Array], delay: int) -> None:
    losses, advice = world
    policy = umab.UMABE(form=form)  # type: ignore[arg-type]
    delays = np.arange(losses.size).reshape(losses.shape) % (delay + 1)  # of the arm that is drawn
    result = umab.simulate(policy, losses, advice=advice, n_trials=2, delays=delays, progress=False)
    for trial in range(2):
        rounds = list(play(policy, losses, advice=advice, trial=trial, delays=delays))
        assert [each.arm for each in rounds] == result.arms[trial].tolist()
    for row in distributions(policy, losses, advice, delays=delays):
        assert abs(row.sum() - 1.0) < 1e-9 and row.min() >= 0.0


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 10_000), n_experts=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_sure_advice_in_either_form_gives_the_same_bits(form: str, seed: int, n_experts: int) -> None:
    random = np.random.default_rng(seed)
    losses, arms = random.normal(size=(40, 4)), random.integers(-1, 4, size=(40, n_experts))
    arms[:, 0] = np.maximum(arms[:, 0], 0)
    rows = np.where(arms[:, :, None] < 0, np.nan, np.eye(4)[arms])
    policy = umab.UMABE(form=form)  # type: ignore[arg-type]
    assert same_bits(distributions(policy, losses, arms), distributions(policy, losses, rows))


@pytest.mark.parametrize("form", FORMS)
@given(world=worlds(abstain=False), power=st.integers(-40, 40))
@settings(max_examples=30, deadline=None)
def test_powers_of_two_and_exact_shifts_change_no_bit(form: str, world: tuple[Array, Array], power: int) -> None:
    losses, advice = world
    losses = np.round(np.clip(losses, -1e6, 1e6) * 64.0) / 64.0
    policy = umab.UMABE(form=form)  # type: ignore[arg-type]
    rows = distributions(policy, losses, advice)
    assert same_bits(rows, distributions(policy, losses * 2.0**power, advice))
    assert same_bits(rows, distributions(policy, losses + 4096.0, advice))


@pytest.mark.parametrize("form", FORMS)
@given(world=worlds(), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_order_of_experts_does_not_matter(form: str, world: tuple[Array, Array], seed: int) -> None:
    losses, advice = world
    losses = np.clip(losses, -1e3, 1e3)
    order = np.random.default_rng(seed).permutation(advice.shape[1])
    policy = umab.UMABE(form=form)  # type: ignore[arg-type]
    runs = [
        [(each.arm, each.probability, each.state.weights[:]) for each in play(policy, losses, advice=table)]
        for table in (advice, advice[:, order])
    ]
    for (arm, probability, weights), (other_arm, other_probability, others) in zip(*runs, strict=True):
        if arm != other_arm:  # a draw at the very edge, which rounding has moved
            break
        assert probability == pytest.approx(other_probability, rel=1e-6)
        np.testing.assert_allclose(np.array(weights)[order], others, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@given(world=worlds())
@settings(max_examples=30, deadline=None)
def test_equal_experts_keep_equal_weights(form: str, world: tuple[Array, Array]) -> None:
    losses, advice = world
    twice = np.concatenate([advice, advice], axis=1)
    for each in play(umab.UMABE(form=form), losses, advice=twice):  # type: ignore[arg-type]
        half = len(each.state.weights) // 2
        assert each.state.weights[:half] == each.state.weights[half:]


@pytest.mark.parametrize("form", FORMS)
def test_one_expert_is_followed(form: str) -> None:
    random = np.random.default_rng(0)
    advice = random.dirichlet(np.ones(3), size=(50, 1))
    rows = distributions(umab.UMABE(form=form), random.normal(size=(50, 3)), advice)  # type: ignore[arg-type]
    assert same_bits(rows, advice[:, 0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_experts", [2, 3, 12])
def test_an_arm_that_nobody_advises_is_never_drawn(form: str, n_experts: int) -> None:
    random = np.random.default_rng(1)
    advice = random.dirichlet(np.ones(4), size=(300, n_experts))
    away = random.integers(4, size=300)
    advice[np.arange(300), :, away] = 0.0
    advice /= advice.sum(axis=2, keepdims=True)
    policy, losses = umab.UMABE(form=form), random.normal(size=(300, 4))  # type: ignore[arg-type]
    result = umab.simulate(policy, losses, advice=advice, n_trials=20, progress=False)
    assert (result.arms != away).all()
    rows = distributions(policy, losses, advice)
    assert (rows[np.arange(300), away] == 0.0).all()
    floor = 1.0 / (16.0 + 2.0 * np.sqrt(3.0 * np.arange(1, 301))) if form == "barrier" else None
    if floor is not None:
        assert (np.sort(rows, axis=1)[:, 1] >= floor * (1.0 - 1e-12)).all()


def test_an_expert_who_abstains_is_judged_by_the_rounds_in_which_it_is_awake() -> None:
    losses = np.tile([1.0, 2.0], (400, 1))
    advice = np.tile([0, 1, 1], (400, 1))
    advice[::2, 0] = -1  # the good one speaks in every second round
    result = umab.simulate("umab-e", losses, advice=advice, n_trials=200, expected=True, progress=False)
    # In the rounds in which the good one is silent the others advise arm 1, and nobody can do better.
    assert (result.final_regret < 40.0).all() and (result.arms[:, ::2] == 1).all()
    assert result.final_regret.mean() < 20.0 < 200.0


def test_the_best_expert_is_found_where_no_arm_is_best() -> None:
    """Two arms that take turns, and an expert who knows: the regret is against the expert, and stays small."""
    random = np.random.default_rng(3)
    best = random.integers(2, size=2000)
    losses = random.normal(size=(2000, 2)) + np.where(np.arange(2) == best[:, None], 0.0, 2.0)
    advice = np.stack([best, 1 - best, np.zeros(2000, int), np.ones(2000, int)], axis=1)
    for form in FORMS:
        policy = umab.UMABE(form=form)  # type: ignore[arg-type]
        result = umab.simulate(policy, losses, advice=advice, n_trials=100, expected=True, progress=False)
        # Choosing at random costs 2000; measured: 124 ± 3 (log-barrier) and 128 ± 2 (entropy).
        assert result.mean[-1] + 6 * result.se[-1] < 200.0


def test_regret_is_against_the_best_expert_and_survives_saving(tmp_path: Any) -> None:
    random = np.random.default_rng(0)
    losses, advice = random.normal(size=(80, 3)), random.dirichlet(np.ones(3), size=(80, 5))
    advice[random.random((80, 5)) < 0.4] = np.nan
    advice[:, 1] = [0.2, 0.3, 0.5]
    result = umab.simulate("umab-e", losses, advice=advice, n_trials=5, expected=False, progress=False)
    awake = ~np.isnan(advice[:, :, 0])
    theirs = np.nansum(advice * losses[:, None, :], axis=2)
    for trial in range(5):
        paid = losses[np.arange(80), result.arms[trial]]
        by_hand = max(((paid - theirs[:, i]) * awake[:, i]).sum() for i in range(5) if awake[:, i].any())
        assert result.final_regret[trial] == pytest.approx(by_hand, rel=1e-12)
        assert result.regret[trial, -1] == pytest.approx(by_hand, rel=1e-12)
    result.save(tmp_path / "run")
    again = umab.Result.load(tmp_path / "run")
    assert same_bits(again.regret, result.regret)
    with pytest.raises(ValueError, match="against experts"):
        again.tracking_regret(1)
    assert result.provenance["advice"]["experts"] == 5


# Learners.


def make(**options: Any) -> umab.Learner:
    return umab.Learner("umab-e", ["a", "b", "c"], experts=["x", "y"], seed=4, **options)


def test_a_learner_makes_the_draws_of_trial_0() -> None:
    random = np.random.default_rng(0)
    losses, advice = random.normal(size=(50, 3)), random.dirichlet(np.ones(3), size=(50, 2))
    result = umab.simulate("umab-e", losses, advice=advice, n_trials=1, seed=4, progress=False)
    learner, drawn = make(), []
    for t in range(50):
        choice = learner.select(advice=advice[t])
        drawn.append(choice.index)
        learner.update(choice, losses[t, choice.index])
    assert drawn == result.arms[0].tolist()


@pytest.mark.parametrize("form", ["mapping", "list", "array", "mixed"])
def test_advice_in_every_form_means_the_same(form: str) -> None:
    forms: dict[str, Any] = {
        "mapping": {"x": "b", "y": {"a": 0.25, "c": 0.75}},
        "list": ["b", [0.25, 0.0, 0.75]],
        "array": np.array([[0.0, 1.0, 0.0], [0.25, 0.0, 0.75]]),
        "mixed": {"y": np.array([0.25, 0.0, 0.75]), "x": [0, 1, 0]},
    }
    learner = make()
    learner.select(advice=forms[form])
    assert learner.probabilities().tolist() == [0.125, 0.5, 0.375]


def test_labels_alone_and_abstaining() -> None:
    learner = make()
    learner.select(advice={"x": "b"})
    assert learner.probabilities().tolist() == [0.0, 1.0, 0.0]
    learner.select(advice={"x": "b", "y": None})
    assert learner.probabilities().tolist() == [0.0, 1.0, 0.0]
    learner.select(advice=["c", "c"])
    learner.select(advice=np.array([-1, 2]))
    assert learner.probabilities().tolist() == [0.0, 0.0, 1.0]
    learner.select(advice=np.array([[np.nan] * 3, [0.5, 0.5, 0.0]]))
    assert learner.probabilities().tolist() == [0.5, 0.5, 0.0]
    assert [each.arm for each in learner.select(2, advice=["a", "a"])] == ["a", "a"]


def test_late_feedback_saves_and_copies_continue_bit_for_bit() -> None:
    random = np.random.default_rng(0)
    advice = random.dirichlet(np.ones(3), size=(60, 2))
    learner, late = make(), []
    for t in range(30):
        late.append(learner.select(advice=advice[t]))
        if t % 3 == 2:
            learner.update(late.pop(random.integers(len(late))), random.normal())
    others = [umab.Learner.from_json(learner.to_json()), copy.deepcopy(learner)]
    assert others[0].experts == ("x", "y") and others[0].weights() == learner.weights()
    for each in (learner, *others):
        for at, choice in enumerate(late):
            each.update(choice, float(at))
        for t in range(30, 60):
            each.update(each.select(advice=advice[t]), 1.0 + t % 2)
    assert len({each.to_json() for each in (learner, *others)}) == 1


def test_a_draw_that_was_released_can_be_settled() -> None:
    one, two = make(), make()
    advice = {"x": "a", "y": [0.5, 0.25, 0.25]}
    for each in (one, two):
        each.update(each.select(advice=advice), 3.0)
    choice = one.select(advice=advice)
    draw = json.loads(json.dumps(two.release(two.select(advice=advice))))
    one.update(choice, 7.0)
    two.settle(draw, 7.0)
    assert one.weights() == two.weights()


def test_arms_may_change() -> None:
    learner = make()
    for _ in range(20):
        choice = learner.select(advice={"x": "a", "y": "b"})
        learner.update(choice, 1.0 if choice.arm == "a" else 2.0)
    open_choice, before = learner.select(advice={"x": "a", "y": "b"}), learner.weights()
    learner.add_arm("d")
    learner.remove_arm("c")
    assert learner.weights() == before and learner.probabilities().sum() == pytest.approx(1.0)
    assert learner.select(advice={"x": "d", "y": "d"}).arm == "d"
    learner.update(open_choice, 1.0)
    assert learner.weights() != before


@pytest.mark.parametrize(
    ("advice", "message"),
    [
        (None, "advice must be given in every round"),
        ({}, "at least one expert must give advice"),
        ({"x": None, "y": None}, "at least one expert must give advice"),
        ({"z": "a"}, "advice must come from the experts .*but got 'z'"),
        ({"x": "q"}, "arm must be one of"),
        ({"x": [0.5, 0.5]}, "a probability for each of 3 arms"),
        ({"x": [0.5, 0.6, 0.1]}, "sum to 1.* from 'x'"),
        ({"x": [1.5, -0.5, 0.0]}, "sum to 1.* from 'x'"),
        ({"x": [float("nan"), 1.0, 0.0]}, "sum to 1.* from 'x'"),
        ({"x": {"a": 0.5, "q": 0.5}}, "arm must be one of"),
        ({"x": ["0.5", 0.5, 0.0]}, "a probability must be a number"),
        (["a"], "one entry for each of 2 experts"),
        ("ab", "a dict of experts"),
        (7, "a dict of experts"),
        (np.ones((2, 3)), "sum to 1"),
        (np.ones((3, 2)), "2 experts × 3 arms"),
        (np.array([0, 3]), "indices of 3 arms"),
        (np.array([-1, -1]), "all abstain"),
        (np.array([0, 1, 2]), "one arm for each of 2"),
        (np.array(["a", "b"]), "pass labels in a list"),
        (np.full((2, 3), np.nan), "all abstain"),
    ],
)
def test_bad_advice_is_refused_and_changes_nothing(advice: Any, message: str) -> None:
    learner = make()
    learner.update(learner.select(advice=["a", "b"]), 1.0)
    before = learner.to_json()
    with pytest.raises((TypeError, ValueError), match=message):
        learner.select(advice=advice)
    assert learner.to_json() == before


def test_what_a_learner_over_experts_refuses() -> None:
    learner, other = make(), umab.Learner("umab-e", ["a", "b", "c"], experts=2)
    before = learner.to_json()
    theirs = other.select(advice=["a", "b"])
    for call, message in (
        (lambda: learner.update("a", 1.0), "must be told what select returned"),
        (lambda: learner.update(theirs, 1.0, foreign="learn"), "ticket"),
        (lambda: learner.absorb([("a", 0.5, 1.0)]), "must have made its choices itself"),
        (lambda: learner.replay(other.draw_of(theirs)), "cannot be repeated"),
        (lambda: learner.select(among=["a"], advice=["a", "b"]), "among must not be given with advice"),
        (lambda: umab.Learner("umab-e", 3), "pass experts="),
        (lambda: umab.Learner("umab-e", 3, experts=["x", "x"]), "must differ"),
        (lambda: umab.Learner("umab-e:experts=3", 3, experts=["x", "y"]), "from 3 experts, but got 2"),
        (lambda: umab.Learner("umab-w", 3, experts=2), "a policy over experts, such as umab-e"),
        (lambda: umab.Learner("umab-w", 3).select(advice=["a"]), "a policy over experts, such as umab-e"),
        (lambda: umab.Learners("umab-e", 3), "a policy without experts"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    assert learner.to_json() == before and umab.Learner("umab-w", 3).weights() == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass advice="),
        ({"advice": np.zeros((4, 2, 3))}, "expert 0 in round 0"),
        ({"advice": np.zeros((5, 2), dtype=int)}, "4 rounds"),
        ({"advice": np.full((4, 2), 3)}, "from expert 0 in round 0"),
        ({"advice": np.full((4, 2), -1)}, "none does in round 0"),
        ({"advice": np.zeros((4, 2))}, "whole numbers"),
        ({"advice": np.full((4, 2, 4), 0.25)}, "each of 3 arms"),
        ({"advice": np.zeros((4, 2), dtype=int), "device": "gpu"}, "must run on the processor"),
        ({"advice": np.zeros((4, 2), dtype=int), "eligible": np.eye(4, 3) == 0}, "away"),
    ],
)
def test_bad_advice_for_a_simulation_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        umab.simulate("umab-e", np.ones((4, 3)), progress=False, **options)


def test_advice_for_a_policy_without_experts_is_refused() -> None:
    with pytest.raises(ValueError, match="such as umab-e, but got umab-w"):
        umab.simulate("umab-w", np.ones((4, 3)), advice=np.zeros((4, 2), dtype=int), progress=False)


def test_names() -> None:
    assert "umab-e" not in umab.policies() and "umab-e" in umab.policies(advised=True)
    assert umab.policy("umab-e:form=entropy,experts=7") == umab.UMABE(form="entropy", experts=7)
    assert umab.UMABE(experts=7).name == "umab-e:experts=7"
    assert umab.UMABE(experts=6).form_for(3) == "barrier" and umab.UMABE(experts=7).form_for(3) == "entropy"
    with pytest.raises(ValueError, match="experts must be at least 1"):
        umab.UMABE(experts=0)
    with pytest.raises(ValueError, match="form must be one of"):
        umab.UMABE(form="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_rounding_says_nothing_about_experts_who_agree(form: str) -> None:
    advice = np.tile([0.3, 0.7], (8, 9, 1))
    advice[:, 0] = np.nan  # its share of an arm is a sum of weights, which rounding may put beside 0.3
    losses = np.random.default_rng(0).normal(size=(8, 2))
    *_, last = play(umab.UMABE(form=form), losses, advice=advice)  # type: ignore[arg-type]
    assert last.state.paid == 0.0 and set(last.state.weights) == {1.0 / 9.0}


def test_no_probability_is_above_1_so_that_saves_can_be_read() -> None:
    learner = umab.Learner("umab-e", 3, experts=5, seed=0)
    for t in range(200):
        choice = learner.select(advice=[0] * 5)  # the sum of the weights, which rounding may put above 1
        assert choice.probability <= 1.0
        umab.Learner.from_json(learner.to_json())
        learner.update(choice, 1.0)
        choice = learner.select(advice=[i % 3 for i in range(5)])
        learner.update(choice, float(choice.index) + t % 3)


def test_advice_that_rounding_has_put_above_1_does_not_keep_a_save_from_being_read() -> None:
    learner = umab.Learner("umab-e", 3, experts=2, seed=0)
    choice = learner.select(advice=[[1.0 + 2.0**-52, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert state_of(learner).advised[0] > 1.0
    umab.Learner.from_json(learner.to_json()).update(choice, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [0.0, 0.0]},
        {"weights": [-1.0, 2.0]},
        {"weights": [0.5, 0.6]},
        {"paid": -1.0},
        {"unit": 0.0},
        {"round": -5.0},
        {"form": 7.0},
        {"n_losses": -1.0},
    ],
)
def test_a_state_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    saved = json.loads(make().to_json())
    saved["state"] |= change
    with pytest.raises(ValueError, match="as it was written"):
        umab.Learner.from_json(json.dumps(saved))


@pytest.mark.parametrize("experts", [None, "xy", {"x": 1, "y": 2}, 2, 10**9, ["x"], ["x", "x"], ["x", None]])
def test_experts_in_a_file_are_checked(experts: Any) -> None:
    saved = {**json.loads(make().to_json()), "experts": experts}
    with pytest.raises(ValueError, match="as it was written"):
        umab.Learner.from_json(json.dumps(saved))
    other = {**json.loads(umab.Learner("umab-w", 2).to_json()), "experts": ["x"]}
    with pytest.raises(ValueError, match="a policy over experts"):
        umab.Learner.from_json(json.dumps(other))


def test_frames_are_read_by_their_labels_or_refused() -> None:
    pandas = pytest.importorskip("pandas")
    learner = make()
    learner.select(advice={"x": pandas.Series({"c": 1.0, "a": 0.0}), "y": None})
    assert learner.probabilities().tolist() == [0.0, 0.0, 1.0]
    learner.select(advice=pandas.Series({"y": "b", "x": "b"}))
    assert learner.probabilities().tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(TypeError, match="a dict of experts"):
        learner.select(advice=pandas.DataFrame(np.eye(3)[:2], index=["x", "y"], columns=["a", "b", "c"]))
    with pytest.raises((TypeError, ValueError)):
        learner.select(advice=np.ma.masked_array(np.eye(3)[:2], mask=[[True] * 3, [False] * 3]))


def test_single_precision_is_precise_enough() -> None:
    rows = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], dtype=np.float32)
    learner = make()
    learner.select(advice=rows)
    assert abs(learner.probabilities().sum() - 1.0) < 1e-15
    umab.simulate("umab-e", np.ones((4, 3)), advice=np.broadcast_to(rows, (4, 2, 3)), n_trials=2, progress=False)
