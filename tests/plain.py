"""A learner in plain Python: what the service must do, from the uniform numbers of a seed to the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from umab.algorithms.base import Policy
from umab.engine.interpreted import select
from umab.engine.streams import stream
from umab.maths.eligible import drawn_among
from umab.maths.simplex import draw, rest_of


class Plain:
    """A policy, with a coin or without, whose draws are open until they are settled."""

    def __init__(self, policy: Policy, arms: Sequence[str], seed: int) -> None:
        self.policy: Any = policy
        self.arms, self.random = list(arms), np.random.Generator(stream(seed, 0))
        self.state, self.parameters = policy.init(len(arms)), policy.parameters_for(len(arms))
        self.open: dict[str, tuple[int, float, int, tuple[Any, ...]]] = {}

    def draw(self, identity: str, among: Sequence[str] | None = None) -> tuple[str, float, int]:
        """Draw; return the arm, its probability, and the coin."""
        p: list[float] = self.state.probabilities
        if among is None:
            uniform = float(self.random.random())
            arm = account = draw(p, uniform)
            probability = account_probability = p[arm]
            rest = rest_of(p, uniform, arm)
        else:
            here = [each in among for each in self.arms]
            uniforms = float(self.random.random()), float(self.random.random())
            arm, probability, account, account_probability, rest = drawn_among(p, here, *uniforms)
        coin = -1 if self.policy.coin is None else int(rest < self.policy.coin(self.parameters, self.state, account))
        self.state, told = select(self.policy, self.parameters, self.state, account)
        told += () if self.policy.coin is None else (coin,)
        self.open[identity] = account, account_probability, arm, told
        return self.arms[arm], probability, coin

    def settle(self, identity: str, loss: float, coin: int | None = None) -> None:
        """Learn the loss of a draw, which may be closed; with another coin if one is given."""
        account, probability, arm, told = self.open[identity]
        told = told if coin is None else (*told[:-1], coin)
        if account != arm and self.policy.credited is not None:
            self.state = self.policy.credited(self.parameters, self.state, account, loss, probability, arm, *told)
        else:
            self.state = self.policy.update(self.parameters, self.state, account, loss, probability, *told)

    def close(self, identity: str) -> None:
        """Close a draw without a loss."""
        account, probability, _, told = self.open[identity]
        if self.policy.closed is not None:
            self.state = self.policy.closed(self.parameters, self.state, account, probability, *told)
