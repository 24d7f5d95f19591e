"""What the pages that benchmarks write have in common."""

from __future__ import annotations

import contextlib
import os
import platform
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from umab.engine.simulate import versions

DOCS = Path(__file__).parent.parent / "docs"


def wrapped(text: str) -> str:
    """Return paragraphs with lines of at most 120 characters, now that all words are known; tables as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(p if p.startswith("|") else textwrap.fill(p, 120, break_long_words=False) for p in parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def machine() -> str:
    model = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    ours = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{model or platform.machine()}, {os.cpu_count()} cores, {ours}"
