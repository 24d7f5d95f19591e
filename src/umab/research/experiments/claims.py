"""Claims about final regrets, and verdicts that follow from the runs alone.

A claim is ``a < b``: policy a has a smaller expected regret than policy b. Both have played the same trials, so the
test is on the difference of their final regrets, trial by trial. The mean difference has a t-interval. Claims that are
judged together share a risk of 1% that any of them is decided wrongly (Holm 1979, A simple sequentially rejective
multiple test procedure).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support.checks import LARGEST
from umab._support.extras import extra
from umab.results.regret import mean_and_sd

with extra("data", "judging claims"):
    from scipy.special import stdtr, stdtrit

RISK = 0.01
"""The chance that any of the claims judged together is decided wrongly."""

_ROUNDING = 2.0**-40
"""Regrets closer than this, as a share of the largest, differ only by the rounding of their sums."""

Verdict = Literal["holds", "does not hold", "undecided"]
Regrets = npt.NDArray[np.float64]


class Claim(NamedTuple):
    """The policy `smaller` has a smaller final expected regret than the policy `larger`."""

    smaller: str
    larger: str

    @classmethod
    def of(cls, text: str) -> Claim:
        """Return the claim written as ``a < b``."""
        sides = [side.strip() for side in text.split("<")]
        if len(sides) != 2 or not all(sides) or sides[0] == sides[1]:
            raise ValueError(f"a claim must read like 'umab-g-a < ahb', with two policies, but got {text!r}")
        return cls(*sides)

    def __str__(self) -> str:
        """Return the claim as it is written."""
        return f"{self.smaller} < {self.larger}"


class Evidence(NamedTuple):
    """A difference of paired final regrets, and how certain it is."""

    difference: float
    """Its mean over the trials; below 0, the first policy did better."""
    se: float
    """The standard error of the mean; not a number for a single trial."""
    low: float
    high: float
    """The ends of the t-interval of the mean, at `level`."""
    level: float
    """The level of the interval: 1 minus the share of the risk that Holm's procedure gives to this claim."""
    p: float
    """The two-sided p-value of a t-test that the mean is 0."""
    p_holm: float
    """The p-value after Holm's correction, to be compared with `RISK`."""
    n_trials: int
    n_judged: int
    """How many claims were judged together."""
    identical: bool
    """Whether the two policies had the same regret in every trial, up to rounding."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim that the first policy did better."""
        if self.identical:
            return "does not hold"
        if not self.p_holm <= RISK:
            return "undecided"
        return "holds" if self.difference < 0.0 else "does not hold"


def judge(pairs: Sequence[tuple[Regrets, Regrets]]) -> list[Evidence]:
    """Return the evidence on pairs of final regrets, paired by trial; the pairs are judged together."""
    tests = [_paired_test(first, second) for first, second in pairs]
    evidence: list[Evidence | None] = [None] * len(tests)
    p_holm, level = 0.0, 0.0
    for rank, at in enumerate(sorted(range(len(tests)), key=lambda at: _or_one(tests[at].p))):
        test, left = tests[at], len(tests) - rank
        if p_holm <= RISK:  # the first undecided claim stops the procedure, and all later claims share its level
            level = 1.0 - RISK / left
        p_holm = max(p_holm, min(left * _or_one(test.p), 1.0))  # no claim is more certain than the one before it
        half = test.half_width(level)
        evidence[at] = Evidence(
            difference=test.mean,
            se=test.se,
            low=test.mean - half,
            high=test.mean + half,
            level=level,
            p=test.p,
            p_holm=p_holm,
            n_trials=test.n_trials,
            n_judged=len(tests),
            identical=test.identical,
        )
    return [each for each in evidence if each is not None]


class _PairedTest(NamedTuple):
    mean: float
    se: float
    p: float
    n_trials: int
    identical: bool

    def half_width(self, level: float) -> float:
        if self.n_trials < 2:
            return math.nan
        return float(stdtrit(self.n_trials - 1, 0.5 + 0.5 * level)) * self.se


def _paired_test(first: Regrets, second: Regrets) -> _PairedTest:
    n_trials = len(first)
    with np.errstate(invalid="ignore"):  # both regrets may be too large for a double
        gaps = 0.5 * first - 0.5 * second  # halved, so that no difference of two doubles overflows
    close = min(_ROUNDING * float(np.abs(first).max()), LARGEST)
    identical = bool(np.isfinite(first).all() and (np.abs(gaps) <= close).all())
    half_mean, half_sd = mean_and_sd(gaps)
    mean, se = 2.0 * half_mean, 2.0 * half_sd / math.sqrt(n_trials)
    if math.isnan(se):  # a single trial, or a regret too large for a double
        p = math.nan
    elif se > 0.0:
        p = 2.0 * float(stdtr(n_trials - 1, -abs(mean) / se))
    else:  # the same difference in every trial
        p = 1.0 if identical else 0.0
    return _PairedTest(mean, se, p, n_trials, identical)


def _or_one(p: float) -> float:
    """Return p, or 1 if there is none, as for a single trial."""
    return 1.0 if math.isnan(p) else p


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on several claims together: they hold if all hold, and do not hold if one does not."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "undecided" if "undecided" in verdicts or not verdicts else "holds"
