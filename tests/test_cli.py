"""The command, as a user types it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import umab
import umab.datasets
from helpers import PATIENCE
from umab import cli
from umab.algorithms.registry import record_of
from umab.cli import suite
from umab.cli.reports import COMPILING
from umab.datasets import sources
from umab.research.experiments import runner
from umab.research.report import words
from umab.theory import certificates


def run(
    *arguments: str, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has what it needs imported; `run_apart` starts a new one."""
    printed, complained = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.dict(os.environ, environment or {}),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complained),
    ):
        try:
            code = cli.main(arguments)
        except SystemExit as left:  # argparse does that
            code = int(left.code or 0)
    # Whether a policy is compiled here depends on the tests that ran before.
    said = complained.getvalue().replace(f"umab: note: {COMPILING}\n", "")
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), said)


def run_apart(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "umab.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "FILE.json"),
        ("compare", "FILE.csv"),
        ("compare", "FILE.parquet"),
        ("evaluate", "FILE.tsv.gz"),
        ("certify", "FILE.csv"),
        ("run", "FILE.toml"),
        ("sweep", "FILE.toml"),
        ("db", "restore", "FILE.db"),
        ("serve", "--tls-certificate", "FILE.pem", "--tls-key", "FILE.key"),
    ],
    ids=" ".join,
)
def test_a_file_that_cannot_be_read_is_its_path_and_the_reason(words: tuple[str, ...], tmp_path: Path) -> None:
    database = {"UMAB_DATABASE": f"sqlite:///{tmp_path}/umab.db"}
    file = next(word for word in words if word.startswith("FILE"))
    result = run(*words, cwd=tmp_path, environment=database)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"umab: {file}: file not found\n")
    (tmp_path / file).mkdir()
    result = run(*words, cwd=tmp_path, environment=database)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"umab: {file}: is a directory\n")
    with (
        mock.patch("builtins.open", side_effect=PermissionError(13, "Permission denied", file)),
        mock.patch("io.open", side_effect=PermissionError(13, "Permission denied", file)),
    ):
        result = run(*words, cwd=tmp_path, environment=database)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"umab: {file}: permission denied\n")
    assert not (tmp_path / "umab.db").exists()


def test_policies_prints_a_row_each() -> None:
    result = run("policies")
    assert result.returncode == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].split()[:6] == ["name", "range", "sign", "horizon", "sees", "delay"]
    rows = {line.split()[0]: line for line in lines[2 : 2 + len(umab.policies())]}
    assert rows.keys() == umab.policies().keys()
    assert "≥ 0" in rows["umab-nn"] and "unknown" in rows["umab-nn"]
    assert "known" in rows["exp3"].split() and "needed" in rows["exp3"].split()
    assert "all arms" in rows["adahedge"]
    for name, row in rows.items():
        policy = umab.policy(name)
        assert (policy.guarantee or "no bound") in row and record_of(policy).reference in row
        assert name == "uniform" or record_of(policy).reference


def test_names_only() -> None:
    assert run("policies", "--names").stdout.split() == list(umab.policies())


def test_help_has_an_example_and_a_mistake_gets_a_message() -> None:
    assert "example: umab compare" in run("--help").stdout
    assert run_apart("--version").stdout == f"umab {umab.__version__}\n"
    for arguments in ((), ("polices",)):
        result = run(*arguments)
        assert result.returncode == 2 and "usage: umab" in result.stderr


def test_a_console_without_mathematics_gets_question_marks() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "umab.cli", "policies"]
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0 and b"umab-nn" in result.stdout and b"?" in result.stdout


def lines(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(300, 3)).tolist()
    return lines(tmp_path / "times.csv", "a,b,c", *(",".join(map(repr, row)) for row in rows))


def test_every_command_has_an_example() -> None:
    for command in "policies compare evaluate inspect reproduce run certify scaling sweep data".split():
        assert f"umab {command}" in run(command, "--help").stdout.partition("example: ")[2]


def test_reproduce_runs_every_figure(tmp_path: Path) -> None:
    out = tmp_path / "all"
    done = run("reproduce", "--trials", "20", "--data", "stand-in", "--threads", "3", "--out", str(out))
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[-1] == str(out / "index.html")
    content = json.loads((out / "results.json").read_bytes())
    assert {len(settings) for settings in content["figures"].values()} == {2} and len(content["figures"]) == 6
    assert "stock (printed), stand-in data" in done.stdout
    for verdict in content["verdicts"]:
        stand_in = " (stand-in data)" if verdict["figure"] in ("stock", "sales") else ""
        assert f"{verdict['claim']}{stand_in}\n" in done.stdout


@pytest.mark.skipif("UMAB_DATA" not in os.environ, reason="UMAB_DATA does not name a folder with the real tables")
def test_reproduce_runs_on_the_real_tables(tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = run(
        "reproduce", "--figure", "stock", "--figure", "sales", "--trials", "5", "--data", "real", "--out", str(out)
    )
    assert done.returncode == 0 and "stand-in" not in done.stdout
    content = json.loads((out / "results.json").read_text())
    assert list(content["figures"]) == ["stock", "sales"]
    for settings in content["provenance"].values():
        assert not any(each["losses"]["provenance"]["stand_in"] for each in settings.values())
    assert "Not all data are real" not in (out / "index.html").read_text()


def test_reproduce_takes_other_figures_settings_policies_and_seeds(tmp_path: Path) -> None:
    out = tmp_path / "report"
    chosen = ("--figure", "nonadaptive", "--setting", "figure", "--policy", "ahb", "--policy", "umab-g:rate=2")
    done = run("reproduce", *chosen, "--trials", "6", "--seed", "9", "--out", str(out))
    assert done.returncode == 0
    content = json.loads((out / "results.json").read_text())
    figures = content["figures"]["nonadaptive"]
    assert list(figures) == ["figure"] and list(figures["figure"]) == ["ahb", "umab-g:rate=2"]
    losses = umab.datasets.stochastic("figure")
    known = umab.simulate("umab-g:rate=2", losses, n_trials=6, seed=9, expected=True)
    assert figures["figure"]["umab-g:rate=2"]["mean"] == known.mean[-1] and content["claims"] == []
    listed = run("reproduce", "--list").stdout.split()
    assert "stock" in listed and "nonadaptive" in listed


def test_run_takes_experiments_of_ones_own(table: Path, tmp_path: Path) -> None:
    file = lines(
        tmp_path / "routing.toml",
        'data = "times.csv"',
        'policies = ["umab-nn", "uniform"]',
        'claims = ["umab-nn < uniform"]',
        "trials = 30",
    )
    done = run("run", str(file), cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == str(Path("report-routing", "index.html"))
    content = json.loads((tmp_path / "report-routing" / "results.json").read_text())
    assert [(each["claim"], each["verdict"]) for each in content["claims"]] == [("umab-nn < uniform", "holds")]
    file.write_text(file.read_text().replace("trials", "trails"))
    done = run("run", str(file), cwd=tmp_path)
    assert done.returncode == 2 and "'trails'" in done.stderr and "'trials'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_says_which_policy_would_have_done_best(table: Path, tmp_path: Path) -> None:
    done = run("compare", str(table), "--trials", "50", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    best = umab.simulate("umab-r", str(table), n_trials=50, expected=True)
    assert (
        "300 rounds of 3 arms; losses (lower is better) from" in done.stdout
        and "all positive. The best arm is a" in done.stdout
    )
    said = "an expected regret (pseudo-regret) of"
    assert f"On these losses umab-r would have done best: {said} {best.mean[-1]:.2f}" in done.stdout
    text = (tmp_path / "report-times" / "index.html").read_text()
    assert "Which policy would have done best on times.csv?" in text and "On these losses umab-r" in text
    flipped = run("compare", str(table), "--trials", "5", "--reward", "--policy", "ahb", "--out", "x", cwd=tmp_path)
    assert "all positive. The best arm is c" in flipped.stdout


def test_compare_begins_with_the_recommended_policy_unless_another_is_better(tmp_path: Path) -> None:
    draws = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(300, 3))
    path = lines(tmp_path / "t.csv", "a,b,c", *(",".join(map(str, row)) for row in draws))
    for policies, wanted in (
        (("umab-w", "uniform"), "umab.Learner(umab.recommended(), arms=["),
        (("umab-w", "centred(umab-s)"), "umab.Learner(&#34;centred(umab-s)&#34;, arms=["),
        (("ahb", "uniform"), "umab.Learner(&#34;ahb&#34;, arms=["),
    ):
        chosen = [word for name in policies for word in ("--policy", name)]
        assert run("compare", str(path), *chosen, "--out", "out", cwd=tmp_path).returncode == 0
        assert wanted in (tmp_path / "out" / "index.html").read_text()


def test_the_code_of_a_report_on_rewards_maximizes(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.csv", "a,b", "1,2", "3,1", "1,4")
    command = ("compare", str(path), "--policy", "recommended", "--trials", "3", "--out", "out")
    for options, wanted in (((), False), (("--reward",), True)):
        assert run(*command, *options, cwd=tmp_path).returncode == 0
        assert (", maximize=True)" in (tmp_path / "out" / "index.html").read_text()) is wanted


def test_a_missing_reward_is_not_offered_a_cost(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.csv", "a,b", "1,2", ",1", "1,4")
    said = run("compare", str(path), "--reward", cwd=tmp_path).stderr
    assert "rewards must not be missing" in said and "say 0, pass --missing 0;" in said and "30" not in said


def test_negative_losses_may_be_profits(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.csv", "a,b", "1,-2", "3,1", "-1,4")
    command = ("compare", str(path), "--policy", "uniform", "--trials", "3", "--out", "out")
    note = "some losses are negative, and lower counts as better; if these are profits"
    assert note in run(*command, cwd=tmp_path).stderr
    assert run(*command, "--reward", cwd=tmp_path).stderr == ""
    lines(path, "a,Revenue b", "1,2", "3,1")
    assert "note: 'Revenue b' sounds like rewards, and lower counts as better" in run(*command, cwd=tmp_path).stderr
    lines(path, "a,b", "1,2", "3,1")
    assert run(*command, cwd=tmp_path).stderr == ""


def test_compiling_is_announced_once_and_only_if_it_happens(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.csv", "a,b", "1,2", "3,1")
    command = ("compare", str(path), "--policy", "uniform", "--policy", "umab-nn", "--trials", "3")
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for times in (1, 0):
        done = run_apart(*command, "--out", str(tmp_path / "out"), environment=fresh)
        assert done.returncode == 0 and done.stderr.count(COMPILING) == times


def test_compare_against_sequences_of_arms(tmp_path: Path) -> None:
    turned = lines(tmp_path / "turned.csv", "a,b", *["0.5,1"] * 40, *["4,1.5"] * 20)
    chosen = ("--policy", "uniform", "--policy", "adahedge", "--trials", "3", "--out", "out")
    done = run("compare", str(turned), *chosen, "--switches", "1", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  uniform ")]
    assert line.split() == ["uniform", "15", "±", "0", "35", "±", "0", "best"]  # a or b would cost 100 or 70, both 50
    assert "final expected regret (pseudo-regret)  against 1 switch\n" in done.stdout
    assert "with at most 1 switch, where rounds count from 1, is: a, b from round 41.\n" in done.stdout
    plain = run("compare", str(turned), *chosen, cwd=tmp_path)
    assert plain.returncode == 0 and "switch" not in plain.stdout
    away = lines(tmp_path / "away.csv", "a,b", "1,2", "3,", "4,6")
    for table, number, said in (
        (turned, "-1", "argument --switches: must be a whole number of at least 0, but got '-1'"),
        (away, "1", "--switches needs the losses of all arms in all rounds, but 1 of 6 cells are away"),
    ):
        done = run("compare", str(table), "--missing", "away", "--switches", number, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr
    assert "--switches N" in run("compare", "--help").stdout


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("a,b", "1,2", "3,"), ("row 1", "line 3", "'b'")),
        (("a,b", "1,2", "3,x"), ("'x'", "row 1", "line 3", "'b'")),
        (("a", "1", "2"), ("'a'",)),
        (("a,a", "1,2"), ("'a'", "2 times")),
        (("a,b", "1,2", "3,4", "5,7", "2,2", "11,15"), ("row 4", "line 6", "total")),
        (("day,a,b", "Mon,1,2", "Tue,3,4"), ("'Mon'", "--drop day", "row 0", "'day'")),
    ],
)
def test_a_messy_table_gets_a_message_with_its_place(
    rows: tuple[str, ...], said: tuple[str, ...], tmp_path: Path
) -> None:
    done = run("compare", str(lines(tmp_path / "mess.csv", *rows)), cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("umab: ")
    assert [word for word in said if word in done.stderr] == list(said)
    assert not (tmp_path / "report-mess").exists()


def test_mistakes_are_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    for arguments, said in (
        (("compare", "no.csv"), ("no.csv: file not found",)),
        (("reproduce", "--figure", "stocks"), ("figure", "stock, sales, ", "'stocks'")),
        (("reproduce", "--setting", "both"), ("setting", "figure, printed", "'both'")),
        (("reproduce", "--policy", "umab"), ("policy", "umab-nn", "'umab'")),
        (("reproduce", "--out", "full"), ("'full'", "report", "empty folder")),
        (("run", "no.toml"), ("no.toml: file not found",)),
        (("data", "fetch", "stock"), ("table", "stocks, sales", "'stock'")),
        (("reproduce", "--out", "/proc/report", "--trials", "1"), ("report", "'/proc/report'")),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith("umab: ") and len(done.stderr.splitlines()) == 1
        assert [word for word in said if word in done.stderr] == list(said)
    done = run("reproduce", "--trials", "0", cwd=tmp_path)
    assert done.returncode == 2 and "argument --trials: " in done.stderr and "'0'" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_fault_of_ours_can_be_seen_whole() -> None:
    done = run_apart("run", "no.toml", environment={"UMAB_TRACEBACK": "1"})
    assert "Traceback" in done.stderr


def test_data_lists_and_verifies(tmp_path: Path) -> None:
    here = {"UMAB_DATA": str(tmp_path), "UMAB_CACHE": str(tmp_path / "cache")}
    done = run("data", environment=here)
    assert done.returncode == 0 and done.stdout.count("not found") == 2 and "6aea253c" in done.stdout
    assert run("data", "verify", environment=here).returncode == 1
    (tmp_path / "all_stocks_5yr.csv").write_text("date,open\n")
    done = run("data", "verify", "stocks", environment=here)
    assert done.returncode == 1 and "damaged" in done.stdout and "sha256" in done.stdout


@pytest.mark.skipif("UMAB_DATA" not in os.environ, reason="UMAB_DATA does not name a folder with the real tables")
def test_data_finds_the_real_tables() -> None:
    for arguments in (("data",), ("data", "verify"), ("data", "fetch")):
        done = run(*arguments)
        assert done.returncode == 0 and done.stdout.count("(verified)") == 2


def test_certify_prints_and_writes_a_table(table: Path, tmp_path: Path) -> None:
    done = run("certify", str(table), "--trials", "3", "--json", str(tmp_path / "rows.json"))
    assert done.returncode == 0 and done.stderr == ""
    blocks = done.stdout.split("\n\n")
    names = ["umab-w", "centred(umab-s)", "umab-nn", "umab-g", "umab-g-a"]
    assert [block.splitlines()[0] for block in blocks[:5]] == names
    assert "Theorem W" in blocks[0] and "Theorem R" in blocks[1] and "S9, total" in blocks[1]
    assert "Theorem 1" in blocks[2] and "Lemma 5, clips" in blocks[3] and "by more than 1e-12" in blocks[-1]
    rows = json.loads((tmp_path / "rows.json").read_text())["certificates"]
    assert list(rows) == names
    for name in names[:3]:
        assert all(row["verdict"] in ("holds", "nothing to check") for row in rows[name])
    for arguments, said in (
        (("certify",), ("certify", "loss table", "--search")),
        (("certify", str(table), "--policy", "ahb"), ("UMAB-NN", "ahb")),
        (("certify", "--search", "--policy", "ahb"), ("UMAB-NN", "ahb")),
    ):
        done = run(*arguments)
        assert done.returncode == 2 and done.stderr.startswith("umab: ") and len(done.stderr.splitlines()) == 1
        assert [word for word in said if word in done.stderr] == list(said)


def test_certify_reads_tables_as_compare_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Rewards, columns to leave out, seeds, and the exit code if a repaired statement is violated."""
    file = lines(tmp_path / "t.csv", "day,a,b", "Mon,1,2", "Tue,3,1", "Wed,2,2", "Thu,1,5")
    assert cli.main(["certify", str(file)]) == 2 and "--drop day" in capsys.readouterr().err
    chosen = ["certify", str(file), "--drop", "day", "--reward", "--policy", "umab-g-a"]
    seen: list[tuple[Any, int]] = []
    bad = certificates.Certified("x", "", "", "as repaired", "violated", 2.0, 0, 1)

    def known(name: str, losses: Any, *, delays: Any, n_trials: int, seed: int) -> list[certificates.Certified]:
        seen.append((losses.table.tolist(), seed))
        return [bad]

    monkeypatch.setattr(certificates, "certify", known)
    assert cli.main([*chosen, "--seed", "6"]) == 1
    assert seen == [([[-1.0, -2.0], [-3.0, -1.0], [-2.0, -2.0], [-1.0, -5.0]], 6)]
    bad = bad._replace(form="as printed")
    assert cli.main(chosen) == 0


def test_certificates_and_promises_are_in_the_report(table: Path, tmp_path: Path) -> None:
    policies = ("--policy", "umab-nn", "--policy", "uniform")
    done = run("compare", str(table), *policies, "--trials", "5", "--certify", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0
    text = (tmp_path / "out" / "index.html").read_text()
    assert "The paper&#39;s statements along these runs" in text or "The paper's statements along these runs" in text
    assert "times, main: umab-nn" in text and "What theory guarantees here" in text and "√(n Σ‖ℓ_t‖²∞)" in text


def test_scaling_prints_exponents_and_draws_them(tmp_path: Path) -> None:
    done = run("scaling", "umab-nn", "--over", "scale", "--tables", "2", "--trials", "2", "--out", "g", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[1].split()[:2] == ["umab-nn", "1.000"]
    assert {path.name for path in (tmp_path / "g").iterdir()} == {"hard-scale.png", "hard-scale.pdf"}


def test_a_reader_who_leaves_does_not_lose_the_report(tmp_path: Path) -> None:
    command = f"{sys.executable} -m umab.cli reproduce --figure adaptive --trials 2 --out out | true"
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "out" / "index.html").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_options_reach_the_runner(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, so that what is called can be seen."""
    monkeypatch.chdir(tmp_path)
    calls: list[dict[str, Any]] = []

    def seen(*arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return umab.simulate(*arguments, **options)

    monkeypatch.setattr(runner, "simulate", seen)
    dropped = ("--drop", "c", "--policy", "ahb", "--trials", "3")
    assert cli.main(["compare", str(table), *dropped, "--seed", "8", "--threads", "3", "--out", "a"]) == 0
    assert [(call["seed"], call["n_threads"], call["n_trials"]) for call in calls] == [(8, 3, 3)]
    content = json.loads((tmp_path / "a" / "results.json").read_text())
    assert content["provenance"]["times"]["main"]["losses"]["arms"] == ["a", "b"]
    counted = lines(tmp_path / "counted.csv", "a,b", "1,7", "2,5", "3,6", "4,6")
    assert cli.main(["compare", str(counted), "--policy", "ahb", "--trials", "2"]) == 2
    assert cli.main(["compare", str(counted), "--policy", "ahb", "--trials", "2", "--allow-suspicious"]) == 0
    assert (tmp_path / "report-counted").is_dir()
    calls.clear()
    chosen = ("--figure", "adaptive", "--setting", "printed", "--trials", "2")
    assert cli.main(["reproduce", *chosen, "--threads", "2", "--out", "b"]) == 0
    assert {call["n_threads"] for call in calls} == {2}


def test_only_real_data_if_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def no_network(source: Any) -> Path:
        raise sources.FetchError("there is no network in this test")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UMAB_DATA", raising=False)
    monkeypatch.setenv("UMAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "fetch", no_network)
    chosen = ["reproduce", "--figure", "stock", "--setting", "printed", "--trials", "2", "--out", "a"]
    assert cli.main([*chosen, "--data", "real"]) == 2 and not (tmp_path / "a" / "results.json").exists()
    assert "all_stocks_5yr.csv" in capsys.readouterr().err
    assert cli.main(chosen) == 0
    printed = capsys.readouterr().out
    assert "stock, stand-in data" in printed and "Stand-ins were used for: stock. To get the public tables " in printed
    assert cli.main(["data", "fetch"]) == 1
    assert capsys.readouterr().out.count("not found (there is no network in this test)") == 2


HOW = (
    "To get the public tables all_stocks_5yr.csv and walmart_train.csv: run 'umab data fetch', which needs a network, "
    "or put them into a folder and set UMAB_DATA to this folder; 'umab data' shows what was found."
)


def test_with_stand_ins_every_command_says_how_to_get_the_real_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def no_network(source: Any) -> Path:
        raise sources.FetchError("there is no network in this test")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UMAB_DATA", str(tmp_path))  # a folder without tables
    monkeypatch.setenv("UMAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "fetch", no_network)
    lines(tmp_path / "own.toml", 'data = {name = "sales"}', 'policies = ["uniform"]', "trials = 2")
    lines(tmp_path / "grid.toml", 'data = {name = "sales"}', 'policies = ["uniform"]', "trials = 2")
    for command, used in (
        (["reproduce", "--figure", "sales", "--trials", "2"], "sales"),
        (["run", "own.toml"], "own"),
        (["sweep", "grid.toml", "--dry-run"], "sales (stand-in)"),
    ):
        assert cli.main(command) == 0
        printed = capsys.readouterr().out
        assert f"Not all data are real. Stand-ins were used for: {used}. {HOW}\n" in printed
        assert cli.main([*command, "--data", "stand-in"]) == 0
        printed = capsys.readouterr().out
        assert "As --data stand-in asks, stand-ins were used for: " in printed and "umab data" not in printed
    monkeypatch.setattr(suite, "_run_general", lambda options, place: (None, ["closing-prices"]))
    assert cli.main(["suite"]) == 0
    assert f"Stand-ins were used for: closing-prices. {HOW}\n" in capsys.readouterr().out
    assert cli.main(["data"]) == 0
    assert capsys.readouterr().out.endswith(f"\n\n{HOW} Until then, commands use stand-ins.\n")
    assert cli.main(["data", "list", "sales"]) == 0
    assert "\n\nTo get the public table walmart_train.csv: " in capsys.readouterr().out


def test_data_fetch_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    fetched: list[str] = []
    monkeypatch.delenv("UMAB_DATA", raising=False)
    monkeypatch.setenv("UMAB_CACHE", str(tmp_path))
    monkeypatch.setattr(sources, "fetch", lambda source: fetched.append(source.name))
    assert cli.main(["data", "fetch", "sales"]) == 1 and fetched == ["sales"]  # this fetch leaves nothing there
    assert cli.main(["data"]) == 0 and fetched == ["sales"]


def test_ctrl_c_stops_with_a_word(tmp_path: Path) -> None:
    """In a terminal, and once the progress bar shows that trials run."""
    command = [sys.executable, "-m", "umab.cli", "reproduce", "--figure", "nonadaptive", "--trials", "1000000"]
    mine, terminal = os.openpty()
    with (
        subprocess.Popen(command, stderr=terminal, stdout=subprocess.PIPE, cwd=tmp_path) as process,
        open(mine, "rb", buffering=0) as screen,
    ):
        os.close(terminal)
        shown = b""
        while "░".encode() not in shown:
            shown += screen.read(1000)
        assert (tmp_path / "report").exists()
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # which is how a terminal says that nobody writes to it any more
            while chunk := screen.read(1000):
                shown += chunk
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and shown.endswith(b"\r\x1b[Kumab: stopped\r\n"), shown
    assert list(tmp_path.iterdir()) == []  # nor is an empty folder left


BLOCKED = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # as if they were not installed
from umab import cli
raise SystemExit(cli.main(sys.argv[2:]))
"""


def run_without(libraries: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command where some libraries cannot be imported."""
    command = [sys.executable, "-c", BLOCKED, libraries, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_printing_needs_no_library_for_pictures_or_pages(table: Path, tmp_path: Path) -> None:
    shutil.copy(table, tmp_path / "t.csv")
    (tmp_path / "s.toml").write_text('data = "t.csv"\ntrials = 2\npolicies = ["uniform"]\n')
    missing = "a report needs jinja2; run pip install 'umab[report]'"
    for arguments, printed in (
        (("compare", "t.csv", "--trials", "2", "--policy", "uniform"), "final expected regret"),
        (("run", "s.toml"), "final expected regret"),
    ):
        done = run_without("jinja2,vl_convert,joblib", *arguments, cwd=tmp_path)
        assert done.returncode == 0 and printed in done.stdout, done.stderr
        assert "note: " in done.stderr and missing in done.stderr
    done = run_without("jinja2,vl_convert,joblib", "sweep", "s.toml", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and "cells    1, of which 0 are done" in done.stdout and done.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.toml", "t.csv", table.name]
    done = run_without("jinja2,vl_convert", "compare", "t.csv", "--out", "here", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(f"umab: {missing}")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("compare", "t.csv"), "report"),
        (("run", "s.toml"), "report"),
        (("reproduce", "--list"), "reproduce"),
        (("suite",), "reproduce"),
        (("sweep", "s.toml"), "sweep"),
        (("sweep", "s.toml", "--dry-run"), "sweep"),
        (("sweep", "s.toml", "--backend", "dask", "--address", "tcp://127.0.0.1:1"), "dask"),
        (("sweep", "s.toml", "--backend", "ray"), "ray"),
    ],
)
def test_without_extras_the_one_that_suffices_is_named_at_once(
    arguments: tuple[str, ...], name: str, table: Path, tmp_path: Path
) -> None:
    shutil.copy(table, tmp_path / "t.csv")
    (tmp_path / "s.toml").write_text('data = "t.csv"\ntrials = 2\npolicies = ["uniform"]\n')
    extras = "polars,scipy,pooch,jinja2,vl_convert,joblib,distributed,ray,river"
    for missing in (extras, extras.removeprefix("polars,"), extras.replace("scipy,", "")):
        done = run_without(missing, *arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == ""
        assert re.fullmatch(rf"umab: umab \w+ needs \w+; run pip install 'umab\[{name}\]'\n", done.stderr), done.stderr


def test_a_sweep_on_a_cluster_names_the_extra_of_the_cluster(table: Path, tmp_path: Path) -> None:
    shutil.copy(table, tmp_path / "t.csv")
    (tmp_path / "s.toml").write_text('data = "t.csv"\ntrials = 2\npolicies = ["uniform"]\n')
    done = run_without("joblib,ray", "sweep", "s.toml", "--backend", "ray", cwd=tmp_path)
    assert done.returncode == 2 and "needs joblib; run pip install 'umab[ray]'" in done.stderr


def test_compare_and_simulate_say_which_regret_they_print(table: Path, tmp_path: Path) -> None:
    options = ("--trials", "40", "--policy", "umab-nn", "--seed", "3", "--out", str(tmp_path / "out"))
    done = run("compare", str(table), *options)
    expected = umab.simulate("umab-nn", table, n_trials=40, seed=3, keep="summary")
    sampled = umab.simulate("umab-nn", table, n_trials=40, seed=3, expected=False, keep="summary")
    assert repr(expected).startswith("Result(umab-nn: expected regret ")
    assert repr(sampled).startswith("Result(umab-nn: sampled regret ")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  umab-nn ")]
    assert words.measured(expected.mean[-1], expected.se[-1]) in line
    assert "final expected regret (pseudo-regret)" in done.stdout
    assert "as umab.simulate does. With expected=False" in done.stdout and "sampled regret" in done.stdout
