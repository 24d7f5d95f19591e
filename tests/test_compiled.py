"""The compiler: its cache, and what it tells people who write a policy."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import umab
from umab.policies.base import Policy
from umab.simplex import Vector

SOURCE = Path(umab.__file__).parent

PROGRAM = """
import json, umab, numpy
from umab.engine.compiled import online_kernels, simulation_kernel
policy = umab.UMABNN()
kernels = [simulation_kernel(policy), *online_kernels(policy)]
losses = numpy.random.default_rng(0).random((50, 3))
print(json.dumps({
    "regret": umab.simulate(policy, losses, n_trials=3).final_regret.tolist(),
    "hits": sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels),
    "misses": sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels),
}))
"""


def run_copy(folder: Path, **environment: str) -> dict[str, Any]:
    """Run the program on the copy of the package in `folder`, in a process of its own."""
    variables = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), **environment}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)  # type: ignore[no-any-return]


def edit(path: Path, old: str, new: str) -> None:
    """Change a file, keeping its size and time: a cache that looks at these only is fooled."""
    text, times = path.read_text(), path.stat()
    assert text.count(old) == 1 and len(old) == len(new)
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_the_cache_outlives_a_process_and_never_returns_old_code(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "umab", ignore=shutil.ignore_patterns("__pycache__"))
    cold = {"hits": 0, "misses": 3}
    warm = {"hits": 3, "misses": 0}
    nocache = {"PYTHONDONTWRITEBYTECODE": "1"}

    first = run_copy(tmp_path, **nocache)
    assert first == {"regret": first["regret"], **cold}
    assert run_copy(tmp_path, **nocache) == {"regret": first["regret"], **warm}

    # A change of the policy itself, of a function that it calls, and of a constant that such a function uses.
    for name, old, new in [
        ("policies/umab_nn.py", "2.0 * math.sqrt", "3.0 * math.sqrt"),
        ("simplex.py", "max(1.0 / (p[k] + shift), FLOOR)", "max(2.0 / (p[k] + shift), FLOOR)"),
        ("numerics.py", "FLOOR = 2.0**-1000", "FLOOR = 0.30000000"),
    ]:
        path = tmp_path / "umab" / name
        edit(path, old, new)
        changed = run_copy(tmp_path, **nocache)
        assert changed == {"regret": changed["regret"], **cold}, name
        assert changed["regret"] != first["regret"], name
        edit(path, new, old)
        assert run_copy(tmp_path, **nocache) == {"regret": first["regret"], **warm}, name


def test_without_the_compiler_the_results_are_the_same(tmp_path: Path) -> None:
    compiled, plain = (run_python(PROGRAM_WITHOUT_STATISTICS, tmp_path, NUMBA_DISABLE_JIT=flag) for flag in ("0", "1"))
    assert compiled == plain != ""


PROGRAM_WITHOUT_STATISTICS = """
import umab, numpy
losses = numpy.random.default_rng(0).random((50, 3))
print(umab.simulate(umab.UMABG(rate=4), losses, n_trials=3).final_regret.tolist())
learner = umab.Learner(umab.UMABG(rate=4), 3, seed=0)
for loss in losses[:, 0].tolist():
    learner.update(learner.select(), loss)
print(learner.to_json())
"""


def run_python(program: str, folder: Path, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_no_folder_for_the_cache_is_no_reason_to_fail(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "umab", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "file").write_text("")
    result = run_copy(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert len(result["regret"]) == 3 and result["hits"] == 0


def test_importing_umab_does_not_load_the_compiler() -> None:
    program = "import sys, umab; print(sorted({'numba', 'polars', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


class State(NamedTuple):
    probabilities: Vector
    played: float


class Wrong(NamedTuple):
    probabilities: list[float]
    played: int


TABLE = {"a": 1.0}


@dataclass(frozen=True, kw_only=True)
class Mine(Policy):
    """A policy that a user might write."""

    step: float = 1.0

    def init(self, n_arms: int) -> State:
        return State([1.0 / n_arms] * n_arms, 0.0)

    @staticmethod
    def update(state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, state.played + _one())


def _one() -> float:
    return math.floor(1.5)


class Lucky(Mine):
    @staticmethod
    def update(state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, random.random())


class Bookkeeper(Mine):
    @staticmethod
    def update(state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, TABLE["a"])


class Shapeless(Mine):
    def init(self, n_arms: int) -> Any:
        return Wrong([1.0 / n_arms] * n_arms, 0)


def test_a_policy_of_ones_own_runs_without_being_registered() -> None:
    learner = umab.Learner(Mine(step=2.0), 2, seed=0)
    learner.update(learner.select(), 1.0)
    assert learner._layout.unpack(learner._buffer).played == 1.0
    assert umab.simulate(Mine(), [[0.0, 1.0]], n_trials=4).policy == "Mine:step=1"
    with pytest.raises(ValueError, match=r"a saved policy must have a name: call umab\.register"):
        learner.to_json()


def test_what_cannot_be_compiled_soundly_is_refused_in_words() -> None:
    for policy, culprit in ((Lucky(), "uses random=<module 'random'"), (Bookkeeper(), "uses TABLE={'a': 1.0}")):
        with pytest.raises(TypeError, match=f"may use math, numbers, NamedTuples and plain functions.*{culprit}"):
            umab.Learner(policy, 2)
    with pytest.raises(TypeError, match="state must be a NamedTuple of fields of type float or"):
        umab.Learner(Shapeless(), 2)
