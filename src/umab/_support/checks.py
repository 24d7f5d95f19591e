"""Checks of arguments. A message states the rule and the value that broke it."""

import math
import numbers
import sys
from collections.abc import Sized
from typing import SupportsFloat, cast

_FEW = 10
"""Of how many elements an array or a frame may be to be shown as it is, if that is one line."""

_SHORT = 200
"""How many letters an error shows of a value."""

LARGEST = sys.float_info.max
"""The largest finite double."""


def finite(name: str, value: object) -> float:
    """Return `value` as a finite float."""
    number = real(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, but got {name}={shown(value)}")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` as a finite float above 0."""
    number = real(name, value)
    if not 0.0 < number <= LARGEST:
        raise ValueError(f"{name} must be a finite number above 0, but got {name}={shown(value)}")
    return number


def probability(name: str, value: object) -> float:
    """Return `value` as a float in (0, 1]."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must be above 0 and at most 1, but got {name}={shown(value)}")
    return number


def whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, but got {name}={shown(value)}")
    number = int(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, but got {name}={number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, but got a larger number")
    return number


def optional_horizon(value: object) -> int | None:
    """Return `value` as a number of rounds, or None if it is None."""
    return None if value is None else whole("horizon", value, least=1, most=2**53)


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but got {name}={shown(value)}")
    return value


def real(name: str, value: object) -> float:
    """Return `value` as a float, which may be inf or nan."""
    if type(value) is float:
        return value
    # Strings and dates turn into floats too readily, and an array of one element is not a number.
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, (str, bytes, bytearray)) or kind not in "fiub" or getattr(value, "ndim", False):
        raise TypeError(f"{name} must be a number, but got {name}={shown(value)}")
    try:
        return float(cast(SupportsFloat, value))
    except OverflowError:
        raise ValueError(f"{name} must fit into a float, but got {name}={shown(value)}") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, but got {name}={shown(value)}") from None


def shown(value: object) -> str:
    """Return a value as an error shows it: as `repr` does, but large data by their type and size.

    Examples
    --------
    >>> from umab._support.checks import shown
    >>> import numpy as np
    >>> shown("abc"), shown([0.5, 1.0]), shown(np.zeros((1000, 3))), shown(list(range(1000)))
    ("'abc'", '[0.5, 1.0]', 'ndarray of shape (1000, 3)', 'list of length 1000')
    """
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or math.prod(shape) <= _FEW:
        text = repr(value)
        if len(text) <= _SHORT and "\n" not in text:
            return text
        if isinstance(value, str) or not hasattr(value, "__len__"):
            return f"{text.partition(chr(10))[0][:_SHORT]}…"
    kind = type(value).__name__
    if isinstance(shape, tuple):
        return f"{kind} of shape {shape}"
    return f"{kind} of length {len(cast(Sized, value))}"


def true_or_false(name: str, value: object) -> bool:
    """Return `value`, if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but got {name}={shown(value)}")
    return value
