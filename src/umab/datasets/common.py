"""What the data sets share."""

from __future__ import annotations

from types import ModuleType
from typing import Literal, TypeAlias, TypedDict

from umab._support import checks
from umab._support.extras import extra

Setting: TypeAlias = Literal["printed", "figure"]
"""The data as the paper describes them, or as they were when its figures were drawn."""

HORIZON = 1258
"""The number of rounds of every experiment in the paper."""


class Given(TypedDict):
    """A setting and a seed, in the form of a provenance."""

    setting: str
    seed: int


def parameters(setting: object, seed: object) -> Given:
    """Return a setting and a seed, checked, in the form of a provenance."""
    return {
        "setting": checks.one_of("setting", setting, ("printed", "figure")),
        "seed": checks.whole("seed", seed, least=0),
    }


def import_polars() -> ModuleType:
    """Return the package polars, which is imported only when a table is read."""
    with extra("data", "reading tables"):
        import polars
    return polars
