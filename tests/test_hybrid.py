"""The leader with two regularizers, against arithmetic of 40 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from umab.maths.hybrid import hybrid, log_of_root
from umab.maths.numerics import FLOOR
from umab.maths.simplex import softmin, tsallis


def worst_error(sums: list[float], root_weight: float, entropy_weight: float) -> float:
    """Return the largest relative error of a probability, from wherever the search starts."""
    with mpmath.workdps(40):
        weights = mpmath.mpf(root_weight), mpmath.mpf(entropy_weight)
        exact = [max(each, mpmath.mpf(FLOOR)) for each in reference.hybrid(list(map(mpmath.mpf, sums)), *weights)]
        worst, found = 0.0, [0.0] * len(sums)
        for start in (0.0, 1.0 / len(sums), 1.0, None):  # the last is the solution itself
            found = list(found) if start is None else [start] * len(sums)
            hybrid(sums, root_weight, entropy_weight, found)
            worst = max(worst, *(float(abs(mine / right - 1)) for mine, right in zip(found, exact, strict=True)))
        return worst


@pytest.mark.parametrize("ratio", [0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, 1e12, np.inf])
@pytest.mark.parametrize("n_arms", [1, 2, 10])
def test_it_is_accurate_whatever_the_ratio_of_the_weights(ratio: float, n_arms: int) -> None:
    random = np.random.default_rng(n_arms)
    weights = (0.0, 1.0) if ratio == 0.0 else (1.0, 0.0) if ratio == np.inf else (ratio, 1.0)
    for size in (0.0, 1.0, 100.0, 1e5):
        assert worst_error((random.standard_cauchy(n_arms) * size).tolist(), *weights) < 1e-12


@given(
    sums=st.lists(st.floats(-1e3, 1e3) | st.floats(-1e300, 1e300), min_size=1, max_size=8),
    root_weight=st.floats(-100, 100).map(lambda power: 10.0**power),
    ratio=st.floats(-20, 20).map(lambda power: 10.0**power),
)
def test_it_is_accurate_for_what_nobody_thought_of(sums: list[float], root_weight: float, ratio: float) -> None:
    assert worst_error(sums, root_weight, root_weight * ratio) < 1e-12


def test_many_arms() -> None:
    random = np.random.default_rng(0)
    assert worst_error((random.normal(size=200) * 30).tolist(), 3.0, 2.0) < 1e-12


def test_differences_beyond_the_doubles() -> None:
    p = [0.0, 0.0]
    hybrid([-1.7e308, 1.7e308], 4.0, 1.0, p)
    assert p == [1.0, FLOOR]


def test_one_regularizer_alone() -> None:
    sums = [0.0, 1.0, 5.0, -2.0]
    mine, other = [0.25] * 4, [0.25] * 4
    hybrid(sums, 3.0, 0.0, mine)
    tsallis(sums, 1 / 3.0, other)
    assert mine == pytest.approx(other, rel=1e-13)
    hybrid(sums, 0.0, 3.0, mine)
    softmin(sums, 1 / 3.0, other)
    assert mine == pytest.approx(other, rel=1e-13)


@given(
    a=st.floats(0, 1) | st.floats(-30, 0).map(lambda power: 10.0**power),
    y=st.floats(0, 8).map(lambda power: 10.0**power - 1.0),
    guess=st.floats(0, 400),
)
def test_a_root_from_any_guess(a: float, y: float, guess: float) -> None:
    c, y = 1.0 - a, y + a
    s = log_of_root(a, c, y, guess)
    with mpmath.workdps(50):
        left = mpmath.mpf(a) * mpmath.exp(s) + mpmath.mpf(c) * s
        step = abs((left - y) / (mpmath.mpf(a) * mpmath.exp(s) + c))
    assert s == 350.0 or step <= 1e-15 * (1.0 + s)
