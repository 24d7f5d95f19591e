"""The environment of a table of losses, by Gymnasium's own checker and against Result."""

from __future__ import annotations

import copy
import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import umab
from umab.adapters.gymnasium import LossTableEnv

TABLE = np.random.default_rng(0).normal([5.0, 6.0, 7.0], 30.0, size=(200, 3))


def test_it_passes_the_check_of_gymnasium() -> None:
    check_env(LossTableEnv(TABLE), skip_render_check=True)  # there is nothing to render


def test_an_episode_has_the_losses_and_the_regret_of_a_simulation() -> None:
    result = umab.simulate("umab-g-a", TABLE, n_trials=1, seed=3, expected=False)
    env = LossTableEnv(TABLE)
    for _ in range(2):
        assert env.reset(seed=8) == (0, {})
        for at, arm in enumerate(result.arms[0]):
            observation, reward, terminated, truncated, info = env.step(arm)
            assert observation == 0 and not truncated and terminated == (at == 199)
            assert reward == -TABLE[at, arm] and info["loss"] == TABLE[at, arm] and info["round"] == at
            assert info["regret"] == result.regret[0, at]


def test_a_learner_plays_it() -> None:
    env, learner = LossTableEnv(TABLE), umab.Learner("umab-g-a", 3, seed=3, maximize=True)
    env.reset()
    pulled, terminated = [], False
    while not terminated:
        choice = learner.select()
        _, reward, terminated, _, _ = env.step(choice.index)
        learner.update(choice, reward=reward)
        pulled.append(choice.index)
    assert pulled == umab.simulate("umab-g-a", TABLE, n_trials=1, seed=3).arms[0].tolist()


def test_losses_of_any_size_are_exact() -> None:
    env = LossTableEnv([[1.7e308, -1.7e308], [5e-324, 0.0]])
    env.reset()
    _, reward, _, _, info = env.step(0)
    assert reward == -1.7e308 and info["regret"] == math.inf
    _, reward, _, _, _ = env.step(1)
    assert reward == 0.0 and math.copysign(1.0, reward) == 1.0


def test_spaces_are_those_of_the_table() -> None:
    env = LossTableEnv(umab.Losses.of(TABLE, arms=["x", "y", "z"]))
    assert env.action_space == gymnasium.spaces.Discrete(3) and env.observation_space == gymnasium.spaces.Discrete(1)
    assert env.losses.arms == ("x", "y", "z")
    with pytest.raises(ValueError, match=r"finite.*nan"):
        LossTableEnv([[math.nan, 1.0]])


def test_a_copy_goes_its_own_way() -> None:
    env = LossTableEnv(TABLE)
    env.reset()
    env.step(0)
    other = copy.deepcopy(env)
    env.step(2)
    assert other.step(1)[4]["round"] == 1 and env.step(1)[4]["round"] == 2


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    env = LossTableEnv(TABLE[:1])
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset .*first step"):
        env.step(0)
    env.reset()
    for action, message in ((-1, "action=-1"), (3, "action .*at most 2")):
        with pytest.raises(ValueError, match=message):
            env.step(action)
    assert env.step(2)[1:3] == (-TABLE[0, 2], True)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"all 1 .*reset"):
        env.step(0)


def test_wrappers_of_gymnasium_work() -> None:
    env = gymnasium.wrappers.TimeLimit(LossTableEnv(TABLE), max_episode_steps=5)
    env.reset()
    assert [env.step(0)[3] for _ in range(5)] == [False] * 4 + [True]
