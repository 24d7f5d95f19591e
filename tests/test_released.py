"""Choices that are kept outside a learner: released, and settled later."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import umab
from helpers import state_of

ARMS = ["a", "b", "c"]


def losses(seed: int) -> Any:
    return np.random.default_rng(seed).normal([0.0, 1.0, 2.0], size=(300, 3))


@pytest.mark.parametrize("policy", ["umab-w", "centred(umab-s)", "ahb", "scb"])
@pytest.mark.parametrize("among", [None, ["a", "c"]])
def test_released_and_settled_is_the_same_as_kept_open(policy: str, among: list[str] | None) -> None:
    kept, releasing = (umab.Learner(policy, ARMS, seed=3) for _ in range(2))
    waiting: list[tuple[umab.Choice, Any]] = []
    for t, row in enumerate(np.abs(losses(1))):
        choice = kept.select(among=among)
        draw = releasing.release(releasing.select(among=among))
        assert choice[:3] == draw[:3]
        waiting.append((choice, json.loads(json.dumps(draw))))
        if t % 3:
            choice, draw = waiting.pop(t % len(waiting))
            loss = float(row[choice.index])
            kept.update(choice, loss)
            releasing.settle(draw, loss)
        assert kept.probabilities().tolist() == releasing.probabilities().tolist()
    assert releasing.n_open == 0 and kept.n_open == len(waiting)
    assert {arm: counter.mean for arm, counter in kept.counters().items()} == {
        arm: counter.mean for arm, counter in releasing.counters().items()
    }


def test_a_release_survives_a_save_and_a_change_of_arms() -> None:
    learner = umab.Learner("umab-w", ARMS, seed=0)
    draws = [learner.release(learner.select()) for _ in range(30)]
    learner = umab.Learner.from_json(learner.to_json())
    gone = next(draw for draw in draws if draw.arm == "b")
    stays = next(draw for draw in draws if draw.arm == "c")
    learner.set_arms(["c", "a", "d"])
    before = learner.to_json()
    learner.settle(gone, 5.0)
    assert learner.to_json() == before  # its arm is gone, so nothing is learned
    learner.settle(stays, 5.0)
    assert learner.counters()["c"].updates == 1


@pytest.mark.parametrize("policy", [name for name in umab.policies() if not umab.policy(name).full_information])
def test_a_release_is_settled_after_a_change_of_arms_as_an_open_choice_is(policy: str) -> None:
    """No ticket is lost: one with a value for each arm says for which arms."""
    ready = umab.policy(policy).for_horizon(300)
    kept, releasing = (umab.Learner(ready, ARMS, seed=3) for _ in range(2))
    for row in np.abs(losses(2)[:5]) / 10:
        for learner in (kept, releasing):
            choice = learner.select()
            learner.update(choice, float(row[choice.index]))
    choices = [kept.select() for _ in range(40)]
    draws = [releasing.release(releasing.select()) for _ in range(40)]
    assert {each.arm for each in choices} == set(ARMS) or policy == "umab-r"  # which stays with one
    for learner in (kept, releasing):
        learner.set_arms(["c", "d", "e", "a"])
    for at, (choice, draw) in enumerate(zip(choices, draws, strict=True)):
        kept.update(choice, 0.02 * at)
        releasing.settle(draw, 0.02 * at)
    assert kept.probabilities().tolist() == releasing.probabilities().tolist()


@pytest.mark.parametrize("arms", [["c", "a"], ["a", "b", "c", "d"], ["d", "b", "a"]])
def test_a_draw_of_an_older_version_does_not_say_its_arms_and_is_settled_all_the_same(arms: list[str]) -> None:
    learner = umab.Learner("banker-sftinf", ARMS, seed=3)
    draw = next(each for each in iter(lambda: learner.release(learner.select()), None) if each.arm == "a")
    assert draw.ticket is not None and draw.ticket["_arms"] == ARMS
    older = draw._replace(ticket={name: value for name, value in draw.ticket.items() if name != "_arms"})
    again = umab.Learner.from_json(learner.to_json())
    for each, given in ((learner, draw), (again, older)):
        each.settle(given, 2.0)
    assert learner.to_json() == again.to_json()  # as long as the arms are the same
    learner.set_arms(arms)
    learner.settle(older, 2.0)
    assert learner.counters()["a"].updates == 2
    with pytest.raises(ValueError, match="a ticket must have a value for each of its arms"):
        learner.settle(draw._replace(ticket={**draw.ticket, "_arms": ["a"]}), 2.0)


def test_a_reward_is_settled_as_a_reward() -> None:
    losing, gaining = umab.Learner("umab-w", 2, seed=0), umab.Learner("umab-w", 2, seed=0, maximize=True)
    for value in (1.0, 3.0, -2.0):
        losing.settle(losing.release(losing.select()), loss=-value)
        gaining.settle(gaining.release(gaining.select()), reward=value)
    assert losing.probabilities().tolist() == gaining.probabilities().tolist()


def test_what_is_wrong_is_refused_and_changes_nothing() -> None:
    learner = umab.Learner("umab-nn", ARMS, seed=0)
    choice = learner.select()
    draw = learner.release(choice)
    before = learner.to_json()
    with pytest.raises(umab.errors.ClosedChoiceError):
        learner.release(choice)
    with pytest.raises(ValueError, match="nine values"):
        learner.settle(draw[:4], 1.0)
    with pytest.raises(ValueError, match="probability must be above 0"):
        learner.settle(draw._replace(account_probability=0.0), 1.0)
    with pytest.raises(ValueError, match="loss must be at least 0"):
        learner.settle(draw, -1.0)
    with pytest.raises(ValueError, match="finite"):
        learner.settle(draw, float("nan"))
    assert learner.to_json() == before


TICKETS: dict[str, list[tuple[Any, str]]] = {
    "banker-sftinf": [
        (None, "'taken' is missing"),
        ({"unit": 0.0}, "unit must be from"),
        ({"unit": 0.75}, "unit must be from"),
        ({"outstanding": 0.5}, "outstanding must be a whole number"),
        ({"bound": -1.0}, "bound must be from"),
        ({"taken": [1e308, 0.0, 0.0]}, "taken must be from"),
        ({"taken": [0.0, float("nan"), 0.0]}, "finite"),
        ({"taken": [[0.0], [0.0], [0.0]]}, "taken must be numbers of shape"),
        ({"weight": "heavy"}, "as it was released"),
    ],
    "scb-d": [
        ({"scale": -1.0}, "scale must be from"),
        ({"scale": float("inf")}, "finite"),
        ({"scale": None}, "finite"),
        ("x", "as it was released"),
    ],
    "umab-s": [({"iterate": 3.0}, "iterate must be from"), ({"iterate": -0.1}, "iterate must be from")],
    "centred(umab-s)": [({"iterate": float("nan")}, "finite")],
}
"""What is not the ticket of any draw, by policy, and what is said of it."""


@pytest.mark.parametrize("arms", [ARMS, ["a", "b", "c", "d"]])
@pytest.mark.parametrize("policy", TICKETS)
def test_a_ticket_that_no_draw_has_is_refused_and_changes_nothing(policy: str, arms: list[str]) -> None:
    """A draw may come from anywhere, as a saved learner may; also if the arms have changed since."""
    learner = umab.Learner(policy, ARMS, seed=0)
    learner.update(learner.select(), 1.0)
    draw = learner.release(learner.select())
    learner.set_arms(arms)
    assert draw.ticket is not None
    before = learner.to_json()
    for damage, why in TICKETS[policy]:
        ticket = {**draw.ticket, **damage} if isinstance(damage, dict) else damage
        with pytest.raises(umab.errors.AlteredChoiceError, match=why):
            learner.settle(draw._replace(ticket=ticket), 2.0)
        assert learner.to_json() == before, damage
    learner.settle(json.loads(json.dumps(draw)), 2.0)
    assert learner.to_json() != before


def test_a_draw_that_is_newer_than_the_learner_is_settled() -> None:
    """Its unit is finer than the learner's, which was loaded from an older file."""
    older = umab.Learner("banker-sftinf", ARMS, seed=0)
    newer = umab.Learner.from_json(older.to_json())
    newer.update(newer.select(), 1e6)
    draw = newer.release(newer.select())
    assert draw.ticket is not None and draw.ticket["unit"] < state_of(older).unit
    older.settle(draw, 2.0)
    assert older.counters()[draw.arm].updates == 1


def test_a_learner_that_releases_is_not_told_that_feedback_is_missing() -> None:
    learner = umab.Learner("umab-w", 2, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(1500):
            learner.release(learner.select())
    assert learner.n_open == 0
