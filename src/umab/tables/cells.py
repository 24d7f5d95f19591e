"""What the text of a cell can be: a number, a date, a missing value, the label of a total."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

MISSING = ("", "-", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nat")
"""The texts that stand for a missing value, in lower case."""

TOTALS = ("total", "totals", "grand total", "sum", "mean", "average", "avg")
"""The labels of rows that are not rounds, in lower case."""

PLAIN_NUMBERS = {
    ".": "write numbers like 1234.5, with a decimal point and without thousands separators, units or signs such as $ "
    "and %",
    ",": "write numbers like 1234,5, with a decimal comma and without thousands separators, units or signs such as $ "
    "and %",
}
"""The advice for a cell that is not a number, by the decimal sign."""

_DATE = re.compile(r"(\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}([./-])\d{1,2}\3\d{4})([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?")
"""Dates as people write them, with a four-digit year; dates in ISO 8601 need no pattern."""


def is_null(value: object) -> bool:
    """Whether a value is none at all: None, nan, or the NA or NaT of pandas."""
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "<NA>", "NaT"))


def is_missing(value: object) -> bool:
    """Whether a value of any type stands for a missing one: nan, None, the NA of pandas, or a text in `MISSING`."""
    return value is None or str(value).strip().lower() in MISSING


def is_total(text: str) -> bool:
    """Whether a text is a usual label for a row of sums or means."""
    return text.strip().rstrip(":").lower() in TOTALS


def is_decorated(text: str) -> bool:
    """Whether a text is a number with separators, a unit or a sign such as $ or %. Points stay: 1.5.2024 is a date."""
    without_unit = re.sub(r"(?<=\d)\s*[A-Za-zµ]{1,4}$", "", text)
    return _is_number(re.sub(r"[\s,'’_%()$€£¥−]", "", without_unit))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_decimal(name: str) -> bool:
    """Whether a name is a number that is unlikely to name an arm: 0.68, but not 7, which may be a store."""
    return _is_number(name) and not name.strip().isdigit()


def has_comma(text: str) -> bool:
    """Whether a text would be a number if its comma were a decimal comma."""
    return re.fullmatch(r"[-+]?\d+,\d+", text) is not None


def is_value(name: str) -> bool:
    """Whether a name is a number or a date."""
    return _is_number(name) or is_date(name)


def is_date(text: str) -> bool:
    """Whether a text is a date or a time; 20260131 and 1.5 are numbers."""
    if _is_number(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return _DATE.fullmatch(text) is not None
    return True


def shown(text: str) -> str:
    """Return the text of a cell as an error message shows it."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…") if text else "an empty cell"


def listed(names: Sequence[str]) -> str:
    """Return names as an error message lists them: not all, if there are many."""
    rest = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(map(repr, names[:_MOST])) + rest


_LONGEST = 80
"""The most characters of a cell that an error message shows."""

_MOST = 20
"""The most names that an error message lists."""
