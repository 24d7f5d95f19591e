"""Measure the decision service and write docs/serve/speed.md."""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import sys
from collections.abc import Callable
from importlib.metadata import version

from benchmarks.pages import DOCS, machine, table
from benchmarks.service import ratios, scale
from benchmarks.service.load import CONNECTIONS, Load
from umab_service.schema import MOST_ARMS
from umab_service.service import SNAPSHOT_EVERY

PAGE = """\
# Speed of the service

This page is written by a command, never by hand; it needs `wrk` and takes about ten minutes:

```sh
make bench-service
```

Measured on {machine}, {versions}, with `wrk` on the same machine over loopback.

Every reply waits until its event is on disk. The bare endpoint is one of Starlette, in the same server with the same
settings, that reads the body and returns a constant. Both take turns of {seconds} seconds with {connections}
connections. A ratio is the median over {turns} turns, with the middle half in brackets; ✗ marks a target that was
missed.

{table}
`wrk`, the server and the disk share the machine, so that a ratio depends on what else happens on it.

## What is measured

- Decisions: each is drawn, logged and stored with its wait.
- Feedback: each is for a decision made before the turn began.
- Both: each decision is followed by its feedback.
- A snapshot is made after {snapshot_every:,} events of an experiment. While it is made, others wait. The largest
  experiment has {most_arms:,} arms.
- A start reads the learners from their last snapshots and replays the events after them; it also checks that the log
  gives the last snapshot.
"""

Row = tuple[str, str, str, str]


def main() -> None:
    """Measure everything and write the page."""
    if shutil.which("wrk") is None:
        sys.exit("wrk must be installed, as by apt-get install wrk, but it is not on the path")
    rows: list[Row] = []
    steps: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
        ("decisions and feedback", _speed),
        ("snapshots", _snapshots),
        ("a long history", _history),
        ("a long log", _starts),
        ("many experiments", _sizes),
    )
    for name, measure in steps:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        rows += measure()
    versions = ", ".join(f"{name} {version(name)}" for name in ("starlette", "uvicorn", "msgspec"))
    text = PAGE.format(
        machine=machine(),
        versions=f"{versions}, SQLite {sqlite3.sqlite_version}",
        seconds=ratios.SECONDS,
        connections=CONNECTIONS,
        turns=ratios.TURNS,
        table=table(("", "measured", "target", ""), rows),
        snapshot_every=SNAPSHOT_EVERY,
        most_arms=MOST_ARMS,
    )
    (DOCS / "serve" / "speed.md").write_text(text, encoding="utf-8")
    print(table(("", "measured", "target", ""), rows))


def _mark(good: bool, target: str) -> str:
    return f"{target} {'✓' if good else '✗'}"


def _speed() -> list[Row]:
    rows: list[Row] = []
    for name, turns in zip(("decisions", "feedback", "both"), ratios.measured(), strict=True):
        low, median, high = statistics.quantiles(turns.ratios, n=4)
        rate, p99 = turns.median("per_second"), turns.median("p99")
        rows += [
            (
                f"{name} / bare endpoint, requests per second",
                f"{median:.2f}  ({low:.2f}–{high:.2f})",
                _mark(median >= 0.5, "≥ 0.50"),
                f"{rate:,.0f} requests per second",
            ),
            (f"{name}, 99 % of answers within", f"{p99:.1f} ms", _mark(p99 <= 50.0, "≤ 50 ms"), ""),
        ]
    return rows


def _snapshots() -> list[Row]:
    rows: list[Row] = []
    for n_arms in (10, MOST_ARMS):
        found = scale.during_snapshots(n_arms)
        rows.append(
            (
                f"99 % of answers, while an experiment with {n_arms:,} arms makes snapshots, within",
                f"{found.p99:.1f} ms",
                _mark(found.p99 <= 50.0, "≤ 50 ms"),
                f"the longest took {found.longest:.0f} ms",
            )
        )
    return rows


def _history() -> list[Row]:
    early, late = scale.histories()
    pairs = sorted(_rate(one) / _rate(other) for one, other in zip(early, late, strict=True))
    low, median, high = statistics.quantiles(pairs, n=4)
    return [
        (
            f"time per decision after {scale.N_EVENTS // 2:,} rounds / in a new experiment",
            f"{median:.2f}  ({low:.2f}–{high:.2f})",
            _mark(median <= 1.1, "≤ 1.10"),
            "constant is 1",
        )
    ]


def _rate(found: Load) -> float:
    return found.per_second


def _starts() -> list[Row]:
    rows: list[Row] = []
    for snapshots, name in ((False, "after the last snapshot"), (True, "with snapshots as usual")):
        seconds = scale.long_log(snapshots=snapshots)
        target = _mark(seconds <= 30.0, "≤ 30 s")
        rows.append((f"start with {scale.N_EVENTS:,} events, {name}", f"{seconds:.1f} s", target, ""))
    return rows


def _sizes() -> list[Row]:
    found = scale.many_experiments()
    name = f"{scale.N_EXPERIMENTS:,} experiments and {scale.N_OPEN:,} open choices"
    return [
        (f"memory with {name}", f"{found.memory:.2f} GB", _mark(found.memory <= 2.0, "≤ 2 GB"), ""),
        (f"start with {name}", f"{found.start:.1f} s", "", "all of their events are after the last snapshot"),
    ]


if __name__ == "__main__":
    main()
