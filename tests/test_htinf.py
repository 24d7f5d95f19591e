"""HTINF, OptTINF and AdaTINF against their definition in 40 digits, and the step that they need."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_htinf as reference
import umab
from umab.algorithms.ada_tinf import shrinkage
from umab.algorithms.htinf import threshold_for
from umab.maths import powers, simplex
from umab.maths.numerics import FLOOR
from umab.testing import Array, forced, forced_interpreted


def check(policy: umab.Policy, arms: list[int], losses: list[float], right: Array) -> None:
    """Both runtimes have these distributions."""
    for run in (forced, forced_interpreted):
        np.testing.assert_allclose(run(policy, arms, losses, right.shape[1]), right, rtol=1e-10)


def heavy(n_arms: int, n_rounds: int, size: float = 1.0) -> tuple[list[int], list[float]]:
    """Return arms, the first one more often, and losses of both signs, some of them very large."""
    random = np.random.default_rng(n_arms)
    arms = np.where(random.random(n_rounds) < 0.5, 0, random.integers(n_arms, size=n_rounds))
    losses = size * (0.3 * random.standard_cauchy(n_rounds) + np.where(arms == 0, -0.1, 0.3))
    return arms.tolist(), losses.tolist()


@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0])
@pytest.mark.parametrize(("n_arms", "sigma"), [(1, 1.0), (2, 3.0), (3, 0.01), (5, 1.0), (66, 10.0)])
def test_htinf_against_its_definition(alpha: float, n_arms: int, sigma: float) -> None:
    arms, losses = heavy(n_arms, 60, sigma if n_arms < 66 else 0.1 * sigma)
    policy = umab.HTINF(alpha=alpha, sigma=sigma)
    rows, skips = reference.htinf(policy, arms, losses, n_arms)
    assert any(skips) and not all(skips)
    check(policy, arms, losses, rows)


def test_opttinf_is_htinf_for_a_mean_square_of_one() -> None:
    assert umab.policy("opttinf") == umab.HTINF(alpha=2, sigma=1)
    assert umab.policy("htinf") == umab.HTINF(alpha=1.5, sigma=1)


@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0])
def test_the_link_of_htinf_is_linear_in_the_sums(alpha: float) -> None:
    """So an arm that is added gets the sum that would have given it a fair share."""
    policy = umab.HTINF(alpha=alpha)
    parameters, state = policy.parameters_for(4), policy.init(4)
    for arm in range(4):
        state = policy.update(parameters, state, arm, 0.01 * arm, state.probabilities[arm])
    assert len(set(state.loss_sums)) == 4
    gaps = np.diff([policy.link(each) for each in state.probabilities])
    np.testing.assert_allclose(gaps, policy.rates(state)["η"] * np.diff(state.loss_sums), rtol=1e-9)


SIZES = {"everyday": 1.0, "small": 1e-4, "hundreds": 300.0, "huge": 1e250}


@pytest.mark.parametrize("anytime", [False, True])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("n_arms", [1, 2, 4])
def test_adatinf_against_its_definition(anytime: bool, size: float, n_arms: int) -> None:
    """70 rounds are six epochs and the beginning of the seventh."""
    arms, losses = heavy(n_arms, 70, size)
    policy = umab.AdaTINF(anytime=True) if anytime else umab.AdaTINF(horizon=70)
    rows, skips, levels = reference.ada_tinf(policy, arms, losses, n_arms)
    assert not all(skips) or size > 1e3
    largest_jump = max(np.diff([0, *levels]))
    assert largest_jump > 1 if size > 1.0 else size == 1.0 or largest_jump == 0
    check(policy, arms, losses, rows)


def test_adatinf_jumps_by_one_step_and_by_several_and_goes_on_learning() -> None:
    """Losses that grow slowly raise J step by step, and one that is 1000 times as large by several at once."""
    arms = [t % 3 for t in range(80)]
    losses = [0.5 * 1.1**t * (1.0 + t % 3) for t in range(80)]
    losses[40] *= 1000.0
    policy = umab.AdaTINF(horizon=20)
    rows, skips, levels = reference.ada_tinf(policy, arms, losses, 3)
    assert {0, 1} < set(np.diff([0, *levels])) and max(np.diff(levels)) > 4
    assert 0 < sum(skips) < 80
    check(policy, arms, losses, rows)


def test_epochs_are_policies_of_their_own() -> None:
    arms, losses = heavy(3, 57, 4.0)
    rows = forced(umab.AdaTINF(anytime=True), arms, losses, 3)
    start = 0
    for j in range(1, 6):
        length = 2**j - 1
        part = slice(start, start + length)
        alone = forced(umab.AdaTINF(horizon=length), arms[part], losses[part], 3)
        np.testing.assert_allclose(rows[part], alone[:-1], rtol=1e-14)
        start += length
    assert start == 57


@pytest.mark.parametrize("level", [0, 1, 5, 900, 1023])
def test_j_grows_by_the_rounded_logarithm_also_next_to_powers_of_two(level: int) -> None:
    power = 2.0**level
    for excess in (power, math.nextafter(power, 0.0), math.nextafter(power, math.inf), 0.75 * power, 1.5 * power):
        with mpmath.workdps(400):
            steps = max(1, int(mpmath.ceil(mpmath.log(mpmath.mpf(excess), 2))) + 1)
        assert shrinkage(excess) == 2.0**-steps
    assert shrinkage(0.0) == shrinkage(-3.0) == 0.5


def test_the_largest_losses_move_j_beyond_the_powers_of_two_that_are_doubles() -> None:
    policy = umab.AdaTINF(horizon=1)
    parameters, state = policy.parameters_for(2), policy.init(2)
    for t in range(200):
        state = policy.update(parameters, state, t % 2, 1.7e308, 1e-3)
        assert 0.0 < state.unit < 2.0**-1022 and math.isfinite(state.cost_sum)
    assert state.probabilities == pytest.approx([0.5, 0.5], abs=0.4)


def test_thresholds_are_those_of_the_paper() -> None:
    assert threshold_for(2.0) == pytest.approx(1 - 2 ** (-1 / 3), rel=1e-15)
    assert threshold_for(1.5) == pytest.approx(1 - 2**-0.25, rel=1e-15)
    for alpha in np.linspace(1.0, 2.0, 102)[1:-1].tolist():
        both = 1 - 2 ** (-(alpha - 1) / (2 * alpha - 1)), (2 - 2 / alpha) ** (1 / (2 - alpha))
        assert threshold_for(alpha) == pytest.approx(min(both), rel=1e-12)
    assert threshold_for(2.0 - 1e-9) == pytest.approx(threshold_for(2.0), rel=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: umab.HTINF(alpha=1.0), "above 1 and at most 2, .*alpha=1.0"),
        (lambda: umab.HTINF(alpha=2.5), "above 1 and at most 2, .*alpha=2.5"),
        (lambda: umab.HTINF(alpha=float("nan")), "finite, .*alpha=nan"),
        (lambda: umab.policy("htinf:sigma=0"), "above 0, .*sigma=0"),
        (lambda: umab.AdaTINF(horizon=0), "at least 1, .*horizon=0"),
        (lambda: umab.AdaTINF(horizon=10, anytime=True), "None if anytime is True, .*horizon=10"),
        (lambda: umab.Learner("adatinf", 2), "adatinf .*horizon=.*adatinf-anytime"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# The step.


def worst_error(loss_sums: list[float], rate: float, power: float) -> float:
    """Return the largest relative error of a probability, from wherever the search starts."""
    n_arms, worst = len(loss_sums), 0.0
    with mpmath.workdps(80):
        # The gaps are rounded as in the code: it is their distribution that must be right.
        gaps = [0.0] * n_arms
        simplex.scaled_gaps(loss_sums, min(loss_sums), rate, gaps)
        a = mpmath.mpf(power)
        exact = reference.leader([mpmath.mpf(each) for each in gaps], mpmath.mpf(1), a / (a - 1))
        floored = [max(each, mpmath.mpf(FLOOR)) for each in exact]
        for p in ([0.0] * n_arms, [1.0] * n_arms, [1.1 * float(each) for each in floored], [1.0 / n_arms] * n_arms):
            powers.tsallis_power(loss_sums, rate, power, p)
            worst = max(worst, *(float(abs(mine / right - 1)) for mine, right in zip(p, floored, strict=True)))
    return worst


@pytest.mark.parametrize("power", [1.2, 2.0, 3.0, 11.0, 64.0])
@pytest.mark.parametrize("n_arms", [1, 2, 3, 70, 400])
@pytest.mark.parametrize("size", [1e-300, 1e-6, 1.0, 1e3, 1e150])
def test_the_step_is_accurate(n_arms: int, size: float, power: float) -> None:
    loss_sums = (np.random.default_rng(n_arms).normal(size=n_arms) * size).tolist()
    assert worst_error(loss_sums, 0.7, power) < 1e-13


@pytest.mark.parametrize("power", [65.0, 1e3, 1e8, 1e15])
def test_the_step_is_accurate_next_to_the_entropy(power: float) -> None:
    """There, gaps of the size 1/a matter; those of probabilities near the floor lose a digit."""
    for n_arms in (2, 5, 70):
        loss_sums = (np.random.default_rng(n_arms).normal(size=n_arms) / power).tolist()
        assert worst_error(loss_sums, 1.0, power) < 1e-14
        assert worst_error(loss_sums, 100.0, power) < 1e-12


@given(
    st.lists(st.floats(-1e300, 1e300) | st.floats(-10.0, 10.0), min_size=1, max_size=8),
    st.floats(-300, 300).map(lambda exponent: 10.0**exponent),
    st.floats(1.001, 2.0),
)
def test_the_step_is_accurate_for_what_nobody_thought_of(loss_sums: list[float], rate: float, alpha: float) -> None:
    assert worst_error(loss_sums, rate, alpha / (alpha - 1.0)) < 1e-12


def test_the_step_survives_differences_beyond_the_doubles() -> None:
    p = [0.0, 0.0]
    powers.tsallis_power([-1.7e308, 1.7e308], 4.0, 3.0, p)
    assert p == [1.0, FLOOR]


def test_the_step_with_power_two_is_that_of_tsallis() -> None:
    loss_sums: Array = np.random.default_rng(0).normal(size=9)
    first, second = [0.0] * 9, [0.0] * 9
    simplex.tsallis(loss_sums.tolist(), 0.3, first)
    powers.tsallis_power(loss_sums.tolist(), 0.3, 2.0, second)
    np.testing.assert_allclose(first, second, rtol=1e-13)


@pytest.mark.parametrize(("alpha", "n_arms"), [(1.1, 2), (1.5, 10), (1.9, 100)])
def test_few_passes_over_the_arms_find_the_next_distribution(
    alpha: float, n_arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, falling_sums = [0], powers.falling_sums

    def counted(*arguments: Any) -> Any:
        passes[0] += 1
        return falling_sums(*arguments)

    monkeypatch.setattr(powers, "falling_sums", counted)
    arms, losses = heavy(n_arms, 300)
    forced_interpreted(umab.HTINF(alpha=alpha), arms, losses, n_arms)
    assert 250 < passes[0] <= 2.2 * 300
