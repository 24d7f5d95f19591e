"""The peer's side: runs in the peer's environment, answers each JSON line with a JSON line, and times itself.

    .venv-peers/river/bin/python -I benchmarks/peers/serve.py benchmarks/peers/river.py

The script of a peer defines these names:

REQUIREMENTS
    What pip installs.
POLICIES
    By name, functions of a table (a list of rounds, each a list with one number per arm), a seed and a list. They
    select and update once per round, and append every arm to the list.
TAKES
    What the numbers of the table are: "losses" or "rewards".
SIMULATIONS
    By name, functions of a table and a number of trials, if the peer has its own way to run many trials.
LACKS
    What the peer cannot do, in words for the page, verified in its source code.
REFUSALS
    Words from the errors by which it refuses a number, if it does so.

This file uses only the standard library: a peer's environment has what the peer needs, and no more.
"""

from __future__ import annotations

import array
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

Table = list[list[float]]
Answer = dict[str, Any]


class TimeIsUp(Exception):
    """The time limit of a request is over."""


def load(script: str) -> ModuleType:
    """Return a script as a module, under a name that no other module has."""
    spec = importlib.util.spec_from_file_location("script_of_a_peer", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def about(peer: ModuleType) -> Answer:
    """Return the versions of a peer and what it offers."""
    names = [re.split("[=<>~! ]", each)[0] for each in peer.REQUIREMENTS]
    return {
        "versions": {name: importlib.metadata.version(name) for name in names},
        "python": platform.python_version(),
        "policies": list(peer.POLICIES),
        "simulations": list(getattr(peer, "SIMULATIONS", {})),
        "takes": peer.TAKES,
    }


def simulate(peer: ModuleType, policy: str, table: str, n_arms: int, n_trials: int, limit: float) -> Answer:
    """Run many trials, by the peer's own simulation if it has one."""
    rows = read(table, n_arms)
    own = getattr(peer, "SIMULATIONS", {}).get(policy)
    with time_limit(limit):
        start = time.perf_counter()
        if own:
            own(rows, n_trials)
        else:
            for trial in range(n_trials):
                peer.POLICIES[policy](rows, trial, [])
        return {"seconds": time.perf_counter() - start}


def play(peer: ModuleType, policy: str, table: str, n_arms: int, n_rounds: int, seed: int, limit: float) -> Answer:
    """Select and update once per round; say how often each arm was played in the last half, and what went wrong."""
    rows, error = read(table, n_arms)[:n_rounds], ""
    arms: list[int] = []
    start = time.perf_counter()
    try:
        with time_limit(limit):
            peer.POLICIES[policy](rows, seed, arms)
    except TimeIsUp:
        pass
    except Exception as failure:
        error = first_line(failure)
    seconds = time.perf_counter() - start
    last_half = arms[len(arms) // 2 :]
    counts = [last_half.count(arm) for arm in range(n_arms)]
    return {"seconds": seconds, "n_rounds": len(arms), "counts": counts, "failure": error}


def read(path: str, n_arms: int) -> Table:
    """Return a table from a file of doubles, round by round."""
    numbers = array.array("d")
    numbers.frombytes(Path(path).read_bytes())
    return [numbers[start : start + n_arms].tolist() for start in range(0, len(numbers), n_arms)]


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUp` if the block takes longer."""

    def stop(*_: object) -> None:
        raise TimeIsUp(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def first_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    return f"{type(error).__name__}: {error}".strip().splitlines()[0].removesuffix(": ").removesuffix(":")


def main(script: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the output of a peer must not mix with the answers
    requests: dict[str, Callable[..., Answer]] = {"about": about, "simulate": simulate, "play": play}
    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            peer = peer or load(script)
            answer = requests[request.pop("do")](peer, **request)
        except Exception as error:
            answer = {"error": first_line(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
