"""The command `umab`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.registry import policies, policy
from umab.checks import LARGEST


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="umab",
        description="Adversarial bandits with unbounded losses.",
        epilog="example: umab policies",
    )
    parser.add_argument("--version", action="version", version=f"umab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listing = commands.add_parser(
        "policies",
        help="list all policies: what they need, what they guarantee, where they come from",
        description="List all policies: what they need, what they guarantee, where they come from.",
        epilog="example: umab policies --names | head -3",
    )
    listing.add_argument("--names", action="store_true", help="print the names only, one a line")
    listing.set_defaults(run=list_policies)
    chosen = parser.parse_args(arguments)
    try:
        chosen.run(chosen)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    return 0


def list_policies(options: argparse.Namespace) -> None:
    """Print the policies, as a table or by name."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a console that has no ∞ shows a question mark
    if options.names:
        print("\n".join(policies()))
        return
    head = ("name", "range", "sign", "horizon", "sees", "delay", "regret at most of order", "published by")
    rows = [head, *(describe(name) for name in policies())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for at, row in enumerate(rows):
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        if at == 0:
            print("  ".join("-" * width for width in widths))
    print(_LEGEND)


_LEGEND = """
Regret is expected regret against losses that do not react to the choices (w.h.p.: regret, with high probability),
up to constants, logarithms and terms that do not grow with T. In umab-g and sf-mab these terms hold a loss of size 1,
so losses far below 1 are learned late. n arms, T rounds, ℓ∞ the largest loss in size, ℓ⁻∞ the largest negative one.
All policies run with delayed feedback, with the probabilities of the draws; none of these bounds covers that."""


def describe(name: str) -> tuple[str, ...]:
    """Return the row of a policy: name, setting, guarantee, reference."""
    which = policy(name)
    return (
        name,
        "known" if known_range(which) else "unknown",
        "≥ 0" if which.loss_range == (0.0, LARGEST) else "any",
        "needed" if which.needs_horizon else "not needed",
        "all arms" if which.full_information else "one arm",
        "runs",
        which.guarantee or "no bound",
        which.reference or "–",
    )


def known_range(which: Policy) -> bool:
    """Whether the policy must be told both ends of the range of the losses."""
    lowest, highest = which.loss_range
    return lowest > -LARGEST and highest < LARGEST


if __name__ == "__main__":
    sys.exit(main())
