"""river: a library for learning from streams; its bandits include EXP3."""

from river import bandit

REQUIREMENTS = ["river==0.26.1"]
TAKES = "rewards"
LACKS = [
    "a guard on the range of rewards",
    "trials on a table of losses",
    "late feedback: the last draw's probabilities are used",
]


def exp3(rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    """Set γ, which has no default in river."""
    policy = bandit.Exp3(gamma=0.1, seed=seed)
    choices = list(range(len(rewards[0])))
    for row in rewards:
        arm = policy.pull(choices)
        policy.update(arm, row[arm])
        arms.append(arm)


POLICIES = {"Exp3 (gamma=0.1)": exp3}
