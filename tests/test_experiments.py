"""Experiments: the files that say what to run, and the runner."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from helpers import same_bits
from umab import datasets
from umab.research.experiments.experiment import Experiment, Setting, comparison, paper
from umab.research.experiments.runner import Curve, Outcome, run

TABLE = np.random.default_rng(5).normal(size=(300, 3)) + np.array([0.0, 0.4, 0.8])

FILE = """
title = "Routing"
trials = 40
seed = 3
data = "losses.csv"
policies = ["umab-g-a", "umab-g-a:rate=4", "uniform"]
extra = ["ahb"]
claims = ["umab-g-a:rate=4 < uniform", "uniform < umab-g-a"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = ["a,b,c", *(",".join(map(repr, row)) for row in TABLE.tolist())]
    (tmp_path / "losses.csv").write_text("\n".join(lines))
    path = tmp_path / "routing.toml"
    path.write_text(FILE)
    return path


def changed(file: Path, **values: str) -> Path:
    """The file with other values, as TOML has them; an empty one leaves the key out."""
    content = tomllib.loads(FILE)
    lines = [f"{key} = {value}" for key, value in values.items() if value]
    lines += [line for line in FILE.splitlines() if line and line.split(" = ")[0] not in values]
    assert content
    file.write_text("\n".join(lines))
    return file


def test_a_file_of_ones_own_runs(file: Path) -> None:
    """Its numbers are those of `umab.simulate`, its verdicts those of its claims."""
    done = run([Experiment.read(file)])
    (outcome,) = done.outcomes
    assert (outcome.experiment.id, outcome.experiment.title, outcome.setting.name) == ("routing", "Routing", "main")
    assert list(outcome.curves) == ["umab-g-a", "umab-g-a:rate=4", "uniform", "ahb"]
    assert outcome.drawn == ["umab-g-a", "umab-g-a:rate=4", "uniform"]
    for name, curve in outcome.curves.items():
        expected, sampled = (umab.simulate(name, TABLE, n_trials=40, seed=3, expected=each) for each in (True, False))
        assert same_bits(curve.result.mean, expected.mean) and same_bits(
            curve.result.final_regret, expected.final_regret
        )
        assert curve.expected == (expected.mean[-1], expected.sd[-1], expected.se[-1], 40)
        assert curve.sampled is not None
        np.testing.assert_allclose(curve.sampled.mean, sampled.final_regret.mean(), rtol=1e-12)
        np.testing.assert_allclose(curve.sampled.sd, sampled.final_regret.std(ddof=1), rtol=1e-12)
    assert [(str(each.claim), each.verdict) for each in outcome.judged] == [
        ("umab-g-a:rate=4 < uniform", "holds"),
        ("uniform < umab-g-a", "does not hold"),
    ]
    assert outcome.verdict == "does not hold" and outcome.best in ("umab-g-a:rate=4", "ahb")


def test_trials_and_seed_can_be_others(file: Path) -> None:
    (outcome,) = run([Experiment.read(file)], n_trials=7, seed=1).outcomes
    known = umab.simulate("ahb", TABLE, n_trials=7, seed=1, expected=True)
    assert same_bits(outcome.curves["ahb"].result.final_regret, known.final_regret)


def test_settings_take_from_above_what_they_leave_out(file: Path) -> None:
    text = (
        FILE.replace('data = "losses.csv"\n', "")
        + """
parameters = { umab-g-a = "rate=2" }
[settings.here]
data = "losses.csv"
[settings.there]
data = { name = "stochastic", seed = 4 }
parameters = {}
extra = "scale-free"
claims = []
"""
    )
    file.write_text(text)
    here, there = Experiment.read(file).settings
    assert here.policies["umab-g-a"] == "umab-g-a:rate=2" and there.policies["umab-g-a"] == "umab-g-a"
    assert len(here.claims) == 2 and there.claims == ()
    assert here.losses().digest == umab.Losses.of(TABLE).digest
    losses = there.losses()
    assert losses.digest == datasets.stochastic(seed=4).digest
    drawn = there.curves(losses)
    free = {name for name in umab.policies() if umab.policy(name).scale_free and name != "umab-nn"}
    assert drawn.keys() == {"umab-g-a", "umab-g-a:rate=4", "uniform"} | free  # some losses are below 0
    assert drawn["umab-g-a:rate=4"] == umab.policy("umab-g-a:rate=4") and drawn["scb"] == umab.policy("scb")
    assert "umab-nn" in there.curves(umab.Losses.of(np.abs(TABLE)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"policies": ""}, "'policies', .*setting 'main'"),
        ({"data": ""}, "'data', .*setting 'main'"),
        ({"polices": "[]"}, "'polices'; did you mean 'policies'?"),
        ({"policies": '["umab-g-a", "umab-q"]', "claims": ""}, "'umab-q'; did you mean"),
        ({"policies": '["ahb", "ahb"]', "claims": ""}, "policies .*'ahb' twice"),
        ({"policies": '"ahb"', "claims": ""}, "policies .*list, .*'ahb'"),
        ({"claims": '["umab-g-a < scb"]'}, "claims .*'umab-g-a < scb' .*'scb'"),
        ({"claims": '["umab-g-a is best"]'}, "'umab-g-a < ahb', .*'umab-g-a is best'"),
        ({"parameters": '{ahb = "a=1"}'}, "parameters .*for 'ahb'"),
        ({"parameters": '{umab-g-a = "speed=1"}'}, "umab-g-a .*'speed'"),
        ({"trials": "0"}, "at least 1, .*trials=0"),
        ({"seed": '"x"'}, "whole number, .*seed='x'"),
        ({"data": "3"}, "data .*{name = 'stocks'}, .*{file = 'losses.csv'}, .*3"),
        ({"data": '{file = "losses.csv", reward = 1}'}, "reward .*true, false or the name of a column, .*1"),
        ({"data": '{file = "losses.csv", drop = "a"}'}, "drop .*list, .*'a'"),
        ({"data": '{file = "losses.csv", rewards = true}'}, "'rewards' in data; did you mean 'reward'?"),
        ({"data": '{file = "losses.csv", suspicious = "yes"}'}, "'refuse', 'allow'.*suspicious='yes'"),
        ({"title": "3"}, "title .*text, .*3"),
        ({"policies": "[]", "claims": ""}, r"policy .*policies=\[\]"),
        ({"extra": '"scale free"'}, "extra .*'scale-free', .*'scale free'"),
        ({"data": '{name = "stocks", real = true}'}, "stocks .*'real'"),
        ({"data": '{name = "stock"}'}, "'stock'; did you mean 'stocks'?"),
        ({"settings": '{".." = {}}'}, r"setting .*'\.\.'"),
        ({"settings": "{}"}, r"\[settings.NAME\].*\{\}"),
        ({"trials": "= 3"}, "Invalid value"),
    ],
)
def test_a_mistake_in_a_file_is_named(file: Path, values: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=r"in '.*routing\.toml': ") as caught:
        Experiment.read(changed(file, **values))
    assert caught.match(re.sub(r"(?<!\\)[{?]", r"\\\g<0>", message))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.toml"):
        Experiment.read(tmp_path / "no.toml")


def test_losses_that_a_policy_does_not_take_are_refused_before_anything_runs(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment.read(changed(file, policies='["ahb", "umab-nn"]', claims=""))
    monkeypatch.setattr("umab.research.experiments.runner.simulate", None)
    with pytest.raises(ValueError, match=r"at least 0\.0 .*umab-nn, .*loss=-"):
        run([experiment])


def test_rewards_are_losses_with_the_other_sign(file: Path) -> None:
    data = '{file = "losses.csv", reward = true, drop = ["b"]}'
    losses = Experiment.read(changed(file, data=data)).settings[0].losses()
    assert same_bits(losses.table, umab.Losses.of(-TABLE[:, [0, 2]]).table) and losses.arms == ("a", "c")


def test_another_seed_draws_other_losses_where_they_are_drawn() -> None:
    for id, drawn in (("nonadaptive", True), ("selection", True), ("adaptive", False)):
        setting = paper()[id].settings[1]
        assert (setting.losses(seed=1).digest != setting.losses().digest) == drawn
        assert setting.losses(seed=0).digest == setting.losses().digest
    done = run([paper()["nonadaptive"]], n_trials=2, data_seed=5)
    assert done.outcomes[0].losses.digest == datasets.stochastic("printed", seed=5).digest


def test_policies_that_did_the_same_are_named() -> None:
    content: dict[str, Any] = {"data": {"name": "bad_losses"}, "policies": ["umab-g", "umab-g-a", "umab-g-none", "ahb"]}
    (outcome,) = run([Experiment.of("x", content)], n_trials=5).outcomes
    assert outcome.identical == [["umab-g", "umab-g-a", "umab-g-none"]]


def test_other_policies_take_their_claims_with_them(file: Path) -> None:
    experiment = Experiment.read(file).with_policies(["uniform", "umab-g-a", "scb"])
    assert list(experiment.settings[0].policies) == ["uniform", "umab-g-a", "scb"]
    assert [str(claim) for claim in experiment.settings[0].claims] == ["uniform < umab-g-a"]
    assert experiment.settings[0].extra == ()
    # A bare name has the constants of the setting; one with parameters of its own keeps those.
    printed, figure = paper()["stock"].with_policies(["umab-g", "umab-g-a:rate=2", "ahb"]).settings
    assert printed.policies == {"umab-g": "umab-g", "umab-g-a:rate=2": "umab-g-a:rate=2", "ahb": "ahb"}
    assert figure.policies == {**printed.policies, "umab-g": "umab-g:rate=4,horizon=1200"}
    assert [str(claim) for claim in figure.claims] == ["umab-g < ahb"]


def test_the_best_and_those_that_tie_with_it() -> None:
    """A policy ties with itself; one that is far behind does not; one that sees all losses is not ranked."""
    content: dict[str, Any] = {
        "data": {"name": "stochastic"},
        "policies": ["ahb", "umab-g-a", "umab-g-none", "uniform", "adahedge"],
        "trials": 60,
    }
    (outcome,) = run([Experiment.of("x", content)]).outcomes
    assert outcome.best == "ahb" and outcome.standings["ahb"] == (True, False)
    assert outcome.standings["uniform"] == (False, False) and "adahedge" not in outcome.standings
    (twins,) = run(
        [Experiment.of("x", {**content, "policies": ["uniform", "umab-g-a", "umab-g-a:rate=0.25"]})]
    ).outcomes
    assert [each for each, standing in twins.standings.items() if standing.tied] == ["umab-g-a:rate=0.25"]


def test_ties_share_the_risk_as_claims_do() -> None:
    """Five policies, each behind the best with p = 0.005: any one alone would be told apart, five together are not."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=50)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    gap = 2.94 / np.sqrt(50)  # so many standard errors have p = 0.005
    best = rng.normal(size=50)
    finals = {"umab-g": best, **{f"umab-g:rate={k}": best + gap + rng.permutation(noise) for k in range(1, 6)}}

    def outcome(names: list[str]) -> Outcome:
        curves = {
            name: Curve(
                umab.UMABGA(),
                umab.Result(name, finals[name][:1] * 0 + finals[name].mean(), finals[name][:1], finals[name], {}),
                None,
            )
            for name in names
        }
        setting = Setting(name="x", data={}, policies={})
        return Outcome(Experiment(id="x", title="x"), setting, umab.Losses.of(TABLE), curves, ())

    names = list(finals)
    assert not outcome(names[:2]).standings[names[1]].tied
    assert all(outcome(names).standings[name].tied for name in names[1:])


def test_claims_of_one_setting_are_judged_together(file: Path) -> None:
    first = Experiment.read(file)
    second = Experiment.of("second", {**tomllib.loads(FILE), "data": {"name": "stochastic"}, "claims": []})
    third = Experiment.of("third", {**tomllib.loads(FILE), "data": {"name": "stochastic"}})
    done = run([first, second, third], n_trials=20)
    assert {judged.evidence.n_judged for outcome in done.outcomes for judged in outcome.judged} == {4}
    (alone,) = run([first], n_trials=20).outcomes
    assert {judged.evidence.n_judged for judged in alone.judged} == {2}


def test_the_six_experiments_of_the_paper() -> None:
    """What experiments.md asks: the policies, the constants of both settings, the claims."""
    known = paper()
    assert list(known) == ["stock", "sales", "selection", "exploration", "adaptive", "nonadaptive"]
    rivals = ["sf-mab", "sf-mab-a", "ahb", "banker-omd"]
    for id, experiment in known.items():
        printed, figure = experiment.settings
        assert (printed.name, figure.name, experiment.n_trials) == ("printed", "figure", 500)
        assert {"umab-g", "umab-g-a", *rivals, "uniform"} <= printed.policies.keys() == figure.policies.keys()
        assert all(name == text for name, text in printed.policies.items())
        # As the README says: Figures 1b, 1c and 2c have other data, and the competitors are as published in both.
        assert (printed.data != figure.data) == (id in ("sales", "selection", "nonadaptive"))
        assert all(figure.policies[name] == name for name in figure.policies if not name.startswith("umab-g"))
        assert (
            figure.policies["umab-g"] == "umab-g:rate=4,horizon=1200"
            and figure.policies["umab-g-a"] == "umab-g-a:rate=4"
        )
        assert printed.claims == figure.claims and printed.extra == figure.extra == "scale-free"
        assert ("umab-g-none" in printed.policies) == (id == "exploration")
    lowest = {f"{ours} < {rival}" for ours in ("umab-g", "umab-g-a") for rival in rivals}
    for id in ("stock", "sales", "selection"):
        assert {str(claim) for claim in known[id].settings[0].claims} == lowest
    singles = {id: [str(claim) for claim in known[id].settings[0].claims] for id in list(known)[3:]}
    assert singles == {
        "exploration": ["umab-g-a < umab-g-none"],
        "adaptive": ["umab-g-a < umab-g"],
        "nonadaptive": ["umab-g < umab-g-a"],
    }


def test_runs_are_shared_only_if_everything_is_the_same(file: Path) -> None:
    """Another seed, number of trials or name of an arm makes another curve."""
    content = tomllib.loads(FILE)
    experiments = [
        Experiment.of("a", content, folder=file.parent),
        Experiment.of("b", {**content, "seed": 4}, folder=file.parent),
        Experiment.of("c", {**content, "trials": 30}, folder=file.parent),
        Experiment.of("d", {**content, "policies": ["ahb", "uniform"], "extra": [], "claims": []}, folder=file.parent),
    ]
    a, b, c, d = run(experiments).outcomes
    for outcome, n_trials, seed in ((a, 40, 3), (b, 40, 4), (c, 30, 3), (d, 40, 3)):
        known = umab.simulate("ahb", TABLE, n_trials=n_trials, seed=seed, expected=True)
        assert same_bits(outcome.curves["ahb"].result.final_regret, known.final_regret)
    assert "ahb" not in a.drawn and "ahb" in d.drawn
    (file.parent / "other.csv").write_text((file.parent / "losses.csv").read_text().replace("a,b,c", "x,y,z"))
    other = Experiment.of("e", {**content, "data": "other.csv"}, folder=file.parent)
    first, second = run([experiments[0], other]).outcomes
    assert first.curves["ahb"].result.provenance["losses"]["arms"] == ["a", "b", "c"]
    assert second.curves["ahb"].result.provenance["losses"]["arms"] == ["x", "y", "z"]


def test_too_many_arms_are_not_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umab.research.experiments.runner._DRAWS_KEPT", 10)
    (outcome,) = run([Experiment.read(file)], n_trials=3).outcomes
    assert all(curve.sampled is None for curve in outcome.curves.values())
    with pytest.raises(AttributeError, match="only a summary"):
        _ = outcome.curves["ahb"].result.arms


def test_policies_that_see_all_losses_may_run_alone() -> None:
    (outcome,) = run(
        [Experiment.of("x", {"data": {"name": "bad_losses"}, "policies": ["adahedge"]})], n_trials=2
    ).outcomes
    assert outcome.standings == {} and outcome.best == "adahedge"


def test_a_comparison_runs_what_takes_the_losses() -> None:
    signed, positive = (comparison("x", umab.Losses.of(table)).settings[0] for table in (TABLE, np.abs(TABLE)))
    assert "umab-nn" in positive.policies and "umab-nn" not in signed.policies
    assert {"umab-g-a", "umab-g-a:rate=4", "ahb", "scb", "uniform"} <= signed.policies.keys()
    assert not {"exp3", "umab-g-none", "adahedge"} & signed.policies.keys()
    assert set(signed.extra) == {"adahedge", "solo-ftrl"}
    assert list(comparison("x", umab.Losses.of(TABLE), ["ahb"]).settings[0].policies) == ["ahb"]
