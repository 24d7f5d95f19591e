"""Which column of a long table or of a log holds what: by its name, or because an option says so."""

from __future__ import annotations

from typing import NamedTuple

from umab.tables.cells import listed
from umab.tables.sheet import Sheet


class Named(NamedTuple):
    """The columns that options name; None for those that are called as they should be."""

    round: str | None = None
    arm: str | None = None
    probability: str | None = None
    loss: str | None = None
    reward: str | None = None

    @classmethod
    def of(cls, *, reward: bool | str, loss: str | None, **others: str | None) -> tuple[Named, bool]:
        """Return the columns that are named, and whether the values are rewards."""
        if isinstance(reward, str):
            column: str | None = reward
        elif type(reward).__name__ in ("bool", "bool_"):
            column = None
        else:
            raise TypeError(f"reward must be True, False or the name of a column, but got a {type(reward).__name__}")
        if loss is not None and (column is not None or reward):
            raise ValueError(
                f"the values must be losses or rewards, but got loss={loss!r} and reward={reward!r}; name their column "
                "with one of the two options"
            )
        named = cls(loss=loss, reward=column, **others)
        for key, name in named._asdict().items():
            if not isinstance(name, str | None):
                raise TypeError(f"{key} must be the name of a column, but got a {type(name).__name__}")
        return named, bool(reward)

    @property
    def options(self) -> dict[str, str]:
        """What was named."""
        return {key: name for key, name in self._asdict().items() if name is not None}


def roles_of(sheet: Sheet, named: Named) -> dict[str, list[int]]:
    """Return the positions of the columns by what they hold: by their names in lower case, unless an option says so."""
    found: dict[str, list[int]] = {}
    for at, name in enumerate(sheet.names):
        found.setdefault(name.strip().lower(), []).append(at)
    for role, name in named.options.items():
        if name not in sheet.names:
            raise ValueError(
                f"{role} must name a column of {sheet.kind}, but got {name!r}; the columns are {listed(sheet.names)}"
            )
        found[role] = [sheet.names.index(name)]
    if named.loss is not None:
        found.pop("reward", None)  # one option names the values, so another column of values is just a column
    return found


def value_role(roles: dict[str, list[int]], *, reward: bool) -> str:
    """Return whether the values are in a column "loss" or "reward"; if both are there, `reward` decides."""
    return "reward" if "reward" in roles and (reward or "loss" not in roles) else "loss"


def other_columns(sheet: Sheet, *taken: int) -> list[str]:
    """Return the names of the columns at other positions."""
    return [name for at, name in enumerate(sheet.names) if at not in taken]
