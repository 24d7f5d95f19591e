"""Laws that every registered policy obeys, for inputs that nobody thought of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import umab
from helpers import POLICIES, deaf, same_bits, twins, without_times
from umab.algorithms.ahb import take_in
from umab.algorithms.base import Policy
from umab.algorithms.sf_mab import stability
from umab.engine.compiled import simulation_kernel
from umab.engine.interpreted import play
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.loops import Record, Rings, Table
from umab.simplex import softmin
from umab.testing import EXTREMES, Array, compiled_state, forced, forced_interpreted
from umab.testing import legal_losses as legal

BANDITS = {name: policy for name, policy in POLICIES.items() if not policy.full_information}
WATCHERS = {name: policy for name, policy in POLICIES.items() if policy.full_information}


def each_of(policies: dict[str, Policy]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("policy", policies.values(), ids=policies.keys())


every_bandit = each_of(BANDITS)
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


@every_bandit
@given(run=runs())
def test_a_distribution_is_one_and_both_runtimes_agree_bit_for_bit(
    policy: Policy, run: tuple[int, list[int], list[float]]
) -> None:
    n_arms, arms, values = run
    losses = legal(policy, np.array(values))
    rows = forced(policy, arms, losses, n_arms)
    assert same_bits(rows, forced_interpreted(policy, arms, losses, n_arms))
    check_rows(policy, rows)


def check_rows(policy: Policy, rows: Array) -> None:
    """Every row is a distribution, and its probabilities are positive once each arm was played that must be first."""
    n_arms = rows.shape[1]
    assert (rows >= 0).all() and (rows[n_arms if policy.plays_each_arm_first else 0 :] > 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@each_of(POLICIES)
@given(seed=seeds, n_arms=st.integers(1, 6), extreme=st.booleans())
@settings(max_examples=20)
def test_simulation_and_plain_python_end_in_the_same_state(
    policy: Policy, seed: int, n_arms: int, extreme: bool
) -> None:
    random = np.random.default_rng(seed)
    shape = (int(random.integers(1, 60)), n_arms)
    losses = legal(policy, random.choice(EXTREMES, shape) if extreme else random.normal(size=shape))
    *_, last = play(policy, losses, seed=seed)
    assert compiled_state(policy, losses, seed=seed) == last.state


@every_bandit
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_learner_simulation_and_plain_python_draw_and_decide_alike(policy: Policy, scale: float) -> None:
    losses = legal(policy, scale * np.random.default_rng(1).normal([0.0, 0.5, 1.0, 1.5], size=(300, 4)))
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
    for policy in (umab.UMABGA(rate=4.0), umab.UMABG(exploration="none", rate=100.0)):
        assert same_bits(forced(policy, arms, losses, n_arms), forced_interpreted(policy, arms, losses, n_arms))


SCALE_FREE = {name: policy for name, policy in POLICIES.items() if policy.scale_free}
SHIFT_FREE = {name: policy for name, policy in POLICIES.items() if policy.shift_free}


def test_the_laws_have_policies_to_test() -> None:
    assert SCALE_FREE.keys() >= {"umab-nn", "ahb", "scb", "scb-ix", "adahedge", "solo-ftrl"}
    assert SHIFT_FREE.keys() >= {"ahb", "adahedge"}


def rows_of(policy: Policy, table: Array, arms: Any) -> Array:
    """Return the distributions in which the rounds of a table are played: of all losses, or of those of given arms."""
    if not policy.full_information:
        return forced(policy, arms, table[np.arange(len(table)), arms], table.shape[1])
    return np.array([round.state.probabilities for round in play(policy, table)])


@each_of(SCALE_FREE)
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
    losses = random.normal(size=(60, 3)) * 2.0 ** random.integers(-spread, spread + 1, size=(60, 3))
    losses = legal(policy, np.where(random.random((60, 3)) < zeros, 0.0, losses))
    arms = random.integers(3, size=60)
    scaled = np.ldexp(losses, power)
    assert (np.ldexp(scaled, -power) == losses).all()
    assert same_bits(rows_of(policy, losses, arms), rows_of(policy, scaled, arms))


@each_of(SCALE_FREE)
@given(seed=seeds, factor=st.floats(1e-150, 1e150))
@settings(max_examples=50)
def test_scale_by_any_number_changes_only_rounding(policy: Policy, seed: int, factor: float) -> None:
    random = np.random.default_rng(seed)
    losses, arms = legal(policy, random.normal(size=(60, 3))), random.integers(3, size=60)
    np.testing.assert_allclose(rows_of(policy, losses * factor, arms), rows_of(policy, losses, arms), atol=1e-9)


@each_of(SHIFT_FREE)
@given(seed=seeds, factor=st.floats(1e-3, 1e3), offset=st.floats(-1e3, 1e3))
@settings(max_examples=50)
def test_adding_a_number_to_all_losses_changes_only_rounding(
    policy: Policy, seed: int, factor: float, offset: float
) -> None:
    random = np.random.default_rng(seed)
    losses, arms = random.normal(size=(60, 3)), random.integers(3, size=60)
    moved = rows_of(policy, factor * losses + factor * offset, arms)
    np.testing.assert_allclose(moved, rows_of(policy, losses, arms), rtol=0, atol=1e-9)


@each_of(POLICIES)
@given(seed=seeds)
@settings(max_examples=25)
def test_names_of_arms_do_not_matter(policy: Policy, seed: int) -> None:
    random = np.random.default_rng(seed)
    losses, arms = legal(policy, random.normal(size=(80, 5))), random.integers(5, size=80)
    order = random.permutation(5)
    renamed = np.empty_like(losses)
    renamed[:, order] = losses
    first = 5 if policy.plays_each_arm_first else 0  # these go by the order of the arms
    rows, renamed_rows = rows_of(policy, losses, arms), rows_of(policy, renamed, order[arms])
    np.testing.assert_allclose(renamed_rows[first:, order], rows[first:], rtol=0, atol=1e-9)


@each_of(POLICIES)
@given(seed=seeds, spread=st.floats(0.0, 3.0))
@settings(max_examples=25)
def test_rates_never_grow(policy: Policy, seed: int, spread: float) -> None:
    random = np.random.default_rng(seed)
    losses = legal(policy, random.normal(size=(100, 3)) * 10.0 ** random.normal(scale=spread, size=(100, 3)))
    seen: dict[str, float] = {}
    for round in play(policy, losses, seed=seed):
        for name, rate in policy.rates(round.state).items():
            assert 0.0 <= rate <= seen.get(name, math.inf) * (1.0 + 1e-12), name
            seen[name] = rate
    assert seen or type(policy).rates is Policy.rates


@given(
    seed=seeds,
    n_arms=st.integers(1, 5),
    smallest=st.floats(-280, 0),
    size=st.floats(-8, 8) | st.floats(-280, 260),
)
def test_stability_of_sf_mab_is_accurate_and_between_its_bounds(
    seed: int, n_arms: int, smallest: float, size: float
) -> None:
    """0 ≤ M_t ≤ (η/2) p v², and M_t is the supremum in 600 digits, for tiny p and v of any size and sign."""
    random = np.random.default_rng(seed)
    p = 10.0 ** (smallest * random.random(n_arms))
    p /= p.sum()
    arm, rate = int(random.integers(n_arms)), float(10.0 ** random.normal())
    estimate = float(random.normal() * 10.0**size)
    m = stability(p.tolist(), arm, estimate, rate, [0.0] * n_arms)
    assert 0.0 <= m <= 0.5 * (rate * estimate) * estimate * p[arm]
    with mpmath.workdps(600):
        exact = [mpmath.mpf(each) for each in p]
        total = mpmath.fsum(exact)
        exact = [each / total for each in exact]
        right = reference.stability(exact, arm, mpmath.mpf(estimate), mpmath.mpf(rate))
    # M is added to a sum that is n/η; what is nothing against that may be rounded away.
    assert m == pytest.approx(float(right), rel=1e-6, abs=1e-15 * n_arms / rate)


@given(
    seed=seeds,
    n_arms=st.integers(2, 5),
    spread=st.floats(-3, 6).map(lambda power: 10.0**power),
    size=st.floats(-6, 6).map(lambda power: 10.0**power),
)
def test_the_mixability_gap_of_ahb_is_accurate(seed: int, n_arms: int, spread: float, size: float) -> None:
    """Also where weights come to their floor: the sums know better."""
    random = np.random.default_rng(seed)
    sums = (random.normal(size=n_arms) * spread).tolist()
    arm, estimate, temperature = int(random.integers(n_arms)), float(random.normal() * size), float(random.random())
    weights = [0.0] * n_arms
    softmin(sums, 1.0 / temperature, weights)
    with mpmath.workdps(50):
        lowest, rate = min(sums), 1 / mpmath.mpf(temperature)
        exact = [mpmath.exp(-rate * (mpmath.mpf(each) - lowest)) for each in sums]
        total = mpmath.fsum(exact)
        after = mpmath.fsum(
            each * mpmath.exp(-rate * mpmath.mpf(estimate)) if k == arm else each for k, each in enumerate(exact)
        )
        gap = exact[arm] / total * mpmath.mpf(estimate) + mpmath.log(after / total) / rate
    mine = take_in(list(sums), weights, arm, estimate, temperature)
    assert mine == pytest.approx(float(gap), rel=1e-9, abs=1e-13 * (abs(estimate) + spread))


@given(run=runs())
def test_gaps_of_ahb_are_never_negative(run: tuple[int, list[int], list[float]]) -> None:
    n_arms, arms, losses = run
    policy = umab.AHB()
    parameters, state = policy.parameters_for(n_arms), policy.init(n_arms)
    for arm, loss in zip(arms, losses, strict=True):
        before = state.gap_sum / state.unit if state.unit > 0.0 else 0.0
        probability = state.probabilities[arm]
        state = policy.update(parameters, policy.selected(parameters, state, arm), arm, loss, probability)
        assert state.gap_sum / state.unit >= before * (1.0 - 1e-15)


@every_bandit
@given(run=runs(), stop=st.integers(0, 40))
@settings(max_examples=25)
def test_saved_loaded_and_continued_is_never_having_stopped(
    policy: Policy, run: tuple[int, list[int], list[float]], stop: int
) -> None:
    n_arms, _, values = run
    losses = legal(policy, np.array(values))
    straight, stopped = twins(policy, n_arms, seed=3)
    for at, loss in enumerate(losses):
        if at == stop:
            stopped = umab.Learner.from_json(stopped.to_json())
        if at % 3 == 0:  # some choices stay open across the stop
            assert straight.select() == stopped.select()
            continue
        for learner in (straight, stopped):
            learner.update(learner.outstanding[-1] if learner.outstanding and at % 3 == 1 else learner.select(), loss)
    assert without_times(straight) == without_times(stopped)


REMEMBERING = {name: policy for name, policy in BANDITS.items() if policy.ticket(1) is not None}


def test_policies_that_remember_more_about_a_draw_than_its_probability() -> None:
    """The next law is not for them; each has late feedback in its own file."""
    assert REMEMBERING.keys() == {
        "scb-d",
        "banker-sftinf",
        "banker-sflbinf",
        "umab-s",
        "centred(umab-s)",
        "umab-l",
        "umab-r",
    }


COUNTING = {"tsallis-inf-d"}  # its distribution depends on how many losses are outstanding; see test_tsallis_inf_d.py


@each_of({name: policy for name, policy in BANDITS.items() if name not in {*REMEMBERING, *COUNTING}})
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


@every_bandit
@pytest.mark.parametrize("loss", BAD_LOSSES, ids=repr)
def test_a_refused_update_changes_nothing(policy: Policy, loss: object) -> None:
    learner = umab.Learner(policy, ["a", "b", "c"], seed=0)
    learner.update("a", 1.0)
    choice = learner.select()
    before = learner.to_json()
    for target in (choice, "b"):
        with pytest.raises((ValueError, TypeError), match="loss="):
            learner.update(target, loss)  # type: ignore[arg-type]
    for target, given_probability in (("d", None), ("b", 0.0), ("b", 1.1), ("b", float("nan")), ("b", -0.5)):
        with pytest.raises(ValueError, match=f"arm='d'|probability={given_probability}"):
            learner.update(target, 1.0, probability=given_probability)
    assert learner.to_json() == before
    learner.update(choice, 1.0)  # and the choice is still good


@every_bandit
@pytest.mark.filterwarnings("ignore:the draw has become almost deterministic")
@pytest.mark.parametrize("pattern", ["mixed", "by arm", "rare"])
def test_any_finite_double_is_survived_for_a_million_rounds(policy: Policy, pattern: str) -> None:
    """No probability is ever NaN, 0 or negative when the policy itself draws.

    Every one of the first rounds is looked at, and every 300th of a million, or of 300,000.
    """
    random = np.random.default_rng(0)
    if pattern == "mixed":
        table = random.choice(EXTREMES, size=(997, 3))
    elif pattern == "by arm":  # one arm tiny, one huge, one hugely negative
        table = np.tile([5e-324, 1e308, -1e308], (997, 1))
    else:
        table = np.where(random.random((997, 3)) < 0.01, 1e308, 5e-324)
    rows = legal(policy, table).tolist()
    learner = umab.Learner(policy, 3, seed=0)
    if policy.plays_each_arm_first:
        for _ in range(3):
            learner.update(learner.select(), 1.0)
    for t in range(20_000 if pattern == "mixed" else 2000):
        choice = learner.select()
        learner.update(choice, rows[t % 997][choice.index])
        p, q, r = learner._core.probabilities.tolist()
        assert p > 0.0 and q > 0.0 and r > 0.0 and abs(p + q + r - 1.0) < 1e-12, (t, p, q, r)
    assert np.isfinite(learner._core.buffer).all()
    table = np.ascontiguousarray(legal(policy, table)[:900])
    for buffers in states_on_the_way(policy, table, n_rounds=1_000_000 if pattern == "mixed" else 300_000, every=300):
        rows = layout_of(policy).probabilities(buffers)
        assert (rows > 0.0).all() and abs(rows.sum() - 1.0) < 1e-12 and np.isfinite(buffers).all()


def states_on_the_way(policy: Policy, table: Array, n_rounds: int, every: int) -> Iterator[Array]:
    """Yield the buffer of a compiled trial on a table that is repeated, every so many rounds."""
    n_arms, kernel, random = table.shape[1], simulation_kernel(policy), np.random.default_rng(1)
    layout = layout_of(policy)
    buffers = layout.start(policy, n_arms).reshape(1, -1)
    rings = Rings.of(1, blank_ticket(policy, layout, n_arms), np.zeros((1, every, 1), dtype=np.int64))
    record = Record.of(np.zeros((1, 1)), every)
    for first in range(0, n_rounds, every):
        losses = table[first % len(table) :][:every]
        seen = Table.of(losses, np.zeros_like(losses), np.zeros(every))
        kernel(buffers, random.random((1, every)), seen, rings, record)
        if first >= every:  # policies that play each arm first have done so
            yield buffers


@every_bandit
@pytest.mark.parametrize("loss", [1.0, -1.0, 1e308, -1e308, 5e-324])
def test_a_forced_arm_never_gets_probability_zero(policy: Policy, loss: float) -> None:
    """Forcing one arm drives its probability down by a factor in each round; it stops at the floor."""
    losses = legal(policy, np.full(5000, loss))
    check_rows(policy, forced(policy, np.zeros(5000, dtype=int), losses, 3))
    assert (forced(policy, np.zeros(2, dtype=int), losses[:2], 1) == 1.0).all()


@every_bandit
def test_a_probability_next_to_zero_is_survived(policy: Policy) -> None:
    learner = umab.Learner(policy, 3, seed=0)
    loss = float(legal(policy, np.array([1e308]))[0])
    for probability in (5e-324, 1e-308, 1e-200, 1.0):
        for arm in (0, 1, 2):
            learner.update(arm, loss, probability=probability)
    rows = learner.probabilities()
    assert (rows > 0).all() and abs(rows.sum() - 1.0) < 1e-12
    json.loads(learner.to_json())


# Means from 0.1 to 0.9, so Uniform loses 0.4 a round; noise of the size of the gaps; all in [0, 1], which some need.
LEARNABLE = np.clip(np.random.default_rng(7).normal(np.linspace(0.1, 0.9, 5), 0.2, size=(3000, 5)), 0.0, 1.0)
LEARNERS = {name: policy for name, policy in POLICIES.items() if name != "uniform"}


def advantage(policy: Policy, n_trials: int = 100) -> float:
    """Return by how many standard errors the policy's regret is below Uniform's; the differences are paired."""
    mine, uniform = umab.simulate([policy, "uniform"], LEARNABLE, n_trials=n_trials, seed=11, expected=False)
    gain = uniform.final_regret - mine.final_regret
    return float(gain.mean() / (gain.std(ddof=1) / np.sqrt(n_trials)))


@each_of(LEARNERS)
def test_learns(policy: Policy) -> None:
    """At least 30 standard errors below Uniform; see the next test."""
    assert advantage(policy) > 30.0


@each_of({name: LEARNERS[name] for name in ("umab-nn", "ahb", "centred(umab-s)", "adahedge")})
def test_a_policy_whose_update_does_nothing_does_not_learn(policy: Policy) -> None:
    with np.errstate(invalid="ignore"):
        assert not advantage(deaf(policy)) > 30.0
