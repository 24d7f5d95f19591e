"""Coins, tickets and closed draws in the decision service, beside the policy in plain Python, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

import service_app
import umab
from helpers import state_of
from plain import Plain
from postgres import Postgres, needs_postgres, postgres
from service_app import Client
from toys import Patient, PatientTosser, Tosser
from umab.algorithms import registry
from umab_service import log, ownership, relay, service, silence
from umab_service.recovery import recovered

TOYS: dict[str, umab.Policy] = {
    "tosser": Tosser(),
    "patient": Patient(),
    "patient-tosser": PatientTosser(),
    "centred(patient-tosser)": umab.Centred(PatientTosser()),
}
ARMS = ["a", "b", "c"]
DECIDE = "/v1/experiments/x/decisions"
LATE: dict[str, Any] = {"wait": "PT10S", "forget": True, "late": "learn"}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the service know the toys by name."""
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    for name, policy in TOYS.items():
        if not isinstance(policy, umab.Wrapper):
            umab.register(name, policy)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=needs_postgres())])
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on each kind of database."""
    if request.param == "PostgreSQL":
        monkeypatch.setattr(service_app, "url_of", request.getfixturevalue("server").urls())


def body_of(among: list[str] | None) -> dict[str, Any]:
    """Return what a request for a decision says about the arms."""
    return {} if among is None else {"among": among}


class Both:
    """An experiment of the service, and the policy in plain Python beside it."""

    def __init__(self, client: Client, name: str, seed: int = 3) -> None:
        self.client, self.plain = client, Plain(TOYS[name], ARMS, seed)
        self.coins: dict[str, int] = {}
        client.experiment(arms=ARMS, policy=name, seed=seed, **LATE)

    def decide(self, identity: str, among: list[str] | None = None) -> None:
        self.client.now += 0.001  # so that waits end in the order of the draws
        answer = self.client.decide(identity, **body_of(among))
        arm, probability, self.coins[identity] = self.plain.draw(identity, among)
        assert (answer["arm"], answer["probability"]) == (arm, probability)

    def learn(self, identity: str, loss: float, *, late: bool = False) -> None:
        reply = self.client.ask("PUT", f"{DECIDE}/{identity}/feedback", {"loss": loss})
        assert (reply.status, reply.json["state"]) == (200, "late" if late else "learned")
        self.plain.settle(identity, loss)

    def wait(self) -> list[str]:
        """Let all waits end; return the decisions that were forgotten."""
        query = "SELECT id FROM decisions WHERE state = 'open' ORDER BY due"
        forgotten = [identity for (identity,) in self.client.query(query)]
        self.client.sleep(11.0)
        for identity in forgotten:
            self.plain.close(identity)
        return forgotten

    def check(self) -> None:
        """The service, its snapshots with the log, and the log alone have the state of plain Python, bit for bit."""
        assert self.client.ask("GET", "/v1/experiments/x").status == 200  # after a start, it may have to be read
        learner = self.client.service.experiments["x"].learner
        assert state_of(learner) == self.plain.state
        (found,) = recovered(self.client.service.storage, True)
        assert found.learner.to_json() == learner.to_json()
        again = None
        for kind, body in self.client.query("SELECT kind, body FROM events ORDER BY seq"):
            again = log.replayed(again, kind, bytes(body))
        assert again is not None and again.to_json() == learner.to_json()

    @property
    def draws(self) -> dict[str, Any]:
        """The draws of all decisions, as the database has them."""
        return {identity: json.loads(bytes(draw)) for identity, draw in self.client.query(STORED)}


CHANGE_EVENT = "UPDATE events SET body = ? WHERE seq = ? RETURNING 1"  # what may be asked at once returns rows
CHANGE_DRAW = "UPDATE decisions SET draw = ? WHERE id = ? RETURNING 1"
STORED = "SELECT id, draw FROM decisions"


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("name", TOYS)
@pytest.mark.parametrize("often", [False, True])
def test_the_service_does_what_plain_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, often: bool
) -> None:
    if often:  # snapshots
        monkeypatch.setattr(service, "SNAPSHOT_EVERY", 5)
    with Client(tmp_path) as client:
        both = Both(client, name)
        for number in range(24):
            both.decide(f"d{number}", {0: ["a", "c"], 1: ["b"]}.get(number % 4))
            if number % 3 == 0:
                both.learn(f"d{number}", float(number))
        both.check()
        assert {identity: draw[8] for identity, draw in both.draws.items()} == both.coins
        assert set(both.coins.values()) == ({-1} if name == "patient" else {0, 1})
        client.restart()
        both.check()
        both.learn("d1", 0.5)
        forgotten = both.wait()
        assert len(forgotten) == 15
        both.check()
        ((body,),) = client.query("SELECT body FROM events WHERE kind = 'expired'")
        assert json.loads(bytes(body)) == {
            "learned": [],
            "forgotten": [[each, both.draws[each]] for each in forgotten],
        }
        for identity in forgotten[::4]:
            both.learn(identity, 2.0, late=True)
        both.check()
        client.restart()
        both.decide("last", ["a"])
        both.learn("last", 1.0)
        both.check()


@pytest.mark.usefixtures("database")
def test_draws_and_events_without_a_coin_are_learned_without_one(tmp_path: Path) -> None:
    """As a database has them that was written before draws had a ninth value."""
    with Client(tmp_path) as client:
        both = Both(client, "tosser")
        for number in range(6):
            both.decide(f"d{number}", ["a", "b"] if number % 2 else None)
        both.learn("d0", 1.0)
        for seq, kind, body in client.query("SELECT seq, kind, body FROM events"):
            content = json.loads(bytes(body))
            if kind == "decided":
                content["draws"] = [[identity, draw[:8]] for identity, draw in content["draws"]]
            if kind == "learned":
                content["draw"] = content["draw"][:8]
            client.query(CHANGE_EVENT, (json.dumps(content).encode(), seq))
        for identity, draw in both.draws.items():
            client.query(CHANGE_DRAW, (json.dumps(draw[:8]).encode(), identity))
        client.restart()
        plain = Plain(Tosser(), ARMS, 3)
        for number in range(6):
            plain.draw(f"d{number}", ["a", "b"] if number % 2 else None)
        plain.settle("d0", 1.0, coin=-1)
        both.plain = plain
        both.check()
        assert client.ask("PUT", f"{DECIDE}/d1/feedback", {"loss": 2.0}).status == 200
        plain.settle("d1", 2.0, coin=-1)
        both.wait()
        both.check()
        assert state_of(client.service.experiments["x"].learner).n_without == 2.0
        both.decide("new")
        assert len(both.draws["new"]) == 9 and both.draws["new"][8] in (0, 1)
        both.learn("new", 1.0)
        both.check()
        assert plain.state.n_without == 2.0


@needs_postgres()
@pytest.mark.parametrize("name", ["tosser", "patient-tosser"])
def test_a_server_that_takes_over_learns_with_the_coins_that_another_one_flipped(
    server: Postgres, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("psycopg")
    from test_service_owners import world

    monkeypatch.setattr(relay, "TRIES_SECONDS", 0.1)
    monkeypatch.setattr(ownership, "RENEW_EVERY", 1e6)
    plain = Plain(TOYS[name], ARMS, 3)

    async def run() -> None:
        async with world(server, 2) as found:
            first, second = found.nodes

            async def decide(node: Any, number: int) -> None:
                found.now += 0.001
                among = ["a", "c"] if number % 3 == 1 else None
                reply = await found.ask(node, "POST", DECIDE, {"id": f"d{number}", **body_of(among)})
                assert reply.status_code == 201, reply.text
                found.decided["x", f"d{number}"] = reply.content
                assert (reply.json()["arm"], reply.json()["probability"]) == plain.draw(f"d{number}", among)[:2]

            async def learn(node: Any, number: int) -> None:
                await found.feedback(node, "x", f"d{number}", 1.0 + number)
                plain.settle(f"d{number}", 1.0 + number)

            body = {"name": "x", "arms": ARMS, "policy": name, "seed": 3, **LATE}
            assert (await found.ask(first, "POST", "/v1/experiments", body)).status_code == 201
            for number in range(12):
                await decide(first, number)
            for number in (2, 4):
                await learn(first, number)
            await first.kill()
            found.nodes.remove(first)
            await found.end_lease(first)
            await second.turn()
            for number in (1, 3, 5):  # drawn by the first server
                await learn(second, number)
            await decide(second, 12)
            await learn(second, 12)
            found.now += 11.0
            assert not await silence.expire(second.service)
            for number in (0, 6, 7, 8, 9, 10, 11):
                plain.close(f"d{number}")
            await learn(second, 7)
            assert state_of(second.service.experiments["x"].learner) == plain.state
            await found.check()

    asyncio.run(run())
