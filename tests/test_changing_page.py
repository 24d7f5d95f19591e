"""What is measured on the page about a world that changes: it is what the numbers beside it come to."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages import changing
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
    found = {(each["n_before"], each["slower"], each["policy"]): each for each in results["returns"]}
    ours, sharing = changing.FOLLOWERS
    for n_before in changing.OUTAGES:
        assert all(found[n_before, slower, sharing]["n_back"] == changing.N_TRIALS for slower in changing.SLOWER)
        assert found[n_before, "100 ms", ours]["n_back"] == changing.N_TRIALS  # ten times a usual loss
        assert found[n_before, "1 s", ours]["n_back"] < changing.N_TRIALS
        assert found[n_before, "10 s", ours]["n_back"] < 0.9 * changing.N_TRIALS


def test_a_return_is_measured() -> None:
    table = changing.failing(1000, 100.0, 500, 3000)
    assert len(table) == 4500 and np.median(table[1000:1500, 0]) > 500.0 and np.median(table[1500:, 0]) < 20.0
    arms = np.ones(200, dtype=int)
    assert changing.requests_until_back(arms, 100) == math.inf
    arms[130:] = 0
    assert changing.requests_until_back(arms, 100) == 30 + changing.BACK
    (one, *_) = changing.returns((1000,), 300)
    assert one.policy == RECOMMENDED and one.n_back <= changing.N_TRIALS


def test_the_text_follows_the_numbers(results: Any, suite: Any) -> None:
    changed, other = copy.deepcopy(results), copy.deepcopy(suite)
    changed["failures"][0]["n_requests"] = 98765
    changed["failures"][1]["n_requests"] = None
    first = next(iter(other["halves"]["development"]["false_alarms"].values()))
    first |= {"n_alarmed": first["n_trials"], "moving": False}
    changed["failures"][-2:] = [each | {"n_requests": 50} for each in changed["failures"][-2:]]
    before, after = changing.text(results, suite), changing.text(changed, other)
    late = "1,000,000 requests with 100 ms"
    assert late in changing.unnoticed(changed) and late in after and late not in before
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
    assert np.abs(np.median(table[:4000], axis=0) / changing.MEDIANS - 1.0).max() < 0.05
    assert np.abs(np.median(table[4000:], axis=0) / (1000.0, *changing.MEDIANS[1:]) - 1.0).max() < 0.05
    parts = changing.taking_turns().reshape(changing.N_SEGMENTS, changing.SEGMENT, changing.N_ARMS)
    best = parts.mean(axis=1).argmin(axis=1)
    assert best.tolist() == [at % changing.N_ARMS for at in range(changing.N_SEGMENTS)]
    wave = changing.daily()
    assert np.ptp(wave.mean(axis=1)) == pytest.approx(2 * changing.WAVE, rel=0.1)
    assert np.abs(np.diff(wave.mean(axis=0)) - changing.GAP).max() < 0.05


def test_a_small_run_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "N_TRIALS", 3)
    (tmp_path / changing.SUITE).write_bytes((DOCS / changing.SUITE).read_bytes())
    (tmp_path / changing.PAGE).write_text(f"# A page\n\n{changing.BEGIN}{changing.END}")
    changing.write(tmp_path, (100,))
    assert len(json.loads((tmp_path / changing.NUMBERS).read_text())["failures"]) == 2 * len(changing.SLOWER)
    page = (tmp_path / changing.PAGE).read_text(encoding="utf-8")
    assert page.startswith("# A page") and page.endswith(changing.END) and "### How rare false alarms are" in page
