"""The report on a sweep: heat maps and curves of what is done, on a page, and what is said of a sweep in a shell."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from umab.engine.simulate import versions
from umab.experiments.cluster import Crew
from umab.experiments.cost import Cost
from umab.experiments.pooled import Found
from umab.experiments.sweep import Cell, Entry, Grid, column
from umab.files import write_atomically
from umab.progress import Progress, duration, short
from umab.report import words
from umab.report.charts import Heat, heat_map, pooled_chart
from umab.report.folder import FORMAT, VERSION, draw, file_name, prepare, replaced, without_nan
from umab.report.page import environment, in_script, text_of, vega

_MANY = 8
"""Columns from which on a policy has one map over all of them in place of one each."""


def write(found: Found, folder: Path, command: str) -> Path:
    """Write the report on a sweep to a folder and return the path of its page."""
    if not found.n_done:
        raise ValueError("a report needs a cell that is done, but there is none yet")
    prepare(folder)
    figures = _figures(found)
    with replaced(folder) as new, Progress(len(figures) + 2, "writing the report", unit="files") as bar:
        write_atomically(new / "results.json", as_json(found))
        bar.advance(1)
        for number, (title, kind, arguments) in enumerate(figures):
            draw(kind(*arguments, title=title), new / "figures" / f"{number + 1:02d}-{file_name(title)}")
            bar.advance(1)
        page = (
            environment()
            .get_template("sweep.html")
            .render(
                found=found,
                sweep=found.grid.sweep,
                command=command,
                said=summary(found.grid, found.n_done),
                refused=refusals(found.grid),
                maps=[(str(number), title) for number, (title, kind, _) in enumerate(figures) if kind is heat_map],
                curves=[
                    (str(number), title) for number, (title, kind, _) in enumerate(figures) if kind is pooled_chart
                ],
                best=best_rows(found),
                chosen=[(entry, found.chosen(entry)) for entry in found.grid.sweep.policies if entry.axes],
                unscored=[place for place in found.columns if math.isnan(found.relative(found.best[place], place))],
                stand_ins=[table.source for table in found.grid.tables if table.stand_in],
                versions=versions(),
                style=text_of("page.css"),
                script=vega() + text_of("page.js"),
                charts=in_script({str(number): kind(*rest) for number, (_, kind, rest) in enumerate(figures)}),
            )
        )
        write_atomically(new / "index.html", page.encode(errors="replace"))
        bar.advance(1)
    return folder / "index.html"


def _figures(found: Found) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return the figures: a title, and the function that draws it with its arguments."""
    figures: list[tuple[str, Any, tuple[Any, ...]]] = []
    # Of what is not done yet, or not taken, the map shows just that, for any point of the grid.
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
            figures.append((f"Regret on {place}", pooled_chart, (curves, n_rounds[place])))
    return figures


def _by_table(found: Found, chosen: Iterable[tuple[Entry, str]]) -> list[Heat]:
    return [_heat(found, entry.name, place, policy, [place]) for entry, policy in chosen for place in found.columns]


def _one_axis(found: Found, entry: Entry) -> list[Heat]:
    """Return a row a table, and one for all of them if there are several."""
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
    """Return a map of the first two axes; if there are more, the best over the others."""
    best: dict[tuple[Any, ...], str] = {}
    for values, policy in entry.points.items():
        key = values[:2]
        if key not in best or found.rank(policy, places) < found.rank(best[key], places):
            best[key] = policy
    return [_heat(found, _value(down), _value(over), policy, places) for (down, over), policy in best.items()]


def _panels(found: Found, entry: Entry) -> list[tuple[str, list[str]]]:
    """Return the maps of a policy: over all tables, and one a table if these are not many."""
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
        return Heat(row, over, math.nan, "–", f"{policy} does not take these losses" if missing else "not done yet")
    said = words.measured(known[0].final.mean, known[0].final.se) if len(known) == 1 else "over several tables"
    text = f"{known[0].final.mean:.3g}" if math.isnan(multiple) and len(known) == 1 else _multiple(multiple)
    return Heat(row, over, multiple, text, f"{policy}: {said}")


def _tables(found: Found, place: str) -> Iterable[Any]:
    delays = found.grid.sweep.delays
    return (table for table in found.grid.tables if place in [column(table.label, delay) for delay in delays])


def _multiple(number: float) -> str:
    if math.isnan(number):
        return "–"
    return f"{number:.2f}" if number < 10.0 else f"{number:.3g}"


def _value(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def as_json(found: Found) -> bytes:
    """Return the numbers of a report: for every policy on every table, the trials of all seeds together."""
    rows = [
        {"policy": policy, "table": place, "n_seeds": each.n_seeds, **each.final._asdict()}
        for (policy, place), each in sorted(found.pooled.items())
    ]
    content = {"format": FORMAT, "version": VERSION, "title": found.grid.sweep.title, "n_done": found.n_done}
    content |= {"n_cells": len(found.grid.cells), "results": rows, "versions": versions()}
    return json.dumps(without_nan(content), indent=1, allow_nan=False).encode()


def best_rows(found: Found) -> list[tuple[str, str, str]]:
    """Return the best policy of each table and its regret, as rows of text under a head."""
    rows = [("table", "smallest regret", "policy")]
    for place, policy in found.best.items():
        final = found.pooled[policy, place].final
        rows.append((place, words.measured(final.mean, final.se), policy))
    return rows


def summary(grid: Grid, n_done: int) -> str:
    """Say how much of a sweep is done."""
    return f"{n_done} of {words.counted(len(grid.cells), 'cell')} {'is' if n_done == 1 else 'are'} done"


def refusals(grid: Grid) -> list[str]:
    """Say which policies are left out on which tables, a sentence for those that are left out on the same ones."""
    tables: dict[str, list[str]] = {}
    for policy, label in grid.refused:
        tables.setdefault(policy, []).append(label)
    policies: dict[tuple[str, ...], list[str]] = {}
    for policy, labels in tables.items():
        policies.setdefault(tuple(labels), []).append(policy)
    return [
        f"Left out, as they do not take all losses of {words.listed(labels)}: {words.listed(names)}."
        for labels, names in policies.items()
    ]


def failures(failed: Mapping[str, str], cells: Mapping[str, Cell]) -> list[str]:
    """Name the cells that failed, a line for each kind of failure."""
    by_error: dict[str, list[str]] = {}
    for id, error in failed.items():
        by_error.setdefault(error, []).append(str(cells[id]))
    more = 3
    return [
        f"{'; '.join(names[:more])}{f'; and {len(names) - more} more' if len(names) > more else ''}: {error}"
        for error, names in by_error.items()
    ]


def notes(grid: Grid, n_others: int) -> list[str]:
    """Say what is not as it may seem: what is left out, what is there twice, what stands in, what lies beside it."""
    said = refusals(grid)
    said += [f"{label} is the same table as {other}, and is run once." for label, other in grid.same]
    if stand_ins := [table.label for table in grid.tables if table.stand_in]:
        said.append(f"Not all data are the real ones: {words.listed(stand_ins)}.")
    if n_others:
        said.append(f"Parts of other grids or versions are kept apart, in the folder other-parts: {n_others}.")
    return said


def costs(grid: Grid, n_done: int, cost: Cost, before: int, crew: Crew) -> str:
    """Say what a sweep will take, if a process takes so many bytes before it runs anything."""
    times = words.counted(crew.n_workers, "worker")
    memory = before + cost.a_cell * (crew.n_workers if crew.threads else 1)
    new = len(grid.cells) - n_done
    return "\n".join(
        (
            f"cells    {len(grid.cells)}, of which {n_done} are done and {new} would run",
            f"rounds   {short(cost.n_rounds)}",
            f"time     about {duration(cost.seconds)} on {times} like this machine, from short runs here",
            f"memory   about {short(memory)}B {'in all' if crew.threads else 'a worker of one thread'}",
            f"disk     about {short(cost.disk)}B",
        )
    )
