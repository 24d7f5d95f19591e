"""Reports: the words, the numbers, the files, and the page in a real browser."""

from __future__ import annotations

import functools
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from umab.research.experiments import parts
from umab.research.experiments.experiment import Experiment, comparison, paper
from umab.research.experiments.pooled import Found
from umab.research.experiments.runner import Run, Summary, run, run_on
from umab.research.experiments.sweep import Sweep, grid_of
from umab.research.report import run_page, sweep_page, words
from umab.research.report.charts import regret_chart
from umab.research.report.folder import file_name
from umab.research.report.run_page import as_json, check_names, page, write
from umab.research.report.shell import Head, in_script

HEAD = Head(title="A <title>", lede="Some words & more.", command="umab run x.toml")


@pytest.fixture(scope="module")
def six() -> Run:
    """The paper's experiments with few trials and stand-ins for the tables."""
    return run(paper().values(), n_trials=12, real=False)


@pytest.fixture(scope="module")
def report(six: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "report"
    assert write(six, folder, HEAD) == folder / "index.html"
    return folder


@pytest.mark.parametrize(
    ("mean", "se", "text"),
    [
        (1381.4512, 8.5751, "1381.5 ± 8.6"),
        (1381.4512, 85.751, "1381 ± 86"),
        (-0.012345, 0.00099, "-0.01235 ± 0.00099"),
        (0.0, 0.5, "0.00 ± 0.50"),
        (3.0, 0.0, "3 ± 0"),
        (0.0, 0.0, "0 ± 0"),
        (15934018.4, 3.9e-10, "15934018 ± 0"),
        (1222987.25, 8.0, "1222987.2 ± 8.0"),
        (12098765.0, 31000.0, "12098765 ± 31000"),
        (0.0125, 0.0, "0.0125 ± 0"),
        (3.0, math.nan, "3"),
        (2.5e300, 1.2e298, "(2.500 ± 0.012)e+300"),
        (-2.5e-310, 1.2e-312, "(-2.500 ± 0.012)e-310"),
        (math.inf, math.nan, "too large for a double"),
        (12.0, 9.96, "12 ± 10"),
    ],
)
def test_a_mean_is_written_with_two_digits_of_its_error(mean: float, se: float, text: str) -> None:
    assert words.measured(mean, se) == text


def test_a_spread_is_that_of_a_trial() -> None:
    assert words.spread(Summary(mean=10.0, sd=2.5, se=0.25, n_trials=100)) == "2.5"
    assert words.spread(Summary(mean=10.0, sd=1e-13, se=1e-14, n_trials=100)) == "0"
    assert words.spread(Summary(mean=10.0, sd=math.nan, se=math.nan, n_trials=1)) == "–"


def test_facts_of_a_table() -> None:
    losses = umab.Losses.of([[-1.0, 2.0], [0.0, 3.0], [0.5, 0.0], [-1.0, 1.0]], arms=["a", "b"])
    assert words.facts(losses) == (
        "4 rounds of 2 arms; losses (lower is better) from -1 to 3, 25.0% negative, 25.0% zero and 50.0% positive. "
        "The best arm is a (-0.375 per round)."
    )
    same = umab.Losses.of([[1.0, 1.0]], arms=["a", "b"])
    assert "all positive. The best arms are a and b, with the same sum" in words.facts(same)


def compared(table: Any, *policies: str, n_trials: int = 30) -> Any:
    losses = umab.Losses.of(table)
    experiment = comparison("x", losses, policies or None)
    (outcome,) = run_on([(experiment, experiment.settings[0], losses)], n_trials=n_trials).outcomes
    return outcome


def test_the_answer_says_who_was_best_and_how_sure_that_is() -> None:
    table = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(1000, 3))
    outcome = compared(table, "umab-nn", "umab-g", "uniform")
    best = umab.simulate("umab-nn", table, n_trials=30, expected=True)
    text = words.answer(outcome)
    assert text.startswith(
        "On these losses umab-nn would have done best: an expected regret (pseudo-regret) of "
        f"{words.measured(best.mean[-1], best.se[-1])}"
    )
    a_round = [table.mean(axis=0).min(), table.mean(axis=0).min() + best.mean[-1] / 1000, table.mean()]
    assert "best single arm {:.5g}, umab-nn {:.5g}, choosing at random {:.5g}.".format(*a_round) in text
    assert "uniform has the largest expected regret" in text
    same = words.answer(compared(np.ones((50, 2)), "umab-g", "ahb", "uniform"))
    assert "no policy can be distinguished from choosing at random" in same.partition(":")[0]
    assert "smallest expected regret (pseudo-regret) belongs to umab-g and ahb." in same
    assert "would have done best" not in same
    assert words.answer(compared(table[:50], "uniform")).startswith("Only choosing at random was run: 50 rounds")
    assert words.answer(compared(table[:50], "adahedge")).startswith("On these losses adahedge would have done best")
    tied = words.answer(compared(table[:5], "uniform", "umab-g"))
    assert "umab-g had to be told the number of rounds" in tied or "umab-g" not in tied


def test_sequences_of_arms_beside_the_best_single_arm() -> None:
    turned = np.repeat([[0.5, 1.0], [4.0, 1.5], [0.5, 1.0], [4.0, 1.5]], [40, 20, 1, 9], axis=0)
    outcome = compared(turned, "uniform", "adahedge", n_trials=3)
    rows = run_page._sequences(outcome)
    # With 5 switches there is nothing to gain that 3 do not gain, and so with 10.
    assert [(allowed, words.sequence(outcome.losses, found)) for allowed, found in rows] == [
        (0, "1"),
        (1, "0, 1 from round 41"),
        (5, "0, 1 from round 41, 0 from round 61, 1 from round 62"),
    ]
    for allowed, found in rows:
        regret = turned.mean(axis=1).sum() - found.total
        assert words.tracking(outcome, allowed)["uniform"] == words.measured(regret, 0.0)
    text = page(Run((outcome,)), HEAD)
    assert "If the best arm may change" in text and "0, 1 from round 41, 0 from round 61" in text
    for none in (turned[:40], np.where(turned == 4.0, np.nan, turned)):
        outcome = compared(umab.Losses.of(none, missing="away"), "uniform", n_trials=3)
        assert run_page._sequences(outcome) == [] and "If the best arm may change" not in page(Run((outcome,)), HEAD)
    many = umab.Losses.of(np.tile(np.eye(2), (20, 1)))
    assert words.sequence(many, umab.best_sequence(many, 99)).endswith("from round 11, and 29 more changes")
    assert [words.switches(number) for number in (0, 1, 2)] == ["0 switches", "1 switch", "2 switches"]


def test_verdicts_are_counted_in_english() -> None:
    assert words.tally(["holds", "undecided"]) == "of 2 statements, 1 holds and 1 is undecided"
    assert words.tally(["does not hold"] * 3) == "of 3 statements, 3 do not"
    assert words.tally([]) == "nothing was claimed about these policies"


def test_rewards_are_called_so() -> None:
    losses = umab.Losses.of([[-1.0, -2.0]], provenance={"reward": True})
    assert words.facts(losses) == (
        "1 round of 2 arms; rewards (higher is better) from 1 to 2, all positive. The best arm is 1 (2 per round)."
    )
    text = words.answer(compared(losses, "umab-g", "uniform", n_trials=3))
    assert "The mean reward per round is: the best single arm 2, " in text
    assert text.count("-") == text.count("umab-g") + text.count("pseudo-regret")  # no minus


def test_choosing_at_random_may_be_best() -> None:
    """Losses that depend on the draws of a policy, so that it does worse than chance."""
    outcome = compared(np.random.default_rng(0).exponential([1.0, 2.0], size=(400, 2)), "umab-nn", "uniform")
    curves = {"umab-nn": outcome.curves["uniform"], "uniform": outcome.curves["umab-nn"]}
    turned = words.answer(replace(outcome, curves=curves))
    assert turned.startswith("On these losses choosing at random would have done best, and every policy that learns")
    assert "Only choosing at random was run" not in turned


def test_the_largest_regret_is_among_the_policies_that_are_ranked() -> None:
    table = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(1000, 3))
    text = words.answer(compared(table, "umab-nn", "uniform", "adahedge"))
    assert "uniform has the largest expected regret of those that see one arm per round, " in text


def test_losses_of_any_size_make_a_report(tmp_path: Path) -> None:
    """Neither the words nor the charts overflow; a regret beyond the largest double is said to be one."""
    for size in (5e-324, 1e-300, 1e300, 1.7e308):
        table = size * np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 2), p=[0.4, 0.6])
        losses = umab.Losses.of(table)
        experiment = comparison("x", losses, ["ahb", "uniform", "scb"])
        done = run_on([(experiment, experiment.settings[0], losses)], n_trials=5)
        text = write(done, tmp_path / "report", HEAD).read_text()
        assert words.answer(done.outcomes[0]) and "per round)" in words.facts(losses)
        assert ("too large for a double" in text) == (size == 1.7e308)


def test_words_on_settings_that_disagree(six: Run) -> None:
    for outcomes in six.experiments.values():
        said = words.parting(outcomes)
        agree = outcomes[0].verdict == outcomes[1].verdict
        assert ("settings agree on" in said) == agree and ("settings disagree on" in said) == (not agree)
        assert all(outcome.best in said for outcome in outcomes)


def test_the_numbers_are_those_of_the_run(six: Run, report: Path) -> None:
    content = json.loads((report / "results.json").read_text())
    assert list(content["figures"]) == ["stock", "sales", "selection", "exploration", "adaptive", "nonadaptive"]
    for outcome in six.outcomes:
        figures = content["figures"][outcome.experiment.id][outcome.setting.name]
        assert figures.keys() == outcome.curves.keys() and figures.keys() <= umab.policies().keys()
        for name, curve in outcome.curves.items():
            result = curve.result
            expected = {"mean": result.mean[-1], "sd": result.sd[-1], "se": result.se[-1], "n_trials": 12}
            assert figures[name] == expected
            sampled = result.sampled_regret[:, -1]
            assert content["sampled"][outcome.experiment.id][outcome.setting.name][name] == pytest.approx(
                {
                    "mean": sampled.mean(),
                    "sd": sampled.std(ddof=1),
                    "se": sampled.std(ddof=1) / np.sqrt(12),
                    "n_trials": 12,
                },
                rel=1e-9,
                abs=1e-9,
            )
        about = content["provenance"][outcome.experiment.id][outcome.setting.name]
        assert about["losses"]["sha256"] == outcome.losses.digest and about["seed"] == 0
        real = outcome.experiment.id in ("stock", "sales")
        assert about["losses"]["provenance"]["stand_in"] == real
    claims = [(each["figure"], each["setting"], each["claim"], each["verdict"]) for each in content["claims"]]
    assert claims == [
        (outcome.experiment.id, outcome.setting.name, str(judged.claim), judged.verdict)
        for outcome in six.outcomes
        for judged in outcome.judged
    ]
    assert {each["evidence"]["n_judged"] for each in content["claims"]} == {27}
    evidence = [judged.evidence._asdict() for outcome in six.outcomes for judged in outcome.judged]
    assert [each["evidence"] for each in content["claims"]] == evidence


def test_a_single_trial_has_no_error_and_json_says_null() -> None:
    content = json.loads(as_json(run([paper()["nonadaptive"]], n_trials=1)))
    assert content["figures"]["nonadaptive"]["printed"]["ahb"]["sd"] is None
    assert all(each["verdict"] == "undecided" for each in content["claims"])


def test_every_figure_and_raw_result_is_there(six: Run, report: Path) -> None:
    assert {path.name for path in report.iterdir()} == {"index.html", "results.json", "figures", "results"}
    for outcome in six.outcomes:
        stem = report / "figures" / f"{outcome.experiment.id}-{outcome.setting.name}"
        assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        for name, curve in outcome.curves.items():
            path = report / "results" / outcome.experiment.id / outcome.setting.name / file_name(name)
            loaded = umab.Result.load(path)
            assert (loaded.final_regret == curve.result.final_regret).all() and loaded.arms.dtype == np.uint8
            assert curve.sampled is not None
            np.testing.assert_allclose(loaded.sampled_regret[:, -1].mean(), curve.sampled.mean, rtol=1e-12)


def test_a_report_is_replaced_and_other_things_are_not(six: Run, report: Path, tmp_path: Path) -> None:
    place = tmp_path / "report"
    shutil.copytree(report, place)
    (place / "notes.txt").write_text("mine")
    one = run([paper()["nonadaptive"].with_settings(["printed"])], n_trials=2)
    write(one, place, HEAD)
    assert {path.stem for path in (place / "figures").iterdir()} == {"nonadaptive-printed"}
    assert [path.name for path in (place / "results").iterdir()] == ["nonadaptive"]
    assert (place / "notes.txt").read_text() == "mine"
    leftover = place / ".report-killed"
    leftover.mkdir()
    write(one, place, HEAD)  # what a killed run has left is not in the way
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "figures").write_text("mine")
    with pytest.raises(FileExistsError, match=r"other' .*report.*empty folder"):
        write(one, tmp_path / "other", HEAD)
    with pytest.raises(FileExistsError, match=r"a report .*notes\.txt' is a file"):
        write(one, place / "notes.txt", HEAD)
    assert (tmp_path / "other" / "figures").read_text() == "mine"


def test_whoever_is_stopped_keeps_the_report_they_had(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "report"
    shutil.copytree(report, place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}

    def stopped(*_: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_page, "page", stopped)
    with pytest.raises(KeyboardInterrupt):
        write(run([paper()["nonadaptive"]], n_trials=2), place, HEAD)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_charts_show_the_curves_and_bands() -> None:
    outcome = compared(np.random.default_rng(0).normal(size=(1000, 2)), "ahb", "umab-g-a:rate=4", "uniform")
    for interactive in (True, False):
        chart = regret_chart(outcome, interactive=interactive)
        rows = {row["policy"]: row for row in chart["data"]["values"]}
        assert rows.keys() == outcome.curves.keys()
        for name, row in rows.items():
            result = outcome.curves[name].result
            at = np.array(row["t"]) - 1
            assert at[0] == 0 and at[-1] == 999 and (np.diff(at) > 0).all()
            np.testing.assert_allclose(row["mean"], result.mean[at], rtol=1e-4, atol=1e-12)
            np.testing.assert_allclose(row["high"], result.mean[at] + result.sd[at], rtol=1e-4, atol=1e-12)
            np.testing.assert_allclose(row["low"], result.mean[at] - result.sd[at], rtol=1e-4, atol=1e-12)


def test_curves_differ_in_colour_or_dashes() -> None:
    names = [*umab.policies(), "umab-g:rate=4", *(f"umab-g-a:rate={k}" for k in range(1, 6))]
    outcome = compared(np.abs(np.random.default_rng(0).normal(size=(9, 2))).clip(0, 1), *names, n_trials=2)
    encoding = regret_chart(outcome, interactive=False)["layer"][-1]["encoding"]
    colours = regret_chart(outcome, interactive=False)["encoding"]["color"]["scale"]["range"]
    dashes = encoding["strokeDash"]["scale"]["range"]
    styles = [(colour, tuple(dash)) for colour, dash in zip(colours, dashes, strict=True)]
    assert len(styles) == len(names) and len(set(styles)) == len(names)


def test_charts_of_one_trial_and_of_stand_ins(six: Run) -> None:
    (single,) = run([paper()["nonadaptive"].with_settings(["printed"])], n_trials=1).outcomes
    for row in regret_chart(single, interactive=True)["data"]["values"]:
        assert row["low"] == row["mean"] == row["high"] and None not in row["mean"]
    titles = [regret_chart(outcome, interactive=False)["title"]["text"] for outcome in six.outcomes]
    assert [title.endswith("stand-in data") for title in titles] == [True] * 4 + [False] * 8


PAPER = ["umab-g", "umab-g-a", "sf-mab", "sf-mab-a", "ahb", "banker-omd", "uniform"]


def test_figures_draw_the_policies_of_the_paper_and_the_recommended_one(six: Run) -> None:
    for outcome in six.outcomes:
        claimed = ["umab-g-none"] if outcome.experiment.id == "exploration" else []  # the claim is about it
        drawn = [*PAPER[:2], *claimed, *PAPER[2:], umab.recommended().name]
        assert outcome.drawn == drawn and set(drawn) < set(outcome.curves)
        file, on_page = (regret_chart(outcome, interactive=each) for each in (False, True))
        assert [row["policy"] for row in file["data"]["values"]] == drawn[::-1]
        assert file["encoding"]["color"]["scale"]["domain"] == drawn
        assert on_page["encoding"]["color"]["scale"]["domain"] == list(outcome.curves)
        assert on_page["params"] == [{"name": "picked", "value": drawn}]
        colours = [dict(zip(*each["encoding"]["color"]["scale"].values(), strict=True)) for each in (file, on_page)]
        assert colours[0].items() <= colours[1].items()  # a curve has one colour, wherever it is drawn


def test_a_comparison_draws_the_best_the_recommended_one_and_what_was_named() -> None:
    table = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(200, 3))
    every = compared(table, n_trials=3)
    ranked = [name for name in every.by_regret if every.curves[name].ranked]
    assert set(every.drawn) == {*ranked[:6], "uniform", umab.recommended().name} and len(ranked) > 8
    named = ["scb", "scb-ix", "adahedge", *PAPER]
    assert compared(table, *named, n_trials=3).drawn == named


def test_every_figure_says_what_its_bands_are(six: Run) -> None:
    kind = "Mean expected regret of 12 trials; bands are one standard deviation"
    assert {regret_chart(each, interactive=False)["title"]["subtitle"] for each in six.outcomes} == {kind}
    text = page(six, HEAD)
    assert text.count("<figure>") == text.count(f"<figcaption>{kind}.") == 12
    (single,) = run([paper()["nonadaptive"].with_settings(["printed"])], n_trials=1).outcomes
    assert regret_chart(single, interactive=False)["title"]["subtitle"] == "Expected regret of 1 trial"


def test_nothing_in_a_script_ends_it() -> None:
    assert "<" not in in_script({"a": "</script><!--"})
    assert json.loads(in_script({"a": "</script>"})) == {"a": "</script>"}


def test_names_of_figures_do_not_collide() -> None:
    content: dict[str, Any] = {"data": {"name": "bad_losses"}, "policies": ["ahb"]}
    twins = [
        Experiment.of("a", {**content, "settings": {"b-c": {}}}),
        Experiment.of("a-b", {**content, "settings": {"c": {}}}),
    ]
    check_names(twins[:1])
    with pytest.raises(ValueError, match=r"figures .*'a', setting 'b-c' and 'a-b', setting 'c' .*'a-b-c'"):
        check_names(twins)
    assert file_name("../x y:z") == "__x_y_z" and file_name("..") == "_"


def test_text_on_the_page_is_text(six: Run) -> None:
    """A title of one's own cannot break the page, nor can a name inside the script."""
    experiment = Experiment.of(
        "x</script>", {"title": "<b>", "data": {"name": "bad_losses"}, "policies": ["uniform", "ahb"], "claim": "a & b"}
    )
    text = page(run([experiment], n_trials=2), HEAD)
    assert "<b>" not in text and "&lt;b&gt;" in text and "A &lt;title&gt;" in text
    assert text.count("</script>") == 2


@pytest.fixture(scope="module")
def opened(browser: Any, report: Path) -> Iterator[tuple[Any, list[str]]]:
    """The page, and what it has complained of or asked for."""
    said: list[str] = []
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    tab.on("request", lambda asked: said.append(f"request: {asked.url}"))
    tab.goto(f"file://{report}/index.html")
    tab.wait_for_function("document.querySelectorAll('.chart svg').length == 12", timeout=60_000)
    yield tab, said
    tab.close()


def test_the_page_draws_all_figures_and_needs_no_network(opened: tuple[Any, list[str]], report: Path, six: Run) -> None:
    tab, said = opened
    assert said == [f"request: file://{report}/index.html"]
    charts = tab.query_selector_all(".chart")
    assert len(charts) == 12
    for chart, outcome in zip(charts, six.outcomes, strict=True):
        lines = chart.query_selector_all("g.mark-line path")
        assert len(lines) == len(outcome.drawn)
        assert all(len(line.get_attribute("d")) > 100 for line in lines)
        assert len(chart.query_selector_all("g.mark-area path")) == len(outcome.drawn)
        boxes = chart.query_selector("xpath=following-sibling::fieldset").query_selector_all("label")
        assert [box.text_content() for box in boxes] == list(outcome.curves)
        ticked = [box.text_content() for box in boxes if box.query_selector("input").is_checked()]
        assert ticked == outcome.drawn
    for width in (390, 1280):  # a phone, and a desk
        tab.set_viewport_size({"width": width, "height": 800})
        tab.wait_for_function(f"document.querySelector('.chart svg').getBoundingClientRect().width <= {width}")
        too_wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert too_wide <= 0, width


def test_the_page_says_what_was_found(opened: tuple[Any, list[str]], six: Run) -> None:
    tab, _ = opened
    text = " ".join(tab.inner_text("main").split())
    assert "Not all data are real." in text
    for outcome in six.outcomes:
        assert outcome.experiment.claim in text
        for name in outcome.curves:
            assert words.measured(*outcome.curves[name].expected[::2]) in text
    for number, outcomes in enumerate(six.experiments.values()):
        for at, outcome in enumerate(outcomes):
            place = tab.query_selector(f"#chart-{number}-{at}").evaluate_handle("node => node.closest('.setting')")
            check_tables(place.as_element(), outcome)
    digests = [each.get_attribute("title") for each in tab.query_selector_all("#provenance code[title]")]
    assert digests == [outcome.losses.digest for outcome in six.outcomes]
    columns = tab.query_selector_all("#regrets table")
    assert len(columns) == 2
    for table, setting in zip(columns, six.settings, strict=True):
        marks = [cell.inner_text() for cell in table.query_selector_all("td.best")]
        chosen = [outcome for outcome in six.outcomes if outcome.setting.name == setting]
        best = {shown(outcome.curves[outcome.best].expected) for outcome in chosen}
        assert set(marks) == best and len(marks) == 6
        tied = sum(standing.tied for outcome in chosen for standing in outcome.standings.values())
        assert table.inner_text().count("= ") == tied > 0
    rows = tab.query_selector_all("#verdicts tbody tr")
    assert len(rows) == 6
    for row, (_, outcomes) in zip(rows, six.experiments.items(), strict=True):
        cells = [cell.inner_text() for cell in row.query_selector_all("td")]
        assert [outcome.verdict in cell for outcome, cell in zip(outcomes, cells[2:], strict=True)] == [True, True]


def shown(summary: Any) -> str:
    return words.measured(summary.mean, summary.se)


def check_tables(place: Any, outcome: Any) -> None:
    """The tables of a setting: final regrets with tags, and statements with differences, intervals and verdicts."""
    tables = place.query_selector_all("table")
    rows = [
        [cell.inner_text() for cell in row.query_selector_all("td")] for row in tables[0].query_selector_all("tbody tr")
    ]
    order = sorted(outcome.curves, key=lambda name: outcome.curves[name].expected.mean)
    for (title, expected, sd, drawn), name in zip(rows, order, strict=True):
        curve = outcome.curves[name]
        assert title.split() == [name, *words.standing(outcome, name).split()]
        assert (expected, sd, drawn) == (shown(curve.expected), words.spread(curve.expected), shown(curve.sampled))
    statements = [row for row in tables[-1].query_selector_all("tbody tr")]
    for row, judged in zip(statements, outcome.judged, strict=True):
        cells = [cell.text_content().strip() for cell in row.query_selector_all("td")]
        evidence = judged.evidence
        assert cells[0] == str(judged.claim) and cells[-1].endswith(judged.verdict)
        if not evidence.identical:
            assert cells[1] == words.measured(evidence.difference, evidence.se)
            assert cells[2] == f"[{evidence.low:.4g}, {evidence.high:.4g}]"


def test_readings_have_numbers_for_names_with_dots(browser: Any, tmp_path: Path) -> None:
    losses = umab.Losses.of(np.random.default_rng(0).normal(size=(50, 2)))
    experiment = comparison("charts", losses, ["umab-g-a:rate=0.25", "ahb"])
    write(run_on([(experiment, experiment.settings[0], losses)], n_trials=3), tmp_path / "report", HEAD)
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(f"file://{tmp_path}/report/index.html")
    tab.wait_for_selector("#chart-0-0 g.mark-line path")
    tab.locator("#chart-0-0").hover(position={"x": 300, "y": 150})
    tab.wait_for_selector("#vg-tooltip-element.visible")
    lines = tab.inner_text("#vg-tooltip-element").split()
    assert "umab-g-a:rate=0.25" in lines and not {"NaN", "undefined", "null"} & set(lines)
    tab.close()


OVERLAPS = """() => {
  const boxes = [];
  for (const one of document.querySelectorAll("h1, h2, h3, p, pre, summary, .chart, label, figcaption, table")) {
    if (!one.checkVisibility()) continue;  // in a part that is closed
    const box = one.getBoundingClientRect(), within = one.closest(".scroll")?.getBoundingClientRect() ?? box;
    const [left, right] = [Math.max(box.left, within.left), Math.min(box.right, within.right)];
    if (right > left && box.bottom > box.top) boxes.push({ one, left, right, top: box.top, bottom: box.bottom });
  }
  boxes.sort((one, other) => one.top - other.top);
  const found = [];
  boxes.forEach((upper, at) => {
    for (const lower of boxes.slice(at + 1)) {
      if (lower.top > upper.bottom - 1) break;
      if (lower.left < upper.right - 1 && upper.left < lower.right - 1)
        found.push(`${upper.one.textContent.slice(0, 60)} | ${lower.one.textContent.slice(0, 60)}`);
    }
  });
  return found;
}"""

HIDDEN_LABELS = """() => [...document.querySelectorAll(".role-axis-label")].flatMap((axis) => {
  const labels = [...axis.querySelectorAll("text")];
  const boxes = labels.map((label) => label.getBoundingClientRect());
  const apart = (one, other) => one.right < other.left || other.right < one.left || one.bottom <= other.top + 3
    || other.bottom <= one.top + 3;  // the box of a line is taller than its digits
  return labels.filter((label, at) => getComputedStyle(label).opacity < 1
    || (at > 0 && !apart(boxes[at - 1], boxes[at]))).map((label) => label.textContent);
})"""


@pytest.mark.parametrize("width", [390, 900, 1300])
def test_no_two_boxes_overlap_when_everything_is_open(browser: Any, report: Path, six: Run, width: int) -> None:
    """Every part is opened as a reader does it, so that one that lies under another cannot be opened."""
    tab = browser.new_page(viewport={"width": width, "height": 800})
    tab.goto(f"file://{report}/index.html")
    tab.wait_for_function("document.querySelectorAll('.chart svg').length == 12", timeout=60_000)
    assert tab.evaluate(OVERLAPS) == []
    summaries = tab.locator("details:not([open]) > summary")
    n_closed = summaries.count()
    assert n_closed >= len(six.outcomes)
    for _ in range(n_closed):
        summaries.first.click(timeout=5_000)
    assert tab.locator("details").count() == tab.locator("details[open]").count() >= 2 * len(six.outcomes)
    assert tab.evaluate(OVERLAPS) == []
    assert tab.locator(".role-axis-label text").count() > 12 * 6 and tab.evaluate(HIDDEN_LABELS) == []
    tab.close()


def test_charts_of_two_settings_start_level(opened: tuple[Any, list[str]]) -> None:
    tab, _ = opened
    tops = [place.bounding_box()["y"] for place in tab.query_selector_all(".chart")]
    assert tops[::2] == tops[1::2] and len(set(tops)) == 6


def test_a_tick_switches_a_curve_on_or_off(browser: Any, report: Path) -> None:
    said: list[str] = []
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(f"file://{report}/index.html")
    tab.wait_for_selector("#chart-0-0 g.mark-line path")

    def drawn(number: int) -> None:
        tab.wait_for_function(f"document.querySelectorAll('#chart-0-0 g.mark-line path').length == {number}")
        tab.wait_for_function(f"document.querySelectorAll('#chart-0-0 g.mark-area path').length == {number}")

    boxes = tab.locator("#chart-0-0 + .curves")
    drawn(8)
    boxes.get_by_label("banker-omd").uncheck()
    drawn(7)
    boxes.get_by_label("scb", exact=True).check()
    boxes.get_by_label("adahedge").check()
    drawn(9)
    boxes.get_by_text("none").click()
    drawn(0)
    boxes.get_by_label("umab-w").press("Space")  # without a mouse
    drawn(1)
    tab.locator("#chart-0-0").hover(position={"x": 300, "y": 150})
    tab.wait_for_selector("#vg-tooltip-element.visible")
    assert "NaN" not in tab.inner_text("#vg-tooltip-element")
    boxes.get_by_text("all").click()
    drawn(boxes.locator("input").count())
    tab.locator("#chart-0-0").hover(position={"x": 300, "y": 150})
    tab.wait_for_selector("#vg-tooltip-element.visible")
    tip = tab.inner_text("#vg-tooltip-element")
    assert "round" in tip and "banker-omd" in tip and "undefined" not in tip and "NaN" not in tip
    assert all("Infinite extent" in each for each in said)  # of the axis, while no curve was drawn
    tab.close()


def test_the_page_of_a_sweep_draws_all_its_charts(browser: Any, tmp_path: Path) -> None:
    axes = {"umab-g-a": {"rate": [1, 4], "initial_scale": [0.1, 1]}, "umab-s": {"rate": [1, 2]}}
    content = {"trials": 3, "data": {"name": "stochastic", "seed": [0, 1]}, "policies": ["umab-nn"], "grid": axes}
    parts.prepare(tmp_path)
    grid = grid_of(Sweep.of("x", content), keep=functools.partial(parts.store, tmp_path))
    for cell in grid.cells.values():
        parts.run_cell(cell, tmp_path)
    file = sweep_page.write(
        Found.of(grid, parts.read(grid, tmp_path)), tmp_path / "report", "umab sweep x.toml --report"
    )
    said: list[str] = []
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(file.as_uri())
    n_charts = file.read_text().count('class="chart"')
    tab.wait_for_function(f"document.querySelectorAll('.chart svg').length == {n_charts}")
    assert n_charts == 1 + 3 + 1 + 2 and said == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390  # wide maps scroll in their own place
    tab.close()
