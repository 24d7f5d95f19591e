"""How often UMAB-W starts afresh on tables where nothing changes.

The watch asks for so much evidence that, from each start on, the probability of a false alarm is at most
`MOST_FALSE_ALARMS` if the rows are independent and identically distributed; docs/changing.md says how far that is
proved. It is a probability over tables that are drawn anew. The trials share one table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from umab.algorithms.umab_w import UMABW
from umab.algorithms.watch import SURPRISE
from umab.datasets.suite_parts import Entry
from umab.research.experiments.contest import Trials
from umab.tables.losses import Losses

MOST_FALSE_ALARMS = 2.0 * math.exp(-SURPRISE)
"""The bound for each start: two directions, and e to the power of −`SURPRISE` for each of them, over all arms."""

MOVING_TOGETHER = ("growing", "jump", "sales", "other-stores", "many-stores", "colouring")
"""Tables that count as stationary, though the scale or the level of all arms moves.

Stores have the same seasons, and in the second half of the run times all searches are faster.
"""


class Alarms(NamedTuple):
    """How often UMAB-W started afresh in the trials on one table."""

    entry: Entry
    n_trials: int
    n_alarmed: int
    """The trials with at least one restart."""
    n_restarts: int
    n_undone: int
    """How many restarts were undone, of those that a state remembers: the last 16 of a trial."""

    @property
    def moving(self) -> bool:
        """Whether the scale or the level of all arms moves, so that the bound says nothing."""
        return self.entry.name in MOVING_TOGETHER


def count_alarms(entry: Entry, losses: Losses, trials: Trials) -> Alarms:
    """Run UMAB-W on a table and count its restarts."""
    policy = UMABW()
    n_alarmed = n_restarts = n_undone = 0
    for state in trials.final_states(policy, losses):
        n_alarmed += state.n_changes > 0.0
        n_restarts += int(state.n_changes)
        n_undone += sum(change.kept is False for change in policy.changes(state))
    return Alarms(entry, trials.n_trials, n_alarmed, n_restarts, n_undone)
