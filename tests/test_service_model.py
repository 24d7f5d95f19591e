"""The service against a simple model: random calls, retries, duplicates, failures, pruning and restarts."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

pytest.importorskip("starlette")

from service_app import Client
from umab_service import service
from umab_service.recovery import recovered
from umab_service.storage import NotStored

ARMS = ["a", "b", "c"]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "brief": {},  # archived at some time
    "default": {"wait": "PT10S", "default_loss": 7.0},  # with settings that change
    "forget": {"wait": "PT10S", "forget": True, "late": "learn"},
    "reward": {"wait": "PT10S", "default_reward": -1.0, "maximize": True},
    "sum": {"wait": "PT10S", "forget": True, "aggregation": "sum"},
    "sum-default": {"wait": "PT10S", "default_reward": 0.5, "aggregation": "sum", "maximize": True},
    "sum-late": {"wait": "PT10S", "forget": True, "aggregation": "sum", "late": "learn"},
}
Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several things: at random, or as hypothesis likes."""


class Known:
    """What the model knows about a decision: all that clients were told, and what time has done to it since."""

    def __init__(self, kind: str, group: str, made: float, due: float | None, deferred: bool) -> None:
        self.kind, self.group, self.made, self.due = kind, group, made, due
        self.state = "deferred" if deferred else "open"
        self.value: float | None = None
        self.parts: dict[str, tuple[float, bool]] = {}
        """The parts of its sum, and whether they came too late."""

    @property
    def is_open(self) -> bool:
        return self.state in ("open", "deferred")


class World:
    """Calls of the service, and what they must answer."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = sorted(kinds)
        self.folder = Path(tempfile.mkdtemp())
        self.client = Client(self.folder)
        self.known: dict[tuple[str, str], Known] = {}
        self.asked: dict[tuple[str, str], tuple[Any, Any]] = {}
        self.saved: dict[str, bytes] = {}
        self.archived: set[str] = set()
        self.outcomes: set[Any] = set()
        self.waits = {name: 10.0 if "wait" in more else None for name, more in KINDS.items()}
        self.defaults = {name: more.get("default_loss", more.get("default_reward")) for name, more in KINDS.items()}
        for name in self.kinds:
            self.client.experiment(name, ARMS, **KINDS[name])

    def close(self) -> None:
        self.client.close()
        shutil.rmtree(self.folder)

    def learners(self) -> dict[str, str]:
        return {name: each.learner.to_json(indent=None) for name, each in self.client.service.experiments.items()}

    # What must be answered.

    def decided(self, kind: str, body: dict[str, Any], status: int, answer: Any) -> None:
        """Compare the answer to a decision with the model, and take it in."""
        identity, n = body["id"], body.get("n")
        before = self.asked.get((kind, identity))
        if before is not None:
            assert (status, answer) == (200, before[1]) if before[0] == body else status == 422
        elif kind in self.archived:
            assert status == 409
        else:
            assert status == 201
            self.asked[kind, identity] = body, answer
            drawn = [answer] if n is None else answer["decisions"]
            assert [each["id"] for each in drawn] == (
                [identity] if n is None else [f"{identity}/{k}" for k in range(n)]
            )
            wait, now = self.waits[kind], self.client.now
            for each in drawn:
                assert each["arm"] in body.get("among", self.client.service.experiments[kind].learner.arms)
                due = None if wait is None else now + wait
                self.known[kind, each["id"]] = Known(kind, identity, now, due, body["defer"])

    def learned(self, kind: str, identity: str, value: float, key: str | None, status: int, answer: Any) -> None:
        """Compare the answer to feedback with the model, and take it in."""
        known = self.known.get((kind, identity))
        before = None if known is None else known.state
        expected = (404, None) if known is None else self.feedback_to(known, value, key)
        assert (status, answer.get("state")) == expected
        self.outcomes.add((kind, before, *expected))

    def feedback_to(self, known: Known, value: float, key: str | None) -> tuple[int, str | None]:
        may_be_late = known.state == "forgotten" and KINDS[known.kind].get("late") == "learn"
        if key is not None:
            if key in known.parts:
                before, is_late = known.parts[key]
                return (409, None) if before != value else (410, None) if is_late else (200, "duplicate")
            known.parts[key] = value, not known.is_open and not may_be_late
            if known.state == "deferred":
                known.state, known.due = "open", self.client.now + 10.0
            if known.is_open:
                return 200, "accepted"
        elif known.is_open:
            known.state, known.value = "learned", value
            return 200, "learned"
        elif known.state in ("learned", "late"):
            same = (200, "duplicate") if known.state == "learned" else (410, None)
            return same if known.value == value else (409, None)
        if may_be_late:
            known.state, known.value = "learned", value
            return 200, "late"
        if key is None:
            known.state, known.value = "late", value
        return 410, None

    # Calls.

    def some_decision(self, pick: Pick) -> tuple[str, dict[str, Any]]:
        more = pick([{}, {}, {"among": ["a", "c"]}, {"n": 1}, {"n": 3}, {"n": 2, "among": ["c"]}])
        return pick(self.kinds), {"id": f"d{pick(range(12))}", "defer": pick([False, False, True]), **more}

    def some_feedback(self, pick: Pick) -> tuple[Any, ...]:
        """Return experiment, decision, value and key, and then the body of the request."""
        kind, identity = pick([*sorted(self.known), (self.kinds[0], "nobody")])
        value, key = pick([1.0, -3.5]), pick(["x", "y"]) if "sum" in kind else None
        body = {"reward" if KINDS[kind].get("maximize") else "loss": value}
        return kind, identity, value, key, body if key is None else {**body, "key": key}

    def decide(self, pick: Pick) -> None:
        kind, body = self.some_decision(pick)
        reply = self.client.ask("POST", f"/v1/experiments/{kind}/decisions", body)
        self.decided(kind, body, reply.status, reply.json)

    def give_feedback(self, pick: Pick) -> None:
        kind, identity, value, key, body = self.some_feedback(pick)
        path = f"/v1/experiments/{kind}/decisions/{identity}/feedback"
        for reply in self.client.ask_all([("PUT", path, body)] * pick([1, 2])):
            self.learned(kind, identity, value, key, reply.status, reply.json)

    def do_a_batch(self, pick: Pick) -> None:
        operations: list[dict[str, Any]] = []
        checks: list[tuple[Any, ...]] = []
        for _ in range(pick([1, 3, 6])):
            if pick([False, True]):
                kind, body = self.some_decision(pick)
                operations.append({"experiment": kind, "decide": body})
                checks.append((self.decided, kind, body))
            else:
                *what, body = self.some_feedback(pick)
                operations.append({"experiment": what[0], "decision": what[1], "feedback": body})
                checks.append((self.learned, *what))
        reply = self.client.ask("POST", "/v1/batch", {"operations": operations})
        assert reply.status == 200
        for (check, *arguments), result in zip(checks, reply.json["results"], strict=True):
            check(*arguments, result["status"], result["body"])

    def activate(self, pick: Pick) -> None:
        if not self.known:
            return
        kind, identity = pick(sorted(self.known))
        known, wait = self.known[kind, identity], self.waits[kind]
        reply = self.client.ask("POST", f"/v1/experiments/{kind}/decisions/{identity}/activate")
        if known.state == "deferred":
            known.state, known.due = "open", None if wait is None else self.client.now + wait
        assert reply.status == (200 if known.state in ("open", "learned") else 410)

    def wait(self, pick: Pick) -> None:
        self.client.sleep(pick([1.0, 6.0, 11.0]))
        for known in self.known.values():
            if known.is_open and known.due is not None and known.due <= self.client.now:
                silent = known.state == "deferred" or (not known.parts and self.defaults[known.kind] is None)
                known.state = "forgotten" if silent else "expired"

    # Administration.

    def change_arms(self, pick: Pick) -> None:
        kind, arm, method = pick(self.kinds), pick(["b", "d"]), pick(["PUT", "DELETE"])
        is_there = arm in self.client.service.experiments[kind].learner.arms
        reply = self.client.ask(method, f"/v1/experiments/{kind}/arms/{arm}")
        assert reply.status == (200 if is_there else 201 if method == "PUT" else 404)

    def change_settings(self, pick: Pick) -> None:
        if "default" in self.kinds:
            wait, default = pick([None, "PT5S", "PT20S"]), pick([None, 3.0, 7.0])
            silence: dict[str, Any] = {"forget": True} if default is None else {"default_loss": default}
            body = silence if wait is None else {**silence, "wait": wait}
            assert self.client.ask("PATCH", "/v1/experiments/default", body).status == 200
            self.defaults["default"] = default
            if wait is not None:
                self.waits["default"] = float(wait[2:-1])

    def archive(self, pick: Pick) -> None:
        if "brief" in self.kinds and pick([False, False, False, False, True]):
            assert self.client.ask("POST", "/v1/experiments/brief/archive").json["state"] == "archived"
            self.archived.add("brief")

    def export(self, pick: Pick) -> None:
        kind = pick(self.kinds)
        reply = self.client.ask("GET", f"/v1/experiments/{kind}/export")
        assert reply.json == json.loads(self.learners()[kind])
        self.saved[kind] = json.dumps(reply.json).encode()

    def take_in(self, pick: Pick) -> None:
        """Import what was exported before; choices that are open stay so."""
        if self.saved:
            kind = pick(sorted(self.saved))
            reply = self.client.ask("POST", f"/v1/experiments/{kind}/import", self.saved[kind])
            assert reply.status == 200 and reply.json["arms"] == json.loads(self.saved[kind])["arms"]

    # What else happens.

    def restart(self, pick: Pick) -> None:
        before = self.learners()
        self.client.restart()
        assert self.learners() == before

    def fail(self, pick: Pick) -> None:
        before, kinds = self.learners(), sorted({*self.kinds} - self.archived)
        with mock.patch.object(type(self.client.service.storage), "commit", side_effect=NotStored("disk I/O error")):
            asked = [("POST", f"/v1/experiments/{kind}/decisions", {"id": "lost"}) for kind in kinds]
            assert {reply.status for reply in self.client.ask_all(asked)} <= {503}
        if kinds:
            assert self.client.service._task is not None
            self.client.run(self.client.service._task)
        for kind in self.kinds:  # on a shared database, an experiment is read when somebody asks for it
            assert self.client.ask("GET", f"/v1/experiments/{kind}").status == 200
        assert self.learners() == before

    def prune(self, pick: Pick) -> None:
        self.client.prune(15.0)
        held = {(each.kind, each.group) for each in self.known.values() if each.is_open}
        for (kind, identity), known in list(self.known.items()):
            if known.made < self.client.now - 15.0 and (kind, known.group) not in held:
                del self.known[kind, identity]
                self.asked.pop((kind, known.group), None)

    # What always holds.

    def check(self) -> None:
        """The log gives the learners bit for bit, and decisions are in the states that the model has them in."""
        found = {each.name: each for each in recovered(self.client.service.storage, True)}
        for name, live in self.client.service.experiments.items():
            assert found[name].learner.to_json(indent=None) == live.learner.to_json(indent=None)
            assert (found[name].n_open, found[name].seq) == (live.n_open, live.seq)
        rows = self.client.query(
            "SELECT name, decisions.id, state, due FROM decisions JOIN experiments ON experiments.id = experiment"
        )
        states = {(name, identity): (state, due) for name, identity, state, due in rows}
        assert states == {key: (each.state, each.due if each.is_open else None) for key, each in self.known.items()}


OFTEN = [World.decide, World.decide, World.give_feedback, World.give_feedback, World.do_a_batch]
SELDOM = [
    World.activate,
    World.wait,
    World.change_arms,
    World.change_settings,
    World.archive,
    World.export,
    World.take_in,
    World.restart,
    World.fail,
    World.prune,
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make snapshots often, and keep few decisions in memory."""
    monkeypatch.setattr(service, "SNAPSHOT_EVERY", 8)
    monkeypatch.setattr(service, "MOST_ROWS", 5)


def walk(seed: int, n_steps: int) -> set[Any]:
    """Do random steps; return which feedback was answered how."""
    choose = random.Random(seed)
    world = World(list(KINDS))
    try:
        for number in range(n_steps):
            if number % 10 == 0:
                world.check()
                weights = choose.choice([[4, 1], [9, 1], [0, 1]])  # for a while, only what is seldom
            choose.choice(choose.choices([OFTEN, SELDOM], weights)[0])(world, choose.choice)
        world.check()
        return world.outcomes
    finally:
        world.close()


def test_a_long_random_walk_agrees_with_the_model() -> None:
    outcomes = walk(2, 1000)
    for kind in KINDS:
        assert sum(each[0] == kind for each in outcomes) >= 4  # the walk came by


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 8))
def test_longer_random_walks_agree_with_the_model(seed: int) -> None:
    walk(seed, 5000)


class Machine(RuleBasedStateMachine):
    """The same steps as hypothesis chooses them, which finds short examples of what is wrong."""

    @initialize(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=3, unique=True))
    def start(self, kinds: list[str]) -> None:
        self.world = World(kinds)

    @rule(steps=st.lists(st.sampled_from([*OFTEN, *SELDOM]), min_size=3, max_size=10), data=st.data())
    def do(self, steps: list[Any], data: Any) -> None:
        for step in steps:
            step(self.world, lambda options: data.draw(st.sampled_from(options)))
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


class LongMachine(Machine):
    """The same for longer."""


def some(n_examples: int, n_steps: int) -> settings:
    return settings(
        max_examples=n_examples, stateful_step_count=n_steps, deadline=None, suppress_health_check=list(HealthCheck)
    )


TestService = Machine.TestCase
TestService.settings = some(10, 10)
TestServiceForLonger = pytest.mark.slow(LongMachine.TestCase)
TestServiceForLonger.settings = some(100, 20)
