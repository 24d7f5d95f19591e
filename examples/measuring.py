"""Measuring all arms while a learner chooses; writing and reading the record."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pages import machine

import umab
from examples.demonstration import Demonstration, Record
from umab import Losses, checks
from umab._support.files import write_atomically
from umab._support.progress import Progress

RECORDED = Path(__file__).parent / "recorded"
"""The folder with the records behind the project's own pages."""


def run(
    demonstration: Demonstration[Any], *, n_rounds: int | None = None, seed: int = 0, progress: bool | None = None
) -> Record:
    """Measure every arm in every round, while a learner chooses one arm and is told the loss of that one."""
    most = demonstration.n_rounds
    n_rounds = most if n_rounds is None else checks.whole("rounds", n_rounds, least=1, most=most)
    seed = checks.whole("seed", seed, least=0)
    start = time.perf_counter()
    context = demonstration.prepare(seed)
    learner = umab.Learner(umab.recommended(), demonstration.arms, seed=seed)
    orders = np.random.default_rng(seed)
    rows, situations, choices = [], [], []
    try:
        with Progress(n_rounds, demonstration.title, progress, unit="rounds") as bar:
            for t in range(n_rounds):
                choice = learner.select()
                row = dict.fromkeys(demonstration.arms, math.nan)
                for arm in orders.permutation(demonstration.arms).tolist():  # so that no arm always runs first
                    row[arm] = _six_digits(demonstration.measure(context, t, arm))
                learner.update(choice, row[str(choice.arm)])
                rows.append(list(row.values()))
                situations.append(demonstration.situation(context, t))
                choices.append(str(choice.arm))
                bar.advance(1)
    finally:
        if hasattr(context, "close"):
            context.close()
    about = {
        "seed": seed,
        "policy": learner.policy.name,
        "machine": machine(),
        "day": time.strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - start, 1),
    }
    return Record(Losses.of(rows, arms=demonstration.arms), tuple(situations), tuple(choices), about)


def _six_digits(loss: float) -> float:
    """Return a loss as the files hold it. The learner is told the same number, and no clock knows more digits."""
    return float(f"{checks.real('loss', loss):.6g}")


def write_record(record: Record, stem: Path) -> None:
    """Write the losses to `stem`.csv, which any program can read, and what the learner did to `stem`.json."""
    lines = [record.losses.arms, *([repr(float(loss)) for loss in row] for row in record.losses.table)]
    write_atomically(stem.with_suffix(".csv"), "".join(",".join(line) + "\n" for line in lines).encode())
    content = {**record.about, "situations": _runs(record.situations), "choices": _runs(record.choices)}
    write_atomically(stem.with_suffix(".json"), (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def read_record(stem: Path) -> Record:
    """Return what `write_record` wrote."""
    content = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
    situations, choices = _items(content.pop("situations")), _items(content.pop("choices"))
    losses = Losses.read(stem.with_suffix(".csv"))
    if not losses.n_rounds == len(situations) == len(choices):
        raise ValueError(
            f"the files {str(stem)!r} .csv and .json must have the same number of rounds, but got {losses.n_rounds} "
            f"losses, {len(situations)} situations and {len(choices)} choices; measure again"
        )
    return Record(losses, situations, choices, content)


def _runs(items: Sequence[str]) -> list[str]:
    """Return each item once for every run of equal ones, with the length of the run: a file that people can read."""
    starts = [at for at in range(len(items)) if at == 0 or items[at] != items[at - 1]]
    return [f"{end - at} × {items[at]}" for at, end in zip(starts, [*starts[1:], len(items)], strict=True)]


def _items(runs: Sequence[str]) -> tuple[str, ...]:
    """Return the items that `_runs` was given."""
    parts = [each.split(" × ", 1) for each in runs]
    return tuple(item for number, item in parts for _ in range(int(number)))
