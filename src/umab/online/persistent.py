"""Saving a learner, loading it, and starting others from what it has learned."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from umab._support import checks
from umab._support.files import write_atomically
from umab.algorithms.base import Policy
from umab.online import advised, forks
from umab.online.core import Core
from umab.online.hints import Hints
from umab.online.saved import read_text
from umab.online.view import View

Clock = Callable[[], float]


class Guarded:
    """What changes under a lock, and never in the middle of another change."""

    _lock: threading.RLock
    _busy: bool

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock for a change, as `select` and `update` do."""
        with self._lock:
            if self._busy:
                raise nested()
            self._busy = True
            try:
                yield
            finally:
                self._busy = False


class Persistent(Guarded, View):
    """The part of a learner that outlives a process: it is saved and loaded, copied, and forked with its process."""

    def _begin(self, core: Core) -> None:
        self._core = core
        self._maximize = core.maximize
        self._lowest, self._highest = core.policy.loss_range
        self._lock = threading.RLock()  # a signal handler may save a learner that is in the middle of a call
        self._busy = False  # whether a call is changing the learner
        self._n_quiet = 0  # calls of select since the last feedback
        self._hints = Hints()
        forks.watch(self)

    def _after_fork(self) -> bool:
        """Become a learner of its own, in the child; return whether it draws as the parent's does, as seeds ask for."""
        self._lock, self._busy = threading.RLock(), False
        self._core.part(None, keep_numbers=self._core.seeded)
        return self._core.seeded

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the whole learner as JSON; `from_json` reads it back.

        With ``indent=None`` it is on one line, which takes a third of the time and of the space.
        """
        try:
            return json.dumps(self._snapshot(), indent=indent, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the parameters of a saved policy must be strings, finite numbers, True, False or None, but got "
                f"{self._core.policy!r}: {error}"
            ) from None

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        policy: Policy | None = None,
        seed: int | None = None,
        fresh: bool = False,
        clock: Clock = time.time,
    ) -> Self:
        """Return the learner that `to_json` wrote; it continues as if it had never stopped.

        Parameters
        ----------
        text
            What `to_json` returned.
        policy
            The policy, if it is not registered. It must have the parameters that were saved. Reading a text never
            imports a module.
        seed
            Start a learner of its own, as `fresh` does, whose draws follow from this seed.
        fresh
            Start a learner of its own from what was learned: with new ids, fresh randomness and no open choices.
            Without it, two processes that load one file make the same draws with the same ids.
        clock
            As for `Learner`; a clock is not saved.
        """
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a umab.Policy, but got policy={checks.shown(policy)}")
        core = advised.read(read_text(text), policy, clock_of(clock))
        if fresh or seed is not None:
            core.part(seed_of(seed))
        learner = cls.__new__(cls)
        learner._begin(core)
        return learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file. At every moment the file is complete: the old one or the new one."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: Policy | None = None,
        seed: int | None = None,
        fresh: bool = False,
        clock: Clock = time.time,
    ) -> Self:
        """Return the learner that `save` wrote to a file; the options are those of `from_json`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            return cls.from_json(text, policy=policy, seed=seed, fresh=fresh, clock=clock)
        except ValueError as error:
            raise ValueError(f"cannot load {os.fspath(path)!r}: {error}") from None

    def __getstate__(self) -> tuple[Any, ...]:
        """Return a snapshot, and the policy, which need not be registered."""
        return self._snapshot(), self._core.policy

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Continue from a snapshot, so that a copy shares nothing with the original."""
        self._begin(advised.read(*state))

    def __copy__(self) -> Self:
        """Return a copy with the same clock, which a pickle cannot hold."""
        copied = type(self).__new__(type(self))
        copied._begin(advised.read(self._snapshot(), self._core.policy, self._core.clock))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy; it shares nothing with the original but the clock."""
        return self.__copy__()


def seed_of(seed: int | None) -> int | None:
    """Return a seed, checked."""
    return None if seed is None else checks.whole("seed", seed, least=0)


def clock_of(clock: Any) -> Clock:
    """Return a clock, checked."""
    if not callable(clock):
        raise TypeError(f"clock must be a function that returns seconds, but got clock={checks.shown(clock)}")
    if clock is time.time:
        return clock
    return lambda: checks.finite("the time of the clock", clock())


def nested() -> RuntimeError:
    """Return the error for a change in the middle of another one."""
    return RuntimeError(
        "a learner must not be changed in the middle of a change, as from a signal handler; set a flag there"
    )
