"""The first line of `umab compare`: one sentence, its numbers, its grammar, and what it calls a round."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import umab
from umab import cli
from umab.research.experiments import runner
from umab.research.experiments.experiment import comparison
from umab.research.experiments.runner import Outcome, run_on
from umab.research.report import in_short as module
from umab.research.report.in_short import Against, in_short, sentence
from umab.tables.units import unit_of

LOSSES = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(300, 3))
START = datetime(2026, 1, 1)


# The words.


def said(mean: float, difference: float, *, reward: bool = False, **more: Any) -> str:
    """Return what stands between the verb and the end."""
    flip = -1.0 if reward else 1.0
    each = Against("it", flip * mean, more.pop("size", abs(mean)), flip * difference, more.pop("error", 0.0), 100)
    text = sentence("x", 100, "hour", [each], reward=reward)
    begin = f"Over these 100 hours x would have {'earned' if reward else 'cost'} "
    assert text.startswith(begin) and text.endswith(" it.")
    return text.removeprefix(begin).removesuffix(" it.")


@pytest.mark.parametrize("reward", [False, True])
@pytest.mark.parametrize(
    ("mean", "difference", "words"),
    [
        (2.0, 0.062, "3.1% more than"),
        (2.0, -0.82, "41% less than"),
        (2.0, 0.199, "10% more than"),
        (2.0, 0.02, "1% more than"),
        (2.0, 0.0024, "0.12% more than"),
        (2.0, 0.0008, "about as much as"),
        (2.0, 0.0, "as much as"),
        (2.0, -2.0, "100% less than"),
        (2.0, -1.9999, "99.9% less than"),
        (2.0, -1.98, "99% less than"),
        (2.0, 17.9, "895% more than"),
        (2.0, 18.0, "10 times as much as"),
        (2.0, 99998.0, "50,000 times as much as"),
        (2.0, -2.1, "210 less than"),  # the total is below 0
        (-2.0, 0.0624, "6.24 more than"),
        (-2.0, 12345.678, "1,234,568 more than"),
        (0.0, 0.5, "50 more than"),
        (-2.0, -3e-9, "about as much as"),
        (-1e-12, -3e-9, "3e-07 less than"),
        (-1e306, 1.7e308, "1.7e+310 more than"),
    ],
)
def test_differences_in_words(mean: float, difference: float, words: str, reward: bool) -> None:
    assert said(mean, difference, reward=reward) == words


def test_a_difference_within_its_error_is_none() -> None:
    assert said(2.0, 0.062, error=0.032) == "about as much as"
    assert said(2.0, 0.062, error=0.030) == "3.1% more than"
    assert said(2.0, 0.062, error=math.nan) == "3.1% more than"  # one trial says nothing about its error


def test_a_total_that_has_cancelled_is_near_0() -> None:
    assert said(2.0, 0.062, size=19.0) == "3.1% more than"
    assert said(2.0, 0.062, size=21.0) == "6.2 more than"
    both = [Against("a", 2.0, 2.0, 1.0, 0.0, 9), Against("b", 1.0, 30.0, 2.0, 0.0, 9)]
    assert sentence("x", 9, "round", both).endswith("cost 9 more than a, and 18 more than b.")


def test_one_round_and_no_number() -> None:
    each = Against("it", 2.0, 2.0, 0.5, 0.0, 1)
    assert sentence("x", 1, "day", [each]) == "Over this day x would have cost 25% more than it."
    large = each._replace(difference=math.inf)
    assert sentence("x", 2, "day", [large]) == "Over these 2 days the regret of x is too large for a double."


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    mean=finite, share=st.floats(0.0, 1.0), difference=finite, error=st.floats(0.0), n=st.integers(1, 10**9),
    reward=st.booleans(),
)  # fmt: skip
@example(mean=1.0, share=1.0, difference=5e-324, error=0.0, n=1, reward=False)
@example(mean=5e-324, share=1.0, difference=1e308, error=0.0, n=10**9, reward=False)
def test_any_numbers_make_a_true_sentence(
    mean: float, share: float, difference: float, error: float, n: int, reward: bool
) -> None:
    size = abs(mean) / share if share and math.isfinite(abs(mean) / share) else abs(mean)
    text = sentence("x", n, "day", [Against("it", mean, size, difference, error, n)], reward=reward)
    assert "\n" not in text and "nan" not in text and "inf" not in text
    told = re.fullmatch(
        r"Over (?:this day|these [\d,]+ days) x would have (earned|cost) "
        r"(?:(about as much as|as much as)|([\d.,e+-]+)(%| times)? (more than|less than|as much as)) it\.",
        text,
    )
    assert told, text
    verb, same, number, kind, word = told.groups()
    sign = -1.0 if reward else 1.0
    assert (verb == "earned") == reward
    if same:
        assert (same == "as much as") == (difference == 0.0)
        return
    value = float(number.replace(",", ""))
    assert value > 0.0 and not number.startswith("-")  # never -3% more
    assert (word != "less than") == (sign * difference > 0.0)
    total = sign * mean
    if kind:
        assert total > 0.0 and total >= 0.1 * size and total + sign * difference >= 0.0
        assert value <= 1e6 + 1.0
        ratio = 1.0 + sign * difference / total
        wanted = ratio if kind == " times" else 100.0 * abs(ratio - 1.0)
        assert value == pytest.approx(wanted, rel=0.051) and (word == "as much as") == (kind == " times")
        assert not (word == "less than" and value > 100.0)
    else:
        assert total <= 0.1 * size or total + sign * difference <= 0.0 or sign * difference > 1e6 * total
        if value < 1e300:
            assert value == pytest.approx(abs(difference) * n, rel=0.006)


# The numbers.


def outcome_of(data: Any, *policies: str, n_trials: int = 20, **options: Any) -> Outcome:
    losses = umab.Losses.of(data, **options)
    experiment = comparison("x", losses, policies or ("recommended", "uniform"))
    (outcome,) = run_on([(experiment, experiment.settings[0], losses)], n_trials=n_trials).outcomes
    return outcome


def percent(ratio: float) -> str:
    return said(1.0, ratio - 1.0)


def test_totals_are_those_of_the_table() -> None:
    result = umab.simulate("umab-w", LOSSES, n_trials=20, expected=True)
    best, chance = LOSSES.sum(axis=0).min(), LOSSES.mean(axis=1).sum()
    total = best + result.mean[-1]
    wanted = (
        f"Over these 300 rounds the recommended policy (umab-w) would have cost {percent(total / best)} staying with "
        f"near, the best single arm, and {percent(total / chance)} choosing at random."
    )
    arms = ["near", "east", "west"]
    assert in_short(outcome_of(LOSSES, arms=arms)) == wanted and re.search(r"\d% more .*\d% less", wanted)
    assert in_short(outcome_of(1e-200 * LOSSES, arms=arms)) == wanted  # in any unit
    assert in_short(outcome_of(LOSSES, "umab-w", arms=arms)) == wanted  # under its own name


def test_below_0_there_are_amounts() -> None:
    table = LOSSES - 2.0
    result = umab.simulate("umab-w", table, n_trials=20, expected=True)
    more = result.mean[-1]
    less = table.mean(axis=1).sum() - table.sum(axis=0).min() - more
    assert f"cost {more:.3g} more than staying with 0" in in_short(outcome_of(table))
    assert f"and {less:.3g} less than choosing at random." in in_short(outcome_of(table))


def test_a_large_offset_costs_no_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAME", 0.0)  # or the difference would be too small to tell
    table = np.floor(8.0 * LOSSES) / 8.0
    first, second = (in_short(outcome_of(-each)) for each in (table + 8.0, table + 2.0**40))
    assert first == second and re.search(r"cost [\d,.]+ more than staying with 2", first)


def test_other_policies_have_their_names() -> None:
    assert in_short(outcome_of(LOSSES, "ahb")).startswith("Over these 300 rounds ahb would have cost ")
    best = in_short(outcome_of(LOSSES, "ahb", "umab-s", "uniform"))
    assert best.startswith("Over these 300 rounds umab-s would have cost ")
    alone = in_short(outcome_of(LOSSES, "uniform"))
    ratio = percent(LOSSES.mean(axis=1).sum() / LOSSES.sum(axis=0).min())
    assert (
        alone
        == f"Over these 300 rounds choosing at random would have cost {ratio} staying with 0, the best single arm."
    )


def test_names_stay_in_one_line_and_equal_arms_are_told() -> None:
    same = in_short(outcome_of(np.ones((50, 2)), arms=["a\n  long\tname", "b"]))
    assert same == (
        "Over these 50 rounds the recommended policy (umab-w) would have cost as much as staying with a long name, "
        "one of the best single arms, and as much as choosing at random."
    )


@pytest.mark.parametrize("scale", [1e308, -1e308, 5e-324])
def test_any_doubles_are_legal(scale: float) -> None:
    table = scale * np.random.default_rng(1).integers(0, 2, (40, 3)).astype(float)
    gaps = np.where(np.arange(120).reshape(40, 3) % 7 == 0, np.nan, table)
    for data in (table, np.where(table == 0.0, -scale, table), gaps):
        with np.errstate(invalid="raise", divide="raise"):
            text = in_short(outcome_of(data, "recommended", n_trials=3, missing="away"))
        assert text.startswith("Over these 40 rounds the re") and not re.search(r"\b(nan|inf)\b", text), text


def slowly(losses: umab.Losses, arms: Any) -> tuple[float, float, list[tuple[float, float]]]:
    """What the choices cost, what random ones do, and for each arm both costs over its rounds, one by one."""
    total = chance = 0.0
    pairs = [[0.0, 0.0] for _ in losses.arms]
    for t, row in enumerate(losses.table.tolist()):
        paid = sum(row[arm] for arm in arms[:, t]) / len(arms)
        there = [k for k, loss in enumerate(row) if not math.isnan(loss)]
        total, chance = total + paid, chance + sum(row[k] for k in there) / len(there)
        for k in there:
            pairs[k][0] += paid
            pairs[k][1] += row[k]
    return total, chance, [(paid, own) for paid, own in pairs]


@pytest.mark.parametrize("kept", [True, False])
def test_an_arm_that_was_away_is_compared_while_it_was_there(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.where(np.random.default_rng(2).random(LOSSES.shape) < [0.6, 0.1, 0.1], np.nan, LOSSES)
    table[np.isnan(table).all(axis=1), 1] = 2.0
    if not kept:
        monkeypatch.setattr(runner, "_DRAWS_KEPT", 0)
    outcome = outcome_of(table, missing="away", arms=["near", "east", "west"])
    assert (outcome.curves["recommended"].sampled is not None) == kept
    n_there = int((~np.isnan(table[:, 0])).sum())
    assert n_there < 150
    for draws, n_trials in ((10**8, 20), (5 * 300, 20 if kept else 5)):
        monkeypatch.setattr(module, "_DRAWS", draws)
        arms = umab.simulate("umab-w", outcome.losses, n_trials=n_trials).arms
        total, chance, pairs = slowly(outcome.losses, arms)
        paid, own = max(pairs, key=lambda pair: pair[0] - pair[1])
        assert (paid, own) == pairs[0]
        assert in_short(outcome) == (
            f"Over these 300 rounds the recommended policy (umab-w) would have cost {percent(total / chance)} "
            f"choosing at random, and in the {n_there} rounds in which near was there, {percent(paid / own)} "
            "staying with near."
        )


# What a round is.


def every(step: timedelta, n: int = 50, start: datetime = START) -> list[datetime]:
    return [start + at * step for at in range(n)]


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (every(timedelta(seconds=1)), "second"),
        (every(timedelta(minutes=1)), "minute"),
        (every(timedelta(hours=1)), "hour"),
        (every(timedelta(days=1)), "day"),
        (every(timedelta(days=7)), "week"),
        ([date(2024 + at // 12, at % 12 + 1, 1) for at in range(30)], "month"),
        ([date(2000 + at, 5, 1) for at in range(20)], "year"),
        (every(timedelta(days=28)), None),
        (every(timedelta(minutes=15)), None),
        (every(timedelta(0)), None),
        (every(timedelta(hours=1))[::-1], None),
        (every(timedelta(hours=1), 1), None),
        ([], None),
        ([at for at in every(timedelta(days=1), 200) if at.weekday() < 5], "day"),  # working days
        ([*every(timedelta(hours=1), 200), *every(timedelta(hours=1), 200, START + timedelta(hours=199))], "hour"),
        ([START + timedelta(seconds=at * at % 97) for at in range(50)], None),
        ([START + timedelta(seconds=at - at // 5) for at in range(50)], None),  # one step in five is 0
        ([START + timedelta(seconds=at // 2) for at in range(50)], None),  # two requests a second
    ],
)
def test_the_times_say_what_a_round_is(times: list[Any], unit: str | None) -> None:
    assert unit_of(times) == unit
    assert unit_of([str(each) for each in times]) == unit
    assert unit_of([each.isoformat() for each in times]) == unit


def test_dates_as_people_write_them() -> None:
    days = every(timedelta(days=1))
    for form in ("%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y 08:30", "%m/%d/%Y 8:30:15"):
        assert unit_of([each.strftime(form) for each in days]) == "day"
    hours = every(timedelta(hours=1))
    assert unit_of([each.strftime("%d.%m.%Y %H:%M") for each in hours]) == "hour"
    zone = [each.isoformat() + "+01:00" for each in hours[:25]]
    zone += [(each + timedelta(hours=1)).isoformat() + "+02:00" for each in hours[25:]]
    assert unit_of(zone) == "hour"
    assert unit_of([*map(str, hours), "2026-02-01T00:00:00Z"]) is None  # not all have a zone
    assert unit_of(["32.13.2024", "33.13.2024"]) is None and unit_of(["Mon", "Tue"]) is None


# The command.


def table_of(n: int = 40) -> polars.DataFrame:
    times = every(timedelta(hours=1), n)
    return polars.DataFrame({"when": times} | {arm: LOSSES[:n, at] for at, arm in enumerate(("near", "east"))})


def wide(folder: Path) -> Path:
    table_of().write_csv(folder / "t.csv")
    return folder / "t.csv"


def packed(folder: Path) -> Path:
    table_of().write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def long(folder: Path) -> Path:
    frame = table_of().unpivot(index="when", variable_name="arm", value_name="loss").rename({"when": "round"})
    frame.write_csv(folder / "t.csv")
    return folder / "t.csv"


def first_line(arguments: list[str], capsys: Any) -> str:
    assert cli.main(["compare", *arguments, "--policy", "recommended", "--trials", "5"]) == 0
    return str(capsys.readouterr().out.partition("\n")[0])


@pytest.mark.parametrize("write", [wide, packed, long])
def test_the_sentence_is_the_first_line(write: Any, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path)
    result = umab.simulate("umab-w", LOSSES[:40, :2], n_trials=5, expected=True)
    best, chance = LOSSES[:40, :2].sum(axis=0).min(), LOSSES[:40, :2].mean(axis=1).sum()
    total = best + result.mean[-1]
    error = result.se[-1] / best
    assert first_line([str(path)], capsys) == (
        "Over these 40 hours the recommended policy (umab-w) would have cost "
        f"{said(1.0, total / best - 1.0, error=error)} staying with near, the best single arm, and "
        f"{said(1.0, total / chance - 1.0, error=error * best / chance)} choosing at random."
    )
    assert first_line([str(path), "--reward"], capsys).startswith(
        "Over these 40 hours the recommended policy (umab-w) would have earned "
    )
    page = Path("report-t", "index.html").read_text()
    assert "Over these 40 hours the recommended policy (umab-w) would have earned" in page


def test_dates_that_are_dropped_and_rounds_that_are_left_out_count_too(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(wide(tmp_path))
    assert first_line([path, "--drop", "when"], capsys).startswith("Over these 40 hours ")
    text = Path(path).read_text().splitlines()
    Path(path).write_text("\n".join([*text[:5], text[5].rpartition(",")[0] + ",", *text[6:], ""]))
    assert cli.main(["compare", path]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "missing cells: 1 of 80; to leave out" in told.err
    for missing, begin in (("drop", "these 39 hours"), ("-2.5", "these 40 hours"), ("away", "these 40 hours")):
        assert first_line([path, "--missing", missing], capsys).startswith(f"Over {begin} the recommended policy ")
    Path(path).write_text("\n".join(line.partition(",")[2] for line in text) + "\n")
    assert first_line([path], capsys).startswith("Over these 40 rounds ")
