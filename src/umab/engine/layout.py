"""How the state of a policy lies in one array of floats: its scalars first, then its vectors one after the other.

One flat array is what compiled code takes fastest from Python, and what a save is made of. A state may hold the state
of another policy; its fields have the way to them as their names, as in ``inner.clip``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.simplex import Vector

Buffer = npt.NDArray[np.float64]


class Layout(NamedTuple):
    """The fields of a state, and where they are in a buffer."""

    states: tuple[tuple[str, type[Any]], ...]
    """The type of the state, under the name "", and those of the states in it, under theirs."""
    scalars: tuple[str, ...]
    vectors: tuple[str, ...]

    def pack(self, state: Any) -> Buffer:
        """Return a new buffer that holds `state`."""
        return self.pack_fields({name: attrgetter(name)(state) for name in (*self.scalars, *self.vectors)})

    def pack_fields(self, fields: Mapping[str, Any]) -> Buffer:
        """Return a new buffer that holds the state with these fields."""
        lengths = {name: len(fields[name]) for name in self.vectors}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the vectors of a state must have one number an arm, but got lengths {lengths}")
        vectors = [np.asarray(fields[name], dtype=np.float64) for name in self.vectors]
        return np.concatenate([[fields[name] for name in self.scalars], *vectors]).astype(np.float64)

    def unpack(self, buffer: Buffer) -> Any:
        """Return the state in `buffer`, in plain Python: floats, and lists of floats."""
        return self.built(self.fields(buffer))

    def fields(self, buffer: Buffer) -> dict[str, Any]:
        """Return the fields of the state in `buffer`, by name."""
        n_arms = self._n_arms(buffer)
        starts = range(len(self.scalars), len(buffer), n_arms)
        scalars = {name: float(buffer[at]) for at, name in enumerate(self.scalars)}
        vectors = {name: buffer[at : at + n_arms].tolist() for name, at in zip(self.vectors, starts, strict=True)}
        return scalars | vectors

    def built(self, fields: Mapping[str, Any]) -> Any:
        """Return the state with these fields."""
        return self.combined(fields, lambda state_type, parts: state_type(**parts))

    def combined(self, fields: Mapping[str, Any], combine: Callable[[type[Any], dict[str, Any]], Any]) -> Any:
        """Combine the fields of each state, those of inner states first; return what the outermost comes to."""
        made = dict(fields)
        for name, state_type in reversed(self.states):  # a state comes before those in it
            made[name] = combine(state_type, {field: made[_way(name, field)] for field in state_type._fields})
        return made[""]

    @property
    def distribution(self) -> str:
        """The name of the distribution from which the next arm is drawn."""
        (name,) = _distributions(self.vectors)
        return name

    def probabilities(self, buffer: Buffer) -> Buffer:
        """Return the distribution from which the next arm is drawn, as a view of one buffer or of rows of them."""
        n_arms = self._n_arms(buffer)
        start = len(self.scalars) + self.vectors.index(self.distribution) * n_arms
        return buffer[..., start : start + n_arms]

    def _n_arms(self, buffer: Buffer) -> int:
        return int(buffer.shape[-1] - len(self.scalars)) // len(self.vectors)


def layout_of(policy: Policy) -> Layout:
    """Return the layout of the states of `policy`."""
    kinds: dict[type, list[str]] = {float: [], list: []}
    states = []
    for name, kind in _fields("", policy.init(1)):
        if kind in kinds:
            kinds[kind].append(name)
        else:
            states.append((name, kind))
    scalars, vectors = tuple(kinds[float]), tuple(kinds[list])
    if len(_distributions(vectors)) != 1:
        raise TypeError(
            "a policy's state must have a umab.simplex.Vector called probabilities, or one state in it that has, but "
            f"{states[0][1].__qualname__} has {vectors}"
        )
    return Layout(tuple(states), scalars, vectors)


def _fields(name: str, state: Any) -> Iterator[tuple[str, type]]:
    """Yield the states, scalars and vectors in a state: name and type, which for a vector is list."""
    state_type = type(state)
    hints = get_type_hints(state_type)
    yield name, state_type
    for field in getattr(state_type, "_fields", ()):
        way, value = _way(name, field), getattr(state, field)
        if hasattr(value, "_fields"):
            yield from _fields(way, value)
        elif hints[field] is float:
            yield way, float
        elif hints[field] == Vector:
            yield way, list
        else:
            raise TypeError(
                "a policy's state must be a NamedTuple of fields of type float or umab.simplex.Vector, with a Vector "
                f"called probabilities, but {state_type.__qualname__} has {hints}"
            )


def _distributions(vectors: tuple[str, ...]) -> list[str]:
    """Return the vectors from which arms may be drawn: that of the state itself, or else those of the states in it."""
    own = [name for name in vectors if name == "probabilities"]
    return own or [name for name in vectors if name.endswith(".probabilities")]


def _way(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field


def check_distribution(policy: Policy, probabilities: Buffer) -> None:
    """Raise if an update has left something that is not a distribution, as only an error in the policy can do."""
    lowest = 0.0 if policy.plays_each_arm_first else 5e-324
    if not ((probabilities >= lowest).all() and (abs(probabilities.sum(axis=-1) - 1.0) < 1e-9).all()):
        raise ArithmeticError(
            f"the update of {policy.name} must leave positive probabilities that sum to 1, but left {probabilities}; "
            "umab.testing.check_policy finds out why"
        )
