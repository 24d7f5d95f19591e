"""The peers, behind one face: `select` an arm in a context, then `update` with its loss.

This file runs in the environment of the peers, which has no umab. A library is imported only where it is used, so that
one that is broken hides no other. Settings are the defaults of each library, unless a comment says why not.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.context.data import Array, Context

REQUIREMENTS = (
    "numpy==2.4.6",
    "vowpalwabbit==9.11.9",
    "mabwiser==2.7.4",
    "river==0.26.1",
    "contextualbandits==0.3.30",
)


class Peer(Protocol):
    """A contextual bandit."""

    def select(self, context: Context) -> tuple[int, float | None]:
        """Return an arm, and its probability if it was drawn."""

    def update(self, context: Context, arm: int, loss: float) -> None:
        """Learn from the loss of the arm that was selected last."""


class Columns:
    """Makes vectors of contexts: one column for each key of numbers and each word of a key, and a constant."""

    def __init__(self, contexts: list[Context]) -> None:
        keys = {self._key(*item): None for context in contexts for item in context.items()}
        self._index = {key: index for index, key in enumerate(sorted(keys))}
        self.n = len(self._index) + 1
        self.keys = sorted({key for context in contexts for key in context})

    @staticmethod
    def _key(key: str, value: float | str) -> str:
        return f"{key}={value}" if isinstance(value, str) else key

    def mapping(self, context: Context) -> dict[str, float]:
        """Return the columns that are not zero, by name."""
        pairs = {self._key(key, value): 1.0 if isinstance(value, str) else value for key, value in context.items()}
        return {"constant": 1.0, **pairs}

    def vector(self, context: Context) -> Array:
        """Return a matrix of one row."""
        row = np.zeros((1, self.n))
        row[0, -1] = 1.0
        for key, value in context.items():
            row[0, self._index[self._key(key, value)]] = 1.0 if isinstance(value, str) else value
        return row


class Task(NamedTuple):
    """What a peer is told beforehand."""

    n_arms: int
    horizon: int
    columns: Columns
    low: float
    high: float
    """The least and the greatest loss of the table, for peers that are given the range."""


class Scaled:
    """A peer that is given the range: it sees losses between 0 and 1."""

    def __init__(self, make: Callable[[Task, int], Peer], task: Task, seed: int) -> None:
        self._peer, self._low, self._width = make(task, seed), task.low, task.high - task.low
        self.select = self._peer.select

    def update(self, context: Context, arm: int, loss: float) -> None:
        self._peer.update(context, arm, (loss - self._low) / self._width)


class VowpalWabbit:
    """Vowpal Wabbit with a line of features for every arm; -q ca pairs features of the context with arms."""

    def __init__(self, options: str, task: Task, seed: int) -> None:
        import vowpalwabbit

        self._workspace: Any = vowpalwabbit.Workspace(f"--cb_explore_adf {options} -q ca --quiet --random_seed {seed}")
        self._lines = [f"|a arm={arm}" for arm in range(task.n_arms)]
        self._random = np.random.default_rng(seed)
        self._probability = 0.0

    def _examples(self, context: Context) -> list[str]:
        words = (f"{key}={value}" if isinstance(value, str) else f"{key}:{value}" for key, value in context.items())
        return ["shared |c " + " ".join(words), *self._lines]

    def select(self, context: Context) -> tuple[int, float | None]:
        probabilities = np.array(self._workspace.predict(self._examples(context)))
        probabilities /= probabilities.sum()
        arm = int(self._random.choice(len(probabilities), p=probabilities))
        self._probability = float(probabilities[arm])
        return arm, self._probability

    def update(self, context: Context, arm: int, loss: float) -> None:
        examples = self._examples(context)
        examples[arm + 1] = f"0:{loss}:{self._probability} {examples[arm + 1]}"
        self._workspace.learn(examples)


def told_the_range(options: str, task: Task, seed: int) -> VowpalWabbit:
    """Return a Vowpal Wabbit with the range in its options; of ours, only RegCB uses them."""
    return VowpalWabbit(f"{options} --cb_min_cost {task.low} --cb_max_cost {task.high}", task, seed)


class MABWiser:
    """MABWiser, fitted after every round; it chooses only after a first fit, so every arm is played once before."""

    def __init__(self, policy: str, task: Task, seed: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self._mab: Any = MAB(list(range(task.n_arms)), getattr(LearningPolicy, policy)(), seed=seed)
        self._random = np.random.default_rng(seed)
        self._first = self._random.permutation(task.n_arms).tolist()
        self._fitted = False
        self._vector = task.columns.vector

    def select(self, context: Context) -> tuple[int, float | None]:
        if self._first:
            return self._first.pop(), None
        if not self._fitted:  # in a log, none of the first choices may be the logged one
            return int(self._random.integers(len(self._mab.arms))), None
        return int(self._mab.predict(self._vector(context))), None

    def update(self, context: Context, arm: int, loss: float) -> None:
        fit = self._mab.partial_fit if self._fitted else self._mab.fit
        fit([arm], [-loss], self._vector(context))
        self._fitted = True


class River:
    """The LinUCB of river; its documentation says that it is too slow for practice."""

    def __init__(self, task: Task, seed: int) -> None:
        from river import bandit

        self._policy: Any = bandit.LinUCBDisjoint(seed=seed)
        self._arms = list(range(task.n_arms))
        self._mapping = task.columns.mapping

    def select(self, context: Context) -> tuple[int, float | None]:
        return int(self._policy.pull(self._arms, context=self._mapping(context))), None

    def update(self, context: Context, arm: int, loss: float) -> None:
        self._policy.update(arm, self._mapping(context), -loss)


class ContextualBandits:
    """contextualbandits: it documents rewards as 0 or 1, but its linear policies accept all numbers."""

    def __init__(self, policy: str, options: dict[str, Any], task: Task, seed: int) -> None:
        online = importlib.import_module("contextualbandits.online")
        self._policy: Any = getattr(online, policy)(task.n_arms, random_state=seed + 1, **options)  # 0 is refused
        self._random = np.random.default_rng(seed)
        self._n_arms, self._vector = task.n_arms, task.columns.vector

    def select(self, context: Context) -> tuple[int, float | None]:
        if not self._policy.is_fitted:
            return int(self._random.integers(self._n_arms)), None
        return int(self._policy.predict(self._vector(context))[0]), None

    def update(self, context: Context, arm: int, loss: float) -> None:
        self._policy.partial_fit(self._vector(context), np.array([arm]), np.array([-loss]))


class Experts(Protocol):
    """Gives advice to EXP4."""

    def advice(self, context: Context) -> Array:
        """Return one row of probabilities of the arms for each expert; always the same number of rows."""

    def learn(self, context: Context, arm: int, loss: float, probability: float) -> None:
        """Learn from the loss of an arm, which was drawn with a probability."""


class Tables:
    """The experts that need no library: every arm, and for every key the arm that was cheapest at the key's value.

    Numbers are put into bins of width ¼. Losses are divided by the probability of the arm, so that their sums are fair.
    """

    def __init__(self, task: Task, keys: list[str]) -> None:
        self._rows, self._keys = np.eye(task.n_arms), keys
        self._sums: dict[tuple[str, float | str | None], Array] = defaultdict(lambda: np.zeros(task.n_arms))

    def _cells(self, context: Context) -> list[tuple[str, float | str | None]]:
        values = [(key, context.get(key)) for key in self._keys]
        return [(key, math.floor(4.0 * value) if isinstance(value, float) else value) for key, value in values]

    def advice(self, context: Context) -> Array:
        cheapest = [int(self._sums[cell].argmin()) for cell in self._cells(context)]
        return np.concatenate([self._rows, self._rows[cheapest]])

    def learn(self, context: Context, arm: int, loss: float, probability: float) -> None:
        for cell in self._cells(context):
            self._sums[cell][arm] += loss / probability


class Exp4:
    """EXP4 for losses between 0 and 1, with the learning rate of its theorem for a known number of rounds."""

    def __init__(self, experts: Callable[[Task], Experts], task: Task, seed: int) -> None:
        self._experts, self._task = experts(task), task
        self._random = np.random.default_rng(seed)
        self._sums: Array | None = None
        self._advice = self._probabilities = np.empty(0)

    def select(self, context: Context) -> tuple[int, float | None]:
        self._advice = self._experts.advice(context)
        if self._sums is None:
            self._sums = np.zeros(len(self._advice))
            self._rate = math.sqrt(2.0 * math.log(len(self._advice)) / (self._task.horizon * self._task.n_arms))
        weights = np.exp(-self._rate * (self._sums - self._sums.min()))
        self._probabilities = weights @ self._advice / weights.sum()
        self._probabilities /= self._probabilities.sum()
        arm = int(self._random.choice(self._task.n_arms, p=self._probabilities))
        return arm, float(self._probabilities[arm])

    def update(self, context: Context, arm: int, loss: float) -> None:
        assert self._sums is not None
        probability = float(self._probabilities[arm])
        self._sums += self._advice[:, arm] * (loss / probability)
        self._experts.learn(context, arm, loss, probability)


def tables_of(task: Task) -> Tables:
    """Return the experts of EXP4 here."""
    return Tables(task, task.columns.keys)


Make = Callable[[Task, int], Peer]

_PLAIN: dict[str, Make] = {
    "Vowpal Wabbit, ε-greedy": partial(VowpalWabbit, ""),
    "Vowpal Wabbit, SquareCB": partial(VowpalWabbit, "--squarecb"),
    "Vowpal Wabbit, RegCB": partial(VowpalWabbit, "--regcb"),
    "MABWiser, LinUCB": partial(MABWiser, "LinUCB"),
    "MABWiser, LinTS": partial(MABWiser, "LinTS"),
    "river, LinUCBDisjoint": River,
    "contextualbandits, LinUCB": partial(ContextualBandits, "LinUCB", {}),
    # In 0.3.30, the noise of its samples grows with the number of rounds by default; with "ci" it shrinks.
    "contextualbandits, LinTS": partial(ContextualBandits, "LinTS", {"sample_from": "ci"}),
}
KNOWN = ", range known"
AS_OPTIONS = ", range as options"
PEERS: dict[str, Make] = {
    **_PLAIN,
    "Vowpal Wabbit, RegCB" + AS_OPTIONS: partial(told_the_range, "--regcb"),
    **{name + KNOWN: partial(Scaled, make) for name, make in _PLAIN.items() if name.startswith("Vowpal Wabbit")},
    "NumPy, EXP4" + KNOWN: partial(Scaled, partial(Exp4, tables_of)),
}
"""By name.

Vowpal Wabbit and EXP4 are made for a range; the others have no option for it. Those whose name ends with KNOWN get
losses that were scaled to [0, 1] by the true range. Those whose name ends with AS_OPTIONS get losses as they are, and
the true range in the options that Vowpal Wabbit has for it.
"""
