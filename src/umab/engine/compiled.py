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
import math
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from umab.algorithms.base import Policy
from umab.engine.layout import Layout, Record, layout_of
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
    """What a Learner calls, one decision at a time.

    Those of a policy with tickets have an array for the ticket as their last argument: `select` fills it in, and
    `update` reads it.
    """

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
    return filled(2), filled(3), given(2), given(2), given(2), best, expected, totals, filled(2), arms


def online_kernels(policy: Policy) -> OnlineKernels:
    """Return the compiled functions for one decision at a time, for policies of this type."""
    import numba.types as nb

    array, whole, number = nb.Array(nb.float64, 1, "C"), nb.int64, nb.float64
    of_select = array, whole, number, whole
    of_update = array, whole, whole, number, number, nb.boolean
    drawn = nb.Tuple((whole, number))
    if policy.ticket(1) is None:
        return OnlineKernels(
            select=_compile(_select, drawn(*of_select), policy),
            update=_compile(_take_in, nb.void(*of_update), policy),
        )
    return OnlineKernels(
        select=_compile(_select_with_ticket, drawn(*of_select, array), policy),
        update=_compile(_take_in_with_ticket, nb.void(*of_update, array), policy),
    )


def compiler_version() -> str:
    """Return the version of Numba."""
    import numba

    return str(numba.__version__)


# The kernels. They are compiled once for every type of policy, with its functions in place of these names.
update: Any = None  # the update of the policy,
update_full: Any = None  # or that of a policy with full information
selected: Any = None  # what the policy notes when an arm is drawn
remember: Any = None  # what it puts into a ticket then
distribution: Any = None  # the probabilities in a state, as a tuple: without reference counts no vector can be returned
load_parameters: Any = None  # from a buffer to the parameters
load: Any = None  # from a buffer to a state whose vectors are views of it
store: Any = None  # the scalars of a state back to its buffer
load_ticket: Any = None  # the same two for tickets
store_ticket: Any = None
note: Any = None  # `_note` or `_note_with_ticket`
learn: Any = None  # `_learn` or one of its kin
play: Any = None  # `_play`


# What differs between policies. `room` is where the ticket of a draw is, of a policy that has tickets, and `blank` is
# what is in it before.


def _note(parameters: Any, state: Any, arm: int, room: Any, blank: Any) -> Any:
    """Note that an arm was drawn."""
    return selected(parameters, state, arm)


def _note_with_ticket(parameters: Any, state: Any, arm: int, room: Any, blank: Any) -> Any:
    (probabilities,) = distribution(state)
    for at in range(len(room)):
        room[at] = blank[at]
    store_ticket(remember(parameters, state, arm, load_ticket(room, len(probabilities))), room)
    return selected(parameters, state, arm)


def _learn(parameters: Any, state: Any, arm: int, losses: Any, t: int, probability: float, room: Any) -> Any:
    """Learn from the loss of an arm in round `t`."""
    return update(parameters, state, arm, losses[t, arm], probability)


def _learn_with_ticket(
    parameters: Any, state: Any, arm: int, losses: Any, t: int, probability: float, room: Any
) -> Any:
    (probabilities,) = distribution(state)
    return update(parameters, state, arm, losses[t, arm], probability, load_ticket(room, len(probabilities)))


def _learn_full(parameters: Any, state: Any, arm: int, losses: Any, t: int, probability: float, room: Any) -> Any:
    return update_full(parameters, state, losses[t])


def _run(
    buffers: Any,
    rooms: Any,
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
    far) belong to a round. `rooms` has two places for each trial: for the ticket of a draw, and a blank one. A buffer
    has the parameters of its trial, so trials may differ in these.
    """
    n_rounds, n_arms = losses.shape
    n_trials = buffers.shape[0]
    # Two trials take turns, round by round. A round is a chain of divisions and roots that wait for each other; while
    # those of one trial wait, the processor works on the other, which has nothing to do with it.
    for trial in range(0, n_trials, 2):
        paired = trial + 1 < n_trials
        beside = trial + 1 if paired else trial
        given, other_given = load_parameters(buffers[trial]), load_parameters(buffers[beside])
        state, other = load(buffers[trial], n_arms), load(buffers[beside], n_arms)
        room, other_room, blank = rooms[trial, 0], rooms[beside, 0], rooms[trial, 1]
        total, other_total = totals[trial], totals[beside]
        for t in range(n_rounds):
            arm, total, state = play(given, state, uniforms[trial, t], losses, costs, t, expected, total, room, blank)
            arms[trial, t] = arm
            regret[trial, t] = total - best[t]
            if paired:
                arm, other_total, other = play(
                    other_given, other, uniforms[beside, t], losses, costs, t, expected, other_total, other_room, blank
                )
                arms[beside, t] = arm
                regret[beside, t] = other_total - best[t]
        totals[trial] = total
        store(state, buffers[trial])
        if paired:
            totals[beside] = other_total
            store(other, buffers[beside])


def _play(
    parameters: Any,
    state: Any,
    uniform: float,
    losses: Any,
    costs: Any,
    t: int,
    expected: bool,
    total: float,
    room: Any,
    blank: Any,
) -> tuple[int, float, Any]:
    """Play a round; return the arm, the total with its cost, and the next state."""
    (probabilities,) = distribution(state)
    arm = draw(probabilities, uniform)
    total = charge(total, probabilities, costs, t, arm, expected)
    probability = probabilities[arm]
    state = note(parameters, state, arm, room, blank)
    return arm, total, learn(parameters, state, arm, losses, t, probability, room)


def _run_delayed(
    buffers: Any,
    rooms: Any,
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
    round s has place s modulo size, with the probability of its draw in `open_probabilities` and its ticket in `rooms`,
    whose last place is a blank one.
    The rounds that fall due together are a list: `links` has, for each place, the arm drawn there, the next round of
    the same list, and the first and the last round of the list that falls due when that place comes up (−1 for none).
    """
    n_arms = losses.shape[1]
    size = links.shape[2]
    for trial in range(buffers.shape[0]):
        parameters = load_parameters(buffers[trial])
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
            state = note(parameters, state, arm, rooms[trial, place], rooms[trial, size])
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
                at = s % size
                arm, probability = links[trial, 0, at], open_probabilities[trial, at]
                state = learn(parameters, state, arm, losses, s, probability, rooms[trial, at])
                s = links[trial, 1, at]
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
    store(selected(load_parameters(buffer), state, arm), buffer)
    return arm, probability


def _select_with_ticket(buffer: Any, n_arms: int, uniform: float, arm: int, room: Any) -> tuple[int, float]:
    state = load(buffer, n_arms)
    (probabilities,) = distribution(state)
    if arm < 0:
        arm = draw(probabilities, uniform)
    probability = probabilities[arm]
    store(note(load_parameters(buffer), state, arm, room, room), buffer)
    return arm, probability


def _take_in(buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool) -> None:
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = selected(parameters, state, arm)
    store(update(parameters, state, arm, loss, probability), buffer)


def _take_in_with_ticket(
    buffer: Any, n_arms: int, arm: int, loss: float, probability: float, select_first: bool, room: Any
) -> None:
    parameters, state = load_parameters(buffer), load(buffer, n_arms)
    if select_first:
        state = note(parameters, state, arm, room, room)
    store(update(parameters, state, arm, loss, probability, load_ticket(room, n_arms)), buffer)


def _compile(template: Any, signature: Any, policy: Policy) -> Callable[..., Any]:
    """Return the machine code of a kernel for policies of one type: from memory, the cache or the compiler."""
    layout = layout_of(policy)
    parts: dict[str, Any] = {"draw": draw, "charge": charge, **_buffer_functions(layout)}
    hooks = _hooks(policy)
    parts |= hooks
    digest = _digest(tuple(parts.values()))
    # The same code may stand in two classes, as their update or as a State; the machine code knows the types.
    types = [record.types for record in (layout.parameters, layout.state, layout.ticket) if record is not None]
    key = (template, digest, *hooks.values(), *types)
    if key not in _kernels:
        names = {**globals(), **{name: _callable_when_compiled(part) for name, part in parts.items()}}
        for name, part in _steps(policy).items():
            names[name] = _callable_when_compiled(FunctionType(part.__code__, names, part.__name__))
        function = FunctionType(template.__code__, names, template.__name__)
        function.__qualname__ = f"{template.__name__}.{type(policy).__name__}.{digest[:20]}"
        _kernels[key] = _machine_code(function, signature, policy)
    return _kernels[key]


_kernels: dict[Any, Callable[..., Any]] = {}


def _hooks(policy: Policy) -> dict[str, FunctionType]:
    """Return the functions of a policy that are compiled, by name."""
    names = ["selected", "update_full" if policy.full_information else "update"]
    names += [] if policy.ticket(1) is None else ["remember"]
    hooks = {name: getattr(policy, name) for name in names}
    for name, hook in hooks.items():
        if not isinstance(hook, FunctionType):
            raise TypeError(f"{name} must be a static method, but that of {type(policy).__name__} is not")
    return hooks


def _steps(policy: Policy) -> dict[str, Any]:
    """Return what the kernels of a policy are put together from, each after those that it calls."""
    if policy.full_information:
        return {"note": _note, "learn": _learn_full, "play": _play}
    if policy.ticket(1) is None:
        return {"note": _note, "learn": _learn, "play": _play}
    return {"note": _note_with_ticket, "learn": _learn_with_ticket, "play": _play}


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
def _buffer_functions(layout: Layout) -> dict[str, FunctionType]:
    """Return functions that make parameters, a state and a ticket of arrays, put scalars back, and find p'.

    They are written out as text because a NamedTuple can be built in compiled code only with its fields spelled out.
    """
    first = layout.first_of_state
    texts = [
        *_loading("load_parameters(array)", "Parameters", layout.parameters, 0),
        *_loading("load(array, n_arms)", "State", layout.state, first),
        *_storing("store", layout.state, first),
        "def distribution(state):",
        f"    return (state.{layout.distribution},)",
    ]
    records = {"Parameters": layout.parameters, "State": layout.state}
    if layout.ticket is not None:
        texts += _loading("load_ticket(array, n_arms)", "Ticket", layout.ticket, 0)
        texts += _storing("store_ticket", layout.ticket, 0)
        records["Ticket"] = layout.ticket
    names: dict[str, Any] = {"__name__": __name__}
    for what, record in records.items():
        names |= {f"{what}{at}": kind for at, (_, kind) in enumerate(record.types)}
    exec(compile("\n".join(texts), f"<arrays of {layout.state.types[0][1].__qualname__}>", "exec"), names)
    return {name: value for name, value in names.items() if isinstance(value, FunctionType)}


def _loading(head: str, what: str, record: Record, first: int) -> list[str]:
    """Return the text of a function that makes a NamedTuple of an array, in which it begins at `first`."""
    lines = [f"def {head}:"]
    lines += [f"    size{k} = int(array[{first + k}])" for k in range(len(record.sizes))]
    texts = {each: f"array[{first + len(record.sizes) + k}]" for k, each in enumerate(record.scalars)}
    vectors = first + record.first_vector
    for k, each in enumerate(record.vectors):
        texts[each] = f"array[{vectors} + {k} * n_arms : {vectors} + {k + 1} * n_arms]"
    start = f"{vectors} + {len(record.vectors)} * n_arms"
    for k, each in enumerate((*record.rows, *record.fixed)):
        is_rows = k < len(record.rows)
        lines.append(f"    start{k} = {start}")
        lines.append(f"    stop{k} = start{k} + size{k}{' * n_arms' if is_rows else ''}")
        texts[each] = f"array[start{k} : stop{k}]{f'.reshape((n_arms, size{k}))' if is_rows else ''}"
        start = f"stop{k}"
    called = {kind: f"{what}{at}" for at, (_, kind) in enumerate(record.types)}
    built = record.combined(
        texts, lambda kind, parts: f"{called[kind]}({', '.join(f'{key}={text}' for key, text in parts.items())})"
    )
    return [*lines, f"    return {built}"]


def _storing(name: str, record: Record, first: int) -> list[str]:
    """Return the text of a function that puts the scalars of a NamedTuple into its array."""
    at = first + len(record.sizes)
    stores = [f"    array[{at + k}] = value.{each}" for k, each in enumerate(record.scalars)]
    return [f"def {name}(value, array):", *(stores or ["    pass"])]


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
