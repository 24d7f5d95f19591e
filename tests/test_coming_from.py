"""The page for those who come from another library: what it shows was printed by the code that it shows."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import re
import sys

import pytest
from benchmarks import coming_from
from benchmarks.coming_from import Program
from benchmarks.peers.environments import HOME

TEXT = coming_from.PAGE.read_text(encoding="utf-8")
LIBRARIES = ["river", "mabwiser", "vowpalwabbit", "optuna", "growthbook"]


def shown(library: str) -> list[str]:
    return [said for name, said in coming_from.outputs(TEXT) if name == library]


def theirs() -> dict[str, Program]:
    return {each.library: each for each in coming_from.programs(TEXT) if each.library != "umab"}


def test_our_blocks_print_what_the_page_shows() -> None:
    whole = [each for each in coming_from.programs(TEXT) if each.library == "umab"][-1]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(whole.code, "coming-from.md", "exec"), {"__name__": "__main__"})
    assert said.getvalue() == "".join(shown("umab"))
    assert len(shown("umab")) == len(LIBRARIES)
    assert all(each.count("\n") == 1 for each in shown("umab"))


def test_every_library_has_a_block_that_was_run_as_it_is_now() -> None:
    assert list(theirs()) == LIBRARIES
    assert coming_from.digests(TEXT) == [each.digest for each in theirs().values()], "run make coming-from"
    for library in LIBRARIES:
        (said,) = shown(library)
        assert re.fullmatch(r"\d+ s( after the log)?\n", said), said
        assert f'title="{library} {coming_from.versions()[library]} prints"' in TEXT


def test_every_library_is_told_when_to_stay_with_it() -> None:
    sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    assert len(sections) == len(LIBRARIES)
    for section in sections:
        name = section.splitlines()[0]
        assert (
            section.index("**What carries over.**")
            < section.index("**What differs.**")
            < section.index(f"**Stay with {name}**")
        )


def test_the_block_of_river_prints_what_the_page_shows() -> None:
    """The only one of them that is installed where the tests run."""
    if importlib.metadata.version("river") != coming_from.versions()["river"]:
        pytest.skip("another version of river is installed than the page was made with")
    assert coming_from.run_with(sys.executable)(theirs()["river"].code) == shown("river")[0]


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_block_of_a_library_prints_what_the_page_shows(library: str) -> None:
    place = HOME / "coming-from"
    if not (place / ".installed").exists():
        pytest.skip("`make coming-from` installs the other libraries, with a network")
    assert coming_from.run_with(place / "bin" / "python")(theirs()[library].code) == shown(library)[0]


def test_the_page_follows_what_the_programs_print() -> None:
    def run(program: Program) -> str:
        return "".join(f"{number}\n" for number in range(program.code.count("print("))) + "x" * (
            program.library != "umab"
        )

    page = coming_from.rewritten(TEXT, run)
    expected = [each for number in range(len(LIBRARIES)) for each in ("0\nx", f"{number}\n")]
    assert [said for _, said in coming_from.outputs(page)] == expected
    changed = TEXT.replace("bandit.UCB(", "bandit.UCB1(")
    assert coming_from.digests(changed) != [
        each.digest for each in coming_from.programs(changed) if each.library != "umab"
    ]


def test_a_program_that_fails_says_so() -> None:
    assert coming_from.run_with(sys.executable)("raise ValueError('no')") == "failed: ValueError: no\n"
