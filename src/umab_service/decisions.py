"""Decisions: which arm, and when the wait for feedback starts."""

from __future__ import annotations

import hashlib
import random

import msgspec
from msgspec import Raw

from umab_service import log
from umab_service import statements as sql
from umab_service.experiment import Experiment, Row, instant
from umab_service.problems import conflict, gone, invalid
from umab_service.schema import MOST_LEVELS, NOT_SO_DEEP, Activated, Decision, NewDecision, encoded
from umab_service.service import MOST_METADATA, Answer, Service

_random = random.Random()  # ids must differ; nobody is kept out by them, so that no secret is needed


def decide(service: Service, name: str, given: NewDecision) -> Answer:
    """Draw arms, or repeat the answer to the same request."""
    found = service.experiment(name)
    metadata = None if given.metadata is None else _metadata(given.metadata)
    first = None if given.id is None else service.row(found, given.id if given.n is None else f"{given.id}/0")
    if given.id is not None:
        other = service.row(found, f"{given.id}/0" if given.n is None else given.id)
        digest = _digest(given)
        if first is not None or other is not None:
            return _repeated(service, found, given, first, digest)
    else:
        digest = b""
    if found.settings.archived:
        raise conflict(f"an experiment must be active to decide, but {name!r} is archived")
    with service.changing(found):
        answers = _drawn(service, found, given, digest, metadata)
    return Answer(201, answers[0] if given.n is None else {"decisions": answers})


def _drawn(service: Service, found: Experiment, given: NewDecision, digest: bytes, metadata: bytes | None) -> list[Raw]:
    """Draw arms; return the answers."""
    learner, now = found.learner, service.clock()
    identity = given.id if given.id is not None else _new_id(now)
    try:
        choices = learner.select(given.n or 1, among=given.among)
    except (ValueError, TypeError) as error:
        raise invalid(str(error)) from None
    draws = [learner.release(each) for each in choices]
    wait, sums = found.settings.wait, found.settings.aggregation == "sum"
    due = None if wait is None else now + wait
    state = "deferred" if given.defer else "open"
    expires = None if given.defer else instant(due)
    ids = [identity] if given.n is None else [f"{identity}/{k}" for k in range(len(draws))]
    answers, drawn = [], []
    for each, draw in zip(ids, draws, strict=True):
        if not 0.0 < draw.probability <= 1.0:  # so that a log with it could not be replayed
            raise RuntimeError(
                f"the learner of {found.name!r} is broken: it draws with the probability {draw.probability}"
            )
        answer = Decision(each, str(draw.arm), draw.probability, state, expires)  # type: ignore[arg-type]
        content = encoded(answer)
        answers.append(Raw(content))
        kept = b"" if given.id is None else content  # only who has chosen an id can ask for it again
        row = Row(found, each, now, digest, kept, encoded(draw), state, due, parts={} if sums else None)
        drawn.append((each, Raw(row.draw)))
        service.statements.append((sql.NEW_DECISION, (found.id, each, now, digest, kept, row.draw, state, due)))
        if metadata is not None:
            service.statements.append((sql.NEW_METADATA, (found.id, each, now, metadata)))
        service.touch(row)
    found.n_open += len(draws)
    body: dict[str, object] = {"draws": drawn, "due": due}
    if given.defer:
        body["defer"] = True
    service.event(found, log.DECIDED, body)
    return answers


def needed(given: NewDecision) -> list[str]:
    """Return the ids of the decisions that tell whether a request was made before."""
    if given.id is None:
        return []
    return [given.id, *(f"{given.id}/{k}" for k in range(given.n or 1))]


def _repeated(service: Service, found: Experiment, given: NewDecision, first: Row | None, digest: bytes) -> Answer:
    """Return the answer that the same request had."""
    if first is None or first.request != digest:
        raise invalid(f"a decision with the id {given.id!r} must be asked for as it was before, but it differs")
    if given.n is None:
        return Answer(200, Raw(first.answer))
    rows = [service.row(found, f"{given.id}/{k}") for k in range(given.n)]
    return Answer(200, {"decisions": [Raw(row.answer) for row in rows if row]})


def activate(service: Service, name: str, identity: str) -> Answer:
    """Start the wait of a decision that was deferred."""
    found = service.experiment(name)
    row = service.existing(found, identity)
    if row.state == "deferred":
        with service.changing(found):
            service.start_wait(row)
    elif row.state not in ("open", log.LEARNED):
        raise gone(f"a decision must be activated in time, but {identity!r} is {row.state}")
    return Answer(200, Activated(identity, row.state, instant(row.due)))


def _metadata(given: dict[str, object]) -> bytes:
    """Return metadata as JSON, checked."""
    try:
        found = encoded(given)
    except RecursionError:
        raise invalid(NOT_SO_DEEP) from None
    if len(found) > MOST_METADATA:
        raise invalid(f"metadata must be at most {MOST_METADATA} bytes of JSON, but got {len(found)}")
    if _is_deeper(given, MOST_LEVELS):
        raise invalid(NOT_SO_DEEP)
    return found


def _is_deeper(value: object, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inside is not None and (levels == 0 or any(_is_deeper(each, levels - 1) for each in inside))


def _new_id(now: float) -> str:
    """Return a new id; ids made one after the other lie side by side in the table, so that few pages change."""
    return f"{int(now * 1000.0):012x}{_random.getrandbits(80):020x}"


def _digest(given: NewDecision) -> bytes:
    """Return a digest of all of a request but its id."""
    canonical = (sorted(given.among) if given.among is not None else None, given.n, given.defer, given.metadata)
    return hashlib.blake2b(msgspec.json.encode(canonical, order="sorted"), digest_size=16).digest()
