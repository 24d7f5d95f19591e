"""Drawing among some of the arms in such a way that the guarantee of a policy still means something.

In a round in which only the arms of a set A are eligible, an arm k of A is drawn with probability q_k = p_k / P, where
P is the sum of the policy's probabilities over A. Its loss ℓ then stands for more than itself: an arm that is away is
assumed to cost what the choice costs on average, Σ q_k ℓ_k. With the losses completed in this way, ⟨p, ℓ⟩ is what the
choice really costs, and an arm that is away neither gains nor loses against the others.

A policy learns about one arm per round, so chance decides which arm's account the loss goes to: with probability c it
goes to the arm that was drawn, otherwise to an arm j that is away, with probability p_j / (1 − P). The policy is told
the probability of that account, c q_k or (1 − c) p_j / (1 − P), so its estimates of the completed losses are unbiased.
With c = P, these are p_k and p_j: the policy sees an ordinary round, and its regret bound holds as it stands. If P is
small, this would send almost all losses to arms that are away, so c is at least 1/2; p_j is then at most twice the
probability that the policy is told.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_LEAST_SHARE = 0.5
"""The smallest share of losses that goes to the account of the arm that was drawn."""


class Draw(NamedTuple):
    """An arm that was drawn, and the arm to whose account its loss goes."""

    arm: int
    probability: float
    account: int
    account_probability: float


def draw_among(p: npt.NDArray[np.float64], eligible: npt.NDArray[np.bool_], uniforms: tuple[float, float]) -> Draw:
    """Draw one of the arms for which `eligible` is true, from the distribution `p` over all arms."""
    here, away = np.flatnonzero(eligible), np.flatnonzero(~eligible)
    p_here, p_away = p[here], p[away]
    total_here, total_away = p_here.sum(), p_away.sum()
    if total_here > 0.0:
        arm, probability = _pick(here, p_here / total_here, uniforms[0])
    else:  # all the probability is on an arm that is away, as when a policy plays each arm first
        arm, probability = _pick(here, np.full(len(here), 1.0 / len(here)), uniforms[0])
    share = max(total_here, _LEAST_SHARE) if total_here > 0.0 else 0.0
    if total_away == 0.0:
        return Draw(arm, probability, arm, probability)
    if uniforms[1] < share:
        return Draw(arm, probability, arm, share * probability)
    # What is left of the uniform number is uniform again.
    rest = (uniforms[1] - share) / (1.0 - share)
    account, within = _pick(away, p_away / total_away, rest)
    return Draw(arm, probability, account, (1.0 - share) * within)


def _pick(arms: npt.NDArray[np.intp], p: npt.NDArray[np.float64], uniform: float) -> tuple[int, float]:
    """Return the arm that a uniform number picks, and its probability."""
    cumulative = p.cumsum()
    at = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    at = at if at < len(arms) and p[at] > 0.0 else int(p.argmax())
    return int(arms[at]), float(p[at])
