"""What happens to a learner's state and to its open choices when arms come and go.

Arms are removed first and added afterwards, whatever the order of the calls. So a new arm gets a fair share beside the
arms that stay, and never the share of an arm that leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.engine.layout import Buffer, Layout, Record, blank_ticket, check_distribution
from umab.online.choice import Label, Open, index_by_label
from umab.online.counters import Tally
from umab.online.saved import check_ticket

Origins = Sequence[int | None]
"""For each arm, its index among the arms before the change, or None if the arm is new."""


class Before(NamedTuple):
    """The arms before changes that act as one, because no draw and no feedback came between them."""

    n_arms: int
    buffer: Buffer
    tallies: list[Tally]
    open: dict[str, Open]
    origins: dict[Label, int | None]
    """The index that an arm of today had then, None for a new one."""


def rearranged_state(
    policy: Policy, layout: Layout, buffer: Buffer, n_before: int, arms: Origins
) -> tuple[Buffer, npt.NDArray[np.float64]]:
    """Return the state of a policy for other arms, and the probabilities in it."""
    n_arms = len(arms)
    kept = sorted(each for each in arms if each is not None)
    state = layout.unpack(buffer)
    if not kept:  # a state needs an arm, so here the new ones come first; they are all alike
        state = policy.resized(state, [*range(n_before), *arms])
        state, arms, kept = policy.resized(state, range(n_before, n_before + n_arms)), range(n_arms), [*range(n_arms)]
    elif len(kept) < n_before:
        state = policy.resized(state, kept)
    place = {before: at for at, before in enumerate(kept)}
    order = [None if each is None else place[each] for each in arms]
    if order != list(range(len(kept))):
        state = policy.resized(state, order)
    resized = layout.sized(layout.pack(policy.parameters_for(n_arms), state), n_arms)
    probabilities = layout.probabilities(resized)
    check_distribution(policy, probabilities)
    return resized, probabilities


def rearranged_choices(policy: Policy, layout: Layout, open_choices: Iterable[Open], arms: Origins) -> dict[str, Open]:
    """Return the open choices with the indices that their arms have now, None for an arm that is gone."""
    moved: dict[int | None, int] = {before: now for now, before in enumerate(arms) if before is not None}
    return {
        choice.id: (
            choice,
            moved.get(index),
            moved.get(account),
            probability,
            resized_ticket(policy, layout, ticket, arms),
            time,
            number,
            coin,
        )
        for choice, index, account, probability, ticket, time, number, coin in open_choices
    }


def resized_ticket(policy: Policy, layout: Layout, ticket: Buffer | None, arms: Origins) -> Buffer | None:
    """Return a ticket for other arms."""
    record = layout.ticket
    if record is None or ticket is None:
        return None
    resized = record.pack(policy.resized_ticket(record.unpack(ticket), arms))
    if len(resized) != record.size(len(arms)):
        raise ValueError(f"a ticket must fit {len(arms)} arms, but the resized one of {policy.name} does not")
    return resized


ARMS = "_arms"
"""What the fields of a ticket that depends on the arms have besides: the arms of its time. No field begins with _."""


def ticket_fields(record: Record, ticket: Buffer, labels: Sequence[Label]) -> dict[str, object]:
    """Return the fields of a ticket that is kept elsewhere, where arms may change before it comes back."""
    fields = record.fields(ticket)
    return {**fields, ARMS: list(labels)} if record.n_arms(len(ticket)) else fields


def kept_ticket(
    policy: Policy, layout: Layout, labels: tuple[Label, ...], fields: Mapping[str, Any] | None
) -> Buffer | None:
    """Return the ticket of a draw that was kept elsewhere, for the arms of today; a blank one if it need not be kept.

    None if it does not say for which arms it was, as those of older versions, and their number has changed. It comes
    from a caller's log, so it is checked as one in a file is; but it may be newer than the state, after a restart from
    an older file.
    """
    blank = blank_ticket(policy, layout, len(labels))
    record = layout.ticket
    if record is None or (fields is None and not policy.needs_ticket):
        return blank
    fields = dict(fields or {})
    before = fields.pop(ARMS, None)
    kept = record.pack(fields)
    check_ticket(policy, record, kept)
    if before is not None:
        if len(kept) != record.size(len(before)):
            raise ValueError(f"a ticket must have a value for each of its arms {list(before)!r}, but got {fields!r}")
        if tuple(before) != labels:
            index = index_by_label(tuple(before))
            return resized_ticket(policy, layout, kept, [index.get(label) for label in labels])
    return kept if len(kept) == len(blank) else None
