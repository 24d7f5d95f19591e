"""Shared by all tests: how hypothesis runs, and a browser."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Compiling a policy in the first example is slow, and that is no fault of the example. The same examples in every run,
# so that a failure is one of the change; `make test-all` looks for new ones.
settings.register_profile("umab", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("explore", settings.get_profile("umab"), derandomize=False)
settings.load_profile("umab")

# Shells start what ends in `&` with Ctrl-C ignored, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = ["gpu"]  # these need a GPU, or a simulated one: tests/test_gpu.py


def pytest_collection_finish() -> None:
    """Leave what is there before the first test out of the collections below, which are quick then."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _no_garbage() -> Iterator[None]:
    """Collect the garbage of a file of tests at its end: a socket that one of them left open fails no other file."""
    yield
    gc.collect()


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, to look at pages with."""
    if BROWSER is None:
        if os.environ.get("UMAB_BROWSER_NEEDED"):
            pytest.fail("these tests need a browser, and UMAB_BROWSER_NEEDED is set; install Debian's chromium")
        pytest.skip("there is no Chromium to open the page in; install Debian's chromium to run these tests")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()
