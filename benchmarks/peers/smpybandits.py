"""SMPyBandits: a research library with many policies."""

from functools import partial
from typing import Any

import numpy as np
from SMPyBandits.Policies.Exp3 import Exp3
from SMPyBandits.Policies.TsallisInf import TsallisInf

REQUIREMENTS = ["SMPyBandits==0.9.7", "numpy==1.24.4", "scipy==1.11.4"]  # newer versions lack what it imports
TAKES = "rewards"
LACKS = [
    "a range other than [0, 1] for these policies, although one can be given",
    "a seed of its own",
    "a method to save a policy",
    "late feedback: the current probabilities are used",
]


def play(policy_class: Any, rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    """Select and update; the Evaluator of SMPyBandits does the same, with more work around it."""
    np.random.seed(seed)  # SMPyBandits draws from NumPy's global state
    policy = policy_class(len(rewards[0]))
    policy.startGame()
    for row in rewards:
        arm = int(policy.choice())
        policy.getReward(arm, row[arm])
        arms.append(arm)


POLICIES = {"Exp3": partial(play, Exp3), "TsallisInf": partial(play, TsallisInf)}
