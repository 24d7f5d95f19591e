"""The client for programs with threads, or without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from time import sleep
from types import TracebackType
from typing import Any, TypeVar, overload

import httpx

from umab.client.base import BaseClient, BaseExperiment
from umab.client.connection import carried_out, send
from umab.client.queue import AT_EXIT
from umab.client.wire import Conversation, Decision

T = TypeVar("T")


class Client(BaseClient[httpx.Client]):
    """A client of a decision service. Threads may share it, and it survives a fork.

    A request that gets no answer is repeated, with pauses that grow: after errors of the connection, timeouts, and the
    statuses 408, 429, 500, 502, 503 and 504. It carries an id, so the server does it once, however often it arrives.

    Parameters
    ----------
    url
        Where the server is, such as ``http://127.0.0.1:8080``.
    key
        A key with the role decide; with the role admin if the client creates experiments.
    timeout
        How long one try may wait for the server, in seconds.
    deadline
        How long to try in all, in seconds. After that, `select` returns the fallback, or `Unavailable` is raised.
    queue
        How many feedbacks may wait to be sent in the background. If more come, the oldest are dropped.
    **options
        Passed on to `httpx.Client`: ``verify`` for a certificate of your own, ``proxy``, ``limits`` and so on.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8080", key) as client:
            checkout = client.experiment("checkout", fallback="one page")
            decision = checkout.select()
            checkout.update(decision, loss=seconds_with(decision.arm))
    """

    def _connected(self) -> httpx.Client:
        return self._address.connect()

    def _run(self, conversation: Conversation[T]) -> T:
        return carried_out(conversation, lambda request: send(self._http, request), sleep)

    def experiment(
        self, name: str, *, create: Mapping[str, object] | None = None, fallback: str | None = None
    ) -> Experiment:
        """Return an experiment.

        Parameters
        ----------
        name
            Its name.
        create
            If given, the experiment is created with these settings, such as ``{"arms": ["a", "b"], "maximize": True}``,
            unless there is one with the same settings. Without it, nothing is sent.
        fallback
            The arm that `select` returns if the server stays away.
        """
        self._run(self._created(name, create))
        return Experiment(self, name, fallback)

    def flush(self, timeout: float = AT_EXIT) -> bool:
        """Wait until all feedback is sent, for at most so many seconds; return whether it is."""
        return self._queue.flush(timeout)

    def close(self, timeout: float = AT_EXIT) -> None:
        """Send the feedback that waits, within so many seconds, and close the connections."""
        self._queue.close(timeout)
        self._http.close()

    def __enter__(self) -> Client:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()


class Experiment(BaseExperiment[Client]):
    """An experiment of the server, with the feel of a `umab.Learner`; `Client.experiment` returns it.

    Attributes
    ----------
    name
        Its name.
    fallback
        The arm that `select` returns if the server stays away; None if it raises `Unavailable`.
    """

    def __init__(self, client: Client, name: str, fallback: str | None) -> None:
        super().__init__(client, name, fallback)

    @overload
    def select(
        self,
        k: None = None,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> Decision: ...

    @overload
    def select(
        self,
        k: int,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> list[Decision]: ...

    def select(
        self,
        k: int | None = None,
        *,
        id: str | None = None,
        among: Iterable[str] | None = None,
        defer: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> Decision | list[Decision]:
        """Ask which arm to use.

        Parameters
        ----------
        k
            How many decisions to make at once; they are returned as a list.
        id
            A name for the decision, such as the number of an order: with the same one, the answer is the same. By
            default the client makes one.
        among
            The arms that are eligible this time; None means all.
        defer
            Whether the wait for feedback starts only with `activate`.
        metadata
            Anything to keep with the decision, as JSON.
        """
        return self._client._run(self._decided(k, id, among, defer, metadata))

    def update(
        self,
        decision: Decision | str | None,
        *,
        loss: float | None = None,
        reward: float | None = None,
        key: str | None = None,
        at: str | datetime | None = None,
        background: bool = False,
    ) -> str | None:
        """Tell what came of a decision; of a fallback there is nothing to tell, so nothing is sent.

        Parameters
        ----------
        decision
            What `select` has returned, or its id.
        loss, reward
            What it cost; or what it brought, if the experiment maximizes. One of the two.
        key
            Which part of the sum this is, if the experiment learns sums.
        at
            When it happened, to be logged: a datetime with a time zone, or text as in RFC 3339.
        background
            Whether to return at once: the feedback waits in a queue, and a thread sends it in batches. Then failures
            to send it are logged and counted, see `Client.feedback`, and never raised here. What cannot be sent at all,
            such as text that is no Unicode, is refused here, and nothing changes.

        Returns
        -------
        str or None
            What became of it: ``learned``, ``accepted``, ``duplicate`` or ``late``. None in the background, and for a
            fallback.
        """
        return self._client._run(self._learned(decision, loss, reward, key, at, background))

    def activate(self, decision: Decision | str | None) -> None:
        """Start the wait of a decision that was deferred."""
        self._client._run(self._activated(decision))

    def report(self) -> dict[str, Any]:
        """Return the state of the experiment: counters, probabilities, estimates with intervals, changes."""
        return self._client._run(self._reported())
