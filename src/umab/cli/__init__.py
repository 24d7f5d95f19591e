"""The command `umab`: one module a command or a family of them.

Charts, statistics and data are imported by the commands that need them: the extras they come with may be missing, and
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
from typing import Any

from umab._version import __version__
from umab.cli import compare, data, experiments, policies, suite, sweep, theory
from umab.losses import TableWarning


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    options.command = shlex.join(["umab", *given])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no ∞ shows a question mark
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", TableWarning)
            warnings.showwarning = _note
            return int(options.run(options) or 0)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("umab: stopped", file=sys.stderr)
        return 130
    except MemoryError:
        print("umab: there is not enough memory for this; take fewer trials or rounds", file=sys.stderr)
        return 2
    except (ValueError, TypeError, OSError, ImportError) as error:
        # What users can mend is said in one line; whoever looks for a fault of ours wants the way there too.
        if os.environ.get("UMAB_TRACEBACK"):
            raise
        print(f"umab: {error}", file=sys.stderr)
        return 2


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a command does: without the line of code that it came from."""
    print(f"umab: note: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="umab",
        description="Adversarial bandits with unbounded losses.",
        epilog="example: umab compare losses.csv; `umab COMMAND --help` says more of each command",
    )
    parser.add_argument("--version", action="version", version=f"umab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for each in (policies, compare, experiments, suite, theory, sweep, data):
        each.add(commands)
    return parser
