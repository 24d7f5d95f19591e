"""UMAB-G-A as a CUDA kernel that is written by hand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from umab.engine import gpu
from umab.engine.pcg import GENERATOR_SIZE, pool_of
from umab.results.regret import Costs
from umab.tables.losses import Losses

THREADS = 128


class ByHand:
    """The kernel for a table, with all that it needs on the device."""

    def __init__(self, losses: Losses, n_trials: int, max_registers: int | None = None) -> None:
        from cuda.core import Device, Program, ProgramOptions

        self._device, costs = Device(), Costs.of(losses)
        self._device.set_current()
        code = f"#define K {losses.n_arms}\n" + (Path(__file__).parent / "umab_g_a.cu").read_text()
        major, minor = self._device.compute_capability
        options = ProgramOptions(std="c++17", arch=f"sm_{major}{minor}", fma=False, max_register_count=max_registers)
        self._kernel = Program(code, "c++", options).compile("cubin").get_kernel("umab_g_a")
        self._n_trials, self._n_rounds = n_trials, losses.n_rounds
        self._stream = self._device.create_stream()
        buffers = gpu.empty((n_trials, 1), np.float64, "F")
        self._generators = gpu.empty((n_trials, GENERATOR_SIZE), np.int64, "F")
        zeros = np.zeros(n_trials // 32 + 1, dtype=np.int64)
        given = np.zeros((1, 1)), zeros, pool_of(0), np.arange(0, n_trials + 32, 32)
        links = gpu.on_device(np.zeros((1, 1, 1), dtype=np.int64))
        gpu.BEGIN(n_trials, buffers, self._generators, links, *(gpu.on_device(each) for each in given))
        self._given = [gpu.on_device(each) for each in (losses.table, costs.table, costs.best)]
        self.regret = gpu.empty((n_trials, self._n_rounds), np.float64, "C")
        self.arms = gpu.empty((n_trials, self._n_rounds), np.uint8, "C")
        gpu.wait()

    def run(self) -> float:
        """Play all rounds of all trials; return how many seconds the kernel took."""
        from cuda.core import LaunchConfig, launch

        blocks = (self._n_trials + THREADS - 1) // THREADS
        arrays = [_address(each) for each in (self._generators, *self._given, self.regret, self.arms)]
        began = time.perf_counter()
        launch(
            self._stream,
            LaunchConfig(grid=blocks, block=THREADS),
            self._kernel,
            np.int64(self._n_trials),
            np.int64(self._n_rounds),
            *arrays,
        )
        self._stream.sync()
        return time.perf_counter() - began


def _address(array: Any) -> Any:
    return np.intp(array.__cuda_array_interface__["data"][0])
