"""The page docs/peers.md, as a function of the results."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.pages import table, wrapped
from benchmarks.peers.measure import N_ARMS, N_ROUNDS, N_SEEDS, N_TRIALS, SETTINGS, Robustness, Run, Setting, Speed
from benchmarks.timing import Ratio
from umab.research.report.words import counted

LEAST_SHARE = 0.85
"""The recommended policy must give the best arm a larger share than this in every setting, with every seed."""


class Peer(NamedTuple):
    """What the page says about a peer."""

    name: str
    requirements: Sequence[str]
    versions: dict[str, str]
    lacks: Sequence[str]
    failure: str = ""
    """Why it could not be measured, quoted from the program that failed."""


class Results(NamedTuple):
    """Everything that the page is made from."""

    machine: str
    peers: list[Peer]
    simulation: list[Speed]
    online: list[Speed]
    robustness: list[Robustness]
    recommended: str
    """The name of the recommended policy."""


def page(results: Results) -> str:
    """Return the page, as Markdown."""
    measured = [peer for peer in results.peers if not peer.failure]
    parts = [
        INTRODUCTION,
        wrapped(VERSIONS.format(machine=results.machine, versions=", ".join(map(shown_versions, measured)))),
        TURNS,
        wrapped(SIMULATION.format(n_trials=N_TRIALS, n_rounds=N_ROUNDS, n_arms=N_ARMS)),
        table(
            ["library", "policy", "run by", "times as long as umab", f"seconds for {N_TRIALS} trials"],
            map(simulation_row, results.simulation),
        ),
        ONLINE.format(n_arms=N_ARMS),
        table(
            ["library", "policy", "times as long as umab", "µs per decision"],
            map(online_row, results.online),
        ),
        wrapped(ROBUSTNESS.format(n_seeds=N_SEEDS, verdict=verdict(results))),
        table(["library", "policy", *(setting.name for setting in SETTINGS)], map(robustness_row, results.robustness)),
        LACKING,
        table(["library", "what it lacks"], ([peer.name, "; ".join(peer.lacks)] for peer in measured)),
    ]
    failed = [[peer.name, " ".join(peer.requirements), peer.failure] for peer in results.peers if peer.failure]
    parts += [FAILED, table(["library", "asked for", "what happened"], failed)] if failed else [NONE_FAILED]
    return "\n".join(parts)


INTRODUCTION = """\
# umab next to its peers

This page is written by a command, never by hand:

```sh
make bench-peers
```

It installs every library in its own environment below `.venv-peers`, and gives all of them the same work. Once they are
installed, that takes some minutes. [What their EXP3 computes](cross-checks.md) is compared on another page.
"""

VERSIONS = """\
Measured on {machine}. Versions: {versions}.
"""

TURNS = """\
Times are ratios. A peer and umab take turns. Each runs in its own process, which times itself after a warm-up, on one
thread unless all threads are named. A ratio is the median over the turns, with the middle half in brackets. Policies
run with their default parameters; if a parameter was set, it is shown after the name. If a library has no EXP3, its
nearest policy is used.
"""

SIMULATION = """\
## Many trials

{n_trials} trials of {n_rounds} rounds with {n_arms} arms; losses are 0 or 1. If that would take long, fewer trials were
run and the time was scaled up, and the last column says so. Every policy is compared with umab's EXP3 on one thread, or
with the policy of umab that is named. NumPy is EXP3 as a loop over the rounds, with all trials in one array; the tests
show that it plays the same arms as umab's EXP3. umab counts sampled regret.
"""

ONLINE = """\
## One decision at a time

Select and update with {n_arms} arms, compared with `umab.Learner` and EXP3, or the policy of umab that is named.
"""

ROBUSTNESS = """\
## Other losses than expected

Five arms that never change, with mean losses of 0, ¼, ½, ¾ and 1 times the scale, and noise with a standard deviation
of 0.3 times the scale. In the first column half the scale is subtracted, so that signs are mixed; in the last column
losses are clipped to [0, 1]. Libraries that take rewards get 1 − loss for losses in [0, 1], and −loss otherwise. No
library is told the scale; umab and the loop in NumPy are told the number of rounds if they need it.

The number is the share of the best arm in the last half of the rounds: the mean over {n_seeds} seeds, with the worst
seed in brackets. "As uniform" means that no arm was played more or less often than uniform draws explain, without an
error. "Refuses" means that the library checks the number and rejects it; other libraries stop with an error of their
own. If a library was too slow for all seeds or all rounds, the cell says how many it finished.

{verdict}
"""

LACKING = """\
## What they cannot do

Verified in their source code, for the policies above.
"""

FAILED = """\
## Not measured

These libraries could not be installed or imported. The reasons are quoted from the programs that failed.
"""

NONE_FAILED = """\
All of them installed.
"""


def shown_versions(peer: Peer) -> str:
    """Return the versions of a peer and of what it was installed with."""
    first, *others = (f"{name} {version}" for name, version in peer.versions.items())
    return f"{first} (with {', '.join(others)})" if others else first


def simulation_row(speed: Speed) -> list[str]:
    """Return the row of a policy in the table of many trials."""
    way = "its own simulation" if speed.own_simulation else "select and update"
    scaled = f" (from {counted(speed.n_trials, 'trial')})" if speed.n_trials < N_TRIALS else ""
    seconds = "" if speed.ratio is None else number(speed.ratio.seconds) + scaled
    return [speed.peer, speed.policy, way, times(speed), seconds]


def online_row(speed: Speed) -> list[str]:
    """Return the row of a policy in the table of one decision at a time."""
    return [speed.peer, speed.policy, times(speed), "" if speed.ratio is None else number(speed.ratio.seconds * 1e6)]


def times(speed: Speed) -> str:
    """Return the ratio of a row, and what it was compared with unless that is EXP3; or why there is none."""
    if speed.ratio is None:
        return speed.failure
    against = "" if speed.against == "exp3" else f", vs {speed.against}"
    return shown_ratio(speed.ratio) + against


def shown_ratio(ratio: Ratio) -> str:
    """Return a ratio with its middle half."""
    return f"{number(ratio.median)} ({number(ratio.low)}–{number(ratio.high)})"


def number(value: float) -> str:
    """Return a positive number with about three digits, without a power of ten."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.1f}" if value >= 10.0 else f"{value:.2f}"


def robustness_row(row: Robustness) -> list[str]:
    """Return the row of a policy in the table of unexpected losses."""
    cells = [outcome(setting, runs, row.refusals) for setting, runs in zip(SETTINGS, row.runs, strict=False)]
    return [row.peer, row.policy, *cells, *["not reached"] * (len(SETTINGS) - len(cells))]


def outcome(setting: Setting, runs: list[Run], refusals: Sequence[str]) -> str:
    """Say what happened with the seeds of a setting."""
    parts = []
    through, failed = [run for run in runs if not run.failure], [run for run in runs if run.failure]
    if through:
        shares = [run.share for run in through]
        parts.append(f"{sum(shares) / len(shares):.2f} ({min(shares):.2f})")
        n_uniform = sum(run.as_uniform for run in through)
        if n_uniform:
            parts.append("as uniform" + (f" with {n_uniform} seeds" if n_uniform < len(through) else ""))
        rounds = min(run.n_rounds for run in through)
        if rounds < setting.n_rounds:
            parts.append(f"first {rounds:,} rounds")
        if len(through) < N_SEEDS:
            parts.append(counted(len(through), "seed"))
    if failed:
        word = textwrap.shorten(failed[0].failure, 80, placeholder=" …")
        if all(any(words in run.failure for words in refusals) for run in failed):
            parts.append(f"refuses: {word}")
        else:
            ends = sorted({run.n_rounds + 1 for run in failed})
            span = f"{ends[0]:,}" if len(ends) == 1 else f"{ends[0]:,} to {ends[-1]:,}"
            seeds = f" with {len(failed)} of {len(runs)} seeds" if through else ""
            parts.append(f"stops in round {span}{seeds}: {word}")
    return ", ".join(parts)


def worst_shares(results: Results) -> list[float]:
    """Return the smallest share of the best arm in each setting, for the recommended policy."""
    (row,) = [each for each in results.robustness if (each.peer, each.policy) == ("umab", results.recommended)]
    return [min(0.0 if run.failure else run.share for run in runs) for runs in row.runs]


def holds(results: Results) -> bool:
    """Return whether the recommended policy gives the best arm its share everywhere."""
    return min(worst_shares(results)) > LEAST_SHARE


def verdict(results: Results) -> str:
    """Say whether the recommended policy holds."""
    mark = "✓" if holds(results) else "✗"
    shares = ", ".join(f"{share:.2f}" for share in worst_shares(results))
    return (
        f"{mark} `umab.recommended()` must give the best arm a share above {LEAST_SHARE} in every column, with every "
        f"seed: {shares}."
    )
