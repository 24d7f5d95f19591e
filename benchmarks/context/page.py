"""What `make bench-context` writes: docs/context.json, and from it parts of docs/context.md and docs/keys.md.

``python -m benchmarks.context.page`` writes the pages again from the file.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from typing import Any

from benchmarks.context.drive import LIMIT, in_the_units_of_the_data, summary
from benchmarks.context.ours import OURS, WITH, WITHOUT
from benchmarks.context.peers import AS_OPTIONS, KNOWN
from benchmarks.context.run import TRANSFORMATIONS
from benchmarks.pages import DOCS, table, wrapped

FILE = DOCS / "context.json"
NO_GOAL = "open bandit"
"""The set that is too small to rank anybody."""
RANDOM, SINGLE = "random choice", "best single arm"

Row = dict[str, Any]


def store(found: dict[str, Any]) -> None:
    """Keep what was measured."""
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read() -> dict[str, Any]:
    """Return what was measured."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def of(rows: list[Row], stream: str, peer: str, losses: str = "as is") -> list[float]:
    """Return the mean losses of a peer on a stream, in the unit of the data; none if it did not run."""
    found = [row for row in rows if (row["stream"], row["peer"], row["losses"]) == (stream, peer, losses)]
    return in_the_units_of_the_data(found[0]) if found and found[0]["means"] else []


def share(rows: list[Row], stream: str, peer: str) -> float:
    """Return the gain over choosing at random, in multiples of the gain of the best single arm."""
    means = of(rows, stream, peer)
    if not means or not of(rows, stream, RANDOM):  # a log does not tell what choosing at random would have cost
        return math.nan
    (random,), (single,) = of(rows, stream, RANDOM), of(rows, stream, SINGLE)
    return (random - statistics.mean(means)) / (random - single)


def knows_range(peer: str) -> bool:
    """Whether a peer was given the range."""
    return peer.endswith((KNOWN, AS_OPTIONS))


def peers_in(rows: list[Row], stream: str) -> list[str]:
    """Return the peers that ran on a stream, ours first."""
    names = list(dict.fromkeys(row["peer"] for row in rows if row["stream"] == stream))
    own = [name for name in OURS if name in names]
    return own + [name for name in names if name not in (*own, RANDOM, SINGLE)]


def shown_mean(means: list[float], n_seeds: int) -> str:
    """Return a mean with its error, and the number of seeds if a peer had no time for all."""
    if not means:
        return ""
    return summary(means) + (f" (seeds: {len(means)})" if len(means) < n_seeds else "")


def table_of(rows: list[Row], stream: str, n_seeds: int) -> str:
    """Return the table of a stream."""
    lines = []
    for peer in peers_in(rows, stream):
        own = peer in OURS
        means = [of(rows, stream, peer, losses) for losses in TRANSFORMATIONS]
        shown = [shown_mean(each, n_seeds) for each in means]
        if not own and knows_range(peer) and peer.endswith(KNOWN):
            shown[1:] = ["the same"] * 2
        gained = share(rows, stream, peer)
        failures = [
            each
            for row in rows
            if (row["stream"], row["peer"]) == (stream, peer)
            for each in row.get("failures", [])
            if "were over" not in each  # the number of seeds says so
        ]
        name = f"**{peer}**" if own else peer
        lines.append((name, *shown, "" if math.isnan(gained) else f"{gained:.2f}", failures[0] if failures else ""))
    lines.sort(key=lambda line: -float(line[4] or -math.inf))
    return table(("", "mean loss", "losses × 1000", "losses + 500", "gain", ""), lines)


def goals(rows: list[Row], streams: list[str]) -> list[tuple[str, str, str]]:
    """Return what was to be reached, what was measured, and whether it was reached."""
    lines = []
    for stream in streams:
        ours = share(rows, stream, WITH)
        known = {peer: share(rows, stream, peer) for peer in peers_in(rows, stream) if knows_range(peer)}
        others = {
            peer: share(rows, stream, peer)
            for peer in peers_in(rows, stream)
            if peer not in OURS and not knows_range(peer)
        }
        for what, rivals, factor in (
            ("0.9 of the best peer that knows the range", known, 0.9),
            ("ahead of all that do not", others, 1.0),
        ):
            best = max((each for each in rivals if not math.isnan(rivals[each])), key=lambda each: rivals[each])
            measured = f"{ours:.2f} beside {rivals[best]:.2f} ({best.removesuffix(KNOWN)})"
            lines.append((f"{stream}: {what}", measured, mark(ours >= factor * rivals[best])))
        gap = [b - a for a, b in zip(of(rows, stream, WITH), of(rows, stream, WITHOUT), strict=True)]
        error = statistics.stdev(gap) / math.sqrt(len(gap))
        mean = statistics.mean(gap)
        lines.append(
            (
                f"{stream}: context pays by more than two standard errors",
                f"{mean:.2f} ± {error:.2f}",
                mark(mean > 2 * error),
            )
        )
        changed = sum(row.get("n_changed", 0) for row in rows if row["stream"] == stream and row["peer"] == WITH)
        lines.append((f"{stream}: choices that × 1000 or + 500 changes", str(changed), mark(changed == 0)))
    return lines


def mark(met: bool) -> str:
    """Return whether a goal was reached."""
    return "✓" if met else "missed"


def measured(found: dict[str, Any]) -> str:
    """Return the measured part of the page on contexts."""
    rows, about = found["rows"], found["streams"]
    streams = [name for name in about if name != NO_GOAL]
    parts = [
        f"Written by `make bench-context`, on {found['machine']}. Peers: {', '.join(found['peers'])}, with their "
        f"default settings. Mean loss per round with its standard error over {found['n_seeds']} seeds; the rounds come "
        f"in the same order for all, and a peer has {LIMIT:g} s for the seeds of a column. "
        "The gain is over choosing at random, in multiples of the gain of the best single "
        "arm: 0 is choosing at random, 1 is always the best arm, more than 1 takes context. Losses × 1000 and + 500 "
        "are shown in the unit of the data. Peers whose name ends with “range known” get losses that were scaled to "
        "[0, 1] by the true range, which nobody knows beforehand; with heavy tails that is a handicap, since nearly "
        "all losses are then close to 0.",
        table(("goal", "measured", ""), goals(rows, streams)),
    ]
    for name in about:
        parts += [f"### {name[:1].upper()}{name[1:]}", about[name], table_of(rows, name, found["n_seeds"])]
        if name != NO_GOAL:
            (random,), (single,) = of(rows, name, RANDOM), of(rows, name, SINGLE)
            parts.append(f"Choosing at random costs {random:.2f} per round, and the best single arm {single:.2f}.")
    parts += ["### Speed", table(("", "ratio", "target", ""), [speed_line(each) for each in found["speed"]])]
    return "\n".join(wrapped(part) if not part.startswith("|") else part + "\n" for part in parts).rstrip() + "\n"


def speed_line(row: list[Any]) -> tuple[str, str, str, str]:
    """Return a line of the table of speeds."""
    what, ratio, target, note = row
    return what, f"{ratio:.2f}", f"≤ {target:g} {mark(ratio <= target)}", note


def splitting(found: dict[str, Any]) -> str:
    """Return the measured part of the page on keys."""
    rows = found["splitting"]
    lines = [
        (
            f"{row['keys']:,}",
            f"{16384 // row['keys']:,}",
            f"{row['mean']:.4f} ± {row['se']:.4f}",
            f"{row['mean'] / rows[0]['mean']:.1f}",
        )
        for row in rows
    ]
    text = (
        "Written by `make bench-context`. 16,384 rounds, five arms with exponential losses of means from 1 to 2, and "
        "keys that do not matter: all that splitting does is cost. Regret per round against the best arm, in 64 trials:"
    )
    return wrapped(text) + "\n" + table(("keys", "rounds for each", "regret per round", "times one key"), lines)


def replaced(text: str, begin: str, new: str) -> str:
    """Return a page with a part of it replaced: from a line that begins the part up to the line that ends it."""
    return re.sub(
        f"{re.escape(begin)}.*?<!-- end -->", lambda _: f"{begin}\n\n{new}\n<!-- end -->", text, flags=re.DOTALL
    )


def write() -> None:
    """Write the measured parts of both pages."""
    found = read()
    for page, begin, new in (
        ("context.md", "<!-- measured: contexts -->", measured(found)),
        ("keys.md", "<!-- measured: splitting -->", splitting(found)),
    ):
        path = DOCS / page
        path.write_text(replaced(path.read_text(encoding="utf-8"), begin, new), encoding="utf-8")


if __name__ == "__main__":
    write()
