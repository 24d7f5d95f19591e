"""Logs of choices that other learners made: what `Learner.absorb` learns from them, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from umab._support import checks
from umab.errors import AlteredChoiceError, ForeignChoiceError
from umab.online.choice import Open
from umab.online.core import Core
from umab.online.feedback import as_loss, refusal
from umab.online.ids import PLAIN, parsed
from umab.tables.logs import columns_given, rows_given

Row = tuple[Sequence[Any], object]
"""A choice, or an arm and a probability; and the feedback. What it holds is checked when it is learned from."""


class Event(NamedTuple):
    """What a row of a log teaches.

    Attributes
    ----------
    known
        The open choice of this learner that the row closes, if it is one.
    index, probability
        The arm of another learner's choice, and the probability of its draw.
    identity
        The id of that choice, if the row has it.
    value, loss
        The feedback as it is in the log, and as a loss.
    """

    known: Open | None
    index: int | None  # type: ignore[assignment]
    probability: float
    identity: str | None
    value: float
    loss: float


def foreign(core: Core, choice: Sequence[Any]) -> tuple[int, float]:
    """Return the arm and the probability of a choice that another learner made, if that is all it takes."""
    arm, _, probability, identity = choice
    place = parsed(identity)
    if place is None or place[2] != PLAIN:
        why = "has an id of another form" if place is None else "was drawn with among= or carries a ticket"
        rule = "the choice of another learner must hold all that is needed to learn from it"
        raise ForeignChoiceError(f"{rule}, but {checks.shown(tuple(choice))} {why}")
    return core.index_of(arm), checks.probability("probability", probability)


def learnable(core: Core, rows: Sequence[Row]) -> list[Event]:
    """Return what the rows of a log teach, each choice once; raise if one is refused."""
    feedback = "reward" if core.maximize else "loss"
    lowest, highest = core.policy.loss_range
    met: set[str | None] = set()
    found: list[Event] = []
    for number, (choice, value) in enumerate(rows):
        try:
            value, loss = as_loss(core.maximize, **{"loss": None, "reward": None, feedback: value})
            if not lowest <= loss <= highest:
                raise refusal(core.policy, loss, choice[0], value if core.maximize else None)
            identity = choice[3] if len(choice) == 4 else None
            if core.policy.takes_advice and identity not in core.open and not core.was_closed(identity):
                raise ForeignChoiceError(
                    f"a learner over experts must have made its choices itself, but got {checks.shown(choice)}"
                )
            if identity is None:
                arm, probability = choice
                probability = checks.probability("probability", probability)
                found.append(Event(None, core.index_of(arm), probability, None, value, loss))
            elif isinstance(identity, (list, dict)):
                raise AlteredChoiceError(f"an id must be a string, but got id={checks.shown(identity)}")
            elif identity in met:
                continue
            elif identity in core.open:
                known = core.known(choice)
                found.append(Event(known, known[1], known[3], identity, value, loss))
            elif not core.was_closed(identity):
                found.append(Event(None, *foreign(core, choice), identity, value, loss))
            met.add(identity)
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {number} of the log: {error}") from None
    return found


def rows_of(log: object, feedback: str) -> list[Row]:
    """Return the rows of a log: a choice, or an arm and a probability; and the feedback."""
    columns = columns_given(log, feedback)
    if columns is None:
        return list(rows_given(log, feedback))
    return [((arm, probability), value) for arm, probability, value in zip(*columns, strict=True)]
