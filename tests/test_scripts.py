"""The short scripts of examples/: short, on the public API alone, quick, and right in what they claim."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from examples import SCRIPTS

import umab
import umab.contextual
from pages import scripts

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / scripts.PAGE

ON_A_BASE_INSTALL = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names | {"umab", "numpy", "numba", "llvmlite"}:
            raise ModuleNotFoundError(f"{name} is not in a base install", name=name)

sys.meta_path.insert(0, Missing())
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def code(name: str) -> str:
    return (scripts.FOLDER / f"{name}.py").read_text(encoding="utf-8")


def shown(name: str) -> str:
    """Return what the page says that a script prints."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition(f'title="examples/{name}.py"')
    found = re.search(r"```text\n(.*?)```", after, re.DOTALL)
    assert found
    return found[1]


def gain(printed: str) -> int:
    """Return what the learner saves, or earns more, compared with random, in percent."""
    (found,) = re.findall(r"^the learner .*?(-?\d+)% (?:compared with|more than) random", printed, re.MULTILINE)
    return int(found)


def amounts(printed: str) -> list[float]:
    """Return what choosing at random, the best arm and the learner cost, or bring."""
    lines = re.findall(r"^(?:\w+ at random|the best \w+ \w+(?: \w+)?|the learner) +([\d.,]+)", printed, re.MULTILINE)
    return [float(each.rstrip(",").replace(",", "")) for each in lines]


@pytest.fixture(params=SCRIPTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_script_runs_on_a_base_install_and_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ON_A_BASE_INSTALL, str(scripts.FOLDER / f"{name}.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # no more than an installation has
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown(name)
    assert not list(tmp_path.iterdir())  # it leaves nothing behind


def test_a_script_uses_only_numpy_and_public_names(name: str) -> None:
    tree = ast.parse(code(name))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node) for node in imports} == {"import numpy as np", "import umab"}
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    ours = {each for each in used if re.fullmatch(r"umab(\.\w+)+", each)}
    public = {f"umab.{each}" for each in umab.__all__} | {"umab.contextual"}
    public |= {f"umab.contextual.{each}" for each in umab.contextual.__all__}
    assert ours and ours <= public
    assert not any("._" in each for each in used)


def test_the_page_is_that_of_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they print is compared above."""
    monkeypatch.setattr(scripts, "printed", shown)
    assert PAGE.read_text(encoding="utf-8") == scripts.page()


def test_what_a_script_claims_is_not_luck(name: str) -> None:
    """With other data and other draws the learner is far from random too, and near the best arm or beyond it."""
    for seed in range(3):
        text = re.sub(r"seed=0\b", f"seed={seed}", code(name).replace("default_rng(0)", f"default_rng({seed})"))
        said = io.StringIO()
        with redirect_stdout(said):
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
        if seed == 0:
            assert said.getvalue() == shown(name)
        at_random, best, learned = amounts(said.getvalue())
        more = name == "late_rewards"
        percent = 100.0 * (learned / at_random - 1.0 if more else 1.0 - learned / at_random)
        assert abs(gain(said.getvalue()) - percent) < 1.0 and percent > 20.0
        share = (learned - at_random) / (best - at_random)  # of what could be gained
        assert share > (5.0 if name == "with_context" else 0.75), (seed, share)
