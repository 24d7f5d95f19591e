"""The saved form of learners through its versions: what an older version saved is brought to the current form.

Version 4 is the oldest that is read. To change the form, raise `VERSION` and add the step from the version before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from umab.online.saved import SavedLearner

VERSION = 4

_MIGRATIONS: dict[int, Callable[[dict[str, object]], dict[str, object]]] = {}
"""From each older version of the saved form to the next."""


def checked_version(version: object) -> int:
    """Return a version, if it can be read."""
    oldest = min(_MIGRATIONS, default=VERSION)
    if type(version) is not int or version > VERSION:
        raise ValueError(f"a saved learner must be of version {VERSION} or older, but got version={version!r}")
    if version < oldest:
        raise ValueError(f"a saved learner must be of version {oldest} or newer, but got version={version!r}")
    return version


def migrated(saved: Mapping[str, object], version: int) -> SavedLearner:
    """Return a saved learner of this version in the current form."""
    found = dict(saved)
    for older in range(version, VERSION):
        found = _MIGRATIONS[older](found)
    return cast("SavedLearner", found)
