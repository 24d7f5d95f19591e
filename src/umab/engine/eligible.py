"""What simulations need to know about arms that are away in some rounds."""

from __future__ import annotations

from umab.algorithms.base import Policy
from umab.tables.losses import Losses, refuse_away


def numbers_needed(losses: Losses, rounds: slice) -> int:
    """Return how many uniform numbers a trial draws in some rounds: two where an arm is away, otherwise one."""
    n_rounds: int = rounds.stop - rounds.start
    return n_rounds if losses.eligible is None else n_rounds + int((~losses.eligible[rounds].all(axis=1)).sum())


def refuse_full_information(policy: Policy, losses: Losses) -> None:
    """Refuse a policy that sees the losses of all arms, if some are away."""
    if policy.full_information:
        refuse_away(losses, policy.name)
