"""How error messages name the options of reading a file: in Python, in a command, or in a file of experiments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Wording(NamedTuple):
    """How the options of reading a file are written in one of these places."""

    drop: Callable[[Sequence[str]], str]
    allow: str
    reward: str
    away: str


IN_PYTHON = Wording(
    lambda names: f"drop={list(names)!r}", "pass suspicious='allow'", "pass reward=True", "pass missing='away'"
)
IN_A_COMMAND = Wording(
    lambda names: " ".join(f"--drop {shlex.quote(name)}" for name in names),
    "pass --allow-suspicious",
    "pass --reward",
    "pass --missing away",
)
IN_A_FILE = Wording(
    lambda names: f"data = {{file = ..., drop = {json.dumps(list(names), ensure_ascii=False)}}}",
    'write data = {file = ..., suspicious = "allow"}',
    "write data = {file = ..., reward = true}",
    'write data = {file = ..., missing = "away"}',
)
