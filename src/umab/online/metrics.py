"""A learner's counters as Prometheus knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from umab.online.choice import L, Label
from umab.online.counters import Counter


class Family(NamedTuple):
    """A metric with a value for each arm."""

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    samples: dict[str, float]
    """The value for each arm."""


def families(counters: Mapping[L, Counter], maximize: bool) -> Iterator[Family]:
    """Yield the metrics of a learner."""
    word = "reward" if maximize else "loss"
    described: tuple[tuple[str, str, Literal["counter", "gauge"], str], ...] = (
        ("selected", "umab_selected_total", "counter", "Draws of the arm."),
        ("updates", "umab_updates_total", "counter", "Feedback that arrived for the arm."),
        ("expired", "umab_expired_total", "counter", "Choices of the arm that have expired."),
        ("open", "umab_open_choices", "gauge", "Choices of the arm that wait for feedback."),
        ("probability", "umab_probability", "gauge", "Probability with which the arm is drawn next."),
        ("mean", f"umab_{word}_mean", "gauge", f"Mean {word} of the arm."),
        ("latest", f"umab_{word}_latest", "gauge", f"Latest {word} of the arm."),
    )
    texts = _texts(counters)
    for field, name, kind, text in described:
        values = {texts[arm]: getattr(counter, field) for arm, counter in counters.items()}
        yield Family(name, kind, text, {arm: float(value) for arm, value in values.items() if value is not None})


def _texts(arms: Iterable[Label]) -> dict[Label, str]:
    """Return the labels as texts that differ: beside an arm 1, an arm "1" is written in quotes."""
    texts: dict[Label, str] = {}
    taken: set[str] = set()
    for arm in sorted(arms, key=lambda arm: isinstance(arm, str)):  # numbers first
        text = str(arm)
        while text in taken:
            text = repr(text)
        taken.add(text)
        texts[arm] = text
    return texts


def as_text(counters: Mapping[L, Counter], labels: Mapping[str, str], maximize: bool) -> str:
    """Return the metrics in the text format, version 0.0.4, with more labels beside the arm."""
    for name in labels:
        if not name.replace("_", "a").isalnum() or name[0].isdigit() or not name.isascii() or name == "arm":
            raise ValueError(f"a label must be letters, digits and underscores, and not 'arm', but got {name!r}")
    more = "".join(f',{name}="{_escaped(value)}"' for name, value in labels.items())
    lines = []
    for family in families(counters, maximize):
        lines += [f"# HELP {family.name} {family.text}", f"# TYPE {family.name} {family.kind}"]
        lines += [f'{family.name}{{arm="{_escaped(arm)}"{more}}} {value!r}' for arm, value in family.samples.items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
