"""Errata that are about the text of a paper rather than about a run: what can be computed about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pages.theory import COINS, SKIPS, of_hazan_and_kale, paid_in

import reference_banker
import umab
from umab.engine.interpreted import play

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
