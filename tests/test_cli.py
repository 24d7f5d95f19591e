"""The command, as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys

import umab


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "umab.cli", *arguments], capture_output=True, text=True)


def test_policies_prints_a_row_each() -> None:
    result = run("policies")
    assert result.returncode == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].split()[:6] == ["name", "range", "sign", "horizon", "sees", "delay"]
    rows = {line.split()[0]: line for line in lines[2 : 2 + len(umab.policies())]}
    assert rows.keys() == umab.policies().keys()
    assert "≥ 0" in rows["umab-nn"] and "unknown" in rows["umab-nn"]
    assert "known" in rows["exp3"].split() and "needed" in rows["exp3"].split()
    assert "all arms" in rows["adahedge"]
    for name, row in rows.items():
        policy = umab.policy(name)
        assert (policy.guarantee or "no bound") in row and policy.reference in row
        assert name == "uniform" or policy.reference


def test_names_only() -> None:
    assert run("policies", "--names").stdout.split() == list(umab.policies())


def test_help_has_an_example_and_a_mistake_gets_a_message() -> None:
    assert "example: umab policies" in run("--help").stdout
    assert "example: umab policies --names" in run("policies", "--help").stdout
    assert run("--version").stdout == f"umab {umab.__version__}\n"
    for arguments in ((), ("polices",)):
        result = run(*arguments)
        assert result.returncode == 2 and "usage: umab" in result.stderr


def test_a_console_without_mathematics_gets_question_marks() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "umab.cli", "policies"]
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0 and b"umab-nn" in result.stdout and b"?" in result.stdout
