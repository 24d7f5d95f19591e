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


@contextlib.contextmanager
def report_folder(options: argparse.Namespace, otherwise: str) -> Iterator[Path | None]:
    """Yield the folder of the report, ready to be written to.

    If the libraries for pages are not installed, yield None and print a note: the command can still print its numbers.
    With --out, the missing library is an error.
    """
    with extra("data", "comparing policies"):
        import scipy.special  # noqa: F401
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
    """Write the report on a run, with certificates if `certify` is true, and return the path of its page.

    There are no certificates for losses in which arms are away; a note says so.
    """
    from umab.research.report.run_page import write
    from umab.theory.certificates import certifiable
    from umab.theory.certificates import certify as check

    certificates = {
        f"{outcome.experiment.id}, {outcome.setting.name}: {name}": check(curve.policy, outcome.losses, n_trials=5)
        for outcome in run.outcomes
        for name, curve in outcome.curves.items()
        if certify and certifiable(curve.policy) and not outcome.losses.n_away
    }
    for outcome in run.outcomes:
        if certify and outcome.losses.n_away:
            title = f"{outcome.experiment.id}, {outcome.setting.name}"
            print(f"umab: note: no certificates for {title}: arms are away in its losses", file=sys.stderr)
    return write(run, place, head, certificates=certificates)
