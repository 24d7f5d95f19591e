"""umab, measured like the others; it runs in the environment of the driver."""

from functools import partial

import umab

REQUIREMENTS = ["umab"]
TAKES = "losses"


def play(policy: str, losses: list[list[float]], seed: int, arms: list[int]) -> None:
    learner = umab.Learner(umab.policy(policy).for_horizon(len(losses)), arms=len(losses[0]), seed=seed)
    for row in losses:
        choice = learner.select()
        learner.update(choice, row[choice.index])
        arms.append(choice.index)


def simulate(policy: str, n_threads: int | None, losses: list[list[float]], n_trials: int) -> None:
    umab.simulate(policy, losses, n_trials=n_trials, n_threads=n_threads, expected=False, keep="summary")


NAMES = ["exp3", "tsallis-inf", "umab-g-a", umab.recommended().name]
ALL_THREADS = ", all threads"
POLICIES = {name: partial(play, name) for name in NAMES}
SIMULATIONS = {name + more: partial(simulate, name, n) for name in NAMES for more, n in (("", 1), (ALL_THREADS, None))}
