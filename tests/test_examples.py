"""The demonstrations: what they measure, record and say."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import query_plans, sat_solvers
from examples.__main__ import demonstrations
from examples.charts import Total, totals_chart
from examples.command import main
from examples.demonstration import Demonstration, Record
from examples.index_page import index
from examples.measuring import RECORDED, read_record, run, write_record
from examples.page import PAGES, against, amount, chart, page, verdict
from examples.replaying import Findings, Spent

import umab
from umab import Losses

ALL = {each.name: each for each in demonstrations()}


class Work(list[tuple[int, str]]):
    """Which arm was measured in which round, in this order; and whether that is over."""

    closed = False

    def close(self) -> None:
        self.closed = True


def toy(work: Work | None = None, sign: float = 1.0) -> Demonstration[Work]:
    def measure(work: Work, t: int, arm: str) -> float:
        assert not work.closed
        work.append((t, arm))
        return sign * (1.0 + "abc".index(arm) + t / 3.0)

    return Demonstration(
        name="toy",
        title="A toy",
        unit="coins",
        arms=("a", "b", "c"),
        n_rounds=60,
        prepare=lambda seed: Work() if work is None else work,
        measure=measure,
        situation=lambda work, t: "early" if t < 30 else "late",
        about="Toys are bought.",
        remarks=lambda record: f"There were {record.losses.n_rounds} toys.",
    )


def tiny(sign: float = 1.0) -> Record:
    """The learner chooses a, b, b; the situations are x, x, y."""
    losses = Losses.of(sign * np.array([[1.0, 4.0], [2.0, 3.0], [9.0, 5.0]]), arms=["a", "b"])
    about = {"seed": 3, "policy": "centred(umab-s)", "machine": "a box", "day": "today", "seconds": 1.0}
    return Record(losses, ("x", "x", "y"), ("a", "b", "b"), about)


def test_every_arm_is_measured_once_in_every_round_in_random_order() -> None:
    work = Work()
    record = run(toy(work), seed=5)
    assert Counter(work) == {(t, arm): 1 for t in range(60) for arm in "abc"}
    assert [t for t, _ in work] == sorted(t for t, _ in work)
    orders = Counter("".join(arm for _, arm in work[3 * t : 3 * t + 3]) for t in range(60))
    assert len(orders) == 6
    wanted = np.array([[float(f"{1.0 + k + t / 3.0:.6g}") for k in range(3)] for t in range(60)])
    assert np.array_equal(record.losses.table, wanted)
    assert record.losses.arms == ("a", "b", "c") and record.situations == ("early",) * 30 + ("late",) * 30
    assert work.closed


def test_the_learner_hears_the_loss_of_its_own_choice_only() -> None:
    """Else its choices were not those of a simulation on the table, where nothing else can be heard."""
    record = run(toy(), seed=5)
    result = umab.simulate(record.about["policy"], record.losses, n_trials=1, seed=5)
    assert record.choices == tuple("abc"[k] for k in result.arms[0])
    assert len(set(record.choices)) == 3


def test_a_loss_that_is_no_number_is_refused_and_the_work_is_closed() -> None:
    work = Work()
    with pytest.raises(ValueError, match="loss must be finite, but got loss=nan"):
        run(toy(work, sign=np.nan))
    assert work.closed


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = run(toy(sign=-1e-7), n_rounds=40)
    write_record(record, tmp_path / "toy")
    again = read_record(tmp_path / "toy")
    assert np.array_equal(again.losses.table, record.losses.table) and again.losses.arms == record.losses.arms
    assert (again.situations, again.choices, again.about) == (record.situations, record.choices, record.about)
    assert umab.Losses.read(tmp_path / "toy.csv").n_rounds == 40
    write_record(run(toy(), n_rounds=39), tmp_path / "other")
    (tmp_path / "other.csv").replace(tmp_path / "toy.csv")
    with pytest.raises(ValueError, match="must have the same number of rounds, but got 39 losses, 40 situations"):
        read_record(tmp_path / "toy")


def test_who_spent_how_much() -> None:
    spent = Spent(tiny())
    assert spent.arm_totals == {"a": 12.0, "b": 12.0}
    spent = Spent(Record(Losses.of([[1.0, 4.0], [2.0, 3.0], [9.0, 4.0]], arms=["a", "b"]), *_rest(tiny())))
    assert (spent.best_arm, spent.best, spent.worst_arm, spent.worst) == ("b", 11.0, "a", 12.0)
    assert spent.at_random == 11.5 and spent.live == 1.0 + 3.0 + 4.0
    assert spent.best_of_situation == {"x": "a", "y": "b"} and spent.told.tolist() == [1.0, 2.0, 4.0]
    assert against(spent, 10.0, "coins") == "2 coins (20%) less"
    assert against(spent, 5.0, "coins") == "3 coins (60%) **more**"
    assert against(Spent(tiny(-1.0)), 1.0, "coins") == "10 coins less"


def _rest(record: Record) -> tuple[Any, ...]:
    return record.situations, record.choices, record.about


def test_replays_are_those_of_simulate_and_the_live_run_is_the_first_of_them() -> None:
    record = run(toy(), seed=2)
    findings = Findings(record, n_trials=20)
    assert findings.of_policy.totals[0] == pytest.approx(findings.live, rel=1e-12)
    (regret,) = umab.simulate(["umab-nn"], record.losses, n_trials=20, seed=2, expected=False)
    replay = findings.replays["umab-nn"]
    assert replay.mean - findings.best == pytest.approx(regret.mean[-1]) and replay.se == pytest.approx(regret.se[-1])
    assert (replay.curve.low <= replay.curve.high).all() and replay.curve.mean[-1] == pytest.approx(replay.mean)
    assert "exp3" not in findings.replays and "umab-nn" not in Findings(tiny(-1.0), n_trials=2).replays
    assert [each.mean for each in findings.ranked] == sorted(each.mean for each in findings.replays.values())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_page_says_what_the_table_gives(sign: float) -> None:
    demonstration = toy(sign=sign)
    record = run(demonstration)
    findings = Findings(record, n_trials=20)
    text = page(demonstration, findings)
    sums = dict(zip("abc", record.losses.table.sum(axis=0), strict=True))
    best, worst = min(sums, key=sums.__getitem__), max(sums, key=sums.__getitem__)
    live = sum(record.losses.table[t, "abc".index(arm)] for t, arm in enumerate(record.choices))
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE))
    assert rows[f"the best arm alone: {best}"] == amount(sums[best])
    assert rows[f"the worst arm alone: {worst}"] == amount(sums[worst])
    assert rows["**the learner, as it happened**"] == amount(live)
    assert rows["choosing at random, on average"] == amount(sum(sums.values()) / 3.0)
    assert verdict(demonstration, findings).split() == text.split("saved\n")[1].split("There were 60 toys.")[0].split()
    assert ("orders of magnitude" in text) is (sign > 0.0) and ("%) less" in text) is (sign > 0.0)
    assert f"| b | {amount(record.losses.table[:30, 1].mean())} | " in text


def test_the_chart_shows_what_was_spent() -> None:
    demonstration = toy()
    record = run(demonstration)
    spec = chart(demonstration, Findings(record, n_trials=20))
    curves = {each["policy"]: each for each in spec["layer"][0]["data"]["values"]}
    assert list(curves)[::-1] == ["worst arm, c", "at random", "the learner", "best arm, a", "best of each situation"]
    assert curves["best arm, a"]["mean"][-1] == float(f"{record.losses.table[:, 0].sum():.5g}")
    assert curves["the learner"]["mean"][-1] == float(f"{Spent(record).live:.5g}")
    assert curves["the learner"]["low"] != curves["the learner"]["mean"]
    assert [each["situation"] for each in spec["layer"][-1]["data"]["values"]] == ["early", "late"]
    assert [each["from"] for each in spec["layer"][-2]["data"]["values"]] == [30]


def test_the_chart_of_logarithms_has_decades_and_one_without_phases_has_no_names() -> None:
    spent = np.linspace(1.0, 950.0, 100)
    mixed = ["x", "y"] * 50
    totals = {"the learner": Total(spent, spent, spent)}
    spec = totals_chart(totals, "t", unit="s", styles={}, scale="log", situations=mixed)
    assert len(spec["layer"]) == 2
    for layer in spec["layer"]:
        assert layer["encoding"]["y"]["scale"]["domain"] == [10.0, 1000.0]
        assert layer["encoding"]["y"]["axis"]["values"] == [10.0, 100.0, 1000.0]


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (ALL[each].n_rounds > 1000)) for each in ALL]
)
def test_the_page_in_the_documents_is_what_the_record_gives(name: str) -> None:
    record = read_record(RECORDED / name)
    assert record.losses.arms == ALL[name].arms and record.losses.n_rounds == ALL[name].n_rounds
    findings = Findings(record)
    assert findings.of_policy.totals[0] == pytest.approx(findings.live, rel=1e-9)
    assert (PAGES / f"{name}.md").read_text() == page(ALL[name], findings)
    drawing = (PAGES / f"{name}.svg").read_text()
    assert f">best arm, {findings.best_arm}<" in drawing and f">worst arm, {findings.worst_arm}<" in drawing


def test_the_list_of_demonstrations_in_the_documents_is_what_the_records_give() -> None:
    assert (PAGES / "index.md").read_text() == index(list(ALL.values()))


@pytest.mark.parametrize("demonstration", [sat_solvers.DEMONSTRATION, query_plans.DEMONSTRATION])
def test_a_few_rounds_really_run(
    demonstration: Demonstration[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(demonstration, ["--rounds", "4", "--seed", "1", "--out", str(tmp_path)])
    stem = tmp_path / demonstration.name
    assert "Over 4 rounds the learner spent" in capsys.readouterr().out
    record = read_record(stem)
    assert record.losses.table.shape == (4, len(demonstration.arms)) and (record.losses.table > 0.0).all()
    first = stem.with_suffix(".md").read_text(), stem.with_suffix(".svg").read_text()
    stem.with_suffix(".md").unlink()
    main(demonstration, ["--from-recorded", "--out", str(tmp_path)])
    assert (stem.with_suffix(".md").read_text(), stem.with_suffix(".svg").read_text()) == first


def test_the_command_refuses_what_would_spoil_the_pages(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(toy(), ["--rounds", "4"])
    assert "--rounds must go with --out" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="rounds must be at most 60"):
        main(toy(), ["--rounds", "61", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="No such file"):
        main(toy(), ["--from-recorded", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        main(toy(), ["--help"])
    assert "example: python -m examples.toy --rounds 50" in capsys.readouterr().out


def test_solvers_agree_and_the_families_are_what_they_are_said_to_be() -> None:
    rng = random.Random(0)
    for make, size in ((sat_solvers.pigeonhole, 5), (sat_solvers.parity, 7)):
        clauses = make(rng, size)
        assert {sat_solvers.solve(name, clauses)[1] for name in sat_solvers.SOLVERS} == {False}
    answers = []
    for _ in range(12):
        clauses = sat_solvers.random_3sat(rng, 30)
        assert len(clauses) == 128 and all(len({abs(each) for each in clause}) == 3 for clause in clauses)
        (answer,) = {sat_solvers.solve(name, clauses)[1] for name in sat_solvers.SOLVERS}
        answers.append(answer)
    assert set(answers) == {True, False}
    # That no two share a hole is no contradiction yet: it is that each must have one.
    easy = [clause for clause in sat_solvers.pigeonhole(rng, 5) if min(clause) < 0]
    assert sat_solvers.solve("minisat22", easy)[1] is True


def test_a_solver_that_takes_too_long_is_stopped_and_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = sat_solvers.pigeonhole(random.Random(0), 9)  # with more of them glucose4 takes seconds to hear of it
    monkeypatch.setattr(sat_solvers, "LIMIT", 0.02)
    for name in set(sat_solvers.SOLVERS) - set(sat_solvers.CANNOT_BE_STOPPED):
        seconds, answer = sat_solvers.solve(name, hard)
        assert answer is None and 0.02 <= seconds < 5.0, name
    assert sat_solvers.measure([sat_solvers.Formula("", hard)], 0, "minisat22") == 1e3 * sat_solvers.UNSOLVED
    monkeypatch.setattr(sat_solvers, "LIMIT", 0.0)  # one that cannot be stopped, but was too slow
    assert sat_solvers.measure([sat_solvers.Formula("", [[1]])], 0, "lingeling") == 1e3 * sat_solvers.UNSOLVED


def test_all_plans_give_the_same_answer_in_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_plans, "N_ORDERS", 3000)
    service = query_plans.prepare(0)
    answers, ways = set(), {}
    for plan, how in query_plans.PLANS.items():
        query = query_plans.QUERY.format(plan=how)
        answers.add(tuple(service.database.execute(query, each).fetchone()[0] for each in service.queries[::50]))
        ((*_, ways[plan]),) = service.database.execute(f"EXPLAIN QUERY PLAN {query}", service.queries[0])
    service.close()
    (found,) = answers
    assert max(found) > 0
    for column in ("customer", "status", "day"):
        assert f"INDEX by_{column} " in ways[f"by {column}"]
    assert ways["scan"].startswith("SCAN")
