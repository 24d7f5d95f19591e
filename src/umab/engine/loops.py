"""The loops over rounds and trials that are compiled, for simulations; `umab.engine.kernels` says how.

A processor runs many trials one after the other: `run`, `run_delayed`, `run_among` and `run_advised`. A GPU runs each
trial in a thread of its own, with the loops over the rounds of one trial that are here as well: `play_trial`,
`play_delayed` and `play_among`. Where their uniform numbers come from is left open.
"""

from __future__ import annotations

from typing import Any

from umab.algorithms.base import Policy
from umab.engine import kernels
from umab.engine.kernels import (
    advised,
    charge,
    charge_accounts,
    cost_among,
    credit,
    distribution,
    learn,
    load,
    load_parameters,
    note,
    play,
    store,
)
from umab.engine.pcg import next_uniform
from umab.maths.eligible import draw_among
from umab.maths.simplex import draw

# The open names of this file.
uniform_of: Any = None  # `given_uniform` or `drawn_uniform`
delayed_rounds: Any = None  # `play_delayed`
rounds_among: Any = None  # `play_among`


def given_uniform(uniforms: Any, trial: int, at: int) -> float:
    """Return a uniform number of a trial that was drawn in advance."""
    return float(uniforms[trial, at])


def drawn_uniform(generator: Any, trial: int, at: int) -> float:
    """Return the next uniform number of the generator of a trial."""
    return next_uniform(generator)


def run(
    buffers: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
) -> None:
    """Play some rounds of some trials; `buffers` and `totals` carry on to the next call.

    A row of `buffers`, `uniforms`, `regret` and `arms` and an entry of `totals` belong to a trial; a row of `losses`
    (what the policy sees) and `costs` (what the regret counts) and an entry of `best` (what the best arm has cost so
    far) belong to a round. `rooms` has two places for each trial: one for the ticket of a draw, and a blank one. A
    buffer holds the parameters of its trial, so trials may have different parameters.
    """
    n_rounds, n_arms = losses.shape
    n_trials = buffers.shape[0]
    # Two trials take turns, round by round. A round is a chain of divisions and roots that wait for each other; while
    # one trial waits, the processor works on the other, which does not depend on it.
    for trial in range(0, n_trials, 2):
        paired = trial + 1 < n_trials
        beside = trial + 1 if paired else trial
        given, other_given = load_parameters(buffers[trial]), load_parameters(buffers[beside])
        state, other = load(buffers[trial], n_arms), load(buffers[beside], n_arms)
        room, other_room, blank = rooms[trial, 0], rooms[beside, 0], rooms[trial, 1]
        total, other_total = totals[trial], totals[beside]
        for t in range(n_rounds):
            arm, total, state = play(given, state, uniforms[trial, t], losses, costs, t, expected, total, room, blank)
            arms[trial, t] = arm
            regret[trial, t] = total - best[t]
            if paired:
                arm, other_total, other = play(
                    other_given, other, uniforms[beside, t], losses, costs, t, expected, other_total, other_room, blank
                )
                arms[beside, t] = arm
                regret[beside, t] = other_total - best[t]
        totals[trial] = total
        store(state, buffers[trial])
        if paired:
            totals[beside] = other_total
            store(other, buffers[beside])


def play_trial(
    trial: int,
    n_arms: int,
    buffer: Any,
    room: Any,
    blank: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
) -> None:
    """Play some rounds of one trial, as `run` does of many.

    The state goes from round to round through its buffer, and not in a variable: else the compiler of a GPU loses track
    of where the vectors are and how long, and the loop takes twice as long.
    """
    parameters, total = load_parameters(buffer), totals[trial]
    for t in range(losses.shape[0]):
        state = load(buffer, n_arms)
        uniform = uniform_of(uniforms, trial, t)
        arm, total, state = play(parameters, state, uniform, losses, costs, t, expected, total, room, blank)
        store(state, buffer)
        arms[trial, t] = arm
        regret[trial, t] = total - best[t]
    totals[trial] = total


def run_delayed(
    buffers: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds of some trials, from round `first` on, with late feedback.

    As `run`, but `losses` has all rounds, and `delays` has, for each trial and each of these rounds, one delay, or one
    for each arm. Open choices are kept in rings of `size` places, more than the longest delay, which carry on to the
    next call. Round s has place s modulo size, with the probability of its draw in `open_probabilities` and its ticket
    in `rooms`, whose last place is blank.
    The rounds that fall due together form a list. For each place, `links` has the arm drawn there, the next round of
    the same list, and the first and the last round of the list that falls due when that place comes up (−1 for none).
    """
    for trial in range(buffers.shape[0]):
        delayed_rounds(
            trial,
            losses.shape[1],
            buffers[trial],
            rooms,
            uniforms,
            losses,
            costs,
            best,
            expected,
            totals,
            regret,
            arms,
            first,
            delays[trial],
            open_probabilities,
            links,
        )


def play_delayed(
    trial: int,
    n_arms: int,
    buffer: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds of one trial, as `run_delayed` does of many."""
    size = links.shape[2]
    parameters = load_parameters(buffer)
    state = load(buffer, n_arms)
    total = totals[trial]
    for t in range(len(delays)):
        (probabilities,) = distribution(state)
        arm = draw(probabilities, uniform_of(uniforms, trial, t))
        total = charge(total, probabilities, costs, t, arm, expected)
        arms[trial, t] = arm
        regret[trial, t] = total - best[t]
        now = first + t
        place = now % size
        open_probabilities[trial, place] = probabilities[arm]
        state = note(parameters, state, arm, rooms[trial, place], rooms[trial, size])
        links[trial, 0, place] = arm
        s = line_up(links, trial, now, delays[t, min(arm, delays.shape[1] - 1)])
        while s >= 0:
            at = s % size
            arm, probability = links[trial, 0, at], open_probabilities[trial, at]
            state = learn(parameters, state, arm, losses, s, probability, rooms[trial, at])
            s = links[trial, 1, at]
    totals[trial] = total
    store(state, buffer)


def run_among(
    buffers: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    eligible: Any,
    against: Any,
    expected: bool,
    spent: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds of some trials, in which some arms are away, with late feedback or with delays of 0.

    As `run_delayed`, with these differences. A row of `eligible` says which arms are there, and only their losses and
    costs are read. A row of `against` has what each arm has cost so far in the rounds in which it was there, inf if it
    was in none; a row of `spent` has what the choices of one trial have cost in these rounds. A row of `uniforms` has
    one number for each round in which all arms are there, and two for each other round. The policy learns each loss on
    an account, which `links` has in place of the arm, and `links` has the arm itself in a fifth place.
    """
    for trial in range(buffers.shape[0]):
        rounds_among(
            trial,
            losses.shape[1],
            buffers[trial],
            rooms,
            uniforms,
            losses,
            costs,
            eligible,
            against,
            expected,
            spent,
            regret,
            arms,
            first,
            delays[trial],
            open_probabilities,
            links,
        )


def play_among(
    trial: int,
    n_arms: int,
    buffer: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    eligible: Any,
    against: Any,
    expected: bool,
    spent: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds of one trial, as `run_among` does of many."""
    size = links.shape[2]
    parameters = load_parameters(buffer)
    state = load(buffer, n_arms)
    used = 0
    for t in range(eligible.shape[0]):
        (probabilities,) = distribution(state)
        n_here = 0
        for k in range(n_arms):
            n_here += 1 if eligible[t, k] else 0
        uniform = uniform_of(uniforms, trial, used)
        if n_here == n_arms:
            arm = draw(probabilities, uniform)
            account, probability = arm, probabilities[arm]
            used += 1
        else:
            other = uniform_of(uniforms, trial, used + 1)
            arm, _, account, probability = draw_among(probabilities, eligible[t], uniform, other)
            used += 2
        cost = cost_among(probabilities, eligible, costs, t) if expected else costs[t, arm]
        arms[trial, t] = arm
        regret[trial, t] = charge_accounts(spent[trial], cost, eligible, against, t)
        now = first + t
        place = now % size
        open_probabilities[trial, place] = probability
        state = note(parameters, state, account, rooms[trial, place], rooms[trial, size])
        links[trial, 0, place] = account
        links[trial, 4, place] = arm
        s = line_up(links, trial, now, delays[t, min(arm, delays.shape[1] - 1)])
        while s >= 0:
            at = s % size
            drawn, account, probability = links[trial, 4, at], links[trial, 0, at], open_probabilities[trial, at]
            state = credit(parameters, state, drawn, account, losses[s, drawn], probability, rooms[trial, at])
            s = links[trial, 1, at]
    store(state, buffer)


def run_advised(
    buffers: Any,
    rooms: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    awake: Any,
    against: Any,
    expected: bool,
    spent: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
    advice: Any,
) -> None:
    """Play some rounds of some trials in which experts give advice, with late feedback or with delays of 0.

    As `run_delayed`, with the advice of a round in each row of `advice`. Regret is against experts: `awake`, `against`
    and `spent` are to them what `eligible`, `against` and `spent` are to arms in `run_among`.
    """
    n_arms, size = losses.shape[1], links.shape[2]
    for trial in range(buffers.shape[0]):
        parameters = load_parameters(buffers[trial])
        state = load(buffers[trial], n_arms)
        for t in range(advice.shape[0]):
            state = advised(parameters, state, advice[t])
            (probabilities,) = distribution(state)
            arm = draw(probabilities, uniforms[trial, t])
            cost = charge(0.0, probabilities, costs, t, arm, expected)
            arms[trial, t] = arm
            regret[trial, t] = charge_accounts(spent[trial], cost, awake, against, t)
            now = first + t
            place = now % size
            open_probabilities[trial, place] = probabilities[arm]
            state = note(parameters, state, arm, advice[t], rooms[trial, place], rooms[trial, size])
            links[trial, 0, place] = arm
            s = line_up(links, trial, now, delays[trial, t, min(arm, delays.shape[2] - 1)])
            while s >= 0:
                at = s % size
                arm, probability = links[trial, 0, at], open_probabilities[trial, at]
                state = learn(parameters, state, arm, losses, s, probability, rooms[trial, at])
                s = links[trial, 1, at]
        store(state, buffers[trial])


def line_up(links: Any, trial: int, now: int, delay: int) -> int:
    """Let the round `now` fall due after a delay; return the first round of the list that falls due now, −1 for none.

    The list is emptied; the links from round to round in it stay.
    """
    size = links.shape[2]
    place, due = now % size, (now + delay) % size
    links[trial, 1, place] = -1
    if links[trial, 2, due] < 0:
        links[trial, 2, due] = now
    else:
        links[trial, 1, links[trial, 3, due] % size] = now
    links[trial, 3, due] = now
    first = links[trial, 2, place]
    links[trial, 2, place] = -1
    return int(first)


# The functions that replace the open names, beside those of `umab.engine.kernels`.

PARTS = {"uniform_of": given_uniform, "line_up": line_up}
PARTS_ADVISED = {"line_up": line_up, "charge_accounts": charge_accounts}
PARTS_AMONG = {**PARTS, "draw_among": draw_among, "cost_among": cost_among, "charge_accounts": charge_accounts}


def steps_delayed(policy: Policy) -> dict[str, Any]:
    """Return the steps that `run_delayed` uses."""
    return {**kernels.steps(policy), "delayed_rounds": play_delayed}


def steps_among(policy: Policy) -> dict[str, Any]:
    """Return the steps that `run_among` uses."""
    return {**kernels.steps_among(policy), "rounds_among": play_among}
