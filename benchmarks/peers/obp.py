"""Open Bandit Pipeline: evaluation from logs; its policies without context are ε-greedy and Thompson sampling."""

from obp.policy import EpsilonGreedy

REQUIREMENTS = ["obp==0.4.1", "numpy==2.4.6"]  # it imports PyTorch: some gigabytes
TAKES = "rewards"
LACKS = [
    "EXP3 or another adversarial policy",
    "trials on a table of losses (it replays logs)",
    "a method to save a policy",
]


def epsilon_greedy(rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    """Set ε, since the default of ε = 1 draws uniformly for ever."""
    policy = EpsilonGreedy(n_actions=len(rewards[0]), epsilon=0.1, random_state=seed)
    for row in rewards:
        arm = int(policy.select_action()[0])
        policy.update_params(action=arm, reward=row[arm])
        arms.append(arm)


POLICIES = {"EpsilonGreedy (epsilon=0.1)": epsilon_greedy}
