"""`umab sweep`."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from umab._support.extras import extra
from umab._support.files import write_atomically
from umab.cli.options import REAL, Commands, add_data_option, command, whole_from
from umab.cli.texts import as_table, sweep_costs, sweep_failures, sweep_notes


def add(commands: Commands) -> None:
    """Add the command."""
    sweeping = command(
        commands,
        "sweep",
        run_sweep,
        "run a grid of policies, parameters, tables and seeds, written as a TOML file, on threads, processes or a "
        "cluster; cells that are done are not run again",
        "umab sweep rates.toml --backend dask --address tcp://10.0.0.1:8786 --out /shared/rates",
    )
    sweeping.add_argument("sweep", metavar="FILE.toml", help="the grid; docs/experiments.md shows one")
    sweeping.add_argument(
        "--backend",
        choices=("threads", "processes", "dask", "ray"),
        default="threads",
        help="what runs the cells (default: threads, in this process)",
    )
    sweeping.add_argument(
        "--workers",
        type=whole_from(1),
        metavar="N",
        help="number of workers (default: one per core, or all of the cluster at --address)",
    )
    sweeping.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        default="cpu",
        help="what runs the trials of a cell; on an NVIDIA GPU, many cells run at once (default: cpu)",
    )
    sweeping.add_argument(
        "--address",
        help="address of the Dask scheduler or of the Ray cluster; auto for the Ray cluster of this machine (default: "
        "start a cluster on this machine, and close it at the end)",
    )
    sweeping.add_argument(
        "--out",
        metavar="FOLDER",
        help="where to write the parts; all workers must see this folder (default: sweep-NAME, named after the file)",
    )
    add_data_option(sweeping)
    sweeping.add_argument("--dry-run", action="store_true", help="estimate time, memory and disk, and run nothing")
    sweeping.add_argument(
        "--report", action="store_true", help="write a report on the cells that are done, and run nothing"
    )


def run_sweep(options: argparse.Namespace) -> int:
    """Run a sweep or what is left of it, report on it, or estimate its cost; return 1 if cells failed."""
    with extra(options.backend if options.backend in ("dask", "ray") else "sweep", "umab sweep"):
        import polars  # noqa: F401

        from umab.research.experiments import cluster, cost, parts
        from umab.research.experiments.pooled import Found
        from umab.research.experiments.sweep import Sweep, grid_of
        from umab.research.report import sweep_page, words

    sweep, real = Sweep.read(options.sweep), REAL[options.data]
    out = Path(options.out or f"sweep-{sweep.id}")
    cluster.check_options(options.backend, options.workers, options.address)
    parts.refuse_others(out)
    if options.report:
        grid = grid_of(sweep, real, device=options.device)
        print(sweep_page.write(Found.of(grid, parts.read(grid, out)), out / "report", options.command))
        return 0
    with cluster.crew(options.backend, options.workers, options.address, idle=options.dry_run) as crew:
        if crew.started:
            print(crew.started, flush=True)
        if options.dry_run:
            before, heads = cost.memory_before(sweep), cost.Heads()
            grid = grid_of(sweep, real, heads.keep, options.device)
        else:
            parts.prepare(out)
            grid = grid_of(sweep, real, functools.partial(parts.store, out), options.device)
            write_atomically(out / "sweep.json", grid.as_json())
        n_apart = 0 if options.dry_run else parts.sort_out(grid, out)
        done = parts.done(out) & grid.cells.keys()
        cells = [cell for id, cell in grid.cells.items() if id not in done]
        print("".join(f"{line}\n" for line in sweep_notes(grid, n_apart, options.data)), end="", flush=True)
        if options.dry_run:
            if options.device == "gpu":
                print("the time is that of the processor; a GPU takes less")
            print(sweep_costs(grid, len(done), cost.estimate(cells, heads, crew.n_workers), before, crew))
            return 0
        try:
            failed = cluster.run(cells, out, crew, n_skipped=parts.rounds_of(grid.cells[id] for id in done))
        except KeyboardInterrupt:
            said = words.sweep_progress(grid, len(parts.done(out) & grid.cells.keys()))
            print(f"umab: stopped; {said}, and the same command continues from there", file=sys.stderr)
            return 130
    found = Found.of(grid, parts.read(grid, out))
    if found.n_done:
        print(as_table(sweep_page.best_rows(found), line=True))
    print(f"\n{words.sweep_progress(grid, found.n_done)}; to read them: umab.read_sweep({str(out)!r})")
    for line in sweep_failures(failed, grid.cells):
        print(f"umab: failed: {line}", file=sys.stderr)
    return int(bool(failed))
