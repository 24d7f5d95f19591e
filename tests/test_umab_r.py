"""UMAB-R: its definition, failures that end, improvements, and feedback that overtakes other feedback."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

import umab
from reference_umab_r import Reference
from umab.algorithms.umab_r import DRAWN, N_UP, OPEN, SEEN, THINNED, TO_LOOK, WAITING
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


def agrees_with_its_definition(table: Array, delays: npt.NDArray[np.int64], scale: float = 1.0) -> float:
    """Play a table in plain Python and by the definition; return how often too many losses waited, at most."""
    right, tickets, thinned = Reference(table.shape[1]), [], 0.0
    due: dict[int, list[int]] = {}
    for t, round in enumerate(play("umab-r", scale * table, seed=3, delays=delays)):
        tickets.append((round.arm, *right.select(round.arm)))
        due.setdefault(t + max(0, int(delays[t])), []).append(t)
        for s in due.pop(t, []):
            arm, number, drawn_in = tickets[s]
            if delays[s] < 0:
                right.close(arm, number)
            else:
                right.learn(arm, table[s, arm], number, drawn_in)
        np.testing.assert_allclose(round.state.probabilities, right.p, rtol=0, atol=1e-10, err_msg=str(t))
        paused = [k for k, arm in enumerate(right.arms) if arm.failing is not None]
        assert [each.arm for each in umab.UMABR().pauses(round.state)] == paused
        thinned = max(thinned, *(record[THINNED] for record in round.state.records))
    return thinned


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e280])
@pytest.mark.parametrize("longest", [0, 3, 90, 350])
@pytest.mark.parametrize("world", worlds())
def test_against_its_definition(world: str, longest: int, scale: float) -> None:
    """With losses that arrive late, in another order, or never."""
    table = worlds()[world]
    delays = np.random.default_rng(longest).integers(-(longest > 0), longest + 1, len(table))
    agrees_with_its_definition(table, np.array(delays, dtype=np.int64), scale)


def test_against_its_definition_where_too_many_losses_wait() -> None:
    random = np.random.default_rng(0)
    delays = np.where(random.random(2000) < 0.5, 300, 0)
    delays[1200:] = 0
    assert agrees_with_its_definition(random.gamma(4.0, 0.25, (2000, 3)) * [1.0, 1.5, 2.0], delays) >= 1.0


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


def outage(seed: int, factor: float = 100.0) -> Array:
    """Return latencies of which the best fail from request 1,000 to 1,500."""
    table = np.random.default_rng(seed).lognormal(np.log([10.0, 20.0, 30.0, 40.0]), 0.5, (2300, 4))
    table[1000:1500, 0] *= factor
    return np.asarray(table)


@pytest.mark.parametrize("factor", [10.0, 1000.0])
def test_an_arm_that_failed_is_left_at_once_and_taken_back(factor: float) -> None:
    for seed in range(20):
        to_best = umab.simulate("umab-r", outage(seed, factor), n_trials=1, seed=seed, progress=False).arms[0] == 0
        assert to_best[1000:1500].sum() < 50 and to_best[-200:].mean() > 0.9, seed


def test_a_learner_says_which_arm_is_paused() -> None:
    table, learner = outage(0), umab.Learner("umab-r", ["east", "west", "north", "south"], seed=0)
    for row in table[:1010]:
        choice = learner.select()
        learner.update(choice, row[choice.index])
    (pause,) = learner.pauses()
    assert pause.arm == "east" and 1000 < pause.round <= 1005 and 0 <= pause.probe_in <= 70
    assert learner.probabilities()[0] < 0.01
    restored = umab.Learner.from_json(learner.to_json())
    assert restored.pauses() == [pause]
    learner.add_arm("new")
    assert [each.arm for each in learner.pauses()] == ["east"] and learner.probabilities()[4] > 0.95
    learner.remove_arm("east")
    assert learner.pauses() == []


def test_orders_that_come_soon_and_zeros_after_a_wait_are_not_a_change() -> None:
    """Gains over choosing at random, with orders at once, and with all feedback after the wait."""
    gains = np.zeros(2)
    for seed in range(10):
        random = np.random.default_rng(seed)
        shape = (6000, 4)
        bought = random.random(shape) < (0.02, 0.05, 0.08, 0.14)
        table = np.where(bought, -random.exponential(20.0, shape), 0.0)
        for at, delays in enumerate((np.where(bought, 0, 300), np.full(shape, 300))):
            result = umab.simulate("umab-r", table, n_trials=2, seed=seed, delays=delays, expected=True, progress=False)
            gains[at] += table.mean(axis=1).sum() - table.sum(axis=0).min() - result.final_regret.mean()
    assert gains[0] > 0.9 * gains[1] > 0.0


def test_a_loss_on_the_account_of_an_arm_that_is_away_is_learned_for_the_arm_that_was_drawn() -> None:
    learner = umab.Learner("umab-r", ["a", "b", "c"], seed=1)
    for _ in range(30):
        for arm, loss in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
            learner.update(arm, loss + 0.01 * len(learner.outstanding))
    for _ in range(60):  # "a" would be drawn, and is away
        choice = learner.select(among=["b", "c"])
        learner.update(choice, {"b": 2.0, "c": 3.0}[choice.arm])
    state = learner._core.layout.unpack(learner._core.buffer)
    assert [round(each[0] / state.unit + state.level.origin, 6) for each in state.values] == [1.0, 2.0, 3.0]
    assert sum(record[OPEN] for record in state.records) == 0.0


def test_a_draw_that_is_never_answered_does_not_stop_an_arm() -> None:
    """Ranks go on after as many rounds as draws are open, or at once if the draw is forgotten."""
    learner = umab.Learner("umab-r", ["a", "b"], seed=0)
    lost = [learner.select() for _ in range(2)]
    for t in range(40):
        choice = learner.select()
        learner.update(choice, float(t % 7) + choice.index)
    state = learner._core.layout.unpack(learner._core.buffer)
    assert sum(record[SEEN] for record in state.records) + sum(record[WAITING] for record in state.records) >= 8.0
    for choice in lost:
        learner.forget(choice)
    for t in range(40):
        choice = learner.select()
        learner.update(choice, float(t % 7) + choice.index)
    state = learner._core.layout.unpack(learner._core.buffer)
    assert all(record[WAITING] == 0.0 and record[OPEN] == 0.0 for record in state.records)


@pytest.mark.parametrize(
    ("field", "at", "value"),
    [
        ("records", WAITING, 65.0),
        ("records", N_UP, 6.0),
        ("records", SEEN, 100.0),
        ("records", DRAWN, 0.5),
        ("records", WAITING, 64.0),
    ],
)
def test_a_damaged_state_is_refused(field: str, at: int, value: float) -> None:
    learner = umab.Learner("umab-r", ["a", "b"], seed=0)
    for t in range(10):
        learner.update(learner.select(), float(t))
    saved = json.loads(learner.to_json())
    saved["state"][field][0][at] = value
    with pytest.raises(ValueError, match=r"records must|counts must|turns must"):
        umab.Learner.from_json(json.dumps(saved))
