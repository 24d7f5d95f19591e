"""What is measured on the page `docs/changing.md`, about the recommended policy in a world that changes.

`python -m pages.changing docs` runs it, in some minutes, records the numbers beside the page, and writes them into the
page, between its two marks. Numbers of the suite are those of `docs/suite-changing.json`, which `make suite` writes.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from pages import returning
from pages.returning import MEDIANS, SEED, SPREAD, Table
from umab._support.files import write_atomically
from umab.engine.work import versions
from umab.research.experiments.contest import AT_RANDOM, RECOMMENDED, STEADY
from umab.research.experiments.runner import Summary
from umab.research.experiments.tracking import ABLATIONS, SHOWN
from umab.research.report import shell, words

PAGE, NUMBERS, SUITE = "changing.md", "changing.json", "suite-changing.json"
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"
"""The marks on the page; what is between them is written here."""

BOTH = (RECOMMENDED, STEADY)
LOCAL = "umab-l"

BEFORE = (10_000, 100_000, 1_000_000)
"""After how many requests the best upstream fails; it then fails for as many more."""
SLOWER = {"10 s": 1000.0, "1 s": 100.0, "100 ms": 10.0}
"""What a usual answer of the failed upstream takes, and how many times as long that is."""
N_RUNS = 9
LATEST = 20
"""The failed upstream is left when fewer than half of so many latest requests go to it."""

FOLLOWERS = (RECOMMENDED, "umab-r", "centred(umab-sh)")
"""Policies that follow changes, for failures that end."""

N_ARMS = 4
SEGMENT, N_SEGMENTS = 2_000, 10
DAY, N_DAYS, WAVE, GAP = 1_440, 10, 20.0, 0.5
"""The rounds of a day, the height of the daily wave in standard deviations, and what the arms differ by."""
N_TRIALS = 100


class Failure(NamedTuple):
    """How fast a policy leaves the best upstream after it fails."""

    n_before: int
    slower: str
    policy: str
    n_requests: int | None
    """The median over the runs; None if most runs do not leave it."""


def failing(n_before: int, factor: float) -> Table:
    """Return latencies in milliseconds; the first upstream, the best one, fails after `n_before` requests, for as many.

    It is then slower by a factor.
    """
    random = np.random.default_rng([SEED, n_before])
    table = random.lognormal(np.log(MEDIANS), SPREAD, (2 * n_before, len(MEDIANS)))
    table[n_before:, 0] *= factor
    return table


def requests_until_left(arms: npt.NDArray[Any], n_before: int) -> float:
    """Return after how many requests fewer than half of the latest ones go to the failed arm, 0; inf if never."""
    to_failed = np.cumsum(arms == 0)
    n_latest = to_failed[n_before:] - to_failed[n_before - LATEST : -LATEST]
    left = np.flatnonzero(2 * n_latest < LATEST)
    return float(left[0] + 1) if len(left) else math.inf


def failures(before: tuple[int, ...] = BEFORE) -> list[Failure]:
    """Let the best upstream fail after each number of requests, in each way, for both recommended policies."""
    found = []
    for n_before in before:
        for slower, factor in SLOWER.items():
            table = failing(n_before, factor)
            for policy in BOTH:
                runs = umab.simulate(policy, table, n_trials=N_RUNS, seed=SEED, keep="arms", progress=False).arms
                median = float(np.median([requests_until_left(arms, n_before) for arms in runs]))
                found.append(Failure(n_before, slower, policy, int(median) if math.isfinite(median) else None))
    return found


def taking_turns() -> Table:
    """Return normal losses with mean 0 for the best arm and 1 for the others; the arms are the best by turns."""
    n_rounds = SEGMENT * N_SEGMENTS
    means = np.ones((n_rounds, N_ARMS))
    means[np.arange(n_rounds), best_by_turns()] = 0.0
    return means + np.random.default_rng([SEED, SEGMENT]).standard_normal(means.shape)


def best_by_turns() -> npt.NDArray[np.intp]:
    """Return which arm is the best in each round of this table."""
    return np.arange(SEGMENT * N_SEGMENTS) // SEGMENT % N_ARMS


def mean_losses() -> dict[str, dict[str, float]]:
    """Return the mean loss per round where the arms are the best by turns; the oracle knows which one is."""
    table = taking_turns()
    runs = umab.simulate([*BOTH, AT_RANDOM], table, n_trials=N_TRIALS, seed=SEED, expected=True, progress=False)
    best_arm = float(table.sum(axis=0).min())
    found = {run.policy: _summary((run.final_regret + best_arm) / len(table)) for run in runs}
    known = float(table[np.arange(len(table)), best_by_turns()].mean())
    return {**found, "oracle": {"mean": known, "se": 0.0}}


def daily() -> Table:
    """Return normal losses whose level, the same for all arms, rises and falls with the time of day."""
    n_rounds = DAY * N_DAYS
    level = WAVE * np.sin(2.0 * np.pi * np.arange(n_rounds) / DAY)
    noise = np.random.default_rng([SEED, DAY]).standard_normal((n_rounds, N_ARMS))
    return level[:, None] + GAP * np.arange(N_ARMS) + noise


def shares_of_chance() -> dict[str, dict[str, float]]:
    """Return the regrets on the daily wave, as shares of the regret of choosing at random."""
    *runs, chance = umab.simulate(
        [STEADY, LOCAL, RECOMMENDED, AT_RANDOM], daily(), n_trials=N_TRIALS, seed=SEED, expected=True, progress=False
    )
    return {run.policy: _summary(run.final_regret / chance.mean[-1]) for run in runs}


def _summary(values: Table) -> dict[str, float]:
    mean, _, se, _ = Summary.of(values)
    return {"mean": mean, "se": se}


def measure(before: tuple[int, ...] = BEFORE) -> dict[str, Any]:
    """Run everything and return the numbers."""
    return {
        "failures": [failure._asdict() for failure in failures(before)],
        "returning": returning.measure(FOLLOWERS, returning.N_RUNS, returning.AFTER),
        "mean_losses": mean_losses(),
        "shares_of_chance": shares_of_chance(),
        "versions": versions(),
    }


def false_alarms(suite: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the false alarms on the stationary tables of both halves come to."""
    every = {name: each for half in suite["halves"].values() for name, each in half["false_alarms"].items()}
    covered = {name: each for name, each in every.items() if not each["moving"]}
    shares = {name: each["n_alarmed"] / each["n_trials"] for name, each in covered.items()}
    n_runs, n_alarmed, n_restarts, n_undone = (
        sum(each[key] for each in covered.values()) for key in ("n_trials", "n_alarmed", "n_restarts", "n_undone")
    )
    return {
        "n_tables": len(covered),
        "mean": n_alarmed / n_runs,
        "worst": max(shares, key=shares.__getitem__),
        "most": max(shares.values()),
        "above": [name for name, share in shares.items() if share > suite["most_false_alarms"]],
        "a_run": n_restarts / n_runs,
        "undone": n_undone / n_restarts if n_restarts else 0.0,
        "moving": {name: each["n_alarmed"] / each["n_trials"] for name, each in every.items() if name not in covered},
    }


def unnoticed(results: Mapping[str, Any]) -> list[str]:
    """Return the failures that the recommended policy seems not to notice.

    It leaves the arm late, and takes at least half as long as the other policy, which notices nothing.
    """
    found = {(each["n_before"], each["slower"], each["policy"]): each["n_requests"] for each in results["failures"]}
    missed = []
    for n_before, slower in dict.fromkeys((n_before, slower) for n_before, slower, _ in found):
        ours, other = (found[n_before, slower, policy] or math.inf for policy in BOTH)
        if ours > 2 * LATEST and 2 * ours >= other:
            missed.append(f"{n_before:,} requests with {slower}")
    return missed


def text(results: Mapping[str, Any], suite: Mapping[str, Any]) -> str:
    """Return what these numbers come to, from this page's file of numbers and from the suite's."""
    content = {
        "results": results,
        "suite": suite,
        "alarms": false_alarms(suite),
        "failures": {
            (each["n_before"], each["slower"], each["policy"]): each["n_requests"] for each in results["failures"]
        },
        "unnoticed": unnoticed(results),
        "before": list(dict.fromkeys(each["n_before"] for each in results["failures"])),
        "slower": list(SLOWER),
        "returning": returning.text(results["returning"]).rstrip(),
        "missed": returning.missed(results["returning"], RECOMMENDED),
        "followers": FOLLOWERS,
        "both": BOTH,
        "recommended": RECOMMENDED,
        "steady": STEADY,
        "shown": SHOWN,
        "off": {"nothing": RECOMMENDED, **ABLATIONS},
        "medians": MEDIANS,
        "n_runs": N_RUNS,
        "latest": LATEST,
        "segment": SEGMENT,
        "n_segments": N_SEGMENTS,
        "day": DAY,
        "n_days": N_DAYS,
        "wave": WAVE,
        "n_trials": N_TRIALS,
        "measured": _measured,
    }
    return shell.markdown(PAGE, content, __package__)


def _measured(number: Mapping[str, float | None]) -> str:
    """Return a number with its error; a dash if there is none."""
    value, se = number.get("mean", number.get("value")), number["se"]
    return "–" if value is None or se is None else words.measured(value, se)


def filled(page: str, measured: str) -> str:
    """Return the page with this text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    if not begin or END not in rest:
        raise ValueError(f"the page must have the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{measured}\n{END}{rest.partition(END)[2]}"


def write(docs: Path, before: tuple[int, ...] = BEFORE) -> None:
    """Measure, and write the numbers and the page."""
    results = json.loads(json.dumps(measure(before)))
    write_atomically(docs / NUMBERS, (json.dumps(results) + "\n").encode())
    suite = json.loads((docs / SUITE).read_text(encoding="utf-8"))
    page = (docs / PAGE).read_text(encoding="utf-8")
    write_atomically(docs / PAGE, filled(page, text(results, suite)).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
