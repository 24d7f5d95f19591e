"""What a server leaves behind when it is told to stop, and what the next one makes of it."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from service_process import Server, running
from umab_service.recovery import recovered
from umab_service.sqlite import SQLite
from umab_service.storage import DatabaseError


def stopped(path: Path) -> None:
    """Learn a little with a real server, and tell it to stop."""
    with running(path) as server:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"], "seed": 1})[0] == 201
        for number in range(4):
            assert server.ask("POST", "/v1/experiments/x/decisions", {"id": f"d{number}"})[0] == 201
            assert server.ask("PUT", f"/v1/experiments/x/decisions/d{number}/feedback", {"loss": 1.5})[0] == 200
        assert server.stop() == 0


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


OTHER_LOSS = """UPDATE events SET body = CAST(replace(body, '"value":1.5', '"value":2.5') AS BLOB) WHERE seq = 3"""
OTHER_VERSION = """UPDATE snapshots SET learner = CAST(replace(learner, '"umab": "', '"umab": "0.0.') AS BLOB)"""


def test_a_start_after_a_stop_replays_nothing(tmp_path: Path) -> None:
    stopped(tmp_path / "umab.db")
    (experiment,) = recovered(SQLite(tmp_path / "umab.db"), True)
    assert experiment.n_since == 0 and experiment.seq == 9


def test_snapshots_of_another_version_are_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "umab.db"
    stopped(path)
    (before,) = recovered(SQLite(path), True)
    change(path, OTHER_LOSS)
    with pytest.raises(DatabaseError, match="must give its snapshot at event 9, bit for bit"):
        recovered(SQLite(path), True)
    change(path, OTHER_VERSION)
    (after,) = recovered(SQLite(path), True)
    assert after.learner.to_json() == before.learner.to_json()


def test_only_its_own_user_can_read_a_new_database(tmp_path: Path) -> None:
    stopped(tmp_path / "umab.db")
    assert stat.S_IMODE((tmp_path / "umab.db").stat().st_mode) == 0o600


def test_a_database_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^umab: .*No such file or directory"):
        Server(tmp_path / "missing" / "umab.db").start()
    assert not (tmp_path / "missing").exists()


def test_a_server_on_sqlite_needs_nothing_of_postgresql(tmp_path: Path) -> None:
    """With the extra `serve` alone, psycopg is not there."""
    for name in ("psycopg", "psycopg_pool"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('it is not installed')\n")
    server = Server(tmp_path / "umab.db", environment={"PYTHONPATH": str(tmp_path)})
    server.start()
    assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
    assert server.stop() == 0
