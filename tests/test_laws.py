"""Laws that every registered policy obeys, for inputs that nobody thought of."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import POLICIES, deaf, same_bits
from umab.algorithms.base import Policy
from umab.engine.interpreted import play
from umab.testing import EXTREMES, forced, forced_interpreted
from umab.testing import legal_losses as legal

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
seeds = st.integers(0, 2**32 - 1)
any_double = st.floats(allow_nan=False, allow_infinity=False)
everyday = st.floats(-1e3, 1e3)
losses_of = st.one_of(any_double, everyday)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[int], list[float]]:
    """Return a number of arms, and arms and losses of some rounds."""
    n_arms = draw(st.integers(1, 9))
    rounds = draw(st.lists(st.tuples(st.integers(0, n_arms - 1), losses_of), max_size=40))
    return n_arms, [arm for arm, _ in rounds], [loss for _, loss in rounds]


@every_policy
@given(run=runs())
def test_a_distribution_is_one_and_both_runtimes_agree_bit_for_bit(
    policy: Policy, run: tuple[int, list[int], list[float]]
) -> None:
    n_arms, arms, values = run
    losses = legal(policy, np.array(values))
    rows = forced(policy, arms, losses, n_arms)
    assert same_bits(rows, forced_interpreted(policy, arms, losses, n_arms))
    assert (rows > 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@every_policy
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_learner_simulation_and_plain_python_draw_and_decide_alike(policy: Policy, scale: float) -> None:
    losses = scale * legal(policy, np.random.default_rng(1).normal([0.0, 0.5, 1.0, 1.5], size=(300, 4)))
    result = umab.simulate(policy, losses, n_trials=2, seed=5)
    learner = umab.Learner(policy, 4, seed=5)
    for t, round in enumerate(play(policy, losses, seed=5)):
        choice = learner.select()
        assert (choice.index, choice.probability) == (round.arm, round.probability)
        assert round.arm == result.arms[0, t]
        learner.update(choice, losses[t, choice.index])
        assert learner.probabilities().tolist() == round.state.probabilities


@pytest.mark.parametrize("n_arms", [63, 64, 65, 66, 67, 200])
def test_runtimes_agree_where_blocks_of_the_sums_begin_and_end(n_arms: int) -> None:
    random = np.random.default_rng(n_arms)
    arms, losses = random.integers(n_arms, size=30), random.normal(size=30)
    for policy in (umab.UMABG(rate=4.0), umab.UMABG(exploration="none", rate=100.0)):
        assert same_bits(forced(policy, arms, losses, n_arms), forced_interpreted(policy, arms, losses, n_arms))


SCALE_FREE = {name: policy for name, policy in POLICIES.items() if policy.scale_free}


def test_the_scale_law_has_policies_to_test() -> None:
    assert "umab-nn" in SCALE_FREE


@pytest.mark.parametrize("policy", SCALE_FREE.values(), ids=SCALE_FREE.keys())
@given(
    seed=seeds,
    spread=st.sampled_from([1, 30, 400]),
    power=st.integers(-600, 600),
    zeros=st.floats(0.0, 0.5),
)
@settings(max_examples=50)
def test_scale_by_powers_of_two_changes_no_bit(
    policy: Policy, seed: int, spread: int, power: int, zeros: float
) -> None:
    random = np.random.default_rng(seed)
    losses = random.normal(size=60) * 2.0 ** random.integers(-spread, spread + 1, size=60)
    losses = legal(policy, np.where(random.random(60) < zeros, 0.0, losses))
    arms = random.integers(3, size=60)
    scaled = np.ldexp(losses, power)
    assert (np.ldexp(scaled, -power) == losses).all()
    assert same_bits(forced(policy, arms, losses, 3), forced(policy, arms, scaled, 3))


@pytest.mark.parametrize("policy", SCALE_FREE.values(), ids=SCALE_FREE.keys())
@given(seed=seeds, factor=st.floats(1e-150, 1e150))
@settings(max_examples=50)
def test_scale_by_any_number_changes_only_rounding(policy: Policy, seed: int, factor: float) -> None:
    random = np.random.default_rng(seed)
    losses, arms = legal(policy, random.normal(size=60)), random.integers(3, size=60)
    np.testing.assert_allclose(forced(policy, arms, losses * factor, 3), forced(policy, arms, losses, 3), atol=1e-9)


@every_policy
@given(seed=seeds)
@settings(max_examples=25)
def test_names_of_arms_do_not_matter(policy: Policy, seed: int) -> None:
    random = np.random.default_rng(seed)
    losses, arms = legal(policy, random.normal(size=80)), random.integers(5, size=80)
    order = random.permutation(5)
    rows = forced(policy, arms, losses, 5)
    np.testing.assert_allclose(forced(policy, order[arms], losses, 5)[:, order], rows, rtol=0, atol=1e-9)


@every_policy
@given(run=runs(), stop=st.integers(0, 40))
@settings(max_examples=25)
def test_saved_loaded_and_continued_is_never_having_stopped(
    policy: Policy, run: tuple[int, list[int], list[float]], stop: int
) -> None:
    n_arms, _, values = run
    losses = legal(policy, np.array(values))
    straight, stopped = umab.Learner(policy, n_arms, seed=3), umab.Learner(policy, n_arms, seed=3)
    for at, loss in enumerate(losses):
        if at == stop:
            stopped = umab.Learner.from_json(stopped.to_json())
        if at % 3 == 0:  # some choices stay open across the stop
            assert straight.select() == stopped.select()
            continue
        for learner in (straight, stopped):
            learner.update(learner.outstanding[-1] if learner.outstanding and at % 3 == 1 else learner.select(), loss)
    assert straight.to_json() == stopped.to_json()


@every_policy
def test_late_feedback_in_any_order_uses_the_probability_of_its_draw(policy: Policy) -> None:
    losses = legal(policy, np.random.default_rng(0).normal(size=100))
    learner, by_hand = umab.Learner(policy, 3, seed=1), umab.Learner(policy, 3, seed=2)
    waiting: list[umab.Choice] = []
    for at, loss in enumerate(losses):
        waiting.append(umab.Choice(*json.loads(json.dumps(learner.select()))))
        if at % 7 > 3:
            choice = waiting.pop(at % len(waiting))
            learner.update(choice, loss)
            by_hand.update(choice.arm, loss, probability=choice.probability)
    assert same_bits(learner.probabilities(), by_hand.probabilities())
    assert learner.outstanding == tuple(waiting)


BAD_LOSSES = [float("nan"), float("inf"), float("-inf"), 10**400, "1.0", None, [1.0], np.array([1.0]), 1j]


@every_policy
@pytest.mark.parametrize("loss", BAD_LOSSES, ids=repr)
def test_a_refused_update_changes_nothing(policy: Policy, loss: object) -> None:
    learner = umab.Learner(policy, ["a", "b", "c"], seed=0)
    learner.update("a", 1.0)
    choice = learner.select()
    before = learner.to_json()
    for target in (choice, "b"):
        with pytest.raises((ValueError, TypeError), match="loss must"):
            learner.update(target, loss)  # type: ignore[arg-type]
    for target, given_probability in (("d", None), ("b", 0.0), ("b", 1.1), ("b", float("nan")), ("b", -0.5)):
        with pytest.raises(ValueError, match="must be"):
            learner.update(target, 1.0, probability=given_probability)
    assert learner.to_json() == before
    learner.update(choice, 1.0)  # and the choice is still good


@every_policy
@pytest.mark.parametrize("pattern", ["mixed", "by arm", "rare"])
def test_any_finite_double_is_survived_for_a_million_rounds(policy: Policy, pattern: str) -> None:
    """No probability is ever NaN, 0 or negative when the policy itself draws."""
    n_rounds = 1_000_000 if pattern == "mixed" else 100_000
    random = np.random.default_rng(0)
    if pattern == "mixed":
        table = random.choice(EXTREMES, size=(997, 3))
    elif pattern == "by arm":  # one arm tiny, one huge, one hugely negative
        table = np.tile([5e-324, 1e308, -1e308], (997, 1))
    else:
        table = np.where(random.random((997, 3)) < 0.01, 1e308, 5e-324)
    rows = legal(policy, table).tolist()
    learner = umab.Learner(policy, 3, seed=0)
    for t in range(n_rounds):
        choice = learner.select()
        learner.update(choice, rows[t % 997][choice.index])
        p, q, r = learner._probabilities.tolist()
        assert p > 0.0 and q > 0.0 and r > 0.0 and abs(p + q + r - 1.0) < 1e-12, (t, p, q, r)
    assert np.isfinite(learner._buffer).all()


@every_policy
@pytest.mark.parametrize("loss", [1.0, -1.0, 1e308, -1e308, 5e-324])
def test_a_forced_arm_never_gets_probability_zero(policy: Policy, loss: float) -> None:
    """Forcing one arm drives its probability down by a factor in each round; it stops at the floor."""
    losses = legal(policy, np.full(5000, loss))
    rows = forced(policy, np.zeros(5000, dtype=int), losses, 3)
    assert (rows > 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (forced(policy, np.zeros(2, dtype=int), losses[:2], 1) == 1.0).all()


@every_policy
def test_a_probability_next_to_zero_is_survived(policy: Policy) -> None:
    learner = umab.Learner(policy, 3, seed=0)
    for probability in (5e-324, 1e-308, 1e-200, 1.0):
        for arm in (0, 1, 2):
            learner.update(arm, 1e308, probability=probability)
    rows = learner.probabilities()
    assert (rows > 0).all() and abs(rows.sum() - 1.0) < 1e-12
    json.loads(learner.to_json())


# Means differ by 1 between neighbours, so Uniform loses 2 a round; noise of the size of the gaps.
LEARNABLE = np.random.default_rng(7).exponential(1.0, size=(2000, 5)) + np.arange(5.0)
LEARNERS = {name: policy for name, policy in POLICIES.items() if name != "uniform"}


def advantage(policy: Policy, n_trials: int = 100) -> float:
    """Return by how many standard errors the policy's regret is below Uniform's; the differences are paired."""
    mine, uniform = umab.simulate([policy, "uniform"], LEARNABLE, n_trials=n_trials, seed=11)
    gain = uniform.final_regret - mine.final_regret
    return float(gain.mean() / (gain.std(ddof=1) / np.sqrt(n_trials)))


@pytest.mark.parametrize("policy", LEARNERS.values(), ids=LEARNERS.keys())
def test_learns(policy: Policy) -> None:
    """At least 30 standard errors below Uniform; the same policy with an update that does nothing is at 0."""
    assert advantage(policy) > 30.0
    with np.errstate(invalid="ignore"):
        assert not advantage(deaf(policy)) > 30.0
