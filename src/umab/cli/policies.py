"""`umab policies`."""

from __future__ import annotations

import argparse

from umab._support.checks import LARGEST
from umab.algorithms.names import policy
from umab.algorithms.registry import policies, record_of
from umab.cli.options import Commands, command
from umab.cli.texts import as_table


def add(commands: Commands) -> None:
    """Add the command."""
    listing = command(
        commands,
        "policies",
        list_policies,
        "list all policies, with what they need, what they guarantee, and who published them",
        "umab policies --names | head -3",
    )
    listing.add_argument("--names", action="store_true", help="print only the names, one per line")


def list_policies(options: argparse.Namespace) -> None:
    """Print the policies as a table, or only their names."""
    if options.names:
        print("\n".join(policies()))
        return
    head = ("name", "range", "sign", "horizon", "sees", "delay", "regret at most of order", "published by")
    rows = [head, *(describe(name) for name in policies())]
    print(as_table(rows, line=True))
    advised = "; ".join(f"{name} ({summary})" for name, summary in policies(advised=True).items())
    print(f"\nOver experts, with advice in every round: {advised}")
    print(_LEGEND)


_LEGEND = """
The bounds are on expected regret against losses that do not react to the choices (w.h.p.: on regret, with high
probability), up to constants, logarithms and terms that do not grow with T. In umab-g and sf-mab these terms include a
loss of size 1, so losses far below 1 are learned late. n: number of arms. T: number of rounds. ℓ∞: size of the largest
loss. ℓ⁻∞: size of the largest negative loss. All policies run with late feedback, for which they use the probabilities
of the draws; none of these bounds covers that."""


def describe(name: str) -> tuple[str, ...]:
    """Return the row of a policy: its name, what it needs, its guarantee and its reference."""
    which = policy(name)
    return (
        name,
        "known" if which.needs_range else "unknown",
        "≥ 0" if which.loss_range == (0.0, LARGEST) else "any",
        "needed" if which.needs_horizon else "not needed",
        "all arms" if which.full_information else "one arm",
        "runs",
        which.guarantee or "no bound",
        record_of(which).reference or "–",
    )
