"""Charts as Vega-Lite specifications: one definition for the page, for PNG and for PDF."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab.experiments.contest import RECOMMENDED, Standings
from umab.experiments.pooled import Pooled
from umab.experiments.runner import Curve, Outcome
from umab.results import spread_out
from umab.theory.scaling import LEVEL, Scaling

_POINTS = 320
"""Rounds of a curve that are drawn; more would make files larger and no line different to the eye."""


_FIT = 12
"""Letters of a label that fit over a column of a heat map."""


class _Style(NamedTuple):
    colour: str
    dash: tuple[int, ...] = ()


# Colours that remain apart for the colour-blind (Okabe and Ito 2008, Color universal design); the dashes keep curves
# apart in grey print too. A family has a colour, its variants have dashes.
_STYLES = {
    "centred(umab-s)": _Style("#7b3294"),
    "umab-s": _Style("#7b3294", (7, 2)),
    "umab-g-a": _Style("#d55e00"),
    "umab-g": _Style("#e69f00", (7, 2)),
    "umab-g-none": _Style("#000000", (2, 2)),
    "umab-g-anytime": _Style("#d55e00", (9, 2, 2, 2)),
    "umab-nn": _Style("#000000"),
    "sf-mab-a": _Style("#0072b2"),
    "sf-mab": _Style("#56b4e9", (7, 2)),
    "ahb": _Style("#009e73"),
    "banker-omd": _Style("#cc79a7", (9, 2, 2, 2)),
    "scb": _Style("#8c510a"),
    "scb-ix": _Style("#8c510a", (5, 2)),
    "adahedge": _Style("#555555", (5, 2, 1, 2)),
    "solo-ftrl": _Style("#555555", (1, 1)),
    "uniform": _Style("#999999", (2, 3)),
}
_MORE = tuple(
    _Style(colour, dash)
    for dash in ((4, 4), (8, 3, 2, 3), (1, 2))
    for colour in ("#b2182b", "#01665e", "#a6611a", "#444444")
)


def regret_chart(outcome: Outcome, *, interactive: bool) -> dict[str, Any]:
    """Return the chart of mean regrets over the rounds, with bands of one standard deviation.

    Parameters
    ----------
    outcome
        What to draw.
    interactive
        For the page: as wide as its place, with values under the pointer and names to click. Otherwise for a file.
    """
    rounds = spread_out(outcome.losses.n_rounds, _POINTS)
    values = [_values(name, curve, rounds) for name, curve in outcome.curves.items()]
    if interactive:
        return _curves(values, outcome.losses.n_rounds)
    stand_in = " · stand-in data" if outcome.stand_in else ""
    title = " · ".join(filter(None, (outcome.experiment.figure, outcome.experiment.title, outcome.setting.name)))
    return _curves(values, outcome.losses.n_rounds, title + stand_in)


def pooled_chart(curves: Mapping[str, Pooled], n_rounds: int, title: str | None = None) -> dict[str, Any]:
    """Return the chart of mean regrets over the rounds, with bands of two standard errors; `title` as for a file."""
    values = [
        {
            "policy": name,
            "role": "main",
            "t": each.rounds,
            "mean": each.mean,
            **_band(each.mean, np.nan_to_num(2.0 * each.se)),  # a single trial has no error
        }
        for name, each in curves.items()
    ]
    return _curves(values, n_rounds, title)


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
        "config": {**_CONFIG, "axis": {**_CONFIG["axis"], "grid": False, "labelLimit": 260}},
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
        return {**self._asdict(), "multiple": _plain(np.array([self.multiple]))[0]}


def _curves(values: list[dict[str, Any]], n_rounds: int, title: str | None = None) -> dict[str, Any]:
    """Return a chart of curves with bands: for a file if it has a title, else for the page."""
    interactive = title is None
    names = [each["policy"] for each in values]
    styles = _styles(names)
    values = values[::-1]  # so that what is named first is drawn last, on top
    largest = max(float(np.abs(each["mean"][np.isfinite(each["mean"])]).max(initial=0.0)) for each in values)
    # By expression: the format of an axis has one prefix for all its labels, 0k among them.
    label = f"format(datum.value, '{'~s' if 1e3 <= largest < 1e12 else '~g'}')"
    colour, dash = _scales(names, styles)
    legend = {
        "title": None,
        "symbolType": "stroke",
        "symbolSize": 500,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
        "labelLimit": 220,
    }
    legend |= {"orient": "bottom", "columns": 4, "labelFontSize": 12} if interactive else {"orient": "right"}
    encoding = {
        "x": {
            "field": "t",
            "type": "quantitative",
            "title": "round t",
            "axis": {"tickMinStep": 1, "labelOverlap": "greedy"},
            "scale": {"domain": [0, n_rounds], "nice": False},
        },
        "color": {"field": "policy", "type": "nominal", "scale": colour, "legend": legend},
    }
    y = {"type": "quantitative", "title": "regret", "axis": {"labelExpr": label}}
    bands: dict[str, Any] = {
        "mark": {"type": "area", "fillOpacity": 0.1, "opacity": 1},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
    }
    lines: dict[str, Any] = {
        "mark": {"type": "line", "point": n_rounds == 1},
        "encoding": {
            "y": {**y, "field": "mean"},
            "strokeDash": {"field": "policy", "type": "nominal", "scale": dash, "legend": legend},
            "strokeWidth": {"condition": {"test": "datum.role == 'main'", "value": 2.0}, "value": 1.2},
        },
    }
    layers: list[dict[str, Any]] = [bands, lines]
    spec: dict[str, Any] = {
        "config": _CONFIG,
        "height": 300,
        "data": {"values": [{key: _plain(value) for key, value in each.items()} for each in values]},
        "transform": [{"flatten": ["t", "mean", "low", "high"]}],
        "encoding": encoding,
        "layer": layers,
    }
    if not interactive:
        return {**spec, "width": 440, "title": {"text": title, "anchor": "start"}}
    picked = {"name": "picked", "select": {"type": "point", "fields": ["policy"], "toggle": "true"}, "bind": "legend"}
    lines["params"] = [picked]
    for layer in layers:
        layer["transform"] = [{"filter": {"param": "picked", "empty": True}}]
    layers.append(_readings(names))
    return {**spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}


def scaling_chart(found: Sequence[Scaling]) -> dict[str, Any]:
    """Return the chart of regrets over what varies, on log-log axes, with their errors and the fitted lines."""
    styles = _styles([each.policy for each in found])
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
    scale, dash = _scales(names, styles)
    legend = {"title": f"exponent, {LEVEL:.0%} interval", "labelLimit": 320}
    colour = {"field": "policy", "type": "nominal", "scale": scale, "legend": legend}
    return {
        "config": _CONFIG,
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
    styles = _styles(names)
    farthest = 20.0
    values = []
    for name in reversed(names):  # what is named first is drawn last, on top
        factors = standings.profile(name)
        steps = [(1.0, 0.0), *((float(f), (at + 1) / len(factors)) for at, f in enumerate(factors) if f <= farthest)]
        values += [{"policy": name, "factor": f, "share": share} for f, share in (*steps, (farthest, steps[-1][1]))]
    colour, dash = _scales(names, styles)
    legend = {"title": None, "symbolType": "stroke", "symbolSize": 500, "symbolStrokeWidth": 2, "labelLimit": 260}
    return {
        "config": _CONFIG,
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


def _readings(names: list[str]) -> dict[str, Any]:
    """Return the layer that shows all regrets at the round under the pointer."""
    return {
        "transform": [
            {"pivot": "policy", "value": "mean", "groupby": ["t"]},
        ],
        "params": [
            {
                "name": "pointed",
                "select": {
                    "type": "point",
                    "fields": ["t"],
                    "nearest": True,
                    "on": "pointerover",
                    "clear": "pointerout",
                },
            }
        ],
        "mark": {"type": "rule", "color": "#555", "strokeWidth": 1, "tooltip": {"content": "encoding"}},
        "encoding": {
            "color": {"value": "#555"},
            "opacity": {"condition": {"param": "pointed", "empty": False, "value": 0.6}, "value": 0.0},
            "tooltip": [
                {"field": "t", "type": "quantitative", "title": "round"},
                # A dot or a bracket in a name would be read as a path into the datum.
                *({"field": _escaped(name), "type": "quantitative", "title": name, "format": ".5~g"} for name in names),
            ],
        },
    }


def _escaped(name: str) -> str:
    return "".join(f"\\{letter}" if letter in ".[]'\"" else letter for letter in name)


def _values(name: str, curve: Curve, rounds: npt.NDArray[np.intp]) -> dict[str, Any]:
    mean, sd = curve.result.mean[rounds], curve.result.sd[rounds]
    band = np.where(np.isnan(sd) | (curve.role == "extra"), 0.0, sd)  # nor has a single trial
    return {"policy": name, "role": curve.role, "t": rounds + 1, "mean": mean, **_band(mean, band)}


def _band(mean: npt.NDArray[np.float64], width: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
    with np.errstate(over="ignore", invalid="ignore"):
        return {"low": mean - width, "high": mean + width}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; five digits are more than a line shows, and what is not finite is a gap in it."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return value.tolist()
    return [float(f"{number:.5g}") if math.isfinite(number) else None for number in value]


def _styles(names: list[str]) -> list[_Style]:
    """Return a style for each name, its own if it has one and if no name before it has taken that."""
    chosen: list[_Style] = []
    free = iter(_MORE * (len(names) // len(_MORE) + 1))
    for name in names:
        own = _STYLES.get(name.partition(", ")[0])  # the best of a grid, too, has the colour of its family
        chosen.append(own if own and own not in chosen else next(free))
    return chosen


def _scales(names: list[str], styles: list[_Style]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return which colour and which dash belongs to which name, as a chart takes them."""
    colours = {"domain": names, "range": [style.colour for style in styles]}
    return colours, {"domain": names, "range": [list(style.dash) or [1, 0] for style in styles]}


_CONFIG: dict[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "axis": {
        "grid": True,
        "gridColor": "#eeeeee",
        "domainColor": "#444",
        "tickColor": "#444",
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
    },
    "legend": {"labelFontSize": 12},
    "title": {"fontSize": 13, "fontWeight": "normal"},
    "view": {"stroke": "#444"},
}
