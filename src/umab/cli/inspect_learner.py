"""`umab inspect`."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from umab._support.display import change_text, counted
from umab.algorithms.base import Change, Pause
from umab.algorithms.names import policy_as_written
from umab.cli.learner_findings import Contents, Finding, OpenChoice, age_in_words, findings, label_text
from umab.cli.options import Commands, command
from umab.cli.texts import as_table
from umab.online.choice import Label
from umab.online.learner import Learner
from umab.online.migrations import checked_version
from umab.online.saved import read_text

_MOST_ARMS = 20
"""The most arms that are printed without --all."""

_OLDEST = 5
"""How many of the oldest open choices are printed."""

_EARLIEST = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
_LATEST = 3600.0
"""No choice was drawn before `_EARLIEST` or this many seconds in the future, by the system clock."""


def add(commands: Commands) -> None:
    """Add the command."""
    inspecting = command(
        commands,
        "inspect",
        inspect,
        "show a saved learner: arms, probabilities, counters, open choices, changes, pauses, and what looks wrong",
        "umab inspect learner.json --all",
    )
    inspecting.add_argument("learner", help="a file that Learner.save has written; it is not changed")
    inspecting.add_argument(
        "--policy",
        metavar="POLICY",
        help="the policy of the learner, if it is not registered, given as MODULE:CLASS or MODULE:CLASS:KEY=VALUE",
    )
    inspecting.add_argument(
        "--all", action="store_true", help=f"show all arms, not only the {_MOST_ARMS} with the highest probabilities"
    )
    inspecting.add_argument("--json", action="store_true", help="print all of it as JSON, with all arms, for scripts")


class Inspected(NamedTuple):
    """A saved learner, as it is printed."""

    file: str
    version: int
    policy: str
    contents: Contents
    ageless: str
    """Why the ages of open choices are not known; nothing if they are."""
    changes: list[Change[Label]]
    """The latest changes that the policy has noticed, oldest first."""
    pauses: list[Pause[Label]]
    """The arms that the policy leaves alone now."""
    findings: list[Finding]

    @property
    def feedback(self) -> str:
        """What the learner is told: "loss" or "reward"."""
        return "reward" if self.contents.maximize else "loss"

    def total(self, field: str) -> int:
        """Return a counter, summed over the arms."""
        return sum(getattr(each, field) for each in self.contents.counters.values())

    @property
    def oldest_first(self) -> list[OpenChoice]:
        """The open choices by age; in the order of their draws if ages are not known."""
        return sorted(self.contents.open, key=lambda each: -(each.age or 0.0))

    @property
    def ages(self) -> list[float]:
        """The ages that are known."""
        return [each.age for each in self.contents.open if each.age is not None]


def inspect(options: argparse.Namespace) -> None:
    """Print a saved learner, as a page or as JSON."""
    seen = inspected(options.learner, options.policy)
    print(
        _as_json(seen) if options.json else _as_page(seen, len(seen.contents.counters) if options.all else _MOST_ARMS)
    )


def inspected(path: str, policy: str | None) -> Inspected:
    """Return what is in the file of a learner."""
    given = None if policy is None else policy_as_written(policy)
    try:
        # Read once: the service that the learner belongs to may replace the file at any time.
        text = Path(path).read_text(encoding="utf-8")
        learner = Learner.from_json(text, policy=given)
    except ValueError as error:
        advice = str(error).replace("Learner.load(path, policy=...)", "--policy MODULE:CLASS")
        raise ValueError(f"cannot load {path!r}: {advice}") from None
    version = checked_version(read_text(text)["version"])
    open_choices, ageless = _open(learner)
    contents = Contents(learner.maximize, learner.counters(), open_choices)
    changes, pauses = learner.changes(), learner.pauses()
    return Inspected(path, version, learner.policy.name, contents, ageless, changes, pauses, findings(contents))


def _open(learner: Learner) -> tuple[list[OpenChoice], str]:
    """Return the open choices, and why their ages are not known, if they are not."""
    known = learner._core.open.values()  # a learner does not show the times of its choices
    now, ageless = time.time(), ""
    if any(not _EARLIEST <= drawn_at <= now + _LATEST for *_, drawn_at, _, _ in known):
        ageless = "the learner has a clock of its own"
    found = [
        OpenChoice(choice.id, choice.arm, None if ageless else max(0.0, now - drawn_at), index is None)
        for choice, index, *_, drawn_at, _, _ in known
    ]
    return found, ageless


def _as_page(seen: Inspected, most_arms: int) -> str:
    better = "rewards, higher is better" if seen.contents.maximize else "losses, lower is better"
    head = [
        ("file", f"{seen.file}, version {seen.version}"),
        ("policy", seen.policy),
        ("feedback", better),
        ("arms", str(len(seen.contents.counters))),
        ("draws", str(seen.total("selected"))),
        ("updates", str(seen.total("updates"))),
    ]
    wrong = [f"- {each.text}." if each.text[-1] != "?" else f"- {each.text}" for each in seen.findings]
    parts = [
        as_table(head),
        _arms_table(seen, most_arms),
        _open_table(seen),
        *_changes(seen),
        *_pauses(seen, most_arms),
        "\n".join(["What looks wrong", *wrong]) if wrong else "Nothing looks wrong.",
    ]
    return "\n\n".join(parts)


def _arms_table(seen: Inspected, most: int) -> str:
    likeliest = sorted(seen.contents.counters.items(), key=lambda item: -item[1].probability)
    fields = ("probability", "selected", "updates", "open", "expired", "mean", "lowest", "highest", "latest")
    rows = [
        (label_text(arm), *(_number(getattr(counter, field)) for field in fields)) for arm, counter in likeliest[:most]
    ]
    note = f"\n\nThe {most} of {len(likeliest)} arms with the highest probabilities; --all shows all."
    return as_table([("arm", *fields), *rows], line=True) + (note if len(likeliest) > most else "")


def _open_table(seen: Inspected) -> str:
    oldest = seen.oldest_first[:_OLDEST]
    if not oldest:
        return "No open choices."
    title = counted(len(seen.contents.open), "open choice")
    if seen.ageless:
        title += f"; ages are not known: {seen.ageless}"
    else:
        ages = seen.ages
        title += f"; oldest {age_in_words(max(ages))}, median age {age_in_words(statistics.median(ages))}"
    rows = [
        (
            str(each.id),
            label_text(each.arm) + " (gone)" * each.gone,
            "–" if each.age is None else age_in_words(each.age),
        )
        for each in oldest
    ]
    return f"{title}\n\n" + as_table([("id", "arm", "age"), *rows], line=True)


def _changes(seen: Inspected) -> list[str]:
    """Return one line for each change, below a title; no part of the page if there are none."""
    named = [each if each.arm is None else each._replace(arm=label_text(each.arm)) for each in seen.changes]
    lines = [f"- {change_text(each)}" for each in named]
    return ["\n".join(["Latest changes noticed, oldest first", *lines])] if lines else []


def _pauses(seen: Inspected, most: int) -> list[str]:
    """Return one line for each paused arm, below a title; no part of the page if there are none."""
    lines = [f"- {Pause(label_text(each.arm), each.round, each.probe_in).in_words()}" for each in seen.pauses[:most]]
    if len(seen.pauses) > most:
        lines.append(f"- {counted(len(seen.pauses) - most, 'more arm')}; --all shows all")
    return ["\n".join(["Paused arms", *lines])] if lines else []


def _number(value: float | None) -> str:
    return "–" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"


def _as_json(seen: Inspected) -> str:
    """Return the page for scripts, with all arms, and ages in seconds."""
    ages = seen.ages
    content: dict[str, object] = {
        "file": seen.file,
        "version": seen.version,
        "policy": seen.policy,
        "feedback": seen.feedback,
        "n_arms": len(seen.contents.counters),
        "draws": seen.total("selected"),
        "updates": seen.total("updates"),
        "arms": [{"arm": arm, **counter._asdict()} for arm, counter in seen.contents.counters.items()],
        "open": {
            "n": len(seen.contents.open),
            "oldest_age": max(ages) if ages else None,
            "median_age": statistics.median(ages) if ages else None,
            "oldest": [each._asdict() for each in seen.oldest_first[:_OLDEST]],
        },
        "changes": [each._asdict() for each in seen.changes],
        "pauses": [each._asdict() for each in seen.pauses],
        "findings": [each._asdict() for each in seen.findings],
    }
    return json.dumps(content, indent=2, allow_nan=False)
