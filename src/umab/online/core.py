"""The core of a learner: what it knows, and the steps that change it.

`Learner` checks arguments, holds the lock and warns; the core trusts what it is given.
"""

from __future__ import annotations

import hashlib
import numbers
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.descriptions import described
from umab.engine.compiled import online_kernels
from umab.engine.layout import Buffer, blank_ticket, layout_of
from umab.engine.streams import stream
from umab.online import saved as saved_form
from umab.online.arms import Origins, rearranged_choices, rearranged_state
from umab.online.choice import Choice, Label, Open, index_by_label
from umab.online.counters import Tally
from umab.online.eligible import draw_among
from umab.online.migrations import VERSION, check_version, migrated
from umab.online.uniforms import Uniforms

_new = tuple.__new__


class Core:
    """A policy and its state, the arms, the open choices, the counts and the uniform numbers of a learner."""

    buffer: Buffer
    probabilities: npt.NDArray[np.float64]
    uniforms: Uniforms
    first_id: int
    next_id: int
    open: dict[int, Open]
    tallies: list[Tally]

    def __init__(self, policy: Policy, labels: tuple[Label, ...], maximize: bool) -> None:
        if policy.full_information:
            raise ValueError(
                f"a learner sees one loss per round, but {policy.name} needs the losses of all arms; use simulate"
            )
        if policy.needs_horizon:
            raise ValueError(f"{policy.name} must know the horizon before it starts; {policy.horizon_advice}")
        if not isinstance(maximize, bool):
            raise TypeError(f"maximize must be True or False, but got maximize={maximize!r}")
        self.policy = policy
        self.maximize = maximize
        self.labels, self.index = labels, index_by_label(labels)
        self.layout = layout_of(policy)
        self._select, self._update = online_kernels(policy)
        self._has_tickets = self.layout.ticket is not None

    @classmethod
    def start(cls, policy: Policy, labels: tuple[Label, ...], maximize: bool, seed: int | None) -> Core:
        """Return a core that has seen nothing."""
        core = cls(policy, labels, maximize)
        random = stream(seed, trial=0)
        core._start_from(core.layout.start(policy, len(labels)))
        core.open = {}
        core.tallies = [Tally() for _ in labels]
        # Learners count from different numbers, so that a choice of one is not mistaken for a choice of another.
        origin = repr((random.state, policy.name, labels)).encode()
        core.first_id = core.next_id = int.from_bytes(hashlib.sha256(origin).digest()[:2]) * 2**32
        core.uniforms = Uniforms(random)
        return core

    def _start_from(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.probabilities = self.layout.probabilities(buffer)

    def _blank_ticket(self) -> Buffer:
        """Return a ticket to be filled in."""
        return blank_ticket(self.policy, self.layout, len(self.labels))

    def draw(self, eligible: npt.NDArray[np.bool_] | None) -> Choice:
        """Draw one of the eligible arms, or of all arms if `eligible` is None. The choice is open from now on."""
        uniforms = self.uniforms
        if not uniforms.waiting:  # as `Uniforms.take`, without the call
            uniforms.refill()
        uniform = uniforms.waiting.pop()
        ticket = None
        if eligible is None:
            if not self._has_tickets:
                index, probability = self._select(self.buffer, len(self.labels), uniform, -1)
            else:
                ticket = self._blank_ticket()
                index, probability = self._select(self.buffer, len(self.labels), uniform, -1, ticket)
            account, account_probability = index, probability
        else:
            both = uniform, uniforms.take()
            index, probability, account, account_probability = draw_among(self.probabilities, eligible, both)
            if self._has_tickets:
                ticket = self._blank_ticket()
            # The policy notes the arm whose loss it will learn.
            self._select(self.buffer, len(self.labels), 0.0, account, *(() if ticket is None else (ticket,)))
        identity = self.next_id
        # Like Choice(...), but without calling a Python function: one is made in every round.
        choice = _new(Choice, (self.labels[index], index, probability, identity))
        self.open[identity] = (choice, index, account, account_probability, ticket, time.time())
        self.next_id = identity + 1
        self.tallies[index].selected += 1
        return choice

    def close(self, known: Open, loss: float | None) -> None:
        """Close a choice and learn from its loss, unless there is none or the arm that would learn is gone."""
        choice, _, account, probability, ticket, _ = known
        n_arms = len(self.labels)
        # Between closing the choice and learning its loss there is no call after which Python looks for signals, so
        # that Ctrl-C finds both done or neither.
        del self.open[choice.id]
        if account is not None and loss is not None:
            if ticket is None:
                self._update(self.buffer, n_arms, account, loss, probability, False)
            else:
                self._update(self.buffer, n_arms, account, loss, probability, False, ticket)

    def learn(self, index: int, loss: float, probability: float) -> None:
        """Learn the loss of an arm that was chosen without a draw: for the policy, a selection and an update."""
        ticket = (self._blank_ticket(),) if self._has_tickets else ()
        self._update(self.buffer, len(self.labels), index, loss, probability, True, *ticket)

    def known(self, choice: Sequence[Any]) -> Open:
        """Return the open choice that `choice` stands for."""
        if len(choice) != 4:
            raise ValueError(f"a choice must have four values (arm, index, probability, id), but got {choice!r}")
        identity = choice[3]
        number = identity if type(identity) is int else _whole_or(identity, -1)
        known = self.open.get(number)
        if known is None:
            used = self.first_id <= number < self.next_id
            why = "was closed, has expired or was forgotten" if used else "was not made by this learner"
            raise ValueError(f"a choice must be open, but the one with id={identity!r} {why}")
        if tuple(choice) != known[0]:
            raise ValueError(f"a choice must come back unchanged, but got {tuple(choice)!r} for {tuple(known[0])!r}")
        return known

    def change_arms(self, arms: Origins, labels: tuple[Label, ...]) -> None:
        """Change the arms; the arms that stay keep what was learned about them."""
        buffer, probabilities = rearranged_state(self.policy, self.layout, self.buffer, arms)
        # All at once: a signal may arrive between two statements, and must not find a mixture of the old arms and the
        # new ones. Compiled code trusts the number of arms, and what a signal handler saves must load again.
        vars(self).update(
            buffer=buffer,
            probabilities=probabilities,
            labels=labels,
            index=index_by_label(labels),
            tallies=[Tally() if before is None else self.tallies[before] for before in arms],
            open=rearranged_choices(self.policy, self.layout, self.open, arms),
        )

    def snapshot(self) -> dict[str, Any]:
        """Return everything that is saved, in a form that JSON can hold."""
        return {
            "format": saved_form.FORMAT,
            "version": VERSION,
            "umab": __version__,
            "policy": described(self.policy),
            "arms": list(self.labels),
            "maximize": self.maximize,
            "state": self.layout.fields(self.buffer),
            "random": self.uniforms.state,
            "first_id": self.first_id,
            "next_id": self.next_id,
            "outstanding": [saved_form.written_choice(each, self.layout) for each in self.open.values()],
            "counters": [each.saved() for each in self.tallies],
        }

    @classmethod
    def from_snapshot(cls, saved: dict[str, Any], policy: Policy | None) -> Core:
        """Return the core of a snapshot of this or an older version."""
        check_version(saved.get("version"))
        try:
            saved = migrated(saved)
            labels = saved_form.read_labels(saved["arms"])
            core = cls(saved_form.read_policy(saved["policy"], policy), labels, saved["maximize"])
            core._start_from(saved_form.read_state(core.policy, core.layout, saved["state"], len(labels)))
            core.uniforms = Uniforms.from_state(saved["random"])
            core.first_id = checks.whole("first_id", saved["first_id"], least=0)
            core.next_id = checks.whole("next_id", saved["next_id"], least=core.first_id)
            ids = range(core.first_id, core.next_id)
            core.open = {}
            for each in saved["outstanding"]:
                known = saved_form.read_choice(each, labels, ids, core.open, core.layout.ticket)
                core.open[known[0].id] = known
            core.tallies = [Tally.of(each) for each in saved["counters"]]
            if len(core.tallies) != len(labels):
                raise ValueError(f"there are {len(core.tallies)} counters for {len(labels)} arms")
        except KeyError as error:
            raise ValueError(f"a saved learner must be complete, but {error} is missing") from None
        except (TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as error:
            raise ValueError(f"a saved learner must be as it was written: {error}") from None
        return core


def _whole_or(value: Any, otherwise: int) -> int:
    return int(value) if isinstance(value, numbers.Integral) else otherwise
