"""UMAB-S with late feedback: its definition in 40 digits, what it remembers of a draw, and what it charges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import umab
from helpers import same_bits
from umab.algorithms.umab_s import DRIFT, Ticket
from umab.engine.interpreted import play, select

NAMES = ("umab-s", "centred(umab-s)")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_arms", [1, 2, 5])
@pytest.mark.parametrize(("scale", "longest"), [(1.0, 0), (1.0, 8), (1e-170, 40), (1e250, 8)])
def test_against_its_definition(name: str, n_arms: int, scale: float, longest: int) -> None:
    """On losses with heavy tails, so that some are clipped and the unit changes while losses are on their way."""
    random = np.random.default_rng(n_arms)
    table = np.clip(scale * random.standard_t(1.5, size=(40, n_arms)), -1e300, 1e300)
    delays = random.integers(longest + 1, size=40).tolist()
    rounds = [(each.arm, list(each.state.probabilities)) for each in play(name, table, delays=np.array(delays))]
    arms = [arm for arm, _ in rounds]
    losses = table[np.arange(40), arms].tolist()
    rows = reference.umab_s_late(3, arms, losses, delays, n_arms, name != "umab-s")
    np.testing.assert_allclose([row for _, row in rounds][:-1], rows[1:], rtol=1e-10)


def learned(state: Any, arm: int, loss: float, probability: float, at_draw: float) -> Any:
    """Return the state of UMAB-S after a loss, which changes vectors in place, with this ticket."""
    copied = type(state)(*(list(each) if isinstance(each, list) else each for each in state))
    policy = umab.UMABS()
    parameters = policy.parameters_for(len(state.probabilities))
    return policy.update(parameters, copied, arm, loss, probability, Ticket(iterate=at_draw))


def after(*losses: tuple[int, float]) -> Any:
    """Return the state of UMAB-S with three arms after these losses, in time."""
    policy = umab.UMABS()
    parameters, state = policy.parameters_for(3), policy.init(3)
    for arm, loss in losses:
        state = learned(state, arm, loss, state.probabilities[arm], state.iterate[arm])
    assert parameters.rate == 3.0
    return state


@given(
    rounds=st.lists(st.tuples(st.integers(0, 2), st.floats(-1e300, 1e300)), min_size=1, max_size=12),
    arm=st.integers(0, 2),
    loss=st.floats(-1e300, 1e300),
    among=st.floats(0.1, 1.0),
)
def test_nothing_is_charged_if_nothing_is_late(
    rounds: list[tuple[int, float]], arm: int, loss: float, among: float
) -> None:
    """With a blank ticket UMAB-S is as it was without tickets; the probability may be of a draw among some arms."""
    state = after(*rounds)
    probability = min(1.0, state.probabilities[arm] / among)
    in_time = learned(state, arm, loss, probability, state.iterate[arm])
    blank = learned(state, arm, loss, probability, 0.0)
    assert all(same_bits(np.array(a), np.array(b)) for a, b in zip(in_time[:3], blank[:3], strict=True))
    assert in_time[4:] == blank[4:]


def test_what_is_charged_by_hand() -> None:
    """An eighth of the price of a drift, if it has one; if the drift was a gain, all of it is taken off the step."""
    state = after((0, 1.0), (1, 2.0), (2, 0.5), (0, 3.0))
    p, chance = state.iterate[1], 0.4
    step = learned(state, 1, 2.0, chance, 0.0).paid - state.paid
    times = state.unit * 2.0 / chance  # the sums are in units
    fallen = learned(state, 1, 2.0, chance, p + 0.2).paid - state.paid
    assert fallen == pytest.approx(step + DRIFT * 0.2 * times, rel=1e-12)
    risen = learned(state, 1, 2.0, chance, p - 1e-3).paid - state.paid
    assert 0.0 < risen == pytest.approx(step - 1e-3 * times, rel=1e-12)
    assert learned(state, 1, 2.0, chance, p / 20).paid == state.paid  # never less than nothing
    gain = learned(state, 1, -0.01, chance, p / 2).paid - learned(state, 1, -0.01, chance, 0.0).paid
    assert gain == pytest.approx(DRIFT * 0.01 / chance * state.unit * p / 2, rel=1e-12)


def test_an_arm_that_has_risen_is_clipped_as_when_it_was_drawn() -> None:
    """The smaller one of p at the draw and p now counts: the same loss is clipped less."""
    state = after((0, 1.0), (1, 2.0), (2, 0.5), (0, 3.0))
    now = [learned(state, 2, -50.0, 0.4, at_draw) for at_draw in (0.0, state.iterate[2] * 2, state.iterate[2] / 2)]
    change = [each.loss_sums[2] / each.unit - state.loss_sums[2] / state.unit for each in now]
    assert change[0] == change[1] == pytest.approx(change[2] / 2)


def test_the_ticket_is_that_of_the_account() -> None:
    learner = umab.Learner("umab-s", ["a", "b", "c"], seed=0)
    for arm, loss in [("a", 1.0), ("b", 2.0), ("c", 0.5)]:
        learner.update(arm, loss)
    choices = [learner.select(among=["a", "b"]) for _ in range(20)]
    p = dict(zip("abc", saved_form(learner)["state"]["iterate"], strict=True))
    draws = [learner.draw_of(each) for each in choices]
    assert {draw.account for draw in draws} == {"a", "b", "c"}
    assert all((draw.ticket or {}) == {"iterate": p[str(draw.account)]} for draw in draws)


def saved_form(learner: umab.Learner) -> dict[str, Any]:
    """Return what `save` writes."""
    content: dict[str, Any] = json.loads(learner.to_json())
    return content


# What was saved, released or logged before UMAB-S had tickets, or elsewhere.


@pytest.mark.parametrize("name", NAMES)
def test_open_choices_of_an_earlier_version_are_loaded(name: str, tmp_path: Path) -> None:
    """Their losses are learned as they would have been: nothing is charged for their drift."""
    learner = umab.Learner(name, ["a", "b"], seed=0)
    choices = [learner.select() for _ in range(4)]
    saved = saved_form(learner)
    del saved["open"]["tickets"]
    path = tmp_path / "learner.json"
    path.write_text(json.dumps(saved))
    older = umab.Learner.load(path)
    assert older.outstanding == tuple(choices)
    policy: Any = umab.policy(name)
    parameters, state = policy.parameters_for(2), policy.init(2)
    for choice, loss in zip(choices, [1.0, -3.0, 2.0, 7.0], strict=True):
        older.update(choice, loss)
        state = policy.update(parameters, state, choice.index, loss, choice.probability, Ticket(iterate=0.0))
    assert same_bits(older.probabilities(), np.array(state.probabilities))
    damages: tuple[Any, ...] = ("", None, [{}] * 4)
    for damage in damages:
        saved["open"]["tickets"] = damage
        path.write_text(json.dumps(saved))
        with pytest.raises(ValueError, match="ticket"):
            umab.Learner.load(path)


def test_a_draw_that_was_released_without_a_ticket_is_settled() -> None:
    first, second = (umab.Learner("umab-s", ["a", "b"], seed=0) for _ in range(2))
    draw = first.release(first.select())
    assert draw.ticket == {"iterate": 0.5}
    second.settle(draw._replace(ticket=None), loss=2.0)
    first.settle(draw, loss=2.0)
    assert same_bits(first.probabilities(), second.probabilities())
    replayed = umab.Learner("umab-s", ["a", "b"], seed=0)
    assert replayed.replay(draw._replace(ticket=None)).arm == draw.arm
    with pytest.raises(ValueError, match="fit the state"):
        umab.Learner("umab-s", ["a", "b"], seed=0).replay(draw._replace(ticket={"iterate": 0.25}))


def test_choices_of_other_learners_are_learned_from_without_their_tickets() -> None:
    theirs, ours = (umab.Learner("centred(umab-s)", ["a", "b"], seed=seed) for seed in (0, 1))
    log = [(theirs.select(), loss) for loss in (3.5, 2.5, 1.0)]
    by_label = umab.Learner("centred(umab-s)", ["a", "b"], seed=2)
    for choice, loss in log:
        by_label.update(choice.arm, loss, probability=choice.probability)
    assert ours.absorb(log) == 3
    assert same_bits(ours.probabilities(), by_label.probabilities())


def test_without_the_charge_the_rate_does_not_pay_for_the_drift() -> None:
    """The proof needs that the sum of all M + δ is at most 8 times what is paid. With blank tickets it is more."""
    losses = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(3000, 3)).tolist()
    policy, ratios = umab.UMABS(), []
    for keep in (True, False):
        parameters, state, random = policy.parameters_for(3), policy.init(3), np.random.default_rng(1)
        due: list[Any] = []
        cost = 0.0  # Σ(M + δ), in units of the losses
        for t in range(len(losses) + 1000):
            if t < len(losses):
                arm = int(random.choice(3, p=np.array(state.probabilities) / sum(state.probabilities)))
                probability = state.probabilities[arm]
                state, (ticket,) = select(policy, parameters, state, arm)
                due.append((arm, losses[t][arm], probability, ticket))
            if t >= 1000:
                arm, loss, probability, ticket = due.pop(0)
                step = learned(state, arm, loss, probability, 0.0)
                cost += step.paid / step.unit - state.paid / state.unit
                cost += loss / probability * (ticket.iterate - state.iterate[arm])
                used = ticket if keep else policy.ticket(3)
                state = policy.update(parameters, state, arm, loss, probability, used)
        ratios.append(cost / (state.paid / state.unit))
    assert ratios[0] < 1 / DRIFT < ratios[1]
