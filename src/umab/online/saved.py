"""The saved form of a learner: its parts are written as JSON, and checked when they are read.

A file may come from anywhere, and compiled code trusts the sizes and indices that it is given.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np

from umab._support.checks import shown
from umab.algorithms.base import Policy
from umab.algorithms.descriptions import described, from_description
from umab.engine.layout import Buffer, Layout, check_distribution
from umab.online.choice import Label, labels_of

FORMAT = "umab.Learner"


def read_text(text: str) -> dict[str, Any]:
    """Return the content of a saved learner."""
    try:
        saved = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a saved learner must be complete JSON: {error}") from None
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise ValueError(f"a saved learner must be JSON with format={FORMAT!r}, but got {text[:60]!r}")
    return saved


def read_policy(about: Any, given: Policy | None) -> Policy:
    """Return the policy that was saved: a registered one, or `given` if it has the same parameters."""
    if given is None:
        try:
            return from_description(about)
        except ValueError as error:
            raise ValueError(
                f"{error}; if the policy is not registered, pass it: Learner.load(path, policy=...)"
            ) from None
    with contextlib.suppress(ValueError):  # it need not be registered
        known = from_description(about)
        if type(known) is not type(given):
            raise TypeError(f"policy must be the one that was saved, {about!r}, but got policy={shown(given)}")
        about = described(known)  # with the parameters of today
    saved, passed = _all_parameters(about), _all_parameters(described(given))
    if saved != passed:
        raise ValueError(f"policy must be the one that was saved, {about!r}, but got policy={shown(given)}")
    return given


def _all_parameters(about: Any) -> list[Any]:
    """Return the parameters in the description of a policy, and in the descriptions of the policies inside."""
    inner = about.get("inner")
    as_saved = json.loads(json.dumps(about["parameters"], default=repr))
    return [as_saved, *([] if inner is None else _all_parameters(inner))]


def read_labels(saved: Any) -> tuple[Label, ...]:
    """Return the labels of the arms."""
    if not isinstance(saved, list):
        raise TypeError(f"arms must be a list of labels, but got {shown(saved)}")
    return labels_of(saved)


def read_state(policy: Policy, layout: Layout, state: Any, n_arms: int) -> Buffer:
    """Return the buffer of a saved state."""
    record = layout.state
    if set(state) != set(record.names):
        raise ValueError(f"the state has the fields {sorted(state)}, not {sorted(record.names)}")
    if any(len(state[name]) != n_arms for name in (*record.vectors, *record.rows)):
        raise ValueError("a vector of the state does not have one number for each arm")
    buffer = layout.sized(layout.pack_fields(policy.parameters_for(n_arms), state), n_arms)
    if not np.isfinite(buffer).all():
        raise ValueError("the state holds a value that is not finite")
    check_distribution(policy, layout.probabilities(buffer))
    return buffer
