"""The routes of the API: for each, who may use it, what it takes, what it answers, and what it does.

The two that are asked for most come first: paths are tried in this order.
"""

from __future__ import annotations

from starlette.responses import Response

from umab_service import administration, decisions, reports, spread
from umab_service import feedback as feedbacks
from umab_service.keys import added, new_key, revoked
from umab_service.problems import Problem, conflict, invalid, not_found
from umab_service.routing import NAME_PARAMETER, ROUTES, Call, answered, limit_parameter, route
from umab_service.schema import (
    Activated,
    Batch,
    ChangedExperiment,
    CreatedKey,
    Decision,
    Decisions,
    Erased,
    Evaluation,
    Experiments,
    Feedback,
    Learned,
    NewDecision,
    NewExperiment,
    NewKey,
    Report,
    Results,
    ShownExperiment,
    ShownKey,
    ShownKeys,
    Target,
)
from umab_service.service import Answer

__all__ = ["ROUTES"]

MOST_AT_ONCE = 1000
"""How many decisions and feedbacks a batch may have."""


async def _stored(call: Call, answer: Answer) -> Response:
    await call.service.stored()
    return answered(answer)


@route(
    "POST",
    "/v1/experiments/{name}/decisions",
    "decide",
    "Which arm?",
    takes=NewDecision,
    answers=((201, (Decision, Decisions)), (200, (Decision, Decisions))),
)
async def decide(call: Call) -> Response:
    """Make a decision."""
    service = call.service
    if service.storage.shared:
        await service.load(call.name, decisions.needed(call.body))
    return await _stored(call, decisions.decide(service, call.name, call.body))


@route(
    "PUT",
    "/v1/experiments/{name}/decisions/{decision:path}/feedback",
    "decide",
    "What came of a decision.",
    takes=Feedback,
    answers=((200, Learned),),
)
async def feedback(call: Call) -> Response:
    """Give feedback."""
    service = call.service
    if service.storage.shared:
        await service.load(call.name, [call.decision])
    return await _stored(call, feedbacks.feedback(service, call.name, call.decision, call.body))


@route(
    "POST",
    "/v1/experiments",
    "admin",
    "Create an experiment.",
    takes=NewExperiment,
    answers=((201, ShownExperiment), (200, ShownExperiment)),
)
async def create(call: Call) -> Response:
    """Create an experiment, if the key covers its name."""
    if not call.key.may("admin", call.body.name):
        raise Problem(403, f"the name must begin with {call.key.prefix!r} for this key, but got {call.body.name!r}")
    await administration.prepare(call.service, call.body)
    return await _stored(call, administration.create(call.service, call.body))


@route(
    "GET",
    "/v1/experiments",
    "read",
    "List the experiments, in the order of their names.",
    query={"after": NAME_PARAMETER, "limit": limit_parameter(1000)},
    answers=((200, Experiments),),
)
async def listed(call: Call) -> Response:
    """List the experiments that the key covers."""
    after, limit = call.parameter("after") or "", call.number("limit", 100, 1, 1000)
    names = await spread.names(call, after, limit)
    found = await spread.shown(call, names[:limit])
    return answered(Answer(200, Experiments(found, names[limit - 1] if len(names) > limit else None)))


@route("GET", "/v1/experiments/{name}", "read", "Show an experiment.", answers=((200, ShownExperiment),))
async def shown(call: Call) -> Response:
    """Show an experiment."""
    return await _stored(call, Answer(200, call.service.described(call.service.experiment(call.name))))


@route(
    "PATCH",
    "/v1/experiments/{name}",
    "admin",
    "Change the settings of an experiment.",
    takes=ChangedExperiment,
    answers=((200, ShownExperiment),),
)
async def change(call: Call) -> Response:
    """Change the settings of an experiment."""
    return await _stored(call, administration.change(call.service, call.name, call.body))


@route(
    "POST",
    "/v1/experiments/{name}/archive",
    "admin",
    "Make no more decisions in an experiment.",
    answers=((200, ShownExperiment),),
)
async def archive(call: Call) -> Response:
    """Archive an experiment."""
    return await _stored(call, administration.archive(call.service, call.name))


@route(
    "PUT",
    "/v1/experiments/{name}/arms/{arm:path}",
    "admin",
    "Add an arm.",
    answers=((201, ShownExperiment), (200, ShownExperiment)),
)
async def add_arm(call: Call) -> Response:
    """Add an arm."""
    if not 1 <= len(call.arm) <= 200:
        raise invalid(f"the name of an arm must have 1 to 200 characters, but got {len(call.arm)}")
    return await _stored(call, administration.add_arm(call.service, call.name, call.arm))


@route(
    "DELETE",
    "/v1/experiments/{name}/arms/{arm:path}",
    "admin",
    "Remove an arm.",
    answers=((200, ShownExperiment),),
)
async def remove_arm(call: Call) -> Response:
    """Remove an arm."""
    return await _stored(call, administration.remove_arm(call.service, call.name, call.arm))


@route(
    "POST",
    "/v1/experiments/{name}/decisions/{decision:path}/activate",
    "decide",
    "Start the wait of a deferred decision.",
    answers=((200, Activated),),
)
async def activate(call: Call) -> Response:
    """Activate a decision."""
    await call.service.load(call.name, [call.decision])
    return await _stored(call, decisions.activate(call.service, call.name, call.decision))


@route(
    "POST",
    "/v1/batch",
    "decide",
    "Decisions and feedback, in their order, each with its own answer.",
    takes=Batch,
    answers=((200, Results),),
)
async def batch(call: Call) -> Response:
    """Do several operations at once."""
    n_decisions = sum(1 if each.decide is None else each.decide.n or 1 for each in call.body.operations)
    if n_decisions > MOST_AT_ONCE:
        raise invalid(f"a batch must have at most {MOST_AT_ONCE} decisions and feedbacks, but got {n_decisions}")
    return answered(Answer(200, Results(await spread.operations(call, call.body.operations))))


@route(
    "GET",
    "/v1/experiments/{name}/report",
    "read",
    "Counters, probabilities, estimates with intervals, changes.",
    answers=((200, Report),),
)
async def report(call: Call) -> Response:
    """Report on an experiment."""
    return answered(Answer(200, await reports.report(call.service, call.service.experiment(call.name))))


@route(
    "GET",
    "/v1/experiments/{name}/events",
    "read",
    "The events of the log after number `after`, as NDJSON; the header X-Next-After has the last number.",
    query={"after": {"type": "integer", "minimum": 0, "maximum": 2**53}, "limit": limit_parameter(10_000)},
    answers=((200, None),),
    media="application/x-ndjson",
)
async def events(call: Call) -> Response:
    """Read the log."""
    found = call.service.experiment(call.name)
    after, limit = call.number("after", 0, 0, 2**53), call.number("limit", 1000, 1, 10_000)
    lines, last = await reports.events(call.service, found, after, limit)
    return Response(lines, media_type="application/x-ndjson", headers={"X-Next-After": str(last)})


@route(
    "POST",
    "/v1/experiments/{name}/evaluations",
    "read",
    "What another way of choosing would have cost.",
    takes=Target,
    answers=((200, Evaluation),),
)
async def evaluate(call: Call) -> Response:
    """Evaluate a fixed arm or a distribution on the log."""
    return answered(Answer(200, await reports.evaluation(call.service, call.service.experiment(call.name), call.body)))


@route("GET", "/v1/experiments/{name}/export", "admin", "The learner, as umab.Learner.load reads it.")
async def export(call: Call) -> Response:
    """Export the learner."""
    try:
        text = call.service.experiment(call.name).learner.to_json(indent=None)
    except ValueError as error:
        raise conflict(f"a learner must be finite to be exported, but this one is not: {error}") from None
    await call.service.stored()  # what is shown is on disk
    return Response(text, media_type="application/json")


@route(
    "POST",
    "/v1/experiments/{name}/import",
    "admin",
    "Go on from a learner that was saved elsewhere.",
    raw=True,
    answers=((200, ShownExperiment),),
)
async def imported(call: Call) -> Response:
    """Import a learner."""
    return await _stored(call, await administration.imported(call.service, call.name, call.body))


@route(
    "DELETE",
    "/v1/experiments/{name}/metadata",
    "admin",
    "Erase the metadata of decisions made before a time; by default, all of it.",
    query={"before": {"type": "string", "format": "date-time"}},
    answers=((200, Erased),),
)
async def erase(call: Call) -> Response:
    """Erase metadata."""
    return await _stored(call, administration.erase(call.service, call.name, call.parameter("before")))


@route("POST", "/v1/keys", "admin", "Create a key; its text is shown once.", takes=NewKey, answers=((201, CreatedKey),))
async def create_key(call: Call) -> Response:
    """Create a key, which may do no more than the one that creates it."""
    if not call.body.prefix.startswith(call.key.prefix):
        raise Problem(403, f"the prefix must begin with {call.key.prefix!r} for this key, but got {call.body.prefix!r}")
    text, key = new_key(call.body.role, call.body.prefix, call.body.note, call.service.clock())
    await call.service.store([added(key)])
    call.keys.put(key)
    return answered(Answer(201, CreatedKey(text, key.id, key.role, key.prefix, key.note)))


@route("GET", "/v1/keys", "admin", "List the keys, without their secrets.", answers=((200, ShownKeys),))
async def list_keys(call: Call) -> Response:
    """List the keys that the key covers."""
    found = [key.shown() for key in call.keys.all() if key.prefix.startswith(call.key.prefix)]
    return answered(Answer(200, ShownKeys(found)))


@route("DELETE", "/v1/keys/{key}", "admin", "Revoke a key.", answers=((200, ShownKey),))
async def revoke_key(call: Call) -> Response:
    """Revoke a key."""
    identity = call.parts["key"]
    known = next((key for key in call.keys.all() if key.id == identity), None)
    if known is None or not known.prefix.startswith(call.key.prefix):
        raise not_found("a key", identity)
    key, statement = revoked(known, call.service.clock())
    await call.service.store([statement])
    call.keys.put(key)
    return answered(Answer(200, key.shown()))
