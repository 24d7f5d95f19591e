"""How long a learner takes to save and to load, by the number of its open choices: `python -m benchmarks.saving`."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import umab

SIZES = (0, 1_000, 10_000, 100_000)


def best_of(n_times: int, work: object) -> float:
    """Return the shortest time of some, in milliseconds."""
    assert callable(work)
    times = []
    for _ in range(n_times):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    warnings.simplefilter("ignore", umab.LearnerWarning)
    learner = umab.Learner(umab.recommended(), ["a", "b", "c", "d", "e"], seed=0)
    print("open choices   save, ms   load, ms   file, MB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.json"
        for size in SIZES:
            if size > learner.n_open:
                learner.select(size - learner.n_open)
            saving, loading = best_of(5, lambda: learner.save(path)), best_of(5, lambda: umab.Learner.load(path))
            print(f"{size:12,} {saving:10.1f} {loading:10.1f} {path.stat().st_size / 1e6:10.2f}")


if __name__ == "__main__":
    main()
