"""Checks of arguments, for authors of policies. The code is in `umab._support.checks`."""

from umab._support.checks import (
    LARGEST,
    finite,
    one_of,
    optional_horizon,
    positive,
    probability,
    real,
    whole,
)

__all__ = [
    "LARGEST",
    "finite",
    "one_of",
    "optional_horizon",
    "positive",
    "probability",
    "real",
    "whole",
]
