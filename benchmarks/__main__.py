"""Measure speed, print the table, and write it to docs/speed.md: ratios of two things that took turns in this run."""

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
from benchmarks.kernels import INLINED, N_ROUNDS, N_TRIALS, contenders, generic, losses_of
from benchmarks.pages import DOCS, machine, table, wrapped
from benchmarks.timing import Ratio, fresh_process, seconds, take_turns
from umab.engine.simulate import versions
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
        for name, limit in (("inlined", 1.10), ("C", 1.15), ("simple", 1 / 1.3)):
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


def whole_simulations() -> Iterator[Row]:
    for what, outliers in (("", 0.01), (" without outliers", 0.0)):
        losses = umab.Losses.of(losses_of(10, outliers))
        run = functools.partial(umab.simulate, losses=losses, n_trials=500, n_threads=1, keep="summary")

        def before(run: Callable[..., object] = run) -> None:
            with mock.patch("umab.engine.simulate.simulation_kernel", simple.simulation_kernel):
                run(simple.SimpleUMABG())

        ratio = take_turns(functools.partial(run, umab.UMABG()), before)
        note = f"{1 / ratio.median:.2f} times the rounds a second"
        yield at_most(f"simulate{what} / simple engine, n = 10", ratio, 1 / 1.3, note)


def sizes() -> Iterator[Row]:
    """How the cost of a round grows with arms, rounds and trials."""
    many, few = arms_in_a_loop(100_000), arms_in_a_loop(1000)
    # The same number of rounds × arms, so the ratio of the times is that of the costs of an arm in a round.
    ratio = take_turns(many, few, repeats=9)
    yield at_most("a round an arm, n = 100,000 / 1000", ratio, 1.5, f"{ratio.seconds / 1e7 * 1e9:.1f} ns; linear is 1")

    short, long = scale.measure(2, 10**5, 2), scale.measure(2, 10**7, 2)
    longer = long.seconds / short.seconds / 100
    note = f"{long.seconds:.1f} s for 2 trials of 10⁷ rounds; constant is 1"
    yield Row("a round, T = 10⁷ / 10⁵, n = 2", f"{longer:5.2f}", "≤ 1.50", longer <= 1.5, note)
    taken = (long.memory - short.memory) / (10**7 - 10**5)
    note = "the table has 16 of them; the rest are what regret is counted in and the curves"
    yield Row("  bytes a round", f"{taken:5.0f}", "≤ 80", taken <= 80, note)

    few_trials, many_trials = scale.measure(1000, 1258, 10), scale.measure(10**6, 1258, 10)
    taken = (many_trials.memory - few_trials.memory) / 1e6
    note = f"{many_trials.seconds:.0f} s for 10⁶ trials × 1258 rounds, on all cores"
    yield Row("MB more for 10⁶ trials than for 10³", f"{taken:5.0f}", "≤ 50", taken <= 50, note)


def arms_in_a_loop(n_arms: int) -> Callable[[], None]:
    """Return the loop over 10⁷ arms in all."""
    random = np.random.default_rng(0)
    losses = random.normal(size=(10**7 // n_arms // 2, n_arms))
    uniforms = random.random((2, len(losses)))
    return generic(umab.UMABG(), losses, losses, np.zeros(len(losses)), uniforms).run


SIZES = (2, 10, 100, 1000)


def times_of_policies() -> Iterator[list[str]]:
    """Yield how long a round of every policy takes, in nanoseconds: the fastest of five runs."""
    for name in umab.policies():
        times = []
        for n_arms in SIZES:
            random = np.random.default_rng(0)
            n_rounds = max(1000, 4 * n_arms)  # beyond the rounds in which AHB plays each arm once
            policy = umab.policy(name).for_horizon(n_rounds)
            losses = np.ascontiguousarray(legal_losses(policy, random.normal(size=(n_rounds, n_arms))))
            uniforms = random.random((max(2, 320 // n_arms), n_rounds))
            run = generic(policy, losses, losses, np.zeros(n_rounds), uniforms).run
            run()
            times.append(min(seconds(run) for _ in range(5)) / uniforms.size * 1e9)
        yield [name, *(f"{each:.0f}" for each in times)]


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
    yield at_most("select + update / river's Exp3, n = 10", ratio, 0.7, note)


def start_up() -> Iterator[Row]:
    first = "import umab, numpy; umab.simulate(umab.UMABNN(), numpy.ones((100, 3)), n_trials=10)"
    for what, code, limit in (("import umab", "import umab", 0.4), ("import + first simulate, warm cache", first, 1.0)):
        low, median, high = np.quantile(fresh_process(code), [0.25, 0.5, 0.75])
        yield Row(what, f"{median:5.2f}  ({low:.2f}–{high:.2f})", f"≤ {limit:.2f} s", bool(median <= limit), "seconds")


def whole_reproduction() -> Iterator[Row]:
    reproduction.measure()  # warms the cache of machine code
    parts = reproduction.measure()
    for what, key, limit, unit in (
        ("umab reproduce, all of it", "total", 30.0, "s"),
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

This page is written by a command, and by nothing else:

```sh
make bench
```

"""

EXPLANATION = """\
Measured on {machine}.

Ratios are medians over turns that two contenders took in one run, with the middle half in brackets; ✗ marks a target
that was missed. The contenders of the compiled loop: the same policy written into one loop by hand, trial after trial
(inlined); in C, two trials by turns, built by gcc with -O3 for this machine; and the engine before it was made
fast (simple). The first two give the same bits, which is checked before anything is timed.
"""


def main() -> None:
    print(f"{', '.join(f'{name} {version}' for name, version in versions().items())}\n")
    lines = []
    for title, part in PARTS.items():
        for row in part():
            mark = "" if not row.target else "✓" if row.met else "✗"
            print(f"{row.what:44}{row.measured:22}{row.target:10}{mark:1}  {row.note}", flush=True)
            lines.append([title, row.what.strip(), row.measured.strip(), f"{row.target} {mark}".strip(), row.note])
            title = ""
    print("\nns a round, compiled loop, one core, " + ", ".join(f"n = {size}" for size in SIZES))
    times = []
    for policy_times in times_of_policies():
        print(f"{policy_times[0]:16}" + "".join(f"{each:>10}" for each in policy_times[1:]), flush=True)
        times.append(policy_times)
    text = INTRODUCTION + wrapped(EXPLANATION.format(machine=machine()))
    text += "\n" + table(["", "", "measured", "target", ""], lines)
    text += "\n## Nanoseconds a round\n\nThe compiled loop on one core, the fastest of five runs.\n\n"
    text += table(["policy", *(f"n = {size}" for size in SIZES)], times)
    (DOCS / "speed.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
