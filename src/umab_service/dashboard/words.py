"""What the pages say: numbers that can be read at a glance, texts that cannot hurt, and events in words."""

from __future__ import annotations

import datetime
import math
from typing import NamedTuple

import msgspec

from umab_service import log
from umab_service.schema import Estimates

MOST_SHOWN = 60
"""How many characters of a name are shown in the text of an event."""


def plain(text: object) -> str:
    """Return a text in which nothing is hidden: what does not print, such as a turn of direction, is written out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text))


def short(text: object, most: int = MOST_SHOWN) -> str:
    """Return a text that is not too long."""
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def count(number: float) -> str:
    """Return a whole number, with its thousands apart."""
    return f"{number:,.0f}"


def figure(value: float | None) -> str:
    """Return a number with three digits that count.

    Examples
    --------
    >>> figure(1234.5), figure(12.345), figure(-0.00123), figure(1.5e12), figure(None)
    ('1,234', '12.3', '−0.00123', '1.5e+12', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0.0:
        return "0"
    digits = math.floor(math.log10(abs(value)))
    if not -5 <= digits <= 8:
        shown = f"{value:.3g}"
    else:
        shown = f"{value:,.{max(0, 2 - digits)}f}"
        if "." in shown:
            shown = shown.rstrip("0").rstrip(".")
    return shown.replace("-", "−")


def percent(share: float) -> str:
    """Return a share in percent; what is not nothing is not shown as nothing.

    Examples
    --------
    >>> percent(0.4142), percent(0.004), percent(0.9996), percent(0.0), percent(1.0)
    ('41 %', '<1 %', '>99 %', '0 %', '100 %')
    """
    if 0.0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1.0:
        return ">99 %"
    return f"{100.0 * share:.0f} %".replace("-", "−")


def clock(at: float) -> str:
    """Return a time of the day, in UTC."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%H:%M:%S")


def day(at: float) -> str:
    """Return a date, in UTC."""
    found = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return f"{found.day} {found:%b %Y}"


def ago(seconds: float) -> str:
    """Return how long ago something was.

    Examples
    --------
    >>> ago(3.0), ago(200.0), ago(90000.0)
    ('now', '3 min ago', '25 h ago')
    """
    if seconds < 60.0:
        return "now"
    for name, unit, most in (("min", 60.0, 90.0), ("h", 3600.0, 48.0)):
        if seconds < unit * most:
            return f"{seconds / unit:.0f} {name} ago"
    return f"{seconds / 86400.0:,.0f} days ago"


class Saving(NamedTuple):
    """What an experiment has saved, or gained, against choosing at random: a number, what it is, and how sure it is."""

    number: str
    label: str
    interval: str
    kind: str = "unknown"
    """good, bad, or unknown if there may be no difference."""
    doubts: tuple[str, ...] = ()


def saving(found: Estimates | None, maximize: bool) -> Saving:
    """Return the saving in words; in percent where that means something."""
    if found is None:
        return Saving("…", "estimating the saving", "reading the log")
    if not found.rounds:
        return Saving("–", "nothing saved yet", "there is no feedback yet")
    if found.saved is None or found.at_random is None or found.paid is None:
        return Saving("–", "saving not known yet", "the log says too little about choosing at random")
    ends = [found.at_random.low, found.at_random.high]
    mean, low, high = found.saved.mean, found.saved.low, found.saved.high
    unit = "reward" if maximize else "loss"
    number, interval = figure(abs(mean)), f"{figure(low)} to {figure(high)}"
    label = f"{unit} per decision "
    if all(end is not None and end > 0.0 for end in ends) and found.paid >= 0.0:
        sign = -1.0 if maximize else 1.0
        at = [sign * (1.0 - found.paid / end) for end in (found.at_random.mean, *ends) if end is not None]
        number, label = f"{100.0 * abs(at[0]):.0f} %", ""
        interval = "{:.0f} to {:.0f} %".format(*sorted(100.0 * each for each in at[1:])).replace("-", "−")
    doubts = tuple(found.at_random.doubts)
    rounds = f"{count(found.rounds)} decisions with feedback"
    if low is None or high is None:
        return Saving(number, f"{label}, interval not known", f"from {rounds}", "unknown", doubts)
    told = f"{interval}, with {100.0 * found.at_random.confidence:.0f} % confidence, from {rounds}"
    if low <= 0.0 <= high:
        return Saving(number, f"{label}no clear difference from choosing at random yet", told, "unknown", doubts)
    if mean > 0.0:
        return Saving(
            number, f"{label}{'gained' if maximize else 'saved'} against choosing at random", told, "good", doubts
        )
    return Saving(number, f"{label}lost against choosing at random", told, "bad", doubts)


class Event(NamedTuple):
    """An event of the log."""

    seq: int
    at: float
    kind: str
    text: str


def event(seq: int, at: float, kind: str, content: bytes, maximize: bool) -> Event:
    """Return an event in words, without the learner in it."""
    body = msgspec.json.decode(content)
    unit = "reward" if maximize else "loss"
    if kind == log.DECIDED:
        (_, first), *more = body["draws"]
        text = f"{short(first[0])}, with probability {figure(first[2])}" + (f", and {len(more)} more" if more else "")
    elif kind in (log.LEARNED, log.LATE, log.ACCEPTED):
        draw = body.get("draw")
        text = f"{unit} {figure(body['value'])}" + (f" for {short(draw[0])}" if draw else "")
    elif kind == log.EXPIRED:
        parts = [(len(body["learned"]), f"learned the default {unit} or a sum"), (len(body["forgotten"]), "forgotten")]
        text = ", ".join(f"{n} {name}" for n, name in parts if n)
    elif kind == log.ARMS:
        text = short(", ".join(plain(arm) for arm in body["arms"]), 200)
    elif kind == log.CHANGED:
        text = "archived" if body["settings"].get("archived") else "settings changed"
    elif kind == log.ACTIVATED:
        text = f"the wait of {short(body['decision'])} has begun"
    else:
        text = {log.CREATED: "the experiment begins", log.IMPORTED: "another learner was imported"}.get(kind, "")
    return Event(seq, at, kind, text)
