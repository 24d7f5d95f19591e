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
    missing: Callable[[str | int], str]
    """With a word or a number for what missing losses mean."""


IN_PYTHON = Wording(
    lambda names: f"drop={list(names)!r}",
    "pass suspicious='allow'",
    "pass reward=True",
    lambda missing: f"pass umab.Losses.of(..., missing={missing!r})",
)
IN_A_COMMAND = Wording(
    lambda names: " ".join(f"--drop {shlex.quote(name)}" for name in names),
    "pass --allow-suspicious",
    "pass --reward",
    lambda missing: f"pass --missing {missing}",
)
IN_A_FILE = Wording(
    lambda names: f"data = {{file = ..., drop = {json.dumps(list(names), ensure_ascii=False)}}}",
    'write data = {file = ..., suspicious = "allow"}',
    "write data = {file = ..., reward = true}",
    lambda missing: f"write data = {{file = ..., missing = {json.dumps(missing)}}}",
)
