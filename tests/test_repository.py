"""What the repository says about itself agrees with the package: version, citation, changelog, checks."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import umab
from umab.algorithms.registry import records

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_version_is_the_same_everywhere() -> None:
    first, *_ = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first == CITATION["version"] == umab.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", umab.__version__)


def test_the_citation_agrees_with_the_project() -> None:
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["keywords"] == PROJECT["keywords"]
    (holder,) = re.findall(r"^Copyright \(c\) \d+ (.+)$", (ROOT / "LICENSE").read_text(), re.MULTILINE)
    assert CITATION["authors"] == [{"name": holder}]
    (paper,) = CITATION["references"]
    readme = " ".join((ROOT / "README.md").read_text().split())
    names = " and ".join(author["family-names"] for author in paper["authors"])
    assert f"{names}, *{paper['title']}*" in readme
    assert records()["umab-nn"].reference.startswith(f"{names.replace('and', '&')} {paper['year']}")


def test_the_workflow_runs_all_checks_on_each_python() -> None:
    content = yaml.safe_load(WORKFLOW)
    assert content["permissions"] == {"contents": "read"}
    (job,) = content["jobs"].values()
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert job["strategy"]["matrix"] == {"python": versions}
    assert PROJECT["requires-python"] == f">={versions[0]}"
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


@pytest.mark.parametrize("document", ["SECURITY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / document).read_text())
    assert links and all(link.startswith("https://keepachangelog.com/") or (ROOT / link).exists() for link in links)


def test_nothing_names_a_person_or_a_mailbox() -> None:
    for path in (ROOT / "SECURITY.md", *FORMS, ROOT / ".github" / "pull_request_template.md", ROOT / "CITATION.cff"):
        assert "@" not in path.read_text(), path
