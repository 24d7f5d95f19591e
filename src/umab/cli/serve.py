"""`umab serve` and `umab keys`."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from pathlib import Path

from umab._support.extras import extra
from umab._support.files import check_readable
from umab.cli.options import Commands, command
from umab.cli.texts import as_table

DATABASE = "sqlite:///umab.db"


def add(commands: Commands) -> None:
    """Add the commands."""
    serving = command(
        commands,
        "serve",
        run_serve,
        "run the decision service: experiments behind an HTTP API, with a durable log",
        "umab serve --port 8080 --database sqlite:///umab.db",
    )
    serving.add_argument(
        "--host",
        default=os.environ.get("UMAB_HOST", "127.0.0.1"),
        help="the address to listen on (default: $UMAB_HOST, or 127.0.0.1, which only this machine can reach)",
    )
    serving.add_argument(
        "--port",
        type=int,
        default=os.environ.get("UMAB_PORT", "8080"),
        help="the port to listen on (default: $UMAB_PORT, or 8080)",
    )
    add_database(serving)
    serving.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve over TLS with this certificate")
    serving.add_argument("--tls-key", type=Path, metavar="FILE", help="the key of the certificate")
    serving.add_argument(
        "--retention",
        metavar="DURATION",
        help="delete closed decisions and old events after this time, such as P90D (default: keep all)",
    )
    serving.add_argument(
        "--proxy",
        default="",
        metavar="ADDRESS",
        help="the address of a proxy, or several with commas between them, whose X-Forwarded headers are trusted",
    )
    serving.add_argument(
        "--connections",
        type=int,
        default=1000,
        metavar="N",
        help="how many connections may be open at a time; more are answered with 503 and closed (default: %(default)s)",
    )
    serving.add_argument(
        "--demo",
        action="store_true",
        help="show a simulated world with live traffic on the dashboard, without a key, in a database that is deleted "
        "afterwards; only for this machine",
    )
    serving.add_argument(
        "--advertise",
        default=os.environ.get("UMAB_ADVERTISE", ""),
        metavar="URL",
        help="where other servers on the same PostgreSQL database reach this one (default: $UMAB_ADVERTISE, or the "
        "address that it listens on)",
    )
    serving.add_argument("--no-check", action="store_true", help="do not check the last snapshots against the log")

    keys = commands.add_parser(
        "keys",
        help="create, list and revoke the keys of the decision service",
        description="Create, list and revoke the keys of the decision service. While a server runs, only it can write: "
        "pass --server, and an admin key in the environment variable UMAB_KEY.",
        epilog="example: umab keys create --role decide --prefix shop- --note 'the web shop'",
    )
    actions = keys.add_subparsers(title="actions", required=True, metavar="ACTION")
    creating = command(actions, "create", run_create, "create a key, and print it once", "umab keys create --role read")
    creating.add_argument("--role", choices=("read", "decide", "admin"), required=True, help="what it may do")
    creating.add_argument("--prefix", default="", help="only for experiments whose names begin with this")
    creating.add_argument("--note", default="", help="what it is for")
    listing = command(actions, "list", run_list, "list the keys, without their secrets", "umab keys list")
    revoking = command(actions, "revoke", run_revoke, "revoke a key", "umab keys revoke 1f2e3d4c5b6a7988")
    revoking.add_argument("id", help="the id of the key, as umab keys list shows it")
    for each in (creating, listing, revoking):
        add_database(each)
        each.add_argument("--server", metavar="URL", help="ask this server, with the admin key in UMAB_KEY")


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which database to use."""
    parser.add_argument(
        "--database",
        default=os.environ.get("UMAB_DATABASE", DATABASE),
        metavar="URL",
        help=f"the database (default: $UMAB_DATABASE, or {DATABASE})",
    )


def run_serve(options: argparse.Namespace) -> None:
    """Serve until told to stop."""
    with extra("serve", "the decision service"):
        from umab_service.durations import seconds_of
        from umab_service.server import Options, serve
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise ValueError("--tls-certificate and --tls-key must be given together")
    if options.tls_certificate is not None:
        check_readable(options.tls_certificate)
        check_readable(options.tls_key)
    with contextlib.ExitStack() as stack:
        database = options.database
        if options.demo:
            database = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory(prefix='umab-demo-'))}/umab.db"
        serve(
            Options(
                host=options.host,
                port=options.port,
                database=database,
                tls_certificate=options.tls_certificate,
                tls_key=options.tls_key,
                retention=None if options.retention is None else seconds_of(options.retention),
                proxies=options.proxy,
                check=not options.no_check,
                advertise=options.advertise,
                connections=options.connections,
                demo=options.demo,
            )
        )


def run_create(options: argparse.Namespace) -> None:
    """Create a key and print it."""
    with extra("serve", "the decision service"):
        from umab_service.administer import Keyring
    with Keyring.open(options.database, options.server) as keyring:
        print(keyring.create(options.role, options.prefix, options.note))


def run_list(options: argparse.Namespace) -> None:
    """List the keys."""
    with extra("serve", "the decision service"):
        from umab_service.administer import Keyring
    with Keyring.open(options.database, options.server) as keyring:
        rows = [
            (key["id"], key["role"], key["prefix"], key["note"], "revoked" if key["revoked"] else "")
            for key in keyring.all()
        ]
    print(as_table([("id", "role", "prefix", "note", ""), *rows], line=True))


def run_revoke(options: argparse.Namespace) -> None:
    """Revoke a key."""
    with extra("serve", "the decision service"):
        from umab_service.administer import Keyring
    with Keyring.open(options.database, options.server) as keyring:
        keyring.revoke(options.id)
    print(f"{options.id} is revoked")
