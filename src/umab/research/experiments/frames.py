"""The results of a sweep as one tidy frame, with one row per cell and one column per parameter."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from umab._support import checks
from umab._support.extras import extra
from umab.research.experiments import parts

if TYPE_CHECKING:
    import pandas
    import polars

PREFIX = "parameter_"
"""What the name of a parameter begins with if a column of another meaning has this name."""


@overload
def read_sweep(folder: str | os.PathLike[str], *, frame: Literal["polars"] = ...) -> polars.DataFrame: ...


@overload
def read_sweep(folder: str | os.PathLike[str], *, frame: Literal["pandas"]) -> pandas.DataFrame: ...


def read_sweep(
    folder: str | os.PathLike[str], *, frame: Literal["polars", "pandas"] = "polars"
) -> polars.DataFrame | pandas.DataFrame:
    """Return the results of a sweep: one row per cell of its grid that is done, and one column per parameter.

    Rows are in the order of the grid. Cells that are not done have no row, and neither do parts of an earlier grid. The
    columns are:

    - id, policy (without parameters), name (with parameters), and the parameters of all policies. A parameter is null
      where a policy does not have it, or where its value is None. A column of parameters holds numbers, truth values or
      texts; if the values are of several kinds, all of them are texts. A parameter with the name of another column is
      called ``parameter_NAME``.
    - data (the label of the table), sha256, n_rounds, n_arms, delay, seed, n_trials.
    - regret, se, sd: mean, standard error and standard deviation of the final expected regret (pseudo-regret).
    - final_regret: a list with the regret of each trial. round, mean_curve, sd_curve: lists with the points of the
      regret curve. ``explode`` turns lists into rows, in both libraries.
    - versions: what the numbers were computed with, as JSON.

    Parameters
    ----------
    folder
        The folder that `umab sweep` has written.
    frame
        "polars", which needs the extra ``[data]``, or "pandas", which also needs pandas but not PyArrow.
    """
    checks.one_of("frame", frame, ("polars", "pandas"))
    with extra("data", "reading a sweep"):
        import polars  # noqa: F401, so that a missing extra is named before anything else
    if frame == "pandas":
        with extra("notebook", "read_sweep(frame='pandas')"):
            import pandas

    place = Path(folder)
    content = parts.described(place) if (place / "sweep.json").is_file() else None
    if content is None:
        raise FileNotFoundError(
            f"the folder of a sweep must have a file sweep.json of umab, but {str(place)!r} has none"
        )
    done = parts.done(place)
    ids = [id for id in content["cells"] if id in done]
    if not ids:
        raise ValueError(f"a sweep must have a cell that is done, but {str(place)!r} has none")
    rows = parts.read_parts(ids, place)

    values = [json.loads(text) for text in rows["parameters"]]
    others = [name for name in rows.columns if name != "parameters"]
    named = _named(list(dict.fromkeys(key for each in values for key in each)), others)
    columns = [_column(name, [each.get(key) for each in values]) for key, name in named.items()]
    at = others.index("name") + 1
    tidy = rows.select(*others[:at], *columns, *others[at:])
    return tidy if frame == "polars" else pandas.DataFrame({each.name: _as_pandas(each) for each in tidy})


def _named(parameters: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of the columns of parameters, all different and none of them taken."""
    found: dict[str, str] = {}
    for parameter in parameters:
        name = parameter
        while name in taken or name in found.values() or (name != parameter and name in parameters):
            name = PREFIX + name
        found[parameter] = name
    return found


def _column(name: str, values: list[Any]) -> polars.Series:
    """Return a column of parameters, with the narrowest type for all of its values."""
    import polars

    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return polars.Series(name, values, polars.Null)
    if kinds == {bool}:
        return polars.Series(name, values, polars.Boolean)
    if kinds == {int} and all(abs(value) < 2**63 for value in values if value is not None):
        return polars.Series(name, values, polars.Int64)
    if kinds <= {int, float}:
        return polars.Series(name, [None if value is None else float(value) for value in values], polars.Float64)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return polars.Series(name, texts, polars.String)


def _as_pandas(column: polars.Series) -> pandas.Series:
    """Return a column for pandas. Polars would need PyArrow for it."""
    import pandas
    import polars

    nullable = {polars.Int64: "Int64", polars.Boolean: "boolean"}
    plain = {polars.Int64: "int64", polars.Boolean: "bool", polars.Float64: "float64"}
    kinds: Any = plain if column.null_count() == 0 else plain | nullable
    found: pandas.Series = pandas.Series(column.to_list(), dtype=kinds.get(column.dtype))
    return found
