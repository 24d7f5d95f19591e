"""States that are rare: of a single arm, however it came to be alone, and of files that were damaged or made up."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import POLICIES
from umab.algorithms.base import Policy
from umab.engine.interpreted import select
from umab.engine.layout import layout_of
from umab.testing import EXTREMES, legal_losses

pytestmark = pytest.mark.filterwarnings("ignore::umab.LearnerWarning")

BANDITS = {name: policy for name, policy in POLICIES.items() if not policy.full_information}
WRAPPED = [umab.policy(f"{wrapper}(umab-sh)") for wrapper in ("centred", "local")]
every_bandit = pytest.mark.parametrize("policy", BANDITS.values(), ids=BANDITS.keys())

doubles = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(EXTREMES.tolist()) | st.just(1000.0)
everyday = st.floats(-2.0, 2.0)
kinds = st.sampled_from(["draw", "draw", "learn", "learn", "tell", "tell", "alone", "more"])
steps = st.lists(st.tuples(kinds, doubles | everyday), min_size=10, max_size=40)


def check(policy: Policy, probabilities: Any) -> None:
    """The probabilities are a distribution, and that of a single arm is 1 to the last bit."""
    assert abs(math.fsum(probabilities) - 1.0) < 1e-9
    assert min(probabilities) >= 0.0 and (policy.plays_each_arm_first or min(probabilities) > 0.0)
    assert len(probabilities) > 1 or list(probabilities) == [1.0]


def state_of(learner: umab.Learner) -> Any:
    return learner._core.layout.unpack(learner._core.buffer)


def walk(policy: Policy, n_arms: int, what: list[tuple[str, float]]) -> None:
    """Let arms come, and go until one is left, while losses arrive late; compiled and plain code do the same."""
    learner = umab.Learner(policy, n_arms, seed=0)
    state, n_made = state_of(learner), n_arms
    parameters, record = policy.parameters_for(n_arms), learner._core.layout.ticket
    known: list[Any] = []
    for step, value in what:
        loss = float(legal_losses(policy, np.array([value]))[0])
        index = len(known) // 2
        if step == "draw":
            known.append(learner.select())
            state, _ = select(policy, parameters, state, _now(learner, known[-1]))
        elif step == "learn" and known:
            choice = known.pop(index)
            _, _, account, probability, ticket, *_ = learner._core.open[choice.id]
            learner.update(choice, loss)
            if account is not None:
                kept = () if record is None or ticket is None else (record.unpack(ticket),)
                state = policy.update(parameters, state, account, loss, probability, *kept)
        elif step == "tell":
            arm = learner.arms[-1]
            now, probability = len(learner.arms) - 1, float(learner.probabilities()[-1])
            if probability == 0.0:
                continue
            learner.update(arm, loss)
            state, kept = select(policy, parameters, state, now)
            state = policy.update(parameters, state, now, loss, probability, *kept)
        elif step in ("alone", "more"):
            if step == "alone":
                learner.set_arms([learner.arms[0 if value > 0.0 else -1]])
            else:
                learner.set_arms([*learner.arms, n_made])
                n_made += 1
            state, parameters = state_of(learner), policy.parameters_for(len(learner.arms))
        assert repr(state_of(learner)) == repr(state)
        check(policy, learner.probabilities().tolist())
    assert umab.Learner.from_json(learner.to_json()).to_json() == learner.to_json()


def _now(learner: umab.Learner, choice: Any) -> int:
    now = learner._core.open[choice.id][2]
    assert now is not None
    return now


@every_bandit
@given(n_arms=st.integers(1, 3), what=steps)
@settings(max_examples=25)
def test_a_single_arm_has_probability_1_however_it_came_to_be_alone(
    policy: Policy, n_arms: int, what: list[tuple[str, float]]
) -> None:
    walk(policy, n_arms, what)


@pytest.mark.parametrize("policy", [umab.policy("umab-sh"), *WRAPPED], ids=str)
def test_a_large_loss_of_the_arm_that_is_left_leaves_its_probability(policy: Policy) -> None:
    """The loss of the others, which had no weight left, was divided by the weight of the arm, which had none either."""
    state = policy.init(2)
    state = policy.update(policy.parameters_for(2), state, 0, 1.0, 0.5)
    state = policy.update(policy.parameters_for(2), state, 1, 3.0, 0.5)
    state = policy.resized(state, [0])
    for loss in (1000.0, 1e308, -1e308, 5e-324):
        state = policy.update(policy.parameters_for(1), state, 0, loss, 1.0)
        assert list(state.probabilities) == [1.0]


# States from elsewhere.

WRONG: list[Any] = [-1.0, 0.0, -0.0, 0.5, 1e-320, 3.0, 1e9, 1e300, -1e300, 1.7976931348623157e308]
NEVER: list[Any] = [math.nan, math.inf, None, "1", True, [], [1.0], {}, [[0.5]], [0.5, [0.5]], 10**400]


def saved(policy: Policy, n_arms: int = 3) -> Any:
    """Return a learner that has seen some rounds, some of which are still open."""
    learner = umab.Learner(policy, n_arms, seed=1)
    random = np.random.default_rng(0)
    for loss in legal_losses(policy, random.normal(size=60)):
        learner.update(learner.select(), float(loss))
    for _ in range(3):
        learner.select()
    return json.loads(learner.to_json())


def survives(learner: umab.Learner, n_rounds: int = 200) -> None:
    """Draw and learn, late and with losses of all sizes, and let arms go until one is left, and come again."""
    random, policy = np.random.default_rng(2), learner.policy
    losses = legal_losses(policy, random.choice([*EXTREMES, *random.normal(size=10)], n_rounds)).tolist()
    for choice in learner.outstanding:
        learner.update(choice, losses[0])
    waiting = []
    for t, loss in enumerate(losses):
        waiting.append(learner.select())
        if len(waiting) > 2:
            learner.update(waiting.pop(0), loss)
        check(policy, learner.probabilities().tolist())
        if t == n_rounds // 2:
            learner.set_arms(learner.arms[:1])
        if t == n_rounds * 3 // 4:
            learner.set_arms([*learner.arms, "new", "newer"])


def damaged(value: Any) -> Iterator[Any]:
    """Yield a field of a state with something wrong in it, which is not always noticed."""
    yield from NEVER
    if not isinstance(value, list):
        yield from (each for each in WRONG if each != value)
        yield from (value * 1e6, -value, value + 0.25)
        return
    yield from (value[:-1], [*value, value[-1]], value[::-1])
    for each in WRONG:
        changed = copy.deepcopy(value)
        row = changed[0] if isinstance(changed[0], list) else changed
        row[0] = each
        yield changed
    yield [[2.0 * x for x in each] if isinstance(each, list) else 2.0 * each for each in value]


@every_bandit
def test_a_damaged_state_is_refused_by_name_or_survived(policy: Policy) -> None:
    text = saved(policy)
    n_refused = 0
    for name, value in text["state"].items():
        for each in damaged(value):
            crafted = json.dumps({**text, "state": {**text["state"], name: each}})
            try:
                learner = umab.Learner.from_json(crafted, policy=None)
            except ValueError as error:
                n_refused += 1
                told = str(error)
                assert name in told or "weights" in told or "square_sum" in told or "clip" in told or "scale" in told
                assert "must" in told and "but got" in told
                continue
            assert type(each) is float or all(type(x) in (float, list) for x in each), (name, each)
            try:
                survives(learner)
            except Exception as error:
                error.add_note(f"{policy.name}: {name}={each!r} was accepted")
                raise
    assert n_refused >= len(NEVER)


@every_bandit
def test_every_field_of_a_state_and_a_ticket_has_limits(policy: Policy) -> None:
    layout = layout_of(policy)
    assert {*policy.limits, layout.distribution} == {*layout.state.names, layout.distribution}
    assert {*policy.ticket_limits} == (set() if layout.ticket is None else {*layout.ticket.names})


@pytest.mark.parametrize(
    ("name", "field", "value", "told"),
    [
        ("exp3-ix", "round", -1.0, "round must be from 1 to 9007199254740992, but got round=-1.0"),
        ("umab-s", "iterate", [0.5, 0.1, 0.1], "iterate must sum to 1, but got a sum of 0.7"),
        ("umab-s", "unit", "big", "unit must be finite numbers, but got unit='big'"),
        ("scb", "round", 1.5, "round must be a whole number, but got round=1.5"),
        ("centred(umab-s)", "inner.paid", -3.0, "inner.paid must be from 0 to"),
    ],
)
def test_what_is_wrong_with_a_saved_state_is_told_with_its_rule_and_value(
    name: str, field: str, value: Any, told: str
) -> None:
    policy = POLICIES.get(name, umab.policy(name))
    text = saved(policy)
    text["state"][field] = value
    with pytest.raises(ValueError) as refused:
        umab.Learner.from_json(json.dumps(text))
    assert told in str(refused.value)


@pytest.mark.parametrize("policy", [each for each in BANDITS.values() if each.ticket(1) is not None], ids=str)
def test_a_damaged_ticket_is_refused_or_survived(policy: Policy) -> None:
    learner = umab.Learner(policy, 3, seed=1)
    for loss in legal_losses(policy, np.random.default_rng(0).normal(size=60)):
        learner.update(learner.select(), float(loss))
    open_choice = learner.select()
    before, n_refused = learner._core.open[open_choice.id][4], 0
    assert before is not None
    for place in range(len(before)):
        for value in (*WRONG, math.nan, math.inf):
            before_value, before[place] = before[place], value
            text = learner.to_json()
            before[place] = before_value
            try:
                loaded = umab.Learner.from_json(text)
            except ValueError:
                n_refused += 1
                continue
            survives(loaded)
    assert n_refused > 0
