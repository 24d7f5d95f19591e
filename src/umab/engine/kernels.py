"""The steps that are compiled, with names left open for the functions of a policy.

A kernel is compiled once for each type of policy: the compiler copies it and replaces the open names with functions.
`hooks` returns functions of the policy itself, `steps` functions of this file, and `umab.engine.buffers` makes the
functions for buffers. Nothing here depends on the compiler.
"""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

from umab.algorithms.base import Policy
from umab.maths.simplex import draw

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
note: Any = None  # `note_draw` or `note_draw_with_ticket`
learn: Any = None  # `learn_loss`, `learn_loss_with_ticket` or `learn_all_losses`
play: Any = None  # `play_round`
credit: Any = None  # `credit_loss`, `credit_loss_apart` or `credit_loss_with_ticket`


# The steps of a round. If the policy has tickets, `room` is the place for the ticket of a draw, and `blank` is what the
# place holds before the draw.


def note_draw(parameters: Any, state: Any, arm: int, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn."""
    return selected(parameters, state, arm)


def note_draw_with_ticket(parameters: Any, state: Any, arm: int, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn, and fill in the ticket of the draw."""
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(parameters, state, arm, load_ticket(room, len(probabilities))), room)
    return selected(parameters, state, arm)


def note_advised_draw(parameters: Any, state: Any, arm: int, advice: Any, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn by this advice, and fill in the ticket of the draw."""
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(parameters, state, arm, advice, load_ticket(room, len(probabilities))), room)
    return selected(parameters, state, arm)


def learn_loss(parameters: Any, state: Any, arm: int, losses: Any, t: int, probability: float, room: Any) -> Any:
    """Learn from the loss of an arm in round `t`."""
    return update(parameters, state, arm, losses[t, arm], probability)


def learn_loss_with_ticket(given: Any, state: Any, arm: int, losses: Any, t: int, p: float, room: Any) -> Any:
    """Learn from the loss of an arm in round `t`, with the ticket of the draw."""
    (probabilities,) = distribution(state)
    return update(given, state, arm, losses[t, arm], p, load_ticket(room, len(probabilities)))


def learn_all_losses(parameters: Any, state: Any, arm: int, losses: Any, t: int, probability: float, room: Any) -> Any:
    """Learn from the losses of all arms in round `t`."""
    return update_full(parameters, state, losses[t])


def credit_loss(given: Any, state: Any, arm: int, account: int, loss: float, p: float, room: Any) -> Any:
    """Learn from a loss on the account of an arm, which need not be the arm that was drawn."""
    return update(given, state, account, loss, p)


def credit_loss_apart(given: Any, state: Any, arm: int, account: int, loss: float, p: float, room: Any) -> Any:
    """Learn from a loss on the account of an arm, and tell the policy if another arm was drawn."""
    if account == arm:
        return update(given, state, account, loss, p)
    return credited(given, state, account, loss, p, arm)


def credit_loss_with_ticket(given: Any, state: Any, arm: int, account: int, loss: float, p: float, room: Any) -> Any:
    """Learn from a loss on the account of an arm, with the ticket of the draw."""
    (probabilities,) = distribution(state)
    return update(given, state, account, loss, p, load_ticket(room, len(probabilities)))


def charge(total: float, probabilities: Any, costs: Any, t: int, arm: int, expected: bool) -> float:
    """Return the total plus the cost of a round: the cost of the arm, or the expected cost."""
    if expected:
        for k in range(len(probabilities)):
            total += probabilities[k] * costs[t, k]
    else:
        total += costs[t, arm]
    return total


def cost_among(probabilities: Any, eligible: Any, costs: Any, t: int) -> float:
    """Return what the draw among the eligible arms costs on average in round `t`."""
    n_arms, n_here, here = len(probabilities), 0, 0.0
    for k in range(n_arms):
        if eligible[t, k]:
            n_here += 1
            here += probabilities[k]
    cost = 0.0
    for k in range(n_arms):
        if eligible[t, k]:
            if n_here == n_arms:
                share = probabilities[k]
            else:
                share = probabilities[k] / here if here > 0.0 else 1.0 / n_here
            cost += share * costs[t, k]
    return cost


def charge_accounts(spent: Any, cost: float, eligible: Any, against: Any, t: int) -> float:
    """Add the cost of a round to what was spent while each arm was there; return the largest regret against one."""
    largest = -math.inf
    for k in range(len(spent)):
        if eligible[t, k]:
            spent[k] += cost
        largest = max(largest, spent[k] - against[t, k])
    return largest


def play_round(
    parameters: Any,
    state: Any,
    uniform: float,
    losses: Any,
    costs: Any,
    t: int,
    expected: bool,
    total: float,
    room: Any,
    blank: Any,
) -> tuple[int, float, Any]:
    """Play a round; return the arm, the total with its cost, and the next state."""
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    total = charge(total, probabilities, costs, t, arm, expected)
    probability = probabilities[arm]
    state = note(parameters, state, arm, room, blank)
    return arm, total, learn(parameters, state, arm, losses, t, probability, room)


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
    store(note(load_parameters(buffer), state, arm, room, room), buffer)
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
        state = note(parameters, state, arm, room, room)
    store(update(parameters, state, arm, loss, probability, load_ticket(room, n_arms)), buffer)


def select_advised(buffer: Any, n_arms: int, uniform: float, advice: Any, room: Any) -> tuple[int, float]:
    """Draw an arm by the advice of experts, and fill in the ticket of the draw."""
    parameters = load_parameters(buffer)
    state = advised(parameters, load(buffer, n_arms), advice)
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(note(parameters, state, arm, advice, room, room), buffer)
    return arm, probability


def take_in_advised(
    buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Any
) -> None:
    """Learn as `take_in_with_ticket` does; without advice, nothing can be selected first."""
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    store(update(parameters, state, arm, loss, probability, load_ticket(room, n_arms)), buffer)


def take_in_apart(buffer: Any, n_arms: int, account: int, loss: float, probability: float, arm: int) -> None:
    """Learn from the loss of an arm on the account of another one."""
    store(credited(load_parameters(buffer), load(buffer, n_arms), account, loss, probability, arm), buffer)


# The functions that replace the open names.


def hooks(policy: Policy) -> dict[str, FunctionType]:
    """Return the functions of a policy that are compiled, by the open names that they replace."""
    names = ["selected", "update_full" if policy.full_information else "update"]
    names += ["advised"] * policy.takes_advice
    names += ["remember"] * (policy.ticket(1) is not None) + ["credited"] * (policy.credited is not None)
    if "remember" in names and "credited" in names:
        raise TypeError(f"a policy with tickets cannot have credited, but {type(policy).__name__} has both")
    found = {name: getattr(policy, name) for name in names}
    for name, hook in found.items():
        if not isinstance(hook, FunctionType):
            raise TypeError(f"{name} must be a static method, but {type(policy).__name__}.{name} is not")
    return found


def steps(policy: Policy) -> dict[str, Any]:
    """Return the steps that the kernels of a policy use, each after the steps that it calls."""
    if policy.ticket(1) is not None:
        return {"note": note_draw_with_ticket, "learn": learn_loss_with_ticket, "play": play_round}
    return {"note": note_draw, "learn": learn_all_losses if policy.full_information else learn_loss, "play": play_round}


def steps_advised() -> dict[str, Any]:
    """Return the steps of a policy over experts."""
    return {"note": note_advised_draw, "learn": learn_loss_with_ticket}


def steps_among(policy: Policy) -> dict[str, Any]:
    """Return the steps that `run_among` uses."""
    if policy.ticket(1) is None:
        return {"note": note_draw, "credit": credit_loss if policy.credited is None else credit_loss_apart}
    return {"note": note_draw_with_ticket, "credit": credit_loss_with_ticket}
