"""What all pages share: the templates, the frame of HTML pages, and the library that draws their charts."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from umab._support.extras import extra
from umab.research.report import words

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a page says about itself."""

    title: str
    lede: str = ""
    command: str
    """The command that makes the page again."""
    code: str = ""
    """How to use the outcome, in Python."""


def html(template: str, content: Mapping[str, object], charts: Mapping[str, object]) -> str:
    """Return an HTML page that is complete: it needs neither a server nor a network.

    Parameters
    ----------
    template
        A file in this folder that extends `frame.html`.
    content
        What the page shows. The frame itself shows `head`, a `Head`; `stand_ins`, the stand-ins for real data, if
        there are any; and `versions`, by the name of the software.
    charts
        Vega-Lite specifications by name; the chart `name` is drawn in the element `chart-name`.
    """
    return (
        _environment(__package__, html=True)
        .get_template(template)
        .render(
            content,
            style=_text_of(__package__, "page.css"),
            script=_drawing_library() + _text_of(__package__, "page.js"),
            charts=in_script(charts),
        )
    )


def markdown(template: str, content: Mapping[str, object], package: str = __package__) -> str:
    """Return a page in Markdown from a template, which is a file in `package`, and its content."""
    return _environment(package, html=False).get_template(template).render(content)


def in_script(content: object) -> str:
    """Return JSON that is safe inside a script: no text in it can end the script."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@functools.cache
def _environment(package: str, *, html: bool) -> jinja2.Environment:
    """Return the environment that renders the templates of a package."""
    with extra("report", "a report"):
        import jinja2
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(functools.partial(_text_of, package)),
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
    made.filters["versions"] = lambda versions: ", ".join(f"{name} {version}" for name, version in versions.items())
    made.filters["cell"] = lambda text: str(text).replace("|", "\\|")  # a cell of a table in Markdown
    made.globals["words"] = words
    return made


def _text_of(package: str, name: str) -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


@functools.cache
def _drawing_library() -> str:
    """Return the drawing library as one script that sets `vegaEmbed`."""
    with extra("report", "a report"):
        import vl_convert
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script") + "\n"
