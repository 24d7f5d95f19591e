"""How curves are drawn: a colour and a dash for each policy, and for curves without one of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Style(NamedTuple):
    """How a curve is drawn. The dashes keep curves apart in grey print too."""

    colour: str
    dash: tuple[int, ...] = ()


STYLES: dict[str, Style] = {
    "umab-w": Style("#c51b7d"),
    "umab-r": Style("#b2182b", (9, 2)),
    "centred(umab-s)": Style("#7b3294"),
    "umab-l": Style("#7b3294", (2, 3)),
    "umab-s": Style("#7b3294", (7, 2)),
    "centred(umab-sh)": Style("#1f6f8b"),
    "umab-sh": Style("#1f6f8b", (7, 2)),
    "umab-nn": Style("#000000"),
    "umab-g": Style("#e69f00", (7, 2)),
    "umab-g-a": Style("#d55e00"),
    "umab-g-anytime": Style("#d55e00", (9, 2, 2, 2)),
    "umab-g-none": Style("#000000", (2, 2)),
    "sf-mab": Style("#56b4e9", (7, 2)),
    "sf-mab-a": Style("#0072b2"),
    "ahb": Style("#009e73"),
    "banker-omd": Style("#cc79a7", (9, 2, 2, 2)),
    "banker-sftinf": Style("#aa4499", (3, 2, 9, 2)),
    "banker-sflbinf": Style("#882255", (9, 2, 2, 2, 2, 2)),
    "scb": Style("#8c510a"),
    "scb-ix": Style("#8c510a", (5, 2)),
    "scb-d": Style("#8c510a", (1, 2)),
    "htinf": Style("#1b7837"),
    "opttinf": Style("#7fbf7b"),
    "adatinf": Style("#5e3c99"),
    "adatinf-anytime": Style("#9970ab", (5, 2)),
    "tsallis-inf-d": Style("#2c7fb8", (1, 2)),
    "adahedge": Style("#555555", (5, 2, 1, 2)),
    "solo-ftrl": Style("#555555", (1, 1)),
    "uniform": Style("#999999", (2, 3)),
}
"""The styles of policies by name. A policy without one gets a style that no other curve of the chart has."""

# For curves without a style of their own; the colours remain apart for the colour-blind (Okabe and Ito 2008, Color
# universal design).
_MORE = tuple(
    Style(colour, dash)
    for dash in ((4, 4), (8, 3, 2, 3), (1, 2))
    for colour in ("#b2182b", "#01665e", "#a6611a", "#444444")
)


def styles_of(names: list[str], own: Mapping[str, Style] | None = None) -> list[Style]:
    """Return a style for each name: its own or its policy's, if no name before it has taken that; else a free one.

    What follows a comma in a name is ignored, so that the best of a grid has the colour of its family.
    """
    known = {**STYLES, **(own or {})}
    chosen: list[Style] = []
    free = iter(_MORE * (len(names) // len(_MORE) + 1))
    for name in names:
        style = known.get(name.partition(", ")[0])
        chosen.append(style if style and style not in chosen else next(free))
    return chosen
