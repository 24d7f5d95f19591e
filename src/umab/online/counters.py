"""What a learner has counted for each arm, in figures that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import NamedTuple

from umab._support import checks


class Counter(NamedTuple):
    """What happened to an arm since it was added, in losses, or in rewards if the learner maximizes.

    Attributes
    ----------
    selected
        How often it was drawn.
    updates
        How often feedback arrived for it, including choices that were made without `select`.
    open
        How many of its choices are open, waiting for feedback.
    expired
        How many of its choices were closed by `expire`.
    mean, lowest, highest, latest
        Of the feedback that arrived, without what `expire` assumed; None while there is none.
    probability
        The probability with which it is drawn next.
    """

    selected: int
    updates: int
    open: int
    expired: int
    mean: float | None
    lowest: float | None
    highest: float | None
    latest: float | None
    probability: float


@dataclass(slots=True)
class Tally:
    """The counts of an arm, as they grow."""

    selected: int = 0
    updates: int = 0
    expired: int = 0
    mean: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    latest: float = 0.0

    def take_in(self, value: float) -> None:
        """Count feedback."""
        if self.updates == 0:
            self.lowest = self.highest = value
        self.updates = n = self.updates + 1
        self.mean += value / n - self.mean / n  # both are divided, because their difference could overflow
        if value < self.lowest:
            self.lowest = value
        elif value > self.highest:
            self.highest = value
        self.latest = value

    def counter(self, n_open: int, probability: float) -> Counter:
        """Return the counts in the form that users read."""
        heard = self.updates > 0
        return Counter(
            selected=self.selected,
            updates=self.updates,
            open=n_open,
            expired=self.expired,
            mean=self.mean if heard else None,
            lowest=self.lowest if heard else None,
            highest=self.highest if heard else None,
            latest=self.latest if heard else None,
            probability=probability,
        )

    def saved(self) -> list[float]:
        """Return the counts as a list, for JSON."""
        return list(_saved(self))  # `astuple` copies every value, which takes longer than the rest of a save

    @classmethod
    def of(cls, saved: Sequence[float]) -> Tally:
        """Return the counts that `saved` wrote as a list, checked."""
        selected, updates, expired = (checks.whole("a counter", each, least=0, most=2**53) for each in saved[:3])
        mean, lowest, highest, latest = (checks.finite("a counter", each) for each in saved[3:])
        return cls(selected, updates, expired, mean, lowest, highest, latest)


_saved = attrgetter(*(field.name for field in fields(Tally)))
