"""SCB-D: its definition in 30 digits with late feedback, and what it counts and keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
import umab
from helpers import state_of
from umab.algorithms.registry import record_of
from umab.engine.interpreted import play, select
from umab.simplex import tsallis
from umab.testing import Array, check_policy, forced
from umab.theory.theorems import theorem_of

NAMES = ("scb-d", "centred(scb-d)")

ARMS = [0, 1, 2, 0, 1, 0, 2, 1]
LOSSES = [0.5, -1.0, 5.0, -0.25, 2.5, -3.0, 0.75, 1.5]
DELAYS = [2, 0, 3, 0, 1, 5, 0, 0]
"""In round 3, two losses are outstanding; the loss of round 6 arrives after the end."""

WORKED = {
    "scb-d": [
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.297754480860, 0.351122759570, 0.351122759570],
        [0.302186864479, 0.348906567761, 0.348906567761],
        [0.343224149441, 0.328991986944, 0.327783863615],
        [0.364228473535, 0.349393117031, 0.286378409434],
        [0.389356823229, 0.304119863414, 0.306523313357],
    ],
    "centred(scb-d)": [
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.333333333333, 0.333333333333, 0.333333333333],
        [0.286830840200, 0.356584579900, 0.356584579900],
        [0.292482070533, 0.353758964733, 0.353758964733],
        [0.331923929183, 0.318028335409, 0.350047735407],
        [0.348794467204, 0.334507877148, 0.316697655647],
        [0.367690785680, 0.297950337009, 0.334358877312],
    ],
}


def late(name: str, arms: list[int], losses: list[float], delays: list[int], n_arms: int) -> Array:
    """Return the distributions of a run in which the arms are given, one row per round and one more."""
    policy = umab.policy(name)
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
    """The digits are those of `reference.scb_d`, which is written from the definition alone."""
    np.testing.assert_allclose(late(name, ARMS, LOSSES, DELAYS, 3)[1:], WORKED[name], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_arms", [1, 2, 5])
@pytest.mark.parametrize(("scale", "longest"), [(1.0, 0), (1.0, 8), (1e-170, 40), (1e250, 8)])
def test_against_its_definition(name: str, n_arms: int, scale: float, longest: int) -> None:
    """On losses with heavy tails, so that the scale and the unit change while losses are on their way."""
    random = np.random.default_rng(n_arms)
    table = np.clip(scale * random.standard_t(1.5, size=(30, n_arms)), -1e300, 1e300)
    delays = random.integers(longest + 1, size=30).tolist()
    rounds = [(each.arm, list(each.state.probabilities)) for each in play(name, table, delays=np.array(delays))]
    arms = [arm for arm, _ in rounds]
    losses = table[np.arange(30), arms].tolist()
    right = reference.scb_d(arms, losses, delays, n_arms, centred=name != "scb-d")
    np.testing.assert_allclose([row for _, row in rounds], right[1:], rtol=1e-10)


def test_contract() -> None:
    for name in NAMES:
        check_policy(name)


def test_without_delays_it_is_scb_with_half_the_weight_and_no_doubling() -> None:
    """By hand: after a loss of 1, C = 1; a loss of 2 of the same arm is clipped to 1 and moved up to 2."""
    rows = forced(umab.SCBD(), [0, 0], [1.0, 2.0], 2)
    assert rows[1].tolist() == [0.5, 0.5]
    gap = (1.0 + 1.0) / 0.5
    p = [0.0, 0.0]
    tsallis([gap, 0.0], 1 / (2 * 2 * math.sqrt(3)), p)
    beta = 2 / (4 + math.sqrt(6))
    assert rows[2] == pytest.approx([(1 - beta) * each + beta / 2 for each in p], rel=1e-13)


def test_what_is_outstanding_is_counted() -> None:
    """Σ𝔡 after any rounds is the sum of the delays, cut off at the end."""
    delays = np.random.default_rng(0).integers(20, size=50)
    *_, last = play("scb-d", np.random.default_rng(1).normal(size=(50, 3)), delays=delays)
    state = last.state
    waits = np.minimum(delays, np.arange(50)[::-1])
    assert state.waited == waits.sum() and state.round == 51.0
    assert state.outstanding == (delays > np.arange(50)[::-1]).sum()


def test_the_scale_of_the_draw_counts() -> None:
    """A loss whose draw knew no scale teaches the scale and nothing else, however large the scale is by then."""
    learner = umab.Learner("scb-d", 2, seed=0)
    early = learner.select()
    learner.update(0, 100.0)
    sums = list(state_of(learner).loss_sums)
    learner.update(early, -1000.0)
    state = state_of(learner)
    assert state.scale == 1000.0 and [each / state.unit for each in state.loss_sums] == [0.0, 0.0] == sums


def test_a_draw_that_never_comes_back_makes_it_cautious() -> None:
    """Before the next loss arrives, the leader moves: towards the uniform distribution."""
    learner = umab.Learner("scb-d", 2, seed=0)
    for _ in range(50):
        learner.update(0, 1.0)
        learner.update(1, 0.0)
    gaps = [float(np.ptp(state_of(learner).iterate))]
    for _ in range(20):
        learner.select()
        gaps.append(float(np.ptp(state_of(learner).iterate)))
    assert gaps[0] > 0.1 and (np.diff(gaps) < 0).all()


def test_names_and_claims() -> None:
    bare, centred = (umab.policy(name) for name in NAMES)
    assert bare == umab.SCBD() and centred == umab.Centred("scb-d")
    assert bare.scale_free and not bare.shift_free and centred.scale_free and centred.shift_free
    assert theorem_of(bare) == theorem_of(centred) == "Theorem D" and not record_of(bare).published
    assert bare.guarantee == "ℓ∞ (√(nT) + √D)"
    learner = umab.Learner("centred(scb-d)", 3, seed=0)
    choice = learner.select()
    learner.update(learner.select(), 1.0)
    again = umab.Learner.from_json(learner.to_json())
    for each in (learner, again):
        each.update(choice, 2.0)
    assert again.policy == learner.policy and (again.probabilities() == learner.probabilities()).all()
