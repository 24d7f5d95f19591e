"""UMAB-W once more, from its description: every loss is kept, and everything is computed from all of them again."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np

from reference import UMABS, mpf, raised
from umab.algorithms.umab_w import UMABW
from umab.testing import Array

RATE = 3  # of UMAB-S


def cell(marks: list[float], loss: float) -> float:
    """Return a number for each mark, and one for each gap between them, in their order."""
    return (bisect.bisect_left(marks, loss) + bisect.bisect_right(marks, loss)) / 2


@dataclass
class Watch:
    """What is known of an arm since it was last forgotten: all its losses, and all bets on them."""

    losses: list[Any] = field(default_factory=list)
    bets: dict[str, list[float]] = field(default_factory=dict)

    def rank(self, loss: Any, n_marks: int) -> tuple[int, int]:
        """Return how many losses are below and above; later losses than the marks are only known to be between two."""
        if len(self.losses) < n_marks:
            return sum(each < loss for each in self.losses), sum(each > loss for each in self.losses)
        marks = sorted(self.losses[:n_marks])
        cells = [cell(marks, each) for each in self.losses[n_marks:]]
        own = cell(marks, loss)
        below = sum(each < loss for each in marks) + sum(each < own for each in cells)
        return below, sum(each > loss for each in marks) + sum(each > own for each in cells)

    def bet(self, below: int, above: int) -> None:
        c = len(self.losses)
        ties, roots = (c - below - above) / 2, math.fsum(i**-0.5 for i in range(1, c + 2))
        for name, bet in {
            "up, linear": 1 + (below - above) / (2 * c),
            "up, extreme": (c + 1) / roots / math.sqrt(1 + above + ties),
            "down, linear": 1 + (above - below) / (2 * c),
            "down, extreme": (c + 1) / roots / math.sqrt(1 + below + ties),
        }.items():
            self.bets.setdefault(name, []).append(bet)

    def evidence(self, direction: str) -> float:
        """Return the mean wealth of two gamblers, each over all losses at which the betting may have started."""
        total = 0.0
        for kind in ("linear", "extreme"):
            wealth = 1.0
            bets = self.bets[f"{direction}, {kind}"]
            for c in range(len(bets), 0, -1):  # the bet on the loss after c losses is at c − 1
                wealth *= bets[c - 1]
                total += 0.93 / ((c + 2) * math.log(c + 2) ** 2) * wealth
        return total / 2


@dataclass
class Attention:
    """What is known of an arm in comparison with the leader."""

    leaders: list[float] = field(default_factory=list)  # its losses since this arm's last one, at most 8
    excess: float = 0.0
    active: bool = False


class Level:
    """Three predictions of the next loss and their squared errors."""

    def __init__(self) -> None:
        self.n, self.predictions, self.errors = 0, [mpf(0)] * 3, [mpf(0)] * 3

    def moves(self) -> bool:
        return self.n >= 32 and min(self.errors[1:]) < mpf(0.6) * self.errors[0]

    def above(self, loss: float, local: bool) -> Any:
        best = (1 if self.errors[1] < self.errors[2] else 2) if local else 0
        return mpf(loss) - self.predictions[best] if self.n else mpf(0)

    def follow(self, loss: float) -> None:
        self.n += 1
        if self.n == 1:
            self.predictions = [mpf(loss)] * 3
        for i, rate in enumerate((0, mpf(1) / 8, mpf(1) / 64)):
            error = loss - self.predictions[i]
            self.errors[i] += error**2
            self.predictions[i] += max(mpf(1) / self.n, rate) * error


class Run:
    """A run of UMAB-W in which the arms are given."""

    def __init__(self, policy: UMABW, n: int) -> None:
        self.policy, self.n, self.round = policy, n, 0
        self.current, self.level = UMABS(n, mpf(RATE)), Level()
        self.drawn = self.current.p
        self.replaced: tuple[UMABS, int] | None = None
        self.watches, self.attention = [Watch() for _ in range(n)], [Attention() for _ in range(n)]
        self.leader: int | None = None
        self.age = self.settled = self.doubt = 0
        self.watch_local, self.waited = False, 0
        self.changes: list[list[Any]] = []  # round, arm, whether it was kept
        self.bursts: list[int] = []  # the rounds with bursts
        self.local: list[bool] = []  # whether the level was local, for each round

    def learn(self, arm: int, loss: float) -> None:
        self.round += 1
        local = self.policy.centre == "level" and self.level.moves()
        self.local.append(local)
        distance = self.level.above(loss, local)
        self.current.learn(arm, distance, self.drawn[arm])
        self.level.follow(loss)
        self.age += 1
        self.waited = self.waited + 1 if local != self.watch_local else 0
        if self.waited == 32:
            self.watch_local, self.waited, self.watches = local, 0, [Watch() for _ in range(self.n)]
        noticed, rank = self._watch(arm, self.level.above(loss, True) if self.watch_local else loss)
        if self.policy.attention == "bursts":
            self._compare(arm, loss, rank)
        self._try(noticed, arm)
        self._prepare()

    def _watch(self, arm: int, loss: Any) -> tuple[bool, float]:
        watch, rank = self.watches[arm], 0.0
        if watch.losses:
            below, above = watch.rank(loss, self.policy.marks)
            rank = (below - above) / len(watch.losses)
            watch.bet(below, above)
            enough = min((2.5 + math.log(self.n)) * 1.5**self.doubt, 600)
            found = {way: math.log(watch.evidence(way)) >= enough for way in ("up", "down")}
            if any(found.values()):
                self.watches[arm] = Watch()  # without this loss, which is not a typical one
                return found["up" if arm == self.leader else "down"], rank
        watch.losses.append(loss)
        return False, rank

    def _compare(self, arm: int, loss: float, rank: float) -> None:
        if arm == self.leader:
            for each in self.attention:
                each.leaders = [*each.leaders, loss][-8:]
            return
        mine = self.attention[arm]
        if not mine.leaders:
            return
        z = sum((other < loss) - (other > loss) for other in mine.leaders) / len(mine.leaders)
        mine.leaders = []
        mine.excess = max(0.0, mine.excess + math.log(1 - max(z, rank) / 2))
        mine.active = mine.excess >= 0.39 or (mine.active and mine.excess > 0.2)

    def _try(self, noticed: bool, arm: int) -> None:
        if self.replaced is not None:
            if self.age >= 32 + 8 * self.n and self.age >= 1.5 * self.settled:
                old, former = self.replaced
                undone = self.leader == former and self.policy.restarts == "tried"
                if undone:
                    self.current = old
                self.doubt = min(self.doubt + 1, 8) if undone else max(0, self.doubt - 1)
                self.replaced, self.changes[-1][2] = None, not undone
        elif (
            noticed
            and self.leader is not None
            and self.policy.restarts != "none"
            and len(self.changes) < math.sqrt((self.round + 1) / self.n)
        ):
            self.changes.append([self.round, arm, None])
            self.replaced, self.current = (self.current, self.leader), UMABS(self.n, mpf(RATE))
            self.age = self.settled = 0
            self.watches = [Watch() for _ in range(self.n)]
            self.attention = [Attention() for _ in range(self.n)]

    def _prepare(self) -> None:
        """Find the leader and the distribution of the next round."""
        p, most = self.current.p, max(self.current.p)
        leader = p.index(most) if p.count(most) == 1 else None
        if leader != self.leader:
            self.leader, self.settled = leader, self.age
            self.attention = [Attention() for _ in range(self.n)]
        floors = [self.current.floor()] * self.n
        active = [each.active for each in self.attention]
        if any(active) and len(self.bursts) < 8 * math.sqrt(self.n * (self.round + 1)):
            self.bursts.append(self.round + 1)
            least = mpf(1) / 3 / max(sum(active), 2)
            floors = [max(floor, least) if one else floor for floor, one in zip(floors, active, strict=True)]
        self.drawn = raised(p, floors)


def umab_w(policy: UMABW, arms: Sequence[int], losses: Sequence[float], n: int) -> tuple[Array, Run]:
    """Return the distributions of UMAB-W, one row per round and one more, and what happened."""
    with mpmath.workdps(30):
        run = Run(policy, n)
        rows = [run.drawn]
        for arm, loss in zip(arms, losses, strict=True):
            run.learn(arm, loss)
            rows.append(run.drawn)
        return np.array(rows, dtype=float), run


def locally_centred(losses: Sequence[float]) -> list[float]:
    """Return losses less their level; the first less itself."""
    with mpmath.workdps(30):
        level, distances = Level(), []
        for loss in losses:
            distances.append(float(level.above(loss, level.moves())))
            level.follow(loss)
        return distances
