"""The page on the paper's experiments: what is in docs/ is what the numbers beside it come to."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pages import paper as paper_page
from umab.research.experiments.experiment import paper
from umab.research.experiments.runner import run
from umab.research.report import run_page
from umab.research.report.shell import Head

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def results() -> Any:
    return json.loads((DOCS / "paper" / "results.json").read_text())


def test_the_page_is_that_of_the_numbers_beside_it(results: Any) -> None:
    assert (DOCS / "paper.md").read_text() == paper_page.text(results)


def test_the_page_has_all_experiments_and_the_real_data(results: Any) -> None:
    text = (DOCS / "paper.md").read_text()
    for id, experiment in paper().items():
        assert f"{experiment.figure}: {experiment.title.lower()} {{ #{id} }}" in text
        for setting in experiment.settings:
            assert f"](paper/{id}-{setting.name}.svg)" in text
            assert (DOCS / "paper" / f"{id}-{setting.name}.svg").read_text().startswith("<svg")
    assert "Not all data are real" not in text and "Stand-ins" not in text


def test_the_page_follows_the_numbers(results: Any) -> None:
    changed = copy.deepcopy(results)
    assert "| umab-g-a | 475.70 ± 0.71 | **322.9 ± 5.9** |" in paper_page.text(changed)
    changed["figures"]["stock"]["figure"]["umab-g-a"] |= {"mean": 1000.0, "se": 10.0}
    for each in changed["verdicts"]:
        if each["figure"] == "stock":
            each["verdict"] = "undecided"
    changed["provenance"]["sales"]["printed"]["losses"]["provenance"]["stand_in"] = True
    text = paper_page.text(changed)
    assert "| umab-g-a | 475.70 ± 0.71 | 1000 ± 10 |" in text and "| umab-g | 475.70 ± 0.71 | **328.3 ± 6.2** |" in text
    assert "undecided (8 of 8 statements)" in text
    assert "**Not all data are real.** Stand-ins were used for the tables of: sales." in text


def test_a_report_becomes_a_page(tmp_path: Path) -> None:
    report, docs = tmp_path / "report", tmp_path / "docs"
    docs.mkdir()
    done = run([paper()["exploration"].with_settings(["figure"])], n_trials=3)
    run_page.write(done, report, Head(title="", command="umab reproduce"))
    paper_page.write(report, docs)
    assert (docs / "paper" / "results.json").read_bytes() == run_page.as_json(done)
    assert sorted(each.name for each in (docs / "paper").iterdir()) == ["exploration-figure.svg", "results.json"]
    page = (docs / "paper.md").read_text()
    assert (
        "Figure 2a" in page
        and "Figure 2b" not in page
        and "3 trials of every policy" in page
        and "printed.svg" not in page
    )
    assert "umab-g-none" in (docs / "paper" / "exploration-figure.svg").read_text()
