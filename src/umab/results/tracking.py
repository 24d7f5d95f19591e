"""The best sequence of arms that changes at most so many times, and the regret against it.

Round by round, the program knows the smallest cost of a sequence that is now at arm k after at most s switches, for
every k and s. Such a sequence was at k before, or it comes from the cheapest sequence with at most s − 1 switches. All
sums are along one sequence. Differences of running sums would be faster, but a large cost that the sequence avoids
would take away its digits, and laws such as "more switches never cost more" would hold only up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab.results.regret import Costs
from umab.tables.losses import Losses, Table, refuse_away

Regrets = npt.NDArray[np.float64]
Segments = list[tuple[int, int]]
"""The first round of each segment, and its arm."""


class BestSequence(NamedTuple):
    """A sequence of arms with the smallest total loss; `umab.best_sequence` returns it.

    Attributes
    ----------
    starts
        The rounds, counted from 0, in which its segments start: round 0, and every round in which the arm changes.
    arms
        The arm of each segment, as the index of a column of the losses.
    total
        The loss of the sequence over all rounds.
    """

    starts: npt.NDArray[np.int64]
    arms: npt.NDArray[np.int64]
    total: float


def best_sequence(losses: object, switches: int) -> BestSequence:
    """Return the best sequence of arms that changes at most so many times, and where it changes.

    Among sequences with the same total, it is one with the fewest switches. It takes time proportional to rounds × arms
    × switches, and memory proportional to rounds × switches.

    Parameters
    ----------
    losses
        Rounds × arms, in any form that `umab.simulate` takes. All arms must be there in all rounds.
    switches
        How many times the arm may change, a whole number of at least 0.

    Examples
    --------
    >>> import numpy as np, umab
    >>> losses = np.random.default_rng(0).normal([0.0, 1.0, 2.0], size=(900, 3))
    >>> losses[300:600] = losses[300:600, ::-1]  # the first arm is the worst for a while
    >>> starts, arms, total = umab.best_sequence(losses, switches=2)
    >>> starts.tolist(), arms.tolist()
    ([0, 300, 600], [0, 2, 0])
    """
    return best_sequences(Losses.of(losses), [switches])[0]


def best_sequences(losses: Losses, allowed: Sequence[int]) -> list[BestSequence]:
    """Return the best sequence for each number of switches allowed, from one pass over the rounds."""
    most = max(checks.whole("switches", each, least=0) for each in allowed)
    table = _costs(losses).table
    free = _free(table)
    needed = len(free) - 1
    if needed:
        trace = _Trace(losses.n_rounds, losses.n_arms, min(most, needed - 1))
        paid = _cheapest(table, trace.switches, trace)
    return [_described(losses, free if each >= needed else trace.segments(paid, each)) for each in allowed]


def tracking_regret(
    final_regret: Regrets, losses: Losses, switches: int, arms: npt.NDArray[np.integer] | None = None
) -> Regrets:
    """Return the regret of every trial against the best sequence with at most so many switches.

    Parameters
    ----------
    final_regret
        R_T of every trial, against the best single arm; of any shape if there are no `arms`.
    losses
        The loss table of the trials.
    switches
        How many times the sequence may change its arm.
    arms
        The arms drawn (n_trials × T), if R_T is sampled regret. They matter only where R_T is too far below 0 for a
        double; without them, the result is nan there.
    """
    switches = checks.whole("switches", switches, least=0)
    costs = _costs(losses)
    least = 0.0 if switches >= len(_free(costs.table)) - 1 else float(_cheapest(costs.table, switches)[:, -1].min())
    saved = costs.best[-1] - least
    if saved == 0.0:
        return final_regret.copy()
    # In the unit of the costs: what the sequence saves may be too large for a double although the regret is not.
    counted = np.ldexp(final_regret, -costs.exponent) + saved
    lost = np.isneginf(final_regret)
    if lost.any():
        counted[lost] = np.nan if arms is None else costs.spent(arms[lost]) - least
    return costs.in_losses(counted)


def _costs(losses: Losses) -> Costs:
    """Return the costs of a loss table; refuse one in which some arms are away.

    There, regret compares each arm with the rounds in which it was there, so which sequence is best depends on what
    each trial paid in each round, and expected regret does not keep that.
    """
    refuse_away(losses, "tracking regret")
    return Costs.of(losses)


def _cheapest(table: Table, switches: int, trace: _Trace | None = None) -> Table:
    """Return what the cheapest sequences cost that end at each arm, with at most 0, 1, ..., `switches` switches."""
    paid = np.zeros((table.shape[1], switches + 1))
    stay, leave, least = paid[:, 1:], paid[:, :-1], np.empty(switches)
    for t, costs in enumerate(table[:, :, None]):
        np.minimum.reduce(leave, axis=0, out=least)
        if trace is not None:
            trace.note(t, paid, least < stay)
        np.minimum(stay, least, out=stay)
        np.add(paid, costs, out=paid)
    return paid


class _Trace:
    """Where the cheapest sequences come from, noted round by round, so that they can be read off at the end.

    It has, for each round t and number of switches s, the arm of the cheapest sequence before t with at most s
    switches, and the start of its last segment. The segment before that is the last one of the cheapest sequence
    before that start, with one switch less.
    """

    def __init__(self, n_rounds: int, n_arms: int, switches: int) -> None:
        self.switches = switches
        self._started = np.zeros((n_arms, switches + 1), dtype=np.int32)
        self._last = np.empty((n_rounds, switches + 1, 2), dtype=np.int32)
        self._levels = np.arange(switches + 1)

    def note(self, t: int, paid: Table, changes: npt.NDArray[np.bool_]) -> None:
        """Note the cheapest sequences before round `t`, and which sequences change their arm in it."""
        arms = paid.argmin(axis=0)
        self._last[t, :, 0] = arms
        self._last[t, :, 1] = self._started[arms, self._levels]
        np.copyto(self._started[:, 1:], t, where=changes)

    def segments(self, paid: Table, allowed: int) -> Segments:
        """Return the cheapest sequence of all rounds; `paid` is what `_cheapest` returned."""
        totals = paid.min(axis=0)
        level = int((totals == totals[allowed]).argmax())  # the fewest switches with the same total
        arm = int(paid[:, level].argmin())
        start = int(self._started[arm, level])
        found = [(start, arm)]
        while start > 0:
            level -= 1
            arm, start = self._last[start, level].tolist()
            found.append((start, arm))
        return found[::-1]


def _free(table: Table) -> Segments:
    """Return a sequence that takes a cheapest arm in every round, with as few switches as possible."""
    cheapest = table == 0.0  # the costs of a round are minus its smallest
    found: Segments = []
    start, still = 0, cheapest[0]
    for t, here in enumerate(cheapest):
        both = still & here
        if not both.any():
            found.append((start, int(still.argmax())))
            start, both = t, here
        still = both
    return [*found, (start, int(still.argmax()))]


def _described(losses: Losses, segments: Segments) -> BestSequence:
    starts, arms = np.array(segments, dtype=np.int64).T.copy()
    lengths = np.diff(starts, append=losses.n_rounds)
    paid = losses.table[np.arange(losses.n_rounds), np.repeat(arms, lengths)]
    return BestSequence(starts, arms, _sum(paid))


def _sum(values: Regrets) -> float:
    """Return the sum of numbers, rounded once; inf if it is too large for a double."""
    try:
        return math.fsum(values)
    except OverflowError:  # of a part of the sum, perhaps, and not of all of it
        room = len(values).bit_length()
        with np.errstate(over="ignore"):
            return float(np.ldexp(math.fsum(np.ldexp(values, -room)), room))
