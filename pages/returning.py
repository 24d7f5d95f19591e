"""Whether policies come back to an arm that failed for a while, and what they do where arms fail again and again.

`python -m pages.returning POLICY ...` measures policies, in about a minute each, and prints what it has found. The page
`docs/changing.md` has the same for the recommended policy and another one.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from umab._support.progress import Progress
from umab.research.experiments.contest import seed_of_part
from umab.research.experiments.runner import Summary
from umab.research.report import shell, words

SEED = 0

MEDIANS = (10.0, 20.0, 30.0, 40.0)
"""Milliseconds of a usual answer of each of four upstreams."""
SPREAD = 0.5
"""The standard deviation of the logarithm of an answer."""

TIMES = (10, 100, 1_000)
"""How many times as long the best upstream takes while it fails."""
BEFORE = (1_000, 10_000)
"""After how many requests it fails."""
LENGTHS = (50, 500, 5_000)
"""For how many requests it fails."""
AFTER = 20_000
"""How many requests follow."""
N_RUNS = 100
"""How many runs there are, each on a table of its own."""
BACK, OF_LATEST = 40, 50
"""A policy is back when at least so many of so many latest requests go to the upstream that has returned."""
ENOUGH, SLACK = 0.99, 100
"""The goal: so large a share of the runs come back, in the median after the length of the outage and so many more."""

FAILS = 100.0
"""How many times as long an upstream takes while it fails, where upstreams fail again and again."""
START = 1_000
"""After how many requests they begin to fail."""

Table = npt.NDArray[np.float64]


class Return(NamedTuple):
    """How a policy comes back to the best upstream after an outage."""

    n_before: int
    length: int
    times: int
    policy: str
    n_back: int
    """How many runs come back."""
    n_requests: int | None
    """After how many requests from the end of the outage on, in the median; None if most runs do not come back."""


class Scene(NamedTuple):
    """Upstreams that fail again and again, or return worse than they were."""

    about: str
    medians: Table
    """Requests × upstreams."""
    first: int
    """The first request that counts."""

    @property
    def best(self) -> npt.NDArray[np.intp]:
        """The best upstream of each request."""
        return np.asarray(self.medians.argmin(axis=1))


def scenes() -> dict[str, Scene]:
    """Return all scenes."""

    def usual(n_rounds: int) -> Table:
        return np.tile(MEDIANS, (START + n_rounds, 1))

    flapping, turns = usual(20 * 500), usual(20 * 500)
    for number in range(20):
        begin = START + 500 * number
        flapping[begin : begin + 50, 0] *= FAILS
        turns[begin : begin + 500, number % 2] *= FAILS
    found = {
        "flapping": Scene("the best one fails for 50 of every 500 requests, 20 times", flapping, START),
        "by turns": Scene("the best and the second one fail in turn, 10 times each, for 500 requests", turns, START),
    }
    for name, median, what in (("slower", 15.0, "still the best one"), ("too slow", 25.0, "no longer the best one")):
        worse = usual(500 + 5_000)
        worse[START : START + 500, 0] *= FAILS
        worse[START + 500 :, 0] = median
        about = (
            f"the best one fails for 500 requests and returns with a median of {median:g} ms, {what}; the 5,000 after"
        )
        found[name] = Scene(about, worse, START + 500)
    return found


def outage(n_before: int, length: int, times: float, n_after: int) -> Table:
    """Return the medians of upstreams of which the best one fails for a while."""
    medians = np.tile(MEDIANS, (n_before + length + n_after, 1))
    medians[n_before : n_before + length, 0] *= times
    return medians


def latencies(medians: Table, run: int) -> Table:
    """Return the latencies of a run, in milliseconds."""
    noise = np.random.default_rng([SEED, len(medians), run]).standard_normal(medians.shape)
    return np.asarray(medians * np.exp(SPREAD * noise))


def arms_of(policies: Sequence[str], table: Table, run: int) -> list[npt.NDArray[Any]]:
    """Return which upstreams the policies choose in a run."""
    seed = seed_of_part(SEED, run)
    results = umab.simulate(policies, table, n_trials=1, seed=seed, keep="arms", n_threads=1, progress=False)
    return [result.arms[0] for result in results]


def requests_until_back(arms: npt.NDArray[Any], start: int) -> float:
    """Return after how many requests from a start on most of the latest ones go to arm 0; inf if never."""
    to_returned = np.concatenate([[0], np.cumsum(arms[start:] == 0)])
    back = np.flatnonzero(to_returned[OF_LATEST:] - to_returned[:-OF_LATEST] >= BACK)
    return float(back[0] + OF_LATEST) if len(back) else math.inf


def measure(policies: Sequence[str], n_runs: int = N_RUNS, after: int = AFTER) -> dict[str, Any]:
    """Let upstreams fail in all these ways, and return how the policies do."""
    cases = [(n, length, times) for n in BEFORE for length in LENGTHS for times in TIMES]
    with Progress(n_runs * (len(cases) + len(scenes())), "failing upstreams", unit="runs") as bar:
        return {
            "n_runs": n_runs,
            "after": after,
            "returns": [each._asdict() for case in cases for each in _returns(*case, policies, n_runs, after, bar)],
            "scenes": {name: _scene(scene, policies, n_runs, bar) for name, scene in scenes().items()},
        }


def _returns(
    n_before: int, length: int, times: int, policies: Sequence[str], n_runs: int, after: int, bar: Progress
) -> list[Return]:
    medians, waits = outage(n_before, length, times, after), np.empty((len(policies), n_runs))
    for run in range(n_runs):
        chosen = arms_of(policies, latencies(medians, run), run)
        waits[:, run] = [requests_until_back(arms, n_before + length) for arms in chosen]
        bar.advance(1)
    found = []
    for policy, each in zip(policies, waits, strict=True):
        median = float(np.median(each))
        n_requests = int(median) if math.isfinite(median) else None
        found.append(Return(n_before, length, times, policy, int(np.isfinite(each).sum()), n_requests))
    return found


def _scene(scene: Scene, policies: Sequence[str], n_runs: int, bar: Progress) -> dict[str, Any]:
    """Return the shares of the requests that go to the best upstream of the moment, and the mean latencies."""
    best, counted = scene.best, np.arange(scene.first, len(scene.medians))
    shares, costs, oracle = (np.empty((len(policies), n_runs)) for _ in range(3))
    for run in range(n_runs):
        table = latencies(scene.medians, run)
        oracle[:, run] = table[counted, best[counted]].mean()
        for at, arms in enumerate(arms_of(policies, table, run)):
            shares[at, run] = (arms[counted] == best[counted]).mean()
            costs[at, run] = table[counted, arms[counted]].mean()
        bar.advance(1)
    return {
        "about": scene.about,
        "oracle": _summary(oracle[0]),
        "shares": {policy: _summary(each) for policy, each in zip(policies, shares, strict=True)},
        "latencies": {policy: _summary(each) for policy, each in zip(policies, costs, strict=True)},
    }


def _summary(values: Table) -> dict[str, float]:
    mean, _, se, _ = Summary.of(values)
    return {"mean": mean, "se": se}


def comes_back(each: Mapping[str, Any], n_runs: int) -> bool:
    """Whether a policy comes back as often, and as fast, as it should."""
    return (
        each["n_back"] >= ENOUGH * n_runs
        and each["n_requests"] is not None
        and each["n_requests"] <= each["length"] + SLACK
    )


def missed(results: Mapping[str, Any], policy: str) -> list[str]:
    """Return after which failures a policy does not come back often enough, or fast enough."""
    return [
        f"{each['length']:,} requests long, {each['times']:,} times as slow and after {each['n_before']:,} requests"
        for each in results["returns"]
        if each["policy"] == policy and not comes_back(each, results["n_runs"])
    ]


def text(results: Mapping[str, Any]) -> str:
    """Return what these numbers come to."""
    policies = list(dict.fromkeys(each["policy"] for each in results["returns"]))
    n_runs = results["n_runs"]
    content = {
        "results": results,
        "policies": policies,
        "returns": {
            (each["n_before"], each["length"], each["times"], each["policy"]): each for each in results["returns"]
        },
        "met": {
            policy: [comes_back(each, n_runs) for each in results["returns"] if each["policy"] == policy]
            for policy in policies
        },
        "comes_back": lambda each: comes_back(each, n_runs),
        "medians": MEDIANS,
        "before": BEFORE,
        "lengths": LENGTHS,
        "times": TIMES,
        "fails": FAILS,
        "start": START,
        "back": BACK,
        "of_latest": OF_LATEST,
        "enough": math.ceil(ENOUGH * n_runs),
        "slack": SLACK,
        "measured": lambda each: words.measured(each["mean"], each["se"]),
    }
    return shell.markdown("returning.md", content, __package__)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m pages.returning", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policy", nargs="+", help="the name of a policy")
    parser.add_argument("--runs", type=int, default=N_RUNS, metavar="N")
    options = parser.parse_args()
    print(text(json.loads(json.dumps(measure(options.policy, options.runs)))))
