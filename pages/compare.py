"""The picture of `umab compare` in the README: `python -m pages.compare docs` takes it of a report, in Chromium.

The table is that of a demonstration, and the report is about a few policies, so that its curves can be told apart.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from pages.dashboard import Picture, taken
from umab import cli
from umab._support.files import write_atomically

REPORT = Picture("compare.png", "/index.html", "light", 1200, 940)
TABLE = Path(__file__).parent.parent / "examples" / "recorded" / "query-plans.csv"
POLICIES = ("recommended", "centred(umab-s)", "umab-nn", "ahb", "uniform")


def write(docs: Path) -> None:
    """Compare the policies on the table, and write the picture of the report."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["compare", str(TABLE), "--out", folder]
        if cli.main([*command, *(word for name in POLICIES for word in ("--policy", name))]):
            raise RuntimeError("umab compare must end with 0 for a picture of its report")
        (picture,) = asyncio.run(taken(Path(folder).as_uri(), (REPORT,))).values()
    write_atomically(docs / REPORT.name, picture)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
