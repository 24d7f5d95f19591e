"""How the state of a policy lies in one array of floats: its scalars first, then its vectors one after the other.

One flat array is what compiled code takes fastest from Python, and what a save is made of.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.simplex import Vector

Buffer = npt.NDArray[np.float64]


class Layout(NamedTuple):
    """The fields of a state, and where they are in a buffer."""

    state_type: type[Any]
    scalars: tuple[str, ...]
    vectors: tuple[str, ...]

    def pack(self, state: Any) -> Buffer:
        """Return a new buffer that holds `state`."""
        lengths = {name: len(getattr(state, name)) for name in self.vectors}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the vectors of a state must have one number an arm, but got lengths {lengths}")
        vectors = [np.asarray(getattr(state, name), dtype=np.float64) for name in self.vectors]
        return np.concatenate([[getattr(state, name) for name in self.scalars], *vectors]).astype(np.float64)

    def unpack(self, buffer: Buffer) -> Any:
        """Return the state in `buffer`, in plain Python: floats, and lists of floats."""
        n_arms = self._n_arms(buffer)
        starts = range(len(self.scalars), len(buffer), n_arms)
        vectors = {name: buffer[at : at + n_arms].tolist() for name, at in zip(self.vectors, starts, strict=True)}
        scalars = {name: float(buffer[at]) for at, name in enumerate(self.scalars)}
        return self.state_type(**scalars, **vectors)

    def probabilities(self, buffer: Buffer) -> Buffer:
        """Return the distribution from which the next arm is drawn, as a view of one buffer or of rows of them."""
        n_arms = self._n_arms(buffer)
        start = len(self.scalars) + self.vectors.index("probabilities") * n_arms
        return buffer[..., start : start + n_arms]

    def _n_arms(self, buffer: Buffer) -> int:
        return int(buffer.shape[-1] - len(self.scalars)) // len(self.vectors)


def layout_of(policy: Policy) -> Layout:
    """Return the layout of the states of `policy`."""
    state_type = type(policy.init(1))
    hints = get_type_hints(state_type)
    fields = getattr(state_type, "_fields", ())
    scalars = tuple(name for name in fields if hints[name] is float)
    vectors = tuple(name for name in fields if hints[name] == Vector)
    if "probabilities" not in vectors or len(scalars) + len(vectors) != len(fields):
        raise TypeError(
            "a policy's state must be a NamedTuple of fields of type float or umab.simplex.Vector, with a Vector "
            f"called probabilities, but {state_type.__qualname__} has {hints}"
        )
    return Layout(state_type, scalars, vectors)


def check_distribution(policy: Policy, probabilities: Buffer) -> None:
    """Raise if an update has left something that is not a distribution, as only an error in the policy can do."""
    lowest = 0.0 if policy.plays_each_arm_first else 5e-324
    if not ((probabilities >= lowest).all() and (abs(probabilities.sum(axis=-1) - 1.0) < 1e-9).all()):
        raise ArithmeticError(
            f"the update of {policy.name} must leave positive probabilities that sum to 1, but left {probabilities}; "
            "umab.testing.check_policy finds out why"
        )
