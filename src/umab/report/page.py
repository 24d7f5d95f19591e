"""The page of a report: one HTML file that needs nothing else, neither a server nor a network."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from umab.experiments.runner import Outcome, Run
from umab.extras import extra
from umab.report import words
from umab.report.charts import regret_chart
from umab.theory.bounds import Bound, bound
from umab.theory.certificates import Certified, as_rows

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a page says before its numbers."""

    title: str
    lede: str
    command: str
    """The command that makes the page again."""
    code: str = ""
    """What to do with the outcome, in Python."""


Certificates = Mapping[str, Sequence[Certified]]
"""What became of the paper's statements, by a title that says of which policy and where."""


def page(run: Run, head: Head, certificates: Certificates | None = None) -> str:
    """Return the page of a run as HTML, with the certificates if there are any."""
    charts = {
        f"{number}-{at}": regret_chart(outcome, interactive=True)
        for number, outcomes in enumerate(run.experiments.values())
        for at, outcome in enumerate(outcomes)
    }
    return (
        environment()
        .get_template("page.html")
        .render(
            head=head,
            run=run,
            claimed=any(outcome.judged for outcome in run.outcomes),
            stand_ins=_stand_ins(run.outcomes),
            policies=list(dict.fromkeys(name for outcome in run.outcomes for name in outcome.curves)),
            style=text_of("page.css"),
            script=vega() + text_of("page.js"),
            charts=in_script(charts),
            promises=_promises,
            certificates={title: as_rows(rows) for title, rows in (certificates or {}).items()},
        )
    )


def environment(*, html: bool = True) -> jinja2.Environment:
    """Return what renders the templates of this folder."""
    with extra("report", "a report"):
        import jinja2
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(text_of),
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=not html,
    )
    made.filters["measured"] = lambda summary: words.measured(summary.mean, summary.se)
    made.filters["spread"] = words.spread
    made.filters["number"] = lambda value: f"{value:.4g}"
    made.filters["counted"] = words.counted
    made.globals["words"] = words
    return made


def _promises(outcome: Outcome) -> list[tuple[str, Bound]]:
    """Return the bounds on the policies of an outcome, for those that have one in the norms of the paper's Table 1."""
    bounds = {name: bound(curve.policy, outcome.losses) for name, curve in outcome.curves.items()}
    return [(name, each) for name, each in bounds.items() if each.rate is not None]


def _stand_ins(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return what stands in, and for which figures."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.stand_in:
            found.setdefault(outcome.losses.source, []).append(f"{outcome.experiment.title} ({outcome.setting.name})")
    return found


def text_of(name: str) -> str:
    """Return a file of this folder."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def in_script(content: Any) -> str:
    """Return JSON that may stand inside a script: no text in it can end that script."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@functools.cache
def vega() -> str:
    """Return the drawing library as one script that sets `vegaEmbed`."""
    with extra("report", "a report"):
        import vl_convert
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script") + "\n"
