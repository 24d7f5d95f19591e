"""Many trials: regret, streams, threads, summaries."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from helpers import PATIENCE, POLICIES, same_bits
from umab.algorithms.base import Policy
from umab.engine import simulate as simulate_module
from umab.engine.delays import Delays
from umab.engine.interpreted import play
from umab.results import regret as regret_module
from umab.testing import Array, legal_losses

LOSSES = np.random.default_rng(0).normal(size=(400, 4)) + np.array([0.0, 0.3, 0.6, 0.9])
LARGEST = np.finfo(float).max


def plain_regret(losses: Array, arms: Any) -> Array:
    """Return R_t as it is defined, in NumPy."""
    seen = np.take_along_axis(losses[None], np.asarray(arms, dtype=int)[:, :, None], axis=2)[:, :, 0]
    return np.asarray(seen.cumsum(axis=1) - losses.cumsum(axis=0).min(axis=1))


def test_regret_is_the_loss_of_the_arms_less_that_of_the_best() -> None:
    result = umab.simulate(umab.UMABGA(), LOSSES, n_trials=70, seed=1, expected=False)
    assert result.regret.shape == result.arms.shape == (70, 400)
    assert result.arms.dtype == np.uint8
    np.testing.assert_allclose(result.regret, plain_regret(LOSSES, result.arms), atol=1e-11)
    assert same_bits(result.final_regret, result.regret[:, -1].copy())
    np.testing.assert_allclose(result.mean, result.regret.mean(axis=0), atol=1e-11)
    np.testing.assert_allclose(result.sd, result.regret.std(axis=0, ddof=1), atol=1e-11)
    np.testing.assert_allclose(result.se, result.regret.std(axis=0, ddof=1) / np.sqrt(70), atol=1e-11)
    assert result.n_trials == 70


def test_expected_regret_is_that_of_the_distributions() -> None:
    result = umab.simulate(umab.UMABGA(rate=4.0), LOSSES, n_trials=3, seed=1, expected=True)
    learner = umab.Learner(umab.UMABGA(rate=4.0), 4, seed=1)
    total, rows = 0.0, []
    for row in LOSSES:
        total += learner.probabilities() @ row
        rows.append(total)
        choice = learner.select()
        learner.update(choice, row[choice.index])
    np.testing.assert_allclose(result.regret[0], rows - LOSSES.cumsum(axis=0).min(axis=1), atol=1e-11)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("umab-g-a", {}),
        ("adahedge", {}),
        ("umab-g-a", {"delays": 7}),
        ("umab-g-a", {"delays": lambda random, n_rounds: random.integers(9, size=n_rounds)}),
        ("umab-g-a", {"eligible": np.arange(1600).reshape(400, 4) % 7 > 0}),
        ("umab-e", {"advice": np.arange(1200).reshape(400, 3) % 4}),
    ],
    ids=["plain", "all losses seen", "late", "late by chance", "away", "advised"],
)
def test_expected_regret_is_the_default_and_changes_no_draw(policy: str, options: dict[str, Any]) -> None:
    kinds: tuple[dict[str, Any], ...] = ({}, {"expected": True}, {"expected": False})
    usual, expected, sampled = (umab.simulate(policy, LOSSES, n_trials=40, **(options | kind)) for kind in kinds)
    assert (usual.kind, sampled.kind) == ("expected", "sampled")
    assert "expected regret" in repr(usual) and "sampled regret" in repr(sampled)
    assert same_bits(usual.regret, expected.regret) and same_bits(usual.sampled_regret, sampled.regret)
    assert same_bits(usual.arms, sampled.arms)
    assert not same_bits(usual.regret, sampled.regret)


@pytest.mark.parametrize("n_trials", [2, 3, 33, 500])
@pytest.mark.parametrize("policy", ["uniform", "solo-ftrl"])
def test_equal_trials_have_no_spread(policy: str, n_trials: int) -> None:
    """The expected regret of a policy whose distributions do not depend on its draws, such as uniform."""
    result = umab.simulate(policy, LOSSES / 3.0, n_trials=n_trials)
    assert (result.sd == 0.0).all() and (result.se == 0.0).all()
    assert (result.regret == result.mean).all() and (result.final_regret == result.mean[-1]).all()
    assert " ± 0 after" in repr(result)
    assert regret_module.mean_and_sd(result.final_regret) == (result.mean[-1], 0.0)


def test_trials_that_differ_by_rounding_only_show_no_spread() -> None:
    result = umab.simulate("uniform", LOSSES, n_trials=2)
    last = np.array([np.nextafter(result.mean[-1], np.inf), result.mean[-1]])
    noisy = dataclasses.replace(result, sd=np.full(len(result.sd), last.std(ddof=1)))
    assert noisy.sd[-1] > 0.0 and " ± 0 after" in repr(noisy) and " ± 0 after" in noisy._repr_html_()
    real = dataclasses.replace(result, sd=result.mean * 1e-9)
    assert " ± 0 after" not in repr(real)


def test_expected_and_sampled_regret_have_the_same_mean() -> None:
    """Within four standard errors of the paired differences, which are not all alike."""
    n_trials = 2000
    sampled, expected = (
        umab.simulate(umab.UMABGA(rate=4.0), LOSSES, n_trials=n_trials, expected=each, keep="summary")
        for each in (False, True)
    )
    gap = sampled.final_regret - expected.final_regret
    error = gap.std(ddof=1) / np.sqrt(n_trials)
    assert error > 0.0
    assert abs(gap.mean()) < 4.0 * error


def test_no_bit_depends_on_the_threads() -> None:
    results = [umab.simulate(umab.UMABGA(), LOSSES, n_trials=150, n_threads=n) for n in (1, 2, 5)]
    for other in results[1:]:
        for name in ("regret", "final_regret", "mean", "sd"):
            assert same_bits(getattr(results[0], name), getattr(other, name))
        assert (results[0].arms == other.arms).all()


def test_a_summary_is_the_summary_of_all() -> None:
    everything = umab.simulate("umab-g-a", LOSSES, n_trials=150)
    summary = umab.simulate("umab-g-a", LOSSES, n_trials=150, keep="summary", n_threads=1)
    for name in ("final_regret", "mean", "sd", "se"):
        assert same_bits(getattr(everything, name), getattr(summary, name))
    for name in ("regret", "arms"):
        with pytest.raises(AttributeError, match="keep='all'"):
            getattr(summary, name)


def test_a_trial_draws_the_same_whatever_runs_beside_it() -> None:
    few = umab.simulate("umab-g-a", LOSSES, n_trials=5, seed=9)
    many, uniform = umab.simulate(["umab-g-a", "uniform"], LOSSES, n_trials=100, seed=9)
    assert (few.arms == many.arms[:5]).all() and same_bits(few.regret, many.regret[:5].copy())
    # Uniform shows the uniforms themselves: trial i draws from its own stream.
    for trial in (0, 1, 99):
        stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence(9, spawn_key=(trial,))))
        assert (uniform.arms[trial] == (stream.random(400) * 4).astype(int)).all()
    assert not (umab.simulate("umab-g-a", LOSSES, n_trials=5, seed=10).arms == few.arms).all()


@pytest.mark.parametrize("pieces", [1, 7, 399, 400])
def test_long_runs_in_pieces_are_the_same_runs(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = umab.simulate(umab.UMABGA(rate=4.0), LOSSES, n_trials=40, expected=True)
    monkeypatch.setattr(regret_module, "_ROUNDS_A_PIECE", pieces)
    again = umab.simulate(umab.UMABGA(rate=4.0), LOSSES, n_trials=40, expected=True)
    assert same_bits(again.regret, whole.regret) and (again.arms == whole.arms).all()


def test_the_horizon_is_filled_in_unless_given() -> None:
    losses = LOSSES * 4.0
    filled = umab.simulate("umab-g:rate=4", losses, n_trials=20)
    assert filled.policy == "umab-g:rate=4"
    assert filled.provenance["parameters"]["horizon"] == 400
    assert same_bits(umab.simulate("umab-g:horizon=400,rate=4", losses, n_trials=20).regret, filled.regret)
    assert not same_bits(umab.simulate("umab-g:horizon=1,rate=4", losses, n_trials=20).regret, filled.regret)


def test_a_large_offset_costs_no_digits() -> None:
    offset = 2.0**40
    losses = np.round(LOSSES * 2**10) / 2**10  # so that adding the offset is exact
    plain, shifted = (
        umab.simulate("uniform", table, n_trials=50, expected=expected)
        for expected in (False,)
        for table in (losses, losses + offset)
    )
    assert same_bits(plain.regret, shifted.regret)


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-300, 2.0**300, 2.0**1000])
def test_regret_at_any_scale(size: float, expected: bool) -> None:
    """Sums and squares neither overflow nor vanish: a power of two changes no digit of mean, sd and regret."""
    plain, scaled = (
        umab.simulate("umab-nn", np.abs(LOSSES) * each, n_trials=50, expected=expected) for each in (1.0, size)
    )
    for name in ("regret", "mean", "sd", "final_regret"):
        assert same_bits(getattr(plain, name) * size, getattr(scaled, name))


def test_a_large_loss_that_all_arms_share_hides_nothing() -> None:
    for shared, small in ((1e308, 1e-20), (1.0, 1e-170)):
        losses = np.vstack([[shared, shared], np.tile([0.0, small], (99, 1))])
        result = umab.simulate("uniform", losses, n_trials=200, expected=False)
        np.testing.assert_allclose(result.final_regret, small * result.arms[:, 1:].sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(result.sd[-1], (result.final_regret / small).std(ddof=1) * small, rtol=1e-10)


def test_ctrl_c_stops_at_the_end_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with 1000 pieces a block: after the interrupt, which comes while they run, hardly any is run."""
    calls: list[int] = []
    handled = threading.Event()

    def slow_kernel(*arguments: Any) -> None:
        record = arguments[-1]
        record.regret[:], record.arms[:] = 0.0, 0
        calls.append(1)
        if len(calls) == 10:
            os.kill(os.getpid(), signal.SIGALRM)
        if len(calls) >= 10:
            handled.wait(PATIENCE)

    monkeypatch.setattr(simulate_module, "simulation_kernel", lambda policy, kind: slow_kernel)
    monkeypatch.setattr(regret_module, "_ROUNDS_A_PIECE", 10)

    class Interrupt(BaseException):
        pass

    def interrupt(*_: Any) -> None:
        handled.set()
        raise Interrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupt):
            umab.simulate("uniform", np.zeros((10_000, 2)), n_trials=1000, n_threads=2)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert 10 <= len(calls) < 200


DELAYS: dict[str, Any] = {
    "none": 0,
    "constant": 3,
    "constant array": np.array(3),
    "long": 399,
    "beyond the end": 10**9,
    "array": np.arange(400) % 17,
    "falling": np.arange(400)[::-1].copy(),
    "drawn": lambda random, n_rounds: random.geometric(0.1, n_rounds),
    "of the arm": np.arange(1600).reshape(400, 4) * 7 % 23,
    "of the arm, drawn": lambda random, n_rounds: random.geometric([0.01, 0.1, 0.2, 1.0], (n_rounds, 4)),
}


@pytest.mark.parametrize("delays", DELAYS.values(), ids=DELAYS.keys())
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_late_feedback_compiled_and_in_plain_python(policy: Policy, delays: Any) -> None:
    losses = legal_losses(policy, LOSSES)
    result = umab.simulate(policy, losses, n_trials=3, seed=2, delays=delays)
    for trial in (0, 2):
        rounds = play(policy, losses, seed=2, trial=trial, delays=delays)
        assert [round.arm for round in rounds] == result.arms[trial].tolist()


@pytest.mark.parametrize("delays", DELAYS.values(), ids=DELAYS.keys())
@pytest.mark.parametrize("name", ["umab-g-a:rate=4", "ahb"])
def test_late_feedback_is_what_a_learner_gets_late(name: str, delays: Any) -> None:
    """With delay d the loss of round s comes before the draw of round s + d + 1, in the order of the draws."""
    late = np.broadcast_to(Delays.of(delays, 400, 4).of_trials(6, range(1), 400)[0], (400, 4))
    learner = umab.Learner(name, 4, seed=6)
    choices: list[umab.Choice] = []
    for t in range(400):
        for s in range(t):
            if s + late[s, choices[s].index] + 1 == t:
                learner.update(choices[s], LOSSES[s, choices[s].index])
        choices.append(learner.select())
    result = umab.simulate(name, LOSSES, n_trials=1, seed=6, delays=delays)
    assert [choice.index for choice in choices] == result.arms[0].tolist()


def test_delays_change_no_draw_and_depend_on_the_trial_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = DELAYS["drawn"]
    prompt = umab.simulate("uniform", LOSSES, n_trials=40)
    assert (umab.simulate("uniform", LOSSES, n_trials=40, delays=delays).arms == prompt.arms).all()
    late = umab.simulate("umab-g-a:rate=4", LOSSES, n_trials=40, delays=delays)
    assert (umab.simulate("umab-g-a:rate=4", LOSSES, n_trials=5, delays=delays).arms == late.arms[:5]).all()
    assert not (umab.simulate("umab-g-a:rate=4", LOSSES, n_trials=40).arms == late.arms).all()
    monkeypatch.setattr(regret_module, "_ROUNDS_A_PIECE", 7)
    again = umab.simulate("umab-g-a:rate=4", LOSSES, n_trials=40, delays=delays)
    assert same_bits(again.regret, late.regret) and same_bits(again.final_regret, late.regret[:, -1].copy())
    seen = Delays.of(lambda random, n: (random.random(n) * 1000).astype(int), 400).of_trials(0, range(2), 400)[..., 0]
    own = np.random.Generator(np.random.PCG64(np.random.SeedSequence(0, spawn_key=(1,)))).random(400)
    assert not (seen[0] == seen[1]).all() and not (seen[1] == np.minimum((own * 1000).astype(int), 400)).all()
    assert late.provenance["delays"] == "drawn by <lambda>" and prompt.provenance["delays"] == "none"
    assert umab.simulate("uniform", LOSSES, n_trials=1, delays=3).provenance["delays"] == "constant 3"


def test_delays_of_arms_that_are_the_same_for_all_arms_are_delays_of_rounds() -> None:
    of_rounds = np.arange(400) % 17
    one, other = (
        umab.simulate("umab-g-a:rate=4", LOSSES, n_trials=40, delays=each)
        for each in (of_rounds, np.repeat(of_rounds[:, None], 4, axis=1))
    )
    assert same_bits(one.regret, other.regret) and one.provenance["delays"] != other.provenance["delays"]


def test_some_trials_may_draw_delays_of_arms_and_others_of_rounds() -> None:
    def either(random: np.random.Generator, n_rounds: int) -> Any:
        return random.integers(0, 30, (n_rounds, 4) if random.random() < 0.5 else n_rounds)

    drawn = Delays.of(either, 400, 4).of_trials(0, range(8), 400)
    alike = (drawn == drawn[:, :, :1]).all(axis=(1, 2))
    assert drawn.shape == (8, 400, 4) and alike.any() and not alike.all()
    result = umab.simulate("ahb", LOSSES, n_trials=8, delays=either)
    for trial in range(8):
        assert [round.arm for round in play("ahb", LOSSES, trial=trial, delays=either)] == result.arms[trial].tolist()


def test_learning_from_late_feedback() -> None:
    """Late feedback costs regret, but a policy still learns: both by more than ten standard errors."""
    losses = np.random.default_rng(3).exponential([1.0, 2.0, 4.0], size=(1000, 3))
    prompt, late = (umab.simulate("umab-nn", losses, n_trials=200, delays=delay) for delay in (None, 100))
    uniform = umab.simulate("uniform", losses, n_trials=200)
    assert late.mean[-1] - prompt.mean[-1] > 10 * np.hypot(late.se[-1], prompt.se[-1])
    assert uniform.mean[-1] - late.mean[-1] > 10 * np.hypot(late.se[-1], uniform.se[-1])


@pytest.mark.parametrize(
    ("delays", "message"),
    [
        (-1, "at least 0, .*delays=-1"),
        (1.5, "whole number, .*delays=1.5"),
        ("soon", "whole number, .*delays='soon'"),
        ([1, 2], r"400 rounds, or .* 4 arms, .*int64 .*\(2,\)"),
        (np.zeros((400, 3), dtype=int), r"400 rounds, or .* 4 arms, .*int64 .*\(400, 3\)"),
        (np.zeros((4, 400), dtype=int), r"400 rounds, or .* 4 arms, .*int64 .*\(4, 400\)"),
        (np.zeros((400, 4)), r"400 rounds, or .* 4 arms, .*float64 .*\(400, 4\)"),
        (np.where(np.arange(1600) == 803, -3, 1).reshape(400, 4), "at least 0 .*-3 .*round 200 and arm 3"),
        (np.zeros(400), r"400 rounds, .*float64 .*\(400,\)"),
        (np.r_[np.zeros(399, dtype=int), -2], "delays .*at least 0 .*-2 .*round 399"),
        (lambda random, n_rounds: random.random(n_rounds), "400 rounds, .*float64"),
        (lambda random, n_rounds: random.integers(0, 9, (n_rounds, 5)), r"400 rounds, .*\(400, 5\)"),
    ],
)
def test_bad_delays_are_refused(delays: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.simulate("uniform", LOSSES, n_trials=1, delays=delays)


def test_full_information_is_for_simulations_only() -> None:
    with pytest.raises(ValueError, match=r"one loss per round.* adahedge"):
        umab.Learner("adahedge", 3)
    with pytest.raises(TypeError, match=r"full information.* all arms"):
        umab.AdaHedge.update(None, None, 0, 1.0, 0.5)


def test_full_information_costs_less_regret_than_a_bandit_pays() -> None:
    hedge, bandit = umab.simulate(["adahedge", "ahb"], LOSSES, n_trials=200)
    assert bandit.mean[-1] - hedge.mean[-1] > 20 * np.hypot(bandit.se[-1], hedge.se[-1])


def test_a_loss_outside_a_known_range_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=r"at least 0\.0 and at most 1\.0 for exp3, .*loss=.* AHB or SCB"):
        umab.simulate("exp3", LOSSES)
    with pytest.raises(
        ValueError, match=r"at least -10\.0 and at most 10\.0 for tsallis-inf:high=10,low=-10, .*loss=11"
    ):
        umab.Learner("tsallis-inf:high=10,low=-10", 2).update(0, 11.0)


def test_the_largest_doubles() -> None:
    losses = np.array([[LARGEST, -LARGEST, 5e-324]] * 3)
    result = umab.simulate("umab-g-a", losses, n_trials=40, expected=False)
    exact = [sum(Fraction(losses[t, arm]) for t, arm in enumerate(row)) + 3 * Fraction(LARGEST) for row in result.arms]
    for value, right in zip(result.final_regret, exact, strict=True):
        beyond = right >= 2**1024 - 2**970  # from here on a double rounds up to infinity
        assert value == (np.inf if beyond else float(right))
    assert not np.isnan(result.regret).any()


def test_one_trial_one_round_one_arm() -> None:
    result = umab.simulate("umab-g-a", [[-3.0]], n_trials=1)
    assert result.regret.tolist() == [[0.0]] and result.mean.tolist() == [0.0]
    assert np.isnan(result.sd).all() and np.isnan(result.se).all()
    assert repr(result) == "Result(umab-g-a: expected regret 0 after 1 round, 1 trial)"


@pytest.mark.parametrize("n_arms", [256, 257])
def test_arms_are_kept_in_the_smallest_type(n_arms: int) -> None:
    result = umab.simulate("uniform", np.zeros((2000, n_arms)), n_trials=1)
    assert result.arms.dtype == (np.uint8 if n_arms == 256 else np.uint16)
    assert result.arms.max() == n_arms - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trials": 0}, "at least 1, .*n_trials=0"),
        ({"n_trials": 2.5}, "whole number, .*n_trials=2.5"),
        ({"seed": -1}, "at least 0, .*seed=-1"),
        ({"seed": None}, "whole number, .*seed=None"),
        ({"keep": "some"}, "'all', 'arms', 'summary', .*keep='some'"),
        ({"n_threads": 0}, "at least 1, .*n_threads=0"),
        ({"policies": 7}, r"umab\.Policy .* got 7"),
        ({"policies": [umab.UMABG]}, r"umab\.Policy .*did you mean UMABG\(\)\?"),
        ({"policies": "umab-z"}, "one of .*'umab-z'"),
        ({"policies": LOSSES}, r"first argument is the policy, as in umab\.simulate\(umab\.recommended\(\), losses\)"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.simulate(options.pop("policies", "uniform"), LOSSES, **options)


def test_losses_in_place_of_the_policy_are_told_where_they_belong() -> None:
    for losses in (LOSSES, LOSSES.tolist(), umab.Losses.of(LOSSES), "losses.csv"):
        for policy in ("umab-w", umab.UMABW()):
            with pytest.raises(TypeError, match=r"the policy .*umab\.simulate\(umab\.recommended\(\), losses\)"):
                umab.simulate(losses, policy)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the policy, as in umab\.simulate\(umab\.recommended\(\), losses\)"):
        umab.simulate(LOSSES)  # type: ignore[call-overload]


def test_a_loss_outside_the_range_is_located() -> None:
    losses = np.ones((10, 3))
    losses[7, 2] = -0.5
    with pytest.raises(
        ValueError, match=r"at least 0\.0 for umab-nn, .*loss=-0\.5 .*arm='2' .*row 7; umab\.recommended"
    ):
        umab.simulate(umab.UMABNN(), losses)


def test_provenance_says_what_the_numbers_depend_on() -> None:
    result = umab.simulate("umab-g-a:rate=4", LOSSES, n_trials=3, seed=8)
    about = result.provenance
    assert about["policy"] == "umab-g-a:rate=4" and about["parameters"]["rate"] == 4.0
    assert (about["seed"], about["n_trials"], about["expected"]) == (8, 3, True)
    assert about["losses"]["sha256"] == umab.Losses.of(LOSSES).digest
    assert about["versions"].keys() == {"umab", "python", "numpy", "numba"}


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("keep", ["all", "summary"])
def test_results_save_and_load(keep: Any, expected: bool, tmp_path: Path) -> None:
    result = umab.simulate("umab-g-a", LOSSES, n_trials=30, expected=expected, keep=keep)
    result.save(tmp_path / "run.v1")
    assert {path.name for path in tmp_path.iterdir()} == {"run.v1.npz", "run.v1.json"}
    for path in ("run.v1", "run.v1.npz", "run.v1.json"):
        loaded = umab.Result.load(tmp_path / path)
        assert (loaded.policy, loaded.provenance) == (result.policy, result.provenance)
        for name in ("mean", "sd", "final_regret", *(("regret", "arms") if keep == "all" else ())):
            assert same_bits(getattr(loaded, name), getattr(result, name))
    if keep == "summary":
        with pytest.raises(AttributeError, match=r"summary.*keep='all'"):
            _ = loaded.regret


def test_a_saved_result_counts_the_arms_again(tmp_path: Path) -> None:
    """The expected regret is written if it was kept; that of the arms drawn comes back from the arms, bit for bit."""
    losses = umab.Losses.of(LOSSES, arms=["a", "b", "c", "d"], source="a test", provenance={"seed": 3})
    sampled = umab.simulate("umab-g-a", losses, n_trials=30, expected=False)
    expected = umab.simulate("umab-g-a", losses, n_trials=30)
    lean = umab.simulate("umab-g-a", losses, n_trials=30, keep="arms")
    assert not same_bits(expected.regret, sampled.regret)
    lean.save(tmp_path / "run")
    sampled.save(tmp_path / "sampled")
    loaded = umab.Result.load(tmp_path / "run")
    for result in (expected, lean, loaded):
        assert same_bits(result.sampled_regret, sampled.regret)
        assert same_bits(result.mean, expected.mean) and same_bits(result.final_regret, expected.final_regret)
    for result in (lean, loaded):
        with pytest.raises(AttributeError, match=r"summary of the expected regret.*keep='all'"):
            _ = result.regret
    assert (loaded.losses.arms, loaded.losses.source, loaded.losses.provenance) == (
        ("a", "b", "c", "d"),
        "a test",
        {"seed": 3},
    )
    assert loaded.losses.digest == losses.digest and loaded.arms.dtype == np.uint8
    for name in ("run", "sampled"):
        with np.load(tmp_path / f"{name}.npz") as arrays:
            assert set(arrays) == {"mean", "sd", "final_regret", "arms", "losses"}


def test_final_regrets_follow_from_arms_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    result = umab.simulate("umab-g-a", LOSSES, n_trials=9, expected=False)
    costs = regret_module.Costs.of(umab.Losses.of(LOSSES))
    for size in (4096, 7, 400):
        monkeypatch.setattr(regret_module, "_ROUNDS_A_PIECE", size)
        np.testing.assert_allclose(costs.final_regret(result.arms), result.regret[:, -1], rtol=1e-12)


def test_a_damaged_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    umab.simulate("uniform", LOSSES, n_trials=3).save(path)
    arrays, about = (tmp_path / name for name in ("run.npz", "run.json"))
    whole, text = arrays.read_bytes(), about.read_text()
    arrays.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"run\.npz' .*run\.json'"):
        umab.Result.load(path)
    arrays.write_bytes(whole)
    about.write_text(text[: len(text) // 2])
    with pytest.raises(ValueError, match=r"run\.json' .*not a complete"):
        umab.Result.load(path)
    about.write_text(text.replace('"version": 2', '"version": 3'))
    with pytest.raises(ValueError, match=r"version 3 .*version 2"):
        umab.Result.load(path)
    about.write_text("{}")
    with pytest.raises(ValueError, match=r"run\.json' .*not a saved result"):
        umab.Result.load(path)
