"""`umab data`."""

from __future__ import annotations

import argparse

from umab.cli.options import Commands, command


def add(commands: Commands) -> None:
    """Add the command."""
    tables = command(
        commands,
        "data",
        show_data,
        "list, fetch or verify the public tables of the experiments",
        "UMAB_DATA=~/tables umab data verify",
    )
    tables.add_argument(
        "action", nargs="?", choices=("list", "fetch", "verify"), default="list", help="what to do (default: list)"
    )
    tables.add_argument("names", nargs="*", metavar="NAME", help="a table (default: all)")


def show_data(options: argparse.Namespace) -> int:
    """List, fetch or verify the public tables."""
    from umab.datasets.sources import SOURCES, fetch, how_to_get, status

    for name in options.names:
        if name not in SOURCES:
            raise ValueError(f"a table must be one of {', '.join(SOURCES)}, but got {name!r}")
    chosen = [source for name, source in SOURCES.items() if not options.names or name in options.names]
    failed = False
    for source in chosen:
        problem = ""
        if options.action == "fetch" and not status(source).verified:
            try:
                fetch(source)
            except OSError as error:  # the others may still be available
                problem = f" ({error})"
        found = status(source)
        if found.verified:
            state = f"{found.path} (verified)"
        elif found.problem:
            state = f"damaged: {found.problem}"
        else:
            state = f"not found{problem}"
        failed = failed or bool(found.problem) or (options.action != "list" and not found.verified)
        print(f"{source.name}: {state}\n  {source.size:,} bytes, sha256 {source.sha256}\n  from {source.url}")
    if how := how_to_get(chosen):
        print(f"\n{how} Until then, commands use stand-ins.")
    return int(failed)
