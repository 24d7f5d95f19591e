"""`umab suite`."""

from __future__ import annotations

import argparse

from umab.cli.options import REAL, Commands, add_data_option, command, whole_from
from umab.cli.reports import report_folder
from umab.cli.texts import as_table


def add(commands: Commands) -> None:
    """Add the command."""
    suiting = command(
        commands,
        "suite",
        run_suite,
        "run the recommended policy, its competitors and your policies on the suite of loss tables, and write a report",
        "umab suite --half development --trials 10 --policy 'centred(sf-mab-a)'",
    )
    suiting.add_argument(
        "--half", choices=("development", "validation"), action="append", help="run only this half (default: both)"
    )
    suiting.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        default=[],
        help="also run this policy, given as NAME or NAME:KEY=VALUE; can be repeated (in other commands, --policy "
        "replaces the usual policies)",
    )
    suiting.add_argument(
        "--trials", type=whole_from(2), default=200, metavar="N", help="trials on each table (default: 200)"
    )
    suiting.add_argument(
        "--seed", type=whole_from(0), default=0, metavar="N", help="seed of the policies' draws (default: 0)"
    )
    add_data_option(suiting)
    suiting.add_argument(
        "--data-seed",
        type=whole_from(0),
        default=0,
        metavar="N",
        help="draw the random tables with this seed (default: 0, the suite itself)",
    )
    suiting.add_argument("--threads", type=whole_from(1), metavar="N", help="number of threads (default: one per core)")
    suiting.add_argument("--out", metavar="FOLDER", help="where to write the report (default: report-suite)")


def run_suite(options: argparse.Namespace) -> None:
    """Run policies on the suite and print their scores."""
    with report_folder(options, "report-suite") as place:
        from umab.research.experiments.contest import contest
        from umab.research.report import suite_page, words

        found = contest(
            options.half or ("development", "validation"),
            options.policy,
            n_trials=options.trials,
            seed=options.seed,
            data_seed=options.data_seed,
            real=REAL[options.data],
            n_threads=options.threads,
        )
        page = suite_page.write(found, place, options.command) if place else None
    for standings in found:
        head = (f"{standings.half} half", "mean score", "÷ best mean", "worst multiple", "on table")
        print(as_table([head, *(line[:5] for line in suite_page.lines(standings))], line=True))
        print(f"\n{words.contest_verdict(standings)}\n")
    if missing := suite_page.stand_ins(found):
        print(f"Not all data are real. Stand-ins were used for: {', '.join(missing)}.\n")
    if page:
        print(page)
