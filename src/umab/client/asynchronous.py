"""The client for programs with an event loop: the same calls, awaited."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar, cast, overload

import httpx

from umab.client import wire
from umab.client.base import BaseClient
from umab.client.connection import lost, parts_of, reply_of
from umab.client.queue import AT_EXIT
from umab.client.wire import Conversation, Decision, Lost, Pause, Reply

T = TypeVar("T")


class AsyncClient(BaseClient[httpx.AsyncClient]):
    """A client of a decision service for one event loop. `Client` says what its parameters mean.

    All methods are coroutines but `feedback`. Feedback in the background is sent by a thread, as that of `Client`, so
    it also goes out when the loop has ended. ``options`` are for both, so a transport must be one that both can use.

    Examples
    --------
    ::

        async with AsyncClient("http://127.0.0.1:8080", key) as client:
            checkout = await client.experiment("checkout", fallback="one page")
            decision = await checkout.select()
            await checkout.update(decision, loss=await seconds_with(decision.arm))
    """

    def _connected(self) -> httpx.AsyncClient:
        return self._address.connect_async()

    async def _run(self, conversation: Conversation[T]) -> T:
        reply: Reply | Lost | None = None
        try:
            while True:
                step = conversation.send(reply)
                if isinstance(step, Pause):
                    await sleep(step.seconds)
                    reply = None
                    continue
                try:
                    reply = reply_of(await self._http.request(**parts_of(step)))
                except httpx.RequestError as error:
                    reply = lost(error)
        except StopIteration as end:
            return cast(T, end.value)

    async def experiment(
        self, name: str, *, create: Mapping[str, Any] | None = None, fallback: str | None = None
    ) -> AsyncExperiment:
        """Return an experiment, as `Client.experiment` does."""
        if create is not None:
            await self._run(wire.created(name, create, self._address.limits))
        return AsyncExperiment(self, name, fallback)

    async def flush(self, timeout: float = AT_EXIT) -> bool:
        """Wait until all feedback is sent, for at most so many seconds; return whether it is."""
        return await asyncio.to_thread(self._queue.flush, timeout)

    async def aclose(self, timeout: float = AT_EXIT) -> None:
        """Send the feedback that waits, within so many seconds, and close the connections."""
        await asyncio.to_thread(self._queue.close, timeout)
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.aclose()


class AsyncExperiment:
    """An experiment of the server; `AsyncClient.experiment` returns it. `Experiment` says what its parameters mean.

    Attributes
    ----------
    name
        Its name.
    fallback
        The arm that `select` returns if the server stays away; None if it raises `Unavailable`.
    """

    def __init__(self, client: AsyncClient, name: str, fallback: str | None) -> None:
        self._client, self.name, self.fallback = client, name, fallback
        self._limits = client._address.limits

    @overload
    async def select(
        self,
        k: None = None,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Decision: ...

    @overload
    async def select(
        self,
        k: int,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Decision]: ...

    async def select(
        self,
        k: int | None = None,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Decision | list[Decision]:
        """Ask which arm to use."""
        found = await self._client._run(
            wire.decided(
                self.name,
                self._limits,
                fallback=self.fallback,
                k=k,
                id=id,
                among=among,
                defer=defer,
                metadata=metadata,
            )
        )
        return found[0] if k is None else found

    async def update(
        self,
        decision: Decision | str | None,
        *,
        loss: float | None = None,
        reward: float | None = None,
        key: str | None = None,
        at: str | datetime | None = None,
        background: bool = False,
    ) -> str | None:
        """Tell what came of a decision."""
        feedback = wire.feedback_of(loss, reward, key, at)
        if background:
            self._client._queue.put_feedback(self.name, decision, feedback)
            return None
        return await self._client._run(wire.learned(self.name, decision, feedback, self._limits))

    async def activate(self, decision: Decision | str | None) -> None:
        """Start the wait of a decision that was deferred."""
        await self._client._run(wire.activated(self.name, decision, self._limits))

    async def report(self) -> dict[str, Any]:
        """Return the state of the experiment: counters, probabilities, estimates with intervals, changes."""
        return await self._client._run(wire.reported(self.name, self._limits))
