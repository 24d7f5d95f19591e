"""Compile the registered policies, each once: else every process of the tests would compile them for itself."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

import umab
from umab.engine.compiled import drawing_kernel, online_kernels, simulation_kernel


def compile_all_of(name: str) -> None:
    """Compile the kernels of a policy, or find them in the cache on disk."""
    policy = umab.policy(name).for_horizon(100)
    simulation_kernel(policy)
    simulation_kernel(policy, "late")
    if not policy.full_information:
        simulation_kernel(policy, "among")
        online_kernels(policy)


if __name__ == "__main__":
    drawing_kernel()
    kinds = {type(umab.policy(name)): name for name in umab.policies()}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(compile_all_of, kinds.values()))
