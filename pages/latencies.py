"""The figure of the README and its page: policies on latencies with outliers.

`python -m pages.latencies docs` plays the tables, in some minutes, and writes the page, its figure and its numbers.
With `--from-recorded`, it plays nothing and writes the page and the figure again; with `--only recommended`, it plays
with this contender, or others, and takes the rest from the recorded numbers.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from umab._support.display import spread_out
from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.engine.work import versions
from umab.research.experiments.runner import Summary
from umab.research.report import shell, words
from umab.results.plotting import CONFIG, Chart, Curve, band, curve_chart
from umab.results.styles import Style

PAGE, FIGURE, NUMBERS = "latencies.md", "latencies.svg", "latencies.json"

N_ROUNDS = 10_000
N_TABLES = 200
SEED = 0

Table = npt.NDArray[np.float64]
Arms = npt.NDArray[Any]
Play = Callable[[Table, int], Arms]
"""Plays a table of milliseconds, with a seed, and returns the index of the arm of every round."""

UPSTREAMS = ("a", "b", "c", "d")
MEDIANS = (20.0, 30.0, 45.0, 60.0)
"""Milliseconds of a usual answer."""

SPREAD = 0.5
"""The standard deviation of the logarithm of a usual answer."""

STALL = (1000.0, 5000.0)
"""Between which bounds, in milliseconds, a stall adds to a usual answer; all lengths are equally likely."""

RANGES = {"100 ms": 100.0, "1 s": 1000.0, "10 s": 10_000.0}
"""Guesses of the largest latency, in milliseconds."""

UNITS = {"1 ms": 1.0, "100 ms": 100.0, "1 s": 1000.0}
"""What river's UCB counts rewards in, in milliseconds."""

_POINTS = 80
_UNLUCKY = 0.95
_LABEL = 0.055
"""The share of the height of the figure that a label takes."""


class Story(NamedTuple):
    """What happens to the upstreams: which share of their requests stalls, in one or more phases of equal length."""

    title: str
    about: str
    stalls: tuple[tuple[float, ...], ...]


_USUAL = ((0.015, 0.001, 0.001, 0.001),) * 20

STORIES = {
    "overloaded": Story(
        "one is overloaded",
        "Upstream a is the fastest most of the time, but 1.5% of its requests stall, and 0.1% of the others'.",
        ((0.015, 0.001, 0.001, 0.001),),
    ),
    "alike": Story(
        "stalls hit all alike",
        "At every upstream, 0.2% of the requests stall, so the one with the lowest median also has the lowest mean.",
        ((0.002, 0.002, 0.002, 0.002),),
    ),
    "moving": Story(
        "the overload moves",
        "As in the first, but halfway through upstream a recovers and b, until then the best, is overloaded.",
        ((0.015, 0.001, 0.001, 0.001), (0.001, 0.015, 0.001, 0.001)),
    ),
    "outage": Story(
        "the best one fails",
        "As in the second, but halfway through upstream a, until then the best, fails: all of its requests stall.",
        ((0.002, 0.002, 0.002, 0.002), (1.0, 0.002, 0.002, 0.002)),
    ),
    "returns": Story(
        "the best one fails for a while",
        "As in the first, but upstream b, the best, is down for 5% of the requests: all of its requests stall.",
        (*_USUAL[:12], (0.015, 1.0, 0.001, 0.001), *_USUAL[13:]),
    ),
}
SHOWN, BEST = "returns", 1
"""The story of the figure, and which of its upstreams is the best one unless it is down."""


def outages(story: Story, n_rounds: int = N_ROUNDS) -> list[tuple[int, int]]:
    """Return from which request to which one of the upstreams fails."""
    n = len(story.stalls)
    return [(at * n_rounds // n, (at + 1) * n_rounds // n) for at, each in enumerate(story.stalls) if 1.0 in each]


def table(story: Story, number: int, n_rounds: int = N_ROUNDS) -> Table:
    """Return one of the tables of a story: milliseconds, one row per request and one column per upstream."""
    random = np.random.default_rng([SEED, number])
    shape = (n_rounds, len(UPSTREAMS))
    usual = random.lognormal(np.log(MEDIANS), SPREAD, shape)
    phase = np.arange(n_rounds) * len(story.stalls) // n_rounds
    stalls = random.random(shape) < np.array(story.stalls)[phase]
    return usual + np.where(stalls, random.uniform(*STALL, shape), 0.0)


class Contender(NamedTuple):
    """A policy with what was guessed for it."""

    name: str
    guess: str
    play: Play


class Line(NamedTuple):
    """How a contender is drawn."""

    label: str
    style: Style


def plays(policy: umab.Policy | str) -> Play:
    """Return how a policy of umab plays. One that needs a range is told losses clipped to it."""
    made = umab.policy(policy) if isinstance(policy, str) else policy

    def play(losses: Table, seed: int) -> Arms:
        told = np.clip(losses, *made.loss_range)
        drawn: Arms = umab.simulate(made, told, n_trials=1, seed=seed, progress=False).arms[0]
        return drawn

    return play


def ucb_plays(unit: float, *, scaled: bool = False) -> Play:
    """Return how river's UCB plays on negative latencies, counted in `unit` milliseconds."""
    from river import bandit, preprocessing

    def play(losses: Table, seed: int) -> Arms:
        scaler = preprocessing.TargetStandardScaler(None) if scaled else None
        policy = bandit.UCB(delta=1, reward_scaler=scaler, seed=seed)
        arms = list(range(losses.shape[1]))
        drawn = []
        for row in (losses / -unit).tolist():
            arm = policy.pull(arms)
            policy.update(arm, row[arm])
            drawn.append(arm)
        return np.array(drawn)

    return play


def contenders() -> dict[str, Contender]:
    """Return who plays: those that need no guess, those that do with several guesses each, and chance."""
    found = {"recommended": Contender("`umab.recommended()`", "none", plays(umab.recommended()))}
    found |= {name: Contender(f"`{name}`", "none", plays(name)) for name in ("umab-r", "umab-nn", "ahb")}
    for said, high in RANGES.items():
        found[f"tsallis-inf {said}"] = Contender("`tsallis-inf`", f"0 to {said}", plays(umab.TsallisINF(high=high)))
    for said, high in RANGES.items():
        found[f"exp3 {said}"] = Contender("`exp3`", f"0 to {said}", plays(umab.EXP3(high=high)))
    for said, unit in UNITS.items():
        found[f"ucb {said}"] = Contender("river's UCB", f"a unit of {said}", ucb_plays(unit))
    found["ucb scaled"] = Contender("river's UCB", "none, with river's scaler", ucb_plays(1.0, scaled=True))
    found["random"] = Contender("choosing at random", "none", plays("uniform"))
    return found


LINES = {
    "recommended": Line("umab", Style("#7b3294")),
    "umab-r": Line("umab-r", Style("#c51b7d", (5, 2))),
    "ucb 1 ms": Line("UCB in ms", Style("#d55e00", (8, 3))),
    "ucb scaled": Line("UCB scaled", Style("#b8860b", (2, 2))),
    "tsallis-inf 100 ms": Line("Tsallis-INF", Style("#0072b2", (8, 3, 2, 3))),
    "exp3 100 ms": Line("EXP3", Style("#009e73", (4, 3))),
    "random": Line("at random", Style("#777777", (1, 2))),
}
"""What the figure shows, and the rows of the table in the README. UCB is river's, as people write it first, and with
the scaler that river recommends. A range of 100 ms serves both policies that need one best there, of those tried."""


def measure(n_tables: int = N_TABLES, n_rounds: int = N_ROUNDS, only: Collection[str] | None = None) -> dict[str, Any]:
    """Play all tables of all stories with all contenders, or only some, and return the regrets, in seconds."""
    players = {name: each for name, each in contenders().items() if only is None or name in only}
    rounds = spread_out(n_rounds, _POINTS)
    stories, curves, shares = {}, {}, {}
    ((down, up),) = outages(STORIES[SHOWN], n_rounds)
    with Progress(len(STORIES) * n_tables * len(players), "tables", unit="tables") as progress:
        for id, story in STORIES.items():
            regrets: dict[str, list[Table]] = {name: [] for name in players}
            to_best: dict[str, list[Table]] = {name: [] for name in players}
            means, within = np.zeros(len(UPSTREAMS)), np.zeros(len(RANGES))
            for number in range(n_tables):
                losses = table(story, number, n_rounds)
                means += losses.mean(axis=0) / n_tables
                within += [(losses <= high).mean() / n_tables for high in RANGES.values()]
                # The best one over all requests, in every round: the best so far would change where it fails.
                over = losses - losses[:, [losses.sum(axis=0).argmin()]]
                for name, contender in players.items():
                    drawn = contender.play(losses, number)
                    regrets[name].append(np.cumsum(over[np.arange(n_rounds), drawn])[rounds] / 1000.0)
                    to_best[name].append(drawn == BEST)
                    progress.advance(1)
            stories[id] = {
                "means": means.round(1).tolist(),
                "within": dict(zip(RANGES, within.round(4).tolist(), strict=True)),
                "regret": {name: _final(np.array(each)[:, -1]) for name, each in regrets.items()},
            }
            if id == SHOWN:
                curves = {name: _curve(np.array(regrets[name])) for name in LINES if name in players}
                parts = {"before": slice(down), "in": slice(down, up), "after": slice(up, None)}
                shares = {
                    name: {part: float(np.array(found)[:, where].mean()) for part, where in parts.items()}
                    for name, found in to_best.items()
                }
    return {
        "n_tables": n_tables,
        "rounds": (rounds + 1).tolist(),
        "versions": {**versions(), "river": metadata.version("river")},
        "stories": stories,
        "curves": curves,
        "shares": shares,
    }


def _final(regrets: Table) -> dict[str, float]:
    """Return the mean of the final regrets, its standard error, and what one table in twenty exceeds."""
    mean, _, se, _ = Summary.of(regrets)
    return {"mean": mean, "se": se, "unlucky": float(np.quantile(regrets, _UNLUCKY))}


def _curve(regrets: Table) -> dict[str, list[float]]:
    """Return the same round by round."""
    found = [_final(each) for each in regrets.T]
    return {key: [round(each[key], 3) for each in found] for key in found[0]}


def figure(results: Mapping[str, Any]) -> str:
    """Return the regrets over the rounds as SVG: means with bands of one standard deviation, and the unlucky ones."""
    means: list[Curve] = []
    unlucky: list[Curve] = []
    for name, curve in results["curves"].items():
        mean, se, worse = (np.array(curve[key]) for key in ("mean", "se", "unlucky"))
        label, t = LINES[name].label, np.array(results["rounds"])
        wide = band(mean, se * math.sqrt(results["n_tables"]))
        means.append({"policy": label, "t": t, "mean": mean, **wide})
        unlucky.append({"policy": label, "t": t, "mean": worse, **band(worse, 0.0 * se)})
    lowest = min(0.0, *(float(each["low"].min()) for each in means + unlucky))
    highest = 1.1 * max(float(each["high"].max()) for each in means + unlucky)
    panels = [
        _panel(f"On average over {results['n_tables']} runs; bands are one standard deviation", means, lowest, highest),
        _panel("With bad luck: one run in twenty is worse", unlucky, lowest, highest),
    ]
    # The letters of a browser may be wider than those that the figure is laid out with.
    padding = {"left": 10, "top": 10, "bottom": 10, "right": 30}
    return Chart({"config": CONFIG, "hconcat": panels, "spacing": 25, "padding": padding}).svg


def _panel(title: str, values: list[Curve], lowest: float, highest: float) -> dict[str, Any]:
    """Return a chart of curves, with the label of each at its end, between two regrets."""
    n_rounds = int(values[0]["t"][-1])
    spec = curve_chart(values, n_rounds, title, {line.label: line.style for line in LINES.values()})
    flatten, data = spec.pop("transform"), spec.pop("data")  # for the curves alone, not for the labels beside them
    for layer in spec["layer"]:
        layer |= {"data": data, "transform": flatten}
        layer["encoding"]["y"] |= {"title": "regret, seconds", "scale": {"domain": [lowest, highest], "nice": False}}
    spec["layer"][1]["encoding"]["strokeDash"]["legend"] = None
    spec["encoding"]["color"]["legend"] = None
    spec["encoding"]["x"] |= {"title": "requests", "axis": {"tickCount": 3}}
    down = [{"t": start, "end": end} for start, end in outages(STORIES[SHOWN], n_rounds)]
    over: dict[str, Any] = {"x": {"field": "t", "type": "quantitative"}, "color": {"value": "#777777"}}
    spec["layer"][:0] = [
        {
            "data": {"values": down},
            "mark": {"type": "rect", "fillOpacity": 0.15},
            "encoding": {**over, "x2": {"field": "end"}},
        },
        {
            "data": {"values": down},
            "mark": {"type": "text", "align": "right", "baseline": "top", "dx": -4, "dy": 4, "fontSize": 12},
            "encoding": {**over, "y": {"value": 0}, "text": {"value": "the best one is down"}},
        },
    ]
    labels: list[dict[str, Any]] = []
    for each in sorted(values, key=lambda value: float(value["mean"][-1])):
        free = labels[-1]["at"] + _LABEL * (highest - lowest) if labels else lowest
        labels.append({"policy": each["policy"], "t": n_rounds, "at": max(float(each["mean"][-1]), free)})
    spec["layer"].append(
        {
            "data": {"values": labels},
            "mark": {"type": "text", "align": "left", "baseline": "middle", "dx": 5, "fontSize": 12},
            "encoding": {"y": {"field": "at", "type": "quantitative"}, "text": {"field": "policy"}},
        }
    )
    kept = {key: value for key, value in spec.items() if key not in ("config", "padding")}  # those of the whole figure
    return {**kept, "width": 300, "height": 260}


def text(results: Mapping[str, Any]) -> str:
    """Return the page that these results, the content of the file of numbers, come to."""

    def times(name: str, story: str) -> str:
        regret = results["stories"][story]["regret"]
        return f"{regret[name]['mean'] / regret['recommended']['mean']:.1f}"

    def total(name: str) -> float:
        return math.fsum(story["regret"][name]["mean"] for story in results["stories"].values())

    content = {
        "results": results,
        "times": times,
        "total": total,
        "stories": STORIES,
        "upstreams": UPSTREAMS,
        "medians": MEDIANS,
        "n_rounds": results["rounds"][-1],
        "contenders": contenders(),
        "measured": lambda regret: words.measured(regret["mean"], regret["se"]),
    }
    return shell.markdown(PAGE, content, __package__)


def write(docs: Path, n_tables: int = N_TABLES, n_rounds: int = N_ROUNDS) -> None:
    """Play, and write the page, its figure and its numbers."""
    write_atomically(docs / NUMBERS, (json.dumps(measure(n_tables, n_rounds)) + "\n").encode())
    rewrite(docs)


def again(docs: Path, only: Collection[str]) -> None:
    """Play with some contenders only, and put their numbers in the place of the recorded ones."""
    results = json.loads((docs / NUMBERS).read_text())
    found = measure(results["n_tables"], results["rounds"][-1], only)
    for id, story in found["stories"].items():
        results["stories"][id]["regret"].update(story["regret"])
    for part in ("curves", "shares"):
        results[part].update(found[part])
    write_atomically(docs / NUMBERS, (json.dumps(results) + "\n").encode())
    rewrite(docs)


def rewrite(docs: Path) -> None:
    """Write the page and its figure from the numbers beside them."""
    results = json.loads((docs / NUMBERS).read_text())
    write_atomically(docs / FIGURE, figure(results).encode())
    write_atomically(docs / PAGE, text(results).encode())


if __name__ == "__main__":
    docs, *options = sys.argv[1:]
    if options[:1] == ["--only"]:
        again(Path(docs), options[1:])
    else:
        (rewrite if "--from-recorded" in options else write)(Path(docs))
