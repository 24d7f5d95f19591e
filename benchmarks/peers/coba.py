"""coba: experiments with contextual bandits; its Corral over fixed arms is an adversarial bandit."""

from coba.learners import CorralLearner, FixedLearner

REQUIREMENTS = ["coba==8.1.0"]
TAKES = "rewards"
LACKS = [
    "EXP3",
    "rewards outside [0, 1] for Corral",
    "a method to save a learner",
]
REFUSALS = ["assumes a loss between 0 and 1"]


def corral(rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    """Select and update. The Experiment of coba does the same, and takes half as long again."""
    choices = list(range(len(rewards[0])))
    single_arms = [FixedLearner([float(arm == other) for other in choices]) for arm in choices]
    learner = CorralLearner(single_arms, seed=seed)
    for row in rewards:
        arm, probability, details = learner.predict(None, choices)
        learner.learn(None, arm, row[arm], probability, **details)
        arms.append(arm)


POLICIES = {"Corral over single arms": corral}
