"""Checks for those who write a policy of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.algorithms.registry import as_policy
from umab.checks import LARGEST
from umab.engine.layout import check_distribution
from umab.learner import Learner

Array = npt.NDArray[np.float64]

EXTREMES = np.array([1e308, 5e-324, -1e308, -5e-324, 0.0, 1.0, -1.0, 1e-308, 1e154, -1e-154, LARGEST])
"""Finite losses that are hard to survive."""


def check_policy(policy: Policy | str) -> None:
    """Raise if a policy breaks the contract of `umab.algorithms.base`.

    The policy is run in plain Python first, where an error such as an index out of range has a traceback, and then
    compiled, where it must do the same to the last bit. It gets everyday losses and extreme ones, with few arms and
    many, and must keep a distribution with positive probabilities.

    Examples
    --------
    >>> from umab.testing import check_policy
    >>> check_policy("umab-g-a:rate=4")
    """
    policy = as_policy(policy).for_horizon(200)
    random = np.random.default_rng(0)
    for n_arms in (1, 2, 3, 10, 70):
        for losses in (random.normal(size=200), 1e-3 * random.standard_cauchy(200), random.choice(EXTREMES, 200)):
            arms = random.integers(n_arms, size=200)
            legal = legal_losses(policy, losses)
            interpreted = forced_interpreted(policy, arms, legal, n_arms)
            for row in interpreted:
                check_distribution(policy, row)
            compiled = forced(policy, arms, legal, n_arms)
            if compiled.tobytes() != interpreted.tobytes():
                first = int(np.argmax((compiled != interpreted).any(axis=1)))
                raise AssertionError(
                    f"compiled and plain Python must agree to the last bit, but for {policy.name} they differ after "
                    f"{first} updates of {n_arms} arms: {compiled[first]} and {interpreted[first]}"
                )


def legal_losses(policy: Policy, losses: Array) -> Array:
    """Return the losses, folded into the range that the policy takes."""
    lowest, highest = policy.loss_range
    if lowest > -LARGEST and highest < LARGEST:
        return np.clip(lowest + (highest - lowest) * np.modf(np.abs(losses))[0], lowest, highest)
    if lowest > -LARGEST:
        return np.asarray(lowest + np.abs(losses))
    return losses if highest == LARGEST else np.asarray(highest - np.abs(losses))


def forced(policy: Policy, arms: Any, losses: Any, n_arms: int) -> Array:
    """Return the distributions of a compiled run in which the arms are given: row t is that of round t."""
    learner = Learner(policy, n_arms)
    rows = [learner.probabilities()]
    for arm, loss in zip(arms, losses, strict=True):
        learner.update(int(arm), float(loss))
        rows.append(learner.probabilities())
    return np.array(rows)


def forced_interpreted(policy: Policy, arms: Any, losses: Any, n_arms: int) -> Array:
    """Return the same from plain Python."""
    state = policy.init(n_arms)
    rows = [list(state.probabilities)]
    for arm, loss in zip(arms, losses, strict=True):
        state = policy.update(state, int(arm), float(loss), state.probabilities[int(arm)])
        rows.append(list(state.probabilities))
    return np.array(rows)
