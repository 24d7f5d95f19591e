"""The service group of the suite: its worlds, the yardsticks, the contest, and its report."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from umab import cli
from umab.datasets.service_worlds import HORIZONS, ServiceEntry
from umab.datasets.suite_tables import entries, suite
from umab.research.experiments import serving
from umab.research.experiments.contest import seed_of_part
from umab.research.experiments.serving import POLICIES, Served, Standing, serve
from umab.research.experiments.yardsticks import _RULES, YARDSTICKS, cost
from umab.research.report import service_page, shell

WORLDS = entries(group="service")
DOCS = Path(__file__).parent.parent / "docs"
PAGE, NUMBERS = DOCS / "suite-service.md", DOCS / "suite-service.json"


def world(name: str) -> ServiceEntry:
    return next(each for each in WORLDS if each.name == name)


# The worlds.


def test_half_of_the_worlds_are_for_development() -> None:
    halves = {half: [each for each in WORLDS if each.half == half] for half in ("development", "validation")}
    assert len(WORLDS) >= 16 and len(halves["development"]) == len(halves["validation"])
    others = {each.name for group in ("general", "changing", "heavy") for each in entries(group=group)}
    assert len({each.name for each in WORLDS}) == len(WORLDS) and not others & {each.name for each in WORLDS}
    kinds = [{each.kind for each in half} for half in halves.values()]
    assert len(kinds[0] & kinds[1]) >= 8 and kinds[0] - kinds[1] and kinds[1] - kinds[0]


@pytest.mark.parametrize("entry", WORLDS, ids=lambda entry: entry.name)
def test_a_world_is_drawn_anew_for_each_seed_and_horizon(entry: ServiceEntry) -> None:
    for n_rounds in HORIZONS[:2]:
        first, again, other = (entry.draw(n_rounds, seed) for seed in (3, 3, 4))
        assert first.table.shape == first.means.shape == (n_rounds, entry.n_arms)
        assert np.isfinite(first.table).all() and np.isfinite(first.means).all()
        assert (first.table == again.table).all() and not (first.table == other.table).all()
    short = entry.draw(500, 3).table
    assert short.shape == (500, entry.n_arms) and not (short == first.table[:500]).all()
    assert suite(group="service", names=[entry.name], seed=5)[entry.name].table.shape == (10_000, entry.n_arms)


@pytest.mark.parametrize("entry", WORLDS, ids=lambda entry: entry.name)
def test_the_means_are_those_of_the_losses(entry: ServiceEntry) -> None:
    """Over many tables, the losses minus their means are zero on average, within 5 standard errors."""
    off = []
    for seed in range(60):
        drawn = entry.draw(600, seed)
        off.append((drawn.table - drawn.means).mean(axis=0))
    assert (np.abs(np.mean(off, axis=0)) <= 5.0 * np.std(off, axis=0, ddof=1) / math.sqrt(60)).all()


def test_what_happens_in_an_outage() -> None:
    """The best arm is forty times as slow for a while, and as before afterwards."""
    for seed in range(5):
        means = world("one-outage").draw(10_000, seed).means
        arm = int(means[0].argmin())
        failing = means[:, arm] > 10.0 * means[0, arm]
        assert 500 <= failing.sum() <= 1500 and (np.diff(failing.astype(int)) != 0).sum() == 2
        assert means[-1, arm] == means[0, arm] and means[failing, arm] == pytest.approx(40.0 * means[0, arm])
        assert (world("failed-for-good").draw(10_000, seed).means[-1] > 0.0).all()


# The yardsticks.


def ucb_by_hand(losses: Any) -> float:
    """Standardised UCB as the specification says it, with means and deviations computed anew in every round."""
    n_rounds, n_arms = losses.shape
    seen: list[list[float]] = [[] for _ in range(n_arms)]
    drawn: list[float] = []
    for t in range(1, n_rounds + 1):
        arm = t - 1
        if t > n_arms:
            s = float(np.std(drawn))
            arm = min(range(n_arms), key=lambda k: np.mean(seen[k]) / s - math.sqrt(2.0 * math.log(t) / len(seen[k])))
        seen[arm].append(losses[t - 1, arm])
        drawn.append(losses[t - 1, arm])
    return sum(drawn)


def test_standardised_ucb_is_the_rule_of_its_formula() -> None:
    for seed in range(3):
        losses = world("stalls").draw(300, seed).table
        assert cost("UCB, standardised", losses, [seed]) == pytest.approx(ucb_by_hand(losses), rel=1e-9)


@pytest.mark.parametrize("name", YARDSTICKS)
def test_a_yardstick_is_compiled_as_it_is_written_and_learns(name: str) -> None:
    losses = world("plans").draw(400, 1).table
    rule, *values = _RULES[name]
    assert cost(name, losses, [7]) == pytest.approx(rule(losses, np.random.default_rng([7]), *values), rel=1e-9)
    easy = np.random.default_rng(0).normal([0.0, 1.0, 1.0, 1.0], 0.2, (4000, 4))
    paid, at_random = cost(name, easy, [1]) - easy[:, 0].sum(), easy.mean(axis=1).sum() - easy[:, 0].sum()
    # Two choices at random, both of them not the best: half of the rounds, which are ⅔ of the regret at random.
    assert paid < (0.7 if name == "power of two choices" else 0.35) * at_random


def test_greedy_follows_a_change_as_fast_as_its_rate_says() -> None:
    losses = np.ones((4000, 2))
    losses[:2000, 0], losses[2000:, 0] = 0.0, 2.0
    for rate in (0.01, 0.05):
        n_late = math.log(0.5) / math.log(1.0 - rate)  # until the moving mean of arm 0 is above 1
        right = 4000 * 0.05 / 2 + 2000 + n_late
        assert cost(f"ε-greedy, moving mean {rate}", losses, [0]) == pytest.approx(right, abs=25)
    assert cost("ε-greedy 0.1", losses, [0]) > 3900  # the mean of all its losses is above 1 only at the end


# The contest.


def made_up() -> Served:
    costs = {"a": np.array([1.0, 5.0]), **dict.fromkeys(YARDSTICKS, np.array([2.0, 6.0]))}
    best = {"arm": np.array([2.0, 3.0]), "moment": np.array([0.0, 1.0])}
    return Served(WORLDS[0], 10, costs, np.array([4.0, 6.0]), best)  # type: ignore[arg-type]


def test_a_score_is_a_quotient_of_means_without_a_floor() -> None:
    served = made_up()
    assert served.score("a").value == pytest.approx(((1 - 2) + (5 - 3)) / ((4 - 2) + (6 - 3)))
    assert served.score("a", "moment").value == pytest.approx((1 + 4) / (4 + 5))
    below = Served(WORLDS[0], 10, {"a": np.array([-9.0, 0.0])}, served.at_random, served.best)
    assert below.score("a").value == pytest.approx((-11 - 3) / 5)
    standing = Standing("development", 10, (served,), ("a",))
    assert standing.mean("a").value == served.score("a").value
    above, where = standing.excess("a")
    assert above == pytest.approx(0.2 - 0.6) and where == WORLDS[0].name


def test_every_trial_has_a_table_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "entries", lambda *_, **__: [world("flapping")])
    (standing,) = serve(["development"], ["umab-s"], horizons=[300], n_trials=2, seed=5, data_seed=3)
    (found,) = standing.worlds
    assert standing.names == (*POLICIES, "umab-s", *YARDSTICKS)
    for trial in range(2):
        table, means = world("flapping").draw(300, 3 * 2 + trial)
        seed = seed_of_part(5, trial)
        right = umab.simulate("umab-w", table, n_trials=1, seed=seed).final_regret[0] + table.sum(axis=0).min()
        assert found.costs["umab-w"][trial] == pytest.approx(right, rel=1e-12)
        assert found.costs["ε-greedy 0.1"][trial] == cost("ε-greedy 0.1", table, [seed, *"ε-greedy 0.1".encode()])
        assert found.at_random[trial] == pytest.approx(table.mean() * 300, rel=1e-12)
        assert found.best["moment"][trial] == pytest.approx(table[range(300), means.argmin(axis=1)].sum(), rel=1e-12)


# The report.


def test_the_command_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "entries", lambda half, **_: [e for e in entries(half, group="service")][:2])
    monkeypatch.setattr(serving, "HORIZONS", (200, 400))
    out = tmp_path / "service"
    assert (
        cli.main(["suite", "--group", "service", "--trials", "2", "--policy", "umab-s:rate=9", "--out", str(out)]) == 0
    )
    printed = capsys.readouterr().out
    for text in ("development half", "validation half", "umab-s:rate=9", "GLR-klUCB", "400 rounds"):
        assert text in printed
    numbers = json.loads((out / "results.json").read_text())
    assert set(numbers["halves"]["development"]["400"]["worlds"]) == {each.name for each in WORLDS[:3:2]}
    page, markdown = (out / "index.html").read_text(), (out / "page.md").read_text()
    for text in (page, markdown):
        assert "stalls-at-all-again" in text and "umab-s:rate=9" in text and "power of two choices" in text
    assert (out / "figures" / "service-validation.svg").exists()
    assert cli.main(["suite", "--group", "service", "--trials", "2", "--device", "gpu"]) != 0
    assert "runs on the processor, but got --device gpu" in capsys.readouterr().err


def test_the_page_in_docs_is_made_from_the_numbers_beside_it() -> None:
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    made = shell.markdown("service.md", service_page.content_of(numbers, "umab suite --group service --trials 20"))
    assert made.replace("(figures/", "(suite-") == PAGE.read_text(encoding="utf-8")
    assert (numbers["n_trials"], numbers["seed"], numbers["data_seed"]) == (20, 0, 0)
    for half, found in numbers["halves"].items():
        assert list(found) == [str(horizon) for horizon in HORIZONS]
        for standing in found.values():
            assert list(standing["worlds"]) == [each.name for each in WORLDS if each.half == half]
            assert set(standing["policies"]) == {*POLICIES, *YARDSTICKS}
        assert (DOCS / f"suite-service-{half}.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("name", ["canary", "quota-steps"])
def test_the_numbers_in_docs_are_those_of_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One world in each half, at the shortest horizon; rounding may differ between machines."""
    monkeypatch.setattr(serving, "entries", lambda *_, **__: [world(name)])
    (standing,) = serve([world(name).half], horizons=HORIZONS[:1], n_trials=20)
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))["halves"][world(name).half][str(HORIZONS[0])]
    right = numbers["worlds"][name]["scores"]
    assert {each: standing.worlds[0].score(each).value for each in standing.names} == pytest.approx(
        {each: right[each]["value"] for each in standing.names}, rel=1e-6
    )
