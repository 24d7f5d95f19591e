"""bayesianbandits: agents with Bayesian models; its EXP3A uses averages in place of sums."""

import numpy as np
from bayesianbandits import EXP3A, Agent, Arm, NormalInverseGammaRegressor

REQUIREMENTS = ["bayesianbandits==1.5.0", "numpy==2.4.6"]
TAKES = "rewards"
LACKS = [
    "trials of any kind",
    "a bound, as its documentation says",
    "late feedback: the current probabilities are used",
]


def exp3a(rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    models = [Arm(arm, learner=NormalInverseGammaRegressor()) for arm in range(len(rewards[0]))]
    agent = Agent(models, EXP3A(), random_seed=seed)
    for row in rewards:
        (arm,) = agent.pull()
        agent.update(np.array([row[arm]]))
        arms.append(arm)


POLICIES = {"EXP3A": exp3a}
