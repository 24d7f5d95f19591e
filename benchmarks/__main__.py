"""Measure speed, print the table, and write it to docs/speed.md: ratios of two contenders that took turns."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import numpy as np
import river.bandit

import umab
from benchmarks import reproduction, scale, simple
from benchmarks.gpu.pages import part_of
from benchmarks.kernels import INLINED, N_ROUNDS, N_TRIALS, contenders, generic, losses_of
from benchmarks.pages import DOCS, machine, table, wrapped
from benchmarks.timing import Ratio, fresh_process, seconds, take_turns
from umab.engine.work import versions
from umab.testing import legal_losses


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    target: str
    met: bool
    note: str


def at_most(what: str, ratio: Ratio, limit: float, note: str) -> Row:
    """Return the row of a ratio that must not exceed a limit."""
    return Row(what, str(ratio), f"≤ {limit:.2f}", ratio.median <= limit, note)


def kernels() -> Iterator[Row]:
    """Compare the compiled loop of UMAB-G-A with the other ways to write it."""
    for n_arms in (2, 10, 100):
        loops = contenders(n_arms)
        for name, limit in (("inlined", 1.10), ("C", 1.15), ("simple", 1 / 1.3)):
            ratio = take_turns(loops["generic"].run, loops[name].run, repeats=25)
            note = f"{ratio.seconds / (N_TRIALS * N_ROUNDS) * 1e9:.0f} ns per round"
            yield at_most(f"compiled loop / {name}, n = {n_arms}", ratio, limit, note)


def slowest() -> Iterator[Row]:
    """Compare the compiled loops of the slowest policies with loops written by hand."""
    for name in INLINED:
        if name != "umab-g-a":
            for n_arms in (2, 10, 100):
                loops = contenders(n_arms, name)
                ratio = take_turns(loops["generic"].run, loops["inlined"].run, repeats=15)
                note = f"{ratio.seconds / (N_TRIALS * N_ROUNDS) * 1e9:.0f} ns per round"
                yield at_most(f"{name} / inlined, n = {n_arms}", ratio, 1.10, note)


def whole_simulations() -> Iterator[Row]:
    """Compare `simulate` with the simple engine, with outliers and without, and expected with sampled regret."""
    for what, outliers in (("", 0.01), (" without outliers", 0.0)):
        losses = umab.Losses.of(losses_of(10, outliers))
        run = functools.partial(umab.simulate, losses=losses, n_trials=500, expected=False, n_threads=1, keep="summary")

        def before(run: Callable[..., object] = run) -> None:
            with mock.patch("umab.engine.simulate.simulation_kernel", simple.simulation_kernel):
                run(simple.SimpleUMABGA())

        ratio = take_turns(functools.partial(run, umab.UMABGA()), before)
        note = f"{1 / ratio.median:.2f} times the rounds per second"
        yield at_most(f"simulate{what} / simple engine, n = 10", ratio, 1 / 1.3, note)
    both = (functools.partial(run, umab.UMABG(), expected=each) for each in (True, False))
    yield at_most("simulate, expected regret / sampled regret, n = 10", take_turns(*both), 1.15, "the same arms")


def sizes() -> Iterator[Row]:
    """Measure how the cost of a round grows with arms, rounds and trials."""
    many, few = arms_in_a_loop(100_000), arms_in_a_loop(1000)
    # Both have the same number of rounds × arms, so the ratio of their times is the ratio of the costs per arm.
    ratio = take_turns(many, few, repeats=9)
    yield at_most(
        "per round and arm, n = 100,000 / 1000", ratio, 1.5, f"{ratio.seconds / 1e7 * 1e9:.1f} ns; linear is 1"
    )

    short, long = scale.measure(2, 10**5, 2), scale.measure(2, 10**7, 2)
    longer = long.seconds / short.seconds / 100
    note = f"{long.seconds:.1f} s for 2 trials of 10⁷ rounds; constant is 1"
    yield Row("per round, T = 10⁷ / 10⁵, n = 2", f"{longer:5.2f}", "≤ 1.50", longer <= 1.5, note)
    taken = (long.memory - short.memory) / (10**7 - 10**5)
    note = "16 of them for the table, the rest for counting regret and for the curves"
    yield Row("  bytes per round", f"{taken:5.0f}", "≤ 80", taken <= 80, note)

    few_trials, many_trials = scale.measure(1000, 1258, 10), scale.measure(10**6, 1258, 10)
    taken = (many_trials.memory - few_trials.memory) / 1e6
    note = f"{many_trials.seconds:.0f} s for 10⁶ trials × 1258 rounds, on all cores"
    yield Row("MB more for 10⁶ trials than for 10³", f"{taken:5.0f}", "≤ 50", taken <= 50, note)


def arms_in_a_loop(n_arms: int) -> Callable[[], None]:
    """Return the compiled loop of UMAB-G-A, with 10⁷ rounds × arms in total."""
    random = np.random.default_rng(0)
    losses = random.normal(size=(10**7 // n_arms // 2, n_arms))
    uniforms = random.random((2, len(losses)))
    return generic(umab.UMABGA(), losses, losses, np.zeros(len(losses)), uniforms).run


SIZES = (2, 10, 100, 1000)


def times_of_policies() -> Iterator[list[str]]:
    """Yield how long a round takes with every policy, in nanoseconds: the fastest of five runs."""
    for name in umab.policies():
        times = []
        for n_arms in SIZES:
            random = np.random.default_rng(0)
            n_rounds = max(1000, 4 * n_arms)  # more rounds than AHB needs to play each arm once
            policy = umab.policy(name).for_horizon(n_rounds)
            losses = np.ascontiguousarray(legal_losses(policy, random.normal(size=(n_rounds, n_arms))))
            uniforms = random.random((max(2, 320 // n_arms), n_rounds))
            run = generic(policy, losses, losses, np.zeros(n_rounds), uniforms).run
            run()
            times.append(min(seconds(run) for _ in range(5)) / uniforms.size * 1e9)
        yield [name, *(f"{each:.0f}" for each in times)]


def threads() -> Iterator[Row]:
    """Compare two threads with one, for umab and for the loop in C."""
    losses = np.random.default_rng(0).normal(size=(1258, 10))

    def run(n_threads: int) -> None:
        umab.simulate(umab.UMABGA(), losses, n_trials=640, expected=False, n_threads=n_threads)

    ratio = take_turns(lambda: run(1), lambda: run(2), repeats=11)
    note = f"{ratio.seconds:.2f} s for 640 trials × 1258 rounds on one thread"
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
    yield Row("the same for two loops in C", str(ratio), "", True, "what two threads can achieve on this machine now")


def online() -> Iterator[Row]:
    """Compare one decision at a time with river."""
    n_decisions, n_arms = 5000, 10
    losses = np.random.default_rng(0).random(n_decisions).tolist()
    arms = list(range(n_arms))

    def ours() -> None:
        learner = umab.Learner(umab.UMABGA(), arms=n_arms, seed=0)
        for loss in losses:
            learner.update(learner.select(), loss)

    def rivers() -> None:
        policy = river.bandit.Exp3(gamma=0.1, seed=0)
        for loss in losses:
            policy.update(policy.pull(arms), loss)

    ratio = take_turns(ours, rivers)
    note = f"{ratio.seconds / n_decisions * 1e6:.2f} µs per decision"
    yield at_most("select + update / river's Exp3, n = 10", ratio, 0.7, note)


def start_up() -> Iterator[Row]:
    """Measure how long the import and the first simulation take in a fresh process."""
    first = "import umab, numpy; umab.simulate(umab.UMABNN(), numpy.ones((100, 3)), n_trials=10)"
    for what, code, limit in (("import umab", "import umab", 0.4), ("import + first simulate, warm cache", first, 1.0)):
        low, median, high = np.quantile(fresh_process(code), [0.25, 0.5, 0.75])
        yield Row(what, f"{median:5.2f}  ({low:.2f}–{high:.2f})", f"≤ {limit:.2f} s", bool(median <= limit), "seconds")


def whole_reproduction() -> Iterator[Row]:
    """Measure the time and the memory of `umab reproduce`."""
    reproduction.measure()  # fills the cache of machine code
    parts = reproduction.measure()
    for what, key, limit, unit in (
        ("umab reproduce, in total", "total", 30.0, "s"),
        ("  of which simulation", "simulation", 10.0, "s"),
        ("  peak memory", "memory", 1.0, "GB"),
    ):
        note = ""
        if key == "total":
            note = ", ".join(f"{part} {parts[part]:.1f}" for part in ("imports", "data", "simulation", "report"))
        yield Row(what, f"{parts[key]:5.2f} {unit}", f"≤ {limit:.0f} {unit}", parts[key] <= limit, note)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "The loop of UMAB-G-A": kernels,
    "The loops of the slowest policies": slowest,
    "simulate": whole_simulations,
    "Many arms, rounds and trials": sizes,
    "Threads": threads,
    "One decision at a time": online,
    "Starting up": start_up,
    "The paper's experiments": whole_reproduction,
}

INTRODUCTION = """\
# Speed

This page is written by a command, never by hand:

```sh
make bench
```

"""

EXPLANATION = """\
Measured on {machine}.

A ratio is the median over the turns that two contenders took in one run, with the middle half in brackets; ✗ marks a
target that was missed. The contenders of the compiled loop are the same policy written by hand as one loop, one trial
after another (inlined); a loop in C that alternates between two trials, built by gcc with -O3 for this machine (C); and
a simple version of the engine (simple). The first two give the same bits, which is checked before anything is timed.
Simulations count sampled regret, unless expected regret is named.
"""


def main() -> None:
    """Measure everything, print it, and write docs/speed.md."""
    print(f"{', '.join(f'{name} {version}' for name, version in versions().items())}\n")
    lines = []
    for title, part in PARTS.items():
        for row in part():
            mark = "" if not row.target else "✓" if row.met else "✗"
            print(f"{row.what:44}{row.measured:22}{row.target:10}{mark:1}  {row.note}", flush=True)
            lines.append([title, row.what.strip(), row.measured.strip(), f"{row.target} {mark}".strip(), row.note])
            title = ""
    print("\nns per round, compiled loop, one core, " + ", ".join(f"n = {size}" for size in SIZES))
    times = []
    for policy_times in times_of_policies():
        print(f"{policy_times[0]:16}" + "".join(f"{each:>10}" for each in policy_times[1:]), flush=True)
        times.append(policy_times)
    text = INTRODUCTION + wrapped(EXPLANATION.format(machine=machine()))
    text += "\n" + table(["", "", "measured", "target", ""], lines)
    text += "\n## Nanoseconds per round\n\nThe compiled loop on one core, the fastest of five runs.\n\n"
    text += table(["policy", *(f"n = {size}" for size in SIZES)], times)
    page = DOCS / "speed.md"
    if of_gpus := part_of(page.read_text(encoding="utf-8")):  # another command writes it, elsewhere
        text += f"\n{of_gpus}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
