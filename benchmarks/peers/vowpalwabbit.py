"""Vowpal Wabbit: contextual bandits in C++; it returns probabilities, and the caller draws."""

import random
from functools import partial

import vowpalwabbit

REQUIREMENTS = ["vowpalwabbit==9.11.9"]
TAKES = "losses"
LACKS = [
    "EXP3",
    "drawing the arm",
    "trials of any kind",
]


def play(options: str, losses: list[list[float]], seed: int, arms: list[int]) -> None:
    n_arms, draws = len(losses[0]), random.Random(seed)
    choices = range(n_arms)
    workspace = vowpalwabbit.Workspace(f"--cb_explore {n_arms} {options} --quiet")
    for row in losses:
        probabilities = workspace.predict("|")
        (arm,) = draws.choices(choices, weights=probabilities)
        workspace.learn(f"{arm + 1}:{row[arm]}:{probabilities[arm]} |")
        arms.append(arm)
    workspace.finish()


POLICIES = {"cb_explore, softmax": partial(play, "--softmax"), "cb_explore, default (ε-greedy)": partial(play, "")}
