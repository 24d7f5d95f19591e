"""How often the 95 % interval of what choosing at random would cost holds: `python -m benchmarks.coverage`.

On logs of UMAB-W, for losses of several kinds, with and without a doubt that is shown. The saving against choosing at
random is what was paid, which is known, beside this estimate: its interval holds if this one does. The seeds are none
of those on which the thresholds of the doubts were chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab import offpolicy
from umab.algorithms.names import as_policy
from umab.engine.compiled import simulation_kernel
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.loops import N_LINKS, Record, Rings
from umab.engine.loops import Table as Rounds

N_ROUNDS, N_ARMS, N_LOGS = 2_000, 3, 1_000
FIRST_SEED = 10_000
Z = 1.959963984540054
ESTIMATORS = ("snips", "ips")

Table = npt.NDArray[np.float64]


class World(NamedTuple):
    """Losses of a kind; the mean over arms and rounds that they are drawn with is the truth."""

    draw: Callable[[np.random.Generator], Table]
    truth: float


def _changing(random: np.random.Generator) -> Table:
    half = np.tile(MEANS, (N_ROUNDS // 2, 1))
    return random.normal(np.concatenate([half, half[:, ::-1]]), 1.0)


def _log_normal(sigma: float) -> World:
    return World(lambda random: MEANS * random.lognormal(0.0, sigma, SHAPE), float(1.1 * np.exp(sigma**2 / 2.0)))


def _events(*chances: float) -> World:
    return World(lambda random: (random.random(SHAPE) < chances).astype(float), sum(chances) / N_ARMS)


SHAPE, MEANS = (N_ROUNDS, N_ARMS), np.array([1.0, 1.1, 1.2])
WORLDS = {
    "normal": World(lambda random: random.normal(MEANS, 1.0, SHAPE), 1.1),
    "normal, the best arm changes": World(_changing, 1.1),
    "events of 30 to 40 %": _events(0.3, 0.35, 0.4),
    "events of 5 to 10 %": _events(0.05, 0.075, 0.1),
    "events of 1 to 2 %": _events(0.01, 0.015, 0.02),
    "exponential": World(lambda random: random.exponential(MEANS, SHAPE), 1.1),
    "log-normal, σ = 1": _log_normal(1.0),
    "log-normal, σ = 1.5": _log_normal(1.5),
    "Pareto, index 1.5": World(lambda random: MEANS * (1.0 + random.pareto(1.5, SHAPE)), 3.3),
}
"""The kinds of losses, by what they are called."""


def player(name: str) -> Callable[[Table, int], dict[str, Any]]:
    """Return a function that plays a policy on a table of losses, with the draws of a seed, and returns the log.

    It is the simulation for late feedback, without delay: the ring of its open choices has a place for each round, and
    so keeps all probabilities.
    """
    policy = as_policy(name).for_horizon(N_ROUNDS)
    layout, kernel = layout_of(policy), simulation_kernel(policy, "late")
    start, blank = layout.start(policy, N_ARMS), blank_ticket(policy, layout, N_ARMS)

    def play(losses: Table, seed: int) -> dict[str, Any]:
        rings = Rings.of(1, blank, np.zeros((1, N_ROUNDS, 1), np.int64))._replace(
            probabilities=np.empty((1, N_ROUNDS)),
            links=np.full((1, N_LINKS, N_ROUNDS), -1),
            tickets=np.empty((1, N_ROUNDS, len(blank))),
        )
        record = Record.of(np.zeros((1, 1)), N_ROUNDS)
        uniforms = np.random.default_rng([seed, 1]).random((1, N_ROUNDS))
        kernel(start[None].copy(), uniforms, Rounds.of(losses, losses, np.zeros(N_ROUNDS)), rings, record)
        arms, probabilities = record.arms, rings.probabilities
        seen = losses[np.arange(N_ROUNDS), arms[0]]
        return {"arm": arms[0].tolist(), "probability": probabilities[0].tolist(), "loss": seen.tolist()}

    return play


def covered(
    play: Callable[[Table, int], dict[str, Any]], world: World, sign: float, seeds: range
) -> npt.NDArray[np.float64]:
    """Return estimators × logs × whether the interval holds, the normal one would, and a doubt is shown.

    In each of them 1 means yes.
    """
    found = np.empty((len(ESTIMATORS), len(seeds), 3))
    for at, seed in enumerate(seeds):
        log = play(sign * world.draw(np.random.default_rng([seed, 0])), seed)
        for row, estimator in enumerate(ESTIMATORS):
            each = offpolicy.estimate(log, [1.0 / N_ARMS] * N_ARMS, estimator=estimator)
            truth = sign * world.truth
            normal = abs(each.mean - truth) <= Z * each.standard_error
            found[row, at] = each.low <= truth <= each.high, normal, bool(each.doubts)
    return found


def main() -> None:
    """Print the table of docs/off-policy.md."""
    play = player("umab-w")
    print("| | as | normal | interval | no doubt | without doubt | ips: normal | interval | without doubt |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, world in WORLDS.items():
        for sign, unit in ((1.0, "losses"), (-1.0, "rewards")):
            found = covered(play, world, sign, range(FIRST_SEED, FIRST_SEED + N_LOGS))
            cells: list[str] = []
            for each in found:
                trusted = each[each[:, 2] == 0.0]
                share = [f"{len(trusted) / len(each):.1%}"] if not cells else []
                # Fewer than 20 logs say nothing about a frequency.
                holds = f"{trusted[:, 0].mean():.1%}" if len(trusted) >= 20 else "–"
                cells += [f"{each[:, 1].mean():.1%}", f"{each[:, 0].mean():.1%}", *share, holds]
            print(f"| {name} | {unit} | {' | '.join(cells)} |".replace("%", " %").replace("  %", " %"), flush=True)


if __name__ == "__main__":
    main()
