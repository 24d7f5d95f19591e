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

from examples.demonstration import Demonstration, Record, main

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "zlib": lambda message: zlib.compress(message, level=6),
    "bz2": lambda message: bz2.compress(message, compresslevel=9),
    "lzma": lambda message: lzma.compress(message, preset=6),
    "zstd": lambda message: zstandard.compress(message, level=3),
    "lz4": lambda message: lz4.frame.compress(message, compression_level=0),
    "brotli": lambda message: brotli.compress(message, quality=5),
    "none": lambda message: message,
}
"""The level of each library when none is asked for, except for brotli: there it is 11, for files compressed once."""

LINKS = {"100 kB/s": 1e5, "10 MB/s": 1e7, "1 GB/s": 1e9}
"""Bytes a second."""

PHASES = ("10 MB/s", "1 GB/s", "100 kB/s", "10 MB/s", "100 kB/s", "1 GB/s")
ROUNDS_A_PHASE = 250

SMALLEST, LARGEST = 4_000, 64_000
"""Bytes of a message; small ones are more frequent, as everywhere."""


class Message(NamedTuple):
    """What is to be sent in a round."""

    kind: str
    content: bytes


class Sender:
    """Messages of a few kinds, all made from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = np.random.default_rng([seed, 0])
        self._stock = {kind: make(random) for kind, make in KINDS.items()}
        for compress in COMPRESSORS.values():
            compress(b"the first call may set something up, which is not the cost of a message")

    def message(self, t: int) -> Message:
        """Return the message of round `t`: a piece of the stock of its kind."""
        random = np.random.default_rng([self._seed, 1, t])
        kind = str(random.choice(list(KINDS)))
        size = int(np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST))))
        start = int(random.integers(len(self._stock[kind]) - size))
        return Message(kind, self._stock[kind][start : start + size])


STOCK = 4 * LARGEST
"""Bytes of each kind from which messages are cut."""

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
    return random.poisson(0.05, STOCK // 4).astype("<i4").tobytes()  # nearly all of them zero


def _samples(random: np.random.Generator) -> bytes:
    return np.cumsum(random.integers(-20, 21, STOCK // 2)).astype("<i2").tobytes()  # a sensor that wanders


def _picture(random: np.random.Generator) -> bytes:
    return random.bytes(STOCK)  # to a compressor, what is compressed already is nothing but noise


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
    return PHASES[t // ROUNDS_A_PHASE % len(PHASES)]


def measure(sender: Sender, t: int, arm: str) -> float:
    """Return the milliseconds until the message has gone: compressing is measured, the link is computed."""
    content = sender.message(t).content
    start = time.perf_counter()
    sent = COMPRESSORS[arm](content)
    seconds = time.perf_counter() - start
    return 1e3 * (seconds + len(sent) / LINKS[link(sender, t)])


def remarks(record: Record) -> str:
    """Say which link decides."""
    losses = record.losses
    best = losses.table[:, int(losses.table.sum(axis=0).argmin())]
    shares = {name: float(best[rounds].sum() / best.sum()) for name, rounds in record.in_situation.items()}
    slow = max(shares, key=shares.__getitem__)
    return f"""\
The sum is in {DEMONSTRATION.unit}, so the slow link decides: the rounds at {slow} make up {shares[slow]:.1%} of what
the best arm spends. Choosing well on a fast link saves little of the sum, however large it is as a factor. If a
message on a fast link is as dear to you as one on a slow link, then take the loss for that: the time as a multiple of
what sending the message as it is would take, for instance."""


DEMONSTRATION = Demonstration(
    name="compressors",
    title="Compressors under changing link speed",
    unit="milliseconds",
    arms=tuple(COMPRESSORS),
    n_rounds=ROUNDS_A_PHASE * len(PHASES),
    prepare=Sender,
    measure=measure,
    situation=link,
    about=f"""
A program sends messages, and may compress each of them before. On a slow link it pays to compress hard; on a fast one
the message would be there before the compressor is done. The speed of the link changes, and nobody tells the program.

An arm is a compressor: zlib (level 6), bz2 (9), lzma (6), zstd (3), lz4 (0), brotli (5), or none at all. These are
the levels that each library takes when none is asked for, except for brotli: its own is 11, meant for files that are
compressed once and sent often.

A round is one message of {SMALLEST // 1000} to {LARGEST // 1000} kilobytes, small ones more often: log lines, JSON
records, a web page, counters that are mostly zero, samples of a sensor, or a picture, which is compressed already.
Messages are made from the seed. The loss is the time until the message has gone: the time that compressing took, by
the clock, and the bytes that are left divided by the speed of the link. Compressing is measured, so whatever else the
machine does at the time counts too; the link is computed, and has no delay but its speed. What the receiver does is
not counted. The speed is one of {", ".join(LINKS)}, and changes after every {ROUNDS_A_PHASE} messages.
""",
    remarks=remarks,
)

if __name__ == "__main__":
    main(DEMONSTRATION)
