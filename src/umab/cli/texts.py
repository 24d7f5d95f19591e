"""What commands print: tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umab.experiments.runner import Run


def as_table(rows: Sequence[tuple[str, ...]], *, line: bool = False) -> str:
    """Return rows as columns of text, with a line under the first if that is wanted."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if line:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def regrets(run: Run) -> str:
    """Return the final regrets as a table for each experiment and setting."""
    from umab.report import words

    parts = []
    for outcome in run.outcomes:
        stand_in = ", stand-in data" if outcome.stand_in else ""
        name = outcome.setting.name if len(outcome.experiment.settings) > 1 else ""
        title = f"{outcome.experiment.id}{f' ({name})' if name else ''}{stand_in}"
        rows = [(title, "final expected regret", "")]
        for name in outcome.by_regret:
            summary = outcome.curves[name].expected
            rows.append((f"  {name}", words.measured(summary.mean, summary.se), words.standing(outcome, name)))
        parts.append(as_table(rows))
    return "\n\n".join(parts)


def verdicts(run: Run) -> str:
    """Return the verdicts as a table: a row an experiment, a column a setting."""
    if not any(outcome.judged for outcome in run.outcomes):
        return ""
    rows = [("", *run.settings, "claim")]
    for id, outcomes in run.experiments.items():
        by_setting = {outcome.setting.name: outcome for outcome in outcomes if outcome.judged}
        cells = [by_setting[name].verdict if name in by_setting else "" for name in run.settings]
        claim = outcomes[0].experiment.claim or ", ".join(str(each.claim) for each in outcomes[0].judged)
        rows.append((id, *cells, claim + (" (stand-in data)" if outcomes[0].stand_in else "")))
    return "\n" + as_table(rows) + "\n"
