"""The page that explains umab with a picture: its JavaScript agrees with the library, in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from pages import how_it_works

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / how_it_works.PAGE
LONGEST = 150
"""How many words a section has at most, without its code."""

OUTLIERS = [
    (100.0, 300, 20.0),
    (1.0, 1, 1.0),
    (1000.0, 2, 1000.0),
    (1000.0, 500, 3.0),
    (37.5, 999, 12.25),
    (250.0, 1000, 250.0),
    (0.001, 40, 5.0),
    (1e6, 77, 1e6),
]
"""Sizes, rounds and guesses; the last two are beyond the sliders."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as the site has it, without the pages that take long to build."""
    folder = tmp_path_factory.mktemp("site")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    settings = settings.replace("strict: true", "strict: false")  # links lead to pages that are not here
    settings = re.sub(r"  - mkdocstrings:\n(    .*\n)+", "", settings)
    (folder / "docs" / "assets").mkdir(parents=True)
    for name in (how_it_works.PAGE, "assets/how-it-works.js", "assets/site.css", "assets/iframe-worker.js"):
        (folder / "docs" / name).write_bytes((ROOT / "docs" / name).read_bytes())
    hooks = f"hooks: [{ROOT / 'docs' / 'hooks.py'}]"
    (folder / "mkdocs.yml").write_text(settings.replace("hooks: [docs/hooks.py]", hooks))
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=folder, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def tab(browser: Any, site: Path) -> Iterator[Any]:
    """The page, open in a browser, where nothing may go wrong and nothing may be fetched from elsewhere."""
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.on("console", lambda said: wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith("file:") else wrong.append(asked.url))
    page.goto(f"file://{site}/how-it-works.html")
    page.wait_for_selector("#outlier fieldset:not([hidden])")
    yield page
    assert wrong == []
    page.close()


def set_to(tab: Any, name: str, value: float) -> None:
    tab.eval_on_selector(
        f"#outlier [name={name}]",
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})); }",
        value,
    )


def lost(tab: Any) -> dict[str, int]:
    return {
        name: int(tab.locator(f"#outlier [data-policy={name}] output").inner_text()) for name in how_it_works.TITLES
    }


@pytest.mark.parametrize(("size", "round", "guess"), OUTLIERS)
def test_the_browser_computes_what_the_library_does(tab: Any, size: float, round: int, guess: float) -> None:
    ours = how_it_works.play_all(size, round, guess)
    theirs = tab.evaluate("([size, round, guess]) => howItWorks.playAll(size, round, guess)", [size, round, guess])
    assert set(theirs) == set(ours)
    for name, played in ours.items():
        np.testing.assert_allclose(theirs[name]["probabilities"], played.probabilities, rtol=0.0, atol=1e-9)
        assert theirs[name]["lost"] == pytest.approx(played.lost, abs=1e-6)


def test_the_policies_of_the_picture_learn_what_they_should() -> None:
    """So that two wrong programs do not agree: what a learner draws by itself comes to the same on average."""
    losses = np.array([each.losses for each in how_it_works.table()])
    policy, _ = how_it_works.contenders(20.0)["umab"]
    regret = umab.simulate(policy, losses, n_trials=200, seed=0).final_regret
    played = how_it_works.play_all(losses[499, 0], 500, 20.0)["umab"].lost  # as good as no outlier
    assert abs(played - regret.mean()) < 4.0 * regret.std()
    assert np.allclose(losses.mean(axis=0), how_it_works.MEANS, rtol=0.15)


def test_the_picture_without_javascript_is_the_one_with_it(tab: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert how_it_works.page(text) == text, "run python -m pages.how_it_works docs"
    for name, value in (("size", how_it_works.SIZE), ("guess", how_it_works.GUESS)):
        set_to(tab, name, how_it_works._slider(value))
    set_to(tab, "round", how_it_works.ROUND)

    def numbers(picture: str) -> list[float]:
        panels = re.findall(r"<svg.*?</svg>", picture, re.DOTALL)
        assert len(panels) == 4
        return [float(each) for each in re.findall(r"(?<![#\w])-?\d+(?:\.\d+)?", " ".join(panels))]

    # The letters of a path cling to its numbers.
    drawn, live = (
        re.sub(r"([MLHVZh])", r" \1 ", each) for each in (text, tab.locator("#outlier").evaluate("it => it.outerHTML"))
    )
    assert len(numbers(drawn)) > 1000
    np.testing.assert_allclose(numbers(live), numbers(drawn), atol=0.11)  # one digit is drawn


def test_the_sliders_work_with_the_keyboard(tab: Any) -> None:
    set_to(tab, "size", 0)
    slider = tab.locator("#outlier [name=size]")
    before = lost(tab)
    slider.focus()
    tab.keyboard.press("End")
    assert slider.get_attribute("aria-valuetext") == "1000"
    assert lost(tab)["umab"] > 2 * before["umab"]
    tab.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1" and lost(tab) == before
    assert tab.locator("#outlier input").evaluate_all("all => all.every(each => each.labels.length === 1)")


def test_the_outlier_can_be_dragged(tab: Any) -> None:
    set_to(tab, "size", 100)
    set_to(tab, "round", 300)
    dot = tab.locator("#outlier .dot")
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 60, y - 40, steps=3)
    tab.mouse.up()
    tab.mouse.move(x, y)  # nobody holds it any more
    assert int(tab.locator("#outlier [name=round]").input_value()) > 350
    assert int(tab.locator("#outlier [name=size]").input_value()) > 120
    after = dot.bounding_box()
    assert abs(after["x"] - box["x"] - 60) < 3 and abs(after["y"] - box["y"] + 40) < 3


def test_what_the_page_says_about_the_sliders_is_so() -> None:
    def of_arm_a(name: str, size: float = 100.0, round: int = 50, guess: float = 20.0) -> list[float]:
        return [each[0] for each in how_it_works.play_all(size, round, guess)[name].probabilities]

    assert (how_it_works.SIZE, how_it_works.ROUND, how_it_works.GUESS) == (100.0, 50, 20.0)
    assert sum(each.losses[0] for each in how_it_works.table()[:49]) < 100.0
    opened, later, largest = of_arm_a("umab"), of_arm_a("umab", round=300), of_arm_a("umab", size=1000.0)
    assert opened[48] > 0.9 and opened[50] < 0.2 and opened[150] > 0.9
    assert min(later[200:]) > 0.9
    assert largest[50] < 0.2 and largest[450] < 0.2
    rescaled, smaller = of_arm_a("rescaled"), of_arm_a("rescaled", size=5.0)
    assert rescaled[-1] - rescaled[100] < 0.1 and smaller[-1] > rescaled[-1] + 0.1
    assert of_arm_a("clipped", guess=1000.0)[-1] < 0.45 and of_arm_a("clipped", guess=3.0)[-1] > 0.85
    assert of_arm_a("clipped", size=3.0, guess=3.0) == of_arm_a("clipped", size=1000.0, guess=3.0)


def test_the_picture_is_readable_in_the_dark_and_on_a_phone(browser: Any, site: Path) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
        page.goto(f"file://{site}/how-it-works.html")
        page.wait_for_selector("#outlier fieldset:not([hidden])")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        colours.add(page.locator("#outlier text").first.evaluate("it => getComputedStyle(it).fill"))
        page.close()
    assert len(colours) == 2


def test_without_javascript_the_picture_is_there_and_the_sliders_are_not(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{site}/how-it-works.html")
    assert page.locator("#outlier svg").first.is_visible() and not page.locator("#outlier input").first.is_visible()
    context.close()


def test_no_section_is_long() -> None:
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        words = re.sub(r"```.*?```", "", section, flags=re.DOTALL).split()
        assert len(words) <= LONGEST, (words[:3], len(words))
