"""Decisions and feedback, each answered once it is on disk, beside a bare endpoint that returns a constant."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.service.load import BOTH, DECIDE, LEARN, Load, Server, bare, serving

SECONDS = 1
TURNS = 25
IN_ADVANCE = 40_000
"""How many decisions are made before a turn of feedback."""


class Turns(NamedTuple):
    """What the turns of one kind of request gave."""

    service: list[Load]
    bare: list[Load]

    @property
    def ratios(self) -> list[float]:
        """Requests per second, as a part of those of the bare endpoint in the same turn."""
        return sorted(one.per_second / other.per_second for one, other in zip(self.service, self.bare, strict=True))

    def median(self, name: str) -> float:
        """Return the median of what was measured of the service."""
        return statistics.median(float(getattr(each, name)) for each in self.service)


def measured(turns: int = TURNS, seconds: int = SECONDS) -> tuple[Turns, Turns, Turns]:
    """Return what turns of decisions, of feedback to earlier ones, and of each decision with its feedback gave."""
    decided, learned, both = Turns([], []), Turns([], []), Turns([], [])
    with (
        tempfile.TemporaryDirectory() as folder,
        bare() as (other, _),
        serving(Path(folder) / "umab.db") as (server, _),
    ):
        server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b", "c"], "wait": "PT1H", "forget": True})
        for turn in range(-1, turns):  # the first one warms up
            one, two = server.load(DECIDE, seconds), other.load(DECIDE, seconds)
            _decide_in_advance(server, f"t{turn + 1}-")
            script = LEARN.replace("PREFIX", f"t{turn + 1}-").replace("FIRST", "0")
            three, four = server.load(script, seconds), other.load(script, seconds)
            five, six = server.load(BOTH, seconds), other.load(BOTH, seconds)
            if turn >= 0:
                both.service.append(five)
                both.bare.append(six)
                decided.service.append(one)
                decided.bare.append(two)
                learned.service.append(three)
                learned.bare.append(four)
    return decided, learned, both


def _decide_in_advance(server: Server, prefix: str) -> None:
    for first in range(0, IN_ADVANCE // 100, 10):
        operations = [{"experiment": "x", "decide": {"id": f"{prefix}{first + k}", "n": 100}} for k in range(10)]
        for each in server.ask("POST", "/v1/batch", {"operations": operations})["results"]:
            assert each["status"] == 201, each


if __name__ == "__main__":
    for name, found in zip(("decisions", "feedback", "both"), measured(11, 1), strict=True):
        print(name, [f"{each:.2f}" for each in found.ratios], found.median("per_second"), found.median("p99"))
