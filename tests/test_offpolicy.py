"""Off-policy estimates: the formulas by hand, exactness in units, intervals that cover, and what is doubted."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

import numpy as np
import pytest
from benchmarks import coverage
from hypothesis import given
from hypothesis import strategies as st

import umab
from umab import offpolicy
from umab.offpolicy import estimate

LOG = [("a", 0.5, 2.0), ("b", 0.25, 6.0), ("a", 0.8, 1.0), ("c", 0.1, -3.0)]
TARGET = {"a": 0.4, "b": 0.5, "c": 0.1}
WEIGHTS = (0.8, 2.0, 0.5, 1.0)


def logged(n_rounds: int, seed: int, p: Any, mean: Any = (1.0, 2.0, 4.0)) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arms = rng.choice(len(p), n_rounds, p=p)
    losses = rng.normal(np.asarray(mean)[arms], 1.0)
    return {"arm": arms, "probability": np.asarray(p)[arms], "loss": losses}


def played(policy: str, losses: Any, seed: int) -> list[tuple[umab.Choice, float]]:
    learner = umab.Learner(policy, losses.shape[1], seed=seed)
    log = []
    for row in losses.tolist():
        choice = learner.select()
        learner.update(choice, row[choice.index])
        log.append((choice, row[choice.index]))
    return log


def ends(level: float, skewness: float, dependence: float) -> tuple[float, float]:
    """Return the quantiles at a level and at its opposite, from the cube that is normal, by bisection."""
    a = skewness / 3 - dependence

    def solved(z: float) -> float:
        low, high = -1e3, 1e3
        for _ in range(200):
            t = (low + high) / 2
            low, high = (t, high) if t + a * t**2 + a**2 * t**3 / 3 + skewness / 6 < z else (low, t)
        return low

    z = statistics.NormalDist().inv_cdf(level)
    return solved(z), solved(-z)


def test_without_skewness_the_interval_is_the_normal_one() -> None:
    found = estimate([("a", 0.5, 1.0), ("a", 0.5, 3.0)] * 50, "a")
    half = 1.959963985 * found.standard_error
    assert (found.low, found.high) == pytest.approx((2.0 - half, 2.0 + half), rel=1e-9)
    skewed = estimate([("a", 0.5, 1.0), ("a", 0.5, 1.0), ("a", 0.5, 4.0)] * 50, "a")
    assert skewed.high - skewed.mean > 1.02 * (skewed.mean - skewed.low)  # a sum of such losses is seldom far above
    mirrored = estimate([("a", 0.5, -1.0), ("a", 0.5, -1.0), ("a", 0.5, -4.0)] * 50, "a")
    assert (mirrored.low, mirrored.high) == pytest.approx((-skewed.high, -skewed.low), rel=1e-12)


@given(st.floats(-5.0, 5.0), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_quantiles_solve_the_cube_and_never_decrease(z: float, skewness: float, dependence: float) -> None:
    a, t = skewness / 3 - dependence, offpolicy._quantile(z, skewness, dependence)
    assert t + a * t**2 + a**2 * t**3 / 3 + skewness / 6 == pytest.approx(z, rel=1e-8, abs=1e-8)
    assert offpolicy._quantile(z + 1e-6, skewness, dependence) > t


def test_a_log_whose_losses_have_heavy_tails_is_doubted() -> None:
    """Whatever the arm that is asked about has lost in the log: its rare losses may be missing."""
    half = [("a", 0.5, 0.0)] * 500 + [("b", 0.5, 0.0)] * 500
    common = [(arm, p, float(number % 2)) for number, (arm, p, _) in enumerate(half)]
    assert estimate(common, {"a": 0.5, "b": 0.5}).doubts == ()
    rare = [(arm, p, float(number % 100 == 0)) for number, (arm, p, _) in enumerate(half)]
    for target in ("a", "b", {"a": 0.5, "b": 0.5}):
        for estimator in ("snips", "ips"):
            (doubt,) = estimate(rare, target, estimator=estimator).doubts
            assert "a few rounds carry most of the estimate" in doubt and "kurtosis of 98" in doubt
    # The kurtosis of events with chance c is 1/(c(1 - c)) - 3: 1/20 of them, in 1000 rounds, make 55 effective rounds.
    often = [(arm, p, float(number % 20 == 0)) for number, (arm, p, _) in enumerate(half)]
    assert estimate(often, {"a": 0.5, "b": 0.5}).doubts == ()
    assert estimate([("a", 1.0, 3.0)] * 40, "a").doubts == ()


@pytest.mark.slow
def test_intervals_hold_on_the_logs_of_the_recommended_policy() -> None:
    """On seeds that were used for nothing else; the standard error of a share of 0.93 in 500 logs is 0.011."""
    play = coverage.player("umab-w")
    for name, least in (("normal", 0.93), ("events of 1 to 2 %", 0.93), ("log-normal, σ = 1", 0.91)):
        found = coverage.covered(play, coverage.WORLDS[name], 1.0, range(50_000, 50_500))
        for each in found:
            assert each[:, 0].mean() > least - 4 * 0.011, name
    for each in found:  # the last one: doubted more often than not, and more of them hold than of the normal ones
        assert each[:, 2].mean() > 0.5 and each[:, 0].mean() > each[:, 1].mean()


def test_ips_is_the_mean_of_weighted_losses() -> None:
    found = estimate(LOG, TARGET, estimator="ips")
    weighted = [w * loss for w, (_, _, loss) in zip(WEIGHTS, LOG, strict=True)]
    assert found.mean == pytest.approx(sum(weighted) / 4, rel=1e-15)
    error = np.std(weighted, ddof=1) / 2
    assert found.standard_error == pytest.approx(error, rel=1e-14)
    terms = np.array(weighted) - found.mean
    below, above = ends(0.975, (terms**3).sum() / (terms**2).sum() ** 1.5, 0.0)
    assert (found.low, found.high) == pytest.approx((found.mean - below * error, found.mean - above * error))


def test_snips_is_the_weighted_mean_of_losses() -> None:
    found = estimate(LOG, TARGET)
    mean = sum(w * loss for w, (_, _, loss) in zip(WEIGHTS, LOG, strict=True)) / sum(WEIGHTS)
    n_effective = sum(WEIGHTS) ** 2 / sum(w * w for w in WEIGHTS)
    squares = sum((w * (loss - mean)) ** 2 for w, (_, _, loss) in zip(WEIGHTS, LOG, strict=True))
    assert found.estimator == "snips" and found.mean == pytest.approx(mean, rel=1e-14)
    assert found.n_effective == pytest.approx(n_effective) and found.mean_weight == pytest.approx(sum(WEIGHTS) / 4)
    assert found.standard_error == pytest.approx(math.sqrt(squares / (1 - 1 / n_effective)) / sum(WEIGHTS), rel=1e-14)
    terms = [w * (loss - mean) for w, (_, _, loss) in zip(WEIGHTS, LOG, strict=True)]
    skewness = sum(u**3 for u in terms) / squares**1.5
    dependence = sum(w * u for w, u in zip(WEIGHTS, terms, strict=True)) / sum(WEIGHTS) / math.sqrt(squares)
    below, above = ends(0.975, skewness, dependence)
    error = found.standard_error
    assert (found.low, found.high) == pytest.approx((mean - below * error, mean - above * error))
    assert estimate(LOG, TARGET, confidence=0.5).high < found.high


@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_a_target_that_draws_as_the_log_was_drawn_has_the_mean_and_its_textbook_error(estimator: str) -> None:
    log = logged(200, 0, [0.2, 0.3, 0.5])
    found = estimate(log, [0.2, 0.3, 0.5], estimator=estimator)
    assert found.mean == pytest.approx(log["loss"].mean()) and found.n_effective == pytest.approx(200)
    assert found.standard_error == pytest.approx(log["loss"].std(ddof=1) / math.sqrt(200))


@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_the_ways_to_write_a_log_and_a_target_agree(estimator: str) -> None:
    import pandas
    import polars

    choices = [(umab.Choice(arm, index, p, "9"), loss) for index, (arm, p, loss) in enumerate(LOG)]
    columns = dict(zip(("arm", "probability", "loss"), zip(*LOG, strict=True), strict=True))
    expected = estimate(LOG, TARGET, estimator=estimator)
    frames = [pandas.DataFrame(columns), polars.DataFrame({name: list(each) for name, each in columns.items()})]
    for log in [choices, json.loads(json.dumps(choices)), columns, *frames, iter(LOG)]:
        assert estimate(log, TARGET, estimator=estimator) == expected
    row = [0.5, 0.1, 0.4]
    for target in [row, np.tile(row, (4, 1))]:
        assert estimate(LOG, target, arms=["b", "c", "a"], estimator=estimator) == expected
    numbers = [("abc".index(arm), p, loss) for arm, p, loss in LOG]
    assert estimate(numbers, [0.4, 0.5, 0.1], estimator=estimator) == expected
    assert estimate(LOG, "b") == estimate(LOG, {"b": 1.0}) and estimate(numbers, np.int64(1)).mean == 6.0


def test_a_target_may_change_from_round_to_round() -> None:
    rows = [[0.4, 0.6, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.7, 0.2, 0.1]]
    weights = (0.8, 2.0, 1.25, 1.0)
    weighted = [w * loss for w, (_, _, loss) in zip(weights, LOG, strict=True)]
    assert estimate(LOG, rows, arms="abc", estimator="ips").mean == pytest.approx(sum(weighted) / 4, rel=1e-15)


@pytest.mark.parametrize("estimator", ["ips", "snips"])
@pytest.mark.parametrize("exponent", [-1000, 1000])
def test_units_make_no_difference(estimator: str, exponent: int) -> None:
    scaled = [(arm, p, math.ldexp(loss, exponent)) for arm, p, loss in LOG]
    found, expected = estimate(scaled, TARGET, estimator=estimator), estimate(LOG, TARGET, estimator=estimator)
    for name in ("mean", "low", "high", "standard_error"):
        assert getattr(found, name) == math.ldexp(getattr(expected, name), exponent)


def test_the_largest_losses_and_the_smallest_probabilities_are_survived() -> None:
    huge = [("a", 0.5, 1.7e308), ("a", 0.5, 1.5e308), ("b", 0.5, -1.7e308)]
    assert estimate(huge, "a").mean == pytest.approx(1.6e308)
    assert math.isfinite(estimate(huge, "a").high) and estimate(huge, "a", confidence=0.99).high == math.inf
    tiny = [("a", 5e-324, 3.0), ("b", 1.0, 5.0), ("a", 5e-324, 4.0)]
    assert estimate(tiny, "a").mean == 3.5
    with pytest.raises(ValueError, match=r"float.*·2\^"):
        estimate(tiny, "a", estimator="ips")
    assert estimate([("a", 1.0, 0.0), ("a", 1.0, 0.0)], "a").mean == 0.0


def test_a_number_that_is_added_to_all_losses_is_added_to_snips() -> None:
    shifted = [(arm, p, loss + 64.0) for arm, p, loss in LOG]
    assert estimate(shifted, TARGET).mean == pytest.approx(estimate(LOG, TARGET).mean + 64.0, rel=1e-14)
    assert estimate(shifted, TARGET).standard_error == pytest.approx(estimate(LOG, TARGET).standard_error, rel=1e-12)


def test_intervals_cover_as_often_as_they_say() -> None:
    target = np.array([0.2, 0.3, 0.5])
    truth, n_trials = float(target @ [1.0, 2.0, 4.0]), 2000
    logs = [logged(250, k, [0.5, 0.3, 0.2]) for k in range(n_trials)]
    for estimator in ("ips", "snips"):
        found = [estimate(log, target, estimator=estimator) for log in logs]
        assert sum(bool(each.doubts) for each in found) <= 4  # weights that are skewed are 4 errors off now and then
        covered = np.mean([each.low <= truth <= each.high for each in found])
        # One standard error of a part of 0.95 in 2000 trials is 0.005; four of them are allowed.
        assert abs(covered - 0.95) < 0.02
        means = np.array([each.mean for each in found])
        spread = means.std(ddof=1)
        assert abs(means.mean() - truth) < 4 * spread / math.sqrt(n_trials)
        # The standard deviation of n normal numbers has a relative error of 1/√(2n) = 0.016.
        assert np.mean([each.standard_error for each in found]) == pytest.approx(spread, rel=0.065)


def test_intervals_cover_on_the_log_of_a_policy_that_learns() -> None:
    rng = np.random.default_rng(1)
    covered = np.zeros(2)
    for seed in range(200):
        log = played("umab-g-a", rng.normal([1.0, 2.0, 4.0], 1.0, size=(150, 3)), seed)
        found = [estimate(log, {0: 0.2, 1: 0.3, 2: 0.5}, estimator=estimator) for estimator in ("ips", "snips")]
        covered += [each.low <= 2.8 <= each.high for each in found]
    # One standard error of a part of 0.95 in 200 trials is 0.015; four of them are allowed.
    assert (abs(covered / 200 - 0.95) < 0.062).all()


def test_losses_that_change_make_the_interval_wider_than_needed() -> None:
    # The losses are fixed, and only the draws are random: the interval also pays for the change from round to round.
    losses = 10.0 * np.sin(np.arange(400) / 30.0) + 2.0
    rng = np.random.default_rng(2)
    found = [
        estimate({"arm": rng.integers(3, size=400), "probability": [1 / 3] * 400, "loss": losses}, 2, estimator="ips")
        for _ in range(400)
    ]
    covered = np.mean([each.low <= losses.mean() <= each.high for each in found])
    spread = np.std([each.mean for each in found], ddof=1)
    error = np.mean([each.standard_error for each in found])
    # Here the variance in a round is 2·l² and the one of the log 3·l²; the spread is known up to 4 %.
    assert error / spread == pytest.approx(math.sqrt(1.5), rel=0.14) and covered > 0.95


def test_the_probability_must_be_that_of_the_draw() -> None:
    """What the estimates are for: a log in which the present probability stands is wrong, and it is said."""
    table = np.random.default_rng(3).normal([1.0, 2.0, 4.0], 1.0, size=(3000, 3))
    log = played("umab-g-a", np.abs(table), seed=0)
    right = estimate(log, [1 / 3, 1 / 3, 1 / 3])
    assert right.low < np.abs(table).mean() < right.high and not right.doubts
    wrong = [(choice.arm, 1 / 2, loss) for choice, loss in log]
    assert any("weights average 0.667" in doubt for doubt in estimate(wrong, [1 / 3, 1 / 3, 1 / 3]).doubts)


def test_what_deserves_no_trust_is_said() -> None:
    few = estimate(LOG, TARGET)
    assert len(few.doubts) == 1 and "3.1 rounds" in few.doubts[0]
    assert f"4 rounds, worth 3.1; DOUBTFUL: {few.doubts[0]}" in repr(few)
    once = estimate(LOG, "c")
    assert (once.mean, once.low, once.high) == (-3.0, -math.inf, math.inf) and once.n_effective == 1.0
    unseen = estimate(logged(1000, 0, [0.5, 0.3, 0.2]), {0: 0.5, 1: 0.495, "new": 0.005})
    assert len(unseen.doubts) == 1 and "arm='new'" in unseen.doubts[0]
    uneven = estimate(
        played("umab-nn", np.abs(np.random.default_rng(3).normal([1, 2, 4], size=(3000, 3))), 0), [1 / 3] * 3
    )
    assert len(uneven.doubts) == 1 and "74.2 effective rounds, but a kurtosis of 4.26 needs 85" in uneven.doubts[0]
    good = estimate(logged(1000, 0, [0.5, 0.3, 0.2]), 0)
    assert good.doubts == () and "DOUBTFUL" not in repr(good)


@pytest.mark.parametrize(
    ("log", "target", "options", "message"),
    [
        ([("a", 0.5, 1.0)], "a", {}, "two rounds.* 1$"),
        ([], "a", {}, "two rounds.* 0$"),
        ([("a", 0.5, 1.0), ("a", 0.0, 1.0)], "a", {}, r"probability in row 1=0\.0"),
        ([("a", 0.5, 1.0), ("a", 1.5, 1.0)], "a", {}, r"probability in row 1=1\.5"),
        ([("a", 0.5, 1.0), ("a", math.nan, 1.0)], "a", {}, "probability in row 1=nan"),
        ([("a", 0.5, math.inf), ("a", 0.5, 1.0)], "a", {}, "loss in row 0=inf"),
        ([("a", 0.5), ("a", 0.5)], "a", {}, r"\(arm, probability, loss\).*\('a', 0\.5"),
        ({"arm": ["a"], "probability": [1], "loss": [1, 2]}, "a", {}, "1 arms, 1 probabilities and 2 losses"),
        (LOG, "d", {}, "log .*target .*none"),
        (LOG, {"a": 0.5}, {}, r"\[0\.5\] in row 0"),
        (LOG, {"a": 1.5, "b": -0.5}, {}, r"\[1\.5, -0\.5\] in row 0"),
        (LOG, [0.5, 0.5], {"arms": ["a", "b"]}, r"\['a', 'b'\].*'c'.*arms="),
        (LOG, [0.5, 0.5], {"arms": ["a", "b", "c"]}, "2 for 3 arms"),
        (LOG, [[0.5, 0.5]] * 3, {"arms": ["a", "b"]}, "3 rows for 4 rounds"),
        (LOG, "a", {"estimator": "dr"}, "'snips', 'ips'.*estimator='dr'"),
        (LOG, "a", {"confidence": 95}, "confidence=95"),
    ],
)
def test_what_cannot_be_is_refused(log: Any, target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimate(log, target, **options)


@pytest.mark.parametrize(
    ("log", "target", "message"),
    [
        ([("a", 0.5, None), ("a", 0.5, 1.0)], "a", "loss in row 0=None"),
        ([("a", "0.5", 1.0), ("a", 0.5, 1.0)], "a", "probability in row 0='0.5'"),
        ("log.csv", "a", "^log .* str$"),
        (LOG, ["a", "b"], r"target=\['a', 'b'\]"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused(log: Any, target: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        offpolicy.estimate(log, target)


@pytest.mark.parametrize("q", [1e-100, 1e-200, 5e-324])
@pytest.mark.parametrize("p", [0.5, 1e-300])
def test_a_target_that_hardly_chooses_what_the_log_has(q: float, p: float) -> None:
    """No weight is too small to be squared, nor too large."""
    log = [("a", p, 1.0), ("a", p, 3.0)] * 50
    result = offpolicy.estimate(log, {"a": q, "b": 1.0 - q})
    assert result.mean == pytest.approx(2.0) and result.n_effective == pytest.approx(100.0)
    # Weighted down to what a double can hold, the others say nothing.
    some = offpolicy.estimate([*log, ("c", 5e-324, 7.0)], {"a": q, "b": 1.0 - q})
    assert some.mean == pytest.approx(2.0)
