"""`umab evaluate`."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umab._support.display import counted
from umab._support.files import write_atomically
from umab.cli.options import Commands, add_column_options, command
from umab.cli.texts import as_table

if TYPE_CHECKING:
    from umab.offpolicy import Array, Estimate


def add(commands: Commands) -> None:
    """Add the command."""
    evaluating = command(
        commands,
        "evaluate",
        evaluate,
        "estimate from a log of choices what each arm would have cost if it had always been chosen",
        'umab evaluate log.csv --target uniform --target "small=0.9,large=0.1"',
    )
    evaluating.add_argument(
        "log",
        help="a CSV, TSV or Parquet file with one row per round and the columns arm, probability (of its draw), and "
        "loss or reward; other columns are ignored, and options say if a column has another name",
    )
    evaluating.add_argument(
        "--target",
        metavar="TARGET",
        action="append",
        default=[],
        type=target,
        help="also estimate what drawing arms with these probabilities would have cost, given as "
        "ARM=PROBABILITY,ARM=PROBABILITY or as uniform; can be repeated",
    )
    evaluating.add_argument(
        "--estimator",
        choices=("snips", "ips"),
        default="snips",
        help="snips: the weighted mean of the losses; ips: unbiased, with more noise (default: snips)",
    )
    evaluating.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="P",
        help="how often an interval should contain the truth (default: 0.95)",
    )
    add_column_options(
        evaluating,
        "the numbers are rewards: higher is better; with COLUMN, this column has them (a column called reward is "
        "recognised without this, unless there is also one called loss)",
    )
    evaluating.add_argument(
        "--probability",
        metavar="COLUMN",
        help="the column that has the probabilities with which the arms were drawn, also called propensities "
        "(default: probability)",
    )
    evaluating.add_argument("--json", metavar="FILE", help="also write the estimates to this file, as JSON")
    evaluating.add_argument("--csv", metavar="FILE", help="also write the estimates to this file, as CSV")


class Row(NamedTuple):
    """A row of the table: the log itself, an arm, or a distribution that was asked for."""

    target: str
    kind: str
    mean: float
    low: float | None
    high: float | None
    standard_error: float | None
    n_effective: float
    mean_weight: float
    doubts: tuple[str, ...]

    @classmethod
    def of(cls, target: str, kind: str, found: Estimate) -> Row:
        """Return the row of an estimate."""
        own = (found.mean, found.low, found.high, found.standard_error, found.n_effective, found.mean_weight)
        return cls(target, kind, *own, found.doubts)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        interval = "" if self.low is None else f"{self.low:.6g} to {self.high:.6g}"
        return self.target, f"{self.mean:.6g}", interval, f"{self.n_effective:.1f}", "; ".join(self.doubts)


def evaluate(options: argparse.Namespace) -> None:
    """Print the estimates for every arm of a log and for the targets of the options, and write them to files."""
    from umab import offpolicy
    from umab.tables.logs import rounds_of
    from umab.tables.reading import read
    from umab.tables.roles import Named
    from umab.tables.wording import IN_A_COMMAND

    named, are_rewards = Named.of(
        arm=options.arm, probability=options.probability, loss=options.loss, reward=options.reward
    )
    log = rounds_of(read(options.log, IN_A_COMMAND, options.decimal), named, reward=are_rewards).as_columns()
    feedback, better = ("reward", "higher") if "reward" in log else ("loss", "lower")
    targets = dict(options.target)
    found = offpolicy.evaluate(log, targets, estimator=options.estimator, confidence=options.confidence)
    rows = [Row.of(str(name), "distribution" if name in targets else "arm", each) for name, each in found.items()]
    rows.sort(key=lambda row: row.mean, reverse=feedback == "reward")  # the best first
    n_rounds, n_arms = len(log["arm"]), len(found.keys() - targets.keys())
    rows.insert(
        0,
        Row(
            "the log itself",
            "log",
            _mean(log["reward"] if feedback == "reward" else log["loss"]),
            None,
            None,
            None,
            float(n_rounds),
            1.0,
            (),
        ),
    )
    about = {"feedback": feedback, "estimator": options.estimator, "confidence": options.confidence}
    for path, content in ((options.json, _as_json(rows, about)), (options.csv, _as_csv(rows))):
        if path:
            write_atomically(path, content)
    head = ("target", f"mean {feedback}", f"{100 * options.confidence:g} % interval", "effective rounds", "doubts")
    print(f"{counted(n_rounds, 'round')} of {counted(n_arms, 'arm')}; mean {feedback} per round, {better} is better\n")
    print(as_table([head, *(row.cells for row in rows)], line=True))
    print(_LEGEND)


_LEGEND = """
The first row is the mean over the log. Each interval is for its own row, and the best of many estimates is usually too
good: it was picked for being good. umab.offpolicy has the formulas, and docs/off-policy.md says when to trust them."""


def target(text: str) -> tuple[str, object]:
    """Return the target that an option describes, with its name.

    Examples
    --------
    >>> from umab.cli.evaluate import target
    >>> target("small=1/4, large=0.75")
    ('small=1/4, large=0.75', {'small': 0.25, 'large': 0.75})
    """
    if text.strip() == "uniform":
        return "uniform", "uniform"
    wanted: dict[str, float] = {}
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        label, probability = (pair[1].strip(), _fraction(pair[2])) if pair else ("", None)
        if pair is None or not label or label in wanted or probability is None:
            raise argparse.ArgumentTypeError(
                f"must be uniform, or ARM=PROBABILITY for different arms, separated by commas, but got {text!r}"
            )
        wanted[label] = probability
        at = pair.end()
    return text, wanted


_PAIR = re.compile(r"(.*?)=([^,=]*)(?:,|$)")
"""An arm, which may have commas and equals signs in its label, and its probability."""


def _fraction(text: str) -> float | None:
    """Return a number such as 0.25 or 1/4; None if it is not one."""
    try:
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def _mean(values: Array) -> float:
    """Return the mean, in units of a power of two, so that the sum does not overflow."""
    exponent = math.frexp(float(np.abs(values).max()))[1]
    return math.ldexp(float(np.ldexp(values, -exponent).mean()), exponent)


def _as_json(rows: list[Row], about: dict[str, object]) -> bytes:
    """Return the rows as JSON; a number that is not finite is null."""
    found = [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in named}
        for named in (row._asdict().items() for row in rows)
    ]
    return json.dumps({**about, "rows": found}, indent=1, ensure_ascii=False, allow_nan=False).encode()


def _as_csv(rows: list[Row]) -> bytes:
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows([*row[:-1], "; ".join(row.doubts)] for row in rows)
    return content.getvalue().encode()
