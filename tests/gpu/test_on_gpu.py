"""A GPU gives the results of a processor: the same bits, or what rounding leaves of them."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import umab
from toys import Capped, Patient, PatientTosser, Tosser
from umab._support.progress import Progress
from umab.engine import gpu, gpu_trials, pcg
from umab.engine.delays import Delays
from umab.engine.exact import has_same_bits_everywhere
from umab.engine.gpu_trials import simulate_cells
from umab.engine.interpreted import play
from umab.engine.streams import stream
from umab.engine.work import Work
from umab.results.among import costs_of
from umab.simplex import Vector

SIMULATED = gpu.is_simulated()
N_TRIALS, N_ROUNDS = (35, 10) if SIMULATED else (20_000, 400)
"""Not a multiple of 32, so that the last block is not full."""

# The simulator computes with NumPy's integers, which warn where those of a GPU wrap around.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

Losses = npt.NDArray[np.float64]


def losses_for(policy: umab.Policy, n_rounds: int = N_ROUNDS, n_arms: int = 3) -> Losses:
    """Return losses that a policy accepts, with an outlier where it accepts any."""
    losses: Losses = np.random.default_rng(0).exponential(np.linspace(1.0, 2.0, n_arms), size=(n_rounds, n_arms))
    if policy.refusal(50.0, "") is None:
        losses[n_rounds // 2, 1] = 1e6
        return losses
    return np.asarray(losses / (1.01 * losses.max()))


def both(policy: Any, losses: Any, **options: Any) -> tuple[umab.Result, umab.Result]:
    """Return the results of a processor and of a GPU."""
    run = functools.partial(umab.simulate, policy, losses, progress=False, **options)
    return run(), run(device="gpu")


def assert_same(one: umab.Result, other: umab.Result) -> None:
    """Check all bits that two results have."""
    assert one.mean.tobytes() == other.mean.tobytes()
    assert one.sd.tobytes() == other.sd.tobytes()
    assert one.final_regret.tobytes() == other.final_regret.tobytes()
    for name in ("arms", "regret", "coins"):
        mine, theirs = getattr(one, name, None), getattr(other, name, None)
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def assert_close(one: umab.Result, other: umab.Result) -> None:
    """Check that rounding alone has made a difference: few trials part early, and on average nothing changes."""
    early = (one.arms != other.arms)[:, :20].any(axis=1)
    assert early.mean() <= 1e-3
    gaps = one.final_regret - other.final_regret
    error = gaps.std() / math.sqrt(len(gaps))
    assert abs(gaps.mean()) <= 5.0 * error + 1e-9 * np.abs(one.final_regret).max()


def assert_agree(policy: umab.Policy, one: umab.Result, other: umab.Result) -> None:
    """Check what a policy promises. The simulator uses the exponentials of the processor."""
    if SIMULATED or has_same_bits_everywhere(policy):
        assert_same(one, other)
    else:
        assert_close(one, other)


@pytest.mark.parametrize("name", umab.policies())
def test_every_policy_agrees_with_the_processor(name: str) -> None:
    policy = umab.policy(name)
    one, other = both(policy, losses_for(policy), n_trials=N_TRIALS, expected=True)
    assert_agree(policy.for_horizon(N_ROUNDS), one, other)
    assert "device" not in one.provenance and other.provenance["device"] == gpu.description()
    assert {**other.provenance, "device": None} == {**one.provenance, "device": None}


@pytest.mark.parametrize("name", ["umab-g-a", "banker-omd", "umab-w", "adahedge"])
@pytest.mark.parametrize("delays", [3, "each its own", "drawn", "of the arm", "of the arm, drawn"])
def test_late_feedback_agrees(name: str, delays: Any) -> None:
    policy = umab.policy(name)
    losses = losses_for(policy)
    given: Any = {
        "each its own": np.arange(N_ROUNDS) % 4,
        "of the arm": np.arange(losses.size).reshape(losses.shape) % 7,
        "of the arm, drawn": lambda generator, n_rounds: generator.integers(0, 5, (n_rounds, losses.shape[1])),
        "drawn": lambda generator, n_rounds: generator.integers(0, 5, n_rounds),
    }.get(delays, delays)
    one, other = both(policy, losses, n_trials=N_TRIALS, delays=given)
    assert_agree(policy, one, other)


@pytest.mark.parametrize("name", ["umab-g-a", "umab-w", "centred(umab-s)"])
@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("delays", [None, 2])
def test_arms_that_are_away_agree(name: str, expected: bool, delays: int | None) -> None:
    policy = umab.policy(name)
    eligible = np.random.default_rng(1).random((N_ROUNDS, 3)) < 0.7
    eligible[~eligible.any(axis=1), 0] = True
    options = {"n_trials": N_TRIALS, "expected": expected, "delays": delays, "eligible": eligible}
    assert_agree(policy, *both(policy, losses_for(policy), **options))


@pytest.mark.parametrize("policy", [Tosser(), Patient(), PatientTosser(), Capped(PatientTosser(), limit=2.0)], ids=repr)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_coins_tickets_closed_draws_and_losses_of_other_arms_agree(policy: Any, late: bool, away: bool) -> None:
    """With a processor and, for some trials, with plain Python; late losses may also never come."""
    losses, numbers = losses_for(policy), np.arange(3 * N_ROUNDS).reshape(N_ROUNDS, 3)
    delays, eligible = numbers * 7 % 5 - 1, numbers * 5 % 7 < 5
    options: dict[str, Any] = {"delays": delays if late else None, "eligible": eligible if away else None}
    assert has_same_bits_everywhere(policy)
    one, other = both(policy, losses, n_trials=N_TRIALS, expected=True, **options)
    assert_same(one, other)
    for trial in (0, N_TRIALS - 1):
        rounds = list(play(policy, losses, trial=trial, **options))
        assert other.arms[trial].tolist() == [round.arm for round in rounds]
        if policy.coin is not None:
            assert other.coins[trial].tolist() == [round.coin for round in rounds]


def test_coins_are_kept_in_their_places_however_much_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, n_trials = losses_for(Tosser(), 100, 2), 70 if SIMULATED else 7000
    one = umab.simulate(Tosser(), losses, n_trials=n_trials, keep="arms", progress=False)
    monkeypatch.setattr(gpu, "free_memory", lambda: 2 * 32 * 1100)
    assert_same(one, umab.simulate(Tosser(), losses, n_trials=n_trials, keep="arms", device="gpu", progress=False))


@pytest.mark.parametrize("keep", ["all", "arms", "summary"])
@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("n_trials", [1, 33, 64] if SIMULATED else [1, 2, 31, 32, 33, 64, 70])
def test_what_is_kept_is_the_same(keep: Any, expected: bool, n_trials: int) -> None:
    losses = losses_for(umab.UMABGA(), 6)
    assert_same(*both("umab-g-a", losses, n_trials=n_trials, expected=expected, keep=keep))


@pytest.mark.parametrize("n_rounds", [1, 2, 4097])
def test_any_number_of_rounds_is_the_same(n_rounds: int) -> None:
    """NumPy sums a single round in another order; the last piece of 4097 rounds has one."""
    losses = losses_for(umab.UMABGA(), n_rounds, 2)
    assert_same(*both("umab-g-a", losses, n_trials=40 if n_rounds < 10 or not SIMULATED else 2, keep="summary"))


@pytest.mark.parametrize("n_arms", [2, 10, 100] if SIMULATED else [2, 10, 100, 300, 3000])
def test_any_number_of_arms_is_the_same(n_arms: int) -> None:
    n_rounds, n_trials = (3, 2) if SIMULATED else (50, 100)
    assert_same(*both("umab-g-a", losses_for(umab.UMABGA(), n_rounds, n_arms), n_trials=n_trials))


def test_a_large_state_stays_in_the_memory_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "MOST_IN_THREAD", 0)
    for name in ("umab-g-a", "umab-w"):
        policy = umab.policy(name)
        assert_agree(policy, *both(policy, losses_for(policy), n_trials=N_TRIALS, expected=True))


def test_no_bit_depends_on_how_much_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = losses_for(umab.UMABGA(), 100, 2)
    n_trials = 70 if SIMULATED else 7000
    one, other = both("umab-g-a", losses, n_trials=n_trials, keep="arms")
    assert_same(one, other)
    plans = []
    plan = gpu_trials._Device.plan

    def planned(self: Any, n_blocks: int) -> tuple[int, int]:
        plans.append(plan(self, n_blocks))
        return plans[-1]

    monkeypatch.setattr(gpu_trials._Device, "plan", planned)
    for free in (2 * 32 * 1100, 4 * 32 * 1100):
        monkeypatch.setattr(gpu, "free_memory", lambda free=free: free)
        assert_same(
            one, umab.simulate("umab-g-a", losses, n_trials=n_trials, keep="arms", device="gpu", progress=False)
        )
    assert all(n_blocks < n_trials / 32 and n_rounds < 100 for n_blocks, n_rounds in plans) and len(set(plans)) == 2
    monkeypatch.setattr(gpu, "free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="32 trials must fit into half of the free memory of the GPU, which is 500"):
        umab.simulate("umab-g-a", losses, device="gpu", progress=False)


def test_a_seed_may_have_any_size() -> None:
    losses = losses_for(umab.UMABGA(), 5)
    for seed in (1, 2**32, 2**128 + 7):
        assert_same(*both("uniform", losses, n_trials=40, seed=seed))


def test_generators_on_the_device_are_those_of_numpy() -> None:
    first = [0, 96, 2**32 - 32]
    generators = gpu.empty((96, pcg.GENERATOR_SIZE), np.int64, "F")
    buffers = gpu.empty((96, 1), np.float64, "F")
    given = np.zeros((1, 1)), np.zeros(3, dtype=np.int64), pcg.pool_of(5), np.array(first)
    links = gpu.on_device(np.zeros((1, 1, 1), dtype=np.int64))
    gpu.BEGIN(96, buffers, generators, links, *(gpu.on_device(each) for each in given))
    rows = generators.copy_to_host()
    for at, trial in [(0, 0), (33, 97), (95, 2**32 - 1)]:
        state: Any = stream(5, trial).state["state"]
        words = [state["state"] >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
        words += [state["inc"] >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
        assert rows[at].tolist() == words


def test_more_trials_than_a_word_can_number_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n_trials must be at most 4294967296 on a GPU, but got 4294967297"):
        umab.simulate("uniform", losses_for(umab.UMABGA(), 5), n_trials=2**32 + 1, device="gpu", progress=False)


# Progress, and a stop.


def test_progress_counts_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Progress(0, "", False)
    steps: list[int] = []
    monkeypatch.setattr(bar, "advance", steps.append)
    umab.simulate(["uniform", "umab-g-a"], losses_for(umab.UMABGA(), 7), n_trials=40, device="gpu", progress=bar)
    assert sum(steps) == 2 * 7 * 40


def test_a_simulation_can_be_stopped() -> None:
    bar = Progress(0, "", False)
    bar.stopped.set()
    with pytest.raises(CancelledError):
        umab.simulate("uniform", losses_for(umab.UMABGA(), 7), n_trials=40, device="gpu", progress=bar)


# Policies of one's own.


class State(NamedTuple):
    probabilities: Vector
    sums: Vector


class Parameters(NamedTuple):
    rate: float


def normalize(weights: Vector) -> None:
    total = 0.0
    for k in range(len(weights)):
        total += weights[k]
    for k in range(len(weights)):
        weights[k] /= total


@dataclass(frozen=True, kw_only=True)
class Own(umab.Policy):
    """Weights 1/(1 + rate · sum)."""

    rate: float = 0.5
    reference = ""
    summary = "a policy of one's own"

    def init(self, n_arms: int) -> State:
        return State([1.0 / n_arms] * n_arms, [0.0] * n_arms)

    def parameters_for(self, n_arms: int) -> Parameters:
        return Parameters(self.rate)

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        state.sums[arm] += loss / probability
        for k in range(len(state.sums)):
            state.probabilities[k] = 1.0 / (1.0 + parameters.rate * math.sqrt(state.sums[k]))
        normalize(state.probabilities)
        return state


@dataclass(frozen=True, kw_only=True)
class Broken(Own):
    """A policy that leaves no distribution."""

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        state.probabilities[arm] = 0.9
        return state


def test_a_policy_of_ones_own_agrees() -> None:
    assert has_same_bits_everywhere(Own())
    assert_same(*both(Own(rate=2.0), losses_for(Own()), n_trials=N_TRIALS, expected=True))


def test_an_update_that_leaves_no_distribution_is_found() -> None:
    with pytest.raises(ArithmeticError, match="must leave positive probabilities that sum to 1"):
        umab.simulate(Broken(), losses_for(Own(), 5), n_trials=40, device="gpu", progress=False)


# Many cells at once.


def test_cells_that_run_at_once_have_the_bits_of_each_alone() -> None:
    tables = [umab.Losses.of(losses_for(umab.UMABGA(), 8) * factor) for factor in (1.0, 3.7)]
    bar, stop = Progress(0, "", False), threading.Event()
    for delay in (None, 2):
        late = None if delay is None else Delays.of(delay, 8)
        works = [Work(each, None, late, costs_of(each), 40, 3, True, "summary", bar, stop) for each in tables]
        pairs = [(umab.UMABGA(rate=rate), work) for rate in (0.1, 0.25, 4.0) for work in works]
        results = simulate_cells([policy for policy, _ in pairs], [work for _, work in pairs])
        assert len({result.mean.tobytes() for result in results}) == 6
        for (policy, work), result in zip(pairs, results, strict=True):
            alone = umab.simulate(
                policy, work.losses, n_trials=40, seed=3, expected=True, keep="summary", delays=delay, progress=False
            )
            assert_same(alone, result)


# Exactness.


def test_a_gpu_that_rounds_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if SIMULATED:
        pytest.skip("the simulator rounds as Python does")
    monkeypatch.setattr(gpu, "_uncontracted", contextlib.nullcontext)
    monkeypatch.setattr(gpu, "_BUILD", "contracted")  # no code from the cache
    with pytest.raises(RuntimeError, match="contracts a multiplication and an addition"):
        gpu._check_rounding(gpu._imported())


# Sweeps.


def test_a_sweep_writes_the_bytes_of_a_processor_and_keeps_others_apart(tmp_path: Any) -> None:
    pytest.importorskip("polars")
    from umab.research.experiments import parts
    from umab.research.experiments.on_gpu import groups, run_on_gpu
    from umab.research.experiments.sweep import Sweep, grid_of

    for number, factor in enumerate((1.0, 3.7)):
        lines = [",".join(map(repr, row)) for row in (losses_for(umab.UMABGA(), 8) * factor).tolist()]
        (tmp_path / f"{number}.csv").write_text("\n".join(["a,b,c", *lines]))
    content = {
        "trials": 40,
        "delays": [0, 2],
        "data": ["0.csv", "1.csv"],
        "policies": ["uniform", "umab-s"],
        "grid": {"umab-g-a": {"rate": [0.25, 4.0]}},
    }
    sweep = Sweep.of("rates", content, folder=tmp_path)
    written: dict[Any, tuple[str, bytes]] = {}
    for device in ("cpu", "gpu"):
        out = tmp_path / device
        parts.prepare(out)
        grid = grid_of(sweep, None, functools.partial(parts.store, out), device)
        cells = list(grid.cells.values())
        if device == "gpu":
            # One group for each policy and delay, with both tables and all rates.
            assert sorted(len(group) for group in groups(cells)) == [2, 2, 2, 2, 4, 4]
            in_groups = [cell for group in groups(cells) for cell in group]
            assert run_on_gpu(cells, out, threading.Event()) == [(cell.id, None) for cell in in_groups]
        else:
            assert [parts.run_cell(cell, out) for cell in cells] == [(cell.id, None) for cell in cells]
        for cell in cells:
            part = parts.part_path(out, cell.id).read_bytes()
            written[device, cell.policy, cell.table.label, cell.delay] = cell.id, part
    for (device, policy, *rest), (id, content_of_part) in written.items():
        other_id, other = written["cpu", policy, *rest]
        if device == "gpu":
            assert (id == other_id) == (policy != "umab-s")
            if policy != "umab-s":
                assert content_of_part == other
