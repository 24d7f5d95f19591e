"""Ranks among earlier losses, and bets on them: exact counts, fair bets, nothing but the order, few false alarms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_umab_w import cell
from umab.algorithms.umab_w import UMABW
from umab.algorithms.watch import CAUTION, SURPRISE, watched
from umab.maths import ranks
from umab.maths.ranks import SEEN, bet, blank_record, evidence_down, evidence_up, forget, note, ranked
from umab.testing import EXTREMES, Array

BETS = {
    ranks.LINEAR_UP: "linear up",
    ranks.EXTREME_UP: "extreme up",
    ranks.LINEAR_DOWN: "linear down",
    ranks.EXTREME_DOWN: "extreme down",
}
N_MARKS = UMABW().marks

few_values = st.integers(-3, 3).map(float)
many_values = st.floats(allow_nan=False, allow_infinity=False)


class History:
    """What is kept of the losses of an arm."""

    def __init__(self, losses: Sequence[float] = (), n_marks: int = N_MARKS) -> None:
        start = UMABW(marks=n_marks).init(1)
        self.marks, self.counts, self.record = start.marks[0], start.counts[0], blank_record()
        for loss in losses:
            self.add(loss)

    def rank(self, loss: float) -> tuple[float, float]:
        return ranked(self.marks, self.counts, self.record, loss)

    def add(self, loss: float) -> None:
        if self.record[SEEN] > 0.0:
            bet(self.record, *self.rank(loss))
        note(self.marks, self.counts, self.record, loss)

    def factors(self, loss: float) -> list[float]:
        """Return by what each bet multiplies the wealth if this loss is next."""
        record = list(self.record)
        bet(record, *self.rank(loss))
        return [record[at] / (self.record[at] + weight(self.record[SEEN])) for at in BETS]


def weight(n_losses: float) -> float:
    return 0.93 / ((n_losses + 2.0) * math.log(n_losses + 2.0) ** 2)


def gaps(losses: Sequence[float]) -> list[float]:
    """Return one loss for each of the places between distinct losses, below them and above them."""
    ordered = sorted(losses)
    between = [(low + high) / 2 for low, high in itertools.pairwise(ordered)]
    return [ordered[0] - 1.0, *between, ordered[-1] + 1.0]


# Ranks.


@given(losses=st.lists(few_values | many_values, min_size=1, max_size=N_MARKS - 1), loss=few_values | many_values)
def test_ranks_are_exact_while_all_losses_are_kept(losses: list[float], loss: float) -> None:
    below, above = History(losses).rank(loss)
    assert (below, above) == (sum(each < loss for each in losses), sum(each > loss for each in losses))


@given(
    losses=st.lists(few_values | many_values, min_size=1, max_size=120),
    loss=few_values | many_values,
    n_marks=st.integers(2, 16),
)
def test_later_losses_are_tied_if_they_are_between_the_same_marks(
    losses: list[float], loss: float, n_marks: int
) -> None:
    below, above = History(losses, n_marks).rank(loss)
    marks = sorted(losses[:n_marks])
    cells, own = [cell(marks, each) for each in losses[n_marks:]], cell(marks, loss)
    assert below == sum(each < loss for each in marks) + sum(each < own for each in cells)
    assert above == sum(each > loss for each in marks) + sum(each > own for each in cells)
    assert below <= sum(each < loss for each in losses) and above <= sum(each > loss for each in losses)


@given(losses=st.lists(few_values, min_size=N_MARKS, max_size=200), loss=few_values)
def test_ranks_of_few_values_are_exact_for_ever(losses: list[float], loss: float) -> None:
    """If every value is a mark, nothing is lost by counting."""
    first = [float(value) for value in range(-3, 4)]
    below, above = History([*first, *losses]).rank(loss)
    everything = [*first, *losses]
    assert (below, above) == (sum(each < loss for each in everything), sum(each > loss for each in everything))


def test_forgetting_is_starting_anew() -> None:
    random = np.random.default_rng(0)
    old = History(random.normal(size=200).tolist())
    forget(old.record)
    assert old.record == blank_record()
    new = History()
    for loss in random.normal(size=200).tolist():
        old.add(loss)
        new.add(loss)
        assert old.record == new.record and old.rank(0.1) == new.rank(0.1)


# Bets.


@given(seed=st.integers(0, 2**32 - 1), n_losses=st.integers(1, N_MARKS))
def test_bets_are_fair(seed: int, n_losses: int) -> None:
    """Their mean over the equally likely ranks is 1: nothing is won or lost by betting while nothing changes."""
    losses = np.random.default_rng(seed).normal(size=n_losses).tolist()
    history = History(losses)
    means = np.mean([history.factors(gap) for gap in gaps(losses)], axis=0)
    np.testing.assert_allclose(means, 1.0, rtol=1e-13)


@given(seed=st.integers(0, 2**32 - 1), n_losses=st.integers(2, 300), n_marks=st.integers(2, 64))
@settings(max_examples=50)
def test_with_marks_the_linear_bets_are_fair_and_the_others_do_not_gain(seed: int, n_losses: int, n_marks: int) -> None:
    """The mean is over the places among all losses, also those that are only counted."""
    losses = np.random.default_rng(seed).normal(size=n_losses).tolist()
    history = History(losses, n_marks)
    means = dict(
        zip(BETS.values(), np.mean([history.factors(gap) for gap in gaps(losses)], axis=0).tolist(), strict=True)
    )
    assert means["linear up"] == pytest.approx(1.0, abs=1e-12)
    assert means["linear down"] == pytest.approx(1.0, abs=1e-12)
    assert means["extreme up"] < 1.0 + 1e-12 and means["extreme down"] < 1.0 + 1e-12


@given(losses=st.lists(few_values, min_size=1, max_size=80))
@settings(max_examples=50)
def test_with_ties_the_linear_bets_are_fair_and_the_others_do_not_gain(losses: list[float]) -> None:
    """Each of the losses is equally likely to be the last; every value is a mark, so that ranks are exact."""
    losses = [*losses, *losses]
    factors = {}
    for last in set(losses):
        others = sorted(losses)
        others.remove(last)
        distinct = sorted(set(others))
        for each in distinct:
            others.remove(each)
        factors[last] = History([*distinct, *others]).factors(last)
    means = np.mean([factors[each] for each in losses], axis=0)
    np.testing.assert_allclose(means[[0, 2]], 1.0, rtol=1e-12)
    assert (means < 1.0 + 1e-12).all()


def test_the_weights_sum_to_less_than_one() -> None:
    """The sum up to c, and for the rest the integral of 0.93/(x ln² x) from c + 2 on, 0.93/ln(c + 2)."""
    first = 100_000
    total = math.fsum(weight(c) for c in range(1, first + 1)) + 0.93 / math.log(first + 2)
    assert 0.95 < total < 1.0
    record = blank_record()
    record[SEEN] = 1000.0
    bet(record, 500.0, 500.0)  # in the middle, the linear bets are worth 1
    assert record[ranks.LINEAR_UP] == record[ranks.LINEAR_DOWN] == pytest.approx(weight(1000.0), rel=1e-14)


def test_the_bets_by_hand() -> None:
    """The second loss is above the first: 3/2 and 2/(1 + √½), against 1/2 and 2/(1 + √½)/√2."""
    history, w = History([5.0, 6.0]), weight(1)
    assert history.record[:2] == [2.0, 1.0 + math.sqrt(0.5)]
    top = 2.0 / (1.0 + math.sqrt(0.5))
    assert history.record[2:] == pytest.approx([1.5 * w, top * w, 0.5 * w, top / math.sqrt(2.0) * w], rel=1e-15)
    assert evidence_up(history.record) == pytest.approx(w * (1.5 + top) / 2, rel=1e-15)
    assert evidence_down(history.record) == pytest.approx(w * (0.5 + top / math.sqrt(2.0)) / 2, rel=1e-15)
    exact = sum(Fraction(1, 2) * (r + 1) for r in range(3)) / 3  # of the linear bet after two losses: 1/2, 1, 3/2
    assert exact == 1


MONOTONE: dict[str, Callable[[Array], Array]] = {
    "cube": lambda x: x**3,
    "exponential": lambda x: np.exp(5 * x),
    "huge": lambda x: 1e307 * np.tanh(x),
    "tiny": lambda x: np.ldexp(x, -1000),
    "moved": lambda x: x + 1.0,
}


@pytest.mark.parametrize("transform", MONOTONE.values(), ids=MONOTONE.keys())
def test_only_the_order_of_the_losses_matters(transform: Callable[[Array], Array]) -> None:
    losses = np.round(np.random.default_rng(1).normal(size=300), 3)
    moved = transform(losses)
    assert (np.argsort(losses, kind="stable") == np.argsort(moved, kind="stable")).all()
    first, second = History(), History()
    for loss, other in zip(losses.tolist(), moved.tolist(), strict=True):
        first.add(loss)
        second.add(other)
        assert first.record == second.record


@given(st.lists(few_values, min_size=1, max_size=200))
def test_up_and_down_are_mirror_images(losses: list[float]) -> None:
    first, second = History(losses), History([-loss for loss in losses])
    if set(losses[:N_MARKS]) >= set(losses):  # between marks too, but rounding differs
        assert first.record[2:4] == second.record[4:6] and first.record[4:6] == second.record[2:4]


@given(st.lists(st.sampled_from(EXTREMES.tolist()) | few_values, max_size=300), st.integers(0, 8))
def test_evidence_stays_positive_and_finite(losses: list[float], doubt: int) -> None:
    history = History()
    for at, loss in enumerate(losses):
        watched(history.marks, history.counts, history.record, loss, at % 2 == 0, 3.0, float(doubt))
        assert all(math.isfinite(each) for each in history.record)
        assert history.record[SEEN] <= 1.0 or min(history.record[2:]) > 0.0


@pytest.mark.parametrize("doubt", [0.0, 1.0, 8.0])
def test_a_change_is_noticed_when_the_evidence_is_enough_and_then_forgotten(doubt: float) -> None:
    """Losses of 0 and then of 1: even the greatest evidence that is ever asked for is reached."""
    n = 5.0
    enough = min((SURPRISE + math.log(n)) * CAUTION**doubt, 600.0)
    leader, other = History(), History()
    found = []
    for t, loss in enumerate([0.0] * 8000 + [1.0] * 4000):
        before = list(leader.record)
        ranks = leader.rank(loss)
        noticed, rank = watched(leader.marks, leader.counts, leader.record, loss, True, n, doubt)
        # That another arm becomes worse does not matter, but it is forgotten too.
        assert watched(other.marks, other.counts, other.record, loss, False, n, doubt) == (False, rank)
        assert leader.record == other.record
        if before[SEEN]:
            assert rank == (ranks[0] - ranks[1]) / before[SEEN]
            bet(before, *ranks)
            assert noticed == (math.log(evidence_up(before)) >= enough)
        if noticed:
            found.append(t)
            assert leader.record == blank_record()  # it starts anew with the next loss
    assert len(found) == 1 and found[0] >= 8000


# False alarms, and how soon a change is found.

SOURCES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "t(2)": lambda random, shape: random.standard_t(2, size=shape),
    "coins, 0.5": lambda random, shape: (random.random(shape) < 0.5).astype(float),
    "coins, 0.02": lambda random, shape: (random.random(shape) < 0.02).astype(float),
}


def crossings(table: Array, enough: float) -> tuple[float, float]:
    """Return the share of histories, one per row, whose evidence is ever enough: upwards and downwards."""
    ups = downs = 0
    for losses in table.tolist():
        history, up, down = History(), False, False
        for loss in losses:
            history.add(loss)
            up |= evidence_up(history.record) >= enough
            down |= evidence_down(history.record) >= enough
        ups, downs = ups + up, downs + down
    return ups / len(table), downs / len(table)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_false_alarms_are_as_rare_as_promised(source: Callable[..., Array]) -> None:
    """At most 1/10 in 300 losses for evidence of 10, in each direction; 4.75 standard errors are allowed."""
    n_histories, enough = 500, 10.0
    shares = crossings(source(np.random.default_rng(7), (n_histories, 300)), enough)
    assert max(shares) < 1.0 / enough + 4.75 * math.sqrt(1.0 / enough / n_histories)
    assert max(shares) > 0.0  # the test sees evidence


def test_a_change_is_found_within_the_rounds_that_were_predicted() -> None:
    """A shift by one standard deviation after 1,000 losses, where evidence grows by 0.41 per loss.

    The prediction is for the mean; it must be met within 4.75 standard errors and 15%, as growth is not steady.
    """
    n, before = 5, 1000
    needed = SURPRISE + math.log(n) - math.log(weight(before)) + math.log(2)
    delays = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        history = History(random.normal(size=before).tolist())
        kept = history.marks, history.counts, history.record
        delays.append(next(t for t in range(1, 400) if watched(*kept, random.normal(1.0), True, float(n), 0.0)[0]))
    error = np.std(delays, ddof=1) / math.sqrt(len(delays))
    assert np.mean(delays) - 4.75 * error < 1.15 * needed / 0.41
    assert np.mean(delays) + 4.75 * error > 0.85 * needed / 0.41


def test_losses_with_few_values_are_ranked_exactly_however_many_there_are() -> None:
    history = History([1.0] * 1000, 64)
    assert history.rank(0.0) == (0, 1000) and history.rank(2.0) == (1000, 0) and history.rank(1.0) == (0, 0)
