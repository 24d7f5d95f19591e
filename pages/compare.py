"""The picture of `umab compare` in the README: `python -m pages.compare docs` takes it of a report, in Chromium.

The table is that of a demonstration, and the report is about a few policies, so that its curves can be told apart.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from umab import cli
from umab._support.files import write_atomically

PICTURE = "compare.png"
TABLE = Path(__file__).parent.parent / "examples" / "recorded" / "query-plans.csv"
POLICIES = ("recommended", "centred(umab-s)", "umab-nn", "ahb", "uniform")
WIDTH, HEIGHT = 1200, 820
LARGEST = 200_000
"""How many bytes the picture may have."""


def take(docs: Path) -> None:
    """Compare the policies on the table, and take the picture of the report."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder:
        command = ["compare", str(TABLE), "--out", folder]
        if cli.main([*command, *(word for name in POLICIES for word in ("--policy", name))]):
            raise RuntimeError("umab compare must end with 0 for a picture of its report")
        with sync_playwright() as playwright:
            opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto((Path(folder) / "index.html").as_uri())
            page.wait_for_selector("svg, canvas")
            picture = page.screenshot()
            opened.close()
    if len(picture) > LARGEST:
        raise RuntimeError(f"a picture must have at most {LARGEST:,} bytes, but got {len(picture):,}")
    write_atomically(docs / PICTURE, picture)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
