"""MABWiser: stochastic and contextual bandits in batches."""

from functools import partial
from typing import Any

from mabwiser.mab import MAB, LearningPolicy

REQUIREMENTS = ["mabwiser==2.7.4", "numpy==2.4.6"]
TAKES = "rewards"
LACKS = [
    "EXP3 or another adversarial policy",
    "a choice before the first update",
    "trials on a table of losses",
    "a method to save a policy",
]


def play(policy: Any, rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    """Play every arm once, since MABWiser chooses only after a first fit; then select and update."""
    n_arms = len(rewards[0])
    mab = MAB(list(range(n_arms)), policy, seed=seed)
    mab.fit(list(range(n_arms)), [rewards[arm][arm] for arm in range(n_arms)])
    arms.extend(range(n_arms))
    for row in rewards[n_arms:]:
        arm = mab.predict()
        mab.partial_fit([arm], [row[arm]])
        arms.append(arm)


POLICIES = {
    "Softmax": partial(play, LearningPolicy.Softmax()),
    "EpsilonGreedy": partial(play, LearningPolicy.EpsilonGreedy()),
}
