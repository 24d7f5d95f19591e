"""The loop of a simulation in plain Python, for debuggers and as the reference that compiled code is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from umab.policies.base import Policy
from umab.simplex import draw


class Round(NamedTuple):
    """What happened in one round."""

    arm: int
    probability: float
    state: Any
    """The state after the round; its vectors are those that the next round changes."""


def play(policy: Policy, losses: Sequence[Sequence[float]], uniforms: Sequence[float]) -> Iterator[Round]:
    """Yield round by round what `policy` does on a table of losses when the draws use these uniform numbers."""
    state = policy.init(len(losses[0]))
    for row, uniform in zip(losses, uniforms, strict=True):
        arm = draw(state.probabilities, uniform)
        probability = state.probabilities[arm]
        state = policy.update(state, arm, float(row[arm]), probability)
        yield Round(arm, probability, state)
