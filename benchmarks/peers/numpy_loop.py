"""EXP3 as a NumPy user would write it: one loop over the rounds, all trials at once."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

REQUIREMENTS = ["numpy==2.4.6"]
TAKES = "losses"
LACKS = [
    "losses outside [0, 1]",
    "save and load",
    "late feedback",
]

Array = npt.NDArray[np.float64]


def gamma_for(n_arms: int, n_rounds: int) -> float:
    """Return γ as Auer et al. (2002) set it for a number of rounds."""
    return min(1.0, math.sqrt(n_arms * math.log(n_arms) / ((math.e - 1.0) * n_rounds)))


def exp3(losses: Array, uniforms: Array, gamma: float) -> tuple[npt.NDArray[np.intp], Array, Array]:
    """Return the arm of every round and trial, and the mean and the standard deviation of the regret in every round.

    `uniforms` has the shape rounds × trials, with one number in [0, 1) for every draw. Arms are the first axis of the
    weights, so that NumPy runs along the trials, which are contiguous in memory.
    """
    n_rounds, n_arms = losses.shape
    n_trials = uniforms.shape[1]
    weights = np.full((n_arms, n_trials), 1.0 / n_arms)
    trials = np.arange(n_trials)
    arms = np.empty((n_rounds, n_trials), dtype=np.intp)
    for t in range(n_rounds):
        probabilities = (1.0 - gamma) * weights + gamma / n_arms
        drawn = (probabilities.cumsum(axis=0) <= uniforms[t]).sum(axis=0)
        drawn = np.minimum(drawn, n_arms - 1)  # in case rounding left the sum below 1
        gains = 1.0 - losses[t, drawn]
        weights[drawn, trials] *= np.exp(gamma / n_arms * gains / probabilities[drawn, trials])
        weights /= weights.sum(axis=0)
        arms[t] = drawn
    cost = np.take_along_axis(losses, arms, axis=1).cumsum(axis=0)
    regret = cost - losses.cumsum(axis=0).min(axis=1, keepdims=True)
    return arms, regret.mean(axis=1), regret.std(axis=1, ddof=1) if n_trials > 1 else np.full(n_rounds, np.nan)


def simulate(table: list[list[float]], n_trials: int) -> None:
    """Run all trials at once."""
    losses = np.array(table)
    uniforms = np.random.default_rng(0).random((len(losses), n_trials))
    exp3(losses, uniforms, gamma_for(losses.shape[1], len(losses)))


def play(table: list[list[float]], seed: int, arms: list[int]) -> None:
    """Select and update one round at a time, with the logarithms of the weights."""
    n_arms = len(table[0])
    gamma = gamma_for(n_arms, len(table))
    random = np.random.default_rng(seed)
    log_weights = np.zeros(n_arms)
    for row in table:
        weights = np.exp(log_weights - log_weights.max())
        probabilities = (1.0 - gamma) / weights.sum() * weights + gamma / n_arms
        arm = min(int(probabilities.cumsum().searchsorted(random.random(), side="right")), n_arms - 1)
        log_weights[arm] += gamma / n_arms * (1.0 - row[arm]) / probabilities[arm]
        arms.append(arm)


POLICIES = {"EXP3": play}
SIMULATIONS = {"EXP3": simulate}
