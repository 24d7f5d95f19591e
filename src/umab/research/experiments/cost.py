"""What a sweep will cost in time, memory and disk, from short runs on this machine that leave nothing behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from umab._support.files import write_atomically
from umab._support.memory import peak
from umab.algorithms.names import policy_as_written as policy_of
from umab.engine.simulate import simulate
from umab.research.experiments.parts import POINTS, as_part, rounds_of
from umab.research.experiments.sweep import Cell, Sweep, base_name
from umab.tables.losses import Losses

HEAD = 4096
"""How many rounds of a table a timed run has at most."""

_TIMED_FOR = 0.1
"""How many seconds a timed run should take at least."""


class Cost(NamedTuple):
    """An estimate of what cells will need."""

    n_rounds: int
    seconds: float
    """Until all are done."""
    a_cell: int
    """Bytes that the largest cell needs while it runs."""
    disk: int
    """Bytes of parts and tables."""


class Heads(dict[str, Losses]):
    """The first rounds of tables, by digest, to time policies on."""

    def keep(self, losses: Losses) -> None:
        """Keep the first rounds of a table."""
        self[losses.digest] = Losses.of(losses.table[:HEAD], missing="away")  # as nan says in the table of losses


def estimate(cells: Sequence[Cell], heads: Heads, n_workers: int) -> Cost:
    """Return what cells will need on `n_workers` workers like this machine."""
    speeds: dict[tuple[str, int, bool, bool], float] = {}
    seconds, longest = 0.0, 0.0
    for cell in sorted(cells, key=lambda each: -each.table.n_rounds):  # a short table says little about a long one
        kind = base_name(cell.policy), cell.table.n_arms, cell.delay > 0, cell.table.n_away > 0
        if kind not in speeds:
            speeds[kind] = _seconds_a_round(cell, heads[cell.table.digest])
        own = cell.n_rounds * speeds[kind]
        seconds, longest = seconds + own, max(longest, own)
    part, a_part = _part(cells[0], heads[cells[0].table.digest]) if cells else (0.0, 0)
    tables = {cell.table.digest: cell.table.size for cell in cells}
    return Cost(
        n_rounds=rounds_of(cells),
        seconds=max(longest, seconds / n_workers) + part * len(cells) / n_workers,
        a_cell=max((_memory(cell) for cell in cells), default=0),
        disk=sum(tables.values()) + len(cells) * a_part,
    )


def memory_before(sweep: Sweep) -> int:
    """Return the bytes of a process that is ready to run the policies of a sweep, with their code compiled."""
    import polars  # noqa: F401  # every worker has it

    for entry in sweep.policies:
        policy = policy_of(next(iter(entry.points.values())))
        lowest, highest = policy.loss_range
        simulate(policy, np.full((2, 2), max(lowest, min(highest, 0.5))), n_trials=1, progress=False, n_threads=1)
    return peak()


def _seconds_a_round(cell: Cell, head: Losses) -> float:
    policy, n_trials, rounds = policy_of(cell.policy), 1, head.n_rounds
    while True:
        start = time.perf_counter()
        simulate(
            policy,
            head,
            n_trials=n_trials,
            expected=True,
            keep="summary",
            delays=cell.delay or None,
            n_threads=1,
            progress=False,
        )
        seconds = time.perf_counter() - start
        # The first run may have included compilation.
        if n_trials > 1 and (seconds >= _TIMED_FOR or n_trials >= cell.n_trials):
            return seconds / (n_trials * rounds)
        n_trials *= 8


def _part(cell: Cell, head: Losses) -> tuple[float, int]:
    """Return how many seconds it takes to write a part, and its size in bytes."""
    result = simulate(cell.policy, head, n_trials=1, expected=True, keep="summary", n_threads=1, progress=False)
    short = cell._replace(table=cell.table._replace(n_rounds=head.n_rounds), n_trials=1)
    as_part(short, result)  # the first one imports
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        content = as_part(short, result)
        write_atomically(Path(folder) / "part", content)
        seconds = time.perf_counter() - start
    points = min(POINTS, cell.table.n_rounds) - min(POINTS, head.n_rounds)
    return seconds, len(content) + 8 * (cell.n_trials + 3 * points)


def _memory(cell: Cell) -> int:
    """Return the bytes of a running cell: the table and its costs, the curves, and what a block of trials needs.

    If arms are away, there are also a mask, of one byte for each cell, and what each arm has cost so far.
    """
    rounds = cell.table.n_rounds
    tables = 2 * cell.table.size + (cell.table.size + cell.table.size // 8 if cell.table.n_away else 0)
    return tables + 8 * (8 * rounds + 2 * cell.n_trials) + 32 * min(rounds, HEAD) * 40
