"""The page on what late feedback costs: it is what the numbers beside it come to, and the pool is what it says."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages.pool import play_pool

import umab
from pages import delays, late, orders
from umab.engine.delays import Delays
from umab.engine.interpreted import select
from umab.engine.streams import stream
from umab.maths.simplex import draw
from umab.research.experiments.contest import RECOMMENDED, STEADY, seed_of_part

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def results() -> Any:
    return json.loads((DOCS / delays.NUMBERS).read_text())


def test_the_pages_are_those_of_the_numbers_beside_them(results: Any) -> None:
    assert (DOCS / delays.PAGE).read_text() == delays.text(results)
    page = (DOCS / delays.ADVICE).read_text()
    assert page == delays.advice(page, results)
    assert results["n_trials"] == late.N_TRIALS and tuple(results["shares"]) == late.SHARES


def test_the_bands_are_one_standard_deviation(results: Any) -> None:
    panel = delays._panel(results, ["ahb"], "steady", "constant", (0.05, 1.0))
    for value, number in zip(panel["data"]["values"], results["scores"]["steady"]["constant"]["ahb"], strict=True):
        assert value["high"] - value["score"] == pytest.approx(number["se"] * results["n_trials"] ** 0.5)
    assert f"means over {results['n_trials']} trials; the bands are one standard deviation." in delays.text(results)


def test_what_the_page_says_in_words_is_so(results: Any) -> None:
    """What the text says without a number from the run; a run that comes out otherwise needs other words."""
    scores = results["scores"]
    for found in scores["steady"].values():
        for at in range(1, len(results["shares"])):
            assert found[late.POOL][at]["mean"] > found[STEADY][at]["mean"]  # a pool does not help if nothing changes
    bursts, usual = late.WITHOUT["bursts"], RECOMMENDED
    still, hidden = scores["steady"]["constant"], scores["hidden-often"]["constant"]
    for at in range(1, len(results["shares"])):  # bursts cost something if nothing changes, and find hidden changes
        assert still[bursts][at]["mean"] + 4 * still[bursts][at]["se"] < still[usual][at]["mean"]
        assert hidden[bursts][at]["mean"] > hidden[usual][at]["mean"] + 4 * hidden[usual][at]["se"]
    kept = late.WITHOUT["trials: restarts are kept"]
    for group in late.GROUPS:  # that trials undo restarts matters little
        ends = (scores[group]["constant"][name][-1]["mean"] for name in (kept, usual))
        assert 0.9 < next(ends) / next(ends) < 1.05
    for id in late.GROUPS:  # the policy that is said to be the one to take is so in most cells
        found = delays.verdict(results, id)
        assert 2 * found.n_least > found.n_cells


def test_orders_come_soon_and_zeros_after_the_wait() -> None:
    losses = orders.shop(3)
    assert losses.shape == (orders.N_ROUNDS, 4) and not (losses == orders.shop(4)).all()
    bought = (losses < 0.0).mean(axis=0)
    assert np.abs(bought / orders.SHARES_OF_BUYERS - 1.0).max() < 0.15
    assert -losses[losses < 0.0].mean() == pytest.approx(orders.WORTH, rel=0.1) and losses.max() == 0.0
    for soon in orders.SOON.values():
        given = orders.delays_of(losses, 500, soon, 3)
        assert (given[losses == 0.0] == 500).all() and given.max() == 500 and given.min() == 0
        assert given[losses < 0.0].mean() == pytest.approx(500 * soon, rel=0.05)


def test_the_gain_is_compared_with_that_in_the_order_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "WAITS", (500,))
    monkeypatch.setattr(orders, "N_ROUNDS", 3_000)
    found = orders.measure(["uniform", "centred(umab-s)"], n_trials=3)["cells"]
    assert [(each["policy"], each["when"]) for each in found] == [
        (name, when) for when in orders.SOON for name in ("uniform", "centred(umab-s)")
    ]
    gains = np.zeros((3, 3))
    possible = 0.0
    for trial in range(3):
        losses = orders.shop(trial)
        at_random = losses.mean(axis=1).sum() - losses.sum(axis=0).min()
        possible += at_random
        for at, given in enumerate((orders.delays_of(losses, 500, 0.0, trial), np.full(losses.shape, 500), None)):
            run = umab.simulate(
                "centred(umab-s)", losses, n_trials=1, seed=seed_of_part(0, trial), expected=True, delays=given
            )
            gains[at, trial] = at_random - run.final_regret[0]
    late_, in_order, prompt = gains.sum(axis=1)
    assert found[0]["gain"]["value"] == pytest.approx(0.0, abs=1e-9)  # that is choosing at random
    assert found[1]["gain"]["value"] == pytest.approx(late_ / possible)
    assert found[1]["in_order"]["value"] == pytest.approx(in_order / possible)
    assert found[1]["prompt"]["value"] == pytest.approx(prompt / possible)
    assert found[1]["ratio"]["value"] == pytest.approx(late_ / in_order) and found[1]["ratio"]["se"] > 0.0


def test_the_ratios_on_the_tables_of_this_page(results: Any) -> None:
    scores = copy.deepcopy(results["scores"])
    found = orders.cells(scores, results["shares"], RECOMMENDED)
    assert found is not None and len(found) == 4 * (5 * 3 + 2)  # only two tables are of times
    scores["normal"]["constant"][RECOMMENDED][2] = {"mean": 0.5}
    scores["normal"]["heavy"][RECOMMENDED][2] = {"mean": 0.6}
    (each,) = [
        each
        for each in orders.cells(scores, results["shares"], RECOMMENDED) or []
        if (each.table, each.kind, each.share) == ("normal", "heavy", 0.02)
    ]
    assert each.ratio == pytest.approx(0.8)
    scores["normal"]["constant"][RECOMMENDED][2] = {"mean": 0.96}
    assert orders.cells(scores, results["shares"], RECOMMENDED) is None
    text = orders.text(results["orders"], scores, results["shares"])
    *_, without = text.partition("In the order of draws, `")
    assert f"`{RECOMMENDED}`" in f"`{without}" and f"| `{RECOMMENDED}` | " not in without


def test_the_recommended_policy_without_a_watch_meets_the_goal_in_the_shop(results: Any) -> None:
    """What docs/faq.md advises where orders come soon and zeros after a wait."""
    steady = [each for each in results["orders"]["cells"] if each["policy"] == STEADY]
    assert len(steady) == len(orders.WAITS) * len(orders.SOON)
    assert all(each["ratio"]["value"] >= orders.GOAL for each in steady)


def test_other_policies_are_measured_alone() -> None:
    world = late.worlds()["latencies"]
    short = {"latencies": world._replace(losses=umab.Losses.of(world.losses.table[:60]))}
    played = late.measure(2, (0.0, 0.1), short, ["uniform"])
    assert {name for found in played["scores"]["latencies"].values() for name in found} == {"uniform"}
    assert list(played["scores"]["latencies"]) == list(late.KINDS)


def test_the_page_follows_the_numbers(results: Any) -> None:
    changed = copy.deepcopy(results)
    better = {"mean": 0.0123, "se": 0.0002, "times": 1.0, "times_se": 0.0}
    changed["scores"]["steady"]["geometric"]["ahb"][-1] = better
    text = delays.text(changed)
    assert "| 0.01230 ± 0.00020 |" in text and "`ahb`, delay geometric, 10 %: 0.012 against" in text
    assert delays.verdict(changed, "steady").n_least == delays.verdict(results, "steady").n_least - 1
    for by_kind in (changed["scores"][table] for table in late.GROUPS["steady"][1]):
        for found in by_kind.values():
            found["ahb"][-1] = better
    assert delays.said_of(changed, "ahb") == "low cost"
    assert delays.said_of(changed, "centred(umab-s)") == "proved, high cost"
    assert delays.said_of(changed, "scb-d") == "proved, high cost"
    assert delays.said_of(changed, "htinf") == "not measured" and delays.said_of(changed, "umab-w") == "high cost"
    row = "| any | unknown | unknown | none | {} | the same | `ahb` |"
    assert delays.advice(row.format("?"), changed) == row.format("low cost")


def test_lengths_are_the_means_of_delays() -> None:
    worlds = late.worlds()
    for id, mean_of_all in (("geometric", True), ("heavy", True), ("run times", True), ("hiding", False)):
        world = worlds["latencies"]
        given = Delays.of(late.KINDS[id].delays(world, 100), 5000, 5).of_trials(0, range(40), 5000)
        if mean_of_all:
            assert abs(given.mean() / 100 - 1) < (0.1 if id == "heavy" else 0.02), id  # heavy tails are cut off
        else:
            best = worlds["two-changes"].best
            hidden = late.hiding(worlds["two-changes"], 100)
            assert (
                set(np.unique(hidden)) == {0, 100}
                and (hidden == 0).sum() == 5000 == (hidden[range(5000), best] == 0).sum()
            )
    starts = worlds["two-changes"].starts
    assert np.flatnonzero(np.diff(worlds["two-changes"].best)).tolist() == [start - 1 for start in starts[1:]]


def test_a_policy_that_refuses_a_table_is_left_out_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late, "POLICIES", ("ahb", "umab-nn", "tsallis-inf"))
    worlds = late.worlds()
    assert list(late.players(worlds["latencies"])) == ["ahb", "umab-nn", "tsallis-inf"]
    ranged = late.players(worlds["normal"])
    assert list(ranged) == ["ahb", "tsallis-inf"]
    assert ranged["tsallis-inf"].loss_range == (
        worlds["normal"].losses.table.min(),
        worlds["normal"].losses.table.max(),
    )
    assert not delays.may_be_taken("tsallis-inf") and delays.may_be_taken("ahb")


def test_the_error_of_a_ratio_is_that_of_pairs() -> None:
    """Trials that are all twice as large have a ratio of 2 without an error."""
    prompt = np.random.default_rng(0).random(50)
    _, twice = late._numbers(np.array([prompt, 2 * prompt]))
    assert twice["times"] == pytest.approx(2.0) and twice["times_se"] == pytest.approx(0.0, abs=1e-15)
    delayed = np.random.default_rng(1).random((400, 50)) + 1.0
    prompts = np.random.default_rng(2).random((400, 50)) + 1.0
    found = [late._numbers(np.array(pair))[1] for pair in zip(prompts, delayed, strict=True)]
    spread = np.std([each["times"] for each in found])
    assert np.mean([each["times_se"] for each in found]) == pytest.approx(spread, rel=0.1)


def pool_in_plain_python(policy: umab.Policy, losses: Any, given: Any, n_copies: int, trial: int) -> list[int]:
    n_rounds, n_arms = losses.shape
    uniforms = np.random.Generator(stream(0, trial)).random(n_rounds).tolist()
    (own,) = Delays.of(given, n_rounds, n_arms).of_trials(0, range(trial, trial + 1), n_rounds)
    own = np.broadcast_to(own, losses.shape)
    parameters = policy.parameters_for(n_arms)
    states = [policy.init(n_arms) for _ in range(n_copies)]
    n_open = [0] * n_copies
    due: Any = defaultdict(list)
    arms = []
    for t in range(n_rounds):
        copy = n_open.index(min(n_open))
        p = states[copy].probabilities
        arm = draw(p, uniforms[t])
        probability = p[arm]
        states[copy], ticket = select(policy, parameters, states[copy], arm)
        arms.append(arm)
        n_open[copy] += 1
        due[t + int(own[t, arm])].append((copy, arm, float(losses[t, arm]), probability, ticket))
        for one, drawn, loss, of_draw, its_ticket in due.pop(t, []):
            states[one] = policy.update(parameters, states[one], drawn, loss, of_draw, *its_ticket)
            n_open[one] -= 1
    return arms


@pytest.mark.parametrize("name", ["centred(umab-s)", "scb-d"])
@pytest.mark.parametrize(
    "given", [0, 2, 40, np.arange(600).reshape(200, 3) % 23, lambda random, n: random.geometric(0.15, n)]
)
def test_the_pool_compiled_and_in_plain_python(name: str, given: Any) -> None:
    losses = np.random.default_rng(5).normal([0.0, 0.5, 1.0], 1.0, size=(200, 3))
    policy = umab.policy(name)
    _, arms = play_pool(policy, umab.Losses.of(losses), n_copies=4, delays=given, n_trials=3, seed=0)
    for trial in range(3):
        assert arms[trial].tolist() == pool_in_plain_python(policy, losses, given, 4, trial)


@pytest.mark.parametrize("n_copies", [1, 16])
def test_a_pool_that_never_waits_or_has_one_copy_is_its_policy(n_copies: int) -> None:
    losses = umab.Losses.of(np.random.default_rng(5).normal([0.0, 0.5, 1.0], 1.0, size=(300, 3)))
    given = 0 if n_copies > 1 else 7
    one, _ = play_pool(umab.policy("centred(umab-s)"), losses, n_copies=n_copies, delays=given, n_trials=40, seed=3)
    other = umab.simulate("centred(umab-s)", losses, n_trials=40, seed=3, expected=True, delays=given)
    assert one.tolist() == other.final_regret.tolist()


def test_a_small_run_is_written(tmp_path: Path) -> None:
    tables = {
        id: world._replace(
            losses=umab.Losses.of(world.losses.table[:60]), starts=[0, 30] if len(world.starts) > 1 else [0]
        )
        for id, world in late.worlds().items()
    }
    (tmp_path / delays.ADVICE).write_text("| any | unknown | unknown | none | ? | a bound | `scb-d` |\n")
    delays.write(tmp_path, n_trials=3, tables=tables)
    results = json.loads((tmp_path / delays.NUMBERS).read_text())
    assert (tmp_path / delays.PAGE).read_text() == delays.text(results)
    assert (tmp_path / delays.FIGURE).read_text() == delays.figure(results)
    row = f"| any | unknown | unknown | none | {delays.said_of(results, 'scb-d')} | a bound | `scb-d` |\n"
    assert (tmp_path / delays.ADVICE).read_text() == row and "proved, " in row
