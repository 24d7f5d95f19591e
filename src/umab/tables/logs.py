"""Logs: every row is one round, with the arm that was drawn, the probability of the draw, and its loss or reward."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from umab._support import checks
from umab.tables.cells import is_missing, listed, shown
from umab.tables.columns import Table
from umab.tables.roles import Named, roles_of, value_role
from umab.tables.sheet import Sheet

WHY_PROBABILITIES = (
    "each round shows what one arm cost, and only the probability of its draw tells for how many rounds it stands in "
    "which another arm was drawn"
)
"""Why there is no answer without probabilities."""


class Columns(TypedDict):
    """The columns of a log, of which it has either the losses or the rewards."""

    arm: list[str]
    probability: Table
    loss: NotRequired[Table]
    reward: NotRequired[Table]


class Log(NamedTuple):
    """The rounds of a log."""

    arms: list[str]
    probabilities: Table
    values: Table
    reward: bool
    """Whether the values are rewards."""

    def as_columns(self) -> Columns:
        """Return the columns that `umab.offpolicy.evaluate` takes."""
        if self.reward:
            return {"arm": self.arms, "probability": self.probabilities, "reward": self.values}
        return {"arm": self.arms, "probability": self.probabilities, "loss": self.values}


def columns_given(log: Any, feedback: str) -> list[list[object]] | None:
    """Return the columns arm, probability and `feedback` of a frame or dict; None for a log that has rows instead."""
    if not isinstance(log, Mapping) and not hasattr(log, "columns"):
        return None
    names, there = ("arm", "probability", feedback), list(log if isinstance(log, Mapping) else log.columns)
    if missing := [name for name in names if name not in there]:
        why = f": {WHY_PROBABILITIES}" if missing[0] == "probability" else ""
        raise ValueError(
            f"a log must have the columns arm, probability and loss or reward, but got {listed(there)} where "
            f"{missing[0]!r} is missing{why}"
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


def rows_given(log: object, feedback: str) -> Iterator[tuple[Sequence[object], object]]:
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


def rounds_of(sheet: Sheet, named: Named, *, reward: bool = False) -> Log:
    """Return the rounds of a log; with `reward`, its values are rewards even if their column is called loss."""
    roles = roles_of(sheet, named)
    value = value_role(roles, reward=reward)
    if "probability" not in roles and {"arm", value} <= roles.keys():
        raise ValueError(
            f"a log must have the probability with which each arm was drawn, but {sheet.origin} has no column called "
            f"probability; no answer is possible without it: {WHY_PROBABILITIES}; if another column has it, "
            f"{sheet.wording.option('probability', 'COLUMN')} (the columns are {listed(sheet.names)}); if one of n "
            "arms was drawn evenly, add a column with 1/n; if it is lost, log choice.probability from now on, or "
            "measure all arms in every round: umab compare needs no probabilities"
        )
    for role in ("arm", "probability", value):
        found = roles.get(role, [])
        if len(found) != 1:
            got = " and ".join(repr(sheet.names[at]) for at in found) if found else "none"
            raise ValueError(
                "a log must have one column called arm, one called probability and one called loss or reward, but got "
                f"{got} for {role} in {sheet.origin}; its columns are {listed(sheet.names)}: to say which one it is, "
                f"{sheet.wording.option(role, 'COLUMN')}"
            )
    arm_at, probability_at, value_at = (roles[role][0] for role in ("arm", "probability", value))
    arms = sheet.columns[arm_at].texts()
    if "" in arms:
        raise ValueError(
            f"every round must have an arm, but got {shown('')} in {_where(sheet, arms.index(''), arm_at)}; fill it "
            "in, or delete the row"
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
    return Log(arms, probabilities, values, reward or value == "reward")


def refuse_log(sheet: Sheet, named: Named, *, round_known: bool = False) -> None:
    """Refuse a log where a table is needed that has the losses of all arms."""
    roles = roles_of(sheet, named)
    value = value_role(roles, reward=False)
    if not {"arm", value} <= roles.keys():
        return
    rule = "a table of losses must have every arm in every round"
    if "probability" in roles:
        unless = ""
        if round_known or "round" in roles:
            names = [sheet.names[at] for at in roles["probability"]]
            unless = f"; if every round does have every arm, {sheet.leave_out(*names)}"
        raise ValueError(
            f"{rule}, but {sheet.origin} has the columns arm, probability and {value} of a log with one arm per "
            f"round; {evaluate(sheet, named)}{unless}"
        )
    if "round" not in roles and not round_known:
        raise ValueError(
            f"{rule}, but {sheet.origin} has the columns arm and {value}, and no column called round; if every "
            f"round has every arm, say which column tells the rounds apart: {sheet.wording.option('round', 'COLUMN')}; "
            f"if this is a log with one arm per round, {with_probabilities(sheet, named)}"
        )


def with_probabilities(sheet: Sheet, named: Named) -> str:
    """Say what can be done with a log that lacks the probabilities of its draws."""
    return (
        f"no answer is possible without probabilities: {WHY_PROBABILITIES}; add the probabilities of the draws as a "
        f"column called probability (1/n, if one of n arms was drawn evenly): {evaluate(sheet, named)}"
    )


def evaluate(sheet: Sheet, named: Named) -> str:
    """Say what a log is good for."""
    if sheet.path is None:
        return "umab.offpolicy.evaluate estimates from a log what each arm would have cost"
    options = {key: name for key, name in named.options.items() if key != "round"}
    named_there = "".join(f" --{key} {shlex.quote(name)}" for key, name in options.items())
    return f"umab evaluate {_place(sheet)}{named_there} estimates from a log what each arm would have cost"


def _place(sheet: Sheet) -> str:
    return "the table" if sheet.path is None else shlex.quote(str(sheet.path))


def _where(sheet: Sheet, row: int, at: int) -> str:
    return f"{sheet.where(row)} of column {sheet.names[at]!r}"


def _numbers(sheet: Sheet, at: int, what: str, if_missing: str) -> Table:
    """Return a column as finite numbers; `if_missing` is the advice for a cell that is missing."""
    column = sheet.columns[at]
    numbers = column.numbers()
    bad = ~np.isfinite(numbers)
    if not bad.any():
        return numbers.copy()  # not a view of the frame
    row = int(bad.argmax())
    cell, where = column.cell(row), _where(sheet, row, at)
    text = "" if cell is None else str(cell).strip()
    if is_missing(cell):
        raise ValueError(f"every round must have a {what}, but got {shown(text)} in {where}; {if_missing}")
    if np.isinf(numbers[row]):
        raise ValueError(f"a {what} must be finite, but got {text!r} in {where}; replace it with a finite number")
    raise TypeError(f"a {what} must be a number, but got {shown(text)} in {where}; {sheet.not_a_number(text)}")
