"""What late feedback costs: policies on loss tables with delays of several kinds and lengths.

`python -m pages.delays docs` plays the tables, in some minutes. It writes the page, its figure, its numbers, and the
column about late feedback of the decision table in `docs/which-policy.md`. With `--from-recorded`, it plays nothing and
writes all of them again from the numbers.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import umab
from pages import orders
from pages.late import GROUPS, KINDS, N_COPIES, N_TRIALS, POLICIES, POOL, SHARES, WITHOUT, World, measure, worlds
from umab._support.files import write_atomically
from umab.research.experiments.contest import RECOMMENDED, STEADY
from umab.research.report import shell, words
from umab.results.plotting import CONFIG, Chart, scales
from umab.results.styles import styles_of
from umab.theory.bounds_late import covers_delays
from umab.theory.theorems import THEOREM_D, theorem_of

PAGE, FIGURE, NUMBERS, ADVICE = "delays.md", "delays.svg", "delays.json", "which-policy.md"

LEAST_SHOWN = 0.01
"""A smaller score counts as this in the figure, which is logarithmic."""
LOW = 1.5
"""The cost of late feedback is called low if the score is at most so many times the least one."""
PUBLISHED = ("banker-sftinf", "tsallis-inf-d")
"""Policies with published bounds for late feedback, which umab has not proved again."""
SURE = 2.0
"""Scores are level if they differ by less than so many standard errors."""


# What the numbers come to.


def may_be_taken(name: str) -> bool:
    """Whether a policy can be advised: it is no experiment, needs no range, and is complete."""
    return name != POOL and name not in WITHOUT.values() and not umab.policy(name).needs_range


def least_of(scores: Mapping[str, Any], at: int) -> str:
    """Return the policy with the least score at a length."""
    return min(filter(may_be_taken, scores), key=lambda name: float(scores[name][at]["mean"]))


def is_level(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether two scores differ by no more than their errors explain."""
    return abs(one["mean"] - other["mean"]) < SURE * math.hypot(one["se"], other["se"])


def percent(share: float) -> str:
    """Return a share of the horizon as a text."""
    return f"{100 * share:g} %"


def winners(results: Mapping[str, Any], id: str, kind: str) -> str:
    """Return a sentence that says who has the least score at each length."""
    scores, shares = results["scores"][id][kind], results["shares"]
    parts = []
    for name, run in itertools.groupby(range(len(shares)), key=lambda at: least_of(scores, at)):
        at = list(run)
        beside = [
            other
            for other in filter(may_be_taken, scores)
            if other != name and all(is_level(scores[name][each], scores[other][each]) for each in at)
        ]
        level = f" (level with it: {words.listed([f'`{other}`' for other in beside])})" if beside else ""
        lengths = (
            "at all lengths" if len(at) == len(shares) else f"at {words.listed([percent(shares[each]) for each in at])}"
        )
        parts.append(f"`{name}` {lengths}{level}")
    return f"The least score: {'; '.join(parts)}."


class Verdict(NamedTuple):
    """How a policy that is recommended for a group fares with late feedback."""

    name: str
    n_cells: int
    n_least: int
    """In how many of the cells with delays it has the least score, or one that is level with it."""
    beaten: list[str]
    """The other cells: by whom."""


def verdict(results: Mapping[str, Any], id: str) -> Verdict:
    """Compare the policy that is recommended for a group with the others, over all kinds and lengths of delays."""
    name, beaten, n_cells = {"steady": STEADY, "changing": RECOMMENDED}[id], [], 0
    for kind, scores in results["scores"][id].items():
        for at in range(1, len(results["shares"])):
            n_cells += 1
            best = least_of(scores, at)
            if best != name and not is_level(scores[best][at], scores[name][at]):
                how = f"{scores[best][at]['mean']:.3f} against {scores[name][at]['mean']:.3f}"
                beaten.append(f"`{best}`, delay {KINDS[kind].title}, {percent(results['shares'][at])}: {how}")
    return Verdict(name, n_cells, n_cells - len(beaten), beaten)


class Largest(NamedTuple):
    """The largest score of all."""

    score: float
    name: str
    table: str
    kind: str
    share: float


def largest_of(results: Mapping[str, Any]) -> Largest:
    """Return the largest score on a table, of a policy that can be advised."""
    return max(
        Largest(number["mean"], name, table, kind, share)
        for table, by_kind in results["scores"].items()
        if table not in GROUPS
        for kind, scores in by_kind.items()
        for name in filter(may_be_taken, scores)
        for share, number in zip(results["shares"], scores[name], strict=True)
    )


def pool_helps(results: Mapping[str, Any], id: str) -> list[str]:
    """Return the kinds of delays with which the pool is better than a single copy, at the greatest length."""
    found = []
    for kind, scores in results["scores"][id].items():
        pool, single = scores[POOL][-1], scores[STEADY][-1]
        if pool["mean"] < single["mean"] and not is_level(pool, single):
            found.append(KINDS[kind].title)
    return found


def cost_of_delay(results: Mapping[str, Any], name: str) -> float | None:
    """Return how many times the least score a policy has with the longest delays: a geometric mean.

    It is over all tables on which nothing changes and that the policy accepts, and over all kinds of delays; None if
    there are none.
    """
    ratios = [
        scores[name][-1]["mean"] / scores[least_of(scores, -1)][-1]["mean"]
        for table in GROUPS["steady"][1]
        for scores in results["scores"][table].values()
        if name in scores
    ]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None


def said_of(results: Mapping[str, Any], name: str) -> str:
    """Return what the decision table of docs/which-policy.md says about a policy and late feedback."""
    cost = cost_of_delay(results, name)
    bound = "proved, " if is_proved(name) else "published, " if name in PUBLISHED else ""
    return bound + ("not measured" if cost is None else "low cost" if cost <= LOW else "high cost")


def is_proved(name: str) -> bool:
    """Whether umab has a proof of a bound for late feedback."""
    policy = umab.policy(name)
    return theorem_of(policy) == THEOREM_D or covers_delays(policy)


def advice(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the decision table, in whose rows the fifth of seven cells is what is said of the policy."""

    def filled(row: re.Match[str]) -> str:
        return f"{row[1]} {said_of(results, row[4])} {row[3]}"

    return re.sub(r"^((?:\|[^|\n]+){4}\|)([^|\n]+)(\|[^|\n]+\| `([^`\n]+)` \|)$", filled, page, flags=re.MULTILINE)


# The figure and the page.


def figure(results: Mapping[str, Any]) -> str:
    """Return the scores over the lengths of the delays as SVG: a panel for each kind, a row for each group."""
    groups = {group: by_kind for group, by_kind in results["scores"].items() if group in GROUPS}
    names = [name for name in groups["steady"]["constant"] if name not in WITHOUT.values()]
    by_policy = [numbers for by_kind in groups.values() for scores in by_kind.values() for numbers in scores.values()]
    every = [each["mean"] for each in itertools.chain(*by_policy)]
    domain = 0.85 * max(min(every), LEAST_SHOWN), 1.1 * max(every)
    rows = [
        {"hconcat": [_panel(results, names, group, kind, domain) for kind in by_kind]}
        for group, by_kind in groups.items()
    ]
    padding = {"left": 5, "top": 5, "bottom": 5, "right": 30}
    return Chart({"config": CONFIG, "padding": padding, "vconcat": rows}).svg


def _panel(
    results: Mapping[str, Any], names: list[str], group: str, kind: str, domain: tuple[float, float]
) -> dict[str, Any]:
    """Return a chart of the scores over the lengths of delays of one kind, with bands of one standard deviation."""
    scores, shares = results["scores"][group][kind], results["shares"]
    values = [
        {
            "policy": name,
            "share": 100.0 * share,
            "score": max(number["mean"], LEAST_SHOWN),
            "low": max(number["mean"] - math.sqrt(results["n_trials"]) * number["se"], LEAST_SHOWN),
            "high": max(number["mean"] + math.sqrt(results["n_trials"]) * number["se"], LEAST_SHOWN),
        }
        for name in names
        if name in scores
        for share, number in zip(shares, scores[name], strict=True)
    ]
    first = kind == next(iter(KINDS))
    colour, dash = scales(names, styles_of(names))
    legend = {"title": None, "orient": "bottom", "columns": 5, "symbolType": "stroke", "symbolSize": 500}
    legend |= {"symbolOpacity": 1, "symbolStrokeWidth": 2, "labelLimit": 200}
    of_policy = {"field": "policy", "type": "nominal", "legend": legend}
    axis = {"values": [0.05, 0.1, 0.2, 0.5, 1.0], "format": "~g", "labels": first}
    y = {
        "type": "quantitative",
        "title": "share of the regret at random" if first else None,
        "scale": {"type": "log", "domain": domain, "nice": False, "clamp": True},
        "axis": axis,
    }
    x = {
        "field": "share",
        "type": "quantitative",
        "title": "delay, % of the horizon",
        "axis": {"values": [100.0 * share for share in shares], "labelOverlap": "greedy"},
    }
    return {
        "title": {"text": [f"Delay: {KINDS[kind].title}", GROUPS[group][0]], "anchor": "start"},
        "width": 160,
        "height": 200,
        "data": {"values": values},
        "encoding": {"x": x, "color": {**of_policy, "scale": colour}},
        "layer": [
            {
                "mark": {"type": "area", "fillOpacity": 0.15, "opacity": 1},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"y": {**y, "field": "score"}, "strokeDash": {**of_policy, "scale": dash}},
            },
        ],
    }


def text(results: Mapping[str, Any]) -> str:
    """Return the page that these results, the content of the file of numbers, come to."""
    content = {
        "results": results,
        "worlds": worlds(),
        "groups": {id: group for id, group in GROUPS.items() if id in results["scores"]},
        "kinds": KINDS,
        "pool": POOL,
        "n_copies": N_COPIES,
        "recommended": RECOMMENDED,
        "steady": STEADY,
        "without": WITHOUT,
        "ranged": [name for name in POLICIES if umab.policy(name).needs_range],
        "proved": [name for name in POLICIES if is_proved(name)],
        "published": PUBLISHED,
        "verdicts": {id: verdict(results, id) for id in GROUPS if id in results["scores"]},
        "largest": largest_of(results),
        "orders": orders.text(results["orders"], results["scores"], results["shares"]).rstrip(),
        "pool_helps": {id: pool_helps(results, id) for id in GROUPS},
        "winners": lambda id, kind: winners(results, id, kind),
        "percent": percent,
        "low": LOW,
        "said": {name: (cost_of_delay(results, name), said_of(results, name)) for name in POLICIES},
        "measured": lambda number: words.measured(number["mean"], number["se"]),
        "times": lambda number: words.measured(number["times"], number["times_se"]),
    }
    return shell.markdown(PAGE, content, __package__)


def write(
    docs: Path, n_trials: int = N_TRIALS, shares: Sequence[float] = SHARES, tables: Mapping[str, World] | None = None
) -> None:
    """Play, and write the page, its figure and its numbers."""
    found = {**measure(n_trials, shares, tables), "orders": orders.measure(n_trials=max(2, n_trials // 2))}
    results = json.loads(json.dumps(found))
    write_atomically(docs / NUMBERS, (json.dumps(results) + "\n").encode())
    rewrite(docs)


def rewrite(docs: Path) -> None:
    """Write all except the file of numbers again, from that file."""
    results = json.loads((docs / NUMBERS).read_text(encoding="utf-8"))
    write_atomically(docs / FIGURE, figure(results).encode())
    write_atomically(docs / PAGE, text(results).encode())
    beside = docs / ADVICE
    write_atomically(beside, advice(beside.read_text(encoding="utf-8"), results).encode())


if __name__ == "__main__":
    (rewrite if "--from-recorded" in sys.argv[2:] else write)(Path(sys.argv[1]))
