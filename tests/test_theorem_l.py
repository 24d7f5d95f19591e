"""Theorem L: the steps of its proof along runs, and its expectations by exact enumeration of every draw."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from test_theory import SIGNED, nasty
from umab import cli
from umab.engine.delays import Rounds
from umab.engine.interpreted import play
from umab.testing import Array
from umab.theory.bounds import bound
from umab.theory.bounds_late import late_limits
from umab.theory.certificates import certify, check
from umab.theory.late_barrier import ArrivalPath, LateSizes, follow_arrivals, late_bound
from umab.theory.statements import OF_UMAB_S_LATE, ArrivalSteps
from umab.theory.trajectory import clipped_at, follow

NAMES = ("umab-s", "centred(umab-s)")


def random_delays(generator: np.random.Generator, n_rounds: int) -> Any:
    return generator.integers(30, size=n_rounds)


# The proof along runs.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("table", nasty())
def test_a_path_is_that_of_the_policy_and_the_proof_holds_along_it(name: str, table: str) -> None:
    losses = nasty()[table]
    delays = np.random.default_rng(0).integers(12, size=len(losses))
    rounds = [(each.arm, list(each.state.probabilities)) for each in play(name, losses, delays=delays)]
    path = follow_arrivals(umab.policy(name), losses, [[arm for arm, _ in rounds]], delays)
    right = np.array([row for _, row in rounds])[:-1]
    np.testing.assert_allclose(path.drawn_from[0, 1:].astype(float), right, rtol=1e-8)
    for late in (0, delays, random_delays):
        rows = certify(name, losses, delays=late, n_trials=3)
        # From the only loss of one round, itself is subtracted.
        signed = np.min(losses) < 0.0 if name == "umab-s" else len(losses) > 1 and np.ptp(losses) > 0.0
        step = "L11, mean" if signed else "L9 and L12, mean"
        assert [row.id for row in rows] == ["Theorem L", step, *(each.id for each in OF_UMAB_S_LATE)]
        assert {(row.form, row.where) for row in rows} == {("as proved", "docs/late.md")}
        assert {row.verdict for row in rows[2:]} <= {"holds", "nothing to check"}
        assert {row.verdict for row in rows[:2]} <= {"holds", "undecided"}  # there are only three runs


@pytest.mark.parametrize("name", NAMES)
def test_without_delays_the_path_is_that_of_theorem_r(name: str) -> None:
    policy = umab.policy(name)
    arms = umab.simulate(policy, SIGNED, n_trials=4).arms
    late, usual = follow_arrivals(policy, SIGNED, arms), follow(policy, SIGNED, arms)
    np.testing.assert_allclose(late.drawn_from, usual.drawn_from[:, :-1], rtol=1e-15)
    np.testing.assert_allclose(late.cost, usual.stability, rtol=1e-15)
    np.testing.assert_allclose(late.charge, usual.charge, rtol=1e-15)


def negative_ones(path: ArrivalPath, factor: float) -> Any:
    return np.where(path.seen < 0, factor, 1) * path.cost


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("L1, FTRL", lambda path: {"stability": path.stability / 20}),
        ("L1, charge", lambda path: {"cost": path.stability}),
        ("L2, loss", lambda path: {"cost": path.cost + np.abs(path.seen)}),
        ("L2, step", lambda path: {"cost": 1.5 * path.cost}),
        ("L3, step", lambda path: {"cost": negative_ones(path, 2.0)}),
        ("L3, jump", lambda path: {"cost": negative_ones(path, 40.0)}),
        ("L4, fall", lambda path: {"moved": path.moved / 1.2}),
        ("L4, others", lambda path: {"moved": path.moved / 1.2}),
        ("L4, rises", lambda path: {"moved": path.moved * 1.2}),
        ("L4, rise", lambda path: {"moved": path.moved * 1.2}),
        ("L4, distance", lambda path: {"moved": path.moved * 1.2}),
        ("L5, rate", lambda path: {"after": path.after * 1.2}),
        ("L5, distance", lambda path: {"after": path.after * 1.2}),
        ("L6, fall", lambda path: {"p": path.p * 3}),
        ("L6, distance", lambda path: {"p": path.p / 20}),
        ("L6, risen", lambda path: {"p": path.p / 20}),
        ("L7, clipping", lambda path: {"clipped": path.clipped + 50}),
        ("L7, unclipped", lambda path: {"paid": path.paid * 20}),
        ("L8, pairs", lambda path: {"n_before": path.n_before // 2, "order": path.order[:, ::-1]}),
        ("L9, total", lambda path: {"cost": 20 * path.cost}),
        ("L10, exploration", lambda path: {"exploration": path.exploration / 20}),
    ],
)
def test_every_statement_can_fail(id: str, change: Callable[[ArrivalPath], dict[str, Any]]) -> None:
    """It holds along runs of the policy, and is violated when something of it is changed on purpose."""
    statement = next(each for each in OF_UMAB_S_LATE if each.id == id)
    delays = np.random.default_rng(0).integers(12, size=len(SIGNED))
    found = []
    for losses in (SIGNED, np.abs(SIGNED)):
        path = follow_arrivals(
            umab.UMABS(), losses, umab.simulate("umab-s", losses, n_trials=6, delays=delays).arms, delays
        )
        verdict = check(statement, statement.says(ArrivalSteps(path))).verdict
        assert verdict in ("holds", "nothing to check")
        wrong = check(statement, statement.says(ArrivalSteps(dataclasses.replace(path, **change(path))))).verdict
        found.append((verdict, wrong))
    assert ("holds", "violated") in found


def test_every_statement_is_tried() -> None:
    (marks,) = [mark for mark in test_every_statement_can_fail.pytestmark if mark.args[0] == ("id", "change")]
    assert {id for id, _ in marks.args[1]} == {each.id for each in OF_UMAB_S_LATE}


@given(
    table=st.lists(
        st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.3, 1e-3, -40.0, 1e5, -1e4]), min_size=4, max_size=4),
        min_size=2,
        max_size=14,
    ),
    n_arms=st.integers(2, 4),
    rate=st.sampled_from([0.2, 3.0, 30.0]),
    positive=st.booleans(),
    data=st.data(),
)
def test_every_statement_holds_along_any_arms_and_delays(
    table: list[list[float]], n_arms: int, rate: float, positive: bool, data: st.DataObject
) -> None:
    """Also for arms that the policy would hardly draw, bursts of arrivals, and delays that depend on the arm."""
    losses = np.array(table)[:, :n_arms]
    losses = np.abs(losses) if positive else losses
    each = st.lists(st.integers(0, n_arms - 1), min_size=len(losses), max_size=len(losses))
    arms = data.draw(each)
    delays = data.draw(st.lists(st.integers(0, 16), min_size=len(losses), max_size=len(losses)))
    core = umab.UMABS(rate=rate)
    for policy in (core, umab.Centred(core)):
        steps = ArrivalSteps(follow_arrivals(policy, losses, [arms], delays))
        for statement in OF_UMAB_S_LATE:
            assert check(statement, statement.says(steps)).verdict != "violated", statement.id


# Expectations, by enumerating every sequence of draws.


class Case(NamedTuple):
    losses: Array
    delays: Rounds
    """T, or T × n if they depend on the arm."""


def cases(positive: bool) -> list[Case]:
    """Return tables of 2 or 3 arms and up to 7 rounds, with sizes that grow; if positive, with delays of each arm."""
    random = np.random.default_rng(4)
    found = []
    for n_arms, n_rounds in ((2, 7), (2, 6), (2, 7), (3, 5), (3, 5), (3, 4)):
        losses = random.normal(size=(n_rounds, n_arms)) * 2.0 ** random.integers(-2, 3, size=(n_rounds, n_arms))
        by_arm = random.integers(6, size=(n_rounds, n_arms))
        found.append(Case(np.abs(losses), by_arm) if positive else Case(losses, by_arm[:, 0]))
    if positive:  # the slower, the later
        table = random.integers(4, size=(7, 2)).astype(float)
        found.append(Case(table, table.astype(int)))
    else:
        found.append(Case(np.array([[0.1, 0.0], [-30.0, 0.1]] + [[1.0, -5.0]] * 5), np.array([0, 5, 4, 0, 3, 0, 0])))
    return found


def every_run(name: str, losses: Array, delays: Rounds) -> ArrivalPath:
    n_rounds, n_arms = losses.shape
    arms = np.array(list(itertools.product(range(n_arms), repeat=n_rounds)))
    late = delays if delays.ndim == 1 else delays[np.arange(n_rounds), arms]
    path = follow_arrivals(umab.policy(name), losses, arms, late)
    assert float(path.probability.sum()) == pytest.approx(1.0, abs=1e-14)
    return path


def mean(path: ArrivalPath, values: Any) -> Any:
    """Return the expectation of what each run has."""
    return np.tensordot(path.probability, values, axes=1)


def estimates(path: ArrivalPath) -> Any:
    found = np.zeros_like(path.losses)
    np.put_along_axis(found, path.arms[:, :, None], path.estimate[:, :, None], axis=2)
    return found


def pairs(path: ArrivalPath) -> Any:
    """Return whether r is in the flight of s, from the definition; runs × s × r."""
    place = np.argsort(path.order, axis=1)
    return (place[:, None, :] >= path.n_before[:, :, None]) & (place[:, None, :] < place[:, :, None])


def regret_of(case: Case, path: ArrivalPath) -> float:
    return float(mean(path, (case.losses * path.drawn_from).sum(axis=(1, 2))) - case.losses.sum(axis=0).min())


@pytest.mark.parametrize("case", cases(positive=True), ids=str)
def test_losses_that_are_not_negative_may_have_delays_that_depend_on_the_arm(case: Case) -> None:
    path = every_run("umab-s", *case)
    steps, losses, rounds = ArrivalSteps(path), case.losses, np.arange(len(case.losses))
    wrong = mean(path, estimates(path)) - losses
    assert np.abs(wrong).max() <= 1e-12 * losses.max()
    flown = mean(path, (estimates(path) * path.p).sum(axis=2) - (losses * path.p).sum(axis=2))
    assert np.abs(flown).max() <= 1e-12 * losses.max()

    # The step of the proof that is about pairs: E 1[k_r = k_s, r in the flight of s]/p'_r ≤ 1, and 0 if it cannot be.
    same = pairs(path) & (path.arms[:, None, :] == path.arms[:, :, None])
    chance = mean(path, same / path.of_arm(path.drawn_from)[:, None, :])
    longest = case.delays.max(axis=1)
    earlier, later = np.minimum.outer(rounds, rounds), np.maximum.outer(rounds, rounds)
    may_meet = (earlier != later) & (earlier + longest[earlier] >= later)
    assert (chance <= may_meet + 1e-12).all() and chance.max() > 0.3

    # E A_end and the theorem, for the longest delay of each round.
    terms, paid, flights = late_bound(path.policy, umab.Losses.of(losses), longest)
    assert float(flights.total) == may_meet.sum() / 2
    assert mean(path, path.paid_in_all) <= paid
    assert mean(path, path.outstanding.sum(axis=1)) <= flights.total
    floors = mean(path, np.where(path.paid_at_draw > 0, path.exploration, 0).sum(axis=1))
    assert floors <= flights.floors + 1e-12
    squares = steps.times / 2 * steps.weight**2
    late = steps.times * path.in_flight(steps.force, same_arm=True) * steps.weight
    sizes = losses.max(axis=1)
    assert mean(path, late.sum(axis=1)) <= 4 / 3 * steps.times * flights.weighted * (1 + 1e-12)
    assert mean(path, squares.sum(axis=1)) <= 2 / 3 * steps.times * (sizes**2).sum() * (1 + 1e-12)
    promised = bound("umab-s", losses, delays=longest).repaired
    assert promised == pytest.approx(float(sum(terms.values())))
    assert promised is not None and regret_of(case, path) <= promised


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", cases(positive=False), ids=str)
def test_losses_of_both_signs_by_exact_enumeration(name: str, case: Case) -> None:
    path = every_run(name, *case)
    steps, n = ArrivalSteps(path), path.n_arms
    high, low = np.maximum(0, path.losses.max(axis=2)), np.maximum(0, -path.losses.min(axis=2))
    height = high + low  # of a round; centred losses differ from run to run
    slack = 1e-12 * height.max()

    # Estimates of the clipped losses are right on average, since the clipping does not depend on the arm drawn.
    rarer = np.minimum(path.p, path.at_arrival)
    limit = clipped_at(rarer, path.drawn_from, (path.paid / steps.times)[:, :, None] + 0 * rarer)
    wrong = mean(path, estimates(path) - np.maximum(path.losses, -limit))
    assert np.abs(wrong).max() <= slack

    # What one loss does on average, given all else: its force, its push, the price of its drift.
    assert (mean(path, steps.force) <= mean(path, np.abs(path.losses).max(axis=2)) + slack).all()
    total = (path.at_arrival**2).sum(axis=2)
    push = np.where(steps.negative, 0, path.estimate * path.of_arm(path.at_arrival) ** 2 / total)
    assert (mean(path, push) <= mean(path, high) + slack).all()
    distance = np.maximum(0, path.at_arrival - path.p).sum(axis=2)
    assert (mean(path, steps.gained) <= mean(path, height * distance) + slack).all()
    most = mean(path, high + n * low)
    assert (mean(path, np.where(path.charge > 0, 0, path.cost)) <= most + slack).all()

    # Clipping, E A_end, and the theorem.
    clipped = np.maximum(0, np.maximum(path.losses, -limit) - path.losses)
    lost = mean(path, ((1 - path.p) * clipped).sum(axis=1))
    rarest = 1 / path.exploration.min()
    assert (lost <= 6 / 5 * 16 / 3 * rarest * low.max() + slack).all()
    losses = umab.Losses.of(case.losses)
    limits = late_limits(path.policy, losses, case.delays[None, :, None])
    assert mean(path, path.paid_in_all) <= limits["L11, mean"][1]
    assert regret_of(case, path) <= limits["Theorem L"][1]
    sizes = LateSizes.of(path.policy, losses, case.delays)
    assert (height.max(axis=0) <= sizes.heights + slack).all() and low.max() <= sizes.most_negative + slack


def test_both_signs_with_delays_that_depend_on_the_arm_are_not_covered() -> None:
    """The arm drawn then decides which other losses come first: estimates of clipped losses are wrong on average."""
    losses = np.array([[0.1, 0.2], [1.0, 0.1], [-30.0, -20.0], [1.0, 0.1], [0.5, 0.1]])
    delays = np.array([[0, 0], [1, 1], [0, 2], [0, 0], [0, 0]])
    for late, fails in ((delays[:, 1], False), (delays, True)):
        path = every_run("umab-s", losses, late)
        rarer = np.minimum(path.p, path.at_arrival)
        rate = (path.paid / ArrivalSteps(path).times)[:, :, None] + 0 * rarer
        clipped = np.maximum(path.losses, -clipped_at(rarer, path.drawn_from, rate))
        assert (np.abs(mean(path, estimates(path) - clipped)).max() > 0.2) == fails


# The bound.


@pytest.mark.parametrize("delays", [7, [3, 0] * 25])
def test_the_bound_by_hand(delays: Any) -> None:
    each = delays if isinstance(delays, list) else [delays] * 50
    waiting = [[s for s in range(t) if s + each[s] >= t] for t in range(50)]
    total, most = sum(map(len, waiting)), max(map(len, waiting))
    kappa, cn, times = 4 * math.log(2) - 2, 6.0, 8 + math.log(50) / 3
    floors = sum(1 / (4 + 2 * math.sqrt(max(2, t + 1 - len(waiting[t])))) for t in range(1, 50))
    rarest = 4 + 2 * math.sqrt(50)

    found = bound("umab-s", [[1.0, 2.0]] * 50, delays=delays)
    q = cn / 2 * 4 / 3 * 200 + total * 4 / 8 * (4 / 3 * cn + 16 / 9 * (math.sqrt(2) - 1) / 2)
    paid = 2 * math.sqrt(q) + 4 / 3 * (most + 1) * 2
    assert found.repaired == pytest.approx(times * paid + floors + 1, rel=1e-12)
    assert found.source == f"Theorem L of docs/late.md, for D = {total}" and found.printed is None

    found = bound("umab-s", [[1.0, -2.0]] * 50, delays=delays)
    q = cn * (4 / 3 * kappa * 200 + 2 * (1 + kappa + 1 / 8) * 9 * total)
    paid = 2 * math.sqrt(2 * q) + (4 * most + 4 / 3) * 3 + (9 * cn + 4 * most + rarest) * 2
    clipping = 6 / 5 * 16 / 3 * rarest * 2
    assert found.repaired == pytest.approx(times * paid + clipping + 3 * floors + 3, rel=1e-12)

    # What is subtracted is from −2 to 1, so a centred loss is from −3 to 3, and 0 in the round whose loss is the first.
    centred = bound("centred(umab-s)", [[1.0, -2.0]] * 50, delays=delays)
    first = min(range(50), key=lambda t: t + each[t])
    met = sum(first not in (s, t) for t in range(50) for s in waiting[t])
    q = cn * (4 / 3 * kappa * 9 * 49 + 2 * (1 + kappa + 1 / 8) * 9 * met)
    paid = 2 * math.sqrt(2 * q) + (4 * most + 4 / 3) * 3 + (9 * cn + 4 * most + rarest) * 3
    assert centred.repaired == pytest.approx(times * paid + clipping * 1.5 + 3 * floors + 6, rel=1e-12)


def test_without_delays_the_bound_is_that_of_theorem_r() -> None:
    for name in NAMES:
        assert bound(name, SIGNED, delays=0) == bound(name, SIGNED)
        assert "Theorem R" in bound(name, SIGNED, delays=[0] * (len(SIGNED) - 1) + [5]).source
    assert bound("umab-s:clipping=none", SIGNED, delays=3).repaired is None
    assert bound("umab-l", SIGNED, delays=3).repaired is None
    with pytest.raises(ValueError, match=r"delays are only for .*umab-l"):
        certify("umab-l", SIGNED, delays=3)


def test_delays_that_depend_on_the_arm_are_covered_for_losses_that_are_never_negative() -> None:
    losses = np.abs(SIGNED)
    delays = np.random.default_rng(1).integers(9, size=losses.shape)
    found = bound("umab-s", losses, delays=delays)
    assert found.repaired == bound("umab-s", losses, delays=delays.max(axis=1)).repaired
    certified = certify("umab-s", losses, delays=delays, n_trials=4)
    assert {each.verdict for each in certified} <= {"holds", "nothing to check"}
    assert certified[0].id == "Theorem L" and f"{found.repaired:.6g}" in certified[0].text
    # A loss is learned when that of its own arm arrives: with the longest delays, runs are others.
    arms = umab.simulate("umab-s", losses, delays=delays, n_trials=4).arms
    assert not np.array_equal(arms, umab.simulate("umab-s", losses, delays=delays.max(axis=1), n_trials=4).arms)
    for policy, table in (("umab-s", SIGNED), ("centred(umab-s)", losses)):
        for refuses in (bound, certify):
            with pytest.raises(ValueError, match=r"delays must not depend on the arm, unless the policy is umab-s and"):
                refuses(policy, table, delays=delays)


def test_the_command_certifies_late_feedback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("losses.csv", np.abs(SIGNED), delimiter=",", header="a,b,c", comments="")
    usual = ["certify", "losses.csv", "--trials", "3"]
    assert cli.main([*usual, "--policy", "umab-s", "--delay", "4"]) == 0
    assert "L9 and L12, mean" in capsys.readouterr().out
    assert cli.main([*usual, "--policy", "umab-s"]) == 0
    assert "L9 and L12, mean" not in capsys.readouterr().out
    assert cli.main([*usual, "--delay", "4"]) == 2
    assert "--delay needs --policy" in capsys.readouterr().err
    assert cli.main([*usual, "--policy", "umab-w", "--delay", "4"]) == 2
    assert "delays are only for policies whose proof covers them" in capsys.readouterr().err
