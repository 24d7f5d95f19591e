"""How the state of a policy lies in one array of floats: its scalars first, then its vectors one after the other.

One flat array is what compiled code takes fastest from Python, and what a save is made of.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from umab.policies.base import Policy
from umab.simplex import Vector

Buffer = npt.NDArray[np.float64]


class Layout(NamedTuple):
    """The fields of a state, and where they are in a buffer."""

    state_type: type[Any]
    scalars: tuple[str, ...]
    vectors: tuple[str, ...]

    def pack(self, state: Any) -> Buffer:
        """Return a new buffer that holds `state`."""
        vectors = [np.asarray(getattr(state, name), dtype=np.float64) for name in self.vectors]
        return np.concatenate([[getattr(state, name) for name in self.scalars], *vectors]).astype(np.float64)

    def unpack(self, buffer: Buffer) -> Any:
        """Return the state in `buffer`, in plain Python: floats, and lists of floats."""
        n_arms = (len(buffer) - len(self.scalars)) // len(self.vectors)
        starts = range(len(self.scalars), len(buffer), n_arms)
        vectors = {name: buffer[at : at + n_arms].tolist() for name, at in zip(self.vectors, starts, strict=True)}
        scalars = {name: float(buffer[at]) for at, name in enumerate(self.scalars)}
        return self.state_type(**scalars, **vectors)

    def start_of(self, vector: str, n_arms: int) -> int:
        """Return where a vector begins."""
        return len(self.scalars) + self.vectors.index(vector) * n_arms


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
