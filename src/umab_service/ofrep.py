"""OpenFeature: experiments as feature flags, by the OpenFeature Remote Evaluation Protocol (OFREP).

A flag is an active experiment. Its variant, which is also its value, is the arm of a decision; the metadata has what
feedback needs.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from umab_service import decisions, spread
from umab_service.durations import seconds_of
from umab_service.problems import Problem, invalid, not_found
from umab_service.routing import Call, JSONResponse, answered, route
from umab_service.schema import Decision, NewDecision, Operation, Result, Settings, encoded
from umab_service.service import Answer, Service

PREFIX = "/ofrep/v1/evaluate/flags"
STICKY = "umabSticky"
"""The attribute of the context that says how long a choice stays with its targetingKey."""
MOST_FLAGS = 100
"""How many experiments a bulk evaluation makes decisions in."""
MOST_TARGETING_KEY = 1000
"""How long a targetingKey may be."""

ErrorCode = Literal["PARSE_ERROR", "TARGETING_KEY_MISSING", "INVALID_CONTEXT", "FLAG_NOT_FOUND", "GENERAL"]


class EvaluationRequest(Struct):
    """What to evaluate flags for."""

    context: Annotated[
        dict[str, Any],
        Meta(description=f"the evaluation context; targetingKey and {STICKY} are used, the rest is ignored"),
    ] = {}


class FlagMetadata(Struct):
    """What it takes to give feedback to an evaluation."""

    experiment: str
    decisionId: str
    probability: float
    maximize: bool
    """Whether feedback is a reward, and not a loss."""


class Flag(Struct, omit_defaults=True):
    """A flag: what it was evaluated to, or why it was not."""

    key: str
    value: str | UnsetType = UNSET
    variant: str | UnsetType = UNSET
    reason: Literal["SPLIT"] | UnsetType = UNSET
    metadata: FlagMetadata | UnsetType = UNSET
    errorCode: ErrorCode | UnsetType = UNSET
    errorDetails: str | UnsetType = UNSET


class Flags(Struct):
    """All flags that a key covers."""

    flags: list[Flag]


class Failure(Struct, omit_defaults=True):
    """Why nothing was evaluated."""

    errorCode: ErrorCode
    errorDetails: str
    key: str | UnsetType = UNSET


class _MissingTargetingKey(Problem):
    """A sticky choice that nobody could have."""


def failed(problem: Problem, path: str) -> Response | None:
    """Return a problem as the protocol wants it, beside what problems say everywhere; None if it has no wishes."""
    if not path.startswith(PREFIX) or problem.status not in (400, 404, 422):
        return None
    key = path.removeprefix(PREFIX).removeprefix("/")
    as_usual = Problem(404 if problem.status == 404 else 400, problem.detail)
    body = {**msgspec.to_builtins(Failure(_code(problem), problem.detail, key or UNSET)), **as_usual.body()}
    return Response(encoded(body), as_usual.status, problem.headers, media_type="application/json")


def _code(problem: Problem) -> ErrorCode:
    if isinstance(problem, _MissingTargetingKey):
        return "TARGETING_KEY_MISSING"
    codes: dict[int, ErrorCode] = {400: "PARSE_ERROR", 404: "FLAG_NOT_FOUND", 422: "INVALID_CONTEXT"}
    return codes.get(problem.status, "GENERAL")


@route(
    "POST",
    PREFIX + "/{name}",
    "decide",
    "Evaluate a flag: a decision, whose arm is the variant (OFREP).",
    takes=EvaluationRequest,
    answers=((200, Flag), (400, Failure), (404, Failure)),
)
async def evaluate_flag(call: Call) -> Response:
    """Make a decision, or find the one that sticks."""
    service, name = call.service, call.name
    identity = _identity(name, _window(call.body.context, service.clock()))
    given = NewDecision(identity)
    await service.load(name, decisions.needed(given))
    settings = service.experiment(name).settings
    if settings.archived:
        raise not_found("an active experiment", name)
    made = _read(_decided(service, name, given).body)
    if made.state == "deferred":
        with contextlib.suppress(Problem):  # its time is over; it sticks all the same
            decisions.activate(service, name, made.id)
    await service.stored()
    return answered(Answer(200, _flag(name, made, settings.maximize)))


def _decided(service: Service, name: str, given: NewDecision) -> Answer:
    """Return a decision; a sticky one may have been made before by a bulk evaluation."""
    try:
        return decisions.decide(service, name, given)
    except Problem as problem:
        if given.id is None or problem.status != 422:
            raise
        return decisions.decide(service, name, NewDecision(given.id, defer=True))


@route(
    "POST",
    PREFIX,
    "decide",
    "Evaluate all flags that the key covers: deferred decisions, since clients keep them (OFREP).",
    takes=EvaluationRequest,
    answers=((200, Flags), (304, None), (400, Failure)),
)
async def evaluate_flags(call: Call) -> Response:
    """Make a deferred decision in each active experiment, or find those that stick."""
    window = _window(call.body.context, call.service.clock())
    active = await _active(call)
    maximize, beyond = dict(active[:MOST_FLAGS]), active[MOST_FLAGS:]
    found = await _deferred(call, {name: _identity(name, window) for name in maximize})
    flags = [
        _flag(name, _read(result.body), maximize[name]) if result.status < 300 else _failed_flag(name, result)
        for name, result in found.items()
    ]
    too_many = (
        f"a bulk evaluation must have at most {MOST_FLAGS} flags, but this key covers {len(active)}; use a prefix"
    )
    flags += [Flag(name, errorCode="GENERAL", errorDetails=too_many) for name, _ in beyond]
    content = encoded(Flags(flags))
    etag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
    if _has(call.header(b"if-none-match"), etag):
        return Response(status_code=304, headers={"ETag": etag})
    return JSONResponse(content, 200, {"ETag": etag})


async def _active(call: Call) -> list[tuple[str, bool]]:
    """Return the active experiments that a key covers, on all servers, and whether they maximize."""
    if call.relay is None:
        call.service.check_recovered()
        found = [(name, each.settings) for name, each in call.service.experiments.items()]
    else:
        query = "SELECT name, settings FROM experiments WHERE substr(name, 1, ?) = ? AND settings IS NOT NULL"
        rows = await call.service.storage.soon(query, (len(call.key.prefix), call.key.prefix))
        found = [(name, msgspec.json.decode(settings, type=Settings)) for name, settings in rows]
    may = call.key.may
    return sorted((name, each.maximize) for name, each in found if not each.archived and may("decide", name))


async def _deferred(call: Call, identities: dict[str, str | None]) -> dict[str, Result]:
    """Make deferred decisions; sticky ones may have been made before by single evaluations."""

    async def done(names: Iterable[str], *, defer: bool) -> dict[str, Result]:
        batch = [Operation(name, decide=NewDecision(identities[name], defer=defer)) for name in names]
        results = await spread.operations(call, batch)
        return {each.experiment: result for each, result in zip(batch, results, strict=True)}

    found = await done(identities, defer=True)
    known = [name for name, each in found.items() if each.status == 422 and identities[name] is not None]
    return found | (await done(known, defer=False) if known else {})


def _read(body: object) -> Decision:
    return msgspec.json.decode(encoded(body), type=Decision)


def _flag(name: str, made: Decision, maximize: bool) -> Flag:
    return Flag(name, made.arm, made.arm, "SPLIT", FlagMetadata(name, made.id, made.probability, maximize))


def _failed_flag(name: str, result: Result) -> Flag:
    problem = msgspec.json.decode(encoded(result.body))
    return Flag(name, errorCode="GENERAL", errorDetails=problem["detail"])


def _has(if_none_match: str, etag: str) -> bool:
    """Whether a client has this already; some clients leave the quotes out."""
    known = {each.strip().removeprefix("W/").strip('"') for each in if_none_match.split(",")}
    return etag.strip('"') in known


Window = tuple[str, float, int]
"""Whose choice sticks, for how many seconds, and the number of this time since 1970."""


def _window(context: dict[str, Any], now: float) -> Window | None:
    """Return what a sticky choice sticks to; None if it is not to stick."""
    target, duration = context.get("targetingKey"), context.get(STICKY)
    if target is not None and (not isinstance(target, str) or len(target) > MOST_TARGETING_KEY):
        raise invalid(f"targetingKey must be a text of at most {MOST_TARGETING_KEY} characters, but got {target!r:.60}")
    if duration is None:
        return None
    if not target:
        raise _MissingTargetingKey(422, f"{STICKY} must come with a targetingKey, but there is none")
    try:
        seconds = seconds_of(duration)
    except (ValueError, TypeError):
        rule = "a duration of ISO 8601 from a millisecond to ten years, such as PT30M or P1D"
        raise invalid(f"{STICKY} must be {rule}, but got {duration!r:.60}") from None
    return target, seconds, math.floor(now / seconds)


def _identity(name: str, window: Window | None) -> str | None:
    """Return the id of a sticky decision, the same for all servers as long as the window lasts; None if none sticks."""
    if window is None:
        return None
    return "sticky-" + hashlib.blake2b(encoded((name, *window)), digest_size=16).hexdigest()
