"""The core of a learner: its state, and the steps that change it.

`Learner` checks arguments, holds the lock and warns; the core trusts the arguments that it gets.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from umab._support import checks
from umab._version import __version__
from umab.algorithms.base import Policy
from umab.algorithms.descriptions import described
from umab.engine.compiled import drawing_kernel, kernel_of, online_kernels
from umab.engine.layout import Buffer, blank_ticket, layout_of
from umab.engine.loops import give_up, take_in_apart
from umab.engine.streams import stream
from umab.errors import AlteredChoiceError, ClosedChoiceError, ForeignChoiceError
from umab.online import columns
from umab.online import saved as saved_form
from umab.online.arms import Before, kept_ticket, rearranged_choices, rearranged_state, ticket_fields
from umab.online.choice import Choice, Draw, Label, Open, index_by_label, unknown_arm
from umab.online.counters import Tally
from umab.online.eligible import draw_among
from umab.online.ids import AMONG, TICKET, Numbers, new_space, parsed
from umab.online.migrations import VERSION, checked_version, migrated
from umab.online.uniforms import Uniforms

CheckedAdvice = npt.NDArray[np.float64] | npt.NDArray[np.int64]
"""What experts advise, checked: a row of probabilities for each, or the index of an arm, −1 if one abstains."""

_new = tuple.__new__
_NO_TICKET = np.empty(0)


class Core:
    """A policy and its state, with the arms, open choices, counts and uniform numbers of a learner."""

    buffer: Buffer
    probabilities: npt.NDArray[np.float64]
    experts: tuple[Label, ...] = ()
    """Who gives advice in every round; nobody, for most policies."""
    labels: tuple[Any, ...]
    """The labels of the arms; the learner knows of what type they are."""
    index: dict[Any, int]
    uniforms: Uniforms
    seeded: bool
    """Whether a seed was given on purpose."""
    space: str
    """The first part of the ids of choices."""
    n_drawn: int
    """How many choices have ids with this first part; the next one has this number."""
    skipped: Numbers
    """Numbers of ids that this learner did not give, because choices with them came back: draws that were lost when a
    process died before it saved."""
    absorbed: dict[str, Numbers]
    """The choices of other learners that this one has learned from, or that a copy of it has closed."""
    open: dict[str, Open]
    tallies: list[Tally]

    def __init__(
        self, policy: Policy, labels: tuple[Label, ...], maximize: bool, clock: Callable[[], float] = time.time
    ) -> None:
        if policy.full_information:
            raise ValueError(
                f"a learner sees one loss per round, but {policy.name} needs the losses of all arms; use simulate"
            )
        if policy.needs_horizon:
            raise ValueError(f"{policy.name} must know the horizon before it starts; {policy.horizon_advice}")
        self.policy = policy
        self.maximize = checks.true_or_false("maximize", maximize)
        self.clock = clock
        self.labels, self.index = labels, index_by_label(labels)
        self.layout = layout_of(policy)
        self._load_kernels()
        self._has_tickets, self._has_coin = self.layout.ticket is not None, policy.coin is not None
        self._is_plain = not (self._has_tickets or self._has_coin)
        self._id_ends = TICKET if self._has_tickets and policy.needs_ticket else ""
        self._tells_accounts, self._tells_closed = policy.credited is not None, policy.closed is not None
        self._blanks = functools.cache(functools.partial(blank_ticket, policy, self.layout))
        self._before: Before | None = None

    def _load_kernels(self) -> None:
        if self.policy.takes_advice:
            raise ValueError(f"{self.policy.name} must be told who gives advice; pass experts=[...]")
        self._select, self._update = online_kernels(self.policy)

    @classmethod
    def start(
        cls,
        policy: Policy,
        labels: tuple[Label, ...],
        maximize: bool,
        seed: int | None,
        clock: Callable[[], float] = time.time,
    ) -> Core:
        """Return a core that has not drawn or learned yet."""
        core = cls(policy, labels, maximize, clock)
        core._start_from(core.layout.start(policy, len(labels)))
        core.open, core.absorbed, core.skipped = {}, {}, Numbers()
        core.tallies = [Tally() for _ in labels]
        core._number_from(new_space(), 0)
        core._draw_from(seed)
        return core

    def _start_from(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.probabilities = self.layout.probabilities(buffer)

    def _number_from(self, space: str, n_drawn: int) -> None:
        self.space, self._id_begins, self.n_drawn = space, f"{space}-", n_drawn

    def _draw_from(self, seed: int | None) -> None:
        self.seeded = seed is not None
        self.uniforms = Uniforms(stream(seed, trial=0))

    def part(self, seed: int | None, *, keep_numbers: bool = False) -> None:
        """Become a learner of its own: with new ids, no open choices and, unless kept, new random numbers.

        The learner that this is a copy of goes on elsewhere, and gets the feedback for its open choices there.
        """
        self.absorbed[self.space] = Numbers.below(self.n_drawn, (number for *_, number, _ in self.open.values()))
        self.open, self.skipped, self._before = {}, Numbers(), None
        self._number_from(new_space(), 0)
        if not keep_numbers:
            self._draw_from(seed)

    def _blank_ticket(self) -> Buffer:
        """Return a ticket to be filled in."""
        return self._blanks(len(self.labels)).copy()

    def draw(self, eligible: npt.NDArray[np.bool_] | None, advice: CheckedAdvice | None = None) -> Choice:
        """Draw an arm, among the eligible ones if `eligible` is given; the choice is open from now on.

        With experts, it is drawn by their advice, which was checked.
        """
        drawn_at = self.clock()  # first: if it fails, nothing has changed
        uniforms = self.uniforms
        if not uniforms.waiting:  # as `Uniforms.take`, without the call
            uniforms.refill()
        uniform, number = uniforms.waiting.pop(), self.n_drawn
        coin = -1
        if eligible is None and self._is_plain:
            index, probability = self._select(self.buffer, len(self.labels), uniform, -1)
            account, account_probability, ticket = index, probability, None
            identity = f"{self._id_begins}{number}"
        else:
            identity = f"{self._id_begins}{number}{self._id_ends if eligible is None else AMONG}"
            ticket = self._blank_ticket() if self._has_tickets else None
            if eligible is None:
                if advice is None:  # as `_selected`, without the call
                    room = _NO_TICKET if ticket is None else ticket
                    index, probability, coin = self._select(self.buffer, len(self.labels), uniform, -1, room)
                else:
                    index, probability, coin = self._selected(self.buffer, uniform, -1, ticket, advice)
                account, account_probability = index, probability
            else:
                both = uniform, uniforms.take()
                index, probability, account, account_probability, rest = draw_among(self.probabilities, eligible, both)
                _, _, coin = self._selected(self.buffer, rest, account, ticket)
        # As Choice(...), without the call of a function in Python: one is made in every round.
        choice = _new(Choice, (self.labels[index], index, probability, identity))
        self.open[identity] = (choice, index, account, account_probability, ticket, drawn_at, number, coin)
        self.n_drawn = number + 1
        self.tallies[index].selected += 1
        self._before = None
        return choice

    def _selected(
        self, buffer: Buffer, uniform: float, arm: int, ticket: Buffer | None, advice: CheckedAdvice | None = None
    ) -> tuple[int, float, int]:
        """Let the policy note an arm, which is drawn if `arm` is −1; return it, its probability and the coin.

        If an arm is given, `uniform` is what is left of the number that it was drawn with.
        """
        n_arms = len(self.labels)
        if self._is_plain:
            index, probability = self._select(buffer, n_arms, uniform, arm)
            return index, probability, -1
        room = _NO_TICKET if ticket is None else ticket
        index, probability, coin = self._select(buffer, n_arms, uniform, arm, room)
        return index, probability, coin

    def let_go(self, known: Open) -> None:
        """Forget an open choice, which is kept elsewhere from now on."""
        identity = known[0].id
        if self._before is not None:
            self._before.open.pop(identity, None)
        del self.open[identity]

    def close(self, known: Open, loss: float | None) -> None:
        """Close a choice and learn its loss, or that there is none, if its arm is still there."""
        choice, index, account, probability, ticket, _, _, coin = known
        n_arms = len(self.labels)
        apart = self._credit if self._tells_accounts and account != index else None
        drawn = -1 if index is None else index
        room = _NO_TICKET if ticket is None else ticket
        closing = self._closing if loss is None and self._tells_closed else None
        if account is None or (loss is None and closing is None):  # nothing is told, so that a change of arms goes on
            if self._before is not None:
                self._before.open.pop(choice.id, None)
        else:
            self._before = None
        # Python checks for signals after calls, and there is no call between closing the choice and learning its loss.
        # So a Ctrl-C finds both done or neither.
        del self.open[choice.id]
        if account is None:
            pass
        elif loss is None:
            if closing is not None:
                closing(self.buffer, n_arms, account, probability, room, coin)
        elif apart is not None:
            apart(self.buffer, n_arms, account, loss, probability, drawn, room, coin)
        elif self._is_plain:
            self._update(self.buffer, n_arms, account, loss, probability, False)
        else:
            self._update(self.buffer, n_arms, account, loss, probability, False, room, coin)

    @functools.cached_property
    def _credit(self) -> Callable[..., None]:
        """The function for losses on the account of another arm, which is compiled when it is first needed."""
        return kernel_of(take_in_apart, self.policy)

    def warm_up(self) -> None:
        """Compile what is otherwise compiled when it is first needed."""
        drawing_kernel()
        if self._tells_accounts:
            kernel_of(take_in_apart, self.policy)
        if self._tells_closed:
            kernel_of(give_up, self.policy)

    @functools.cached_property
    def _closing(self) -> Callable[..., None]:
        """The function for draws that are closed without a loss, which is compiled when it is first needed."""
        return kernel_of(give_up, self.policy)

    def settle(self, draw: Draw, index: int | None, loss: float) -> None:
        """Learn the loss of a draw that was released, if the arm of its account is there; its own arm is `index`."""
        account, n_arms, probability = self.index.get(draw.account), len(self.labels), draw.account_probability
        if account is None:
            return
        ticket = self._kept_ticket(draw)
        if ticket is None:
            return
        self._before = None
        if self._tells_accounts and account != index:
            drawn = -1 if index is None else index
            self._credit(self.buffer, n_arms, account, loss, probability, drawn, ticket, draw.coin)
        else:
            self._update(self.buffer, n_arms, account, loss, probability, False, *self._told(ticket, draw.coin))

    def _told(self, ticket: Buffer, coin: int) -> tuple[Buffer | int, ...]:
        """Return what compiled updates are told beside a loss."""
        return () if self._is_plain else (ticket, coin)

    def give_up(self, draw: Draw) -> None:
        """Close a draw that was released, without a loss."""
        account = self.index.get(draw.account)
        if account is None or not self._tells_closed:
            return
        ticket = self._kept_ticket(draw)
        if ticket is not None:
            self._before = None
            self._closing(self.buffer, len(self.labels), account, draw.account_probability, ticket, draw.coin)

    def _kept_ticket(self, draw: Draw) -> Buffer | None:
        """Return the ticket of a draw that was released, an empty one if the policy has none.

        None says that what to learn depends on arms that nobody knows any more.
        """
        if not self._has_tickets:
            return _NO_TICKET
        try:
            return kept_ticket(self.policy, self.layout, self.labels, draw.ticket)
        except KeyError as error:
            raise AlteredChoiceError(
                f"a draw must come back as it was released, but {error} is missing in ticket={draw.ticket!r}"
            ) from None
        except (ValueError, TypeError) as error:
            raise AlteredChoiceError(f"a draw must come back as it was released: {error}") from None

    def learn(self, index: int, loss: float, probability: float) -> None:
        """Learn the loss of an arm chosen without a draw, which the policy sees as a selection and an update."""
        told = self._told(self._blank_ticket(), -1)
        self._before = None
        self._update(self.buffer, len(self.labels), index, loss, probability, True, *told)

    def learn_foreign(self, identity: str, index: int, loss: float, probability: float) -> None:
        """Learn the loss of another learner's choice, which will not be learned again."""
        space, number, _ = parsed(identity) or ("", 0, "")
        n_arms = len(self.labels)
        numbers = self.absorbed.setdefault(space, Numbers())
        edges, part, new = numbers.with_range(number, number + 1)
        told = self._told(self._blank_ticket(), -1)
        if space == self.space and number >= self.n_drawn:  # it was drawn here before an older file was loaded
            self.skipped.add(self.n_drawn, number + 1)
            self.n_drawn = number + 1
        self._before = None
        # As in `close`: no call between the two.
        edges[part] = new
        self._update(self.buffer, n_arms, index, loss, probability, True, *told)

    def known(self, choice: Sequence[Any]) -> Open:
        """Return the open choice that `choice` is."""
        try:
            _, _, _, identity = choice
            known = self.open.get(identity)
        except (TypeError, ValueError):
            raise AlteredChoiceError(
                f"a choice must have four values (arm, index, probability, id), but got {checks.shown(choice)}"
            ) from None
        if known is None:
            raise self._not_open(identity)
        if choice is not known[0] and tuple(choice) != known[0]:
            raise AlteredChoiceError(
                f"a choice must come back unchanged, but got {checks.shown(tuple(choice))} for {tuple(known[0])!r}"
            )
        return known

    def _not_open(self, identity: object) -> ClosedChoiceError | ForeignChoiceError:
        """Return the error for a choice that is not open here."""
        if self.was_closed(identity):
            return ClosedChoiceError(
                f"a choice must be open, but id={identity!r} was closed, has expired or was forgotten"
            )
        return ForeignChoiceError(f"a choice must be open, but id={identity!r} was not made by this learner")

    def was_closed(self, identity: object) -> bool:
        """Whether a choice that is not open was closed here, by a copy of this learner, or learned from elsewhere."""
        place = parsed(identity)
        if place is None:
            return False
        space, number, _ = place
        if space in self.absorbed and number in self.absorbed[space]:
            return True
        return space == self.space and number < self.n_drawn and number not in self.skipped

    def index_of(self, label: object) -> int:
        """Return the index of an arm."""
        try:
            return self.index[label]
        except (KeyError, TypeError):
            raise unknown_arm(self.labels, label) from None

    def draw_of(self, known: Open) -> Draw:
        """Return an open choice with all that it takes to repeat its draw."""
        choice, _, account, probability, ticket, drawn_at, _, coin = known
        record = self.layout.ticket
        if account is None:
            raise ValueError(f"a draw must be recorded while its arm is there, but the arm of {choice!r} is gone")
        fields = None if record is None or ticket is None else ticket_fields(record, ticket, self.labels)
        return Draw(*choice, self.labels[account], probability, fields, drawn_at, coin)

    def redraw(self, draw: Draw) -> Choice:
        """Repeat a draw that was recorded; it must be the next one of this learner."""
        place = parsed(draw.id)
        if place is None:
            raise AlteredChoiceError(f"a draw must have the id that it was made with, but got id={draw.id!r}")
        space, number, end = place
        if space != self.space and self.n_drawn:
            raise ForeignChoiceError(f"a draw must be one of this learner, but id={draw.id!r} was made by another")
        if number != self.n_drawn:
            raise ValueError(f"draws must be replayed in order, but got number {number} where {self.n_drawn} is next")
        index, account = self.index_of(draw.arm), self.index_of(draw.account)
        probability = float(self.probabilities[index])
        whole = end == AMONG or (account == index and draw.probability == draw.account_probability == probability)
        changed = self.buffer.copy()  # a draw that does not fit must change nothing
        ticket, record = self._blank_ticket() if self._has_tickets else None, self.layout.ticket
        self._selected(changed, 0.0, account, ticket)
        fields = None if record is None or ticket is None else record.fields(ticket)
        known: list[dict[str, object] | None] = [fields] if self.policy.needs_ticket else [fields, None]
        if record is not None and ticket is not None and fields is not None:
            known.append(ticket_fields(record, ticket, self.labels))  # older versions did not note the arms
        if draw.coin >= 0 and not self._has_coin:
            raise AlteredChoiceError(f"{self.policy.name} has no coin, so it must be −1, but got {draw!r}")
        if not whole or draw.index != index or draw.ticket not in known:
            raise AlteredChoiceError(
                f"a draw must fit the state of the learner, but {draw!r} does not: the arm has index {index} and "
                f"probability {probability!r}, and the ticket would be {fields!r}"
            )
        choice = Choice(self.labels[index], index, draw.probability, draw.id)
        n_uniforms, tally = 2 if end == AMONG else 1, self.tallies[index]
        self.uniforms.have(n_uniforms)
        waiting, begins = self.uniforms.waiting, f"{space}-"
        # From here on there is no call, so that a signal finds all of it done or nothing begun.
        self.buffer[:] = changed
        self.space, self._id_begins, self.n_drawn = space, begins, number + 1
        del waiting[-n_uniforms:]
        self.open[draw.id] = (choice, index, account, draw.account_probability, ticket, draw.time, number, draw.coin)
        tally.selected += 1
        self._before = None
        return choice

    def change_arms(self, labels: tuple[Label, ...]) -> None:
        """Continue with other arms. Arms that stay keep what was learned about them."""
        before = self._before
        if before is None:
            origins: dict[Label, int | None] = dict(self.index)
            before = Before(len(self.labels), self.buffer, self.tallies, dict(self.open), origins)
        origins = {label: before.origins.get(label) for label in labels}
        arms = list(origins.values())
        buffer, probabilities = rearranged_state(self.policy, self.layout, before.buffer, before.n_arms, arms)
        # All at once, since a signal may come between two statements. It must not find some parts for the old arms and
        # others for the new ones: compiled code trusts the number of arms, and a signal handler may save the learner.
        vars(self).update(
            buffer=buffer,
            probabilities=probabilities,
            labels=labels,
            index=index_by_label(labels),
            tallies=[Tally() if each is None else before.tallies[each] for each in arms],
            open=rearranged_choices(self.policy, self.layout, before.open.values(), arms),
            _before=before._replace(origins=origins),
        )

    def snapshot(self) -> saved_form.SavedLearner:
        """Return the whole core, as JSON can hold it. It holds one state, so a change of arms ends here."""
        self._before = None
        return {
            "format": saved_form.FORMAT,
            "version": VERSION,
            "umab": __version__,
            "policy": described(self.policy),
            "arms": list(self.labels),
            "maximize": self.maximize,
            "seeded": self.seeded,
            "state": self.layout.fields(self.buffer),
            "random": self.uniforms.state,
            "ids": {
                "space": self.space,
                "next": self.n_drawn,
                "skipped": self.skipped.intervals(),
                "absorbed": {space: numbers.intervals() for space, numbers in self.absorbed.items()},
            },
            "counters": [each.saved() for each in self.tallies],
            "open": columns.written(list(self.open.values()), self.layout.ticket),
        }

    @classmethod
    def from_snapshot(
        cls, saved: Mapping[str, object], policy: Policy | None, clock: Callable[[], float] = time.time
    ) -> Core:
        """Return the core of a snapshot of this version or an older one."""
        version = checked_version(saved.get("version"))
        with saved_form.as_written(ValueError):
            saved = migrated(saved, version)
            labels = saved_form.read_labels(saved["arms"])
            core = cls(saved_form.read_policy(saved["policy"], policy), labels, saved["maximize"], clock)
            core._start_from(saved_form.read_state(core.policy, core.layout, saved["state"], len(labels)))
            core.uniforms, core.seeded = (
                Uniforms.from_state(saved["random"]),
                checks.true_or_false("seeded", saved["seeded"]),
            )
            core._read_ids(saved["ids"])
            blank = None if core.policy.needs_ticket else core._blank_ticket()
            core.open = columns.read(saved["open"], labels, range(core.n_drawn), core._id_of, core.layout.ticket, blank)
            tickets = [ticket for _, _, _, _, ticket, *_ in core.open.values()]
            saved_form.check_tickets(core.policy, core.layout, core.buffer, tickets)
            core.tallies = [Tally.of(each) for each in saved["counters"]]
            if len(core.tallies) != len(labels):
                raise ValueError(f"there are {len(core.tallies)} counters for {len(labels)} arms")
        return core

    def _read_ids(self, ids: saved_form.SavedIds) -> None:
        space = ids["space"]
        if not isinstance(space, str) or parsed(f"{space}-0") is None:
            raise ValueError(f"the space of ids must be 16 hexadecimal digits, but got {space!r}")
        self._number_from(space, checks.whole("next", ids["next"], least=0, most=2**53))
        self.skipped = Numbers(ids["skipped"])
        self.absorbed = {space: Numbers(intervals) for space, intervals in ids["absorbed"].items()}
        wrong = next((space for space in self.absorbed if parsed(f"{space}-0") is None), None)
        if wrong is not None:
            raise ValueError(f"the space of ids must be 16 hexadecimal digits, but got {wrong!r}")

    def _id_of(self, number: int, end: str) -> str:
        return f"{self._id_begins}{number}{end}"
