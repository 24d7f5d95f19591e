"""What tests lean on must itself hold: moments that are umab's own, and ports that nobody else takes."""

from __future__ import annotations

import gc
import itertools
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import umab
from helpers import at_moment
from service_process import free_port


class Interrupted(Exception):
    pass


def interrupt() -> None:
    raise Interrupted


def test_moments_are_those_of_umab_and_not_of_other_libraries_below_a_folder_of_that_name() -> None:
    """What is raised in a callback of the garbage collector is swallowed, and is no interrupt."""
    found: dict[str, Any] = {}
    text = "def callback(phase, info):\n    len(phase)\n    len(phase)\n"
    exec(compile(text, "/home/me/umab/.venv/lib/hypothesis/junkdrawer.py", "exec"), found)

    def work(learner: umab.Learner) -> None:
        gc.collect(0)
        learner.select()

    gc.callbacks.append(found["callback"])
    try:
        for number in itertools.count(1):
            learner = umab.Learner("umab-g-a", 2, seed=0)
            try:
                if not at_moment(number, interrupt, lambda: work(learner)):  # noqa: B023
                    break
                pytest.fail(f"the interrupt at moment {number} was swallowed")
            except Interrupted:
                pass
    finally:
        gc.callbacks.remove(found["callback"])
    assert number > 5 and gc.isenabled()


def test_a_free_port_is_never_given_to_two_processes_nor_to_an_outgoing_connection() -> None:
    mine = {free_port() for _ in range(50)}
    script = "from service_process import free_port; print(*(free_port() for _ in range(50)))"
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    theirs = {int(each) for each in there.stdout.split()}
    assert len(mine) == len(theirs) == 50 and not mine & theirs
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(mine | theirs) < first


def test_programs_that_tests_start_stop_at_ctrl_c_although_the_shell_that_started_the_tests_ignores_it(
    tmp_path: Path,
) -> None:
    """As in `make test &` in a script, where a test that waits for a program to stop would wait for ever."""
    (tmp_path / "test_it.py").write_text(
        "import signal, subprocess, sys\n"
        "def test_it():\n"
        "    code = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "    assert subprocess.check_output([sys.executable, '-c', code]) == b'True\\n'\n"
    )
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "1", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stdout
