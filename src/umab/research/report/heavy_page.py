"""The report on the heavy group of the suite: a page, its tables as Markdown, charts of the scores, and the numbers.

The page is made from the numbers alone, as they are in the file beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from umab.algorithms.names import policy_as_written as policy_of
from umab.datasets.suite_parts import Half
from umab.engine.work import versions
from umab.research.experiments.contest import AT_RANDOM, FLOOR, RECOMMENDED, STEADY, Estimate, Played, competitors
from umab.research.experiments.runner import Summary
from umab.research.experiments.tails import FOR_TAILS, TOLD, Tails, Where, entry_of, on_tables
from umab.research.experiments.tracking import PRICE_OF_A_DEFAULT
from umab.research.report import shell, words
from umab.research.report.charts import table_chart
from umab.research.report.folder import results_json
from umab.research.report.suite_page import measured, stand_ins, write_pages

TITLE = "How policies do on heavy tails"
Numbers = Mapping[str, Any]
"""Numbers of the report, as JSON has them."""

SHOWN = (RECOMMENDED, STEADY, *FOR_TAILS)
"""The policies of the charts, and of the columns of the tables."""
_TABLES = {"all": "All tables", "home": "Tables at home", "away": "Tables away"}
_CERTAIN = 2.0
"""By how many standard errors a quotient must be below 1 for a policy to beat another one."""


class Line(NamedTuple):
    """A policy in the table of a half: its mean scores, and these divided by those of the recommended policy."""

    name: str
    told: str
    """What it was told about the tables."""
    scores: tuple[str, ...]
    quotients: tuple[str, ...]
    n_played: str


def write(numbers: Numbers, folder: Path, command: str) -> Path:
    """Write the report on the heavy group to a folder and return the path of its page."""
    halves: Mapping[Half, Numbers] = numbers["halves"]
    charts = {half: score_chart(half, found) for half, found in halves.items()}
    return write_pages(folder, "heavy", charts, results_json(numbers), content_of(numbers, command), figures="heavy-")


def numbers_of(found: Sequence[Tails]) -> Numbers:
    """Return the numbers, as JSON has them: the regrets of every policy on every table, and the scores of each half."""
    heavy = found[0].heavy
    content = {
        "n_trials": heavy.n_trials,
        "seed": heavy.seed,
        "data_seed": heavy.data_seed,
        "halves": {each.half: _half(each) for each in found},
        "stand_ins": stand_ins([each.general for each in found]),
        "versions": versions(),
    }
    numbers: Numbers = json.loads(results_json(content))
    return numbers


def _half(tails: Tails) -> dict[str, object]:
    on = {where: tails.on(where) for where in get_args(Where)}
    return {
        "policies": {
            name: {
                "told": _told(name),
                "n_played": tails.heavy.n_played(name),
                "mean_score": {where: on[where].mean(name)._asdict() for where in on},
                "to_recommended": {where: on[where].quotient(name, RECOMMENDED)._asdict() for where in on},
            }
            for name in tails.heavy.policies
        },
        "tables": {table.entry.name: _table(tails, table) for table in tails.heavy.tables},
        "general": {
            "n_tables": len(tails.general.scored),
            "n_stationary": len(tails.stationary.scored),
            "policies": {
                name: {
                    "mean_score": tails.general.mean(name)._asdict(),
                    "to_recommended": tails.general.quotient(name, RECOMMENDED)._asdict(),
                    "mean_price": tails.stationary.price(name)._asdict(),
                }
                for name in tails.general.policies
            },
        },
    }


def _told(name: str) -> str:
    if name == TOLD:
        return "α, σ"
    return "rounds" if policy_of(name).needs_horizon else ""


def _table(tails: Tails, table: Played) -> dict[str, object]:
    entry = entry_of(table)
    alone = on_tables(tails.heavy, [table])
    return {
        "kind": entry.kind,
        "about": entry.about,
        "at_home": entry.at_home,
        "rounds": entry.n_rounds,
        "shape": entry.arms[0].shape,
        "indices": sorted({arm.index for arm in entry.arms}),
        "means": entry.means.tolist(),
        **entry.moment._asdict(),
        "at_random": entry.at_random,
        "first_table": {"source": table.losses.source, "sha256": table.losses.digest},
        "regrets": {name: Summary.of(regrets)._asdict() for name, regrets in table.regrets.items()},
        "to_recommended": {name: alone.quotient(name, RECOMMENDED)._asdict() for name in table.regrets},
    }


# The page, from the numbers.


def content_of(numbers: Numbers, command: str) -> dict[str, object]:
    """Return the content of the page, for HTML and for Markdown."""
    halves: Mapping[Half, Numbers] = numbers["halves"]
    indices = sorted(
        {each for half in halves.values() for table in half["tables"].values() for each in table["indices"]}
    )
    return {
        "head": shell.Head(title=TITLE, command=command),
        "halves": halves,
        "indices": ", ".join(f"{index:g}" for index in indices),
        "verdicts": {half: verdicts(found) for half, found in halves.items()},
        "rule": rule(halves),
        "lines": {half: lines(found) for half, found in halves.items()},
        "tables": {
            half: [table_row(name, each) for name, each in found["tables"].items()] for half, found in halves.items()
        },
        "general": {half: general_rows(found) for half, found in halves.items()},
        "where": tuple(get_args(Where)),
        "shown": SHOWN,
        "recommended": RECOMMENDED,
        "steady": STEADY,
        "told": TOLD,
        "floor": f"{FLOOR:.0%}",
        "stand_ins": numbers["stand_ins"],
        **{key: numbers[key] for key in ("n_trials", "seed", "data_seed", "versions")},
    }


def verdicts(half: Numbers) -> list[str]:
    """Say who wins, over all tables, at home and away, and if a policy for heavy tails beats the recommended one."""
    return [*(_verdict(half, where) for where in get_args(Where)), _single_tables(half)]


def _verdict(half: Numbers, where: Where) -> str:
    n_tables = sum(where in ("all", _place(table)) for table in half["tables"].values())
    best = _best(half, where)
    first = min(FOR_TAILS, key=lambda name: _score(half, name, where).value)
    quotient = _to_recommended(half, first, where)
    outcome = {
        "better": f"on average, it beats {RECOMMENDED} there",
        "worse": f"on average, none of them beats {RECOMMENDED} there",
        "undecided": "the trials are too few to tell which of the two is better",
    }[_compared(quotient)]
    times = f"times that of {RECOMMENDED}"
    relative = "" if best == RECOMMENDED else f", {measured(_to_recommended(half, best, where))} {times}"
    return (
        f"{_TABLES[where]} ({n_tables}): the smallest mean score belongs to {best}, "
        f"{measured(_score(half, best, where))}{relative}. Of the policies for heavy tails, {first} has the smallest, "
        f"{measured(quotient)} {times}: {outcome}."
    )


def _single_tables(half: Numbers) -> str:
    """Say on which tables policies for heavy tails beat the recommended one."""
    said = []
    for name, table in half["tables"].items():
        quotients = {each: _estimate(table["to_recommended"][each]) for each in FOR_TAILS}
        better = [f"{each} {measured(it)}" for each, it in quotients.items() if _compared(it) == "better"]
        said += [f"{name} ({', '.join(better)})"] if better else []
    if not said:
        return f"On no single table does a policy for heavy tails beat {RECOMMENDED}."
    return (
        f"Policies for heavy tails beat {RECOMMENDED} on {len(said)} of the {len(half['tables'])} tables, with these "
        f"quotients of the scores: {words.listed(said)}."
    )


def rule(halves: Mapping[Half, Numbers]) -> list[str]:
    """Say what the rule for recommending makes of the policies for heavy tails, and what the heavy tables would say."""
    prices = {
        name: [_estimate(found["general"]["policies"][name]["mean_price"]) for found in halves.values()]
        for name in FOR_TAILS
    }
    cheap = [name for name in FOR_TAILS if all(price.value <= PRICE_OF_A_DEFAULT for price in prices[name])]
    if cheap:
        outcome = (
            f"The price of {words.listed(cheap)} is low enough. Whether the rule recommends such a policy is shown by "
            f"`umab suite --group changing{''.join(f' --policy {name}' for name in cheap)}`."
        )
    else:
        outcome = f"All are too high, so the rule excludes these policies. The recommendation stays {RECOMMENDED}."
    said = "; ".join(f"{name} {words.listed([measured(price) for price in prices[name]])}" for name in FOR_TAILS)
    half: Half = "validation" if "validation" in halves else next(iter(halves))
    quotients = {name: _estimate(halves[half]["general"]["policies"][name]["to_recommended"]) for name in FOR_TAILS}
    ahead = [name for name in FOR_TAILS if _compared(quotients[name]) == "better"]
    best, untold = _best(halves[half], "all"), _best(halves[half], "all", untold=True)
    return [
        "The rule for recommending a policy is that of the group `changing`; the heavy tables are no part of it. Among "
        f"other things, it asks for a mean price of at most {PRICE_OF_A_DEFAULT:g} on the stationary tables of the "
        f"general group, in both halves: the mean score there, divided by that of {STEADY}.",
        f"The mean prices of the policies for heavy tails ({words.listed(list(halves))} half) are: {said}. {outcome}",
        f"On all general tables of the {half} half, their mean scores, divided by that of {RECOMMENDED}, are: "
        f"{'; '.join(f'{name} {measured(quotients[name])}' for name in FOR_TAILS)}. "
        + (
            f"{words.listed(ahead)} would beat it there."
            if ahead
            else f"On average, none of them beats {RECOMMENDED} there."
        ),
        f"If only the mean scores on the heavy tables of the {half} half counted, they would speak for {best}"
        + _how_certain(halves[half], best)
        + ("." if best == untold else f"; of the policies that are told nothing, for {untold}."),
    ]


def _how_certain(half: Numbers, name: str) -> str:
    """Say by how much a policy is ahead of the recommended one over all heavy tables; nothing if it is that one."""
    quotient = _to_recommended(half, name, "all")
    certain = "" if _compared(quotient) == "better" else ", too close to tell them apart"
    return "" if name == RECOMMENDED else f" ({measured(quotient)} times the mean score of {RECOMMENDED}{certain})"


def lines(half: Numbers) -> list[Line]:
    """Return the table of policies, the smallest mean score first; policies that do not accept all tables are last."""

    def key(name: str) -> tuple[bool, float]:
        score = _score(half, name, "all").value
        return math.isnan(score), score

    return [
        Line(
            name,
            half["policies"][name]["told"] or "–",
            tuple(measured(_score(half, name, where)) for where in get_args(Where)),
            tuple(measured(_to_recommended(half, name, where)) for where in get_args(Where)),
            f"{half['policies'][name]['n_played']} of {len(half['tables'])}",
        )
        for name in sorted(half["policies"], key=key)
    ]


def table_row(name: str, table: Numbers) -> tuple[str, ...]:
    """Return what there is to know about a table, and the scores on it, in percent."""
    rivals = [each for each in competitors() if each in table["regrets"]]
    best = min(rivals, key=lambda each: float(table["regrets"][each]["mean"]))
    return (
        name,
        table["about"],
        _place(table),
        f"{table['rounds']:,} × {len(table['means'])}",
        f"{table['shape']} {', '.join(f'{index:g}' for index in table['indices'])}",
        f"{min(table['means']):.4g} to {max(table['means']):.4g}",
        f"{table['alpha']:.4g}, {table['sigma']:.3g}",
        *(_percent(table, each) for each in SHOWN),
        f"{_percent(table, best)} ({best})",
    )


def general_rows(half: Numbers) -> list[tuple[str, ...]]:
    """Return how the policies for heavy tails do on the general tables."""
    found = half["general"]["policies"]
    columns = ("mean_score", "to_recommended", "mean_price")
    return [(name, *(measured(_estimate(found[name][each])) for each in columns)) for name in SHOWN]


def score_chart(half: Half, numbers: Numbers) -> dict[str, object]:
    """Return the chart of the scores: one row for each table, one point for each policy."""
    values = [
        {"table": name, "policy": policy, "score": table["regrets"][policy]["mean"] / table["at_random"]}
        for name, table in numbers["tables"].items()
        for policy in SHOWN
    ]
    farthest = max(1.0, *(each["score"] for each in values))
    title = f"{half} half, {len(numbers['tables'])} tables"
    return table_chart(values, SHOWN, title, {"score": "regret by means, in percent of choosing at random"}, farthest)


def _best(half: Numbers, where: Where, *, untold: bool = False) -> str:
    """Return the policy with the smallest mean score, of those that accept all tables; or of those told nothing."""
    scores: dict[str, float] = {
        name: _score(half, name, where).value
        for name, about in half["policies"].items()
        if name != AT_RANDOM and not (untold and about["told"])
    }
    whole = [name for name in scores if not math.isnan(scores[name])]
    return min(whole, key=scores.__getitem__)


def _place(table: Numbers) -> Where:
    return "home" if table["at_home"] else "away"


def _compared(quotient: Estimate) -> Literal["better", "worse", "undecided"]:
    """Return whether a policy is better than another one, by the quotient of their scores."""
    if quotient.value + _CERTAIN * quotient.se < 1.0:
        return "better"
    return "worse" if quotient.value - _CERTAIN * quotient.se > 1.0 else "undecided"


def _score(half: Numbers, name: str, where: Where) -> Estimate:
    return _estimate(half["policies"][name]["mean_score"][where])


def _to_recommended(half: Numbers, name: str, where: Where) -> Estimate:
    return _estimate(half["policies"][name]["to_recommended"][where])


def _estimate(numbers: Numbers) -> Estimate:
    """Return an estimate; JSON has null for what is not a number."""
    return Estimate(*(math.nan if numbers[key] is None else float(numbers[key]) for key in Estimate._fields))


def _percent(table: Numbers, name: str) -> str:
    regret, at_random = table["regrets"][name], table["at_random"]
    return f"{100 * regret['mean'] / at_random:.1f} ± {100 * regret['se'] / at_random:.1f}"
