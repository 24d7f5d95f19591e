"""What UMAB-W does with the losses that it sees: it watches every arm, and pays attention to those that improve."""

import math

from umab.maths.ranks import SEEN, bet, evidence_down, evidence_up, forget, note, ranked
from umab.maths.simplex import Rows, Vector

SURPRISE = 2.5
"""The watch notices a change when its evidence reaches exp((`SURPRISE` + ln n) · `CAUTION`^doubt)."""
CAUTION = 1.5
"""The factor by which each trial that is undone raises the logarithm of the evidence that is asked for."""
MOST_DOUBT = 8.0
"""How often that logarithm can be raised."""

N_LATEST = 8
"""How many of the leader's latest losses a loss of another arm is compared with, at most."""
AROUSED, CALM = 0.39, 0.2
"""An arm gets attention when its excess reaches the first of these, and loses it when that falls to the second."""
MOST_ATTENTION = 1.0 / 3.0
"""The sum of the floors of the arms with attention; a single one has half of it."""

_GREATEST = 600.0  # e to this power is a double, with room for the bets
MOST_EVIDENCE = 1e262
"""No evidence of a record is larger: the watch notices it before."""
_SINCE, _EXCESS, _ACTIVE = range(3)  # what the attention for an arm consists of


def watched(
    marks: Vector, counts: Vector, record: Vector, loss: float, leads: bool, n: float, doubt: float
) -> tuple[bool, float]:
    """Bet on a loss and note it. Return whether it shows a change that matters, and its rank, from −1 to 1."""
    rank = 0.0
    if record[SEEN] > 0.0:
        below, over = ranked(marks, counts, record, loss)
        rank = (below - over) / record[SEEN]
        bet(record, below, over)
        enough = math.exp(min((SURPRISE + math.log(n)) * CAUTION**doubt, _GREATEST))
        up, down = evidence_up(record) >= enough, evidence_down(record) >= enough
        if up or down:  # the history starts afresh with the next loss, because this one is not typical
            forget(record)
            return (up if leads else down), rank
    note(marks, counts, record, loss)
    return False, rank


def compared(attention: Rows, latest: Vector, arm: int, loss: float, rank: float, leads: bool, place: int) -> float:
    """Compare a loss with the leader's latest ones and decide about attention; return the next place in their ring."""
    if leads:
        latest[place % N_LATEST] = loss
        for k in range(len(attention)):
            attention[k][_SINCE] = min(attention[k][_SINCE] + 1.0, float(N_LATEST))
        return float((place + 1) % N_LATEST)
    row = attention[arm]
    since = min(int(row[_SINCE]), N_LATEST)
    if since > 0:
        balance = 0.0  # how many of them are below it, minus how many are above
        for back in range(since):
            other = latest[(place - 1 - back) % N_LATEST]
            balance += 1.0 if other < loss else (-1.0 if other > loss else 0.0)
        row[_SINCE] = 0.0
        row[_EXCESS] = max(0.0, row[_EXCESS] + math.log(1.0 - 0.5 * max(balance / since, rank)))
        if row[_EXCESS] >= AROUSED:
            row[_ACTIVE] = 1.0
        elif row[_EXCESS] <= CALM:
            row[_ACTIVE] = 0.0
    return float(place)


def calm(row: Vector) -> None:
    """Take the attention from an arm."""
    row[_SINCE], row[_EXCESS], row[_ACTIVE] = 0.0, 0.0, 0.0


def raised(p: Vector, iterate: Vector, attention: Rows, floor: float, may_burst: bool) -> float:
    """Fill the probabilities with the iterate, raised to the floor or, in a burst, to a higher floor for some arms.

    These are the arms with attention. The others pay in proportion to what they have above their own floors. Return 1
    if there is a burst, else 0.
    """
    n_active = 0.0
    for k in range(len(p)):
        n_active += attention[k][_ACTIVE]
    bursting = may_burst and n_active > 0.0
    most = max(floor, MOST_ATTENTION / max(n_active, 2.0)) if bursting else floor
    over, lacking = 0.0, 0.0
    for k in range(len(p)):
        own = most if attention[k][_ACTIVE] == 1.0 else floor
        over += max(0.0, iterate[k] - own)
        lacking += max(0.0, own - iterate[k])
    left = 1.0 - lacking / over if lacking > 0.0 else 1.0
    for k in range(len(p)):
        own = most if attention[k][_ACTIVE] == 1.0 else floor
        p[k] = own + max(0.0, iterate[k] - own) * left if lacking > 0.0 else iterate[k]
    return 1.0 if bursting else 0.0
