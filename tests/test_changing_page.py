"""What is measured on the page about a world that changes: it is what the numbers beside it come to."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages import changing, returning
from umab.research.experiments.contest import RECOMMENDED, STEADY

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def results() -> Any:
    return json.loads((DOCS / changing.NUMBERS).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def suite() -> Any:
    return json.loads((DOCS / changing.SUITE).read_text(encoding="utf-8"))


def test_the_page_has_what_the_numbers_beside_it_come_to(results: Any, suite: Any) -> None:
    page = (DOCS / changing.PAGE).read_text(encoding="utf-8")
    assert page == changing.filled(page, changing.text(results, suite))
    assert [each["n_before"] for each in results["failures"][:: 2 * len(changing.SLOWER)]] == list(changing.BEFORE)


def test_what_the_page_is_for(results: Any, suite: Any) -> None:
    """The recommended policy leaves an arm that fails at once, however long it was good, and whatever it costs then."""
    found = {(each["n_before"], each["slower"], each["policy"]): each["n_requests"] for each in results["failures"]}
    assert all(n <= 2 * changing.LATEST for (_, _, policy), n in found.items() if policy == RECOMMENDED)
    assert changing.unnoticed(results) == [] and found[1_000_000, "100 ms", STEADY] > 100_000
    losses = {name: each["mean"] for name, each in results["mean_losses"].items()}
    assert losses["oracle"] < losses[RECOMMENDED] < 0.5 * losses[STEADY] < losses["uniform"]
    assert suite["recommended_by_rule"] == RECOMMENDED and suite["n_trials"] == 200 and suite["data_seed"] == 0


def test_what_the_page_says_about_returning_is_so(results: Any) -> None:
    found = results["returning"]
    ours, pausing, sharing = changing.FOLLOWERS
    assert returning.missed(found, pausing) == []
    for each in found["returns"]:
        if each["policy"] == sharing:
            assert each["n_back"] == found["n_runs"] == returning.N_RUNS
    lost = [each for each in found["returns"] if each["policy"] == ours and each["n_back"] < 0.99 * found["n_runs"]]
    assert {each["times"] for each in lost} == {100, 1_000} and len(returning.missed(found, ours)) >= len(lost)


def test_when_a_policy_has_come_back_by_hand() -> None:
    """Of the latest 50 requests, 40 must go to the upstream; requests before the end of the outage do not count."""
    arms = np.ones(200, dtype=int)
    assert returning.requests_until_back(arms, 100) == math.inf
    arms[130:] = 0
    assert returning.requests_until_back(arms, 100) == 30 + returning.BACK
    arms[50:] = 0
    assert returning.requests_until_back(arms, 100) == returning.OF_LATEST
    arms[150::4] = 1
    assert returning.requests_until_back(arms, 150) == math.inf


@pytest.mark.parametrize(
    ("n_back", "n_requests", "length", "met"),
    [(99, 600, 500, True), (98, 600, 500, False), (100, 601, 500, False), (100, 150, 50, True), (40, None, 50, False)],
)
def test_the_goal_is_99_of_100_within_the_length_and_100_more(
    n_back: int, n_requests: int | None, length: int, met: bool
) -> None:
    each = {"n_before": 1_000, "times": 10, "policy": "x", "n_back": n_back, "n_requests": n_requests, "length": length}
    assert returning.comes_back(each, 100) == met
    assert len(returning.missed({"returns": [each], "n_runs": 100}, "x")) == (not met)
    assert returning.missed({"returns": [each], "n_runs": 100}, "y") == []


def test_the_outages_are_what_the_page_says() -> None:
    medians = returning.outage(1_000, 500, 100.0, 3_000)
    table = returning.latencies(medians, 7)
    assert len(table) == 4_500 and (table != returning.latencies(medians, 8)).all()
    assert np.median(table[1_000:1_500, 0]) == pytest.approx(1_000.0, rel=0.15)
    for part in (table[:1_000], table[1_500:]):
        assert np.abs(np.median(part, axis=0) / returning.MEDIANS - 1.0).max() < 0.1


def test_the_scenes_are_what_the_page_says() -> None:
    scenes = returning.scenes()
    counted = {name: scene.best[scene.first :] for name, scene in scenes.items()}
    assert np.bincount(counted["flapping"]).tolist() == [9_000, 1_000]
    starts = np.flatnonzero(np.diff(counted["flapping"]) == 1)
    assert len(starts) == 19 and set(np.diff(starts)) == {500}  # the first failure begins with what counts
    assert (
        np.bincount(counted["by turns"]).tolist() == [5_000, 5_000] and (np.diff(counted["by turns"]) != 0).sum() == 19
    )
    assert (counted["slower"] == 0).all() and (counted["too slow"] == 1).all()
    for scene in scenes.values():
        assert (scene.best[: returning.START] == 0).all()
    for name in ("slower", "too slow"):
        assert len(counted[name]) == 5_000 and scenes[name].medians[returning.START, 0] == 1_000.0


def test_what_a_run_of_outages_measures() -> None:
    """Choosing at random never comes back, and takes the best upstream for a quarter of the requests."""
    found = returning.measure(["uniform", RECOMMENDED], 2, 300)
    assert [each["n_back"] for each in found["returns"] if each["policy"] == "uniform"] == [0] * 18
    ours = [each for each in found["returns"] if each["policy"] == RECOMMENDED and each["times"] == 10]
    assert any(each["n_back"] == 2 and each["n_requests"] <= 300 for each in ours)
    for name, scene in returning.scenes().items():
        numbers = found["scenes"][name]
        assert numbers["shares"]["uniform"]["mean"] == pytest.approx(0.25, abs=0.03)
        expected = scene.medians[scene.first :].mean() * math.exp(0.5 * returning.SPREAD**2)
        assert numbers["latencies"]["uniform"]["mean"] == pytest.approx(expected, rel=0.1)
        assert numbers["oracle"]["mean"] < numbers["latencies"][RECOMMENDED]["mean"] < expected
    text = returning.text(json.loads(json.dumps(found)))
    assert "uniform meets the goal in 0 of 18 cases" in text and "– (0) |" in text


def test_the_text_follows_the_numbers(results: Any, suite: Any) -> None:
    changed, other = copy.deepcopy(results), copy.deepcopy(suite)
    changed["failures"][0]["n_requests"] = 98765
    changed["failures"][1]["n_requests"] = None
    first = next(iter(other["halves"]["development"]["false_alarms"].values()))
    first |= {"n_alarmed": first["n_trials"], "moving": False}
    changed["returning"]["returns"][0] |= {"n_back": 100, "n_requests": 77}
    changed["failures"][-2:] = [each | {"n_requests": 50} for each in changed["failures"][-2:]]
    before, after = changing.text(results, suite), changing.text(changed, other)
    late = "1,000,000 requests with 100 ms"
    assert late in changing.unnoticed(changed) and late in after and late not in before
    assert "| 1,000 | 50 | 77 (100) ✓ |" in after and "| 77 (100)" not in before
    assert "| 10,000 | 98,765 | more than 10,000 |" in after and "98,765" not in before
    assert "100.0%" in after and "Above the bound: " in after


def test_text_is_put_between_the_marks() -> None:
    page = f"# Title\n\n{changing.BEGIN}old\n{changing.END}\nafter\n"
    once = changing.filled(page, "new\n")
    assert once == f"# Title\n\n{changing.BEGIN}\nnew\n\n{changing.END}\nafter\n"
    assert changing.filled(once, "new\n") == once
    for bad in ("no marks\n", f"{changing.BEGIN}no end\n"):
        with pytest.raises(ValueError, match="measured"):
            changing.filled(bad, "new\n")


def test_when_a_failed_arm_is_left_by_hand() -> None:
    """With 20 latest requests, it takes 11 to others until fewer than half go to it."""
    arms = np.zeros(100, dtype=int)
    assert changing.requests_until_left(arms, 50) == math.inf
    arms[50:] = 1
    assert changing.requests_until_left(arms, 50) == 11
    arms[53:60] = 0
    assert changing.requests_until_left(arms, 50) == 18


def test_the_tables_are_what_the_page_says() -> None:
    table = changing.failing(4000, 100.0)
    assert np.abs(np.median(table[:4000], axis=0) / returning.MEDIANS - 1.0).max() < 0.05
    assert np.abs(np.median(table[4000:], axis=0) / (1000.0, *returning.MEDIANS[1:]) - 1.0).max() < 0.05
    parts = changing.taking_turns().reshape(changing.N_SEGMENTS, changing.SEGMENT, changing.N_ARMS)
    best = parts.mean(axis=1).argmin(axis=1)
    assert best.tolist() == [at % changing.N_ARMS for at in range(changing.N_SEGMENTS)]
    wave = changing.daily()
    assert np.ptp(wave.mean(axis=1)) == pytest.approx(2 * changing.WAVE, rel=0.1)
    assert np.abs(np.diff(wave.mean(axis=0)) - changing.GAP).max() < 0.05


def test_a_small_run_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "N_TRIALS", 3)
    monkeypatch.setattr(returning, "N_RUNS", 2)
    monkeypatch.setattr(returning, "AFTER", 100)
    (tmp_path / changing.SUITE).write_bytes((DOCS / changing.SUITE).read_bytes())
    (tmp_path / changing.PAGE).write_text(f"# A page\n\n{changing.BEGIN}{changing.END}")
    changing.write(tmp_path, (100,))
    assert len(json.loads((tmp_path / changing.NUMBERS).read_text())["failures"]) == 2 * len(changing.SLOWER)
    page = (tmp_path / changing.PAGE).read_text(encoding="utf-8")
    assert page.startswith("# A page") and page.endswith(changing.END) and "### How rare false alarms are" in page
