"""The kernels of a GPU, one thread for each trial, with names left open; `umab.engine.gpu` fills them in.

They are thin: they find the place of a thread, and call the loop of `umab.engine.loops` for it. A row of `buffers`,
`generators` and what is in `Rings` and `Record` belongs to a thread. Threads come in blocks, and an entry of `tables`
belongs to a block: trials on several tables, which `Table` has all, can run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from umab.engine.layout import Buffer
from umab.engine.loops import OPEN, Record, Rings, Table, Whole, of_record, of_trial
from umab.engine.pcg import GENERATOR_SIZE, seed_generator
from umab.results.regret import TRIALS_A_BLOCK

# The open names of this file.
cuda: ModuleType = OPEN
float64: object = OPEN
int64: object = OPEN
play_trial: Callable[..., None] = OPEN  # that of `umab.engine.loops`
rings_of: Callable[[Rings, int, Buffer], Rings] = OPEN  # `rings_at_once` or `rings_when_due`
buffer_of: Callable[[Buffer, Buffer], tuple[Buffer]] = OPEN  # `in_thread` or `in_device`
N_ARMS: int = 0
SIZE: int = 0  # of the buffer of a trial if it is in the memory of its thread; else 1, as no array can be empty
TICKET_SIZE: int = 0


def begin(
    buffers: Buffer, generators: Whole, links: Whole, starts: Buffer, start_of: Whole, pool: Whole, first_of: Whole
) -> None:
    """Fill in the buffers and the generators of trials that have not begun; empty their rings, if they have any."""
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
    if at < links.shape[0]:
        for kind in range(links.shape[1]):
            for place in range(links.shape[2]):
                links[at, kind, place] = -1


def play_trials(
    buffers: Buffer, generators: Whole, tables: Whole, table: Table, rings: Rings, record: Record, first: int, stop: int
) -> None:
    """Play the rounds from `first` to before `stop`; the place of a ticket is in the memory of the thread."""
    at = cuda.grid(1)
    if at < buffers.shape[0]:
        (buffer,) = buffer_of(buffers[at], cuda.local.array(SIZE, float64))
        generator = cuda.local.array(GENERATOR_SIZE, int64)
        for k in range(GENERATOR_SIZE):
            generator[k] = generators[at, k]
        k = tables[at // TRIALS_A_BLOCK]
        rows = slice(first, stop)
        parts = table.costs[k, rows], table.there[k, rows], table.against[k, rows], table.advice[k, rows]
        seen = Table(table.losses[k], parts[0], parts[1], parts[2], parts[3], first, table.expected)
        own = rings_of(rings, at, cuda.local.array((1, TICKET_SIZE), float64))
        play_trial(N_ARMS, stop - first, buffer, generator, seen, own, of_record(record, at))
        for k in range(GENERATOR_SIZE):
            generators[at, k] = generator[k]
        for k in range(SIZE):
            buffers[at, k] = buffer[k]


def in_thread(buffer: Buffer, room: Buffer) -> tuple[Buffer]:
    """Return a copy in the memory of the thread, as a tuple: no vector can be returned."""
    for k in range(SIZE):
        room[k] = buffer[k]
    return (room,)


def in_device(buffer: Buffer, room: Buffer) -> tuple[Buffer]:
    """Return what is in the memory of the device: it is too large for that of the thread."""
    return (buffer,)


def rings_at_once(rings: Rings, at: int, room: Buffer) -> Rings:
    """Return the rings of a thread whose losses are never late: one place, in its own memory."""
    return Rings(rings.delays[0], rings.probabilities[0], rings.links[0], room, rings.blank)


def rings_when_due(rings: Rings, at: int, room: Buffer) -> Rings:
    """Return the rings of a thread."""
    return of_trial(rings, at)


def sum_blocks(regret: Buffer, sizes: Whole, means: Buffer, squares: Buffer) -> None:
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
    means: Buffer,
    squares: Buffer,
    starts: Whole,
    cells: Whole,
    shares: Buffer,
    weights: Buffer,
    curve: Buffer,
    spread: Buffer,
    first: int,
) -> None:
    """Merge blocks into the curves of their cells: those from starts[k] to starts[k + 1] are of cells[k]."""
    t, k = cuda.grid(2)
    if t < means.shape[1] and k < cells.shape[0]:
        cell = cells[k]
        mean, total = curve[cell, first + t], spread[cell, first + t]
        for block in range(starts[k], starts[k + 1]):
            # As `umab.engine.work.merge`.
            gap = means[block, t] - mean
            mean += gap * shares[block]
            total += squares[block, t] + gap * gap * weights[block]
        curve[cell, first + t] = mean
        spread[cell, first + t] = total


def finish(
    regret: Buffer, buffers: Buffer, first: int, n_arms: int, lowest: float, final: Buffer, broken: Whole
) -> None:
    """Take the last column, and find the trials that an update has left without a distribution."""
    at = cuda.grid(1)
    if at < final.shape[0]:
        final[at] = regret[at, regret.shape[1] - 1]
        total, positive = 0.0, True
        for k in range(n_arms):
            probability = buffers[at, first + k]
            total += probability
            positive = positive and probability >= lowest
        broken[at] = 0 if positive and abs(total - 1.0) < 1e-9 else 1


def contract(factors: Buffer, out: Buffer) -> None:
    """Multiply and add: a GPU may round once, which is not exact enough."""
    out[0] = factors[0] * factors[1] + factors[2]
