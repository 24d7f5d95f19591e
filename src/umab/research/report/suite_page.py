"""The report on the suite: a page, its tables as Markdown, the performance profiles, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.datasets.suite_parts import Half
from umab.engine.work import versions
from umab.research.experiments.contest import (
    AT_RANDOM,
    FLOOR,
    RECOMMENDED,
    STEADY,
    STEADY_ABLATIONS,
    SURE,
    WORST_WANTED,
    Estimate,
    Played,
    Standings,
    competitors,
)
from umab.research.experiments.runner import Summary
from umab.research.report import shell, words
from umab.research.report.charts import profile_chart
from umab.research.report.folder import draw, replaced, results_json

TITLE = "How policies do on the suite of loss tables"


class Line(NamedTuple):
    """A policy in the table of a half."""

    name: str
    mean: str
    ratio: str
    worst: str
    table: str
    within: str
    """On which share of its tables the policy has at most twice the score of the best competitor."""
    n_played: str


def write(standings: Sequence[Standings], folder: Path, command: str) -> Path:
    """Write the report on the suite to a folder and return the path of its page."""
    charts = {each.half: profile_chart(each) for each in standings}
    return write_pages(folder, "suite", charts, as_json(standings), _content(standings, command))


def write_pages(
    folder: Path,
    template: str,
    charts: Mapping[Half, dict[str, object]],
    results: bytes,
    content: dict[str, object],
    *,
    figures: str = "",
) -> Path:
    """Write the page of a template, as HTML and as Markdown, with a chart for each half and the results as JSON.

    `figures` begins the names of the files of the charts. Return the path of the page.
    """
    with replaced(folder) as new, Progress(len(charts) + 2, "writing the report", unit="files") as bar:
        write_atomically(new / "results.json", results)
        bar.advance(1)
        for half, chart in charts.items():
            drawing = draw(chart, new / "figures" / f"{figures}{half}")
            write_atomically(new / "figures" / f"{figures}{half}.svg", drawing.encode())
            bar.advance(1)
        page = shell.html(f"{template}.html", content, {half: _wide(chart) for half, chart in charts.items()})
        write_atomically(new / "index.html", page.encode())
        write_atomically(new / "page.md", shell.markdown(f"{template}.md", content).encode())
    return folder / "index.html"


def _content(standings: Sequence[Standings], command: str) -> dict[str, object]:
    """Return the content of the page, for HTML and for Markdown."""
    return {
        "head": shell.Head(title=TITLE, command=command),
        "halves": standings,
        "lines": {each.half: lines(each) for each in standings},
        "off": {each.half: ablation_lines(each) for each in standings},
        "verdicts": {each.half: verdicts(each) for each in standings},
        "tables": {each.half: table_rows(each) for each in standings},
        "unscored": {each.half: [table for table in each.tables if not table.scored] for each in standings},
        "stand_ins": stand_ins(standings),
        "recommended": RECOMMENDED,
        "steady": STEADY,
        "floor": f"{FLOOR:.0%}",
        "sure": f"{SURE:g}",
        "n_trials": standings[0].n_trials,
        "seed": standings[0].seed,
        "data_seed": standings[0].data_seed,
        "versions": versions(),
    }


def verdicts(standings: Standings) -> list[str]:
    """Say whether each of the recommended policies meets the targets."""
    return [words.contest_verdict(standings, name) for name in (RECOMMENDED, STEADY)]


def stand_ins(standings: Sequence[Standings]) -> list[str]:
    """Return the names of the tables that were replaced by a stand-in."""
    return [table.entry.name for each in standings for table in each.tables if table.stand_in]


def lines(standings: Standings) -> list[Line]:
    """Return the table of policies, the smallest mean score first; policies that do not accept all tables are last."""
    order = {name: standings.mean(name).value for name in (*standings.shown, AT_RANDOM)}
    return [_line(standings, name) for name in sorted(order, key=lambda name: (math.isnan(order[name]), order[name]))]


def ablation_lines(standings: Standings) -> list[tuple[str, Line]]:
    """Return `STEADY` with nothing off and with each ingredient off."""
    every = {"nothing": STEADY, **STEADY_ABLATIONS}
    return [(off, _line(standings, name)) for off, name in every.items() if name in standings.policies]


def table_rows(standings: Standings) -> list[tuple[str, ...]]:
    """Return one row for each scored table: regrets in percent of choosing at random, and the best competitor."""
    rows: list[tuple[str, ...]] = []
    multiples = [standings.to_best(name) for name in (RECOMMENDED, STEADY)]
    for at, table in enumerate(standings.scored):
        summaries = {name: Summary.of(regrets) for name, regrets in table.regrets.items()}
        rivals = [name for name in competitors() if name in summaries]
        best = min(rivals, key=lambda name: summaries[name].mean) if rivals else ""
        rows.append(
            (
                table.entry.name,
                table.entry.about,
                f"{table.losses.n_rounds:,} × {table.losses.n_arms}",
                _percent(summaries[RECOMMENDED], table),
                _percent(summaries[STEADY], table),
                _percent(summaries[best], table) if best else "–",
                best,
                *(f"{each[at]:.2f}" for each in multiples),
            )
        )
    return rows


def as_json(standings: Sequence[Standings]) -> bytes:
    """Return the numbers: the regrets of every policy on every table, and the scores of each half."""
    content = {
        "n_trials": standings[0].n_trials,
        "seed": standings[0].seed,
        "data_seed": standings[0].data_seed,
        "halves": {
            each.half: {
                "best_competitor": each.best_competitor,
                "policies": {
                    name: {
                        "geometric_mean": each.mean(name)._asdict(),
                        "to_best_competitor": each.ratio(name)._asdict(),
                        "worst_multiple": _worst(each, name),
                        "n_played": each.n_played(name),
                    }
                    for name in each.policies
                },
                "tables": {table.entry.name: _table(table) for table in each.tables},
            }
            for each in standings
        },
        "versions": versions(),
    }
    return results_json(content)


def _table(table: Played) -> dict[str, object]:
    return {
        "scored": table.scored,
        "stand_in": table.stand_in,
        "at_random": table.at_random._asdict(),
        "rounds": table.losses.n_rounds,
        "arms": table.losses.n_arms,
        "source": table.losses.source,
        "sha256": table.losses.digest,
        "regrets": {name: Summary.of(regrets)._asdict() for name, regrets in table.regrets.items()},
    }


def _worst(standings: Standings, name: str) -> dict[str, object]:
    multiple, table = standings.worst(name)
    return {**multiple._asdict(), "table": table}


def _line(standings: Standings, name: str) -> Line:
    worst, table = standings.worst(name)
    multiples = standings.to_best(name)
    played = multiples[~np.isnan(multiples)]
    return Line(
        name,
        measured(standings.mean(name)),
        measured(standings.ratio(name)),
        measured(worst),
        table,
        f"{(played <= WORST_WANTED).mean():.0%}" if len(played) else "–",
        f"{standings.n_played(name)} of {len(standings.scored)}",
    )


def measured(estimate: Estimate) -> str:
    """Return a number with its error, or a dash if it is not a number."""
    return "–" if math.isnan(estimate.value) else words.measured(*estimate)


def _percent(summary: Summary, table: Played) -> str:
    at_random = float(table.regrets[AT_RANDOM].mean())
    return f"{100 * summary.mean / at_random:.1f} ± {100 * summary.se / at_random:.1f}"


def _wide(chart: dict[str, Any]) -> dict[str, object]:
    """Return the chart made as wide as its element on the page."""
    legend = {**chart["config"]["legend"], "orient": "bottom"}
    config = {**chart["config"], "legend": legend}
    return {**chart, "config": config, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
