"""The generic compiled loop, and its contenders: the same algorithm inlined by hand, and written in C."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import umab
from benchmarks import inlined, simple
from umab.algorithms.base import Policy
from umab.engine.compiled import simulation_kernel
from umab.engine.layout import layout_of
from umab.engine.loops import Record, Rings
from umab.engine.loops import Table as Rounds

N_TRIALS, N_ROUNDS = 32, 1258
INLINED: dict[str, Callable[..., None]] = {
    "umab-g-a": inlined.umab_g_a,
    "sf-mab-a": inlined.sf_mab_a,
    "adahedge": inlined.ada_hedge,
    "banker-omd": inlined.banker_omd,
}
"""The policies that are also inlined by hand: UMAB-G-A and the three whose rounds take longest."""


Table = npt.NDArray[np.float64]


class Contender(NamedTuple):
    """A loop, and the arrays that it fills."""

    run: Callable[[], None]
    regret: npt.NDArray[np.float64]
    arms: npt.NDArray[np.int32]


def contenders(n_arms: int, name: str = "umab-g-a") -> dict[str, Contender]:
    """Return the loops of a policy: generic, inlined and, for UMAB-G-A, in C. They are checked to agree bit for bit.

    For UMAB-G-A there is also the simple version of the engine, whose results differ by rounding.
    """
    policy = umab.policy(name).for_horizon(N_ROUNDS)
    losses = losses_of(n_arms)
    costs = losses - losses.min(axis=1, keepdims=True)
    best = costs.cumsum(axis=0).min(axis=1)
    uniforms = np.random.default_rng(n_arms).random((N_TRIALS, N_ROUNDS))
    made = {"generic": generic(policy, losses, costs, best, uniforms)}
    if name in INLINED:
        made["inlined"] = _inlined(INLINED[name], losses, costs, best, uniforms)
    if name == "umab-g-a":
        made["C"] = _c(losses, costs, best, uniforms)
    for kind, contender in made.items():
        contender.run()
        for array, reference in ((contender.regret, made["generic"].regret), (contender.arms, made["generic"].arms)):
            if array.tobytes() != reference.tobytes():
                raise AssertionError(f"{kind} and generic must agree bit for bit, but {name} differs at {n_arms=}")
    if name == "umab-g-a":
        made["simple"] = generic(simple.SimpleUMABGA(), losses, costs, best, uniforms, simple.simulation_kernel)
        made["simple"].run()
        # Very rarely a rounding error decides a draw; then the rest of the trial differs.
        if (made["simple"].arms == made["generic"].arms).mean() < 0.99:
            raise AssertionError(
                f"simple and generic must draw the same arms, except for rounding, but they differ at {n_arms=}"
            )
    return made


def losses_of(n_arms: int, outliers: float = 0.01) -> Table:
    """Return normal losses, some of them a hundred times as large, so that units change and losses are clipped."""
    random = np.random.default_rng(n_arms)
    losses = random.normal(np.linspace(0.0, 1.0, n_arms), 1.0, size=(N_ROUNDS, n_arms))
    losses *= 1.0 + 100.0 * (random.random((N_ROUNDS, 1)) < outliers)
    return losses


def _outputs() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    shape = (N_TRIALS, N_ROUNDS)
    return np.zeros(shape), np.zeros(shape, dtype=np.int32)


def generic(
    policy: Policy,
    losses: Table,
    costs: Table,
    best: Table,
    uniforms: Table,
    kernel_of: Callable[[Policy], Callable[..., None]] = simulation_kernel,
) -> Contender:
    """Return the compiled loop of umab."""
    n_trials, n_rounds = uniforms.shape
    kernel, table = kernel_of(policy), Rounds.of(losses, costs, best)
    rings = Rings.of(n_trials, np.empty(0), np.zeros((1, n_rounds, 1), dtype=np.int64))
    record = Record.of(np.zeros((n_trials, 1)), n_rounds)
    start = layout_of(policy).start(policy, losses.shape[1])

    def run() -> None:
        record.spent[:] = 0.0
        kernel(np.tile(start, (n_trials, 1)), uniforms, table, rings, record)

    return Contender(run, record.regret, record.arms)


def _inlined(loop: Callable[..., None], losses: Table, costs: Table, best: Table, uniforms: Table) -> Contender:
    regret, arms = _outputs()
    vectors = np.zeros((3, losses.shape[1]))
    return Contender(lambda: loop(uniforms, losses, costs, best, vectors, regret, arms), regret, arms)


def _c(losses: Table, costs: Table, best: Table, uniforms: Table) -> Contender:
    regret, arms = _outputs()
    vectors = np.zeros((2, 3, losses.shape[1]))
    run = _build()
    sizes = [ctypes.c_int64(size) for size in (N_TRIALS, N_ROUNDS, losses.shape[1])]
    arrays = (uniforms, losses, costs, best, vectors, regret, arms)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]

    def call() -> None:
        run(*sizes, *pointers)

    call.arrays = arrays  # type: ignore[attr-defined]  # C holds only addresses: keep the arrays alive
    return Contender(call, regret, arms)


def _build() -> Callable[..., object]:
    source = Path(__file__).with_name("loop.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loop.so"
        command = [
            "gcc",
            "-O3",
            "-march=native",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
            str(source),
            "-lm",
        ]
        subprocess.run(command, check=True)
        run = ctypes.CDLL(str(library)).run
    run.restype = None
    return run
