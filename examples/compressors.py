"""Compressors under changing link speed: compress hard, compress quickly, or not at all?"""

from __future__ import annotations

import bz2
import json
import lzma
import time
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import brotli
import lz4.frame
import numpy as np
import zstandard

from examples.command import main
from examples.demonstration import Demonstration, Record

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "zlib": lambda message: zlib.compress(message, level=6),
    "bz2": lambda message: bz2.compress(message, compresslevel=9),
    "lzma": lambda message: lzma.compress(message, preset=6),
    "zstd": lambda message: zstandard.compress(message, level=3),
    "lz4": lambda message: lz4.frame.compress(message, compression_level=0),
    "brotli": lambda message: brotli.compress(message, quality=5),
    "none": lambda message: message,
}
"""Each level is the default of its library, except for brotli: its default is 11, for files compressed once."""

LINKS = {"100 kB/s": 1e5, "10 MB/s": 1e7, "1 GB/s": 1e9}
"""Bytes per second."""

PHASES = ("10 MB/s", "1 GB/s", "100 kB/s", "10 MB/s", "100 kB/s", "1 GB/s")
ROUNDS_PER_PHASE = 250

SMALLEST, LARGEST = 4_000, 64_000
"""The size of a message in bytes; small messages are more frequent."""


class Message(NamedTuple):
    """The message that is sent in a round."""

    kind: str
    content: bytes


class Sender:
    """Messages of a few kinds, all generated from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = np.random.default_rng([seed, 0])
        self._stock = {kind: make(random) for kind, make in KINDS.items()}
        for compress in COMPRESSORS.values():
            compress(b"the first call may set something up, which is not the cost of a message")

    def message(self, t: int) -> Message:
        """Return the message of round `t`, which is cut from the stock of its kind."""
        random = np.random.default_rng([self._seed, 1, t])
        kind = str(random.choice(list(KINDS)))
        size = int(np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST))))
        start = int(random.integers(len(self._stock[kind]) - size))
        return Message(kind, self._stock[kind][start : start + size])


STOCK = 4 * LARGEST
"""How many bytes of each kind there are to cut messages from."""

_WORDS = (
    "request served cache missed hit user session timed out retry upstream connected closed queue worker started "
    "finished order item paid shipped returned refused stored loaded checked signed"
).split()


def _until_enough(lines: Iterator[str]) -> bytes:
    made, size = [], 0
    while size < STOCK:
        made.append(next(lines))
        size += len(made[-1])
    return "".join(made).encode()


def _log(random: np.random.Generator) -> bytes:
    def lines() -> Iterator[str]:
        seconds = 1.7e9
        while True:
            seconds += random.exponential(0.05)
            level = random.choice(["INFO", "WARN", "ERROR"], p=[0.9, 0.08, 0.02])
            words = " ".join(random.choice(_WORDS, 3))
            yield f"{seconds:.3f} {level} host-{random.integers(20):02d} {words} id={random.integers(2**40):010x}\n"

    return _until_enough(lines())


def _records(random: np.random.Generator) -> bytes:
    def lines() -> Iterator[str]:
        while True:
            record = {
                "id": int(random.integers(10**9)),
                "name": " ".join(random.choice(_WORDS, 2)),
                "price": round(float(random.lognormal(3.0, 1.0)), 2),
                "tags": random.choice(_WORDS, 3).tolist(),
                "active": bool(random.integers(2)),
            }
            yield json.dumps(record) + "\n"

    return _until_enough(lines())


def _web_page(random: np.random.Generator) -> bytes:
    def rows() -> Iterator[str]:
        while True:
            link = f'<a class="item" href="/items/{random.integers(10**5)}">{" ".join(random.choice(_WORDS, 2))}</a>'
            yield f'<tr><td class="name">{link}</td><td class="price">{random.lognormal(3.0, 1.0):.2f}</td></tr>\n'

    return _until_enough(rows())


def _counters(random: np.random.Generator) -> bytes:
    return random.poisson(0.05, STOCK // 4).astype("<i4").tobytes()  # almost all of them zero


def _samples(random: np.random.Generator) -> bytes:
    return np.cumsum(random.integers(-20, 21, STOCK // 2)).astype("<i2").tobytes()  # a sensor that wanders


def _picture(random: np.random.Generator) -> bytes:
    return random.bytes(STOCK)  # already compressed, so it looks like noise to a compressor


KINDS: dict[str, Callable[[np.random.Generator], bytes]] = {
    "log lines": _log,
    "JSON records": _records,
    "a web page": _web_page,
    "counters": _counters,
    "samples": _samples,
    "a picture": _picture,
}


def link(sender: Sender, t: int) -> str:
    """Return the name of the link in round `t`."""
    return PHASES[t // ROUNDS_PER_PHASE % len(PHASES)]


def measure(sender: Sender, t: int, arm: str) -> float:
    """Return the milliseconds until the message is sent: compressing is measured, the link is computed."""
    content = sender.message(t).content
    start = time.perf_counter()
    sent = COMPRESSORS[arm](content)
    seconds = time.perf_counter() - start
    return 1e3 * (seconds + len(sent) / LINKS[link(sender, t)])


def remarks(record: Record) -> str:
    """Say which link decides the total."""
    losses = record.losses
    best = losses.table[:, int(losses.table.sum(axis=0).argmin())]
    shares = {name: float(best[rounds].sum() / best.sum()) for name, rounds in record.in_situation.items()}
    slow = max(shares, key=shares.__getitem__)
    return f"""\
The total is in {DEMONSTRATION.unit}, so the slow link decides: the rounds at {slow} make up {shares[slow]:.1%} of what
the best arm spends. A good choice on a fast link saves little of the total, even if it is faster by a large factor. If
a message on a fast link matters as much to you as one on a slow link, choose a loss that says so: for instance, the
time divided by the time that sending the uncompressed message would take."""


DEMONSTRATION = Demonstration(
    name="compressors",
    title="Compressors under changing link speed",
    unit="milliseconds",
    arms=tuple(COMPRESSORS),
    n_rounds=ROUNDS_PER_PHASE * len(PHASES),
    prepare=Sender,
    measure=measure,
    situation=link,
    about=f"""
A program sends messages, and may compress each one first. On a slow link it pays to compress hard; on a fast link the
message would have arrived before the compressor is done. The speed of the link changes, and nobody tells the program.

An arm is a compressor: zlib (level 6), bz2 (9), lzma (6), zstd (3), lz4 (0), brotli (5), or none at all. Each level is
the default of its library, except for brotli: its default is 11, meant for files that are compressed once and sent
often.

A round is one message of {SMALLEST // 1000} to {LARGEST // 1000} kilobytes, with small ones more frequent: log lines,
JSON records, a web page, counters that are mostly zero, samples of a sensor, or a picture, which is already compressed.
Messages are generated from the seed. The loss is the time until the message is sent: the time that compressing took,
plus the compressed bytes divided by the speed of the link. Compressing is measured on the wall clock, so other work on
the machine counts too. The link is computed, and has no delay except its speed. What the receiver does is not counted.
The speed is one of {", ".join(LINKS)}, and changes after every {ROUNDS_PER_PHASE} messages.
""",
    remarks=remarks,
)

if __name__ == "__main__":
    main(DEMONSTRATION)
