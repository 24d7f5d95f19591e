"""What the documents show is run: README, CONTRIBUTING, docstrings."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import umab
from umab import cli
from umab.experiments.experiment import Experiment
from umab.experiments.sweep import Sweep
from umab.testing import check_policy

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    each.name for each in pkgutil.walk_packages(umab.__path__, "umab.") if not each.name.endswith("__main__")
)


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_readme_run_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    shown = blocks("README.md", "pycon")
    assert len(shown) >= 3
    for at, block in enumerate(shown):
        test = doctest.DocTestParser().get_doctest(block, names, f"README block {at}", "README.md", 0)
        failures = doctest.DocTestRunner(verbose=False).run(test, clear_globs=False)
        assert failures.failed == 0 and failures.attempted > 0
        names.update(test.globs)
    assert sorted(os.listdir(tmp_path)) == ["learner.json", "uniform.json", "uniform.npz"]


def test_the_readme_lists_the_policies_as_they_are() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {name: line for name, _, line in rows} == umab.policies()
    for name, code, _ in rows:
        made = eval(code, {**vars(umab), "T": 100})
        assert made == umab.policy(name).for_horizon(100)


def test_the_commands_of_the_readme_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert set(commands) <= set(targets) and "test" in commands


def test_the_shell_lines_of_the_readme_are_commands_of_ours() -> None:
    shown = [line for block in blocks("README.md", "sh") for line in block.splitlines() if line.startswith("umab ")]
    assert len(shown) >= 2
    for line in shown:
        cli._parser().parse_args(shlex.split(line, comments=True)[1:])


def test_the_experiment_of_the_readme_is_one() -> None:
    shown, _ = blocks("README.md", "toml")
    experiment = Experiment.of("routing", tomllib.loads(shown))
    assert len(experiment.settings[0].claims) == 2


def test_the_sweep_of_the_readme_is_one() -> None:
    _, shown = blocks("README.md", "toml")
    sweep = Sweep.of("rates", tomllib.loads(shown))
    assert len(sweep.data) == 5 and len(sweep.policies[-1].points) == 9


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run_as_shown(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


CLASSES = sorted({type(umab.policy(name)) for name in umab.policies()}, key=lambda each: each.__name__)


@pytest.mark.parametrize("called", [*CLASSES, umab.Learner, umab.simulate, umab.Losses.of, umab.policy])
def test_what_people_call_has_an_example(called: object) -> None:
    assert doctest.DocTestFinder().find(called)[0].examples


@pytest.mark.parametrize("policy", CLASSES)
def test_a_policy_says_what_it_guarantees_and_where_it_comes_from(policy: type[umab.Policy]) -> None:
    assert policy.__name__ in umab.__all__
    text = inspect.getdoc(policy) or ""  # without the indentation, which Python 3.13 does away with itself
    wanted = ["Guarantee", "Examples"] + ["References"] * (policy is not umab.Uniform)
    wanted += ["Parameters"] * bool(dataclasses.fields(policy))
    for section in wanted:
        assert f"{section}\n{'-' * len(section)}\n" in text, section
    for field in dataclasses.fields(policy):
        assert re.search(rf"^([a-z, ]+, )?{field.name}(, [a-z, ]+)?$", text, re.MULTILINE), field.name


@pytest.fixture
def example() -> object:
    """The algorithm of CONTRIBUTING, as a module of its own."""
    (text,) = blocks("CONTRIBUTING.md", "python")
    module = ModuleType("epsilon_greedy")
    module.__file__ = "CONTRIBUTING.md"
    sys.modules["epsilon_greedy"] = module
    exec(compile(text, "CONTRIBUTING.md", "exec"), module.__dict__)
    yield module
    del sys.modules["epsilon_greedy"]


def test_the_algorithm_of_contributing_works_as_promised(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from umab.algorithms import registry

    others = {name: entry for name, entry in registry._REGISTRY.items() if name != "epsilon-greedy"}
    monkeypatch.setattr(registry, "_REGISTRY", others)
    line = blocks("CONTRIBUTING.md", "text")[0].strip().removesuffix(",")
    for name, (policy, description) in eval("{" + line + "}", vars(example)).items():
        umab.register(name, policy, description)
    policy = umab.policy("epsilon-greedy:epsilon=0.2")
    assert policy == example.EpsilonGreedy(epsilon=0.2) and policy.name == "epsilon-greedy:epsilon=0.2"
    with pytest.raises(ValueError, match="epsilon must be above 0 and at most 1, but got epsilon=2"):
        example.EpsilonGreedy(epsilon=2)

    check_policy(policy)
    table = np.random.default_rng(0).normal([0.0, 1.0, 2.0], 1.0, size=(1000, 3))
    mine, uniform = umab.simulate([policy, "uniform"], table, n_trials=50)
    assert mine.mean[-1] + 10 * mine.se[-1] < uniform.mean[-1] - 10 * uniform.se[-1]
    learner = umab.Learner(policy, 3, seed=0)
    assert umab.Learner.from_json(learner.to_json()).to_json() == learner.to_json()
