"""The progress bar: there for people, not for files, and not for what is quick."""

from __future__ import annotations

import time

import numpy as np
import pytest

import umab
from umab.progress import Progress


class Clock:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def run(clock: Clock, seconds: float, shown: bool | None) -> None:
    with Progress(10, "working", shown) as bar:
        for _ in range(10):
            clock.now += seconds / 10
            bar.advance(1)


def test_a_bar_shows_the_share_and_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    run(clock, 20.0, True)
    written = capsys.readouterr().err.split("\r\x1b[K")
    assert written[5] == "working " + "█" * 15 + "░" * 15 + "  50% 10 s left"
    assert written[-1] == ""  # the line is clean at the end


def test_no_bar_for_less_than_a_second(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    run(clock, 0.9, True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_by_default_only_on_a_terminal(
    terminal: bool, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    run(clock, 20.0, None)
    assert ("working" in capsys.readouterr().err) is terminal


def test_simulate_counts_trials_of_all_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(Progress, "advance", lambda self, n: steps.append(n))
    umab.simulate(["uniform", "umab-nn"], np.ones((5, 2)), n_trials=70)
    assert sum(steps) == 140
