"""The losses of the paper's experiments, by name, and `suite`, a suite of tables that differ in kind.

| name | arms | losses |
|---|---|---|
| `stocks` | 10 stocks | what a share lost in a day, in percent of its first price |
| `sales` | 10 stores | the weekly sales of a department, as losses below 0 |
| `selection` | 10 learning rates | the training error of a linear regression |
| `bad_losses` | 2 | the arm that looks worse at first is the better one later |
| `stochastic` | 2 | normal, with means that differ by 1 |

Each has 1258 rounds. Where the paper's text and its figures use different data, ``setting`` chooses: ``"printed"`` or
``"figure"``. `stocks` and `sales` come from public tables, which `umab.datasets.sources` finds or downloads. If a table
is not available, a stand-in takes its place and says so; the stand-in for `stocks` has 1257 rounds.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable

from umab._support.checks import shown
from umab.datasets.sales import sales
from umab.datasets.selection import selection
from umab.datasets.stocks import stocks
from umab.datasets.suite_tables import suite
from umab.datasets.synthetic import bad_losses, stochastic
from umab.tables.losses import Losses

__all__ = ["DATASETS", "bad_losses", "check", "load", "sales", "selection", "stochastic", "stocks", "suite", "takes"]

DATASETS: dict[str, Callable[..., Losses]] = {
    "stocks": stocks,
    "sales": sales,
    "selection": selection,
    "bad_losses": bad_losses,
    "stochastic": stochastic,
}
"""The data sets by name."""


def load(name: str, *, real: bool | None = None, **parameters: object) -> Losses:
    """Return the data set of this name.

    Parameters
    ----------
    name
        One of `DATASETS`.
    real
        True for a public table or an error, False for its stand-in, None for the table if it is available. Data sets
        that do not come from a table ignore it.
    **parameters
        The parameters of the data set.

    Examples
    --------
    >>> import umab.datasets
    >>> umab.datasets.load("stochastic", setting="figure", seed=1).source
    'normal losses of means -1 and 0 and standard deviation 1, drawn with seed 1'
    """
    check(name, **parameters)
    if takes(name, "real"):
        parameters["real"] = real
    return DATASETS[name](**parameters)


def check(name: str, **parameters: object) -> None:
    """Raise an error if there is no data set of this name, or if it does not take these parameters."""
    if not isinstance(name, str) or name not in DATASETS:
        raise ValueError(
            f"a data set must be one of {', '.join(DATASETS)}, but got {shown(name)}{_hint(name, DATASETS)}"
        )
    known = [each for each in inspect.signature(DATASETS[name]).parameters if each != "real"]
    for given in parameters:
        if given not in known:
            rule = f"takes {', '.join(known)}" if known else "takes no parameters"
            raise ValueError(f"the data set {name} {rule}, but got {given!r}{_hint(given, known)}")


def takes(name: str, parameter: str) -> bool:
    """Whether the data set of this name takes this parameter."""
    return name in DATASETS and parameter in inspect.signature(DATASETS[name]).parameters


def _hint(given: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(given), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
