"""`umab suite`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from umab.cli.options import REAL, Commands, add_data_option, add_device_options, command, whole_from
from umab.cli.reports import need_extra, report_folder
from umab.cli.texts import as_table, stand_in_note


def add(commands: Commands) -> None:
    """Add the command."""
    suiting = command(
        commands,
        "suite",
        run_suite,
        "run the recommended policies, their competitors and yours on the suite of loss tables, and write a report",
        "umab suite --half development --trials 10 --policy 'centred(sf-mab-a)'",
    )
    suiting.add_argument(
        "--half", choices=("development", "validation"), action="append", help="run only this half (default: both)"
    )
    suiting.add_argument(
        "--group",
        choices=("general", "changing", "heavy", "service"),
        default="general",
        help="the tables: general, for losses of many kinds; changing, where the best arm changes, with the price "
        "on the stationary tables of the general group; heavy, for losses without a variance, where regret is by the "
        "known means; or service, for what services meet, beside rules that practitioners write (default: general)",
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
    add_device_options(suiting)
    suiting.add_argument(
        "--out",
        metavar="FOLDER",
        help="where to write the report (default: report-suite, or report- and the group)",
    )


def run_suite(options: argparse.Namespace) -> None:
    """Run policies on the suite and print their scores."""
    need_extra("reproduce", "umab suite")  # with what the stand-ins need
    runs = {"general": _run_general, "changing": _run_changing, "heavy": _run_heavy, "service": _run_service}
    run = runs[options.group]
    with report_folder(options, f"report-{'suite' if options.group == 'general' else options.group}") as place:
        page, missing = run(options, place)
    if note := stand_in_note(missing, options.data):
        print(f"{note}\n")
    if page:
        print(page)


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the options ask of a group."""
    return {
        "halves": options.half or ("development", "validation"),
        "policies": options.policy,
        "n_trials": options.trials,
        "seed": options.seed,
        "data_seed": options.data_seed,
        "real": REAL[options.data],
        "n_threads": options.threads,
        "device": options.device,
    }


def _run_general(options: argparse.Namespace, place: Path | None) -> tuple[Path | None, list[str]]:
    """Run the general group; return the path of the page, and the tables that were replaced by a stand-in."""
    from umab.research.experiments.contest import contest
    from umab.research.report import suite_page

    found = contest(**_asked(options))
    page = suite_page.write(found, place, options.command) if place else None
    for standings in found:
        head = (f"{standings.half} half", "mean score", "÷ best mean", "worst multiple", "on table")
        print(as_table([head, *(line[:5] for line in suite_page.lines(standings))], line=True))
        print(*("", *suite_page.verdicts(standings), ""), sep="\n")
    return page, suite_page.stand_ins(found)


def _run_changing(options: argparse.Namespace, place: Path | None) -> tuple[Path | None, list[str]]:
    """Do the same with the changing group."""
    from umab.research.experiments.tracking import track
    from umab.research.report import changing_page, suite_page

    found = track(**_asked(options))
    page = changing_page.write(found, place, options.command) if place else None
    for shares in found:
        head = (f"{shares.half} half", *changing_page.HEAD)
        print(as_table([head, *changing_page.lines(shares)], line=True))
        off = [(what, *line[1:]) for what, line in changing_page.ablation_lines(shares)]
        print(f"\n{as_table([('off', *changing_page.HEAD), *off], line=True)}")
        print(f"\n{changing_page.verdict(shares)}\n")
    print(f"{changing_page.rule(found)}\n")
    return page, suite_page.stand_ins([shares.stationary for shares in found])


def _run_heavy(options: argparse.Namespace, place: Path | None) -> tuple[Path | None, list[str]]:
    """Do the same with the heavy group."""
    from umab.research.experiments.tails import tails
    from umab.research.report import heavy_page

    asked = _asked(options)
    if asked.pop("device") != "cpu":
        raise ValueError("the heavy group has a table for each trial and runs on the processor, but got --device gpu")
    numbers = heavy_page.numbers_of(tails(**asked))
    page = heavy_page.write(numbers, place, options.command) if place else None
    for half, found in numbers["halves"].items():
        head = (f"{half} half", "told", "all", "home", "away")
        print(as_table([head, *((line.name, line.told, *line.scores) for line in heavy_page.lines(found))], line=True))
        print(*("", *heavy_page.verdicts(found), ""), sep="\n")
    print(*heavy_page.rule(numbers["halves"]), "", sep="\n")
    return page, numbers["stand_ins"]


def _run_service(options: argparse.Namespace, place: Path | None) -> tuple[Path | None, list[str]]:
    """Do the same with the service group, which has no public tables."""
    from umab.research.experiments.serving import serve
    from umab.research.report import service_page

    asked = _asked(options)
    if asked.pop("device") != "cpu":
        raise ValueError("the service group has a table for each trial and runs on the processor, but got --device gpu")
    for unused in ("real", "n_threads"):
        asked.pop(unused)
    numbers = service_page.numbers_of(
        serve(**asked), **{each: asked[each] for each in ("n_trials", "seed", "data_seed")}
    )
    page = service_page.write(numbers, place, options.command) if place else None
    for half, found in numbers["halves"].items():
        print(as_table([(f"{half} half", *service_page.head(found)), *service_page.lines(found)], line=True))
        print()
    return page, []
