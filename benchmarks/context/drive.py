"""The driver's side: install the packages, write the streams, and run every peer in a process of its own.

    python -m benchmarks.context.drive results.json

It needs NumPy, and no umab.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.context import data, peers
from benchmarks.context.data import LoggedStream, Stream
from benchmarks.context.run import TRANSFORMATIONS
from benchmarks.peers.environments import HOME, NotInstalled, environment, reason

ROOT = Path(__file__).parent.parent.parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
N_SEEDS, LIMIT = 10, 600.0
"""The limit, in seconds, is for all seeds of a peer on a stream with one transformation of its losses."""

Row = dict[str, Any]


def packages() -> Path:
    """Return the folder of the packages that contain the data; install them first if necessary."""
    python = environment(HOME / "context-data", data.REQUIREMENTS)
    (found,) = (python.parent.parent / "lib").glob("python*/site-packages")
    return found


def interpreter() -> Path:
    """Return the Python of the peers; install them first if necessary."""
    return environment(HOME / "context", peers.REQUIREMENTS)


def baselines(stream: Stream) -> dict[str, float]:
    """Return the mean losses of policies that do not learn, from the whole table."""
    by_arm = stream.losses.mean(axis=0)
    return {"random choice": float(by_arm.mean()), "best single arm": float(by_arm.min())}


def measure(
    python: Path, path: Path, stream: str, peer: str, *, n_seeds: int = N_SEEDS, limit: float = LIMIT
) -> list[Row]:
    """Return one row per transformation; a process that ends early, or does not end, leaves a row that says so."""
    command = [str(python), "-W", "ignore", "-m", "benchmarks.context.run", str(path), peer]
    command += ["--seeds", str(n_seeds), "--limit", str(limit)]
    patience = len(TRANSFORMATIONS) * limit + 120.0  # the process stops itself, unless it hangs in compiled code
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as answers:
        environ = {**os.environ, **ONE_THREAD}
        try:
            done = subprocess.run(command, cwd=ROOT, env=environ, stdout=answers, stderr=errors, timeout=patience)
            failure = f"the process ended with {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            failure = f"the process was killed after {patience:g} s"
        answers.seek(0)
        rows = [json.loads(line) for line in answers]
        if failure:
            errors.seek(0)
            rows.append(failed(stream, peer, f"{failure}: {reason(errors.read())}"))
    return rows


def failed(stream: str, peer: str, failure: str) -> Row:
    """Return the row of a peer that did not run."""
    return {"peer": peer, "stream": stream, "losses": "all", "means": [], "failures": [failure], "n_rounds": 0}


def in_the_units_of_the_data(row: Row) -> list[float]:
    """Return the mean losses of a row without the transformation."""
    factor, term = TRANSFORMATIONS[row["losses"]]
    return [(mean - term) / factor for mean in row["means"]]


def summary(numbers: list[float]) -> str:
    """Return a mean with its standard error."""
    if not numbers:
        return "none"
    mean = statistics.mean(numbers)
    digits = 2 if abs(mean) >= 0.1 else 4  # clicks are rare
    if len(numbers) < 2:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {statistics.stdev(numbers) / math.sqrt(len(numbers)):.{digits}f}"


def measure_all(
    names: Iterable[str] = tuple(peers.PEERS), *, n_seeds: int = N_SEEDS, limit: float = LIMIT
) -> Iterator[Row]:
    """Measure all peers on all streams, and yield the rows as they come."""
    place = packages()
    makers: list[Callable[[], Stream | LoggedStream]] = [*data.streams(place).values()]
    makers.append(lambda: data.open_bandit(place))
    with tempfile.TemporaryDirectory() as folder:
        for index, make in enumerate(makers):
            stream, path = make(), Path(folder) / f"{index}.npz"
            data.write(stream, path)
            if isinstance(stream, Stream):
                for name, mean in baselines(stream).items():
                    yield {"peer": name, "stream": stream.name, "losses": "as is", "means": [mean], "failures": []}
            for peer in names:
                try:
                    python = interpreter()
                except NotInstalled as failure:
                    yield failed(stream.name, peer, f"not installed: {failure}")
                    continue
                yield from measure(python, path, stream.name, peer, n_seeds=n_seeds, limit=limit)


def main(arguments: list[str] | None = None) -> int:
    """Measure all peers, print a line for each row and write the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--limit", type=float, default=LIMIT)
    options = parser.parse_args(arguments)
    rows = []
    for row in measure_all(n_seeds=options.seeds, limit=options.limit):
        rows.append(row)
        numbers = in_the_units_of_the_data(row) if row["means"] else []
        print(row["stream"], row["losses"], row["peer"], summary(numbers), *row["failures"], sep=" | ", flush=True)
        options.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
