"""`umab compare`."""

from __future__ import annotations

import argparse
from pathlib import Path

from umab.cli.options import Commands, add_run_options, add_table_options, command, read_table, whole_from
from umab.cli.reports import need_extra, report_folder


def add(commands: Commands) -> None:
    """Add the command."""
    comparing = command(
        commands,
        "compare",
        compare,
        "find the policy that would have done best on a loss table, and write a report",
        "umab compare latencies.csv",
    )
    comparing.add_argument(
        "losses",
        help="a CSV or Parquet file with one column per arm and one row per round, or with columns round, arm and "
        "loss, which may have other names: umab compare log.csv --round date --arm service --loss ms",
    )
    add_table_options(comparing)
    comparing.add_argument(
        "--switches",
        type=whole_from(0),
        metavar="N",
        help="also print the regret against the best sequence of arms that changes at most N times, and where it "
        "changes: umab compare latencies.csv --switches 3",
    )
    add_run_options(comparing, out="report-NAME, named after the file")


def compare(options: argparse.Namespace) -> None:
    """Run policies on a user's table and say which did best."""
    need_extra("report", "umab compare")
    from umab.research.comparison import compared, stem
    from umab.tables.losses import refuse_away

    name = Path(options.losses).name
    losses = read_table(options)
    if options.switches is not None:
        refuse_away(losses, "--switches")  # before anything runs
    with report_folder(options, f"report-{stem(name)}") as out:
        found = compared(
            losses,
            name,
            options.command,
            policies=options.policy,
            n_trials=options.trials,
            seed=options.seed,
            switches=options.switches,
            device=options.device,
            n_threads=options.threads,
        )
        if out:
            found.write(out, certify=options.certify)
    print(found)
