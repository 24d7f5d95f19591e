"""Many trials of policies on one loss table."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict, Unpack, get_args, overload

import numpy as np

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.algorithms.registry import is_known
from umab.engine import loops
from umab.engine.advised import advice_for
from umab.engine.compiled import simulation_kernel
from umab.engine.delays import Delays
from umab.engine.layout import blank_ticket, check_distribution, layout_of
from umab.engine.streams import numbers_needed, stream
from umab.engine.work import Curve, Device, Keep, Rows, Work, merge, result_of
from umab.results.among import costs_of
from umab.results.regret import TRIALS_A_BLOCK, mean_and_squares, pieces
from umab.results.result import Result
from umab.tables.advice import Advice
from umab.tables.losses import Losses, Table, refuse_away


class _Options(TypedDict, total=False):
    n_trials: int
    seed: int
    expected: bool
    keep: Keep
    delays: Any
    eligible: Any
    advice: Any
    device: Device
    n_threads: int | None
    progress: bool | Progress | None


@overload
def simulate(policies: Policy | str, losses: Any, **options: Unpack[_Options]) -> Result: ...


@overload
def simulate(policies: Iterable[Policy | str], losses: Any, **options: Unpack[_Options]) -> list[Result]: ...


def simulate(
    policies: Policy | str | Iterable[Policy | str],
    losses: Any = None,
    *,
    n_trials: int = 500,
    seed: int = 0,
    expected: bool = True,
    keep: Keep = "all",
    delays: Any = None,
    eligible: Any = None,
    advice: Any = None,
    device: Device = "cpu",
    n_threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Result | list[Result]:
    """Run a policy, or several, on a loss table, many times.

    Parameters
    ----------
    policies
        A policy or its name, for one Result; a list of them, for a list of Results.
    losses
        Rounds × arms: an array, a pandas or polars frame, the path of a CSV file (the names of the arms in its first
        line) or a Parquet file, or `Losses`.
    n_trials
        The number of trials. Trial i draws from its own stream, ``SeedSequence(seed, spawn_key=(i,))``, the same for
        every policy: neither other policies nor more trials or threads change what it draws.
    seed
        A whole number, at least 0.
    expected
        Which regret. True gives the expected regret (pseudo-regret): a round counts its expected loss ⟨p'_t, ℓ_t⟩ over
        the draw. False gives the sampled regret: a round counts the loss of the arm drawn. Both have the same mean, and
        the expected regret usually has the smaller error. (If arms are away, the means agree against each single arm,
        and the largest over arms need not.) The arms drawn are the same, bit for bit, and the time nearly so.
    keep
        ``"all"`` keeps the regret and the arm of every round of every trial: 8 bytes for an expected regret, and 1 for
        an arm if there are at most 256. ``"arms"`` keeps the arms but not the expected regret of every round;
        ``"summary"`` keeps the curves and the final regrets, so that a million trials fit into memory.
    delays
        How many rounds late the loss of a round arrives: a whole number; an array with one for each round; rounds ×
        arms of them, if the delay depends on the arm that is drawn, as run times do; or a function of a random
        generator and the number of rounds that returns such an array. The function is called for each trial, with a
        stream of its own. With delay d, the policy learns from the loss of round s before the draw of round s + d + 1.
        In an array, −1 says that the loss never comes: the draw is closed without one, at once. Losses that are due
        together arrive in the order of their draws, and choices still open at the end are forgotten. Every policy uses
        the probability at the time of the draw. None means no delay.
    eligible
        Which arms are there in which round: rounds × arms of booleans, an array or a frame, with at least one arm in
        every round. None means all arms always, except for arms that are away in `losses` itself, see `Losses.of`.
        Draws are made as by ``Learner.select(among=...)``, and regret is the largest over arms, each counted over the
        rounds in which it was there: see docs/arms.md. Policies that see the losses of all arms are refused.
    advice
        What experts advise, for a policy over experts such as ``"umab-e"``: rounds × experts × arms of probabilities,
        where a row of nan says that an expert abstains; or, smaller and faster, rounds × experts of arms, by their
        index, where −1 says so. At least one expert gives advice in every round. Regret is then against the best
        expert, over the rounds in which it gave advice, and not against the best arm.
    device
        ``"gpu"`` runs the trials on an NVIDIA GPU (extra ``gpu``), which pays from some hundred trials on. Trials
        draw from the same streams. The results of a policy that uses neither exponentials nor logarithms have the same
        bits as on a processor; those of others agree up to rounding: see docs/gpu.md.
    n_threads
        The number of threads; None uses one per core. No bit of the result depends on it, and a GPU needs none.
    progress
        Whether to show a progress bar; None shows one on a terminal. If you pass a `Progress`, it is advanced by 1 for
        every round of every trial, and stopping it ends the simulation with a CancelledError.

    Returns
    -------
    Result or list of Result
        The regret of every trial and round, its mean, standard deviation and error; a list for a list of policies.

    Examples
    --------
    >>> import numpy as np, umab
    >>> losses = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(1000, 3))
    >>> for result in umab.simulate(["umab-nn", "uniform"], losses, n_trials=100):
    ...     print(result)
    Result(umab-nn: expected regret 123.314 ± 3.53 after 1000 rounds, 100 trials)
    Result(uniform: expected regret 1378.55 ± 0 after 1000 rounds, 100 trials)
    """
    n_trials = checks.whole("n_trials", n_trials, least=1)
    seed = checks.whole("seed", seed, least=0)
    checks.one_of("keep", keep, get_args(Keep))
    checks.one_of("device", device, get_args(Device))
    n_threads = n_cores() if n_threads is None else checks.whole("n_threads", n_threads, least=1)
    single = isinstance(policies, str) or not isinstance(policies, Iterable)
    example = "umab.simulate(umab.recommended(), losses)"
    if isinstance(losses, Policy) or (isinstance(losses, str) and is_known(losses)):
        raise TypeError(
            f"losses must be a loss table, but got the policy {losses!r}; the policy comes first: {example}"
        )
    wanted = [as_policy(each, example) for each in ([policies] if single else policies)]  # type: ignore[union-attr]
    table = Losses.of(losses, eligible=eligible)
    advised = None if advice is None else Advice.of(advice, table.n_rounds, table.n_arms)
    wanted = [advice_for(each, advised, table, device) for each in wanted]
    for each in wanted:
        check_range(each, table)
    late = None if delays is None else Delays.of(delays, table.n_rounds, table.n_arms, may_never=True)
    shown: contextlib.AbstractContextManager[Progress] = (
        contextlib.nullcontext(progress)
        if isinstance(progress, Progress)
        else Progress(n_trials * len(wanted) * table.n_rounds, "simulating", progress, unit="rounds")
    )
    with shown as bar, _stoppable_pool(n_threads) as (pool, stop):
        costs = costs_of(table, advised)
        work = Work(table, advised, late, costs, n_trials, seed, bool(expected), keep, bar, stop)
        if device == "gpu":
            from umab.engine.gpu_trials import simulate_cells

            results = [result for each in wanted for result in simulate_cells([each], [work])]
        else:
            results = [_run(each, work, pool, n_threads) for each in wanted]
    return results[0] if single else results


def final_states(
    policy: Policy, losses: Losses, *, n_trials: int, seed: int, n_threads: int | None, progress: Progress
) -> Iterator[Any]:
    """Yield the state after the last round of each trial that `simulate` runs with these arguments."""
    n_threads = n_threads or n_cores()
    ready = policy.for_horizon(losses.n_rounds)
    layout = layout_of(ready)
    with _stoppable_pool(n_threads) as (pool, stop):
        work = Work(losses, None, None, costs_of(losses), n_trials, seed, False, "summary", progress, stop)
        for block in _blocks(ready, work, Rows(np.empty(n_trials), None, None), pool, n_threads):
            progress.advance(len(block.buffers) * losses.n_rounds)
            yield from map(layout.unpack, block.buffers)


@contextlib.contextmanager
def _stoppable_pool(n_threads: int) -> Iterator[tuple[ThreadPoolExecutor, threading.Event]]:
    """Yield threads, and the event that stops the work which they do in pieces; it is set if an error is raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            yield pool, stop
        except BaseException:  # Ctrl-C too: queued blocks are dropped, running blocks stop at the next piece
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


class _Block(NamedTuple):
    """The result of a block of trials: for each round, the mean and the sum of squared deviations from it; states."""

    trials: slice
    mean: Curve
    squares: Curve
    buffers: Table
    """The parameters and final states of the trials."""


def _run(policy: Policy, work: Work, pool: ThreadPoolExecutor, n_threads: int) -> Result:
    rows = Rows.of(work, policy)
    mean, squares = np.zeros(work.losses.n_rounds), np.zeros(work.losses.n_rounds)
    for block in _blocks(policy.for_horizon(work.losses.n_rounds), work, rows, pool, n_threads):
        done, new = block.trials.start, block.trials.stop - block.trials.start
        for piece in pieces(work.losses.n_rounds):
            merge(mean[piece], squares[piece], block.mean[piece], block.squares[piece], done, new)
        work.bar.advance(new * work.losses.n_rounds)
    return result_of(policy, work, rows, mean, squares)


def _blocks(policy: Policy, work: Work, rows: Rows, pool: ThreadPoolExecutor, n_threads: int) -> Iterator[_Block]:
    """Yield the blocks of trials in order; only a few are running or waiting at any time, so memory does not grow."""
    layout, n_rounds, n_arms = layout_of(policy), work.losses.n_rounds, work.losses.n_arms
    kernel, table = simulation_kernel(policy, work.kind), work.table()
    start, blank = layout.start(policy, n_arms), blank_ticket(policy, layout, n_arms)
    delays = Delays.of(0, n_rounds) if work.delays is None else work.delays

    def run(trials: slice) -> _Block:
        numbers = range(trials.start, trials.stop)
        streams = [np.random.Generator(stream(work.seed, trial)) for trial in numbers]
        buffers, spent = np.tile(start, (len(numbers), 1)), np.zeros((len(numbers), table.against.shape[1]))
        late = delays.of_trials(work.seed, numbers, n_rounds) if delays.given is None else delays.given[None]
        rings = loops.Rings.of(len(numbers), blank, late)
        mean, squares = np.empty(n_rounds), np.empty(n_rounds)
        for piece in pieces(n_rounds):
            work.go_on()
            uniforms = np.empty((len(numbers), numbers_needed(work.losses, piece)))
            for generator, row in zip(streams, uniforms, strict=True):
                generator.random(out=row)
            record = loops.Record.of(spent, piece.stop - piece.start, coins=policy.coin is not None)
            kernel(buffers, uniforms, table.rounds(piece), rings, record)
            mean[piece], squares[piece] = mean_and_squares(record.regret)
            rows.final[trials] = record.regret[:, -1]
            for kept, found in ((rows.arms, record.arms), (rows.coins, record.coins), (rows.regret, record.regret)):
                if kept is not None:
                    kept[trials, piece] = found
        check_distribution(policy, layout.probabilities(buffers))
        return _Block(trials, mean, squares, buffers)

    waiting: deque[Future[_Block]] = deque()
    for first in range(0, work.n_trials, TRIALS_A_BLOCK):
        waiting.append(pool.submit(run, slice(first, min(first + TRIALS_A_BLOCK, work.n_trials))))
        if len(waiting) > 2 * n_threads:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def check_range(policy: Policy, losses: Losses) -> None:
    """Refuse a table with a loss that the policy does not accept, or that it needs and that is not there; say where."""
    if policy.full_information:
        refuse_away(losses, policy.name)
    least, most = (np.argmin, np.argmax) if losses.eligible is None else (np.nanargmin, np.nanargmax)
    for at in (least(losses.table), most(losses.table)):
        row, column = divmod(int(at), losses.n_arms)
        refusal = policy.refusal(float(losses.table[row, column]), f"arm={losses.arms[column]!r} in row {row}")
        if refusal:
            raise ValueError(refusal)


def takes(policy: Policy, losses: Losses) -> bool:
    """Whether the policy accepts all losses of a table, and needs none that is not there."""
    if policy.full_information and losses.n_away:
        return False
    return not any(policy.refusal(float(end), "") for end in (losses.present.min(), losses.present.max()))


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
