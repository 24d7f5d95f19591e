"""Charts of regret over the rounds, as Vega-Lite specifications, that show themselves and save themselves."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from umab._support.display import regret_named, spread_out
from umab._support.extras import extra
from umab._support.files import write_atomically
from umab.results.styles import Style, styles_of

_DOTS_AN_INCH = 216.0

_LETTER = 8.0
"""How wide a digit on an axis is at most, in whichever font a browser has."""

_FEWEST = 0.63
"""Vega takes a round number as the step between ticks, which may be as small as 2/√10 of the step asked for."""

POINTS = 320
"""How many rounds of a curve are drawn; more would make files larger without a visible difference."""


class Band(TypedDict):
    """A band around a mean."""

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Curve(Band):
    """A mean over the rounds, with its band."""

    policy: str
    t: npt.NDArray[np.int64]
    mean: npt.NDArray[np.float64]


class Scale(TypedDict):
    """What stands for the names of curves, in their order."""

    domain: list[str]
    range: Sequence[object]


class Chart:
    """A chart, which a notebook shows if it is the last value of a cell.

    Attributes
    ----------
    spec
        Its Vega-Lite specification.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec

    @functools.cached_property
    def svg(self) -> str:
        """The chart as SVG."""
        drawing: str = _vl_convert().vegalite_to_svg(self.spec)
        return drawing

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chart to a file that ends in .svg, .png or .pdf."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        if ending == ".svg":
            content = self.svg.encode()
        elif ending == ".png":
            content = _vl_convert().svg_to_png(self.svg, ppi=_DOTS_AN_INCH)
        elif ending == ".pdf":
            content = _vl_convert().svg_to_pdf(self.svg)
        else:
            raise ValueError(f"the path of a chart must end in .svg, .png or .pdf, but got {os.fspath(path)!r}")
        write_atomically(path, content)

    def __repr__(self) -> str:
        """Say how to see it."""
        return "Chart; a notebook shows it, and save('chart.svg') writes it to a file"


def _vl_convert() -> ModuleType:
    with extra("report", "drawing a chart"):
        import vl_convert
    return vl_convert


def curve(name: str, mean: npt.NDArray[np.float64], sd: npt.NDArray[np.float64]) -> Curve:
    """Return a mean over the rounds with a band of one standard deviation, for `curve_chart`."""
    rounds = spread_out(len(mean), POINTS)
    mean, sd = mean[rounds], sd[rounds]
    return {"policy": name, "t": rounds + 1, "mean": mean, **band(mean, sd)}


def curve_chart(
    values: Sequence[Curve],
    n_rounds: int,
    title: str | None = None,
    own: Mapping[str, Style] | None = None,
    *,
    subtitle: str = "",
    drawn: Collection[str] | None = None,
    regret: str = regret_named("expected"),
) -> dict[str, Any]:
    """Return a chart of curves with bands.

    Parameters
    ----------
    values
        The curves, in the order of the legend.
    n_rounds
        Where the axis of the rounds ends.
    title, subtitle
        Of a file. Without a title, the chart is for a page: as wide as its element, with values under the pointer and
        the parameter `picked`, the names of the curves to draw, for check boxes beside it instead of a legend.
    own
        Styles for curves that do not belong to policies, by the beginning of their names.
    drawn
        The names of the curves to draw; None for all. A page can switch on the others, and a file does not have them.
    regret
        Which regret it is, for the axis.
    """
    interactive = title is None
    names = [each["policy"] for each in values]
    styled = dict(zip(names, styles_of(names, own), strict=True))  # the same on a page and in a file
    switched_on = names if drawn is None else [name for name in names if name in drawn]
    if not interactive:
        names, values = switched_on, [each for each in values if each["policy"] in switched_on]
    styles = [styled[name] for name in names]
    values = values[::-1]  # so that the first name is drawn last, on top
    largest = max(float(np.abs(each["mean"][np.isfinite(each["mean"])]).max(initial=0.0)) for each in values)
    # An expression, because the format of an axis uses one prefix for all labels, even 0k.
    label = f"format(datum.value, '{'~s' if 1e3 <= largest < 1e12 else '~g'}')"
    colour, dash = scales(names, styles)
    legend = {
        "title": None,
        "symbolType": "stroke",
        "symbolSize": 500,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
        "labelLimit": 220,
        "orient": "right",
    }
    encoding: dict[str, dict[str, object]] = {
        "x": {
            "field": "t",
            "type": "quantitative",
            "title": "round t",
            "axis": _axis_of_rounds(n_rounds),
            "scale": {"domain": [0, n_rounds], "nice": False},
        },
        "color": {"field": "policy", "type": "nominal", "scale": colour, "legend": None if interactive else legend},
    }
    y = {"type": "quantitative", "title": regret, "axis": {"labelExpr": label}}
    bands: dict[str, object] = {
        "mark": {"type": "area", "fillOpacity": 0.1, "opacity": 1},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
    }
    lines: dict[str, object] = {
        "mark": {"type": "line", "point": n_rounds == 1, "strokeWidth": 2},
        "encoding": {
            "y": {**y, "field": "mean"},
            "strokeDash": {**encoding["color"], "scale": dash},
        },
    }
    layers: list[dict[str, object]] = [bands, lines]
    spec: dict[str, object] = {
        "config": CONFIG,
        "height": 300,
        "data": {"values": [{key: plain(value) for key, value in each.items()} for each in values]},
        "transform": [{"flatten": ["t", "mean", "low", "high"]}],
        "encoding": encoding,
        "layer": layers,
    }
    if not interactive:
        # A browser's font may be wider than the one used to lay out the legend.
        padding = {"left": 5, "top": 5, "bottom": 5, "right": 40}
        heading = {"text": title, "subtitle": subtitle, "anchor": "start"}
        return {**spec, "width": 440, "title": heading, "padding": padding}
    for layer in layers:
        layer["transform"] = [{"filter": "indexof(picked, datum.policy) >= 0"}]
    layers.append(_readings(names))
    picked = {"name": "picked", "value": switched_on}
    return {**spec, "params": [picked], "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}


def _axis_of_rounds(n_rounds: int) -> dict[str, object]:
    """Return an axis with so few ticks that every one has room for its label, at any width of the chart.

    A chart would otherwise hide labels that are close to others: of 1,000, 1,100 and 1,200, all but the second.
    """
    room = _LETTER * (len(f"{n_rounds:,}") + 2)
    count = {"expr": f"max(1, floor({_FEWEST} * width / {room}))"}
    return {"tickMinStep": 1, "tickCount": count, "labelOverlap": False, "labelFlush": False}


def _readings(names: list[str]) -> dict[str, object]:
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


def band(mean: npt.NDArray[np.float64], width: npt.NDArray[np.float64]) -> Band:
    """Return a band around a mean, with a gap where it overflows; without a width, which is nan, there is none."""
    width = np.where(np.isnan(width), 0.0, width)
    with np.errstate(over="ignore", invalid="ignore"):
        return {"low": mean - width, "high": mean + width}


def plain(value: Any) -> Any:
    """Return a value for JSON: five digits are more than a line shows, and a number that is not finite is a gap."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return value.tolist()
    return [float(f"{number:.5g}") if math.isfinite(number) else None for number in value]


def scales(names: list[str], styles: list[Style]) -> tuple[Scale, Scale]:
    """Return the colour and the dash of each name, in the form that a chart takes."""
    colours: Scale = {"domain": names, "range": [style.colour for style in styles]}
    dashes: Scale = {"domain": names, "range": [list(style.dash) or [1, 0] for style in styles]}
    return colours, dashes


CONFIG: dict[str, Any] = {
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
    "title": {"fontSize": 13, "fontWeight": "normal", "subtitleFontSize": 12, "subtitleColor": "#5b5b5b"},
    "view": {"stroke": "#444"},
}
