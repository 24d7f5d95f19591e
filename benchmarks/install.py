"""Install the wheel into a fresh environment, measure its size and its start, and write docs/install.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.pages import DOCS, machine, table, wrapped
from benchmarks.timing import fresh_process

ROOT = DOCS.parent

FOR = {
    "data": "loss files (CSV, Parquet), the public tables of the experiments, and what commands print about them",
    "report": "pages and pictures",
    "sweep": "sweeps over grids, on the cores of one machine",
    "gpu": "simulations on an NVIDIA GPU, whose driver knows CUDA 13",
    "gpu-cuda12": "the same, if the driver knows CUDA 12 only",
    "dask": "sweeps on a Dask cluster",
    "ray": "sweeps on a Ray cluster",
    "river": "use with river; also the stand-in for the stock table",
    "gymnasium": "loss tables as Gymnasium environments",
    "sklearn": "choosing among scikit-learn estimators",
    "metrics": "the counters of learners in Prometheus' Python library",
    "serve": "the decision service, `umab serve`",
    "postgres": "the decision service on PostgreSQL, with several servers",
    "client": "programs that ask a decision service: `umab.client`",
    "openfeature": "the same through the OpenFeature SDK",
    "notebook": "figures and tables in notebooks",
    "examples": "the demonstrations in `examples/`",
    "reproduce": "`make reproduce`: all experiments of the paper, with stand-ins if there is no network",
    "all": "everything above that runs on one machine, without the demonstrations",
}
"""What each extra is for. Extras that are not listed here are for work on umab itself."""

PAGE = """\
# Installing

This page is written by `make bench-install`, never by hand.

umab runs on Python {versions}. It is pure Python; machine code is compiled on first use and kept on disk.

| to get | in an environment | in a checkout |
| --- | --- | --- |
| learners and simulations | `pip install umab` | `pip install -e .` |
| an extra too | `pip install 'umab[report]'` | `pip install -e '.[report]'` |
| several | `pip install 'umab[report,sweep]'` | `pip install -e '.[report,sweep]'` |

`pip install umab` works once there is a release. Until then, `make dist` builds a wheel, and
`pip install --find-links dist umab` installs it.

## Extras

If something needs an extra that is not installed, the error names it. An extra also brings what the extras in its list
bring.

{extras}
The other extras are for work on umab itself: {others}.

## How small it is

{measured}
{sizes}
{times}"""

MEASURED = """\
Measured in an environment with nothing else in it, on {machine}. The wheel of umab has {wheel:.2f} MB. With its
dependencies, {total:.0f} MB are installed, not counting the byte code that Python adds.
"""

TIMES = """\
`import umab` takes {importing:.2f} s: it loads NumPy, but neither Numba nor any extra. A first simulation takes
{warm:.1f} s including the import, and {cold:.0f} s if its machine code is not on disk yet.
"""


def fresh(folder: Path, wheel: Path | str, python: str = sys.executable) -> Path:
    """Make an environment with the wheel, which may have extras in brackets, and what it needs; return its Python."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    made = folder / "bin" / "python"
    pip = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-compile", str(wheel)], check=True, cwd=folder)
    return made


def extras_table(project: dict[str, Any]) -> str:
    """Return the table of the extras for users, from pyproject.toml."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return table(
        ["extra", "for", "brings"],
        ([f"`{name}`", FOR[name], ", ".join(map(_brought, extras[name]))] for name in extras if name in FOR),
    )


def _brought(requirement: str) -> str:
    """Return a requirement as the table shows it: the name of a package, or the names of other extras."""
    own = re.fullmatch(r"umab\[(.+)\]", requirement)
    if own:
        return ", ".join(f"`{each}`" for each in own[1].split(","))
    return re.split(r"[\[<>=!~;]", requirement, maxsplit=1)[0]


SIZES = """
import importlib.metadata, json
print(json.dumps({
    each.name: [each.version, sum(f.locate().stat().st_size for f in each.files if not f.name.endswith(".pyc"))]
    for each in importlib.metadata.distributions()
}))
"""


def sizes(python: Path) -> dict[str, tuple[str, int]]:
    """Return the version and the bytes of each package in an environment, except for the package installers."""
    found = json.loads(subprocess.run([python, "-c", SIZES], check=True, capture_output=True, text=True).stdout)
    return {name: (version, size) for name, (version, size) in found.items() if name not in ("pip", "setuptools")}


def main() -> None:
    """Measure, and write docs/install.md."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(place), str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = place.glob("*.whl")
        python = fresh(place / "venv", wheel)
        packages = sizes(python)
        simulate = "import umab, numpy; umab.simulate(umab.recommended(), numpy.ones((100, 3)), n_trials=10)"
        cold = fresh_process(simulate, python, repeats=1)[0]
        warm = min(fresh_process(simulate, python))
        # The fastest of a few: other work on the machine can only add time.
        importing = min(fresh_process("import umab", python))
        weight = wheel.stat().st_size / 1e6
    total = sum(size for _, size in packages.values()) / 1e6
    ordered = sorted(packages.items(), key=lambda item: item[1][1])
    text = PAGE.format(
        versions=", ".join(re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))),
        extras=extras_table(project),
        others=", ".join(f"`{name}`" for name in project["optional-dependencies"] if name not in FOR),
        measured=wrapped(MEASURED.format(machine=machine(), wheel=weight, total=total)),
        sizes=table(
            ["package", "version", "MB"], ([name, version, f"{n / 1e6:.1f}"] for name, (version, n) in ordered)
        ),
        times=wrapped(TIMES.format(importing=importing, warm=warm, cold=cold)),
    )
    (DOCS / "install.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
