"""`umab db`: looking after the database of the decision service."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from umab._support.display import counted
from umab._support.extras import extra
from umab._support.files import check_readable
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
    with _opened(options.database, alone=False) as source:
        try:
            with _opened(f"sqlite:///{options.file}", alone=True, new=True) as target:
                _copy(source, target)
        except BaseException:
            for each in ("", "-wal", "-shm", ".lock"):
                options.file.with_name(options.file.name + each).unlink(missing_ok=True)
            raise
    options.file.with_name(options.file.name + ".lock").unlink(missing_ok=True)


def run_restore(options: argparse.Namespace) -> None:
    """Fill an empty database from a backup."""
    _move(f"sqlite:///{options.file}", options.database)


def run_move(options: argparse.Namespace) -> None:
    """Copy everything from one database into another."""
    _move(options.source, options.target)


def _move(source_url: str, target_url: str) -> None:
    with _opened(source_url, alone=True) as source, _opened(target_url, alone=True, new=True) as target:
        _copy(source, target)
        _check(target)


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
