"""What the contract of policies can carry: tickets, rows, fixed vectors, parameters of each trial, wrappers."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import umab
from helpers import same_bits, state_of, without_times
from toys import Capped, LastEight, ScaleAtDraw, TwoMinds
from umab.algorithms import registry
from umab.algorithms.base import Policy
from umab.engine import compiled
from umab.engine.compiled import delayed_simulation_kernel, simulation_kernel
from umab.engine.interpreted import play
from umab.engine.layout import layout_of
from umab.research.experiments.experiment import comparison
from umab.simplex import Vector
from umab.testing import Array, check_policy

TOYS: dict[str, Policy] = {
    "ticket": ScaleAtDraw(),
    "rows": LastEight(),
    "fixed vector": TwoMinds(),
    "wrapper around a ticket": Capped(ScaleAtDraw(rate=2.0)),
    "wrapper around a note": Capped(umab.AHB()),
    "wrapper around a wrapper": Capped(umab.recommended(), limit=2.0),
}
each_toy = pytest.mark.parametrize("policy", TOYS.values(), ids=TOYS.keys())
LOSSES = np.random.default_rng(3).normal([0.0, 0.5, 1.0], 1.0, size=(120, 3)) * 3.0
BY_ARM = np.arange(360).reshape(120, 3) * 7 % 30


@pytest.mark.parametrize("kind", ["ticket", "rows", "fixed vector", "wrapper around a wrapper"])
def test_a_toy_keeps_the_contract_in_every_runtime(kind: str) -> None:
    check_policy(TOYS[kind])


@each_toy
@pytest.mark.parametrize("delays", [None, 0, 9, lambda random, n: random.integers(0, 30, n), BY_ARM])
def test_simulate_and_plain_python_agree_bit_for_bit(policy: Policy, delays: object) -> None:
    result = umab.simulate(policy, LOSSES, n_trials=3, seed=5, delays=delays)
    for trial in range(3):
        arms = [round.arm for round in play(policy, LOSSES, seed=5, trial=trial, delays=delays)]
        assert arms == result.arms[trial].tolist()


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
        n_trials, n_open = len(policies), 1 if delay is None else delay + 1
        buffers = np.array([layout.start(policy, 3) for policy in policies])
        blank = np.empty(0) if layout.ticket is None else layout.ticket.pack(policies[0].ticket(3))
        arms, regret = np.zeros((n_trials, n_rounds), dtype=np.int32), np.zeros((n_trials, n_rounds))
        common = (
            buffers,
            np.tile(blank, (n_trials, n_open + 1, 1)),
            np.tile(uniforms, (n_trials, 1)),
            table,
            table,
            np.zeros(n_rounds),
            False,
            np.zeros(n_trials),
            regret,
            arms,
        )
        if delay is None:
            simulation_kernel(policies[0])(*common)
        else:
            ring = np.zeros((n_trials, n_open)), np.full((n_trials, 4, n_open), -1)
            delayed_simulation_kernel(policies[0])(*common, 0, np.full((n_trials, n_rounds, 1), delay), *ring)
        return np.column_stack([arms, layout.probabilities(buffers)])

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
    remembering = {"scb-d", "banker-sftinf", "banker-sflbinf", "umab-s", "centred(umab-s)", "umab-l"}
    for name in umab.policies():
        policy = umab.policy(name)
        assert (layout_of(policy).ticket is None) == (policy.ticket(2) is None) == (name not in remembering)
        assert not layout_of(policy).state.sizes or name == "umab-w"  # which keeps a history of each arm


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
