"""The command line of the demonstrations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.demonstration import Demonstration
from examples.measuring import RECORDED, read_record, run, write_record
from examples.page import PAGES, verdict, write_page
from examples.replaying import Findings


def main(demonstration: Demonstration[Any], arguments: Sequence[str] | None = None) -> None:
    """Run a demonstration from the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {demonstration.module}",
        description=f"{demonstration.title}: measure, let a learner choose, replay all policies, write a page.",
        epilog=f"example: python -m {demonstration.module} --rounds 50 --out /tmp/{demonstration.name}",
    )
    add_options(parser)
    parser.add_argument(
        "--rounds", type=int, metavar="N", help=f"run only the first N of {demonstration.n_rounds} rounds"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the seed of the work and of the learner (default: 0)"
    )
    given = parser.parse_args(arguments)
    if given.rounds is not None and given.out is None and not given.from_recorded:
        parser.error("--rounds must go with --out: the pages of the project need all rounds")
    try:
        print(carry_out(demonstration, given.out, given.from_recorded, given.rounds, given.seed))
    except (ValueError, OSError) as error:
        sys.exit(f"{parser.prog}: {error}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all demonstrations share."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="the folder for all files (default: examples/recorded and docs/examples)",
    )
    parser.add_argument(
        "--from-recorded", action="store_true", help="measure nothing; write the page from the recorded losses"
    )


def carry_out(
    demonstration: Demonstration[Any],
    out: Path | None = None,
    from_recorded: bool = False,
    n_rounds: int | None = None,
    seed: int = 0,
) -> str:
    """Measure or read the record, replay it, and write the page; return the text to print."""
    for folder in (RECORDED, PAGES) if out is None else (out,):
        folder.mkdir(parents=True, exist_ok=True)
    stem = (out or RECORDED) / demonstration.name
    if from_recorded:
        record = read_record(stem)
    else:
        record = run(demonstration, n_rounds=n_rounds, seed=seed)
        write_record(record, stem)
    findings = Findings(record)
    path = write_page(demonstration, findings, out or PAGES)
    return f"{demonstration.title}\n\n{verdict(demonstration, findings)}\n\nwrote {stem}.csv and {path}\n"
