"""Every policy of the service with every kind of feedback, wait, expiry, restart and change of arms, against the model.

`World` says what each call must answer, and compares the database and the log with the learners. Here it has one
experiment for each row of a table. The short form has each policy in three rows, in which the other factors take their
values in turn; the long form has all rows.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

pytest.importorskip("starlette")

import test_service_model
import umab
from test_service_model import World
from umab_service.service import Service

PREPARED = {name: umab.policy(name).for_horizon(1000) for name in umab.policies()}
POLICIES = {name: policy for name, policy in PREPARED.items() if not policy.full_information}
WAITS: list[dict[str, Any]] = [
    {},
    {"wait": "PT10S", "forget": True},
    {"wait": "PT10S", "default_loss": 0.5},
    {"wait": "PT10S", "forget": True, "late": "learn"},
]
AGGREGATIONS: list[dict[str, Any]] = [{}, {"aggregation": "sum"}]
DEFERS = [False, True]
ARMS = ["kept", "added", "removed", "alone", "alone and more"]
ROWS = [row for row in itertools.product(WAITS, AGGREGATIONS, DEFERS, ARMS) if row[0] or not row[1]]  # a sum has a wait


class Table:
    """A world with an experiment for each row; all of them do the same at the same time, each with its own arms."""

    def __init__(self, rows: dict[str, tuple[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = rows
        kinds = {}
        for name, (policy, (wait, aggregation, _, _)) in rows.items():
            kinds[name] = {"policy": POLICIES[policy].name, **wait, **aggregation}
        monkeypatch.setattr(test_service_model, "KINDS", kinds)

        def discarded(service: Service, *arguments: Any) -> Any:
            raise AssertionError("the learners were discarded")

        for name in ("_on_failure", "_read_again"):
            monkeypatch.setattr(Service, name, discarded)
        self.world = World(list(rows))

    def decide(self, identity: str) -> None:
        for name, (_, (_, _, defer, _)) in self.rows.items():
            body = {"id": identity, "defer": defer}
            reply = self.world.client.ask("POST", f"/v1/experiments/{name}/decisions", body)
            self.world.decided(name, body, reply.status, reply.json)
            assert 0.0 < reply.json["probability"] <= 1.0, (name, reply)

    def learn(self, identity: str, value: float, key: str = "x") -> None:
        for name, (policy, (_, aggregation, _, _)) in self.rows.items():
            loss = min(value, POLICIES[policy].loss_range[1])
            part = key if aggregation else None
            body = {"loss": loss} if part is None else {"loss": loss, "key": part}
            path = f"/v1/experiments/{name}/decisions/{identity}/feedback"
            reply = self.world.client.ask("PUT", path, body)
            assert reply.status < 500, (name, identity, reply)
            try:
                self.world.learned(name, identity, loss, part, reply.status, reply.json)
            except AssertionError as error:
                raise AssertionError(f"{name}: feedback for {identity} was answered by {reply}") from error

    def change(self) -> None:
        for name, (_, (_, _, _, arms)) in self.rows.items():
            gone = {"removed": ["b"]}.get(arms, ["b", "c"] if arms.startswith("alone") else [])
            for arm in gone:
                assert self.world.client.ask("DELETE", f"/v1/experiments/{name}/arms/{arm}").status == 200, name
            if arms == "added":
                assert self.world.client.ask("PUT", f"/v1/experiments/{name}/arms/d").status == 201, name

    def grow(self) -> None:
        for name, (_, (_, _, _, arms)) in self.rows.items():
            if arms == "alone and more":
                assert self.world.client.ask("PUT", f"/v1/experiments/{name}/arms/d").status == 201, name

    def check(self) -> None:
        for name, each in self.world.client.service.experiments.items():
            probabilities = each.learner.probabilities().tolist()
            assert abs(math.fsum(probabilities) - 1.0) < 1e-9 and min(probabilities) >= 0.0, (name, probabilities)
            assert len(probabilities) > 1 or probabilities == [1.0], name
        self.world.check()


def run(rows: dict[str, tuple[str, Any]], expiry: bool, restart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(rows, monkeypatch)
    try:
        for number in range(4):
            table.decide(f"d{number}")
        table.learn("d0", 1.0)
        table.learn("d0", 1.0)  # again
        table.learn("d1", 3.0, "y")
        table.change()
        table.check()
        if restart:
            table.world.restart(None)  # type: ignore[arg-type]
        if expiry:
            table.world.wait(lambda _: 11.0)
        table.learn("d2", 1000.0)  # drawn before the arms changed
        table.decide("d4")
        table.learn("d4", 1000.0)
        if expiry:
            table.world.wait(lambda _: 11.0)
        table.decide("d5")
        table.grow()
        table.learn("d5", 1e-3)
        table.learn("d3", 0.25)
        table.decide("d6")
        if restart:
            table.world.restart(None)  # type: ignore[arg-type]
        table.check()
    finally:
        table.world.close()


def named(rows: Any) -> dict[str, tuple[str, Any]]:
    return {f"e{number}": row for number, row in enumerate(rows)}


HOW = list(itertools.product([False, True], [False, True]))


@pytest.mark.parametrize(("expiry", "restart"), HOW)
def test_the_matrix_in_short_agrees_with_the_model(
    expiry: bool, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rows for each policy; 17 has no factor in common with the number of rows, so that all rows come by."""
    first = HOW.index((expiry, restart))
    rows = [
        (policy, ROWS[(17 * (3 * number + more) + 7 * first) % len(ROWS)])
        for number, policy in enumerate(POLICIES)
        for more in range(3)
    ]
    run(named(rows), expiry, restart, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("expiry", "restart"), HOW)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_whole_matrix_agrees_with_the_model(
    policy: str, expiry: bool, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(named((policy, row) for row in ROWS), expiry, restart, monkeypatch)
