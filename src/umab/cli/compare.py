"""`umab compare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from umab.algorithms.names import can_be_named
from umab.cli.options import Commands, add_run_options, add_table_options, command, read_table, whole_from
from umab.cli.reports import report_folder, write_report
from umab.cli.texts import regrets

if TYPE_CHECKING:
    from umab.research.experiments.runner import Outcome
    from umab.tables.losses import Losses


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
        help="a CSV or Parquet file with one column per arm and one row per round, or with columns round, arm and loss",
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
    from umab.tables.losses import refuse_away
    from umab.tables.reading import ENDINGS

    path = Path(options.losses)
    stem = next((path.name.removesuffix(each) for each in ENDINGS if path.name.endswith(each)), path.stem)
    losses = read_table(options)
    if options.switches is not None:
        refuse_away(losses, "--switches")  # before anything runs
    with report_folder(options, f"report-{stem}") as out:
        from umab.research.experiments.experiment import comparison
        from umab.research.experiments.runner import run_on
        from umab.research.report import words
        from umab.research.report.in_short import in_short
        from umab.research.report.shell import Head

        experiment = comparison(stem, losses, options.policy)
        run = run_on(
            [(experiment, experiment.settings[0], losses)],
            n_trials=options.trials,
            seed=options.seed,
            n_threads=options.threads,
            device=options.device,
        )
        outcome = run.outcomes[0]
        first, answer = in_short(outcome), words.answer(outcome)
        title = f"Which policy would have done best on {path.name}?"
        head = Head(title=title, lede=f"{first} {answer}", command=options.command, code=_code(outcome))
        page = f"\n\n{write_report(run, out, head, options.certify)}" if out else ""
    which = _WHICH_IF_AWAY if losses.n_away else _WHICH
    which += "" if options.switches is None else f"\n\n{_sequence(losses, options.switches)}"
    print(f"{first}\n\n{words.facts(losses)}\n\n{regrets(run, options.switches)}\n{which}\n\n{answer}{page}")


def _code(outcome: Outcome) -> str:
    """Return the line of code to begin with: the recommended policy, unless another one did better for certain."""
    from umab.algorithms.registry import recommended
    from umab.research.report import words

    losses, standings = outcome.losses, outcome.standings
    level = [name for name in outcome.curves if (where := standings.get(name)) and (where.best or where.tied)]
    if any(outcome.curves[name].policy == recommended() for name in level):
        shown, why = (
            "umab.recommended()",
            "no policy has a smaller expected regret here, as far as these trials can tell",
        )
    else:
        best = outcome.curves[outcome.best].policy.for_horizon(losses.n_rounds)
        # A policy that is not registered has no name to give to umab, so the code shows the object itself.
        shown = f'"{best.name}"' if can_be_named(best) else repr(best)
        why = "the policy with the smallest expected regret here"
        if losses.n_arms > 10:
            shown = f"umab.policy({shown})"
    arms = f", arms={list(losses.arms)}{', maximize=True' if words.are_rewards(losses) else ''}"
    return f"# {why}\n{f'learner = umab.Learner({shown}{arms})' if losses.n_arms <= 10 else shown}"


def _sequence(losses: Losses, switches: int) -> str:
    """Say which sequence of arms the policies were compared with."""
    from umab.research.report import words
    from umab.results.tracking import best_sequence

    return (
        f"The best sequence of arms with at most {words.switches(switches)}, where rounds count from 1, is: "
        f"{words.sequence(losses, best_sequence(losses, switches))}.\n"
        "The regret against it is larger by what it saves over the best single arm, the same amount for every policy."
    )


_WHICH = """\
Expected regret counts what the draw of each round costs on average, as umab.simulate does. With expected=False,
simulate counts the arms that were drawn: sampled regret, which has the same mean and usually a larger error."""

_WHICH_IF_AWAY = """\
Expected regret counts what the draw of each round costs on average, as umab.simulate does. It is the largest over the
arms, each counted over the rounds in which it was there. With expected=False, simulate counts the arms that were drawn:
sampled regret, which has the same mean against each single arm."""
