"""What the contract of policies can carry: tickets, rows, fixed vectors, parameters of each trial, wrappers."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import umab
from helpers import same_bits, state_of, without_times
from toys import Breaker, Capped, LastEight, Patient, PatientTosser, ScaleAtDraw, Tosser, TwoMinds
from umab.algorithms import registry
from umab.algorithms.base import Pause, Policy
from umab.engine import compiled
from umab.engine.compiled import simulation_kernel
from umab.engine.interpreted import play
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.loops import Record, Rings, Table
from umab.maths.eligible import draw_among, drawn_among
from umab.maths.simplex import draw, rest_of
from umab.research.experiments.experiment import comparison
from umab.simplex import Vector
from umab.testing import Array, check_policy

TOYS: dict[str, Policy] = {
    "ticket": ScaleAtDraw(),
    "rows": LastEight(),
    "fixed vector": TwoMinds(),
    "ticket, credited and closed": Patient(),
    "coin": Tosser(),
    "pauses": Breaker(),
    "wrapper around a coin": Capped(Tosser()),
    "wrapper around all four": Capped(PatientTosser()),
    "wrapper around a ticket": Capped(ScaleAtDraw(rate=2.0)),
    "wrapper around a note": Capped(umab.AHB()),
    "wrapper around a wrapper": Capped(umab.recommended(), limit=2.0),
}
each_toy = pytest.mark.parametrize("policy", TOYS.values(), ids=TOYS.keys())
LOSSES = np.random.default_rng(3).normal([0.0, 0.5, 1.0], 1.0, size=(120, 3)) * 3.0
BY_ARM = np.arange(360).reshape(120, 3) * 7 % 30
NEVER = np.where(BY_ARM % 4 == 1, -1, BY_ARM)
THERE = BY_ARM % 3 < 2


@pytest.mark.parametrize("kind", ["ticket", "rows", "fixed vector", "pauses", "wrapper around a wrapper"])
def test_a_toy_keeps_the_contract_in_every_runtime(kind: str) -> None:
    check_policy(TOYS[kind])


@each_toy
@pytest.mark.parametrize("delays", [None, 0, 9, lambda random, n: random.integers(-1, 30, n), BY_ARM, NEVER])
def test_simulate_and_plain_python_agree_bit_for_bit(policy: Policy, delays: object) -> None:
    result = umab.simulate(policy, LOSSES, n_trials=3, seed=5, delays=delays)
    for trial in range(3):
        arms = [round.arm for round in play(policy, LOSSES, seed=5, trial=trial, delays=delays)]
        assert arms == result.arms[trial].tolist()


@pytest.mark.parametrize("policy", [Tosser(), Capped(PatientTosser()), Patient(), umab.UMABW(), ScaleAtDraw()])
@pytest.mark.parametrize("delays", [None, NEVER])
def test_they_agree_where_arms_are_away(policy: Policy, delays: object) -> None:
    result = umab.simulate(policy, LOSSES, n_trials=3, seed=5, delays=delays, eligible=THERE)
    for trial in range(3):
        rounds = list(play(policy, LOSSES, seed=5, trial=trial, delays=delays, eligible=THERE))
        assert [round.arm for round in rounds] == result.arms[trial].tolist()
        if policy.coin is not None:
            assert [round.coin for round in rounds] == result.coins[trial].tolist()


@pytest.mark.parametrize("policy", [Patient(), Tosser(), Capped(PatientTosser())])
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_a_learner_closes_draws_as_a_simulation_does(policy: Policy, released: bool, away: bool) -> None:
    """Kept open or released, saved in between, or replayed from a log: all come to the state of plain Python."""
    learner, again = (umab.Learner(policy, 3, seed=5) for _ in range(2))
    due: dict[int, list[Any]] = {}
    for t, round in enumerate(play(policy, LOSSES, seed=5, delays=NEVER, eligible=THERE if away else None)):
        among = np.flatnonzero(THERE[t]).tolist() if away else None
        choice = learner.select(among=among)
        assert choice.index == round.arm
        delay = int(NEVER[t, choice.index])
        draw = json.loads(json.dumps(learner.draw_of(choice)))
        assert draw[8] == round.coin
        own = again.replay(draw)
        if released:
            learner.release(choice), again.release(own)
        due.setdefault(t + max(delay, 0), []).append((delay, choice, own, draw, float(LOSSES[t, choice.index])))
        for late, its_choice, its_own, its_draw, loss in due.pop(t, []):
            for each, known in ((learner, its_choice), (again, its_own)):
                if late < 0:
                    each.forget(umab.Draw(*its_draw) if released else known)
                elif released:
                    each.settle(its_draw, loss)
                else:
                    each.update(known, loss)
        if t % 25 == 7:
            learner = umab.Learner.from_json(learner.to_json(), policy=policy)
        assert state_of(learner) == state_of(again) == round.state


def test_a_draw_is_closed_when_it_is_forgotten_or_expires_and_not_when_it_is_released() -> None:
    learner = umab.Learner(Patient(), ["a"], seed=0)
    first, second, third = learner.select(3)
    draw = learner.release(first)
    assert state_of(learner).given_up == [0.0] and state_of(learner).n_open == [3.0]
    learner.forget(second)
    assert state_of(learner).given_up == [2.0 + 1.0]  # its number and its probability
    learner.expire(after=0, loss=1.0)
    assert state_of(learner).given_up == [3.0] and state_of(learner).n_open == [1.0]
    learner.forget(draw)
    assert state_of(learner).given_up == [3.0 + 1.0 + 1.0] and state_of(learner).n_open == [0.0]
    learner.settle(draw, loss=1.0)  # a closed draw may be settled all the same
    assert state_of(learner).n_open == [-1.0]
    learner.select()
    assert len(learner.expire(after=0, forget=True)) == 1
    assert state_of(learner).given_up == [5.0 + 4.0 + 1.0]
    with pytest.raises(umab.errors.ClosedChoiceError):
        learner.forget(third)


def test_closing_a_draw_of_an_arm_that_is_gone_tells_nobody() -> None:
    learner = umab.Learner(Patient(), ["a", "b"], seed=0)
    choice, other = learner.select(), learner.release(learner.select())
    learner.set_arms(["c"])
    before = state_of(learner)
    learner.forget(choice)
    learner.forget(other)
    assert state_of(learner) == before and learner.n_open == 0


def test_closing_a_draw_ends_a_change_of_arms_if_the_policy_is_told() -> None:
    """Changes of arms act as one until something is learned; a draw that is closed is something."""
    learner = umab.Learner(Patient(), ["a"], seed=0)
    choice, _ = learner.select(2)
    learner.add_arm("b")
    learner.forget(choice)
    learner.add_arm("c")
    state = state_of(learner)
    assert len(state.given_up) == 3 and state.given_up[0] == 2.0 and state.n_open[0] == 1.0


def test_choices_of_others_come_without_a_ticket() -> None:
    ours, theirs = (umab.Learner(Patient(), ["a", "b"], seed=seed) for seed in (0, 1))
    choice = theirs.select()
    ours.update(choice, 1.0, foreign="learn")
    assert sum(state_of(ours).n_open) == 0.0 and state_of(ours).n_drawn == 1.0
    ours.absorb([(theirs.select(), 1.0)])
    assert state_of(ours).n_drawn == 2.0


def test_what_is_left_of_a_draw_is_uniform_and_independent_of_the_arm() -> None:
    """For each arm, the rests of a fine grid of uniform numbers are a fine grid; all in [0, 1)."""
    probabilities = [0.1, 0.2, 0.3, 0.4]
    grid = (np.arange(100_000) + 0.5) / 100_000
    for arm in range(4):
        mine = [rest_of(probabilities, float(u), arm) for u in grid if draw(probabilities, float(u)) == arm]
        assert np.abs(np.sort(mine) - (np.arange(len(mine)) + 0.5) / len(mine)).max() < 1e-3
    there = [True, False, True, False]
    random = np.random.default_rng(0)
    drawn = [drawn_among(probabilities, there, *each) for each in random.random((40_000, 2)).tolist()]
    for account in range(4):
        for arm in (0, 2):
            rests = np.sort([each[4] for each in drawn if (each[0], each[2]) == (arm, account)])
            if account in (arm, 1, 3):
                assert np.abs(rests - np.linspace(0.0, 1.0, len(rests))).max() < 1.95 / np.sqrt(len(rests))
    assert [each[:4] for each in drawn[:100]] == [
        draw_among(probabilities, there, *each) for each in np.random.default_rng(0).random((100, 2)).tolist()
    ]


@pytest.mark.parametrize("uniform", [0.0, 0.1, 0.3, 1.0 - 2.0**-53])
def test_what_is_left_of_a_draw_is_below_1_whatever_rounding_does(uniform: float) -> None:
    for probabilities in ([0.1] * 10, [1.0], [0.1, 0.2, 0.7 - 1e-12], [1e-300, 1.0]):
        arm = draw(probabilities, uniform)
        assert 0.0 <= rest_of(probabilities, uniform, arm) <= 1.0 - 2.0**-53


def test_coins_are_kept_with_results_draws_and_files(tmp_path: Path) -> None:
    result = umab.simulate(Tosser(), LOSSES, n_trials=3, seed=5)
    for trial in range(3):
        assert result.coins[trial].tolist() == [round.coin for round in play(Tosser(), LOSSES, seed=5, trial=trial)]
    assert set(result.coins.ravel().tolist()) == {0, 1}
    result.save(tmp_path / "result")
    assert np.array_equal(umab.Result.load(tmp_path / "result").coins, result.coins)
    with pytest.raises(AttributeError, match="uniform has none"):
        _ = umab.simulate("uniform", LOSSES, n_trials=1).coins
    with pytest.raises(AttributeError, match="summary"):
        _ = umab.simulate(Tosser(), LOSSES, n_trials=1, keep="summary").coins


def test_older_draws_and_files_have_no_coins_and_those_of_others_neither() -> None:
    learner = umab.Learner(Tosser(), ["a", "b"], seed=0)
    choices = learner.select(3)
    draw = learner.draw_of(choices[0])
    assert draw.coin in (0, 1) and umab.Draw(*draw[:8]).coin == -1
    saved = json.loads(learner.to_json())
    del saved["open"]["coins"]
    older = umab.Learner.from_json(json.dumps(saved), policy=Tosser())
    assert older.draw_of(choices[0]) == draw._replace(coin=-1)
    older.update(choices[0], 1.0)
    older.update(umab.Learner(Tosser(), ["a", "b"]).select(), 1.0, foreign="learn")
    older.settle(older.release(choices[1])[:8], 1.0)
    older.forget(choices[2])
    older.update("a", 1.0)
    assert state_of(older).n_without == 4.0
    saved["open"]["coins"] = "AgIC"  # coins of 2
    with pytest.raises(ValueError, match="coins"):
        umab.Learner.from_json(json.dumps(saved), policy=Tosser())
    with pytest.raises(ValueError, match="coin"):
        learner.settle([*draw[:8], 2], 1.0)
    plain = umab.Learner("uniform", ["a", "b"], seed=0)
    drawn, again = plain.select(), umab.Learner("uniform", ["a", "b"], seed=0)
    assert plain.draw_of(drawn).coin == -1
    with pytest.raises(umab.errors.AlteredChoiceError, match="no coin"):
        again.replay(plain.draw_of(drawn)._replace(coin=1))


def test_delays_for_ever_are_for_simulations_only() -> None:
    with pytest.raises(ValueError, match="at least 0, but got -1 for round"):
        umab.theory.certify(umab.UMABS(), LOSSES, delays=NEVER, n_trials=2)
    with pytest.raises(ValueError, match=r"at least 0 \(or −1: never\), but got -2"):
        umab.simulate("uniform", LOSSES, delays=NEVER - 1)


@each_toy
def test_a_learner_with_late_feedback_that_is_saved_in_between_agrees_with_the_delayed_loop(policy: Policy) -> None:
    learner = umab.Learner(policy, 3, seed=5)
    waiting: list[tuple[umab.Choice, float]] = []
    for t, round in enumerate(play(policy, LOSSES, seed=5, delays=4)):
        choice = learner.select()
        assert (choice.index, choice.probability) == (round.arm, round.probability)
        waiting.append((choice, float(LOSSES[t, choice.index])))
        if t >= 4:
            learner.update(*waiting.pop(0))
        if t % 25 == 7:
            learner = umab.Learner.from_json(learner.to_json(), policy=policy)
        if t % 25 == 17:
            learner = pickle.loads(pickle.dumps(learner))
        assert state_of(learner) == round.state
    assert len(learner.outstanding) == 4


def test_a_ticket_is_what_was_true_at_the_draw_and_travels_with_its_choice() -> None:
    learner = umab.Learner(ScaleAtDraw(), ["a", "b"], seed=0)
    early = learner.select()
    learner.update("a", 50.0)  # the scale is 50 from here on
    late = learner.select()
    tickets = [learner.draw_of(each).ticket or {} for each in learner.outstanding]
    assert [ticket["scale"] for ticket in tickets] == [1.0, 50.0]
    assert tickets[0]["drawn_from"] == [0.5, 0.5] and tickets[0]["both"] == [[0.0, 0.5], [0.0, 0.5]]
    twin = umab.Learner.from_json(learner.to_json(), policy=ScaleAtDraw())
    before = state_of(learner).loss_sums[early.index]
    for each in (learner, twin):
        each.update(early, -10.0)  # in the scale of its draw that is −10, clipped to −1, over one half
        assert state_of(each).loss_sums[early.index] == before - 2.0
        each.update(late, 3.0)
    assert without_times(learner) == without_times(twin)
    assert learner.outstanding == ()


@pytest.mark.parametrize(
    "damage",
    [None, "", "AAAA", [{}], [{"scale": 1.0}], [{"scale": 1.0, "drawn_from": [0.5], "both": [[0.0, 0.5]]}]],
)
def test_a_ticket_that_was_tampered_with_is_refused(damage: object) -> None:
    learner = umab.Learner(ScaleAtDraw(), ["a", "b"], seed=0)
    learner.select()
    saved = json.loads(learner.to_json())
    saved["open"]["tickets"] = damage
    with pytest.raises(ValueError, match="ticket"):
        umab.Learner.from_json(json.dumps(saved), policy=ScaleAtDraw())


def test_among_and_labels_make_tickets_too() -> None:
    learner = umab.Learner(ScaleAtDraw(), ["a", "b", "c"], seed=0)
    choices = [learner.select(among=["a", "b"]) for _ in range(20)]
    learner.update("c", 4.0)
    for choice in choices:
        learner.update(choice, 1.0)
    learner.forget(learner.select())
    assert learner.outstanding == () and state_of(learner).scale == 4.0


def test_arms_come_and_go_while_tickets_and_rows_are_kept() -> None:
    learner = umab.Learner(ScaleAtDraw(), ["a", "b"], seed=0)
    choice = learner.select()
    learner.add_arm("c")
    learner.remove_arm("a" if choice.arm == "b" else "b")
    ticket = learner.draw_of(choice).ticket or {}
    assert ticket["drawn_from"] == [0.5, 0.0] and ticket["both"] == [[0.0, 0.5], [0.0, 0.0]]
    learner.update(choice, 2.0)
    assert state_of(learner).loss_sums[0] == 2.0  # 1, as the scale was 1, over one half

    historian = umab.Learner(LastEight(), ["a", "b"], seed=0)
    for t in range(10):
        historian.update("a", float(t))
    historian.add_arm("c")
    historian.remove_arm("b")
    state = state_of(historian)
    assert state.latest == [[8.0, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [0.0] * 8]

    minds = umab.Learner(TwoMinds(n_experts=5), ["a", "b"], seed=0)
    minds.update("b", 1.0)
    minds.add_arm("c")
    assert state_of(minds).trust == [1.0, 0.5, 1.0, 1.0, 1.0]


def test_the_number_of_experts_compiles_nothing_anew() -> None:
    umab.simulate(TwoMinds(n_experts=2), LOSSES, n_trials=2)
    known = len(compiled._kernels)
    for n_experts in (1, 3, 50):
        policy = TwoMinds(n_experts=n_experts)
        result = umab.simulate(policy, LOSSES, n_trials=2, seed=1)
        assert result.arms[0].tolist() == [round.arm for round in play(policy, LOSSES, seed=1)]
    assert len(compiled._kernels) == known


@pytest.mark.parametrize("delay", [None, 3])
@pytest.mark.parametrize(
    "grid",
    [
        [umab.UMABGA(rate=rate, initial_scale=scale) for rate in (0.25, 4.0) for scale in (0.1, 10.0)],
        [umab.UMABGA(rate=100.0), umab.UMABG(rate=100.0, exploration="anytime"), umab.UMABG(exploration="none")],
        [umab.recommended(changing=False), umab.Centred(umab.UMABS(rate=1.0))],
        [Capped(umab.UMABNN(), limit=limit) for limit in (0.5, 1.0, 2.0)],
        [ScaleAtDraw(rate=rate) for rate in (0.1, 1.0, 3.0)],
    ],
)
def test_a_grid_of_parameters_runs_in_one_compiled_call(grid: list[Policy], delay: int | None) -> None:
    """Each trial of the call has its own parameters, and does what it does alone."""
    table = np.ascontiguousarray(np.abs(LOSSES))
    layout, n_rounds = layout_of(grid[0]), len(table)
    uniforms = np.random.default_rng(8).random(n_rounds)

    def run(policies: list[Policy]) -> Array:
        n_trials = len(policies)
        buffers = np.array([layout.start(policy, 3) for policy in policies])
        late = np.full((1, n_rounds, 1), delay or 0)
        rings = Rings.of(n_trials, blank_ticket(policies[0], layout, 3), late)
        record = Record.of(np.zeros((n_trials, 1)), n_rounds)
        kernel = simulation_kernel(policies[0], "plain" if delay is None else "late")
        kernel(buffers, np.tile(uniforms, (n_trials, 1)), Table.of(table, table, np.zeros(n_rounds)), rings, record)
        return np.column_stack([record.arms, layout.probabilities(buffers)])

    together, alone = run(grid), np.concatenate([run([policy]) for policy in grid])
    assert same_bits(together, alone)
    assert len({row.tobytes() for row in together}) == len(grid)  # the parameters matter


def test_wrappers_are_named_parsed_and_saved_like_all_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_WRAPPERS", dict(registry._WRAPPERS))
    umab.register("capped", Capped)
    named: tuple[tuple[Policy, str], ...] = (
        (Capped(umab.UMABNN()), "capped(umab-nn)"),
        (Capped(umab.UMABNN(), limit=2.5), "capped(umab-nn):limit=2.5"),
        (Capped(umab.UMABGA(rate=4.0), limit=3.0), "capped(umab-g-a:rate=4):limit=3"),
        (Capped(umab.Centred(umab.UMABS(rate=2.0)), limit=3.0), "capped(centred(umab-s:rate=2)):limit=3"),
        (umab.Centred(Capped(umab.UMABS())), "centred(capped(umab-s))"),
    )
    for policy, name in named:
        assert policy.name == name and umab.policy(name) == policy
        learner = umab.Learner(policy, 2, seed=0)
        learner.update(learner.select(), 30.0)
        assert umab.Learner.from_json(learner.to_json()).to_json() == learner.to_json()
    policy = umab.policy("capped(umab-g-a):limit=3,rate=4")  # a parameter that the wrapper has not is the inner one's
    assert policy == Capped(umab.UMABGA(rate=4.0), limit=3.0)
    assert policy.parameters()["rate"] == 4.0 and policy.parameters()["policy"] == "umab-g-a:rate=4"
    with pytest.raises(ValueError, match=r"above 0, .*limit=-1"):
        umab.policy("capped(umab-s):limit=-1")
    with pytest.raises(ValueError, match=r"new, .*'capped'"):
        umab.register("capped", umab.Uniform())
    with pytest.raises(ValueError, match="one arm per round, but got adahedge"):
        Capped(umab.AdaHedge())


def test_policies_without_tickets_have_no_room_for_them() -> None:
    remembering = {"scb-d", "banker-sftinf", "banker-sflbinf", "umab-s", "centred(umab-s)", "umab-l", "umab-r"}
    for name in umab.policies():
        policy = umab.policy(name)
        assert (layout_of(policy).ticket is None) == (policy.ticket(2) is None) == (name not in remembering)
        assert not layout_of(policy).state.sizes or name in ("umab-w", "umab-r")  # which keep a history of each arm


class Part(NamedTuple):
    seen: Vector


class Counted(NamedTuple):
    part: Part
    n: float


class NestedState(NamedTuple):
    probabilities: Vector
    part: Part
    total: float


@dataclass(frozen=True, kw_only=True)
class Nested(umab.Policy):
    """Has a state and a ticket with a part in them, and counts in its tickets, which must be blank before each draw."""

    def init(self, n_arms: int) -> NestedState:
        return NestedState([1.0 / n_arms] * n_arms, Part([0.0] * n_arms), 0.0)

    def ticket(self, n_arms: int) -> Counted:
        return Counted(Part([0.0] * n_arms), 0.0)

    @staticmethod
    def remember(parameters: Any, state: NestedState, arm: int, ticket: Counted) -> Counted:
        ticket.part.seen[arm] += 1.0
        return Counted(ticket.part, ticket.n + 1.0)

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: NestedState, arm: int, loss: float, probability: float, ticket: Counted
    ) -> NestedState:
        for k in range(len(state.probabilities)):
            state.part.seen[k] += ticket.part.seen[k]
        return NestedState(state.probabilities, state.part, state.total + ticket.n)


def test_tickets_are_blank_before_each_draw_and_may_hold_parts() -> None:
    check_policy(Nested())
    learner = umab.Learner(Nested(), ["a", "b"], seed=0)
    choice = learner.select()
    learner.add_arm("c")
    learner.add_arm("d")
    again = umab.Learner.from_json(learner.to_json(), policy=Nested())
    for each in (learner, again):
        each.update(choice, 1.0)
        state = state_of(each)
        assert state.total == 1.0 and sum(state.part.seen) == 1.0 and len(state.part.seen) == 4


class Kept(NamedTuple):
    inner: Any
    base: Vector

    @property
    def probabilities(self) -> Any:
        return self.inner.probabilities


@dataclass(frozen=True, kw_only=True)
class KeepsBase(umab.Wrapper):
    """A wrapper that keeps a number for each arm."""

    def init(self, n_arms: int) -> Kept:
        return Kept(self.policy.init(n_arms), [7.0] * n_arms)

    @staticmethod
    def around(inner_update: Any) -> Any:
        def update(parameters: Any, state: Kept, arm: int, loss: float, probability: float, *ticket: Any) -> Kept:
            state.base[arm] += 1.0
            return Kept(inner_update(parameters.inner, state.inner, arm, loss, probability, *ticket), state.base)

        return update


def test_what_a_wrapper_keeps_for_each_arm_follows_the_arms() -> None:
    learner = umab.Learner(KeepsBase(umab.UMABS()), ["a", "b"], seed=0)
    learner.update("b", 1.0)
    learner.add_arm("c")
    learner.remove_arm("a")
    assert state_of(learner).base == [8.0, 7.0]


def test_a_learner_says_which_arms_are_paused_and_when_they_are_probed() -> None:
    learner = umab.Learner(Capped(Breaker(), limit=500.0), ["north", "east"], seed=0)
    learner.update("north", 1.0)
    assert learner.pauses() == []
    learner.update("east", 1e6)
    assert learner.pauses() == [Pause("east", 2, 50)]
    for _ in range(9):
        learner.update("north", 1.0)
    learner.add_arm("west")
    learner.update("west", 101.0)
    learner.remove_arm("north")
    (east, west) = umab.Learner.from_json(learner.to_json(), policy=learner.policy).pauses()
    assert (east, west) == (Pause("east", 2, 40), Pause("west", 12, 50))
    assert east.in_words("12:03") == "east: paused since 12:03, next probe in 40 requests"
    for _ in range(39):
        learner.update("west", 101.0)
    assert [each.in_words() for each in learner.pauses()] == [
        "east: paused after 2 losses, next probe in 1 request",
        "west: paused after 12 losses, next probe in 11 requests",
    ]
    learner.update("west", 1.0)
    assert learner.pauses() == [Pause("east", 2, 0)] and learner.pauses()[0].in_words().endswith("next probe is due")
    learner.update("east", 1.0)
    assert learner.pauses() == []


@pytest.mark.parametrize("wrong", [(5, 1, 0), (0, 0, 0), (0, 201, 0), (0, 1, -1)])
def test_pauses_that_cannot_be_are_found(wrong: tuple[int, int, int]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wrong(Breaker):
        def pauses(self, state: Any) -> list[Pause]:
            return [Pause(*wrong)] if state.round >= 200.0 else []

    with pytest.raises(AssertionError, match="pauses must be"):
        check_policy(Wrong())


@pytest.mark.parametrize("damage", [[[], [], [], []], [[1.0], [1.0], [1.0], [1.0]], [0.0, 0.0, 0.0, [0.0]]])
def test_a_state_of_another_size_never_reaches_compiled_code(damage: list[Any]) -> None:
    saved = json.loads(umab.Learner("umab-nn", 4, seed=0).to_json())
    saved["state"]["loss_sums"] = damage
    with pytest.raises(ValueError, match=r"saved learner .*shape"):
        umab.Learner.from_json(json.dumps(saved))


class WrongSize(umab.Uniform):
    def init(self, n_arms: int) -> Any:
        return super().init(2)


def test_a_state_for_other_arms_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match=r"20 arms, .* for 2$"):
        umab.simulate(WrongSize(), np.zeros((5, 20)), n_trials=4)


def test_names_and_parameters_at_their_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    deep = "centred(" * 2000 + "umab-s" + ")" * 2000
    for read in (umab.policy, lambda name: umab.Learner(name, 2)):
        with pytest.raises(ValueError, match="at most 20 brackets"):
            read(deep)
    about: dict[str, Any] = {"name": "umab-s", "parameters": {}}
    for _ in range(30):
        about = {"name": "centred", "parameters": {}, "inner": about}
    with pytest.raises(ValueError, match=r"saved policy .*at most 20 others"):
        saved = json.loads(umab.Learner("uniform", 2).to_json())
        umab.Learner.from_json(json.dumps({**saved, "policy": about}))
    with pytest.raises(ValueError, match=r"'recommended', .*'recommended'"):
        umab.register("recommended", umab.UMABGA(rate=9.0))
    assert umab.policy("recommended:changing=False,rate=2") == umab.Centred(umab.UMABS(rate=2.0))
    with pytest.raises(ValueError, match=r"key=value,.*'rate' in 'centred:rate'"):
        umab.policy("centred:rate")
    with pytest.raises(ValueError, match=r"'scb'.*policy=SCBIX"):
        umab.Learner.from_json(umab.Learner("scb", 3).to_json(), policy=umab.SCBIX())
    umab.register("my-g", umab.UMABGA(rate=2.0))
    policies = comparison("x", umab.Losses.of(LOSSES)).settings[0].policies
    assert list(policies).count("umab-g-a:rate=4") == 1 and "my-g" in policies
    assert umab.Centred("umab-s").with_parameters(policy="umab-g-a", rate=4.0) == umab.policy(
        "centred(umab-g-a:rate=4)"
    )
