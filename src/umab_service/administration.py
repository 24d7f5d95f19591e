"""Experiments: created, changed, given other arms or another learner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import msgspec

import umab
from umab import Learner
from umab_service import log
from umab_service import statements as sql
from umab_service.experiment import Experiment, changed, check_size, instant, settings_of, time_of
from umab_service.problems import conflict, invalid, not_found
from umab_service.schema import MOST_ARMS, Arms, ChangedExperiment, Erased, NewExperiment, Settings, encoded
from umab_service.service import Answer, Service


def create(service: Service, given: NewExperiment) -> Answer:
    """Create an experiment, or find the same one."""
    settings = settings_of(given)
    service.check_recovered()
    if given.name in service.experiments:
        known = service.experiment(given.name)
        same = msgspec.structs.replace(known.settings, archived=False) == settings
        if not same or sorted(known.learner.arms) != sorted(given.arms):
            raise conflict(
                f"an experiment with the name {given.name!r} must not exist with other settings, but it does"
            )
        return Answer(200, service.described(known))
    learner = new_learner(service, given)
    found = Experiment(service.new_number(given.name), given.name, service.clock(), settings, learner)
    with service.changing(found):
        service.put(found)
        service.statements.append((sql.NEW_EXPERIMENT, (found.id, found.name, encoded(settings), found.created)))
        service.event(found, log.CREATED, {"settings": settings, "learner": learner.to_json(indent=None)})
    return Answer(201, service.described(found))


async def prepare(service: Service, given: NewExperiment) -> None:
    """Have the policy of a new experiment compiled, so that to create it takes no time."""
    if given.name not in service.experiments:
        try:
            await service.compile(settings_of(given).policy)
        except (ValueError, TypeError) as error:
            raise invalid(str(error)) from None


async def check_new(service: Service, given: NewExperiment) -> None:
    """Refuse what cannot be created."""
    await prepare(service, given)
    new_learner(service, given)


def new_learner(service: Service, given: NewExperiment) -> Learner:
    """Return the learner of a new experiment; refuse what cannot be created."""
    settings = settings_of(given)
    check_size(umab.policy(settings.policy), len(given.arms))
    try:
        return Learner(settings.policy, given.arms, seed=given.seed, maximize=given.maximize, clock=service.clock)
    except (ValueError, TypeError) as error:
        raise invalid(str(error)) from None


def change(service: Service, name: str, given: ChangedExperiment) -> Answer:
    """Change the settings of an experiment. Choices that are open keep the time at which their wait ends."""
    found = service.experiment(name)
    return _resettle(service, found, changed(found.settings, given))


def archive(service: Service, name: str) -> Answer:
    """Make no more decisions; feedback is still learned."""
    found = service.experiment(name)
    return _resettle(service, found, msgspec.structs.replace(found.settings, archived=True))


def _resettle(service: Service, found: Experiment, settings: Settings) -> Answer:
    if settings != found.settings:
        with service.changing(found):
            found.settings = settings
            service.statements.append((sql.SET_SETTINGS, (encoded(settings), found.id)))
            service.event(found, log.CHANGED, {"settings": settings})
    return Answer(200, service.described(found))


def add_arm(service: Service, name: str, arm: str) -> Answer:
    """Add an arm, if it is not there."""
    found = service.experiment(name)
    if arm in found.learner.arms:
        return Answer(200, service.described(found))
    if len(found.learner.arms) >= MOST_ARMS:
        raise conflict(f"an experiment must have at most {MOST_ARMS} arms, but {name!r} has as many already")
    check_size(found.learner.policy, len(found.learner.arms) + 1)
    return _set_arms(service, found, [*found.learner.arms, arm], 201)


def remove_arm(service: Service, name: str, arm: str) -> Answer:
    """Remove an arm."""
    found = service.experiment(name)
    if arm not in found.learner.arms:
        raise not_found("an arm", arm)
    if len(found.learner.arms) == 1:
        raise conflict(f"an experiment must keep at least one arm, but {arm!r} is its last")
    return _set_arms(service, found, [each for each in found.learner.arms if each != arm], 200)


def _set_arms(service: Service, found: Experiment, arms: Sequence[object], status: int) -> Answer:
    with service.changing(found):
        try:
            log.set_arms(found.learner, arms)
        except (ValueError, TypeError) as error:
            raise invalid(str(error)) from None
        service.event(found, log.ARMS, {"arms": arms})
    return Answer(status, service.described(found))


async def imported(service: Service, name: str, content: bytes) -> Answer:
    """Go on from a learner that was saved elsewhere; its open choices stay where it was."""
    service.experiment(name)  # else there is no need to read it
    try:
        async with service.one_at_a_time:
            learner = await asyncio.to_thread(_learner_in, content, service.clock)
    except UnicodeDecodeError:
        raise invalid("a learner must be JSON in UTF-8, but got other bytes") from None
    except ValueError as error:
        raise invalid(str(error)) from None
    found = service.experiment(name)  # as it is now: it may have been read from the log again, or be elsewhere
    if learner.maximize != found.settings.maximize or learner.policy.name != found.settings.policy:
        raise conflict(
            f"a learner must have policy={found.settings.policy!r} and maximize={found.settings.maximize}, but got "
            f"policy={learner.policy.name!r} and maximize={learner.maximize}"
        )
    try:
        encoded(msgspec.convert(list(learner.arms), Arms))  # half of a surrogate pair has no UTF-8
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise invalid(f"the arms of a learner must be as those of an experiment: {error}") from None
    check_size(learner.policy, len(learner.arms))
    with service.changing(found):
        found.learner = learner
        service.event(found, log.IMPORTED, {"learner": learner.to_json(indent=None)})
    return Answer(200, service.described(found))


class _Arms(msgspec.Struct):
    """How many arms a saved learner has."""

    arms: list[msgspec.Raw] = []


def _learner_in(content: bytes, clock: Callable[[], float]) -> Learner:
    """Return a learner of its own, with nothing that the service does not need."""
    text = content.decode()
    try:
        n_arms = len(msgspec.json.decode(content, type=_Arms).arms)
    except (msgspec.MsgspecError, RecursionError):
        n_arms = 0  # it is no learner, as will be said next
    if n_arms > MOST_ARMS:
        raise ValueError(f"the arms of a learner must be at most {MOST_ARMS}, but it has {n_arms}")
    saved = json.loads(Learner.from_json(text, fresh=True).to_json(indent=None))
    # Which choices of other learners it has learned from: the service has no such choices, and knows its own by their
    # rows. It would be written with every snapshot and every change of arms.
    saved["ids"]["absorbed"] = {}
    learner = Learner.from_json(json.dumps(saved), clock=clock)
    learner.warm_up()  # here, in a thread, and not later, in the event loop
    return learner


def erase(service: Service, name: str, before: str | None) -> Answer:
    """Erase what callers told about decisions made before a time; by default, all of it."""
    found = service.experiment(name)
    at = service.clock() if before is None else time_of(before)
    service.statements.append((sql.ERASE_METADATA, (found.id, at)))
    return Answer(200, Erased(instant(at)))
