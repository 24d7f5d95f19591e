"""How error messages name the options of reading a table: in Python, in a command, or in a file of experiments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Wording(NamedTuple):
    """How the options of reading a table are written in one of these places."""

    drop: Callable[[Sequence[str]], str]
    allow: str
    reward: str
    missing: Callable[[str | int], str]
    """With a word or a number for what missing losses mean."""
    option: Callable[[str, str], str]
    """With the name of an option and its value, such as round and the name of a column."""
    long: str
    """The options that name the columns of a long table."""


IN_PYTHON = Wording(
    lambda names: f"drop={list(names)!r}",
    "pass suspicious='allow'",
    "pass reward=True",
    lambda missing: f"pass umab.Losses.of(..., missing={missing!r})",
    lambda name, value: f"pass {name}={value!r}",
    "round=, arm= and loss=",
)
IN_A_COMMAND = Wording(
    lambda names: " ".join(f"--drop {shlex.quote(name)}" for name in names),
    "pass --allow-suspicious",
    "pass --reward",
    lambda missing: f"pass --missing {missing}",
    lambda name, value: f"pass --{name} {shlex.quote(value)}",
    "--round, --arm and --loss",
)
IN_A_FILE = Wording(
    lambda names: f"data = {{file = ..., drop = {json.dumps(list(names), ensure_ascii=False)}}}",
    'write data = {file = ..., suspicious = "allow"}',
    "write data = {file = ..., reward = true}",
    lambda missing: f"write data = {{file = ..., missing = {json.dumps(missing)}}}",
    lambda name, value: f"write data = {{file = ..., {name} = {json.dumps(value, ensure_ascii=False)}}}",
    "data = {file = ..., round = ..., arm = ..., loss = ...}",
)
