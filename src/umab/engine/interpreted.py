"""The loop of a simulation in plain Python, for debuggers and as the reference that compiled code is compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from umab.algorithms.advised import Advised
from umab.algorithms.base import FullInformation, Policy
from umab.algorithms.names import as_policy
from umab.engine.advised import advice_for
from umab.engine.delays import Delays
from umab.engine.streams import numbers_needed, stream
from umab.maths.eligible import drawn_among
from umab.maths.simplex import draw, rest_of
from umab.tables.advice import Advice
from umab.tables.losses import Losses, refuse_away


class Round(NamedTuple):
    """What happened in one round.

    Attributes
    ----------
    arm, probability
        The index of the arm drawn, and its probability.
    state
        The state after the round. The next round changes its lists in place.
    coin
        The coin of the draw, −1 if the policy has none.
    """

    arm: int
    probability: float
    state: Any
    coin: int = -1


def play(
    policy: Policy | str,
    losses: Any,
    *,
    seed: int = 0,
    trial: int = 0,
    delays: Any = None,
    eligible: Any = None,
    advice: Any = None,
) -> Iterator[Round]:
    """Yield, round by round, what trial number `trial` of `umab.simulate` with the same arguments does.

    Nothing is compiled, so a debugger can step through a policy.

    Examples
    --------
    >>> from umab.engine.interpreted import play
    >>> for round in play("umab-nn", [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]):
    ...     print(round.arm, [float(f"{p:.3f}") for p in round.state.probabilities])
    1 [0.854, 0.146]
    0 [0.793, 0.207]
    0 [0.693, 0.307]
    """
    table = Losses.of(losses, eligible=eligible)
    advised = None if advice is None else Advice.of(advice, table.n_rounds, table.n_arms)
    policy = advice_for(as_policy(policy).for_horizon(table.n_rounds), advised, table)
    if policy.full_information:
        refuse_away(table, policy.name)
    n_uniforms = numbers_needed(table, slice(0, table.n_rounds))
    uniforms = iter(np.random.Generator(stream(seed, trial)).random(n_uniforms).tolist())
    there = np.isfinite(table.table).tolist()
    given = Delays.of(0 if delays is None else delays, table.n_rounds, table.n_arms, may_never=True)
    (late,) = given.of_trials(seed, range(trial, trial + 1), table.n_rounds)
    due: defaultdict[int, list[tuple[list[float] | None, int, int, float, tuple[Any, ...]]]] = defaultdict(list)
    parameters, state = policy.parameters_for(table.n_arms), policy.init(table.n_arms)
    for t, (row, here) in enumerate(zip(table.table.tolist(), there, strict=True)):
        told: Any = None if advised is None else advised.table[t].tolist()
        if isinstance(policy, Advised):
            state = (policy.advised if isinstance(told[0], list) else policy.advised_arms)(parameters, state, told)
        p = state.probabilities
        if all(here):
            uniform = next(uniforms)
            arm = account = draw(p, uniform)
            probability = account_probability = p[arm]
            rest = rest_of(p, uniform, arm)
        else:
            arm, probability, account, account_probability, rest = drawn_among(p, here, next(uniforms), next(uniforms))
        coin = -1 if policy.coin is None else int(rest < policy.coin(parameters, state, account))
        state, ticket = select(policy, parameters, state, account, told)
        ticket += () if policy.coin is None else (coin,)
        delay = int(late[t, min(arm, late.shape[1] - 1)])
        due[t + max(delay, 0)].append((row if delay >= 0 else None, arm, account, account_probability, ticket))
        for then, drawn, its_account, with_probability, its_ticket in due.pop(t, []):
            if then is None:  # the loss never comes
                if policy.closed is not None:
                    state = policy.closed(parameters, state, its_account, with_probability, *its_ticket)
            elif isinstance(policy, FullInformation):
                state = policy.update_full(parameters, state, then)
            elif its_account != drawn and policy.credited is not None:
                state = policy.credited(
                    parameters, state, its_account, then[drawn], with_probability, drawn, *its_ticket
                )
            else:
                state = policy.update(parameters, state, its_account, then[drawn], with_probability, *its_ticket)
        yield Round(arm, probability, state, coin)


def select(policy: Any, parameters: Any, state: Any, arm: int, advice: Any = None) -> tuple[Any, tuple[Any, ...]]:
    """Return the state after `arm` was drawn, and a tuple with the ticket of the draw, empty if there is none."""
    blank = policy.ticket(len(state.probabilities))
    if advice is not None:
        remember = policy.remember if isinstance(advice[0], list) else policy.remember_arms
        return policy.selected(parameters, state, arm), (remember(parameters, state, arm, advice, blank),)
    ticket = () if blank is None else (policy.remember(parameters, state, arm, blank),)
    return policy.selected(parameters, state, arm), ticket
