"""Policies as machine code; the only module that knows about Numba.

The functions of a policy are compiled as they are in its file. Every function that can be reached from them is
registered with Numba here, so policies need no decorators, and `NUMBA_DISABLE_JIT=1` still runs everything in plain
Python.

Compiled code is kept in Numba's cache across processes. To see whether the cache is stale, Numba checks only the file
of the function that it compiles, here kernels.py. So the name under which the code is kept contains a digest of all
the code that was reached, and of the options here. A policy is compiled again when it, or a function or a constant that
it uses, was edited; editing a comment has no effect.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from umab.algorithms.base import Policy
from umab.engine import kernels, loops
from umab.engine.assembly import Assembly, hooks_for, steps_of
from umab.engine.fingerprint import digest_of, functions_in, with_functions
from umab.engine.layout import layout_of
from umab.maths.eligible import draw_among, drawn_among
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


class OnlineKernels(NamedTuple):
    """What a Learner calls, one decision at a time.

    If the policy has tickets, the last argument of both is an array for the ticket: `select` fills it in, and `update`
    reads it. If it has a coin, both are as `kernels.select_with_coin` and `kernels.take_in_with_coin`.
    """

    select: Callable[..., tuple[Any, ...]]
    """(buffer, n_arms, uniform, arm or −1 to draw one) → arm and its probability; changes the buffer"""
    update: Callable[..., None]
    """(buffer, n_arms, arm, loss, probability, whether to select the arm first); changes the buffer"""


def simulation_kernel(policy: Policy, kind: loops.Kind = "plain") -> Callable[..., None]:
    """Return the compiled loop over trials and rounds for policies of this type; arguments as in `loops.run`."""
    # Two trials in turns are twice as much to compile, and other kinds are seldom used.
    return compiled_loop(loops.run_in_pairs if kind == "plain" else loops.run, policy, kind)


def compiled_loop(template: Any, policy: Policy, kind: loops.Kind) -> Callable[..., None]:
    """Return a loop with the arguments of `loops.run`, compiled for policies of this type."""
    parts = {"uniform_of": loops.given_uniform, **hooks_for(policy, kind)}
    return _compile(template, signature_of(kind), policy, parts, steps_of(policy, kind))


@functools.cache
def signature_of(kind: loops.Kind) -> Any:
    """Return the types of the arguments of `loops.run`."""
    import numba.types as nb

    def given(n: int, of: Any = nb.float64) -> Any:
        return nb.Array(of, n, "C", readonly=True)

    def filled(n: int, of: Any = nb.float64) -> Any:
        return nb.Array(of, n, "C")

    advice = given(3) if kind == "rows" else given(2, nb.int64)
    table = given(2), given(2), given(2, nb.boolean), given(2), advice, nb.int64, nb.boolean
    rings = given(3, nb.int64), filled(2), filled(3, nb.int64), filled(3), filled(1)
    record = filled(2), filled(2), filled(2, nb.int32), filled(2, nb.int8)
    named = ((table, loops.Table), (rings, loops.Rings), (record, loops.Record))
    return nb.void(filled(2), given(2), *(nb.NamedTuple(types, made) for types, made in named))


@functools.cache
def drawing_kernel(with_rest: bool) -> Callable[..., tuple[Any, ...]]:
    """Return `umab.maths.eligible.draw_among`, compiled, or `drawn_among`."""
    import numba.types as nb

    given = functools.partial(nb.Array, ndim=1, layout="C", readonly=True)
    drawn = nb.Tuple((nb.int64, nb.float64, nb.int64, nb.float64, *[nb.float64] * with_rest))
    signature = drawn(given(nb.float64), given(nb.boolean), nb.float64, nb.float64)
    draws: Any = drawn_among if with_rest else draw_among
    return _compile_alone(draws, signature)


@functools.cache
def distributions_kernel() -> Callable[[Any, float], bool]:
    """Return `umab.maths.simplex.are_distributions`, compiled."""
    import numba.types as nb

    return _compile_alone(are_distributions, nb.boolean(nb.Array(nb.float64, 2, "C", readonly=True), nb.float64))


def _compile_alone(function: Any, signature: Any) -> Callable[..., Any]:
    """Return the machine code of a function that does not depend on a policy."""
    digest = digest_of((function,), repr(_OPTIONS_OF_KERNELS), repr(_OPTIONS_OF_PARTS))
    with _one_at_a_time:
        used = {name: _callable_when_compiled(value) for name, value in functions_in(function).items()}
        copied = with_functions(function, used)
        copied.__qualname__ = f"{function.__name__}.{digest[:20]}"
        return _machine_code(copied, signature, function.__name__)


def online_kernels(policy: Policy) -> OnlineKernels:
    """Return the compiled functions for one decision at a time, for policies of this type."""
    import numba.types as nb

    array, whole, number = nb.Array(nb.float64, 1, "C"), nb.int64, nb.float64
    of_select = array, whole, number, whole
    of_update = array, whole, whole, number, number, nb.boolean
    drawn = nb.Tuple((whole, number))
    if policy.coin is not None:
        flipped = nb.Tuple((whole, number, whole))
        return OnlineKernels(
            select=_compile(kernels.select_with_coin, flipped(*of_select, number, array), policy),
            update=_compile(kernels.take_in_with_coin, nb.void(*of_update, array, whole), policy),
        )
    if policy.ticket(1) is None:
        return OnlineKernels(
            select=_compile(kernels.select, drawn(*of_select), policy),
            update=_compile(kernels.take_in, nb.void(*of_update), policy),
        )
    return OnlineKernels(
        select=_compile(kernels.select_with_ticket, drawn(*of_select, array), policy),
        update=_compile(kernels.take_in_with_ticket, nb.void(*of_update, array), policy),
    )


class AdvisedKernels(NamedTuple):
    """What a Learner of a policy over experts calls; the last argument of each is an array for the ticket."""

    select: Callable[..., tuple[int, float]]
    """(buffer, n_arms, uniform, advice as experts × arms, ticket) → arm and its probability"""
    select_by_arms: Callable[..., tuple[int, float]]
    """the same, with an arm as the advice of each expert"""
    update: Callable[..., None]
    """as in `OnlineKernels`"""


def advised_kernels(policy: Any) -> AdvisedKernels:
    """Return the compiled functions for one decision at a time, for policies over experts of this type."""
    import numba.types as nb

    array, whole, number = nb.Array(nb.float64, 1, "C"), nb.int64, nb.float64
    drawn = nb.Tuple((whole, number))
    rows, arms = nb.Array(nb.float64, 2, "C", readonly=True), nb.Array(nb.int64, 1, "C", readonly=True)

    def selecting(advice: Any, kind: loops.Kind) -> Callable[..., Any]:
        signature = drawn(array, whole, number, advice, array)
        return _compile(kernels.select_advised, signature, policy, hooks_for(policy, kind))

    signature = nb.void(array, whole, whole, number, number, nb.boolean, array)
    return AdvisedKernels(
        select=selecting(rows, "rows"),
        select_by_arms=selecting(arms, "arms"),
        update=_compile(kernels.take_in_advised, signature, policy),
    )


def crediting_kernel(policy: Policy) -> Callable[..., None]:
    """Return the compiled function for a loss that goes to the account of another arm, for a policy with `credited`.

    Its arguments are those of `kernels.take_in_apart`.
    """
    import numba.types as nb

    array, whole, number = nb.Array(nb.float64, 1, "C"), nb.int64, nb.float64
    return _compile(kernels.take_in_apart, nb.void(array, whole, whole, number, number, whole, array, whole), policy)


def closing_kernel(policy: Policy) -> Callable[..., None]:
    """Return the compiled function for a draw that is closed without a loss; arguments as in `kernels.give_up`."""
    import numba.types as nb

    array, whole, number = nb.Array(nb.float64, 1, "C"), nb.int64, nb.float64
    return _compile(kernels.give_up, nb.void(array, whole, whole, number, array, whole), policy)


@functools.cache
def compiled_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the machine code of a function that is no part of a policy; it may allocate arrays and draw numbers."""
    import numba

    options = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except (RuntimeError, ImportError, AttributeError):  # there is no folder for the cache
        compiled = numba.njit(**options)(function)
    return compiled


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
    template: Any,
    signature: Any,
    policy: Policy,
    more_parts: Mapping[str, Any] | None = None,
    steps: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return the machine code of a kernel for policies of one type: from memory, the cache or the compiler.

    `more_parts` are functions that only this kernel calls, and `steps` its own steps, if it has any.
    """
    options = repr(_OPTIONS_OF_KERNELS), repr(_OPTIONS_OF_PARTS)
    steps = kernels.steps(policy) if steps is None else steps
    made_of = Assembly.of(template, policy, layout_of(policy), steps, more_parts or {}, *options)
    key = made_of.key
    if key not in _kernels:
        with _one_at_a_time:
            if key not in _kernels:
                function = FunctionType(template.__code__, made_of.names(_callable_when_compiled), template.__name__)
                function.__qualname__ = f"{template.__name__}.{type(policy).__name__}.{made_of.digest[:20]}"
                _kernels[key] = _machine_code(function, signature, f"the update of {type(policy).__name__}")
    return _kernels[key]


_kernels: dict[Any, Callable[..., Any]] = {}
_one_at_a_time = threading.RLock()
"""Held while something is compiled; what is compiled already waits for nobody."""


def _machine_code(function: FunctionType, signature: Any, what: str) -> Callable[..., Any]:
    import numba

    compiled: Callable[..., Any]
    try:
        try:
            compiled = numba.njit([signature], cache=True, **_OPTIONS_OF_KERNELS)(function)
        except (RuntimeError, ImportError, AttributeError):
            # There is no folder for the cache, or it refers to a module that this process cannot import.
            compiled = numba.njit([signature], **_OPTIONS_OF_KERNELS)(function)
    except numba.errors.NumbaError as error:
        raise TypeError(
            f"{what} cannot be compiled (the compiler's reason is above); "
            "the rules for it are in umab/algorithms/base.py, and umab.testing.check_policy runs it without compiling"
        ) from error
    return compiled


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
