"""Tsallis-INF-D: its definition in 30 digits with late feedback, what it counts, and its bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import reference
import umab
from helpers import state_of
from umab.algorithms.base import Policy
from umab.algorithms.registry import record_of
from umab.engine.interpreted import play
from umab.errors import NoBoundError
from umab.testing import check_policy
from umab.theory.bounds import bound

ARMS = [0, 1, 2, 0, 1, 0, 2, 1]
LOSSES = [0.5, -1.0, 5.0, -0.25, 2.5, -3.0, 0.75, 1.5]
DELAYS = [2, 0, 3, 0, 1, 5, 0, 0]
"""In round 3, two losses are outstanding; the loss of round 6 arrives after the end."""

WORKED = [
    [0.333333333333, 0.333333333333, 0.333333333333],
    [0.356617716564, 0.286764566873, 0.356617716564],
    [0.283647872642, 0.324795756470, 0.391556370888],
    [0.240335761038, 0.348365557195, 0.411298681767],
    [0.252466563562, 0.347420425351, 0.400113011087],
    [0.342477457500, 0.331016240578, 0.326506301922],
    [0.366230318623, 0.354604268620, 0.279165412757],
    [0.394604192911, 0.301133968596, 0.304261838493],
]


def test_worked_example() -> None:
    """The digits are those of `reference.tsallis_inf_d`, which is written from the definition alone."""
    policy: Policy = umab.TsallisINFD(low=-3, high=5)
    parameters, state = policy.parameters_for(3), policy.init(3)
    waiting, rows = [], []
    for t, arm in enumerate(ARMS):
        waiting.append((t + DELAYS[t], arm, LOSSES[t], state.probabilities[arm]))
        state = policy.selected(parameters, state, arm)
        for due, drawn, loss, probability in waiting:
            if due == t:
                state = policy.update(parameters, state, drawn, loss, probability)
        rows.append(list(state.probabilities))
    np.testing.assert_allclose(rows, WORKED, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_arms", [1, 2, 5])
@pytest.mark.parametrize(("size", "longest"), [(1.0, 0), (1.0, 8), (1e-170, 40), (1e250, 8)])
def test_against_its_definition(n_arms: int, size: float, longest: int) -> None:
    random = np.random.default_rng(n_arms)
    policy = umab.TsallisINFD(low=-3.0 * size, high=5.0 * size)
    table = size * random.uniform(-3.0, 5.0, size=(40, n_arms))
    delays = random.integers(longest + 1, size=40).tolist()
    rounds = [(each.arm, list(each.state.probabilities)) for each in play(policy, table, delays=np.array(delays))]
    arms = [arm for arm, _ in rounds]
    right = reference.tsallis_inf_d(policy, arms, table[np.arange(40), arms].tolist(), delays, n_arms)
    np.testing.assert_allclose([row for _, row in rounds], right[1:], rtol=1e-10)


def test_contract() -> None:
    check_policy("tsallis-inf-d:low=-3,high=5")


def test_without_delays_it_is_tsallis_inf() -> None:
    table = np.random.default_rng(0).random((500, 4)) * [0.5, 1.0, 1.0, 1.0]
    names = ("tsallis-inf-d", "tsallis-inf")
    first, second = ([list(each.state.probabilities) for each in play(name, table)] for name in names)
    np.testing.assert_allclose(first, second, rtol=1e-11)


def test_what_is_outstanding_is_counted_and_makes_it_cautious() -> None:
    delays = np.random.default_rng(0).integers(20, size=50)
    *_, last = play("tsallis-inf-d", np.random.default_rng(1).random((50, 3)), delays=delays)
    assert last.state.waited == np.minimum(delays, np.arange(50)[::-1]).sum() and last.state.round == 51.0
    assert last.state.outstanding == (delays > np.arange(50)[::-1]).sum()
    learner = umab.Learner("tsallis-inf-d", 2, seed=0)
    for _ in range(50):
        learner.update(0, 0.02)
        learner.update(1, 0.0)
    gaps = [float(np.ptp(state_of(learner).probabilities))]
    for _ in range(20):
        learner.select()
        gaps.append(float(np.ptp(state_of(learner).probabilities)))
    assert gaps[0] > 0.1 and (np.diff(gaps) < 0).all()


@pytest.mark.parametrize("delays", [None, 0, 7, [3, 0] * 25])
def test_the_bound_by_hand(delays: Any) -> None:
    losses = [[1.0, -2.0]] * 50
    each = [0] * 50 if delays is None else delays if isinstance(delays, list) else [delays] * 50
    total = sum(min(delay, 49 - t) for t, delay in enumerate(each))
    found = bound("tsallis-inf-d:low=-2,high=1", losses, delays=delays)
    right = 3 * (4 * math.sqrt(100) + math.sqrt(8 * total * math.log(2)))
    assert found.printed == pytest.approx(right, rel=1e-14) and f"D = {total}" in found.source
    assert found.repaired is None and "not checked" in found.source
    with pytest.raises(NoBoundError, match=r"at least 0\.0 and at most 1\.0 for tsallis-inf-d, but got loss=-2\.0"):
        bound("tsallis-inf-d", losses, delays=delays)


@pytest.mark.parametrize("delay", [0, 10, 100])
def test_regret_is_below_the_bound(delay: int) -> None:
    """On two arms that differ by 0.2, and on a best arm that changes after half of the rounds."""
    random = np.random.default_rng(0)
    means = np.array([[0.4, 0.6]] * 1000 + [[0.9, 0.1]] * 1000)
    for table in (random.random((2000, 2)) < means[0], random.random((2000, 2)) < means):
        result = umab.simulate("tsallis-inf-d", table.astype(float), delays=delay, n_trials=50, expected=True)
        limit = bound("tsallis-inf-d", table.astype(float), delays=delay).printed
        assert limit is not None and 0.0 < result.mean[-1] + 4 * result.se[-1] < limit


def test_names_and_claims() -> None:
    policy = umab.policy("tsallis-inf-d")
    assert policy == umab.TsallisINFD() and policy.needs_range and not policy.needs_horizon
    assert not record_of(policy).published
    assert umab.policy("tsallis-inf-d:low=-2").loss_range == (-2.0, 1.0)
