"""Charts as SVG, drawn by the server. Colours are classes of the style sheet; what people wrote is escaped."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from umab_service.dashboard.words import clock, figure, percent, plain, short
from umab_service.history import Point

MOST_SERIES = 8
"""How many arms have a colour of their own; if there are more, the last colour is for the others together."""
OTHERS = "others"

_STEPS = (5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Round steps of a time axis, in seconds; beyond a day, whole numbers of days."""


Scale = Callable[[float], float]
"""Where a time, or a share, is in the picture."""


class Series(NamedTuple):
    """An arm, or all others together, at each of the times."""

    label: str
    color: int
    shares: list[float]


class Mark(NamedTuple):
    """Something that happened at some time."""

    at: float
    text: str


class Size(NamedTuple):
    """The size of a chart in units of text, which is 12 high."""

    name: str
    width: int
    height: int
    right: int
    """The room for labels."""
    letters: int
    """How long a label may be."""
    ticks: int
    """How many times the axis may have."""


SIZES = (Size("wide", 760, 300, 150, 15, 7), Size("narrow", 300, 260, 98, 8, 2))
"""One for wide screens and one for phones: text in a picture that is scaled down could not be read."""
_LEFT, _TOP, _BOTTOM = 46, 24, 24
_NOTE = 92.0
"""How long the words at a change are."""


def colors(arms: Sequence[str], points: Sequence[Point]) -> dict[str, int]:
    """Return the number of the colour of each arm: its place, or its rank if there are too many arms."""
    labels = list(dict.fromkeys([*arms, *(arm for point in points for arm in point.shares)]))
    if len(labels) > MOST_SERIES:
        total = {arm: sum(point.shares.get(arm, 0.0) for point in points) for arm in labels}
        labels = sorted(labels, key=lambda arm: -total[arm])[: MOST_SERIES - 1]
    return {arm: number for number, arm in enumerate(labels)}


def series_of(points: Sequence[Point], arms: Sequence[str]) -> list[Series]:
    """Return what to draw: arms in the order of their colours, and the others if something is missing to 1."""
    found = [
        Series(arm, color, [point.shares.get(arm, 0.0) for point in points])
        for arm, color in colors(arms, points).items()
    ]
    rest = [max(0.0, 1.0 - sum(each.shares[at] for each in found)) for at in range(len(points))]
    if any(share > 0.002 for share in rest):
        found.append(Series(OTHERS, MOST_SERIES - 1, rest))
    return found


def shares_chart(
    points: Sequence[Point], arms: Sequence[str], start: float, now: float, changes: Sequence[Mark]
) -> Markup:
    """Return the probabilities of the arms over time, one upon the other, in both sizes."""
    return Markup("").join(_shares(points, arms, start, now, changes, size) for size in SIZES)


def _shares(
    points: Sequence[Point], arms: Sequence[str], start: float, now: float, changes: Sequence[Mark], size: Size
) -> Markup:
    right, bottom = size.width - size.right, size.height - _BOTTOM
    now = max(now, start + 1.0)
    series, times = series_of(points, arms), [point.at for point in points]

    def x(at: float) -> float:
        return _LEFT + (right - _LEFT) * (min(max(at, start), now) - start) / (now - start)

    def y(share: float) -> float:
        return bottom - (bottom - _TOP) * share

    parts = [
        Markup('<svg class="chart {}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            size.name, size.width, size.height, _said(series, changes)
        )
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, right, y(share), y(share)
            )
            + Markup('<text class="tick end" x="{}" y="{:.1f}">{:.0f} %</text>').format(
                _LEFT - 6, y(share) + 4, 100 * share
            )
        )
    for at, text in time_ticks(start, now, size.ticks):
        parts.append(
            Markup('<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(x(at), bottom, bottom + 4)
            + Markup('<text class="tick middle" x="{:.1f}" y="{}">{}</text>').format(x(at), bottom + 17, text)
        )
    below = [0.0] * len(points)
    for each in series:
        above = [low + share for low, share in zip(below, each.shares, strict=True)]
        parts.append(
            Markup('<path class="area c{}" d="{}"><title>{}: {} now</title></path>').format(
                each.color,
                _area([x(at) for at in times], [y(min(1.0, share)) for share in above], [y(share) for share in below]),
                plain(each.label),
                percent(each.shares[-1]),
            )
        )
        below = above
    parts += _marks(changes, x, bottom, size)
    parts += _columns(points, series, x, bottom)
    parts += _labels(series, right, y, size)
    return Markup("").join([*parts, Markup("</svg>")])


def _said(series: Sequence[Series], changes: Sequence[Mark]) -> str:
    """Return a chart in words, for who cannot see it."""
    shares = ", ".join(f"{plain(each.label)} {percent(each.shares[-1])}" for each in series)
    return f"Probability of each arm over time. Now: {shares}. Changes noticed in this time: {len(changes)}."


def _area(xs: Sequence[float], tops: Sequence[float], bottoms: Sequence[float]) -> str:
    there = [f"{x:.1f} {y:.1f}" for x, y in zip(xs, tops, strict=True)]
    back = [f"{x:.1f} {y:.1f}" for x, y in zip(reversed(xs), reversed(bottoms), strict=True)]
    return f"M{'L'.join([*there, *back])}Z"


def _marks(changes: Sequence[Mark], x: Scale, bottom: float, size: Size) -> Iterable[Markup]:
    """Yield a line for each change, with words where there is room."""
    end = -math.inf
    for each in changes:
        at, words = x(each.at), Markup("")
        left = min(max(at - _NOTE / 2, _LEFT), size.width - size.right - _NOTE)
        if left >= end:
            words = Markup('<text class="note" x="{:.1f}" y="{}">change noticed</text>').format(left, _TOP - 10)
            end = left + _NOTE + 8.0
        yield Markup(
            '<g class="change"><line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
            '<path d="M{3:.1f} {4}h8l-4 6z"/><title>{5}</title>{6}</g>'
        ).format(at, _TOP - 2, bottom, at - 4, _TOP - 6, each.text, words)


def _columns(points: Sequence[Point], series: Sequence[Series], x: Scale, bottom: float) -> Iterable[Markup]:
    """Yield columns that nobody sees and that tell the numbers below the pointer."""
    some = range(0, len(points) - 1, max(1, math.ceil(len(points) / 24)))
    for number, after in itertools.pairwise([*some, len(points) - 1]):
        shares = ", ".join(f"{short(each.label, 24)} {percent(each.shares[number])}" for each in series)
        left, right = x(points[number].at), x(points[after].at)
        yield Markup(
            '<rect class="probe" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{} UTC: {}</title></rect>'
        ).format(left, _TOP, max(0.0, right - left), bottom - _TOP, clock(points[number].at), shares)


def _labels(series: Sequence[Series], right: float, y: Scale, size: Size) -> Iterable[Markup]:
    """Yield a label beside the end of each band, moved apart where bands are thin."""
    below, wanted = 0.0, []
    for each in series:
        wanted.append(y(below + each.shares[-1] / 2.0) + 4.0)
        below += each.shares[-1]
    places = apart(wanted[::-1], 17.0, _TOP + 10.0, size.height - _BOTTOM + 2.0)[::-1]
    for each, place in zip(series, places, strict=True):
        yield Markup(
            '<rect class="c{}" x="{}" y="{:.1f}" width="9" height="9" rx="2"/>'
            '<text class="label" x="{}" y="{:.1f}">{} <tspan class="strong">{}</tspan><title>{}</title></text>'
        ).format(
            each.color,
            right + 8,
            place - 9,
            right + 22,
            place,
            short(each.label, size.letters),
            percent(each.shares[-1]),
            plain(each.label),
        )


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places near those wanted, which are in order, a gap apart and within bounds if there is room."""
    places, least = [], low
    for each in wanted:
        places.append(max(each, least))
        least = places[-1] + gap
    most = high
    for number in reversed(range(len(places))):
        places[number] = min(places[number], most)
        most = places[number] - gap
    return places


def time_ticks(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """Return round times between two, at most so many, with what to write at them."""
    length = end - start
    step = next((each for each in _STEPS if length / each <= most), 86400 * math.ceil(length / 86400.0 / most))
    ticks = []
    for number in range(math.ceil(start / step), math.floor(end / step) + 1):
        at = datetime.datetime.fromtimestamp(number * step, datetime.UTC)
        if step >= 86400 or (length > 86400 and at.hour == at.minute == 0):
            text = f"{at.day} {at:%b}"
        else:
            text = f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"
        ticks.append((float(number * step), text))
    return ticks


def sparkline(points: Sequence[Point], arms: Sequence[str]) -> Markup:
    """Return the shares over time, small, without words."""
    if len(points) < 2:
        return Markup("")
    width, height, start = 120.0, 26.0, points[0].at
    length = max(points[-1].at - start, 1e-9)
    xs = [width * (point.at - start) / length for point in points]
    below, parts = [height] * len(points), []
    for each in series_of(points, arms):
        above = [max(0.0, low - height * share) for low, share in zip(below, each.shares, strict=True)]
        parts.append(Markup('<path class="area c{}" d="{}"/>').format(each.color, _area(xs, above, below)))
        below = above
    return Markup(
        '<svg class="spark" viewBox="0 0 120 26" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(Markup("").join(parts))


def bar(share: float, color: int) -> Markup:
    """Return a share as a bar."""
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8" rx="3"/><rect class="c{}" width="{:.1f}" height="8" rx="3"/></svg>'
    ).format(color, 100.0 * min(1.0, max(0.0, share)))


def interval(mean: float, low: float | None, high: float | None, least: float, most: float, color: int) -> Markup:
    """Return a mean with its interval on a scale that the rows of a table share."""
    length = (most - least) or 1.0

    def x(value: float) -> float:
        return 6.0 + 148.0 * (value - least) / length

    ends = [least if low is None else low, most if high is None else high]
    return Markup(
        '<svg class="interval" viewBox="0 0 160 16" aria-hidden="true">'
        '<line class="grid" x1="0" x2="160" y1="8" y2="8"/>'
        '<line class="range c{0}" x1="{1:.1f}" x2="{2:.1f}" y1="8" y2="8"/>'
        '<circle class="c{0}" cx="{3:.1f}" cy="8" r="4"/>'
        "<title>{4} ({5} to {6})</title></svg>"
    ).format(color, x(ends[0]), x(ends[1]), x(mean), figure(mean), figure(low), figure(high))
