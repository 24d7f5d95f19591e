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
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.loops import (
    ACCOUNT,
    ARM,
    NEXT,
    charge,
    distribution,
    learn_due,
    line_up,
    load,
    load_parameters,
    note,
    of_trial,
    pick,
    store,
)
from umab.engine.simulate import n_cores
from umab.engine.streams import stream
from umab.results.regret import Costs

TRIALS_AT_ONCE = 25


def run_pool(
    buffers: Any, uniforms: Any, table: loops.Table, rings: loops.Rings, record: loops.Record, n_open: Any, copies: Any
) -> None:
    """Play all rounds of some trials, as `umab.engine.loops.run` does with late feedback, with copies of a policy.

    The rows of `buffers` are the copies of the first trial, then those of the second, and so on. `n_open` has, for each
    trial and copy, how many of its draws are open; `copies` has, for each trial and place of a ring, whose draw it is.
    """
    n_rounds, n_arms = table.costs.shape
    n_copies, size = n_open.shape[1], copies.shape[1]
    parameters = load_parameters(buffers[0])
    for trial in range(n_open.shape[0]):
        own = of_trial(rings, trial)
        for t in range(n_rounds):
            copy = 0
            for other in range(n_copies):
                if n_open[trial, other] < n_open[trial, copy]:
                    copy = other
            buffer = buffers[trial * n_copies + copy]
            state = load(buffer, n_arms)
            (probabilities,) = distribution(state)
            arm, _, probability, _, _ = pick(probabilities, table, t, uniforms[trial], t)
            record.arms[trial, t] = arm
            record.regret[trial, t] = charge(record.spent[trial], probabilities, table, t, arm)
            place = t % size
            own.probabilities[place] = probability
            store(note(parameters, state, arm, (), own.tickets[place], own.blank), buffer)
            own.links[ARM, place], own.links[ACCOUNT, place], copies[trial, place] = arm, arm, copy
            n_open[trial, copy] += 1
            s = line_up(own.links, t, own.delays[t, min(arm, own.delays.shape[1] - 1)])
            while s >= 0:
                at = s % size
                buffer = buffers[trial * n_copies + copies[trial, at]]
                store(learn_due(parameters, load(buffer, n_arms), s, at, table, own), buffer)
                n_open[trial, copies[trial, at]] -= 1
                s = own.links[NEXT, at]


def play_pool(
    policy: umab.Policy, losses: umab.Losses, *, n_copies: int, delays: Any, n_trials: int, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return the final expected regret of each trial, and the arms, with the draws and delays of `umab.simulate`."""
    kernel, costs = _kernel(policy), Costs.of(losses)
    late, layout = Delays.of(delays, losses.n_rounds, losses.n_arms), layout_of(policy)
    table = loops.Table.of(losses.table, costs.table, costs.best, expected=True)
    start, blank = layout.start(policy, losses.n_arms), blank_ticket(policy, layout, losses.n_arms)

    def run(first: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
        trials = range(first, min(first + TRIALS_AT_ONCE, n_trials))
        n = len(trials)
        rings = loops.Rings.of(n, blank, late.of_trials(seed, trials, losses.n_rounds))
        uniforms = np.array([np.random.Generator(stream(seed, trial)).random(losses.n_rounds) for trial in trials])
        record = loops.Record.of(np.zeros((n, 1)), losses.n_rounds)
        n_open, copies = np.zeros((n, n_copies), dtype=np.int64), np.zeros((n, rings.links.shape[2]), dtype=np.int64)
        kernel(np.tile(start, (n * n_copies, 1)), uniforms, table, rings, record, n_open, copies)
        return costs.in_losses(record.regret[:, -1].copy()), record.arms

    with ThreadPoolExecutor(n_cores()) as pool:
        regrets, arms = zip(*pool.map(run, range(0, n_trials, TRIALS_AT_ONCE)), strict=True)
    return np.concatenate(regrets), np.concatenate(arms)


def _kernel(policy: umab.Policy) -> Any:
    import numba.types as nb

    of_copies = nb.Array(nb.int64, 2, "C")
    signature = *compiled.signature_of("late"), of_copies, of_copies
    return compiled._compile(run_pool, signature, policy, "late", parts={"uniform_of": loops.given_uniform})
