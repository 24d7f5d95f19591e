"""`umab.read_sweep`: the parts of a sweep as one frame, with one column per parameter, for polars and for pandas."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import umab
from umab import cli
from umab.research.experiments import frames

SWEEP = """
trials = 3
seeds = [0, 1]
delays = [0, 2]
data = ["times.csv", {name = "stochastic"}]
policies = ["uniform", "umab-nn", "umab-g:horizon=500", "centred(umab-s:rate=2)"]

[grid.umab-g-a]
rate = [1, 0.5]
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    losses = np.random.default_rng(0).exponential([1.0, 2.0], size=(50, 2))
    np.savetxt(folder / "times.csv", losses, "%.6f", ",", header="a,b", comments="")
    (folder / "mixed.toml").write_text(SWEEP)
    with contextlib.chdir(folder):
        assert cli.main(["sweep", "mixed.toml", "--workers", "1", "--out", "out"]) == 0
    return folder / "out"


def parts_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of the parts, by the ids of their cells."""
    return {row["id"]: row for row in polars.read_parquet(folder / "parts").to_dicts()}


def copy(out: Path, to: Path, ids: list[str], **changes: dict[str, Any]) -> Path:
    """Make a folder of a sweep with these cells done, whose parameters are changed for some of them."""
    (to / "parts").mkdir()
    (to / "sweep.json").write_bytes((out / "sweep.json").read_bytes())
    for id in ids:
        part = polars.read_parquet(out / "parts" / f"{id}.parquet")
        if id in changes:
            part = part.with_columns(parameters=polars.lit(json.dumps(changes[id])))
        part.write_parquet(to / "parts" / f"{id}.parquet")
    return to


def test_there_is_one_row_per_cell_in_the_order_of_the_grid(out: Path) -> None:
    frame = umab.read_sweep(out)
    assert isinstance(frame, polars.DataFrame)
    assert frame["id"].to_list() == json.loads((out / "sweep.json").read_text())["cells"]
    assert frame.height == len(list((out / "parts").iterdir())) == 44  # umab-nn does not take the losses of one table
    known = parts_of(out)
    for row in frame.to_dicts():
        part = known[row["id"]]
        parameters = json.loads(part.pop("parameters"))
        assert {name: row[name] for name in part} == part
        own = {name: value for name, value in row.items() if name not in part and value is not None}
        assert own == {name: value for name, value in parameters.items() if value is not None}
        assert umab.policy(row["name"]).name == row["name"]


def test_parameters_are_columns_with_types_of_their_own(out: Path) -> None:
    frame = umab.read_sweep(str(out))
    assert frame.columns[:3] == ["id", "policy", "name"] and "parameters" not in frame.columns
    assert frame.schema["rate"] == polars.Float64 and frame.schema["horizon"] == polars.Int64
    assert frame.schema["exploration"] == polars.String
    assert set(frame.filter(policy="umab-g-a")["rate"]) == {0.5, 1.0}
    assert set(frame.filter(policy="centred(umab-s)")["rate"]) == {2.0}
    assert set(frame.filter(policy="uniform")["rate"]) == {None}
    assert set(frame.filter(policy="umab-g")["horizon"]) == {500}
    curves = frame.explode("round", "mean_curve", "sd_curve")
    assert curves.height == sum(len(row["round"]) for row in frame.to_dicts())


def test_pandas_has_the_same_numbers_without_pyarrow(out: Path) -> None:
    frame, other = umab.read_sweep(out), umab.read_sweep(out, frame="pandas")
    assert isinstance(other, pandas.DataFrame) and list(other.columns) == frame.columns
    for name in frame.columns:
        mine = [None if value is pandas.NA or value != value else value for value in other[name].tolist()]
        assert mine == frame[name].to_list(), name
    kinds = {name: str(other[name].dtype) for name in ("seed", "regret", "rate", "horizon")}
    assert kinds == {"seed": "int64", "regret": "float64", "rate": "float64", "horizon": "Int64"}
    best = other.groupby("name")["regret"].mean()
    for label, regret in best.items():
        assert regret == pytest.approx(frame.filter(name=str(label))["regret"].mean())
    assert len(other.explode(["round", "mean_curve", "sd_curve"])) > len(other)


def without(library: str, program: str, *arguments: str) -> str:
    """Run a program where a library cannot be imported, and return what it prints."""
    program = f"import sys; sys.modules[{library!r}] = None; import umab\n{program}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    return done.stdout + done.stderr.strip().rpartition("\n")[2]


def test_without_pandas_or_polars_the_extra_is_named(out: Path) -> None:
    assert without("pandas", "print(len(umab.read_sweep(sys.argv[1])))", str(out)) == "44\n"
    said = without("pandas", "umab.read_sweep(sys.argv[1], frame='pandas')", str(out))
    assert "needs pandas; run pip install 'umab[notebook]'" in said
    said = without("polars", "umab.read_sweep(sys.argv[1])", str(out))
    assert "reading a sweep needs polars; run pip install 'umab[data]'" in said
    assert without("pyarrow", "print(len(umab.read_sweep(sys.argv[1], frame='pandas')))", str(out)) == "44\n"


def test_it_is_there_after_an_import_that_loads_nothing_for_it() -> None:
    program = (
        "import sys, umab; before = {'polars', 'pandas', 'umab.research'} & set(sys.modules)\n"
        "from umab import read_sweep; print(before, 'read_sweep' in dir(umab), {'polars', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set() True set()\n"


def test_only_cells_of_the_grid_that_are_done_have_a_row(out: Path, tmp_path: Path) -> None:
    ids = sorted(parts_of(out))
    folder = copy(out, tmp_path, ids[:5])
    stranger = polars.read_parquet(out / "parts" / f"{ids[5]}.parquet").with_columns(id=polars.lit("other"))
    stranger.write_parquet(folder / "parts" / "other.parquet")
    (folder / "parts" / ".half.parquet.0123.tmp").write_bytes(b"PAR1")
    assert sorted(umab.read_sweep(folder)["id"]) == ids[:5]
    (folder / "parts" / f"{ids[0]}.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=rf"{ids[0]}.*damaged; delete it"):
        umab.read_sweep(folder)


def test_parameters_that_are_called_like_another_column_get_a_prefix(out: Path, tmp_path: Path) -> None:
    first, second, third = sorted(parts_of(out))[:3]
    changes: dict[str, dict[str, Any]] = {
        first: {"seed": 7, "rate": 1, "flag": True},
        second: {"rate": 0.5, "mode": "x"},
        third: {"mode": 3},
    }
    folder = copy(out, tmp_path, [first, second, third], **changes)
    rows = {row["id"]: row for row in umab.read_sweep(folder).to_dicts()}
    assert [rows[id]["parameter_seed"] for id in (first, second)] == [7, None]
    assert rows[first]["seed"] == parts_of(out)[first]["seed"]
    assert [rows[id]["rate"] for id in (first, second, third)] == [1.0, 0.5, None]
    assert [rows[id]["mode"] for id in (first, second, third)] == [None, "x", "3"]
    assert rows[first]["flag"] is True
    frame = umab.read_sweep(folder, frame="pandas")
    assert str(frame["flag"].dtype) == "boolean" and frame["flag"].isna().sum() == 2


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 3], polars.Int64),
        ([1, 2.5], polars.Float64),
        ([1, float("inf")], polars.Float64),
        ([2**63, 1], polars.Float64),
        ([True, None], polars.Boolean),
        ([True, 1], polars.String),
        (["a", None], polars.String),
        ([[1, 2], "a"], polars.String),
        ([None, None], polars.Null),
    ],
)
def test_the_type_of_a_column_holds_all_its_values(values: list[Any], kind: Any) -> None:
    assert frames._column("x", values).dtype == kind


def test_names_of_parameters_never_meet() -> None:
    named = frames._named(["seed", "parameter_seed", "rate"], ["seed", "id"])
    assert named == {"seed": "parameter_parameter_seed", "parameter_seed": "parameter_seed", "rate": "rate"}


def test_folders_that_are_not_a_sweep_are_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"sweep\.json of umab, but '.*nothing' has none"):
        umab.read_sweep(tmp_path / "nothing")
    (tmp_path / "sweep.json").write_text('{"format": "another"}')
    with pytest.raises(FileNotFoundError, match="has none"):
        umab.read_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        umab.read_sweep(tmp_path)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(ValueError, match=r"a cell that is done, but .* has none"):
        umab.read_sweep(copy(out, tmp_path, []))
    with pytest.raises(ValueError, match="'polars', 'pandas', but got frame='arrow'"):
        umab.read_sweep(out, frame="arrow")  # type: ignore[call-overload]
