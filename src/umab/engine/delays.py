"""How late feedback arrives: a constant delay, one for each round, one for each round and arm, or a distribution."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab.engine.streams import stream

NEVER = -1
"""The delay of a loss that never comes: its draw is closed without one."""

Rounds = npt.NDArray[np.int64]
Distribution = Callable[[np.random.Generator, int], Any]


class Delays(NamedTuple):
    """Checked delays: the same for every trial, or drawn for each trial from a stream of its own."""

    given: Rounds | None
    """Rounds × 1; or rounds × arms, if they depend on the arm that is drawn."""
    n_arms: int | None
    """None if they must not depend on the arm."""
    distribution: Distribution | None
    description: str
    least: int
    """`NEVER` if losses may never come, else 0."""

    @classmethod
    def of(cls, delays: Any, n_rounds: int, n_arms: int | None = None, *, may_never: bool = False) -> Delays:
        """Return delays: a whole number, one for each round, one for each round and arm, or a function that draws them.

        Without `n_arms`, those that depend on the arm are refused; without `may_never`, losses that never come.
        """
        least = NEVER if may_never else 0
        if callable(delays):
            name = getattr(delays, "__qualname__", repr(delays))
            return cls(None, n_arms, delays, f"drawn by {name}", least)
        if np.ndim(delays) == 0:
            constant = checks.whole("delays", delays.item() if isinstance(delays, np.ndarray) else delays, least=0)
            every = np.full((n_rounds, 1), min(constant, n_rounds), dtype=np.int64)
            return cls(every, n_arms, None, f"constant {constant}", least)
        given = _checked(delays, n_rounds, n_arms, least)
        return cls(given, n_arms, None, f"array with sha256 {hashlib.sha256(given.tobytes()).hexdigest()}", least)

    def of_trials(self, seed: int, trials: range, n_rounds: int) -> Rounds:
        """Return the delays of some trials: trials × rounds × 1, or trials × rounds × arms."""
        if self.distribution is None:
            assert self.given is not None
            return np.broadcast_to(self.given, (len(trials), *self.given.shape))
        # Not the streams of the draws, so that arms are drawn from the same uniform numbers whatever the delays.
        generators = (np.random.Generator(stream(seed, trial, of_delays=True)) for trial in trials)
        drawn = [_checked(self.distribution(each, n_rounds), n_rounds, self.n_arms, self.least) for each in generators]
        return np.array(np.broadcast_arrays(*drawn))  # some of them may depend on the arm, and others not


def _checked(delays: Any, n_rounds: int, n_arms: int | None, least: int) -> Rounds:
    """Return delays as rounds × 1 or rounds × arms."""
    array = np.asarray(delays)
    if array.dtype.kind not in "iu" or array.shape not in ((n_rounds,), (n_rounds, n_arms)):
        apart = "" if n_arms is None else f", or for each of them and each of {n_arms} arms"
        raise ValueError(
            f"delays must be a whole number for each of {n_rounds} rounds{apart}, but got {array.dtype} of shape "
            f"{array.shape}"
        )
    array = array.reshape(n_rounds, -1)
    if array.min() < least:
        row, column = divmod(int(array.argmin()), array.shape[1])
        arm = f" and arm {column}" if array.shape[1] > 1 else ""
        raise ValueError(
            f"delays must be at least 0{' (or −1: never)' if least else ''}, but got {array.min()} for round {row}{arm}"
        )
    # Feedback after the last round never arrives, so no delay need be longer than the run.
    return np.asarray(np.minimum(array, n_rounds), dtype=np.int64)
