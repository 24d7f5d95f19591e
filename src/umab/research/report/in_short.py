"""The answer of a comparison in one sentence, for people who will not read the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.registry import recommended
from umab.algorithms.uniform import Uniform
from umab.engine.simulate import simulate
from umab.research.experiments.runner import Curve, Outcome, Summary
from umab.research.report.words import are_rewards
from umab.results.among import CostsAmong
from umab.results.regret import Costs
from umab.tables.losses import Losses

_NEAR = 0.1
"""A total is near 0 if it is a smaller share of the sum of its absolute values: gains and losses have cancelled."""

_SAME = 0.0005
"""A smaller share is no difference that anybody wants to hear of."""

_TIMES = 10.0
"""From here on, a multiple says more than a percentage."""

_MOST_TIMES = 1e6
"""A total is near 0 too if the policy's is a larger multiple of it."""

_DRAWS = 10**8
"""How many draws to simulate again, where the first ones were too many to be kept."""


class Against(NamedTuple):
    """What a policy is compared with. Amounts are means per round, because totals of any doubles may overflow."""

    who: str
    """What was done, such as: choosing at random."""
    mean: float
    """What that would have cost."""
    size: float
    """The mean of the absolute values of these costs."""
    difference: float
    """What the policy would have cost beyond that."""
    error: float
    """The standard error of the difference; nan if it is not known."""
    n_rounds: int
    """Over how many rounds."""
    when: str = ""
    """Which rounds these are, if not all: a phrase that ends in a comma."""


def in_short(outcome: Outcome) -> str:
    """Say in a sentence what the recommended policy would have cost beside the best single arm and random choices.

    If the recommended policy was not run, the sentence is about the one that did best.
    """
    losses = outcome.losses
    name = next((name for name, curve in outcome.curves.items() if curve.policy == recommended()), outcome.best)
    curve = outcome.curves[name]
    at_random = isinstance(curve.policy, Uniform)
    who = "choosing at random" if at_random else name
    if curve.policy == recommended():
        who = f"the recommended policy ({curve.policy.name})"
    against = (_against_if_away if losses.n_away else _against)(losses, curve)
    if at_random:
        against = [each for each in against if each.who != "choosing at random"]
    return sentence(_one_line(who), losses.n_rounds, unit_of(losses), against, reward=are_rewards(losses))


def sentence(who: str, n_rounds: int, unit: str, against: Sequence[Against], *, reward: bool = False) -> str:
    """Say what `who` would have cost, or earned, beside others.

    Differences are percentages, unless some total is near or below 0: then they are amounts.

    Examples
    --------
    >>> from umab.research.report.in_short import Against, sentence
    >>> best = Against("staying with a", 2.0, 2.0, 0.062, 0.001, 50)
    >>> sentence("it", 50, "day", [best, Against("chance", 3.5, 3.5, -1.438, 0.0, 50)])
    'Over these 50 days it would have cost 3.1% more than staying with a, and 41% less than chance.'
    >>> sentence("it", 50, "day", [best._replace(mean=-2.0)])
    'Over these 50 days it would have cost 3.1 more than staying with a.'
    """
    over = f"Over this {unit}" if n_rounds == 1 else f"Over these {n_rounds:,} {unit}s"
    if not all(math.isfinite(each.difference) for each in against):
        return f"{over} the regret of {who} is too large for a double."
    sign = -1.0 if reward else 1.0
    # Where losses are not all of one sign, a percentage may mean nothing; then no part of the sentence has one.
    relative = all(
        sign * each.mean > max(0.0, _NEAR * each.size)
        and -1.0 <= sign * each.difference / (sign * each.mean) <= _MOST_TIMES
        for each in against
    )
    parts = [f"{each.when}{_compared(each, sign, relative=relative)} {each.who}" for each in against]
    return f"{over} {who} would have {'earned' if reward else 'cost'} {', and '.join(parts)}."


def _compared(each: Against, sign: float, *, relative: bool) -> str:
    """Return the difference in words that end in than or as."""
    base, difference = (abs(each.mean) if relative else each.size), sign * each.difference
    if difference == 0.0:
        return "as much as"
    if abs(difference) <= max(_SAME * base, 2.0 * each.error if math.isfinite(each.error) else 0.0):
        return "about as much as"
    word = "more" if difference > 0.0 else "less"
    if not relative:
        return f"{_amount(Decimal(abs(difference)) * each.n_rounds)} {word} than"
    share = abs(difference) / base
    if difference > 0.0 and 1.0 + share >= _TIMES:
        return f"{1.0 + share:,.0f} times as much as"
    return f"{_percent(100.0 * share, largest=math.inf if difference > 0.0 or share >= 1.0 else 99.9)} {word} than"


def _percent(number: float, largest: float) -> str:
    """Return a percentage with two digits, or more before the point; 99.97% less is not 100% less."""
    text = f"{number:.2g}" if number < 9.95 else f"{number:.0f}"
    return f"{text}%" if float(text) <= largest else f"{min(number, largest):.1f}%"


def _amount(number: Decimal) -> str:
    """Return a number above 0 with three digits, or more before the point."""
    power = number.adjusted()
    if not -3 <= power < 12:
        return f"{_short(f'{number.scaleb(-power):.2f}')}e{power:+03d}"
    return _short(f"{number:,.{max(0, 2 - power)}f}")


def _short(text: str) -> str:
    """Return the text of a number without zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def unit_of(losses: Losses) -> str:
    """Return what a round is, as far as it is known: an hour, if the file has a time for each, and else a round."""
    return str(losses.provenance.get("unit", "round"))


def _one_line(text: str) -> str:
    """Return a name as it can stand in a line: names of columns may have newlines in them."""
    return " ".join(text.split())


def _against(losses: Losses, curve: Curve) -> list[Against]:
    """Compare a policy with the best single arm and with random choices, if all arms are always there."""
    costs, n = Costs.of(losses), losses.n_rounds
    sums = costs.table.sum(axis=0)
    best = np.flatnonzero(sums == sums.min())
    single = losses.table[:, best[0]]
    arm = _one_line(losses.arms[best[0]])
    who = f"staying with {arm}, {'the best single arm' if len(best) == 1 else 'one of the best single arms'}"
    # Differences come from costs, which keep their digits if all losses share a large offset.
    chance = math.ldexp(float(costs.table.mean(axis=1).sum() - sums.min()) / n, costs.exponent)
    mean, error = curve.expected.mean / n, curve.expected.se / n
    return [
        Against(who, *_mean_and_size(single), mean, error, n),
        Against("choosing at random", *_mean_and_size(losses.table), mean - chance, error, n),
    ]


def _against_if_away(losses: Losses, curve: Curve) -> list[Against]:
    """Compare with random choices, and with the arm against which the regret is largest, while it was there."""
    costs, n = CostsAmong.of(losses), losses.n_rounds
    always = np.ones((n, 1), dtype=np.bool_)
    spent = costs.spent(_draws(losses, curve), np.hstack([costs.eligible, always]))
    regrets = spent[:, :-1] - costs.against[-1]
    arm = int(regrets.mean(axis=0).argmax())
    n_there = int(costs.eligible[:, arm].sum())
    there = losses.table[costs.eligible[:, arm], arm]
    name = _one_line(losses.arms[arm])
    rounds_there = unit_of(losses) if n_there == 1 else f"{unit_of(losses)}s"
    when = f"in the {n_there:,} {rounds_there} in which {name} was there, " if n_there < n else ""

    def compared(
        who: str, paid: npt.NDArray[np.float64], reference: npt.NDArray[np.float64], n: int, when: str
    ) -> Against:
        found = Summary.of(costs.in_losses(paid / n))
        return Against(who, *_mean_and_size(reference), found.mean, found.se, n, when)

    # A round counts as its mean over the arms that are there, in units in which the smallest loss of a round is 0.
    chance = np.nanmean(costs.table, axis=1).sum()
    rounds = np.nansum(losses.table / costs.eligible.sum(axis=1, keepdims=True), axis=1)
    return [
        compared("choosing at random", spent[:, -1] - chance, rounds, n, ""),
        compared(f"staying with {name}", regrets[:, arm], there, n_there, when),
    ]


def _mean_and_size(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean and the mean of the absolute values of doubles of any size."""
    return float((values / values.size).sum()), float((np.abs(values) / values.size).sum())


def _draws(losses: Losses, curve: Curve) -> npt.NDArray[np.integer]:
    """Return the arms that the policy drew, trials × rounds; where they were not kept, some of them again."""
    if curve.sampled is not None:
        return curve.result.arms
    n_trials = max(1, min(curve.result.n_trials, _DRAWS // losses.n_rounds))
    seed = curve.result.provenance["seed"]
    return simulate(curve.policy, losses, n_trials=n_trials, seed=seed, keep="arms").arms
