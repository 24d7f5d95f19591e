"""What the demonstrations have in common: measure really, record, replay, and write a page.

A demonstration is some work that can be done in several ways, the arms. In every round all arms do the work of that
round, in random order, and what each of them cost is measured. A `Learner` has chosen one of them before, and hears
only what that one cost. So the learner decides on what really happens, and the whole table is known: every other policy
can be replayed on it.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from benchmarks.pages import DOCS, machine, table, wrapped

import umab
from umab import Losses, checks
from umab.experiments.experiment import comparison
from umab.files import write_atomically
from umab.plotting import Chart, Style
from umab.progress import Progress
from umab.report.charts import Total, totals_chart
from umab.report.words import counted, listed, measured

RECORDED = Path(__file__).parent / "recorded"
PAGES = DOCS / "examples"
N_TRIALS = 500

Context = TypeVar("Context")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Record:
    """What was measured, and what the learner chose meanwhile."""

    losses: Losses
    """What every arm cost in every round."""
    situations: tuple[str, ...]
    """The situation of every round."""
    choices: tuple[str, ...]
    """The arm that the learner chose in every round."""
    about: dict[str, Any]
    """The seed, the policy of the learner, the machine, the day, and the seconds it all took."""

    @property
    def in_situation(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Which rounds belong to each situation."""
        return {name: np.array(self.situations) == name for name in dict.fromkeys(self.situations)}


def _nothing(record: Record) -> str:
    return ""


@dataclass(frozen=True)
class Demonstration(Generic[Context]):
    """Some work that can be done in several ways, over and over."""

    name: str
    """That of the files: sat-solvers. The module is examples.sat_solvers."""
    title: str
    unit: str
    """What the losses are counted in, in the plural: milliseconds."""
    arms: tuple[str, ...]
    n_rounds: int
    prepare: Callable[[int], Context]
    """Takes a seed; returns whatever measuring needs. If that has a method `close`, it is called in the end."""
    measure: Callable[[Context, int, str], float]
    """Takes the context, the round from 0 on, and the arm; does the work really, and returns the loss."""
    situation: Callable[[Context, int], str]
    """Takes the context and the round; returns the name of the regime that the round belongs to."""
    about: str
    """What the work is, what the arms are and what the loss is; Markdown, for somebody who knows no bandits."""
    remarks: Callable[[Record], str] = _nothing
    """More to say that follows from the record; Markdown."""
    scale: str = "linear"
    """That of the losses on the chart: "linear", "log" or "symlog"."""

    @property
    def module(self) -> str:
        return f"examples.{self.name.replace('-', '_')}"


def run(
    demonstration: Demonstration[Any], *, n_rounds: int | None = None, seed: int = 0, progress: bool | None = None
) -> Record:
    """Measure every arm in every round, while a learner chooses one and hears what that one cost."""
    most = demonstration.n_rounds
    n_rounds = most if n_rounds is None else checks.whole("rounds", n_rounds, least=1, most=most)
    seed = checks.whole("seed", seed, least=0)
    start = time.perf_counter()
    context = demonstration.prepare(seed)
    learner = umab.Learner(umab.recommended(), demonstration.arms, seed=seed)
    orders = np.random.default_rng(seed)
    rows, situations, choices = [], [], []
    try:
        with Progress(n_rounds, demonstration.title, progress, unit="rounds") as bar:
            for t in range(n_rounds):
                choice = learner.select()
                row = dict.fromkeys(demonstration.arms, math.nan)
                for arm in orders.permutation(demonstration.arms).tolist():  # so that nobody always runs first
                    row[arm] = _six_digits(demonstration.measure(context, t, arm))
                learner.update(choice, row[str(choice.arm)])
                rows.append(list(row.values()))
                situations.append(demonstration.situation(context, t))
                choices.append(str(choice.arm))
                bar.advance(1)
    finally:
        if hasattr(context, "close"):
            context.close()
    about = {
        "seed": seed,
        "policy": learner.policy.name,
        "machine": machine(),
        "day": time.strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - start, 1),
    }
    return Record(Losses.of(rows, arms=demonstration.arms), tuple(situations), tuple(choices), about)


def _six_digits(loss: float) -> float:
    """Return a loss as the files have it, which is what the learner hears: no clock knows more digits."""
    return float(f"{checks.real('loss', loss):.6g}")


def write_record(record: Record, stem: Path) -> None:
    """Write the losses to `stem`.csv, for anybody, and what the learner did to `stem`.json."""
    lines = [record.losses.arms, *([repr(float(loss)) for loss in row] for row in record.losses.table)]
    write_atomically(stem.with_suffix(".csv"), "".join(",".join(line) + "\n" for line in lines).encode())
    content = {**record.about, "situations": _runs(record.situations), "choices": _runs(record.choices)}
    write_atomically(stem.with_suffix(".json"), (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def read_record(stem: Path) -> Record:
    """Return what `write_record` wrote."""
    content = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
    situations, choices = _all(content.pop("situations")), _all(content.pop("choices"))
    losses = Losses.read(stem.with_suffix(".csv"))
    if not losses.n_rounds == len(situations) == len(choices):
        raise ValueError(f"the files {str(stem)!r} .csv and .json must have the same rounds; measure again")
    return Record(losses, situations, choices, content)


def _runs(items: Sequence[str]) -> list[str]:
    """Return items with how often each comes in a row: a file that people can read."""
    starts = [at for at in range(len(items)) if at == 0 or items[at] != items[at - 1]]
    return [f"{end - at} × {items[at]}" for at, end in zip(starts, [*starts[1:], len(items)], strict=True)]


def _all(runs: Sequence[str]) -> tuple[str, ...]:
    parts = [each.split(" × ", 1) for each in runs]
    return tuple(item for number, item in parts for _ in range(int(number)))


class Replay(NamedTuple):
    """What a policy spent on the recorded losses, in many trials."""

    policy: str
    totals: Array
    """The total of every trial."""
    curve: Total
    """What was spent up to each round: the mean, and what 5% and 95% of the trials stayed below."""

    @property
    def mean(self) -> float:
        return float(self.totals.mean())

    @property
    def se(self) -> float:
        return float(self.totals.std(ddof=1) / math.sqrt(len(self.totals)))


class Spent:
    """What follows from a record without replays: who spent, or would have spent, how much."""

    def __init__(self, record: Record) -> None:
        self.record = record

    @functools.cached_property
    def arm_totals(self) -> dict[str, float]:
        """What each arm alone would have spent."""
        return dict(zip(self.record.losses.arms, map(float, self.record.losses.table.sum(axis=0)), strict=True))

    @property
    def best_arm(self) -> str:
        return min(self.arm_totals, key=self.arm_totals.__getitem__)

    @property
    def worst_arm(self) -> str:
        return max(self.arm_totals, key=self.arm_totals.__getitem__)

    @property
    def best(self) -> float:
        return self.arm_totals[self.best_arm]

    @property
    def worst(self) -> float:
        return self.arm_totals[self.worst_arm]

    @property
    def at_random(self) -> float:
        """What choosing at random spends on average: exactly, without trials."""
        return float(self.record.losses.table.mean(axis=1).sum())

    @property
    def live(self) -> float:
        """What the learner really spent."""
        return float(self.chosen.sum())

    @functools.cached_property
    def chosen(self) -> Array:
        """What the learner spent in each round."""
        losses = self.record.losses
        arms = [losses.arms.index(each) for each in self.record.choices]
        return losses.table[np.arange(losses.n_rounds), arms]

    @functools.cached_property
    def best_of_situation(self) -> dict[str, str]:
        """The arm that was best in each situation."""
        losses = self.record.losses
        return {
            name: losses.arms[int(losses.table[rounds].sum(axis=0).argmin())]
            for name, rounds in self.record.in_situation.items()
        }

    @functools.cached_property
    def told(self) -> Array:
        """What somebody spends in each round who is told its situation, and takes the arm that was best in it."""
        losses = self.record.losses
        arms = [losses.arms.index(self.best_of_situation[each]) for each in self.record.situations]
        return losses.table[np.arange(losses.n_rounds), arms]

    def against(self, total: float, unit: str) -> str:
        """Say how much less the learner spent than somebody else, or more."""
        saved = total - self.live
        # Of a total of both signs a percentage says nothing.
        share = f" ({100.0 * abs(saved) / total:.3g}%)" if self.record.losses.table.min() > 0.0 else ""
        return f"{amount(abs(saved))} {unit}{share} {'less' if saved >= 0.0 else '**more**'}"


class Findings(Spent):
    """What follows from a record, with every policy that needs no range replayed on it."""

    def __init__(self, record: Record, *, n_trials: int = N_TRIALS, progress: bool | None = None) -> None:
        super().__init__(record)
        self.n_trials = n_trials
        losses = record.losses
        policies = comparison("", losses).settings[0].policies
        wanted = dict(sorted(policies.items(), key=lambda each: each[0] != record.about["policy"]))
        # Trial 0 has the draws of the live learner: it is that very run.
        results = umab.simulate(
            list(wanted.values()), losses, n_trials=n_trials, seed=record.about["seed"], progress=progress
        )
        self.replays = {
            name: _replay(name, losses.table, result.arms) for name, result in zip(wanted, results, strict=True)
        }

    @property
    def of_policy(self) -> Replay:
        """The replays of the learner's policy."""
        return self.replays[self.record.about["policy"]]

    @property
    def ranked(self) -> list[Replay]:
        """The replays, from the smallest mean on."""
        return sorted(self.replays.values(), key=lambda each: each.mean)


def _replay(name: str, losses: Array, arms: npt.NDArray[Any]) -> Replay:
    spent = np.cumsum(losses[np.arange(len(losses)), arms], axis=1)
    low, high = np.quantile(spent, [0.05, 0.95], axis=0)
    return Replay(name, spent[:, -1], Total(spent.mean(axis=0), low, high))


STYLES = {
    "the learner": Style("#7b3294"),
    "best arm": Style("#009e73"),
    "worst arm": Style("#d55e00"),
    "at random": Style("#666666", (2, 3)),
    "best of each situation": Style("#0072b2", (7, 2)),
}


def chart(demonstration: Demonstration[Any], findings: Findings) -> dict[str, Any]:
    """Return the chart of what was spent up to each round."""
    losses, situations = findings.record.losses, findings.record.situations
    column = {arm: losses.table[:, k] for k, arm in enumerate(losses.arms)}
    told = {"best of each situation": findings.told} if len(set(situations)) > 1 else {}
    spent = {
        f"worst arm, {findings.worst_arm}": column[findings.worst_arm],
        "at random": losses.table.mean(axis=1),
        "the learner": findings.chosen,
        f"best arm, {findings.best_arm}": column[findings.best_arm],
        **told,
    }
    totals = {name: Total(*[np.cumsum(each)] * 3) for name, each in spent.items()}
    # The line is what happened; the band is what could have, with other draws.
    totals["the learner"] = findings.of_policy.curve._replace(mean=totals["the learner"].mean)
    return totals_chart(
        totals,
        demonstration.title,
        unit=demonstration.unit,
        styles=STYLES,
        scale=demonstration.scale,
        situations=situations,
    )


def amount(number: float) -> str:
    """Return a number with four digits."""
    return measured(float(f"{number:.4g}"), math.nan)


def verdict(demonstration: Demonstration[Any], findings: Findings) -> str:
    """Say in words what the learner saved, and what it paid for not knowing."""
    record, unit = findings.record, demonstration.unit
    policy, trials = findings.of_policy, findings.of_policy.totals
    low, high = np.quantile(trials, [0.05, 0.95])
    parts = [
        f"Over {counted(record.losses.n_rounds, 'round')} the learner spent {amount(findings.live)} {unit}. The best "
        f"arm alone, {findings.best_arm}, would have spent {amount(findings.best)}, the worst, {findings.worst_arm}, "
        f"{amount(findings.worst)}, and choosing at random {amount(findings.at_random)} on average. Nobody knew before "
        "which arm would be the best.",
        f"So the learner spent {findings.against(findings.at_random, unit)} than choosing at random, "
        f"{findings.against(findings.worst, unit)} than the worst arm, and {findings.against(findings.best, unit)} "
        "than the best arm.",
        f"One run may be luck. Replayed {findings.n_trials} times on the same losses with other draws, the learner's "
        f"policy spent {measured(policy.mean, policy.se)} {unit} on average, between {amount(low)} and {amount(high)} "
        f"in nine runs of ten. {np.mean(trials < findings.at_random):.1%} of the runs spent less than choosing at "
        f"random, and {np.mean(trials < findings.best):.1%} less than the best arm alone.",
    ]
    if len(record.in_situation) > 1:
        parts.append(
            "Somebody who is told the situation of every round, and who knows which arm is best in it, would have "
            f"spent {amount(findings.told.sum())} {unit}. The learner is told nothing, and what is promised of it is "
            "to come close to the best single arm."
        )
    first, place = findings.ranked[0], findings.ranked.index(policy) + 1
    least = "" if place == 1 else f"; {first.policy} spent least, {measured(first.mean, first.se)} {unit}"
    parts.append(
        f"Of {len(findings.ranked)} policies that were replayed, that of the learner is number {place}{least}. The "
        "learner's was settled before this table was measured, and has nothing to tune."
    )
    return "\n\n".join(parts)


_PAGE = """\
# {title}

{about}
![What was spent up to each round]({name}.svg)

The line of the learner is what really happened; the band holds nine of ten replays with other draws. Lower is better.

## What the learner saved

{verdict}
{totals}
## The arms

{of_arms}
{arms}
## Every policy on the same losses

The mean of {n_trials} replays, with its standard error. All policies have the same draws in a trial. Policies that must
know a range of losses are left out: nobody knows one here.

{policies}
## How it was measured

{how}
```sh
python -m {module}
python -m {module} --from-recorded
umab compare examples/recorded/{name}.csv
```

The first command measures again, the second writes this page from what was recorded, the third replays the policies and
writes a report.
"""

_HOW = """\
On {day}, on {machine}, in {seconds:.0f} seconds, with seed {seed}. In every round all arms did the same work, one after
the other in random order, so that the table of losses is whole. The learner had chosen one of them before, and heard
the loss of that one only. What the others cost was really paid too, for the sake of the table; the totals count what
each would have paid alone. Losses go from {lowest} to {highest} {unit}{orders}.
"""


def page(demonstration: Demonstration[Any], findings: Findings) -> str:
    """Return the page of a demonstration, as Markdown."""
    record, unit = findings.record, demonstration.unit
    lowest, highest = float(record.losses.table.min()), float(record.losses.table.max())
    best_of = [f"{arm} ({situation})" for situation, arm in findings.best_of_situation.items()]
    return _PAGE.format(
        title=demonstration.title,
        name=demonstration.name,
        module=demonstration.module,
        about=wrapped(demonstration.about.strip()),
        verdict=wrapped("\n\n".join(filter(None, [verdict(demonstration, findings), demonstration.remarks(record)]))),
        totals=_totals(findings, unit),
        of_arms=wrapped(
            f"The mean loss of a round, in {unit}, and how often the learner chose the arm. Smallest of their columns: "
            f"{listed(best_of)}."
        ),
        arms=_arms(findings),
        n_trials=findings.n_trials,
        policies=table(
            ["policy", f"total, {unit}", "over the best arm"],
            [
                [each.policy, measured(each.mean, each.se), amount(each.mean - findings.best)]
                for each in findings.ranked
            ],
        ),
        how=wrapped(
            _HOW.format(
                **record.about,
                lowest=amount(lowest),
                highest=amount(highest),
                unit=unit,
                orders=f", over {math.log10(highest / lowest):.1f} orders of magnitude" if lowest > 0.0 else "",
            )
        ),
    )


def _totals(findings: Findings, unit: str) -> str:
    n_rounds, policy = findings.record.losses.n_rounds, findings.of_policy
    rows = [
        (f"the best arm alone: {findings.best_arm}", findings.best, ""),
        ("**the learner, as it happened**", findings.live, ""),
        (f"its policy, replayed: {policy.policy}", policy.mean, measured(policy.mean, policy.se)),
        ("choosing at random, on average", findings.at_random, ""),
        (f"the worst arm alone: {findings.worst_arm}", findings.worst, ""),
    ]
    if len(findings.record.in_situation) > 1:
        rows.append(("the best arm of each situation, told which it is", float(findings.told.sum()), ""))
    return table(
        ["who chooses", f"total, {unit}", "a round", "over the best arm"],
        [
            [who, said or amount(total), amount(total / n_rounds), amount(total - findings.best)]
            for who, total, said in sorted(rows, key=lambda row: row[1])
        ],
    )


def _arms(findings: Findings) -> str:
    record, losses = findings.record, findings.record.losses
    columns = dict(record.in_situation)
    if len(columns) > 1:
        columns["all"] = np.ones(losses.n_rounds, np.bool_)
    means = {name: losses.table[rounds].mean(axis=0) for name, rounds in columns.items()}
    return table(
        ["arm", *(f"{name} ({counted(int(rounds.sum()), 'round')})" for name, rounds in columns.items()), "chosen"],
        [
            [arm, *(amount(each[k]) for each in means.values()), f"{record.choices.count(arm) / losses.n_rounds:.0%}"]
            for k, arm in enumerate(losses.arms)
        ],
    )


_INDEX = """\
# Demonstrations

What a learner does on things that really happen: nothing is simulated but the replays and the link over which
compressors send, and there is nothing to download. Each demonstration is some work that can be done in several ways,
the arms. In every round a learner chooses an arm, the work is done, and what it cost is measured; that is the loss. All
arms do the work of every round, so that it is known what each would have cost. The learner hears the loss of its own
choice only.

{results}
These are single runs, as they happened; the pages tell how much of that was luck.

## Run them

In a checkout, with the extra `examples`. Each takes less than two minutes on a quiet machine, and shows how far it is.

```sh
pip install -e '.[examples]'
python -m examples.sat_solvers --out solvers          # measures here, and writes a page of its own
python -m examples.sat_solvers --rounds 50 --out solvers
python -m examples                                    # all of them; writes the pages that you are reading
python -m examples --from-recorded                    # the same pages again, without measuring
```

## Replay what was recorded

The losses of every arm in every round are in `examples/recorded`, as plain CSV: one column an arm, one row a round. The
file of the same name that ends in `.json` has what the learner chose, and on which machine that was.

```sh
umab compare examples/recorded/sat-solvers.csv
umab certify examples/recorded/query-plans.csv
```

## Write your own

A demonstration is a few functions: one prepares the work from a seed, one does the work of a round with an arm and
returns the loss, one names the situation that the round belongs to.

```python
import heapq
import random
import time

from examples.demonstration import Demonstration, Findings, run, verdict


def prepare(seed):
    rng = random.Random(seed)
    return [[rng.random() for _ in range(rng.choice((10, 10_000)))] for _ in range(200)]


def measure(lists, t, arm):
    start = time.process_time()
    sorted(lists[t])[:5] if arm == "sort" else heapq.nsmallest(5, lists[t])
    return 1e6 * (time.process_time() - start)


demonstration = Demonstration(
    name="smallest-five",
    title="The five smallest of a list",
    unit="microseconds",
    arms=("sort", "heap"),
    n_rounds=200,
    prepare=prepare,
    measure=measure,
    situation=lambda lists, t: "long" if len(lists[t]) > 10 else "short",
    about="Lists come in; their five smallest numbers are wanted.",
)
record = run(demonstration, n_rounds=50)
print(verdict(demonstration, Findings(record, n_trials=20)))
```

`main(demonstration)` in place of the last two lines gives it the command line, the record, the chart and the page of
those here.
"""


def index(demonstrations: Sequence[Demonstration[Any]], recorded: Path = RECORDED) -> str:
    """Return the page that lists the demonstrations, with what came out of each."""
    rows = []
    for each in demonstrations:
        record = read_record(recorded / each.name)
        spent = Spent(record)
        against = [spent.against(total, each.unit) for total in (spent.at_random, spent.worst, spent.best)]
        rows.append([f"[{each.title}]({each.name}.md)", str(len(each.arms)), str(record.losses.n_rounds), *against])
    header = ["", "arms", "rounds", "the learner against choosing at random", "against the worst arm"]
    return _INDEX.format(results=table([*header, "against the best arm"], rows))


def write_page(demonstration: Demonstration[Any], findings: Findings, folder: Path) -> Path:
    """Write the page and its chart; return the path of the page."""
    path = folder / f"{demonstration.name}.md"
    drawing = Chart(chart(demonstration, findings)).svg
    # Its ids count all drawings of a process; a file must not depend on what was drawn before it.
    ids = {each: f"clip{at}" for at, each in enumerate(dict.fromkeys(re.findall(r"\bclip\d+\b", drawing)))}
    drawing = re.sub(r"\bclip\d+\b", lambda found: ids[found[0]], drawing)
    write_atomically(path.with_suffix(".svg"), drawing.encode())
    write_atomically(path, page(demonstration, findings).encode())
    return path


def main(demonstration: Demonstration[Any], arguments: Sequence[str] | None = None) -> None:
    """Run a demonstration from the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {demonstration.module}",
        description=f"{demonstration.title}: measure, let a learner choose, replay all policies, write a page.",
        epilog=f"example: python -m {demonstration.module} --rounds 50 --out /tmp/{demonstration.name}",
    )
    add_options(parser)
    parser.add_argument("--rounds", type=int, metavar="N", help=f"only the first N of {demonstration.n_rounds}")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the work and the learner; 0 if not given")
    given = parser.parse_args(arguments)
    if given.rounds is not None and given.out is None and not given.from_recorded:
        parser.error("--rounds must go with --out: the pages of the project have all rounds")
    try:
        print(carry_out(demonstration, given.out, given.from_recorded, given.rounds, given.seed))
    except (ValueError, OSError) as error:
        sys.exit(f"{parser.prog}: {error}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all demonstrations have together."""
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where all files go; else examples/recorded and docs/examples"
    )
    parser.add_argument("--from-recorded", action="store_true", help="measure nothing; write the page from the record")


def carry_out(
    demonstration: Demonstration[Any],
    out: Path | None = None,
    from_recorded: bool = False,
    n_rounds: int | None = None,
    seed: int = 0,
) -> str:
    """Measure or read, replay, write; return what to tell."""
    for folder in (RECORDED, PAGES) if out is None else (out,):
        folder.mkdir(parents=True, exist_ok=True)
    stem = (out or RECORDED) / demonstration.name
    if from_recorded:
        record = read_record(stem)
    else:
        record = run(demonstration, n_rounds=n_rounds, seed=seed)
        write_record(record, stem)
    findings = Findings(record)
    path = write_page(demonstration, findings, out or PAGES)
    return f"{demonstration.title}\n\n{verdict(demonstration, findings)}\n\nwrote {stem}.csv and {path}\n"
