"""The page of the short scripts: the code of each, and what it prints.

`python -m pages.scripts docs` runs them, in some seconds, and writes the page.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from examples import SCRIPTS

from umab._support.files import write_atomically

FOLDER = Path(__file__).parent.parent / "examples"
PAGE = Path("examples", "scripts.md")

_PAGE = """\
---
hide: [toc]
---

# Five short scripts

Each is one file of at most 40 lines, runs in seconds on a base install, and uses only the public API. The data are made
up, with a seed, so you see the same numbers. "At random" is what drawing every arm with the same probability costs on
average. "The best one alone" is the arm that cost least in all, which is known only afterwards; "the best at a time" is
the best of those that were there. In a checkout:

```sh
python examples/{first}.py
```

"""

_SCRIPT = """\
## {title}

```python title="examples/{name}.py"
{code}```

It prints:

```text
{printed}```
"""


def printed(name: str) -> str:
    """Run a script as a program, and return what it prints."""
    done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], capture_output=True, text=True, check=True)
    return done.stdout


def title(code: str) -> str:
    """Return the first line of the docstring, without its end."""
    return (ast.get_docstring(ast.parse(code)) or "").splitlines()[0].removesuffix(".")


def page() -> str:
    """Run all scripts, and return the page."""
    parts = [_PAGE.format(first=SCRIPTS[0])]
    for name in SCRIPTS:
        code = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        parts.append(_SCRIPT.format(title=title(code), name=name, code=code, printed=printed(name)))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def write(docs: Path) -> None:
    """Write the page."""
    write_atomically(docs / PAGE, page().encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
