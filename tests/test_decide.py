"""The rule by which a policy becomes the default: each part by hand, and a small run of all of it."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages.decide import Pair, Part, Scored

import umab
from pages import decide
from umab.datasets.suite_tables import entries
from umab.research.experiments.contest import RECOMMENDED, STEADY, Estimate, seed_of_part
from umab.research.experiments.serving import Served, Standing
from umab.research.experiments.tracking import track
from umab.research.experiments.yardsticks import YARDSTICKS

TABLES = ["stochastic", "equal", "tiny", "tempting", "two-changes"]
NAMES = ["candidate", "default"]


def pair(ours: list[float], default: list[float]) -> Pair:
    values = np.array([ours, default])
    return Pair([f"table {k}" for k in range(len(ours))], values, np.repeat(values[:, :, None], 7, axis=2))


def test_a_score_is_a_mean_over_a_mean_and_not_clipped() -> None:
    scored = Scored("x", {"candidate": np.array([1.0, -5.0]), "default": np.array([3.0, 9.0])}, np.array([2.0, 4.0]))
    level = Scored("equal", {name: np.zeros(2) for name in NAMES}, np.zeros(2))
    found = Pair.of([scored, level], NAMES)
    assert found.tables == ["x"] and np.allclose(found.values, [[-4.0 / 6.0], [12.0 / 6.0]], rtol=1e-12)
    assert set(np.round(found.resampled[0, 0], 9)) == {0.5, -0.666666667, -1.25}
    huge = Scored("x", {each: 1e300 * row for each, row in scored.regrets.items()}, 1e300 * scored.at_random)
    assert np.allclose(Pair.of([huge], NAMES).values, found.values)


@pytest.mark.parametrize(
    ("ours", "default", "mean", "worst", "where"),
    [
        ([0.30, 0.14], [0.20, 0.20], 0.02, 0.0, 0),  # both at their limits: 1.5 times the default's score
        ([0.31, 0.12], [0.20, 0.20], 0.015, 0.01, 0),
        ([0.10, 0.10], [0.04, 0.10], 0.03, 0.01, 0),  # below 0.1, 0.05 is more than half of the score
        ([0.00, -0.33], [0.00, -0.40], 0.035, 0.02, 1),  # and so it is below 0
        ([0.90, 0.20], [0.70, 0.40], 0.0, -0.15, 0),
    ],
)
def test_the_rule_for_scores(ours: list[float], default: list[float], mean: float, worst: float, where: int) -> None:
    first, second = pair(ours, default).parts("general")
    assert first.found.value == pytest.approx(mean) and second.found.value == pytest.approx(worst)
    assert second.where == f"table {where}" and (first.limit, second.limit) == (0.02, 0.0)


def test_the_rule_for_shares() -> None:
    """Shares are better if they are larger; their mean is arithmetic."""
    first, second = pair([0.9, 0.5], [0.8, 0.64]).parts_of_shares()
    assert first.found.value == pytest.approx(0.02) and second.found.value == pytest.approx(0.14)
    assert second.where == "table 1" and (first.limit, second.limit) == (0.02, 0.05) and not second.holds


def test_a_part_holds_up_to_its_limit() -> None:
    at = Part("g", "w", Estimate(0.02, 0.0), 0.02)
    assert at.holds and not at._replace(strict=True).holds
    assert not at._replace(found=Estimate(0.0201, 9.0)).holds and not at._replace(found=Estimate(math.nan, 0.0)).holds


def test_the_rule_for_services_is_against_the_yardstick_with_the_smallest_mean() -> None:
    def world(ours: float, *yardsticks: float) -> Served:
        costs = {"candidate": ours, **dict(zip(YARDSTICKS, (*yardsticks, *[1.0] * 7), strict=True))}
        (entry, *_) = entries("development", group="service")
        zeros = np.zeros(3)
        return Served(entry, 10, {name: np.full(3, cost) for name, cost in costs.items()}, zeros + 1.0, {"arm": zeros})

    standing = Standing("development", 10, (world(0.3, 0.1, 0.4), world(0.1, 0.5, 0.1)), ("candidate",))
    part = decide.part_of_service(standing, "candidate")  # the best of each world would be 0.1 on average
    assert part.where == YARDSTICKS[1] and part.found.value == pytest.approx(-0.05) and part.holds
    assert not part._replace(found=Estimate(0.0, 0.0)).holds


@pytest.fixture(scope="module")
def results() -> Any:
    return json.loads(json.dumps(decide.decide(STEADY, n_trials=4, horizons=[1_000], tables=TABLES)))


def test_what_a_small_run_measures(results: Any) -> None:
    assert results["halves"] == ["development"] and list(results["service"]) == ["1000"]
    assert list(results["service"]["1000"]["worlds"]) == [each.name for each in entries("development", group="service")]
    assert results["service"]["1000"]["n_trials"] == 8
    assert {group: list(found) for group, found in results["tables"].items()} == {
        "general": ["stochastic", "tiny"],
        "heavy": ["tempting"],
        "heavy by means": ["tempting"],
        "changing": ["two-changes"],
    }
    losses = umab.datasets.suite(names=["stochastic"])["stochastic"]
    at_random = losses.table.mean(axis=1).sum() - losses.table.sum(axis=0).min()
    runs = umab.simulate([STEADY, RECOMMENDED], losses, n_trials=4, seed=0, expected=True)
    for run, found in zip(runs, results["tables"]["general"]["stochastic"], strict=True):
        assert found["value"] == pytest.approx(run.mean[-1] / at_random, rel=1e-9)
    (entry,) = [each for each in entries("development", group="heavy") if each.name == "tempting"]
    over, below, known = 0.0, 0.0, 0.0
    for trial in range(4):
        losses = entry.losses(None, trial)
        (run,) = umab.simulate([STEADY], losses, n_trials=1, seed=seed_of_part(0, trial), expected=True, keep="arms")
        over += run.final_regret[0]
        below += losses.table.mean(axis=1).sum() - losses.table.sum(axis=0).min()
        known += run.regret_by_means(entry.means)[0]
    assert results["tables"]["heavy"]["tempting"][0]["value"] == pytest.approx(over / below, rel=1e-9)
    assert results["tables"]["heavy by means"]["tempting"][0]["value"] == pytest.approx(known / 4 / entry.at_random)
    (tracked,) = track(["development"], names=["two-changes"], ablations=False, n_trials=4)
    shares = [tracked.mean(name).value for name in (STEADY, RECOMMENDED)]
    assert [each["value"] for each in results["tables"]["changing"]["two-changes"]] == pytest.approx(shares)


def test_the_section_says_what_the_numbers_come_to(results: Any) -> None:
    assert len(results["parts"]) == 7 and not results["holds"]  # centred(umab-s) does not follow changes
    failed = [each for each in results["parts"] if not each["holds"]]
    text = decide.text(results)
    assert text.count("| **no** |") == len(failed) >= 2 and text.count("| yes |") == 7 - len(failed)
    assert f"**No**: {len(failed)} of the 7 parts of the rule do not hold." in text
    passed = copy.deepcopy(results) | {"holds": True}
    for each in passed["parts"]:
        each |= {"holds": True}
    assert "**Yes**.\n" in decide.text(passed)
    lines = [line for line in text.splitlines() if line.startswith(f"| **{STEADY}** |")]
    assert len(lines) == 1 and f"{results['service']['1000']['means'][STEADY]['value']:.3f} ± " in lines[0]


def test_the_default_is_no_candidate_and_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="another policy than the default"):
        decide.decide(RECOMMENDED)
    asked: dict[str, Any] = {}

    def decided(candidate: str, half: str, **options: Any) -> Any:
        asked.update(options, candidate=candidate, half=half)
        return results

    monkeypatch.setattr(decide, "decide", decided)
    decide.main([STEADY, str(tmp_path / "new"), "--half", "validation", "--data-seed", "7", "--trials", "50"])
    assert asked == {"candidate": STEADY, "half": "validation", "data_seed": 7, "n_trials": 50}
    assert json.loads((tmp_path / "new" / decide.NUMBERS).read_text(encoding="utf-8")) == results
    assert (tmp_path / "new" / decide.SECTION).read_text(encoding="utf-8") == decide.text(results)
    assert decide.text(results) in capsys.readouterr().out


def test_the_decision_itself_is_on_both_halves_of_the_other_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def noted(half: str, group: str = "general") -> list[Any]:
        asked.append((half, group))
        return []

    monkeypatch.setattr(decide, "entries", noted)

    def served(halves: list[str], *_: Any, **__: Any) -> list[Any]:
        asked.append((*halves, "service"))
        return []

    monkeypatch.setattr(decide, "serve", served)
    with pytest.raises(IndexError):  # nothing is there to be scored
        decide.decide(STEADY, "validation", n_trials=2)
    assert set(asked) >= {("validation", "service"), ("development", "general"), ("validation", "general")}
    assert ("development", "service") not in asked
