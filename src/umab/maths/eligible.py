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

from collections.abc import Sequence

from umab.maths.simplex import Vector, in_unit

LEAST_SHARE = 0.5
"""The smallest share of losses that goes to the account of the arm that was drawn."""


def draw_among(
    probabilities: Vector, eligible: Sequence[bool], uniform: float, other: float
) -> tuple[int, float, int, float]:
    """Draw one of the arms for which `eligible` is true, from a distribution over all arms, with two uniform numbers.

    Return the arm and its probability, and the arm to whose account its loss goes and the probability of that account.
    """
    arm, probability, account, account_probability, _ = drawn_among(probabilities, eligible, uniform, other)
    return arm, probability, account, account_probability


def drawn_among(
    probabilities: Vector, eligible: Sequence[bool], uniform: float, other: float
) -> tuple[int, float, int, float, float]:
    """Do what `draw_among` does; return also what is left of the number that decided on the account."""
    total_here, total_away, n_here = 0.0, 0.0, 0
    for k in range(len(probabilities)):
        if eligible[k]:
            total_here += probabilities[k]
            n_here += 1
        else:
            total_away += probabilities[k]
    if total_here > 0.0:
        arm, before = _picked(probabilities, eligible, True, uniform * total_here)
        probability = probabilities[arm] / total_here
        share = max(total_here, LEAST_SHARE)
    else:  # all the probability is on an arm that is away, as when a policy plays each arm first
        arm, before = _numbered(eligible, min(int(uniform * n_here), n_here - 1)), 0.0
        probability = 1.0 / n_here
        share = 0.0
    if total_away == 0.0:
        return arm, probability, arm, probability, in_unit((uniform * total_here - before) / probabilities[arm])
    if other < share:
        return arm, probability, arm, share * probability, in_unit(other / share)
    # What is left of the uniform number is uniform again.
    rest = (other - share) / (1.0 - share)
    account, before = _picked(probabilities, eligible, False, rest * total_away)
    left = in_unit((rest * total_away - before) / probabilities[account])
    return arm, probability, account, (1.0 - share) * (probabilities[account] / total_away), left


def _picked(probabilities: Vector, eligible: Sequence[bool], here: bool, target: float) -> tuple[int, float]:
    """Return the first arm, of those that are here or of those that are away, at which the sum exceeds `target`.

    There is one: a uniform number is below 1, so that its product with the whole sum is below the sum, also rounded.
    With it comes the sum before it.
    """
    cumulative, before, picked = 0.0, 0.0, -1
    for arm in range(len(probabilities)):
        if eligible[arm] == here and cumulative <= target:
            before = cumulative
            cumulative += probabilities[arm]
            picked = arm
    return picked, before


def _numbered(eligible: Sequence[bool], number: int) -> int:
    """Return the eligible arm with this number, counted from 0."""
    arm = -1
    while number >= 0:
        arm += 1
        if eligible[arm]:
            number -= 1
    return arm
