"""The report on the changing group of the suite: a page, its tables as Markdown, charts of the shares, the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from umab.engine.work import versions
from umab.research.experiments.alarms import MOST_FALSE_ALARMS, Alarms
from umab.research.experiments.contest import FLOOR, RECOMMENDED, STEADY
from umab.research.experiments.runner import Summary
from umab.research.experiments.tracking import (
    ABLATIONS,
    HIDDEN_SHARE_WANTED,
    HIGHEST_PRICE_WANTED,
    MEAN_SHARE_WANTED,
    PERIODS,
    PRICE_OF_A_DEFAULT,
    PRICE_WANTED,
    SHARE_WANTED,
    SMALLEST_SHARE,
    Shares,
    Tracked,
    by_rule,
)
from umab.research.report import shell, words
from umab.research.report.charts import table_chart
from umab.research.report.folder import results_json
from umab.research.report.suite_page import measured, stand_ins, write_pages

TITLE = "How policies follow changes"


class Line(NamedTuple):
    """A policy in the table of a half."""

    name: str
    mean: str
    worst: str
    table: str
    price: str
    highest: str
    dearest: str
    """The table of the highest price."""
    n_below: str
    """On how many tables the share is below the target."""


HEAD = ("mean share", "smallest share", "on table", "mean price", "highest price", "on table", "below target")
"""What the columns of a `Line` are called, after the name of the policy."""

ALARMS_HEAD = ("table", "share of runs with a restart", "restarts per run", "of them undone")


def write(found: Sequence[Shares], folder: Path, command: str) -> Path:
    """Write the report on the changing group to a folder and return the path of its page."""
    charts = {each.half: share_chart(each) for each in found}
    content = _content(found, command)
    return write_pages(folder, "changing", charts, as_json(found), content, figures="changing-")


def _content(found: Sequence[Shares], command: str) -> dict[str, object]:
    """Return the content of the page, for HTML and for Markdown."""
    return {
        "head": shell.Head(title=TITLE, command=command),
        "halves": found,
        "columns": HEAD,
        "lines": {each.half: lines(each) for each in found},
        "off": {each.half: ablation_lines(each) for each in found},
        "verdicts": {each.half: verdict(each) for each in found},
        "rule": rule(found),
        "alarms": {each.half: [alarm_row(alarms) for alarms in each.alarms] for each in found},
        "alarm_columns": ALARMS_HEAD,
        "most_alarms": f"{MOST_FALSE_ALARMS:.3f}",
        "tables": {each.half: [table_row(table) for table in each.tables] for each in found},
        "shares": {each.half: _shown_shares(each) for each in found},
        "stand_ins": stand_ins([each.stationary for each in found]),
        "recommended": RECOMMENDED,
        "steady": STEADY,
        "floor": f"{FLOOR:.0%}",
        "smallest": f"{SMALLEST_SHARE:.0%}",
        "periods": ", ".join(str(period) for period in PERIODS),
        "targets": targets(),
        "n_trials": found[0].stationary.n_trials,
        "seed": found[0].stationary.seed,
        "data_seed": found[0].stationary.data_seed,
        "versions": versions(),
    }


def lines(shares: Shares) -> list[Line]:
    """Return the table of policies, the largest mean share first; policies that do not accept all tables are last."""
    means = {name: shares.mean(name).value for name in shares.shown}
    return [_line(shares, name) for name in sorted(means, key=lambda name: (math.isnan(means[name]), -means[name]))]


def ablation_lines(shares: Shares) -> list[tuple[str, Line]]:
    """Return UMAB-W with nothing off and with each ingredient off."""
    every = {"nothing": RECOMMENDED, **ABLATIONS}
    return [(off, _line(shares, name)) for off, name in every.items() if name in shares.policies]


def _line(shares: Shares, name: str) -> Line:
    worst, table = shares.worst(name)
    highest, dearest = shares.stationary.highest_price(name)
    return Line(
        name,
        measured(shares.mean(name)),
        measured(worst),
        table,
        measured(shares.stationary.price(name)),
        measured(highest),
        dearest,
        f"{len(shares.below(name))} of {len(shares.tables)}",
    )


def targets() -> str:
    """Say what is wanted."""
    return (
        f"The targets are a mean share of at least {MEAN_SHARE_WANTED:g}; on every table a share of at least "
        f"{SHARE_WANTED:g}, or of {HIDDEN_SHARE_WANTED:g} where an arm becomes better while the leader stays as it is; "
        f"and a mean price of at most {PRICE_WANTED:g} ({PRICE_OF_A_DEFAULT:g} for a policy to be recommended), with "
        f"no price above {HIGHEST_PRICE_WANTED:g}."
    )


def verdict(shares: Shares) -> str:
    """Say which of the policies that are compared meet the targets."""
    meeting = [name for name in shares.shown if shares.meets_targets(name)]
    if not meeting:
        return "No policy meets all targets."
    cheap = [name for name in meeting if shares.meets_targets(name, PRICE_OF_A_DEFAULT)]
    price = f" The price of {words.listed(cheap)} is low enough to be recommended." if cheap else ""
    return f"All targets are met by {words.listed(meeting)}.{price}"


def rule(found: Sequence[Shares]) -> str:
    """Say which policy the rule recommends."""
    where = "in both halves" if len(found) > 1 else f"in the {found[0].half} half, the only one that was run"
    return (
        f"The rule: recommend the policy that needs no range and meets all targets {where}, with a mean price of at "
        f"most {PRICE_OF_A_DEFAULT:g}. Of several, take the one with the largest mean share; if there is none, take "
        f"{STEADY}. The rule recommends {by_rule(found)}."
    )


def alarm_row(alarms: Alarms) -> tuple[str, ...]:
    """Return how often UMAB-W started afresh on a stationary table; a star marks tables that the bound leaves out."""
    return (
        f"{alarms.entry.name}{' *' if alarms.moving else ''}",
        f"{alarms.n_alarmed / alarms.n_trials:.3f}",
        f"{alarms.n_restarts / alarms.n_trials:.3f}",
        f"{alarms.n_undone / alarms.n_trials:.3f}",
    )


def table_row(table: Tracked) -> tuple[str, ...]:
    """Return what there is to know about a table: its size, its changes, and the regrets of the yardsticks."""
    if not table.entry.by_period:
        restarts = "at each change"
    else:
        restarts = f"every {table.period} rounds" if table.period else "never"
    return (
        table.entry.name,
        table.entry.about,
        f"{table.losses.n_rounds:,} × {table.losses.n_arms}",
        str(len(table.starts) - 1),
        restarts,
        f"{table.at_random:.4g}",
        words.measured(*_mean(table)),
    )


def _mean(table: Tracked) -> tuple[float, float]:
    summary = Summary.of(table.restarted)
    return summary.mean, summary.se


def _shown_shares(shares: Shares) -> list[list[str]]:
    """Return the shares of the policies that are compared, one row for each table."""
    columns = [shares.policies.index(name) for name in shares.shown]
    return [["–" if math.isnan(share) else f"{share:.2f}" for share in row[columns]] for row in shares.shares]


def share_chart(shares: Shares) -> dict[str, object]:
    """Return the chart of the shares: one row for each table, one point for each policy."""
    values = [
        {"table": table.entry.name, "policy": name, "share": float(share)}
        for table, row in zip(shares.tables, shares.shares, strict=True)
        for name, share in zip(shares.policies, row, strict=True)
        if name in shares.shown and not math.isnan(share)
    ]
    title = f"{shares.half} half, {len(shares.tables)} tables"
    farthest = float(np.nanmax(shares.shares, initial=1.0))
    return table_chart(values, shares.shown, title, {"share": "share of the gain of true restarts"}, farthest)


def as_json(found: Sequence[Shares]) -> bytes:
    """Return the numbers: the regrets of every policy and yardstick on every table, and the shares and prices."""
    stationary = found[0].stationary
    content = {
        "n_trials": stationary.n_trials,
        "seed": stationary.seed,
        "data_seed": stationary.data_seed,
        "recommended_by_rule": by_rule(found),
        "most_false_alarms": MOST_FALSE_ALARMS,
        "halves": {
            each.half: {
                "policies": {name: _policy(each, name) for name in each.policies},
                "tables": {
                    table.entry.name: _table(table, dict(zip(each.policies, row.tolist(), strict=True)))
                    for table, row in zip(each.tables, each.shares, strict=True)
                },
                "stationary_tables": [table.entry.name for table in each.stationary.scored],
                "false_alarms": {alarms.entry.name: _alarms(alarms) for alarms in each.alarms},
            }
            for each in found
        },
        "versions": versions(),
    }
    return results_json(content)


def _policy(shares: Shares, name: str) -> dict[str, object]:
    worst, table = shares.worst(name)
    highest, dearest = shares.stationary.highest_price(name)
    return {
        "mean_share": shares.mean(name)._asdict(),
        "smallest_share": {**worst._asdict(), "table": table},
        "below_target": shares.below(name),
        "mean_price": shares.stationary.price(name)._asdict(),
        "highest_price": {**highest._asdict(), "table": dearest},
        "meets_targets": shares.meets_targets(name),
    }


def _alarms(alarms: Alarms) -> dict[str, object]:
    return {**{key: value for key, value in alarms._asdict().items() if key != "entry"}, "moving": alarms.moving}


def _table(table: Tracked, shares: dict[str, float]) -> dict[str, object]:
    return {
        "kind": table.entry.kind,
        "rounds": table.losses.n_rounds,
        "arms": table.losses.n_arms,
        "source": table.losses.source,
        "sha256": table.losses.digest,
        "starts": table.starts,
        "restarts": table.restarts,
        "at_random": table.at_random,
        "restarted": Summary.of(table.restarted)._asdict(),
        "regrets": {name: Summary.of(regrets)._asdict() for name, regrets in table.regrets.items()},
        "shares": shares,
    }
