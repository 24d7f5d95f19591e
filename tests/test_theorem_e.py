"""Theorem E: runs of UMAB-E in extended precision, its proof along them, and its bound."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import umab
from umab import cli
from umab.algorithms.umab_e import UMABE
from umab.engine.interpreted import play
from umab.errors import NoBoundError
from umab.tables.advice import Advice
from umab.testing import Array
from umab.theory import advice as theory
from umab.theory.advice import AdvisedPath, follow_advised, is_advised
from umab.theory.bounds import bound
from umab.theory.bounds_advised import Measured, bound_along
from umab.theory.certificates import EVERY, certifiable, certify, check
from umab.theory.statements import OF_UMAB_E, AdvisedSteps, Statement, theorem_e, theorem_e_barrier
from umab.theory.statements import advised as shared
from umab.theory.trajectory import follow

FORMS = ("entropy", "barrier")
T = 90


def rows(rng: np.random.Generator, n_experts: int, n_arms: int, n_rounds: int = T, width: float = 0.4) -> Array:
    return rng.dirichlet(np.full(n_arms, width), size=(n_rounds, n_experts))


@functools.cache
def cases() -> dict[str, tuple[Array, Any]]:
    """Losses and advice of several kinds: fewer experts than arms, as many, and more; some abstain; rare gains."""
    rng = np.random.default_rng(0)

    def normal(n_arms: int) -> Array:
        return rng.normal(np.linspace(0.0, 1.0, n_arms), size=(T, n_arms))

    def abstaining(advice: Any, chance: float, nothing: float) -> Any:
        off = rng.random(advice.shape[:2]) < chance
        off[np.arange(T), rng.integers(advice.shape[1], size=T)] = False
        advice[off] = nothing
        return advice

    outliers = np.where(rng.random((T, 3)) < 0.03, -1e6, normal(3))
    spikes = normal(4)
    spikes[:, 0] = np.where(rng.random(T) < 0.06, -(10.0 ** rng.uniform(0.0, 7.0, size=T)), 3.0)
    unlikely = np.full((T, 3, 4), 1 / 3)
    unlikely[:, :, 0], unlikely[:, 1] = 1e-3, [0.001, 0.997, 0.001, 0.001]
    unlikely /= unlikely.sum(axis=2, keepdims=True)
    scales = 10.0 ** rng.uniform(-4.0, 4.0, size=(T, 2))
    twins = rows(rng, 4, 3)
    twins[:, 1] = twins[:, 0]
    same = np.repeat(rows(rng, 1, 3), 3, axis=1)
    return {
        "fewer experts than arms": (normal(5), rows(rng, 3, 5)),
        "as many experts as arms": (normal(4), rows(rng, 4, 4)),
        "many experts": (normal(3), rows(rng, 8, 3)),
        "tiny": (1e-150 * normal(3), rows(rng, 5, 3)),
        "huge": (1e150 * normal(3), rows(rng, 2, 3)),
        "an offset": (1e4 + normal(3), rows(rng, 7, 3)),
        "abstaining": (normal(3), abstaining(rows(rng, 6, 3), 0.5, np.nan)),
        "few experts, abstaining": (rng.standard_t(2, size=(T, 4)), abstaining(rows(rng, 3, 4), 0.3, np.nan)),
        "twins": (rng.standard_t(2, size=(T, 3)), twins),
        "all the same": (normal(3), same),
        "sure": (normal(3), rng.integers(3, size=(T, 5))),
        "sure, abstaining": (rng.standard_t(2, size=(T, 3)), abstaining(rng.integers(3, size=(T, 7)), 0.5, -1)),
        "sure, constant": (normal(4), np.tile(np.arange(4), (T, 1))),
        "outliers": (outliers, rows(rng, 8, 3)),
        "outliers, few experts": (np.hstack([outliers, normal(2)]), rows(rng, 3, 5)),
        "gains of an unlikely arm": (spikes, unlikely),
        "few arms are advised": (normal(6), rng.integers(2, size=(T, 4)) * np.array([1, 2, 3, 4])),
        "two rounds": (normal(2)[:2], np.array([[0, 1], [1, 0]])),
        "one round": (normal(2)[:1], np.array([[0, 1]])),
        "many scales": (rng.choice([-1.0, 1.0], size=(T, 2)) * scales, rng.integers(2, size=(T, 5))),
        "hardly advised": (rng.standard_t(2, size=(T, 2)), np.tile([[0.999, 0.001], [1.0, 0.0]], (T, 1, 1))),
        "one arm": (normal(1), np.zeros((T, 2), dtype=np.int64)),
        "zeros": (np.zeros((T, 3)), rows(rng, 4, 3)),
    }


def umab_e(form: Any) -> UMABE:
    return UMABE(form=form)


@functools.cache
def path_of(case: str, form: str, n_trials: int = 3) -> AdvisedPath:
    losses, advice = cases()[case]
    arms = umab.simulate(umab_e(form), losses, advice=advice, n_trials=n_trials, seed=1).arms
    return follow_advised(umab_e(form), losses, arms, advice)


def random_path(case: str, form: str, n_runs: int = 3) -> AdvisedPath:
    """A path along arms that are drawn uniformly from those that somebody advises: the statements hold along it too."""
    losses, advice = cases()[case]
    advised, rng = is_advised(Advice.of(advice, *losses.shape), losses.shape[1]), np.random.default_rng(2)
    arms = np.where(advised, rng.random((n_runs, *losses.shape)), -1.0).argmax(axis=2)
    return follow_advised(umab_e(form), losses, arms, advice)


def said(id: str) -> Statement:
    return next(each for each in (*OF_UMAB_E["entropy"], *OF_UMAB_E["barrier"]) if each.id == id)


def verdicts(path: AdvisedPath) -> dict[str, str]:
    steps = AdvisedSteps(path)
    return {each.id: check(each, each.says(steps)).verdict for each in OF_UMAB_E[path.form]}


# The runs.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", cases())
def test_a_path_is_that_of_the_policy(case: str, form: str) -> None:
    losses, advice = cases()[case]
    path = path_of(case, form)
    for run in range(2):
        played = play(umab_e(form), losses, advice=advice, seed=1, trial=run)
        for t, each in enumerate(played):
            assert each.arm == path.arms[run, t]
            expected = path.drawn_from[run, t].astype(float)
            np.testing.assert_allclose(each.state.probabilities, expected, rtol=1e-10)
            if each.state.paid > 0.0:
                paid = each.state.paid / each.state.unit
                assert paid == pytest.approx(float(path.paid[run, t + 1]), rel=1e-9)
            else:
                assert path.paid[run, t + 1] == 0.0


def in_digits(losses: Array, arms: list[int], advice: Array) -> list[list[Any]]:
    """The entropy form by its definition, in 60 digits: p' of every round, with a floor on the arms."""
    (n_rounds, n_experts, n_arms), found = advice.shape, []
    log_n, exp = mpmath.log(n_experts), mpmath.exp
    sums, paid = [mpmath.mpf(0)] * n_experts, mpmath.mpf(0)
    seen: list[Any] = []

    def mixed(values: list[Any], rate: Any) -> Any:
        return -mpmath.log(sum(exp(-rate * each) for each in values) / n_experts) / rate

    for t in range(n_rounds):
        rate = log_n / paid if paid else mpmath.mpf(0)
        weights = [exp(-rate * (each - min(sums))) for each in sums]
        given = [[mpmath.mpf(float(x)) for x in row] for row in advice[t]]
        awake = [i for i in range(n_experts) if not np.isnan(advice[t, i, 0])]
        p = [sum(weights[i] * given[i][k] for i in awake) / sum(weights[i] for i in awake) for k in range(n_arms)]
        given = [given[i] if i in awake else p for i in range(n_experts)]
        floor = 1 / (2 * n_arms + 2 * mpmath.sqrt(n_arms * (t + 1) / log_n))
        advised = [max(given[i][k] for i in awake) > 0 for k in range(n_arms)]
        missing = sum(max(floor - x, 0) for x, there in zip(p, advised, strict=True) if there)
        above = sum(max(x - floor, 0) for x, there in zip(p, advised, strict=True) if there)
        drawn = [
            floor + max(x - floor, 0) * (1 - missing / above) if there else x
            for x, there in zip(p, advised, strict=True)
        ]
        found.append(drawn)
        loss = mpmath.mpf(float(losses[t, arms[t]]))
        centred = loss - sum(seen) / len(seen) if seen else mpmath.mpf(0)
        seen.append(loss)
        estimates = [row[arms[t]] * centred / drawn[arms[t]] for row in given]
        mean = sum(w * e for w, e in zip(weights, estimates, strict=True)) / sum(weights)
        after = [a + b for a, b in zip(sums, estimates, strict=True)]
        paid += mean - (mixed(after, rate) - mixed(sums, rate) if rate else min(estimates))
        sums = after
    return found


@pytest.mark.parametrize("case", ["many experts", "abstaining", "twins", "outliers", "tiny"])
def test_a_path_is_that_of_the_definition(case: str) -> None:
    """As 60 digits have it, to the last digits of doubles."""
    losses, advice = cases()[case]
    path = follow_advised(umab_e("entropy"), losses[:40], path_of(case, "entropy").arms[:1, :40], advice[:40])
    with mpmath.workdps(60):
        exact = in_digits(losses[:40], path.arms[0].tolist(), advice[:40])
    np.testing.assert_allclose(path.drawn_from[0].astype(float), np.array(exact, dtype=float), rtol=1e-14)


def test_the_first_steps_by_hand() -> None:
    """Three experts, two arms: arm 0 costs 1 and then 2, so y_2 = 1; ℓ̂ = 1/p' for those who advised arm 0."""
    path = follow_advised(umab_e("entropy"), [[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], [[0, 0, 1]], [[0, 0, 1]] * 3)
    assert path.p[0, 0].astype(float) == pytest.approx([2 / 3, 1 / 3])
    assert path.estimates[0, 0].tolist() == [0.0] * 3
    assert path.estimates[0, 1].astype(float) == pytest.approx([1.5, 1.5, 0.0])
    assert float(path.paid[0, 2]) == pytest.approx(1.0)  # ⟨P, ℓ̂⟩ − min ℓ̂
    weights = np.exp(-math.log(3) * np.array([1.5, 1.5, 0.0]))
    assert path.weights[0, 2].astype(float) == pytest.approx(weights / weights.sum())
    assert float(path.exploration[2]) == pytest.approx(1 / (4 + 2 * math.sqrt(6 / math.log(3))))


def test_a_path_is_refused_if_it_cannot_be() -> None:
    losses = np.zeros((2, 3))
    with pytest.raises(ValueError, match="two experts or more"):
        follow_advised(umab_e("entropy"), losses, [[0, 0]], [[0], [0]])
    with pytest.raises(ValueError, match="nobody does in round 1"):
        follow_advised(umab_e("entropy"), losses, [[0, 2]], [[0, 1], [0, 1]])
    with pytest.raises(TypeError, match=r"need their advice, which umab\.theory\.certify takes"):
        follow(umab_e("auto"), losses, [[0, 0]])


# The proof.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", cases())
def test_every_step_holds(case: str, form: str) -> None:
    for path in (path_of(case, form), random_path(case, form)):
        assert set(verdicts(path).values()) <= {"holds", "nothing to check"}


@pytest.mark.parametrize(
    ("form", "ids"),
    [
        ("entropy", ("E1, floor", "E3, moved", "E3, exploration", "E4, regret", "E5, step", "E7, jump", "E8, total")),
        ("entropy", ("E5, small step", "E6, growth")),
        ("barrier", ("B1, floor", "B2, rest", "B2, share", "B3, moved", "B4, FTRL", "B5, small step", "B7, growth")),
    ],
)
def test_steps_that_leave_no_room(form: str, ids: tuple[str, ...]) -> None:
    """For these, left is nearly right in some round: nothing in them could be better by more than the margin."""
    paths = [random_path(case, form) for case in cases()] + [path_of(case, form) for case in cases()]
    for id in ids:
        ratios = [check(said(id), said(id).says(AdvisedSteps(path))).ratio for path in paths]
        assert 0.85 < max(each for each in ratios if not math.isnan(each)) <= 1.0 + 1e-12, id


def test_there_is_something_to_check() -> None:
    """Every statement says something along some path, and there are jumps, clipped losses and rounds without them."""
    for form, module in (("entropy", theorem_e), ("barrier", theorem_e_barrier)):
        found = [verdicts(path_of(case, form)) for case in cases()]
        for each in OF_UMAB_E[form]:
            assert "holds" in {row[each.id] for row in found}, each.id
        jumps = module._is_jump(AdvisedSteps(path_of("outliers, few experts", form)))
        assert 0 < jumps.sum() < jumps.size / 2
    assert (path_of("outliers, few experts", "barrier").charge > 0).any()


def broken(monkeypatch: pytest.MonkeyPatch, form: str, **changed: Any) -> set[str]:
    """The statements that are violated if something of the algorithm is changed."""
    for name, value in changed.items():
        monkeypatch.setattr(theory, name, value)
    found = set()
    for case in ("many experts", "outliers", "outliers, few experts", "gains of an unlikely arm", "sure"):
        found |= {id for id, verdict in verdicts(random_path(case, form)).items() if verdict == "violated"}
    return found


def test_a_floor_that_is_missing_breaks_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"E1, floor", "E7, jump"} <= broken(monkeypatch, "entropy", raised_among=lambda p, among, floor: p)
    assert {"B1, floor"} <= broken(monkeypatch, "barrier")


def test_a_floor_that_is_too_high_breaks_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def high(form: str, n_arms: int, n_experts: int, t: Any) -> Any:
        return 0.9 / n_arms + 0 * np.asarray(t, dtype=np.longdouble)

    assert "E2, share" in broken(monkeypatch, "entropy", least_probability_with_advice=high)
    assert {"B2, share", "B2, rest"} <= broken(monkeypatch, "barrier")


def test_a_rate_that_is_too_high_breaks_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "B7, growth" in broken(monkeypatch, "barrier", RATE=30.0)


def test_clipping_that_is_not_charged_breaks_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "B10, clipping" in broken(monkeypatch, "barrier", CHARGE=1e-4)


def test_costs_that_are_too_small_break_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    gap, stability = theory._mixability_gap, theory._stability
    smaller = broken(monkeypatch, "entropy", _mixability_gap=lambda *of: gap(*of) / 3)
    assert "E4, regret" in smaller
    assert "B4, FTRL" in broken(monkeypatch, "barrier", _stability=lambda *of: stability(*of) / 3)


def test_an_arm_that_is_advised_and_never_drawn_breaks_the_proof() -> None:
    path = path_of("many experts", "entropy")
    without = np.where(path.drawn_from == path.drawn_from.min(axis=2, keepdims=True), 0, path.drawn_from)
    steps = AdvisedSteps(dataclasses.replace(path, drawn_from=without))
    for id in ("E1, floor", "E9, estimates", "E9, squares"):
        assert check(said(id), said(id).says(steps)).verdict == "violated"


# Certificates.


@pytest.mark.parametrize(
    "case", ["outliers", "few experts, abstaining", "sure, abstaining", "gains of an unlikely arm"]
)
@pytest.mark.parametrize("form", FORMS)
def test_a_certificate(case: str, form: str) -> None:
    losses, advice = cases()[case]
    found = certify(f"umab-e:form={form}", losses, advice=advice, n_trials=5)
    assert [row.id for row in found] == ["Theorem E", "Theorem E, runs", *(each.id for each in OF_UMAB_E[form])]
    assert {(row.form, row.where) for row in found} == {("as proved", "docs/algorithms/umab-e.md")}
    assert {row.verdict for row in found} <= {"holds", "nothing to check"}
    assert abs(found[0].ratio) <= abs(found[1].ratio) < 0.5


def test_a_certificate_of_many_runs_is_that_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, advice = cases()["abstaining"]
    whole = certify("umab-e", losses, advice=advice, n_trials=4)
    monkeypatch.setattr("umab.theory.certificates._ENTRIES", 1)
    for one, other in zip(whole, certify("umab-e", losses, advice=advice, n_trials=4), strict=True):
        assert one[:5] == other[:5] and one.ratio == pytest.approx(other.ratio, rel=1e-12, nan_ok=True)


def test_what_has_no_certificate() -> None:
    losses = np.zeros((4, 2))
    with pytest.raises(ValueError, match=r"umab-e must be told what experts advise; pass advice="):
        certify("umab-e", losses)
    with pytest.raises(ValueError, match="must be given to a policy over experts"):
        certify("umab-s", losses, advice=[[0, 1]] * 4)
    with pytest.raises(ValueError, match="a single one is followed"):
        certify("umab-e", losses, advice=[[0]] * 4)
    assert not certifiable(umab_e("auto"))
    assert not {each for form in FORMS for each in OF_UMAB_E[form]} & set(EVERY)


def test_the_command_line_refuses_cleanly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "losses.csv"
    table.write_text("a,b\n1,2\n3,1\n")
    for arguments in (["certify", str(table)], ["certify", "--search"]):
        assert cli.main([*arguments, "--policy", "umab-e"]) == 2
        assert "need their advice" in capsys.readouterr().err


# The bound.


def test_the_bound_by_hand() -> None:
    """Losses (1, −3, 100) in all rounds; nobody advises the third arm, so D = 4, and b_t is from −3 to 1."""
    horizon, losses = 50, [[1.0, -3.0, 100.0]] * 50
    found = bound("umab-e:form=entropy", losses, advice=[[0, 1, 0, 1]] * horizon)
    log_n = math.log(4)
    floors = [1 / (6 + 2 * math.sqrt(3 * t / log_n)) for t in range(1, horizon + 1)]
    terms = {
        "steps": 2 * math.sqrt(49 * (4 * (math.e - 2) * log_n * 16 + 4 * 16)),
        "jumps": 2 * (1 + log_n) / floors[-1] * 4,
        "exploration": 2 * 4 * sum(floors[1:]),
        "first round": 4.0,
    }
    assert dict(found.terms) == pytest.approx(terms) and found.repaired == pytest.approx(sum(terms.values()))
    assert found.source == "Theorem E of docs/algorithms/umab-e.md, in the entropy form" and found.printed is None

    found = bound("umab-e", losses, advice=[[0, 1, 0, 1]] * horizon)
    floors = [1 / (9 + 2 * math.sqrt(2 * t)) for t in range(1, horizon + 1)]
    times, kappa = 1 + math.log(horizon) / 3, 4 * math.log(2) - 2
    terms = {
        "steps": times * 4 / 3 * math.sqrt((1 + 2 * kappa * 12) * 49 * 16),
        "jumps": times * (8 / 3 * 12 + 1 / floors[-1]) * 4,
        "clipping": 8 / 5 * 4 / floors[-1] * 4,
        "comparator": 4.0,
        "exploration": 2 * 4 * sum(floors[1:]),
        "first round": 4.0,
    }
    assert dict(found.terms) == pytest.approx(terms) and found.source.endswith("in the log-barrier form")
    with pytest.raises(NoBoundError, match="switches=1 for umab-e"):
        bound("umab-e", losses, advice=[[0, 1]] * horizon, switches=1)
    with pytest.raises(ValueError, match="must be told what experts advise"):
        bound("umab-e", losses)
    with pytest.raises(ValueError, match="must be given to a policy over experts"):
        bound("umab-g", losses, advice=[[0, 1]] * horizon)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", cases())
def test_the_bounds_are_in_order(case: str, form: str) -> None:
    """The regret, the bound with what runs have, and the bound whatever they have."""
    losses, advice = cases()[case]
    path = path_of(case, form)
    along, sure = bound_along([Measured.along(path)]), bound(umab_e(form), losses, advice=advice).repaired
    assert sure is not None and along <= sure * (1 + 1e-12)
    assert float(path.regrets.mean(axis=0).max()) <= along
    assert path.regrets.max(axis=1).astype(float) == pytest.approx(
        umab.simulate(umab_e(form), losses, advice=advice, n_trials=3, seed=1, expected=True).final_regret,
        rel=1e-8,
        abs=1e-12 * float(np.abs(losses).sum()),
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_end_of_the_proof_over_all_draws(form: str) -> None:
    """With every sequence of arms and its probability, the expectations of the proof are sums.

    The regret against each expert is at most the exploration, round 1 and what E4 and E9, or B4, B11 and B12, leave.
    """
    rng = np.random.default_rng(3)
    arms = np.array(list(itertools.product(range(2), repeat=7)))
    for _ in range(4):
        losses = rng.choice([-1.0, 0.0, 1.0], size=(7, 2)) * 10.0 ** rng.uniform(-2, 2, size=(7, 2))
        advice = rng.dirichlet([0.5, 0.5], size=(7, 3))
        advice[rng.random((7, 3)) < 0.2] = np.nan
        advice[:, 0] = [0.5, 0.5]
        path = follow_advised(umab_e(form), losses, arms, advice)
        chance = np.exp(np.log(path.of_arm(path.drawn_from)).sum(axis=1))
        assert float(chance.sum()) == pytest.approx(1.0, abs=1e-15)
        steps = AdvisedSteps(path)
        off = path.estimates - (path.rows * steps.learned_from[:, :, None]).sum(axis=3)
        off -= off[:, :, :1]  # what is the same for all experts does not matter: where all agree, nothing is clipped
        size = float(np.abs(path.estimates).max())
        np.testing.assert_allclose((chance[:, None, None] * off).sum(axis=0)[1:].astype(float), 0.0, atol=1e-14 * size)
        paid = float((chance * path.paid[:, -1]).sum())
        hidden = (chance * ((1 - steps.drawn_with) * (path.clipped - path.seen)).sum(axis=1)).sum()
        promised = bound(umab_e(form), losses, advice=advice)
        others = sum(promised.terms[name] for name in ("exploration", "first round"))
        if form == "entropy":
            most = 2 * paid + others
        else:
            clipped = 6 / 5 * float(hidden) / float(path.exploration[-1])
            most = (1 + math.log(7) / 3) * paid + clipped + others + promised.terms["comparator"]
        assert promised.repaired is not None
        regret = float((chance[:, None] * path.regrets).sum(axis=0).max())
        assert regret <= most <= promised.repaired
        assert set(verdicts(path).values()) <= {"holds", "nothing to check"}
        assert shared.most_moved(steps).max() < 0.5
