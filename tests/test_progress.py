"""The progress bar: there for people, not for files, and not for what is quick."""

from __future__ import annotations

import io
import sys
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest

import umab
from umab._support.progress import Progress


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
    with Progress(10, "working", shown, unit="steps") as bar:
        for _ in range(10):
            clock.now += seconds / 10
            bar.advance(1)


def test_a_signal_at_the_moment_a_bar_is_drawn_leaves_the_line_clean(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.StringIO):
        def flush(self) -> None:
            if self.getvalue().count("working") == 1 and not self.getvalue().endswith("\r\x1b[K"):
                raise KeyboardInterrupt

    screen = Interrupted()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(KeyboardInterrupt):
        run(clock, 20.0, True)
    assert "working" in screen.getvalue() and screen.getvalue().endswith("\r\x1b[K")


def test_a_bar_shows_the_share_the_rate_and_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    run(clock, 20.0, True)
    written = capsys.readouterr().err.split("\r\x1b[K")
    assert written[5] == "working " + "█" * 15 + "░" * 15 + "  50% 0.5 steps/s 10 s left"
    assert written[1].endswith("░  10%")  # of a single step there is no rate
    assert written[-1] == ""  # the line is clean at the end


def last_line(bar: Progress, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what follows the bar in the last line drawn."""
    bar.advance(0)
    return capsys.readouterr().err.split("\r\x1b[K")[-1].partition("% ")[2]


def test_neither_compiling_nor_what_was_skipped_counts_into_the_rate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = Progress(1000, "working", True, unit="rounds")
    bar.skip(500)
    clock.now += 30.0  # the compiler
    for _ in range(5):
        bar.advance(20)
        clock.now += 1.0
    assert last_line(bar, capsys) == "20 rounds/s 20 s left"


def test_the_rate_follows_the_work(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Slow steps are forgotten after a while, and a slow start does not stay in the estimate."""
    bar = Progress(100_000, "working", True, unit="rounds")
    for _ in range(100):
        bar.advance(1)
        clock.now += 1.0
    for _ in range(60):
        bar.advance(1000)
        clock.now += 1.0
    assert last_line(bar, capsys) == "1k rounds/s 40 s left"
    assert len(bar._samples) < 120


def test_no_estimate_from_steps_that_come_at_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = Progress(100, "working", True)
    clock.now += 2.0
    bar.advance(1)
    bar.advance(1)
    clock.now += 3.0
    assert last_line(bar, capsys) == ""


def test_a_bar_can_stop_a_simulation() -> None:
    bar = Progress(0, "working", False)
    bar.stopped.set()
    with pytest.raises(CancelledError):
        umab.simulate("uniform", np.ones((5, 2)), n_trials=3, progress=bar)


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


def test_simulate_counts_rounds_of_all_trials_and_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(Progress, "advance", lambda self, n: steps.append(n))
    umab.simulate(["uniform", "umab-nn"], np.ones((5, 2)), n_trials=70)
    assert sum(steps) == 140 * 5
