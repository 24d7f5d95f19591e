"""Theorem G: runs of policies with a guard in extended precision, its proof along them, and its bound."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import umab
from optimists import GREEDY, UCB
from test_theorem_w import changing
from test_theory import SIGNED, nasty
from umab.errors import NoBoundError
from umab.testing import Array
from umab.theory.barrier import clipped_at
from umab.theory.bounds import bound
from umab.theory.certificates import certify, check
from umab.theory.guarding import GuardedTrajectory
from umab.theory.path import Whole
from umab.theory.search import exact_regret
from umab.theory.statements import OF_GUARDED, OF_UMAB_S, OF_UMAB_W, STATEMENTS, Statement, Steps
from umab.theory.trajectory import follow

OPTIMISTS = {"greedy": GREEDY, "ucb": UCB}
every_optimist = pytest.mark.parametrize("policy", OPTIMISTS.values(), ids=OPTIMISTS)


@functools.cache
def tables() -> dict[str, Array]:
    """Tables on which an optimist is wrong, changes, is right, or sees rare gains."""
    rng = np.random.default_rng(7)
    return {
        **{name: changing()[name][:300] for name in ("two arms", "twenty arms", "a wave", "huge", "coins")},
        "rare gains": np.where(rng.random((400, 4)) < 0.03, -1e3, rng.normal(size=(400, 4))),
        "a lure": np.repeat([[0.0, 1.0, 1.0], [9.0, -3.0, 1.0]], 200, axis=0) + rng.normal(size=(400, 3)),
        "turns": np.where(np.arange(400)[:, None] // 3 % 2 == np.arange(2), 5.0, rng.normal(size=(400, 2))),
    }


@functools.cache
def run_on(table: str, policy: umab.Guarded = UCB, n_trials: int = 4) -> GuardedTrajectory:
    losses = tables()[table]
    found = follow(policy, losses, umab.simulate(policy, losses, n_trials=n_trials, seed=1).arms)
    assert isinstance(found, GuardedTrajectory)
    return found


def wrong_for_long() -> tuple[Array, Whole]:
    """Return losses and arms along which a greedy optimist is so wrong that the shadow plays alone."""
    losses, arms = np.tile([0.0, 100.0, 100.0], (600, 1)), np.zeros((1, 600), dtype=np.intp)
    losses[:, 0] = np.linspace(0.0, 99.0, 600)
    arms[0, :3] = 0, 1, 2
    return losses, arms


def gains_at_the_end() -> tuple[Array, Whole]:
    rng = np.random.default_rng(0)
    losses = np.where(np.arange(200)[:, None] > 180, -1e9, rng.random((200, 3)))
    return losses, rng.integers(3, size=(20, 200))


def said(id: str) -> Statement:
    return next(each for each in OF_GUARDED if each.id == id)


# The runs.


@every_optimist
@pytest.mark.parametrize("table", tables())
def test_a_trajectory_is_that_of_the_policy(policy: umab.Guarded, table: str) -> None:
    path = run_on(table, policy)
    assert follows(policy, tables()[table], path)


def follows(policy: umab.Guarded, losses: Array, path: GuardedTrajectory) -> bool:
    """The distributions and the shares are those of a learner in every round."""
    parameters = policy.parameters_for(losses.shape[1])
    for run in range(2):
        state: Any = policy.init(losses.shape[1])
        for t, arm in enumerate(path.arms[run].tolist()):
            np.testing.assert_allclose(state.probabilities, path.drawn_from[run, t].astype(float), rtol=1e-4)
            assert state.guard.share == pytest.approx(float(path.share[run, t]), rel=1e-4)
            ticket = policy.remember(parameters, state, arm, policy.ticket(losses.shape[1]))
            loss = float(losses[t, arm])
            state = policy.update(parameters, state, arm, loss, state.probabilities[arm], ticket)
    return True


@pytest.mark.parametrize("table", nasty())
def test_a_trajectory_on_nasty_losses_is_that_of_the_policy(table: str) -> None:
    losses = nasty()[table]
    path = follow(UCB, losses, umab.simulate(UCB, losses, n_trials=2, seed=1).arms)
    assert isinstance(path, GuardedTrajectory) and follows(UCB, losses, path)
    assert {row.verdict for row in certify(UCB, losses, n_trials=3)} <= {"holds", "nothing to check"}


def test_the_tables_have_what_the_proof_is_about() -> None:
    """Or the tests on them would say nothing about it."""
    paths = [run_on(table, policy) for table in tables() for policy in OPTIMISTS.values()]
    shares = np.concatenate([path.share.ravel() for path in paths])
    assert (shares == 1 / 64).mean() > 0.2 and (shares > 0.5).sum() > 100
    assert sum(int((path.charge > 0).sum()) for path in paths) > 100
    assert max(float(path.weights.max()) for path in paths) > 30
    alone = follow(GREEDY, *wrong_for_long())
    assert isinstance(alone, GuardedTrajectory) and (alone.share == 1).sum() > 5
    assert {check(each, each.says(Steps(alone))).verdict for each in OF_GUARDED} <= {"holds", "nothing to check"}


# The proof along runs.


@every_optimist
@pytest.mark.parametrize("table", tables())
def test_the_statements_hold(policy: umab.Guarded, table: str) -> None:
    rows = certify(policy, tables()[table], n_trials=4)
    assert [row.id for row in rows] == ["Theorem G", *(each.id for each in OF_GUARDED)]
    assert {(row.form, row.where) for row in rows} == {("as proved", "docs/guard.md")}
    assert {row.verdict for row in rows} <= {"holds", "nothing to check"}


@pytest.mark.parametrize("scale", [5e-324, 1e-170, 1e305])
def test_losses_of_any_size_are_certified(scale: float) -> None:
    losses = np.clip(5 * SIGNED[:60], -9.0, 9.0).round() * scale
    assert {row.verdict for row in certify(UCB, losses, n_trials=3)} <= {"holds", "nothing to check"}


def of_shadow(**changes: Callable[[Any], Any]) -> Callable[[GuardedTrajectory], dict[str, Any]]:
    """Return a change of the shadow of a path."""
    return lambda path: {
        "shadow": dataclasses.replace(path.shadow, **{name: to(path.shadow) for name, to in changes.items()})
    }


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("G1, share", lambda path: {"drawn_from": path.drawn_from / 2}),
        ("G1, share", lambda path: {"share": path.share / 4}),
        ("G2, spread", lambda path: {"share": 0.5 + path.share / 2}),
        ("G3, floor", lambda path: {"exploration": path.exploration * 2}),
        ("G3, share", of_shadow(drawn_from=lambda shadow: shadow.drawn_from * 0.6)),
        ("G3, rest", of_shadow(drawn_from=lambda shadow: shadow.drawn_from * 1.5)),
        ("G3, exploration", of_shadow(drawn_from=lambda shadow: (shadow.p + 0.3) / (1 + 0.3 * shadow.n_arms))),
        ("G4, step", of_shadow(stability=lambda shadow: shadow.stability / 2)),
        ("G4, FTRL", of_shadow(stability=lambda shadow: shadow.stability * 0)),
        ("G5, small step", of_shadow(stability=lambda shadow: shadow.stability * 2)),
        ("G5, growth", of_shadow(stability=lambda shadow: shadow.stability * 3)),
        ("G6, jump", of_shadow(stability=lambda shadow: shadow.stability * 40)),
        ("G7, jumps", of_shadow(stability=lambda shadow: shadow.stability * 1e6)),
        ("G8, total", of_shadow(inverse_rate=lambda shadow: shadow.inverse_rate * 1e6)),
        ("G9, clipping", of_shadow(clipped=lambda shadow: shadow.clipped * 0 + 1e6)),
        ("G10, clipping", of_shadow(clipped=lambda shadow: shadow.clipped * 0 + 1e6)),
        ("G11, balance", lambda path: {"balance": path.balance * 4}),
        ("G12, mean", lambda path: {"drawn_from": path.drawn_from * 1.01}),
        ("G12, squares", lambda path: {"share": path.share * 64}),
        ("G13, spread", lambda path: {"share": path.share * 8}),
        ("G13, spread", lambda path: {"chosen": path.chosen[:, :, ::-1]}),
    ],
)
def test_every_statement_can_fail(id: str, change: Callable[[GuardedTrajectory], dict[str, Any]]) -> None:
    """It holds along runs of a policy, and is violated when something of them is changed on purpose."""
    statement, path = said(id), run_on("rare gains", GREEDY)
    assert statement.is_about(GREEDY) and not statement.is_about(umab.UMABS())
    assert check(statement, statement.says(Steps(path))).verdict == "holds"
    broken = dataclasses.replace(path, **change(path))
    assert check(statement, statement.says(Steps(broken))).verdict == "violated"


def test_every_statement_is_tried() -> None:
    (marks,) = [mark for mark in test_every_statement_can_fail.pytestmark if mark.args[0] == ("id", "change")]
    assert {id for id, _ in marks.args[1]} == {each.id for each in OF_GUARDED}
    assert not any(each.is_about(UCB) for each in (*STATEMENTS, *OF_UMAB_S, *OF_UMAB_W))


@pytest.mark.parametrize(
    ("what", "to", "id", "along"),
    [
        ("umab.theory.guarding.SURE", 30.0, "G11, balance", wrong_for_long),
        ("umab.theory.guarding.LEAST_SHARE", 1 / 512, "G1, share", gains_at_the_end),
        (
            "umab.theory.guarding.least_floor",
            lambda n, t, share: 0.9 / n + 0 * share,
            "G3, exploration",
            gains_at_the_end,
        ),
        ("umab.theory.barrier.CHARGE", 0.0, "G9, clipping", gains_at_the_end),
    ],
)
def test_a_guard_that_breaks_a_rule_is_caught(
    monkeypatch: pytest.MonkeyPatch, what: str, to: Any, id: str, along: Callable[[], tuple[Array, Whole]]
) -> None:
    """A policy that breaks it would show too: as a trajectory that is not that of the policy."""
    statement = said(id)
    assert check(statement, statement.says(Steps(follow(GREEDY, *along())))).verdict == "holds"
    monkeypatch.setattr(what, to)
    assert check(statement, statement.says(Steps(follow(GREEDY, *along())))).verdict == "violated"


def test_the_statements_are_only_about_runs_of_policies_with_a_guard() -> None:
    path = follow(umab.UMABS(), SIGNED, umab.simulate("umab-s", SIGNED, n_trials=1).arms)
    with pytest.raises(TypeError, match="about runs of policies with a guard, but got umab-s"):
        said("G1, share").says(Steps(path))


def test_nothing_is_proved_without_the_guard() -> None:
    for call in (bound, certify):
        with pytest.raises((NoBoundError, TypeError), match="for a guard that is on, but got guarded"):
            call(umab.Guarded("umab-r", shadow="never"), SIGNED)


# The end of the proof, exactly.


@every_optimist
def test_estimates_and_balance_are_right_on_average(policy: umab.Guarded) -> None:
    """Over all sequences of arms: the balance is what the optimist costs more, and estimates are unbiased."""
    rng, n_rounds = np.random.default_rng(6), 8
    arms = np.array(list(itertools.product(range(2), repeat=n_rounds)))
    n_ramped = 0
    for _ in range(6):
        table = rng.choice([-1.0, 0.0, 1.0], size=(n_rounds, 2)) * 10.0 ** rng.uniform(-2, 2, size=(n_rounds, 2))
        path = follow(policy, table, arms)
        assert isinstance(path, GuardedTrajectory)
        chance = np.exp(path.log_probability)
        assert float(chance.sum()) == pytest.approx(1.0, abs=1e-15)
        size = float(np.abs(table).max())
        moved = path.drawn_from[:, :-1] - path.played[:, :-1]
        more = (chance * (table * moved)[:, 1:].sum(axis=(1, 2))).sum()
        assert float((chance * path.balance[:, -1]).sum()) == pytest.approx(float(more), abs=1e-14 * size)
        shadow = path.shadow
        limits = clipped_at(path.p[:, :-1], path.played[:, :-1], path.inverse_rate[:, :-1, None])
        wanted = np.maximum(shadow.losses, -limits) / path.weights
        estimates = np.zeros_like(path.losses)
        np.put_along_axis(estimates, arms[:, :, None], shadow.estimate[:, :, None], axis=2)
        off = (chance[:, None] * (estimates - wanted)[:, 1:].sum(axis=1)).sum(axis=0)
        np.testing.assert_allclose(off.astype(float), 0.0, atol=1e-13 * float(np.abs(estimates).max()))
        n_ramped += int((path.share > 1 / 64).any(axis=1).sum())
        found = exact_regret(policy, table)
        assert found.repaired is not None and found.regret <= found.repaired
    assert n_ramped > 100


# The bound.


def test_the_bound_by_hand() -> None:
    """For losses of 0 and 1, with b_t between 0 and 1: S = T − 1, L⁻ = D = 1."""
    found = bound(UCB, np.tile([1.0, 0.0], (500, 1)))
    n, horizon, c = 2, 500, 3.0
    whole = n * n + 2 * np.sqrt((n - 1) * (1 + horizon / 64))
    kappa, times = 4 * np.log(2) - 2, 1 + np.log(horizon) / c
    assert dict(found.terms) == pytest.approx(
        {
            "steps": times * 4 / 3 * np.sqrt((1 + 2 * kappa * c * n) * (horizon - 1) * 64),
            "jumps": times * (8 / 3 * c * n + whole) * 64,
            "clipping": 16 / (5 / 8 * 2) * whole * 64,
            "balance": np.sqrt(10 * (horizon - 1) * 64),
            "exploration": sum(1 / (4 + 2 * np.sqrt(1 + t / 64)) for t in range(2, horizon + 1)),
            "comparator": 1.0,
            "first round": 1.0,
        }
    )
    assert found.repaired == pytest.approx(sum(found.terms.values()))
    assert found.source == "Theorem G of docs/guard.md"


def test_the_bound_scales_with_the_losses_and_not_with_an_offset() -> None:
    losses = np.random.default_rng(1).normal(size=(300, 4))
    base = bound(UCB, losses).repaired
    assert base is not None
    assert bound(GREEDY, 1000.0 * losses + 5e5).repaired == pytest.approx(1000.0 * base, rel=1e-9)


@pytest.mark.parametrize(
    ("n_arms", "millions"),
    [(2, 0.27), pytest.param(5, 0.93, marks=pytest.mark.slow), pytest.param(10, 2.2, marks=pytest.mark.slow)],
)
def test_from_when_on_the_bound_says_something(n_arms: int, millions: float) -> None:
    """As the page says, to two digits, for losses from 0 to 1."""

    def promised(n_rounds: int) -> float:
        losses = np.zeros((n_rounds, n_arms))
        losses[:, 0] = 1.0
        found = bound(UCB, losses).repaired
        assert found is not None
        return found

    for share, below in ((0.98, False), (1.02, True)):
        n_rounds = int(share * millions * 1e6)
        assert (promised(n_rounds) < n_rounds) == below
