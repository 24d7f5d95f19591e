"""The loop, and the command that the environment of the peers runs: one peer on one stream, with many seeds.

.venv-peers/context/bin/python -m benchmarks.context.run stream.npz "river, LinUCBDisjoint" --seeds 10
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.context.data import LoggedStream, Stream, read
from benchmarks.context.peers import KNOWN, PEERS, Columns, Make, Task
from benchmarks.peers.serve import TimeIsUp, first_line, time_limit

TRANSFORMATIONS = {"as is": (1.0, 0.0), "x 1000": (1000.0, 0.0), "+ 500": (1.0, 500.0)}
"""By name: what losses are multiplied by, and what is added then."""


def transformed(stream: Stream, name: str) -> Stream:
    """Return the stream with other losses."""
    factor, term = TRANSFORMATIONS[name]
    return stream._replace(losses=factor * stream.losses + term)


def task_of(stream: Stream | LoggedStream) -> Task:
    """Return what a peer is told about a stream."""
    low, high = float(stream.losses.min()), float(stream.losses.max())
    return Task(len(stream.arms), len(stream.contexts), Columns(stream.contexts), low, high)


def play(
    make: Make, stream: Stream, seed: int, *, task: Task | None = None, losses: list[float] | None = None
) -> float:
    """Return the mean loss of a peer; losses are appended to `losses`, so that they remain if the peer is stopped."""
    task, losses = task or task_of(stream), [] if losses is None else losses
    peer = make(task, seed)
    for context, row in zip(stream.contexts, stream.losses.tolist(), strict=True):
        arm, _ = peer.select(context)
        peer.update(context, arm, row[arm])
        losses.append(row[arm])
    return float(np.mean(losses))


def replay(
    make: Make, log: LoggedStream, seed: int, *, task: Task | None = None, losses: list[float] | None = None
) -> float:
    """Return the mean loss in the rounds of a log in which the peer selects the logged arm; it learns from these only.

    This is fair to all if the log was drawn uniformly, as ours was.
    """
    task, losses = task or task_of(log), [] if losses is None else losses
    peer = make(task, seed)
    for context, chosen, loss in zip(log.contexts, log.chosen.tolist(), log.losses.tolist(), strict=True):
        arm, _ = peer.select(context)
        if arm == chosen:
            peer.update(context, arm, loss)
            losses.append(loss)
    return float(np.mean(losses))


def measure(make: Make, stream: Stream | LoggedStream, n_seeds: int, limit: float) -> dict[str, Any]:
    """Return the mean losses of all seeds that ended, and why others did not; `limit` is for all seeds together."""
    means: list[float] = []
    failures: list[str] = []
    task, start, n_rounds = task_of(stream), time.perf_counter(), 0
    for seed in range(n_seeds):
        losses: list[float] = []
        left = limit - (time.perf_counter() - start)
        try:
            with time_limit(max(left, 1e-3)):
                if isinstance(stream, Stream):
                    means.append(play(make, stream, seed, task=task, losses=losses))
                else:
                    means.append(replay(make, stream, seed, task=task, losses=losses))
        except TimeIsUp:
            failures.append(f"seed {seed}: the {limit:g} s were over after {len(losses)} rounds")
        except Exception as error:
            failures.append(f"seed {seed}, round {len(losses) + 1}: {first_line(error)}")
        n_rounds += len(losses)
        if left <= 0.0 or (failures and "were over" in failures[-1]):
            break
    return {"means": means, "failures": failures, "seconds": time.perf_counter() - start, "n_rounds": n_rounds}


def main(arguments: list[str] | None = None) -> int:
    """Print what happened as JSON, one line per transformation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", type=Path)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for all seeds of a transformation")
    options = parser.parse_args(arguments)
    stream = read(options.stream)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the output of a peer must not mix with the answers
    # A peer that is given the range sees the same losses whatever the transformation, so it runs once.
    once = isinstance(stream, LoggedStream) or options.peer.endswith(KNOWN)
    for name in ["as is"] if once else TRANSFORMATIONS:
        played = transformed(stream, name) if isinstance(stream, Stream) else stream
        found = measure(PEERS[options.peer], played, options.seeds, options.limit)
        row = {"peer": options.peer, "stream": stream.name, "losses": name, **found}
        print(json.dumps(row), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
