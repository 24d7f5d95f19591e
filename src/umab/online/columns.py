"""Open choices as columns: the saved form of a hundred thousand of them must not take a second to write.

A column of numbers is the base64 text of its bytes, little-endian: exact, short, and a hundred times faster to write
than decimal digits. -1 stands for an arm that is gone.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from umab.engine.layout import Buffer, Record
from umab.online.choice import Choice, Label, Open, labels_of
from umab.online.ids import ENDS

_TYPES = {
    "number": "<i8",
    "label": "<i4",
    "index": "<i4",
    "probability": "<f8",
    "end": "|i1",
    "now": "<i4",
    "account": "<i4",
    "account_probability": "<f8",
    "time": "<f8",
}
"""The columns and the types of their numbers. `label` is a position in the list of labels, `end` in `ENDS` of ids."""

_USUALLY_SAME = {"now": "index", "account": "now", "account_probability": "probability"}
"""Columns that differ from another one only where arms were away, or have moved; null says that they do not."""

_END = {end: at for at, end in enumerate(ENDS)}


def written(open_choices: Sequence[Open], record: Record | None) -> dict[str, object]:
    """Return open choices as columns, for JSON; with tickets if the policy has a `record` for them."""
    # Not zip(*open_choices), which makes an iterator for each choice and takes longer than all the rest.
    choices, now, accounts, account_probabilities, tickets, times, numbers, coins = (
        list(map(itemgetter(at), open_choices)) for at in range(8)
    )
    arms, indices, probabilities, ids = (list(map(itemgetter(at), choices)) for at in range(4))
    labels = list(dict.fromkeys(arms))
    place = {label: at for at, label in enumerate(labels)}
    columns: dict[str, Sequence[float]] = {
        "number": numbers,
        "label": list(map(place.__getitem__, arms)),
        "index": indices,
        "probability": probabilities,
        "end": [_END.get(each[-1], 0) for each in ids],
        "now": [-1 if each is None else each for each in now],
        "account": [-1 if each is None else each for each in accounts],
        "account_probability": account_probabilities,
        "time": times,
    }
    saved: dict[str, object] = {"n": len(numbers), "labels": labels}
    for name, kind in _TYPES.items():
        same = name in _USUALLY_SAME and columns[name] == columns[_USUALLY_SAME[name]]
        saved[name] = None if same else _text(np.array(columns[name], dtype=kind))
    if any(each >= 0 for each in coins):
        saved["coins"] = _text(np.array(coins, dtype="|i1"))
    if record is not None:
        saved["tickets"] = _text(np.array(tickets, dtype="<f8"))
    return saved


def read(
    saved: Mapping[str, Any],
    labels: tuple[Label, ...],
    numbers_of: range,
    id_of: Callable[[int, str], str],
    record: Record | None,
    blank: Buffer | None = None,
) -> dict[str, Open]:
    """Return the open choices of a saved learner by their ids, checked: compiled code trusts their indices.

    If a file has no tickets although the policy has some, each choice gets the `blank` one, if there is one.
    """
    n, n_arms = saved["n"], len(labels)
    if type(n) is not int or n < 0:
        raise ValueError(f"the number of open choices must be at least 0, but got {n!r}")
    column: dict[str, npt.NDArray[np.number]] = {}
    for name, kind in _TYPES.items():
        same = name in _USUALLY_SAME and saved[name] is None
        column[name] = column[_USUALLY_SAME[name]] if same else _array(saved[name], kind, n, name)
    known: tuple[Label, ...] = ()
    if saved["labels"] != []:
        if not isinstance(saved["labels"], list) or len(saved["labels"]) > n:
            raise ValueError(
                f"the labels of open choices must be a list of at most {n}, but got {saved['labels']!r:.60}"
            )
        known = labels_of(saved["labels"])
    numbers = column["number"]
    _check(
        "number",
        (numbers >= numbers_of.start) & (numbers < numbers_of.stop) & np.append(True, numbers[1:] > numbers[:-1])[:n],
    )
    _check("label", (column["label"] >= 0) & (column["label"] < len(known)))
    _check("index", column["index"] >= 0)
    _check("end", (column["end"] >= 0) & (column["end"] < len(ENDS)))
    for name in ("now", "account"):
        _check(name, (column[name] >= -1) & (column[name] < n_arms))
    for name in ("probability", "account_probability"):
        _check(name, (column[name] > 0.0) & (column[name] <= 1.0))
    _check("time", np.isfinite(column["time"]))
    tickets: Sequence[Buffer | None] = [None] * n
    if record is not None and blank is not None and "tickets" not in saved:
        tickets = [blank.copy() for _ in range(n)]
    elif record is not None:
        size, told = record.size(n_arms), saved.get("tickets", "")
        table = _array(told, "<f8", n * size, "tickets").reshape(n, size)
        _check("tickets", np.isfinite(table) & (table[:, : len(record.sizes)] == record.sizes).all(axis=1)[:, None])
        tickets = [np.array(row, dtype=np.float64) for row in table]
    coins = np.full(n, -1) if saved.get("coins") is None else _array(saved["coins"], "|i1", n, "coins")
    _check("coins", (coins >= -1) & (coins <= 1))
    found: dict[str, Open] = {}
    rows = zip(*(column[name].tolist() for name in _TYPES), tickets, coins.tolist(), strict=True)
    for number, label, index, probability, end, now, account, account_probability, time, ticket, coin in rows:
        if now >= 0 and labels[now] != known[label]:
            raise ValueError(f"the open choice {number} is of arm={known[label]!r}, but arm {now} is {labels[now]!r}")
        choice = Choice(known[label], index, probability, id_of(number, ENDS[end]))
        found[choice.id] = (
            choice,
            None if now < 0 else now,
            None if account < 0 else account,
            account_probability,
            ticket,
            time,
            number,
            coin,
        )
    return found


def _text(array: npt.NDArray[np.number]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _array(text: str, kind: str, n: int, name: str) -> npt.NDArray[np.number]:
    try:
        content = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ValueError(f"the column {name!r} of open choices must be base64, but got {str(text)[:40]!r}") from None
    if len(content) != n * np.dtype(kind).itemsize:
        raise ValueError(f"the column {name!r} of open choices must have {n} numbers, but got {len(content)} bytes")
    return np.frombuffer(content, dtype=kind)


def _check(name: str, good: npt.NDArray[np.bool_]) -> None:
    if not good.all():
        row = int(np.argmin(good.reshape(len(good), -1).all(axis=1)))
        raise ValueError(f"the column {name!r} of open choices is wrong in row {row}")
