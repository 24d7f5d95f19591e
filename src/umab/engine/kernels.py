"""The steps that are compiled, with names left open for the functions of a policy.

A kernel is compiled once for each type of policy: the compiler copies it and replaces the open names with functions.
`hooks` returns functions of the policy itself, `steps` functions of this file; `umab.engine.loops` has those of a
round, and `umab.engine.buffers` makes the functions for buffers. Nothing here depends on the compiler.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from umab.algorithms.base import Policy
from umab.maths.simplex import draw, rest_of

# The open names.
update: Any = None  # the update of the policy
credited: Any = None  # what replaces `update` if a loss goes to the account of another arm than the one drawn
update_full: Any = None  # the update of a policy with full information
selected: Any = None  # what the policy notes when an arm is drawn
remember: Any = None  # what the policy puts into the ticket of a draw
advised: Any = None  # what a policy over experts makes of the advice of a round
distribution: Any = None  # the probabilities in a state, as a tuple: without reference counts no vector can be returned
load_parameters: Any = None  # reads the parameters from a buffer
load: Any = None  # reads a state from a buffer; its vectors are views of the buffer
store: Any = None  # writes the scalars of a state back to its buffer
load_ticket: Any = None  # the same two for tickets
store_ticket: Any = None
closed: Any = None  # what the policy makes of a draw that is closed without a loss
coin: Any = None  # how likely the coin of a draw shows 1
told: Any = None  # `nothing_told`, `ticket_told`, `coin_told` or `both_told`
flip: Any = None  # `no_coin` or `flip_coin`
note: Any = None  # `note_draw`, `note_draw_with_ticket` or `note_advised_draw`
learn: Any = None  # `learn_loss`, `learn_loss_apart` or `learn_all_losses`
close: Any = None  # `close_draw` or `close_nothing`


# The steps of a round. If the policy has tickets, `room` is the place for the ticket of a draw, and `blank` is what the
# place holds before the draw. `account` is the arm whose loss is learned, which need not be the one that was drawn.


def note_draw(parameters: Any, state: Any, arm: int, advice: Any, t: int, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn."""
    return selected(parameters, state, arm)


def note_draw_with_ticket(parameters: Any, state: Any, arm: int, advice: Any, t: int, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn, and fill in the ticket of the draw."""
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(parameters, state, arm, load_ticket(room, len(probabilities))), room)
    return selected(parameters, state, arm)


def note_advised_draw(parameters: Any, state: Any, arm: int, advice: Any, t: int, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn by this advice, and fill in the ticket of the draw."""
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(parameters, state, arm, advice[t], load_ticket(room, len(probabilities))), room)
    return selected(parameters, state, arm)


def nothing_told(room: Any, n_arms: int, flipped: int) -> tuple[()]:
    """Return what the policy is told beside a loss: nothing."""
    return ()


def ticket_told(room: Any, n_arms: int, flipped: int) -> tuple[Any]:
    """Return what the policy is told beside a loss: the ticket of the draw."""
    return (load_ticket(room, n_arms),)


def coin_told(room: Any, n_arms: int, flipped: int) -> tuple[int]:
    """Return what the policy is told beside a loss: the coin of the draw."""
    return (flipped,)


def both_told(room: Any, n_arms: int, flipped: int) -> tuple[Any, int]:
    """Return what the policy is told beside a loss: the ticket and the coin of the draw."""
    return load_ticket(room, n_arms), flipped


def no_coin(parameters: Any, state: Any, account: int, rest: float) -> int:
    """Return that there is no coin."""
    return -1


def flip_coin(parameters: Any, state: Any, account: int, rest: float) -> int:
    """Return the coin of a draw, from what is left of its uniform number."""
    return 1 if rest < coin(parameters, state, account) else 0


def learn_loss(
    given: Any, state: Any, arm: int, account: int, losses: Any, t: int, p: float, room: Any, flipped: int
) -> Any:
    """Learn from the loss of the arm that was drawn in round `t`."""
    (probabilities,) = distribution(state)
    return update(given, state, account, losses[t, arm], p, *told(room, len(probabilities), flipped))


def learn_loss_apart(
    given: Any, state: Any, arm: int, account: int, losses: Any, t: int, p: float, room: Any, flipped: int
) -> Any:
    """Do the same, and tell the policy if the arm that was drawn is another one."""
    (probabilities,) = distribution(state)
    if account == arm:
        return update(given, state, account, losses[t, arm], p, *told(room, len(probabilities), flipped))
    return credited(given, state, account, losses[t, arm], p, arm, *told(room, len(probabilities), flipped))


def learn_all_losses(
    given: Any, state: Any, arm: int, account: int, losses: Any, t: int, p: float, room: Any, flipped: int
) -> Any:
    """Learn from the losses of all arms in round `t`."""
    return update_full(given, state, losses[t])


def close_nothing(parameters: Any, state: Any, account: int, probability: float, room: Any, flipped: int) -> Any:
    """Leave the state as it is: the policy need not know which draws were closed without a loss."""
    return state


def close_draw(parameters: Any, state: Any, account: int, probability: float, room: Any, flipped: int) -> Any:
    """Tell the policy that a draw was closed without a loss."""
    (probabilities,) = distribution(state)
    return closed(parameters, state, account, probability, *told(room, len(probabilities), flipped))


# The kernels: one decision at a time. `umab.engine.loops` has those for whole trials.


def select(buffer: Any, n_arms: int, uniform: float, arm: int) -> tuple[int, float]:
    """Draw an arm, unless one is given; return it and its probability."""
    state = load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(selected(load_parameters(buffer), state, arm), buffer)
    return arm, probability


def select_with_ticket(buffer: Any, n_arms: int, uniform: float, arm: int, room: Any) -> tuple[int, float]:
    """Select as `select` does, and fill in the ticket of the draw."""
    state = load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(note(load_parameters(buffer), state, arm, (), 0, room, room), buffer)
    return arm, probability


def take_in(buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool) -> None:
    """Learn from the loss of an arm, which is selected first if asked for."""
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = selected(parameters, state, arm)
    store(update(parameters, state, arm, loss, probability), buffer)


def take_in_with_ticket(
    buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Any
) -> None:
    """Learn as `take_in` does, with the ticket of the draw."""
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = note(parameters, state, arm, (), 0, room, room)
    store(update(parameters, state, arm, loss, probability, load_ticket(room, n_arms)), buffer)


def select_with_coin(
    buffer: Any, n_arms: int, uniform: float, arm: int, rest: float, room: Any
) -> tuple[int, float, int]:
    """Select as the others do, and flip a coin; `room` is empty if the policy has no tickets.

    If an arm is given, `rest` is what is left of the uniform number of its draw.
    """
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
        rest = rest_of(probabilities, uniform, arm)
    probability, flipped = probabilities[arm], flip(parameters, state, arm, rest)
    store(note(parameters, state, arm, (), 0, room, room), buffer)
    return arm, probability, flipped


def take_in_with_coin(
    buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Any, flipped: int
) -> None:
    """Learn as the others do, with the coin of the draw; `room` is empty if the policy has no tickets."""
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = note(parameters, state, arm, (), 0, room, room)
    store(update(parameters, state, arm, loss, probability, *told(room, n_arms, flipped)), buffer)


def select_advised(buffer: Any, n_arms: int, uniform: float, advice: Any, room: Any) -> tuple[int, float]:
    """Draw an arm by the advice of experts, and fill in the ticket of the draw."""
    parameters = load_parameters(buffer)
    state = advised(parameters, load(buffer, n_arms), advice)
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(note(parameters, state, arm, (advice,), 0, room, room), buffer)
    return arm, probability


def take_in_advised(
    buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Any
) -> None:
    """Learn as `take_in_with_ticket` does; without advice, nothing can be selected first."""
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    store(update(parameters, state, arm, loss, probability, load_ticket(room, n_arms)), buffer)


def take_in_apart(
    buffer: Any, n_arms: int, account: int, loss: float, probability: float, arm: int, room: Any, flipped: int
) -> None:
    """Learn from the loss of an arm on the account of another one; `room` is empty if the policy has no tickets."""
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    store(credited(parameters, state, account, loss, probability, arm, *told(room, n_arms, flipped)), buffer)


def give_up(buffer: Any, n_arms: int, account: int, probability: float, room: Any, flipped: int) -> None:
    """Close a draw without a loss; `room` is empty if the policy has no tickets."""
    store(close(load_parameters(buffer), load(buffer, n_arms), account, probability, room, flipped), buffer)


# The functions that replace the open names.


def hooks(policy: Policy) -> dict[str, FunctionType]:
    """Return the functions of a policy that are compiled, by the open names that they replace."""
    names = ["selected", "update_full" if policy.full_information else "update"]
    names += ["advised"] * policy.takes_advice
    names += ["remember"] * (policy.ticket(1) is not None)
    names += [name for name in ("credited", "closed", "coin") if getattr(policy, name) is not None]
    if "coin" in names and (policy.full_information or policy.takes_advice):
        raise TypeError(
            f"a policy with a coin must learn from one arm, without advice, but got {type(policy).__name__}"
        )
    found = {name: getattr(policy, name) for name in names}
    for name, hook in found.items():
        if not isinstance(hook, FunctionType):
            raise TypeError(f"{name} must be a static method, but {type(policy).__name__}.{name} is not")
    return found


def steps(policy: Policy, *, apart: bool = False) -> dict[str, Any]:
    """Return the steps that the kernels of a policy use; `apart` if a loss may go to the account of another arm."""
    has_ticket, has_coin = policy.ticket(1) is not None, policy.coin is not None
    alone = coin_told if has_coin else nothing_told
    with_ticket = both_told if has_coin else ticket_told
    found: dict[str, Any] = {"told": with_ticket if has_ticket else alone, "flip": flip_coin if has_coin else no_coin}
    found["note"] = note_draw
    if has_ticket:
        found["note"] = note_advised_draw if policy.takes_advice else note_draw_with_ticket
    found["learn"] = learn_loss_apart if apart and policy.credited is not None else learn_loss
    if policy.full_information:
        found["learn"] = learn_all_losses
    return {**found, "close": close_nothing if policy.closed is None else close_draw}
