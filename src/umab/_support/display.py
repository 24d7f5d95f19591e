"""How results, losses and learners look in a notebook: HTML without scripts, in the colours of the notebook's theme.

And how tables look in a terminal.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Curve = npt.NDArray[np.float64]
N = TypeVar("N")

_ACCENT = "#3987cc"  # visible on a white page and on a black one
_WIDTH, _HEIGHT = 320, 80
_MOST_CHANGES = 5
"""The most changes that a learner shows."""
_MOST_ARMS = 20
"""The most arms that a table shows; two hundred would bury what comes after them."""


class _Counter(Protocol):
    @property
    def probability(self) -> float: ...
    def _asdict(self) -> dict[str, Any]: ...


class _Policy(Protocol):
    @property
    def name(self) -> str: ...


class _Change(Protocol):
    @property
    def round(self) -> int: ...
    @property
    def arm(self) -> object: ...
    @property
    def kept(self) -> bool | None: ...


class _Pause(Protocol):
    def in_words(self) -> str: ...


class _Learner(Protocol):
    @property
    def policy(self) -> _Policy: ...
    @property
    def outstanding(self) -> tuple[object, ...]: ...
    @property
    def maximize(self) -> bool: ...
    def counters(self) -> Mapping[Any, _Counter]: ...
    def changes(self) -> Sequence[_Change]: ...
    def pauses(self) -> Sequence[_Pause]: ...


def counted(number: int, thing: str) -> str:
    """Return a number of things: 1 arm, 2 arms."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def as_table(rows: Sequence[tuple[str, ...]], *, line: bool = False) -> str:
    """Return rows as columns of text, with a line under the first row if `line` is true."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if line:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def learner_html(learner: _Learner) -> str:
    """Return a learner as HTML: the probability of each arm as a bar, and its counters."""
    counters = learner.counters()  # all from one call: another thread may add or remove arms in between
    arms, probabilities = list(counters), np.array([each.probability for each in counters.values()])
    rows = {arm: {"probability": _bar(each.probability), **_cells_of(each)} for arm, each in counters.items()}
    likely = np.sort(np.argsort(-probabilities, kind="stable")[:_MOST_ARMS])
    shown = [arms[at] for at in likely]
    better = "rewards, higher is better" if learner.maximize else "losses, lower is better"
    title = f"{counted(len(arms), 'arm')}, {counted(len(learner.outstanding), 'open choice')}; {better}"
    table = _table(rows, shown, "with the highest probabilities")
    return _box(learner.policy.name, title, table + _changes(learner.changes()) + _pauses(learner.pauses()))


def losses_html(arms: Sequence[str], table: npt.NDArray[np.float64]) -> str:
    """Return a loss table as HTML: the mean and the range of each arm, over the rounds in which it is there."""
    away = np.isnan(table)
    n_there = len(table) - away.sum(axis=0)
    means = np.where(away, 0.0, table / np.maximum(n_there, 1)).sum(axis=0)  # a sum of large losses could overflow
    means[n_there == 0] = np.nan
    lowest, highest = np.fmin.reduce(table, axis=0), np.fmax.reduce(table, axis=0)
    rows = {
        arm: {"mean loss": _number(means[k]), "lowest": _number(lowest[k]), "highest": _number(highest[k])}
        for k, arm in enumerate(arms)
    }
    best = np.sort(np.argsort(means, kind="stable")[:_MOST_ARMS])
    title = f"{counted(len(table), 'round')} of {counted(len(arms), 'arm')}"
    if away.any():
        title += f"; {int(away.sum())} of {table.size} cells are away"
        for k, arm in enumerate(arms):
            rows[arm]["rounds"] = str(n_there[k])
    return _box("Losses", title, _table(rows, [arms[at] for at in best], "with the smallest means"))


def regret_named(*kinds: str) -> str:
    """Return the full name of a kind of regret, or of several: expected regret is the pseudo-regret of the field."""
    return " and ".join("expected regret (pseudo-regret)" if each == "expected" else f"{each} regret" for each in kinds)


def result_html(policy: str, came_to: str, kind: str, mean: Curve, sd: Curve) -> str:
    """Return the regret of a policy as HTML: the final regret in words, and the curve."""
    banded = ", band of one standard deviation" if np.isfinite(sd).all() else ""
    below = f"mean {regret_named(kind)} over {counted(len(mean), 'round')}{banded}"
    return _box(policy, came_to, f"{_curve(mean, sd)}<div style='opacity:0.7;font-size:85%'>{below}</div>")


def comparison_html(summary: str, rows: Mapping[str, Mapping[str, str]], details: Sequence[str], code: str) -> str:
    """Return a comparison as HTML: the answer in short, the policies with their regrets, details, and code."""
    cells = {name: {head: html.escape(cell) for head, cell in row.items()} for name, row in rows.items()}
    table = _table(cells, list(cells)[:_MOST_ARMS], "with the smallest regrets", of="policy", plural="policies")
    more = "".join(f"<p style='max-width:60em'>{html.escape(each)}</p>" for each in details)
    return (
        f"<div style='color:inherit'><p style='max-width:60em'><b>{html.escape(summary)}</b></p>{table}{more}"
        f"<pre style='color:inherit'>{html.escape(code)}</pre></div>"
    )


def _box(name: str, title: str, content: str) -> str:
    head = f"<div style='margin-bottom:4px'><b>{html.escape(name)}</b>: {html.escape(title)}</div>"
    return f"<div style='color:inherit'>{head}{content}</div>"


def _table(
    rows: Mapping[N, Mapping[str, str]], shown: Sequence[N], why: str, of: str = "arm", plural: str = "arms"
) -> str:
    """Return rows as a table; the cells are HTML, the names of the rows are not."""
    cell = "style='text-align:right;padding:1px 8px;white-space:nowrap;color:inherit'"
    columns = next(iter(rows.values()))
    head = "".join(f"<th {cell}>{html.escape(each)}</th>" for each in (of, *columns))
    body = "".join(
        f"<tr><th {cell}>{html.escape(str(name))}</th>{_cells(rows[name].values(), cell)}</tr>" for name in shown
    )
    more = f"<div>the {len(shown)} of {len(rows)} {plural} {why}</div>" if len(shown) < len(rows) else ""
    return f"<table style='color:inherit'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _changes(changes: Sequence[_Change]) -> str:
    """Return the latest changes as a line, oldest first; nothing if there are none."""
    if not changes:
        return ""
    texts = [change_text(each) for each in changes[-_MOST_CHANGES:]]
    what = "changes noticed" if len(texts) == len(changes) else f"latest {len(texts)} changes noticed"
    return f"<div style='margin-top:4px'>{what}: {html.escape('; '.join(texts))}</div>"


def _pauses(pauses: Sequence[_Pause]) -> str:
    """Return a line for each paused arm."""
    texts = [each.in_words() for each in pauses[:_MOST_ARMS]]
    if len(pauses) > _MOST_ARMS:
        texts.append(f"{counted(len(pauses) - _MOST_ARMS, 'more arm')} paused")
    return "".join(f"<div style='margin-top:4px'>{html.escape(each)}</div>" for each in texts)


def change_text(change: _Change) -> str:
    """Return a change in words."""
    arm = "an arm that is gone" if change.arm is None else str(change.arm)
    outcome = {True: "started afresh", False: "undone", None: "on trial"}[change.kept]
    return f"{arm} after {change.round} losses ({outcome})"


def _cells(values: Iterable[str], style: str) -> str:
    return "".join(f"<td {style}>{each}</td>" for each in values)


def _cells_of(counter: _Counter) -> dict[str, str]:
    return {name: _number(value) for name, value in counter._asdict().items() if name != "probability"}


def _number(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _bar(share: float) -> str:
    width = 100.0 * share
    return (
        f"<svg width='100' height='10' role='img' aria-label='{share:.3f}'>"
        "<rect width='100' height='10' fill='currentColor' fill-opacity='0.12'/>"
        f"<rect width='{width:.1f}' height='10' fill='{_ACCENT}'/></svg> {share:.3f}"
    )


def _curve(mean: Curve, sd: Curve) -> str:
    """Return a curve with its band as SVG, from the smallest to the largest value; 0 is always included."""
    at = spread_out(len(mean), _WIDTH // 2)
    mean, sd = mean[at], np.nan_to_num(sd[at], nan=0.0)
    finite = np.isfinite(mean) & np.isfinite(sd)
    if not finite.any():
        return "<div>too large for a double</div>"
    at, mean, sd = at[finite], mean[finite], sd[finite]
    unit = max(float(np.abs(mean).max()), float(sd.max()), 5e-324)
    mean, sd = mean / unit, sd / unit  # so that nothing overflows
    low, high = min(0.0, float((mean - sd).min())), max(0.0, float((mean + sd).max()))
    height = (high - low) or 1.0
    x = 2 + (_WIDTH - 4) * (at / max(1, at[-1]))

    def points(values: Curve) -> list[str]:
        y = 2 + (_HEIGHT - 4) * (high - values) / height
        return [f"{left:.1f},{top:.1f}" for left, top in zip(x, y, strict=True)]

    zero = 2 + (_HEIGHT - 4) * high / height
    line, band = points(mean), points(mean - sd) + points(mean + sd)[::-1]
    shape = (
        f"<polyline points='{' '.join(line)}' fill='none' stroke='{_ACCENT}' stroke-width='2'/>"
        if len(line) > 1
        else f"<circle cx='{_WIDTH / 2}' cy='{line[0].partition(',')[2]}' r='3' fill='{_ACCENT}'/>"
    )
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='regret'>"
        f"<line x1='0' x2='{_WIDTH}' y1='{zero:.1f}' y2='{zero:.1f}' stroke='currentColor' stroke-opacity='0.3'/>"
        f"<polygon points='{' '.join(band)}' fill='{_ACCENT}' fill-opacity='0.2'/>{shape}</svg>"
    )


def spread_out(n_rounds: int, most: int) -> npt.NDArray[np.intp]:
    """Return at most `most` rounds of a curve, from 0, evenly spread and including the first and the last."""
    return np.unique(np.linspace(0, n_rounds - 1, min(n_rounds, most)).round().astype(np.intp))
