"""The guard: what it computes, in which units, with late feedback and arms that are away; and that it acts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import same_bits
from optimists import GREEDY, UCB, UNGUARDED
from umab.algorithms.guard import (
    LEAST_SHARE,
    GuardTicket,
    guard_parameters,
    guard_ticket,
    judged,
    least_of_shadow,
    mix,
    new_guard,
    share_of_shadow,
)
from umab.engine.interpreted import play
from umab.testing import Array, check_policy, forced

GUARDED = {"greedy": GREEDY, "ucb": UCB}
every_optimist = pytest.mark.parametrize("policy", GUARDED.values(), ids=GUARDED)


def test_the_contract() -> None:
    check_policy(UCB)


@pytest.mark.slow
def test_the_contract_around_a_policy_with_tickets() -> None:
    check_policy(umab.Guarded("umab-r"))


def test_the_share_by_hand() -> None:
    """All at first, the least while little speaks against the optimist, more from half a standard deviation on."""
    for balance, squares, share in (
        (0.0, 0.0, 1.0),
        (-9.0, 4.0, 1 / 64),
        (1.0, 4.0, 1 / 64),
        (1.5, 4.0, 0.1),
        (3.5, 4.0, 0.5),
        (6.0, 4.0, 1.0),
        (1e300, 4.0, 1.0),
    ):
        assert share_of_shadow(balance, squares, 1 / 64) == share
        assert share_of_shadow(balance, squares, 0.0) == 0.0
    assert least_of_shadow(3.0, 7.0, 0.5) == 1 / (9 + 2 * math.sqrt(2 * 4.5))
    assert least_of_shadow(2.0, 1.0, 1 / 64) < 1 / 6  # which the proof needs


def in_the_clear(losses: Array, chosen: Array, arms: Array) -> list[tuple[Array, float, float, float]]:
    """Return p', γ, B and √V of every round, from the definitions on the page and UMAB-S itself as the shadow."""
    n_rounds, n_arms = losses.shape
    shadow, rows = umab.UMABS(), []
    parameters, state = shadow.parameters_for(n_arms), shadow.init(n_arms)
    share, balance, squares = 1.0, 0.0, 0.0
    seen: list[float] = []
    for t in range(n_rounds):
        p = np.array(state.iterate)
        floor = 1 / (n_arms**2 + 2 * math.sqrt((n_arms - 1) * (1 + share * (t + 1))))
        missing, spare = np.maximum(0, floor - p).sum(), np.maximum(0, p - floor).sum()
        played = floor + np.maximum(0, p - floor) * (1 - missing / spare) if missing > 0 else p
        drawn_from = (1 - share) * chosen[t] + share * played
        rows.append((drawn_from, share, balance, math.sqrt(squares)))
        arm = int(arms[t])
        loss = losses[t, arm] - (np.mean(seen) if seen else losses[t, arm])
        seen.append(losses[t, arm])
        weight = played[arm] / drawn_from[arm]
        state = shadow.update(parameters, state, arm, float(loss * weight), float(played[arm]), shadow.ticket(n_arms))
        if share < 1:
            balance, squares = balance + loss * (1 - weight), squares + (loss * (1 - weight)) ** 2
        else:
            squares += loss**2
        score = balance / math.sqrt(squares) if squares > 0 else math.inf
        share = min(1.0, max(1 / 64, (score - 0.5) / 2.5))
    return rows


@pytest.mark.parametrize("kind", ["normal", "alternating", "heavy"])
def test_the_guard_is_what_the_page_says(kind: str) -> None:
    random = np.random.default_rng(3)
    losses = random.normal([0.0, 0.5, 1.0], size=(400, 3))
    if kind == "alternating":  # the optimist is always wrong
        losses[:, 0] += 5.0
        losses[random.random(400) < 0.05, 1] -= 100.0
    if kind == "heavy":
        losses *= np.exp(3 * np.abs(random.normal(size=(400, 1))))
    chosen = np.tile([1.0, 0.0, 0.0], (400, 1)) if kind == "alternating" else random.dirichlet([0.3] * 3, 400)
    parameters = guard_parameters(3)
    guard, probabilities = new_guard(parameters, 3), [1 / 3] * 3
    mix(guard, chosen[0].tolist(), probabilities)
    mine, arms = [], []
    for t in range(400):
        mine.append(
            (np.array(probabilities), guard.share, guard.balance / guard.unit, math.sqrt(guard.squares) / guard.unit)
        )
        arms.append(int(random.choice(3, p=np.array(probabilities) / sum(probabilities))))
        loss = float(losses[t, arms[-1]])
        guard = judged(parameters, guard, probabilities, arms[-1], loss, probabilities[arms[-1]], BLANK)
        if t < 399:
            mix(guard, chosen[t + 1].tolist(), probabilities)
    for found, expected in zip(mine, in_the_clear(losses, chosen, np.array(arms)), strict=True):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
        assert found[1:] == pytest.approx(expected[1:], rel=1e-6, abs=1e-9)
    largest = max(share for _, share, _, _ in mine)
    assert largest > (0.5 if kind == "alternating" else 0.1)


def test_a_shadow_that_plays_all_rounds_gives_them_back_in_time() -> None:
    """The balance waits, and the squares of the losses seen are added to its variance."""
    parameters = guard_parameters(2)
    guard = new_guard(parameters, 2)._replace(share=1.0, balance=7.0, squares=4.0, unit=1.0, n_losses=1.0)
    probabilities = [0.0, 0.0]
    shares = [guard.share]
    while guard.share == 1.0:
        mix(guard, [0.5, 0.5], probabilities)
        ticket = guard_ticket(guard, probabilities, 0)
        assert ticket.played == ticket.drawn_with == probabilities[0]
        guard = judged(parameters, guard, probabilities, 0, 0.5, probabilities[0], ticket)._replace(mean=0.0)
        shares.append(guard.share)
        assert guard.balance == 7.0 and guard.squares == pytest.approx(4.0 + 0.25 * (len(shares) - 1))
    assert len(shares) == 2 + math.floor(((7 / 3) ** 2 - 4) / 0.25)
    assert 0.98 < guard.share < 1.0


BLANK = GuardTicket(0.0, 0.0, 0.0, 0.0)


@every_optimist
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-600, 600), spread=st.sampled_from([1, 30, 400]))
@settings(max_examples=20)
def test_scale_by_powers_of_two_changes_no_bit(policy: umab.Guarded, seed: int, power: int, spread: int) -> None:
    random = np.random.default_rng(seed)
    losses = random.normal(size=60) * 2.0 ** random.integers(-spread, spread + 1, size=60)
    arms = random.integers(3, size=60)
    rows = forced(policy, arms, losses, 3)
    assert same_bits(rows, forced(policy, arms, np.ldexp(losses, power), 3))
    assert (rows > 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), offset=st.floats(-1e3, 1e3))
@settings(max_examples=20)
def test_adding_a_number_to_all_losses_changes_only_rounding(seed: int, offset: float) -> None:
    random = np.random.default_rng(seed)
    losses, arms = random.normal(size=60), random.integers(3, size=60)
    np.testing.assert_allclose(forced(UCB, arms, losses + offset, 3), forced(UCB, arms, losses, 3), atol=1e-9)


def test_a_learner_draws_and_decides_as_plain_python() -> None:
    losses = np.random.default_rng(1).normal([0.0, 0.5, 1.0, 1.5], size=(300, 4))
    learner = umab.Learner(UCB, 4, seed=5)
    for t, round in enumerate(play(UCB, losses, seed=5)):
        choice = learner.select()
        assert (choice.index, choice.probability) == (round.arm, round.probability)
        learner.update(choice, losses[t, choice.index])


# Around policies that remember draws, note them, and wait for losses.


def test_a_policy_inside_with_tickets_keeps_them() -> None:
    """Compiled code does as plain Python; a saved learner goes on as if it had never stopped."""
    policy, losses = umab.policy("guarded(umab-r)"), np.random.default_rng(1).normal([0.0, 0.5, 1.0], size=(60, 3))
    assert policy == umab.Guarded(umab.UMABR()) and policy.name == "guarded(umab-r)"
    learner = umab.Learner(policy, 3, seed=5)
    for t, round in enumerate(play(policy, losses, seed=5)):
        choice = learner.select()
        assert (choice.index, choice.probability) == (round.arm, round.probability)
        if t == 30:
            learner = umab.Learner.from_json(learner.to_json())
        learner.update(choice, losses[t, choice.index])
    choice = learner.select(among=[0, 2])
    forgotten = learner.select()
    learner.forget(forgotten)
    learner.update(choice, 0.3)
    assert learner.probabilities().sum() == pytest.approx(1.0)


def test_without_its_guard_a_policy_plays_as_it_is() -> None:
    losses = np.random.default_rng(1).normal([0.0, 0.5, 1.0], size=(50, 3))
    off, bare = umab.Guarded(UNGUARDED, shadow="never"), UNGUARDED
    for guarded, plain in zip(play(off, losses, seed=5), play(bare, losses, seed=5), strict=True):
        assert (guarded.arm, guarded.probability) == (plain.arm, plain.probability)


@pytest.mark.parametrize("inside", ["umab-e", "adahedge", "guarded(umab-r)", "centred(guarded(umab-r))"])
def test_policies_that_cannot_have_a_guard_are_refused(inside: str) -> None:
    with pytest.raises(ValueError, match=r"the policy inside Guarded must"):
        umab.Guarded(inside)


# Late feedback, and arms that are away.


def test_a_late_loss_is_judged_with_the_probabilities_of_its_draw() -> None:
    """The balance and the shadow's estimate do not depend on what was learned in between."""
    policy, random = UCB, np.random.default_rng(2)
    state: Any = policy.init(3)
    parameters = policy.parameters_for(3)
    for _ in range(50):
        arm = int(random.integers(3))
        ticket = policy.remember(parameters, state, arm, policy.ticket(3))
        loss = float(random.normal()) + arm
        state = policy.update(parameters, state, arm, loss, state.probabilities[arm], ticket)
    early = policy.remember(parameters, state, 2, policy.ticket(3))
    told = state.probabilities[2]
    assert early == GuardTicket(state.guard.iterate[2], state.guard.played[2], told, state.guard.share)
    for _ in range(50):
        arm = int(random.integers(3))
        state = policy.update(parameters, state, arm, float(random.normal()) - arm, state.probabilities[arm], BLANK)
    before, sums = state.guard, list(state.guard.loss_sums)
    assert state.probabilities[2] != told
    state = policy.update(parameters, state, 2, 0.7, told, early)
    weight = early.played / told
    distance = 0.7 - before.origin - before.mean
    assert state.guard.balance - before.balance == pytest.approx(distance * (1 - weight) * before.unit, rel=1e-9)
    estimate = distance / told * state.guard.shadow_unit
    assert state.guard.loss_sums[2] - sums[2] == pytest.approx(estimate, rel=1e-9)


def test_the_shadow_is_told_the_probability_of_an_account() -> None:
    """If an arm is away, its account gets a loss with another probability; estimates and balance stay unbiased."""
    parameters = guard_parameters(3)
    guard, probabilities = new_guard(parameters, 3), [1 / 3] * 3
    guard = judged(parameters, guard, probabilities, 0, 1.0, probabilities[0], BLANK)._replace(share=0.25)
    mix(guard, [0.7, 0.2, 0.1], probabilities)
    ticket = GuardTicket(guard.iterate[1], guard.played[1], probabilities[1], guard.share)
    sums, weight, told = list(guard.loss_sums), guard.played[1] / probabilities[1], 0.3
    after = judged(parameters, guard, probabilities, 1, 5.0, told, ticket)
    assert (after.loss_sums[1] - sums[1]) / after.shadow_unit == pytest.approx(4.0 / told)
    change = after.balance / after.unit - guard.balance / guard.unit
    assert change == pytest.approx(4.0 * (1 - weight) * probabilities[1] / told)


def test_arms_may_be_away_and_come_and_go() -> None:
    learner, random = umab.Learner(UCB, ["a", "b", "c"], seed=1), np.random.default_rng(1)
    for t in range(200):
        choice = learner.select(among=["a", "b"] if t % 3 else None)
        learner.update(choice, float(random.normal()))
    learner.add_arm("d")
    learner.remove_arm("a")
    for _ in range(50):
        learner.update(learner.select(), float(random.normal()))
    assert learner.probabilities().sum() == pytest.approx(1.0)
    assert learner.probabilities().min() > 0


# It acts.


def regret_against_an_adversary(policy: umab.Policy, n_arms: int, n_rounds: int, seed: int) -> float:
    """Return the regret if the arm with the largest probability costs 1 and the others 0, in its own run."""
    learner, random = umab.Learner(policy, n_arms, seed=seed), np.random.default_rng(seed)
    spent, totals = 0.0, np.zeros(n_arms)
    for _ in range(n_rounds):
        p = learner.probabilities()
        dear = int(random.choice(np.flatnonzero(p == p.max())))
        spent += p[dear]
        totals[dear] += 1.0
        choice = learner.select()
        learner.update(choice, float(choice.index == dear))
    return spent - float(totals.min())


@pytest.mark.filterwarnings("ignore:the draw has become almost deterministic")
@pytest.mark.parametrize("n_arms", [2, 4, 8])
def test_it_acts_against_an_adversary_that_sees_the_distribution(n_arms: int) -> None:
    def mean(policy: umab.Policy) -> float:
        return float(np.mean([regret_against_an_adversary(policy, n_arms, 4000, seed) for seed in range(3)]))

    yardstick = mean(umab.UMABW())
    for policy in GUARDED.values():
        assert mean(policy) < 2.0 * yardstick
    assert regret_against_an_adversary(UNGUARDED, n_arms, 4000, 0) > 10.0 * yardstick


def test_the_least_share_is_kept_and_a_good_optimist_plays_the_rest() -> None:
    losses = np.random.default_rng(0).normal([0.0, 2.0, 2.0], size=(2000, 3))
    shares = np.array([round.state.guard.share for round in play(UCB, losses, seed=1)])
    assert shares[0] == 1.0 and shares.min() == LEAST_SHARE and (shares[500:] == LEAST_SHARE).mean() > 0.9
