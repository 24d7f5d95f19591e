"""What `make bench-gpu` writes: docs/gpu.json, and from it a part of docs/speed.md and the table of docs/gpu.md.

``python -m benchmarks.gpu.pages`` writes both again from the file.
"""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.pages import DOCS, table, wrapped

HEADING = "## On a GPU"
BEGIN, END = "<!-- measured by make bench-gpu -->", "<!-- end -->"
FILE = DOCS / "gpu.json"


def read() -> dict[str, Any]:
    """Return what was measured before."""
    if not FILE.exists():
        return {"device": "", "machine": "", "sections": {}, "agreements": {}}
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def store(found: dict[str, Any]) -> None:
    """Keep what was measured."""
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write() -> None:
    """Write both pages."""
    found = read()
    page, about = DOCS / "speed.md", DOCS / "gpu.md"
    kept = page.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    page.write_text(f"{kept}\n\n{part(found)}", encoding="utf-8")
    text = about.read_text(encoding="utf-8")
    new = f"{BEGIN}\n\n{agreements(found)}\n{END}"
    about.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: new, text, flags=re.DOTALL), encoding="utf-8")


def part_of(text: str) -> str:
    """Return the part of docs/speed.md about GPUs, which comes last; nothing if there is none."""
    _, heading, rest = text.partition(HEADING)
    return heading + rest


def part(found: dict[str, Any]) -> str:
    """Return the part about GPUs."""
    rows = [
        (title if k == 0 else "", row["what"], row["measured"], _marked(row), row["note"])
        for title, section in found["sections"].items()
        for k, row in enumerate(section)
    ]
    text = f"""{HEADING}

Written by `make bench-gpu`. Measured on {found["device"]}, beside {found["machine"]}.

Times are medians of three runs, with everything that a simulation needs: seeding, the table, the summary and all
transfers. The kernel by hand is benchmarks/gpu/umab_g_a.cu: the same loop with the same streams and the same
arithmetic, which draws the same arms."""
    return wrapped(text) + "\n" + table(("", "", "measured", "target", ""), rows)


def _marked(row: dict[str, Any]) -> str:
    return f"{row['target']} {'✓' if row['met'] else '✗'}" if row["target"] else ""


def agreements(found: dict[str, Any]) -> str:
    """Return how results compare, as a table."""
    rows = [
        (
            name,
            "all" if each["same_bits"] else "no",
            f"{each['n_apart']:,} of {each['n_trials']:,}",
            _size(each["largest"]),
            _size(each["of_means"]),
        )
        for name, each in found["agreements"].items()
    ]
    about = f"""Measured on {found["device"]}, in trials of {_rounds(found)} rounds with 10 arms. The last two columns
are the largest differences, relative to the largest value; for final regrets, in trials with the same arms."""
    head = "policy", "the same bits", "trials with another arm", "final regret", "mean regret"
    return f"{wrapped(about)}\n{table(head, rows)}"


def _rounds(found: dict[str, Any]) -> str:
    return " or ".join(sorted({str(each["n_rounds"]) for each in found["agreements"].values()}))


def _size(value: float) -> str:
    return f"{value:.0e}" if value else "0"


if __name__ == "__main__":
    write()
