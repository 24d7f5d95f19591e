"""The adapter for river, in river's own loops and against a Learner."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from river import bandit, stats

import umab
from umab.adapters.gymnasium import LossTableEnv
from umab.adapters.river import RiverPolicy

TABLE = np.random.default_rng(0).normal([0.0, 3.0, 50.0], 20.0, size=(300, 3))
POLICIES = ["recommended", "umab-g-a", "ahb"]


def run(policy: RiverPolicy, table: Any = TABLE, arms: Any = range(3)) -> list[Any]:
    """Play losses as rewards, arm k costing what stands in column k."""
    pulled = []
    for row in table:
        arm = policy.pull(arms)
        policy.update(arm, -row[list(arms).index(arm)])
        pulled.append(arm)
    return pulled


@pytest.mark.parametrize("name", POLICIES)
def test_river_evaluate_draws_what_simulate_draws(name: str) -> None:
    trace = list(
        bandit.evaluate(
            [RiverPolicy(name, seed=5), bandit.RandomPolicy(seed=5)], LossTableEnv(TABLE), n_episodes=2, seed=1
        )
    )
    expected = umab.simulate(name, TABLE, n_trials=1, seed=5).arms[0].tolist()
    for episode in (0, 1):
        steps = [step for step in trace if step["policy_idx"] == 0 and step["episode"] == episode]
        assert [step["arm"] for step in steps] == expected
        assert [step["reward"] for step in steps] == (-TABLE[np.arange(300), expected]).tolist()


def test_a_learner_that_is_told_losses_draws_the_same() -> None:
    policy = RiverPolicy("umab-g-a", seed=3)
    learner = umab.Learner("umab-g-a", 3, seed=3)
    for row in TABLE.tolist():
        choice = learner.select()
        assert policy.pull(range(3)) == choice.index
        learner.update(choice, row[choice.index])
        policy.update(choice.index, -row[choice.index])
    assert policy.learner is not None and policy.learner.probabilities().tolist() == learner.probabilities().tolist()
    assert policy.learner.outstanding == () and policy.learner.counters()[0].expired == 0


def test_it_learns_in_an_environment_of_river() -> None:
    env = gymnasium.make("river_bandits/KArmedTestbed-v0", max_episode_steps=1000)
    steps = list(
        bandit.evaluate(
            [RiverPolicy(seed=0), bandit.RandomPolicy(seed=0)], env, n_episodes=5, seed=0, reward_stat=stats.Sum()
        )
    )
    ours, random = (
        sum(step["reward"] for step in steps if step["policy_idx"] == which and step["step"] < 1000) for which in (0, 1)
    )
    assert ours > random + 2000  # of 5000 pulls, whose rewards have standard deviation 1


def test_arms_may_be_anything_and_the_order_of_pulls_is_that_of_the_labels() -> None:
    arms = [("a", 1), None, frozenset({"x"})]
    by_number = run(RiverPolicy(seed=2))
    policy = RiverPolicy(seed=2)
    assert run(policy, arms=arms) == [arms[k] for k in by_number]
    assert policy.ranking[-1] == arms[2]


def test_arms_come_and_go() -> None:
    policy = RiverPolicy("umab-g-a", seed=0)
    run(policy, arms=["a", "b", "c"])
    assert set(run(policy, TABLE[:, :2], arms=["c", "b"])) == {"b", "c"}
    with_new = run(
        policy, np.hstack([TABLE[:, :1] + 100.0, TABLE[:, :1] + 100.0, TABLE[:, :1]]), arms=["c", "b", "new"]
    )
    assert with_new[-50:].count("new") > 30
    assert policy.learner is not None and policy.learner.arms == (0, 1, 2, 3)


def test_a_late_reward_has_the_probability_of_its_own_pull() -> None:
    policy, learner = RiverPolicy("umab-g-a", max_delay=5, seed=0), umab.Learner("umab-g-a", 2, seed=0)
    waiting: list[tuple[umab.Choice, float]] = []
    for row in TABLE.tolist():
        choice = learner.select()
        assert policy.pull("ab") == "ab"[choice.index]
        waiting.append((choice, row[choice.index]))
        if len(waiting) > 5:  # by now some arms were pulled more than once, each time with another probability
            late, loss = waiting.pop(0)
            learner.update(late, loss)
            policy.update("ab"[late.index], -loss)
    assert policy.learner is not None and policy.learner.probabilities().tolist() == learner.probabilities().tolist()


def test_a_reward_that_never_comes_does_not_shift_those_that_do() -> None:
    """As in a replay of a log, where most pulls have no reward."""
    rng = np.random.default_rng(0)
    policy, learner = RiverPolicy("umab-g-a", seed=0), umab.Learner("umab-g-a", ["a", "b"], seed=0)
    history = [(["a", "b"], None, "ab"[int(rng.integers(2))], float(rng.normal())) for _ in range(500)]
    n_used = 0
    for _, _, arm, reward in history:
        choice = learner.select()
        if choice.arm == arm:
            learner.update(choice, -reward)
            n_used += 1
    _, used = bandit.evaluate_offline(policy, history)
    assert used == n_used and 200 < used < 300
    assert policy.learner is not None and policy.learner.probabilities().tolist() == learner.probabilities().tolist()
    assert len(policy.learner.outstanding) <= 1 and len(policy._open) <= 1


def test_a_reward_that_comes_too_late_or_twice_is_refused_and_changes_nothing() -> None:
    policy = RiverPolicy("uniform", seed=0)
    first = policy.pull("ab")
    while (second := policy.pull("ab")) == first:
        pass
    with pytest.raises(ValueError, match=f"max_delay=0 .*arm='{first}'"):
        policy.update(first, 1.0)
    policy.update(second, 1.0)
    with pytest.raises(ValueError, match=f"max_delay=0 .*arm='{second}'"):
        policy.update(second, 1.0)
    assert policy._n == 1


def test_a_reward_of_an_arm_that_was_never_pulled_is_taken_as_from_elsewhere() -> None:
    policy = RiverPolicy("umab-g-a", seed=0)
    policy.pull(["a"])
    policy.update("a", 0.0)
    policy.update("b", 40.0)
    assert policy.ranking == ["b", "a"]
    learner = umab.Learner("umab-g-a", [0], seed=0, maximize=True)
    learner.update(learner.select(), reward=0.0)
    learner.add_arm(1)
    learner.update(1, reward=40.0)
    assert policy.learner is not None and policy.learner.probabilities().tolist() == learner.probabilities().tolist()


def test_pulls_of_the_burn_in_have_probability_one() -> None:
    policy, learner = RiverPolicy("umab-g-a", burn_in=2, max_delay=1, seed=0), umab.Learner("umab-g-a", 2, seed=0)
    for arm in "aabb":
        assert policy.pull("ab") == arm
        policy.update(arm, -3.0)
        learner.update("ab".index(arm), 3.0, probability=1.0)
    assert policy.learner is not None and policy.learner.probabilities().tolist() == learner.probabilities().tolist()
    assert policy.pull("ab") == "ab"[learner.select().index] and policy._counts == {"a": 2, "b": 2}
    late = RiverPolicy("umab-g-a", burn_in=1, max_delay=3, seed=0)
    assert [late.pull("ab"), late.pull("ab")] == ["a", "a"]
    for _ in range(2):  # both are answered, though one is beyond what the burn-in wanted
        late.update("a", 1.0)


def test_clones_start_afresh_and_copies_go_on() -> None:
    policy = RiverPolicy(umab.UMABGA(rate=2.0), burn_in=1, seed=4)
    pulled = run(policy)
    assert run(policy.clone()) == pulled
    again = policy.clone({"seed": 9})
    assert (again.policy, again.burn_in, again.max_delay, again.seed) == (umab.UMABGA(rate=2.0), 1, 0, 9)
    assert run(again) != pulled
    for copied in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert run(copied) == run(copy.deepcopy(policy))


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_refused_reward_changes_nothing(reward: float) -> None:
    policy = RiverPolicy(seed=0)
    arm = policy.pull("ab")
    with pytest.raises(ValueError, match=f"reward={reward} "):
        policy.update(arm, reward)
    assert policy._n == 0
    policy.update(arm, 1.0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"arm_ids .*none"):
        RiverPolicy().pull([])
    with pytest.raises(ValueError, match="umab-x"):
        RiverPolicy("umab-x")
    with pytest.raises(ValueError, match="max_delay=-1"):
        RiverPolicy(max_delay=-1)
    policy = RiverPolicy(seed=0)
    arm = policy.pull("ab")
    with pytest.raises(TypeError, match=r"reward .*\(1\.0, 2\.0\)"):
        policy.update(arm, 1.0, 2.0)


def test_the_table_of_river_shows_the_arms() -> None:
    policy = RiverPolicy("umab-g-a", seed=0)
    run(policy)
    assert repr(policy).splitlines()[0].split() == ["Arm", "ID", "Reward", "Pulls", "Share"]
    assert policy.ranking[0] in (0, 1)
