"""Policies as machine code; the only module that knows about Numba.

The functions of a policy are compiled as they stand in its file. Numba is told of each function that can be reached
from them, so policies carry no decorators, and `NUMBA_DISABLE_JIT=1` still runs everything in plain Python.

Compiled code is kept in Numba's cache across processes. To see whether the cache is stale, Numba looks only at the file
of the function that it compiles, here this one; so a digest of all the code that was reached is a part of the key.
Editing a policy, or a function or a constant that it uses, compiles it anew; editing a comment does not.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import math
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from umab.engine.layout import Layout, layout_of
from umab.policies.base import Policy
from umab.simplex import draw

_OPTIONS = {
    "nogil": True,
    # x/0 gives inf instead of raising: policies never divide by 0, so the check would only cost time.
    "error_model": "numpy",
    # No reference counts for vectors inside the loop. They are views of a buffer that the caller holds, and nothing is
    # allocated, so there is nothing to count; counting would double the time of a round of two arms.
    "_nrt": False,
}


class OnlineKernels(NamedTuple):
    """What a Learner calls, one decision at a time."""

    select: Callable[..., tuple[int, float]]
    """(buffer, n_arms, uniform) → arm and its probability"""
    update: Callable[..., None]
    """(buffer, n_arms, arm, loss, probability), changes the buffer"""


def simulation_kernel(policy: Policy) -> Callable[..., None]:
    """Return the compiled loop over trials and rounds for policies of this type."""
    return _simulation_kernel(type(policy), layout_of(policy))


def online_kernels(policy: Policy) -> OnlineKernels:
    """Return the compiled functions for one decision at a time, for policies of this type."""
    return _online_kernels(type(policy), layout_of(policy))


def compiler_version() -> str:
    """Return the version of Numba."""
    import numba

    return str(numba.__version__)


@functools.cache
def _simulation_kernel(policy_type: type[Policy], layout: Layout) -> Callable[..., None]:
    update, load, store, digest = _prepare(policy_type, layout)

    def run(
        buffers: Any,
        uniforms: Any,
        losses: Any,
        costs: Any,
        best: Any,
        expected: bool,
        totals: Any,
        regret: Any,
        arms: Any,
    ) -> None:
        """Play some rounds of some trials; `buffers` and `totals` carry on to the next call.

        A row of `buffers`, `uniforms`, `regret` and `arms` and an entry of `totals` belong to a trial; a row of
        `losses` (what the policy sees) and `costs` (what the regret counts) and an entry of `best` (what the best arm
        has cost so far) belong to a round.
        """
        digest  # noqa: B018  (makes it a part of the key of the cache)
        n_rounds, n_arms = losses.shape
        for trial in range(buffers.shape[0]):
            state = load(buffers[trial], n_arms)
            total = totals[trial]
            for t in range(n_rounds):
                arm = draw(state.probabilities, uniforms[trial, t])
                if expected:
                    for k in range(n_arms):
                        total += state.probabilities[k] * costs[t, k]
                else:
                    total += costs[t, arm]
                arms[trial, t] = arm
                regret[trial, t] = total - best[t]
                state = update(state, arm, losses[t, arm], state.probabilities[arm])
            totals[trial] = total
            store(state, buffers[trial])

    import numba.types as nb

    given = functools.partial(nb.Array, nb.float64, layout="C", readonly=True)
    filled = functools.partial(nb.Array, nb.float64, layout="C")
    signature = nb.void(
        filled(2),  # buffers
        given(2),  # uniforms
        given(2),  # losses
        given(2),  # costs
        given(1),  # best
        nb.boolean,  # expected
        filled(1),  # totals
        filled(2),  # regret
        nb.Array(nb.int32, 2, "C"),  # arms
    )
    return _compile(run, signature)


@functools.cache
def _online_kernels(policy_type: type[Policy], layout: Layout) -> OnlineKernels:
    policy_update, load, store, digest = _prepare(policy_type, layout)

    def select(buffer: Any, n_arms: int, uniform: float) -> tuple[int, float]:
        digest  # noqa: B018
        probabilities = load(buffer, n_arms).probabilities
        arm = draw(probabilities, uniform)
        return arm, probabilities[arm]

    def update(buffer: Any, n_arms: int, arm: int, loss: float, probability: float) -> None:
        digest  # noqa: B018
        store(policy_update(load(buffer, n_arms), arm, loss, probability), buffer)

    return OnlineKernels(
        select=_compile(select, "Tuple((int64, float64))(float64[::1], int64, float64)"),
        update=_compile(update, "void(float64[::1], int64, int64, float64, float64)"),
    )


def _compile(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    import numba

    try:
        compiled = numba.njit([signature], cache=True, **_OPTIONS)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        compiled = numba.njit([signature], **_OPTIONS)(function)  # no folder to write to: compile in every process
    return compiled  # type: ignore[no-any-return]


def _prepare(policy_type: type[Policy], layout: Layout) -> tuple[Any, Any, Any, str]:
    """Return what the kernels of a policy are made of: its update, from buffer to state and back, and the digest."""
    from numba.extending import register_jitable

    load, store = _buffer_functions(layout)
    update = policy_type.update
    functions = _reachable([update, draw, load, store])
    for function in functions:
        if function not in _registered:
            register_jitable(forceinline=True)(function)
            _registered.add(function)
    digest = hashlib.sha256()
    for function in functions:
        for piece in _fingerprint(function):
            digest.update(repr(piece).encode() + b"\0")
    return update, load, store, digest.hexdigest()


_registered: set[FunctionType] = set()


def _buffer_functions(layout: Layout) -> tuple[Any, Any]:
    """Return functions that make a state of a buffer (vectors are views of it) and put its scalars back.

    They are written out as text because a NamedTuple can be built in compiled code only with its fields spelled out.
    """
    n_scalars = len(layout.scalars)
    fields = [f"{name}=buffer[{at}]" for at, name in enumerate(layout.scalars)]
    for at, name in enumerate(layout.vectors):
        fields.append(f"{name}=buffer[{n_scalars} + {at} * n_arms : {n_scalars} + {at + 1} * n_arms]")
    stores = [f"    buffer[{at}] = state.{name}" for at, name in enumerate(layout.scalars)]
    text = "\n".join(
        [
            "def load(buffer, n_arms):",
            f"    return State({', '.join(fields)})",
            "def store(state, buffer):",
            *(stores or ["    pass"]),
        ]
    )
    names: dict[str, Any] = {"State": layout.state_type, "__name__": __name__}
    exec(compile(text, f"<buffer of {layout.state_type.__qualname__}>", "exec"), names)
    return names["load"], names["store"]


def _reachable(functions: list[Any]) -> list[FunctionType]:
    """Return these functions and all that they call, each once, in the order in which they are met."""
    met: dict[FunctionType, None] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop(0)
        if function not in met:
            met[function] = None
            waiting.extend(value for _, value in _references(function) if isinstance(value, FunctionType))
    return list(met)


def _fingerprint(function: FunctionType) -> Iterator[Any]:
    """Yield all on which the machine code of a function depends, except the functions that it calls."""
    yield function.__qualname__, function.__defaults__, function.__kwdefaults__
    yield from _code_fingerprint(function.__code__)
    for name, value in _references(function):
        if isinstance(value, (bool, int, float, str)):
            yield name, value
        elif isinstance(value, FunctionType):
            yield name, value.__module__, value.__qualname__
        elif value is math:
            yield name, "math"
        elif isinstance(value, type) and hasattr(value, "_fields"):
            yield name, value._fields
        else:
            raise TypeError(
                "what a policy computes may use math, numbers, NamedTuples and plain functions, imported by name, but "
                f"{function.__module__}.{function.__qualname__} uses {name}={value!r}"
            )


def _code_fingerprint(code: CodeType) -> Iterator[Any]:
    yield code.co_code, code.co_names, code.co_varnames
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_fingerprint(constant)
        else:
            yield constant


def _references(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global and enclosing names that a function uses, with what they stand for; not the built-ins."""
    cells = function.__closure__ or ()
    yield from zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True)
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: CodeType) -> set[str]:
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names
