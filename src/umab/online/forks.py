"""What happens to learners when a process forks.

A child that went on with the parent's learners would draw the same arms with the same ids, and would take the parent's
choices for its own. So every learner of a child becomes a learner of its own. All locks are held while the process
forks, so that no learner is copied in the middle of a call, and no database: SQLite has locks of its own, and a child
would wait for ever for one that another thread of its parent held.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from typing import Protocol

from umab.online.hints import LearnerWarning


class Held(Protocol):
    """A lock, which is held while the process forks."""

    def acquire(self) -> object:
        """Wait for it."""

    def release(self) -> object:
        """Let others have it."""


class Watched(Protocol):
    """What becomes a learner of its own in the child of a fork."""

    @property
    def _lock(self) -> Held: ...

    def _after_fork(self) -> bool:
        """Become one; return whether it draws as the parent's does."""


_learners: weakref.WeakSet[Watched] = weakref.WeakSet()
_held: list[Held] = []
databases = threading.RLock()
"""Held while SQLite is used. Whoever waits for it may hold locks of learners; who holds it waits for no learner."""
_watching = threading.RLock()  # a thread may add a learner, or fork, while another one forks


def watch(learner: Watched) -> None:
    """Tell a learner when this process forks."""
    with _watching:
        _learners.add(learner)


def _hold() -> None:
    _watching.acquire()
    for learner in list(_learners):
        learner._lock.acquire()
        _held.append(learner._lock)
    databases.acquire()
    _held.append(databases)


def _release() -> None:
    while _held:
        _held.pop().release()
    _watching.release()


def _part() -> None:
    global _watching, databases
    _watching, databases = threading.RLock(), threading.RLock()
    _held.clear()
    # All of them, also if a signal kept `_hold` from taking a lock: Python goes on with the fork all the same.
    n_seeded = sum(learner._after_fork() for learner in list(_learners))
    if n_seeded:
        warnings.warn(
            f"after a fork, learners with a seed, here {n_seeded}, draw the same arms as in the parent; give each "
            "process a seed of its own, or none",
            LearnerWarning,
            stacklevel=2,
        )


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_part)
