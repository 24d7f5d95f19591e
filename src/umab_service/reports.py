"""What can be read from an experiment: its state, its log, and what the log says about other ways of choosing."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Literal

import msgspec

from umab import offpolicy
from umab_service import log
from umab_service.experiment import Experiment, instant
from umab_service.problems import invalid
from umab_service.schema import (
    ArmReport,
    ChangeReport,
    Difference,
    Estimate,
    Estimates,
    Evaluation,
    Report,
    Target,
    encoded,
)
from umab_service.service import Service
from umab_service.storage import READ_AT_ONCE, Storage, n_fitting

MOST_ROUNDS = 100_000
"""How many of the latest rounds of the log estimates are made from."""
MOST_PAGE = 4 << 20
"""How large the events of a page may be together, in bytes."""


async def events(service: Service, experiment: Experiment, after: int, limit: int) -> tuple[bytes, int]:
    """Return events after a number as lines of JSON, and the number of the last of them."""
    return await asyncio.to_thread(_page, service.storage, experiment.id, after, limit)


def _page(storage: Storage, experiment: int, after: int, limit: int) -> tuple[bytes, int]:
    """Return a page of events, which ends early if it becomes large; but it has at least one, if there is one."""
    rest = "FROM events WHERE experiment = ? AND seq > ? ORDER BY seq LIMIT ?"
    with storage.reader() as reader:
        sizes = reader.execute(f"SELECT length(body) {rest}", (experiment, after, limit)).fetchall()
        fitting = n_fitting((size for (size,) in sizes), MOST_PAGE)
        rows = reader.execute(f"SELECT seq, at, kind, body {rest}", (experiment, after, fitting)).fetchall()
    last = rows[-1][0] if rows else after
    lines = (
        encoded({"seq": seq, "at": instant(at), "kind": kind, "body": _public(kind, body)}) + b"\n"
        for seq, at, kind, body in rows
    )
    return b"".join(lines), last


def _public(kind: str, content: bytes) -> object:
    """Return an event without the learner in it: who knows its random numbers knows the draws to come."""
    if kind not in (log.CREATED, log.IMPORTED):
        return msgspec.Raw(content)
    body = _parts.decode(content)
    del body["learner"]
    return body


_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _rounds(storage: Storage, experiment: int) -> dict[str, list[Any]]:
    """Return arm, probability and loss of the latest decisions whose outcome is known, also a late one, as columns.

    A reward stands in the column of losses, too: estimates are the same for both.
    """
    found: dict[str, tuple[str, float, float]] = {}
    names: dict[str, str] = {}
    n_events = 0
    with storage.reader() as reader:
        rest = (
            "FROM events WHERE experiment = ? AND kind IN ('learned', 'late', 'expired') AND seq < ? "
            "ORDER BY seq DESC LIMIT ?"
        )
        before = 2**62
        while sizes := reader.execute(
            f"SELECT length(body) {rest}", (experiment, before, min(READ_AT_ONCE, MOST_ROUNDS - n_events))
        ).fetchall():
            some = experiment, before, n_fitting(size for (size,) in sizes)
            rows = reader.execute(f"SELECT seq, kind, body {rest}", some).fetchall()
            if not rows:  # they were deleted meanwhile
                break
            n_events += len(rows)
            before = rows[-1][0]
            for _, kind, content in rows:
                body = msgspec.json.decode(content)
                if "key" in body:  # a late part of a sum is no outcome
                    continue
                outcomes = body["learned"] if kind == log.EXPIRED else [(body["decision"], body["draw"], body["value"])]
                for decision, draw, value in outcomes:
                    # The latest one counts: late, but real.
                    found.setdefault(decision, (names.setdefault(draw[0], draw[0]), draw[2], value))
                    if len(found) == MOST_ROUNDS:
                        return _columns(found)
    return _columns(found)


def _columns(found: dict[str, tuple[str, float, float]]) -> dict[str, list[Any]]:
    """Return rounds in the order in which they were, each column for itself."""
    columns: list[list[Any]] = [[], [], []]
    for each in reversed(found.values()):
        for column, value in zip(columns, each, strict=True):
            column.append(value)
    return dict(zip(("arm", "probability", "loss"), columns, strict=True))


async def report(service: Service, experiment: Experiment) -> Report:
    """Return the state of an experiment, and what its log says about each arm and about choosing at random."""
    learner = experiment.learner
    arms = [
        ArmReport(str(arm), each.probability, each.selected, each.updates, each.mean)
        for arm, each in learner.counters().items()
    ]
    changes = [ChangeReport(each.round, each.arm, _STATES[each.kept]) for each in learner.changes()]
    shown, names, maximize = service.described(experiment), [each.arm for each in arms], learner.maximize
    await service.stored()  # what is shown is on disk
    estimates = await asyncio.to_thread(_estimated, service.storage, experiment.id, names, maximize)
    return Report(shown, arms, changes, estimates)


_STATES: dict[bool | None, Literal["kept", "undone", "on trial"]] = {True: "kept", False: "undone", None: "on trial"}


def _estimated(storage: Storage, experiment: int, arms: list[str], maximize: bool) -> Estimates:
    """Return the mean of what was paid, and estimates for each arm and for choosing at random."""
    rounds = _rounds(storage, experiment)
    losses = rounds["loss"]
    if not losses:
        return Estimates(0)
    paid = math.fsum(value / len(losses) for value in losses)
    always = {arm: _estimate(rounds, arm) for arm in arms}
    known = {arm: each for arm, each in always.items() if each is not None}
    best = (max if maximize else min)(known, key=lambda arm: known[arm].mean, default=None)
    at_random = _estimate(rounds, {arm: 1.0 / len(arms) for arm in arms})
    return Estimates(
        rounds=len(losses),
        paid=paid,
        always=always,
        at_random=at_random,
        best=best,
        regret=None if best is None else _difference(paid, known[best], maximize),
        saved=None if at_random is None else _difference(paid, at_random, not maximize),
    )


def _difference(paid: float, other: Estimate, maximize: bool) -> Difference:
    """Return by how much less than another way of choosing was gained, or more was lost, per round.

    What was paid is known; only the other way is estimated, so that the interval is the one of its estimate.
    """
    sign = -1.0 if maximize else 1.0
    low, high = (None if end is None else sign * (paid - end) for end in (other.low, other.high))
    return Difference(sign * (paid - other.mean) + 0.0, *((low, high) if maximize else (high, low)))


def _estimate(rounds: dict[str, list[Any]], target: object) -> Estimate | None:
    """Return an estimate with its interval; None if the log says nothing about the target."""
    try:
        return _shown(offpolicy.estimate(rounds, target))
    except ValueError:
        return None


def _shown(found: offpolicy.Estimate) -> Estimate:
    low, high = (end if math.isfinite(end) else None for end in (found.low, found.high))
    return Estimate(found.mean, low, high, found.confidence, found.n_effective, list(found.doubts))


async def evaluation(service: Service, experiment: Experiment, given: Target) -> Evaluation:
    """Return what a target would have cost per round, estimated from the log."""
    if (given.arm is None) == (given.probabilities is None):
        raise invalid("an evaluation must have exactly one of arm and probabilities")
    target: object = given.arm if given.arm is not None else given.probabilities
    try:
        return await asyncio.to_thread(_evaluated, service.storage, experiment.id, target)
    except (ValueError, TypeError) as error:
        raise invalid(str(error)) from None


def _evaluated(storage: Storage, experiment: int, target: object) -> Evaluation:
    rounds = _rounds(storage, experiment)
    if not rounds["loss"]:
        raise ValueError("an evaluation needs a log with feedback, but there is none yet")
    found = offpolicy.estimate(rounds, target)
    return Evaluation(found.n_rounds, _shown(found))
