"""The worked examples of the algorithms, computed in 50 digits elsewhere; every digit that is given must be met."""

from __future__ import annotations

import numpy as np
import pytest

import reference
import umab
from umab.algorithms.base import Policy
from umab.algorithms.umab_g import Exploration
from umab.testing import Array, forced, forced_interpreted

ARMS = [0, 1, 2, 0, 1, 0, 2]
LOSSES = [0.5, -1.0, 5.0, -0.25, 2.5, -3.0, 0.75]

UMAB_NN = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.07958465162, 0.46020767419, 0.46020767419],
    [0.16522629753, 0.12289074944, 0.71188295303],
    [0.45471144050, 0.37676391130, 0.16852464820],
    [0.41997797115, 0.40580606088, 0.17421596798],
    [0.60341680595, 0.18275454581, 0.21382864824],
    [0.35735258881, 0.28544156613, 0.35720584506],
]
UMAB_G = [
    [0.33333333333, 0.33333333333, 0.33333333333],
    [0.30774814986, 0.34612592507, 0.34612592507],
    [0.28877539954, 0.39354602618, 0.31767857428],
    [0.35026296655, 0.39942693299, 0.25031010046],
    [0.35479451063, 0.39610525927, 0.24910023010],
    [0.37863142057, 0.35304497463, 0.26832360480],
    [0.39982819458, 0.33410275315, 0.26606905227],
]


@pytest.mark.parametrize("run", [forced, forced_interpreted])
@pytest.mark.parametrize(
    ("policy", "losses", "expected"),
    [
        (umab.UMABNN(), np.abs(LOSSES), UMAB_NN),
        (umab.UMABG(exploration="adaptive"), LOSSES, UMAB_G),
        (umab.UMABG(exploration="fixed", horizon=7), LOSSES, UMAB_G),
    ],
)
def test_first_example(run: object, policy: Policy, losses: Array, expected: list[list[float]]) -> None:
    rows = run(policy, ARMS, losses, 3)  # type: ignore[operator]
    np.testing.assert_allclose(rows[:7], expected, rtol=0, atol=1e-10 / 2)


@pytest.mark.parametrize("run", [forced, forced_interpreted])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("umab-g:horizon=64,rate=4", [0.088493657451, 0.080730718482, 0.067660450986, 0.062245664386]),
        ("umab-g-a:rate=4", [0.144505173619, 0.123561173546, 0.091930206477, 0.072853599456]),
        ("umab-g-none:rate=4", [0.036716962154, 0.024378595630, 0.006422564701, 0.001583433731]),
    ],
)
def test_second_example(run: object, name: str, expected: list[float]) -> None:
    """Reaches the branches that the first does not: exploration is on."""
    rounds = np.arange(1, 65)
    arms = ((rounds == 2) | (rounds % 8 == 0)).astype(int)
    losses = ((rounds % 5) - 2) / 8 + np.where(arms == 1, 0.25, -0.25)
    rows = run(umab.policy(name), arms, losses, 2)  # type: ignore[operator]
    np.testing.assert_allclose(rows[[8, 16, 32, 64], 1], expected, rtol=0, atol=1e-11)


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
@pytest.mark.parametrize("exploration", ["adaptive", "fixed", "anytime", "none"])
@pytest.mark.parametrize("n_arms", [2, 5])
def test_umab_g_against_its_definition(scale: Array, exploration: Exploration, n_arms: int) -> None:
    """Losses of both signs that favour one arm, at a rate of 4: they are clipped, and exploration is on."""
    random = np.random.default_rng(n_arms)
    arms = np.where(random.random(150) < 0.8, 0, random.integers(n_arms, size=150))
    losses = scale * (random.normal(size=150) + np.where(arms == 0, -2.0, 1.0))
    policy = umab.UMABG(exploration=exploration, rate=4.0, initial_scale=0.5, horizon=150)
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
