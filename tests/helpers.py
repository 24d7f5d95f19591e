"""What several tests need."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

import umab
from umab.engine.layout import layout_of
from umab.policies.base import Policy

Array = npt.NDArray[np.float64]

POLICIES: dict[str, Policy] = {name: umab.policy(name).for_horizon(1000) for name in umab.policies()}
"""Every registered policy, ready to run: a policy that is added is tested by every law without being named here."""


def legal(policy: Policy, losses: Array) -> Array:
    """Return the losses, folded into the range that the policy takes."""
    lowest, _ = policy.loss_range
    return np.abs(losses) if lowest == 0.0 else losses


def forced(policy: Policy, arms: Any, losses: Any, n_arms: int) -> Array:
    """Return the distributions of a compiled run in which the arms are given: row t is that of round t."""
    learner = umab.Learner(policy, n_arms)
    rows = [learner.probabilities()]
    for arm, loss in zip(arms, losses, strict=True):
        learner.update(int(arm), float(loss))
        rows.append(learner.probabilities())
    return np.array(rows)


def forced_interpreted(policy: Policy, arms: Any, losses: Any, n_arms: int) -> Array:
    """Return the same from plain Python."""
    state = policy.init(n_arms)
    rows = [list(state.probabilities)]
    for arm, loss in zip(arms, losses, strict=True):
        state = policy.update(state, int(arm), float(loss), state.probabilities[int(arm)])
        rows.append(list(state.probabilities))
    return np.array(rows)


def state_of(learner: umab.Learner) -> Any:
    """Return the state inside a learner, in plain Python."""
    return layout_of(learner.policy).unpack(learner._buffer)


def same_bits(first: Array, second: Array) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


def deaf(policy: Policy) -> Policy:
    """Return the policy with an update that does nothing, to show that a test of learning can fail."""
    base = type(policy)
    update = staticmethod(_ignore)
    return type("Deaf" + base.__name__, (base,), {"update": update})(  # type: ignore[no-any-return]
        **{field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    )


def _ignore(state: Any, arm: int, loss: float, probability: float) -> Any:
    return state
