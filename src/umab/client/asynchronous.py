"""The client for programs with an event loop: the same calls, awaited."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar, cast, overload

import httpx

from umab.client.base import BaseClient, BaseExperiment
from umab.client.connection import send_async
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
                else:
                    reply = await send_async(self._http, step)
        except StopIteration as end:
            return cast(T, end.value)

    async def experiment(
        self, name: str, *, create: Mapping[str, object] | None = None, fallback: str | None = None
    ) -> AsyncExperiment:
        """Return an experiment, as `Client.experiment` does."""
        await self._run(self._created(name, create))
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


class AsyncExperiment(BaseExperiment[AsyncClient]):
    """An experiment of the server; `AsyncClient.experiment` returns it. `Experiment` says what its parameters mean.

    Attributes
    ----------
    name
        Its name.
    fallback
        The arm that `select` returns if the server stays away; None if it raises `Unavailable`.
    """

    def __init__(self, client: AsyncClient, name: str, fallback: str | None) -> None:
        super().__init__(client, name, fallback)

    @overload
    async def select(
        self,
        k: None = None,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> Decision: ...

    @overload
    async def select(
        self,
        k: int,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> list[Decision]: ...

    async def select(
        self,
        k: int | None = None,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> Decision | list[Decision]:
        """Ask which arm to use."""
        return await self._client._run(self._decided(k, id, among, defer, metadata))

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
        return await self._client._run(self._learned(decision, loss, reward, key, at, background))

    async def activate(self, decision: Decision | str | None) -> None:
        """Start the wait of a decision that was deferred."""
        await self._client._run(self._activated(decision))

    async def report(self) -> dict[str, Any]:
        """Return the state of the experiment: counters, probabilities, estimates with intervals, changes."""
        return await self._client._run(self._reported())
