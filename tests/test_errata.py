"""Errata that are about the text of a paper rather than about a run: what can be computed about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pages.theory import COINS, SKIPS, SMALL, case_of, of_hazan_and_kale, of_table_1, paid_in, times_a_million

import reference_banker
import umab
from umab.engine.interpreted import play
from umab.theory.bounds import bound
from umab.theory.trajectory import follow

PAGE = " ".join((Path(__file__).parent.parent / "docs" / "errata.md").read_text().split())


@pytest.mark.parametrize("signed", [False, True])
def test_investments_add_up_only_if_skipped_rounds_keep_their_savings(signed: bool) -> None:
    """Σb_s = Σv_s + Σσ_s over the open rounds, with late feedback, on losses some of which are skipped."""
    random = np.random.default_rng(1)
    losses = (np.abs(random.standard_t(1.5, size=60)) * 3.0).tolist()
    arms, delays = random.integers(3, size=60).tolist(), random.integers(9, size=60).tolist()
    for lost in (False, True):
        run = reference_banker.banker(signed, arms, losses, delays, 3, horizon=60, lost=lost)
        assert 2 <= sum(run.skipped) < 60
        missing = np.cumsum(run.invested) - run.savings - run.at_work
        if lost:
            assert missing[-1] == pytest.approx(np.dot(run.sigma, run.skipped)) and missing[-1] > 10.0
        else:
            np.testing.assert_allclose(missing, 0.0, atol=1e-12 * sum(run.invested))


def test_what_a_lost_skip_costs_is_on_the_page() -> None:
    """Without delays, what is paid in is the last investment, if skipped rounds keep theirs."""
    usable, lost = (paid_in(skipped, SKIPS) for skipped in ("usable", "lost"))
    *_, before, _ = play(umab.BankerOMD(horizon=2), [[each, each] for each in SKIPS])
    assert usable == pytest.approx(before.state.weight / before.state.unit, rel=1e-12)
    few = reference_banker.banker(True, [0] * 9, [0.5] * 5 + [1.5, 9.0, 0.0, 0.0], [0] * 9, 2, horizon=2, lost=True)
    assert paid_in("lost", [0.5] * 5 + [1.5, 9.0, 0.0, 0.0]) == pytest.approx(sum(few.invested))
    assert f"Σb is {lost:.1f} in place of {usable:.1f}" in PAGE and lost > 2.0 * usable


def test_table_1_on_hazan_and_kale() -> None:
    """The printed norm is not that of their corollary: it moves with the mean, and lacks n²."""
    printed, theirs = of_hazan_and_kale(COINS)
    assert f"it is {printed:.0f}, where n²√Q_T alone is {theirs:.0f}" in PAGE
    moved = of_hazan_and_kale(COINS + 1.0)
    assert moved[0] > 1.5 * printed and moved[1] == pytest.approx(theirs, rel=1e-12)
    assert of_hazan_and_kale(np.tile([1.0, 0.0], (100, 1))) == (10.0, 0.0)
    ratios = [np.divide(*of_hazan_and_kale(COINS[:, :n])[::-1]) for n in (2, 4, 8)]
    assert np.diff(np.log2(ratios)) == pytest.approx([2.0, 2.0], abs=0.02)


def test_table_1_drops_a_term_of_theorem_2_that_is_the_largest_for_small_losses() -> None:
    left, dropped = of_table_1(SMALL)
    assert f"it is {dropped:.2f}, and they are {left:.3f} together" in PAGE and dropped > 30.0 * left
    found = bound("umab-g-a", SMALL)
    assert found.rate == pytest.approx(left + dropped) and found.formula.startswith("(1 + ℓ∞) √(n Σ‖ℓ_t‖∞)")


def test_the_bounds_of_umab_g_are_not_linear_in_the_size_of_large_losses() -> None:
    """Where losses are a million times as large, they would be a million times as large, as that of UMAB-NN is."""
    adaptive, fixed = (times_a_million(name) for name in ("umab-g-a", "umab-g"))
    assert f"the adaptive bound is {adaptive:.2g} times as large, and the other one {fixed:.2g} times" in PAGE
    assert adaptive > 1e8 and fixed > 1.05e6
    assert times_a_million("umab-nn") == pytest.approx(1e6, rel=1e-12)
    # Where it dominates, a term of the adaptive bound grows like the size to the power of 3/2.
    losses = np.random.default_rng(0).normal(size=(1000, 3))
    large, larger = (bound("umab-g-a", factor * losses).repaired for factor in (1e12, 1e16))
    assert large is not None and larger is not None
    assert np.log10(larger / large) == pytest.approx(6.0, abs=0.2)


def test_umab_nn_is_uniform_until_a_loss_is_not_0() -> None:
    """There the rate of the paper is infinite, and what it minimizes is 0."""
    learner = umab.Learner("umab-nn", arms=3)
    for arm in (0, 1, 1, 2):
        assert learner.probabilities().tolist() == [1.0 / 3.0] * 3
        learner.update(arm, 0.0)
    learner.update(0, 1.0)
    assert learner.probabilities()[0] < 1.0 / 3.0


def test_smaller_slips() -> None:
    # 2(p − 1/(2n)) is not 2p' in round 1, where p = p' = 1/n; and ‖ℓ̂‖∞ is n times the loss there.
    path = follow(umab.UMABG(), [[1e6, 1e6]], [[0]])
    p, drawn_from = path.p[0, 0, 0], path.drawn_from[0, 0, 0]
    assert 2 * (p - 1 / 4) < 2 * drawn_from and path.estimate[0, 0] == 2e6
    # p_{t+1}/p_t is above 3.
    largest = 6 * case_of("umab-g", "Lemma 3, next p").certified.ratio
    assert largest > 3.5 and f"p_{{t+1}}/p_t can be {largest:.1f}" in PAGE
    # L_k + l/x_k ≥ L_1/2 is false for η = 1, l = −1/2 and L = (10, 10/9), where x = 1/L; with L_k/2 it holds.
    first, kth = 10.0, 10.0 / 9.0
    assert 1 / first + 1 / kth == pytest.approx(1.0) and kth / 2 <= kth - 0.5 * kth < first / 2
    # c_t depends on the draws.
    offsets = follow(umab.UMABG(), [[0.0, 1.0]] * 400, [[0] * 400, [1] * 400]).offsets
    assert np.abs(offsets[0]).max() == 0.0 and np.abs(offsets[1]).max() == 1.0


def test_the_constant_of_umab_g_is_what_lemma_3_needs() -> None:
    """η_t ≤ rate/|C_t| and |ℓ'_t| ≤ 2|C_t|, so 2η_t|ℓ'_t| ≤ 1 for a rate of 1/4; a larger rate breaks it."""
    losses, arms = [[-2.0, -2.0]], [[0]]  # C₁ = −1, so nothing is clipped
    for rate, most in ((0.25, 1.0), (0.26, 1.04)):
        path = follow(umab.UMABG(rate=rate), losses, arms)
        assert float(2 / path.inverse_rate[0, 0] * abs(path.clipped[0, 0])) == pytest.approx(most)
