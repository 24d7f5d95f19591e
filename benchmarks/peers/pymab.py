"""pymab: its policies and simulations come in Rust and, as a reference, in Python."""

from functools import partial
from typing import Any

import numpy as np
from pymab import BanditEnvironment, BernoulliReward, Experiment, ExperimentConfig
from pymab._reference.policies import EXP3Policy as InPython
from pymab.policies import EXP3Policy as InRust

REQUIREMENTS = ["pymab==2.0.1", "numpy==2.4.6"]
TAKES = "rewards"
LACKS = [
    "rewards outside [0, 1]",
    "trials on a table of losses",
    "a method to save a policy",
    "late feedback: the last draw's probabilities are used",
]
REFUSALS = ["invalid `reward`", "reward must be in"]


def play(policy_class: Any, rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    policy, random = policy_class(n_arms=len(rewards[0])), np.random.default_rng(seed)
    for row in rewards:
        arm = policy.select_action(rng=random)
        policy.update(action=arm, reward=row[arm])
        arms.append(arm)


def simulate(backend: str, rewards: list[list[float]], n_trials: int) -> None:
    """Run the simulation of pymab, which draws its own rewards of 0 and 1, with the means of the table."""
    table = np.array(rewards)
    n_rounds, n_arms = table.shape
    Experiment(
        environment=BanditEnvironment(means=table.mean(axis=0), reward_model=BernoulliReward()),
        policies={"EXP3": InRust(n_arms=n_arms)},
        config=ExperimentConfig(horizon=n_rounds, n_replicates=n_trials, seed=0, backend=backend),
    ).run()


POLICIES = {"EXP3Policy (Rust)": partial(play, InRust), "EXP3Policy (Python)": partial(play, InPython)}
SIMULATIONS = {"EXP3Policy (Rust)": partial(simulate, "rust"), "EXP3Policy (Python)": partial(simulate, "python")}
