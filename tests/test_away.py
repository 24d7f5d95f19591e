"""Simulations in which arms are sometimes away: draws, accounts, and the regret that is counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas
import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import umab
from helpers import POLICIES, same_bits, some_mask, state_of
from umab.algorithms.base import Policy
from umab.engine.compiled import simulation_kernel
from umab.engine.interpreted import play
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.loops import Record, Rings, Table
from umab.engine.streams import stream
from umab.maths.eligible import draw_among
from umab.online.eligible import draw_among as compiled_draw_among
from umab.results import regret as regret_module
from umab.results.among import CostsAmong
from umab.results.regret import Costs
from umab.simplex import Vector
from umab.testing import EXTREMES, Array, compiled_state, legal_losses

Mask = npt.NDArray[np.bool_]

BANDITS = {name: policy for name, policy in POLICIES.items() if not policy.full_information}
RNG = np.random.default_rng(0)
LOSSES = RNG.normal(size=(300, 4)) + np.array([0.0, 0.3, 0.6, 0.9])
EXTREME = RNG.choice(EXTREMES, (300, 4))


MASK = some_mask(RNG, 300, 4)


def learned(policy: Policy, losses: Array, mask: Mask, reload: int = -1) -> tuple[list[int], Any]:
    """Return the arms that a learner drew, and its last state; it is saved and loaded before round `reload`."""
    learner = umab.Learner(policy, losses.shape[1], seed=0)
    arms = []
    for t, (row, there) in enumerate(zip(losses.tolist(), mask, strict=True)):
        if t == reload:
            learner = umab.Learner.from_json(learner.to_json())
        choice = learner.select(among=np.flatnonzero(there).tolist())
        learner.update(choice, row[choice.index])
        arms.append(choice.index)
    return arms, state_of(learner)


def state_of_kernel(policy: Policy, losses: Array, mask: Mask, late: Any) -> Any:
    """Return the state in which the compiled loop leaves trial 0."""
    layout, (n_rounds, n_arms) = layout_of(policy), losses.shape
    delays = np.broadcast_to(late, (n_rounds, n_arms) if np.ndim(late) == 2 else n_rounds).reshape(1, n_rounds, -1)
    buffers = layout.start(policy, n_arms).reshape(1, -1)
    rings = Rings.of(1, blank_ticket(policy, layout, n_arms), delays)
    uniforms = np.random.Generator(stream(0, 0)).random((1, n_rounds + int((~mask.all(axis=1)).sum())))
    table = Table.of(losses, losses, np.zeros(losses.shape), there=mask)
    record = Record.of(np.zeros((1, n_arms)), n_rounds)
    simulation_kernel(policy, "among")(buffers, uniforms, table, rings, record)
    return layout.unpack(buffers[0])


# The draw.


@st.composite
def draws(draw: st.DrawFn) -> tuple[list[float], list[bool], float, float]:
    n_arms = draw(st.integers(1, 8))
    weights = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0**-60, 2.0**-900, 3.0]), min_size=n_arms, max_size=n_arms))
    weights[draw(st.integers(0, n_arms - 1))] = 1.0
    there = draw(st.lists(st.booleans(), min_size=n_arms, max_size=n_arms))
    there[draw(st.integers(0, n_arms - 1))] = True
    uniforms = st.floats(0.0, 1.0, exclude_max=True)
    return [each / sum(weights) for each in weights], there, draw(uniforms), draw(uniforms)


@given(case=draws())
@example(case=([0.1] * 10, [True] * 9 + [False], 1.0 - 2.0**-53, 1.0 - 2.0**-53))
def test_the_draw_is_one_of_the_arms_in_compiled_code_and_in_python_alike(case: Any) -> None:
    p, there, first, second = case
    arm, probability, account, told = draw_among(p, there, first, second)
    assert (arm, probability, account, told) == compiled_draw_among(np.array(p), np.array(there), (first, second))[:4]
    here = sum(each for each, is_there in zip(p, there, strict=True) if is_there)
    assert there[arm] and probability == (p[arm] / here if here > 0.0 else 1.0 / sum(there))
    assert 0.0 < probability <= 1.0 and 0.0 < told <= 1.0 + 1e-15
    assert p[account] > 0.0 or (account == arm and here == 0.0)
    if there[account]:
        assert account == arm
        # If no arm that is away has a probability, the loss goes to the arm that was drawn.
        away = sum(each for each, is_there in zip(p, there, strict=True) if not is_there)
        assert told == (max(here, 0.5) * probability if away > 0.0 else probability)


# All runtimes.


@pytest.mark.parametrize("name", BANDITS)
@pytest.mark.parametrize("losses", [LOSSES, EXTREME], ids=["usual", "extreme"])
def test_simulate_a_learner_and_plain_python_do_the_same(name: str, losses: Array) -> None:
    policy = BANDITS[name].for_horizon(300)
    table = legal_losses(policy, losses)
    arms, state = learned(policy, table, MASK, reload=150)
    *_, last = rounds = list(play(policy, table, eligible=MASK))
    assert [each.arm for each in rounds] == arms
    assert last.state == state == state_of_kernel(policy, table, MASK, 0)
    results = [umab.simulate(policy, table, eligible=MASK, n_trials=n, expected=n > 1) for n in (1, 3)]
    for result in results:
        assert result.arms[0].tolist() == arms
    (other,) = ([each.arm for each in play(policy, table, eligible=MASK, trial=trial)] for trial in (2,))
    assert results[1].arms[2].tolist() == other != arms


class Notes(NamedTuple):
    probabilities: Vector
    noted: Vector
    """How often each arm was noted as drawn."""
    learned: Vector
    """How often a loss came to each arm."""
    n_strange: float
    """How many losses came with the ticket of another arm."""


class NoteTicket(NamedTuple):
    arm: float


@dataclass(frozen=True, kw_only=True)
class TakesNotes(umab.Uniform):
    """Notes the arms that are drawn for it, and what its tickets say."""

    def init(self, n_arms: int) -> Any:
        p = [0.7] + [0.3 / (n_arms - 1)] * (n_arms - 1) if n_arms > 1 else [1.0]
        return Notes(p, [0.0] * n_arms, [0.0] * n_arms, 0.0)

    def ticket(self, n_arms: int) -> Any:
        return NoteTicket(arm=-1.0)

    @staticmethod
    def remember(parameters: Any, state: Any, arm: int, ticket: Any) -> Any:
        return NoteTicket(arm=float(arm))

    @staticmethod
    def selected(parameters: Any, state: Any, arm: int) -> Any:
        state.noted[arm] += 1.0
        return state

    @staticmethod
    def update(parameters: Any, state: Any, arm: int, loss: float, probability: float, ticket: Any = None) -> Any:
        state.learned[arm] += 1.0
        strange = state.n_strange + (0.0 if ticket.arm == arm else 1.0)
        return Notes(state.probabilities, state.noted, state.learned, strange)


def test_a_policy_notes_the_account_and_not_the_arm_that_was_drawn() -> None:
    mask = np.tile([False, True, True, True], (300, 1))  # arm 0, the likeliest, is away
    arms, state = learned(TakesNotes(), LOSSES, mask)
    assert state.noted == state.learned and state.n_strange == 0.0
    assert 0 not in arms and state.noted[0] > 100.0
    *_, last = play(TakesNotes(), LOSSES, eligible=mask)
    assert last.state == state == state_of_kernel(TakesNotes(), LOSSES, mask, 0)
    *_, late = play(TakesNotes(), LOSSES, eligible=mask, delays=5)
    assert late.state == state_of_kernel(TakesNotes(), LOSSES, mask, 5)
    assert late.state.noted == state.noted and sum(late.state.learned) == 295.0 and late.state.n_strange == 0.0


def with_gaps(rng: np.random.Generator, n_rounds: int) -> Any:
    return rng.geometric(0.2, size=n_rounds) - 1


@pytest.mark.parametrize(
    "delays",
    [0, 3, np.arange(300) % 11, np.arange(LOSSES.size).reshape(LOSSES.shape) % 11, with_gaps, 400],
    ids=["none", "3", "varied", "of the arm", "drawn", "400"],
)
@pytest.mark.parametrize("name", ["umab-w", "centred(umab-s)", "sf-mab-a", "ahb", "banker-omd"])
def test_late_feedback_goes_to_its_account(name: str, delays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = BANDITS[name].for_horizon(300)
    result = umab.simulate(policy, LOSSES, eligible=MASK, delays=delays, n_trials=3)
    for trial in (0, 2):
        rounds = list(play(policy, LOSSES, eligible=MASK, delays=delays, trial=trial))
        assert result.arms[trial].tolist() == [each.arm for each in rounds]
        if trial == 0 and not callable(delays):
            assert rounds[-1].state == state_of_kernel(policy, LOSSES, MASK, np.minimum(delays, 300))
    if np.ndim(delays) == 0 and delays == 0:
        assert same_bits(result.regret, umab.simulate(policy, LOSSES, eligible=MASK, n_trials=3).regret)
    monkeypatch.setattr(regret_module, "_ROUNDS_A_PIECE", 7)
    again = umab.simulate(policy, LOSSES, eligible=MASK, delays=delays, n_trials=3)
    assert same_bits(again.mean, result.mean) and (again.arms == result.arms).all()


@pytest.mark.parametrize("name", BANDITS)
def test_a_mask_with_all_arms_is_no_mask(name: str) -> None:
    policy = BANDITS[name].for_horizon(300)
    table, everything = legal_losses(policy, LOSSES), np.ones(LOSSES.shape, dtype=bool)
    plain, masked = (umab.simulate(policy, table, n_trials=4, eligible=mask) for mask in (None, everything))
    assert same_bits(plain.regret, masked.regret) and plain.provenance == masked.provenance
    # The loop for arms that are away, which simulate does not use here, does the same, and so does its regret.
    assert state_of_kernel(policy, table, everything, 0) == compiled_state(policy, table)
    assert state_of_kernel(policy, table, everything, 5) == compiled_state(policy, table, delay=5)
    usual, among = Costs.of(plain.losses), CostsAmong.of(plain.losses)
    assert same_bits(usual.regret(plain.arms), among.regret(plain.arms))


def test_threads_keep_and_other_policies_change_no_bit() -> None:
    whole = umab.simulate("umab-g-a", LOSSES, eligible=MASK, n_trials=70, expected=True)
    for keep in ("all", "arms", "summary"):
        many = umab.simulate(
            ["uniform", "umab-g-a"], LOSSES, eligible=MASK, n_trials=70, expected=True, keep=keep, n_threads=3
        )[1]
        for what in ("mean", "sd", "final_regret"):
            assert same_bits(getattr(many, what), getattr(whole, what))
        if keep != "summary":
            assert same_bits(many.sampled_regret, whole.sampled_regret) and (many.arms == whole.arms).all()
    sampled = umab.simulate("umab-g-a", LOSSES, eligible=MASK, n_trials=70, expected=False)
    assert same_bits(sampled.regret, whole.sampled_regret)
    assert same_bits(sampled.regret[:, -1].copy(), sampled.final_regret)


# What is passed on.


def test_a_saved_result_knows_who_was_away(tmp_path: Path) -> None:
    for expected in (False, True):
        result = umab.simulate("umab-g-a", LOSSES, eligible=MASK, n_trials=5, expected=expected)
        result.save(tmp_path / "result")
        loaded = umab.Result.load(tmp_path / "result")
        assert loaded.losses.eligible is not None and (loaded.losses.eligible == MASK).all()
        assert loaded.losses.digest == result.losses.digest == result.provenance["losses"]["sha256"]
        for name in ("sampled_regret", "mean", "sd", "final_regret"):
            assert same_bits(getattr(loaded, name), getattr(result, name))
    assert loaded.provenance["losses"]["n_away"] == (~MASK).sum()
    assert "n_away" not in umab.simulate("uniform", LOSSES, n_trials=1).provenance["losses"]


@pytest.mark.parametrize("under", [np.nan, np.inf, 1e308, -7.0])
def test_what_is_under_the_mask_has_no_effect(under: float) -> None:
    poisoned = np.where(MASK, LOSSES, under)
    for expected in (False, True):
        plain, other = (
            umab.simulate("centred(umab-s)", table, eligible=MASK, n_trials=3, expected=expected)
            for table in (LOSSES, poisoned)
        )
        assert same_bits(plain.regret, other.regret) and plain.provenance == other.provenance
    assert same_bits(plain.losses.table, other.losses.table)


def test_masks_of_the_losses_and_of_the_call_are_combined() -> None:
    first, second = some_mask(RNG, 300, 4), some_mask(RNG, 300, 4)
    first[:, 0] = second[:, 0] = True
    marked = umab.Losses.of(np.where(first, LOSSES, np.nan), missing="away")
    both = umab.simulate("umab-g-a", marked, eligible=second, n_trials=3)
    assert same_bits(both.regret, umab.simulate("umab-g-a", LOSSES, eligible=first & second, n_trials=3).regret)
    alone = umab.simulate("umab-g-a", marked, n_trials=3)
    assert same_bits(alone.regret, umab.simulate("umab-g-a", LOSSES, eligible=first, n_trials=3).regret)


def test_a_mask_may_be_a_frame() -> None:
    names = ["a", "b", "c", "d"]
    frame = pandas.DataFrame(LOSSES, columns=names)
    plain = umab.simulate("umab-g-a", LOSSES, eligible=MASK, n_trials=2).regret
    for mask in (pandas.DataFrame(MASK, columns=names), polars.DataFrame(MASK, schema=names), MASK.tolist()):
        assert same_bits(umab.simulate("umab-g-a", frame, eligible=mask, n_trials=2).regret, plain)
    with pytest.raises(ValueError, match=r"columns of eligible .*'a', 'b', 'c', 'd', but got 'b', 'a', 'c', 'd'"):
        umab.simulate("umab-g-a", frame, eligible=pandas.DataFrame(MASK, columns=["b", "a", "c", "d"]))


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (MASK[:-1], ValueError, r"shape of the losses, \(300, 4\), but got \(299, 4\)"),
        (MASK.astype(float), TypeError, "booleans, but got ndarray of float64"),
        ([[True, False], [True]], ValueError, "lengths differ"),
        (np.where(np.arange(300)[:, None] == 7, False, MASK), ValueError, "every round .*row 7 has none"),
    ],
)
def test_masks_that_cannot_be_used_are_refused(mask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        umab.simulate("umab-g-a", LOSSES, eligible=mask)


@pytest.mark.parametrize("name", ["adahedge", "solo-ftrl"])
def test_policies_that_see_all_losses_need_all(name: str) -> None:
    where = tuple(np.argwhere(~MASK)[0])
    message = (
        f"{name} needs the losses of all arms .*{(~MASK).sum()} of 1200 cells .*row {where[0]} of arm '{where[1]}'"
    )
    with pytest.raises(ValueError, match=message):
        umab.simulate(["uniform", name], LOSSES, eligible=MASK)
    with pytest.raises(ValueError, match=message):
        next(play(name, LOSSES, eligible=MASK))


def test_a_loss_outside_the_range_counts_only_if_its_arm_is_there() -> None:
    with pytest.raises(ValueError, match=r"exp3, but got loss=2.0 for arm='0' in row 0"):
        umab.simulate("exp3", [[2.0, 0.5], [0.5, 0.5]], eligible=[[True, True], [True, False]])
    umab.simulate("exp3", [[2.0, 0.5], [0.5, 0.5]], eligible=[[False, True], [True, True]], n_trials=1)
