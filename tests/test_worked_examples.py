"""The worked examples of the algorithms, computed in 50 digits elsewhere; every digit that is given must be met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference
import umab
from toys import umab_g
from umab.algorithms.base import Policy
from umab.engine.interpreted import play
from umab.testing import Array, forced, forced_interpreted

ARMS = [0, 1, 2, 0, 1, 0, 2]
LOSSES = [0.5, -1.0, 5.0, -0.25, 2.5, -3.0, 0.75]

Rows = list[list[float]]

UMAB_NN: Rows = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.07958465162, 0.46020767419, 0.46020767419],
    [0.16522629753, 0.12289074944, 0.71188295303],
    [0.45471144050, 0.37676391130, 0.16852464820],
    [0.41997797115, 0.40580606088, 0.17421596798],
    [0.60341680595, 0.18275454581, 0.21382864824],
    [0.35735258881, 0.28544156613, 0.35720584506],
]
UMAB_G: Rows = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.30774814986, 0.34612592507, 0.34612592507],
    [0.28877539954, 0.39354602618, 0.31767857428],
    [0.35026296655, 0.39942693299, 0.25031010046],
    [0.35479451063, 0.39610525927, 0.24910023010],
    [0.37863142057, 0.35304497463, 0.26832360480],
    [0.39982819458, 0.33410275315, 0.26606905227],
]


SF_MAB: Rows = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.24697686767, 0.37651156617, 0.37651156617],
    [0.22647173574, 0.52141592637, 0.25211233789],
    [0.27841313856, 0.52728917187, 0.19429768958],
    [0.29590026534, 0.50981638885, 0.19428334581],
    [0.45051010226, 0.34632305525, 0.20316684250],
    [0.54504734085, 0.25473205639, 0.20022060276],
]
SF_MAB_A: Rows = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.23738170482, 0.38130914759, 0.38130914759],
    [0.20066695496, 0.56644359089, 0.23288945415],
    [0.25172676946, 0.64150743559, 0.10676579494],
    [0.28375070728, 0.61010253902, 0.10614675370],
    [0.49596410318, 0.39003411735, 0.11400177948],
    [0.67103009188, 0.22020098789, 0.10876892023],
]
AHB: Rows = [
    [1.0, 0.0, 0.0],
    [0.0, 1.0, 0.0],
    [0.0, 0.0, 1.0],
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.52770351785, 0.23614824107, 0.23614824107],
    [0.55843682349, 0.19091544143, 0.25064773507],
    [0.63697511697, 0.17476691728, 0.18825796574],
]
BANKER_OMD: Rows = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.28264421739, 0.35867789130, 0.35867789130],
    [0.28164302555, 0.40345524551, 0.31490172894],
    [0.32267188451, 0.34665378272, 0.33067433277],
    [0.32545939836, 0.34519443461, 0.32934616703],
    [0.33863381381, 0.31852253132, 0.34284365487],
    [0.37343559021, 0.30236626278, 0.32419814701],
]
SCB: Rows = [
    [0.33975956799, 0.33975956799, 0.32048086403],
    [0.28644547501, 0.36714951032, 0.34640501466],
    [0.31464999908, 0.30209452862, 0.38325547230],
    [0.28214560116, 0.31702622607, 0.40082817277],
]
SCB_IX: Rows = [
    [0.33758355702, 0.33758355702, 0.32483288595],
    [0.29693061674, 0.35906181865, 0.34400756461],
    [0.31883249734, 0.30395668144, 0.37721082122],
    [0.28859743584, 0.31569648745, 0.39570607671],
]


@pytest.mark.parametrize("run", [forced, forced_interpreted])
@pytest.mark.parametrize(
    ("policy", "losses", "expected"),
    [
        (umab.UMABNN(), np.abs(LOSSES), UMAB_NN),
        (umab.UMABGA(), LOSSES, UMAB_G),
        (umab.UMABG(horizon=7), LOSSES, UMAB_G),
        (umab.SFMAB(exploration="anytime"), LOSSES, SF_MAB),
        (umab.SFMAB(), LOSSES, SF_MAB_A),
        (umab.AHB(), LOSSES, AHB),
        (umab.BankerOMD(horizon=1258), LOSSES, BANKER_OMD),
        (umab.SCB(), LOSSES, SCB),
        (umab.SCBIX(), LOSSES, SCB_IX),
    ],
)
def test_first_example(run: object, policy: Policy, losses: Array, expected: list[list[float]]) -> None:
    rows = run(policy, ARMS, losses, 3)  # type: ignore[operator]
    np.testing.assert_allclose(rows[7 - len(expected) : 7], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("run", [forced, forced_interpreted])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("umab-g:horizon=64,rate=4", [0.088493657451, 0.080730718482, 0.067660450986, 0.062245664386]),
        ("umab-g-a:rate=4", [0.144505173619, 0.123561173546, 0.091930206477, 0.072853599456]),
        ("umab-g-none:rate=4", [0.036716962154, 0.024378595630, 0.006422564701, 0.001583433731]),
        ("sf-mab", [0.306494619374, 0.223739494398, 0.151457775571, 0.103327346725]),
        ("sf-mab-a", [0.242558363446, 0.197703264652, 0.136621990383, 0.096536348085]),
        ("ahb", [0.254068879030, 0.225854894274, 0.162035721785, 0.115454551544]),
        ("scb", [0.529334664092, 0.674069097047, 0.831034272783, 0.921151750337]),
        ("scb-ix", [0.538980608992, 0.728742821023, 0.894164868355, 0.927745926589]),
    ],
)
def test_second_example(run: object, name: str, expected: list[float]) -> None:
    """Reaches the branches that the first does not: exploration is on."""
    rounds = np.arange(1, 65)
    arms = ((rounds == 2) | (rounds % 8 == 0)).astype(int)
    losses = ((rounds % 5) - 2) / 8 + np.where(arms == 1, 0.25, -0.25)
    rows = run(umab.policy(name), arms, losses, 2)  # type: ignore[operator]
    np.testing.assert_allclose(rows[[8, 16, 32, 64], 1], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("run", [forced, forced_interpreted])
def test_second_example_of_banker_omd(run: object) -> None:
    arms = np.arange(64) % 2
    rows = run(umab.BankerOMD(horizon=2), arms, np.where(arms == 0, 0.5, -0.5), 2)  # type: ignore[operator]
    expected = [0.989695551720, 0.998248022143, 0.999234798765, 0.999657147559]
    np.testing.assert_allclose(rows[[32, 48, 56, 64], 1], expected, rtol=0, atol=1e-11)


def test_a_skip_of_banker_omd_whose_savings_are_lost_returns_to_uniform() -> None:
    """Round 3 of the first example is skipped, its loss of 5 being above the bound of 2."""
    usable, lost = (forced(umab.BankerOMD(horizon=1258, skipped=each), ARMS, LOSSES, 3) for each in ("usable", "lost"))
    assert (usable[:3] == lost[:3]).all()
    np.testing.assert_allclose(lost[3], 1 / 3, rtol=1e-15)
    assert np.abs(usable[3] - 1 / 3).max() > 0.01


KNOWN_RANGE = {
    "exp3": (umab.EXP3(low=-3, high=5, horizon=50), reference.exp3),
    "exp3 with gamma": (umab.EXP3(low=-3, high=5, gamma=0.07), reference.exp3),
    "exp3-ix": (umab.EXP3IX(low=-3, high=5), reference.exp3_ix),
    "exp3-p": (umab.EXP3P(low=-3, high=5, horizon=50, delta=0.05), reference.exp3_p),
    "exp3-s": (umab.EXP3S(low=-3, high=5, horizon=500), reference.exp3_s),
    "exp3-s with segments": (umab.EXP3S(low=-3, high=5, horizon=1000, segments=4), reference.exp3_s),
    "tsallis-inf": (umab.TsallisINF(low=-3, high=5), reference.tsallis_inf),
    "ada-hedge": (umab.AdaHedge(), reference.ada_hedge),
    "solo-ftrl": (umab.SOLOFTRL(), reference.solo_ftrl),
}


@pytest.mark.parametrize(("policy", "definition"), KNOWN_RANGE.values(), ids=KNOWN_RANGE.keys())
@pytest.mark.parametrize("n_arms", [2, 4])
def test_yardsticks_against_their_definition(policy: Policy, definition: object, n_arms: int) -> None:
    random = np.random.default_rng(n_arms)
    table = random.uniform(-3.0, 5.0, size=(50, n_arms))
    rounds = list(play(policy, table))
    arms = [round.arm for round in rounds]
    right = definition(policy, arms, table)  # type: ignore[operator]
    np.testing.assert_allclose(probabilities_of(policy, table), right, rtol=1e-10)


def probabilities_of(policy: Policy, table: Array) -> Array:
    """Return the distributions after each round of trial 0."""
    return np.array([list(round.state.probabilities) for round in play(policy, table)])


def test_ada_hedge_is_uniform_while_all_arms_have_cost_the_same() -> None:
    rows = probabilities_of(umab.AdaHedge(), np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(rows[:2], 1 / 3, rtol=1e-15)
    np.testing.assert_allclose(rows[2, :2], rows[2, 0])
    assert rows[2, 2] < rows[2, 0]


def test_hedging_where_weights_come_to_their_floor() -> None:
    """Thousands of rounds for one arm, then a loss so large that the little weight of the other decides."""
    policy = umab.AdaHedge()
    table = np.array([[0.0, 0.001]] * 2000 + [[1.5, 0.0]] * 3)
    np.testing.assert_allclose(
        probabilities_of(policy, table), reference.ada_hedge(policy, [], table), rtol=1e-9, atol=1e-290
    )
    jump = np.array([[0.0, 1e-155], [1e155, 0.0], [0.0, 1e155]])
    np.testing.assert_allclose(probabilities_of(policy, jump), reference.ada_hedge(policy, [], jump), rtol=1e-9)

    arms = [0, 1] + [0, 0, 0, 1] * 100 + [0] * 4
    losses = [0.0, 1.0] + [0.0, 0.0, 0.0, 1.0] * 100 + [1200.0] * 4
    right = reference.ahb(umab.AHB(), arms, losses, 2)
    np.testing.assert_allclose(forced(umab.AHB(), arms, losses, 2), right, rtol=1e-9)


def test_anytime_exploration() -> None:
    """p' − p is ρ_t = 1/(2n² + √(nt)) for the arm that is raised, with t one more than the updates taken."""
    anytime = forced(umab.UMABG(exploration="anytime", rate=4.0), [0] * 12, [-1.0] * 12, 2)
    none = forced(umab.UMABG(exploration="none", rate=4.0), [0] * 12, [-1.0] * 12, 2)
    rho = 1.0 / (8.0 + np.sqrt(2.0 * np.arange(1, 14)))
    # The arms are given, so both runs see the same losses; the estimates differ through the probabilities alone.
    first = int(np.argmax(none[:, 1] < rho))
    assert 0 < first < 12
    np.testing.assert_allclose(anytime[:first], none[:first], rtol=0, atol=1e-15)
    np.testing.assert_allclose(anytime[first, 1], none[first, 1] + rho[first], rtol=1e-14)


SCALES = {
    "everyday": np.ones(150),
    "growing": 1.2 ** np.arange(150.0),
    "jumping": 10.0 ** np.random.default_rng(0).integers(-3, 4, size=150),
    "tiny": np.full(150, 1e-6),
}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("n_arms", [1, 2, 5])
def test_umab_nn_against_its_definition(scale: Array, n_arms: int) -> None:
    random = np.random.default_rng(n_arms)
    losses, arms = scale * random.exponential(size=150), random.integers(n_arms, size=150)
    right = reference.umab_nn(arms.tolist(), losses.tolist(), n_arms)
    np.testing.assert_allclose(forced(umab.UMABNN(), arms, losses, n_arms), right, rtol=1e-10)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("exploration", ["adaptive", "fixed", "anytime", "none", "maintext"])
@pytest.mark.parametrize("n_arms", [2, 5])
def test_umab_g_against_its_definition(scale: Array, exploration: Any, n_arms: int) -> None:
    """Losses of both signs that favour one arm, at a rate of 4: they are clipped, and exploration is on."""
    random = np.random.default_rng(n_arms)
    arms = np.where(random.random(150) < 0.8, 0, random.integers(n_arms, size=150))
    losses = scale * (random.normal(size=150) + np.where(arms == 0, -2.0, 1.0))
    policy = umab_g(exploration, rate=4.0, initial_scale=0.5, horizon=150)
    right = reference.umab_g(
        arms.tolist(),
        losses.tolist(),
        n_arms,
        rate=4.0,
        exploration=exploration,
        initial_scale=0.5,
        horizon=150,
    )
    np.testing.assert_allclose(forced(policy, arms, losses, n_arms), right, rtol=1e-10)


BASELINES = {
    "sf-mab": (umab.SFMAB(exploration="anytime"), reference.sf_mab),
    "sf-mab-a": (umab.SFMAB(), reference.sf_mab),
    "ahb": (umab.AHB(), reference.ahb),
    "banker-omd": (umab.BankerOMD(horizon=60), reference.banker_omd),
    "banker-omd, lost": (umab.BankerOMD(horizon=60, skipped="lost"), reference.banker_omd),
    "scb": (umab.SCB(), reference.scb),
    "scb-ix": (umab.SCBIX(), reference.scb),
}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize(("policy", "definition"), BASELINES.values(), ids=BASELINES.keys())
@pytest.mark.parametrize("n_arms", [2, 4])
def test_baselines_against_their_definition(policy: Policy, definition: Any, scale: Array, n_arms: int) -> None:
    """Losses of both signs that favour one arm, of sizes that make the units change in the middle of a run."""
    random = np.random.default_rng(n_arms)
    arms = np.where(random.random(60) < 0.8, 0, random.integers(n_arms, size=60))
    arms[:n_arms] = np.arange(n_arms)
    losses = scale[:60] * (random.normal(size=60) + np.where(arms == 0, -2.0, 1.0))
    right = definition(policy, arms.tolist(), losses.tolist(), n_arms)
    np.testing.assert_allclose(forced(policy, arms, losses, n_arms), right, rtol=1e-9, atol=1e-300)


def test_exp3_goes_by_the_logarithms_of_its_weights_however_far_they_grow() -> None:
    """All arms are forced by turns, so that more than one has weight whenever weights are counted from 1 again."""
    policy = umab.EXP3(gamma=0.3)
    parameters, state = policy.parameters_for(3), policy.init(3)
    for t, loss in enumerate(np.random.default_rng(0).random(3000).tolist()):
        state = policy.update(parameters, state, t % 3, loss, state.probabilities[t % 3])
        weights = np.exp(min(state.log_weights) - np.array(state.log_weights))
        np.testing.assert_allclose(state.probabilities, 0.7 * weights / weights.sum() + 0.1, rtol=1e-12)
        assert max(state.weights) < 1e14
    assert state.origin < -64.0
