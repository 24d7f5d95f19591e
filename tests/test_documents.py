"""What the documents show is run: every page of the site, README, CONTRIBUTING, docstrings."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import itertools
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import markdown
import numpy as np
import pytest
from mkdocs.config import load_config

import umab
from umab import cli
from umab.algorithms import registry
from umab.datasets import DATASETS
from umab.research.experiments.experiment import Experiment, paper
from umab.research.experiments.sweep import Sweep
from umab.testing import check_policy

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(each.relative_to(ROOT)) for each in sorted(ROOT.glob("docs/**/*.md"))),
]
MODULES = [
    "umab",
    *sorted(each.name for each in pkgutil.walk_packages(umab.__path__, "umab.") if not each.name.endswith("__main__")),
]
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


class Block(NamedTuple):
    language: str
    text: str
    before: str
    """The page up to the block."""


def fenced(document: str) -> list[Block]:
    page = (ROOT / document).read_text(encoding="utf-8")
    fences = re.finditer(r"^( *)(```+|~~~+)([^\n]*)\n(.*?)^\1\2 *$", page, re.DOTALL | re.MULTILINE)
    found = []
    for each in fences:
        text = re.sub(rf"^{each[1]}", "", each[4], flags=re.MULTILINE)
        language = (each[3].split() or [""])[0]
        is_file = language in ("python", "javascript") and re.search(r'title="(?!umab")', each[3])
        found.append(Block("file" if is_file else language, text, page[: each.start()]))
    return found


def shown_as_code(document: str) -> int:
    """Return how many blocks the site shows as code, whatever way they are written in."""
    site = load_config(str(ROOT / "mkdocs.yml"))
    page = (ROOT / document).read_text(encoding="utf-8")
    html = markdown.markdown(page, extensions=site.markdown_extensions, extension_configs=site.mdx_configs)
    return len(re.findall(r"<pre\b", html))


def blocks(document: str, language: str) -> list[str]:
    return [block.text for block in fenced(document) if block.language == language]


class Page:
    """A page whose blocks are run in their order, with the same names, in a folder of its own.

    Unless it is run `in_full`, commands get fewer trials and stand-ins for public tables, and those that take minutes
    are only looked at.
    """

    def __init__(self, document: str, *, in_full: bool) -> None:
        self.document, self.in_full = document, in_full
        self.module = ModuleType(re.sub(r"\W", "_", document))
        self.module.__file__ = document

    def run(self) -> None:
        found, shown = fenced(self.document), shown_as_code(self.document)
        assert len(found) == shown, f"blocks must be in fences that are closed, but got {len(found)} of {shown}"
        for block in found:
            run_block = getattr(self, f"run_{block.language}", None)
            assert run_block, f"a block must be of a language that is run, or text, but got {block.language!r}"
            run_block(block)

    def run_text(self, block: Block) -> None:
        """Leave it: it is no code."""

    def run_bash(self, block: Block) -> None:
        """Leave it: it needs a running server, and test_serve_docs.py runs it with one."""

    run_json = run_bash  # what a server has answered
    run_file = run_bash  # a program that calls a server

    def run_mermaid(self, block: Block) -> None:
        """Leave it: it is a picture, which test_house.py compares with the source."""

    def run_pycon(self, block: Block) -> None:
        names = self.module.__dict__
        test = doctest.DocTestParser().get_doctest(block.text, names, self.document, self.document, 0)
        said: list[str] = []
        outcome = doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
        assert outcome.attempted > 0 and outcome.failed == 0, "".join(said)
        names.update(test.globs)

    def run_python(self, block: Block) -> None:
        """Run it; what needs a GPU runs on the processor, with fewer trials, and tests/gpu has a GPU."""
        text = block.text
        if 'device="gpu"' in text:
            text = text.replace('device="gpu"', 'device="cpu"').replace("n_trials=1_000_000", "n_trials=10")
        exec(compile(text, self.document, "exec"), self.module.__dict__)

    def run_toml(self, block: Block) -> None:
        """Write the file, whose name is the last one on the page before it, so that commands find it."""
        name = re.findall(r"[\w-]+\.toml", block.before)[-1]
        text = block.text if self.in_full else re.sub(r"^trials = \d+", "trials = 2", block.text, flags=re.MULTILINE)
        Path(name).write_text(text)
        kind = Sweep if "grid" in tomllib.loads(text) else Experiment
        assert kind.read(name).title

    def run_sh(self, block: Block) -> None:
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                run_command = {"umab": self.umab, "make": self.make, "pip": self.pip, "python": self.python}[words[0]]
                run_command(words[1:])

    def make(self, words: list[str]) -> None:
        assert set(words) <= TARGETS

    def pip(self, words: list[str]) -> None:
        assert words[0] == "install" and len(words) == 2 + ("-e" in words)
        extras = re.fullmatch(r"\.(?:\[(.+)\])?", words[-1])
        assert extras and set((extras[1] or "all").split(",")) <= EXTRAS

    def python(self, words: list[str]) -> None:
        """Run a demonstration, if there is time for it, with fewer rounds; all at once are left to `make examples`.

        A file is a short script, which test_scripts.py runs.
        """
        if words[0] != "-m":
            assert len(words) == 1 and Path(words[0]).is_file()
            return
        assert words[0] == "-m" and words[1].partition(".")[0] == "examples" and importlib.util.find_spec(words[1])
        if self.in_full and (words[1] != "examples" or "--from-recorded" in words):
            few = ["--rounds", "50", "--out", "few"]  # the second of two options of one name counts
            few = [] if {"--rounds", "--from-recorded"} & set(words) else few
            subprocess.run([sys.executable, *words, *few], check=True)

    def umab(self, words: list[str]) -> None:
        options = cli._parser().parse_args(words)
        elsewhere = getattr(options, "backend", "threads") in ("dask", "ray") or words[:2] == ["data", "fetch"]
        elsewhere = elsewhere or words[0] == "serve"  # it would not end; test_dashboard_browser.py runs it
        takes_minutes = words[0] in ("suite", "reproduce") or "--search" in words
        if elsewhere or (takes_minutes and not self.in_full):
            return
        if not self.in_full:
            words = words + ["--trials", "2"] * ("trials" in options) + ["--tables", "2"] * ("tables" in options)
        if not self.in_full or not os.environ.get("UMAB_DATA"):
            words = words + ["--data", "stand-in"] * ("data" in options)
        assert cli.main(words) == 0


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the tables that pages speak of, where what pages add to umab is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    known = dict(DATASETS)
    for name in ("examples", "benchmarks"):  # which know where the pages are from where they are themselves
        shutil.copytree(ROOT / name, name, ignore=shutil.ignore_patterns("__pycache__"))
    Path("docs/examples").mkdir(parents=True)
    random = np.random.default_rng(0)
    for name in ("latencies", "losses"):
        np.savetxt(
            f"{name}.csv", random.exponential([1.0, 2.0, 4.0], (60, 3)), "%.6f", ",", header="a,b,c", comments=""
        )
    dates = [f"2026-{1 + day // 28:02}-{1 + day % 28:02}" for day in range(60)]
    sold = random.exponential([90.0, 80.0], (60, 2))
    rows = [f"{date},{north:.2f},{south:.2f}" for date, (north, south) in zip(dates, sold, strict=True)]
    Path("sales.csv").write_text("\n".join(["date,north,south", *rows, ""]))
    commas = "".join(f"{north:.2f};{south:.2f}\n".replace(".", ",") for north, south in sold)
    Path("measured.csv").write_text(f"north;south\n{commas}")
    took = [
        (date, name, ms) for date, both in zip(dates, sold, strict=True) for name, ms in zip("xy", both, strict=True)
    ]
    Path("services.csv").write_text("date,service,ms\n" + "".join(f"{date},{name},{ms}\n" for date, name, ms in took))
    drawn = "".join(f"{name},0.5,{ms}\n" for _, name, ms in took)
    Path("decisions.csv").write_text(f"service,propensity,ms\n{drawn}")
    yield tmp_path
    DATASETS.clear()
    DATASETS.update(known)


@contextlib.contextmanager
def run_page(document: str, *, in_full: bool) -> Iterator[ModuleType]:
    """Run a page, and yield the module that its code makes up."""
    page = Page(document, in_full=in_full)
    sys.modules[page.module.__name__] = page.module  # dataclasses and named tuples look their module up
    try:
        page.run()
        yield page.module
    finally:
        del sys.modules[page.module.__name__]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_every_page_runs_as_shown(document: str, somewhere: Path) -> None:
    with run_page(document, in_full=False):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("document", [each for each in DOCUMENTS if blocks(each, "sh")])
def test_the_commands_of_every_page_run_in_full(document: str, somewhere: Path) -> None:
    with run_page(document, in_full=True):
        pass


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("```\nx\n```\n", "got ''"),
        ("```js\nx\n```\n", "got 'js'"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", "Got:"),
        ("- a\n\n  ```pycon\n  >>> 1 + 1\n  3\n  ```\n", "Got:"),
        ("~~~pycon\n>>> 1 + 1\n3\n~~~\n", "Got:"),
        ("??? note\n\n    ```pycon\n    >>> 1 + 1\n    3\n    ```\n", "Got:"),
        ("> ```pycon\n> >>> 1 + 1\n> 3\n> ```\n", "got 0 of 1"),
        ("a\n\n    >>> 1 + 1\n    3\n", "got 0 of 1"),
        ("<pre>1 + 1</pre>\n", "got 0 of 1"),
        ("```pycon\n>>> a = 1\n```\n\n```python\nassert a == 2, a\n```\n", "1"),
        ("```sh\numab compare nothing.csv\n```\n", "assert 2 == 0"),
        ("```sh\nmake nothing\n```\n", "{'nothing'} <= "),
        ("```sh\npip install -e '.[nothing]'\n```\n", "{'nothing'} <= "),
    ],
)
def test_a_block_that_does_not_run_is_found(page: str, why: str, somewhere: Path) -> None:
    (somewhere / "page.md").write_text(page)
    with pytest.raises(AssertionError, match=re.escape(why)), run_page(str(somewhere / "page.md"), in_full=False):
        pass


def test_the_page_of_advice_lists_the_policies_as_they_are() -> None:
    page = (ROOT / "docs" / "which-policy.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", page, re.MULTILINE)
    assert {name: line for name, _, line in rows} == umab.policies()
    for name, code, _ in rows:
        made = eval(code, {**vars(umab), "T": 100})
        assert made == umab.policy(name).for_horizon(100)


def test_the_readme_has_the_verdicts_of_the_page_on_the_paper() -> None:
    page = (ROOT / "docs" / "paper.md").read_text()
    rows = re.findall(r"^\| \[(Figure \w+)\]\(#\w+\) (\|.+\|)$", page, re.MULTILINE)
    assert len(rows) == len(paper())
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^\| (Figure \w+) (\|.+\|)$", readme, re.MULTILINE) == rows
    assert "The competitors are the published algorithms in both columns." in readme


def test_the_page_on_experiments_shows_the_first_line_of_compare(
    somewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, commands, *_ = blocks("docs/experiments.md", "sh")
    shown, *_ = blocks("docs/experiments.md", "text")
    for command, line in zip(commands.splitlines(), shown.splitlines(), strict=True):
        assert cli.main(shlex.split(command)[1:]) == 0
        assert capsys.readouterr().out.splitlines()[0] == line


def test_a_line_under_the_head_of_a_table_has_a_head_above_it() -> None:
    """A blank line between them, as a template leaves it now and then, makes a page show the bars."""
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        lines = path.read_text().splitlines()
        for above, line in itertools.pairwise(lines):
            if re.fullmatch(r" *\|(\s*:?-+:?\s*\|)+", line):
                assert above.lstrip().startswith("|"), (path, line)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_the_links_to_files_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / document).read_text())
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run_as_shown(name: str) -> None:
    module = importlib.import_module(name)
    outcome = doctest.testmod(module)
    written = re.findall(r"^ *>>> ", inspect.getsource(module), re.MULTILINE)
    assert outcome.failed == 0
    assert outcome.attempted == len(written)  # those below a name of a module or a class are on the site, and not run


CLASSES = sorted({type(umab.policy(name)) for name in umab.policies()}, key=lambda each: each.__name__)


@pytest.mark.parametrize("called", [*CLASSES, umab.Learner, umab.simulate, umab.Losses.of, umab.policy])
def test_what_people_call_has_an_example(called: object) -> None:
    assert doctest.DocTestFinder().find(called)[0].examples


def test_the_algorithm_of_the_page_on_extending_works_as_promised(somewhere: Path) -> None:
    with run_page("docs/extending.md", in_full=False) as example:
        line = blocks("docs/extending.md", "text")[-1].strip().removesuffix(",")
        for name, policy in eval("{" + line + "}", {**vars(example), "Record": umab.Record}).items():
            assert name in umab.policies()  # the page has registered it
            umab.register(name, policy)
        policy = umab.policy("epsilon-greedy:epsilon=0.2")
        assert policy == example.EpsilonGreedy(epsilon=0.2) and policy.name == "epsilon-greedy:epsilon=0.2"
        with pytest.raises(ValueError, match=r"epsilon .*at most 1, .*epsilon=2"):
            example.EpsilonGreedy(epsilon=2)
        check_policy(policy)
        learner = umab.Learner(policy, 3, seed=0)
        assert umab.Learner.from_json(learner.to_json()).to_json() == learner.to_json()
