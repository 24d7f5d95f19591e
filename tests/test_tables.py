"""Files that people have written: what is read, and what a refusal says."""

from __future__ import annotations

import csv
import gzip
import io
import math
import random
import re
import warnings
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import umab
from umab import cli
from umab.tables.sheet import Sheet

PLAIN = "1234.5"
ALLOW = "suspicious='allow'"
CELLS = "2 cells … commas"
FILL = "fill it in"
WAYS = "missing='drop'); … missing=30); … missing='away')"
COLUMNS = ".tsv"


def drop(name: str) -> str:
    return f"drop=[{name!r}]"


LONG = "if each row is the loss of one arm in one round, name its columns with round=, arm= and loss="


def not_an_arm(name: str) -> str:
    return f"no cell of the column … {drop(name)}"


def written(folder: Path, text: str | bytes, name: str = "losses.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(parts: str, error: type[Exception], folder: Path, text: str | bytes, **options: Any) -> None:
    """Check that a file is refused with a message that has these parts, separated by " … ", in this order."""
    path = written(folder, text, options.pop("name", "losses.csv"))
    with pytest.raises(error) as caught:
        umab.Losses.read(path, **options)
    said = str(caught.value).replace(repr(str(path)), "FILE")
    assert re.search(".*".join(map(re.escape, parts.split(" … "))), said) and caught.type is error, said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("losses.csv", "a,b\n1,-2.5\n3e2,4\n"),
        ("losses.CSV", "a,b\n1,-2.5\n3e2,4"),
        ("losses.csv", "\ufeffa,b\n1,-2.5\n3e2,4\n"),
        ("losses.csv", "a,b\r\n1,-2.5\r\n3e2,4\r\n"),
        ("losses.csv", "a,b\r1,-2.5\r3e2,4\r"),
        ("losses.csv", "a,b\n1,-2.5\n3e2,4\n\n  \n\t\n"),
        ("losses.csv", " a , b\n 1 ,-2.5\n3e2, 4 \n"),
        ("losses.csv", '"a","b"\n"1","-2.5"\n3e2,"4"\n'),
        ("losses.csv", "a;b\n1;-2.5\n3e2;4\n"),
        ("losses.csv", "a\tb\n1\t-2.5\n3e2\t4\n"),
        ("losses.tsv", "a\tb\n1\t-2.5\n3e2\t4\n"),
        ("losses.csv.gz", gzip.compress(b"a,b\n1,-2.5\n3e2,4\n", mtime=0)),
        ("losses.tsv.gz", gzip.compress(b"a\tb\n1\t-2.5\n3e2\t4\n", mtime=0)),
        ("losses.csv", "round,arm,loss\n7,a,1\n7,b,-2.5\n20,a,3e2\n20,b,4\n"),
        ("losses.csv", "ARM; Loss ;Round\na;300;20\nb;-2.5;7\n a ;1;7\nb;4;20\n"),
        ("losses.csv", "round,arm,loss\nMon,a,1\nFri,b,4\nMon,b,-2.5\nFri,a,300\n"),
        ("losses.csv", "round,arm,loss\n2024-02-01,a,1\n2024-01-01,b,4\n2024-02-01,b,-2.5\n2024-01-01,a,300\n"),
    ],
)
def test_what_is_read(name: str, text: str | bytes, tmp_path: Path) -> None:
    losses = umab.Losses.read(written(tmp_path, text, name))
    assert losses.arms == ("a", "b") and losses.table.tolist() == [[1.0, -2.5], [300.0, 4.0]]
    assert losses.source == str(tmp_path / name)
    assert losses.provenance == {"reward": False, "drop": [], "set_aside": []}
    assert umab.Losses.of(str(tmp_path / name)).digest == losses.digest  # one reader for everything


def test_the_first_line_says_what_separates_cells(tmp_path: Path) -> None:
    assert umab.Losses.read(written(tmp_path, "a;x,b\ty\n1,2\n")).arms == ("a;x", "b\ty")
    assert umab.Losses.read(written(tmp_path, '"a,x";b\n1;2\n')).arms == ("a,x", "b")
    assert umab.Losses.read(written(tmp_path, "a,x\tb;y\n1\t2\n", "losses.tsv")).arms == ("a,x", "b;y")


def test_columns_are_left_out_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "day,a,note,b\nMon,1,,2\nTue,3,rain,4\n")
    losses = umab.Losses.read(path, drop=iter(["note", "day"]))  # type: ignore[arg-type]
    assert losses.arms == ("a", "b") and losses.table.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert losses.provenance == {"reward": False, "drop": ["note", "day"], "set_aside": []}


def test_rewards_are_losses_with_their_signs_flipped(tmp_path: Path) -> None:
    wide = written(tmp_path, "a,b\n1,0\n-0.0,-4\n", "wide.csv")
    texts = ["round,arm,Reward\n1,a,1\n1,b,0\n2,a,-0.0\n2,b,-4\n", "round,arm,loss\n1,a,1\n1,b,0\n2,a,-0.0\n2,b,-4\n"]
    for path in (wide, written(tmp_path, texts[0], "reward.csv"), written(tmp_path, texts[1], "loss.csv")):
        table = umab.Losses.read(path, reward=True).table
        assert table.tolist() == [[-1.0, 0.0], [0.0, 4.0]]
        assert not np.signbit(table[0, 1]) and not np.signbit(table[1, 0])
    assert np.signbit(umab.Losses.read(wide).table[1, 0])


def test_rounds_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    def firsts(rounds: Sequence[str]) -> list[float]:
        rows = [f"{name},a,{at}\n{name},b,9" for at, name in enumerate(rounds)]
        table = umab.Losses.read(written(tmp_path, "round,arm,loss\n" + "\n".join(rows))).table
        return [float(loss) for loss in table[:, 0]]

    assert firsts(["10", "9", "-1", "007"]) == [2.0, 3.0, 1.0, 0.0]
    assert firsts(["1e1", "9.5", "-1"]) == [2.0, 1.0, 0.0]
    # Nanoseconds since 1970, which differ by less than doubles of that size do.
    assert firsts(["1700000000000000002", "1700000000000000001", "1700000000000000003"]) == [1.0, 0.0, 2.0]
    assert firsts(["10", "9", "x"]) == [0.0, 1.0, 2.0]
    assert firsts(["10", "9", "inf"]) == [0.0, 1.0, 2.0]


MARKS = ("", " ", "NA", "NaN", "nan", "-nan", "null", "NULL", "-", "n/a", "N/A", "#N/A", "None")


@pytest.mark.parametrize("text", [*MARKS, '""'])
def test_missing_values(text: str, tmp_path: Path) -> None:
    got = repr(text) if text.strip(' "') else "an empty cell"
    for arm, row in (("a", f"{text},4"), ("b", f"3,{text}")):
        where = f"in row 1 (line 3 of the file) of arm {arm!r}"
        refused(f"missing … {got} {where} … {WAYS}", ValueError, tmp_path, f"a,b\n1,2\n{row}\n5,x\n")


@pytest.mark.parametrize("text", ["inf", "-inf", "Infinity", "1e400", "-1.8e308"])
def test_infinite_values(text: str, tmp_path: Path) -> None:
    where = "in row 1 (line 3 of the file) of arm 'b'"
    refused(f"finite … {text!r} {where}", ValueError, tmp_path, f"a,b\n1,2\n3,{text}\n")


@pytest.mark.parametrize(
    "text",
    ["many", "1,5", "1,234.5", "$5", "5 €", "50%", "1_000", "0x10", "1e", "--1", "1 2", "−5", "true", "5 ms", "?"],
)
def test_texts_among_numbers(text: str, tmp_path: Path) -> None:
    message = f"{text!r} in row 1 (line 3 of the file) of arm 'b' … {PLAIN}"
    refused(message, TypeError, tmp_path, f"a;b\n1;2\n3;{text}\n4;x\n")
    refused(message, TypeError, tmp_path, f'a,b\n1,2\n3,"{text}"\n4,x\n')


@pytest.mark.parametrize("texts", [("1,5", "2,5"), ("$1", "$2"), ("10%", "20%"), ("1'000", "2’000"), ("(5)", "−6")])
def test_a_column_of_numbers_in_another_notation_is_not_to_be_dropped(texts: tuple[str, str], tmp_path: Path) -> None:
    message = f"{texts[0]!r} in row 0 (line 2 of the file) of arm 'b' … {PLAIN}"
    refused(message, TypeError, tmp_path, f"a;b\n1;{texts[0]}\n3;{texts[1]}\n")


@pytest.mark.parametrize(
    ("cells", "error", "got"),
    [
        (("2024-01-01", "later"), TypeError, "numbers … '2024-01-01'"),
        (("1.5.24", "2.5.24"), TypeError, "numbers … '1.5.24'"),
        (("Mon", "Total"), TypeError, "numbers … 'Mon'"),
        (("", ""), ValueError, "missing … empty cell"),
        (("NaN", "x"), ValueError, "missing … 'NaN'"),
    ],
)
def test_a_column_without_numbers(cells: tuple[str, str], error: type[Exception], got: str, tmp_path: Path) -> None:
    message = f"{got} in row 0 (line 2 of the file) of arm 'when' … {not_an_arm('when')}"
    refused(f"{message} … {LONG}", error, tmp_path, f"a,when,b,c\n1,{cells[0]},2,5\n3,{cells[1]},4,6\n")


def test_a_long_table_under_other_names(tmp_path: Path) -> None:
    """If fewer than two columns have numbers, leaving out the one with names leads nowhere, and is named last."""
    message = f"numbers … 'east' … of arm 'service' … no cell of the column is a number: {LONG}; … {drop('service')}"
    text = "date,service,ms\n2026-01-01,east,20\n2026-01-01,west,30\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", umab.TableWarning)
        refused(message, TypeError, tmp_path, text)
    losses = umab.Losses.read(written(tmp_path, text), round="date", arm="service", loss="ms")  # as the message says
    assert losses.arms == ("east", "west") and losses.table.tolist() == [[20.0, 30.0]]


def test_a_unit_behind_a_number_is_not_a_name(tmp_path: Path) -> None:
    for text in ("55.73 ms", "12s", "1,234.5 USD"):
        with pytest.raises(TypeError, match=r"like 1234\.5"):
            umab.Losses.read(written(tmp_path, f'a,b\n1,"{text}"\n3,"{text}"\n'))


def test_options_are_said_and_names_are_quoted_as_they_are_written_where_the_file_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, "the day's,a,b\nMon,1,2\n")
    for read in (umab.Losses.read, umab.Losses.of, lambda path: umab.simulate("uniform", path)):
        with pytest.raises(TypeError, match=re.escape("""with drop=["the day's"];""")):
            read(path)
    assert cli.main(["compare", str(path)]) == 2
    assert """with --drop 'the day'"'"'s';""" in capsys.readouterr().err
    for command in ("run", "sweep"):
        file = written(tmp_path, 'data = "losses.csv"\npolicies = ["uniform"]\n', "file.toml")
        assert cli.main([command, str(file)]) == 2
        assert 'with data = {file = ..., drop = ["the day\'s"]};' in capsys.readouterr().err


@pytest.mark.parametrize(
    "cells",
    [
        ("2024-01-01", "2024-01-02", "2024-01-03"),
        ("1.5.2024", "2.5.2024", "13.5.2024"),
        ("12/31/2023", "1/1/2024", "1/2/2024"),
        ("2024/1/1 8:30", "2024/1/1 9:30", "2024/1/1 10:30"),
        ("2024-01-01T08:30:00Z", "2024-01-01T08:30:00.25+01:00", "2024-01-02"),
        ("2024-01-01", "2024-01-01", "2024-01-01"),
    ],
)
def test_a_column_of_dates_is_set_aside_and_that_is_said(
    cells: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a,when,b\n" + "".join(f"{t},{cell},{2 - t}\n" for t, cell in enumerate(cells))
    path = written(tmp_path, text)
    with pytest.warns(umab.TableWarning, match=r"column 'when' .*dates .*drop=\['when'\]"):
        losses = umab.Losses.of(path)
    assert losses.arms == ("a", "b") and losses.table.tolist() == [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    assert losses.provenance["set_aside"] == ["when"]
    assert umab.Losses.read(path, drop=["when"]).provenance["set_aside"] == []  # and nothing is said
    assert cli.main(["compare", str(path), "--trials", "2", "--policy", "uniform", "--out", str(tmp_path / "out")]) == 0
    assert f"umab: note: column 'when' of {str(path)!r}" in capsys.readouterr().err


def test_dates_are_no_arms_in_other_places_either(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [1.5, 0.5], "day": [date(2024, 1, 2), date(2024, 1, 3)]})
    frame.write_parquet(tmp_path / "losses.parquet")
    with pytest.warns(umab.TableWarning, match="column 'day'"):
        assert umab.Losses.read(tmp_path / "losses.parquet").arms == ("a", "b")
    long = written(tmp_path, "round,arm,loss,date\n1,a,5,2024-01-01\n1,b,6,2024-01-01\n")
    with pytest.warns(umab.TableWarning, match="column 'date'"):
        assert umab.Losses.read(long).table.tolist() == [[5.0, 6.0]]
    totals = written(tmp_path, "date,a,b\n2024-01-01,1,2\n2024-01-02,3,1\nTotal,4,3\n")
    with pytest.raises(ValueError, match=r"last row .*row 2 .*'Total'"):
        umab.Losses.of(totals)


def test_a_first_column_that_counts_the_rows_is_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pandas and R write such a column without a name, and pandas reads it as Unnamed: 0."""
    for text in (",a,b\n0,1,2\n1,4,3\n", '"","a","b"\n"1",1,2\n"2",4,3\n', "Unnamed: 0,a,b\n0,1,2\n1,4,3\n"):
        path = written(tmp_path, text)
        with pytest.warns(umab.TableWarning, match=r"column.* of .*counts the rows and was set aside, as with drop="):
            losses = umab.Losses.read(path)
        assert losses.arms == ("a", "b") and losses.table.tolist() == [[1.0, 2.0], [4.0, 3.0]]
        assert umab.Losses.read(path, drop=losses.provenance["set_aside"]).digest == losses.digest  # nothing is said
    assert cli.main(["compare", str(path), "--trials", "2", "--policy", "uniform", "--out", str(tmp_path / "out")]) == 0
    assert "counts the rows and was set aside, as with --drop 'Unnamed: 0'" in capsys.readouterr().err
    with pytest.warns(umab.TableWarning, match="the first column of .* holds dates"):
        losses = umab.Losses.read(written(tmp_path, ",a,b\n2026-01-01,1,2\n2026-01-02,4,3\n"))
    assert losses.provenance["unit"] == "day" and losses.n_arms == 2
    with pytest.warns(umab.TableWarning):
        long = umab.Losses.read(written(tmp_path, ",round,arm,loss\n0,1,a,5\n1,1,b,6\n"))
    assert long.table.tolist() == [[5.0, 6.0]]
    for first in ("3", "Mon"):
        message = f"every arm must have a name … first column of FILE … {drop('')} … to_csv(..., index=False)"
        refused(message, ValueError, tmp_path, f",a,b\n{first},1,2\n")
    refused("the last row … 'Total'", ValueError, tmp_path, ",a,b\n0,1,2\n1,4,3\nTotal,5,5\n")


# Decimal commas.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("losses.csv", "a;b\n1,5;-2,25\n3e2;,5\n"),
        ("losses.csv", "a\tb\n1,5\t-2,25\n3e2\t0,5\n"),
        ("losses.tsv", "a\tb\n1,5\t-2,25\n3e2\t0,5\n"),
        ("losses.csv", 'a,b\n"1,5","-2,25"\n3e2,"0,5"\n'),
        ("losses.csv", "round;arm;loss\n1;a;1,5\n1;b;-2,25\n2;a;300\n2;b;0,5\n"),
    ],
)
def test_decimal_commas(name: str, text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, name)
    for read in (umab.Losses.read, umab.Losses.of):
        assert read(path, decimal=",").table.tolist() == [[1.5, -2.25], [300.0, 0.5]]


def test_commas_in_names_do_not_separate_cells_if_they_are_decimal_commas(tmp_path: Path) -> None:
    path = written(tmp_path, "p50, in ms;b\n1,5;2\n")
    assert umab.Losses.read(path, decimal=",").arms == ("p50, in ms", "b")


def test_a_decimal_comma_is_not_a_point_and_a_point_is_no_comma(tmp_path: Path) -> None:
    comma = "write numbers like 1234,5, with a decimal comma"
    for text in ("1.5", "1.234,5", "1,2,3", "5 €"):
        refused(
            f"{text!r} in row 0 (line 2 of the file) … {comma}", TypeError, tmp_path, f"a;b\n1;{text}\n", decimal=","
        )
    way = "if these are decimal commas, pass decimal=','"
    refused(f"'1,5' in row 0 … 1234.5 … {way}", TypeError, tmp_path, "a;b\n1;1,5\n")
    cells = "'2' has no name … if numbers have decimal commas, put semicolons between the cells, and pass decimal=','"
    refused(cells, ValueError, tmp_path, "a,b\n1,5,2,5\n")
    refused("decimal must be one of '.', ',' … decimal=';'", ValueError, tmp_path, "a;b\n1;2\n", decimal=";")


def test_decimal_commas_in_commands_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a;b\n1,5;2\n2,5;1\n")
    run = ["--trials", "2", "--policy", "uniform", "--out", "out"]
    assert cli.main(["compare", "losses.csv", *run]) == 2
    assert "if these are decimal commas, pass --decimal ,\n" in capsys.readouterr().err
    assert cli.main(["compare", "losses.csv", "--decimal", ",", *run]) == 0
    assert "from 1 to 2.5" in capsys.readouterr().out
    file = written(tmp_path, 'data = "losses.csv"\npolicies = ["uniform"]\ntrials = 2\n', "file.toml")
    assert cli.main(["run", str(file)]) == 2
    assert 'write data = {file = ..., decimal = ","}' in capsys.readouterr().err
    said = file.read_text().replace('"losses.csv"', '{file = "losses.csv", decimal = ","}')
    assert cli.main(["run", str(written(tmp_path, said, "file.toml")), "--out", "out"]) == 0


def test_a_log_may_have_decimal_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "arm;probability;loss\na;0,5;1,5\nb;0,5;2,5\n", "log.csv")
    assert umab.offpolicy.read_log(path, decimal=",")["loss"].tolist() == [1.5, 2.5]
    assert cli.main(["evaluate", str(path)]) == 2
    assert "if these are decimal commas, pass --decimal ," in capsys.readouterr().err
    assert cli.main(["evaluate", str(path), "--decimal", ","]) == 0


# Long tables whose columns have other names.

SERVICES = (
    "date,service,region,ms\n"
    "2026-01-01,x,p,10\n2026-01-01,y,q,11\n"
    "2026-01-02,x,p,20\n2026-01-02,y,q,21\n"
)  # fmt: skip
LATENCIES = [[10.0, 11.0], [20.0, 21.0]]


def test_columns_of_a_long_table_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, SERVICES)
    losses = umab.Losses.read(path, round="date", arm="service", loss="ms")  # the region is ignored
    assert losses.arms == ("x", "y") and losses.table.tolist() == LATENCIES
    assert losses.provenance["columns"] == {"round": "date", "arm": "service", "loss": "ms"}
    assert losses.provenance["unit"] == "day" and losses.provenance["set_aside"] == []
    rewards = umab.Losses.of(path, round="date", arm="service", reward="ms")
    assert rewards.table.tolist() == [[-10.0, -11.0], [-20.0, -21.0]] and rewards.provenance["reward"] is True
    # What is called as it should be need not be named, and neither need the rounds if there is one column for them.
    assert umab.Losses.read(path, drop=["region"], arm="service", loss="ms").table.tolist() == LATENCIES
    usual = written(tmp_path, SERVICES.replace("date", "Round").replace("ms", "Loss"))
    assert umab.Losses.read(usual, arm="service").table.tolist() == LATENCIES
    both = written(tmp_path, "round,arm,loss,profit\n1,a,5,50\n1,b,6,60\n")
    assert umab.Losses.read(both, reward="profit").table.tolist() == [[-50.0, -60.0]]
    assert umab.Losses.read(both, loss="profit").table.tolist() == [[50.0, 60.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arm": "servce", "loss": "ms"}, "arm must name a column of the file … 'servce' … 'date', 'service',"),
        ({"arm": "service"}, "column of losses … FILE has none called loss … 'ms' it is: pass loss='COLUMN'"),
        ({"loss": "ms"}, "column of arms … FILE has none called arm … pass arm='COLUMN'"),
        ({"arm": "service", "loss": "ms"}, "rounds … which of 'date', 'region' it is: pass round='COLUMN'"),
        ({"arm": "service", "loss": "ms", "reward": True}, "losses or rewards, but got loss='ms' and reward=True"),
        ({"arm": "service", "loss": "ms", "reward": "ms"}, "losses or rewards, but got loss='ms' and reward='ms'"),
        ({"round": "region", "arm": "service", "loss": "ms"}, "round 'p' has 2 for arm 'x'"),
    ],
)
def test_named_columns_are_checked(options: Any, message: str, tmp_path: Path) -> None:
    refused(message, ValueError, tmp_path, SERVICES, **options)
    with pytest.raises(TypeError, match="arm must be the name of a column, but got a int"):
        umab.Losses.read(tmp_path / "losses.csv", arm=7)  # type: ignore[arg-type]


def test_commands_and_files_name_columns_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SERVICES)
    run = ["--trials", "2", "--policy", "uniform", "--out", "out"]
    columns = ["--round", "date", "--arm", "service"]
    assert cli.main(["compare", "losses.csv", *columns, "--loss", "ms", *run]) == 0
    assert "losses (lower is better) from 10 to 21" in capsys.readouterr().out
    assert cli.main(["compare", "losses.csv", *columns, "--reward", "ms", *run]) == 0
    assert "rewards (higher is better) from 10 to 21" in capsys.readouterr().out
    assert cli.main(["compare", "losses.csv", *columns[2:], "--loss", "ms", *run]) == 2
    assert "which of 'date', 'region' it is: pass --round COLUMN" in capsys.readouterr().err
    text = (
        'data = {file = "losses.csv", round = "date", arm = "service", loss = "ms"}\npolicies = ["uniform"]\ntrials = 2'
    )
    assert cli.main(["run", str(written(tmp_path, text, "file.toml")), "--out", "out"]) == 0
    bad = written(tmp_path, text.replace('"date"', "7"), "bad.toml")
    assert cli.main(["run", str(bad)]) == 2
    assert "round must be text, but got 7" in capsys.readouterr().err


def test_a_file_may_come_after_the_option_that_says_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a,b\n1,2\n2,1\n")
    run = ["--trials", "2", "--policy", "uniform", "--out", "out"]
    for arguments in (["--reward", "losses.csv"], ["losses.csv", "--reward"], ["--rew", "./losses.csv"]):
        assert cli.main(["compare", *arguments, *run]) == 0
        assert "rewards (higher is better) from 1 to 2" in capsys.readouterr().out
    written(tmp_path, "arm,probability,loss\na,0.5,1\nb,0.5,2\n", "log.csv")
    assert cli.main(["evaluate", "--reward", "log.csv"]) == 0
    assert "mean reward" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "FILE … empty"),
        (" \n\n", "FILE … empty"),
        ("\ufeff", "FILE … empty"),
        ("\na,b\n1,2\n", "first line … blank … FILE"),
        ("a,b\n", "0 rounds of 2 arms from FILE"),
        ("a,b", "0 rounds of 2 arms from FILE"),
        ("a,b,a\n1,2,3\n", "names … 'a' … 2 times"),
        ("a,b, a\n1,2,3\n", "names … 'a' … 2 times"),
        ("a, \n1,2\n", "name … column 1 … to_csv(..., index=False)"),
        ("0.5,1.5\n1,2\n", "first line … numbers … FILE … 0.5, 1.5"),
        # Rows
        ("a,b\n1,2\n\n3,4\n", "line 3 of the file … blank"),
        ("a,b\n\n1,2\n", "line 2 of the file … blank"),
        ("a,b\n1,2\n  \n3,4\n", "line 3 of the file … blank"),
        ("a,b\n1,2\n3\n", f"{CELLS} … row 1 (line 3 of the file) has 1 … 'b'"),
        ("a,b\n1\n3,4\n", f"{CELLS} … row 0 (line 2 of the file) has 1 … 'b'"),
        ("a,b\n1,2\n3,4,5\n6\n", f"{CELLS} … row 1 (line 3 of the file) has 3 … '5' … {PLAIN}"),
        ("a,b\n1,2\n3,4,", f"{CELLS} … row 1 (line 3 of the file) has 3 … '' … {PLAIN}"),
        ("a,b\n1,5,2,5\n", f"{CELLS} … row 0 (line 2 of the file) has 4 … '2' … {PLAIN}"),
        ("a;b\n1;2;3\n", f"2 cells … semicolons … row 0 (line 2 of the file) has 3 … '3' … {PLAIN}"),
        ('a,b\n1,2\n"3\n",4\n5,"6\n7,8\n', "FILE … line 5 … quotes"),
        ('a,b\n1,"\n"4"\n', "FILE … line 2 … quotes"),
        ('a,b\n1,2\n3,4"5\n6,7\n', """quotes … '4"5' in row 1 (line 3 of the file) of column 'b'"""),
        # Arms
        ("a\n1\n2\n", f"two arms … 1 from FILE … 'a' … {COLUMNS}"),
        ("a b\n1 2\n", f"two arms … 1 from FILE … 'a b' … {COLUMNS}"),
        # Long tables
        ("round,arm,loss\n1,a,5\n2,a,6\n", "two arms … 1 from FILE … 'a'"),
        ("round,arm,loss\n1,a,5\n1,b,6\n2,b,7\n", "round '2' has none for arm 'a' … 1 of 4"),
        ("round,arm,loss\n1,a,5\n2,a,6\n3,b,7\n", "round '1' has none for arm 'b' … 3 of 6"),
        ("round,arm,loss\n1,a,5\n1,b,6\n2,a,7\n", "round '2' has none for arm 'b' … 1 of 4"),
        (
            "round,arm,loss\n1,a,5\n2,b,5\n1,b,6\n2,a,7\n2,b,8\n1,b,9\n1.0,b,9\n",
            "round '1' has 3 for arm 'b' … row 2 (line 4 of the file) … row 5 (line 7 of the file) … : 2",
        ),
        ("round,arm,loss\n1,a,5\n,b,6\n", f"empty cell in row 1 (line 3 of the file) of column 'round' … {FILL}"),
        ("Round,arm,loss\n1,a,5\nn/a,b,6\n", f"'n/a' in row 1 (line 3 of the file) of column 'Round' … {FILL}"),
        ("round,arm,loss\n1,none,5\n1, ,6\n", f"empty cell in row 1 (line 3 of the file) of column 'arm' … {FILL}"),
        ("round,arm,loss\n1,a,5\n1,b,\n", f"empty cell in row 1 (line 3 of the file) of column 'loss' … {WAYS}"),
        ("round,arm,Reward\n1,a,5\n1,b,6\n", "column of losses … 'Reward' … reward=True"),
        (
            "x,round,arm,loss,y z\n0,1,a,5,0\n0,1,b,6,0\n",
            "round, arm and loss … 'x', 'y z' … drop=['x', 'y z']",
        ),
    ],
)
def test_files_that_are_no_tables(text: str, message: str, tmp_path: Path) -> None:
    refused(message, ValueError, tmp_path, text)


def test_long_tables_of_texts(tmp_path: Path) -> None:
    message = f"'x' in row 0 (line 2 of the file) of column 'loss' … {PLAIN}"
    refused(message, TypeError, tmp_path, "round,arm,loss\n1,a,x\n1,b,y\n")


def test_a_long_table_with_losses_and_rewards(tmp_path: Path) -> None:
    path = written(tmp_path, "round,arm,loss,reward\n1,a,5,-5\n1,b,6,-6\n")
    for reward, other in ((False, "reward"), (True, "loss")):
        with pytest.raises(ValueError, match=rf"only .* '{other}'; .*drop=\['{other}'\]"):
            umab.Losses.read(path, reward=reward)
        assert umab.Losses.read(path, reward=reward, drop=[other]).table.tolist() == [[5.0, 6.0]]


def test_lines_are_counted_where_cells_span_some(tmp_path: Path) -> None:
    text = '"a\nx",b\n1,"2\n"\n3,4\n5,six\n6,7\n'
    message = f"'six' in row 2 (line 6 of the file) of arm 'b' … {PLAIN}"
    refused(message, TypeError, tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2\n3,é\n".encode("latin-1"), 3),
        ("é,b\n1,2\n".encode("latin-1"), 1),
        ("a,b\n1,2\n".encode("utf-16"), 1),
    ],
)
def test_texts_in_another_encoding(text: bytes, line: int, tmp_path: Path) -> None:
    refused(f"UTF-8 … line {line} of FILE", ValueError, tmp_path, text)


def test_files_that_are_not_what_they_are_called(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n1,2\n" * 50)
    for content in (b"a,b\n1,2\n", whole[:-9], whole[:20] + bytes(20) + whole[40:]):
        with pytest.raises(ValueError, match=r"read .*losses\.csv\.gz': "):
            umab.Losses.read(written(tmp_path, content, "losses.csv.gz"))
    with pytest.raises(ValueError, match=r"read .*losses\.parquet': "):
        umab.Losses.read(written(tmp_path, "a,b\n1,2\n", "losses.parquet"))
    with pytest.raises(ValueError, match=r"\.csv, \.csv\.gz, \.tsv, \.tsv\.gz or \.parquet, .*losses\.gz'"):
        umab.Losses.read(written(tmp_path, "a,b\n1,2\n", "losses.gz"))
    with pytest.raises(FileNotFoundError, match=r"'nowhere\.tsv'"):
        umab.Losses.read("nowhere.tsv")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"drop": ["A"]}, ValueError, "drop … 'A' … 'a', 'b', 'c'"),
        ({"drop": "c"}, TypeError, "list … drop='c' … drop=['c']"),
        ({"suspicious": "ask"}, ValueError, "'refuse', 'allow' … suspicious='ask'"),
        ({"drop": ["a", "b", "c"]}, ValueError, f"two arms … 0 from FILE … {COLUMNS}"),
    ],
)
def test_arguments_are_checked(options: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    refused(message, error, tmp_path, "a,b,c\n1,2,3\n", **options)


def suspicious(message: str, folder: Path, text: str, rows: list[list[float]], **options: Any) -> None:
    """Check that a file is refused, and read if that is asked for."""
    refused(message, ValueError, folder, text, **options)
    assert umab.Losses.read(folder / "losses.csv", suspicious="allow", **options).table.tolist() == rows


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 1, 2, 3),
        (1700000000, 1700000060, 1700000120, 1700000180),
        (1, 2, 3, 4, 5),
        (2001, 2002, 2003, 2004),
        (-1, 0, 1, 2),
        (-4, -3, -2, -1),
    ],
)
def test_row_numbers_are_suspicious(numbers: tuple[int, ...], tmp_path: Path) -> None:
    message = f"row numbers … 'id' … from {numbers[0]} to {numbers[-1]}; … {drop('id')} … {ALLOW}"
    text = "a,id,b\n" + "".join(f"5,{number},{number**2}\n" for number in numbers)
    suspicious(message, tmp_path, text, [[5.0, float(number), float(number**2)] for number in numbers])
    assert umab.Losses.read(tmp_path / "losses.csv", drop=["id"]).arms == ("a", "b")


@pytest.mark.parametrize(
    "numbers",
    [
        "0,1,2",
        "0,1,2,4",
        "3,2,1,0",
        "0.5,1.5,2.5,3.5",
        "1,1,1,1",
        "0,0,0,0",
        "1e16,1e16,1e16,1e16",
        "1e308,1e308,-1e308,0",
    ],
)
def test_other_columns_are_not(numbers: str, tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"{number},7\n" for number in numbers.split(","))
    assert umab.Losses.read(written(tmp_path, text)).n_rounds == numbers.count(",") + 1


def test_an_arm_of_a_long_table_may_count_up(tmp_path: Path) -> None:
    text = "round,arm,loss\n" + "".join(f"{t},a,{t}\n{t},b,7\n" for t in range(4))
    assert umab.Losses.read(written(tmp_path, text)).n_rounds == 4


@pytest.mark.parametrize("label", ["Total", "SUM", "mean", "Average:", "avg", "Grand Total", " totals "])
def test_a_last_row_that_is_called_total_is_suspicious(label: str, tmp_path: Path) -> None:
    rule = f"{label.strip()!r}; … {ALLOW}"
    message = f"last row … row 1 (line 3 of the file) … {rule}"
    suspicious(message, tmp_path, f"day,a,b\nMon,1,2\n{label},3,5\n", [[1.0, 2.0], [3.0, 5.0]], drop=["day"])
    message = f"last row … round {label.strip()!r} … {rule}"
    text = f"round,arm,loss\nMon,a,1\nMon,b,2\n{label},a,3\n{label},b,5\n"
    suspicious(message, tmp_path, text, [[1.0, 2.0], [3.0, 5.0]])
    message = f"{label.strip()!r} in row 1 (line 3 of the file) of arm 'day' … total, delete"
    refused(message, TypeError, tmp_path, f"day,a,b\n1,1,2\n{label},3,5\n")


@pytest.mark.parametrize(
    ("above", "last", "what"),
    [
        ("1,2 3,1 5,5 1,0", "10,8", "sums"),
        ("0.1,2 0.2,1 0.3,5 0.4,0", "1,8", "sums"),
        ("0.1,0 0.2,0 0.3,0 0.1,0", "0.7,0", "sums"),
        ("0.1,0 0.2,0 0.3,0 0.1,0", "0.7000000000000001,0", "sums"),
        ("1.21,2 3.33,1 5.11,5 1.08,0", "10.7,8", "sums"),
        ("1e308,-1e308 1e308,2e307 -1e308,1e307 5e307,6e307", "1.5e308,-1e307", "sums"),
        ("5e-324,1e-323 0,0 5e-324,0 0,0", "1e-323,1e-323", "sums"),
        ("1,2 3,1 5,5 1,0", "2.5,2", "means"),
        ("1,2 3,1 5,5 1,0 1,0 2,1", "2.17,1.5", "means"),
        ("1,7 3,7 5,7 1,7", "2.5,7", "means"),
    ],
)
def test_a_last_row_of_sums_or_means_is_suspicious(above: str, last: str, what: str, tmp_path: Path) -> None:
    rows = [*above.split(), last]
    numbers = [[float(cell) for cell in row.split(",")] for row in rows]
    rule = f"{what} … {ALLOW}"
    n = len(rows)
    message = f"last row … row {n - 1} (line {n + 1} of the file) … {rule}"
    suspicious(message, tmp_path, "a,b\n" + "\n".join(rows), numbers)
    long = "".join("{0},a,{1}\n{0},b,{2}\n".format(t, *row.split(",")) for t, row in enumerate(rows))
    suspicious(f"last row … round '{n - 1}' … {rule}", tmp_path, f"round,arm,loss\n{long}", numbers)


@pytest.mark.parametrize(
    ("above", "last"),
    [
        ("1,2 3,1 5,5", "9,8"),  # too few rows to be sure
        ("1,2 3,1 5,5", "3,2.7"),
        ("0,0 0,0 0,0 0,0", "0,0"),
        ("1,2 1,2 1,2 1,2", "1,2"),  # constant arms, not means
        ("1,2 3,1 5,5 1,0", "10,8.1"),
        ("1,2 3,1 5,5 1,0", "10,2"),  # a sum and a mean
        ("0,1 0,1 1,1 0,0", "0,1"),  # means to the nearest whole number: every other table of zeros and ones
        ("1.21,2 3.33,1 5.11,5 1.08,0", "10.8,8"),
        ("1.01,2 0.99,2.02 1.02,2 1.02,2.02", "1,2"),
        ("1e308,1 1e308,2 -1e308,3 1e307,3", "1e307,9"),
    ],
)
def test_other_last_rows_are_not(above: str, last: str, tmp_path: Path) -> None:
    rows = [*above.split(), last]
    assert umab.Losses.read(written(tmp_path, "a,b\n" + "\n".join(rows))).n_rounds == len(rows)


@pytest.mark.parametrize("names", ["7,12,30", "3,4", "1,0", "2024-01-01,3,4", "Mon,0.5,1.5", "a,1e3"])
def test_a_first_line_of_numbers_is_suspicious(names: str, tmp_path: Path) -> None:
    message = f"first line … numbers … FILE … {names.replace(',', ', ')}; … {ALLOW}"
    row = [float(at) for at in range(names.count(",") + 1)]
    suspicious(message, tmp_path, f"{names}\n{','.join(map(str, row))}\n", [row])


@pytest.mark.parametrize("names", ["0,1", "1,2,3", "0,1,2,3", "store,7,12", "T1,E2", "2x,3x"])
def test_other_first_lines_are_not(names: str, tmp_path: Path) -> None:
    row = ",".join("5" for _ in names.split(","))
    assert umab.Losses.read(written(tmp_path, f"{names}\n{row}\n")).arms == tuple(names.split(","))


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (
            {"a": [1, 2], "b": [1, None]},
            ValueError,
            f"missing … empty cell in row 1 of arm 'b' … {WAYS}",
        ),
        (
            {"a": [1, 2], "b": [None, None]},
            ValueError,
            f"missing … empty cell in row 0 of arm 'b' … {not_an_arm('b')}",
        ),
        (
            {"a": [1, 2], "b": [1.5, math.nan]},
            ValueError,
            f"missing … 'nan' in row 1 of arm 'b' … {WAYS}",
        ),
        (
            {"a": [1, 2], "b": [1.5, -math.inf]},
            ValueError,
            "finite … '-inf' in row 1 of arm 'b'",
        ),
        (
            {"a": [1], "b": [[1, 2]]},
            TypeError,
            f"'[1, 2]' in row 0 of arm 'b' … {not_an_arm('b')}",
        ),
        (
            {"a": [1], "b": ["1.5"]},
            TypeError,
            "'1.5' in row 0 of arm 'b' … store the column",
        ),
        ({"a": [1]}, ValueError, "two arms … 1 from FILE … 'a'"),
        ({"a": [], "b": []}, ValueError, "0 rounds of 2 arms from FILE"),
        (
            {"round": [1.0, math.nan], "arm": ["a", "b"], "loss": [5, 6]},
            ValueError,
            f"empty cell in row 1 of column 'round' … {FILL}",
        ),
        (
            {"a": [5, 2, 1, 1, 9], "b": [1, 0, 0, 0, 1], "day": ["x", "x", "x", "x", "y"]},
            ValueError,
            f"last row … row 4 … sums … {ALLOW}",
        ),
    ],
)
def test_parquet_files_are_refused_by_row_and_column(
    columns: dict[str, list[Any]], error: type[Exception], message: str, tmp_path: Path
) -> None:
    content = io.BytesIO()
    pl.DataFrame(columns).write_parquet(content)
    options = {"drop": ["day"]} if "day" in columns else {}
    refused(message, error, tmp_path, content.getvalue(), name="losses.parquet", **options)


def test_a_short_row_shows_in_a_column_that_is_left_out(tmp_path: Path) -> None:
    message = "3 cells … commas … row 1 (line 3 of the file) has 2 … 'note'"
    for text in ('a,b,note\n1,2,\n3,4\n5,6,"x,y"\n', "a,b,note\n1,2,\n3,4\n5,6,x,\n"):
        refused(message, ValueError, tmp_path, text, drop=["note"])
    text = 'a,b,note\n1,2,\n3,4\n5,6,"x,y"\n'
    assert umab.Losses.read(written(tmp_path, text.replace("3,4", "3,4,")), drop=["note"]).n_rounds == 3


def test_a_tab_at_the_end_of_the_file_begins_an_empty_cell(tmp_path: Path) -> None:
    message = f"missing … empty cell in row 1 (line 3 of the file) of arm 'b' … {WAYS}"
    refused(message, ValueError, tmp_path, "a\tb\n1\t2\n3\t\n\n", name="losses.tsv")


def test_parquet_files_have_names_and_numbers_of_any_type(tmp_path: Path) -> None:
    path = tmp_path / "losses [1].parquet"  # not a pattern of file names
    columns = {"3": [True, False], "12": [2**60, 1], "x": [None, "Total"]}
    pl.DataFrame(columns).cast({"12": pl.Decimal(38, 2)}).write_parquet(path)
    losses = umab.Losses.read(path, drop=["x"], suspicious="allow")
    assert losses.arms == ("3", "12") and losses.table.tolist() == [[1.0, 2.0**60], [0.0, 1.0]]
    pl.DataFrame(columns).drop("x").write_parquet(tmp_path / "numbered.parquet")
    assert umab.Losses.read(tmp_path / "numbered.parquet").arms == ("3", "12")
    with pytest.raises(ValueError, match=r"last row .*row 1 .*'Total'"):
        umab.Losses.read(path, drop=["x"])
    pl.DataFrame(
        {"round": [date(2024, 1, 2), date(2024, 1, 1)] * 2, "arm": [7, 7, 3, 3], "loss": [1, 2, 3, 4]}
    ).write_parquet(path)
    losses = umab.Losses.read(path)
    assert losses.arms == ("7", "3") and losses.table.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_of_refuses_what_looks_like_a_mistake_and_takes_it_when_asked_to(tmp_path: Path) -> None:
    for text in ("7,12\n1,2\n", "id,a\n1,1\n2,1\n3,1\n4,1\n", "a,b\n1,2\n1,2\n1,1\n1,0\n4,5\n"):
        names, *rows = text.split()
        with pytest.raises(ValueError, match="suspicious='allow'"):
            umab.simulate("uniform", written(tmp_path, text))
        losses = umab.Losses.of(tmp_path / "losses.csv", suspicious="allow")
        assert losses.arms == tuple(names.split(","))
        assert losses.table.tolist() == [[float(cell) for cell in row.split(",")] for row in rows]


def test_a_good_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was read line by line")

    monkeypatch.setattr(Sheet, "rows", slow)
    rows = [f"{t % 7},{t % 5}.5,{t % 3}e-3" for t in range(1000)]
    text = "a,b,c\n" + "\n".join(rows) + "\n\n"
    assert umab.Losses.read(written(tmp_path, text)).table.shape == (1000, 3)
    long = "".join(f"{t},{arm},{t % 7}\n" for t in range(100) for arm in "abc")
    assert umab.Losses.read(written(tmp_path, f"round,arm,loss\n{long}")).table.shape == (100, 3)
    with pytest.raises(AssertionError, match="line by line"):
        umab.Losses.read(written(tmp_path, text.replace("6,0.5", "x,0.5", 1)))


FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAME = st.text("abcXYZ é,;\t\"'\n#%.-", min_size=1, max_size=6).map(lambda text: f"n{text}".strip())
SHAPES = st.tuples(st.integers(1, 7), st.integers(2, 4))
TABLES = SHAPES.flatmap(
    lambda shape: st.tuples(
        st.lists(NAME, min_size=shape[1], max_size=shape[1], unique=True),
        st.lists(st.lists(FINITE, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]),
    )
)


def as_text(rows: Sequence[Sequence[Any]], delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def check_bits(path: Path, names: Sequence[str], table: npt.NDArray[np.float64]) -> None:
    for reward, wanted in ((False, table), (True, 0.0 - table)):
        losses = umab.Losses.read(path, reward=reward, suspicious="allow")
        order = [losses.arms.index(name) for name in names]
        assert sorted(losses.arms) == sorted(names)
        assert np.ascontiguousarray(losses.table[:, order]).tobytes() == wanted.tobytes()


@settings(max_examples=60, deadline=None)
@example(content=(["n;\n;", "n;"], [[0.0, 0.0]]), seed=0)
@given(content=TABLES, seed=st.integers(0, 99))
def test_every_table_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, content: tuple[list[str], list[list[float]]], seed: int
) -> None:
    names, rows = content
    folder, table = tmp_path_factory.mktemp("tables"), np.array(rows)
    check_bits(written(folder, as_text([names, *rows], ","), "wide.csv"), names, table)
    check_bits(written(folder, as_text([names, *rows], "\t"), "wide.tsv"), names, table)
    pl.DataFrame(table, schema=names).write_csv(folder / "polars.csv")
    check_bits(folder / "polars.csv", names, table)
    pl.DataFrame(table, schema=names).write_parquet(folder / "wide.parquet")
    check_bits(folder / "wide.parquet", names, table)
    cells = [(t, name, loss) for t, row in enumerate(rows) for name, loss in zip(names, row, strict=True)]
    random.Random(seed).shuffle(cells)
    check_bits(written(folder, as_text([("round", "arm", "loss"), *cells], ","), "long.csv"), names, table)
    pl.DataFrame(cells, schema=["round", "arm", "loss"], orient="row").write_parquet(folder / "long.parquet")
    check_bits(folder / "long.parquet", names, table)


ODD = st.sampled_from(['"4"', '"5\n"', '" 6"', "7 ", "+1", "1.", "1_0", "0x1", "1e", "1e400", '"1""2"', "1.2.3", '1"'])
LINE = st.lists(FINITE.map(repr) | ODD | st.text('" ,\n1.-', max_size=3), min_size=1, max_size=3).map(",".join)


@settings(max_examples=300, deadline=None)
@given(body=st.lists(LINE, min_size=1, max_size=3).map("\n".join), n_arms=st.integers(2, 3))
def test_a_text_is_read_as_it_stands_or_refused(
    tmp_path_factory: pytest.TempPathFactory, body: str, n_arms: int
) -> None:
    path = written(tmp_path_factory.mktemp("texts"), f"{','.join('abc'[:n_arms])}\n{body}")
    number = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(body.rstrip()), strict=True)]
    except csv.Error:
        rows = []
    good = [
        len(row) == n_arms and all(number.fullmatch(cell) and math.isfinite(float(cell)) for cell in row)
        for row in rows
    ]
    try:
        table = umab.Losses.of(path, suspicious="allow").table.tolist()
    except (ValueError, TypeError) as error:
        assert not rows or not all(good)
        assert "line" in str(error) or "0 rounds" in str(error)
    else:
        assert all(good) and table == [[float(cell) for cell in row] for row in rows]
