"""What a kernel of a policy is made of, whatever compiles it: functions for its open names, and a digest of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from umab.algorithms.base import Policy
from umab.engine import kernels, loops
from umab.engine.buffers import buffer_functions
from umab.engine.fingerprint import digest_of, text_of
from umab.engine.layout import Layout
from umab.maths.simplex import draw


class Assembly(NamedTuple):
    """The functions of a kernel, by the open names that they replace."""

    parts: dict[str, Any]
    steps: Mapping[str, Any]
    """They call the parts and the steps before them."""
    digest: str
    """Of all that they compute."""
    key: tuple[Any, ...]
    """What code that was compiled from them can be found by."""

    @classmethod
    def of(
        cls, policy: Policy, layout: Layout, steps: Mapping[str, Any], more_parts: Mapping[str, Any], *beside: str
    ) -> Assembly:
        """Return what the kernel of a policy is made of; `beside` says what else its code depends on."""
        hooks = kernels.hooks(policy)
        parts: dict[str, Any] = {"draw": draw, "charge": kernels.charge, **buffer_functions(layout), **hooks}
        parts |= more_parts
        # The names in the steps are still open, so only the code of the steps themselves counts here.
        made_of_them = repr({name: text_of(step.__code__) for name, step in steps.items()})
        digest = digest_of(tuple(parts.values()), made_of_them, *beside)
        # Two classes may have the same code, as their update or as a State; machine code is made for one type.
        types = [record.types for record in (layout.parameters, layout.state, layout.ticket) if record is not None]
        return cls(parts, steps, digest, (digest, *hooks.values(), *types))

    def names(self, convert: Callable[[Any], Any], instead: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return all names, filled in with functions as `convert` makes them; `instead` has other parts."""
        names = {**vars(kernels), **vars(loops)}
        names |= {name: convert(part) for name, part in {**self.parts, **(instead or {})}.items()}
        for name, step in self.steps.items():
            names[name] = convert(FunctionType(step.__code__, names, step.__name__))
        return names
