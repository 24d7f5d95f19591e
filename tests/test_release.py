"""What people install: built as `make dist` builds it, put into an environment of its own, and used there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks import install

import umab
from umab._support.extras import extra
from umab.cli.reports import COMPILING

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
THIS = ".".join(map(str, sys.version_info[:2]))
VERSIONS = sorted({THIS, *re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))})


class Installed(NamedTuple):
    """An environment with umab and what it needs, and nothing else."""

    python: Path
    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment in a folder of its own, out of sight of the checkout."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "UMAB", "NUMBA"))}
        return subprocess.run(
            [str(self.python.parent / command[0]), *command[1:]],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**clean, "UMAB_CACHE": str(self.folder / "cache")},
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist and the wheel; the wheel is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    return folder


# Slow, as an environment of its own takes its time; `make test-versions` runs it, and so does what must pass to land.
# A group, as all tests of a version should run where its environment is.
@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=[pytest.mark.slow, pytest.mark.xdist_group(each)]) for each in VERSIONS],
)
def installed(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} on the PATH or among those of pyenv")
    (wheel,) = built.glob("*.whl")
    folder = tmp_path_factory.mktemp("installed")
    found = Installed(install.fresh(folder / "venv", wheel, python), folder)
    where = found.run("python", "-c", "import umab; print(umab.__file__)").stdout
    assert where.startswith(str(folder)), where
    yield found
    shutil.rmtree(folder)  # a quarter of a gigabyte, which pytest would keep for three more runs


def interpreter(version: str) -> str | None:
    """Return a Python of this version that really starts: a shim of pyenv may not."""
    if version == THIS:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    for each in candidates:
        if each and subprocess.run([each, "-c", "import venv"], capture_output=True).returncode == 0:
            return each
    return None


# What is in the packages.


def sources(*folders: str) -> set[str]:
    """The files of a checkout, or of an unpacked sdist, below these folders."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_has_the_packages_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"umab-{umab.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if name.startswith(f"umab-{umab.__version__}.dist-info/")}
    assert {Path(name).name for name in about} == {"METADATA", "WHEEL", "entry_points.txt", "LICENSE", "RECORD"}
    assert {f"src/{name}" for name in names - about} == sources("src/umab", "src/umab_service")
    kinds = {Path(name).suffix for name in names - about} | {Path(name).name for name in names - about}
    assert {".py", ".html", ".toml", ".css", ".js", "worst_cases.json", "py.typed", "0001.sql"} <= kinds


def test_the_sdist_has_what_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert sources("src", "tests", "benchmarks", "examples", "pages", "docs") <= names
    assert {"Makefile", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"} <= names
    assert {"SECURITY.md", "CITATION.cff", ".ci/run", ".github/workflows/ci.yml"} <= names
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:  # not from an unpacked sdist
        known = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
        assert known <= names


@pytest.mark.slow
def test_the_tests_run_from_the_sdist(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    environment = {**os.environ, "PYTHONPATH": str(unpacked / "src")}
    # Few that compile, as nothing in this copy has been compiled yet.
    for arguments in (
        ["--collect-only"],
        ["tests/test_documents.py", "-k", "lists_the_policies or commands_of_the_readme"],
    ):
        run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(run, cwd=unpacked, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


# What is installed.


def test_the_quick_start(installed: Installed) -> None:
    """Up to where the page says that an extra is needed."""
    plain, said, _ = (ROOT / "docs/start.md").read_text().partition("with the `report` extra installed")
    shown = re.findall(r"^```pycon\n(.*?)^```", plain, re.DOTALL | re.MULTILINE)
    assert said and len(shown) >= 3
    (installed.folder / "start.txt").write_text("\n".join(shown))
    done = installed.run("python", "-m", "doctest", "start.txt")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_quick_start_of_the_readme_saves_time(installed: Installed) -> None:
    readme = (ROOT / "README.md").read_text()
    (script,) = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (installed.folder / "quick.py").write_text(script)
    done = installed.run("python", "quick.py")
    said = re.compile(r"[\d.]+ s; at random [\d.]+ s: (\d+)% saved\n")  # the README shows such a line
    found = said.fullmatch(done.stdout)
    assert found is not None and int(found[1]) >= 50, done.stdout + done.stderr  # lzma takes hundreds of times as long
    assert said.search(readme), "the README must show what its loop prints"


def test_commands_that_need_no_extra(installed: Installed) -> None:
    assert installed.run("umab", "--version").stdout == f"umab {umab.__version__}\n"
    assert installed.run("umab", "policies", "--names").stdout.split() == list(umab.policies())
    listed = installed.run("umab", "data")
    assert listed.returncode == 0 and "stocks: not found" in listed.stdout and listed.stderr == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("compare losses.csv", "report"),
        ("evaluate losses.csv", "data"),
        ("reproduce --list", "reproduce"),
        ("run losses.toml", "report"),
        ("suite", "reproduce"),
        ("certify losses.csv", "data"),
        ("scaling", "data"),
        ("sweep losses.toml", "sweep"),
        ("data fetch", "data"),
    ],
)
def test_commands_that_need_an_extra_name_it(command: str, name: str, installed: Installed) -> None:
    (installed.folder / "losses.csv").write_text("a,b\n1,2\n")
    before = set(installed.folder.iterdir())
    done = installed.run("umab", *command.split())
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(rf"umab: .+ needs \w+; run pip install 'umab\[{name}\]'\n", done.stderr)
    assert set(installed.folder.iterdir()) - {installed.folder / "cache"} == before - {installed.folder / "cache"}


CALLS = {
    "umab.Losses.of('losses.csv')": "data",
    "umab.offpolicy.read_log('losses.csv')": "data",
    "umab.read_sweep('.')": "data",
    "umab.compare('losses.csv')": "data",
    "umab.compare([[1.0, 2.0]])": "data",
    "umab.compare('losses.csv', report='here')": "report",
    "umab.datasets.sales(real=False)": "data",
    "umab.datasets.stocks(real=True)": "data",
    "umab.datasets.stocks(real=False)": "river",
    "umab.theory.certify('umab-nn', [[1.0, 2.0]])": "data",
    "umab.theory.scaling('umab-nn')": "data",
    "umab.simulate('uniform', [[1.0, 2.0]], n_trials=2).plot().svg": "report",
}


def test_functions_that_need_an_extra_name_it(installed: Installed) -> None:
    (installed.folder / "losses.csv").write_text("a,b\n1,2\n")
    lines = ["import umab"]
    for call in CALLS:
        lines += ["try:", f"    {call}", "    print('not refused')", "except ImportError as error:", "    print(error)"]
    done = installed.run("python", "-c", "\n".join(lines))
    assert done.stderr == ""
    for said, (call, name) in zip(done.stdout.splitlines(), CALLS.items(), strict=True):
        assert f"; run pip install 'umab[{name}]'" in said, call


def test_modules_can_be_imported_or_name_an_extra(installed: Installed) -> None:
    program = """
import importlib, inspect, pkgutil, umab
assert {"datasets", "testing", "theory"} <= {name for name, _ in inspect.getmembers(umab)}  # as help(umab) lists them
for each in pkgutil.walk_packages(umab.__path__, "umab."):
    if each.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(each.name)
    except ImportError as error:
        assert "; run pip install 'umab[" in str(error), (each.name, error)
"""
    done = installed.run("python", "-c", program)
    assert done.returncode == 0, done.stderr


def test_there_is_nothing_installed_beside_what_is_declared(installed: Installed) -> None:
    done = installed.run("python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
    names = {line.partition("==")[0] for line in done.stdout.splitlines()}
    assert names - {"pip", "setuptools"} == {"umab", "numpy", "numba", "llvmlite"}


@pytest.mark.slow
def test_the_first_command_of_the_readme(built: Path, tmp_path: Path) -> None:
    """With the extra that it needs; on one Python, as this takes some hundred megabytes more."""
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"^umab (compare (examples/recorded/[\w-]+\.csv))", readme, re.MULTILINE)
    assert "pip install -e '.[report]'" in readme and shown is not None
    (wheel,) = built.glob("*.whl")
    found = Installed(install.fresh(tmp_path / "venv", f"{wheel}[report]"), tmp_path)
    (tmp_path / shown[2]).parent.mkdir(parents=True)
    shutil.copy(ROOT / shown[2], tmp_path / shown[2])
    done = found.run("umab", *shown[1].split(), "--policy", "recommended", "--trials", "20")
    assert done.returncode == 0 and done.stderr == f"umab: note: {COMPILING}\n", done.stderr
    first, *_, last = done.stdout.splitlines()
    begin = "Over these 600 rounds the recommended policy (umab-w) would have cost "
    assert re.fullmatch(
        re.escape(begin) + r"\d+% less than staying with scan, the best single arm, and \d+% less than .+", first
    )
    assert (tmp_path / last).is_file()
    shutil.rmtree(tmp_path / "venv")


# What is said of it.


def test_the_outermost_block_says_what_all_is_for() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^a sweep needs no_such; run pip install 'umab\[sweep\]'"):
        with extra("sweep", "a sweep"):
            with extra("report", "a report"):
                import no_such  # type: ignore[import-not-found]  # noqa: F401


def test_a_library_that_is_too_old_says_so() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"needs math \(cannot import name 'no_such' from 'math' .*\); run pip"
    ):
        with extra("data", "this"):
            from math import no_such  # type: ignore[attr-defined]  # noqa: F401


def test_the_page_on_installing_has_all_extras() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    assert install.extras_table(PROJECT) in page
    assert all(f"`{each}`" in page for each in PROJECT["optional-dependencies"])
    assert install.FOR.keys() <= PROJECT["optional-dependencies"].keys()
    for version in VERSIONS:
        assert version in page
