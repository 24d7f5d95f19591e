"""What the text of a cell can be: a number, a date, a missing value, the label of a total."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

MISSING = ("", "-", "na", "n/a", "#n/a", "nan", "-nan", "null", "none")
"""The texts that stand for a missing value, in lower case."""

TOTALS = ("total", "totals", "grand total", "sum", "mean", "average", "avg")
"""The labels of rows that are not rounds, in lower case."""

PLAIN_NUMBERS = (
    "write numbers like 1234.5, with a decimal point and without thousands separators, units or signs such as $ and %"
)
"""The advice for a cell that is not a number."""

_DATE = re.compile(r"(\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}([./-])\d{1,2}\3\d{4})([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?")
"""Dates as people write them, with a four-digit year; dates in ISO 8601 need no pattern."""


def is_missing(value: Any) -> bool:
    """Whether a value of any type stands for a missing one: nan, None, the NA of pandas, or a text in `MISSING`."""
    text = "" if value is None else str(value).strip().lower()
    return text in MISSING or text == "<na>"


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
    return repr(text) if text else "an empty cell"
