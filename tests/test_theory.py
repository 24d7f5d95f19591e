"""Theory: bounds, trajectories, statements, certificates, searches and exponents."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import reference
import umab
from pages import theory as theory_pages
from toys import umab_g
from umab import cli
from umab.algorithms.umab_g import ExtraExploration
from umab.algorithms.umab_nn import UMABNN
from umab.errors import NoBoundError
from umab.testing import Array
from umab.theory.barrier import clipped_at, least_probability, log_barrier
from umab.theory.bounds import Bound, bound, table1
from umab.theory.certificates import TOLERANCE, Certified, _on_the_mean, as_json, certifiable, certify, check
from umab.theory.norms import Sizes
from umab.theory.path import Trajectory
from umab.theory.scaling import Point, _exponent, scaling
from umab.theory.search import Block, exact_regret, search, turns
from umab.theory.statements import OF_UMAB_S, STATEMENTS, Sides, Statement, Steps
from umab.theory.trajectory import follow
from umab.theory.worst_cases import SEARCHED, kept

RNG = np.random.default_rng(3)
SIGNED = 5.0 * RNG.normal(size=(200, 3))
DOCS = Path(__file__).parent.parent / "docs"
OURS = ("umab-s", "centred(umab-s)")


def nasty() -> dict[str, Array]:
    """Tables that are hard on UMAB-S: heavy tails, gains that are rare, growth, zeros, few rounds or arms."""
    rng = np.random.default_rng(8)
    rare = np.where(rng.random((250, 4)) < 0.02, -1e6, rng.normal(size=(250, 4)))
    return {
        "normal": SIGNED,
        "heavy tails": rng.standard_cauchy(size=(200, 5)) ** 3,
        "rare gains": rare,
        "a drop after long good service": np.repeat([[1.0, 0.0], [-1e4, 0.0]], 150, axis=0),
        "growth": -(1.3 ** np.arange(100.0))[:, None] * rng.random((100, 3)),
        "many scales": rng.choice([-1.0, 0.0, 1.0], size=(150, 3)) * 10.0 ** rng.uniform(-9.0, 9.0, size=(150, 3)),
        "zeros at first": np.vstack([np.zeros((30, 3)), SIGNED[:60]]),
        "zeros": np.zeros((20, 3)),
        "an offset": 1e6 + SIGNED[:100],
        "one round": np.array([[-3.0, 1.0, 0.5]]),
        "two rounds": np.array([[0.0, -1e-9], [-5.0, 2.0]]),
        "one arm": SIGNED[:20, :1],
    }


def ours(id: str) -> Statement:
    return next(each for each in OF_UMAB_S if each.id == id)


def statement(id: str, form: str = "as printed", exploration: str = "") -> Statement:
    found = [each for each in STATEMENTS if (each.id, each.form) == (id, form)]
    return next(each for each in found if not exploration or exploration in each.exploration or not each.exploration)


@pytest.mark.parametrize("exploration", ["adaptive", "fixed", "anytime", "none", "maintext"])
@pytest.mark.parametrize("rate", [0.25, 4.0])
def test_a_trajectory_is_that_of_the_definition(exploration: Any, rate: float) -> None:
    """As 40 digits have it: the distributions, to the last digit of the doubles they come in."""
    policy = umab_g(exploration, rate=rate, horizon=60 if exploration == "fixed" else None)
    arms = RNG.integers(3, size=60)
    seen = [float(SIGNED[t, arm]) for t, arm in enumerate(arms)]
    exact = reference.umab_g(arms.tolist(), seen, 3, rate=rate, exploration=exploration, horizon=60)
    path = follow(policy, SIGNED[:60], arms[None])
    np.testing.assert_allclose(path.drawn_from[0].astype(float), exact, rtol=1e-15)
    np.testing.assert_allclose(
        (path.p + path.exploration[:, :, None] * path.offsets)[0].astype(float), exact, rtol=1e-15
    )


def test_a_trajectory_of_umab_nn_is_that_of_the_definition() -> None:
    arms = RNG.integers(3, size=60)
    seen = [abs(float(SIGNED[t, arm])) for t, arm in enumerate(arms)]
    path = follow(umab.UMABNN(), np.abs(SIGNED[:60]), arms[None])
    np.testing.assert_allclose(path.p[0].astype(float), reference.umab_nn(arms.tolist(), seen, 3), rtol=1e-15)
    assert (path.p == path.drawn_from).all() and (path.clipped == path.seen).all()


def test_the_engine_draws_what_trajectories_say() -> None:
    for name, losses in (("umab-nn", np.abs(SIGNED)), ("umab-g", SIGNED), ("umab-g-a:rate=4", SIGNED)):
        result = umab.simulate(name, losses, n_trials=6, expected=True)
        path = follow(umab.policy(name).for_horizon(200), losses, result.arms)
        np.testing.assert_allclose(path.expected_regret.astype(float), result.final_regret, rtol=1e-8)


@pytest.mark.parametrize("name", [*OURS, "umab-s:rate=0.3", "centred(umab-s:rate=20)"])
@pytest.mark.parametrize("table", nasty())
def test_a_trajectory_of_umab_s_is_that_of_the_policy(name: str, table: str) -> None:
    """In every round, to the digits that an update after another leaves of doubles.

    An error of one round is multiplied in the next ones, as every loss is divided by p'. A thousand rounds of centred
    losses with outliers may cost doubles all digits; so the tables are short.
    """
    losses = nasty()[table]
    arms = umab.simulate(name, losses, n_trials=2, seed=1).arms
    path = follow(umab.policy(name), losses, arms)
    for run in range(2):
        learner = umab.Learner(umab.policy(name), arms=losses.shape[1])
        for t, arm in enumerate(arms[run].tolist()):
            np.testing.assert_allclose(learner.probabilities(), path.drawn_from[run, t].astype(float), rtol=1e-9)
            learner.update(arm, float(losses[t, arm]))


def test_the_stability_along_a_trajectory_is_that_of_the_definition() -> None:
    """As 40 digits have it: the supremum, from the q at which it is reached; and η_t = cn/Σ(M + G)."""
    losses = np.random.default_rng(4).standard_cauchy(size=(50, 4)) ** 3
    path = follow(umab.UMABS(), losses, umab.simulate("umab-s", losses, n_trials=1).arms)
    assert (path.charge > 0).sum() == 3
    paid = np.cumsum(path.stability + path.charge, axis=1)
    np.testing.assert_allclose((paid / 12).astype(float), path.inverse_rate[:, 1:].astype(float), rtol=1e-15)
    assert path.stability[0, 0] == abs(path.estimate[0, 0]) * (0.25 if path.seen[0, 0] > 0 else 0.75)
    with mpmath.workdps(40):
        for t in range(1, 50):
            p, v, inverse = (exactly(x) for x in (path.p[0, t], path.estimate[0, t], path.inverse_rate[0, t]))
            exact = reference.stability(p, int(path.arms[0, t]), v, 1 / inverse)
            assert float(path.stability[0, t]) == pytest.approx(float(exact), rel=1e-13)


def test_what_umab_s_clips_by_hand() -> None:
    """A loss of 1 makes A_2 = 1 and p_2 = (1/(12 + μ), 1/μ), μ = √37 − 5; of the −3 that follows little is left."""
    path = follow(umab.UMABS(), [[1.0, 0.0], [0.0, -3.0]], [[0, 1]])
    drawn_with = 1 - 1 / (4 + math.sqrt(8))
    left = 2 * drawn_with * (math.sqrt(37) - 5) / 6
    assert path.clipped[0].astype(float) == pytest.approx([1.0, -left], rel=1e-14)
    assert path.charge[0].astype(float) == pytest.approx([0.0, 6 / 8 * (1 - drawn_with) * (3 - left)], rel=1e-14)
    assert float(path.estimate[0, 1] * path.p[0, 1, 1] * 6) == pytest.approx(-2.0)


def test_the_tables_make_umab_s_clip() -> None:
    """Or the tests on them would say nothing about it: also arms that are above the floor, and arms that are below."""
    clipping: dict[str, set[str]] = {name: set() for name in OURS}
    above = below = 0
    for name, (title, losses) in itertools.product(OURS, nasty().items()):
        path = follow(umab.policy(name), losses, umab.simulate(name, losses, n_trials=4).arms)
        clipped = path.clipped > path.seen
        assert ((path.charge > 0) == clipped).all()
        raised = path.of_arm(path.drawn_from) > path.of_arm(path.p)
        above, below = above + (clipped & ~raised).sum(), below + (clipped & raised).sum()
        clipping[name] |= {title} if clipped.any() else set()
    everywhere = {"normal", "heavy tails", "rare gains", "growth", "many scales", "a drop after long good service"}
    assert clipping["umab-s"] >= everywhere and clipping["centred(umab-s)"] >= everywhere
    assert above > 50 and below > 10


def exactly(value: Any) -> Any:
    """Return a long double, or a row of them, with all digits, as mpmath has it."""
    if np.ndim(value):
        return [exactly(each) for each in value]
    high = float(value)
    return mpmath.mpf(high) + mpmath.mpf(float(value - np.longdouble(high)))


def test_the_losses_of_a_centred_trajectory() -> None:
    """Each less the mean of those seen before; the first less itself."""
    losses = 1e9 + SIGNED[:40]
    arms = umab.simulate("centred(umab-s)", losses, n_trials=3).arms
    path = follow(umab.recommended(changing=False), losses, arms)
    assert isinstance(path.policy, umab.Centred) and (path.seen[:, 0] == 0).all()
    for run, row in enumerate(arms):
        for t in range(1, 40):
            middle = np.mean([losses[s, row[s]] - 1e9 for s in range(t)])
            np.testing.assert_allclose(path.losses[run, t].astype(float), losses[t] - 1e9 - middle, atol=1e-6)
    regret = umab.simulate("centred(umab-s)", losses, n_trials=3, expected=True).final_regret
    np.testing.assert_allclose(path.expected_regret.astype(float), regret, rtol=1e-6)


@pytest.mark.parametrize("name", [*OURS, "umab-s:rate=0.05", "centred(umab-s:rate=50)"])
@pytest.mark.parametrize("table", nasty())
def test_the_statements_about_umab_s_hold(name: str, table: str) -> None:
    rows = certify(name, nasty()[table], n_trials=4)
    assert [row.id for row in rows] == ["Theorem R", *(each.id for each in OF_UMAB_S)]
    assert {(row.form, row.where) for row in rows} == {("as proved", "docs/recommended.md")}
    assert {row.verdict for row in rows} <= {"holds", "nothing to check"}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("S1, floor", lambda path: {"drawn_from": path.p}),
        ("S2, share", lambda path: {"drawn_from": path.drawn_from * 0.7}),
        ("S2, rest", lambda path: {"drawn_from": path.drawn_from * 1.5}),
        ("S3, exploration", lambda path: {"exploration": path.exploration / 20}),
        ("S4, step", lambda path: {"stability": path.stability / 2}),
        ("S4, FTRL", lambda path: {"stability": path.stability * 0}),
        ("S5, small step", lambda path: {"stability": path.stability * 2}),
        ("S6, jump", lambda path: {"stability": path.stability * 10}),
        ("S7, growth", lambda path: {"stability": path.stability * 2}),
        ("S8, jumps", lambda path: {"stability": path.stability * 20}),
        ("S8, jumps", lambda path: {"charge": path.charge + 100}),
        ("S9, total", lambda path: {"inverse_rate": path.inverse_rate * 20}),
        ("S10, clipping", lambda path: {"clipped": path.clipped + 20}),
    ],
)
def test_every_statement_about_umab_s_can_fail(
    name: str, id: str, change: Callable[[Trajectory], dict[str, Any]]
) -> None:
    """It holds along runs of the policy, and is violated when something of it is changed on purpose."""
    said = ours(id)
    path = follow(umab.policy(name), SIGNED, umab.simulate(name, SIGNED, n_trials=8).arms)
    assert said.is_about(umab.policy(name)) and not said.is_about(umab.UMABGA())
    assert check(said, said.says(Steps(path))).verdict == "holds"
    assert check(said, said.says(Steps(dataclasses.replace(path, **change(path))))).verdict == "violated"


@pytest.mark.parametrize(
    ("id", "constant", "smaller", "seen", "n_arms"),
    [
        # A loss below 0 with ηw = 0.49 costs about 0.7ηw², where one above 0 costs half of it at most.
        ("S5, small step", "KAPPA", 0.6, [(0, 1.0), (1, -0.49 / 300)], 100),
        # The likelier of two arms pays a seventh of its probability for the floor of the other.
        ("S2, share", "SHARE", 1.1, [(0, -1.0), (1, 300.0), (1, 0.0)], 2),
        # The arm that has lost has 0.076 in round 2, and is raised to 0.146.
        ("S2, rest", "REST", 1.08, [(0, 1.0), (0, 0.0)], 2),
    ],
)
def test_the_constants_of_umab_s_are_needed(
    monkeypatch: pytest.MonkeyPatch, id: str, constant: str, smaller: float, seen: list[Any], n_arms: int
) -> None:
    said = ours(id)
    losses = np.array([[loss if k == arm else 0.0 for k in range(n_arms)] for arm, loss in seen])
    steps = Steps(follow(umab.UMABS(), losses, [[arm for arm, _ in seen]]))
    assert check(said, said.says(steps)).verdict == "holds"
    monkeypatch.setattr(f"umab.theory.statements.theorem_r.{constant}", np.longdouble(smaller))
    assert check(said, said.says(steps)).verdict == "violated"


def test_what_is_clipped_must_be_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that is drawn and gains 1 for ever, after a loss of next to nothing: S10 is close, and fails uncharged."""
    losses = np.zeros((1200, 10))
    losses[0, 0], losses[1:, 0] = 1e-9, -1.0
    said, arms = ours("S10, clipping"), [[0] * 1200]
    row = check(said, said.says(Steps(follow(umab.UMABS(), losses, arms))))
    assert row.verdict == "holds" and row.ratio > 0.5
    monkeypatch.setattr("umab.theory.barrier.CHARGE", 0.0)
    assert check(said, said.says(Steps(follow(umab.UMABS(), losses, arms)))).verdict == "violated"


def test_the_log_barrier_solves_its_equation() -> None:
    sums = RNG.normal(scale=50.0, size=(40, 7)).astype(np.longdouble)
    inverse = np.abs(RNG.normal(size=40)).astype(np.longdouble)
    p = log_barrier(sums, inverse)
    # At the minimum L_k − (1/η)/p_k is the same for all arms.
    slopes = sums - inverse[:, None] / p
    assert (np.ptp(slopes, axis=1) <= 1e-16 * np.abs(slopes).max(axis=1)).all()
    assert (np.abs(p.sum(axis=1) - 1) < 1e-18).all()


def test_policies_without_proofs_are_refused() -> None:
    for name, why in (
        ("ahb", "UMAB-NN, UMAB-G, UMAB-S .* got ahb"),
        ("centred(umab-g-a)", r"UMAB-NN, UMAB-G, UMAB-S .* got centred\(umab-g-a\)"),
        ("umab-s:learning=squares", "learning='stability'.* got umab-s:learning=squares"),
        ("umab-s:exploration=none", "exploration='floor'.* got umab-s:exploration=none"),
        ("umab-s:clipping=none", "clipping='charged'.* got umab-s:clipping=none"),
        ("centred(umab-s:clipping=none)", r"clipping='charged'.* got centred\(umab-s:clipping=none"),
        ("centred(umab-s:initial_scale=1)", r"initial_scale=0.* got centred\(umab-s:initial_scale=1"),
    ):
        policy = umab.policy(name)
        assert not certifiable(policy)
        if name != "ahb":  # it has a rate, without a proof here
            with pytest.raises(NoBoundError, match=why if "umab-s" in name else r"a theorem .*got centred\(umab-g-a\)"):
                bound(policy, SIGNED)
        with pytest.raises(TypeError, match=why):
            certify(policy, SIGNED)
        with pytest.raises(TypeError, match=why):
            follow(policy, SIGNED, [[0] * 200])
    assert all(certifiable(umab.policy(name)) for name in ("umab-nn", "umab-g", "umab-s:rate=2", *OURS))


def broken(policy: UMABNN | ExtraExploration, losses: Array, arms: Array, **changes: Any) -> Trajectory:
    """A trajectory in which something was changed on purpose."""
    path = follow(policy, losses, arms)
    return dataclasses.replace(path, **{name: change(getattr(path, name)) for name, change in changes.items()})


@pytest.mark.parametrize(
    ("id", "form", "policy", "changes"),
    [
        ("Lemma 1", "as printed", "umab-g-a", {"inverse_rate": lambda x: x * np.linspace(1, 0.2, x.shape[1])}),
        ("Lemma 2", "as printed", "umab-g-a", {"p": lambda x: np.roll(x, 1, axis=2)}),
        ("Lemma 2, ℓ ≥ 0", "as printed", "umab-nn", {"inverse_rate": lambda x: x * 30}),
        ("(4)", "as printed", "umab-nn", {"drawn_from": lambda x: x / 5}),
        ("(5)", "as printed", "umab-nn", {"inverse_rate": lambda x: x / 1e4, "sums": lambda x: x - 1e3}),
        ("Lemma 6", "as printed", "umab-nn", None),
        ("decomposition", "as printed", "umab-g-a", None),  # an identity: no run can break it
        ("Lemma 3, p", "as printed", "umab-g-a", {"drawn_from": lambda x: x / 3}),
        ("Lemma 3, p", "as repaired", "umab-g-a", {"drawn_from": lambda x: x / 1.2}),
        ("Lemma 3, next p", "as printed", "umab-g-a", {"p": lambda x: x * 7.0 ** np.arange(x.shape[1])[:, None]}),
        ("2η_t|ℓ'_t| ≤ 1", "as printed", "umab-g-a", {"inverse_rate": lambda x: x / 2}),
        ("2η_t|ℓ'_t|p_t/p'_t ≤ 1", "as printed", "umab-g-a", {"drawn_from": lambda x: x / 2}),
        ("η_t ≤ 3η_{t+1}", "as printed", "umab-g-a", {"inverse_rate": lambda x: x * 4.0 ** np.arange(x.shape[1])}),
        ("C²_{t+1}", "as repaired", "umab-g-a", {"clip": lambda x: x * 1.1 ** np.arange(x.shape[1])}),
        ("Lemma 7", "as printed", "umab-g-a", {"p": lambda x: x / 3}),
        ("Lemma 8", "as printed", "umab-g-a", {"p": lambda x: x * 1.01 ** np.arange(x.shape[1])[:, None]}),
        ("step, ℓ ≥ 0", "as printed", "umab-g-a", {"inverse_rate": lambda x: x * 30}),
        ("step, ℓ ≥ 0", "as repaired", "umab-g-a", {"inverse_rate": lambda x: x * 30}),
        ("step, ℓ < 0", "as printed", "umab-g-a", {"drawn_from": lambda x: x / 50}),
        ("step", "as printed", "umab-g-a", {"drawn_from": lambda x: x / 90}),
        (
            "C²_{T+1} ≤ max(|C_1|, ℓ⁻∞)²",
            "as repaired",
            "umab-g-a",
            {"clip": lambda x: x * np.linspace(1, 2, x.shape[1])},
        ),
        ("(10)", "as repaired", "umab-g-a", {"sums": lambda x: x - 1e6}),
        ("Lemma 4", "as printed", "umab-g", {"offsets": lambda x: x * 0 + 1e4}),
        ("Lemma 4", "as printed", "umab-g-a", {"offsets": lambda x: x * 0 + 1e6, "exploration": lambda x: x * 0 + 1}),
        (
            "Lemma 10",
            "as printed",
            "umab-g-a",
            {"offsets": lambda x: x * 0 + 1e7 * (np.arange(x.shape[1]) == 9)[:, None]},
        ),
        ("Lemma 5, clips", "as printed", "umab-g-a", {"clipped": lambda x: x + np.longdouble(1)}),
        ("Lemma 5, clips", "as repaired", "umab-g-a", {"clipped": lambda x: x + np.longdouble(1)}),
        ("Lemma 5, error", "as printed", "umab-g-a", {"drawn_from": lambda x: x / 1e3}),
        ("|C_T| ≤ 1 + ℓ∞", "as printed", "umab-g-a", {"clip": lambda x: x * 2}),
        ("η never grows", "as printed", "umab-g-a", {"inverse_rate": lambda x: x[:, ::-1]}),
        ("ρ never grows", "as printed", "umab-g", {"exploration": lambda x: x[:, ::-1]}),
        ("C never grows", "as printed", "umab-g-a", {"clip": lambda x: x[:, ::-1]}),
    ],
)
def test_every_certificate_can_fail(id: str, form: Any, policy: str, changes: dict[str, Any] | None) -> None:
    """It holds along runs of the algorithm, and is violated when the algorithm is broken on purpose."""
    which = umab.policy(policy).for_horizon(200)
    assert isinstance(which, (UMABNN, ExtraExploration))
    losses = np.abs(SIGNED) if isinstance(which, UMABNN) else SIGNED
    arms = umab.simulate(which, losses, n_trials=5).arms
    said = statement(id, form, getattr(which, "exploration", ""))
    assert said.is_about(which)
    assert check(said, said.says(Steps(follow(which, losses, arms)))).verdict == "holds"
    if changes is not None:
        assert check(said, said.says(Steps(broken(which, losses, arms, **changes)))).verdict == "violated"


def test_statements_on_sums_alone_can_fail() -> None:
    """Lemmas 6 and 9 are on any numbers: with smaller constants they are violated by the worst case that is kept."""
    for id, name in (("Lemma 6", "umab-g-a"), ("Lemma 9", "umab-g-a")):
        case = next(each for each in kept() if (each.statement.id, each.policy) == (id, name))
        assert case.certified.verdict == "holds" and case.certified.ratio > 0.5
        sides = case.statement.says(Steps(follow(umab.policy(name), *expanded(case.blocks))))
        tighter = Sides(sides.left, sides.right * 0.5, sides.size)
        assert check(case.statement, tighter).verdict == "violated"


def expanded(blocks: list[Block]) -> tuple[Array, Array]:
    lengths = [block.rounds for block in blocks]
    table = np.repeat(np.array([block.losses for block in blocks]), lengths, axis=0)
    return table, np.repeat([block.arm for block in blocks], lengths)[None]


def test_what_is_printed_wrong_is_violated_and_what_is_repaired_is_not() -> None:
    cases = {(case.policy, case.statement.id, case.statement.form): case.certified for case in kept()}
    for name in ("umab-g", "umab-g-a"):
        for id in ("Ψ", "comparator", "C²_{t+1}"):
            assert cases[name, id, "as printed"].verdict == "violated"
            assert cases[name, id, "as repaired"].verdict == "holds"
        assert cases[name, "C²_{T+1} ≤ 2ℓ²∞", "as printed"].verdict == "violated"
    assert cases["umab-g-a", "2η_t|ℓ'_t|p_t/p'_t ≤ 1", "as printed"].verdict == "violated"
    assert 0.999 < cases["umab-g-a", "Lemma 3, p", "as repaired"].ratio <= 1.0 + 1e-12  # 7/6 is sharp
    assert cases["umab-nn", "last step", "as printed"].verdict == "violated"
    assert cases["umab-g-maintext", "ρ never grows", "as printed"].verdict == "violated"
    assert cases["umab-g-maintext", "Lemma 5, error", "as printed"].verdict == "violated"
    violated = {
        (id, form) for (name, id, form), row in cases.items() if row.verdict == "violated" and "main" not in name
    }
    assert not any(form == "as repaired" for _, form in violated)
    assert {id for id, _ in violated} == {
        "step, ℓ ≥ 0",
        "Ψ",
        "comparator",
        "last step",
        "C²_{t+1}",
        "C²_{T+1} ≤ 2ℓ²∞",
        "2η_t|ℓ'_t|p_t/p'_t ≤ 1",
    }


def test_a_worst_case_is_kept_for_every_statement() -> None:
    wanted = {(name, each) for name in SEARCHED for each in STATEMENTS if each.is_about(umab.policy(name))}
    assert {(case.policy, case.statement) for case in kept()} == wanted


def test_a_search_finds_a_violation_and_makes_it_small() -> None:
    found = search(statement("comparator"), umab.UMABGA())
    assert found.certified.verdict == "violated" and len(found.blocks) == 1 and found.blocks[0].rounds == 1
    table, _ = expanded(found.blocks)
    totals = table.sum(axis=0)
    assert (totals.mean() - totals.min()) / len(table) > np.abs(table).max() > 0


def test_rounding_is_no_violation() -> None:
    size = np.array([1e9], dtype=np.longdouble)
    said = statement("Lemma 1")
    for gap, verdict in ((0.5 * TOLERANCE, "holds"), (2.0 * TOLERANCE, "violated")):
        sides = Sides(size * (1 + gap), size, size)
        assert check(said, sides).verdict == verdict
    nothing = np.full((1, 3), np.nan, dtype=np.longdouble)
    assert check(said, Sides(nothing, nothing, nothing)).verdict == "nothing to check"


@pytest.mark.parametrize(("name", "losses"), [("umab-nn", np.abs(SIGNED)), ("umab-g", SIGNED), ("umab-g-a", SIGNED)])
def test_certificates_of_a_table(name: str, losses: Array) -> None:
    rows = certify(name, losses, n_trials=4)
    about = [each for each in STATEMENTS if each.is_about(umab.policy(name).for_horizon(200))]
    theorem = "Theorem 1" if name == "umab-nn" else "Theorem 2"
    assert [row.id for row in rows] == [theorem, theorem, *(each.id for each in about)]
    assert {row.id for row in rows if row.verdict == "violated"} <= {"C²_{t+1}"}
    assert all(row.verdict != "violated" for row in rows if row.form == "as repaired")
    content = json.loads(as_json({name: rows}))
    assert len(content["certificates"][name]) == len(rows) and content["tolerance"] == TOLERANCE


def test_the_verdict_on_a_mean_has_a_margin() -> None:
    """With 30 regrets of mean 10 and error 0.5: bounds far above and far below decide, one in between does not."""
    regrets = 10.0 + 0.5 * math.sqrt(30.0) * np.array([-1.0, 1.0] * 15) * math.sqrt(29.0 / 30.0)
    policy, losses = umab.UMABNN(), umab.Losses.of(np.ones((5, 2)))
    for limit, verdict in ((12.0, "holds"), (10.5, "undecided"), (9.5, "undecided"), (8.0, "violated")):
        fake = Bound("umab-nn", 1.0, "", 2.0 * limit, limit, {}, "")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("umab.theory.certificates.bound", lambda *_, fake=fake: fake)
            printed, repaired = _on_the_mean(policy, losses, regrets)
        assert (printed.form, repaired.form, repaired.verdict) == ("as printed", "as repaired", verdict)
        assert repaired.ratio == pytest.approx(10.0 / limit) and printed.ratio == pytest.approx(5.0 / limit)


def test_certificates_say_where() -> None:
    """The run and the round, counted from 0 and from 1, in which a statement comes closest to failing."""
    left = np.zeros((3, 5), dtype=np.longdouble)
    left[2, 3] = 0.5
    sides = Sides(left, np.ones_like(left), np.ones_like(left))
    row = check(statement("Lemma 2"), sides, first_run=10)
    assert (row.run, row.round, row.ratio, row.verdict) == (12, 4, 0.5, "holds")
    row = check(statement("Lemma 1"), Sides(*(side[:, 3] for side in sides)))
    assert (row.run, row.round) == (2, 0)


@pytest.mark.parametrize("scale", [5e-324, 1e-170, 1e200, 1e307])
def test_losses_of_any_size_are_certified(scale: float) -> None:
    losses = np.clip(np.abs(SIGNED[:60]), 0.0, 1.0).round(3) * scale
    for row in certify("umab-nn", losses, n_trials=3):
        assert row.verdict in ("holds", "nothing to check") or row.id == "last step"
    if 1e-300 < scale < 1e300:
        plain, scaled = (bound("umab-nn", table).repaired for table in (losses / scale, losses))
        assert plain is not None and scaled == pytest.approx(plain * scale, rel=1e-9)


@pytest.mark.parametrize("scale", [5e-324, 1e-170, 1e200, 1e305])  # beyond, the regret is no double
@pytest.mark.parametrize("name", OURS)
def test_losses_of_any_size_are_certified_for_umab_s(name: str, scale: float) -> None:
    losses = np.clip(SIGNED[:60], -9.0, 9.0).round() * scale
    assert {row.verdict for row in certify(name, losses, n_trials=3)} <= {"holds", "nothing to check"}


def test_certificates_do_not_depend_on_how_runs_are_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = certify("umab-g-a", SIGNED, n_trials=6)
    monkeypatch.setattr("umab.theory.certificates._ENTRIES", 2 * SIGNED.size)
    pieces = certify("umab-g-a", SIGNED, n_trials=6)

    def shown(rows: list[Certified]) -> list[str]:
        return [repr(row) for row in rows]

    assert shown(whole) == shown(pieces)


def test_the_bound_of_umab_nn() -> None:
    """Theorem 1 by hand, on 100 rounds of (1, 0): S = 100, ℓ∞ = 1."""
    promised = bound("umab-nn", [[1.0, 0.0]] * 100)
    assert promised.rate == pytest.approx(math.sqrt(200.0))
    assert promised.printed == pytest.approx(4 * math.sqrt(200) * math.log(200) + 3.5 * math.sqrt(2) + 1)
    assert promised.repaired == pytest.approx(0.5 * math.sqrt(200) * math.log(100) + 3.5 * math.sqrt(2) * (10 + 1) + 1)


def test_the_bounds_of_umab_g() -> None:
    """Theorem 2 by hand, on 100 rounds of (1, −3)."""
    losses = [[1.0, -3.0]] * 100
    root, log, clips = math.sqrt(2 * 900), math.log(200), math.log2(4)
    fixed, adaptive = bound("umab-g", losses), bound("umab-g-a", losses)
    common = 67 * math.sqrt(2 * 4 * 9 + 2 * 900) * log + 63 * math.sqrt(2) * 3 + 3
    assert fixed.printed == pytest.approx(common + 2 * root + 3 * (8 + math.sqrt(200)) * clips)
    sizes = math.sqrt(2 * 300)
    explored = 8 * 3 + 2 * math.sqrt(1 + 8 * 300) + 2 * 3 * sizes
    assert adaptive.printed == pytest.approx(common + explored + 3 * (8 + 3 * sizes) * clips)
    # Repaired: C_{T+1} is at most max(1, 3), a clip needs a doubling of it, and the comparator is 2ℓ∞ away.
    repaired = 4 * math.hypot(2 * 3, root) * math.log(100) + 63 * math.sqrt(2) * (30 + 3) + 2 * root
    assert fixed.repaired == pytest.approx(repaired + 3 * (8 + math.sqrt(200)) * math.log2(3) + 6)
    assert sum(adaptive.terms.values()) == adaptive.repaired
    for name, rule in (
        ("umab-g-a:rate=4", "its rate must be at most 1/4, but got rate=4"),
        ("umab-g-none", "its exploration must be 'fixed' or 'adaptive', but got exploration='none'"),
        ("umab-g-maintext", "its exploration must be 'fixed' or 'adaptive', but got exploration='maintext'"),
    ):
        with pytest.raises(NoBoundError, match=f"Theorem 2 does not cover {name}: {rule}"):
            bound(name, losses)
        assert _on_the_mean_in_words(name, losses) == {f"Theorem 2 does not cover {name}: {rule}"}


def _on_the_mean_in_words(name: str, losses: Any) -> set[str]:
    """Return what `certify` says about the theorem of a policy."""
    policy = umab.policy(name).for_horizon(len(losses))
    rows = list(_on_the_mean(policy, umab.Losses.of(losses), np.zeros(3)))
    assert {row.verdict for row in rows} == {"nothing to check"}
    return {row.text for row in rows}


def test_bounds_with_other_constants() -> None:
    """Another horizon, scale or rate than the paper's: each changes the terms that it must."""
    losses = [[1.0, -3.0]] * 100
    usual = bound("umab-g", losses).terms
    longer, shorter = bound("umab-g:horizon=400", losses).terms, bound("umab-g:horizon=25", losses).terms
    assert longer["exploration"] == usual["exploration"] == pytest.approx(shorter["exploration"] / 2)
    clips = math.log2(3.0)
    assert longer["clipping"] == pytest.approx(3 * (8 + math.sqrt(800)) * clips)
    assert shorter["clipping"] == pytest.approx(3 * (8 + math.sqrt(50)) * clips)
    large = bound("umab-g-a:initial_scale=10", losses)
    assert large.terms["clipping"] == 0.0 and large.printed is None
    assert large.terms["regulariser"] == pytest.approx(4 * math.hypot(2 * 10, math.sqrt(1800)) * math.log(100))
    small = bound("umab-g-a:initial_scale=0.5", losses).terms
    assert small["clipping"] == pytest.approx(3 * (8 + 3 * math.sqrt(600)) * math.log2(6))
    slow = bound("umab-g-a:rate=0.1", losses)
    assert slow.terms["regulariser"] == pytest.approx(10 * math.hypot(2 * 3, math.sqrt(1800)) * math.log(100))
    with pytest.raises(NoBoundError, match="at most 1/4"):
        bound("umab-g-a:rate=0.26", losses)
    tiny = bound("umab-g", [[1e-8, 0.0]] * 100)  # the scale of 1 is there however small the losses are
    assert tiny.repaired is not None and tiny.repaired > 4 * 2 * math.log(100)


def test_the_bound_of_umab_s() -> None:
    """Theorem R by hand, on 100 rounds of (1, −3): L⁻ = 3 and D = 4, or centred L⁻ = D = 4 in 99 rounds."""
    losses = [[1.0, -3.0]] * 100
    times, grown = 1 + math.log(100) / 3, 1 + 2 * 4 * (math.log(2) - 0.5) * 3 * 2
    explored = 4 * sum(1 / (4 + 2 * math.sqrt(t)) for t in range(2, 101))
    clipped = 8 / 5 * 8 / 2 * (4 + 2 * 10)
    bare = times * (4 / 3 * math.sqrt(grown * 900) + 3 * (8 / 3 * 3 * 2 + 4 + 2 * 10)) + explored + 4 + 3 * clipped
    assert bound("umab-s", losses).repaired == pytest.approx(bare)
    middle = times * (4 / 3 * math.sqrt(grown * 99 * 16) + 4 * (8 / 3 * 3 * 2 + 4 + 2 * 10)) + explored
    middle += 4 + 4 + 4 * clipped
    centred = bound("centred(umab-s)", losses)
    assert centred.repaired == pytest.approx(middle) and sum(centred.terms.values()) == pytest.approx(middle)
    assert centred.printed is None and centred.rate == pytest.approx(4 * math.sqrt(200) + math.sqrt(2 * 99 * 16))
    slow = bound("umab-s:rate=1", losses).terms
    assert slow["jumps"] == pytest.approx((1 + math.log(100)) * 3 * (8 / 3 * 2 + 24))
    assert slow["clipping"] == pytest.approx(3 * clipped)
    positive = bound("umab-s", [[4.0, 0.0]] * 100).terms  # only negative losses jump or are clipped
    assert positive["jumps"] == positive["clipping"] == 0.0 and positive["steps"] > 0.0


@pytest.mark.parametrize("name", OURS)
def test_the_bound_of_umab_s_is_above_its_regret(name: str) -> None:
    for losses in nasty().values():
        promised = bound(name, losses).repaired
        assert promised is not None
        assert umab.simulate(name, losses, n_trials=20, expected=True).mean[-1] <= promised


@pytest.mark.parametrize("name", OURS)
def test_the_bound_of_umab_s_has_the_unit_of_the_losses(name: str) -> None:
    promised = bound(name, SIGNED).repaired
    assert promised is not None
    for scale in (2.0**-300, 0.25, 2.0**400):
        assert bound(name, SIGNED * scale).repaired == promised * scale


def test_an_offset_is_nothing_to_the_bound_of_the_centred() -> None:
    promised = bound("centred(umab-s)", SIGNED).repaired
    for offset in (1.0, -1e6):
        assert bound("centred(umab-s)", SIGNED + offset).repaired == pytest.approx(promised, rel=1e-9)
    assert bound("umab-s", SIGNED - 1e6).repaired > 1e4 * bound("umab-s", SIGNED).repaired  # type: ignore[operator]


def test_the_sizes_of_centred_losses_hold_for_all_arms() -> None:
    """The ends and the sum of squares from round 2 on, whatever was drawn; all are reached by the worst arms."""
    losses = umab.Losses.of(100.0 + SIGNED[:6, :2])
    sizes = Sizes.centred(losses)
    arms = np.array(list(itertools.product(range(2), repeat=6)))
    middle = follow(umab.recommended(changing=False), losses.table, arms).losses[:, 1:]
    assert float(-middle.min()) == pytest.approx(float(sizes.most_negative)) and sizes.most_negative < sizes.largest
    seen = np.abs(middle).max(axis=2)
    assert float(seen.max()) <= float(sizes.largest) * (1 + 1e-15)
    assert float(seen.max()) == pytest.approx(float(sizes.largest))
    assert float((seen.max(axis=0) ** 2).sum()) == pytest.approx(float(sizes.sum_of_squares))
    assert float(sizes.spread) == pytest.approx(np.ptp(losses.table, axis=1).max())
    np.testing.assert_array_equal(Sizes.centred(umab.Losses.of([[1.0, 3.0]])), (0.0, 0.0, 0.0, 2.0))
    np.testing.assert_array_equal(Sizes.of(umab.Losses.of([[1.0, 3.0], [-2.0, 0.0]])), (3.0, 2.0, 13.0, 2.0))
    assert Sizes.of(umab.Losses.of([[1.0, 3.0]])).most_negative == 0.0


def cost_of_clipping(path: Trajectory) -> Array:
    """Σ_t (1 − p_{t,k})d_{t,k} for every arm, in expectation over the runs, which are all sequences of arms."""
    p, drawn_from = path.p[:, :-1], path.drawn_from[:, :-1]
    lost = np.maximum(0, -clipped_at(p, drawn_from, path.inverse_rate[:, :-1, None]) - path.losses)
    np.testing.assert_allclose(path.of_arm(lost).astype(float), (path.clipped - path.seen).astype(float), rtol=1e-12)
    chance = np.exp(path.log_probability)[:, None]
    return np.asarray((chance * ((1 - p) * lost).sum(axis=1)).sum(axis=0), dtype=float)


def test_the_regret_of_umab_s_on_small_tables_is_below_every_step_of_the_proof() -> None:
    """Over all sequences of arms: at most (1 + ln T/c) E[A], the clipping and what is not learning; so the bound."""
    rng = np.random.default_rng(6)
    most = 0.0
    for _ in range(25):
        table = rng.choice([-1.0, 0.0, 1.0], size=(6, 2)) * 10.0 ** rng.uniform(-3, 3, size=(6, 2))
        for policy in (umab.UMABS(), umab.Centred(umab.UMABS()), umab.UMABS(rate=0.2)):
            exact, promised = exact_regret(policy, table), bound(policy, table)
            path = follow(policy, table, np.array(list(itertools.product(range(2), repeat=6))))
            paid = float((np.exp(path.log_probability) * (path.stability + path.charge).sum(axis=1)).sum())
            clipping = cost_of_clipping(path).max()
            most = max(most, clipping / paid)
            assert clipping <= promised.terms["clipping"]
            rate = policy.rate if isinstance(policy, umab.UMABS) else 3.0
            others = sum(promised.terms.get(term, 0.0) for term in ("exploration", "comparator", "first round"))
            between = (1 + math.log(6) / rate) * paid + clipping + others
            assert exact.repaired is not None and exact.regret <= between <= exact.repaired
    assert most > 0.01


def test_a_search_takes_umab_s() -> None:
    said = ours("S1, floor")
    found = search(said, umab.UMABS())
    assert found.certified.verdict == "holds" and found.certified.ratio == pytest.approx(1.0)
    assert least_probability(2, 2) == pytest.approx(float(follow(umab.UMABS(), [[0.0, 0.0]], [[0]]).exploration[0, 1]))


def test_a_trajectory_starts_from_the_scale_of_the_policy() -> None:
    policy = umab.UMABGA(initial_scale=3.0, rate=0.5)
    arms = RNG.integers(3, size=40)
    seen = [float(SIGNED[t, arm]) for t, arm in enumerate(arms)]
    exact = reference.umab_g(arms.tolist(), seen, 3, rate=0.5, exploration="adaptive", initial_scale=3.0)
    np.testing.assert_allclose(follow(policy, SIGNED[:40], arms[None]).drawn_from[0].astype(float), exact, rtol=1e-15)


def test_rates_of_the_others() -> None:
    table = np.array([[1.0, -2.0], [3.0, 0.5]])
    assert bound("ahb", table).rate == bound("scb", table).rate == pytest.approx(3 * math.sqrt(4))
    second = math.sqrt(2 * (1 + 4 + 9 + 0.25))
    assert bound("sf-mab", table).rate == pytest.approx(3 * math.sqrt(4) + second)
    assert bound("sf-mab-a", table).rate == pytest.approx(3 * math.sqrt(2 * 6.5) + second)
    assert bound("ahb", table).repaired is None
    with pytest.raises(NoBoundError, match=r"needs a policy with a theorem .*got uniform; umab\.recommended\(\)"):
        bound("uniform", table)


def test_table_1_on_a_table_of_losses() -> None:
    rows = table1(np.abs(SIGNED), n_trials=20)
    names = ["ahb", "scb", "sf-mab", "sf-mab-a", "umab-g", "umab-g-a", "umab-nn"]
    assert [row.bound.policy for row in rows] == names
    known = umab.simulate("umab-nn", np.abs(SIGNED), n_trials=20, expected=True)
    assert (rows[-1].mean, rows[-1].se) == (known.mean[-1], known.se[-1])
    assert [row.bound.policy for row in table1(SIGNED, n_trials=2)] == names[:-1]
    assert all(row.bound.repaired is None or row.mean < row.bound.repaired for row in rows)


def test_the_regret_of_a_small_table_is_exact() -> None:
    """As plain recursion over all sequences has it, and as many trials have it within four errors."""
    losses = np.array([[1.0, -0.5], [0.2, 0.4], [-2.0, 1.0], [0.3, 0.1]])
    for policy in (umab.UMABGA(), umab.UMABGA(rate=4.0)):
        exact = exact_regret(policy, losses)
        total = 0.0
        for arms in itertools.product(range(2), repeat=4):
            path = follow(policy, losses, np.array([arms]))
            chance = float(np.prod([path.drawn_from[0, t, arm] for t, arm in enumerate(arms)]))
            total += chance * (sum(losses[t, arm] for t, arm in enumerate(arms)) - losses.sum(axis=0).min())
        assert exact.regret == pytest.approx(total, rel=1e-12)
        result = umab.simulate(policy, losses, n_trials=4000)
        assert abs(result.mean[-1] - exact.regret) < 4 * result.se[-1]
    with pytest.raises(ValueError, match=r"at most 100000 .* 1048576"):
        exact_regret(umab.UMABGA(), np.zeros((20, 2)))


def test_small_tables_keep_the_repaired_theorems() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        table = rng.choice([-1.0, 0.0, 1.0], size=(4, 2)) * 10.0 ** rng.uniform(-3, 3, size=(4, 2))
        for policy in (umab.UMABGA(), umab.UMABG()):
            exact = exact_regret(policy, table)
            assert exact.repaired is not None and exact.regret <= exact.repaired
        exact = exact_regret(umab.UMABNN(), np.abs(table))
        assert exact.repaired is not None and exact.regret <= exact.repaired


def test_the_main_text_explores_for_ever() -> None:
    """On (0, 1) its regret is linear, where that of the appendix hardly grows."""
    regrets = {
        name: [
            umab.simulate(name, np.tile([0.0, 1.0], (n, 1)), n_trials=20, expected=True).mean[-1]
            for n in (10_000, 20_000)
        ]
        for name in ("umab-g-maintext", "umab-g-a")
    }
    text, appendix = regrets["umab-g-maintext"], regrets["umab-g-a"]
    assert 0.05 < (text[1] - text[0]) / 10_000 < 0.08  # about 1/16 a round, for ever
    assert (appendix[1] - appendix[0]) / 10_000 < 0.01


def test_exponents() -> None:
    points = [
        Point(float(n), 3.0 * n**0.5 * (1 + 0.01 * (-1) ** at), 0.03 * n**0.5) for at, n in enumerate((10, 20, 40, 80))
    ]
    slope, low, high = _exponent(points)
    assert low < 0.5 < high and abs(slope - 0.5) < 0.02 and high - low < 0.2
    assert all(math.isnan(each) for each in _exponent([*points, Point(160.0, -1.0, 1.0)]))
    exact = [Point(2.0**k, 5.0 * 2.0**k, 0.0) for k in range(5)]
    assert _exponent(exact)[0] == pytest.approx(1.0, abs=1e-9)


def test_the_interval_of_an_exponent_covers_it() -> None:
    """In 99% of 1000 fits to points with known errors, give or take four errors of that share."""
    rng = np.random.default_rng(0)
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    covered = 0
    for _ in range(1000):
        means = 10.0 * np.sqrt(values) * (1.0 + 0.02 * rng.normal(size=6))
        _, low, high = _exponent([Point(value, mean, 0.02 * mean) for value, mean in zip(values, means, strict=True)])
        covered += low < 0.5 < high
    assert covered / 1000 > 0.99 - 4 * math.sqrt(0.99 * 0.01 / 1000)


def test_the_scale_of_umab_nn_is_strictly_free() -> None:
    found = scaling("umab-nn", over="scale", n_tables=3, n_trials=2)
    base = next(point for point in found.points if point.value == 1.0)
    assert all(point.mean == point.value * base.mean for point in found.points)
    assert found.exponent == pytest.approx(1.0, abs=1e-12)


def test_exponents_tell_learning_from_chance() -> None:
    """On the hard family: a root for UMAB-NN, in rounds, and a straight line for who does not learn."""
    values = (250, 500, 1000, 2000, 4000)
    chance, learned = (scaling(name, values=values, n_tables=8, n_trials=3) for name in ("uniform", "umab-nn"))
    assert chance.low < 1.0 < chance.high and chance.high - chance.low < 0.2
    assert 0.35 < learned.exponent < 0.65 and learned.high < chance.low
    assert scaling("umab-nn", values=values, n_tables=2, n_trials=1, seed=1).points != learned.points


def test_points_have_the_error_of_a_mean_over_tables() -> None:
    found = scaling("uniform", values=(50, 100, 200), n_tables=200, n_trials=1)
    for point in found.points:
        # At the largest gap the regret of chance is a sum of coins, of variance 4 · 0.25/25 + 0.64 · 0.09 a round.
        assert point.se == pytest.approx(math.sqrt((0.04 + 0.0576) * point.value / 200), rel=0.15)


def test_weights_and_scatter_count_in_a_fit() -> None:
    sure = [Point(1.0, 1.0, 0.001), Point(2.0, 2.0, 0.002), Point(4.0, 4.0, 0.004)]
    assert _exponent([*sure, Point(8.0, 80.0, 60.0)])[0] == pytest.approx(1.0, abs=0.01)  # a point without weight
    smooth = _exponent([Point(v, v, 0.01 * v) for v in (1.0, 2.0, 4.0, 8.0)])
    rough = _exponent([Point(v, v * f, 0.01 * v) for v, f in ((1.0, 1.2), (2.0, 0.8), (4.0, 1.2), (8.0, 0.8))])
    assert rough[2] - rough[1] > 5 * (smooth[2] - smooth[1])


def test_umab_g_is_not_scale_free_for_small_losses() -> None:
    found = scaling("umab-g", family="small", values=(500, 1000, 2000), n_tables=2, n_trials=2)
    assert found.exponent == pytest.approx(1.0, abs=1e-3)
    assert scaling("umab-nn", family="small", values=(500, 1000, 2000), n_tables=5, n_trials=5).exponent < 0.4


def test_regret_grows_with_the_delay_unless_nothing_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    values = (10, 40, 160, 640, 2560)
    late = scaling("umab-s", over="delay", values=values, n_tables=10, n_trials=4)
    assert late.over == "delay" and [point.value for point in late.points] == list(values)
    assert 0.4 < late.exponent < 1.0 and late.points[-1].mean > 4 * late.points[0].mean
    chance = scaling("uniform", over="delay", values=values, n_tables=2, n_trials=1)
    assert chance.exponent == pytest.approx(0.0, abs=1e-12)  # the tables are the same for every delay
    assert cli.main(["scaling", "uniform", "--over", "delay", "--tables", "2", "--trials", "1"]) == 0
    assert "regret over delay" in capsys.readouterr().out


def test_scaling_refuses_what_gives_no_exponent() -> None:
    with pytest.raises(ValueError, match=r"at least 3 .*values=\[10, 20\]"):
        scaling("umab-nn", values=(10, 20))
    with pytest.raises(ValueError, match=r"over .*'rounds', 'arms', 'scale'.*over='time'"):
        scaling("umab-nn", over="time")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'hard' .*over='arms'.*family='turn'"):
        scaling("umab-nn", over="arms", family="turn")


def test_banker_omd_misses_a_late_turn() -> None:
    """Its regret is a multiple of UMAB-G's there, and four times the rounds make it a larger one."""
    early, late = (turns("banker-omd", "umab-g", n_rounds=n, n_trials=30)[0].ratio for n in (2000, 32_000))
    assert late > 4.0 and late > 1.5 * early


def test_the_table_of_statements_is_complete() -> None:
    text = (DOCS / "theory.md").read_text()
    for row in theory_pages.statement_rows():
        line = f"| {row.form} | {row.verdict} | {row.ratio} | {row.case} |".replace("|", "|")
        assert line in text.replace("\\|", "|"), row
    for name in (
        "Theorem 1",
        "Theorem 2",
        *(f"Lemma {k}" for k in range(1, 11)),
        *(f"({k})" for k in range(1, 11)),
        "Table 1",
    ):
        assert name in text or name.replace("Theorem 1", "Theorems") in text


@pytest.mark.slow
def test_the_pages_are_what_the_program_writes() -> None:
    for name, text in theory_pages.pages().items():
        assert (DOCS / name).read_text() == text


def test_there_is_no_bound_for_losses_that_the_policy_refuses() -> None:
    with pytest.raises(NoBoundError, match=r"at least 0\.0 for umab-nn, .*loss=-2\.0 .*row 0; umab\.recommended"):
        bound("umab-nn", [[1.0, -2.0], [0.5, 3.0]])
    with pytest.raises(NoBoundError, match=r"at most 1\.0 for exp3, .*loss=3\.0 .*row 1"):
        bound("exp3", [[1.0, 0.0], [0.5, 3.0]])
    assert bound("umab-nn", [[1.0, 2.0], [0.5, 3.0]]).repaired is not None
