"""The demonstration with compressors: what is sent can be read again, and the loss is what it is said to be."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import brotli
import lz4.frame
import numpy as np
import pytest
import zstandard
from examples import compressors
from examples.compressors import COMPRESSORS, DEMONSTRATION, KINDS, LARGEST, LINKS, PHASES, ROUNDS_PER_PHASE, SMALLEST
from examples.measuring import read_record, run, write_record

DECOMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "zlib": zlib.decompress,
    "bz2": bz2.decompress,
    "lzma": lzma.decompress,
    "zstd": zstandard.decompress,
    "lz4": lz4.frame.decompress,
    "brotli": brotli.decompress,
    "none": bytes,
}


@pytest.fixture(scope="module")
def sender() -> compressors.Sender:
    return compressors.Sender(seed=1)


def test_what_is_sent_can_be_read_again(sender: compressors.Sender) -> None:
    assert DECOMPRESSORS.keys() == COMPRESSORS.keys()
    for t in range(12):
        message = sender.message(t).content
        for name, compress in COMPRESSORS.items():
            sent = compress(message)
            assert DECOMPRESSORS[name](sent) == message, name


def test_compressors_make_messages_smaller_but_for_pictures(sender: compressors.Sender) -> None:
    for t in range(30):
        kind, message = sender.message(t)
        for name in COMPRESSORS.keys() - {"none"}:
            ratio = len(COMPRESSORS[name](message)) / len(message)
            assert 0.99 < ratio < 1.2 if kind == "a picture" else ratio < 1.001, (name, kind)


def test_messages_come_from_the_seed(sender: compressors.Sender) -> None:
    messages = [sender.message(t) for t in range(200)]
    assert {each.kind for each in messages} == KINDS.keys()
    sizes = [len(each.content) for each in messages]
    assert SMALLEST <= min(sizes) < 2 * SMALLEST and LARGEST / 2 < max(sizes) <= LARGEST
    same, other = compressors.Sender(seed=1), compressors.Sender(seed=2)
    assert messages == [same.message(t) for t in range(200)]
    assert not {each.content for each in messages} & {other.message(t).content for t in range(200)}
    assert sizes[:9] != [len(other.message(t).content) for t in range(9)]


@pytest.mark.parametrize("phase", range(len(PHASES)))
@pytest.mark.parametrize("arm", ["lzma", "none"])
def test_the_loss_is_the_time_of_compressing_and_that_of_the_link(
    sender: compressors.Sender, monkeypatch: pytest.MonkeyPatch, phase: int, arm: str
) -> None:
    clock = iter([100.0, 100.25])
    monkeypatch.setattr(compressors, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    t = phase * ROUNDS_PER_PHASE + ROUNDS_PER_PHASE - 1
    sent = COMPRESSORS[arm](sender.message(t).content)
    assert compressors.measure(sender, t, arm) == pytest.approx(250.0 + 1000.0 * len(sent) / LINKS[PHASES[phase]])
    assert DEMONSTRATION.situation(sender, t) == PHASES[phase]


def test_a_small_run_is_really_measured(tmp_path: Path) -> None:
    write_record(run(DEMONSTRATION, n_rounds=5, seed=1, progress=False), tmp_path / "record")
    record = read_record(tmp_path / "record")
    sender = compressors.Sender(seed=1)
    for t in range(5):
        for k, arm in enumerate(record.losses.arms):
            link_alone = 1000.0 * len(COMPRESSORS[arm](sender.message(t).content)) / LINKS[PHASES[0]]
            assert record.losses.table[t, k] > link_alone * (1.0 - 1e-5)  # files have six digits
    none = record.losses.table[:, record.losses.arms.index("none")]
    lzma_ = record.losses.table[:, record.losses.arms.index("lzma")]
    assert np.median(lzma_ / none) > 1.0  # to compress that hard takes longer than a link of 10 MB/s for all of it
    assert "100.0%" in DEMONSTRATION.remarks(record)  # all rounds have one link
