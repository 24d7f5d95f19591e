"""Checks for authors of policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from umab._support.checks import LARGEST
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.engine import loops
from umab.engine.compiled import simulation_kernel
from umab.engine.interpreted import play, select
from umab.engine.layout import blank_ticket, check_distribution, layout_of
from umab.engine.streams import stream
from umab.online.learner import Learner

Array = npt.NDArray[np.float64]

EXTREMES = np.array([1e308, 5e-324, -1e308, -5e-324, 0.0, 1.0, -1.0, 1e-308, 1e154, -1e-154, LARGEST])
"""Finite losses that break careless arithmetic."""


def check_policy(policy: Policy | str) -> None:
    """Raise if a policy breaks the contract of `umab.algorithms.base`.

    The policy is run in plain Python first, where an error such as an index out of range has a traceback, and then
    compiled, where it must do the same to the last bit. It gets everyday losses and extreme ones, with few arms and
    many, and must keep a distribution with positive probabilities.

    Examples
    --------
    >>> from umab.testing import check_policy
    >>> check_policy("umab-g-a:rate=4")
    """
    policy = as_policy(policy).for_horizon(200)
    random = np.random.default_rng(0)
    for n_arms in (1, 2, 3, 10, 70):
        for losses in (
            random.normal(size=(200, n_arms)),
            1e-3 * random.standard_cauchy((200, n_arms)),
            random.choice(EXTREMES, (200, n_arms)),
        ):
            table = legal_losses(policy, losses)
            for t, round in enumerate(play(policy, table), start=1):
                try:
                    check_distribution(policy, np.array(round.state.probabilities))
                except ArithmeticError as error:
                    what, _, _ = str(error).partition(";")
                    raise ArithmeticError(
                        f"{what} after round {t} with {n_arms} arms: arm {round.arm} was drawn with probability "
                        f"{round.probability!r} and cost {float(table[t - 1, round.arm])!r}"
                    ) from None
                _check_pauses(policy, round.state, t)
            if not policy.full_information:
                more = policy.resized(round.state, [*range(n_arms), None])
                check_distribution(policy, np.array(more.probabilities))
                _check_pauses(policy, more, 200)
            *_, late = play(policy, table, delays=5)
            for delay, interpreted in ((None, round.state), (5, late.state)):
                compiled = compiled_state(policy, table, delay=delay)
                if compiled != interpreted:
                    raise AssertionError(
                        f"compiled code and plain Python must agree to the last bit, but for {policy.name} they differ "
                        f"after 200 rounds with {n_arms} arms and delay={delay}: {compiled} and {interpreted}"
                    )
            if not policy.full_information:
                arms = random.integers(n_arms, size=200)
                for row in forced_interpreted(policy, arms, table[np.arange(200), arms], n_arms):
                    check_distribution(policy, row)


def _check_pauses(policy: Policy, state: Any, n_learned: int) -> None:
    """Raise if the pauses that a policy reads from a state cannot be, after so many losses."""
    pauses = policy.pauses(state)
    arms = [each.arm for each in pauses]
    if arms != [arm for arm in range(len(state.probabilities)) if arm in arms]:
        raise AssertionError(f"pauses must be of arms that are there, each once, in order, but got {pauses}")
    if not all(1 <= each.round <= n_learned and each.probe_in >= 0 for each in pauses):
        raise AssertionError(
            f"pauses must begin in rounds 1 to {n_learned}, with a probe in 0 or more, but got {pauses}"
        )


def compiled_state(policy: Policy, losses: Array, *, seed: int = 0, delay: int | None = None) -> Any:
    """Return the state in which trial 0 of a simulation ends, as compiled code leaves it."""
    layout, (n_rounds, n_arms) = layout_of(policy), losses.shape
    buffers = layout.start(policy, n_arms).reshape(1, -1)
    late = np.full((1, n_rounds, 1), delay or 0)
    rings = loops.Rings.of(1, blank_ticket(policy, layout, n_arms), late)
    uniforms = np.random.Generator(stream(seed, 0)).random((1, n_rounds))
    table = loops.Table.of(losses, losses, np.zeros(n_rounds))
    record = loops.Record.of(np.zeros((1, 1)), n_rounds, coins=policy.coin is not None)
    simulation_kernel(policy, "plain" if delay is None else "late")(buffers, uniforms, table, rings, record)
    return layout.unpack(buffers[0])


def legal_losses(policy: Policy, losses: Array) -> Array:
    """Return the losses, folded into the range that the policy accepts."""
    lowest, highest = policy.loss_range
    if lowest > -LARGEST and highest < LARGEST:
        return np.asarray(lowest + (highest - lowest) * np.modf(np.abs(losses))[0])
    if lowest > -LARGEST:
        return np.asarray(lowest + np.abs(losses))
    return losses if highest == LARGEST else np.asarray(highest - np.abs(losses))


def forced(policy: Policy, arms: Iterable[int], losses: Iterable[float], n_arms: int) -> Array:
    """Return the distributions of a compiled run in which the arms are given, one row per round."""
    learner = Learner(policy, n_arms)
    rows = [learner.probabilities()]
    for arm, loss in zip(arms, losses, strict=True):
        learner.update(int(arm), float(loss))
        rows.append(learner.probabilities())
    return np.array(rows)


def forced_interpreted(policy: Policy, arms: Iterable[int], losses: Iterable[float], n_arms: int) -> Array:
    """Return the same as `forced`, from plain Python."""
    parameters, state = policy.parameters_for(n_arms), policy.init(n_arms)
    rows = [list(state.probabilities)]
    for arm, loss in zip(arms, losses, strict=True):
        probability = state.probabilities[int(arm)]
        state, ticket = select(policy, parameters, state, int(arm))
        coin = () if policy.coin is None else (-1,)
        state = policy.update(parameters, state, int(arm), float(loss), probability, *ticket, *coin)
        rows.append(list(state.probabilities))
    return np.array(rows)
