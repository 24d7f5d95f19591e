"""Alert rules for Prometheus, a dashboard for Grafana, and the alerts that `docs/serve/operations.md` lists.

`python -m pages.deploy deploy docs` writes them from `pages/deploy_words.py`. An expression with a metric that no
server has is refused: a metric that is renamed in the server must be renamed there.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pages import service
from pages.deploy_words import ALERTS, ROWS, Panel
from umab._support.files import write_atomically

RULES, DASHBOARD, PAGE = "prometheus/alerts.yml", "grafana/umab.json", "serve/operations.md"
MARK = "alerts"
WIDTH, HEIGHT = 24, {"row": 1, "stat": 4, "timeseries": 8}
"""Grafana's columns, and how many lines of its grid a panel takes."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
VARIABLE = "label_values(umab_draws_total, experiment)"
"""Which experiments there are to choose from."""
ABOUT = "# Written by python -m pages.deploy deploy docs, from pages/deploy_words.py.\n"
_METRIC = re.compile(r"\bumab_\w+")


def known(metrics: list[tuple[str, str, str]]) -> set[str]:
    """Return the names of series, from the names and kinds of metrics."""
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {f"{name}{part}" for name, kind, _ in metrics for part in parts.get(kind, ("",))}


def expressions() -> Iterator[str]:
    """Yield every expression of the alerts and the dashboard."""
    yield from (each.expression for each in ALERTS)
    yield from (
        query.expression for lines in ROWS.values() for line in lines for each in line for query in each.queries
    )
    yield VARIABLE


def check(series: set[str]) -> None:
    """Refuse expressions with series that no server has."""
    for each in expressions():
        if unknown := set(_METRIC.findall(each)) - series:
            raise ValueError(f"an expression must use series that a server has, but got {sorted(unknown)} in {each}")


def rules() -> str:
    """Return the alert rules."""
    found = [
        {
            "alert": each.name,
            "expr": each.expression,
            "for": each.lasting,
            "labels": {"severity": each.severity},
            "annotations": {"summary": _plain(each.when), "description": _plain(each.action)},
        }
        for each in ALERTS
    ]
    made = yaml.safe_dump({"groups": [{"name": "umab", "rules": found}]}, sort_keys=False, width=1000)
    return ABOUT + str(made)


def _plain(text: str) -> str:
    """Return a text without Markdown, as a sentence begins."""
    text = text.replace("`", "")
    return text[0].upper() + text[1:]


def alerts_table() -> str:
    """Return the table of alerts."""
    rows = [(f"`{each.name}`", each.when, each.lasting, each.action) for each in ALERTS]
    return service.table(("alert", "when", "for", "what to do"), rows)


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, lines in ROWS.items():
        where = {"x": 0, "y": top, "w": WIDTH, "h": HEIGHT["row"]}
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "gridPos": where, "panels": []})
        top += HEIGHT["row"]
        for line in lines:
            width, height = WIDTH // len(line), HEIGHT[line[0].kind]
            for at, panel in enumerate(line):
                where = {"x": at * width, "y": top, "w": width, "h": height}
                panels.append({"id": len(panels) + 1, **_panel(panel), "gridPos": where})
            top += height
    return {
        "uid": "umab",
        "title": "umab",
        "description": "The decision service: its servers, what it learns, and its arms.",
        "tags": ["umab"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source_variable(), _experiment_variable()]},
        "panels": panels,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": each.expression, "legendFormat": each.legend}
        for at, each in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, **_drawn(panel)}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
        if panel.kind == "timeseries"
        else {"reduceOptions": {"calcs": ["lastNotNull"]}},
    }


def _drawn(panel: Panel) -> dict[str, Any]:
    """Return how values are drawn."""
    least = {} if panel.unit == "none" else {"min": 0}  # losses may be negative, counts and times are not
    if panel.kind == "stat":
        return least
    if panel.stacked:
        return {**least, "max": 1, "custom": {"fillOpacity": 60, "lineWidth": 0, "stacking": {"mode": "normal"}}}
    return {**least, "custom": {"fillOpacity": 8, "lineWidth": 1}}


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"}


def _experiment_variable() -> dict[str, Any]:
    return {
        "name": "experiment",
        "label": "experiment",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": VARIABLE, "refId": "experiments"},
        "definition": VARIABLE,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def files(deploy: Path, docs: Path) -> dict[Path, str]:
    """Return what is to be written, and where."""
    check(known(asyncio.run(service.measured(1)).metrics))
    page = docs / PAGE
    return {
        deploy / RULES: rules(),
        deploy / DASHBOARD: json.dumps(dashboard(), indent=2) + "\n",
        page: service.filled(page.read_text(encoding="utf-8"), MARK, alerts_table()),
    }


if __name__ == "__main__":
    for path, text in files(Path(sys.argv[1]), Path(sys.argv[2])).items():
        write_atomically(path, text.encode())
