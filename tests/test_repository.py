"""What the repository says about itself agrees with the package: version, citation, changelog, checks, forms."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import umab

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_version_is_the_same_everywhere() -> None:
    first, *_ = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first == CITATION["version"] == umab.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", umab.__version__)


def test_the_changelog_has_the_usual_headings() -> None:
    headings = re.findall(r"^### (\w+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"} and headings


def test_the_citation_has_what_it_must_have() -> None:
    """By the schema of version 1.2.0, which needs more than it is worth to be checked in full."""
    assert {"cff-version", "message", "title", "authors"} <= CITATION.keys() and CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software" and CITATION["license"] == PROJECT["license"]
    assert CITATION["keywords"] == PROJECT["keywords"]
    (holder,) = re.findall(r"^Copyright \(c\) \d+ (.+)$", (ROOT / "LICENSE").read_text(), re.MULTILINE)
    assert CITATION["authors"] == [{"name": holder}]
    (paper,) = CITATION["references"]
    assert {"type", "title", "authors"} <= paper.keys()
    readme = " ".join((ROOT / "README.md").read_text().split())
    names = " and ".join(author["family-names"] for author in paper["authors"])
    assert f"{names}, *{paper['title']}*" in readme
    assert umab.policy("umab-nn").reference.startswith(f"{names.replace('and', '&')} {paper['year']}")


def test_the_workflow_runs_all_checks_on_each_python() -> None:
    content = yaml.safe_load(WORKFLOW)
    assert content.keys() == {"name", True, "permissions", "concurrency", "jobs"}  # YAML 1.1 reads on as true
    assert content[True].keys() == {"push", "pull_request"} and content["permissions"] == {"contents": "read"}
    (job,) = content["jobs"].values()
    assert job.keys() >= {"runs-on", "strategy", "container", "steps"}
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert job["strategy"]["matrix"] == {"python": versions}
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    command = ROOT / job["steps"][-1]["run"]
    assert command == ROOT / ".ci" / "run" and os.access(command, os.X_OK)
    for name in set(re.findall(r"\$\{\{ (.+?) \}\}", WORKFLOW)):
        assert name in ("matrix.python", "github.ref")


def test_the_checks_are_a_script_whose_commands_exist() -> None:
    script = ROOT / ".ci" / "run"
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = re.findall(r"^make (\S+)$", script.read_text(), re.MULTILINE)
    assert called and set(called) <= set(targets)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_can_be_shown(path: Path) -> None:
    form: dict[str, Any] = yaml.safe_load(path.read_text())
    assert form.keys() == {"name", "description", "labels", "body"} and all(form.values())
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert (
        len({field["id"] for field in fields}) == len({field["attributes"]["label"] for field in fields}) == len(fields)
    )
    for field in form["body"]:
        wanted = {"value"} if field["type"] == "markdown" else {"label", "description"}
        assert field["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert wanted <= field["attributes"].keys() <= {*wanted, "render", "options"}
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert [path.stem for path in FORMS] == ["bug", "feature", "wrong-number"]
    assert all(
        f"`make {name}`" in (ROOT / ".github" / "pull_request_template.md").read_text() for name in ("lint", "test")
    )


@pytest.mark.parametrize("document", ["SECURITY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / document).read_text())
    assert links and all(link.startswith("https://keepachangelog.com/") or (ROOT / link).exists() for link in links)


def test_nothing_names_a_person_or_a_mailbox() -> None:
    for path in (ROOT / "SECURITY.md", *FORMS, ROOT / ".github" / "pull_request_template.md", ROOT / "CITATION.cff"):
        assert "@" not in path.read_text(), path
