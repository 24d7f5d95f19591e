"""A choice, and the labels of the arms that it is made from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from umab._support import checks
from umab.engine.layout import Buffer

if TYPE_CHECKING:  # a learner without a type of its labels, as in `learner: umab.Learner`, may have any
    import typing_extensions

    L = typing_extensions.TypeVar("L", bound="Label", default=Any)
    L_co = typing_extensions.TypeVar("L_co", bound="Label", default=Any, covariant=True)
else:
    L, L_co = TypeVar("L"), TypeVar("L_co", covariant=True)

Label = str | int | float


class Choice(NamedTuple, Generic[L_co]):
    """An arm that was drawn. Pass it to `update` with its loss; all four values survive JSON, in any language.

    Attributes
    ----------
    arm
        The label of the arm.
    index
        The position of the arm.
    probability
        The probability with which the arm was drawn; needed to learn from it, now or later.
    id
        The name of this draw, which no other draw of any learner has.
    """

    arm: L_co
    index: int  # type: ignore[assignment]  # a tuple has a method of this name, which nobody needs here
    probability: float
    id: str


class Draw(NamedTuple, Generic[L_co]):
    """A choice with all that it takes to repeat its draw: what to log, and to pass to `replay`.

    All values survive JSON. A choice holds what a caller needs; a draw also holds what the learner keeps for it.

    Attributes
    ----------
    arm, index, probability, id
        The choice.
    account
        The label of the arm whose loss the policy learns. It differs from `arm` only if arms were away, see
        docs/arms.md.
    account_probability
        The probability that the policy is told.
    ticket
        What the policy keeps for this draw; None for most policies.
    time
        The time of the draw, by the learner's clock.
    coin
        The coin of the draw, 1 or 0; −1 for most policies, which have none.
    """

    arm: L_co
    index: int  # type: ignore[assignment]
    probability: float
    id: str
    account: L_co
    account_probability: float
    ticket: dict[str, object] | None
    time: float
    coin: int = -1


def checked_draw(draw: object) -> Draw:
    """Return a draw that may have come from a log."""
    if not isinstance(draw, (tuple, list)) or len(draw) not in (8, 9):  # older versions had no coin
        raise ValueError(f"a draw must have the nine values of draw_of, but got {checks.shown(draw)}")
    arm, index, probability, identity, account, account_probability, ticket, time, *coins = draw
    return Draw(
        arm,
        index,
        checks.probability("probability", probability),
        identity,
        account,
        checks.probability("account_probability", account_probability),
        ticket,
        checks.finite("time", time),
        checks.whole("coin", coins[0], least=-1, most=1) if coins else -1,
    )


Open = tuple[Choice, int | None, int | None, float, Buffer | None, float, int, int]
"""An open choice: its loss has not arrived yet.

After the choice come the index of its arm now; the arm whose loss the policy will learn, which `eligible.py` explains,
and its probability (both indices are None if the arm is gone); the ticket, if the policy has tickets; the time of the
draw, by the learner's clock; the number of the draw among all draws of this learner; and its coin, −1 if there is none.
It is a plain tuple because one is made in every round.
"""


def labels_of(arms: object) -> tuple[Label, ...]:
    """Return the labels of the arms, checked."""
    if isinstance(arms, (str, bytes, Mapping, Set)) or not (hasattr(arms, "__iter__") or hasattr(arms, "__index__")):
        hint = "; pass a list, which has an order" if isinstance(arms, (Mapping, Set)) else ""
        raise TypeError(f"arms must be a number or a sequence of labels, but got arms={checks.shown(arms)}{hint}")
    if not hasattr(arms, "__iter__"):
        return tuple(range(checks.whole("arms", arms, least=1)))
    labels = tuple(each.item() if isinstance(each, np.generic) else each for each in arms)
    if not labels:
        raise ValueError("arms must have at least one label, but got none")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int, float)):
            raise TypeError(f"the label of an arm must be a string or a number, but got {checks.shown(label)}")
        if isinstance(label, float) and not math.isfinite(label):
            raise ValueError(f"the label of an arm must be finite if it is a number, but got {label!r}")
    if len(set(labels)) < len(labels):
        twice = Counter(labels).most_common(1)[0][0]
        raise ValueError(f"the labels of arms must differ, but {twice!r} appears {labels.count(twice)} times")
    return labels


def index_by_label(labels: tuple[L, ...]) -> dict[L, int]:
    """Return the index of each arm."""
    return {label: index for index, label in enumerate(labels)}


def unknown_arm(labels: tuple[Label, ...], label: object) -> ValueError:
    """Return the error for a label that no arm has."""
    shown = ", ".join(repr(each) for each in labels[:10])
    more = f", … ({len(labels)} arms)" if len(labels) > 10 else ""
    return ValueError(f"arm must be one of {shown}{more}, but got arm={checks.shown(label)}")
