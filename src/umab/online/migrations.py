"""The saved form of learners through its versions: what an older version saved is brought to the current form.

Version 4 is the oldest that is read. To change the form, raise `VERSION` and add the step from the version before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VERSION = 4

_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From each older version of the saved form to the next."""


def check_version(version: Any) -> None:
    """Raise if a version cannot be read."""
    oldest = min(_MIGRATIONS, default=VERSION)
    if type(version) is not int or version > VERSION:
        raise ValueError(f"a saved learner must be of version {VERSION} or older, but got version={version!r}")
    if version < oldest:
        raise ValueError(f"a saved learner must be of version {oldest} or newer, but got version={version!r}")


def migrated(saved: dict[str, Any]) -> dict[str, Any]:
    """Return a saved learner in the current form."""
    for older in range(saved["version"], VERSION):
        saved = _MIGRATIONS[older](saved)
    return saved
