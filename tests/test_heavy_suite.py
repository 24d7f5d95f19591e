"""The heavy group of the suite: the laws of its tables, regret by known means, the contest on it, and its report."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import umab
from umab import cli
from umab._support.progress import Progress
from umab.algorithms.htinf import HTINF
from umab.algorithms.names import policy_as_written as policy_of
from umab.datasets.heavy_tables import Arm, HeavyEntry
from umab.datasets.suite_tables import entries, suite
from umab.research.experiments import tails as contests
from umab.research.experiments.contest import AT_RANDOM, RECOMMENDED, STEADY, Played, Standings, Trials, competitors
from umab.research.experiments.runner import Summary
from umab.research.experiments.tails import FOR_TAILS, Tails, play_by_means, tails, told
from umab.research.experiments.tracking import PRICE_OF_A_DEFAULT
from umab.research.report import heavy_page, shell
from umab.tables.advice import Advice
from umab.tables.losses import Losses

ENTRIES = entries(group="heavy")
ARMS = sorted({arm for entry in ENTRIES for arm in entry.arms}, key=repr)
BEST = {entry.name: entry.arms[int(entry.means.argmin())] for entry in ENTRIES}
DOCS = Path(__file__).parent.parent / "docs"
PAGE, NUMBERS = DOCS / "suite-heavy.md", DOCS / "suite-heavy.json"


# The tables.


def test_both_halves_have_the_same_kinds() -> None:
    development, validation = entries("development", group="heavy"), entries("validation", group="heavy")
    assert [each.kind for each in development] == [each.kind for each in validation] == [e.name for e in development]
    for half in (development, validation):
        assert 6 <= len(half) <= 10 and {each.at_home for each in half} == {True, False}
        for shape in ("Pareto", "Student"):
            assert {arm.index for each in half for arm in each.arms if arm.shape == shape} == {1.2, 1.5, 1.8}
    others = {each.name for group in ("general", "changing") for each in entries(group=group)}
    assert not others & {each.name for each in ENTRIES} and {each.world for each in ENTRIES} == {"stationary"}
    with pytest.raises(ValueError, match=r"'general', 'changing', 'heavy'.*'light'"):
        suite(group="light")  # type: ignore[arg-type]


def test_the_tables_are_always_the_same_and_can_be_drawn_anew() -> None:
    content = hashlib.sha256()
    for name, losses in suite(group="heavy").items():
        content.update(name.encode() + repr([f"{value:.9e}" for value in losses.table.sum(axis=0)]).encode())
    assert content.hexdigest() == "56996af0d172d85d51ed28e6c83355617afcd49c114f5b6ec0336d1f1101fc4f"
    first, again, other = (suite(group="heavy", names=["tempting"], seed=seed)["tempting"] for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest and first.table.shape == other.table.shape


def density(arm: Arm) -> Callable[[float], float]:
    """Return the density of X, written down here anew."""
    a = arm.index
    if arm.shape == "Pareto":
        return lambda x: a * x ** (-a - 1.0)
    peak = math.exp(math.lgamma((a + 1) / 2) - math.lgamma(a / 2)) / math.sqrt(a * math.pi)
    return lambda x: peak * (1.0 + x * x / a) ** (-(a + 1) / 2)


def expectation(arm: Arm, of: Callable[[float], float], *cuts: float) -> float:
    """Return the integral of a function of the loss over all losses, with these losses as ends of pieces."""
    start = 1.0 if arm.shape == "Pareto" else -math.inf
    at = sorted({(cut - arm.offset) / arm.scale for cut in cuts} | {start + 1.0 if start == 1.0 else 0.0})
    inner = [x for x in at if start < x < math.inf]
    f = density(arm)

    def g(x: float) -> float:
        return of(arm.offset + arm.scale * x) * f(x)

    total = 0.0
    for low, high in pairwise([start, *inner, math.inf]):
        if math.isinf(high):  # the tail is exponential in y
            total += integrate.quad(lambda y, low=low: g(low + math.expm1(y)) * math.exp(y), 0.0, 250.0, limit=500)[0]
        elif math.isinf(low):
            total += integrate.quad(lambda y, high=high: g(high - math.expm1(y)) * math.exp(y), 0.0, 250.0, limit=500)[
                0
            ]
        else:
            total += integrate.quad(g, low, high, limit=500)[0]
    return total


@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_means_and_moments_agree_with_integrals(arm: Arm) -> None:
    size = abs(arm.scale) + abs(arm.offset)
    assert expectation(arm, lambda loss: 1.0) == pytest.approx(1.0, abs=1e-7)
    assert expectation(arm, lambda loss: loss) == pytest.approx(arm.mean, abs=1e-5 * size)
    order = 0.88 * arm.index
    assert arm.moment(order) == pytest.approx(expectation(arm, lambda loss: abs(loss) ** order, 0.0), rel=1e-4)


def test_moments_in_closed_form() -> None:
    """E X^r of a Pareto law is a/(a − r); that of Student's is a quotient of gammas."""
    for a in (1.2, 1.5, 1.8):
        for r in (0.85 * a, 0.9 * a, 0.95 * a):
            assert Arm("Pareto", a, 3.0).moment(r) == pytest.approx(3.0**r * a / (a - r), rel=1e-4)
            gammas = math.gamma((r + 1) / 2) * math.gamma((a - r) / 2) / math.sqrt(math.pi) / math.gamma(a / 2)
            assert Arm("Student", a, 2.0).moment(r) == pytest.approx(2.0**r * a ** (r / 2) * gammas, rel=1e-4)


@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_no_variance(arm: Arm) -> None:
    """The mean square of the losses up to a size grows with that size like its power 2 − index, so without limit."""

    def up_to(size: float) -> float:
        edge = size * abs(arm.scale)
        cuts = (arm.offset - edge, arm.offset + edge, *(arm.offset + sign * edge / 1e3 for sign in (-1, 1)))
        return expectation(arm, lambda loss: (loss - arm.offset) ** 2 if abs(loss - arm.offset) <= edge else 0.0, *cuts)

    assert 1.0 < arm.index < 2.0
    assert up_to(1e8) / up_to(1e6) == pytest.approx(100.0 ** (2.0 - arm.index), rel=0.1)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_at_home_the_best_arm_is_truncated_non_negative(entry: HeavyEntry) -> None:
    """E[ℓ; |ℓ| > M] is at least 0 for all M at home, and below 0 for some M away."""
    arm = BEST[entry.name]
    size = abs(arm.scale) + abs(arm.offset)
    parts = []
    for m in (0.0, *(size * np.geomspace(0.01, 1e4, 25))):
        cuts = (-m, m, 0.0)
        parts.append(expectation(arm, lambda loss, m=m: loss if abs(loss) > m else 0.0, *cuts) / size)  # type: ignore[misc]
    assert parts[0] == pytest.approx(arm.mean / size, abs=1e-5)
    if entry.at_home:
        assert min(parts) > -1e-6
    else:
        assert min(parts) < -1e-3


def test_tables_away_are_so_for_two_reasons() -> None:
    away = [entry for entry in ENTRIES if not entry.at_home]
    assert {entry.means.min() < 0.0 for entry in away} == {True, False}
    assert all(BEST[entry.name].scale < 0.0 for entry in away if entry.means.min() >= 0.0)  # a heavy tail of gains


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_columns_have_the_laws_of_the_arms(entry: HeavyEntry) -> None:
    """A Kolmogorov-Smirnov test for each arm; the risk is 1e-6 for each, if the seed were not fixed."""
    table = entry.losses(None, 0).table
    assert table.shape == (entry.n_rounds, len(entry.arms))
    for column, arm in zip(table.T, entry.arms, strict=True):
        law = stats.pareto(arm.index) if arm.shape == "Pareto" else stats.t(arm.index)
        assert stats.kstest((column - arm.offset) / arm.scale, law.cdf).pvalue > 1e-6


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_htinf_is_told(entry: HeavyEntry) -> None:
    """The moment bounds those of all arms, and the bound of HTINF is nearly as small as with any other order."""
    policy = told(policy_of("htinf"), entry)
    index = min(arm.index for arm in entry.arms)
    assert isinstance(policy, HTINF) and 1.0 < policy.alpha < index
    moments = [arm.moment(policy.alpha) for arm in entry.arms]
    assert max(moments) == pytest.approx(policy.sigma**policy.alpha)

    def bound(alpha: float) -> float:
        sigma = entry.moment_of(alpha).sigma
        return sigma * math.pow(len(entry.arms), 1 - 1 / alpha) * math.pow(entry.n_rounds, 1 / alpha)

    assert bound(policy.alpha) <= 1.05 * min(bound(share * index) for share in (0.84, 0.87, 0.9, 0.93, 0.95, 0.96))
    assert told(policy_of("opttinf"), entry) == policy_of("opttinf")


# Regret by known means.


def result_with(arms: list[list[int]], n_arms: int = 3) -> umab.Result:
    result = umab.simulate("uniform", np.zeros((len(arms[0]), n_arms)), n_trials=len(arms))
    return replace(result, _arms=np.array(arms, dtype=np.uint8))


def test_regret_by_means_by_hand() -> None:
    result = result_with([[0, 1, 1, 2], [0, 0, 0, 0], [2, 2, 2, 2]])
    assert result.regret_by_means([1.0, 3.0, 0.5]).tolist() == [5.5, 2.0, 0.0]
    assert result.regret_by_means(np.array([1.0, 3.0, 0.5]) - 1e9).tolist() == [5.5, 2.0, 0.0]
    assert result.regret_by_means([0.0, 0.0, 0.0]).tolist() == [0.0, 0.0, 0.0]
    assert result.regret_by_means([-1e308, 1e308, -1e308]).tolist() == [math.inf, 0.0, 0.0]
    assert result.regret_by_means([1e-320, 0.0, 0.0]).tolist() == [1e-320, 4e-320, 0.0]


@pytest.mark.parametrize(
    ("means", "error", "message"),
    [
        ([1.0, 2.0], ValueError, "one number for each arm, but got 2 for 3 arms"),
        ([1.0, 2.0, math.nan], ValueError, "mean must be finite, but got mean=nan"),
        ([1.0, 2.0, "3"], TypeError, "mean must be a number"),
        (1.0, TypeError, "one number for each arm, but got 1.0"),
    ],
)
def test_means_that_are_refused(means: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        result_with([[0, 1, 2]]).regret_by_means(means)


def test_results_without_regret_by_means() -> None:
    summary = umab.simulate("uniform", [[0.0, 1.0]], n_trials=2, keep="summary")
    with pytest.raises(AttributeError, match="keep='all' to get the regret by means"):
        summary.regret_by_means([0.0, 1.0])
    whole = umab.simulate("uniform", [[0.0, 1.0]], n_trials=2)
    away = replace(whole, _losses=Losses.of([[0.0, None]], missing="away"))
    with pytest.raises(ValueError, match="the regret by means needs the losses of all arms"):
        away.regret_by_means([0.0, 1.0])
    advised = replace(whole, _advice=Advice.of([[0, 1]], 1, 2))
    with pytest.raises(ValueError, match="the regret by means compares with arms"):
        advised.regret_by_means([0.0, 1.0])


def test_regret_by_means_is_right_on_average() -> None:
    """Over tables drawn anew, it has the mean of what the draws cost more than the best arm; 4.75 standard errors."""
    means = np.array([0.0, 0.5, 0.8])
    by_means, realised = [], []
    for trial in range(600):
        table = means + np.random.default_rng(trial).standard_normal((150, 3))
        result = umab.simulate("umab-w", table, n_trials=1, seed=trial, n_threads=1)
        by_means.append(result.regret_by_means(means)[0])
        realised.append(table[np.arange(150), result.arms[0]].sum() - table[:, 0].sum())
    gap = np.array(by_means) - np.array(realised)
    assert abs(gap.mean()) <= 4.75 * gap.std(ddof=1) / math.sqrt(600)
    assert 10.0 < np.mean(by_means) < 0.5 * 150 * means.mean()


# The contest.


def quiet(n_trials: int, seed: int) -> Trials:
    return Trials(n_trials, seed, None, Progress(1, "", False))


def test_every_trial_has_a_table_of_its_own() -> None:
    (entry,) = [each for each in ENTRIES if each.name == "tempting"]
    run = {name: policy_of(name) for name in ("htinf", "umab-nn", "scb")}
    found = play_by_means(entry, run, quiet(3, 7), data_seed=2)
    told_htinf = HTINF(alpha=entry.moment.alpha, sigma=entry.moment.sigma)
    for trial in range(3):
        losses = suite(group="heavy", names=["tempting"], seed=2 * 3 + trial)["tempting"]
        seed = int(np.random.SeedSequence([7, trial]).generate_state(1)[0]) if trial else 7
        for name, policy in {**run, "htinf": told_htinf}.items():
            right = umab.simulate(policy, losses, n_trials=1, seed=seed).regret_by_means([1.0, 2.0, 2.0, 2.0])
            assert found.regrets[name][trial] == pytest.approx(right[0], rel=1e-12)
    assert found.regrets[AT_RANDOM].tolist() == [pytest.approx(3750.0)] * 3 and found.scored
    assert len(set(found.regrets["htinf"])) == 3
    (signed,) = [each for each in ENTRIES if each.name == "symmetric"]
    assert "umab-nn" not in play_by_means(signed, {"umab-nn": run["umab-nn"]}, quiet(2, 0)).regrets


def test_what_the_contest_refuses() -> None:
    for name, message in (
        ("nobody", "'nobody'"),
        ("exp3", "no range, but got exp3"),
        ("adahedge", "one arm per round"),
    ):
        with pytest.raises(ValueError, match=message):
            tails(policies=[name], n_trials=2)
    with pytest.raises(ValueError, match="at least 2"):
        tails(n_trials=1)


def made_up(*, on_heavy: dict[str, tuple[float, float]], on_general: dict[str, float]) -> Any:
    """Return the numbers of a contest with these scores at home and away and on the general tables, by policy."""
    home, away = (next(each for each in ENTRIES if each.at_home is at_home) for at_home in (True, False))
    everybody = (RECOMMENDED, STEADY, *FOR_TAILS, *competitors())

    def played(entry: Any, scores: dict[str, float]) -> Played:
        noise = np.array([-1.0, 1.0, -1.0, 1.0])
        regrets = {name: 100.0 * scores.get(name, 0.9) + noise for name in everybody} | {AT_RANDOM: np.full(4, 100.0)}
        return Played(entry, Losses.of([[0.0]]), regrets, Summary(100.0, 0.0, 0.0, 4))

    tables = [
        (home, {name: at for name, (at, _) in on_heavy.items()}),
        (away, {n: at for n, (_, at) in on_heavy.items()}),
    ]
    heavy = Standings("validation", tuple(played(*each) for each in tables), (*everybody, AT_RANDOM), 4, 0, 0)
    general = Standings("validation", (played(entries("validation")[0], on_general),), heavy.policies, 4, 0, 0)
    return heavy_page.numbers_of([Tails(heavy, general)])


def test_the_verdict_follows_the_numbers() -> None:
    """A policy for heavy tails that wins at home, loses away, and costs too much elsewhere."""
    numbers = made_up(
        on_heavy={RECOMMENDED: (0.4, 0.2), STEADY: (0.4, 0.2), "htinf": (0.08, 0.8), "adatinf": (0.4, 0.5)},
        on_general={RECOMMENDED: 0.2, STEADY: 0.2, "adatinf": 0.1},
    )
    half = numbers["halves"]["validation"]
    assert half["policies"]["htinf"]["mean_score"]["home"]["value"] == pytest.approx(0.08)
    assert half["policies"]["htinf"]["to_recommended"]["away"]["value"] == pytest.approx(4.0)
    everywhere, home, away, single = heavy_page.verdicts(half)
    assert everywhere.startswith("All tables (2): the smallest mean score belongs to htinf, 0.25")
    assert (
        "(1): the smallest mean score belongs to htinf, 0.08" in home
        and f"average, it beats {RECOMMENDED} there" in home
    )
    assert f"(1): the smallest mean score belongs to {RECOMMENDED}, 0.2" in away and "none of them beats" in away
    assert "adatinf has the smallest, 2.50" in away
    assert "on 1 of the 2 tables" in single and "(htinf 0.20" in single
    _, prices, general, alone = heavy_page.rule(numbers["halves"])
    assert "adatinf 0.50" in prices and "--group changing --policy adatinf`" in prices
    assert general.endswith("adatinf would beat it there.")
    assert "speak for htinf (0.89" in alone and "too close" not in alone
    assert alone.endswith(f"); of the policies that are told nothing, for {RECOMMENDED}.")


def test_the_rule_excludes_what_is_too_dear() -> None:
    same = dict.fromkeys((RECOMMENDED, STEADY, *FOR_TAILS), 0.2)
    dear = {**same, **dict.fromkeys(FOR_TAILS, 0.2 * 1.01 * PRICE_OF_A_DEFAULT)}
    numbers = made_up(on_heavy={name: (score, score) for name, score in same.items()}, on_general=dear)
    _, prices, general, alone = heavy_page.rule(numbers["halves"])
    assert f"All are too high, so the rule excludes these policies. The recommendation stays {RECOMMENDED}." in prices
    assert general.endswith(f"On average, none of them beats {RECOMMENDED} there.") and alone.endswith(
        f"for {RECOMMENDED}."
    )
    everywhere, *_, single = heavy_page.verdicts(numbers["halves"]["validation"])
    assert "too few to tell" in everywhere and single.startswith("On no single table")


# The report.


def test_the_command_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(half: Any = None, **group: Any) -> Any:
        wanted = ("symmetric", "long-gains", "long-waits-again", "refunds-again", "short", "short-waits")
        return [each for each in entries(half, **group) if each.name in wanted]

    monkeypatch.setattr(contests, "entries", few)
    out = tmp_path / "heavy"
    asked = ["suite", "--group", "heavy", "--trials", "3", "--policy", "umab-s:rate=9", "--out", str(out)]
    assert cli.main(asked) == 0
    printed = capsys.readouterr().out
    for text in (
        "development half",
        "validation half",
        "umab-s:rate=9",
        "Tables away (1)",
        "The rule for recommending",
    ):
        assert text in printed
    numbers = json.loads((out / "results.json").read_text())
    symmetric = numbers["halves"]["development"]["tables"]["symmetric"]
    assert symmetric["at_random"] == pytest.approx(4000.0) and 1.2 < symmetric["alpha"] < 1.5 < symmetric["sigma"]
    assert symmetric["regrets"]["uniform"]["sd"] == 0.0 and symmetric["regrets"]["htinf"]["n_trials"] == 3
    assert numbers["halves"]["validation"]["policies"]["umab-nn"]["mean_score"]["home"]["value"] > 0.0
    assert numbers["halves"]["validation"]["policies"]["umab-nn"]["mean_score"]["away"]["value"] is None
    page, markdown = (out / "index.html").read_text(), (out / "page.md").read_text()
    for text in (page, markdown):
        assert "refunds-again" in text and "speak for" in text and "umab-s:rate=9" in text and "mean price" in text
    figures = sorted(path.name for path in (out / "figures").iterdir())
    halves = ("development", "validation")
    assert figures == [f"heavy-{half}.{kind}" for half in halves for kind in ("pdf", "png", "svg")]
    assert cli.main(["suite", "--group", "heavy", "--half", "validation", "--trials", "2", "--out", str(out)]) == 0
    assert "Development half" not in (out / "index.html").read_text()
    capsys.readouterr()
    assert cli.main(["suite", "--group", "heavy", "--trials", "2", "--device", "gpu"]) != 0
    assert "runs on the processor, but got --device gpu" in capsys.readouterr().err


def test_the_page_in_docs_is_made_from_the_numbers_beside_it() -> None:
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    made = shell.markdown("heavy.md", heavy_page.content_of(numbers, "umab suite --group heavy"))
    assert made.replace("(figures/", "(suite-") == PAGE.read_text(encoding="utf-8")
    assert (numbers["n_trials"], numbers["seed"], numbers["data_seed"], numbers["stand_ins"]) == (200, 0, 0, [])
    for half, found in numbers["halves"].items():
        assert list(found["tables"]) == [each.name for each in entries(half, group="heavy")]
        assert set(found["policies"]) == {RECOMMENDED, STEADY, *FOR_TAILS, *competitors(), AT_RANDOM}
        assert (DOCS / f"suite-heavy-{half}.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("name", ["symmetric", "long-gains-again"])
def test_the_numbers_in_docs_are_those_of_a_run(name: str) -> None:
    """Two policies on one table in each half; rounding may differ between machines."""
    entry = next(each for each in ENTRIES if each.name == name)
    table = json.loads(NUMBERS.read_text(encoding="utf-8"))["halves"][entry.half]["tables"][name]
    found = play_by_means(entry, {each: policy_of(each) for each in ("htinf", "sf-mab")}, quiet(200, 0))
    assert found.losses.digest == table["first_table"]["sha256"]
    for each in ("htinf", "sf-mab"):
        assert Summary.of(found.regrets[each]).mean == pytest.approx(table["regrets"][each]["mean"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("UMAB_DATA"), reason="UMAB_DATA names no folder with the public tables")
def test_the_page_in_docs_is_that_of_a_run(tmp_path: Path) -> None:
    heavy_page.write(heavy_page.numbers_of(tails(real=True)), tmp_path / "heavy", "umab suite --group heavy")
    made = (tmp_path / "heavy" / "page.md").read_text(encoding="utf-8").replace("(figures/", "(suite-")
    assert made == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "heavy" / "results.json").read_bytes() == NUMBERS.read_bytes()
