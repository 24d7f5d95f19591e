"""The report on a sweep: a page with heat maps and curves of the cells that are done, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.engine.work import versions
from umab.research.experiments.pooled import Found
from umab.research.experiments.sweep import Entry, Table, column
from umab.research.report import shell, words
from umab.research.report.charts import Heat, caption, heat_map, pooled_chart
from umab.research.report.folder import draw, file_name, replaced, results_json

_Figure: TypeAlias = tuple[str, Callable[..., dict[str, object]], tuple[Any, ...]]
"""A title, and the function that draws the figure with its arguments."""

_MANY = 8
"""From how many columns on a policy has one map over all of them, instead of one for each."""


def write(found: Found, folder: Path, command: str) -> Path:
    """Write the report on a sweep to a folder and return the path of its page."""
    if not found.n_done:
        raise ValueError("a report needs at least one cell that is done, but there is none yet")
    figures = _figures(found)
    with replaced(folder) as new, Progress(len(figures) + 2, "writing the report", unit="files") as bar:
        write_atomically(new / "results.json", as_json(found))
        bar.advance(1)
        for number, (title, kind, arguments) in enumerate(figures):
            draw(kind(*arguments, title=title), new / "figures" / f"{number + 1:02d}-{file_name(title)}")
            bar.advance(1)
        write_atomically(new / "index.html", _page(found, command, figures).encode(errors="replace"))
        bar.advance(1)
    return folder / "index.html"


def _page(found: Found, command: str, figures: Sequence[_Figure]) -> str:
    grid, sweep = found.grid, found.grid.sweep
    lede = (
        f"{words.sweep_progress(grid, found.n_done)}: {words.counted(len(sweep.policies), 'kind')} of policy on "
        f"{words.counted(len(grid.tables), 'table')}, with {words.counted(sweep.n_trials, 'trial')} for each of "
        f"{words.counted(len(sweep.seeds), 'seed')}."
    )
    content = {
        "head": shell.Head(title=sweep.title, lede=lede, command=command),
        "refused": words.sweep_refusals(grid),
        "maps": [(str(number), title, "") for number, (title, kind, _) in enumerate(figures) if kind is heat_map],
        "curves": [
            (str(number), title, caption(each.final.n_trials for each in arguments[0].values()))
            for number, (title, kind, arguments) in enumerate(figures)
            if kind is pooled_chart
        ],
        "best": best_rows(found),
        "chosen": [(entry, found.chosen(entry)) for entry in sweep.policies if entry.axes],
        "unscored": [place for place in found.columns if math.isnan(found.relative(found.best[place], place))],
        "stand_ins": [table.source for table in grid.tables if table.stand_in],
        "versions": versions(),
    }
    charts = {str(number): kind(*arguments) for number, (_, kind, arguments) in enumerate(figures)}
    return shell.html("sweep.html", content, charts)


def _figures(found: Found) -> list[_Figure]:
    figures: list[_Figure] = []
    # If no point of a grid is done, any of them will do: the map shows that it is not done, or not accepted.
    chosen = [(entry, found.chosen(entry) or next(iter(entry.points.values()))) for entry in found.grid.sweep.policies]
    figures.append(("Policies and tables", heat_map, (_by_table(found, chosen), "", "")))
    for entry in found.grid.sweep.policies:
        if len(entry.axes) == 1:
            figures.append((f"{entry.name}: tables", heat_map, (_one_axis(found, entry), "", entry.axes[0])))
        elif entry.axes:
            for title, places in _panels(found, entry):
                values = _two_axes(found, entry, places)
                figures.append((f"{entry.name}: {title}", heat_map, (values, entry.axes[0], entry.axes[1])))
    n_rounds = {
        column(table.label, delay): table.n_rounds for table in found.grid.tables for delay in found.grid.sweep.delays
    }
    for place in found.columns:
        curves = {
            entry.name: found.pooled[policy, place] for entry, policy in chosen if (policy, place) in found.pooled
        }
        if curves:
            figures.append((f"Expected regret on {place}", pooled_chart, (curves, n_rounds[place])))
    return figures


def _by_table(found: Found, chosen: Iterable[tuple[Entry, str]]) -> list[Heat]:
    return [_heat(found, entry.name, place, policy, [place]) for entry, policy in chosen for place in found.columns]


def _one_axis(found: Found, entry: Entry) -> list[Heat]:
    """Return one row for each table, and one for all of them if there are several."""
    rows = [(place, [place]) for place in found.columns]
    together = found.common(entry)
    if len(together) > 1:
        rows.append(("all tables", together))
    return [
        _heat(found, label, _value(values[0]), policy, places)
        for label, places in rows
        for values, policy in entry.points.items()
    ]


def _two_axes(found: Found, entry: Entry, places: list[str]) -> list[Heat]:
    """Return a map of the first two axes, with the best over any other axes."""
    best: dict[tuple[object, ...], str] = {}
    for values, policy in entry.points.items():
        key = values[:2]
        if key not in best or found.rank(policy, places) < found.rank(best[key], places):
            best[key] = policy
    return [_heat(found, _value(down), _value(over), policy, places) for (down, over), policy in best.items()]


def _panels(found: Found, entry: Entry) -> list[tuple[str, list[str]]]:
    """Return the maps of a policy: over all tables, and one for each table unless there are many."""
    together = found.common(entry)
    panels = [("all tables", together)] if len(together) > 1 else []
    return panels + ([(place, [place]) for place in found.columns] if len(found.columns) < _MANY else [])


def _heat(found: Found, row: str, over: str, policy: str, places: list[str]) -> Heat:
    multiple = found.score(policy, places)
    known = [found.pooled[policy, place] for place in places if (policy, place) in found.pooled]
    if not known:
        missing = all(
            any((policy, table.label) in found.grid.refused for table in _tables(found, place)) for place in places
        )
        return Heat(row, over, math.nan, "–", f"{policy} does not accept these losses" if missing else "not done yet")
    said = words.measured(known[0].final.mean, known[0].final.se) if len(known) == 1 else "over several tables"
    text = f"{known[0].final.mean:.3g}" if math.isnan(multiple) and len(known) == 1 else _multiple(multiple)
    return Heat(row, over, multiple, text, f"{policy}: {said}")


def _tables(found: Found, place: str) -> Iterable[Table]:
    delays = found.grid.sweep.delays
    return (table for table in found.grid.tables if place in [column(table.label, delay) for delay in delays])


def _multiple(number: float) -> str:
    if math.isnan(number):
        return "–"
    return f"{number:.2f}" if number < 10.0 else f"{number:.3g}"


def _value(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def as_json(found: Found) -> bytes:
    """Return the numbers of a report: for every policy on every table, the trials of all seeds pooled."""
    rows = [
        {"policy": policy, "table": place, "n_seeds": each.n_seeds, **each.final._asdict()}
        for (policy, place), each in sorted(found.pooled.items())
    ]
    return results_json(
        {
            "title": found.grid.sweep.title,
            "n_done": found.n_done,
            "n_cells": len(found.grid.cells),
            "results": rows,
            "versions": versions(),
        }
    )


def best_rows(found: Found) -> list[tuple[str, str, str]]:
    """Return the best policy on each table and its regret, as rows of text under a header."""
    rows = [("table", "smallest expected regret (pseudo-regret)", "policy")]
    for place, policy in found.best.items():
        final = found.pooled[policy, place].final
        rows.append((place, words.measured(final.mean, final.se), policy))
    return rows
