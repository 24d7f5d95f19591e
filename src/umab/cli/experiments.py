"""`umab reproduce` and `umab run`: the paper's experiments, and the users' own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from umab.cli.options import REAL, Commands, add_experiment_options, add_run_options, command
from umab.cli.reports import need_extra, report_folder, write_report
from umab.cli.texts import stand_in_note, verdicts

if TYPE_CHECKING:
    from umab.research.experiments.experiment import Experiment
    from umab.research.experiments.runner import Run


def add(commands: Commands) -> None:
    """Add the commands."""
    reproducing = command(
        commands,
        "reproduce",
        reproduce,
        "run the experiments of Chen and Zhang, judge their claims, and write a report",
        "umab reproduce --figure stock --figure sales --trials 100",
    )
    reproducing.add_argument(
        "--figure",
        metavar="ID",
        action="append",
        help="run only this experiment; can be repeated (--list prints the ids)",
    )
    reproducing.add_argument("--list", action="store_true", help="list the experiments, and run nothing")
    add_experiment_options(reproducing)
    add_run_options(reproducing, out="report")

    running = command(
        commands,
        "run",
        run_files,
        "run your own experiments, written as TOML files, and write a report",
        "umab run routing.toml --trials 100",
    )
    running.add_argument(
        "experiments", nargs="+", metavar="FILE.toml", help="an experiment; docs/experiments.md shows one"
    )
    add_experiment_options(running)
    add_run_options(running, out="report-NAME, named after the first file")


def reproduce(options: argparse.Namespace) -> None:
    """Run the paper's experiments and write the report."""
    need_extra("reproduce", "umab reproduce")
    from umab.research.experiments.experiment import paper

    known: dict[str, Experiment] = paper()
    if options.list:
        for id, experiment in known.items():
            print(f"{id:12} {experiment.figure}: {experiment.title} ({', '.join(s.name for s in experiment.settings)})")
        return
    for id in options.figure or []:
        if id not in known:
            raise ValueError(f"a figure must be one of {', '.join(known)}, but got {id!r}")
    chosen = [experiment for id, experiment in known.items() if not options.figure or id in options.figure]
    _run_and_report(options, chosen, "report", _reproduced)


def _reproduced(run: Run) -> tuple[str, str]:
    from umab.research.report import words

    return (
        "The experiments of Chen and Zhang, run again",
        f"{words.counted(len(run.experiments), 'experiment')} of Improved Algorithms for Adversarial Bandits with "
        "Unbounded Losses, with the constants and data that its text prints (printed) and with those of its authors' "
        "code (figure). In both, the competitors are as published. The verdicts follow from the runs alone: "
        f"{words.tally(run.verdicts)}.",
    )


def run_files(options: argparse.Namespace) -> None:
    """Run experiments from files and write the report."""
    need_extra("report", "umab run")
    from umab.research.experiments.experiment import Experiment

    chosen = [Experiment.read(path) for path in options.experiments]
    ids = [each.id for each in chosen]
    if len(set(ids)) < len(ids):
        raise ValueError(f"experiments must have different file names, but got {', '.join(ids)}")
    title = chosen[0].title if len(chosen) == 1 else f"{len(chosen)} experiments"

    def head(run: Run) -> tuple[str, str]:
        from umab.research.report import words

        return title, f"{words.tally(run.verdicts).capitalize()}." if run.verdicts else ""

    _run_and_report(options, chosen, f"report-{ids[0]}", head)


def _run_and_report(
    options: argparse.Namespace,
    experiments: list[Experiment],
    out: str,
    head: Callable[[Run], tuple[str, str]],
) -> None:
    from umab.research.experiments.runner import run
    from umab.research.report import words
    from umab.research.report.run_page import check_names
    from umab.research.report.shell import Head

    if options.setting:
        known = sorted({setting.name for each in experiments for setting in each.settings})
        for name in options.setting:
            if name not in known:
                raise ValueError(f"a setting must be one of {', '.join(known)}, but got {name!r}")
        experiments = [each.with_settings(options.setting) for each in experiments]
    if options.policy:
        experiments = [each.with_policies(options.policy) for each in experiments]
    check_names(experiments)
    with report_folder(options, out) as place:
        done = run(
            experiments,
            n_trials=options.trials,
            seed=options.seed,
            real=REAL[options.data],
            data_seed=options.data_seed,
            n_threads=options.threads,
            device=options.device,
        )
        title, lede = head(done)
        about = Head(title=title, lede=lede, command=options.command)
        page = f"\n{write_report(done, place, about, options.certify)}" if place else ""
    note = stand_in_note((outcome.experiment.id for outcome in done.outcomes if outcome.stand_in), options.data)
    note = f"\n{note}\n" if note else ""
    # After the report is written: a closed pipe would end this.
    print(f"{words.regrets(done)}\n{verdicts(done)}{note}{page}")
