"""Long tables: every row is the loss of one arm in one round."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from umab.tables.cells import MISSING, listed, shown
from umab.tables.columns import Table
from umab.tables.logs import refuse_log, with_probabilities
from umab.tables.missing import ways_out
from umab.tables.roles import Named, roles_of, value_role
from umab.tables.sheet import Sheet

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
"""Rounds that are numbers. Python would also read 1_0 as one."""


def long_columns(sheet: Sheet, named: Named, *, reward: bool) -> tuple[int, int, int] | None:
    """Return the positions of the round, arm and value columns of a long table; None if the table is wide."""
    roles = roles_of(sheet, named)
    value = value_role(roles, reward=reward)
    if not named.options:
        return _places_of(roles, value) if {"round", "arm", value} <= roles.keys() else None
    for role in ("arm", value):
        if role not in roles:
            raise ValueError(
                f"a long table must have a column of {'losses' if role == 'loss' else f'{role}s'}, but {sheet.origin} "
                f"has none called {role}; say which of {listed(sheet.names)} it is: "
                f"{sheet.wording.option(role, 'COLUMN')}"
            )
    refuse_log(sheet, named, round_known=True)
    if "round" not in roles:
        others = [at for at in range(len(sheet.names)) if at not in (roles["arm"][0], roles[value][0])]
        if len(others) != 1:
            which = f"which of {listed([sheet.names[at] for at in others])} it is" if others else "which column it is"
            raise ValueError(
                f"a long table must have a column of rounds, but {sheet.origin} has none called round; say {which}: "
                f"{sheet.wording.option('round', 'COLUMN')}"
            )
        roles["round"] = others
    return _places_of(roles, value)


def _places_of(roles: dict[str, list[int]], value: str) -> tuple[int, int, int]:
    return roles["round"][0], roles["arm"][0], roles[value][0]


def check_alone(sheet: Sheet, columns: tuple[int, int, int], *, reward: bool) -> None:
    """Refuse a long table with other columns, which may be what tells its rows apart, and rewards as losses."""
    value = sheet.names[columns[2]]
    others = [name for at, name in enumerate(sheet.names) if at not in columns]
    if others:
        raise ValueError(
            f"a long table must have only the columns round, arm and {value.strip().lower()}, but it also has "
            f"{listed(others)}; {sheet.leave_out(*others)}"
        )
    if value.strip().lower() == "reward" and not reward:
        raise ValueError(
            f"a long table must have a column of losses, but got {value!r}; to flip the signs of the rewards, "
            f"{sheet.wording.reward}"
        )


def pivot(
    sheet: Sheet, round_at: int, arm_at: int, value_at: int, named: Named
) -> tuple[tuple[str, ...], list[str], Table]:
    """Return the arms, the rounds and the losses of a long table; nan is a gap."""
    round_of, rounds = _places(_keys(sheet, round_at, MISSING), sort=True)
    arm_of, arms = _places(_keys(sheet, arm_at, [""]), sort=False)  # an arm may be called none
    pair_of = round_of * len(arms) + arm_of
    pairs, counts = np.unique(pair_of, return_counts=True)
    n_pairs = len(rounds) * len(arms)
    rule = "every round must have one value for each arm, but round"
    if len(pairs) < len(pair_of):
        at = int((counts > 1).argmax())
        round, arm = divmod(int(pairs[at]), len(arms))
        first, second = (sheet.where(int(row)) for row in np.flatnonzero(pair_of == pairs[at])[:2])
        raise ValueError(
            f"{rule} {rounds[round]!r} has {counts[at]} for arm {arms[arm]!r}, the first two in {first} and "
            f"{second}; keep one (pairs of round and arm with more than one value: {int((counts > 1).sum())})"
        )

    def gap(advice: str) -> ValueError:
        gaps = pairs != np.arange(len(pairs))
        round, arm = divmod(int(gaps.argmax()) if gaps.any() else len(pairs), len(arms))
        return ValueError(
            f"{rule} {rounds[round]!r} has none for arm {arms[arm]!r} (missing pairs of round and arm: "
            f"{n_pairs - len(pairs)} of {n_pairs}); {advice}"
        )

    # Before any loss is read: if this is a log, no way out for a missing loss helps.
    if len(pairs) < n_pairs and len(pairs) == len(rounds):
        raise gap(f"every round has only one arm, as in a log: if it is one, {with_probabilities(sheet, named)}")
    values = sheet.select([value_at]).numbers("column")[:, 0]
    if len(pairs) < n_pairs and not sheet.gaps:
        raise gap(ways_out(sheet.wording, reward=sheet.reward))
    table = np.full(n_pairs, np.nan)
    table[pair_of] = values
    return tuple(arms), rounds, table.reshape(len(rounds), len(arms))


def _keys(sheet: Sheet, column: int, marks: Sequence[str]) -> list[str]:
    """Return the round or the arm of each row of a long table; `marks` stand for a missing one."""
    keys = sheet.columns[column].texts()
    row = next((row for row, key in enumerate(keys) if key.lower() in marks), None)
    if row is not None:
        raise ValueError(
            f"every row must have a round and an arm, but got {shown(keys[row])} in {sheet.where(row)} of column "
            f"{sheet.names[column]!r}; fill it in, or delete the row"
        )
    return keys


def _places(keys: list[str], *, sort: bool) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the index of each key among the distinct keys, and these, as they appear or, with `sort`, as numbers."""
    distinct = list(dict.fromkeys(keys))
    numbers = _as_numbers(distinct) if sort else None
    if numbers is None:
        place = {key: at for at, key in enumerate(distinct)}
        return np.array([place[key] for key in keys]), distinct
    first = dict[int | float, str]()  # 1 and 1.0 are the same round
    for key, number in zip(distinct, numbers, strict=True):
        first.setdefault(number, key)
    rank = {number: at for at, number in enumerate(sorted(first))}
    place = {key: rank[number] for key, number in zip(distinct, numbers, strict=True)}
    return np.array([place[key] for key in keys]), [first[number] for number in rank]


def _as_numbers(keys: list[str]) -> list[int | float] | None:
    """Return keys as numbers, if all are. Integers stay: a double is too short for a time in nanoseconds."""
    if not all(map(_NUMBER.fullmatch, keys)):
        return None
    numbers = [int(key) if key.lstrip("+-").isdigit() else float(key) for key in keys]
    return numbers if all(map(math.isfinite, numbers)) else None
