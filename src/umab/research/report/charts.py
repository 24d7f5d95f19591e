"""Charts as Vega-Lite specifications: one definition for the page, PNG and PDF."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from umab.research.experiments.contest import RECOMMENDED, Standings
from umab.research.experiments.pooled import Pooled
from umab.research.experiments.runner import Outcome
from umab.results.plotting import CONFIG, Curve, band, curve, curve_chart, plain, scales
from umab.results.styles import styles_of
from umab.theory.scaling import LEVEL, Scaling

_FIT = 12
"""How many letters of a label fit over a column of a heat map."""


def caption(n_trials: Iterable[int]) -> str:
    """Say what the curves and bands of a chart of regrets are, for these numbers of trials."""
    counts = sorted(set(n_trials))
    if counts == [1]:
        return "Expected regret of 1 trial"
    return f"Mean expected regret of {' or '.join(map(str, counts))} trials; bands are one standard deviation"


def regret_chart(outcome: Outcome, *, interactive: bool) -> dict[str, Any]:
    """Return the chart of mean regrets over the rounds, with bands of one standard deviation.

    Parameters
    ----------
    outcome
        What to draw.
    interactive
        True for the page: as wide as its element, with values under the pointer and names to click. False for a file.
    """
    values = [curve(name, each.result.mean, each.result.sd) for name, each in outcome.curves.items()]
    stand_in = ["stand-in data"] if outcome.stand_in else []
    names = (outcome.experiment.figure, outcome.experiment.title, outcome.setting.name, *stand_in)
    return curve_chart(
        values,
        outcome.losses.n_rounds,
        None if interactive else " · ".join(filter(None, names)),
        subtitle=caption(each.result.n_trials for each in outcome.curves.values()),
        drawn=outcome.drawn,
    )


def pooled_chart(curves: Mapping[str, Pooled], n_rounds: int, title: str | None = None) -> dict[str, Any]:
    """Return the chart of mean regrets over the rounds, with bands of one standard deviation; a file has a `title`."""
    values: list[Curve] = [
        {"policy": name, "t": each.rounds, "mean": each.mean, **band(each.mean, each.sd)}
        for name, each in curves.items()
    ]
    return curve_chart(values, n_rounds, title, subtitle=caption(each.final.n_trials for each in curves.values()))


def heat_map(values: Sequence[Heat], rows: str, columns: str, title: str | None = None) -> dict[str, object]:
    """Return a heat map of regrets as multiples of the smallest one, which is 1 and white.

    Parameters
    ----------
    values
        What to draw, row by row.
    rows, columns
        The titles of the rows and of the columns.
    title
        The title of a file; None for the page.
    """
    over = list(dict.fromkeys(each.column for each in values))
    down = list(dict.fromkeys(each.row for each in values))
    across = {"orient": "top", "labelAngle": -30 if max(map(len, over)) > _FIT else 0}
    spec: dict[str, object] = {
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
                        {"field": "said", "title": "expected regret"},
                    ],
                },
            },
            {"mark": {"type": "text", "fontSize": 12}, "encoding": {"text": {"field": "text"}}},
        ],
    }
    return spec if title is None else {**spec, "title": {"text": title, "anchor": "start"}}


class Heat(NamedTuple):
    """A field of a heat map."""

    row: str
    column: str
    multiple: float
    """The regret as a multiple of the smallest one; not a number if there is none."""
    text: str
    """The text in the field."""
    said: str
    """The text under the pointer."""

    def as_json(self) -> dict[str, object]:
        """Return the field in the form that a chart needs."""
        return {**self._asdict(), "multiple": plain(np.array([self.multiple]))[0]}


def scaling_chart(found: Sequence[Scaling]) -> dict[str, object]:
    """Return the chart of regret over what varies, on log-log axes, with standard errors and the fitted lines."""
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
                "low": max(point.mean - point.se, point.mean / 10.0),  # a logarithmic axis has no room below 0
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
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False},
        "title": found[0].over,
        "axis": {"values": sorted({point.value for each in found for point in each.points}), "labelFlush": False},
    }
    y = {"type": "quantitative", "scale": {"type": "log"}, "title": "expected regret (pseudo-regret)"}
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


def profile_chart(standings: Standings) -> dict[str, object]:
    """Return the performance profiles: on which share of the tables a policy is within a factor of the best one."""
    names = list(standings.shown)
    styles = styles_of(names)
    farthest = 20.0
    values = []
    for name in reversed(names):  # the first name is drawn last, on top
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


def table_chart(
    values: Sequence[Mapping[str, object]],
    policies: Sequence[str],
    title: str,
    axis: Mapping[str, str],
    farthest: float,
    least: float = 0.0,
) -> dict[str, object]:
    """Return the chart of one number for each table and policy: a row for each table, a point for each policy.

    Parameters
    ----------
    values
        What to draw: table, policy and a number.
    policies
        The policies, in the order of the legend.
    title
        The title.
    axis
        The key of the number in `values`, and the title of its axis.
    farthest, least
        Where the axis ends, and where it begins.
    """
    names = list(policies)
    colour, _ = scales(names, styles_of(names))
    ((field, of_axis),) = axis.items()
    return {
        "config": CONFIG,
        "width": 440,
        "height": {"step": 18},
        "title": {"text": title, "anchor": "start"},
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 50, "opacity": 0.9},
        "encoding": {
            "x": {
                "field": field,
                "type": "quantitative",
                "title": of_axis,
                "scale": {"domain": [least, farthest]},
                "axis": {"format": "%"},
            },
            "y": {"field": "table", "type": "nominal", "sort": None, "title": None, "axis": {"grid": True}},
            "color": {"field": "policy", "type": "nominal", "scale": colour, "legend": {"title": None}},
            # Policies of one family share their colour.
            "shape": {"field": "policy", "type": "nominal", "scale": {"domain": names}, "legend": {"title": None}},
        },
    }
