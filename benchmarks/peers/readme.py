"""The small table of the README, from the page docs/peers.md that the same command writes."""

from __future__ import annotations

import re

from benchmarks.pages import DOCS, table

README = DOCS.parent / "README.md"
START, END = "<!-- peers -->\n", "<!-- end of peers -->\n"

SHOWN = {
    "umab": "",  # its recommended policy, whichever that is
    "river": "Exp3 (gamma=0.1)",
    "SMPyBandits": "Exp3",
    "striatum": "Exp3",
    "pymab": "EXP3Policy (Rust)",
    "vowpalwabbit": "cb_explore, softmax",
}
"""The policy that is shown, for each library."""


def short(page: str, recommended: str) -> str:
    """Return the rows of the page for the README, with a short word in place of an error message."""
    found = re.search(r"^\| library \| policy \| (mixed .*) \|\n\| .*\n((?:\|.*\n)+)", page, re.MULTILINE)
    if found is None:
        raise ValueError("the page must have a table of losses that libraries do not expect, but got none")
    cells = [line.strip("|\n ").split(" | ") for line in found[2].splitlines()]
    by_policy = {(library, policy): rest for library, policy, *rest in cells}
    rows = []
    for library, policy in SHOWN.items():
        policy = policy or recommended
        rows.append(
            [
                "`umab.recommended()`" if library == "umab" else f"{library}, {policy}",
                *map(_in_short, by_policy[library, policy]),
            ]
        )
    return table(["library, policy", *found[1].split(" | ")], rows)


def _in_short(cell: str) -> str:
    """Return what happened, without the worst seed, the message of an error and how much was measured."""
    said = re.match(r"refuses|stops in round [\d,]+|\d\.\d\d", cell)
    if said is None:
        raise ValueError(f"a cell must say a share, a refusal or an end, but got {cell!r}")
    return said[0]


def write(page: str, recommended: str) -> None:
    """Replace the table of the README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    README.write_text(before + START + short(page, recommended) + END + after, encoding="utf-8")
