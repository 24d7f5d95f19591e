"""The saved form of learners through its versions: what was saved years ago still loads.

Version 1 had neither rewards nor counters, and arms could not come and go. Version 2 saved only those parameters of a
policy that differed from the defaults of the time, and kept parameters in the state. Version 3 saves a policy with all
its parameters, and the tickets of open choices. Version 4 has ids that are unique, and open choices as columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from umab.algorithms.descriptions import described
from umab.algorithms.names import parsed, policy
from umab.online import columns
from umab.online.choice import Choice
from umab.online.counters import Tally
from umab.online.ids import new_space

VERSION = 4


def check_version(version: Any) -> None:
    """Raise if a version cannot be read."""
    if type(version) is not int or version > VERSION:
        raise ValueError(f"a saved learner must be of version {VERSION} or older, but got version={version!r}")
    if version < min(_MIGRATIONS):
        raise ValueError(f"a saved learner must be of version {min(_MIGRATIONS)} or newer, but got version={version!r}")


def migrated(saved: dict[str, Any]) -> dict[str, Any]:
    """Return a saved learner in the current form."""
    for older in range(saved["version"], VERSION):
        saved = _MIGRATIONS[older](saved)
    return saved


def _from_version_1(saved: dict[str, Any]) -> dict[str, Any]:
    now = time.time()
    outstanding = [
        [arm, index, probability, identity, index, index, probability, now]
        for arm, index, probability, identity in saved["outstanding"]
    ]
    counters = [Tally().saved() for _ in saved["arms"]]
    return {**saved, "version": 2, "maximize": False, "outstanding": outstanding, "counters": counters}


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    about, moved = _described(saved["policy"])
    return {
        **saved,
        "version": 3,
        "policy": about,
        "state": {name: value for name, value in saved["state"].items() if name not in moved},
        "outstanding": [[*choice, None, drawn_at] for *choice, drawn_at in saved["outstanding"]],
    }


def _from_version_3(saved: dict[str, Any]) -> dict[str, Any]:
    first, stop = saved["first_id"], saved["next_id"]
    rows = saved["outstanding"]
    if any(type(row[3]) is not int or not first <= row[3] < stop for row in rows):
        raise ValueError(f"the ids of open choices are not all from {first} to {stop - 1}")
    # Ids were numbers. Open choices keep theirs, since their feedback will carry them; new ones count from 0.
    known = [
        (Choice(arm, index, probability, id), now, account, account_probability, None, time, id - stop)
        for arm, index, probability, id, now, account, account_probability, _, time in rows
    ]
    tickets = [row[7] for row in rows]
    kept = {name: value for name, value in saved.items() if name not in ("first_id", "next_id", "outstanding")}
    return {
        **kept,
        "version": 4,
        "seeded": False,
        "ids": {"space": new_space(), "next": 0, "skipped": [], "earlier": [first, stop], "absorbed": {}},
        "open": columns.written(known, None) | ({"tickets": tickets} if any(tickets) else {}),
    }


_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _from_version_1,
    2: _from_version_2,
    3: _from_version_3,
}
"""From each version of the saved form to the next."""


def _described(name: str) -> tuple[dict[str, Any], set[str]]:
    """Return a policy of version 2 with all its parameters, and the fields of its state that held some of them.

    The parameters of a policy that is not registered are known only to the caller, who must pass it.
    """
    try:
        base, inside, given = parsed(name)
    except ValueError:
        return {"name": name, "parameters": None}, set()
    if base == "centred" and inside is not None:
        inner, moved = _described(inside)
        return {"name": base, "parameters": {}, "inner": inner}, {f"inner.{field}" for field in moved}
    if base not in _DEFAULTS_OF_VERSION_2:
        return described(policy(name)), set()
    defaults, moved = _DEFAULTS_OF_VERSION_2[base]
    return {"name": base, "parameters": {**defaults, **given}}, moved


_RANGE = {"low": 0.0, "high": 1.0}
_UMAB_G = {"rate": 0.25, "initial_scale": 1.0, "horizon": None}
_IN_UMAB_G = {"rate", "exploration", "horizon"}

_DEFAULTS_OF_VERSION_2: dict[str, tuple[dict[str, Any], set[str]]] = {
    "umab-s": (
        {
            "rate": 3.0,
            "learning": "stability",
            "exploration": "floor",
            "clipping": "charged",
            "initial_scale": 0.0,
        },
        {"rate", "initial_scale", "learning", "exploration", "clipping"},
    ),
    "umab-nn": ({}, set()),
    "umab-g": ({"exploration": "fixed", **_UMAB_G}, _IN_UMAB_G),
    "umab-g-a": ({"exploration": "adaptive", **_UMAB_G}, _IN_UMAB_G),
    "umab-g-anytime": ({"exploration": "anytime", **_UMAB_G}, _IN_UMAB_G),
    "umab-g-none": ({"exploration": "none", **_UMAB_G}, _IN_UMAB_G),
    "umab-g-maintext": ({"exploration": "maintext", **_UMAB_G}, _IN_UMAB_G),
    "sf-mab": ({"exploration": "anytime"}, {"exploration"}),
    "sf-mab-a": ({"exploration": "adaptive"}, {"exploration"}),
    "ahb": ({}, set()),
    "banker-omd": ({"horizon": None, "skipped": "usable"}, {"log_horizon", "savings_lost"}),
    "scb": ({}, set()),
    "scb-ix": ({}, set()),
    "exp3": ({**_RANGE, "horizon": None, "gamma": None}, {"gamma", "low", "high"}),
    "exp3-ix": (_RANGE, {"low", "high"}),
    "exp3-p": ({**_RANGE, "horizon": None, "delta": 0.01}, {"gamma", "bonus", "low", "high"}),
    "tsallis-inf": (_RANGE, {"low", "high"}),
    "uniform": ({}, set()),
}
"""What the names of policies stood for in versions 1 and 2, and which fields of a state were parameters.

This records the past: it does not change when the policies do.
"""
