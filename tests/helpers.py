"""What several tests need."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import dis
import functools
import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

import umab
from umab.algorithms.base import Policy
from umab.engine.layout import layout_of
from umab.testing import Array

PATIENCE = 180.0
"""After so many seconds something has failed, however busy the machine is. What works takes a fraction of one."""

PACKAGE = f"{Path(umab.__file__).parent}/"
"""Where the files of umab are."""

POLICIES: dict[str, Policy] = {name: umab.policy(name).for_horizon(1000) for name in umab.policies()}
"""Every registered policy, ready to run: a policy that is added is tested by every law without being named here."""


def twins(*arguments: Any, **options: Any) -> tuple[umab.Learner, umab.Learner]:
    """Return a learner and a copy of it: the same draws to come, with the same ids."""
    learner = umab.Learner(*arguments, **options)
    return learner, copy.copy(learner)


def state_of(learner: umab.Learner) -> Any:
    """Return the state inside a learner, in plain Python."""
    return layout_of(learner.policy).unpack(learner._core.buffer)


def without_times(learner: umab.Learner) -> dict[str, Any]:
    """Return all that is saved of a learner but when its open choices were drawn."""
    saved = json.loads(learner.to_json())
    del saved["open"]["time"]
    return saved  # type: ignore[no-any-return]


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


def some_mask(rng: np.random.Generator, n_rounds: int, n_arms: int) -> npt.NDArray[np.bool_]:
    """Return a mask with rounds of all kinds: with all arms, with one, and with some."""
    mask = rng.random((n_rounds, n_arms)) < rng.choice([0.1, 0.5, 0.9, 1.0], size=(n_rounds, 1))
    mask[np.arange(n_rounds), rng.integers(n_arms, size=n_rounds)] = True
    return mask


def at_moment(number: int, act: Callable[[], None], work: Callable[[], None]) -> bool:
    """Work, and act at one of the moments at which Python looks for signals; say whether there were so many moments.

    These are where a function begins, after a call, and where a loop turns back. Only umab's own files count: any
    path may have "umab" in it, because the project was cloned there. The garbage collector rests meanwhile, since what
    is raised in a callback of another library is swallowed.
    """
    moments = 0
    looks = ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
    before: dict[Any, str] = {}

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal moments
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            opcode = names(frame.f_code)[frame.f_lasti]
            if before.get(frame) in looks:
                moments += 1
                if moments == number:
                    sys.settrace(None)
                    act()
                    sys.settrace(trace)
            before[frame] = opcode
        return trace

    with traced(trace):
        work()
    return moments >= number


@contextlib.contextmanager
def traced(trace: Callable[..., Any]) -> Iterator[None]:
    """Trace what is done in this block, without the garbage collector, whose callbacks would be traced too."""
    previous, collecting = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)
        if collecting:
            gc.enable()


@functools.cache
def names(code: CodeType) -> dict[int, str]:
    """Return the names of the instructions of a function by their places."""
    return {step.offset: step.opname for step in dis.get_instructions(code)}
