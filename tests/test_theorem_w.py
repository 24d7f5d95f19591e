"""Theorem W: runs of UMAB-W in extended precision, its proof along them, its bound, and the ranks of the watch."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from test_theory import SIGNED, cost_of_clipping, nasty
from umab import cli
from umab.errors import NoBoundError
from umab.maths.level import Level, above, followed, moves, no_level
from umab.maths.ranks import _WEIGHT, bet, blank_record, evidence_down, evidence_up, note, ranked
from umab.testing import Array
from umab.theory.barrier import centred, clipped_at
from umab.theory.bounds import bound
from umab.theory.certificates import certifiable, certify, check
from umab.theory.levels import levels
from umab.theory.norms import Sizes, Squares
from umab.theory.search import exact_regret
from umab.theory.statements import OF_UMAB_S, OF_UMAB_SH, OF_UMAB_W, STATEMENTS, Statement, Steps
from umab.theory.trajectory import follow
from umab.theory.watching import WatchedTrajectory

VARIANTS = (
    "umab-w:attention=none",
    "umab-w:restarts=kept",
    "umab-w:restarts=none",
    "umab-w:centre=mean",
    "umab-w:marks=5",
)


@functools.cache
def changing() -> dict[str, Array]:
    """Tables on which UMAB-W starts afresh, puts the old instance back, has bursts or takes a moving mean."""
    rng = np.random.default_rng(5)

    def switching(n_rounds: int, n_arms: int, every: int, gap: float) -> Array:
        means = np.full((n_rounds, n_arms), gap)
        means[np.arange(n_rounds), np.arange(n_rounds) // every % n_arms] = 0.0
        return rng.normal(means)

    tables = {
        "two arms": switching(800, 2, 200, 2.0),
        "three arms": switching(900, 3, 300, 2.0),
        "five arms": switching(1000, 5, 250, 2.0),
        "twenty arms": switching(800, 20, 400, 4.0),
        "an arm improves": rng.normal([1.0, 3.0, 3.0], size=(1200, 3)),
        "all become worse": rng.normal([0.0, 2.0, 2.0], size=(900, 3)),
        "a wave": rng.normal([0.0, 2.0, 2.0, 2.0, 2.0], size=(600, 5)) + 20 * np.sin(np.arange(600) / 40)[:, None],
        "huge": 1e300 * np.clip(switching(600, 3, 200, 2.0), -9.0, 9.0),
        "equal arms": rng.normal(size=(1200, 10)),
        "coins": (rng.random((800, 3)) < np.repeat([[0.1, 0.6, 0.6], [0.9, 0.6, 0.1]], 400, axis=0)).astype(float),
        "rare gains": np.where(rng.random((500, 4)) < 0.02, -1e6, rng.normal(size=(500, 4))),
    }
    tables["an arm improves"][500:, 1] -= 5.0
    tables["all become worse"][450:] += 6.0
    return tables


@functools.cache
def run_on(table: str, name: str = "umab-w", n_trials: int = 4) -> WatchedTrajectory:
    losses = changing()[table]
    found = follow(umab.policy(name), losses, umab.simulate(name, losses, n_trials=n_trials, seed=1).arms)
    assert isinstance(found, WatchedTrajectory)
    return found


def said(id: str) -> Statement:
    return next(each for each in OF_UMAB_W if each.id == id)


def assert_follows(name: str, losses: Array, path: Any) -> None:
    """The distributions are those of a learner in every round, to the digits that many updates leave of doubles."""
    for run in range(2):
        learner = umab.Learner(umab.policy(name), arms=losses.shape[1])
        for t, arm in enumerate(path.arms[run].tolist()):
            np.testing.assert_allclose(learner.probabilities(), path.drawn_from[run, t].astype(float), rtol=1e-4)
            learner.update(arm, float(losses[t, arm]))


# The runs.


@pytest.mark.parametrize("table", changing())
def test_a_trajectory_is_that_of_the_policy(table: str) -> None:
    assert_follows("umab-w", changing()[table], run_on(table))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("table", ["three arms", "all become worse", "a wave"])
def test_a_trajectory_of_a_variant_is_that_of_the_policy(name: str, table: str) -> None:
    assert_follows(name, changing()[table], run_on(table, name, 2))


@pytest.mark.parametrize("table", nasty())
def test_a_trajectory_on_nasty_losses_is_that_of_the_policy(table: str) -> None:
    losses = nasty()[table]
    path = follow(umab.UMABW(), losses, umab.simulate("umab-w", losses, n_trials=2, seed=1).arms)
    assert_follows("umab-w", losses, path)
    assert {row.verdict for row in certify("umab-w", losses, n_trials=3)} <= {"holds", "nothing to check"}


def test_the_tables_have_what_the_proof_is_about() -> None:
    """Or the tests on them would say nothing about it."""
    starts, undone, bursts = {}, {}, {}
    for table in changing():
        path = run_on(table)
        starts[table], bursts[table] = path.instance.max(axis=1).sum(), path.bursts.sum()
        undone[table] = (np.diff(path.instance, axis=1) < 0).sum()
    for number in ("two", "three", "five", "twenty"):
        assert starts[f"{number} arms"] - undone[f"{number} arms"] >= 3
    assert undone["all become worse"] >= 4 and undone["a wave"] >= 4 and bursts["an arm improves"] > 100
    assert max(int(run_on(table).aroused.sum(axis=2).max()) for table in changing()) >= 3  # arms in one burst
    clipped = sum(int((run_on(table).charge > 0).sum()) for table in changing())
    assert clipped > 20


def test_an_instance_is_a_run_of_umab_s_on_its_rounds() -> None:
    """Also one that was put back: the rounds in between do not exist for it."""
    path, n_resumed = run_on("all become worse", "umab-w:attention=none"), 0
    for each in path.instances:
        alone = follow(umab.UMABS(), each.path.losses, each.path.arms)
        for name in ("p", "drawn_from", "sums", "inverse_rate", "exploration", "clipped", "stability", "charge"):
            mine, its = (np.asarray(getattr(it, name), dtype=float) for it in (each.path, alone))
            np.testing.assert_allclose(mine, its, rtol=1e-13, atol=0.0)
        n_resumed += bool((np.diff(each.rounds) > 1).any())
    assert n_resumed >= 4
    assert sum(len(each.rounds) for each in path.instances) == path.arms.size


def test_the_floors_by_hand() -> None:
    path = run_on("equal arms")
    for count, floor in ((1, 1 / 6), (2, 1 / 6), (3, 1 / 9)):
        run, t = np.argwhere(path.aroused[:, :-1].sum(axis=2) == count)[0]
        aroused = path.aroused[run, t]
        assert path.floors[run, t, aroused].astype(float) == pytest.approx([floor] * count)
        assert (path.floors[run, t, ~aroused] == path.exploration[run, t]).all()


# The level.


@given(seed=st.integers(0, 2**32 - 1), wander=st.sampled_from([0.0, 0.3, 3.0]), scale=st.sampled_from([1.0, 1e-200]))
def test_the_level_is_that_of_the_policies(seed: int, wander: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    losses = scale * (rng.normal(size=150) + wander * rng.normal(size=150).cumsum())
    mine = (losses.astype(np.longdouble) - losses[0]) - levels((losses.astype(np.longdouble) - losses[0])[None])[0]
    level: Level = no_level()
    for loss, distance in zip(losses.tolist(), mine, strict=True):
        assert above(level, loss, moves(level)) == pytest.approx(float(distance), rel=1e-9, abs=1e-12 * scale)
        level = followed(level, loss)


@pytest.mark.parametrize("name", ["umab-l", "local(umab-sh)"])
def test_locally_centred_policies_are_followed_and_certified(name: str) -> None:
    losses = changing()["a wave"]
    arms = umab.simulate(name, losses, n_trials=2, seed=1).arms
    assert_follows(name, losses, follow(umab.policy(name), losses, arms))
    assert {row.verdict for row in certify(name, losses, n_trials=2)} <= {"holds", "nothing to check"}
    tables = np.tile(losses.astype(np.longdouble), (2, 1, 1))
    mean, local = (centred(tables, arms, local=local) for local in (False, True))
    assert np.abs(mean - local)[:, :32].max() < 1e-15 < np.abs(mean - local).max()
    promised = bound(name, losses).repaired
    assert promised is not None and umab.simulate(name, losses, n_trials=10, expected=True).mean[-1] <= promised


def test_the_sizes_above_a_level_hold_for_all_arms() -> None:
    """Whatever is drawn, ℓ_t − b_t is within them, also if b_t is a moving mean."""
    rng = np.random.default_rng(2)
    losses = umab.Losses.of(rng.normal(size=(200, 3)) + 5 * np.sin(np.arange(200) / 20)[:, None])
    sizes, squares = Sizes.centred(losses, local=True), Squares.centred(losses, local=True)
    worst = [losses.table.argmin(axis=1), losses.table.argmax(axis=1), *rng.integers(3, size=(20, 200))]
    found = centred(np.tile(losses.table.astype(np.longdouble), (22, 1, 1)), np.array(worst), local=True)
    mean_only = centred(np.tile(losses.table.astype(np.longdouble), (22, 1, 1)), np.array(worst))
    assert (found != mean_only).any(axis=(1, 2)).all()  # a moving mean is taken in every run
    rounding = 1 + np.longdouble(1e-15)
    assert -found[:, 1:].min() <= sizes.most_negative * rounding
    assert np.abs(found[:, 1:]).max() <= sizes.largest * rounding
    assert (np.abs(found[:, 1:]).max(axis=2) ** 2).sum(axis=1).max() <= sizes.sum_of_squares * rounding
    assert ((found[:, 1:] ** 2).sum(axis=2) <= squares.total[1:] * rounding).all()
    for n_rounds, same in ((32, True), (200, False)):  # b_33 is the first that may be a moving mean
        few = umab.Losses.of(losses.table[:n_rounds])
        of_level, of_mean = (float(Sizes.centred(few, local=local).sum_of_squares) for local in (True, False))
        assert (of_level == pytest.approx(of_mean, rel=1e-15)) == same and of_level >= of_mean * (1 - 1e-15)


# The proof along runs.


@pytest.mark.parametrize("table", changing())
def test_the_statements_hold(table: str) -> None:
    rows = certify("umab-w", changing()[table], n_trials=4)
    assert [row.id for row in rows] == ["Theorem W", *(each.id for each in OF_UMAB_W)]
    assert {(row.form, row.where) for row in rows} == {("as proved", "docs/changing.md")}
    assert {row.verdict for row in rows} <= {"holds", "nothing to check"}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_statements_hold_for_variants(name: str) -> None:
    assert certifiable(umab.policy(name))
    for table in ("three arms", "a wave"):
        assert {row.verdict for row in certify(name, changing()[table], n_trials=2)} <= {"holds", "nothing to check"}


@pytest.mark.parametrize("scale", [5e-324, 1e-170, 1e305])
def test_losses_of_any_size_are_certified(scale: float) -> None:
    losses = np.clip(5 * SIGNED[:60], -9.0, 9.0).round() * scale
    assert {row.verdict for row in certify("umab-w", losses, n_trials=3)} <= {"holds", "nothing to check"}


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("W1, floor", lambda path: {"drawn_from": path.p}),
        ("W1, floor", lambda path: {"aroused": path.aroused | (path.p < 1e-2)}),
        ("W1, floors", lambda path: {"exploration": path.exploration * 10}),
        ("W2, share", lambda path: {"drawn_from": path.drawn_from * 0.4}),
        ("W2, rest", lambda path: {"drawn_from": path.drawn_from * 1.5}),
        ("W3, exploration", lambda path: {"exploration": path.exploration / 20}),
        ("W3, exploration", lambda path: {"aroused": path.aroused & False}),
        ("W3, exploration", lambda path: {"instance": np.arange(path.n_rounds + 1) + 0 * path.instance}),
        ("W3, bursts", lambda path: {"aroused": path.aroused | True}),
        ("W4, starts", lambda path: {"instance": path.instance + 40}),
        ("W4, step", lambda path: {"stability": path.stability / 2}),
        ("W4, FTRL", lambda path: {"stability": path.stability * 0}),
        ("W5, small step", lambda path: {"stability": path.stability * 2}),
        ("W6, jump", lambda path: {"stability": path.stability * 10}),
        ("W7, growth", lambda path: {"stability": path.stability * 2}),
        ("W8, jumps", lambda path: {"stability": path.stability * 30}),
        ("W8, jumps", lambda path: {"charge": path.charge + 200}),
        ("W9, total", lambda path: {"last_inverse_rate": path.last_inverse_rate * 20}),
        ("W10, clipping", lambda path: {"clipped": path.clipped + 30}),
    ],
)
def test_every_statement_can_fail(id: str, change: Callable[[WatchedTrajectory], dict[str, Any]]) -> None:
    """It holds along runs of the policy, and is violated when something of it is changed on purpose."""
    statement, path = said(id), run_on("an arm improves", n_trials=8)
    assert statement.is_about(umab.UMABW()) and not statement.is_about(umab.UMABS())
    # Which numbers there are at the end of an instance that never was does not matter to the statements about it.
    ends = {name: np.repeat(getattr(path, name), path.n_rounds, axis=1) for name in ("last_sums", "last_inverse_rate")}
    assert check(statement, statement.says(Steps(path))).verdict == "holds"
    broken = dataclasses.replace(path, **{**ends, **change(path)})
    assert check(statement, statement.says(Steps(broken))).verdict == "violated"


def test_every_statement_is_tried() -> None:
    (marks,) = [mark for mark in test_every_statement_can_fail.pytestmark if mark.args[0] == ("id", "change")]
    assert {id for id, _ in marks.args[1]} == {each.id for each in OF_UMAB_W}
    assert not any(each.is_about(umab.UMABW()) for each in (*STATEMENTS, *OF_UMAB_S, *OF_UMAB_SH))


def test_the_statements_are_only_about_runs_of_umab_w() -> None:
    path = follow(umab.UMABS(), SIGNED, umab.simulate("umab-s", SIGNED, n_trials=1).arms)
    with pytest.raises(TypeError, match="about runs of UMAB-W, but got umab-s"):
        said("W4, step").says(Steps(path))


@pytest.mark.parametrize(
    ("id", "constant", "smaller"),
    [
        ("W2, share", "SHARE_WITH_BURSTS", 4 / 3),  # which is enough for UMAB-S
        ("W1, floors", "MOST_FLOORS", 1 / 3),
        ("W3, exploration", "MOST_ATTENTION", 0.1),
    ],
)
def test_the_constants_are_needed(monkeypatch: pytest.MonkeyPatch, id: str, constant: str, smaller: float) -> None:
    statement, path = said(id), run_on("equal arms")
    assert check(statement, statement.says(Steps(path))).verdict == "holds"
    monkeypatch.setattr(f"umab.theory.statements.theorem_w.{constant}", np.longdouble(smaller))
    assert check(statement, statement.says(Steps(path))).verdict == "violated"


def test_a_statement_about_an_instance_is_shown_at_its_last_round() -> None:
    path = run_on("three arms")
    sides = said("W9, total").says(Steps(path))
    lasts = {(each.run, int(each.rounds[-1])) for each in path.instances}
    assert {(int(run), int(t)) for run, t in np.argwhere(~np.isnan(sides.left))} == lasts


# The end of the proof, exactly.


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run of a few rounds have changes, trials that are undone, trials that are kept, and bursts."""
    monkeypatch.setattr("umab.algorithms.watch.SURPRISE", -9.0)
    monkeypatch.setattr("umab.algorithms.watch.AROUSED", 0.01)
    monkeypatch.setattr("umab.algorithms.watch.CALM", 0.0)
    for name in ("SHORTEST_TRIAL", "TRIAL_PER_ARM", "SETTLED"):
        monkeypatch.setattr(f"umab.algorithms.umab_w.{name}", 1.0)


@pytest.mark.usefixtures("restless")
def test_the_estimates_of_every_instance_are_right_on_average() -> None:
    """Over all sequences of arms: whether an instance plays is known before the draw, also if it was put back.

    And so the regret is below every step of the proof: at most (1 + ln T/c) times what all instances have paid, what is
    clipped, and what is not learning.
    """
    rng = np.random.default_rng(6)
    arms = np.array(list(itertools.product(range(2), repeat=8)))
    n_undone = n_kept = n_bursts = 0
    for _ in range(6):
        table = rng.choice([-1.0, 0.0, 1.0], size=(8, 2)) * 10.0 ** rng.uniform(-2, 2, size=(8, 2))
        path = follow(umab.UMABW(), table, arms)
        assert isinstance(path, WatchedTrajectory)
        chance = np.exp(path.log_probability)
        assert float(chance.sum()) == pytest.approx(1.0, abs=1e-15)
        limits = clipped_at(path.p[:, :-1], path.drawn_from[:, :-1], path.inverse_rate[:, :-1, None])
        estimates = np.zeros_like(path.losses)
        np.put_along_axis(estimates, arms[:, :, None], path.estimate[:, :, None], axis=2)
        errors = (estimates - np.maximum(path.losses, -limits))[:, 1:]  # in round 1, b_1 is the loss itself
        for number in range(path.instance.max() + 1):
            plays = (path.instance[:, 1:-1] == number)[:, :, None]
            off = (chance[:, None] * (errors * plays).sum(axis=1)).sum(axis=0)
            np.testing.assert_allclose(off.astype(float), 0.0, atol=1e-14 * float(np.abs(estimates).max()))
        steps = np.diff(path.instance, axis=1)
        n_undone, n_kept = n_undone + (steps < 0).sum(), n_kept + (steps > 0).sum()
        n_bursts += path.bursts.sum()

        exact, promised = exact_regret(umab.UMABW(), table), bound("umab-w", table)
        paid = float((chance * (path.stability + path.charge).sum(axis=1)).sum())
        clipping = cost_of_clipping(path).max()
        others = sum(promised.terms[term] for term in ("exploration", "bursts", "comparator", "first round"))
        assert clipping <= promised.terms["clipping"]
        assert exact.repaired is not None
        assert exact.regret <= (1 + math.log(8) / 3) * paid + clipping + others <= exact.repaired
        for statement in OF_UMAB_W:
            assert check(statement, statement.says(Steps(path))).verdict in ("holds", "nothing to check")
    assert n_undone > 100 and n_kept > 100 and n_bursts > 10


# The bound.


def test_the_bound_by_hand() -> None:
    """On 100 rounds of (1, −3): ⌈√50⌉ + 1 = 9 starts, D = 4, and each loss may be 4 above or below the level."""
    n_starts, horizon = 9, 100
    times, grown = 1 + math.log(horizon) / 3, 1 + 2 * 4 * (math.log(2) - 0.5) * 3 * 2
    rarest = n_starts * (4 + 2 * math.sqrt(horizon / n_starts))
    terms = {
        "steps": times * 2 * math.sqrt(n_starts * grown * 99 * 16),
        "jumps": times * 4 * (n_starts * 4 * 3 * 2 + rarest),
        "clipping": 12 / 5 * 8 / 2 * rarest * 4,
        "exploration": 4 * n_starts * sum(1 / (4 + 2 * math.sqrt(s)) for s in range(2, 13)),
        "bursts": 4 / 3 * (8 * math.sqrt(200) + 1),
        "comparator": 4.0,
        "first round": 4.0,
    }
    found = bound("umab-w", [[1.0, -3.0]] * horizon)
    assert dict(found.terms) == pytest.approx(terms) and found.repaired == pytest.approx(sum(terms.values()))
    assert found.rate == pytest.approx(3 * (4 * math.sqrt(200) + math.sqrt(2 * 99 * 16))) and found.printed is None
    assert found.source == "Theorem W of docs/changing.md, for N = 9 starts"
    assert bound("umab-w", [[1.0, -3.0]]).source.endswith("N = 1 starts")
    with pytest.raises(NoBoundError, match="switches=1 for umab-w"):
        bound("umab-w", [[1.0, -3.0]] * 9, switches=1)


def test_the_bound_is_above_what_any_rounds_and_starts_give() -> None:
    """The terms of the theorem, for random numbers of starts and of rounds of each, are at most those of the bound."""
    rng = np.random.default_rng(0)
    for n_arms, horizon in ((2, 60), (5, 300), (20, 300)):
        promised = bound("umab-w", np.tile(np.linspace(-1.0, 1.0, n_arms), (horizon, 1)))
        most = math.ceil(math.sqrt(horizon / n_arms)) + 1
        for _ in range(50):
            n_starts = int(rng.integers(1, most + 1))
            rounds = 1 + rng.multinomial(horizon - n_starts, rng.dirichlet(np.full(n_starts, 0.5)))
            squares = rng.dirichlet(np.ones(n_starts))  # the shares of the sum of squares
            assert np.sqrt(squares).sum() <= math.sqrt(most)
            rarest = (n_arms**2 + 2 * np.sqrt((n_arms - 1) * rounds)).sum()
            assert 2 * 12 / 5 * 4 * rarest <= promised.terms["clipping"] * (1 + 1e-12)
            floors = sum(1 / (n_arms**2 + 2 * math.sqrt((n_arms - 1) * s)) for m in rounds for s in range(2, m + 1))
            assert (n_arms - 1) * 2 * floors <= promised.terms["exploration"]


def test_the_bound_has_the_unit_of_the_losses_and_no_offset() -> None:
    promised = bound("umab-w", SIGNED).repaired
    assert promised is not None
    for scale in (2.0**-300, 2.0**400):
        assert bound("umab-w", SIGNED * scale).repaired == promised * scale
    assert bound("umab-w", SIGNED - 1e6).repaired == pytest.approx(promised, rel=1e-9)


@pytest.mark.parametrize("table", [*changing(), *nasty()])
def test_the_bound_is_above_the_regret(table: str) -> None:
    losses = (changing() | nasty())[table]
    promised = bound("umab-w", losses).repaired
    assert promised is not None and umab.simulate("umab-w", losses, n_trials=10, expected=True).mean[-1] <= promised


def test_the_command_line_certifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, found = tmp_path / "losses.csv", tmp_path / "found.json"
    np.savetxt(table, changing()["three arms"], delimiter=",", header="a,b,c", comments="")
    assert cli.main(["certify", str(table), "--policy", "umab-w", "--trials", "2", "--json", str(found)]) == 0
    rows = json.loads(found.read_text())["certificates"]["umab-w"]
    assert [row["id"] for row in rows] == ["Theorem W", *(each.id for each in OF_UMAB_W)]
    assert "W10, clipping" in capsys.readouterr().out


# False alarms: the ranks of the watch, as long as an arm has no more losses than marks.


def bets_on(losses: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Return the evidence of both directions after these losses, and their last four bets."""
    marks, counts, record = [0.0] * 8, [0.0] * 9, blank_record()
    before = list(record)
    for loss in losses:
        if record[0] > 0.0:
            before = list(record)
            bet(record, *ranked(marks, counts, record, loss))
        note(marks, counts, record, loss)
    c = len(losses) - 1
    weight = _WEIGHT / ((c + 2) * math.log(c + 2) ** 2)
    return [evidence_up(record), evidence_down(record)], [
        after / (earlier + weight) for earlier, after in zip(before[2:], record[2:], strict=True)
    ]


def test_the_evidence_is_a_martingale_in_the_ranks() -> None:
    """Of distinct losses: whatever the order of those before, each bet has the mean 1 over the places of the next."""
    for c in range(1, 6):
        for order in itertools.permutations(range(c)):
            places = [bets_on((*(float(each) for each in order), place - 0.5))[1] for place in range(c + 1)]
            assert np.mean(places, axis=0).tolist() == pytest.approx([1.0] * 4, rel=1e-12)
    assert sum(_WEIGHT / ((c + 2) * math.log(c + 2) ** 2) for c in range(1, 10**6)) + _WEIGHT / math.log(10**6) < 1.0


@given(losses=st.lists(st.integers(0, 3).map(float), min_size=2, max_size=6))
def test_the_evidence_from_ties_has_a_mean_of_at_most_one(losses: list[float]) -> None:
    """At a fixed time, over all orders of the losses; the bets that are linear in the rank have the mean 1."""
    found = [bets_on(order) for order in itertools.permutations(losses)]
    linear_up, extreme_up, linear_down, extreme_down = np.mean([bets for _, bets in found], axis=0)
    assert linear_up == pytest.approx(1.0, rel=1e-12) and linear_down == pytest.approx(1.0, rel=1e-12)
    assert max(extreme_up, extreme_down) <= 1.0 + 1e-12
    weights = sum(_WEIGHT / ((c + 2) * math.log(c + 2) ** 2) for c in range(1, len(losses)))
    assert np.mean([evidence for evidence, _ in found], axis=0).max() <= weights + 1e-12
