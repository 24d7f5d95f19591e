"""Measure simulations on a GPU, and write that part of docs/speed.md and docs/gpu.md: python -m benchmarks.gpu."""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import umab
from benchmarks.gpu import pages
from benchmarks.gpu.by_hand import ByHand
from benchmarks.pages import machine
from umab.engine import gpu, threads
from umab.engine.exact import has_same_bits_everywhere
from umab.engine.simulate import n_cores

N_TRIALS, N_ROUNDS, N_ARMS = 1_000_000, 1258, 10
LIMITS = {"umab-g-a": 0.5, "centred(umab-s)": 1.2, "exp3": 0.3}
"""Seconds that a million trials may take, all in."""
OTHERS = ("umab-nn", "scb", "tsallis-inf", "ahb", "sf-mab-a")
ROUNDS_COMPARED = 200


class Row(NamedTuple):
    """A line of the table."""

    what: str
    measured: str
    target: str
    met: bool
    note: str = ""


def losses_for(policy: umab.Policy, n_rounds: int = N_ROUNDS, n_arms: int = N_ARMS) -> umab.Losses:
    """Return losses that a policy accepts: exponential ones, scaled for a policy that needs to know their range."""
    losses = np.random.default_rng(0).exponential(np.linspace(1.0, 2.0, n_arms), size=(n_rounds, n_arms))
    return umab.Losses.of(losses if policy.refusal(50.0, "") is None else losses / (1.01 * losses.max()))


def seconds(run: Callable[[], Any], repeats: int = 3) -> float:
    """Return the median time of a call."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def simulation(name: str, n_trials: int, device: Any = "gpu", **shape: int) -> Callable[[], umab.Result]:
    """Return a simulation with sampled regret that keeps a summary."""
    policy = umab.policy(name)
    losses = losses_for(policy, **shape)
    return functools.partial(
        umab.simulate, policy, losses, n_trials=n_trials, expected=False, keep="summary", device=device, progress=False
    )


def millions() -> Iterator[Row]:
    """Measure a million trials, with everything that they need."""
    plan = [(name, N_ARMS, N_TRIALS) for name in (*LIMITS, *OTHERS)]
    plan += [("umab-w", N_ARMS, N_TRIALS // 10), ("umab-g-a", 2, N_TRIALS), ("umab-g-a", 100, N_TRIALS // 10)]
    for name, n_arms, n_trials in plan:
        run = simulation(name, n_trials, n_arms=n_arms)
        run()
        took = seconds(run)
        limit = LIMITS[name] if name in LIMITS and n_arms == N_ARMS else math.inf
        fewer = f"{n_trials:,} trials; " if n_trials < N_TRIALS else ""
        note = f"{fewer}{took / (n_trials * N_ROUNDS) * 1e9:.2f} ns per round; {resources(name, n_arms)}"
        target = f"≤ {limit} s" if limit < math.inf else ""
        yield Row(f"{name}, n = {n_arms}", f"{took:.2f} s", target, took <= limit, note)


def resources(name: str, n_arms: int) -> str:
    """Return what a thread needs, and how many run at once on a multiprocessor."""
    found = gpu.kernel_of(umab.policy(name).for_horizon(N_ROUNDS), n_arms, "plain").compiled
    registers = gpu.device().get_current_device().MAX_REGISTERS_PER_MULTIPROCESSOR
    groups = registers // (-(-found.regs_per_thread // 8) * 8 * gpu.THREADS)
    return (
        f"{found.regs_per_thread} registers and {found.local_mem_per_thread:,} bytes of local memory for a thread, "
        f"{groups * gpu.THREADS} threads at once on a multiprocessor"
    )


@contextlib.contextmanager
def timed(template: Any) -> Iterator[list[float]]:
    """Yield a list that gets the seconds of each launch of a kernel."""
    call, spent = gpu.Kernel.__call__, []

    def measured(self: gpu.Kernel, *arguments: Any, **options: Any) -> None:
        gpu.wait()
        began = time.perf_counter()
        call(self, *arguments, **options)
        gpu.wait()
        if self.template is template:
            spent.append(time.perf_counter() - began)

    with mock.patch.object(gpu.Kernel, "__call__", measured):
        yield spent


def by_hand() -> Iterator[Row]:
    """Compare the kernel of UMAB-G-A with one that is written by hand."""
    losses = losses_for(umab.UMABGA())
    hand = ByHand(losses, N_TRIALS)
    hand.run()
    theirs = statistics.median(hand.run() for _ in range(5))
    same = umab.simulate("umab-g-a", losses, n_trials=2048, device="gpu", progress=False)
    if not np.array_equal(hand.arms.copy_to_host()[:2048], same.arms):
        raise RuntimeError("the kernel by hand draws other arms")
    del hand
    run = simulation("umab-g-a", N_TRIALS)
    ours = []
    for _ in range(5):
        with timed(threads.play_trials) as spent:
            run()
        ours.append(sum(spent))
    ratio = statistics.median(ours) / theirs
    note = f"{statistics.median(ours):.3f} s and {theirs:.3f} s; the same arms in all of 2048 trials"
    yield Row("umab-g-a: its kernel / one by hand", f"{ratio:.2f}", "≤ 1.30", ratio <= 1.30, note)


def first_call() -> Iterator[Row]:
    """Measure a new process whose code is in the cache."""
    code = (
        "import time; t = time.perf_counter(); import numpy, umab; "
        "umab.simulate('umab-g-a', numpy.ones((1258, 10)), n_trials=1000, device='gpu', keep='summary', progress=False)"
        "; print(time.perf_counter() - t)"
    )
    found = []
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
    took = statistics.median(found[1:])  # the first one fills the cache
    yield Row("import + first simulate, warm cache", f"{took:.2f} s", "≤ 2 s", took <= 2.0)


def break_even() -> Iterator[Row]:
    """Find from how many trials on the GPU is faster than all cores."""
    for name in ("umab-g-a", "centred(umab-s)", "exp3"):
        for n_trials in (10, 32, 100, 320, 1000, 3200, 10_000, 32_000, 100_000):
            here, there = simulation(name, n_trials, "cpu"), simulation(name, n_trials)
            here(), there()
            mine, theirs = seconds(there), seconds(here)
            if mine < theirs:
                break
        note = f"{1000 * mine:.0f} ms against {1000 * theirs:.0f} ms on {n_cores()} cores"
        yield Row(f"{name}: faster from", f"{n_trials:,} trials", "", True, note)


class Agreement(NamedTuple):
    """How the results of a policy on a GPU compare with those of a processor."""

    policy: str
    promised: bool
    """Whether it must have the same bits."""
    n_trials: int
    n_rounds: int
    n_apart: int
    """Trials in which an arm differs."""
    largest: float
    """The largest difference of a final regret in the others, relative to the largest of them."""
    of_means: float
    """The largest difference of the mean regret of a round, relative to the largest of them."""
    same_bits: bool


def agreement_of(name: str) -> Agreement:
    """Compare a policy on a GPU with itself on a processor."""
    policy = umab.policy(name)
    promised = has_same_bits_everywhere(policy.for_horizon(ROUNDS_COMPARED))
    n_trials = N_TRIALS // 10 if promised else N_TRIALS  # one bit in one trial would do to break a promise
    losses = losses_for(policy, ROUNDS_COMPARED)
    given: dict[str, Any] = {"n_trials": n_trials, "expected": True, "keep": "arms", "progress": False}
    run = functools.partial(umab.simulate, policy, losses, **given)
    one, other = run(), run(device="gpu")
    apart = (one.arms != other.arms).any(axis=1)
    gaps = np.abs(one.final_regret - other.final_regret)[~apart]
    pairs = (one.mean, other.mean), (one.sd, other.sd), (one.final_regret, other.final_regret)
    return Agreement(
        name,
        promised,
        n_trials,
        ROUNDS_COMPARED,
        int(apart.sum()),
        float(gaps.max() / np.abs(one.final_regret).max()),
        float(np.abs(one.mean - other.mean).max() / np.abs(one.mean).max()),
        not apart.any() and all(mine.tobytes() == theirs.tobytes() for mine, theirs in pairs),
    )


PARTS = {
    f"{N_TRIALS:,} trials × {N_ROUNDS} rounds": millions,
    "Beside a kernel by hand": by_hand,
    "Starting up": first_call,
    "When it pays": break_even,
}


def main() -> None:
    """Measure everything, print it, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", metavar="POLICY", action="append", help="only compare the results of this policy")
    options = parser.parse_args()
    found = pages.read()
    found["device"], found["machine"] = gpu.description(), machine()
    if not options.compare:
        for title, measure in PARTS.items():
            found["sections"][title] = []
            for row in measure():
                print(title, *row, sep=" | ", flush=True)
                found["sections"][title].append(row._asdict())
            pages.store(found)
    for name in options.compare or umab.policies():
        agreement = agreement_of(name)
        print(*agreement, sep=" | ", flush=True)
        found["agreements"][name] = agreement._asdict()
        pages.store(found)  # at once: all of it takes ten minutes, most of them on the processor
    pages.write()


if __name__ == "__main__":
    main()
