"""Units of a power of two, and sums that stay exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from helpers import same_bits, state_of
from umab import numerics
from umab.algorithms.base import Policy
from umab.testing import compiled_state, forced

sizes = st.floats(allow_nan=False, allow_infinity=False).filter(lambda size: abs(size) >= 2.0**-1022)


@given(sizes)
def test_unit_brings_any_normal_double_between_a_half_and_one(size: float) -> None:
    unit = numerics.unit_of(size)
    assert 0.5 <= abs(size * unit) < 1.0
    assert Fraction(size * unit) == Fraction(size) * Fraction(unit)  # nothing is rounded
    assert math.frexp(unit)[0] == 0.5


@given(sizes, sizes)
def test_the_unit_changes_only_when_a_loss_outgrows_it(first: float, second: float) -> None:
    unit = numerics.unit_of(first)
    fitted, shrink = numerics.fit_unit(unit, second)
    assert abs(second * fitted) < 1.0
    if abs(second * unit) < 1.0:
        assert (fitted, shrink) == (unit, 1.0)
    else:
        assert fitted < unit
        assert Fraction(shrink) == Fraction(fitted) / Fraction(unit) or fitted / unit < 2.0**-1022


@pytest.mark.parametrize("loss", [0.1, 1 / 3, 0.7, 1e-170, 1e307])
@pytest.mark.parametrize("policy", [umab.UMABNN(), umab.UMABGA(initial_scale=1e-300)])
def test_a_million_equal_losses_sum_exactly(policy: Policy, loss: float) -> None:
    state = compiled_state(policy, np.full((1_000_000, 1), loss))
    exact = 1_000_000 * Fraction(loss) ** 2
    assert abs(Fraction(state.square_sum) / (exact * Fraction(state.unit) ** 2) - 1) < 1e-12


@pytest.mark.parametrize("size", [1e-307, 1e-170, 1e170, 1e307])
def test_umab_nn_behaves_at_any_size_as_it_does_at_one(size: float) -> None:
    random = np.random.default_rng(0)
    losses, arms = random.random(200), random.integers(4, size=200)
    policy = umab.UMABNN()
    np.testing.assert_allclose(forced(policy, arms, losses * size, 4), forced(policy, arms, losses, 4), rtol=1e-11)
    power = 2.0 ** round(math.log2(size))
    assert same_bits(forced(policy, arms, losses * power, 4), forced(policy, arms, losses, 4))


def test_a_tiny_threshold_next_to_a_huge_loss_still_doubles() -> None:
    """In the units of the sums C would vanish, and a threshold of 0 would clip every negative loss for ever."""
    learner = umab.Learner(umab.UMABGA(initial_scale=1e-300), 2)
    learner.update(0, 1e300)
    for doublings in range(1, 50):
        learner.update(0, -1e300)
        assert state_of(learner).clip == -1e-300 * 2.0**doublings
