"""The documentation site: built strictly, whole, and in want of nothing from elsewhere."""

from __future__ import annotations

import argparse
import html
import html.parser
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import umab
import umab.datasets
import umab.theory
from pages import delays
from umab.checks import LARGEST

ROOT = Path(__file__).parent.parent
PAGES = sorted(each.relative_to(ROOT / "docs") for each in ROOT.glob("docs/**/*.md"))


class Assets(html.parser.HTMLParser):
    """What a page loads by itself, its links, and the names that links may lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text = page.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.loaded += [given[name] for name in ("src", "srcset", "data", "poster") if name in given and tag != "math"]
        if tag == "link" and given.get("rel") != "canonical":
            self.loaded.append(given.get("href", ""))
        if tag == "a":
            self.links.append(given.get("href", ""))
        self.anchors.update(given[name] for name in ("id", "name") if name in given)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: a warning is an error."""
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def html_pages(site: Path) -> dict[Path, Assets]:
    return {path: Assets(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_on_the_site(site: Path, html_pages: dict[Path, Assets]) -> None:
    for page in PAGES:
        assert (site / page).with_suffix(".html") in html_pages


def test_the_site_loads_nothing_from_elsewhere(site: Path, html_pages: dict[Path, Assets]) -> None:
    for path, page in html_pages.items():
        for loaded in page.loaded:
            if loaded.startswith("data:"):
                continue
            assert not re.match(r"(\w+:)?//", loaded), f"{path}: {loaded}"
            if path.name != "404.html":  # which has absolute paths: it may be shown for any address
                assert (path.parent / loaded.partition("?")[0]).is_file(), f"{path}: {loaded}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_links_of_the_site_lead_somewhere(html_pages: dict[Path, Assets]) -> None:
    for path, page in html_pages.items():
        for link in page.links:
            if re.match(r"\w+:", link) or path.name == "404.html":
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), f"{path}: {link}"
            if anchor and target in html_pages:
                assert anchor in html_pages[target].anchors, f"{path}: {link}"


def test_the_site_can_be_searched_in_a_browser_without_a_server(site: Path, browser: Any) -> None:
    said: list[str] = []
    tab = browser.new_page()
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda asked: None if asked.url.startswith("file:") else said.append(asked.url))
    tab.goto(f"file://{site}/algorithms/umab-nn.html")
    tab.click("input.md-search__input")
    tab.wait_for_function("document.querySelector('.md-search-result__meta').innerText.includes('Type to start')")
    tab.keyboard.type("rescaling")
    tab.wait_for_function("document.querySelector('.md-search-result').innerText.includes('Why not EXP3')")
    assert said == []
    tab.close()


def test_no_page_moves_sideways_on_a_phone(site: Path, browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    for page in (
        "algorithms/umab-g",
        "tutorial",
        "which-policy",
        "examples/sat-solvers",
        "coming-from",
    ):  # all kinds of what is wide
        tab.goto(f"file://{site}/{page}.html", wait_until="domcontentloaded")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, page
    tab.close()


def test_formulas_are_mathml(html_pages: dict[Path, Assets]) -> None:
    assert sum("<math" in page.text for page in html_pages.values()) >= 9
    for path, page in html_pages.items():
        assert "arithmatex" not in page.text, path


def test_the_code_beside_the_mathematics_is_ours(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "algorithms" / "umab-nn.html").read_text(encoding="utf-8"))
    assert "learning_rate = 2.0 * math.sqrt(n_arms / square_sum)" in text


def test_every_public_name_has_its_place_in_the_reference(html_pages: dict[Path, Assets]) -> None:
    anchors = set().union(*(page.anchors for path, page in html_pages.items() if path.parent.name == "api"))
    for name in umab.__all__:
        thing = getattr(umab, name)
        assert name == "__version__" or f"{thing.__module__}.{name}" in anchors or f"umab.{name}" in anchors, name
    for module in (umab.datasets, umab.theory):
        for name in module.__all__:
            thing = getattr(module, name)
            where = getattr(thing, "__module__", module.__name__)
            assert f"{module.__name__}.{name}" in anchors or f"{where}.{name}" in anchors, name
    assert {"umab.testing.check_policy", "umab.engine.interpreted.play"} <= anchors


def test_formulas_of_docstrings_come_out_as_written(html_pages: dict[Path, Assets], site: Path) -> None:
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", html_pages[site / "api" / "policies.html"].text)))
    assert "The estimate is ℓ̂_{t,k} = max(ℓ_t / p'_{t,k}, −2/(η_t p_{t,k})), and 0 for the other arms." in text


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_formula_that_is_not_understood_stops_the_build(hooks: ModuleType) -> None:
    assert "<mfrac>" in hooks.mathml(r"\frac{1}{2} &lt; x", block=True)
    with pytest.raises(ValueError, match=r"but got \\nothing in"):
        hooks.mathml(r"1 + \nothing", block=False)


def test_code_that_is_not_there_stops_the_build(hooks: ModuleType) -> None:
    page = argparse.Namespace(file=argparse.Namespace(src_uri="x.md", generated_by=None))
    shown = hooks.on_page_markdown("a\n\n<!-- code: umab.simplex.mix -->\n\nb", page)
    assert 'title="src/umab/maths/simplex.py"\ndef mix(' in shown and '"""' not in shown
    for name in ("umab.simplex.nothing", "umab.nothing.x", "umab.simplex.mix.nothing"):
        with pytest.raises(hooks.PluginError, match=r"x\.md: .*nothing"):
            hooks.on_page_markdown(f"<!-- code: {name} -->", page)


def test_links_to_a_notebook_lead_to_its_page_and_the_page_to_the_notebook(hooks: ModuleType) -> None:
    for by, wanted in ((None, "[a](b/c.md)"), ("plugin", "[a](b/c.ipynb)")):
        page = argparse.Namespace(file=argparse.Namespace(src_uri="x.md", generated_by=by))
        assert hooks.on_page_markdown("[a](b/c.ipynb)", page) == wanted


def test_a_notebook_becomes_a_page(hooks: ModuleType) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]},
        {
            "cell_type": "code",
            "source": "x",
            "outputs": [{"data": {"text/html": ["<b>\n", "\n</b>"], "text/plain": "x"}}],
        },
        {"cell_type": "code", "source": "print()", "outputs": [{"name": "stdout", "text": ["said\n"]}]},
        {"cell_type": "code", "source": "y", "outputs": [{"data": {"image/png": "aGk=\n", "text/plain": "y"}}]},
    ]
    page = hooks.notebook({"cells": cells}, "tutorial.ipynb")
    assert page.startswith("# Title\nwords\n\n```python\n1 + 1\n```\n\n```text\n2\n```\n\n")
    assert '<div class="output"><b> </b></div>' in page and "```text\nsaid\n\n```" in page
    assert 'src="data:image/png;base64,aGk="' in page and page.endswith("(tutorial.ipynb)\n")


def test_the_table_of_policies_is_that_of_the_policies(hooks: ModuleType) -> None:
    lines = [line.strip("| ").split(" | ") for line in hooks.policies().splitlines()[2:]]
    rows = {name.strip("`"): cells for name, *cells in lines}
    assert list(rows) == list(umab.policies())
    assert rows["umab-nn"][:5] == ["from 0 on", "–", "no", "yes", "one loss"]
    assert rows["exp3"][:2] == ["in a known range", "must be known"]
    assert rows["ahb"][:5] == ["any", "–", "no", "no", "one loss"]
    assert rows["adahedge"][4] == "all losses"


def test_the_advice_on_policies_fits_the_policies() -> None:
    """Every row of the page says what is known of the losses; the policy must not need more, nor refuse them."""
    page = (ROOT / "docs" / "which-policy.md").read_text()
    columns = r"^\| ([^|]+) \| (\w+) \| (\w+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| `([^`]+)` \|$"
    rows = re.findall(columns, page, re.MULTILINE)
    assert len(rows) >= 10 and rows[0][-1] == umab.recommended().name
    measured = json.loads((ROOT / "docs" / delays.NUMBERS).read_text())
    for losses, range_, horizon, offset, late, wanted, name in rows:
        policy = umab.policy(name)
        everything = (-LARGEST, LARGEST)
        expected = {"any": everything, "from 0 on": (0.0, LARGEST), "in a range": (0.0, 1.0)}[losses]
        assert policy.loss_range == expected, name
        assert policy.needs_range == {"unknown": False, "known": True}[range_], name
        assert policy.needs_horizon == {"unknown": False, "known": True}[horizon], name
        assert (policy.shift_free or policy.needs_range) == {"none": False, "may be there": True}[offset], name
        assert late == delays.said_of(measured, name), name
        assert ("w.h.p." in policy.guarantee) == ("with high probability" in wanted), name
        assert not policy.for_study and not policy.full_information
    advised = {row[-1] for row in rows}
    for name in umab.policies():  # whoever is not advised has a reason
        policy = umab.policy(name)
        others = ("umab-l", "umab-g-anytime", "sf-mab", "banker-omd", "banker-sflbinf", "opttinf", "exp3-p", "uniform")
        assert name in advised or policy.for_study or policy.full_information or name in others
