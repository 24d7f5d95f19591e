"""An experiment with late feedback: a pool of copies of a policy.

Each draw is made by a copy without open feedback, so that none of its losses is late. If every copy waits for a loss,
the draw is made by one of those with the fewest open draws. Of several copies, it is the first.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

import umab
from umab.engine import compiled, loops
from umab.engine.delays import Delays
from umab.engine.kernels import charge, distribution, learn, load, load_parameters, note, store
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.loops import line_up
from umab.engine.simulate import n_cores
from umab.engine.streams import stream
from umab.maths.simplex import draw
from umab.results.regret import Costs

TRIALS_AT_ONCE = 25


def run_pool(
    buffers: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
    n_open: Any,
) -> None:
    """Play all rounds of some trials, as `umab.engine.loops.run_delayed` does, with copies of a policy.

    `n_open` has, for each trial and copy, how many of its draws are open. The rows of `buffers` are the copies of the
    first trial, then those of the second, and so on. The copy of a draw is in a fifth place of `links`.
    """
    n_rounds, n_arms = losses.shape
    n_copies, size = n_open.shape[1], links.shape[2]
    parameters = load_parameters(buffers[0])
    for trial in range(n_open.shape[0]):
        for t in range(n_rounds):
            copy = 0
            for other in range(n_copies):
                if n_open[trial, other] < n_open[trial, copy]:
                    copy = other
            buffer = buffers[trial * n_copies + copy]
            state = load(buffer, n_arms)
            (probabilities,) = distribution(state)
            arm = draw(probabilities, uniforms[trial, t])
            totals[trial] = charge(totals[trial], probabilities, costs, t, arm, expected)
            arms[trial, t] = arm
            regret[trial, t] = totals[trial] - best[t]
            place = t % size
            open_probabilities[trial, place] = probabilities[arm]
            store(note(parameters, state, arm, rooms[trial, place], rooms[trial, size]), buffer)
            links[trial, 0, place] = arm
            links[trial, 4, place] = copy
            n_open[trial, copy] += 1
            s = line_up(links, trial, t, delays[trial, t, min(arm, delays.shape[2] - 1)])
            while s >= 0:
                at = s % size
                buffer = buffers[trial * n_copies + links[trial, 4, at]]
                state, probability = load(buffer, n_arms), open_probabilities[trial, at]
                store(learn(parameters, state, links[trial, 0, at], losses, s, probability, rooms[trial, at]), buffer)
                n_open[trial, links[trial, 4, at]] -= 1
                s = links[trial, 1, at]


def play_pool(
    policy: umab.Policy, losses: umab.Losses, *, n_copies: int, delays: Any, n_trials: int, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return the final expected regret of each trial, and the arms, with the draws and delays of `umab.simulate`."""
    kernel, costs = _kernel(policy), Costs.of(losses)
    late, layout = Delays.of(delays, losses.n_rounds, losses.n_arms), layout_of(policy)
    start, blank = layout.start(policy, losses.n_arms), blank_ticket(policy, layout, losses.n_arms)

    def run(first: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
        trials = range(first, min(first + TRIALS_AT_ONCE, n_trials))
        n, shape = len(trials), (len(trials), losses.n_rounds)
        own = np.ascontiguousarray(late.of_trials(seed, trials, losses.n_rounds))
        size = int(own.max()) + 1
        uniforms = np.array([np.random.Generator(stream(seed, trial)).random(losses.n_rounds) for trial in trials])
        regret, arms = np.empty(shape), np.empty(shape, dtype=np.int32)
        rooms, buffers = np.tile(blank, (n, size + 1, 1)), np.tile(start, (n * n_copies, 1))
        open_choices = np.zeros((n, size)), np.full((n, 5, size), -1), np.zeros((n, n_copies), dtype=np.int64)
        compared = losses.table, costs.table, costs.best, True, np.zeros(n)
        kernel(buffers, rooms, uniforms, *compared, regret, arms, 0, own, *open_choices)
        return costs.in_losses(regret[:, -1].copy()), arms

    with ThreadPoolExecutor(n_cores()) as pool:
        regrets, arms = zip(*pool.map(run, range(0, n_trials, TRIALS_AT_ONCE)), strict=True)
    return np.concatenate(regrets), np.concatenate(arms)


def _kernel(policy: umab.Policy) -> Any:
    import numba.types as nb

    arguments = *compiled._common_arguments(), *compiled._arguments_of_delays(), nb.Array(nb.int64, 2, "C")
    return compiled._compile(run_pool, nb.void(*arguments), policy, loops.PARTS)
