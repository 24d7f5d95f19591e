"""Functions with which compiled code reads and writes buffers, made for the layout of a policy.

They are made from text because compiled code can build a NamedTuple only with its fields spelled out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from umab.engine.layout import Layout, Record


@functools.cache
def buffer_functions(layout: Layout, rows_of: Callable[..., Any] | None = None) -> dict[str, FunctionType]:
    """Return functions that load parameters, a state and a ticket from arrays, store scalars, and find p'.

    With `rows_of`, which makes a view of an array from its shape and its strides, the sizes are constants of the code,
    and arrays need not be contiguous.
    """
    first = layout.first_of_state
    texts = [
        *_loading("load_parameters(array)", "Parameters", layout.parameters, 0, rows_of is not None),
        *_loading("load(array, n_arms)", "State", layout.state, first, rows_of is not None),
        *_storing("store", layout.state, first),
        "def distribution(state):",
        f"    return (state.{layout.distribution},)",
    ]
    records = {"Parameters": layout.parameters, "State": layout.state}
    if layout.ticket is not None:
        texts += _loading("load_ticket(array, n_arms)", "Ticket", layout.ticket, 0, rows_of is not None)
        texts += _storing("store_ticket", layout.ticket, 0)
        records["Ticket"] = layout.ticket
    names: dict[str, Any] = {"__name__": __name__, "rows_of": rows_of}
    for what, record in records.items():
        names |= {f"{what}{at}": kind for at, (_, kind) in enumerate(record.types)}
    exec(compile("\n".join(texts), f"<arrays of {layout.state.types[0][1].__qualname__}>", "exec"), names)
    return {name: value for name, value in names.items() if isinstance(value, FunctionType) and name != "rows_of"}


def _loading(head: str, what: str, record: Record, first: int, constant: bool) -> list[str]:
    """Return the text of a function that loads a NamedTuple from an array, in which it begins at `first`."""
    lines = [f"def {head}:"]
    lines += [
        f"    size{k} = {size}" if constant else f"    size{k} = int(array[{first + k}])"
        for k, size in enumerate(record.sizes)
    ]
    texts = {each: f"array[{first + len(record.sizes) + k}]" for k, each in enumerate(record.scalars)}
    vectors = first + record.first_vector
    for k, each in enumerate(record.vectors):
        texts[each] = f"array[{vectors} + {k} * n_arms : {vectors} + {k + 1} * n_arms]"
    start = f"{vectors} + {len(record.vectors)} * n_arms"
    for k, each in enumerate((*record.rows, *record.fixed)):
        is_rows = k < len(record.rows)
        lines.append(f"    start{k} = {start}")
        lines.append(f"    stop{k} = start{k} + size{k}{' * n_arms' if is_rows else ''}")
        texts[each] = f"array[start{k} : stop{k}]"
        if is_rows:
            part, shape = texts[each], f"(n_arms, size{k})"
            strides = f"(size{k} * array.strides[0], array.strides[0])"
            texts[each] = f"rows_of({part}, {shape}, {strides})" if constant else f"{part}.reshape({shape})"
        start = f"stop{k}"
    called = {kind: f"{what}{at}" for at, (_, kind) in enumerate(record.types)}
    built = record.combined(
        texts, lambda kind, parts: f"{called[kind]}({', '.join(f'{key}={text}' for key, text in parts.items())})"
    )
    return [*lines, f"    return {built}"]


def _storing(name: str, record: Record, first: int) -> list[str]:
    """Return the text of a function that stores the scalars of a NamedTuple in its array."""
    at = first + len(record.sizes)
    stores = [f"    array[{at + k}] = value.{each}" for k, each in enumerate(record.scalars)]
    return [f"def {name}(value, array):", *(stores or ["    pass"])]
