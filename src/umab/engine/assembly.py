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

Functions = Mapping[str, Any]
"""Functions as they are in their files, by the open names that they replace."""


class Assembly(NamedTuple):
    """The functions of a kernel."""

    template: Any
    parts: Functions
    """Functions without open names."""
    steps: Functions
    """They call the parts and the steps before them."""
    name: str
    """That of the template and of the policy, and a digest of all that the functions compute."""
    key: tuple[object, ...]
    """What code that was compiled from them can be found by."""

    @classmethod
    def of(
        cls, template: Any, policy: Policy, layout: Layout, steps: Functions, parts: Functions, *beside: str
    ) -> Assembly:
        """Return what the kernel of a policy is made of; `beside` says what else its code depends on.

        `parts` are beside those of the policy and its layout, or in place of them.
        """
        hooks = kernels.hooks(policy)
        used: dict[str, Any] = {}
        for step in (*steps.values(), template):
            used |= functions_in(step)
        used |= {**buffer_functions(layout), **hooks, **parts}
        used = {name: part for name, part in used.items() if name not in steps}
        # The names in the steps are still open, so only the code of the steps themselves counts here.
        made_of_them = repr({name: text_of(step.__code__) for name, step in steps.items()})
        digest = digest_of(tuple(used.values()), made_of_them, text_of(template.__code__), *beside)
        # Two classes may have the same code, as their update or as a State; machine code is made for one type.
        types = [record.types for record in (layout.parameters, layout.state, layout.ticket) if record is not None]
        name = f"{template.__name__}.{type(policy).__name__}.{digest[:20]}"
        return cls(template, used, steps, name, (template, digest, *hooks.values(), *types))

    def function(self, convert: Callable[[FunctionType], Any], **beside: object) -> FunctionType:
        """Return the kernel, with all its names filled in with functions as `convert` makes them.

        `beside` has other names of the template and the steps, which are no functions.
        """
        names = {**vars(kernels), **vars(loops), **self.template.__globals__, **beside}
        names |= {name: convert(part) for name, part in self.parts.items()}
        for name, step in self.steps.items():
            names[name] = convert(FunctionType(step.__code__, names, step.__name__))
        found = FunctionType(self.template.__code__, names, self.template.__name__)
        found.__qualname__ = self.name
        return found


def steps_of(policy: Policy, kind: loops.Kind) -> dict[str, Any]:
    """Return the steps of a simulation of this kind, each after the steps that it calls."""
    pick, charge, wait = loops.KINDS[kind]
    found = kernels.steps(policy, apart=kind == "among")
    if policy.takes_advice:
        found["advice_of"] = loops.advice_of_round
    else:
        found |= {"advice_of": loops.no_advice, "advised": loops.unadvised}
    found["keep_coin"] = loops.keep_no_coin if policy.coin is None else loops.keep_each_coin
    found |= {"draw_any": loops.draw_any, "pick": pick, "charge": charge, "due": loops.learn_due, "wait": wait}
    return {**found, "play": loops.play_round, "play_trial": loops.play_trial}


def hooks_for(policy: Any, kind: loops.Kind) -> dict[str, FunctionType]:
    """Return the hooks of a policy over experts that take arms as advice, if this kind has that."""
    return {"advised": policy.advised_arms, "remember": policy.remember_arms} if kind == "arms" else {}
