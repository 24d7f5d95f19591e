"""The steps on the simplex, against arithmetic of 60 digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from umab.algorithms import sf_mab
from umab.engine.interpreted import play
from umab.maths import simplex
from umab.maths.numerics import FLOOR
from umab.testing import Array


def worst_error(loss_sums: list[float], rate: float) -> float:
    """Return the largest relative error of a probability, from wherever the search starts."""
    with mpmath.workdps(60):
        exact = reference.log_barrier([mpmath.mpf(loss) for loss in loss_sums], mpmath.mpf(rate))
        floored = [max(each, mpmath.mpf(FLOOR)) for each in exact]
        return max(
            float(abs(mine / right - 1))
            for p in starts(loss_sums, rate)
            for mine, right in zip(p, floored, strict=True)
        )


def starts(loss_sums: list[float], rate: float) -> Iterator[list[float]]:
    """Yield solutions that were looked for from different places: none, equal, certain, the solution, and near it."""
    n_arms = len(loss_sums)
    if n_arms > 10_000:  # takes its time
        p = [0.0] * n_arms
        simplex.log_barrier(loss_sums, rate, p)
        yield p
        return
    for start in (0.0, 1.0 / n_arms, 1.0):
        p = [start] * n_arms
        simplex.log_barrier(loss_sums, rate, p)
        yield p
        for factor in (1.0, 0.7, 1.01):
            again = [factor * each for each in p]
            simplex.log_barrier(loss_sums, rate, again)
            yield again


def hard_case(n_arms: int) -> list[float]:
    """Return sums for which μ = √n at rate 1: there the error of the sum weighs most, √n times."""
    root = n_arms**0.5
    rest = (n_arms - 1) / (1 - 1 / root) - root
    return [0.0] + [rest] * (n_arms - 1)


@pytest.mark.parametrize("n_arms", [1, 2, 3, 7, 64, 65, 1000, 5000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_log_barrier_is_accurate_for_few_arms_and_many(n_arms: int) -> None:
    random = np.random.default_rng(n_arms)
    cases = {
        "normal": (random.normal(size=n_arms) * n_arms, 0.3),
        "heavy tails": (random.standard_cauchy(size=n_arms) ** 3, 0.3),
        "equal": (np.full(n_arms, 3.7), 0.3),
        "hard": (np.array(hard_case(n_arms)) if n_arms > 1 else np.zeros(1), 1.0),
    }
    if n_arms >= 5000:  # 60 digits take their time
        cases = {"hard": cases["hard"], "normal": cases["normal"]}
    for name, (loss_sums, rate) in cases.items():
        assert worst_error(loss_sums.tolist(), rate) < 1e-12, name


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-8, 1.0, 1e16, 1e200, 1e300])
@pytest.mark.parametrize("rate", [1e-3, 1.0, 4.0])
def test_log_barrier_is_accurate_for_any_difference(size: float, rate: float) -> None:
    random = np.random.default_rng(0)
    for shape in ([0.0, 1.0], [0.0, 0.0, 1.0], [-1.0, 0.5, 1.0], random.normal(size=10), random.random(size=70)):
        loss_sums = np.asarray(shape) * size
        assert worst_error(loss_sums.tolist(), rate) < 1e-12
        assert worst_error((loss_sums / size).tolist(), size) < 1e-12
    assert worst_error([0.0, 1e-300, 1e300, 1.0, size], rate) < 1e-12


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=12),
    st.floats(-300, 300).map(lambda power: 10.0**power),
)
def test_log_barrier_is_accurate_for_what_nobody_thought_of(loss_sums: list[float], rate: float) -> None:
    assert worst_error(loss_sums, rate) < 1e-12


def test_log_barrier_survives_differences_beyond_the_doubles() -> None:
    p = [0.0, 0.0]
    simplex.log_barrier([-1.7e308, 1.7e308], 4.0, p)
    assert p == [1.0, FLOOR]


@pytest.mark.parametrize("n_arms", [2, 10, 100])
@pytest.mark.parametrize(
    ("name", "passes"), [("umab-g-a", 1.6), ("umab-g-a:rate=4", 2.1), ("centred(umab-s)", 2.2), ("scb", 2.1)]
)
def test_two_passes_over_the_arms_or_fewer_find_the_next_distribution(
    name: str, passes: float, n_arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On average over rounds some of which have a loss a hundred times as large as usual."""
    counts = {"solved": 0, "passes": 0}
    power_shift, reciprocal_sums = simplex.power_shift, simplex.reciprocal_sums

    def counted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counts[what] += 1
            return function(*arguments)

        return call

    for module in (simplex, sf_mab):
        monkeypatch.setattr(module, "power_shift", counted("solved", power_shift))
    monkeypatch.setattr(simplex, "reciprocal_sums", counted("passes", reciprocal_sums))
    random = np.random.default_rng(n_arms)
    losses = random.normal(np.linspace(0.0, 1.0, n_arms), size=(300, n_arms))
    losses *= 1.0 + 100.0 * (random.random((300, 1)) < 0.01)
    for _ in play(name, losses):
        pass
    assert counts["solved"] > 290 and counts["passes"] <= passes * counts["solved"]


@pytest.mark.parametrize(
    ("p", "rate", "raised"),
    [
        ([0.9, 0.02, 0.08], 0.05, [0.85, 0.07, 0.08]),
        ([0.01, 0.98, 0.01], 0.05, [0.06, 0.88, 0.06]),
        ([0.3, 0.3, 0.4], 0.05, [0.3, 0.3, 0.4]),
        ([0.49, 0.49, 0.02], 0.05, [0.44, 0.49, 0.07]),  # a tie goes to the first arm
        ([0.95, 0.05], 0.05, [0.95, 0.05]),  # an arm at the rate itself is not raised
    ],
)
def test_extra_exploration(p: list[float], rate: float, raised: list[float]) -> None:
    before = list(p)
    offsets = [9.0] * len(p)
    simplex.explore(p, simplex.likeliest(p), rate, offsets)
    np.testing.assert_allclose(p, raised, atol=1e-15)
    np.testing.assert_allclose(np.array(before) + rate * np.array(offsets), raised, atol=1e-15)
    assert sum(offsets) == 0.0


def test_log_barrier_says_which_arm_is_the_likeliest() -> None:
    p = [0.0, 0.0, 0.0]
    assert (
        simplex.log_barrier([1e-17, 0.0, 1e6], 1.0, p) == 1
    )  # the smallest sum, though the first p rounds to the same
    assert p[0] == p[1] == max(p)
    assert simplex.log_barrier([0.0, 0.0, 1e6], 1.0, p) == 0


def test_sums_of_many_values_keep_their_digits() -> None:
    values = [0.1] * 1_000_000
    assert simplex.sum_of(values) == pytest.approx(math.fsum(values), rel=1e-14)
    assert simplex.sum_of([]) == 0.0


def test_draw_inverts_the_cumulative_sum_in_arm_order() -> None:
    p: Array = np.array([0.25, 0.5, 0.25])
    for uniform, arm in ((0.0, 0), (0.2499, 0), (0.25, 1), (0.7499, 1), (0.75, 2), (1 - 2**-53, 2)):
        assert simplex.draw(p.tolist(), uniform) == arm


def test_draw_gives_a_gap_left_by_rounding_to_the_likeliest_arm() -> None:
    assert simplex.draw([0.3, 0.6, 0.1 - 1e-9], 1 - 2**-53) == 1


@pytest.mark.parametrize("n_arms", [1, 2, 3, 70, 400])
@pytest.mark.parametrize("size", [1e-300, 1e-6, 1.0, 1e3, 1e150])
def test_tsallis_is_accurate(n_arms: int, size: float) -> None:
    loss_sums = (np.random.default_rng(n_arms).normal(size=n_arms) * size).tolist()
    with mpmath.workdps(50):
        exact = reference.tsallis([mpmath.mpf(loss) for loss in loss_sums], mpmath.mpf(0.7))
        floored = [max(each, mpmath.mpf(FLOOR)) for each in exact]
        for p in ([0.0] * n_arms, [1.0] * n_arms, [1.1 * float(each) for each in floored]):
            simplex.tsallis(loss_sums, 0.7, p)
            assert max(float(abs(mine / right - 1)) for mine, right in zip(p, floored, strict=True)) < 1e-12


@pytest.mark.parametrize("n_arms", [1, 2, 70, 100_000])
@pytest.mark.parametrize("size", [1e-300, 1.0, 50.0, 1e300])
def test_softmin_is_accurate(n_arms: int, size: float) -> None:
    loss_sums = (np.random.default_rng(n_arms).random(size=n_arms) * size).tolist()
    p = [0.0] * n_arms
    simplex.softmin(loss_sums, 2.0, p)
    x = 2.0 * (np.array(loss_sums) - min(loss_sums))
    exact = np.maximum(np.exp(-x) / math.fsum(np.exp(-x)), FLOOR)
    np.testing.assert_allclose(p, exact, rtol=1e-12)
