"""The level of the losses: which prediction it is, its laws, and the policies on losses above it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import same_bits, state_of
from reference_umab_w import locally_centred
from umab.algorithms.local import LocallyCentred
from umab.checks import LARGEST
from umab.maths.level import FIRST, Level, above, followed, moves, no_level
from umab.testing import EXTREMES, Array, check_policy, forced

seeds = st.integers(0, 2**32 - 1)
whole = st.integers(-(2**20), 2**20).map(float)


def after(losses: Sequence[float]) -> Level:
    level = no_level()
    for loss in losses:
        level = followed(level, loss)
    return level


def distances(losses: Sequence[float]) -> list[float]:
    """Return every loss above the level of the losses before it."""
    level, found = no_level(), []
    for loss in losses:
        found.append(above(level, loss, moves(level)))
        level = followed(level, loss)
    return found


def walk(seed: int, n_losses: int, step: float, noise: float = 1.0) -> list[float]:
    random = np.random.default_rng(seed)
    level = np.cumsum(step * random.normal(size=n_losses))
    return [float(each) for each in level + noise * random.normal(size=n_losses)]


@pytest.mark.parametrize("step", [0.0, 0.2, 1.0, 10.0])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e250])
def test_against_its_definition(step: float, scale: float) -> None:
    losses = [scale * each for each in walk(3, 300, step)]
    np.testing.assert_allclose(distances(losses), locally_centred(losses), rtol=1e-9, atol=1e-12 * scale)


def test_by_hand() -> None:
    """After 4 and 8: the means are 6, as every rate is at least 1/n; the errors are 0 and 4²."""
    level = after([4.0, 8.0])
    assert (level.origin, level.mean, level.fast, level.slow) == (4.0, 2.0, 2.0, 2.0)
    assert above(level, 9.0, local=False) == 3.0 and above(no_level(), 9.0, local=False) == 0.0
    assert [each / level.unit**2 for each in (level.mean_errors, level.fast_errors, level.slow_errors)] == [16.0] * 3
    steps = after([0.0] * 64 + [64.0])  # the rates are 1/65, 1/8 and 1/64
    assert (steps.mean, steps.fast, steps.slow) == (64.0 / 65.0, 8.0, 1.0)


def test_the_level_is_local_where_the_losses_wander_and_from_the_33rd_loss_on() -> None:
    ramp = [float(t) for t in range(200)]
    kinds = [moves(after(ramp[:n])) for n in range(200)]
    assert kinds == [n >= FIRST for n in range(200)]
    # A moving mean with rate r is (1 − r)/r behind a ramp in the long run, before the loss 1/r.
    assert distances(ramp)[-1] == pytest.approx(8.0, rel=1e-6)
    still = np.random.default_rng(0).normal(size=2000).tolist()
    assert not any(moves(after(still[:n])) for n in range(0, 2000, 50))
    assert not moves(after([7.0] * 100))  # no errors at all


def test_the_better_of_the_two_moving_means_is_taken() -> None:
    """A slow wave under much noise is followed best by the slow one, a walk under little noise by the fast one."""
    slow = 10.0 * np.sin(2 * math.pi * np.arange(4000) / 4000) + walk(0, 4000, 0.0, 5.0)
    for losses, best in ((slow.tolist(), "slow"), (walk(0, 2000, 3.0, 0.1), "fast")):
        level = after(losses)
        assert moves(level)
        assert above(level, losses[-1], local=True) == pytest.approx(
            losses[-1] - level.origin - getattr(level, best), abs=1e-9
        )
        assert min(level.slow_errors, level.fast_errors) == getattr(level, f"{best}_errors")


@given(seed=seeds, step=st.sampled_from([0.0, 0.5, 5.0]), power=st.integers(-700, 700))
@settings(max_examples=30)
def test_a_power_of_two_only_scales_it(seed: int, step: float, power: int) -> None:
    losses = walk(seed, 80, step)
    assert distances([math.ldexp(each, power) for each in losses]) == [
        math.ldexp(each, power) for each in distances(losses)
    ]


@given(losses=st.lists(whole, min_size=2, max_size=80), offset=st.integers(-(2**50), 2**50))
def test_an_offset_changes_no_bit_of_whole_numbers(losses: list[float], offset: int) -> None:
    assert distances([each + offset for each in losses]) == distances(losses)


@given(st.lists(st.sampled_from([*EXTREMES.tolist(), LARGEST, -LARGEST]) | st.floats(-10, 10), max_size=100))
def test_it_is_finite_and_within_the_losses_whatever_they_are(losses: list[float]) -> None:
    level = no_level()
    for loss in losses:
        level = followed(level, loss)
        assert all(math.isfinite(each) for each in level)
        assert all(math.isfinite(above(level, loss, local)) for local in (False, True))
        assert min(level.mean_errors, level.fast_errors, level.slow_errors) >= 0.0


@pytest.mark.parametrize("inside", ["umab-s", "umab-g-a", "ahb"])
@pytest.mark.parametrize("step", [0.0, 2.0])
def test_locally_centred_is_the_policy_on_losses_above_their_level(inside: str, step: float) -> None:
    losses, arms = walk(1, 60, step), np.random.default_rng(2).integers(3, size=60)
    arms[:3] = [0, 1, 2]
    mine = forced(LocallyCentred(umab.policy(inside)), arms, losses, 3)
    np.testing.assert_allclose(mine, forced(umab.policy(inside), arms, distances(losses), 3), rtol=0, atol=1e-15)
    global_mean = forced(umab.Centred(inside), arms, losses, 3)
    if step:
        assert np.abs(mine - global_mean).max() > 1e-3
    else:
        np.testing.assert_allclose(mine, global_mean, rtol=0, atol=1e-9)


def test_names_facts_and_contract() -> None:
    policy = umab.policy("umab-l")
    assert policy == LocallyCentred(umab.UMABS()) == umab.policy("local(umab-s)") and policy.name == "umab-l"
    assert policy.scale_free and policy.shift_free
    assert not umab.policy("local(umab-g)").scale_free and umab.policy("local(umab-g)").shift_free
    check_policy("umab-l")
    with pytest.raises(ValueError, match="must not be centred already"):
        LocallyCentred(umab.Centred(umab.UMABS()))
    with pytest.raises(ValueError, match="any size and sign"):
        LocallyCentred(umab.UMABNN())


def test_arms_that_come_and_go_keep_the_level() -> None:
    learner = umab.Learner("umab-l", ["a", "b", "c"], seed=0)
    for t, loss in enumerate(walk(0, 60, 2.0)):
        learner.update("abc"[t % 3], loss)
    level = state_of(learner).level
    assert moves(level)
    learner.add_arm("d")
    learner.remove_arm("a")
    assert state_of(learner).level == level
    np.testing.assert_allclose(learner.probabilities().sum(), 1.0, atol=1e-12)


def test_saved_and_continued_in_the_middle_of_a_wave() -> None:
    losses, arms = walk(5, 120, 2.0), np.random.default_rng(0).integers(3, size=120)
    rows: list[tuple[Array, Array]] = []
    straight, stopped = umab.Learner("umab-l", 3), umab.Learner("umab-l", 3)
    for t, (arm, loss) in enumerate(zip(arms.tolist(), losses, strict=True)):
        if t in (20, 33, 70):
            stopped = umab.Learner.from_json(stopped.to_json())
        straight.update(arm, loss)
        stopped.update(arm, loss)
        rows.append((straight.probabilities(), stopped.probabilities()))
    assert all(same_bits(first, second) for first, second in rows)


def waves(n_rounds: int, size: float) -> Array:
    """Return losses of five arms that differ by one, under a wave that they have in common."""
    random = np.random.default_rng(4)
    wave = size * np.sin(2 * math.pi * np.arange(n_rounds) / 288)
    return np.asarray(random.normal([0.0, 1.0, 1.0, 1.0, 1.0], size=(n_rounds, 5)) + wave[:, None])


def test_under_a_wave_it_has_less_than_half_the_regret_of_the_global_mean() -> None:
    """The claims are one-sided, with a risk of 1e-6 for each: 4.75 standard errors."""
    mine, other = umab.simulate(["umab-l", "centred(umab-s)"], waves(3000, 10.0), n_trials=60, seed=1, expected=True)
    gain = 0.5 * other.final_regret - mine.final_regret
    assert gain.mean() > 4.75 * gain.std(ddof=1) / math.sqrt(60)


def test_without_a_wave_it_draws_as_centred() -> None:
    mine, other = umab.simulate(["umab-l", "centred(umab-s)"], waves(2000, 0.0), n_trials=20, seed=1)
    same = (mine.arms == other.arms).all(axis=1)
    assert same.mean() > 0.9
