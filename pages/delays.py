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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from pages.pool import play_pool
from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.algorithms.registry import is_known
from umab.datasets.suite_tables import entries
from umab.engine.simulate import takes
from umab.engine.work import versions
from umab.research.experiments.contest import RECOMMENDED, STEADY
from umab.research.experiments.runner import Summary
from umab.research.experiments.tracking import smallest_cost, told
from umab.research.report import shell, words
from umab.results.plotting import CONFIG, Chart, scales, styles_of
from umab.results.regret import mean_and_sd

PAGE, FIGURE, NUMBERS, ADVICE = "delays.md", "delays.svg", "delays.json", "which-policy.md"

N_ROUNDS, N_ARMS = 5_000, 5
"""Of the tables that are drawn here; those of the suite have their own."""
N_TRIALS = 200
SEED = 0

SHARES = (0.0, 0.01, 0.02, 0.05, 0.1)
"""How long delays are, as shares of the rounds of the table; the first is no delay."""

N_COPIES = 16
POOL = f"pool of {N_COPIES}"

POLICIES = (
    RECOMMENDED,
    STEADY,
    "umab-s",
    "umab-nn",
    "ahb",
    "scb-d",
    "banker-omd",
    "banker-sftinf",
    "banker-sflbinf",
)
"""Who plays, by name. A name that is not registered is left out, and so is a policy on a table that it refuses. One
that needs a range is told that of the table; it is shown as a yardstick, and never said to be the one to take."""

WITHOUT = {"bursts": f"{RECOMMENDED}:attention=none", "trials: restarts are kept": f"{RECOMMENDED}:restarts=kept"}
"""The recommended policy with one ingredient off, by what is off; with constant delays only."""

LEAST_SHOWN = 0.01
"""A smaller score counts as this in the figure, which is logarithmic."""
LOW = 1.5
"""The cost of late feedback is called low if the score is at most so many times the least one."""
SURE = 2.0
"""Scores are level if they differ by less than so many standard errors."""

Table = npt.NDArray[np.float64]
Scores = npt.NDArray[np.float64]
"""Lengths × trials."""


class World(NamedTuple):
    """A loss table."""

    title: str
    about: str
    losses: umab.Losses
    starts: Sequence[int]
    """The first rounds of the segments in each of which regret is against the best arm."""

    @property
    def best(self) -> npt.NDArray[np.intp]:
        """The best arm of its segment, for each round."""
        totals = np.add.reduceat(self.losses.table, self.starts, axis=0)
        return np.repeat(totals.argmin(axis=1), np.diff([*self.starts, self.losses.n_rounds]))


def worlds() -> dict[str, World]:
    """Return the tables."""
    random, shape, means = np.random.default_rng(SEED), (N_ROUNDS, N_ARMS), 1.0 + 0.5 * np.arange(N_ARMS)
    drawn = {
        "normal": (
            "normal",
            "means 0, 0.25, 0.5, 0.75, 1 and standard deviation 1",
            random.normal(0.5 * means - 0.5, 1.0, shape),
        ),
        "latencies": ("latencies", "exponential, means 1, 1.5, 2, 2.5, 3", random.exponential(means, shape)),
        "heavy": (
            "heavy tails",
            "the same means; the share of losses above x falls with 1/x², so that the variance is infinite",
            means * random.pareto(2.0, shape),
        ),
    }
    found = {id: World(title, about, umab.Losses.of(table), [0]) for id, (title, about, table) in drawn.items()}
    for entry in entries("development", group="changing"):
        if entry.name in ("two-changes", "hidden-often"):
            table = World(entry.name, f"of the suite: {entry.about}", entry.losses(None, 0), entry.starts(0))
            found[entry.name] = table
    return found


GROUPS = {
    "steady": ("nothing changes", ("normal", "latencies", "heavy")),
    "changing": ("the best arm changes", ("two-changes", "hidden-often")),
}
"""What the tables have in common; scores are averaged over the tables of a group."""


class Kind(NamedTuple):
    """A kind of delays."""

    title: str
    about: str
    delays: Callable[[World, int], Any]
    """Return the delays of a given length, in the form that `umab.simulate` takes."""
    needs_times: bool = False
    """Whether losses must not be negative."""


def geometric(world: World, length: int) -> Any:
    """Return delays of which each further round is as likely as the one before; the mean is the length."""
    return lambda random, n_rounds: random.geometric(1.0 / (1.0 + length), n_rounds) - 1


def heavy_tailed(world: World, length: int) -> Any:
    """Return delays with heavy tails whose mean is the length; those that exceed the horizon never arrive."""
    return lambda random, n_rounds: np.minimum(0.5 * length * random.pareto(1.5, n_rounds), n_rounds).astype(int)


def hiding(world: World, length: int) -> Any:
    """Return delays of the given length for all arms but the best, whose losses arrive at once."""
    delays = np.full(world.losses.table.shape, length)
    delays[np.arange(len(delays)), world.best] = 0
    return delays


def run_times(world: World, length: int) -> Any:
    """Return delays in proportion to the losses, with the length as the mean over all entries of the table."""
    table = world.losses.table
    return np.rint(table * (length / table.mean())).astype(int)


KINDS = {
    "constant": Kind("constant", "Every loss is late by the same number of rounds.", lambda world, length: length),
    "geometric": Kind("geometric", "The delay of each round is drawn from a geometric distribution.", geometric),
    "heavy": Kind(
        "heavy-tailed",
        "The delay of each round is drawn from a Pareto distribution with index 1.5. A few losses are very late, and "
        "some never arrive.",
        heavy_tailed,
    ),
    "hiding": Kind(
        "hides the bad arms",
        "An adversary hides the bad arms: their losses are late by a constant number of rounds, and those of the best "
        "arm arrive at once.",
        hiding,
    ),
    "run times": Kind(
        "equals the loss",
        "The loss is a run time, and it is known when the run ends: the delay is the loss, in a unit that gives the "
        "wanted mean over all losses. Only for tables without negative losses.",
        run_times,
        needs_times=True,
    ),
}


def players(world: World) -> dict[str, umab.Policy]:
    """Return the policies that accept the losses of a table, by name."""
    found = {name: told(umab.policy(name), world.losses, len(world.starts)) for name in POLICIES if is_known(name)}
    return {name: policy for name, policy in found.items() if takes(policy, world.losses)}


def measure(
    n_trials: int = N_TRIALS, shares: Sequence[float] = SHARES, tables: Mapping[str, World] | None = None
) -> dict[str, Any]:
    """Play all tables with all policies and delays, and return the scores."""
    tables = worlds() if tables is None else tables
    played: dict[str, dict[str, dict[str, Scores]]] = {}
    n_cells = sum(len(_contenders(world, id)) for world in tables.values() for id, _ in _kinds_for(world)) * len(shares)
    with Progress(n_cells, "measuring delays", unit="cells") as progress:
        for id, world in tables.items():
            costs = world.losses.table - world.losses.table.min(axis=1, keepdims=True)
            least = smallest_cost(costs, world.starts)
            more = smallest_cost(costs, [0]) - least  # by which the best arm of all rounds is worse
            at_random = float(costs.mean(axis=1).sum()) - least
            prompt: dict[str, Scores] = {}
            played[id] = {}
            for kind_id, kind in _kinds_for(world):
                found = played[id][kind_id] = {}
                for name, policy in _contenders(world, kind_id).items():
                    rows = []
                    for share in shares:
                        length = round(share * world.losses.n_rounds)
                        if share > 0.0 or name not in prompt:
                            delays = kind.delays(world, length) if share > 0.0 else 0
                            regrets = _regrets(name, policy, world.losses, delays, n_trials)
                            scores = (regrets + more) / at_random
                            prompt |= {} if share > 0.0 else {name: scores}
                        rows.append(scores if share > 0.0 else prompt[name])
                        progress.advance(1)
                    found[name] = np.array(rows)
    return {
        "n_trials": n_trials,
        "shares": list(shares),
        "n_rounds": {id: world.losses.n_rounds for id, world in tables.items()},
        "scores": {
            id: {kind: {name: _numbers(each) for name, each in found.items()} for kind, found in by_kind.items()}
            for id, by_kind in {**played, **_grouped(played)}.items()
        },
        "versions": versions(),
    }


def _kinds_for(world: World) -> list[tuple[str, Kind]]:
    is_time = bool((world.losses.table >= 0.0).all())
    return [(id, kind) for id, kind in KINDS.items() if is_time or not kind.needs_times]


def _contenders(world: World, kind: str) -> dict[str, umab.Policy]:
    """Return who plays a table with delays of a kind."""
    without = {name: umab.policy(name) for name in WITHOUT.values()} if kind == "constant" else {}
    return {**players(world), POOL: umab.policy(STEADY), **without}


def _regrets(name: str, policy: umab.Policy, losses: umab.Losses, delays: Any, n_trials: int) -> Table:
    """Return the final expected regrets of the trials."""
    if name == POOL:
        return play_pool(policy, losses, n_copies=N_COPIES, delays=delays, n_trials=n_trials, seed=SEED)[0]
    return umab.simulate(
        policy, losses, n_trials=n_trials, seed=SEED, expected=True, keep="summary", delays=delays, progress=False
    ).final_regret


def _grouped(played: Mapping[str, Mapping[str, Mapping[str, Scores]]]) -> dict[str, dict[str, dict[str, Scores]]]:
    """Return the scores of each trial, averaged over those tables of each group that have delays of a kind.

    A policy must have played all of them.
    """
    groups: dict[str, dict[str, dict[str, Scores]]] = {}
    for id, (_, members) in GROUPS.items():
        for kind in KINDS:
            every = [played[member][kind] for member in members if kind in played.get(member, {})]
            if every:
                names = [name for name in every[0] if all(name in each for each in every)]
                means = {name: np.mean([each[name] for each in every], axis=0) for name in names}
                groups.setdefault(id, {})[kind] = means
    return groups


def _numbers(scores: Scores) -> list[dict[str, float]]:
    """Return, for each length, the mean score, how many times that without delay it is, and their standard errors."""
    found = []
    for each in scores:
        mean, _, se, _ = Summary.of(each)
        times = mean / float(scores[0].mean())
        # The trials share their draws, so the error of a ratio is that of differences between them.
        _, sd = mean_and_sd(each - times * scores[0])
        found.append(
            {"mean": mean, "se": se, "times": times, "times_se": sd / len(each) ** 0.5 / float(scores[0].mean())}
        )
    return found


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
    if umab.policy(name).theorem == umab.SCBD.theorem:
        return "proved"
    cost = cost_of_delay(results, name)
    return "not measured" if cost is None else "measured: low cost" if cost <= LOW else "measured: higher cost"


def advice(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the decision table, in whose rows the fifth of seven cells is what is said of the policy."""

    def filled(row: re.Match[str]) -> str:
        return f"{row[1]} {said_of(results, row[4])} {row[3]}"

    return re.sub(r"^((?:\|[^|\n]+){4}\|)([^|\n]+)(\|[^|\n]+\| `([^`\n]+)` \|)$", filled, page, flags=re.MULTILINE)


# The figure and the page.


def figure(results: Mapping[str, Any]) -> str:
    """Return the scores over the lengths of the delays as SVG: a panel for each kind, a row for each group."""
    names = [name for name in results["scores"]["steady"]["constant"] if name not in WITHOUT.values()]
    colour, dash = scales(names, styles_of(names))
    values = [
        {
            "policy": name,
            "delays": KINDS[kind].title,
            "group": GROUPS[group][0],
            "share": 100.0 * share,
            "score": max(number["mean"], LEAST_SHOWN),
            "low": max(number["mean"] - SURE * number["se"], LEAST_SHOWN),
            "high": max(number["mean"] + SURE * number["se"], LEAST_SHOWN),
        }
        for group in GROUPS
        for kind, scores in results["scores"].get(group, {}).items()
        for name in names
        if name in scores
        for share, number in zip(results["shares"], scores[name], strict=True)
    ]
    legend = {
        "title": None,
        "orient": "bottom",
        "columns": 5,
        "symbolType": "stroke",
        "symbolSize": 500,
        "labelLimit": 200,
    }
    x = {
        "field": "share",
        "type": "quantitative",
        "title": "delay, % of the horizon",
        "axis": {"values": [100.0 * share for share in results["shares"]], "labelOverlap": "greedy"},
    }
    y = {
        "type": "quantitative",
        "title": "share of random's regret",
        "scale": {"type": "log", "nice": False},
        "axis": {"values": [0.05, 0.1, 0.2, 0.5, 1.0], "format": "~g"},
    }
    hue = {"field": "policy", "type": "nominal", "scale": colour, "legend": legend}
    layers = [
        {"mark": {"type": "area", "opacity": 0.15}, "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        {
            "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 18}},
            "encoding": {
                "y": {**y, "field": "score"},
                "strokeDash": {"field": "policy", "type": "nominal", "scale": dash, "legend": legend},
            },
        },
    ]
    in_order = {"type": "nominal", "title": None}
    header = {"labelFontSize": 13}
    return Chart(
        {
            "config": CONFIG,
            "padding": {"left": 5, "top": 5, "bottom": 5, "right": 30},
            "data": {"values": values},
            "facet": {
                "column": {
                    **in_order,
                    "field": "delays",
                    "sort": [each.title for each in KINDS.values()],
                    "header": header,
                },
                "row": {
                    **in_order,
                    "field": "group",
                    "sort": [title for title, _ in GROUPS.values()],
                    "header": header,
                },
            },
            "spec": {"width": 165, "height": 200, "encoding": {"x": x, "color": hue}, "layer": layers},
        }
    ).svg


def text(results: Mapping[str, Any]) -> str:
    """Return the page that these results, the content of the file of numbers, come to."""
    missing = [name for name in POLICIES if name not in results["scores"]["latencies"]["constant"]]
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
        "ranged": [name for name in POLICIES if name not in missing and umab.policy(name).needs_range],
        "missing": missing,
        "proved": [name for name in POLICIES if name not in missing and said_of(results, name) == "proved"],
        "verdicts": {id: verdict(results, id) for id in GROUPS if id in results["scores"]},
        "largest": largest_of(results),
        "winners": lambda id, kind: winners(results, id, kind),
        "percent": percent,
        "low": LOW,
        "said": {
            name: (cost_of_delay(results, name), said_of(results, name)) for name in POLICIES if name not in missing
        },
        "measured": lambda number: words.measured(number["mean"], number["se"]),
        "times": lambda number: words.measured(number["times"], number["times_se"]),
    }
    return shell.markdown(PAGE, content, __package__)


def write(
    docs: Path, n_trials: int = N_TRIALS, shares: Sequence[float] = SHARES, tables: Mapping[str, World] | None = None
) -> None:
    """Play, and write the page, its figure and its numbers."""
    results = json.loads(json.dumps(measure(n_trials, shares, tables)))
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
