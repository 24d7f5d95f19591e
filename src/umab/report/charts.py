"""Charts as Vega-Lite specifications: one definition for the page, for PNG and for PDF."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab.display import spread_out
from umab.experiments.contest import RECOMMENDED, Standings
from umab.experiments.pooled import Pooled
from umab.experiments.runner import Outcome
from umab.plotting import CONFIG, POINTS, Style, band, curve, curve_chart, plain, scales, styles_of
from umab.theory.scaling import LEVEL, Scaling

_PHASES = 10
"""Situations one after the other that have room for their names above a chart."""

_FIT = 12
"""Letters of a label that fit over a column of a heat map."""


def regret_chart(outcome: Outcome, *, interactive: bool) -> dict[str, Any]:
    """Return the chart of mean regrets over the rounds, with bands of one standard deviation.

    Parameters
    ----------
    outcome
        What to draw.
    interactive
        For the page: as wide as its place, with values under the pointer and names to click. Otherwise for a file.
    """
    values = [curve(name, each.result.mean, each.result.sd, each.role) for name, each in outcome.curves.items()]
    if interactive:
        return curve_chart(values, outcome.losses.n_rounds)
    stand_in = " · stand-in data" if outcome.stand_in else ""
    title = " · ".join(filter(None, (outcome.experiment.figure, outcome.experiment.title, outcome.setting.name)))
    return curve_chart(values, outcome.losses.n_rounds, title + stand_in)


def pooled_chart(curves: Mapping[str, Pooled], n_rounds: int, title: str | None = None) -> dict[str, Any]:
    """Return the chart of mean regrets over the rounds, with bands of two standard errors; `title` as for a file."""
    values = [
        {
            "policy": name,
            "role": "main",
            "t": each.rounds,
            "mean": each.mean,
            **band(each.mean, np.nan_to_num(2.0 * each.se)),  # a single trial has no error
        }
        for name, each in curves.items()
    ]
    return curve_chart(values, n_rounds, title)


class Total(NamedTuple):
    """What somebody has spent up to each round, and between which bounds that was."""

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
        Who spent what.
    title
        What was paid for.
    unit
        What the losses are counted in.
    styles
        How their curves are drawn, by what their names begin with.
    scale
        That of the losses: "linear", "log" or "symlog".
    situations
        The situation of every round: where it changes, there is a line, and its name stands above.
    """
    n_rounds = len(next(iter(totals.values())).mean)
    rounds = spread_out(n_rounds, POINTS)
    values = [
        {
            "policy": name,
            "role": "main",
            "t": rounds + 1,
            **{key: each[rounds] for key, each in total._asdict().items()},
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
    """Return an axis of powers of ten; it starts where all have settled, for a first loss may be next to nothing."""
    lows, highs = zip(*((each.mean[len(each.mean) // 20], each.mean[-1]) for each in totals), strict=True)
    first, last = math.floor(math.log10(min(lows))), math.ceil(math.log10(max(highs)))
    return {
        "scale": {"type": "log", "domain": [10.0**first, 10.0**last], "nice": False},
        "axis": {"values": [10.0**power for power in range(first, last + 1)], "labelExpr": "format(datum.value, '~s')"},
    }


def _decades_of_both_signs(totals: Iterable[Total]) -> dict[str, Any]:
    """Return an axis of 0 and powers of ten on both sides; left alone, a symlog axis labels one end only."""
    largest = max(float(np.abs(each).max()) for each in totals)
    last = max(1, math.floor(math.log10(max(largest, 1.0))))
    powers = [10.0**power for power in range(1, last + 1, 1 + last // 8)]
    label = "format(datum.value, abs(datum.value) < 1e12 ? '~s' : '~e')"
    return {"axis": {"values": [*(-each for each in reversed(powers)), 0.0, *powers], "labelExpr": label}}


def heat_map(values: Sequence[Heat], rows: str, columns: str, title: str | None = None) -> dict[str, Any]:
    """Return a map of regrets as multiples of the smallest one, which is 1 and white.

    Parameters
    ----------
    values
        What to draw, row by row.
    rows, columns
        What the rows and the columns are.
    title
        For a file.
    """
    over = list(dict.fromkeys(each.column for each in values))
    down = list(dict.fromkeys(each.row for each in values))
    across = {"orient": "top", "labelAngle": -30 if max(map(len, over)) > _FIT else 0}
    spec: dict[str, Any] = {
        "config": {**CONFIG, "axis": {**CONFIG["axis"], "grid": False, "labelLimit": 260}},
        "height": {"step": 26},
        "width": {"step": 90},
        "data": {"values": [each.as_json() for each in values]},
        "encoding": {
            "x": {"field": "column", "type": "nominal", "sort": over, "title": columns, "axis": across},
            "y": {"field": "row", "type": "nominal", "sort": down, "title": rows},
        },
        "layer": [
            {
                "mark": {"type": "rect", "stroke": "#dddddd", "invalid": None, "tooltip": {"content": "encoding"}},
                "encoding": {
                    "color": {
                        "condition": {"test": "!isValid(datum.multiple)", "value": "#e4e4e4"},
                        "field": "multiple",
                        "type": "quantitative",
                        "scale": {
                            "type": "log",
                            "domain": [1, 10],
                            "clamp": True,
                            "range": ["#ffffff", "#d55e00"],
                            "interpolate": "rgb",
                        },
                        "legend": None,
                    },
                    "tooltip": [
                        {"field": "row", "title": rows or "row"},
                        {"field": "column", "title": columns or "column"},
                        {"field": "said", "title": "regret"},
                    ],
                },
            },
            {"mark": {"type": "text", "fontSize": 12}, "encoding": {"text": {"field": "text"}}},
        ],
    }
    return spec if title is None else {**spec, "title": {"text": title, "anchor": "start"}}


class Heat(NamedTuple):
    """A place on a heat map."""

    row: str
    column: str
    multiple: float
    """The regret as a multiple of the smallest one; not a number where there is none."""
    text: str
    """What stands there."""
    said: str
    """What stands under the pointer."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a chart takes it."""
        return {**self._asdict(), "multiple": plain(np.array([self.multiple]))[0]}


def scaling_chart(found: Sequence[Scaling]) -> dict[str, Any]:
    """Return the chart of regrets over what varies, on log-log axes, with their errors and the fitted lines."""
    styles = styles_of([each.policy for each in found])
    names = [f"{each.policy}: {each.exponent:.2f} ({each.low:.2f} to {each.high:.2f})" for each in found]
    points, lines = [], []
    for name, each in zip(names, found, strict=True):
        rows = [point for point in each.points if point.mean > 0.0]
        points += [
            {
                "policy": name,
                "value": point.value,
                "mean": point.mean,
                "low": max(point.mean - point.se, point.mean / 10.0),  # an axis of logarithms has no room below 0
                "high": point.mean + point.se,
            }
            for point in rows
        ]
        if rows and math.isfinite(each.exponent):
            weights = [(point.mean / max(point.se, 1e-12 * point.mean)) ** 2 for point in rows]
            level = sum(
                weight * (math.log(point.mean) - each.exponent * math.log(point.value))
                for weight, point in zip(weights, rows, strict=True)
            ) / sum(weights)
            lines += [
                {"policy": name, "value": value, "mean": math.exp(level + each.exponent * math.log(value))}
                for value in (rows[0].value, rows[-1].value)
            ]
    x = {"field": "value", "type": "quantitative", "scale": {"type": "log", "nice": False}, "title": found[0].over}
    y = {"type": "quantitative", "scale": {"type": "log"}, "title": "regret"}
    scale, dash = scales(names, styles)
    legend = {"title": f"exponent, {LEVEL:.0%} interval", "labelLimit": 320}
    colour = {"field": "policy", "type": "nominal", "scale": scale, "legend": legend}
    return {
        "config": CONFIG,
        "width": 400,
        "height": 300,
        "encoding": {"x": x, "color": colour},
        "layer": [
            {
                "data": {"values": lines},
                "mark": "line",
                "encoding": {
                    "y": {**y, "field": "mean"},
                    "strokeDash": {"field": "policy", "type": "nominal", "scale": dash, "legend": legend},
                },
            },
            {
                "data": {"values": points},
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "data": {"values": points},
                "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
                "encoding": {"y": {**y, "field": "mean"}},
            },
        ],
    }


def profile_chart(standings: Standings) -> dict[str, Any]:
    """Return the performance profiles: on which share of the tables a policy is within a factor of the best one."""
    names = list(standings.shown)
    styles = styles_of(names)
    farthest = 20.0
    values = []
    for name in reversed(names):  # what is named first is drawn last, on top
        factors = standings.profile(name)
        steps = [(1.0, 0.0), *((float(f), (at + 1) / len(factors)) for at, f in enumerate(factors) if f <= farthest)]
        values += [{"policy": name, "factor": f, "share": share} for f, share in (*steps, (farthest, steps[-1][1]))]
    colour, dash = scales(names, styles)
    legend = {"title": None, "symbolType": "stroke", "symbolSize": 500, "symbolStrokeWidth": 2, "labelLimit": 260}
    return {
        "config": CONFIG,
        "width": 440,
        "height": 300,
        "title": {"text": f"{standings.half} half, {len(standings.scored)} tables", "anchor": "start"},
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "clip": True},
        "encoding": {
            "x": {
                "field": "factor",
                "type": "quantitative",
                "title": "regret as a multiple of the smallest on the table",
                "scale": {"type": "log", "domain": [1, farthest], "nice": False},
                "axis": {"values": [1, 1.5, 2, 3, 5, 10, 20]},
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": "share of the tables",
                "scale": {"domain": [0, 1]},
                "axis": {"format": "%"},
            },
            "color": {"field": "policy", "type": "nominal", "scale": colour, "legend": legend},
            "strokeDash": {"field": "policy", "type": "nominal", "scale": dash, "legend": legend},
            "strokeWidth": {"condition": {"test": f"datum.policy == '{RECOMMENDED}'", "value": 3.0}, "value": 1.5},
        },
    }
