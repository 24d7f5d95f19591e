"""The cells of a sweep on the GPU of this machine: those that differ in parameters and tables only run at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.algorithms.names import policy_as_written as policy_of
from umab.engine.assembly import hooks_of
from umab.engine.delays import Delays
from umab.engine.layout import layout_of
from umab.engine.work import Work
from umab.research.experiments.parts import as_part, losses_of_table, part_path, refuse_other_versions
from umab.research.experiments.sweep import Cell
from umab.results.among import costs_of

MOST_TRIALS_AT_ONCE = 1 << 20
"""Cells are grouped up to so many trials, which fill any GPU."""


def run_on_gpu(cells: Sequence[Cell], out: Path, stop: threading.Event) -> list[tuple[str, str | None]]:
    """Run cells and write their parts; return their ids, each with an error or None."""
    from umab.engine import gpu

    gpu.device()  # without one, nothing can run
    outcomes: list[tuple[str, str | None]] = []
    for group in groups(cells):
        try:
            _run(group, out, stop)
        except Exception as error:  # the other groups still run
            outcomes += [(cell.id, f"{type(error).__name__}: {error}") for cell in group]
        else:
            outcomes += [(cell.id, None) for cell in group]
    return outcomes


def groups(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Yield cells that can run at once, in the order of the first of each group."""
    found: dict[object, list[Cell]] = {}
    for cell in cells:
        found.setdefault(_kind(cell), []).append(cell)
    for group in found.values():
        at_once = max(1, MOST_TRIALS_AT_ONCE // group[0].n_trials)
        yield from (group[first : first + at_once] for first in range(0, len(group), at_once))


def _kind(cell: Cell) -> object:
    """Return what cells that run at once have in common."""
    policy = policy_of(cell.policy).for_horizon(cell.table.n_rounds)
    layout = layout_of(policy)
    same_code = tuple(hooks_of(policy).values()), layout, len(layout.start(policy, cell.table.n_arms))
    table = cell.table
    alone = table.digest if table.n_away else ""
    return same_code, table.n_rounds, table.n_arms, alone, cell.delay, cell.seed, cell.n_trials


def _run(group: Sequence[Cell], out: Path, stop: threading.Event) -> None:
    from umab.engine.gpu_trials import simulate_cells

    bar = Progress(sum(cell.n_rounds for cell in group), "running cells", False)  # never shown, as in `run_cell`
    works = {}
    for cell in group:
        refuse_other_versions(cell)
        if cell.table.digest not in works:
            losses = losses_of_table(out, cell.table)
            works[cell.table.digest] = Work(
                losses=losses,
                advice=None,
                delays=Delays.of(cell.delay, losses.n_rounds) if cell.delay else None,
                costs=costs_of(losses),
                n_trials=cell.n_trials,
                seed=cell.seed,
                expected=True,
                keep="summary",
                bar=bar,
                stop=stop,
            )
    policies = [policy_of(cell.policy) for cell in group]
    results = simulate_cells(policies, [works[cell.table.digest] for cell in group])
    for cell, result in zip(group, results, strict=True):
        write_atomically(part_path(out, cell.id), as_part(cell, result))
