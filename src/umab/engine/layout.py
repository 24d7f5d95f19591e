"""How the numbers of a policy are laid out in one array of floats: its parameters first, then its state.

A flat array is the fastest to pass from Python to compiled code, and saves are made from it. It stores a NamedTuple as
a record: the lengths of its rows and fixed vectors, if it has any, then its scalars, its vectors, its rows and its
fixed vectors. A NamedTuple may contain another, as the state of a wrapper contains the state of the policy inside; the
fields of the inner one are named by the path to them, as in ``inner.clip``. A ticket is a record in an array of its
own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.maths.simplex import FixedVector, Rows, Vector

Buffer = npt.NDArray[np.float64]
Fields = Mapping[str, Any]
"""The fields of a NamedTuple, those of the ones inside it too, by name: numbers, lists or arrays."""

_KINDS = {float: "scalar", Vector: "vector", Rows: "rows", FixedVector: "fixed"}


class Record(NamedTuple):
    """The fields of a NamedTuple, and where they are in an array."""

    types: tuple[tuple[str, type[Any]], ...]
    """The type itself, under the name "", and the types of the NamedTuples in it, under their names."""
    scalars: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    """What the array begins with: how many floats each of the rows has for one arm, and each of the fixed vectors."""

    @classmethod
    def of(cls, example: object, what: str) -> Record:
        """Return the record of a NamedTuple for one arm; `what` is what error messages call it."""
        found = list(_fields("", example, what))

        def of_kind(kind: str) -> tuple[str, ...]:
            return tuple(name for name, each in found if each == kind)

        return cls(
            types=tuple((name, kind) for name, kind in found if isinstance(kind, type)),
            scalars=of_kind("scalar"),
            vectors=of_kind("vector"),
            rows=of_kind("rows"),
            fixed=of_kind("fixed"),
            sizes=(
                *(len(attrgetter(name)(example)[0]) for name in of_kind("rows")),
                *(len(attrgetter(name)(example)) for name in of_kind("fixed")),
            ),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return (*self.scalars, *self.vectors, *self.rows, *self.fixed)

    @property
    def first_vector(self) -> int:
        """Where in the array the vectors begin."""
        return len(self.sizes) + len(self.scalars)

    def n_arms(self, size: int) -> int:
        """Return the number of arms for which an array has this size; 0 if the size does not depend on it."""
        for_each = self.size(1) - self.size(0)
        return (size - self.size(0)) // for_each if for_each else 0

    def size(self, n_arms: int) -> int:
        """Return the size of an array for `n_arms` arms, in floats."""
        n_rows = len(self.rows)
        for_each = len(self.vectors) + sum(self.sizes[:n_rows])
        return self.first_vector + for_each * n_arms + sum(self.sizes[n_rows:])

    def shapes(self, n_arms: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the fields for `n_arms` arms, in the order of the array."""
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(self.scalars, ())
        shapes |= dict.fromkeys(self.vectors, (n_arms,))
        sizes = iter(self.sizes)
        shapes |= {name: (n_arms, next(sizes)) for name in self.rows}
        return shapes | {name: (next(sizes),) for name in self.fixed}

    def pack(self, value: object | Fields) -> Buffer:
        """Return an array that holds a NamedTuple, or one with these fields."""
        fields = value if isinstance(value, Mapping) else {name: attrgetter(name)(value) for name in self.names}
        n_arms = next((len(fields[name]) for name in (*self.vectors, *self.rows)), 0)
        arrays = [np.asarray(self.sizes, dtype=np.float64)]
        for name, shape in self.shapes(n_arms).items():
            array = np.asarray(fields[name], dtype=np.float64)
            # Compiled code trusts these sizes, so lists within lists, for example, must not change them.
            if array.shape != shape:
                raise ValueError(f"{name} must be numbers of shape {shape}, but got shape {array.shape}")
            arrays.append(array.ravel())
        return np.concatenate(arrays)

    def unpack(self, array: Buffer) -> Any:
        """Return the NamedTuple in an array, in plain Python: floats, and lists of floats."""
        return self.combined(self.fields(array), lambda type, parts: type(**parts))

    def fields(self, array: Buffer) -> dict[str, Any]:
        """Return the fields of the NamedTuple in an array, by name."""
        found, at = {}, len(self.sizes)
        for name, shape in self.shapes(self.n_arms(len(array))).items():
            size = math.prod(shape)
            found[name] = array[at : at + size].reshape(shape).tolist()
            at += size
        return found

    def combined(self, fields: Fields, combine: Callable[[type[Any], dict[str, Any]], Any]) -> Any:
        """Combine the fields of each NamedTuple, the inner ones first; return the result for the outermost."""
        made = dict(fields)
        for name, type in reversed(self.types):  # an outer type comes before its inner ones
            made[name] = combine(type, {field: made[_way(name, field)] for field in type._fields})
        return made[""]


class Layout(NamedTuple):
    """How the parameters, the state and the tickets of a policy are laid out in arrays."""

    parameters: Record
    state: Record
    ticket: Record | None

    def start(self, policy: Policy, n_arms: int) -> Buffer:
        """Return a new buffer of the policy before the first round."""
        return self.sized(self.pack(policy.parameters_for(n_arms), policy.init(n_arms)), n_arms)

    def sized(self, buffer: Buffer, n_arms: int) -> Buffer:
        """Return the buffer, if it is for `n_arms` arms: compiled code trusts that it is."""
        if len(buffer) != self.first_of_state + self.state.size(n_arms):
            found = self.state.n_arms(len(buffer) - self.first_of_state)
            raise ValueError(f"the state must be for {n_arms} arms, but got one for {found}")
        return buffer

    def pack(self, parameters: object, state: object | Fields) -> Buffer:
        """Return a new buffer that holds the parameters and the state, or one with these fields."""
        return np.concatenate([self.parameters.pack(parameters), self.state.pack(state)])

    def unpack(self, buffer: Buffer) -> Any:
        """Return the state in `buffer`, in plain Python."""
        return self.state.unpack(buffer[self.first_of_state :])

    def fields(self, buffer: Buffer) -> dict[str, Any]:
        """Return the fields of the state in `buffer`, by name."""
        return self.state.fields(buffer[self.first_of_state :])

    @property
    def first_of_state(self) -> int:
        """Where in a buffer the state begins."""
        return len(self.parameters.scalars)

    @property
    def distribution(self) -> str:
        """The name of the distribution from which the next arm is drawn."""
        (name,) = _distributions(self.state.vectors)
        return name

    def probabilities(self, buffer: Buffer) -> Buffer:
        """Return the distribution from which the next arm is drawn, as a view of one buffer or of rows of buffers."""
        n_arms = self.state.n_arms(buffer.shape[-1] - self.first_of_state)
        start = self.first_probability(n_arms)
        return buffer[..., start : start + n_arms]

    def first_probability(self, n_arms: int) -> int:
        """Return where in a buffer the distribution begins."""
        return self.first_of_state + self.state.first_vector + self.state.vectors.index(self.distribution) * n_arms


def blank_ticket(policy: Policy, layout: Layout, n_arms: int) -> Buffer:
    """Return a ticket to be filled in; an empty array if the policy has none."""
    return np.empty(0) if layout.ticket is None else layout.ticket.pack(policy.ticket(n_arms))


def layout_of(policy: Policy) -> Layout:
    """Return the layout of the arrays of `policy`."""
    parameters = Record.of(policy.parameters_for(1), "parameters")
    if parameters.names != parameters.scalars:
        raise TypeError(f"a policy's parameters must be numbers, but {parameters.types[0][1].__qualname__} has vectors")
    state = Record.of(policy.init(1), "state")
    if len(_distributions(state.vectors)) != 1:
        raise TypeError(
            "a policy's state must have a umab.simplex.Vector called probabilities, or contain one state that has it, "
            f"but {state.types[0][1].__qualname__} has {state.vectors}"
        )
    if not hasattr(policy.init(1), "probabilities"):
        raise TypeError(
            "a state that contains another must have a property called probabilities, but "
            f"{state.types[0][1].__qualname__} has none"
        )
    blank = policy.ticket(1)
    return Layout(parameters, state, None if blank is None else Record.of(blank, "ticket"))


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a NamedTuple; evaluating them takes longer than all the rest of a layout."""
    return get_type_hints(kind, include_extras=True)


def _fields(name: str, value: object, what: str) -> Iterator[tuple[str, str | type]]:
    """Yield name and type of a NamedTuple and of each one inside it, and name and kind of the other fields."""
    own_type: Any = type(value)
    hints = _hints(own_type)
    yield name, own_type
    for field in getattr(own_type, "_fields", ()):
        way, part = _way(name, field), getattr(value, field)
        if hasattr(part, "_fields"):
            yield from _fields(way, part, what)
            continue
        kind = next((kind for hint, kind in _KINDS.items() if hints[field] == hint), None)
        if kind is None:
            raise TypeError(
                f"a policy's {what} must be a NamedTuple of fields of type float, Vector, Rows or FixedVector (see "
                f"umab.simplex), but {own_type.__qualname__} has {hints}"
            )
        yield way, kind


def _distributions(vectors: tuple[str, ...]) -> list[str]:
    """Return the vectors from which arms may be drawn: the state's own, or else those of the states inside it."""
    own = [name for name in vectors if name == "probabilities"]
    return own or [name for name in vectors if name.endswith(".probabilities")]


def _way(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field


def check_distribution(policy: Policy, probabilities: Buffer) -> None:
    """Raise an error if an update has not left a distribution, which is always a mistake in the policy."""
    lowest = 0.0 if policy.plays_each_arm_first or policy.takes_advice else 5e-324
    if not ((probabilities >= lowest).all() and (abs(probabilities.sum(axis=-1) - 1.0) < 1e-9).all()):
        raise ArithmeticError(
            f"the update of {policy.name} must leave positive probabilities that sum to 1, but left {probabilities}; "
            "run umab.testing.check_policy to find out why"
        )
