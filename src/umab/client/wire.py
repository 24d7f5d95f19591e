"""What goes to the server and what comes back, as plain data: requests, when to repeat them, what errors mean.

Nothing here sends anything. A conversation is a generator: it yields a request to send, or a pause to make, and is
given the reply. So the rules are in one place, here and in `base`, and the two kinds of client only carry them out.
"""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import random
import secrets
import time
from collections.abc import Generator
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import quote

from umab._support import checks

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
"""The statuses after which the same request is sent again: the server, or what is before it, is busy or away."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""The longest pause after a first failure, and after many of them, in seconds; each failure doubles it."""
SHORTEST_TIMEOUT = 0.01
REPORT_TIMEOUT = 30.0
"""How long a report may take, in seconds: the server reads the log for it."""

T = TypeVar("T")


class Refused(Exception):
    """The server will not do what it was asked for, however often it is asked.

    Attributes
    ----------
    status
        The HTTP status of the answer.
    detail
        The rule and the value that broke it, in the words of the server.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status, self.detail = status, detail

    def __str__(self) -> str:
        """Return the status and the detail."""
        return f"{self.detail} (HTTP {self.status})"


class Unavailable(Exception):
    """The server did not answer within the deadline. What it was asked for may be done, or not."""


class Decision(NamedTuple):
    """An arm that the server has drawn. Pass it to `update`, or keep its id and pass that.

    Attributes
    ----------
    arm
        The arm.
    probability
        The probability with which it was drawn; None if it is a fallback, which nobody has drawn.
    id
        The name of the decision; None if it is a fallback, which the server knows nothing of.
    fallback
        Whether the server was away, so that this is the arm that was chosen beforehand.
    """

    arm: str
    probability: float | None
    id: str | None
    fallback: bool = False


class Request(NamedTuple):
    """A request to send."""

    method: str
    path: str
    content: bytes
    timeout: float


class Pause(NamedTuple):
    """A time to do nothing."""

    seconds: float


class Reply(NamedTuple):
    """What a server has answered."""

    status: int
    content: bytes
    retry_after: str | None = None


class Lost(NamedTuple):
    """No answer came. The request may have been done, or not."""

    why: str


Conversation = Generator[Request | Pause, Reply | Lost | None, T]
"""Yields what to do next, is sent the reply to a request (None after a pause), and returns its outcome."""


@dataclass(frozen=True)
class Limits:
    """How long to try."""

    timeout: float
    deadline: float

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("timeout", "deadline"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0.0 < value < math.inf):
                raise ValueError(f"{name} must be a number of seconds above 0, but got {name}={value!r}")


def asked(method: str, path: str, body: object, limits: Limits) -> Conversation[Any]:
    """Send a request, and repeat the same one while the server is away; return what the answer holds."""
    content = b"" if body is None else encoded(body)
    end, n_tries = monotonic() + limits.deadline, 0
    while True:
        left = end - monotonic()
        reply = yield Request(method, path, content, max(SHORTEST_TIMEOUT, min(limits.timeout, left)))
        assert reply is not None
        if isinstance(reply, Reply) and reply.status not in RETRIED:
            return held_by(reply)
        pause = pause_after(reply, n_tries)
        n_tries += 1
        if monotonic() + pause >= end:
            raise Unavailable(
                f"the server must answer within {limits.deadline:g} s, but it did not in {n_tries} tries: {why(reply)}"
            )
        yield Pause(pause)


def encoded(body: object) -> bytes:
    """Return a body as JSON; raise ValueError or TypeError if it has something for which JSON has no words."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_no_json)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"what is sent must have finite numbers only, and no part that contains itself, but got: {error}"
        ) from None
    return _utf8("what is sent", text)


def _no_json(value: object) -> NoReturn:
    raise TypeError(
        f"what is sent must be made of text, numbers, booleans, None, lists and dicts, but got {checks.shown(value)} "
        f"of type {type(value).__name__}; convert it before, for example with str(), .isoformat(), float() or .tolist()"
    )


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        part = text[max(0, error.start - 20) : error.end + 20]
        raise ValueError(
            f"{what} must be text without lone surrogates, but got {part!r}; "
            "text.encode(errors='replace').decode() puts a question mark in place of each"
        ) from None


def held_by(reply: Reply) -> Any:
    """Return what a successful answer holds, or raise what is wrong."""
    if not 200 <= reply.status < 300:
        raise Refused(reply.status, detail_of(reply))
    try:
        return json.loads(reply.content)
    except ValueError:
        raise Refused(
            reply.status, f"an answer must be JSON, but got {reply.content[:80]!r}; is the url right?"
        ) from None


def detail_of(reply: Reply) -> str:
    """Return what is wrong, in the server's words."""
    try:
        found = json.loads(reply.content)
        return str(found["detail"])
    except (ValueError, KeyError, TypeError):  # something between here and the server has answered
        return reply.content[:200].decode("utf-8", "replace").strip() or "no reason was given"


def why(reply: Reply | Lost) -> str:
    """Return why there was no answer."""
    return reply.why if isinstance(reply, Lost) else f"{detail_of(reply)} (HTTP {reply.status})"


def pause_after(reply: Reply | Lost, n_before: int) -> float:
    """Return how long to pause after a failure: longer each time, never the same for all, and as long as asked for."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(n_before, 30)) * random.uniform(0.5, 1.0)
    return pause + (_seconds(reply.retry_after) if isinstance(reply, Reply) else 0.0)


def _seconds(retry_after: str | None) -> float:
    """Return the header Retry-After, which is a number of seconds or a date, in seconds from now."""
    if retry_after is None:
        return 0.0
    try:
        if retry_after.strip().isascii() and retry_after.strip().isdigit():
            return float(retry_after)
        date = email.utils.parsedate_to_datetime(retry_after)
        return max(0.0, (date - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def feedback_of(
    loss: float | None, reward: float | None, key: str | None, at: str | datetime.datetime | None
) -> dict[str, object]:
    """Return feedback as the server takes it, checked."""
    if (loss is None) == (reward is None):
        raise TypeError(f"feedback must be one of loss and reward, but got loss={loss!r} and reward={reward!r}")
    unit, value = ("loss", loss) if reward is None else ("reward", reward)
    try:
        number = float(value)  # type: ignore[arg-type]  # one of them is there
    except OverflowError:  # a whole number
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{unit} must be finite, but got {unit}={checks.shown(value)}")
    if key is not None and not isinstance(key, str):
        raise TypeError(f"key must be text, but got key={checks.shown(key)}; str(key) makes it text")
    found = {unit: number, "key": key, "at": _time_of(at)}
    return {name: each for name, each in found.items() if each is not None}


def _time_of(at: str | datetime.datetime | None) -> str | None:
    """Return a time as the server takes it."""
    if at is None or isinstance(at, str):
        return at
    if not isinstance(at, datetime.datetime):
        raise TypeError(f"at must be a datetime with a time zone, or text as in RFC 3339, but got at={at!r}")
    if at.utcoffset() is None:
        raise ValueError(
            f"at must have a time zone, but got at={at!r}; at.astimezone() adds that of this computer, and "
            "at.replace(tzinfo=datetime.UTC) says that it is UTC"
        )
    # An offset may have seconds, and RFC 3339 has no place for them. UTC is the same instant.
    return datetime.datetime.isoformat(at.astimezone(datetime.UTC))


def identity_of(decision: Decision | str | None) -> str | None:
    """Return the id of a decision; None if it is a fallback, about which there is nothing to tell."""
    found = decision.id if isinstance(decision, Decision) else decision
    if found is not None and (not isinstance(found, str) or not found):
        raise TypeError(f"a decision must be one that select has returned, or its id, but got {decision!r}")
    return found


def new_id() -> str:
    """Return a new id. Ids made one after the other lie side by side in the server's table, which makes it faster."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def quoted(what: str, text: str, safe: str = "/") -> str:
    """Return text as a part of a path."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text, but got {checks.shown(text)}")
    return quote(_utf8(what, text), safe=safe)
