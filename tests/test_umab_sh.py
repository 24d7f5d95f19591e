"""UMAB-Sh: its definition in 50 digits, its proof along runs, its bound, and that it follows a changing best arm."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from helpers import state_of
from test_theory import SIGNED, nasty
from umab.algorithms.umab_sh import UMABSh, above_tangent, mixability_gap
from umab.errors import NoBoundError
from umab.testing import EXTREMES, Array, check_policy, forced
from umab.theory.bounds import bound
from umab.theory.certificates import certifiable, certify, check
from umab.theory.path import Trajectory
from umab.theory.statements import OF_UMAB_S, OF_UMAB_SH, STATEMENTS, Statement, Steps
from umab.theory.theorems import theorem_of
from umab.theory.trajectory import follow

NAMES = ("umab-sh", "centred(umab-sh)")
STUDIED = (*NAMES, "umab-sh:switches=0.05", "centred(umab-sh:switches=30)")
DIGITS = 50


def definition(switches: float, arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of UMAB-Sh from its definition: one row per round, and one more."""
    with mpmath.workdps(DIGITS):
        one, zero = mpmath.mpf(1), mpmath.mpf(0)
        weights, paid, inverse = [one / n] * n, zero, zero
        rows = []
        for t in range(1, len(arms) + 2):
            floor = 1 / (2 * n + mpmath.sqrt(n * t / (switches * mpmath.log(n * (t + one)))))
            above = mpmath.fsum(max(zero, each - floor) for each in weights)
            missing = mpmath.fsum(max(zero, floor - each) for each in weights)
            left = 1 - missing / above
            p = [floor + max(zero, each - floor) * left for each in weights] if missing > 0 else weights
            rows.append([float(each) for each in p])
            if t > len(arms):
                return np.array(rows)
            arm = arms[t - 1]
            estimates = [mpmath.mpf(losses[t - 1]) / p[arm] if k == arm else zero for k in range(n)]
            if inverse > 0:
                parts = [w * mpmath.exp(-each / inverse) for w, each in zip(weights, estimates, strict=True)]
                mix = -inverse * mpmath.log(mpmath.fsum(parts))
                stepped = [part / mpmath.fsum(parts) for part in parts]
            else:
                mix, stepped = min(estimates), weights
            paid += mpmath.fsum(w * each for w, each in zip(weights, estimates, strict=True)) - mix
            inverse = max(inverse, paid / (switches * mpmath.log(n * (t + 2 * one))))
            share = one / (t + 1)
            weights = [(1 - share) * each + share / n for each in stepped]
    raise AssertionError("unreachable")


@pytest.mark.parametrize("n_arms", [1, 2, 3, 10])
@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e250])
@pytest.mark.parametrize("switches", [0.3, 1.0, 30.0])
def test_against_its_definition(n_arms: int, scale: float, switches: float) -> None:
    """On losses with heavy tails, so that some are jumps and the unit changes."""
    random = np.random.default_rng(n_arms)
    arms = random.integers(n_arms, size=40)
    losses = np.clip(scale * random.standard_t(1.5, size=40), -1e300, 1e300)
    rows = forced(UMABSh(switches=switches), arms, losses, n_arms)
    np.testing.assert_allclose(rows, definition(switches, arms.tolist(), losses.tolist(), n_arms), rtol=1e-10)


def test_by_hand() -> None:
    """A loss of 1 of the first of two arms costs M = 1 and moves nothing; a loss of 0 then only shares."""
    learner = umab.Learner(UMABSh(), 2)
    learner.update(0, 1.0)
    state = state_of(learner)
    assert state.paid / state.unit == 1.0 and list(state.weights) == [0.5, 0.5]
    assert state.inverse_rate / state.unit == pytest.approx(1 / math.log(6), rel=1e-15)
    learner.update(0, 1.0)  # e^{−2 ln 6} = 1/36
    state = state_of(learner)
    assert list(state.weights) == pytest.approx([2 / 3 * 1 / 37 + 1 / 6, 2 / 3 * 36 / 37 + 1 / 6], rel=1e-14)
    assert learner.probabilities()[0] == pytest.approx(2 / 3 * 1 / 37 + 1 / 6, rel=1e-14)  # above the floor
    assert state.exploration_rate == pytest.approx(1 / (4 + math.sqrt(6 / math.log(8))), rel=1e-15)


@given(
    worse=st.floats(-12, 0).map(lambda power: 10.0**power),
    swap=st.booleans(),
    x=st.floats(-12, 4).map(lambda power: 10.0**power),
    inverse=st.floats(-200, 200).map(lambda power: 10.0**power),
)
def test_the_mixability_gap_has_all_digits(worse: float, swap: bool, x: float, inverse: float) -> None:
    """Whatever the step and the weights: as the sum of terms of one sign, it is exact to rounding."""
    worse, better = (1.0 - worse, worse) if swap else (worse, 1.0 - worse)
    if better == 0.0:
        return
    size = x * inverse
    mine = mixability_gap(worse, better, size, inverse)
    with mpmath.workdps(60):
        w, b = mpmath.mpf(worse), mpmath.mpf(better)
        w, b = w / (w + b), b / (w + b)
        exact = w * mpmath.mpf(size) + inverse * mpmath.log(b + w * mpmath.exp(-mpmath.mpf(size) / inverse))
    assert mine == pytest.approx(float(exact), rel=1e-12, abs=0.0)
    assert 0.0 <= mine <= worse * size * (1.0 + 1e-12)


@given(z=st.floats(-40, 40) | st.floats(-1, 1) | st.floats(-1e-6, 1e-6))
def test_the_exponential_above_its_tangent_has_all_digits(z: float) -> None:
    with mpmath.workdps(700):
        exact = float(mpmath.exp(z) - 1 - mpmath.mpf(z))
    assert above_tangent(z) == pytest.approx(exact, rel=2e-15, abs=1e-320)


@given(
    n_arms=st.integers(1, 6),
    rounds=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(EXTREMES.tolist()) | st.floats(-10, 10)), max_size=30),
)
def test_no_weight_is_below_what_is_shared(n_arms: int, rounds: list[tuple[int, float]]) -> None:
    policy = UMABSh()
    parameters, state = policy.parameters_for(n_arms), policy.init(n_arms)
    for t, (arm, loss) in enumerate(rounds, start=2):
        state = policy.update(parameters, state, arm % n_arms, loss, state.probabilities[arm % n_arms])
        assert min(state.weights) >= 1.0 / (n_arms * t) * (1.0 - 1e-15)
        assert min(state.probabilities) >= state.exploration_rate * (1.0 - 1e-15)
        assert math.fsum(state.weights) == pytest.approx(1.0, abs=1e-14)


def test_bad_parameters_are_refused() -> None:
    refused = (0, "switches=0"), (-1.0, "switches=-1"), (math.inf, "switches=inf"), (1e-300, "from .*switches=1e-300")
    for value, message in refused:
        with pytest.raises(ValueError, match=message):
            UMABSh(switches=value)


def test_names_and_claims() -> None:
    assert umab.policy("umab-sh") == UMABSh() and UMABSh(switches=2).name == "umab-sh:switches=2"
    assert umab.policy("centred(umab-sh):switches=2") == umab.Centred(UMABSh(switches=2.0))
    bare, centred = (umab.policy(name) for name in NAMES)
    assert bare.scale_free and not bare.shift_free and centred.scale_free and centred.shift_free
    assert theorem_of(bare) == theorem_of(centred) == "Theorem Sh" and not bare.for_study
    assert bare.guarantee == "(S + 1) ℓ∞ √(nT)" and UMABSh(switches=4).guarantee == "(S + 4) ℓ∞ √(nT/4)"
    check_policy(UMABSh(switches=3))
    learner = umab.Learner("centred(umab-sh):switches=2", 3, seed=0)
    assert umab.Learner.from_json(learner.to_json()).policy == learner.policy


def test_arms_that_come_and_go() -> None:
    """A new arm has a fair share of the weights, old ones keep their proportions, and it goes on learning."""
    learner = umab.Learner("umab-sh", ["a", "b", "c"], seed=0)
    for arm, loss in zip("abcabc", (1.0, 2.0, -1.0, 1.0, 3.0, -2.0), strict=True):
        learner.update(arm, loss)
    before = state_of(learner).weights
    learner.add_arm("d")
    after = state_of(learner).weights
    assert after[3] == 0.25 and list(after[:3]) == pytest.approx([0.75 * each for each in before], rel=1e-14)
    learner.update("d", 0.5)
    after = state_of(learner).weights
    learner.remove_arm("a")
    weights = state_of(learner).weights
    assert list(weights) == pytest.approx([each / sum(after[1:]) for each in after[1:]], rel=1e-14)
    learner.update("d", -50.0)
    assert learner.probabilities().argmax() == 2 and learner.probabilities().sum() == pytest.approx(1.0, abs=1e-14)


# The proof along runs.


@pytest.mark.parametrize("name", STUDIED)
@pytest.mark.parametrize("table", nasty())
def test_a_trajectory_is_that_of_the_policy_and_the_proof_holds_along_it(name: str, table: str) -> None:
    losses = nasty()[table]
    arms = umab.simulate(name, losses, n_trials=2, seed=1).arms
    path = follow(umab.policy(name), losses, arms)
    for run in range(2):
        learner = umab.Learner(umab.policy(name), arms=losses.shape[1])
        for t, arm in enumerate(arms[run].tolist()):
            np.testing.assert_allclose(learner.probabilities(), path.drawn_from[run, t].astype(float), rtol=1e-8)
            learner.update(arm, float(losses[t, arm]))
    rows = certify(name, losses, n_trials=4)
    assert [row.id for row in rows] == ["Theorem Sh", *(each.id for each in OF_UMAB_SH)]
    assert {(row.form, row.where) for row in rows} == {("as proved", "docs/algorithms/umab-sh.md")}
    assert {row.verdict for row in rows} <= {"holds", "nothing to check"}


def said(id: str) -> Statement:
    return next(each for each in OF_UMAB_SH if each.id == id)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("Sh1, weights", lambda path: {"p": path.p / 20}),
        ("Sh2, floor", lambda path: {"drawn_from": path.p}),
        ("Sh2, share", lambda path: {"drawn_from": path.drawn_from / 2.1}),
        ("Sh3, exploration", lambda path: {"exploration": path.exploration / 20}),
        ("Sh4, step", lambda path: {"stability": path.stability * 0.9}),
        ("Sh4, step", lambda path: {"p": np.repeat(path.p[:, :1], path.p.shape[1], axis=1)}),
        ("Sh5, sequences", lambda path: {"stability": path.stability / 4, "inverse_rate": path.inverse_rate / 4}),
        ("Sh6, rate", lambda path: {"inverse_rate": path.inverse_rate * 0.99}),
        ("Sh6, growth", lambda path: {"inverse_rate": path.inverse_rate * np.linspace(1, 2, path.n_rounds + 1)}),
        ("Sh7, small step", lambda path: {"stability": path.stability * 3}),
        ("Sh8, growth", lambda path: {"stability": path.stability * 8}),
        ("Sh9, jump", lambda path: {"exploration": path.exploration * 10}),
        ("Sh10, total", lambda path: {"inverse_rate": path.inverse_rate * 20}),
    ],
)
def test_every_statement_can_fail(name: str, id: str, change: Callable[[Trajectory], dict[str, Any]]) -> None:
    """It holds along runs of the policy, and is violated when something of it is changed on purpose."""
    which, statement = umab.policy(name), said(id)
    path = follow(which, SIGNED, umab.simulate(which, SIGNED, n_trials=8).arms)
    assert statement.is_about(which) and not statement.is_about(umab.UMABS())
    assert check(statement, statement.says(Steps(path))).verdict == "holds"
    assert check(statement, statement.says(Steps(dataclasses.replace(path, **change(path))))).verdict == "violated"


def test_every_statement_is_tried() -> None:
    (marks,) = [mark for mark in test_every_statement_can_fail.pytestmark if mark.args[0] == ("id", "change")]
    assert {id for id, _ in marks.args[1]} == {each.id for each in OF_UMAB_SH}
    assert not any(each.is_about(UMABSh()) for each in (*STATEMENTS, *OF_UMAB_S))


@pytest.mark.parametrize(
    ("id", "constant", "smaller", "seen", "n_arms"),
    [
        # A gain of an arm of small weight with η|ℓ̂| = 0.99 costs about (e − 2)η times its square: ρ = p' = 1/n there.
        ("Sh7, small step", "GAP", 0.6, [(0, 1.0), (1, -0.99 / (100 * math.log(300)))], 100),
        # The arm that has lost is at 1/6 of the weight, below the floor, so the other pays.
        ("Sh2, share", "FLOOR_SHARE", 1.0, [(0, 1.0), (0, 50.0), (0, 50.0), (0, 0.0)], 2),
    ],
)
def test_the_constants_are_needed(
    monkeypatch: pytest.MonkeyPatch, id: str, constant: str, smaller: float, seen: list[Any], n_arms: int
) -> None:
    losses = np.array([[loss if k == arm else 0.0 for k in range(n_arms)] for arm, loss in seen])
    steps = Steps(follow(UMABSh(), losses, [[arm for arm, _ in seen]]))
    statement = said(id)
    assert check(statement, statement.says(steps)).verdict == "holds"
    monkeypatch.setattr(f"umab.theory.statements.theorem_sh.{constant}", np.longdouble(smaller))
    assert check(statement, statement.says(steps)).verdict == "violated"


@given(seed=st.integers(0, 2**32 - 1), n_arms=st.integers(1, 3), n_rounds=st.integers(1, 6))
def test_the_sequences_of_the_statement_are_all_sequences(seed: int, n_arms: int, n_rounds: int) -> None:
    """The side that is found by dynamic programming is the largest over n^T sequences, tried one by one."""
    random = np.random.default_rng(seed)
    losses = random.standard_t(2, size=(n_rounds, n_arms))
    path = follow(UMABSh(), losses, random.integers(n_arms, size=(1, n_rounds)))
    sides = said("Sh5, sequences").says(Steps(path))
    estimates = np.zeros((n_rounds, n_arms), dtype=np.longdouble)
    estimates[np.arange(n_rounds), path.arms[0]] = path.estimate[0]
    mixed = (estimates * path.p[0, :-1]).sum()
    switch = path.inverse_rate[0, -2] * np.log(np.longdouble(n_arms * n_rounds))
    found = max(
        mixed - estimates[np.arange(n_rounds), list(each)].sum() - switch * np.count_nonzero(np.diff(each))
        for each in itertools.product(range(n_arms), repeat=n_rounds)
    )
    assert float(sides.left[0]) == pytest.approx(float(found), rel=1e-12, abs=1e-12)
    right = path.stability.sum() + switch + path.inverse_rate[0, -2] * np.log(np.longdouble(n_rounds + 1))
    assert float(sides.right[0]) == pytest.approx(float(right), rel=1e-12, abs=1e-12)


# The bound.


@pytest.mark.parametrize("switches", [0, 3])
@pytest.mark.parametrize("made_for", [1.0, 4.0])
def test_the_bound_by_hand(switches: int, made_for: float) -> None:
    """On a table of 1 and −2, whose sizes are known: V_t = 5, ‖ℓ_t‖²∞ = 4, L⁻ = 2, D = 3."""
    horizon, policy = 50, UMABSh(switches=made_for)
    complexity = [made_for * math.log(2 * (t + 1)) for t in range(1, horizon + 2)]  # S̄λ_t
    floors = [1 / (4 + math.sqrt(2 * t / complexity[t - 1])) for t in range(1, horizon + 1)]
    squares = sum(4 * (math.e - 2) * 5 / each + 4 * 4 / each**2 for each in complexity[1:])
    inverse = math.hypot((1 + 1 / complexity[1]) * 2 / floors[-1], math.sqrt(squares))
    times = complexity[-1] + (switches + 1) * math.log(2 * horizon) + math.log(horizon + 1)
    found = bound(policy, [[1.0, -2.0]] * horizon, switches=switches)
    assert found.repaired == pytest.approx(times * inverse + 3 * sum(floors[1:]), rel=1e-12)
    assert sum(found.terms.values()) == pytest.approx(found.repaired) and found.printed is None
    order = (switches + made_for) / math.sqrt(made_for) * 2 * math.sqrt(2 * horizon)
    assert found.rate == pytest.approx(order) and found.formula == policy.guarantee

    # Centred, b_t is from −2 to 1, so each loss may be 3 away, and the spread is paid once more for round 1.
    squares = sum(4 * (math.e - 2) * 9 / each + 4 * 9 / each**2 for each in complexity[2:])
    inverse = math.hypot((1 + 1 / complexity[1]) * 3 / floors[-1], math.sqrt(squares))
    found = bound(umab.Centred(policy), [[1.0, -2.0]] * horizon, switches=switches)
    assert found.repaired == pytest.approx(times * inverse + 3 * sum(floors[1:]) + 3, rel=1e-12)


def test_what_the_bound_does_with_switches() -> None:
    found = [bound("centred(umab-sh)", SIGNED, switches=each).repaired for each in range(5)]
    steps = np.diff(np.array(found, dtype=float))
    assert (steps > 0).all() and steps == pytest.approx(steps[0])  # it is linear in S
    assert bound("centred(umab-sh)", SIGNED).repaired == found[0]
    assert bound("centred(umab-sh)", SIGNED + 1e6).repaired == pytest.approx(found[0], rel=1e-9)
    assert bound("centred(umab-sh)", np.ldexp(SIGNED, 500)).repaired == pytest.approx(2.0**500 * found[0])  # type: ignore[operator]
    for name in ("umab-s", "umab-nn", "scb", "exp3"):
        with pytest.raises(NoBoundError, match=f"only umab-sh .*arms that change, but got switches=2 for {name}"):
            bound(name, np.abs(SIGNED), switches=2)
    assert certifiable(UMABSh()) and not certifiable(umab.Centred("umab-g-a"))
    with pytest.raises(ValueError, match="switches=-1"):
        bound("umab-sh", SIGNED, switches=-1)
    with pytest.raises(TypeError, match=r"switches=1\.5"):
        bound("umab-sh", SIGNED, switches=1.5)  # type: ignore[arg-type]


def changing(n_rounds: int = 1000) -> Array:
    """Return a table whose best arm changes four times: the means are 0 for it and 1 for the others."""
    means = np.ones((5, n_rounds, 5))
    means[np.arange(5), :, np.arange(5)] = 0.0
    return np.random.default_rng(0).normal(means.reshape(5 * n_rounds, 5))


def test_it_follows_the_best_arm() -> None:
    """Against the best sequence with four changes: less than half the regret of a policy that does not expect any.

    The claims are one-sided, with a risk of 1e-6 for each: 4.75 standard errors.
    """
    losses = 1e6 + changing()
    names = ["centred(umab-sh)", "centred(umab-s)", "uniform"]
    regrets = [each.tracking_regret(4) for each in umab.simulate(names, losses, n_trials=100, seed=5, expected=True)]
    (mine, error), (other, other_error), (random, _) = (
        (regret.mean(), regret.std(ddof=1) / math.sqrt(len(regret))) for regret in regrets
    )
    assert mine + 4.75 * error < 0.5 * (other - 4.75 * other_error) and mine < 0.3 * random


@pytest.mark.parametrize("switches", [0, 1, 4, 20])
def test_the_regret_is_below_the_bound(switches: int) -> None:
    losses = changing(200)
    for name in STUDIED:
        regret = umab.simulate(name, losses, n_trials=50, seed=1, expected=True).tracking_regret(switches)
        promised = bound(name, losses, switches=switches).repaired
        assert promised is not None
        assert regret.mean() + 4.75 * regret.std(ddof=1) / math.sqrt(50) < promised
