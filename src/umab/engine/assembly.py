"""What a kernel of a policy is made of, whatever compiles it: functions for its open names, and a digest of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from umab.algorithms.base import Policy
from umab.engine import loops
from umab.engine.buffers import buffer_functions
from umab.engine.fingerprint import digest_of, functions_in, text_of
from umab.engine.layout import layout_of

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
        cls,
        template: Any,
        policy: Policy,
        kind: loops.Kind | None,
        *beside: str,
        parts: Functions | None = None,
        steps: Functions | None = None,
    ) -> Assembly:
        """Return what the kernel of a policy is made of, for a kind of simulation or for one decision at a time.

        `parts` and `steps` are beside those that all such kernels have, or in place of them; `beside` says what else
        its code depends on.
        """
        layout, hooks = layout_of(policy), hooks_of(policy, kind)
        steps = {**steps_of(policy, kind), **(steps or {})}
        used: dict[str, Any] = {}
        for step in (*steps.values(), template):
            used |= functions_in(step)
        used |= {**buffer_functions(layout), **hooks, **(parts or {})}
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
        names = {**vars(loops), **self.template.__globals__, **beside}
        names |= {name: convert(part) for name, part in self.parts.items()}
        for name, step in self.steps.items():
            names[name] = convert(FunctionType(step.__code__, names, step.__name__))
        found = FunctionType(self.template.__code__, names, self.template.__name__)
        found.__qualname__ = self.name
        return found


def hooks_of(policy: Any, kind: loops.Kind | None = None) -> dict[str, FunctionType]:
    """Return the functions of a policy that are compiled, by the open names that they replace."""
    names = ["selected", "update_full" if policy.full_information else "update"]
    names += ["advised"] * policy.takes_advice
    names += ["remember"] * (policy.ticket(1) is not None)
    names += [name for name in ("credited", "closed", "coin") if getattr(policy, name) is not None]
    if "coin" in names and (policy.full_information or policy.takes_advice):
        raise TypeError(
            f"a policy with a coin must learn from one arm, without advice, but got {type(policy).__name__}"
        )
    found = {name: getattr(policy, name) for name in names}
    if kind == "arms":
        found |= {"advised": policy.advised_arms, "remember": policy.remember_arms}
    for name, hook in found.items():
        if not isinstance(hook, FunctionType):
            raise TypeError(f"{name} must be a static method, but {type(policy).__name__}.{name} is not")
    return found


def steps_of(policy: Policy, kind: loops.Kind | None) -> dict[str, Any]:
    """Return the steps of a simulation, or of one decision at a time, each after the steps that it calls."""
    has_ticket, has_coin = policy.ticket(1) is not None, policy.coin is not None
    alone = loops.coin_told if has_coin else loops.nothing_told
    with_ticket = loops.both_told if has_coin else loops.ticket_told
    # Only where arms are away may a loss go to the account of another arm.
    apart = kind == "among" and policy.credited is not None
    learns = loops.learn_loss_apart if apart else loops.learn_loss
    found: dict[str, Any] = {
        "told": with_ticket if has_ticket else alone,
        "flip": loops.flip_coin if has_coin else loops.no_coin,
        "note": loops.note_in_ticket if has_ticket else loops.note_draw,
        "learn": loops.learn_all_losses if policy.full_information else learns,
        "close": loops.close_nothing if policy.closed is None else loops.close_draw,
    }
    if kind is None:
        return found
    pick, cost_of, charge, wait = loops.KINDS[kind]
    found["heed"] = loops.heed_experts if policy.takes_advice else loops.heed_nobody
    found |= {"draw_any": loops.draw_any, "pick": pick, "cost_of": cost_of, "charge": charge}
    found |= {"learn_due": loops.learn_due, "wait": wait}
    return {**found, "play_round": loops.play_round, "play_trial": loops.play_trial}
