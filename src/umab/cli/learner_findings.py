"""What looks wrong in a saved learner: one rule for each mistake that its counters and open choices give away."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from umab._support.display import counted
from umab._support.progress import duration
from umab.online.choice import Label
from umab.online.counters import Counter

OFTEN = 100
"""An arm that was drawn this often should have had feedback, and this many losses should not all be the same."""

ENOUGH = 10
"""A share of fewer draws or choices than this says nothing."""

MISSING = 0.5
"""An arm with feedback for a smaller share of its draws is suspicious, if other arms have feedback for nearly all."""

NEARLY_ALL = 0.9
"""The share of their draws for which the other arms must have feedback."""

EXPIRED = 0.5
"""An arm is suspicious if a larger share of its closed choices has expired."""

DAY = 86400.0

OLD = DAY
"""A choice that has been open for longer than this many seconds probably stays open for ever."""

SURE = 0.999
"""With a probability above this, the other arms are tried less than once in a thousand rounds."""

OUTLYING = 1e6
"""A loss that is more than this many times the usual size may be in another unit."""

_NAMED = 5
"""The most arms that a finding names."""


class OpenChoice(NamedTuple):
    """An open choice."""

    id: str
    arm: Label
    age: float | None
    """In seconds; None if it is not known."""
    gone: bool
    """Whether its arm is no longer there."""


class Contents(NamedTuple):
    """What the rules look at."""

    maximize: bool
    counters: dict[Label, Counter]
    open: Sequence[OpenChoice]


class Finding(NamedTuple):
    """Something that looks wrong."""

    rule: str
    """The name of the rule, for scripts."""
    text: str
    arms: tuple[Label, ...]
    """The arms that it is about; none if it is about all."""


def findings(contents: Contents) -> list[Finding]:
    """Return what looks wrong, at most one finding for each rule."""
    return [found for rule in _RULES for found in rule(contents)]


def age_in_words(seconds: float) -> str:
    """Return an age in a unit that suits it.

    Examples
    --------
    >>> from umab.cli.learner_findings import age_in_words
    >>> age_in_words(5.0), age_in_words(7800.0), age_in_words(300000.0)
    ('5 s', '2 h 10 min', '3 days')
    """
    return duration(seconds) if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"


def label_text(label: Label) -> str:
    r"""Return a label in one short line: a file may hold any, with line breaks or codes that a terminal obeys.

    Examples
    --------
    >>> from umab.cli.learner_findings import label_text
    >>> label_text("eu"), label_text(7), label_text("two\nlines")
    ('eu', '7', "'two\\nlines'")
    """
    text = str(label)
    shown = text if text.isprintable() and text.strip() == text != "" else ascii(text)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def _no_feedback(contents: Contents) -> Iterator[Finding]:
    n_draws = sum(each.selected for each in contents.counters.values())
    if n_draws >= ENOUGH and not _n_updates(contents):
        text = f"{counted(n_draws, 'draw')}, but no feedback has arrived; without feedback nothing is learned"
        yield Finding("no-feedback", text, ())


def _silent_arms(contents: Contents) -> Iterator[Finding]:
    silent = [arm for arm, each in contents.counters.items() if _is_silent(each)]
    if silent and _n_updates(contents):
        text = f"{_named(silent)}: drawn {OFTEN} times or more, but no feedback has arrived"
        yield Finding("silent-arm", text, tuple(silent))


def _missing_feedback(contents: Contents) -> Iterator[Finding]:
    # An expired choice is not missing: its loss is assumed, or `_expired` finds it.
    due = {arm: max(0, each.selected - each.expired) for arm, each in contents.counters.items()}
    had = {arm: min(each.updates, due[arm]) for arm, each in contents.counters.items()}
    missing = [
        arm
        for arm, each in contents.counters.items()
        if due[arm] >= ENOUGH and had[arm] < MISSING * due[arm] and not _is_silent(each)
    ]
    others = [arm for arm in due if had[arm] >= MISSING * due[arm]]
    due_of_others = sum(due[arm] for arm in others)
    if missing and due_of_others >= ENOUGH and sum(had[arm] for arm in others) >= NEARLY_ALL * due_of_others:
        text = (
            f"{_named(missing)}: feedback for less than {MISSING:.0%} of the draws, while the other arms have it for "
            "nearly all; an arm whose failures are not reported looks good"
        )
        yield Finding("missing-feedback", text, tuple(missing))


def _old_choices(contents: Contents) -> Iterator[Finding]:
    old = [(each.age, each.arm) for each in contents.open if each.age is not None and each.age > OLD]
    if old:
        text = (
            f"{counted(len(old), 'choice')} open for longer than a day, up to "
            f"{age_in_words(max(age for age, _ in old))}; if their feedback never comes, learner.expire closes them"
        )
        yield Finding("old-choices", text, _distinct(arm for _, arm in old))


def _expired(contents: Contents) -> Iterator[Finding]:
    closed = {arm: each.updates + each.expired for arm, each in contents.counters.items()}
    expired = [
        arm for arm, each in contents.counters.items() if closed[arm] >= ENOUGH and each.expired > EXPIRED * closed[arm]
    ]
    if expired:
        text = (
            f"{_named(expired)}: more than {EXPIRED:.0%} of the closed choices have expired; they are learned at the "
            "loss that expire assumes, or not at all with forget=True"
        )
        yield Finding("expired", text, tuple(expired))


def _sure(contents: Contents) -> Iterator[Finding]:
    probabilities = {arm: each.probability for arm, each in contents.counters.items()}
    # The probability of a single arm, or while a policy plays each arm first, is not learned.
    if len(probabilities) > 1 and min(probabilities.values()) > 0.0:
        for arm, probability in probabilities.items():
            if probability > SURE:
                text = (
                    f"{label_text(arm)}: probability {probability:.6f}; if another arm becomes better, the learner "
                    "will notice late"
                )
                yield Finding("sure", text, (arm,))


def _identical(contents: Contents) -> Iterator[Finding]:
    values = {value for each in contents.counters.values() for value in (each.lowest, each.highest)} - {None}
    n_updates = _n_updates(contents)
    if n_updates >= OFTEN and len(values) == 1:
        words = "rewards" if contents.maximize else "losses"
        text = f"all {n_updates} {words} are {values.pop():g}; are they measured?"
        yield Finding("identical", text, ())


def _outlying(contents: Contents) -> Iterator[Finding]:
    largest, arm = max(((_largest(each), arm) for arm, each in contents.counters.items()), key=lambda pair: pair[0])
    if largest == 0.0:
        return
    shares = sorted(_usual(each, largest) for each in contents.counters.values() if each.updates >= ENOUGH)
    usual = shares[(len(shares) - 1) // 2] if shares else 0.0  # the median, or the lower of two
    if 0.0 < usual < 1.0 / OUTLYING:
        word = "reward" if contents.maximize else "loss"
        text = (
            f"{label_text(arm)}: a {word} of size {largest:.3g}, while the usual size is about "
            f"{usual * largest:.3g}; are all of them in one unit?"
        )
        yield Finding("outlying", text, (arm,))


def _gone(contents: Contents) -> Iterator[Finding]:
    gone = [each.arm for each in contents.open if each.gone]
    if gone:
        arms = _distinct(gone)
        text = f"{counted(len(gone), 'open choice')} of arms that are gone: {_named(arms)}; learner.forget closes them"
        yield Finding("gone", text, arms)


_RULES: tuple[Callable[[Contents], Iterator[Finding]], ...] = (
    _no_feedback,
    _silent_arms,
    _missing_feedback,
    _old_choices,
    _expired,
    _sure,
    _identical,
    _outlying,
    _gone,
)


def _is_silent(counter: Counter) -> bool:
    return counter.selected >= OFTEN and counter.updates == 0


def _largest(counter: Counter) -> float:
    """Return the largest size of an arm's losses, 0 if it has none."""
    return max(abs(counter.lowest or 0.0), abs(counter.highest or 0.0))


def _usual(counter: Counter, unit: float) -> float:
    """Return about how large the losses of an arm are without its largest, in a unit in which no loss is above 1.

    A mean that includes the largest of n losses is at least 1/n of it, so it would hide an outlier.
    """
    mean, lowest, highest = ((each or 0.0) / unit for each in (counter.mean, counter.lowest, counter.highest))
    n = counter.updates
    largest = highest if abs(highest) >= abs(lowest) else lowest
    rest = abs(n * mean - largest) / (n - 1)
    if rest < n * sys.float_info.epsilon * abs(largest):  # not more than what rounding leaves over
        rest = 0.0
    return max(rest, min(abs(lowest), abs(highest)))


def _n_updates(contents: Contents) -> int:
    return sum(each.updates for each in contents.counters.values())


def _distinct(arms: Iterable[Label]) -> tuple[Label, ...]:
    return tuple(dict.fromkeys(arms))


def _named(arms: Sequence[Label]) -> str:
    """Return the labels of arms; only the first of many."""
    more = f" and {len(arms) - _NAMED} more" if len(arms) > _NAMED else ""
    return ", ".join(label_text(arm) for arm in arms[:_NAMED]) + more
