"""An environment for each peer, below .venv-peers, because their requirements conflict with each other and ours."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
HOME = FOLDER.parent.parent / ".venv-peers"

PEERS = (
    "numpy_loop",
    "river",
    "pymab",
    "smpybandits",
    "striatum",
    "bayesianbandits",
    "vowpalwabbit",
    "mabwiser",
    "coba",
    "obp",
)
"""The scripts, one per peer, in the order of the page; an environment has the name of its script."""


class NotInstalled(Exception):
    """A peer that cannot be installed; the message quotes the program that failed."""


def constants(script: Path) -> dict[str, Any]:
    """Return the constants of a script without running it: its imports may not be installed yet."""
    found = {}
    for statement in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                found[statement.targets[0].id] = ast.literal_eval(statement.value)
            except ValueError:  # not a constant
                continue
    return found


def interpreter(peer: str) -> Path:
    """Return the Python of the peer's environment; install the peer first if necessary."""
    return environment(HOME / peer, tuple(constants(FOLDER / f"{peer}.py")["REQUIREMENTS"]))


def environment(place: Path, requirements: tuple[str, ...]) -> Path:
    """Return the Python of an environment with the requirements; make the environment unless it exists already."""
    stamp, wanted = place / ".installed", "\n".join([sys.version, *requirements])
    if not (stamp.exists() and stamp.read_text() == wanted):
        failure = _install(place, requirements)
        if failure:
            raise NotInstalled(failure)
        stamp.write_text(wanted)
    return place / "bin" / "python"


@functools.cache  # one attempt per process: without a network, each takes a while
def _install(place: Path, requirements: tuple[str, ...]) -> str:
    """Make a new environment; return why that failed, or an empty string."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place.parent / ".gitignore").write_text("*\n")  # for git, and for ruff, which would check all of it
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(place)], [*pip, *requirements]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0:
            return reason(done.stderr or done.stdout)
    return ""


def reason(output: str) -> str:
    """Return the line of a program's output that says why it failed: the last one with "error" in it, or the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no message"]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
