"""The picture of `umab compare` in the README: `python -m pages.compare docs` takes it of a report, in Chromium.

The table is a year of latencies, hour by hour, in which the best upstream is down for a while.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from pages.latencies import SHOWN, STORIES, UPSTREAMS, table
from umab import cli
from umab._support.files import write_atomically

PICTURE = "compare.png"
N_HOURS = 8760
WIDTH, HEIGHT = 1200, 820
LARGEST = 200_000
"""How many bytes the picture may have."""


def write_table(path: Path, n_hours: int = N_HOURS) -> None:
    """Write the latencies with a time for each row, as a CSV file."""
    start = datetime(2026, 1, 1)
    lines = [",".join(("time", *UPSTREAMS))]
    for hour, row in enumerate(np.round(table(STORIES[SHOWN], 0, n_hours), 1).tolist()):
        lines.append(",".join((str(start + timedelta(hours=hour)), *map(str, row))))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def take(docs: Path, n_hours: int = N_HOURS) -> None:
    """Write the table, compare the policies on it, and take the picture of the report."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder:
        file, report = Path(folder) / "latencies.csv", Path(folder) / "report"
        write_table(file, n_hours)
        if cli.main(["compare", str(file), "--out", str(report)]):
            raise RuntimeError("umab compare must end with 0 for a picture of its report")
        with sync_playwright() as playwright:
            opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto((report / "index.html").as_uri())
            page.wait_for_selector("svg, canvas")
            picture = page.screenshot()
            opened.close()
    if len(picture) > LARGEST:
        raise RuntimeError(f"a picture must have at most {LARGEST:,} bytes, but got {len(picture):,}")
    write_atomically(docs / PICTURE, picture)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
