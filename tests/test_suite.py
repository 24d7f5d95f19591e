"""The suite of loss tables, the contest on it, and its report."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from umab import cli
from umab.datasets import suite as exported
from umab.datasets.suite_tables import Entry, entries, suite
from umab.research.experiments import contest as contests
from umab.research.experiments.contest import (
    AT_RANDOM,
    RECOMMENDED,
    STEADY,
    STEADY_ABLATIONS,
    Played,
    Standings,
    competitors,
    contest,
    estimate,
)
from umab.research.experiments.runner import Summary
from umab.research.report import suite_page, words
from umab.tables.losses import Losses

MADE = suite(real=False)
HALF = {each.name: each.half for each in entries()}


def test_the_halves_have_tables_of_their_own_and_of_the_same_kinds() -> None:
    development, validation = entries("development"), entries("validation")
    assert len(development) >= 20 and len(validation) >= 20
    assert {each.name for each in (*development, *validation)} == set(MADE)
    digests = [MADE[each.name].digest for each in entries()]
    assert len(set(digests)) == len(digests)
    for half in (development, validation):
        tables = [MADE[each.name] for each in half]
        assert min(each.n_arms for each in tables) == 2 and max(each.n_arms for each in tables) >= 200
        assert min(each.n_rounds for each in tables) <= 150 and max(each.n_rounds for each in tables) >= 20000
        assert any(abs(each.table).max() < 1e-5 for each in tables)  # a tiny scale
        assert any(np.ptp(each.table) < 1e-3 * abs(each.table).max() for each in tables)  # a huge offset
        assert any(each.table.min() < 0.0 < each.table.max() for each in tables)
        assert any(each.table.min() >= 0.0 for each in tables) and any(each.table.max() <= 0.0 for each in tables)
        assert any((each.table == 0.0).mean() > 0.9 for each in tables)  # sparse
        assert sum("run times" in each.source for each in tables) == 1
    assert exported is suite
    assert suite(names=["tiny", "coins"])["coins"].digest == MADE["coins"].digest
    with pytest.raises(ValueError, match=r"name .*'stocks', .*'coins'"):
        suite("development", names=["coins"])
    with pytest.raises(ValueError, match=r"half .*'development', 'validation'.*'both'"):
        suite("both")  # type: ignore[arg-type]


def test_the_tables_are_always_the_same() -> None:
    """A changed table would be another suite. The last bits of exp and log, by which some are drawn, may differ."""
    again = suite(real=False)
    assert [each.digest for each in again.values()] == [each.digest for each in MADE.values()]
    content = hashlib.sha256()
    for name, losses in MADE.items():
        content.update(
            name.encode() + HALF[name].encode() + repr([f"{value:.9e}" for value in losses.table.sum(axis=0)]).encode()
        )
    assert content.hexdigest() == "0194bd1106f91df6f9136b9e39ca063568a7d9cb0b2821099b3b3ccdaeb5dadd"


def test_tables_can_be_drawn_anew() -> None:
    again = suite(seed=1, real=False)
    same = {name for name in MADE if again[name].digest == MADE[name].digest}
    assert same == {"stocks", "sales-in-order", "bad-losses", "colouring", "sorting"}
    assert all(again[name].table.shape == MADE[name].table.shape for name in MADE)


def test_the_tables_in_which_the_law_changes() -> None:
    assert {each.name for each in entries() if each.world == "changing"} == {
        *("stocks", "other-stocks", "many-stocks", "sales-in-order", "sorting"),
        *("selection", "selection-passes", "bad-losses", "switch", "late-turn", "walks", "waves"),
        *("against-exp3", "against-exp3-gains", "lure", "lure-down"),
    }


def test_measured_tables_say_where_they_come_from() -> None:
    losses = MADE["colouring"]
    measured = losses.provenance["measured"]
    assert losses.table.min() > 0.0 and losses.n_rounds == 1000 and len(losses.arms) == 6
    assert {"unit", "machine", "python", "date", "command", "seed"} <= set(measured)


def test_stand_ins_take_the_place_of_public_tables() -> None:
    assert {name for name, each in MADE.items() if each.provenance.get("stand_in")} == {
        "stocks",
        "sales",
        "sales-in-order",
        "other-stocks",
        "many-stocks",
        "other-stores",
        "many-stores",
    }


def test_in_the_losses_made_against_exp3_its_favourite_pays() -> None:
    """The run they were made against starts uniform, so the first arm pays first; and it learns, so others pay too."""
    table = MADE["against-exp3"].table
    assert set(np.unique(table)) == {0.0, 1.0} and (table.sum(axis=1) == 1.0).all()
    assert table[0, 0] == 1.0 and (table.sum(axis=0) > 100).all()


# The scores, on regrets that are made up.


def played(name: str, at_random: float, **means: float) -> Played:
    """Return a table on which policies have these mean regrets in four trials."""
    regrets = {key: np.array([-1.0, 1.0, 0.0, 0.0]) + mean for key, mean in {**means, AT_RANDOM: at_random}.items()}
    entry = Entry(name, "validation", name, lambda real, seed: Losses.of([[0.0]]))
    return Played(entry, Losses.of([[0.0]]), regrets, Summary(at_random, 2.0, 1.0, 4))


def standings(*tables: Played) -> Standings:
    names = tuple(dict.fromkeys(name for table in tables for name in table.regrets))
    return Standings("validation", tables, names, 4, 0, 0)


SCORES = standings(
    played("easy", 100.0, **{RECOMMENDED: -50.0, STEADY: 10.0, "ahb": 10.0, "scb": 20.0, "umab-nn": 2.0}),
    played("hard", 100.0, **{RECOMMENDED: 80.0, STEADY: 20.0, "ahb": 40.0, "scb": 50.0}),
    played("unscored", 4.9, **{RECOMMENDED: 80.0, STEADY: 80.0, "ahb": 1.0, "scb": 1.0}),
)


def test_regrets_are_relative_from_five_percent_on() -> None:
    assert [table.entry.name for table in SCORES.scored] == ["easy", "hard"]
    columns = SCORES.columns([RECOMMENDED, "ahb", "umab-nn"])
    np.testing.assert_allclose(SCORES.relative[:, columns], [[0.05, 0.1, 0.05], [0.8, 0.4, np.nan]])


def test_geometric_means_worst_cases_and_profiles() -> None:
    assert SCORES.mean("ahb").value == pytest.approx(0.2) and SCORES.mean(RECOMMENDED).value == pytest.approx(0.2)
    assert math.isnan(SCORES.mean("umab-nn").value)
    assert SCORES.best_competitor == "ahb"
    assert SCORES.ratio("scb").value == pytest.approx(math.sqrt(0.1) / 0.2)
    assert SCORES.ratio("ahb") == (1.0, 0.0) and SCORES.n_played("umab-nn") == 1
    assert SCORES.ratio(RECOMMENDED).value == pytest.approx(1.0)
    assert SCORES.ratio(RECOMMENDED, without=1).value == pytest.approx(2.0)  # easy, where it gains most, is left out
    for name, table in ((RECOMMENDED, "hard"), ("ahb", "easy")):  # umab-nn is the best on easy, at 5%
        multiple, where = SCORES.worst(name)
        assert multiple.value == pytest.approx(2.0) and where == table and multiple.se > 0.0
    np.testing.assert_allclose(SCORES.to_best("umab-nn"), [0.5, np.nan])  # of the others, ahb is the best on easy
    np.testing.assert_allclose(SCORES.profile(RECOMMENDED), [1.0, 4.0])
    np.testing.assert_allclose(SCORES.profile("umab-nn"), [1.0, math.inf])


def test_a_competitor_that_does_not_take_all_tables_is_not_the_best_one() -> None:
    few = standings(played("a", 100.0, **{"umab-g": 6.0, "ahb": 50.0}), played("b", 100.0, **{"ahb": 50.0}))
    assert few.best_competitor == "ahb" and few.n_played("umab-g") == 1
    none = standings(played("a", 1.0, **{RECOMMENDED: 1.0, "ahb": 1.0}))
    assert none.scored == () and math.isnan(none.worst("ahb")[0].value)


def test_the_competitors_are_those_that_were_named_beforehand() -> None:
    rates = {f"{name}{rate}" for name in ("umab-g", "umab-g-a") for rate in ("", ":rate=4")}
    assert set(competitors()) == {*rates, "sf-mab", "sf-mab-a", "ahb", "banker-omd", "scb", "scb-ix", "umab-nn"}
    assert (contests.FLOOR, contests.SURE, contests.MEAN_WANTED, contests.WORST_WANTED) == (0.05, 5.0, 0.75, 2.0)


def test_the_rows_of_the_tables() -> None:
    easy, hard = suite_page.table_rows(SCORES)
    error = 100 * math.sqrt(2 / 3 / 4) / 100
    shown = (f"{mean:.1f} ± {error:.1f}" for mean in (-50.0, 10.0, 2.0, 80.0, 20.0, 40.0))
    assert easy[3:] == (next(shown), next(shown), next(shown), "umab-nn", "1.00", "2.00")
    assert hard[3:] == (next(shown), next(shown), next(shown), "ahb", "2.00", "0.50")
    assert {line.name: line.within for line in suite_page.lines(SCORES)}[AT_RANDOM] == "0%"


def test_a_good_mean_that_comes_from_a_few_tables_is_told() -> None:
    tables = [played(f"t{at}", 100.0, **{RECOMMENDED: 10.0 if at < 4 else 40.0, "ahb": 40.0}) for at in range(9)]
    assert "gains most, its mean is 1 ± 0" in words.contest_verdict(standings(*tables), RECOMMENDED)


def test_errors_are_those_of_the_trials() -> None:
    """The log of a geometric mean over two tables is the mean of two logs; the trials are the same for both tables."""
    size = math.sqrt(0.5 / 4) * math.sqrt(3 / 4) * math.sqrt(4 / 3)  # the standard error of the mean of these four
    expected = 0.2 * (size / 10.0 + size / 40.0) / 2.0
    assert SCORES.mean("ahb").se == pytest.approx(expected, rel=0.1)


def test_the_verdict_says_whether_the_targets_are_met() -> None:
    """Within two standard errors of a limit, the trials are too few to tell."""
    met, missed = "Both targets are met.", "At least one target is missed."
    assert missed in words.contest_verdict(SCORES, RECOMMENDED)
    for mine, outcome in ((10.0, met), (15.0, "4 trials are too few to tell"), (20.0, missed)):
        tables = [played(f"t{at}", 100.0, **{RECOMMENDED: mine, "ahb": 20.0}) for at in range(3)]
        assert outcome in words.contest_verdict(standings(*tables), RECOMMENDED)
        worst = standings(*tables, played("bad", 100.0, **{RECOMMENDED: 60.0, "ahb": 20.0}))
        assert missed in words.contest_verdict(worst, RECOMMENDED)


def test_each_recommended_policy_has_a_verdict_of_its_own() -> None:
    watching, steady = suite_page.verdicts(SCORES)
    assert watching.startswith(f"The mean score of {RECOMMENDED} is 1.0") and "hard, where it has 2.0" in watching
    assert steady.startswith(f"The mean score of {STEADY} is 0.70") and "easy, where it has 2.0" in steady


# The contest, on three small tables.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(half: Any = None) -> list[Entry]:
        return [each for each in entries(half) if each.name in ("short", "short-waits", "equal", "bad-losses")]

    monkeypatch.setattr(contests, "entries", few)


@pytest.mark.usefixtures("small")
def test_the_contest_runs_what_simulate_runs() -> None:
    development, validation = contest(n_trials=5, seed=3)
    assert [table.entry.name for table in development.tables] == ["bad-losses", "short", "equal"]
    assert [table.entry.name for table in development.scored] == ["bad-losses", "short"]
    assert set(competitors()) - set(validation.policies) == set()
    (waits,) = validation.tables
    right = umab.simulate("umab-nn", waits.losses, n_trials=5, seed=3, expected=True).final_regret
    assert (waits.regrets["umab-nn"] == right).all()
    sampled = umab.simulate("uniform", waits.losses, n_trials=5, seed=3, expected=False)
    assert waits.at_random == Summary.of(sampled.final_regret) and waits.at_random.se > 0.0
    assert "umab-nn" not in development.tables[0].regrets and math.isnan(development.mean("umab-nn").value)
    for name, message in (("nobody", "'nobody'"), ("adahedge", "no range, .*adahedge")):
        with pytest.raises(ValueError, match=message):
            contest(policies=[name], n_trials=5)


@pytest.mark.usefixtures("small")
def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "suite"
    arguments = ["suite", "--trials", "5", "--data", "stand-in", "--policy", "umab-s:rate=9", "--out", str(out)]
    assert cli.main(["suite", "--half", "validation", "--trials", "3", "--out", str(out)]) == 0
    assert "Development half" not in (out / "index.html").read_text()
    assert cli.main(arguments) == 0  # takes the place of the first
    printed = capsys.readouterr().out
    assert "validation half" in printed and "umab-s:rate=9" in printed and "(target: at most 0.75)" in printed
    content = json.loads((out / "results.json").read_text())
    assert content["halves"]["development"]["tables"]["equal"]["scored"] is False
    assert content["halves"]["validation"]["policies"][RECOMMENDED]["geometric_mean"]["value"] > 0.0
    page, markdown = (out / "index.html").read_text(), (out / "page.md").read_text()
    for text in (page, markdown):
        assert "the learning rate from stability" in text and "Not scored: equal" in text and "umab-s:rate=9" in text
    assert sorted(path.name for path in (out / "figures").iterdir()) == [
        f"{half}.{ending}" for half in ("development", "validation") for ending in ("pdf", "png", "svg")
    ]


@pytest.mark.usefixtures("small")
def test_equal_trials_have_no_error_however_they_are_resampled() -> None:
    """Choosing at random has the same expected regret in every trial."""
    _, validation = contest(n_trials=7, seed=3)
    assert validation.mean(AT_RANDOM) == (1.0, 0.0) and validation.mean("umab-nn").se > 0.0
    assert estimate(np.array(0.1), np.full(1000, 0.1)) == (0.1, 0.0)


PAGE = Path(__file__).parent.parent / "docs" / "suite.md"


def test_the_page_in_docs_is_about_this_suite() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(each.name in text and each.about in text for each in entries())
    assert all(
        name in text for name in (RECOMMENDED, STEADY, *competitors(), *STEADY_ABLATIONS.values(), *STEADY_ABLATIONS)
    )
    assert "Stand-ins" not in text


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("UMAB_DATA"), reason="UMAB_DATA names no folder with the public tables")
def test_the_page_in_docs_is_that_of_a_run(tmp_path: Path) -> None:
    suite_page.write(contest(real=True), tmp_path / "suite", "umab suite")
    made = (tmp_path / "suite" / "page.md").read_text(encoding="utf-8").replace("(figures/", "(suite-")
    assert made == PAGE.read_text(encoding="utf-8")
