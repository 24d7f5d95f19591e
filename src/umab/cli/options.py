"""Options that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from umab.losses import Losses

Commands: TypeAlias = Any
"""What argparse makes of commands: it has no name for it that can be used."""

REAL = {"any": None, "real": True, "stand-in": False}


def command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], about: str, example: str
) -> argparse.ArgumentParser:
    """Add a command, which `run` runs, and return its parser."""
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=f"example: {example}"
    )
    added.set_defaults(run=run)
    return added


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """Add those of commands that run experiments."""
    parser.add_argument("--setting", action="append", metavar="NAME", help="only this setting; can be repeated")
    add_data_option(parser)
    parser.add_argument(
        "--data-seed", type=whole_from(0), metavar="N", help="draw the losses anew, where they are drawn by lot"
    )


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add the choice between real tables and stand-ins; `REAL` says what comes of it."""
    parser.add_argument(
        "--data",
        choices=REAL,
        default="any",
        help="any: the real tables if they can be had, else stand-ins; real: only the real ones (default: any)",
    )


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add those of commands that read a user's table; `read_table` goes by them."""
    parser.add_argument("--reward", action="store_true", help="the numbers are rewards: larger is better")
    parser.add_argument(
        "--drop", metavar="COLUMN", action="append", default=[], help="a column that is not an arm; can be repeated"
    )
    parser.add_argument(
        "--allow-suspicious",
        action="store_true",
        help="take a last row that looks like a total, row numbers, and a first line of numbers",
    )


def add_run_options(parser: argparse.ArgumentParser, *, out: str) -> None:
    """Add those of commands that run policies and write a report."""
    parser.add_argument("--out", metavar="FOLDER", help=f"where to write the report (default: {out})")
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        help="run this policy and none of those that run otherwise, as name or name:key=value; can be repeated "
        "(umab suite --policy adds one instead)",
    )
    parser.add_argument("--trials", type=whole_from(1), metavar="N", help="how many trials of each policy")
    parser.add_argument("--seed", type=whole_from(0), metavar="N", help="of the draws of the policies (default: 0)")
    parser.add_argument(
        "--certify", action="store_true", help="also check the paper's statements along five runs; see umab certify"
    )
    parser.add_argument(
        "--threads", type=whole_from(1), metavar="N", help="how many threads to use (default: one a core)"
    )


def read_table(options: argparse.Namespace) -> Losses:
    """Return the table of losses that was asked for."""
    from umab.losses import read_file
    from umab.tables import IN_A_COMMAND

    suspicious = "allow" if options.allow_suspicious else "refuse"
    return read_file(options.losses, IN_A_COMMAND, reward=options.reward, drop=options.drop, suspicious=suspicious)


def whole_from(least: int) -> Callable[[str], int]:
    """Return what reads a whole number from `least` on; argparse names the option in what it says of others."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} on, but got {text!r}")
        return int(text)

    return whole
