"""A GPU, without one: the streams in plain arithmetic, code for it, and its kernels in Numba's simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from helpers import PATIENCE
from umab.engine import pcg
from umab.engine.compiled import _callable_when_compiled
from umab.engine.exact import has_same_bits_everywhere
from umab.engine.streams import stream

TESTS = Path(__file__).parent
POLICIES = list(umab.policies())
EXACT = [name for name in POLICIES if has_same_bits_everywhere(umab.policy(name).for_horizon(100))]


# The streams.


@given(seed=st.integers(0, 2**200), trial=st.integers(0, 2**32 - 1))
def test_the_generator_is_that_of_numpy(seed: int, trial: int) -> None:
    generator = [0] * pcg.GENERATOR_SIZE
    pcg.seed_generator(generator, pcg.pool_of(seed).tolist(), trial)
    drawn = [pcg.next_uniform(generator) for _ in range(20)]
    assert drawn == np.random.Generator(stream(seed, trial)).random(20).tolist()


def test_integers_that_wrap_around_give_the_same_numbers() -> None:
    import numba

    names = {"seed": _callable_when_compiled(pcg.seed_generator), "draw": _callable_when_compiled(pcg.next_uniform)}  # type: ignore[arg-type]
    text = "def fill(pool, trial, generator, out):\n    seed(generator, pool, trial)\n    for k in range(len(out)):\n"
    exec(f"{text}        out[k] = draw(generator)", names)
    fill: Any = numba.njit(names["fill"])
    for seed, trial in [(0, 0), (7, 2**32 - 1), (2**130 + 3, 12345)]:
        out, generator = np.empty(10_000), np.empty(pcg.GENERATOR_SIZE, dtype=np.int64)
        fill(pcg.pool_of(seed), trial, generator, out)
        assert out.tobytes() == np.random.Generator(stream(seed, trial)).random(10_000).tobytes()


# Who has the same bits everywhere.


def test_policies_without_exponentials_and_logarithms_have_the_same_bits_everywhere() -> None:
    assert {"umab-nn", "umab-g", "umab-g-a", "scb", "tsallis-inf", "uniform"} <= set(EXACT)
    assert not {"exp3", "umab-s", "umab-w", "adahedge", "banker-omd"} & set(EXACT)


# Options.


def test_a_device_must_be_known() -> None:
    with pytest.raises(ValueError, match=r"device must be one of 'cpu', 'gpu', but got device='tpu'"):
        umab.simulate("uniform", np.ones((2, 2)), device="tpu")  # type: ignore[call-overload]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


RUN = "import numpy, umab; umab.simulate('uniform', numpy.ones((2, 2)), device='gpu')"


def test_without_a_gpu_an_error_says_what_is_missing() -> None:
    pytest.importorskip("numba_cuda")
    done = python(RUN, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "OSError: device='gpu' needs an NVIDIA GPU and its driver, but none can be used here" in done.stderr


def test_without_a_gpu_commands_say_so_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda")
    (tmp_path / "losses.csv").write_text("a,b\n1,2\n2,1\n")
    (tmp_path / "grid.toml").write_text('trials = 10\ndata = "losses.csv"\npolicies = ["uniform"]\n')
    for arguments in (["compare", "losses.csv"], ["sweep", "grid.toml"]):
        done = subprocess.run(
            [sys.executable, "-m", "umab.cli", *arguments, "--device", "gpu"],
            cwd=tmp_path,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 2
        assert done.stderr.startswith(
            "umab: device='gpu' needs an NVIDIA GPU and its driver, but none can be used here"
        )
        assert done.stderr.count("\n") == 1


def test_without_numba_cuda_an_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['numba.cuda'] = None\n"
    done = python(hidden + RUN)
    assert done.returncode == 1
    assert "ImportError: device='gpu' needs numba-cuda: pip install 'umab[gpu]'" in done.stderr


# Code for a GPU.


def code_of(*names: str) -> dict[str, dict[str, int]]:
    done = subprocess.run(
        [sys.executable, str(TESTS / "compile_for_gpu.py"), *names], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


# All of them take minutes; tests/gpu compiles them too, on a GPU.
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["umab-g-a", "exp3", "centred(umab-s)"], id="some"),
        *(pytest.param(POLICIES[part::4], id=f"part {part}", marks=pytest.mark.slow) for part in range(4)),
    ],
)
def test_policies_can_be_compiled_and_their_products_and_sums_are_kept_apart(names: list[str]) -> None:
    pytest.importorskip("numba_cuda")
    for name, counts in code_of(*names).items():
        assert counts["mul.f64"] == 0  # which the driver may contract
        assert counts["mul.rn.f64"] > 0
        if name in EXACT:
            assert counts["fma.rn.f64"] == 0, name


def test_late_feedback_can_be_compiled() -> None:
    pytest.importorskip("numba_cuda")
    found = code_of("umab-g-a@late", "banker-omd@late")
    assert found["umab-g-a"]["fma.rn.f64"] == 0


def test_numba_alone_would_contract() -> None:
    pytest.importorskip("numba_cuda")
    assert code_of("umab-g-a", "--contracted")["umab-g-a"]["fma.rn.f64"] > 10


# The kernels, simulated. These tests run on a GPU, too: `make test-gpu`.


@pytest.mark.parametrize(
    "part", ["every_policy or late_feedback", "coins", "not every_policy and not late_feedback and not coins"]
)
def test_simulated_kernels_agree_with_the_processor(part: str) -> None:
    pytest.importorskip("numba_cuda")
    here = (
        "-c",
        os.devnull,
        "-o",
        f"pythonpath={TESTS}",
        "--rootdir",
        str(TESTS.parent),
        "--confcutdir",
        str(TESTS / "gpu"),
        "-p",
        "no:cacheprovider",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *here, "-k", part, str(TESTS / "gpu")],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout.splitlines()[-1]


def test_whatever_is_compiled_at_a_call_is_compiled_without_contraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that was compiled before compiles anew for arrays of another layout."""
    pytest.importorskip("numba_cuda")
    from numba.cuda.cudadrv import nvvm

    from umab.engine import gpu, threads

    before, options = nvvm.compile_ir, []

    class Dispatcher:
        overloads: ClassVar[dict[str, str]] = {"an earlier type": "its code"}

        def __getitem__(self, configuration: Any) -> Any:
            return lambda *arguments: options.append(nvvm.compile_ir.keywords)

    kernel = gpu.Kernel(threads.contract)
    kernel._launched = Dispatcher()
    kernel(1, imported=ModuleType("cuda"))
    kernel((1, 2), imported=ModuleType("cuda"))
    assert options == [{"fma": False}] * 2 and nvvm.compile_ir is before
