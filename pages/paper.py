"""The page `docs/paper.md`, from a report of `umab reproduce`.

`python -m pages.paper report docs` writes it with its figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from umab._support.display import spread_out
from umab._support.files import write_atomically
from umab.algorithms.names import policy
from umab.algorithms.registry import recommended
from umab.research.experiments.experiment import Experiment, Setting, paper
from umab.research.experiments.pooled import Pooled
from umab.research.experiments.runner import Summary
from umab.research.report import shell, words
from umab.research.report.charts import pooled_chart
from umab.research.report.run_page import figure_name, result_path
from umab.results.plotting import Chart
from umab.results.result import Result

PAGE = "paper.md"
FOLDER = "paper"
"""The folder beside the page, with its figures and the numbers that it is made from."""

RESULTS = "results.json"

_POINTS = 60


class Row(NamedTuple):
    """A policy of an experiment, with its regret in each setting."""

    name: str
    regrets: list[str]


def experiments(results: Mapping[str, Any]) -> dict[str, Experiment]:
    """Return the experiments and settings that have results."""
    every = paper()
    return {id: every[id].with_settings(settings) for id, settings in results["figures"].items()}


def text(results: Mapping[str, Any]) -> str:
    """Return the page for these results, which are the content of a report's `results.json`."""
    shown = experiments(results)
    verdicts = {(each["figure"], each["setting"]): each["verdict"] for each in results["verdicts"]}
    claims: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in results["claims"]:
        claims.setdefault((each["figure"], each["setting"]), []).append(each)
    about = {(id, name): each for id, settings in results["provenance"].items() for name, each in settings.items()}
    content = {
        "experiments": shown,
        "settings": list(dict.fromkeys(name for _, name in about)),
        "verdicts": verdicts,
        "claims": claims,
        "about": about,
        "rows": {id: _rows(results["figures"][id]) for id in shown},
        "figure": lambda experiment, setting: f"{FOLDER}/{figure_name(experiment, setting)}.svg",
        "stand_ins": sorted({id for (id, _), each in about.items() if each["losses"]["provenance"].get("stand_in")}),
    }
    return shell.markdown(PAGE, content, __package__)


def _rows(settings: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return the policies, the best of the last setting first, with the best of each setting in bold."""
    *_, last = settings.values()
    lowest = [
        min((name for name in found if not policy(name).full_information), key=lambda name: found[name]["mean"])
        for found in settings.values()
    ]
    rows = []
    for name in sorted(last, key=lambda name: last[name]["mean"]):
        regrets = [words.measured(found[name]["mean"], found[name]["se"]) for found in settings.values()]
        marked = [f"**{shown}**" if name == best else shown for shown, best in zip(regrets, lowest, strict=True)]
        rows.append(Row(f"*{name}*" if policy(name).full_information else name, marked))
    return rows


def figure(report: Path, experiment: Experiment, setting: Setting) -> str:
    """Return the curves of a setting and of the recommended policy, as SVG."""
    curves = {}
    for name in (*setting.policies, recommended().name):
        result = Result.load(report / "results" / result_path(experiment.id, setting.name, name))
        rounds = spread_out(len(result.mean), _POINTS)
        curves[name] = Pooled(Summary.of(result.final_regret), rounds + 1, result.mean[rounds], result.sd[rounds], 1)
    title = f"{experiment.figure}, {setting.name}"
    chart = pooled_chart(curves, len(result.mean), title)
    return Chart(chart).svg


def write(report: Path, docs: Path) -> None:
    """Write the page, its figures and its numbers from the folder of a report."""
    content = (report / RESULTS).read_bytes()
    results = json.loads(content)
    (docs / FOLDER).mkdir(exist_ok=True)
    write_atomically(docs / FOLDER / RESULTS, content)
    for experiment in experiments(results).values():
        for setting in experiment.settings:
            name = f"{figure_name(experiment, setting)}.svg"
            write_atomically(docs / FOLDER / name, figure(report, experiment, setting).encode())
    write_atomically(docs / PAGE, text(results).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
