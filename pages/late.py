"""What late feedback costs, measured: policies on loss tables with delays of several kinds and lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from pages.pool import play_pool
from umab._support.progress import Progress
from umab.datasets.suite_tables import entries
from umab.engine.simulate import takes
from umab.engine.work import versions
from umab.research.experiments.contest import RECOMMENDED, STEADY
from umab.research.experiments.runner import Summary
from umab.research.experiments.tracking import smallest_cost, told
from umab.results.regret import mean_and_sd

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
    "tsallis-inf-d",
)
"""Who plays, by name; a policy is left out on a table that it refuses. One that needs a range is told that of the
table; it is shown as a yardstick, and never said to be the one to take."""

WITHOUT = {"bursts": f"{RECOMMENDED}:attention=none", "trials: restarts are kept": f"{RECOMMENDED}:restarts=kept"}
"""The recommended policy with one ingredient off, by what is off; with constant delays only."""


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


def players(world: World, policies: Sequence[str] | None = None) -> dict[str, umab.Policy]:
    """Return the policies that accept the losses of a table, by name."""
    names = POLICIES if policies is None else policies
    found = {name: told(umab.policy(name), world.losses, len(world.starts)) for name in names}
    return {name: policy for name, policy in found.items() if takes(policy, world.losses)}


def measure(
    n_trials: int = N_TRIALS,
    shares: Sequence[float] = SHARES,
    tables: Mapping[str, World] | None = None,
    policies: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Play all tables with all policies and delays, or with these policies only, and return the scores."""
    tables = worlds() if tables is None else tables
    played: dict[str, dict[str, dict[str, Scores]]] = {}
    n_cells = len(shares) * sum(
        len(_contenders(world, id, policies)) for world in tables.values() for id, _ in _kinds_for(world)
    )
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
                for name, policy in _contenders(world, kind_id, policies).items():
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


def _contenders(world: World, kind: str, policies: Sequence[str] | None) -> dict[str, umab.Policy]:
    """Return who plays a table with delays of a kind."""
    if policies is not None:
        return players(world, policies)
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
