"""What the pages about the decision service show is what a real server does: all their commands, in their order.

A block of the language bash is run in a shell that a page has for itself. A block of JSON or text after it is what it
prints. A program with a title is a file of this name, for the commands after it. A page with PostgreSQL gets one
of its own; where there is none, blocks with it are left out, and so is a page that begins with it.
`python tests/test_serve_docs.py` runs all pages, and puts what was printed into them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")

from helpers import PATIENCE
from postgres import NEEDED as NEEDS_POSTGRES
from postgres import Postgres, postgres, programs
from service_process import Server, free_port, running

ROOT = Path(__file__).parent.parent
FENCE = re.compile(
    r"^```(bash|json|text|(?:python|javascript)(?= title))(?: title=\"([^\"]*)\")?\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
PAGES = [
    str(each.relative_to(ROOT))
    for each in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if "```bash" in each.read_text(encoding="utf-8")
]
POSTGRES = re.compile(r"\bpostgresql://(\w+)@127\.0\.0\.1/(\w+)")
"""A database as the pages name it."""
NEEDED = [each for each in ("bash", "curl", "openssl", "sqlite3") if shutil.which(each) is None]

KEY, TIME = "umab_1f2e3d4c5b6a7988_rR6yE0Yk3uXqPz8wVb1sTn5mLd7hJf2cGa9iKo4xQeU", "2026-01-31T12:00:00Z"
"""What stands on the pages for the first key, and for every time."""
IDS = (KEY[5:21], "2a3b4c5d6e7f8091", "3b4c5d6e7f8091a2", "4c5d6e7f8091a2b3")
"""What stands on the pages for the first ids of keys and of learners, in this order."""
TIMES = ((r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", TIME), (r"\b\d{10}\.\d+\b", "1769860800.0"))
ONE_KEY = re.compile(r"\bumab_([0-9a-f]{16})_[\w-]{43}")
ONE_ID = re.compile(r"(?<![\w.])[0-9a-f]{16}(?![\w.])")
STATUS = re.compile(r"^HTTP (\d+)\n", re.MULTILINE)
TRIED_AGAIN = re.compile(r"^curl: \(22\) .*\n", re.MULTILINE)
"""What curl says about each answer that it does not take; how many there are is a matter of time."""
SETUP = """curl() { command curl --silent --show-error --write-out '%{stderr}HTTP %{http_code}\\n' "$@"; }"""


class Printed(NamedTuple):
    """What a block of commands has printed, with examples in place of keys and times."""

    text: str
    status: int | None
    """That of the last answer of a server."""
    exit_code: int


class Session:
    """A shell, and the servers that are started from it, in a folder of their own."""

    def __init__(self, folder: Path, database: Postgres | None = None) -> None:
        self.folder, self.database = folder, database
        self.ports: dict[str, str] = {}
        self.examples: dict[str, str] = {}
        self.servers: dict[str, subprocess.Popen[str]] = {}
        bin_folder = Path(sys.executable).parent
        self.environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
        for name in [name for name in self.environment if name.startswith("UMAB_")]:
            del self.environment[name]
        self.shell = subprocess.Popen(
            ["bash"], cwd=folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell(SETUP)

    def run(self, block: str) -> Printed:
        """Run a block of commands, or start a server."""
        if block.startswith("# stop the server"):
            for each in list(self.servers):
                self.stop(each)
        elif block.startswith("# kill -9 the first server"):
            self.stop(next(iter(self.servers)), signal.SIGKILL)
        given = POSTGRES.sub(self._real, block)
        given = re.sub(
            r"\b(127\.0\.0\.1|localhost):(8\d\d\d)\b", lambda found: f"{found[1]}:{self._port(found[2])}", given
        )
        for real, example in sorted(self.examples.items(), key=lambda each: -len(each[0])):  # keys have ids in them
            given = given.replace(example, real)
        command = re.search(r"^[^#\n]*\bumab serve\b.*$", given, re.MULTILINE)
        printed, status, exit_code = self._serve(command[0]) if command else self._tell(given)
        return Printed(self._shown(printed), status, exit_code)

    def _shown(self, printed: str) -> str:
        """Return what was printed, with examples in place of ports, keys, ids and times."""
        for documented, real in self.ports.items():
            printed = printed.replace(f":{real}", f":{documented}")
        if self.database is not None:
            printed = printed.replace(str(self.database.folder), "127.0.0.1")
        for pattern, example in TIMES:
            printed = re.sub(pattern, example, printed)
        for found in ONE_KEY.finditer(printed):
            self.examples.setdefault(found[0], KEY.replace(IDS[0], self._example(found[1])))
        printed = ONE_KEY.sub(lambda found: self.examples[found[0]], printed)
        return ONE_ID.sub(lambda found: found[0] if found[0] in IDS else self._example(found[0]), printed)

    def _example(self, identity: str) -> str:
        n_known = sum(real.isalnum() for real in self.examples)
        return self.examples.setdefault(identity, IDS[min(n_known, len(IDS) - 1)])

    def _real(self, found: re.Match[str]) -> str:
        assert self.database is not None, f"{found[0]} needs a PostgreSQL"
        return f"postgresql://{found[1]}@/{found[2]}?host={quote(str(self.database.folder), safe='')}"

    def _port(self, documented: str) -> str:
        return self.ports.setdefault(documented, str(free_port()))

    def _tell(self, commands: str) -> tuple[str, int | None, int]:
        """Run commands in the shell; return what they print, the status of the last answer, and their exit code."""
        assert self.shell.stdin is not None and self.shell.stdout is not None
        self.shell.stdin.write(f"{{\n{commands}\n}} 2> .errors\nprintf '\\n<done> %s\\n' $?\n")
        self.shell.stdin.flush()
        lines = []
        while not (line := self.shell.stdout.readline()).startswith("<done>"):
            assert line, f"the shell has ended: {commands}"
            lines.append(line)
        said = (self.folder / ".errors").read_text()
        statuses = STATUS.findall(said)
        printed = "".join(lines)[:-1] + TRIED_AGAIN.sub("", STATUS.sub("", said))
        return printed, int(statuses[-1]) if statuses else None, int(line.split()[1])

    def _serve(self, command: str) -> tuple[str, None, int]:
        """Start a server, in place of one on the same file or port; return what it prints until it is ready or ends."""
        words = shlex.split(command, comments=True)
        given = dict(itertools.pairwise(words))
        documented, database = given.get("--port", "8080"), given.get("--database", "sqlite:///umab.db")
        place = f"{database} {documented}" if database.startswith("postgresql:") else database
        self.stop(place)
        command = re.sub(r" --port \d+", "", command)
        command = command.replace("umab serve", f"umab serve --port {self._port(documented)}")
        server = subprocess.Popen(
            ["bash", "-c", f"exec env {command}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.servers[place] = server
        assert server.stdout is not None
        printed = ""
        for line in server.stdout:
            printed += line
            if found := re.search(r"^umab is serving .* on (https?):", line):
                url, trusting = (
                    f"{found[1]}://127.0.0.1:{self.ports[documented]}/readyz",
                    ssl._create_unverified_context(),
                )
                urllib.request.urlopen(url, timeout=PATIENCE, context=trusting).close()  # it takes signals, too
                return printed, None, 0
        del self.servers[place]
        server.stdout.close()
        return printed, None, server.wait(timeout=PATIENCE)

    def stop(self, place: str, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server on this database, as Ctrl-C does, if there is one."""
        server = self.servers.pop(place, None)
        if server is not None:
            server.send_signal(how)
            assert server.wait(timeout=PATIENCE) == (-how if how == signal.SIGKILL else 0)
            assert server.stdout is not None
            server.stdout.close()

    def close(self) -> None:
        for place in list(self.servers):
            self.stop(place)
        assert self.shell.stdin is not None and self.shell.stdout is not None
        self.shell.stdin.close()
        self.shell.wait(timeout=PATIENCE)
        self.shell.stdout.close()


def begins_with_postgres(page: str) -> bool:
    return bool(POSTGRES.search(next(FENCE.finditer(page))[3]))


@contextlib.contextmanager
def a_postgres(page: str) -> Iterator[Postgres | None]:
    """Run a PostgreSQL for a page that names one, with a superuser called postgres and no user called umab."""
    if programs() is None or not POSTGRES.search(page):
        yield None
        return
    import psycopg

    with postgres() as found:
        base = f"@/postgres?host={quote(str(found.folder), safe='')}"
        for user, command in (
            ("umab", "CREATE ROLE postgres SUPERUSER LOGIN"),
            ("postgres", "ALTER ROLE umab RENAME TO me"),
        ):
            with psycopg.connect(f"postgresql://{user}{base}", autocommit=True) as connection:
                connection.execute(command)
        yield found


@contextlib.contextmanager
def session(page: str) -> Iterator[Session]:
    """A session for a page; one that starts no server itself goes on where the first page has stopped."""
    with tempfile.TemporaryDirectory() as folder, a_postgres(page) as database:
        found = Session(Path(folder), database)
        try:
            if "umab serve" not in next(FENCE.finditer(page))[3] and not begins_with_postgres(page):
                found.run("umab serve")
                found.run(f"export UMAB_KEY={KEY}")
                body = '{"name": "search", "arms": ["small", "large", "remote"], "seed": 7}'
                post = f"curl http://127.0.0.1:8080/v1/experiments -H \"X-API-Key: $UMAB_KEY\" -d '{body}'"
                assert found.run(post).status == 201
            yield found
        finally:
            found.close()


class Shown(NamedTuple):
    """A block of commands on a page, and the block after it, if that is what they print."""

    commands: str
    output: re.Match[str] | None


def shown(page: str) -> Iterator[Shown]:
    """Yield the blocks of commands of a page."""
    found, files = list(FENCE.finditer(page)), ""
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block[1] == "bash":
            follows = (
                after is not None and after[1] in ("json", "text") and not page[block.end() : after.start()].strip()
            )
            yield Shown(files + block[3], after if follows else None)
            files = ""
        elif block[1] in ("python", "javascript"):
            files += f"cat > {block[2]} <<'END OF FILE'\n{block[3]}END OF FILE\n"


def answer_of(printed: Printed) -> str:
    """Return the title of an answer: its status."""
    return "" if printed.status is None else f"{printed.status} {HTTPStatus(printed.status).phrase}"


def values(text: str) -> list[Any]:
    """Return the JSON in a text: one value, or one on each line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, but for digits of numbers that a page leaves out."""
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-12)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@pytest.mark.skipif(bool(NEEDED), reason=f"the pages need {', '.join(NEEDED)}")
@pytest.mark.parametrize("name", PAGES)
def test_a_server_does_what_the_page_shows(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    if begins_with_postgres(page) and programs() is None and not NEEDS_POSTGRES:
        pytest.skip("PostgreSQL is not here")
    with session(page) as running:
        for commands, output in shown(page):
            if "\nnode " in commands and shutil.which("node") is None:
                continue
            if POSTGRES.search(commands) and running.database is None and not NEEDS_POSTGRES:
                continue
            printed = running.run(commands)
            if output is None:
                assert printed.exit_code == 0 and (printed.status or 200) < 400, (commands, printed)
                continue
            if output[1] == "json":
                assert answer_of(printed) == (output[2] or ""), (commands, printed)
                assert alike(values(printed.text), values(output[3])), (commands, printed)
            else:
                assert printed.text.rstrip("\n") == output[3].rstrip("\n"), commands


def test_answers_are_shown_only_after_commands() -> None:
    """Otherwise nobody would compare them with anything."""
    expected = {f"docs/serve/{name}.md" for name in ("index", "availability", "operations", "security")}
    assert expected <= set(PAGES)
    for name in PAGES:
        page = (ROOT / name).read_text(encoding="utf-8")
        assert len(list(shown(page))) == page.count("```bash"), f"{name}: a block that is indented would not be run"
        compared = [output.start() for _, output in shown(page) if output is not None]
        for block in FENCE.finditer(page):
            assert block[1] != "json" or block.start() in compared, block[0]


def test_wrong_pages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {
        "status": "```bash\nfalse\n```\n",
        "text": "```bash\necho 1\n```\n\n```text\n2\n```\n",
        "json": "```bash\necho 1.0001\n```\n\n```json\n1\n```\n",
        "title": '```bash\necho 1\n```\n\n```json title="201 Created"\n1\n```\n',
    }
    this = sys.modules[__name__]
    monkeypatch.setattr(this, "ROOT", tmp_path)
    monkeypatch.setattr(this, "session", lambda page: contextlib.closing(Session(tmp_path)))
    (tmp_path / "right").write_text("```bash\necho 1.000001\n```\n\n```json\n1\n```\n")
    test_a_server_does_what_the_page_shows("right")
    for name, page in pages.items():
        (tmp_path / name).write_text(page)
        with pytest.raises(AssertionError):
            test_a_server_does_what_the_page_shows(name)


def test_a_database_with_damaged_pages_is_refused_in_one_line(tmp_path: Path) -> None:
    """As the page on guarantees says."""
    path = tmp_path / "umab.db"
    with running(path) as server:
        assert server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        assert server.stop() == 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    content = path.read_bytes()
    path.write_bytes(content[: (page - 1) * size] + bytes(b"x" * size) + content[page * size :])
    with pytest.raises(RuntimeError, match=r"^umab: the database .* cannot be read: .* malformed; restore a backup\n$"):
        Server(path).start()


def test_the_files_that_the_pages_name_are_there() -> None:
    for page in (ROOT / "docs" / "serve").glob("*.md"):
        for name in re.findall(r"`(test_\w+\.py)`", page.read_text(encoding="utf-8")):
            assert (ROOT / "tests" / name).is_file(), f"{page}: {name}"


def written(value: Any, indent: str = "") -> str:
    """Return a value as JSON that is short: on one line if it fits, with six digits of a number."""
    if isinstance(value, float):
        return json.dumps(_rounded(value))
    short = json.dumps(_rounded(value), ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(short) < 100:
        return short
    inner = indent + "  "
    if isinstance(value, dict):
        rows = [f"{json.dumps(name)}: {written(each, inner)}" for name, each in value.items()]
    else:
        rows = [written(each, inner) for each in value]
    inside = f",\n{inner}".join(rows)
    return (
        f"{'{' if isinstance(value, dict) else '['}\n{inner}{inside}\n{indent}{'}' if isinstance(value, dict) else ']'}"
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < 1e6 else value
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def rewritten(page: str) -> str:
    """Return a page with what its commands print now."""
    made, at = "", 0
    with session(page) as running:
        for commands, output in shown(page):
            printed = running.run(commands)
            if output is None:
                continue
            text = printed.text if output[1] == "text" else "\n".join(map(written, values(printed.text)))
            title = f' title="{answer_of(printed)}"' if output[1] == "json" and printed.status is not None else ""
            made += f"{page[at : output.start()]}```{output[1]}{title}\n{text.rstrip()}\n```"
            at = output.end()
    return made + page[at:]


if __name__ == "__main__":
    for each in PAGES:
        path = ROOT / each
        path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
