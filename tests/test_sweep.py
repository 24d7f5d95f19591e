"""Sweeps: the file, the grid, the cells, what runs them, and what is read from them."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import distributed
import duckdb
import joblib
import numpy as np
import polars
import pytest
from joblib._parallel_backends import SequentialBackend

import umab
from helpers import PATIENCE
from umab import cli
from umab.research.experiments import cluster, cost, parts
from umab.research.experiments.pooled import Found, Pooled
from umab.research.experiments.sweep import Cell, Grid, Sweep, Table, grid_of
from umab.research.report import sweep_page
from umab.research.report.charts import pooled_chart

QUICK = """
title = "Rates"
trials = 40
seeds = [0, 1]
data = ["times.csv", {name = "stochastic", seed = [3, 4]}]
policies = ["recommended", "umab-nn", "uniform"]

[grid.umab-g-a]
rate = [1, 4]
initial_scale = [0.1, 1, 10]
"""

# Some seconds on two workers, in cells of a fraction of a second: there is a middle in which to be killed.
LONG = """
trials = 400
seeds = [0, 1, 2, 3]
data = ["times.csv", {name = "stochastic"}]
policies = ["recommended", "uniform"]

[grid.umab-g-a]
rate = [0.5, 1, 2]
"""


PAGE = Path(__file__).parent.parent / "docs" / "experiments.md"


def content(**changes: Any) -> dict[str, Any]:
    return {"trials": 5, "data": {"name": "stochastic"}, "policies": ["uniform"]} | changes


def fill(folder: Path) -> Path:
    rows = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(1000, 3)).tolist()
    text = "\n".join(["a,b,c", *(",".join(map(repr, row)) for row in rows)])
    (folder / "times.csv").write_text(text + "\n")
    (folder / "quick.toml").write_text(QUICK)
    (folder / "long.toml").write_text(LONG)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "umab.cli", "sweep", *arguments]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=folder, timeout=PATIENCE)


def run_here(folder: Path, *arguments: str) -> int:
    """Run a sweep in this process, which has compiled already."""
    with contextlib.chdir(folder):
        return cli.main(["sweep", *arguments])


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a sweep in a session of its own, as a terminal does: a signal can go to all its processes."""
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    )


def written(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "parts").glob("*.parquet")}


def until(true: Callable[[], bool], process: subprocess.Popen[Any] | None = None, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline and (process is None or process.poll() is None)
        time.sleep(0.01)


def in_the_middle(out: Path, process: subprocess.Popen[Any]) -> None:
    until(lambda: (out / "parts").is_dir() and len(parts.done(out)) >= 3, process)


def stored(sweep: Sweep, out: Path) -> Grid:
    parts.prepare(out)
    return grid_of(sweep, False, functools.partial(parts.store, out))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The parts of the long sweep, from a run without incidents."""
    here = fill(tmp_path_factory.mktemp("local"))
    assert run_here(here, "long.toml", "--workers", "2", "--out", "out") == 0
    return written(here / "out")


# The file and the grid.


def test_a_grid_has_a_cell_for_every_combination(folder: Path) -> None:
    grid = grid_of(Sweep.read(folder / "quick.toml"))
    assert [table.label for table in grid.tables] == ["times.csv", "stochastic seed=3", "stochastic seed=4"]
    assert (grid.tables[0].n_rounds, grid.tables[0].n_arms) == (1000, 3)
    assert grid.sweep.policies[-1].axes == ("rate", "initial_scale")
    assert list(grid.sweep.policies[-1].points.values()) == [
        "umab-g-a:initial_scale=0.1,rate=1",
        "umab-g-a:rate=1",
        "umab-g-a:initial_scale=10,rate=1",
        "umab-g-a:initial_scale=0.1,rate=4",
        "umab-g-a:rate=4",
        "umab-g-a:initial_scale=10,rate=4",
    ]
    # umab-nn does not accept the negative losses of two tables.
    assert set(grid.refused) == {("umab-nn", "stochastic seed=3"), ("umab-nn", "stochastic seed=4")}
    assert len(grid.cells) == (9 + 8 + 8) * 2
    assert {cell.policy for cell in grid.cells.values()} >= {umab.recommended().name, "umab-nn", "uniform"}


def test_other_axes() -> None:
    sweep = Sweep.of("x", content(delays=[0, 7], data={"suite": ["outliers", "sparse"], "seed": [0, 1]}))
    assert list(sweep.data) == ["outliers seed=0", "outliers seed=1", "sparse seed=0", "sparse seed=1"]
    grid = grid_of(Sweep.of("x", content(delays=[0, 7])))
    assert [str(cell) for cell in grid.cells.values()] == [
        "uniform on stochastic with seed 0",
        "uniform on stochastic, delay 7 with seed 0",
    ]
    half = Sweep.of("x", content(data={"suite": "development"}))
    assert list(half.data) == list(umab.datasets.suite("development", real=False))
    recommended = Sweep.of("x", content(grid={"recommended": {"marks": [32, 128]}}))
    assert list(recommended.policies[1].points.values()) == ["umab-w:marks=32", "umab-w:marks=128"]
    inside = Sweep.of("x", content(grid={"centred(umab-s)": {"rate": [0.5, 2], "clipping": "none"}}))
    (entry,) = inside.policies[1:]
    assert entry.name == "centred(umab-s:clipping=none), best of 2"
    assert list(entry.points.values()) == [
        "centred(umab-s:clipping=none,rate=0.5)",
        "centred(umab-s:clipping=none,rate=2)",
    ]


def test_what_is_there_twice_is_run_once(tmp_path: Path) -> None:
    sweep = Sweep.of("x", content(policies=["uniform", "umab-g-a"], grid={"umab-g-a": {"rate": [0.25, 1]}}))
    assert len(grid_of(sweep).cells) == 3  # 0.25 is the usual rate
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,1\n")
    (tmp_path / "b.csv").write_text("x,y\n1.0,2.0\n3.0,1.0\n")
    grid = grid_of(Sweep.of("x", content(data=["a.csv", "b.csv"]), folder=tmp_path))
    assert grid.same == (("b.csv", "a.csv"),) and len(grid.cells) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trails": 5}, r"'trails'; did you mean 'trials'\?"),
        ({"trials": 0}, "at least 1, .*trials=0"),
        ({"seeds": 3}, "seeds .*list, .*3"),
        ({"seeds": [1, 1]}, r"seeds .*different .*\[1, 1\]"),
        ({"delays": [-1]}, "at least 0, .*delays=-1"),
        ({"data": []}, r"table .*data=\[\]"),
        ({"data": [{"name": "stochastic"}] * 2}, "data .*different .*'stochastic' twice"),
        ({"data": {"name": "stochastics"}}, r"'stochastics'; did you mean 'stochastic'\?"),
        ({"data": {"name": "stochastic", "sed": [1]}}, r"'sed'.* did you mean 'seed'\?"),
        ({"data": {"suite": "outlier"}}, "'outliers'.*suite='outlier'"),
        ({"policies": []}, "policy .*none in policies or in grid"),
        ({"policies": ["uniform", "uniform"]}, "policies .*'uniform' twice"),
        ({"policies": ["unifrom"]}, r"'unifrom'; did you mean 'uniform'\?"),
        ({"grid": 3}, r"\[grid.POLICY\], .*3"),
        ({"grid": {"umab-g": 4}}, r"'umab-g' .*\[grid.umab-g\], .*4"),
        ({"grid": {"umab-g": {"rat": [4]}}}, "umab-g .*'rat'"),
        ({"grid": {"umab-g": {"rate": []}}}, "rate of 'umab-g' .*empty list"),
        ({"grid": {"umab-g": {"rate": [[1]]}}}, r"rate of 'umab-g' .*number.*\[1\]"),
        ({"grid": {"umab-g": {"rate": "1 2"}}}, "rate of 'umab-g' .*word.*'1 2'"),
        ({"grid": {"umab-g:rate=4": {"initial_scale": [1]}}}, "parameters .*'umab-g:rate=4'"),
    ],
)
def test_a_mistake_in_a_file_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Sweep.of("x", content(**changes))


def test_a_sweep_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least one cell .*no policy"):
        grid_of(Sweep.of("x", content(policies=["umab-nn"])))
    with pytest.raises(ValueError, match=r"sweep .*'data'"):
        Sweep.of("x", {"policies": ["uniform"]})
    with pytest.raises(FileNotFoundError, match=r"none\.toml'"):
        Sweep.read(tmp_path / "none.toml")


def test_ids_change_when_numbers_may_and_only_then() -> None:
    def ids(**changes: Any) -> set[str]:
        return set(grid_of(Sweep.of("x", content(**changes))).cells)

    (cell,) = grid_of(Sweep.of("x", content())).cells.values()
    known = {cell.id}
    assert ids(title="another") == ids(policies=["uniform", "umab-g-a"]) & known == ids(seeds=[0, 1]) & known == known
    renamed = cell._replace(table=cell.table._replace(label="other", source="elsewhere", stand_in=True))
    assert renamed.id == cell.id
    others = [
        cell._replace(policy="umab-g"),
        cell._replace(table=cell.table._replace(digest="0" * 64)),
        cell._replace(delay=1),
        cell._replace(seed=1),
        cell._replace(n_trials=6),
        cell._replace(versions=(("umab", "9"),)),
    ]
    assert len({cell.id, *(other.id for other in others)}) == 1 + len(others)


# What a part says.


def test_a_part_has_what_a_simulation_gives(tmp_path: Path) -> None:
    sweep = Sweep.of("x", content(policies=["umab-g-a:rate=4"], seeds=[9], delays=[3], trials=70))
    grid = stored(sweep, tmp_path)
    ((id, cell),) = grid.cells.items()
    assert parts.run_cell(cell, tmp_path) == (id, None)
    (row,) = polars.read_parquet(tmp_path / "parts").to_dicts()
    losses = umab.datasets.stochastic()
    known = umab.simulate("umab-g-a:rate=4", losses, n_trials=70, seed=9, expected=True, delays=3, keep="summary")
    assert row["regret"] == known.mean[-1] and row["se"] == known.se[-1] and row["sd"] == known.sd[-1]
    assert row["final_regret"] == known.final_regret.tolist()
    at = np.array(row["round"]) - 1
    assert len(at) == parts.POINTS and at[0] == 0 and at[-1] == losses.n_rounds - 1
    assert row["mean_curve"] == known.mean[at].tolist() and row["sd_curve"] == known.sd[at].tolist()
    assert (row["policy"], row["name"], row["data"]) == ("umab-g-a", "umab-g-a:rate=4", "stochastic")
    assert json.loads(row["parameters"])["rate"] == 4.0 and row["sha256"] == losses.digest
    assert (row["delay"], row["seed"], row["n_trials"], row["n_arms"]) == (3, 9, 70, 2)
    assert json.loads(row["versions"])["umab"] == umab.__version__


def test_parts_are_read_in_one_line_also_when_the_grid_grows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the documentation, on parts whose policies have other parameters."""
    out = folder / "sweep-rates"
    for policies in (["uniform", "ahb"], ["umab-g-a", "centred(umab-s:rate=2)"]):
        for cell in stored(Sweep.of("x", content(policies=policies)), out).cells.values():
            parts.run_cell(cell, out)
    (out / "parts" / ".half.parquet.0123.tmp").write_bytes(b"PAR1")  # what a killed worker leaves behind
    *_, block = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    *_, with_polars, with_duckdb = block.splitlines()  # the first one imports both
    monkeypatch.chdir(folder)
    frame = eval(with_polars, {"polars": polars})
    rows = {row[0]: row[1:] for row in eval(with_duckdb, {"duckdb": duckdb}).fetchall()}
    assert len(frame) == 4 and rows.keys() == set(frame["name"])
    for name, data, regret in frame.select("name", "data", "regret").iter_rows():
        assert rows[name][:2] == (data, regret)
    assert rows["centred(umab-s:rate=2)"][2] == "2.0" and rows["uniform"][2] is None
    assert len(parts.done(out)) == 4


# Running.


def test_the_backend_and_the_number_of_workers_change_no_byte(folder: Path, capsys: Any) -> None:
    ways = (("--workers", "1"), ("--workers", "3"), ("--backend", "processes", "--workers", "2"))
    every = []
    for at, way in enumerate(ways):
        assert run_here(folder, "quick.toml", *way, "--out", str(at)) == 0
        every.append(written(folder / str(at)))
    assert len(every[0]) == 50 and every[0] == every[1] == every[2]
    printed = capsys.readouterr()
    assert printed.err == "" and printed.out.count("50 of 50 cells are done") == 3
    assert "Not run on stochastic seed=3 and stochastic seed=4, " in printed.out and ": umab-nn." in printed.out
    best = umab.simulate("recommended", folder / "times.csv", n_trials=40, seed=1, expected=True)
    rows = polars.read_parquet(folder / "0" / "parts").filter(name=best.policy, data="times.csv", seed=1)
    assert rows["regret"].to_list() == [best.mean[-1]]


def test_only_what_is_missing_is_run(folder: Path, capsys: Any) -> None:
    def stamps() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (folder / "out" / "parts").iterdir()}

    assert run_here(folder, "quick.toml", "--out", "out") == 0
    before = stamps()
    lost = polars.read_parquet(folder / "out" / "parts").filter(name="umab-nn", seed=1)["id"].item() + ".parquet"
    (folder / "out" / "parts" / lost).unlink()
    file = folder / "quick.toml"
    file.write_text(QUICK.replace("rate = [1, 4]", "rate = [1, 4, 16]").replace('"uniform"]', "]"))
    assert run_here(folder, "quick.toml", "--out", "out") == 0
    printed, after = capsys.readouterr().out, stamps()
    kept = {name for name in before if after.get(name) == before[name]}
    gone = before.keys() - after.keys()
    assert kept == before.keys() - {lost} - gone and len(gone) == 6  # those of choosing at random
    assert len(after) == 50 - 6 + 3 * 3 * 2 and "62 of 62 cells are done" in printed
    assert "other-parts keeps 6 parts" in printed
    file.write_text(QUICK)
    assert run_here(folder, "quick.toml", "--out", "out") == 0
    again = stamps()
    assert again.keys() == before.keys() and all(again[name] == before[name] for name in gone | kept)
    assert len(list((folder / "out" / "other-parts").iterdir())) == 3 * 3 * 2


def test_a_damaged_part_is_named_whatever_the_folder_is_called(folder: Path, capsys: Any) -> None:
    out = folder / "run[1] of *"
    assert run_here(folder, "quick.toml", "--out", str(out)) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert eval(line.partition("read them: ")[2], {"umab": umab}).height == 50
    victim = min((out / "parts").iterdir())
    whole = victim.read_bytes()
    for damaged in (whole[:100], b"", max((out / "parts").iterdir()).read_bytes()):
        victim.write_bytes(damaged)
        for more in ((), ("--report",)):
            assert run_here(folder, "quick.toml", "--out", str(out), *more) == 2
            assert f"{str(victim)!r} is damaged; delete it" in capsys.readouterr().err
    victim.unlink()
    assert run_here(folder, "quick.toml", "--out", str(out)) == 0
    assert victim.read_bytes() == whole


def test_a_damaged_table_is_written_again_and_a_damaged_list_of_cells_named(folder: Path, capsys: Any) -> None:
    out = folder / "sweep-quick"
    stored(Sweep.read(folder / "quick.toml"), out)
    table = min((out / "tables").iterdir())
    whole = table.read_bytes()
    table.write_bytes(whole[:-8])
    (out / "sweep.json").write_text('{"format": "umab.Sw')
    assert run_here(folder, "quick.toml") == 2
    assert "sweep.json' is damaged; delete it" in capsys.readouterr().err
    (out / "sweep.json").unlink()
    assert run_here(folder, "quick.toml") == 0
    assert table.read_bytes() == whole


@pytest.mark.parametrize("backend", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_ctrl_c_keeps_what_is_done(backend: str, folder: Path, local: dict[str, bytes]) -> None:
    out = folder / "sweep-long"
    with start(folder, "long.toml", "--backend", backend, "--workers", "2") as process:
        in_the_middle(out, process)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    kept = written(out)
    assert process.returncode == 130 and 3 <= len(kept) < len(local)
    assert errors.startswith(f"umab: stopped; {len(kept)} of {len(local)} cells are done") and errors.count("\n") == 1
    assert run_here(folder, "long.toml") == 0
    assert written(out) == local


def test_a_signal_to_terminate_is_one_to_stop(folder: Path) -> None:
    with start(folder, "long.toml") as process:
        in_the_middle(folder / "sweep-long", process)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and errors.startswith("umab: stopped; ")


def test_a_killed_client_and_killed_processes_are_survived(folder: Path, local: dict[str, bytes]) -> None:
    out = folder / "sweep-long"
    with start(folder, "long.toml", "--backend", "processes", "--workers", "2") as process:
        in_the_middle(out, process)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(written(out)) < len(local)
    with start(folder, "long.toml", "--backend", "processes", "--workers", "2") as process:
        n_before = len(parts.done(out))
        until(lambda: len(workers_of(process)) == 2, process)
        victim, _ = workers_of(process)
        until(lambda: len(parts.done(out)) >= n_before + 3, process)
        os.kill(victim, signal.SIGKILL)
        assert len(parts.done(out)) < len(local)
        process.communicate(timeout=PATIENCE)  # joblib may have words about it
    assert process.returncode == 0
    assert written(out) == local


def workers_of(process: subprocess.Popen[Any]) -> list[int]:
    """Return the ids of the processes in which joblib runs cells."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "popen_loky_posix" in line]


def deadly(cell: Cell, out: Path, n_threads: int = 1, stop: Any = None) -> tuple[str, str | None]:
    """Run a cell; that of seed 1 brings down its worker each time, as one that takes all memory does."""
    if cell.seed == 1:
        os._exit(1)
    return parts.run_cell(cell, out, n_threads, stop)


@pytest.mark.slow
def test_a_cell_that_kills_processes_is_given_up_and_the_others_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "run_cell", deadly)
    grid = stored(Sweep.of("x", content(seeds=[0, 1, 2, 3])), tmp_path)
    with cluster.crew("processes", 2) as crew:
        failed = cluster.run(list(grid.cells.values()), tmp_path, crew)
    ((id, error),) = failed.items()
    assert grid.cells[id].seed == 1 and error.startswith("its worker died 2 times (TerminatedWorkerError")
    assert len(parts.done(tmp_path)) == 3


def fake(outcome: Callable[[Cell], Any]) -> cluster.Crew:
    """Return a worker that asks what happens to a cell: an exception is raised for the whole attempt."""

    def parallel(calls: Any) -> list[tuple[str, str | None]]:
        return [outcome(arguments[0]) for _, arguments, _ in calls]

    return cluster.Crew(1, parallel)


def test_a_cell_that_kills_its_worker_is_given_up_and_the_others_are_run(tmp_path: Path) -> None:
    """Whatever the order: what else the worker had in hand is lost with it, and is run again."""
    cells = list(stored(Sweep.of("x", content(seeds=[0, 1, 2, 3, 4, 5])), tmp_path).cells.values())
    killers = {cells[0].id, cells[3].id}

    def outcome(cell: Cell) -> Any:
        if cell.id in killers:
            raise RuntimeError("worker died")
        return parts.run_cell(cell, tmp_path)

    failed = cluster.run(cells, tmp_path, fake(outcome))
    assert failed.keys() == killers and set(failed.values()) == {"its worker died 2 times (RuntimeError: worker died)"}
    assert len(parts.done(tmp_path)) == 4


def test_a_policy_that_kills_its_worker_with_every_seed_does_not_end_the_sweep(tmp_path: Path) -> None:
    sweep = Sweep.of("x", content(seeds=list(range(5)), policies=["umab-s", "uniform", "umab-g-a"]))
    cells = list(stored(sweep, tmp_path).cells.values())
    killers = {cell.id for cell in cells if cell.policy == "umab-s"}

    def outcome(cell: Cell) -> Any:
        if cell.id in killers:
            raise RuntimeError("worker died")
        return parts.run_cell(cell, tmp_path)

    assert cluster.run(cells, tmp_path, fake(outcome)).keys() == killers
    assert parts.done(tmp_path) == {cell.id for cell in cells} - killers


def test_workers_that_never_run_anything_end_a_sweep(tmp_path: Path) -> None:
    cells = list(stored(Sweep.of("x", content(seeds=list(range(20)))), tmp_path).cells.values())
    tried: list[str] = []

    def broken(cell: Cell) -> Any:
        tried.append(cell.id)
        raise ModuleNotFoundError("No module named 'umab'")

    failed = cluster.run(cells, tmp_path, fake(broken))
    assert failed.keys() == {cell.id for cell in cells} and len(tried) < 10
    assert all("No module named 'umab'" in error for error in failed.values())


def test_a_lost_cluster_ends_a_sweep_with_a_word(tmp_path: Path) -> None:
    cells = list(stored(Sweep.of("x", content()), tmp_path).cells.values())

    def lost(cell: Cell) -> Any:
        raise ConnectionError("gone")

    with pytest.raises(OSError, match=r"workers is lost \(ConnectionError: gone\)"):
        cluster.run(cells, tmp_path, fake(lost)._replace(lost=lambda: True))


def test_a_cell_that_fails_is_named_and_the_others_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def failing(policy: Any, *arguments: Any, **options: Any) -> Any:
        if policy == umab.policy("uniform"):
            raise ArithmeticError("what a pity")
        return umab.simulate(policy, *arguments, **options)

    monkeypatch.setattr(parts, "simulate", failing)
    assert run_here(folder, "quick.toml", "--workers", "2") == 1
    printed = capsys.readouterr()
    assert "44 of 50 cells are done" in printed.out
    (line,) = printed.err.splitlines()
    assert line.startswith("umab: failed: uniform on times.csv with seed 0; uniform on times.csv with seed 1; ")
    assert line.endswith("; and 3 more: ArithmeticError: what a pity")


def test_other_versions_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    (cell,) = stored(Sweep.of("x", content()), tmp_path / "a").cells.values()
    _, error = parts.run_cell(cell, tmp_path / "b")
    table = tmp_path / "b" / "tables" / f"{cell.table.digest}.npy"
    assert error is not None and error.startswith("FileNotFoundError: a worker ") and repr(str(table)) in error
    _, error = parts.run_cell(cell._replace(versions=(("umab", umab.__version__), ("numpy", "1.0"))), tmp_path / "a")
    assert error is not None and f"numpy {np.__version__} instead of 1.0" in error
    table = tmp_path / "a" / "tables" / f"{cell.table.digest}.npy"
    np.save(table, np.ones((3, 2)))
    _, error = parts.run_cell(cell, tmp_path / "a")
    assert error is not None and f"{str(table)!r} has changed" in error
    assert parts.done(tmp_path / "a") == set()


def test_threads_help_within_cells_that_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noted(cell: Cell, out: Path, n_threads: int = 1, stop: Any = None) -> tuple[str, None]:
        seen.append(n_threads)
        return cell.id, None

    monkeypatch.setattr(cluster, "run_cell", noted)
    cells = list(stored(Sweep.of("x", content(seeds=[0, 1])), tmp_path).cells.values())
    for n_workers in (1, 2, 5):
        with cluster.crew("threads", n_workers) as crew:
            cluster.run(cells, tmp_path, crew)
    assert seen == [1, 1, 1, 1, 2, 2]


# Progress and cost.


def test_the_bar_counts_the_rounds_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    skipped: list[int] = []
    monkeypatch.setattr("umab._support.progress.Progress.skip", lambda self, n: skipped.append(n))
    grid = stored(Sweep.of("x", content(seeds=[0, 1])), tmp_path)
    first, second = grid.cells.values()

    def outcome(cell: Cell) -> tuple[str, str | None]:
        (tmp_path / "parts" / f"{cell.id}.parquet").touch()
        until(lambda: sum(steps) > 0)
        return cell.id, None

    monkeypatch.setattr("umab._support.progress.Progress.advance", lambda self, n: steps.append(n))
    cluster.run([second], tmp_path, fake(outcome), n_skipped=first.n_rounds)
    assert sum(steps) == second.n_rounds == 5 * 1258 and skipped == [first.n_rounds]
    assert threading.active_count() == 1 or all("umab-sweep" not in each.name for each in threading.enumerate())


def test_a_dry_run_says_what_it_will_take_and_writes_nothing(folder: Path) -> None:
    done = run(folder, "long.toml", "--dry-run", "--workers", "2")
    assert done.returncode == 0 and not (folder / "sweep-long").exists()
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    n_rounds = 400 * 4 * (1000 + 1258) * 5
    assert lines["cells"] == "cells    40, of which 0 are done and 40 would run"
    assert lines["rounds"] == f"rounds   {n_rounds / 1e6:.3g}M"
    assert re.search(r"about \d+ (s|min) on 2 workers like this machine", lines["time"])
    assert re.search(r"about \d+MB in total", lines["memory"]) and re.search(r"about [\d.]+(k|M)B", lines["disk"])


@pytest.mark.slow  # as it looks at a clock
def test_estimates_are_near_what_it_takes(tmp_path: Path) -> None:
    """Memory beside what a process has anyway within a factor of 1.3; time and disk within 3, as machines are noisy."""
    rng = np.random.default_rng(0)
    parts.prepare(tmp_path)
    losses = umab.Losses.of(rng.normal(size=(400_000, 20)))
    parts.store(tmp_path, losses)
    (small,) = grid_of(Sweep.of("x", content(trials=40))).cells.values()
    cell = small._replace(table=Table("large", losses.digest, losses.n_rounds, losses.n_arms, "", False))
    script = (
        "import pickle, sys, time\n"
        "from pathlib import Path\n"
        "from umab.research.experiments import cost, parts\n"
        "from umab.research.experiments.sweep import Sweep\n"
        "from umab._support.memory import peak\n"
        "cell, out = pickle.loads(bytes.fromhex(sys.argv[1])), Path(sys.argv[2])\n"
        "before = cost.memory_before(Sweep.of('x', {'data': {'name': 'stochastic'}, 'policies': ['uniform']}))\n"
        "start = time.perf_counter()\n"
        "assert parts.run_cell(cell, out) == (cell.id, None)\n"
        "print(before, time.perf_counter() - start, peak())\n"
    )
    arguments = [sys.executable, "-c", script, pickle.dumps(cell).hex(), str(tmp_path)]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    before, seconds, peak = (float(each) for each in printed)
    heads = cost.Heads()
    heads.keep(losses)
    found = cost.estimate([cell], heads, 1)
    assert found.n_rounds == 40 * 400_000
    assert 1 / 1.3 < found.a_cell / (peak - before) < 1.3
    assert 1 / 3 < found.seconds / seconds < 3
    part = (tmp_path / "parts" / f"{cell.id}.parquet").stat().st_size
    assert 1 / 3 < (found.disk - cell.table.size) / part < 3


def test_a_short_table_does_not_stand_for_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[int] = []

    def seconds_a_round(cell: Cell, head: umab.Losses) -> float:
        timed.append(head.n_rounds)
        return 1.0

    monkeypatch.setattr(cost, "_seconds_a_round", seconds_a_round)
    heads, cells = cost.Heads(), []
    (small,) = grid_of(Sweep.of("x", content())).cells.values()
    for n_rounds in (8, 2000, 10):
        losses = umab.Losses.of(np.ones((n_rounds, 2)))
        heads.keep(losses)
        cells.append(small._replace(table=Table(str(n_rounds), losses.digest, n_rounds, 2, "", False)))
    cost.estimate(cells, heads, 1)
    assert timed == [2000]


# A Dask cluster.


class Dask:
    """A scheduler, and workers that are processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[Any]] = []
        about = folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(about))
        until(lambda: about.exists() and about.read_text().endswith("}"))
        self.address: str = json.loads(about.read_text())["address"]

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[Any]:
        module = f"distributed.cli.dask_{kind}"
        log = (self._folder / "dask.log").open("a")
        environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, "--no-dashboard", *arguments],
            stdout=log,
            stderr=log,
            cwd=self._folder,
            env=environment,
        )
        log.close()
        self._processes.append(process)
        return process

    def worker(self, *arguments: str) -> subprocess.Popen[Any]:
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny", *arguments)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    found = Dask(tmp_path)
    yield found
    found.close()


def on(dask: Dask) -> Sequence[str]:
    return "--backend", "dask", "--address", dask.address


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_is_survived(folder: Path, dask: Dask, local: dict[str, bytes]) -> None:
    victim, _ = dask.worker(), dask.worker()
    out = folder / "sweep-long"
    with start(folder, "long.toml", *on(dask)) as process:
        in_the_middle(out, process)
        victim.kill()
        victim.wait()
        assert len(parts.done(out)) < len(local)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "Traceback" not in errors
    assert written(out) == local


@pytest.mark.slow
def test_a_client_that_is_killed_is_resumed_on_dask(folder: Path, dask: Dask, local: dict[str, bytes]) -> None:
    dask.worker(), dask.worker()
    out = folder / "sweep-long"
    with start(folder, "long.toml", *on(dask)) as process:
        in_the_middle(out, process)
        process.kill()
    kept = {name: (out / "parts" / name).stat().st_ino for name in written(out)}
    assert 3 <= len(kept) < len(local)
    assert run(folder, "long.toml", *on(dask)).returncode == 0
    assert written(out) == local
    assert all((out / "parts" / name).stat().st_ino == inode for name, inode in kept.items())  # not run again


@pytest.mark.slow
def test_a_cell_that_kills_dask_workers_is_given_up(folder: Path, dask: Dask) -> None:
    """joblib's own backend would wait for it for ever."""
    (folder / "deadly.py").write_text(
        "import os\n"
        "from umab.research.experiments import parts\n"
        "run = getattr(parts, 'run', parts.run_cell)\n"  # Dask reads this more than once
        "parts.run = run\n"
        "def deadly(cell, *rest):\n"
        "    if cell.policy == 'umab-nn' and cell.seed == 1: os._exit(1)\n"
        "    return run(cell, *rest)\n"
        "parts.run_cell = deadly\n"
    )
    nannies = [dask._start("worker", dask.address, "--nthreads", "1", "--preload", "deadly.py") for _ in range(2)]
    done = run(folder, "quick.toml", *on(dask))
    assert done.returncode == 1 and "49 of 50 cells are done" in done.stdout
    assert "umab: failed: umab-nn on times.csv with seed 1: its worker died 2 times (KilledWorker" in done.stderr
    assert all(nanny.poll() is None for nanny in nannies)


def test_dask_workers_with_other_versions_are_refused(folder: Path, dask: Dask) -> None:
    (folder / "older.py").write_text(
        "from umab.research.experiments import parts\n"
        "from umab.engine.work import versions\n"
        "parts.versions = lambda: {**versions(), 'numpy': '1.0'}\n"
    )
    dask.worker("--preload", "older.py")
    done = run(folder, "quick.toml", *on(dask))
    assert done.returncode == 1 and "0 of 50 cells are done" in done.stdout
    assert f"numpy 1.0 instead of {np.__version__}" in done.stderr


STARTED = "No --address is given: started a local Dask cluster with 2 workers"


def left_over(session: int) -> list[str]:
    """Return the processes of a session that have not ended; nobody may have asked for the status of one that has."""
    listed = subprocess.run(["ps", "-ww", "-o", "args=", "--sid", str(session)], capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if "<defunct>" not in line]


def test_without_an_address_dask_gets_a_local_cluster(folder: Path) -> None:
    with start(folder, "quick.toml", "--backend", "dask", "--workers", "2", "--out", "dask") as process:
        printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in errors
    assert printed.startswith(STARTED) and printed.count("cluster") == 1 and "50 of 50 cells are done" in printed
    assert left_over(process.pid) == []
    assert run_here(folder, "quick.toml", "--out", "local") == 0
    assert written(folder / "dask") == written(folder / "local")


@pytest.mark.slow
def test_ctrl_c_ends_the_local_cluster_of_dask(folder: Path, local: dict[str, bytes]) -> None:
    out = folder / "sweep-long"
    with start(folder, "long.toml", "--backend", "dask", "--workers", "2") as process:
        in_the_middle(out, process)
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and printed.startswith(STARTED)
    assert errors.startswith("umab: stopped; ") and errors.count("\n") == 1
    until(lambda: left_over(process.pid) == [])
    assert 3 <= len(written(out)) < len(local)


@pytest.mark.parametrize(("error", "has_page"), [(RuntimeError, True), (KeyboardInterrupt, False)])
def test_a_local_cluster_of_dask_has_an_end(
    error: type[BaseException], has_page: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    local_cluster = distributed.LocalCluster

    def open_one(**options: Any) -> Any:
        opened.append(local_cluster(**options))
        return opened[0]

    monkeypatch.setattr(distributed, "LocalCluster", open_one)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: has_page or None)
    with cluster.crew("dask", idle=True) as crew:
        assert crew.started == "" and crew.n_workers >= 1 and opened == []
    with pytest.raises(error), cluster.crew("dask", 1) as crew:
        assert len(opened[0].workers) == crew.n_workers == 1 and crew.here
        assert crew.started.startswith("No --address is given: started a local Dask cluster with 1 worker")
        where = re.search(r"; its dashboard is at http://127\.0\.0\.1:\d+/status\.$", crew.started)
        assert (where is not None) == has_page
        raise error
    assert opened[0].status.name == "closed"


def test_options_that_do_not_go_together_are_refused(folder: Path, capsys: Any) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("mine")
    for arguments, said in (
        (("--address", "tcp://x:1"), ("address", "threads", "--backend dask")),
        (("--backend", "dask", "--address", "tcp://x:1", "--workers", "2"), ("dask", "--workers")),
        (("--backend", "dask", "--address", "nowhere"), ("Dask", "tcp://HOST:8786", "'nowhere'")),
        (("--out", "full"), ("'full'", "sweep", "empty folder")),
        (("--report",), ("report", "one cell that is done")),
    ):
        assert run_here(folder, "quick.toml", *arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("umab: ") and [word for word in said if word in line] == list(said)
    assert not (folder / "sweep-quick").exists()


# The report.


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    out = tmp_path_factory.mktemp("found")
    axes = {"umab-g-a": {"rate": [0.25, 4], "initial_scale": [0.1, 1]}, "umab-s": {"rate": [1, 2]}}
    data = [{"name": "stochastic"}, {"name": "bad_losses"}]
    sweep = Sweep.of("x", content(trials=20, seeds=[0, 1], data=data, policies=["umab-nn", "uniform"], grid=axes))
    grid = stored(sweep, out)
    for cell in grid.cells.values():
        parts.run_cell(cell, out)
    return Found.of(grid, parts.read(grid, out))


def test_seeds_are_taken_together(found: Found) -> None:
    losses = umab.datasets.stochastic()
    runs = [umab.simulate("umab-g-a:rate=4", losses, n_trials=20, seed=seed, expected=True) for seed in (0, 1)]
    every = np.concatenate([run.regret for run in runs])
    pooled = found.pooled["umab-g-a:rate=4", "stochastic"]
    at = pooled.rounds - 1
    np.testing.assert_allclose(pooled.mean, every.mean(axis=0)[at])
    np.testing.assert_allclose(pooled.sd, every.std(axis=0, ddof=1)[at], atol=1e-12)
    assert pooled.final.n_trials == 40 and pooled.n_seeds == 2
    np.testing.assert_allclose([pooled.final.mean, pooled.final.sd], [pooled.mean[-1], pooled.sd[-1]])
    chart = pooled_chart({"umab-g-a": pooled}, 1258, "Regret")
    (values,) = chart["data"]["values"]
    np.testing.assert_allclose(values["high"], pooled.mean + pooled.sd, rtol=1e-4)
    np.testing.assert_allclose(values["low"], pooled.mean - pooled.sd, rtol=1e-4, atol=1e-3)
    assert chart["title"]["subtitle"] == "Mean expected regret of 40 trials; bands are one standard deviation"


@pytest.mark.parametrize("scale", [1e-320, 1e-170, 1.0, 1e160, 1e300])
def test_seeds_of_losses_of_any_size_are_taken_together(scale: float) -> None:
    curves = np.array([[1.0, 2.0], [3.0, 8.0]])
    rows: list[parts.Measured] = [
        {
            "final_regret": (scale * curve).tolist(),
            "mean_curve": [scale * curve.mean()] * 2,
            "n_trials": 2,
            "sd_curve": [scale * curve.std(ddof=1)] * 2,
            "round": [1, 2],
        }
        for curve in curves
    ]
    pooled = Pooled.of(rows)
    exact = np.array([curves.mean(), curves.std(ddof=1)])
    digits = 1e-9 if scale > 1e-300 else 1e-3
    np.testing.assert_allclose([pooled.mean[0] / scale, pooled.sd[1] / scale], exact, rtol=digits)
    np.testing.assert_allclose([pooled.final.mean / scale, pooled.final.sd / scale], exact, rtol=digits)


def test_a_map_of_two_axes_of_three_shows_the_best_that_is_done(tmp_path: Path) -> None:
    axes = {"umab-g": {"rate": [0.25, 4], "initial_scale": [1, 2], "exploration": ["fixed", "none"]}}
    grid = stored(Sweep.of("x", content(policies=[], grid=axes)), tmp_path)
    half = [cell for cell in grid.cells.values() if "none" not in cell.policy]
    for cell in half:
        parts.run_cell(cell, tmp_path)
    page = sweep_page.write(Found.of(grid, parts.read(grid, tmp_path)), tmp_path / "report", "")
    charts = json.loads(re.findall(r'id="charts">(.*?)</script>', page.read_text(), re.DOTALL)[0])
    assert len(half) == 4 and all(value["multiple"] is not None for value in charts["1"]["data"]["values"])


def test_multiples_are_of_the_best_on_a_table(found: Found) -> None:
    means = {policy: each.final.mean for (policy, place), each in found.pooled.items() if place == "stochastic"}
    best = min(means, key=means.__getitem__)
    assert found.best["stochastic"] == best and found.relative(best, "stochastic") == 1.0
    assert found.relative("uniform", "stochastic") == means["uniform"] / means[best]
    assert math.isnan(found.relative("umab-nn", "stochastic"))  # does not accept these losses
    entry = found.grid.sweep.policies[2]
    assert found.chosen(entry) == min(entry.points.values(), key=lambda policy: found.score(policy, found.columns))


def test_the_report_has_maps_and_curves(found: Found, tmp_path: Path) -> None:
    page = sweep_page.write(found, tmp_path / "report", "umab sweep x.toml --report")
    text = page.read_text()
    n_cells = len(found.grid.cells)
    assert f"{n_cells} of {n_cells} cells are done" in text and "umab-nn" in text
    charts = json.loads(re.findall(r'id="charts">(.*?)</script>', text, re.DOTALL)[0])
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    assert len(charts) == len(titles) == text.count('class="chart"')
    kind = "Mean expected regret of 40 trials; bands are one standard deviation"
    assert text.count(f"<figcaption>{kind}.</figcaption>") == text.count("<h3>Expected regret on ") == 2
    assert titles == [
        "Policies and tables",
        "umab-g-a, best of 4: all tables",
        "umab-g-a, best of 4: stochastic",
        "umab-g-a, best of 4: bad_losses",
        "umab-s, best of 2: tables",
        "Expected regret on stochastic",
        "Expected regret on bad_losses",
    ]
    (value,) = [each for each in charts["2"]["data"]["values"] if (each["row"], each["column"]) == ("4", "0.1")]
    known = found.relative("umab-g-a:initial_scale=0.1,rate=4", "stochastic")
    assert value["multiple"] == pytest.approx(known, rel=1e-4) and value["text"] == f"{known:.2f}"
    grey = [
        each for each in charts["0"]["data"]["values"] if each["row"] == "umab-nn" and each["column"] == "stochastic"
    ]
    assert grey[0]["multiple"] is None and "does not accept these losses" in grey[0]["said"]
    assert len(list((tmp_path / "report" / "figures").glob("*.png"))) == len(titles)
    numbers = json.loads((tmp_path / "report" / "results.json").read_text())
    assert len(numbers["results"]) == len(found.pooled) and numbers["n_done"] == n_cells


def test_a_single_trial_has_a_curve_without_a_band(tmp_path: Path) -> None:
    grid = stored(Sweep.of("x", content(trials=1, delays=[4])), tmp_path)
    for cell in grid.cells.values():
        parts.run_cell(cell, tmp_path)
    found = Found.of(grid, parts.read(grid, tmp_path))
    ((_, place),) = found.pooled
    assert place == "stochastic, delay 4"
    (values,) = pooled_chart({"uniform": found.pooled["uniform", place]}, 1258)["data"]["values"]
    assert values["low"] == values["mean"] == values["high"]


def test_a_report_can_be_drawn_while_a_sweep_runs(folder: Path, capsys: Any) -> None:
    grid = stored(Sweep.read(folder / "quick.toml"), folder / "sweep-quick")
    for cell in list(grid.cells.values())[:5]:
        parts.run_cell(cell, folder / "sweep-quick")
    assert run_here(folder, "quick.toml", "--report") == 0
    page = folder / capsys.readouterr().out.splitlines()[-1]
    assert page == folder / "sweep-quick" / "report" / "index.html"
    assert "5 of 50 cells are done" in page.read_text() and "not done yet" in page.read_text()
    assert len(parts.done(folder / "sweep-quick")) == 5


def test_pooled_seeds_that_agree_have_no_error() -> None:
    row: parts.Measured = {
        "n_trials": 3,
        "final_regret": [0.1] * 3,
        "round": [1, 2],
        "mean_curve": [0.3, 0.1],
        "sd_curve": [0.0, 0.0],
    }
    pooled = Pooled.of([row] * 7)
    assert (pooled.final.mean, pooled.final.se) == (0.1, 0.0)
    mean, spread = pooled[2:4]
    assert mean.tolist() == [0.3, 0.1] and spread.tolist() == [0.0, 0.0]


# Ray.


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("page", ["127.0.0.1:8265", ""])
@pytest.mark.parametrize("address", [None, "auto"])
def test_without_an_address_ray_starts_a_local_cluster_that_has_an_end(
    address: str | None, page: str, error: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for Ray, which is not installed everywhere."""
    called: list[Any] = []
    ray, bridge = ModuleType("ray"), ModuleType("ray.util.joblib")

    def init(**options: Any) -> SimpleNamespace:
        called.append(options)
        return SimpleNamespace(dashboard_url=page)

    ray.init = init  # type: ignore[attr-defined]
    ray.shutdown = lambda: called.append("closed")  # type: ignore[attr-defined]
    ray.cluster_resources = lambda: {"CPU": 3.0}  # type: ignore[attr-defined]
    bridge.register_ray = lambda: joblib.register_parallel_backend("ray", SequentialBackend)  # type: ignore[attr-defined]
    for module in (ray, ModuleType("ray.util"), bridge):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(error) if error else contextlib.nullcontext(), cluster.crew("ray", 3, address) as crew:
        (options,) = called
        assert crew.n_workers == 3 and crew.here == (address is None)
        if address:
            assert options["address"] == "auto" and "num_cpus" not in options and crew.started == ""
        else:
            assert options["address"] == "local" and options["num_cpus"] == 3
            where = f"; its dashboard is at http://{page}" if page else ""
            assert crew.started == f"No --address is given: started a local Ray cluster with 3 workers{where}."
        if error:
            raise error
    assert called[1:] == ["closed"]


@pytest.mark.slow
def test_ray_gives_the_same_bytes(folder: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install -e '.[ray]'")
    done = run(folder, "quick.toml", "--backend", "ray", "--workers", "2", "--out", "ray")
    assert done.returncode == 0, done.stderr
    assert run(folder, "quick.toml", "--out", "local").returncode == 0
    assert written(folder / "ray") == written(folder / "local")
