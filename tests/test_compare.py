"""`umab.compare`: what `umab compare` prints, as an object: its numbers, how a notebook shows it, and its page."""

from __future__ import annotations

import contextlib
import inspect
import io
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import umab
from umab import cli
from umab.research.comparison import TableOptions

NAMES = ["recommended", "umab-nn", "uniform", "adahedge"]
ROWS = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(400, 3)).round(4)
FRAME = pandas.DataFrame(ROWS, columns=["slow & old", "b", "c"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "times.csv", index=False)
    return tmp_path / "times.csv"


def printed(*arguments: str) -> str:
    """Return what a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert cli.main(list(arguments)) == 0
    return out.getvalue()


def test_it_prints_what_the_command_prints_and_writes_the_same_page(path: Path, tmp_path: Path) -> None:
    options = [f"--policy={name}" for name in NAMES]
    said = printed("compare", str(path), *options, "--trials=30", "--seed=2", "--switches=2", f"--out={tmp_path / 'a'}")
    found = umab.compare(path, policies=NAMES, n_trials=30, seed=2, switches=2)
    assert found.page is None and said == f"{found}\n\n{tmp_path / 'a' / 'index.html'}\n"
    again = umab.compare(str(path), policies=NAMES, n_trials=30, seed=2, switches=2, report=tmp_path / "b")
    assert again.page == tmp_path / "b" / "index.html" and str(again) == f"{found}\n\n{again.page}"
    assert found.write(tmp_path / "c") == found.page == tmp_path / "c" / "index.html"
    pages = [(tmp_path / each / "index.html").read_text() for each in "abc"]
    one, *others = (re.sub(r"Made by <code>.*?</code>", "", page) for page in pages)
    assert others == [one, one] and "Which policy would have done best on times.csv?" in one
    made = f"Made by <code>umab.compare({str(path)!r}, policies={NAMES!r}, n_trials=30, seed=2, switches=2, report=...)"
    assert made.replace("'", "&#39;") in pages[1]
    numbers = [(tmp_path / each / "results.json").read_bytes() for each in "abc"]
    assert numbers[0] == numbers[1] == numbers[2]


def test_rewards_and_gaps_are_read_as_the_command_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "gains.csv"
    path.write_text("day,a,b\n" + "".join(f"d{i},{i % 3 + 1},{'' if i % 9 == 4 else i % 5}\n" for i in range(90)))
    table = ("--reward", "--drop=day", "--missing=away")
    out = tmp_path / "out"
    said = printed("compare", str(path), "--policy=uniform", "--trials=5", *table, f"--out={out}")
    found = umab.compare(path, policies="uniform", n_trials=5, reward=True, drop=["day"], missing="away")
    assert said == f"{found}\n\n{out / 'index.html'}\n" and "In 10 of 180 cells the arm is away" in said
    assert ", maximize=True)" in found.code
    with pytest.warns(umab.TableWarning, match="no certificates for gains, main: arms are away"):
        found.write(tmp_path / "certified", certify=True)
    with pytest.raises(ValueError, match="switches=1 needs the losses of all arms"):
        umab.compare(path, n_trials=5, switches=1, drop=["day"], missing="away")


def test_a_frame_or_an_array_is_this_table(tmp_path: Path, path: Path) -> None:
    read = str(umab.compare(path, policies=NAMES, n_trials=10))
    for data in (FRAME, polars.DataFrame(ROWS, schema=list(FRAME.columns)), umab.Losses.of(FRAME)):
        found = umab.compare(data, policies=NAMES, n_trials=10)
        assert re.sub(r"this table +final", "final", str(found)) == re.sub(r"times +final", "final", read)
        assert "\nthis table " in str(found)
    bare = umab.compare(ROWS, policies=NAMES, n_trials=10, arms=FRAME.columns)
    assert bare.losses.arms == tuple(FRAME.columns) and bare.summary == read.partition("\n")[0]
    text = bare.write(tmp_path / "page").read_text()
    assert "Which policy would have done best on this table?" in text
    assert "Made by <code>umab.compare(table, policies=" in text and len(text) < 3_000_000


def test_its_numbers_are_those_of_simulate() -> None:
    found = umab.compare(FRAME, policies=NAMES, n_trials=20, seed=3)
    results = dict(zip(NAMES, umab.simulate(NAMES, FRAME, n_trials=20, seed=3, expected=True), strict=True))
    assert set(found.regret) == set(NAMES) == set(found.results)
    for name, row in found.regret.items():
        assert row.policy == name
        assert (row.mean, row.se) == (results[name].mean[-1], results[name].se[-1])
        assert found.results[name].final_regret.tolist() == results[name].final_regret.tolist()
    means = [row.mean for row in found.regret.values()]
    assert means == sorted(means)
    ranked = {name: row.mean for name, row in found.regret.items() if row.standing != "sees all arms"}
    assert found.best == min(ranked, key=ranked.__getitem__) and found.regret[found.best].standing == "best"
    assert found.regret["adahedge"].standing == "sees all arms" and found.regret["uniform"].standing == ""
    assert str(found).startswith(f"{found.summary}\n\n") and str(found).endswith(f"\n\n{found.answer}")
    exec(found.code, scope := {"umab": umab})
    assert scope["learner"].arms == tuple(FRAME.columns)
    for frame in (found.to_pandas(), found.to_polars(), pandas.DataFrame(found.regret.values())):
        assert list(frame.columns) == ["policy", "mean", "se", "standing"] and list(frame["mean"]) == means
    assert umab.plot(found.results).spec and "this table" in str(found.plot().spec)


def test_policies_are_names_or_policies_even_unregistered_ones() -> None:
    class Mine(umab.Uniform):
        pass

    found = umab.compare(FRAME, policies=[Mine(), umab.UMABGA(rate=4.0), "uniform"], n_trials=3)
    assert list(found.results) == [Mine().name, "umab-g-a:rate=4", "uniform"]
    assert found.results[Mine().name].final_regret.tolist() == found.results["uniform"].final_regret.tolist()
    assert list(umab.compare(FRAME, policies=umab.UMABNN(), n_trials=3).results) == ["umab-nn"]
    every = umab.compare(FRAME, n_trials=1)
    assert {"umab-w", "umab-nn", "umab-g-a:rate=4", "adahedge"} < set(every.results)
    assert all(math.isnan(row.se) for row in every.regret.values())


def test_a_notebook_shows_it() -> None:
    found = umab.compare(FRAME, policies=NAMES, n_trials=20, switches=1)
    text = found._repr_html_()
    root = ElementTree.fromstring(text)
    assert not list(root.iter("script"))
    said = "|".join(root.itertext())
    assert found.summary in said and found.answer in said and found.code in said and "slow & old" in said
    assert "|policy|final expected regret|against 1 switch|" in said and "The best sequence of arms with" in said
    assert [row[0].text for row in root.iter("tr")][1:] == list(found.regret)
    shown = ElementTree.fromstring(umab.compare(FRAME, n_trials=1)._repr_html_())
    assert len(list(shown.iter("tr"))) == 21 and "policies with the smallest regrets" in "".join(shown.itertext())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": []}, "at least one policy"),
        ({"policies": ["no-such"]}, "a policy must be one of"),
        ({"policies": ["uniform", "uniform"]}, "must differ"),
        ({"policies": ["my_module:Mine"]}, "must be registered"),
        ({"n_trials": 0}, "n_trials must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"switches": -1}, "switches must be at least 0"),
        ({"certify": True}, "certify=True needs a page .*report='FOLDER'"),
        ({"device": "tpu"}, "device must be one of"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        umab.compare(FRAME, **{"policies": ["uniform"], "n_trials": 2, **options})


def test_a_folder_of_something_else_is_refused_before_anything_runs(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr("umab.research.comparison.compared", lambda *_, **__: pytest.fail("it has run"))
    with pytest.raises(FileExistsError, match="something other than a report"):
        umab.compare(FRAME, n_trials=1, report=tmp_path)


def test_a_table_has_the_options_of_losses_of() -> None:
    options = set(inspect.signature(umab.Losses.of).parameters) - {"data", "source", "provenance"}
    assert set(TableOptions.__annotations__) == options, "umab.compare passes them on"


def without(libraries: str, program: str) -> str:
    """Run a program where some libraries cannot be imported, and return what it prints."""
    begin = f"import sys; sys.modules.update(dict.fromkeys({libraries.split(',')!r})); import umab\n"
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True)
    return done.stdout + done.stderr.strip().rpartition("\n")[2]


def test_it_demands_only_what_it_needs() -> None:
    table, options = [[1.0, 2.0], [0.5, 3.0]], "policies='uniform', n_trials=2"
    call = f"umab.compare({table}, {options})"
    others = "polars,pandas,pooch,jinja2,vl_convert,joblib"
    said = without(others, f"found = {call}; print(found.best, len(found._repr_html_()) > 0)")
    assert said == "uniform True\n"
    advice = "run pip install 'umab[report]'"
    assert f"a report needs jinja2; {advice}" in without(others, f"{call}.write('here')")
    assert f"a report needs jinja2; {advice}" in without(others, f"umab.compare({table}, report='here')")
    bare = f"scipy,{others}"
    assert "umab.compare needs scipy; run pip install 'umab[data]'" in without(bare, call)
    assert f"a report needs jinja2; {advice}" in without(bare, "umab.compare('no.csv', report='here')")
    assert without(bare, "import inspect; print('compare' in dict(inspect.getmembers(umab)))") == "True\n"


def test_it_is_there_after_an_import_that_loads_nothing_for_it() -> None:
    program = "import sys, umab; print({'scipy', 'umab.research'} & set(sys.modules), 'compare' in dir(umab))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set() True\n"
