"""striatum: contextual bandits that keep their history and their model in storage objects."""

from striatum.bandit import Exp3
from striatum.storage import Action, MemoryActionStorage, MemoryHistoryStorage, MemoryModelStorage

REQUIREMENTS = ["striatum==0.2.5", "numpy==2.4.6"]
TAKES = "rewards"
LACKS = [
    "a guard on the range of rewards",
    "trials of any kind",
    "a history that does not grow with every round",
]


def exp3(rewards: list[list[float]], seed: int, arms: list[int]) -> None:
    actions = MemoryActionStorage()
    actions.add([Action(arm) for arm in range(len(rewards[0]))])
    policy = Exp3(MemoryHistoryStorage(), MemoryModelStorage(), actions, random_state=seed)
    for row in rewards:
        history, recommendation = policy.get_action()
        arm = int(recommendation.action.id)
        policy.reward(history, {arm: row[arm]})
        arms.append(arm)


POLICIES = {"Exp3": exp3}
