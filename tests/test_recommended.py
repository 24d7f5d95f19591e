"""Both recommended policies, and what they are made of: UMAB-S, Centred, and the two together."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import umab
from helpers import same_bits, state_of
from umab.algorithms import registry
from umab.algorithms.base import Policy
from umab.algorithms.registry import record_of
from umab.algorithms.umab_s import UMABS
from umab.checks import LARGEST
from umab.engine.layout import layout_of
from umab.simplex import raise_to
from umab.testing import Array, check_policy, forced, forced_interpreted

ARMS = [0, 1, 2, 0, 1, 0, 2]
LOSSES = [0.5, -1.0, 5.0, -0.25, 2.5, -3.0, 0.75]
RECOMMENDED = [umab.recommended(), umab.recommended(changing=False)]
STUDIED = ["learning=squares", "exploration=added", "exploration=none", "clipping=none", "initial_scale=1"]


@pytest.mark.parametrize("n_arms", [2, 3, 10])
@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e250])
@pytest.mark.parametrize("rate", [0.3, 3.0, 30.0])
def test_umab_s_against_its_definition(n_arms: int, scale: float, rate: float) -> None:
    """On losses with heavy tails, so that some are clipped; see the next test."""
    random = np.random.default_rng(n_arms)
    arms = random.integers(n_arms, size=40)
    losses = np.clip(scale * random.standard_t(1.5, size=40), -1e300, 1e300)
    policy = UMABS(rate=rate)
    rows = forced(policy, arms, losses, n_arms)
    np.testing.assert_allclose(rows, reference.umab_s(policy, arms.tolist(), losses.tolist(), n_arms), rtol=1e-10)


def test_large_negative_losses_are_clipped_and_charged() -> None:
    arms, losses = [0, 1, 2, 1], [1.0, 1.0, 1.0, -1000.0]
    clipped, whole = (forced(policy, arms, losses, 3) for policy in (UMABS(), UMABS(clipping="none")))
    assert same_bits(clipped[:4], whole[:4])
    assert clipped[4, 1] < whole[4, 1]
    assert clipped[4, 1] == clipped[4].max()  # it is the likeliest all the same
    learners = [umab.Learner(UMABS(), 3) for _ in range(2)]
    for learner, last in zip(learners, (-1000.0, -2000.0), strict=True):
        for arm, loss in zip(arms, [*losses[:3], last], strict=True):
            learner.update(arm, loss)
    first, second = (state_of(each) for each in learners)
    # The step is the same, so the charge is all that differs: 3 · 3 · (1 − p') · 1000/8.
    charge = 9.0 * (1.0 - clipped[3, 1]) * 1000.0 / 8.0
    assert second.paid / second.unit - first.paid / first.unit == pytest.approx(charge, rel=1e-12)


@pytest.mark.parametrize("option", STUDIED)
def test_every_ingredient_can_be_switched_off(option: str) -> None:
    policy = umab.policy(f"umab-s:{option}")
    assert policy.for_study and not UMABS(rate=7.0).for_study and not policy.guarantee
    check_policy(policy)
    random = np.random.default_rng(0)
    arms, losses = random.integers(3, size=60), random.standard_t(1.5, size=60)
    assert not np.allclose(forced(policy, arms, losses, 3), forced(UMABS(), arms, losses, 3))


def test_bad_parameters_are_refused() -> None:
    for parameters, message in (
        ({"rate": 0}, "rate=0"),
        ({"rate": 1e-300}, "rate=1e-300"),
        ({"learning": "fast"}, "learning='fast'"),
        ({"exploration": "fixed"}, "exploration='fixed'"),
        ({"clipping": "all"}, "clipping='all'"),
        ({"initial_scale": -1.0}, "initial_scale=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            UMABS(**parameters)


@given(
    p=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30).filter(lambda p: sum(p) > 0.01),
    share=st.floats(0.01, 1.0),
)
def test_raising_to_a_floor(p: list[float], share: float) -> None:
    """The sum stays 1, nothing is below the floor, every arm keeps three quarters, and their order stays."""
    before = np.array(p) / np.sum(p)
    floor = share / len(p) ** 2
    after = before.tolist()
    raise_to(after, floor)
    assert sum(after) == pytest.approx(1.0, abs=1e-12)
    assert min(after) >= floor and (np.array(after) >= 0.75 * before - 1e-15).all()
    order = np.argsort(before)
    assert (np.diff(np.array(after)[order]) >= -1e-15).all()
    if before.min() >= floor:
        assert after == before.tolist()


@pytest.mark.parametrize("inside", ["umab-s", "umab-g-a:rate=4", "sf-mab", "ahb", "banker-omd", "scb"])
def test_centred_is_the_policy_on_centred_losses(inside: str) -> None:
    policy = umab.policy(inside).for_horizon(7)
    with mpmath.workdps(40):
        middle = [float(loss) for loss in reference.centred(LOSSES)]
    np.testing.assert_allclose(
        forced(umab.Centred(policy), ARMS, LOSSES, 3), forced(policy, ARMS, middle, 3), rtol=1e-9
    )


def test_which_policy_is_recommended() -> None:
    assert RECOMMENDED == [umab.UMABW(), umab.Centred(umab.UMABS())]
    assert umab.policy("recommended:changing=False") == umab.recommended(changing=False)
    assert umab.policy("recommended:changing=True") == umab.recommended(changing=True) == umab.recommended()
    assert umab.policy("recommended:changing=False,rate=2") == umab.Centred(umab.UMABS(rate=2.0))
    with pytest.raises(TypeError, match="True or False, but got changing='no'"):
        umab.recommended(changing="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", RECOMMENDED, ids=lambda policy: policy.name)
@given(
    seed=st.integers(0, 2**32 - 1),
    power=st.integers(-300, 300),
    offset=st.floats(-1e3, 1e3),
    factor=st.floats(1e-3, 1e3),
)
@settings(max_examples=50)
def test_neither_units_nor_an_offset_matter_to_the_recommended_policy(
    policy: Policy, seed: int, power: int, offset: float, factor: float
) -> None:
    """A power of two changes not a bit; any other number, and any offset, only rounding."""
    random = np.random.default_rng(seed)
    arms, losses = random.integers(4, size=80), random.normal(size=80)
    rows = forced(policy, arms, losses, 4)
    assert same_bits(forced(policy, arms, np.ldexp(losses, power), 4), rows)
    np.testing.assert_allclose(forced(policy, arms, factor * losses + offset, 4), rows, atol=1e-7)


@pytest.mark.parametrize("policy", RECOMMENDED, ids=lambda policy: policy.name)
def test_a_huge_offset_costs_no_digits_that_the_losses_have(policy: Policy) -> None:
    """Whole numbers and a whole offset: every loss is exact, and so is every difference."""
    random = np.random.default_rng(3)
    arms, losses = random.integers(4, size=300), np.floor(random.normal(scale=50.0, size=300))
    rows = forced(policy, arms, losses, 4)
    assert same_bits(forced(policy, arms, losses + 2.0**50, 4), rows)


@pytest.mark.parametrize("policy", RECOMMENDED, ids=lambda policy: policy.name)
def test_it_needs_neither_range_nor_horizon(policy: Policy) -> None:
    assert not policy.needs_horizon and not policy.needs_range and not policy.for_study
    assert policy.loss_range == (-LARGEST, LARGEST)
    table = np.random.default_rng(0).normal([0.0, 1.0], size=(200, 2))
    long, short = (umab.simulate(policy, table[:n], n_trials=3).arms for n in (200, 90))
    assert (long[:, :90] == short).all()  # what comes after makes no difference


@pytest.mark.parametrize("policy", RECOMMENDED, ids=lambda policy: policy.name)
def test_differences_beyond_the_largest_double_are_survived(policy: Policy) -> None:
    learner = umab.Learner(policy, 2, seed=0)
    for at, loss in enumerate([LARGEST, -LARGEST, LARGEST, -LARGEST, 1.0] * 20):
        learner.update(at % 2, loss)
        assert np.isfinite(learner._core.buffer).all() and (learner.probabilities() > 0.0).all()


def test_what_cannot_be_centred_is_refused() -> None:
    for policy, message in (
        (umab.UMABNN(), "any size and sign.* got umab-nn"),
        (umab.EXP3(), "any size and sign.* got exp3"),
        (umab.AdaHedge(), "one arm .* got adahedge"),
        (umab.Centred(umab.UMABS()), r"centred already.* got centred\(umab-s\)"),
    ):
        with pytest.raises(ValueError, match=message):
            umab.Centred(policy)
    with pytest.raises(TypeError, match=r"umab\.Policy .* got 5"):
        umab.Centred(5)  # type: ignore[arg-type]


def test_what_is_centred_can_be_given_by_name() -> None:
    by_name = umab.Centred("umab-g-a:rate=4")
    assert by_name == umab.Centred(umab.UMABGA(rate=4.0)) and isinstance(by_name.policy, umab.UMABGA)
    with pytest.raises(ValueError, match="'umab-x'; did you mean"):
        umab.Centred("umab-x")
    with pytest.raises(ValueError, match=r"centred already.* got centred\(umab-s\)"):
        umab.Centred("recommended:changing=False")


@pytest.mark.parametrize(
    "policy",
    [
        *RECOMMENDED,
        umab.Centred(umab.UMABG(rate=4.0)),
        umab.Centred(umab.AHB()),
        umab.UMABS(rate=0.5, learning="squares", exploration="added", clipping="none", initial_scale=2.0),
    ],
)
def test_names_and_pickles_give_the_policy_back(policy: Policy) -> None:
    assert umab.policy(policy.name) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert eval(repr(policy), vars(umab)) == policy
    assert hash(policy) == hash(umab.policy(policy.name))


def test_names_of_centred_policies() -> None:
    assert umab.policy("recommended") == umab.recommended()
    with pytest.raises(TypeError, match=r"did you mean recommended\(\)\?"):
        umab.Learner(umab.recommended, 3)  # type: ignore[call-overload]
    assert umab.Centred(umab.UMABGA(rate=4.0)).name == "centred(umab-g-a:rate=4)"
    assert umab.Centred(umab.UMABS()) != umab.Centred(umab.UMABS(rate=1.0))
    for text, message in (
        ("centred(nobody)", "'nobody'"),
        ("centred(umab-nn)", "any size and sign.* got umab-nn"),
        ("centred(umab-s", r"brackets.*'centred\(umab-s'"),
        ("centred(umab-s)x", r"name\(inner\).*'centred\(umab-s\)x'"),
        ("centred", r"centred\(umab-s\), .*'centred'"),
        ("umab-s(umab-g)", r"inside.*'umab-s\(umab-g\)'"),
        ("centred(umab-s):rat=2", "umab-s .*rate.*'rat'"),
    ):
        with pytest.raises(ValueError, match=message):
            umab.policy(text)


def test_centred_passes_on_what_the_policy_inside_is() -> None:
    fixed = umab.Centred(umab.UMABG())
    assert fixed.needs_horizon and "horizon" in fixed.horizon_advice and not fixed.scale_free and fixed.shift_free
    assert fixed.for_horizon(50) == umab.Centred(umab.UMABG(horizon=50))
    hedge = umab.Centred(umab.AHB())
    assert hedge.plays_each_arm_first and hedge.scale_free
    assert record_of(hedge).reference == record_of(umab.AHB()).reference
    assert (umab.simulate(hedge, np.zeros((5, 4)), n_trials=3).arms[:, :4] == np.arange(4)).all()
    assert umab.Centred(umab.UMABG(exploration="none")).for_study


def test_a_state_in_a_state_is_laid_out_and_saved() -> None:
    policy = umab.Centred(umab.UMABS())
    layout = layout_of(policy)
    assert layout.distribution == "inner.probabilities" and {"inner.paid", "mean"} <= set(layout.state.scalars)
    assert "inner.rate" in layout.parameters.scalars and "inner.rate" not in layout.state.names
    state = policy.init(3)
    assert layout.unpack(layout.pack(policy.parameters_for(3), state)) == state
    learner = umab.Learner(policy, 3, seed=1)
    learner.update(1, 5.0)
    assert set(learner._snapshot()["state"]) == set(layout.state.names)


# Regret. The claims are one-sided, with a risk of 1e-6 for each: 4.75 standard errors.


def relative(policy: Policy | str, losses: Array, n_trials: int = 200) -> tuple[float, float]:
    """Return the mean final expected regret relative to that of choosing at random, with its standard error."""
    mine, random = umab.simulate([policy, "uniform"], losses, n_trials=n_trials, seed=5, expected=True)
    return float(mine.mean[-1] / random.mean[-1]), float(mine.se[-1] / random.mean[-1])


@pytest.mark.parametrize("policy", RECOMMENDED, ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("losses", "rival"),
    [
        (1e6 + np.random.default_rng(1).normal(np.linspace(0.0, 1.0, 5), size=(1500, 5)), "umab-g-a:rate=4"),
        (1e-9 * np.random.default_rng(2).normal(np.linspace(0.0, 1.0, 5), size=(1500, 5)), "sf-mab-a"),
        (np.random.default_rng(3).normal(np.linspace(0.0, 1.0, 5), size=(1500, 5)), "ahb"),
    ],
    ids=["offset", "tiny", "normal"],
)
def test_it_does_better_where_others_do_badly(losses: Array, rival: str, policy: Policy) -> None:
    (mine, error), (other, other_error) = relative(policy, losses), relative(rival, losses)
    assert mine + 4.75 * error < other - 4.75 * other_error


def test_clipping_keeps_rare_gains_from_stopping_it() -> None:
    """A gain of 60 in 300 rounds of every arm teaches nothing; without clipping each makes it start anew."""
    random = np.random.default_rng(4)
    losses = random.exponential(np.linspace(1.0, 2.0, 5), (4000, 5)) - np.where(random.random((4000, 5)) < 0.003, 60, 0)
    (mine, error), (whole, whole_error) = (
        relative(f"centred(umab-s:clipping={clipping})", losses, n_trials=1000) for clipping in ("charged", "none")
    )
    assert mine + 4.75 * error < whole - 4.75 * whole_error


@pytest.mark.parametrize("name", [policy.name for policy in RECOMMENDED])
def test_late_feedback(name: str) -> None:
    """A delay of 20 rounds costs about 20 rounds of learning, and no more than some of them."""
    losses: Any = np.random.default_rng(6).normal(np.linspace(0.0, 1.0, 5), size=(2000, 5))
    now, late, random = (
        umab.simulate(each, losses, n_trials=100, seed=1, expected=True, delays=delay).mean[-1]
        for each, delay in ((name, 0), (name, 20), ("uniform", 0))
    )
    assert now < late < now + 3 * 20 * random / 2000


@pytest.mark.parametrize(("scale", "loss"), [(0.0, 0.5), (2.0, 0.5), (2.0, 7.0)])
@pytest.mark.parametrize("learning", ["stability", "squares"])
def test_the_learning_rate_by_hand(learning: Any, scale: float, loss: float) -> None:
    """After one loss of arm 0 of three: η is 9/(scale + M), or 3√(3/(scale² + ℓ²)), and L_0 = 3ℓ."""
    policy = UMABS(learning=learning, initial_scale=scale)
    learner = umab.Learner(policy, 3)
    learner.update(0, loss)
    with mpmath.workdps(40):
        third = [mpmath.mpf(1) / 3] * 3
        old = (9 / scale if learning == "stability" else 3 * mpmath.sqrt(3) / scale) if scale else None
        cost = mpmath.mpf(loss) if old is None else reference.stability(third, 0, mpmath.mpf(3 * loss), old)
        new = 9 / (scale + cost) if learning == "stability" else 3 * mpmath.sqrt(3 / mpmath.mpf(scale**2 + loss**2))
        p = reference.log_barrier([mpmath.mpf(3 * loss), mpmath.mpf(0), mpmath.mpf(0)], new)
    np.testing.assert_allclose(state_of(learner).iterate, [float(each) for each in p], rtol=1e-12)
    assert policy.rates(state_of(learner))["η"] == pytest.approx(float(new), rel=1e-12)


def test_the_laws_are_claimed() -> None:
    assert all(policy.scale_free and policy.shift_free for policy in RECOMMENDED) and umab.UMABS().scale_free


def test_a_large_first_square_is_kept_when_the_unit_changes() -> None:
    """In the rate by squares, 1 counts for nothing beside 1000, and 1000 for all beside 1."""
    learners = [umab.Learner(UMABS(learning="squares"), 2) for _ in range(2)]
    for learner, losses in zip(learners, ([1.0, 1000.0], [1000.0, 1.0]), strict=True):
        for loss in losses:
            learner.update(0, loss)
        state = state_of(learner)
        assert state.square_sum / state.unit**2 == pytest.approx(1e6 + 1.0)


def test_a_centred_policy_can_be_changed() -> None:
    made = umab.Centred(umab.UMABS())
    assert dataclasses.replace(made, policy=umab.AHB()) == umab.Centred(umab.AHB())
    assert made.with_parameters(rate=1.0) == umab.Centred(umab.UMABS(rate=1.0))


class Two(NamedTuple):
    first: Any
    second: Any

    @property
    def probabilities(self) -> Any:
        return self.second.probabilities


class Both(umab.Uniform):
    def init(self, n_arms: int) -> Any:
        return Two(umab.UMABNN().init(n_arms), umab.UMABS().init(n_arms))


def test_a_state_in_which_it_is_not_clear_what_arms_are_drawn_from_is_refused() -> None:
    with pytest.raises(TypeError, match=r"probabilities.*Two"):
        layout_of(Both())


def test_an_update_that_was_changed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook."""
    before = forced_interpreted(umab.Centred(umab.UMABS()), ARMS, LOSSES, 3)
    monkeypatch.setattr(UMABS, "update", staticmethod(lambda parameters, state, arm, loss, probability, ticket: state))
    assert (forced_interpreted(umab.Centred(umab.UMABS()), ARMS, LOSSES, 3) == 1 / 3).all()
    monkeypatch.undo()
    assert same_bits(forced_interpreted(umab.Centred(umab.UMABS()), ARMS, LOSSES, 3), before)


def test_a_centred_policy_may_have_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    umab.register("mine", umab.Centred(umab.UMABS(rate=2.0)))
    assert umab.policy("mine") == umab.policy("centred(umab-s:rate=2)") and umab.policy("mine").name == "mine"
    assert umab.policy("mine:rate=5") == umab.policy("centred(umab-s):rate=5") == umab.Centred(umab.UMABS(rate=5.0))
