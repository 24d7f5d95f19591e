"""`umab db`: looking after the database of the decision service."""

from __future__ import annotations

import argparse
import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from umab._support.display import counted
from umab._support.extras import extra
from umab._support.files import check_readable, put_in_place
from umab._support.progress import Progress
from umab.cli.options import Commands, command
from umab.cli.serve import add_database

if TYPE_CHECKING:
    from umab_service.storage import Storage


def add(commands: Commands) -> None:
    """Add the commands."""
    databases = commands.add_parser(
        "db",
        help="migrate, check, back up, restore and move the database of the decision service",
        description="Look after the database of the decision service. A backup is an SQLite file, whatever the "
        "database is; check and backup work while servers run.",
        epilog="example: umab db backup --database postgresql://umab@db/umab umab-backup.db",
    )
    actions = databases.add_subparsers(title="actions", required=True, metavar="ACTION")
    migrating = command(actions, "migrate", run_migrate, "bring the tables up to date", "umab db migrate")
    checking = command(
        actions, "check", run_check, "check that the log gives all learners and decisions", "umab db check"
    )
    saving = command(actions, "backup", run_backup, "copy everything into a file", "umab db backup umab-backup.db")
    saving.add_argument("file", type=Path, help="the file to make; it must not exist")
    restoring = command(
        actions, "restore", run_restore, "fill an empty database from a backup", "umab db restore umab-backup.db"
    )
    restoring.add_argument("file", type=Path, help="the backup")
    for each in (migrating, checking, saving, restoring):
        add_database(each)
    moving = command(
        actions,
        "move",
        run_move,
        "copy everything from one database into another, empty one, while no server runs",
        "umab db move --from sqlite:///umab.db --to postgresql://umab@db/umab",
    )
    moving.add_argument("--from", dest="source", required=True, metavar="URL", help="the database to copy")
    moving.add_argument("--to", dest="target", required=True, metavar="URL", help="an empty database")


@contextlib.contextmanager
def _opened(url: str, *, alone: bool, new: bool = False) -> Iterator[Storage]:
    """Open a database: alone, so that nobody else uses it, or only to read it, beside servers; perhaps a new one."""
    with extra("serve", "the decision service"):
        from umab_service.databases import opened
    storage = opened(url)
    if not new and (path := getattr(storage, "path", None)):  # of SQLite
        check_readable(path)
    with contextlib.ExitStack() as stack:
        if alone:
            stack.enter_context(storage.locked())
        storage.open(to_write=alone)
        stack.callback(storage.close)
        if alone and storage.n_servers():
            raise ValueError(
                f"no server must use the database, but {storage.n_servers()} use {storage.name!r}; stop them first"
            )
        yield storage


def run_migrate(options: argparse.Namespace) -> None:
    """Bring the tables up to date."""
    with _opened(options.database, alone=True, new=True) as storage:
        print(f"{storage.name} is of version {storage.version()}")


def run_check(options: argparse.Namespace) -> None:
    """Check everything against the log."""
    with _opened(options.database, alone=False) as storage:
        _check(storage)


def _check(storage: Storage) -> None:
    from umab_service import maintenance

    total = maintenance.n_rows(storage, "events")
    with Progress(total, "checking", unit="events") as progress:
        found = maintenance.check(storage, progress.advance)
    print(
        f"{storage.name} is in order: the log of {counted(found.experiments, 'experiment')}, with "
        f"{counted(found.events, 'event')}, gives all learners, {counted(found.snapshots, 'snapshot')} bit for bit, "
        f"and {counted(found.decisions, 'decision')}"
    )


def run_backup(options: argparse.Namespace) -> None:
    """Copy everything into a file."""
    if options.file.exists():
        raise ValueError(f"a backup must be a new file, but {str(options.file)!r} exists")
    with _opened(options.database, alone=False) as source, _new_file(options.file) as target:
        _copy(source, target)


def run_restore(options: argparse.Namespace) -> None:
    """Fill an empty database from a backup, which is only read."""
    with _opened(f"sqlite:///{options.file}", alone=False) as source:
        _fill(source, options.database)


def run_move(options: argparse.Namespace) -> None:
    """Copy everything from one database into another."""
    with _opened(options.source, alone=True) as source:
        _fill(source, options.target)


def _fill(source: Storage, url: str) -> None:
    """Copy everything into an empty database; one that is a new file gets its name when it is complete and checked."""
    from umab_service.databases import opened

    path = getattr(opened(url), "path", None)  # of SQLite
    if path is None or (path.exists() and path.stat().st_size):
        filling = _opened(url, alone=True, new=True)
    else:
        filling = _new_file(path)
    with filling as target:
        _copy(source, target)
        _check(target)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Storage]:
    """Make an SQLite database that gets its name once it is complete and on disk: what is killed before leaves none."""
    from umab_service.sqlite import SQLite, lock_of, log_of, name_locked

    name, path = str(path), path.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    target = SQLite(temporary)
    target.name = name
    with name_locked(path):
        try:
            if path.exists() and path.stat().st_size:
                raise ValueError(f"a database to copy into must be new, but {name!r} exists")
            if log_of(path).exists():
                raise ValueError(
                    f"a new database must have no write-ahead log, but there is one of another database: move "
                    f"{str(log_of(path))!r} away first"
                )
            target.open()
            try:
                target.begin_copy()
                yield target
                target.make_whole()
            finally:
                target.close()
            put_in_place(temporary, path)
        finally:
            for each in ("", "-wal", "-shm"):
                temporary.with_name(temporary.name + each).unlink(missing_ok=True)
            lock_of(path).unlink(missing_ok=True)  # a server that comes now locks the database, too


def _copy(source: Storage, target: Storage) -> None:
    from umab_service import maintenance

    total = maintenance.n_rows(source, *maintenance.TABLES)
    with Progress(total, "copying", unit="rows") as progress:
        counts = maintenance.copy(source, target, progress.advance)
    print(
        f"{target.name} has all of {source.name}: {counted(counts['experiments'], 'experiment')}, "
        f"{counted(counts['events'], 'event')}, {counted(counts['decisions'], 'decision')} and "
        f"{counted(counts['keys'], 'key')}"
    )
