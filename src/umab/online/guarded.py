"""Changes under a lock: every call is atomic, and none begins in the middle of another one."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Guarded:
    """What changes under a lock, and never in the middle of another change."""

    _lock: threading.RLock
    _busy: bool

    def __init__(self) -> None:
        self._guard()

    def _guard(self) -> None:
        self._lock = threading.RLock()  # a signal handler may look at what is in the middle of a call
        self._busy = False  # whether a call is changing it

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock for a change that is not a method of its own; `changing` is for those that are."""
        with self._lock:
            if self._busy:
                raise nested()
            self._busy = True
            try:
                yield
            finally:
                self._busy = False


def changing(method: _Method) -> _Method:
    """Hold the lock while a method runs: as `Guarded._changing`, but five times as fast."""

    @functools.wraps(method)
    def guarded(*given: Any, **named: Any) -> Any:
        self = given[0]
        with self._lock:
            if self._busy:
                raise nested()
            self._busy = True
            try:
                # Not returned at once: a signal after the call must find that `finally` is still to come.
                found = method(*given, **named) if named else method(*given)  # an empty dict need not be copied
            finally:
                self._busy = False
            return found

    return cast(_Method, guarded)


def nested() -> RuntimeError:
    """Return the error for a change in the middle of another one."""
    return RuntimeError(
        "a learner must not be changed in the middle of a change, as from a signal handler; set a flag there"
    )
