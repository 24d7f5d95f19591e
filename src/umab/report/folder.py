"""The folder of a report: the page, the figures, the numbers and the raw results."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from umab.experiments.experiment import Experiment, Setting
from umab.experiments.runner import Outcome, Run
from umab.files import write_atomically
from umab.plotting import Chart
from umab.progress import Progress
from umab.report.charts import regret_chart
from umab.report.page import Certificates, Head, page

FORMAT = "umab.Report"
VERSION = 1

_OURS = ("results.json", "figures", "results", "index.html", "page.md")

_ASIDE = ".report-"  # how the folder begins in which a report is written before it is put in place


def write(
    run: Run,
    folder: str | os.PathLike[str],
    head: Head,
    *,
    certificates: Certificates | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a report and return the path of its page.

    Parameters
    ----------
    run
        What was run.
    folder
        Where to; it is made if need be. A report that is there is replaced; a folder with anything else is refused.
    head
        The title and the first words of the page.
    certificates
        What became of the paper's statements, for a section of their own.
    progress
        As for `umab.simulate`.
    """
    folder = Path(folder)
    prepare(folder)
    charts = {
        figure_name(outcome.experiment, outcome.setting): regret_chart(outcome, interactive=False)
        for outcome in run.outcomes
    }
    raw = list(_raw(run))
    with replaced(folder) as new, Progress(len(charts) + len(raw), "writing the report", progress, unit="files") as bar:
        write_atomically(new / "results.json", as_json(run))
        with ThreadPoolExecutor() as pool:
            saved = [pool.submit(_save, result, new / "results" / path) for path, result in raw]
            for name, chart in charts.items():
                draw(chart, new / "figures" / name)
                bar.advance(1)
            for each in saved:
                each.result()
                bar.advance(1)
        write_atomically(new / "index.html", page(run, head, certificates).encode(errors="replace"))
    return folder / "index.html"


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Yield a folder to write a report to; then put that in place of the report that is in `folder`, all of it.

    Everything is written aside: whoever is stopped before the end keeps the report they had.
    """
    with tempfile.TemporaryDirectory(prefix=_ASIDE, dir=folder) as aside:
        new, old = Path(aside) / "new", Path(aside) / "old"
        (new / "figures").mkdir(parents=True)
        old.mkdir()
        yield new
        for name in _OURS:  # what else is in the folder stays there
            if (folder / name).exists():
                (folder / name).rename(old / name)
            if (new / name).exists():
                (new / name).rename(folder / name)


def draw(chart: dict[str, Any], path: Path) -> str:
    """Write a chart to `path`.png and `path`.pdf; return it as SVG."""
    drawn = Chart(chart)
    for ending in ("png", "pdf"):
        drawn.save(path.with_name(f"{path.name}.{ending}"))
    return drawn.svg


def prepare(folder: Path) -> None:
    """Make the folder of a report, or say why that cannot be, before hours of work are lost on it."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"a report needs a folder, but {str(folder)!r} is a file")
    # What a run that was killed has left behind is none of the other things.
    found = [path for path in folder.iterdir() if not path.name.startswith(_ASIDE)] if folder.is_dir() else []
    if found and not _is_report(folder):
        raise FileExistsError(f"{str(folder)!r} holds other things than a report; take a new or an empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"a report needs a folder, but {str(folder)!r} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"a report needs a folder to write to, but {str(folder)!r} is read-only")


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Prepare the folder of a report; whoever is stopped before it is written leaves no empty folder behind."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    prepare(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that is not empty
            for each in missing:
                each.rmdir()


def _is_report(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "results.json").read_text(encoding="utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def figure_name(experiment: Experiment, setting: Setting) -> str:
    """Return the name of the figure's files, without their ending."""
    return file_name(f"{experiment.id}-{setting.name}")


def file_name(text: str) -> str:
    """Return a text as every file system takes it: umab-g-a:rate=4 as umab-g-a_rate_4."""
    return re.sub(r"[^\w.-]|^\.+", "_", text)[:100]


def check_names(experiments: Iterable[Experiment]) -> None:
    """Refuse experiments whose figures would have the same name."""
    names: dict[str, str] = {}
    for experiment in experiments:
        for setting in experiment.settings:
            title = f"{experiment.id!r}, setting {setting.name!r}"
            name = figure_name(experiment, setting)
            if name in names:
                raise ValueError(f"figures must have different names, but {names[name]} and {title} both have {name!r}")
            names[name] = title


def _raw(run: Run) -> Iterator[tuple[Path, Any]]:
    for outcome in run.outcomes:
        place = Path(file_name(outcome.experiment.id), file_name(outcome.setting.name))
        for name, curve in outcome.curves.items():
            yield place / file_name(name), curve.result


def _save(result: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    result.save(path)


def as_json(run: Run) -> bytes:
    """Return the numbers of a run: the same bytes for the same seed, whatever the machine was doing."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "figures": _by_figure(
            run, lambda outcome: {name: each.expected._asdict() for name, each in outcome.curves.items()}
        ),
        "claims": [
            {
                "figure": outcome.experiment.id,
                "setting": outcome.setting.name,
                "claim": str(judged.claim),
                "verdict": judged.verdict,
                "evidence": judged.evidence._asdict(),
            }
            for outcome in run.outcomes
            for judged in outcome.judged
        ],
        "verdicts": [
            {
                "figure": outcome.experiment.id,
                "setting": outcome.setting.name,
                "claim": outcome.experiment.claim,
                "verdict": outcome.verdict,
            }
            for outcome in run.outcomes
            if outcome.judged
        ],
        "sampled": _by_figure(run, _sampled),
        "provenance": _by_figure(run, _provenance),
    }
    return json.dumps(without_nan(content), indent=1, allow_nan=False).encode()


def _by_figure(run: Run, describe: Callable[[Outcome], Any]) -> dict[str, dict[str, Any]]:
    return {
        id: {outcome.setting.name: describe(outcome) for outcome in outcomes}
        for id, outcomes in run.experiments.items()
    }


def _sampled(outcome: Outcome) -> dict[str, Any]:
    """Return the final regrets of the arms drawn, where these were kept."""
    return {name: each.sampled and each.sampled._asdict() for name, each in outcome.curves.items()}


def _provenance(outcome: Outcome) -> dict[str, Any]:
    """Return what the numbers depend on."""
    results = {name: curve.result.provenance for name, curve in outcome.curves.items()}
    common = next(iter(results.values()))
    return {
        **{key: common[key] for key in ("n_trials", "seed", "losses", "versions")},
        "policies": {name: {key: each[key] for key in ("policy", "parameters")} for name, each in results.items()},
    }


def without_nan(content: Any) -> Any:
    """Return the content with null for what is not a finite number: JSON has no other word for it."""
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
