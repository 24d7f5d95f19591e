"""Cross-checks against software that we did not write; docs/cross-checks.md says what came out, and who is right.

Each peer is installed in an environment of its own, which `make bench-peers` uses too. What cannot be installed is
skipped; what is installed and does not compare as stated fails.
"""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.peers import environments

import umab
from umab.algorithms.base import Policy
from umab.engine.interpreted import play
from umab.simplex import tsallis
from umab.testing import Array, forced

pytestmark = pytest.mark.slow

Case = dict[str, Any]


def interpreter(peer: str) -> Path:
    """Return the Python that has the peer; skip the test if it cannot be installed."""
    try:
        return environments.interpreter(peer)
    except environments.NotInstalled as failure:
        pytest.skip(f"{peer} could not be installed: {failure}")


def ask(peer: str, script: str, question: Any) -> Any:
    """Run a script in the peer's environment, with the question on its input; return the last line of its output."""
    done = subprocess.run(
        [str(interpreter(peer)), "-I", "-c", script], input=json.dumps(question), capture_output=True, text=True
    )
    assert done.returncode == 0, f"the script for {peer} failed:\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])  # SMPyBandits prints advice before


def distance(ours: Array, theirs: Any) -> float:
    """Return the largest difference between two lists of distributions, infinity if something is not a number."""
    other = np.array(theirs, dtype=float)
    assert ours.shape == other.shape
    return float(np.nan_to_num(np.abs(ours - other), nan=np.inf).max())


def exp3_cases() -> list[Case]:
    """Return runs with given arms: few arms and many, little exploration and nothing else, losses of 0 and 1 too."""
    random, cases = np.random.default_rng(0), []
    for n_arms, gamma in [(2, 0.05), (3, 0.01), (5, 0.3), (10, 0.1), (4, 1.0)]:
        losses = np.clip(random.uniform(-0.2, 1.2, size=500), 0.0, 1.0)
        arms = random.integers(n_arms, size=500)
        cases.append({"n_arms": n_arms, "gamma": gamma, "arms": arms.tolist(), "losses": losses.tolist()})
    return cases


def our_exp3(case: Case, gamma: float) -> Array:
    return forced(umab.EXP3(low=0, high=1, gamma=gamma), case["arms"], case["losses"], case["n_arms"])


# river: `pull` computes the distribution that `update` divides by; the arm that it draws is not used.
RIVER = """
import json, sys
from river import bandit

def rows(case):
    policy, arms = bandit.Exp3(gamma=case["gamma"]), list(range(case["n_arms"]))
    policy.pull(arms)
    yield list(policy._probabilities.values())
    for arm, loss in zip(case["arms"], case["losses"]):
        policy.update(arm, 1.0 - loss)
        policy.pull(arms)
        yield list(policy._probabilities.values())

print(json.dumps([list(rows(case)) for case in json.load(sys.stdin)]))
"""

RIVER_OPTIONS = """
import json, sys
from river import bandit, preprocessing

def last(scaler):
    policy = bandit.Exp3(gamma=0.1, reward_scaler=scaler)
    for arm, reward in question:
        policy.pull([0, 1])
        policy.update(arm, reward)
    policy.pull([0, 1])
    return list(policy._probabilities.values())

def burn_in():
    policy = bandit.Exp3(gamma=0.1, burn_in=1)
    try:
        policy.update(policy.pull([0, 1]), 0.5)
    except KeyError:
        return "KeyError"
    return "fine"

question = json.load(sys.stdin)
print(json.dumps([last(None), last(preprocessing.TargetMinMaxScaler(None)), burn_in()]))
"""

PYMAB = """
import json, sys
import numpy as np
from pymab.policies import EXP3Policy as Native
from pymab._reference.policies import EXP3Policy as Reference

def rows(make, case):
    policy, random = make(n_arms=case["n_arms"], gamma=case["gamma"]), np.random.default_rng(0)
    yield policy.action_probabilities().tolist()
    for arm, loss in zip(case["arms"], case["losses"]):
        policy.select_action(rng=random)  # notes the distribution; the arm that it draws is not used
        policy.update(action=arm, reward=1.0 - loss)
        yield policy.action_probabilities().tolist()

cases = json.load(sys.stdin)
print(json.dumps([[list(rows(make, case)) for case in cases] for make in (Native, Reference)]))
"""

SMPYBANDITS = """
import json, sys
from SMPyBandits.Policies.Exp3 import Exp3, Exp3WithHorizon

def rows(policy, case):
    policy.startGame()
    yield policy.trusts.tolist()
    for arm, loss in zip(case["arms"], case["losses"]):
        policy.getReward(arm, lower + amplitude * (1.0 - loss))
        yield policy.trusts.tolist()

question = json.load(sys.stdin)
lower, amplitude = question["range"]
answers = []
for case in question["cases"]:
    n_arms, gamma = case["n_arms"], case["gamma"]
    tuned = Exp3WithHorizon(n_arms, len(case["arms"]), lower=lower, amplitude=amplitude)
    first = Exp3(n_arms, gamma=gamma)
    first.startGame()
    drawn = []
    for _ in range(n_arms):
        drawn.append(int(first.choice()))
        first.getReward(drawn[-1], 1.0)
    answers.append({
        "given": list(rows(Exp3(n_arms, gamma=gamma, lower=lower, amplitude=amplitude), case)),
        "tuned": list(rows(tuned, case)),
        "gamma": float(tuned.gamma),
        "drawn": drawn,
    })
print(json.dumps(answers))
"""

# The three repairs are those of docs/cross-checks.md. `root` minimises the peer's own objective, but between the bounds
# that the multiplier must lie in, by ternary search.
SMPYBANDITS_TSALLIS = """
import json, sys, types
import scipy.optimize
from SMPyBandits.Policies.TsallisInf import TsallisInf

module = sys.modules["SMPyBandits.Policies.TsallisInf"]

def between_bounds(policy):
    def minimize_scalar(objective):
        best = policy.cumulative_losses.min()
        low, high = best - policy.nbArms**0.5 / policy.eta, best - 1.0 / policy.eta
        for _ in range(300):
            third = (high - low) / 3.0
            if objective(low + third) < objective(high - third):
                high -= third
            else:
                low += third
        return types.SimpleNamespace(x=(low + high) / 2.0)
    return types.SimpleNamespace(minimize_scalar=minimize_scalar)

def run(repairs, case):
    policy = TsallisInf(case["n_arms"])
    policy.startGame()
    if "rate" in repairs:
        policy.t += 1
    if "probability" in repairs:
        policy._gamma = 0.0
    module.opt = between_bounds(policy) if "root" in repairs else scipy.optimize
    rows, sums = [policy.trusts.tolist()], [policy.cumulative_losses.tolist()]
    for arm, loss in zip(case["arms"], case["losses"]):
        policy.getReward(arm, 1.0 - loss)
        rows.append(policy.trusts.tolist())
        sums.append(policy.cumulative_losses.tolist())
    return {"rows": rows, "sums": sums}

question = json.load(sys.stdin)
print(json.dumps([run(question["repairs"], case) for case in question["cases"]]))
"""


def test_exp3_is_that_of_river() -> None:
    cases = exp3_cases()
    for case, theirs in zip(cases, ask("river", RIVER, cases), strict=True):
        assert distance(our_exp3(case, case["gamma"]), theirs) < 1e-9
        assert distance(our_exp3(case, 0.999 * case["gamma"]), theirs) > 1e-6  # the comparison can fail


def test_two_options_of_river_do_not_work_with_its_exp3() -> None:
    rewards = [(0, 3.0), (1, 5.0), (0, 8.0), (1, 4.0)]
    plain, scaled, burn_in = ask("river", RIVER_OPTIONS, rewards)
    assert plain == scaled  # the scaler reaches the statistics of the arms, not the weights
    assert burn_in == "KeyError"  # an arm of the burn-in has no probability to divide by


def test_exp3_is_that_of_pymab() -> None:
    cases = exp3_cases()
    for answers in ask("pymab", PYMAB, cases):  # its compiled policy and its reference in Python
        for case, theirs in zip(cases, answers, strict=True):
            assert distance(our_exp3(case, case["gamma"]), theirs) < 1e-9
            assert distance(our_exp3(case, 0.999 * case["gamma"]), theirs) > 1e-6


def test_exp3_is_that_of_smpybandits_for_rewards_between_0_and_1() -> None:
    cases = exp3_cases()
    for case, theirs in zip(cases, ask("smpybandits", SMPYBANDITS, {"cases": cases, "range": [0, 1]}), strict=True):
        assert distance(our_exp3(case, case["gamma"]), theirs["given"]) < 1e-9
        assert distance(our_exp3(case, 0.999 * case["gamma"]), theirs["given"]) > 1e-6

        # Its first draws take every arm once, whatever the distribution is, and yet it divides by the distribution.
        assert sorted(theirs["drawn"]) == list(range(case["n_arms"]))

        # The same rule with another γ for a horizon: the η of Bubeck and Cesa-Bianchi, which γ/n should have been.
        n_arms, n_rounds = case["n_arms"], len(case["arms"])
        assert distance(our_exp3(case, theirs["gamma"]), theirs["tuned"]) < 1e-9
        assert theirs["gamma"] == pytest.approx(math.sqrt(2 * math.log(n_arms) / (n_arms * n_rounds)), rel=1e-12)
        ours = umab.EXP3(low=0, high=1, horizon=n_rounds).parameters_for(n_arms).gamma
        assert ours / theirs["gamma"] == pytest.approx(n_arms / math.sqrt(2 * (math.e - 1)), rel=1e-12)


def test_exp3_of_smpybandits_ignores_the_range_it_is_told() -> None:
    cases, low, amplitude = exp3_cases()[:4], -1.0, 4.0  # with γ = 1 nothing is learned, whatever the range
    answers = ask("smpybandits", SMPYBANDITS, {"cases": cases, "range": [low, amplitude]})
    for case, theirs in zip(cases, answers, strict=True):
        n_arms, gamma, arms = case["n_arms"], case["gamma"], case["arms"]
        rewards = low + amplitude * (1.0 - np.array(case["losses"]))

        policy = umab.EXP3(low=-low - amplitude, high=-low, gamma=gamma)
        ours = forced(policy, arms, np.clip(-rewards, policy.low, policy.high), n_arms)
        assert distance(our_exp3(case, gamma), ours) < 1e-9  # for us, the range is only a matter of units
        assert distance(ours, theirs["given"]) > 0.01

        # What it does: the reward as it comes, in place of one between 0 and 1.
        weights, rows = np.full(n_arms, 1.0 / n_arms), []
        for arm, reward in zip([*arms, 0], [*rewards, 0.0], strict=True):
            rows.append((1.0 - gamma) * weights + gamma / n_arms)
            weights[arm] *= math.exp(gamma / n_arms * reward / rows[-1][arm])
            weights /= weights.sum()
        assert distance(np.array(rows), theirs["given"]) < 1e-9


def tsallis_cases() -> list[Case]:
    """Return runs whose arms were drawn by our policy.

    Arms from elsewhere would not do: an arm that is played although it is unlikely gets a huge loss, is unlikelier
    still, and any rounding grows until nothing can be compared. For the same reason the runs are short.
    """
    cases = []
    for n_arms in (2, 3, 5, 10):
        table = np.random.default_rng(n_arms).random((100, n_arms))
        arms = np.array([round.arm for round in play(umab.TsallisINF(low=0, high=1), table)])
        cases.append({"n_arms": n_arms, "arms": arms.tolist(), "losses": table[np.arange(100), arms].tolist()})
    return cases


def our_tsallis_inf(case: Case) -> Array:
    return forced(umab.TsallisINF(low=0, high=1), case["arms"], case["losses"], case["n_arms"])


def minimum(sums: list[float], rate: float) -> Array:
    """Return the distribution of Tsallis-INF for given sums of losses, from our solver."""
    p = [0.0] * len(sums)
    tsallis(sums, rate, p)
    return np.array(p)


def test_tsallis_inf_is_that_of_smpybandits_after_three_repairs() -> None:
    cases, repairs = tsallis_cases(), ["rate", "probability", "root"]
    answers = ask("smpybandits", SMPYBANDITS_TSALLIS, {"cases": cases, "repairs": repairs})
    for case, theirs in zip(cases, answers, strict=True):
        assert distance(our_tsallis_inf(case), theirs["rows"]) < 1e-9


@pytest.mark.parametrize("left_out", ["rate", "probability", "root"])
def test_tsallis_inf_of_smpybandits_needs_each_of_the_repairs(left_out: str) -> None:
    cases, repairs = tsallis_cases(), [each for each in ("rate", "probability", "root") if each != left_out]
    cases = [{**case, "arms": case["arms"][:30], "losses": case["losses"][:30]} for case in cases]
    answers = ask("smpybandits", SMPYBANDITS_TSALLIS, {"cases": cases, "repairs": repairs})
    for case, theirs in zip(cases, answers, strict=True):
        assert distance(our_tsallis_inf(case), theirs["rows"]) > 1e-4


def test_tsallis_inf_of_smpybandits_prefers_the_arm_that_lost() -> None:
    cases: list[Case] = [{"n_arms": 3, "arms": [1], "losses": [loss]} for loss in (0.6, 0.8)]
    answers = ask("smpybandits", SMPYBANDITS_TSALLIS, {"cases": cases, "repairs": []})
    for case, theirs in zip(cases, answers, strict=True):
        ours, row = our_tsallis_inf(case)[-1], np.array(theirs["rows"][-1])
        assert ours.argmin() == 1 and row.argmax() == 1
        # 1/√p_k = η(L_k − x) at the minimum, with x below every L_k; the estimate of the loss is 3ℓ, and η is √½.
        assert np.ptp(ours**-0.5 - math.sqrt(0.5) * np.array([0.0, 3.0 * case["losses"][0], 0.0])) < 1e-9

    # The squares do not tell x − L_k from L_k − x, so x may lie above every L_k, where the sum is 1 once more: with
    # their η, which is 1 here, 1/√p_k = x − L_k.
    row, sums = np.array(answers[0]["rows"][-1]), np.array(answers[0]["sums"][-1])
    assert np.ptp(row**-0.5 + sums) < 1e-6 and np.ptp(row**-0.5 - sums) > 1.0
    # Or x lies between, where the sum has a minimum that is above 1: Σ (L_k − x)⁻³ = 0, and what it is gets divided.
    shares = np.array([1.0, 4.0 ** (1.0 / 3.0), 1.0])
    assert np.abs(np.array(answers[1]["rows"][-1]) - shares / shares.sum()).max() < 1e-6


def test_tsallis_inf_of_smpybandits_as_it_is() -> None:
    cases = [{**case, "arms": case["arms"][:30], "losses": case["losses"][:30]} for case in tsallis_cases()]
    n_right, n_wrong = 0, 0
    answers = ask("smpybandits", SMPYBANDITS_TSALLIS, {"cases": cases, "repairs": []})
    for case, theirs in zip(cases, answers, strict=True):
        n_arms, rows, sums = case["n_arms"], np.array(theirs["rows"]), np.array(theirs["sums"])
        assert distance(our_tsallis_inf(case), rows) > 0.1
        for t, (arm, loss) in enumerate(zip(case["arms"], case["losses"], strict=True), start=1):
            # The estimate is divided by the probability that a step of EXP3 with γ = 0.01 has moved before.
            moved = rows[t - 1].copy()
            moved[arm] *= math.exp(0.01 / n_arms * (1.0 - loss) / moved[arm])
            moved /= moved.sum()
            assert sums[t, arm] - sums[t - 1, arm] == pytest.approx(loss / moved[arm], rel=1e-9)

            # After t rounds the rate is 1/√t, where it should be 1/√(t + 1); and the minimum is found, or it is not.
            here = np.abs(minimum(sums[t].tolist(), 1.0 / math.sqrt(t)) - rows[t]).max()
            n_right, n_wrong = n_right + (here < 1e-6), n_wrong + (here > 1e-3)
            if here < 1e-6:
                assert np.abs(minimum(sums[t].tolist(), 1.0 / math.sqrt(t + 1)) - rows[t]).max() > 10.0 * here
            if sums[t].min() == 0.0 and sums[t].max() > 0.0:  # an arm without a loss: the search starts beside it
                assert here > 1e-3
    assert n_right + n_wrong == 30 * len(cases) and n_right >= 30 and n_wrong >= 30


SCALES = [1e-200, 1e-9, 1.0 / 3.0, 1.0, 7.0, 1e6, 1e200]
SHIFTS = [0.0, 1.0, -30.0, 1e3, -1e4, 1e5]  # in units of the scale; the digits that a shift eats are gone for anyone


def ahb_distance(policy: Policy, scale: float, shift: float, n_arms: int) -> float:
    """Return how far a change of units and of the origin moves the distributions of a run with given arms."""
    random = np.random.default_rng(n_arms)
    arms = [*range(n_arms), *random.integers(n_arms, size=400)]
    losses = random.normal(size=len(arms))
    return distance(
        forced(policy, arms, losses, n_arms), forced(policy, arms, scale * losses + scale * shift, n_arms).tolist()
    )


@pytest.mark.parametrize("n_arms", [2, 5])
@pytest.mark.parametrize("scale", SCALES)
def test_ahb_sees_neither_units_nor_origin_on_given_arms(scale: float, n_arms: int) -> None:
    for shift in SHIFTS:
        assert ahb_distance(umab.AHB(), scale, shift, n_arms) < 1e-9


def test_what_ahb_is_tested_by_can_fail() -> None:
    assert ahb_distance(umab.SCB(), 7.0, 0.0, 5) < 1e-9  # blind to units only
    assert ahb_distance(umab.SCB(), 7.0, 1.0, 5) > 0.01
    assert ahb_distance(umab.UMABGA(), 7.0, 0.0, 5) > 0.01


@pytest.mark.parametrize("scale", SCALES)
def test_ahb_sees_neither_units_nor_origin_in_a_simulation(scale: float) -> None:
    table = np.random.default_rng(1).normal([0.0, 0.2, 0.4, 0.6], 1.0, size=(400, 4))
    base = umab.simulate(umab.AHB(), table, n_trials=20, seed=5)
    rows = np.array([round.state.probabilities.copy() for round in play(umab.AHB(), table, seed=5)])
    for shift in SHIFTS:
        other = scale * table + scale * shift
        result = umab.simulate(umab.AHB(), other, n_trials=20, seed=5)  # the seed gives the same uniforms
        assert np.array_equal(result.arms, base.arms)
        assert np.allclose(result.regret / scale, base.regret, rtol=1e-9, atol=1e-6)
        theirs = [round.state.probabilities.copy() for round in play(umab.AHB(), other, seed=5)]
        assert distance(rows, theirs) < 1e-9
