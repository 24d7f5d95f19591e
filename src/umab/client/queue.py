"""Feedback that is sent in the background: a bounded queue, and a thread that empties it in batches.

Both kinds of client have the same thread. A task of an event loop would end with the loop, and with it the feedback
that still waits; a thread also sends what is left when the program ends.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

import httpx

from umab.client.connection import carried_out, send
from umab.client.wire import (
    RETRIED,
    SHORTEST_TIMEOUT,
    Conversation,
    Decision,
    Lost,
    Pause,
    Reply,
    Request,
    encoded,
    identity_of,
    pause_after,
    why,
)

BATCH = 500
"""How many feedbacks one request carries at most."""
BATCH_TIMEOUT = 10.0
"""How long to wait for the answer to a batch, in seconds."""
AT_EXIT = 5.0
"""How long a client tries to send what is left when it is closed or the program ends, in seconds."""
AGAIN = RETRIED - {500}
"""The statuses after which feedback is sent again. What makes the server fail would hold up all that comes after it."""
SPLIT = frozenset({400, 413, 422, 500})
"""The statuses of a batch that one wrong feedback may cause: the others in it are sent again without it."""

logger = logging.getLogger("umab.client")

Operation = bytes
"""Feedback as JSON, written when it is given: an error in what was given is then the error of the caller."""


class FeedbackCounts(NamedTuple):
    """What became of the feedback that was to be sent in the background.

    Attributes
    ----------
    waiting
        How many still wait.
    sent
        How many the server has taken, also if it knew them before.
    refused
        How many the server has refused for good.
    dropped
        How many were dropped: the queue was full, the client was closed before they could be sent, or an error came up
        that nobody expected.
    """

    waiting: int
    sent: int
    refused: int
    dropped: int


class FeedbackQueue:
    """Feedback that waits to be sent. Its thread starts with the first one."""

    def __init__(self, connect: Callable[[], httpx.Client], most: int) -> None:
        if not isinstance(most, int) or most < 1:
            raise ValueError(f"queue must be a whole number of at least 1, but got queue={most!r}")
        self._connect, self._most = connect, most
        self._waiting: deque[Operation] = deque()
        self._sending: list[Operation] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._end: float | None = None
        """When closed: until when to try."""
        self._hurry = False
        self._said: set[str] = set()
        self._n_sent = self._n_refused = self._n_dropped = 0

    def counts(self) -> FeedbackCounts:
        """Return what became of the feedback."""
        with self._changed:
            n_waiting = len(self._waiting) + len(self._sending)
            return FeedbackCounts(n_waiting, self._n_sent, self._n_refused, self._n_dropped)

    def put_feedback(self, name: str, decision: Decision | str | None, feedback: Mapping[str, object]) -> None:
        """Add feedback to a decision of an experiment; a fallback has none."""
        identity = identity_of(decision)
        if identity is not None:
            self._put(encoded({"experiment": name, "decision": identity, "feedback": feedback}))

    def _put(self, operation: Operation) -> None:
        """Add feedback, and drop the oldest if there is no room: what is oldest is most likely too late anyway."""
        with self._changed:
            if self._end is not None:
                raise RuntimeError("a client must be open to send feedback, but this one is closed")
            self._waiting.append(operation)
            self._trim()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="umab feedback", daemon=True)
                self._thread.start()
                atexit.unregister(self.close)
                atexit.register(self.close)
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until nothing waits; return whether that came about."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, timeout)

    def close(self, timeout: float = AT_EXIT) -> None:
        """Send what is left, and stop; what cannot be sent in this time is dropped."""
        with self._changed:
            if self._end is not None:
                return
            self._end, self._hurry = monotonic() + timeout, True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        atexit.unregister(self.close)
        with self._changed:
            n_left = len(self._sending) + len(self._waiting)
            self._sending = []
            self._waiting.clear()
            if n_left:
                self._n_dropped += n_left
                self._say(
                    "closed", f"{n_left} feedbacks were dropped: the server did not take them within {timeout:g} s"
                )

    def abandon(self) -> None:
        """Leave the queue to the parent process, whose thread sends what is in it."""
        atexit.unregister(self.close)

    # The thread.

    def _work(self) -> None:
        n_failures = 0
        while self._some():
            try:
                with self._connect() as http:
                    while self._some():
                        carried_out(self._delivery(), lambda request: send(http, request), self._pause)
                        n_failures = 0
            except Exception as error:
                self._drop_sending(error)
                self._pause(pause_after(Lost(repr(error)), n_failures))
                n_failures += 1

    def _drop_sending(self, error: Exception) -> None:
        """Drop what was being sent when something unexpected happened: if it is the cause, it would be so again."""
        with self._changed:
            n_dropped, self._sending = len(self._sending), []
            self._n_dropped += n_dropped
            self._say("failed", f"{n_dropped} feedbacks were dropped, and the others are sent: {error!r}", error)
            self._changed.notify_all()

    def _some(self) -> bool:
        """Wait for feedback; return whether there is some, and time to send it."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._end is not None)
            return bool(self._waiting) and not self._is_over()

    def _is_over(self) -> bool:
        return self._end is not None and monotonic() >= self._end

    def _at_most(self, seconds: float) -> float:
        """Return a time in seconds, or what is left of it before the end."""
        return seconds if self._end is None else max(SHORTEST_TIMEOUT, min(seconds, self._end - monotonic()))

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._hurry, self._at_most(seconds))
            self._hurry = False

    def _delivery(self) -> Conversation[None]:
        """Send all that waits, batch by batch. While the server is away, go on trying."""
        n_failures, size = 0, BATCH
        while batch := self._take(size):
            content = b'{"operations":[' + b",".join(batch) + b"]}"
            reply = yield Request("POST", "/v1/batch", content, self._at_most(BATCH_TIMEOUT))
            assert reply is not None
            if isinstance(reply, Reply) and reply.status in SPLIT and len(batch) > 1:
                self._settle(batch, [None] * len(batch))
                size = len(batch) // 2
                continue
            size, is_again = BATCH, self._settle(batch, _answers(reply, len(batch)))
            n_failures = n_failures + 1 if is_again else 0
            if is_again:
                self._say("away", f"feedback waits, since the server does not take it: {why(reply)}")
                yield Pause(pause_after(reply, n_failures - 1))

    def _take(self, most: int) -> list[Operation]:
        """Return the oldest feedback, to be sent now."""
        with self._changed:
            n_taken = 0 if self._is_over() else min(most, len(self._waiting))
            self._sending = [self._waiting.popleft() for _ in range(n_taken)]
            return self._sending

    def _settle(self, batch: list[Operation], answers: list[Reply | None]) -> bool:
        """Note the answer to each feedback; return whether some must be sent again."""
        with self._changed:
            if self._sending is not batch:  # it was closed meanwhile, and they are counted
                return False
            for answer in answers:
                if answer is not None and answer.status < 300:
                    self._n_sent += 1
                elif answer is not None:
                    self._n_refused += 1
                    self._say("refused", f"feedback was refused: {why(answer)}")
            again = [each for each, answer in zip(batch, answers, strict=True) if answer is None]
            self._sending = []
            self._waiting.extendleft(reversed(again))
            self._trim()
            self._changed.notify_all()
            return bool(again)

    def _trim(self) -> None:
        while len(self._waiting) > self._most:
            self._waiting.popleft()
            self._n_dropped += 1
            self._say("full", f"the oldest feedback was dropped: the queue must hold at most {self._most}, and is full")

    def _say(self, kind: str, message: str, error: Exception | None = None) -> None:
        """Log a kind of failure when it happens first; the counts have the rest."""
        if kind not in self._said:
            self._said.add(kind)
            logger.warning("%s; this is said once, and counted", message, exc_info=error)


def _answers(reply: Reply | Lost, n: int) -> list[Reply | None]:
    """Return the answer to each feedback of a batch; None if it must be sent again."""
    if isinstance(reply, Lost) or reply.status in AGAIN:
        return [None] * n
    if reply.status != 200:
        return [reply] * n
    try:
        found = [Reply(int(each["status"]), encoded(each["body"])) for each in json.loads(reply.content)["results"]]
    except (ValueError, KeyError, TypeError, OverflowError):
        found = []
    if len(found) != n:  # something else than the server has answered
        return [None] * n
    return [None if each.status in AGAIN else each for each in found]
