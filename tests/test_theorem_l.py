"""Theorem L: the steps of its proof along runs, and its expectations by exact enumeration of every draw."""

from __future__ import annotations

import dataclasses
import heapq
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
from umab.errors import NoBoundError
from umab.testing import Array
from umab.theory.barrier import clipped_at, least_probability
from umab.theory.bounds import bound
from umab.theory.bounds_late import late_limits
from umab.theory.certificates import certify, check
from umab.theory.late_barrier import ArrivalPath, Flights, LateSizes, follow_arrivals, late_bound
from umab.theory.statements import OF_UMAB_S_LATE, ArrivalSteps
from umab.theory.trajectory import follow

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


EITHER_FIRST = Case(
    np.array([[0, 1e-9]] * 3 + [[1, 1]] + [[1e-6, 0]] * 3 + [[1, 1]] + [[0, 1e-3]] * 3),
    np.array([[0, 0]] * 3 + [[9, 4]] + [[0, 0]] * 3 + [[3, 5]] + [[0, 0]] * 3),
)
"""Either of the losses of rounds 3 and 7 may arrive first. Tiny losses make the arm likely for which 7 is first when 3
is drawn, and the one for which 3 is first when 7 is drawn. Both orders have probabilities near 1 where they count."""


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
        found.append(Case(table, np.repeat(random.integers(6, size=(7, 1)), 2, axis=1)))  # these are of no arm
        found.append(EITHER_FIRST)
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


def of_pairs(path: ArrivalPath, terms: dict[str, Any], flights: Flights, sizes: Any) -> Any:
    """Return what a bound of part (b) has for E Σ w_s cn v_r 1[k_r = k_s], from its term 2√Q."""
    steps = ArrivalSteps(path)
    q = (terms["steps"] / (8 + np.log(np.longdouble(path.n_rounds)) * steps.n / steps.times) / 2) ** 2
    late = 8 * (q - 2 / np.longdouble(3) * steps.times * (sizes**2).sum())
    return late - 8 / np.longdouble(9) * (np.sqrt(steps.n) - 1) * flights.weighted


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
    # Whose loss arrives first depends on the arm, if the delays do: then both orders count.
    by_arm = bool((case.delays != case.delays[:, :1]).any())
    assert (chance + chance.T <= (1 + by_arm) * may_meet + 1e-12).all()

    # E A_end and the theorem, for the longest delay of each round.
    terms, paid, flights = late_bound(path.policy, umab.Losses.of(losses), longest, by_arm=by_arm)
    assert float(flights.total) == may_meet.sum() / 2
    assert mean(path, path.paid_in_all) <= paid
    assert mean(path, path.outstanding.sum(axis=1)) <= flights.total * (1 + 1e-12)
    floors = mean(path, np.where(path.paid_at_draw > 0, path.exploration, 0).sum(axis=1))
    assert floors <= flights.floors + 1e-12
    squares = steps.times / 2 * steps.weight**2
    late = steps.times * path.in_flight(steps.force, same_arm=True) * steps.weight
    sizes = losses.max(axis=1)
    assert mean(path, late.sum(axis=1)) <= of_pairs(path, terms, flights, sizes) * (1 + 1e-12)
    assert mean(path, squares.sum(axis=1)) <= 2 / 3 * steps.times * (sizes**2).sum() * (1 + 1e-12)
    promised = bound("umab-s", losses, delays=case.delays).repaired
    assert promised == pytest.approx(float(sum(terms.values())))
    assert promised is not None and regret_of(case, path) <= promised


def test_two_losses_of_one_arm_count_in_both_orders_if_delays_depend_on_the_arm() -> None:
    """With a count of one, as for other delays, the expectation would be above its bound."""
    losses, delays = EITHER_FIRST
    path = every_run("umab-s", losses, delays)
    steps, longest = ArrivalSteps(path), delays.max(axis=1)
    same = pairs(path) & (path.arms[:, None, :] == path.arms[:, :, None])
    chance = mean(path, same / path.of_arm(path.drawn_from)[:, None, :])
    assert chance[3, 7] > 0.82 and chance[7, 3] > 0.86
    late = mean(path, (steps.times * path.in_flight(steps.force, same_arm=True) * steps.weight).sum(axis=1))
    limits = []
    for by_arm in (False, True):
        terms, _, flights = late_bound(path.policy, umab.Losses.of(losses), longest, by_arm=by_arm)
        limits.append(float(of_pairs(path, terms, flights, losses.max(axis=1))))
    assert limits == pytest.approx([4 / 3 * 6 * 1.006003, 8 / 3 * 6 * 1.006003], rel=1e-9)
    assert 1.16 * limits[0] < late < limits[1]


@pytest.mark.parametrize("delays", [[3, 0, 2, 2, 0, 1, 0], [6, 5, 4, 3, 2, 1, 0]], ids=str)
def test_part_b_covers_centred_losses_that_cannot_be_negative(delays: list[int]) -> None:
    """They are ℓ_s − b_s with a b_s in which the draw of s has no part; here each loss is above all that came first."""
    late = np.array(delays)
    order = np.argsort(np.arange(7) + late, kind="stable")
    losses = np.random.default_rng(2).random((7, 2))
    losses[order] += np.arange(7)[:, None]
    path = every_run("centred(umab-s)", losses, late)
    assert path.losses.min() >= 0 and np.abs(mean(path, estimates(path) - path.losses)).max() < 1e-14
    limits = late_limits(path.policy, umab.Losses.of(losses), late[None, :, None])
    assert mean(path, path.paid_in_all) <= limits["L9 and L12, mean"][1]
    assert regret_of(Case(losses, late), path) <= limits["Theorem L"][1]
    terms, _, flights = late_bound(path.policy, umab.Losses.of(losses), late)
    sizes, steps = LateSizes.of(path.policy, umab.Losses.of(losses), late).heights, ArrivalSteps(path)
    met = (steps.times * path.in_flight(steps.force, same_arm=True) * steps.weight).sum(axis=1)
    assert mean(path, met) <= of_pairs(path, terms, flights, sizes)


# A pool of workers: a job of round s and arm k takes a time that is fixed in advance, but how many draws there are in
# the meantime depends on the other draws.


class Pool(NamedTuple):
    delays: Rounds
    """How many draws there were before each job finished, or more than are left; runs × T."""
    starts: Array
    """When each job started; runs × T."""


def pool(times: Array, arms: Any, n_workers: int, never: int | None = None) -> Pool:
    """Let workers do the jobs in the order of the draws; whoever finishes reports, and gets the next. One may hang."""
    delays, starts = np.zeros(arms.shape, dtype=np.int64), np.zeros(arms.shape)
    for run, drawn in enumerate(arms):
        busy: list[tuple[float, int]] = []
        for t, arm in enumerate(drawn):
            if t >= n_workers:
                starts[run, t], done = heapq.heappop(busy)
                delays[run, done] = t - 1 - done
            heapq.heappush(busy, (math.inf if t == never else starts[run, t] + times[t, arm], t))
        for place, (_, done) in enumerate(sorted(busy)):
            delays[run, done] = len(drawn) + place - done
    return Pool(delays, starts)


@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_pool_of_workers_by_exact_enumeration(n_workers: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    n_rounds, n_arms = (7, 2) if seed % 2 else (5, 3)
    losses: Array = random.exponential(size=(n_rounds, n_arms)) * 2.0 ** random.integers(-3, 3, size=(n_rounds, n_arms))
    times: Array = losses if seed < 2 else random.exponential(size=losses.shape)  # run times are the losses, or not
    arms = np.array(list(itertools.product(range(n_arms), repeat=n_rounds)))
    policy, high = umab.UMABS(), losses.max(axis=1)
    delays = pool(times, arms, n_workers).delays
    path = follow_arrivals(policy, losses, arms, delays)
    assert float(path.probability.sum()) == pytest.approx(1.0, abs=1e-14)
    others = delays[arms[:, 0] == 0, 0]  # of one job, by what else was drawn
    assert len(np.unique(others)) > 1
    assert np.abs(mean(path, estimates(path)) - losses).max() <= 1e-12 * losses.max()

    # P(r is drawn before the slowest arm of s would finish), in the run in which s never finishes.
    still = np.zeros((n_rounds, n_rounds))
    for s in range(n_rounds):
        hangs = pool(times, arms, n_workers, never=s)
        run = follow_arrivals(policy, losses, arms, hangs.delays)
        waiting = hangs.starts < hangs.starts[:, [s]] + times[s].max()
        still[s, s + 1 :] = mean(run, waiting[:, s + 1 :])
    outstanding = np.triu(np.argsort(path.order, axis=1)[:, :, None] >= path.n_before[:, None, :], 1)  # runs × s × r
    assert (mean(path, outstanding) <= still + 1e-12).all()
    same = pairs(path) & (path.arms[:, None, :] == path.arms[:, :, None])
    chance = mean(path, same / path.of_arm(path.drawn_from)[:, None, :])
    assert (chance <= still + still.T + 1e-12).all() and chance.max() > 0.3

    # Part (b), with σ = n_workers − 1 and these pairs.
    steps, weighted = ArrivalSteps(path), (high[:, None] * high * still).sum()
    late = (steps.times * path.in_flight(steps.force, same_arm=True) * steps.weight).sum(axis=1)
    assert mean(path, late) <= 8 / 3 * steps.times * weighted
    q = 2 / 3 * steps.times * (high**2).sum()
    q += (8 / 3 * steps.times + 8 / 9 * (math.sqrt(n_arms) - 1)) / 8 * weighted
    paid = 2 * math.sqrt(q) + 4 / 3 * n_workers * losses.max()
    assert path.outstanding.max() <= n_workers - 1 and mean(path, path.paid_in_all) <= paid
    floors = sum(least_probability(n_arms, max(2, t - n_workers + 1)) for t in range(2, n_rounds + 1))
    spread = np.ptp(losses, axis=1).max()
    promised = (8 + math.log(n_rounds) / 3) * paid + (n_arms - 1) * spread * floors + spread
    assert regret_of(Case(losses, path.n_before), path) <= promised


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
    for name in ("umab-s:clipping=none", "umab-l"):
        with pytest.raises(NoBoundError, match=f"umab-s, .*for late feedback, but got delays for {name}"):
            bound(name, SIGNED, delays=3)
    with pytest.raises(ValueError, match=r"delays are only for .*umab-l"):
        certify("umab-l", SIGNED, delays=3)


def test_delays_that_depend_on_the_arm_are_covered_for_losses_that_are_never_negative() -> None:
    losses = np.abs(SIGNED)
    delays = np.random.default_rng(1).integers(9, size=losses.shape)
    found = bound("umab-s", losses, delays=delays)
    assert found.source.endswith(", and delays that depend on the arm")
    longest = bound("umab-s", losses, delays=delays.max(axis=1))  # in every round the same for all arms
    assert found.repaired is not None and longest.repaired is not None
    assert found.repaired > 1.02 * longest.repaired and not longest.source.endswith("arm")
    assert bound("umab-s", losses, delays=np.repeat(delays.max(axis=1)[:, None], 3, axis=1)) == longest
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
    # A table in which the arms do not differ is the same as one number for each round.
    equal = np.repeat(delays[:, :1], 3, axis=1)
    for policy in NAMES:
        assert bound(policy, SIGNED, delays=equal) == bound(policy, SIGNED, delays=delays[:, 0])
        one, other = (certify(policy, SIGNED, delays=each, n_trials=2) for each in (equal, delays[:, 0]))
        assert str(one) == str(other)  # some ratios are nan


def test_the_order_of_the_regret_has_the_negative_losses() -> None:
    delays = np.full(len(SIGNED), 4)
    root = float(np.abs(SIGNED).max() * np.sqrt(3 * (200 + delays[:-4].sum() + 6)))
    found = bound("umab-s", np.abs(SIGNED), delays=delays)
    assert found.formula == "ℓ∞ √(n(T + D))" and found.rate == pytest.approx(root)
    found = bound("umab-s", SIGNED, delays=delays)
    assert found.formula == "ℓ∞ √(n(T + D)) + ℓ⁻∞ n √D"
    assert found.rate == pytest.approx(root - SIGNED.min() * 3 * np.sqrt(delays[:-4].sum() + 6))


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
