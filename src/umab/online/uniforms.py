"""The uniform numbers from which a learner draws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_AT_ONCE = 256


class Uniforms:
    """Uniform numbers in [0, 1), drawn in advance: one at a time would cost more than the rest of a selection.

    `waiting` holds the numbers that are drawn, the next one last. Code that takes from it refills it when it is empty.
    """

    __slots__ = ("_before", "_next", "_random", "waiting")

    waiting: list[float]

    def __init__(self, random: np.random.PCG64) -> None:
        self._random, self._next = random, random.state
        self.refill()

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> Uniforms:
        """Return the numbers that follow a saved state."""
        random = np.random.PCG64()
        random.state = state  # type: ignore[assignment]  # from a file, and NumPy checks it
        return cls(random)

    def refill(self) -> None:
        """Draw numbers in advance."""
        self._random.state = self._next  # it is past that if a signal came in the middle of this before
        waiting = np.random.Generator(self._random).random(_AT_ONCE).tolist()[::-1]
        after = self._random.state
        self._before, self._next, self.waiting = self._next, after, waiting  # together: a signal may save a learner

    def have(self, n: int) -> None:
        """Have at least `n` numbers waiting, at most two."""
        if not self.waiting:
            self.refill()
        if len(self.waiting) < n:  # begin anew at the last one that waits, which is the next one
            self._next = dict(self.state)  # type: ignore[assignment]
            self.refill()

    def take(self) -> float:
        """Return the next number."""
        if not self.waiting:
            self.refill()
        return self.waiting.pop()

    @property
    def state(self) -> dict[str, object]:
        """The state of the generator before the next number; it does not depend on how many are drawn in advance."""
        random = np.random.PCG64()
        random.state = self._before
        random.advance(_AT_ONCE - len(self.waiting))
        return {key: _plain(each) for key, each in random.state.items()}


def _plain(value: object) -> object:
    """Return a nested dict with plain numbers in place of NumPy's."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
