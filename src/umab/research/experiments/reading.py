"""What the files of experiments and of sweeps share: reading them, finding their losses, and errors that name them."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from umab import datasets
from umab._support import checks
from umab.datasets.suite_tables import entries
from umab.tables.losses import Losses
from umab.tables.losses import losses_of as table_of
from umab.tables.missing import as_missing
from umab.tables.wording import IN_A_FILE

Read = TypeVar("Read")


def read(path: str | Path, of: Callable[[str, Mapping[str, object], Path], Read]) -> Read:
    """Read a TOML file, and return what `of` makes from its name without the ending, its content and its folder."""
    path = Path(path)
    try:
        return of(path.stem, tomllib.loads(path.read_text(encoding="utf-8")), path.parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise ValueError(f"in {str(path)!r}: {error}") from None


def data_of(data: object, folder: Path) -> dict[str, Any]:
    """Return what `losses_of` needs: a data set with its parameters, or a file with its options."""
    if isinstance(data, str):
        return {"file": str(folder / data)}
    if isinstance(data, Mapping) and isinstance(data.get("name"), str):
        datasets.check(**data)
        return dict(data)
    if isinstance(data, Mapping) and isinstance(data.get("suite"), str):
        refuse_unknown(data, ("suite", "seed"), where=" in data")
        checks.one_of("suite", data["suite"], tuple(entry.name for entry in entries()))
        return dict(data)
    if not isinstance(data, Mapping) or not isinstance(data.get("file"), str):
        raise TypeError(
            "data must be the path of a file, or a table like {name = 'stocks'}, {suite = 'outliers'} or "
            f"{{file = 'losses.csv'}}, but got {data!r}"
        )
    names = ("round", "arm", "loss")
    refuse_unknown(data, ("file", "reward", "drop", "suspicious", "missing", "decimal", *names), where=" in data")
    if not isinstance(data.get("reward", False), bool | str):
        raise TypeError(f"reward must be true, false or the name of a column, but got {data['reward']!r}")
    for name in names:
        as_text(name, data.get(name, ""))
    checks.one_of("decimal", data.get("decimal", "."), (".", ","))
    drop = [as_text("drop", name) for name in as_list("drop", data.get("drop", []))]
    checks.one_of("suspicious", data.get("suspicious", "refuse"), ("refuse", "allow"))
    as_missing(data.get("missing", "refuse"))
    return {**data, "file": str(folder / data["file"]), "drop": drop}


def losses_of(data: Mapping[str, Any], real: bool | None = None, seed: int | None = None) -> Losses:
    """Return the losses; `real` as for `umab.datasets.load`, and `seed` for a data set that is drawn at random."""
    parameters = dict(data)
    if "file" in parameters:
        return table_of(parameters.pop("file"), IN_A_FILE, **parameters)
    if "suite" in parameters:
        name = parameters["suite"]
        chosen = parameters.get("seed", 0) if seed is None else seed
        return datasets.suite(names=[name], seed=chosen, real=real)[name]
    name = parameters.pop("name")
    if seed is not None and datasets.takes(name, "seed"):
        parameters["seed"] = seed
    return datasets.load(name, real=real, **parameters)


def refuse_unknown(content: Mapping[str, object], known: tuple[str, ...], where: str = "") -> None:
    """Refuse an unknown key, and suggest the one that may be meant."""
    for key in content:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; the keys are {', '.join(known)}"
            raise ValueError(f"there is no key {key!r}{where}{hint}")


def as_text(key: str, value: object) -> str:
    """Return `value` if it is text."""
    if not isinstance(value, str):
        raise TypeError(f"{key} must be text, but got {value!r}")
    return value


def as_list(key: str, value: object) -> list[object]:
    """Return `value` if it is a list."""
    if not isinstance(value, list):
        raise TypeError(f"{key} must be a list, but got {value!r}")
    return value
