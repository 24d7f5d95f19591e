"""UMAB-R: its definition, failures that end, improvements, and feedback that overtakes other feedback."""

from __future__ import annotations

import numpy as np
import pytest

import umab
from reference_umab_r import Reference
from umab.algorithms.umab_r import TO_LOOK
from umab.engine.interpreted import play
from umab.testing import Array

N_ROUNDS = 400


def worlds() -> dict[str, Array]:
    """Return tables on which each part of the policy has something to do."""
    random = np.random.default_rng(5)
    gamma = random.gamma(4.0, 0.25, (N_ROUNDS, 4)) * [10.0, 13.0, 16.0, 20.0]
    outage, better = gamma.copy(), random.normal([0.0, 2.0, 3.0], 1.0, (N_ROUNDS, 3))
    outage[120:180, 0] *= 100.0
    outage[230:232, 1] *= 100.0
    better[100:, 2] -= 6.0
    return {
        "latencies": gamma,
        "an outage": outage,
        "an improvement": better,
        "a trend": random.normal(0.0, 1.0, (N_ROUNDS, 3))
        + [0.0, 1.0, 2.0]
        + np.linspace(0.0, 300.0, N_ROUNDS)[:, None],
        "coins": (random.random((N_ROUNDS, 3)) < [0.2, 0.5, 0.9]).astype(float),
        "heavy tails": random.standard_t(1.3, (N_ROUNDS, 5)) + np.arange(5.0),
        "two arms alike": np.repeat(random.normal(size=(N_ROUNDS, 1)), 2, axis=1),
        "one arm": random.normal(size=(N_ROUNDS, 1)),
    }


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e280])
@pytest.mark.parametrize("longest", [0, 3, 90, 350])
@pytest.mark.parametrize("world", worlds())
def test_against_its_definition(world: str, longest: int, scale: float) -> None:
    """With losses that arrive late, in another order, or never."""
    table = worlds()[world]
    n_rounds, n_arms = table.shape
    delays = np.array(np.random.default_rng(longest).integers(-(longest > 0), longest + 1, n_rounds), dtype=np.int64)
    right, tickets = Reference(n_arms), []
    for t, round in enumerate(play("umab-r", scale * table, seed=3, delays=delays)):
        tickets.append((round.arm, *right.select(round.arm)))
        for s in range(max(0, t - longest), t + 1):
            arm, number, drawn_in = tickets[s]
            if delays[s] < 0 and s == t:
                right.close(arm, number)
            elif delays[s] >= 0 and s + delays[s] == t:
                right.learn(arm, table[s, arm], number, drawn_in)
        np.testing.assert_allclose(round.state.probabilities, right.p, rtol=0, atol=1e-10, err_msg=str(t))
        paused = [k for k, arm in enumerate(right.arms) if arm.failing is not None]
        assert [each.arm for each in umab.UMABR().pauses(round.state)] == paused


def test_the_worlds_show_every_part() -> None:
    seen: dict[str, set[str]] = {}
    for world, table in worlds().items():
        found = seen[world] = set()
        for round in play("umab-r", table, seed=3):  # what is in the state changes in place
            found |= {"pause"} if umab.UMABR().pauses(round.state) else set()
            found |= {"look"} if any(record[TO_LOOK] for record in round.state.records) else set()
            found |= {"level"} if round.state.local else set()
            found |= {"forgets"} if round.state.forgets else set()
    assert "pause" in seen["an outage"] and "look" in seen["a trend"] and "level" in seen["a trend"], seen
    assert any("forgets" in found for found in seen.values()) and seen["latencies"] == set()
