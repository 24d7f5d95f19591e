"""Every policy of the service with every kind of feedback, wait, expiry, restart and change of arms, on both databases.

`World` says what each call must answer, and compares the database and the log with the learners. Here it has one
experiment for each row of a table. Beside each learner runs its policy in plain Python, which is told of the draws, the
feedback and the arms, and must have the same state, bit for bit. The short form has rows in which any two factors meet
with all their values; the long form has all rows.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette")

import service_app
import test_service_model
from helpers import POLICIES as PREPARED
from helpers import state_of
from postgres import Postgres, needs_postgres, postgres
from test_service_model import World, often  # noqa: F401  # snapshots are made often
from umab.engine.interpreted import select
from umab_service.service import Service

POLICIES = {name: policy for name, policy in PREPARED.items() if not policy.full_information}
WAITS: dict[str, dict[str, Any]] = {
    "no wait": {},
    "forget": {"wait": "PT10S", "forget": True},
    "default": {"wait": "PT10S", "default_loss": 0.5},
    "late": {"wait": "PT10S", "forget": True, "late": "learn"},
}


class Row(NamedTuple):
    """An experiment, and what happens to it."""

    policy: str
    wait: str
    aggregation: str
    defer: bool
    arms: str
    expiry: bool
    restart: bool


FACTORS: list[list[Any]] = [
    [*WAITS],
    ["first", "sum"],
    [False, True],
    ["kept", "added", "removed", "alone", "grown again"],
    [False, True],
    [False, True],
]
"""The values of the fields of a row after the first."""
HOW = list(itertools.product([False, True], [False, True]))
"""What happens to all experiments of a server at once: whether waits end, and whether it starts again."""


def all_rows(policy: str) -> list[Row]:
    """Return all rows of a policy; a sum has a wait."""
    found = [Row(policy, *row) for row in itertools.product(*FACTORS)]
    return [row for row in found if row.aggregation == "first" or WAITS[row.wait]]


def pairs(row: Row) -> set[Any]:
    """Return the values of each two factors."""
    return set(itertools.combinations(enumerate(row), 2))


@functools.cache
def few_rows() -> list[Row]:
    """Return few rows with all pairs: for each policy one by one, the row that has most of those still missing."""
    found, met = [], set[Any]()
    shuffled = random.Random(0)
    for policy in POLICIES:
        rows = [(row, pairs(row)) for row in all_rows(policy)]
        shuffled.shuffle(rows)  # of equals, not always the first one
        missing = set[Any]().union(*(each for _, each in rows)) - met
        while missing:
            best, its = max(rows, key=lambda row: len(row[1] & missing))
            found.append(best)
            missing -= its
            met |= its
    return found


class Replay:
    """A policy in plain Python, which is told what the service did."""

    def __init__(self, policy: str, arms: Iterable[str]) -> None:
        self.policy: Any = POLICIES[policy]
        self.arms = list(arms)
        self.state = self.policy.init(len(self.arms))
        self.open: dict[str, tuple[str, float, tuple[Any, ...]]] = {}

    @property
    def parameters(self) -> Any:
        return self.policy.parameters_for(len(self.arms))

    def drawn(self, identity: str, arm: str, probability: float) -> None:
        """Take in a draw, which must have the probability that it has here."""
        index = self.arms.index(arm)
        assert self.state.probabilities[index] == probability
        self.state, ticket = select(self.policy, self.parameters, self.state, index)
        self.open[identity] = arm, probability, ticket

    def learned(self, identity: str, loss: float) -> None:
        """Learn the loss of a draw, if its arm is still there."""
        arm, probability, ticket = self.open.pop(identity)
        if arm in self.arms:
            index = self.arms.index(arm)
            self.state = self.policy.update(self.parameters, self.state, index, loss, probability, *ticket)

    def forgotten(self, identity: str) -> None:
        """Take in that a draw was closed without a loss, which may come later."""
        arm, probability, ticket = self.open[identity]
        if self.policy.closed is not None and arm in self.arms:
            index = self.arms.index(arm)
            self.state = self.policy.closed(self.parameters, self.state, index, probability, *ticket)

    def set_arms(self, arms: list[str]) -> None:
        """Change the arms."""
        origins = [self.arms.index(arm) if arm in self.arms else None for arm in arms]
        self.state, self.arms = self.policy.resized(self.state, origins), arms
        for identity, (arm, probability, ticket) in self.open.items():
            resized = tuple(self.policy.resized_ticket(each, origins) for each in ticket)
            self.open[identity] = arm, probability, resized


class Table:
    """A world with an experiment for each row; all of them do the same at the same time, each with its own arms."""

    def __init__(self, rows: Iterable[Row], monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = {f"e{number}": row for number, row in enumerate(rows)}
        kinds = {
            name: {"policy": POLICIES[row.policy].name, "aggregation": row.aggregation, **WAITS[row.wait]}
            for name, row in self.rows.items()
        }
        monkeypatch.setattr(test_service_model, "KINDS", kinds)
        self.discards: list[Any] = []
        for name in ("_on_failure", "_read_again"):
            monkeypatch.setattr(Service, name, lambda *arguments: self.discards.append(arguments))
        self.world = World(list(self.rows))
        self.replays = {name: Replay(row.policy, test_service_model.ARMS) for name, row in self.rows.items()}

    def ask(self, method: str, path: str, body: Any = None, only: Iterable[str] | None = None) -> dict[str, Any]:
        """Ask the same of experiments, all at the same time; each body may depend on the policy."""
        self.world.client.now += 0.001  # so that no two things are due at the same time
        names = list(self.rows if only is None else only)
        bodies = [body(self.rows[name]) if callable(body) else body for name in names]
        asked = [(method, f"/v1/experiments/{name}{path}", each) for name, each in zip(names, bodies, strict=True)]
        replies = dict(zip(names, self.world.client.ask_all(asked), strict=True))
        for name, reply in replies.items():
            assert reply.status < 500 and not self.discards, (name, self.rows[name], method, path, reply)
        return replies

    def decide(self, identity: str) -> None:
        def body(row: Row) -> dict[str, Any]:
            return {"id": identity, "defer": row.defer}

        for name, reply in self.ask("POST", "/decisions", body).items():
            try:
                self.world.decided(name, body(self.rows[name]), reply.status, reply.json)
                self.replays[name].drawn(identity, reply.json["arm"], reply.json["probability"])
            except AssertionError as error:
                raise AssertionError(f"{self.rows[name]}: {identity} was answered by {reply}") from error

    def learn(self, identity: str, value: float, key: str = "x") -> None:
        def loss(row: Row) -> float:
            return value if POLICIES[row.policy].loss_range[1] > 1.0 else value / (1.0 + value)

        def body(row: Row) -> dict[str, Any]:
            return {"loss": loss(row), **({} if row.aggregation == "first" else {"key": key})}

        for name, reply in self.ask("PUT", f"/decisions/{identity}/feedback", body).items():
            row = self.rows[name]
            try:
                part = body(row).get("key")
                self.world.learned(name, identity, loss(row), part, reply.status, reply.json)
                if reply.json.get("state") in ("learned", "late"):
                    self.replays[name].learned(identity, loss(row))
            except AssertionError as error:
                raise AssertionError(f"{row}: feedback for {identity} was answered by {reply}") from error

    def wait(self) -> None:
        """Let all waits end: a sum is learned, or else the default."""
        known = self.world.known
        due = [(key, each.due) for key, each in known.items() if each.is_open and each.due is not None]
        self.world.wait(lambda _: 11.0)
        closed = [key for key, _ in sorted(due, key=lambda each: each[1])]
        for name, identity in closed:
            if known[name, identity].state == "expired":
                parts = [value for value, _ in known[name, identity].parts.values()]
                default: Any = self.world.defaults[name]
                self.replays[name].learned(identity, math.fsum(parts) if parts else default)
        for name, identity in closed:  # after what is learned
            if known[name, identity].state == "forgotten":
                self.replays[name].forgotten(identity)

    def set_arms(self, method: str, arm: str, *kinds: str) -> None:
        """Add or remove an arm where the rows say so."""
        names = [name for name, row in self.rows.items() if row.arms in kinds]
        for name, reply in self.ask(method, f"/arms/{arm}", only=names).items():
            replay, adds = self.replays[name], method == "PUT"
            assert reply.status == (201 if adds else 200), (self.rows[name], reply)
            replay.set_arms([*replay.arms, arm] if adds else [each for each in replay.arms if each != arm])

    def restart(self) -> None:
        self.world.restart(None)  # type: ignore[arg-type]

    def check(self) -> None:
        self.ask("GET", "")  # on a shared database, an experiment is read when somebody asks for it
        for name, row in self.rows.items():
            learner = self.world.client.service.experiments[name].learner
            probabilities = learner.probabilities().tolist()
            assert abs(math.fsum(probabilities) - 1.0) < 1e-9 and min(probabilities) >= 0.0, (row, probabilities)
            assert len(probabilities) > 1 or probabilities == [1.0], row
            replay = self.replays[name]
            assert (list(learner.arms), repr(state_of(learner))) == (replay.arms, repr(replay.state)), row
        self.world.check()
        assert not self.discards


def run(rows: Iterable[Row], expiry: bool, restart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(rows, monkeypatch)
    try:
        for number in range(4):
            table.decide(f"d{number}")
        table.learn("d0", 1.0)
        table.learn("d0", 1.0)  # again
        table.learn("d1", 3.0, "y")
        table.learn("d1", 0.25)  # another part of a sum; a conflict for a first feedback
        table.set_arms("DELETE", "b", "removed", "alone", "grown again")
        table.set_arms("DELETE", "c", "alone", "grown again")
        table.set_arms("PUT", "d", "added")
        table.check()
        if restart:
            table.restart()
        if expiry:
            table.wait()
        table.learn("d2", 1000.0)  # drawn before the arms changed
        table.decide("d4")
        table.learn("d4", 1e6)
        if expiry:
            table.wait()
        table.decide("d5")
        table.set_arms("PUT", "d", "grown again")
        table.learn("d5", 1e-3)
        table.learn("d3", 0.25)
        table.decide("d6")
        if restart:
            table.restart()
        table.check()
    finally:
        table.world.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=needs_postgres())])
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on each kind of database."""
    if request.param == "PostgreSQL":
        monkeypatch.setattr(service_app, "url_of", request.getfixturevalue("server").urls())


def test_any_two_factors_meet_in_the_short_matrix() -> None:
    """With all their values, but for a sum without a wait, which the service refuses."""
    sizes = [len(POLICIES), *map(len, FACTORS)]
    n_pairs = sum(first * second for first, second in itertools.combinations(sizes, 2))
    assert len({pair for row in few_rows() for pair in pairs(row)}) == n_pairs - 1
    assert all(len({row[at] for row in few_rows()}) == size for at, size in enumerate(sizes))
    assert len(few_rows()) <= 6 * len(POLICIES)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(("expiry", "restart"), HOW)
def test_the_matrix_in_short_agrees_with_the_model(
    expiry: bool, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run([row for row in few_rows() if (row.expiry, row.restart) == (expiry, restart)], expiry, restart, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(("expiry", "restart"), HOW)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_whole_matrix_agrees_with_the_model(
    policy: str, expiry: bool, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in all_rows(policy) if (row.expiry, row.restart) == (expiry, restart)]
    run(rows, expiry, restart, monkeypatch)
