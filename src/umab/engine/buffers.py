"""Functions with which compiled code reads and writes buffers, made for the layout of a policy.

They are made from text because compiled code can build a NamedTuple only with its fields spelled out.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from umab.engine.layout import Layout, Record


@functools.cache
def buffer_functions(layout: Layout) -> dict[str, FunctionType]:
    """Return functions that load parameters, a state and a ticket from arrays, store scalars, and find p'."""
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
    """Return the text of a function that loads a NamedTuple from an array, in which it begins at `first`."""
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
    """Return the text of a function that stores the scalars of a NamedTuple in its array."""
    at = first + len(record.sizes)
    stores = [f"    array[{at + k}] = value.{each}" for k, each in enumerate(record.scalars)]
    return [f"def {name}(value, array):", *(stores or ["    pass"])]
