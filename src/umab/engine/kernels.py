"""The steps that are compiled, with names left open for the functions of a policy.

A kernel is compiled once for each type of policy: the compiler copies it and replaces the open names with functions.
`umab.engine.assembly` says which: functions of the policy itself, steps in this file and in `umab.engine.loops`, and
those for buffers that `umab.engine.buffers` makes. Nothing here depends on the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import HasProbabilities
from umab.engine.layout import Buffer
from umab.maths.simplex import Vector, draw, rest_of

State: TypeAlias = HasProbabilities
Parameters: TypeAlias = object
Ticket: TypeAlias = object
"""Parameters and tickets belong to the policy; here they are only passed on."""
Advice: TypeAlias = tuple[npt.NDArray[np.float64] | npt.NDArray[np.int64], ...]
"""What experts advise in a round, for a policy over experts; empty for any other."""

OPEN: Any = None
"""The value of an open name, until a function takes its place."""

update: Callable[..., State] = OPEN  # the update of the policy
credited: Callable[..., State] = OPEN  # replaces `update` if a loss goes to the account of another arm than that drawn
update_full: Callable[..., State] = OPEN  # the update of a policy with full information
selected: Callable[[Parameters, State, int], State] = OPEN  # what the policy notes when an arm is drawn
remember: Callable[..., Ticket] = OPEN  # what the policy puts into the ticket of a draw
advised: Callable[..., State] = OPEN  # what a policy over experts makes of the advice of a round
closed: Callable[..., State] = OPEN  # what the policy makes of a draw that is closed without a loss
coin: Callable[[Parameters, State, int], float] = OPEN  # how likely the coin of a draw shows 1
# The probabilities in a state, as a tuple: without reference counts no vector can be returned.
distribution: Callable[[State], tuple[Vector]] = OPEN
load_parameters: Callable[[Buffer], Parameters] = OPEN  # reads the parameters from a buffer
load: Callable[[Buffer, int], State] = OPEN  # reads a state from a buffer; its vectors are views of the buffer
store: Callable[[State, Buffer], None] = OPEN  # writes the scalars of a state back to its buffer
load_ticket: Callable[[Buffer, int], Ticket] = OPEN  # the same two for tickets
store_ticket: Callable[[Ticket, Buffer], None] = OPEN
told: Callable[[Buffer, int, int], tuple[object, ...]] = OPEN  # `nothing_told`, `ticket_told`, `coin_told`, `both_told`
flip: Callable[[Parameters, State, int, float], int] = OPEN  # `no_coin` or `flip_coin`
note: Callable[[Parameters, State, int, Advice, Buffer, Buffer], State] = OPEN  # `note_draw` or `note_in_ticket`
learn: Callable[..., State] = OPEN  # `learn_loss`, `learn_loss_apart` or `learn_all_losses`
close: Callable[..., State] = OPEN  # `close_draw` or `close_nothing`


class Drawn(NamedTuple):
    """A draw whose loss is not learned yet."""

    arm: int
    account: int
    """The arm whose loss is learned, which need not be the one that was drawn."""
    probability: float
    """That of the account."""
    coin: int


# The steps of a round. If the policy has tickets, `room` is the place for the ticket of a draw, and `blank` is what the
# place holds before the draw.


def note_draw(given: Parameters, state: State, arm: int, advice: Advice, room: Buffer, blank: Buffer) -> State:
    """Note that an arm was drawn."""
    return selected(given, state, arm)


def note_in_ticket(given: Parameters, state: State, arm: int, advice: Advice, room: Buffer, blank: Buffer) -> State:
    """Note that an arm was drawn, and fill in the ticket of the draw."""
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(given, state, arm, *advice, load_ticket(room, len(probabilities))), room)
    return selected(given, state, arm)


# What the policy is told beside a loss.


def nothing_told(room: Buffer, n_arms: int, flipped: int) -> tuple[()]:
    """Return nothing."""
    return ()


def ticket_told(room: Buffer, n_arms: int, flipped: int) -> tuple[Ticket]:
    """Return the ticket of the draw."""
    return (load_ticket(room, n_arms),)


def coin_told(room: Buffer, n_arms: int, flipped: int) -> tuple[int]:
    """Return the coin of the draw."""
    return (flipped,)


def both_told(room: Buffer, n_arms: int, flipped: int) -> tuple[Ticket, int]:
    """Return both."""
    return load_ticket(room, n_arms), flipped


def no_coin(given: Parameters, state: State, account: int, rest: float) -> int:
    """Return that there is no coin."""
    return -1


def flip_coin(given: Parameters, state: State, account: int, rest: float) -> int:
    """Return the coin of a draw, from what is left of its uniform number."""
    return 1 if rest < coin(given, state, account) else 0


def learn_loss(given: Parameters, state: State, drawn: Drawn, losses: Vector, room: Buffer) -> State:
    """Learn from the loss of the arm that was drawn, in a round in which the arms cost `losses`."""
    (probabilities,) = distribution(state)
    more = told(room, len(probabilities), drawn.coin)
    return update(given, state, drawn.account, losses[drawn.arm], drawn.probability, *more)


def learn_loss_apart(given: Parameters, state: State, drawn: Drawn, losses: Vector, room: Buffer) -> State:
    """Do the same, and tell the policy if the arm that was drawn is not the account."""
    (probabilities,) = distribution(state)
    more = told(room, len(probabilities), drawn.coin)
    if drawn.account == drawn.arm:
        return update(given, state, drawn.account, losses[drawn.arm], drawn.probability, *more)
    return credited(given, state, drawn.account, losses[drawn.arm], drawn.probability, drawn.arm, *more)


def learn_all_losses(given: Parameters, state: State, drawn: Drawn, losses: Vector, room: Buffer) -> State:
    """Learn from the losses of all arms."""
    return update_full(given, state, losses)


def close_nothing(given: Parameters, state: State, drawn: Drawn, room: Buffer) -> State:
    """Leave the state as it is: the policy need not know which draws were closed without a loss."""
    return state


def close_draw(given: Parameters, state: State, drawn: Drawn, room: Buffer) -> State:
    """Tell the policy that a draw was closed without a loss."""
    (probabilities,) = distribution(state)
    return closed(given, state, drawn.account, drawn.probability, *told(room, len(probabilities), drawn.coin))


# The kernels: one decision at a time. `umab.engine.loops` has those for whole trials. Their types are what compiled
# code is made for. Most policies have neither tickets nor coins, and a call with fewer arguments is faster.


def select(buffer: Buffer, n_arms: int, uniform: float, arm: int) -> tuple[int, float]:
    """Draw an arm, unless one is given; return it and its probability."""
    state = load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(selected(load_parameters(buffer), state, arm), buffer)
    return arm, probability


def take_in(buffer: Buffer, n_arms: int, arm: int, loss: float, probability: float, select_first: bool) -> None:
    """Learn from the loss of an arm, which is selected first if asked for."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = selected(given, state, arm)
    store(update(given, state, arm, loss, probability), buffer)


def select_noted(buffer: Buffer, n_arms: int, uniform: float, arm: int, room: Buffer) -> tuple[int, float, int]:
    """Select as `select` does, fill in the ticket, and flip a coin; `room` is empty if the policy has no tickets.

    If an arm is given, `uniform` is what is left of the number that it was drawn with.
    """
    given, state = load_parameters(buffer), load(buffer, n_arms)
    (probabilities,) = distribution(state)
    rest = uniform
    if arm < 0:
        arm = draw(probabilities, uniform)
        rest = rest_of(probabilities, uniform, arm)
    probability, flipped = probabilities[arm], flip(given, state, arm, rest)
    store(note(given, state, arm, (), room, room), buffer)
    return arm, probability, flipped


def take_in_noted(
    buffer: Buffer, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Buffer, coin: int
) -> None:
    """Learn as `take_in` does, with the ticket and the coin of the draw."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = note(given, state, arm, (), room, room)
    store(update(given, state, arm, loss, probability, *told(room, n_arms, coin)), buffer)


def select_advised(buffer: Buffer, n_arms: int, uniform: float, advice: Buffer, room: Buffer) -> tuple[int, float]:
    """Draw an arm by the advice of experts, and fill in the ticket of the draw."""
    given = load_parameters(buffer)
    state = advised(given, load(buffer, n_arms), advice)
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(note(given, state, arm, (advice,), room, room), buffer)
    return arm, probability


def take_in_apart(
    buffer: Buffer, n_arms: int, account: int, loss: float, probability: float, arm: int, room: Buffer, coin: int
) -> None:
    """Learn from the loss of an arm on the account of another one; `room` is empty if the policy has no tickets."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    store(credited(given, state, account, loss, probability, arm, *told(room, n_arms, coin)), buffer)


def give_up(buffer: Buffer, n_arms: int, account: int, probability: float, room: Buffer, coin: int) -> None:
    """Close a draw without a loss; `room` is empty if the policy has no tickets."""
    given, state = load_parameters(buffer), load(buffer, n_arms)
    store(closed(given, state, account, probability, *told(room, n_arms, coin)), buffer)
