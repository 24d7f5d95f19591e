"""What happens to a learner's state and to its open choices when arms come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.engine.layout import Buffer, Layout, check_distribution
from umab.online.choice import Open

Origins = Sequence[int | None]
"""Where each arm comes from: its index before the change, or None for a new arm."""


def rearranged_state(
    policy: Policy, layout: Layout, buffer: Buffer, arms: Origins
) -> tuple[Buffer, npt.NDArray[np.float64]]:
    """Return the state of a policy for the new arms, and the probabilities in it."""
    state = policy.resized(layout.unpack(buffer), arms)
    resized = layout.sized(layout.pack(policy.parameters_for(len(arms)), state), len(arms))
    probabilities = layout.probabilities(resized)
    check_distribution(policy, probabilities)
    return resized, probabilities


def rearranged_choices(
    policy: Policy, layout: Layout, open_choices: Mapping[int, Open], arms: Origins
) -> dict[int, Open]:
    """Return the open choices with the new indices of their arms, None for an arm that is gone."""
    moved: dict[int | None, int] = {before: now for now, before in enumerate(arms) if before is not None}
    return {
        choice.id: (
            choice,
            moved.get(index),
            moved.get(account),
            probability,
            _resized_ticket(policy, layout, ticket, arms),
            drawn_at,
        )
        for choice, index, account, probability, ticket, drawn_at in open_choices.values()
    }


def _resized_ticket(policy: Policy, layout: Layout, ticket: Buffer | None, arms: Origins) -> Buffer | None:
    """Return a ticket for the new arms."""
    record = layout.ticket
    if record is None or ticket is None:
        return None
    resized = record.pack(policy.resized_ticket(record.unpack(ticket), arms))
    if len(resized) != record.size(len(arms)):
        raise ValueError(f"a ticket must fit {len(arms)} arms, but the resized one of {policy.name} does not")
    return resized
