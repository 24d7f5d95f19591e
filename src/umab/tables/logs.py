"""Logs: every row is one round, with the arm that was drawn, the probability of the draw, and its loss or reward."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from umab._support import checks
from umab.tables.cells import MISSING, PLAIN_NUMBERS, shown
from umab.tables.sheet import Sheet, Table


class Log(NamedTuple):
    """The rounds of a log."""

    arms: list[str]
    probabilities: Table
    values: Table
    reward: bool
    """Whether the values are rewards."""


def columns_given(log: Any, feedback: str) -> list[list[Any]] | None:
    """Return the columns arm, probability and `feedback` of a frame or dict; None for a log that has rows instead."""
    if not isinstance(log, Mapping) and not hasattr(log, "columns"):
        return None
    names, there = ("arm", "probability", feedback), list(log if isinstance(log, Mapping) else log.columns)
    if missing := [name for name in names if name not in there]:
        raise ValueError(
            f"a log must have the columns arm, probability and loss or reward, but got {there!r} where "
            f"{missing[0]!r} is missing"
        )
    # Not through an array, which would turn the label 1 into the text "1" if another label is a text.
    columns = [each.tolist() if hasattr(each := log[name], "tolist") else list(each) for name in names]
    arms, probabilities, values = map(len, columns)
    if not arms == probabilities == values:
        plural = {"loss": "losses"}.get(feedback, f"{feedback}s")
        raise ValueError(
            "the columns of a log must have the same length, but got "
            f"{arms} arms, {probabilities} probabilities and {values} {plural}"
        )
    return columns


def rows_given(log: Any, feedback: str) -> Iterator[tuple[Sequence[Any], Any]]:
    """Yield the rows of a log that is given row by row: a choice, or an arm and a probability; and the feedback."""
    if not isinstance(log, Iterable) or isinstance(log, (str, bytes)):
        raise TypeError(f"log must be pairs (choice, {feedback}), triples or a frame, but got a {type(log).__name__}")
    for number, row in enumerate(log):
        size = len(row) if isinstance(row, (tuple, list)) else 0
        if size == 3:
            yield row[:2], row[2]
        elif size == 2 and isinstance(row[0], (tuple, list)) and len(row[0]) == 4:
            yield row[0], row[1]
        else:
            rule = f"a row of a log must be (choice, {feedback}) or (arm, probability, {feedback})"
            raise ValueError(f"{rule}, but row {number} is {checks.shown(row)}")


def rounds_of(sheet: Sheet, *, reward: bool = False) -> Log:
    """Return the rounds of a log; with `reward`, its values are rewards even if their column is called loss."""
    columns = _columns(sheet)
    value = _value(columns, reward=reward)
    names = ("arm", "probability", value)
    for name in names:
        found = columns.get(name, [])
        if len(found) != 1:
            got = " and ".join(repr(sheet.names[at]) for at in found) if found else "none"
            every = ", ".join(map(repr, sheet.names))
            raise ValueError(
                "a log must have one column called arm, one called probability and one called loss or reward, but got "
                f"{got} for {name} in {str(sheet.path)!r}; its columns are {every}: rename those that hold them"
            )
    arm_at, probability_at, value_at = (columns[name][0] for name in names)
    arms = sheet.texts(arm_at)
    if (empty := arms == "").any():
        row = int(empty.to_numpy().argmax())
        raise ValueError(
            f"every round must have an arm, but got {shown('')} in {_where(sheet, row, arm_at)}; fill it in, or delete "
            "the row"
        )
    probabilities = _numbers(
        sheet,
        probability_at,
        "probability",
        "fill in the probability with which the arm was drawn, or delete the row if it was not drawn at random",
    )
    outside = ~((probabilities > 0.0) & (probabilities <= 1.0))
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"a probability must be above 0 and at most 1, but got {probabilities[row]:g} in "
            f"{_where(sheet, row, probability_at)}; it must be the probability with which the arm was drawn"
        )
    values = _numbers(
        sheet,
        value_at,
        value,
        f"if the feedback never came, write the {value} that this stands for; if you delete the row instead, the "
        "estimates are only about rounds with feedback",
    )
    return Log(arms.to_list(), probabilities, values, reward or value == "reward")


def refuse_log(sheet: Sheet) -> None:
    """Refuse a log where a table is needed that has the losses of all arms."""
    columns = _columns(sheet)
    value = _value(columns, reward=False)
    if not {"arm", value} <= columns.keys():
        return
    rule = "a table of losses must have every arm in every round"
    if "probability" in columns:
        unless = ""
        if "round" in columns:
            names = [sheet.names[at] for at in columns["probability"]]
            unless = f"; if every round does have every arm, {sheet.leave_out(*names)}"
        raise ValueError(
            f"{rule}, but {str(sheet.path)!r} has the columns arm, probability and {value} of a log with one arm per "
            f"round; {evaluate(sheet)}{unless}"
        )
    if "round" not in columns:
        raise ValueError(
            f"{rule}, but {str(sheet.path)!r} has the columns arm and {value}, and no column called round; if every "
            f"round has every arm, give this name to the column that says which round it is, or add one; if "
            f"this is a log with one arm per round, {with_probabilities(sheet)}"
        )


def with_probabilities(sheet: Sheet) -> str:
    """Say what can be done with a log that lacks the probabilities of its draws."""
    return (
        "add the probabilities of the draws as a column called probability (1/n, if one of n arms was drawn evenly): "
        f"{evaluate(sheet)}"
    )


def evaluate(sheet: Sheet) -> str:
    """Say what a log is good for."""
    return f"umab evaluate {shlex.quote(str(sheet.path))} estimates from a log what each arm would have cost"


def _columns(sheet: Sheet) -> dict[str, list[int]]:
    """Return the positions of the columns by their names in lower case."""
    found: dict[str, list[int]] = {}
    for at, name in enumerate(sheet.names):
        found.setdefault(name.strip().lower(), []).append(at)
    return found


def _value(columns: dict[str, list[int]], *, reward: bool) -> str:
    """Return whether the values are in a column "loss" or "reward"; if both are there, `reward` decides."""
    return "reward" if "reward" in columns and (reward or "loss" not in columns) else "loss"


def _where(sheet: Sheet, row: int, at: int) -> str:
    return f"{sheet.where(row)} of column {sheet.names[at]!r}"


def _numbers(sheet: Sheet, at: int, what: str, if_missing: str) -> Table:
    """Return a column as finite numbers; `if_missing` is the advice for a cell that is missing."""
    import polars

    cells = sheet.cells.to_series(at)
    if sheet.content:
        cells = cells.str.strip_chars().cast(polars.Float64, strict=False)
    elif not (cells.dtype.is_numeric() or cells.dtype == polars.Boolean):  # a text in a Parquet file is meant as such
        cells = polars.Series([None] * len(cells))
    numbers = cells.cast(polars.Float64).to_numpy()
    bad = ~np.isfinite(numbers)
    if not bad.any():
        return numbers
    row = int(bad.argmax())
    text, where = sheet.texts(at)[row], _where(sheet, row, at)
    if text.lower() in MISSING:
        raise ValueError(f"every round must have a {what}, but got {shown(text)} in {where}; {if_missing}")
    if np.isinf(numbers[row]):
        raise ValueError(f"a {what} must be finite, but got {text!r} in {where}; replace it with a finite number")
    advice = PLAIN_NUMBERS if sheet.content else "store the column as numbers"
    raise TypeError(f"a {what} must be a number, but got {text!r} in {where}; {advice}")
