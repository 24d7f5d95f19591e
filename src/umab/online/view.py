"""What can be seen of a learner: its arms, open choices, probabilities and counters."""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from umab._support.display import learner_html
from umab.algorithms.base import Change, Policy
from umab.online.choice import Choice, Draw, Label
from umab.online.core import Core
from umab.online.counters import Counter
from umab.online.metrics import as_text


class View:
    """The part of a learner that changes nothing."""

    _core: Core
    _lock: threading.RLock

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._core.policy

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self._core.labels

    @property
    def experts(self) -> tuple[Label, ...]:
        """The names of the experts; empty for a policy without them."""
        return getattr(self._core, "experts", ())

    def weights(self) -> dict[Label, float]:
        """Return how much each expert counts now; the weights sum to 1. Empty for a policy without experts.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("umab-e", arms=["a", "b"], experts=["good", "bad"], seed=0)
        >>> for _ in range(100):
        ...     choice = learner.select(advice={"good": "a", "bad": "b"})
        ...     learner.update(choice, 1.0 if choice.arm == "a" else 2.0)
        >>> learner.weights()["good"] > 0.9
        True
        """
        with self._lock:
            core = self._core
            if not core.policy.takes_advice:
                return {}
            return dict(zip(self.experts, core.layout.fields(core.buffer)["weights"], strict=True))

    @property
    def maximize(self) -> bool:
        """Whether feedback is a reward, where higher is better."""
        return self._core.maximize

    @property
    def outstanding(self) -> tuple[Choice, ...]:
        """The open choices, whose losses have not arrived yet, oldest first."""
        with self._lock:
            return tuple(choice for choice, *_ in self._core.open.values())

    @property
    def n_open(self) -> int:
        """The number of open choices."""
        return len(self._core.open)

    def is_open(self, choice: Choice) -> bool:
        """Return whether a choice is one of this learner's open choices, unchanged; takes constant time."""
        with self._lock:
            try:
                known = self._core.open.get(choice[3])
                return known is not None and tuple(choice) == known[0]
            except (TypeError, IndexError, KeyError, ValueError):
                return False

    def draw_of(self, choice: Choice) -> Draw:
        """Return an open choice with all that it takes to repeat its draw: what to log for `replay`.

        Call it before the arms change.
        """
        with self._lock:
            return self._core.draw_of(self._core.known(choice))

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Return the distribution from which the next arm is drawn, in the order of `arms`.

        With experts, it is the one of the latest draw: the next one depends on their advice.
        """
        with self._lock:
            return self._core.probabilities.copy()

    def counters(self) -> dict[Label, Counter]:
        """Return what was counted for each arm: draws, feedback, open choices, and a summary of the losses or rewards.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("uniform", arms=["a", "b"], seed=0)
        >>> for loss in (3.0, 5.0, 4.0):
        ...     learner.update(learner.select(), loss)
        >>> for arm, counter in learner.counters().items():
        ...     print(arm, counter.selected, counter.mean)
        a 1 5.0
        b 2 3.5
        """
        with self._lock:
            n_open = collections.Counter(arm for _, arm, *_ in self._core.open.values())
            return {
                label: self._core.tallies[index].counter(n_open[index], float(self._core.probabilities[index]))
                for label, index in self._core.index.items()
            }

    def changes(self) -> list[Change]:
        """Return the latest changes that the policy has noticed, oldest first, at most 16.

        Each has the number of losses learned when it was noticed, the arm whose losses showed it, and whether the fresh
        start was kept: True, False if it was undone because it led to the same arm, or None while it is on trial. The
        arm is None if it was removed. The list is empty for a policy that does not watch for changes, such as
        ``"centred(umab-s)"``.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner(umab.recommended(), arms=["a", "b"], seed=0)
        >>> for number in range(600):
        ...     choice = learner.select()
        ...     learner.update(choice, 1.0 if (choice.arm == "a") == (number < 300) else 2.0 + 0.01 * (number % 7))
        >>> learner.changes()
        [Change(round=307, arm='a', kept=True)]
        """
        with self._lock:
            core = self._core
            found = core.policy.changes(core.layout.unpack(core.buffer))
            return [each._replace(arm=None if each.arm is None else core.labels[each.arm]) for each in found]

    def metrics(self, labels: Mapping[str, str] | None = None) -> str:
        """Return the counters in the text format of Prometheus, with more labels such as ``{"service": "search"}``.

        `umab.adapters.prometheus` registers a learner with Prometheus' own library.
        """
        return as_text(self.counters(), labels or {}, self.maximize)

    def _snapshot(self) -> dict[str, Any]:
        with self._lock:
            return self._core.snapshot()

    def _repr_html_(self) -> str:
        """Return the probabilities and the counters as a table, and the changes noticed, for notebooks."""
        return learner_html(self)

    def __repr__(self) -> str:
        """Name the policy and the arms."""
        maximize = ", maximize=True" if self.maximize else ""
        return f"Learner({self.policy.name!r}, arms={list(self.arms)!r}{maximize})"
