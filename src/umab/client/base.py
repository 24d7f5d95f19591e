"""What both kinds of client have in common: all that they do, but not how a conversation is carried out.

A method that is awaited must be written beside one that is not, so each kind has the methods that people call. They
carry out the conversations that are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import httpx

from umab.client.connection import Address, watch
from umab.client.queue import FeedbackCounts, FeedbackQueue
from umab.client.wire import (
    REPORT_TIMEOUT,
    Conversation,
    Decision,
    Limits,
    Unavailable,
    asked,
    feedback_of,
    identity_of,
    new_id,
    quoted,
)

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

    def _after_fork(self) -> object:
        """Start anew in a child process; return what belongs to the parent."""
        self._queue.abandon()
        left = self._http, self._queue
        self._fresh()
        return left

    def feedback(self) -> FeedbackCounts:
        """Return what became of the feedback that was sent in the background."""
        return self._queue.counts()

    def _created(self, name: str, settings: Mapping[str, object] | None) -> Conversation[None]:
        """Create an experiment with these settings, unless there is one with the same; without settings, do nothing."""
        if settings is not None:
            yield from asked("POST", "/v1/experiments", {"name": name, **settings}, self._address.limits)


C = TypeVar("C", bound=BaseClient[Any])


class BaseExperiment(Generic[C]):
    """What can be asked about an experiment."""

    def __init__(self, client: C, name: str, fallback: str | None) -> None:
        self._client, self.name, self.fallback = client, name, fallback
        self._limits = client._address.limits

    @property
    def _path(self) -> str:
        return f"/v1/experiments/{quoted('a name', self.name, safe='')}"

    def _path_of(self, identity: str) -> str:
        return f"{self._path}/decisions/{quoted('an id', identity)}"

    def _decided(
        self,
        k: int | None,
        id: str | None,
        among: Iterable[str] | None,
        defer: bool,
        metadata: Mapping[str, object] | None,
    ) -> Conversation[Decision | list[Decision]]:
        """Ask for decisions, with an id so that they are made once; if the server stays away, return the fallback."""
        if isinstance(among, str):
            raise TypeError(f"among must be several arms, such as [{among!r}], but got among={among!r}")
        eligible = None if among is None else list(among)
        given = {"id": new_id() if id is None else id, "among": eligible, "n": k, "metadata": metadata}
        body = {key: value for key, value in given.items() if value is not None}
        if defer:
            body["defer"] = True
        try:
            found = yield from asked("POST", f"{self._path}/decisions", body, self._limits)
        except Unavailable as error:
            if self.fallback is None:
                raise
            if eligible is not None and self.fallback not in eligible:
                raise Unavailable(
                    f"the fallback must be among {eligible!r}, but it is {self.fallback!r}; {error}"
                ) from None
            instead = Decision(self.fallback, None, None, True)
            return instead if k is None else [instead] * k
        rows = [found] if k is None else found["decisions"]
        decisions = [Decision(row["arm"], row["probability"], row["id"]) for row in rows]
        return decisions[0] if k is None else decisions

    def _learned(
        self,
        decision: Decision | str | None,
        loss: float | None,
        reward: float | None,
        key: str | None,
        at: str | datetime | None,
        background: bool,
    ) -> Conversation[str | None]:
        """Give feedback, unless it is of a fallback; return what became of it, or None if the queue has it."""
        feedback = feedback_of(loss, reward, key, at)
        if background:
            self._client._queue.put_feedback(self.name, decision, feedback)
            return None
        identity = identity_of(decision)
        if identity is None:
            return None
        found = yield from asked("PUT", f"{self._path_of(identity)}/feedback", feedback, self._limits)
        return str(found["state"])

    def _activated(self, decision: Decision | str | None) -> Conversation[None]:
        """Start the wait of a deferred decision."""
        identity = identity_of(decision)
        if identity is not None:
            yield from asked("POST", f"{self._path_of(identity)}/activate", None, self._limits)

    def _reported(self) -> Conversation[dict[str, Any]]:
        """Ask for a report."""
        limits = Limits(max(self._limits.timeout, REPORT_TIMEOUT), max(self._limits.deadline, REPORT_TIMEOUT))
        found: dict[str, Any] = yield from asked("GET", f"{self._path}/report", None, limits)
        return found
