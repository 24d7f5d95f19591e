"""What the commands that write a report share."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from umab._support.extras import extra

if TYPE_CHECKING:
    from umab.research.experiments.runner import Run
    from umab.research.report.shell import Head

COMPILING = "each policy is compiled when it first runs on this machine, which takes some seconds"


def need_extra(name: str, what: str) -> None:
    """Name the one extra that brings all that a command with a report needs, before it reads or runs anything."""
    with extra(name, what):
        import polars  # noqa: F401
        import scipy.special  # noqa: F401


@contextlib.contextmanager
def report_folder(options: argparse.Namespace, otherwise: str) -> Iterator[Path | None]:
    """Yield the folder of the report, ready to be written to.

    If the libraries for pages are not installed, yield None and print a note: the command can still print its numbers.
    With --out, the missing library is an error.
    """
    try:
        with extra("report", "a report"):
            import jinja2  # noqa: F401
            import vl_convert  # noqa: F401
    except ModuleNotFoundError as error:
        if options.out:
            raise
        yield None
        print(f"umab: note: no report was written: {error}", file=sys.stderr)
        return
    from umab.engine.compiled import when_compiling
    from umab.research.report.folder import prepared

    place = Path(options.out or otherwise)
    with prepared(place), when_compiling(_say_so):
        yield place


def _say_so() -> None:
    """Say why nothing seems to happen, on a terminal and in a pipe alike."""
    print(f"umab: note: {COMPILING}", file=sys.stderr)


def write_report(run: Run, place: Path, head: Head, certify: bool) -> Path:
    """Write the report on a run, with certificates if `certify` is true, and return the path of its page."""
    from umab.research.report.run_page import certificates_of, write

    return write(run, place, head, certificates=certificates_of(run) if certify else None)
