"""Ranks of losses among the earlier losses of an arm, and bets on them that notice a change.

**A history in a fixed number of floats.** The first losses of an arm are kept, sorted: its marks. From then on, the
history only counts how many losses equal a mark or lie between two marks. So it counts all losses of the arm, and two
later losses are tied if they lie between the same marks. Losses are only compared, so neither their scale, nor a
shift, nor the tails of their distribution matter.

**Bets.** As long as nothing changes, the rank of a loss among the c losses before it is uniform on c + 1 places. A bet
is a function of the rank with mean 1. The product of the bets since some loss is a wealth that does not grow on
average, so it is unlikely to become large by chance, but it grows exponentially after a change. The evidence is the sum
of this wealth over the losses at which the betting may have started, with weights that sum to less than 1. There are
two bets for each direction: one that is linear in the rank and finds small changes, and one on extreme ranks that finds
large changes quickly. If nothing changes, by Ville's inequality, the probability that the evidence ever reaches e^x is
at most e^−x.
"""

import math

from umab.maths.simplex import Vector

SEEN, ROOTS, LINEAR_UP, EXTREME_UP, LINEAR_DOWN, EXTREME_DOWN = range(6)
"""What the record of an arm holds: the number c of losses, Σ 1/√i over i ≤ max(c, 1), and the wealth of each bet."""

_WEIGHT = 0.93  # Σ 0.93 / ((c + 2) ln²(c + 2)) over c ≥ 1 is below 1
_SLOPE = 0.5  # of the linear bet


def blank_record() -> list[float]:
    """Return the record of an arm without losses."""
    return [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def forget(record: Vector) -> None:
    """Forget the history and the evidence of an arm."""
    record[SEEN], record[ROOTS] = 0.0, 1.0
    record[LINEAR_UP], record[EXTREME_UP], record[LINEAR_DOWN], record[EXTREME_DOWN] = 0.0, 0.0, 0.0, 0.0


def n_cells(n_marks: int) -> int:
    """Return how many cells there are for `n_marks` marks: the marks, and the gaps before, between and after them."""
    return 2 * n_marks + 1


def ranked(marks: Vector, counts: Vector, record: Vector, loss: float) -> tuple[float, float]:
    """Return how many losses of the history are below `loss`, and how many are above it."""
    seen = record[SEEN]
    n_marks = min(int(seen), len(marks))
    if n_marks < len(marks):
        first = _first_mark(marks, n_marks, loss)
        last = first
        while last < n_marks and marks[last] == loss:
            last += 1
        return float(first), float(n_marks - last)
    cell = _cell(marks, loss)
    below = 0.0
    for lower in range(cell):
        below += counts[lower]
    return below, seen - below - counts[cell]


def bet(record: Vector, below: float, above: float) -> None:
    """Update the evidence of an arm with a loss that has so many earlier losses below and above it.

    There must be at least one earlier loss, and a loss is bet on before it is noted.
    """
    seen = record[SEEN]
    logarithm = math.log(seen + 2.0)
    weight = _WEIGHT / ((seen + 2.0) * logarithm * logarithm)
    tied = 0.5 * (seen - below - above)
    slope = _SLOPE * (above - below) / seen
    record[ROOTS] += 1.0 / math.sqrt(seen + 1.0)
    top = (seen + 1.0) / record[ROOTS]
    record[LINEAR_UP] = (1.0 - slope) * (record[LINEAR_UP] + weight)
    record[EXTREME_UP] = top / math.sqrt(1.0 + above + tied) * (record[EXTREME_UP] + weight)
    record[LINEAR_DOWN] = (1.0 + slope) * (record[LINEAR_DOWN] + weight)
    record[EXTREME_DOWN] = top / math.sqrt(1.0 + below + tied) * (record[EXTREME_DOWN] + weight)


def evidence_up(record: Vector) -> float:
    """Return the evidence that the losses of an arm have become larger."""
    return 0.5 * (record[LINEAR_UP] + record[EXTREME_UP])


def evidence_down(record: Vector) -> float:
    """Return the evidence that the losses of an arm have become smaller."""
    return 0.5 * (record[LINEAR_DOWN] + record[EXTREME_DOWN])


def note(marks: Vector, counts: Vector, record: Vector, loss: float) -> None:
    """Add a loss to the history of an arm."""
    n_marks, seen = len(marks), max(0, int(record[SEEN]))  # a saved state may hold anything
    if seen < n_marks:
        at = seen
        while at > 0 and marks[at - 1] > loss:
            marks[at] = marks[at - 1]
            at -= 1
        marks[at] = loss
        if seen + 1 == n_marks:
            _count_marks(marks, counts)
    else:
        counts[_cell(marks, loss)] += 1.0
    record[SEEN] += 1.0


def _first_mark(marks: Vector, n_marks: int, loss: float) -> int:
    """Return the first of the sorted marks that is not below `loss`, or `n_marks` if there is none."""
    low, high = 0, n_marks
    while low < high:
        middle = (low + high) // 2
        if marks[middle] < loss:
            low = middle + 1
        else:
            high = middle
    return low


def _cell(marks: Vector, loss: float) -> int:
    """Return the cell of a loss, once all marks are there: an odd one if it equals a mark, else an even one."""
    first = _first_mark(marks, len(marks), loss)
    return 2 * first + 1 if first < len(marks) and marks[first] == loss else 2 * first


def _count_marks(marks: Vector, counts: Vector) -> None:
    """Start counting with the marks themselves."""
    for cell in range(len(counts)):
        counts[cell] = 0.0
    for mark in marks:
        counts[_cell(marks, mark)] += 1.0
