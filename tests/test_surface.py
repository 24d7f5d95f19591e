"""The public surface: every public name with its signature, in tests/surface.txt, so that a change to it is seen.

`python tests/test_surface.py` writes the file anew.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SURFACE = Path(__file__).parent / "surface.txt"

MODULES = (
    "umab",
    "umab.adapters.gymnasium",
    "umab.adapters.prometheus",
    "umab.adapters.river",
    "umab.adapters.sklearn",
    "umab.client",
    "umab.client.openfeature",
    "umab.datasets",
    "umab.engine.interpreted",
    "umab.errors",
    "umab.offpolicy",
    "umab.simplex",
    "umab.numerics",
    "umab.testing",
    "umab.theory",
)
"""What users and authors of policies import from: `umab` and what its documentation names besides."""


def lines() -> list[str]:
    """Return the surface, a line for each name."""
    found: list[str] = []
    for name in MODULES:
        module = importlib.import_module(name)
        own = getattr(module, "__all__", None)
        public = own or [each for each, value in vars(module).items() if defined_in(module, each, value)]
        for each in sorted(public):
            found += described(f"{name}.{each}", getattr(module, each))
    return found


def defined_in(module: Any, name: str, value: Any) -> bool:
    """Whether a name is public and comes from this module, or is a constant of it."""
    if name.startswith("_") or inspect.ismodule(value):
        return False
    return getattr(value, "__module__", module.__name__) == module.__name__ and name not in ("annotations",)


def described(name: str, value: Any) -> Iterator[str]:
    """Yield a line for a function or a constant, and one for each public member of a class."""
    if not inspect.isclass(value):
        yield f"{name}{signature(value)}"
        return
    yield f"{name}{signature(value)}"
    if dataclasses.is_dataclass(value) and name.startswith("umab.") and value.__name__ not in BASES:
        return  # what policies have beside their parameters is that of their base
    own = [each for each in value.__mro__ if each.__module__.startswith("umab")]
    members = {each: member for kind in reversed(own) for each, member in vars(kind).items()}
    for each, member in sorted(members.items()):
        if not each.startswith("_"):
            kind = "property" if isinstance(member, property) or not callable(getattr(value, each)) else ""
            yield f"{name}.{each}{' ' + kind if kind else signature(getattr(value, each))}"


BASES = ("Policy", "Wrapper", "Result", "Losses", "Comparison")


def signature(value: Any) -> str:
    """Return the signature of what can be called, in one line; nothing for other values."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return ""
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    # Versions of Python differ in how they write an annotation that is not evaluated.
    return re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text).replace("'", "")


def test_the_public_surface_is_as_written_down() -> None:
    assert lines() == SURFACE.read_text().splitlines(), "if that is meant: python tests/test_surface.py, and CHANGELOG"


def test_the_surface_has_what_people_call() -> None:
    text = SURFACE.read_text()
    for name in ("umab.Learner.select(", "umab.simulate(", "umab.Wrapper(", "umab.UMABS(", "umab.offpolicy.estimate("):
        assert f"\n{name}" in text, name


if __name__ == "__main__":
    SURFACE.write_text("\n".join(lines()) + "\n")
