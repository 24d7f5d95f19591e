"""The folder of a sweep: its tables, and one part for each cell, which a worker writes when the cell is done.

- ``tables/SHA256.npy``: the losses. Workers read them from here, so they do not need the files that the losses come
  from, and these may change while a sweep runs.
- ``parts/ID.parquet``: one row with the results of a cell. The same cell gives the same bytes on every worker.
- ``sweep.json``: the cells of the current grid.
- ``other-parts/``: parts of an earlier grid, so that everything in ``parts`` belongs together. If their cells return to
  the grid, they are moved back.

All columns have the same names and types in all parts, so that the parts can be read as one table however the grid
grows. Parameters, which differ from policy to policy, are JSON in one column.
"""

from __future__ import annotations

import functools
import io
import json
import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from umab._support.display import spread_out
from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.algorithms.names import policy_as_written as policy_of
from umab.algorithms.wrapper import flat_parameters
from umab.engine.simulate import simulate
from umab.engine.work import versions
from umab.research.experiments.sweep import FORMAT, Cell, Grid, Table, base_name
from umab.results.result import Result
from umab.tables.losses import Losses

if TYPE_CHECKING:
    import polars

POINTS = 200
"""How many rounds of a curve a part has at most, including the first and the last."""


def prepare(out: Path) -> None:
    """Make the folder of a sweep, or raise an error that says why this is impossible."""
    refuse_others(out)
    try:
        for folder in ("tables", "parts"):
            (out / folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=out / folder):
                pass  # a failure here costs less than one after hours of work
    except OSError as error:
        reason = f"{str(out)!r} cannot be created or written to: {error.strerror}"
        raise OSError(f"a sweep needs a folder, but {reason}") from None


def refuse_others(out: Path) -> None:
    """Refuse a folder that holds anything other than a sweep."""
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"a sweep needs a folder, but {str(out)!r} is a file")
    if (out / "sweep.json").exists():
        ours = described(out) is not None
    else:  # a sweep that was stopped before it began has only tables
        ours = not out.exists() or {path.name for path in out.iterdir()} <= {"tables", "parts", "other-parts", "report"}
    if not ours:
        raise FileExistsError(f"{str(out)!r} holds something other than a sweep; choose a new or an empty folder")


def described(out: Path) -> dict[str, Any] | None:
    """Return the content of sweep.json, which `Grid.as_json` describes; None if it is not a sweep's."""
    about = out / "sweep.json"
    try:
        content = json.loads(about.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{str(about)!r} is damaged; delete it and run again, finished cells are kept") from None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def store(out: Path, losses: Losses) -> None:
    """Write a table for the workers, unless it is already there."""
    path = _table_path(out, losses.digest)
    content = io.BytesIO()
    np.save(content, losses.table, allow_pickle=False)
    if not path.exists() or path.stat().st_size != len(content.getvalue()):
        write_atomically(path, content.getvalue())


def part_path(out: Path, id: str) -> Path:
    """Return where the part of a cell is."""
    return out / "parts" / f"{id}.parquet"


def done(out: Path) -> set[str]:
    """Return the ids of all cells that are done."""
    return _ids(out / "parts")


def _ids(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("[!.]*.parquet")} if folder.is_dir() else set()


def sort_out(grid: Grid, out: Path) -> int:
    """Set aside parts that do not belong to a grid, move back those that do, and return how many are set aside."""
    parts, others = out / "parts", out / "other-parts"
    if strangers := _ids(parts) - grid.cells.keys():
        others.mkdir(exist_ok=True)
    for source, target, ids in ((parts, others, strangers), (others, parts, _ids(others) & grid.cells.keys())):
        for id in ids:
            os.replace(source / f"{id}.parquet", target / f"{id}.parquet")
    return len(_ids(others))


def run_cell(cell: Cell, out: Path, n_threads: int = 1, stop: threading.Event | None = None) -> tuple[str, str | None]:
    """Run a cell and write its part; return its id, and an error or None. This is all that workers do.

    `stop` ends it early, for a worker that is a thread.
    """
    bar = Progress(cell.n_rounds, "running a cell", False)  # never shown: progress is counted in parts
    bar.stopped = stop or bar.stopped
    try:
        refuse_other_versions(cell)
        losses = losses_of_table(out, cell.table)
        result = simulate(
            policy_of(cell.policy),
            losses,
            n_trials=cell.n_trials,
            seed=cell.seed,
            expected=True,
            keep="summary",
            delays=cell.delay or None,
            device=cell.device,
            n_threads=n_threads,
            progress=bar,
        )
        write_atomically(part_path(out, cell.id), as_part(cell, result))
    except Exception as error:  # the other cells still run
        return cell.id, f"{type(error).__name__}: {error}"
    return cell.id, None


class Measured(TypedDict):
    """The regrets that a part holds."""

    n_trials: int
    final_regret: list[float]
    round: list[int]
    mean_curve: list[float]
    sd_curve: list[float]


class Row(Measured):
    """What a part holds, as far as reports need it; `as_part` has all columns."""

    id: str
    seed: int


def as_part(cell: Cell, result: Result) -> bytes:
    """Return the content of a part."""
    import polars

    rounds = spread_out(cell.table.n_rounds, POINTS)
    row: dict[str, tuple[object, Any]] = {
        "id": (cell.id, polars.String),
        "policy": (base_name(cell.policy), polars.String),
        "name": (cell.policy, polars.String),
        "parameters": (json.dumps(flat_parameters(policy_of(cell.policy)), default=str), polars.String),
        "data": (cell.table.label, polars.String),
        "sha256": (cell.table.digest, polars.String),
        "n_rounds": (cell.table.n_rounds, polars.Int64),
        "n_arms": (cell.table.n_arms, polars.Int64),
        "delay": (cell.delay, polars.Int64),
        "seed": (cell.seed, polars.Int64),
        "n_trials": (cell.n_trials, polars.Int64),
        "regret": (float(result.mean[-1]), polars.Float64),
        "se": (float(result.se[-1]), polars.Float64),
        "sd": (float(result.sd[-1]), polars.Float64),
        "final_regret": (result.final_regret.tolist(), polars.List(polars.Float64)),
        "round": ((rounds + 1).tolist(), polars.List(polars.Int64)),
        "mean_curve": (result.mean[rounds].tolist(), polars.List(polars.Float64)),
        "sd_curve": (result.sd[rounds].tolist(), polars.List(polars.Float64)),
        "versions": (json.dumps(dict(cell.versions)), polars.String),
    }
    frame = polars.DataFrame(
        {key: [value] for key, (value, _) in row.items()}, schema={key: kind for key, (_, kind) in row.items()}
    )
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def read(grid: Grid, out: Path) -> list[Row]:
    """Return the rows of all cells of a grid that are done."""
    ids = sorted(done(out) & grid.cells.keys())
    return cast(list[Row], read_parts(ids, out).to_dicts()) if ids else []


def read_parts(ids: list[str], out: Path) -> polars.DataFrame:
    """Return the rows of these cells, of which there is at least one; all of them are done."""
    import polars

    def rows_of(ids: list[str]) -> polars.DataFrame:
        rows = polars.read_parquet([part_path(out, id) for id in ids], glob=False)
        if rows["id"].to_list() != ids:
            raise ValueError("a part must belong to the cell that it is named after")
        return rows

    unreadable = (polars.exceptions.PolarsError, OSError, ValueError)
    try:
        return rows_of(ids)
    except unreadable as error:
        for id in ids:
            try:
                rows_of([id])
            except unreadable:
                path = str(part_path(out, id))
                raise ValueError(f"the part {path!r} is damaged; delete it and run the sweep again") from None
        raise ValueError(f"the parts in {str(out)!r} do not fit together: {error}") from None


def rounds_of(cells: Iterable[Cell]) -> int:
    """Return how many rounds cells have in all their trials."""
    return sum(cell.n_rounds for cell in cells)


def refuse_other_versions(cell: Cell) -> None:
    """Refuse a cell that was made with other versions of what its bits depend on."""
    here, there = versions(), dict(cell.versions)
    differ = [f"{name} {here[name]} instead of {there[name]}" for name in there if here[name] != there[name]]
    if differ:
        raise ValueError(
            "a worker must have the same versions as the process that started the sweep, or bits may differ, but this "
            f"one has {', '.join(differ)}"
        )


def _table_path(out: Path, digest: str) -> Path:
    return out / "tables" / f"{digest}.npy"


def losses_of_table(out: Path, table: Table) -> Losses:
    """Return the losses of a table, from the folder of a sweep."""
    path = _table_path(out, table.digest)
    if not path.exists():
        raise FileNotFoundError(
            f"a worker must see the folder of the sweep, but there is no {str(path)!r} on its machine"
        )
    return _mapped(path, table.digest)


@functools.lru_cache(maxsize=2)
def _mapped(path: Path, digest: str) -> Losses:
    """Return a table as a view of its file, which the workers of one machine share."""
    table = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    losses = Losses(table=table, arms=tuple(str(k) for k in range(table.shape[1])), source=str(path))
    if losses.digest != digest:
        raise ValueError(f"a table must be as the sweep stored it, but {str(path)!r} has changed")
    return losses
