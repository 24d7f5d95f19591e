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
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import umab
from toys import umab_g
from umab.algorithms.base import Policy
from umab.simplex import Vector
from umab.testing import check_policy

SOURCE = Path(umab.__file__).parent

PROGRAM = """
import json, umab, numpy
from umab.engine.compiled import online_kernels, simulation_kernel
policy = umab.UMABNN()
learner = umab.Learner(policy, 3, seed=0)
for t in range(50):
    choice = learner.select()
    learner.update(choice, (t * 7919 % 101) / 100.0 + choice.index)
kernels = [*online_kernels(policy), *([simulation_kernel(policy)] if simulated else ())]
print(json.dumps({
    "probabilities": learner.probabilities().tolist(),
    "hits": sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels),
    "misses": sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels),
}))
"""


def run_copy(folder: Path, simulated: bool = False, cache: str = "cache") -> dict[str, Any]:
    """Run the program on the copy of the package in `folder`, in a process of its own."""
    variables = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / cache)}
    command = [sys.executable, "-B", "-c", f"{simulated = }\n{PROGRAM}"]
    run = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)  # type: ignore[no-any-return]


def edit(path: Path, old: str, new: str) -> None:
    """Change a file, keeping its size and time: a cache that looks at these only is fooled."""
    text, times = path.read_text(), path.stat()
    assert text.count(old) == 1 and len(old) == len(new)
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_the_cache_outlives_a_process_and_never_returns_old_code(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "umab", ignore=shutil.ignore_patterns("__pycache__"))
    first = run_copy(tmp_path, simulated=True)
    assert (first["hits"], first["misses"]) == (0, 3)
    assert run_copy(tmp_path, simulated=True) == {**first, "hits": 3, "misses": 0}

    # A change of the policy itself, of a function that it calls, and of a constant that such a function uses.
    # The second of the three is used by the draw alone, so that what learns is found again.
    for name, old, new, n_made in [
        ("algorithms/umab_nn.py", "2.0 * math.sqrt", "3.0 * math.sqrt", 2),
        ("maths/simplex.py", "if uniform < cumulative", "if uniform > cumulative", 1),
        ("maths/numerics.py", "SMALLEST_PROPENSITY = 2.0**-900", "SMALLEST_PROPENSITY = 0.9000000", 2),
    ]:
        path = tmp_path / "umab" / name
        edit(path, old, new)
        changed = run_copy(tmp_path)
        assert (changed["hits"], changed["misses"]) == (2 - n_made, n_made), name
        assert changed["probabilities"] != first["probabilities"], name
        edit(path, new, old)
    assert run_copy(tmp_path) == {**first, "hits": 2, "misses": 0}  # what was kept before is found again

    # A change of how they are compiled.
    edit(tmp_path / "umab" / "engine" / "compiled.py", '    "nogil": True,\n', '    "nogil": None,\n')
    assert run_copy(tmp_path) == {**first, "hits": 0, "misses": 2}


def test_the_cache_serves_policies_that_are_written_in_a_script(tmp_path: Path) -> None:
    script = (
        NOTEBOOK
        + """
import umab
from umab.engine.compiled import simulation_kernel
umab.simulate(Counter(), [[1.0, 2.0]], n_trials=1)
print(sum(simulation_kernel(Counter()).stats.cache_hits.values()))
"""
    )
    hits = [run_python(script, tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert hits == ["0\n", "1\n"]


def test_the_cache_does_no_harm_to_policies_that_cannot_be_imported(tmp_path: Path) -> None:
    script = f"""
names = {{"__name__": "nowhere"}}
exec({NOTEBOOK!r}, names)
import umab
print(umab.simulate(names["Counter"](), [[1.0, 2.0]], n_trials=1, expected=False).mean.tolist())
"""
    for _ in range(2):
        assert run_python(script, tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) == "[1.0]\n"


def test_which_of_two_functions_a_name_stands_for_is_a_part_of_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = []
    for step in ("half", "double"):
        module = ModuleType("two_functions")
        monkeypatch.setitem(sys.modules, "two_functions", module)
        module.__dict__.update(Mine=Mine, State=State)
        text = (
            f"half = lambda x: x * 0.5\ndouble = lambda x: x * 2.0\nstep = {step}\n"
            "class Two(Mine):\n"
            "    @staticmethod\n"
            "    def update(parameters, state, arm, loss, probability):\n"
            "        return State(state.probabilities, half(loss) + 0.0 * double(loss) + step(loss))\n"
        )
        exec(text, module.__dict__)
        learner = umab.Learner(module.Two(), 2)
        learner.update(0, 1.0)
        totals.append(learner._core.layout.unpack(learner._core.buffer).played)
    assert totals == [1.0, 2.5]


def test_without_the_compiler_the_results_are_the_same(tmp_path: Path) -> None:
    compiled, plain = (run_python(PROGRAM_WITHOUT_STATISTICS, tmp_path, NUMBA_DISABLE_JIT=flag) for flag in ("0", "1"))
    assert compiled == plain != ""


PROGRAM_WITHOUT_STATISTICS = """
import json, umab, numpy
losses = numpy.random.default_rng(0).random((50, 3))
print(umab.simulate(umab.UMABGA(rate=4), losses, n_trials=3).final_regret.tolist())
there = losses < losses.max(axis=1, keepdims=True)
print(umab.simulate(umab.UMABGA(rate=4), losses, n_trials=3, eligible=there, delays=2).final_regret.tolist())
learner = umab.Learner(umab.UMABGA(rate=4), 3, seed=0)
for loss in losses[:, 0].tolist():
    learner.update(learner.select(), loss)
saved = json.loads(learner.to_json())
del saved["ids"]["space"]
print(saved)
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
    result = run_copy(tmp_path, cache="file/cache")
    assert len(result["probabilities"]) == 3 and result["hits"] == 0


def test_importing_umab_loads_numpy_and_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import umab\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before if 'cython' not in name}\n"
        "print(sorted(loaded - sys.stdlib_module_names), sorted({'umab.datasets', 'umab.theory'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "['numpy', 'umab'] []\n"


def test_parts_that_are_not_imported_are_there_when_asked_for() -> None:
    program = (
        "import umab; print({'datasets', 'testing', 'theory'} <= set(dir(umab)), umab.theory.bound.__module__,"
        " umab.datasets.__name__, umab.testing.__name__, hasattr(umab, 'teory'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True umab.theory.bounds umab.datasets umab.testing False\n"


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
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, state.played + _one())


def _one() -> float:
    return math.floor(1.5)


class Lucky(Mine):
    @staticmethod
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, random.random())


class Bookkeeper(Mine):
    @staticmethod
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, TABLE["a"])


class Shapeless(Mine):
    def init(self, n_arms: int) -> Any:
        return Wrong([1.0 / n_arms] * n_arms, 0)


def test_a_policy_of_ones_own_runs_without_being_registered() -> None:
    learner = umab.Learner(Mine(step=2.0), 2, seed=0)
    learner.update(learner.select(), 1.0)
    assert learner._core.layout.unpack(learner._core.buffer).played == 1.0
    assert umab.simulate(Mine(), [[0.0, 1.0]], n_trials=4).policy == "test_compiled:Mine:step=1"
    assert umab.policy("test_compiled:Mine:step=2", allow_import=True) == Mine(step=2.0)


def test_what_cannot_be_compiled_soundly_is_refused_in_words() -> None:
    for policy, culprit in ((Lucky(), "uses random=<module 'random'"), (Bookkeeper(), "uses TABLE={'a': 1.0}")):
        with pytest.raises(TypeError, match=f"math, numbers, NamedTuples .*{culprit}"):
            umab.Learner(policy, 2)
    with pytest.raises(TypeError, match=r"state .*float, Vector.* Wrong"):
        umab.Learner(Shapeless(), 2)


NOTEBOOK = """
import math
from dataclasses import dataclass
from typing import Any, NamedTuple
from umab import Policy
from umab.simplex import Vector

FACTOR = 1.0


class State(NamedTuple):
    probabilities: Vector
    total: float


def weigh(loss: float) -> float:
    return FACTOR * loss


@dataclass(frozen=True, kw_only=True)
class Counter(Policy):
    def init(self, n_arms: int) -> State:
        return State([1.0 / n_arms] * n_arms, 0.0)

    @staticmethod
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        return State(state.probabilities, state.total + weigh(loss))
"""


def test_what_is_defined_anew_in_a_notebook_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    exec(NOTEBOOK, notebook.__dict__)
    policy = notebook.Counter()

    def total() -> Any:
        learner = umab.Learner(policy, 2)
        learner.update(0, 1.0)
        umab.simulate(policy, [[1.0, 1.0]], n_trials=1)
        return learner._core.layout.unpack(learner._core.buffer).total

    assert total() == 1.0
    notebook.FACTOR = 5.0  # type: ignore[attr-defined]
    assert total() == 5.0
    exec("def weigh(loss: float) -> float:\n    return loss + 1.0", notebook.__dict__)
    assert total() == 2.0
    notebook.FACTOR = 7.0  # type: ignore[attr-defined]  # of no use any more
    assert total() == 2.0
    exec(NOTEBOOK, notebook.__dict__)
    policy = notebook.Counter()
    assert total() == 1.0


class NotStatic(Mine):
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:  # type: ignore[override]
        return state


class Allocates(Mine):
    @staticmethod
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        return State([p for p in state.probabilities], state.played)


class TooLong(Mine):
    def init(self, n_arms: int) -> Any:
        return TwoVectors([1.0 / n_arms] * n_arms, [0.0] * (n_arms + 1))

    @staticmethod
    def update(parameters: Any, state: Any, arm: int, loss: float, probability: float) -> Any:
        return state


class TwoVectors(NamedTuple):
    probabilities: Vector
    weights: Vector


class OffByOne(Mine):
    @staticmethod
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        state.probabilities[arm + 1] += 0.0
        return state


class NotADistribution(Mine):
    @staticmethod
    def update(parameters: Any, state: State, arm: int, loss: float, probability: float) -> State:
        state.probabilities[arm] += 0.5
        return state


def test_common_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"static method, .*NotStatic\.update"):
        umab.Learner(NotStatic(), 2)
    with pytest.raises(TypeError, match=r"Allocates .*compiled.*umab/algorithms/base\.py"):
        umab.Learner(Allocates(), 2)
    with pytest.raises(ValueError, match=r"weights must be .* shape \(3,\), but got shape \(4,\)"):
        umab.Learner(TooLong(), 3)
    with pytest.raises(ArithmeticError, match=r"NotADistribution.* sum to 1.*check_policy"):
        umab.simulate(NotADistribution(), [[0.0, 1.0]], n_trials=1)


def test_check_policy_finds_what_compiled_code_hides() -> None:
    for policy in ("umab-nn", umab.UMABGA(rate=1e300), umab.UMABGA(initial_scale=5e-324), "umab-g", Mine()):
        check_policy(policy)
    with pytest.raises(IndexError):
        check_policy(OffByOne())
    with pytest.raises(ArithmeticError, match=r"round 1 with 1 arms: arm 0 "):
        check_policy(NotADistribution())


@pytest.mark.parametrize("rate", [1e-300, 1e300])
@pytest.mark.parametrize("initial_scale", [5e-324, 1e-300, 1e300, 1.7e308])
@pytest.mark.parametrize("exploration", ["adaptive", "fixed", "anytime", "none", "maintext"])
def test_any_parameters_are_survived(rate: float, initial_scale: float, exploration: Any) -> None:
    check_policy(umab_g(exploration, rate=rate, initial_scale=initial_scale))
