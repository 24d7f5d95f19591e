"""What follows from a coin: runs along given arms and coins, exact expectations, the service, and every runtime."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import umab
from helpers import state_of
from toys import Capped, PatientTosser, Tosser
from umab.engine.compiled import online_kernels
from umab.engine.exact import has_same_bits_everywhere
from umab.engine.interpreted import play, select
from umab.engine.layout import layout_of
from umab.maths.simplex import draw, rest_of
from umab.simplex import Vector, uniform
from umab.testing import Array
from umab.theory import certificates, theorems
from umab.theory.search import _mutate, exact_regret, search
from umab.theory.statements import Sides, Statement, Steps
from umab.theory.theorems import THEOREM_R, theorem_of
from umab.theory.trajectory import follow

LOSSES = np.random.default_rng(3).normal([0.0, 0.5, 1.0], 1.0, size=(120, 3)) * 3.0


class LeaningState(NamedTuple):
    probabilities: Vector


@dataclass(frozen=True, kw_only=True)
class Leaning(umab.Policy):
    """Draws each arm alike until a coin shows 1; then the arm of that draw has ¾, until another coin does."""

    def init(self, n_arms: int) -> LeaningState:
        return LeaningState(uniform(n_arms))

    @staticmethod
    def coin(parameters: Any, state: LeaningState, arm: int) -> float:
        return 0.25 if arm == 0 else 0.75

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: LeaningState, arm: int, loss: float, probability: float, coin: int
    ) -> LeaningState:
        if coin == 1:
            n_others = len(state.probabilities) - 1
            for k in range(len(state.probabilities)):
                state.probabilities[k] = 0.25 / n_others if k != arm else 0.75 if n_others else 1.0
        return state


@dataclass(frozen=True, kw_only=True)
class Stubborn(Leaning):
    """A coin that shows 1 for the first arm only, and does so always; anything else is an error."""

    @staticmethod
    def coin(parameters: Any, state: LeaningState, arm: int) -> float:
        return 1.5 if arm == 0 else -0.5  # as good as 1 and 0

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: LeaningState, arm: int, loss: float, probability: float, coin: int
    ) -> LeaningState:
        assert coin == (1 if arm == 0 else 0)
        return Leaning.update(parameters, state, arm, loss, probability, coin)


def enumerated(policy: Any, losses: Array) -> float:
    """Return the expected regret as plain recursion over arms and coins has it, of the losses that are drawn."""
    n_rounds, n_arms = losses.shape
    parameters = policy.parameters_for(n_arms)

    def rest(draws: list[tuple[int, int]]) -> float:
        state = policy.init(n_arms)
        for t, (arm, coin) in enumerate(draws):
            probability = state.probabilities[arm]
            state, ticket = select(policy, parameters, state, arm)
            state = policy.update(parameters, state, arm, float(losses[t, arm]), probability, *ticket, coin)
        if len(draws) == n_rounds:
            return 0.0
        total, p = 0.0, list(state.probabilities)
        for arm in range(n_arms):
            heads = policy.coin(parameters, state, arm)
            for coin, chance in ((1, heads), (0, 1.0 - heads)):
                total += p[arm] * chance * (losses[len(draws), arm] + rest([*draws, (arm, coin)]))
        return total

    return rest([]) - float(losses.sum(axis=0).min())


def test_the_exact_regret_of_a_policy_with_a_coin_is_what_one_computes_by_hand() -> None:
    """The first round costs ½. Then arm 0 has ¾ with probability ½·¼ and ¼ with probability ½·¾, else ½: 7/16."""
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    second = half * quarter * 3 * quarter + half * 3 * quarter * quarter + half * half
    assert second == Fraction(7, 16)
    exact = exact_regret(Leaning(), [[1.0, 0.0], [1.0, 0.0]])
    assert exact == (float(half + second), None, None)


@pytest.mark.parametrize("policy", [Tosser(), PatientTosser(), Capped(Tosser(), limit=0.5), Leaning()], ids=repr)
@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (5, 1)])
def test_the_exact_regret_is_that_of_an_enumeration_of_arms_and_coins(policy: umab.Policy, shape: Any) -> None:
    losses = np.random.default_rng(1).normal(size=shape)
    exact = exact_regret(policy, losses).regret
    assert exact == pytest.approx(enumerated(policy, losses), rel=1e-12, abs=1e-12)
    result = umab.simulate(policy, losses, n_trials=20_000, expected=True)
    assert abs(result.mean[-1] - exact) <= 4.5 * result.se[-1] + 1e-12


def test_coins_that_cannot_show_a_side_are_left_out() -> None:
    """The first arm takes ¾ for good as soon as it is drawn: 1 + ½·¾ + ½·½ of two rounds."""
    assert exact_regret(Stubborn(), [[1.0, 0.0], [1.0, 0.0]]).regret == 0.5 + 0.5 * 0.75 + 0.5 * 0.5
    path = follow(Stubborn(), [[1.0, 0.0]] * 2, [[0, 0], [0, 0], [1, 0]], [[1, 1], [1, 0], [1, 1]])
    assert path.log_probability[1:].tolist() == [-np.inf, -np.inf] and path.probability[0] == 0.375
    assert np.isnan(path.drawn_from[:, :, 0]).tolist() == [[False] * 3, [False, False, True], [False, True, True]]


def test_too_many_sequences_of_arms_and_coins_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 100000 sequences of draws, .* 262144"):
        exact_regret(Tosser(), np.zeros((9, 2)))


@pytest.mark.parametrize("policy", [Tosser(), Capped(PatientTosser())])
def test_a_run_along_the_arms_and_coins_of_a_simulation_is_that_simulation(policy: Any) -> None:
    result = umab.simulate(policy, LOSSES, n_trials=3, seed=5)
    path = follow(policy, LOSSES, result.arms, result.coins)
    for trial in range(3):
        rounds = play(policy, LOSSES, seed=5, trial=trial)
        assert path.drawn_from[trial, 1:].tolist() == [round.state.probabilities[:] for round in rounds]
    np.testing.assert_array_equal(np.array(path.losses.astype(float)), np.broadcast_to(LOSSES, (3, 120, 3)))
    assert path.coins is not None and path.heads is not None
    each = np.where(path.coins == 1, path.heads, 1 - path.heads) * path.of_arm(path.drawn_from)
    np.testing.assert_allclose(path.log_probability.astype(float), np.log(each).sum(axis=1).astype(float), rtol=1e-12)
    assert np.isnan(path.inverse_rate).all() and np.isnan(path.sums).all()


def test_arms_without_their_coins_and_coins_of_nobody_are_refused() -> None:
    arms = [[0, 1, 0]]
    with pytest.raises(ValueError, match="coins must be given too"):
        follow(Tosser(), LOSSES[:3], arms)
    for coins in ([[0, 1]], [[0, 1, 2]], [[0, 1, -1]]):
        with pytest.raises(ValueError, match="0 or 1 for each of 1 runs × 3 rounds"):
            follow(Tosser(), LOSSES[:3], arms, coins)
    with pytest.raises(ValueError, match="umab-s has none"):
        follow(umab.UMABS(), LOSSES[:3], arms, arms)


def prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be a theorem about `Tosser`."""
    of_toys: dict[type[umab.Policy], str] = {Tosser: "Theorem T"}
    monkeypatch.setattr(theorems, "_OF", {**theorems._OF, **of_toys})


@dataclass(frozen=True, kw_only=True)
class Sided(Leaning):
    """A coin that always shows 1 for the first arm, and never for another."""

    @staticmethod
    def coin(parameters: Any, state: LeaningState, arm: int) -> float:
        return 1.0 if arm == 0 else 0.0

    @staticmethod
    def update(  # type: ignore[override]
        parameters: Any, state: LeaningState, arm: int, loss: float, probability: float, coin: int
    ) -> LeaningState:
        return state


@pytest.mark.parametrize("n_arms", [1, 3, 10])
def test_a_coin_never_shows_what_has_no_chance_also_where_rounding_decides_on_the_arm(n_arms: int) -> None:
    """Ten times 0.1 is below 1: above it, the likeliest arm is drawn, and the number that is left is cut to below 1."""
    select, _ = online_kernels(Sided())
    layout = layout_of(Sided())
    fallen_back = False
    for u in (0.0, 0.05, 0.5, 0.9, 1.0 - 2.0**-53):
        buffer = layout.start(Sided(), n_arms)
        arm, probability, coin = select(buffer, n_arms, u, -1, np.empty(0))
        p = uniform(n_arms)
        assert (arm, probability, coin) == (draw(p, u), p[arm], int(arm == 0))
        fallen_back |= arm == 0 and u > p[0]
    assert fallen_back == (n_arms == 10)


@dataclass(frozen=True, kw_only=True)
class Even(Sided):
    """A fair coin, beside probabilities that are exact in binary."""

    def init(self, n_arms: int) -> LeaningState:
        return LeaningState([0.25, 0.25, 0.5])

    @staticmethod
    def coin(parameters: Any, state: LeaningState, arm: int) -> float:
        return 0.5


def test_what_is_left_of_a_draw_is_counted_from_where_its_arm_begins() -> None:
    select, _ = online_kernels(Even())
    for arm, (begin, p) in enumerate([(0.0, 0.25), (0.25, 0.25), (0.5, 0.5)]):
        for rest in (0.0, 0.25, 0.5, 0.75):
            u = begin + rest * p
            assert rest_of([0.25, 0.25, 0.5], u, arm) == rest
            buffer = layout_of(Even()).start(Even(), 3)
            assert select(buffer, 3, u, -1, np.empty(0)) == (arm, p, int(rest < 0.5))


def test_among_some_arms_the_coin_is_that_of_the_account() -> None:
    """Its chance is that of the account, and what is left of the number that decided on the account decides on it."""
    learner = umab.Learner(Sided(), ["a", "b", "c"], seed=0)
    draws = [learner.release(learner.select(among=["b", "c"])) for _ in range(100)]
    assert {(draw.account, draw.coin) for draw in draws} == {("a", 1), ("b", 0), ("c", 0)}
    tosser = umab.Learner(Leaning(), ["a", "b", "c"], seed=0)
    draws = [tosser.release(tosser.select(among=["b", "c"])) for _ in range(4000)]
    for account, chance in (("a", 0.25), ("b", 0.75), ("c", 0.75)):
        for arm in ("b", "c"):
            coins = [draw.coin for draw in draws if (draw.account, draw.arm) == (account, arm)]
            if account in ("a", arm):
                assert abs(np.mean(coins) - chance) < 4.5 * np.sqrt(0.1875 / len(coins))
            else:
                assert not coins


def test_a_loss_of_an_arm_that_was_not_drawn_has_no_coin() -> None:
    learner, other = (umab.Learner(Tosser(), ["a", "b"], seed=seed) for seed in (0, 1))
    learner.update("a", 1.0)
    learner.absorb([(other.select(), 1.0), (other.select(), 2.0)])
    learner.update(other.select(), 1.0, foreign="learn")
    assert state_of(learner).n_without == 4.0
    learner.update(learner.select(), 1.0)
    assert state_of(learner).n_without == 4.0


@dataclass(frozen=True, kw_only=True)
class Inexact(Leaning):
    @staticmethod
    def coin(parameters: Any, state: LeaningState, arm: int) -> float:
        return math.exp(-state.probabilities[arm])


def test_a_coin_counts_where_policies_promise_the_same_bits() -> None:
    assert has_same_bits_everywhere(Leaning()) and not has_same_bits_everywhere(Inexact())


def as_often(sides: Any) -> Statement:
    """Return a statement about the coins of a run."""
    return Statement("heads", "here", "the coins show 1 at most so often", "as proved", sides, ("Theorem T",))


def test_a_theorem_about_a_policy_with_a_coin_is_certified_along_arms_and_coins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def says(steps: Steps) -> Sides:
        path = steps.of
        assert path.coins is not None
        seen.append(path)
        heads = np.cumsum(path.coins, axis=1).astype(np.longdouble)
        return Sides(heads, np.arange(1, path.n_rounds + 1) + 0 * heads, heads)

    with pytest.raises(TypeError, match="the statements are about"):
        umab.theory.certify(Tosser(), LOSSES, n_trials=2)
    prove(monkeypatch)
    monkeypatch.setattr(certificates, "EVERY", (*certificates.EVERY, as_often(says)))
    row = umab.theory.certify(Tosser(), LOSSES, n_trials=3, seed=5)[-1]
    assert (row.id, row.verdict, row.ratio) == ("heads", "holds", 1.0)
    result = umab.simulate(Tosser(), LOSSES, n_trials=3, seed=5)
    assert seen[0].arms.tolist() == result.arms.tolist() and seen[0].coins.tolist() == result.coins.tolist()


def test_cases_that_change_have_other_coins_if_the_policy_has_them() -> None:
    for policy, before, after in ((Tosser(), 0, {0, 1}), (umab.UMABS(), -1, {-1})):
        losses, arms, rounds = np.ones((80, 3, 2)), np.zeros((80, 3), dtype=np.intp), np.ones((80, 3), dtype=np.intp)
        coins = np.full_like(arms, before)
        _mutate(np.random.default_rng(0), losses, arms, coins, rounds, policy)
        assert set(coins.ravel().tolist()) == after


def test_a_search_for_the_worst_case_turns_coins_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst run is one in which all coins show 1, which nobody has to draw by chance."""

    def says(steps: Steps) -> Sides:
        path = steps.of
        assert path.coins is not None
        share = path.coins.mean(axis=1, keepdims=True).astype(np.longdouble)
        return Sides(share, np.ones_like(share), share)

    prove(monkeypatch)
    found = search(as_often(says), Tosser())
    assert found.certified.ratio == 1.0 and {block.coin for block in found.blocks} == {1}


@dataclass(frozen=True, kw_only=True)
class Flipping(umab.UMABS):
    @staticmethod
    def coin(parameters: Any, state: Any, arm: int) -> float:
        return 0.5


def test_a_theorem_is_not_about_a_policy_that_was_given_a_coin() -> None:
    assert theorem_of(umab.UMABS()) == theorem_of(umab.Centred(umab.UMABS())) == THEOREM_R
    assert theorem_of(Flipping()) == theorem_of(umab.Centred(Flipping())) == ""
    for delays in (None, 3):
        with pytest.raises(TypeError, match="the statements are about"):
            umab.theory.certify(Flipping(), LOSSES, delays=delays, n_trials=2)


def test_all_sequences_together_have_probability_1() -> None:
    draws = np.array(list(itertools.product(range(4), repeat=4)))
    path = follow(Tosser(), LOSSES[:4, :2], draws // 2, draws % 2)
    assert float(path.probability.sum()) == pytest.approx(1.0, rel=1e-15)
    assert float(np.exp(path.log_probability).sum()) == pytest.approx(1.0, rel=1e-15)
