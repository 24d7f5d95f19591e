"""Measure the decision service and write docs/serve/speed.md."""

from __future__ import annotations

import json
import shutil
import sqlite3
import statistics
import sys
from collections.abc import Callable
from importlib.metadata import version

from benchmarks.pages import DOCS, machine, table
from benchmarks.service import dashboard, ratios, scale, shared
from benchmarks.service.load import CONNECTIONS, Load
from umab_service.schema import MOST_ARMS
from umab_service.service import SNAPSHOT_EVERY

PAGE = """\
# Speed of the service

This page is written by a command, never by hand; it needs `wrk` and PostgreSQL and takes about twenty minutes:

```sh
make bench-service
```

`python -m benchmarks.service decisions servers` measures only some of its parts again.

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
- PostgreSQL runs on the same machine, with `fsync` and `synchronous_commit` on. The servers are processes on the same
  cores, and so is PostgreSQL.
- A request that is passed on is asked of a server that does not own the experiment.
- The dashboard's data calls are what its pages ask for every few seconds.
- A start reads the learners from their last snapshots and replays the events after them; it also checks that the log
  gives the last snapshot.
"""

Row = tuple[str, str, str, str]
ROWS = DOCS / "serve" / "speed.json"
"""What was measured last, by its parts."""


def main() -> None:
    """Measure everything, or the parts that are named, and write the page; the other parts stay as they were."""
    if shutil.which("wrk") is None:
        sys.exit("wrk must be installed, as by apt-get install wrk, but it is not on the path")
    steps: dict[str, Callable[[], list[Row]]] = {
        "decisions": _speed,
        "snapshots": _snapshots,
        "history": _history,
        "starts": _starts,
        "sizes": _sizes,
        "servers": _shared,
        "dashboard": _dashboard,
    }
    asked = sys.argv[1:] or list(steps)
    if unknown := set(asked) - steps.keys():
        sys.exit(f"a part must be one of {', '.join(steps)}, but got {', '.join(sorted(unknown))}")
    found: dict[str, list[Row]] = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else {}
    for name in asked:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found[name] = steps[name]()
        ROWS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = [row for name in steps for row in found.get(name, [])]
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


def _shared() -> list[Row]:
    found = shared.measured()
    p99 = statistics.median(found.p99)
    return [
        _ratio("decisions on PostgreSQL / on SQLite", found.postgres, 0.5, f"{found.rate:,.0f} decisions per second"),
        ("99 % of answers on PostgreSQL within", f"{p99:.1f} ms", _mark(p99 <= 50.0, "≤ 50 ms"), ""),
        _ratio("decisions of two servers / of one, on the same cores", found.both, 0.9, "each asked for its own"),
        _ratio("the same, if half of the requests must be passed on", found.mixed, None, ""),
        _ratio(
            "processor time of a decision that is passed on / of one that is not",
            found.passed_on,
            -2.0,
            "of both servers together",
        ),
    ]


def _ratio(name: str, values: list[float], target: float | None, more: str) -> Row:
    """Return the row of a ratio, which must not be below the target, or not above it if that is negative."""
    low, median, high = statistics.quantiles(values, n=4)
    marked = ""
    if target is not None:
        good = median >= target if target > 0.0 else median <= -target
        marked = _mark(good, f"{'≥' if target > 0.0 else '≤'} {abs(target):.2f}")
    return name, f"{median:.2f}  ({low:.2f}–{high:.2f})", marked, more


def _dashboard() -> list[Row]:
    found = dashboard.measured()
    rows = [
        (
            f"dashboard with {scale.N_EXPERIMENTS:,} experiments, {each.name}",
            f"{each.median:.1f} ms",
            _mark(each.median <= 50.0, "≤ 50 ms"),
            f"the longest of {dashboard.N_CALLS} took {each.longest:.0f} ms",
        )
        for each in found.calls
    ]
    most = max(found.pages.values())
    return [
        *rows,
        (
            "the heaviest page of the dashboard, with all of its files",
            f"{most / 1e3:.0f} KB",
            _mark(most <= 200e3, "≤ 200 KB"),
            "",
        ),
    ]


if __name__ == "__main__":
    main()
