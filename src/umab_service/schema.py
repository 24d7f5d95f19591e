"""What requests and answers look like: the types that validate them, and that the OpenAPI description is made from."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

PYTHON_END = r"(?!\n)"
"""What a pattern needs after $, which in Python also comes before a last line break."""
Name = Annotated[
    str,
    Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" + PYTHON_END, description="the name of an experiment"),
]
Arm = Annotated[str, Meta(min_length=1, max_length=200, description="the name of an arm")]
MOST_ARMS = 1000
Arms = Annotated[list[Arm], Meta(min_length=1, max_length=MOST_ARMS)]
DecisionId = Annotated[str, Meta(pattern="^[A-Za-z0-9._:~-]{1,128}$" + PYTHON_END, description="chosen by the caller")]
NO_NUL = r"^[^\u0000]*$"
"""A text that PostgreSQL can hold."""
PartKey = Annotated[str, Meta(min_length=1, max_length=128, pattern=NO_NUL, description="which part of a sum this is")]
Duration = Annotated[str, Meta(max_length=40, description="as in ISO 8601: PT30S, PT15M, P1DT12H")]
Time = Annotated[str, Meta(max_length=40, description="as in RFC 3339: 2026-01-31T12:00:00Z")]
MOST_LEVELS = 32
NOT_SO_DEEP = f"lists and objects must be nested at most {MOST_LEVELS} levels deep, but they are nested deeper"
Metadata = Annotated[
    dict[str, Any],
    Meta(description=f"anything, at most 4 KiB of JSON and {MOST_LEVELS} levels deep; it can be erased"),
]

Aggregation = Literal["first", "sum"]
Late = Literal["learn", "log"]


class _Request(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request: a field that it does not have is refused."""


class NewExperiment(_Request):
    """An experiment to create."""

    name: Name
    arms: Arms
    policy: Annotated[str, Meta(max_length=200)] = "recommended"
    maximize: bool = False
    seed: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    wait: Duration | None = None
    default_loss: float | None = None
    default_reward: float | None = None
    forget: bool = False
    aggregation: Aggregation = "first"
    late: Late = "log"


class ChangedExperiment(_Request):
    """What to change in an experiment; what is absent stays."""

    wait: Duration | UnsetType | None = UNSET
    default_loss: float | UnsetType | None = UNSET
    default_reward: float | UnsetType | None = UNSET
    forget: bool | UnsetType = UNSET
    late: Late | UnsetType = UNSET


class Settings(Struct, frozen=True):
    """The settings of an experiment, as they are stored; `wait` in seconds, the default as a loss or reward."""

    policy: str
    maximize: bool
    seed: int | None
    wait: float | None
    default: float | None
    aggregation: Aggregation
    late: Late
    archived: bool = False


class NewDecision(_Request):
    """A decision to make; with `n`, several at once, whose ids are id/0, id/1 and so on."""

    id: DecisionId | None = None
    among: Arms | None = None
    n: Annotated[int, Meta(ge=1, le=100)] | None = None
    defer: bool = False
    metadata: Metadata | None = None


class Decision(Struct):
    """A decision that was made."""

    id: str
    arm: str
    probability: float
    state: Literal["open", "deferred"]
    expires_at: datetime.datetime | None


class ShownExperiment(Struct, omit_defaults=True):
    """An experiment."""

    name: str
    arms: list[str]
    policy: str
    maximize: bool
    seed: int | None
    wait: str | None
    forget: bool
    aggregation: Aggregation
    late: Late
    state: Literal["active", "archived"]
    created_at: datetime.datetime
    open: int
    """How many of its choices wait for feedback."""
    default_loss: float | None = None
    default_reward: float | None = None


class Experiments(Struct):
    """Some experiments, in the order of their names; `next` is what to pass as `after` to get more."""

    experiments: list[ShownExperiment]
    next: str | None


class Decisions(Struct):
    """Several decisions that were made at once."""

    decisions: list[Decision]


class Feedback(_Request):
    """What came of a decision: a loss, or a reward if the experiment maximizes."""

    loss: float | None = None
    reward: float | None = None
    key: PartKey | None = None
    at: Time | None = None


class Learned(Struct):
    """What became of feedback."""

    state: Literal["learned", "accepted", "duplicate", "late"]


class Activated(Struct):
    """A decision whose wait has started."""

    id: str
    state: str
    expires_at: datetime.datetime | None


class Erased(Struct):
    """What was erased."""

    erased_before: datetime.datetime


class Operation(_Request):
    """One operation of a batch: a decision or feedback."""

    experiment: Name
    decide: NewDecision | None = None
    decision: Annotated[str, Meta(max_length=140)] | None = None
    feedback: Feedback | None = None


class Batch(_Request):
    """Operations that are done in their order; each has its own answer."""

    operations: Annotated[list[Operation], Meta(min_length=1, max_length=1000)]


class Result(Struct):
    """The answer to one operation of a batch: what it would have been on its own."""

    status: int
    body: Any


class Results(Struct):
    """The answers to a batch, in the order of its operations."""

    results: list[Result]


class Target(_Request):
    """What to evaluate on the log: one arm always, or a distribution over arms."""

    arm: Arm | None = None
    probabilities: Annotated[dict[Arm, Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=MOST_ARMS)] | None = None


class Estimate(Struct):
    """What a way of choosing costs, or gains, per round, with an interval that holds it with a confidence."""

    mean: float
    low: float | None
    high: float | None
    confidence: float
    effective_rounds: float
    doubts: list[str]


class Difference(Struct):
    """How much one way of choosing costs more than another per round, with an interval."""

    mean: float
    low: float | None
    high: float | None


class Estimates(Struct, omit_defaults=True):
    """What the log says about each arm, and about choosing at random."""

    rounds: int
    paid: float | None = None
    always: dict[str, Estimate | None] = {}
    at_random: Estimate | None = None
    best: str | None = None
    regret: Difference | None = None
    saved: Difference | None = None


class ArmReport(Struct):
    """An arm, what it was chosen with, and what came of it."""

    arm: str
    probability: float
    selected: int
    updates: int
    mean: float | None


class ChangeReport(Struct):
    """A change of the world that the policy has noticed."""

    round: int
    arm: str | None
    state: Literal["kept", "undone", "on trial"]


class Report(Struct):
    """The state of an experiment, and what its log says."""

    experiment: ShownExperiment
    arms: list[ArmReport]
    changes: list[ChangeReport]
    estimates: Estimates


class Evaluation(Struct):
    """What a way of choosing would have cost, or gained, per round."""

    rounds: int
    estimate: Estimate


class ShownKey(Struct):
    """A key, without its secret."""

    id: str
    role: Literal["read", "decide", "admin"]
    prefix: str
    note: str
    revoked: bool


class CreatedKey(Struct):
    """A key that was created, with its text, which is not shown again."""

    key: str
    id: str
    role: Literal["read", "decide", "admin"]
    prefix: str
    note: str


class ShownKeys(Struct):
    """Keys."""

    keys: list[ShownKey]


class NewKey(_Request):
    """A key to create."""

    role: Literal["read", "decide", "admin"]
    prefix: Annotated[str, Meta(max_length=128, pattern=NO_NUL)] = ""
    note: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] = ""


encoded = msgspec.json.Encoder().encode
"""Return a value as JSON."""
