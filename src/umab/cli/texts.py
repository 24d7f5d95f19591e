"""What commands print: tables of text, and notes on a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from umab._support.display import as_table as as_table  # commands look for it here
from umab._support.display import counted
from umab._support.progress import duration, short

if TYPE_CHECKING:
    from umab.research.experiments.cluster import Crew
    from umab.research.experiments.cost import Cost
    from umab.research.experiments.runner import Run
    from umab.research.experiments.sweep import Cell, Grid


def verdicts(run: Run) -> str:
    """Return the verdicts as a table with one row per experiment and one column per setting."""
    if not any(outcome.judged for outcome in run.outcomes):
        return ""
    rows = [("", *run.settings, "claim")]
    for id, outcomes in run.experiments.items():
        by_setting = {outcome.setting.name: outcome for outcome in outcomes if outcome.judged}
        cells = [by_setting[name].verdict if name in by_setting else "" for name in run.settings]
        claim = outcomes[0].experiment.claim or ", ".join(str(each.claim) for each in outcomes[0].judged)
        rows.append((id, *cells, claim + (" (stand-in data)" if outcomes[0].stand_in else "")))
    return "\n" + as_table(rows) + "\n"


def stand_in_note(names: Iterable[str], data: str) -> str:
    """Say what stand-ins were used for, and how to get the real tables; nothing if there were none.

    `data` is what the option --data says.
    """
    from umab.datasets.sources import how_to_get

    used = ", ".join(dict.fromkeys(names))
    if not used:
        return ""
    if data == "stand-in":
        return f"Not all data are real. As --data stand-in asks, stand-ins were used for: {used}."
    return f"Not all data are real. Stand-ins were used for: {used}. {how_to_get()}".rstrip()


def sweep_notes(grid: Grid, n_others: int, data: str) -> list[str]:
    """Say what may surprise: policies not run, tables given twice, arms away, stand-ins, and parts of other grids."""
    from umab.research.report import words

    said = words.sweep_refusals(grid)
    said += [f"{label} is the same table as {other}, and is run only once." for label, other in grid.same]
    said += [
        f"In {table.n_away} of {table.n_rounds * table.n_arms} cells of {table.label} the arm is away."
        for table in grid.tables
        if table.n_away
    ]
    if note := stand_in_note((table.label for table in grid.tables if table.stand_in), data):
        said.append(note)
    if n_others:
        said.append(f"The folder other-parts keeps {counted(n_others, 'part')} of other grids or versions.")
    return said


def sweep_costs(grid: Grid, n_done: int, cost: Cost, before: int, crew: Crew) -> str:
    """Say what a sweep will need, if a process needs `before` bytes before it runs anything."""
    times = counted(crew.n_workers, "worker")
    memory = before + cost.a_cell * (crew.n_workers if crew.threads else 1)
    new = len(grid.cells) - n_done
    return "\n".join(
        (
            f"cells    {len(grid.cells)}, of which {n_done} are done and {new} would run",
            f"rounds   {short(cost.n_rounds)}",
            f"time     about {duration(cost.seconds)} on {times} like this machine, estimated from short runs",
            f"memory   about {short(memory)}B {'in total' if crew.threads else 'per worker with one thread'}",
            f"disk     about {short(cost.disk)}B",
        )
    )


def sweep_failures(failed: Mapping[str, str], cells: Mapping[str, Cell]) -> list[str]:
    """Name the cells that failed, with one line for each error."""
    by_error: dict[str, list[str]] = {}
    for id, error in failed.items():
        by_error.setdefault(error, []).append(str(cells[id]))
    more = 3
    return [
        f"{'; '.join(names[:more])}{f'; and {len(names) - more} more' if len(names) > more else ''}: {error}"
        for error, names in by_error.items()
    ]
