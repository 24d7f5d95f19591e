"""Compare two commits: both as wheels, in two processes that take turns.

`python -m benchmarks.before HEAD~1` prints the ratios of the times of HEAD to the times of HEAD~1: for simulations with
every policy that both have, which count sampled regret, and for one decision at a time. Only public names are used, so
any two commits can be compared. A turn takes the processor time of the fastest of three short runs, and what counts is
the median over turns: other work on the machine hardly moves it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Ratio, ratio_of_turns

ROOT = Path(__file__).parent.parent
SIZES = (2, 10, 100)

WORKER = """
import json, sys, time, warnings
import numpy as np
import umab

warnings.simplefilter("ignore")


def losses_of(policy, n_rounds, n_arms):
    table = np.random.default_rng(0).normal(np.linspace(0.0, 1.0, n_arms), 1.0, size=(n_rounds, n_arms))
    lowest, highest = policy.loss_range
    if policy.needs_range:
        return lowest + (highest - lowest) * np.modf(np.abs(table))[0]
    return np.abs(table) if lowest == 0.0 else table


def simulated(policy, n_arms):
    n_trials = max(64, 1600 // n_arms)
    table = umab.Losses.of(losses_of(policy, 1000, n_arms))
    return lambda: umab.simulate(
        policy, table, n_trials=n_trials, expected=False, n_threads=1, keep="summary", progress=False
    )


def online(policy, n_arms):
    losses = losses_of(policy, 5000, 1)[:, 0].tolist()

    def run():
        learner = umab.Learner(policy, n_arms, seed=0)
        for loss in losses:
            learner.update(learner.select(), loss)

    return run


print(json.dumps({n: umab.policy(n).full_information for n in umab.policies()}), flush=True)
works = {}
for line in sys.stdin:
    kind, name, n_arms = case = tuple(json.loads(line))
    if case not in works:
        policy = umab.policy(name).for_horizon(1000 if kind == "simulate" else 5000)
        works = {case: (simulated if kind == "simulate" else online)(policy, n_arms)}
        works[case]()
    times = []
    for _ in range(3):
        start = time.process_time()
        works[case]()
        times.append(time.process_time() - start)
    print(min(times), flush=True)  # the fastest of a few: other work on the machine can only add time
"""


class Worker:
    """A process with the umab of some commit."""

    def __init__(self, folder: Path) -> None:
        settings = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=settings,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.policies: dict[str, bool] = json.loads(self._answer())
        """Whether each sees the losses of all arms, as no learner does."""

    def seconds(self, *case: Any) -> float:
        """Return how long a case takes."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def unpacked_wheel(revision: str, folder: Path) -> Path:
    """Return a folder with the files that the wheel of a commit installs."""
    source, wheels, unpacked = (folder / name for name in ("source", "wheels", "unpacked"))
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(source)], input=archive, check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(source)]
    subprocess.run(pip, check=True)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(unpacked)
    return unpacked


@contextlib.contextmanager
def workers(now: str, before: str) -> Iterator[tuple[Worker, Worker]]:
    """Yield a process of each of two commits."""
    with tempfile.TemporaryDirectory() as folder:
        made = [Worker(unpacked_wheel(revision, Path(folder, name))) for name, revision in (("a", now), ("b", before))]
        try:
            yield made[0], made[1]
        finally:
            for each in made:
                each.close()


def compared(now: Worker, before: Worker, case: tuple[str, str, int], repeats: int) -> Ratio:
    """Return the ratio of the times of a case; the two alternate in who goes first."""
    turns = []
    for turn in range(repeats):
        order = (now, before) if turn % 2 else (before, now)
        seconds = {worker: worker.seconds(*case) for worker in order}
        turns.append((seconds[now], seconds[before]))
    mine, others = (iter(each) for each in zip(*turns, strict=True))
    return ratio_of_turns(lambda: next(mine), lambda: next(others), repeats=repeats)


def main() -> None:
    """Compare the two commits that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the commit to compare with")
    parser.add_argument("--now", default="HEAD", help="the commit to measure (default: HEAD)")
    parser.add_argument("--repeats", type=int, default=21, help="turns per case (default: 21)")
    parser.add_argument("--only", metavar="WORD", default="", help="only cases whose line contains this word")
    options = parser.parse_args()
    worst: dict[str, tuple[float, str]] = {}
    with workers(options.now, options.before) as (now, before):
        names = [name for name in now.policies if name in before.policies]
        cases = [("simulate", name, n_arms) for name in names for n_arms in SIZES]
        cases += [("online", name, 10) for name in names if not now.policies[name]]
        for case in (case for case in cases if options.only in f"{case[0]} {case[1]} n={case[2]}"):
            kind, name, n_arms = case
            ratio = compared(now, before, case, options.repeats)
            print(f"{kind:10}{name:18}n = {n_arms:<5}{ratio}", flush=True)
            worst[kind] = max(worst.get(kind, (0.0, "")), (ratio.median, f"{name}, n = {n_arms}"))
    for kind, (median, where) in worst.items():
        print(f"largest median ratio, {kind}: {median:.3f} ({where})")


if __name__ == "__main__":
    main()
