"""The report on the service group of the suite: a page, its tables as Markdown, charts of the scores, and the numbers.

The page is made from the numbers alone, as they are in the file beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from umab.datasets.suite_parts import Half
from umab.engine.work import versions
from umab.research.experiments.contest import RECOMMENDED
from umab.research.experiments.serving import Standing
from umab.research.experiments.yardsticks import YARDSTICKS
from umab.research.report import shell
from umab.research.report.charts import table_chart
from umab.research.report.folder import results_json
from umab.research.report.suite_page import write_pages

TITLE = "How policies do in the worlds of services"
Numbers = Mapping[str, Any]
"""Numbers of the report, as JSON has them."""


def write(numbers: Numbers, folder: Path, command: str) -> Path:
    """Write the report on the service group to a folder and return the path of its page."""
    halves: Mapping[Half, Numbers] = numbers["halves"]
    charts = {half: score_chart(half, found) for half, found in halves.items()}
    return write_pages(
        folder, "service", charts, results_json(numbers), content_of(numbers, command), figures="service-"
    )


def numbers_of(found: Sequence[Standing], *, n_trials: int, seed: int, data_seed: int) -> Numbers:
    """Return the numbers, as JSON has them: the scores in every world, and their means, at each horizon."""
    halves: dict[str, dict[str, object]] = {}
    for each in found:
        halves.setdefault(each.half, {})[str(each.n_rounds)] = {
            "policies": {name: _policy(each, name) for name in each.names},
            "worlds": {
                world.entry.name: {
                    "kind": world.entry.kind,
                    "about": world.entry.about,
                    "arms": world.entry.n_arms,
                    "at_random": float(world.at_random.mean()),
                    "best_arm": float(world.best["arm"].mean()),
                    "best_of_moments": float(world.best["moment"].mean()),
                    "scores": {name: world.score(name)._asdict() for name in each.names},
                    "against_moments": {name: world.score(name, "moment")._asdict() for name in each.names},
                }
                for world in each.worlds
            },
        }
    content = {"n_trials": n_trials, "seed": seed, "data_seed": data_seed, "halves": halves, "versions": versions()}
    numbers: Numbers = json.loads(results_json(content))
    return numbers


def _policy(standing: Standing, name: str) -> dict[str, object]:
    above, where = standing.excess(name)
    return {
        "mean": standing.mean(name)._asdict(),
        "against_moments": standing.mean(name, "moment")._asdict(),
        "excess": above,
        "excess_in": where,
    }


# The page, from the numbers.


def content_of(numbers: Numbers, command: str) -> dict[str, object]:
    """Return the content of the page, for HTML and for Markdown."""
    halves: Mapping[Half, Numbers] = numbers["halves"]
    return {
        "heads": {half: head(found) for half, found in halves.items()},
        "head": shell.Head(title=TITLE, command=command),
        "halves": list(halves),
        "lines": {half: lines(found) for half, found in halves.items()},
        "tables": {half: {_rounds(at): rows(each) for at, each in found.items()} for half, found in halves.items()},
        "names": {half: names_of(found) for half, found in halves.items()},
        "moments": {half: moment_lines(found) for half, found in halves.items()},
        "recommended": RECOMMENDED,
        "stand_ins": [],
        **{key: numbers[key] for key in ("n_trials", "seed", "data_seed", "versions")},
    }


def names_of(half: Numbers) -> list[str]:
    """Return the policies and the yardsticks, in the order in which they were run."""
    return list(next(iter(half.values()))["policies"])


def head(half: Numbers) -> list[str]:
    """Return the head of the table of mean scores, without its first cell: two columns for each horizon."""
    return [text for at in half for text in (_rounds(at), "largest excess")]


def lines(half: Numbers) -> list[tuple[str, ...]]:
    """Return the mean scores at each horizon, the smallest at the last one first, and the largest excesses."""
    *_, last = half.values()
    found = []
    for name in sorted(names_of(half), key=lambda name: float(last["policies"][name]["mean"]["value"])):
        line = [name]
        for each in half.values():
            policy = each["policies"][name]
            line += [_score(policy["mean"]), f"{policy['excess']:.2f} ({policy['excess_in']})"]
        found.append(tuple(line))
    return found


def moment_lines(half: Numbers) -> list[tuple[str, ...]]:
    """Return the mean scores against the best arm of each moment."""
    *_, last = half.values()
    ordered = sorted(names_of(half), key=lambda name: float(last["policies"][name]["against_moments"]["value"]))
    return [(name, *(_score(each["policies"][name]["against_moments"]) for each in half.values())) for name in ordered]


def rows(numbers: Numbers) -> list[tuple[str, ...]]:
    """Return the worlds at one horizon, with the scores of everybody."""
    return [
        (name, world["about"], str(world["arms"]), *(f"{each['value']:.2f}" for each in world["scores"].values()))
        for name, world in numbers["worlds"].items()
    ]


def score_chart(half: Half, numbers: Numbers) -> dict[str, object]:
    """Return the chart of the scores of the policies and of the strongest yardstick, at the middle horizon."""
    at = list(numbers)[len(numbers) // 2]
    means = {name: float(each["mean"]["value"]) for name, each in numbers[at]["policies"].items()}
    shown = [*(name for name in means if name not in YARDSTICKS), *sorted(YARDSTICKS, key=means.__getitem__)[:2]]
    values = [
        {"table": name, "policy": policy, "score": world["scores"][policy]["value"]}
        for name, world in numbers[at]["worlds"].items()
        for policy in shown
    ]
    scores = [each["score"] for each in values]
    axis = {"score": "score: 0 is the best single arm, 100% is choosing at random"}
    title = f"{half} half, {len(numbers[at]['worlds'])} worlds, {_rounds(at)}"
    return table_chart(values, shown, title, axis, max(1.0, *scores), min(0.0, *scores))


def _rounds(horizon: str) -> str:
    return f"{int(horizon):,} rounds"


def _score(estimate: Numbers) -> str:
    return f"{estimate['value']:.3f} ± {estimate['se']:.3f}"
