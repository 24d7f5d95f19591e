"""The report on a run: a page, the figures, the numbers and the raw results."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from umab._support.files import write_atomically
from umab._support.progress import Progress
from umab.research.experiments.experiment import Experiment, Setting
from umab.research.experiments.runner import Outcome, Run
from umab.research.report import shell
from umab.research.report.charts import caption, regret_chart
from umab.research.report.folder import draw, file_name, replaced, results_json
from umab.results.result import Result
from umab.results.tracking import BestSequence, best_sequences
from umab.tables.losses import TableWarning
from umab.theory.bounds import bounds_of
from umab.theory.certificates import Certified, as_rows, certifiable, certify
from umab.theory.terms import Bound

Certificates = Mapping[str, Sequence[Certified]]
"""The certificates of the paper's statements, by a title that names the experiment, the setting and the policy."""

_SWITCHES = (0, 1, 2, 5, 10)
"""With how many switches sequences of arms are shown beside the best single arm."""


def write(
    run: Run,
    folder: str | os.PathLike[str],
    head: shell.Head,
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
        Where to write it; it is made if necessary. A report in it is replaced; a folder with anything else is refused.
    head
        The title and the first words of the page.
    certificates
        The certificates of the paper's statements, which get their own section.
    progress
        As for `umab.simulate`.
    """
    folder = Path(folder)
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


def certificates_of(run: Run) -> Certificates:
    """Check the paper's statements along five runs of each policy that has any; warn where arms are away."""
    found: dict[str, Sequence[Certified]] = {}
    for outcome in run.outcomes:
        title = f"{outcome.experiment.id}, {outcome.setting.name}"
        if outcome.losses.n_away:
            warnings.warn(f"no certificates for {title}: arms are away in its losses", TableWarning, stacklevel=3)
            continue
        for name, curve in outcome.curves.items():
            if certifiable(curve.policy):
                found[f"{title}: {name}"] = certify(curve.policy, outcome.losses, n_trials=5)
    return found


def page(run: Run, head: shell.Head, certificates: Certificates | None = None) -> str:
    """Return the page of a run as HTML, with the certificates if there are any."""
    content = {
        "head": head,
        "run": run,
        "claimed": any(outcome.judged for outcome in run.outcomes),
        "stand_ins": _stand_ins(run.outcomes),
        "policies": list(dict.fromkeys(name for outcome in run.outcomes for name in outcome.curves)),
        "caption": caption,
        "promises": _promises,
        "sequences": _sequences,
        "certificates": {title: as_rows(rows) for title, rows in (certificates or {}).items()},
        "versions": _common(run.outcomes[0])["versions"],
    }
    charts = {
        f"{number}-{at}": regret_chart(outcome, interactive=True)
        for number, outcomes in enumerate(run.experiments.values())
        for at, outcome in enumerate(outcomes)
    }
    return shell.html("run.html", content, charts)


def _promises(outcome: Outcome) -> list[tuple[str, Bound]]:
    """Return the bounds on the policies of an outcome, as far as these have one in the norms of the paper's Table 1.

    There are none if arms are away in some rounds.
    """
    if outcome.losses.n_away:
        return []
    bounds = bounds_of({name: curve.policy for name, curve in outcome.curves.items()}, outcome.losses)
    return list(bounds.items())


def _sequences(outcome: Outcome) -> list[tuple[int, BestSequence]]:
    """Return the best sequences of arms by the number of switches allowed, as far as more switches save anything.

    There are none if arms are away in some rounds, or if one arm is the best in all of them.
    """
    if outcome.losses.n_away:
        return []
    shown: list[tuple[int, BestSequence]] = []
    for allowed, found in zip(_SWITCHES, best_sequences(outcome.losses, _SWITCHES), strict=True):
        if not shown or len(found.starts) > len(shown[-1][1].starts):
            shown.append((allowed, found))
    return shown if len(shown) > 1 else []


def _stand_ins(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return the sources of stand-ins, with the figures that they are used in."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.stand_in:
            found.setdefault(outcome.losses.source, []).append(f"{outcome.experiment.title} ({outcome.setting.name})")
    return found


def figure_name(experiment: Experiment, setting: Setting) -> str:
    """Return the name of the figure's files, without the ending."""
    return file_name(f"{experiment.id}-{setting.name}")


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


def result_path(id: str, setting: str, policy: str) -> Path:
    """Return where the results of a policy are, relative to the folder `results` of a report."""
    return Path(file_name(id), file_name(setting), file_name(policy))


def _raw(run: Run) -> Iterator[tuple[Path, Result]]:
    for outcome in run.outcomes:
        for name, curve in outcome.curves.items():
            yield result_path(outcome.experiment.id, outcome.setting.name, name), curve.result


def _save(result: Result, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    result.save(path)


def as_json(run: Run) -> bytes:
    """Return the numbers of a run; the same seed gives the same bytes."""
    return results_json(
        {
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
    )


def _by_figure(run: Run, describe: Callable[[Outcome], object]) -> dict[str, dict[str, object]]:
    return {
        id: {outcome.setting.name: describe(outcome) for outcome in outcomes}
        for id, outcomes in run.experiments.items()
    }


def _sampled(outcome: Outcome) -> dict[str, object]:
    """Return the final sampled regrets, if the arms drawn were kept."""
    return {name: each.sampled and each.sampled._asdict() for name, each in outcome.curves.items()}


def _provenance(outcome: Outcome) -> dict[str, object]:
    """Return what the numbers depend on."""
    results = {name: curve.result.provenance for name, curve in outcome.curves.items()}
    common = _common(outcome)
    return {
        **{key: common[key] for key in ("n_trials", "seed", "losses", "versions")},
        "policies": {name: {key: each[key] for key in ("policy", "parameters")} for name, each in results.items()},
    }


def _common(outcome: Outcome) -> Mapping[str, object]:
    """Return the provenance of one result; most of it is the same for all results of an outcome."""
    return next(iter(outcome.curves.values())).result.provenance
