"""Logs in files: `umab evaluate`, `offpolicy.evaluate` and `offpolicy.read_log`, and how `compare` recognises a log."""

from __future__ import annotations

import csv
import doctest
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from umab import cli, offpolicy

PAGE = Path(__file__).parent.parent / "docs" / "off-policy.md"
LOG = "Time,LOSS,Arm,user,Probability\n9:00,2,a,x,0.5\n9:01,6,b,y,0.25\n9:02,1,a,x,0.8\n9:03,-3,c,x,0.1\n"
ROUNDS = [("a", 0.5, 2.0), ("b", 0.25, 6.0), ("a", 0.8, 1.0), ("c", 0.1, -3.0)]


def file(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def drawn(n_rounds: int, seed: int) -> dict[str, Any]:
    """Return a log that was drawn with the same distribution in all rounds."""
    rng = np.random.default_rng(seed)
    p = np.array([0.5, 0.3, 0.2])
    arms = rng.choice(3, n_rounds, p=p)
    return {"arm": arms, "probability": p[arms], "loss": rng.normal(np.array([1.0, 2.0, 4.0])[arms], 1.0)}


# Reading.


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "csv.gz"])
def test_a_log_is_read_from_all_kinds_of_files(ending: str, tmp_path: Path) -> None:
    path = file(tmp_path, LOG)
    if ending == "tsv":
        path = file(tmp_path, LOG.replace(",", "\t"), "log.tsv")
    elif ending == "parquet":
        polars.read_csv(path).write_parquet(tmp_path / "log.parquet")
        path = tmp_path / "log.parquet"
    elif ending == "csv.gz":
        import gzip

        path = tmp_path / "log.csv.gz"
        path.write_bytes(gzip.compress(LOG.encode()))
    log = offpolicy.read_log(path)
    assert list(log) == ["arm", "probability", "loss"]
    assert list(zip(log["arm"], log["probability"].tolist(), log["loss"].tolist(), strict=True)) == ROUNDS
    assert offpolicy.evaluate(log) == offpolicy.evaluate(ROUNDS)


def test_numbers_as_arms_are_text_in_every_format(tmp_path: Path) -> None:
    text = "arm,probability,loss\n0,0.5,1\n7,0.5,2\n"
    path = file(tmp_path, text)
    polars.read_csv(path).write_parquet(tmp_path / "log.parquet")
    assert offpolicy.read_log(path)["arm"] == offpolicy.read_log(tmp_path / "log.parquet")["arm"] == ["0", "7"]


def test_rewards_are_recognised_by_their_column_or_declared(tmp_path: Path) -> None:
    rewards = file(tmp_path, LOG.replace("LOSS", "Reward"), "rewards.csv")
    both = file(tmp_path, "arm,probability,loss,reward\na,0.5,1,-1\nb,0.5,2,-2\n", "both.csv")
    assert offpolicy.read_log(rewards)["reward"].tolist() == [2.0, 6.0, 1.0, -3.0]
    assert offpolicy.read_log(file(tmp_path, LOG), reward=True)["reward"].tolist() == [2.0, 6.0, 1.0, -3.0]
    assert offpolicy.read_log(both)["loss"].tolist() == [1.0, 2.0]
    assert offpolicy.read_log(both, reward=True)["reward"].tolist() == [-1.0, -2.0]
    assert offpolicy.evaluate(offpolicy.read_log(rewards)) == offpolicy.evaluate(ROUNDS)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2,a,x,0.5", ",a,x,0.5", "must have a loss … an empty cell in row 0 (line 2 of the file) of column 'LOSS'"),
        (
            "6,b",
            "NA,b",
            "'NA' in row 1 (line 3 of the file) of column 'LOSS' … never came … only about rounds with",
        ),
        ("6,b", "inf,b", "finite … 'inf' in row 1 (line 3 of the file) of column 'LOSS'"),
        ("y,0.25", "y,", "probability … empty cell in row 1 (line 3 of the file) of column 'Probability' … at random"),
        ("y,0.25", "y,0", "above 0 and at most 1 … got 0 in row 1 (line 3 of the file) of column 'Probability'"),
        ("y,0.25", "y,25", "above 0 and at most 1 … got 25 in row 1"),
        ("y,0.25", "y,nan", "must have a probability … 'nan' in row 1"),
        ("1,a", "1, ", "must have an arm … an empty cell in row 2 (line 4 of the file) of column 'Arm'"),
        ("Probability", "p", "has no column called probability … 'Time', 'LOSS', 'Arm', 'user', 'p'"),
        ("user", "arm", "'Arm' and 'arm' for arm"),
        ("LOSS", "cost", "loss or reward … none for loss"),
    ],
)
def test_a_mistake_in_a_log_is_refused_with_its_place(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in LOG
    path = file(tmp_path, LOG.replace(old, new))
    with pytest.raises(ValueError, match=".*".join(map(re.escape, said.split(" … ")))):
        offpolicy.read_log(path)


def test_texts_among_the_numbers_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"a probability must be a number, but got '25%' in row 1 \(line 3 .*\$ and %"):
        offpolicy.read_log(file(tmp_path, LOG.replace("0.25", "25%")))
    polars.read_csv(file(tmp_path, LOG), infer_schema_length=0).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(TypeError, match=r"got '0\.5' in row 0 of column 'Probability'; store the column as numbers"):
        offpolicy.read_log(tmp_path / "log.parquet")


# Estimates.


@given(
    losses=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), min_size=2, max_size=6),
    data=st.data(),
)
def test_logs_drawn_uniformly_give_plain_means(losses: list[list[float]], data: st.DataObject) -> None:
    n_arms, n_rounds = len(losses), sum(map(len, losses))
    rounds = data.draw(st.permutations([(arm, 1 / n_arms, loss) for arm, own in enumerate(losses) for loss in own]))
    size = 1e-12 * max(1.0, max(abs(loss) for own in losses for loss in own))
    found = offpolicy.evaluate(rounds, {"all": "uniform"})
    unbiased = offpolicy.evaluate(rounds, {"all": "uniform"}, estimator="ips")
    assert found.keys() == {*range(n_arms), "all"}
    for arm, own in enumerate(losses):
        assert found[arm].mean == pytest.approx(math.fsum(own) / len(own), abs=size)
        assert unbiased[arm].mean == pytest.approx(n_arms * math.fsum(own) / n_rounds, abs=n_arms * size)
        assert found[arm].n_effective == pytest.approx(len(own))
    plain = math.fsum(loss for own in losses for loss in own) / n_rounds
    assert found["all"].mean == pytest.approx(plain, abs=size)
    assert unbiased["all"].mean == pytest.approx(plain, abs=size)


def test_every_arm_and_target_has_its_own_estimate() -> None:
    log = drawn(500, seed=0)
    targets: dict[Any, Any] = {"half": {0: 0.5, 1: 0.5}, "array": [0.1, 0.2, 0.7], "uniform": "uniform"}
    found = offpolicy.evaluate(log, targets, estimator="ips", confidence=0.8)
    assert list(found) == [*dict.fromkeys(log["arm"].tolist()), *targets]
    for name, target in {0: 0, 1: 1, 2: 2, **targets, "uniform": [1 / 3] * 3}.items():
        assert found[name] == offpolicy.estimate(log, target, estimator="ips", confidence=0.8)
    triples = list(zip(log["arm"].tolist(), log["probability"].tolist(), log["loss"].tolist(), strict=True))
    assert offpolicy.evaluate(iter(triples), targets, estimator="ips", confidence=0.8) == found  # which is read once
    rewards = {"arm": log["arm"], "probability": log["probability"], "reward": log["loss"]}
    assert offpolicy.evaluate(rewards) == offpolicy.evaluate(log)


def test_intervals_of_fixed_arms_cover_as_often_as_they_say() -> None:
    n_trials, truth = 2000, np.array([1.0, 2.0, 4.0])
    covered = np.zeros((2, 3))
    for seed in range(n_trials):
        log = drawn(400, seed)
        for row, estimator in enumerate(("snips", "ips")):
            found = offpolicy.evaluate(log, estimator=estimator)
            covered[row] += [found[arm].low <= truth[arm] <= found[arm].high for arm in range(3)]
    # One standard error of a share of 0.95 in 2000 trials is 0.0049. Four are allowed, and 0.005 for the normal
    # approximation: the rarest arm is drawn 80 times.
    assert (abs(covered / n_trials - 0.95) < 4 * 0.0049 + 0.005).all()


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({"a": {"b": 1.0}}, "name that no arm has, but got 'a'"),
        ({"mix": {"a": 0.5}}, r"^target 'mix': .*sum to 1"),
        ({"else": {"z": 1.0}}, "^target 'else': the log must have a round"),
    ],
)
def test_targets_that_cannot_be_are_refused(targets: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        offpolicy.evaluate(ROUNDS, targets)


def test_a_frame_without_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loss or reward, but got 'arm', 'loss' where 'probab.* only the probability"):
        offpolicy.evaluate({"arm": ["a", "b"], "loss": [1.0, 2.0]})
    with pytest.raises(ValueError, match="reward in row 1=nan"):
        offpolicy.evaluate({"arm": ["a", "b"], "probability": [1, 1], "reward": [1.0, math.nan]})


# The command.


def test_the_command_prints_what_python_gives(tmp_path: Path) -> None:
    """In a process of its own, as a user runs it."""
    log = drawn(300, seed=1)
    path = tmp_path / "log.parquet"
    polars.DataFrame(log).with_columns(polars.col("arm").cast(polars.String)).write_parquet(path)
    options = ["--target", "uniform", "--target", "0=1/3, 2=2/3", "--confidence", "0.9", "--estimator", "ips"]
    files = ["--json", "found.json", "--csv", "found.csv"]
    done = subprocess.run(
        [sys.executable, "-m", "umab.cli", "evaluate", str(path), *options, *files],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "300 rounds of 3 arms; mean loss per round, lower is better"
    assert lines[2].split("  ")[0] == "target" and "90 % interval" in lines[2]
    assert lines[4].split() == ["the", "log", "itself", f"{log['loss'].mean():.6g}", "300.0"]
    targets = {"uniform": "uniform", "0=1/3, 2=2/3": {"0": 1 / 3, "2": 2 / 3}}
    known = offpolicy.evaluate(offpolicy.read_log(path), targets, estimator="ips", confidence=0.9)
    for name, found in known.items():
        (line,) = [line for line in lines if line.startswith(f"{name}  ")]
        assert f"{found.mean:.6g}" in line and f"{found.low:.6g} to {found.high:.6g}" in line
        assert f"{found.n_effective:.1f}" in line
    content = json.loads((tmp_path / "found.json").read_text())
    assert (content["feedback"], content["estimator"], content["confidence"]) == ("loss", "ips", 0.9)
    with open(tmp_path / "found.csv", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["target"] for row in rows] == [row["target"] for row in content["rows"]]
    assert [row["kind"] for row in rows].count("arm") == 3 and rows[0]["kind"] == "log" and rows[0]["low"] == ""
    means = [row["mean"] for row in content["rows"][1:]]
    assert means == sorted(means)
    for row, text in zip(content["rows"][1:], rows[1:], strict=True):
        found = known[row["target"]]
        assert (row["mean"], row["low"], row["high"]) == (found.mean, found.low, found.high)
        assert (float(text["mean"]), float(text["high"])) == (found.mean, found.high)
        assert row["standard_error"] == found.standard_error and row["doubts"] == list(found.doubts)


def test_columns_may_have_other_names(tmp_path: Path, capsys: Any) -> None:
    path = file(tmp_path, "when,action,propensity,ms,profit\n9:00,a,0.5,1,5\n9:01,b,0.5,2,6\n")
    assert cli.main(["evaluate", str(path), "--loss", "ms", "--probability", "propensity"]) == 2
    said = capsys.readouterr().err
    assert (
        "none for arm" in said and "'action', 'propensity', 'ms', 'profit': to say which one it is, pass --arm" in said
    )
    names = ["--arm", "action", "--probability", "propensity"]
    assert cli.main(["evaluate", str(path), *names, "--loss", "ms"]) == 0
    assert "mean loss" in capsys.readouterr().out
    assert cli.main(["evaluate", str(path), *names, "--reward", "profit"]) == 0
    assert "the log itself  5.5" in capsys.readouterr().out
    assert cli.main(["evaluate", str(path), *names, "--reward", "gain"]) == 2
    assert "reward must name a column of the file, but got 'gain'" in capsys.readouterr().err
    for log in (path, polars.read_csv(path), pandas.read_csv(path)):
        read = offpolicy.read_log(log, arm="action", probability="propensity", reward="profit")
        assert read["arm"] == ["a", "b"] and read["reward"].tolist() == [5.0, 6.0]
        assert offpolicy.read_log(log, arm="action", probability="propensity", loss="ms")["loss"].tolist() == [1, 2]


def test_a_log_without_probabilities_has_no_answer_and_the_reason_is_said(tmp_path: Path, capsys: Any) -> None:
    path = file(tmp_path, "date,service,ms\n2026-01-01,east,20\n2026-01-02,west,30\n")
    names = ["--arm", "service", "--loss", "ms"]
    assert cli.main(["evaluate", str(path), *names]) == 2
    said = capsys.readouterr().err
    for part in (
        "no answer is possible without it: each round shows what one arm cost, and only the probability of its draw",
        "pass --probability COLUMN (the columns are 'date', 'service', 'ms')",
        "log choice.probability from now on",
        "measure all arms in every round: umab compare needs no probabilities",
    ):
        assert part in said
    assert cli.main(["compare", str(path), *names]) == 2
    said = capsys.readouterr().err
    assert (
        "every round has only one arm, as in a log: if it is one, no answer is possible without probabilities" in said
    )
    assert f"umab evaluate {path} --arm service --loss ms estimates from a log" in said
    drawn = file(tmp_path, "date,service,ms,probability\n1,east,20,0.5\n2,west,30,0.5\n", "drawn.csv")
    assert cli.main(["compare", str(drawn), *names]) == 2
    assert f"umab evaluate {drawn} --arm service --loss ms estimates from a log" in capsys.readouterr().err
    assert cli.main(["evaluate", str(drawn), *names]) == 0


def test_rewards_doubts_and_infinite_ends_are_shown(tmp_path: Path, capsys: Any) -> None:
    path, out = file(tmp_path, LOG.replace("LOSS", "reward")), tmp_path / "found.json"
    assert cli.main(["evaluate", str(path), "--json", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 rounds of 3 arms; mean reward per round, higher is better"
    assert [line.split()[0] for line in lines[4:8]] == ["the", "b", "a", "c"]  # the best first
    assert "-inf to inf" in lines[5] and "worth only 1.0 rounds" in lines[5]
    rows = json.loads(out.read_text())["rows"]
    assert rows[1]["target"] == "b" and rows[1]["low"] is None and "worth only" in rows[1]["doubts"][0]
    assert cli.main(["evaluate", str(file(tmp_path, LOG)), "--reward"]) == 0
    assert "mean reward" in capsys.readouterr().out


def test_the_largest_losses_have_a_mean(tmp_path: Path, capsys: Any) -> None:
    text = "arm,probability,loss\n" + "a,0.5,1.7e308\na,0.5,1.5e308\n" * 20
    assert cli.main(["evaluate", str(file(tmp_path, text))]) == 0
    assert "the log itself  1.6e+308" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["small", "a=", "=1", "a=x", "a=1/0", "a=0.5,a=0.5", "a=0.5,,b=0.5,c", "a=nan"])
def test_a_target_that_is_not_one_is_refused(text: str, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["evaluate", str(file(tmp_path, LOG)), "--target", text])
    assert "argument --target: must be uniform, or ARM=PROBABILITY" in capsys.readouterr().err


def test_labels_may_have_commas_and_equals_signs(tmp_path: Path, capsys: Any) -> None:
    path = file(tmp_path, 'arm,probability,loss\n"a,b",0.5,1\nx=1,0.5,3\n')
    assert cli.main(["evaluate", str(path), "--target", "a,b=0.25,x=1=0.75"]) == 0
    assert "a,b=0.25,x=1=0.75  2.5 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "a=0.5,b=0.4"], "target 'a=0.5,b=0.4': … sum to 1"),
        (["--target", "z=1"], "target 'z=1': the log must have a round"),
        (["--confidence", "95"], "confidence must be above 0 and below 1"),
        (["--csv", "nowhere/found.csv"], "no folder"),
    ],
)
def test_mistakes_are_said_in_one_line(arguments: list[str], said: str, tmp_path: Path, capsys: Any) -> None:
    assert cli.main(["evaluate", str(file(tmp_path, LOG)), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("umab: ") and printed.err.count("\n") == 1
    assert re.search(".*".join(map(re.escape, said.split(" … "))), printed.err)


def test_an_arm_called_uniform_needs_a_distribution_that_is_written_out(tmp_path: Path, capsys: Any) -> None:
    path = file(tmp_path, "arm,probability,loss\nuniform,0.5,1\nb,0.5,3\n")
    assert cli.main(["evaluate", str(path), "--target", "uniform"]) == 2
    assert "name that no arm has, but got 'uniform'; write its probabilities" in capsys.readouterr().err
    assert cli.main(["evaluate", str(path), "--target", "uniform=0.5,b=0.5"]) == 0


def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before, _, after = PAGE.read_text().partition("```sh\numab evaluate ")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```pycon\n(.*?)^```", before, re.DOTALL | re.MULTILINE)
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, names, "page", "page", 0)
        assert doctest.DocTestRunner(verbose=False).run(test, clear_globs=False).failed == 0
        names = test.globs
    capsys.readouterr()
    assert cli.main(["evaluate", "log.csv", "--target", "uniform", "--target", "small=0.2,large=0.8"]) == 0
    assert after.startswith('log.csv --target uniform --target "small=0.2,large=0.8"\n```')
    assert capsys.readouterr().out == after.partition("```text\n")[2].partition("```")[0]


# What `compare` says about a log.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arm,probability,loss\n0,0.5,2\n1,0.5,3\n", "arm, probability and loss of a log"),
        ("id,Arm,Probability,Reward\nx,a,0.5,2\ny,b,0.5,3\n", "arm, probability and reward of a log"),
        ("round,arm,probability,loss\n1,a,0.5,2\n2,b,0.5,3\n", "leave it out with --drop probability"),
        ("round,arm,loss\n1,a,2\n2,b,3\n", "only one arm, as in a log … add the probabilities of the draws"),
        ("round,arm,loss\n1,a,2\n2,b,\n", "only one arm, as in a log … add the probabilities of the draws"),
        ("arm,loss\n0,2\n1,3\n", "no column called round … add the probabilities of the draws"),
    ],
)
def test_compare_recognises_a_log(text: str, said: str, tmp_path: Path, capsys: Any) -> None:
    path = file(tmp_path, text, "my log.csv")
    assert cli.main(["compare", str(path)]) == 2
    printed = capsys.readouterr().err
    assert re.search(".*".join(map(re.escape, said.split(" … "))), printed)
    assert f"umab evaluate '{path}' estimates from a log what each arm would have cost" in printed


def test_a_long_table_with_all_arms_is_not_a_log(tmp_path: Path) -> None:
    table = "round,arm,probability,loss\n1,a,0.5,2\n1,b,0.5,4\n2,a,0.4,3\n2,b,0.6,1\n"
    path = file(tmp_path, table)
    assert umab.Losses.read(path, drop=["probability"]).table.tolist() == [[2.0, 4.0], [3.0, 1.0]]
    gap = file(tmp_path, "round,arm,loss\n1,a,2\n1,b,4\n2,a,3\n", "gap.csv")
    with pytest.raises(
        ValueError,
        match=r"to leave out the rounds with a missing loss, pass umab\.Losses\.of\(\.\.\., missing='drop'\)",
    ):
        umab.Losses.read(gap)
