"""Print the table of speeds: ratios of two things that took turns in this run, and times of starting up."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import river.bandit

import umab
from benchmarks.kernels import INLINED, N_ROUNDS, N_TRIALS, contenders, generic
from benchmarks.reproduction import measure
from benchmarks.timing import Ratio, seconds, take_turns
from umab.testing import legal_losses


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    target: str
    met: bool
    note: str


def at_most(what: str, ratio: Ratio, limit: float, note: str) -> Row:
    return Row(what, str(ratio), f"≤ {limit:.2f}", ratio.median <= limit, note)


def kernels() -> Iterator[Row]:
    for n_arms in (2, 10, 100):
        loops = contenders(n_arms)
        for name, limit in (("inlined", 1.10), ("C", 1.15), ("simple", 1.0)):
            ratio = take_turns(loops["generic"].run, loops[name].run, repeats=25)
            note = f"{ratio.seconds / (N_TRIALS * N_ROUNDS) * 1e9:.0f} ns a round"
            yield at_most(f"compiled loop / {name}, n = {n_arms}", ratio, limit, note)


def slowest() -> Iterator[Row]:
    for name in INLINED:
        if name != "umab-g-a":
            for n_arms in (2, 10, 100):
                loops = contenders(n_arms, name)
                ratio = take_turns(loops["generic"].run, loops["inlined"].run, repeats=15)
                note = f"{ratio.seconds / (N_TRIALS * N_ROUNDS) * 1e9:.0f} ns a round"
                yield at_most(f"{name} / inlined, n = {n_arms}", ratio, 1.10, note)


def print_times() -> None:
    """Print how long a round of every policy takes, in nanoseconds: the fastest of five runs."""
    sizes = (2, 10, 100, 1000)
    print("\nns a round, compiled loop, one core")
    print(f"{'':16}" + "".join(f"{'n = ' + str(size):>10}" for size in sizes))
    for name in umab.policies():
        times = []
        for n_arms in sizes:
            random = np.random.default_rng(0)
            n_rounds = max(1000, 4 * n_arms)  # beyond the rounds in which AHB plays each arm once
            policy = umab.policy(name).for_horizon(n_rounds)
            losses = np.ascontiguousarray(legal_losses(policy, random.normal(size=(n_rounds, n_arms))))
            uniforms = random.random((max(1, 320 // n_arms), n_rounds))
            run = generic(policy, losses, losses, np.zeros(n_rounds), uniforms).run
            run()
            times.append(min(seconds(run) for _ in range(5)) / uniforms.size * 1e9)
        print(f"{name:16}" + "".join(f"{each:10.0f}" for each in times), flush=True)


def threads() -> Iterator[Row]:
    losses = np.random.default_rng(0).normal(size=(1258, 10))

    def run(n_threads: int) -> None:
        umab.simulate(umab.UMABG(), losses, n_trials=640, n_threads=n_threads)

    ratio = take_turns(lambda: run(1), lambda: run(2), repeats=11)
    note = f"{ratio.seconds:.2f} s for 640 trials × 1258 rounds on one"
    yield Row("simulate on one thread / two, n = 10", str(ratio), "≥ 1.80", ratio.median >= 1.8, note)

    loops = [contenders(10)["C"].run for _ in range(2)]

    def one_after_the_other() -> None:
        for loop in loops:
            repeat(loop)

    def side_by_side() -> None:
        workers = [threading.Thread(target=repeat, args=(loop,)) for loop in loops]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def repeat(loop: Callable[[], None]) -> None:
        for _ in range(10):
            loop()

    ratio = take_turns(one_after_the_other, side_by_side, repeats=11)
    yield Row("the same for two loops in C", str(ratio), "", True, "what two threads can give on this machine now")


def online() -> Iterator[Row]:
    n_decisions, n_arms = 5000, 10
    losses = np.random.default_rng(0).random(n_decisions).tolist()
    arms = list(range(n_arms))

    def ours() -> None:
        learner = umab.Learner(umab.UMABG(), arms=n_arms, seed=0)
        for loss in losses:
            learner.update(learner.select(), loss)

    def rivers() -> None:
        policy = river.bandit.Exp3(gamma=0.1, seed=0)
        for loss in losses:
            policy.update(policy.pull(arms), loss)

    ratio = take_turns(ours, rivers)
    note = f"{ratio.seconds / n_decisions * 1e6:.2f} µs a decision"
    yield at_most("select + update / river's Exp3, n = 10", ratio, 1.0, note)


def fresh_process(code: str) -> list[float]:
    """Return the seconds that `code` takes in new processes, without the start of Python itself."""
    program = f"import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    run = [sys.executable, "-c", program]
    return [float(subprocess.run(run, check=True, capture_output=True, text=True).stdout) for _ in range(9)][1:]


def start_up() -> Iterator[Row]:
    first = "import umab, numpy; umab.simulate(umab.UMABNN(), numpy.ones((100, 3)), n_trials=10)"
    for what, code, limit in (("import umab", "import umab", 0.4), ("import + first simulate, warm cache", first, 1.0)):
        low, median, high = np.quantile(fresh_process(code), [0.25, 0.5, 0.75])
        yield Row(what, f"{median:5.2f}  ({low:.2f}–{high:.2f})", f"≤ {limit:.2f} s", bool(median <= limit), "seconds")


def reproduction() -> Iterator[Row]:
    measure()  # warms the cache of machine code
    parts = measure()
    for what, key, limit, unit in (
        ("umab reproduce, all of it", "total", 30.0, "s"),
        ("  of which simulation", "simulation", 10.0, "s"),
        ("  peak memory", "memory", 1.0, "GB"),
    ):
        note = ""
        if key == "total":
            note = ", ".join(f"{part} {parts[part]:.1f}" for part in ("imports", "data", "simulation", "report"))
        yield Row(what, f"{parts[key]:5.2f} {unit}", f"≤ {limit:.0f} {unit}", parts[key] <= limit, note)


def main() -> None:
    print(f"umab {umab.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}")
    print("median (middle half) of ratios between neighbouring runs; ✗ marks a target that was missed\n")
    print(f"{'':44}{'measured':22}{'target':12}")
    for part in (kernels, slowest, threads, online, start_up, reproduction):
        for row in part():
            print(f"{row.what:44}{row.measured:22}{row.target:10}{'✓' if row.met else '✗'}  {row.note}", flush=True)
    print_times()


if __name__ == "__main__":
    main()
