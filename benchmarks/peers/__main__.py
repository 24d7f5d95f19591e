"""Measure umab and its peers, print the page, and write it to docs/peers.md and, in short, to the README."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import umab
from benchmarks.pages import DOCS, machine
from benchmarks.peers import readme
from benchmarks.peers.environments import FOLDER, PEERS, NotInstalled, constants, interpreter
from benchmarks.peers.measure import (
    Child,
    Failed,
    Robustness,
    Speed,
    Tables,
    counterpart,
    online_speed,
    our_robustness,
    robustness,
    simulation_speed,
)
from benchmarks.peers.page import Peer, Results, holds, page
from umab._support.progress import Progress
from umab.algorithms.base import Policy

PAGE = DOCS / "peers.md"
OURS = FOLDER / "ours.py"


def look_at(name: str) -> tuple[Peer, list[str]]:
    """Install a peer if necessary; return its description and the names of its policies."""
    known = constants(FOLDER / f"{name}.py")
    shown = "NumPy" if name == "numpy_loop" else known["REQUIREMENTS"][0].split("==")[0]
    peer = Peer(shown, known["REQUIREMENTS"], {}, known["LACKS"])
    try:
        with Child(interpreter(name), FOLDER / f"{name}.py") as child:
            about = child.ask("about")
    except (NotInstalled, Failed) as failure:
        return peer._replace(failure=str(failure)), []
    return peer._replace(versions=about["versions"]), about["policies"]


def our_policies() -> list[Policy]:
    """Return all policies that learn from the loss of one arm, the recommended one first."""
    policies = [umab.policy(name) for name in umab.policies()]
    return [policy for policy in policies if not policy.full_information]


def speeds(peers: dict[str, tuple[Peer, list[str]]], tables: Tables, bar: Progress) -> tuple[list[Speed], list[Speed]]:
    """Measure one after the other, so that nothing else runs at the same time."""
    simulated, online = [], []
    with Child(sys.executable, OURS) as ours:
        for policy in ours.ask("about")["simulations"]:
            simulated.append(simulation_speed("umab", ours, policy, ours, "exp3", tables))
        for policy in ours.ask("about")["policies"]:
            online.append(online_speed("umab", ours, policy, ours, "exp3", tables))
        for name, (peer, policies) in peers.items():
            for policy in policies:
                with Child(interpreter(name), FOLDER / f"{name}.py") as child:
                    against = counterpart(policy)
                    simulated.append(simulation_speed(peer.name, child, policy, ours, against, tables))
                with Child(interpreter(name), FOLDER / f"{name}.py") as child:
                    online.append(online_speed(peer.name, child, policy, ours, against, tables))
                bar.advance(1)
    return simulated, online


def robust(peers: dict[str, tuple[Peer, list[str]]], tables: Tables, bar: Progress) -> list[Robustness]:
    """Measure on all cores, since nothing is timed here."""

    def of_a_peer(name: str, shown: str, policy: str) -> Robustness:
        refusals = constants(FOLDER / f"{name}.py").get("REFUSALS", ())
        with Child(interpreter(name), FOLDER / f"{name}.py") as child:
            row = robustness(shown, child, policy, tables, refusals)
        bar.advance(1)
        return row

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        theirs = [
            pool.submit(of_a_peer, name, peer.name, policy)
            for name, (peer, policies) in peers.items()
            for policy in policies
        ]
        ours = [our_robustness(policy) for policy in our_policies()]
        return [*ours, *(each.result() for each in theirs)]


def main() -> int:
    """Measure everything and write the page; return 1 if the recommended policy does not hold."""
    with Progress(len(PEERS), "installing") as bar:
        found = {}
        for name in PEERS:
            found[name] = look_at(name)
            bar.advance(1)
    n_policies = sum(len(policies) for _, policies in found.values())
    with tempfile.TemporaryDirectory() as folder, Progress(2 * n_policies, "measuring") as bar:
        tables = Tables(Path(folder))
        simulated, online = speeds(found, tables, bar)
        rows = robust(found, tables, bar)
    peers = [peer for peer, _ in found.values()]
    results = Results(machine(), peers, simulated, online, rows, umab.recommended().name)
    text = page(results)
    PAGE.write_text(text, encoding="utf-8")
    readme.write(text, results.recommended)
    print(text)
    return 0 if holds(results) else 1


if __name__ == "__main__":
    sys.exit(main())
