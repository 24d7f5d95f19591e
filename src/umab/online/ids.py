"""Ids of choices: strings that differ between learners, processes and machines."""

from __future__ import annotations

import bisect
import re
import secrets
from collections.abc import Iterable, Sequence

PLAIN, TICKET, AMONG = "", "t", "a"
"""How an id ends: nothing, if the choice holds all that is needed to learn from it elsewhere; else what is missing, the
ticket of the policy or how the draw among some arms went."""

ENDS = (PLAIN, TICKET, AMONG)

_MOST = 10**18
"""No number of a draw is larger."""

_FORM = re.compile(r"([0-9a-f]{16})-(0|[1-9][0-9]{0,17})([ta]?)")


def new_space() -> str:
    """Return the first part of ids, which no other learner has: 64 random bits."""
    return secrets.token_hex(8)


def parsed(identity: object) -> tuple[str, int, str] | None:
    """Return the space, the number and the end of an id; None if it is not an id."""
    found = _FORM.fullmatch(identity) if isinstance(identity, str) else None
    return None if found is None else (found[1], int(found[2]), found[3])


class Numbers:
    """A set of whole numbers that grows, kept as intervals: small if there are few gaps.

    The intervals are one ascending list of edges: where one begins, where it ends, where the next begins. A number is
    in the set if it is past an odd number of edges. A change is one assignment to a part of the list, so that a signal
    finds it done or not begun.
    """

    __slots__ = ("_edges",)

    def __init__(self, intervals: Iterable[Sequence[int]] = ()) -> None:
        self._edges: list[int] = []
        for start, stop in intervals:
            last = self._edges[-1] if self._edges else -1
            if type(start) is not int or type(stop) is not int or not last < start < stop <= _MOST:
                raise ValueError(f"intervals of numbers must be ascending and apart, but got {start!r} to {stop!r}")
            self._edges += (start, stop)

    @classmethod
    def below(cls, stop: int, without: Iterable[int]) -> Numbers:
        """Return the numbers from 0 to before `stop`, without some."""
        ends = [*sorted(each for each in without if 0 <= each < stop), stop]
        starts = [0, *(each + 1 for each in ends[:-1])]
        return cls((start, end) for start, end in zip(starts, ends, strict=True) if start < end)

    def __contains__(self, number: int) -> bool:
        """Whether a number is in the set."""
        return bisect.bisect_right(self._edges, number) % 2 == 1

    def with_range(self, start: int, stop: int) -> tuple[list[int], slice, list[int]]:
        """Return what to assign to which part of the edges to add the numbers from `start` to before `stop`."""
        first, last = bisect.bisect_left(self._edges, start), bisect.bisect_right(self._edges, stop)
        new = ([start] if first % 2 == 0 else []) + ([stop] if last % 2 == 0 else [])
        return self._edges, slice(first, last), new

    def add(self, start: int, stop: int | None = None) -> None:
        """Add a number, or the numbers from `start` to before `stop`."""
        edges, part, new = self.with_range(start, start + 1 if stop is None else stop)
        edges[part] = new

    def intervals(self) -> list[list[int]]:
        """Return the intervals, for JSON."""
        return [list(each) for each in zip(self._edges[::2], self._edges[1::2], strict=True)]
