"""Feedback: learned once, whenever it comes and however often."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
from msgspec import Raw

from umab_service import log
from umab_service import statements as sql
from umab_service.experiment import Experiment, Part, Row, time_of
from umab_service.problems import conflict, gone, invalid
from umab_service.schema import Feedback, Learned
from umab_service.service import Answer, Service

MOST_PARTS = 1000
"""How many parts the sum of a decision may have."""


def feedback(service: Service, name: str, identity: str, given: Feedback) -> Answer:
    """Learn what came of a decision, once."""
    found = service.experiment(name)
    value = _value(found, given)
    row = service.existing(found, identity)
    if found.settings.aggregation == "sum":
        if given.key is None:
            raise invalid("key must be given, since this experiment learns sums: it names the part")
        with service.changing(found):
            return _part(service, found, row, value, given)
    if given.key is not None:
        raise invalid(f"key must not be given, since this experiment learns the first feedback, but got {given.key!r}")
    with service.changing(found):
        return _first(service, found, row, value, given)


def _first(service: Service, found: Experiment, row: Row, value: float, given: Feedback) -> Answer:
    """Learn the first feedback."""
    identity = row.id
    if row.state in ("open", "deferred"):
        return _learn(service, found, row, value, given, "learned")
    if row.state == log.LEARNED:
        return _again(f"{identity!r}", row.value, value)
    if row.state == "forgotten" and found.settings.late == "learn":
        return _learn(service, found, row, value, given, "late")
    if row.state == log.LATE:
        if row.value != value:
            raise conflict(f"feedback for {identity!r} must not change, but it was {row.value!r} and is {value!r}")
    else:
        service.set(row, log.LATE, None, value)
        service.event(found, log.LATE, _body(row, value, given))
        service.counts["late"] += 1
    return _too_late(identity)


def _value(found: Experiment, given: Feedback) -> float:
    """Return the loss or the reward, checked."""
    unit, wrong = ("reward", given.loss) if found.settings.maximize else ("loss", given.reward)
    value = given.reward if found.settings.maximize else given.loss
    if value is None or wrong is not None:
        raise invalid(f"feedback must be a {unit}, since maximize={str(found.settings.maximize).lower()}")
    if not math.isfinite(value):
        raise invalid(f"{unit} must be finite, but got {value!r}")
    if given.at is not None:
        time_of(given.at)
    refusal = found.learner.policy.refusal(-value if found.settings.maximize else value, "this decision")
    if refusal:
        raise invalid(f"a reward is the negative of a loss, and {refusal}" if found.settings.maximize else refusal)
    return float(value)


def _body(row: Row, value: float, given: Feedback, **more: object) -> dict[str, object]:
    """Return what the log holds of feedback."""
    found = {"decision": row.id, "draw": Raw(row.draw), "value": value, **more}
    if given.at is not None:
        found["at"] = given.at
    return found


def _again(what: str, before: float | None, value: float) -> Answer:
    if before == value:
        return Answer(200, Learned("duplicate"))
    raise conflict(f"feedback for {what} must not change, but it was {before!r} and is {value!r}")


def _too_late(identity: str) -> Answer:
    # An answer and no exception: the event must be on disk before the client is told that it was logged.
    return Answer(
        410, gone(f"feedback must come before the wait ends, but {identity!r} is too late; it was logged").body()
    )


def _learn(
    service: Service,
    found: Experiment,
    row: Row,
    value: float,
    given: Feedback,
    state: Literal["learned", "accepted", "duplicate", "late"],
) -> Answer:
    try:
        log.settle(found.learner, msgspec.json.decode(row.draw), value)
    except (ValueError, TypeError) as error:
        raise invalid(str(error)) from None
    if row.state in ("open", "deferred"):
        found.n_open -= 1
    service.set(row, log.LEARNED, None, value)
    service.event(found, log.LEARNED, _body(row, value, given, late=state == "late"))
    service.counts["learned"] += 1
    return Answer(200, Learned(state))


def _part(service: Service, found: Experiment, row: Row, value: float, given: Feedback) -> Answer:
    """Take in a part of a sum."""
    key, parts = str(given.key), service.parts(row)
    in_time = row.state in ("open", "deferred")
    if key in parts:
        answer = _again(f"{row.id!r} and the key {key!r}", parts[key].value, value)
        return _too_late(row.id) if parts[key].late else answer
    if row.state == "forgotten" and found.settings.late == "learn":
        answer = _learn(service, found, row, value, given, "late")
        parts[key] = Part(value, False)  # so that the same part again is known to be that
        service.statements.append((sql.NEW_PART, (found.id, row.id, key, value, 0)))
        return answer
    if len(parts) >= MOST_PARTS:
        raise invalid(f"a sum must have at most {MOST_PARTS} parts, but {row.id!r} has as many already")
    if row.state == "deferred":  # else the wait would end without it, and what was accepted would be forgotten
        service.start_wait(row)
    parts[key] = Part(value, not in_time)
    service.statements.append((sql.NEW_PART, (found.id, row.id, key, value, int(not in_time))))
    service.touch(row)
    service.event(found, log.ACCEPTED if in_time else log.LATE, _body(row, value, given, key=key))
    service.counts["accepted" if in_time else "late"] += 1
    return Answer(200, Learned("accepted")) if in_time else _too_late(row.id)
