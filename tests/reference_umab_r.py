"""UMAB-R as its page defines it, without units, rows and buffers: each arm is an object, and losses are numbers."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

KAPPA = 10.0**-3.75


@dataclass
class Memory:
    """A mean with its uncertainty, and how well it has predicted."""

    growth: float
    mean: float = 0.0
    u: float = 1.0
    squares: float = 0.0

    def learn(self, x: float) -> tuple[float, float]:
        off, spread = x - self.mean, 1.0 + self.u
        self.squares += off * off / spread
        gain = self.u / spread
        self.mean, self.u = self.mean + gain * off, gain
        return off * off / spread, math.log(spread)


@dataclass
class Arm:
    kept: Memory = field(default_factory=lambda: Memory(0.0))
    recent: Memory = field(default_factory=lambda: Memory(KAPPA))
    n: int = 0
    before: float = 0.0
    """What an earlier start knew of the memories."""
    logarithms: float = 0.0
    doubt: float = 0.0
    """By how much the memory that forgets was less likely."""
    marks: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    up: float = 0.0
    suspects: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    down: float = 0.0
    better: list[float] = field(default_factory=list)
    looks: int = 0
    failing: float | None = None
    n_failed: int = 0
    since: int = 0
    probe: int = 0
    tried: bool = False
    drawn: int = 0
    turn: int = 0
    waiting: dict[int, tuple[float, str]] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        return len(self.marks) + len(self.later)

    def ranks(self, x: float) -> tuple[float, float]:
        """Return the shares of the history that are at least x, and at most x, with ties counted half."""
        place = (bisect_left(self.marks, x), bisect_right(self.marks, x))
        below, over = float(place[0]), float(len(self.marks) - place[1])
        for other in self.later:  # once 64 are there, all that is known of others is between which marks they are
            their = (bisect_left(self.marks, other), bisect_right(self.marks, other))
            below += their < place
            over += their > place
        tied = 0.5 * (self.seen - below - over) + 0.5
        return (over + tied) / (self.seen + 1), (below + tied) / (self.seen + 1)

    def note(self, x: float) -> None:
        if len(self.marks) < 64:
            self.marks.append(x)
            self.marks.sort()
        else:
            self.later.append(x)


class Reference:
    """UMAB-R."""

    def __init__(self, n: int) -> None:
        self.n, self.t = n, 1
        self.arms = [Arm() for _ in range(n)]
        self.noise = [0.0, 0]
        self.forgets = self.local = False
        self.waited = 0
        self.seen: list[float] = []
        self.means = [0.0, 0.0, 0.0]
        self.errors = [0.0, 0.0, 0.0]
        self.p = [1.0 / n] * n

    # The level.

    def follow(self, x: float) -> None:
        count = len(self.seen) + 1
        rates = (1.0 / count, max(1.0 / count, 1.0 / 8.0), max(1.0 / count, 1.0 / 64.0))
        for at, rate in enumerate(rates):
            off = x - self.means[at]
            self.errors[at] += off * off
            self.means[at] += off * rate
        self.seen.append(x)

    def moves(self) -> bool:
        return len(self.seen) >= 32 and min(self.errors[1:]) < 0.6 * self.errors[0]

    # Draws.

    def select(self, k: int) -> int:
        arm = self.arms[k]
        number = arm.drawn
        arm.drawn += 1
        due = arm.failing is not None and arm.probe <= self.t
        if due:
            self.schedule(k)
        if due or arm.looks > 0 or not arm.tried:
            arm.looks, arm.tried = max(0, arm.looks - 1), True
            self.solve()
        return number

    def close(self, k: int, number: int) -> None:
        if number >= self.arms[k].turn:
            self.wait(k, number, 0.0, "closed")

    def learn(self, k: int, loss: float, number: int | None = None) -> None:
        x = loss - self.origin if self.seen else 0.0
        self.waited = self.waited + 1 if self.local != self.moves() else 0
        if self.waited >= 32:
            self.local, self.waited = not self.local, 0
            self.arms = [
                Arm(before=each.doubt, doubt=each.doubt, drawn=each.drawn, turn=each.drawn) for each in self.arms
            ]
            self.noise = [self.noise[0] / max(self.noise[1], 1), min(self.noise[1], 1)]
        y = x
        if self.local:
            y = x - (self.means[1] if self.errors[1] < self.errors[2] else self.means[2])
            if self.noise[1] > 8 and self.noise[0] > 0.0:
                y = max(-3.0 * self.s, min(3.0 * self.s, y))
        for arm in self.arms:
            if arm.n:
                arm.recent.u += KAPPA
        self.take_in(k, y, number)
        if not self.seen:
            self.origin = loss
        self.follow(x)
        self.forgets = sum(arm.doubt for arm in self.arms) + 3.0 < 0.0
        self.t += 1
        self.solve()

    def take_in(self, k: int, y: float, number: int | None) -> None:
        arm = self.arms[k]
        if number is None or number < arm.turn:
            self.consider(k, y, False)
        elif number == arm.turn:
            self.wait(k, number, y, "later")
        elif arm.failing is not None:
            self.consider(k, y, False)
            self.wait(k, number, 0.0, "closed")
        elif arm.n and y - self.memory(arm).mean > 8.0 * self.s:
            self.wait(k, number, y, "later")
        else:
            self.average(arm, y)
            self.wait(k, number, y, "learned")

    def wait(self, k: int, number: int, y: float, kind: str) -> None:
        arm = self.arms[k]
        arm.waiting[number] = y, kind
        if len(arm.waiting) > 64:
            arm.turn = max(arm.turn, min(arm.waiting))
        while arm.waiting and min(arm.waiting) <= arm.turn:
            number = min(arm.waiting)
            y, kind = arm.waiting.pop(number)
            arm.turn = max(arm.turn, number + 1)
            if kind != "closed":
                self.consider(k, y, kind == "learned")

    # Losses.

    @property
    def s(self) -> float:
        return math.sqrt(self.noise[0] / self.noise[1]) if self.noise[1] else 0.0

    def memory(self, arm: Arm) -> Memory:
        return arm.recent if self.forgets else arm.kept

    def mean(self, arm: Arm) -> float:
        return self.memory(arm).mean if arm.failing is None else arm.failing

    def best_other(self, k: int) -> float:
        return min((self.mean(arm) for j, arm in enumerate(self.arms) if j != k and arm.n), default=math.inf)

    def average(self, arm: Arm, x: float) -> None:
        arm.n += 1
        if arm.n == 1:
            arm.kept.mean = arm.recent.mean = x
            arm.kept.u = arm.recent.u = 1.0
            return
        square, logarithm = arm.kept.learn(x)
        _, other = arm.recent.learn(x)
        self.noise = [self.noise[0] + square, self.noise[1] + 1]
        arm.logarithms += other - logarithm
        if arm.kept.squares > 0.0 and arm.recent.squares > 0.0:
            arm.doubt = arm.before + arm.logarithms + arm.n * math.log(arm.recent.squares / arm.kept.squares)

    def schedule(self, k: int) -> None:
        arm, other = self.arms[k], self.best_other(k)
        assert arm.failing is not None
        lasted, gain = self.t - arm.since + 1, other - self.memory(arm).mean
        gap = lasted + 64.0
        if gain > 0.0:
            gap = min(gap, math.sqrt(2.0 * lasted * max(0.0, arm.failing - other) / gain))
        arm.probe = self.t + 1 + math.floor(gap)

    def consider(self, k: int, x: float, learned: bool) -> None:
        arm = self.arms[k]
        memory = self.memory(arm)
        if arm.n == 0:
            self.average(arm, x)
            arm.note(x)
            return
        at_least, at_most = arm.ranks(x)
        if arm.failing is not None:
            if learned:
                return
            if x >= memory.mean and abs(x - memory.mean) >= abs(x - arm.failing):
                arm.n_failed += 1
                arm.failing += (x - arm.failing) / min(arm.n_failed, 16)
                if arm.probe <= self.t:
                    self.schedule(k)
                return
            if x >= memory.mean and at_least < 0.05:
                arm.probe = self.t + 1
                return
            arm.failing, arm.n_failed, arm.up, arm.down = None, 0, 0.0, 0.0
        other = self.best_other(k)
        if arm.seen >= 8:
            if arm.up <= 0.0:
                arm.suspects = []
            if arm.up > 0.0 or x - memory.mean > 8.0 * self.s:
                arm.up = max(0.0, arm.up + math.log(0.2 * at_least**-0.8))
            if arm.up > 0.0:
                arm.suspects.append(x)
                average = sum(arm.suspects) / len(arm.suspects)
                if arm.up >= 3.0 and average > other:
                    arm.failing, arm.n_failed, arm.since, arm.held = average, len(arm.suspects), self.t, []
                    self.schedule(k)
                    return
                if len(arm.suspects) <= 4:
                    if not learned:
                        arm.held.append(x)
                    arm.note(x)
                    return
            if arm.down <= 0.0:
                arm.better = []
            arm.down = max(0.0, arm.down + math.log(0.2 * at_most**-0.8))
            if arm.down > 0.0:
                arm.better.append(x)
            if arm.down > 0.0 and sum(arm.better) / len(arm.better) < other < memory.mean:
                if arm.down >= 3.0:
                    for each in (arm.kept, arm.recent):
                        each.mean, each.u = sum(arm.better) / len(arm.better), 1.0 / len(arm.better)
                    arm.marks, arm.later, arm.held, arm.up, arm.down, arm.looks = [], [], [], 0.0, 0.0, 0
                    arm.note(x)
                    return
                if at_most <= 0.2:
                    arm.looks = 2
            else:
                arm.looks = 0
        if arm.suspects:
            for each in arm.held:
                self.average(arm, each)
            arm.held, arm.suspects, arm.up = [], [], 0.0
        if not learned:
            self.average(arm, x)
        arm.note(x)

    # The distribution.

    def solve(self) -> None:
        n, t = self.n, self.t
        rho = 1.0 / (n * n + 2.0 * math.sqrt((n - 1) * t))
        floor = 4.0 / 3.0 * rho * t / (t + 2000.0)
        new = [k for k, arm in enumerate(self.arms) if not arm.n and not arm.tried]
        if new:
            self.p = [(1.0 - (n - len(new)) * floor) / len(new) if k in new else floor for k in range(n)]
            return
        known = [k for k, arm in enumerate(self.arms) if arm.n]
        if not known:
            self.p = [1.0 / n] * n
            return
        index = {}
        for k in known:
            arm = self.arms[k]
            u = self.memory(arm).u if arm.failing is None else 1.0 / arm.n_failed
            index[k] = self.mean(arm) - 0.4 * self.s * math.sqrt(2.0 * u * math.log(t)) * (1.0 + 2.0 * u)
        least = min(index.values())
        tops = [k for k in known if index[k] == least]
        best = min(self.mean(self.arms[k]) for k in tops)
        p = [1.0 / n] * n
        for k in set(known) - set(tops):
            gap = self.mean(self.arms[k]) - best
            p[k] = floor * (max(1.0 / 8.0, math.sqrt(self.s / gap)) if gap > self.s else 1.0)
        rest = 1.0 - sum(p[k] for k in range(n) if k not in tops)
        for k in tops:
            p[k] = rest / len(tops)
        due = [
            k
            for k in set(known) - set(tops)
            for arm in [self.arms[k]]
            if (arm.looks > 0 if arm.failing is None else arm.probe <= t and self.memory(arm).mean < best)
        ]
        if due:
            p = [0.5 * each + (0.5 / len(due) if k in due else 0.0) for k, each in enumerate(p)]
        self.p = p
