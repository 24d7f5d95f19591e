"""Banker-SFTINF and Banker-SFLBINF: the published bank with late feedback, and what the short form of it keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_banker
import umab
from helpers import same_bits, state_of
from umab.algorithms.base import Policy
from umab.algorithms.registry import record_of
from umab.engine.interpreted import play, select
from umab.testing import EXTREMES, Array, check_policy, forced, forced_interpreted, legal_losses

NAMES = ("banker-sftinf", "banker-sflbinf")

ARMS = [0, 1, 2, 0, 1, 0, 2, 1]
LOSSES = [0.5, 1.0, 5.0, 0.25, 2.5, 3.0, 0.75, 1.5]
SIGNED = [0.5, -1.0, 5.0, -0.25, 2.5, -3.0, 0.75, 1.5]
DELAYS = [2, 0, 3, 0, 1, 5, 0, 0]
"""In round 3, two losses are outstanding; the loss of round 6 arrives after the end."""

WORKED = {
    "banker-sftinf": [
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.461273967024, 0.077452065952, 0.461273967024],
        [0.168766143297, 0.415616928352, 0.415616928352],
        [0.101749406042, 0.449125296979, 0.449125296979],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.263187154616, 0.262348336050, 0.474464509334],
        [0.308209939940, 0.307352591334, 0.384437468726],
        [0.359254882740, 0.198039636535, 0.442705480725],
    ],
    "banker-sflbinf": [
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.306751458197, 0.346624270902, 0.346624270902],
        [0.320893538992, 0.339553230504, 0.339553230504],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.330805957960, 0.334597021020, 0.334597021020],
        [0.334873400196, 0.338758810311, 0.326367789492],
        [0.343214510119, 0.322499938292, 0.334285551589],
    ],
}


def ready(name: str, horizon: int = 1258) -> Policy:
    return umab.policy(name).for_horizon(horizon)


def late(policy: Policy, arms: list[int], losses: list[float], delays: list[int], n_arms: int) -> Array:
    """Return the distributions of a run in which the arms are given, one row per round and one more."""
    parameters, state = policy.parameters_for(n_arms), policy.init(n_arms)
    rows, open_draws = [list(state.probabilities)], []
    for t, arm in enumerate(arms):
        probability = state.probabilities[arm]
        state, ticket = select(policy, parameters, state, arm)
        open_draws.append((t + delays[t], arm, losses[t], probability, ticket))
        for due, drawn, loss, chance, kept in open_draws:
            if due == t:
                state = policy.update(parameters, state, drawn, loss, chance, *kept)
        rows.append(list(state.probabilities))
    return np.array(rows)


@pytest.mark.parametrize("name", NAMES)
def test_worked_example(name: str) -> None:
    """The digits are those of `reference_banker`, which keeps a vault for each round."""
    losses = SIGNED if name == "banker-sflbinf" else LOSSES
    rows = late(ready(name), ARMS, losses, DELAYS, 3)
    np.testing.assert_allclose(rows[1:], WORKED[name], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_arms", [1, 2, 5])
@pytest.mark.parametrize(("scale", "longest"), [(1.0, 0), (1.0, 8), (0.01, 3), (30.0, 25), (1e-170, 40), (1e250, 8)])
def test_against_the_published_bank(name: str, n_arms: int, scale: float, longest: int) -> None:
    """On losses with heavy tails, so that losses are skipped and the unit changes while losses are on their way."""
    policy, random = ready(name, 40), np.random.default_rng(n_arms)
    table = legal_losses(policy, np.clip(scale * random.standard_t(1.5, size=(40, n_arms)), -1e300, 1e300))
    delays = random.integers(longest + 1, size=40).tolist()
    rounds = [(each.arm, list(each.state.probabilities)) for each in play(policy, table, delays=np.array(delays))]
    arms = [arm for arm, _ in rounds]
    losses = table[np.arange(40), arms].tolist()
    right = reference_banker.banker(name == "banker-sflbinf", arms, losses, delays, n_arms, horizon=40)
    np.testing.assert_allclose([row for _, row in rounds], right.rows[1:], rtol=1e-10)
    if 1.0 <= scale <= 30.0:
        assert any(right.skipped) and not all(right.skipped)


def test_draws_take_a_part_of_the_bank_and_all_of_it() -> None:
    """The runs above have both, and rounds with and without σ ≥ 2L̂."""
    random = np.random.default_rng(5)
    table = random.standard_t(1.5, size=(40, 5))
    shares, raised = set(), set()
    for each in play(ready("banker-sflbinf", 40), table, delays=random.integers(9, size=40)):
        shares.add(each.state.share == 1.0)
        raised.add(each.state.weight >= 2.0 * each.state.bound)
    assert shares == raised == {True, False}


def test_contract() -> None:
    for name in NAMES:
        check_policy(name)


doubles = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.one_of(doubles, st.floats(-1e3, 1e3), st.floats(-1e-6, 1e-6), st.sampled_from(EXTREMES.tolist()))


@given(
    n_arms=st.integers(1, 9),
    rounds=st.lists(st.tuples(st.integers(0, 8), sizes), max_size=60),
    horizon=st.integers(1, 10**6),
)
def test_without_delays_it_is_banker_omd_bit_for_bit(n_arms: int, rounds: list[Any], horizon: int) -> None:
    arms, losses = [arm % n_arms for arm, _ in rounds], [loss for _, loss in rounds]
    bank, plain = umab.BankerSFLBINF(horizon=horizon), umab.BankerOMD(horizon=horizon)
    rows = forced(plain, arms, losses, n_arms)
    assert same_bits(forced(bank, arms, losses, n_arms), rows)
    assert same_bits(forced_interpreted(bank, arms, losses, n_arms), rows)


def small_after_large(seed: int, size: float) -> Array:
    """Return 2000 rounds of losses of size 1, some of which are better on average, and of another size from 300 on."""
    random = np.random.default_rng(seed)
    signs = np.where(random.random((2000, 3)) < [0.5, 0.35, 0.35], -1.0, 1.0)
    return np.asarray(signs * np.where(np.arange(2000) < 300, 1.0, size)[:, None])


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([2e-7, 2.5e-7, 1e-9, 1e-3, 0.5, 1e3]))
@settings(max_examples=20)
def test_without_delays_simulations_are_those_of_banker_omd_bit_for_bit(seed: int, size: float) -> None:
    """2000 rounds with small losses after some of size 1: σ rises by less than a rounding, and may fall by one."""
    table = small_after_large(seed, size)
    bank, plain = umab.simulate(["banker-sflbinf:horizon=2", "banker-omd:horizon=2"], table, n_trials=4, seed=seed)
    assert (bank.arms == plain.arms).all() and same_bits(bank.final_regret, plain.final_regret)
    rows = [
        [list(each.state.probabilities) for each in play(f"{name}:horizon=2", table, seed=seed)]
        for name in ("banker-sflbinf", "banker-omd")
    ]
    assert rows[0] == rows[1]


def test_the_weight_does_fall_by_a_rounding() -> None:
    """So the law above would fail without `_ROUNDING`."""
    played = play("banker-omd:horizon=2", small_after_large(0, 2e-7))
    weights = np.array([each.state.weight / each.state.unit for each in played])
    steps = np.diff(weights) / weights[1:]
    assert -1e-14 < steps.min() < 0.0


def test_savings_never_disappear() -> None:
    """What was paid into the bank from outside is in it or at work in open draws; skipped rounds pay back too."""
    random = np.random.default_rng(1)
    losses = (np.abs(random.standard_t(1.5, size=60)) * 3.0).tolist()
    arms, delays = random.integers(3, size=60).tolist(), random.integers(9, size=60).tolist()
    for signed, policy in ((False, umab.BankerSFTINF()), (True, umab.BankerSFLBINF(horizon=60))):
        right = reference_banker.banker(signed, arms, losses, delays, 3, horizon=60)
        np.testing.assert_allclose(np.cumsum(right.invested), np.add(right.savings, right.at_work), rtol=1e-12)
        learner, waiting, mine = umab.Learner(policy, 3, seed=0), [], []
        for t in range(60):
            waiting.append((t + delays[t], learner.select(), losses[t]))
            for due, choice, loss in waiting:
                if due == t:
                    learner.update(choice, loss)
            state = state_of(learner)
            mine.append((state.savings + sum(_at_work(learner, state.unit))) / state.unit)
        assert (np.diff(mine) > -1e-9 * mine[-1]).all()


def _at_work(learner: umab.Learner, unit: float) -> list[float]:
    """Return σ of each open choice, in a unit."""
    record = learner._core.layout.ticket
    assert record is not None
    tickets = [record.unpack(each[4]) for each in learner._core.open.values() if each[4] is not None]
    return [each.weight / each.unit * unit for each in tickets]


def test_what_is_outstanding_is_counted() -> None:
    delays = np.random.default_rng(0).integers(20, size=50)
    table = np.abs(np.random.default_rng(1).normal(size=(50, 3)))
    for name in NAMES:
        *_, last = play(ready(name), table, delays=delays)
        waits = np.minimum(delays, np.arange(50)[::-1])
        assert last.state.waited == waits.sum()
        assert last.state.outstanding == (delays > np.arange(50)[::-1]).sum()


def test_the_bound_of_the_draw_counts() -> None:
    """A loss above the L̂ of its draw is skipped, even if L̂ is larger by the time it arrives."""
    learner = umab.Learner("banker-sftinf", 2, seed=0)
    early = learner.select()
    learner.update(0, 100.0)
    learner.update(early, 2.0)
    state = state_of(learner)
    assert state.bound == 200.0 * state.unit and list(state.loss_sums) == [0.0, 0.0]
    learner.update(0, 2.0)
    assert state_of(learner).loss_sums[0] > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_that_changes_while_a_draw_is_open_changes_nothing_else(name: str) -> None:
    """The sums that the draw took come back in the new unit: 2¹⁰⁰⁰ times as large a loss has no part in them."""
    learner = umab.Learner(ready(name), 2, seed=0)
    for _ in range(5):
        learner.update(0, 0.5)
    before = state_of(learner)
    choice = learner.select()
    assert list(state_of(learner).loss_sums) == [0.0, 0.0]
    learner.update(1 - choice.index, math.ldexp(1.0, 1000))
    learner.update(choice, 0.0)
    after = state_of(learner)
    sums = [each / before.unit for each in before.loss_sums]
    assert after.unit < before.unit and [each / after.unit for each in after.loss_sums] == sums


@pytest.mark.parametrize("name", NAMES)
def test_an_arm_that_is_added_while_a_draw_is_open_gets_a_fair_share_in_it(name: str) -> None:
    policy = ready(name)
    parameters, state = policy.parameters_for(3), policy.init(3)
    for arm, loss in ((0, 0.5), (1, 0.2), (2, 0.9), (0, 0.4)):
        state, ticket = select(policy, parameters, state, arm)
        state = policy.update(parameters, state, arm, loss, 1 / 3, *ticket)
    _, (ticket,) = select(policy, parameters, state, 1)
    more = policy.resized_ticket(ticket, [2, None, 0, 1])
    assert [more.taken[k] for k in (2, 3, 0)] == list(ticket.taken)
    assert sorted(ticket.taken)[0] < more.taken[1] < sorted(ticket.taken)[2]
    assert policy.resized_ticket(ticket, [2, 0]).taken == [ticket.taken[2], ticket.taken[0]]
    assert policy.resized_ticket(policy.ticket(3), [0, None]).taken == [0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_saved_with_open_draws(name: str) -> None:
    learner = umab.Learner(ready(name), 3, seed=0)
    for _ in range(5):
        learner.update(learner.select(), 0.5)
    choices = [learner.select(), learner.select()]
    again = umab.Learner.from_json(learner.to_json())
    for each in (learner, again):
        for choice in choices[::-1]:
            each.update(choice, 2.0)
    assert again.policy == learner.policy and same_bits(again.probabilities(), learner.probabilities())


def test_names_and_claims() -> None:
    first, second = (umab.policy(name) for name in NAMES)
    assert first == umab.BankerSFTINF() and second == umab.BankerSFLBINF()
    assert not first.needs_horizon and second.needs_horizon and first.loss_range[0] == 0.0
    assert first.guarantee and not second.guarantee and not any(record_of(each).published for each in (first, second))
    with pytest.raises(ValueError, match=r"at least 0.0 for banker-sftinf, .*loss=-1.0.*any sign"):
        umab.Learner(first, 2).update(0, -1.0)
    with pytest.raises(ValueError, match=r"at least 1, .*horizon=0"):
        umab.BankerSFLBINF(horizon=0)
