"""Claims: the test, the correction for many of them, and the verdicts."""

import math

import numpy as np
import pytest
from scipy import stats

from umab.research.experiments.claims import RISK, Claim, judge, together
from umab.testing import Array

RNG = np.random.default_rng(7)


def pair(gap: float, n: int = 40, noise: float = 1.0) -> tuple[Array, Array]:
    """Two paired samples whose difference has this mean, and much in common."""
    common = RNG.normal(100.0, 50.0, n)
    return common + gap + noise * RNG.normal(size=n), common


def test_a_claim_is_read_and_written() -> None:
    claim = Claim.of("umab-g-a:rate=4  <ahb")
    assert claim == ("umab-g-a:rate=4", "ahb") and str(claim) == "umab-g-a:rate=4 < ahb"
    for text in ("umab-g", "a < b < c", "< b", "a <", "a < a", "a > b", ""):
        with pytest.raises(ValueError, match=f"'umab-g-a < ahb'.*{text!r}"):
            Claim.of(text)


def test_the_test_is_that_of_paired_differences() -> None:
    """As SciPy has it: its p-value, and its interval at the level that Holm leaves to the claim."""
    first, second = pair(-0.3)
    (evidence,) = judge([(first, second)])
    known = stats.ttest_rel(first, second)
    interval = known.confidence_interval(evidence.level)
    assert evidence.level == 1.0 - RISK
    np.testing.assert_allclose(evidence.p, known.pvalue, rtol=1e-10)
    np.testing.assert_allclose([evidence.low, evidence.high], [interval.low, interval.high], rtol=1e-10)
    np.testing.assert_allclose(evidence.difference, (first - second).mean(), rtol=1e-12)
    np.testing.assert_allclose(evidence.se, (first - second).std(ddof=1) / math.sqrt(40), rtol=1e-10)


def test_holm_gives_each_claim_its_share_of_the_risk() -> None:
    """The smallest of m p-values counts m times, the next m − 1 times, and none counts less than the one before it."""
    pairs = [pair(gap) for gap in (-0.1, -0.9, 0.0, 0.5, -0.45)]
    p = [stats.ttest_rel(*each).pvalue for each in pairs]
    order = np.argsort(p)
    expected = np.empty(5)
    expected[order] = np.minimum(1.0, np.maximum.accumulate([(5 - rank) * p[at] for rank, at in enumerate(order)]))
    n_decided = int((expected <= RISK).sum())
    assert 0 < n_decided < 4  # so that the level of the first that is not decided is that of some after it
    evidence = judge(pairs)
    np.testing.assert_allclose([each.p_holm for each in evidence], expected, rtol=1e-9)
    np.testing.assert_allclose(
        [each.level for each in evidence], [1.0 - RISK / (5 - min(list(order).index(at), n_decided)) for at in range(5)]
    )
    assert all(each.n_judged == 5 and each.n_trials == 40 for each in evidence)


def test_no_interval_contradicts_its_verdict() -> None:
    """Below 0 it holds, above 0 it does not, and across 0 it is undecided; also after Holm has stopped."""
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(300):
        gaps = rng.choice([0.0, -0.3, 0.3, 0.45, -0.45], size=6)
        for each in judge([(gap + rng.normal(size=40), np.zeros(40)) for gap in gaps]):
            side = "holds" if each.high < 0.0 else "does not hold" if each.low > 0.0 else "undecided"
            assert each.verdict == side
            seen.add((each.verdict, round((1.0 - each.level) / RISK, 6)))
    assert len(seen) > 8  # many levels were tried


def test_a_verdict_says_whether_the_interval_excludes_zero() -> None:
    for gap, verdict in ((-2.0, "holds"), (2.0, "does not hold")):
        (evidence,) = judge([pair(gap)])
        assert evidence.verdict == verdict
        assert (evidence.low > 0.0) == (gap > 0.0) and (evidence.high < 0.0) == (gap < 0.0)
    close = RNG.normal(size=40)
    (evidence,) = judge([(close - close.mean() - 0.01, np.zeros(40))])
    assert evidence.verdict == "undecided" and evidence.low < 0.0 < evidence.high


def test_the_risk_of_any_wrong_decision_is_one_percent() -> None:
    """Of 4000 families of five true null hypotheses, 1% ± 4 standard errors have a decision, so Holm is near exact."""
    families = 4000
    wrong = 0
    for _ in range(families):
        zero = np.zeros(15)
        wrong += any(each.verdict != "undecided" for each in judge([(RNG.normal(size=15), zero) for _ in range(5)]))
    error = math.sqrt(RISK * (1.0 - RISK) / families)
    assert abs(wrong / families - RISK) < 4.0 * error


def test_identical_runs_do_not_make_a_claim_hold() -> None:
    regrets = RNG.normal(1e4, 10.0, 30)
    rounded = regrets + 1e-9 * RNG.normal(size=30) - 1e-9
    for other in (regrets, rounded):
        (evidence,) = judge([(regrets, other)])
        assert evidence.identical and evidence.verdict == "does not hold"
    (evidence,) = judge([(regrets - 1e-3, regrets)])  # the same difference in every trial is a difference
    assert not evidence.identical and evidence.verdict == "holds"


def test_a_single_trial_decides_nothing() -> None:
    one, more = judge([(np.array([1.0]), np.array([2.0])), pair(-3.0)])
    assert one.verdict == "undecided" and math.isnan(one.se) and math.isnan(one.low)
    assert more.verdict == "holds"


def test_any_scale_gives_the_same_verdict() -> None:
    first, second = pair(-0.6)
    (plain,) = judge([(first, second)])
    for power in (-1000, 1000):
        (scaled,) = judge([(np.ldexp(first, power), np.ldexp(second, power))])
        assert (scaled.p, scaled.verdict) == (plain.p, plain.verdict)
        assert scaled.se == math.ldexp(plain.se, power)
    for lost in judge([(np.full(5, np.inf), np.arange(5.0)), (np.full(5, np.inf), np.full(5, np.inf))]):
        assert lost.verdict == "undecided" and not lost.identical
    (wide,) = judge([(np.array([1.7e308, 1.6e308]), np.array([-1.7e308, -1.6e308]))])
    assert wide.p < 0.05 and math.isinf(wide.difference)


def test_a_claim_of_several_statements_holds_if_all_do() -> None:
    assert together(["holds", "holds"]) == "holds"
    assert together(["holds", "undecided"]) == "undecided"
    assert together(["holds", "undecided", "does not hold"]) == "does not hold"
    assert together([]) == "undecided"
