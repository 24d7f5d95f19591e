"""Our side of the comparison: the learners for contexts, on the streams that the peers have, and what keys cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import umab
from benchmarks.context.data import LoggedStream, Stream
from benchmarks.context.run import TRANSFORMATIONS, transformed
from umab import contextual

Row = dict[str, Any]


def recommended(stream: Any) -> None:
    """Return the experts that a learner has if none are given."""


def without_context(stream: Any) -> list[contextual.Expert]:
    """Return one expert, which does not look at the context."""
    return [contextual.ContextFree()]


def with_tables(stream: Any) -> list[contextual.Expert]:
    """Return the usual experts, and a table for each key whose values are strings."""
    keys = sorted({key for each in stream.contexts for key, value in each.items() if isinstance(value, str)})
    return [contextual.ContextFree(), contextual.Linear(), *(contextual.ByKey(key) for key in keys)]


WITH = "umab.contextual.Learner"
WITHOUT = "umab, without context"
OURS: dict[str, Callable[[Any], Sequence[contextual.Expert] | None]] = {
    WITH: recommended,
    "umab.contextual.Learner, with a table for each key": with_tables,
    WITHOUT: without_context,
}


class Played(NamedTuple):
    """What a learner did on a stream."""

    mean: float
    arms: bytes


def play(experts: Callable[[Any], Sequence[contextual.Expert] | None], stream: Stream, seed: int) -> Played:
    """Return the mean loss of a learner, and the arms that it chose."""
    learner, arms, total = contextual.Learner(stream.arms, experts(stream), seed=seed), [], 0.0
    for context, row in zip(stream.contexts, stream.losses.tolist(), strict=True):
        choice = learner.select(context)
        learner.update(choice, row[choice.index])
        arms.append(choice.index)
        total += row[choice.index]
    return Played(total / len(arms), bytes(arms))


def replay(experts: Callable[[Any], Sequence[contextual.Expert] | None], log: LoggedStream, seed: int) -> Played:
    """Return the mean loss in the rounds of a log in which the learner selects the logged arm, as for the peers."""
    learner, losses = contextual.Learner(log.arms, experts(log), seed=seed), []
    for context, chosen, loss in zip(log.contexts, log.chosen.tolist(), log.losses.tolist(), strict=True):
        choice = learner.select(context)
        if choice.index == chosen:
            learner.update(choice, loss)
            losses.append(loss)
        else:
            learner.forget(choice)
    return Played(float(np.mean(losses)), b"")


def measure(name: str, stream: Stream | LoggedStream, n_seeds: int, pool: ProcessPoolExecutor) -> list[Row]:
    """Return one row per transformation of the losses, as for the peers; none if there is no key to make a table of."""
    experts = OURS[name]
    if experts is with_tables and len(with_tables(stream)) == len(contextual.Learner(2).experts):
        return []
    if isinstance(stream, LoggedStream):
        played = list(pool.map(partial(replay, experts, stream), range(n_seeds)))
        return [{"peer": name, "stream": stream.name, "losses": "as is", "means": [each.mean for each in played]}]
    rows, usual = [], None
    for losses in TRANSFORMATIONS:
        played = list(pool.map(partial(play, experts, transformed(stream, losses)), range(n_seeds)))
        arms = [each.arms for each in played]
        usual = usual or arms
        n_changed = sum(
            one != other
            for mine, theirs in zip(usual, arms, strict=True)
            for one, other in zip(mine, theirs, strict=True)
        )
        means = [each.mean for each in played]
        rows.append({"peer": name, "stream": stream.name, "losses": losses, "means": means, "n_changed": n_changed})
    return rows


def splitting(n_keys: Sequence[int] = (1, 4, 16, 64, 256), *, n_rounds: int = 16_384, n_trials: int = 64) -> list[Row]:
    """Return what it costs to split rounds over keys that do not matter: the regret per round, with its error.

    Five arms with exponential losses of means from 1 to 2. Each key is a learner of its own, with its share of the
    rounds, so the regret of k keys is k times that of a run of n/k rounds.
    """
    rows = []
    for k in n_keys:
        losses = np.random.default_rng(0).exponential(np.linspace(1.0, 2.0, 5), size=(n_rounds, 5))
        totals = np.zeros(n_trials)
        best = losses.sum(axis=0).min()
        for key in range(k):
            part = losses[key::k]
            result = umab.simulate(
                umab.recommended(), part, n_trials=n_trials, seed=key, expected=True, keep="summary", progress=False
            )
            totals += result.final_regret + part.sum(axis=0).min()
        per_round = (totals - best) / n_rounds
        rows.append({"keys": k, "mean": float(per_round.mean()), "se": float(per_round.std(ddof=1) / n_trials**0.5)})
    return rows
