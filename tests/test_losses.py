"""Tables of losses: what is read, what is refused."""

from __future__ import annotations

import math
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
        (pd.DataFrame({"a": [1.0, None], "b": [1, 2]}), "missing, but got 'nan' in row 1 of arm 'a'"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1, 2]}), "got '<NA>' in row 1 of arm 'a'"),
        (pl.DataFrame({"a": [1, 2], "b": [1, None]}), "missing, but got an empty cell in row 1 of arm 'b'"),
        (pd.DataFrame({"a": [1.0, 2.0]}), "two arms, but got 1 from the frame: 'a'"),
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
        ("losses.csv", ",a,b\n5,1,2\n", "name, .*first column .*index=False"),
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


# Frames and files have one path: what is refused, set aside or converted in a file is in a frame as well.

FRAMES = [pd.DataFrame, pl.DataFrame]
TWO = {"a": [1.0, 2.5, 0.5, 3.0, 1.0], "b": [2.0, 1.0, 4.0, 0.25, 1.0]}
DAYS = [date(2026, 1, day) for day in range(1, 6)]


@pytest.fixture(params=FRAMES, ids=["pandas", "polars"])
def frame_of(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**TWO, "id": [0, 1, 2, 3, 4]}, r"row numbers, but column 'id' counts from 0 to 4; .*drop=\['id'\]"),
        ({"a": [1, 2, 3, 4, 10], "b": [2, 1, 5, 0, 8]}, "the last row must be a round, but row 4 holds the sums"),
        ({**TWO, "day": [*"abcd", "Total"]}, "numbers, but got 'a' in row 0 of arm 'day'; no cell .*drop="),
        ({"0.68": [1, 2], "0.5": [2, 1]}, "names of the columns .*numbers in the frame: 0.68, 0.5.*suspicious='allow'"),
        ({"a": ["1,5", "2"], "b": [1, 2]}, r"'1,5' in row 0 of arm 'a'; store .*read_csv\(\.\.\., decimal=','\)"),
        ({"a": [1, 2], "b": [timedelta(1), timedelta(2)]}, "got '1 day.* in row 0 of arm 'b'; store durations as num"),
        ({"arm": ["a", "b"], "loss": [1, 2]}, "the frame has the columns arm and loss, .*umab.offpolicy.evaluate"),
        ({"round": [1, 1, 2], "arm": ["a", "b", None], "loss": [1, 2, 3]}, "an empty cell in row 2 of column 'arm'"),
        ({"round": [1, 1, 2], "arm": ["a", "b", "a"], "loss": [1, 2, 3]}, "round '2' has none for arm 'b'"),
        ({"round": [1, 2, 3], "arm": ["a", "b", "a"], "loss": [1, 2, 3]}, "only one arm, .*no answer is possible"),
        ({"a": [1.0, math.inf], "b": [1, 2]}, "finite, but got 'inf' in row 1 of arm 'a'"),
        ({"a": [], "b": []}, "0 rounds of 2 arms from the frame"),
    ],
)
def test_frames_are_checked_as_files_are(frame_of: Any, columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        umab.Losses.of(frame_of(columns))
    assert "line" not in str(caught.value).replace("first line", "") and "\n" not in str(caught.value)


def test_frames_take_the_options_of_files(frame_of: Any) -> None:
    counting = {**TWO, "id": [0, 1, 2, 3, 4]}
    flipped = [[-a, -b] for a, b in zip(TWO["a"], TWO["b"], strict=True)]
    losses = umab.Losses.of(frame_of(counting), drop=["id"], reward=True)
    assert losses.arms == ("a", "b") and losses.table.tolist() == flipped
    assert losses.provenance == {"reward": True, "drop": ["id"], "set_aside": []} and losses.source == "DataFrame"
    assert umab.Losses.of(frame_of(counting), suspicious="allow").arms == ("a", "b", "id")
    with pytest.raises(ValueError, match="drop must name columns of the frame, but got 'x'; the columns are 'a', 'b'"):
        umab.Losses.of(frame_of(TWO), drop=["x"])
    gaps = frame_of({"a": [1.0, None, 3.0], "b": [2.0, 5.0, None]})
    filled = umab.Losses.of(gaps, missing=30, reward=True)
    assert filled.table.tolist() == [[-1.0, -2.0], [-30.0, -5.0], [-3.0, -30.0]]  # the number is a reward as well
    dropped = umab.Losses.of(gaps, missing="drop")
    assert dropped.table.tolist() == [[1.0, 2.0]] and dropped.provenance["n_left_out"] == 2
    masked = umab.Losses.of(gaps, eligible=[[True, True], [False, True], [True, False]])
    assert masked.n_away == 2
    assert umab.Losses.of(gaps, missing=0, eligible=[[True, True], [True, True], [True, False]]).n_away == 1
    with pytest.raises(ValueError, match="decimal must be for a file of text, but got decimal=',' for the frame"):
        umab.Losses.of(frame_of(TWO), decimal=",")


@pytest.mark.parametrize(
    "days",
    [
        DAYS,
        [datetime(2026, 1, day) for day in range(1, 6)],
        [str(day) for day in DAYS],
        [time(hour) for hour in range(1, 6)],
        [None, *DAYS[1:]],
    ],
)
def test_dates_in_a_frame_are_set_aside(frame_of: Any, days: list[Any]) -> None:
    frame = frame_of({"day": days, **TWO})
    with pytest.warns(umab.TableWarning, match=r"column 'day' of the frame holds dates .*as with drop=\['day'\]"):
        losses = umab.Losses.of(frame)
    assert losses.digest == umab.Losses.of(frame_of(TWO)).digest and losses.provenance["set_aside"] == ["day"]
    assert losses.provenance.get("unit") == (None if days[0] in (None, time(1)) else "day")
    umab.Losses.of(frame, drop=["day"])  # and nothing is said


def test_frames_may_be_long(frame_of: Any) -> None:
    long = frame_of({"round": [2, 2, 1, 1], "arm": ["x", "y", "y", "x"], "loss": [3.0, 4.0, 2.0, 1.0]})
    losses = umab.Losses.of(long)
    assert losses.arms == ("x", "y") and losses.table.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    days = frame_of({"when": DAYS[:1] * 2 + DAYS[1:2] * 2, "via": [7, 8, 7, 8], "cost": [1.0, 2.0, 3.0, 4.0]})
    named = umab.Losses.of(days, arm="via", reward="cost")
    assert named.arms == ("7", "8") and named.table.tolist() == [[-1.0, -2.0], [-3.0, -4.0]]
    assert named.provenance["unit"] == "day"


def test_the_index_of_a_pandas_frame_is_no_arm() -> None:
    for index in (DAYS, [5, 6, 7, 8, 9], [0, 1, 2, 3, 4], pd.date_range("2026-01-01", periods=5, freq="D")):
        losses = umab.Losses.of(pd.DataFrame(TWO, index=index))
        assert losses.arms == ("a", "b") and losses.digest == umab.Losses.of(pd.DataFrame(TWO)).digest
        assert ("unit" in losses.provenance) == (not isinstance(index[0], int))
    total = pd.DataFrame(TWO, index=[*"wxyz", "Total"])
    with pytest.raises(ValueError, match="row 4 is called 'Total'"):
        umab.Losses.of(total)
    with pytest.warns(umab.TableWarning, match="column 'Unnamed: 0' of the frame counts the rows"):
        assert umab.Losses.of(pd.DataFrame({"Unnamed: 0": [0, 1, 2, 3, 4], **TWO})).arms == ("a", "b")


def test_types_of_pandas_columns() -> None:
    columns: dict[str, Any] = {
        "a": pd.array([1, 2], dtype="Int64"),
        "b": pd.array([True, False], dtype="boolean"),
        "c": np.array([1.5, 2], dtype=object),
        "d": np.array([3, 4], dtype=np.float32),
        "e": pd.arrays.SparseArray([0.0, 7.0]),
    }
    losses = umab.Losses.of(pd.DataFrame(columns))
    assert losses.table.tolist() == [[1.0, 1.0, 1.5, 3.0, 0.0], [2.0, 0.0, 2.0, 4.0, 7.0]]
    numbered = pd.DataFrame([[1.0, 2.0, 3.0]], columns=[0.5, 7, 3])  # numbers as names are not a first line
    assert umab.Losses.of(numbered).arms == tuple(str(name) for name in numbered.columns)
    assert umab.Losses.of(pd.DataFrame([[1.0, 2.0, 3.0]]), drop=[1]).arms == ("0", "2")  # type: ignore[list-item]


def test_anything_that_speaks_arrow_is_a_frame() -> None:
    class Arrow:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pl.DataFrame(TWO).__arrow_c_stream__(requested_schema)

    assert umab.Losses.of(Arrow()).digest == umab.Losses.of(pl.DataFrame(TWO)).digest
    with pytest.raises(TypeError, match=r"got a LazyFrame, .*collect\(\)"):
        umab.Losses.of(pl.DataFrame(TWO).lazy())


def test_pandas_frames_need_no_polars() -> None:
    program = (
        "import sys; sys.modules['polars'] = None\n"
        "import pandas, umab\n"
        "frame = pandas.DataFrame({'round': [1, 1], 'arm': ['x', 'y'], 'loss': [1.0, 2.0]})\n"
        "print(umab.Losses.of(frame), umab.Losses.of(frame[['loss', 'round']], suspicious='allow'))\n"
        "try: umab.Losses.of(frame.drop(columns='round'))\n"
        "except ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = run.stdout.splitlines()
    assert first == "Losses of 1 rounds, 2 arms, from 1 to 2 Losses of 2 rounds, 2 arms, from 1 to 2"
    assert second.startswith("a table of losses must have every arm in every round")


def test_arrays_take_rewards_and_drop() -> None:
    assert umab.Losses.of([[1.0, -2.0]], reward=True).table.tolist() == [[-1.0, 2.0]]
    assert umab.Losses.of([[1.0, -2.0]], reward=True).provenance == {"reward": True}
    assert umab.Losses.of([[1.0, None]], reward=True, missing=5).table.tolist() == [[-1.0, -5.0]]
    losses = umab.Losses.of(TABLE, arms=NAMES, drop=["y"])
    assert losses.arms == ("x", "z") and losses.table.tolist() == [[1.0, 3.5], [0.0, -4.0]]
    assert losses.table.flags.c_contiguous and umab.Losses.of(losses, drop=["x"]).arms == ("z",)
    with pytest.raises(ValueError, match="drop must name arms, but got 'w'; the arms are 'x', 'y', 'z'"):
        umab.Losses.of(TABLE, arms=NAMES, drop=["w"])
    for unknown in ("", "7"):
        with pytest.raises(ValueError, match=f"drop must name arms, but got '{unknown}'"):
            umab.Losses.of(TABLE, drop=[unknown])
    with pytest.raises(ValueError, match="4 names for 3 columns"):
        umab.Losses.of(TABLE, arms="abcd", drop=["d"])
    with pytest.raises(ValueError, match="some arm must be left"):
        umab.Losses.of(losses, drop=["x", "z"])
    with pytest.raises(ValueError, match=r"reward=True for Losses, which are losses already"):
        umab.Losses.of(losses, reward=True)
    for options in ({"arm": "x"}, {"reward": "x"}, {"decimal": ","}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must .* for data of type ndarray"):
            umab.Losses.of(TABLE, **options)  # type: ignore[arg-type]


def test_no_message_prints_a_frame(frame_of: Any) -> None:
    frame = frame_of({"a": list(range(100)), "b": list(range(100))})
    calls: list[Any] = [
        lambda: umab.Losses.of(frame, missing=frame),
        lambda: umab.Losses.of(frame, reward=frame),
        lambda: umab.Losses.of(frame, suspicious=frame),
        lambda: umab.Losses.of(frame, decimal=frame),
        lambda: umab.Losses.of(frame, arm=frame),
        lambda: umab.Losses.of(frame, eligible=frame),
        lambda: umab.Losses.of([[1.0, frame]]),
        lambda: umab.offpolicy.evaluate(frame),
        lambda: umab.offpolicy.evaluate([frame, frame]),
        lambda: umab.offpolicy.estimate([("a", 0.5, 1.0), ("b", 0.5, 1.0)], frame_of({"a": ["x"], "b": ["y"]})),
        lambda: umab.offpolicy.evaluate([("a", 0.5, 1.0), ("b", 0.5, frame)]),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 700, str(caught.value)


def test_losses_are_an_array_for_numpy() -> None:
    table = np.array([[1.0, -2.0], [0.0, 4.0]])
    losses = umab.Losses.of(table)
    seen = np.asarray(losses)
    assert seen is losses.table and not seen.flags.writeable
    assert np.asarray(losses, dtype=np.float32).dtype == np.float32
    for copied in (np.array(losses), np.asarray(losses, copy=True)):
        assert copied.flags.writeable and copied is not losses.table and copied.tolist() == table.tolist()
    with pytest.raises(ValueError, match="avoid copy"):
        np.asarray(losses, dtype=np.float32, copy=False)
    assert np.mean(losses, axis=0).tolist() == table.mean(axis=0).tolist()
