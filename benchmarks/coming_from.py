"""Run every block of docs/coming-from.md, and write what it prints into the page. Run by `make coming-from`.

Blocks without a name, and blocks named umab, run here, one after the other. A block that is named after another library
runs in that library's environment, after the blocks without a name that come before it.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.pages import DOCS
from benchmarks.peers.environments import HOME, NotInstalled, environment, reason
from umab._support.files import write_atomically

PAGE = DOCS / "coming-from.md"
REQUIREMENTS = (
    "river==0.26.1",
    "mabwiser==2.7.4",
    "vowpalwabbit==9.11.9",
    "optuna==5.0.0",
    "growthbook==3.2.2",
    "numpy==2.4.6",
)

_BLOCK = re.compile(r'```(python|text)(?: title="([^"]*)")?\n(.*?)```', re.DOTALL)
_PRINTS = re.compile(r"(\w+)(?: [\d.]+)? prints")
_RUN = re.compile(r"<!-- run:.*?-->")

Run = Callable[[str], str]
"""Runs a program, and returns what it prints."""


class Program(NamedTuple):
    """A program of the page, whole."""

    library: str
    code: str

    @property
    def digest(self) -> str:
        """Return what changes with the code."""
        return hashlib.sha256(self.code.encode()).hexdigest()[:12]


def programs(page: str) -> list[Program]:
    """Return the programs in the order of the page; umab's are one, which grows."""
    shared, ours, found = "", "", []
    for kind, name, code in _BLOCK.findall(page):
        if kind == "text":
            continue
        if name in ("", "umab"):
            ours += code
            shared += "" if name else code
            found.append(Program("umab", ours))
        else:
            found.append(Program(name, shared + code))
    return found


def outputs(page: str) -> list[tuple[str, str]]:
    """Return what the page says that its programs print, in order, each with the name of the library."""
    found = []
    for kind, name, text in _BLOCK.findall(page):
        said = _PRINTS.fullmatch(name)
        if kind == "text" and said:
            found.append((said[1], text))
    return found


def digests(page: str) -> list[str]:
    """Return which programs of other libraries were run for the page."""
    return [each.removeprefix("<!-- run:").removesuffix("-->").strip() for each in _RUN.findall(page)]


def versions() -> dict[str, str]:
    """Return the versions of the libraries."""
    return dict(each.split("==") for each in REQUIREMENTS)


def rewritten(page: str, run: Callable[[Program], str]) -> str:
    """Return the page with what its programs print now. What the page shows of umab is the new part alone."""
    made = programs(page)
    printed: dict[str, list[str]] = {}
    before = ""
    for program in made:
        said = run(program)
        if program.library == "umab":
            said, before = said.removeprefix(before), said
        if said or program.library != "umab":  # a block that prints nothing has no output to show
            printed.setdefault(program.library, []).append(said)

    def output(found: re.Match[str]) -> str:
        named = _PRINTS.fullmatch(found[2] or "")
        if found[1] != "text" or not named:
            return found[0]
        version = versions().get(named[1])
        title = f"{named[1]} {version} prints" if version else f"{named[1]} prints"
        return f'```text title="{title}"\n{printed[named[1]].pop(0)}```'

    left = iter(program.digest for program in made if program.library != "umab")
    page = _RUN.sub(lambda _: f"<!-- run: {next(left)} -->", page)
    return _BLOCK.sub(output, page)


def run_with(python: Path | str) -> Run:
    """Return what runs a program with an interpreter."""

    def run(code: str) -> str:
        done = subprocess.run([str(python), "-W", "ignore", "-c", code], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else f"failed: {reason(done.stderr)}\n"

    return run


def main() -> int:
    """Run all programs, and write the page; return 1 if one did not run."""
    ours = run_with(sys.executable)
    try:
        theirs = run_with(environment(HOME / "coming-from", REQUIREMENTS))
    except NotInstalled as failure:
        why = f"not run: {failure}\n"

        def theirs(code: str) -> str:
            return why

    def run(program: Program) -> str:
        said = (ours if program.library == "umab" else theirs)(program.code)
        print(f"{program.library}: {said.splitlines()[-1] if said else 'nothing'}", flush=True)
        return said

    page = rewritten(PAGE.read_text(encoding="utf-8"), run)
    write_atomically(PAGE, page.encode())
    return int(any(re.match("failed|not run", said) for _, said in outputs(page)))


if __name__ == "__main__":
    sys.exit(main())
