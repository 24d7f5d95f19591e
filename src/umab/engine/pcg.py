"""The stream of a trial in plain arithmetic, for devices on which NumPy does not run: the same numbers, bit for bit.

`umab.engine.streams` draws from PCG64 (O'Neill 2014), seeded by a SeedSequence. Both are 32-bit and 128-bit integer
arithmetic. Here all integers are split into words of 32 bits, each in an integer of 64 bits. The product of two words
may have the sign bit, but shifts and masks give the right words of it all the same; so this file means the same to
Python, whose integers have no bounds, and to a compiler, whose integers wrap around.

A generator is an array of 8 words: the state, lowest word first, and then the increment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

GENERATOR_SIZE = 8

_WORD = 0xFFFFFFFF
# The multiplier of PCG64, 0x2360ED051FC65DA44385DF649FCCF645, lowest word first.
_M0, _M1, _M2, _M3 = 0x9FCCF645, 0x4385DF64, 0x1FC65DA4, 0x2360ED05
# The constants of SeedSequence.
_FIRST_A, _TIMES_A, _FIRST_B, _TIMES_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = 0xCA01F9DD, 0x4973F715
_TO_UNIT = 1.0 / 9007199254740992.0


def pool_of(seed: int) -> npt.NDArray[np.int64]:
    """Return what all trials of a seed share: the pool of the SeedSequence, 4 words, and its next constant."""
    n_words = max(4, -(-seed.bit_length() // 32))
    n_hashed = 4 * n_words  # each word into each of the pool; of the first four, one is what the word itself becomes
    constant = _FIRST_A * pow(_TIMES_A, n_hashed, _WORD + 1) & _WORD
    return np.array([*np.random.SeedSequence(seed).pool, constant], dtype=np.int64)


def seed_generator(generator: Any, pool: Any, trial: int) -> None:
    """Fill in the generator of a trial, whose number has one word, from the pool of the seed."""
    constant = pool[4]
    for k in range(4):
        value, constant = _hashed(trial, constant, _TIMES_A)
        generator[k] = _mixed(pool[k], value)
    # Four numbers of 64 bits, highest first: two are where the state begins, and two, doubled and odd, the increment.
    constant = _FIRST_B
    for k in range(4):
        generator[4 + k], constant = _hashed(generator[k], constant, _TIMES_B)
    a0, a1, a2, a3 = generator[4], generator[5], generator[6], generator[7]
    for k in range(4):
        generator[4 + k], constant = _hashed(generator[k], constant, _TIMES_B)
    b0, b1, b2, b3 = generator[4], generator[5], generator[6], generator[7]
    generator[4] = ((b2 << 1) & _WORD) | 1
    generator[5] = ((b3 << 1) & _WORD) | (b2 >> 31)
    generator[6] = ((b0 << 1) & _WORD) | (b3 >> 31)
    generator[7] = ((b1 << 1) & _WORD) | (b0 >> 31)
    # From a state of 0 a step leads to the increment; then the beginning is added.
    total = generator[4] + a2
    generator[0] = total & _WORD
    total = generator[5] + a3 + (total >> 32)
    generator[1] = total & _WORD
    total = generator[6] + a0 + (total >> 32)
    generator[2] = total & _WORD
    generator[3] = (generator[7] + a1 + (total >> 32)) & _WORD
    _step(generator)


def next_uniform(generator: Any) -> float:
    """Return the next number in [0, 1)."""
    _step(generator)
    low, high = generator[0] ^ generator[2], generator[1] ^ generator[3]
    turn = generator[3] >> 26
    if turn >= 32:
        low, high = high, low
    turn &= 31
    turned_low = ((low >> turn) | (high << (32 - turn))) & _WORD
    turned_high = ((high >> turn) | (low << (32 - turn))) & _WORD
    return float((turned_high << 21) | (turned_low >> 11)) * _TO_UNIT


def _step(generator: Any) -> None:
    """Multiply the state by the multiplier and add the increment, modulo 2 to the 128."""
    s0, s1, s2, s3 = generator[0], generator[1], generator[2], generator[3]
    # Long multiplication. A product of words plus two more words is below 2 to the 64.
    t = s0 * _M0 + generator[4]
    r0 = t & _WORD
    t = s1 * _M0 + generator[5] + ((t >> 32) & _WORD)
    r1 = t & _WORD
    t = s2 * _M0 + generator[6] + ((t >> 32) & _WORD)
    r2 = t & _WORD
    t = s3 * _M0 + generator[7] + ((t >> 32) & _WORD)
    r3 = t & _WORD
    t = s0 * _M1 + r1
    r1 = t & _WORD
    t = s1 * _M1 + r2 + ((t >> 32) & _WORD)
    r2 = t & _WORD
    r3 += s2 * _M1 + ((t >> 32) & _WORD)
    t = s0 * _M2 + r2
    r2 = t & _WORD
    r3 += s1 * _M2 + ((t >> 32) & _WORD) + s0 * _M3
    generator[0], generator[1], generator[2], generator[3] = r0, r1, r2, r3 & _WORD


def _hashed(value: int, constant: int, times: int) -> tuple[int, int]:
    """Return the hash of a word, and the next constant."""
    value ^= constant
    constant = (constant * times) & _WORD
    value = (value * constant) & _WORD
    return value ^ (value >> 16), constant


def _mixed(x: int, y: int) -> int:
    """Return a word made of two."""
    value = (_MIX_LEFT * x - _MIX_RIGHT * y) & _WORD
    return value ^ (value >> 16)
