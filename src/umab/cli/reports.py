"""What commands that write a report share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from umab.extras import extra

if TYPE_CHECKING:
    from umab.experiments.runner import Run
    from umab.report.page import Head


def need_report() -> tuple[Any, Any]:
    """Return the modules of experiments and of report folders, or say what is missing for them."""
    with extra("report", "a report"):
        from umab.experiments import experiment
        from umab.report import folder
    return experiment, folder


def write_report(run: Run, place: Path, head: Head, certify: bool) -> Path:
    """Write the report of a run, with certificates if they are wanted, and return the path of its page."""
    from umab.report.folder import write
    from umab.theory.certificates import certifiable
    from umab.theory.certificates import certify as check

    certificates = {
        f"{outcome.experiment.id}, {outcome.setting.name}: {name}": check(curve.policy, outcome.losses, n_trials=5)
        for outcome in run.outcomes
        for name, curve in outcome.curves.items()
        if certify and certifiable(curve.policy)
    }
    return write(run, place, head, certificates=certificates)
