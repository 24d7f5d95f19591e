"""A real PostgreSQL in a temporary folder, run by an unprivileged user."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

NEEDED = os.environ.get("UMAB_POSTGRES_NEEDED") == "1"


@functools.cache
def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, if they are here."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), *([Path(p)] if (p := shutil.which("initdb")) else [])]
    return found[-1].parent if found else None


def needs_postgres() -> pytest.MarkDecorator:
    """Return the mark of tests that need PostgreSQL."""
    return pytest.mark.skipif(
        programs() is None and not NEEDED, reason="PostgreSQL is not here; Debian's package is postgresql"
    )


class Postgres:
    """A PostgreSQL of one's own, which can be stopped, killed and started again."""

    def __init__(self, folder: Path, **settings: str) -> None:
        bin_ = programs()
        assert bin_ is not None, "PostgreSQL must be installed, since UMAB_POSTGRES_NEEDED=1"
        self._bin, self.folder, self.data = bin_, folder, folder / "data"
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self._settings = {"fsync": "on", "listen_addresses": "", "unix_socket_directories": str(folder), **settings}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(folder, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", str(self.data), "-U", "umab", "--auth=trust", "--no-sync")
        self.start()

    def _as_user(self) -> list[str]:
        """Return what runs a command as a user who may run PostgreSQL, which root may not."""
        return (
            ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"] if os.geteuid() == 0 else []
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._as_user(), str(self._bin / program), *arguments], capture_output=True, text=True, cwd=self.folder
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        options = " ".join(f"-c {name}={value}" for name, value in self._settings.items())
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def kill(self) -> None:
        """Kill it at once, as a machine that loses power would."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        while (self.data / "postmaster.pid").exists():
            time.sleep(0.02)

    def url(self, schema: str = "public") -> str:
        """Return the URL of a schema, which is made if it is not there."""
        import psycopg

        base = f"postgresql://umab@/postgres?host={quote(str(self.folder), safe='')}"
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        return f"{base}&options={quote(f'-c search_path={schema}')}"

    def urls(self) -> Callable[[Path], str]:
        """Return what gives each folder a schema of its own, in place of `service_app.url_of`."""
        return functools.cache(lambda folder: self.url(f"t{uuid.uuid4().hex}"))


@contextlib.contextmanager
def postgres(**settings: str) -> Iterator[Postgres]:
    """Run a PostgreSQL of one's own, in a folder that others can enter."""
    folder = Path(tempfile.mkdtemp(prefix="umab-pg-", dir="/tmp"))
    folder.chmod(0o755)
    found = Postgres(folder, **settings)
    try:
        yield found
    finally:
        with contextlib.suppress(AssertionError):
            found.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
