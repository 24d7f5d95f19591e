"""Missing losses that mean an arm was away: in arrays, frames and files, and in everything that takes losses."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from helpers import same_bits
from umab import cli
from umab.adapters.gymnasium import LossTableEnv
from umab.research.experiments.cost import Heads
from umab.research.experiments.experiment import Experiment, comparison
from umab.research.experiments.parts import run_cell, store
from umab.research.experiments.reading import data_of
from umab.research.experiments.runner import run, run_on
from umab.research.experiments.sweep import Sweep, grid_of
from umab.research.report import words
from umab.results.regret import Costs
from umab.tables.cells import MISSING
from umab.theory.bounds import bound, table1
from umab.theory.certificates import certify
from umab.theory.norms import Norms, Sizes
from umab.theory.search import exact_regret

NAN = math.nan
TABLE = [[1.0, 2.0, 3.0], [4.0, NAN, 6.0], [NAN, NAN, 9.0], [2.5, 0.5, 1.5]]
THERE = [[True, True, True], [True, False, True], [False, False, True], [True, True, True]]
ASK = r"if the arm was not there in this round, pass umab\.Losses\.of\(\.\.\., missing='away'\)"


def written(folder: Path, text: str, name: str = "losses.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def same_table(losses: umab.Losses) -> bool:
    return losses.eligible is not None and losses.eligible.tolist() == THERE and same_bits(losses.table, AWAY.table)


AWAY = umab.Losses.of(TABLE, arms="abc", missing="away")
FULL = umab.Losses.of(np.nan_to_num(TABLE), arms="abc")


# Arrays and frames.


@pytest.mark.parametrize(
    "data",
    [
        np.array(TABLE),
        np.asfortranarray(TABLE),
        [[1, 2, 3], [4, None, 6], ["NA", "", 9], [2.5, 0.5, 1.5]],
        np.ma.masked_invalid(TABLE),
        np.ma.array(np.nan_to_num(np.array(TABLE), nan=7.0), mask=~np.array(THERE)),
        pandas.DataFrame(TABLE, columns=list("abc")),
        pandas.DataFrame(TABLE, columns=list("abc")).astype("Float64"),
        polars.DataFrame(TABLE, schema=list("abc"), orient="row"),
        polars.DataFrame(TABLE, schema=list("abc"), orient="row").fill_nan(None),
        -np.array(TABLE) * -1.0,
    ],
    ids=lambda each: type(each).__name__,
)
def test_missing_losses_mean_away_if_asked_for_and_are_refused_if_not(data: Any) -> None:
    assert same_table(umab.Losses.of(data, arms="abc", missing="away"))
    with pytest.raises((ValueError, TypeError), match=f"losses must .*{ASK}"):
        umab.Losses.of(data, arms="abc")


def test_a_table_knows_who_is_away() -> None:
    assert AWAY.n_away == 3 and AWAY.present.tolist() == [1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 2.5, 0.5, 1.5]
    assert repr(AWAY) == "Losses of 4 rounds, 3 arms, from 0.5 to 9, 3 cells away"
    assert AWAY.eligible is not None and not AWAY.eligible.flags.writeable and not AWAY.table.flags.writeable
    assert FULL.eligible is None and FULL.n_away == 0 and FULL.present is FULL.table
    assert umab.Losses.of(FULL.table, missing="away").digest == FULL.digest
    assert same_table(umab.Losses.of(AWAY, arms="abc"))  # a table that knows it need not be told again
    assert umab.Losses.of(AWAY) is AWAY
    shown = AWAY._repr_html_()
    assert "3 of 12 cells are away" in shown and "nan" not in shown and ">rounds<" in shown
    assert re.search(r"b</th><td[^>]*>1.25</td><td[^>]*>0.5</td><td[^>]*>2</td><td[^>]*>2</td>", shown)
    assert "away" not in FULL._repr_html_() and ">rounds<" not in FULL._repr_html_()


def test_an_arm_may_be_away_in_all_rounds_of_an_array() -> None:
    losses = umab.Losses.of([[1.0, NAN], [2.0, NAN]], missing="away")
    assert re.search(r">1</th><td[^>]*>–</td><td[^>]*>–</td><td[^>]*>–</td><td[^>]*>0</td>", losses._repr_html_())
    assert umab.simulate("uniform", losses, n_trials=2).final_regret.tolist() == [0.0, 0.0]
    assert "0 has the smallest mean loss (1.5 per round)" in words.facts(losses)


@given(data=st.data())
def test_the_digest_depends_on_the_mask_and_on_nothing_under_it(data: st.DataObject) -> None:
    cells = st.lists(st.booleans(), min_size=6, max_size=6)
    first, second = (np.array(data.draw(cells)).reshape(2, 3) | [True, False, False] for _ in range(2))
    table = np.arange(6.0).reshape(2, 3)
    one, other = (umab.Losses.of(table, eligible=mask) for mask in (first, second))
    assert (one.digest == other.digest) == bool((first == second).all())
    hidden = data.draw(st.floats())
    assert umab.Losses.of(np.where(first, table, hidden), eligible=first).digest == one.digest
    signed = np.where(first, table, np.copysign(NAN, data.draw(st.sampled_from([-1.0, 1.0]))))
    assert umab.Losses.of(signed, missing="away").digest == one.digest


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[1.0, math.inf], [NAN, 2.0]], "finite, but got loss=inf in row 0 of arm '1'$"),
        ([[1.0, 2.0], [NAN, None]], "every round must have an arm that is there, but row 1 has none"),
        ([[1.0, "many"], [NAN, 1.0]], "numbers, but got 'many' in row 0, column 1$"),
    ],
)
def test_what_is_not_missing_is_refused_all_the_same(data: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.Losses.of(data, missing="away")


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n")
    for read, data in ((umab.Losses.of, TABLE), (umab.Losses.read, path)):
        for unknown, error in (("dorp", ValueError), (True, ValueError), (NAN, ValueError), ([1.0], TypeError)):
            with pytest.raises(error, match=r"missing must be .*, but got missing="):
                read(data, missing=unknown)  # type: ignore[arg-type]


# Files.

WIDE = "a,b,c\n1,2,3\n4,,6\nNA, ,9\n2.5,0.5,1.5\n"
LONG = "round,arm,loss\n1,a,1\n1,b,2\n1,c,3\n2,a,4\n2,b,null\n2,c,6\n3,c,9\n4,a,2.5\n4,b,0.5\n4,c,1.5\n"


@pytest.mark.parametrize("text", [WIDE, WIDE.replace(",", "\t"), WIDE.replace("\n", "\r\n"), LONG])
def test_a_file_may_have_gaps(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    losses = umab.Losses.read(path, missing="away")
    assert losses.arms == ("a", "b", "c") and same_table(losses)
    assert losses.provenance == {"reward": False, "drop": [], "set_aside": [], "missing": "away"}
    assert umab.Losses.of(path, missing="away").digest == losses.digest == AWAY.digest
    with pytest.raises(ValueError, match=ASK):
        umab.Losses.read(path)
    rewards = umab.Losses.read(path, missing="away", reward=True)
    assert rewards.eligible is not None and rewards.eligible.tolist() == THERE
    np.testing.assert_array_equal(rewards.table, -AWAY.table)


@pytest.mark.parametrize("mark", [*MISSING, "NaN", " ", "#N/A"])
def test_every_mark_of_a_missing_cell_means_away(mark: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"a,b,c\n1,2,3\n4,{mark},6\n{mark},{mark},9\n2.5,0.5,1.5\n")
    assert same_table(umab.Losses.read(path, missing="away"))


def test_a_parquet_file_may_have_gaps(tmp_path: Path) -> None:
    path = tmp_path / "losses.parquet"
    columns: dict[str, list[Any]] = {"a": [1.0, 4.0, NAN, 2.5], "b": [2.0, None, NAN, 0.5], "c": [3, 6, 9, 1.5]}
    polars.DataFrame(columns, strict=False).write_parquet(path)
    assert same_table(umab.Losses.read(path, missing="away"))
    for column, message in (
        ([1.0, math.inf, NAN, 1.0], "finite"),
        (["x", None, None, None], "'x' in row 0 of arm 'b'"),
    ):
        polars.DataFrame({**columns, "b": column}, strict=False).write_parquet(path)
        with pytest.raises((ValueError, TypeError), match=message):
            umab.Losses.read(path, missing="away")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n,\n3,4\n", r"arm that is there, but row 1 \(line 3 of the file\) has none; delete it"),
        ("round,arm,loss\nMon,a,1\nMon,b,2\nTue,a,\nTue,b,NA\n", "arm that is there, but round 'Tue' has none"),
        ("a,b,c\n1,,2\n3,,4\n", r"missing.*row 0 \(line 2 of the file\) of arm 'b'.*no cell .*drop=\['b'\]"),
        ("a,b\n1,\n,2\n3,\n", "two arms, but no round of .* has more than one that is there"),
        ("round,arm,loss\n1,a,1\n2,b,2\n3,a,4\n", "every round has only one arm, as in a log"),
        ("round,arm,loss\n1,a,1\n1,a,2\n1,b,2\n2,a,1\n", "round '1' has 2 for arm 'a'"),
        ("a,b\n1,\n3,inf\n4,5\n", r"finite, but got 'inf' in row 1"),
        ("a,b\n1,\n3,many\n4,5\n", r"numbers, but got 'many' in row 1"),
        ("a,b\n1,\n3\n4,5\n", r"every row must have 2 cells"),
        ("a,b\n1,2\n2,\n5,4\n1,7\n9,13\n", r"row 4 .* holds the sums"),
        ("a,b\n1,2\n3,\n5,4\n3,6\n3,4\n", r"row 4 .* holds the means"),
        ("a,b\n1,2\n3,\nTotal,7\n", r"numbers, but got 'Total'"),
        ("a,n\n1,1\n,2\n5,3\n7,4\n", r"column 'n' counts from 1 to 4"),
    ],
)
def test_a_file_with_gaps_is_refused_if_it_makes_no_sense(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.Losses.read(written(tmp_path, text), missing="away")


def test_a_last_row_with_gaps_is_no_total(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n2,\n5,4\n1,7\n9,\n")
    assert umab.Losses.read(path, missing="away").n_away == 2


def test_a_long_table_without_gaps_says_how_to_have_some(tmp_path: Path) -> None:
    path = written(tmp_path, LONG.replace("2,b,null\n", ""))
    with pytest.raises(ValueError, match=rf"round '2' has none for arm 'b' .*4 of 12\).*{ASK}|3 of 12.*{ASK}"):
        umab.Losses.read(path)


# The two other ways out.

FILLED = [[1.0, 2.0, 3.0], [4.0, 30.0, 6.0], [30.0, 30.0, 9.0], [2.5, 0.5, 1.5]]


@pytest.mark.parametrize("text", [WIDE, LONG])
def test_a_missing_loss_may_be_a_number_or_leave_its_round_out(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    dropped, filled = (umab.Losses.read(path, missing=each) for each in ("drop", 30))
    assert dropped.table.tolist() == [TABLE[0], TABLE[3]] and filled.table.tolist() == FILLED
    assert dropped.eligible is None and filled.eligible is None
    assert dropped.provenance == {
        "reward": False, "drop": [], "set_aside": [], "missing": "drop", "n_missing": 3, "n_left_out": 2
    }  # fmt: skip
    assert filled.provenance["missing"] == 30.0 and filled.provenance["n_left_out"] == 0
    assert "2 rounds with a missing loss are left out." in words.facts(dropped)
    assert "3 missing losses count as 30." in words.facts(filled)
    rewards = umab.Losses.read(path, missing=30.0, reward=True)
    assert rewards.table.tolist() == (-np.array(FILLED)).tolist()  # the number is one of the file
    assert "3 missing rewards count as 30." in words.facts(rewards)
    assert umab.Losses.of(path, missing="drop").digest == dropped.digest
    whole = written(tmp_path, "a,b\n1,2\n4,3\n", "whole.csv")
    for missing in ("drop", 30.0):
        losses = umab.Losses.read(whole, missing=missing)
        assert losses.table.tolist() == [[1.0, 2.0], [4.0, 3.0]] and "missing" not in words.facts(losses)


def test_so_it_may_in_arrays_and_beside_a_mask() -> None:
    for data in (TABLE, np.array(TABLE), pandas.DataFrame(TABLE), AWAY, np.ma.masked_invalid(TABLE)):
        assert umab.Losses.of(data, missing="drop").table.tolist() == [TABLE[0], TABLE[3]]
        assert umab.Losses.of(data, missing=30.0).table.tolist() == FILLED
    mask = np.array(THERE)
    mask[1, 1] = True  # this loss is missing, and the others are away
    dropped = umab.Losses.of(TABLE, missing="drop", eligible=mask)
    assert dropped.eligible is not None and dropped.eligible.tolist() == mask[[0, 2, 3]].tolist()
    filled = umab.Losses.of(TABLE, missing=30, eligible=mask)
    assert filled.table[1].tolist() == FILLED[1] and filled.n_away == 2
    with pytest.raises(ValueError, match=r"some round must have all its losses .* every round misses one"):
        umab.Losses.of([[1.0, NAN], [NAN, 2.0]], missing="drop")


@pytest.mark.parametrize("missing", ["drop", "30"])
def test_what_is_wrong_beside_gaps_is_still_found(missing: str, tmp_path: Path) -> None:
    means: Any = missing if missing == "drop" else float(missing)
    for text, message in (
        ("a,b\n1,2\n2,\n5,4\n1,7\n9,13\n", r"row 4 \(line 6 of the file\) holds the sums"),
        ("a,b,c\n1,,2\n3,,4\n", "no cell of the column is a number"),
        ("round,arm,loss\n1,a,1\n2,b,\n3,a,4\n", "every round has only one arm, as in a log"),
        ("round,arm,loss\n1,a,1\n2,b,2\n3,a,4\n", "every round has only one arm, as in a log"),
        ("a,n\n1,1\n,2\n5,3\n7,4\n", "column 'n' counts from 1 to 4"),
    ):
        with pytest.raises(ValueError, match=message):
            umab.Losses.read(written(tmp_path, text), missing=means)
    for word in ("dorp", "inf", "nan"):
        with pytest.raises(SystemExit):
            cli.main(["compare", "x.csv", "--missing", word])
    (row,) = umab.Losses.read(written(tmp_path, "a,b\n,\n1,2\n"), missing="drop").table.tolist()
    assert row == [1.0, 2.0]  # a round without any loss is left out as well


# The option by its name in Python, in commands and in files.


def test_a_text_in_a_long_parquet_file_is_not_missing(tmp_path: Path) -> None:
    columns = {"round": [1, 1, 2], "arm": ["a", "b", "a"], "loss": ["1", None, "2"]}
    polars.DataFrame(columns).write_parquet(tmp_path / "losses.parquet")
    with pytest.raises(TypeError, match="numbers, but got '1' in row 0 of column 'loss'; store the column as numbers"):
        umab.Losses.read(tmp_path / "losses.parquet", missing="away")


def test_each_place_names_the_option_as_it_is_written_there(tmp_path: Path, capsys: Any) -> None:
    path = written(tmp_path, WIDE)
    assert cli.main(["compare", str(path)]) == 2
    assert capsys.readouterr().err == (
        "umab: losses must not be missing, but got an empty cell in row 1 (line 3 of the file) of arm 'b'; missing "
        "cells: 3 of 12; to leave out the rounds with a missing loss, pass --missing drop; if it was a failure or a "
        "timeout, to put in what that costs, say 30, pass --missing 30; if the arm was not there in this round, pass "
        "--missing away\n"
    )
    file = written(tmp_path, 'data = "losses.csv"\npolicies = ["uniform"]\n', "routing.toml")
    with pytest.raises(ValueError, match=r'write data = \{file = \.\.\., missing = "away"\}'):
        run([Experiment.read(file)], n_trials=1)
    with pytest.raises(ValueError, match="missing must be 'refuse', 'away', 'drop' or a number, but got missing='x'"):
        data_of({"file": "losses.csv", "missing": "x"}, tmp_path)


def gaps(folder: Path) -> Path:
    """Write a table of 60 rounds in which the best arm is often away."""
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal([3.0, 2.0, 1.0], 0.5, size=(60, 3)), 3).astype(object)
    rows[::3, 2] = ""
    return written(folder, "a,b,c\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n", "gaps.csv")


def test_compare_runs_on_a_table_with_gaps_and_says_so(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = gaps(tmp_path)
    assert cli.main(["compare", str(path), "--missing", "away", "--trials", "20", "--certify"]) == 0
    said = capsys.readouterr()
    assert "In 20 of 180 cells the arm is away. Over the rounds in which it is there, c has the smallest" in said.out
    assert "the largest over the arms, each counted over the rounds in which it was there" in said.out
    assert "mean loss per round is" not in said.out and "adahedge" not in said.out
    assert "note: no certificates for gaps, main: arms are away" in said.err
    page = (tmp_path / "report-gaps" / "index.html").read_text()
    assert "In 20 of 180 cells the arm is away" in page and "If arms are <strong>away</strong> in some rounds" in page
    assert "What theory guarantees here" not in page and "The paper's statements" not in page
    numbers = json.loads((tmp_path / "report-gaps" / "results.json").read_text())
    about = numbers["provenance"]["gaps"]["main"]["losses"]
    losses = umab.Losses.read(path, missing="away")
    assert about["n_away"] == 20 and about["sha256"] == losses.digest and about["provenance"]["missing"] == "away"
    for expected, key in ((True, "figures"), (False, "sampled")):
        result = umab.simulate("umab-g-a", losses, n_trials=20, expected=expected)
        assert numbers[key]["gaps"]["main"]["umab-g-a"]["mean"] == pytest.approx(result.mean[-1], rel=1e-12)
    saved = umab.Result.load(next((tmp_path / "report-gaps" / "results").rglob("umab-g-a.json")))
    assert saved.losses.digest == losses.digest


def test_experiments_and_their_claims_have_gaps_too(tmp_path: Path) -> None:
    gaps(tmp_path)
    text = """
    data = {file = "gaps.csv", missing = "away"}
    policies = ["umab-g-a:rate=4", "uniform"]
    extra = "scale-free"
    claims = ["umab-g-a:rate=4 < uniform"]
    """
    done = run([Experiment.read(written(tmp_path, text, "routing.toml"))], n_trials=40)
    (outcome,) = done.outcomes
    assert outcome.losses.n_away == 20 and outcome.verdict == "holds"
    assert "adahedge" not in outcome.curves and umab.recommended().name in outcome.curves
    losses = umab.Losses.read(tmp_path / "gaps.csv", missing="away")
    result = umab.simulate("uniform", losses, n_trials=40, expected=False)
    sampled = outcome.curves["uniform"].sampled
    assert sampled is not None and sampled.mean == pytest.approx(result.mean[-1], rel=1e-12)
    both = comparison("x", outcome.losses).settings[0]
    assert "adahedge" not in (*both.policies, *both.extra) and "uniform" in both.policies


def test_sweeps_have_gaps_too(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    gaps(tmp_path)
    text = """
    trials = 10
    data = {file = "gaps.csv", missing = "away"}
    policies = ["umab-g-a", "adahedge"]
    delays = [0, 2]
    """
    sweep = Sweep.read(written(tmp_path, text, "gaps.toml"))
    heads = Heads()
    grid = grid_of(sweep, keep=heads.keep)
    (table,), (head,) = grid.tables, heads.values()
    assert table.n_away == head.n_away == 20 and grid.refused == (("adahedge", table.label),)
    assert {cell.policy for cell in grid.cells.values()} == {"umab-g-a"}
    losses = umab.Losses.read(tmp_path / "gaps.csv", missing="away")
    (tmp_path / "tables").mkdir()
    (tmp_path / "parts").mkdir()
    store(tmp_path, losses)
    for id, cell in grid.cells.items():
        assert run_cell(cell, tmp_path) == (id, None)
        row = polars.read_parquet(tmp_path / "parts" / f"{id}.parquet").to_dicts()[0]
        result = umab.simulate("umab-g-a", losses, n_trials=10, expected=True, delays=cell.delay)
        assert row["final_regret"] == result.final_regret.tolist() and row["sha256"] == losses.digest
    assert cli.main(["sweep", "gaps.toml", "--out", "out"]) == 0
    said = capsys.readouterr().out
    assert "In 20 of 180 cells of gaps.csv missing=away the arm is away." in said
    assert "because they need the losses of all arms, and some are away there: adahedge." in said
    assert json.loads((tmp_path / "out" / "sweep.json").read_text())["tables"][0]["n_away"] == 20
    assert cli.main(["sweep", "gaps.toml", "--dry-run", "--out", "out"]) == 0
    written(tmp_path, "a,b\n1,2\n3,4\n", "full.csv")
    (plain,) = grid_of(Sweep.of("x", {"data": "full.csv", "policies": ["uniform"]})).tables
    assert "n_away" not in plain.described()


# What needs all losses refuses a table with gaps.


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("a bound", lambda losses: bound("umab-nn", losses)),
        ("a bound", lambda losses: bound("ahb", losses)),
        ("Table 1", lambda losses: table1(losses, n_trials=2)),
        ("a certificate", lambda losses: certify("umab-nn", losses, n_trials=2)),
        ("the exact regret", lambda losses: exact_regret(umab.UMABNN(), losses)),
        ("a bound", Norms.of),
        ("a bound", Sizes.of),
        ("a bound", Sizes.centred),
        ("this regret", Costs.of),
        ("an environment", LossTableEnv),
        ("adahedge", lambda losses: umab.simulate("adahedge", losses)),
    ],
)
def test_what_needs_all_losses_says_so(what: str, call: Any) -> None:
    call(FULL)
    message = rf"^{what} needs the losses of all arms .*3 of 12 cells are away, .*row 1 of arm 'b'"
    with pytest.raises(ValueError, match=message):
        call(AWAY)


def test_facts_about_a_table_with_gaps() -> None:
    said = words.facts(AWAY)
    assert said.startswith(
        "4 rounds of 3 arms; losses (lower is better) from 0.5 to 9, all positive. In 3 of 12 cells the arm is away."
    )
    assert said.endswith("Over the rounds in which it is there, b has the smallest mean loss (1.25 per round).")
    rewards = words.facts(replace(AWAY, provenance={"reward": True}))
    assert "rewards (higher is better) from -9 to -0.5, all negative" in rewards
    assert rewards.endswith("b has the largest mean reward (-1.25 per round).")
    tied = words.facts(umab.Losses.of([[1.0, 1.0, -2.0], [NAN, 1.0, 4.0]], missing="away"))
    assert tied.endswith(
        "Over the rounds in which they are there, 0, 1 and 2 have the smallest mean loss (1 per round)."
    )
    assert "20.0% negative and 80.0% positive" in tied  # of those that are there


def test_a_regret_below_zero_is_explained() -> None:
    """Each arm is best for a while, so that a policy which follows is better than any single arm."""
    phases = np.repeat([[0.0, 9.0, 9.0], [9.0, 0.0, 9.0], [9.0, 9.0, 0.0]], 400, axis=0)
    losses = umab.Losses.of(phases, eligible=np.arange(1200)[:, None] % 4 != [4, 4, 1])
    experiment = comparison("x", losses, ["umab-g-a:rate=4"])
    outcome = run_on([(experiment, experiment.settings[0], losses)], n_trials=10).outcomes[0]
    assert outcome.curves[outcome.best].expected.mean < 0.0
    assert "better than every single arm in the rounds in which that arm was there" in words.answer(outcome)
