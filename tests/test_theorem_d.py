"""Theorem D: the steps of its proof along runs, and its expectations by exact enumeration of every draw."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import umab
from test_theory import SIGNED, nasty
from umab.engine.interpreted import play
from umab.errors import NoBoundError
from umab.testing import Array
from umab.theory.bounds import bound
from umab.theory.bounds_late import TEXTS
from umab.theory.certificates import certifiable, certify, check
from umab.theory.late import LatePath, bound_on_clipping, follow_late, total_delay
from umab.theory.statements import OF_SCB_D, LateSteps
from umab.theory.trajectory import follow

NAMES = ("scb-d", "centred(scb-d)")


def random_delays(generator: np.random.Generator, n_rounds: int) -> Any:
    return generator.integers(30, size=n_rounds)


# The proof along runs.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("table", nasty())
def test_a_path_is_that_of_the_policy_and_the_proof_holds_along_it(name: str, table: str) -> None:
    losses = nasty()[table]
    delays = np.random.default_rng(0).integers(12, size=len(losses))
    rounds = [(each.arm, list(each.state.probabilities)) for each in play(name, losses, delays=delays)]
    path = follow_late(umab.policy(name), losses, [[arm for arm, _ in rounds]], delays)
    right = np.array([row for _, row in rounds])[:-1]
    np.testing.assert_allclose(path.drawn_from[0, 1:].astype(float), right, rtol=1e-8)
    for late in (None, delays, random_delays):
        rows = certify(name, losses, delays=late, n_trials=3)
        assert [row.id for row in rows] == [*TEXTS, *(each.id for each in OF_SCB_D)]
        assert {(row.form, row.where) for row in rows} == {("as proved", "docs/algorithms/scb-d.md")}
        assert {row.verdict for row in rows[len(TEXTS) :]} <= {"holds", "nothing to check"}
        assert {row.verdict for row in rows[: len(TEXTS)]} <= {"holds", "undecided"}  # there are only three runs


def with_one(values: Any, at: int, value: float) -> Any:
    changed = values.copy()
    changed[:, at] = value
    return changed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("D1, regulariser", lambda path: {"scale": with_one(path.scale, -1, 1e-6)}),
        ("D2, step", lambda path: {"p": path.p * 1.5}),
        ("D2, share", lambda path: {"scale": path.scale / 4}),
        ("D3, late step", lambda path: {"p": path.p / 20}),
        ("D4, outstanding", lambda path: {"outstanding": with_one(0 * path.outstanding, 20, 5.0)}),
        ("D5, exploration", lambda path: {"exploration": path.exploration / 20}),
    ],
)
def test_every_statement_can_fail(name: str, id: str, change: Callable[[LatePath], dict[str, Any]]) -> None:
    """It holds along runs of the policy, and is violated when something of it is changed on purpose."""
    which, statement = umab.policy(name), next(each for each in OF_SCB_D if each.id == id)
    delays = np.random.default_rng(0).integers(12, size=len(SIGNED))
    path = follow_late(which, SIGNED, umab.simulate(which, SIGNED, n_trials=6, delays=delays).arms, delays)
    assert statement.is_about(which) and not statement.is_about(umab.UMABS())
    assert check(statement, statement.says(LateSteps(path))).verdict == "holds"
    assert check(statement, statement.says(LateSteps(dataclasses.replace(path, **change(path))))).verdict == "violated"


def test_every_statement_is_tried() -> None:
    (marks,) = [mark for mark in test_every_statement_can_fail.pytestmark if mark.args[0] == ("id", "change")]
    assert {id for id, _ in marks.args[1]} == {each.id for each in OF_SCB_D}


# Expectations, by enumerating every sequence of draws.


class Case(NamedTuple):
    losses: Array
    delays: Any


def cases() -> list[Case]:
    """Return tables of 2 or 3 arms and up to 7 rounds, with sizes that grow, and delays of every kind."""
    random = np.random.default_rng(3)
    found = []
    for n_arms, n_rounds in ((2, 7), (2, 6), (2, 7), (3, 5), (3, 6), (3, 5)):
        losses = random.normal(size=(n_rounds, n_arms)) * 2.0 ** random.integers(-2, 3, size=(n_rounds, n_arms))
        found.append(Case(losses, random.integers(4, size=n_rounds)))
    found.append(Case(np.array([[0.75, 0.75]] + [[1.2, -1.2]] * 6), np.array([0, 3, 2, 1, 0, 2, 0])))
    found.append(Case(np.array([[1.0, 0.0]] * 7), np.zeros(7, dtype=int)))
    found.append(Case(np.array([[0.1, 0.0, 5.0]] * 6), np.full(6, 2)))
    return found


def every_run(name: str, losses: Array, delays: Any) -> LatePath:
    n_rounds, n_arms = losses.shape
    arms = np.array(list(itertools.product(range(n_arms), repeat=n_rounds)))
    path = follow_late(umab.policy(name), losses, arms, delays(arms) if callable(delays) else delays)
    assert float(path.probability.sum()) == pytest.approx(1.0, abs=1e-15)
    return path


def mean(path: LatePath, values: Any) -> Any:
    """Return the expectation of what each run has."""
    return np.tensordot(path.probability, values, axes=1)


def targets(path: LatePath) -> Any:
    """Return clip(ℓ_t) + C_t, what the estimates are of; runs × T × n."""
    limit = path.scale[:, :, None]
    return np.clip(path.losses, -limit, limit) + limit


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_expectations_by_exact_enumeration(name: str, case: Case) -> None:
    path = every_run(name, *case)
    steps, n, horizon = LateSteps(path), path.n_arms, path.n_rounds
    largest = np.abs(path.losses).max()
    slack = 1e-12 * largest

    # D2 and D3, round by round.
    assert (mean(path, steps.step) <= mean(path, 4 * path.scale * np.sqrt(n / steps.t)) + slack).all()
    late = np.divide(
        2 * path.scale * path.outstanding, path.weight, out=np.zeros_like(path.scale), where=path.weight > 0
    )
    assert (mean(path, steps.late_step) <= mean(path, late) + slack).all()

    # Estimates are right on average, also of rounds that are outstanding in round t.
    wrong = mean(path, steps.estimates - targets(path))
    assert np.abs(wrong).max() <= slack
    assert np.abs(waiting(path, case.delays)).max() <= slack

    # D4, level by level.
    sizes = np.unique(np.abs(path.losses))
    least = path.exploration[-1] / n
    most = path.outstanding.max() + 1 / least
    for level in (sizes[:-1] + sizes[1:])[:: max(1, len(sizes) // 40)] / 2:
        is_open = (path.scale < level) & (level < np.abs(path.losses).max(axis=2))
        assert mean(path, is_open.sum(axis=1)) <= most + 1e-12
    (total,) = total_delay(np.asarray(case.delays)[None])
    assert mean(path, path.too_large.sum(axis=1)) <= largest * bound_on_clipping(n, horizon, total)

    # The end of the proof: A + B + C is the regret on estimates, and the theorem.
    parts = steps.step + steps.late_step + (steps.before - steps.after)
    np.testing.assert_allclose(
        parts.astype(float), (path.estimate * path.of_arm(path.p)).astype(float), rtol=0, atol=1e-12 * float(largest)
    )
    regret = mean(path, (case.losses * path.drawn_from).sum(axis=(1, 2))) - case.losses.sum(axis=0).min()
    promised = bound(name, case.losses, delays=case.delays).repaired
    assert promised is not None and float(regret) <= promised


def waiting(path: LatePath, delays: Any) -> Any:
    """Return E Σ(ℓ̂_s − c_s) over the rounds s that are outstanding in round t; T × n."""
    steps, rounds = LateSteps(path), np.arange(path.n_rounds)
    apart = steps.estimates - targets(path)
    late = np.broadcast_to(delays, path.arms.shape)
    outstanding = (rounds[:, None] > rounds) & (rounds[:, None] <= (rounds + late)[:, None, :])  # runs × t × s
    return mean(path, np.einsum("rts,rsk->rtk", outstanding.astype(float), apart.astype(float)))


def test_a_delay_that_depends_on_the_arm_is_not_covered() -> None:
    """Then what is outstanding is not what was drawn: its estimates are wrong on average."""
    losses = np.array([[1.0, 2.0]] * 6)
    fixed = every_run("scb-d", losses, np.array([0, 2, 2, 2, 2, 2]))
    assert np.abs(waiting(fixed, [0, 2, 2, 2, 2, 2])).max() < 1e-14

    def by_arm(arms: Any) -> Any:
        return np.where(arms == 0, 0, 3)

    path = every_run("scb-d", losses, by_arm)
    assert np.abs(waiting(path, by_arm(path.arms))).max() > 0.5


def test_the_layers_of_scb_stay_open_for_ever() -> None:
    """The hole in the published argument: C = 1.5 after a loss of 0.75, and a loss of 1.2 never moves it above 2.

    So a count of the rounds whose losses are in (1, 2] and in which C < 2 is T − 1, with certainty. By levels, as in
    D4, there is nothing to count, as no loss exceeds C.
    """
    table = [[0.75, 0.75]] + [[1.2, 1.2]] * 50
    scales = [each.state.scale / each.state.unit for each in play("scb", table)]
    assert scales == [1.5] * 51
    counted = sum(1.0 < row[0] <= 2.0 and scale < 2.0 for row, scale in zip(table[1:], scales, strict=False))
    page = (Path(__file__).parent.parent / "docs" / "errata.md").read_text()
    assert "C = 1.5 for ever" in page and f"({counted} of {len(table)})" in page
    path = follow_late(umab.SCBD(), table, [[0] * 51])
    assert path.scale[0].astype(float).tolist() == [0.0, 0.75] + [1.2] * 49
    assert float(path.too_large.sum()) == pytest.approx(0.75 + 0.45)


# The bound.


@pytest.mark.parametrize("delays", [None, 0, 7, [3, 0] * 25])
def test_the_bound_by_hand(delays: Any) -> None:
    losses = [[1.0, -2.0]] * 50
    each = [0] * 50 if delays is None else delays if isinstance(delays, list) else [delays] * 50
    total = sum(min(delay, 49 - t) for t, delay in enumerate(each))
    parts = 18 * math.sqrt(100) + 4 * math.sqrt(2 * total * math.log(2)) + 2 * math.sqrt(2 * total) + 8
    found = bound("scb-d", losses, delays=delays)
    assert found.repaired == pytest.approx(2 * parts, rel=1e-14) and f"D = {total}" in found.source
    assert sum(found.terms.values()) == pytest.approx(found.repaired) and found.printed is None
    centred = bound("centred(scb-d)", losses, delays=delays)
    assert centred.repaired == pytest.approx(3 * parts + 3, rel=1e-14)
    assert bound("scb-d", [[1.0]] * 5, delays=2).repaired == 0.0


def test_what_is_refused() -> None:
    with pytest.raises(NoBoundError, match=r"umab-s, scb-d, .*for late feedback, but got delays for umab-w"):
        bound("umab-w", SIGNED, delays=3)
    with pytest.raises(NoBoundError, match="published without constants, but got delays for banker-sftinf"):
        bound("banker-sftinf", np.abs(SIGNED), delays=3)
    with pytest.raises(NoBoundError, match="switches=1 for scb-d"):
        bound("scb-d", SIGNED, switches=1)
    with pytest.raises(ValueError, match=r"delays must be .*got a function"):
        bound("scb-d", SIGNED, delays=random_delays)
    of_arms = np.zeros(SIGNED.shape, dtype=int)
    assert bound("scb-d", SIGNED, delays=of_arms) == bound("scb-d", SIGNED)  # the arms do not differ
    of_arms[0, 1] = 1
    with pytest.raises(NoBoundError, match=r"delays must not depend on the arm, .*policy=scb-d"):
        bound("scb-d", SIGNED, delays=of_arms)
    with pytest.raises(ValueError, match=r"delays must be a whole number for each of \d+ rounds, but got"):
        certify("scb-d", SIGNED, delays=of_arms)
    with pytest.raises(ValueError, match=r"delays are only for .*umab-w"):
        certify("umab-w", SIGNED, delays=3)
    with pytest.raises(TypeError, match="follow_late"):
        follow(umab.SCBD(), SIGNED, [[0] * len(SIGNED)])
    assert all(certifiable(umab.policy(name)) for name in NAMES)
    assert not certifiable(umab.policy("local(scb-d)"))


@pytest.mark.parametrize("name", NAMES)
def test_the_regret_is_below_the_bound(name: str) -> None:
    for delays in (0, 50, random_delays):
        row = certify(name, SIGNED, delays=delays, n_trials=50)[0]
        assert row.verdict == "holds" and row.ratio < 0.2
