"""The page of one demonstration: its chart, what came out of it in words, and its tables."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pages import DOCS, table, wrapped

from examples.charts import Total, totals_chart
from examples.demonstration import Demonstration
from examples.replaying import Findings, Spent
from umab._support.files import write_atomically
from umab.research.report.words import counted, listed, measured
from umab.results.plotting import Chart
from umab.results.styles import Style

PAGES = DOCS / "examples"
"""The folder of the project's own pages."""

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
    # The line is what happened; the band is what could have happened with other draws.
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


def against(spent: Spent, total: float, unit: str) -> str:
    """Say how much less, or more, the learner spent than a total."""
    saved = total - spent.live
    # If losses have both signs, a percentage of their total means nothing.
    share = f" ({100.0 * abs(saved) / total:.3g}%)" if spent.record.losses.table.min() > 0.0 else ""
    return f"{amount(abs(saved))} {unit}{share} {'less' if saved >= 0.0 else '**more**'}"


def verdict(demonstration: Demonstration[Any], findings: Findings) -> str:
    """Say in words what the learner saved, and what it paid for not knowing."""
    record, unit = findings.record, demonstration.unit
    policy, trials = findings.of_policy, findings.of_policy.totals
    low, high = np.quantile(trials, [0.05, 0.95])
    parts = [
        f"Over {counted(record.losses.n_rounds, 'round')} the learner spent {amount(findings.live)} {unit}. The best "
        f"arm alone, {findings.best_arm}, would have spent {amount(findings.best)}; the worst, {findings.worst_arm}, "
        f"{amount(findings.worst)}; and choosing at random, {amount(findings.at_random)} on average. Nobody knew in "
        "advance which arm would be best.",
        f"So the learner spent {against(findings, findings.at_random, unit)} than choosing at random, "
        f"{against(findings, findings.worst, unit)} than the worst arm, and {against(findings, findings.best, unit)} "
        "than the best arm.",
        f"One run may be luck. Replayed {findings.n_trials} times on the same losses with other draws, the learner's "
        f"policy spent {measured(policy.mean, policy.se)} {unit} on average, and between {amount(low)} and "
        f"{amount(high)} in nine out of ten runs. {np.mean(trials < findings.at_random):.1%} of the runs spent less "
        f"than choosing at random, and {np.mean(trials < findings.best):.1%} less than the best arm alone.",
    ]
    if len(record.in_situation) > 1:
        parts.append(
            "If you were told the situation of every round, and knew which arm is best in it, you would have spent "
            f"{amount(findings.told.sum())} {unit}. The learner is told nothing of this; its promise is to come close "
            "to the best single arm."
        )
    first, place = findings.ranked[0], findings.ranked.index(policy) + 1
    least = "" if place == 1 else f"; {first.policy} spent least, {measured(first.mean, first.se)} {unit}"
    parts.append(
        f"Among the {len(findings.ranked)} policies that were replayed, the learner's is number {place}{least}. The "
        "learner's policy was chosen before this table was measured, and has nothing to tune."
    )
    return "\n\n".join(parts)


_PAGE = """\
# {title}

{about}
![What was spent up to each round]({name}.svg)

The learner's line is what really happened. The band contains nine out of ten replays with other draws. Lower is better.

## What the learner saved

{verdict}
{totals}
## The arms

{of_arms}
{arms}
## Every policy on the same losses

The mean of {n_trials} replays, with its standard error. In each trial, all policies have the same draws. Policies that
need a range of losses are not shown, because no range is known here.

{policies}
## How it was measured

{how}
```sh
python -m {module}
python -m {module} --from-recorded
umab compare examples/recorded/{name}.csv
```

The first command measures again, the second writes this page from the recorded losses, and the third replays the
policies and writes a report.
"""

_HOW = """\
Measured on {day}, on {machine}, in {seconds:.0f} seconds, with seed {seed}. In every round all arms did the same work,
one after the other in random order, so the loss table is complete. The learner had chosen one arm before, and was told
only the loss of that arm. The cost of the other arms was really paid too, to complete the table; each total counts only
the arm that was chosen in each round. Losses range from {lowest} to {highest} {unit}{orders}.
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
            f"The mean loss per round, in {unit}, and how often the learner chose the arm. The best arm of each "
            f"situation: {listed(best_of)}."
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
        (f"the learner's policy, replayed: {policy.policy}", policy.mean, measured(policy.mean, policy.se)),
        ("choosing at random, on average", findings.at_random, ""),
        (f"the worst arm alone: {findings.worst_arm}", findings.worst, ""),
    ]
    if len(findings.record.in_situation) > 1:
        rows.append(("the best arm of each situation, if told the situation", float(findings.told.sum()), ""))
    return table(
        ["who chooses", f"total, {unit}", "per round", "over the best arm"],
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


def write_page(demonstration: Demonstration[Any], findings: Findings, folder: Path) -> Path:
    """Write the page and its chart; return the path of the page."""
    path = folder / f"{demonstration.name}.md"
    drawing = Chart(chart(demonstration, findings)).svg
    # The ids count all drawings of the process; a file must not depend on what was drawn before it.
    ids = {each: f"clip{at}" for at, each in enumerate(dict.fromkeys(re.findall(r"\bclip\d+\b", drawing)))}
    drawing = re.sub(r"\bclip\d+\b", lambda found: ids[found[0]], drawing)
    write_atomically(path.with_suffix(".svg"), drawing.encode())
    write_atomically(path, page(demonstration, findings).encode())
    return path
