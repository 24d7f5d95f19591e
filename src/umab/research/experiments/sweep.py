"""Sweep: a grid of policies, parameters, tables, delays and seeds, written as a TOML file, and its cells.

The file's name is the sweep's id. ::

    title = "Rates of UMAB-G-A"
    trials = 100
    seeds = [0, 1, 2]                 # of the draws; default: [0]
    data = [                          # one, or a list
        "latencies.csv",              # beside this file
        {file = "sales.csv", reward = true, drop = ["date"]},  # missing = "away": empty cells are arms that are away
        {name = "stochastic", seed = [0, 1, 2]},  # one of umab.datasets; a list of values is an axis
        {suite = "outliers"},         # a table of the suite, or "development" or "validation" for a whole half
    ]
    policies = ["recommended", "umab-nn", "uniform"]

    [grid.umab-g-a]                   # a list is an axis, a single value is fixed
    rate = [0.25, 1, 4]
    initial_scale = [0.1, 1, 10]

Another key is ``delays = [0, 10]``: by how many rounds losses are late (default: ``[0]``).

A cell is one policy with all its parameters on one table, with one delay and one seed. Its id is a digest of what its
numbers depend on, so a grid that has grown keeps the cells that it had, and a renamed table keeps its cells.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.names import policy_as_written as policy_of
from umab.algorithms.names import with_texts
from umab.datasets.suite_tables import Half, entries
from umab.engine.exact import has_same_bits_everywhere
from umab.engine.simulate import takes
from umab.engine.work import Device, versions
from umab.research.experiments import reading
from umab.research.experiments.reading import as_list, as_text, data_of, losses_of, refuse_unknown
from umab.tables.losses import Losses

FORMAT = "umab.Sweep"
VERSION = 1

_KEYS = ("title", "trials", "seeds", "delays", "data", "policies", "grid")
_HALVES: tuple[Half, ...] = ("development", "validation")


class Table(NamedTuple):
    """What is known about a loss table without loading it."""

    label: str
    digest: str
    n_rounds: int
    n_arms: int
    source: str
    stand_in: bool
    n_away: int = 0
    """In how many cells, pairs of a round and an arm, the arm is away."""

    @property
    def size(self) -> int:
        """How many bytes its numbers take."""
        return 8 * self.n_rounds * self.n_arms

    def described(self) -> dict[str, object]:
        """Return what is known, for readers of files; how many cells are away is left out if there are none."""
        return {key: value for key, value in self._asdict().items() if key != "n_away" or value}


class Cell(NamedTuple):
    """One run of a sweep, with all that a worker needs to know about it."""

    policy: str
    """In the form that `umab.policy` reads, with all parameters that differ from their defaults."""
    table: Table
    delay: int
    seed: int
    n_trials: int
    versions: tuple[tuple[str, str], ...]
    """The versions of software on which its bits may depend."""
    device: Device = "cpu"

    @property
    def id(self) -> str:
        """A digest of exactly what the numbers depend on.

        The device is part of it only if the policy may have other bits there.
        """
        content = [FORMAT, VERSION, self.policy, self.table.digest, self.delay, self.seed, self.n_trials, self.versions]
        if self.device != "cpu" and not _has_same_bits_everywhere(self.policy):
            content.append(self.device)
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]

    @property
    def n_rounds(self) -> int:
        """How many rounds its trials have together."""
        return self.n_trials * self.table.n_rounds

    def __str__(self) -> str:
        """Name the cell."""
        return f"{self.policy} on {column(self.table.label, self.delay)} with seed {self.seed}"


@functools.cache
def _has_same_bits_everywhere(policy: str) -> bool:
    """Whether a policy with this name has the same bits on every device; ids are asked for again and again."""
    return has_same_bits_everywhere(policy_of(policy))


class Entry(NamedTuple):
    """A policy of the file, with its points in the grid."""

    name: str
    """As it is shown: the policy, or the best point of its grid."""
    axes: tuple[str, ...]
    points: Mapping[tuple[object, ...], str]
    """The names of the policies, with their parameters, by the values on the axes."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep as its file describes it; see the docstring of this module."""

    id: str
    title: str
    n_trials: int
    seeds: tuple[int, ...]
    delays: tuple[int, ...]
    data: Mapping[str, Mapping[str, object]]
    """Where the losses come from, by the label of the table."""
    policies: tuple[Entry, ...]

    @classmethod
    def read(cls, path: str | Path) -> Sweep:
        """Return the sweep in a TOML file."""
        return reading.read(path, lambda id, content, folder: cls.of(id, content, folder=folder))

    @classmethod
    def of(cls, id: str, content: Mapping[str, object], *, folder: Path = Path()) -> Sweep:
        """Return the sweep that a file with this content describes; paths in it are relative to `folder`."""
        refuse_unknown(content, _KEYS)
        if "data" not in content:
            raise ValueError("a sweep must have a key 'data', but there is none")
        return cls(
            id=id,
            title=as_text("title", content.get("title", id)),
            n_trials=checks.whole("trials", content.get("trials", 500), least=1, most=10**9),
            seeds=_numbers("seeds", content.get("seeds", [0])),
            delays=_numbers("delays", content.get("delays", [0])),
            data=_data(content["data"], folder),
            policies=_entries(content.get("policies", []), content.get("grid", {})),
        )


@dataclass(frozen=True)
class Grid:
    """The cells of a sweep on its tables."""

    sweep: Sweep
    tables: tuple[Table, ...]
    refused: tuple[tuple[str, str], ...]
    """Policies, each with the label of a table whose losses it does not accept; there are no cells for these.

    A policy that sees the losses of all arms does not accept a table in which some are away.
    """
    same: tuple[tuple[str, str], ...]
    """Labels of tables, each with the label of an earlier table that is the same; such a table is run once."""
    device: Device = "cpu"

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """All cells by their ids; a cell that the file describes twice is there once."""
        about = tuple(versions().items())
        refused = set(self.refused)
        # Tables come first, so that a sweep that is stopped has some tables done rather than a little of each.
        found = (
            Cell(policy, table, delay, seed, self.sweep.n_trials, about, self.device)
            for table in self.tables
            for delay in self.sweep.delays
            for policy in self.policies
            if (policy, table.label) not in refused
            for seed in self.sweep.seeds
        )
        return {cell.id: cell for cell in found}

    @property
    def policies(self) -> list[str]:
        """All policies with their parameters, each once."""
        return list(dict.fromkeys(text for entry in self.sweep.policies for text in entry.points.values()))

    def as_json(self) -> bytes:
        """Return a description of the grid for readers of its parts, with the ids of its cells."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "title": self.sweep.title,
            "n_trials": self.sweep.n_trials,
            "seeds": self.sweep.seeds,
            "delays": self.sweep.delays,
            "tables": [table.described() for table in self.tables],
            "policies": [
                {"name": each.name, "axes": each.axes, "points": list(each.points.items())}
                for each in self.sweep.policies
            ],
            "refused": self.refused,
            "versions": versions(),
            **({"device": self.device} if self.device != "cpu" else {}),
            "cells": list(self.cells),
        }
        return json.dumps(content, indent=1).encode()


def grid_of(
    sweep: Sweep,
    real: bool | None = None,
    keep: Callable[[Losses], None] = lambda losses: None,
    device: Device = "cpu",
) -> Grid:
    """Return the cells of a sweep on its tables; `real` as for `umab.datasets.load`.

    Tables are loaded one at a time, so that only one has to be in memory. `keep` is called with each.
    """
    policies = {text: policy_of(text) for entry in sweep.policies for text in entry.points.values()}
    tables: dict[str, Table] = {}
    refused: list[tuple[str, str]] = []
    same: list[tuple[str, str]] = []
    with Progress(len(sweep.data), "reading tables", unit="tables") as bar:
        for label, data in sweep.data.items():
            losses = losses_of(data, real)
            stand_in = bool(losses.provenance.get("stand_in"))
            label = f"{label} (stand-in)" if stand_in else label
            if losses.digest in tables:
                same.append((label, tables[losses.digest].label))
            else:
                size = losses.n_rounds, losses.n_arms
                table = Table(label, losses.digest, *size, losses.source, stand_in, losses.n_away)
                tables[losses.digest] = table
                refused += [(text, label) for text, policy in policies.items() if not takes(policy, losses)]
                keep(losses)
            bar.advance(1)
    grid = Grid(sweep, tuple(tables.values()), tuple(refused), tuple(same), device)
    if not grid.cells:
        raise ValueError("there must be at least one cell to run, but no policy accepts the losses of any table")
    return grid


def column(label: str, delay: int) -> str:
    """Return the name of a table with a delay."""
    return f"{label}, delay {delay}" if delay else label


def base_name(policy: str) -> str:
    """Return the name of a policy without its parameters.

    Examples
    --------
    >>> from umab.research.experiments.sweep import base_name
    >>> base_name("centred(umab-s:rate=2)"), base_name("umab-g-a:rate=4"), base_name("package.module:Class:rate=4")
    ('centred(umab-s)', 'umab-g-a', 'package.module:Class')
    """
    return re.sub(r":\w+=[^()]*", "", policy)


def _numbers(key: str, values: object) -> tuple[int, ...]:
    numbers = [checks.whole(key, value, least=0, most=2**63 - 1) for value in as_list(key, values)]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"{key} must be one or more different numbers, but got {values!r}")
    return tuple(numbers)


def _data(given: object, folder: Path) -> dict[str, Mapping[str, object]]:
    """Return data sources by labels that differ."""
    found: dict[str, Mapping[str, object]] = {}
    for one in given if isinstance(given, list) else [given]:
        for label, source in _expanded(one, folder):
            if label in found:
                raise ValueError(f"data must be different tables, but got {label!r} twice")
            found[label] = source
    if not found:
        raise ValueError("there must be at least one table to run on, but got data=[]")
    return found


def _expanded(given: object, folder: Path) -> Iterable[tuple[str, Mapping[str, object]]]:
    """Yield the tables of a source with their labels: a list of values is an axis, a half stands for its tables."""
    if not isinstance(given, Mapping) or "file" in given:
        options = dict(given) if isinstance(given, Mapping) else {"file": given}
        label = " ".join([str(options.pop("file")), *(f"{key}={value}" for key, value in options.items())])
        yield label, data_of(given, folder)
        return
    lists = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
    for key, axis in lists.items():
        if not axis:
            raise ValueError(f"{key} in data must have a value, but got an empty list")
    if "suite" in lists:
        halves = {half: [entry.name for entry in entries(half)] for half in _HALVES}
        lists["suite"] = [name for one in lists["suite"] for name in halves.get(one, [one])]
    for values in itertools.product(*lists.values()):
        source = dict(zip(lists, values, strict=True))
        name = source.get("name", source.get("suite"))
        told = [f"{key}={value}" for key, value in source.items() if key not in ("name", "suite")]
        yield " ".join([str(name), *told]), data_of(source, folder)


def _entries(policies: object, grid: object) -> tuple[Entry, ...]:
    if not isinstance(grid, Mapping):
        raise TypeError(f"grid must be tables [grid.POLICY], but got {grid!r}")
    found = []
    for text in as_list("policies", policies):
        name = policy_of(as_text("policies", text)).name
        found.append(Entry(name, (), {(): name}))
    for name, own in grid.items():
        if not isinstance(own, Mapping):
            raise TypeError(f"the grid of {name!r} must be a table, [grid.{name}], but got {own!r}")
        found.append(_entry(name, own))
    names = [entry.name for entry in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"policies must differ, but got {name!r} twice")
    if not found:
        raise ValueError("there must be at least one policy to run, but there is none in policies or in grid")
    return tuple(found)


def _entry(name: str, own: Mapping[str, object]) -> Entry:
    plain = policy_of(name).name  # refuses an unknown name, and resolves 'recommended'
    if "=" in name:
        raise ValueError(f"parameters must be in the table of a grid, not in its name, but got {name!r}")
    for key, value in own.items():
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, (bool, int, float, str)):
                raise TypeError(f"{key} of {name!r} must be a number, a text or a list of these, but got {one!r}")
            if isinstance(one, str) and not re.fullmatch(r"[\w.+-]*", one):
                raise ValueError(f"{key} of {name!r} must be a number or a word, but got {one!r}")
        if value == []:
            raise ValueError(f"{key} of {name!r} must have a value, but got an empty list")
    axes = {key: value for key, value in own.items() if isinstance(value, list)}
    fixed = {key: value for key, value in own.items() if not isinstance(value, list)}
    points = {
        values: _with_parameters(plain, {**fixed, **dict(zip(axes, values, strict=True))})
        for values in itertools.product(*axes.values())
    }
    shown = _with_parameters(plain, fixed) if _is_complete(plain, fixed) else plain
    return Entry(f"{shown}, best of {len(points)}" if axes else shown, tuple(axes), points)


def _is_complete(plain: str, fixed: Mapping[str, object]) -> bool:
    """Whether the fixed parameters alone make a policy: some parameters are valid only together."""
    try:
        _with_parameters(plain, fixed)
    except ValueError:
        return False
    return True


def _with_parameters(plain: str, values: Mapping[str, object]) -> str:
    """Return the name of a policy with parameters; a wrapper passes those it does not know to the policy inside."""
    return with_texts(policy_of(plain), {key: str(value) for key, value in values.items()}, plain).name
