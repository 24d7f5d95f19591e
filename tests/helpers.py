"""What several tests need."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import umab
from umab.algorithms.base import Policy
from umab.engine.layout import layout_of
from umab.testing import Array

POLICIES: dict[str, Policy] = {name: umab.policy(name).for_horizon(1000) for name in umab.policies()}
"""Every registered policy, ready to run: a policy that is added is tested by every law without being named here."""


def state_of(learner: umab.Learner) -> Any:
    """Return the state inside a learner, in plain Python."""
    return layout_of(learner.policy).unpack(learner._core.buffer)


def without_times(learner: umab.Learner) -> dict[str, Any]:
    """Return all that is saved of a learner but when its open choices were drawn."""
    saved = json.loads(learner.to_json())
    return {**saved, "outstanding": [each[:-1] for each in saved["outstanding"]]}


def same_bits(first: Array, second: Array) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


def deaf(policy: Policy) -> Policy:
    """Return the policy with an update that does nothing, to show that a test of learning can fail."""
    base = type(policy)
    update = (
        {"update_full": staticmethod(_ignore_all)} if policy.full_information else {"update": staticmethod(_ignore)}
    )
    return type("Deaf" + base.__name__, (base,), update)(  # type: ignore[no-any-return]
        **{field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    )


def _ignore(parameters: Any, state: Any, arm: int, loss: float, probability: float, *ticket: Any) -> Any:
    return state


def _ignore_all(parameters: Any, state: Any, losses: Any) -> Any:
    return state
