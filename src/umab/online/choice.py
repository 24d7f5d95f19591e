"""A choice, and the labels of the arms that it is made from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from umab._support import checks
from umab.engine.layout import Buffer

Label = str | int | float


class Choice(NamedTuple):
    """An arm that was drawn. Pass it to `update` with its loss; all four values survive JSON.

    Attributes
    ----------
    arm
        The label of the arm.
    index
        The position of the arm.
    probability
        The probability with which the arm was drawn; needed to learn from it, now or later.
    id
        The number of this draw.
    """

    arm: Label
    index: int  # type: ignore[assignment]  # hides a method of tuple, which nobody needs here
    probability: float
    id: int


Open = tuple[Choice, int | None, int | None, float, Buffer | None, float]
"""An open choice: its loss has not arrived yet.

Besides the choice, it holds the current index of its arm; the index of the arm whose loss the policy will learn, as
`eligible.py` explains, and its probability; its ticket, if the policy has tickets; and the time of the draw, in seconds
since 1970. An index is None if its arm is gone. It is a plain tuple because one is made in every round.
"""


def labels_of(arms: Any) -> tuple[Label, ...]:
    """Return the labels of the arms, checked."""
    if isinstance(arms, (str, bytes, Mapping, Set)) or not (hasattr(arms, "__iter__") or hasattr(arms, "__index__")):
        hint = "; pass a list, which has an order" if isinstance(arms, (Mapping, Set)) else ""
        raise TypeError(f"arms must be a number or a sequence of labels, but got arms={arms!r}{hint}")
    if not hasattr(arms, "__iter__"):
        return tuple(range(checks.whole("arms", arms, least=1)))
    labels = tuple(each.item() if isinstance(each, np.generic) else each for each in arms)
    if not labels:
        raise ValueError("arms must have at least one label, but got none")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int, float)):
            raise TypeError(f"the label of an arm must be a string or a number, but got {label!r}")
        if isinstance(label, float) and not math.isfinite(label):
            raise ValueError(f"the label of an arm must be finite if it is a number, but got {label!r}")
    if len(set(labels)) < len(labels):
        twice = next(label for at, label in enumerate(labels) if label in labels[:at])
        raise ValueError(f"the labels of arms must differ, but {twice!r} appears {labels.count(twice)} times")
    return labels


def index_by_label(labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return the index of each arm."""
    return {label: index for index, label in enumerate(labels)}


def unknown_arm(labels: tuple[Label, ...], label: Any) -> ValueError:
    """Return the error for a label that no arm has."""
    shown = ", ".join(repr(each) for each in labels[:10])
    more = f", … ({len(labels)} arms)" if len(labels) > 10 else ""
    return ValueError(f"arm must be one of {shown}{more}, but got arm={label!r}")
