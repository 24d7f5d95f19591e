"""Requests about several experiments, which may be on several servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from starlette.responses import Response

from umab_service import decisions
from umab_service import feedback as feedbacks
from umab_service.ownership import Elsewhere
from umab_service.peers import Asked
from umab_service.problems import Problem, failure, invalid
from umab_service.routing import Call, answered
from umab_service.schema import Batch, Operation, Result, Results, ShownExperiment, encoded
from umab_service.service import Answer

T = TypeVar("T")

logger = logging.getLogger("umab_service")


async def names(call: Call, after: str, limit: int) -> list[str]:
    """Return the names of the experiments that the key covers, in their order; one more than the limit if there is."""
    if call.relay is None:
        found = sorted(name for name in call.service.experiments if name > after and call.key.may("read", name))
        return found[: limit + 1]
    rows = await call.service.storage.soon(
        "SELECT name FROM experiments WHERE name > ? AND substr(name, 1, ?) = ? AND settings IS NOT NULL "
        "ORDER BY name LIMIT ?",
        (after.partition("\0")[0], len(call.key.prefix), call.key.prefix, limit + 1),
    )
    return [name for (name,) in rows]


async def shown(call: Call, some: Sequence[str]) -> list[Any]:
    """Return experiments as answers show them, wherever they are; those that have just gone are left out."""

    async def one(name: str) -> ShownExperiment:
        call.service.check_recovered()
        found = call.service.experiments.get(name)  # also one that answers nothing at the moment
        return call.service.described(call.service.experiment(name) if found is None else found)

    return [each for each in await asyncio.gather(*(_anywhere(call, name, one) for name in some)) if each is not None]


async def _anywhere(call: Call, name: str, here: Callable[[str], Awaitable[T]]) -> T | Raw | None:
    if call.relay is None or name in call.service.experiments:
        return await here(name)

    async def response() -> Response:
        return answered(Answer(200, await here(name)))

    asked = Asked("GET", f"/v1/experiments/{name}", b"", list(call.headers), call.client, b"")
    found = await call.relay.answered(name, asked, response, relayed=call.relayed)
    return Raw(bytes(found.body)) if found.status_code == 200 else None


async def operations(call: Call, batch: Sequence[Operation]) -> list[Result]:
    """Do operations, in their order for each experiment; return their results once they are on disk."""
    if call.relay is None:
        found = [_done(call, each) for each in batch]
        await call.service.stored()
        return found
    places: dict[str, list[int]] = {}
    for number, each in enumerate(batch):
        places.setdefault(each.experiment, []).append(number)
    results: list[Any] = [None] * len(batch)

    async def group(name: str, numbers: Sequence[int]) -> None:
        some = [batch[number] for number in numbers]
        for number, result in zip(numbers, await _group(call, name, some), strict=True):
            results[number] = result

    await asyncio.gather(*(group(name, numbers) for name, numbers in places.items()))
    return results


async def _group(call: Call, name: str, some: Sequence[Operation]) -> list[Result]:
    """Do the operations on one experiment where it is."""
    assert call.relay is not None

    async def here() -> Response:
        ids = [key for each in some for key in _needed(each)]
        await call.service.load(name, ids)
        found = [_done(call, each) for each in some]
        await call.service.stored()
        return answered(Answer(200, Results(found)))

    try:
        if not call.key.may("decide", name):
            raise _not_covered(call, name)
        asked = Asked("POST", "/v1/batch", b"", list(call.headers), call.client, encoded(Batch(list(some))))
        response = await call.relay.answered(name, asked, here, relayed=call.relayed)
        if response.status_code == 200:
            return msgspec.json.decode(response.body, type=Results).results
        told = Result(response.status_code, Raw(bytes(response.body)))
    except Problem as problem:
        if call.relayed:
            raise
        told = Result(problem.status, problem.body())
    return [told] * len(some)


def _needed(operation: Operation) -> list[str]:
    if operation.decide is not None:
        return decisions.needed(operation.decide)
    return [] if operation.decision is None else [operation.decision]


def _not_covered(call: Call, name: str) -> Problem:
    return Problem(403, f"the experiment must begin with {call.key.prefix!r} for this key, but got {name!r}")


def _done(call: Call, operation: Operation) -> Result:
    """Do an operation, and return its result; a problem is a result, too."""
    try:
        if not call.key.may("decide", operation.experiment):
            raise _not_covered(call, operation.experiment)
        if (operation.decide is None) == (operation.feedback is None):
            raise invalid("an operation must have exactly one of decide and feedback")
        if operation.decide is not None:
            return Result(*decisions.decide(call.service, operation.experiment, operation.decide))
        if operation.decision is None or operation.feedback is None:
            raise invalid("an operation with feedback must say which decision it is for")
        told = feedbacks.feedback(call.service, operation.experiment, operation.decision, operation.feedback)
        return Result(*told)
    except Problem as problem:
        return Result(problem.status, problem.body())
    except Elsewhere:
        raise
    except Exception:  # it is undone, and the other operations go on
        logger.exception("an operation of a batch failed in the experiment %r", operation.experiment)
        return Result(500, failure().body())
