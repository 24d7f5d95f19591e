"""What a policy does along given arms and coins, as its own code says, in plain Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from umab.algorithms.base import HasProbabilities, Policy
from umab.engine.interpreted import select
from umab.theory.path import Precise, Trajectory, Whole, room


def rerun(policy: Policy, losses: Precise, arms: Whole, coins: Whole) -> Trajectory:
    """Return what a policy with a coin does when it draws these arms and its coins show this.

    Parameters
    ----------
    losses
        Runs × rounds × arms.
    arms, coins
        Runs × rounds.

    Only what every policy has is known: its distributions, how likely its coins show 1, and the losses it saw. All else
    of the trajectory is nan, and so is all of a run after a coin that cannot show what it is said to.
    """
    n_rounds, n_arms = losses.shape[1:]
    kept = room(losses)
    for values in kept.values():
        values[:] = np.nan
    heads = np.full(arms.shape, np.nan, dtype=np.longdouble)
    parameters = policy.parameters_for(n_arms)
    learn: Callable[..., HasProbabilities] = policy.update
    flip = policy.coin
    assert flip is not None  # `coins` are those of its draws
    for run, (drawn, shown) in enumerate(zip(arms.tolist(), coins.tolist(), strict=True)):
        state = policy.init(n_arms)
        for t, (arm, coin) in enumerate(zip(drawn, shown, strict=True)):
            kept["p"][run, t] = kept["drawn_from"][run, t] = state.probabilities
            kept["clipped"][run, t] = losses[run, t, arm]
            heads[run, t] = max(0.0, min(1.0, flip(parameters, state, arm)))
            if heads[run, t] == 1 - coin:
                break
            probability = state.probabilities[arm]
            state, ticket = select(policy, parameters, state, arm)
            state = learn(parameters, state, arm, float(losses[run, t, arm]), probability, *ticket, coin)
        else:
            kept["p"][run, n_rounds] = kept["drawn_from"][run, n_rounds] = state.probabilities
    return Trajectory(policy=policy, losses=losses, arms=arms, coins=coins, heads=heads, **kept)
