"""The regret against the best sequence of arms with few switches, and that sequence."""

from __future__ import annotations

import itertools
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import umab
from helpers import same_bits
from umab.results.regret import Costs
from umab.results.tracking import best_sequences, tracking_regret
from umab.testing import EXTREMES, Array

RNG = np.random.default_rng(0)
LOSSES = RNG.normal([0.0, 0.5, 1.0], size=(300, 3))
LOSSES[100:200] = LOSSES[100:200, ::-1]


def n_changes(sequence: Any) -> int:
    return sum(before != after for before, after in itertools.pairwise(sequence))


def by_hand(table: list[list[Any]], switches: int) -> tuple[Any, int]:
    """Return the smallest total of all sequences, and how few switches it can have; numbers must add exactly."""
    every = itertools.product(range(len(table[0])), repeat=len(table))
    allowed = [each for each in every if n_changes(each) <= switches]
    return min((sum(row[k] for row, k in zip(table, each, strict=True)), n_changes(each)) for each in allowed)


def spelled_out(sequence: umab.BestSequence, n_rounds: int) -> Array:
    return np.repeat(sequence.arms, np.diff(sequence.starts, append=n_rounds))


def same_arms(first: umab.BestSequence, second: umab.BestSequence) -> bool:
    return all(same.tolist() == other.tolist() for same, other in zip(first[:2], second[:2], strict=True))


@st.composite
def small_tables(draw: st.DrawFn, most: int = 6) -> list[list[int]]:
    """Whole numbers, so that sums are exact and ties are common."""
    n_arms = draw(st.integers(1, 3))
    row = st.lists(st.integers(-2, 2), min_size=n_arms, max_size=n_arms)
    return draw(st.lists(row, min_size=1, max_size=most))


@given(table=small_tables(), switches=st.integers(0, 8))
@example(table=[[1, 0], [0, 1], [1, 0]], switches=1)  # a switch that saves nothing, to an arm that comes first
def test_the_best_sequence_is_the_best_of_all(table: list[list[int]], switches: int) -> None:
    found = umab.best_sequence(table, switches)
    total, fewest = by_hand(table, switches)
    assert found.total == total and len(found.starts) - 1 == fewest
    arms = spelled_out(found, len(table))
    assert sum(row[k] for row, k in zip(table, arms, strict=True)) == total
    assert found.starts[0] == 0 and (np.diff(found.starts) > 0).all() and (np.diff(found.arms) != 0).all()


@given(table=small_tables(5), switches=st.integers(0, 4))
def test_a_large_loss_that_is_avoided_costs_no_digits(table: list[list[int]], switches: int) -> None:
    if len(table[0]) > 1:
        table = [[2**60] + [0] * (len(table[0]) - 1), *table]
        assert umab.best_sequence(table, switches).total == by_hand(table, switches)[0]


@given(table=small_tables(), switches=st.integers(0, 8))
def test_tracking_regret_is_what_was_paid_minus_the_best_sequence(table: list[list[int]], switches: int) -> None:
    result = umab.simulate("uniform", table, n_trials=3, expected=False)
    paid = np.array(table)[np.arange(len(table)), result.arms].sum(axis=1)
    assert (result.tracking_regret(switches=switches) == paid - by_hand(table, switches)[0]).all()


def test_several_sequences_from_one_pass() -> None:
    losses = umab.Losses.of(LOSSES)
    for allowed, found in zip((0, 7, 2, 400), best_sequences(losses, (0, 7, 2, 400)), strict=True):
        alone = umab.best_sequence(LOSSES, allowed)
        assert same_arms(found, alone)
        assert found.total == alone.total


def test_it_finds_where_the_best_arm_changes() -> None:
    found = umab.best_sequence(LOSSES + np.array([0.0, 9.0, 18.0]) * np.where(np.arange(300) < 150, 1, -1)[:, None], 1)
    assert found.starts.tolist() == [0, 150] and found.arms.tolist() == [0, 2]


def delays(random: np.random.Generator, n_rounds: int) -> Any:
    return random.integers(9, size=n_rounds)


@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("keep", ["all", "arms"])
@pytest.mark.parametrize(("policy", "late"), [("umab-g-a", None), ("umab-g-a", delays), ("adahedge", None)])
def test_every_kind_of_result(expected: bool, keep: Any, policy: str, late: Any, tmp_path: Path) -> None:
    result = umab.simulate(policy, LOSSES, n_trials=40, expected=expected, keep=keep, delays=late)
    assert same_bits(result.tracking_regret(0), result.final_regret)
    saved = LOSSES.sum(axis=0).min() - umab.best_sequence(LOSSES, 2).total
    assert saved > 10.0
    np.testing.assert_allclose(result.tracking_regret(2), result.final_regret + saved, rtol=1e-12, atol=1e-11)
    result.save(tmp_path / "result")
    assert same_bits(umab.Result.load(tmp_path / "result").tracking_regret(2), result.tracking_regret(2))
    if not expected:
        paid = LOSSES[np.arange(300), result.arms]
        unlimited = (paid - LOSSES.min(axis=1)).sum(axis=1)
        for switches in (299, 10**12):
            np.testing.assert_allclose(result.tracking_regret(switches), unlimited, rtol=1e-12)


@given(seed=st.integers(0, 999), n_rounds=st.integers(1, 40), n_arms=st.integers(1, 5))
def test_laws(seed: int, n_rounds: int, n_arms: int) -> None:
    """No switches, more switches, as many as there are rounds, other orders of the arms: exact, whatever is rounded."""
    rng = np.random.default_rng(seed)
    table = rng.lognormal(0.0, 3.0, size=(n_rounds, n_arms))
    losses, order = umab.Losses.of(table), rng.permutation(n_arms)
    permuted = umab.Losses.of(table[:, order])
    final = rng.normal(size=20)
    regrets = [tracking_regret(final, losses, each) for each in range(n_rounds + 1)]
    assert same_bits(regrets[0], final)
    assert all((more >= less).all() for less, more in itertools.pairwise(regrets))
    for at in (0, n_rounds // 3, n_rounds - 1):
        assert same_bits(tracking_regret(final, permuted, at), regrets[at])
        found, moved = umab.best_sequence(losses, at), umab.best_sequence(permuted, at)
        assert (found.starts == moved.starts).all() and (order[moved.arms] == found.arms).all()
    costs = Costs.of(losses)
    unlimited = np.ldexp(np.ldexp(final, -costs.exponent) + costs.best[-1], costs.exponent)
    assert same_bits(regrets[n_rounds - 1], unlimited) and same_bits(regrets[n_rounds], unlimited)
    free = umab.best_sequence(losses, n_rounds - 1)
    np.testing.assert_array_equal(spelled_out(free, n_rounds), table.argmin(axis=1))


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-300, 2.0**300, 2.0**1000])
@pytest.mark.parametrize("expected", [False, True])
def test_at_any_scale_bit_for_bit(size: float, expected: bool) -> None:
    plain, scaled = (
        umab.simulate("recommended", LOSSES * each, n_trials=20, expected=expected, keep="arms") for each in (1.0, size)
    )
    for switches in (0, 2, 30, 299):
        assert same_bits(plain.tracking_regret(switches) * size, scaled.tracking_regret(switches))
        found, moved = (umab.best_sequence(LOSSES * each, switches) for each in (1.0, size))
        assert same_arms(found, moved)
        assert found.total * size == moved.total


@given(table=small_tables(), shift=st.integers(-(2**40), 2**40), switches=st.integers(0, 5))
def test_what_all_arms_cost_more_changes_nothing(table: list[list[int]], shift: int, switches: int) -> None:
    shifts = shift * np.arange(len(table))[:, None]
    plain, shifted = (umab.best_sequence(each, switches) for each in (table, np.array(table) + shifts))
    assert same_arms(plain, shifted)
    assert shifted.total == plain.total + shifts.sum()
    final = RNG.normal(size=3)
    regrets = (tracking_regret(final, umab.Losses.of(each), switches) for each in (table, np.array(table) + shifts))
    assert same_bits(*regrets)


def least(table: list[list[Fraction]], switches: int) -> Fraction:
    """Return the smallest total in fractions, by what it costs to end at each arm after each number of switches."""
    ends = {(k, 0): Fraction(0) for k in range(len(table[0]))}
    for row in table:
        steps: dict[tuple[int, int], list[Fraction]] = {}
        for ((before, s), paid), after in itertools.product(ends.items(), range(len(row))):
            steps.setdefault((after, s + (after != before)), []).append(paid + row[after])
        ends = {end: min(paid) for end, paid in steps.items() if end[1] <= switches}
    return min(ends.values())


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), switches=st.integers(0, 12))
def test_extreme_losses_are_right_to_the_last_digits(seed: int, switches: int) -> None:
    """In fractions: up to the rounding of sums of the largest cost; inf is what is too large for a double."""
    table = np.random.default_rng(seed).choice(EXTREMES, (12, 3))
    exact = [[Fraction(loss) for loss in row] for row in table.tolist()]
    largest, rounding = Fraction(np.finfo(float).max), Fraction(2) ** -44 * Fraction(np.abs(table).max())
    rounding += Fraction(5e-324)
    result = umab.simulate("uniform", table, n_trials=4, expected=False)
    best = least(exact, switches)
    for arms, got in zip(result.arms.tolist(), result.tracking_regret(switches).tolist(), strict=True):
        regret = sum((row[k] for row, k in zip(exact, arms, strict=True)), Fraction(0)) - best
        if np.isinf(got):
            assert (regret > 0) == (got > 0.0) and abs(regret) >= largest - rounding
        else:
            assert abs(Fraction(got) - regret) <= rounding
    total = umab.best_sequence(table, switches).total
    if np.isinf(total):
        assert (best > 0) == (total > 0.0) and abs(best) >= largest - rounding
    else:
        assert abs(Fraction(total) - best) <= rounding


def test_regret_too_far_below_0() -> None:
    """Against one arm it is −inf, which sampled regret survives because the arms are known; expected regret is nan."""
    table = 1e308 * np.array([[-1.0, 1.0], [1.0, -1.0]] * 3)
    losses = umab.Losses.of(table)
    final, arms = np.array([-np.inf, 0.0]), np.array([[0, 1] * 3, [0] * 6])
    assert tracking_regret(final, losses, 5, arms).tolist() == [0.0, np.inf]
    assert np.isnan(tracking_regret(final, losses, 5)[0]) and tracking_regret(final, losses, 0)[0] == -np.inf
    assert umab.best_sequence(table, 5).total == -np.inf and umab.best_sequence(table, 0).total == 0.0


@pytest.mark.parametrize(
    ("switches", "error", "said"),
    [
        (-1, ValueError, "switches must be at least 0, but got switches=-1"),
        (1.5, TypeError, "switches must be a whole number, but got switches=1.5"),
        (True, TypeError, "switches must be a whole number, but got switches=True"),
        ("2", TypeError, "switches must be a whole number, but got switches='2'"),
    ],
)
def test_refused_numbers_of_switches(switches: Any, error: type[Exception], said: str) -> None:
    result = umab.simulate("uniform", LOSSES, n_trials=1)
    for refusing in (result.tracking_regret, lambda each: umab.best_sequence(LOSSES, each)):
        with pytest.raises(error) as raised:
            refusing(switches)
        assert str(raised.value) == said


def test_refused_results() -> None:
    with pytest.raises(AttributeError, match="only a summary; simulate with keep='all' to get the tracking regret"):
        umab.simulate("uniform", LOSSES, n_trials=1, keep="summary").tracking_regret(1)
    away = LOSSES.copy()
    away[7, 1] = np.nan
    losses = umab.Losses.of(away, missing="away")
    result = umab.simulate("uniform", losses, n_trials=1)
    for refusing in (lambda: result.tracking_regret(1), lambda: umab.best_sequence(losses, 1)):
        with pytest.raises(ValueError, match=r"tracking regret needs the losses of all arms.* row 7 of arm '1'"):
            refusing()


def test_the_regret_needs_no_memory_for_the_sequence() -> None:
    losses = umab.Losses.of(np.random.default_rng(0).random((5000, 2)))
    peaks = []
    for call in (lambda: tracking_regret(np.zeros(1), losses, 200), lambda: umab.best_sequence(losses, 200)):
        call()  # what the first call in a process loads is not of interest
        tracemalloc.start()
        call()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 1e6 < 5000 * 200 * 8 < peaks[1]
