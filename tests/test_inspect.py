"""`umab inspect`: what is in a saved learner, and what looks wrong in it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import umab
from toys import Breaker
from umab import cli
from umab.cli import learner_findings
from umab.cli.learner_findings import Contents, OpenChoice, findings, label_text
from umab.online.counters import Counter, Tally

SAVED = sorted((Path(__file__).parent / "saved").glob("version-*.json"))
HOUR = 3600.0


def page(path: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["inspect", str(path), *options]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def content(path: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(page(path, "--json", *options, capsys=capsys))


def counter(**changes: Any) -> Counter:
    usual = {"selected": 200, "updates": 200, "open": 0, "expired": 0}
    values = {"mean": 1.0, "lowest": 0.5, "highest": 2.0, "latest": 1.0, "probability": 0.5}
    return Counter(**{**usual, **values, **changes})


NONE = {"updates": 0, "mean": None, "lowest": None, "highest": None, "latest": None}


def rules(*counters: Counter, open: Any = (), maximize: bool = False) -> list[str]:
    contents = Contents(maximize, {f"arm {at}": each for at, each in enumerate(counters)}, open)
    found = findings(contents)
    assert len({each.rule for each in found}) == len(found)
    for each in found:
        assert "\n" not in each.text and set(each.arms) <= {*contents.counters, *(choice.arm for choice in open)}
    return [each.rule for each in found]


def aged(age: float | None, *, gone: bool = False) -> OpenChoice:
    return OpenChoice("id", "arm 0", age, gone)


def test_the_page_shows_arms_counters_and_open_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = umab.Learner("umab-g-a", arms=["eu", "us"], seed=0, clock=lambda: time.time() - 2 * HOUR)
    for loss in (0.25, 0.5, 0.125, 1.0):
        learner.update(learner.select(), loss)
    lost = learner.select()
    learner.expire(after=0, loss=3.0)
    waiting = learner.select()
    learner.save(tmp_path / "learner.json")
    text = page(tmp_path / "learner.json", capsys=capsys)
    assert f"learner.json, version {json.loads(learner.to_json())['version']}\n" in text
    assert re.search(r"^policy +umab-g-a$", text, re.M) and re.search(r"^feedback +losses, lower is", text, re.M)
    assert re.search(r"^arms +2$", text, re.M) and re.search(r"^draws +6$", text, re.M)
    counters = learner.counters()
    likeliest = sorted(counters, key=lambda arm: -counters[arm].probability)
    found = re.findall(r"^(eu|us) +([\d.]+) +(\d+) +(\d+) +(\d+) +(\d+) +(\S+) +(\S+) +(\S+) +(\S+)$", text, re.M)
    assert [row[0] for row in found] == likeliest
    for arm, probability, selected, updates, n_open, expired, *values in found:
        told = counters[arm]
        assert float(probability) == pytest.approx(told.probability, abs=1e-5)
        assert (int(selected), int(updates), int(n_open), int(expired)) == told[:4]
        assert [None if each == "–" else float(each) for each in values] == pytest.approx(list(told[4:8]), rel=1e-5)
    assert sum(counters[arm].expired for arm in (lost.arm,)) == 1
    assert "\n1 open choice; oldest 2 h, median age 2 h\n" in text
    assert re.search(rf"^{waiting.id} +{waiting.arm} +2 h$", text, re.M)
    assert text.endswith("\n\nNothing looks wrong.\n")


def test_json_has_the_same_and_all_arms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = umab.Learner("uniform", arms=[1, "1", 'quote " and \n line', "ünï", *range(5, 40)], maximize=True)
    for choice in learner.select(300)[:100]:
        learner.update(choice, reward=float(choice.index))
    learner.save(tmp_path / "learner.json")
    found = content(tmp_path / "learner.json", capsys=capsys)
    assert found["policy"] == "uniform" and found["feedback"] == "reward" and found["n_arms"] == 39
    assert found["draws"] == 300 and found["updates"] == 100
    assert [each.pop("arm") for each in found["arms"]] == list(learner.arms)
    assert found["arms"] == [each._asdict() for each in learner.counters().values()]
    assert found["open"]["n"] == 200 and 0.0 <= found["open"]["median_age"] <= found["open"]["oldest_age"] < HOUR
    assert [each["id"] for each in found["open"]["oldest"]] == [each.id for each in learner.outstanding[:5]]
    assert found["findings"] == []


def test_noticed_changes_are_shown_with_what_came_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = umab.Learner("umab-w", arms=["eu", "two\nlines"], seed=0)
    for number in range(1200):  # the first change is kept, the second undone, and the third on trial
        good = 0 if number < 300 else 1
        choice = learner.select()
        learner.update(choice, (1.0 if choice.index == good else 5.0) + (number >= 700) + (number >= 1170))
    (_, first, kept), (_, second, undone), (_, third, on_trial) = changes = learner.changes()
    assert (first, second, third) == ("eu", "two\nlines", "two\nlines")
    assert (kept, undone, on_trial) == (True, False, None)
    learner.save(tmp_path / "learner.json")
    assert content(tmp_path / "learner.json", capsys=capsys)["changes"] == [each._asdict() for each in changes]
    part = page(tmp_path / "learner.json", capsys=capsys).split("\n\n")[-2].splitlines()
    assert part[0] == "Latest changes noticed, oldest first" and len(part) == 1 + len(changes)
    assert part[1] == f"- eu after {changes[0].round} losses (started afresh)"
    assert part[2] == f"- 'two\\nlines' after {changes[1].round} losses (undone)"
    assert part[3] == f"- 'two\\nlines' after {changes[2].round} losses (on trial)"
    learner.remove_arm("eu")
    learner.save(tmp_path / "learner.json")
    assert "\n- an arm that is gone after " in page(tmp_path / "learner.json", capsys=capsys)


def test_a_learner_without_changes_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    umab.Learner("centred(umab-s)", arms=2).save(tmp_path / "learner.json")
    text = page(tmp_path / "learner.json", capsys=capsys)
    assert "changes noticed" not in text and "Paused" not in text
    found = content(tmp_path / "learner.json", capsys=capsys)
    assert found["changes"] == found["pauses"] == []


def test_paused_arms_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = umab.Learner(Breaker(), arms=["eu", "two\nlines", *range(30)], seed=0)
    for arm in learner.arms[1:]:
        learner.update(arm, 1000.0)
    learner.save(tmp_path / "learner.json")
    given = "--policy", "toys:Breaker"
    pauses = content(tmp_path / "learner.json", *given, capsys=capsys)["pauses"]
    assert pauses == [each._asdict() for each in learner.pauses()] and len(pauses) == 31
    part = page(tmp_path / "learner.json", *given, capsys=capsys).split("\n\n")[-2].splitlines()
    assert part[:2] == ["Paused arms", "- 'two\\nlines': paused after 1 losses, next probe in 20 requests"]
    assert part[-1] == "- 11 more arms; --all shows all" and len(part) == 22
    assert "- 29: paused" in page(tmp_path / "learner.json", "--all", *given, capsys=capsys)


def test_a_large_learner_has_a_short_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = umab.Learner("uniform", arms=1000, seed=0)
    learner.select(100_000)
    learner.save(tmp_path / "learner.json")
    text = page(tmp_path / "learner.json", capsys=capsys)
    assert len(text.splitlines()) < 60 and max(map(len, text.splitlines())) < 300
    assert "The 20 of 1000 arms" in text and "100000 open choices" in text
    assert len(page(tmp_path / "learner.json", "--all", capsys=capsys).splitlines()) > 1000


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_every_version_is_read(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = int(path.stem.partition("-")[2])
    some = next(each["saved"] for each in json.loads(path.read_text()).values())
    (tmp_path / "learner.json").write_text(json.dumps(some))
    found = content(tmp_path / "learner.json", capsys=capsys)
    assert found["version"] == version and [each["arm"] for each in found["arms"]] == some["arms"]
    assert found["open"]["n"] > 0


@pytest.mark.parametrize("now", [123.4, 4e9])
def test_ages_by_another_clock_are_not_known(now: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = umab.Learner("uniform", arms=2, clock=lambda: now)
    learner.select(3)
    learner.save(tmp_path / "learner.json")
    found = content(tmp_path / "learner.json", capsys=capsys)
    assert found["open"]["oldest_age"] is None and found["findings"] == []
    assert "3 open choices; ages are not known: the learner has a clock" in page(
        tmp_path / "learner.json", capsys=capsys
    )


def test_a_file_that_cannot_be_read_gets_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "damaged.json").write_text("{")
    for name, message in (
        ("none.json", "none.json: file not found"),
        ("damaged.json", "complete JSON"),
        (".", "directory"),
    ):
        assert cli.main(["inspect", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


def test_a_policy_that_is_not_registered_is_named_in_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "our_policies.py").write_text("import umab\n\n\nclass Ours(umab.Uniform):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    learner = umab.Learner(__import__("our_policies").Ours(), arms=["a", "b"])
    learner.save(tmp_path / "learner.json")
    assert cli.main(["inspect", str(tmp_path / "learner.json")]) == 2
    assert "pass it: --policy MODULE:CLASS" in capsys.readouterr().err
    found = content(tmp_path / "learner.json", "--policy", "our_policies:Ours", capsys=capsys)
    assert found["policy"] == "our_policies:Ours"


def test_a_healthy_learner_has_no_findings() -> None:
    assert rules(counter(), counter()) == []
    assert rules(counter(updates=190, open=10), counter(), open=[aged(5.0)] * 10) == []
    assert rules(counter(selected=3, updates=0, open=3, **{key: None for key in list(NONE)[1:]}), counter()) == []
    assert rules(counter(mean=0.001, lowest=0.0, highest=1.0), counter(mean=0.0, lowest=0.0, highest=0.0)) == []


@pytest.mark.parametrize(
    ("rule", "counters"),
    [
        ("no-feedback", [counter(**NONE), counter(**NONE)]),
        ("silent-arm", [counter(**NONE), counter()]),
        ("missing-feedback", [counter(updates=99), counter()]),
        ("missing-feedback", [counter(selected=50, **NONE), counter(), counter(updates=10)]),
        ("expired", [counter(updates=99, expired=101), counter()]),
        ("sure", [counter(probability=0.9991), counter(probability=0.0009)]),
        ("identical", [counter(mean=3.0, lowest=3.0, highest=3.0), counter(mean=3.0, lowest=3.0, highest=3.0)]),
        ("outlying", [counter(mean=1.0 + 1e9 / 200, highest=1e9), counter()]),
        ("outlying", [counter(mean=1e9, lowest=1e9, highest=2e9), counter()]),
        ("outlying", [counter(mean=-1e300 / 200, lowest=-1e300, highest=1e290), counter(mean=1e290, highest=2e290)]),
    ],
)
def test_what_looks_wrong_is_found(rule: str, counters: list[Counter]) -> None:
    assert rules(*counters) == [rule]


@pytest.mark.parametrize(
    "counters",
    [
        [counter(updates=150), counter(updates=140)],
        [counter(updates=100), counter()],  # half
        [counter(updates=60), counter(updates=150)],  # feedback is late for all
        [counter(updates=100, expired=100), counter()],
        [counter(probability=1.0)],  # a single arm
        [counter(probability=1.0), counter(probability=0.0)],  # a policy that plays each arm first
        [counter(selected=9, updates=0, **{key: None for key in list(NONE)[1:]})],
        [counter(updates=99, selected=99, mean=3.0, lowest=3.0, highest=3.0)],
        [counter(mean=1 / 200, lowest=0.0, highest=1.0)],  # one failure, and nothing else
        [counter(mean=1e-9, lowest=-1.0, highest=1.0)],  # gains and losses that cancel
        [counter(mean=1.0 + 9e5 / 200, highest=9e5)],
    ],
)
def test_what_may_be_right_is_not_found(counters: list[Counter]) -> None:
    assert rules(*counters) == []


def test_what_rounding_leaves_over_is_not_taken_for_the_usual_loss() -> None:
    tally, left = Tally(selected=50), 0.0
    for at in range(1000):
        tally.take_in(0.3 if at == 500 else 0.0)
        left = max(left, abs(tally.updates * tally.mean - tally.highest))
        if tally.updates >= 10:
            assert rules(tally.counter(0, 1.0)) == (["identical"] if 99 <= at < 500 else [])
    assert left > 0.0


def test_old_choices_and_choices_of_arms_that_are_gone_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rules(counter(), counter(), open=[aged(25 * HOUR), aged(None)]) == ["old-choices"]
    assert rules(counter(), counter(), open=[aged(23 * HOUR)]) == []
    assert rules(counter(), counter(), open=[aged(5.0, gone=True)]) == ["gone"]
    learner = umab.Learner("uniform", arms=["a", "b", "c"], seed=0, clock=lambda: time.time() - 75 * HOUR)
    learner.select(30)
    learner.remove_arm("b")
    learner.add_arm("b")
    learner.save(tmp_path / "learner.json")
    found = {each["rule"]: each for each in content(tmp_path / "learner.json", capsys=capsys)["findings"]}
    assert found.keys() == {"no-feedback", "old-choices", "gone"}
    assert found["gone"]["arms"] == ["b"] and "30 choices open for longer than a day, up to 3 days" in str(found)
    text = page(tmp_path / "learner.json", capsys=capsys)
    wrong = text.partition("What looks wrong\n")[2].splitlines()
    assert len(wrong) == 3 and all(line.startswith("- ") for line in wrong)
    assert "b (gone)" in text


def test_many_arms_are_named_in_one_line() -> None:
    contents = Contents(False, {at: counter(**(NONE if at else {})) for at in range(1000)}, ())
    (found,) = findings(contents)
    assert found.rule == "silent-arm" and len(found.arms) == 999
    assert found.text.startswith("1, 2, 3, 4, 5 and 994 more: ") and len(found.text) < 120


def test_a_label_cannot_break_the_page() -> None:
    for label in ("two\nlines", "\x1b[31mred", "x" * 1000, "\ud800", "", " ", "\u202e"):
        shown = label_text(label)
        assert shown.isprintable() and 0 < len(shown) <= 40
        shown.encode()


def test_the_constants_are_what_the_rules_go_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_findings, "OFTEN", 300)
    assert rules(counter(**NONE), counter()) == ["missing-feedback"]
