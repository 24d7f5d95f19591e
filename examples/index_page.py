"""The page that lists all demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import table

from examples.demonstration import Demonstration
from examples.measuring import RECORDED, read_record
from examples.page import against
from examples.replaying import Spent

_INDEX = """\
# Demonstrations

What a learner does on real work. Only the replays and the link that the compressors send over are simulated, and there
is nothing to download. Each demonstration is some work that can be done in several ways, the arms. In every round a
learner chooses an arm, the work is done, and its cost is measured; that is the loss. All arms do the work of every
round, so it is known what each would have cost. The learner is told only the loss of its own choice. If you would
rather read forty lines of code first, there are [five short scripts](scripts.md).

{results}
These are single runs, as they happened; the pages say how much of that was luck.

## Run them

In a checkout, with the extra `examples`. Each takes less than two minutes on a quiet machine, and shows its progress.

```sh
pip install -e '.[examples]'
python -m examples.sat_solvers --out solvers          # measures here, and writes a page of its own
python -m examples.sat_solvers --rounds 50 --out solvers
python -m examples                                    # all of them; writes the pages that you are reading
python -m examples --from-recorded                    # the same pages again, without measuring
```

## Replay what was recorded

The losses of every arm in every round are in `examples/recorded`, as plain CSV: one column per arm, one row per round.
The `.json` file of the same name says what the learner chose, and on which machine.

```sh
umab compare examples/recorded/sat-solvers.csv
umab certify examples/recorded/query-plans.csv
```

## Write your own

A demonstration is a few functions: one prepares the work from a seed, one does the work of a round with an arm and
returns the loss, and one names the situation of the round.

```python
import heapq
import random
import time

from examples.demonstration import Demonstration
from examples.measuring import run
from examples.page import verdict
from examples.replaying import Findings


def prepare(seed):
    rng = random.Random(seed)
    return [[rng.random() for _ in range(rng.choice((10, 10_000)))] for _ in range(200)]


def measure(lists, t, arm):
    start = time.process_time()
    sorted(lists[t])[:5] if arm == "sort" else heapq.nsmallest(5, lists[t])
    return 1e6 * (time.process_time() - start)


demonstration = Demonstration(
    name="smallest-five",
    title="The five smallest of a list",
    unit="microseconds",
    arms=("sort", "heap"),
    n_rounds=200,
    prepare=prepare,
    measure=measure,
    situation=lambda lists, t: "long" if len(lists[t]) > 10 else "short",
    about="Lists come in; their five smallest numbers are wanted.",
)
record = run(demonstration, n_rounds=50)
print(verdict(demonstration, Findings(record, n_trials=20)))
```

With `main(demonstration)` from `examples.command` in place of the last two lines, it has the same command line, record,
chart and page as the demonstrations here.
"""


def index(demonstrations: Sequence[Demonstration[Any]], recorded: Path = RECORDED) -> str:
    """Return the page that lists the demonstrations, with the result of each."""
    rows = []
    for each in demonstrations:
        record = read_record(recorded / each.name)
        spent = Spent(record)
        compared = [against(spent, total, each.unit) for total in (spent.at_random, spent.worst, spent.best)]
        rows.append([f"[{each.title}]({each.name}.md)", str(len(each.arms)), str(record.losses.n_rounds), *compared])
    header = ["", "arms", "rounds", "the learner compared with choosing at random", "with the worst arm"]
    return _INDEX.format(results=table([*header, "with the best arm"], rows))
