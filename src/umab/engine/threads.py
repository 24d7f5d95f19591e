"""The kernels of a GPU, one thread for each trial, with names left open; `umab.engine.gpu` fills them in.

They are thin: they find the place of a thread, and call the loops of `umab.engine.loops` for it. A row of `buffers`,
`generators`, `regret` and `arms` and an entry of `totals` belong to a thread. Threads come in blocks, and an
entry of `tables` belongs to a block: trials on several tables can run at once.
"""

from __future__ import annotations

from typing import Any

from umab.engine.pcg import GENERATOR_SIZE, seed_generator
from umab.results.regret import TRIALS_A_BLOCK

# The open names of this file.
cuda: Any = None
float64: Any = None
int64: Any = None
rounds: Any = None  # `play_trial`, `play_delayed` or `play_among`
N_ARMS: int = 0
SIZE: int = 0  # of the buffer of a trial
TICKET_SIZE: int = 0


def begin(buffers: Any, generators: Any, starts: Any, start_of: Any, pool: Any, first_of: Any) -> None:
    """Fill in the buffers and the generators of trials that have not begun."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        block = at // TRIALS_A_BLOCK
        start = start_of[block]
        for k in range(buffers.shape[1]):
            buffers[at, k] = starts[start, k]
        generator = cuda.local.array(GENERATOR_SIZE, int64)
        seed_generator(generator, pool, first_of[block] + at % TRIALS_A_BLOCK)
        for k in range(GENERATOR_SIZE):
            generators[at, k] = generator[k]


def run_in_thread(
    buffers: Any,
    generators: Any,
    tables: Any,
    blank: Any,
    losses: Any,
    costs: Any,
    best: Any,
    first: int,
    stop: int,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
) -> None:
    """Play some rounds, with the state in the memory of the thread."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        table = tables[at // TRIALS_A_BLOCK]
        buffer = cuda.local.array(SIZE, float64)
        room = cuda.local.array(TICKET_SIZE, float64)
        generator = cuda.local.array(GENERATOR_SIZE, int64)
        for k in range(SIZE):
            buffer[k] = buffers[at, k]
        for k in range(GENERATOR_SIZE):
            generator[k] = generators[at, k]
        seen, counted, least = losses[table, first:stop], costs[table, first:stop], best[table, first:stop]
        rounds(at, N_ARMS, buffer, room, blank, generator, seen, counted, least, expected, totals, regret, arms)
        for k in range(SIZE):
            buffers[at, k] = buffer[k]
        for k in range(GENERATOR_SIZE):
            generators[at, k] = generator[k]


def run_in_device(
    buffers: Any,
    generators: Any,
    tables: Any,
    blank: Any,
    losses: Any,
    costs: Any,
    best: Any,
    first: int,
    stop: int,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
) -> None:
    """Play some rounds, with the state in the memory of the device."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        table = tables[at // TRIALS_A_BLOCK]
        room = cuda.local.array(TICKET_SIZE, float64)
        generator = cuda.local.array(GENERATOR_SIZE, int64)
        for k in range(GENERATOR_SIZE):
            generator[k] = generators[at, k]
        seen, counted, least = losses[table, first:stop], costs[table, first:stop], best[table, first:stop]
        rounds(at, N_ARMS, buffers[at], room, blank, generator, seen, counted, least, expected, totals, regret, arms)
        for k in range(GENERATOR_SIZE):
            generators[at, k] = generator[k]


def run_delayed(
    buffers: Any,
    generators: Any,
    tables: Any,
    rooms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    first: int,
    stop: int,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds with late feedback. If all trials have the same delays, `delays` has them once."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        table = tables[at // TRIALS_A_BLOCK]
        generator = cuda.local.array(GENERATOR_SIZE, int64)
        for k in range(GENERATOR_SIZE):
            generator[k] = generators[at, k]
        own = delays[at if delays.shape[0] > 1 else 0, first:stop]
        rounds(
            at,
            N_ARMS,
            buffers[at],
            rooms,
            generator,
            losses[table],
            costs[table, first:stop],
            best[table, first:stop],
            expected,
            totals,
            regret,
            arms,
            first,
            own,
            open_probabilities,
            links,
        )
        for k in range(GENERATOR_SIZE):
            generators[at, k] = generator[k]


def run_among(
    buffers: Any,
    generators: Any,
    rooms: Any,
    losses: Any,
    costs: Any,
    eligible: Any,
    against: Any,
    first: int,
    stop: int,
    expected: bool,
    spent: Any,
    regret: Any,
    arms: Any,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds in which some arms are away, on one table."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        generator = cuda.local.array(GENERATOR_SIZE, int64)
        for k in range(GENERATOR_SIZE):
            generator[k] = generators[at, k]
        own = delays[at if delays.shape[0] > 1 else 0, first:stop]
        rounds(
            at,
            N_ARMS,
            buffers[at],
            rooms,
            generator,
            losses,
            costs[first:stop],
            eligible[first:stop],
            against[first:stop],
            expected,
            spent,
            regret,
            arms,
            first,
            own,
            open_probabilities,
            links,
        )
        for k in range(GENERATOR_SIZE):
            generators[at, k] = generator[k]


def sum_blocks(regret: Any, sizes: Any, means: Any, squares: Any) -> None:
    """Find what `umab.results.regret.mean_and_squares` does, for each block in each round, in the order of trials."""
    t, block = cuda.grid(2)
    if t < regret.shape[1] and block < sizes.shape[0]:
        size, first = sizes[block], TRIALS_A_BLOCK * block
        start, total = regret[first, t], 0.0
        for k in range(1, size):
            total += regret[first + k, t] - start
        above = total / size
        total = above * above
        for k in range(1, size):
            gap = regret[first + k, t] - start - above
            total += gap * gap
        means[block, t] = start + above
        squares[block, t] = total


def merge_blocks(
    means: Any, squares: Any, starts: Any, cells: Any, shares: Any, weights: Any, curve: Any, spread: Any, first: int
) -> None:
    """Merge blocks into the curves of their cells: those from starts[k] to starts[k + 1] are of cells[k]."""
    t, k = cuda.grid(2)
    if t < means.shape[1] and k < cells.shape[0]:
        cell = cells[k]
        mean, total = curve[cell, first + t], spread[cell, first + t]
        for block in range(starts[k], starts[k + 1]):
            # Chan, Golub and LeVeque 1979: merge two means and two sums of squared deviations.
            gap = means[block, t] - mean
            mean += gap * shares[block]
            total += squares[block, t] + gap * gap * weights[block]
        curve[cell, first + t] = mean
        spread[cell, first + t] = total


def last_round(regret: Any, final: Any) -> None:
    """Take the last column."""
    at = cuda.grid(1)
    if at < final.shape[0]:
        final[at] = regret[at, regret.shape[1] - 1]


def find_broken(buffers: Any, first: int, n_arms: int, lowest: float, broken: Any) -> None:
    """Find the trials that an update has left without a distribution."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        total, positive = 0.0, True
        for k in range(n_arms):
            probability = buffers[at, first + k]
            total += probability
            positive = positive and probability >= lowest
        broken[at] = 0 if positive and abs(total - 1.0) < 1e-9 else 1


def contract(factors: Any, out: Any) -> None:
    """Multiply and add: a GPU may round once, which is not exact enough."""
    out[0] = factors[0] * factors[1] + factors[2]


def begin_delayed(rooms: Any, blank: Any, links: Any) -> None:
    """Empty the rings of open choices, and put a blank ticket where the loop looks for one."""
    at = cuda.grid(1)
    if at < links.shape[0]:
        for k in range(blank.shape[0]):
            rooms[at, rooms.shape[1] - 1, k] = blank[k]
        for kind in range(links.shape[1]):
            for place in range(links.shape[2]):
                links[at, kind, place] = -1
