"""Durations as ISO 8601 writes them: PT30S, PT15M, P1DT12H, P2W."""

from __future__ import annotations

import re
from decimal import Decimal

_PARTS = re.compile(
    r"P(?:(?P<weeks>\d+)W|(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?)",
    re.ASCII,
)
_SECONDS = {"weeks": 604800.0, "days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}

LONGEST = 3660 * 86400.0
"""The longest duration, about ten years, in seconds."""
SHORTEST = 0.001
"""The shortest duration, in seconds: about how exact clocks are. A number of durations since 1970 stays exact, too."""
MOST_CHARACTERS = 40
"""How long the text of a duration may be."""


def seconds_of(text: str) -> float:
    """Return the seconds in a duration; years and months have no fixed length, so they are refused.

    Examples
    --------
    >>> seconds_of("P1DT12H"), seconds_of("PT0.5S")
    (129600.0, 0.5)
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a duration must have at most {MOST_CHARACTERS} characters, but got {len(text)}")
    found = _PARTS.fullmatch(text)
    if found is None or text.endswith(("P", "T")) or not any(found.groups()):
        raise ValueError(f"a duration must be like PT30S, PT15M, P1DT12H or P2W, but got {text!r}")
    total = sum(float(part.replace(",", ".")) * _SECONDS[name] for name, part in found.groupdict().items() if part)
    if not SHORTEST <= total <= LONGEST:
        raise ValueError(f"a duration must be at least 1 ms and at most ten years, but got {text!r}")
    return total


def text_of(seconds: float) -> str:
    """Return a duration in seconds as a text.

    Examples
    --------
    >>> text_of(5400.0), text_of(0.25)
    ('PT5400S', 'PT0.25S')
    """
    return f"PT{Decimal(repr(seconds)).normalize():f}S"
