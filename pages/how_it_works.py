"""The picture of docs/how-it-works.md as it is without JavaScript, drawn by the library itself.

`python -m pages.how_it_works docs` plays the policies, and writes the picture into the page.
docs/assets/how-it-works.js plays the same in the browser, for the outlier that the reader wants to see.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import umab
from umab._support.files import write_atomically

PAGE = "how-it-works.md"
PLACE = re.compile(r"(?<=<!-- picture -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)

MEANS = (1.0, 2.0, 4.0)
ARMS = ("A", "B", "C")
COLOURS = ("#0072b2", "#e69f00", "#9a9a9a")
ROUNDS = 1000
SEED = 20187
"""Of thirty that were tried, the run nearest to the median of all."""
SIZE, ROUND, GUESS = 100.0, 50, 20.0
"""Where the controls are when the page is opened."""

LEFT, TOP, WIDTH, HEIGHT = 34, 6, 360, 170
LOWEST, HIGHEST = 0.1, 1000.0
"""Which losses the picture of the losses shows."""

EVERY = 5
"""In which rounds probabilities and losses are drawn, so that the page stays small."""


class Round(NamedTuple):
    """What would happen: the loss of every arm, and the uniform number that draws the arm."""

    losses: list[float]
    draw: float


class Played(NamedTuple):
    """What a policy did: its probabilities in every round, and its loss beyond that of the first arm."""

    probabilities: list[list[float]]
    lost: float


def uniforms(seed: int) -> Iterator[float]:
    """Yield numbers that look random, by the same rule as in the browser."""
    state = seed
    while True:
        state = 48271 * state % 2147483647
        yield state / 2147483647


def table() -> list[Round]:
    """Return what happens in all rounds, but for the outlier."""
    random = uniforms(SEED)
    return [Round([-mean * math.log(next(random)) for mean in MEANS], next(random)) for _ in range(ROUNDS)]


def rescaling() -> Callable[[float], float]:
    """Return what divides a loss by the largest so far."""
    largest = 0.0

    def told(loss: float) -> float:
        nonlocal largest
        largest = max(largest, loss)
        return loss / largest

    return told


def contenders(guess: float) -> dict[str, tuple[umab.Policy, Callable[[float], float]]]:
    """Return the policies by their names in the browser, each with what it is told of a loss."""
    return {
        "umab": (umab.recommended(changing=False), lambda loss: loss),
        "clipped": (umab.EXP3(high=guess, horizon=ROUNDS), lambda loss: min(loss, guess)),
        "rescaled": (umab.EXP3(high=1.0, horizon=ROUNDS), rescaling()),
    }


def play(policy: umab.Policy, told: Callable[[float], float], size: float, round: int) -> Played:
    """Play all rounds, in one of which every arm costs `size`."""
    learner = umab.Learner(policy, arms=len(MEANS), seed=0)
    probabilities, lost = [], 0.0
    for t, (losses, draw) in enumerate(table(), start=1):
        p = learner.probabilities().tolist()
        arm = next(k for k in range(len(p)) if draw < sum(p[: k + 1]) or k == len(p) - 1)
        loss = size if t == round else losses[arm]
        lost += 0.0 if t == round else losses[arm] - losses[0]
        learner.update(arm, told(loss), probability=p[arm])
        probabilities.append(p)
    return Played(probabilities, lost)


def play_all(size: float, round: int, guess: float) -> dict[str, Played]:
    """Play with all policies, for one position of the controls."""
    return {name: play(policy, told, size, round) for name, (policy, told) in contenders(guess).items()}


def across(round: float) -> float:
    """Return where a round is drawn."""
    return LEFT + WIDTH * (round - 1) / (ROUNDS - 1)


def up(share: float) -> float:
    """Return where a share of the height is drawn."""
    return TOP + HEIGHT * (1.0 - share)


def in_logs(loss: float) -> float:
    """Return at which share of the height a loss is drawn."""
    return math.log(max(loss, LOWEST) / LOWEST) / math.log(HIGHEST / LOWEST)


def area(probabilities: list[list[float]], last: int) -> str:
    """Return the outline of the arms up to `last`, stacked."""
    shown = [*range(0, ROUNDS - 1, EVERY), ROUNDS - 1]
    points = [f"{across(t + 1):.1f} {up(sum(probabilities[t][: last + 1])):.1f}" for t in shown]
    return f"M{'L'.join(points)}V{up(0.0):.0f}H{LEFT}Z"


def frame(labels: dict[str, float], inside: str, kind: str, described: str) -> str:
    """Return a panel: axes with labels on the left, and what is inside."""
    ticks = "".join(
        f'<text x="{LEFT - 4}" y="{up(share) + 4:.0f}" text-anchor="end">{label}</text>'
        for label, share in labels.items()
    )
    bottom = TOP + HEIGHT + 16
    return (
        f'<svg class="{kind}" viewBox="0 0 400 {bottom + 4}" role="img" aria-label="{described}">{inside}{ticks}'
        f'<text x="{LEFT}" y="{bottom}">round 1</text>'
        f'<text x="{LEFT + WIDTH}" y="{bottom}" text-anchor="end">{ROUNDS}</text></svg>'
    )


def where() -> str:
    """Return the line that says in which round the outlier is."""
    x = f"{across(ROUND):.1f}"
    return f'<line class="at" x1="{x}" x2="{x}" y1="{TOP}" y2="{TOP + HEIGHT}"/>'


def losses_panel() -> str:
    """Return the panel of the losses, with the outlier."""
    dots = [
        f"M{across(t + 1):.1f} {up(in_logs(each.losses[0])):.1f}h0" for t, each in enumerate(table()) if t % EVERY == 0
    ]
    line = f"{up(in_logs(GUESS)):.1f}"
    inside = (
        f'<path class="loss" d="{"".join(dots)}"/>'
        f'<line class="guess" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{line}" y2="{line}"/>{where()}'
        f'<circle class="dot" cx="{across(ROUND):.1f}" cy="{up(in_logs(SIZE)):.1f}" r="8"/>'
    )
    labels = {f"{10.0**power:g}": in_logs(10.0**power) for power in range(-1, 4)}
    described = "the losses of arm A in all rounds, and one outlier far above them"
    return _PANEL.format(
        more="",
        title="The losses",
        about="of arm A. Drag the red outlier. The dashed line is the guess.",
        svg=frame(labels, inside, "losses", described),
    )


_PANEL = '<div class="panel"{more}>\n<p><strong>{title}</strong> {about}</p>\n{svg}\n</div>'

TITLES = {
    "umab": ("UMAB-S", "is told nothing."),
    "clipped": ("EXP3, clipped", "at the guess."),
    "rescaled": ("EXP3, rescaled", "by the largest loss so far."),
}


def policy_panel(name: str, played: Played) -> str:
    """Return the panel of a policy: the probabilities of its arms, stacked."""
    paths = "".join(
        f'<path fill="{COLOURS[last]}" d="{area(played.probabilities, last)}"/>'
        for last in reversed(range(len(MEANS) - 1))
    )
    background = f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="{COLOURS[-1]}"/>'
    title, told = TITLES[name]
    described = f"the probabilities of the three arms over the rounds, with {title}"
    return _PANEL.format(
        more=f' data-policy="{name}"',
        title=title,
        about=f"{told} Probability of each arm; it loses <output>{played.lost:.0f}</output> more than arm A alone.",
        svg=frame({"0%": 0.0, "50%": 0.5, "100%": 1.0}, background + paths + where(), "arms", described),
    )


def control(name: str, label: str, lowest: float, highest: float, value: float, said: str) -> str:
    """Return a slider with its label and its value."""
    return (
        f'<label>{label}: <span>{said}</span> <input type="range" name="{name}" min="{lowest:g}" '
        f'max="{highest:g}" value="{value:g}" aria-valuetext="{said}"></label>'
    )


def picture() -> str:
    """Return the whole figure, as HTML."""
    played = play_all(10.0 ** (_slider(SIZE) / 100.0), ROUND, 10.0 ** (_slider(GUESS) / 100.0))
    keys = "".join(
        f'<span><i style="background: {colour}"></i> arm {arm}, costs {mean:g} on average</span> '
        for arm, mean, colour in zip(ARMS, MEANS, COLOURS, strict=True)
    )
    ends = 100.0 * math.log10(1.0), 100.0 * math.log10(HIGHEST)
    means = " ".join(f"{mean:g}" for mean in MEANS)
    lines = [
        f'<figure id="outlier" data-seed="{SEED}" data-rounds="{ROUNDS}" data-means="{means}" '
        f'data-frame="{LEFT} {TOP} {WIDTH} {HEIGHT}" data-losses="{LOWEST:g} {HIGHEST:g}" data-every="{EVERY}">',
        f'<p class="keys">{keys}</p>',
        "<fieldset hidden>",
        "<legend>One outlier, and the range that EXP3 is told</legend>",
        control("size", "Size of the outlier", *ends, _slider(SIZE), f"{SIZE:g}"),
        control("round", "Its round", 1, ROUNDS, ROUND, str(ROUND)),
        control("guess", "Guess of the largest loss", *ends, _slider(GUESS), f"{GUESS:g}"),
        "</fieldset>",
        '<div class="panels">',
        losses_panel(),
        *(policy_panel(name, played[name]) for name in TITLES),
        "</div>",
        "</figure>",
        '<script src="assets/how-it-works.js" defer></script>',
    ]
    return "\n".join(lines)


def _slider(value: float) -> float:
    """Return the position of a slider, which stops at hundredths of the logarithm."""
    return float(round(100.0 * math.log10(value)))


def page(text: str) -> str:
    """Return the page with the picture as it is now."""
    made, n_places = PLACE.subn(lambda _: picture(), text)
    if n_places != 1:
        raise ValueError(f"{PAGE} must have one place for the picture, but got {n_places}")
    return made


def write(docs: Path) -> None:
    """Write the picture into the page."""
    text = (docs / PAGE).read_text(encoding="utf-8")
    write_atomically(docs / PAGE, page(text).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
