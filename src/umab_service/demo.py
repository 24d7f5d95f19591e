"""A simulated world for `umab serve --demo`: four upstreams, one of which fails every minute, and a shop.

All decisions and all feedback go the way of requests, only without HTTP; the dashboard shows what it would show.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import random
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from umab_service import administration, decisions, feedback, silence
from umab_service.app import Application
from umab_service.problems import Problem
from umab_service.schema import Decision, Feedback, NewDecision, NewExperiment
from umab_service.service import Service

SEED = 3
STEP = 0.05
"""How often the world moves on, in seconds."""
PERIOD, OUTAGE, RECOVERY = 60.0, 20.0, 30.0
"""Every minute the best upstream fails at one second and answers again at another."""
TIMEOUT = 250.0
"""When a request to an upstream is given up, in milliseconds. It is chosen short: with 600 or more, feedback comes so
late that the policy did not find back to the best upstream in some trial runs."""
LATENCIES = {"east": 10.0, "west": 30.0, "north": 40.0, "south": 60.0}
"""The median latency of each upstream, in milliseconds."""
BUYERS = {"green button": 0.10, "orange button": 0.16, "plain link": 0.06}
"""How many visitors of the shop buy."""
UPSTREAMS, SHOP, OLD = "upstreams", "checkout", "thumbnails"
PER_SECOND = {UPSTREAMS: 200.0, SHOP: 25.0}
"""How many decisions are made."""
KEPT = 300.0
"""How long decisions and events are kept, in seconds, so that a demonstration may run for days."""


class _Told(NamedTuple):
    """Feedback that is on its way."""

    at: float
    experiment: str
    decision: str
    given: Feedback


class World:
    """What happens outside the service."""

    def __init__(self, service: Service, seed: int = SEED) -> None:
        self._service, self._seed, self._random = service, seed, random.Random(seed)
        self._start = self._last = service.clock()
        self._owed = dict.fromkeys(PER_SECOND, 0.0)
        self._coming: list[_Told] = []

    async def begin(self) -> None:
        """Create the experiments."""
        for given in (
            NewExperiment(UPSTREAMS, list(LATENCIES), seed=self._seed, wait="PT4S", forget=True),
            # Orders come before the zeros of the others, which a policy that watches for changes would take for one.
            NewExperiment(
                SHOP,
                list(BUYERS),
                policy="centred(umab-s)",
                maximize=True,
                seed=self._seed,
                wait="PT6S",
                default_reward=0.0,
            ),
            NewExperiment(OLD, ["small", "large"], seed=self._seed),
        ):
            administration.create(self._service, given)
        for number in range(200):
            made = await self._decide(OLD)
            await self._tell(OLD, made.id, Feedback(loss=(1.0 if made.arm == "small" else 1.4) + 0.1 * (number % 5)))
        administration.archive(self._service, OLD)
        await self._service.stored()

    @property
    def is_down(self) -> bool:
        """Whether the best upstream fails at the moment."""
        return OUTAGE <= (self._service.clock() - self._start) % PERIOD < RECOVERY

    def says(self) -> str:
        """Return what the world is doing, in words."""
        if self.is_down:
            return "East is down: requests to it time out. It will answer again within seconds."
        return "All four upstreams answer now. East, the fastest, fails for 10 seconds of every minute."

    async def step(self) -> None:
        """Make the decisions and tell the feedback that are due by now."""
        now = self._service.clock()
        for name, rate in PER_SECOND.items():
            self._owed[name] = min(rate, self._owed[name] + rate * (now - self._last))  # after a pause, not all at once
            while self._owed[name] >= 1.0:
                self._owed[name] -= 1.0
                with contextlib.suppress(Problem):  # archived by who looks at it
                    self._react(now, name, await self._decide(name))
        self._last = now
        while self._coming and self._coming[0].at <= now:
            told = heapq.heappop(self._coming)
            with contextlib.suppress(Problem):  # its wait has ended
                await self._tell(told.experiment, told.decision, told.given)
        await self._service.stored()

    def _react(self, now: float, name: str, made: Decision) -> None:
        """Let an arm have its consequences, some time from now."""
        if name == UPSTREAMS:
            latency = self._latency(made.arm)
            if self._random.random() < 0.997:  # some answers get lost on their way
                self._promise(now + latency / 1000.0, name, made.id, Feedback(loss=round(latency, 1)))
        elif self._random.random() < BUYERS.get(made.arm, 0.08):  # who does not buy says nothing
            basket = self._random.lognormvariate(3.2, 0.7)
            self._promise(now + self._random.uniform(0.5, 5.0), name, made.id, Feedback(reward=round(basket, 2)))

    def _promise(self, at: float, name: str, decision: str, given: Feedback) -> None:
        heapq.heappush(self._coming, _Told(at, name, decision, given))

    def _latency(self, arm: str) -> float:
        """Return a latency in milliseconds: usually near the median, rarely many times as long."""
        if self.is_down and arm == "east":
            return self._random.uniform(0.75, 1.0) * TIMEOUT
        latency = LATENCIES.get(arm, 100.0) * self._random.lognormvariate(0.0, 0.5)
        if self._random.random() < 0.05:
            latency *= 1.0 + 3.0 * (self._random.paretovariate(1.6) - 1.0)
        return min(latency, TIMEOUT)

    async def _decide(self, name: str) -> Decision:
        answer = decisions.decide(self._service, name, NewDecision())
        return msgspec.json.decode(answer.body, type=Decision)

    async def _tell(self, name: str, decision: str, given: Feedback) -> None:
        feedback.feedback(self._service, name, decision, given)


@contextlib.asynccontextmanager
async def playing(application: Application) -> AsyncIterator[None]:
    """Let the world go on meanwhile, and let everybody on this machine look at it and change it without a key."""
    service, dashboard = application.service, application.dashboard
    world = World(service)
    await world.begin()
    dashboard.says = world.says
    dashboard.visitor = next(key.id for key in application.keys.all() if key.role == "admin" and not key.prefix)
    task = asyncio.create_task(_play(world, service))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _play(world: World, service: Service) -> None:
    pruned = service.clock()
    while True:
        await asyncio.sleep(STEP)
        with contextlib.suppress(Problem):  # the database is away for a moment
            await world.step()
            if service.clock() - pruned > PERIOD:
                pruned = service.clock()
                await silence.prune(service, service.clock() - KEPT)
