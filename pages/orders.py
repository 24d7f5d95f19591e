"""What the order of arrival costs: feedback that overtakes other feedback, beside the same in the order of draws.

`python -m pages.orders POLICY ...` measures policies, in some minutes, and prints what it has found; the page
`docs/delays.md` has the same for the policies there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from pages import late
from umab._support.progress import Progress
from umab.research.experiments.contest import RECOMMENDED, STEADY, estimate, resampled_trials, seed_of_part
from umab.research.report import shell

SEED = 0

POLICIES = (RECOMMENDED, STEADY)

N_ROUNDS, N_TRIALS = 20_000, 100
"""Visits, and trials, each on a table of its own."""
SHARES_OF_BUYERS = (0.05, 0.08, 0.11, 0.14)
"""Which share of the visitors order something, for each arm."""
WORTH = 20.0
"""What an order is worth on average; it is exponential."""
WAITS = (100, 500, 2_000)
"""After how many visits a 0 is reported if there was no order."""
SOON = {"at once": 0.0, "within a tenth of the wait, on average": 0.1}
"""When orders arrive: their mean delay as a share of the wait; they are geometric, and never later than the wait."""

GOAL = 0.9
"""The gain should be at least so large a share of the gain in the order of draws."""
IN_ORDER = "constant"
"""The kind of delays with which feedback arrives in the order of draws."""
LEAST_GAIN = 0.05
"""A policy that gains less than this share of what choosing at random costs, in the order of draws, has no ratio."""

Table = npt.NDArray[np.float64]


class Cell(NamedTuple):
    """The gain with some delays, as a share of that with constant delays of the same length."""

    ratio: float
    table: str
    kind: str
    share: float
    """The length of the delays, as a share of the rounds."""


def shop(trial: int) -> Table:
    """Return losses: minus what each visitor buys, for each arm."""
    random = np.random.default_rng([SEED, trial])
    shape = (N_ROUNDS, len(SHARES_OF_BUYERS))
    return np.where(random.random(shape) < SHARES_OF_BUYERS, -random.exponential(WORTH, shape), 0.0)


def delays_of(losses: Table, wait: int, soon: float, trial: int) -> npt.NDArray[np.int64]:
    """Return the delays if orders arrive after this share of the wait on average, and zeros after the whole wait."""
    random = np.random.default_rng([SEED, trial, wait])
    early = np.minimum(random.geometric(1.0 / (1.0 + soon * wait), losses.shape) - 1, wait)
    return np.where(losses < 0.0, early, wait)


def measure(policies: Sequence[str] = POLICIES, n_trials: int = N_TRIALS) -> dict[str, Any]:
    """Return how much policies gain over choosing at random in the shop: as it is, in the order of draws, and at once.

    Gains are shares of what the best arm gains.
    """
    found = []
    with Progress(n_trials * len(WAITS) * len(SOON), "the order of arrival", unit="tables") as bar:
        for wait in WAITS:
            for when, soon in SOON.items():
                ways = np.empty((3, len(policies), n_trials))
                possible = np.empty(n_trials)
                for trial in range(n_trials):
                    losses = shop(trial)
                    possible[trial] = losses.mean(axis=1).sum() - losses.sum(axis=0).min()
                    for at, given in enumerate((delays_of(losses, wait, soon, trial), wait, 0)):
                        ways[at, :, trial] = possible[trial] - _regrets(policies, losses, given, trial)
                    bar.advance(1)
                for at, policy in enumerate(policies):
                    gains = ways[:, at]
                    found.append(
                        {
                            "wait": wait,
                            "when": when,
                            "policy": policy,
                            "gain": _ratio(gains[0], possible),
                            "in_order": _ratio(gains[1], possible),
                            "prompt": _ratio(gains[2], possible),
                            "ratio": _ratio(gains[0], gains[1]),
                        }
                    )
    return {"n_trials": n_trials, "cells": found}


def _regrets(policies: Sequence[str], losses: Table, delays: Any, trial: int) -> Table:
    """Return the expected regrets of one trial."""
    results = umab.simulate(
        policies,
        losses,
        n_trials=1,
        seed=seed_of_part(SEED, trial),
        expected=True,
        keep="summary",
        delays=delays,
        n_threads=1,
        progress=False,
    )
    return np.array([result.final_regret[0] for result in results])


def _ratio(over: Table, under: Table) -> dict[str, float]:
    """Return the quotient of the sums over trials, with its standard error."""
    weights = resampled_trials(len(over))
    return estimate(over.sum() / under.sum(), (weights @ over) / (weights @ under))._asdict()


def cells(scores: Mapping[str, Any], shares: Sequence[float], policy: str) -> list[Cell] | None:
    """Return the ratios of a policy on the tables of `make delays`; None if it gains too little for one."""
    found = []
    for table, by_kind in scores.items():
        if table in late.GROUPS or policy not in by_kind[IN_ORDER]:
            continue
        for kind in (each for each in by_kind if each != IN_ORDER):
            for at, share in enumerate(shares):
                gain = 1.0 - by_kind[IN_ORDER][policy][at]["mean"]
                if gain < LEAST_GAIN:
                    return None
                if share > 0.0:
                    found.append(Cell((1.0 - by_kind[kind][policy][at]["mean"]) / gain, table, kind, share))
    return found


def text(shopping: Mapping[str, Any], scores: Mapping[str, Any], shares: Sequence[float]) -> str:
    """Return what these numbers come to: those of the shop, and those of the tables of `make delays`."""
    policies = list(dict.fromkeys(name for by_kind in scores.values() for name in by_kind[IN_ORDER]))
    found = {
        name: cells(scores, shares, name)
        for name in policies
        if name != late.POOL and name not in late.WITHOUT.values()
    }
    content = {
        "shopping": shopping,
        "found": {name: each for name, each in found.items() if each},
        "gainless": [name for name, each in found.items() if each is None],
        "kinds": late.KINDS,
        "in_order": late.KINDS[IN_ORDER].title,
        "goal": GOAL,
        "n_rounds": N_ROUNDS,
        "buyers": SHARES_OF_BUYERS,
        "worth": WORTH,
        "least_gain": LEAST_GAIN,
        "measured": lambda each: f"{each['value']:.3f} ± {each['se']:.3f}",
    }
    return shell.markdown("orders.md", content, __package__)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m pages.orders", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policy", nargs="+", help="the name of a policy")
    parser.add_argument("--trials", type=int, default=N_TRIALS, metavar="N")
    options = parser.parse_args()
    shopping = json.loads(json.dumps(measure(options.policy, options.trials)))
    played = late.measure(2 * options.trials, policies=options.policy)
    print(text(shopping, played["scores"], played["shares"]))
