"""Rows of tables about several servers on one PostgreSQL, each from the constants that the server has."""

from __future__ import annotations

from umab_service import ownership, peers, postgres, problems, relay, server
from umab_service.leases import LEASE_SECONDS

OWN_CONNECTIONS = 3
"""What a server holds besides those that read: one for commits, one for short questions, one for its lease."""


def connections() -> list[tuple[str, str]]:
    """Return what a server needs connections for, and how many."""
    return [
        ("commits", "1"),
        ("owners, keys, and decisions that are not in memory", "1"),
        ("renewing the lease", "1"),
        ("reading the log, reports, exports and the dashboard", f"1 to {postgres.MOST_READERS}, as needed"),
        ("**a server in all**", f"**up to {OWN_CONNECTIONS + postgres.MOST_READERS}**"),
    ]


def times() -> list[tuple[str, str]]:
    """Return how long what takes when experiments go from one server to another."""
    moves = ownership.HANDED_OVER_AT_ONCE
    retry = problems.unavailable("").headers["Retry-After"]
    return [
        ("the lease of a server", f"{LEASE_SECONDS:g} s, or as `UMAB_LEASE` says"),
        ("it is renewed", f"every {ownership.RENEW_EVERY:g} s"),
        ("a server looks for experiments that nobody owns", f"every {ownership.RENEW_EVERY:g} s, and at each request"),
        ("the owner of an experiment is looked for, before a 503", f"{relay.TRIES_SECONDS:g} s"),
        ("connecting to another server", f"{peers.CONNECT_SECONDS:g} s at most"),
        ("waiting for the answer of another server", f"{peers.RELAY_SECONDS:g} s at most"),
        ("`Retry-After` of a 503", f"{retry} s"),
        ("experiments that one server hands over to others at a time", f"{moves} at most"),
        ("a key that was made or revoked is known to all servers", f"after {server.KEYS_EVERY:g} s"),
        ("a report waits for a connection to the database", f"{postgres.POOL_SECONDS:g} s at most"),
        ("a transaction that a server leaves lying is ended by the database", f"after {LEASE_SECONDS / 2:g} s"),
    ]
