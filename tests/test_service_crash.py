"""What was acknowledged survives: real processes, killed or stopped at random moments, and a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from helpers import PATIENCE
from service_process import Client, Server, running
from umab import cli
from umab_service.experiment import Experiment
from umab_service.recovery import recovered
from umab_service.sqlite import SQLite


class Silent(Client):
    """Makes decisions whose feedback never comes."""

    def run(self) -> None:
        count = 0
        while self.going:
            identity = f"s{self.number}-{count}"
            count += 1
            answer = self._until_answered("POST", "/v1/experiments/silent/decisions", {"id": identity}, (200, 201))
            if answer is not None:
                self.decided[identity] = answer
            time.sleep(0.01)


def check(path: Path, clients: list[Client]) -> None:
    """Compare the database with what clients saw acknowledged."""
    assert not [each.wrong for each in clients if each.wrong]
    experiments = {each.name: each for each in recovered(SQLite(path), True)}
    connection = sqlite3.connect(path)
    try:
        rows = dict(connection.execute("SELECT id, answer FROM decisions").fetchall())
        values = dict(connection.execute("SELECT id, value FROM decisions WHERE state = 'learned'").fetchall())
        events = connection.execute("SELECT body FROM events WHERE kind = 'learned'").fetchall()
        ends = connection.execute("SELECT body FROM events WHERE kind = 'expired'").fetchall()
    finally:
        connection.close()
    for client in clients:
        for identity, answer in client.decided.items():
            assert json.loads(rows[identity]) == answer
        for identity, loss in client.learned.items():
            assert values[identity] == loss
    learned = [json.loads(body)["decision"] for (body,) in events]
    assert len(learned) == len(set(learned)) == len(values)  # nothing is learned twice
    assert n_learned(experiments["x"]) == len(values)
    expired = [identity for (body,) in ends for identity, *_ in json.loads(body)["learned"]]
    assert len(expired) == len(set(expired)) == n_learned(experiments["silent"])  # and no wait ends twice
    assert experiments["silent"].n_open == 0
    assert set(expired) == {identity for identity in rows if identity.startswith("s")}


def n_learned(experiment: Experiment) -> int:
    return sum(counter.updates for counter in experiment.learner.counters().values())


def battered(path: Path, n_times: int, seed: int, *, stop: bool = False) -> int:
    """Kill or stop a server that several clients keep busy, again and again; return how much was learned."""
    random_moment = random.Random(seed)
    with running(path) as server:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        silent = {"name": "silent", "arms": ["a", "b"], "wait": "PT0.3S", "default_loss": 5.0}
        assert server.ask("POST", "/v1/experiments", silent)[0] == 201
        clients = [*(Client(server, number) for number in range(4)), Silent(server, 4)]
        for client in clients:
            client.start()
        for _ in range(n_times):
            time.sleep(random_moment.uniform(0.05, 1.0))
            if stop:
                assert server.stop() == 0
            else:
                server.kill()
            server.start()
        time.sleep(0.5)
        for client in clients:
            client.going = False
        for client in clients:
            client.join(timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        while server.ask("GET", "/v1/experiments/silent")[1]["open"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        exported = {name: server.ask("GET", f"/v1/experiments/{name}/export")[1] for name in ("x", "silent")}
        assert server.stop() == 0
    check(path, clients)
    for experiment in recovered(SQLite(path), True):  # replay equals the live state, bit for bit
        assert json.loads(experiment.learner.to_json()) == exported[experiment.name]
    assert len(clients[-1].decided) > 0
    return sum(len(client.learned) for client in clients)


def test_nothing_acknowledged_is_lost_if_the_server_is_killed(tmp_path: Path) -> None:
    assert battered(tmp_path / "umab.db", 3, seed=1) > 20


def test_nothing_acknowledged_is_lost_if_the_server_is_told_to_stop(tmp_path: Path) -> None:
    assert battered(tmp_path / "umab.db", 1, seed=3, stop=True) > 20


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_if_the_server_is_killed_many_times(tmp_path: Path) -> None:
    assert battered(tmp_path / "umab.db", 25, seed=2) > 500


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with running(tmp_path / "umab.db"), pytest.raises(RuntimeError, match="one process at a time"):
        Server(tmp_path / "umab.db").start()


@contextlib.contextmanager
def linked(path: Path, kind: str) -> Iterator[Path]:
    """Return another way to the database of a server that runs."""
    other = path.with_name(f"{kind}.db")
    if kind == "symbolic":
        other.symlink_to(path)
    elif kind == "hard":
        other.hardlink_to(path)
    elif kind == "unlocked":
        other = path
        path.with_name("umab.db.lock").unlink()
    else:
        other.touch()
        if subprocess.run(["mount", "--bind", str(path), str(other)], capture_output=True).returncode:
            pytest.skip("to mount a file needs the right to do so")
    try:
        yield other
    finally:
        if kind == "mounted":
            subprocess.run(["umount", "--lazy", str(other)], check=True)


@pytest.mark.parametrize("kind", ["symbolic", "hard", "mounted", "unlocked"])
def test_one_process_at_a_time_whatever_the_database_is_called(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, saved = tmp_path / "umab.db", tmp_path / "saved.db"
    with running(path) as server:
        assert cli.main(["db", "backup", "--database", f"sqlite:///{path}", str(saved)]) == 0
        with linked(path, kind) as other:
            with pytest.raises(RuntimeError, match="one process at a time"):
                Server(other).start()
            url = f"sqlite:///{other}"
            for command in (
                ["db", "migrate", "--database", url],
                ["db", "restore", "--database", url, str(saved)],
                ["db", "move", "--from", url, "--to", f"sqlite:///{tmp_path / 'moved.db'}"],
                ["keys", "list", "--database", url],
            ):
                assert cli.main(command) == 2
                assert "one process at a time" in capsys.readouterr().err, command
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        assert server.stop() == 0


def test_the_lock_of_a_server_leaves_those_of_sqlite_alone(tmp_path: Path) -> None:
    """A process loses all of these locks on a file when it closes any descriptor of it."""
    with running(tmp_path / "umab.db") as server:
        assert server.ask("GET", "/v1/experiments")[0] == 200
        with contextlib.closing(sqlite3.connect(tmp_path / "umab.db", timeout=0.0)) as other:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("PRAGMA journal_mode = DELETE")


def test_a_database_that_a_newer_server_has_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "umab.db"
    with running(path) as server:
        assert server.stop() == 0
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RuntimeError, match="a newer server has written it"):
        Server(path).start()


def test_a_server_that_stops_on_a_full_disk_says_so(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        with running(disk / "umab.db") as server:
            assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
            filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
            for size in (1 << 20, 1 << 16, 1 << 12, 1 << 9):
                with contextlib.suppress(OSError):
                    while os.write(filler, bytes(size)) == size:
                        pass
            os.close(filler)
            for number in range(200):
                if server.ask("POST", "/v1/experiments/x/decisions", {"id": f"d{number}"})[0] == 503:
                    break
            else:
                raise AssertionError("the disk was not full")
            assert server.stop() != 0
            assert "a commit failed: database or disk is full" in server.said
            assert "the server has stopped, but it could not store its learners" in server.said
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_answered_and_outlived(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        with running(disk / "umab.db") as server:
            assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
            known, status = [], 201
            filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
            for size in (1 << 20, 1 << 16, 1 << 12, 1 << 9):
                with contextlib.suppress(OSError):
                    while os.write(filler, bytes(size)) == size:
                        pass
            os.close(filler)
            for number in range(200):
                status, answer = server.ask("POST", "/v1/experiments/x/decisions", {"id": f"d{number}"})
                if status == 503:
                    break
                assert status == 201
                known.append(answer)
            assert status == 503 and "nothing was stored" in answer["detail"]
            (disk / "filler").unlink()
            end = time.monotonic() + PATIENCE
            while server.ask("POST", "/v1/experiments/x/decisions", {"id": "after"})[0] not in (200, 201):
                assert time.monotonic() < end
                time.sleep(0.1)
            for answer in known:
                assert server.ask("POST", "/v1/experiments/x/decisions", {"id": answer["id"]}) == (200, answer)
            exported = server.ask("GET", "/v1/experiments/x/export")[1]
            assert server.stop() == 0
        (experiment,) = recovered(SQLite(disk / "umab.db"), True)
        assert json.loads(experiment.learner.to_json()) == exported
    finally:
        subprocess.run(["umount", str(disk)], check=True)
