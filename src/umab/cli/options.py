"""Options that several commands share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from umab.tables.losses import Losses
    from umab.tables.missing import Missing

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The object to which argparse adds commands; its class is private."""

_LIKE_REWARDS = re.compile(r"revenue|profit|income|reward|sales|score|click|conversion|gain", re.IGNORECASE)
"""Names of columns and files that make one doubt whether lower is better."""

REAL = {"any": None, "real": True, "stand-in": False}
"""The argument `real` of `umab.datasets.load`, by the option --data."""


def command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], about: str, example: str
) -> argparse.ArgumentParser:
    """Add a command that calls `run`, and return its parser."""
    added = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=f"example: {example}"
    )
    added.set_defaults(run=run)
    return added


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run experiments."""
    parser.add_argument("--setting", action="append", metavar="NAME", help="run only this setting; can be repeated")
    add_data_option(parser)
    parser.add_argument(
        "--data-seed", type=whole_from(0), metavar="N", help="draw the losses of random data sets with this seed"
    )


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add the choice between real tables and stand-ins."""
    parser.add_argument(
        "--data",
        choices=REAL,
        default="any",
        help="real: only the public tables; stand-in: only their stand-ins; any: the public tables if they are "
        "available, otherwise their stand-ins (default: any)",
    )


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that read a user's table with `read_table`."""
    add_column_options(
        parser,
        "the numbers are rewards: higher is better; with COLUMN, this column of a table with one row per round and arm "
        "has them",
    )
    parser.add_argument(
        "--round",
        metavar="COLUMN",
        help="the column that tells the rounds apart, in a table with one row per round and arm (default: round, or "
        "the only column besides those of --arm and --loss)",
    )
    parser.add_argument(
        "--drop",
        metavar="COLUMN",
        action="append",
        default=[],
        help="ignore this column, which is not an arm; can be repeated",
    )
    parser.add_argument(
        "--allow-suspicious",
        action="store_true",
        help="accept a last row that looks like a total, a column of row numbers, and numbers as column names",
    )
    parser.add_argument(
        "--missing",
        type=missing_losses,
        default="refuse",
        metavar="MEANS",
        help="what a missing cell means; away: the arm was not there in this round; drop: leave out the round; a "
        "number: put it in its place; refuse: it is a mistake (default: refuse)",
    )


def add_column_options(parser: argparse.ArgumentParser, reward: str) -> None:
    """Add the options that say how a table is written and, if each row has one arm, which column has what."""
    parser.add_argument("--reward", metavar="COLUMN", nargs="?", const=True, default=False, help=reward)
    parser.add_argument(
        "--arm", metavar="COLUMN", help="the column that has the arms, if each row has one (default: arm)"
    )
    parser.add_argument("--loss", metavar="COLUMN", help="the column that then has the losses (default: loss)")
    parser.add_argument(
        "--decimal",
        choices=(".", ","),
        default=".",
        metavar="SIGN",
        help="the decimal sign, a point or a comma; with a comma, cells are separated by semicolons or tabs "
        "(default: .)",
    )


def file_before_reward(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a file that comes right after --reward before it, where it is not taken for a column.

    Examples
    --------
    >>> from umab.cli.options import file_before_reward
    >>> file_before_reward(["compare", "--reward", "sales.csv"])
    ['compare', 'sales.csv', '--reward']
    """
    found = list(arguments)
    for at in range(len(found) - 1):
        if found[at].startswith("--rew") and "--reward".startswith(found[at]) and is_table_file(found[at + 1]):
            found[at : at + 2] = [found[at + 1], found[at]]
    return found


def is_table_file(text: str) -> bool:
    """Whether a text is the name of a file that holds a table."""
    from umab.tables.reading import ENDINGS

    return text.lower().endswith(ENDINGS)


def add_run_options(parser: argparse.ArgumentParser, *, out: str) -> None:
    """Add the options of commands that run policies and write a report."""
    parser.add_argument("--out", metavar="FOLDER", help=f"where to write the report (default: {out})")
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        help="run only this policy, given as NAME or NAME:KEY=VALUE; can be repeated (in umab suite, --policy adds a "
        "policy instead)",
    )
    parser.add_argument(
        "--trials",
        type=whole_from(1),
        metavar="N",
        help="trials of each policy (default: 500, unless the TOML file of an experiment has another number)",
    )
    parser.add_argument(
        "--seed",
        type=whole_from(0),
        metavar="N",
        help="seed of the policies' draws (default: 0, unless the TOML file of an experiment has another seed)",
    )
    parser.add_argument(
        "--certify", action="store_true", help="also check the paper's statements along five runs; see umab certify"
    )
    add_device_options(parser)


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what runs the trials."""
    parser.add_argument("--threads", type=whole_from(1), metavar="N", help="number of threads (default: one per core)")
    parser.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        default="cpu",
        help="what runs the trials: the processor, or an NVIDIA GPU, which pays for many trials (default: cpu)",
    )


def read_table(options: argparse.Namespace) -> Losses:
    """Return the loss table that the options name."""
    from umab.tables.losses import losses_of
    from umab.tables.wording import IN_A_COMMAND

    suspicious = "allow" if options.allow_suspicious else "refuse"
    losses = losses_of(
        options.losses,
        IN_A_COMMAND,
        reward=options.reward,
        drop=options.drop,
        suspicious=suspicious,
        missing=options.missing,
        decimal=options.decimal,
        round=options.round,
        arm=options.arm,
        loss=options.loss,
    )
    if not options.reward and options.loss is None:
        named = next(filter(_LIKE_REWARDS.search, (*losses.arms, Path(options.losses).name)), None)
        why = "some losses are negative" if (losses.present < 0.0).any() else named and f"{named!r} sounds like rewards"
        if why:
            advice = f"if these are profits or scores, of which more is better, {IN_A_COMMAND.reward}"
            print(f"umab: note: {why}, and lower counts as better; {advice}", file=sys.stderr)
    return losses


def missing_losses(text: str) -> Missing:
    """Read what missing losses mean: a word or a number."""
    from umab.tables.missing import as_missing

    try:
        return as_missing(float(text))
    except ValueError:
        pass  # not a number, or not a finite one
    try:
        return as_missing(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be refuse, away, drop or a number, but got {text!r}") from None


def whole_from(least: int) -> Callable[[str], int]:
    """Return a function that reads a whole number of at least `least`; argparse puts the option into its errors."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, but got {text!r}")
        return int(text)

    return whole
