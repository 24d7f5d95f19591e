"""Checks of arguments. A message states the rule and the value that broke it."""

import math
import numbers
import sys
from typing import Any

LARGEST = sys.float_info.max
"""The largest finite double."""


def finite(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    number = real(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, but got {name}={value!r}")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above 0."""
    number = real(name, value)
    if not 0.0 < number <= LARGEST:
        raise ValueError(f"{name} must be a finite number above 0, but got {name}={value!r}")
    return number


def probability(name: str, value: Any) -> float:
    """Return `value` as a float in (0, 1]."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must be above 0 and at most 1, but got {name}={value!r}")
    return number


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, but got {name}={value!r}")
    number = int(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, but got {name}={number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, but got a larger number")
    return number


def optional_horizon(value: Any) -> int | None:
    """Return `value` as a number of rounds, or None if it is None."""
    return None if value is None else whole("horizon", value, least=1, most=2**53)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but got {name}={value!r}")
    return value


def real(name: str, value: Any) -> float:
    """Return `value` as a float, which may be inf or nan."""
    if type(value) is float:
        return value
    # Strings and dates turn into floats too readily, and an array of one element is not a number.
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, (str, bytes, bytearray)) or kind not in "fiub" or getattr(value, "ndim", False):
        raise TypeError(f"{name} must be a number, but got {name}={value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit into a float, but got {name}={value!r}") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, but got {name}={value!r}") from None


def true_or_false(name: str, value: Any) -> bool:
    """Return `value`, if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but got {name}={value!r}")
    return value
