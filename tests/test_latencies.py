"""The page on latencies with outliers, and the figure of the README: they are what the numbers beside them come to."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages import latencies
from umab.research.report import words

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def ranges_of(policy: str) -> list[str]:
    return [f"{policy} {said}" for said in latencies.RANGES]


@pytest.fixture(scope="module")
def results() -> Any:
    return json.loads((DOCS / latencies.NUMBERS).read_text())


def test_the_page_is_that_of_the_numbers_beside_it(results: Any) -> None:
    assert (DOCS / latencies.PAGE).read_text() == latencies.text(results)
    assert results["n_tables"] == latencies.N_TABLES and results["rounds"][-1] == latencies.N_ROUNDS


def test_the_readme_has_these_numbers(results: Any) -> None:
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| (-?[\d.]+ ± [\d.]+) \| (-?\d+) \| ([\d.]+ ± [\d.]+) \|$", readme, re.MULTILINE
    )
    shown, without = (
        [results["stories"][story]["regret"][name] for name in latencies.LINES]
        for story in (latencies.SHOWN, "overloaded")  # the same, without an outage
    )
    assert [row[1:] for row in rows] == [
        (words.measured(each["mean"], each["se"]), f"{each['unlucky']:.0f}", words.measured(other["mean"], other["se"]))
        for each, other in zip(shown, without, strict=True)
    ]


def test_what_the_page_says_in_words_is_so(results: Any) -> None:
    """What the text says without a number from the run; a run that comes out otherwise needs other words."""
    first, second, third, fourth, fifth = (
        {name: each["mean"] for name, each in results["stories"][story]["regret"].items()}
        for story in latencies.STORIES
    )
    unlucky = {name: each["unlucky"] for name, each in results["stories"]["overloaded"]["regret"].items()}
    for policy in ("exp3", "tsallis-inf"):
        guesses = {name: regret for name, regret in first.items() if name.startswith(policy)}
        assert min(guesses, key=lambda name: guesses[name]) == f"{policy} 1 s"
        assert first[f"{policy} 100 ms"] > first["random"] and first[f"{policy} 10 s"] > 0.9 * first["random"]
    assert first["ucb 1 ms"] < 1.5 * first["recommended"] and unlucky["ucb 1 ms"] > 3 * unlucky["recommended"]
    assert first["ucb 1 s"] > 0.9 * first["tsallis-inf 1 s"]
    assert first["ucb 100 ms"] < 1.1 * first["recommended"]
    assert min(second, key=lambda name: second[name]) == "tsallis-inf 100 ms"
    assert min(third, key=lambda name: third[name]) == "ucb scaled"
    assert abs(third["exp3 100 ms"] - third["recommended"]) < 10.0
    assert min(fourth["exp3 100 ms"], fourth["tsallis-inf 100 ms"]) > 0.5 * fourth["random"]
    less = {name for name in fourth if name.startswith("ucb") and fourth[name] < fourth["recommended"]}
    assert less == {"ucb 100 ms", "ucb scaled"}
    for policy in ("exp3", "tsallis-inf"):
        guesses = {name: regret for name, regret in fifth.items() if name.startswith(policy)}
        assert min(guesses, key=lambda name: guesses[name]) == f"{policy} 100 ms"
        assert guesses[f"{policy} 100 ms"] < 0.5 * fifth["random"]
    assert {name for name in fifth if fifth[name] < fifth["recommended"]} == {"umab-r", "ucb 100 ms", "ucb scaled"}
    assert min(fifth, key=lambda name: fifth[name]) == "umab-r"  # the README says so, too
    assert (
        abs(first["umab-r"] - first["recommended"]) < 2.0 and f"{second['umab-r'] / second['recommended']:.1f}" == "2.6"
    )
    assert unlucky["umab-r"] > 3 * unlucky["recommended"]
    assert fifth["recommended"] < 0.0 < fifth["ucb 1 ms"]
    # The README says so.
    assert [f"{each['ucb scaled'] / each['recommended']:.1f}" for each in (first, second)] == ["1.9", "2.6"]
    for policy in ("exp3", "tsallis-inf"):
        worst = [max(ranges_of(policy), key=lambda name: each[name]) for each in (first, second, third, fourth)]
        assert [name == f"{policy} 100 ms" for name in worst] == [True, False, False, True]
    shares = results["shares"]
    assert (
        shares["recommended"]["before"] > 0.8 and shares["recommended"]["after"] < 0.5 < shares["ucb scaled"]["after"]
    )
    assert max(shares[f"{policy} 100 ms"]["before"] for policy in ("exp3", "tsallis-inf")) < 0.25
    assert results["stories"]["returns"]["regret"]["ucb 1 ms"]["unlucky"] > 100.0


def test_the_page_follows_the_numbers(results: Any) -> None:
    changed = copy.deepcopy(results)
    changed["stories"]["alike"]["regret"]["ahb"] = {"mean": 123.4, "se": 5.6, "unlucky": 150.0}
    assert "| 123.4 ± 5.6 |" in latencies.text(changed) and "| 123.4 ± 5.6 |" not in latencies.text(results)


def test_every_line_of_the_figure_has_its_label_on_white(results: Any) -> None:
    drawing = (DOCS / latencies.FIGURE).read_text()
    assert 'fill="white"' in drawing
    for line in latencies.LINES.values():
        assert drawing.count(f">{line.label}<") == 2, line.label  # in both panels
        assert line.style.colour in drawing


def test_the_bands_are_one_standard_deviation(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    panel = latencies._panel

    def kept(title: str, values: Any, *ends: float) -> Any:
        drawn.append(values)
        return panel(title, values, *ends)

    monkeypatch.setattr(latencies, "_panel", kept)
    assert "bands are one standard deviation<" in latencies.figure(results)
    for line, curve in zip(drawn[0], results["curves"].values(), strict=True):
        np.testing.assert_allclose(line["high"] - line["mean"], np.array(curve["se"]) * results["n_tables"] ** 0.5)
    for name in (latencies.PAGE, latencies.FIGURE):
        assert "are one standard deviation" in (DOCS / name).read_text()


def test_the_figure_marks_the_outage(results: Any) -> None:
    assert latencies.outages(latencies.STORIES["returns"]) == [(6000, 6500)]
    assert latencies.outages(latencies.STORIES["outage"]) == [(5000, 10_000)]
    assert latencies.outages(latencies.STORIES["moving"]) == []
    assert (DOCS / latencies.FIGURE).read_text().count(">the best one is down<") == 2
    assert latencies.figure(results).count(">the best one is down<") == 2


def test_a_table_has_its_medians_and_its_stalls() -> None:
    story = latencies.STORIES["moving"]
    losses = latencies.table(story, 3)
    assert np.array_equal(losses, latencies.table(story, 3)) and not np.array_equal(losses, latencies.table(story, 4))
    assert np.abs(np.median(losses, axis=0) / latencies.MEDIANS - 1.0).max() < 0.05
    stalled = losses > 1000.0
    for phase, shares in zip((stalled[:5000], stalled[5000:]), story.stalls, strict=True):
        assert np.abs(phase.mean(axis=0) - shares).max() < 0.006


def test_losses_beyond_a_guess_are_clipped_and_others_are_not() -> None:
    losses = latencies.table(latencies.STORIES[latencies.SHOWN], 0, 300)
    clipped = np.minimum(losses, 100.0)
    guessed, free = (latencies.contenders()[name].play for name in ("exp3 100 ms", "recommended"))
    assert losses.max() > 1000.0
    assert np.array_equal(guessed(losses, 1), guessed(clipped, 1))
    assert not np.array_equal(free(losses, 1), free(clipped, 1))


def test_a_small_run_is_written(tmp_path: Path) -> None:
    latencies.write(tmp_path, n_tables=2, n_rounds=40)
    results = json.loads((tmp_path / latencies.NUMBERS).read_text())
    assert results["rounds"][-1] == 40
    assert (tmp_path / latencies.PAGE).read_text() == latencies.text(results)
    assert (tmp_path / latencies.FIGURE).read_text() == latencies.figure(results)
