"""The whole of `umab reproduce` in its own process: the time of each part, and the memory.

`python -m benchmarks.reproduction FOLDER` prints the parts as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time


def measure() -> dict[str, float]:
    """Return the seconds of each part, and the peak memory in GB, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.reproduction", folder]
        start = time.perf_counter()
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        total = time.perf_counter() - start
    parts: dict[str, float] = json.loads(printed)
    return {**parts, "total": total}


def main(folder: str) -> None:
    """Run all experiments, write the report into a folder, and print the parts as JSON."""
    times: dict[str, float] = {}
    last = time.perf_counter()

    def done(part: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times[part], last = now - last, now

    from umab._support.memory import peak
    from umab.research.experiments.experiment import paper
    from umab.research.experiments.runner import run_on
    from umab.research.report.run_page import write
    from umab.research.report.shell import Head

    done("imports")
    wanted = [(each, setting, setting.losses()) for each in paper().values() for setting in each.settings]
    done("data")
    run = run_on(wanted, progress=False)
    done("simulation")
    write(run, f"{folder}/report", Head(title="A benchmark", lede="", command="make bench"), progress=False)
    done("report")
    print(json.dumps({**times, "memory": peak() / 1e9}))


if __name__ == "__main__":
    main(sys.argv[1])
