"""A policy of somebody else's: one file, one line that registers it, and it is everywhere. Nothing else is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import umab

ROOT = Path(__file__).parent.parent

POLICY = '''
"""A policy that draws from the exponentials of scaled sums, and a wrapper."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import umab
from umab import checks, simplex
from umab.numerics import FINEST_UNIT, fit_unit, importance_weighted, rescale
from umab.simplex import Vector, mix, softmin


class State(NamedTuple):
    probabilities: Vector
    weights: Vector
    loss_sums: Vector
    unit: float


class Parameters(NamedTuple):
    share: float


@dataclass(frozen=True, kw_only=True)
class Toy(umab.Policy):
    """losses of any size and sign; a toy from another package"""

    share: float = 0.25
    scale_free: ClassVar[bool] = True

    def __post_init__(self):
        self._set(share=checks.probability("share", self.share))

    def init(self, n_arms):
        uniform = simplex.uniform(n_arms)
        return State(uniform, uniform.copy(), [0.0] * n_arms, FINEST_UNIT)

    def parameters_for(self, n_arms):
        return Parameters(self.share)

    @property
    def guarantee(self):
        return "ℓ∞ T, which says little"

    @staticmethod
    def update(parameters, state, arm, loss, probability):
        unit, shrink = fit_unit(state.unit, loss)
        rescale(state.loss_sums, shrink)
        state.loss_sums[arm] += importance_weighted(loss * unit, max(probability, 0.01))
        softmin(state.loss_sums, 0.02, state.weights)
        mix(state.weights, parameters.share, state.probabilities)
        return State(state.probabilities, state.weights, state.loss_sums, unit)


TOY = umab.Record(Toy(), reference="Nobody 2026", published=True, rate_in_norms="ℓ∞ √(nT)")


@dataclass(frozen=True, kw_only=True)
class NotRegistered(Toy):
    """losses of any size and sign; nobody registered it"""



class Inner(NamedTuple):
    inner: object

    @property
    def probabilities(self):
        return self.inner.probabilities


@dataclass(frozen=True, kw_only=True)
class Flipped(umab.Wrapper):
    """the policy inside, on losses times a factor"""

    def init(self, n_arms):
        return Inner(self.policy.init(n_arms))

    @staticmethod
    def around(inner_update):
        def update(parameters, state, arm, loss, probability, *ticket):
            return Inner(inner_update(parameters.inner, state.inner, arm, 2.0 * loss, probability, *ticket))

        return update
'''

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "toy-policies"
version = "1.0"

[project.entry-points."umab.policies"]
toy = "toy_policies:TOY"
flipped = "toy_policies:Flipped"
broken = "toy_policies:NoSuchThing"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the package installed in it, and all that the tests have besides; its Python."""
    folder = tmp_path_factory.mktemp("third-party")
    (folder / "package" / "toy_policies").mkdir(parents=True)
    (folder / "package" / "toy_policies" / "__init__.py").write_text(POLICY)
    (folder / "package" / "pyproject.toml").write_text(PYPROJECT)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    python = folder / "env" / "bin" / "python"
    found = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    here = "\n".join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    (Path(found.stdout.strip()) / "beside.pth").write_text(f"{here}\n")
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(folder / "package")]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    random = np.random.default_rng(0)
    np.savetxt(folder / "t.csv", random.exponential([1.0, 2.0, 4.0], (60, 3)), "%.6f", ",", header="a,b,c", comments="")
    return python


def run(environment: Path, *arguments: str, code: int = 0, warn: str = "ignore") -> str:
    """Run Python there, in the folder with the table; the policy that cannot be loaded is a warning."""
    done = subprocess.run(
        [str(environment), "-W", warn, *arguments],
        cwd=environment.parents[2],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def python(environment: Path, code: str) -> str:
    return run(environment, "-c", textwrap.dedent(code))


def test_it_is_listed_and_described_by_its_record(environment: Path) -> None:
    text = run(environment, "-m", "umab.cli", "policies", warn="default")
    (line,) = [line for line in text.splitlines() if line.startswith("toy ")]
    assert "Nobody 2026" in line and "ℓ∞ T, which says little" in line
    assert "the policy 'broken' of 'toy_policies:NoSuchThing' cannot be loaded: AttributeError" in text
    table = python(
        environment,
        f"""
        import sys
        sys.path.insert(0, {str(ROOT / "docs")!r})
        import hooks
        print(hooks.policies())
        """,
    )
    assert "| `toy` | any | – | no | yes | one loss | ℓ∞ T, which says little |" in table


def test_it_is_compared_charted_reported_and_swept(environment: Path) -> None:
    folder = environment.parents[2]
    (folder / "grid.toml").write_text(
        'data = "t.csv"\ntrials = 2\npolicies = ["flipped(toy)", "flipped(toy_policies:NotRegistered:share=0.5)"]\n'
        "[grid.toy]\nshare = [0.1, 0.5]\n"
        '[grid."toy_policies:NotRegistered"]\nshare = [0.1]\n'
    )
    (folder / "mine.toml").write_text(
        'data = "t.csv"\ntrials = 2\npolicies = ["toy", "toy_policies:NotRegistered:share=0.5"]\n'
        'claims = ["toy < toy_policies:NotRegistered:share=0.5"]\n'
    )
    said = python(
        environment,
        """
        import umab
        from umab import cli
        from umab.research.experiments.contest import competitors
        from umab.research.experiments.experiment import comparison
        from umab.theory import bound

        print("toy" in competitors())
        print("toy" in comparison("t", umab.Losses.of("t.csv")).settings[0].policies, bound("toy", "t.csv").formula)
        names = ["toy", "toy_policies:NotRegistered:share=0.5", "flipped(toy)", "uniform"]
        assert cli.main(["compare", "t.csv", "--trials", "3", *(f"--policy={name}" for name in names)]) == 0
        assert cli.main(["run", "mine.toml"]) == 0
        assert cli.main(["sweep", "grid.toml", "--backend", "processes", "--workers", "1"]) == 0
        """,
    )
    assert said.startswith("True\nTrue ℓ∞ √(nT)\n")
    assert "\n  toy " in said and "\n  toy_policies:NotRegistered:share=0.5 " in said
    page = (folder / "report-t" / "index.html").read_text()
    assert '"toy"' in page
    assert "5 of 5 cells are done" in said


def test_the_laws_test_it(environment: Path) -> None:
    laws = str(ROOT / "tests" / "test_laws.py")
    options = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        str(ROOT / "pyproject.toml"),
        laws,
    ]
    ignored = ["-W", "ignore:the policy 'broken'"]
    listed = run(environment, *options, *ignored, "--collect-only", "-k", "toy")
    assert listed.count("[toy") >= 10
    text = run(environment, *options, *ignored, "-k", "toy and (powers_of_two or saved_loaded or same_state)")
    assert "3 passed" in text


def test_a_file_names_it_and_imports_nothing_else(environment: Path) -> None:
    said = python(
        environment,
        """
        import json, sys
        import umab
        learner = umab.Learner("flipped(toy:share=0.5)", 3, seed=0)
        learner.update(learner.select(), 2.0)
        learner.save("toy.json")
        import toy_policies
        mine = umab.Learner(toy_policies.NotRegistered(), 3, seed=0)
        mine.save("mine.json")
        """,
    )
    assert said == ""
    said = python(
        environment,
        """
        import umab
        print(umab.Learner.load("toy.json").policy)
        try:
            umab.Learner.load("mine.json")
        except ValueError as error:
            print(error)
        import toy_policies
        print(umab.Learner.load("mine.json", policy=toy_policies.NotRegistered()).policy.name)
        """,
    )
    first, second, third = said.splitlines()
    assert first == "Flipped(policy=Toy(share=0.5))" and third == "toy_policies:NotRegistered:share=0.25"
    assert "a policy must be registered" in second and "Learner.load(path, policy=...)" in second


def test_no_text_makes_this_program_import_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("trap:Policy", "centred(trap:Policy)", "trap:Policy:rate=2"):
        with pytest.raises(ValueError, match=r"registered, .*trap:Policy"):
            umab.Learner(name, 2)
        with pytest.raises(ValueError, match=r"registered, .*trap:Policy"):
            umab.simulate(name, [[1.0, 2.0]])
    saved = json.loads(umab.Learner("uniform", 2).to_json())
    for about in ({"name": "trap:Policy", "parameters": {}}, "trap:Policy"):
        with pytest.raises(ValueError, match="a saved"):
            umab.Learner.from_json(json.dumps({**saved, "policy": about}))
    with pytest.raises(SystemExit, match="imported"):  # a person may
        umab.policy("trap:Policy", allow_import=True)
    assert "trap" not in sys.modules


@dataclass(frozen=True, kw_only=True)
class Needs(umab.Uniform):
    share: float
    order: Literal[1, 2] = 1


def test_a_place_may_need_parameters() -> None:
    policy = Needs(share=0.5, order=2)
    assert policy.name == "test_third_party:Needs:order=2,share=0.5"
    assert umab.policy(policy.name, allow_import=True) == policy
    with pytest.raises(ValueError, match=r"'test_third_party:Needs' .*'share'"):
        umab.policy("test_third_party:Needs", allow_import=True)
    with pytest.raises(ValueError, match=r"Needs .*share, order, .*'rate'"):
        umab.policy("test_third_party:Needs:rate=1", allow_import=True)


def test_a_place_that_holds_no_policy_is_refused() -> None:
    for place, message in (
        ("no_such_module:Policy", "module:Class, .*'no_such_module:Policy'"),
        ("umab:nothing", "module:Class, .*'umab:nothing': .*'nothing'"),
        ("umab:simulate", r"umab\.Policy .*'umab:simulate'"),
    ):
        with pytest.raises(ValueError, match=message):
            umab.policy(place, allow_import=True)
    assert umab.policy("umab:UMABGA:rate=4", allow_import=True) == umab.UMABGA(rate=4.0)
    assert umab.policy("umab:Centred(umab:UMABS)", allow_import=True) == umab.recommended(changing=False)
