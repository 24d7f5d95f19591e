"""Tables of losses: what is read, what is refused."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import umab

TABLE = np.array([[1.0, -2.0, 3.5], [0.0, 1e300, -4.0]])
NAMES = ("x", "y", "z")


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.tolist(),
        np.asfortranarray(TABLE),
        np.repeat(TABLE, 2, axis=0)[::2],
        TABLE.astype(object),
        umab.Losses.of(TABLE),
    ],
)
def test_arrays_and_lists(data: Any) -> None:
    losses = umab.Losses.of(data)
    assert losses.table.tolist() == TABLE.tolist()
    assert losses.table.flags.c_contiguous and losses.table.dtype == np.float64
    assert losses.arms == ("0", "1", "2") and (losses.n_rounds, losses.n_arms) == (2, 3)
    assert losses.digest == umab.Losses.of(TABLE).digest


def test_whole_numbers_and_small_floats_become_doubles() -> None:
    for kind in (np.int8, np.uint16, np.float32, bool):
        assert umab.Losses.of(np.array([[0, 1]], dtype=kind)).table.tolist() == [[0.0, 1.0]]


def test_frames_and_files_name_the_arms(tmp_path: Path) -> None:
    pandas, polars = pd.DataFrame(TABLE, columns=list(NAMES)), pl.DataFrame(TABLE, schema=list(NAMES))
    polars.write_csv(tmp_path / "losses.csv")
    polars.write_parquet(tmp_path / "losses.parquet")
    for data in (pandas, polars, tmp_path / "losses.csv", str(tmp_path / "losses.parquet")):
        losses = umab.Losses.of(data)
        assert losses.arms == NAMES
        assert losses.digest == umab.Losses.of(TABLE).digest
    assert umab.Losses.of(tmp_path / "losses.csv").source == str(tmp_path / "losses.csv")
    assert umab.Losses.of(pd.DataFrame({1: [1], 2: [2.5]})).arms == ("1", "2")


def test_keywords_come_before_what_the_data_says(tmp_path: Path) -> None:
    pl.DataFrame(TABLE, schema=list(NAMES)).write_csv(tmp_path / "losses.csv")
    known = umab.Losses.of(TABLE, arms=NAMES, source="a test", provenance={"seed": 1})
    assert (known.arms, known.source, known.provenance) == (NAMES, "a test", {"seed": 1})
    assert umab.Losses.of(known) is known
    for data in (known, TABLE, tmp_path / "losses.csv", pl.DataFrame(TABLE, schema=list(NAMES))):
        losses = umab.Losses.of(data, arms=iter("pqr"), source="", provenance={})
        assert (losses.arms, losses.source, losses.provenance) == (("p", "q", "r"), "", {})
        assert losses.digest == known.digest
        with pytest.raises(ValueError, match="2 names for 3 columns"):
            umab.Losses.of(data, arms=["p", "q"])
        with pytest.raises(ValueError, match="0 names for 3 columns"):
            umab.Losses.of(data, arms=[])
    renamed = umab.Losses.of(known, arms="pqr")
    assert (renamed.source, renamed.provenance) == ("a test", {"seed": 1})
    with pytest.raises(TypeError, match="'x' in row 0, column 1"):
        umab.Losses.of([[1.0, "x"]], arms=["p"])


def test_simulate_takes_frames_and_paths(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [2, 1]})
    frame.write_csv(tmp_path / "losses.csv")
    results = [umab.simulate("umab-nn", data, n_trials=5) for data in (frame, tmp_path / "losses.csv")]
    assert results[0].provenance["losses"]["arms"] == ["a", "b"]
    assert results[0].final_regret.tolist() == results[1].final_regret.tolist()


def test_the_digest_tells_tables_apart() -> None:
    others = [TABLE * 2, TABLE[:1], TABLE.reshape(3, 2), TABLE[:, ::-1]]
    assert len({umab.Losses.of(each).digest for each in (TABLE, *others)}) == 5


def test_nobody_changes_a_table_behind_our_back() -> None:
    mine = TABLE.copy()
    losses = umab.Losses.of(mine)
    mine[0, 0] = 99.0
    assert losses.table[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        losses.table[0, 0] = 99.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "rounds × arms, .*1 dimension"),
        ([[]], "1 rounds of 0 arms"),
        (np.empty((0, 3)), "0 rounds of 3 arms"),
        ([1.0, 2.0], "rounds × arms, .*1 dimension"),
        (np.zeros((2, 2, 2)), "rounds × arms, .*3 dimension"),
        (5.0, "rounds × arms, .*0 dimension"),
        ([[1.0, 2.0], [3.0]], "equal length"),
        ([[1.0, "2"]], "'2' in row 0, column 1"),
        ([[1.0, None]], "None in row 0, column 1"),
        ([[1.0, 2j]], "2j in row 0, column 1"),
        (np.array([["1", "2"]]), "'1' in row 0, column 0"),
        ([[1.0, 10**400]], "numbers, .* 1000"),
        (None, "table .*NoneType"),
        ({"a": 1}, "table .*dict"),
        ([[1.0, float("nan")]], "loss=nan in row 0 of arm '1'"),
        ([[1.0], [float("-inf")]], "loss=-inf in row 1 of arm '0'"),
        (pd.DataFrame({"a": [1.0], "b": ["many"]}), "'many' in row 0 of arm 'b'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "names .*'a' .*2 times"),
        (pd.DataFrame({"a": [1.0, None]}), "loss=nan in row 1 of arm 'a'"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), "in row 1 of arm 'a'"),
        (pl.DataFrame({"a": [1, 2], "b": [1, None]}), "loss=nan in row 1 of arm 'b'"),
        (np.ma.array([[1.0, 2.0]], mask=[[False, True]]), "masked"),
        (np.array([["2020-01-01"]], dtype="datetime64[ns]"), r"table .*datetime64\[ns\]"),
        (np.array([[np.timedelta64(5, "ns")]]), r"table .*timedelta64\[ns\]"),
        (np.array([[1 + 2j]]), r"\(1\+2j\) in row 0"),
        (pl.DataFrame({"a": [1, 2], "": [1, 2]}), "name, .*column 1 "),
        (pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "'x' in row 0 of arm 'b'"),
    ],
)
def test_bad_tables_are_refused(data: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.simulate("uniform", data)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("losses.txt", "a,b\n1,2\n", r"\.csv, .* or \.parquet, .*losses\.txt'"),
        ("losses.csv", "", r"losses\.csv': .*empty"),
        ("losses.csv", "a,b\n", "0 rounds of 2 arms"),
        ("losses.csv", "a,b\n1,2\n3,4,5\n", r"row 1 \(line 3 of the file\) has 3: '5'"),
        ("losses.csv", ",a,b\n0,1,2\n", "name, .*column 0 .*index=False"),
        ("losses.csv", "0.5,1.5\n1,2\n", r"first line .*numbers .*: 0\.5, 1\.5"),
        ("losses.csv", "a,a\n1,2\n", "names .*'a' .*2 times"),
        ("losses.csv", "a,b\n1,two\n", r"'two' in row 0 \(line 2 of the file\) of arm 'b'"),
        ("losses.parquet", "not parquet", r"read .*losses\.parquet'"),
    ],
)
def test_bad_files_are_refused(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((ValueError, TypeError), match=message):
        umab.Losses.of(tmp_path / name)


def test_whole_numbers_that_end_in_a_decimal(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("1,2\n" + "3,4\n" * 300 + "1.5,99999999999999999999\n")
    losses = umab.Losses.of(tmp_path / "losses.csv")
    assert losses.arms == ("1", "2") and losses.table[-1].tolist() == [1.5, 1e20]


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match=r"'nowhere\.csv'"):
        umab.Losses.of("nowhere.csv")


def test_a_missing_extra_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("a,b\n1,2\n")
    program = (
        "import sys; sys.modules['polars'] = None\n"
        "import umab\n"
        f"try: umab.Losses.of({str(tmp_path / 'losses.csv')!r})\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    advice = "run pip install 'umab[data]'"
    assert run.stdout == f"reading files of losses needs polars; {advice}\n"


def test_a_polars_column_of_times_is_refused() -> None:
    """NumPy would make numbers of it."""
    for values in ([date(2026, 1, 1)] * 2, [datetime(2026, 1, 1)] * 2, [timedelta(1)] * 2, [time(1)] * 2):
        frame = pl.DataFrame({"when": values, "a": [1.0, 2.0], "b": [2.0, 1.0]})
        with pytest.raises(
            TypeError, match=r"must be numbers, but column 'when' holds \w+.*; pass the frame without it"
        ):
            umab.simulate("uniform", frame)
