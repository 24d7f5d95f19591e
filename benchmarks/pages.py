"""What all generated pages use: paragraphs, tables, and the name of the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from umab.engine.work import versions

DOCS = Path(__file__).parent.parent / "docs"


def wrapped(text: str) -> str:
    """Return the text with its paragraphs wrapped at 120 characters, and its tables unchanged."""
    parts = text.split("\n\n")
    return "\n\n".join(p if p.startswith("|") else textwrap.fill(p, 120, break_long_words=False) for p in parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def machine() -> str:
    """Return the processor, the number of cores, and the versions that numbers depend on."""
    model = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    ours = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{model or platform.machine()}, {os.cpu_count()} cores, {ours}"
