"""What a kernel of a policy is made of, whatever compiles it: functions for its open names, and a digest of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from umab.algorithms.base import Policy
from umab.engine import kernels, loops
from umab.engine.buffers import buffer_functions
from umab.engine.fingerprint import digest_of, functions_in, text_of
from umab.engine.layout import Layout
from umab.maths.simplex import rest_of


class Assembly(NamedTuple):
    """The functions of a kernel, by the open names that they replace."""

    template: Any
    parts: dict[str, Any]
    """Functions without open names."""
    steps: Mapping[str, FunctionType]
    """They call the parts and the steps before them."""
    digest: str
    """Of all that they compute."""
    key: tuple[Any, ...]
    """What code that was compiled from them can be found by."""

    @classmethod
    def of(
        cls,
        template: Any,
        policy: Policy,
        layout: Layout,
        steps: Mapping[str, Any],
        more_parts: Mapping[str, Any],
        *beside: str,
    ) -> Assembly:
        """Return what the kernel of a policy is made of; `beside` says what else its code depends on."""
        hooks = kernels.hooks(policy)
        parts: dict[str, Any] = {}
        for step in (*steps.values(), template):
            parts |= functions_in(step)
        parts |= {**buffer_functions(layout), **hooks, **more_parts}
        parts = {name: part for name, part in parts.items() if name not in steps}
        # The names in the steps are still open, so only the code of the steps themselves counts here.
        made_of_them = repr({name: text_of(step.__code__) for name, step in steps.items()})
        digest = digest_of(tuple(parts.values()), made_of_them, text_of(template.__code__), *beside)
        # Two classes may have the same code, as their update or as a State; machine code is made for one type.
        types = [record.types for record in (layout.parameters, layout.state, layout.ticket) if record is not None]
        return cls(template, parts, steps, digest, (template, digest, *hooks.values(), *types))

    def names(
        self,
        convert: Callable[[Any], Any],
        instead: Mapping[str, Any] | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return all names, filled in with functions as `convert` makes them.

        `instead` has other parts, and `beside` names of the template and the steps that are no functions.
        """
        names = {**vars(kernels), **vars(loops), **self.template.__globals__, **(beside or {})}
        names |= {name: convert(part) for name, part in {**self.parts, **(instead or {})}.items()}
        for name, step in self.steps.items():
            names[name] = convert(FunctionType(step.__code__, names, step.__name__))
        return names


def steps_of(policy: Policy, kind: loops.Kind) -> dict[str, Any]:
    """Return the steps of a simulation of this kind, each after the steps that it calls."""
    pick, charge, wait = loops.KINDS[kind]
    found = kernels.steps(policy, apart=kind == "among")
    found["left"], found["keep_coin"] = (
        (loops.nothing_left, loops.keep_no_coin) if policy.coin is None else (rest_of, loops.keep_each_coin)
    )
    found["advise"] = loops.advise_rounds if kind in ("rows", "arms") else loops.without_advice
    found |= {"pick": pick, "charge": charge}
    if wait is not loops.learn_at_once:
        found["due"] = loops.learn_due
    return {**found, "wait": wait, "play": loops.play_round, "play_trial": loops.play_trial}


def hooks_for(policy: Any, kind: loops.Kind) -> dict[str, Any]:
    """Return the hooks of a policy over experts that take arms as advice, if this kind has that."""
    return {"advised": policy.advised_arms, "remember": policy.remember_arms} if kind == "arms" else {}
