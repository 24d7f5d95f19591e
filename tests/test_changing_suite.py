"""The changing group of the suite: its tables, the contest on them, and its report."""

from __future__ import annotations

import hashlib
import json
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from umab import cli
from umab._support.progress import Progress
from umab.datasets.changing_tables import ChangingEntry, Drawn, segments
from umab.datasets.suite_tables import Entry, entries, suite
from umab.research.experiments import tracking
from umab.research.experiments.alarms import MOST_FALSE_ALARMS, MOVING_TOGETHER, Alarms, count_alarms
from umab.research.experiments.contest import AT_RANDOM, RECOMMENDED, STEADY, Played, Standings, Trials
from umab.research.experiments.runner import Summary
from umab.research.experiments.tracking import (
    ABLATIONS,
    PERIODS,
    Shares,
    Tracked,
    best_period,
    by_rule,
    restarted_cost,
    restarts_of,
    share_wanted,
    smallest_cost,
    told,
    track,
)
from umab.research.report import changing_page
from umab.tables.losses import Losses

ENTRIES = entries(group="changing")
DRAWN = {each.name: each.drawn(0) for each in ENTRIES}
BY_NAME = {each.name: each for each in ENTRIES}


# The tables.


def test_every_kind_has_two_tables_that_differ_in_everything_else() -> None:
    development, validation = entries("development", group="changing"), entries("validation", group="changing")
    assert [each.kind for each in development] == [each.kind for each in validation]
    assert [each.name for each in development] == [each.kind for each in development]
    assert len({each.name for each in (*ENTRIES, *entries())}) == len(ENTRIES) + len(entries())
    assert {each.world for each in ENTRIES} == {"changing"}
    for one, other in zip(development, validation, strict=True):
        (rounds, arms), (more_rounds, more_arms) = (DRAWN[each.name].table.shape for each in (one, other))
        assert 3000 <= rounds < more_rounds <= 20000
        assert 2 <= arms <= more_arms <= 20 and (arms < more_arms or one.kind == "small-swaps")
        assert (one.by_period, one.about) == (other.by_period, other.about)
    assert {each.kind for each in ENTRIES if each.by_period} == {
        "drift",
        "mean-walks",
        "common-wave",
        "trend",
        "inflation",
    }


def test_the_suite_has_the_group_by_name() -> None:
    losses = suite("validation", group="changing", names=["turn-again"])["turn-again"]
    assert (losses.table == DRAWN["turn-again"].table).all() and losses.arms[0] == "arm 1"
    with pytest.raises(ValueError, match=r"a name must be one of 'two-changes'.*'stocks'"):
        suite(group="changing", names=["stocks"])
    with pytest.raises(ValueError, match=r"group must be one of 'general', 'changing'.*'both'"):
        suite(group="both")  # type: ignore[arg-type]


def test_the_changing_tables_are_always_the_same() -> None:
    content = hashlib.sha256()
    for name, drawn in DRAWN.items():
        sums = [f"{value:.9e}" for value in drawn.table.sum(axis=0)]
        content.update(f"{name} {BY_NAME[name].half} {BY_NAME[name].starts(0)} {sums}".encode())
    assert content.hexdigest() == "0d911808796443567d156b31b4e649d86c6378d206fd61b2e5bbd91ecff5dabd"


def test_with_another_seed_losses_and_changes_are_drawn_anew() -> None:
    for each in ENTRIES:
        other = each.drawn(1)
        assert other.table.shape == DRAWN[each.name].table.shape and (other.table != DRAWN[each.name].table).any()
        starts, others = each.starts(0), each.starts(1)
        assert starts != others or each.kind == "trend"
        assert len(starts) == len(others) or each.kind in ("drift", "mean-walks")


CHANGES = {
    "two-changes": 2,
    "six-changes": 6,
    "many-changes": 25,
    "turn": 1,
    "hidden": 1,
    "common-wave": 1,
    "trend": 0,
    "inflation": 2,
    "coin-changes": 6,
}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
@pytest.mark.parametrize("seed", [0, 3])
def test_in_each_segment_one_arm_is_the_best_by_its_mean(entry: ChangingEntry, seed: int) -> None:
    """And where the law changes at points, it does so at the starts and nowhere else."""
    means, table = entry.drawn(seed)
    starts = entry.starts(seed)
    parts = np.split(means, starts[1:])
    best = [int(part[0].argmin()) for part in parts]
    assert all((part[:, arm] - part.min(axis=1) <= entry.slack).all() for part, arm in zip(parts, best, strict=True))
    assert all(one != other for one, other in pairwise(best))
    if entry.kind in CHANGES:
        assert len(starts) == CHANGES[entry.kind] + 1
    if not entry.by_period:
        assert all((part == part[0]).all() for part in parts)
    if not entry.slack:  # where means walk at random, they come close to each other
        long = [(part, arm) for part, arm in zip(np.split(table, starts[1:]), best, strict=True) if len(part) >= 200]
        assert all(part.sum(axis=0).argmin() == arm for part, arm in long)


def test_the_leader_stays_as_it_is_where_the_better_arm_is_hidden() -> None:
    for name in ("hidden", "hidden-again", "hidden-often", "hidden-often-again"):
        means, starts = DRAWN[name].means, BY_NAME[name].starts(0)
        for before, start in pairwise(starts):
            leader = means[before].argmin()
            assert (means[before:, leader] == means[before, leader]).all() and means[start].argmin() != leader


def test_segments_of_many_changes_are_long_enough_to_learn() -> None:
    for name in ("many-changes", "many-changes-again"):
        n_rounds, n_arms = DRAWN[name].table.shape
        assert np.diff(BY_NAME[name].starts(0), append=n_rounds).min() >= 50 * n_arms


def test_what_all_arms_share() -> None:
    """The level rises and falls by 20 standard deviations, a trend moves it, and inflation multiplies all."""
    level = DRAWN["common-wave"].table.mean(axis=1)
    assert 18.0 < level.max() - level.mean() < 24.0
    rising = DRAWN["trend"].table.mean(axis=1)
    assert 28.0 < rising[-50:].mean() - rising[:50].mean() < 32.0
    scale = DRAWN["inflation-again"].table.std(axis=1)
    assert 500.0 < scale[-200:].mean() / scale[:200].mean() < 2000.0


def test_segments_by_hand() -> None:
    means = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.8], [1.0, 0.0], [0.0, 0.1], [0.0, 2.0]])
    assert segments(means) == [0, 2, 4]
    assert segments(means, 0.5) == [0, 3, 5]
    assert segments(means, 3.0) == [0]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=12), st.integers(0, 2))
def test_segments_are_as_long_as_they_can_be(rows: list[tuple[int, ...]], slack: int) -> None:
    means = np.array(rows, dtype=float)
    starts = segments(means, slack)
    for start, end in zip(starts, [*starts[1:], len(means)], strict=True):
        behind = means[start:, means[start].argmin()] - means[start:].min(axis=1)
        assert (behind[: end - start] <= slack).all() and (end == len(means) or behind[end - start] > slack)


# The scores, on regrets that are made up.


def tracked(name: str, restarted: float, **means: float) -> Tracked:
    """Return a table on which choosing at random has a regret of 100, and others these mean regrets in four trials."""
    spread = np.array([-1.0, 1.0, 0.0, 0.0])
    entry = ChangingEntry(
        name,
        "validation",
        name,
        lambda real, seed: Losses.of([[0.0]]),
        "changing",
        kind=name,
        by_period=False,
        slack=0.0,
        drawn=lambda seed: Drawn(np.zeros((1, 1)), np.zeros((1, 1))),
    )
    regrets = {key: spread + mean for key, mean in means.items()}
    return Tracked(entry, Losses.of([[0.0]]), [0], None, regrets, spread + restarted, 100.0)


def steady(name: str, **means: float) -> Played:
    """Return a stationary table on which choosing at random has a regret of 100."""
    regrets = {key: np.full(4, mean) for key, mean in {**means, AT_RANDOM: 100.0}.items()}
    entry = Entry(name, "validation", name, lambda real, seed: Losses.of([[0.0]]))
    return Played(entry, Losses.of([[0.0]]), regrets, Summary(100.0, 2.0, 1.0, 4))


def shares(changing: list[Tracked], stationary: list[Played]) -> Shares:
    names = tuple(dict.fromkeys(name for table in changing for name in table.regrets))
    steady = Standings("validation", tuple(stationary), (*names, AT_RANDOM), 4, 0, 0)
    return Shares("validation", tuple(changing), names, steady, ())


MADE_UP = shares(
    [
        tracked("hidden", 20.0, **{STEADY: 60.0, "ahb": 20.0, "scb": 50.0}),
        tracked("turn", 0.0, **{STEADY: 50.0, "ahb": 19.0, "scb": 150.0, "umab-nn": 1.0}),
    ],
    [
        steady("easy", **{STEADY: 2.0, "ahb": 6.0, "scb": 4.0, "umab-nn": 50.0}),
        steady("hard", **{STEADY: 20.0, "ahb": 24.0, "scb": 80.0, "umab-nn": 50.0}),
    ],
)


def test_shares_of_the_gain() -> None:
    """What uniform draws lose more than the policy, divided by what they lose more than true restarts."""
    np.testing.assert_allclose(MADE_UP.shares, [[0.5, 1.0, 0.625, np.nan], [0.5, 0.81, 0.01, 0.99]])
    assert MADE_UP.shares[0, 1] == 1.0  # its regrets are those of the restarts
    assert MADE_UP.mean("ahb").value == pytest.approx(0.9) and MADE_UP.mean(STEADY).value == pytest.approx(0.5)
    assert math.isnan(MADE_UP.mean("umab-nn").value)
    for name, least, table in (("scb", 0.01, "turn"), ("umab-nn", 0.99, "turn")):
        worst, where = MADE_UP.worst(name)
        assert worst.value == pytest.approx(least) and where == table
    assert MADE_UP.below(STEADY) == ["hidden", "turn"] and MADE_UP.below("scb") == ["turn"]
    assert MADE_UP.below("ahb") == [] and [share_wanted(table.entry) for table in MADE_UP.tables] == [0.6, 0.75]


def test_errors_of_shares_are_those_of_the_trials() -> None:
    """On hidden, the regrets of ahb are those of the restarts in every trial, so only the share on turn varies."""
    size = math.sqrt(0.5 / 4)  # the error of a mean of the four trials when they are resampled
    worst, table = MADE_UP.worst("ahb")
    assert table == "turn" and worst.se == pytest.approx(size / 100.0 * (1.0 - 0.81), rel=0.1)
    assert MADE_UP.mean("ahb").se == pytest.approx(worst.se * 0.5 * 0.9 / 0.81, rel=0.01)


def test_prices_are_quotients_of_scores_from_five_percent_on() -> None:
    prices = MADE_UP.stationary
    assert prices.price(STEADY) == (1.0, 0.0) and prices.highest_price(STEADY)[0] == (1.0, 0.0)
    assert prices.price("ahb").value == pytest.approx(1.2)  # 6 ÷ 5 and 24 ÷ 20
    assert prices.price("scb").value == pytest.approx(2.0) and prices.highest_price("scb")[1] == "hard"
    assert prices.highest_price("scb")[0].value == pytest.approx(4.0)


def test_the_verdict_names_the_policies_that_meet_the_targets() -> None:
    assert tracking.MEAN_SHARE_WANTED == 0.85 and tracking.PRICE_OF_A_DEFAULT == 1.05
    assert [name for name in MADE_UP.policies if MADE_UP.meets_targets(name, 1.21)] == ["ahb"]
    assert not MADE_UP.meets_targets("ahb", 1.19)
    changing = [tracked("turn", 0.0, **{STEADY: 10.0, "ahb": 10.0, "scb": 10.0, "umab-nn": 10.0})]
    dear = {"ahb": 11.0, "scb": 10.0, "umab-nn": 10.0}
    found = shares(
        changing, [steady("a", **{STEADY: 10.0, **dear, "scb": 16.0}), steady("b", **{STEADY: 10.0, **dear})]
    )
    said = changing_page.verdict(found)
    assert said.startswith(f"All targets are met by {STEADY}, ahb and umab-nn.")  # scb has a price of 1.6 on a
    assert f"The price of {STEADY} and umab-nn is low enough" in said
    assert changing_page.verdict(shares([tracked("turn", 0.0, scb=90.0, **{STEADY: 90.0})], [])).startswith("No policy")


@pytest.mark.parametrize(
    ("ahb", "scb", "price", "right"),
    [
        (10.0, 12.0, 10.4, "ahb"),  # all may be recommended, and the largest mean share wins
        (12.0, 10.0, 10.4, "scb"),
        (10.0, 90.0, 10.6, STEADY),  # too dear
        (20.0, 30.0, 10.0, STEADY),  # a mean share that is too small
    ],
)
def test_the_rule_recommends_the_best_of_those_that_meet_all_targets(
    ahb: float, scb: float, price: float, right: str
) -> None:
    """A policy that needs a range is not recommended, nor is one that misses a target in another half."""
    stationary = [steady("a", **{STEADY: 10.0, "ahb": price, "scb": price, "exp3": 10.0})]
    half = shares([tracked("turn", 0.0, **{STEADY: 60.0, "ahb": ahb, "scb": scb, "exp3": 1.0})], stationary)
    missed = shares([tracked("turn", 0.0, **{STEADY: 60.0, "ahb": 60.0, "scb": 60.0, "exp3": 1.0})], stationary)
    assert by_rule([half]) == by_rule([half, half]) == right and by_rule([half, missed]) == STEADY
    assert changing_page.rule([half]).endswith(f"The rule recommends {right}.")
    assert "the validation half, the only one" in changing_page.rule([half])
    assert "in both halves" in changing_page.rule([half, half])


def test_the_rows_of_a_page() -> None:
    first, second, third, last = changing_page.lines(MADE_UP)
    assert (first.name, second.name, third.name, last.name) == ("ahb", STEADY, "scb", "umab-nn")
    assert (first.n_below, second.n_below, last.mean) == ("0 of 2", "2 of 2", "–")
    assert changing_page.table_row(MADE_UP.tables[0])[2:6] == ("1 × 1", "0", "at each change", "100")


# What the contest runs.


def trials(n_trials: int, seed: int) -> Trials:
    return Trials(n_trials, seed, None, Progress(0, "", False))


def test_the_smallest_cost_of_a_sequence_by_hand() -> None:
    costs = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 5.0], [0.5, 0.0]])
    assert smallest_cost(costs, [0]) == 2.5 and smallest_cost(costs, [0, 2]) == 0.5
    assert smallest_cost(costs, [0, 2, 3]) == 0.0
    assert restarts_of(10, 4) == [0, 4, 8] and restarts_of(10, None) == [0]


def test_restarts_are_separate_runs() -> None:
    """Their cost is that of the draws; the first run has the seed of the trials, and the others their own draws."""
    table = np.random.default_rng(0).normal([0.0, 1.0, 1.0], size=(300, 3)) + 1e6
    table[100:] = table[100:, ::-1]
    costs = table - table.min(axis=1, keepdims=True)
    found = restarted_cost(Losses.of(table), [0, 100], trials(4, 7))
    total = np.zeros(4)
    for start, end, seed in ((0, 100, 7), (100, 300, int(np.random.SeedSequence([7, 100]).generate_state(1)[0]))):
        run = umab.simulate(STEADY, table[start:end], n_trials=4, seed=seed, expected=True)
        total += run.final_regret + costs[start:end].sum(axis=0).min()
    np.testing.assert_allclose(found, total, rtol=1e-12)
    once = umab.simulate(STEADY, table, n_trials=4, seed=7, expected=True).final_regret
    np.testing.assert_allclose(restarted_cost(Losses.of(table), [0], trials(4, 7)), once + costs.sum(axis=0).min())


def test_the_best_period_is_the_one_that_costs_least() -> None:
    """Where two arms swap every 500 rounds, this is when to start anew; where nothing changes, never."""
    means = np.where((np.arange(4000) // 500 % 2 == 0)[:, None], [0.0, 3.0], [3.0, 0.0])
    swapping = Losses.of(means + np.random.default_rng(1).standard_normal((4000, 2)))
    assert best_period(swapping, trials(5, 0)) == 500 and 500 in PERIODS
    steady = Losses.of(np.random.default_rng(2).normal([0.0, 3.0], size=(3000, 2)))
    assert best_period(steady, trials(5, 0)) is None


def test_a_policy_for_a_known_range_is_told_the_table() -> None:
    losses = Losses.of([[-2.0, 3.0], [7.0, 1.0]])
    assert told(umab.EXP3S(), losses, 5) == umab.EXP3S(low=-2.0, high=7.0, segments=5)
    assert told(umab.policy("exp3-ix"), losses, 5) == umab.EXP3IX(low=-2.0, high=7.0)
    assert told(umab.UMABW(), losses, 5) == umab.UMABW()


def test_the_contest_runs_what_simulate_runs() -> None:
    """Regret is against the best arm of each true segment, and choosing at random is exact."""
    names = ["turn", "trend", "trend-again", "short", "short-waits"]
    development, validation = track(policies=["uniform", "umab-nn"], names=names, n_trials=3, seed=5)
    shown = (RECOMMENDED, STEADY, "umab-l", "centred(umab-sh)", "umab-g-a", "exp3-s", "uniform", "umab-nn")
    assert development.shown == shown and set(development.policies) == {*shown, *ABLATIONS.values()}
    turn, trend = development.tables
    (again,) = validation.tables
    table, starts = turn.losses.table, BY_NAME["turn"].starts(0)
    least = sum(part.sum(axis=0).min() for part in np.split(table, starts[1:]))
    draws = umab.simulate("umab-g-a", table, n_trials=3, seed=5, expected=True)
    np.testing.assert_allclose(turn.regrets["umab-g-a"], draws.final_regret + table.sum(axis=0).min() - least)
    told_all = umab.EXP3S(low=table.min(), high=table.max(), segments=len(starts))
    draws = umab.simulate(told_all, table, n_trials=3, seed=5, expected=True)
    np.testing.assert_allclose(turn.regrets["exp3-s"], draws.final_regret + table.sum(axis=0).min() - least)
    assert turn.at_random == pytest.approx(table.mean(axis=1).sum() - least)
    np.testing.assert_allclose(turn.regrets["uniform"], turn.at_random)
    assert development.shares[0, development.policies.index("uniform")] == 0.01
    assert "umab-nn" not in turn.regrets and math.isnan(development.mean("umab-nn").value)
    assert turn.starts == turn.restarts == starts and turn.period is None
    assert trend.period == again.period == best_period(trend.losses, trials(3, 5)) and trend.restarts[0] == 0
    costs = table - table.min(axis=1, keepdims=True)
    cost = restarted_cost(turn.losses, starts, trials(3, 5))
    np.testing.assert_allclose(
        turn.restarted, cost - sum(part.sum(axis=0).min() for part in np.split(costs, starts[1:]))
    )
    assert [each.entry.name for each in development.stationary.tables] == ["short"]
    for each in (development, validation):
        assert each.stationary.price(STEADY) == (1.0, 0.0)
    (short,) = development.stationary.tables
    known = umab.EXP3S(low=short.losses.table.min(), high=short.losses.table.max())
    right = umab.simulate(known, short.losses, n_trials=3, seed=5, expected=True).final_regret
    np.testing.assert_array_equal(short.regrets["exp3-s"], right)


def test_without_restarts_and_bursts_umab_w_is_umab_l() -> None:
    table = np.random.default_rng(3).normal([0.0, 0.5, 1.0], size=(600, 3))
    watching, local = umab.simulate(
        [ABLATIONS["the watch and the bursts: UMAB-L"], "umab-l"], table, n_trials=3, expected=True
    )
    np.testing.assert_allclose(watching.final_regret, local.final_regret, rtol=1e-9)
    assert all(type(umab.policy(name)) is umab.UMABW for name in ABLATIONS.values())
    assert len({umab.policy(name) for name in (*ABLATIONS.values(), RECOMMENDED)}) == len(ABLATIONS) + 1


# False alarms.


def test_alarms_are_counted_from_the_states_of_the_trials() -> None:
    """The arms swap twice, so that every trial notices changes; a learner that is told the same losses notices them."""
    table = np.random.default_rng(5).normal([0.0, 3.0], size=(900, 2))
    table[300:600] = table[300:600, ::-1]
    entry = Entry("swaps", "validation", "two arms swap", lambda real, seed: Losses.of(table))
    found = count_alarms(entry, Losses.of(table), trials(3, 2))
    n_changes, n_undone = [], 0
    for arms in umab.simulate("umab-w", table, n_trials=3, seed=2).arms:
        learner = umab.Learner("umab-w", 2)
        for arm, losses in zip(arms.tolist(), table, strict=True):
            learner.update(arm, losses[arm])
        n_changes.append(len(learner.changes()))
        n_undone += sum(change.kept is False for change in learner.changes())
    assert found == (entry, 3, sum(n > 0 for n in n_changes), sum(n_changes), n_undone)
    assert min(n_changes) >= 2 and not found.moving
    assert changing_page.alarm_row(found)[1:] == (
        "1.000",
        f"{sum(n_changes) / 3:.3f}",
        f"{n_undone / 3:.3f}",
    )


def test_tables_that_the_bound_leaves_out_are_marked() -> None:
    stationary = {each.name: each for each in entries() if each.world == "stationary"}
    assert set(MOVING_TOGETHER) <= set(stationary)
    first, second = np.split(stationary["colouring"].losses(None, 0).table, 2)
    assert (np.median(second, axis=0) < 0.8 * np.median(first, axis=0)).all()
    assert changing_page.alarm_row(Alarms(stationary["jump"], 4, 1, 2, 1)) == ("jump *", "0.250", "0.500", "0.250")
    assert MOST_FALSE_ALARMS == pytest.approx(0.1642, abs=1e-4)


@pytest.mark.parametrize("name", ["normal", "coins", "pareto"])
def test_false_alarms_are_rarer_than_the_bound(name: str) -> None:
    """In 400 trials on one table; 4.75 standard errors, so that the risk is 1e-6 if the bound is met exactly."""
    entry = next(each for each in entries() if each.name == name)
    found = count_alarms(entry, entry.losses(False, 0), trials(400, 0))
    limit = MOST_FALSE_ALARMS
    assert found.n_alarmed / found.n_trials <= limit + 4.75 * math.sqrt(limit * (1.0 - limit) / found.n_trials)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["switch"]}, "a name must be one of .*'turn'.*'switch'"),
        ({"policies": ["adahedge"]}, "one arm per round, but got adahedge"),
        ({"policies": ["nobody"]}, "'nobody'"),
        ({"n_trials": 1}, "at least 2"),
    ],
)
def test_what_the_contest_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        track(**options)


def test_the_command_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(half: Any = None, **group: Any) -> Any:
        return [
            each for each in entries(half, **group) if each.name in ("turn", "trend", "short", "turn-again", "tinier")
        ]

    monkeypatch.setattr(tracking, "entries", few)
    out = tmp_path / "changing"
    asked = ["suite", "--group", "changing", "--trials", "3", "--policy", "scb", "--policy", "umab-nn"]
    assert cli.main([*asked, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for text in ("development half", "validation half", "smallest share", "mean price", "exp3-s", "scb"):
        assert text in printed
    content = json.loads((out / "results.json").read_text())
    turn = content["halves"]["development"]["tables"]["turn"]
    assert turn["starts"] == turn["restarts"] == BY_NAME["turn"].starts(0)
    assert turn["regrets"]["scb"]["mean"] > turn["restarted"]["mean"] > 0.0 and turn["shares"]["umab-nn"] is None
    assert content["halves"]["validation"]["stationary_tables"] == ["tinier"]
    assert list(content["halves"]["validation"]["false_alarms"]) == ["tinier"]
    assert content["recommended_by_rule"] in printed
    page, markdown = (out / "index.html").read_text(), (out / "page.md").read_text()
    for text in (page, markdown):
        assert "turn-again" in text and "at each change" in text and "mean share of at least 0.85" in text
        assert "bursts of attention" in text and "The rule recommends" in text and "is 0.164 for each start" in text
    figures = sorted(path.name for path in (out / "figures").iterdir())
    assert figures == [
        f"changing-{half}.{kind}" for half in ("development", "validation") for kind in ("pdf", "png", "svg")
    ]
    assert cli.main(["suite", "--group", "changing", "--half", "validation", "--trials", "2", "--out", str(out)]) == 0
    assert "Development half" not in (out / "index.html").read_text()


PAGE = Path(__file__).parent.parent / "docs" / "suite-changing.md"


def test_the_page_in_docs_is_about_this_group() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| {each.name} | {each.about} |" in text for each in ENTRIES)
    assert all(f"| {what} | {name} |" in text for what, name in ABLATIONS.items())
    assert f"The rule recommends {RECOMMENDED}." in text and "Stand-ins" not in text


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("UMAB_DATA"), reason="UMAB_DATA names no folder with the public tables")
def test_the_page_in_docs_is_that_of_a_run(tmp_path: Path) -> None:
    changing_page.write(track(real=True), tmp_path / "changing", "umab suite --group changing")
    made = (tmp_path / "changing" / "page.md").read_text(encoding="utf-8").replace("(figures/", "(suite-")
    assert made == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "changing" / "results.json").read_bytes() == PAGE.with_suffix(".json").read_bytes()
