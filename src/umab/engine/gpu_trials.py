"""Many trials on a GPU: what fits into its memory at a time, what comes back, and curves with the bits of a processor.

Trials are grouped into blocks. The regrets of a block are summed in the order of its trials, and blocks are
merged in their order, as in `umab.engine.simulate`. So a policy whose draws have the bits that they have on a processor
has the same curves, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.engine import gpu, loops
from umab.engine.delays import Delays
from umab.engine.gpu import OnDevice
from umab.engine.layout import blank_ticket, check_distribution, layout_of
from umab.engine.pcg import GENERATOR_SIZE, pool_of
from umab.engine.work import Curve, Rows, Work, merge, result_of
from umab.results.regret import TRIALS_A_BLOCK, mean_and_squares, pieces
from umab.results.result import Result

MOST_TRIALS = 2**32
"""The number of a trial has one word of 32 bits on a GPU."""
_MOST_THREADS = 1 << 20
_MOST_WORK = 1 << 32
"""How many arms times rounds times trials a launch may have: it cannot be interrupted, and should take no second."""


def simulate_cells(policies: Sequence[Policy], works: Sequence[Work]) -> list[Result]:
    """Return the result of each policy with its own work, which is a cell; cells that can run at once do.

    Works may differ in their tables only, which have the same shape, and policies in their parameters.
    """
    n_trials, n_rounds = works[0].n_trials, works[0].losses.n_rounds
    if n_trials > MOST_TRIALS:
        raise ValueError(f"n_trials must be at most {MOST_TRIALS} on a GPU, but got {n_trials}")
    device = _Device([each.for_horizon(n_rounds) for each in policies], works)
    kept = [Rows.of(work, policy) for policy, work in zip(policies, works, strict=True)]
    blocks = _Blocks.of(len(works), n_trials)
    n_blocks = len(blocks.cells)
    curves = gpu.on_device(np.zeros((len(works), n_rounds))), gpu.on_device(np.zeros((len(works), n_rounds)))
    at_once, n_piece = device.plan(n_blocks)
    for first in range(0, n_blocks, at_once):
        chunk = blocks.between(first, min(first + at_once, n_blocks))
        _play(device, chunk, kept, n_piece, curves)
    means, squares = (each.copy_to_host() for each in curves)
    if _ends_alone(n_rounds):
        _merge_last(blocks, [each.final for each in kept], means, squares)
    about = gpu.description()
    cells = zip(policies, works, kept, means, squares, strict=True)
    return [result_of(policy, work, own, mean, spread, about) for policy, work, own, mean, spread in cells]


class _Blocks(NamedTuple):
    """Blocks of trials, in order; a row of a thread belongs to each of their 32 places, used or not."""

    cells: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    """The first trial of each block."""
    sizes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, n_cells: int, n_trials: int) -> _Blocks:
        starts = np.arange(0, n_trials, TRIALS_A_BLOCK)
        first = np.tile(starts, n_cells)
        return cls(np.repeat(np.arange(n_cells), len(starts)), first, np.minimum(TRIALS_A_BLOCK, n_trials - first))

    def between(self, first: int, stop: int) -> _Blocks:
        return _Blocks(*(each[first:stop] for each in self))

    def of_cells(self) -> list[tuple[int, slice]]:
        """Return each cell that is here with its blocks."""
        edges = np.flatnonzero(np.diff(self.cells, prepend=-1, append=-1)).tolist()
        return [(int(self.cells[start]), slice(start, stop)) for start, stop in itertools.pairwise(edges)]

    def places(self) -> list[tuple[int, slice, slice]]:
        """Return each cell that is here with its trials, and with the threads that play them."""
        found = []
        for cell, blocks in self.of_cells():
            n_trials = int(self.sizes[blocks].sum())
            first, thread = int(self.first[blocks.start]), TRIALS_A_BLOCK * blocks.start
            found.append((cell, slice(first, first + n_trials), slice(thread, thread + n_trials)))
        return found

    def merging(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Curve, Curve]:
        """Return where the blocks of each cell begin and the last ones end, the cells, and the shares of the blocks."""
        cells, found = zip(*self.of_cells(), strict=True)
        starts = np.array([*(each.start for each in found), len(self.cells)])
        done, new = self.first.astype(np.float64), self.sizes.astype(np.float64)
        return starts, np.array(cells), new / (done + new), done * new / (done + new)


class _Device:
    """What stays on the device, whatever the trials: tables, parameters and compiled loops."""

    def __init__(self, policies: Sequence[Policy], works: Sequence[Work]) -> None:
        policy, self.work = policies[0], works[0]
        losses, kind = self.work.losses, self.work.kind
        self.policy, self.layout = policy, layout_of(policy)
        self.n_rounds, self.n_arms = losses.n_rounds, losses.n_arms
        starts = np.array([self.layout.start(each, self.n_arms) for each in policies])
        self.size = starts.shape[1]
        blank = blank_ticket(policy, self.layout, self.n_arms)
        self.blank = gpu.on_device(blank if len(blank) else np.zeros(1))
        self.ticket_size = max(1, len(blank))
        self.starts, self.pool = gpu.on_device(starts), gpu.on_device(pool_of(self.work.seed))
        self.late = None if kind == "plain" else self.work.delays or Delays.of(0, self.n_rounds)
        self.kernel = gpu.kernel_of(policy, self.n_arms, kind)
        tables = {id(work.losses): work.table() for work in works}
        self.tables = np.array([list(tables).index(id(work.losses)) for work in works])
        *arrays, first, expected = zip(*tables.values(), strict=True)
        self.n_columns = arrays[2][0].shape[1]
        seen = [gpu.on_device(np.stack(each)) for each in arrays]
        self.table = loops.Table._make([*seen, first[0], expected[0]])
        self.n_open = 1
        if self.late is not None:
            # The longest delay that a trial may have decides how large the rings are; functions may draw any.
            self.n_open = self.n_rounds + 1 if self.late.given is None else max(0, int(self.late.given.max())) + 1

    @property
    def bytes_of_trial(self) -> int:
        """The memory that a trial takes, whatever the rounds."""
        found: int = 8 * (self.size + GENERATOR_SIZE + self.n_columns + 1)
        if self.late is not None:
            found += 8 * self.n_open * (1 + loops.N_LINKS + self.ticket_size)
            found += 8 * self.n_rounds * self.n_arms if self.late.given is None else 0  # functions may draw so many
        return found

    def plan(self, n_blocks: int) -> tuple[int, int]:
        """Return how many blocks and how many rounds are played at a time, so that all of it fits into memory."""
        most = gpu.free_memory() // 2
        # In each round: its regret, its arm, and 1/32 of a mean and of a sum of squares.
        of_round = 8 + np.min_scalar_type(self.n_arms - 1).itemsize + 1
        n_threads = min(TRIALS_A_BLOCK * n_blocks, _MOST_THREADS)
        least = min(self.n_rounds, 64)
        n_threads = min(n_threads, most // (self.bytes_of_trial + least * of_round))
        if n_threads < TRIALS_A_BLOCK:
            needed = TRIALS_A_BLOCK * (self.bytes_of_trial + least * of_round)
            raise MemoryError(
                f"{TRIALS_A_BLOCK} trials must fit into half of the free memory of the GPU, which is {most} bytes, but "
                f"they need {needed}"
            )
        n_threads -= n_threads % TRIALS_A_BLOCK
        n_piece = min(
            self.n_rounds,
            (most // n_threads - self.bytes_of_trial) // of_round,
            max(least, _MOST_WORK // (n_threads * self.n_arms)),
        )
        return n_threads // TRIALS_A_BLOCK, int(n_piece)

    def rings(self, blocks: _Blocks) -> loops.Rings:
        """Return rings on the device, which are empty once trials begin."""
        if self.late is None:  # each thread has its own place
            nothing = loops.Rings.of(1, np.zeros(1), np.zeros((1, 1, 1), dtype=np.int64))
            return loops.Rings._make([*map(gpu.on_device, nothing[:-1]), self.blank])
        n_threads = TRIALS_A_BLOCK * len(blocks.cells)
        links = gpu.empty((n_threads, loops.N_LINKS, self.n_open), np.int64, "F")
        probabilities = gpu.empty((n_threads, self.n_open), np.float64, "F")
        tickets = gpu.empty((n_threads, self.n_open, self.ticket_size), np.float64, "F")
        return loops.Rings._make([gpu.on_device(self.delays_of(blocks)), probabilities, links, tickets, self.blank])

    def delays_of(self, blocks: _Blocks) -> npt.NDArray[np.int64]:
        """Return the delays of each trial, or one row for all: rows × rounds × 1, or rows × rounds × arms."""
        assert self.late is not None
        if self.late.given is not None:
            return self.late.given[None]
        late, seed, places = self.late, self.work.seed, blocks.places()
        drawn = [late.of_trials(seed, range(each.start, each.stop), self.n_rounds) for _, each, _ in places]
        n_delays = max(each.shape[2] for each in drawn)
        found = np.zeros((TRIALS_A_BLOCK * len(blocks.cells), self.n_rounds, n_delays), dtype=np.int64)
        for (_, _, of_threads), each in zip(places, drawn, strict=True):
            found[of_threads] = each
        return found


def _play(
    device: _Device, blocks: _Blocks, kept: Sequence[Rows], n_piece: int, curves: tuple[OnDevice, OnDevice]
) -> None:
    """Play all rounds of some blocks."""
    n_blocks = len(blocks.cells)
    n_threads = TRIALS_A_BLOCK * n_blocks
    # Threads that run together read neighbouring numbers if the trial is what changes first in memory.
    buffers = gpu.empty((n_threads, device.size), np.float64, "F")
    generators = gpu.empty((n_threads, GENERATOR_SIZE), np.int64, "F")
    given = blocks.cells, blocks.first, device.tables[blocks.cells]
    cells, first_trials, tables = (gpu.on_device(each) for each in given)
    spent, rings = gpu.on_device(np.zeros((n_threads, device.n_columns))), device.rings(blocks)
    gpu.BEGIN(n_threads, buffers, generators, rings.links, device.starts, cells, device.pool, first_trials)
    arm_type = np.min_scalar_type(device.n_arms - 1)
    n_played = int(blocks.sizes.sum())
    places, sizes = blocks.places(), gpu.on_device(blocks.sizes)
    merging = [gpu.on_device(each) for each in blocks.merging()]
    for first in range(0, device.n_rounds, n_piece):
        stop = min(first + n_piece, device.n_rounds)
        regret = gpu.empty((n_threads, stop - first), np.float64, "C")
        arms = gpu.empty((n_threads, stop - first), arm_type, "C")
        coins = gpu.empty((n_threads, 1 if device.policy.coin is None else stop - first), np.int8, "C")
        record = loops.Record._make([spent, regret, arms, coins])
        device.kernel(n_threads, buffers, generators, tables, device.table, rings, record, first, stop)
        means, squares = (gpu.empty((n_blocks, stop - first), np.float64, "C") for _ in range(2))
        gpu.SUM_BLOCKS((stop - first, n_blocks), regret, sizes, means, squares)
        gpu.MERGE_BLOCKS((stop - first, len(places)), means, squares, *merging, *curves, first)
        gpu.wait()
        for name, found in (("arms", arms), ("regret", regret), ("coins", coins)):
            if getattr(kept[0], name) is not None:
                rows = found.copy_to_host()
                for cell, trials, of_threads in places:
                    getattr(kept[cell], name)[trials, first:stop] = rows[of_threads]
        device.work.bar.advance(n_played * (stop - first))
        device.work.go_on()
    final, broken = gpu.empty((n_threads,), np.float64, "C"), gpu.empty((n_threads,), np.int64, "C")
    policy, layout, n_arms = device.policy, device.layout, device.n_arms
    lowest = 0.0 if policy.plays_each_arm_first else math.ulp(0.0)
    gpu.FINISH(n_threads, regret, buffers, layout.first_probability(n_arms), n_arms, lowest, final, broken)
    last = final.copy_to_host()
    for cell, trials, of_threads in places:
        kept[cell].final[trials] = last[of_threads]
    wrong = np.flatnonzero(broken.copy_to_host())
    if len(wrong):
        check_distribution(policy, layout.probabilities(buffers.copy_to_host()[wrong]))


def _ends_alone(n_rounds: int) -> bool:
    """Whether a processor has the last round in a piece of its own, whose trials NumPy sums in another order."""
    last = list(pieces(n_rounds))[-1]
    return bool(last.stop - last.start == 1)


def _merge_last(blocks: _Blocks, finals: Sequence[Curve], mean: Curve, squares: Curve) -> None:
    """Take the last round into the curves as a processor does that has it in a piece of its own."""
    mean[:, -1] = squares[:, -1] = 0.0
    for cell, first, size in zip(*(each.tolist() for each in blocks), strict=True):
        of_block = mean_and_squares(finals[cell][first : first + size, None])
        merge(mean[cell, -1:], squares[cell, -1:], *of_block, first, size)
