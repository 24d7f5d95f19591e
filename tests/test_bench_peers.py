"""The driver of `make bench-peers`, with made-up peers in place of those that it installs."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.peers import __main__ as driver
from benchmarks.peers import environments, measure, numpy_loop, readme
from benchmarks.peers.measure import SETTINGS, Child, Failed, Robustness, Run, Setting, Speed, Tables
from benchmarks.peers.page import Peer, Results, holds, outcome, page
from benchmarks.timing import Ratio, ratio_of_turns

import umab
from umab.engine.streams import stream
from umab.testing import Array

FAKE = '''
"""A peer that was made up."""

import os
import random
import time

REQUIREMENTS = ["pytest"]
TAKES = "losses"
LACKS = ["everything"]
REFUSALS = ["must not be"]

print("advice that nobody asked for")


def uniform(table, seed, arms):
    draws = random.Random(seed)
    arms.extend(draws.randrange(len(table[0])) for _ in table)


def greedy(table, seed, arms):
    """Play what is cheapest on average; a made-up peer may look."""
    sums = [sum(column) for column in zip(*table)]
    arms.extend([sums.index(min(sums))] * len(table))


def crash(table, seed, arms):
    arms.extend([0] * 7)
    raise OverflowError("too large\\nand more")


def refuse(table, seed, arms):
    raise ValueError("a loss must not be")


def sleep(table, seed, arms):
    arms.append(0)
    time.sleep(60)


def nap(table, seed, arms):
    time.sleep(0.02)


def die(table, seed, arms):
    os.write(2, b"fatal error: gone\\n")
    os._exit(1)


POLICIES = {"exp3": uniform, "greedy": greedy, "crash": crash, "refuse": refuse, "sleep": sleep, "nap": nap, "die": die}
SIMULATIONS = {"quick": lambda table, n_trials: None}
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    place = tmp_path / "fake.py"
    place.write_text(FAKE)
    return place


@pytest.fixture
def child(script: Path) -> Iterator[Child]:
    with Child(sys.executable, script) as made:
        yield made


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def coins(n_rounds: int, n_arms: int) -> Array:
    return (np.random.default_rng(1).random((n_rounds, n_arms)) < np.linspace(0.2, 0.8, n_arms)).astype(float)


def test_the_loop_in_numpy_plays_the_arms_of_our_exp3() -> None:
    n_rounds, n_arms, n_trials = 600, 10, 40
    losses = coins(n_rounds, n_arms)
    uniforms = np.array([np.random.Generator(stream(3, trial)).random(n_rounds) for trial in range(n_trials)]).T
    gamma = numpy_loop.gamma_for(n_arms, n_rounds)
    arms, mean, sd = numpy_loop.exp3(losses, uniforms, gamma)
    ours = umab.simulate("exp3", losses, n_trials=n_trials, seed=3, expected=False)
    assert ours.arms is not None and np.array_equal(ours.arms, arms.T)
    assert np.allclose(ours.mean, mean, atol=1e-9) and np.allclose(ours.sd, sd, atol=1e-9)
    assert gamma == pytest.approx(umab.EXP3(horizon=n_rounds).parameters_for(n_arms).gamma, rel=1e-12)

    other, _, _ = numpy_loop.exp3(losses, uniforms, 0.99 * gamma)  # the comparison can fail
    assert not np.array_equal(other, arms)


def test_the_loop_in_numpy_is_the_same_one_decision_at_a_time() -> None:
    losses = coins(500, 4)
    played: list[int] = []
    numpy_loop.play(losses.tolist(), 5, played)
    uniforms = np.random.default_rng(5).random((500, 1))
    arms, _, _ = numpy_loop.exp3(losses, uniforms, numpy_loop.gamma_for(4, 500))
    assert arms[:, 0].tolist() == played


def positive_part(means: Array) -> Array:
    """Return the means of max(0, x) for normal x with a standard deviation of 0.3."""
    below = [0.5 * (1.0 + math.erf(mean / 0.3 / math.sqrt(2.0))) for mean in means]
    return means * below + 0.3 * np.exp(-0.5 * (means / 0.3) ** 2) / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_losses_for_robustness_are_as_the_page_says(setting: Setting) -> None:
    bests = []
    for seed in range(10):
        losses, best = setting.losses(seed)
        assert losses.shape == (setting.n_rounds, 5)
        means = losses.mean(axis=0)
        bests.append(best)
        assert means.argmin() == best
        expected = setting.scale * (np.linspace(0.0, 1.0, 5) - 0.5 * setting.centred)
        if setting.clipped:
            assert losses.min() == 0.0 and losses.max() == 1.0
            expected = positive_part(expected) - positive_part(expected - 1.0)
            assert np.allclose(np.sort(means), expected, atol=0.01)
        else:
            assert losses.min() < 0.0
            assert np.allclose(np.sort(means), expected, atol=0.01 * setting.scale)
            assert np.allclose(losses.std(axis=0), 0.3 * setting.scale, rtol=0.03)
    assert len(set(bests)) >= 3  # nobody wins by playing the first arm
    again, _ = setting.losses(9)
    assert np.array_equal(losses, again)


def test_rewards_are_what_a_user_makes_of_losses() -> None:
    assert measure.rewards(np.array([0.0, 0.25, 1.0])).tolist() == [1.0, 0.75, 0.0]
    assert measure.rewards(np.array([-0.5, 0.25])).tolist() == [0.5, -0.25]
    assert measure.rewards(np.array([0.0, 3.0])).tolist() == [0.0, -3.0]


def test_a_peer_answers(child: Child, tables: Tables) -> None:
    about = child.ask("about")
    assert about["versions"] == {"pytest": pytest.__version__}
    assert about["takes"] == "losses" and about["simulations"] == ["quick"] and "greedy" in about["policies"]

    losses = np.arange(12.0).reshape(4, 3)[:, ::-1]
    details: dict[str, Any] = {"table": tables.path("small", losses, "losses"), "n_arms": 3}
    played = child.ask("play", policy="greedy", n_rounds=4, seed=0, **details)
    assert played["counts"] == [0, 0, 2] and played["n_rounds"] == 4 and played["failure"] == ""
    assert child.ask("play", policy="greedy", n_rounds=3, seed=0, **details)["n_rounds"] == 3
    assert 0.0 <= child.ask("simulate", policy="quick", n_trials=3, **details)["seconds"] < 1.0
    with pytest.raises(Failed, match=r"OverflowError: too large$"):
        child.ask("simulate", policy="crash", n_trials=3, **details)

    crashed = child.ask("play", policy="crash", n_rounds=4, seed=0, **details)
    assert crashed["failure"] == "OverflowError: too large" and crashed["n_rounds"] == 7
    slow = child.ask("play", policy="sleep", n_rounds=4, seed=0, limit=0.1, **details)
    assert slow["failure"] == "" and slow["n_rounds"] == 1 and 0.05 < slow["seconds"] < 30.0

    with pytest.raises(Failed, match="the process ended: fatal error: gone"):
        child.ask("play", policy="die", n_rounds=4, seed=0, **details)
    with pytest.raises(Failed, match="the process ended"):
        child.ask("about")


def test_speed_of_a_peer(child: Child, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "N_TURNS", 2)
    monkeypatch.setattr(measure, "N_TURNS_ONLINE", 2)
    monkeypatch.setattr(measure, "N_TRIALS", 5)
    own = measure.simulation_speed("fake", child, "greedy", child, "exp3", tables)
    assert own.ratio is not None and not own.own_simulation and own.n_trials == 5
    failed = measure.simulation_speed("fake", child, "crash", child, "exp3", tables)
    assert failed.ratio is None and failed.failure == "OverflowError: too large"
    online = measure.online_speed("fake", child, "greedy", child, "exp3", tables)
    assert online.ratio is not None and online.ratio.seconds > 0.0
    failed = measure.online_speed("fake", child, "refuse", child, "exp3", tables)
    assert failed.ratio is None and failed.failure == "ValueError: a loss must not be"

    monkeypatch.setattr(measure, "SECONDS_PER_TURN", 0.01)
    scaled = measure.simulation_speed("fake", child, "nap", child, "exp3", tables)
    assert scaled.ratio is not None and scaled.n_trials == 1 and scaled.ratio.seconds >= 5 * 0.02


def test_a_turn_gets_as_much_work_as_it_has_time_for() -> None:
    def of(start: float, each: float) -> int:
        return measure.fitting(lambda n: start + each * n, 1, 500, 2.0)

    assert of(0.0, 0.001) == 500
    assert of(0.2, 0.0) == 500 and of(0.001, 1e-4) == 500  # nearly all at once
    assert 18 <= of(0.0, 0.1) <= 20 and 17 <= of(0.2, 0.1) <= 20
    assert of(0.0, 8.0) == 1
    assert measure.fitting(lambda n: 1.0 * n, 20, 500, 2.0) == 20  # not less than the least


def test_ratios_are_those_of_neighbours() -> None:
    first, second = iter([2.0, 30.0, 4.0]), iter([1.0, 10.0, 1.0])
    assert ratio_of_turns(lambda: next(first), lambda: next(second), repeats=3) == Ratio(3.0, 2.5, 3.5, 4.0)


def test_robustness_of_a_peer(child: Child, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Setting("small", 1.0, 1000)
    monkeypatch.setattr(measure, "SETTINGS", (small,))
    monkeypatch.setattr(measure, "SECONDS_PER_SETTING", {1000: 30.0})

    def of(policy: str) -> str:
        row = measure.robustness("fake", child, policy, tables, ["must not be"])
        return outcome(small, row.runs[0], row.refusals)

    assert of("greedy") == "1.00 (1.00)"
    assert re.fullmatch(r"0\.(19|20|21) \(0\.1\d\), as uniform", of("exp3"))
    assert of("crash") == "stops in round 8: OverflowError: too large"
    assert of("refuse") == "refuses: ValueError: a loss must not be"
    monkeypatch.setattr(measure, "SECONDS_PER_SETTING", {1000: 0.1})
    assert of("sleep").endswith("first 1 rounds, 1 seed")
    assert of("die") == "stops in round 1: the process ended: fatal error: gone"


def test_our_policies_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed, unit = Setting("mixed", 1e3, 2000, centred=True), Setting("unit", 1.0, 2000, clipped=True)
    monkeypatch.setattr(measure, "SETTINGS", (mixed, unit))
    refused, learned = measure.our_robustness(umab.policy("exp3")).runs
    assert outcome(mixed, refused, ["loss must be"]).startswith("refuses: loss must be")
    assert min(run.share for run in learned) > 0.5
    first, second = measure.our_robustness(umab.recommended()).runs
    assert min(run.share for run in first + second) > 0.8
    assert driver.our_policies()[0].name == umab.recommended().name
    assert not any(policy.full_information for policy in driver.our_policies())


def results(*, share: float = 0.9, peers: list[Peer] | None = None) -> Results:
    def runs(setting: Setting, best: float) -> list[Run]:
        n = round(1000 * best)
        return [Run(setting.n_rounds, [1000 - n, n, 0, 0, 0], 1, "")] * 10

    crashed = [Run(9, [], 0, "Error: a|b"), Run(19, [], 0, "Error: c")]
    slow = Speed("pie", "Exp3", "exp3", False, Ratio(1234.5, 1200.0, 1300.0, 98.76), 3)
    return Results(
        "a machine",
        peers or [Peer("pie", ["pie==1", "numpy==2"], {"pie": "1", "numpy": "2"}, ["salt", "sugar"])],
        [slow, slow._replace(policy="Tsallis", against="tsallis-inf", own_simulation=True, n_trials=500)],
        [slow._replace(ratio=Ratio(2.0, 1.9, 2.1, 3.4e-6)), slow._replace(ratio=None, failure="Error: no")],
        [
            Robustness("umab", "best", [*map(runs, SETTINGS, (0.99, share, 1.0))]),
            Robustness("pie", "Exp3", [runs(SETTINGS[0], 0.5), crashed]),
        ],
        "best",
    )


def test_the_page_comes_from_the_results() -> None:
    text = page(results())
    assert "Measured on a machine. Versions: pie 1 (with numpy 2)." in text
    assert "| pie | Exp3 | select and update | 1,234 (1,200–1,300) | 98.8 (from 3 trials) |" in text
    assert "| pie | Tsallis | its own simulation | 1,234 (1,200–1,300), vs tsallis-inf | 98.8 |" in text
    assert "| pie | Exp3 | 2.00 (1.90–2.10) | 3.40 |" in text and "| pie | Exp3 | Error: no |  |" in text
    assert "| umab | best | 0.99 (0.99) | 0.90 (0.90) | 1.00 (1.00) |" in text
    assert "| pie | Exp3 | 0.50 (0.50) | stops in round 10 to 20: Error: a/b | not reached |" in text
    assert "| pie | salt; sugar |" in text and "All of them installed." in text


def test_the_page_says_whether_the_recommended_policy_holds() -> None:
    assert holds(results(share=0.86)) and "✓ `umab.recommended()`" in page(results(share=0.86))
    assert not holds(results(share=0.85)) and "✗ `umab.recommended()`" in page(results(share=0.85))
    refused = results()._replace(robustness=[Robustness("umab", "best", [[Run(0, [], 0, "no")]])])
    assert not holds(refused)


def test_a_peer_that_cannot_be_installed_or_imported_is_reported(
    script: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver, "FOLDER", tmp_path)
    monkeypatch.setattr(driver, "interpreter", lambda name: Path(sys.executable))
    peer, policies = driver.look_at("fake")
    assert peer.failure == "" and peer.versions == {"pytest": pytest.__version__} and "greedy" in policies

    script.write_text(FAKE.replace("import os", "import no_such_module"))
    broken, policies = driver.look_at("fake")
    assert broken.failure == "ModuleNotFoundError: No module named 'no_such_module'" and policies == []

    def fail(name: str) -> Path:
        raise environments.NotInstalled("ERROR: no such thing")

    monkeypatch.setattr(driver, "interpreter", fail)
    missing, policies = driver.look_at("fake")
    assert missing.failure == "ERROR: no such thing" and policies == []
    text = page(results(peers=[missing]))
    assert "| pytest | pytest | ERROR: no such thing |" in text and "All of them installed." not in text


def test_environments_say_why_they_could_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(environments.NotInstalled, match="No such file"):
        environments.environment(tmp_path / "peer", ("something==1",))
    assert environments.reason("ERROR: a\nERROR: No matching thing for x\nWARNING: b\n\n").startswith("ERROR: No")
    assert environments.reason("first\nlast\n") == "last" and environments.reason("") == "no message"


@pytest.mark.parametrize("name", environments.PEERS)
def test_every_script_says_what_the_page_needs(name: str) -> None:
    known = environments.constants(environments.FOLDER / f"{name}.py")
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", each) for each in known["REQUIREMENTS"])
    assert known["TAKES"] in ("losses", "rewards")
    text = driver.PAGE.read_text(encoding="utf-8")
    assert "; ".join(known["LACKS"]) in text  # or it did not install, and docs/peers.md is to be looked at


def test_the_table_of_the_readme_is_that_of_the_page() -> None:
    made = (readme.README.parent / "docs" / "peers.md").read_text(encoding="utf-8")
    shown = readme.README.read_text(encoding="utf-8").partition(readme.START)[2].partition(readme.END)[0]
    assert shown == readme.short(made, umab.recommended().name)
    assert shown.count("\n") == 2 + len(readme.SHOWN)


def test_the_table_of_the_readme_has_short_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(
        f"| {library} | {policy or 'ours'} | refuses: no | stops in round 1,038 to 1,146: no | 0.20 (0.19) |\n"
        for library, policy in readme.SHOWN.items()
    )
    made = (
        f"# Page\n\n| library | policy | mixed sign | small | usual |\n| --- | --- | --- | --- | --- |\n{rows}\nmore\n"
    )
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.README.write_text(f"before\n{readme.START}old\n{readme.END}after\n")
    readme.write(made, "ours")
    lines = readme.README.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    assert lines[4] == "| `umab.recommended()` | refuses | stops in round 1,038 | 0.20 |"
    with pytest.raises(ValueError, match="a cell must say"):
        readme.short(made.replace("refuses: no", "who knows"), "ours")
    with pytest.raises(ValueError, match="the page must have a table"):
        readme.short("# Page\n", "ours")
