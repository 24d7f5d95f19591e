"""Policies as machine code; the only module that knows about Numba.

The functions of a policy are compiled as they stand in its file. Numba is told of each function that can be reached
from them, so policies carry no decorators, and `NUMBA_DISABLE_JIT=1` still runs everything in plain Python.

Compiled code is kept in Numba's cache across processes. To see whether the cache is stale, Numba looks only at the file
of the function that it compiles, here this one; so a digest of all the code that was reached is a part of the name
under which it is kept. Editing a policy, or a function or a constant that it uses, compiles it anew; editing a comment
does not.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from umab.algorithms.base import Policy
from umab.engine.layout import Layout, layout_of
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
    """(buffer, n_arms, uniform, arm or −1 to draw one) → arm and its probability; changes the buffer"""
    update: Callable[..., None]
    """(buffer, n_arms, arm, loss, probability, whether it was not selected before); changes the buffer"""


def simulation_kernel(policy: Policy) -> Callable[..., None]:
    """Return the compiled loop over trials and rounds for policies of this type; see `_run` for its arguments."""
    import numba.types as nb

    return _compile(_run, nb.void(*_common_arguments()), policy)


def delayed_simulation_kernel(policy: Policy) -> Callable[..., None]:
    """Return the same for late feedback; see `_run_delayed` for its arguments."""
    import numba.types as nb

    integers = functools.partial(nb.Array, nb.int64, layout="C")
    more = nb.int64, integers(2, readonly=True), nb.Array(nb.float64, 2, "C"), integers(3)
    return _compile(_run_delayed, nb.void(*_common_arguments(), *more), policy)


def _common_arguments() -> tuple[Any, ...]:
    import numba.types as nb

    given = functools.partial(nb.Array, nb.float64, layout="C", readonly=True)
    filled = functools.partial(nb.Array, nb.float64, layout="C")
    arms, totals, expected, best = nb.Array(nb.int32, 2, "C"), filled(1), nb.boolean, given(1)
    return filled(2), given(2), given(2), given(2), best, expected, totals, filled(2), arms


def online_kernels(policy: Policy) -> OnlineKernels:
    """Return the compiled functions for one decision at a time, for policies of this type."""
    return OnlineKernels(
        select=_compile(_select, "Tuple((int64, float64))(float64[::1], int64, float64, int64)", policy),
        update=_compile(_take_in, "void(float64[::1], int64, int64, float64, float64, boolean)", policy),
    )


def compiler_version() -> str:
    """Return the version of Numba."""
    import numba

    return str(numba.__version__)


# The kernels. They are compiled once for every type of policy, with its functions in place of these names.
update: Any = None  # the update of the policy,
update_full: Any = None  # or that of a policy with full information
selected: Any = None  # what the policy notes when an arm is drawn
distribution: Any = None  # the probabilities in a state, as a tuple: without reference counts no vector can be returned
load: Any = None  # from a buffer to a state whose vectors are views of it
store: Any = None  # the scalars of a state back to its buffer
learn: Any = None  # `_learn` or `_learn_full`
play: Any = None  # `_play`


def _learn(state: Any, arm: int, losses: Any, t: int, probability: float) -> Any:
    return update(state, arm, losses[t, arm], probability)


def _learn_full(state: Any, arm: int, losses: Any, t: int, probability: float) -> Any:
    return update_full(state, losses[t])


def _run(
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

    A row of `buffers`, `uniforms`, `regret` and `arms` and an entry of `totals` belong to a trial; a row of `losses`
    (what the policy sees) and `costs` (what the regret counts) and an entry of `best` (what the best arm has cost so
    far) belong to a round.
    """
    n_rounds, n_arms = losses.shape
    n_trials = buffers.shape[0]
    # Two trials take turns, round by round. A round is a chain of divisions and roots that wait for each other; while
    # those of one trial wait, the processor works on the other, which has nothing to do with it.
    for trial in range(0, n_trials, 2):
        paired = trial + 1 < n_trials
        beside = trial + 1 if paired else trial
        state, other = load(buffers[trial], n_arms), load(buffers[beside], n_arms)
        total, other_total = totals[trial], totals[beside]
        for t in range(n_rounds):
            arm, total, state = play(state, uniforms[trial, t], losses, costs, t, expected, total)
            arms[trial, t] = arm
            regret[trial, t] = total - best[t]
            if paired:
                arm, other_total, other = play(other, uniforms[beside, t], losses, costs, t, expected, other_total)
                arms[beside, t] = arm
                regret[beside, t] = other_total - best[t]
        totals[trial] = total
        store(state, buffers[trial])
        if paired:
            totals[beside] = other_total
            store(other, buffers[beside])


def _play(
    state: Any, uniform: float, losses: Any, costs: Any, t: int, expected: bool, total: float
) -> tuple[int, float, Any]:
    """Play a round; return the arm, the total with its cost, and the next state."""
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    total = charge(total, probabilities, costs, t, arm, expected)
    probability = probabilities[arm]
    return arm, total, learn(selected(state, arm), arm, losses, t, probability)


def _run_delayed(
    buffers: Any,
    uniforms: Any,
    losses: Any,
    costs: Any,
    best: Any,
    expected: bool,
    totals: Any,
    regret: Any,
    arms: Any,
    first: int,
    delays: Any,
    open_probabilities: Any,
    links: Any,
) -> None:
    """Play some rounds of some trials, from round `first` on, with late feedback.

    As `_run`, but `losses` has all rounds, and a row of `delays` belongs to a trial and has its delays for these
    rounds. What is open is kept in rings of `size` places, more than the longest delay, that carry on to the next call:
    round s has place s modulo size, with the probability of its draw in `open_probabilities`. The rounds that fall due
    together are a list: `links` has, for each place, the arm drawn there, the next round of the same list, and the
    first and the last round of the list that falls due when that place comes up (−1 for none).
    """
    n_arms = losses.shape[1]
    size = links.shape[2]
    for trial in range(buffers.shape[0]):
        state = load(buffers[trial], n_arms)
        total = totals[trial]
        for t in range(uniforms.shape[1]):
            (probabilities,) = distribution(state)
            arm = draw(probabilities, uniforms[trial, t])
            total = charge(total, probabilities, costs, t, arm, expected)
            arms[trial, t] = arm
            regret[trial, t] = total - best[t]
            now = first + t
            place = now % size
            open_probabilities[trial, place] = probabilities[arm]
            state = selected(state, arm)
            links[trial, 0, place] = arm
            links[trial, 1, place] = -1
            due = (now + delays[trial, t]) % size
            if links[trial, 2, due] < 0:
                links[trial, 2, due] = now
            else:
                links[trial, 1, links[trial, 3, due] % size] = now
            links[trial, 3, due] = now
            s = links[trial, 2, place]
            links[trial, 2, place] = -1
            while s >= 0:
                state = learn(state, links[trial, 0, s % size], losses, s, open_probabilities[trial, s % size])
                s = links[trial, 1, s % size]
        totals[trial] = total
        store(state, buffers[trial])


def charge(total: float, probabilities: Any, costs: Any, t: int, arm: int, expected: bool) -> float:
    """Return the total with the cost of a round added: that of the arm, or the expected one."""
    if expected:
        for k in range(len(probabilities)):
            total += probabilities[k] * costs[t, k]
    else:
        total += costs[t, arm]
    return total


def _select(buffer: Any, n_arms: int, uniform: float, arm: int) -> tuple[int, float]:
    state = load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(selected(state, arm), buffer)
    return arm, probability


def _take_in(buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool) -> None:
    state = load(buffer, n_arms)
    if select_first:
        state = selected(state, arm)
    store(update(state, arm, loss, probability), buffer)


def _compile(template: Any, signature: Any, policy: Policy) -> Callable[..., Any]:
    """Return the machine code of a kernel for policies of one type: from memory, the cache or the compiler."""
    layout = layout_of(policy)
    parts: dict[str, Any] = {"draw": draw, "charge": charge}
    parts |= zip(("load", "store", "distribution"), _buffer_functions(layout), strict=True)
    hooks = ["selected", "update_full" if policy.full_information else "update"]
    for name in hooks:
        if not isinstance(inspect.getattr_static(policy, name), staticmethod):
            raise TypeError(f"{name} must be a static method, but that of {type(policy).__name__} is not")
        parts[name] = getattr(policy, name)
    digest = _digest(tuple(parts.values()))
    # The same code may stand in two classes, as their update or as a State; the machine code knows the types.
    key = (template, digest, *(parts[name] for name in hooks), layout.states)
    if key not in _kernels:
        names = {**globals(), **{name: _callable_when_compiled(part) for name, part in parts.items()}}
        for name, part in (("learn", _learn_full if policy.full_information else _learn), ("play", _play)):
            names[name] = _callable_when_compiled(FunctionType(part.__code__, names, part.__name__))
        function = FunctionType(template.__code__, names, template.__name__)
        function.__qualname__ = f"{template.__name__}.{type(policy).__name__}.{digest[:20]}"
        _kernels[key] = _machine_code(function, signature, policy)
    return _kernels[key]


_kernels: dict[Any, Callable[..., Any]] = {}


def _machine_code(function: FunctionType, signature: Any, policy: Policy) -> Callable[..., Any]:
    import numba

    compiled: Callable[..., Any]
    try:
        try:
            compiled = numba.njit([signature], cache=True, **_OPTIONS)(function)
        except (RuntimeError, ImportError, AttributeError):
            # There is no folder for the cache, or what is in it stands in a module that this process cannot import.
            compiled = numba.njit([signature], **_OPTIONS)(function)
    except numba.errors.NumbaError as error:
        raise TypeError(
            f"the update of {type(policy).__name__} cannot be compiled (the compiler's reason is above); "
            "the rules for it are in umab/algorithms/base.py, and umab.testing.check_policy runs it without compiling"
        ) from error
    return compiled


def _callable_when_compiled(function: FunctionType) -> FunctionType:
    """Tell Numba of a function and of all that it calls; return the function that compiled code is to call.

    That is the function itself, except when something that it uses was changed since Numba was told, as happens
    in a notebook. Numba would go on with the old code, so a copy takes the place of the function.
    """
    from numba.extending import register_jitable

    digest = _digest((function,))
    if (function, digest) in _known:
        return _known[function, digest]
    used = {name: value for name, value in _references(function) if isinstance(value, FunctionType)}
    fresh = {name: _callable_when_compiled(value) for name, value in used.items()}
    told = function
    if function in _told or any(fresh[name] is not used[name] for name in used):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closure = tuple(CellType(fresh[name]) if name in fresh else cell for name, cell in cells)
        names = {**function.__globals__, **fresh}
        told = FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)
    # Inlining everything makes the generic loop as fast as one that is written out by hand.
    register_jitable(forceinline=True)(told)
    _told.add(told)
    _known[function, digest] = told
    return told


_told: set[FunctionType] = set()
_known: dict[tuple[FunctionType, str], FunctionType] = {}


@functools.cache
def _buffer_functions(layout: Layout) -> tuple[FunctionType, ...]:
    """Return functions that make a state of a buffer (vectors are views of it), put its scalars back, and find p'.

    They are written out as text because a NamedTuple can be built in compiled code only with its fields spelled out.
    """
    n_scalars = len(layout.scalars)
    texts = {name: f"buffer[{at}]" for at, name in enumerate(layout.scalars)}
    for at, name in enumerate(layout.vectors):
        texts[name] = f"buffer[{n_scalars} + {at} * n_arms : {n_scalars} + {at + 1} * n_arms]"
    called = {state_type: f"State{at}" for at, (_, state_type) in enumerate(layout.states)}
    built = layout.combined(
        texts, lambda state_type, parts: f"{called[state_type]}({', '.join(f'{k}={v}' for k, v in parts.items())})"
    )
    stores = [f"    buffer[{at}] = state.{name}" for at, name in enumerate(layout.scalars)]
    text = "\n".join(
        [
            "def load(buffer, n_arms):",
            f"    return {built}",
            "def store(state, buffer):",
            *(stores or ["    pass"]),
            "def distribution(state):",
            f"    return (state.{layout.distribution},)",
        ]
    )
    names: dict[str, Any] = {"__name__": __name__, **{name: state_type for state_type, name in called.items()}}
    exec(compile(text, f"<buffer of {layout.states[0][1].__qualname__}>", "exec"), names)
    return names["load"], names["store"], names["distribution"]


def _digest(functions: tuple[FunctionType, ...]) -> str:
    """Return a digest of all on which the machine code of these functions depends."""
    met = list(functions)
    for function in met:  # grows while it is walked
        for _, value in _references(function):
            if isinstance(value, FunctionType) and value not in met:
                met.append(value)
    digest = hashlib.sha256()
    for function in met:
        for piece in _fingerprint(function, met):
            digest.update(repr(piece).encode() + b"\0")
    return digest.hexdigest()


def _fingerprint(function: FunctionType, met: list[FunctionType]) -> Iterator[Any]:
    """Yield what a function is, with a place in `met` for each function that it calls."""
    yield function.__defaults__, function.__kwdefaults__
    yield _text_and_names(function.__code__)[0]
    for name, value in _references(function):
        if type(value) in (bool, int, float, str):
            yield name, value
        elif isinstance(value, FunctionType):
            yield name, met.index(value)
        elif value is math:
            yield name, "math"
        elif isinstance(value, type) and hasattr(value, "_fields"):
            yield name, value.__qualname__, value._fields
        else:
            raise TypeError(
                "what a policy computes may use math, numbers, NamedTuples and plain functions, imported by name, but "
                f"{function.__module__}.{function.__qualname__} uses {name}={value!r}"
            )


def _references(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global and enclosing names that a function uses, with what they stand for; not the built-ins."""
    cells = function.__closure__ or ()
    yield from zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True)
    for name in _text_and_names(function.__code__)[1]:
        if name in function.__globals__:
            yield name, function.__globals__[name]


@functools.cache
def _text_and_names(code: CodeType) -> tuple[str, list[str]]:
    """Return a text that says all that the code does, and the global names in it. Nothing here ever changes."""
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    pieces = [repr((code.co_code, code.co_names, code.co_varnames))]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            text, inner_names = _text_and_names(constant)
            pieces.append(text)
            names.update(inner_names)
        else:
            pieces.append(repr(constant))
    return "\0".join(pieces), sorted(names)
