"""The regret of simulations in which arms are sometimes away, as docs/arms.md defines it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import same_bits, some_mask
from umab.engine.interpreted import play
from umab.results.among import CostsAmong, costs_of
from umab.testing import EXTREMES, Array

Mask = npt.NDArray[np.bool_]

RNG = np.random.default_rng(0)
LOSSES = RNG.normal(size=(300, 4)) + np.array([0.0, 0.3, 0.6, 0.9])
MASK = some_mask(RNG, 300, 4)


def plain_regret(losses: Array, mask: Mask, costs: Array) -> Array:
    """Return R_t as docs/arms.md defines it, in NumPy; `costs` is what each trial paid in each round."""
    against = np.where(mask, costs[:, :, None] - losses, 0.0).cumsum(axis=1)
    seen = mask.cumsum(axis=0) > 0
    return np.asarray(np.where(seen, against, -np.inf).max(axis=2))


def paid(losses: Array, arms: Any) -> Array:
    return np.asarray(losses[np.arange(len(losses)), arms])


@st.composite
def tables(draw: st.DrawFn) -> tuple[Array, Mask]:
    seed, n_rounds, n_arms = draw(st.integers(0, 999)), draw(st.integers(1, 30)), draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rounds, n_arms)) * draw(st.sampled_from([1.0, 100.0])), some_mask(rng, n_rounds, n_arms)


@given(case=tables())
def test_regret_is_the_largest_over_arms_while_they_are_there(case: tuple[Array, Mask]) -> None:
    losses, mask = case
    sampled = umab.simulate("umab-g-a:rate=4", losses, eligible=mask, n_trials=3, expected=False)
    np.testing.assert_allclose(sampled.regret, plain_regret(losses, mask, paid(losses, sampled.arms)), atol=1e-10)
    final = costs_of(sampled.losses).final_regret(sampled.arms)
    np.testing.assert_allclose(final, sampled.regret[:, -1], atol=1e-10)
    expected = umab.simulate("umab-g-a:rate=4", losses, eligible=mask, n_trials=1, expected=True)
    costs = [cost for cost, _ in expected_costs("umab-g-a:rate=4", losses, mask)]
    np.testing.assert_allclose(expected.regret, plain_regret(losses, mask, np.array([costs])), atol=1e-10)


def expected_costs(name: str, losses: Array, mask: Mask) -> Iterator[tuple[float, Array]]:
    """Yield ⟨q_t, ℓ_t⟩ and q_t of trial 0, round by round."""
    p = np.array(umab.policy(name).init(losses.shape[1]).probabilities)
    for t, step in enumerate(play(name, losses, eligible=mask)):
        share = np.where(mask[t], p, 0.0)
        q = share / share.sum() if share.sum() > 0.0 else mask[t] / mask[t].sum()
        yield float(q @ losses[t]), q
        p = np.array(step.state.probabilities)


def test_an_arm_that_no_probability_is_on_costs_on_average_what_it_is_drawn_for() -> None:
    """AHB plays each arm first, and one of the others is then drawn at random."""
    losses, mask = LOSSES[:6], np.array([[False, True, True, True]] + [[True, True, False, True]] * 5)
    result = umab.simulate("ahb", losses, eligible=mask, n_trials=2, expected=True)
    costs = [cost for cost, _ in expected_costs("ahb", losses, mask)]
    np.testing.assert_allclose(result.regret[:1], plain_regret(losses, mask, np.array([costs])), atol=1e-12)


@given(case=tables(), seed=st.integers(0, 99))
def test_the_order_of_the_arms_does_not_change_the_regret(case: tuple[Array, Mask], seed: int) -> None:
    losses, mask = case
    order = np.random.default_rng(seed).permutation(losses.shape[1])
    there = [np.flatnonzero(row) for row in mask]
    arms = np.array([[np.random.default_rng(seed + t).choice(row) for t, row in enumerate(there)]])
    plain, permuted = (
        CostsAmong.of(umab.Losses.of(losses[:, which], eligible=mask[:, which]))
        for which in (np.arange(len(order)), order)
    )
    moved = np.argsort(order)[arms]
    assert same_bits(plain.regret(arms), permuted.regret(moved))
    np.testing.assert_allclose(plain.final_regret(arms), permuted.final_regret(moved), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-300, 2.0**300, 2.0**1000])
@pytest.mark.parametrize("expected", [False, True])
def test_regret_at_any_scale(size: float, expected: bool) -> None:
    plain, scaled = (
        umab.simulate("umab-nn", np.abs(LOSSES) * each, eligible=MASK, n_trials=40, expected=expected)
        for each in (1.0, size)
    )
    for name in ("regret", "mean", "sd", "final_regret"):
        assert same_bits(getattr(plain, name) * size, getattr(scaled, name))


def test_a_large_loss_that_all_arms_share_hides_nothing() -> None:
    for shared, small in ((1e308, 1e-20), (1.0, 1e-170)):
        losses = np.vstack([[shared, shared, -shared], np.tile([0.0, small, -shared], (99, 1))])
        mask = np.tile([True, True, False], (100, 1))  # what is under the mask hides nothing either
        result = umab.simulate("uniform", losses, eligible=mask, n_trials=200, expected=False)
        np.testing.assert_allclose(result.final_regret, small * result.arms[:, 1:].sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(result.sd[-1], (result.final_regret / small).std(ddof=1) * small, rtol=1e-10)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_regret_of_extreme_losses_is_right_to_the_last_digits(seed: int) -> None:
    """In fractions: up to the rounding of sums of the largest cost; inf is what is too large for a double."""
    rng = np.random.default_rng(seed)
    losses, mask = rng.choice(EXTREMES, (12, 3)), some_mask(rng, 12, 3)
    rounding = Fraction(2) ** -44 * Fraction(np.abs(losses[mask]).max()) + Fraction(5e-324)
    result = umab.simulate("uniform", losses, eligible=mask, n_trials=2, expected=False)
    for trial, arms in enumerate(result.arms.tolist()):
        sums: dict[int, Fraction] = {}
        for t, arm in enumerate(arms):
            for k in np.flatnonzero(mask[t]).tolist():
                gap = Fraction(losses[t, arm]) - Fraction(losses[t, k])
                sums[k] = sums.get(k, Fraction(0)) + gap
            largest = max(sums.values())
            got = float(result.regret[trial, t])
            if np.isinf(got):
                assert (largest > 0) == (got > 0.0) and abs(largest) >= Fraction(np.finfo(float).max) - rounding
            else:
                assert abs(Fraction(got) - largest) <= rounding


def test_one_arm_at_a_time_is_no_choice() -> None:
    mask = np.zeros(LOSSES.shape, dtype=bool)
    mask[np.arange(300), RNG.integers(4, size=300)] = True
    for expected in (False, True):
        result = umab.simulate("recommended", LOSSES, eligible=mask, n_trials=3, expected=expected)
        assert (result.regret == 0.0).all() and (result.arms == mask.argmax(axis=1)).all()


def test_an_arm_that_comes_late_does_not_count_before() -> None:
    losses = np.array([[1.0, -5.0], [1.0, -5.0], [1.0, 0.0]])
    mask = np.array([[True, False], [True, False], [False, True]])
    assert umab.simulate("uniform", losses, eligible=mask, n_trials=1).regret.tolist() == [[0.0, 0.0, 0.0]]
    late = np.array([[True, True], [True, False], [True, True]])
    result = umab.simulate("uniform", losses, eligible=late, n_trials=50, expected=False)
    # Against arm 1, which is there in rounds 0 and 2: 6 for arm 0 in round 0, and 1 for arm 0 in round 2.
    assert set(result.final_regret.tolist()) == {0.0, 1.0, 6.0, 7.0}
    np.testing.assert_array_equal(result.regret, plain_regret(losses, late, paid(losses, result.arms)))


def test_expected_and_sampled_regret_have_the_same_mean_against_one_arm() -> None:
    """Arm 0 is far the best, so that the regret against it is always the largest; within four standard errors."""
    losses = LOSSES + np.array([0.0, 3.0, 3.0, 3.0])
    mask = MASK | (np.arange(300)[:, None] % 2 == 0)
    sampled, expected = (
        umab.simulate("umab-g-a:rate=4", losses, eligible=mask, n_trials=2000, expected=each) for each in (False, True)
    )
    against_0 = np.where(mask[:, 0], paid(losses, sampled.arms) - losses[:, 0], 0.0).sum(axis=1)
    np.testing.assert_allclose(sampled.final_regret, against_0, atol=1e-9)
    gap = sampled.final_regret - expected.final_regret
    error = gap.std(ddof=1) / np.sqrt(2000)
    assert error > 0.0 and abs(gap.mean()) < 4.0 * error
    # Against the largest of several they differ: a maximum of noisy numbers is larger than the maximum of their means.
    flat = [
        umab.simulate("uniform", np.tile(LOSSES[:, :1], 4), eligible=MASK, n_trials=2, expected=True),
        umab.simulate("uniform", RNG.normal(size=LOSSES.shape), eligible=MASK, n_trials=500, expected=False),
        umab.simulate("uniform", np.zeros(LOSSES.shape), eligible=MASK, n_trials=2, expected=True),
    ]
    assert flat[0].mean[-1] == pytest.approx(0.0, abs=1e-9) and flat[2].mean[-1] == 0.0 < flat[1].mean[-1]
