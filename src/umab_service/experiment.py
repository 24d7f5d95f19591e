"""An experiment in memory: a learner and its settings. Everything else about it is in the database."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, overload

from msgspec import UNSET

import umab
from umab import Learner, Policy
from umab_service.durations import seconds_of
from umab_service.problems import invalid
from umab_service.schema import ChangedExperiment, NewExperiment, Settings

MOST_VALUES = 210_000
"""How many numbers the state of a learner may have: with the longest names, it can be exported and imported then."""


@dataclass
class Experiment:
    """An experiment and what is known about it without asking the database."""

    id: int
    name: str
    created: float
    settings: Settings
    learner: Learner
    seq: int = 0
    """The number of its last event."""
    snapshot_at: int = 0
    """The number of the event after which the last snapshot was made."""
    n_open: int = 0
    failed: bool = False
    """Whether a change to it has failed in its middle, so that it is being read from the log again."""
    read_at: float = -math.inf
    """When it was read from the log again after such a failure, by the loop's clock."""
    token: int = field(default_factory=itertools.count().__next__)
    """Another one whenever it is read from the log: what is in memory about it belongs to it as it was read then."""

    @property
    def n_since(self) -> int:
        """How many events came after the last snapshot."""
        return self.seq - self.snapshot_at


class Part(NamedTuple):
    """A part of a sum."""

    value: float
    late: bool
    """Whether it came after the wait, so that it was not learned."""


@dataclass(slots=True)
class Row:
    """A decision as the database has it, or will have it once what is on its way is committed."""

    experiment: Experiment
    id: str
    made: float
    request: bytes
    answer: bytes
    draw: bytes
    state: str
    due: float | None
    value: float | None = None
    parts: dict[str, Part] | None = None
    """The parts of its sum, once they were asked for."""
    pending: int = 0
    """How many jobs that change it are not committed yet."""
    touched: int = 0
    """The number of the last change to it, among all changes since the start."""


def check_size(policy: Policy, n_arms: int) -> None:
    """Refuse a learner whose state is so large that its export could not be imported, and would stall the others."""
    one, two = (_n_values(policy.init(n)) for n in (1, 2))
    for_each = two - one
    if one + (n_arms - 1) * for_each > MOST_VALUES:
        fitting = (MOST_VALUES - one) // for_each + 1
        raise invalid(
            f"the state of a learner must have at most {MOST_VALUES} values, but that of {policy.name} for {n_arms} "
            f"arms has {one + (n_arms - 1) * for_each}; take at most {fitting} arms, or a policy with a smaller state"
        )


def _n_values(state: object) -> int:
    """Return how many numbers a state has, in the vectors and states in it, too."""
    return sum(map(_n_values, state)) if isinstance(state, Iterable) else 1


def settings_of(given: NewExperiment) -> Settings:
    """Return the settings of a new experiment, checked."""
    try:
        policy = umab.policy(given.policy)
    except (ValueError, TypeError) as error:
        raise invalid(str(error)) from None
    if policy.full_information or policy.needs_horizon:
        raise invalid(f"policy must learn from one arm per round and need no horizon, but got policy={given.policy!r}")
    return checked(
        policy=policy.name,
        maximize=given.maximize,
        seed=given.seed,
        wait=given.wait,
        default_loss=given.default_loss,
        default_reward=given.default_reward,
        forget=given.forget,
        aggregation=given.aggregation,
        late=given.late,
    )


def changed(settings: Settings, given: ChangedExperiment) -> Settings:
    """Return settings with some changed, checked as a whole."""
    found: dict[str, Any] = {
        "wait": settings.wait,
        "default_loss": None if settings.maximize else settings.default,
        "default_reward": settings.default if settings.maximize else None,
        "forget": settings.wait is not None and settings.default is None,
        "late": settings.late,
    }
    asked = {name: getattr(given, name) for name in found if getattr(given, name) is not UNSET}
    if asked.get("forget"):
        found |= {"default_loss": None, "default_reward": None}
    if asked.get("default_loss") is not None or asked.get("default_reward") is not None:
        found["forget"] = False
    if "wait" in asked and asked["wait"] is None:
        found |= {"default_loss": None, "default_reward": None, "forget": False}
    return checked(
        policy=settings.policy,
        maximize=settings.maximize,
        seed=settings.seed,
        aggregation=settings.aggregation,
        archived=settings.archived,
        **(found | asked),
    )


def checked(
    *,
    policy: str,
    maximize: bool,
    seed: int | None,
    wait: str | float | None,
    default_loss: float | None,
    default_reward: float | None,
    forget: bool,
    aggregation: Literal["first", "sum"],
    late: Literal["learn", "log"],
    archived: bool = False,
) -> Settings:
    """Return settings, if they fit together."""
    try:
        seconds = seconds_of(wait) if isinstance(wait, str) else wait
    except ValueError as error:
        raise invalid(f"wait: {error}") from None
    unit, other = ("default_reward", "default_loss") if maximize else ("default_loss", "default_reward")
    default, wrong = (default_reward, default_loss) if maximize else (default_loss, default_reward)
    if wrong is not None:
        raise invalid(f"an experiment with maximize={str(maximize).lower()} takes {unit}, but got {other}={wrong!r}")
    if default is not None and not math.isfinite(default):
        raise invalid(f"{unit} must be finite, but got {default!r}")
    if seconds is None and (forget or default is not None or aggregation == "sum"):
        raise invalid("wait must be given with a default, forget or aggregation=sum: they happen when the wait ends")
    if seconds is not None and forget == (default is not None) and aggregation == "first":
        raise invalid(f"with wait, exactly one of {unit} and forget=true must be given: it says what silence means")
    if seconds is not None and forget and default is not None:
        raise invalid(f"at most one of {unit} and forget=true must be given")
    if late == "learn" and (default is not None or seconds is None):
        got = "no wait" if seconds is None else f"{unit}={default!r}"
        raise invalid(f"late=learn must come with forget=true, since a choice is learned from once, but got {got}")
    refusal = None if default is None else umab.policy(policy).refusal(-default if maximize else default, unit)
    if refusal:
        raise invalid(refusal)
    return Settings(policy, maximize, seed, seconds, default, aggregation, late, archived)


@overload
def instant(at: float) -> datetime.datetime: ...


@overload
def instant(at: float | None) -> datetime.datetime | None: ...


def instant(at: float | None) -> datetime.datetime | None:
    """Return a time that JSON holds as RFC 3339 wants it, in UTC."""
    return None if at is None else datetime.datetime.fromtimestamp(at, datetime.UTC)


def time_of(text: str) -> float:
    """Return the time in a text of RFC 3339."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"a time must be like 2026-01-31T12:00:00Z, but got {text!r:.60}") from None
    if found.tzinfo is None:
        raise invalid(f"a time must say its zone, as in 2026-01-31T12:00:00Z, but got {text!r}")
    at = found.timestamp()
    try:
        instant(at)
    except (ValueError, OverflowError):
        raise invalid(f"a time must be in the years 1 to 9999 in UTC, but got {text!r}") from None
    return at
