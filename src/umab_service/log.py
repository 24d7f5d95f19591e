"""The events of the log, and what each of them does to a learner.

The same functions change a learner when something happens and when the log is replayed, so both come to the same state,
bit for bit. Only the draw of an arm differs: it is drawn once, and repeated from the log ever after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from umab import Draw, Learner

CREATED, IMPORTED = "created", "imported"  # they hold a whole learner
DECIDED, ACTIVATED = "decided", "activated"
LEARNED, ACCEPTED, LATE, EXPIRED = "learned", "accepted", "late", "expired"
ARMS, CHANGED = "arms", "changed"


def settle(learner: Learner, draw: Draw | Sequence[object], value: float) -> None:
    """Learn from the loss, or the reward, of a draw."""
    if learner.maximize:
        learner.settle(draw, reward=value)
    else:
        learner.settle(draw, loss=value)


def forget(learner: Learner, draw: Sequence[Any]) -> None:
    """Close a draw without feedback."""
    learner.forget(Draw(*draw))


def id_of(forgotten: str | Sequence[object]) -> str:
    """Return the id of a decision that an event says was forgotten."""
    return str(forgotten if isinstance(forgotten, str) else forgotten[0])


def set_arms(learner: Learner, arms: Sequence[object]) -> None:
    """Change the arms of a learner.

    A learner takes changes with nothing between them as one, unless it was saved in between. The log does not know when
    it was, so here it always is.
    """
    learner.to_json(indent=None)
    learner.set_arms(arms)


def replayed(learner: Learner | None, kind: str, content: bytes) -> Learner | None:
    """Return the learner after an event of the log."""
    if kind not in _REPLAYED:
        return learner
    body = msgspec.json.decode(content)
    if kind in (CREATED, IMPORTED):
        return Learner.from_json(body["learner"])
    if learner is None:
        raise ValueError(f"the log of an experiment must begin with {CREATED!r}, but it begins with {kind!r}")
    if kind == DECIDED:
        for _, draw in body["draws"]:
            learner.release(learner.replay(Draw(*draw)))
    elif kind == ARMS:
        set_arms(learner, body["arms"])
    elif kind == LEARNED:
        settle(learner, body["draw"], body["value"])
    else:
        for _, draw, value in body["learned"]:
            settle(learner, draw, value)
        for each in body["forgotten"]:
            if not isinstance(each, str):  # an older event has ids only, and no policy of its time would be told
                forget(learner, each[1])
    return learner


_REPLAYED = {CREATED, IMPORTED, DECIDED, ARMS, LEARNED, EXPIRED}
