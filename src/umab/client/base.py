"""What both kinds of client have in common: an address, connections, and a queue of feedback."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import httpx

from umab.client.connection import Address, watch
from umab.client.queue import FeedbackCounts, FeedbackQueue
from umab.client.wire import Limits

H = TypeVar("H", httpx.Client, httpx.AsyncClient)


class BaseClient(ABC, Generic[H]):
    """A client that does not say yet how requests are sent."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 1.0,
        deadline: float = 5.0,
        queue: int = 10_000,
        **options: Any,
    ) -> None:
        self._address, self._most = Address(url, key, Limits(timeout, deadline), options), queue
        self._fresh()
        watch(self)

    @abstractmethod
    def _connected(self) -> H:
        """Return what sends requests."""

    def _fresh(self) -> None:
        self._http: H = self._connected()
        self._queue = FeedbackQueue(self._address.connect, self._most)

    def _after_fork(self) -> Any:
        """Start anew in a child process; return what belongs to the parent."""
        self._queue.abandon()
        left = self._http, self._queue
        self._fresh()
        return left

    def feedback(self) -> FeedbackCounts:
        """Return what became of the feedback that was sent in the background."""
        return self._queue.counts()
