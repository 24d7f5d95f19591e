"""What a demonstration consists of, and the record that a run leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from umab import Losses

Context = TypeVar("Context")


@dataclass(frozen=True)
class Record:
    """What was measured, and what the learner chose."""

    losses: Losses
    """The cost of every arm in every round."""
    situations: tuple[str, ...]
    """The situation of every round."""
    choices: tuple[str, ...]
    """The arm that the learner chose in every round."""
    about: dict[str, Any]
    """The seed, the learner's policy, the machine, the day, and the seconds that the run took."""

    @property
    def in_situation(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Which rounds belong to each situation."""
        return {name: np.array(self.situations) == name for name in dict.fromkeys(self.situations)}


def _nothing(record: Record) -> str:
    return ""


@dataclass(frozen=True)
class Demonstration(Generic[Context]):
    """Some work that can be done in several ways, over and over."""

    name: str
    """The stem of its files, such as sat-solvers. The module is then examples.sat_solvers."""
    title: str
    unit: str
    """The unit of the losses, in the plural: milliseconds."""
    arms: tuple[str, ...]
    n_rounds: int
    prepare: Callable[[int], Context]
    """Takes a seed; returns whatever measuring needs. If that has a method `close`, it is called at the end."""
    measure: Callable[[Context, int, str], float]
    """Takes the context, the round (from 0) and the arm; really does the work, and returns the loss."""
    situation: Callable[[Context, int], str]
    """Takes the context and the round; returns the name of the situation that the round belongs to."""
    about: str
    """What the work, the arms and the loss are; Markdown, for readers who know nothing about bandits."""
    remarks: Callable[[Record], str] = _nothing
    """Further remarks that follow from the record; Markdown."""
    scale: str = "linear"
    """The scale of the losses on the chart: "linear", "log" or "symlog"."""

    @property
    def module(self) -> str:
        """The module that `python -m` runs."""
        return f"examples.{self.name.replace('-', '_')}"
