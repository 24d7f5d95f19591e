"""How late feedback arrives: a constant delay, one delay per round, or a distribution."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab.engine.streams import stream

Rounds = npt.NDArray[np.int64]
Distribution = Callable[[np.random.Generator, int], Any]


class Delays(NamedTuple):
    """Checked delays: the same for every trial, or drawn for each trial from a stream of its own."""

    given: Rounds | None
    distribution: Distribution | None
    description: str

    @classmethod
    def of(cls, delays: Any, n_rounds: int) -> Delays:
        """Return `delays` for `n_rounds`: a whole number, one per round, or a function that draws them."""
        if callable(delays):
            name = getattr(delays, "__qualname__", repr(delays))
            return cls(None, delays, f"drawn by {name}")
        if np.ndim(delays) == 0:
            constant = checks.whole("delays", delays.item() if isinstance(delays, np.ndarray) else delays, least=0)
            return cls(np.full(n_rounds, min(constant, n_rounds), dtype=np.int64), None, f"constant {constant}")
        given = _checked(delays, n_rounds)
        return cls(given, None, f"array with sha256 {hashlib.sha256(given.tobytes()).hexdigest()}")

    def of_trials(self, seed: int, trials: range, n_rounds: int) -> Rounds:
        """Return the delays of some trials, one row each."""
        if self.distribution is None:
            assert self.given is not None
            return np.broadcast_to(self.given, (len(trials), n_rounds))
        # Not the streams of the draws, so that arms are drawn from the same uniform numbers whatever the delays.
        generators = (np.random.Generator(stream(seed, trial, of_delays=True)) for trial in trials)
        return np.array([_checked(self.distribution(each, n_rounds), n_rounds) for each in generators])


def _checked(delays: Any, n_rounds: int) -> Rounds:
    array = np.asarray(delays)
    if array.shape != (n_rounds,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"delays must be a whole number for each of {n_rounds} rounds, but got {array.dtype} of shape {array.shape}"
        )
    if array.min() < 0:
        raise ValueError(f"delays must be at least 0, but got {array.min()} for round {int(array.argmin())}")
    # Feedback after the last round never arrives, so no delay need be longer than the run.
    return np.asarray(np.minimum(array, n_rounds), dtype=np.int64)
