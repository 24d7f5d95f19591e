"""How results, losses and learners look in a notebook, and their frames."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas
import polars
import pytest

import umab
from umab._support import display
from umab.algorithms.base import Change, Pause


def parsed(text: str) -> ElementTree.Element:
    """Return the elements of what is shown; it must be well formed, without scripts, and without odd numbers."""
    root = ElementTree.fromstring(text)
    assert not list(root.iter("script"))
    assert "nan" not in text.lower() and "inf" not in text.lower() and "None" not in text
    return root


def points(root: ElementTree.Element, shape: str) -> npt.NDArray[np.float64]:
    (found,) = root.iter(shape)
    return np.array([[float(part) for part in pair.split(",")] for pair in found.get("points", "").split()])


def words(root: ElementTree.Element) -> str:
    return "|".join(text.strip() for text in root.itertext())


def test_a_result_shows_its_curve_and_what_it_came_to() -> None:
    losses = np.random.default_rng(0).exponential([1.0, 2.0], size=(500, 2))
    result = umab.simulate("umab-nn", losses, n_trials=20)
    root = parsed(result._repr_html_())
    assert f"umab-nn|: {str(result)[len('Result(umab-nn: ') : -1]}" in words(root)
    assert "mean expected regret (pseudo-regret) over 500 rounds, band of one standard deviation" in words(root)
    sampled = umab.simulate("umab-nn", losses, n_trials=20, expected=False)
    assert "mean sampled regret over 500 rounds" in words(parsed(sampled._repr_html_()))
    line, band = points(root, "polyline"), points(root, "polygon")
    assert len(line) == 160 and len(band) == 320
    assert (np.diff(line[:, 0]) > 0).all() and line[-1, 1] < line[0, 1]  # regret grows, and up is less in SVG
    low, high = band[:160], band[160:][::-1]
    assert (low[:, 1] >= line[:, 1]).all() and (high[:, 1] <= line[:, 1]).all()
    assert band.min() >= 0 and band[:, 1].max() <= 80 and band[:, 0].max() <= 320
    # The end of the curve is where it ought to be, between 0 below and the top of the band above.
    top = (result.mean + result.sd).max()
    bottom = min(0.0, (result.mean - result.sd).min())
    assert line[-1, 1] == pytest.approx(2 + 76 * (top - result.mean[-1]) / (top - bottom), abs=0.5)


def test_one_trial_has_no_band_and_one_round_is_a_point() -> None:
    losses = np.random.default_rng(0).exponential([1.0, 2.0], size=(50, 2))
    root = parsed(umab.simulate("uniform", losses, n_trials=1)._repr_html_())
    assert "after 50 rounds, 1 trial|" in words(root) and "band" not in words(root)
    root = parsed(umab.simulate("uniform", losses[:1], n_trials=1)._repr_html_())
    assert len(list(root.iter("circle"))) == 1 and "after 1 round, 1 trial|" in words(root)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e300, 1.7e308])
def test_any_size_can_be_shown(scale: float) -> None:
    table = scale * np.sign(np.random.default_rng(0).normal(size=(40, 3)))
    parsed(umab.simulate("uniform", table / 40, n_trials=5)._repr_html_())
    parsed(umab.Losses.of(table)._repr_html_())


def test_a_regret_that_is_too_large_says_so() -> None:
    huge = np.full(3, math.inf)
    text = display.result_html("uniform", "regret too large", "sampled", huge, huge)
    assert "too large for a double" in words(ElementTree.fromstring(text))


def test_losses_show_their_arms() -> None:
    losses = umab.Losses.of([[1.0, -2.0], [3.0, 4.0]], arms=["<script>alert(1)</script>", "b & c"])
    root = parsed(losses._repr_html_())
    assert words(root).startswith("Losses|: 2 rounds of 2 arms")
    assert [[cell.text for cell in row] for row in root.iter("tr")] == [
        ["arm", "mean loss", "lowest", "highest"],
        ["<script>alert(1)</script>", "2", "1", "3"],
        ["b & c", "1", "-2", "4"],
    ]


def test_of_many_arms_the_best_are_shown() -> None:
    table = np.arange(100.0)[::-1][None, :]
    root = parsed(umab.Losses.of(table)._repr_html_())
    assert [next(iter(row)).text for row in root.iter("tr")][1:] == [str(k) for k in range(80, 100)]
    assert "20 of 100 arms with the smallest means" in words(root)


class Counter(NamedTuple):
    selected: int
    losses: int
    mean: float
    latest: float | None
    probability: float


class Learner:
    """What is needed of a learner."""

    def __init__(
        self,
        probabilities: dict[Any, float],
        n_open: int,
        changes: Sequence[tuple[Any, bool | None]] = (),
        paused: Sequence[Any] = (),
    ) -> None:
        self._probabilities, self._changes, self._paused = probabilities, changes, paused
        self.policy = umab.recommended()
        self.arms = tuple(probabilities)
        self.outstanding = (None,) * n_open
        self.maximize = False

    def probabilities(self) -> npt.NDArray[np.float64]:
        return np.array(list(self._probabilities.values()))

    def changes(self) -> list[Change]:
        return [Change(round=round, arm=arm, kept=kept) for round, (arm, kept) in enumerate(self._changes, 100)]

    def pauses(self) -> list[Pause]:
        return [Pause(arm, 7, 0) for arm in self._paused]

    def counters(self) -> dict[Any, Counter]:
        return {arm: Counter(7, 6, math.nan, None, p) for arm, p in self._probabilities.items()}


def test_a_learner_shows_probabilities_and_counters() -> None:
    root = parsed(display.learner_html(Learner({"<script>": 0.75, 2: 0.25}, n_open=1)))
    assert words(root).startswith("umab-w|: 2 arms, 1 open choice; losses, lower is better")
    gains = umab.Learner("uniform", 2, maximize=True)
    assert "rewards, higher is better" in words(parsed(gains._repr_html_()))
    assert [["".join(cell.itertext()).strip() for cell in row] for row in root.iter("tr")] == [
        ["arm", "probability", "selected", "losses", "mean", "latest"],
        ["<script>", "0.750", "7", "6", "–", "–"],
        ["2", "0.250", "7", "6", "–", "–"],
    ]
    assert [bar.get("width") for bar in root.iter("rect")] == ["100", "75.0", "100", "25.0"]


def test_of_a_learner_with_many_arms_the_likely_ones_are_shown() -> None:
    root = parsed(display.learner_html(Learner({k: (k + 1) / 5050 for k in range(100)}, n_open=0)))
    assert [next(iter(row)).text for row in root.iter("tr")][1:] == [str(k) for k in range(80, 100)]
    assert "20 of 100 arms with the highest probabilities" in words(root) and "0 open choices" in words(root)


def test_a_learner_shows_the_latest_changes_that_it_has_noticed() -> None:
    assert "noticed" not in words(parsed(display.learner_html(Learner({"a": 1.0}, n_open=0))))
    some = Learner({"<b>": 0.5, 2: 0.5}, n_open=0, changes=[("<b>", True), (2, False), (None, None)])
    assert words(parsed(display.learner_html(some))).endswith(
        "changes noticed: <b> after 100 losses (started afresh); 2 after 101 losses (undone); "
        "an arm that is gone after 102 losses (on trial)"
    )
    many = words(parsed(display.learner_html(Learner({"a": 1.0}, n_open=0, changes=[("a", True)] * 16))))
    assert "latest 5 changes noticed: a after 111 losses" in many and many.endswith(
        "a after 115 losses (started afresh)"
    )


def test_a_learner_shows_the_arms_that_are_paused() -> None:
    some = words(parsed(display.learner_html(Learner({"<b>": 1.0}, n_open=0, paused=["<b>"]))))
    assert some.endswith("<b>: paused after 7 losses, next probe is due")
    many = words(parsed(display.learner_html(Learner({"a": 1.0}, n_open=0, paused=range(100)))))
    assert "19: paused" in many and "20: paused" not in many and many.endswith("80 more arms paused")


@pytest.fixture(scope="module")
def results() -> list[umab.Result]:
    losses = np.random.default_rng(0).exponential([1.0, 2.0], size=(30, 2))
    return umab.simulate(["umab-nn", "uniform"], losses, n_trials=5, keep="summary")


def test_a_result_as_a_pandas_frame(results: list[umab.Result]) -> None:
    frame = pandas.concat([each.to_pandas() for each in results])
    assert list(frame.columns) == ["policy", "kind", "round", "mean", "sd", "se"] and len(frame) == 60
    assert set(frame["kind"]) == {"expected"}
    last = frame[frame["round"] == 30].set_index("policy")
    assert last.loc["uniform", "mean"] == results[1].mean[-1] and last.loc["umab-nn", "se"] == results[0].se[-1]
    trials = results[0].to_pandas("trials")
    assert list(trials.columns) == ["policy", "kind", "trial", "final_regret"]
    assert trials["trial"].tolist() == [0, 1, 2, 3, 4]
    assert trials["final_regret"].tolist() == results[0].final_regret.tolist()
    trials.loc[:, "final_regret"] = 0.0
    assert results[0].final_regret.all()  # the frame is a copy


def test_a_result_as_a_polars_frame(results: list[umab.Result]) -> None:
    for of in ("curve", "trials"):
        mine, other = results[1].to_polars(of), results[1].to_pandas(of)
        assert mine.to_dict(as_series=False) == other.to_dict(orient="list")
    assert polars.concat([each.to_polars() for each in results]).height == 60
    with pytest.raises(ValueError, match=r"'curve', 'trials'.*of='arms'"):
        results[0].to_polars("arms")  # type: ignore[arg-type]
