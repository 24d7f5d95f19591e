"""What happens to the pages while the site is built: formulas become MathML, and code is taken from where it is."""

from __future__ import annotations

import html
import importlib
import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.util import ETX, STX
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

import umab

ROOT = Path(__file__).parent.parent

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_TYPOGRAPHY = (
    (r"<mo[^>]*>(&#x0007C;|&#x02016;|&#x0002F;)</mo>", r'<mo stretchy="false" lspace="0em" rspace="0em">\1</mo>'),
    (r"<mi>(ln)</mi>(?!<mo)", r'<mspace width="0.16em" /><mi>\1</mi><mspace width="0.16em" />'),
    (r"<mi>&#x02032;</mi>", r'<mo class="prime" lspace="0em" rspace="0em">&#x02032;</mo>'),
)
"""Bars, norms and slashes without space around them, logarithms with some, and primes that can be seen."""

_SOURCE = re.compile(r"^<!-- code: ([\w.]+) -->$", re.MULTILINE)
_NOTEBOOK = re.compile(r"\]\(([\w/.-]+)\.ipynb\)")
_POLICIES = "<!-- policies -->"


class PlainUnderscore(InlineProcessor):
    """An underscore is one: docstrings and pages write p_t, and have stars for emphasis."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: D102
        return f"{STX}{ord('_')}{ETX}", m.start(), m.end()  # what \\_ becomes


class PlainUnderscores(Extension):
    """Plain underscores, where neither code nor a link has taken them, and before emphasis does."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: D102
        md.inlinePatterns.register(PlainUnderscore("_", md), "plain_underscore", 65)


def on_config(config: Any) -> Any:
    """Read all pages, and the docstrings on them, with plain underscores."""
    config.markdown_extensions.append(PlainUnderscores())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make a page of every notebook; the notebook itself stays beside it, for those who want to run it."""
    for file in [each for each in files if each.src_uri.endswith(".ipynb")]:
        name = file.src_uri.removesuffix(".ipynb")
        content = notebook(json.loads(file.content_string), Path(file.src_uri).name)
        files.append(File.generated(config, f"{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in code and tables where a page asks for them, and lead to the page of a notebook, not to its file."""
    if page.file.generated_by is None:  # the page of a notebook leads to the file
        markdown = _NOTEBOOK.sub("](\\1.md)", markdown)
    try:
        return _SOURCE.sub(lambda found: code(found[1]), markdown).replace(_POLICIES, policies())
    except (ImportError, AttributeError) as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from None


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Turn the formulas of a page into MathML, which browsers show without scripts or fonts."""
    try:
        return _FORMULA.sub(lambda found: mathml(found[2], block=found[1] == "div"), html)
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from None


def mathml(formula: str, *, block: bool) -> str:
    """Return a formula in TeX, as HTML has it, as MathML."""
    tex = html.unescape(formula)
    made: str = convert(tex, display="block" if block else "inline")
    unknown = re.search(r"\\\w+", html.unescape(made))
    if unknown:
        raise ValueError(f"a formula must be of what latex2mathml knows, but got {unknown[0]} in {tex!r}")
    for pattern, replacement in _TYPOGRAPHY:
        made = re.sub(pattern, replacement, made)
    return f'<div class="formula">{made}</div>' if block else made


def code(name: str) -> str:
    """Return the source of a function or a class, without its docstring, as a block of a page."""
    owner, _, last = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(owner), last)
    except ModuleNotFoundError:
        module, _, kind = owner.rpartition(".")
        found = getattr(getattr(importlib.import_module(module), kind), last)
    found = inspect.unwrap(found)
    path = Path(inspect.getsourcefile(found) or "").relative_to(ROOT)
    text = textwrap.dedent(inspect.getsource(found))
    text = re.sub(r"^(@.*\n)+", "", text)
    text = re.sub(r'^ +""".*?"""\n', "", text, count=1, flags=re.DOTALL | re.MULTILINE)
    return f'```python title="{path}"\n{text}```'


def notebook(content: dict[str, Any], name: str) -> str:
    """Return a notebook, with the outputs that are kept in it, as a page."""
    parts = []
    for cell in content["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            kinds = output.get("data", {"text/plain": output.get("text", "")})
            if "image/svg+xml" in kinds or "text/html" in kinds:
                shown = "".join(kinds.get("image/svg+xml") or kinds["text/html"])
                one_line = re.sub(r"\n\s*", " ", shown)  # an empty one would end the HTML
                parts.append(f'<div class="output">{one_line}</div>')
            elif "image/png" in kinds:
                parts.append(f'<img alt="" src="data:image/png;base64,{"".join(kinds["image/png"]).strip()}">')
            else:
                parts.append(f"```text\n{''.join(kinds['text/plain'])}\n```")
    return "\n\n".join([*parts, f"[This page as a notebook]({name})\n"])


def policies() -> str:
    """Return the table of what every policy takes and needs, from the policies themselves."""
    rows = [
        "| name | losses | horizon | units matter | an offset matters | sees | guarantee |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in umab.policies():
        policy = umab.policy(name)
        losses = "in a known range" if policy.needs_range else "from 0 on" if policy.loss_range[0] == 0.0 else "any"
        cells = (
            f"`{name}`",
            losses,
            "must be known" if policy.needs_horizon else "–",
            "no" if policy.scale_free else "yes",
            "no" if policy.shift_free else "yes",
            "all losses" if policy.full_information else "one loss",
            policy.guarantee or "–",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
