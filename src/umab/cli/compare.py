"""`umab compare`."""

from __future__ import annotations

import argparse
from pathlib import Path

from umab.algorithms.names import can_be_named
from umab.cli.options import Commands, add_run_options, add_table_options, command, read_table
from umab.cli.reports import report_folder, write_report
from umab.cli.texts import regrets


def add(commands: Commands) -> None:
    """Add the command."""
    comparing = command(
        commands,
        "compare",
        compare,
        "find the policy that would have done best on a loss table, and write a report",
        "umab compare latencies.csv --drop date",
    )
    comparing.add_argument(
        "losses",
        help="a CSV or Parquet file with one column per arm and one row per round, or with columns round, arm and loss",
    )
    add_table_options(comparing)
    add_run_options(comparing, out="report-NAME, named after the file")


def compare(options: argparse.Namespace) -> None:
    """Run policies on a user's table and say which did best."""
    from umab.tables.reading import ENDINGS

    path = Path(options.losses)
    stem = next((path.name.removesuffix(each) for each in ENDINGS if path.name.endswith(each)), path.stem)
    losses = read_table(options)
    with report_folder(options, f"report-{stem}") as out:
        from umab.research.experiments.experiment import comparison
        from umab.research.experiments.runner import run_on
        from umab.research.report import words
        from umab.research.report.shell import Head

        experiment = comparison(stem, losses, options.policy)
        run = run_on(
            [(experiment, experiment.settings[0], losses)],
            n_trials=options.trials,
            seed=options.seed,
            n_threads=options.threads,
        )
        answer = words.answer(run.outcomes[0])
        outcome = run.outcomes[0]
        best = outcome.curves[outcome.best].policy.for_horizon(losses.n_rounds)
        # A policy that is not registered has no name to give to umab, so the code shows the object itself.
        shown = f'"{best.name}"' if can_be_named(best) else repr(best)
        code = (
            f"learner = umab.Learner({shown}, arms={list(losses.arms)})"
            if losses.n_arms <= 10
            else f"umab.policy({shown})"
        )
        title = f"Which policy would have done best on {path.name}?"
        code += "  # the policy with the smallest regret here"
        head = Head(title=title, lede=answer, command=options.command, code=code)
        page = f"\n\n{write_report(run, out, head, options.certify)}" if out else ""
    print(f"{words.facts(losses)}\n\n{regrets(run)}\n{_WHICH_IF_AWAY if losses.n_away else _WHICH}\n\n{answer}{page}")


_WHICH = """\
Expected regret counts what the draw of each round costs on average, as umab.simulate(..., expected=True) does. Without
this option, simulate counts the arms that were drawn: sampled regret, which has the same mean and a larger error."""

_WHICH_IF_AWAY = """\
Expected regret counts what the draw of each round costs on average, as umab.simulate(..., expected=True) does. It is
the largest over the arms, each counted over the rounds in which it was there. Without this option, simulate counts the
arms that were drawn: sampled regret, which has the same mean against each single arm."""
