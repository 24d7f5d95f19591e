"""Simulations on a GPU: cells, each of a policy and a table, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError

from umab.algorithms.base import Policy
from umab.engine import gpu, gpu_trials
from umab.engine.work import Rows, Work, result_of
from umab.results.result import Result


def simulate_cells(policies: Sequence[Policy], works: Sequence[Work]) -> list[Result]:
    """Return the result of each policy with its own work; cells that can run at once do.

    Works may differ in their tables only, which have the same shape, and policies in their parameters.
    """
    first = works[0]

    def advance(n_rounds: int) -> None:
        first.bar.advance(n_rounds)
        if first.stop.is_set() or first.bar.stopped.is_set():
            raise CancelledError

    tables = list({id(work.losses): work for work in works}.values())
    place = {id(work.losses): k for k, work in enumerate(tables)}
    task = gpu_trials.Task(
        losses=[work.losses for work in tables],
        tables=[work.table() for work in tables],
        kind=first.kind,
        delays=first.delays,
        n_trials=first.n_trials,
        seed=first.seed,
        advance=advance,
    )
    cells = [
        gpu_trials.Cell(policy.for_horizon(work.losses.n_rounds), place[id(work.losses)])
        for policy, work in zip(policies, works, strict=True)
    ]
    rows = [Rows.of(work, policy) for policy, work in zip(policies, works, strict=True)]
    means, squares = gpu_trials.run(cells, task, rows)
    about = gpu.description()
    return [
        result_of(policy, work, own, mean, spread, about)
        for policy, work, own, mean, spread in zip(policies, works, rows, means, squares, strict=True)
    ]
