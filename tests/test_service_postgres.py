"""PostgreSQL does what SQLite does: the same tests, on a real database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import service_app
from postgres import Postgres, needs_postgres, postgres
from test_service_api import *  # noqa: F403
from test_service_model import *  # noqa: F403

pytestmark = needs_postgres()


@pytest.mark.parametrize("n_steps", [300, pytest.param(1000, marks=pytest.mark.slow)])  # type: ignore[no-redef]
def test_a_long_random_walk_agrees_with_the_model(n_steps: int) -> None:
    """In place of the one for SQLite, which takes the longer walk each time."""
    walk(2, n_steps)  # noqa: F405


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture(autouse=True)
def on_postgres(database: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every client use a schema of its own, which belongs to its folder."""
    monkeypatch.setattr(service_app, "url_of", database.urls())
