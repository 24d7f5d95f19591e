"""Checking, copying, moving and migrating databases of the service."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import PATIENCE
from postgres import Postgres, needs_postgres, postgres
from service_app import START, Client
from service_process import KEY, Server, running
from umab import cli
from umab_service import storage as storages
from umab_service.databases import opened
from umab_service.maintenance import TABLES, check, copy
from umab_service.sqlite import SQLite
from umab_service.storage import Storage

X = "/v1/experiments/x"


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


def filled(folder: Path, now: float = START) -> Client:
    """Return a client whose experiments have decisions in all states, with snapshots and events after them."""
    client = Client(folder, now=now)
    client.experiment("x", wait="PT1H", default_loss=9.0)
    client.experiment("sum", wait="PT1H", forget=True, aggregation="sum")
    client.experiment("late", wait="PT10M", forget=True, late="learn")
    for number in range(8):
        for name in ("x", "late"):
            client.decide(f"d{number}", name, metadata={"number": number})
            if number % 2:
                feed(client, name, f"d{number}", loss=number / 3.0)
        client.decide(f"d{number}", "sum")
        feed(client, "sum", f"d{number}", loss=1e-300 * number, key="one")
    client.run(client.service.snapshot_all())
    client.decide("several", n=3)
    client.decide("later", defer=True)
    client.sleep(700.0)
    feed(client, "late", "d2", loss=-0.1)
    client.sleep(3000.0)
    client.decide("last", "x")
    return client


def feed(client: Client, name: str, identity: str, **given: Any) -> Any:
    reply = client.ask("PUT", f"/v1/experiments/{name}/decisions/{identity}/feedback", given)
    assert reply.status == 200, reply
    return reply.json


def rows(storage: Storage) -> dict[str, list[Any]]:
    """Return everything but who owns what."""
    with storage.reader() as reader:
        return {
            table: reader.execute(
                f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(columns[:n])}"
            ).fetchall()
            for table, (columns, n) in TABLES.items()
        }


@contextlib.contextmanager
def open_storage(url: str) -> Iterator[Storage]:
    storage = opened(url)
    storage.open()
    try:
        yield storage
    finally:
        storage.close()


def run(*arguments: str) -> int:
    return cli.main(["db", *arguments])


def answers(client: Client) -> list[Any]:
    """Return what a client is told when it goes on."""
    told = [client.ask("POST", f"{X}/decisions", {"id": f"more{number}"}).json for number in range(20)]
    told += [feed(client, "x", f"more{number}", loss=number) for number in range(20)]
    return [*told, client.ask("GET", f"{X}/export").json]


# Copies.


@needs_postgres()
def test_everything_moves_to_postgresql_and_back_and_goes_on_bit_for_bit(
    tmp_path: Path, database: Postgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    with filled(tmp_path / "here") as client:
        now, url = client.now, client.url
    there, back = database.url("moved"), f"sqlite:///{tmp_path / 'back.db'}"
    assert run("move", "--from", url, "--to", there) == 0
    assert "is in order" in capsys.readouterr().out
    with open_storage(url) as one, open_storage(there) as other:
        before = rows(one)
        assert rows(other) == before and all(before[table] for table in ("events", "parts", "metadata", "snapshots"))
    assert run("move", "--from", there, "--to", back) == 0
    with open_storage(back) as other:
        assert rows(other) == before
    with Client(tmp_path / "here", now=now) as client:
        expected = answers(client)
    monkeypatch.setattr("service_app.url_of", lambda _: there)
    with Client(tmp_path, now=now) as client:
        client.sleep(0.0)
        assert answers(client) == expected
        client.experiment("new")  # its number is none of those that were copied
        assert len(client.query("SELECT id FROM experiments")) == 4


def test_a_backup_is_of_one_moment_while_a_server_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path / "umab.db") as server:
        server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})
        going = True

        def work() -> None:
            number = 0
            while going:
                number += 1
                server.ask("POST", f"{X}/decisions", {"id": f"d{number}"})
                server.ask("PUT", f"{X}/decisions/d{number}/feedback", {"loss": 1.0})

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for number in range(3):
                time.sleep(0.1)
                assert run("backup", "--database", f"sqlite:///{server.database}", str(tmp_path / f"{number}.db")) == 0
                assert not list(tmp_path.glob(f"{number}.db?*"))  # it is one file
                assert run("check", "--database", f"sqlite:///{tmp_path / f'{number}.db'}") == 0
        finally:
            going = False
            thread.join()
    for number in range(3):
        assert stat.S_IMODE((tmp_path / f"{number}.db").stat().st_mode) == 0o600


def test_a_backup_is_restored_and_its_keys_still_work(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with filled(tmp_path / "here") as client:
        url, before = client.url, client.dump()
    assert run("backup", "--database", url, str(tmp_path / "saved.db")) == 0
    assert run("restore", str(tmp_path / "saved.db"), "--database", f"sqlite:///{tmp_path / 'umab.db'}") == 0
    with Client(tmp_path) as client:
        assert client.dump() == before
        assert client.ask("GET", X).status == 200


def test_what_would_overwrite_or_lose_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "here").mkdir()
    with filled(tmp_path / "here") as client:
        url = client.url
    other, missing = f"sqlite:///{tmp_path / 'other.db'}", str(tmp_path / "missing.db")

    def refused(*arguments: str) -> str:
        assert run(*arguments) == 2
        return capsys.readouterr().err

    assert run("move", "--from", url, "--to", other) == 0
    assert "must be empty" in refused("move", "--from", url, "--to", other)
    assert "must be a new file" in refused("backup", "--database", url, str(tmp_path / "other.db"))
    assert f"{missing}: file not found" in refused("restore", missing, "--database", other)
    for action in (("backup", "--database"), ("check", "--database"), ("move", "--to", other, "--from")):
        file = [str(tmp_path / "new.db")] if action[0] == "backup" else []
        assert f"umab: {missing}: file not found\n" == refused(*action, f"sqlite:///{missing}", *file)
    assert not (tmp_path / "missing.db").exists() and not (tmp_path / "new.db").exists()
    with running(tmp_path / "used.db"):
        assert "one process at a time" in refused("move", "--from", f"sqlite:///{tmp_path / 'used.db'}", "--to", url)


@needs_postgres()
def test_a_shared_database_is_not_moved_while_a_server_uses_it(
    tmp_path: Path, database: Postgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = database.url("used")
    monkeypatch.setattr("service_app.url_of", lambda _: url)
    with filled(tmp_path):
        assert run("backup", "--database", url, str(tmp_path / "saved.db")) == 0
        assert run("check", "--database", url) == 0
        assert run("move", "--from", url, "--to", f"sqlite:///{tmp_path / 'other.db'}") == 2
        assert "1 use" in capsys.readouterr().err
        assert run("migrate", "--database", url) == 2
    assert run("move", "--from", url, "--to", f"sqlite:///{tmp_path / 'other.db'}") == 0


def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    with filled(tmp_path / "here") as client:
        source = SQLite(client.path)

    def fail(n_rows: int) -> None:
        raise KeyboardInterrupt

    with open_storage(f"sqlite:///{tmp_path / 'other.db'}") as target:
        with pytest.raises(KeyboardInterrupt):
            copy(source, target, fail)
        assert not any(rows(target).values())
    monkeypatch.setattr("umab_service.maintenance.copy", lambda *_: fail(0))
    assert run("backup", "--database", f"sqlite:///{client.path}", str(tmp_path / "saved.db")) == 130
    assert not list(tmp_path.glob("saved*"))


KILLED = """
import os, signal, sys
from umab import cli
from umab_service import maintenance

def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)

copy = maintenance.copy
if sys.argv[1] == "before it is checked":
    maintenance.check = end
elif sys.argv[1] == "before it has its name":
    os.replace = end
else:
    maintenance.copy = lambda source, target, note: copy(source, target, end)
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.mark.parametrize("when", ["in its middle", "before it is checked", "before it has its name"])
@pytest.mark.parametrize("action", ["backup", "restore", "move"])
def test_what_is_killed_half_way_leaves_no_database(
    tmp_path: Path, action: str, when: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    with filled(tmp_path / "here") as client:
        url, path = client.url, client.path
    target = tmp_path / "target.db"
    arguments = {
        "backup": ["backup", "--database", url, str(target)],
        "restore": ["restore", "--database", f"sqlite:///{target}", str(path)],
        "move": ["move", "--from", url, "--to", f"sqlite:///{target}"],
    }[action]
    found = subprocess.run(
        [sys.executable, "-c", KILLED, when, "db", *arguments], capture_output=True, timeout=PATIENCE
    )
    if (action, when) == ("backup", "before it is checked"):  # which it is not
        assert found.returncode == 0
    else:
        assert found.returncode == -signal.SIGKILL
        assert not target.exists()
        assert run("check", "--database", f"sqlite:///{target}") == 2
        (left,) = tmp_path.glob(".target.db.*.tmp")
        if when != "before it has its name":  # else it is complete
            actions = (["check", "--database"], ["migrate", "--database"], ["move", "--to", "sqlite:///x", "--from"])
            for use in actions:
                assert run(*use, f"sqlite:///{left}") == 2
                assert "stopped before its end: make it again" in capsys.readouterr().err
        assert run(*arguments) == 0, capsys.readouterr().err  # what is left does not stop the next one
    with open_storage(url) as one, open_storage(f"sqlite:///{target}") as other:
        assert rows(one) == rows(other)


def test_a_copy_does_not_take_the_place_or_the_write_ahead_log_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    with filled(tmp_path / "here") as client:
        url = client.url
    target, stale = tmp_path / "target.db", tmp_path / "target.db-wal"
    stale.write_bytes(b"frames")
    for action in (["backup", "--database", url, str(target)], ["move", "--from", url, "--to", f"sqlite:///{target}"]):
        assert run(*action) == 2
        assert f"move {str(stale)!r} away" in capsys.readouterr().err
        assert not target.exists() and stale.read_bytes() == b"frames"
    stale.unlink()
    with pytest.raises(RuntimeError, match="one process at a time"):
        monkeypatch.setattr("umab_service.maintenance.copy", lambda *_: Server(target).start())
        run("backup", "--database", url, str(target))


@pytest.mark.parametrize("what", ["disk", "file"])
@pytest.mark.parametrize("kind", ["backup", "database"])
def test_what_lies_where_nothing_can_be_written_is_checked_and_restored(tmp_path: Path, kind: str, what: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with filled(disk) as client:
        url, path, before = client.url, client.path, client.dump()
    if kind == "backup":
        path = disk / "saved.db"
        assert run("backup", "--database", url, str(path)) == 0
    for each in disk.iterdir():
        if each != path:
            each.unlink()
    content, target = path.read_bytes(), tmp_path / "umab.db"
    place = str(disk if what == "disk" else path)
    with read_only(place):
        assert run("check", "--database", f"sqlite:///{path}") == 0
        assert run("backup", "--database", f"sqlite:///{path}", str(tmp_path / "again.db")) == 0
        assert run("restore", str(path), "--database", f"sqlite:///{target}") == 0
    assert [each.name for each in disk.iterdir()] == [path.name] and path.read_bytes() == content
    with Client(tmp_path) as client:
        assert client.dump() == before


@contextlib.contextmanager
def read_only(place: str) -> Iterator[None]:
    """Let nobody write to a folder or file, not even who may do everything."""
    if subprocess.run(["mount", "--bind", place, place], capture_output=True).returncode:
        pytest.skip("a read-only disk needs the right to mount one")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_file_that_is_in_use_under_another_name_is_not_read_as_if_nobody_wrote_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with running(tmp_path / "umab.db"):
        (folder / "other.db").hardlink_to(tmp_path / "umab.db")
        with read_only(str(folder)):
            assert run("check", "--database", f"sqlite:///{folder / 'other.db'}") == 2
            assert "one process at a time" in capsys.readouterr().err


@pytest.mark.parametrize("link", ["hard", "symbolic"])
def test_a_running_database_is_read_only_under_the_name_where_its_newest_changes_are(
    tmp_path: Path, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "folder" / "other.db"
    other.parent.mkdir()
    backup = ["backup", "--database", f"sqlite:///{other}", str(tmp_path / "saved.db")]
    with running(tmp_path / "umab.db"):
        getattr(other, {"hard": "hardlink_to", "symbolic": "symlink_to"}[link])(tmp_path / "umab.db")
        for action in (["check", "--database", f"sqlite:///{other}"], backup):
            assert run(*action) == (2 if link == "hard" else 0)
            assert ("under the name under which it is in use" in capsys.readouterr().err) == (link == "hard")
        assert run("check", "--database", f"sqlite:///{tmp_path / 'umab.db'}") == 0
    if link == "hard":  # the server has stopped
        assert run(*backup) == 0


# Checks.

_CHANGED = "UPDATE {} SET {} = CAST(replace(CAST({} AS TEXT), '{}', '{}') AS BLOB) WHERE experiment = 1"
DAMAGE = {
    "an event is missing": "DELETE FROM events WHERE experiment = 1 AND seq = 5",
    "feedback was changed": _CHANGED.format("events", "body", "body", '"value":1.0', '"value":2.0'),
    "a snapshot was changed": _CHANGED.format("snapshots", "learner", "learner", "0.5", "0.6"),
    "a decision was learned that was not": "UPDATE decisions SET state = 'learned', value = 1.0 WHERE id = 'last'",
    "a value was changed": "UPDATE decisions SET value = 7.0 WHERE experiment = 1 AND id = 'd1'",
    "an open decision is missing": "DELETE FROM decisions WHERE id = 'last'",
    "a decision came from nowhere": "INSERT INTO decisions SELECT experiment, 'new', made, request, answer, draw, "
    "state, due, value FROM decisions WHERE id = 'last'",
    "the beginning is missing": "DELETE FROM events WHERE experiment = 2 AND seq = 1",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_check_sees_damage(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with filled(tmp_path) as client:
        url = client.url
    assert run("check", "--database", url) == 0
    with contextlib.closing(sqlite3.connect(client.path)) as connection, connection:
        assert connection.execute(damage).rowcount > 0
    if "seq = 1" in damage:
        with contextlib.closing(sqlite3.connect(client.path)) as connection, connection:
            connection.execute("DELETE FROM snapshots WHERE experiment = 2")
    assert run("check", "--database", url) == 2
    assert "must" in capsys.readouterr().err or "fails at event" in capsys.readouterr().err


def test_a_pruned_log_is_checked_from_its_first_snapshot(tmp_path: Path) -> None:
    with filled(tmp_path) as client:
        for _ in range(3):
            client.now += 10_000.0
            client.expire()
            client.prune(1.0)
            client.decide(f"n{client.now}")
        (first,) = client.query("SELECT min(seq) FROM events WHERE experiment = 1")[0]
        assert first > 1
        found = check(client.service.storage, lambda _: None)
        assert found.experiments == 3 and found.events > 0 and found.snapshots > 0


def test_a_database_that_is_not_up_to_date_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(tmp_path) as client:
        client.experiment()
        path = client.path
    known = storages.migrations("sqlite")
    monkeypatch.setattr(storages, "migrations", lambda _: [*known, "CREATE TABLE extra (x);"])
    assert run("check", "--database", f"sqlite:///{path}") == 2
    assert "umab db migrate" in capsys.readouterr().err
    assert run("migrate", "--database", f"sqlite:///{path}") == 0
    assert f"version {len(known) + 1}" in capsys.readouterr().out
    assert run("check", "--database", f"sqlite:///{path}") == 0


def test_damaged_files_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "umab.db").write_bytes(b"no database" * 1000)
    assert run("check", "--database", f"sqlite:///{tmp_path / 'umab.db'}") == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert "umab.db" in said
    assert json.dumps(KEY) not in said
