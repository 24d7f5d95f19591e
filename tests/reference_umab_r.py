"""UMAB-R as its page defines it, without units, rows and buffers: each arm is an object, and losses are numbers."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

KAPPA = 10.0**-3.75


@dataclass
class Memory:
    """A mean with its uncertainty."""

    growth: float
    mean: float = 0.0
    u: float = 1.0

    def learn(self, x: float) -> tuple[float, float]:
        off, spread = x - self.mean, 1.0 + self.u
        gain = self.u / spread
        self.mean, self.u = self.mean + gain * off, gain
        return off * off / spread, math.log(spread)


@dataclass
class Arm:
    before: float = 0.0
    """What an earlier start knew of the memories."""
    doubt: float = 0.0
    """By how much the memory that forgets was less likely."""
    drawn: int = 0
    turn: int = 0
    open: int = 0
    kept: Memory = field(default_factory=lambda: Memory(0.0))
    recent: Memory = field(default_factory=lambda: Memory(KAPPA))
    n: int = 0
    logarithms: float = 0.0
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
    stride: int = 1
    n_ranked: int = 0
    squares: tuple[float, float] = 0.0, 0.0
    waiting: dict[int, tuple[float, int | None]] = field(default_factory=dict)

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
        self.origin = 0.0
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

    def select(self, k: int) -> tuple[int, int]:
        arm = self.arms[k]
        ticket = arm.drawn, self.t
        arm.drawn += 1
        arm.open += 1
        due = arm.failing is not None and arm.probe <= self.t
        if due:
            self.schedule(k)
        if due or arm.looks > 0 or not arm.tried:
            arm.looks, arm.tried = max(0, arm.looks - 1), True
            self.solve()
        return ticket

    def close(self, k: int, number: int) -> None:
        self.arms[k].open -= 1
        if number >= self.arms[k].turn:
            self.wait(k, number, 0.0, None)

    def learn(self, k: int, loss: float, number: int | None = None, drawn_in: int = 0) -> None:
        x = loss - self.origin if self.seen else 0.0
        self.waited = self.waited + 1 if self.local != self.moves() else 0
        if self.waited >= 32:
            self.local, self.waited = not self.local, 0
            self.arms = [
                Arm(before=each.doubt, doubt=each.doubt, drawn=each.drawn, turn=each.drawn, open=each.open)
                for each in self.arms
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
        self.take_in(k, y, number, drawn_in)
        if not self.seen:
            self.origin = loss
        self.follow(x)
        self.forgets = sum(arm.doubt for arm in self.arms) + 3.0 < 0.0
        self.t += 1
        self.solve()

    def take_in(self, k: int, y: float, number: int | None, drawn_in: int) -> None:
        arm = self.arms[k]
        if number is not None:
            arm.open = max(0, arm.open - 1)
        if number is None:
            self.consider(k, y, True)
        elif arm.failing is not None and number > arm.turn:
            self.wait(k, number, 0.0, None)
            self.consider(k, y, True)
        else:
            self.wait(k, number, y, drawn_in)
        for j in range(self.n):
            self.proceed(j)

    def wait(self, k: int, number: int, y: float, drawn_in: int | None) -> None:
        """Let a draw wait for its turn; with more than 64, only every second draw counts."""
        arm = self.arms[k]
        if number % arm.stride == 0:
            arm.waiting[number] = y, drawn_in
        while len(arm.waiting) > 64:
            arm.stride *= 2
            arm.turn = -(-arm.turn // arm.stride) * arm.stride
            arm.waiting = {each: what for each, what in arm.waiting.items() if each % arm.stride == 0}

    def proceed(self, k: int) -> None:
        arm, patience = self.arms[k], 1.25 * sum(each.open for each in self.arms)
        while arm.waiting:
            number = min(arm.waiting)
            y, drawn_in = arm.waiting[number]
            if number > arm.turn and (drawn_in is None or self.t - drawn_in <= patience):
                return
            del arm.waiting[number]
            in_turn = number == arm.turn
            arm.turn = max(arm.turn, number + arm.stride)
            if drawn_in is not None:
                self.consider(k, y, in_turn)
            if not arm.waiting:
                arm.stride = max(1, arm.stride // 2)

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

    def average(self, arm: Arm, x: float, in_turn: bool) -> None:
        arm.n += 1
        if arm.n == 1:
            arm.kept.mean = arm.recent.mean = x
            arm.kept.u = arm.recent.u = 1.0
            return
        square, logarithm = arm.kept.learn(x)
        other_square, other = arm.recent.learn(x)
        self.noise = [self.noise[0] + square, self.noise[1] + 1]
        if in_turn:
            arm.n_ranked += 1
            arm.squares = arm.squares[0] + square, arm.squares[1] + other_square
            arm.logarithms += other - logarithm
        if min(arm.squares) > 0.0:
            ratio = math.log(arm.squares[1] / arm.squares[0])
            arm.doubt = arm.before + arm.logarithms + (arm.n_ranked + 1) * ratio

    def schedule(self, k: int) -> None:
        arm, other = self.arms[k], self.best_other(k)
        assert arm.failing is not None
        lasted, gain = self.t - arm.since + 1, other - self.memory(arm).mean
        gap = lasted + 64.0
        if gain > 0.0:
            gap = min(gap, math.sqrt(2.0 * lasted * max(0.0, arm.failing - other) / gain))
        arm.probe = self.t + 1 + math.floor(gap)

    def consider(self, k: int, x: float, in_turn: bool) -> None:
        arm = self.arms[k]
        memory = self.memory(arm)
        if arm.n == 0:
            self.average(arm, x, in_turn)
            arm.note(x)
            return
        at_least, at_most = arm.ranks(x)
        if arm.failing is not None:
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
        if not in_turn:
            self.average(arm, x, False)
            return
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
            for loss in arm.held:
                self.average(arm, loss, True)
            arm.held, arm.suspects, arm.up = [], [], 0.0
        self.average(arm, x, True)
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
            u /= 1.0 + u * arm.open
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
