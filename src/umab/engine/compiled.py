"""Policies as machine code; the only module that knows about Numba.

The functions of a policy are compiled as they are in its file. Every function that can be reached from them is
registered with Numba here, so policies need no decorators, and `NUMBA_DISABLE_JIT=1` still runs everything in plain
Python.

Compiled code is kept in Numba's cache across processes. To see whether the cache is stale, Numba checks only the file
of the function that it compiles, here loops.py. So the name under which the code is kept contains a digest of all
the code that was reached, and of the options here. A policy is compiled again when it, or a function or a constant that
it uses, was edited; editing a comment has no effect.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.engine import loops
from umab.engine.assembly import Assembly, Functions, hooks_of
from umab.engine.fingerprint import digest_of, functions_in, with_functions
from umab.engine.layout import Buffer
from umab.maths.eligible import drawn_among
from umab.maths.simplex import are_distributions

_OPTIONS_OF_KERNELS = {
    "nogil": True,
    # x/0 gives inf instead of raising: policies never divide by 0, so the check would only cost time.
    "error_model": "numpy",
    # No reference counts for vectors inside the loop. They are views of a buffer that the caller holds, and nothing is
    # allocated, so there is nothing to count; counting would double the time of a round with two arms.
    "_nrt": False,
}
# Inlining everything makes the generic loop as fast as one that is written out by hand.
_OPTIONS_OF_PARTS = {"forceinline": True}

Select = Callable[..., tuple[Any, ...]]
Update = Callable[..., None]


def simulation_kernel(policy: Policy, kind: loops.Kind = "plain") -> Callable[..., None]:
    """Return the compiled loop over trials and rounds for policies of this type; arguments as in `loops.run`."""
    # Two trials in turns are twice as much to compile, and other kinds are seldom used.
    return compiled_loop(loops.run_in_pairs if kind == "plain" else loops.run, policy, kind)


def compiled_loop(template: Callable[..., None], policy: Policy, kind: loops.Kind) -> Callable[..., None]:
    """Return a loop with the arguments of `loops.run`, compiled for policies of this type."""
    return _compile(template, signature_of(kind), policy, kind, parts={"uniform_of": loops.given_uniform})


@functools.cache
def signature_of(kind: loops.Kind) -> tuple[Any, ...]:
    """Return the types of the arguments of `loops.run`."""
    import numba

    buffers = np.zeros((1, 1))
    advice = np.zeros((1, 1, 1)) if kind == "rows" else None
    table = loops.Table.of(buffers, buffers, buffers, advice=advice)
    rings = loops.Rings.of(1, np.zeros(1), np.zeros((1, 1, 1), dtype=np.int64))
    uniforms = table.losses  # an array that is only read, too
    return tuple(map(numba.typeof, (buffers, uniforms, table, rings, loops.Record.of(buffers, 1))))


@functools.cache
def drawing_kernel() -> Callable[..., tuple[int, float, int, float, float]]:
    """Return `umab.maths.eligible.drawn_among`, compiled."""
    import numba.types as nb

    p, eligible = (nb.Array(each, 1, "C", readonly=True) for each in (nb.float64, nb.boolean))
    return _compile_alone(drawn_among, (p, eligible, nb.float64, nb.float64))


@functools.cache
def distributions_kernel() -> Callable[[npt.NDArray[np.float64], float], bool]:
    """Return `umab.maths.simplex.are_distributions`, compiled."""
    import numba.types as nb

    return _compile_alone(are_distributions, (nb.Array(nb.float64, 2, "C", readonly=True), nb.float64))


def _compile_alone(function: Any, signature: object) -> Callable[..., Any]:
    """Return the machine code of a function that does not depend on a policy."""
    digest = digest_of((function,), repr(_OPTIONS_OF_KERNELS), repr(_OPTIONS_OF_PARTS))
    with _one_at_a_time:
        used = {name: _callable_when_compiled(value) for name, value in functions_in(function).items()}
        copied = with_functions(function, used)
        copied.__qualname__ = f"{function.__name__}.{digest[:20]}"
        return _machine_code(copied, signature, function.__name__)


def _typed(template: Callable[..., object], **others: object) -> tuple[object, ...]:
    """Return the types that the annotations of a kernel state, or others for some of its arguments."""
    import numba.types as nb

    known = {int: nb.int64, float: nb.float64, bool: nb.boolean, Buffer: nb.Array(nb.float64, 1, "C")}
    hints = get_type_hints(template)
    del hints["return"]
    return tuple(others.get(name) or known[hint] for name, hint in hints.items())


def online_kernels(policy: Policy) -> tuple[Select, Update]:
    """Return what a Learner calls, one decision at a time, compiled for policies of this type.

    It is `loops.select` and `loops.take_in`, or the same that end in `noted` if the policy has tickets or a coin.
    """
    plain = policy.coin is None and policy.ticket(1) is None
    both = (loops.select, loops.take_in) if plain else (loops.select_noted, loops.take_in_noted)
    select, update = (kernel_of(each, policy) for each in both)
    return select, update


def kernel_of(template: Callable[..., Any], policy: Policy) -> Callable[..., Any]:
    """Return a kernel for one decision, such as `loops.take_in_apart`, compiled for policies of this type."""
    return _compile(template, _typed(template), policy)


def advised_kernels(policy: Policy) -> tuple[Select, Select, Update]:
    """Return what a Learner of a policy over experts calls, compiled for policies of this type.

    It is `loops.select_advised`, for advice as rows of probabilities and as arms, and `loops.take_in_noted`.
    """
    import numba.types as nb

    def selecting(advice: object, kind: loops.Kind) -> Select:
        types = _typed(loops.select_advised, advice=advice)
        return _compile(loops.select_advised, types, policy, parts=hooks_of(policy, kind))

    by_rows = selecting(nb.Array(nb.float64, 2, "C", readonly=True), "rows")
    by_arms = selecting(nb.Array(nb.int64, 1, "C", readonly=True), "arms")
    # Without advice nothing can be selected first, so that there is nothing to note.
    steps, types = {"note": loops.note_draw}, _typed(loops.take_in_noted)
    return by_rows, by_arms, _compile(loops.take_in_noted, types, policy, steps=steps)


@functools.cache
def compiled_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the machine code of a function that is no part of a policy; it may allocate arrays and draw numbers."""
    import numba

    return with_cache(lambda **cache: numba.njit(nogil=True, error_model="numpy", **cache)(function))


def with_cache(compile_it: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    """Call a function that compiles, with Numba's cache if there is one."""
    try:
        return compile_it(cache=True)
    except (RuntimeError, ImportError, AttributeError):
        # There is no folder for the cache, or it refers to a module that this process cannot import.
        return compile_it()


def compiler_version() -> str:
    """Return the version of Numba."""
    import numba

    return str(numba.__version__)


@contextlib.contextmanager
def when_compiling(call: Callable[[], None]) -> Iterator[None]:
    """Call a function when the compiler is first needed in this block, and not if the cache has all that runs."""
    from numba.core import event

    class Once(event.Listener):  # type: ignore[misc]
        called = False

        def on_start(self, _: object) -> None:
            if not self.called:
                self.called = True
                call()

        def on_end(self, _: object) -> None:
            pass

    with event.install_listener("numba:compile", Once()):
        yield


def _compile(
    template: Callable[..., Any],
    signature: object,
    policy: Policy,
    kind: loops.Kind | None = None,
    **more: Functions,
) -> Callable[..., Any]:
    """Return the machine code of a kernel for policies of one type: from memory, the cache or the compiler."""
    options = repr(_OPTIONS_OF_KERNELS), repr(_OPTIONS_OF_PARTS)
    made_of = Assembly.of(template, policy, kind, *options, **more)
    key = made_of.key
    if key not in _kernels:
        with _one_at_a_time:
            if key not in _kernels:
                function = made_of.function(_callable_when_compiled)
                _kernels[key] = _machine_code(function, signature, f"the update of {type(policy).__name__}")
    return _kernels[key]


_kernels: dict[tuple[object, ...], Callable[..., Any]] = {}
_one_at_a_time = threading.RLock()
"""Held while something is compiled; what is compiled already waits for nobody."""


def _machine_code(function: FunctionType, signature: object, what: str) -> Callable[..., Any]:
    import numba

    try:
        return with_cache(lambda **cache: numba.njit([signature], **cache, **_OPTIONS_OF_KERNELS)(function))
    except numba.errors.NumbaError as error:
        raise TypeError(
            f"{what} cannot be compiled (the compiler's reason is above); "
            "the rules for it are in umab/algorithms/base.py, and umab.testing.check_policy runs it without compiling"
        ) from error


def _callable_when_compiled(function: FunctionType) -> FunctionType:
    """Register a function, and all that it calls, with Numba; return the function that compiled code should call.

    That is the function itself, unless something that it uses has changed since it was registered, as happens in a
    notebook. Numba would continue to use the old code, so a copy takes the place of the function.
    """
    from numba.extending import register_jitable

    digest = digest_of((function,))
    if (function, digest) in _known:
        return _known[function, digest]
    used = functions_in(function)
    fresh = {name: _callable_when_compiled(value) for name, value in used.items()}
    told = function
    if function in _told or any(fresh[name] is not used[name] for name in used):
        told = with_functions(function, fresh)
    register_jitable(**_OPTIONS_OF_PARTS)(told)
    _told.add(told)
    _known[function, digest] = told
    return told


_told: set[FunctionType] = set()
_known: dict[tuple[FunctionType, str], FunctionType] = {}
