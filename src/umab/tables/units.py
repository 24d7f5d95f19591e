"""What a round is, if the times of the rounds say so: an hour, a day, a month."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import TypeAlias, cast

import numpy as np

Time: TypeAlias = str | date | time
"""A time of a round: a text, a date or a datetime; a time of day without a date is the time of no round."""

_DAY = 86400.0

UNITS = {
    "second": (1.0, 1.0),
    "minute": (60.0, 60.0),
    "hour": (3600.0, 3600.0),
    "day": (_DAY, _DAY),
    "week": (7 * _DAY, 7 * _DAY),
    "month": (28 * _DAY, 31 * _DAY),
    "year": (365 * _DAY, 366 * _DAY),
}
"""The shortest and the longest step from one to the next, in seconds."""

_MOST = 0.75
"""The least share of steps that are one unit: the days of a working week have one long step in five."""

_SHORTER = 0.01
"""The largest share of steps that may be shorter: the end of summer time repeats an hour."""

_WRITTEN = re.compile(r"(\d+)[./-](\d+)[./-](\d+)(?:[ T](\d+):(\d+)(?::(\d+)(?:\.\d+)?)?)?")
"""Dates as `umab.tables.cells.is_date` knows them."""


def unit_of(times: Sequence[Time]) -> str | None:
    """Return what each round is, such as "hour", from the times of all rounds in their order; None if they do not say.

    Times are texts, dates or datetimes. Where a text may have the day or the month first, the order that gives a unit
    counts.

    Examples
    --------
    >>> from umab.tables.units import unit_of
    >>> unit_of(["2026-01-31", "2026-02-01", "2026-02-02"]), unit_of(["1.1.2026", "1.2.2026", "1.3.2026"])
    ('day', 'month')
    """
    for moment in (_iso, _day_first, _month_first):
        found = _unit(times, moment)
        if found:
            return found
    return None


def _unit(times: Sequence[Time], moment: Callable[[Time], datetime]) -> str | None:
    try:
        moments = [moment(each) for each in times]
        gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(moments)]
    except (ValueError, TypeError):  # no such date, or some with a time zone and some without
        return None
    steps = np.array(gaps)
    for unit, (shortest, longest) in UNITS.items():
        fits = (steps >= shortest) & (steps <= longest)
        if len(steps) and fits.mean() >= _MOST and (steps < shortest).mean() <= _SHORTER:
            four_weeks = unit == "month" and (steps[fits] == shortest).mean() > 0.5
            return None if four_weeks else unit
    return None


def _iso(when: Time) -> datetime:
    if isinstance(when, datetime):
        return when
    if isinstance(when, date):
        return datetime.combine(when, time())
    return datetime.fromisoformat(cast(str, when))


def _day_first(when: Time) -> datetime:
    return _written(when, day_first=True)


def _month_first(when: Time) -> datetime:
    return _written(when, day_first=False)


def _written(when: Time, *, day_first: bool) -> datetime:
    match = _WRITTEN.fullmatch(cast(str, when))
    if match is None:
        raise ValueError
    first, second, third, hour, minute, second_of_minute = (int(part or 0) for part in match.groups())
    if len(match[1]) == 4:
        year, month, day = first, second, third
    else:
        year, month, day = third, *((second, first) if day_first else (first, second))
    return datetime(year, month, day, hour, minute, second_of_minute)
