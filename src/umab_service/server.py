"""The process around the application: its arguments, its first key, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from umab import Learner
from umab_service import demo, silence
from umab_service.app import Application
from umab_service.databases import opened
from umab_service.keys import ALL_KEYS, Keys, added, new_key
from umab_service.problems import Problem
from umab_service.protocol import Protocol
from umab_service.relay import Relay
from umab_service.service import Service
from umab_service.storage import DatabaseError, Storage

KEYS_EVERY = 1.0
"""How soon a key that another server has made or revoked is known here, in seconds."""

OTHER_FILES = 1000
"""How many files the process may open besides its connections: of the database, and of TLS that has just begun."""

logger = logging.getLogger("umab_service")


@dataclass(frozen=True)
class Options:
    """How to run the server."""

    host: str = "127.0.0.1"
    port: int = 8080
    database: str = "sqlite:///umab.db"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    retention: float | None = None
    """Delete closed decisions and events behind snapshots that are older than so many seconds; None keeps all."""
    proxies: str = ""
    """Addresses of proxies, with commas between them, that may say whom they pass on."""
    check: bool = True
    """Whether to check at the start that the log gives the last snapshots."""
    advertise: str = ""
    """The URL at which other servers on the same database reach this one."""
    connections: int = Protocol.most_connections
    """How many connections may be open at a time."""
    demo: bool = False
    """Whether to let a simulated world go on, which everybody on this machine may look at without a key."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(options: Options) -> None:
    """Run the server until it is told to stop."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.captureWarnings(True)
    if options.demo and not is_loopback(options.host):
        raise DatabaseError(f"a demonstration must listen on this machine only, but got the host {options.host!r}")
    if options.connections < 1:
        raise DatabaseError(f"a server must allow at least 1 connection, but got {options.connections}")
    _allow_files(options.connections)
    storage = opened(options.database)
    if storage.shared and not options.advertise and options.host in ("0.0.0.0", "::"):
        raise DatabaseError(
            f"a server that listens on all addresses must say with --advertise where other servers reach it, but only "
            f"the host {options.host!r} was given"
        )
    with storage.locked():
        first_key = ensure_key(storage, options.host, options.database)
        if first_key is not None and not options.demo:  # at once: whatever happens next, only its digest is kept
            print(f"the first admin key, which is shown only once: {first_key}", flush=True)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(options, storage, first_key))


def _allow_files(connections: int) -> None:
    """Let the process have so many connections besides its files, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the faster loop where there is one: Windows has none."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def ensure_key(storage: Storage, host: str, url: str) -> str | None:
    """Make the first admin key, if there is none; return its text, if it was made here."""
    storage.open()
    try:
        if _has_keys(storage):
            return None
        given = os.environ.get("UMAB_ADMIN_KEY")
        if given is None and not is_loopback(host):
            raise DatabaseError(
                f"a server that others can reach must have a key before it starts, but {storage.name!r} has none; "
                f"create one with: umab keys create --role admin --database {url}, or set UMAB_ADMIN_KEY"
            )
        text, key = new_key("admin", "", "the first key", time.time(), given)
        try:
            storage.write([added(key)])
        except DatabaseError:
            if not _has_keys(storage):
                raise
            return None  # a server that starts at the same time was quicker
        return None if given is not None else text
    finally:
        storage.close()


def _has_keys(storage: Storage) -> bool:
    """Whether a valid key is in the database."""
    with storage.reader() as reader:
        return len(Keys(reader.execute(ALL_KEYS).fetchall())) > 0


class _Server(uvicorn.Server):
    """A server that finishes when it is told to; the usual one ends by the signal itself, before it has closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, after the requests that are open."""
        loop = asyncio.get_running_loop()
        told = signal.SIGTERM, signal.SIGINT
        for each in told:
            loop.add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in told:
                loop.remove_signal_handler(each)


def _load_learners() -> None:
    """Load what all learners use, which takes its time: before there is a lease that could end meanwhile."""
    learner = Learner("recommended", ["a", "b"])
    learner.settle(learner.release(learner.select()), loss=1.0)


def _settle_memory() -> None:
    """Keep the search for garbage short: through all that is here to stay, it would stall requests for 50 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes one that is free."""
    if not 0 <= port <= 65535:
        raise DatabaseError(f"a port must be from 0 to 65535, but got {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise DatabaseError(f"the server cannot listen on {host}:{port}: {error.strerror or error}") from None


async def _run(options: Options, storage: Storage, first_key: str | None) -> None:
    with _listening(options.host, options.port) as listening:
        scheme = "https" if options.tls_certificate else "http"
        host = f"[{options.host}]" if ":" in options.host else options.host
        url = f"{scheme}://{host}:{listening.getsockname()[1]}"
        _load_learners()
        service = Service(storage, retention=options.retention)
        await service.start(check=options.check)
        _settle_memory()
        keys = Keys(await storage.soon(ALL_KEYS))
        relay = None if service.ownership is None else Relay(service.ownership, await service.secret("relay"))
        watching = [asyncio.create_task(silence.watch(service))]
        if storage.shared:
            watching.append(asyncio.create_task(_watch_keys(storage, keys)))
        try:
            app = Application(service, keys, tls=options.tls_certificate is not None, relay=relay)
            server = _Server(_configuration(options, app))
            try:
                server.config.load()
            except OSError as error:
                raise DatabaseError(f"the certificate {str(options.tls_certificate)!r} is of no use: {error}") from None
            if service.ownership is not None:
                await service.ownership.announce(options.advertise.rstrip("/") or url)
            _greet(options, storage, url, keys)
            if options.demo:
                print(
                    "open this address in a browser: no key is needed there; Ctrl-C stops the server and deletes its "
                    f"data\nrequests of your own to the API need a key: {first_key or 'that in UMAB_ADMIN_KEY'}",
                    flush=True,
                )
            async with demo.playing(app) if options.demo else contextlib.nullcontext():
                await server.serve(sockets=[listening])
        finally:
            for each in watching:
                each.cancel()
            await asyncio.wait(watching)
            failed = None
            try:
                await service.snapshot_all()
            except Problem as problem:
                failed = problem
            await service.stop()
            if relay is not None:
                await relay.close()
            if failed is not None:
                raise DatabaseError(
                    f"the server has stopped, but it could not store its learners: {failed.detail}; what was "
                    "acknowledged is in the log, and the next start reads it from there"
                )


async def _watch_keys(storage: Storage, keys: Keys) -> None:
    """Take in keys that other servers have made or revoked."""
    while True:
        await asyncio.sleep(KEYS_EVERY)
        with contextlib.suppress(DatabaseError):
            keys.update(await storage.soon(ALL_KEYS))


def _configuration(options: Options, app: Application) -> uvicorn.Config:
    class Limited(Protocol):
        most_connections = options.connections

    return uvicorn.Config(
        app,
        http=Limited,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        proxy_headers=bool(options.proxies),
        forwarded_allow_ips=options.proxies,
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
        lifespan="off",
        ws="none",
    )


def _greet(options: Options, storage: Storage, url: str, keys: Keys) -> None:
    """Say where the server is, and what whoever started it should know."""
    print(f"umab is serving {storage.name} on {url}", flush=True)
    given = os.environ.get("UMAB_ADMIN_KEY")
    if given is not None and keys.find(given) is None:
        print("UMAB_ADMIN_KEY is none of the keys of this database, and was not used", file=sys.stderr)
    if not is_loopback(options.host) and not options.tls_certificate:
        print("keys travel unencrypted: use --tls-certificate and --tls-key, or a proxy with TLS", file=sys.stderr)
    if storage.shared and not options.advertise:
        print(f"other servers are told to find this one at {url}; use --advertise to say otherwise", file=sys.stderr)
