"""Whether a policy becomes the default, by the rule that was fixed beforehand.

`python -m pages.decide CANDIDATE FOLDER --half validation --data-seed N` runs the candidate, the default and the rules
of practitioners in the worlds of that half of the service group, at three horizons, and the candidate and the default
on the general, heavy and changing groups, drawn with that seed. It writes the numbers and a section for the docs into
the folder, and prints the section. With the development half, the other groups have only their development halves too;
with the validation half, which is for the decision itself, they have both. That takes about six minutes of one core.

Scores are (total loss − that of the best single arm) ÷ (the same for choosing at random), the mean numerator over the
mean denominator over trials, neither floored nor clipped; a table on which all arms cost the same has none. Means over
tables are arithmetic. The rule asks that

- in the service worlds, the mean score is below that of every yardstick at each horizon;
- on the general and on the heavy group, the mean score is at most 0.02 above the default's, and no score is above
  1.5 times the default's or, if that is more, 0.05 above it;
- on the changing group, the mean share of the gain of true restarts is at most 0.02 below the default's, and no share
  more than 0.05 below it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.datasets.heavy_tables import HeavyEntry
from umab.datasets.service_worlds import HORIZONS
from umab.datasets.suite_parts import Entry, Half
from umab.datasets.suite_tables import entries
from umab.engine.simulate import simulate
from umab.engine.work import versions
from umab.research.experiments.contest import (
    RECOMMENDED,
    Array,
    Estimate,
    Trials,
    estimate,
    resampled_trials,
    seed_of_part,
    without_range,
)
from umab.research.experiments.serving import Standing, serve
from umab.research.experiments.tracking import Shares, smallest_cost, track
from umab.research.experiments.yardsticks import YARDSTICKS
from umab.research.report import shell

NUMBERS, SECTION = "decision.json", "decision.md"

BEHIND = 0.02
"""By how much a mean may be worse than the default's."""
TIMES, ABOVE = 1.5, 0.05
"""By which factor, or by how much if that is more, a score on a table may be above the default's."""
SHARE_BELOW = 0.05
"""By how much a share on a table may be below the default's."""

N_TRIALS = 200
SERVICE_TRIALS = {1_000: 2.0, 10_000: 0.5, 100_000: 0.1}
"""How many trials the worlds have at a horizon, per trial of the other groups: long ones take their time."""


class Part(NamedTuple):
    """A part of the rule: a number that must not be above a limit."""

    group: str
    what: str
    found: Estimate
    limit: float
    where: str = ""
    """What it is about: the closest yardstick, or the worst table."""
    strict: bool = False
    """Whether the number must be below the limit."""

    @property
    def holds(self) -> bool:
        """Whether it holds; a number that is not one does not."""
        return self.found.value < self.limit if self.strict else self.found.value <= self.limit


class Scored(NamedTuple):
    """The regrets of both policies on one table, with those of choosing at random; one number for each trial."""

    name: str
    regrets: dict[str, Array]
    at_random: Array

    def scores(self, name: str, weights: Any) -> Array:
        """Return the score if each trial counts as often as `weights` says: one for each row of them."""
        unit = float(self.at_random.mean())  # so that nothing overflows or vanishes
        return np.asarray((weights @ (self.regrets[name] / unit)) / (weights @ (self.at_random / unit)))


class Pair(NamedTuple):
    """What both policies come to on the tables of a group: one row for each policy, the candidate first."""

    tables: list[str]
    values: Array
    resampled: Array
    """Policies × tables × resampled trials."""

    @classmethod
    def of(cls, scored: Sequence[Scored], names: Sequence[str]) -> Pair:
        """Return scores with their resampled ones; a table on which all arms cost the same has none."""
        scored = [each for each in scored if each.at_random.any()]
        n_trials = len(scored[0].at_random)
        once, resampled = np.ones((1, n_trials)), resampled_trials(n_trials)
        return cls(
            [each.name for each in scored],
            np.array([[each.scores(name, once)[0] for each in scored] for name in names]),
            np.array([[each.scores(name, resampled) for each in scored] for name in names]),
        )

    @classmethod
    def of_shares(cls, found: Sequence[Shares], names: Sequence[str]) -> Pair:
        """Return shares with their resampled ones."""
        columns = [found[0].policies.index(name) for name in names]
        return cls(
            [table.entry.name for half in found for table in half.tables],
            np.concatenate([half.shares[:, columns] for half in found]).T,
            np.concatenate([half.resampled[:, :, columns] for half in found], axis=1).transpose(2, 1, 0),
        )

    def parts(self, group: str) -> list[Part]:
        """Return both parts of the rule for scores."""
        (ours, default), (again, other) = self.values, self.resampled
        over = ours - np.maximum(TIMES * default, default + ABOVE)
        at = int(np.argmax(over))
        resampled = again[at] - np.maximum(TIMES * other[at], other[at] + ABOVE)
        behind = estimate(np.mean(ours - default), (again - other).mean(axis=0))
        return [
            Part(group, "mean score minus the default's", behind, BEHIND),
            Part(group, "score minus the most that is allowed", estimate(over[at], resampled), 0.0, self.tables[at]),
        ]

    def parts_of_shares(self) -> list[Part]:
        """Return both parts of the rule for shares."""
        (ours, default), (again, other) = self.values, self.resampled
        at = int(np.argmax(default - ours))
        behind = estimate(np.mean(default - ours), (other - again).mean(axis=0))
        worst = estimate((default - ours)[at], (other - again)[at])
        return [
            Part("changing", "the default's mean share minus the mean share", behind, BEHIND),
            Part("changing", "the default's share minus the share", worst, SHARE_BELOW, self.tables[at]),
        ]

    def numbers(self) -> dict[str, Any]:
        """Return all of it for a file."""
        sd = self.resampled.std(axis=2)
        return {
            table: [Estimate(*pair)._asdict() for pair in zip(self.values[:, at], sd[:, at], strict=True)]
            for at, table in enumerate(self.tables)
        }


def part_of_service(standing: Standing, candidate: str) -> Part:
    """Return the part of the rule for one horizon: the mean against that of the best yardstick there."""
    closest = min(YARDSTICKS, key=lambda name: standing.mean(name).value)
    pairs = [(world.resampled(candidate), world.resampled(closest)) for world in standing.worlds]
    resampled = np.mean([ours - others for ours, others in pairs], axis=0)
    difference = standing.mean(candidate).value - standing.mean(closest).value
    what = f"mean score minus the best yardstick's, {standing.n_rounds:,} rounds"
    return Part("service", what, estimate(np.asarray(difference), resampled), 0.0, closest, strict=True)


def score_table(entry: Entry, names: Sequence[str], trials: Trials, data_seed: int, real: bool | None) -> Scored:
    """Run both policies on a table of the general group."""
    losses = entry.losses(real, data_seed)
    costs = losses.table - losses.table.min(axis=1, keepdims=True)
    regrets = trials.final_regrets(without_range(names).values(), losses)
    at_random = float(costs.mean(axis=1).sum()) - smallest_cost(costs, [0])
    return Scored(entry.name, dict(zip(names, regrets, strict=True)), np.full(trials.n_trials, at_random))


def score_heavy(entry: HeavyEntry, names: Sequence[str], trials: Trials, data_seed: int) -> tuple[Scored, Scored]:
    """Run both policies on tables of the heavy group; return their scores, and those by the known means."""
    regrets, by_means, at_random = np.empty((2, trials.n_trials)), np.empty((2, trials.n_trials)), []
    for trial in range(trials.n_trials):
        losses = entry.losses(None, data_seed * trials.n_trials + trial)
        costs = losses.table - losses.table.min(axis=1, keepdims=True)
        at_random.append(float(costs.mean(axis=1).sum()) - smallest_cost(costs, [0]))
        results = simulate(
            without_range(names).values(),
            losses,
            n_trials=1,
            seed=seed_of_part(trials.seed, trial),
            expected=True,
            keep="arms",
            n_threads=1,
            progress=trials.bar,
        )
        regrets[:, trial] = [result.final_regret[0] for result in results]
        by_means[:, trial] = [result.regret_by_means(entry.means)[0] for result in results]
    known = np.full(trials.n_trials, entry.at_random)
    return (
        Scored(entry.name, dict(zip(names, regrets, strict=True)), np.array(at_random)),
        Scored(entry.name, dict(zip(names, by_means, strict=True)), known),
    )


def decide(
    candidate: str,
    half: Half = "development",
    *,
    data_seed: int = 0,
    n_trials: int = N_TRIALS,
    seed: int = 0,
    real: bool | None = None,
    horizons: Sequence[int] = HORIZONS,
    tables: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run everything, and return the numbers; `horizons` and `tables` are for trying it out on fewer."""
    if candidate == RECOMMENDED:
        raise ValueError(f"a candidate must be another policy than the default, but got {candidate}")
    names = [candidate, RECOMMENDED]
    halves: list[Half] = ["development"] if half == "development" else ["development", "validation"]

    def those(group: Any) -> list[Any]:
        return [each for one in halves for each in entries(one, group=group) if tables is None or each.name in tables]

    standings = []
    for n_rounds in horizons:
        n_drawn = max(2, round(n_trials * SERVICE_TRIALS[n_rounds]))
        with _said(f"service worlds, {n_rounds:,} rounds, {n_drawn} trials"):
            standings += serve(
                [half], [candidate], horizons=[n_rounds], n_trials=n_drawn, seed=seed, data_seed=data_seed
            )
    general, heavy = those("general"), those("heavy")
    with _said(f"general group, {len(general)} tables"):
        work = 2 * n_trials * sum(each.losses(real, data_seed).n_rounds for each in general)
        with Progress(work, "general group", unit="rounds") as bar:
            trials = Trials(n_trials, seed, None, bar)
            of_general = Pair.of([score_table(each, names, trials, data_seed, real) for each in general], names)
    with _said(f"heavy group, {len(heavy)} tables"):
        work = 2 * n_trials * sum(each.n_rounds for each in heavy)
        with Progress(work, "heavy group", unit="rounds") as bar:
            trials = Trials(n_trials, seed, None, bar)
            scored, by_means = zip(*(score_heavy(each, names, trials, data_seed) for each in heavy), strict=True)
            of_heavy, of_means = Pair.of(scored, names), Pair.of(by_means, names)
    changing = [each.name for each in those("changing")]
    with _said(f"changing group, {len(changing)} tables"):
        tracked = track(
            halves,
            shown=names,
            ablations=False,
            names=changing,
            n_trials=n_trials,
            seed=seed,
            data_seed=data_seed,
            real=real,
        )
        shares = Pair.of_shares(tracked, names)
    parts = [
        *(part_of_service(each, candidate) for each in standings),
        *of_general.parts("general"),
        *of_heavy.parts("heavy"),
        *shares.parts_of_shares(),
    ]
    return {
        "candidate": candidate,
        "default": RECOMMENDED,
        "half": half,
        "halves": halves,
        "data_seed": data_seed,
        "seed": seed,
        "n_trials": n_trials,
        "holds": all(each.holds for each in parts),
        "parts": [_as_numbers(each) for each in parts],
        "by_means": [_as_numbers(each) for each in of_means.parts("heavy, by the known means")],
        "means": {
            group: [float(each) for each in pair.values.mean(axis=1)]
            for group, pair in {"general": of_general, "heavy": of_heavy, "changing": shares}.items()
        },
        "service": {str(each.n_rounds): _service(each) for each in standings},
        "tables": {
            "general": of_general.numbers(),
            "heavy": of_heavy.numbers(),
            "heavy by means": of_means.numbers(),
            "changing": shares.numbers(),
        },
        "versions": versions(),
    }


def _as_numbers(part: Part) -> dict[str, Any]:
    return {**part._asdict(), "found": part.found._asdict(), "holds": part.holds}


def _service(standing: Standing) -> dict[str, Any]:
    return {
        "n_trials": len(standing.worlds[0].at_random),
        "means": {name: standing.mean(name)._asdict() for name in standing.names},
        "excess": {name: standing.excess(name) for name in standing.policies},
        "worlds": {
            world.entry.name: {name: world.score(name)._asdict() for name in standing.names}
            for world in standing.worlds
        },
    }


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Say on standard error what is being done, and how long it took: nobody may be watching a bar."""
    started = time.monotonic()
    print(what, file=sys.stderr, flush=True)
    yield
    print(f"  {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def text(results: Mapping[str, Any]) -> str:
    """Return the section that these numbers come to."""
    last = list(results["service"].values())[-1]["means"]
    names = [results["candidate"], *sorted(last, key=lambda name: float(last[name]["value"]))]
    content = {
        "results": results,
        "names": list(dict.fromkeys(names)),
        "measured": lambda each: f"{each['value']:.3f} ± {each['se']:.3f}",
        "failed": [each for each in results["parts"] if not each["holds"]],
    }
    return shell.markdown("decide.md", content, __package__)


def main(given: Sequence[str] | None = None) -> None:
    """Decide as the command line asks."""
    parser = argparse.ArgumentParser(prog="python -m pages.decide", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("candidate", help="the name of the policy")
    parser.add_argument("folder", type=Path, help="where to write decision.json and decision.md")
    parser.add_argument("--half", choices=("development", "validation"), default="development")
    parser.add_argument("--data-seed", type=int, default=0, metavar="N")
    parser.add_argument("--trials", type=int, default=N_TRIALS, metavar="N")
    options = parser.parse_args(given)
    results = decide(options.candidate, options.half, data_seed=options.data_seed, n_trials=options.trials)
    results = json.loads(json.dumps(results, allow_nan=False))
    options.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(options.folder / NUMBERS, (json.dumps(results) + "\n").encode())
    write_atomically(options.folder / SECTION, text(results).encode())
    print(text(results))


if __name__ == "__main__":
    main()
