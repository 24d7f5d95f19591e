"""The chart of a demonstration: what was spent up to each round."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support.display import spread_out
from umab.results.plotting import POINTS, Curve, curve_chart
from umab.results.styles import Style

_PHASES = 10
"""How many consecutive situations have room for their names above a chart."""


class Total(NamedTuple):
    """What was spent up to each round: the mean, and the bounds of the band around it."""

    mean: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def totals_chart(
    totals: Mapping[str, Total],
    title: str,
    *,
    unit: str,
    styles: Mapping[str, Style],
    scale: str = "linear",
    situations: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the chart of what was spent up to each round, for a file.

    Parameters
    ----------
    totals
        What was spent, by the name of who chose.
    title
        The title above the chart.
    unit
        The unit of the losses.
    styles
        How the curves are drawn, by the beginning of their names.
    scale
        The scale of the losses: "linear", "log" or "symlog".
    situations
        The situation of every round. A vertical line marks each change, and the name stands above.
    """
    n_rounds = len(next(iter(totals.values())).mean)
    rounds = spread_out(n_rounds, POINTS)
    values: list[Curve] = [
        {
            "policy": name,
            "t": rounds + 1,
            "mean": total.mean[rounds],
            "low": total.low[rounds],
            "high": total.high[rounds],
        }
        for name, total in totals.items()
    ]
    spec = curve_chart(values, n_rounds, title, styles)
    y: dict[str, Any] = {"title": f"total loss, {unit}", "scale": {"type": scale}}
    if scale == "log":
        y = {**y, **_decades(totals.values())}
    elif scale == "symlog":
        y = {**y, **_decades_of_both_signs(totals.values())}
    bands, lines = spec["layer"]
    flatten, data = spec.pop("transform"), spec.pop("data")  # for the curves alone, not for the names above them
    for layer in (bands, lines):
        layer |= {"data": data, "transform": flatten}
        layer["encoding"]["y"] |= y
        layer["mark"]["clip"] = True
    bands["transform"] = [*flatten, {"filter": "datum.low < datum.high"}]
    changes = [0, *(t for t in range(1, len(situations)) if situations[t] != situations[t - 1]), n_rounds]
    phases = [
        {"from": begin, "to": end, "middle": (begin + end) / 2, "situation": situations[begin]}
        for begin, end in itertools.pairwise(changes)
        if len(situations)
    ]
    if not 1 < len(phases) <= _PHASES:  # one needs no name, and many would hide the curves
        return spec
    x = {"type": "quantitative"}
    marks: list[dict[str, Any]] = [
        {
            "data": {"values": phases[1:]},
            "mark": {"type": "rule", "strokeDash": [3, 3], "strokeWidth": 1},
            "encoding": {"x": {**x, "field": "from"}, "color": {"value": "#bbbbbb"}},
        },
        {
            "data": {"values": phases},
            "mark": {"type": "text", "fontSize": 11, "dy": -7},
            "encoding": {
                "x": {**x, "field": "middle"},
                "y": {"value": 0},
                "text": {"field": "situation"},
                "color": {"value": "#444444"},
            },
        },
    ]
    spec["layer"] += marks
    spec["title"]["offset"] = 18
    return spec


def _decades(totals: Iterable[Total]) -> dict[str, Any]:
    """Return an axis of powers of ten. It starts at a later total, because the first loss may be almost 0."""
    lows, highs = zip(*((each.mean[len(each.mean) // 20], each.mean[-1]) for each in totals), strict=True)
    first, last = math.floor(math.log10(min(lows))), math.ceil(math.log10(max(highs)))
    return {
        "scale": {"type": "log", "domain": [10.0**first, 10.0**last], "nice": False},
        "axis": {"values": [10.0**power for power in range(first, last + 1)], "labelExpr": "format(datum.value, '~s')"},
    }


def _decades_of_both_signs(totals: Iterable[Total]) -> dict[str, Any]:
    """Return an axis of 0 and powers of ten on both sides; by default, a symlog axis has labels at one end only."""
    largest = max(float(np.abs(each).max()) for each in totals)
    last = max(1, math.floor(math.log10(max(largest, 1.0))))
    powers = [10.0**power for power in range(1, last + 1, 1 + last // 8)]
    label = "format(datum.value, abs(datum.value) < 1e12 ? '~s' : '~e')"
    return {"axis": {"values": [*(-each for each in reversed(powers)), 0.0, *powers], "labelExpr": label}}
