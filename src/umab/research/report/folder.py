"""The folder of a report: preparing it, replacing it as a whole, and filling it with figures and numbers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from umab.results.plotting import Chart

_FORMAT = "umab.Report"
_VERSION = 1

_OURS = ("results.json", "figures", "results", "index.html", "page.md")

_ASIDE = ".report-"  # the start of the name of the folder in which a report is written before it is put in place


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Yield a folder to write a report to; then put it in place of the whole report in `folder`.

    Everything is first written to a folder of its own, so that a run that is stopped leaves the old report as it was.
    """
    prepare(folder)
    with tempfile.TemporaryDirectory(prefix=_ASIDE, dir=folder) as aside:
        new, old = Path(aside) / "new", Path(aside) / "old"
        (new / "figures").mkdir(parents=True)
        old.mkdir()
        yield new
        for name in _OURS:  # other files in the folder stay there
            if (folder / name).exists():
                (folder / name).rename(old / name)
            if (new / name).exists():
                (new / name).rename(folder / name)


def prepare(folder: Path) -> None:
    """Make the folder of a report, or raise an error that says why this is impossible, before hours of work."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"a report needs a folder, but {str(folder)!r} is a file")
    # What a killed run has left behind does not count.
    found = [path for path in folder.iterdir() if not path.name.startswith(_ASIDE)] if folder.is_dir() else []
    if found and not _is_report(folder):
        raise FileExistsError(f"{str(folder)!r} holds something other than a report; choose a new or an empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"a report needs a folder, but {str(folder)!r} cannot be created: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"a report needs a folder that can be written to, but {str(folder)!r} is read-only")


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Prepare the folder of a report, and remove it again if a run is stopped before it writes the report."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    prepare(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder is not empty
            for each in missing:
                each.rmdir()


def _is_report(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "results.json").read_text(encoding="utf-8"))["format"] == _FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def draw(chart: dict[str, object], path: Path) -> str:
    """Write a chart to `path`.png and `path`.pdf; return it as SVG."""
    drawn = Chart(chart)
    for ending in ("png", "pdf"):
        drawn.save(path.with_name(f"{path.name}.{ending}"))
    return drawn.svg


def file_name(text: str) -> str:
    """Return a text as a file name for every file system: umab-g-a:rate=4 becomes umab-g-a_rate_4."""
    return re.sub(r"[^\w.-]|^\.+", "_", text)[:100]


def results_json(numbers: Mapping[str, object]) -> bytes:
    """Return the content of `results.json`: the numbers of a report, and the mark by which its folder is known."""
    content = {"format": _FORMAT, "version": _VERSION, **numbers}
    return json.dumps(_without_nan(content), indent=1, allow_nan=False).encode()


def _without_nan(content: object) -> object:
    """Return the content with null for every number that is not finite: JSON cannot express it otherwise."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
