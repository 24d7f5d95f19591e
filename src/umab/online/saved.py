"""The saved form of a learner: its parts are written as JSON, and checked when they are read.

A file may come from anywhere, and compiled code trusts the sizes and indices that it is given.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import numpy as np
import numpy.typing as npt

from umab._support.checks import shown
from umab.algorithms.base import Policy
from umab.algorithms.descriptions import described, from_description
from umab.algorithms.limits import DISTRIBUTION, Limits
from umab.engine.layout import Buffer, Layout, Record, check_distribution
from umab.online.choice import Label, labels_of

FORMAT = "umab.Learner"

T = TypeVar("T")


class SavedIds(TypedDict):
    """Which ids a learner gave, and which choices of others it knows."""

    space: str
    next: int
    skipped: list[list[int]]
    absorbed: dict[str, list[list[int]]]


class SavedLearner(TypedDict):
    """A learner as JSON. In a file that may come from anywhere, this is what is expected, and every part is checked."""

    format: str
    version: int
    umab: str
    policy: Mapping[str, object]
    arms: list[Label]
    maximize: bool
    seeded: bool
    state: Mapping[str, object]
    random: Mapping[str, object]
    ids: SavedIds
    counters: list[list[float]]
    open: Mapping[str, object]
    experts: NotRequired[list[Label]]


def read_file(path: str | os.PathLike[str], read: Callable[[str], T]) -> T:
    """Return what `read` makes of the text of a file; its errors name the file."""
    try:
        return read(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"cannot load {os.fspath(path)!r}: {error}") from None


@contextlib.contextmanager
def as_written(*more: type[Exception]) -> Iterator[None]:
    """Refuse a saved learner in which something is missing or of another form, as these errors in reading it tell."""
    wrong: tuple[type[Exception], ...] = (TypeError, AttributeError, ArithmeticError, IndexError, *more)
    try:
        yield
    except KeyError as error:
        raise ValueError(f"a saved learner must be complete, but {error} is missing") from None
    except wrong as error:
        raise ValueError(f"a saved learner must be as it was written: {error}") from None


def read_text(text: str) -> dict[str, object]:
    """Return the content of a saved learner."""
    try:
        saved = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a saved learner must be complete JSON: {error}") from None
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise ValueError(f"a saved learner must be JSON with format={FORMAT!r}, but got {text[:60]!r}")
    return saved


def read_policy(about: Mapping[str, object], given: Policy | None) -> Policy:
    """Return the policy that was saved: a registered one, or `given` if it has the same parameters."""
    if given is None:
        try:
            return from_description(about)
        except ValueError as error:
            raise ValueError(
                f"{error}; if the policy is not registered, pass it: Learner.load(path, policy=...)"
            ) from None
    with contextlib.suppress(ValueError):  # it need not be registered
        known = from_description(about)
        if type(known) is not type(given):
            raise TypeError(f"policy must be the one that was saved, {about!r}, but got policy={shown(given)}")
        about = described(known)  # with the parameters of today
    saved, passed = _all_parameters(about), _all_parameters(described(given))
    if saved != passed:
        raise ValueError(f"policy must be the one that was saved, {about!r}, but got policy={shown(given)}")
    return given


def _all_parameters(about: Mapping[str, object]) -> list[object]:
    """Return the parameters in the description of a policy, and in the descriptions of the policies inside."""
    inner = about.get("inner")
    as_saved = json.loads(json.dumps(about["parameters"], default=repr))
    return [as_saved, *([] if inner is None else _all_parameters(cast("Mapping[str, object]", inner)))]


def read_labels(saved: object) -> tuple[Label, ...]:
    """Return the labels of the arms."""
    if not isinstance(saved, list):
        raise TypeError(f"arms must be a list of labels, but got {shown(saved)}")
    return labels_of(saved)


def read_state(policy: Policy, layout: Layout, state: object, n_arms: int) -> Buffer:
    """Return the buffer of a saved state."""
    record = layout.state
    if not isinstance(state, dict) or set(state) != set(record.names):
        raise ValueError(f"the state must have the fields {sorted(record.names)}, but got {shown(state)}")
    numbers = {name: _numbers(name, state[name], shape) for name, shape in record.shapes(n_arms).items()}
    lowest = 0.0 if policy.plays_each_arm_first or policy.takes_advice else 5e-324
    drawn_from = {layout.distribution: DISTRIBUTION._replace(lowest=lowest)}
    _check_limits(drawn_from | dict(policy.limits), numbers, record.fields(record.pack(policy.init(n_arms))))
    buffer = layout.sized(layout.pack(policy.parameters_for(n_arms), numbers), n_arms)
    check_distribution(policy, layout.probabilities(buffer))
    return buffer


def check_ticket(policy: Policy, record: Record, ticket: Buffer) -> None:
    """Raise if no draw of the policy has this ticket."""
    fields = record.fields(ticket)
    if not np.isfinite(ticket).all():
        raise ValueError(f"a ticket must have finite numbers, but got {shown(fields)}")
    _check_limits(policy.ticket_limits, {name: np.asarray(each) for name, each in fields.items()}, fields)


def check_tickets(policy: Policy, layout: Layout, buffer: Buffer, tickets: Sequence[Buffer | None]) -> None:
    """Raise if no run of the policy leaves this state with these tickets of open choices."""
    found = []
    if layout.ticket is not None:
        for ticket in tickets:
            if ticket is not None:
                check_ticket(policy, layout.ticket, ticket)
                found.append(layout.ticket.unpack(ticket))
    wrong = policy.fault(layout.unpack(buffer), found)
    if wrong is not None:
        raise ValueError(wrong)


def _numbers(name: str, value: object, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return the numbers of a field, checked."""
    try:
        numbers = np.asarray(value)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name} must be numbers of shape {shape}, but got {shown(value)}") from None
    if numbers.shape != shape:
        raise ValueError(f"{name} must be numbers of shape {shape}, but got shape {numbers.shape}")
    if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite numbers, but got {name}={shown(value)}")
    return numbers.astype(np.float64)


def _check_limits(
    limits: Mapping[str, Limits], numbers: Mapping[str, npt.NDArray[np.float64]], at_first: Mapping[str, Any]
) -> None:
    for name, each in limits.items():
        wrong = each.fault(name, numbers[name].ravel().tolist(), at_first[name])
        if wrong is not None:
            raise ValueError(wrong)
