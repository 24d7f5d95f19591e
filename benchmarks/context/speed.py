"""How long decisions with advice take, as ratios taken in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import umab

N_ARMS, N_EXPERTS = 10, 20


class Speed(NamedTuple):
    """A line of the table."""

    what: str
    ratio: float
    target: float | None
    note: str


def rounds_of(learner: umab.Learner, advice: object = None) -> Callable[[int], None]:
    """Return a function that plays so many rounds."""

    def play(n_rounds: int) -> None:
        for _ in range(n_rounds):
            choice = learner.select() if advice is None else learner.select(advice=advice)
            learner.update(choice, 1.0 + choice.index)

    return play


def ratio(first: Callable[[int], None], second: Callable[[int], None], n_rounds: int = 3000, turns: int = 15) -> float:
    """Return how many times as long the first takes: the median over turns that they take one after the other."""
    for play in (first, second):
        play(n_rounds)
    found = []
    for _ in range(turns):
        spent = []
        for play in (first, second):
            began = time.perf_counter()
            play(n_rounds)
            spent.append(time.perf_counter() - began)
        found.append(spent[0] / spent[1])
    return statistics.median(found)


def decisions() -> list[Speed]:
    """Compare a decision with advice with a plain one."""
    random, names = np.random.default_rng(0), [f"expert {i}" for i in range(N_EXPERTS)]
    plain = rounds_of(umab.Learner("centred(umab-s)", N_ARMS, seed=0))
    rows = random.dirichlet(np.ones(N_ARMS), size=N_EXPERTS)
    labels = {name: int(random.integers(N_ARMS)) for name in names}
    given = {"labels in a dict": labels, "labels in a list": list(labels.values()), "an array of float64": rows}
    note = f"{N_ARMS} arms, {N_EXPERTS} experts; select + update, beside centred(umab-s)"
    return [
        Speed(
            f"a decision with advice, {what}",
            ratio(rounds_of(umab.Learner("umab-e", N_ARMS, experts=names, seed=0), advice), plain),
            3.0,
            note,
        )
        for what, advice in given.items()
    ]


def growth() -> list[Speed]:
    """Compare the simulation of many experts with that of half as many, and of many arms, with sampled regret."""

    def playing(n_experts: int, n_arms: int) -> Callable[[int], None]:
        random = np.random.default_rng(0)
        losses = random.normal(size=(64, n_arms))  # few rounds, so that the advice stays near the processor
        advice = random.dirichlet(np.ones(n_arms), size=(64, n_experts))
        policy = umab.UMABE(form="entropy")
        return lambda n_trials: umab.simulate(  # type: ignore[return-value]
            policy,
            losses,
            advice=advice,
            n_trials=n_trials,
            expected=False,
            keep="summary",
            n_threads=1,
            progress=False,
        )

    return [
        Speed(
            f"simulation, entropy: {4 * n_experts if more == 'experts' else n_experts} experts and "
            f"{4 * n_arms if more == 'arms' else n_arms} arms beside {n_experts} and {n_arms}",
            ratio(
                playing(4 * n_experts if more == "experts" else n_experts, 4 * n_arms if more == "arms" else n_arms),
                playing(n_experts, n_arms),
                64,
                9,
            ),
            4.4,
            f"four times as many {more}",
        )
        for more, n_experts, n_arms in (("experts", 100, 20), ("arms", 100, 20))
    ]
