"""Policies as they are written to saved files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umab.algorithms.base import Policy
from umab.algorithms.registry import DEEPEST, look_up, nearest
from umab.algorithms.wrapper import Wrapper, own_parameters


def described(policy: Policy) -> dict[str, object]:
    """Return a policy in a form that fits JSON: its name, all its parameters, and the policy inside, if any.

    Default values are included, since defaults may change.
    """
    about: dict[str, object] = {"name": nearest(policy)[0], "parameters": own_parameters(policy)}
    if isinstance(policy, Wrapper):
        about["inner"] = described(policy.policy)
    return about


def from_description(about: object, depth: int = 0) -> Policy:
    """Return the policy that `described` turned into `about`; it must be registered."""
    if depth > DEEPEST:
        raise ValueError(f"a saved policy must be inside at most {DEEPEST} others, but got more")
    if not isinstance(about, Mapping) or not isinstance(about.get("parameters"), Mapping):
        raise ValueError(f"a saved policy must have a name and parameters, but got {repr(about)[:200]}")
    found = look_up(about.get("name"), str(about.get("name")), False)
    if ("inner" in about) != isinstance(found, type):
        raise ValueError(f"a saved policy must have a policy inside if and only if it is a wrapper, but got {about!r}")
    if isinstance(found, type):
        make: Any = found
        return make(from_description(about["inner"], depth + 1), **about["parameters"])  # type: ignore[no-any-return]
    return type(found)(**about["parameters"])
