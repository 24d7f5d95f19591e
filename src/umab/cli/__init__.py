"""The command `umab`: one module for each command or family of commands.

Charts, statistics and data are imported by the commands that need them: their extras may not be installed, and
`umab policies` should not wait for them.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import warnings
from collections.abc import Sequence

from umab._version import __version__
from umab.cli import (
    compare,
    data,
    database,
    evaluate,
    experiments,
    inspect_learner,
    policies,
    serve,
    suite,
    sweep,
    theory,
)
from umab.cli.options import file_before_reward
from umab.tables.losses import TableWarning


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default the process's own; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(file_before_reward(given))
    options.command = shlex.join(["umab", *given])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console without ∞ shows a question mark
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", TableWarning)
            warnings.showwarning = _note
            return int(options.run(options) or 0)
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("umab: stopped", file=sys.stderr)
        return 130
    except MemoryError:
        print("umab: not enough memory; use fewer trials or rounds", file=sys.stderr)
        return 2
    except (ValueError, TypeError, OSError, ImportError) as error:
        # Users can fix these errors from one line; UMAB_TRACEBACK shows the traceback, to find a bug in umab.
        if os.environ.get("UMAB_TRACEBACK"):
            raise
        print(f"umab: {_in_words(error)}", file=sys.stderr)
        return 2


def _in_words(error: Exception) -> str:
    """Return what an error says; one of the system without its number, and with the path first, if it has one."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    reason = "file not found" if isinstance(error, FileNotFoundError) else error.strerror
    reason = f"{reason[0].lower()}{reason[1:]}"
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _note(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the line of code that it came from."""
    print(f"umab: note: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="umab",
        description="Adversarial bandits with unbounded losses.",
        epilog="example: umab compare losses.csv. Run umab COMMAND --help for the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"umab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for each in (
        policies,
        compare,
        evaluate,
        inspect_learner,
        serve,
        database,
        experiments,
        suite,
        theory,
        sweep,
        data,
    ):
        each.add(commands)
    return parser
