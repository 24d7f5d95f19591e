"""Several servers on one PostgreSQL database, and how to compare it with what their clients were told."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

from helpers import PATIENCE
from postgres import Postgres
from service_process import KEY, Client, Server
from umab_service.experiment import Experiment
from umab_service.postgres import PostgreSQL
from umab_service.recovery import recovered


class Reply(NamedTuple):
    """An answer with its headers."""

    status: int
    headers: list[tuple[str, str]]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)


def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    timeout: float = PATIENCE,
) -> Reply:
    """Return the answer to a request with these headers, or with the admin key."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body)
        connection.request(method, path, content, {"Authorization": f"Bearer {KEY}"} if headers is None else headers)
        response = connection.getresponse()
        found = sorted((name.lower(), value) for name, value in response.getheaders() if name.lower() != "date")
        return Reply(response.status, found, response.read())
    finally:
        connection.close()


def until(true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until something is true, and return it; fail if it takes too long."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"it took more than {seconds} s"
        time.sleep(0.05)
    return found


class Cluster:
    """Servers on a schema of their own."""

    def __init__(self, database: Postgres, n_servers: int, lease: float) -> None:
        self.url = database.url(f"t{uuid.uuid4().hex}")
        self.lease = lease
        self.servers = [self.another() for _ in range(n_servers)]

    def another(self) -> Server:
        return Server(self.url, environment={"UMAB_LEASE": str(self.lease)})

    def start(self) -> None:
        """Start all servers at the same time."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait()

    def query(self, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text, parameters)
            return cursor.fetchall() if cursor.description else []

    def create(self, *names: str, **settings: Any) -> None:
        """Create experiments, each on another server than the one before."""
        for number, name in enumerate(names):
            given = {"name": name, "arms": ["a", "b"], "seed": 1, **settings}
            reply = ask(self.servers[number % len(self.servers)], "POST", "/v1/experiments", given)
            assert reply.status == 201, reply

    def owner(self, name: str) -> Server | None:
        """Return the server that owns an experiment and lives."""
        rows = self.query(
            "SELECT address FROM experiments JOIN servers ON servers.id = owner WHERE name = %s "
            "AND until > extract(epoch FROM clock_timestamp())",
            (name,),
        )
        return next((each for each in self.servers for (address,) in rows if address.endswith(f":{each.port}")), None)

    def others(self, server: Server | None) -> list[Server]:
        return [each for each in self.servers if each is not server]

    def number(self, server: Server) -> int | None:
        """Return the number of a server's present life."""
        rows = self.query("SELECT id FROM servers WHERE address LIKE %s ORDER BY id DESC", (f"%:{server.port}",))
        return rows[0][0] if rows else None


@contextlib.contextmanager
def cluster(database: Postgres, n_servers: int = 2, *, lease: float = 2.0) -> Iterator[Cluster]:
    """Run servers on a schema of their own."""
    found = Cluster(database, n_servers, lease)
    try:
        found.start()
        yield found
    finally:
        for server in found.servers:
            if server.process is not None:
                server.kill()


class Silent(Client):
    """Makes decisions whose feedback never comes."""

    def run(self) -> None:
        count = 0
        while self.going:
            identity = f"s{self.number}-{count}"
            count += 1
            answer = self._until_answered("POST", f"{self.path}/decisions", {"id": identity}, (200, 201))
            if answer is not None:
                self.decided[identity] = answer
            time.sleep(0.02)


@contextlib.contextmanager
def load(found: Cluster, *clients: Client) -> Iterator[None]:
    """Let clients work meanwhile, and compare the database with what they saw at the end."""
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.going = False
        for client in clients:
            client.join(timeout=PATIENCE)


def exported(found: Cluster, *names: str) -> dict[str, Any]:
    """Return learners as servers have them, once no wait is left to end."""
    answers = {}
    for name in names:
        path = f"/v1/experiments/{name}"

        def asked(path: str) -> Reply:
            server = next(each for each in found.servers if each.process and each.process.poll() is None)
            return ask(server, "GET", path)

        until(lambda: (reply := asked(path)).status == 200 and not (reply.json["wait"] and reply.json["open"]))  # noqa: B023
        answers[name] = until(lambda: (reply := asked(f"{path}/export")).status == 200 and reply.json)  # noqa: B023
    return answers


def compare(found: Cluster, clients: Sequence[Client], live: dict[str, Any]) -> None:
    """Compare the database with what clients saw acknowledged, and replay with what the servers had."""
    assert not [each.wrong for each in clients if each.wrong]
    experiments = recovered_from(found.url)
    numbers = {each.id: name for name, each in experiments.items()}
    decided = found.query("SELECT experiment, id, answer, state, value FROM decisions")
    rows = {(numbers[each], identity): row for each, identity, *row in decided}
    for client in clients:
        name = client.path.rpartition("/")[2]
        for identity, answer in client.decided.items():
            assert json.loads(rows[name, identity][0]) == answer  # nothing acknowledged is lost
        for identity, loss in client.learned.items():
            assert rows[name, identity][1:] == ["learned", loss]
    events = found.query("SELECT experiment, seq, kind, body FROM events ORDER BY experiment, seq")
    for each, name in numbers.items():
        mine = [(seq, kind, json.loads(body)) for number, seq, kind, body in events if number == each]
        assert [seq for seq, *_ in mine] == list(range(1, len(mine) + 1))
        made = [identity for _, kind, body in mine if kind == "decided" for identity, _ in body["draws"]]
        learned = [body["decision"] for _, kind, body in mine if kind == "learned"]
        learned += [identity for _, kind, body in mine if kind == "expired" for identity, *_ in body["learned"]]
        assert Counter(made) == Counter({identity: 1 for owner, identity in rows if owner == name})
        assert max(Counter(learned).values(), default=1) == 1  # nothing is learned twice
        assert n_learned(experiments[name]) == len(learned)
    for name, learner in live.items():  # replay equals the live state, bit for bit
        assert json.loads(experiments[name].learner.to_json()) == learner


def recovered_from(url: str) -> dict[str, Experiment]:
    """Return the experiments of a database, from its log."""
    storage = PostgreSQL(url)
    storage.open()
    try:
        return {each.name: each for each in recovered(storage, True)}
    finally:
        storage.close()


def n_learned(experiment: Experiment) -> int:
    return sum(counter.updates for counter in experiment.learner.counters().values())
