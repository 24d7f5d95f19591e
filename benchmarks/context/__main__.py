"""Measure learners for contexts beside their peers, and write docs/context.md and docs/keys.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.context import data, drive, ours, page, peers, speed
from benchmarks.context.data import LoggedStream, Stream
from benchmarks.pages import machine
from umab.engine.simulate import n_cores


def all_streams() -> list[Stream | LoggedStream]:
    """Return all streams, from packages that are installed if necessary."""
    place = drive.packages()
    return [*(make() for make in data.streams(place).values()), data.open_bandit(place)]


def measure_peers(streams: list[Stream | LoggedStream], n_seeds: int) -> list[drive.Row]:
    """Measure all peers on all streams, some at a time, each in a process of its own."""
    python = drive.interpreter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(n_cores()) as pool:
        waiting = []
        for number, stream in enumerate(streams):
            path = Path(folder) / f"{number}.npz"
            data.write(stream, path)
            for peer in peers.PEERS:
                waiting.append(pool.submit(drive.measure, python, path, stream.name, peer, n_seeds=n_seeds))
        rows = []
        for each in waiting:
            rows += each.result()
            print(rows[-1]["stream"], rows[-1]["peer"], *rows[-1]["failures"], sep=" | ", flush=True)
        return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for, keep it, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=drive.N_SEEDS)
    parser.add_argument("--only", choices=("ours", "peers", "speed"), action="append", help="measure only this part")
    options = parser.parse_args(arguments)
    parts = options.only or ["ours", "peers", "speed"]
    found: dict[str, Any] = page.read() if page.FILE.exists() else {"rows": [], "speed": [], "splitting": []}
    streams = all_streams() if parts != ["speed"] else []
    own = {*ours.OURS, page.RANDOM, page.SINGLE}
    if streams:
        found["streams"] = {each.name: described(each) for each in streams}
    found |= {"machine": machine(), "n_seeds": options.seeds, "peers": list(peers.REQUIREMENTS[1:])}
    if "ours" in parts:
        rows: list[drive.Row] = []
        with ProcessPoolExecutor(n_cores()) as pool:
            for stream in streams:
                if isinstance(stream, Stream):
                    rows += [
                        {"peer": name, "stream": stream.name, "losses": "as is", "means": [mean]}
                        for name, mean in drive.baselines(stream).items()
                    ]
                for name in ours.OURS:
                    found_here = ours.measure(name, stream, options.seeds, pool)
                    rows += found_here
                    for row in found_here[:1]:
                        print(stream.name, name, drive.summary(row["means"]), sep=" | ", flush=True)
        found["rows"] = rows + [row for row in found["rows"] if row["peer"] not in own]
        found["splitting"] = ours.splitting()
        page.store(found)
    if "peers" in parts:
        found["rows"] = [row for row in found["rows"] if row["peer"] in own] + measure_peers(streams, options.seeds)
        page.store(found)
    if "speed" in parts:
        found["speed"] = [list(each) for each in (*speed.decisions(), *speed.growth())]
        page.store(found)
    page.write()
    return 0


def described(stream: Stream | LoggedStream) -> str:
    """Return a sentence about a stream."""
    n_keys = len({key for context in stream.contexts for key in context})
    extent = f"{len(stream.contexts):,} rounds, {len(stream.arms)} arms, {n_keys} keys in a context"
    lowest, highest = float(stream.losses.min()), float(stream.losses.max())
    return f"{stream.note[:1].upper()}{stream.note[1:]}: {extent}, losses from {lowest:.4g} to {highest:.4g}."


if __name__ == "__main__":
    sys.exit(main())
